/* np.searchsorted, in two ways by turns, as np.interp (linear.c). A run: the key lies in the interval of the one before, or in a
 * neighbouring one. Other keys go by blocks, in which all keys take each step of a binary search without branches before the next one, so
 * that their loads do not wait for each other [measured: 100 k keys, 10 k float64: 350 us; a few vectors of keys side by side 840]. Their first
 * steps are one: PIVOTS elements of the table are compared with all keys, and those before a key counted, which loads nothing by index. */
#include "run/search.h"
#include <string.h>
#include "base/cpu.h"
#include "run/pool.h"

enum { BLOCK = 64, CHUNK = 4096, PIVOTS = 16 };  /* keys: of a block, of a grid point */

/* GCC vectorises gathers at -O3 alone. */
#if defined(__clang__)
#define VECTORS(...) __VA_ARGS__
#else
#define VECTORS(...) __attribute__((optimize("O3"))) __VA_ARGS__
#endif
#define INLINE static inline __attribute__((always_inline))
typedef bool Block(const void *table, int64_t m, bool equal, int64_t nan, const void *keys, int64_t *out);

/* Of BLOCK keys; whether most lie next to the one before. T: the elements' type, I: an integer of its size, W: bytes of a vector. */
#define BLOCK_OF(T, I, W, NAME, ATTRIBUTES) \
    typedef T NAME##_keys __attribute__((vector_size(W), aligned(1), may_alias)); \
    typedef I NAME##_counts __attribute__((vector_size(W))); \
    VECTORS(ATTRIBUTES) static bool NAME(const void *table, int64_t m, bool equal, int64_t nan, const void *keys, int64_t *out) \
    { \
        const T *t = table, *v = keys; \
        I at[BLOCK], far = 0; \
        int64_t step = (m + PIVOTS) / (PIVOTS + 1), rest = step - 1; \
        for (int i = 0; i < BLOCK; i += W / (int)sizeof(T)) { \
            NAME##_keys x = *(const NAME##_keys *)(v + i); \
            NAME##_counts before = {0}; \
            if (equal) \
                for (int64_t j = rest; j < m; j += step) before -= (NAME##_counts)(t[j] <= x); \
            else \
                for (int64_t j = rest; j < m; j += step) before -= (NAME##_counts)(t[j] < x); \
            memcpy(at + i, &before, W); \
        } \
        for (int i = 0; i < BLOCK; i++) at[i] = at[i] * (I)step < (I)(m - rest) ? at[i] * (I)step : (I)(m - rest); \
        for (int64_t n = rest; n > 1; n -= n / 2) { \
            I half = (I)(n / 2); \
            const T *mid = t + half - 1; \
            if (equal) \
                for (int i = 0; i < BLOCK; i++) at[i] = mid[at[i]] <= v[i] ? at[i] + half : at[i]; \
            else \
                for (int i = 0; i < BLOCK; i++) at[i] = mid[at[i]] < v[i] ? at[i] + half : at[i]; \
        } \
        if (rest) \
            for (int i = 0; i < BLOCK; i++) at[i] += equal ? t[at[i]] <= v[i] : t[at[i]] < v[i]; \
        for (int i = 0; i < BLOCK; i++) at[i] = v[i] <= v[i] ? at[i] : (I)nan; \
        for (int i = 1; i < BLOCK; i++) far += at[i] - at[i - 1] > 1 || at[i] - at[i - 1] < -1; \
        for (int i = 0; i < BLOCK; i++) out[i] = at[i]; \
        return far <= BLOCK / 4 && rest; \
    }

#if defined(__x86_64__)
#define LEVELS(T, I) \
    BLOCK_OF(T, I, 16, T##_block, ) \
    BLOCK_OF(T, I, 32, T##_block_256, __attribute__((target("avx2")))) \
    BLOCK_OF(T, I, 64, T##_block_512, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))) \
    static Block *T##_best(void) \
    { \
        CpuLevel level = cpu_host()->level; \
        return level == CPU_AVX512 ? T##_block_512 : level == CPU_AVX2 ? T##_block_256 : T##_block; \
    }
#else
#define LEVELS(T, I) \
    BLOCK_OF(T, I, 16, T##_block, ) \
    static Block *T##_best(void) { return T##_block; }
#endif

#define SEARCH(T, I) \
    LEVELS(T, I) \
    INLINE bool T##_is_nan(T v) { T w = v; return !(v <= w); } \
    INLINE bool T##_precedes(T x, T v, bool equal) { return equal ? x <= v : x < v; } \
    static int64_t T##_numbers(const Search *s) \
    { \
        int64_t n = s->m; \
        if (n && T##_is_nan(((const T *)s->table)[n - 1])) { \
            int64_t low = 0, high = n - 1; \
            while (low < high) { \
                int64_t mid = low + (high - low) / 2; \
                if (T##_is_nan(((const T *)s->table)[mid])) high = mid; \
                else low = mid + 1; \
            } \
            n = low; \
        } \
        return n; \
    } \
    /* n keys and zeros that make a block of them. */ \
    static bool T##_part(const Search *s, Block *block, int64_t nan, const char *keys, int64_t stride, int64_t n, int64_t *out) \
    { \
        T v[BLOCK] = {0}; \
        int64_t found[BLOCK]; \
        for (int64_t i = 0; i < n; i++) v[i] = *(const T *)(keys + i * stride); \
        bool near = block(s->table, s->m, s->equal, nan, v, found); \
        memcpy(out, found, (size_t)n * sizeof *out); \
        return near; \
    } \
    /* Keys after one whose place is `at`, as long as each is near the one before; how many. */ \
    static int64_t T##_run(const Search *s, int64_t at, const char *keys, int64_t stride, int64_t n, int64_t *out) \
    { \
        const T *t = s->table; \
        for (int64_t i = 0; i < n; i++) { \
            T v = *(const T *)(keys + i * stride); \
            if (T##_is_nan(v)) return i; \
            if (at < s->m && T##_precedes(t[at], v, s->equal)) { \
                at++; \
                if (at < s->m && T##_precedes(t[at], v, s->equal)) return i; \
            } else if (at > 0 && !T##_precedes(t[at - 1], v, s->equal)) { \
                at--; \
                if (at > 0 && !T##_precedes(t[at - 1], v, s->equal)) return i; \
            } \
            out[i] = at; \
        } \
        return n; \
    } \
    static void T##_fill(const Search *s, const char *keys, int64_t stride, int64_t n, int64_t *out) \
    { \
        Block *block = T##_best(); \
        int64_t nan = s->equal ? s->m : T##_numbers(s); \
        for (int64_t i = 0; i < n;) { \
            int64_t size = n - i < BLOCK ? n - i : BLOCK; \
            const char *from = keys + i * stride; \
            bool whole = size == BLOCK && stride == sizeof(T); \
            bool run = whole ? block(s->table, s->m, s->equal, nan, from, out + i) : T##_part(s, block, nan, from, stride, size, out + i); \
            i += size; \
            if (run) i += T##_run(s, out[i - 1], keys + i * stride, stride, n - i, out + i); \
        } \
    }

typedef int32_t int32;
typedef int64_t int64;
typedef uint32_t uint32;
typedef uint64_t uint64;
SEARCH(float, int32_t)
SEARCH(double, int64_t)
SEARCH(int32, int32_t)
SEARCH(int64, int64_t)
SEARCH(uint32, int32_t)
SEARCH(uint64, int64_t)

static void (*const fills[SEARCH_KINDS])(const Search *, const char *, int64_t, int64_t, int64_t *) = {
    float_fill, double_fill, int32_fill, int64_fill, uint32_fill, uint64_fill};

typedef struct { const Search *s; const char *keys; int64_t stride, n, *out; } Job;

static void fill_chunks(void *ctx, int worker, int64_t begin, int64_t end)
{
    (void)worker;
    const Job *j = ctx;
    int64_t first = begin * CHUNK, last = end * CHUNK < j->n ? end * CHUNK : j->n;
    fills[j->s->kind](j->s, j->keys + first * j->stride, j->stride, last - first, j->out + first);
}

void search_fill(const Search *s, const char *keys, int64_t stride, int64_t n, int64_t *out)
{
    if (!s->m) {
        for (int64_t i = 0; i < n; i++) out[i] = 0;
        return;
    }
    Job j = {s, keys, stride, n, out};
    int64_t chunks = (n + CHUNK - 1) / CHUNK;
    if (n <= 2 * CHUNK) fill_chunks(&j, 0, 0, 2);
    else pool_run(fill_chunks, &j, chunks, 0, chunks);
}
