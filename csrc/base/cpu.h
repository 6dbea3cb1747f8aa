/* What the host can do, asked once: the vector level and the sizes of the caches.
 *
 * PYXLA_CPU=sse2|avx2|avx512|neon lowers the level (never raises it), PYXLA_CACHES=l1,l2 changes the sizes that plans are made for: for tests. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

typedef enum { CPU_SSE2, CPU_AVX2, CPU_AVX512, CPU_NEON } CpuLevel;  /* x86-64-v1, -v3 (with FMA), -v4; AArch64 */

typedef struct {
    CpuLevel level;
    int vector_bytes;              /* 16, 32, 64, 16 */
    bool vnni;                     /* at the level avx512: 4 products of bytes added to an int32 by one instruction */
    bool rep_movs;                 /* copies long runs by one instruction, which need not read what it overwrites */
    size_t l1, l2, l3;             /* bytes of data cache, per core (l3: shared) */
    char name[64];
} Cpu;

const Cpu *cpu_host(void);
const char *cpu_level_name(CpuLevel level);
int cpu_level_vector_bytes(CpuLevel level);
