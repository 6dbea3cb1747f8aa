#include "base/arena.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 16, FIRST_CHUNK = 8 << 10, LAST_CHUNK = 1 << 20, FIRST_ITEMS = 16, FIRST_BYTES = 1 << 10 };

typedef struct Chunk Chunk;
struct Chunk {
    Chunk *prev;
    size_t size, used;             /* of data, in bytes */
    _Alignas(ALIGN) char data[];
};

struct Arena {
    Err *err;
    Chunk *chunk;                  /* the newest; only it has room */
    size_t used;
};

static atomic_long fail_countdown;

void arena_fail_at(long n) { atomic_store(&fail_countdown, n); }

bool arena_should_fail(void)
{
    long n = atomic_load_explicit(&fail_countdown, memory_order_relaxed);
    if (n == 0 || n == -1)
        return n != 0;
    return n > 0 ? atomic_fetch_sub(&fail_countdown, 1) == 1 : atomic_fetch_add(&fail_countdown, 1) == -1;
}

static Chunk *chunk_new(Chunk *prev, size_t size)
{
    /* calloc: large chunks come from the system zeroed, which costs nothing. */
    Chunk *c = size > SIZE_MAX / 2 ? NULL : calloc(1, sizeof *c + size);
    if (!c)
        return NULL;
    c->prev = prev;
    c->size = size;
    return c;
}

Arena *arena_new(Err *err)
{
    Chunk *c = arena_should_fail() ? NULL : chunk_new(NULL, FIRST_CHUNK);
    if (!c) {
        err_set(err, ERR_MEMORY, "out of memory");
        return NULL;
    }
    Arena *a = (Arena *)c->data;
    c->used = (sizeof *a + ALIGN - 1) / ALIGN * ALIGN;
    *a = (Arena){ .err = err, .chunk = c };
    return a;
}

void arena_free(Arena *a)
{
    if (!a)
        return;
    for (Chunk *c = a->chunk, *prev; c; c = prev) {
        prev = c->prev;
        free(c);
    }
}

static size_t aligned(size_t bytes) { return (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1); }

static void *out_of_memory(Arena *a, size_t bytes)
{
    err_set(a->err, ERR_MEMORY, "out of memory: no room for %zu bytes more while compiling", bytes);
    return NULL;
}

void *arena_alloc(Arena *a, size_t bytes)
{
    if (arena_should_fail() || bytes > SIZE_MAX / 4)
        return out_of_memory(a, bytes);
    size_t need = aligned(bytes ? bytes : 1);
    Chunk *c = a->chunk;
    if (c->size - c->used < need) {
        size_t size = c->size < LAST_CHUNK ? 2 * c->size : LAST_CHUNK;
        c = chunk_new(a->chunk, size > need ? size : need);
        if (!c)
            return out_of_memory(a, bytes);
        a->chunk = c;
    }
    void *p = c->data + c->used;
    c->used += need;
    a->used += need;
    return p;
}

void *arena_dup(Arena *a, const void *src, size_t bytes)
{
    void *p = arena_alloc(a, bytes);
    if (p && bytes)
        memcpy(p, src, bytes);
    return p;
}

/* Whether the block is the last of the newest chunk and can grow where it is. */
static bool grow_in_place(Arena *a, void *old, size_t old_bytes, size_t new_bytes)
{
    Chunk *c = a->chunk;
    if (!old || !old_bytes || (char *)old + aligned(old_bytes) != c->data + c->used)
        return false;
    size_t more = aligned(new_bytes) - aligned(old_bytes);
    if (c->size - c->used < more)
        return false;
    c->used += more;
    a->used += more;
    return true;
}

void *arena_grow(Arena *a, void *old, size_t old_bytes, size_t new_bytes)
{
    if (new_bytes <= old_bytes && old)
        return old;
    if (arena_should_fail() || new_bytes > SIZE_MAX / 4)
        return out_of_memory(a, new_bytes);
    if (grow_in_place(a, old, old_bytes, new_bytes))
        return old;
    void *p = arena_alloc(a, new_bytes);
    if (p && old_bytes)
        memcpy(p, old, old_bytes);
    return p;
}

size_t arena_used(const Arena *a) { return a->used; }
Err *arena_err(const Arena *a) { return a->err; }

bool vec_reserve_(Arena *a, void **at, uint32_t len, uint32_t *cap, size_t item, size_t more)
{
    size_t need = (size_t)len + more;
    if (need <= *cap)
        return true;
    size_t room = *cap ? 2 * (size_t)*cap : item * FIRST_ITEMS <= FIRST_BYTES ? FIRST_ITEMS : FIRST_BYTES / item + 1;
    if (room < need)
        room = need;
    if (room > UINT32_MAX)
        return out_of_memory(a, room * item) != NULL;
    void *p = arena_grow(a, *at, *cap * item, room * item);
    if (!p)
        return false;
    *at = p;
    *cap = (uint32_t)room;
    return true;
}

void *vec_push_(Arena *a, void **at, uint32_t *len, uint32_t *cap, size_t item)
{
    if (!vec_reserve_(a, at, *len, cap, item, 1))
        return NULL;
    /* Zeroed here too: a vector may have been longer once. */
    return memset((char *)*at + (*len)++ * item, 0, item);
}
