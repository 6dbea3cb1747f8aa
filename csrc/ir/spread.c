/* What is computed for selected elements, computed for all: `x[m] += v` is then a `where`, without positions and without a size of the run. */
#include "ir/ir.h"

enum { MOST_NODES = 24 };

typedef struct { Graph *g; Id index; Dim n; int left; } Spread;     /* left: nodes that may be made yet */

static Id spread(Spread *s, Id id);

/* A value that the selection does not enter, along a leading axis of n. */
static Id spread_broadcast(Spread *s, Id id)
{
    Graph *g = s->g;
    Id from = node_in(g, id)[0];
    const Node *n = node_at(g, id), *in = node_at(g, from);
    Dim shape[MAX_RANK];
    bool along = in->rank == n->rank && node_shape(g, from)[0] == node_shape(g, id)[0];
    if (along && !(from = spread(s, from))) return 0;
    for (int d = 0; d < n->rank; d++) shape[d] = d ? node_shape(g, id)[d] : s->n;
    return graph_broadcast(g, from, shape, n->rank);
}

static Id spread_elementwise(Spread *s, Id id)
{
    Graph *g = s->g;
    Id in[3];
    Dim shape[MAX_RANK];
    Node n = *node_at(g, id);
    if (n.nin > 3 || op_info[n.op].cost == COST_MATH) return 0;
    for (int i = 0; i < n.nin; i++)
        if (!(in[i] = spread(s, node_in(g, id)[i]))) return 0;
    for (int d = 0; d < n.rank; d++) shape[d] = d ? node_shape(g, id)[d] : s->n;
    uint8_t mode = g->mode;
    g->mode = n.mode;
    Id r = graph_add(g, n.op, in, n.nin, NULL, 0, n.dtype, shape, n.rank);
    g->mode = mode;
    return r;
}

static Id spread(Spread *s, Id id)
{
    Graph *g = s->g;
    const Node *n = node_at(g, id);
    if (!s->left-- || !n->rank) return 0;
    if (n->op == OP_gather) {
        Id x = node_in(g, id)[0];
        return n->nin == 2 && node_in(g, id)[1] == s->index && node_shape(g, x)[0] == s->n ? x : 0;
    }
    if (n->op == OP_broadcast) return spread_broadcast(s, id);
    return op_info[n->op].kind == KIND_ELEMENTWISE ? spread_elementwise(s, id) : 0;
}

Id graph_spread(Graph *g, Id v, Id index, Dim n)
{
    Spread s = { g, index, n, MOST_NODES };
    return spread(&s, v);
}
