/* Every fold of elementwise ops against the ops themselves: graphs of one or two ops over an input and a constant, folded by
 * graph_add(), give for all special values the bits that eval_elementwise() gives op by op (any NaN for a NaN). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir/ir.h"

enum { MAX_VALUES = 32 };

static long failures, cases, folded;
static Err err;
static Arena *arena;
static Graph *g;

static bool supported(Dtype d) { return dtype_info[d].kind != DKIND_COMPLEX && !dtype_is_small(d); }
static bool accepts(Op op, Dtype d) { return op != OP_complex_ && strchr(op_info[op].dtypes, "biufc"[dtype_info[d].kind]); }

/* Graphs are made anew for each case: rules look at what their inputs are. */
static void fresh(void)
{
    arena_free(arena);
    err = (Err){ 0 };
    arena = arena_new(&err);
    g = graph_new(arena);
}

static int64_t float_of(Dtype d, double x)
{
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return d == DT_float64 ? bits : eval_elementwise(OP_cast, DT_float64, d, bits, 0, 0);
}

/* Special values of a dtype, as bits. */
static int special(Dtype d, int64_t *v)
{
    static const double floats[] = { 0.0, -0.0, 1, -1, 2, -2, 0.5, 3, 0.25, 8, 1024, -0.125, 1.5, -2.5, INFINITY, -INFINITY, NAN, 1e-310, 1e-40, 3.4e38, 300, 70000, 3e9, -3e9, 1e19 };
    static const int64_t ints[] = { 0, 1, -1, 2, 3, 5, 7, 8, 63, 64, 127, 128, 255, -128, 65535, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN };
    DtypeKind kind = dtype_info[d].kind;
    int n = 0;
    if (kind == DKIND_BOOL)
        v[n++] = 0, v[n++] = 1;
    else if (kind == DKIND_FLOAT)
        for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
            v[n++] = float_of(d, floats[i]);
    else
        for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
            v[n++] = eval_elementwise(OP_cast, DT_int64, d, ints[i], 0, 0);
    return n;
}

static int64_t apply(Op op, Dtype in, Dtype out, const int64_t *v)
{
    return op == OP_where ? (v[0] ? v[1] : v[2]) : eval_elementwise(op, in, out, v[0], v[1], v[2]);
}

/* The value of a scalar node where all inputs are x. */
static int64_t value(Id id, int64_t x)
{
    const Node *n = node_at(g, id);
    int64_t v[3] = { 0 };
    if (n->op == OP_input)
        return x;
    if (node_const(g, id, &v[0]))
        return v[0];
    for (int i = 0; i < n->nin; i++)
        v[i] = value(node_in(g, id)[i], x);
    return apply((Op)n->op, (Dtype)node_at(g, node_in(g, id)[0])->dtype, (Dtype)n->dtype, v);
}

static bool same(Dtype d, int64_t a, int64_t b)
{
    if (dtype_info[d].kind == DKIND_FLOAT
        && eval_elementwise(OP_isnan, d, DT_bool_, a, 0, 0) && eval_elementwise(OP_isnan, d, DT_bool_, b, 0, 0))
        return true;
    int shift = 64 - 8 * dtype_info[d].bytes;
    return (uint64_t)a << shift == (uint64_t)b << shift;
}

static void report(Id id, const char *what, int64_t x, int64_t got, int64_t want)
{
    Text t = { 0 };
    if (failures++ > 20)
        return;
    graph_print(&t, g);
    printf("%s: x = 0x%llx: %%%u is 0x%llx instead of 0x%llx in\n%s", what, (unsigned long long)x, id, (unsigned long long)got, (unsigned long long)want, t.at);
    text_free(&t);
}

/* Whether node id is, for all x, what `outer` gives of what the node's operands would be. */
static void check(const char *what, Id id, Op op, Dtype x_dtype, Dtype in, Dtype out, const Id *operand, int nin)
{
    int64_t xs[MAX_VALUES];
    int n = special(x_dtype, xs);
    if (!id) {
        failures++;
        printf("%s: %s\n", what, err.msg);
        return;
    }
    cases++;
    folded += node_at(g, id)->op != op;
    for (int i = 0; i < n; i++) {
        int64_t v[3] = { 0 };
        for (int k = 0; k < nin; k++)
            v[k] = value(operand[k], xs[i]);
        int64_t want = apply(op, in, out, v), got = value(id, xs[i]);
        if (!same(out, got, want))
            report(id, what, xs[i], got, want);
    }
}

static Dtype result_of(Op op, Dtype d) { return op_info[op].result == RESULT_BOOL ? DT_bool_ : d; }

static void with_constant(Op op, Dtype d)
{
    int64_t c[MAX_VALUES];
    int n = special(d, c);
    for (int i = 0; i < n; i++)
        for (int side = 0; side < 2; side++) {
            fresh();
            Id in[2];
            in[side] = graph_input(g, d, NULL, 0, 0);
            in[!side] = graph_const(g, d, c[i]);
            check(op_info[op].name, graph_binary(g, op, in[0], in[1]), op, d, d, result_of(op, d), in, 2);
        }
}

static void with_itself(Op op, Dtype d)
{
    fresh();
    Id x = graph_input(g, d, NULL, 0, 0), in[3] = { x, x, x };
    check(op_info[op].name, graph_add(g, op, in, op_info[op].nin, NULL, 0, DT_COUNT, NULL, 0), op, d, d, result_of(op, d), in, op_info[op].nin);
}

/* op(inner(x)), op(inner(x, x')) with x' a number: rules that look through one op. */
static void with_inner(Op op, Op inner, Dtype d)
{
    Dtype mid = result_of(inner, d);
    int64_t c[MAX_VALUES];
    int n = op_info[inner].nin == 1 ? 1 : special(d, c);
    for (int i = 0; i < n && accepts(op, mid); i++) {
        fresh();
        Id in[2] = { graph_input(g, d, NULL, 0, 0), op_info[inner].nin == 2 ? graph_const(g, d, c[i]) : 0 };
        Id x = graph_add(g, inner, in, op_info[inner].nin, NULL, 0, DT_COUNT, NULL, 0);
        check(op_info[op].name, graph_unary(g, op, x), op, d, mid, result_of(op, mid), &x, 1);
    }
}

static void wheres(Dtype d)
{
    int64_t c[MAX_VALUES];
    int n = special(d, c);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            fresh();
            Id x = graph_input(g, DT_bool_, NULL, 0, 0), a = graph_const(g, d, c[i]), b = graph_const(g, d, c[k]);
            Id in[3] = { x, a, b }, inverse[3] = { graph_unary(g, OP_logical_not, x), a, b };
            check("where", graph_where(g, x, a, b), OP_where, DT_bool_, d, d, in, 3);
            check("where not", graph_where(g, inverse[0], a, b), OP_where, DT_bool_, d, d, inverse, 3);
        }
}

static void casts(Dtype a, Dtype b, Dtype c)
{
    fresh();
    Id x = graph_cast(g, graph_input(g, a, NULL, 0, 0), b);
    check("cast", graph_cast(g, x, c), OP_cast, a, b, c, &x, 1);
}

int main(void)
{
    for (Op op = OP_none + 1; op < OP_COUNT; op++) {
        if (op_info[op].kind != KIND_ELEMENTWISE || op == OP_where || op == OP_cast || op == OP_bitcast)
            continue;
        for (Dtype d = 0; d < DT_COUNT; d++) {
            if (!supported(d) || !accepts(op, d))
                continue;
            if (op_info[op].nin == 2)
                with_constant(op, d);
            with_itself(op, d);
        }
    }
    static const Op unary[] = { OP_negative, OP_absolute, OP_sign, OP_floor, OP_ceil, OP_trunc, OP_rint, OP_logical_not, OP_invert };
    static const Op inner[] = { OP_negative, OP_absolute, OP_sign, OP_floor, OP_ceil, OP_trunc, OP_rint, OP_logical_not, OP_invert, OP_equal, OP_not_equal, OP_less, OP_less_equal };
    for (Dtype d = 0; d < DT_COUNT; d++)
        for (size_t i = 0; supported(d) && i < sizeof unary / sizeof *unary; i++)
            for (size_t k = 0; k < sizeof inner / sizeof *inner; k++)
                if (accepts(inner[k], d))
                    with_inner(unary[i], inner[k], d);
    for (Dtype a = 0; a < DT_COUNT; a++)
        for (Dtype b = 0; supported(a) && b < DT_COUNT; b++)
            for (Dtype c = 0; supported(b) && c < DT_COUNT; c++)
                if (supported(c))
                    casts(a, b, c);
    for (Dtype d = 0; d < DT_COUNT; d++)
        if (supported(d))
            wheres(d);
    arena_free(arena);
    printf("%ld cases, %ld folded, %ld failures\n", cases, folded, failures);
    return failures != 0 || folded < 1000;
}
