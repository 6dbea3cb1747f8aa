/* A Plan: the launches that compute a graph's outputs for inputs of given strides, and the buffers between them.
 *
 *     Graph -> simplify -> groups (group.c) -> kernels scheduled for these strides (schedule.c) -> slots (buffers.c) -> Plan
 *
 * A Plan knows no addresses and no Python: a launch is a kernel (or a numbered function of the host), a template of its args and patches that say which slot's address
 * goes into which word. It lives in one Arena with copies of its kernels, without what planning needed besides, and is immutable once made. */
#pragma once
#include "base/cpu.h"
#include "opt/kernel.h"
#include "opt/tune.h"

/* tuning: knobs of schedules that were measured to be better; NULL: none were. */
typedef struct { CpuLevel level; int vector_bytes; size_t l1, l2; bool checked, vnni; const Tuning *tuning; } Target;

/* Products of so few rows, columns and terms are sums, unless there are many of them: then, and above so many additions, a kernel knows all their extents. */
enum { DOT_SMALL = 16, DOT_MANY = 16, DOT_SUM = 1024 };

/* Layout of one graph input in the call to be planned. Address = element 0; strides in bytes; those of extents 0 and 1 are read as 0;
 * swapped: its elements are in the other byte order; constant: its contents are the same in every run at this address. */
typedef struct { int64_t stride[MAX_RANK]; bool donated, writable, swapped, constant; } PlanInput;

/* Where a graph output goes: to a new array (into < 0), or into the memory of an input, in its layout (a write-back). A new array is
 * C-contiguous or, if `ordered`, has the axes in the order that NumPy gives them for inputs of these strides (order.c). */
typedef struct { int32_t into; bool ordered; } PlanOutput;

typedef enum { SLOT_INPUT, SLOT_OUTPUT, SLOT_TEMP, SLOT_STATUS, SLOT_KEPT } SlotKind;
typedef struct {
    uint8_t kind, dtype;
    uint32_t index;          /* INPUT: graph input; OUTPUT: graph output (new arrays only); STATUS: the int64 of failed checks; KEPT: plan->kept */
    int64_t bytes;
    int64_t offset;          /* TEMP: in the workspace, that of the launches once if only those use it */
} Slot;

typedef struct { uint32_t word, slot; int64_t offset; bool written; } Patch;   /* args[word] = address of slot + offset; whether the launch writes there */

/* A call of a function of the host process (NumPy's own sort, say), registered by py/ under a number. Its launch has a word per array, inputs
 * then results: their addresses; 0 for a result that nobody reads. Results are C-contiguous, inputs have any strides. */
typedef struct { uint8_t dtype, rank; bool swapped; int64_t shape[MAX_RANK], stride[MAX_RANK]; } HostArray;   /* swapped: an input's bytes */
typedef struct {
    int64_t function;
    Id node;                 /* in plan->graph */
    uint32_t nin, nout, nparams;
    const HostArray *arrays; /* inputs, then results */
    const int64_t *params;   /* the function's own numbers */
} HostCall;

typedef struct {
    uint32_t kernel;         /* index into plan->kernels */
    uint32_t words, nwords;  /* its args template: plan->words.at[words ...] */
    uint32_t patches, npatches;
    int64_t grid;            /* grid points; at least 1 */
    int64_t scratch;         /* bytes of scratch per worker */
    float ns;                /* estimated time of all points on one core */
    const HostCall *host;    /* the launch is this call and no kernel; NULL: a kernel */
    bool once;               /* computes from constant inputs alone: carried out once, not in every run (keep.c) */
    uint16_t workers;        /* most threads, 0: as its time allows */
    uint64_t key;            /* in the table of knobs, of the group it is part of; 0: it has none (tuning off, or several groups) */
    int64_t m, n, k;         /* extents of the group's product; k 0: it is another loop, of m points */
} Launch;

/* A value that launches `once` leave for the others. Plans with equal recipes compute equal values of equal inputs. */
typedef struct {
    uint32_t slot, ninputs;
    const uint32_t *inputs;           /* the constant graph inputs it is computed from */
    const void *recipe;               /* all that the value depends on but the inputs: kernels, words, who reads what */
    size_t recipe_bytes;
} Kept;

typedef struct {
    VEC(const Kernel *) kernels;      /* distinct ones */
    VEC(Launch) launches;             /* in order; each may read what earlier ones wrote */
    VEC(int64_t) words;
    VEC(Patch) patches;
    VEC(Slot) slots;                  /* slots.at[k] for k < ninputs: the inputs */
    VEC(uint32_t) checks;             /* status value v > 0 means check node checks.at[v - 1] failed: ids in the planned graph */
    uint32_t ninputs, noutputs;
    uint32_t *output_slot;            /* slot of each graph output; an input's slot for write-backs and for outputs that took over a donated input */
    const int64_t **output_stride;    /* of each new output; NULL: C-contiguous */
    VEC(Kept) kept;
    int64_t workspace;                /* bytes of temporaries at the peak, one block aligned to 64 */
    int64_t once_workspace;           /* of those that only launches `once` use */
    int64_t peak;                     /* workspace + new outputs */
    const Graph *graph;               /* the simplified graph, for dumps and for the sources of checks */
} Plan;

/* Makes the plan, or NULL with an error in the arena's Err. nin = g->inputs.len; out has g->outputs.len entries. */
Plan *plan_make(Arena *a, const Graph *g, const PlanInput *in, const PlanOutput *out, const Target *target);
void plan_print(Text *t, const Plan *p);

/* A node's value under fastmath=True, of its rewritten inputs in g (fast.c); 0: it stays. */
Id fast_rewrite(Graph *g, const Node *n, const Id *in);
/* A product of bytes cast to int32, by fours (bytes.c); 0: it is none, or too small. */
Id dot_of_bytes(Graph *g, Id a, Id b);
/* A reduction over axes of length 1, where there is nothing to combine (simplify.c); 0: over others. */
Id reduce_unit(Graph *g, Op op, Id x, const int64_t *attr);
/* A slice with inputs `in`, if it is of a concatenate and has step 1 along its axis: of the pieces that it meets (pieces.c); 0: there is no such form. */
Id slice_of_joined(Graph *g, const Id *in, const int64_t *step, const Dim *shape);
/* A graph of live nodes with pads as margins or as concatenates (margins.c), or the same graph; NULL with an error. target: NULL for no margins. */
Graph *settle_pads(Arena *a, Graph *g, const Target *target);
/* A graph of live nodes with chains of concatenates and slices as one concatenate of slices (joined.c), or the same graph; NULL with an error. */
const Graph *join_once(Arena *a, const Graph *g);
/* A graph of live nodes in which few elements of what follows reductions are computed without the others (selected.c), or the same graph; NULL with an error. */
const Graph *compute_selected(Arena *a, const Graph *g);
/* The same graph without OP_like (like.c), itself where it has none; NULL with the arena's error. */
const Graph *drop_likes(Arena *a, const Graph *g);
/* The graph with inputs in C order that are written to in another shape (written.c) in that shape, their layouts and outputs too, or the same graph; NULL with an error. */
const Graph *shape_written(Arena *a, const Graph *g, PlanInput *in, const PlanOutput *out);
/* A graph of live nodes with what is done elementwise to concatenates done to their pieces (pieces.c), or the same graph; NULL with an error. */
Graph *take_apart(Arena *a, Graph *g);
/* The numbers of two host functions: where a mask is true, and the elements of a vector there (host.c). */
void host_set_selection(int64_t positions, int64_t selected);
/* A host function that is a ufunc's loop: it takes arrays of any strides, and the order of axes of its results is a ufunc's. */
void host_set_loop(int64_t number);
bool host_is_loop(const Graph *g, Id call);
/* A gather of a vector in memory at the positions of a mask, as a call of the latter; 0: it is none. */
Id host_selected(Graph *g, const Id *in, int nin);
/* taps.c: the reduce_sum node as a sum of slices, if it is over a window of a few elements; else 0. */
Id sum_of_taps(Graph *g, Id sum);
/* ---- variance.c ---- */
/* How a variance over axes that include the last one goes: as is best for itself; by blocks that are rows; or in a form that reductions over other axes can share a pass with. */
typedef enum { VARIANCE_ALONE, VARIANCE_ROWS, VARIANCE_SHARED } VarianceForm;
/* A variance as sums, or of other values; 0: it stays as it is. in: layouts of the graph's inputs, NULL: all in C order. */
Id variance(Graph *g, Id x, const int64_t *attr, const Target *target, const PlanInput *in, VarianceForm form);
/* A reduction over the axes of a variance of the same value, if that goes by blocks: from the reductions of the blocks; 0: it does not, or has no such form. */
Id reduce_beside_variance(Graph *g, Op op, Id x, const int64_t *attr, const Target *target, const PlanInput *in, VarianceForm form);
/* ---- beside.c ---- */
/* What is known of a node's reductions, and of those of what is computed from it element by element: the value and the axes of one of them, whether there are some of others,
 * a variance over axes that include the last one, an argmax or argmin; how many reductions make a number of it. */
typedef struct { uint64_t axes; Id of; uint32_t numbers; bool mixed, varied, places; } Beside;
/* Notes what node id reduces, if it is a reduction. */
void beside_note(const Graph *g, Id id, Beside *b);
/* Whether the value that reduction id is of, below a view, has variances over its last axis. */
bool beside_varies(const Beside *b, const Graph *old, Id id);
/* How reduction id of the old graph, now of x in g, goes if it is a variance. */
VarianceForm beside_form(const Beside *b, const Graph *old, Id id, const Graph *g, Id x, const Target *target, const PlanInput *in);
/* Reduction id of the old graph, of *x over *axes in g, as one of *x in pieces, if a variance of the same value, or of one that it is computed from, goes by these; false: it stays, or an error.
 * map: from the old graph to g; uses: of the old graph. */
bool beside_cut(const Beside *b, const Graph *old, Id id, const Id *map, const uint32_t *uses, Graph *g, const Target *target, const PlanInput *in, Id *x, int64_t *axes);
/* ---- reshapes.c: reshapes that are no index maps; in: layouts of the graph's inputs, NULL: all in C order ---- */
/* Whether graph input `id` lies in C order without gaps. */
bool input_in_order(const Graph *g, const PlanInput *in, Id id);
/* A reduction of a reshape x as one of the same value in another shape, over other axes, that need not be stored. false: nothing has changed. */
bool reduce_refined(Graph *g, const PlanInput *in, Op op, Id *x, int64_t *axes);
/* An elementwise operation on reshapes done before the reshape, likewise; 0: none of them asks for it. */
Id elementwise_refined(Graph *g, const PlanInput *layout, Op op, const Id *in, int nin, Dtype dtype);
/* A graph of live nodes in which values computed from arrays in C order are computed in the shape that they are used in, or the same graph; NULL with an
 * error. */
Graph *lift_reshapes(Arena *a, Graph *old, const PlanInput *in);
/* Graph -> simplified Graph in arena a (passes.def order), for a target and inputs of these layouts if those are not NULL; outputs, checks and input numbers
 * are kept. NULL with an error in a's Err. */
Graph *simplify(Arena *a, const Graph *g, const Target *target, const PlanInput *in);
