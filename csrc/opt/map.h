/* Index maps: where the elements of a node lie for the coordinates of a loop domain.
 *
 * Row d of a Map says which index along the node's axis d is read at domain coordinates x: off[d] + sum over k of step[d][k] x[k],
 * plus run-time offsets (the value of an index node times a factor): of a scalar, or, for a gather, of the element of an index array that
 * a map of its own reads. Views compose into the map, so they cost nothing.
 * No view is below a margin: what it surrounds is a buffer.
 * A `flat` map has one row, the linear C-order index; only a C-contiguous buffer can be read through it. */
#pragma once
#include "opt/kernel.h"

#define MAX_DOMAIN KERNEL_MAX_AXES

typedef struct Map Map;
struct Map {
    int rank, naxes;
    bool flat;
    uint8_t nindex;
    uint16_t clip;               /* a bit per row whose index may lie outside the array of `margin`, a node: its number is there */
    Id margin;
    struct { Id node; int8_t row; int64_t factor; const Map *at; } index[KERNEL_MAX_INDEX];   /* at: over node's axes; NULL: a scalar */
    int64_t off[MAX_RANK];
    int64_t step[MAX_RANK][MAX_DOMAIN];
};

/* Row d of a node of that rank reads domain axis axis[d] (-1: index 0). */
void map_select(Map *m, int rank, int naxes, const int8_t *axis);
/* The map of the first input of view node `id`, given the map of the view; extent: of the domain axes. false: a reshape that is not
 * affine here (the result is then flat, valid only for a C-contiguous input). */
bool map_through(const Graph *g, Id id, const int64_t *extent, Map *m);
/* The map that the node of run-time offset i of m is read through. */
void map_index(const Map *m, int i, Map *at);
/* The first of the run-time offsets in `after`, the map through view `id`, that `before`, the map of the view, did not have. */
int map_new_index(const Graph *g, Id id, const Map *before, const Map *after);
/* The map through view `id` of a map of the view, and the map of run-time offset i, in the arena (what recurs through views has no Map on the
 * stack: values nest deeply); *first: the first new offset. NULL: no memory. */
const Map *map_below(Arena *arena, const Graph *g, Id id, const int64_t *extent, const Map *m, int *first);
const Map *map_of_index(Arena *arena, const Map *m, int i);
uint64_t map_hash(const Map *m);
/* Whether m is exactly the selection of domain axes `axis`. */
bool map_is_select(const Map *m, const int8_t *axis);
bool map_equal(const Map *a, const Map *b);
/* Whether two maps over one array, by domains of these extents, meet in no element, as far as their boxes and steps tell. */
bool map_apart(const Map *a, const int64_t *extent_a, const Map *b, const int64_t *extent_b);
/* Row d of m as the only one of a map of its own: an index as a value. */
void map_row(const Map *m, int d, Map *row);
/* A copy in the arena, of its own rows only (map_unpack copies it back, an assignment would read past its end); NULL if there is no memory. */
const Map *map_copy(Arena *arena, const Map *m);
void map_unpack(Map *to, const Map *from);
