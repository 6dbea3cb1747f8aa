#include "run/select.h"
#include <string.h>
#include "base/cpu.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef struct { const char *x; int64_t stride; const uint8_t *mask; int64_t mask_stride, n; char *out; int64_t count; } Selection;

/* A store at every element and an increment where it counts: no branch depends on the mask. From element i and place `at` on; the next place. */
#define BY_ELEMENTS(type, name) \
    static int64_t name(const Selection *s, int64_t i, int64_t to, int64_t at) \
    { \
        for (; i < to && at < s->count; i++) { \
            memcpy(s->out + at * (int64_t)sizeof(type), s->x + i * s->stride, sizeof(type)); \
            at += s->mask[i * s->mask_stride] != 0; \
        } \
        return at; \
    }
typedef struct { uint64_t half[2]; } Wide;
BY_ELEMENTS(uint8_t, elements_1)
BY_ELEMENTS(uint16_t, elements_2)
BY_ELEMENTS(uint32_t, elements_4)
BY_ELEMENTS(uint64_t, elements_8)
BY_ELEMENTS(Wide, elements_16)

static int64_t by_elements(const Selection *s, int64_t size, int64_t i, int64_t to, int64_t at)
{
    switch (size) {
    case 1: return elements_1(s, i, to, at);
    case 2: return elements_2(s, i, to, at);
    case 4: return elements_4(s, i, to, at);
    case 8: return elements_8(s, i, to, at);
    default: return elements_16(s, i, to, at);
    }
}

/* Eight bytes of the mask at a time, of which many are often zero. */
static int64_t by_words(const Selection *s, int64_t size, int64_t i, int64_t at)
{
    for (; s->mask_stride == 1 && i + 8 <= s->n && at < s->count; i += 8) {
        uint64_t word;
        memcpy(&word, s->mask + i, sizeof word);
        if (word) at = by_elements(s, size, i, i + 8, at);
    }
    return by_elements(s, size, i, s->n, at);
}

#if defined(__x86_64__)
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,popcnt")))

/* Elements i .. i + 15 (64-bit ones: 8) where `set` says so, compressed in a register and stored at `out`; how many. */
AVX512 static inline int64_t compress_1(const char *x, unsigned set, char *out)
{
    __m512i v = _mm512_maskz_compress_epi32((__mmask16)set, _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)x)));
    int n = __builtin_popcount(set);
    _mm_mask_storeu_epi8(out, (__mmask16)((1u << n) - 1), _mm512_cvtepi32_epi8(v));
    return n;
}

AVX512 static inline int64_t compress_2(const char *x, unsigned set, char *out)
{
    __m512i v = _mm512_maskz_compress_epi32((__mmask16)set, _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)x)));
    int n = __builtin_popcount(set);
    _mm256_mask_storeu_epi16(out, (__mmask16)((1u << n) - 1), _mm512_cvtepi32_epi16(v));
    return n;
}

AVX512 static inline int64_t compress_4(const char *x, unsigned set, char *out)
{
    int n = __builtin_popcount(set);
    _mm512_mask_storeu_epi32(out, (__mmask16)((1u << n) - 1), _mm512_maskz_compress_epi32((__mmask16)set, _mm512_loadu_si512(x)));
    return n;
}

AVX512 static inline int64_t compress_8(const char *x, unsigned set, char *out)
{
    int n = __builtin_popcount(set);
    _mm512_mask_storeu_epi64(out, (__mmask8)((1u << n) - 1), _mm512_maskz_compress_epi64((__mmask8)set, _mm512_loadu_si512(x)));
    return n;
}

/* 64 bytes of the mask at a time, as long as there is room for what they choose. */
#define BY_VECTORS(size, lanes) \
    AVX512 static int64_t vectors_##size(const Selection *s, int64_t *from) \
    { \
        int64_t i = 0, at = 0; \
        for (; i + 64 <= s->n; i += 64) { \
            __m512i bytes = _mm512_loadu_si512(s->mask + i); \
            uint64_t set = _mm512_test_epi8_mask(bytes, bytes); \
            if (at + __builtin_popcountll(set) > s->count) break; \
            for (int k = 0; set; k += lanes, set >>= lanes) \
                at += compress_##size(s->x + (i + k) * size, set & ((1u << lanes) - 1), s->out + at * size); \
        } \
        *from = i; \
        return at; \
    }
BY_VECTORS(1, 16)
BY_VECTORS(2, 16)
BY_VECTORS(4, 16)
BY_VECTORS(8, 8)

/* As many as there are vectors for: the place reached, and *from, the first element not looked at. */
static int64_t by_vectors(const Selection *s, int64_t size, int64_t *from)
{
    *from = 0;
    if (cpu_host()->level != CPU_AVX512 || s->mask_stride != 1 || s->stride != size) return 0;
    switch (size) {
    case 1: return vectors_1(s, from);
    case 2: return vectors_2(s, from);
    case 4: return vectors_4(s, from);
    case 8: return vectors_8(s, from);
    default: return 0;
    }
}
#endif

void select_fill(const char *x, int64_t size, int64_t stride, const uint8_t *mask, int64_t mask_stride, int64_t n, char *out, int64_t count)
{
    const Selection s = { x, stride, mask, mask_stride, n, out, count };
    int64_t from = 0, at = 0;
#if defined(__x86_64__)
    at = by_vectors(&s, size, &from);
#endif
    at = by_words(&s, size, from, at);
    if (at < count) memset(out + at * size, 0, (size_t)((count - at) * size));
}
