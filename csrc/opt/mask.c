/* Which columns of a softmax a mask empties, as the causal one does: read off the graph, where the mask compares coordinates.
 *
 * Rows of x = where(mask, s, -inf), with coordinates i along the rows and j along the columns, are visible where j <= i + lead (or fewer). Past that
 * x is -inf, so that neither the maximum nor the sum of exp(x - maximum) knows of it and the softmax is 0 there: kernels need not compute it.
 * What multiplies these zeros is another matter (0 times infinity is NaN; schedule_dot.c sees to it). Every row has a visible column if lead >= 0. */
#include "opt/group.h"

typedef struct { const Graph *g; const Group *gp; int row, column; } Mask;      /* axes of the domain */

typedef struct { int64_t off, row, column; } Affine;                            /* off + row * i + column * j */

static bool affine(const Mask *k, Id id, const Map *m, Affine *out);

static bool affine_iota(const Mask *k, const Map *m, Affine *out)
{
    if (m->nindex || m->flat || m->rank != 1) return false;
    for (int d = 0; d < m->naxes; d++)
        if (m->step[0][d] && d != k->row && d != k->column) return false;
    *out = (Affine){ m->off[0], m->step[0][k->row], m->step[0][k->column] };
    return true;
}

static bool affine_sum(const Mask *k, Id id, const Map *m, Affine *out)
{
    Affine a, b;
    int64_t sign = node_at(k->g, id)->op == OP_add ? 1 : -1;
    if (!affine(k, node_in(k->g, id)[0], m, &a) || !affine(k, node_in(k->g, id)[1], m, &b)) return false;
    *out = (Affine){ a.off + sign * b.off, a.row + sign * b.row, a.column + sign * b.column };
    return true;
}

/* An int64 value that is affine in the coordinates; false: it is not known to be. */
static bool affine(const Mask *k, Id id, const Map *m, Affine *out)
{
    const Node *n = node_at(k->g, id);
    if (n->dtype != DT_int64) return false;
    if (n->op == OP_iota) return affine_iota(k, m, out);
    if (n->op == OP_add || n->op == OP_subtract) return affine_sum(k, id, m, out);
    if (n->op == OP_const) {
        int64_t c = node_attr(k->g, id)[0];
        *out = (Affine){ .off = c };
        return c > -(INT64_C(1) << 40) && c < INT64_C(1) << 40;                 /* so that nothing wraps */
    }
    if (op_info[n->op].kind != KIND_VIEW || m->flat || n->op == OP_gather || n->op == OP_margin) return false;
    Map in;
    map_unpack(&in, m);
    map_through(k->g, id, k->gp->extent, &in);
    return !in.nindex && affine(k, node_in(k->g, id)[0], &in, out);
}

/* The least lead such that j <= i + lead wherever the condition is `sense`; INT64_MAX: none is known. */
static int64_t reach(const Mask *k, Id id, const Map *m, bool sense);

static int64_t reach_compare(const Mask *k, Id id, const Map *m, bool sense)
{
    const Node *n = node_at(k->g, id);
    Affine a, b;
    if (!affine(k, node_in(k->g, id)[0], m, &a) || !affine(k, node_in(k->g, id)[1], m, &b)) return INT64_MAX;
    Affine d = { b.off - a.off - (n->op == OP_less), b.row - a.row, b.column - a.column };      /* it holds where d >= 0 */
    if (!sense) d = (Affine){ -d.off - 1, -d.row, -d.column };
    return d.row == 1 && d.column == -1 ? d.off : INT64_MAX;
}

static int64_t reach_both(const Mask *k, Id id, const Map *m, bool sense, bool all)
{
    int64_t a = reach(k, node_in(k->g, id)[0], m, sense), b = reach(k, node_in(k->g, id)[1], m, sense);
    return (a < b) == all ? a : b;
}

static int64_t reach(const Mask *k, Id id, const Map *m, bool sense)
{
    const Node *n = node_at(k->g, id);
    if (n->dtype != DT_bool_) return INT64_MAX;
    switch ((Op)n->op) {
    case OP_less: case OP_less_equal: return reach_compare(k, id, m, sense);
    case OP_logical_not: case OP_invert: return reach(k, node_in(k->g, id)[0], m, !sense);
    case OP_logical_and: case OP_bitwise_and: return reach_both(k, id, m, sense, sense);
    case OP_logical_or: case OP_bitwise_or: return reach_both(k, id, m, sense, !sense);
    default: break;
    }
    if (op_info[n->op].kind != KIND_VIEW || m->flat || n->op == OP_gather || n->op == OP_margin) return INT64_MAX;
    Map in;
    map_unpack(&in, m);
    map_through(k->g, id, k->gp->extent, &in);
    return in.nindex ? INT64_MAX : reach(k, node_in(k->g, id)[0], &in, sense);
}

/* What a value is a view of. */
static Id base_of(const Graph *g, Id id)
{
    while (op_info[node_at(g, id)->op].kind == KIND_VIEW && node_at(g, id)->op != OP_gather && node_at(g, id)->op != OP_margin) id = node_in(g, id)[0];
    return id;
}

static bool is_minus_infinity(const Graph *g, Id id)
{
    id = base_of(g, id);
    if (node_at(g, id)->op != OP_const) return false;
    return node_attr(g, id)[0] == (node_at(g, id)->dtype == DT_float32 ? (int64_t)0xFF800000u : node_at(g, id)->dtype == DT_float64 ? INT64_MIN | INT64_C(0x7FF) << 52 : 0);
}

/* x of y = exp(x - max(x)) / sum(exp(x - max(x))); 0: y is something else. */
static Id softmax_of(const Graph *g, Id y)
{
    const Node *divide = node_at(g, y);
    if (divide->op != OP_divide) return 0;
    Id e = node_in(g, y)[0], sum = base_of(g, node_in(g, y)[1]);
    if (node_at(g, e)->op != OP_exp || node_at(g, sum)->op != OP_reduce_sum || node_in(g, sum)[0] != e) return 0;
    Id difference = node_in(g, e)[0];
    if (node_at(g, difference)->op != OP_subtract) return 0;
    Id x = node_in(g, difference)[0], max = base_of(g, node_in(g, difference)[1]);
    return node_at(g, max)->op == OP_reduce_max && node_in(g, max)[0] == x ? x : 0;
}

int64_t mask_lead(const Grouping *gr, const Group *gp)
{
    const Graph *g = gr->g;
    if (!gp->then || gp->roots.len != 1 || gp->naxes < 2) return -1;
    Id x = softmax_of(g, gp->roots.at[0].value);
    if (!x || node_at(g, x)->op != OP_where || gr->info[x].group != gr->info[gp->dot].group) return -1;
    const Id *in = node_in(g, x);
    bool sense = is_minus_infinity(g, in[2]);
    if (!sense && !is_minus_infinity(g, in[1])) return -1;
    Mask k = { g, gp, gp->naxes - 2, gp->naxes - 1 };
    Map m;
    map_select(&m, node_at(g, x)->rank, gp->naxes, gr->info[x].axis);
    int64_t lead = reach(&k, in[0], &m, sense);
    return lead >= 0 && lead < INT32_MAX ? lead : -1;
}
