/* What the elementary functions (math_*.c) share: two-part numbers, exponents, the cores of exp and log.
 *
 * A function is written once for float32 and float64 in the emitter's terms, with a row of constants per dtype, and is right for
 * all arguments at every level. float32 without FMA (SSE2) is computed in float64: error terms would cost more there, and one
 * rounding at the end is better than either. On AVX-512 exp, the logarithms, tanh and power read tables of 16 entries held in registers;
 * scalars and narrow vectors are then lanes of a whole register, so that their bits are the same. Methods: reduction by Cody and Waite with short leading constants, so that n c is
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

Value is_zero(Emit *e, Dtype dt, Value x);
/* r, its sign changed where x's sign bit is set, and where the lowest bit of the integer `flip` is (NULL: nowhere). */
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
/* 2^n for a normal power; any n below 2^10 (2^7). */
Value power_of_two(Emit *e, Dtype dt, Nearest n);

/* x = m 2^k, m in [sqrt 1/2, sqrt 2), k integral, for finite x > 0, denormals included. */
typedef struct { Value m, k; } Mantissa;
Mantissa mantissa(Emit *e, Dtype dt, Value x);
/* The same with m in [1, 2). */
Mantissa mantissa_one(Emit *e, Dtype dt, Value x);

/* ---- exp (math_exp.c) ---- */
/* e^(x + low) / 2^down; low is tiny, NULL: 0. x is clamped to where the result is 0 or infinite anyway; NaN stays. */
Value exp_scaled(Emit *e, Dtype dt, Value x, Value low, int down);

/* e^x - 1 in two parts, float64, 0 <= x < 700, where there are tables; within an ulp also near 0. */
Two exp_less_one(Emit *e, Value x);

/* ---- log (math_log.c) ---- */
/* log(1 + x), all special cases but -0. */
Value log1p_value(Emit *e, Dtype dt, Value x);

/* u > 0 by tables: 2^k, the entry of u's mantissa and `inverse`, about 1 / u, of so few bits that u times it less 1 is exact but for u's own error.
 * log_reduced: log u from f = u inverse - 1, with log's special cases of u. */
typedef struct { Value u, k, index, inverse; } Reduced;
Reduced log_reduce(Emit *e, Dtype dt, Value u);
Value log_reduced(Emit *e, Dtype dt, Reduced r, Value f);

/* A constant in two parts; ln 2's first part has so few bits that its product with an exponent is exact. */
typedef struct { double hi, lo; } Constant;
extern const Constant math_ln2[2];

/* ---- tables in registers, AVX-512 only (math_table.c) ---- */
bool has_tables(const Emit *e);
/* hi + lo of a function at 16 points; hi of the logarithms has few bits, as ln 2's. */
typedef struct { double hi[16], lo[16]; } Table;
extern const double inverse_table[16];                    /* about 1/m by the top 4 bits of m in [1, 2); 1 in the first, 1/2 in the last */
extern const Table log_table[2], log2_table[2], log10_table[2];  /* of 1 / inverse_table; [row_of(dt)] */
extern const Table exp_table[2];                          /* 2^(i / 16) */
/* table[index & 15] */
Value table_lookup(Emit *e, Dtype dt, const double *table, Value index);
/* The same by the top 5 bits of m, of 6 bits each so that m times it less 1 is exact in float32; and minus log2 of them, hi of 15 bits behind the point. */
extern const double fine_inverse[32], fine_log2_hi[32], fine_log2_lo[32];
/* table[index & 31], float32 */
Value table_lookup32(Emit *e, const double *table, Value index);
/* y 2^floor(n), rounded once */
Value x86_scalef(Emit *e, Dtype dt, Value y, Value n);
/* floor(log2 |x|) and |x| / 2^that, the latter NaN of negative numbers or (abs) not; denormals too. */
Value x86_getexp(Emit *e, Dtype dt, Value x);
Value x86_getmant(Emit *e, Dtype dt, Value x);
Value x86_getmant_abs(Emit *e, Dtype dt, Value x);
/* About 1 / x: 14 bits. */
Value x86_inverse(Emit *e, Dtype dt, Value x);
/* a / b of float32, within an ulp, and NaN where b is 0 or infinite: the divider would take longer than all the rest of an inverse function. */
Value x86_quotient(Emit *e, Value a, Value b);
/* x rounded towards zero as int32, or float64 as int64; the least integer where it does not fit. */
Value x86_convert(Emit *e, Dtype dt, Value x, Dtype out);
/* y, or what `answers` says for x's class. Classes, four bits each from the lowest: quiet and signalling NaN, 0, 1, -inf, inf, below 0, above 0;
 * answers: 0 keeps y, 1 is x, 2 the NaN, 3 a NaN, 4 -inf, 5 inf. */
typedef enum { ANSWERS_LOG = 0x03530422, ANSWERS_POWER_ABS = 0x00550422, ANSWERS_CBRT = 0x00540122 } Answers;
Value x86_fixup(Emit *e, Dtype dt, Value y, Value x, Answers answers);
