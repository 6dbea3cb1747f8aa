/* Folding of elementwise ops: constants, scalars under a broadcast, and identities. */
#include "ir/fold.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- constants and scalars ---- */

static bool evaluates(Dtype d)
{
    return dtype_info[d].kind != DKIND_COMPLEX;
}

/* The value of an op all of whose inputs are constants. `where` is chosen by its rule. */
static Id fold_constants(const Fold *f)
{
    int64_t v[3] = { 0 };
    Dtype in = (Dtype)fold_input(f, 0)->dtype;
    if (f->op == OP_where || !evaluates(in) || !evaluates(f->type->dtype))
        return 0;
    for (int i = 0; i < f->nin; i++)
        if (!node_const(f->g, f->in[i], &v[i]))
            return 0;
    return graph_const(f->g, f->type->dtype, eval_elementwise(f->op, in, f->type->dtype, v[0], v[1], v[2]));
}

/* op(broadcast s, broadcast t) ==> broadcast op(s, t) for scalars: arithmetic on scalars stays scalar. */
static Id sink_broadcast(const Fold *f)
{
    Id s[3];
    if (!f->type->rank)
        return 0;
    for (int i = 0; i < f->nin; i++)
        if (!(s[i] = fold_scalar(f->g, f->in[i])))
            return 0;
    return fold_spread(f, graph_add(f->g, f->op, s, f->nin, NULL, 0, f->type->dtype, NULL, 0));
}

/* ---- what an operand is known to be ---- */

static Id known(const Fold *f, int64_t bits) { return fold_spread(f, graph_const(f->g, f->type->dtype, bits)); }

static DtypeKind kind_of(const Fold *f) { return dtype_info[fold_input(f, 0)->dtype].kind; }
static bool is_float(const Fold *f) { return kind_of(f) >= DKIND_FLOAT; }

/* Whether operand k repeats that number; 0.0 does not count as -0.0. */
static bool operand_is(const Fold *f, int k, double value)
{
    int64_t bits;
    Dtype d = (Dtype)fold_input(f, k)->dtype;
    if (!evaluates(d) || !fold_known(f->g, f->in[k], &bits))
        return false;
    if (dtype_info[d].kind != DKIND_FLOAT)
        return value == (double)(int64_t)value && bits == (int64_t)value && !signbit(value);
    double x = float_value(d, bits);
    return x == value && signbit(x) == signbit(value);
}

/* All bits of an integer operand are ones. */
static bool operand_is_ones(const Fold *f, int k)
{
    int64_t bits;
    Dtype d = (Dtype)fold_input(f, k)->dtype;
    if (!fold_known(f->g, f->in[k], &bits))
        return false;
    uint64_t mask = d == DT_bool_ ? 1 : ~0ull >> (64 - 8 * dtype_info[d].bytes);
    return ((uint64_t)bits & mask) == mask;
}

static bool same(const Fold *f) { return f->in[0] == f->in[1]; }

/* The input of the input, if that is this op. */
static Id under(const Fold *f, Id id, Op op) { return node_at(f->g, id)->op == op ? node_in(f->g, id)[0] : 0; }

/* The other operand of a commutative op, if one is that number. */
static Id beside(const Fold *f, double value)
{
    return operand_is(f, 1, value) ? f->in[0] : operand_is(f, 0, value) ? f->in[1] : 0;
}

/* ---- rules ---- */

static Id fold_add(const Fold *f)
{
    return is_float(f) ? beside(f, -0.0) : beside(f, 0);
}

static Id fold_subtract(const Fold *f)
{
    if (operand_is(f, 1, 0))
        return f->in[0];
    return !is_float(f) && same(f) ? known(f, 0) : 0;
}

static Id fold_multiply(const Fold *f)
{
    Id r = beside(f, 1);
    if (r || is_float(f))
        return r;
    return beside(f, 0) ? known(f, 0) : 0;
}

/* x / 2**k ==> x * 2**-k: both round the same real number. */
static Id fold_divide(const Fold *f)
{
    int64_t bits;
    int e;
    Dtype d = (Dtype)fold_input(f, 0)->dtype;
    if (operand_is(f, 1, 1))
        return f->in[0];
    if (!evaluates(d) || !fold_known(f->g, f->in[1], &bits))
        return 0;
    double y = float_value(d, bits);
    if (!isfinite(y) || fabs(frexp(y, &e)) != 0.5 || abs(e) > (d == DT_float32 ? 120 : 1000))
        return 0;
    return graph_binary(f->g, OP_multiply, f->in[0], fold_spread(f, graph_number(f->g, d, 1 / y)));
}

static Id fold_floor_divide(const Fold *f) { return !is_float(f) && operand_is(f, 1, 1) ? f->in[0] : 0; }
static Id fold_remainder(const Fold *f) { return !is_float(f) && operand_is(f, 1, 1) ? known(f, 0) : 0; }

/* pow(x, 1) is x and pow(x, 0) is 1 for all x, NaN too. */
static Id fold_power(const Fold *f)
{
    if (operand_is(f, 1, 1))
        return f->in[0];
    return operand_is(f, 1, 0) ? fold_spread(f, graph_number(f->g, f->type->dtype, 1)) : 0;
}

static Id fold_twice(const Fold *f) { return under(f, f->in[0], f->op); }            /* op(op(x)) ==> x */
static Id fold_again(const Fold *f) { return under(f, f->in[0], f->op) ? f->in[0] : 0; }  /* op(op(x)) ==> op(x) */

static Id fold_round(const Fold *f)
{
    Op inner = (Op)fold_input(f, 0)->op;
    return inner == OP_floor || inner == OP_ceil || inner == OP_trunc || inner == OP_rint ? f->in[0] : 0;
}

static Id fold_absolute(const Fold *f)
{
    if (kind_of(f) == DKIND_BOOL || kind_of(f) == DKIND_UINT)
        return f->in[0];
    Id x = under(f, f->in[0], OP_negative);
    return x ? graph_unary(f->g, OP_absolute, x) : fold_again(f);
}

static Id fold_idempotent(const Fold *f) { return same(f) ? f->in[0] : 0; }          /* op(x, x) ==> x */

/* maximum(x, c) ==> x, where no x is below c: the number of a range's elements, where that is an array's own extent. */
static Id fold_maximum(const Fold *f)
{
    int64_t c, lo, hi;
    for (int k = 0; k < 2; k++)
        if (!f->type->rank && f->type->dtype == DT_int64 && node_const(f->g, f->in[k], &c) && node_range(f->g, f->in[1 - k], &lo, &hi) && lo >= c)
            return f->in[1 - k];
    return fold_idempotent(f);
}

static Id fold_never(const Fold *f) { return same(f) ? known(f, 0) : 0; }            /* op(x, x) ==> False */
static Id fold_reflexive(const Fold *f) { return same(f) && !is_float(f) ? known(f, 1) : 0; }
static Id fold_not_equal(const Fold *f) { return same(f) && !is_float(f) ? known(f, 0) : 0; }

static Id fold_and(const Fold *f)
{
    if (same(f) || operand_is_ones(f, 1))
        return f->in[0];
    if (operand_is_ones(f, 0))
        return f->in[1];
    return beside(f, 0) ? known(f, 0) : 0;
}

static Id fold_or(const Fold *f)
{
    Id r = same(f) ? f->in[0] : beside(f, 0);
    if (r)
        return r;
    return operand_is_ones(f, 1) ? f->in[1] : operand_is_ones(f, 0) ? f->in[0] : 0;
}

static Id fold_xor(const Fold *f)
{
    if (same(f))
        return known(f, 0);
    Id r = beside(f, 0);
    if (r || kind_of(f) != DKIND_BOOL)
        return r;
    Id x = beside(f, 1);
    return x ? graph_unary(f->g, OP_logical_not, x) : 0;
}

static Id fold_shift(const Fold *f) { return operand_is(f, 1, 0) ? f->in[0] : 0; }

/* x >> n ==> its value, where all values of x give one (a bool, or a short unsigned integer that was widened). */
static Id fold_right_shift(const Fold *f)
{
    int64_t n, lo, hi;
    bool one = dtype_info[f->type->dtype].kind == DKIND_INT && fold_known(f->g, f->in[1], &n) && n >= 0 && n < 8 * dtype_info[f->type->dtype].bytes
        && node_range(f->g, f->in[0], &lo, &hi) && lo >> n == hi >> n;
    return one ? known(f, lo >> n) : fold_shift(f);
}

/* not (a == b) ==> a != b; not (a < b) ==> b <= a, but for floats, whose NaNs compare false. */
static Id fold_logical_not(const Fold *f)
{
    Id x = f->in[0], inner = under(f, x, OP_logical_not);
    if (inner)
        return inner;
    Op op = (Op)node_at(f->g, x)->op;
    const Id *in = node_in(f->g, x);
    if (op == OP_equal || op == OP_not_equal)
        return graph_binary(f->g, op == OP_equal ? OP_not_equal : OP_equal, in[0], in[1]);
    if ((op == OP_less || op == OP_less_equal) && dtype_info[node_at(f->g, in[0])->dtype].kind < DKIND_FLOAT)
        return graph_binary(f->g, op == OP_less ? OP_less_equal : OP_less, in[1], in[0]);
    return 0;
}

static Id fold_where(const Fold *f)
{
    int64_t c;
    if (f->in[1] == f->in[2])
        return f->in[1];
    if (fold_known(f->g, f->in[0], &c))
        return c ? f->in[1] : f->in[2];
    Id opposite = under(f, f->in[0], OP_logical_not);
    if (opposite)
        return graph_where(f->g, opposite, f->in[2], f->in[1]);
    if (f->type->dtype != DT_bool_) {
        bool number = (f->type->dtype == DT_float32 || f->type->dtype == DT_float64) && operand_is(f, 1, 1) && operand_is(f, 2, 0);
        return number ? graph_cast(f->g, f->in[0], (Dtype)f->type->dtype) : 0;      /* where(c, 1.0, 0.0) ==> c's own number */
    }
    if (operand_is(f, 1, 1) && operand_is(f, 2, 0))
        return f->in[0];
    return operand_is(f, 1, 0) && operand_is(f, 2, 1) ? graph_unary(f->g, OP_logical_not, f->in[0]) : 0;
}

/* Bits of a float's significand, the implicit one included. */
static int precision(Dtype d)
{
    return dtype_is_small(d) ? float_format[d].mantissa + 1 : d == DT_float32 || d == DT_complex64 ? 24 : 53;
}

/* Whether every value of a is one of b. */
static bool widens(Dtype a, Dtype b)
{
    DtypeKind ka = dtype_info[a].kind, kb = dtype_info[b].kind;
    int bits = 8 * dtype_info[a].bytes, room = 8 * dtype_info[b].bytes;
    if (a == b || ka == DKIND_BOOL)
        return true;
    if (kb == DKIND_BOOL)
        return false;
    if (ka == DKIND_INT || ka == DKIND_UINT) {
        int magnitude = bits - (ka == DKIND_INT);
        if (kb >= DKIND_FLOAT)
            return magnitude <= precision(b);
        return kb == DKIND_INT ? magnitude <= room - 1 : ka == DKIND_UINT && bits <= room;
    }
    return kb >= ka && precision(a) <= precision(b) && !dtype_is_small(b);
}

static bool is_int(Dtype d) { return dtype_info[d].kind == DKIND_INT || dtype_info[d].kind == DKIND_UINT; }

/* Whether cast(cast(x, b), c) is cast(x, c) for all x of dtype a. */
static bool skips(Dtype a, Dtype b, Dtype c)
{
    if (is_int(a) && is_int(b) && is_int(c) && dtype_info[c].bytes <= dtype_info[b].bytes)
        return true;                       /* remainders of remainders */
    if (dtype_is_small(c) && !(dtype_info[a].kind >= DKIND_FLOAT) && !widens(a, DT_float32))
        return false;                      /* integers go to small floats through float32 */
    if (!widens(a, b) || (dtype_info[b].kind == DKIND_COMPLEX && dtype_info[c].kind != DKIND_COMPLEX))
        return false;
    /* From floats to integers the same value may be converted by another instruction, with another result out of range. */
    return dtype_info[b].kind < DKIND_FLOAT || !is_int(c) || (dtype_info[a].kind < DKIND_FLOAT && widens(a, c));
}

static Id fold_cast(const Fold *f)
{
    Dtype from = (Dtype)fold_input(f, 0)->dtype, to = f->type->dtype;
    if (from == to)
        return f->in[0];
    Id x = under(f, f->in[0], OP_cast);
    return x && skips((Dtype)node_at(f->g, x)->dtype, from, to) ? graph_cast(f->g, x, to) : 0;
}

static Id fold_bitcast(const Fold *f)
{
    Dtype from = (Dtype)fold_input(f, 0)->dtype, to = f->type->dtype;
    if (from == to)
        return f->in[0];
    Id x = under(f, f->in[0], OP_bitcast);
    return x ? graph_add(f->g, OP_bitcast, &x, 1, NULL, 0, to, NULL, 0) : 0;
}

/* The node under views. */
static Id root_of(const Graph *g, Id id)
{
    while (op_info[node_at(g, id)->op].kind == KIND_VIEW)
        id = node_in(g, id)[0];
    return id;
}

/* A part of what was put together from parts is that part, also through views. */
static Id fold_part(const Fold *f)
{
    Graph *g = f->g;
    Id x = f->in[0];
    Node n = *node_at(g, x);
    if (n.op == OP_complex_)
        return node_in(g, x)[f->op == OP_imag];
    if (op_info[n.op].kind != KIND_VIEW || node_at(g, root_of(g, x))->op != OP_complex_)
        return 0;
    Id in[1 + MAX_RANK];
    int64_t attr[2 * MAX_RANK];
    memcpy(in, node_in(g, x), n.nin * sizeof *in);
    memcpy(attr, node_attr(g, x), n.nattr * sizeof *attr);
    in[0] = graph_unary(g, f->op, in[0]);
    return graph_add(g, (Op)n.op, in, n.nin, attr, n.nattr, f->type->dtype, NULL, 0);
}

static Id fold_complex(const Fold *f)
{
    Id x = under(f, f->in[0], OP_real);
    return x && x == under(f, f->in[1], OP_imag) ? x : 0;
}

static FoldRule *const rules[OP_COUNT] = {
    [OP_add] = fold_add, [OP_subtract] = fold_subtract, [OP_multiply] = fold_multiply, [OP_divide] = fold_divide,
    [OP_floor_divide] = fold_floor_divide, [OP_remainder] = fold_remainder, [OP_fmod] = fold_remainder, [OP_power] = fold_power,
    [OP_negative] = fold_twice, [OP_invert] = fold_twice, [OP_absolute] = fold_absolute, [OP_sign] = fold_again,
    [OP_floor] = fold_round, [OP_ceil] = fold_round, [OP_trunc] = fold_round, [OP_rint] = fold_round,
    [OP_maximum] = fold_maximum, [OP_minimum] = fold_idempotent, [OP_fmax] = fold_idempotent, [OP_fmin] = fold_idempotent,
    [OP_equal] = fold_reflexive, [OP_not_equal] = fold_not_equal, [OP_less] = fold_never, [OP_less_equal] = fold_reflexive,
    [OP_logical_and] = fold_and, [OP_logical_or] = fold_or, [OP_logical_xor] = fold_xor, [OP_logical_not] = fold_logical_not,
    [OP_bitwise_and] = fold_and, [OP_bitwise_or] = fold_or, [OP_bitwise_xor] = fold_xor,
    [OP_left_shift] = fold_shift, [OP_right_shift] = fold_right_shift,
    [OP_where] = fold_where, [OP_cast] = fold_cast, [OP_bitcast] = fold_bitcast, [OP_real] = fold_part, [OP_imag] = fold_part, [OP_complex_] = fold_complex,
};

Id fold_elementwise(const Fold *f)
{
    Id r = f->type->rank ? sink_broadcast(f) : fold_constants(f);
    return r || !rules[f->op] ? r : rules[f->op](f);
}

/* ---- the way in ---- */

static bool is_empty(const Graph *g, const Type *t)
{
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] <= 0 && dim_hi(g, t->shape[i]) == 0)
            return true;
    return false;
}

/* An array without elements is any array without elements. */
static Id fold_empty(const Fold *f)
{
    Op in = f->nin ? (Op)fold_input(f, 0)->op : OP_none;
    if (f->op == OP_broadcast && (in == OP_const || in == OP_complex_))
        return 0;
    return fold_spread(f, graph_const(f->g, f->type->dtype, 0));
}

Id fold(Graph *g, Op op, const Id *in, int nin, const int64_t *attr, int nattr, const Type *type)
{
    Fold f = { g, op, in, nin, attr, nattr, type };
    OpKind kind = op_info[op].kind;
    if (kind == KIND_SOURCE)
        return 0;
    if (kind != KIND_CONTROL && is_empty(g, type))
        return fold_empty(&f);
    if (kind == KIND_ELEMENTWISE)
        return fold_elementwise(&f);
    return fold_rules[op] ? fold_rules[op](&f) : 0;
}
