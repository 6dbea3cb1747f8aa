#include "run/repeats.h"

enum { WHOLE = 8 };          /* places stored at once, whatever the count: no branch depends on a small one */

void repeats_fill(const char *counts, int64_t n, int64_t stride, int64_t *out, int64_t total)
{
    int64_t at = 0;
    for (int64_t i = 0; i < n && at < total; i++) {
        int64_t count = *(const int64_t *)(counts + i * stride), left = total - at;
        count = count < 0 ? 0 : count < left ? count : left;
        if (left >= WHOLE)
            for (int k = 0; k < WHOLE; k++) out[at + k] = i;
        for (int64_t k = left >= WHOLE ? WHOLE : 0; k < count; k++) out[at + k] = i;
        at += count;
    }
    while (at < total) out[at++] = n > 0 ? n - 1 : 0;
}
