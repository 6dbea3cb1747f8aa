/* The jitted function: its options and its cache of Entries.
 *
 * A call goes record -> last Bound? -> cache -> miss (dispatch.c), then run.c. Everything here is touched under the GIL only;
 * whatever may run Python code (guards, static equality, tracing) may change the cache, so `version` is compared afterwards. */
#pragma once
#include "py/capture.h"
#include "py/entry.h"

enum { CACHE_BUCKETS = 64, MAX_ENTRIES = 256, GUARD_WARNING = 8, MAX_WRONG = 64 };

/* A signature that some thread is compiling. */
typedef struct Pending Pending;
struct Pending {
    Pending *next;
    int refs;
    uint64_t *sig;
    uint32_t nsig;
    unsigned long owner;
    long process;                 /* of another process (before a fork): its owner is gone */
    PyThread_type_lock lock;      /* held by the owner until it is done */
};

typedef struct {
    Entry *chain[CACHE_BUCKETS];
    uint32_t entries;
    uint64_t clock, version;
    Bound *last;                  /* of the latest call */
    Pending *pending;
} Cache;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *fn, *dict, *weak;
    PyObject *name;               /* str */
    const char *text;             /* its UTF-8, for messages */
    Signature signature;
    TraceOptions options;
    int threads;
    bool warned;
    double tune;                  /* seconds for which new plans are tuned, 0: they are not */
    bool tuning;                  /* this is being done */
    Cache cache;
    Watched watched;
    uint64_t hits, misses, traces;
    Costs costs;
} Jit;

/* Entries that admit a call and assumed what does not hold for it (references), most often none. */
typedef struct { int n; uint32_t flip; Entry **at; const Entry *fresh; PyObject *why; } Wrong;

/* One call: what a message about it needs besides its record. */
typedef struct {
    Jit *jit;
    PyObject *const *args;
    Py_ssize_t nargs;
    PyObject *kwnames;
    Binding binding;
    bool bound;                   /* binding is filled */
    Wrong wrong;
} Call;

/* Fills c->binding unless it is; false with an exception. */
bool call_bind(Call *c);
/* Name of leaf k for messages; never NULL. New reference. */
PyObject *call_name(Call *c, uint32_t leaf);
/* Binds and writes down a call; false with an exception. */
bool call_record(Call *c, Record *r);
/* After a miss: records the call anew if an argument turns out to lend its memory by an attribute of its own, which the class does not show. */
bool call_lent(Call *c, Record *r);

/* Numbers of the scalar program of an entry for one call. */
typedef struct { PyObject **at; uint32_t n; bool owned; PyObject *buffer[16]; } Registers;
void registers_clear(Registers *regs);
/* Computes the registers: 1, 0 (Python raised, as the function itself will when it is traced), or -1 with an exception. */
int registers_fill(Registers *regs, const Entry *e, const Record *r);
/* Whether an entry whose sig matches is right for this call: statics equal, guards hold. Computes the registers, which the caller
 * clears. 1, 0 (*why, if not NULL, may get a guard's description), or -1 with an exception. Runs Python code. */
int entry_admits(const Entry *e, const Record *r, Registers *regs, PyObject **why);

/* ---- dispatch.c ---- */
PyObject *jit_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames);
/* Counts up or down the number of disable_jit() blocks that this thread is in. */
void dispatch_disable(int step);

/* ---- run.c ---- */
/* Whether the arguments that the function writes to have each element once; else an exception names the one. For layouts that have no bound yet. */
bool check_layouts(const Entry *e, const Record *r, Call *c);
/* Runs a bound on a recorded call that its entry admits; the result, or NULL with an exception. */
PyObject *run_bound(Bound *b, const Record *r, const Registers *regs, Call *c);

/* ---- cache.c ---- */
/* The entry that admits the call, `but` for these (a reference) with its registers, or NULL: none does, or an exception. *variant: the latest entry with the
 * same words (a reference), *variants: how many there are. */
Entry *cache_find(Cache *c, const Record *r, const Wrong *but, Registers *regs, Entry **variant, uint32_t *variants);
/* Adds an entry; the least recently used one goes when there are too many. */
void cache_add(Cache *c, Entry *e);
/* Makes b the latest call's bound, unless its entry has left the cache; NULL: none is. */
void cache_last(Cache *c, Bound *b);
void cache_clear(Cache *c);
/* Drops the bounds of all entries: the next calls plan again. */
void cache_replan(Cache *c);
int cache_traverse(const Cache *c, visitproc visit, void *arg);
/* The pending compilation of a signature by another thread (a reference), or NULL. */
Pending *pending_find(Cache *c, const Record *r);
/* Waits without the GIL until it is done and gives the reference up; false with an exception (an interrupt). */
bool pending_wait(Pending *p);
Pending *pending_begin(Cache *c, const Record *r);
void pending_end(Cache *c, Pending *p);

/* ---- jit_type.c, inspect.c ---- */
bool jit_module_init(PyObject *module);
bool inspect_module_init(PyObject *module);
PyObject *jit_lower(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *jit_eval_shape(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

