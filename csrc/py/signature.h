/* The signature of a call: arguments bound to the Python signature and written down as a Record.
 *
 * A Record is what a hit compares. Its `sig` words hold everything that decides about the trace (tree structure, dtypes, shapes, kinds of
 * numbers, hashes of static leaves, which arrays are the same object), its `lay` words what only decides about the plan (strides; those of
 * extents 0 and 1 as 0). It lives on the stack and allocates only when a call is large. Static leaves, dict keys and classes
 * are in `statics` besides, since equal hashes prove nothing.
 *
 * Words: kind | dtype << 8 | rank << 16 | SIG_* << 24 | (alias + 1) << 32, then what the kind needs; containers: kind | count << 32. */
#pragma once
#include "py/tree.h"

typedef struct { PyObject *name, *value; bool is_static, donated; } Param;      /* value: the default of what is no Python function, or NULL */

typedef struct {
    Param *params;                     /* npos positional ones (nposonly of them only so), then keyword-only ones */
    int nparams, npos, nposonly;
    PyObject *var, *varkw;             /* names of *args and **kwargs, or NULL */
    uint64_t var_static, var_donated;  /* of *args: by index */
    PyObject *static_names, *donate_names;   /* sets */
    bool plain;                        /* positional parameters only */
    PyObject *function;                /* borrowed; a Python function, whose defaults are looked up at each call, or NULL */
} Signature;

/* One call bound to a signature: values of the parameters, the rest of the positional ones, the keywords that no parameter took.
 * All borrowed from the call, but the defaults among them, which `kept` owns. */
typedef struct {
    PyObject **slot, **kept;
    PyObject *const *var;
    Py_ssize_t nvar;
    PyObject **kw_name, **kw_value;
    Py_ssize_t nkw, nkept;
    PyObject *buffer[40], **heap;
} Binding;

/* Fills s for a callable; static and donated arguments by number (tuples of int) and name (tuples of str). false with an exception. */
bool signature_init(Signature *s, PyObject *fn, PyObject *static_nums, PyObject *static_names, PyObject *donate_nums, PyObject *donate_names);
void signature_clear(Signature *s);
int signature_traverse(const Signature *s, visitproc visit, void *arg);
/* Binds a call; false with the TypeError that Python would raise. binding_clear() in any case. */
bool binding_init(Binding *b, const Signature *s, const char *fn, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
void binding_clear(Binding *b);
/* The arguments of a binding as a tree: its root's children are the parameters, *args and **kwargs; static ones are leaves. */
bool binding_tree(const Binding *b, const Signature *s, Tree *t, ObjectList *leaves);
/* Name of leaf k of such a tree as a user would write it: x['w'][0]. New reference. */
PyObject *leaf_name(const Signature *s, const Tree *t, uint32_t leaf);
/* The result of calling fn with the children of such a tree's object (a tuple). */
PyObject *call_bound(PyObject *fn, const Signature *s, PyObject *values);

/* Flags of an array leaf: its elements are in the other byte order; its memory may be reused for results. */
enum { SIG_SWAPPED = 1, SIG_DONATED = 2 };
#define LAY_CONSTANT INT64_MIN         /* after the strides of a constant; no stride */

typedef struct {
    PyObject *object;                  /* what the caller passed; owned */
    uint32_t lay;                      /* ARRAY: its first word in lay */
    int32_t alias;                     /* ARRAY: earlier leaf that is the same object, or -1 */
    uint8_t kind, dtype, rank, flags;  /* kind: LEAF_ARRAY, SCALAR, BOOL, INT, FLOAT, COMPLEX or STATIC */
} Leaf;

typedef struct {
    uint64_t *sig;
    int64_t *lay;
    PyObject **value;                  /* per leaf, owned: what the trace and the run read (an ndarray for objects that lend memory) */
    Leaf *leaf;
    PyObject **statics;                /* owned */
    uint32_t nsig, nlay, nleaves, nstatics;
    uint32_t sig_cap, lay_cap, leaf_cap, statics_cap;
    bool abstract, shapes;             /* ShapeDtype leaves are allowed; there are some */
    const char *why;                   /* a leaf that is refused: why; its number is nleaves */
    PyObject *refused;                 /* that leaf; owned */
    uint64_t seen[16];                 /* filter of the addresses of array leaves */
    uint64_t sig_buf[160];
    int64_t lay_buf[96];
    PyObject *value_buf[32];
    Leaf leaf_buf[32];
    PyObject *statics_buf[16];
} Record;

void record_init(Record *r);
void record_clear(Record *r);
/* Writes down a call whose arguments are bound already by position (plain signatures). */
bool record_args(Record *r, const Signature *s, PyObject *const *args);
bool record_binding(Record *r, const Signature *s, const Binding *b);
/* After a false: raises the TypeError that names the refused argument, unless an exception is there. */
void record_raise(const Record *r, const Signature *s, const Binding *b, const char *fn);
/* Whether a static leaf lends its memory by an attribute of its own; from then on objects of its type are looked at for that. */
bool record_lends(const Record *r);
uint64_t record_hash(const Record *r);
/* 1: the same value (same type, equal, floats by their bits); 0: not; -1: an exception. */
int static_equal(PyObject *a, PyObject *b);
/* "float32[3,4]", "int", "'abc'": a leaf for messages. New reference. */
PyObject *leaf_describe(const Record *r, uint32_t leaf);
