/* Elementwise kernels over arrays that lie along different axes, as in x.T + y: the grid runs over tiles of the two axes, each array that lies
 * along the other one is transposed tile by tile into scratch, and the vector loop finds all operands contiguous. So every cache line
 * that is read is used up at once. */
#include "opt/schedule.h"

enum {
    MAX_SQUARE = 16,             /* rows that go through registers at once */
    TILE_ROWS = 64,              /* of the tile: along the other axis, as long pieces of a source's rows */
    TILE_COLUMNS = 128,          /* along the vector loop: as many rows of a source, as long pieces of what is not transposed. Tried from 32 to 256
                                    on x.T * 2 + y: 0.3 ms for 1024 rows of float32, 0.55 with 32 columns, 5.0 without tiles */
    MAX_TURNED = 8,              /* sources, for the tiles to stay in cache */
};

bool is_written(const Lower *l, Id buffer)
{
    for (uint32_t t = 0; t < l->survey->terms.len; t++) {
        const Term *term = &l->survey->terms.at[t];
        if (term->kind == TERM_STORE && buffers_memory(l->buffers, term->buffer) == buffers_memory(l->buffers, buffer)) return true;
    }
    return false;
}

int turn_square(const Lower *l, int item)
{
    int lanes = l->gr->target->vector_bytes / item;
    return lanes > MAX_SQUARE ? MAX_SQUARE : lanes;
}

/* The loop that a term lies along, if that is not the vector loop and it moves there, too; else -1. */
static int turned_loop(const Lower *l, const Term *t)
{
    int64_t step[MAX_DOMAIN], off, item = dtype_info[t->dtype].bytes;
    if (t->kind != TERM_LOAD || t->box || t->map->flat || t->map->nindex || t->map->clip || item > 8) return -1;
    if (l->buffers->at.at[buffers_memory(l->buffers, t->buffer)].swapped || is_written(l, t->buffer)) return -1;
    lower_steps(l, t->buffer, t->map, step, &off);
    int64_t along = step[l->loop[l->vec].domain];
    if (along >= -4 * item && along <= 4 * item) return -1;
    for (int i = 0; i < l->nloops; i++)
        if (i != l->vec && step[l->loop[i].domain] == item && l->loop[i].extent >= 2 * turn_square(l, (int)item)) return i;
    return -1;
}

int choose_turn(const Lower *l)
{
    int64_t bytes[MAX_DOMAIN + 1] = { 0 };
    int best = -1;
    if (l->vec < 0 || l->gp->reduced || l->gp->scan || l->gp->dot || l->loop[l->vec].extent < 2 * MAX_SQUARE) return -1;
    for (uint32_t t = 0; t < l->survey->terms.len; t++) {
        int i = turned_loop(l, &l->survey->terms.at[t]);
        if (i < 0) continue;
        bytes[i] += dtype_info[l->survey->terms.at[t].dtype].bytes;
        if (best < 0 || bytes[i] > bytes[best]) best = i;
    }
    return best;
}

bool turn_is_made(const Lower *l, const Term *t)
{
    for (uint32_t i = 0; i < l->turned.len; i++)
        if (l->turned.at[i].buffer == t->buffer && map_equal(l->turned.at[i].map, t->map)) return true;
    return false;
}

void turn_made(Lower *l, const Term *t, uint32_t to)
{
    Turned *at = vec_push(l->arena, &l->turned);
    if (at) *at = (Turned){ t->buffer, t->map, to };
}

void turn_emit(Lower *l, const Term *t, int rows, uint32_t to)
{
    uint32_t from = lower_access(l, t->buffer, t->dtype, t->map, false);
    lower_stmt(l, (Stmt){ .kind = STMT_TRANSPOSE, .a = to, .b = from, .axis = (uint16_t)l->loop[rows].axis, .axis_n = (uint16_t)l->loop[l->vec].axis,
        .lanes = (uint16_t)turn_square(l, dtype_info[t->dtype].bytes) });
}

static void turn(Lower *l, const Term *t, int rows)
{
    int64_t step[MAX_DOMAIN + 1] = { 0 }, outer[MAX_DOMAIN + 1], item = dtype_info[t->dtype].bytes;
    for (int i = 0; i < l->nloops; i++) outer[i] = i == rows || i == l->vec ? 0 : -1;
    step[l->vec] = item;
    step[rows] = item * TILE_COLUMNS;
    uint32_t tile = lower_scratch(l, t->dtype, item * TILE_COLUMNS * TILE_ROWS), to = lower_strided(l, tile, t->dtype, step, outer, 0);
    turn_emit(l, t, rows, to);
    turn_made(l, t, to);
}

int open_turned(Lower *l, uint32_t *at)
{
    int rows = choose_turn(l), n = 0;
    int lanes = native_lanes(l);
    for (int i = 0; i < l->nloops; i++)
        l->loop[i].axis = lower_axis(l, l->loop[i].extent, i == rows ? TILE_ROWS : i == l->vec ? TILE_COLUMNS : 0);
    for (int i = 0; i < l->nloops; i++)
        if (i != rows && i != l->vec) at[n++] = open_loop(l, i, PART_WHOLE, 0, true);
    at[n++] = open_loop(l, rows, PART_BLOCKS, 0, true);
    at[n++] = open_loop(l, l->vec, PART_BLOCKS, 0, true);
    for (uint32_t t = 0; t < l->survey->terms.len && l->turned.len < MAX_TURNED; t++) {
        const Term *term = &l->survey->terms.at[t];
        if (turned_loop(l, term) == rows && !turn_is_made(l, term)) turn(l, term, rows);
    }
    at[n++] = open_loop(l, rows, PART_WITHIN, 0, false);
    at[n++] = open_loop(l, l->vec, PART_WITHIN, lanes > TILE_COLUMNS ? TILE_COLUMNS : lanes, false);
    return n;
}
