/* Lowering of one group into one kernel: loops, accesses and values. schedule.c decides, lower.c builds. */
#pragma once
#include "opt/group.h"

/* A loop of the kernel: one domain axis, or several that are contiguous in every access. */
typedef struct {
    int64_t extent;
    int domain;                  /* the domain axis whose steps it takes: the innermost of those it merges */
    bool reduced;
    bool inner;                  /* ... inside the loop over the other reduced ones */
    uint32_t axis;               /* kernel axis, once made */
    int64_t first;               /* its coordinate is so much more than that of the kernel axis */
    int rows;                    /* of its coordinates that a body makes together, 0: one */
    bool full;                   /* ... in a full block: there are as many from the kernel axis' coordinate on */
} Loop;

/* A reduction of the group and where its result is. */
typedef struct {
    Id id;
    uint32_t inner, outer;       /* states: of a block (0-based + 1, 0: none), of the whole */
    uint32_t final;              /* value of the result, once it is known */
    Id partial[3];               /* split: pseudo buffers of the components */
} Reduction;

typedef struct { Id buffer; uint32_t array; } ArrayOf;
typedef struct { Id id; uint8_t phase; uint32_t val; const Map *map; } Memo;
typedef struct { int64_t bytes; int loop; int32_t arg; } StrideArg;
typedef struct { Id buffer; const Map *map; uint32_t access; } Turned;     /* what reads of `buffer` through `map` find transposed in a tile */

struct Lower {
    Grouping *gr;
    const Group *gp;
    uint32_t n;
    const Survey *survey;
    Buffers *buffers;
    Arena *arena;
    Err *err;
    Kernel *k;
    Draft *d;
    int nloops;
    Loop loop[MAX_DOMAIN + 1];   /* one more for a product's k axis */
    int vec;                     /* the vector loop, -1: none */
    int lanes;
    uint32_t baked;              /* a bit per loop whose short strides the kernel knows */
    uint8_t phase;               /* loop being built */
    VEC(Reduction) reductions;
    VEC(ArrayOf) arrays;
    VEC(StrideArg) strides;
    VEC(Turned) turned;
    uint32_t *tile;              /* per survey->tiles: access of it + 1 */
    uint32_t dot_tile;           /* access of the product's tile + 1 */
    uint32_t feed_tile;          /* the array of the tile that a group which feeds a product stores its rows in + 1 */
    int64_t feed_row;            /* ... bytes between its rows, which run along loop feed_rows */
    int feed_rows;
    uint32_t then_tile;          /* access of the tile of rows that the product `then` of the group reads + 1 */
    Memo *memo;
    uint32_t memo_cap, memo_len;
    int64_t partials;            /* a group that is reduced with others: partial states per result, 0: it is finished */
};

/* The scratch access that stands for `buffer` from turn_made() or schedule_together() on, + 1; 0: there is none. */
uint32_t lower_tile_of(const Lower *l, Id buffer);
/* Starts an empty kernel for the group; false on error. */
bool lower_begin(Lower *l);
uint32_t lower_word(Lower *l, int64_t value);                           /* an args word holding value; its index */
uint32_t lower_axis(Lower *l, int64_t extent, int32_t block);
uint32_t lower_blocked(Lower *l, int64_t extent, int32_t block);   /* the block, too, is an argument: one kernel for all */
/* Bytes per step along each domain axis, and the offset, of reading `buffer` through m. */
void lower_steps(const Lower *l, Id buffer, const Map *m, int64_t *step, int64_t *off);
uint32_t lower_access(Lower *l, Id buffer, Dtype dtype, const Map *m, bool written);
/* An access given by bytes per loop (step[i] of loop i; outer[i] per block, NULL: in proportion). */
uint32_t lower_strided(Lower *l, uint32_t array, Dtype dtype, const int64_t *step, const int64_t *outer, int64_t off);
uint32_t lower_array(Lower *l, Id buffer, Dtype dtype, bool written);
/* A further array for a buffer that is only read: x.T @ x is the kernel of a.T @ b. */
uint32_t lower_another_array(Lower *l, Id buffer, Dtype dtype, bool written);
uint32_t lower_scratch(Lower *l, Dtype dtype, int64_t bytes);           /* a scratch array */
uint32_t lower_value(Lower *l, Id id, const Map *m);                    /* a Val; 0 on error */
/* Forgets which values were made: for coordinates that have changed. */
void lower_forget(Lower *l);
/* A number that the kernel is not made for: a word of its args holds it. float32 or float64. */
uint32_t lower_number(Lower *l, Dtype dtype, double x);
uint32_t lower_load(Lower *l, Id buffer, Dtype dtype, const Map *m);
uint32_t lower_op(Lower *l, Op op, Dtype dtype, uint32_t a, uint32_t b);
void lower_stmt(Lower *l, Stmt s);
/* Makes the Vals of a long loop's n values at m, and of what they are computed from, in the order of the graph. */
void lower_in_order(Lower *l, const Id *values, int n, const Map *m);
