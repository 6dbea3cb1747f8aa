/* sin, cos, tan and their inverses.
 *
 * Reduction by pi/2 with a remainder in two parts, so that arguments near its multiples keep their precision (Cody and Waite with
 * exact error terms). Past the constants' range - rare - a scalar function multiplies the argument's integer with the bits of
 * 2/pi that matter (Payne and Hanek), for both dtypes in float64. */
#include "gen/math.h"
#include <math.h>

/* sin r = r + r^3 P(r^2), cos r = 1 - r^2/2 + r^4 Q(r^2), |r| <= 0.7855 */
static const double sin_c32[] = {-0x1.555546p-3, 0x1.110778p-7, -0x1.9953fep-13};
static const double sin_c64[] = {-0x1.5555555555548p-3, 0x1.111111110f75ep-7, -0x1.a01a019bf2583p-13, 0x1.71de355f414e6p-19, -0x1.ae5e54a96fba9p-26, 0x1.5d8e47357ecebp-33};
static const double cos_c32[] = {0x1.55554ap-5, -0x1.6c0c2ap-10, 0x1.99e91p-16};
static const double cos_c64[] = {0x1.555555555554bp-5, -0x1.6c16c16c15017p-10, 0x1.a01a019c8f698p-16, -0x1.27e4f7f1c5c5dp-22, 0x1.1ee9dbf1a38b8p-29, -0x1.8fa695257fafdp-37};

/* tan r = r + r^3 P(r^2), |r| <= 0.7855 */
static const double tan_c32[] = {0x1.55556p-2, 0x1.110dap-3, 0x1.bad946p-5, 0x1.5cc664p-6, 0x1.62ad1cp-7, 0x1.af6e06p-14, 0x1.1e6b6p-8};

/* atan z = z + z^3 P(z^2), 0 <= z <= 1 */
static const double atan_c32[] = {-0x1.5554dcp-2, 0x1.9978eep-3, -0x1.230abp-3, 0x1.b4dfdcp-4, -0x1.3553f4p-4, 0x1.61f756p-5, -0x1.0c23fep-6, 0x1.7ec1c4p-9};
static const double atan_c64[] = {-0x1.5555555555526p-2, 0x1.99999999955b4p-3, -0x1.249249237f57dp-3, 0x1.c71c717fcf76dp-4, -0x1.745d11ae74c7ap-4, 0x1.3b13669a2a047p-4, -0x1.110e5126fd02dp-4,
                                  0x1.e1bba66c1a4b8p-5, -0x1.ae5e72c0e6984p-5, 0x1.82dad79d1736p-5, -0x1.59a3ff2ac6667p-5, 0x1.2c2e5ccfd4e26p-5, -0x1.e9fa0da6643e9p-6, 0x1.683cc98472e13p-6,
                                  -0x1.c78fcd542af16p-7, 0x1.d7b927bbdceedp-8, -0x1.7a399ad4364a2p-9, 0x1.b3facbcd7bb8ap-11, -0x1.3f364d4b9695cp-13, 0x1.bbed9f7b04237p-17};
/* The series of atan alternates and its halves cancel near 1, so only the coefficients from here on are split. */
enum { ATAN_HORNER = 8 };

/* asin x = x + x^3 P(x^2), |x| <= 1/2 */
static const double asin_c32[] = {0x1.55554cp-3, 0x1.33388ep-4, 0x1.6cac4p-5, 0x1.04a63cp-5, 0x1.d7f3b2p-7, 0x1.33bb5p-5};
static const double asin_c64[] = {0x1.5555555555578p-3, 0x1.333333332df80p-4, 0x1.6db6db722602cp-5, 0x1.f1c71a8dc559ep-6, 0x1.6e8bdfa64b849p-6, 0x1.1c49e2bcd11abp-6, 0x1.ca20cdfd8d3e9p-7,
                                  0x1.757b7a5d51c54p-7, 0x1.6173f25398f57p-7, 0x1.e2bea79a9d69cp-9, 0x1.6492a42f7a9a8p-6, -0x1.59546dea6bfb7p-6, 0x1.0bb05ae4fa31ep-5};

static const Constant half_pi[2] = {{0x1.921fb6p0, -0x1.777a5cp-25}, {0x1.921fb54442d18p0, 0x1.1a62633145c07p-54}};
static const Constant whole_pi[2] = {{0x1.921fb6p1, -0x1.777a5cp-24}, {0x1.921fb54442d18p1, 0x1.1a62633145c07p-53}};
#define TWO_OVER_PI 0x1.45f306dc9c883p-1

/* |x| = n pi/2 + r.hi + r.lo, |r.hi| <= 0.7855; the low bits of `quadrant` are n's. */
typedef struct { Value quadrant; Two r; } TrigParts;

/* Up to here n times the three parts of pi/2 and the rounding of n are good enough (and all n pi/2 - x nearest to 0 tested). */
static double trig_limit(Dtype dt) { return row_of(dt) ? 0x1p27 : 0x1p15; }

/* Of x >= 0. The first product's difference is exact; the second and third keep their errors. */
static TrigParts trig_parts(Emit *e, Dtype dt, Value x)
{
    static const double part[2][3] = {{0x1.921fb4p0, 0x1.4442dp-24, 0x1.846988p-48},
                                      {0x1.921fb54442d18p0, 0x1.1a62633145c06p-54, 0x1.c1cd129024e08p-107}};
    const double *p = part[row_of(dt)];
    Nearest n = nearest_product(e, dt, x, TWO_OVER_PI);
    Value r1 = v_fma(e, n.n, v_f(e, dt, -p[0]), x);
    Two second = two_product(e, n.n, v_f(e, dt, p[1]));
    Value r = v_fsub(e, r1, second.hi);
    Value lost = v_fsub(e, v_fsub(e, r1, r), second.hi);
    return (TrigParts){n.bits, {r, v_fsub(e, lost, v_madd(e, n.n, v_f(e, dt, p[2]), second.lo))}};
}

/* sin of r, as r.hi + rest */
static Value sin_rest(Emit *e, Dtype dt, Two r, Value square)
{
    Value p = row_of(dt) ? v_poly(e, dt, square, sin_c64, 6) : v_poly(e, dt, square, sin_c32, 3);
    Value slope = v_madd(e, square, v_f(e, dt, -.5), v_f(e, dt, 1));
    return v_madd(e, v_fmul(e, r.hi, square), p, v_fmul(e, r.lo, slope));
}

static Two cos_two(Emit *e, Dtype dt, Two r, Value square)
{
    Value q = row_of(dt) ? v_poly(e, dt, square, cos_c64, 6) : v_poly(e, dt, square, cos_c32, 3);
    Value half = v_fmul(e, square, v_f(e, dt, -.5));
    Two head = two_fast_sum(e, v_f(e, dt, 1), half);
    Value tail = v_madd(e, v_fmul(e, square, square), q, v_fneg(e, v_fmul(e, r.hi, r.lo)));
    return (Two){head.hi, v_fadd(e, head.lo, tail)};
}

static Value low_bit(Emit *e, Dtype dt, Value bits, int bit)
{
    Dtype idt = v_bits_dtype(dt);
    return v_icmp(e, LLVMIntNE, v_and(e, bits, v_i(e, idt, 1 << bit)), v_i(e, idt, 0));
}

/* sin(n pi/2 + r), up to the sign of the original argument. */
static Value sin_of_parts(Emit *e, Dtype dt, TrigParts x, Value sign)
{
    Value square = v_fmul(e, x.r.hi, x.r.hi);
    Two cosine = cos_two(e, dt, x.r, square);
    Value odd = low_bit(e, dt, x.quadrant, 0);
    Value hi = v_select(e, odd, cosine.hi, x.r.hi);
    Value lo = v_select(e, odd, cosine.lo, sin_rest(e, dt, x.r, square));
    return with_sign(e, dt, v_fadd(e, hi, lo), sign, v_lshr(e, x.quadrant, 1));
}

static Value cos_of_parts(Emit *e, Dtype dt, TrigParts x)
{
    x.quadrant = v_add(e, x.quadrant, v_i(e, v_bits_dtype(dt), 1));
    return sin_of_parts(e, dt, x, v_f(e, dt, 0));
}

/* float32: t = tan r in two parts, or -1/t in odd quadrants. */
static Value tan_of_parts32(Emit *e, TrigParts x, Value sign)
{
    Dtype dt = DT_float32;
    Value one = v_f(e, dt, 1), square = v_fmul(e, x.r.hi, x.r.hi);
    Value low = v_madd(e, square, x.r.lo, x.r.lo);                              /* r.lo (1 + tan^2), nearly */
    Two t = two_fast_sum(e, x.r.hi, v_madd(e, v_fmul(e, x.r.hi, square), v_poly(e, dt, square, tan_c32, 7), low));
    Value inverse = v_fdiv(e, one, t.hi);
    Value left = v_madd(e, v_fneg(e, inverse), t.lo, v_fma(e, v_fneg(e, inverse), t.hi, one));
    Value odd = low_bit(e, dt, x.quadrant, 0);
    Value y = v_fadd(e, v_select(e, odd, inverse, t.hi), v_select(e, odd, v_fmul(e, inverse, left), t.lo));
    return with_sign(e, dt, y, sign, x.quadrant);
}

/* sin/cos, or -cos/sin in odd quadrants, both in two parts. */
static Value tan_of_parts(Emit *e, Dtype dt, TrigParts x, Value sign)
{
    if (!row_of(dt))
        return tan_of_parts32(e, x, sign);
    Value square = v_fmul(e, x.r.hi, x.r.hi);
    Two cosine = cos_two(e, dt, x.r, square);
    cosine = two_fast_sum(e, cosine.hi, cosine.lo);
    Two sine = two_fast_sum(e, x.r.hi, sin_rest(e, dt, x.r, square));
    Value odd = low_bit(e, dt, x.quadrant, 0);
    Two top = {v_select(e, odd, cosine.hi, sine.hi), v_select(e, odd, cosine.lo, sine.lo)};
    Two bottom = {v_select(e, odd, sine.hi, cosine.hi), v_select(e, odd, sine.lo, cosine.lo)};
    Two q = two_divide(e, dt, top, bottom);
    return with_sign(e, dt, v_fadd(e, q.hi, q.lo), sign, x.quadrant);
}

/* ---- huge arguments: scalar, float64 ---- */
/* 2/pi = 0.(words 1, 2, ...) in binary, after a word of zeros for arguments below 2^54. */
static const uint64_t two_over_pi[21] = {
    0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c,
    0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f,
    0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d};

/* 64 bits of 2/pi from the bit `offset` of word `word` on. Two shifts: one by 64 - 0 would be undefined. */
static Value two_over_pi_bits(Emit *e, Value table, Value word, Value offset)
{
    Value high = v_table_load(e, DT_int64, table, word);
    Value low = v_table_load(e, DT_int64, table, v_add(e, word, v_i(e, DT_int64, 1)));
    Value rest = v_lshr_v(e, v_lshr(e, low, 1), v_sub(e, v_i(e, DT_int64, 63), offset));
    return v_or(e, v_shl_v(e, high, offset), rest);
}

/* High and low half of the product of two unsigned numbers, the first below 2^53: by halves of 32 bits, since 128 bit arithmetic is not
 * the emitter's. */
typedef struct { Value high, low; } Wide;
static Wide wide_product(Emit *e, Value a, Value b)
{
    Value mask = v_i(e, DT_int64, 0xffffffff);
    Value a0 = v_and(e, a, mask), a1 = v_lshr(e, a, 32), b0 = v_and(e, b, mask), b1 = v_lshr(e, b, 32);
    Value p00 = v_mul(e, a0, b0), p10 = v_mul(e, a1, b0), p01 = v_mul(e, a0, b1);
    Value middle = v_add(e, v_add(e, v_lshr(e, p00, 32), v_and(e, p10, mask)), v_and(e, p01, mask));
    Value high = v_add(e, v_add(e, v_mul(e, a1, b1), v_lshr(e, p10, 32)), v_add(e, v_lshr(e, p01, 32), v_lshr(e, middle, 32)));
    return (Wide){high, v_mul(e, a, b)};
}

/* a + b, and the carry out of it as 0 or 1 */
static Wide add_carry(Emit *e, Value a, Value b)
{
    Value sum = v_add(e, a, b);
    return (Wide){v_zext(e, v_icmp(e, LLVMIntULT, sum, a), DT_int64), sum};
}

/* The 128 bits high:low as a signed fraction of 2^128, times pi/2, in two parts. Pieces of 32 bits convert exactly. */
static Two fraction_times_half_pi(Emit *e, Wide f)
{
    Value mask = v_i(e, DT_int64, 0xffffffff), piece[4] = {v_ashr(e, f.high, 32), v_and(e, f.high, mask), v_lshr(e, f.low, 32), v_and(e, f.low, mask)};
    for (int i = 0; i < 4; i++)
        piece[i] = v_fmul(e, v_sitofp(e, piece[i], DT_float64), v_f(e, DT_float64, ldexp(1, -32 * (i + 1))));
    Two first = two_fast_sum(e, piece[0], piece[1]);
    Two sum = two_fast_sum(e, first.hi, piece[2]);
    sum = two_fast_sum(e, sum.hi, v_fadd(e, first.lo, v_fadd(e, sum.lo, piece[3])));
    const Constant *h = &half_pi[1];
    return two_mul(e, sum, (Two){v_f(e, DT_float64, h->hi), v_f(e, DT_float64, h->lo)});
}

/* Of finite x >= 2^15, float64. x = m 2^q, m an integer: only bits of 2/pi worth less than 4 after the product with 2^q matter, and
 * 192 of them leave an error of 2^-137, where x mod pi/2 is at least 2^-62. */
static TrigParts trig_parts_huge(Emit *e, Value x)
{
    Dtype i64 = DT_int64;
    Value bits = v_bitcast(e, x, i64);
    Value m = v_or(e, v_and(e, bits, v_i(e, i64, 0x000fffffffffffff)), v_i(e, i64, 0x0010000000000000));
    Value q = v_sub(e, v_lshr(e, bits, 52), v_i(e, i64, 1075));
    Value start = v_add(e, q, v_i(e, i64, 64 - 2));                       /* after 64 bits of 0 */
    Value word = v_lshr(e, start, 6), offset = v_and(e, start, v_i(e, i64, 63));
    Value table = v_table(e, "pyxla.two_over_pi", i64, two_over_pi, 21);
    Value part[3];
    for (int i = 0; i < 3; i++)
        part[i] = two_over_pi_bits(e, table, v_add(e, word, v_i(e, i64, i)), offset);
    Wide middle = wide_product(e, m, part[1]);
    Wide low = add_carry(e, middle.low, wide_product(e, m, part[2]).high);
    Value high = v_add(e, v_add(e, v_mul(e, m, part[0]), middle.high), low.high);
    Wide fraction = {v_or(e, v_shl(e, high, 2), v_lshr(e, low.low, 62)), v_shl(e, low.low, 2)};
    Value quadrant = v_add(e, v_lshr(e, high, 62), v_lshr(e, fraction.high, 63));
    return (TrigParts){quadrant, fraction_times_half_pi(e, fraction)};
}

typedef Value TrigFn(Emit *e, TrigParts x, Value sign);
static Value sin_huge(Emit *e, TrigParts x, Value sign) { return sin_of_parts(e, DT_float64, x, sign); }
static Value cos_huge(Emit *e, TrigParts x, Value sign) { return (void)sign, cos_of_parts(e, DT_float64, x); }
static Value tan_huge(Emit *e, TrigParts x, Value sign) { return tan_of_parts(e, DT_float64, x, sign); }

/* One scalar of either dtype; infinite: NaN. */
static Value trig_huge(Emit *e, Dtype dt, Value a, TrigFn *fn)
{
    Value x = row_of(dt) ? a : v_fpcast(e, a, DT_float64);
    Value y = fn(e, trig_parts_huge(e, v_fabs(e, x)), x);
    y = row_of(dt) ? y : v_fpcast(e, y, DT_float32);
    Value finite = v_fcmp(e, LLVMRealOLT, v_fabs(e, a), v_f(e, dt, INFINITY));
    return v_select(e, finite, y, v_f(e, dt, NAN));
}

static LLVMValueRef slow_sin(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) { return (void)b, (void)c, trig_huge(e, dt, a, sin_huge); }
static LLVMValueRef slow_cos(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) { return (void)b, (void)c, trig_huge(e, dt, a, cos_huge); }
static LLVMValueRef slow_tan(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) { return (void)b, (void)c, trig_huge(e, dt, a, tan_huge); }

static Value is_huge(Emit *e, Dtype dt, Value magnitude)
{
    return v_fcmp(e, LLVMRealOGT, magnitude, v_f(e, dt, trig_limit(dt)));
}

LLVMValueRef emit_sin(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)b, (void)c;
    if (is_narrow(e, dt))
        return through_float64(e, emit_sin, a, NULL);
    Value x = v_fabs(e, a);
    Value y = sin_of_parts(e, dt, trig_parts(e, dt, x), a);
    return v_rare(e, is_huge(e, dt, x), y, "sin_huge", slow_sin, dt, a, NULL);
}

LLVMValueRef emit_cos(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)b, (void)c;
    if (is_narrow(e, dt))
        return through_float64(e, emit_cos, a, NULL);
    Value x = v_fabs(e, a);
    Value y = cos_of_parts(e, dt, trig_parts(e, dt, x));
    return v_rare(e, is_huge(e, dt, x), y, "cos_huge", slow_cos, dt, a, NULL);
}

LLVMValueRef emit_tan(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)b, (void)c;
    if (is_narrow(e, dt))
        return through_float64(e, emit_tan, a, NULL);
    Value x = v_fabs(e, a);
    Value y = tan_of_parts(e, dt, trig_parts(e, dt, x), a);
    return v_rare(e, is_huge(e, dt, x), y, "tan_huge", slow_tan, dt, a, NULL);
}

/* ---- inverses ---- */
static Value atan_poly(Emit *e, Dtype dt, Value square)
{
    if (!row_of(dt))
        return v_poly(e, dt, square, atan_c32, 8);
    Value p = poly_even_odd(e, dt, square, atan_c64 + ATAN_HORNER, 20 - ATAN_HORNER);
    for (int i = ATAN_HORNER - 1; i >= 0; i--)
        p = v_madd(e, p, square, v_f(e, dt, atan_c64[i]));
    return p;
}

/* z + atan's rest for z.hi in [0, 1], times sign, and base. The slope 1 / (1 + z^2) of the small part needs no precision. */
static Value atan_sum(Emit *e, Dtype dt, Two base, Value sign, Two z)
{
    Value square = v_fmul(e, z.hi, z.hi);
    Value slope = v_madd(e, square, v_f(e, dt, -.47), v_f(e, dt, .96));
    Value rest = v_madd(e, v_fmul(e, z.hi, square), atan_poly(e, dt, square), v_fmul(e, z.lo, slope));
    Two sum = two_fast_sum(e, base.hi, v_fmul(e, sign, z.hi));
    return v_fadd(e, sum.hi, v_fadd(e, sum.lo, v_madd(e, sign, rest, base.lo)));
}

/* low / high of 0 <= low <= high: 1 for infinities, 0 for 0 / 0; with the quotient's error (0 without FMA, where it costs more
 * than it is worth, and where high is infinite). */
static Two atan_quotient(Emit *e, Dtype dt, Value low, Value high)
{
    Value one = v_f(e, dt, 1), zero = v_f(e, dt, 0), infinite = v_f(e, dt, INFINITY);
    Value q = v_fdiv(e, low, high);
    q = v_select(e, v_fcmp(e, LLVMRealOEQ, low, infinite), one, v_select(e, is_zero(e, dt, high), zero, q));
    if (e->level == CPU_SSE2)
        return (Two){q, zero};
    Value left = v_fdiv(e, v_fma(e, v_fneg(e, q), high, low), high);
    Value plain = v_and(e, v_fcmp(e, LLVMRealOLT, high, infinite), v_fcmp(e, LLVMRealOGT, high, zero));
    return (Two){q, v_select(e, plain, left, zero)};
}

/* 1 / x for x > 1 with its error, else x */
static Two atan_argument(Emit *e, Dtype dt, Value x, Value steep)
{
    Value one = v_f(e, dt, 1), zero = v_f(e, dt, 0), q = v_fdiv(e, one, x);
    Two z = {v_select(e, steep, q, x), zero};
    if (e->level == CPU_SSE2)
        return z;
    Value left = v_fmul(e, v_fma(e, v_fneg(e, q), x, one), q);
    Value plain = v_and(e, steep, v_fcmp(e, LLVMRealOLT, x, v_f(e, dt, row_of(dt) ? 0x1p60 : 0x1p30)));
    z.lo = v_select(e, plain, left, zero);
    return z;
}

LLVMValueRef emit_arctan(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)b, (void)c;
    if (is_narrow(e, dt))
        return through_float64(e, emit_arctan, a, NULL);
    Value x = v_fabs(e, a), one = v_f(e, dt, 1), zero = v_f(e, dt, 0);
    Value steep = v_fcmp(e, LLVMRealOGT, x, one);
    const Constant *h = &half_pi[row_of(dt)];
    Two base = {v_select(e, steep, v_f(e, dt, h->hi), zero), v_select(e, steep, v_f(e, dt, h->lo), zero)};
    return v_copysign(e, atan_sum(e, dt, base, v_select(e, steep, v_f(e, dt, -1), one), atan_argument(e, dt, x, steep)), a);
}

/* In the half plane x >= 0: atan(y/x), or pi/2 - atan(x/y) above the diagonal; the other one is its mirror: pi - ... */
LLVMValueRef emit_arctan2(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)c;
    if (is_narrow(e, dt))
        return through_float64(e, emit_arctan2, a, b);
    Dtype idt = v_bits_dtype(dt);
    Value y = v_fabs(e, a), x = v_fabs(e, b), one = v_f(e, dt, 1), minus = v_f(e, dt, -1), zero = v_f(e, dt, 0);
    Value steep = v_fcmp(e, LLVMRealOGT, y, x);
    Value left = v_icmp(e, LLVMIntSLT, v_bitcast(e, b, idt), v_i(e, idt, 0));
    const Constant *h = &half_pi[row_of(dt)], *p = &whole_pi[row_of(dt)];
    Value hi = v_select(e, steep, v_f(e, dt, h->hi), v_select(e, left, v_f(e, dt, p->hi), zero));
    Value lo = v_select(e, steep, v_f(e, dt, h->lo), v_select(e, left, v_f(e, dt, p->lo), zero));
    Value sign = v_select(e, v_xor(e, steep, left), minus, one);
    Two z = atan_quotient(e, dt, v_select(e, steep, x, y), v_select(e, steep, y, x));
    Value angle = atan_sum(e, dt, (Two){hi, lo}, sign, z);
    angle = v_copysign(e, angle, a);
    return v_select(e, v_fcmp(e, LLVMRealUNO, a, b), v_f(e, dt, NAN), angle);
}

/* asin(x) - x for |x| <= 1/2 */
static Value asin_rest(Emit *e, Dtype dt, Value x, Value square)
{
    Value p = row_of(dt) ? v_poly(e, dt, square, asin_c64, 13) : v_poly(e, dt, square, asin_c32, 6);
    return v_fmul(e, v_fmul(e, x, square), p);
}

/* asin of min(|x|, 1 - ...): for |x| <= 1/2 the angle itself, else half the angle from the pole, asin sqrt((1 - |x|) / 2). */
typedef struct { Value far; Two angle; } AsinParts;
static AsinParts asin_parts(Emit *e, Dtype dt, Value magnitude)
{
    Value half = v_f(e, dt, .5), zero = v_f(e, dt, 0);
    Value far = v_fcmp(e, LLVMRealOGT, magnitude, half);
    Value z = v_madd(e, magnitude, v_f(e, dt, -.5), half);                     /* exact where used; NaN's root past 1 */
    Value root = v_sqrt(e, z);
    Value error = v_fdiv(e, v_fma(e, v_fneg(e, root), root, z), v_fadd(e, root, root));
    error = v_select(e, v_fcmp(e, LLVMRealOGT, root, zero), error, zero);
    Value x = v_select(e, far, root, magnitude);
    Value square = v_select(e, far, z, v_fmul(e, magnitude, magnitude));
    Value rest = v_fadd(e, asin_rest(e, dt, x, square), v_select(e, far, error, zero));
    return (AsinParts){far, {x, rest}};
}

LLVMValueRef emit_arcsin(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)b, (void)c;
    if (is_narrow(e, dt))
        return through_float64(e, emit_arcsin, a, NULL);
    AsinParts x = asin_parts(e, dt, v_fabs(e, a));
    const Constant *h = &half_pi[row_of(dt)];
    Value minus_two = v_f(e, dt, -2);
    Two far = two_fast_sum(e, v_f(e, dt, h->hi), v_fmul(e, x.angle.hi, minus_two));
    Value rest = v_fadd(e, far.lo, v_madd(e, x.angle.lo, minus_two, v_f(e, dt, h->lo)));
    Value y = v_fadd(e, v_select(e, x.far, far.hi, x.angle.hi), v_select(e, x.far, rest, x.angle.lo));
    return v_copysign(e, y, a);
}

/* pi/2 - angle near 0; twice the angle towards 1; pi less that towards -1. */
LLVMValueRef emit_arccos(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)b, (void)c;
    if (is_narrow(e, dt))
        return through_float64(e, emit_arccos, a, NULL);
    AsinParts x = asin_parts(e, dt, v_fabs(e, a));
    Value zero = v_f(e, dt, 0), one = v_f(e, dt, 1), two = v_f(e, dt, 2);
    Value negative = v_fcmp(e, LLVMRealOLT, a, zero);
    const Constant *h = &half_pi[row_of(dt)], *p = &whole_pi[row_of(dt)];
    Value hi = v_select(e, x.far, v_select(e, negative, v_f(e, dt, p->hi), zero), v_f(e, dt, h->hi));
    Value lo = v_select(e, x.far, v_select(e, negative, v_f(e, dt, p->lo), zero), v_f(e, dt, h->lo));
    Value factor = v_select(e, x.far, v_select(e, negative, v_f(e, dt, -2), two), v_select(e, negative, one, v_f(e, dt, -1)));
    Two sum = two_fast_sum(e, hi, v_fmul(e, factor, x.angle.hi));
    return v_fadd(e, sum.hi, v_fadd(e, sum.lo, v_madd(e, factor, x.angle.lo, lo)));
}
