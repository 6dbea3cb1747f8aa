/* The trace side of py/: what the tracer's own files share. Read trace.h first.
 *
 * A Cell is one array object of the traced program: a leaf, a captured array or an array made in the function. Its `node` is its
 * value now, `version` counts the writes. A Tracer is the Python object a user holds: a cell, a Map (which part of the cell, NULL:
 * all of it) and a kind. A tracer keeps the node it derived last; a write anywhere into the cell raises the version, and
 * the next read derives again. So aliasing is a fact about cells. Every write goes through cell_rebind().
 *
 * Cells are counted by their tracers and listed in their trace, which clears cell->trace when it ends; a tracer whose
 * cell has no trace any more refuses every use. Maps live in the trace's arena. */
#pragma once
#include "py/np.h"
#include "py/trace.h"

/* Whether NumPy's array would be C-contiguous: surely, if all inputs are, or not known. */
typedef enum { LAYOUT_C, LAYOUT_INPUTS, LAYOUT_UNKNOWN } Layout;
typedef enum { OWNER_LOCAL, OWNER_LEAF, OWNER_CAPTURED } Owner;

typedef struct Cell Cell;
struct Cell {
    Trace *trace;                 /* NULL: the trace has ended */
    Cell *prev, *next;            /* in the trace's list */
    int refs;
    Id node;
    uint32_t version;
    int input;                    /* LEAF, CAPTURED: graph input; else -1 */
    uint8_t owner, layout;
    bool readonly, stored;        /* stored: something was stored into it */
    bool whole;                   /* of a snapshot: each element once at most, so that NumPy's reshape of it may be a view */
    bool stale;                   /* of a snapshot: its array was stored into through another one */
    bool frozen;                  /* an array with a run-time extent that has what NumPy makes a view of, or is one */
    const int64_t *stride;        /* bytes, of an input that is not C-contiguous; else NULL */
    int results, output;          /* while finishing: results that show this array, its graph output (-1: none yet) */
    bool owned;                   /* while finishing: one of them is the array itself, or takes its memory over */
    Cell *origin;                 /* this shows a part of it as it was, which NumPy may show as it is; counted in its views[origin_as] */
    uint8_t origin_as;            /* INPUTS: a copy in NumPy too if the inputs are contiguous; UNKNOWN: a view in NumPy */
    PyObject *through;            /* of a snapshot that may be stored into: called with its new value, it stores that into what the snapshot shows */
    int views[3];                 /* live tracers that are reshaped views if [Layout] says so */
};

/* A view of its parent (NULL: the cell). Parts: the real or imaginary part of each element, or its bits as the dtype `as`. Basic: axis k of the view runs along axis[k] of the parent (-1: a new axis) by step[k],
 * from element start[]; start has the parent's rank; offset, if there is one, has nodes that stand for start (0: start
 * counts). Reshape: the same elements in C order; only rank and shape count. Diagonal: basic, but the last axis runs along the parent's last two. */
typedef enum { PART_ALL, PART_REAL, PART_IMAG, PART_BITS } ElementPart;
typedef struct Map Map;
struct Map {
    const Map *parent;
    uint8_t rank, base_rank, layout;    /* layout: when NumPy's reshape is a view, the worst along the chain */
    bool reshape, diagonal, readonly;   /* readonly: an axis is broadcast, or NumPy says so */
    uint8_t part, within;               /* an ElementPart of all of the parent's elements; within: that of this map or the nearest above */
    uint8_t as;                         /* within PART_BITS: the dtype */
    int8_t *axis;
    int64_t *shape, *step, *start;
    Id *offset;
};

typedef enum { TRACER_ARRAY, TRACER_NUMPY_SCALAR, TRACER_PYTHON_SCALAR } TracerKind;
typedef struct {
    PyObject_HEAD
    Cell *cell;
    const Map *map;
    Id node;                      /* of this view at `version` */
    uint32_t version;
    int reg;                      /* PYTHON_SCALAR: its register */
    uint8_t kind;
    int8_t viewed;                /* counted in cell->views[viewed]; -1: not */
} Tracer;

/* What the trace side knows of a graph input besides TraceInput. */
typedef struct {
    bool contiguous, ordered, readonly;   /* of the array met while tracing; ordered: its axes by falling strides, as in C order */
    const int64_t *strides;       /* bytes; NULL if it is contiguous */
    bool constant;                /* an array of our own whose elements never change */
    uint64_t hash;                /* CAPTURED: of its elements when it was met */
    PyObject *value;              /* LEAF: the array or NumPy scalar of this call; borrowed */
} InputFact;

/* A place in the user's code (strong), and for messages the operation there with its operands, "add(float64(3,), 2)", and what a
 * check says; NULL: not known. */
typedef struct { PyObject *code; int lasti; const char *operation, *message; } Source;
/* An operation of the user's that C carries out itself: while it does, on the stack. */
typedef struct Operation {
    const char *name;             /* of a method of `function`, if that is not NULL */
    PyObject *function;
    PyObject *const *operands;
    Py_ssize_t n;
    Trace *trace;
    uint32_t src;
    const struct Operation *outer;
} Operation;
typedef struct { Cell *cell; Id node; uint32_t version; } Undo;          /* a journal entry; owns a reference to the cell */
typedef struct { int reg; Dtype dtype; Id node; } RegisterInput;
typedef struct { Id node; int64_t value; } Assumed;
typedef struct { GraphMark graph; uint32_t inputs, facts, journal; } TraceMark;

struct TracePrivate {
    Cell *cells;                  /* list of all live cells */
    Cell *scalar_cell;            /* of all Python scalars */
    VEC(InputFact) facts;         /* by graph input number */
    VEC(Source) sources;          /* by source id - 1 */
    uint32_t *source_table, source_cap;
    struct { PyObject *code; bool internal; } frames[64];   /* whose code a frame runs: direct-mapped, strong */
    VEC(RegisterInput) registers;
    VEC(Assumed) assumed;         /* scalars whose value the run checks (assume.c) */
    VEC(PyObject *) leaves;       /* tracers by leaf, strong */
    PyObject *handler, *handler_before;   /* NumPy's memory handler in this trace, and outside */
    PyObject *captured;           /* dict: id of an array -> number of its input */
    bool bools;                   /* True and False are passed as they are, and guarded: code in reach asks `x is True` */
    PyObject *began;              /* the frame that began the trace, NULL: none of Python's */
    PyObject *effects;            /* what the trace must leave as it was: a pyxla._effects.Effects, or NULL */
    VEC(uint8_t) depends;         /* per node: DEPENDS_ bits */
    VEC(Undo) journal;
    const Operation *operation;   /* that runs, NULL: none in C */
    PyObject *declined;           /* text of the last one that was left to its other operand */
    int marks;                    /* open marks; the journal is kept only under one */
    bool ended;
};

extern PyTypeObject *tracer_type;
static inline bool is_tracer(PyObject *o) { return Py_TYPE(o) == tracer_type; }

/* Adds the tracer's type and functions to pyxla._core; -1 with an exception. */
int tracer_module_init(PyObject *module);

/* ---- trace.c ---- */
/* The current trace with the source of new nodes set to the user's frame; NULL with a TraceError when there is none. */
Trace *op_begin(void);
/* Raises the trace's error and clears it, so that a user who catches the exception can go on. Returns NULL. */
PyObject *trace_fail(Trace *t);
/* Source id of the innermost frame that is neither pyxla's nor NumPy's, 0: none. */
uint32_t source_here(Trace *t);
/* Whether the running frame is the user's own. */
bool source_is_user(Trace *t);
/* The source id of the place of another one with an operation and a message, either may be NULL; 0: no memory. */
uint32_t source_named(Trace *t, uint32_t src, const char *operation, const char *message);
/* Whether the running frame belongs to NumPy (then hooks leave it alone). */
bool caller_is_numpy(void);
/* Whether it runs code of NumPy's, numpy.polynomial included. */
bool numpy_asks(void);
/* ... of a package. */
bool package_asks(const char *package);
/* ... that collects the arguments of a function by which it finds out who implements it, or np.iterable. */
bool dispatcher_asks(void);
/* A hash of an array's elements, in any layout; 0 with an exception. */
uint64_t array_hash(PyArrayObject *a);
/* Input number of a captured ndarray; its elements are read at every call. -1 with an exception. */
int trace_capture(Trace *t, PyObject *array);
/* Input number of an array of our own that never changes. -1 with an exception. */
int trace_constant(Trace *t, PyObject *array);
/* The input node of a number of the scalar program as dtype. 0 with the trace's error. */
Id trace_register(Trace *t, int reg, Dtype dtype);
/* Whether all array inputs met so far have their axes in C order, so that what NumPy computes from them is C-contiguous. */
bool trace_ordered(const Trace *t);
/* Makes the memory layout of all array inputs, as it is now, part of the entry's key. */
void trace_rely_layout(Trace *t);
TraceMark trace_mark(Trace *t);
void trace_rollback(Trace *t, TraceMark mark);
void trace_commit(Trace *t);
/* What a node's value depends on. An array whose size depends on data counts as one that depends on arguments: it is not computed while tracing. */
enum { DEPENDS_ARGUMENTS = 1, DEPENDS_CAPTURED = 2 };
unsigned trace_depends(Trace *t, Id id);

/* ---- cell.c: tracers, views, writes; NULL or false with an exception ---- */
/* A new array object with this value. */
PyObject *tracer_array(Trace *t, Id node, Layout layout);
/* What a ufunc returns for this value: an array, or a NumPy scalar if rank is 0. */
PyObject *tracer_result(Trace *t, Id node, Layout layout);
PyObject *tracer_scalar(Trace *t, int reg);
PyObject *tracer_input(Trace *t, int input, Owner owner, TracerKind kind);
/* A view of a tracer; takes the map over (NULL: there was no memory for it, an exception). And the whole array that it shows a part of. */
PyObject *tracer_view(Tracer *base, Map *map);
PyObject *tracer_whole(Tracer *x);
/* Node of a tracer's value now; 0 with an exception. Not for PYTHON_SCALAR. */
Id tracer_node(Tracer *x);
/* The live trace of a tracer, which must be the current one; NULL with a TraceError. */
Trace *tracer_trace(Tracer *x);
/* Gives an array made in the function the layout that NumPy's has. */
void cell_lay_out(Cell *c, Layout layout);
void trace_unordered(Trace *t, Id node);                    /* its axes may be ordered otherwise than NumPy's */
/* ---- in_order.c: nodes of the same value as arrays that lie as NumPy's do ---- */
Id node_in_c_order(Graph *g, Id node);
/* What x[i, j, ...] with `indexed` index arrays in C order made. */
Id node_gathered(Graph *g, Id node, Id x, int indexed);
/* What a function of stacks made, by `loops` axes, of operands with core[i] axes more. */
Id node_stacked(Graph *g, Id node, int loops, const Id *in, const int *core, int nin);
/* Layout of what an elementwise op of this tracer gives. */
Layout tracer_layout(const Tracer *x);
Layout tracer_kept_layout(const Tracer *x);                            /* of a copy of x, a join, what is made like it */
Dtype tracer_dtype(const Tracer *x);
int tracer_rank(const Tracer *x);
const int64_t *tracer_shape(const Tracer *x);
/* Stores a value of exactly the tracer's shape and dtype into the array, through the view. */
bool tracer_store(Tracer *x, Id value);
/* Gives an array made in the function another node of the same value; false with the trace's error if that is 0. */
bool tracer_like(Tracer *x, Id node);
/* Whether it is an array that NumPy made of numbers while the function was traced, and made an operand only later. */
bool cell_of_numpy(const Cell *c);
#define OF_NUMPY "a traced value is stored into an array that NumPy made of numbers alone: make it np.array(...) of that, which can be stored into"
/* Whether the tracer may be written to. */
bool tracer_writable(Tracer *x);
void cell_rebind(Cell *c, Id node);
void cell_unref(Cell *c);

/* ---- map.c ---- */
Map *map_basic(Trace *t, const Map *parent, int rank, int base_rank, const int8_t *axis, const int64_t *shape, const int64_t *step,
               const int64_t *start, const Id *offset);
Map *map_reshape(Trace *t, const Map *parent, int rank, const int64_t *shape, Layout layout);
/* The diagonal of a parent of this shape that begins at these elements of its last two axes. */
Map *map_diagonal(Trace *t, const Map *parent, int rank, const int64_t *shape, int64_t row, int64_t column, bool readonly);
/* Whether a map is a reshape to the shape that its parent (NULL: the cell) has already. */
bool map_same(const Map *m, const Cell *c);
Map *map_part(Trace *t, const Map *parent, int rank, const int64_t *shape, ElementPart part);
/* Node of the view of `base`, the parent's node. */
Id map_read(Graph *g, const Map *m, Id base);
/* The parent's node after the view was replaced by value. */
Id map_write(Graph *g, const Map *m, Id base, Id value);
/* Strides and offset of the view of an array of this shape: of `base` strides and in their unit, or (NULL) C-contiguous and in
 * elements. false: not known before the run. */
bool map_strides(const Map *m, int rank, const int64_t *shape, const int64_t *base, int64_t *stride, int64_t *offset);
/* The View of a chain of static basic maps; false if it has others. */
bool map_view(const Map *m, int base_rank, View *out);

/* ---- operation.c ---- */
/* Names what is done (after op_begin()), until operation_end(), which gives `result` back; where that is NULL, the exception gains the operation. */
void operation_begin(Operation *o, const char *name, PyObject *function, PyObject *const *operands, Py_ssize_t n);
void *operation_end(Operation *o, void *result);
/* The pending exception is one of `name` of x. */
void operation_failed(const char *name, PyObject *x);
/* Remembers an ended operation that Python may refuse, with a message that names types alone. */
void operation_declined(const Operation *o);
/* graph_check() of the current trace's graph, and a host node; what fails in the run names the operation. message: what a failed check says
 * instead of its code's, with the cure after "; ", or NULL. */
Id trace_check(Graph *g, Id pred, CheckCode code, const char *message);
Id trace_host(Graph *g, const Id *in, int nin, const int64_t *attr, int nattr);
/* A value as messages show it: float64(3,4), 2, [float64(3,), a Python int]. */
void describe_object(Text *out, PyObject *o, int depth);
PyObject *prim_describe(PyObject *m, PyObject *o);
PyObject *prim_declined(PyObject *m, PyObject *unused);

/* ---- ufunc.c ---- */
/* An operand of an operation: an array's node, or a number whose dtype yields. */
typedef struct {
    Id node;                      /* 0: a Python number */
    uint8_t code;                 /* Dtype, or CODE_INT ... for Python numbers; CODE_OTHER: not an operand */
    uint8_t layout;
    int reg;                      /* a number: its register, -1: `number` */
    PyObject *number;             /* borrowed */
} Operand;
enum { CODE_INT = DT_COUNT, CODE_FLOAT, CODE_COMPLEX, CODE_OTHER };

/* Reads an operand; false with an exception. Sequences become arrays if `sequences`. */
bool operand_read(Trace *t, PyObject *o, Operand *out, bool sequences);
/* The operand's node as dtype; 0 with an exception or with the trace's error. */
Id operand_node(Trace *t, const Operand *x, Dtype dtype);
/* dtype of the operand as an array of its own; and that of any number of its class, which yields to an array's. */
Dtype operand_dtype(const Operand *x);
Dtype operand_weak_dtype(const Operand *x);
/* A node broadcast to a shape; 0 with the trace's error. */
Id broadcast_to(Graph *g, Id a, const int64_t *shape, int rank);
/* ---- broadcast.c: also of extents known only in the run, which the run checks ---- */
/* n nodes broadcast to one shape, in place; its rank, or -1 with the graph's error. code: what a run raises where extents differ. */
int broadcast_together(Graph *g, Id *in, int n, Dim *shape, CheckCode code);
/* Whether v may be broadcast to a shape, as far as is known now; and v so broadcast (it may be), with the checks of the run. */
bool broadcast_fits(Graph *g, Id v, const Dim *shape, int rank);
Id broadcast_into(Graph *g, Id v, const Dim *shape, int rank);
/* The value as something that can be stored into an array of this shape and dtype: cast, broadcast; NumPy's errors. */
Id value_for_store(Trace *t, PyObject *value, Dtype dtype, const int64_t *shape, int rank);

/* ---- element.c ---- */
/* Checks (of the run) that numbers, or lists of them, are what elements of an integer dtype can be; nothing for arrays and other dtypes. false with an exception. */
bool element_check(Trace *t, PyObject *value, Dtype dtype);
/* A constant of a number; 0 with an exception or the trace's error. */
Id number_node(Trace *t, PyObject *number, Dtype dtype);
/* Adds the dict of the ufuncs that are ops, _ufuncs, to pyxla._core. */
/* nan.c, under check_nan=True: a check that r, made of the operands, has no NaN where (each: element by element) they have none. false with an exception. */
bool nan_check(Trace *t, Id r, const Id *in, int nin, bool each);
bool ufunc_init(PyObject *module);
/* What a NumPy function that is not registered calls (of a module that NumPy loads late), or NULL with the error of pyxla/_np/refused.py. */
PyObject *other_function(PyObject *function);
PyObject *tracer_array_ufunc(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

/* ---- operators.c: Python's operators ---- */
extern PyType_Slot operator_slots[];
PyObject *tracer_compare(PyObject *a, PyObject *b, int op);

typedef enum {
#define UFUNC(name, nin, rule, op) UF_##name,
#include "py/ufuncs.def"
#undef UFUNC
    UF_COUNT
} Ufunc;
/* One ufunc on operands; returns NotImplemented if an operand is foreign. */
PyObject *ufunc_binary(Ufunc u, PyObject *a, PyObject *b);
PyObject *ufunc_unary(Ufunc u, PyObject *a);
/* x op= b: written through x's cell. New reference to x. */
PyObject *ufunc_inplace(Ufunc u, Tracer *x, PyObject *b);

/* ---- index.c ---- */
PyObject *tracer_getitem(PyObject *self, PyObject *key);
int tracer_setitem(PyObject *self, PyObject *key, PyObject *value);
PyObject *tracer_item(PyObject *self, Py_ssize_t i);

/* ---- scalar.c ---- */
typedef enum {
    SCALAR_LEAF, SCALAR_CONST, SCALAR_ADD, SCALAR_SUB, SCALAR_MUL, SCALAR_TRUEDIV, SCALAR_FLOORDIV, SCALAR_MOD, SCALAR_POW, SCALAR_LSHIFT,
    SCALAR_RSHIFT, SCALAR_AND, SCALAR_OR, SCALAR_XOR, SCALAR_NEG, SCALAR_POS, SCALAR_ABS, SCALAR_INVERT,
    SCALAR_LT, SCALAR_LE, SCALAR_EQ, SCALAR_NE, SCALAR_GT, SCALAR_GE,      /* in the order of Py_LT ... */
    SCALAR_CALL                   /* object(a) or object(a, b) */
} ScalarOp;
struct ScalarProgram *scalars_new(void);
/* Registers, with today's value; -1 with an exception. b < 0: one operand. */
int scalars_add_leaf(struct ScalarProgram *p, int leaf, PyObject *value);
int scalars_add_const(struct ScalarProgram *p, PyObject *value);
int scalars_add(struct ScalarProgram *p, ScalarOp op, int a, int b, PyObject *callable);
PyObject *scalars_value(const struct ScalarProgram *p, int reg);           /* borrowed */
/* op on Python scalars, at least one of them traced; NotImplemented if one is neither. b may be NULL. */
PyObject *scalar_operate(ScalarOp op, PyObject *a, PyObject *b, PyObject *callable);
/* Today's value of a Python scalar, guarded. New reference. */
PyObject *scalar_concrete(Tracer *x);
/* A number as the function gets it: a tracer, or the value, guarded, of a truth value if code asks for True itself. */
PyObject *scalar_shown(Trace *t, int reg);

/* ---- guard.c ---- */
struct GuardList *guards_new(void);
bool guard_value(struct GuardList *g, int reg, PyObject *value);           /* this register has this value */
bool guard_type(struct GuardList *g, int reg, PyObject *value);            /* ... a value of this type and range */
/* This array has the elements it has now. */
bool guard_elements(struct GuardList *g, PyObject *array);
/* Captured state: the steps that _capture.py found (capture.h). */
bool guard_steps(struct GuardList *g, PyObject *steps);

/* ---- sequence.c ---- */
/* An argument as functions take it: o, or the list or array that NumPy reads of a range, a deque, a buffer ..., inside of lists and tuples
 * too. New reference, NULL with an exception. */
PyObject *sequence_read(PyObject *o);
/* The values of keyword arguments likewise, in a new dict. */
PyObject *sequence_read_values(PyObject *kwargs);

/* ---- concrete.c ---- */
/* The ndarray of a tracer that depends on no input, or a TraceError that says what (`bool()`) asked for a value, and the cure. */
PyObject *tracer_value(Tracer *x, const char *what, const char *cure);

/* ---- assume.c ---- */
/* The value of one bool or int64, as today's arguments give it (a Python bool or int): the trace goes on with it, and each run checks that it
 * is so. usual: a bool is taken for true where arguments have no values (ShapeDtype). message: what decides, with the cure after "; ". NULL with an exception. */
PyObject *trace_assume(Tracer *x, bool usual, const char *message);

/* A node's dtype and shape: float64(3,4). */
void describe_node(Text *out, const Graph *g, Id id);

/* ---- prim.c ---- */
extern PyObject *core_functions, *core_methods, *core_creators;            /* _core._functions, _methods, _creators */
/* What such a dict has under a name (borrowed); NULL without an exception: nothing. */
PyObject *core_item(PyObject *dict, const char *name);
extern PyMethodDef prim_methods[], view_methods[];
/* o as an array tracer: arrays are captured, numbers become constants, sequences are stacked. New reference. */
PyObject *as_tracer(Trace *t, PyObject *o);
/* ---- extent.c: extents known only in the run, which Python code sees as a Number (pyxla/_np/extents.py) ---- */
bool is_extent(PyObject *o);
/* The 0-d tracer of a Number; borrowed by its owner: new reference, NULL with an exception. */
Tracer *extent_tracer(PyObject *o);
/* A number of the run with this value; a new reference, NULL with an exception. */
PyObject *extent_number(PyObject *x);
/* A dim as a Python int or a Number; NULL with an exception. */
PyObject *extent_object(Trace *t, Dim d);
/* The int64 scalar that a dim stands for, and the dim of such a scalar (sums are taken apart, so that equal extents are equal dims). */
Id extent_node(Graph *g, Dim d);
Dim extent_dim(Graph *g, Id scalar);
/* A tuple or list of ints and Numbers as dims; their number, -1 with an exception. */
int read_dims(Trace *t, PyObject *o, Dim *out);
/* Whether an extent of the array is known only in the run. Such an array has no views: what NumPy shows as one is a new array, and neither may
 * be written to any more (cell_freeze). */
bool tracer_dynamic(const Tracer *x);
void cell_freeze(Cell *c);
PyObject *prim_extent_type(PyObject *m, PyObject *cls);
/* An array that shows x's elements in another way. */
PyObject *tracer_derived(Tracer *x, Id node);

/* ---- gather.c ---- */
PyObject *prim_aligned(PyObject *m, PyObject *const *args, Py_ssize_t n);
PyObject *prim_batched(PyObject *m, PyObject *const *args, Py_ssize_t n);
PyObject *prim_spread(PyObject *m, PyObject *const *args, Py_ssize_t n);
PyObject *prim_gather(PyObject *m, PyObject *const *args, Py_ssize_t n);
PyObject *prim_stacked(PyObject *m, PyObject *const *args, Py_ssize_t n);
PyObject *prim_scatter(PyObject *m, PyObject *const *args, Py_ssize_t n);
PyObject *prim_index(PyObject *m, PyObject *const *args, Py_ssize_t n);
PyObject *prim_freeze(PyObject *m, PyObject *o);
PyObject *prim_bounds(PyObject *m, PyObject *o);

/* A view of x with its axes permuted. */
PyObject *tracer_transpose(Tracer *x, const int *perm);
PyObject *tracer_reshape(Tracer *x, const int64_t *shape, int rank);
/* The cell stands for a part of `from` as it is now: a copy in NumPy too if all inputs are contiguous (INPUTS), or a view (UNKNOWN). */
void cell_copy_of(Cell *c, Cell *from, Layout as);
/* Strides in bytes as they are now, which become part of the entry's key; None: not known. New reference. */
PyObject *tracer_strides(PyObject *x);
/* A new array (or scalar) with x's value. */
PyObject *tracer_copy(Tracer *x);

/* ---- hooks.c ---- */
bool hooks_init(void);
bool hooks_enabled(void);
bool hooks_enter(void);           /* a trace begins; false with an exception */
void hooks_leave(void);

/* ---- math_hooks.c: math.sqrt() and its like of traced Python numbers ---- */
bool math_hooks_init(void);
void math_hooks_exchange(bool ours);

/* ---- type_hook.c: type(x) ---- */
bool type_hook_init(void);
void type_hook_exchange(bool ours);

/* ---- cached.c: calls of functions behind functools.lru_cache ---- */
void cached_hooks_init(void);
void cached_hooks_exchange(bool ours);

/* ---- world.c: clocks, files, the system's random numbers ---- */
void world_hooks_init(void);
void world_hooks_exchange(bool ours);
/* ---- frames.c ---- */
void frames_init(void);
void frames_exchange(bool ours);

/* ---- adopt.c: arrays that existed before the trace become inputs wherever user code reads their elements ---- */
PyObject *core_outside(PyObject *module, PyObject *args);         /* cached.c: _core.outside(f, *args) */
bool adopt_init(void);
void adopt_exchange(bool ours);
bool adopt_begin(Trace *t);       /* false with an exception */
void adopt_end(Trace *t);
/* Whether NumPy allocated the array's memory in this trace. */
bool adopt_made_here(const Trace *t, PyArrayObject *a);
/* The trace that has to see what is done with arrays now, NULL: none; and whether it is to see what is done with this object. */
Trace *adopt_watching(void);
bool adopt_wants(const Trace *t, PyObject *o);

/* ---- lent.c: the same where their memory is read by attributes, buffers, slots that are called by name ---- */
void lent_init(void);
void lent_exchange(bool ours);       /* after adopt_exchange() */
