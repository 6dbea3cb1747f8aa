/* Folding of views, placements, reductions, scans, products and checks. Results are not empty here: fold() saw to it. */
#include <string.h>

#include "ir/fold.h"

static bool same_shape(const Fold *f, Id a)
{
    return shape_eq(f->g, node_shape(f->g, a), node_at(f->g, a)->rank, f->type->shape, f->type->rank);
}

/* ---- broadcast, transpose, reshape ---- */

/* The input of a reshape that only adds or takes leading axes of extent 1, which a broadcast to `rank` axes does as well. */
static Id without_leading(const Fold *f, Id id)
{
    const Node *n = node_at(f->g, id);
    if (n->op != OP_reshape)
        return 0;
    Id x = node_in(f->g, id)[0];
    const Dim *a = node_shape(f->g, x), *b = node_shape(f->g, id);
    int ra = node_at(f->g, x)->rank, rb = n->rank;
    if (ra > f->type->rank)
        return 0;
    while (ra > rb && *a == 1)
        a++, ra--;
    while (rb > ra && *b == 1)
        b++, rb--;
    return shape_eq(f->g, a, ra, b, rb) ? x : 0;
}

static Id fold_broadcast(const Fold *f)
{
    Id x = f->in[0];
    if (same_shape(f, x))
        return x;
    Id inner = node_at(f->g, x)->op == OP_broadcast ? node_in(f->g, x)[0] : without_leading(f, x);
    return inner ? fold_spread(f, inner) : 0;
}

static Id fold_transpose(const Fold *f)
{
    Id x = f->in[0], scalar = fold_scalar(f->g, x);
    int rank = f->nattr, perm[MAX_RANK];
    bool identity = true;
    for (int i = 0; i < rank; i++)
        identity &= f->attr[i] == i;
    if (identity)
        return x;
    if (scalar)
        return fold_spread(f, scalar);
    if (node_at(f->g, x)->op != OP_transpose)
        return 0;
    for (int i = 0; i < rank; i++)
        perm[i] = (int)node_attr(f->g, x)[f->attr[i]];
    return graph_transpose(f->g, node_in(f->g, x)[0], perm);
}

static Id fold_reshape(const Fold *f)
{
    Id x = f->in[0], scalar = fold_scalar(f->g, x);
    if (same_shape(f, x))
        return x;
    if (scalar && node_at(f->g, x)->rank)
        return fold_spread(f, scalar);
    return node_at(f->g, x)->op == OP_reshape ? graph_reshape(f->g, node_in(f->g, x)[0], f->type->shape, f->type->rank) : 0;
}

/* ---- boxes: what slice reads and update writes ---- */

typedef struct {
    int rank;
    const Id *offset;
    const int64_t *step;
    const Dim *count;
} Box;

static Box slice_box(const Fold *f)
{
    return (Box){ f->type->rank, f->in + 1, f->attr, f->type->shape };
}

static Box update_box(const Graph *g, Id update)
{
    return (Box){ node_at(g, update)->rank, node_in(g, update) + 2, node_attr(g, update), node_shape(g, node_in(g, update)[1]) };
}

static bool offset_is(const Graph *g, const Box *b, int d, int64_t *at) { return node_const(g, b->offset[d], at); }

/* Whether the box is all of an array of that shape, in order. */
static bool box_is_all(const Graph *g, const Box *b, const Dim *shape)
{
    int64_t at;
    for (int d = 0; d < b->rank; d++)
        if (!dim_eq(g, b->count[d], shape[d]) || !offset_is(g, b, d, &at) || at || (b->step[d] != 1 && b->count[d] != 1))
            return false;
    return true;
}

static bool same_box(const Graph *g, const Box *a, const Box *b)
{
    for (int d = 0; d < a->rank; d++)
        if (a->offset[d] != b->offset[d] || !dim_eq(g, a->count[d], b->count[d]) || (a->step[d] != b->step[d] && a->count[d] != 1))
            return false;
    return true;
}

/* First and last element along an axis, ascending; false if they are not known while tracing. */
static bool box_range(const Graph *g, const Box *b, int d, int64_t *first, int64_t *last)
{
    int64_t at;
    if (b->count[d] < 1 || !offset_is(g, b, d, &at))
        return false;
    int64_t end = at + (b->count[d] - 1) * b->step[d];
    *first = at < end ? at : end;
    *last = at < end ? end : at;
    return true;
}

static bool disjoint(const Graph *g, const Box *a, const Box *b)
{
    int64_t af, al, bf, bl;
    for (int d = 0; d < a->rank; d++)
        if (box_range(g, a, d, &af, &al) && box_range(g, b, d, &bf, &bl) && (al < bf || bl < af))
            return true;
    return false;
}

/* Whether box a lies in the range first .. last along every axis, and where in it: shift[d] is to be taken off its offsets. */
static bool within(const Graph *g, const Box *a, const int64_t *first, const int64_t *last)
{
    int64_t af, al;
    for (int d = 0; d < a->rank; d++)
        if (!box_range(g, a, d, &af, &al) || af < first[d] || al > last[d])
            return false;
    return true;
}

/* The box read from another array, in which it lies shift[d] lower. Its offsets are known. */
static Id shifted(const Fold *f, Id x, const int64_t *shift)
{
    int64_t start[MAX_RANK];
    for (int d = 0; d < f->type->rank; d++) {
        node_const(f->g, f->in[1 + d], &start[d]);
        start[d] -= shift[d];
    }
    return graph_slice_const(f->g, x, start, f->attr, f->type->shape);
}

/* Steps that are never taken become 1, so that equal slices are one node. */
static Id unit_steps(const Fold *f)
{
    int64_t step[MAX_RANK];
    bool changed = false;
    for (int d = 0; d < f->type->rank; d++) {
        step[d] = f->type->shape[d] == 1 ? 1 : f->attr[d];
        changed |= step[d] != f->attr[d];
    }
    return changed ? graph_slice(f->g, f->in[0], f->in + 1, step, f->type->shape) : 0;
}

/* slice(broadcast x) ==> broadcast(slice x): along repeated axes every offset reads the same. */
static Id slice_of_broadcast(const Fold *f, Id x)
{
    Id y = node_in(f->g, x)[0], offset[MAX_RANK];
    int rank = node_at(f->g, y)->rank, lead = f->type->rank - rank;
    int64_t step[MAX_RANK];
    Dim count[MAX_RANK];
    for (int d = 0; d < rank; d++) {
        bool repeated = node_shape(f->g, y)[d] == 1;
        offset[d] = repeated ? graph_const(f->g, DT_int64, 0) : f->in[1 + lead + d];
        step[d] = repeated ? 1 : f->attr[lead + d];
        count[d] = repeated ? 1 : f->type->shape[lead + d];
    }
    return fold_spread(f, rank ? graph_slice(f->g, y, offset, step, count) : y);
}

/* Reads past the writes that miss the box. A loop, as a trace may stack thousands of writes. */
static Id slice_of_update(const Fold *f, Id x)
{
    const Box box = slice_box(f);
    Id from = x;
    while (node_at(f->g, from)->op == OP_update) {
        Box written = update_box(f->g, from);
        int64_t first[MAX_RANK], last[MAX_RANK];
        bool dense = true;
        if (same_box(f->g, &box, &written))
            return node_in(f->g, from)[1];
        if (disjoint(f->g, &box, &written)) {
            from = node_in(f->g, from)[0];
            continue;
        }
        for (int d = 0; d < box.rank && dense; d++)
            dense = box_range(f->g, &written, d, &first[d], &last[d]) && (written.step[d] == 1 || written.count[d] == 1);
        if (dense && within(f->g, &box, first, last))
            return shifted(f, node_in(f->g, from)[1], first);
        break;
    }
    return from == x ? 0 : graph_slice(f->g, from, f->in + 1, f->attr, f->type->shape);
}

/* The piece of concatenate x that a slice lies in, its start along the axis then counted from there; 0: there is none. */
static Id piece_below(const Graph *g, Id x, int64_t *start, const int64_t *step, const Dim *count)
{
    int axis = (int)node_attr(g, x)[0];
    int64_t begin = 0, end = start[axis] + (count[axis] - 1) * step[axis], first = start[axis] < end ? start[axis] : end, last = start[axis] < end ? end : start[axis];
    if (g->keep_joined || count[axis] < 1)
        return 0;
    for (int k = 0; k < node_at(g, x)->nin; k++) {
        Id piece = node_in(g, x)[k];
        Dim n = node_shape(g, piece)[axis];
        if (n < 0 || first < begin)
            return 0;
        if (last < begin + n) {
            start[axis] -= begin;
            return piece;
        }
        begin += n;
    }
    return 0;
}

/* A slice of a slice, or of one piece of a concatenate, and so on down: all at once, since chains of them are as long as loops. */
static Id slice_below(const Fold *f, Id x)
{
    const Graph *g = f->g;
    int64_t start[MAX_RANK], step[MAX_RANK], inner;
    const int rank = f->type->rank;
    for (int d = 0; d < rank; d++) {
        if (!node_const(g, f->in[1 + d], &start[d]))
            return 0;
        step[d] = f->attr[d];
    }
    for (Id below = x;; x = below) {
        if (node_at(g, x)->op == OP_concatenate)
            below = piece_below(g, x, start, step, f->type->shape);
        else
            below = node_at(g, x)->op == OP_slice ? node_in(g, x)[0] : 0;
        for (int d = 0; below && node_at(g, x)->op == OP_slice && d < rank; d++)
            if (!node_const(g, node_in(g, x)[1 + d], &inner) || __builtin_mul_overflow(step[d], node_attr(g, x)[d], &inner))
                below = 0;
        if (!below)
            break;
        for (int d = 0; node_at(g, x)->op == OP_slice && d < rank; d++) {
            node_const(g, node_in(g, x)[1 + d], &inner);
            start[d] = inner + start[d] * node_attr(g, x)[d];
            step[d] *= node_attr(g, x)[d];
        }
    }
    return x == f->in[0] ? 0 : graph_slice_const(f->g, x, start, step, f->type->shape);
}

/* A slice of what lies between the margins. */
static Id slice_of_pad(const Fold *f, Id x)
{
    const Box box = slice_box(f);
    Id inner = node_in(f->g, x)[0];
    const int64_t *before = node_attr(f->g, x);
    int64_t last[MAX_RANK];
    for (int d = 0; d < box.rank; d++) {
        Dim n = node_shape(f->g, inner)[d];
        if (n < 1)
            return 0;
        last[d] = before[d] + n - 1;
    }
    return within(f->g, &box, before, last) ? shifted(f, inner, before) : 0;
}

static Id fold_slice(const Fold *f)
{
    Id x = f->in[0];
    const Box box = slice_box(f);
    if (box_is_all(f->g, &box, node_shape(f->g, x)))
        return x;
    switch ((int)node_at(f->g, x)->op) {
    case OP_slice:
    case OP_concatenate: {
        Id r = slice_below(f, x);
        return r ? r : unit_steps(f);
    }
    case OP_broadcast: return slice_of_broadcast(f, x);
    case OP_update: {
        Id r = slice_of_update(f, x);
        return r ? r : unit_steps(f);
    }
    case OP_pad: {
        Id r = slice_of_pad(f, x);
        return r ? r : unit_steps(f);
    }
    }
    return unit_steps(f);
}

/* ---- update, concatenate, pad ---- */

/* update(x, slice(x, s), s) ==> x */
static bool writes_back(const Fold *f, const Box *box)
{
    Id v = f->in[1];
    if (node_at(f->g, v)->op != OP_slice || node_in(f->g, v)[0] != f->in[0])
        return false;
    const Box read = { box->rank, node_in(f->g, v) + 1, node_attr(f->g, v), node_shape(f->g, v) };
    return same_box(f->g, box, &read);
}

static Id fold_update(const Fold *f)
{
    Id x = f->in[0], v = f->in[1];
    const Box box = { f->type->rank, f->in + 2, f->attr, node_shape(f->g, v) };
    if (node_size(f->g, v) == 0 || writes_back(f, &box))
        return x;
    if (box_is_all(f->g, &box, f->type->shape))
        return v;
    /* A second write over the first. */
    if (node_at(f->g, x)->op == OP_update) {
        Box older = update_box(f->g, x);
        if (same_box(f->g, &box, &older))
            return graph_update(f->g, node_in(f->g, x)[0], v, f->in + 2, f->attr);
    }
    return 0;
}

static Id fold_scatter(const Fold *f) { return node_size(f->g, f->in[1]) ? 0 : f->in[0]; }

/* Without its empty pieces; of one piece, the piece. */
static Id fold_concatenate(const Fold *f)
{
    int axis = (int)f->attr[0], kept = 0;
    for (int i = 0; i < f->nin; i++)
        kept += fold_shape(f, i)[axis] != 0;
    if (kept == f->nin)
        return f->nin == 1 ? f->in[0] : 0;
    Id *in = arena_alloc(f->g->arena, (size_t)kept * sizeof *in);
    if (!in)
        return 0;
    kept = 0;
    for (int i = 0; i < f->nin; i++)
        if (fold_shape(f, i)[axis] != 0)
            in[kept++] = f->in[i];
    return graph_concatenate(f->g, in, kept, axis);
}

static Id fold_pad(const Fold *f)
{
    for (int i = 0; i < f->nattr; i++)
        if (f->attr[i])
            return 0;
    return f->in[0];
}

/* ---- reductions ---- */

/* Number of reduced elements per result; -1: not known while tracing. */
static int64_t reduced_count(const Fold *f)
{
    int64_t n = 1;
    for (int d = 0; d < fold_input(f, 0)->rank; d++) {
        Dim extent = f->attr[0] >> d & 1 ? fold_shape(f, 0)[d] : 1;
        if (extent < 0)
            return -1;
        n *= extent;
    }
    return n;
}

/* The result of one element. NumPy's sum is 0 + x, which makes -0.0 0.0. */
static Id reduce_one(const Fold *f)
{
    Id x = graph_reshape(f->g, f->in[0], f->type->shape, f->type->rank);
    if (f->op != OP_reduce_sum || dtype_info[f->type->dtype].kind < DKIND_FLOAT)
        return x;
    return graph_binary(f->g, OP_add, x, fold_spread(f, graph_number(f->g, f->type->dtype, 0)));
}

/* A float64 sum of bools is how many are true, exactly: integers add up faster. */
static Id reduce_bools(const Fold *f)
{
    const Node *x = fold_input(f, 0);
    Id bools = x->op == OP_cast ? node_in(f->g, f->in[0])[0] : 0;
    if (f->op != OP_reduce_sum || f->type->dtype != DT_float64 || !bools || node_at(f->g, bools)->dtype != DT_bool_)
        return 0;
    return graph_cast(f->g, graph_reduce(f->g, f->op, graph_cast(f->g, bools, DT_int64), (uint64_t)f->attr[0], 0), DT_float64);
}

static Id fold_reduce(const Fold *f)
{
    int64_t n = reduced_count(f);
    if (n == 1)
        return reduce_one(f);
    Op op = f->op;
    Id counted = reduce_bools(f);
    if (counted)
        return counted;
    if (n == 0 && op != OP_reduce_max && op != OP_reduce_min)
        return fold_spread(f, graph_number(f->g, f->type->dtype, op == OP_reduce_prod || op == OP_reduce_all));
    Id scalar = fold_scalar(f->g, f->in[0]);
    bool repeats = n > 0 && scalar && op != OP_reduce_sum && op != OP_reduce_prod;
    return repeats ? fold_spread(f, scalar) : 0;
}

/* Of nothing: 0 / max(0 - ddof, 0). */
static Id fold_var(const Fold *f)
{
    double ddof;
    memcpy(&ddof, &f->attr[1], sizeof ddof);
    return reduced_count(f) == 0 ? fold_spread(f, graph_number(f->g, f->type->dtype, ddof < 0 ? 0 : __builtin_nan(""))) : 0;
}

static Id fold_arg(const Fold *f)
{
    int64_t n = reduced_count(f);
    return n == 1 || (n > 1 && fold_scalar(f->g, f->in[0])) ? fold_spread(f, graph_const(f->g, DT_int64, 0)) : 0;
}

static Id fold_scan(const Fold *f) { return f->type->shape[f->attr[0]] == 1 ? f->in[0] : 0; }

/* Sums over nothing. */
static Id fold_dot(const Fold *f)
{
    bool none = fold_shape(f, 0)[f->type->rank - 1] == 0;
    return none ? fold_spread(f, graph_number(f->g, f->type->dtype, 0)) : 0;
}

/* What holds while tracing needs no check in the run. */
static Id fold_check(const Fold *f)
{
    int64_t holds;
    bool empty = node_size(f->g, f->in[0]) == 0;
    if (!empty && (!fold_known(f->g, f->in[0], &holds) || !holds))
        return 0;
    return graph_const(f->g, DT_bool_, 1);
}

FoldRule *const fold_rules[OP_COUNT] = {
    [OP_broadcast] = fold_broadcast, [OP_transpose] = fold_transpose, [OP_reshape] = fold_reshape, [OP_slice] = fold_slice,
    [OP_update] = fold_update, [OP_scatter] = fold_scatter, [OP_concatenate] = fold_concatenate, [OP_pad] = fold_pad,
    [OP_reduce_sum] = fold_reduce, [OP_reduce_prod] = fold_reduce, [OP_reduce_max] = fold_reduce, [OP_reduce_min] = fold_reduce,
    [OP_reduce_any] = fold_reduce, [OP_reduce_all] = fold_reduce, [OP_reduce_argmax] = fold_arg, [OP_reduce_argmin] = fold_arg,
    [OP_reduce_var] = fold_var,
    [OP_cumsum] = fold_scan, [OP_cumprod] = fold_scan, [OP_cummax] = fold_scan, [OP_cummin] = fold_scan,
    [OP_dot] = fold_dot, [OP_check] = fold_check,
};
