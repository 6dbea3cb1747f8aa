/* A trace: what py/'s two halves share. The trace side (tracer.c cell.c index.c scalar.c guard.c hooks.c capture.c) turns the run of a
 * Python function into a Graph; the dispatch side (jit_type.c dispatch.c signature.c tree.c result.c) calls it on a miss and keeps
 * what it returns in an Entry.
 *
 * A Trace belongs to one thread and is current on it from trace_begin() to trace_end(). A Trace's graph and arena outlive it: the Entry
 * keeps the ended Trace (trace_end(t, true)) until trace_free(t). All Python references here are strong. */
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "base/text.h"
#include "ir/ir.h"

typedef struct Trace Trace;

/* Whether o is exactly a Python bool, int, float or complex. */
bool is_number(PyObject *o);
/* Where a Python int lies, which decides its dtype as an array: int64, uint64, or none. Other objects are RANGE_INT64. */
typedef enum { RANGE_INT64, RANGE_UINT64, RANGE_ABOVE, RANGE_BELOW } IntegerRange;
IntegerRange integer_range(PyObject *number);

/* What the k-th graph input is read from on each call. */
typedef enum { INPUT_LEAF, INPUT_CAPTURED, INPUT_REGISTER } InputKind;
typedef struct {
    InputKind kind;
    int leaf;                   /* LEAF: array or NumPy scalar, index among all leaves of the call */
    PyObject *object;           /* CAPTURED: the ndarray met in a global, closure or attribute; its memory is read at every call */
    int reg;                    /* REGISTER: a number of the scalar program */
    Dtype dtype;                /* of the graph input (REGISTER: the dtype the number is converted to; overflow raises) */
    int writeback;              /* graph output that is stored into this input after the run, -1: it is not written */
    bool stored;                /* the function stores into it, if only what is there already */
    bool swapped;               /* CAPTURED: the array's elements are in the other byte order */
    bool contiguous;            /* the trace relied on this array's being C-contiguous: part of the key of the entry */
    const int64_t *strides;     /* ... on these strides (bytes; those of extents 0 and 1 do not count); NULL: it did not */
} TraceInput;

/* What a leaf of the result tree is made from on each call. */
typedef enum {
    RESULT_NEW,                 /* a new array (or NumPy scalar) from graph output `output`; results with the same output are the same object */
    RESULT_INPUT,               /* the very object of input `input` */
    RESULT_INPUT_VIEW,          /* a NumPy view of input `input` */
    RESULT_NEW_VIEW,            /* a NumPy view of the new array of graph output `output` (results that share a base share it) */
    RESULT_NEW_STEPS,           /* what `steps` make of the new array of graph output `output` */
    RESULT_REGISTER,            /* a Python number: register `input` of the scalar program */
    RESULT_OBJECT,              /* a Python object, `object`, the same on every call */
    RESULT_LEAF,                /* the very object of leaf `input` of the arguments, which is part of the key */
    RESULT_AGAIN,               /* the very object of the earlier result `input` */
} ResultKind;

/* A basic view: axis k of the view steps step[k] elements along axis axis[k] of its base (axis -1: a new or broadcast axis, stride 0),
 * and the view's element 0 is element start[] of the base. */
typedef struct {
    int rank, base_rank; int8_t axis[MAX_RANK]; int64_t shape[MAX_RANK], step[MAX_RANK], start[MAX_RANK];
    uint8_t part;               /* the real (1) or imaginary (2) parts of the elements that the rest describes */
    bool readonly;
    bool flat;                  /* base_rank is 1 and step and start count bytes: the base's strides are those of the trace, part of the key of the entry */
} View;

/* A step from an array to a view of it. A reshape (to view.shape; contiguous: to C order, as ravel) is a view or a copy, as NumPy finds by the
 * strides; several results may show one: `made` is its number. */
typedef struct { bool reshape, contiguous; uint32_t made; const void *map; View view; } ViewStep;

typedef struct {
    ResultKind kind;
    int output, input;
    bool contiguous;            /* NEW, NEW_VIEW: NumPy's array is C-contiguous whatever the arguments' layouts are, or is to be */
    bool numpy_scalar;          /* NEW: a 0-d result that NumPy returns as a scalar */
    bool python_number;         /* NEW: ... and Python as an int or float */
    bool owner;                 /* NEW_VIEW: all of the array with its axes permuted, and the first such result where none is the array itself */
    View *view;                 /* *_VIEW; in the arena */
    ViewStep *steps;            /* NEW_STEPS; in the arena */
    uint32_t nsteps;
    PyObject *object;           /* OBJECT */
} TraceResult;

/* mode: MODE_ bits of the nodes; abstract: arguments may be ShapeDtypes, which have no values; flip: assumptions whose value shall be the other one;
 * watched: of the function, read and filled by trace_watch(). */
typedef struct { uint8_t mode; Py_ssize_t op_limit; bool abstract; uint32_t flip; struct Watched *watched; } TraceOptions;

#define NAN_MESSAGE "an operation made a NaN of operands without one"

struct Trace {
    Arena *arena;
    Graph *graph;
    Err err;
    TraceOptions options;
    VEC(TraceInput) inputs;     /* by graph input number */
    struct ScalarProgram *scalars;
    struct GuardList *guards;
    uint32_t reshapes;          /* of the results' steps */
    VEC(Id) unordered;          /* arrays whose axes the plan may order otherwise than NumPy: what is made of them does not show by its strides what is a view */
    Trace *outer;               /* the trace this one interrupts on this thread */
    unsigned long thread;
    /* trace-side private fields follow, see tracer.h */
    struct TracePrivate *priv;
};

/* ---- trace side, called by dispatch ---- */
Trace *trace_begin(const TraceOptions *options);            /* NULL with an exception; installs the hooks */
/* A tracer for argument leaf number `leaf`: value is an exact ndarray (any layout), a NumPy scalar, or a Python
 * number; `alias` >= 0: the same array object as that earlier leaf (they share their cell). */
PyObject *trace_leaf(Trace *t, int leaf, PyObject *value, int alias);
/* Called right after trace_begin() with the function and the leaves of its arguments: makes guards on the captured state that its code and
 * the code it calls can read. false with an exception. */
bool trace_watch(Trace *t, PyObject *function, PyObject *const *leaves, int n);
/* After the function returned: classifies n result leaves (tracers, arrays, numbers, other objects), appends write-backs and results
 * to the graph's outputs. statics: by leaf of the arguments, the object that is part of the key, or NULL. Objects in `out` are borrowed from
 * the leaves. false with an exception. */
bool trace_finish(Trace *t, PyObject *const *statics, int nstatics, PyObject *const *leaves, int n, TraceResult *out);
/* The keys of a dict among the results, with today's value of a Python number that is one, guarded. New reference. */
PyObject *trace_keys(PyObject *keys);
/* Ends the trace: no tracer of it can be used any more. keep: the caller owns t now (arena, graph, inputs, scalars, guards and what
 * trace_source() needs stay valid) and frees it by trace_free(); else all is freed. */
void trace_end(Trace *t, bool keep);
/* Frees an ended trace that was kept: arena, scalars, guards, captured objects and t itself. */
void trace_free(Trace *t);
Trace *trace_current(void);                                 /* of this thread; NULL when it is not tracing */
/* Makes t (NULL: none) the current one; the one that was. For code of ours that runs amid a trace and is not part of it. */
Trace *trace_exchange(Trace *t);
bool tracer_check(PyObject *o);
/* Source id -> "file", line, text of the line (new references or NULL); for messages. */
bool trace_source(const Trace *t, uint32_t src, PyObject **file, int *line, PyObject **function);
/* The operation of a source id, with its operands; NULL: not known. */
const char *trace_operation(const Trace *t, uint32_t src);
/* What a failed check of a source id says, with the cure after "; "; NULL: as its code. */
const char *trace_message(const Trace *t, uint32_t src);
/* Raises the exception of an Err (error.c), naming the user's file and line through t (may be NULL). Returns NULL. */
PyObject *error_raise(const Err *err, const Trace *t);

/* ---- scalar program (scalar.c): registers of Python numbers, first the number leaves, then results of recorded operations ---- */
int scalars_count(const struct ScalarProgram *p);           /* registers */
bool scalars_plain(const struct ScalarProgram *p);          /* no operations: register k is leaf scalars_leaf(p, k) */
int scalars_leaf(const struct ScalarProgram *p, int reg);   /* -1: computed */
/* Computes all registers (new references into regs); false with the exception that Python raised. */
bool scalars_run(const struct ScalarProgram *p, PyObject *const *leaves, PyObject **regs);
/* A Python number as an element of dtype at *cell (8 or 16 bytes); OverflowError as NumPy's if an int does not fit. */
bool scalar_store(PyObject *number, Dtype dtype, void *cell);
void scalars_free(struct ScalarProgram *p);

/* ---- guards (guard.c): what must hold for an entry to be used: values of registers, identities of captured objects ---- */
int guards_count(const struct GuardList *g);
/* 1: all hold, 0: one does not (its description in *why if why is not NULL, a new reference), -1: an exception. */
int guards_check(struct GuardList *g, PyObject *const *leaves, PyObject *const *regs, PyObject **why);
void guards_free(struct GuardList *g);
int guards_traverse(const struct GuardList *g, visitproc visit, void *arg);

/* ---- shared ---- */
/* NumPy dtype <-> Dtype; DT_COUNT and a TypeError (named by `what`) for those not supported. Byte-swapped ones count as unsupported here. */
Dtype dtype_from_numpy(PyObject *descr, const char *what);
PyObject *dtype_to_numpy(Dtype d);                          /* new reference */
int numpy_type(Dtype d);                                    /* NPY_BOOL, ...; -1 for those that other packages register */
Dtype dtype_registered(PyObject *descr);                    /* of the dtypes that ml_dtypes registers, in either byte order; DT_COUNT: none of them */
void scalar_element(PyObject *scalar, void *cell);           /* the element of a NumPy scalar */
Dtype scalar_type_registered(PyTypeObject *type);           /* of ml_dtypes' scalar types; DT_COUNT: none of them */
