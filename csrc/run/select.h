/* The elements of a vector where a mask is true, in order. */
#pragma once
#include <stdint.h>

/* Elements of `size` bytes (1, 2, 4, 8, 16), `stride` bytes apart; out[count] gets the first `count` whose byte of mask[0], mask[mask_stride], ...
 * (n of them) is not zero, and zeros where there are fewer. */
void select_fill(const char *x, int64_t size, int64_t stride, const uint8_t *mask, int64_t mask_stride, int64_t n, char *out, int64_t count);
