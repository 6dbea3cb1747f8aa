/* Entries and Bounds: what the cache of a jitted function holds.
 *
 * An Entry is one traced signature (the `sig` words and statics of a Record, and its guards) with the trace, the graph and the recipe of the
 * result. A Bound is an Entry planned and compiled for one set of strides (the `lay` words and the strides of captured arrays).
 *
 * Both are reference-counted under the GIL: a reference to a Bound is one to its Entry too, but for the one that the Entry's list
 * of Bounds has. So a call that holds a Bound may run without the GIL while the cache is cleared. */
#pragma once
#include "opt/plan.h"
#include "py/signature.h"
#include "py/trace.h"
#include "run/compile.h"
#include "run/exec.h"

typedef struct Entry Entry;
typedef struct Bound Bound;

/* A graph output. */
typedef struct {
    PyArray_Descr *descr;
    Dtype dtype;
    int rank;
    npy_intp shape[MAX_RANK];
    size_t bytes;
    int32_t into;                 /* graph input whose memory it is written into, -1: a new array */
    bool ordered;                 /* a new array in the order of axes that NumPy gives it, else C-contiguous */
    bool scalar;                  /* only ever handed out as a NumPy scalar */
} Output;

struct Entry {
    int refs;
    Entry *next;                  /* in its hash chain */
    uint64_t hash, used;          /* used: the cache's clock at the last lookup */
    uint64_t *sig;
    PyObject **statics;           /* objects that are equal only to themselves are held weakly: a cache keeps no model alive */
    bool *weak;
    uint32_t nsig, nstatics, nleaves;
    Trace *trace;                 /* ended; owns graph, arena, scalar program, guards, captured objects */
    PyObject *leaf_text;          /* list of name, description, name, ... of the leaves; NULL unless recompiles are logged */
    PyObject **numbers;           /* per leaf: the Python number of the trace, or NULL; NULL if there are no guards */
    Tree tree;                    /* of the result */
    TraceResult *results;
    Output *outputs;
    int32_t *written;             /* graph inputs that are written to */
    uint32_t nresults, noutputs, ninputs, nwritten, ncaptured;
    uint32_t nregs, nguards;      /* nregs: 0 if nothing reads a register */
    bool assumes;                 /* something of values that a run checks (assume.h) */
    bool cached;                  /* it is in the cache */
    bool staged;                  /* shapes depend on data */
    bool plain;                   /* registers are leaves: nothing to compute */
    Bound *bounds;                /* most recently used first */
    uint32_t nbounds;
};

struct Bound {
    int refs;
    Entry *entry;
    Bound *next;
    int64_t *lay;                 /* the record's lay words, then a stride per axis of each captured array, and whether it is constant */
    uint32_t nlay, nlay_captured;
    int32_t *took;                /* per output: graph input whose donated memory it took over, or -1 */
    bool any_donated;
    Arena *arena;
    Err err;
    const Plan *plan;             /* NULL: there is nothing to compute */
    Code **code;
    Exec exec;
    double ns;                    /* estimated time of a run on one core */
    struct StageNode *stages;     /* of a graph whose shapes depend on data (staged.h): `plan` is the first stage's; else NULL */
    PlanInput *layout;            /* ... and the layouts of the inputs */
    struct ConstantFound *found;  /* kept values of the last call (constant.h) */
};

/* What making them cost; added to. */
typedef struct { double trace, plan, compile; uint64_t compiled, reused; } Costs;

/* Traces fn for a recorded call; one reference, or NULL with an exception. */
Entry *entry_make(PyObject *fn, const char *name, const Signature *s, const Record *r, const Binding *b, const TraceOptions *options, Costs *costs);
void entry_unref(Entry *e);
int entry_traverse(const Entry *e, visitproc visit, void *arg);
/* 1: static leaf k of the entry is `o`; 0: it is not; -1 with an exception. */
int entry_static_is(const Entry *e, uint32_t k, PyObject *o);
/* Whether an object that the entry is about is gone. */
bool entry_dead(const Entry *e);
/* Whether captured arrays still have the dtypes and shapes of the trace, and arrays are contiguous where it relied on that. */
bool entry_fits(const Entry *e, const Record *r);
/* The ndarray that graph input k is read from in this call (borrowed), or NULL: it is a number. */
PyArrayObject *input_array(const Entry *e, uint32_t k, const Record *r);

/* The code of a plan's kernels, compiled or found, into *code (left alone where there is none to compile); false with an exception. */
bool entry_compile(const Entry *e, const Plan *plan, Code ***code, Costs *costs);
/* A graph input that the function writes to and some of whose elements lie at one address, or -1. */
int32_t entry_overlapping(const Entry *e, const Record *r);
/* Plans and compiles an entry for the strides of a record; one reference, or NULL with an exception. */
Bound *bound_make(Entry *e, const Record *r, int threads, Costs *costs);
bool bound_fits(const Bound *b, const Record *r);
static inline void bound_ref(Bound *b) { b->refs++; b->entry->refs++; }
void bound_unref(Bound *b);
/* Puts a new bound at the front of its entry's list, which takes a reference to it and drops the last past the limit. */
void entry_keep(Entry *e, Bound *b);
void entry_clear_bounds(Entry *e);
/* The entry's bound for these strides, moved to the front, or NULL; borrowed. */
Bound *entry_bound(Entry *e, const Record *r);

/* Name of leaf k of a call, for messages; never NULL, no exception; new reference. */
PyObject *call_leaf_name(const Signature *s, const Binding *b, uint32_t leaf);
double now_seconds(void);
