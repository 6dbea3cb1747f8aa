/* What the elementary functions (math_*.c) share: two-part numbers, exponents, the cores of exp and log.
 *
 * A function is written once for float32 and float64 in the emitter's terms, with a row of constants per dtype, and is right for
 * all arguments at every level. float32 without FMA (SSE2) is computed in float64: error terms would cost more there, and one
 * rounding at the end is better than either. Methods: reduction by Cody and Waite with short leading constants, so that n c is
 * exact without FMA too; minimax polynomials of our own; error-free sums and products (Dekker, Knuth) where a bit is needed.
 *
 * Special values are selects, so there is no branch, but for huge arguments of sin, cos and tan. A clamp is written with the
 * constant as the first operand of v_fmin_c and v_fmax_c: so NaN passes. */
#pragma once
#include "gen/emit.h"

typedef LLVMValueRef Value;

/* A number in two parts: hi + lo, |lo| of the order of hi's rounding error. */
typedef struct { Value hi, lo; } Two;
Two two_fast_sum(Emit *e, Value a, Value b);      /* exact if |a| >= |b| or a == 0 */
Two two_product(Emit *e, Value a, Value b);       /* exact unless it over- or underflows */
Two two_mul(Emit *e, Two a, Two b);               /* to twice the precision, almost */
/* a / b to twice the precision; both finite, b not 0 and far from the ends of the exponents. */
Two two_divide(Emit *e, Dtype dt, Two a, Two b);

/* The rows of constants: [0] float32, [1] float64. */
static inline int row_of(Dtype dt) { return dt == DT_float64; }
/* Whether a function of this dtype is computed in float64 here, and that computation: fn in float64, rounded. */
static inline bool is_narrow(const Emit *e, Dtype dt) { return dt == DT_float32 && e->level == CPU_SSE2; }
Value through_float64(Emit *e, EmitFn *fn, Value a, Value b);

/* yes where x is NaN too: !(x < limit). */
Value not_less(Emit *e, Value x, Value limit);
Value is_zero(Emit *e, Dtype dt, Value x);
/* All bits but the sign of r, and the sign of x changed by the lowest bit of the integer `flip` (NULL: no change). */
Value with_sign(Emit *e, Dtype dt, Value r, Value x, Value flip);
/* c[0] + x (c[1] + ...) in two interleaved halves: a shorter chain than v_poly. Not for alternating series near |x| = 1. */
Value poly_even_odd(Emit *e, Dtype dt, Value x, const double *c, int n);

/* n = rint(x) for |x| < 2^21 (float32), 2^50 (float64): as a float, and as `bits` whose low bits are n in two's complement. */
typedef struct { Value n, bits; } Nearest;
Nearest nearest(Emit *e, Dtype dt, Value x);
/* The same of x c. */
Nearest nearest_product(Emit *e, Dtype dt, Value x, double c);
/* y 2^n, rounded once even if it overflows or is denormal; y in [1/4, 4), |n| < 2^7 + 100 (float32), 2^10 + 1000. */
Value scale(Emit *e, Dtype dt, Value y, Nearest n);
/* 2^n for a normal power. */
Value power_of_two(Emit *e, Dtype dt, Nearest n);

/* x = m 2^k, m in [sqrt 1/2, sqrt 2), k integral, for finite x > 0, denormals included. */
typedef struct { Value m, k; } Mantissa;
Mantissa mantissa(Emit *e, Dtype dt, Value x);
/* x's bits of m and k moved so that m is in [1, 2). */
Mantissa mantissa_one(Emit *e, Dtype dt, Value x);

/* exp's reduction: x = n ln 2 + r.hi + r.lo, |r.hi| <= 0.347, for |x| < 2^10 (float64), 2^7 (float32). */
typedef struct { Nearest n; Two r; } ExpParts;
ExpParts exp_parts(Emit *e, Dtype dt, Value x);
/* e^r - 1 - r for the reduced r (hi part only), error 2^-57 (float32: 2^-28) of e^r. */
Value exp_rest(Emit *e, Dtype dt, Value r);
/* e^x / 2^down without special cases but for NaN; x is clamped to where the result is 0 or infinite anyway. */
Value exp_scaled(Emit *e, Dtype dt, Value x, int down);

/* log(m) = f + log_rest, f = m - 1 in [sqrt 1/2 - 1, sqrt 2 - 1]; |log_rest| <= 0.09. */
Value log_rest(Emit *e, Dtype dt, Value f);
/* k ln 2 + log(1 + f), one rounding and a little. */
Value log_sum(Emit *e, Dtype dt, Value k, Value f);
/* log(1 + x) without special cases: -1 < x, finite. */
Value log1p_finite(Emit *e, Dtype dt, Value x);
/* y for 0 < x < inf, else log's special values: -inf at 0, NaN below, inf at inf. */
Value log_special(Emit *e, Dtype dt, Value y, Value x);

/* n ln 2 to 2^-97 in two constants whose first has few bits. */
typedef struct { double hi, lo; } Constant;
extern const Constant math_ln2[2];
