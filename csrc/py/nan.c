/* check_nan=True: after each operation a check that it made no NaN of operands that have none. */
#include "py/tracer.h"

static bool has_nan(const Graph *g, Id id) { return dtype_info[node_at(g, id)->dtype].kind >= DKIND_FLOAT; }

/* Whether operand x has a NaN: `each`: per element of r (the shapes are equal then), else anywhere. */
static Id operand_nan(Graph *g, Id x, Id r, bool each)
{
    const Node *a = node_at(g, x), *b = node_at(g, r);
    Id nan = graph_unary(g, OP_isnan, x);
    if (nan && each && shape_eq(g, node_shape(g, x), a->rank, node_shape(g, r), b->rank))
        return nan;
    nan = nan ? graph_reduce(g, OP_reduce_any, nan, (1ull << node_at(g, nan)->rank) - 1, 0) : 0;
    return nan ? graph_broadcast(g, nan, node_shape(g, r), node_at(g, r)->rank) : 0;
}

bool nan_check(Trace *t, Id r, const Id *in, int nin, bool each)
{
    Graph *g = t->graph;
    int64_t bits;
    if (!(g->mode & MODE_CHECK_NAN) || !r || !has_nan(g, r))
        return true;
    Id good = graph_unary(g, OP_logical_not, graph_unary(g, OP_isnan, r));
    for (int k = 0; k < nin && good; k++) {
        if (in[k] == r)
            return true;
        if (has_nan(g, in[k]))
            good = graph_binary(g, OP_logical_or, good, operand_nan(g, in[k], r, each));
    }
    if (good && node_const(g, good, &bits) && !(bits & 1)) {
        err_set(&t->err, ERR_FLOATING_POINT, NAN_MESSAGE);
        t->err.src = g->src;
        trace_fail(t);
        return false;
    }
    if (good && trace_check(g, good, CHECK_NAN, NULL))
        return true;
    trace_fail(t);
    return false;
}
