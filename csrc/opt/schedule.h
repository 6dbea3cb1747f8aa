/* What the schedules share: schedule.c has the forms of loops and reductions, schedule_dot.c that of products. */
#pragma once
#include "opt/lower.h"

/* Lanes of a vector of the target that holds the widest value computed. */
int native_lanes(const Lower *l);
/* Lanes of the vector loop l->vec; rows: it is reduced. */
int choose_lanes(const Lower *l, bool rows);
/* A FOR over loop i; its statement, for close_all. */
uint32_t open_loop(Lower *l, int i, Part part, int lanes, bool grid);
void close_all(Lower *l, const uint32_t *at, int n);
/* The innermost body of l->phase: reductions, tiles, stores. */
void phase_body(Lower *l);
/* A loop nest per phase over the reduced loops; blocked: the one that runs in blocks, -1: none. */
void all_phases(Lower *l, int blocked);
/* Scratch for the values kept between phases, `columns` of the kept vector loop side by side. */
void make_tiles(Lower *l, int64_t columns);

/* Starts a launch of group n, with an empty kernel; ends it. */
bool draft_begin(Lower *l, Drafts *out, Grouping *gr, uint32_t n, const Survey *survey, Buffers *buffers);
bool draft_end(Lower *l);
/* The loops of the group's domain, in order; its reductions. */
void choose_loops(Lower *l);
void list_reductions(Lower *l);

/* ---- streams.c ---- */
/* Marks the accesses of a finished kernel that stream from memory. */
void mark_streams(Lower *l);
/* FORs over the kept loops but the vector loop, as grid; how many, their statements in at. */
int open_grid(Lower *l, uint32_t *at);

/* ---- schedule_turn.c ---- */
/* The kept loop that some array of an elementwise group lies along while others lie along the vector loop, so that tiles are worth
 * transposing; -1: there is none. */
int choose_turn(const Lower *l);
/* Makes the axes, opens all loops of the tiled form and transposes; how many FORs were opened, their statements in at. */
int open_turned(Lower *l, uint32_t *at);

/* ---- schedule_dot.c ---- */
/* Appends the launches of a group with a product; false with an error. */
bool schedule_dot(Grouping *gr, uint32_t n, const Survey *survey, Buffers *buffers, Drafts *out);
