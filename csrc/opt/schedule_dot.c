/* A product's kernel: a tile of rows of the product in scratch (or the result's own memory), then the group's loops over that tile. */
#include <string.h>
#include "opt/schedule.h"

enum {
    DOT_ROWS = 32,               /* rows of a product's tile */
    DOT_TILE_BYTES = 256 * 1024,
};

/* Bytes per loop of operand `which` (rows m, columns k of A; rows k, columns n of B) over the loops batch..., m, n, k. */
static bool dot_operand(Lower *l, int which, int64_t *step, Id *buffer, int64_t *off)
{
    const Graph *g = l->gr->g;
    Id dot = l->gp->dot, id = node_in(g, dot)[which];
    int rank = node_at(g, dot)->rank, nd = l->gp->naxes;
    int8_t axis[MAX_RANK];
    int64_t extent[MAX_DOMAIN + 1];
    if (nd == MAX_DOMAIN) return err_set(l->err, ERR_UNSUPPORTED, "a product over more than %d axes", MAX_DOMAIN - 1);
    memcpy(axis, l->gr->info[dot].axis, sizeof axis);
    memcpy(extent, l->gp->extent, sizeof l->gp->extent);
    extent[nd] = node_shape(g, node_in(g, dot)[0])[rank - 1];
    axis[rank - (which ? 2 : 1)] = extent[nd] == 1 ? -1 : (int8_t)nd;
    Map m;
    map_select(&m, rank, nd + 1, axis);
    while (node_at(g, id)->op != OP_input && !group_reads(l->gr, l->n, id)) {
        map_through(g, id, extent, &m);
        id = node_in(g, id)[0];
    }
    *buffer = id;
    int64_t by_domain[MAX_DOMAIN];
    lower_steps(l, id, &m, by_domain, off);
    for (int i = 0; i < l->nloops; i++) step[i] = by_domain[l->loop[i].domain];
    return true;
}

/* An access of a product: the buffer's array, steps by loop. */
static uint32_t dot_access(Lower *l, Id buffer, const int64_t *step, int64_t off)
{
    Dtype dt = l->buffers->at.at[buffer].dtype;
    return lower_strided(l, lower_array(l, buffer, dt, false), dt, step, NULL, off);
}

/* Whether the product itself is all that is stored, so that it can be written in place. */
static const Root *dot_direct(const Lower *l)
{
    const Root *r = l->gp->roots.len == 1 ? &l->gp->roots.at[0] : NULL;
    return r && r->value == l->gp->dot && !r->check && !l->survey->reduces.len ? r : NULL;
}

static uint32_t dot_target(Lower *l, const Root *direct, int im, int in, int64_t rows, int64_t columns)
{
    Dtype dt = node_at(l->gr->g, l->gp->dot)->dtype;
    if (direct) {
        const Map *to = root_map(l->gr, l->gp, direct);
        return to ? lower_access(l, direct->buffer, dt, to, true) : 0;
    }
    int64_t step[MAX_DOMAIN + 1] = { 0 }, outer[MAX_DOMAIN + 1];
    for (int i = 0; i < l->nloops; i++) outer[i] = i == im || i == in ? 0 : -1;
    step[in] = dtype_info[dt].bytes;
    step[im] = dtype_info[dt].bytes * columns;
    uint32_t array = lower_scratch(l, dt, rows * columns * dtype_info[dt].bytes);
    l->dot_tile = lower_strided(l, array, dt, step, outer, 0) + 1;
    return l->dot_tile - 1;
}

/* A product: grid over batches, row blocks and (unless rows are reduced) column blocks. */
bool schedule_dot(Lower *l)
{
    const Graph *g = l->gr->g;
    Id dot = l->gp->dot, ba, bb;
    int rank = node_at(g, dot)->rank, im = -1, in = -1, n = 0;
    for (int i = 0; i < l->nloops; i++) {
        if (l->loop[i].domain == l->gr->info[dot].axis[rank - 2]) im = i;
        if (l->loop[i].domain == l->gr->info[dot].axis[rank - 1]) in = i;
    }
    int ik = l->nloops;
    l->loop[l->nloops++] = (Loop){ .extent = node_shape(g, node_in(g, dot)[0])[rank - 1], .domain = l->gp->naxes };
    int64_t sa[MAX_DOMAIN + 1], sb[MAX_DOMAIN + 1], oa, ob;
    if (!dot_operand(l, 0, sa, &ba, &oa) || !dot_operand(l, 1, sb, &bb, &ob)) return false;
    const Root *direct = dot_direct(l);
    int item = dtype_info[node_at(g, dot)->dtype].bytes;
    int64_t wide = DOT_TILE_BYTES / (DOT_ROWS * item);
    bool blocked_n = !l->gp->reduced && l->loop[in].extent > wide;
    l->vec = in;
    l->lanes = choose_lanes(l, false);
    for (int i = 0; i < l->nloops; i++)
        l->loop[i].axis = lower_axis(l, l->loop[i].extent, i == im ? DOT_ROWS : i == in && blocked_n ? (int32_t)wide : 0);
    uint32_t at[MAX_DOMAIN + 2];
    for (int i = 0; i < l->nloops; i++)
        if (i != im && i != in && i != ik) at[n++] = open_loop(l, i, PART_WHOLE, 0, true);
    if (blocked_n) at[n++] = open_loop(l, in, PART_BLOCKS, 0, true);
    at[n++] = open_loop(l, im, PART_BLOCKS, 0, true);
    uint32_t c = dot_target(l, direct, im, in, DOT_ROWS, blocked_n ? wide : l->loop[in].extent);
    lower_stmt(l, (Stmt){ .kind = STMT_DOT, .axis = (uint16_t)l->loop[im].axis, .axis_n = (uint16_t)l->loop[in].axis,
        .axis_k = (uint16_t)l->loop[ik].axis, .lanes = (uint16_t)native_lanes(l), .a = c, .b = dot_access(l, ba, sa, oa), .c = dot_access(l, bb, sb, ob) });
    if (!direct) {
        uint32_t rows = open_loop(l, im, PART_WITHIN, 0, false);
        l->loop[ik].reduced = false;
        if (l->gp->reduced) {
            make_tiles(l, 1);
            all_phases(l, -1);
        } else {
            uint32_t cols = open_loop(l, in, blocked_n ? PART_WITHIN : PART_WHOLE, l->lanes, false);
            l->phase = 0;
            phase_body(l);
            kernel_close(l->k, cols);
        }
        kernel_close(l->k, rows);
    }
    close_all(l, at, n);
    return true;
}
