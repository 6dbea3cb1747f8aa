/* exp, exp2, expm1: reduction to |r| <= ln 2 / 2, a polynomial, a power of two; with tables |r| <= ln 2 / 32. */
#include "gen/math.h"
#include "gen/target.h"
#include <math.h>

#define LOG2E 0x1.71547652b82fep0
#define LN2 0x1.62e42fefa39efp-1

/* e^r = 1 + r + r^2 (c[0] + c[1] r + ...) */
static const double exp_c32[] = {0x1.fffffap-2, 0x1.55549p-3, 0x1.555a22p-5, 0x1.123b04p-7, 0x1.695414p-10};
static const double exp_c64[] = {0x1.000000000000ap-1, 0x1.55555555554fep-3, 0x1.55555555506acp-5, 0x1.1111111126b2ep-7, 0x1.6c16c1847c94ap-10,
                                 0x1.a01a012ffa328p-13, 0x1.a019994c1314dp-16, 0x1.71df18b9a1705p-19, 0x1.28ae10fc9d5c5p-22, 0x1.ad937209c5351p-26};
/* e^r = 1 + r + r^2/2 + r^3 (c[0] + ...), for results near 0 */
static const double expm1_c32[] = {0x1.555554p-3, 0x1.5554fp-5, 0x1.111306p-7, 0x1.6d43c2p-10, 0x1.9e0de4p-13};
static const double expm1_c64[] = {0x1.5555555555559p-3, 0x1.555555555554dp-5, 0x1.111111110f655p-7, 0x1.6c16c16c1aafep-10, 0x1.a01a01b0036dap-13,
                                   0x1.a01a018e0f1dep-16, 0x1.71ddf80f866fep-19, 0x1.27e51339862e1p-22, 0x1.af5f2c470f861p-26, 0x1.1f1a36b55f5c7p-29};
/* 2^r = 1 + r (c[0] + ...) */
static const double exp2_c32[] = {0x1.62e43p-1, 0x1.ebfbd8p-3, 0x1.c6af76p-5, 0x1.3b30ap-7, 0x1.5f0b82p-10, 0x1.3fa206p-13};
static const double exp2_c64[] = {0x1.62e42fefa39efp-1, 0x1.ebfbdff82c58dp-3, 0x1.c6b08d704a182p-5, 0x1.3b2ab6fba53b8p-7, 0x1.5d87fe7888dffp-10, 0x1.430912f7013a2p-13,
                                  0x1.ffcbfcdb1c5bep-17, 0x1.62c027b683cf4p-20, 0x1.b52423226234p-24, 0x1.e4bbc00d2dff4p-28, 0x1.eafdc2f7ede2cp-32, 0x1.de49d61ddf4fbp-36};

/* The same for |r| <= ln 2 / 32, 2^r for |r| <= 1/32 */
static const double short_c32[] = {0x1.00022p-1, 0x1.555764p-3};
static const double short_c64[] = {0x1.0000000000005p-1, 0x1.555555548ebc4p-3, 0x1.555555545c578p-5, 0x1.11123b482d9fcp-7, 0x1.6c185fabc7718p-10};
/* ... with an error of 2^-58 of e^r - 1 */
static const double less_one_c64[] = {0x1.0000000000001p-1, 0x1.5555555555556p-3, 0x1.55555554e9305p-5, 0x1.11111110e100ap-7, 0x1.6c17ed6b7a752p-10, 0x1.a01b0c4a27193p-13};
static const double short2_c32[] = {0x1.62e43p-1, 0x1.ebfff4p-3, 0x1.c6b47p-5};
static const double short2_c64[] = {0x1.62e42fefa39fdp-1, 0x1.ebfbdff82c59dp-3, 0x1.c6b08d6e8a6acp-5, 0x1.3b2ab6fa97fe3p-7, 0x1.5d89be3a581e9p-10, 0x1.430a9948f492bp-13};

/* x = n ln 2 + r.hi + r.lo, |r.hi| <= 0.347, for |x| < 2^10 (float64), 2^7 (float32). */
typedef struct { Nearest n; Two r; } ExpParts;

static ExpParts exp_parts(Emit *e, Dtype dt, Value x)
{
    const Constant *ln2 = &math_ln2[row_of(dt)];
    Nearest n = nearest_product(e, dt, x, LOG2E);
    Value r1 = v_madd(e, n.n, v_f(e, dt, -ln2->hi), x);      /* exact */
    Value small = v_fmul(e, n.n, v_f(e, dt, ln2->lo));
    Value r = v_fsub(e, r1, small);
    return (ExpParts){n, {r, v_fsub(e, v_fsub(e, r1, r), small)}};
}

/* x within [low, high]; NaN stays. */
static Value clamp(Emit *e, Dtype dt, Value x, double low, double high)
{
    return v_fmin_c(e, v_f(e, dt, high), v_fmax_c(e, v_f(e, dt, low), x));
}

static Value clamp_exp(Emit *e, Dtype dt, Value x)
{
    return row_of(dt) ? clamp(e, dt, x, -750, 712) : clamp(e, dt, x, -105, 90);
}

/* The multiple of 1/16 nearest to x c, and as bits whose lowest four are its fraction. */
static Nearest nearest_16th(Emit *e, Dtype dt, Value x, double c)
{
    double magic = row_of(dt) ? 0x1.8p48 : 0x1.8p19;
    Value shifted = v_madd(e, x, v_f(e, dt, c), v_f(e, dt, magic));
    return (Nearest){v_fsub(e, shifted, v_f(e, dt, magic)), v_bitcast(e, shifted, v_bits_dtype(dt))};
}

/* 2^(n - down) (1 + p) for a multiple n of 1/16. */
static Value exp_by_table(Emit *e, Dtype dt, Nearest n, Value p, int down)
{
    const Table *table = &exp_table[row_of(dt)];
    Value head = table_lookup(e, dt, table->hi, n.bits), tail = table_lookup(e, dt, table->lo, n.bits);
    Value y = v_fadd(e, head, v_madd(e, head, p, tail));
    return x86_scalef(e, dt, y, down ? v_fsub(e, n.n, v_f(e, dt, down)) : n.n);
}

static Value exp_scaled_table(Emit *e, Dtype dt, Value x, Value low, int down)
{
    const Constant *ln2 = &math_ln2[row_of(dt)];
    Nearest n = nearest_16th(e, dt, x, LOG2E);
    Value r = v_madd(e, n.n, v_f(e, dt, -ln2->hi), x);                      /* exact */
    r = low ? v_fadd(e, r, v_madd(e, n.n, v_f(e, dt, -ln2->lo), low)) : v_madd(e, n.n, v_f(e, dt, -ln2->lo), r);
    Value q = row_of(dt) ? v_poly(e, dt, r, short_c64, 5) : v_poly(e, dt, r, short_c32, 2);
    return exp_by_table(e, dt, n, v_madd(e, v_fmul(e, r, r), q, r), down);
}

/* 1 + r + r^2 q, and where there is a low part, low e^r. */
static Value exp_series(Emit *e, Dtype dt, Two r, bool low)
{
    Value q = row_of(dt) ? poly_even_odd(e, dt, r.hi, exp_c64, 10) : v_poly(e, dt, r.hi, exp_c32, 5);
    Value one = v_f(e, dt, 1), rest = v_fmul(e, v_fmul(e, r.hi, r.hi), q);
    if (low)
        rest = v_fadd(e, rest, v_madd(e, r.lo, rest, v_fmul(e, r.lo, v_fadd(e, r.hi, one))));
    if (!row_of(dt))
        return v_fadd(e, one, v_fadd(e, r.hi, rest));
    Two sum = two_fast_sum(e, one, r.hi);               /* r + rest rounded by itself costs a quarter of a unit */
    return v_fadd(e, sum.hi, v_fadd(e, sum.lo, rest));
}

Value exp_scaled(Emit *e, Dtype dt, Value x, Value low, int down)
{
    x = clamp_exp(e, dt, x);
    if (has_tables(e))
        return exp_scaled_table(e, dt, x, low, down);
    ExpParts parts = exp_parts(e, dt, x);
    if (low)
        parts.r.lo = v_fadd(e, parts.r.lo, low);
    Value y = exp_series(e, dt, parts.r, low);
    if (down)
        parts.n = (Nearest){v_fsub(e, parts.n.n, v_f(e, dt, down)), v_sub(e, parts.n.bits, v_i(e, v_bits_dtype(dt), down))};
    return scale(e, dt, y, parts.n);
}

/* With A = 2^n: (A - 1) + A r + A (e^r - 1 - r), where A - 1 is exact, and greater than A r or 0. What rounding takes from r and from A r counts where these are all there is. */
Two exp_less_one(Emit *e, Value x)
{
    Dtype dt = DT_float64;
    const Table *table = &exp_table[1];
    const Constant *ln2 = &math_ln2[1];
    Nearest n = nearest_16th(e, dt, x, LOG2E);
    Value exact = v_madd(e, n.n, v_f(e, dt, -ln2->hi), x), r = v_madd(e, n.n, v_f(e, dt, -ln2->lo), exact);
    Value lost = v_madd(e, n.n, v_f(e, dt, -ln2->lo), v_fsub(e, exact, r));
    Value rest = v_madd(e, v_fmul(e, r, r), v_poly(e, dt, r, less_one_c64, 6), lost);
    Value A = x86_scalef(e, dt, table_lookup(e, dt, table->hi, n.bits), n.n), tail = x86_scalef(e, dt, table_lookup(e, dt, table->lo, n.bits), n.n);
    Two linear = two_product(e, A, r), sum = two_fast_sum(e, v_fsub(e, A, v_f(e, dt, 1)), linear.hi);
    return two_fast_sum(e, sum.hi, v_fadd(e, sum.lo, v_madd(e, A, rest, v_fadd(e, tail, linear.lo))));
}

LLVMValueRef emit_exp(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)b, (void)c;
    return is_narrow(e, dt) ? through_float64(e, emit_exp, a, NULL) : exp_scaled(e, dt, a, NULL, 0);
}

/* r ln 2 in two parts without fused operations: 26 bits of r times 25 of ln 2 are exact. */
static Two times_ln2(Emit *e, Value r)
{
    Dtype dt = DT_float64;
    double head = 0x1.62e42fp-1, tail = (LN2 - head) + 0x1.abc9e3b39803fp-56;
    Value magic = v_f(e, dt, 0x1.8p25), high = v_fsub(e, v_fadd(e, r, magic), magic), low = v_fsub(e, r, high);
    Value rest = v_fadd(e, v_fmul(e, r, v_f(e, dt, tail)), v_fmul(e, low, v_f(e, dt, head)));
    return two_fast_sum(e, v_fmul(e, high, v_f(e, dt, head)), rest);
}

LLVMValueRef emit_exp2(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)b, (void)c;
    if (is_narrow(e, dt))
        return through_float64(e, emit_exp2, a, NULL);
    bool wide = row_of(dt);
    Value x = wide ? clamp(e, dt, a, -1080, 1030) : clamp(e, dt, a, -152, 130);
    if (has_tables(e)) {
        Nearest n = nearest_16th(e, dt, x, 1);
        Value r = v_fsub(e, x, n.n);
        Value q = wide ? v_poly(e, dt, r, short2_c64, 6) : v_poly(e, dt, r, short2_c32, 3);
        return exp_by_table(e, dt, n, v_fmul(e, r, q), 0);
    }
    Nearest n = nearest(e, dt, x);
    Value r = v_fsub(e, x, n.n);
    if (wide && !target_fma(e->level))
        return scale(e, dt, exp_series(e, dt, times_ln2(e, r), true), n);
    Value one = v_f(e, dt, 1);
    if (!wide)
        return scale(e, dt, v_madd(e, r, v_poly(e, dt, r, exp2_c32, 6), one), n);
    Value first = v_f(e, dt, exp2_c64[0]), hi = v_madd(e, r, first, one), lo = v_madd(e, r, first, v_fsub(e, one, hi));   /* 1 + r c[0], exactly but for 2^-106 */
    Value q = poly_even_odd(e, dt, r, exp2_c64 + 1, 11);
    return scale(e, dt, v_fadd(e, hi, v_madd(e, v_fmul(e, r, r), q, lo)), n);
}

/* 2^n (1 + p) - 1 = 2 (s p + (s - 1/2)) with s = 2^(n-1), which does not overflow before the result; p in two parts. */
LLVMValueRef emit_expm1(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    (void)b, (void)c;
    if (is_narrow(e, dt))
        return through_float64(e, emit_expm1, a, NULL);
    bool wide = row_of(dt);
    ExpParts x = exp_parts(e, dt, wide ? clamp(e, dt, a, -50, 710) : clamp(e, dt, a, -25, 89));
    Value r = x.r.hi, half = v_f(e, dt, .5);
    Value q = wide ? v_poly(e, dt, r, expm1_c64, 10) : v_poly(e, dt, r, expm1_c32, 5);
    Value cube = v_fmul(e, v_fmul(e, r, r), r);
    Two p = two_fast_sum(e, r, v_fmul(e, v_fmul(e, r, half), r));
    p.lo = v_fadd(e, p.lo, v_madd(e, cube, q, x.r.lo));
    Dtype idt = v_bits_dtype(dt);
    Value s = power_of_two(e, dt, (Nearest){x.n.n, v_sub(e, x.n.bits, v_i(e, idt, 1))});
    Value less = v_fsub(e, s, half), lost = v_fsub(e, v_fsub(e, s, less), half);       /* 2^53 - 1/2 rounds */
    Two sum = two_fast_sum(e, less, v_fmul(e, s, p.hi));
    Value y = v_fadd(e, sum.hi, v_madd(e, s, p.lo, v_fadd(e, sum.lo, lost)));
    Value tiny = v_fcmp(e, LLVMRealOLT, v_fabs(e, a), v_f(e, dt, wide ? 0x1p-60 : 0x1p-30));
    return v_select(e, tiny, a, v_fmul(e, y, v_f(e, dt, 2)));     /* -0; s p may round a denormal */
}
