/* Arguments in C order that are written to in another shape, x.reshape(-1)[::k] = v: planned in that shape, since an update takes over the memory of an array of
 * its own shape alone (buffers.c), and would copy any other to and fro. What reads such an argument in its own shape reads a reshape of it. */
#include <string.h>
#include "opt/plan.h"

typedef struct { const Graph *old; Id *base; } Shapes;       /* base: per input, the node whose shape it is planned in; 0: its own */

static Id through_reshapes(const Graph *g, Id id)
{
    while (node_at(g, id)->op == OP_reshape) id = node_in(g, id)[0];
    return id;
}

static bool same_shape(const Graph *g, Id a, Id b)
{
    return shape_eq(g, node_shape(g, a), node_at(g, a)->rank, node_shape(g, b), node_at(g, b)->rank);
}

/* The last store into `input`, of which `out` is a reshape, if all stores since the beginning are in its shape and that is another one; else 0. */
static Id last_store(const Graph *g, Id out, Id input)
{
    Id last = through_reshapes(g, out), at = last;
    while (node_at(g, at)->op == OP_update || node_at(g, at)->op == OP_scatter) {
        if (!same_shape(g, at, last)) return 0;
        at = through_reshapes(g, node_in(g, at)[0]);
    }
    return at == input && last != input && !same_shape(g, last, input) ? last : 0;
}

static bool find_shapes(Shapes *s, const PlanInput *in, const PlanOutput *out)
{
    const Graph *g = s->old;
    bool any = false;
    for (uint32_t i = 0; i < g->outputs.len; i++) {
        Id input = out[i].into >= 0 ? g->inputs.at[out[i].into] : 0;
        if (!input || !node_size(g, input) || !input_in_order(g, in, input)) continue;
        s->base[out[i].into] = last_store(g, g->outputs.at[i], input);
        any = any || s->base[out[i].into];
    }
    return any;
}

/* The inputs of the new graph, and what stands for them there. */
static bool map_inputs(const Shapes *s, Graph *g, PlanInput *in, Id *map)
{
    for (uint32_t k = 0; k < s->old->inputs.len; k++) {
        Id id = s->old->inputs.at[k], base = s->base[k] ? s->base[k] : id;
        const Node *n = node_at(s->old, id);
        int rank = node_at(s->old, base)->rank;
        const Dim *shape = node_shape(s->old, base);
        map[id] = graph_input(g, n->dtype, shape, rank, n->flags);
        if (!map[id]) return false;
        if (base == id) continue;
        map[id] = graph_reshape(g, map[id], node_shape(s->old, id), n->rank);
        int64_t step = dtype_info[n->dtype].bytes;
        memset(in[k].stride, 0, sizeof in[k].stride);
        for (int d = rank - 1; d >= 0; d--) in[k].stride[d] = shape[d] > 1 ? step : 0, step *= shape[d];
    }
    return true;
}

static Id rebuild(Graph *g, const Graph *old, Id id, const Id *map)
{
    const Node *n = node_at(old, id);
    Id few[4];
    const Id *in = graph_mapped(g, old, id, map, few);
    return in ? graph_add(g, n->op, in, n->nin, node_attr(old, id), n->nattr, n->dtype, node_shape(old, id), n->rank) : 0;
}

const Graph *shape_written(Arena *a, const Graph *graph, PlanInput *in, const PlanOutput *out)
{
    const Graph *old = drop_likes(a, graph);
    Shapes s = { old, old ? arena_alloc(a, sizeof(Id) * (old->inputs.len + 1)) : NULL };
    if (!s.base) return NULL;
    if (!find_shapes(&s, in, out)) return graph;
    Graph *g = graph_new(a);
    Id *map = g ? arena_alloc(a, sizeof *map * old->nodes.len) : NULL;
    if (!map) return NULL;
    g->limit = UINT32_MAX;
    if (!map_inputs(&s, g, in, map)) return NULL;
    for (Id id = 1; id < old->nodes.len; id++)
        if (node_at(old, id)->op != OP_input && !(map[id] = rebuild(g, old, id, map))) return NULL;
    for (uint32_t i = 0; i < old->outputs.len; i++) {
        Id base = out[i].into >= 0 ? s.base[out[i].into] : 0;
        graph_output(g, map[base ? base : old->outputs.at[i]]);
    }
    return g->err->kind ? NULL : g;
}
