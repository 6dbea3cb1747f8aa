/* log, log2, log10, log1p: x = 2^k m, m in [sqrt 1/2, sqrt 2), log(m) from f = m - 1. */
#include "gen/math.h"
#include <math.h>

/* log(1 + f) = f - f^2/2 + f^3 (c[0] + c[1] f + ...) */
static const double log_c32[] = {0x1.55554p-2, -0x1.00021ep-2, 0x1.99a892p-3, -0x1.547a52p-3, 0x1.224c78p-3, -0x1.0cc01ap-3, 0x1.08451ep-3, -0x1.43097p-4};
/* log(1 + f) = 2u + u^3 (c[0] + c[1] u^2 + ...), u = f / (2 + f) */
static const double log_c64[] = {0x1.5555555555592p-1, 0x1.999999997fee8p-2, 0x1.24924941e6abep-2, 0x1.c71c520df9568p-3, 0x1.74663e9d5b59ap-3, 0x1.39a1b3de8c52ep-3, 0x1.2f0628d274c96p-3};

/* log(1 + f) = f - f^2/2 + f^3 (c[0] + ...) for f in [-1/32, 1/16] */
static const double short_c32[] = {0x1.555836p-2, -0x1.00139ap-2, 0x1.826d04p-3};
static const double short_c64[] = {0x1.5555555555e82p-2, -0x1.fffffffffb84bp-3, 0x1.9999998216b38p-3, -0x1.5555548cf00b0p-3,
                                   0x1.2492d1ad271aap-3, -0x1.0009d0e10ebb0p-3, 0x1.c588de7998749p-4, -0x1.669b60c61eca0p-4};

/* A base: log_b 2, whose first part has so few bits that k times it is exact, and 1 / ln b. */
typedef struct { Constant two[2], factor[2]; const Table *table; bool natural; } Base;
static const Base base_e = {{{0x1.62e4p-1, 0x1.7f7d1cp-20}, {0x1.62e42fefa38p-1, 0x1.ef35793c7673p-45}}, {{1, 0}, {1, 0}}, log_table, true};
static const Base base_2 = {{{1, 0}, {1, 0}}, {{0x1.715476p0, 0x1.4ae0cp-26}, {0x1.71547652b82fep0, 0x1.777d0ffda0d24p-56}}, log2_table, false};
static const Base base_10 = {{{0x1.344p-2, 0x1.3509f8p-18}, {0x1.34413509f8p-2, -0x1.80433b83b532ap-44}},
                             {{0x1.bcb7b2p-2, -0x1.5b235ep-27}, {0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57}}, log10_table, false};

/* float64: log(1 + f) - f + f^2/2, |it| <= 0.03, for f in [sqrt 1/2 - 1, sqrt 2 - 1], and *half = f^2/2: u (f^2/2 + u^2 P(u^2)), in which an
 * error of u counts little. */
static Value log_cubes(Emit *e, Dtype dt, Value f, Value *half)
{
    *half = v_fmul(e, v_fmul(e, f, f), v_f(e, dt, .5));
    Value u = v_fdiv(e, f, v_fadd(e, f, v_f(e, dt, 2)));
    Value s = v_fmul(e, u, u);
    return v_fmul(e, u, v_madd(e, s, v_poly(e, dt, s, log_c64, 7), *half));
}

/* log(1 + f) - f, |it| <= 0.09, for the same f. */
static Value log_rest(Emit *e, Dtype dt, Value f)
{
    Value half;
    if (!row_of(dt)) {
        Value p = poly_even_odd(e, dt, f, log_c32, 8);
        return v_fmul(e, v_fmul(e, f, f), v_madd(e, f, p, v_f(e, dt, -.5)));
    }
    Value cubes = log_cubes(e, dt, f, &half);
    return v_fsub(e, cubes, half);
}

/* y for 0 < x < inf, else -inf at 0, NaN below, inf at inf. */
static Value log_special(Emit *e, Dtype dt, Value y, Value x)
{
    Value infinite = v_f(e, dt, INFINITY);
    Value bad = v_select(e, is_zero(e, dt, x), v_f(e, dt, -INFINITY), v_f(e, dt, NAN));
    y = v_select(e, v_fcmp(e, LLVMRealOEQ, x, infinite), infinite, y);
    return v_select(e, v_fcmp(e, LLVMRealOGT, x, v_f(e, dt, 0)), y, bad);
}

/* base + log_b(1 + f), where base is exact and a multiple of a small number, or 0, and f + rest is log(1 + f). Rounded little more
 * than once, so exact powers stay exact. */
static Value log_sum(Emit *e, Dtype dt, const Base *b, Two base, Value f, Value rest)
{
    const Constant *factor = &b->factor[row_of(dt)];
    if (!b->natural) {
        Value hi = v_f(e, dt, factor->hi);
        Two p = two_product(e, f, hi);
        rest = v_madd(e, rest, hi, v_madd(e, f, v_f(e, dt, factor->lo), p.lo));
        f = p.hi;
    }
    Two sum = two_fast_sum(e, base.hi, f);
    return v_fadd(e, sum.hi, v_fadd(e, sum.lo, v_fadd(e, base.lo, rest)));
}

/* base + log_b(1 + f) with the base of x = 2^k m: k log 2 - log c, c = inverse_table[m]. */
static Value log_of_rest(Emit *e, Dtype dt, const Base *b, Value x, Value k, Value index, Value f)
{
    const Constant *two = &b->two[row_of(dt)];
    const Table *table = &b->table[row_of(dt)];
    Two base = {v_madd(e, k, v_f(e, dt, two->hi), table_lookup(e, dt, table->hi, index)), table_lookup(e, dt, table->lo, index)};
    base.lo = v_madd(e, k, v_f(e, dt, two->lo), base.lo);
    Value q = row_of(dt) ? poly_even_odd(e, dt, f, short_c64, 8) : v_poly(e, dt, f, short_c32, 3);
    Value rest = v_fmul(e, v_fmul(e, f, f), v_madd(e, f, q, v_f(e, dt, -.5)));
    return x86_fixup(e, dt, log_sum(e, dt, b, base, f, rest), x, ANSWERS_LOG);
}

static Value index_of(Emit *e, Dtype dt, Value m) { return v_lshr(e, v_bitcast(e, m, v_bits_dtype(dt)), row_of(dt) ? 48 : 19); }

/* f = m c - 1. Where x is just below 1, the two parts of the base cancel exactly. */
static Value log_by_table(Emit *e, Dtype dt, const Base *b, Value x)
{
    Value m = x86_getmant(e, dt, x), index = index_of(e, dt, m);
    Value f = v_fma(e, m, table_lookup(e, dt, inverse_table, index), v_f(e, dt, -1));
    return log_of_rest(e, dt, b, x, x86_getexp(e, dt, x), index, f);
}

Reduced log_reduce(Emit *e, Dtype dt, Value u)
{
    Value k = x86_getexp(e, dt, u), index = index_of(e, dt, u);
    return (Reduced){u, k, index, x86_scalef(e, dt, table_lookup(e, dt, inverse_table, index), v_fneg(e, k))};
}

Value log_reduced(Emit *e, Dtype dt, Reduced r, Value f) { return log_of_rest(e, dt, &base_e, r.u, r.k, r.index, f); }

/* k log_b 2 + log_b(1 + f); low, or NULL: what f lost to rounding, in a base of e. */
static Value log_by_series(Emit *e, Dtype dt, const Base *b, Value k, Value f, Value low)
{
    const Constant *two = &b->two[row_of(dt)];
    Two base = {v_fmul(e, k, v_f(e, dt, two->hi)), v_fmul(e, k, v_f(e, dt, two->lo))};
    if (low)
        base.lo = v_fadd(e, base.lo, v_fsub(e, low, v_fmul(e, low, f)));
    if (b->natural || !row_of(dt))
        return log_sum(e, dt, b, base, f, log_rest(e, dt, f));
    Value half, cubes = log_cubes(e, dt, f, &half);     /* of f - f^2/2 in two parts the factor sees both: in one it costs 0.4 ulp near sqrt 2 */
    Two near = two_fast_sum(e, f, v_fneg(e, half));
    return log_sum(e, dt, b, base, near.hi, v_fadd(e, near.lo, cubes));
}

static Value log_value(Emit *e, Dtype dt, const Base *b, Value x)
{
    if (has_tables(e))
        return log_by_table(e, dt, b, x);
    Mantissa parts = mantissa(e, dt, x);
    return log_special(e, dt, log_by_series(e, dt, b, parts.k, v_fsub(e, parts.m, v_f(e, dt, 1)), NULL), x);
}

LLVMValueRef emit_log(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)b, (void)c;
    return is_narrow(e, dt) ? through_float64(e, emit_log, a, NULL) : log_value(e, dt, &base_e, a);
}

LLVMValueRef emit_log2(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)b, (void)c;
    return is_narrow(e, dt) ? through_float64(e, emit_log2, a, NULL) : log_value(e, dt, &base_2, a);
}

LLVMValueRef emit_log10(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)b, (void)c;
    return is_narrow(e, dt) ? through_float64(e, emit_log10, a, NULL) : log_value(e, dt, &base_10, a);
}

/* f = (1 + x) 2^-k - 1 = x 2^-k + (2^-k - 1), in which only the last addition rounds, and what it loses is half a unit near 1/2; x itself
 * where k is 0. 2^-k may be denormal, so it is a quarter of a normal power. */
static Value log1p_by_series(Emit *e, Dtype dt, Value x, Value u)
{
    Mantissa parts = mantissa(e, dt, u);
    Nearest down = nearest(e, dt, v_fsub(e, v_f(e, dt, 2), parts.k));
    Value power = v_fmul(e, power_of_two(e, dt, down), v_f(e, dt, .25));
    Value first = v_fmul(e, x, power), second = v_fsub(e, power, v_f(e, dt, 1)), f = v_fadd(e, first, second);
    Value part = v_fsub(e, f, first), low = v_fadd(e, v_fsub(e, first, v_fsub(e, f, part)), v_fsub(e, second, part));
    f = v_select(e, is_zero(e, dt, parts.k), x, f);
    return log_special(e, dt, log_by_series(e, dt, &base_e, parts.k, f, low), u);
}

/* By table f = x c + (c - 1), c the inverse, of which the latter is exact where it matters. */
Value log1p_value(Emit *e, Dtype dt, Value x)
{
    Value one = v_f(e, dt, 1), u = v_fadd(e, x, one);
    if (!has_tables(e))
        return log1p_by_series(e, dt, x, u);
    Reduced r = log_reduce(e, dt, u);
    return log_reduced(e, dt, r, v_fma(e, x, r.inverse, v_fsub(e, r.inverse, one)));
}

LLVMValueRef emit_log1p(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)b, (void)c;
    if (is_narrow(e, dt))
        return through_float64(e, emit_log1p, a, NULL);
    return v_select(e, is_zero(e, dt, a), a, log1p_value(e, dt, a));     /* -0 */
}
