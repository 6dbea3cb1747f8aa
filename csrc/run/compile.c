/* A Unit is a kernel at a level: a row of the table, a job of the queue and what its waiters wait for. All of it is under one lock,
 * which nobody holds while he compiles, waits or calls back. fork waits for running compiles (LLVM has locks of its own, which a
 * child could find taken), for a few seconds at most. */
#define _GNU_SOURCE
#include "run/compile.h"
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/hash.h"
#include "gen/gen.h"
#include "run/limits.h"
#include "run/shipped.h"

enum { MOST_THREADS = 4, STACK_BYTES = 16 << 20, NLEVELS = CPU_NEON + 1, NBUCKETS = 4096 };
enum { POLL_MS = 50, FORK_WAIT_MS = 5000, EXIT_WAIT_MS = 10000 };

typedef enum { UNIT_QUEUED, UNIT_RUNNING, UNIT_READY, UNIT_FAILED } UnitState;

typedef struct Unit Unit;
struct Unit {
    int refs;                          /* the table, the queue or a thread, waiters */
    UnitState state;
    bool tabled, text;                 /* in the table; wants text rather than code */
    CpuLevel level;
    uint64_t hash;
    void *bytes;
    size_t len;
    Code *code;
    char *ir, *assembly;
    Err *err;                          /* until READY */
    Unit *chain, *newer, *older;       /* of the table */
    Unit *next;                        /* of the queue */
};

typedef struct {
    pthread_t thread;
    bool made;
    Unit *unit;                        /* what it compiles */
    int prepare;                       /* level + 1 to make ready before anything is queued; 0: none */
} Compiler;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work, done;         /* something is queued; something is finished */
    Unit *buckets[NBUCKETS], *newest, *oldest;
    Unit *first, *last;                /* the queue */
    uint32_t count, queued;
    size_t most;
    int threads, idle, running, preparing;
    bool forking, quitting;
    Compiler compilers[MOST_THREADS];
} table = {.most = 4096};

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static const GenApi *gen;              /* under open_lock until it is set; then constant */
static char *gen_path;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static __thread Compiler *self;

/* ---- time ---- */

static struct timespec after_ms(long ms)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += ms % 1000 * 1000000;
    t.tv_sec += ms / 1000 + t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void make_locks(void)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&table.lock, NULL);
    pthread_cond_init(&table.work, &attr);
    pthread_cond_init(&table.done, &attr);
    pthread_condattr_destroy(&attr);
}

/* ---- the table; the lock is held ---- */

static void unit_unref(Unit *u)
{
    if (--u->refs) return;
    code_unref(u->code);
    free(u->ir);
    free(u->assembly);
    free(u->err);
    free(u->bytes);
    free(u);
}

static Unit *unit_new(const void *bytes, size_t len, uint64_t hash, CpuLevel level)
{
    Unit *u = calloc(1, sizeof *u);
    if (!u) return NULL;
    u->refs = 1;
    u->bytes = malloc(len);
    u->err = calloc(1, sizeof *u->err);
    if (!u->bytes || !u->err) {
        unit_unref(u);
        return NULL;
    }
    memcpy(u->bytes, bytes, len);
    u->len = len;
    u->hash = hash;
    u->level = level;
    return u;
}

static Unit **bucket(uint64_t hash) { return &table.buckets[hash % NBUCKETS]; }

static void list_add(Unit *u)
{
    u->newer = NULL;
    u->older = table.newest;
    *(table.newest ? &table.newest->newer : &table.oldest) = u;
    table.newest = u;
}

static void list_remove(Unit *u)
{
    *(u->newer ? &u->newer->older : &table.newest) = u->older;
    *(u->older ? &u->older->newer : &table.oldest) = u->newer;
}

static void table_remove(Unit *u)
{
    if (!u->tabled) return;
    Unit **at = bucket(u->hash);
    while (*at != u) at = &(*at)->chain;
    *at = u->chain;
    list_remove(u);
    u->tabled = false;
    table.count--;
    unit_unref(u);
}

/* Drops the least recently used finished units until there are at most `most`. */
static void table_shrink(size_t most)
{
    for (Unit *u = table.oldest, *newer; u && table.count > most; u = newer) {
        newer = u->newer;
        if (u->state == UNIT_READY) table_remove(u);
    }
}

static void table_add(Unit *u)
{
    u->chain = *bucket(u->hash);
    *bucket(u->hash) = u;
    list_add(u);
    u->tabled = true;
    u->refs++;
    table.count++;
    table_shrink(table.most);
}

/* The unit of these bytes, now the most recently used, or NULL. */
static Unit *table_find(const void *bytes, size_t len, uint64_t hash, CpuLevel level)
{
    for (Unit *u = *bucket(hash); u; u = u->chain)
        if (u->hash == hash && u->level == level && u->len == len && memcmp(u->bytes, bytes, len) == 0) {
            list_remove(u);
            list_add(u);
            return u;
        }
    return NULL;
}

/* ---- the queue; the lock is held ---- */

static void queue_add(Unit *u)
{
    u->refs++;
    u->next = NULL;
    *(table.last ? &table.last->next : &table.first) = u;
    table.last = u;
    table.queued++;
}

static Unit *queue_take(void)
{
    Unit *u = table.first;
    table.first = u->next;
    if (!u->next) table.last = NULL;
    table.queued--;
    return u;
}

/* The end of a unit that came from the queue. */
static void unit_finish(Unit *u, bool ok)
{
    u->state = ok ? UNIT_READY : UNIT_FAILED;
    if (ok) {
        free(u->err);
        u->err = NULL;
        table_shrink(table.most);
    } else table_remove(u);
    unit_unref(u);
    pthread_cond_broadcast(&table.done);
}

static void lock_table(void);
static void unlock_table(void);
static const GenApi *generator(Err *err);

/* ---- compiler threads ---- */

static bool generate(Unit *u, const Kernel *k, GenThread **threads, GenResult *out)
{
#ifdef PYXLA_DEBUG
    bool verify = true;
#else
    bool verify = false;
#endif
    GenOptions options = {.level = u->level, .verify = verify, .want_ir = u->text, .want_asm = u->text};
    if (!threads[u->level]) threads[u->level] = gen->thread_new(u->level, u->err);
    return threads[u->level] && gen->compile(threads[u->level], k, &options, out, u->err);
}

static void code_name(char name[32], uint64_t hash) { snprintf(name, 32, "pyxla_%016llx", (unsigned long long)hash); }

/* The generator's result into the unit. */
static bool unit_take(Unit *u, GenResult *r)
{
    char name[32];
    if (u->text) {
        u->ir = r->ir;
        u->assembly = r->assembly;
        r->ir = r->assembly = NULL;
        return (u->ir && u->assembly) || err_set(u->err, ERR_INTERNAL, "the code generator gave no text");
    }
    if (!r->object) return err_set(u->err, ERR_INTERNAL, "the code generator gave no object");
    if (shipped_recording()) shipped_keep(u->bytes, u->len, u->hash, r->object, r->object_len);
    code_name(name, u->hash);
    u->code = code_load(r->object, r->object_len, name, u->err);
    return u->code != NULL;
}

static bool unit_compile(Unit *u, GenThread **threads)
{
    Arena *arena = arena_new(u->err);
    GenResult result = {0};
    if (!arena) return false;
    const Kernel *k = kernel_from_bytes(arena, u->bytes, u->len);
    bool ok = k && generate(u, k, threads, &result) && unit_take(u, &result);
    gen->result_free(&result);
    arena_free(arena);
    return ok || err_set(u->err, ERR_INTERNAL, "the code generator failed without a reason");
}

/* Compiles what is queued until the process ends. */
static void compiler_loop(Compiler *c, GenThread **threads)
{
    for (;;) {
        while (!table.quitting && (!table.first || table.forking)) {
            table.idle++;
            pthread_cond_wait(&table.work, &table.lock);
            table.idle--;
        }
        if (table.quitting) return;
        Unit *u = c->unit = queue_take();
        u->state = UNIT_RUNNING;
        table.running++;
        pthread_mutex_unlock(&table.lock);
        bool ok = unit_compile(u, threads) && u->err->kind == ERR_NONE;
        pthread_mutex_lock(&table.lock);
        table.running--;
        c->unit = NULL;
        unit_finish(u, ok);
    }
}

/* Opens the generator and makes a machine while the caller still traces. Errors are left to the first compile. */
static void prepare(int level, GenThread **threads)
{
    Err err = {0};
    pthread_mutex_unlock(&table.lock);
    const GenApi *api = generator(&err);       /* under its own lock, which a fork takes first */
    pthread_mutex_lock(&table.lock);
    while (table.forking && !table.quitting) pthread_cond_wait(&table.work, &table.lock);
    if (!api || table.quitting) return;
    table.preparing++;
    pthread_mutex_unlock(&table.lock);
    threads[level] = api->thread_new((CpuLevel)level, &err);
    pthread_mutex_lock(&table.lock);
    table.preparing--;
    pthread_cond_broadcast(&table.done);
}

static void *compiler_main(void *arg)
{
    GenThread *threads[NLEVELS] = {0};
    self = arg;
    pthread_mutex_lock(&table.lock);
    if (self->prepare) prepare(self->prepare - 1, threads);
    compiler_loop(arg, threads);
    pthread_mutex_unlock(&table.lock);
    for (int k = 0; k < NLEVELS; k++)
        if (threads[k]) gen->thread_free(threads[k]);
    return NULL;
}

/* LLVM's fatal errors: they may not return, and unwinding through LLVM would leave its locks taken. The error goes to the
 * waiters, another thread may take this one's place, and this one sleeps for good. */
static void on_fatal(const char *message)
{
    if (!self) return;                         /* not a thread of ours: LLVM aborts */
    Unit *u = self->unit;
    pthread_mutex_lock(&table.lock);
    if (u) {
        memset(u->err, 0, sizeof *u->err);
        err_set(u->err, ERR_COMPILE, "LLVM: %s", message);
    }
    *(u ? &table.running : &table.preparing) -= 1;
    table.threads--;
    self->made = false;
    self->unit = NULL;
    pthread_detach(self->thread);
    if (u) unit_finish(u, false);
    pthread_mutex_unlock(&table.lock);
    for (;;) pause();
}

/* ---- making threads; the lock is held ---- */

static int most_threads(void)
{
    static int known;
    if (!known) known = limits_cores() < MOST_THREADS ? limits_cores() : MOST_THREADS;
    return known;
}

static bool compiler_make(Compiler *c)
{
    pthread_attr_t attr;
    sigset_t all, old;
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    c->made = pthread_create(&c->thread, &attr, compiler_main, c) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    table.threads += c->made;
    return c->made;
}

void compile_prepare(CpuLevel level)
{
    lock_table();
    Compiler *c = &table.compilers[0];
    if (!table.threads && !table.quitting && !table.forking && !c->made) {
        c->prepare = (int)level + 1;
        if (!compiler_make(c)) *c = (Compiler){0};
    }
    unlock_table();
}

/* Threads for what is queued, as far as there are cores. */
static void make_compilers(void)
{
    if (table.quitting) return;
    for (int k = 0; k < most_threads() && table.threads - table.running < (int)table.queued; k++)
        if (!table.compilers[k].made && !compiler_make(&table.compilers[k])) break;
    if (table.idle) pthread_cond_broadcast(&table.work);
    while (!table.threads && table.first) {
        Unit *u = queue_take();
        err_set(u->err, ERR_COMPILE, "cannot start a thread to compile on");
        unit_finish(u, false);
    }
}

/* ---- fork ---- */

static void fork_prepare(void)
{
    struct timespec end = after_ms(FORK_WAIT_MS);
    pthread_mutex_lock(&open_lock);
    pthread_mutex_lock(&table.lock);
    table.forking = true;
    while ((table.running || table.preparing) && pthread_cond_timedwait(&table.done, &table.lock, &end) == 0) {}
}

static void fork_parent(void)
{
    table.forking = false;
    pthread_cond_broadcast(&table.work);
    pthread_mutex_unlock(&table.lock);
    pthread_mutex_unlock(&open_lock);
}

/* No compiler lives here. What was queued stays so; what was still running fails. */
static void fork_child(void)
{
    make_locks();
    pthread_mutex_init(&open_lock, NULL);
    table.forking = false;
    table.threads = table.idle = table.running = table.preparing = 0;
    for (int k = 0; k < MOST_THREADS; k++) {
        Compiler *c = &table.compilers[k];
        if (c->made && c->unit) {
            memset(c->unit->err, 0, sizeof *c->unit->err);
            err_set(c->unit->err, ERR_COMPILE, "the process forked while this was compiled");
            unit_finish(c->unit, false);
        }
        *c = (Compiler){0};
    }
}

static void init(void)
{
    make_locks();
    code_total();            /* the loader's own handler first: a thread that registers one during a fork may block until its end */
    pthread_atfork(fork_prepare, fork_parent, fork_child);
}

static void lock_table(void)
{
    pthread_once(&once, init);
    pthread_mutex_lock(&table.lock);
}

static void unlock_table(void) { pthread_mutex_unlock(&table.lock); }

/* ---- the generator ---- */

void compile_set_generator(const char *path)
{
    pthread_mutex_lock(&open_lock);
    free(gen_path);
    gen_path = strdup(path);
    pthread_mutex_unlock(&open_lock);
}

static const GenApi *generator_load(Err *err)
{
    if (!gen_path) return err_set(err, ERR_INTERNAL, "the path of the code generator is not set"), NULL;
    void *so = dlopen(gen_path, RTLD_LOCAL | RTLD_NOW);
    if (!so) return err_set(err, ERR_COMPILE, "cannot open the code generator: %s", dlerror()), NULL;
    const GenApi *(*get)(void) = (const GenApi *(*)(void))(uintptr_t)dlsym(so, "pyxla_gen");
    const GenApi *api = get ? get() : NULL;
    if (api && api->abi == GEN_ABI) return api;
    err_set(err, ERR_COMPILE, "%s does not belong to this version: install pyxla again", gen_path);
    dlclose(so);
    return NULL;
}

/* The generator, opened by the first caller; NULL with an error, and the next call tries again. */
static const GenApi *generator(Err *err)
{
    pthread_once(&once, init);
    pthread_mutex_lock(&open_lock);
    if (!gen && (gen = generator_load(err))) gen->set_fatal(on_fatal);
    const GenApi *api = gen;
    pthread_mutex_unlock(&open_lock);
    return api;
}

const char *compile_llvm_version(Err *err)
{
    const GenApi *api = generator(err);
    return api ? api->llvm_version : NULL;
}

/* ---- requests and waiting ---- */

/* Queues a new unit, with a reference for the caller; NULL with an error. The lock is held. */
static Unit *unit_queue(const void *bytes, size_t len, uint64_t hash, CpuLevel level, bool text, Err *err)
{
    if (table.quitting) return err_set(err, ERR_COMPILE, "the process is at its end"), NULL;
    Unit *u = unit_new(bytes, len, hash, level);
    if (!u) return err_set(err, ERR_MEMORY, "no memory to compile"), NULL;
    u->text = text;
    if (!text) table_add(u);
    queue_add(u);
    return u;
}

/* The code of a kernel that the package was built with, with a reference; NULL if there is none, or it does not load. */
static Code *shipped_code(const void *bytes, size_t len, uint64_t hash, CpuLevel level)
{
    Err err = {0};
    char name[32];
    size_t object_len;
    const void *object = shipped_find(bytes, len, hash, level, &object_len);
    if (!object) return NULL;
    code_name(name, hash);
    return code_load(object, object_len, name, &err);
}

/* A finished unit of code that is there already, in the table, with a reference for the caller, and takes that to the code; NULL with an
 * error. The lock is held. */
static Unit *unit_of_code(const void *bytes, size_t len, uint64_t hash, CpuLevel level, Code *code, Err *err)
{
    Unit *u = unit_new(bytes, len, hash, level);
    if (!u) {
        code_unref(code);
        return err_set(err, ERR_MEMORY, "no memory for a kernel"), NULL;
    }
    free(u->err);
    u->err = NULL;
    u->code = code;
    u->state = UNIT_READY;
    table_add(u);
    return u;
}

/* The unit of a kernel, found or queued, with a reference; NULL with an error. */
static Unit *unit_request(Arena *arena, const Kernel *k, CpuLevel level, CompileStats *stats, Err *err)
{
    size_t len;
    const void *bytes = kernel_bytes(arena, k, &len);
    if (!bytes) return NULL;
    uint64_t hash = hash_bytes(bytes, len, (uint64_t)level);
    Code *code = NULL;
    lock_table();
    Unit *u = table_find(bytes, len, hash, level);
    if (!u) {
        unlock_table();
        code = shipped_code(bytes, len, hash, level);
        if (!code && !generator(err)) return NULL;
        lock_table();
        u = table_find(bytes, len, hash, level);           /* somebody else may have been here meanwhile */
    }
    if (u) {
        u->refs++;
        stats->reused++;
        code_unref(code);
    } else if (code) {
        u = unit_of_code(bytes, len, hash, level, code, err);
        stats->reused += u != NULL;
    } else if ((u = unit_queue(bytes, len, hash, level, false, err))) stats->compiled++;
    unlock_table();
    return u;
}

static bool all_done(Unit *const *units, int n)
{
    for (int i = 0; i < n; i++)
        if (units[i]->state < UNIT_READY) return false;
    return true;
}

/* Waits for all of them; false if interrupted. */
static bool wait_for(Unit *const *units, int n, bool (*interrupted)(void *), void *ctx)
{
    bool stop = false;
    struct timespec poll = after_ms(POLL_MS);
    lock_table();
    while (!stop && !all_done(units, n)) {
        make_compilers();                                  /* again: a fork or a fatal error may have taken them */
        if (all_done(units, n)) break;
        if (pthread_cond_timedwait(&table.done, &table.lock, &poll) == 0) continue;
        poll = after_ms(POLL_MS);
        if (!interrupted) continue;
        unlock_table();
        stop = interrupted(ctx);
        lock_table();
    }
    unlock_table();
    return !stop;
}

/* References to the code of all units into out, or the first failure into err. */
static bool collect(Unit *const *units, int n, Code **out, Err *err)
{
    for (int i = 0; i < n; i++)
        if (units[i]->state != UNIT_READY) return err_set(err, units[i]->err->kind, "%s", units[i]->err->msg);
    for (int i = 0; i < n; i++) code_ref(out[i] = units[i]->code);
    return true;
}

static void release(Unit **units, int n)
{
    lock_table();
    for (int i = 0; i < n; i++) unit_unref(units[i]);
    unlock_table();
}

static bool compile_units(Arena *arena, Unit **units, const Kernel *const *k, int n, CpuLevel level, Code **out, CompileStats *stats,
                          bool (*interrupted)(void *), void *ctx, Err *err)
{
    int got = 0;
    while (got < n && (units[got] = unit_request(arena, k[got], level, stats, err))) got++;
    bool ok = got == n && wait_for(units, n, interrupted, ctx) && collect(units, n, out, err);
    release(units, got);
    return ok;
}

bool compile_kernels(const Kernel *const *k, int n, CpuLevel level, Code **out, CompileStats *stats,
                     bool (*interrupted)(void *), void *ctx, Err *err)
{
    double start = seconds();
    CompileStats none = {0};
    if (!stats) stats = &none;
    memset(out, 0, (size_t)n * sizeof *out);
    Arena *arena = arena_new(err);
    Unit **units = arena ? arena_alloc(arena, (size_t)n * sizeof *units + 1) : NULL;
    bool ok = units && compile_units(arena, units, k, n, level, out, stats, interrupted, ctx, err);
    arena_free(arena);
    stats->seconds += seconds() - start;
    return ok;
}

/* Queues the kernel for its text; NULL with an error. */
static Unit *text_request(const Kernel *k, CpuLevel level, Err *err)
{
    size_t len;
    Unit *u = NULL;
    Arena *arena = arena_new(err);
    const void *bytes = arena ? kernel_bytes(arena, k, &len) : NULL;
    if (bytes && generator(err)) {
        lock_table();
        u = unit_queue(bytes, len, 0, level, true, err);
        unlock_table();
    }
    arena_free(arena);
    return u;
}

bool compile_text(const Kernel *k, CpuLevel level, Text *ir, Text *assembly, Err *err)
{
    Unit *u = text_request(k, level, err);
    if (!u) return false;
    wait_for(&u, 1, NULL, NULL);
    bool ok = u->state == UNIT_READY;
    if (ok) {
        text_put(ir, "%s", u->ir);
        text_put(assembly, "%s", u->assembly);
    } else err_set(err, u->err->kind, "%s", u->err->msg);
    release(&u, 1);
    return ok;
}

/* ---- control ---- */

void compile_clear(void)
{
    lock_table();
    while (table.oldest) table_remove(table.oldest);
    unlock_table();
}

void compile_limits(size_t max_kernels)
{
    lock_table();
    table.most = max_kernels;
    table_shrink(max_kernels);
    unlock_table();
}

uint32_t compile_count(void)
{
    lock_table();
    uint32_t n = table.count;
    unlock_table();
    return n;
}

/* Not a handler of atexit: LLVM makes static objects when it first needs them, so those are destroyed before any handler that was
 * registered at the first compile, under the feet of a thread that still compiles. */
void compile_shutdown(void)
{
    lock_table();
    table.quitting = true;
    pthread_cond_broadcast(&table.work);
    unlock_table();
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += EXIT_WAIT_MS / 1000;
    for (int k = 0; k < MOST_THREADS; k++) {
        lock_table();
        bool made = table.compilers[k].made;
        table.compilers[k].made = false;
        unlock_table();
        if (made) pthread_timedjoin_np(table.compilers[k].thread, NULL, &end);
    }
}
