#define _GNU_SOURCE
#include "run/frozen.h"
#include <sys/mman.h>
#include "base/arena.h"

void *frozen_alloc(size_t bytes)
{
    if (arena_should_fail()) return NULL;
    void *p = mmap(NULL, bytes + !bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    if (bytes >= 4u << 20) madvise(p, bytes, MADV_HUGEPAGE);      /* as NumPy does; advice may be refused */
    return p;
}

bool frozen_seal(void *p, size_t bytes) { return mprotect(p, bytes + !bytes, PROT_READ) == 0; }

void frozen_free(void *p, size_t bytes)
{
    if (p) munmap(p, bytes + !bytes);
}
