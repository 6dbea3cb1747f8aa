/* fastmath=True: rewrites of single nodes that round otherwise than NumPy (docs/numerics.md says how much), all rules of the graph.
 *
 *   x / c                 ->  x * (1/c)                    a constant whose reciprocal is a normal number
 *   x / broadcast(v)      ->  x * broadcast(1 / v)         one division per element of v
 *   (x + c) + d, (x * c) * d  ->  x + (c + d), x * (c * d)
 *   x ** n, x ** (n + 1/2)    ->  products, and a square root
 *   (a @ b) @ c           ->  a @ (b @ c), and the other way around, where that is cheaper
 */
#include <math.h>
#include <string.h>
#include "opt/plan.h"

enum { MOST_POWER = 16, CHEAPER = 2 };

static bool is_float(Dtype dt) { return dt == DT_float32 || dt == DT_float64; }

/* Whether the node is one constant everywhere. */
static bool constant_of(const Graph *g, Id id, double *value)
{
    int64_t bits;
    while (op_info[node_at(g, id)->op].kind == KIND_VIEW && node_at(g, id)->op != OP_margin) id = node_in(g, id)[0];
    if (!node_const(g, id, &bits)) return false;
    float f;
    if (node_at(g, id)->dtype == DT_float64) memcpy(value, &bits, sizeof *value);
    else memcpy(&f, &bits, sizeof f), *value = f;
    return is_float(node_at(g, id)->dtype);
}

/* Whether the number is a normal one of the dtype, once rounded to it. */
static bool is_normal(Dtype dt, double x) { return dt == DT_float32 ? isnormal((float)x) : isnormal(x); }

static Id spread(Graph *g, double value, Id like)
{
    return graph_broadcast(g, graph_number(g, node_at(g, like)->dtype, value), node_shape(g, like), node_at(g, like)->rank);
}

static Id divide(Graph *g, Id x, Id y)
{
    double c;
    Dtype dt = node_at(g, y)->dtype;
    if (constant_of(g, y, &c)) return is_normal(dt, c) && is_normal(dt, 1 / c) ? graph_binary(g, OP_multiply, x, spread(g, 1 / c, x)) : 0;
    if (node_at(g, y)->op != OP_broadcast || node_size(g, y) <= node_size(g, node_in(g, y)[0])) return 0;
    Id v = node_in(g, y)[0], inverse = graph_binary(g, OP_divide, spread(g, 1, v), v);
    return graph_binary(g, OP_multiply, x, graph_broadcast(g, inverse, node_shape(g, x), node_at(g, x)->rank));
}

/* op(op(x, c), d) of constants c and d, in either order. */
static Id associate(Graph *g, Op op, const Id *in)
{
    double c, d;
    for (int i = 0; i < 2; i++) {
        const Node *inner = node_at(g, in[i]);
        if (inner->op != op || !(inner->mode & MODE_FAST) || !constant_of(g, in[1 - i], &d)) continue;
        for (int j = 0; j < 2; j++) {
            if (!constant_of(g, node_in(g, in[i])[j], &c)) continue;
            double both = op == OP_add ? c + d : c * d;
            if (is_normal(inner->dtype, both)) return graph_binary(g, op, node_in(g, in[i])[1 - j], spread(g, both, in[i]));
        }
    }
    return 0;
}

/* x to the n >= 1, by squares. */
static Id product_of(Graph *g, Id x, int n)
{
    Id r = 0;
    for (; n; n >>= 1) {
        if (n & 1) r = r ? graph_binary(g, OP_multiply, r, x) : x;
        if (n > 1) x = graph_binary(g, OP_multiply, x, x);
    }
    return r;
}

static Id power(Graph *g, Id x, Id y)
{
    double p;
    if (!constant_of(g, y, &p) || fabs(p) > MOST_POWER || p == 0 || floor(2 * p) != 2 * p) return 0;
    int whole = (int)fabs(p);
    Id r = whole ? product_of(g, x, whole) : 0;
    if (whole != fabs(p)) {
        Id root = graph_unary(g, OP_sqrt, x);
        r = r ? graph_binary(g, OP_multiply, r, root) : root;
    }
    return p < 0 ? graph_binary(g, OP_divide, spread(g, 1, x), r) : r;
}

static int64_t flops(const Dim *a, const Dim *b, int rank) { return a[rank - 2] * a[rank - 1] * b[rank - 1]; }

static Id product(Graph *g, Id a, Id b);

/* (a b) c as a (b c), or the other way around, where that takes CHEAPER times less: even if the product in it is made for others, too. */
static Id chain(Graph *g, const Id *in)
{
    for (int i = 0; i < 2; i++) {
        const Node inner = *node_at(g, in[i]);
        if (inner.op != OP_dot || !(inner.mode & MODE_FAST)) continue;
        Id a = i ? in[0] : node_in(g, in[0])[0], b = node_in(g, in[i])[!i], c = i ? node_in(g, in[1])[1] : in[1];
        const Dim *of[3] = { node_shape(g, a), node_shape(g, b), node_shape(g, c) };
        for (int d = 0; d < inner.rank; d++)
            if (of[0][d] < 1 || of[1][d] < 1 || of[2][d] < 1 || (d < inner.rank - 2 && (of[0][d] != of[1][d] || of[1][d] != of[2][d]))) return 0;
        Dim left[MAX_RANK], right[MAX_RANK];
        memcpy(left, of[0], sizeof(Dim) * inner.rank);
        memcpy(right, of[1], sizeof(Dim) * inner.rank);
        left[inner.rank - 1] = of[1][inner.rank - 1];
        right[inner.rank - 1] = of[2][inner.rank - 1];
        int64_t from_left = flops(of[0], of[1], inner.rank) + flops(left, of[2], inner.rank), from_right = flops(of[1], of[2], inner.rank) + flops(of[0], right, inner.rank);
        if ((i ? from_left : from_right) > (i ? from_right : from_left) / CHEAPER) continue;
        return i ? product(g, product(g, a, b), c) : product(g, a, product(g, b, c));
    }
    return 0;
}

static Id product(Graph *g, Id a, Id b)
{
    Id r = a && b ? chain(g, (Id[]){ a, b }) : 0;
    return r || g->err->kind ? r : graph_dot(g, a, b);
}

Id fast_rewrite(Graph *g, const Node *n, const Id *in)
{
    if (!(n->mode & MODE_FAST) || !is_float(n->dtype)) return 0;
    if (n->op == OP_divide) return divide(g, in[0], in[1]);
    if (n->op == OP_add || n->op == OP_multiply) return associate(g, n->op, in);
    if (n->op == OP_dot) return chain(g, in);
    return n->op == OP_power ? power(g, in[0], in[1]) : 0;
}
