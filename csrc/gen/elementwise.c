/* The cheap elementwise ops, as ir/eval.c defines them, and the table of all. */
#include "gen/emit.h"

static EmitFn *const table[OP_COUNT] = {
#define OP(id, kind, nin, result, dtypes, doc)
#define ELEMENTWISE(id, nin, result, dtypes, cost, ulp32, ulp64, domain, doc) [OP_##id] = emit_##id,
#include "ir/ops.def"
};

bool emit_knows(int op) { return op > 0 && op < OP_COUNT && table[op]; }

/* From this many uses in one kernel on, compile time prefers calls to inlined polynomials. */
enum { INLINE_USES = 10 };

/* An op on floats of 8 or 16 bits, rounded to them. */
static LLVMValueRef in_float32(Emit *e, Op op, Dtype dt, Dtype out, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    LLVMValueRef x[3] = {a, b, c};
    for (int i = 0; i < 3; i++)
        if (x[i]) x[i] = v_from_small(e, dt, x[i]);
    LLVMValueRef r = emit_op(e, op, DT_float32, out == dt ? DT_float32 : out, x[0], x[1], x[2]);
    return out == dt ? v_to_small(e, dt, r) : r;
}

LLVMValueRef emit_op(Emit *e, Op op, Dtype in, Dtype out, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    if (dtype_is_small(in) && op != OP_cast && op != OP_bitcast && op != OP_where) return in_float32(e, op, in, out, a, b, c);
    e->out = out;
    if (op_info[op].cost == COST_MATH && e->uses[op] > INLINE_USES)
        return v_call(e, op_info[op].name, table[op], in, e->lanes, false, a, b, c);
    return table[op](e, in, a, b, c);
}

static DtypeKind kind_of(Dtype dt) { return dtype_info[dt].kind; }
static bool is_float(Dtype dt) { return kind_of(dt) == DKIND_FLOAT; }
static bool is_bool(Dtype dt) { return kind_of(dt) == DKIND_BOOL; }
static bool is_signed(Dtype dt) { return kind_of(dt) == DKIND_INT; }

#define EMIT(id) \
    LLVMValueRef emit_##id(Emit *e, Dtype dt __attribute__((unused)), LLVMValueRef a __attribute__((unused)), \
                           LLVMValueRef b __attribute__((unused)), LLVMValueRef c __attribute__((unused)))

/* ---- arithmetic ---- */

EMIT(add) { return is_float(dt) ? v_fadd(e, a, b) : is_bool(dt) ? v_or(e, a, b) : v_add(e, a, b); }
EMIT(subtract) { return is_float(dt) ? v_fsub(e, a, b) : v_sub(e, a, b); }
EMIT(multiply) { return is_float(dt) ? v_fmul(e, a, b) : is_bool(dt) ? v_and(e, a, b) : v_mul(e, a, b); }
EMIT(divide) { return v_fdiv(e, a, b); }
EMIT(negative) { return is_float(dt) ? v_fneg(e, a) : v_sub(e, v_i(e, dt, 0), a); }
EMIT(bitcast) { return v_bitcast(e, a, e->out); }
EMIT(sqrt) { return v_sqrt(e, a); }
EMIT(floor) { return v_floor(e, a); }
EMIT(ceil) { return v_ceil(e, a); }
EMIT(trunc) { return v_trunc(e, a); }
EMIT(rint) { return v_rint(e, a); }
EMIT(copysign) { return v_copysign(e, a, b); }

EMIT(absolute)
{
    if (is_float(dt)) return v_fabs(e, a);
    if (!is_signed(dt)) return a;
    LLVMValueRef zero = v_i(e, dt, 0);
    return v_select(e, v_icmp(e, LLVMIntSLT, a, zero), v_sub(e, zero, a), a);
}

EMIT(sign)
{
    if (!is_float(dt)) {
        LLVMValueRef zero = v_i(e, dt, 0), one = v_i(e, dt, 1), nonzero = v_select(e, v_icmp(e, LLVMIntNE, a, zero), one, zero);
        return is_signed(dt) ? v_select(e, v_icmp(e, LLVMIntSLT, a, zero), v_i(e, dt, -1), nonzero) : nonzero;
    }
    LLVMValueRef zero = v_f(e, dt, 0), r = v_select(e, v_fcmp(e, LLVMRealOEQ, a, zero), zero, a);
    r = v_select(e, v_fcmp(e, LLVMRealOLT, a, zero), v_f(e, dt, -1), r);
    return v_select(e, v_fcmp(e, LLVMRealOGT, a, zero), v_f(e, dt, 1), r);
}

/* ---- comparisons ---- */

/* The predicate of a dtype's kind; bool compares as an unsigned bit. */
static LLVMValueRef compare(Emit *e, Dtype dt, LLVMRealPredicate f, LLVMIntPredicate i, LLVMIntPredicate u, LLVMValueRef a, LLVMValueRef b)
{
    return is_float(dt) ? v_fcmp(e, f, a, b) : v_icmp(e, is_signed(dt) ? i : u, a, b);
}

EMIT(equal) { return compare(e, dt, LLVMRealOEQ, LLVMIntEQ, LLVMIntEQ, a, b); }
EMIT(not_equal) { return compare(e, dt, LLVMRealUNE, LLVMIntNE, LLVMIntNE, a, b); }
EMIT(less) { return is_bool(dt) ? v_and(e, v_not(e, a), b) : compare(e, dt, LLVMRealOLT, LLVMIntSLT, LLVMIntULT, a, b); }
EMIT(less_equal) { return is_bool(dt) ? v_or(e, v_not(e, a), b) : compare(e, dt, LLVMRealOLE, LLVMIntSLE, LLVMIntULE, a, b); }

/* Floats: x where x is NaN or strictly beyond y, else y; the NaN of y is then y itself. */
static LLVMValueRef extreme(Emit *e, Dtype dt, LLVMRealPredicate beyond, LLVMIntPredicate i, LLVMIntPredicate u, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef take = compare(e, dt, beyond, i, u, a, b), r = v_select(e, take, a, b);
    return is_float(dt) ? v_select(e, v_isnan(e, a), a, r) : r;
}

EMIT(maximum) { return is_bool(dt) ? v_or(e, a, b) : extreme(e, dt, LLVMRealOGT, LLVMIntSGT, LLVMIntUGT, a, b); }
EMIT(minimum) { return is_bool(dt) ? v_and(e, a, b) : extreme(e, dt, LLVMRealOLT, LLVMIntSLT, LLVMIntULT, a, b); }

static LLVMValueRef extreme_known(Emit *e, LLVMRealPredicate beyond, LLVMValueRef a, LLVMValueRef b)
{
    return v_select(e, v_isnan(e, b), a, v_select(e, v_fcmp(e, beyond, a, b), a, b));
}

EMIT(fmax) { return is_float(dt) ? extreme_known(e, LLVMRealOGT, a, b) : emit_maximum(e, dt, a, b, c); }
EMIT(fmin) { return is_float(dt) ? extreme_known(e, LLVMRealOLT, a, b) : emit_minimum(e, dt, a, b, c); }
EMIT(isnan) { return v_isnan(e, a); }

EMIT(signbit)
{
    Dtype bits = v_bits_dtype(dt);
    return v_icmp(e, LLVMIntSLT, v_bitcast(e, a, bits), v_i(e, bits, 0));
}

EMIT(real) { return LLVMBuildExtractValue(e->b, a, 0, ""); }
EMIT(imag) { return LLVMBuildExtractValue(e->b, a, 1, ""); }
EMIT(complex_) { return v_pair(e, a, b); }
EMIT(where) { return v_select(e, a, b, c); }

/* ---- bits ---- */

EMIT(logical_and) { return v_and(e, a, b); }
EMIT(logical_or) { return v_or(e, a, b); }
EMIT(logical_xor) { return v_xor(e, a, b); }
EMIT(logical_not) { return v_not(e, a); }
EMIT(bitwise_and) { return v_and(e, a, b); }
EMIT(bitwise_or) { return v_or(e, a, b); }
EMIT(bitwise_xor) { return v_xor(e, a, b); }
EMIT(invert) { return v_not(e, a); }

/* A shift past the width is poison to LLVM, which a select may leave unchosen. */
EMIT(left_shift)
{
    LLVMValueRef inside = v_icmp(e, LLVMIntULT, b, v_i(e, dt, 8 * dtype_info[dt].bytes));
    return v_select(e, inside, v_shl_v(e, a, b), v_i(e, dt, 0));
}

EMIT(right_shift)
{
    int width = 8 * dtype_info[dt].bytes;
    LLVMValueRef inside = v_icmp(e, LLVMIntULT, b, v_i(e, dt, width));
    if (is_signed(dt)) return v_ashr_v(e, a, v_select(e, inside, b, v_i(e, dt, width - 1)));
    return v_select(e, inside, v_lshr_v(e, a, b), v_i(e, dt, 0));
}
