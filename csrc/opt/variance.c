/* Variances along the last axis, written out: over other axes, of more than a cache holds, and beside other reductions (beside.c) one loop with the `moments` monoid does, of
 * deviations from the first elements.
 *
 * A row that the second cache holds is summed, then its squared deviations from the mean. Longer ones (all of an array) are cut into blocks, of which this is done
 * while a block is in cache: h = mean of the block as it is rounded, r = sum of x - h, q = sum of (x - h)^2. With any pivot P, and e = h - P,
 *
 *     sum (x - P) = sum over blocks of (r + n e)        sum (x - P)^2 = sum over blocks of (q + 2 e r + n e^2)
 *
 * exactly, and with P about the mean, the variance follows from these without cancellation, in float64. As accurate as two passes over all, and memory is read once. */
#include <string.h>
#include "opt/plan.h"

enum {
    BLOCK_BYTES = 8192,          /* of a block: it stays in the first cache. What is asked for ahead lies so far off, so that the next block comes while this one is gone through again */
    ROW_LEAST = 1024,            /* elements of one that is a row of a value which is computed */
    L2 = 1 << 20,                /* where no target is known */
    SHARED_PART = 8,             /* of the second cache: rows that a pass shared with other reductions runs over several times (schedule_together.c) */
};

static Id wide_number(Graph *g, Id like, double x)
{
    return graph_broadcast(g, graph_number(g, (Dtype)node_at(g, like)->dtype, x), node_shape(g, like), node_at(g, like)->rank);
}

/* A variance over axes of length 1: the deviation is x - x, which is NaN where x is not finite. */
static Id var_unit(Graph *g, Id x, const int64_t *attr)
{
    Id d = graph_binary(g, OP_subtract, x, x), m2 = reduce_unit(g, OP_reduce_sum, graph_binary(g, OP_multiply, d, d), attr);
    if (!m2) return 0;
    double ddof;
    memcpy(&ddof, &attr[1], sizeof ddof);
    Id free = graph_number(g, (Dtype)node_at(g, x)->dtype, ddof < 1 ? 1 - ddof : 0);
    return graph_binary(g, OP_divide, m2, graph_broadcast(g, free, node_shape(g, m2), node_at(g, m2)->rank));
}

/* The variance over axes that include the last one: two sums over the same row, which one kernel reads from cache. */
static Id var_by_rows(Graph *g, Id x, const int64_t *attr)
{
    int r = node_at(g, x)->rank, last = r - 1;
    Dtype dt = node_at(g, x)->dtype;
    Dim shape[MAX_RANK], kept[MAX_RANK];
    memcpy(shape, node_shape(g, x), sizeof(Dim) * (size_t)r);
    while (last > 0 && shape[last] == 1) last--;
    if (last >= 0 && !(attr[0] >> last & 1) && shape[last] != 1) return 0;
    double n = 1, ddof;
    memcpy(&ddof, &attr[1], sizeof ddof);
    for (int d = 0; d < r; d++) {
        kept[d] = attr[0] >> d & 1 ? 1 : shape[d];
        if (attr[0] >> d & 1) n *= (double)shape[d];
    }
    Id sum = graph_reduce(g, OP_reduce_sum, x, (uint64_t)attr[0], 0);
    Id count = graph_number(g, dt, n), free = graph_number(g, dt, n - ddof > 0 ? n - ddof : 0);
    Id mean = graph_binary(g, OP_divide, sum, graph_broadcast(g, count, node_shape(g, sum), node_at(g, sum)->rank));
    Id wide = graph_broadcast(g, graph_reshape(g, mean, kept, r), shape, r);
    Id d = graph_binary(g, OP_subtract, x, wide);
    Id m2 = graph_reduce(g, OP_reduce_sum, graph_binary(g, OP_multiply, d, d), (uint64_t)attr[0], 0);
    return graph_binary(g, OP_divide, m2, graph_broadcast(g, free, node_shape(g, m2), node_at(g, m2)->rank));
}

/* ---- in blocks ---- */

/* How the elements that a result is of are cut: axis `cut` into `many` blocks of `length` rows and, where they do not come out even, one of `left` rows. */
typedef struct { int first, cut; Dim length, many, left; double count; } Cut;

/* Whether the value lies in memory in C order. */
static bool is_stored(const Graph *g, const PlanInput *in, Id x)
{
    while (node_at(g, x)->op == OP_reshape) x = node_in(g, x)[0];
    if (node_at(g, x)->op == OP_input) return input_in_order(g, in, x);
    OpKind kind = op_info[node_at(g, x)->op].kind;
    return kind == KIND_REDUCE || kind == KIND_DOT || kind == KIND_PLACE;
}

/* The length of a block of at most `most` of n rows: one that divides n, if there is one of at least half that. */
static Dim even_length(Dim n, Dim most)
{
    for (Dim m = most; m > most / 2; m--) if (n % m == 0) return m;
    Dim blocks = (n + most - 1) / most;
    return (n + blocks - 1) / blocks;
}

/* Whether a reduction of x over these axes is of all trailing ones, together past the second cache, and how to cut it: as the form says. */
static bool choose_cut(const Graph *g, Id x, uint64_t axes, const Target *target, const PlanInput *in, VarianceForm form, Cut *c)
{
    const Dim *shape = node_shape(g, x);
    int r = node_at(g, x)->rank, d = r - 1;
    Dim row = 1, most = BLOCK_BYTES / dtype_info[node_at(g, x)->dtype].bytes;
    int64_t l2 = target && target->l2 ? (int64_t)target->l2 : L2;
    *c = (Cut){ .first = r, .count = 1 };
    for (int k = 0; k < r; k++) if (shape[k] < 0) return false;
    while (c->first > 0 && (axes >> (c->first - 1) & 1 || shape[c->first - 1] == 1)) c->count *= (double)shape[--c->first];
    for (int k = 0; k < c->first; k++) if (axes >> k & 1) return false;
    if (c->first == r || r == MAX_RANK || axes >> c->first != (1ull << (r - c->first)) - 1) return false;
    if (form == VARIANCE_SHARED) return false;
    if (form == VARIANCE_ROWS) {
        c->cut = r - 2;
        c->length = 1;
        return c->first <= c->cut;
    }
    if (c->count * dtype_info[node_at(g, x)->dtype].bytes <= (double)l2) return false;
    while (d > c->first && row * shape[d] <= most) row *= shape[d--];
    c->cut = d;
    bool stored = is_stored(g, in, x);
    c->length = stored && row < most ? even_length(shape[d], most / row) : 1;
    c->many = shape[d] / c->length;
    c->left = shape[d] % c->length;
    return stored || (op_info[node_at(g, x)->op].kind == KIND_ELEMENTWISE && row >= ROW_LEAST);       /* views of a computed value would be computed by themselves */
}

/* The part of x that is whole blocks, its axis `cut` become two, or what is left over. */
static Id part(Graph *g, Id x, const Cut *c, bool rest)
{
    int64_t start[MAX_RANK] = { 0 }, step[MAX_RANK];
    Dim shape[MAX_RANK];
    int r = node_at(g, x)->rank;
    for (int d = 0; d < r; d++) step[d] = 1, shape[d] = node_shape(g, x)[d];
    if (c->length == 1) return x;
    start[c->cut] = rest ? c->many * c->length : 0;
    shape[c->cut] = rest ? c->left : c->many * c->length;
    x = graph_slice_const(g, x, start, step, shape);
    if (rest) return x;
    memmove(shape + c->cut + 1, shape + c->cut, sizeof *shape * (size_t)(r - c->cut));
    shape[c->cut] = c->many;
    shape[c->cut + 1] = c->length;
    return graph_reshape(g, x, shape, r + 1);
}

/* One part's blocks: their reductions, rounded means h, and r and q, as float64. over: the axes of these results that run over blocks. */
typedef struct { Id first, h, r, q; double n; uint64_t over; } Blocks;

static uint64_t between(int from, int to) { return ((1ull << to) - 1) & ~((1ull << from) - 1); }

static Blocks reduce_blocks(Graph *g, Op op, Id x, const Cut *c, bool rest)
{
    Id v = part(g, x, c, rest);
    int r = node_at(g, v)->rank, inner = c->length == 1 || !rest ? c->cut + 1 : c->cut;
    Blocks b = { .n = 1, .over = between(c->first, inner) };
    for (int d = inner; v && d < r; d++) b.n *= (double)node_shape(g, v)[d];
    b.first = graph_reduce(g, op, v, between(inner, r), 0);
    return b;
}

static Blocks block_moments(Graph *g, Id x, const Cut *c, bool rest)
{
    Blocks b = reduce_blocks(g, OP_reduce_sum, x, c, rest);
    Id v = part(g, x, c, rest);
    if (!b.first) return b;
    int r = node_at(g, v)->rank, inner = node_at(g, b.first)->rank;
    Dim shape[MAX_RANK], one[MAX_RANK];
    memcpy(shape, node_shape(g, v), sizeof *shape * (size_t)r);
    for (int d = 0; d < r; d++) one[d] = d < inner ? shape[d] : 1;
    b.h = graph_binary(g, OP_divide, b.first, wide_number(g, b.first, b.n));
    Id d = graph_binary(g, OP_subtract, v, graph_broadcast(g, graph_reshape(g, b.h, one, r), shape, r));
    b.r = graph_cast(g, graph_reduce(g, OP_reduce_sum, d, between(inner, r), 0), DT_float64);
    b.q = graph_cast(g, graph_reduce(g, OP_reduce_sum, graph_binary(g, OP_multiply, d, d), between(inner, r), 0), DT_float64);
    b.h = graph_cast(g, b.h, DT_float64);
    return b;
}

static Id over_blocks(Graph *g, const Blocks *b, Id x) { return b->over ? graph_reduce(g, OP_reduce_sum, x, b->over, 0) : x; }

static Id plus(Graph *g, Id a, Id b) { return a ? graph_binary(g, OP_add, a, b) : b; }

/* A sum over blocks times x: divided, for a kernel serves all divisors. */
static Id times(Graph *g, Id a, double x) { return a ? graph_binary(g, OP_divide, a, wide_number(g, a, 1 / x)) : 0; }

/* P of each result, seen in the shape of the blocks. */
static Id pivot_of(Graph *g, Id pivot, const Blocks *b)
{
    Dim shape[MAX_RANK], one[MAX_RANK];
    int r = node_at(g, b->h)->rank;
    memcpy(shape, node_shape(g, b->h), sizeof *shape * (size_t)r);
    for (int d = 0; d < r; d++) one[d] = b->over >> d & 1 ? 1 : shape[d];
    return graph_broadcast(g, graph_reshape(g, pivot, one, r), shape, r);
}

static Id var_in_blocks(Graph *g, Id x, uint64_t axes, double ddof, const Target *target, const PlanInput *in, VarianceForm form)
{
    Cut c;
    Blocks b[2];
    Dtype dt = (Dtype)node_at(g, x)->dtype;
    Id mean = 0, s1 = 0, s2 = 0;
    if ((dt != DT_float32 && dt != DT_float64) || !choose_cut(g, x, axes, target, in, form, &c)) return 0;
    int parts = c.left ? 2 : 1;
    for (int i = 0; i < parts; i++) {
        b[i] = block_moments(g, x, &c, i);
        if (!b[i].q) return 0;
        mean = plus(g, mean, times(g, over_blocks(g, &b[i], b[i].h), b[i].n / c.count));
    }
    for (int i = 0; i < parts; i++) {
        Id e = graph_binary(g, OP_subtract, b[i].h, pivot_of(g, mean, &b[i])), er = graph_binary(g, OP_multiply, e, b[i].r);
        Id own = over_blocks(g, &b[i], graph_binary(g, OP_add, b[i].q, graph_binary(g, OP_add, er, er)));
        s1 = plus(g, plus(g, s1, over_blocks(g, &b[i], b[i].r)), times(g, over_blocks(g, &b[i], e), b[i].n));
        s2 = plus(g, plus(g, s2, own), times(g, over_blocks(g, &b[i], graph_binary(g, OP_multiply, e, e)), b[i].n));
    }
    if (!s2) return 0;
    Id m2 = graph_binary(g, OP_subtract, s2, times(g, graph_binary(g, OP_multiply, s1, s1), 1 / c.count));
    m2 = graph_binary(g, OP_maximum, m2, wide_number(g, m2, 0));         /* rounding, where all are equal */
    return graph_cast(g, graph_binary(g, OP_divide, m2, wide_number(g, m2, c.count - ddof > 0 ? c.count - ddof : 0)), dt);
}

Id reduce_beside_variance(Graph *g, Op op, Id x, const int64_t *attr, const Target *target, const PlanInput *in, VarianceForm form)
{
    Cut c;
    Dtype dt = (Dtype)node_at(g, x)->dtype;
    Id r = 0;
    bool plain = op == OP_reduce_sum || op == OP_reduce_prod || op == OP_reduce_max || op == OP_reduce_min;
    if (!plain || (dt != DT_float32 && dt != DT_float64) || !choose_cut(g, x, (uint64_t)attr[0], target, in, form, &c)) return 0;
    for (int i = 0; i < (c.left ? 2 : 1); i++) {
        Blocks b = reduce_blocks(g, op, x, &c, i);
        Id all = b.over ? graph_reduce(g, op, b.first, b.over, 0) : b.first;
        r = r ? graph_binary(g, monoid_info[op_info[op].monoid].combine, r, all) : all;
    }
    return r;
}

/* The first elements of x along the axes, as long as x: of a computed array they are computed of the first elements of its inputs. 0: it is too long a computation. */
static Id first_along(Graph *g, Id x, uint64_t axes, int *budget)
{
    int64_t start[MAX_RANK] = { 0 }, step[MAX_RANK];
    Dim shape[MAX_RANK], full[MAX_RANK];
    Node n = *node_at(g, x);
    if (--*budget < 0) return 0;
    if (op_info[n.op].kind == KIND_ELEMENTWISE) {
        Id in[4] = { 0 };
        for (int k = 0; k < n.nin; k++)
            if (!(in[k] = first_along(g, node_in(g, x)[k], axes, budget))) return 0;
        return graph_add(g, (Op)n.op, in, n.nin, node_attr(g, x), n.nattr, (Dtype)n.dtype, NULL, 0);
    }
    memcpy(full, node_shape(g, x), sizeof *full * n.rank);
    for (int d = 0; d < n.rank; d++) step[d] = 1, shape[d] = axes >> d & 1 ? 1 : full[d];
    return graph_broadcast(g, graph_slice_const(g, x, start, step, shape), full, n.rank);
}

/* The variance of what x differs by from its first element along the axes: the one pass of `moments` errs by the mean in deviations, which may be many. */
static Id var_from_first(Graph *g, Id x, const int64_t *attr)
{
    int budget = 40;
    for (int d = 0; d < node_at(g, x)->rank; d++)
        if (attr[0] >> d & 1 && node_shape(g, x)[d] < 1) return 0;          /* known only in the run: there may be no first one */
    Id first = first_along(g, x, (uint64_t)attr[0], &budget), d = first ? graph_binary(g, OP_subtract, x, first) : 0;
    return d ? graph_add(g, OP_reduce_var, &d, 1, attr, 2, DT_COUNT, NULL, 0) : 0;
}

/* Whether what each result is of is worth more than one loop: the next ones find it in a cache, and a pass shared with others, if there are any, may have several for it. */
static bool in_cache(const Graph *g, Id x, uint64_t axes, const Target *target, VarianceForm form)
{
    int64_t bytes = dtype_info[node_at(g, x)->dtype].bytes, l2 = target && target->l2 ? (int64_t)target->l2 : L2;
    for (int d = 0; d < node_at(g, x)->rank; d++)
        if (node_shape(g, x)[d] < 0) return true;
        else if (axes >> d & 1) bytes *= node_shape(g, x)[d];
    return bytes <= (form == VARIANCE_SHARED ? l2 / SHARED_PART : l2);
}

Id variance(Graph *g, Id x, const int64_t *attr, const Target *target, const PlanInput *in, VarianceForm form)
{
    double ddof;
    memcpy(&ddof, &attr[1], sizeof ddof);
    Id r = var_unit(g, x, attr);
    if (!r) r = var_in_blocks(g, x, (uint64_t)attr[0], ddof, target, in, form);
    if (!r && !g->err->kind && !in_cache(g, x, (uint64_t)attr[0], target, form)) r = var_from_first(g, x, attr);
    if (!r && !g->err->kind) r = var_by_rows(g, x, attr);
    return r || g->err->kind ? r : var_from_first(g, x, attr);
}
