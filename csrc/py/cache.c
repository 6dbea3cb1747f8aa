/* The cache of a jitted function: entries by hash, the most recently found first in its chain; and signatures that are being compiled. */
#include <unistd.h>
#include "base/hash.h"
#include "py/jit.h"
#include "py/error.h"
#include "py/state.h"

/* ---- does an entry fit ---- */

void registers_clear(Registers *regs)
{
    for (uint32_t k = 0; regs->owned && k < regs->n; k++)
        Py_DECREF(regs->at[k]);
    if (regs->at != regs->buffer)
        PyMem_Free(regs->at);
    regs->at = regs->buffer;
    regs->n = 0;
    regs->owned = false;
}

int registers_fill(Registers *regs, const Entry *e, const Record *r)
{
    const struct ScalarProgram *p = e->trace->scalars;
    if (e->nregs > sizeof regs->buffer / sizeof *regs->buffer && !(regs->at = PyMem_Malloc(e->nregs * sizeof *regs->at))) {
        regs->at = regs->buffer;
        PyErr_NoMemory();
        return -1;
    }
    if (e->plain) {
        for (uint32_t k = 0; k < e->nregs; k++)
            regs->at[k] = r->value[scalars_leaf(p, (int)k)];
        return 1;
    }
    if (scalars_run(p, r->value, regs->at)) {
        regs->n = e->nregs;
        regs->owned = true;
        return 1;
    }
    if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError))
        return -1;
    error_drop();
    return 0;
}

int entry_admits(const Entry *e, const Record *r, Registers *regs, PyObject **why)
{
    for (uint32_t k = 0; k < e->nstatics; k++) {
        int same = entry_static_is(e, k, r->statics[k]);
        if (same <= 0)
            return same;
    }
    int ok = e->nregs ? registers_fill(regs, e, r) : 1;
    return ok == 1 && e->nguards ? guards_check(e->trace->guards, r->value, regs->at, why) : ok;
}

static bool same_words(const Entry *e, uint64_t hash, const Record *r)
{
    return e->hash == hash && e->nsig == r->nsig && !memcmp(e->sig, r->sig, r->nsig * sizeof *r->sig);
}

static Entry **chain_of(Cache *c, uint64_t hash) { return &c->chain[hash % CACHE_BUCKETS]; }

/* Moves an entry to the front of its chain. */
static void move_up(Cache *c, Entry *e)
{
    for (Entry **at = chain_of(c, e->hash); *at; at = &(*at)->next)
        if (*at == e) {
            *at = e->next;
            e->next = *chain_of(c, e->hash);
            *chain_of(c, e->hash) = e;
            return;
        }
}

static bool is_wrong(const Wrong *w, const Entry *e)
{
    int k = 0;
    while (k < w->n && w->at[k] != e)
        k++;
    return k < w->n;
}

/* One walk along the chain; *again: the cache was changed by Python code under way. */
static Entry *walk(Cache *c, const Record *r, const Wrong *but, uint64_t hash, Registers *regs, bool *again)
{
    uint64_t version = c->version;
    for (Entry *e = *chain_of(c, hash); e; ) {
        if (!same_words(e, hash, r) || !entry_fits(e, r) || is_wrong(but, e)) {
            e = e->next;
            continue;
        }
        e->refs++;
        int ok = entry_admits(e, r, regs, NULL);
        *again = c->version != version;
        if (ok == 1 && !*again)
            return e;
        registers_clear(regs);
        Entry *next = *again ? NULL : e->next;
        entry_unref(e);
        if (ok < 0 || *again)
            return NULL;
        e = next;
    }
    return NULL;
}

/* The latest entry with the same words, and how many there are. */
static void count_variants(Cache *c, const Record *r, uint64_t hash, Entry **variant, uint32_t *variants)
{
    for (Entry *e = *chain_of(c, hash); e; e = e->next) {
        if (!same_words(e, hash, r))
            continue;
        if (!*variant) {
            *variant = e;
            e->refs++;
        }
        ++*variants;
    }
}

Entry *cache_find(Cache *c, const Record *r, const Wrong *but, Registers *regs, Entry **variant, uint32_t *variants)
{
    uint64_t hash = record_hash(r);
    bool again = true;
    Entry *e = NULL;
    for (int tries = 0; again && tries < 8 && !PyErr_Occurred(); tries++) {
        again = false;
        e = walk(c, r, but, hash, regs, &again);
    }
    *variant = NULL;
    *variants = 0;
    if (e) {
        e->used = ++c->clock;
        move_up(c, e);
    }
    else if (!PyErr_Occurred())
        count_variants(c, r, hash, variant, variants);
    return e;
}

/* ---- adding and dropping ---- */

void cache_last(Cache *c, Bound *b)
{
    Bound *old = c->last;
    if (old == b || (b && !b->entry->cached))
        return;
    if (b)
        bound_ref(b);
    c->last = b;
    if (old)
        bound_unref(old);
}

static void cache_remove(Cache *c, Entry *e)
{
    if (c->last && c->last->entry == e)
        cache_last(c, NULL);
    for (Entry **at = chain_of(c, e->hash); *at; at = &(*at)->next) {
        if (*at != e)
            continue;
        *at = e->next;
        e->cached = false;
        c->entries--;
        c->version++;
        entry_unref(e);
        return;
    }
}

static Entry *least_used(const Cache *c)
{
    Entry *least = NULL;
    for (int k = 0; k < CACHE_BUCKETS; k++)
        for (Entry *e = c->chain[k]; e; e = e->next)
            if (!least || e->used < least->used)
                least = e;
    return least;
}

/* Drops the entries of objects that are gone. */
static void sweep(Cache *c)
{
    for (int k = 0; k < CACHE_BUCKETS; k++)
        for (Entry *e = c->chain[k]; e; ) {
            bool dead = entry_dead(e);
            Entry *next = e->next;
            if (dead)
                cache_remove(c, e);
            e = dead ? c->chain[k] : next;    /* freeing an entry may run Python code: start again */
        }
}

void cache_add(Cache *c, Entry *e)
{
    sweep(c);
    if (c->entries >= MAX_ENTRIES)
        cache_remove(c, least_used(c));
    e->refs++;
    e->cached = true;
    e->used = ++c->clock;
    e->next = *chain_of(c, e->hash);
    *chain_of(c, e->hash) = e;
    c->entries++;
    c->version++;
}

/* Entries are taken out one by one, since freeing one may run Python code. */
void cache_clear(Cache *c)
{
    cache_last(c, NULL);
    for (int k = 0; k < CACHE_BUCKETS; k++)
        while (c->chain[k])
            cache_remove(c, c->chain[k]);
}

void cache_replan(Cache *c)
{
    cache_last(c, NULL);
    for (int k = 0; k < CACHE_BUCKETS; k++)
        for (Entry *e = c->chain[k]; e; e = e->next)
            entry_clear_bounds(e);
}

int cache_traverse(const Cache *c, visitproc visit, void *arg)
{
    for (int k = 0; k < CACHE_BUCKETS; k++)
        for (Entry *e = c->chain[k]; e; e = e->next) {
            int r = e->refs == 1 || (c->last && c->last->entry == e && e->refs == 2) ? entry_traverse(e, visit, arg) : 0;
            if (r)
                return r;
        }
    return 0;
}

/* ---- signatures that are being compiled ---- */

static _Thread_local int begun;        /* signatures that this thread compiles */

/* A thread that compiles itself waits for no other: that one may wait for it (a signal's handler or a finalizer calls in the middle of a trace). */
Pending *pending_find(Cache *c, const Record *r)
{
    if (begun)
        return NULL;
    unsigned long me = PyThread_get_thread_ident();
    for (Pending *p = c->pending; p; p = p->next)
        if (p->nsig == r->nsig && p->owner != me && p->process == (long)getpid() && !memcmp(p->sig, r->sig, r->nsig * sizeof *r->sig)) {
            p->refs++;
            return p;
        }
    return NULL;
}

static void pending_unref(Pending *p)
{
    if (--p->refs)
        return;
    PyThread_free_lock(p->lock);
    PyMem_Free(p->sig);
    PyMem_Free(p);
}

bool pending_wait(Pending *p)
{
    bool ok = true;
    PyLockStatus got = PY_LOCK_FAILURE;
    while (ok && got != PY_LOCK_ACQUIRED) {
        Py_BEGIN_ALLOW_THREADS
        got = PyThread_acquire_lock_timed(p->lock, 100000, 1);
        Py_END_ALLOW_THREADS
        if (got == PY_LOCK_ACQUIRED)
            PyThread_release_lock(p->lock);
        else
            ok = PyErr_CheckSignals() == 0;
    }
    pending_unref(p);
    return ok;
}

Pending *pending_begin(Cache *c, const Record *r)
{
    Pending *p = PyMem_Calloc(1, sizeof *p);
    if (p) {
        p->sig = PyMem_Malloc((r->nsig + 1) * sizeof *p->sig);
        p->lock = PyThread_allocate_lock();
    }
    if (!p || !p->sig || !p->lock) {
        if (p && p->lock)
            PyThread_free_lock(p->lock);
        if (p)
            PyMem_Free(p->sig);
        PyMem_Free(p);
        PyErr_NoMemory();
        return NULL;
    }
    memcpy(p->sig, r->sig, r->nsig * sizeof *p->sig);
    p->nsig = r->nsig;
    p->refs = 1;
    p->owner = PyThread_get_thread_ident();
    p->process = (long)getpid();
    PyThread_acquire_lock(p->lock, WAIT_LOCK);
    p->next = c->pending;
    c->pending = p;
    begun++;
    return p;
}

void pending_end(Cache *c, Pending *p)
{
    for (Pending **at = &c->pending; *at; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            break;
        }
    begun--;
    PyThread_release_lock(p->lock);
    pending_unref(p);
}
