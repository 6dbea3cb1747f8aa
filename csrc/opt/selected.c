/* Graph -> Graph: what a slice or a gather takes of a value that follows reductions, as `np.log(p)[rows, labels]` and `softmax(x)[:, 1]` do, is computed for the
 * selected elements alone. Such a value belongs to the loops over its rows, so all of it would be stored for the few that are read. Exact. */
#include <string.h>
#include "opt/plan.h"

enum {
    FEW = 4,                     /* a selection has a quarter of the elements, at most */
    MOST_NODES = 16,             /* of the nodes that are computed for it */
};

/* By id of old: late: it follows a reduction, with no product or other kernel of its own in between; kept: it is stored for others. */
typedef struct { const Graph *old; Graph *g; Id *map; bool *live, *late, *kept; Id of[MOST_NODES], made[MOST_NODES]; int n; } Pass;

static bool selects(const Graph *g, Id id)
{
    const Node *n = node_at(g, id);
    int64_t start;
    if ((n->op != OP_slice && n->op != OP_gather) || node_size(g, id) * FEW > node_size(g, node_in(g, id)[0])) return false;
    for (int d = 0; n->op == OP_slice && d < n->rank; d++) if (!node_const(g, node_in(g, id)[1 + d], &start)) return false;
    return true;
}

static void find_kept(Pass *p)
{
    const Graph *o = p->old;
    for (uint32_t i = 0; i < o->outputs.len; i++) p->live[o->outputs.at[i]] = p->kept[o->outputs.at[i]] = true;
    for (uint32_t i = 0; i < o->checks.len; i++) p->live[o->checks.at[i]] = true;
    for (Id id = o->nodes.len - 1; id > 0; id--) {
        OpKind kind = op_info[node_at(o, id)->op].kind;
        bool stores = kind == KIND_DOT || kind == KIND_PLACE || kind == KIND_SCAN || kind == KIND_CONTROL || (kind == KIND_VIEW && p->kept[id] && !selects(o, id));
        for (int i = 0; p->live[id] && i < node_at(o, id)->nin; i++) {
            p->live[node_in(o, id)[i]] = true;
            p->kept[node_in(o, id)[i]] |= stores;
        }
    }
}

static bool find_late(Pass *p)
{
    const Graph *o = p->old;
    bool any = false;
    for (Id id = 1; id < o->nodes.len; id++) {
        OpKind kind = op_info[node_at(o, id)->op].kind;
        p->late[id] = kind == KIND_REDUCE;
        for (int i = 0; i < node_at(o, id)->nin && (kind == KIND_VIEW || kind == KIND_ELEMENTWISE); i++) p->late[id] |= p->late[node_in(o, id)[i]];
        Id x = p->live[id] && selects(o, id) ? node_in(o, id)[0] : 0;
        any |= x && p->late[x] && op_info[node_at(o, x)->op].kind == KIND_ELEMENTWISE && !p->kept[x];
    }
    return any;
}

/* Index array i if it is more than the coordinate along an axis of its own, of this extent: then it shows all there is in order. */
static bool is_all(const Graph *g, Id i, Dim extent)
{
    while (node_at(g, i)->op == OP_reshape) i = node_in(g, i)[0];
    return node_at(g, i)->op == OP_iota && dim_eq(g, node_shape(g, i)[0], extent);
}

/* The gather of index arrays `index` (n of them) of x as one of s, whose broadcast x is or which has x's shape; `shape`, `rank`: of the result. */
static Id gather_of(Graph *g, Id s, Id x, const Id *index, int n, const Dim *shape, int rank)
{
    int rs = node_at(g, s)->rank, lead = node_at(g, x)->rank - rs, ri = node_at(g, index[0])->rank, kept = 0, r = 0;
    Id left[MAX_RANK];
    Dim to[MAX_RANK], first = 0;
    for (int d = 0; d < rs; d++) {
        Dim extent = node_shape(g, s)[d];
        if (d + lead < n && dim_eq(g, extent, 1) && !dim_eq(g, node_shape(g, x)[d + lead], 1)) continue;
        if (d + lead < n) left[kept++] = index[d + lead], first = extent;
        to[r++] = extent;
    }
    s = graph_reshape(g, s, to, r);
    if (kept == 1 && is_all(g, left[0], first)) {
        memmove(to + ri, to + 1, sizeof *to * (size_t)(r - 1));
        memcpy(to, node_shape(g, index[0]), sizeof *to * (size_t)ri);
        s = graph_reshape(g, s, to, r - 1 + ri);
    } else if (kept) {
        s = graph_gather(g, s, left, kept);
    }
    return graph_broadcast(g, s, shape, rank);
}

static Id slice_of(Graph *g, Id s, Id x, const Id *offset, const int64_t *step, const Dim *shape, int rank)
{
    int rs = node_at(g, s)->rank, lead = rank - rs;
    int64_t start[MAX_RANK], by[MAX_RANK];
    Dim to[MAX_RANK];
    for (int d = 0; d < rs; d++) {
        bool one = dim_eq(g, node_shape(g, s)[d], 1) && !dim_eq(g, node_shape(g, x)[d + lead], 1);
        if (!node_const(g, offset[d + lead], &start[d])) return 0;
        if (one) start[d] = 0;
        by[d] = one ? 1 : step[d + lead];
        to[d] = one ? 1 : shape[d + lead];
    }
    return graph_broadcast(g, graph_slice_const(g, s, start, by, to), shape, rank);
}

/* What the selection `id` of the old graph shows of s, a value of its operand's shape or one that is broadcast to it. */
static Id selected(Pass *p, Id id, Id s)
{
    const Graph *o = p->old;
    const Node *n = node_at(o, id);
    Id few[4], *in = graph_mapped(p->g, o, id, p->map, few);
    if (!in || !p->map[s]) return 0;
    if (n->op == OP_gather) return gather_of(p->g, p->map[s], in[0], in + 1, n->nin - 1, node_shape(o, id), n->rank);
    return slice_of(p->g, p->map[s], in[0], in + 1, node_attr(o, id), node_shape(o, id), n->rank);
}

/* Whether the elements of s, which is node x or broadcast to it, lie in memory or are cheap to have: of an argument, of a reduction, or few. */
static bool is_at_hand(const Pass *p, Id s, Id x)
{
    const Graph *o = p->old;
    if (node_size(o, s) * FEW <= node_size(o, x)) return true;
    x = s;
    while (op_info[node_at(o, x)->op].kind == KIND_VIEW && !p->kept[x]) x = node_in(o, x)[0];
    OpKind kind = op_info[node_at(o, x)->op].kind;
    return p->kept[x] || kind == KIND_SOURCE || kind == KIND_REDUCE;
}

/* The selection `id` of node x of the old graph; 0: it is made of too many nodes, or of others that need not be stored. */
static Id compute(Pass *p, Id id, Id x)
{
    const Node *n = node_at(p->old, x);
    for (int k = 0; k < p->n; k++) if (p->of[k] == x) return p->made[k];
    if (p->n == MOST_NODES) return 0;
    int at = p->n++;
    Id in[4], r = 0;
    p->of[at] = x;
    p->made[at] = 0;
    if (op_info[n->op].kind == KIND_ELEMENTWISE && !p->kept[x]) {
        for (int i = 0; i < n->nin; i++) if (!(in[i] = compute(p, id, node_in(p->old, x)[i]))) return 0;
        p->g->mode = n->mode;
        r = graph_add(p->g, n->op, in, n->nin, NULL, 0, n->dtype, NULL, 0);
    } else {
        Id s = n->op == OP_broadcast && !p->kept[x] ? node_in(p->old, x)[0] : x;
        if (is_at_hand(p, s, x)) r = selected(p, id, s);
    }
    return p->made[at] = r;
}

static Id rebuild(Pass *p, Id id)
{
    Graph *g = p->g;
    const Node *n = node_at(p->old, id);
    Id few[4], *in = graph_mapped(g, p->old, id, p->map, few), x = n->nin ? node_in(p->old, id)[0] : 0, r = 0;
    if (!in) return 0;
    if (x && selects(p->old, id) && p->late[x] && !p->kept[x] && op_info[node_at(p->old, x)->op].kind == KIND_ELEMENTWISE) {
        const GraphMark mark = graph_mark(g);
        p->n = 0;
        r = compute(p, id, x);
        if (!r && !g->err->kind) graph_rollback(g, mark);
        g->mode = n->mode;
    }
    if (r || g->err->kind) return r;
    return graph_add(g, n->op, in, n->nin, node_attr(p->old, id), n->nattr, n->dtype, node_shape(p->old, id), n->rank);
}

const Graph *compute_selected(Arena *a, const Graph *old)
{
    size_t n = old->nodes.len;
    Pass p = { .old = old, .live = arena_alloc(a, n), .late = arena_alloc(a, n), .kept = arena_alloc(a, n) };
    if (!p.live || !p.late || !p.kept) return NULL;
    find_kept(&p);
    if (!find_late(&p)) return old;
    Graph *g = p.g = graph_new(a);
    p.map = arena_alloc(a, sizeof *p.map * n);
    if (!g || !p.map) return NULL;
    g->limit = UINT32_MAX;
    graph_mapped_inputs(g, old, p.map);
    for (Id id = 1; id < n; id++)
        if (p.live[id] && node_at(old, id)->op != OP_input && !(p.map[id] = rebuild(&p, id))) return NULL;
    for (uint32_t i = 0; i < old->outputs.len; i++) graph_output(g, p.map[old->outputs.at[i]]);
    return g->err->kind ? NULL : g;
}
