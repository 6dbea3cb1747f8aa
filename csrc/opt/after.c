/* What comes after a product, row by row: reductions of its rows and a product of what they give, in its own kernel, a tile of rows at a time. That pays in
 * attention, whose right operands are short and in cache. A matrix of weights is packed instead: read in place, its lines lie pages apart and evict each other, once for each tile of
 * rows. */
#include <string.h>
#include "opt/grouping.h"

enum {
    SHORT_ROW = 1024,            /* bytes of a row that is read in place, whatever the number of rows */
    SECOND_CACHE = 1 << 20,      /* where it is not known */
    SMALL = 12,                  /* rows and columns: 10,000 products of 3 x 3 and a softmax 595 us in one kernel, 58 in two; of 16 x 16 1860 and 2250 */
};

static int64_t second_cache(const Grouping *gr) { return gr->target->l2 ? (int64_t)gr->target->l2 : SECOND_CACHE; }

/* Bytes of one matrix of the right operand of product `id`. */
static int64_t right_bytes(const Grouping *gr, Id id)
{
    Id b = node_in(gr->g, id)[1];
    const Dim *shape = node_shape(gr->g, b) + node_at(gr->g, b)->rank - 2;
    return shape[0] * shape[1] * dtype_info[node_at(gr->g, b)->dtype].bytes;
}

/* Whether the right operand of the product after is one that is best read where it lies. */
static bool is_read_in_place(const Grouping *gr, Id id)
{
    const Node *n = node_at(gr->g, id);
    return node_shape(gr->g, id)[n->rank - 1] * dtype_info[n->dtype].bytes <= SHORT_ROW || right_bytes(gr, id) <= second_cache(gr) / 2;
}

/* The buffer that a product's operand is read from. */
static Id operand_buffer(const Grouping *gr, Id id)
{
    while (op_info[node_at(gr->g, id)->op].kind == KIND_VIEW && !gr->info[id].stored) id = node_in(gr->g, id)[0];
    return id;
}

static bool is_packed_inside(const Grouping *gr, Id dot)
{
    const Graph *g = gr->g;
    int rank = node_at(g, dot)->rank;
    Id b = operand_buffer(gr, node_in(g, dot)[1]);
    if (node_at(g, dot)->op != OP_dot || node_shape(g, dot)[rank - 2] < 64 || node_shape(g, dot)[rank - 2] > PRODUCT_FEW_ROWS || gr->info[b].uses > 1) return false;
    if (node_at(g, b)->op == OP_input && gr->in[node_attr(g, b)[0]].constant) return false;
    for (int d = 0; d < rank - 2; d++) if (node_shape(g, dot)[d] != 1) return false;
    return right_bytes(gr, dot) > 2 * second_cache(gr);
}

/* Whether the product is one of small matrices: many in registers, whose rows, parts of a vector each, are better reduced side by side. */
static bool is_small(const Grouping *gr, Id dot)
{
    const Node *n = node_at(gr->g, dot);
    const Dim *shape = node_shape(gr->g, dot) + n->rank - 2;
    return n->op == OP_dot && shape[0] <= SMALL && shape[1] <= SMALL && node_size(gr->g, dot) >= DOT_MANY * shape[0] * shape[1];
}

bool after_is_apart(const Grouping *gr, Id dot) { return is_small(gr, dot) || is_packed_inside(gr, dot); }

/* Uses of `a` but reductions of its rows: these run in its own group. */
static uint32_t uses_whole(const Grouping *gr, Id a)
{
    const Graph *g = gr->g;
    uint32_t uses = gr->info[a].uses;
    for (Id id = a + 1; uses > 1 && id < g->nodes.len; id++)
        if (node_at(g, id)->op == OP_reduce_sum && node_in(g, id)[0] == a && gr->info[id].uses && node_attr(g, id)[0] == 1 << (node_at(g, a)->rank - 1)) uses--;
    return uses;
}

uint32_t after_rows(const Grouping *gr, Id id)
{
    const Graph *g = gr->g;
    Id a = node_in(g, id)[0];
    const NodeInfo *info = &gr->info[a];
    const Group *gp = &gr->groups.at[info->group];
    int rank = node_at(g, a)->rank, last = gp->naxes - 1;
    if (!info->group || !gp->dot || gp->then || gp->sum || gp->reduced != 1u << last || gp->closed || gp->naxes > MAX_DOMAIN - 4) return 0;
    if (op_info[node_at(g, a)->op].kind != KIND_ELEMENTWISE || uses_whole(gr, a) != 1 || info->stored || info->row) return 0;
    if (node_at(g, a)->dtype != node_at(g, gp->dot)->dtype || node_shape(g, id)[rank - 1] == 1 || !is_read_in_place(gr, id)) return 0;
    if (info->axis[rank - 1] != last || info->axis[rank - 2] < 0 || info->axis[rank - 2] != last - 1) return 0;
    return gr->info[gp->dot].axis[node_at(g, gp->dot)->rank - 2] == last - 1 ? info->group : 0;
}

bool after_join(Grouping *gr, Id id, bool *joined)
{
    const Graph *g = gr->g;
    uint32_t n = after_rows(gr, id);
    Id a = node_in(g, id)[0];
    if (!n || gr->info[operand_buffer(gr, node_in(g, id)[1])].group >= n) return true;
    Root *r = group_root(gr, n, a, id, gr->info[a].axis, gr->info[a].phase);
    if (!r) return false;
    r->then = true;
    gr->groups.at[n].then = id;
    gr->groups.at[n].extent[gr->groups.at[n].naxes + 1] = node_shape(g, id)[node_at(g, id)->rank - 1];
    gr->info[id].group = n;
    gr->info[id].phase = gr->info[a].phase;
    gr->info[id].stored = true;
    memcpy(gr->info[id].axis, gr->info[a].axis, sizeof gr->info[id].axis);
    return *joined = true;
}
