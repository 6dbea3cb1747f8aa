#include "base/cpu.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const char *const level_names[] = { "sse2", "avx2", "avx512", "neon" };
static const int level_bytes[] = { 16, 32, 64, 16 };

const char *cpu_level_name(CpuLevel level) { return level_names[level]; }
int cpu_level_vector_bytes(CpuLevel level) { return level_bytes[level]; }

#if defined(__x86_64__)
/* __builtin_cpu_supports also asks whether the system saves the wide registers. */
static CpuLevel host_level(void)
{
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")
                && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")
                  && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
    return avx2 && avx512 ? CPU_AVX512 : avx2 ? CPU_AVX2 : CPU_SSE2;
}

static bool host_vnni(void) { return __builtin_cpu_supports("avx512vnni"); }

static bool host_rep_movs(void)
{
    unsigned a, b = 0, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 9 & 1;
}

static void host_name(char *name, size_t room)
{
    unsigned r[13] = { 0 };
    for (unsigned k = 0; k < 3; k++)
        if (!__get_cpuid(0x80000002u + k, &r[4 * k], &r[4 * k + 1], &r[4 * k + 2], &r[4 * k + 3]))
            return;
    const char *p = (const char *)r;
    snprintf(name, room, "%s", p + strspn(p, " "));
}
#else
static CpuLevel host_level(void) { return CPU_NEON; }
static bool host_vnni(void) { return false; }
static bool host_rep_movs(void) { return false; }
static void host_name(char *name, size_t room) { snprintf(name, room, "AArch64"); }
#endif

/* One value of /sys/devices/system/cpu/cpu0/cache/index<k>/, or false. */
static bool cache_field(int k, const char *field, char *out, size_t room)
{
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", k, field);
    FILE *f = fopen(path, "r");
    if (!f)
        return false;
    bool ok = fgets(out, (int)room, f) != NULL;
    fclose(f);
    return ok;
}

/* Bytes of the data or unified cache of a level, 0 if the system does not say. */
static size_t sysfs_cache(int level)
{
    char level_text[16], type[32], size[32];
    for (int k = 0; k < 8; k++) {
        if (!cache_field(k, "level", level_text, sizeof level_text))
            return 0;
        if (atoi(level_text) != level || !cache_field(k, "type", type, sizeof type) || type[0] == 'I'
            || !cache_field(k, "size", size, sizeof size))
            continue;
        char *unit;
        size_t n = strtoul(size, &unit, 10);
        return *unit == 'K' ? n << 10 : *unit == 'M' ? n << 20 : n;
    }
    return 0;
}

static size_t cache_size(int level, size_t otherwise)
{
    size_t n = sysfs_cache(level);
#ifdef _SC_LEVEL1_DCACHE_SIZE
    const int names[] = { 0, _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE };
    long told = n ? 0 : sysconf(names[level]);
    if (told > 0)
        n = (size_t)told;
#endif
    return n ? n : otherwise;
}

/* The level that PYXLA_CPU asks for where the host has it, else the host's. */
static CpuLevel chosen_level(CpuLevel host)
{
    const char *want = getenv("PYXLA_CPU");
    for (int k = CPU_SSE2; want && k <= CPU_AVX512; k++)
        if (host != CPU_NEON && k < (int)host && !strcmp(want, level_names[k]))
            return (CpuLevel)k;
    return host;
}

/* PYXLA_CACHES=l1,l2: plans as for those sizes. */
static void chosen_caches(Cpu *cpu)
{
    const char *want = getenv("PYXLA_CACHES");
    size_t l1, l2;
    if (want && sscanf(want, "%zu,%zu", &l1, &l2) == 2 && l1 >= 4096 && l2 >= l1) {
        cpu->l1 = l1;
        cpu->l2 = l2;
    }
}

static void detect(Cpu *cpu)
{
    cpu->level = chosen_level(host_level());
    cpu->vector_bytes = level_bytes[cpu->level];
    cpu->vnni = cpu->level == CPU_AVX512 && host_vnni();
    cpu->rep_movs = host_rep_movs();
    cpu->l1 = cache_size(1, 32 << 10);
    cpu->l2 = cache_size(2, 1 << 20);
    cpu->l3 = cache_size(3, 32 << 20);
    chosen_caches(cpu);
    host_name(cpu->name, sizeof cpu->name);
}

const Cpu *cpu_host(void)
{
    static Cpu cpu;
    static atomic_int state;       /* 0: not asked, 1: one thread asks, 2: known */
    int none = 0;
    if (atomic_load_explicit(&state, memory_order_acquire) == 2)
        return &cpu;
    if (atomic_compare_exchange_strong(&state, &none, 1)) {
        detect(&cpu);
        atomic_store_explicit(&state, 2, memory_order_release);
    }
    while (atomic_load_explicit(&state, memory_order_acquire) != 2)
        sched_yield();
    return &cpu;
}
