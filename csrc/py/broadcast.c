/* Broadcasting of nodes to one shape. Where extents known only in the run differ, the run decides as NumPy does: equal ones pass, an extent
 * of 1 is repeated, others are an error. Repeating is a gather whose indices are cut at the extent, which a plan for the numbers folds away. */
#include "py/tracer.h"

static Id number(Graph *g, int64_t k) { return graph_const(g, DT_int64, k); }

static Id is_one(Graph *g, Id n) { return graph_binary(g, OP_equal, n, number(g, 1)); }

static bool known_equal(const Graph *g, Dim a, Dim b) { return dim_eq(g, a, b) || a == 1 || b == 1 || (a >= 0 && b >= 0); }

/* The extent of axes of extents a and b together, of which at least one is known only in the run, with its check. */
static Dim join(Graph *g, Dim a, Dim b, CheckCode code)
{
    Id x = extent_node(g, a), y = extent_node(g, b);
    Id same = graph_binary(g, OP_equal, x, y), one = a < 0 ? is_one(g, x) : 0;
    if (b < 0)
        one = one ? graph_binary(g, OP_logical_or, one, is_one(g, y)) : is_one(g, y);
    trace_check(g, graph_binary(g, OP_logical_or, same, one), code, NULL);
    if (a >= 0 || b >= 0)
        return a >= 0 ? a : b;
    return extent_dim(g, graph_where(g, is_one(g, x), y, x));
}

/* v with an axis of a run-time extent n repeated or kept, so that it has the extent `to`. */
static Id spread(Graph *g, Id v, int axis, Dim n, Dim to)
{
    int rank = node_at(g, v)->rank, perm[MAX_RANK], back[MAX_RANK];
    if (n == 0) {                                             /* checked to fit: no element either */
        Dim shape[MAX_RANK];
        memcpy(shape, node_shape(g, v), (size_t)rank * sizeof *shape);
        shape[axis] = to;
        return graph_broadcast(g, graph_const(g, (Dtype)node_at(g, v)->dtype, 0), shape, rank);
    }
    for (int k = 0; k < rank; k++) {
        perm[k] = k == 0 ? axis : k <= axis ? k - 1 : k;
        back[perm[k]] = k;
    }
    Id last = graph_binary(g, OP_maximum, graph_binary(g, OP_subtract, extent_node(g, n), number(g, 1)), number(g, 0));
    Id index = graph_binary(g, OP_minimum, graph_iota(g, to), graph_broadcast(g, last, &to, 1));
    Id r = graph_gather(g, axis ? graph_transpose(g, v, perm) : v, &index, 1);
    return axis ? graph_transpose(g, r, back) : r;
}

static Id fitted(Graph *g, Id v, const Dim *shape, int rank)
{
    for (int k = 1; v && k <= node_at(g, v)->rank; k++) {
        Dim have = node_shape(g, v)[node_at(g, v)->rank - k], to = shape[rank - k];
        if (!known_equal(g, have, to))
            v = spread(g, v, node_at(g, v)->rank - k, have, to);
    }
    return v ? broadcast_to(g, v, shape, rank) : 0;
}

int broadcast_together(Graph *g, Id *in, int n, Dim *shape, CheckCode code)
{
    int rank = 0;
    for (int k = 0; k < n; k++) {
        if (!in[k])
            return -1;
        int own = node_at(g, in[k])->rank;
        Dim have[MAX_RANK];
        memcpy(have, node_shape(g, in[k]), (size_t)own * sizeof *have);
        for (int i = 1; i <= own && i <= rank; i++) {
            Dim *a = &have[own - i], *b = &shape[rank - i];
            if (!known_equal(g, *a, *b))
                *a = *b = join(g, *b, *a, code);                    /* for shape_broadcast() they are equal now */
        }
        rank = shape_broadcast(g, shape, rank, have, own, shape);
        if (rank < 0)
            return -1;
    }
    for (int k = 0; k < n; k++)
        if (!(in[k] = fitted(g, in[k], shape, rank)))
            return -1;
    return rank;
}

bool broadcast_fits(Graph *g, Id v, const Dim *shape, int rank)
{
    int own = node_at(g, v)->rank;
    if (own > rank)
        return false;
    for (int k = 1; k <= own; k++) {
        Dim have = node_shape(g, v)[own - k], to = shape[rank - k];
        if (!dim_eq(g, have, to) && have != 1 && have >= 0 && to >= 0)
            return false;
    }
    return true;
}

Id broadcast_into(Graph *g, Id v, const Dim *shape, int rank)
{
    for (int k = 1; v && k <= node_at(g, v)->rank; k++) {
        Dim have = node_shape(g, v)[node_at(g, v)->rank - k], to = shape[rank - k];
        if (dim_eq(g, have, to) || have == 1)
            continue;
        Id x = extent_node(g, have), ok = graph_binary(g, OP_equal, x, extent_node(g, to));
        trace_check(g, have < 0 ? graph_binary(g, OP_logical_or, ok, is_one(g, x)) : ok, CHECK_EXTENT, NULL);
        v = have < 0 || to < 0 ? spread(g, v, node_at(g, v)->rank - k, have, to) : v;
    }
    return v ? broadcast_to(g, v, shape, rank) : 0;
}
