/* The runtime: memory, pool, loader, compiler threads and executor, with a code generator that is not LLVM (tests/c/fake).
 * `test_run bench` prints what the small operations cost. */
#define _GNU_SOURCE
#include <fenv.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "run/compile.h"
#include "run/exec.h"
#include "run/limits.h"
#include "run/memory.h"
#include "run/pool.h"

/* ThreadSanitizer ends a child that makes threads unless it is asked not to. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "die_after_fork=0"; }

static atomic_int failures;

#define CHECK(cond)                                                                  \
    do {                                                                             \
        if (!(cond)) {                                                               \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);               \
            failures++;                                                              \
        }                                                                            \
    } while (0)

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Runs fn in a child; its exit status, or -1 if it ended otherwise. */
static int in_child(int (*fn)(void))
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        _exit(fn());
    }
    int status;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void in_threads(int n, void *(*fn)(void *), void *arg)
{
    pthread_t t[16];
    for (int k = 0; k < n; k++) CHECK(pthread_create(&t[k], NULL, fn, arg) == 0);
    for (int k = 0; k < n; k++) pthread_join(t[k], NULL);
}

/* ---- memory ---- */

static bool filled(const char *p, size_t n, char with)
{
    for (size_t k = 0; k < n; k++)
        if (p[k] != with) return false;
    return true;
}

static void test_sizes(void)
{
    size_t sizes[] = {0, 1, 63, 64, 65, 1000, 4096, 4097, 5120, 5121, 32768, 32769, 1 << 20, (1 << 20) + 1, 3 << 20, 5 << 20};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        size_t n = sizes[k];
        for (int round = 0; round < 3; round++) {
            char *p = mem_alloc(n);
            CHECK(p && (uintptr_t)p % 64 == 0);
            memset(p, 0x5A, n);
            mem_free(p);
            p = mem_calloc(n);
            CHECK(p && filled(p, n, 0));
            mem_free(p);
        }
    }
    mem_free(NULL);
    CHECK(mem_alloc(SIZE_MAX) == NULL && mem_alloc((size_t)1 << 60) == NULL && mem_alloc((size_t)1 << 47) == NULL);
    for (size_t n = 1; n < 20000; n += 37) {                 /* every class holds what it is for */
        char *p = mem_alloc(n), *q = mem_alloc(n);
        memset(p, 1, n);
        memset(q, 2, n);
        CHECK(filled(p, n, 1));
        mem_free(p);
        mem_free(q);
    }
}

static void test_realloc(void)
{
    char *p = mem_realloc(NULL, 10);
    memcpy(p, "abcdefghi", 10);
    for (size_t n = 10; n < 10 << 20; n = n * 3 + 1) CHECK((p = mem_realloc(p, n)) && strcmp(p, "abcdefghi") == 0);
    p = mem_realloc(p, 10);
    CHECK(strcmp(p, "abcdefghi") == 0);
    mem_fail_at(1);
    CHECK(mem_realloc(p, 1 << 20) == NULL && strcmp(p, "abcdefghi") == 0);
    mem_free(p);
}

static void test_counts(void)
{
    mem_trim();
    size_t limit = mem_info().limit;
    MemInfo a = mem_info();
    CHECK(a.cached == 0);
    char *small = mem_alloc(100), *large = mem_alloc(8 << 20);
    MemInfo b = mem_info();
    CHECK(b.in_use - a.in_use == 128 + (8 << 20) && b.allocations - a.allocations == 2 && b.peak >= b.in_use);
    mem_free(large);
    mem_free(small);
    MemInfo c = mem_info();
    CHECK(c.in_use == a.in_use && c.cached == 128 + (8 << 20));
    CHECK((large = mem_alloc((8 << 20) - 5)) && mem_info().reused - c.reused == 1 && mem_info().cached == 128);
    mem_free(large);
    CHECK(mem_trim() == 128 + (8 << 20) && mem_info().cached == 0);

    mem_limit(10 << 20);
    void *p[6];
    for (int k = 0; k < 6; k++) p[k] = mem_alloc(4 << 20);
    for (int k = 0; k < 6; k++) mem_free(p[k]);
    CHECK(mem_info().cached == 8 << 20);
    mem_limit(0);
    CHECK(mem_info().cached == 0);
    mem_free(mem_alloc(64));
    mem_free(mem_alloc(1 << 20));
    CHECK(mem_info().cached == 0);
    mem_limit(limit);
}

static void test_fail_at(void)
{
    mem_fail_at(3);
    void *a = mem_alloc(10), *b = mem_calloc(10), *c = mem_alloc(10), *d = mem_alloc(10);
    CHECK(a && b && !c && d);
    mem_free(a);
    mem_free(b);
    mem_free(d);
    mem_fail_at(1);
    mem_fail_at(0);
    CHECK((a = mem_alloc(1 << 22)));
    mem_free(a);
}

enum { SHARED = 64 };
static _Atomic(char *) shared[SHARED];

/* Blocks made by one thread and freed by another, each marked with its size. */
static void *memory_stress(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)&arg;
    for (int k = 0; k < 20000; k++) {
        size_t n = (size_t)rand_r(&seed) % (k % 100 ? 3000 : 100000) + 8;
        char *p = mem_alloc(n);
        memcpy(p, &n, sizeof n);
        memset(p + sizeof n, (char)n, n - sizeof n);
        p = atomic_exchange(&shared[rand_r(&seed) % SHARED], p);
        if (!p) continue;
        memcpy(&n, p, sizeof n);
        CHECK(filled(p + sizeof n, n - sizeof n, (char)n));
        mem_free(p);
        if (k % 5000 == 0) mem_trim(), mem_info();
    }
    return NULL;
}

static void test_memory_threads(void)
{
    size_t before = mem_info().in_use;
    in_threads(4, memory_stress, NULL);
    for (int k = 0; k < SHARED; k++) mem_free(atomic_exchange(&shared[k], NULL));
    CHECK(mem_info().in_use == before);
    mem_trim();
    CHECK(mem_info().cached == 0);
}

static int overrun(void) { volatile char *p = mem_alloc(1001); p[1001] = 1; return 0; }
static int after_free(void) { volatile char *p = mem_alloc(1001); mem_free((void *)p); p[0] = 1; return 0; }
static int underrun(void) { volatile char *p = mem_alloc(1001); p[-3] = 1; mem_free((void *)p); return 0; }

static int checked_memory(void)
{
    setenv("PYXLA_CHECK", "1", 1);
    for (size_t n = 1; n < 10000; n += 991) {
        unsigned char *p = mem_alloc(n);
        CHECK(p && p[0] == 0xFF && p[n - 1] == 0xFF);
        memset(p, 3, n);
        CHECK((p = mem_realloc(p, 2 * n)) && p[n - 1] == 3);
        mem_free(p);
        p = mem_calloc(n);
        CHECK(filled((char *)p, n, 0) && ((uintptr_t)p + n) % 4096 == 0);
        mem_free(p);
    }
    CHECK(mem_info().in_use == 0 && mem_info().cached == 0);
    close(2);                                               /* what a sanitizer says of these */
    CHECK(in_child(overrun) != 0 && in_child(after_free) != 0 && in_child(underrun) != 0);
    return failures != 0;
}

static void test_memory(void)
{
    CHECK(in_child(checked_memory) == 0);                   /* first: the setting is read at first use */
    test_sizes();
    test_realloc();
    test_counts();
    test_fail_at();
    test_memory_threads();
}

/* ---- pool ---- */

enum { N = 100003 };
static uint8_t seen[N];
static atomic_int workers_bad;

static void mark(void *ctx, int worker, int64_t begin, int64_t end)
{
    if (worker < 0 || worker >= *(int *)ctx) workers_bad++;
    for (int64_t k = begin; k < end; k++) seen[k]++;
}

static void test_pool_covers(void)
{
    for (int threads = 1; threads < 9; threads++)
        for (int64_t n = 0; n < 40; n += 1 + n / 4) {
            memset(seen, 0, sizeof seen);
            pool_run(mark, &threads, n, threads, n);
            for (int64_t k = 0; k < 50; k++) CHECK(seen[k] == (k < n));
        }
    memset(seen, 0, sizeof seen);
    int threads = pool_workers(0);
    pool_run(mark, &threads, N, 0, N);
    CHECK(filled((char *)seen, N, 1) && workers_bad == 0);
}

static void count(void *ctx, int worker, int64_t begin, int64_t end)
{
    (void)worker;
    atomic_fetch_add((atomic_llong *)ctx, end - begin);
}

static void nested(void *ctx, int worker, int64_t begin, int64_t end)
{
    (void)worker;
    for (int64_t k = begin; k < end; k++) pool_run(count, ctx, 10, 4, 10);
}

static void *pool_stress(void *arg)
{
    for (int k = 0; k < 2000; k++) {
        atomic_llong sum = 0;
        pool_run(count, &sum, 1000, 4, 1000);
        if (k % 100 == 0) pool_run(nested, &sum, 30, 3, 30);
        CHECK(sum == (k % 100 ? 1000 : 1300));
        if (k % 500 == 0) usleep(100);                      /* let the workers sleep */
    }
    return arg;
}

static void rounding(void *ctx, int worker, int64_t begin, int64_t end)
{
    (void)worker, (void)begin, (void)end;
    if (fegetround() != *(int *)ctx) workers_bad++;
    usleep(200);                                            /* so that no worker's chunk is taken back */
}

/* The first point of the first chunk takes until all others are done. */
static void first_waits(void *ctx, int worker, int64_t begin, int64_t end)
{
    atomic_llong *done = ctx;
    (void)worker;
    for (int k = 0; begin == 0 && *done < 31 && k < 200000; k++) usleep(100);
    atomic_fetch_add(done, end - begin);
    if (begin == 0) CHECK(*done == 32);
}

static int pool_in_child(void)
{
    atomic_llong sum = 0;
    pool_run(count, &sum, 1000, 4, 1000);
    pool_shutdown();
    return sum != 1000;
}

static void test_pool(void)
{
    test_pool_covers();
    pool_stress(NULL);
    in_threads(4, pool_stress, NULL);
    int up = FE_UPWARD;
    fesetround(FE_UPWARD);
    for (int k = 0; k < 5; k++) pool_run(rounding, &up, 4, 4, 0);
    fesetround(up = FE_TONEAREST);
    pool_run(rounding, &up, 4, 4, 0);
    CHECK(workers_bad == 0);
    atomic_llong done = 0;
    pool_run(first_waits, &done, 32, 2, 32);
    CHECK(in_child(pool_in_child) == 0);
    pool_shutdown();
    test_pool_covers();
    pool_set_threads(3);
    CHECK(pool_threads() == 3 && pool_workers(0) == 3 && pool_workers(5) == 3 && pool_workers(2) == 2 && pool_workers(-1) == 3);
    pool_set_threads(0);
    CHECK(pool_threads() == pool_default_threads() && limits_cores() >= 1 && limits_memory() > 1 << 20);
    setenv("PYXLA_NUM_THREADS", "7", 1);
    CHECK(pool_default_threads() == 7);
    setenv("PYXLA_NUM_THREADS", "many", 1);
    CHECK(pool_default_threads() == limits_cores());
    unsetenv("PYXLA_NUM_THREADS");
}

/* ---- building the objects of tests/c/fake ---- */

static char folder[] = "/tmp/pyxla-test-XXXXXX", fake[PATH_MAX];

static char *path(const char *name)
{
    static char out[4][PATH_MAX];
    static int at;
    at = (at + 1) % 4;
    snprintf(out[at], PATH_MAX, "%s/%s", folder, name);
    return out[at];
}

static bool run_cc(const char *flags, const char *source, const char *out)
{
    char command[3 * PATH_MAX];
    const char *cc = getenv("CC");
    snprintf(command, sizeof command, "%s -std=gnu17 -O2 %s -I%s/../../../csrc %s/%s -o %s", cc && *cc ? cc : "cc", flags, fake, fake, source,
             path(out));
    return system(command) == 0;
}

static bool build_fakes(void)
{
    snprintf(fake, sizeof fake, "%s", __FILE__);
    char *slash = strrchr(fake, '/');
    snprintf(slash ? slash + 1 : fake, 16, "fake");
    if (!mkdtemp(folder)) return false;
    FILE *f = fopen(path("undefined.c"), "w");
    fprintf(f, "int puts(const char *); void kernel(void) { puts(\"\"); }\n");
    fclose(f);
    char undefined[2 * PATH_MAX];
    snprintf(undefined, sizeof undefined, "cc -O2 -c %s -o %s", path("undefined.c"), path("undefined.o"));
    return run_cc("-c -fPIC", "kernel.c", "pic.o") && run_cc("-c -fPIC -fno-plt -fno-jump-tables", "kernel.c", "plain.o") &&
           run_cc("-c -fno-pic -mcmodel=large", "kernel.c", "large.o") &&
           run_cc("-shared -fPIC", "generator.c", "generator.so") && system(undefined) == 0;
}

static void remove_fakes(void)
{
    char command[PATH_MAX + 16];
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK(system(command) == 0);
}

/* A file of the folder in memory of exactly its size, so that a sanitizer sees reads past it. */
static char *read_file(const char *name, size_t *len)
{
    FILE *f = fopen(path(name), "rb");
    fseek(f, 0, SEEK_END);
    *len = (size_t)ftell(f);
    rewind(f);
    char *p = malloc(*len);
    CHECK(fread(p, 1, *len, f) == *len);
    fclose(f);
    return p;
}

/* ---- code ---- */

static void run_kernel(KernelFn fn)
{
    double in[12], out[12];
    for (int k = 0; k < 12; k++) in[k] = k;
    for (int digit = 0; digit < 6; digit++) {
        int64_t args[6] = {(int64_t)in, (int64_t)out, 0, 100, 0, digit};
        fn(args, 0, 12, NULL);
        for (int k = 0; k < 12; k++) CHECK(out[k] == k * (k % 4 + 1) + 100 + "\3\1\4\1\5\11"[digit]);
    }
}

static void test_load(const char *name)
{
    size_t len;
    Err err = {0};
    char *object = read_file(name, &len);
    Code *c = code_load(object, len, name, &err);
    CHECK(c && err.kind == ERR_NONE);
    if (!c) fprintf(stderr, "%s\n", err.msg);
    else {
        run_kernel(code_entry(c));
        CHECK(code_total() == code_bytes(c) && code_bytes(c) > 0);
        code_ref(c);
        code_unref(c);
        run_kernel(code_entry(c));
        code_unref(c);
        CHECK(code_total() == 0);
    }
    free(object);
}

/* Damaged objects are errors, or happen to load; they are not run. */
static void try_load(const char *object, size_t len, bool may_load)
{
    Err err = {0};
    char *copy = malloc(len ? len : 1);
    memcpy(copy, object, len);
    Code *c = code_load(copy, len, "damaged", &err);
    CHECK((c != NULL) == (err.kind == ERR_NONE) && (may_load || !c));
    code_unref(c);
    free(copy);
}

static void test_damage(void)
{
    size_t len;
    char *object = read_file("pic.o", &len);
    for (size_t n = 0; n < len; n++) try_load(object, n, false);
    for (size_t k = 0; k < len; k++)
        for (int flip = 1; flip < 256; flip = flip * 5 + 2) {
            object[k] ^= (char)flip;
            try_load(object, len, true);
            object[k] ^= (char)flip;
        }
    unsigned seed = 1;
    for (int round = 0; round < 3000; round++) {            /* eight bytes at a time: sizes and offsets of all ones */
        char saved[8];
        size_t k = (size_t)rand_r(&seed) % (len - 8);
        memcpy(saved, object + k, 8);
        memset(object + k, round % 2 ? 0xFF : 0x7F, 8);
        try_load(object, len, true);
        memcpy(object + k, saved, 8);
    }
    free(object);
    CHECK(code_total() == 0);
}

static void test_undefined(void)
{
    size_t len;
    Err err = {0};
    char *object = read_file("undefined.o", &len);
    CHECK(!code_load(object, len, "k", &err) && err.kind == ERR_INTERNAL && strstr(err.msg, "'puts'"));
    free(object);
}

/* Space is reused, whatever the order; live code is not touched. */
static void test_code_space(void)
{
    enum { LIVE = 700 };
    static Code *code[LIVE];
    size_t len;
    Err err = {0};
    unsigned seed = 5;
    char *object = read_file("pic.o", &len);
    for (int k = 0; k < 4000; k++) {
        Code **c = &code[rand_r(&seed) % LIVE];
        code_unref(*c);
        CHECK((*c = code_load(object, len, "k", &err)));
        if (k % 10 == 0 && *c) run_kernel(code_entry(*c));
    }
    for (int k = 0; k < LIVE; k++) {
        if (code[k]) run_kernel(code_entry(code[k]));
        code_unref(code[k]);
    }
    CHECK(code_total() == 0);
    free(object);
}

static Code *inherited;

static int code_in_child(void)
{
    size_t len;
    Err err = {0};
    char *object = read_file("pic.o", &len);
    run_kernel(code_entry(inherited));
    Code *c = code_load(object, len, "k", &err);
    if (!c) return 1;
    run_kernel(code_entry(c));
    code_unref(inherited);
    code_unref(c);
    return failures != 0;
}

static void test_code(void)
{
    test_load("pic.o");
    test_load("plain.o");
    test_load("large.o");
    test_undefined();
    test_damage();
    test_code_space();
    size_t len;
    Err err = {0};
    char *object = read_file("pic.o", &len);
    inherited = code_load(object, len, "k", &err);
    CHECK(in_child(code_in_child) == 0);
    run_kernel(code_entry(inherited));
    code_unref(inherited);
    free(object);
}

/* ---- compile ---- */

/* A kernel that is like no other number's. */
static Kernel *numbered(Arena *a, uint32_t number)
{
    Kernel *k = kernel_new(a);
    k->nargs = number;
    return k;
}

/* Compiles the kernels `first` ... `first + n - 1`. */
static bool compile_numbers(uint32_t first, int n, Code **out, CompileStats *stats, Err *err)
{
    const Kernel *k[64];
    Arena *a = arena_new(err);
    for (int i = 0; i < n; i++) k[i] = numbered(a, first + (uint32_t)i);
    bool ok = compile_kernels(k, n, CPU_SSE2, out, stats, NULL, NULL, err);
    arena_free(a);
    return ok;
}

static void unref_all(Code **c, int n)
{
    for (int k = 0; k < n; k++) code_unref(c[k]);
}

static void test_compile_once(void)
{
    Err err = {0};
    CompileStats stats = {0};
    Code *c[16], *d[16];
    CHECK(compile_numbers(10, 16, c, &stats, &err) && stats.compiled == 16 && stats.reused == 0 && stats.seconds > 0);
    for (int k = 0; k < 16; k++) run_kernel(code_entry(c[k]));
    CHECK(compile_numbers(10, 16, d, &stats, &err) && stats.compiled == 16 && stats.reused == 16);
    CHECK(memcmp(c, d, sizeof c) == 0 && compile_count() == 16);
    compile_limits(4);
    CHECK(compile_count() == 4);
    run_kernel(code_entry(c[0]));                          /* dropped from the table, not from us */
    unref_all(c, 16);
    unref_all(d, 16);
    CHECK(compile_numbers(10, 1, c, &stats, &err) && stats.compiled == 17 && compile_count() == 4);
    CHECK(compile_numbers(25, 1, c + 1, &stats, &err) && stats.compiled == 17);
    compile_limits(4096);
    compile_clear();
    CHECK(compile_count() == 0);
    unref_all(c, 2);
    CHECK(code_total() == 0);
}

static atomic_uint compiled;

static void *compile_stress(void *arg)
{
    for (uint32_t k = 0; k < 40; k++) {
        Err err = {0};
        CompileStats stats = {0};
        Code *c[4];
        CHECK(compile_numbers(100 + k, 4, c, &stats, &err));
        compiled += stats.compiled;
        run_kernel(code_entry(c[3]));
        unref_all(c, 4);
    }
    return arg;
}

static void test_compile_errors(void)
{
    Code *c[8];
    CompileStats stats = {0};
    for (int k = 0; k < 2; k++) {
        Err err = {0};
        CHECK(!compile_numbers(999, 3, c, &stats, &err) && err.kind == ERR_UNSUPPORTED && strcmp(err.msg, "no such kernel") == 0);
        CHECK(!c[0] && !c[1] && !c[2]);
    }
    CHECK(stats.compiled == 4 && stats.reused == 2);       /* the failed one is tried again */
    for (uint32_t k = 0; k < 10; k++) {
        Err err = {0};
        CHECK(!compile_numbers(2000 + k, 8, c, &stats, &err) && err.kind == ERR_COMPILE && strstr(err.msg, "Cannot select"));
    }
    Err err = {0};
    CHECK(compile_numbers(50, 1, c, &stats, &err));        /* and life goes on */
    unref_all(c, 1);
}

static bool at_once(void *ctx) { return ++*(int *)ctx == 2; }

static void test_interrupt(void)
{
    Err err = {0};
    CompileStats stats = {0};
    int asked = 0;
    Code *c;
    Arena *a = arena_new(&err);
    const Kernel *k = numbered(a, 3000);
    double start = now();
    CHECK(!compile_kernels(&k, 1, CPU_SSE2, &c, &stats, at_once, &asked, &err) && err.kind == ERR_NONE && !c);
    CHECK(asked == 2 && now() - start < 0.29);
    CHECK(compile_kernels(&k, 1, CPU_SSE2, &c, &stats, NULL, NULL, &err) && stats.compiled == 1 && stats.reused == 1);
    code_unref(c);
    arena_free(a);
}

static void *slow_compile(void *arg)
{
    Err err = {0};
    CompileStats stats = {0};
    Code *c[2] = {0};
    CHECK(compile_numbers(3100, 2, c, &stats, &err));
    unref_all(c, 2);
    return arg;
}

static int compile_in_child(void)
{
    Err err = {0};
    CompileStats stats = {0};
    Code *c[4];
    bool ok = compile_numbers(10, 4, c, &stats, &err) && compile_numbers(3100, 2, c, &stats, &err);
    if (!ok) fprintf(stderr, "%s\n", err.msg);
    return !ok || failures;
}

static void test_compile_fork(void)
{
    pthread_t t;
    pthread_create(&t, NULL, slow_compile, NULL);
    usleep(50000);                                         /* it compiles now */
    CHECK(in_child(compile_in_child) == 0);
    pthread_join(t, NULL);
}

static void test_text(void)
{
    Err err = {0};
    Text ir = {0}, assembly = {0};
    Arena *a = arena_new(&err);
    uint32_t before = compile_count();
    CHECK(compile_text(numbered(a, 60), CPU_SSE2, &ir, &assembly, &err));
    CHECK(strcmp(ir.at, "define void @kernel") == 0 && strcmp(assembly.at, "kernel: ret") == 0 && compile_count() == before);
    CHECK(!compile_text(numbered(a, 2500), CPU_SSE2, &ir, &assembly, &err) && err.kind == ERR_COMPILE);
    text_free(&ir);
    text_free(&assembly);
    arena_free(a);
}

static void test_compile(void)
{
    Err err = {0};
    compile_set_generator("/nowhere/gen.so");
    CHECK(!compile_llvm_version(&err) && err.kind == ERR_COMPILE && strstr(err.msg, "/nowhere/gen.so"));
    err.kind = ERR_NONE;
    compile_set_generator(path("generator.so"));
    setenv("PYXLA_TEST_OBJECT", path("pic.o"), 1);
    CHECK(strcmp(compile_llvm_version(&err), "fake 1.0") == 0);
    test_compile_once();
    in_threads(4, compile_stress, NULL);
    CHECK(compiled == 43);
    test_compile_errors();
    test_interrupt();
    test_compile_fork();
    test_text();
    compile_clear();
    CHECK(code_total() == 0);
}

/* ---- exec ---- */

enum { POINTS = 1000 };

/* A plan of two launches of the fake kernel: in -> temporary -> out, by way of the workspace. */
typedef struct {
    Kernel kernel;
    const Kernel *kernels[1];
    Launch launch[2];
    int64_t words[12];
    Patch patch[6];
    Slot slot[4];
    Plan plan;
    Code *code[1];
    double in[POINTS], out[POINTS];
    void *ins[1], *outs[1];
} Sample;

static void sample_make(Sample *s, float ns)
{
    memset(s, 0, sizeof *s);
    s->kernels[0] = &s->kernel;
    for (int k = 0; k < 2; k++) {
        s->launch[k] = (Launch){0, 6 * (uint32_t)k, 6, 3 * (uint32_t)k, 3, POINTS, 8, ns};
        s->words[6 * k + 3] = 10;
    }
    memcpy(s->patch, (Patch[]){{0, 0, 0}, {1, 1, 0}, {2, 3, 0}, {0, 1, 0}, {1, 2, 0}, {2, 3, 0}}, sizeof s->patch);
    s->slot[0] = (Slot){SLOT_INPUT, DT_float64, 0, sizeof s->in, 0};
    s->slot[1] = (Slot){SLOT_TEMP, DT_float64, 0, sizeof s->in, 0};
    s->slot[2] = (Slot){SLOT_OUTPUT, DT_float64, 0, sizeof s->in, 0};
    s->slot[3] = (Slot){SLOT_STATUS, DT_int64, 0, 8, 0};
    Plan *p = &s->plan;
    p->kernels.at = s->kernels, p->kernels.len = 1;
    p->launches.at = s->launch, p->launches.len = 2;
    p->words.at = s->words, p->words.len = 12;
    p->patches.at = s->patch, p->patches.len = 6;
    p->slots.at = s->slot, p->slots.len = 4;
    p->ninputs = p->noutputs = 1;
    p->workspace = sizeof s->in;
    for (int k = 0; k < POINTS; k++) s->in[k] = k;
    s->ins[0] = s->in;
    s->outs[0] = s->out;
}

static int64_t sample_run(Sample *s, Code *code, int threads, const atomic_int *stop)
{
    int64_t words[12];
    memcpy(words, s->words, sizeof words);
    s->code[0] = code;
    Exec e = {&s->plan, s->code, threads};
    return exec_run(&e, words, &(Addresses){.in = s->ins, .out = s->outs}, stop, NULL);
}

static double expected(int k)
{
    double f = k % 4 + 1;
    return (k * f + 13) * f + 13;
}

static void test_exec_code(Code *code)
{
    static Sample s;
    float ns[] = {100, 25e3f, 1e6f, 1e9f};                  /* in this thread; on two; on all; in pieces */
    atomic_int never = 0, stop = 0;
    for (int k = 0; k < 4; k++)
        for (int threads = 0; threads < 5; threads++) {
            sample_make(&s, ns[k]);
            CHECK(sample_run(&s, code, threads, k % 2 ? &never : NULL) == 0);
            for (int i = 0; i < POINTS; i++) CHECK(s.out[i] == expected(i));
        }
    sample_make(&s, 100);
    s.in[5] = -1;
    CHECK(sample_run(&s, code, 1, NULL) == 7 && s.out[1] == 0);      /* the second launch did not run */
    sample_make(&s, 1e9f);
    s.words[4] = (int64_t)&stop;
    CHECK(sample_run(&s, code, 1, &stop) == -2 && s.out[1] == 0 && stop == 1);
    sample_make(&s, 100);
    mem_fail_at(1);
    CHECK(sample_run(&s, code, 1, NULL) == -1 && s.out[1] == 0);
}

/* out[i] = in[i] + in[i], without code, in a checked kernel. */
static void test_exec_interpreted(void)
{
    Err err = {0};
    Arena *a = arena_new(&err);
    Kernel *k = kernel_new(a);
    uint32_t in_arg = kernel_arg(k);
    kernel_arg(k), kernel_arg(k);
    uint32_t out_arg = kernel_arg(k);
    kernel_arg(k), kernel_arg(k);
    k->checked = true;
    uint32_t axis = kernel_axis(a, k, (Size){POINTS, -1}, SIZE(0));
    uint32_t in = kernel_array(a, k, (Array){ARRAY_OPERAND, DT_float64, 0, (int32_t)in_arg});
    uint32_t out = kernel_array(a, k, (Array){ARRAY_OPERAND, DT_float64, 1, (int32_t)out_arg});
    Access x = {.array = (uint16_t)in, .off_arg = -1};
    x.coef[axis].kind = COEF_UNIT;
    uint32_t v = kernel_val(a, k, (Val){.kind = VAL_LOAD, .dtype = DT_float64, .a = kernel_access(a, k, &x)});
    v = kernel_val(a, k, (Val){.kind = VAL_OP, .dtype = DT_float64, .op = OP_add, .a = v, .b = v});
    x.array = (uint16_t)out;
    uint32_t loop = kernel_open(a, k, axis, PART_WHOLE, 0, true);
    kernel_stmt(a, k, (Stmt){.kind = STMT_STORE, .a = kernel_access(a, k, &x), .b = v});
    kernel_close(k, loop);
    CHECK(kernel_verify(k, &err));

    static Sample s;
    sample_make(&s, 1e6f);
    s.kernels[0] = k;
    s.plan.launches.len = 1;
    memcpy(s.patch, (Patch[]){{in_arg, 0, 0}, {out_arg, 2, 0}}, 2 * sizeof(Patch));
    s.launch[0].npatches = 2;
    s.plan.workspace = 0;
    const char *lo = (char *)s.in, *hi = (char *)(s.in + POINTS);
    Exec e = {&s.plan, NULL, 0};
    int64_t words[12] = {0};
    CHECK(exec_run(&e, words, &(Addresses){.in = s.ins, .out = s.outs, .lo = &lo, .hi = &hi}, NULL, NULL) == 0);
    for (int i = 0; i < POINTS; i++) CHECK(s.out[i] == 2.0 * i);
    CHECK(interp_violations == 0);
    hi -= 8;
    CHECK(exec_run(&e, words, &(Addresses){.in = s.ins, .out = s.outs, .lo = &lo, .hi = &hi}, NULL, NULL) == 0 && interp_violations == 1);
    arena_free(a);
}

static void test_exec(void)
{
    size_t len;
    Err err = {0};
    char *object = read_file("pic.o", &len);
    Code *code = code_load(object, len, "k", &err);
    if (code) test_exec_code(code);
    test_exec_interpreted();
    code_unref(code);
    free(object);
}

/* ---- bench ---- */

static void nothing(void *ctx, int worker, int64_t begin, int64_t end) { (void)ctx, (void)worker, (void)begin, (void)end; }

static void busy(void *ctx, int worker, int64_t begin, int64_t end)
{
    (void)ctx, (void)worker;
    for (double until = now() + 200e-6 * (double)(end - begin); now() < until;) {}
}

#define BENCH(what, rounds, expr)                                                                      \
    do {                                                                                               \
        double best = 1e9;                                                                             \
        for (int r_ = 0; r_ < 5; r_++) {                                                               \
            double start = now();                                                                      \
            for (int i_ = 0; i_ < (rounds); i_++) expr;                                                \
            best = now() - start < best ? now() - start : best;                                        \
        }                                                                                              \
        printf("%-44s %10.1f ns\n", what, best / (rounds) * 1e9);                                      \
    } while (0)

static void bench(void)
{
    size_t len;
    Err err = {0};
    char *object = read_file("pic.o", &len);
    Code *code = code_load(object, len, "k", &err);
    static Sample s;
    BENCH("alloc + free of 64 bytes", 1000000, mem_free(mem_alloc(64)));
    BENCH("alloc + free of 64 KB", 100000, mem_free(mem_alloc(1 << 16)));
    BENCH("alloc + free of 64 MB", 10000, mem_free(mem_alloc(64 << 20)));
    BENCH("malloc + free of 64 bytes", 1000000, free(({ void *p = malloc(64); __asm__ volatile("" : "+r"(p)); p; })));
    BENCH("pool_run of nothing on 2, awake", 10000, pool_run(nothing, NULL, 2, 2, 0));
    BENCH("pool_run of nothing on 2, after 200 us of rest", 1000, (usleep(200), pool_run(nothing, NULL, 2, 2, 0)));
    BENCH("the rest alone", 1000, usleep(200));
    BENCH("pool_run of 2 x 200 us, after rest", 300, (usleep(200), pool_run(busy, NULL, 2, 2, 0)));
    BENCH("code_load + code_unref", 2000, code_unref(code_load(object, len, "k", &err)));
    sample_make(&s, 100);
    s.plan.launches.len = 1, s.launch[0].grid = 0, s.plan.workspace = 0, s.launch[0].scratch = 0, s.slot[1].kind = SLOT_OUTPUT;
    BENCH("exec_run of one empty launch", 1000000, sample_run(&s, code, 0, NULL));
    KernelFn fn = code_entry(code);
    int64_t args[6] = {0};
    BENCH("the empty kernel alone", 1000000, fn(args, 0, 0, NULL));
    code_unref(code);
    free(object);
}

int main(int argc, char **argv)
{
    if (!build_fakes()) {
        fprintf(stderr, "no C compiler for tests/c/fake\n");
        return 1;
    }
    if (argc > 1 && strcmp(argv[1], "bench") == 0) bench();
    else {
        test_memory();
        test_pool();
        test_code();
        test_compile();
        test_exec();
    }
    remove_fakes();
    pool_shutdown();
    compile_shutdown();
    Err err = {0};
    Code *c;
    CompileStats stats = {0};
    CHECK(argc > 1 || (!compile_numbers(70, 1, &c, &stats, &err) && err.kind == ERR_COMPILE));
    return failures != 0;
}
