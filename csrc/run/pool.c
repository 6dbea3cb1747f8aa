/* One job at a time. Its pieces are shared out to the workers in contiguous chunks: each takes its own from the front, and then those that the others
 * have not begun from the back. So cores that are slower, busy with other work or late cost what they are slower by; a job waits for no more
 * than the pieces that have begun. A worker has one word of state, which is also what it sleeps on: the caller posts the job into it, the
 * worker claims it, and the caller takes it back where there is nothing left to do. */
#define _GNU_SOURCE
#include "run/pool.h"
#include <fenv.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "run/limits.h"

enum { MOST_THREADS = 256, SPIN_NS = 20000, MOST_PIECES = 16 };       /* pieces: per worker */
enum { IDLE, ASLEEP, POSTED, RUNNING, QUIT };
#define WAITING 0x80000000u

typedef struct {
    _Alignas(64) _Atomic uint32_t state;
    _Atomic uint64_t chunk;            /* its pieces that nobody has begun: the first, and << 32 the one after the last */
    pthread_t thread;
} Worker;

static struct {
    atomic_bool busy;                  /* whoever sets it owns all that follows */
    int count;                         /* threads made: workers 1 ... count; worker 0 is the caller */
    atomic_bool spin;                  /* a core for each of them */
    PoolFn fn;
    void *ctx;
    int64_t n;
    uint32_t pieces;
    int chunks;
    fenv_t fenv;
    atomic_int cpu;                    /* the caller's */
    _Atomic uint32_t remaining;        /* workers not done, and WAITING when the caller sleeps */
    Worker workers[MOST_THREADS];
} pool;

static atomic_int wanted;              /* pool_set_threads; 0: the default */
static atomic_int known;               /* the default; 0: to be found. A child of a fork, and whoever asks for it, finds it anew */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* In the child no worker lives and nobody else runs a job. */
static void fork_child(void)
{
    pool.count = 0;
    atomic_store(&pool.busy, false);
    atomic_store(&known, 0);
}

static void init(void) { pthread_atfork(NULL, NULL, fork_child); }

/* ---- how many ---- */

int pool_default_threads(void)
{
    const char *text = getenv("PYXLA_NUM_THREADS");
    char *end;
    long n = text && *text ? strtol(text, &end, 10) : 0;
    if (n < 1 || *end) n = limits_cores();
    return n < MOST_THREADS ? (int)n : MOST_THREADS;
}

int pool_threads(void)
{
    int n = atomic_load_explicit(&wanted, memory_order_relaxed);
    if (n > 0) return n;
    n = atomic_load_explicit(&known, memory_order_relaxed);
    if (n > 0) return n;
    pthread_once(&once, init);
    atomic_store_explicit(&known, n = pool_default_threads(), memory_order_relaxed);
    return n;
}

void pool_set_threads(int n)
{
    atomic_store(&known, 0);
    atomic_store(&wanted, n < 0 ? 0 : n < MOST_THREADS ? n : MOST_THREADS);
}

int pool_workers(int threads)
{
    if (threads <= 0) return pool_threads();
    int set = atomic_load_explicit(&wanted, memory_order_relaxed), most = set > 0 ? set : MOST_THREADS;
    return threads < most ? threads : most;
}

/* ---- waiting ---- */

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0); }

static void relax(void)
{
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Spins for a while as long as the word has this value. */
static void spin_while(_Atomic uint32_t *word, uint32_t value)
{
    if (!atomic_load_explicit(&pool.spin, memory_order_relaxed)) return;
    int64_t end = now_ns() + SPIN_NS;
    do {
        for (int k = 0; k < 16; k++) {
            if (atomic_load_explicit(word, memory_order_relaxed) != value) return;
            relax();
        }
    } while (now_ns() < end);
}

/* ---- workers ---- */

/* A piece of worker w's, its first or its last; -1: none is left. */
static int64_t take(Worker *w, bool first)
{
    uint64_t chunk = atomic_load_explicit(&w->chunk, memory_order_relaxed);
    for (;;) {
        uint32_t begin = (uint32_t)chunk, end = (uint32_t)(chunk >> 32);
        if (begin == end) return -1;
        if (atomic_compare_exchange_weak(&w->chunk, &chunk, first ? chunk + 1 : chunk - (1ull << 32))) return first ? begin : end - 1;
    }
}

/* Where piece p begins: all are equal, but the first n % pieces ones are longer by one. */
static int64_t piece_begin(int64_t p)
{
    int64_t each = pool.n / pool.pieces, longer = pool.n % pool.pieces;
    return each * p + (p < longer ? p : longer);
}

static uint64_t chunk_begin(uint32_t w) { return ((uint64_t)pool.pieces * w + (uint32_t)pool.chunks - 1) / (uint32_t)pool.chunks; }

/* The worker's own pieces, then those of the others. */
static void run_pieces(int worker)
{
    int64_t p;
    for (int k = 0; k < pool.chunks; k++) {
        Worker *from = &pool.workers[(worker + k) % pool.chunks];
        while ((p = take(from, k == 0)) >= 0) pool.fn(pool.ctx, worker, piece_begin(p), piece_begin(p + 1));
    }
}

static bool claim(Worker *w, uint32_t to)
{
    uint32_t posted = POSTED;
    return atomic_compare_exchange_strong(&w->state, &posted, to);
}

/* Where a worker may run. Linux may wake it up on its caller's core although others are idle, and then one of the two waits for the
 * other's time slice, job after job (a KVM guest does: a halted core of it counts as preempted, not as idle). A worker
 * that has met its caller on one core keeps away from the caller's core from then on. */
typedef struct { cpu_set_t home, set; int avoided; } Seat;

static void seat_choose(Seat *s)
{
    cpu_set_t now;
    int cpu = atomic_load_explicit(&pool.cpu, memory_order_relaxed);
    if (cpu < 0 || cpu >= CPU_SETSIZE) return;
    if (s->avoided < 0 ? sched_getcpu() != cpu : s->avoided == cpu) return;
    if (sched_getaffinity(0, sizeof now, &now)) return;
    if (s->avoided < 0 || !CPU_EQUAL(&now, &s->set)) s->home = now;         /* the user changed it */
    s->set = s->home;
    CPU_CLR((unsigned)cpu, &s->set);
    if (CPU_COUNT(&s->set) && sched_setaffinity(0, sizeof s->set, &s->set) == 0) s->avoided = cpu;
}

/* Waits until the state is not IDLE. */
static void wait_for_job(Worker *self, Seat *seat)
{
    uint32_t idle = IDLE;
    spin_while(&self->state, IDLE);
    if (!atomic_compare_exchange_strong(&self->state, &idle, ASLEEP)) return;
    while (atomic_load(&self->state) == ASLEEP) futex_wait(&self->state, ASLEEP);
    seat_choose(seat);
}

static void *worker_main(void *arg)
{
    Worker *self = arg;
    int w = (int)(self - pool.workers);
    Seat seat = {.avoided = -1};
    for (;;) {
        wait_for_job(self, &seat);
        if (atomic_load(&self->state) == QUIT) return NULL;
        if (!claim(self, RUNNING)) continue;                     /* the caller took the job back */
        fesetenv(&pool.fenv);
        run_pieces(w);
        atomic_store(&self->state, IDLE);
        if (atomic_fetch_sub(&pool.remaining, 1) == (WAITING | 1)) futex_wake(&pool.remaining);
    }
}

/* Makes workers up to `count`, or as many as there can be. Signals are for the threads that were there before. */
static void make_workers(int count)
{
    sigset_t all, old;
    if (pool.count >= count) return;
    pthread_once(&once, init);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    atomic_store_explicit(&pool.spin, limits_cores() > count, memory_order_relaxed);
    while (pool.count < count) {
        Worker *w = &pool.workers[pool.count + 1];
        atomic_store(&w->state, IDLE);
        if (pthread_create(&w->thread, NULL, worker_main, w)) break;
        pool.count++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* ---- jobs ---- */

static void post(Worker *w)
{
    if (atomic_exchange(&w->state, POSTED) == ASLEEP) futex_wake(&w->state);
}

static void wait_for_workers(void)
{
    uint32_t left = atomic_load(&pool.remaining);
    while (left) {
        spin_while(&pool.remaining, left);
        left = atomic_load(&pool.remaining);
        if (!left) return;
        left = atomic_fetch_or(&pool.remaining, WAITING) | WAITING;
        if (left != WAITING) futex_wait(&pool.remaining, left);
        left = atomic_fetch_and(&pool.remaining, ~WAITING) & ~WAITING;
    }
}

/* Runs the job that is set up in pool. */
static void run_job(void)
{
    fegetenv(&pool.fenv);
    atomic_store_explicit(&pool.cpu, sched_getcpu(), memory_order_relaxed);
    atomic_store(&pool.remaining, (uint32_t)pool.chunks - 1);
    for (uint32_t w = 0; w < (uint32_t)pool.chunks; w++)
        atomic_store_explicit(&pool.workers[w].chunk, chunk_begin(w + 1) << 32 | chunk_begin(w), memory_order_relaxed);
    for (int w = 1; w < pool.chunks; w++) post(&pool.workers[w]);
    run_pieces(0);
    for (int w = pool.chunks - 1; w > 0; w--)
        if (claim(&pool.workers[w], IDLE)) atomic_fetch_sub(&pool.remaining, 1);
    wait_for_workers();
}

void pool_run(PoolFn fn, void *ctx, int64_t n, int threads, int64_t pieces)
{
    threads = pool_workers(threads);
    if (n < threads) threads = (int)n;
    if (n <= 0) return;
    if (threads == 1 || atomic_exchange(&pool.busy, true)) {
        fn(ctx, 0, 0, n);
        return;
    }
    make_workers(threads - 1);
    pool.fn = fn;
    pool.ctx = ctx;
    pool.n = n;
    pool.chunks = threads <= pool.count ? threads : pool.count + 1;
    if (pieces < pool.chunks) pieces = pool.chunks;
    if (pieces > pool.chunks * MOST_PIECES) pieces = pool.chunks * MOST_PIECES;
    pool.pieces = (uint32_t)(pieces < n ? pieces : n);
    run_job();
    atomic_store(&pool.busy, false);
}

void pool_shutdown(void)
{
    if (atomic_exchange(&pool.busy, true)) return;              /* another thread's job runs on, and so do its workers */
    for (int w = 1; w <= pool.count; w++) {
        atomic_store(&pool.workers[w].state, QUIT);
        futex_wake(&pool.workers[w].state);
    }
    for (int w = 1; w <= pool.count; w++) pthread_join(pool.workers[w].thread, NULL);
    pool.count = 0;
    atomic_store(&pool.busy, false);
}
