/* The definition of a legal graph, run between passes in debug builds and by tests. */
#include <string.h>

#include "ir/ir.h"

enum { MAX_DEPTH = 16 };

typedef struct { Graph *g; Err *err; Id id; } Verify;

static bool bad(const Verify *v, const char *what)
{
    return err_set(v->err, ERR_INTERNAL, "%%%u = %s: %s", v->id, v->id && node_at(v->g, v->id)->op < OP_COUNT ? op_info[node_at(v->g, v->id)->op].name : "?", what);
}

static bool in_pools(const Verify *v)
{
    const Node *n = node_at(v->g, v->id);
    const Graph *g = v->g;
    if (n->op == OP_none || n->op >= OP_COUNT || op_info[n->op].kind == KIND_COMPOSITE || n->dtype >= DT_COUNT || n->rank > MAX_RANK)
        return bad(v, "not a node");
    if ((uint64_t)n->in + n->nin > g->ids.len || (uint64_t)n->attr + n->nattr > g->ints.len || (uint64_t)n->shape + n->rank > g->ints.len)
        return bad(v, "inputs, attributes or shape out of range");
    for (int i = 0; i < n->nin; i++)
        if (!node_in(g, v->id)[i] || node_in(g, v->id)[i] >= v->id)
            return bad(v, "an input that does not come before it");
    return true;
}

/* Extents depend on older int64 scalars only. */
static bool extents(const Verify *v)
{
    for (int d = 0; d < node_at(v->g, v->id)->rank; d++) {
        int64_t constant;
        const Id *scalar = NULL;
        const int64_t *factor;
        if (!dim_valid(v->g, node_shape(v->g, v->id)[d]))
            return bad(v, "an extent that is neither a number nor a form");
        int n = dim_terms(v->g, node_shape(v->g, v->id)[d], &constant, &scalar, &factor);
        for (int i = 0; i < n; i++)
            if (scalar[i] >= v->id || node_at(v->g, scalar[i])->rank || node_at(v->g, scalar[i])->dtype != DT_int64)
                return bad(v, "an extent over what is no older int64 scalar");
    }
    return true;
}

/* infer() again; its errors and the forms it makes are put where they belong. */
static bool types(const Verify *v)
{
    const Node *n = node_at(v->g, v->id);
    Type t = { .dtype = (Dtype)n->dtype, .rank = n->rank };
    memcpy(t.shape, node_shape(v->g, v->id), n->rank * sizeof(Dim));
    if (!infer(v->g, (Op)n->op, node_in(v->g, v->id), n->nin, node_attr(v->g, v->id), n->nattr, &t))
        return bad(v, "no type can be inferred");       /* says nothing where infer() said more */
    if (t.dtype != n->dtype || !shape_eq(v->g, t.shape, t.rank, node_shape(v->g, v->id), n->rank))
        return bad(v, "its type is not the inferred one");
    return true;
}

static bool listed(const Verify *v, uint32_t *inputs, uint32_t *checks)
{
    const Node *n = node_at(v->g, v->id);
    if (n->op == OP_input) {
        int64_t k = node_attr(v->g, v->id)[0];
        if (k != *inputs || *inputs >= v->g->inputs.len || v->g->inputs.at[k] != v->id)
            return bad(v, "not the input of its number");
        ++*inputs;
    }
    if (n->op == OP_check) {
        if (*checks >= v->g->checks.len || v->g->checks.at[*checks] != v->id)
            return bad(v, "not among the checks, or out of order");
        ++*checks;
    }
    return true;
}

static bool roots(Verify *v, uint32_t inputs, uint32_t checks)
{
    v->id = 0;
    if (inputs != v->g->inputs.len || checks != v->g->checks.len)
        return bad(v, "inputs or checks that are no nodes");
    for (uint32_t k = 0; k < v->g->outputs.len; k++)
        if (!v->g->outputs.at[k] || v->g->outputs.at[k] >= v->g->nodes.len)
            return bad(v, "an output that is no node");
    return true;
}

static bool verify_nodes(Verify *v)
{
    uint32_t inputs = 0, checks = 0;
    for (v->id = 1; v->id < v->g->nodes.len; v->id++)
        if (!in_pools(v) || !extents(v) || !types(v) || !listed(v, &inputs, &checks))
            return false;
    return roots(v, inputs, checks);
}

static bool verify(Graph *g, Err *err, int depth)
{
    if (depth > MAX_DEPTH)
        return err_set(err, ERR_INTERNAL, "child graphs are nested too deep");
    for (uint32_t k = 0; k < g->children.len; k++)
        if (!verify(g->children.at[k], err, depth + 1))
            return false;
    /* infer() reports to the graph's Err. */
    Err *own = g->err;
    g->err = err;
    bool ok = verify_nodes(&(Verify){ g, err, 0 });
    g->err = own;
    return ok;
}

bool graph_verify(const Graph *g, Err *err)
{
    Graph *open = (Graph *)g;              /* nothing that a reader of the graph can see changes */
    return verify(open, err, 0);
}
