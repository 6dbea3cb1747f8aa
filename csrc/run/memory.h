/* The caching allocator of results and temporaries: size classes, 64-byte alignment, a bound on what is kept.
 *
 * Thread-safe. mem_alloc'ed blocks know their size. PYXLA_CHECK=1 ends every block at a guard page instead (no cache). */
#pragma once
#include <stdbool.h>
#include <stddef.h>

void *mem_alloc(size_t bytes);            /* at least 1 byte; NULL if there is none (tests: mem_fail_at) */
void *mem_calloc(size_t bytes);
void *mem_realloc(void *p, size_t bytes); /* p from mem_alloc; NULL leaves p alone */
void mem_free(void *p);                   /* NULL is fine */

typedef struct { size_t in_use, cached, peak, limit, allocations, reused; } MemInfo;
MemInfo mem_info(void);
size_t mem_trim(void);                    /* gives all cached blocks back; the bytes */
void mem_limit(size_t bytes);             /* most bytes kept for reuse; PYXLA_CACHE_BYTES, default 1/8 of memory, at most 2 GiB */
void mem_fail_at(long n);                 /* tests: the n-th mem_alloc from now on fails */
