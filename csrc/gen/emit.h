/* The emitter: LLVM instructions for values of any dtype, as scalars or as vectors.
 *
 * A value is one LLVMValueRef. Inside a vector FOR it is a vector of e->lanes elements (wider than the machine's: LLVM splits it, that
 * is how two chains are interleaved); where e->lanes is 0 it is a scalar. A bool is i1 in registers and i8 in memory; a complex
 * number is a first-class struct of two such values, made by emit_complex_ and by loads. Signedness is the dtype's, not LLVM's. All operands of a v_ function
 * are scalars or all are vectors of e->lanes; nothing below looks at memory. No fast-math flags, no contraction, ever; a v_
 * function makes only instructions that select on every level, never a library call.
 *
 * emit_<id> (EmitFn) is the meaning of the ELEMENTWISE row <id> of ops.def; cheap ones live in elementwise.c, divide.c, fma.c and
 * cast.c, elementary functions in math_*.c. A lane's result must not depend on other lanes.
 *
 * An Emit lives on the stack of one compile; all it makes belongs to e->mod. The first error sticks in e->err. */
#pragma once
#include <llvm-c/Core.h>
#include "base/cpu.h"
#include "ir/ir.h"

typedef struct Emit {
    LLVMContextRef ctx;
    LLVMModuleRef mod;
    LLVMBuilderRef b;
    LLVMValueRef fn;               /* the function being filled */
    CpuLevel level;
    unsigned lanes;                /* of the values being made; 0: scalars */
    Dtype out;                     /* result dtype of the op being emitted: emit_cast reads it */
    uint16_t uses[OP_COUNT];       /* how often the kernel uses each op: often used MATH ops become functions */
    Err *err;
} Emit;

/* dt: the dtype of the inputs (of b and c for where). Inputs that the op does not have are NULL. */
typedef LLVMValueRef EmitFn(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);
#define OP(id, kind, nin, result, dtypes, doc)
#define ELEMENTWISE(id, nin, result, dtypes, cost, ulp32, ulp64, domain, doc) EmitFn emit_##id;
#include "ir/ops.def"

/* Whether there is an emit_<id> for it: it is an elementwise row. */
bool emit_knows(int op);
/* An op by number, through the table; MATH ops that the kernel uses more than 10 times become calls of one function. */
LLVMValueRef emit_op(Emit *e, Op op, Dtype in, Dtype out, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);

/* ---- types and constants ---- */
LLVMTypeRef v_scalar_type(Emit *e, Dtype dt);                    /* of a register: i1 for bool */
LLVMTypeRef v_type(Emit *e, Dtype dt);                           /* the same, a vector where e->lanes > 0 */
Dtype v_bits_dtype(Dtype dt);                                    /* the signed integer of the same size: float32 -> int32 */
LLVMValueRef v_f(Emit *e, Dtype dt, double x);                   /* float constant in all lanes, rounded to dt; use C99 hex literals */
LLVMValueRef v_fbits(Emit *e, Dtype dt, uint64_t bits);          /* float constant by its bits */
LLVMValueRef v_i(Emit *e, Dtype dt, int64_t x);                  /* integer (or bool) constant in all lanes */
LLVMValueRef v_pair(Emit *e, LLVMValueRef re, LLVMValueRef im);   /* a complex value */
LLVMValueRef v_splat(Emit *e, LLVMValueRef scalar);              /* a scalar in all lanes (itself where lanes is 0) */

/* ---- floats of 8 and 16 bits (minifloat.c), in registers integers of their size ---- */
LLVMValueRef v_from_small(Emit *e, Dtype dt, LLVMValueRef x);    /* to float32 */
LLVMValueRef v_to_small(Emit *e, Dtype dt, LLVMValueRef x);      /* float32, to nearest even */
LLVMValueRef v_to_odd(Emit *e, LLVMValueRef x);                  /* float64 to the float32 that v_to_small rounds as float64 */

/* ---- floats ---- */
LLVMValueRef v_fadd(Emit *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef v_fsub(Emit *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef v_fmul(Emit *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef v_fdiv(Emit *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef v_fneg(Emit *e, LLVMValueRef a);
LLVMValueRef v_fabs(Emit *e, LLVMValueRef a);
LLVMValueRef v_sqrt(Emit *e, LLVMValueRef a);
LLVMValueRef v_copysign(Emit *e, LLVMValueRef mag, LLVMValueRef sign);
/* a * b + c rounded once at every level (software where there is no instruction; there exact while a b and a b's error neither
 * overflow nor underflow, which is what error terms need). */
LLVMValueRef v_fma(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);
/* a * b + c for polynomials: fused where the machine can, else rounded twice. */
LLVMValueRef v_madd(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);
/* Horner: c[0] + x (c[1] + x (c[2] + ...)) by v_madd, coefficients rounded to dt. */
LLVMValueRef v_poly(Emit *e, Dtype dt, LLVMValueRef x, const double *c, int n);
LLVMValueRef v_rint(Emit *e, LLVMValueRef a);                    /* ties to even; right for all values at every level */
LLVMValueRef v_floor(Emit *e, LLVMValueRef a);
LLVMValueRef v_ceil(Emit *e, LLVMValueRef a);
LLVMValueRef v_trunc(Emit *e, LLVMValueRef a);
LLVMValueRef v_fcmp(Emit *e, LLVMRealPredicate p, LLVMValueRef a, LLVMValueRef b);     /* LLVMRealOLT ... ; a mask (bool value) */
LLVMValueRef v_isnan(Emit *e, LLVMValueRef a);
/* One instruction each on x86: a < b ? a : b, so that the result is b if either is NaN. */
LLVMValueRef v_fmin_c(Emit *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef v_fmax_c(Emit *e, LLVMValueRef a, LLVMValueRef b);

/* ---- integers and masks ---- */
LLVMValueRef v_add(Emit *e, LLVMValueRef a, LLVMValueRef b);     /* wraps */
LLVMValueRef v_sub(Emit *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef v_mul(Emit *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef v_and(Emit *e, LLVMValueRef a, LLVMValueRef b);     /* masks too */
LLVMValueRef v_or(Emit *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef v_xor(Emit *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef v_not(Emit *e, LLVMValueRef a);
LLVMValueRef v_shl(Emit *e, LLVMValueRef a, int n);              /* 0 <= n < width */
LLVMValueRef v_lshr(Emit *e, LLVMValueRef a, int n);
LLVMValueRef v_ashr(Emit *e, LLVMValueRef a, int n);
LLVMValueRef v_shl_v(Emit *e, LLVMValueRef a, LLVMValueRef n);   /* n in range in every lane */
LLVMValueRef v_lshr_v(Emit *e, LLVMValueRef a, LLVMValueRef n);
LLVMValueRef v_ashr_v(Emit *e, LLVMValueRef a, LLVMValueRef n);
LLVMValueRef v_icmp(Emit *e, LLVMIntPredicate p, LLVMValueRef a, LLVMValueRef b);      /* LLVMIntEQ, LLVMIntSLT, LLVMIntULT ... */
LLVMValueRef v_select(Emit *e, LLVMValueRef mask, LLVMValueRef yes, LLVMValueRef no);
LLVMValueRef v_any(Emit *e, LLVMValueRef mask);                  /* a scalar i1: some lane is set */
LLVMValueRef v_count(Emit *e, LLVMValueRef mask);                /* how many lanes are set, as int64 */
LLVMValueRef v_first(Emit *e, LLVMValueRef mask);                /* the number of the first lane that is set, as int64; some lane is */

/* ---- between types; `to` names the result's dtype ---- */
LLVMValueRef v_bitcast(Emit *e, LLVMValueRef a, Dtype to);       /* same size */
LLVMValueRef v_sitofp(Emit *e, LLVMValueRef a, Dtype to);
LLVMValueRef v_uitofp(Emit *e, LLVMValueRef a, Dtype to);
LLVMValueRef v_fptosi(Emit *e, LLVMValueRef a, Dtype to);        /* towards zero; undefined out of range: clamp or select first */
LLVMValueRef v_fpcast(Emit *e, LLVMValueRef a, Dtype to);        /* float32 <-> float64 */
LLVMValueRef v_sext(Emit *e, LLVMValueRef a, Dtype to);          /* to wider, equal or narrower: keeps or repeats the sign */
LLVMValueRef v_zext(Emit *e, LLVMValueRef a, Dtype to);          /* masks too */

/* ---- functions and rare cases ---- */
/* Fills a function: e->fn is it, the builder stands in its entry, e->lanes is as asked; returns the result. */
typedef LLVMValueRef BodyFn(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);
/* Calls the internal function `name`.<dtype>x<lanes> of the module, made by `body` at its first use (never inlined). Arguments and
 * result are of dtype dt (result_bool: bool) with `lanes` lanes; b and c may be NULL. */
LLVMValueRef v_call(Emit *e, const char *name, BodyFn *body, Dtype dt, unsigned lanes, bool result_bool, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);
/* r, but slow(a, b) in the lanes of mask: one branch that is rarely taken, then a loop over the set lanes that calls a scalar
 * function `name` filled once by `slow` with e->lanes == 0. `dt` of r, a, b; b may be NULL. */
LLVMValueRef v_rare(Emit *e, LLVMValueRef mask, LLVMValueRef r, const char *name, BodyFn *slow, Dtype dt, LLVMValueRef a, LLVMValueRef b);
/* The same with a slow path on whole vectors: body gets all lanes, the mask's are kept. */
LLVMValueRef v_rare_wide(Emit *e, LLVMValueRef mask, LLVMValueRef r, const char *name, BodyFn *slow, Dtype dt, LLVMValueRef a, LLVMValueRef b);
/* r, or mend(r, a, b) if some lane is in the mask: on all lanes, in the rare branch itself. */
LLVMValueRef v_mend(Emit *e, LLVMValueRef mask, LLVMValueRef r, BodyFn *mend, Dtype dt, LLVMValueRef a, LLVMValueRef b);

/* A new block of e->fn; the builder does not move. */
LLVMBasicBlockRef v_block(Emit *e, const char *name);

/* ---- constant tables ---- */
/* A constant array in .rodata, made once per name; scalar code reads it by v_table_load (index: any scalar integer in range). */
LLVMValueRef v_table(Emit *e, const char *name, Dtype dt, const void *data, int n);
LLVMValueRef v_table_load(Emit *e, Dtype dt, LLVMValueRef table, LLVMValueRef index);
