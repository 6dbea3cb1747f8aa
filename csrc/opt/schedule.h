/* What the schedules share. schedule.c has the forms; schedule_loops.c chooses loops, schedule_phase.c fills them, schedule_split.c,
 * schedule_turn.c and schedule_dot.c have forms of their own, streams.c what all kernels get at the end. */
#pragma once
#include "opt/lower.h"

/* Iterations of a loop that adds up floats, between roundings to the wider state: gen/spans.c takes them in two chains of eight. Up to twice as many rows
 * are one block: of a few more than one block its sum would round where that of all does. */
enum { SUM_TRIPS = 64, ROW_BLOCK = SUM_TRIPS };

enum {
    BLOCK = 4096,                /* elements of a sum between roundings to the wider state; of a grid point */
    LONG_LOOP = 8192,            /* vector loops longer than this are blocked over the grid */
};

/* ---- schedule.c ---- */
/* Starts a launch of group n, with an empty kernel; ends it. */
bool draft_begin(Lower *l, Drafts *out, Grouping *gr, uint32_t n, const Survey *survey, Buffers *buffers);
bool draft_end(Lower *l);

/* ---- schedule_loops.c ---- */
bool reduces_axis(const Group *gp, int k);
Monoid monoid_of(const Lower *l, Id id);
bool is_arg(const Lower *l, Id id);                /* argmax or argmin */
/* For n groups of one domain: its axes in order of decreasing step, merged where all of them allow it. */
void choose_common_loops(Lower *const *l, int n);
/* Domain axes in order of decreasing step (kept before reduced ones), neighbours merged where every access allows it. */
void choose_loops(Lower *l);
/* Lanes of a vector of the target that holds the widest value computed. */
int native_lanes(const Lower *l);
/* The loop along which most bytes are contiguous; ties go to the innermost. -1 where no loop is worth vectors. */
int choose_vector(const Lower *l);
/* Lanes of the vector loop l->vec; rows: it is reduced. */
int choose_lanes(const Lower *l, bool rows);
/* The lanes that a knob asks for, for a kept vector loop; l->lanes where there is none, or rounding would depend on it. */
int knob_lanes(const Lower *l);
bool adds_floats(const Lower *l);                  /* whether a reduction is a sum of floats */
/* Elements of a block of a reduced vector loop: `most`, or what l->lanes run through in so many iterations where floats are added up. */
int32_t sum_block(const Lower *l, int32_t most, int32_t trips);
/* The product of the extents of the reduced loops but inner ones, or of the kept ones. */
int64_t extents(const Lower *l, bool reduced);
/* The largest power of two <= x, within [1, most]. */
int32_t floor_pow2(int64_t x, int32_t most);

/* ---- schedule_phase.c ---- */
/* A FOR over loop i; its statement, for close_all. */
uint32_t open_loop(Lower *l, int i, Part part, int lanes, bool grid);
void close_all(Lower *l, const uint32_t *at, int n);
/* FORs over the kept loops but the vector loop, as grid; how many, their statements in at. */
int open_grid(Lower *l, uint32_t *at);
/* FORs over the reduced loops (all but `skip` and the inner ones), the vector loop last; how many, their statements in at. */
int open_reduced(Lower *l, int skip, uint32_t *at);
/* Whether the root needs no store: the old contents of an update in place. */
bool skips(const Lower *l, const Root *r);
/* Stores of the phase: those once per row, or the others. */
void store_roots(Lower *l, bool row);
/* Sums of floats are rounded once per block and added up in a wider state; the lanes of an argmax count within a block. */
bool is_wide(const Lower *l, Id id);
Dtype input_dtype(const Lower *l, Id id);          /* of a reduction */
Dtype outer_dtype(const Lower *l, Id id);          /* of its wider state */
Dtype component_dtype(Monoid m, Dtype dtype, int component);
uint32_t state_val(Lower *l, uint32_t state, Dtype dtype, uint32_t component);
/* Combines the monoid's components (of the inner state's or a partial's dtype) into state `to` of dtype outer. */
void reduce_components(Lower *l, uint32_t to, Monoid m, Dtype from, Dtype outer, const uint32_t *v);
/* Starts the states that live around the loop of blocks (outer) or inside it (inner). */
void init_states(Lower *l, bool inner, bool two_level);
/* The results of the phase's reductions are known from here on. */
void finish_phase(Lower *l, bool two_level);
/* The innermost body of l->phase: reductions, tiles, stores. */
void phase_body(Lower *l);
/* A loop nest per phase over the reduced loops; blocked: the one that runs in blocks, -1: none. */
void all_phases(Lower *l, int blocked);
/* Scratch for the values kept between phases, `columns` of the kept vector loop side by side. */
void make_tiles(Lower *l, int64_t columns);
void list_reductions(Lower *l);

/* ---- schedule_split.c ---- */
/* Whether all of the group is one loop of reductions with little left to do, worth splitting over grid points: that loop and its block; else -1. */
int choose_split(const Lower *l, int32_t *block);
/* Ends l as the kernel of partial states and appends the one that combines them; false with an error. */
bool schedule_split(Lower *l, int split, int32_t block, Drafts *out);
/* The kernel l, just begun, combines the partials that kernel `first` has stored for each kept coordinate, so many of them, and computes what depends on the
 * results alone. */
void combine_partials(Lower *l, const Lower *first, int64_t nblocks);

/* ---- schedule_bands.c ---- */
/* The reduced loop of a group of sums that is best run through in bands of rows, a wide block of columns at a time; -1: none is. */
int choose_bands(const Lower *l);
/* The body of the kernel that does so. */
void form_bands(Lower *l, int rows);
/* Whether the program's arguments are more than its caches hold. */
bool comes_from_memory(const Lower *l);

/* ---- schedule_together.c ---- */
/* Appends the launch that makes the reductions of all groups that group l leads, and the one that finishes its own; false with an error. */
bool schedule_together(Lower *l, Drafts *out);
/* Appends the launch that finishes group n, which was reduced with its leader, if it needs one. */
bool together_combine(Grouping *gr, uint32_t n, Buffers *buffers, Drafts *out);

/* ---- schedule_turn.c ---- */
/* The kept loop that some array of an elementwise group lies along while others lie along the vector loop, so that tiles are worth
 * transposing; -1: there is none. */
int choose_turn(const Lower *l);
/* Makes the axes, opens all loops of the tiled form and transposes; how many FORs were opened, their statements in at. */
int open_turned(Lower *l, uint32_t *at);
/* Whether the group stores into the memory that `buffer` lies in. */
bool is_written(const Lower *l, Id buffer);
/* Rows and columns of `item` bytes that are transposed in registers at once. */
int turn_square(const Lower *l, int item);
/* Transposes what a term reads, contiguous along loop `rows`, into the tile that access `to` writes. */
void turn_emit(Lower *l, const Term *t, int rows, uint32_t to);
/* Loads of what the term reads find it in the tile `to` from here on; whether they do. */
void turn_made(Lower *l, const Term *t, uint32_t to);
bool turn_is_made(const Lower *l, const Term *t);

/* ---- schedule_jam.c ---- */
/* The kept loop of an elementwise group along which some rows at once share enough loads, and how many rows; -1: there is none. */
int choose_jam(const Lower *l, int *rows);
/* The body of a kernel that makes so many rows along the loop at once. */
void form_jammed(Lower *l, int loop, int rows);

/* ---- schedule_nest.c ---- */
/* Ends the kernel of a nested group; blocked: the reduced loop that runs in blocks, -1: none. */
void form_nested(Lower *l, int blocked, int32_t block);

/* ---- feed.c ---- */
/* Whether a group's rows may be computed in the product of group n: its operations per element, the greatest number of them; 0: none feeds it. */
int64_t feed_cost(const Grouping *gr, uint32_t n);
/* Computes the rows of all groups that feed l's product into scratch array `tile`, rows `row` bytes apart: loop im of l, in the part given. */
bool feed_rows(Lower *l, uint32_t tile, int64_t row, int im, Part part);
/* Where a group that feeds a product stores root r. */
uint32_t feed_access(Lower *l, const Root *r);
/* Schedules the groups that feed group n by themselves. */
bool feed_apart(Grouping *gr, uint32_t n, Buffers *buffers, Drafts *out);

/* ---- schedule_dot.c ---- */
/* Appends the launches of a group with a product; false with an error. */
bool schedule_dot(Grouping *gr, uint32_t n, const Survey *survey, Buffers *buffers, Drafts *out);

/* ---- streams.c ---- */
/* Marks the accesses of a finished kernel that stream from memory. */
void mark_streams(Lower *l);
