/* COMPOSITE ops as the primitive ops that NumPy's own loops carry out, and ops on small floats as ops on float32. */
#include <math.h>

#include "ir/ir.h"

typedef struct { Graph *g; Id x, y; Dtype dtype; } Expand;

/* A number, or the bits of one, in the shape and dtype of x. */
static Id spread(const Expand *e, Id scalar) { return graph_broadcast(e->g, scalar, node_shape(e->g, e->x), node_at(e->g, e->x)->rank); }
static Id number(const Expand *e, double v) { return spread(e, graph_number(e->g, e->dtype, v)); }
static Id truth(const Expand *e, bool v) { return spread(e, graph_const(e->g, DT_bool_, v)); }
static Id unary(const Expand *e, Op op, Id a) { return graph_unary(e->g, op, a); }
static Id binary(const Expand *e, Op op, Id a, Id b) { return graph_binary(e->g, op, a, b); }
static bool is_float(const Expand *e) { return dtype_info[e->dtype].kind >= DKIND_FLOAT; }

static Id expand_conjugate(const Expand *e) { return e->x; }
static Id expand_square(const Expand *e) { return binary(e, OP_multiply, e->x, e->x); }

/* NumPy computes (T)(1.0 / x), and x86 converts the infinity of x == 0 to the least int32 or int64; narrower and unsigned
 * types get its low bits, 0. */
static Id reciprocal_int(const Expand *e)
{
    int64_t least = e->dtype == DT_int32 ? INT32_MIN : e->dtype == DT_int64 ? INT64_MIN : 0;
    Id zero = number(e, 0), unit = binary(e, OP_equal, unary(e, OP_absolute, e->x), number(e, 1));
    Id r = graph_where(e->g, unit, e->x, zero);
    if (!least)
        return r;
    return graph_where(e->g, binary(e, OP_equal, e->x, zero), spread(e, graph_const(e->g, e->dtype, least)), r);
}

static Id expand_reciprocal(const Expand *e)
{
    return is_float(e) ? binary(e, OP_divide, number(e, 1), e->x) : reciprocal_int(e);
}

static Id expand_greater(const Expand *e) { return binary(e, OP_less, e->y, e->x); }
static Id expand_greater_equal(const Expand *e) { return binary(e, OP_less_equal, e->y, e->x); }

static Id expand_isfinite(const Expand *e)
{
    return is_float(e) ? binary(e, OP_less, unary(e, OP_absolute, e->x), number(e, INFINITY)) : truth(e, true);
}

static Id expand_isinf(const Expand *e)
{
    return is_float(e) ? binary(e, OP_equal, unary(e, OP_absolute, e->x), number(e, INFINITY)) : truth(e, false);
}

/* npymath's: x == y apart, because the difference of equal infinities is NaN. A NaN in x or y comes through maximum. */
static Id log_of_sum(const Expand *e, Id tail_of_minus_d, Id of_equal)
{
    Id equal = binary(e, OP_equal, e->x, e->y);
    Id apart = binary(e, OP_add, binary(e, OP_maximum, e->x, e->y), tail_of_minus_d);
    return graph_where(e->g, equal, binary(e, OP_add, e->x, of_equal), apart);
}

static Id minus_distance(const Expand *e)
{
    return unary(e, OP_negative, unary(e, OP_absolute, binary(e, OP_subtract, e->x, e->y)));
}

static Id expand_logaddexp(const Expand *e)
{
    Id tail = unary(e, OP_log1p, unary(e, OP_exp, minus_distance(e)));
    return log_of_sum(e, tail, number(e, M_LN2));
}

static Id expand_logaddexp2(const Expand *e)
{
    Id tail = unary(e, OP_log1p, unary(e, OP_exp2, minus_distance(e)));
    return log_of_sum(e, binary(e, OP_multiply, number(e, M_LOG2E), tail), number(e, 1));
}

/* NumPy divides pi and 180 in the dtype itself. */
static Id expand_deg2rad(const Expand *e)
{
    return binary(e, OP_multiply, e->x, number(e, e->dtype == DT_float32 ? (float)M_PI / 180.0f : M_PI / 180.0));
}

static Id expand_rad2deg(const Expand *e)
{
    return binary(e, OP_multiply, e->x, number(e, e->dtype == DT_float32 ? 180.0f / (float)M_PI : 180.0 / M_PI));
}

static Id expand_heaviside(const Expand *e)
{
    Id zero = number(e, 0);
    Id above = graph_where(e->g, binary(e, OP_less, zero, e->x), number(e, 1), e->x);      /* NaN stays */
    Id side = graph_where(e->g, binary(e, OP_less, e->x, zero), zero, above);
    return graph_where(e->g, binary(e, OP_equal, e->x, zero), e->y, side);
}

static Id (*const rules[OP_COUNT])(const Expand *) = {
#define COMPOSITE(id, nin, doc) [OP_##id] = expand_##id,
#define OP(id, kind, nin, result, dtypes, doc)
#include "ir/ops.def"
};

Id expand(Graph *g, Op op, const Id *in, int nin)
{
    Expand e = { g, in[0], nin > 1 ? in[1] : 0, (Dtype)node_at(g, in[0])->dtype };
    return rules[op](&e);
}

/* ---- floats of 8 and 16 bits ---- */

/* abs(x) and -x of 16 bits, which are a matter of the uppermost one. */
static Id change_sign(Graph *g, Op op, Id x, Dtype dtype)
{
    Id bits = graph_add(g, OP_bitcast, &x, 1, NULL, 0, DT_uint16, NULL, 0);
    Id mask = graph_broadcast(g, graph_const(g, DT_uint16, op == OP_absolute ? 0x7FFF : 0x8000), node_shape(g, x), node_at(g, x)->rank);
    bits = graph_binary(g, op == OP_absolute ? OP_bitwise_and : OP_bitwise_xor, bits, mask);
    return graph_add(g, OP_bitcast, &bits, 1, NULL, 0, dtype, NULL, 0);
}

Id expand_small(Graph *g, Op op, const Id *in, int nin, const int64_t *attr, int nattr, Dtype dtype)
{
    Id wide[3] = { 0 };
    if ((op == OP_absolute || op == OP_negative) && (dtype == DT_float16 || dtype == DT_bfloat16))
        return change_sign(g, op, in[0], dtype);
    for (int i = 0; i < nin; i++)
        wide[i] = graph_cast(g, in[i], DT_float32);
    Id r = graph_add(g, op, wide, nin, attr, nattr, DT_COUNT, NULL, 0);
    return r && node_at(g, r)->dtype == DT_float32 ? graph_cast(g, r, dtype) : r;
}

bool expands_small(Op op, Dtype in)
{
    OpKind kind = op_info[op].kind;
    bool computes = kind == KIND_COMPOSITE || kind == KIND_REDUCE || kind == KIND_DOT || (kind == KIND_ELEMENTWISE && op != OP_where && op != OP_cast && op != OP_bitcast);
    return dtype_is_small(in) && (computes || op == OP_cummax || op == OP_cummin);
}
