/* Every block has a 64-byte header before it. Small blocks (up to 32 KB) are freed into a cache of the freeing thread and taken
 * from there; all others, and what a thread's cache cannot hold, go to one list per class under one lock, in order of their last
 * use, so that the longest unused are released when the limit is passed. Blocks up to 1 MB come from malloc, larger ones
 * from mmap. A thread's cache has a lock of its own (taken by its thread alone, but for mem_info, mem_trim and fork). */
#define _GNU_SOURCE
#include "run/memory.h"
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "run/limits.h"

enum {
    ALIGN = 64,
    FINE = 4096,                       /* classes in steps of 64 bytes up to here, then 4 per power of two */
    NFINE = FINE / ALIGN,
    NSMALL = NFINE + 12,               /* classes up to 32 KB */
    NCLASS = NFINE + 35 * 4,
    MAPPED = 1 << 20,                  /* larger blocks are mapped */
    HUGE_FROM = 4 << 20,               /* mapped blocks that get huge pages */
    HUGE_PAGE = 2 << 20,
    THREAD_COUNT = 16,                 /* blocks of one class in a thread's cache */
    THREAD_BYTES = 1 << 20,            /* all of a thread's cache */
    FLUSH_BYTES = 256 << 10,           /* a thread's use that the common count does not know yet */
};
#define MOST ((size_t)1 << 47)
#define CHECK_MAGIC 0x7079786Cu

typedef struct Block Block;
struct Block {
    size_t bytes;                      /* of its class: what may be used */
    Block *next, *prev;                /* of its class, when cached */
    Block *newer, *older;              /* of all in the common cache */
    char *map;                         /* NULL: from malloc */
    size_t map_bytes;
    uint32_t class, magic;
};
_Static_assert(sizeof(Block) == ALIGN, "the header keeps the block aligned");

typedef struct Thread Thread;
struct Thread {
    _Alignas(ALIGN) atomic_bool locked;
    ptrdiff_t in_use;                  /* since the last flush; negative where a thread frees what others made */
    size_t cached, allocations, reused;
    Block *head[NSMALL];
    uint8_t count[NSMALL];
    Thread *next, **link;
};

static struct {
    pthread_mutex_t lock;
    Thread *threads;
    Block *head[NCLASS];
    Block *newest, *oldest;
    ptrdiff_t in_use;
    size_t cached, peak, limit, allocations, reused;
} common = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t exit_key;
static bool checking;                  /* PYXLA_CHECK=1; written once, before any use */
static size_t page;
static atomic_size_t thread_limit;
static atomic_long fail_at;
static __thread Thread *self;          /* NULL: none yet, or checking */

/* ---- classes ---- */

static unsigned class_of(size_t bytes)
{
    if (bytes <= FINE) return bytes ? (unsigned)((bytes - 1) / ALIGN) : 0;
    unsigned e = 63 - (unsigned)__builtin_clzll(bytes - 1);
    return NFINE + (e - 12) * 4 + (unsigned)((bytes - 1) >> (e - 2) & 3);
}

static size_t class_bytes(unsigned class)
{
    if (class < NFINE) return (size_t)(class + 1) * ALIGN;
    return (size_t)((class - NFINE) % 4 + 5) << ((class - NFINE) / 4 + 10);
}

static Block *block_of(void *p) { return (Block *)p - 1; }

/* ---- the system's memory ---- */

static char *map_pages(size_t bytes)
{
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* Huge pages need an aligned start: map more and cut. Of the last one that `used` bytes would fill in part small pages do. */
static char *map_huge(size_t bytes, size_t used)
{
    char *p = map_pages(bytes + HUGE_PAGE);
    if (!p) return map_pages(bytes);
    size_t head = -(uintptr_t)p % HUGE_PAGE;
    if (head) munmap(p, head);
    munmap(p + head + bytes, HUGE_PAGE - head);
    madvise(p + head, used / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
    return p + head;
}

/* A block of `bytes`, of which `used` are asked for now. */
static Block *block_map(size_t bytes, size_t used)
{
    size_t all = (bytes + sizeof(Block) + page - 1) / page * page;
    char *map = bytes >= HUGE_FROM ? map_huge(all, used + sizeof(Block)) : map_pages(all);
    if (!map) return NULL;
    Block *b = (Block *)map;
    b->map = map;
    b->map_bytes = all;
    return b;
}

static Block *block_make(unsigned class, size_t used)
{
    size_t bytes = class_bytes(class);
    Block *b;
    if (bytes > MAPPED) b = block_map(bytes, used);
    else if ((b = aligned_alloc(ALIGN, sizeof(Block) + bytes))) b->map = NULL;
    if (!b) return NULL;
    b->bytes = bytes;
    b->class = class;
    return b;
}

static size_t block_release(Block *b)
{
    size_t bytes = b->bytes;
    if (b->map) munmap(b->map, b->map_bytes);
    else free(b);
    return bytes;
}

/* Releases a list linked by next; the bytes. */
static size_t release_all(Block *b)
{
    size_t bytes = 0;
    for (Block *next; b; b = next) {
        next = b->next;
        bytes += block_release(b);
    }
    return bytes;
}

/* ---- the common cache; its lock is held ---- */

static void common_put(Block *b)
{
    b->prev = NULL;
    b->next = common.head[b->class];
    if (b->next) b->next->prev = b;
    common.head[b->class] = b;
    b->newer = NULL;
    b->older = common.newest;
    *(common.newest ? &common.newest->newer : &common.oldest) = b;
    common.newest = b;
    common.cached += b->bytes;
}

static void common_remove(Block *b)
{
    *(b->prev ? &b->prev->next : &common.head[b->class]) = b->next;
    if (b->next) b->next->prev = b->prev;
    *(b->newer ? &b->newer->older : &common.newest) = b->older;
    *(b->older ? &b->older->newer : &common.oldest) = b->newer;
    common.cached -= b->bytes;
}

static Block *common_take(unsigned class)
{
    Block *b = common.head[class];
    if (b) common_remove(b);
    return b;
}

/* Takes the longest unused blocks out until at most `limit` bytes are cached; the caller releases them without the lock. */
static Block *common_shrink(size_t limit)
{
    Block *out = NULL;
    while (common.cached > limit) {
        Block *b = common.oldest;
        common_remove(b);
        b->next = out;
        out = b;
    }
    return out;
}

static void common_use(ptrdiff_t bytes)
{
    common.in_use += bytes;
    if (common.in_use > (ptrdiff_t)common.peak) common.peak = (size_t)common.in_use;
}

/* ---- threads ---- */

static void thread_lock(Thread *t)
{
    while (atomic_exchange_explicit(&t->locked, true, memory_order_acquire)) sched_yield();
}

static void thread_unlock(Thread *t) { atomic_store_explicit(&t->locked, false, memory_order_release); }

/* Moves all that a thread has into the common cache and counts. Both locks are held. */
static void thread_drain(Thread *t)
{
    for (unsigned c = 0; c < NSMALL; c++) {
        for (Block *b = t->head[c], *next; b; b = next) {
            next = b->next;
            common_put(b);
        }
        t->head[c] = NULL;
        t->count[c] = 0;
    }
    common.allocations += t->allocations;
    common.reused += t->reused;
    common_use(t->in_use);
    t->cached = t->allocations = t->reused = 0;
    t->in_use = 0;
}

static void drain_all(void)
{
    for (Thread *t = common.threads; t; t = t->next) {
        thread_lock(t);
        thread_drain(t);
        thread_unlock(t);
    }
}

static void thread_remove(Thread *t)
{
    thread_drain(t);
    *t->link = t->next;
    if (t->next) t->next->link = t->link;
    free(t);
}

static void thread_exit(void *arg)
{
    self = NULL;
    pthread_mutex_lock(&common.lock);
    thread_remove(arg);
    Block *out = common_shrink(common.limit);
    pthread_mutex_unlock(&common.lock);
    release_all(out);
}

/* ---- fork: all locks are held over it, so that the child sees no half-done change ---- */

static void fork_prepare(void)
{
    pthread_mutex_lock(&common.lock);
    for (Thread *t = common.threads; t; t = t->next) thread_lock(t);
}

static void fork_parent(void)
{
    for (Thread *t = common.threads; t; t = t->next) thread_unlock(t);
    pthread_mutex_unlock(&common.lock);
}

static void fork_child(void)
{
    for (Thread *t = common.threads, *next; t; t = next) {
        next = t->next;
        thread_unlock(t);
        if (t != self) thread_remove(t);
    }
    pthread_mutex_init(&common.lock, NULL);
}

/* ---- first use ---- */

static void set_limit(size_t bytes)
{
    common.limit = bytes;
    atomic_store_explicit(&thread_limit, bytes / 8 < THREAD_BYTES ? bytes / 8 : THREAD_BYTES, memory_order_relaxed);
}

static size_t default_limit(void)
{
    const char *text = getenv("PYXLA_CACHE_BYTES");
    char *end;
    if (text && *text) {
        unsigned long long v = strtoull(text, &end, 10);
        if (!*end) return (size_t)v;
    }
    size_t eighth = limits_memory() / 8;
    return eighth < (size_t)2 << 30 ? eighth : (size_t)2 << 30;
}

static void init(void)
{
    const char *check = getenv("PYXLA_CHECK");
    checking = check && strcmp(check, "1") == 0;
    page = (size_t)sysconf(_SC_PAGESIZE);
    set_limit(default_limit());
    pthread_key_create(&exit_key, thread_exit);
    pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/* The calling thread's cache, made at its first use; NULL when checking or without memory. */
static Thread *thread_self(void)
{
    if (__builtin_expect(self != NULL, 1)) return self;
    pthread_once(&once, init);
    Thread *t = checking ? NULL : aligned_alloc(ALIGN, sizeof *t);
    if (!t) return NULL;
    memset(t, 0, sizeof *t);
    pthread_mutex_lock(&common.lock);
    t->next = common.threads;
    t->link = &common.threads;
    if (t->next) t->next->link = &t->next;
    common.threads = t;
    pthread_mutex_unlock(&common.lock);
    pthread_setspecific(exit_key, t);
    return self = t;
}

/* ---- PYXLA_CHECK=1: a block ends where a page without access begins; nothing is reused ---- */

static void check_count(ptrdiff_t bytes)
{
    pthread_mutex_lock(&common.lock);
    common_use(bytes);
    common.allocations += bytes > 0;
    pthread_mutex_unlock(&common.lock);
}

static void *check_alloc(size_t bytes)
{
    size_t all = (bytes + sizeof(Block) + page - 1) / page * page;
    char *map = map_pages(all + page);
    if (!map) return NULL;
    mprotect(map + all, page, PROT_NONE);
    memset(map, 0xFF, all);                     /* NaN in every float type: a read before the first write shows */
    char *p = map + all - bytes;
    Block b = {.bytes = bytes, .map = map, .map_bytes = all + page, .magic = CHECK_MAGIC};
    memcpy(p - sizeof b, &b, sizeof b);         /* as unaligned as the block's size */
    check_count((ptrdiff_t)bytes);
    return p;
}

static Block check_header(void *p)
{
    Block b;
    memcpy(&b, (char *)p - sizeof b, sizeof b);
    if (b.magic != CHECK_MAGIC) __builtin_trap();     /* somebody wrote before the start of this block */
    return b;
}

static void check_free(void *p)
{
    Block b = check_header(p);
    check_count(-(ptrdiff_t)b.bytes);
    munmap(b.map, b.map_bytes);
}

/* ---- allocation ---- */

static bool must_fail(void)
{
    return atomic_load_explicit(&fail_at, memory_order_relaxed) > 0 && atomic_fetch_sub(&fail_at, 1) == 1;
}

/* From the common cache or the system; all cached memory is given back before it fails. */
static Block *block_find(unsigned class, size_t used, bool count, bool *fresh)
{
    pthread_mutex_lock(&common.lock);
    Block *b = common_take(class);
    if (count) {
        common_use((ptrdiff_t)class_bytes(class));
        common.allocations++;
    }
    common.reused += b != NULL;
    pthread_mutex_unlock(&common.lock);
    if (b) return b;
    *fresh = true;
    if (!(b = block_make(class, used)) && mem_trim()) b = block_make(class, used);
    if (b || !count) return b;
    pthread_mutex_lock(&common.lock);
    common.in_use -= (ptrdiff_t)class_bytes(class);
    pthread_mutex_unlock(&common.lock);
    return NULL;
}

/* A use of `bytes` (negative: of a freed block) is the thread's own account until it is large. The thread's lock is held; what
 * is returned goes to flush() without it. */
static ptrdiff_t thread_use(Thread *t, ptrdiff_t bytes)
{
    ptrdiff_t use = t->in_use += bytes;
    if (use <= FLUSH_BYTES && use >= -FLUSH_BYTES) return 0;
    t->in_use = 0;
    return use;
}

static void flush(ptrdiff_t bytes)
{
    pthread_mutex_lock(&common.lock);
    common_use(bytes);
    pthread_mutex_unlock(&common.lock);
}

static Block *small_alloc(Thread *t, unsigned class)
{
    thread_lock(t);
    Block *b = t->head[class];
    ptrdiff_t use = thread_use(t, (ptrdiff_t)class_bytes(class));
    t->allocations++;
    if (b) {
        t->head[class] = b->next;
        t->count[class]--;
        t->cached -= b->bytes;
        t->reused++;
    }
    thread_unlock(t);
    if (__builtin_expect(use != 0, 0)) flush(use);
    if (__builtin_expect(b != NULL, 1)) return b;
    bool fresh;
    if (!(b = block_find(class, class_bytes(class), false, &fresh))) flush(-(ptrdiff_t)class_bytes(class));
    return b;
}

static void *alloc(size_t bytes, bool *fresh)
{
    *fresh = false;
    if (bytes > MOST || must_fail()) return NULL;
    if (!bytes) bytes = 1;
    Thread *t = thread_self();
    if (!t && checking) return check_alloc(bytes);
    unsigned class = class_of(bytes);
    Block *b = t && class < NSMALL ? small_alloc(t, class) : block_find(class, bytes, true, fresh);
    return b ? b + 1 : NULL;
}

void *mem_alloc(size_t bytes)
{
    bool fresh;
    return alloc(bytes, &fresh);
}

void *mem_calloc(size_t bytes)
{
    bool fresh;
    char *p = alloc(bytes, &fresh);
    if (p && !(fresh && bytes > MAPPED)) memset(p, 0, bytes);       /* new pages are zero */
    return p;
}

/* Half of a thread's blocks of a class, as a list; its lock is held. */
static Block *thread_half(Thread *t, unsigned class)
{
    Block *out = NULL;
    for (int n = t->count[class] / 2; n > 0; n--) {
        Block *b = t->head[class];
        t->head[class] = b->next;
        t->count[class]--;
        t->cached -= b->bytes;
        b->next = out;
        out = b;
    }
    return out;
}

/* Puts a list into the common cache and releases what is too much. */
static void common_give(Block *list, ptrdiff_t use)
{
    pthread_mutex_lock(&common.lock);
    common_use(use);
    for (Block *next; list; list = next) {
        next = list->next;
        common_put(list);
    }
    Block *out = common_shrink(common.limit);
    pthread_mutex_unlock(&common.lock);
    release_all(out);
}

static void small_free(Thread *t, Block *b)
{
    unsigned c = b->class;
    thread_lock(t);
    ptrdiff_t use = thread_use(t, -(ptrdiff_t)b->bytes);
    Block *over = t->count[c] == THREAD_COUNT ? thread_half(t, c) : NULL;
    if (t->cached + b->bytes <= atomic_load_explicit(&thread_limit, memory_order_relaxed)) {
        b->next = t->head[c];
        t->head[c] = b;
        t->count[c]++;
        t->cached += b->bytes;
    } else {
        b->next = over;
        over = b;
    }
    thread_unlock(t);
    if (__builtin_expect(over || use, 0)) common_give(over, use);
}

void mem_free(void *p)
{
    if (!p) return;
    Thread *t = thread_self();
    if (!t && checking) {
        check_free(p);
        return;
    }
    Block *b = block_of(p);
    if (t && b->class < NSMALL) {
        small_free(t, b);
        return;
    }
    b->next = NULL;
    common_give(b, -(ptrdiff_t)b->bytes);
}

static size_t usable(void *p) { return checking ? check_header(p).bytes : block_of(p)->bytes; }

void *mem_realloc(void *p, size_t bytes)
{
    if (!p) return mem_alloc(bytes);
    size_t old = usable(p);
    if (!checking && bytes <= old && bytes >= old / 2) return p;
    void *q = mem_alloc(bytes);
    if (!q) return NULL;
    memcpy(q, p, old < bytes ? old : bytes);
    mem_free(p);
    return q;
}

/* ---- control ---- */

MemInfo mem_info(void)
{
    pthread_once(&once, init);
    pthread_mutex_lock(&common.lock);
    MemInfo info = {0, common.cached, 0, common.limit, common.allocations, common.reused};
    ptrdiff_t use = 0;
    for (Thread *t = common.threads; t; t = t->next) {
        thread_lock(t);
        info.cached += t->cached;
        info.allocations += t->allocations;
        info.reused += t->reused;
        use += t->in_use;
        t->in_use = 0;
        thread_unlock(t);
    }
    common_use(use);
    info.in_use = common.in_use > 0 ? (size_t)common.in_use : 0;
    info.peak = common.peak;
    pthread_mutex_unlock(&common.lock);
    return info;
}

size_t mem_trim(void)
{
    pthread_once(&once, init);
    pthread_mutex_lock(&common.lock);
    drain_all();
    Block *out = common_shrink(0);
    pthread_mutex_unlock(&common.lock);
    size_t bytes = release_all(out);
#ifdef __GLIBC__
    malloc_trim(0);                    /* small blocks went to malloc, which keeps what is not at the end of its heap */
#endif
    return bytes;
}

void mem_limit(size_t bytes)
{
    pthread_once(&once, init);
    pthread_mutex_lock(&common.lock);
    set_limit(bytes);
    drain_all();
    Block *out = common_shrink(bytes);
    pthread_mutex_unlock(&common.lock);
    release_all(out);
}

void mem_fail_at(long n) { atomic_store(&fail_at, n > 0 ? n : 0); }
