/* The text form of a graph: one node a line, read back by parse.c.
 *
 *     %1 = input 0 : f32[3,4] weak
 *     %2 = const 0.5 : f32[]
 *     %3 = slice %1 %4 %5 {1,2} : f32[3,2]        attributes in braces; a shape among them is in the type only
 *     %6 = reduce_var %1 {0,1} ddof 1 : f32[]     axes, not their mask
 *     %7 = add %1 %1 : f32[3,4] fma               the node's mode
 *     %8 = item %9 {0} : i64[] in 0..2*%4+1       bounds of a scalar that extents depend on
 *     return %7, %8
 *
 * Child graphs stand before the nodes, as `graph 0 {` ... `}`. What user's line made a node is not printed. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "ir/ir.h"

static void put_bits(Text *t, const int64_t *words, int n)
{
    for (int i = 0; i < n; i++)
        text_put(t, " 0x%" PRIx64, (uint64_t)words[i]);
}

static void put_float(Text *t, Dtype d, int64_t bits)
{
    double x;
    float narrow;
    uint32_t low = (uint32_t)bits;
    memcpy(&x, &bits, sizeof x);
    memcpy(&narrow, &low, sizeof narrow);
    bool single = d == DT_float32;
    x = single ? narrow : x;
    if (isnan(x) && bits != (single ? 0x7fc00000 : 0x7ff8000000000000)) {
        put_bits(t, &bits, 1);
        return;
    }
    text_put(t, " ");
    text_put_double(t, x, single);
}

static void put_const(Text *t, Dtype d, const int64_t *words, int n)
{
    if (d == DT_float32 || d == DT_float64)
        put_float(t, d, words[0]);
    else if (d == DT_bool_)
        text_put(t, words[0] ? " true" : " false");
    else if (dtype_info[d].kind == DKIND_INT)
        text_put(t, " %" PRId64, words[0]);
    else if (dtype_info[d].kind == DKIND_UINT)
        text_put(t, " %" PRIu64, (uint64_t)words[0]);
    else
        put_bits(t, words, n);
}

static void put_list(Text *t, const int64_t *at, int n)
{
    text_put(t, n ? " {" : "");
    for (int i = 0; i < n; i++)
        text_put(t, "%s%" PRId64, i ? "," : "", at[i]);
    text_put(t, n ? "}" : "");
}

static void put_reduce(Text *t, const int64_t *attr, int nattr)
{
    const char *comma = "";
    text_put(t, " {");
    for (int d = 0; d < MAX_RANK; d++)
        if (attr[0] >> d & 1) {
            text_put(t, "%s%d", comma, d);
            comma = ",";
        }
    text_put(t, "}");
    if (nattr > 1) {
        text_put(t, " ddof");
        put_float(t, DT_float64, attr[1]);
    }
}

static void put_attr(Text *t, const Node *n, const int64_t *attr)
{
    bool shaped = n->op == OP_broadcast || n->op == OP_reshape || n->op == OP_slice;
    if (n->op == OP_const)
        put_const(t, (Dtype)n->dtype, attr, n->nattr);
    else if (n->op == OP_input)
        text_put(t, " %" PRId64, attr[0]);
    else if (op_info[n->op].kind == KIND_REDUCE)
        put_reduce(t, attr, n->nattr);
    else
        put_list(t, attr, n->nattr - (shaped ? n->rank : 0));
}

static void put_type(Text *t, const Graph *g, Id id)
{
    const Node *n = node_at(g, id);
    text_put(t, " : %s[", dtype_info[n->dtype].code);
    for (int i = 0; i < n->rank; i++) {
        text_put(t, i ? "," : "");
        dim_print(t, g, node_shape(g, id)[i]);
    }
    text_put(t, "]%s%s%s", n->flags & NODE_WEAK ? " weak" : "", n->mode & MODE_FMA ? " fma" : "", n->mode & MODE_FAST ? " fast" : "");
}

static void put_bounds(Text *t, const Graph *g, Id id)
{
    Dim lo, hi;
    if (!dim_bounds(g, id, &lo, &hi))
        return;
    text_put(t, " in ");
    dim_print(t, g, lo);
    text_put(t, "..");
    dim_print(t, g, hi);
}

static void put_node(Text *t, const Graph *g, Id id)
{
    const Node *n = node_at(g, id);
    text_put(t, "%%%u = %s", id, op_info[n->op].name);
    for (int i = 0; i < n->nin; i++)
        text_put(t, " %%%u", node_in(g, id)[i]);
    put_attr(t, n, node_attr(g, id));
    put_type(t, g, id);
    put_bounds(t, g, id);
    text_put(t, "\n");
}

static void put_graph(Text *t, const Graph *g, int indent)
{
    for (uint32_t k = 0; k < g->children.len; k++) {
        text_put(t, "%*sgraph %u {\n", indent, "", k);
        put_graph(t, g->children.at[k], indent + 2);
        text_put(t, "%*s}\n", indent, "");
    }
    for (Id id = 1; id < g->nodes.len; id++) {
        text_put(t, "%*s", indent, "");
        put_node(t, g, id);
    }
    text_put(t, "%*sreturn", indent, "");
    for (uint32_t k = 0; k < g->outputs.len; k++)
        text_put(t, "%s%%%u", k ? ", " : " ", g->outputs.at[k]);
    text_put(t, "\n");
}

void graph_print(Text *t, const Graph *g) { put_graph(t, g, 0); }
