/* astype between all dtypes. Floats out of an integer's range give what x86's cvttsd2si gives, on every machine (ir/eval.c). */
#include "gen/math.h"

/* To int32 or int64, the least integer where x does not fit. LLVM's result is poison there, which the select does not choose. */
static LLVMValueRef to_signed(Emit *e, LLVMValueRef x, Dtype in, Dtype out)
{
    double limit = out == DT_int64 ? 0x1p63 : 0x1p31;
    if (has_tables(e) && e->lanes && (in == DT_float64 || out == DT_int32)) return x86_convert(e, in, x, out);
    /* -2^31 - 1 is exclusive in float64; it rounds to -2^31 in float32, where the least integer is right too. */
    LLVMValueRef low = out == DT_int64 ? v_fcmp(e, LLVMRealOGE, x, v_f(e, in, -limit)) : v_fcmp(e, LLVMRealOGT, x, v_f(e, in, -limit - 1));
    LLVMValueRef fits = v_and(e, low, v_fcmp(e, LLVMRealOLT, x, v_f(e, in, limit)));
    return v_select(e, fits, v_fptosi(e, x, out), v_i(e, out, out == DT_int64 ? INT64_MIN : INT32_MIN));
}

/* Below 2^31 (2^63) as the signed integer, above it less that much with the top bit flipped. */
static LLVMValueRef to_unsigned(Emit *e, LLVMValueRef x, Dtype in, Dtype out)
{
    Dtype sgn = v_bits_dtype(out);
    LLVMValueRef half = v_f(e, in, out == DT_uint64 ? 0x1p63 : 0x1p31), large = v_fcmp(e, LLVMRealOGE, x, half);
    LLVMValueRef r = to_signed(e, v_select(e, large, v_fsub(e, x, half), x), in, sgn);
    LLVMValueRef top = v_i(e, sgn, out == DT_uint64 ? INT64_MIN : INT32_MIN);
    return v_select(e, large, v_xor(e, r, top), r);
}

/* ml_dtypes goes through float32. */
static LLVMValueRef to_small(Emit *e, LLVMValueRef x, Dtype in, Dtype out)
{
    if (in == DT_float64) x = out == DT_float16 ? v_to_odd(e, x) : v_fpcast(e, x, DT_float32);
    return v_to_small(e, out, x);
}

static LLVMValueRef from_float(Emit *e, LLVMValueRef x, Dtype in, Dtype out)
{
    switch (dtype_info[out].kind) {
    case DKIND_BOOL: return v_fcmp(e, LLVMRealUNE, x, v_f(e, in, 0));
    case DKIND_INT:
    case DKIND_UINT:
        if (out == DT_int64 || out == DT_int32) return to_signed(e, x, in, out);
        if (out == DT_uint64 || out == DT_uint32) return to_unsigned(e, x, in, out);
        return v_sext(e, to_signed(e, x, in, DT_int32), out);
    case DKIND_FLOAT: return dtype_is_small(out) ? to_small(e, x, in, out) : v_fpcast(e, x, out);
    case DKIND_COMPLEX: break;
    }
    return v_i(e, out, 0);
}

static LLVMValueRef from_int(Emit *e, LLVMValueRef x, Dtype in, Dtype out)
{
    bool has_sign = dtype_info[in].kind == DKIND_INT;
    switch (dtype_info[out].kind) {
    case DKIND_BOOL: return v_icmp(e, LLVMIntNE, x, v_i(e, in, 0));
    case DKIND_INT:
    case DKIND_UINT: return has_sign ? v_sext(e, x, out) : v_zext(e, x, out);
    case DKIND_FLOAT: return has_sign ? v_sitofp(e, x, out) : v_uitofp(e, x, out);
    case DKIND_COMPLEX: break;
    }
    return v_i(e, out, 0);
}

/* What ml_dtypes makes of the infinities and NaN of 8-bit floats. */
static LLVMValueRef saturated(Emit *e, LLVMValueRef x, LLVMValueRef r, Dtype out)
{
    int size = 8 * dtype_info[out].bytes;
    bool has_sign = dtype_info[out].kind == DKIND_INT;
    LLVMValueRef most = v_i(e, out, has_sign ? INT64_MAX >> (64 - size) : (int64_t)(UINT64_MAX >> (64 - size)));
    LLVMValueRef least = v_i(e, out, has_sign ? INT64_MIN >> (64 - size) : 0), inf = v_f(e, DT_float32, __builtin_inf());
    r = v_select(e, v_isnan(e, x), v_i(e, out, 0), r);
    r = v_select(e, v_fcmp(e, LLVMRealOEQ, x, inf), most, r);
    return v_select(e, v_fcmp(e, LLVMRealOEQ, x, v_fneg(e, inf)), least, r);
}

/* 1.0 or 0.0, as bits: LLVM 19 takes 0.0 / select(mask, 1.0, 0.0) for 0 in every lane where it finds late that the numerator is 0 (it holds
 * 0 / 0 for a 0), which a mask of bits keeps from it. */
static LLVMValueRef from_bool(Emit *e, LLVMValueRef a, Dtype out)
{
    Dtype bits = out == DT_float64 ? DT_int64 : DT_int32;
    return v_bitcast(e, v_and(e, v_sext(e, a, bits), v_bitcast(e, v_f(e, out, 1), bits)), out);
}

LLVMValueRef emit_cast(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)b, (void)c;
    Dtype out = e->out;
    if (dt == out) return a;
    if (dtype_is_small(dt)) {
        bool by_int64 = dt == DT_float16 && out == DT_uint32;      /* NumPy's way */
        a = v_from_small(e, dt, a);
        if (by_int64) return v_zext(e, from_float(e, a, DT_float32, DT_int64), out);
        if (out == DT_float32) return a;
        LLVMValueRef r = from_float(e, a, DT_float32, out);
        bool saturates = dtype_info[dt].bytes == 1 && (dtype_info[out].kind == DKIND_INT || dtype_info[out].kind == DKIND_UINT);
        return saturates ? saturated(e, a, r, out) : r;
    }
    if (dtype_is_small(out) && dtype_info[dt].kind < DKIND_FLOAT) {
        e->out = DT_float32;
        return v_to_small(e, out, emit_cast(e, dt, a, NULL, NULL));
    }
    switch (dtype_info[dt].kind) {
    case DKIND_BOOL: return dtype_info[out].kind == DKIND_FLOAT ? from_bool(e, a, out) : v_zext(e, a, out);
    case DKIND_FLOAT: return from_float(e, a, dt, out);
    default: return from_int(e, a, dt, out);
    }
}
