/* power, cbrt, hypot. */
#include "gen/math.h"
#include <math.h>

/* log(m) = 2u + u^3 (2/3 + s (c[0] + c[1] s + ...)), s = u^2, error 2^-73 */
static const double log_tail[] = {0x1.9999999999996p-2, 0x1.2492492493042p-2, 0x1.c71c71c57ed69p-3, 0x1.745d18331380dp-3,
                                  0x1.3b136282a9a0ap-3, 0x1.1120bd5a3697fp-3, 0x1.de32373405b71p-4, 0x1.eb1b544adfd29p-4};
static const Constant two_thirds = {0x1.5555555555555p-1, 0x1.5555555555555p-55};

/* log(1 + f) = f - f^2/2 + f^3/3 + f^4 (c[0] + ...) for f in [-1/32, 1/16], error 2^-67 */
static const double pow_tail[] = {-0x1.000000000003bp-2, 0x1.999999999bafdp-3, -0x1.55555554d4450p-3, 0x1.249249011f94bp-3, -0x1.0000018982869p-3,
                                  0x1.c71defe1749cdp-4, -0x1.99a65721138a1p-4, 0x1.7212b6c5524d8p-4, -0x1.22eb8f567ad40p-4};

/* log(1 + f) = f - f^2/2 + f^3 (c[0] + ...) for f in [-1/48, 1/32], error 2^-35 f; 2^r = 1 + r (c[0] + ...) for |r| <= 1/11, error 2^-30 */
static const double pow_tail32[] = {0x1.555554p-2, -0x1.ffffcap-3, 0x1.99eaa6p-3, -0x1.576d1p-3};
static const double exp2_tail32[] = {0x1.62e43p-1, 0x1.ebfbep-3, 0x1.c6c2e2p-5, 0x1.3b337p-7};
static const Constant log2_e = {0x1.715476p0, 0x1.4ae0cp-26};

/* m^(-1/3) for m in [1, 2), error 2^-14 */
static const double cbrt_seed[] = {0x1.ab85bcp0, -0x1.2c426p0, 0x1.641754p-1, -0x1.c51a36p-3, 0x1.d471eap-6};

/* ---- integers ---- */
/* Squaring until no lane has exponent bits left: a loop, since it rarely takes more than a few rounds. */
static Value power_unsigned(Emit *e, Dtype dt, Value x, Value y)
{
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b), loop = v_block(e, "power"), after = v_block(e, "power.end");
    LLVMTypeRef type = v_type(e, dt);
    Value one = v_i(e, dt, 1), zero = v_i(e, dt, 0);
    LLVMBuildBr(e->b, loop);
    LLVMPositionBuilderAtEnd(e->b, loop);
    Value result = LLVMBuildPhi(e->b, type, ""), base = LLVMBuildPhi(e->b, type, ""), left = LLVMBuildPhi(e->b, type, "");
    Value odd = v_icmp(e, LLVMIntNE, v_and(e, left, one), zero);
    Value result_next = v_select(e, odd, v_mul(e, result, base), result);
    Value base_next = v_mul(e, base, base), left_next = v_lshr(e, left, 1);
    LLVMBuildCondBr(e->b, v_any(e, v_icmp(e, LLVMIntNE, left_next, zero)), loop, after);
    LLVMBasicBlockRef end = LLVMGetInsertBlock(e->b);
    LLVMAddIncoming(result, (Value[]){one, result_next}, (LLVMBasicBlockRef[]){before, end}, 2);
    LLVMAddIncoming(base, (Value[]){x, base_next}, (LLVMBasicBlockRef[]){before, end}, 2);
    LLVMAddIncoming(left, (Value[]){y, left_next}, (LLVMBasicBlockRef[]){before, end}, 2);
    LLVMPositionBuilderAtEnd(e->b, after);
    return result_next;
}

/* Negative exponents: trunc(1 / x^|y|), 0 for x == 0 (a CHECK has refused them where NumPy does). */
static Value power_integer(Emit *e, Dtype dt, Value x, Value y)
{
    if (dtype_info[dt].kind == DKIND_UINT)
        return power_unsigned(e, dt, x, y);
    Value zero = v_i(e, dt, 0), one = v_i(e, dt, 1);
    Value negative = v_icmp(e, LLVMIntSLT, y, zero);
    Value unit = v_or(e, v_icmp(e, LLVMIntEQ, x, one), v_icmp(e, LLVMIntEQ, x, v_i(e, dt, -1)));
    Value parity = v_and(e, y, one);                         /* (+-1)^y needs no more of y, and nor do zeros */
    x = v_select(e, v_and(e, negative, v_not(e, unit)), zero, x);
    y = v_select(e, negative, v_select(e, unit, parity, one), y);
    return power_unsigned(e, dt, x, y);
}

/* ---- floats ---- */
/* log(x), float64, x finite > 0, in two parts, error 2^-67 or so: atanh's series with all that exceeds 2^-60 in two parts. */
static Two log_two(Emit *e, Value x)
{
    Dtype dt = DT_float64;
    Mantissa parts = mantissa(e, dt, x);
    Value f = v_fsub(e, parts.m, v_f(e, dt, 1)), zero = v_f(e, dt, 0);
    Two u = two_divide(e, dt, (Two){f, zero}, two_fast_sum(e, v_f(e, dt, 2), f));
    Two s = two_product(e, u.hi, u.hi);
    Value twice = v_fadd(e, u.hi, u.hi);
    s.lo = v_madd(e, twice, u.lo, s.lo);
    Value tail = v_fmul(e, s.hi, v_poly(e, dt, s.hi, log_tail, 8));
    Two series = two_fast_sum(e, v_f(e, dt, two_thirds.hi), tail);
    series.lo = v_fadd(e, series.lo, v_f(e, dt, two_thirds.lo));
    Two cubic = two_mul(e, u, two_mul(e, s, series));
    Two log_m = two_fast_sum(e, twice, cubic.hi);
    log_m.lo = v_fadd(e, log_m.lo, v_fadd(e, v_fadd(e, u.lo, u.lo), cubic.lo));
    Two sum = two_fast_sum(e, v_fmul(e, parts.k, v_f(e, dt, math_ln2[1].hi)), log_m.hi);
    Value rest = v_madd(e, parts.k, v_f(e, dt, math_ln2[1].lo), v_fadd(e, sum.lo, log_m.lo));
    return two_fast_sum(e, sum.hi, rest);
}

static const Constant third = {0x1.5555555555555p-2, 0x1.5555555555555p-56};

/* log |x| with tables: f = m c - 1 and f - f^2/2 + f^3/3 in two parts: large exponents magnify what is lost. */
static Two log_two_by_table(Emit *e, Value x)
{
    Dtype dt = DT_float64;
    const Table *table = &log_table[1];
    Value m = x86_getmant_abs(e, dt, x), k = x86_getexp(e, dt, x);
    Value index = v_lshr(e, v_bitcast(e, m, DT_int64), 48);
    Two product = two_product(e, m, table_lookup(e, dt, inverse_table, index));
    Value f = v_fsub(e, product.hi, v_f(e, dt, 1));
    Value base = v_madd(e, k, v_f(e, dt, math_ln2[1].hi), table_lookup(e, dt, table->hi, index));
    Value base_low = v_madd(e, k, v_f(e, dt, math_ln2[1].lo), table_lookup(e, dt, table->lo, index));
    Two sum = two_fast_sum(e, base, f), square = two_product(e, f, f);
    Value minus_half = v_f(e, dt, -.5);
    Two head = two_fast_sum(e, sum.hi, v_fmul(e, square.hi, minus_half));
    Two p = two_fast_sum(e, v_f(e, dt, third.hi), v_fmul(e, f, poly_even_odd(e, dt, f, pow_tail, 9)));
    p.lo = v_fadd(e, p.lo, v_f(e, dt, third.lo));
    Two cube = two_product(e, square.hi, f);
    cube.lo = v_madd(e, square.lo, f, cube.lo);
    Two term = two_product(e, cube.hi, p.hi);
    term.lo = v_madd(e, cube.hi, p.lo, v_madd(e, cube.lo, p.hi, term.lo));
    Two both = two_fast_sum(e, head.hi, term.hi);
    Value rest = v_fadd(e, both.lo, v_madd(e, square.lo, minus_half, term.lo));
    Value slope = v_fadd(e, v_fsub(e, v_f(e, dt, 1), f), square.hi);                   /* 1 / (1 + f), for the error of f */
    Value low = v_madd(e, product.lo, slope, v_fadd(e, base_low, sum.lo));
    return two_fast_sum(e, both.hi, v_fadd(e, head.lo, v_fadd(e, low, rest)));
}

/* y for 0 < x < inf, else -inf at 0, inf at both infinities, NaN below. */
static Value log_extreme(Emit *e, Value y, Value x)
{
    Dtype dt = DT_float64;
    Value infinite = v_f(e, dt, INFINITY), zero = v_f(e, dt, 0);
    Value plain = v_and(e, v_fcmp(e, LLVMRealOGT, x, zero), v_fcmp(e, LLVMRealOLT, x, infinite));
    Value other = v_select(e, v_fcmp(e, LLVMRealOEQ, v_fabs(e, x), infinite), infinite, v_f(e, dt, NAN));
    return v_select(e, plain, y, v_select(e, is_zero(e, dt, x), v_f(e, dt, -INFINITY), other));
}

/* y within +-most, beyond which x^y is 0, 1 or infinite: so 1^inf is no NaN, and products are exact without FMA too. NaN stays. */
static Value limited(Emit *e, Dtype dt, Value y, double most)
{
    return v_fmin_c(e, v_f(e, dt, most), v_fmax_c(e, v_f(e, dt, -most), y));
}

/* e^(y ln); *hi: the greater part of that product. */
static Value power_of_log(Emit *e, Two ln, Value y, Value *hi)
{
    Dtype dt = DT_float64;
    Two product = two_product(e, y, ln.hi);
    Value low = v_madd(e, y, ln.lo, product.lo);
    Value small = v_fcmp(e, LLVMRealOLT, v_fabs(e, product.hi), v_f(e, dt, 751));       /* else low may be NaN, and is nothing */
    *hi = product.hi;
    return exp_scaled(e, dt, product.hi, v_select(e, small, low, v_f(e, dt, 0)), 0);
}

/* e^(y log x), NaN for x < 0, without tables */
static Value power_float64(Emit *e, Value x, Value y)
{
    Two ln = log_two(e, x);
    Value hi;
    ln.hi = log_extreme(e, ln.hi, x);
    return power_of_log(e, ln, limited(e, DT_float64, y, 0x1p65), &hi);
}

/* c[0] + c[1] x + c[2] x^2 + c[3] x^3 in two halves */
static Value cubic(Emit *e, Value x, Value square, const double *c)
{
    Value low = v_madd(e, x, v_f(e, DT_float32, c[1]), v_f(e, DT_float32, c[0]));
    return v_madd(e, square, v_madd(e, x, v_f(e, DT_float32, c[3]), v_f(e, DT_float32, c[2])), low);
}

/* y log2 |x| in two parts, the second below 1/16 where the first is below 160, error 2^-33 of it: m c - 1 is exact, and f - f^2/2 in two parts.
 * What the polynomial gives comes in last. */
static Two power_log2(Emit *e, Value x, Value y)
{
    Dtype dt = DT_float32;
    Value m = x86_getmant_abs(e, dt, x), index = v_lshr(e, v_bitcast(e, m, DT_int32), 18);
    Value f = v_madd(e, m, table_lookup32(e, fine_inverse, index), v_f(e, dt, -1));
    Value base = v_fadd(e, x86_getexp(e, dt, x), table_lookup32(e, fine_log2_hi, index));
    Two square = two_product(e, f, f), factor = {v_f(e, dt, log2_e.hi), v_f(e, dt, log2_e.lo)};
    Value minus_half = v_f(e, dt, -.5), hi = v_madd(e, square.hi, minus_half, f);
    Two scaled = two_product(e, hi, factor.hi);
    Two sum = two_fast_sum(e, base, scaled.hi);
    Value early = v_madd(e, hi, factor.lo, v_fadd(e, v_fadd(e, scaled.lo, sum.lo), table_lookup32(e, fine_log2_lo, index)));
    Value rest = v_madd(e, square.lo, minus_half, v_madd(e, square.hi, minus_half, v_fsub(e, f, hi)));
    rest = v_madd(e, v_fmul(e, square.hi, f), cubic(e, f, square.hi, pow_tail32), rest);
    Two product = two_product(e, y, x86_fixup(e, dt, sum.hi, x, ANSWERS_POWER_ABS));
    product.lo = v_madd(e, y, early, product.lo);
    product.lo = v_madd(e, y, v_fmul(e, rest, factor.hi), product.lo);
    return product;
}

/* 2^(x.hi + x.lo), x.lo left out where the result is 0 or infinite. */
static Value power_exp2(Emit *e, Two x)
{
    Dtype dt = DT_float32;
    Value clamped = v_fmin_c(e, v_f(e, dt, 160), v_fmax_c(e, v_f(e, dt, -160), x.hi)), magic = v_f(e, dt, 0x1.8p19);
    Value low = v_select(e, v_fcmp(e, LLVMRealOEQ, x.hi, clamped), x.lo, v_f(e, dt, 0));
    Value shifted = v_fadd(e, clamped, magic), n = v_fsub(e, shifted, magic);
    Value r = v_fadd(e, v_fsub(e, clamped, n), low), index = v_bitcast(e, shifted, DT_int32);
    Value head = table_lookup(e, dt, exp_table[0].hi, index), tail = table_lookup(e, dt, exp_table[0].lo, index);
    Value y = v_madd(e, v_fmul(e, head, r), cubic(e, r, v_fmul(e, r, r), exp2_tail32), tail);
    return x86_scalef(e, dt, v_fadd(e, head, y), n);
}

static Value is_integer(Emit *e, Value y) { return v_fcmp(e, LLVMRealOEQ, v_rint(e, y), y); }
static Value is_odd(Emit *e, Dtype dt, Value y, Value integer) { return v_and(e, integer, v_not(e, is_integer(e, v_fmul(e, y, v_f(e, dt, .5))))); }

/* From r = |a|^b, NaN where its logarithm is. */
static Value power_mend(Emit *e, Dtype dt, Value r, Value a, Value b)
{
    Value one = v_f(e, dt, 1), infinite = v_f(e, dt, INFINITY), integer = is_integer(e, b);
    Value finite = v_and(e, v_fcmp(e, LLVMRealOLT, a, v_f(e, dt, 0)), v_fcmp(e, LLVMRealOGT, a, v_f(e, dt, -INFINITY)));
    r = v_select(e, v_and(e, finite, v_not(e, integer)), v_f(e, dt, NAN), r);
    Value unit = v_and(e, v_fcmp(e, LLVMRealOEQ, v_fabs(e, a), one), v_fcmp(e, LLVMRealOEQ, v_fabs(e, b), infinite));
    unit = v_or(e, unit, v_or(e, is_zero(e, dt, b), v_fcmp(e, LLVMRealOEQ, a, one)));
    r = v_select(e, unit, one, r);
    return v_select(e, is_odd(e, dt, b, integer), with_sign(e, dt, r, a, NULL), r);
}

/* Bases with a sign and powers whose logarithm `hi` is NaN wait in a branch. */
static Value power_mended(Emit *e, Dtype dt, Value r, Value hi, Value a, Value b)
{
    Dtype idt = v_bits_dtype(dt);
    Value negative = v_icmp(e, LLVMIntSLT, v_bitcast(e, a, idt), v_i(e, idt, 0));
    return v_mend(e, v_or(e, negative, v_fcmp(e, LLVMRealUNO, hi, hi)), r, power_mend, dt, a, b);
}

static Value power_by_table(Emit *e, Dtype dt, Value a, Value b)
{
    if (!row_of(dt)) {
        Two product = power_log2(e, a, b);
        return power_mended(e, dt, power_exp2(e, product), product.hi, a, b);
    }
    Two ln = log_two_by_table(e, a);
    Value hi;
    ln.hi = x86_fixup(e, dt, ln.hi, a, ANSWERS_POWER_ABS);
    Value r = power_of_log(e, ln, limited(e, dt, b, 0x1p65), &hi);
    return power_mended(e, dt, r, hi, a, b);
}

/* e^(y log x) for float32 through float64, whose errors are nothing to it; NaN for x < 0. */
static Value power_float32(Emit *e, Value x, Value y)
{
    y = v_fpcast(e, limited(e, DT_float32, y, 0x1p33), DT_float64);
    x = v_fpcast(e, x, DT_float64);
    Value product = v_fmul(e, y, log_extreme(e, emit_log(e, DT_float64, x, NULL, NULL), x));
    return v_fpcast(e, exp_scaled(e, DT_float64, product, NULL, 0), DT_float32);
}

/* C99's table of special cases, which is NumPy's: x^0 = 1^y = 1 even for NaN; the sign of odd powers; NaN for negative x to a
 * fraction, which the logarithm gives. 0, infinities and (-1)^inf come out of it right. */
LLVMValueRef emit_power(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)c;
    if (dtype_info[dt].kind != DKIND_FLOAT)
        return power_integer(e, dt, a, b);
    if (has_tables(e))
        return power_by_table(e, dt, a, b);
    Value integer = is_integer(e, b), one = v_f(e, dt, 1);
    Value x = v_select(e, integer, v_fabs(e, a), a);
    Value y = row_of(dt) ? power_float64(e, x, b) : power_float32(e, x, b);
    y = v_select(e, is_odd(e, dt, b, integer), with_sign(e, dt, y, a, NULL), y);
    return v_select(e, v_or(e, is_zero(e, dt, b), v_fcmp(e, LLVMRealOEQ, a, one)), one, y);
}

/* 2^rest and 2^(-rest/3) for rest = 0, 1, 2. */
static const double cbrt_powers[16] = {1, 2, 4}, cbrt_factors[16] = {1, 0x1.965fea53d6e3dp-1, 0x1.428a2f98d728bp-1};

static Value of_rest(Emit *e, Dtype dt, Value rest, const double *of)
{
    if (has_tables(e)) {
        Dtype idt = v_bits_dtype(dt);
        Value magic = v_f(e, dt, row_of(dt) ? 0x1p52 : 0x1p23);              /* leaves the integer in the low bits */
        return table_lookup(e, dt, of, v_bitcast(e, v_fadd(e, rest, magic), idt));
    }
    Value one = v_f(e, dt, 1), is1 = v_fcmp(e, LLVMRealOEQ, rest, one), is2 = v_fcmp(e, LLVMRealOGT, rest, one);
    return v_select(e, is2, v_f(e, dt, of[2]), v_select(e, is1, v_f(e, dt, of[1]), v_f(e, dt, of[0])));
}

/* t 2^n with the sign of a; a itself where that is 0, infinite or NaN. */
static Value cbrt_finish(Emit *e, Dtype dt, Value t, Nearest n, Value a)
{
    if (has_tables(e))
        return x86_fixup(e, dt, v_copysign(e, x86_scalef(e, dt, t, n.n), a), a, ANSWERS_CBRT);
    Value x = v_fabs(e, a), y = v_copysign(e, v_fmul(e, t, power_of_two(e, dt, n)), a);
    Value plain = v_and(e, v_fcmp(e, LLVMRealOGT, x, v_f(e, dt, 0)), v_fcmp(e, LLVMRealOLT, x, v_f(e, dt, INFINITY)));
    return v_select(e, plain, y, a);
}

/* For x = m 2^(3 q + rest), rest = -1, 0, 1, by 8 rest (modulo 32) + the top 3 bits of m: roots near that of m 2^rest, and 2^rest / root^3, each
 * chosen among a thousand neighbours so that float32 holds it to 2^-35. (1 + r)^(1/3) = 1 + r (c[0] + ...), error 2^-29. */
static const double cbrt_root[32] = {0x1.04deaep0, 0x1.0ece12p0, 0x1.182ddep0, 0x1.20c93p0, 0x1.28d25ap0, 0x1.30a7cp0, 0x1.37f332p0,
                                         0x1.3f08b2p0, 0x1.48ac9p0, 0x1.554b12p0, 0x1.60d05ep0, 0x1.6bc85p0, 0x1.76309ep0, 0x1.7fe862p0,
                                         0x1.892b28p0, 0x1.9208fcp0, 0, 0, 0, 0, 0, 0, 0, 0, 0x1.9e3694p-1, 0x1.adee8p-1, 0x1.bc908ep-1,
                                         0x1.ca44c6p-1, 0x1.d76186p-1, 0x1.e39a0cp-1, 0x1.ef6576p-1, 0x1.fa8336p-1};
static const double cbrt_scale[32] = {0x1.e3dbbcp-1, 0x1.b088a4p-1, 0x1.868e1cp-1, 0x1.64aa8cp-1, 0x1.4879bap-1, 0x1.2fc88p-1, 0x1.1af76ap-1,
                                         0x1.088854p-1, 0x1.e3dd3ep-1, 0x1.b026fap-1, 0x1.872f78p-1, 0x1.64db76p-1, 0x1.47e6d4p-1, 0x1.2fa04ep-1,
                                         0x1.1aac24p-1, 0x1.08612ep-1, 0, 0, 0, 0, 0, 0, 0, 0, 0x1.e37acp-1, 0x1.b05db8p-1, 0x1.870fbcp-1,
                                         0x1.650476p-1, 0x1.480b96p-1, 0x1.2fcc88p-1, 0x1.1a9cd2p-1, 0x1.08692cp-1};
static const double cbrt_tail[] = {0x1.55554ep-2, -0x1.c71d6p-4, 0x1.fabb1p-5, -0x1.4e43f4p-5};

static Value cbrt_by_table(Emit *e, Value a)
{
    Dtype dt = DT_float32;
    Value m = x86_getmant_abs(e, dt, a), k = x86_getexp(e, dt, a);
    Nearest q = nearest_product(e, dt, k, 1. / 3);
    Value rest = v_bitcast(e, v_madd(e, v_madd(e, q.n, v_f(e, dt, -3), k), v_f(e, dt, 8), v_f(e, dt, 0x1.8p23 + 8)), DT_int32);      /* 8: the exponent bits of m say -8 */
    Value index = v_add(e, rest, v_lshr(e, v_bitcast(e, m, DT_int32), 20));
    Value root = table_lookup32(e, cbrt_root, index), r = v_madd(e, m, table_lookup32(e, cbrt_scale, index), v_f(e, dt, -1));
    return cbrt_finish(e, dt, v_madd(e, v_fmul(e, root, r), cubic(e, r, v_fmul(e, r, r), cbrt_tail), root), q, a);
}

/* x = m 2^(3 q + rest). y = m^(-1/3) by a seed and a step of second order (float64: third), without division; t = m y^2 is the root, and
 * Newton's step leaves 1/2 + 1/3 ulp: the rounding of t and that of t^2 in the residual. */
LLVMValueRef emit_cbrt(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)b, (void)c;
    if (is_narrow(e, dt))
        return through_float64(e, emit_cbrt, a, NULL);
    if (has_tables(e) && !row_of(dt))
        return cbrt_by_table(e, a);
    Value one = v_f(e, dt, 1), one_third = v_f(e, dt, third.hi);
    Mantissa parts = mantissa_one(e, dt, v_fabs(e, a));
    Nearest n = nearest_product(e, dt, v_fsub(e, parts.k, one), 1. / 3);          /* floor(k / 3) */
    Value rest = v_madd(e, n.n, v_f(e, dt, -3), parts.k);
    Value m = v_fmul(e, parts.m, of_rest(e, dt, rest, cbrt_powers));
    Value y = v_fmul(e, of_rest(e, dt, rest, cbrt_factors), v_poly(e, dt, parts.m, cbrt_seed, 5));
    Value h = v_madd(e, v_fneg(e, v_fmul(e, m, y)), v_fmul(e, y, y), one);
    y = v_madd(e, v_fmul(e, y, h), row_of(dt) ? v_madd(e, h, v_f(e, dt, 2. / 9), one_third) : one_third, y);
    Value inverse = v_fmul(e, y, y), t = v_fmul(e, m, inverse);
    Value left = v_fma(e, v_fneg(e, v_fmul(e, t, t)), t, m);
    t = v_madd(e, v_fmul(e, left, inverse), one_third, t);
    return cbrt_finish(e, dt, t, n, a);
}

/* The greater side scaled to where its square neither overflows nor underflows. float32: exact squares in float64. */
LLVMValueRef emit_hypot(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)c;
    Value x = v_fabs(e, a), y = v_fabs(e, b), r, infinite = v_f(e, dt, INFINITY);
    if (row_of(dt)) {
        Value one = v_f(e, dt, 1), top = v_fmax_c(e, x, y);
        Value large = v_fcmp(e, LLVMRealOGT, top, v_f(e, dt, 0x1p500)), small = v_fcmp(e, LLVMRealOLT, top, v_f(e, dt, 0x1p-450));
        Value up = v_select(e, large, v_f(e, dt, 0x1p-600), v_select(e, small, v_f(e, dt, 0x1p600), one));
        Value down = v_select(e, large, v_f(e, dt, 0x1p600), v_select(e, small, v_f(e, dt, 0x1p-600), one));
        Value p = v_fmul(e, x, up), q = v_fmul(e, y, up);
        r = v_fmul(e, v_sqrt(e, v_madd(e, p, p, v_fmul(e, q, q))), down);
    } else {
        Value p = v_fpcast(e, x, DT_float64), q = v_fpcast(e, y, DT_float64);
        r = v_fpcast(e, v_sqrt(e, v_fadd(e, v_fmul(e, p, p), v_fmul(e, q, q))), dt);
    }
    Value any = v_or(e, v_fcmp(e, LLVMRealOEQ, x, infinite), v_fcmp(e, LLVMRealOEQ, y, infinite));
    return v_select(e, any, infinite, r);
}
