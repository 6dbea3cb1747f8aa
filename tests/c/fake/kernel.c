/* A kernel as a C compiler makes it, with every kind of section and relocation that the loader places:
 * out[i] = in[i] * factor(i) + addend; with parts that the executor's tests ask for. */
#include <stdint.h>

static const double factors[4] = {1, 2, 3, 4};
static const double *const *const rows[2] = {(const double *const[]){&factors[0], &factors[1]}, (const double *const[]){&factors[2], &factors[3]}};
int64_t calls;                          /* default visibility: by way of the GOT where the code is position-independent */

__attribute__((noinline)) static double factor(int64_t i)
{
    const double *const *const volatile *row = &rows[i / 2 % 2];
    return *(*row)[i % 2];
}

__attribute__((noinline)) static int digit(int64_t v)
{
    switch (v) {                        /* a jump table */
    case 0: return 3;
    case 1: return 1;
    case 2: return 4;
    case 3: return 1;
    case 4: return 5;
    case 5: return 9;
    default: return 0;
    }
}

/* args: in, out, status, addend, stop flag to set at point 10, digit to look up */
void kernel(const int64_t *args, int64_t begin, int64_t end, char *scratch)
{
    const double *in = (const double *)args[0];
    double *out = (double *)args[1];
    __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
    for (int64_t i = begin; i < end; i++) {
        if (scratch) *(volatile int64_t *)scratch = i;
        out[i] = in[i] * factor(i) + (double)args[3] + digit(args[5]);
        if (args[2] && in[i] < 0) *(int64_t *)args[2] = 7;
        if (args[4] && i == 10) *(volatile int *)args[4] = 1;
        if (scratch && *(volatile int64_t *)scratch != i) out[i] = -1;      /* somebody else has our scratch */
    }
}
