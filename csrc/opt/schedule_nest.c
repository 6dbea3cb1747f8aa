/* Nested groups (nest.c): reductions over a few elements inside reductions of their results, as in the nearest centre of each point.
 *
 * The vectors run along the longest axis that both keep, so nothing is summed across lanes. What lies along another axis there is brought into
 * scratch first, transposed, one vector body's worth at a time: it is read again for each step of the outer reduction. */
#include "opt/schedule.h"

enum { PACK_BYTES = 16384 };     /* of one operand's tile: with the others it stays in the first cache */

/* The bytes of the tile that a term's elements for one vector body fill, those of each loop in step; 0: it is not worth packing, or cannot be. */
static int64_t tile_of(const Lower *l, const Term *t, int blocked, int64_t *step)
{
    int64_t from[MAX_DOMAIN], off, item = dtype_info[t->dtype].bytes, bytes = item * l->lanes;
    bool again = false;
    if (t->kind != TERM_LOAD || t->box || t->map->flat || t->map->nindex || item > 8 || is_written(l, t->buffer)) return 0;
    lower_steps(l, t->buffer, t->map, from, &off);
    int64_t along = from[l->loop[l->vec].domain];
    if (along == 0 || along == item || along == -item) return 0;
    for (int i = l->nloops - 1; i >= 0; i--) {
        step[i] = i == l->vec ? item : 0;
        if (!l->loop[i].reduced) continue;
        if (!from[l->loop[i].domain]) again = again || l->loop[i].extent > 1;
        else if (i == blocked) return 0;
        else step[i] = bytes, bytes *= l->loop[i].extent;
        if (bytes > PACK_BYTES) return 0;
    }
    return again ? bytes : 0;
}

/* The loop along which the source of a tile is contiguous, if it has but that one and whole squares can be transposed; else -1. */
static int square_loop(const Lower *l, const Term *t, const int64_t *step)
{
    int64_t from[MAX_DOMAIN], off;
    int rows = -1, square = turn_square(l, dtype_info[t->dtype].bytes);
    if (l->buffers->at.at[buffers_memory(l->buffers, t->buffer)].swapped || l->lanes < square) return -1;
    lower_steps(l, t->buffer, t->map, from, &off);
    for (int i = 0; i < l->nloops; i++) {
        if (i == l->vec || !step[i]) continue;
        if (rows >= 0 || from[l->loop[i].domain] != dtype_info[t->dtype].bytes || l->loop[i].extent < square) return -1;
        rows = i;
    }
    return rows;
}

/* Copies the elements one vector at a time. */
static void copy_tile(Lower *l, const Term *t, const int64_t *step, uint32_t to)
{
    uint32_t at[MAX_DOMAIN + 2];
    int n = 0, native = l->gr->target->vector_bytes / dtype_info[t->dtype].bytes;
    at[n++] = open_loop(l, l->vec, PART_WITHIN, native < l->lanes ? native : l->lanes, false);
    for (int i = 0; i < l->nloops; i++)
        if (i != l->vec && step[i]) at[n++] = open_loop(l, i, PART_WHOLE, 0, false);
    uint32_t v = lower_load(l, t->buffer, t->dtype, t->map);
    if (v) lower_stmt(l, (Stmt){ .kind = STMT_STORE, .a = to, .b = v });
    close_all(l, at, n);
}

static void pack(Lower *l, const Term *t, int blocked)
{
    int64_t step[MAX_DOMAIN + 1] = { 0 }, outer[MAX_DOMAIN + 1], bytes = tile_of(l, t, blocked, step);
    if (!bytes || turn_is_made(l, t)) return;
    for (int i = 0; i < l->nloops; i++) outer[i] = i == l->vec ? 0 : -1;
    int rows = square_loop(l, t, step);
    uint32_t to = lower_strided(l, lower_scratch(l, t->dtype, bytes), t->dtype, step, outer, 0);
    if (rows >= 0) turn_emit(l, t, rows, to);
    else copy_tile(l, t, step, to);
    turn_made(l, t, to);
}

void form_nested(Lower *l, int blocked, int32_t block)
{
    uint32_t at[MAX_DOMAIN + 2];
    for (int i = 0; i < l->nloops; i++)
        l->loop[i].axis = lower_axis(l, l->loop[i].extent, i == blocked ? block : i == l->vec ? l->lanes : 0);
    int n = open_grid(l, at);
    at[n++] = open_loop(l, l->vec, PART_BLOCKS, 0, true);
    for (uint32_t t = 0; t < l->survey->terms.len; t++) pack(l, &l->survey->terms.at[t], blocked);
    at[n++] = open_loop(l, l->vec, PART_WITHIN, l->lanes, false);
    all_phases(l, blocked);
    close_all(l, at, n);
}
