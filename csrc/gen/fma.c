/* The op fma: x y + z rounded once, for all values at every level.
 *
 * Without an instruction float64 goes lane by lane through a function that adds the integer mantissas, 320 bits wide, and rounds once, to
 * nearest, ties to even: v_fma is exact only while nothing leaves the range of normal numbers. float32 needs none of it: its products
 * are exact in float64, which has range to spare. */
#include "gen/emit.h"
#include "gen/target.h"

enum { WIDE = 320, REACH = 200 };      /* bits; a distance between exponents that leaves the smaller number a sticky bit */

typedef struct { LLVMValueRef mantissa, exponent, negative; } Parts;    /* mantissa 2^exponent, 53 bits as i320; exponent as i64 */

static LLVMTypeRef wide_type(Emit *e) { return LLVMIntTypeInContext(e->ctx, WIDE); }
static LLVMValueRef word(Emit *e, int64_t x) { return v_i(e, DT_int64, x); }
static LLVMValueRef least(Emit *e, LLVMValueRef a, LLVMValueRef b) { return v_select(e, v_icmp(e, LLVMIntSLT, a, b), a, b); }
static LLVMValueRef most(Emit *e, LLVMValueRef a, LLVMValueRef b) { return v_select(e, v_icmp(e, LLVMIntSGT, a, b), a, b); }
static LLVMValueRef widen(Emit *e, LLVMValueRef x) { return LLVMBuildZExt(e->b, x, wide_type(e), ""); }

static Parts take_apart(Emit *e, LLVMValueRef x)
{
    LLVMValueRef bits = v_bitcast(e, x, DT_int64), all = v_and(e, bits, word(e, INT64_MAX)), exponent = v_lshr(e, all, 52);
    LLVMValueRef normal = v_icmp(e, LLVMIntNE, exponent, word(e, 0)), fraction = v_and(e, all, word(e, (INT64_C(1) << 52) - 1));
    LLVMValueRef mantissa = v_select(e, normal, v_or(e, fraction, word(e, INT64_C(1) << 52)), fraction);
    LLVMValueRef power = v_sub(e, v_select(e, normal, exponent, word(e, 1)), word(e, 1075));
    return (Parts){widen(e, mantissa), power, v_icmp(e, LLVMIntSLT, bits, word(e, 0))};
}

/* s 2^power for s < 2^WIDE, rounded: to 53 bits, or to a multiple of the least denormal. */
static LLVMValueRef round_wide(Emit *e, LLVMValueRef s, LLVMValueRef power)
{
    LLVMTypeRef wide = wide_type(e);
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->mod, LLVMLookupIntrinsicID("llvm.ctlz", 9), &wide, 1);
    LLVMValueRef zeros = LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, (LLVMValueRef[]){s, v_i(e, DT_bool_, 0)}, 2, "");
    LLVMValueRef length = v_sub(e, word(e, WIDE), LLVMBuildTrunc(e->b, zeros, v_type(e, DT_int64), ""));
    LLVMValueRef cut = most(e, v_sub(e, length, word(e, 53)), v_sub(e, word(e, -1074), power));
    cut = most(e, least(e, cut, word(e, WIDE - 8)), word(e, 0));
    LLVMValueRef by = widen(e, cut), one = LLVMConstInt(wide, 1, 0), q = LLVMBuildLShr(e->b, s, by, ""), unit = LLVMBuildShl(e->b, one, by, "");
    LLVMValueRef rest = LLVMBuildSub(e->b, s, LLVMBuildShl(e->b, q, by, ""), ""), half = LLVMBuildLShr(e->b, unit, one, "");
    LLVMValueRef above = v_icmp(e, LLVMIntUGT, rest, half), tie = v_and(e, v_icmp(e, LLVMIntEQ, rest, half), v_icmp(e, LLVMIntNE, rest, LLVMConstNull(wide)));
    LLVMValueRef whole = LLVMBuildTrunc(e->b, q, v_type(e, DT_int64), ""), odd = v_icmp(e, LLVMIntNE, v_and(e, whole, word(e, 1)), word(e, 0));
    LLVMValueRef up = v_or(e, above, v_and(e, tie, odd));
    LLVMValueRef r = v_sitofp(e, v_add(e, whole, v_zext(e, up, DT_int64)), DT_float64);
    /* By a power of two, in two normal factors: exact, or infinite. */
    LLVMValueRef n = most(e, least(e, v_add(e, power, cut), word(e, 1030)), word(e, -1074)), first = v_ashr(e, n, 1);
    LLVMValueRef f1 = v_bitcast(e, v_shl(e, v_add(e, first, word(e, 1023)), 52), DT_float64);
    LLVMValueRef f2 = v_bitcast(e, v_shl(e, v_add(e, v_sub(e, n, first), word(e, 1023)), 52), DT_float64);
    return v_fmul(e, v_fmul(e, r, f1), f2);
}

static LLVMValueRef fma_slow(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    LLVMBuilderRef ir = e->b;
    LLVMValueRef inf = v_f(e, dt, __builtin_inf()), plain = v_fadd(e, v_fmul(e, a, b), c);
    Parts x = take_apart(e, a), y = take_apart(e, b), z = take_apart(e, c);
    LLVMValueRef product = LLVMBuildMul(ir, x.mantissa, y.mantissa, ""), power = v_add(e, x.exponent, y.exponent);
    LLVMValueRef none = LLVMConstNull(wide_type(e)), no_product = v_icmp(e, LLVMIntEQ, product, none), no_c = v_icmp(e, LLVMIntEQ, z.mantissa, none);
    LLVMValueRef distance = v_sub(e, z.exponent, power), limit = word(e, REACH);
    distance = v_select(e, v_or(e, no_product, no_c), word(e, 0), distance);
    LLVMValueRef left = most(e, least(e, distance, limit), word(e, 0)), right = most(e, least(e, v_sub(e, word(e, 0), distance), limit), word(e, 0));
    /* The power of the lowest bit: the lower of both, or REACH below the higher. */
    LLVMValueRef high = most(e, power, z.exponent), low = least(e, power, z.exponent);
    LLVMValueRef base = v_select(e, no_product, z.exponent, v_select(e, no_c, power, most(e, low, v_sub(e, high, limit))));
    LLVMValueRef p = LLVMBuildShl(ir, product, widen(e, right), ""), q = LLVMBuildShl(ir, z.mantissa, widen(e, left), "");
    LLVMValueRef minus = v_xor(e, x.negative, y.negative), signed_p = v_select(e, minus, LLVMBuildNeg(ir, p, ""), p);
    LLVMValueRef sum = LLVMBuildAdd(ir, signed_p, v_select(e, z.negative, LLVMBuildNeg(ir, q, ""), q), "");
    LLVMValueRef below = v_icmp(e, LLVMIntSLT, sum, none), r = round_wide(e, v_select(e, below, LLVMBuildNeg(ir, sum, ""), sum), base);
    r = v_select(e, below, v_fneg(e, r), r);
    LLVMValueRef factors = v_and(e, v_fcmp(e, LLVMRealOLT, v_fabs(e, a), inf), v_fcmp(e, LLVMRealOLT, v_fabs(e, b), inf));
    LLVMValueRef finite = v_fcmp(e, LLVMRealOLT, v_fabs(e, c), inf);
    r = v_select(e, v_icmp(e, LLVMIntNE, sum, none), r, plain);
    /* A product that is finite, but too great for a float, must not meet an infinite c. */
    return v_select(e, factors, v_select(e, finite, r, c), plain);
}

static LLVMValueRef fma_lanes(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    unsigned lanes = e->lanes;
    if (!lanes) return v_call(e, "fma_slow", fma_slow, dt, 0, false, a, b, c);
    LLVMValueRef r = LLVMGetPoison(LLVMTypeOf(a));
    for (unsigned i = 0; i < lanes; i++) {
        LLVMValueRef at = LLVMConstInt(LLVMInt32TypeInContext(e->ctx), i, 0);
        LLVMValueRef x = LLVMBuildExtractElement(e->b, a, at, ""), y = LLVMBuildExtractElement(e->b, b, at, ""), z = LLVMBuildExtractElement(e->b, c, at, "");
        r = LLVMBuildInsertElement(e->b, r, v_call(e, "fma_slow", fma_slow, dt, 0, false, x, y, z), at, "");
    }
    return r;
}

LLVMValueRef emit_fma(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    if (target_fma(e->level) || dt == DT_float32) return v_fma(e, a, b, c);
    return v_call(e, "fma_software", fma_lanes, dt, e->lanes, false, a, b, c);
}
