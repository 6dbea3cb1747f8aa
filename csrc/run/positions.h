/* Where a mask is true: the indices of its nonzero bytes, in order. */
#pragma once
#include <stdint.h>

/* Fills out[count] with the indices of the first `count` nonzero bytes of mask[0], mask[stride], ... (n of them); 0 where there are fewer. */
void positions_fill(const uint8_t *mask, int64_t n, int64_t stride, int64_t *out, int64_t count);
