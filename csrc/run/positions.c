#include "run/positions.h"
#include <string.h>
#include "base/cpu.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* A store at every element and an increment where it counts: no branch depends on the mask. */
static int64_t by_elements(const uint8_t *mask, int64_t from, int64_t to, int64_t stride, int64_t *out, int64_t at, int64_t count)
{
    for (int64_t i = from; i < to && at < count; i++) {
        out[at] = i;
        at += mask[i * stride] != 0;
    }
    return at;
}

/* Eight bytes at a time, of which many are often zero. */
static int64_t by_words(const uint8_t *mask, int64_t from, int64_t n, int64_t *out, int64_t at, int64_t count)
{
    int64_t i = from;
    for (; i + 8 <= n && at < count; i += 8) {
        uint64_t word;
        memcpy(&word, mask + i, sizeof word);
        if (word) at = by_elements(mask, i, i + 8, 1, out, at, count);
    }
    return by_elements(mask, i, n, 1, out, at, count);
}

#if defined(__x86_64__)
/* 64 bytes at a time; each eight are compressed in a register and stored whole, as long as there is room for that behind them. */
__attribute__((target("avx512f,avx512bw,popcnt")))
static int64_t by_vectors(const uint8_t *mask, int64_t n, int64_t *out, int64_t count)
{
    const __m512i eight = _mm512_set1_epi64(8);
    int64_t i = 0, at = 0;
    for (; i + 64 <= n && at + 72 <= count; i += 64) {
        __m512i bytes = _mm512_loadu_si512(mask + i);
        uint64_t set = _mm512_test_epi8_mask(bytes, bytes);
        __m512i index = _mm512_add_epi64(_mm512_set1_epi64(i), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
        for (; set; set >>= 8, index = _mm512_add_epi64(index, eight)) {
            _mm512_storeu_si512(out + at, _mm512_maskz_compress_epi64((__mmask8)set, index));
            at += __builtin_popcount((uint8_t)set);
        }
    }
    return by_words(mask, i, n, out, at, count);
}
#endif

void positions_fill(const uint8_t *mask, int64_t n, int64_t stride, int64_t *out, int64_t count)
{
    int64_t at;
    if (stride != 1)
        at = by_elements(mask, 0, n, stride, out, 0, count);
#if defined(__x86_64__)
    else if (cpu_host()->level == CPU_AVX512)
        at = by_vectors(mask, n, out, count);
#endif
    else
        at = by_words(mask, 0, n, out, 0, count);
    while (at < count) out[at++] = 0;
}
