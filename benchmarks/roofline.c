/* What the machine can do, measured: bytes per second of a copy and of a read over a working set of n bytes, and FMAs per second.
 * Plain vectors of 64 bytes; the compiler splits them where the machine's are shorter. Each function repeats its loop until
 * `seconds` have passed and returns the best rate of a pass. */
#include <stdint.h>
#include <string.h>
#include <time.h>

typedef float F32 __attribute__((vector_size(64), aligned(4), may_alias));
typedef double F64 __attribute__((vector_size(64), aligned(8), may_alias));

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

/* Passes over the data between two looks at the clock: at least 1 MiB. */
static int64_t passes_for(int64_t bytes) { return bytes >= 1 << 20 ? 1 : (1 << 20) / bytes; }

static void copy(char *restrict to, const char *restrict from, int64_t n) {
  for (int64_t i = 0; i < n; i += 256) {
    F32 a = *(const F32 *)(from + i), b = *(const F32 *)(from + i + 64);
    F32 c = *(const F32 *)(from + i + 128), d = *(const F32 *)(from + i + 192);
    *(F32 *)(to + i) = a, *(F32 *)(to + i + 64) = b, *(F32 *)(to + i + 128) = c, *(F32 *)(to + i + 192) = d;
  }
}

static F32 sum(const char *from, int64_t n) {
  F32 s[8] = {0};
  for (int64_t i = 0; i < n; i += 512)
    for (int j = 0; j < 8; j++) s[j] += *(const F32 *)(from + i + 64 * j);
  return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

/* Bytes read and written per second by a copy whose source and destination have n bytes together; n is a multiple of 1024. */
double copy_rate(char *memory, int64_t n, double seconds) {
  int64_t half = n / 2, passes = passes_for(n);
  double best = 0, end = now() + seconds;
  do {
    double start = now();
    for (int64_t i = 0; i < passes; i++) {
      copy(memory + half, memory, half);
      __asm__ volatile("" ::: "memory");
    }
    double rate = n * passes / (now() - start);
    best = rate > best ? rate : best;
  } while (now() < end);
  return best;
}

/* Bytes per second of a sum over n bytes; n is a multiple of 1024. */
double read_rate(char *memory, int64_t n, double seconds) {
  int64_t passes = passes_for(n);
  double best = 0, end = now() + seconds;
  F32 total = {0};
  do {
    double start = now();
    for (int64_t i = 0; i < passes; i++) {
      total += sum(memory, n);
      __asm__ volatile("" ::: "memory");
    }
    double rate = n * passes / (now() - start);
    best = rate > best ? rate : best;
  } while (now() < end);
  memcpy(memory, &total, sizeof total);
  return best;
}

/* Variables, not an array: gcc keeps an array of vectors in memory. */
#define EACH(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)
#define START(j) V x##j = a + (T)j;
#define STEP(j) x##j = x##j * a + b;
#define KEEP(j) __asm__ volatile("" ::"m"(x##j));
#define FMA_RATE                                          \
  {                                                       \
    V a = {0}, b = {0};                                   \
    a += (T)0.999, b += (T)0.001;                         \
    EACH(START)                                           \
    double best = 0, end = now() + seconds;               \
    do {                                                  \
      double start = now();                               \
      for (int i = 0; i < 20000; i++) {                   \
        EACH(STEP)                                        \
        __asm__ volatile("");                             \
      }                                                   \
      double rate = 20000.0 * 12 * LANES / (now() - start); \
      best = rate > best ? rate : best;                   \
    } while (now() < end);                                \
    EACH(KEEP)                                            \
    return best;                                          \
  }

/* Fused multiply-adds of elements per second, in twelve independent chains. */
#define LANES (sizeof(V) / sizeof(T))
#define V F32
#define T float
double fma_f32(double seconds) FMA_RATE
#undef V
#undef T
#define V F64
#define T double
double fma_f64(double seconds) FMA_RATE
