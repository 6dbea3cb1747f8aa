/* A sum over a window of a few elements, as of a depthwise filter or a moving average: written out as a sum of slices, which is an elementwise kernel over
 * neighbours. That has no inner loops, shares loads between rows (schedule_jam.c) and fuses with what is around it. The terms are added in C order, in
 * spans of eight, so that it is as accurate as any other sum. */
#include <string.h>
#include "opt/map.h"
#include "opt/plan.h"

enum {
    MOST_TAPS = 25,
    SPAN = 8,
    MOST_OPS = 4,                /* cheap ones of a term: it is evaluated again for each use, and stored for none */
    LEAST_POINTS = 16384,        /* fewer are not worth the time that the longer code takes to compile */
    LEAST_LINE = 32,             /* elements where vectors lie, if that is along the last axis */
    LEAST_CHANNELS = 128,        /* ... along another one: each short line of them begins with the addresses of all taps */
};

/* Whether a window is below the ops of a term; these are counted in *ops, too many if one is dear. */
static bool is_window(const Graph *g, Id id, int *ops)
{
    const Node *n = node_at(g, id);
    bool window = false;
    if (op_info[n->op].kind == KIND_ELEMENTWISE) {
        *ops += op_info[n->op].cost <= COST_CHEAP ? 1 : MOST_OPS + 1;
        if (*ops > MOST_OPS || n->nin > 3) return false;
        for (int i = 0; i < n->nin; i++) window |= is_window(g, node_in(g, id)[i], ops);
        return window;
    }
    if (op_info[n->op].kind != KIND_VIEW || (n->nin != 1 && n->op != OP_slice)) return false;
    return n->op == OP_window || is_window(g, node_in(g, id)[0], ops);
}

/* Whether vectors are long enough, along the axis on which the window's array has its elements one after the other. */
static bool has_lines(const Graph *g, Id id, const Dim *size, int rank, uint64_t axes)
{
    int8_t identity[MAX_RANK];
    int last = rank - 1, ops = 0;
    Map m;
    if (rank > MAX_DOMAIN) return false;
    for (int d = 0; d < rank; d++) identity[d] = (int8_t)d;
    map_select(&m, rank, rank, identity);
    while (op_info[node_at(g, id)->op].kind == KIND_VIEW || op_info[node_at(g, id)->op].kind == KIND_ELEMENTWISE) {
        int of = 0;
        if (op_info[node_at(g, id)->op].kind == KIND_VIEW) map_through(g, id, size, &m);
        else while (of < node_at(g, id)->nin - 1 && (ops = 0, !is_window(g, node_in(g, id)[of], &ops))) of++;
        id = node_in(g, id)[of];
    }
    while (last > 0 && (size[last] == 1 || axes >> last & 1)) last--;
    for (int k = 0; k < rank && !m.flat && m.rank; k++)
        if (m.step[m.rank - 1][k] && !(axes >> k & 1) && size[k] >= (k == last ? LEAST_LINE : LEAST_CHANNELS)) return true;
    return false;
}

/* The value at coordinates `at` of the axes that `shape` has 1 of. */
static Id tap(Graph *g, Id id, const int64_t *at, const Dim *shape)
{
    const Node n = *node_at(g, id);
    int64_t step[MAX_RANK];
    Id in[3];
    if (op_info[n.op].kind != KIND_ELEMENTWISE) {
        for (int d = 0; d < n.rank; d++) step[d] = 1;
        return graph_slice_const(g, id, at, step, shape);
    }
    for (int i = 0; i < n.nin; i++)
        if (!(in[i] = tap(g, node_in(g, id)[i], at, shape))) return 0;
    return graph_add(g, n.op, in, n.nin, node_attr(g, id), n.nattr, n.dtype, shape, n.rank);
}

Id sum_of_taps(Graph *g, Id sum)
{
    const Node *n = node_at(g, sum), *x = node_at(g, node_in(g, sum)[0]);
    Id of = node_in(g, sum)[0], total = 0, span = 0;
    uint64_t axes = (uint64_t)node_attr(g, sum)[0];
    int rank = x->rank, sum_rank = n->rank, ops = 0;
    Dim shape[MAX_RANK], size[MAX_RANK], result[MAX_RANK];
    int64_t at[MAX_RANK] = { 0 }, taps = 1, points = 1;
    if ((n->dtype != DT_float32 && n->dtype != DT_float64) || x->dtype != n->dtype || !sum_rank) return 0;
    memcpy(size, node_shape(g, of), sizeof(Dim) * (size_t)rank);
    memcpy(result, node_shape(g, sum), sizeof(Dim) * (size_t)sum_rank);
    for (int d = 0; d < rank; d++) {
        shape[d] = axes >> d & 1 ? 1 : size[d];
        if (axes >> d & 1) taps = size[d] > MOST_TAPS ? MOST_TAPS + 1 : taps * size[d];
        if (taps > MOST_TAPS) return 0;
        points *= shape[d];
    }
    if (taps < 2 || points < LEAST_POINTS || !is_window(g, of, &ops) || ops > MOST_OPS || !has_lines(g, of, size, rank, axes)) return 0;
    for (int64_t t = 0; t < taps; t++) {
        Id term = tap(g, of, at, shape);
        span = t % SPAN ? graph_binary(g, OP_add, span, term) : term;
        if (t % SPAN == SPAN - 1 || t == taps - 1) total = total ? graph_binary(g, OP_add, total, span) : span;
        if (!total && g->err->kind) return 0;
        for (int d = rank - 1; d >= 0; d--) {
            if (!(axes >> d & 1)) continue;
            if (++at[d] < size[d]) break;
            at[d] = 0;
        }
    }
    return graph_reshape(g, total, result, sum_rank);
}
