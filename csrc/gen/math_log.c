/* log, log2, log10, log1p: x = 2^k m, m in [sqrt 1/2, sqrt 2), log(m) from f = m - 1. */
#include "gen/math.h"
#include <math.h>

/* log(1 + f) = f - f^2/2 + f^3 (c[0] + c[1] f + ...) */
static const double log_c32[] = {0x1.55554p-2, -0x1.00021ep-2, 0x1.99a892p-3, -0x1.547a52p-3, 0x1.224c78p-3, -0x1.0cc01ap-3, 0x1.08451ep-3, -0x1.43097p-4};
/* log(1 + f) = 2u + u^3 (c[0] + c[1] u^2 + ...), u = f / (2 + f) */
static const double log_c64[] = {0x1.5555555555592p-1, 0x1.999999997fee8p-2, 0x1.24924941e6abep-2, 0x1.c71c520df9568p-3, 0x1.74663e9d5b59ap-3, 0x1.39a1b3de8c52ep-3, 0x1.2f0628d274c96p-3};

static const Constant log2e[2] = {{0x1.715476p0, 0x1.4ae0cp-26}, {0x1.71547652b82fep0, 0x1.777d0ffda0d24p-56}};
static const Constant log10e[2] = {{0x1.bcb7b2p-2, -0x1.5b235ep-27}, {0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57}};
/* The first part has few bits, so that k hi is exact. */
static const Constant log10_of_2[2] = {{0x1.344p-2, 0x1.3509f8p-18}, {0x1.34413509f7p-2, 0x1.3fde623e2566bp-43}};

/* float64: f - f^2/2 + u (f^2/2 + u^2 P(u^2)), in which an error of u counts little. */
Value log_rest(Emit *e, Dtype dt, Value f) {
    Value square = v_fmul(e, f, f);
    if (!row_of(dt)) {
        Value p = poly_even_odd(e, dt, f, log_c32, 8);
        return v_fmul(e, square, v_madd(e, f, p, v_f(e, dt, -.5)));
    }
    Value half = v_fmul(e, square, v_f(e, dt, .5));
    Value u = v_fdiv(e, f, v_fadd(e, f, v_f(e, dt, 2)));
    Value s = v_fmul(e, u, u);
    Value series = v_madd(e, s, v_poly(e, dt, s, log_c64, 7), half);
    return v_fsub(e, v_fmul(e, u, series), half);
}

Value log_sum(Emit *e, Dtype dt, Value k, Value f) {
    const Constant *ln2 = &math_ln2[row_of(dt)];
    Two sum = two_fast_sum(e, v_fmul(e, k, v_f(e, dt, ln2->hi)), f);
    Value rest = v_madd(e, k, v_f(e, dt, ln2->lo), log_rest(e, dt, f));
    return v_fadd(e, sum.hi, v_fadd(e, sum.lo, rest));
}

Value log_special(Emit *e, Dtype dt, Value y, Value x) {
    Value infinite = v_f(e, dt, INFINITY);
    Value bad = v_select(e, is_zero(e, dt, x), v_f(e, dt, -INFINITY), v_f(e, dt, NAN));
    y = v_select(e, v_fcmp(e, LLVMRealOEQ, x, infinite), infinite, y);
    return v_select(e, v_fcmp(e, LLVMRealOGT, x, v_f(e, dt, 0)), y, bad);
}

LLVMValueRef emit_log(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
    (void)b, (void)c;
    if (is_narrow(e, dt))
        return through_float64(e, emit_log, a, NULL);
    Mantissa x = mantissa(e, dt, a);
    Value y = log_sum(e, dt, x.k, v_fsub(e, x.m, v_f(e, dt, 1)));
    return log_special(e, dt, y, a);
}

/* k unit + log(m) factor, for unit and factor in two parts, rounded little more than once: exact powers stay exact. */
static Value log_base(Emit *e, Dtype dt, Value a, Constant unit, Constant factor) {
    Mantissa x = mantissa(e, dt, a);
    Value f = v_fsub(e, x.m, v_f(e, dt, 1));
    Two ln = two_fast_sum(e, f, log_rest(e, dt, f));
    Value hi = v_f(e, dt, factor.hi);
    Two p = two_product(e, ln.hi, hi);
    p.lo = v_fadd(e, p.lo, v_madd(e, ln.hi, v_f(e, dt, factor.lo), v_fmul(e, ln.lo, hi)));
    Two sum = two_fast_sum(e, v_fmul(e, x.k, v_f(e, dt, unit.hi)), p.hi);
    Value rest = v_madd(e, x.k, v_f(e, dt, unit.lo), v_fadd(e, sum.lo, p.lo));
    return log_special(e, dt, v_fadd(e, sum.hi, rest), a);
}

LLVMValueRef emit_log2(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
    (void)b, (void)c;
    if (is_narrow(e, dt))
        return through_float64(e, emit_log2, a, NULL);
    return log_base(e, dt, a, (Constant){1, 0}, log2e[row_of(dt)]);
}

LLVMValueRef emit_log10(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
    (void)b, (void)c;
    if (is_narrow(e, dt))
        return through_float64(e, emit_log10, a, NULL);
    return log_base(e, dt, a, log10_of_2[row_of(dt)], log10e[row_of(dt)]);
}

/* f = (1 + x) 2^-k - 1 = x 2^-k + (2^-k - 1), in which only the last addition rounds; x itself where k is 0. 2^-k may be denormal,
 * so it is a quarter of a normal power. */
Value log1p_finite(Emit *e, Dtype dt, Value x) {
    Mantissa u = mantissa(e, dt, v_fadd(e, x, v_f(e, dt, 1)));
    Nearest down = nearest(e, dt, v_fsub(e, v_f(e, dt, 2), u.k));
    Value power = v_fmul(e, power_of_two(e, dt, down), v_f(e, dt, .25));
    Value f = v_fadd(e, v_fmul(e, x, power), v_fsub(e, power, v_f(e, dt, 1)));
    f = v_select(e, is_zero(e, dt, u.k), x, f);
    return log_sum(e, dt, u.k, f);
}

LLVMValueRef emit_log1p(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
    (void)b, (void)c;
    if (is_narrow(e, dt))
        return through_float64(e, emit_log1p, a, NULL);
    Value y = log_special(e, dt, log1p_finite(e, dt, a), v_fadd(e, a, v_f(e, dt, 1)));
    return v_select(e, is_zero(e, dt, a), a, y);     /* -0 */
}
