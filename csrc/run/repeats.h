/* np.repeat's places: each index as often as its count says. */
#pragma once
#include <stdint.h>

/* Fills out[total] with counts[0] zeros, counts[1] ones, ... (int64 counts of n indices, `stride` bytes apart); the last index, or 0, where they are too few. */
void repeats_fill(const char *counts, int64_t n, int64_t stride, int64_t *out, int64_t total);
