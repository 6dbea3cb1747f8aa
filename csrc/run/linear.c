/* np.interp, in two ways by turns. A run: the key lies between the points of the one before, or in the next interval, as in an ascending x; what it needs of these
 * points waits in registers. Other keys go by blocks: those between the first and the last point are sought eight at a time, by binary searches without
 * branches, whose loads do not wait for each other. */
#include "run/linear.h"
#include <math.h>
#include <stdbool.h>

enum { KEYS = 8, BLOCK = 64 };

static double key_at(const char *x, int64_t stride, int64_t i) { return *(const double *)(x + i * stride); }

/* The last k with xp[k] <= v[i], for eight of them; xp[0] <= v[i] or k is 0. */
static void find(const double *xp, int64_t m, const double *v, int64_t *found)
{
    int64_t at[KEYS] = {0};
    for (int64_t n = m, half; n > 1; n -= half) {
        half = n / 2;
#pragma GCC unroll 8
        for (int i = 0; i < KEYS; i++) at[i] += half & -(int64_t)(xp[at[i] + half] <= v[i]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < KEYS; i++) found[i] = at[i];
}

/* Between points k and k + 1, in NumPy's steps: what is not finite on one side of the line may be on the other. */
static double between(const double *x, const double *f, double slope, double v)
{
    if (x[0] == v) return f[0];
    double r = slope * (v - x[0]) + f[0];
    if (isnan(r)) {
        r = slope * (v - x[1]) + f[1];
        if (isnan(r) && f[0] == f[1]) r = f[0];
    }
    return r;
}

static double slope_at(const Points *p, int64_t k) { return (p->fp[k + 1] - p->fp[k]) / (p->xp[k + 1] - p->xp[k]); }

/* Where a key is no search's: NaN, or beyond the points. */
static bool is_outside(const Points *p, double v, double *out)
{
    if (v >= p->xp[0] && v < p->xp[p->m - 1]) return false;
    *out = v < p->xp[0] ? p->left : v > p->xp[p->m - 1] ? p->right : isnan(v) ? v : p->fp[p->m - 1];
    return true;
}

/* n <= BLOCK keys. The interval of the last one, -1 where they are no run. */
static int64_t fill_block(const Points *p, const char *x, int64_t stride, int64_t n, double *out)
{
    double v[BLOCK + KEYS] = {0};
    int64_t found[BLOCK + KEYS], which[BLOCK];
    int inside = 0, near = 0;
    for (int64_t i = 0; i < n; i++) {
        double key = key_at(x, stride, i);
        v[inside] = key;
        which[inside] = i;
        inside += !is_outside(p, key, &out[i]);
    }
    for (int i = 0; i < inside; i += KEYS) find(p->xp, p->m, v + i, found + i);
    for (int i = 0; i < inside; i++) {
        int64_t k = found[i];
        out[which[i]] = between(p->xp + k, p->fp + k, slope_at(p, k), v[i]);
        near += i && (k == found[i - 1] || k == found[i - 1] + 1);
    }
    return inside && near >= inside - inside / 4 - 1 ? found[inside - 1] : -1;
}

/* Keys from interval k on, as long as each is in that of the one before or in the next; how many. */
static int64_t fill_run(const Points *p, int64_t k, const char *x, int64_t stride, int64_t n, double *out)
{
    const double *xp = p->xp + k, *fp = p->fp + k, *last = p->xp + p->m - 2;
    double low = xp[0], high = xp[1], slope = slope_at(p, k);
    for (int64_t i = 0; i < n; i++) {
        double v = key_at(x, stride, i);
        if (!(low <= v && v < high)) {
            if (xp >= last || !(high <= v && v < xp[2])) return i;
            xp++;
            fp++;
            low = xp[0];
            high = xp[1];
            slope = (fp[1] - fp[0]) / (high - low);
        }
        out[i] = between(xp, fp, slope, v);
    }
    return n;
}

static double value_at_one_point(const Points *p, double v) { return v < p->xp[0] ? p->left : v > p->xp[0] ? p->right : p->fp[0]; }

void linear_fill(const Points *p, const char *x, int64_t stride, int64_t n, double *out)
{
    for (int64_t i = 0; p->m == 1 && i < n; i++) out[i] = value_at_one_point(p, key_at(x, stride, i));
    for (int64_t i = 0; p->m > 1 && i < n;) {
        int64_t left = n - i, size = left < BLOCK ? left : BLOCK, k = fill_block(p, x + i * stride, stride, size, out + i);
        i += size;
        if (k >= 0) i += fill_run(p, k, x + i * stride, stride, n - i, out + i);
    }
}
