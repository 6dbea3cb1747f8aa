/* np.interp: the value at x of the lines through points. */
#pragma once
#include <stdint.h>

/* m points (xp[k], fp[k]), m >= 1, xp ascending; beyond them left and right. */
typedef struct { const double *xp, *fp; int64_t m; double left, right; } Points;

/* out[i], i < n, for x[i] at `stride` bytes each: NumPy's bits. */
void linear_fill(const Points *p, const char *x, int64_t stride, int64_t n, double *out);
