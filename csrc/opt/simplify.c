/* Graph -> Graph: live nodes only, folded again in their new company, with products that are no matrix products and variances by
 * rows written out, and reshapes sunk below elementwise nodes. Exact: no value changes but by the contract of sums. */
#include <stdlib.h>
#include <string.h>
#include "opt/plan.h"

typedef struct { const Graph *old; Graph *g; Id *map; bool *live; uint32_t *uses; Id *user, *varied; Beside *beside; const Target *target; const PlanInput *in; } Pass;

static void mark_live(Pass *p)
{
    const Graph *o = p->old;
    for (uint32_t i = 0; i < o->outputs.len; i++) p->live[o->outputs.at[i]] = true, p->uses[o->outputs.at[i]]++;
    for (uint32_t i = 0; i < o->checks.len; i++) p->live[o->checks.at[i]] = true;
    for (Id id = o->nodes.len - 1; id > 0; id--)
        if (p->live[id]) {
            if (node_at(o, id)->op == OP_reduce_var) p->varied[node_in(o, id)[0]] = id;
            beside_note(o, id, p->beside);
            for (int i = 0; i < node_at(o, id)->nin; i++) {
                p->live[node_in(o, id)[i]] = true;
                p->uses[node_in(o, id)[i]]++;
                p->user[node_in(o, id)[i]] = id;
            }
        }
}

enum {
    MATRIX = 65536,              /* elements from which on a matrix times a vector is a product of its own */
    WINDOW_ROWS = 8,             /* outputs, and elements of a window, from which on a convolution is a product */
    WINDOW_AXES = 8,             /* longer than 1, at most */
};

/* Whether a matrix is a cast of narrower numbers: they are the traffic, and a loop casts them as it reads them. */
static bool is_widened(const Graph *g, Id id)
{
    while (op_info[node_at(g, id)->op].kind == KIND_VIEW && node_at(g, id)->nin == 1) id = node_in(g, id)[0];
    if (node_at(g, id)->op != OP_cast) return false;
    return dtype_info[node_at(g, node_in(g, id)[0])->dtype].bytes < dtype_info[node_at(g, id)->dtype].bytes;
}

/* (..., m, k) x (..., k, n) as a broadcast product and a sum: vectors, and matrices so small that one loop holds them. */
static Id dot_small(Graph *g, Id a, Id b)
{
    int r = node_at(g, a)->rank;
    Dim shape[MAX_RANK], sa[MAX_RANK], sb[MAX_RANK];
    memcpy(sa, node_shape(g, a), sizeof(Dim) * (size_t)r);
    memcpy(sb, node_shape(g, b), sizeof(Dim) * (size_t)r);
    Dim m = sa[r - 2], k = sa[r - 1], n = sb[r - 1];
    bool large = (m == 1) != (n == 1) && !is_widened(g, m == 1 ? b : a);
    if (large && (m * n) >= 64 && k >= 64 && m * n * k >= MATRIX && dtype_info[node_at(g, a)->dtype].kind == DKIND_FLOAT) return 0;
    if (r + 1 > MAX_RANK || !(m <= 1 || n <= 1 || k == 0 || (m * n * k <= DOT_SUM && k <= DOT_SMALL))) return 0;
    /* k last where B's columns are read whole or A is a vector of rows; k before n keeps n the vector axis */
    bool rows = n == 1;
    memcpy(shape, sa, sizeof(Dim) * (size_t)(r - 2));
    int perm[MAX_RANK];
    for (int d = 0; d < r; d++) perm[d] = d;
    shape[r - 2] = m;
    shape[r - 1] = rows ? n : k;
    shape[r] = rows ? k : n;
    Dim as[MAX_RANK], bs[MAX_RANK];
    memcpy(as, sa, sizeof as);
    memcpy(bs, sb, sizeof bs);
    if (rows) {
        as[r - 2] = m, as[r - 1] = 1, as[r] = k;
        perm[r - 2] = r - 1, perm[r - 1] = r - 2;             /* (n, k) */
        bs[r - 2] = 1, bs[r - 1] = n, bs[r] = k;
        b = graph_transpose(g, b, perm);
    } else {
        as[r - 2] = m, as[r - 1] = k, as[r] = 1;
        bs[r - 2] = 1, bs[r - 1] = k, bs[r] = n;
    }
    a = graph_broadcast(g, graph_reshape(g, a, as, r + 1), shape, r + 1);
    b = graph_broadcast(g, graph_reshape(g, b, bs, r + 1), shape, r + 1);
    return graph_reduce(g, OP_reduce_sum, graph_binary(g, OP_multiply, a, b), 1ull << (rows ? r : r - 1), 0);
}

/* Whether an operand of the new graph lies in memory, its last axis still the last one if asked for. */
static bool is_stored(const Graph *g, Id id, bool last)
{
    for (; op_info[node_at(g, id)->op].kind == KIND_VIEW && node_at(g, id)->nin == 1; id = node_in(g, id)[0]) {
        int r = node_at(g, id)->rank;
        if (last && (node_at(g, id)->op == OP_reshape || (node_at(g, id)->op == OP_transpose && node_attr(g, id)[r - 1] != r - 1))) return false;
    }
    OpKind kind = op_info[node_at(g, id)->op].kind;
    return node_at(g, id)->op == OP_input || kind == KIND_DOT || kind == KIND_REDUCE;
}

/* Whether product `id` of the old graph is many small ones of matrices that lie in memory: each is made in registers. */
static bool is_batch(const Pass *p, Id id, Id a, Id b)
{
    const Node *n = node_at(p->old, id);
    const Dim *shape = node_shape(p->old, id);
    Dim k = node_shape(p->g, a)[n->rank - 1], many = 1;
    if (shape[n->rank - 2] < 2 || shape[n->rank - 1] < 2 || k < 2 || dtype_info[n->dtype].kind != DKIND_FLOAT) return false;
    if (shape[n->rank - 2] > DOT_SMALL || shape[n->rank - 1] > DOT_SMALL || k > DOT_SMALL) return false;
    for (int d = 0; d < n->rank - 2; d++) many *= shape[d];
    return many >= DOT_MANY && is_stored(p->g, a, false) && is_stored(p->g, b, true);
}

static bool shows_window(const Graph *g, Id id)
{
    while (node_at(g, id)->op != OP_window && op_info[node_at(g, id)->op].kind == KIND_VIEW) id = node_in(g, id)[0];
    return node_at(g, id)->op == OP_window;
}

/* Whether product `id` of the old graph is added up over a window of one of its operands, now a and b: a convolution to many outputs, however small the
 * products of single elements of the window are. */
static bool is_convolution(const Pass *p, Id id, Id a, Id b)
{
    const Graph *o = p->old;
    int r = node_at(o, id)->rank;
    const Dim *shape = node_shape(o, id);
    if (p->uses[id] != 1 || node_at(o, p->user[id])->op != OP_reduce_sum) return false;
    uint64_t axes = (uint64_t)node_attr(o, p->user[id])[0];
    int64_t depth = node_shape(o, node_in(o, id)[0])[r - 1];
    int long_axes = 0;
    for (int d = 0; d < r; d++) long_axes += shape[d] != 1;
    for (int d = 0; d < r - 2; d++) if (axes >> d & 1) depth *= shape[d];
    if (long_axes > WINDOW_AXES || axes >> (r - 2) || depth < WINDOW_ROWS) return false;
    if (shape[r - 2] >= WINDOW_ROWS && shape[r - 1] >= 2 && shows_window(p->g, b)) return true;
    return shape[r - 2] >= 2 && shape[r - 1] >= WINDOW_ROWS && shows_window(p->g, a);
}

/* The scalar that a node is a broadcast of, or 0. */
static Id scalar_of(const Graph *g, Id id)
{
    while (node_at(g, id)->op == OP_broadcast) id = node_in(g, id)[0];
    return node_at(g, id)->rank == 0 ? id : 0;
}

/* op(reshape(a), reshape(b), scalar ...) -> reshape(op(a, b, scalar ...)) where a and b have one shape. */
static Id sink_reshape(Graph *g, Op op, const Id *in, int nin, Dtype dtype)
{
    Id src = 0;
    for (int i = 0; i < nin; i++) {
        Id a = in[i];
        if (scalar_of(g, a)) continue;
        if (node_at(g, a)->op != OP_reshape) return 0;
        a = node_in(g, a)[0];
        if (!src) src = a;
        if (node_at(g, a)->rank != node_at(g, src)->rank) return 0;
        for (int d = 0; d < node_at(g, a)->rank; d++)
            if (!dim_eq(g, node_shape(g, a)[d], node_shape(g, src)[d])) return 0;
    }
    if (!src) return 0;
    Id out[3];
    Dim from[MAX_RANK], to[MAX_RANK];
    int rf = node_at(g, src)->rank, rt = node_at(g, in[0])->rank;
    memcpy(from, node_shape(g, src), sizeof(Dim) * (size_t)rf);
    memcpy(to, node_shape(g, in[0]), sizeof(Dim) * (size_t)rt);
    for (int i = 0; i < nin; i++) {
        Id s = scalar_of(g, in[i]);
        out[i] = s ? graph_broadcast(g, s, from, rf) : node_in(g, in[i])[0];
    }
    return graph_reshape(g, graph_add(g, op, out, nin, NULL, 0, dtype, NULL, 0), to, rt);
}

Id reduce_unit(Graph *g, Op op, Id x, const int64_t *attr)
{
    Dim shape[MAX_RANK];
    int r = node_at(g, x)->rank, kept = 0;
    for (int d = 0; d < r; d++) {
        bool over = attr[0] >> d & 1;
        if (over && node_shape(g, x)[d] != 1) return 0;
        if (!over) shape[kept++] = node_shape(g, x)[d];
    }
    if (op == OP_reduce_argmax || op == OP_reduce_argmin) return graph_broadcast(g, graph_const(g, DT_int64, 0), shape, kept);
    return graph_reshape(g, x, shape, kept);
}

/* fma=True: a product that only this sum uses is not rounded. A rule of the graph, so it depends on nothing but the program. */
static Id multiply_add(Pass *p, Id id, const Id *in)
{
    const Node *n = node_at(p->old, id);
    Graph *g = p->g;
    if (!(n->mode & MODE_FMA) || (n->op != OP_add && n->op != OP_subtract) || (n->dtype != DT_float32 && n->dtype != DT_float64)) return 0;
    for (int i = 0; i < 2; i++) {
        const Node *m = node_at(g, in[i]);
        if (m->op != OP_multiply || !(m->mode & MODE_FMA) || p->uses[node_in(p->old, id)[i]] != 1) continue;
        Id a[3] = { node_in(g, in[i])[0], node_in(g, in[i])[1], in[1 - i] };
        if (n->op == OP_subtract) a[i ? 0 : 2] = graph_unary(g, OP_negative, a[i ? 0 : 2]);
        return graph_add(g, OP_fma, a, 3, NULL, 0, n->dtype, NULL, 0);
    }
    return 0;
}

/* A sum of small products, which are sums by now: one sum. */
static Id sum_of_products(Pass *p, Id id, Id sum)
{
    Graph *g = p->g;
    Id dot = node_in(p->old, id)[0];
    if (node_at(p->old, dot)->op != OP_dot || p->uses[dot] != 1 || node_at(g, sum)->op != OP_reduce_sum) return 0;
    Id x = node_in(g, sum)[0];
    uint64_t inner = (uint64_t)node_attr(g, sum)[0], outer = (uint64_t)node_attr(p->old, id)[0], both = inner;
    for (int d = 0, k = 0; d < node_at(g, x)->rank; d++)
        if (!(inner >> d & 1) && (outer >> k++ & 1)) both |= 1ull << d;
    return graph_reduce(g, OP_reduce_sum, x, both, 0);
}

static bool is_zero(const Graph *g, Id id)
{
    while (op_info[node_at(g, id)->op].kind == KIND_VIEW && node_at(g, id)->nin == 1) id = node_in(g, id)[0];
    return node_at(g, id)->op == OP_const && node_attr(g, id)[0] == 0;
}

/* A sum of x + 0: of x. They differ where x is -0 alone, and a sum starts at 0, which takes the sign away as well. */
static Id sum_of_zeros(Graph *g, Id x, const int64_t *attr)
{
    const Node *n = node_at(g, x);
    if (n->op != OP_add || dtype_info[n->dtype].kind != DKIND_FLOAT || !is_zero(g, node_in(g, x)[1])) return 0;
    return graph_reduce(g, OP_reduce_sum, node_in(g, x)[0], (uint64_t)attr[0], 0);
}

/* The sum r, or that of x, over a window of a few elements; else r. */
static Id taps(Graph *g, const Node *n, Id x, const int64_t *attr, Id r)
{
    if (!r && n->op == OP_reduce_sum) r = graph_reduce(g, OP_reduce_sum, x, (uint64_t)attr[0], 0);
    if (!r || node_at(g, r)->op != OP_reduce_sum) return r;
    Id sum = sum_of_taps(g, r);
    return sum || g->err->kind ? sum : r;
}

/* Whether a reduction of the old graph is over what a variance runs over as well. */
static bool is_beside_variance(const Pass *p, Id id)
{
    Id var = p->varied[node_in(p->old, id)[0]];
    return var && node_attr(p->old, var)[0] == node_attr(p->old, id)[0];
}

/* Node `id` with these inputs and attributes. */
static Id simplified(Pass *p, Id id, const Id *in, const int64_t *attr)
{
    const Node *n = node_at(p->old, id);
    Graph *g = p->g;
    Id r = 0;
    VarianceForm form = n->nin ? beside_form(p->beside, p->old, id, g, in[0], p->target, p->in) : VARIANCE_ALONE;
    if ((r = fast_rewrite(g, n, in)) || g->err->kind) return r;
    if ((r = multiply_add(p, id, in)) || g->err->kind) return r;
    if (op_info[n->op].kind == KIND_ELEMENTWISE && !(r = sink_reshape(g, n->op, in, n->nin, n->dtype))) r = elementwise_refined(g, p->in, n->op, in, n->nin, n->dtype);
    if (n->op == OP_slice) r = slice_of_joined(g, in, attr, node_shape(p->old, id));
    if (n->op == OP_dot && !is_convolution(p, id, in[0], in[1]) && !is_batch(p, id, in[0], in[1])) r = dot_small(g, in[0], in[1]);
    if (n->op == OP_dot && !r && p->target && p->target->vnni) r = dot_of_bytes(g, in[0], in[1]);
    if (n->op == OP_reduce_sum) r = sum_of_products(p, id, in[0]);
    if (n->op == OP_reduce_sum && !r) r = sum_of_zeros(g, in[0], attr);
    if (op_info[n->op].kind == KIND_REDUCE && !r && is_beside_variance(p, id)) r = reduce_beside_variance(g, n->op, in[0], attr, p->target, p->in, form);
    if ((n->op == OP_reduce_sum || n->op == OP_dot) && (p->uses[id] != 1 || !p->user[id] || node_at(p->old, p->user[id])->op != OP_reduce_sum)) r = taps(g, n, in[0], attr, r);
    if (!r && op_info[n->op].kind == KIND_REDUCE && n->op != OP_reduce_var) r = reduce_unit(g, n->op, in[0], attr);
    if (n->op == OP_reduce_var) r = variance(g, in[0], attr, p->target, p->in, form);
    if (n->op == OP_gather) r = host_selected(g, in, n->nin);
    if (r || g->err->kind) return r;
    return graph_add(g, n->op, in, n->nin, attr, n->nattr, n->dtype, node_shape(p->old, id), n->rank);
}

/* A reduction to one number of a reshape that only such read: that of what is reshaped. */
static bool below_reshape(const Graph *g, bool numbers, Id *x, int64_t *axes)
{
    if (!numbers || node_at(g, *x)->op != OP_reshape) return false;
    int rank = node_at(g, node_in(g, *x)[0])->rank;
    if (!rank || rank > KERNEL_MAX_AXES) return false;
    for (int d = 0; d < node_at(g, *x)->rank; d++) if (!(*axes >> d & 1) && node_shape(g, *x)[d] != 1) return false;
    *x = node_in(g, *x)[0];
    *axes = (1ll << rank) - 1;
    return true;
}

/* Reduction `id` of a transpose, now *x, of what has variances: of what that shows, whose last axis decides how these go. Whether it is one; perm: how the result has
 * to be transposed. */
static bool below_transpose(const Pass *p, Id id, Id *x, int64_t *axes, int *perm)
{
    const Node *n = node_at(p->g, *x);
    Op op = node_at(p->old, id)->op;
    const int64_t *of = node_attr(p->g, *x);
    bool kept[MAX_RANK] = { 0 };
    int64_t over = 0;
    int k = 0;
    bool places = op == OP_reduce_argmax || op == OP_reduce_argmin;          /* which count in the order of the axes */
    if (n->op != OP_transpose || (places && *axes & (*axes - 1))) return false;
    if (!is_beside_variance(p, id) && !beside_varies(p->beside, p->old, id)) return false;
    for (int d = 0; d < n->rank; d++)
        if (*axes >> d & 1) over |= 1ll << of[d];
        else kept[of[d]] = true;
    for (int d = 0; d < n->rank; d++) {
        if (*axes >> d & 1) continue;
        perm[k] = 0;
        for (int j = 0; j < of[d]; j++) perm[k] += kept[j];
        k++;
    }
    *x = node_in(p->g, *x)[0];
    *axes = over;
    return true;
}

static Id rebuild(Pass *p, Id id)
{
    const Node *n = node_at(p->old, id);
    Id few[4], *in = graph_mapped(p->g, p->old, id, p->map, few);
    const int64_t *attr = node_attr(p->old, id);
    int64_t over[2];
    int perm[MAX_RANK];
    if (!in) return 0;
    if (op_info[n->op].kind != KIND_REDUCE || n->nattr > 2) return simplified(p, id, in, attr);
    memcpy(over, attr, sizeof *attr * n->nattr);
    bool moved = below_reshape(p->g, p->beside[node_in(p->old, id)[0]].numbers == p->uses[node_in(p->old, id)[0]], &in[0], &over[0]);
    bool turned = below_transpose(p, id, &in[0], &over[0], perm);
    moved = beside_cut(p->beside, p->old, id, p->map, p->uses, p->g, p->target, p->in, &in[0], &over[0]) || moved || reduce_refined(p->g, p->in, n->op, &in[0], &over[0]);
    Id r = simplified(p, id, in, over);
    if (turned && r) return graph_transpose(p->g, r, perm);
    return moved && r ? graph_reshape(p->g, r, node_shape(p->old, id), n->rank) : r;
}

Graph *simplify(Arena *a, const Graph *graph, const Target *target, const PlanInput *in)
{
    const Graph *plain = drop_likes(a, graph), *joined = plain ? join_once(a, plain) : NULL, *old = joined ? compute_selected(a, joined) : NULL;
    Graph *g = old ? graph_new(a) : NULL;
    if (!g) return NULL;
    Pass p = { old, g, arena_alloc(a, sizeof(Id) * old->nodes.len), arena_alloc(a, old->nodes.len),
               arena_alloc(a, sizeof(uint32_t) * old->nodes.len), arena_alloc(a, sizeof(Id) * old->nodes.len),
               arena_alloc(a, sizeof(Id) * old->nodes.len), arena_alloc(a, sizeof(Beside) * old->nodes.len), target, in };
    if (!p.map || !p.live || !p.uses || !p.user || !p.varied || !p.beside) return NULL;
    g->limit = UINT32_MAX;
    mark_live(&p);
    graph_mapped_inputs(g, old, p.map);
    for (Id id = 1; id < old->nodes.len; id++)
        if (p.live[id] && node_at(old, id)->op != OP_input && !(p.map[id] = rebuild(&p, id))) return NULL;
    for (uint32_t i = 0; i < old->outputs.len; i++) graph_output(g, p.map[old->outputs.at[i]]);
    if (g->err->kind || !(g = lift_reshapes(a, g, in)) || !(g = settle_pads(a, g, target))) return NULL;
    return take_apart(a, g);
}
