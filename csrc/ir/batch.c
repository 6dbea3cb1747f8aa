/* A computation on one row made one on many: every node that depends on a row gets batch axes in front. What goes in is a graph in which a node
 * stands for the row; what comes out are further nodes of the same graph. */
#include <string.h>
#include "ir/ir.h"

typedef struct {
    Graph *g;
    Id *map;                      /* the batched node of a node that depends on a row, 0: it does not */
    const Dim *shape;
    int rank;                     /* batch axes */
    bool failed;                  /* a node has no rule */
} Batch;

/* shape in front of the extents of a node, into out; the rank. */
static int batched_shape(const Batch *b, const Dim *shape, int rank, Dim *out)
{
    memcpy(out, b->shape, (size_t)b->rank * sizeof *out);
    memcpy(out + b->rank, shape, (size_t)rank * sizeof *out);
    return b->rank + rank;
}

/* The batched form of an input; one that depends on no row is repeated. */
static Id batched(const Batch *b, Id id)
{
    if (b->map[id])
        return b->map[id];
    Dim shape[2 * MAX_RANK];
    int rank = batched_shape(b, node_shape(b->g, id), node_at(b->g, id)->rank, shape);
    return graph_broadcast(b->g, id, shape, rank);
}

static Id add(const Batch *b, const Node *n, const Id *in, const int64_t *attr, int nattr)
{
    return graph_add(b->g, (Op)n->op, in, n->nin, attr, nattr, (Dtype)n->dtype, NULL, 0);
}

/* All inputs batched, and the attributes as they are. */
static Id plainly(const Batch *b, const Node *n, const Id *in, const int64_t *attr)
{
    Id to[64];
    if (n->nin > 64)
        return 0;
    for (int i = 0; i < n->nin; i++)
        to[i] = batched(b, in[i]);
    return add(b, n, to, attr, n->nattr);
}

static Id batch_broadcast(const Batch *b, const Node *n, const Id *in, const int64_t *attr)
{
    Dim thin[2 * MAX_RANK], wide[2 * MAX_RANK];
    int rank = node_at(b->g, in[0])->rank, extra = n->rank - rank;
    batched_shape(b, attr, n->rank, wide);
    batched_shape(b, attr, n->rank, thin);
    for (int k = 0; k < extra; k++)
        thin[b->rank + k] = 1;
    memcpy(thin + b->rank + extra, node_shape(b->g, in[0]), (size_t)rank * sizeof *thin);
    Id x = graph_reshape(b->g, batched(b, in[0]), thin, b->rank + n->rank);
    return graph_broadcast(b->g, x, wide, b->rank + n->rank);
}

static Id batch_transpose(const Batch *b, const Node *n, const Id *in, const int64_t *attr)
{
    int64_t to[2 * MAX_RANK];
    for (int k = 0; k < b->rank; k++)
        to[k] = k;
    for (int k = 0; k < n->rank; k++)
        to[b->rank + k] = b->rank + attr[k];
    return add(b, n, (Id[]){ batched(b, in[0]) }, to, b->rank + n->rank);
}

static Id batch_reshape(const Batch *b, const Node *n, const Id *in, const int64_t *attr)
{
    Dim shape[2 * MAX_RANK];
    int rank = batched_shape(b, attr, n->rank, shape);
    return graph_reshape(b->g, batched(b, in[0]), shape, rank);
}

/* Boxes at offsets that depend on no row: a slice, an update (first: the inputs before the offsets). */
static Id batch_box(const Batch *b, const Node *n, const Id *in, const int64_t *attr, int first)
{
    Id to[2 + MAX_RANK];
    int64_t step[4 * MAX_RANK];
    int rank = node_at(b->g, in[0])->rank, all = b->rank + rank;
    for (int i = 0; i < first; i++)
        to[i] = batched(b, in[i]);
    for (int k = 0; k < b->rank; k++) {
        to[first + k] = graph_const(b->g, DT_int64, 0);
        step[k] = 1;
        step[all + k] = b->shape[k];
    }
    for (int k = 0; k < rank; k++) {
        if (b->map[in[first + k]])
            return 0;
        to[first + b->rank + k] = in[first + k];
        step[b->rank + k] = attr[k];
        step[all + b->rank + k] = n->op == OP_slice ? attr[rank + k] : 0;
    }
    return graph_add(b->g, (Op)n->op, to, first + all, step, n->op == OP_slice ? 2 * all : all, (Dtype)n->dtype, NULL, 0);
}

/* An axis, or a mask of axes, among the attributes. */
static Id batch_axis(const Batch *b, const Node *n, const Id *in, const int64_t *attr, bool mask)
{
    int64_t to[4];
    if (n->nattr > 4)
        return 0;
    memcpy(to, attr, n->nattr * sizeof *to);
    to[0] = mask ? (int64_t)((uint64_t)attr[0] << b->rank) : attr[0] + b->rank;
    return plainly(b, &(Node){ .op = n->op, .dtype = n->dtype, .nin = n->nin, .nattr = n->nattr }, in, to);
}

/* A table that depends on no row, at indices that do. */
static Id batch_gather(const Batch *b, const Node *n, const Id *in)
{
    Id to[1 + MAX_RANK] = { in[0] };
    if (b->map[in[0]])
        return 0;
    for (int i = 1; i < n->nin; i++)
        to[i] = batched(b, in[i]);
    return add(b, n, to, NULL, 0);
}

static Id rule(const Batch *b, Node n, const Id *in, const int64_t *attr)
{
    switch ((OpKind)op_info[n.op].kind) {
    case KIND_ELEMENTWISE: return plainly(b, &n, in, attr);
    case KIND_REDUCE: return batch_axis(b, &n, in, attr, true);
    case KIND_SCAN: return batch_axis(b, &n, in, attr, false);
    case KIND_DOT: return n.op == OP_dot ? plainly(b, &n, in, attr) : 0;
    case KIND_VIEW: case KIND_PLACE: break;
    case KIND_SOURCE: case KIND_COMPOSITE: return 0;
    case KIND_CONTROL: return n.op == OP_check ? plainly(b, &n, in, attr) : 0;
    }
    switch (n.op) {
    case OP_broadcast: return batch_broadcast(b, &n, in, attr);
    case OP_transpose: return batch_transpose(b, &n, in, attr);
    case OP_reshape: return batch_reshape(b, &n, in, attr);
    case OP_slice: return batch_box(b, &n, in, attr, 1);
    case OP_update: return batch_box(b, &n, in, attr, 2);
    case OP_window: case OP_concatenate: return batch_axis(b, &n, in, attr, false);
    case OP_gather: return batch_gather(b, &n, in);
    default: return 0;
    }
}

/* The batched form of a live node, if it depends on a row. */
static void visit(Batch *b, Id id)
{
    Graph *g = b->g;
    Node n = *node_at(g, id);
    Id in[64];
    int64_t attr[4 * MAX_RANK];
    bool depends = false;
    for (int i = 0; i < n.nin && i < 64; i++) {                /* adding nodes may move the arrays */
        in[i] = node_in(g, id)[i];
        depends |= b->map[in[i]] != 0;
    }
    if (!depends)
        return;
    bool fits = n.nin <= 64 && n.nattr <= 4 * MAX_RANK && n.rank + b->rank <= MAX_RANK;
    for (int k = 0; fits && k < n.rank; k++)
        fits = node_shape(g, id)[k] >= 0;
    memcpy(attr, node_attr(g, id), fits ? n.nattr * sizeof *attr : 0);
    g->src = n.src;
    b->map[id] = fits ? rule(b, n, in, attr) : 0;
    b->failed |= !b->map[id];
}

/* Marks what the roots and the checks from `check` on are computed from. */
static uint8_t *live_nodes(const Graph *g, const Id *roots, int nroots, uint32_t check)
{
    uint8_t *live = arena_alloc(g->arena, g->nodes.len);
    for (int i = 0; live && i < nroots; i++)
        live[roots[i]] = 1;
    for (uint32_t i = check; live && i < g->checks.len; i++)
        live[g->checks.at[i]] = 1;
    for (Id id = g->nodes.len; live && id-- > 1;)
        for (int i = 0; live[id] && i < node_at(g, id)->nin; i++)
            live[node_in(g, id)[i]] = 1;
    return live;
}

/* Which nodes depend on a row, by their ids. */
static uint8_t *row_dependents(const Graph *g, const Id *rows, int nrows)
{
    uint8_t *from = arena_alloc(g->arena, g->nodes.len);
    for (int i = 0; from && i < nrows; i++)
        from[rows[i]] = 1;
    for (Id id = 1; from && id < g->nodes.len; id++)
        for (int i = 0; !from[id] && i < node_at(g, id)->nin; i++)
            from[id] = from[node_in(g, id)[i]];
    return from;
}

/* Checks of the one row are none of the program. */
static void drop_checks(Graph *g, const uint8_t *depends, Id end)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < g->checks.len; i++)
        if (g->checks.at[i] >= end || !depends[g->checks.at[i]])
            g->checks.at[kept++] = g->checks.at[i];
    g->checks.len = kept;
}

bool graph_batch(Graph *g, const Id *rows, const Id *arrays, int nrows, Id *roots, int nroots, const Dim *shape, int rank)
{
    Id end = g->nodes.len;
    uint32_t src = g->src;
    uint8_t *live = live_nodes(g, roots, nroots, 0), *depends = row_dependents(g, rows, nrows);
    Batch b = { g, arena_alloc(g->arena, end * sizeof *b.map), shape, rank, false };
    if (!live || !depends || !b.map)
        return false;
    for (int i = 0; i < nrows; i++)
        b.map[rows[i]] = arrays[i];
    for (Id id = 1; id < end && !b.failed && g->err->kind == ERR_NONE; id++)
        if (live[id] && depends[id] && !b.map[id])
            visit(&b, id);
    g->src = src;
    drop_checks(g, depends, end);
    if (b.failed || g->err->kind != ERR_NONE)
        return false;
    for (int i = 0; i < nroots; i++)
        roots[i] = depends[roots[i]] ? b.map[roots[i]] : batched(&b, roots[i]);
    return true;
}
