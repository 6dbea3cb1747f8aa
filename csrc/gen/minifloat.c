/* Floats of 8 and 16 bits to float32 and back. In registers they are integers of their size; nothing but these conversions, moves and
 * selections touches them. */
#include "gen/emit.h"
#include "gen/target.h"

static bool by_instruction(const Emit *e, Dtype dt) { return dt == DT_float16 && (e->level == CPU_AVX2 || e->level == CPU_AVX512); }

static LLVMValueRef i32(Emit *e, int64_t x) { return v_i(e, DT_int32, x); }

static LLVMTypeRef half_type(Emit *e)
{
    LLVMTypeRef half = LLVMHalfTypeInContext(e->ctx);
    return e->lanes ? LLVMVectorType(half, e->lanes) : half;
}

/* The exponent field moves by a product with a power of two, which is exact and makes denormals normal. */
LLVMValueRef v_from_small(Emit *e, Dtype dt, LLVMValueRef x)
{
    const FloatFormat *f = &float_format[dt];
    int sign_bit = f->exponent + f->mantissa;
    if (by_instruction(e, dt)) return LLVMBuildFPExt(e->b, LLVMBuildBitCast(e->b, x, half_type(e), ""), v_type(e, DT_float32), "");
    LLVMValueRef all = v_zext(e, x, DT_int32);
    if (dt == DT_bfloat16) return v_bitcast(e, v_shl(e, all, 16), DT_float32);
    LLVMValueRef size = v_and(e, all, i32(e, (1 << sign_bit) - 1)), sign = v_shl(e, v_lshr(e, all, sign_bit), 31);
    LLVMValueRef raw = v_shl(e, size, 23 - f->mantissa);
    LLVMValueRef r = v_fmul(e, v_bitcast(e, raw, DT_float32), v_fbits(e, DT_float32, (uint64_t)(254 - f->bias) << 23));
    r = v_bitcast(e, r, DT_int32);
    if (f->special == FLOAT_IEEE)
        r = v_select(e, v_icmp(e, LLVMIntSGE, size, i32(e, float_format_limit(dt))), v_or(e, raw, i32(e, 0x7F800000)), r);
    else
        r = v_select(e, v_icmp(e, LLVMIntEQ, f->special == FLOAT_FN ? size : all, i32(e, float_format_nan(dt))), i32(e, 0x7FC00000), r);
    return v_bitcast(e, v_or(e, r, sign), DT_float32);
}

/* Rounds the bits of |x| to the format's fraction: normal numbers by adding just less than half a step, denormals by a sum in which
 * the format's least step is the last place. */
static LLVMValueRef rounded(Emit *e, const FloatFormat *f, LLVMValueRef a)
{
    int drop = 23 - f->mantissa;
    LLVMValueRef r = v_sub(e, a, i32(e, (int64_t)(127 - f->bias) << 23)), odd = v_and(e, v_lshr(e, r, drop), i32(e, 1));
    r = v_lshr(e, v_add(e, r, v_add(e, odd, i32(e, (1 << (drop - 1)) - 1))), drop);
    if (f->bias == 127) return r;
    LLVMValueRef magic = i32(e, (int64_t)(127 + 1 - f->bias - f->mantissa + 23) << 23);
    LLVMValueRef sum = v_fadd(e, v_bitcast(e, a, DT_float32), v_bitcast(e, magic, DT_float32));
    LLVMValueRef tiny = v_icmp(e, LLVMIntSLT, a, i32(e, (int64_t)(128 - f->bias) << 23));
    return v_select(e, tiny, v_sub(e, v_bitcast(e, sum, DT_int32), magic), r);
}

LLVMValueRef v_to_small(Emit *e, Dtype dt, LLVMValueRef x)
{
    const FloatFormat *f = &float_format[dt];
    int sign_bit = f->exponent + f->mantissa;
    if (by_instruction(e, dt)) return LLVMBuildBitCast(e->b, LLVMBuildFPTrunc(e->b, x, half_type(e), ""), v_type(e, dt), "");
    LLVMValueRef bits = v_bitcast(e, x, DT_int32), a = v_and(e, bits, i32(e, 0x7FFFFFFF)), limit = i32(e, float_format_limit(dt));
    LLVMValueRef sign = v_shl(e, v_lshr(e, bits, 31), sign_bit), r = rounded(e, f, a);
    r = v_select(e, v_icmp(e, LLVMIntSLT, r, limit), r, limit);
    r = v_select(e, v_icmp(e, LLVMIntSGT, a, i32(e, 0x7F800000)), i32(e, float_format_nan(dt)), r);
    if (f->special == FLOAT_FNUZ) {        /* one zero, one NaN */
        LLVMValueRef plain = v_or(e, v_icmp(e, LLVMIntEQ, r, i32(e, 0)), v_icmp(e, LLVMIntEQ, r, limit));
        sign = v_select(e, plain, i32(e, 0), sign);
    }
    return v_zext(e, v_or(e, r, sign), dt);
}

/* float64 to a float32 that rounds to float16 as the float64 does: towards zero, with a last bit that remembers what was cut off. */
LLVMValueRef v_to_odd(Emit *e, LLVMValueRef x)
{
    LLVMValueRef f = v_fpcast(e, x, DT_float32), back = v_fpcast(e, f, DT_float64), bits = v_bitcast(e, f, DT_int32);
    LLVMValueRef beyond = v_fcmp(e, LLVMRealOGT, v_fabs(e, back), v_fabs(e, x)), inexact = v_fcmp(e, LLVMRealONE, back, x);
    LLVMValueRef cut = v_select(e, beyond, v_sub(e, bits, i32(e, 1)), bits);
    return v_bitcast(e, v_select(e, inexact, v_or(e, cut, i32(e, 1)), bits), DT_float32);
}
