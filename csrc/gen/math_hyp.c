/* sinh, cosh, tanh and their inverses. */
#include "gen/math.h"
#include <math.h>

/* tanh x = x + x^3 P(x^2) below TANH_SMALL, sinh x likewise below 1 */
static const double tanh_c32[] = {-0x1.555554p-2, 0x1.111076p-3, -0x1.b9f04ep-5, 0x1.6394c4p-6, -0x1.0c01f4p-7, 0x1.18b51ap-9};
static const double tanh_c64[] = {-0x1.555555555549ep-2, 0x1.11111111029b4p-3, -0x1.ba1ba1ad73a21p-5, 0x1.664f45c32bf76p-6, -0x1.226ddd4f25787p-7,
                                  0x1.d6c61e7937c02p-9, -0x1.7cf3c45287cdap-10, 0x1.2fa2accbc0b05p-11, -0x1.b90a8e58c5d62p-13, 0x1.ac0323b7cb17p-15};
static const double tanh_small[2] = {.6, .55};
static const double sinh_c32[] = {0x1.555556p-3, 0x1.1110eap-7, 0x1.a01c22p-13, 0x1.76771ep-19};
static const double sinh_c64[] = {0x1.5555555555556p-3, 0x1.111111111104p-7, 0x1.a01a01a0318d8p-13, 0x1.71de3a40565e2p-19, 0x1.ae646b4d5f194p-26, 0x1.6118df717736cp-33, 0x1.b52ebddfb4a56p-41};

/* x + x^3 c(x^2) */
static Value odd_poly(Emit *e, Dtype dt, Value x, const double *c, int n) {
    Value square = v_fmul(e, x, x);
    return v_madd(e, v_fmul(e, x, square), v_poly(e, dt, square, c, n), x);
}

/* e^x/2 = h, so e^-x/2 = 1/(4 h); no overflow before the result's. */
LLVMValueRef emit_sinh(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
    (void)b, (void)c;
    if (is_narrow(e, dt))
        return through_float64(e, emit_sinh, a, NULL);
    Value x = v_fabs(e, a);
    Value h = exp_scaled(e, dt, x, NULL, 1);
    Value y = v_fsub(e, h, v_fdiv(e, v_f(e, dt, .25), h));
    Value near = row_of(dt) ? odd_poly(e, dt, x, sinh_c64, 7) : odd_poly(e, dt, x, sinh_c32, 4);
    y = v_select(e, v_fcmp(e, LLVMRealOLT, x, v_f(e, dt, 1)), near, y);
    return v_copysign(e, y, a);
}

LLVMValueRef emit_cosh(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
    (void)b, (void)c;
    if (is_narrow(e, dt))
        return through_float64(e, emit_cosh, a, NULL);
    Value h = exp_scaled(e, dt, v_fabs(e, a), NULL, 1);
    return v_fadd(e, h, v_fdiv(e, v_f(e, dt, .25), h));
}

/* 1 - 2 / (e^2x + 1), which is 1 long before e^2x overflows. */
LLVMValueRef emit_tanh(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
    (void)b, (void)c;
    if (is_narrow(e, dt))
        return through_float64(e, emit_tanh, a, NULL);
    Value x = v_fabs(e, a), one = v_f(e, dt, 1), two = v_f(e, dt, 2);
    Value grown = exp_scaled(e, dt, v_fmul(e, x, two), NULL, 0);
    Value y = v_fsub(e, one, v_fdiv(e, two, v_fadd(e, grown, one)));
    Value near = row_of(dt) ? odd_poly(e, dt, x, tanh_c64, 10) : odd_poly(e, dt, x, tanh_c32, 6);
    y = v_select(e, v_fcmp(e, LLVMRealOLT, x, v_f(e, dt, tanh_small[row_of(dt)])), near, y);
    return v_copysign(e, y, a);
}

/* ---- inverses ---- */
/* Squares of numbers above this might overflow. */
static Value is_big(Emit *e, Dtype dt, Value x) { return v_fcmp(e, LLVMRealOGT, x, v_f(e, dt, row_of(dt) ? 0x1p500 : 0x1p60)); }

/* log(1 + t), or log(1 + x) + ln 2 in the lanes of `big` */
static Value log1p_or_log_2x(Emit *e, Dtype dt, Value big, Value x, Value t) {
    Value y = log1p_value(e, dt, v_select(e, big, x, t));
    return v_fadd(e, y, v_select(e, big, v_f(e, dt, 0x1.62e42fefa39efp-1), v_f(e, dt, 0)));
}

/* log(x + sqrt(x^2 + 1)) = log1p(x + x^2 / (1 + sqrt(x^2 + 1))) */
LLVMValueRef emit_arcsinh(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
    (void)b, (void)c;
    if (is_narrow(e, dt))
        return through_float64(e, emit_arcsinh, a, NULL);
    Value x = v_fabs(e, a), one = v_f(e, dt, 1);
    Value square = v_fmul(e, x, x);
    Value root = v_sqrt(e, v_fadd(e, square, one));
    Value t = v_fadd(e, x, v_fdiv(e, square, v_fadd(e, root, one)));
    return v_copysign(e, log1p_or_log_2x(e, dt, is_big(e, dt, x), x, t), a);
}

/* With t = x - 1: log1p(t + sqrt(2 t + t^2)) */
LLVMValueRef emit_arccosh(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
    (void)b, (void)c;
    if (is_narrow(e, dt))
        return through_float64(e, emit_arccosh, a, NULL);
    Value one = v_f(e, dt, 1), t = v_fsub(e, a, one);
    Value root = v_sqrt(e, v_madd(e, t, t, v_fadd(e, t, t)));
    Value y = log1p_or_log_2x(e, dt, is_big(e, dt, a), a, v_fadd(e, t, root));
    return v_select(e, v_fcmp(e, LLVMRealOGE, a, one), y, v_f(e, dt, NAN));
}

/* log1p(2 x / (1 - x)) / 2; below 1/2 as 2 x + 2 x^2 / (1 - x), which rounds less. */
LLVMValueRef emit_arctanh(Emit *e, Dtype dt, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
    (void)b, (void)c;
    if (is_narrow(e, dt))
        return through_float64(e, emit_arctanh, a, NULL);
    Value x = v_fabs(e, a), one = v_f(e, dt, 1), twice = v_fadd(e, x, x);
    Value near = v_fcmp(e, LLVMRealOLT, x, v_f(e, dt, .5));
    Value q = v_fdiv(e, v_select(e, near, v_fmul(e, twice, x), twice), v_fsub(e, one, x));
    Value t = v_select(e, near, v_fadd(e, twice, q), q);
    return v_copysign(e, v_fmul(e, log1p_value(e, dt, t), v_f(e, dt, .5)), a);
}
