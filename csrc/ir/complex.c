/* Complex arithmetic, comparisons, casts, reductions, scans and products, with NumPy's steps where its bits are one. */
#include <math.h>
#include <string.h>

#include "ir/complex.h"

static Dtype component(Dtype d) { return d == DT_complex64 ? DT_float32 : DT_float64; }
static bool is_complex(Dtype d) { return dtype_info[d].kind == DKIND_COMPLEX; }

static Z parts(Graph *g, Id z) { return (Z){ graph_unary(g, OP_real, z), graph_unary(g, OP_imag, z) }; }
static Id join(Graph *g, Z z) { return graph_binary(g, OP_complex_, z.re, z.im); }

Id cx_number(const Cx *c, double x)
{
    return graph_broadcast(c->g, graph_number(c->g, c->dtype, x), node_shape(c->g, c->like), node_at(c->g, c->like)->rank);
}

/* ---- arithmetic ---- */

Z cx_product(const Cx *c, Z x, Z y)
{
    return (Z){ cx_sub(c, cx_mul(c, x.re, y.re), cx_mul(c, x.im, y.im)), cx_add(c, cx_mul(c, x.re, y.im), cx_mul(c, x.im, y.re)) };
}

/* Smith's quotient as NumPy carries it out; by zero it is x / 0 in each component. */
Z cx_quotient(const Cx *c, Z x, Z y)
{
    Id ar = cx_abs(c, y.re), ai = cx_abs(c, y.im), wide = cx2(c, OP_less_equal, ai, ar), one = cx_number(c, 1), zero = cx_number(c, 0);
    Id big = cx_where(c, wide, y.re, y.im), small = cx_where(c, wide, y.im, y.re);
    Id rat = cx_div(c, small, big), scale = cx_div(c, one, cx_add(c, big, cx_mul(c, small, rat)));
    Id re_wide = cx_add(c, x.re, cx_mul(c, x.im, rat)), im_wide = cx_sub(c, x.im, cx_mul(c, x.re, rat));
    Id re_tall = cx_add(c, cx_mul(c, x.re, rat), x.im), im_tall = cx_sub(c, cx_mul(c, x.im, rat), x.re);
    Z r = { cx_mul(c, cx_where(c, wide, re_wide, re_tall), scale), cx_mul(c, cx_where(c, wide, im_wide, im_tall), scale) };
    Id none = cx_and(c, cx2(c, OP_equal, ar, zero), cx2(c, OP_equal, ai, zero));
    return cx_choose(c, none, (Z){ cx_div(c, x.re, ar), cx_div(c, x.im, ar) }, r);
}

Z cx_reciprocal(const Cx *c, Z x)
{
    Id wide = cx2(c, OP_less_equal, cx_abs(c, x.im), cx_abs(c, x.re)), one = cx_number(c, 1);
    Id big = cx_where(c, wide, x.re, x.im), small = cx_where(c, wide, x.im, x.re);
    Id rat = cx_div(c, small, big), d = cx_add(c, big, cx_mul(c, small, rat));
    Id unit = cx_div(c, one, d), part = cx_div(c, rat, d);
    return (Z){ cx_where(c, wide, unit, part), cx_where(c, wide, cx_div(c, cx_neg(c, rat), d), cx_neg(c, unit)) };
}

/* ---- comparisons: lexicographic; a NaN makes them false ---- */

static Id is_nan(const Cx *c, Z x) { return cx_or(c, cx1(c, OP_isnan, x.re), cx1(c, OP_isnan, x.im)); }

static Id ordered(const Cx *c, Op op, Z x, Z y)
{
    Id known = cx1(c, OP_logical_not, cx_or(c, cx1(c, OP_isnan, x.im), cx1(c, OP_isnan, y.im)));
    Id less = cx_and(c, cx2(c, OP_less, x.re, y.re), known);
    return cx_or(c, less, cx_and(c, cx2(c, OP_equal, x.re, y.re), cx2(c, op, x.im, y.im)));
}

static Id compare(const Cx *c, Op op, Z x, Z y)
{
    switch ((int)op) {
    case OP_equal: return cx_and(c, cx2(c, op, x.re, y.re), cx2(c, op, x.im, y.im));
    case OP_not_equal: return cx_or(c, cx2(c, op, x.re, y.re), cx2(c, op, x.im, y.im));
    case OP_less: case OP_less_equal: return ordered(c, op, x, y);
    case OP_greater: return ordered(c, OP_less, y, x);
    case OP_greater_equal: return ordered(c, OP_less_equal, y, x);
    case OP_isnan: return is_nan(c, x);
    case OP_isinf: return cx_or(c, cx1(c, op, x.re), cx1(c, op, x.im));
    case OP_isfinite: return cx_and(c, cx1(c, op, x.re), cx1(c, op, x.im));
    }
    return 0;
}

static Z extreme(const Cx *c, Op op, Z x, Z y)
{
    bool most = op == OP_maximum || op == OP_fmax;
    Id keep = most ? ordered(c, OP_less_equal, y, x) : ordered(c, OP_less_equal, x, y);
    return cx_choose(c, cx_or(c, keep, is_nan(c, op == OP_maximum || op == OP_minimum ? x : y)), x, y);
}

/* ---- elementwise ---- */

static bool arithmetic(const Cx *c, Op op, Z x, Z y, Z *out)
{
    switch ((int)op) {
    case OP_add: case OP_subtract: *out = (Z){ cx2(c, op, x.re, y.re), cx2(c, op, x.im, y.im) }; return true;
    case OP_multiply: *out = cx_product(c, x, y); return true;
    case OP_square: *out = cx_product(c, x, x); return true;
    case OP_divide: *out = cx_quotient(c, x, y); return true;
    case OP_reciprocal: *out = cx_reciprocal(c, x); return true;
    case OP_negative: case OP_rint: *out = (Z){ cx1(c, op, x.re), cx1(c, op, x.im) }; return true;
    case OP_conjugate: *out = (Z){ x.re, cx_neg(c, x.im) }; return true;
    case OP_maximum: case OP_minimum: case OP_fmax: case OP_fmin: *out = extreme(c, op, x, y); return true;
    }
    return false;
}

static Id cast(Graph *g, Id x, Dtype to)
{
    Dtype from = (Dtype)node_at(g, x)->dtype;
    if (from == to)
        return x;
    if (is_complex(from)) {
        Z z = parts(g, x);
        if (to == DT_bool_)
            return graph_binary(g, OP_logical_or, graph_cast(g, z.re, to), graph_cast(g, z.im, to));
        if (!is_complex(to))
            return graph_cast(g, z.re, to);
        return join(g, (Z){ graph_cast(g, z.re, component(to)), graph_cast(g, z.im, component(to)) });
    }
    Cx c = { g, component(to), x };
    return join(g, (Z){ graph_cast(g, x, component(to)), cx_number(&c, 0) });
}

static Id elementwise(Graph *g, Op op, const Id *in, int nin, const Type *type)
{
    if (op == OP_cast)
        return cast(g, in[0], type->dtype);
    Dtype d = (Dtype)node_at(g, in[nin - 1])->dtype;
    Cx c = { g, component(d), in[0] };
    Z x = parts(g, in[op == OP_where]), y = nin > 1 ? parts(g, in[nin - 1]) : x, r;
    if (op == OP_where)
        return join(g, cx_choose(&c, in[0], x, y));
    if (op == OP_absolute)
        return graph_binary(g, OP_hypot, x.re, x.im);
    Id truth = compare(&c, op, x, y);
    if (truth || g->err->kind)
        return truth;
    if (arithmetic(&c, op, x, y, &r) || complex_function(&c, op, x, y, &r))
        return join(g, r);
    err_set(g->err, ERR_TYPE, "%s is not accepted by `%s`", dtype_info[d].name, op_info[op].name);
    return 0;
}

/* ---- reductions ---- */

/* Along one axis, from `start` on, `n` elements. */
static Id piece(Graph *g, Id x, int axis, int64_t start, Dim n)
{
    int64_t at[MAX_RANK] = { 0 }, step[MAX_RANK];
    Dim shape[MAX_RANK];
    int rank = node_at(g, x)->rank;
    memcpy(shape, node_shape(g, x), (size_t)rank * sizeof *shape);
    for (int d = 0; d < rank; d++)
        step[d] = 1;
    at[axis] = start;
    shape[axis] = n;
    return graph_slice_const(g, x, at, step, shape);
}

static bool known_extents(Graph *g, Id x)
{
    for (int d = 0; d < node_at(g, x)->rank; d++)
        if (node_shape(g, x)[d] < 0)
            return err_set(g->err, ERR_UNSUPPORTED, "a product of complex numbers over a run-time extent is not supported; multiply absolute values and angles instead");
    return true;
}

/* Products by halves: the odd element of a stage waits for the end. */
static Id prod_along(Graph *g, Id x, int axis)
{
    Dim n = node_shape(g, x)[axis], shape[MAX_RANK];
    int rank = node_at(g, x)->rank;
    Id rest = 0;
    memcpy(shape, node_shape(g, x), (size_t)rank * sizeof *shape);
    shape[axis] = 1;
    if (n == 0)
        return graph_broadcast(g, graph_number(g, (Dtype)node_at(g, x)->dtype, 1), shape, rank);
    for (; n > 1; n /= 2) {
        Id odd = n % 2 ? piece(g, x, axis, n - 1, 1) : 0;
        rest = odd && rest ? graph_binary(g, OP_multiply, odd, rest) : odd ? odd : rest;
        x = graph_binary(g, OP_multiply, piece(g, x, axis, 0, n / 2), piece(g, x, axis, n / 2, n / 2));
        if (!x)
            return 0;
    }
    return rest ? graph_binary(g, OP_multiply, x, rest) : x;
}

static Id reduce_prod(Graph *g, Id x, uint64_t axes, const Type *type)
{
    if (!known_extents(g, x))
        return 0;
    for (int d = 0; d < node_at(g, x)->rank; d++)
        if (axes >> d & 1 && !(x = prod_along(g, x, d)))
            return 0;
    return graph_reshape(g, x, type->shape, type->rank);
}

/* A reduced array in the shape of what was reduced. */
static Id unreduce(Graph *g, Id r, Id like, uint64_t axes)
{
    Dim shape[MAX_RANK];
    int rank = node_at(g, like)->rank;
    for (int d = 0; d < rank; d++)
        shape[d] = axes >> d & 1 ? 1 : node_shape(g, like)[d];
    return graph_broadcast(g, graph_reshape(g, r, shape, rank), node_shape(g, like), rank);
}

/* Each element's number in C order of some axes; 0 where their extents are not known. */
static Id numbered(Graph *g, Id like, uint64_t axes)
{
    int rank = node_at(g, like)->rank;
    Dim shape[MAX_RANK], line[MAX_RANK];
    Id all = 0;
    int64_t n = 1;
    memcpy(shape, node_shape(g, like), rank * sizeof *shape);
    for (int d = rank; d-- > 0;) {
        if (!(axes >> d & 1))
            continue;
        if (n <= 0)
            return 0;
        for (int k = 0; k < rank; k++)
            line[k] = k == d ? shape[d] : 1;
        Id i = graph_broadcast(g, graph_reshape(g, graph_iota(g, shape[d]), line, rank), shape, rank);
        all = all ? graph_binary(g, OP_add, all, graph_binary(g, OP_multiply, i, graph_broadcast(g, graph_const(g, DT_int64, n), shape, rank))) : i;
        n = shape[d] < 0 ? 0 : n * shape[d];
    }
    return n || !(axes & (axes - 1)) ? all : 0;
}

/* The first element in which there is a NaN, where there is one: what NumPy's running maximum stays with. */
static Z first_nan(const Cx *c, Z x, Id nan, uint64_t axes)
{
    Graph *g = c->g;
    Id number = numbered(g, x.re, axes), low = cx_number(c, -INFINITY);
    Id it = number ? cx2(c, OP_equal, number, unreduce(g, graph_reduce(g, OP_reduce_argmax, nan, axes, 0), x.re, axes)) : nan;
    return (Z){ graph_reduce(g, OP_reduce_max, cx_where(c, it, x.re, low), axes, 0), graph_reduce(g, OP_reduce_max, cx_where(c, it, x.im, low), axes, 0) };
}

/* The greatest (least) real part and, among those that have it, the greatest imaginary part; the first element with a NaN if there is one.
 * `hits`: which elements these are. */
static Z reduce_extreme(Graph *g, Op op, Z x, uint64_t axes, Id *hits)
{
    bool most = op == OP_reduce_max || op == OP_reduce_argmax;
    Cx c = { g, (Dtype)node_at(g, x.re)->dtype, x.re };
    Op reduce = most ? OP_reduce_max : OP_reduce_min;
    Id nan = is_nan(&c, x), key = cx_where(&c, nan, cx_number(&c, NAN), x.re), re = graph_reduce(g, reduce, key, axes, 0);
    Id best = unreduce(g, re, x.re, axes), held = cx2(&c, OP_equal, key, best);
    Id im = graph_reduce(g, reduce, cx_where(&c, held, x.im, cx_number(&c, most ? -INFINITY : INFINITY)), axes, 0);
    if (hits) {
        Id second = cx_and(&c, held, cx2(&c, OP_equal, x.im, unreduce(g, im, x.re, axes)));
        *hits = cx_where(&c, cx1(&c, OP_isnan, best), nan, second);
    }
    return re && im ? cx_choose(&c, cx1(&c, OP_isnan, re), first_nan(&c, x, nan, axes), (Z){ re, im }) : (Z){ 0, 0 };
}

static Id reduce(Graph *g, Op op, Id in, const int64_t *attr, const Type *type)
{
    Z x = parts(g, in);
    uint64_t axes = (uint64_t)attr[0];
    double ddof = 0;
    Id hits = 0;
    switch ((int)op) {
    case OP_reduce_sum: return join(g, (Z){ graph_reduce(g, op, x.re, axes, 0), graph_reduce(g, op, x.im, axes, 0) });
    case OP_reduce_prod: return reduce_prod(g, in, axes, type);
    case OP_reduce_max: case OP_reduce_min: return join(g, reduce_extreme(g, op, x, axes, NULL));
    case OP_reduce_argmax: case OP_reduce_argmin:
        reduce_extreme(g, op, x, axes, &hits);
        return graph_reduce(g, OP_reduce_argmax, hits, axes, 0);
    case OP_reduce_var:
        memcpy(&ddof, &attr[1], sizeof ddof);
        return graph_binary(g, OP_add, graph_reduce(g, op, x.re, axes, ddof), graph_reduce(g, op, x.im, axes, ddof));
    }
    return 0;
}

/* ---- scans and products ---- */

/* After the step of distance d each element joins the 2d that end with it. */
static Id running(Graph *g, Op op, Id x, int axis)
{
    if (!known_extents(g, x))
        return 0;
    Dim n = node_shape(g, x)[axis];
    for (Dim d = 1; d < n && x; d *= 2) {
        Id low = piece(g, x, axis, 0, d), high = graph_binary(g, op, piece(g, x, axis, 0, n - d), piece(g, x, axis, d, n - d));
        x = low && high ? graph_concatenate(g, (Id[]){ low, high }, 2, axis) : 0;
    }
    return x;
}

static Id dot(Graph *g, Z a, Z b)
{
    Id re = graph_binary(g, OP_subtract, graph_dot(g, a.re, b.re), graph_dot(g, a.im, b.im));
    return join(g, (Z){ re, graph_binary(g, OP_add, graph_dot(g, a.re, b.im), graph_dot(g, a.im, b.re)) });
}

Id expand_complex(Graph *g, Op op, const Id *in, int nin, const int64_t *attr, const Type *type)
{
    switch (op_info[op].kind) {
    case KIND_ELEMENTWISE: case KIND_COMPOSITE: return elementwise(g, op, in, nin, type);
    case KIND_REDUCE: return reduce(g, op, in[0], attr, type);
    case KIND_SCAN:
        if (op != OP_cumsum)
            return running(g, op == OP_cumprod ? OP_multiply : op == OP_cummax ? OP_maximum : OP_minimum, in[0], (int)attr[0]);
        return join(g, (Z){ graph_scan(g, op, parts(g, in[0]).re, (int)attr[0]), graph_scan(g, op, parts(g, in[0]).im, (int)attr[0]) });
    case KIND_DOT: return dot(g, parts(g, in[0]), parts(g, in[1]));
    case KIND_SOURCE: case KIND_VIEW: case KIND_PLACE: case KIND_CONTROL: break;
    }
    return 0;
}

bool expands_complex(Op op, Dtype in, Dtype out)
{
    OpKind kind = op_info[op].kind;
    bool computes = kind == KIND_ELEMENTWISE || kind == KIND_COMPOSITE || kind == KIND_REDUCE || kind == KIND_SCAN || kind == KIND_DOT;
    if (op == OP_real || op == OP_imag || op == OP_complex_ || !computes)
        return false;
    return is_complex(in) || (op == OP_cast && is_complex(out));
}
