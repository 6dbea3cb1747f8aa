/* The op graph. Read this first.
 *
 * A Graph is what a traced function computes: immutable, interned nodes, inputs before users. An Id is an index into
 * g->nodes; Id 0 is none and flows through every builder (given 0 it returns 0), so rules need no checks and the caller
 * looks once at the Err. graph_add() is the only maker of nodes: expand -> infer -> fold -> intern -> append. A pass builds
 * a new graph from the live nodes of the old one, so dead code disappears by itself. All memory is one Arena.
 *
 * A dimension (Dim) is a number >= 0, or (negative) the handle of an affine form over int64 scalar nodes of the graph,
 * normalised and interned in ir/shape.c. Rules compare dims through dim_eq, dim_lo, dim_hi; none compares integers. */
#pragma once
#include "base/arena.h"
#include "base/text.h"

typedef uint32_t Id;
typedef int64_t Dim;

typedef enum {
#define DTYPE(id, name, kind, bytes, ch, ctype) DT_##id,
#include "ir/dtypes.def"
#undef DTYPE
    DT_COUNT
} Dtype;

typedef enum { DKIND_BOOL, DKIND_INT, DKIND_UINT, DKIND_FLOAT, DKIND_COMPLEX } DtypeKind;

typedef struct { const char *name, *code; DtypeKind kind; uint8_t bytes; } DtypeInfo;
extern const DtypeInfo dtype_info[DT_COUNT];
/* A float of 8 or 16 bits: widths of its fields, the exponent's bias, and what its greatest patterns are. IEEE: infinity and NaN; FN: NaN alone, all
 * ones; FNUZ: none, and the pattern of -0 is NaN. exponent 0: not such a dtype. */
typedef enum { FLOAT_IEEE, FLOAT_FN, FLOAT_FNUZ } FloatSpecial;
typedef struct { uint8_t exponent, mantissa, bias, special; } FloatFormat;
extern const FloatFormat float_format[DT_COUNT];
static inline bool dtype_is_small(Dtype d) { return float_format[d].exponent != 0; }
uint32_t float_format_nan(Dtype t);                                              /* the pattern of NaN */
uint32_t float_format_limit(Dtype t);                                            /* what greater numbers become, without the sign: infinity or NaN */
/* The value of a float (any real float dtype) from its bits, and the bits of the nearest one as NumPy's and ml_dtypes' casts give it (minifloat.c). */
double float_value(Dtype t, int64_t bits);
int64_t float_bits(Dtype t, double x);

/* The dtype of NumPy's (or the short) name, or DT_COUNT. */
Dtype dtype_parse(const char *name);

typedef enum {
    OP_none,
#define OP(id, kind, nin, result, dtypes, doc) OP_##id,
#include "ir/ops.def"
    OP_COUNT
} Op;

typedef enum { KIND_SOURCE, KIND_ELEMENTWISE, KIND_COMPOSITE, KIND_VIEW, KIND_PLACE, KIND_REDUCE, KIND_SCAN, KIND_DOT, KIND_CONTROL } OpKind;
typedef enum { COST_FREE, COST_CHEAP, COST_DIV, COST_MATH } OpCost;
typedef enum { RESULT_T, RESULT_BOOL, RESULT_I64, RESULT_REAL, RESULT_COMPLEX, RESULT_ATTR } OpResult;
typedef enum { DOMAIN_ANY, DOMAIN_POSITIVE, DOMAIN_UNIT, DOMAIN_SHIFT, DOMAIN_SMALL } OpDomain;
#define VARIADIC (-1)

typedef enum {
#define MONOID(id, width, combine, identity, doc) MONOID_##id,
#include "ir/monoids.def"
#undef MONOID
    MONOID_COUNT
} Monoid;

typedef struct {
    const char *name, *doc, *dtypes;   /* dtypes: kind letters of the inputs */
    OpKind kind;
    int8_t nin;                        /* VARIADIC: any number */
    OpResult result;
    OpCost cost;
    OpDomain domain;
    Monoid monoid;                     /* of REDUCE and SCAN */
    float ulp32, ulp64;
} OpInfo;
extern const OpInfo op_info[OP_COUNT];
Op op_parse(const char *name);         /* OP_none if there is none */

typedef enum { MONOID_ID_ZERO, MONOID_ID_MINUS_ZERO, MONOID_ID_ONE, MONOID_ID_LOWEST, MONOID_ID_HIGHEST, MONOID_ID_OWN } MonoidIdentity;
typedef struct { const char *name, *doc; uint8_t width; Op combine; MonoidIdentity identity; } MonoidInfo;
extern const MonoidInfo monoid_info[MONOID_COUNT];

/* Numeric mode of a node, from the options of the jitted function that made it. */
enum { MODE_FMA = 1, MODE_FAST = 2, MODE_CHECK_NAN = 4 };    /* CHECK_NAN: of the graph only; py/ adds checks */
/* Flags of a node. */
enum { NODE_WEAK = 1 };                /* a Python scalar: its dtype yields to an array's */

/* Conditions that a run checks (OP_check); py/error.c has their exceptions. */
typedef enum { CHECK_OK, CHECK_NEGATIVE_POWER, CHECK_INDEX, CHECK_EXTENT, CHECK_ZERO_DIVISION, CHECK_VALUE,
    CHECK_ALL_NAN, CHECK_WEIGHTS, CHECK_GEOMETRIC, CHECK_SINGULAR, CHECK_NOT_POSITIVE, CHECK_NAN, CHECK_RANGE, CHECK_INDICES, CHECK_ASSUMED } CheckCode;

#define MAX_RANK 16

typedef struct {
    uint16_t op;                       /* Op */
    uint8_t dtype;                     /* Dtype of the result (the first one where there are several) */
    uint8_t rank;
    uint8_t flags, mode;
    uint16_t nin, nattr;
    uint32_t in, attr, shape;          /* offsets into g->ids, g->ints, g->ints */
    uint32_t src;                      /* where the user wrote it: an index that py/ decodes, 0: none; not part of identity */
} Node;

typedef struct Graph Graph;
struct Graph {
    Arena *arena;
    Err *err;
    VEC(Node) nodes;                   /* nodes.at[0] is none */
    VEC(Id) ids;                       /* inputs of nodes */
    VEC(int64_t) ints;                 /* attributes and shapes */
    VEC(Id) inputs;                    /* the OP_input nodes by number */
    VEC(Id) outputs;
    VEC(Id) checks;                    /* OP_check nodes: roots, in order */
    VEC(Graph *) children;             /* closed graphs of loop, cond, call */
    struct DimTable *dims;             /* interned affine forms */
    uint32_t *table; uint32_t table_cap, table_len;   /* interning */
    uint32_t src;                      /* source index given to new nodes */
    uint8_t mode;                      /* mode given to new nodes */
    bool keep_joined;                  /* a slice of a concatenate stays one, though it lies in one piece */
    uint32_t limit;                    /* most nodes before ERR_LIMIT */
};

Graph *graph_new(Arena *arena);        /* errors go to the arena's Err */

/* ---- making nodes (graph.c) ---- */
/* The node of an op, made or found. dtype and shape are read only for SOURCE ops, cast and control; else inferred. */
Id graph_add(Graph *g, Op op, const Id *in, int nin, const int64_t *attr, int nattr, Dtype dtype, const Dim *shape, int rank);
/* For a pass that makes node `id` of another graph anew: its inputs by a map from that graph's ids, in `few` or the arena; what is added to g from now
 * on has the node's line and mode. NULL: an input has no image, or no memory. */
Id *graph_mapped(Graph *g, const Graph *old, Id id, const Id *map, Id few[4]);
/* The inputs of another graph again, in their order; map: their images, 0 without memory. */
void graph_mapped_inputs(Graph *g, const Graph *old, Id *map);
Id graph_input(Graph *g, Dtype dtype, const Dim *shape, int rank, int flags);    /* a new input each time */
Id graph_const(Graph *g, Dtype dtype, int64_t bits);                             /* bits of the element in its low bytes; complex: of a real number */
Id graph_number(Graph *g, Dtype dtype, double value);                            /* value converted to dtype */
Id graph_iota(Graph *g, Dim n);
Id graph_unary(Graph *g, Op op, Id a);
Id graph_binary(Graph *g, Op op, Id a, Id b);
Id graph_where(Graph *g, Id c, Id a, Id b);
Id graph_cast(Graph *g, Id a, Dtype dtype);
Id graph_broadcast(Graph *g, Id a, const Dim *shape, int rank);
Id graph_transpose(Graph *g, Id a, const int *perm);
Id graph_reshape(Graph *g, Id a, const Dim *shape, int rank);
/* x, in memory as an array like y (in its order of axes), or as a ufunc's result of several; x itself where that says nothing. */
Id graph_like(Graph *g, Id x, Id y);
Id graph_like_all(Graph *g, Id x, const Id *y, int n);
/* The inputs of a node that its value is computed from. */
static inline int node_values(const Node *n) { return n->op == OP_like ? 1 : n->nin; }
Id graph_window(Graph *g, Id a, int axis, int64_t size, int64_t stride, int64_t step);        /* x[.., i stride + j step, ..] at (.., i, .., j) */
Id graph_slice(Graph *g, Id a, const Id *start, const int64_t *step, const Dim *shape);       /* rank = a's; start: scalar nodes */
/* x[i_0, ..., i_{n-1}]: the index arrays (int64, one shape, in range) replace x's first n axes by their own. */
Id graph_gather(Graph *g, Id x, const Id *index, int n);
/* The value v, computed elementwise from x[index] (gather) for any x of leading extent n and from what `index` does not enter, for all of x: v is the
 * result at `index`. 0: it is computed from other things, or dear (spread.c). */
Id graph_spread(Graph *g, Id v, Id index, Dim n);
Id graph_slice_const(Graph *g, Id a, const int64_t *start, const int64_t *step, const Dim *shape);
Id graph_update(Graph *g, Id a, Id v, const Id *start, const int64_t *step);
Id graph_update_const(Graph *g, Id a, Id v, const int64_t *start, const int64_t *step);
/* x with x[index] = v (combine 0) or x[index] = combine(x[index], v), in C order of the index arrays of the n axes in the mask. */
Id graph_scatter(Graph *g, Id x, Id v, Op combine, const Id *index, uint64_t axes);
Id graph_concatenate(Graph *g, const Id *in, int nin, int axis);
Id graph_pad(Graph *g, Id a, Id fill, const int64_t *before, const int64_t *after);
Id graph_reduce(Graph *g, Op op, Id a, uint64_t axes, double ddof);              /* ddof: reduce_var only */
Id graph_scan(Graph *g, Op op, Id a, int axis);
Id graph_dot(Graph *g, Id a, Id b);
Id graph_check(Graph *g, Id pred, CheckCode code);
/* Roots computed from rows (nodes that stand for one row each), for many rows: arrays[i] has batch axes of this shape before the axes of rows[i].
 * The roots become nodes with these axes in front; checks of a row become checks of all. false: a node has no rule (the error is not set), and
 * then the checks of the one row are gone all the same. */
bool graph_batch(Graph *g, const Id *rows, const Id *arrays, int nrows, Id *roots, int nroots, const Dim *shape, int rank);
void graph_output(Graph *g, Id id);
/* The index in g->children of a finished graph (of the same arena), added or, where an equal one is there, found. A loop's child takes
 * the iteration (int64 scalar), the carries, the captures and gives the carries; a cond's two take the captures. */
int64_t graph_child(Graph *g, Graph *child);

/* Everything after a mark can be taken back; used by a trace that has to start a piece again. */
typedef struct { uint32_t nodes, ids, ints, inputs, outputs, checks, children; } GraphMark;
GraphMark graph_mark(const Graph *g);
void graph_rollback(Graph *g, GraphMark mark);

/* ---- reading nodes ---- */
static inline const Node *node_at(const Graph *g, Id id) { return &g->nodes.at[id]; }
static inline const Id *node_in(const Graph *g, Id id) { return g->ids.at + g->nodes.at[id].in; }
static inline const int64_t *node_attr(const Graph *g, Id id) { return g->ints.at + g->nodes.at[id].attr; }
static inline const Dim *node_shape(const Graph *g, Id id) { return g->ints.at + g->nodes.at[id].shape; }
/* Whether the node is a scalar constant of one word; *bits is its value: integers sign- or zero-extended, bool 0 or 1, floats
 * as their bits. */
bool node_const(const Graph *g, Id id, int64_t *bits);
/* Number of elements; a product with a runtime extent uses its upper bound. */
int64_t node_size(const Graph *g, Id id);

/* Bounds of an integer (or bool) node's elements, inclusive, as far as the graph shows them (range.c); false if they may not fit an int64. */
bool node_range(const Graph *g, Id id, int64_t *lo, int64_t *hi);

/* ---- dimensions (shape.c) ---- */
Dim dim_affine(Graph *g, int64_t constant, const Id *scalar, const int64_t *factor, int n);   /* number if n comes to 0 */
Dim dim_add(Graph *g, Dim a, Dim b);
Dim dim_sub(Graph *g, Dim a, Dim b);
Dim dim_mul(Graph *g, Dim a, int64_t k);
bool dim_valid(const Graph *g, Dim d);                                           /* a number >= 0 or a form of this graph */
bool dim_eq(const Graph *g, Dim a, Dim b);
int64_t dim_lo(const Graph *g, Dim a);
int64_t dim_hi(const Graph *g, Dim a);
/* Bounds of an int64 scalar node, inclusive; kept with the graph. */
void dim_bound(Graph *g, Id scalar, Dim lo, Dim hi);
/* Those bounds, or false if the scalar has none. */
bool dim_bounds(const Graph *g, Id scalar, Dim *lo, Dim *hi);
/* The form of a dim: constant + sum of factor[i] * scalar[i], scalars ascending; the number of terms (0: a number). */
int dim_terms(const Graph *g, Dim d, int64_t *constant, const Id **scalar, const int64_t **factor);
/* Forgets the bounds of scalars from id `nodes` on (graph_rollback). */
void dim_rollback(Graph *g, uint32_t nodes);
void dim_print(Text *t, const Graph *g, Dim d);                                  /* `7`, `2*%5+1` */
bool shape_eq(const Graph *g, const Dim *a, int ra, const Dim *b, int rb);
/* NumPy's rule for a reshape without a copy: the strides of the new shape, or false. Shapes are numbers. */
bool reshape_strides(int rank, const int64_t *shape, const int64_t *stride, int new_rank, const int64_t *new_shape, int64_t *new_stride);
/* NumPy's broadcast of two shapes into out[MAX_RANK]; the rank, or -1 with an error. */
int shape_broadcast(Graph *g, const Dim *a, int ra, const Dim *b, int rb, Dim *out);
void shape_print(Text *t, const Graph *g, const Dim *shape, int rank);           /* as a tuple: `(3,4)` `(3,)` */

/* ---- rules (infer.c, expand.c, fold.c) ---- */
typedef struct { Dtype dtype; int rank; Dim shape[MAX_RANK]; } Type;
/* The result type of an op, or false with an error that names op, shapes and dtypes. On entry *out holds the given
 * dtype and shape for SOURCE ops and the given dtype for cast. COMPOSITE ops are checked as elementwise ones. */
bool infer(Graph *g, Op op, const Id *in, int nin, const int64_t *attr, int nattr, Type *out);
/* A simpler equal node, exactly equal under IEEE for all inputs, or 0: none. */
Id fold(Graph *g, Op op, const Id *in, int nin, const int64_t *attr, int nattr, const Type *type);
Id expand(Graph *g, Op op, const Id *in, int nin);
/* Complex numbers are computed with as components (complex.c): whether this op on that dtype is, and its formula. */
bool expands_complex(Op op, Dtype in, Dtype out);
/* Floats of 8 and 16 bits are computed with in float32, rounded after each operation (expand.c). */
bool expands_small(Op op, Dtype in);
Id expand_small(Graph *g, Op op, const Id *in, int nin, const int64_t *attr, int nattr, Dtype dtype);
Id expand_complex(Graph *g, Op op, const Id *in, int nin, const int64_t *attr, const Type *type);
/* One element of an elementwise op on the host: the definition that fold.c and opt/interp.c share (eval.c).
 * Arguments and result are bits of elements of dtype `in` (and `out` for cast). */
int64_t eval_elementwise(Op op, Dtype in, Dtype out, int64_t a, int64_t b, int64_t c);

/* ---- calls of host functions (host.c) ---- */
/* Attributes of a `host` node: number of the function, number of results, dtype, rank and extents of each, then the function's own numbers.
 * The type of result k; false: there is none such, or the attributes are malformed. */
bool host_result(const int64_t *attr, int nattr, int64_t k, Type *out);
/* Where the function's own numbers begin and how many there are; -1: the attributes are malformed. */
int host_params(const int64_t *attr, int nattr, const int64_t **params);

/* ---- text (print.c, parse.c) and the definition of a legal graph (verify.c) ---- */
void graph_print(Text *t, const Graph *g);
Graph *graph_parse(Arena *arena, const char *text);
/* Types re-inferred, ids in order, children closed, dominance; false with ERR_INTERNAL. */
bool graph_verify(const Graph *g, Err *err);
