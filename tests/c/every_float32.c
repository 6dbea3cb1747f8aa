/* The largest error of a float32 function over a range of bit patterns, against libm's function of doubles: all 2^32 inputs in a minute
 * or two. For tests/test_math.py, whose errors() says the same of arrays. */
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { BLOCK = 4096 };

/* In units in the last place of a float32 near `want`; infinite where a special value or the sign of a zero differs. */
static double error(float got, double want)
{
    float rounded = (float)want;
    if (!isfinite(got) || !isfinite(rounded))
        return got == rounded || (isnan(got) && isnan(rounded)) ? 0 : INFINITY;
    if (got == 0 && rounded == 0)
        return !signbit(got) == !signbit(rounded) ? fabs(want) * 0x1p149 : INFINITY;
    uint64_t bits;
    memcpy(&bits, &want, 8);
    int64_t exponent = (int64_t)(bits >> 52 & 0x7ff) - 1023;
    int64_t lowest = exponent < -126 ? -149 : exponent - 23;
    uint64_t inverse = (uint64_t)(1023 - lowest) << 52;
    double per_unit;
    memcpy(&per_unit, &inverse, 8);
    return fabs(got - want) * per_unit;
}

/* Of `ours` on the patterns first ... first + count - 1, count a multiple of BLOCK; *at: where. */
double worst_float32(void (*ours)(const float *, const float *, float *, int64_t), double (*wide)(double), uint64_t first, uint64_t count, uint32_t *at)
{
    float x[BLOCK], out[BLOCK];
    double worst = -1;
    for (uint64_t start = first; start < first + count; start += BLOCK) {
        for (uint32_t k = 0; k < BLOCK; k++) {
            uint32_t pattern = (uint32_t)start + k;
            memcpy(&x[k], &pattern, 4);
        }
        ours(x, x, out, BLOCK);
        for (uint32_t k = 0; k < BLOCK; k++) {
            double e = error(out[k], wide(x[k]));
            if (e > worst) {
                worst = e;
                *at = (uint32_t)start + k;
            }
        }
    }
    return worst;
}
