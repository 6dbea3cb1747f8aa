/* Functions of complex numbers, with C99's branch cuts and special values (Annex G), which are NumPy's. All compute in float64, so complex64
 * results are those of exact formulas rounded once or nearly so. W. Kahan, Branch Cuts for Complex Elementary Functions, 1987. */
#include <math.h>
#include <string.h>

#include "ir/complex.h"
#include "ir/fold.h"

static Id is_inf(const Cx *c, Id a) { return cx1(c, OP_isinf, a); }
static Id is_nan(const Cx *c, Id a) { return cx1(c, OP_isnan, a); }
static Id is_finite(const Cx *c, Id a) { return cx1(c, OP_isfinite, a); }
static Id is_number(const Cx *c, Id a, double x) { return cx2(c, OP_equal, a, cx_number(c, x)); }
static Id not(const Cx *c, Id a) { return cx1(c, OP_logical_not, a); }
static Id times(const Cx *c, double x, Id a) { return cx_mul(c, cx_number(c, x), a); }
static Id sign_of(const Cx *c, Id size, Id sign) { return cx2(c, OP_copysign, size, sign); }
static Id above(const Cx *c, Id a, double x) { return cx2(c, OP_less, cx_number(c, x), a); }
static Id below(const Cx *c, Id a, double x) { return cx2(c, OP_less, a, cx_number(c, x)); }
static Z turned(const Cx *c, Z x) { return (Z){ cx_neg(c, x.im), x.re }; }           /* i x */
static Z turned_back(const Cx *c, Z x) { return (Z){ x.im, cx_neg(c, x.re) }; }      /* -i x */
static Z scaled(const Cx *c, double s, Z x) { return (Z){ times(c, s, x.re), times(c, s, x.im) }; }

/* ---- exponentials ---- */

/* e^x a, where e^x alone may overflow. */
static Id exp_times(const Cx *c, Id x, Id a)
{
    Id half = cx1(c, OP_exp, times(c, 0.5, x)), plain = cx_mul(c, cx1(c, OP_exp, x), a);
    return cx_where(c, above(c, cx_abs(c, x), 700), cx_mul(c, cx_mul(c, half, a), half), plain);
}

static Z exp_of(const Cx *c, Z x)
{
    Id zero = cx_number(c, 0), wild = not(c, is_finite(c, x.im)), down = cx2(c, OP_equal, x.re, cx_number(c, -INFINITY));
    Id up = cx2(c, OP_equal, x.re, cx_number(c, INFINITY));
    Z r = { exp_times(c, x.re, cx1(c, OP_cos, x.im)), exp_times(c, x.re, cx1(c, OP_sin, x.im)) };
    r.re = cx_where(c, cx_and(c, up, wild), x.re, r.re);
    r = cx_choose(c, cx_and(c, down, wild), (Z){ zero, sign_of(c, zero, x.im) }, r);
    return cx_choose(c, is_number(c, x.im, 0), (Z){ cx1(c, OP_exp, x.re), x.im }, r);
}

/* NumPy's formula. */
static Z expm1_of(const Cx *c, Z x)
{
    Id a = cx1(c, OP_sin, times(c, 0.5, x.im));
    Id re = cx_sub(c, cx_mul(c, cx1(c, OP_expm1, x.re), cx1(c, OP_cos, x.im)), cx_mul(c, times(c, 2, a), a));
    return (Z){ re, cx_mul(c, cx1(c, OP_exp, x.re), cx1(c, OP_sin, x.im)) };
}

/* ---- logarithms ---- */

/* log |z|: near |z| == 1 by log1p of |z|^2 - 1, in which the squares carry their errors; huge and tiny z are scaled. */
static Id log_size(const Cx *c, Z z)
{
    Id ax = cx_abs(c, z.re), ay = cx_abs(c, z.im), x = cx2(c, OP_maximum, ax, ay), y = cx2(c, OP_minimum, ax, ay);
    Id huge = above(c, x, 0x1p1000), tiny = below(c, x, 0x1p-900);
    Id scale = cx_where(c, huge, cx_number(c, 0x1p-500), cx_where(c, tiny, cx_number(c, 0x1p500), cx_number(c, 1)));
    Id off = cx_where(c, huge, cx_number(c, 500 * M_LN2), cx_where(c, tiny, cx_number(c, -500 * M_LN2), cx_number(c, 0)));
    Id size = cx2(c, OP_hypot, cx_mul(c, ax, scale), cx_mul(c, ay, scale)), plain = cx_add(c, cx1(c, OP_log, size), off);
    Id xx = cx_mul(c, x, x), yy = cx_mul(c, y, y);
    Id ex = graph_add(c->g, OP_fma, (Id[]){ x, x, cx_neg(c, xx) }, 3, NULL, 0, c->dtype, NULL, 0);
    Id ey = graph_add(c->g, OP_fma, (Id[]){ y, y, cx_neg(c, yy) }, 3, NULL, 0, c->dtype, NULL, 0);
    Id d = cx_add(c, cx_add(c, cx_sub(c, xx, cx_number(c, 1)), yy), cx_add(c, ex, ey));
    Id near = cx_and(c, above(c, size, 0.75), below(c, size, 1.5));
    return cx_where(c, near, times(c, 0.5, cx1(c, OP_log1p, d)), plain);
}

static Z log_of(const Cx *c, Z x) { return (Z){ log_size(c, x), cx2(c, OP_arctan2, x.im, x.re) }; }

/* |1 + z|^2 - 1 = x (2 + x) + y^2 where that is small. */
static Z log1p_of(const Cx *c, Z z)
{
    Z up = { cx_add(c, z.re, cx_number(c, 1)), z.im };
    Id d = cx_add(c, cx_mul(c, z.re, cx_add(c, z.re, cx_number(c, 2))), cx_mul(c, z.im, z.im)), near = below(c, cx_abs(c, d), 0.5);
    return (Z){ cx_where(c, near, times(c, 0.5, cx1(c, OP_log1p, d)), log_size(c, up)), cx2(c, OP_arctan2, up.im, up.re) };
}

/* ---- roots and sizes ---- */

static Z sqrt_of(const Cx *c, Z z)
{
    Id zero = cx_number(c, 0), inf = cx_number(c, INFINITY), most = cx2(c, OP_maximum, cx_abs(c, z.re), cx_abs(c, z.im));
    Id huge = above(c, most, 0x1p1020), tiny = below(c, most, 0x1p-960);
    Id scale = cx_where(c, huge, cx_number(c, 0.0625), cx_where(c, tiny, cx_number(c, 0x1p100), cx_number(c, 1)));
    Id back = cx_where(c, huge, cx_number(c, 4), cx_where(c, tiny, cx_number(c, 0x1p-50), cx_number(c, 1)));
    Id x = cx_mul(c, z.re, scale), y = cx_mul(c, z.im, scale), ax = cx_abs(c, x);
    Id t = cx1(c, OP_sqrt, times(c, 0.5, cx_add(c, ax, cx2(c, OP_hypot, x, y)))), u = cx_div(c, cx_abs(c, y), times(c, 2, t));
    u = cx_where(c, is_number(c, t, 0), zero, u);
    Id left = cx1(c, OP_signbit, x);
    Z r = { cx_mul(c, cx_where(c, left, u, t), back), sign_of(c, cx_mul(c, cx_where(c, left, t, u), back), z.im) };
    Id nan = is_nan(c, z.im), gap = cx_sub(c, z.im, z.im);
    Z right = { inf, cx_where(c, nan, gap, sign_of(c, zero, z.im)) }, other = { cx_where(c, nan, gap, zero), sign_of(c, inf, z.im) };
    r = cx_choose(c, is_inf(c, z.re), cx_choose(c, left, other, right), r);
    r = cx_choose(c, is_nan(c, z.re), (Z){ z.re, z.re }, r);
    return cx_choose(c, is_inf(c, z.im), (Z){ inf, z.im }, r);
}

/* z / |z|; a single infinite part gives its sign, and two, or a NaN, NaN. */
static Z sign(const Cx *c, Z z)
{
    Id size = cx2(c, OP_hypot, z.re, z.im), zero = cx_number(c, 0), one = cx_number(c, 1), nan = cx_number(c, NAN);
    Id ir = is_inf(c, z.re), ii = is_inf(c, z.im);
    Z r = { cx_div(c, z.re, size), cx_div(c, z.im, size) };
    Z wild = { cx_where(c, ir, sign_of(c, one, z.re), zero), cx_where(c, ir, zero, sign_of(c, one, z.im)) };
    r = cx_choose(c, is_inf(c, size), wild, r);
    r = cx_choose(c, cx_or(c, cx_and(c, ir, ii), is_nan(c, size)), (Z){ nan, nan }, r);
    return cx_choose(c, is_number(c, size, 0), (Z){ zero, zero }, r);
}

/* ---- hyperbolic functions; the circular ones turn their argument ---- */

/* sinh (or cosh) of x times a. */
static Id grown(const Cx *c, Op op, Id x, Id a)
{
    Id big = exp_times(c, cx_abs(c, x), times(c, 0.5, a));
    if (op == OP_sinh)
        big = cx_where(c, cx1(c, OP_signbit, x), cx_neg(c, big), big);
    return cx_where(c, above(c, cx_abs(c, x), 700), big, cx_mul(c, cx1(c, op, x), a));
}

static Z sinh_of(const Cx *c, Z z)
{
    Id wild = not(c, is_finite(c, z.im)), still = is_number(c, z.re, 0);
    Z r = { grown(c, OP_sinh, z.re, cx1(c, OP_cos, z.im)), grown(c, OP_cosh, z.re, cx1(c, OP_sin, z.im)) };
    r.re = cx_where(c, cx_and(c, wild, cx_or(c, still, is_inf(c, z.re))), z.re, r.re);
    return cx_choose(c, is_number(c, z.im, 0), (Z){ cx1(c, OP_sinh, z.re), z.im }, r);
}

static Z cosh_of(const Cx *c, Z z)
{
    Id wild = not(c, is_finite(c, z.im)), still = is_number(c, z.re, 0), inf = cx_number(c, INFINITY), zero = cx_number(c, 0);
    Id side = cx_mul(c, sign_of(c, cx_number(c, 1), z.re), z.im);
    Z r = { grown(c, OP_cosh, z.re, cx1(c, OP_cos, z.im)), grown(c, OP_sinh, z.re, cx1(c, OP_sin, z.im)) };
    r.re = cx_where(c, cx_and(c, wild, is_inf(c, z.re)), inf, r.re);
    r.im = cx_where(c, cx_and(c, still, wild), zero, r.im);
    return cx_choose(c, is_number(c, z.im, 0), (Z){ cx1(c, OP_cosh, z.re), cx_where(c, is_nan(c, z.re), z.im, side) }, r);
}

/* Kahan's: with t = tan y, s = sinh x: (s cosh(x) (1 + t^2) + i t) / (1 + (1 + t^2) s^2); far out 4 sin y cos y e^(-2|x|) remains. */
static Z tanh_of(const Cx *c, Z z)
{
    Id one = cx_number(c, 1), zero = cx_number(c, 0), ax = cx_abs(c, z.re), t = cx1(c, OP_tan, z.im), s = cx1(c, OP_sinh, z.re);
    Id beta = cx_add(c, one, cx_mul(c, t, t)), rho = cx1(c, OP_cosh, z.re);
    Id den = cx_add(c, one, cx_mul(c, cx_mul(c, beta, s), s));
    Z r = { cx_div(c, cx_mul(c, cx_mul(c, beta, rho), s), den), cx_div(c, t, den) };
    Id sc = times(c, 4, cx_mul(c, cx1(c, OP_sin, z.im), cx1(c, OP_cos, z.im))), fall = cx1(c, OP_exp, times(c, -2, ax));
    Z far = { sign_of(c, one, z.re), cx_mul(c, sc, fall) };
    far.im = cx_where(c, not(c, is_finite(c, z.im)), sign_of(c, zero, z.im), far.im);
    Id out = cx_or(c, is_inf(c, z.re), cx_and(c, above(c, ax, 22), is_finite(c, z.im)));
    r.re = cx_where(c, is_number(c, z.re, 0), z.re, r.re);
    r = cx_choose(c, out, far, r);
    r.im = cx_where(c, is_number(c, z.im, 0), z.im, r.im);
    return r;
}

/* ---- their inverses ---- */

static Z shifted(const Cx *c, double by, Z z) { return (Z){ cx_add(c, z.re, cx_number(c, by)), z.im }; }
static Z from(const Cx *c, double one, Z z) { return (Z){ cx_sub(c, cx_number(c, one), z.re), cx_neg(c, z.im) }; }
static Id cross(const Cx *c, Z a, Z b) { return cx_sub(c, cx_mul(c, a.re, b.im), cx_mul(c, a.im, b.re)); }     /* Im(conj(a) b) */

static Id any_inf(const Cx *c, Z z) { return cx_or(c, is_inf(c, z.re), is_inf(c, z.im)); }

/* Far out both arcsin and arccos are arguments and log 2|z|. */
static Id is_far(const Cx *c, Z z) { return above(c, cx2(c, OP_maximum, cx_abs(c, z.re), cx_abs(c, z.im)), 0x1p500); }
static Id log_twice(const Cx *c, Z z) { return cx_add(c, log_size(c, z), cx_number(c, M_LN2)); }

static Z arcsin_of(const Cx *c, Z z)
{
    Z a = sqrt_of(c, from(c, 1, z)), b = sqrt_of(c, shifted(c, 1, z));
    Z r = { cx2(c, OP_arctan2, z.re, cx_product(c, a, b).re), cx1(c, OP_arcsinh, cross(c, a, b)) };
    r.im = cx2(c, OP_copysign, r.im, z.im);
    r = cx_choose(c, cx_or(c, any_inf(c, z), is_far(c, z)), (Z){ cx2(c, OP_arctan2, z.re, cx_abs(c, z.im)), sign_of(c, log_twice(c, z), z.im) }, r);
    r.re = cx_where(c, cx_and(c, is_number(c, z.re, 0), is_nan(c, z.im)), z.re, r.re);
    return r;
}

static Z arccos_of(const Cx *c, Z z)
{
    Z a = sqrt_of(c, from(c, 1, z)), b = sqrt_of(c, shifted(c, 1, z));
    Z r = { times(c, 2, cx2(c, OP_arctan2, a.re, b.re)), cx1(c, OP_arcsinh, cross(c, b, a)) };
    r.im = cx2(c, OP_copysign, r.im, cx_neg(c, z.im));
    Id side = sign_of(c, log_twice(c, z), cx_neg(c, z.im));
    r = cx_choose(c, cx_or(c, any_inf(c, z), is_far(c, z)), (Z){ cx2(c, OP_arctan2, cx_abs(c, z.im), z.re), side }, r);
    r.re = cx_where(c, cx_and(c, is_number(c, z.re, 0), is_nan(c, z.im)), cx_number(c, M_PI_2), r.re);
    return r;
}

static Z arccosh_of(const Cx *c, Z z)
{
    Z w = arccos_of(c, z);
    Id size = cx_abs(c, w.im);
    return (Z){ size, sign_of(c, w.re, z.im) };
}

static Z arctanh_of(const Cx *c, Z z)
{
    Id one = cx_number(c, 1), near = cx_sub(c, one, z.re), zero = cx_number(c, 0), ax = cx_abs(c, z.re), ay = cx_abs(c, z.im);
    Id d = cx_sub(c, one, ax), den = cx_add(c, cx_mul(c, d, d), cx_mul(c, z.im, z.im));
    Id re = times(c, 0.25, cx1(c, OP_log1p, cx_div(c, times(c, 4, ax), den)));
    Id im = times(c, 0.5, cx2(c, OP_arctan2, times(c, 2, z.im), cx_sub(c, cx_mul(c, near, cx_add(c, one, z.re)), cx_mul(c, z.im, z.im))));
    Id pole = cx_and(c, is_number(c, ax, 1), below(c, ay, 0x1p-500));
    re = cx_where(c, pole, times(c, 0.5, cx_sub(c, cx_number(c, M_LN2), cx1(c, OP_log, ay))), re);
    Id size = cx2(c, OP_hypot, z.re, z.im), far = above(c, size, 0x1p400), quarter = sign_of(c, cx_number(c, M_PI_2), z.im);
    re = cx_where(c, far, cx_div(c, cx_div(c, ax, size), size), re);
    Z r = { sign_of(c, re, z.re), cx_where(c, far, quarter, im) };
    Id inf = any_inf(c, z);
    r = cx_choose(c, inf, (Z){ sign_of(c, zero, z.re), cx_where(c, is_nan(c, z.im), z.im, quarter) }, r);
    r.re = cx_where(c, cx_and(c, is_number(c, z.re, 0), is_nan(c, z.im)), z.re, r.re);
    return r;
}

static Z arcsinh_of(const Cx *c, Z z) { return turned_back(c, arcsin_of(c, turned(c, z))); }

/* ---- powers ---- */

/* x to whole powers below 100 by squaring, as NumPy, which has 1, 2 and 3 apart: n is |exponent| in float64, y the exponent. */
static Z small_power(const Cx *c, Z x, Id n, Id y)
{
    Z r = { cx_number(c, 1), cx_number(c, 0) }, p = x, square = cx_product(c, x, x), cube = cx_product(c, x, square);
    for (int bit = 0; bit < 7; bit++) {
        Id half = cx1(c, OP_floor, times(c, 0.5, n)), odd = cx2(c, OP_not_equal, n, times(c, 2, half));
        Z q = cx_product(c, r, p);
        r = cx_choose(c, odd, q, r);
        p = bit < 6 ? cx_product(c, p, p) : p;
        n = half;
    }
    r = cx_choose(c, is_number(c, y, 1), x, r);
    r = cx_choose(c, is_number(c, y, 2), square, r);
    return cx_choose(c, is_number(c, y, 3), cube, r);
}

static bool repeats(const Cx *c, Id a, double *x)
{
    int64_t bits;
    if (!a || !fold_known(c->g, a, &bits))
        return false;
    memcpy(x, &bits, sizeof *x);
    return c->dtype == DT_float64;
}

/* A power known while tracing. */
static Z known_power(const Cx *c, Z x, int n)
{
    Z r = { cx_number(c, 1), cx_number(c, 0) }, p = x;
    if (n == 1)
        return x;
    if (n == 2 || n == 3)
        return n == 2 ? cx_product(c, x, x) : cx_product(c, x, cx_product(c, x, x));
    for (int k = n < 0 ? -n : n; k; k >>= 1) {
        r = k & 1 ? cx_product(c, r, p) : r;
        p = k > 1 ? cx_product(c, p, p) : p;
    }
    return n < 0 ? cx_quotient(c, (Z){ cx_number(c, 1), cx_number(c, 0) }, r) : r;
}

static Z power(const Cx *c, Z x, Z y)
{
    Id zero = cx_number(c, 0), one = cx_number(c, 1), nan = cx_number(c, NAN), real = is_number(c, y.im, 0);
    Id none = cx_and(c, is_number(c, x.re, 0), is_number(c, x.im, 0)), up = cx2(c, OP_less, zero, y.re);
    double re, im;
    Z r;
    if (repeats(c, y.re, &re) && repeats(c, y.im, &im) && im == 0 && fabs(re) < 100 && re == trunc(re)) {
        r = known_power(c, x, (int)re);
    } else {
        Id n = cx_abs(c, y.re), whole = cx_and(c, real, cx_and(c, cx2(c, OP_equal, cx1(c, OP_trunc, n), n), below(c, n, 100)));
        Z p = small_power(c, x, cx_where(c, whole, n, zero), y.re), q = cx_quotient(c, (Z){ one, zero }, p);
        r = exp_of(c, cx_product(c, y, log_of(c, x)));
        r = cx_choose(c, whole, cx_choose(c, cx2(c, OP_less, y.re, zero), q, p), r);
    }
    r = cx_choose(c, none, cx_choose(c, up, (Z){ zero, zero }, (Z){ nan, nan }), r);
    return cx_choose(c, cx_and(c, real, is_number(c, y.re, 0)), (Z){ one, zero }, r);
}

/* ---- the table ---- */

static bool function(const Cx *c, Op op, Z x, Z y, Z *out)
{
    switch ((int)op) {
    case OP_exp: *out = exp_of(c, x); return true;
    case OP_exp2: *out = exp_of(c, x); return true;
    case OP_expm1: *out = expm1_of(c, x); return true;
    case OP_log: *out = log_of(c, x); return true;
    case OP_log2: *out = scaled(c, M_LOG2E, log_of(c, x)); return true;
    case OP_log10: *out = scaled(c, M_LOG10E, log_of(c, x)); return true;
    case OP_log1p: *out = log1p_of(c, x); return true;
    case OP_sqrt: *out = sqrt_of(c, x); return true;
    case OP_sinh: *out = sinh_of(c, x); return true;
    case OP_cosh: *out = cosh_of(c, x); return true;
    case OP_tanh: *out = tanh_of(c, x); return true;
    case OP_sin: *out = turned_back(c, sinh_of(c, turned(c, x))); return true;
    case OP_cos: *out = cosh_of(c, turned(c, x)); return true;
    case OP_tan: *out = turned_back(c, tanh_of(c, turned(c, x))); return true;
    case OP_arcsin: *out = arcsin_of(c, x); return true;
    case OP_arccos: *out = arccos_of(c, x); return true;
    case OP_arcsinh: *out = arcsinh_of(c, x); return true;
    case OP_arccosh: *out = arccosh_of(c, x); return true;
    case OP_arctanh: *out = arctanh_of(c, x); return true;
    case OP_arctan: *out = turned_back(c, arctanh_of(c, turned(c, x))); return true;
    case OP_power: *out = power(c, x, y); return true;
    }
    return false;
}

static Z converted(Graph *g, Z z, Dtype to) { return (Z){ graph_cast(g, z.re, to), graph_cast(g, z.im, to) }; }

bool complex_function(const Cx *c, Op op, Z x, Z y, Z *out)
{
    Cx wide = { c->g, DT_float64, c->like };
    if (op == OP_sign) {
        *out = sign(c, x);
        return true;
    }
    if (op == OP_exp2)          /* NumPy rounds the product */
        x = scaled(c, M_LN2, x);
    if (!function(&wide, op, converted(c->g, x, DT_float64), converted(c->g, y, DT_float64), out))
        return false;
    *out = converted(c->g, *out, c->dtype);
    return true;
}
