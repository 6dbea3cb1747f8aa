/* Floats of 8 and 16 bits: their formats, and an element's value and nearest element on the host. */
#include <math.h>
#include <string.h>

#include "ir/ir.h"

const FloatFormat float_format[DT_COUNT] = {
    [DT_float16] = { 5, 10, 15, FLOAT_IEEE }, [DT_bfloat16] = { 8, 7, 127, FLOAT_IEEE },
    [DT_float8_e4m3fn] = { 4, 3, 7, FLOAT_FN }, [DT_float8_e5m2] = { 5, 2, 15, FLOAT_IEEE }, [DT_float8_e4m3] = { 4, 3, 7, FLOAT_IEEE },
    [DT_float8_e3m4] = { 3, 4, 3, FLOAT_IEEE }, [DT_float8_e4m3b11fnuz] = { 4, 3, 11, FLOAT_FNUZ },
    [DT_float8_e4m3fnuz] = { 4, 3, 8, FLOAT_FNUZ }, [DT_float8_e5m2fnuz] = { 5, 2, 16, FLOAT_FNUZ },
};

uint32_t float_format_nan(Dtype t)
{
    const FloatFormat *f = &float_format[t];
    uint32_t ones = (1u << (f->exponent + f->mantissa)) - 1;
    return f->special == FLOAT_FN ? ones : f->special == FLOAT_FNUZ ? ones + 1 : ones ^ ((1u << (f->mantissa - 1)) - 1);
}

uint32_t float_format_limit(Dtype t)
{
    const FloatFormat *f = &float_format[t];
    uint32_t ones = (1u << (f->exponent + f->mantissa)) - 1;
    return f->special == FLOAT_FN ? ones : f->special == FLOAT_FNUZ ? ones + 1 : ones & ~((1u << f->mantissa) - 1);
}

static double small_value(Dtype t, uint32_t bits)
{
    const FloatFormat *f = &float_format[t];
    uint32_t sign = 1u << (f->exponent + f->mantissa), size = bits & (sign - 1);
    int exponent = (int)(size >> f->mantissa), fraction = (int)(size & ((1u << f->mantissa) - 1));
    if (f->special == FLOAT_FNUZ ? (bits & (2 * sign - 1)) == sign : size > float_format_limit(t) || (f->special == FLOAT_FN && size == sign - 1))
        return bits & sign ? -NAN : NAN;
    double x = exponent ? ldexp((1 << f->mantissa) + fraction, exponent - f->bias - f->mantissa) : ldexp(fraction, 1 - f->bias - f->mantissa);
    if (f->special == FLOAT_IEEE && size == float_format_limit(t))
        x = INFINITY;
    return bits & sign ? -x : x;
}

/* Rounded to nearest, ties to even. */
static uint32_t small_bits(Dtype t, double x)
{
    const FloatFormat *f = &float_format[t];
    uint32_t sign = signbit(x) ? 1u << (f->exponent + f->mantissa) : 0, limit = float_format_limit(t);
    int e;
    if (isnan(x))
        return f->special == FLOAT_FNUZ ? float_format_nan(t) : sign | float_format_nan(t);
    frexp(x, &e);                          /* |x| = m 2^e, 0.5 <= m < 1 */
    if (x == 0 || e - 1 < 1 - f->bias)
        e = 2 - f->bias;                   /* subnormal: the step of the least exponent */
    double units = isinf(x) ? INFINITY : rint(ldexp(fabs(x), f->mantissa - (e - 1)));
    /* the implicit bit carries into the exponent field by itself, also where rounding went up a binade */
    double size = units + ldexp(e - 2 + f->bias, f->mantissa);
    if (size >= limit)
        return f->special == FLOAT_FNUZ ? float_format_nan(t) : sign | limit;
    return f->special == FLOAT_FNUZ && size == 0 ? 0 : sign | (uint32_t)size;
}

double float_value(Dtype t, int64_t bits)
{
    double wide;
    float narrow;
    uint32_t low = (uint32_t)bits;
    if (dtype_is_small(t))
        return small_value(t, low & (t == DT_float16 || t == DT_bfloat16 ? 0xFFFF : 0xFF));
    memcpy(&wide, &bits, sizeof wide);
    memcpy(&narrow, &low, sizeof narrow);
    return t == DT_float64 ? wide : narrow;
}

int64_t float_bits(Dtype t, double x)
{
    int64_t bits = 0;
    float narrow = (float)x;
    if (dtype_is_small(t))
        return small_bits(t, t == DT_float16 ? x : narrow);
    if (t == DT_float64)
        memcpy(&bits, &x, sizeof x);
    else
        memcpy(&bits, &narrow, sizeof narrow);
    return bits;
}
