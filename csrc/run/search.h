/* np.searchsorted: how many elements of an ascending table precede each key. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

typedef enum { SEARCH_float, SEARCH_double, SEARCH_int32, SEARCH_int64, SEARCH_uint32, SEARCH_uint64, SEARCH_KINDS } SearchKind;

/* m elements side by side, NaN last; fewer than 2^31 of those of four bytes. An element precedes a key that is greater or, if `equal`, equal to it. */
typedef struct { SearchKind kind; const void *table; int64_t m; bool equal; } Search;

/* out[i], i < n, for the keys at `stride` bytes each; in several threads. */
void search_fill(const Search *s, const char *keys, int64_t stride, int64_t n, int64_t *out);
