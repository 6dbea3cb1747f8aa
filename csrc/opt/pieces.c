/* Graph -> Graph: what elementwise nodes and reductions make of a concatenate is made of its pieces, and joined after that; so the concatenate is in no
 * memory: `np.roll(x, 3) * 2` and `np.stack([x, x + 1]).sum(0)` are one pass. Exact, but for the order of sums. */
#include <string.h>
#include "opt/plan.h"

enum {
    MOST_PIECES = 1024,
    FLAT_PIECES = 64,            /* of a slice that other slices may be made of: more would become more with every step of a loop (joined.c) */
    FEW_PIECES = 3,
    SMALL = 64, MIDDLE = 16384,  /* elements from which on few and more pieces are worth their kernels; smaller arrays are in cache */
    PIECE = 1536,                /* ... of a piece, on average, where there are more */
};

/* By id in g: OWN, one node alone reads it, so that it may be made in parts; STORED: it is in memory, whatever it is made of. apart: by id in old, whether its
 * users work on pieces. late: whether it depends on a reduction. reduced: whether one reads it. */
typedef enum { ANY, OWN, STORED } Fate;
typedef struct { const Graph *old; Graph *g; Id *map; uint32_t *uses; bool *live, *apart, *late, *reduced; VEC(uint8_t) fate; } Pass;

/* ---- parts of values ---- */

static Fate fate_of(const Pass *p, Id id) { return id < p->fate.len ? (Fate)p->fate.at[id] : ANY; }

static void set_fate(Pass *p, Id id, Fate fate)
{
    uint8_t *more = p->fate.at;
    while (p->fate.len <= id && (more = vec_push(p->g->arena, &p->fate))) *more = ANY;
    if (more) p->fate.at[id] = (uint8_t)fate;
}

/* Drops the nodes made since the mark. */
static void forget(Pass *p, GraphMark mark)
{
    graph_rollback(p->g, mark);
    if (p->fate.len > p->g->nodes.len) p->fate.len = p->g->nodes.len;
}

static bool has_pieces(const Pass *p, Id id) { return node_at(p->g, id)->op == OP_concatenate && fate_of(p, id) != STORED; }

/* deep: of pieces' pieces, too. */
static Id slice_joined(Graph *g, Id c, const int64_t *start, const int64_t *step, const Dim *shape, bool deep)
{
    int r = node_at(g, c)->rank, n = 0, axis = (int)node_attr(g, c)[0];
    int64_t at = 0, first[MAX_RANK];
    if (step[axis] != 1 || !shape[axis] || node_at(g, c)->nin > MOST_PIECES) return 0;
    Id *piece = arena_alloc(g->arena, sizeof *piece * node_at(g, c)->nin);
    if (!piece) return 0;
    memcpy(first, start, sizeof(int64_t) * (size_t)r);
    int64_t from = start[axis], to = from + shape[axis];
    for (int i = 0; i < node_at(g, c)->nin; i++) {
        Id x = node_in(g, c)[i];
        int64_t end = at + node_shape(g, x)[axis], low = from > at ? from : at, high = to < end ? to : end;
        if (low < high) {
            Dim box[MAX_RANK];
            memcpy(box, shape, sizeof(Dim) * (size_t)r);
            box[axis] = high - low;
            first[axis] = low - at;
            Id inner = deep && node_at(g, x)->op == OP_concatenate ? slice_joined(g, x, first, step, box, deep) : 0;
            if (!(piece[n++] = inner ? inner : graph_slice_const(g, x, first, step, box))) return 0;
        }
        at = end;
    }
    return n == 1 ? piece[0] : graph_concatenate(g, piece, n, axis);
}

/* Takes the pieces that x has besides one from `left`, as long as any are left. */
static void spend_pieces(const Graph *g, Id x, int *left)
{
    if (node_at(g, x)->op != OP_concatenate) return;
    *left -= node_at(g, x)->nin - 1;
    for (int i = 0; i < node_at(g, x)->nin && *left >= 0; i++) spend_pieces(g, node_in(g, x)[i], left);
}

/* Number of pieces, also of its pieces; MOST_PIECES + 1: more than that. */
static int count_pieces(const Graph *g, Id x)
{
    int left = MOST_PIECES - 1;
    spend_pieces(g, x, &left);
    return left < 0 ? MOST_PIECES + 1 : MOST_PIECES - left;
}

Id slice_of_joined(Graph *g, const Id *in, const int64_t *step, const Dim *shape)
{
    int64_t start[MAX_RANK];
    Id c = in[0];
    if (node_at(g, c)->op != OP_concatenate || node_at(g, c)->nin > FLAT_PIECES) return 0;
    for (int d = 0; d < node_at(g, c)->rank; d++) if (!node_const(g, in[1 + d], &start[d])) return 0;
    return slice_joined(g, c, start, step, shape, count_pieces(g, c) <= FLAT_PIECES);
}

/* Whether x can be had in parts without being stored whole: no result of a reduction, a scan or a product that goes on in its kernel. */
static bool has_parts(const Pass *p, Id x)
{
    const Node *n = node_at(p->g, x);
    switch (op_info[n->op].kind) {
    case KIND_SOURCE:
    case KIND_VIEW: return true;
    case KIND_PLACE: return n->op == OP_concatenate;
    case KIND_ELEMENTWISE:
        for (int i = 0; fate_of(p, x) == OWN && i < n->nin; i++) if (!has_parts(p, node_in(p->g, x)[i])) return false;
        return true;
    case KIND_COMPOSITE:
    case KIND_REDUCE:
    case KIND_SCAN:
    case KIND_DOT:
    case KIND_CONTROL: return false;
    }
    return false;
}

static Id elementwise(Pass *p, Op op, const Id *in, int nin, Dtype dtype);

/* Elements from ... from + extent - 1 of x along an axis. */
static Id part_of(Pass *p, Id x, int axis, int64_t from, int64_t extent)
{
    Graph *g = p->g;
    const Node n = *node_at(g, x);
    int64_t start[MAX_RANK] = { 0 }, step[MAX_RANK];
    Dim shape[MAX_RANK];
    Id in[4], r;
    memcpy(shape, node_shape(g, x), sizeof(Dim) * n.rank);
    if (shape[axis] == extent) return x;
    for (int d = 0; d < n.rank; d++) step[d] = 1;
    start[axis] = from;
    shape[axis] = extent;
    if (has_pieces(p, x)) return slice_joined(g, x, start, step, shape, true);
    if (op_info[n.op].kind != KIND_ELEMENTWISE || fate_of(p, x) != OWN) return graph_slice_const(g, x, start, step, shape);
    for (int i = 0; i < n.nin; i++) if (!(in[i] = part_of(p, node_in(g, x)[i], axis, from, extent))) return 0;
    const uint8_t mode = g->mode;
    g->mode = n.mode;
    r = elementwise(p, n.op, in, n.nin, n.dtype);
    g->mode = mode;
    return r;
}

/* ---- users of a concatenate ---- */

/* Whether the pieces of x, a concatenate of g, are worth kernels of their own. */
static bool worth_parts(const Graph *g, Id x)
{
    int n = count_pieces(g, x);
    int64_t size = node_size(g, x);
    return n <= FEW_PIECES ? size >= SMALL : n <= MOST_PIECES && size >= MIDDLE && size / n >= PIECE;
}

/* The node, of the pieces of its operand number `of`, which is a concatenate; 0: an operand has no parts. */
static Id of_pieces(Pass *p, Op op, const Id *in, int nin, Dtype dtype, int of)
{
    Graph *g = p->g;
    Id part[4], c = in[of], *piece = arena_alloc(g->arena, sizeof *piece * node_at(g, c)->nin);
    int n = node_at(g, c)->nin, axis = (int)node_attr(g, c)[0];
    int64_t at = 0;
    if (!piece || n > MOST_PIECES) return 0;
    for (int j = 0; j < nin; j++) if (!has_parts(p, in[j])) return 0;
    for (int i = 0; i < n; i++) {
        int64_t extent = node_shape(g, node_in(g, c)[i])[axis];
        for (int j = 0; j < nin; j++) if (!(part[j] = part_of(p, in[j], axis, at, extent))) return 0;
        if (!(piece[i] = elementwise(p, op, part, nin, dtype))) return 0;
        at += extent;
    }
    return graph_concatenate(g, piece, n, axis);
}

/* The node, by pieces if an operand has them; only this pass reads it. */
static Id elementwise(Pass *p, Op op, const Id *in, int nin, Dtype dtype)
{
    Id r = 0;
    for (int j = 0; j < nin && !r && !p->g->err->kind; j++)
        if (has_pieces(p, in[j])) r = of_pieces(p, op, in, nin, dtype, j);
    if (!r && !p->g->err->kind) r = graph_add(p->g, op, in, nin, NULL, 0, dtype, NULL, 0);
    if (r && node_at(p->g, r)->op != OP_concatenate) set_fate(p, r, OWN);
    return r;
}

/* Reductions of pieces along the axis that they lie along, combined in halves. */
static Id combine(Graph *g, Op op, const Id *piece, int n, Dtype dtype)
{
    if (n == 1) return piece[0];
    Id in[2] = { combine(g, op, piece, n / 2, dtype), combine(g, op, piece + n / 2, n - n / 2, dtype) };
    return in[0] && in[1] ? graph_add(g, op, in, 2, NULL, 0, dtype, NULL, 0) : 0;
}

static Id reduce_pieces(Pass *p, Op op, Id x, const int64_t *attr)
{
    Graph *g = p->g;
    Op with = monoid_info[op_info[op].monoid].combine;
    if (!has_pieces(p, x)) {
        Id r = reduce_unit(g, op, x, attr);
        return r || g->err->kind ? r : graph_reduce(g, op, x, (uint64_t)attr[0], 0);
    }
    int n = node_at(g, x)->nin, axis = (int)node_attr(g, x)[0], kept = 0;
    Id *piece = arena_alloc(g->arena, sizeof *piece * (size_t)n);
    if (!piece) return 0;
    for (int i = 0; i < n; i++) if (!(piece[i] = reduce_pieces(p, op, node_in(g, x)[i], attr))) return 0;
    if (attr[0] >> axis & 1) return combine(g, with, piece, n, (Dtype)node_at(g, piece[0])->dtype);
    for (int d = 0; d < axis; d++) kept += !(attr[0] >> d & 1);
    return graph_concatenate(g, piece, n, kept);
}

/* ---- the pass ---- */

static void find_uses(Pass *p)
{
    const Graph *o = p->old;
    for (uint32_t i = 0; i < o->outputs.len; i++) p->live[o->outputs.at[i]] = true, p->uses[o->outputs.at[i]]++;
    for (uint32_t i = 0; i < o->checks.len; i++) p->live[o->checks.at[i]] = true;
    for (Id id = o->nodes.len - 1; id > 0; id--)
        for (int i = 0; p->live[id] && i < node_at(o, id)->nin; i++) {
            p->live[node_in(o, id)[i]] = true;
            p->uses[node_in(o, id)[i]]++;
        }
}

/* The slice as one of the pieces of a concatenate of g; 0: it is none. */
static Id slice_pieces(Pass *p, Id id, Id from)
{
    const Graph *o = p->old;
    int64_t start[MAX_RANK];
    for (int d = 0; d < node_at(o, id)->rank; d++) if (!node_const(o, node_in(o, id)[1 + d], &start[d])) return 0;
    Id r = slice_joined(p->g, from, start, node_attr(o, id), node_shape(o, id), true);
    return r && worth_parts(p->g, r) ? r : 0;
}

static void find_reductions(Pass *p)
{
    for (Id id = 1; id < p->old->nodes.len; id++) {
        const Node *n = node_at(p->old, id);
        p->late[id] = op_info[n->op].kind == KIND_REDUCE;
        for (int i = 0; i < n->nin; i++) {
            Id x = node_in(p->old, id)[i];
            p->reduced[x] |= p->live[id] && op_info[n->op].kind == KIND_REDUCE;
            p->late[id] |= p->late[x];
        }
    }
}

/* Whether node id meets operand x with what comes from a reduction, that of x perhaps: a softmax of joined rows, which is one kernel over rows that are
 * stored, and not several over pieces of them. */
static bool meets_late(const Pass *p, Id id, Id x)
{
    for (int i = 0; i < node_at(p->old, id)->nin; i++) if (node_in(p->old, id)[i] != x && p->late[node_in(p->old, id)[i]]) return true;
    return false;
}

/* Finds the nodes whose users are elementwise, or reductions that its pieces give; of a concatenate as it was written, also slices and concatenates with
 * such users. What was computed and is then sliced is stored: pieces of pieces would become more with every step of a loop. */
static void find_apart(Pass *p)
{
    const Graph *o = p->old;
    for (Id id = 1; id < o->nodes.len; id++) p->apart[id] = p->live[id];
    for (uint32_t i = 0; i < o->outputs.len; i++) p->apart[o->outputs.at[i]] = false;
    for (Id id = o->nodes.len - 1; id > 0; id--) {
        const Node *n = node_at(o, id);
        OpKind kind = op_info[n->op].kind;
        bool reduces = kind == KIND_REDUCE && op_info[n->op].monoid < MONOID_COUNT && monoid_info[op_info[n->op].monoid].combine != OP_none;
        for (int i = 0; p->live[id] && i < n->nin; i++) {
            Id x = node_in(o, id)[i];
            bool moved = node_at(o, x)->op == OP_concatenate || node_at(o, x)->op == OP_slice;
            if (reduces || (kind == KIND_ELEMENTWISE && (!p->reduced[x] || !meets_late(p, id, x)))) continue;
            if (moved && p->apart[id] && (n->op == OP_concatenate || (n->op == OP_slice && i == 0))) continue;
            p->apart[x] = false;
        }
    }
}

static Id rebuild(Pass *p, Id id)
{
    const Node *n = node_at(p->old, id);
    Graph *g = p->g;
    Id few[4], *in = graph_mapped(g, p->old, id, p->map, few), r = 0;
    if (!in) return 0;
    const int64_t *attr = node_attr(p->old, id);
    OpKind kind = op_info[n->op].kind;
    for (int i = 0; i < n->nin && i < 4 && !r && (kind == KIND_ELEMENTWISE || kind == KIND_REDUCE); i++) {
        const GraphMark mark = graph_mark(g);
        if (!p->apart[node_in(p->old, id)[i]] || !has_pieces(p, in[i]) || !worth_parts(g, in[i])) continue;
        r = kind == KIND_REDUCE ? reduce_pieces(p, n->op, in[i], attr) : of_pieces(p, n->op, in, n->nin, n->dtype, i);
        if (r && kind == KIND_ELEMENTWISE && !worth_parts(g, r)) r = 0;
        if (g->err->kind) return 0;
        if (!r) forget(p, mark);
    }
    if (n->op == OP_slice && p->apart[id] && p->apart[node_in(p->old, id)[0]] && has_pieces(p, in[0])) r = slice_pieces(p, id, in[0]);
    if (!r) r = graph_add(g, n->op, in, n->nin, attr, n->nattr, n->dtype, node_shape(p->old, id), n->rank);
    if (r && node_at(g, r)->op == OP_concatenate && !p->apart[id]) set_fate(p, r, STORED);
    else if (r && kind == KIND_ELEMENTWISE && p->uses[id] == 1) set_fate(p, r, OWN);
    return r;
}

static bool is_wanted(const Graph *g)
{
    bool any = false;
    for (Id id = 1; id < g->nodes.len; id++) {
        const Node *n = node_at(g, id);
        any = any || n->op == OP_concatenate;
        for (int d = 0; d < n->rank; d++) if (node_shape(g, id)[d] < 0) return false;
    }
    return any;
}

Graph *take_apart(Arena *a, Graph *old)
{
    if (!is_wanted(old)) return old;
    Graph *g = graph_new(a);
    size_t n = old->nodes.len;
    Pass p = { .old = old, .g = g, .map = arena_alloc(a, sizeof(Id) * n), .uses = arena_alloc(a, sizeof(uint32_t) * n), .live = arena_alloc(a, n), .apart = arena_alloc(a, n),
               .late = arena_alloc(a, n), .reduced = arena_alloc(a, n) };
    if (!g || !p.map || !p.uses || !p.live || !p.apart || !p.late || !p.reduced) return NULL;
    g->limit = UINT32_MAX;
    g->keep_joined = true;
    find_uses(&p);
    find_reductions(&p);
    find_apart(&p);
    graph_mapped_inputs(g, old, p.map);
    for (Id id = 1; id < old->nodes.len; id++)
        if (p.live[id] && node_at(old, id)->op != OP_input && !(p.map[id] = rebuild(&p, id))) return NULL;
    for (uint32_t i = 0; i < old->outputs.len; i++) graph_output(g, p.map[old->outputs.at[i]]);
    return g->err->kind ? NULL : g;
}
