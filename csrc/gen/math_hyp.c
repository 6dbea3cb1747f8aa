/* sinh, cosh, tanh and their inverses. */
#include "gen/math.h"
#include "gen/target.h"
#include <math.h>

/* tanh x = x + x^3 P(x^2) below TANH_SMALL, sinh x likewise below 1 */
static const double tanh_c32[] = {-0x1.555554p-2, 0x1.111076p-3, -0x1.b9f04ep-5, 0x1.6394c4p-6, -0x1.0c01f4p-7, 0x1.18b51ap-9};
static const double tanh_c64[] = {-0x1.555555555549ep-2, 0x1.11111111029b4p-3, -0x1.ba1ba1ad73a21p-5, 0x1.664f45c32bf76p-6, -0x1.226ddd4f25787p-7,
                                  0x1.d6c61e7937c02p-9, -0x1.7cf3c45287cdap-10, 0x1.2fa2accbc0b05p-11, -0x1.b90a8e58c5d62p-13, 0x1.ac0323b7cb17p-15};
static const double tanh_small[2] = {.6, .55};
static const double sinh_c32[] = {0x1.555556p-3, 0x1.1110eap-7, 0x1.a01c22p-13, 0x1.76771ep-19};
static const double sinh_c64[] = {0x1.5555555555556p-3, 0x1.111111111104p-7, 0x1.a01a01a0318d8p-13, 0x1.71de3a40565e2p-19, 0x1.ae646b4d5f194p-26, 0x1.6118df717736cp-33, 0x1.b52ebddfb4a56p-41};

/* tanh on 12 intervals from 0 on: 1/4 and then two per power of two, to 9.01, by degree 7 in x minus the interval's centre: rows are the
 * centres, then the coefficients. */
static const double tanh_pieces[9][16] = {
    {0, 0x1.4p-2, 0x1.cp-2, 0x1.4p-1, 0x1.cp-1, 0x1.4p0, 0x1.cp0, 0x1.4p1, 0x1.cp1, 0x1.4p2, 0x1.cp2, 0x1.11999ap3},
    {0, 0x1.35f98ap-2, 0x1.a5729ep-2, 0x1.1bf47ep-1, 0x1.68665p-1, 0x1.b2523cp-1, 0x1.e1fbfap-1, 0x1.f92582p-1,
     0x1.ff112cp-1, 0x1.fff41ap-1, 0x1.ffffc8p-1, 0x1.fffffep-1},
    {0x1p0, 0x1.d11574p-1, 0x1.a945bap-1, 0x1.6284c4p-1, 0x1.02500ap-1, 0x1.1f2514p-2, 0x1.d22ca2p-4, 0x1.b3afeap-6,
     0x1.dd37ccp-9, 0x1.7cca5ap-13, 0x1.be6106p-19, 0x1.42b058p-23},
    {0, -0x1.1991aap-2, -0x1.5e07e6p-2, -0x1.8938aap-2, -0x1.6ba4e8p-2, -0x1.e729bp-3, -0x1.b6da56p-4, -0x1.add8d6p-6,
     -0x1.dc4da4p-9, -0x1.7d5132p-13, -0x1.b86882p-19, -0x1.29dd24p-21},
    {-0x1.555516p-2, -0x1.c1943ep-3, -0x1.16e74cp-3, -0x1.245084p-6, 0x1.4f15b6p-4, 0x1.bba2bep-4, 0x1.01b9e4p-4,
     0x1.16dddep-6, 0x1.3c693ap-9, 0x1.fbfc6p-14, 0x1.2a074p-19, 0x1.7cc14p-24},
    {0, 0x1.41fdf8p-3, 0x1.3f98b4p-3, 0x1.17b87p-3, 0x1.e6782ep-5, -0x1.9b30a6p-7, -0x1.8064a4p-6, -0x1.07e79cp-7,
     -0x1.3ab5dep-10, -0x1.f335fap-15, -0x1.3f5e28p-20, 0x1.60a5eep-19},
    {0x1.10e11ap-3, 0x1.03fa82p-5, -0x1.dc6364p-10, -0x1.ba33bep-5, -0x1.e29beap-5, -0x1.39fc16p-6, 0x1.e4fe7ap-9,
     0x1.770fa8p-9, 0x1.eeea22p-12, 0x1.90edc4p-16, 0x1.d386b8p-22, 0x1.951114p-24},
    {0, 0x1.df4852p-5, 0x1.fa57b8p0, 0x1.897892p-6, 0x1.08b322p-4, 0x1.e39544p-7, 0x1.8e3db4p-10, -0x1.6af3e6p-11,
     -0x1.3b2808p-13, -0x1.3a9f96p-17, -0x1.f15c96p-24, -0x1.53db12p-18},
    {-0x1.a544eep-5, 0x1.d40c1ep0, -0x1.0e0f96p-1, -0x1.61cfd8p-7, 0x1.b2529p-7, -0x1.39ca68p-8, -0x1.0516f6p-9,
     0x1.f2a964p-15, 0x1.6088d2p-15, 0x1.5fb424p-19, 0x1.ad5056p-25, -0x1.296bd4p-23},
};

/* x + x^3 c(x^2) */
static Value odd_poly(Emit *e, Dtype dt, Value x, const double *c, int n)
{
    Value square = v_fmul(e, x, x);
    return v_madd(e, v_fmul(e, x, square), v_poly(e, dt, square, c, n), x);
}

/* e^x/2 = h, so e^-x/2 = 1/(4 h); no overflow before the result's. */
LLVMValueRef emit_sinh(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)b, (void)c;
    if (is_narrow(e, dt))
        return through_float64(e, emit_sinh, a, NULL);
    Value x = v_fabs(e, a);
    Value h = exp_scaled(e, dt, x, NULL, 1);
    Value y = v_fsub(e, h, v_fdiv(e, v_f(e, dt, .25), h));
    Value near = row_of(dt) ? odd_poly(e, dt, x, sinh_c64, 7) : odd_poly(e, dt, x, sinh_c32, 4);
    y = v_select(e, v_fcmp(e, LLVMRealOLT, x, v_f(e, dt, 1)), near, y);
    return v_copysign(e, y, a);
}

LLVMValueRef emit_cosh(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)b, (void)c;
    if (is_narrow(e, dt))
        return through_float64(e, emit_cosh, a, NULL);
    Value h = exp_scaled(e, dt, v_fabs(e, a), NULL, 1);
    return v_fadd(e, h, v_fdiv(e, v_f(e, dt, .25), h));
}

static Value tanh_by_table(Emit *e, Value x)
{
    Dtype dt = DT_float32;
    Value half_steps = v_lshr(e, v_bitcast(e, x, DT_int32), 22);           /* exponent and first bit of the mantissa */
    Value index = v_sub(e, half_steps, v_i(e, DT_int32, (0x3e800000 >> 22) - 1)), zero = v_i(e, DT_int32, 0);
    index = v_select(e, v_icmp(e, LLVMIntSGT, index, zero), index, zero);
    Value t = v_fsub(e, x, table_lookup(e, dt, tanh_pieces[0], index));
    Value y = table_lookup(e, dt, tanh_pieces[8], index);
    for (int i = 7; i > 0; i--)
        y = v_madd(e, y, t, table_lookup(e, dt, tanh_pieces[i], index));
    return v_select(e, v_fcmp(e, LLVMRealOGT, x, v_f(e, dt, 0x1.2052p3)), v_f(e, dt, 1), y);
}

/* 1 - 2 / (grown + 1) for grown >= 1, finite; with fused operations the roundings of sum and quotient are taken back. */
static Value one_less_quotient(Emit *e, Dtype dt, Value grown)
{
    Value one = v_f(e, dt, 1), two = v_f(e, dt, 2);
    if (!target_fma(e->level))
        return v_fsub(e, one, v_fdiv(e, two, v_fadd(e, grown, one)));
    Two sum = two_fast_sum(e, grown, one);
    Value q = v_fdiv(e, two, sum.hi), left = v_madd(e, v_fneg(e, q), sum.lo, v_fma(e, v_fneg(e, q), sum.hi, two));
    Value low = v_fmul(e, left, v_fmul(e, q, v_f(e, dt, .5)));
    Two y = two_fast_sum(e, one, v_fneg(e, q));
    return v_fadd(e, y.hi, v_fsub(e, y.lo, low));
}

/* E / (E + 2), E = e^2x - 1, and what the roundings of sum and quotient took: right near 0 as well, so no other formula is needed there. */
static Value tanh_by_quotient(Emit *e, Value x)
{
    Dtype dt = DT_float64;
    Value two = v_f(e, dt, 2);
    Two top = exp_less_one(e, v_fadd(e, x, x));
    Value below = v_fadd(e, top.hi, two), q = v_fdiv(e, top.hi, below);
    Value lost = v_fadd(e, v_fsub(e, top.hi, v_fsub(e, below, two)), top.lo);           /* of E + 2: exact but for the last sum */
    Value left = v_fadd(e, v_fma(e, v_fneg(e, q), below, top.hi), v_madd(e, v_fneg(e, q), lost, top.lo));
    return v_madd(e, left, x86_inverse(e, dt, below), q);
}

/* 1 - 2 / (e^2x + 1), which is 1 from x = 22 on. */
LLVMValueRef emit_tanh(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)b, (void)c;
    if (is_narrow(e, dt))
        return through_float64(e, emit_tanh, a, NULL);
    Value x = v_fabs(e, a), two = v_f(e, dt, 2);
    if (has_tables(e) && !row_of(dt))
        return v_copysign(e, tanh_by_table(e, x), a);
    if (has_tables(e))
        return v_copysign(e, tanh_by_quotient(e, v_fmin_c(e, v_f(e, dt, 22), x)), a);
    Value grown = exp_scaled(e, dt, v_fmul(e, v_fmin_c(e, v_f(e, dt, 22), x), two), NULL, 0);
    Value y = one_less_quotient(e, dt, grown);
    Value near = row_of(dt) ? odd_poly(e, dt, x, tanh_c64, 10) : odd_poly(e, dt, x, tanh_c32, 6);
    y = v_select(e, v_fcmp(e, LLVMRealOLT, x, v_f(e, dt, tanh_small[row_of(dt)])), near, y);
    return v_copysign(e, y, a);
}

/* ---- inverses ---- */
/* Squares of numbers above this might overflow. */
static Value is_big(Emit *e, Dtype dt, Value x) { return v_fcmp(e, LLVMRealOGT, x, v_f(e, dt, row_of(dt) ? 0x1p500 : 0x1p60)); }

/* y, but log(x) + ln 2 where x is big */
static Value log_2x(Emit *e, Dtype dt, Value y, Value x, Value unused)
{
    (void)unused;
    return v_select(e, is_big(e, dt, x), v_fadd(e, log1p_value(e, dt, x), v_f(e, dt, 0x1.62e42fefa39efp-1)), y);
}

/* log(1 + t), or log(2 x) where x is big */
static Value log1p_or_log_2x(Emit *e, Dtype dt, Value x, Value t)
{
    return v_mend(e, is_big(e, dt, x), log1p_value(e, dt, t), log_2x, dt, x, x);
}

/* log(x + sqrt(x^2 + 1)) = log1p(x + x^2 / (1 + sqrt(x^2 + 1))) */
LLVMValueRef emit_arcsinh(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)b, (void)c;
    if (is_narrow(e, dt))
        return through_float64(e, emit_arcsinh, a, NULL);
    Value x = v_fabs(e, a), one = v_f(e, dt, 1);
    Value square = v_fmul(e, x, x);
    Value root = v_sqrt(e, v_fadd(e, square, one));
    Value sum = v_fadd(e, root, one);
    Value t = v_fadd(e, x, has_tables(e) && !row_of(dt) ? x86_quotient(e, square, sum) : v_fdiv(e, square, sum));
    return v_copysign(e, log1p_or_log_2x(e, dt, x, t), a);
}

/* With t = x - 1: log1p(t + sqrt(2 t + t^2)) */
LLVMValueRef emit_arccosh(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)b, (void)c;
    if (is_narrow(e, dt))
        return through_float64(e, emit_arccosh, a, NULL);
    Value one = v_f(e, dt, 1), t = v_fsub(e, a, one);
    Value root = v_sqrt(e, v_madd(e, t, t, v_fadd(e, t, t)));
    Two sum = two_fast_sum(e, root, t);
    Value y = log1p_or_log_2x(e, dt, a, sum.hi);
    Value low = v_fmul(e, sum.lo, v_fsub(e, one, sum.hi));        /* what the sum lost, by the slope 1 / (1 + sum) where that matters */
    y = v_select(e, v_fcmp(e, LLVMRealOLT, sum.hi, v_f(e, dt, .5)), v_fadd(e, y, low), y);
    return v_select(e, v_fcmp(e, LLVMRealOGE, a, one), y, v_f(e, dt, NAN));
}

/* log(u) / 2, u = (1 + x) / (1 - x): c u - 1 = (c x + (c - (1 - x))) / (1 - x), whose inner difference is exact with what rounding lost of 1 - x. */
static Value arctanh_by_table(Emit *e, Value x)
{
    Dtype dt = DT_float32;
    Value one = v_f(e, dt, 1), below = v_fsub(e, one, x), inverse = x86_inverse(e, dt, below);
    Reduced r = log_reduce(e, dt, v_fmul(e, v_fadd(e, one, x), inverse));
    Value lost = v_fsub(e, x, v_fsub(e, one, below));
    Value top = v_madd(e, x, r.inverse, v_fadd(e, v_fsub(e, r.inverse, below), lost)), f = v_fmul(e, top, inverse);
    f = v_madd(e, v_madd(e, f, lost, v_madd(e, v_fneg(e, f), below, top)), inverse, f);
    return v_fmul(e, log_reduced(e, dt, r, f), v_f(e, dt, .5));
}

/* log1p(2 x / (1 - x)) / 2; below 1/2 as 2 x + 2 x^2 / (1 - x), which rounds less. */
LLVMValueRef emit_arctanh(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)b, (void)c;
    if (is_narrow(e, dt))
        return through_float64(e, emit_arctanh, a, NULL);
    Value x = v_fabs(e, a), one = v_f(e, dt, 1), twice = v_fadd(e, x, x);
    if (has_tables(e) && !row_of(dt))
        return v_copysign(e, arctanh_by_table(e, x), a);
    Value near = v_fcmp(e, LLVMRealOLT, x, v_f(e, dt, .5));
    Value q = v_fdiv(e, v_select(e, near, v_fmul(e, twice, x), twice), v_fsub(e, one, x));
    Value t = v_select(e, near, v_fadd(e, twice, q), q);
    return v_copysign(e, v_fmul(e, log1p_value(e, dt, t), v_f(e, dt, .5)), a);
}
