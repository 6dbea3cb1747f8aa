/* Memory of one compile: bump allocation in growing chunks, freed all at once.
 *
 * Everything of one trace or plan lives in one Arena and is never freed one by one. Memory is zeroed and
 * aligned to 16. A failed allocation sets the arena's Err (ERR_MEMORY) and returns NULL. */
#pragma once
#include <stddef.h>
#include "base/err.h"

typedef struct Arena Arena;

Arena *arena_new(Err *err);                          /* NULL if there is no memory; err must outlive the arena */
void arena_free(Arena *a);                           /* NULL is fine */
void *arena_alloc(Arena *a, size_t bytes);
/* A copy of `bytes` bytes. */
void *arena_dup(Arena *a, const void *src, size_t bytes);
/* Grows a block of old_bytes to new_bytes (copy; in place when it is the last one). */
void *arena_grow(Arena *a, void *old, size_t old_bytes, size_t new_bytes);
size_t arena_used(const Arena *a);
Err *arena_err(const Arena *a);

/* A growable array in an arena: VEC(Node) nodes; *vec_push(a, &g->nodes) = (Node){...}; */
#define VEC(T) struct { T *at; uint32_t len, cap; }
/* Makes room for one more and returns a pointer to it (zeroed), or NULL. */
#define vec_push(arena, v) \
    ((__typeof__((v)->at))vec_push_(arena, (void **)&(v)->at, &(v)->len, &(v)->cap, sizeof *(v)->at))
void *vec_push_(Arena *a, void **at, uint32_t *len, uint32_t *cap, size_t item);

/* Makes room for n more items without adding them; false if there is no memory. */
#define vec_reserve(arena, v, n) \
    vec_reserve_(arena, (void **)&(v)->at, (v)->len, &(v)->cap, sizeof *(v)->at, n)
bool vec_reserve_(Arena *a, void **at, uint32_t len, uint32_t *cap, size_t item, size_t more);

/* For tests: the n-th allocation of the whole process from now on fails, for n < 0 the -n-th and all after it (0: none does). */
void arena_fail_at(long n);
/* Counts one allocation for arena_fail_at(): whether it is the one to fail. Other allocators below py/ ask it too. */
bool arena_should_fail(void);
