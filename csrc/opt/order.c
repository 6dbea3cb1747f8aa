/* The memory layout of new arrays, by NumPy's rules: a ufunc, a reduction, a scan, np.where and concatenate order the axes of what they
 * make by the strides of what they read (order 'K'); other functions make C-contiguous arrays. Views have the strides that views have. So every
 * node gets the strides that its array would have in NumPy, were it not fused with others. */
#include <string.h>
#include "opt/group.h"

typedef struct { const Graph *g; const PlanInput *in; Layouts *l; } Order;

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

void order_contiguous(int64_t item, int rank, const Dim *shape, const int8_t *order, int64_t *stride)
{
    for (int i = rank - 1; i >= 0; i--) {
        int d = order ? order[i] : i;
        stride[d] = item;
        item *= shape[d] > 1 ? shape[d] : 1;
    }
}

/* How the strides of one array along two axes (`outer` is before `inner` now) say they lie: 1 as they are, -1 the other way round, 0 nothing. */
static int compare(int64_t outer, int64_t inner)
{
    if (!outer || !inner) return 0;
    return magnitude(inner) <= magnitude(outer) ? 1 : -1;
}

/* NumPy's order of the axes for arrays of these strides (0: broadcast), outermost first: an insertion sort, in which C order wins where
 * two arrays disagree, and axes that no array tells apart stay as they are. */
static void sort_axes(int rank, const int64_t *const *stride, int n, int8_t *order)
{
    for (int d = 0; d < rank; d++) order[d] = (int8_t)d;
    for (int i = rank - 2; i >= 0; i--) {
        int axis = order[i], to = i;
        for (int j = i + 1; j < rank; j++) {
            bool keep = false, swap = false;
            for (int k = 0; k < n; k++) {
                int c = compare(stride[k][axis], stride[k][order[j]]);
                keep = keep || c > 0;
                swap = swap || c < 0;
            }
            if (keep) break;
            if (swap) to = j;
        }
        memmove(order + i, order + i + 1, sizeof *order * (size_t)(to - i));
        order[to] = (int8_t)axis;
    }
}

static int64_t *strides(const Order *o, Id id) { return o->l->words + o->l->at[id]; }

/* The strides of node `id` along axes of extent > 1, 0 elsewhere. */
static const int64_t *effective(const Order *o, Id id, int64_t *buffer)
{
    for (int d = 0; d < node_at(o->g, id)->rank; d++) buffer[d] = node_shape(o->g, id)[d] == 1 ? 0 : strides(o, id)[d];
    return buffer;
}

/* A new array, in the order of those of n operands that have its rank. */
static void in_order_of_operands(const Order *o, Id id, const Id *in, int n, int64_t *out)
{
    enum { MOST = 32 };
    int64_t buffer[MOST][MAX_RANK];
    const int64_t *of[MOST];
    const Node *node = node_at(o->g, id);
    int8_t order[MAX_RANK];
    int used = 0;
    for (int i = 0; i < n && used < MOST; i++)
        if (node_at(o->g, in[i])->rank == node->rank) of[used] = effective(o, in[i], buffer[used]), used++;
    sort_axes(node->rank, of, used, order);
    order_contiguous(dtype_info[node->dtype].bytes, node->rank, node_shape(o->g, id), order, out);
}

/* The kept axes in the order that all of them have in the input. */
static void of_reduction(const Order *o, Id id, int64_t *out)
{
    int64_t buffer[MAX_RANK];
    Id a = node_in(o->g, id)[0];
    const int64_t *of = effective(o, a, buffer);
    int8_t order[MAX_RANK], kept[MAX_RANK], number[MAX_RANK];
    int n = 0, rank = node_at(o->g, a)->rank;
    for (int d = 0; d < rank; d++) number[d] = (int8_t)(node_attr(o->g, id)[0] >> d & 1 ? -1 : n++);
    sort_axes(rank, &of, 1, order);
    n = 0;
    for (int i = 0; i < rank; i++) if (number[order[i]] >= 0) kept[n++] = number[order[i]];
    order_contiguous(dtype_info[node_at(o->g, id)->dtype].bytes, n, node_shape(o->g, id), kept, out);
}

static void of_broadcast(const Order *o, Id id, int64_t *out)
{
    Id a = node_in(o->g, id)[0];
    int lead = node_at(o->g, id)->rank - node_at(o->g, a)->rank;
    for (int d = 0; d < node_at(o->g, id)->rank; d++)
        out[d] = d < lead || node_shape(o->g, a)[d - lead] != node_shape(o->g, id)[d] ? 0 : strides(o, a)[d - lead];
}

static void of_view(const Order *o, Id id, int64_t *out)
{
    const Node *n = node_at(o->g, id);
    Id a = node_in(o->g, id)[0];
    const int64_t *attr = node_attr(o->g, id), *of = strides(o, a);
    if (n->op == OP_broadcast) {
        of_broadcast(o, id, out);
    } else if (n->op == OP_transpose) {
        for (int d = 0; d < n->rank; d++) out[d] = of[attr[d]];
    } else if (n->op == OP_window) {
        for (int d = 0; d < n->rank - 1; d++) out[d] = of[d] * (d == attr[0] ? attr[2] : 1);
        out[n->rank - 1] = of[attr[0]] * attr[3];
    } else if (n->op == OP_slice) {
        for (int d = 0; d < n->rank; d++) out[d] = of[d] * attr[d];
    } else if (!reshape_strides(node_at(o->g, a)->rank, node_shape(o->g, a), of, n->rank, node_shape(o->g, id), out)) {
        order_contiguous(dtype_info[n->dtype].bytes, n->rank, node_shape(o->g, id), NULL, out);
    }
}

/* NumPy's x[i, j, ...]: the axes of the index arrays in C order outside x's other axes in their own order; without any of those, in the
 * order of the index arrays. */
static void of_gather(const Order *o, Id id, int64_t *out)
{
    int64_t buffer[MAX_RANK];
    const Node *n = node_at(o->g, id);
    const Id *in = node_in(o->g, id);
    int indices = n->nin - 1, rest = node_at(o->g, in[0])->rank - indices, lead = n->rank - rest;
    int8_t order[MAX_RANK], inner[MAX_RANK];
    if (!rest) {
        in_order_of_operands(o, id, in + 1, indices, out);
        return;
    }
    const int64_t *of = effective(o, in[0], buffer) + indices;
    sort_axes(rest, &of, 1, inner);
    for (int d = 0; d < n->rank; d++) order[d] = (int8_t)(d < lead ? d : lead + inner[d - lead]);
    order_contiguous(dtype_info[n->dtype].bytes, n->rank, node_shape(o->g, id), order, out);
}

/* Whether an array is contiguous in the given order of its axes (NULL: C order), as NumPy's flags say it: axes of one element do not count,
 * and one without elements is. */
static bool is_contiguous(const Order *o, Id a, const int8_t *order)
{
    const Node *n = node_at(o->g, a);
    int64_t want[MAX_RANK];
    order_contiguous(dtype_info[n->dtype].bytes, n->rank, node_shape(o->g, a), order, want);
    bool same = true, empty = false;
    for (int d = 0; d < n->rank; d++) {
        same = same && (node_shape(o->g, a)[d] == 1 || want[d] == strides(o, a)[d]);
        empty = empty || node_shape(o->g, a)[d] == 0;
    }
    return same || empty;
}

/* np.pad makes an array in Fortran order of one that is in Fortran order and not in C order, and else one in C order. */
static void of_pad(const Order *o, Id id, int64_t *out)
{
    const Node *n = node_at(o->g, id);
    Id a = node_in(o->g, id)[0];
    int8_t fortran[MAX_RANK];
    for (int d = 0; d < n->rank; d++) fortran[d] = (int8_t)(n->rank - 1 - d);
    bool turned = is_contiguous(o, a, fortran) && !is_contiguous(o, a, NULL);
    order_contiguous(dtype_info[n->dtype].bytes, n->rank, node_shape(o->g, id), turned ? fortran : NULL, out);
}

/* NumPy's copy of an array with broadcast axes has these innermost, C order among those of one stride. */
static void sort_copied(int rank, const int64_t *stride, int8_t *order)
{
    for (int d = 0; d < rank; d++) {
        int to = d;
        for (; to > 0 && magnitude(stride[order[to - 1]]) < magnitude(stride[d]); to--) order[to] = order[to - 1];
        order[to] = (int8_t)d;
    }
}

/* Whether an array shows an argument of which axes repeat the same memory: new, it is a copy. (A product with ones may be one as well, by now.) */
static bool copies_broadcast(const Graph *g, Id id, const int64_t *stride)
{
    bool repeats = false;
    for (int d = 0; d < node_at(g, id)->rank; d++) repeats = repeats || (!stride[d] && node_shape(g, id)[d] > 1);
    while (op_info[node_at(g, id)->op].kind == KIND_VIEW && node_at(g, id)->op != OP_broadcast) id = node_in(g, id)[0];
    return repeats && node_at(g, id)->op == OP_input;
}

/* The order of the axes of a copy of an array. */
static void copied_order(const Order *o, Id id, int8_t *order)
{
    int64_t buffer[MAX_RANK];
    const int64_t *of = effective(o, id, buffer);
    if (copies_broadcast(o->g, id, of)) sort_copied(node_at(o->g, id)->rank, of, order);
    else sort_axes(node_at(o->g, id)->rank, &of, 1, order);
}

/* An array like another one: in the order that a copy of it has. Like several: as what a ufunc makes of them. */
static void of_like(const Order *o, Id id, int64_t *out)
{
    int8_t order[MAX_RANK];
    if (node_at(o->g, id)->nin > 2) {
        in_order_of_operands(o, id, node_in(o->g, id) + 1, node_at(o->g, id)->nin - 1, out);
        return;
    }
    copied_order(o, node_in(o->g, id)[1], order);
    order_contiguous(dtype_info[node_at(o->g, id)->dtype].bytes, node_at(o->g, id)->rank, node_shape(o->g, id), order, out);
}

/* A result of a ufunc that is a host call. */
static void of_loop(const Order *o, Id id, int64_t *out)
{
    Id call = node_in(o->g, id)[0];
    in_order_of_operands(o, id, node_in(o->g, call), node_at(o->g, call)->nin, out);
}

static void of_node(const Order *o, Id id)
{
    const Node *n = node_at(o->g, id);
    int64_t *out = strides(o, id);
    bool keeps = n->op != OP_reduce_argmax && n->op != OP_reduce_argmin;
    OpKind kind = op_info[n->op].kind;
    if (n->op == OP_input) memcpy(out, o->in[node_attr(o->g, id)[0]].stride, sizeof *out * n->rank);
    else if (kind == KIND_ELEMENTWISE || kind == KIND_SCAN || n->op == OP_concatenate) in_order_of_operands(o, id, node_in(o->g, id), n->nin, out);
    else if (n->op == OP_item && host_is_loop(o->g, node_in(o->g, id)[0])) of_loop(o, id, out);
    else if (n->op == OP_update || n->op == OP_scatter) in_order_of_operands(o, id, node_in(o->g, id), 1, out);
    else if (n->op == OP_like) of_like(o, id, out);
    else if (n->op == OP_gather) of_gather(o, id, out);
    else if (kind == KIND_VIEW) of_view(o, id, out);
    else if (kind == KIND_REDUCE && keeps) of_reduction(o, id, out);
    else if (n->op == OP_pad) of_pad(o, id, out);
    else order_contiguous(dtype_info[n->dtype].bytes, n->rank, node_shape(o->g, id), NULL, out);
}

/* Whether something may have another layout than C order: an argument does, or a transpose or a window makes one. */
static bool has_orders(const Graph *g, const PlanInput *in)
{
    for (uint32_t i = 0; i < g->inputs.len; i++) {
        const Node *n = node_at(g, g->inputs.at[i]);
        int64_t last = INT64_MAX;
        for (int d = 0; d < n->rank; d++) {
            int64_t s = magnitude(in[i].stride[d]);
            if (!s && node_shape(g, g->inputs.at[i])[d] > 1 && d + 1 < n->rank) return true;
            if (s > last) return true;
            if (s) last = s;
        }
    }
    for (Id id = 1; id < g->nodes.len; id++) if (node_at(g, id)->op == OP_transpose || node_at(g, id)->op == OP_window) return true;
    return false;
}

Layouts *order_layouts(Arena *arena, const Graph *g, const PlanInput *in)
{
    Layouts *l = arena_alloc(arena, sizeof *l);
    if (!l || !has_orders(g, in)) return l;
    uint32_t words = 0;
    l->at = arena_alloc(arena, sizeof *l->at * g->nodes.len);
    if (!l->at) return NULL;
    for (Id id = 1; id < g->nodes.len; id++) l->at[id] = words, words += node_at(g, id)->rank;
    l->words = arena_alloc(arena, sizeof *l->words * (words + 1));
    if (!l->words) return NULL;
    Order o = { g, in, l };
    for (Id id = 1; id < g->nodes.len; id++) of_node(&o, id);
    return l;
}

bool order_moved(const Graph *g, Id from, const int64_t *stride, Id to, int64_t *out)
{
    const Dim *s = node_shape(g, from), *t = node_shape(g, to);
    int ns = node_at(g, from)->rank, nt = node_at(g, to)->rank, i = 0, j = 0;
    for (;;) {
        while (i < ns && s[i] == 1) i++;
        while (j < nt && t[j] == 1) out[j++] = dtype_info[node_at(g, to)->dtype].bytes;
        if (i == ns || j == nt) return i == ns && j == nt;
        if (s[i] != t[j]) return false;
        out[j++] = stride[i++];
    }
}

void order_new(const Layouts *l, const Graph *g, Id id, int64_t *stride)
{
    const Node *n = node_at(g, id);
    int8_t order[MAX_RANK];
    Order o = { g, NULL, (Layouts *)l };
    if (l->words) copied_order(&o, id, order);
    order_contiguous(dtype_info[n->dtype].bytes, n->rank, node_shape(g, id), l->words ? order : NULL, stride);
}
