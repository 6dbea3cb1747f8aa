/* Graph -> Graph: what becomes of pads. A stencil on a padded array reads it several times: it reads the array itself then, through a view that knows the
 * margins (OP_margin), so the padded array is in no memory. An index past the array is a comparison and a load under a mask. Other pads are concatenates of
 * their margins, so that every element is written once. Exact. */
#include <string.h>
#include "opt/plan.h"

enum {
    LEAST_READS = 2,             /* of each element (that are not folded away): fewer are worth pieces (pieces.c), which need no masks */
    MOST_READS = 32,
    LEAST_SIZE = 32,
};

/* Of a node: how often elements are read by elementwise nodes, through views; ... through slices; whether some node reads all of it at once; whether others do than
 * elementwise nodes, or in a way that repeats elements. */
typedef struct { uint32_t reads, sliced; bool live, whole, other; } Use;

typedef struct { const Graph *old; Graph *g; Id *map; Use *use; } Pass;

/* The use of x that its user makes, input number i of node id. */
static void add_use(Pass *p, Id id, int i)
{
    const Node *n = node_at(p->old, id);
    OpKind kind = op_info[n->op].kind;
    const Use *by = &p->use[id];
    Use *x = &p->use[node_in(p->old, id)[i]];
    x->live = true;
    if (kind == KIND_ELEMENTWISE) {
        x->reads += by->sliced ? by->sliced : 1;                     /* evaluated for each of these */
        x->whole |= by->whole;
    } else if (kind == KIND_VIEW && i == 0) {
        x->reads += by->reads;
        x->sliced += n->op == OP_slice ? by->reads : by->sliced;
        x->whole |= by->whole && n->op != OP_slice;
        x->other |= by->other || n->op == OP_gather || n->op == OP_broadcast || (n->op == OP_window && by->whole);
    } else {
        x->whole = x->other = true;
    }
}

static void find_uses(Pass *p)
{
    const Graph *o = p->old;
    for (uint32_t i = 0; i < o->outputs.len; i++) p->use[o->outputs.at[i]] = (Use){ .live = true, .whole = true, .other = true };
    for (uint32_t i = 0; i < o->checks.len; i++) p->use[o->checks.at[i]].live = true;
    for (Id id = o->nodes.len - 1; id > 0; id--)
        for (int i = 0; p->use[id].live && i < node_at(o, id)->nin; i++) add_use(p, id, i);
}

/* Whether elements of the pad are better looked for in the array: a stencil reads them, and the machine loads them under masks. */
static bool is_margin(const Pass *p, Id id, const Target *target)
{
    const Graph *o = p->old;
    const Node *n = node_at(o, id);
    Id x = node_in(o, id)[0];
    OpKind kind = op_info[node_at(o, x)->op].kind;
    int64_t fill;
    if (!target || target->vector_bytes < 32 || dtype_info[n->dtype].bytes < 4 || dtype_info[n->dtype].kind == DKIND_COMPLEX) return false;
    if (p->use[id].other || p->use[id].reads < LEAST_READS || p->use[id].reads > MOST_READS || !node_const(o, node_in(o, id)[1], &fill)) return false;
    for (int d = 0; d < n->rank; d++) if (node_shape(o, id)[d] < 0 || node_shape(o, x)[d] < 1) return false;
    return node_size(o, id) >= LEAST_SIZE && (node_at(o, x)->op == OP_input || kind == KIND_ELEMENTWISE || kind == KIND_REDUCE || kind == KIND_DOT);
}

/* Margins as pieces of concatenates. */
static Id pad_pieces(Graph *g, Id x, Id fill, const int64_t *margin)
{
    int r = node_at(g, x)->rank;
    for (int d = 0; d < r; d++) {
        Id piece[3];
        int n = 0;
        for (int side = 0; side < 3; side++) {
            Dim shape[MAX_RANK];
            memcpy(shape, node_shape(g, x), sizeof(Dim) * (size_t)r);
            shape[d] = side == 2 ? margin[r + d] : margin[d];
            if (side == 1) piece[n++] = x;
            else if (shape[d]) piece[n++] = graph_broadcast(g, fill, shape, r);
        }
        x = graph_concatenate(g, piece, n, d);
        if (!x) return 0;
    }
    return x;
}

static Id rebuild(Pass *p, Id id, const Target *target)
{
    const Node *n = node_at(p->old, id);
    Id few[4], *in = graph_mapped(p->g, p->old, id, p->map, few), r = 0;
    const int64_t *attr = node_attr(p->old, id);
    if (!in) return 0;
    if (n->op == OP_pad && is_margin(p, id, target)) return graph_add(p->g, OP_margin, in, 2, attr, n->nattr, n->dtype, node_shape(p->old, id), n->rank);
    if (n->op == OP_pad) return pad_pieces(p->g, in[0], in[1], attr);
    if (n->op == OP_slice) r = slice_of_joined(p->g, in, attr, node_shape(p->old, id));
    if (r || p->g->err->kind) return r;
    return graph_add(p->g, n->op, in, n->nin, attr, n->nattr, n->dtype, node_shape(p->old, id), n->rank);
}

static bool has_pads(const Graph *g)
{
    for (Id id = 1; id < g->nodes.len; id++) if (node_at(g, id)->op == OP_pad) return true;
    return false;
}

Graph *settle_pads(Arena *a, Graph *old, const Target *target)
{
    if (!has_pads(old)) return old;
    Graph *g = graph_new(a);
    size_t n = old->nodes.len;
    Pass p = { .old = old, .g = g, .map = arena_alloc(a, sizeof(Id) * n), .use = arena_alloc(a, sizeof(Use) * n) };
    if (!g || !p.map || !p.use) return NULL;
    g->limit = UINT32_MAX;
    find_uses(&p);
    graph_mapped_inputs(g, old, p.map);
    for (Id id = 1; id < old->nodes.len; id++)
        if (p.use[id].live && node_at(old, id)->op != OP_input && !(p.map[id] = rebuild(&p, id, target))) return NULL;
    for (uint32_t i = 0; i < old->outputs.len; i++) graph_output(g, p.map[old->outputs.at[i]]);
    return g->err->kind ? NULL : g;
}
