/* One element of every elementwise op: the definition that folding and the interpreter share and generated code must meet.
 *
 * An element of any dtype is unpacked into the widest type of its kind (int64, uint64, double), computed there and packed back.
 * Integers wrap by being packed. Arithmetic on float32 in double and rounded once is float32's own (53 >= 2 * 24 + 2 bits);
 * where NumPy rounds in between, ROUND does.
 *
 * Everything is what NumPy 2.4 gives on x86-64 Linux. Where its loops disagree among themselves, the contract is the contiguous
 * vector loop:
 *   - maximum, minimum: a NaN wins (the first, if both are); of two equal arguments the second is the result, so
 *     maximum(0.0, -0.0) is -0.0 (all of NumPy's loops).
 *   - fmax, fmin: a NaN loses; of two equal arguments the second is the result (NumPy's scalar tail: the first).
 *   - float to int8, int16, uint8, uint16: as to int32, then wrapped. To int32, int64: truncated; what does not fit, and NaN, is
 *     the least integer (cvttsd2si).
 *   - float to uint32: below 2**31 (and NaN) as to int32, above as x - 2**31 to int32 with the top bit flipped: NaN and what is below
 *     -2**31 give 2**31, what is 2**32 or more gives 0. (NumPy's strided loop and its tails differ outside [-2**31, 2**32).)
 *   - float to uint64: the same with 2**63 and int64 (all loops). float16 to uint32: as to int64, wrapped.
 *   - float to bool: x != 0, so NaN is True. */
#include <math.h>
#include <string.h>
#include "ir/ir.h"

/* The element's value, from its low bytes: signed integers by their sign, others by zeros. */
static int64_t wrap(Dtype t, int64_t x)
{
    int shift = 64 - 8 * dtype_info[t].bytes;
    if (shift <= 0)
        return x;
    if (dtype_info[t].kind == DKIND_INT)
        return (int64_t)((uint64_t)x << shift) >> shift;
    return (int64_t)((uint64_t)x << shift >> shift);
}

static uint64_t power_int(uint64_t base, uint64_t exponent)
{
    uint64_t r = 1;
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1)
            r *= base;
    return r;
}

/* `size` is the dtype's width in bits; the caller wraps the result. A negative power is 0 here: a CHECK has failed then. */
static int64_t eval_int(Op op, int64_t x, int64_t y, int size)
{
    uint64_t u = (uint64_t)x, v = (uint64_t)y;
    switch (op) {
    case OP_add: return (int64_t)(u + v);
    case OP_subtract: return (int64_t)(u - v);
    case OP_multiply: return (int64_t)(u * v);
    case OP_floor_divide: return y == 0 ? 0 : y == -1 ? (int64_t)-u : x / y - (x % y != 0 && (x < 0) != (y < 0));
    case OP_remainder: return y == 0 || y == -1 ? 0 : x % y + (x % y != 0 && (x < 0) != (y < 0) ? y : 0);
    case OP_fmod: return y == 0 || y == -1 ? 0 : x % y;
    case OP_power: return y < 0 ? 0 : (int64_t)power_int(u, v);
    case OP_negative: return (int64_t)-u;
    case OP_absolute: return x < 0 ? (int64_t)-u : x;
    case OP_sign: return (x > 0) - (x < 0);
    case OP_maximum: case OP_fmax: return x > y ? x : y;
    case OP_minimum: case OP_fmin: return x < y ? x : y;
    case OP_equal: return x == y;
    case OP_not_equal: return x != y;
    case OP_less: return x < y;
    case OP_less_equal: return x <= y;
    case OP_bitwise_and: return x & y;
    case OP_bitwise_or: return x | y;
    case OP_bitwise_xor: return x ^ y;
    case OP_invert: return ~x;
    case OP_left_shift: return v < (uint64_t)size ? (int64_t)(u << v) : 0;
    case OP_right_shift: return v < (uint64_t)size ? x >> v : x < 0 ? -1 : 0;
    default: ASSERT(!"an op of signed integers"); return 0;
    }
}

static uint64_t eval_uint(Op op, uint64_t x, uint64_t y, int size)
{
    switch (op) {
    case OP_add: return x + y;
    case OP_subtract: return x - y;
    case OP_multiply: return x * y;
    case OP_floor_divide: return y ? x / y : 0;
    case OP_remainder: case OP_fmod: return y ? x % y : 0;
    case OP_power: return power_int(x, y);
    case OP_negative: return -x;
    case OP_absolute: return x;
    case OP_sign: return x != 0;
    case OP_maximum: case OP_fmax: return x > y ? x : y;
    case OP_minimum: case OP_fmin: return x < y ? x : y;
    case OP_equal: return x == y;
    case OP_not_equal: return x != y;
    case OP_less: return x < y;
    case OP_less_equal: return x <= y;
    case OP_bitwise_and: return x & y;
    case OP_bitwise_or: return x | y;
    case OP_bitwise_xor: return x ^ y;
    case OP_invert: return ~x;
    case OP_left_shift: return y < (uint64_t)size ? x << y : 0;
    case OP_right_shift: return y < (uint64_t)size ? x >> y : 0;
    default: ASSERT(!"an op of unsigned integers"); return 0;
    }
}

static bool eval_bool(Op op, bool x, bool y)
{
    switch (op) {
    case OP_add: case OP_maximum: case OP_fmax: case OP_logical_or: case OP_bitwise_or: return x | y;
    case OP_multiply: case OP_minimum: case OP_fmin: case OP_logical_and: case OP_bitwise_and: return x & y;
    case OP_not_equal: case OP_logical_xor: case OP_bitwise_xor: return x ^ y;
    case OP_absolute: return x;
    case OP_equal: return x == y;
    case OP_less: return !x & y;
    case OP_less_equal: return !x | y;
    case OP_logical_not: case OP_invert: return !x;
    default: ASSERT(!"an op of bool"); return false;
    }
}

#define ROUND(x) (single ? (double)(float)(x) : (double)(x))

/* NumPy's npy_divmod: Python's divmod, kept consistent with the remainder, rounded to the dtype at each step. */
static double floor_divide(double x, double y, bool single)
{
    if (y == 0)
        return x / y;
    double mod = fmod(x, y);
    double div = ROUND(ROUND(x - mod) / y);
    if (mod != 0 && (y < 0) != (mod < 0))
        div = ROUND(div - 1);
    if (div == 0)
        return copysign(0, x / y);
    double down = floor(div);
    return div - down > 0.5 ? ROUND(down + 1) : down;
}

static double remainder_float(double x, double y, bool single)
{
    double mod = fmod(x, y);
    if (y == 0)
        return mod;
    if (mod == 0)
        return copysign(0, y);
    return (y < 0) != (mod < 0) ? ROUND(mod + y) : mod;
}

static double scaled(double x, double y, bool single)
{
    if (isnan(y))
        return y;
    int n = (int)floor(y < -5000 ? -5000 : y > 5000 ? 5000 : y);
    return single ? (double)ldexpf((float)x, n) : ldexp(x, n);
}

static double eval_float(Op op, double x, double y, double z, bool single)
{
    switch (op) {
    case OP_add: return x + y;
    case OP_subtract: return x - y;
    case OP_multiply: return x * y;
    case OP_divide: return x / y;
    case OP_floor_divide: return floor_divide(x, y, single);
    case OP_remainder: return remainder_float(x, y, single);
    case OP_fmod: return fmod(x, y);
    case OP_power: return pow(x, y);
    case OP_negative: return -x;
    case OP_absolute: return fabs(x);
    case OP_sign: return x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x;
    case OP_sqrt: return sqrt(x);
    case OP_cbrt: return (double)cbrtl(x);        /* cbrt of the C library is off by two units */
    case OP_floor: return floor(x);
    case OP_ceil: return ceil(x);
    case OP_trunc: return trunc(x);
    case OP_rint: return rint(x);
    case OP_copysign: return copysign(x, y);
    case OP_ldexp: return scaled(x, y, single);
    case OP_maximum: return isnan(x) || x > y ? x : y;
    case OP_minimum: return isnan(x) || x < y ? x : y;
    case OP_fmax: return isnan(y) || x > y ? x : y;
    case OP_fmin: return isnan(y) || x < y ? x : y;
    case OP_fma: return single ? fmaf((float)x, (float)y, (float)z) : fma(x, y, z);
    case OP_exp: return exp(x);
    case OP_exp2: return exp2(x);
    case OP_expm1: return expm1(x);
    case OP_log: return log(x);
    case OP_log2: return log2(x);
    case OP_log10: return log10(x);
    case OP_log1p: return log1p(x);
    case OP_sin: return sin(x);
    case OP_cos: return cos(x);
    case OP_tan: return tan(x);
    case OP_arcsin: return asin(x);
    case OP_arccos: return acos(x);
    case OP_arctan: return atan(x);
    case OP_arctan2: return atan2(x, y);
    case OP_sinh: return sinh(x);
    case OP_cosh: return cosh(x);
    case OP_tanh: return tanh(x);
    case OP_arcsinh: return asinh(x);
    case OP_arccosh: return acosh(x);
    case OP_arctanh: return atanh(x);
    case OP_hypot: return hypot(x, y);
    default: ASSERT(!"an op of floats"); return 0;
    }
}

static bool test_float(Op op, double x, double y)
{
    switch (op) {
    case OP_equal: return x == y;
    case OP_not_equal: return x != y;
    case OP_less: return x < y;
    case OP_less_equal: return x <= y;
    case OP_isnan: return isnan(x);
    case OP_signbit: return signbit(x);
    default: ASSERT(!"a predicate of floats"); return false;
    }
}

/* cvttsd2si: C leaves what does not fit undefined. */
static int64_t to_int64(double x)
{
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}

static int64_t to_int32(double x)
{
    return x > -0x1p31 - 1 && x < 0x1p31 ? (int64_t)x : INT32_MIN;
}

static int64_t cast_float(Dtype out, double x)
{
    switch (out) {
    case DT_bool_: return x != 0;
    case DT_int64: return to_int64(x);
    case DT_uint64: return x >= 0x1p63 ? to_int64(x - 0x1p63) ^ INT64_MIN : to_int64(x);
    case DT_uint32: return wrap(out, x >= 0x1p31 ? to_int32(x - 0x1p31) ^ INT32_MIN : to_int32(x));
    default: return dtype_info[out].kind == DKIND_FLOAT ? float_bits(out, x) : wrap(out, to_int32(x));
    }
}

/* int64 and uint64 go to float32 directly: through double they would round twice. All go to smaller floats through float32, as in NumPy. */
static int64_t cast_int(Dtype in, Dtype out, int64_t x)
{
    bool large = in == DT_uint64;
    if (out == DT_float32 || dtype_is_small(out))
        return float_bits(out, large ? (float)(uint64_t)x : (float)x);
    if (out == DT_float64)
        return float_bits(out, large ? (double)(uint64_t)x : (double)x);
    return out == DT_bool_ ? x != 0 : wrap(out, x);
}

/* NumPy's float16 and ml_dtypes' 8-bit floats have ways of their own to integers. */
static int64_t cast_from_float(Dtype in, Dtype out, double x)
{
    bool integer = dtype_info[out].kind == DKIND_INT || dtype_info[out].kind == DKIND_UINT;
    int size = 8 * dtype_info[out].bytes;
    if (in == DT_float16 && out == DT_uint32)
        return wrap(out, to_int64(x));
    if (!integer || dtype_info[in].bytes > 1 || isfinite(x))
        return cast_float(out, x);
    int64_t most = dtype_info[out].kind == DKIND_INT ? INT64_MAX >> (64 - size) : (int64_t)(UINT64_MAX >> (64 - size));
    return isnan(x) ? 0 : x > 0 ? most : dtype_info[out].kind == DKIND_INT ? -most - 1 : 0;
}

static int64_t eval_cast(Dtype in, Dtype out, int64_t a)
{
    DtypeKind from = dtype_info[in].kind, to = dtype_info[out].kind;
    if (in == out)
        return in == DT_bool_ ? (a & 255) != 0 : wrap(in, a);
    if (from == DKIND_COMPLEX || to == DKIND_COMPLEX) {
        ASSERT(!"a cast the evaluator knows");
        return 0;
    }
    if (from == DKIND_FLOAT)
        return cast_from_float(in, out, float_value(in, a));
    return cast_int(in, out, in == DT_bool_ ? (a & 255) != 0 : wrap(in, a));
}

/* Floats of 8 and 16 bits compute in float32. */
static int64_t round_result(Dtype t, double x) { return float_bits(t, t == DT_float64 ? x : (float)x); }

int64_t eval_elementwise(Op op, Dtype in, Dtype out, int64_t a, int64_t b, int64_t c)
{
    if (op == OP_cast)
        return eval_cast(in, out, a);
    if (op == OP_bitcast)
        return wrap(out, a);
    if (op == OP_where)
        return (a & 255) != 0 ? b : c;
    bool predicate = op_info[op].result == RESULT_BOOL;
    int64_t r;
    switch (dtype_info[in].kind) {
    case DKIND_BOOL:
        return eval_bool(op, (a & 255) != 0, (b & 255) != 0);
    case DKIND_INT:
        r = eval_int(op, wrap(in, a), wrap(in, b), 8 * dtype_info[in].bytes);
        return predicate ? r : wrap(in, r);
    case DKIND_UINT:
        r = (int64_t)eval_uint(op, (uint64_t)wrap(in, a), (uint64_t)wrap(in, b), 8 * dtype_info[in].bytes);
        return predicate ? r : wrap(in, r);
    case DKIND_FLOAT:
        if (predicate)
            return test_float(op, float_value(in, a), float_value(in, b));
        return round_result(in, eval_float(op, float_value(in, a), float_value(in, b), float_value(in, c), in != DT_float64));
    case DKIND_COMPLEX:
        break;
    }
    ASSERT(!"a dtype the evaluator knows");
    return 0;
}
