/* Graph -> Graph: live nodes only, without `like`, which says of an array's memory what order.c reads in the graph as it was traced. */
#include "opt/plan.h"

static bool *live_nodes(Arena *work, const Graph *g)
{
    bool *live = arena_alloc(work, g->nodes.len);
    if (!live) return NULL;
    for (uint32_t i = 0; i < g->outputs.len; i++) live[g->outputs.at[i]] = true;
    for (uint32_t i = 0; i < g->checks.len; i++) live[g->checks.at[i]] = true;
    for (Id id = g->nodes.len - 1; id > 0; id--)
        for (int i = 0; live[id] && i < node_values(node_at(g, id)); i++) live[node_in(g, id)[i]] = true;
    return live;
}

static Id rebuild(Graph *g, const Graph *old, Id id, const Id *map)
{
    const Node *n = node_at(old, id);
    Id few[4];
    if (n->op == OP_like) return map[node_in(old, id)[0]];
    const Id *in = graph_mapped(g, old, id, map, few);
    return in ? graph_add(g, n->op, in, n->nin, node_attr(old, id), n->nattr, n->dtype, node_shape(old, id), n->rank) : 0;
}

const Graph *drop_likes(Arena *a, const Graph *old)
{
    bool any = false;
    for (Id id = 1; id < old->nodes.len && !any; id++) any = node_at(old, id)->op == OP_like;
    if (!any) return old;
    Graph *g = graph_new(a);
    bool *live = g ? live_nodes(a, old) : NULL;
    Id *map = live ? arena_alloc(a, sizeof *map * old->nodes.len) : NULL;
    if (!map) return NULL;
    g->limit = UINT32_MAX;
    graph_mapped_inputs(g, old, map);
    for (Id id = 1; id < old->nodes.len; id++)
        if (live[id] && node_at(old, id)->op != OP_input && !(map[id] = rebuild(g, old, id, map))) return NULL;
    for (uint32_t i = 0; i < old->outputs.len; i++) graph_output(g, map[old->outputs.at[i]]);
    return g->err->kind ? NULL : g;
}
