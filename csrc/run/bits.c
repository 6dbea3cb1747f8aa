#include "run/bits.h"
#include <string.h>
#include "base/cpu.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define EACH_BYTE UINT64_C(0x0101010101010101)

/* Words are read in the order of memory, lowest byte first. */
static uint64_t read_word(const uint8_t *from)
{
    uint64_t w;
    memcpy(&w, from, sizeof w);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    w = __builtin_bswap64(w);
#endif
    return w;
}

static void write_word(uint8_t *to, uint64_t w)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    w = __builtin_bswap64(w);
#endif
    memcpy(to, &w, sizeof w);
}

/* Eight bytes to a bit each: their lowest bits meet in the uppermost byte of a product. */
static uint8_t pack_word(uint64_t w, bool little)
{
    w = (((w & ~(EACH_BYTE << 7)) + (EACH_BYTE * 0x7f)) | w) >> 7 & EACH_BYTE;
    return (uint8_t)(w * (little ? UINT64_C(0x0102040810204080) : UINT64_C(0x8040201008040201)) >> 56);
}

/* Eight bits to a byte each. */
static uint64_t unpack_byte(uint8_t b, bool little)
{
    uint64_t one = (b * EACH_BYTE) & (little ? UINT64_C(0x8040201008040201) : UINT64_C(0x0102040810204080));
    return (one + EACH_BYTE * 0x7f) >> 7 & EACH_BYTE;
}

#if defined(__x86_64__)
/* Within each eight bytes the last one first. */
static const uint8_t turned[64] __attribute__((aligned(64))) = {
    7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8,
    7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8};
static const uint8_t in_order[64] __attribute__((aligned(64))) = {
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* These take whole vectors and give the number of bytes that they have read or made. */
__attribute__((target("avx512f,avx512bw")))
static int64_t pack_512(const uint8_t *from, int64_t n, bool little, uint8_t *to)
{
    const __m512i order = _mm512_load_si512(little ? in_order : turned);
    int64_t i = 0;
    for (; i + 64 <= n; i += 64) {
        __m512i x = _mm512_shuffle_epi8(_mm512_loadu_si512(from + i), order);
        write_word(to + i / 8, _mm512_test_epi8_mask(x, x));
    }
    return i;
}

__attribute__((target("avx512f,avx512bw")))
static int64_t unpack_512(const uint8_t *from, bool little, uint8_t *to, int64_t n)
{
    const __m512i order = _mm512_load_si512(little ? in_order : turned), one = _mm512_set1_epi8(1);
    int64_t i = 0;
    for (; i + 64 <= n; i += 64)
        _mm512_storeu_si512(to + i, _mm512_shuffle_epi8(_mm512_maskz_mov_epi8(read_word(from + i / 8), one), order));
    return i;
}

__attribute__((target("avx2")))
static int64_t pack_256(const uint8_t *from, int64_t n, bool little, uint8_t *to)
{
    const __m256i order = _mm256_load_si256((const void *)(little ? in_order : turned)), zero = _mm256_setzero_si256();
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i x = _mm256_shuffle_epi8(_mm256_loadu_si256((const void *)(from + i)), order);
        uint32_t bits = ~(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(x, zero));
        memcpy(to + i / 8, &bits, sizeof bits);
    }
    return i;
}

__attribute__((target("avx2")))
static int64_t unpack_256(const uint8_t *from, bool little, uint8_t *to, int64_t n)
{
    const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i bit = _mm256_set1_epi64x(little ? (int64_t)UINT64_C(0x8040201008040201) : INT64_C(0x0102040810204080)), one = _mm256_set1_epi8(1);
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
        uint32_t bits;
        memcpy(&bits, from + i / 8, sizeof bits);
        __m256i x = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), spread), bit);
        _mm256_storeu_si256((void *)(to + i), _mm256_and_si256(_mm256_cmpeq_epi8(x, bit), one));
    }
    return i;
}
#endif

void bits_pack(const uint8_t *from, int64_t n, bool little, uint8_t *to)
{
    int64_t i = 0;
#if defined(__x86_64__)
    CpuLevel level = cpu_host()->level;
    i = level == CPU_AVX512 ? pack_512(from, n, little, to) : level == CPU_AVX2 ? pack_256(from, n, little, to) : 0;
#endif
    for (; i + 8 <= n; i += 8)
        to[i / 8] = pack_word(read_word(from + i), little);
    uint8_t rest[8] = {0};
    memcpy(rest, from + i, (size_t)(n - i));
    if (i < n)
        to[i / 8] = pack_word(read_word(rest), little);
}

void bits_unpack(const uint8_t *from, int64_t m, bool little, uint8_t *to, int64_t n)
{
    int64_t i = 0, have = n < 8 * m ? n : 8 * m;
#if defined(__x86_64__)
    CpuLevel level = cpu_host()->level;
    i = level == CPU_AVX512 ? unpack_512(from, little, to, have) : level == CPU_AVX2 ? unpack_256(from, little, to, have) : 0;
#endif
    for (; i + 8 <= have; i += 8)
        write_word(to + i, unpack_byte(from[i / 8], little));
    if (i < have) {
        uint8_t rest[8];
        write_word(rest, unpack_byte(from[i / 8], little));
        memcpy(to + i, rest, (size_t)(have - i));
    }
    memset(to + have, 0, (size_t)(n - have));
}
