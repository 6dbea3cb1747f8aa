/* floor_divide, remainder and fmod of integers and floats, and the fused multiply-add over its whole range.
 *
 * The exact remainder of floats: q = trunc(x / y) computed in floats is at most one off while it is below 2^52 (2^23), and then
 * x - q y is exact in one multiply-add. Greater quotients go to a scalar loop on the mantissas. */
#include "gen/emit.h"
#include "gen/target.h"

/* ---- vectors of 64-bit integers, which have neither a division nor the upper half of a product ---- */

/* The upper 64 bits of u times a constant. */
static LLVMValueRef multiply_high(Emit *e, LLVMValueRef u, uint64_t by)
{
    LLVMValueRef low = v_i(e, DT_uint64, UINT32_MAX), m0 = v_i(e, DT_uint64, (int64_t)(by & UINT32_MAX)), m1 = v_i(e, DT_uint64, (int64_t)(by >> 32));
    LLVMValueRef u0 = v_and(e, u, low), u1 = v_lshr(e, u, 32);
    LLVMValueRef middle = v_add(e, v_mul(e, u1, m0), v_lshr(e, v_mul(e, u0, m0), 32));
    LLVMValueRef other = v_add(e, v_mul(e, u0, m1), v_and(e, middle, low));
    return v_add(e, v_add(e, v_mul(e, u1, m1), v_lshr(e, middle, 32)), v_lshr(e, other, 32));
}

/* The number that all lanes of a constant hold, if it can divide by multiplication: 2 ... 2^63 - 1; else 0. */
static uint64_t constant_divisor(const Emit *e, Dtype dt, LLVMValueRef b)
{
    if (!e->lanes || dtype_info[dt].bytes != 8 || !LLVMIsConstant(b) || (e->level != CPU_AVX512 && e->level != CPU_AVX2)) return 0;
    LLVMValueRef first = LLVMGetAggregateElement(b, 0);
    for (unsigned i = 1; i < e->lanes; i++)
        if (LLVMGetAggregateElement(b, i) != first) return 0;
    int64_t d = first && LLVMIsAConstantInt(first) ? LLVMConstIntGetSExtValue(first) : 0;
    return d > 1 ? (uint64_t)d : 0;
}

/* floor(a / d) by a product with 2^(n + l) / d, rounded up, where 2^(l - 1) < d <= 2^l and a has n bits (Granlund and Montgomery, Division by Invariant
 * Integers using Multiplication, 1994). A negative a is -1 - u, and its quotient -1 - floor(u / d): u has 63 bits. */
static LLVMValueRef floor_by_constant(Emit *e, Dtype dt, LLVMValueRef a, uint64_t d)
{
    int l = 64 - __builtin_clzll(d - 1);
    bool has_sign = dtype_info[dt].kind == DKIND_INT;
    unsigned __int128 power = (unsigned __int128)1 << ((has_sign ? 63 : 64) + l);
    uint64_t by = (uint64_t)((power + d - 1) / d);                   /* without its 65th bit, 2^64 */
    if (!has_sign) {
        LLVMValueRef t = multiply_high(e, a, by);
        return v_lshr(e, v_add(e, v_lshr(e, v_sub(e, a, t), 1), t), l - 1);
    }
    LLVMValueRef sign = v_ashr(e, a, 63);
    return v_xor(e, v_lshr(e, multiply_high(e, v_xor(e, a, sign), by), l - 1), sign);
}

/* A float64 as uint64, below 2^64: a quotient can be rounded up to that. */
static LLVMValueRef to_words(Emit *e, LLVMValueRef x)
{
    LLVMValueRef most = v_f(e, DT_float64, 0x1.fffffffffffffp63);
    return LLVMBuildFPToUI(e->b, v_select(e, v_fcmp(e, LLVMRealOLT, x, most), x, most), v_type(e, DT_uint64), "");
}

/* a / b of uint64 without a division of integers: the quotient of the floats is off by 2^-51 of itself, and the quotient of what it leaves, which has
 * either sign, by one. A divisor of 2^63 and more goes once or not at all. */
static LLVMValueRef divide_words(Emit *e, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef zero = v_i(e, DT_int64, 0), one = v_i(e, DT_int64, 1), part = v_fdiv(e, v_f(e, DT_float64, 1), v_uitofp(e, b, DT_float64));
    LLVMValueRef q = to_words(e, v_fmul(e, v_uitofp(e, a, DT_float64), part)), r = v_sub(e, a, v_mul(e, q, b));
    LLVMValueRef more = v_fptosi(e, v_fmul(e, v_sitofp(e, r, DT_float64), part), DT_int64);
    q = v_add(e, q, more);
    r = v_sub(e, r, v_mul(e, more, b));
    q = v_select(e, v_icmp(e, LLVMIntSLT, r, zero), v_sub(e, q, one), v_select(e, v_icmp(e, LLVMIntSGE, r, b), v_add(e, q, one), q));
    return v_select(e, v_icmp(e, LLVMIntSLT, b, zero), v_select(e, v_icmp(e, LLVMIntUGE, a, b), one, zero), q);
}

static LLVMValueRef divide_longs(Emit *e, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef sa = v_ashr(e, a, 63), sb = v_ashr(e, b, 63), s = v_xor(e, sa, sb);
    LLVMValueRef q = divide_words(e, v_sub(e, v_xor(e, a, sa), sa), v_sub(e, v_xor(e, b, sb), sb));
    return v_sub(e, v_xor(e, q, s), s);
}

/* ---- integers ---- */

/* The quotient towards zero for b not 0 and not -1. Vectors have no integer division: a float with twice the bits is exact. */
static LLVMValueRef quotient(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b)
{
    bool has_sign = dtype_info[dt].kind == DKIND_INT;
    if (e->lanes && dtype_info[dt].bytes == 8 && e->level == CPU_AVX512 && !LLVMIsConstant(b))
        return has_sign ? divide_longs(e, a, b) : divide_words(e, a, b);
    if (!e->lanes || dtype_info[dt].bytes == 8 || LLVMIsConstant(b))
        return has_sign ? LLVMBuildSDiv(e->b, a, b, "") : LLVMBuildUDiv(e->b, a, b, "");
    Dtype wide = dtype_info[dt].bytes == 4 ? DT_float64 : DT_float32, to = dtype_info[dt].bytes == 4 && !has_sign ? DT_int64 : DT_int32;
    LLVMValueRef x = has_sign ? v_sitofp(e, a, wide) : v_uitofp(e, a, wide), y = has_sign ? v_sitofp(e, b, wide) : v_uitofp(e, b, wide);
    return v_sext(e, v_fptosi(e, v_fdiv(e, x, y), to), dt);
}

typedef struct { LLVMValueRef q, r, zero, minus; } Divided;

/* Quotient and remainder with b replaced by 1 where it is 0 or -1 (masks zero and minus). */
static Divided divide_int(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b)
{
    Divided d = {.zero = v_icmp(e, LLVMIntEQ, b, v_i(e, dt, 0)), .minus = v_i(e, DT_bool_, 0)};
    if (dtype_info[dt].kind == DKIND_INT) d.minus = v_icmp(e, LLVMIntEQ, b, v_i(e, dt, -1));
    LLVMValueRef y = v_select(e, v_or(e, d.zero, d.minus), v_i(e, dt, 1), b);
    d.q = quotient(e, dt, a, y);
    d.r = v_sub(e, a, v_mul(e, d.q, y));
    return d;
}

/* Where the remainder is not 0 and its sign is not b's: the quotient was rounded up. */
static LLVMValueRef rounded_up(Emit *e, Dtype dt, LLVMValueRef r, LLVMValueRef b)
{
    LLVMValueRef zero = v_i(e, dt, 0);
    return v_and(e, v_icmp(e, LLVMIntNE, r, zero), v_icmp(e, LLVMIntSLT, v_xor(e, r, b), zero));
}

static LLVMValueRef floor_divide_int(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b)
{
    uint64_t constant = constant_divisor(e, dt, b);
    if (constant) return floor_by_constant(e, dt, a, constant);
    Divided d = divide_int(e, dt, a, b);
    LLVMValueRef zero = v_i(e, dt, 0);
    if (dtype_info[dt].kind == DKIND_INT) {
        d.q = v_select(e, rounded_up(e, dt, d.r, b), v_sub(e, d.q, v_i(e, dt, 1)), d.q);
        d.q = v_select(e, d.minus, v_sub(e, zero, a), d.q);
    }
    return v_select(e, d.zero, zero, d.q);
}

/* Division by the 1 that stands for 0 and -1 leaves remainder 0, as NumPy wants. */
static LLVMValueRef remainder_int(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b)
{
    uint64_t constant = constant_divisor(e, dt, b);
    if (constant) return v_sub(e, a, v_mul(e, floor_by_constant(e, dt, a, constant), b));
    Divided d = divide_int(e, dt, a, b);
    if (dtype_info[dt].kind != DKIND_INT) return d.r;
    return v_select(e, rounded_up(e, dt, d.r, b), v_add(e, d.r, b), d.r);
}

/* ---- floats ---- */

static LLVMValueRef one_of(LLVMValueRef like) { return LLVMConstInt(LLVMTypeOf(like), 1, 0); }

/* m << n one step at a time, subtracting y whenever it fits: r = m 2^n mod y, for integers 0 < y <= 2^53, m < y, n >= 0. */
static LLVMValueRef shift_subtract(Emit *e, LLVMValueRef m, LLVMValueRef n, LLVMValueRef y)
{
    LLVMBasicBlockRef from = LLVMGetInsertBlock(e->b), head = v_block(e, ""), body = v_block(e, ""), done = v_block(e, "");
    LLVMBuildBr(e->b, head);
    LLVMPositionBuilderAtEnd(e->b, head);
    LLVMValueRef r = LLVMBuildPhi(e->b, LLVMTypeOf(m), ""), left = LLVMBuildPhi(e->b, LLVMTypeOf(n), "");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSGT, left, LLVMConstNull(LLVMTypeOf(n)), ""), body, done);
    LLVMPositionBuilderAtEnd(e->b, body);
    LLVMValueRef twice = LLVMBuildShl(e->b, r, one_of(r), ""), less = LLVMBuildSub(e->b, twice, y, "");
    LLVMValueRef next = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntUGE, twice, y, ""), less, twice, "");
    LLVMAddIncoming(r, (LLVMValueRef[]){m, next}, (LLVMBasicBlockRef[]){from, body}, 2);
    LLVMAddIncoming(left, (LLVMValueRef[]){n, LLVMBuildSub(e->b, left, one_of(left), "")}, (LLVMBasicBlockRef[]){from, body}, 2);
    LLVMBuildBr(e->b, head);
    LLVMPositionBuilderAtEnd(e->b, done);
    return r;
}

typedef struct { LLVMValueRef mantissa, exponent; } Parts;    /* x = mantissa 2^(exponent - bias), integers; denormals have exponent 1 */

static Parts take_apart(Emit *e, Dtype dt, LLVMValueRef x)
{
    Dtype bits = v_bits_dtype(dt);
    int width = dt == DT_float64 ? 52 : 23;
    LLVMValueRef all = v_bitcast(e, v_fabs(e, x), bits), exponent = v_lshr(e, all, width), zero = v_i(e, bits, 0);
    LLVMValueRef fraction = v_and(e, all, v_i(e, bits, (INT64_C(1) << width) - 1)), normal = v_icmp(e, LLVMIntNE, exponent, zero);
    return (Parts){v_select(e, normal, v_or(e, fraction, v_i(e, bits, INT64_C(1) << width)), fraction),
                   v_select(e, normal, exponent, v_i(e, bits, 1))};
}

/* fmod of scalars, finite, |a| >= |b| > 0. The remainder is below b, so putting it together in b's exponent needs no rounding:
 * an integer below 2^53 times a power of two that is at least the least denormal. */
static LLVMValueRef fmod_slow(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)c;
    Dtype bits = v_bits_dtype(dt);
    int width = dt == DT_float64 ? 52 : 23, bias = dt == DT_float64 ? 1075 : 150;
    Parts x = take_apart(e, dt, a), y = take_apart(e, dt, b);
    LLVMValueRef m = LLVMBuildURem(e->b, x.mantissa, y.mantissa, "");
    LLVMValueRef r = v_sitofp(e, shift_subtract(e, m, v_sub(e, x.exponent, y.exponent), y.mantissa), dt);
    /* 2^(exponent - bias) in two normal factors; the first product is exact, the second too. */
    LLVMValueRef up = v_sub(e, y.exponent, v_i(e, bits, bias)), half = v_ashr(e, up, 1), offset = v_i(e, bits, bias - width);
    LLVMValueRef f1 = v_bitcast(e, v_shl(e, v_add(e, half, offset), width), dt);
    LLVMValueRef f2 = v_bitcast(e, v_shl(e, v_add(e, v_sub(e, up, half), offset), width), dt);
    return v_copysign(e, v_fmul(e, v_fmul(e, r, f1), f2), a);
}

static LLVMValueRef fmod_float(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef x = v_fabs(e, a), y = v_fabs(e, b), inf = v_f(e, dt, __builtin_inf());
    LLVMValueRef q = v_trunc(e, v_fdiv(e, x, y)), r = v_fma(e, v_fneg(e, q), y, x);
    LLVMValueRef zero = v_f(e, dt, 0), small = v_fcmp(e, LLVMRealOLT, x, y);
    r = v_select(e, v_fcmp(e, LLVMRealOLT, r, zero), v_fadd(e, r, y), r);
    r = v_select(e, v_fcmp(e, LLVMRealOGE, r, y), v_fsub(e, r, y), r);
    r = v_select(e, small, x, r);
    LLVMValueRef defined = v_and(e, v_fcmp(e, LLVMRealOLT, x, inf), v_fcmp(e, LLVMRealOGT, y, zero));
    r = v_select(e, defined, v_copysign(e, r, a), v_f(e, dt, __builtin_nan("")));
    LLVMValueRef exact = v_fcmp(e, LLVMRealOLT, q, v_f(e, dt, dt == DT_float64 ? 0x1p52 : 0x1p23));
    if (!target_fma(e->level) && dt == DT_float64) {      /* where the software multiply-add is exact */
        exact = v_and(e, exact, v_fcmp(e, LLVMRealOLT, x, v_f(e, dt, 0x1p990)));
        exact = v_and(e, exact, v_fcmp(e, LLVMRealOGT, y, v_f(e, dt, 0x1p-900)));
    }
    LLVMValueRef rare = v_and(e, v_not(e, v_or(e, exact, small)), v_and(e, defined, v_fcmp(e, LLVMRealORD, y, y)));
    return v_rare(e, rare, r, "fmod_slow", fmod_slow, dt, a, b);
}

/* The signs of y and of a remainder that is not 0 differ. */
static LLVMValueRef signs_differ(Emit *e, Dtype dt, LLVMValueRef y, LLVMValueRef mod)
{
    LLVMValueRef zero = v_f(e, dt, 0);
    LLVMValueRef differ = v_xor(e, v_fcmp(e, LLVMRealOLT, y, zero), v_fcmp(e, LLVMRealOLT, mod, zero));
    return v_and(e, differ, v_fcmp(e, LLVMRealUNE, mod, zero));
}

static LLVMValueRef remainder_float(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef zero = v_f(e, dt, 0), mod = fmod_float(e, dt, a, b);
    LLVMValueRef r = v_select(e, signs_differ(e, dt, b, mod), v_fadd(e, mod, b), mod);
    return v_select(e, v_fcmp(e, LLVMRealOEQ, mod, zero), v_copysign(e, zero, b), r);
}

/* NumPy's npy_divmod, step by step. */
static LLVMValueRef floor_divide_float(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef zero = v_f(e, dt, 0), one = v_f(e, dt, 1), mod = fmod_float(e, dt, a, b), plain = v_fdiv(e, a, b);
    LLVMValueRef div = v_fdiv(e, v_fsub(e, a, mod), b);
    div = v_select(e, signs_differ(e, dt, b, mod), v_fsub(e, div, one), div);
    LLVMValueRef down = v_floor(e, div), up = v_fcmp(e, LLVMRealOGT, v_fsub(e, div, down), v_f(e, dt, 0.5));
    LLVMValueRef r = v_select(e, up, v_fadd(e, down, one), down);
    r = v_select(e, v_fcmp(e, LLVMRealOEQ, div, zero), v_copysign(e, zero, plain), r);
    return v_select(e, v_fcmp(e, LLVMRealOEQ, b, zero), plain, r);
}

/* ---- the ops ---- */

static bool is_float(Dtype dt) { return dtype_info[dt].kind == DKIND_FLOAT; }

LLVMValueRef emit_floor_divide(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)c;
    return is_float(dt) ? floor_divide_float(e, dt, a, b) : floor_divide_int(e, dt, a, b);
}

LLVMValueRef emit_remainder(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)c;
    return is_float(dt) ? remainder_float(e, dt, a, b) : remainder_int(e, dt, a, b);
}

LLVMValueRef emit_fmod(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)c;
    return is_float(dt) ? fmod_float(e, dt, a, b) : divide_int(e, dt, a, b).r;
}
