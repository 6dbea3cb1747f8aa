#include "gen/math.h"
#include <math.h>

const Constant math_ln2[2] = {{0x1.62e4p-1, 0x1.7f7d1cp-20}, {0x1.62e42fefa38p-1, 0x1.ef35793c7673p-45}};

/* ---- two-part numbers ---- */
Two two_fast_sum(Emit *e, Value a, Value b)
{
    Value s = v_fadd(e, a, b);
    return (Two){s, v_fsub(e, b, v_fsub(e, s, a))};
}

Two two_product(Emit *e, Value a, Value b)
{
    Value p = v_fmul(e, a, b);
    return (Two){p, v_fma(e, a, b, v_fneg(e, p))};
}

Two two_mul(Emit *e, Two a, Two b)
{
    Two p = two_product(e, a.hi, b.hi);
    Value cross = v_madd(e, a.hi, b.lo, v_fmul(e, a.lo, b.hi));
    return two_fast_sum(e, p.hi, v_fadd(e, p.lo, cross));
}

Two two_divide(Emit *e, Dtype dt, Two a, Two b)
{
    Value inverse = v_fdiv(e, v_f(e, dt, 1), b.hi);
    Value q = v_fmul(e, a.hi, inverse);
    Value left = v_fma(e, v_fneg(e, q), b.hi, a.hi);
    left = v_fadd(e, left, v_madd(e, v_fneg(e, q), b.lo, a.lo));
    return two_fast_sum(e, q, v_fmul(e, left, inverse));
}

/* ---- small helpers ---- */
Value through_float64(Emit *e, EmitFn *fn, Value a, Value b)
{
    a = v_fpcast(e, a, DT_float64);
    b = b ? v_fpcast(e, b, DT_float64) : NULL;
    return v_fpcast(e, fn(e, DT_float64, a, b, NULL), DT_float32);
}

Value is_zero(Emit *e, Dtype dt, Value x)
{
    return v_fcmp(e, LLVMRealOEQ, x, v_f(e, dt, 0));
}

Value with_sign(Emit *e, Dtype dt, Value r, Value x, Value flip)
{
    Dtype idt = v_bits_dtype(dt);
    int width = 8 * dtype_info[dt].bytes;
    Value sign = v_and(e, v_bitcast(e, x, idt), v_i(e, idt, (int64_t)(UINT64_MAX << (width - 1))));
    if (flip)
        sign = v_xor(e, sign, v_shl(e, flip, width - 1));
    return v_bitcast(e, v_xor(e, v_bitcast(e, r, idt), sign), dt);
}

Value poly_even_odd(Emit *e, Dtype dt, Value x, const double *c, int n)
{
    double half[2][16];
    for (int i = 0; i < n; i++)
        half[i & 1][i >> 1] = c[i];
    Value square = v_fmul(e, x, x);
    Value even = v_poly(e, dt, square, half[0], (n + 1) / 2);
    return v_madd(e, v_poly(e, dt, square, half[1], n / 2), x, even);
}

/* ---- exponents ---- */
/* Adding 1.5 2^(p - 1) leaves rint(x) in the low bits of the mantissa; the bias added to it makes n + bias positive in scale(). */
enum { SCALE_BIAS32 = 254, SCALE_BIAS64 = 2046 };

static double magic_of(Dtype dt)
{
    return row_of(dt) ? 0x1.8p52 + SCALE_BIAS64 : 0x1.8p23 + SCALE_BIAS32;
}

static Nearest nearest_of(Emit *e, Dtype dt, Value shifted)
{
    Dtype idt = v_bits_dtype(dt);
    int bias = row_of(dt) ? SCALE_BIAS64 : SCALE_BIAS32;
    Value bits = v_sub(e, v_bitcast(e, shifted, idt), v_i(e, idt, bias));
    return (Nearest){v_fsub(e, shifted, v_f(e, dt, magic_of(dt))), bits};
}

Nearest nearest(Emit *e, Dtype dt, Value x)
{
    return nearest_of(e, dt, v_fadd(e, x, v_f(e, dt, magic_of(dt))));
}

Nearest nearest_product(Emit *e, Dtype dt, Value x, double c)
{
    return nearest_of(e, dt, v_madd(e, x, v_f(e, dt, c), v_f(e, dt, magic_of(dt))));
}

static int fraction_bits(Dtype dt) { return row_of(dt) ? 52 : 23; }

/* Two factors, 2^(n/2) each: the product with the first is exact, so the second rounds once. */
Value scale(Emit *e, Dtype dt, Value y, Nearest n)
{
    if (has_tables(e))
        return x86_scalef(e, dt, y, n.n);
    Dtype idt = v_bits_dtype(dt);
    int bias = row_of(dt) ? SCALE_BIAS64 : SCALE_BIAS32, shift = fraction_bits(dt);
    Value exponent = v_add(e, n.bits, v_i(e, idt, bias));       /* n + twice the format's bias, under high bits that the shift drops */
    Value half = v_lshr(e, exponent, 1);
    Value first = v_bitcast(e, v_shl(e, half, shift), dt);
    Value second = v_bitcast(e, v_shl(e, v_sub(e, exponent, half), shift), dt);
    return v_fmul(e, v_fmul(e, y, first), second);
}

Value power_of_two(Emit *e, Dtype dt, Nearest n)
{
    Dtype idt = v_bits_dtype(dt);
    Value exponent = v_add(e, n.bits, v_i(e, idt, row_of(dt) ? 1023 : 127));
    return v_bitcast(e, v_shl(e, exponent, fraction_bits(dt)), dt);
}

/* Without the instruction, steps that leave a whole significand: the last product alone rounds. */
static Value scale_by_steps(Emit *e, Dtype dt, Value x, Value n)
{
    static const struct { double top, bottom, step, up, down; } row[2] = {
        {127, -126, -102, 0x1p127, 0x1p-102}, {1023, -1022, -969, 0x1p1023, 0x1p-969},
    };
    int r = row_of(dt);
    for (int k = 0; k < 2; k++) {
        Value high = v_fcmp(e, LLVMRealOGT, n, v_f(e, dt, row[r].top)), low = v_fcmp(e, LLVMRealOLT, n, v_f(e, dt, row[r].bottom));
        x = v_fmul(e, x, v_select(e, high, v_f(e, dt, row[r].up), v_select(e, low, v_f(e, dt, row[r].down), v_f(e, dt, 1))));
        n = v_fsub(e, n, v_select(e, high, v_f(e, dt, row[r].top), v_select(e, low, v_f(e, dt, row[r].step), v_f(e, dt, 0))));
    }
    n = v_fmin_c(e, v_f(e, dt, row[r].top), v_fmax_c(e, v_f(e, dt, row[r].bottom), n));
    return v_fmul(e, x, power_of_two(e, dt, nearest(e, dt, n)));
}

LLVMValueRef emit_ldexp(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)c;
    Value n = v_fmin_c(e, v_f(e, dt, 5000), v_fmax_c(e, v_f(e, dt, -5000), b));
    if (has_tables(e))
        return x86_scalef(e, dt, a, n);
    return v_select(e, v_fcmp(e, LLVMRealUNO, b, b), b, scale_by_steps(e, dt, a, v_floor(e, n)));
}

/* Bits as if the mantissa began at `first` instead of 1: then the exponent field and the rest separate as usual. */
static Mantissa mantissa_from(Emit *e, Dtype dt, Value x, int64_t first32, int64_t first64)
{
    static const struct { double min_normal, up, up_log2, into, bias; int64_t one, two_p, mask; } row[2] = {
        {0x1p-126, 0x1p25, 25, 0x1p23, 127, 0x3f800000, 0x4b000000, 0x007fffff},
        {0x1p-1022, 0x1p54, 54, 0x1p52, 1023, 0x3ff0000000000000, 0x4330000000000000, 0x000fffffffffffff},
    };
    int r = row_of(dt);
    int64_t first = r ? first64 : first32;
    Dtype idt = v_bits_dtype(dt);
    Value tiny = v_fcmp(e, LLVMRealOLT, x, v_f(e, dt, row[r].min_normal));
    x = v_select(e, tiny, v_fmul(e, x, v_f(e, dt, row[r].up)), x);
    Value bits = v_add(e, v_bitcast(e, x, idt), v_i(e, idt, row[r].one - first));
    Value biased = v_or(e, v_lshr(e, bits, fraction_bits(dt)), v_i(e, idt, row[r].two_p));   /* 2^p + exponent field, as a float's bits */
    Value offset = v_select(e, tiny, v_f(e, dt, row[r].into + row[r].bias + row[r].up_log2), v_f(e, dt, row[r].into + row[r].bias));
    Value m = v_add(e, v_and(e, bits, v_i(e, idt, row[r].mask)), v_i(e, idt, first));
    return (Mantissa){v_bitcast(e, m, dt), v_fsub(e, v_bitcast(e, biased, dt), offset)};
}

Mantissa mantissa(Emit *e, Dtype dt, Value x)
{
    return mantissa_from(e, dt, x, 0x3f3504f3, 0x3fe6a09e667f3bcd);
}

Mantissa mantissa_one(Emit *e, Dtype dt, Value x)
{
    if (has_tables(e))
        return (Mantissa){x86_getmant(e, dt, x), x86_getexp(e, dt, x)};
    return mantissa_from(e, dt, x, 0x3f800000, 0x3ff0000000000000);
}
