#include "gen/emit.h"

#include <stdio.h>
#include <string.h>
#include "gen/target.h"

/* ---- types and constants ---- */

LLVMTypeRef v_scalar_type(Emit *e, Dtype dt)
{
    const DtypeInfo *d = &dtype_info[dt];
    switch (d->kind) {
    case DKIND_BOOL: return LLVMInt1TypeInContext(e->ctx);
    case DKIND_INT:
    case DKIND_UINT: return LLVMIntTypeInContext(e->ctx, 8u * d->bytes);
    case DKIND_FLOAT:
        if (dt == DT_float64) return LLVMDoubleTypeInContext(e->ctx);
        if (dt == DT_float32) return LLVMFloatTypeInContext(e->ctx);
        return LLVMIntTypeInContext(e->ctx, 8u * d->bytes);
    case DKIND_COMPLEX: break;
    }
    err_set(e->err, ERR_UNSUPPORTED, "machine code for %s is not there yet: cast to float32 or float64", d->name);
    return LLVMFloatTypeInContext(e->ctx);
}

static LLVMTypeRef widen(Emit *e, LLVMTypeRef scalar) { return e->lanes ? LLVMVectorType(scalar, e->lanes) : scalar; }

LLVMTypeRef v_type(Emit *e, Dtype dt) { return widen(e, v_scalar_type(e, dt)); }

Dtype v_bits_dtype(Dtype dt)
{
    switch (dtype_info[dt].bytes) {
    case 1: return DT_int8;
    case 2: return DT_int16;
    case 4: return DT_int32;
    default: return DT_int64;
    }
}

LLVMValueRef v_pair(Emit *e, LLVMValueRef re, LLVMValueRef im)
{
    LLVMTypeRef part[2] = {LLVMTypeOf(re), LLVMTypeOf(im)}, pair = LLVMStructTypeInContext(e->ctx, part, 2, 0);
    LLVMValueRef first = LLVMBuildInsertValue(e->b, LLVMGetPoison(pair), re, 0, "");
    return LLVMBuildInsertValue(e->b, first, im, 1, "");
}

LLVMValueRef v_splat(Emit *e, LLVMValueRef scalar)
{
    if (!e->lanes) return scalar;
    if (LLVMGetTypeKind(LLVMTypeOf(scalar)) == LLVMStructTypeKind)
        return v_pair(e, v_splat(e, LLVMBuildExtractValue(e->b, scalar, 0, "")), v_splat(e, LLVMBuildExtractValue(e->b, scalar, 1, "")));
    if (LLVMIsConstant(scalar)) {
        LLVMValueRef all[256];
        unsigned n = e->lanes < 256 ? e->lanes : 256;
        for (unsigned i = 0; i < n; i++) all[i] = scalar;
        return LLVMConstVector(all, n);
    }
    LLVMTypeRef i32 = LLVMInt32TypeInContext(e->ctx), vector = LLVMVectorType(LLVMTypeOf(scalar), e->lanes);
    LLVMValueRef one = LLVMBuildInsertElement(e->b, LLVMGetPoison(vector), scalar, LLVMConstInt(i32, 0, 0), "");
    return LLVMBuildShuffleVector(e->b, one, LLVMGetPoison(vector), LLVMConstNull(LLVMVectorType(i32, e->lanes)), "");
}

LLVMValueRef v_f(Emit *e, Dtype dt, double x)
{
    return v_fbits(e, dt, (uint64_t)float_bits(dt, x));
}

LLVMValueRef v_fbits(Emit *e, Dtype dt, uint64_t bits)
{
    LLVMTypeRef type = v_scalar_type(e, dt);
    return v_splat(e, LLVMConstBitCast(LLVMConstInt(LLVMIntTypeInContext(e->ctx, 8u * dtype_info[dt].bytes), bits, 0), type));
}

LLVMValueRef v_i(Emit *e, Dtype dt, int64_t x)
{
    return v_splat(e, LLVMConstInt(v_scalar_type(e, dt), (uint64_t)x & (dtype_info[dt].kind == DKIND_BOOL ? 1u : UINT64_MAX), 1));
}

/* ---- floats ---- */

/* An intrinsic overloaded on the type of its first argument. */
static LLVMValueRef intrinsic(Emit *e, const char *name, LLVMValueRef *args, unsigned n)
{
    LLVMTypeRef type = LLVMTypeOf(args[0]);
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->mod, id, &type, 1);
    return LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, args, n, "");
}

static bool is_double(LLVMValueRef a)
{
    LLVMTypeRef t = LLVMTypeOf(a);
    return LLVMGetTypeKind(LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetElementType(t) : t) == LLVMDoubleTypeKind;
}

static Dtype float_of(LLVMValueRef a) { return is_double(a) ? DT_float64 : DT_float32; }

LLVMValueRef v_fadd(Emit *e, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildFAdd(e->b, a, b, ""); }
LLVMValueRef v_fsub(Emit *e, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildFSub(e->b, a, b, ""); }
LLVMValueRef v_fmul(Emit *e, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildFMul(e->b, a, b, ""); }
LLVMValueRef v_fdiv(Emit *e, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildFDiv(e->b, a, b, ""); }
LLVMValueRef v_fneg(Emit *e, LLVMValueRef a) { return LLVMBuildFNeg(e->b, a, ""); }
LLVMValueRef v_fabs(Emit *e, LLVMValueRef a) { return intrinsic(e, "llvm.fabs", &a, 1); }
LLVMValueRef v_sqrt(Emit *e, LLVMValueRef a) { return intrinsic(e, "llvm.sqrt", &a, 1); }

LLVMValueRef v_copysign(Emit *e, LLVMValueRef mag, LLVMValueRef sign)
{
    return intrinsic(e, "llvm.copysign", (LLVMValueRef[]){mag, sign}, 2);
}

/* s + *low == a + b exactly (Knuth). */
static LLVMValueRef two_sum(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef *low)
{
    LLVMValueRef s = v_fadd(e, a, b), bb = v_fsub(e, s, a);
    *low = v_fadd(e, v_fsub(e, a, v_fsub(e, s, bb)), v_fsub(e, b, bb));
    return s;
}

/* The sum s with error low, rounded to odd: a last bit that remembers low, so that a second rounding is right. */
static LLVMValueRef round_to_odd(Emit *e, LLVMValueRef s, LLVMValueRef low)
{
    LLVMValueRef bits = v_bitcast(e, s, DT_int64), zero = v_f(e, DT_float64, 0);
    LLVMValueRef even = v_icmp(e, LLVMIntEQ, v_and(e, bits, v_i(e, DT_int64, 1)), v_i(e, DT_int64, 0));
    LLVMValueRef away = v_icmp(e, LLVMIntEQ, v_xor(e, v_fcmp(e, LLVMRealOGT, low, zero), v_fcmp(e, LLVMRealOGT, s, zero)), v_i(e, DT_bool_, 0));
    LLVMValueRef moved = v_add(e, bits, v_select(e, away, v_i(e, DT_int64, 1), v_i(e, DT_int64, -1)));
    LLVMValueRef inexact = v_and(e, even, v_fcmp(e, LLVMRealONE, low, zero));
    return v_bitcast(e, v_select(e, inexact, moved, bits), DT_float64);
}

static LLVMValueRef soft_fma32(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    LLVMValueRef low, p = v_fmul(e, v_fpcast(e, a, DT_float64), v_fpcast(e, b, DT_float64));
    LLVMValueRef s = two_sum(e, p, v_fpcast(e, c, DT_float64), &low);
    return v_fpcast(e, round_to_odd(e, s, low), DT_float32);
}

static LLVMValueRef split_high(Emit *e, LLVMValueRef a)
{
    LLVMValueRef c = v_fmul(e, v_f(e, DT_float64, 134217729.0), a);
    return v_fsub(e, c, v_fsub(e, c, a));
}

/* Boldo and Melquiond, Emulation of FMA and correctly rounded sums, 2008, over Dekker's product. */
static LLVMValueRef soft_fma64(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    LLVMValueRef ah = split_high(e, a), al = v_fsub(e, a, ah), bh = split_high(e, b), bl = v_fsub(e, b, bh);
    LLVMValueRef uh = v_fmul(e, a, b), ul, tl, vl;
    ul = v_fadd(e, v_fsub(e, v_fmul(e, ah, bh), uh), v_fmul(e, ah, bl));
    ul = v_fadd(e, v_fadd(e, ul, v_fmul(e, al, bh)), v_fmul(e, al, bl));
    LLVMValueRef th = two_sum(e, c, ul, &tl), vh = two_sum(e, uh, th, &vl), zl;
    LLVMValueRef z = two_sum(e, tl, vl, &zl), exact = v_fadd(e, vh, round_to_odd(e, z, zl)), plain = v_fadd(e, uh, c);
    return v_select(e, v_fcmp(e, LLVMRealORD, exact, exact), exact, plain);
}

LLVMValueRef v_fma(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    if (!target_fma(e->level)) return is_double(a) ? soft_fma64(e, a, b, c) : soft_fma32(e, a, b, c);
    return intrinsic(e, "llvm.fma", (LLVMValueRef[]){a, b, c}, 3);
}

LLVMValueRef v_madd(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    return target_fma(e->level) ? v_fma(e, a, b, c) : v_fadd(e, v_fmul(e, a, b), c);
}

LLVMValueRef v_poly(Emit *e, Dtype dt, LLVMValueRef x, const double *c, int n)
{
    LLVMValueRef r = v_f(e, dt, c[n - 1]);
    for (int i = n - 2; i >= 0; i--) r = v_madd(e, r, x, v_f(e, dt, c[i]));
    return r;
}

/* x86-64-v1 has no rounding instruction and LLVM would call floorf: below 2^52 (2^23) adding and taking off that number rounds to
 * an integer, above everything is one. Makes +-1 corrections to get from the nearest integer to the wanted one. */
typedef enum { ROUND_RINT, ROUND_FLOOR, ROUND_CEIL, ROUND_TRUNC } Rounding;

static LLVMValueRef soft_round(Emit *e, LLVMValueRef a, Rounding way)
{
    Dtype dt = float_of(a);
    LLVMValueRef big = v_f(e, dt, dt == DT_float64 ? 0x1p52 : 0x1p23), one = v_f(e, dt, 1), mag = v_fabs(e, a);
    LLVMValueRef t = v_fsub(e, v_fadd(e, mag, big), big);
    if (way == ROUND_TRUNC) t = v_select(e, v_fcmp(e, LLVMRealOGT, t, mag), v_fsub(e, t, one), t);
    t = v_copysign(e, t, a);
    if (way == ROUND_FLOOR) t = v_select(e, v_fcmp(e, LLVMRealOGT, t, a), v_fsub(e, t, one), t);
    if (way == ROUND_CEIL) t = v_select(e, v_fcmp(e, LLVMRealOLT, t, a), v_fadd(e, t, one), t);
    return v_select(e, v_fcmp(e, LLVMRealOLT, mag, big), v_copysign(e, t, a), a);
}

static LLVMValueRef round_by(Emit *e, LLVMValueRef a, const char *name, Rounding way)
{
    return target_round(e->level) ? intrinsic(e, name, &a, 1) : soft_round(e, a, way);
}

LLVMValueRef v_rint(Emit *e, LLVMValueRef a) { return round_by(e, a, "llvm.rint", ROUND_RINT); }
LLVMValueRef v_floor(Emit *e, LLVMValueRef a) { return round_by(e, a, "llvm.floor", ROUND_FLOOR); }
LLVMValueRef v_ceil(Emit *e, LLVMValueRef a) { return round_by(e, a, "llvm.ceil", ROUND_CEIL); }
LLVMValueRef v_trunc(Emit *e, LLVMValueRef a) { return round_by(e, a, "llvm.trunc", ROUND_TRUNC); }

LLVMValueRef v_fcmp(Emit *e, LLVMRealPredicate p, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildFCmp(e->b, p, a, b, ""); }
LLVMValueRef v_isnan(Emit *e, LLVMValueRef a) { return v_fcmp(e, LLVMRealUNO, a, a); }
LLVMValueRef v_fmin_c(Emit *e, LLVMValueRef a, LLVMValueRef b) { return v_select(e, v_fcmp(e, LLVMRealOLT, a, b), a, b); }
LLVMValueRef v_fmax_c(Emit *e, LLVMValueRef a, LLVMValueRef b) { return v_select(e, v_fcmp(e, LLVMRealOGT, a, b), a, b); }

/* ---- integers and masks ---- */

static LLVMValueRef count(Emit *e, LLVMValueRef a, int n)
{
    (void)e;
    LLVMTypeRef t = LLVMTypeOf(a);
    if (LLVMGetTypeKind(t) != LLVMVectorTypeKind) return LLVMConstInt(t, (unsigned)n, 0);
    LLVMValueRef one = LLVMConstInt(LLVMGetElementType(t), (unsigned)n, 0), all[256];
    unsigned lanes = LLVMGetVectorSize(t) < 256 ? LLVMGetVectorSize(t) : 256;
    for (unsigned i = 0; i < lanes; i++) all[i] = one;
    return LLVMConstVector(all, lanes);
}

LLVMValueRef v_add(Emit *e, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildAdd(e->b, a, b, ""); }
LLVMValueRef v_sub(Emit *e, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildSub(e->b, a, b, ""); }
LLVMValueRef v_mul(Emit *e, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildMul(e->b, a, b, ""); }
LLVMValueRef v_and(Emit *e, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildAnd(e->b, a, b, ""); }
LLVMValueRef v_or(Emit *e, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildOr(e->b, a, b, ""); }
LLVMValueRef v_xor(Emit *e, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildXor(e->b, a, b, ""); }
LLVMValueRef v_not(Emit *e, LLVMValueRef a) { return LLVMBuildNot(e->b, a, ""); }
LLVMValueRef v_shl(Emit *e, LLVMValueRef a, int n) { return LLVMBuildShl(e->b, a, count(e, a, n), ""); }
LLVMValueRef v_lshr(Emit *e, LLVMValueRef a, int n) { return LLVMBuildLShr(e->b, a, count(e, a, n), ""); }
LLVMValueRef v_ashr(Emit *e, LLVMValueRef a, int n) { return LLVMBuildAShr(e->b, a, count(e, a, n), ""); }
LLVMValueRef v_shl_v(Emit *e, LLVMValueRef a, LLVMValueRef n) { return LLVMBuildShl(e->b, a, n, ""); }
LLVMValueRef v_lshr_v(Emit *e, LLVMValueRef a, LLVMValueRef n) { return LLVMBuildLShr(e->b, a, n, ""); }
LLVMValueRef v_ashr_v(Emit *e, LLVMValueRef a, LLVMValueRef n) { return LLVMBuildAShr(e->b, a, n, ""); }
LLVMValueRef v_icmp(Emit *e, LLVMIntPredicate p, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildICmp(e->b, p, a, b, ""); }
LLVMValueRef v_select(Emit *e, LLVMValueRef mask, LLVMValueRef yes, LLVMValueRef no) { return LLVMBuildSelect(e->b, mask, yes, no, ""); }

/* The mask as an integer, lane 0 in the lowest bit. */
static LLVMValueRef mask_bits(Emit *e, LLVMValueRef mask)
{
    return LLVMBuildBitCast(e->b, mask, LLVMIntTypeInContext(e->ctx, e->lanes), "");
}

LLVMValueRef v_any(Emit *e, LLVMValueRef mask)
{
    if (!e->lanes) return mask;
    LLVMValueRef bits = mask_bits(e, mask);
    return LLVMBuildICmp(e->b, LLVMIntNE, bits, LLVMConstNull(LLVMTypeOf(bits)), "");
}

LLVMValueRef v_first(Emit *e, LLVMValueRef mask)
{
    LLVMValueRef no_zero = LLVMConstInt(LLVMInt1TypeInContext(e->ctx), 1, 0);
    LLVMValueRef lane = intrinsic(e, "llvm.cttz", (LLVMValueRef[]){mask_bits(e, mask), no_zero}, 2);
    return LLVMBuildIntCast2(e->b, lane, LLVMInt64TypeInContext(e->ctx), 0, "");
}

LLVMValueRef v_count(Emit *e, LLVMValueRef mask)
{
    LLVMValueRef n = intrinsic(e, "llvm.ctpop", (LLVMValueRef[]){mask_bits(e, mask)}, 1);
    return LLVMBuildIntCast2(e->b, n, LLVMInt64TypeInContext(e->ctx), 0, "");
}

/* ---- between types ---- */

LLVMValueRef v_bitcast(Emit *e, LLVMValueRef a, Dtype to) { return LLVMBuildBitCast(e->b, a, v_type(e, to), ""); }
LLVMValueRef v_sitofp(Emit *e, LLVMValueRef a, Dtype to) { return LLVMBuildSIToFP(e->b, a, v_type(e, to), ""); }
LLVMValueRef v_uitofp(Emit *e, LLVMValueRef a, Dtype to) { return LLVMBuildUIToFP(e->b, a, v_type(e, to), ""); }
LLVMValueRef v_fptosi(Emit *e, LLVMValueRef a, Dtype to) { return LLVMBuildFPToSI(e->b, a, v_type(e, to), ""); }
LLVMValueRef v_fpcast(Emit *e, LLVMValueRef a, Dtype to) { return LLVMBuildFPCast(e->b, a, v_type(e, to), ""); }
LLVMValueRef v_sext(Emit *e, LLVMValueRef a, Dtype to) { return LLVMBuildIntCast2(e->b, a, v_type(e, to), 1, ""); }
LLVMValueRef v_zext(Emit *e, LLVMValueRef a, Dtype to) { return LLVMBuildIntCast2(e->b, a, v_type(e, to), 0, ""); }

/* ---- functions and rare cases ---- */

LLVMBasicBlockRef v_block(Emit *e, const char *name) { return LLVMAppendBasicBlockInContext(e->ctx, e->fn, name); }

typedef LLVMValueRef Filler(Emit *e, void *context, LLVMValueRef *params);

/* The internal function of that name, filled at its first use; types[0] is the result's. */
static LLVMValueRef function_once(Emit *e, const char *name, LLVMTypeRef *types, unsigned nparams, unsigned lanes, Filler *fill, void *context)
{
    LLVMValueRef fn = LLVMGetNamedFunction(e->mod, name);
    if (fn) return fn;
    fn = LLVMAddFunction(e->mod, name, LLVMFunctionType(types[0], types + 1, nparams, 0));
    LLVMSetLinkage(fn, LLVMInternalLinkage);
    target_attributes(e, fn);
    LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(e->ctx, LLVMGetEnumAttributeKindForName("noinline", 8), 0));
    LLVMBasicBlockRef home = LLVMGetInsertBlock(e->b);
    LLVMValueRef outer_fn = e->fn, params[4];
    unsigned outer_lanes = e->lanes;
    e->fn = fn;
    e->lanes = lanes;
    LLVMGetParams(fn, params);
    LLVMPositionBuilderAtEnd(e->b, v_block(e, ""));
    LLVMBuildRet(e->b, fill(e, context, params));
    e->fn = outer_fn;
    e->lanes = outer_lanes;
    LLVMPositionBuilderAtEnd(e->b, home);
    return fn;
}

typedef struct { BodyFn *body; const char *name; Dtype dt; unsigned nargs, lanes; } Callee;

static LLVMValueRef fill_body(Emit *e, void *context, LLVMValueRef *params)
{
    const Callee *c = context;
    return c->body(e, c->dt, params[0], c->nargs > 1 ? params[1] : NULL, c->nargs > 2 ? params[2] : NULL);
}

LLVMValueRef v_call(Emit *e, const char *name, BodyFn *body, Dtype dt, unsigned lanes, bool result_bool, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    char full[96];
    unsigned outer = e->lanes, nargs = c ? 3 : b ? 2 : 1;
    snprintf(full, sizeof full, "%s.%s.x%u", name, dtype_info[dt].code, lanes);
    e->lanes = lanes;
    LLVMTypeRef t = v_type(e, dt), types[4] = {result_bool ? v_type(e, DT_bool_) : t, t, t, t};
    e->lanes = outer;
    LLVMValueRef fn = function_once(e, full, types, nargs, lanes, fill_body, &(Callee){body, name, dt, nargs, lanes});
    return LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, (LLVMValueRef[]){a, b, c}, nargs, "");
}

static LLVMValueRef int_const(LLVMValueRef like, uint64_t x) { return LLVMConstInt(LLVMTypeOf(like), x, 0); }

/* params: mask bits, r, a, b. For each set bit: r[lane] = slow(a[lane], b[lane]). */
static LLVMValueRef fill_lane_loop(Emit *e, void *context, LLVMValueRef *params)
{
    const Callee *c = context;
    unsigned lanes = e->lanes;
    LLVMBasicBlockRef entry = LLVMGetInsertBlock(e->b), loop = v_block(e, ""), done = v_block(e, "");
    e->lanes = 0;
    LLVMBuildBr(e->b, loop);
    LLVMPositionBuilderAtEnd(e->b, loop);
    LLVMValueRef bits = LLVMBuildPhi(e->b, LLVMTypeOf(params[0]), ""), r = LLVMBuildPhi(e->b, LLVMTypeOf(params[1]), "");
    LLVMValueRef zero_defined = LLVMConstInt(LLVMInt1TypeInContext(e->ctx), 1, 0);
    LLVMValueRef lane = intrinsic(e, "llvm.cttz", (LLVMValueRef[]){bits, zero_defined}, 2);
    lane = LLVMBuildIntCast2(e->b, lane, LLVMInt32TypeInContext(e->ctx), 0, "");
    LLVMValueRef x = LLVMBuildExtractElement(e->b, params[2], lane, ""), y = c->nargs > 1 ? LLVMBuildExtractElement(e->b, params[3], lane, "") : NULL;
    LLVMValueRef z = v_call(e, c->name, c->body, c->dt, 0, false, x, y, NULL), next = LLVMBuildInsertElement(e->b, r, z, lane, "");
    LLVMValueRef rest = LLVMBuildAnd(e->b, bits, LLVMBuildSub(e->b, bits, int_const(bits, 1), ""), "");
    LLVMAddIncoming(bits, (LLVMValueRef[]){params[0], rest}, (LLVMBasicBlockRef[]){entry, loop}, 2);
    LLVMAddIncoming(r, (LLVMValueRef[]){params[1], next}, (LLVMBasicBlockRef[]){entry, loop}, 2);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntNE, rest, int_const(bits, 0), ""), loop, done);
    LLVMPositionBuilderAtEnd(e->b, done);
    e->lanes = lanes;
    return next;
}

static LLVMValueRef call_lanes(Emit *e, LLVMValueRef mask, LLVMValueRef r, const Callee *c, LLVMValueRef a, LLVMValueRef b)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s.lanes%u", c->name, dtype_info[c->dt].code, e->lanes);
    LLVMTypeRef t = v_type(e, c->dt), types[5] = {t, LLVMIntTypeInContext(e->ctx, e->lanes), t, t, t};
    LLVMValueRef bits = mask_bits(e, mask), fn = function_once(e, full, types, c->nargs + 2, e->lanes, fill_lane_loop, (void *)c);
    return LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, (LLVMValueRef[]){bits, r, a, b}, c->nargs + 2, "");
}

/* Marks a branch as rarely taken. */
static void unlikely(Emit *e, LLVMValueRef branch)
{
    LLVMTypeRef i32 = LLVMInt32TypeInContext(e->ctx);
    LLVMMetadataRef parts[3] = {LLVMMDStringInContext2(e->ctx, "branch_weights", 14), LLVMValueAsMetadata(LLVMConstInt(i32, 1, 0)),
                                LLVMValueAsMetadata(LLVMConstInt(i32, 2000, 0))};
    LLVMMetadataRef node = LLVMMDNodeInContext2(e->ctx, parts, 3);
    LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(e->ctx, "prof", 4), LLVMMetadataAsValue(e->ctx, node));
}

typedef LLVMValueRef SlowPath(Emit *e, LLVMValueRef mask, LLVMValueRef r, const Callee *c, LLVMValueRef a, LLVMValueRef b);

static LLVMValueRef branch_rare(Emit *e, LLVMValueRef mask, LLVMValueRef r, const Callee *c, LLVMValueRef a, LLVMValueRef b, SlowPath *path)
{
    LLVMBasicBlockRef rare = v_block(e, ""), done = v_block(e, "");
    LLVMValueRef any = v_any(e, mask);
    LLVMBasicBlockRef from = LLVMGetInsertBlock(e->b);
    unlikely(e, LLVMBuildCondBr(e->b, any, rare, done));
    LLVMPositionBuilderAtEnd(e->b, rare);
    LLVMValueRef slow = path(e, mask, r, c, a, b);
    rare = LLVMGetInsertBlock(e->b);
    LLVMBuildBr(e->b, done);
    LLVMPositionBuilderAtEnd(e->b, done);
    LLVMValueRef phi = LLVMBuildPhi(e->b, LLVMTypeOf(r), "");
    LLVMAddIncoming(phi, (LLVMValueRef[]){r, slow}, (LLVMBasicBlockRef[]){from, rare}, 2);
    return phi;
}

static LLVMValueRef slow_scalar(Emit *e, LLVMValueRef mask, LLVMValueRef r, const Callee *c, LLVMValueRef a, LLVMValueRef b)
{
    return e->lanes ? call_lanes(e, mask, r, c, a, b) : v_call(e, c->name, c->body, c->dt, 0, false, a, b, NULL);
}

static LLVMValueRef slow_wide(Emit *e, LLVMValueRef mask, LLVMValueRef r, const Callee *c, LLVMValueRef a, LLVMValueRef b)
{
    return v_select(e, mask, v_call(e, c->name, c->body, c->dt, e->lanes, false, a, b, NULL), r);
}

static LLVMValueRef slow_inline(Emit *e, LLVMValueRef mask, LLVMValueRef r, const Callee *c, LLVMValueRef a, LLVMValueRef b)
{
    (void)mask;
    return c->body(e, c->dt, r, a, b);
}

LLVMValueRef v_rare(Emit *e, LLVMValueRef mask, LLVMValueRef r, const char *name, BodyFn *slow, Dtype dt, LLVMValueRef a, LLVMValueRef b)
{
    return branch_rare(e, mask, r, &(Callee){slow, name, dt, b ? 2 : 1, e->lanes}, a, b, slow_scalar);
}

LLVMValueRef v_rare_wide(Emit *e, LLVMValueRef mask, LLVMValueRef r, const char *name, BodyFn *slow, Dtype dt, LLVMValueRef a, LLVMValueRef b)
{
    return branch_rare(e, mask, r, &(Callee){slow, name, dt, b ? 2 : 1, e->lanes}, a, b, slow_wide);
}

LLVMValueRef v_mend(Emit *e, LLVMValueRef mask, LLVMValueRef r, BodyFn *mend, Dtype dt, LLVMValueRef a, LLVMValueRef b)
{
    return branch_rare(e, mask, r, &(Callee){mend, "", dt, 2, e->lanes}, a, b, slow_inline);
}

/* ---- constant tables ---- */

LLVMValueRef v_table(Emit *e, const char *name, Dtype dt, const void *data, int n)
{
    LLVMValueRef global = LLVMGetNamedGlobal(e->mod, name);
    if (global) return global;
    LLVMTypeRef byte = LLVMInt8TypeInContext(e->ctx);
    size_t bytes = (size_t)n * dtype_info[dt].bytes;
    LLVMValueRef init = LLVMConstStringInContext2(e->ctx, data, bytes, 1);
    global = LLVMAddGlobal(e->mod, LLVMArrayType2(byte, bytes), name);
    LLVMSetInitializer(global, init);
    LLVMSetLinkage(global, LLVMInternalLinkage);
    LLVMSetGlobalConstant(global, 1);
    LLVMSetAlignment(global, 16);
    return global;
}

LLVMValueRef v_table_load(Emit *e, Dtype dt, LLVMValueRef table, LLVMValueRef index)
{
    LLVMTypeRef type = v_scalar_type(e, dt);
    LLVMValueRef at = LLVMBuildGEP2(e->b, type, table, &index, 1, ""), load = LLVMBuildLoad2(e->b, type, at, "");
    LLVMSetAlignment(load, dtype_info[dt].bytes);
    return load;
}
