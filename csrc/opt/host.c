/* Calls of host functions: each is a group, and a launch, of its own. Its inputs and results are stored, results C-contiguous but those of ufuncs'
 * loops; an input that is an argument is read where it lies. */
#include <stdatomic.h>
#include <string.h>
#include "opt/group.h"

enum { CALL_NS = 2000, BYTES_PER_NS = 1, MOST_FUNCTIONS = 1 << 14 };

/* ---- loops of ufuncs ---- */

static _Atomic uint8_t is_loop[MOST_FUNCTIONS];                  /* set before a plan can name the function */

void host_set_loop(int64_t number)
{
    if (number >= 0 && number < MOST_FUNCTIONS) atomic_store_explicit(&is_loop[number], 1, memory_order_relaxed);
}

bool host_is_loop(const Graph *g, Id call)
{
    int64_t number = node_at(g, call)->op == OP_host ? node_attr(g, call)[0] : -1;
    return number >= 0 && number < MOST_FUNCTIONS && atomic_load_explicit(&is_loop[number], memory_order_relaxed);
}

/* ---- x[mask] ---- */

static int64_t positions_number = -1, selected_number = -1;      /* set once, before any plan */

void host_set_selection(int64_t positions, int64_t selected)
{
    positions_number = positions;
    selected_number = selected;
}

/* Whether a vector is in memory before the plan runs. */
static bool is_argument(const Graph *g, Id id)
{
    while (node_at(g, id)->op == OP_reshape) id = node_in(g, id)[0];
    return node_at(g, id)->op == OP_input;
}

Id host_selected(Graph *g, const Id *in, int nin)
{
    const Node *at = node_at(g, in[1]);
    if (nin != 2 || node_at(g, in[0])->rank != 1 || at->op != OP_item || !is_argument(g, in[0])) return 0;
    Id call = node_in(g, in[1])[0];
    if (node_attr(g, call)[0] != positions_number || positions_number < 0) return 0;
    Id mask = node_in(g, call)[0], both[] = { in[0], mask };
    Dtype dt = node_at(g, in[0])->dtype;
    if (node_shape(g, mask)[0] != node_shape(g, in[0])[0]) return 0;
    const int64_t attr[] = { selected_number, 1, dt, 1, node_shape(g, in[1])[0] }, first = 0;
    Id selected = graph_add(g, OP_host, both, 2, attr, 5, DT_COUNT, NULL, 0);
    return selected ? graph_add(g, OP_item, &selected, 1, &first, 1, DT_COUNT, NULL, 0) : 0;
}

/* ---- groups and launches ---- */

/* The buffer that input `id` of a host call is read from, stored if need be; 0 on error. */
static Id operand(Grouping *gr, Id id)
{
    Id b = id;
    while (node_at(gr->g, b)->op == OP_reshape && !gr->info[b].stored) b = node_in(gr->g, b)[0];
    if (node_at(gr->g, b)->op == OP_input && (b == id || group_contiguous_input(gr, b))) return b;
    b = group_base(gr, id);
    return group_store(gr, b) ? b : 0;
}

bool host_visit(Grouping *gr, Id id)
{
    const Node *n = node_at(gr->g, id);
    Id *from = arena_alloc(gr->arena, sizeof *from * (n->nin + 1u));
    Id *items = arena_alloc(gr->arena, sizeof *items * (size_t)node_attr(gr->g, id)[1]);
    if (!from || !items) return false;
    for (int i = 0; i < n->nin; i++)
        if (!(from[i] = operand(gr, node_in(gr->g, id)[i]))) return false;
    int64_t none[1] = { 0 };
    uint32_t at = group_new(gr, 0, none);
    if (!at) return false;
    Group *gp = &gr->groups.at[at];
    gp->host = id;
    gp->items = items;
    for (int i = 0; i < n->nin; i++) {
        Id *slot = vec_push(gr->arena, &gp->operands);
        if (!slot) return false;
        *slot = from[i];
    }
    gr->info[id].group = at;
    return true;
}

void host_visit_item(Grouping *gr, Id id)
{
    Id call = node_in(gr->g, id)[0];
    NodeInfo *info = &gr->info[id];
    info->group = gr->info[call].group;
    info->stored = info->pinned = true;
    memset(info->axis, -1, sizeof info->axis);
    gr->groups.at[info->group].items[node_attr(gr->g, id)[0]] = id;
}

static void contiguous(HostArray *a)
{
    int64_t s = dtype_info[a->dtype].bytes;
    for (int d = a->rank - 1; d >= 0; d--) {
        a->stride[d] = s;
        s *= a->shape[d] > 1 ? a->shape[d] : 1;
    }
}

static int64_t array_bytes(const HostArray *a)
{
    int64_t n = dtype_info[a->dtype].bytes;
    for (int d = 0; d < a->rank; d++) n *= a->shape[d];
    return n;
}

/* Input `id`, read from `buffer`: strided as that is, or C-contiguous where it has another shape. */
static void input_array(const Grouping *gr, const Buffers *b, Id id, Id buffer, HostArray *a)
{
    const Node *n = node_at(gr->g, id);
    a->dtype = n->dtype;
    a->rank = n->rank;
    a->swapped = b->at.at[buffer].swapped;
    memcpy(a->shape, node_shape(gr->g, id), n->rank * sizeof *a->shape);
    if (buffer == id) memcpy(a->stride, b->at.at[id].stride, n->rank * sizeof *a->stride);
    else contiguous(a);
}

static bool result_array(const Node *n, const int64_t *attr, uint32_t k, HostArray *a)
{
    Type t = { .rank = 0 };
    if (!host_result(attr, n->nattr, k, &t)) return false;
    a->dtype = (uint8_t)t.dtype;
    a->rank = (uint8_t)t.rank;
    memcpy(a->shape, t.shape, (size_t)t.rank * sizeof *a->shape);
    contiguous(a);
    return true;
}

static bool add_word(Grouping *gr, Draft *d, Id buffer, bool written)
{
    int64_t *word = vec_push(gr->arena, &d->words);
    DraftPatch *p = word && buffer ? vec_push(gr->arena, &d->patches) : NULL;
    if (p) *p = (DraftPatch){ d->words.len - 1, buffer, written };
    return word && (p || !buffer);
}

bool host_schedule(Grouping *gr, uint32_t n, const Buffers *b, Drafts *out)
{
    const Group *gp = &gr->groups.at[n];
    const Node *node = node_at(gr->g, gp->host);
    const int64_t *attr = node_attr(gr->g, gp->host), *params;
    HostCall *call = arena_alloc(gr->arena, sizeof *call);
    uint32_t nin = node->nin, nout = (uint32_t)attr[1], nparams = (uint32_t)host_params(attr, node->nattr, &params);
    HostArray *arrays = arena_alloc(gr->arena, sizeof *arrays * (nin + nout));
    Draft *d = vec_push(gr->arena, out);
    if (!call || !arrays || !d) return false;
    int64_t bytes = 0;
    for (uint32_t i = 0; i < nin; i++) {
        input_array(gr, b, node_in(gr->g, gp->host)[i], gp->operands.at[i], &arrays[i]);
        bytes += array_bytes(&arrays[i]);
        if (!add_word(gr, d, gp->operands.at[i], false)) return false;
    }
    for (uint32_t k = 0; k < nout; k++) {
        if (!result_array(node, attr, k, &arrays[nin + k])) return false;
        if (gp->items[k]) memcpy(arrays[nin + k].stride, b->at.at[gp->items[k]].stride, arrays[nin + k].rank * sizeof(int64_t));
        bytes += array_bytes(&arrays[nin + k]);
        if (!add_word(gr, d, gp->items[k], true)) return false;
    }
    *call = (HostCall){ attr[0], gp->host, nin, nout, nparams, arrays, params };
    d->host = call;
    d->grid = 1;
    d->ns = (float)(CALL_NS + bytes / BYTES_PER_NS);
    return true;
}
