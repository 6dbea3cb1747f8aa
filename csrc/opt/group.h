/* Groups: which nodes are computed together in one kernel, and which values are stored.
 *
 * A group has a loop domain (axes with extents; `reduced` marks those that its reductions run over) and members: nodes evaluated at
 * the coordinates of the domain. Cheap nodes over stored values *float*: they have no group and are evaluated wherever they are
 * used. Groups are numbered so that numbers never fall along an edge: a node joins group G only if its inputs are stored, float, or lie
 * in G or a lower group, so no cycle can arise and the pass is one loop. Values that another group reads are stored.
 *
 * Phases: a reduction's result is known one phase after its input, so a group's body is one loop over the reduced axes per phase. */
#pragma once
#include "opt/map.h"
#include "opt/plan.h"

enum {
    PRODUCT_FEW_ROWS = 256,      /* of a product that packs a large right operand for them alone */
    FED_ROW_BYTES = 32768,       /* of a row made in a product's kernel, at most: sums over it need no blocks, and what is kept of it stays in the first cache */
    REGION_BYTES = 32 * 1024,    /* of the arrays of small launches, at most, which are merged and have their temporaries in scratch */
};

/* A box of a buffer: index off + factor * node (0: none) + step * i along each axis. */
typedef struct { int64_t off[MAX_RANK], factor[MAX_RANK], step[MAX_RANK]; Id node[MAX_RANK]; } Box;

typedef struct {
    uint32_t group;              /* 0: floats, or a source or view. Lower groups than a node's evaluate it as if it floated: it did
                                    when they were made */
    int8_t axis[MAX_RANK];       /* member: domain axis of each node axis, -1: extent 1 */
    const int8_t *in_axis;       /* reduction or scan: domain axis of each axis of its input */
    uint8_t phase;               /* member: first loop in which its value is known */
    bool row;                    /* member: does not vary along the reduced axes */
    bool stored;                 /* its value has a slot */
    bool pinned;                 /* ... for its own sake (an output, an operand of a product), not because another group reads it */
    uint8_t members;             /* elementwise: leaves that are members of groups; past the first cache, as large as it is */
    Id placed;                   /* a concatenate or update into whose box `placed_box` it is written for good, 0: none */
    const Box *placed_box;
    bool inner;                  /* a place that only another place reads: its pieces are written into that one's buffer */
    bool costly;                 /* floating or member: its evaluation holds a division or more */
    bool grows;                  /* it is broadcast, or what is computed from it element by element */
    uint16_t ops;                /* ops evaluated inline above memory or above members (saturating) */
    uint32_t uses;
} NodeInfo;

typedef struct Lower Lower;

/* One store of a group: the value of a node into a box (NULL: the whole) of the buffer of node `buffer`. */
typedef struct {
    Id value, buffer;
    const Box *box;
    int8_t axis[MAX_RANK];       /* of the value, as in NodeInfo */
    bool then;                   /* the left operand of the group's product `then`: `buffer` is that product's */
    bool carry;                  /* old contents of an update, from the same box of `value`: dropped where the buffer takes over its slot */
    Id check;                    /* a check node instead of a store */
    Id scatter;                  /* the scatter node whose value this is: stored at the elements of its index arrays, in their order */
    uint8_t phase;               /* the loop it is stored in */
} Root;

typedef struct {
    int naxes;
    int64_t extent[MAX_DOMAIN];  /* of a product, after its domain's: k, and the columns of the product `then` */
    uint32_t reduced;            /* mask of the axes that reductions (or a scan) run over */
    uint32_t inner;              /* ... those of them whose reductions run inside the loop over the others (nest.c) */
    bool scan;                   /* the reduced axes are run through in order: a scan's axis, or those of a scatter's index arrays */
    bool carry;                  /* holds one carry root and nothing else */
    bool tiles;                  /* reads arrays that lie along different axes: takes no reduction, since it goes by tiles */
    bool closed;                 /* full-size nodes after the reduction stay out: it is split over grid points */
    Id dot;                      /* the product whose result the members finish */
    Id sum;                      /* ... or its sum over the batch axes `summed`, which only the product runs over (a convolution's window) */
    uint32_t summed;
    Id then;                     /* a product of a value of the domain, finished row by row: it goes from a tile of rows to its own buffer */
    uint32_t feeds;              /* the group of the product that computes this one's rows itself, into a tile (feed.c) */
    uint32_t together;           /* the group, itself or a lower one, in whose pass over memory its reductions are made (schedule_together.c); 0: its own */
    const Lower *blocks;  /* ... what is known of that once the pass is scheduled */
    Id host;                     /* the host call that is all of the group; `operands` are then the buffers of its inputs */
    Id *items;                   /* ... the nodes that are its results, 0: nobody reads it */
    uint32_t nvals, reductions;
    VEC(Root) roots;
    VEC(Id) operands;            /* buffers that members read, some of them */
} Group;

/* A matrix packed for a product: lines along its columns (or rows), a line cut into blocks of `width` (0: whole). */
typedef struct { Id id, buffer; bool by_columns; int32_t width; int64_t row, outer; } Packed;    /* bytes between rows, between blocks */

typedef struct Survey Survey;
typedef struct {
    const Graph *g;
    Arena *arena;
    const PlanInput *in;
    const Target *target;
    NodeInfo *info;              /* per node */
    const bool *before;          /* per node: stored before the update that it is the value of; NULL: none is */
    VEC(Group) groups;           /* groups.at[0] is none */
    VEC(Id) out_base;            /* per graph output: the node whose buffer it is (a reshape shares its input's) */
    uint32_t *copy_group;        /* per graph input: the group that makes a C-contiguous copy of it, 0: there is none */
    const Survey *surveys;       /* by group, when they are made */
    Knobs knobs;                 /* of the group that is being scheduled */
    VEC(Packed) packs;           /* made so far by the schedules, for other products of the same matrix */
    uint32_t nnodes;             /* buffer ids from here on are no nodes: copies of the inputs, by number, then what buffers.c adds */
} Grouping;

/* Assigns every live node; before: as in Grouping. NULL with an error. */
Grouping *group_make(Arena *a, const Graph *g, const PlanInput *in, const Target *target, const bool *before, const PlanOutput *out, const int64_t *wanted);
/* The first node below `id` through reshapes whose buffer `id` can share, if that is stored or storable. */
Id group_base(const Grouping *gr, Id id);
/* The buffer that group n reads the value of id from, and the map over its axes (m over id's): where it was placed, or its own.
 * 0: it is evaluated again, being cheap or not a member of a lower group. Depends on the grouping alone. */
Id group_source(const Grouping *gr, uint32_t n, Id id, const Map *m, Map *at);
/* Whether group n finds the value of id in a buffer. */
static inline bool group_reads(const Grouping *gr, uint32_t n, Id id) { return gr->info[id].stored && gr->info[id].group < n; }
/* Makes sure that node id has a buffer of its own: a root in its group. */
bool group_store(Grouping *gr, Id id);

/* Whether graph input `id` lies in C order without gaps in this call. */
bool group_contiguous_input(const Grouping *gr, Id id);
/* A new group, above all others; 0 on error. */
uint32_t group_new(Grouping *gr, int naxes, const int64_t *extent);

/* ---- mask.c ---- */
/* The lead of a group that multiplies the rows of a softmax: row i of it is 0 in all columns past i + lead, because a mask that compares coordinates
 * says so; -1: it is not known to be. */
int64_t mask_lead(const Grouping *gr, const Group *gp);

/* ---- host.c: calls of host functions ---- */
/* The group of host call `id`; its inputs are stored. */
bool host_visit(Grouping *gr, Id id);
/* Notes that item `id` is a stored result of its host call. */
void host_visit_item(Grouping *gr, Id id);

/* The buffer that reading node `id`, a graph input, through m is served from: itself or its contiguous copy. */
Id group_input_buffer(const Grouping *gr, Id id, const Map *m);

/* Whether reduction `id` runs over the inner axes of a nested group (nest.c). */
bool nest_is_inner(const Grouping *gr, Id id);
/* The loop that reduction or scan `id` runs in: its result is known one phase later, a scan's and an inner one's in the same. */
static inline int group_loop_of(const Grouping *gr, Id id)
{
    return gr->info[id].phase - !(gr->groups.at[gr->info[id].group].scan || nest_is_inner(gr, id));
}

/* ---- survey.c: what each group reads, writes and keeps, before any schedule ---- */

typedef enum { TERM_LOAD, TERM_STORE } TermKind;
/* One access of a group, as an index map over the axes of the buffer. */
typedef struct {
    Id buffer;                   /* a node, or a pseudo buffer >= nnodes */
    uint8_t kind, dtype, phase;  /* phase: the loop it happens in */
    bool carry;                  /* belongs to a carry root */
    bool box;                    /* a product or host call reads (the latter: or writes) all of it: no order can be assumed */
    bool row;                    /* happens once per row, before the loop of its phase */
    int root;                    /* index of the root that stores, or that loads it first; -1: a reduction or tile does */
    const Map *map;
} Term;

struct Survey {
    VEC(Term) terms;
    VEC(Id) reduces;             /* needed reductions and scans, each once */
    VEC(Id) tiles;               /* full-size members kept from their phase to a later one */
    uint32_t no_merge;           /* domain axes whose coordinate is a value */
    uint8_t phases;              /* number of loops */
    uint16_t chain;              /* loads at most one after the other, each at an index that the one before gave */
    int64_t ops;                 /* estimated cost of one domain point in simple ops */
    int64_t math;                /* ... of which in elementary functions */
    Dtype widest;                /* of the values computed, those once per row apart */
};

/* Surveys all groups, the last one first (what a group needs of lower ones becomes stored there); NULL with an error. */
Survey *survey_make(Grouping *gr);
/* Index map of a root's store over the axes of its buffer. */
const Map *root_map(Grouping *gr, const Group *gp, const Root *r);
bool root_is_row(const Grouping *gr, const Group *gp, const Root *r);

/* ---- order.c: the layout that NumPy gives new arrays ---- */

typedef struct { int64_t *words; uint32_t *at; } Layouts;       /* the strides of node id: words + at[id]; words NULL: all is in C order */
/* The strides that each node's array would have in NumPy; NULL without memory. */
Layouts *order_layouts(Arena *arena, const Graph *g, const PlanInput *in);
/* Strides of a new array of node id, without gaps, its axes in the order of that layout. */
void order_new(const Layouts *l, const Graph *g, Id id, int64_t *stride);
/* The strides of array `from` seen in the shape of node `to`, if that differs in axes of extent 1 only. */
bool order_moved(const Graph *g, Id from, const int64_t *stride, Id to, int64_t *out);
/* Strides without gaps; order: the axes, outermost first (NULL: C order); item: bytes of an element. */
void order_contiguous(int64_t item, int rank, const Dim *shape, const int8_t *order, int64_t *stride);

/* ---- buffers.c: which buffers share memory, and where they lie ---- */

typedef struct {
    Id shares;                   /* the buffer whose memory it lies in, an input or an older value (while sharing is decided: the version before it), 0: its own */
    Id over;                     /* the temporary in whose place it is written (overwrite.c), 0: none. Kernels know of two arrays: equal layers are equal */
    int64_t stride[MAX_RANK];    /* bytes */
    int64_t bytes;
    uint8_t dtype, rank;
    bool swapped;                /* an input in the other byte order; what shares its memory is, too */
} Buffer;

typedef struct { Id shape, from, to; } FinalCopy;                /* a buffer copied to another at the end, seen in the shape of a node */

typedef struct {
    VEC(Buffer) at;              /* by buffer id */
    VEC(FinalCopy) copies;       /* in order: new outputs before write-backs */
    Id *output;                  /* the buffer that is each graph output */
    bool *before;                /* per node: values of updates that, stored before, may save a copy of what is updated; NULL: none */
} Buffers;

/* The buffer whose memory `id` lies in. */
Id buffers_memory(const Buffers *b, Id id);
/* ... once values are written over temporaries: buffers of one place have one address. */
Id buffers_place(const Buffers *b, Id id);

/* Decides sharing and layouts. wanted: MAX_RANK strides of each new output, which it has where its buffer may have any. */
Buffers *buffers_make(Grouping *gr, const Survey *surveys, const PlanOutput *out, const int64_t *wanted);
/* Whether a load happens before a store of the same element in one body: rows before the loop of a phase, reductions and tiles
 * before the stores of a loop, stores in the order of the roots. */
bool term_precedes(const Term *load, const Term *store);
/* A further pseudo buffer of `bytes` contiguous bytes; its id, 0 on error. */
Id buffers_add(Grouping *gr, Buffers *b, Dtype dtype, int64_t bytes);

/* ---- feed.c ---- */
/* Marks the groups whose rows a product takes as they come (`feeds`); false without memory. */
bool feed_mark(Grouping *gr, Buffers *b);

/* ---- schedule_together.c ---- */
/* Marks the groups whose reductions of the same arrays, over other axes, are made in one pass (`together`). */
void together_mark(Grouping *gr, const Buffers *b);

/* ---- overwrite.c ---- */
/* Lets large values lie where a temporary is that nobody reads after them; once it is known which groups run elsewhere. False without memory. */
bool overwrite_dead(Grouping *gr, Buffers *b);

/* ---- schedule.c: a group's kernels ---- */

typedef struct { uint32_t word; Id buffer; bool written; } DraftPatch;
typedef struct {
    Kernel *kernel;              /* NULL: `host` */
    const HostCall *host;
    VEC(int64_t) words;
    VEC(DraftPatch) patches;
    int64_t grid, scratch;
    float ns;
    bool once;                   /* see Launch */
    uint16_t workers;
    uint64_t key;
    int64_t m, n, k;
} Draft;
typedef VEC(Draft) Drafts;

/* Appends the launches of group n; false with an error. */
bool schedule_group(Grouping *gr, uint32_t n, const Survey *survey, Buffers *buffers, Drafts *out);
/* schedule_group() with the knobs that target->tuning has for the group, if it has any. */
bool schedule_tuned(Grouping *gr, uint32_t n, const Survey *survey, Buffers *buffers, Drafts *out);
/* Appends the launch of group n, a host call (host.c). */
bool host_schedule(Grouping *gr, uint32_t n, const Buffers *buffers, Drafts *out);
/* ---- merge.c ---- */
/* Copies the launches to out, small neighbours merged into one kernel. */
bool merge_small(Grouping *gr, const Buffers *b, const Drafts *in, Drafts *out);

/* ---- keep.c: what is computed from constants alone ---- */
/* Marks the launches that need be carried out only once; false without memory. */
bool keep_mark(Grouping *gr, const Buffers *b, Drafts *drafts);
/* Makes kept values of the slots that launches `once` write and others read, with their recipes; false without memory. work: for what
 * is dropped after planning. */
bool keep_list(Arena *a, Arena *work, Plan *p);

/* Appends a launch that copies buffer `from` to buffer `to`, both of the shape of node `shape` (`from` may be a contiguous buffer of
 * another shape). */
bool schedule_copy(Grouping *gr, Id shape, Id from, Id to, Buffers *buffers, Drafts *out);
