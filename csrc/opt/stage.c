#include "opt/stage.h"
#include <string.h>

/* Per node: needed at all; depends on a run-time extent; computed by the first graph; an extent; handed on. */
enum { LIVE = 1, LATE = 2, FIRST = 4, EXTENT = 8, CARRIED = 16 };

/* The dims that a node names, its results' shapes included, one after the other; false: there is no k-th. */
static bool dim_of(const Graph *g, Id id, int k, Dim *d)
{
    const Node *n = node_at(g, id);
    Type t;
    if (n->op != OP_host) {
        if (k < n->rank) *d = node_shape(g, id)[k];
        return k < n->rank;
    }
    for (int64_t r = 0; host_result(node_attr(g, id), n->nattr, r, &t); k -= t.rank, r++)
        if (k < t.rank) {
            *d = t.shape[k];
            return true;
        }
    return false;
}

bool stage_needed(const Graph *g)
{
    Dim d;
    for (Id id = 1; id < g->nodes.len; id++)
        for (int k = 0; dim_of(g, id, k, &d); k++)
            if (d < 0) return true;
    return false;
}

/* Sets flags at the scalars that a node's extents are made of. */
static void mark_scalars(const Graph *g, Id id, uint8_t *where, uint8_t flags)
{
    Dim d;
    for (int k = 0; dim_of(g, id, k, &d); k++) {
        int64_t constant;
        const Id *scalar = NULL;
        const int64_t *factor;
        int n = dim_terms(g, d, &constant, &scalar, &factor);
        for (int i = 0; i < n; i++) where[scalar[i]] |= flags;
    }
}

/* What the nodes marked so far need. */
static void mark_below(const Graph *g, uint8_t *where)
{
    for (Id id = g->nodes.len - 1; id > 0; id--) {
        if (!(where[id] & LIVE)) continue;
        for (int i = 0; i < node_values(node_at(g, id)); i++) where[node_in(g, id)[i]] |= LIVE;
        mark_scalars(g, id, where, LIVE);
    }
}

static void mark_live(const Graph *g, uint8_t *where)
{
    for (uint32_t i = 0; i < g->outputs.len; i++) where[g->outputs.at[i]] |= LIVE;
    for (uint32_t i = 0; i < g->checks.len; i++) where[g->checks.at[i]] |= LIVE;
    mark_below(g, where);
}

static void mark_late(const Graph *g, uint8_t *where)
{
    Dim d;
    for (Id id = 1; id < g->nodes.len; id++) {
        bool late = false;
        for (int i = 0; i < node_values(node_at(g, id)); i++) late = late || where[node_in(g, id)[i]] & LATE;
        for (int k = 0; dim_of(g, id, k, &d); k++) late = late || d < 0;
        if (late) where[id] |= LATE;
    }
}

/* The extents known first, the checks that can be made then, and what both are computed from. */
static void mark_first(const Graph *g, uint8_t *where)
{
    for (Id id = 1; id < g->nodes.len; id++)
        if (where[id] & LIVE) mark_scalars(g, id, where, EXTENT);
    for (Id id = g->nodes.len - 1; id > 0; id--) {
        if (where[id] & LATE) where[id] &= (uint8_t)~EXTENT;
        if (where[id] & LATE || !(where[id] & LIVE)) continue;
        if (where[id] & EXTENT || node_at(g, id)->op == OP_check) where[id] |= FIRST;
        if (!(where[id] & FIRST)) continue;
        for (int i = 0; i < node_values(node_at(g, id)); i++) where[node_in(g, id)[i]] |= FIRST;
    }
    for (Id id = 1; id < g->nodes.len; id++)                 /* a call is made once: what the rest reads of its results is handed on */
        if (node_at(g, id)->op == OP_item && where[id] & LIVE && where[node_in(g, id)[0]] & FIRST) where[id] |= FIRST;
}

/* Views and sources are made again where they are used; what they show is handed on. */
static bool made_again(const Graph *g, Id id)
{
    OpKind kind = op_info[node_at(g, id)->op].kind;
    return kind == KIND_VIEW || kind == KIND_SOURCE;
}

static void mark_carried(Arena *a, const Graph *g, uint8_t *where)
{
    uint8_t *needed = arena_alloc(a, g->nodes.len);       /* by the rest, if not 0 */
    if (!needed) return;
    for (uint32_t i = 0; i < g->outputs.len; i++) needed[g->outputs.at[i]] = true;
    for (Id id = g->nodes.len - 1; id > 0; id--) {
        uint8_t w = where[id];
        if (node_at(g, id)->op == OP_check && !(w & FIRST) && w & LIVE) needed[id] = true;
        if (!needed[id] || w & EXTENT) continue;
        if (w & FIRST && !made_again(g, id) && node_at(g, id)->op != OP_host) {
            where[id] |= CARRIED;
            continue;
        }
        for (int i = 0; i < node_values(node_at(g, id)); i++) needed[node_in(g, id)[i]] = true;
        mark_scalars(g, id, needed, true);
    }
}

static Id *list(Arena *a, const Graph *g, const uint8_t *where, uint8_t flag, uint32_t *n)
{
    *n = 0;
    for (Id id = 1; id < g->nodes.len; id++) *n += (where[id] & flag) != 0;
    Id *out = arena_alloc(a, sizeof(Id) * (*n + 1));
    uint32_t k = 0;
    for (Id id = 1; out && id < g->nodes.len; id++)
        if (where[id] & flag) out[k++] = id;
    return out;
}

/* ---- making graphs ---- */

typedef struct { const Graph *old; Graph *g; Id *map; } Copy;

static Dim new_dim(Copy *c, Dim d)
{
    Id scalars[64];
    int64_t constant;
    const Id *scalar = NULL;
    const int64_t *factor = NULL;
    int n = dim_terms(c->old, d, &constant, &scalar, &factor);
    if (!n) return d;
    for (int i = 0; i < n && i < 64; i++) scalars[i] = c->map[scalar[i]];
    return dim_affine(c->g, constant, scalars, factor, n);
}

/* The attributes that are dims: those of views that give a shape, and of a host call's results. */
static void new_attrs(Copy *c, const Node *n, const int64_t *old, int64_t *attr)
{
    memcpy(attr, old, sizeof *attr * n->nattr);
    int first = n->op == OP_broadcast || n->op == OP_reshape ? 0 : n->op == OP_slice ? n->nattr / 2 : n->nattr;
    for (int k = first; k < n->nattr; k++) attr[k] = new_dim(c, old[k]);
    for (int64_t r = 0, at = 2; n->op == OP_host && r < old[1]; r++, at += 2 + old[at + 1])
        for (int64_t k = 0; k < old[at + 1]; k++) attr[at + 2 + k] = new_dim(c, old[at + 2 + k]);
}

static Id copy_node(Copy *c, Id id)
{
    const Node *n = node_at(c->old, id);
    Arena *a = c->g->arena;
    Id *in = arena_alloc(a, sizeof(Id) * (n->nin + 1u));
    int64_t *attr = arena_alloc(a, sizeof(int64_t) * (n->nattr + 1u));
    Dim shape[MAX_RANK], lo, hi;
    if (!in || !attr) return 0;
    if (n->op == OP_like) return c->map[node_in(c->old, id)[0]];
    for (int i = 0; i < n->nin; i++)
        if (!(in[i] = c->map[node_in(c->old, id)[i]]))
            return err_set(c->g->err, ERR_INTERNAL, "a stage reads a value that is not there");
    for (int d = 0; d < n->rank; d++) shape[d] = new_dim(c, node_shape(c->old, id)[d]);
    new_attrs(c, n, node_attr(c->old, id), attr);
    c->g->src = n->src;
    c->g->mode = n->mode;
    /* An axis that turns out to be empty: there is no index into it, or a check fails and the values do not matter. */
    bool indexed = n->op == OP_gather || n->op == OP_scatter;
    if (indexed && !node_size(c->g, in[0]))
        return n->op == OP_scatter ? in[0] : graph_broadcast(c->g, graph_const(c->g, n->dtype, 0), shape, n->rank);
    Id r = graph_add(c->g, n->op, in, n->nin, attr, n->nattr, n->dtype, shape, n->rank);
    if (r && dim_bounds(c->old, id, &lo, &hi)) dim_bound(c->g, r, new_dim(c, lo), new_dim(c, hi));
    return r;
}

static bool copy_begin(Copy *c, Arena *a, const Graph *old)
{
    *c = (Copy){ old, graph_new(a), arena_alloc(a, sizeof(Id) * old->nodes.len) };
    if (!c->g || !c->map) return false;
    c->g->limit = UINT32_MAX;
    graph_mapped_inputs(c->g, old, c->map);
    return true;
}

Stage *stage_split(Arena *a, const Graph *g)
{
    Stage *s = arena_alloc(a, sizeof *s);
    uint8_t *where = arena_alloc(a, g->nodes.len);
    Copy c;
    if (!s || !where) return NULL;
    mark_live(g, where);
    mark_late(g, where);
    mark_first(g, where);
    mark_carried(a, g, where);
    *s = (Stage){ .whole = g, .where = where };
    s->extents = list(a, g, where, EXTENT, &s->nextents);
    s->carried = list(a, g, where, CARRIED, &s->ncarried);
    if (!s->extents || !s->carried || !copy_begin(&c, a, g)) return NULL;
    for (Id id = 1; id < g->nodes.len; id++)
        if (where[id] & FIRST && !c.map[id] && !(c.map[id] = copy_node(&c, id))) return NULL;
    for (uint32_t k = 0; k < s->nextents; k++) graph_output(c.g, c.map[s->extents[k]]);
    for (uint32_t k = 0; k < s->ncarried; k++) graph_output(c.g, c.map[s->carried[k]]);
    s->first = c.g;
    return c.g->err->kind ? NULL : s;
}

Graph *stage_rest(Arena *a, const Stage *s, const int64_t *values)
{
    const Graph *g = s->whole;
    Copy c;
    if (!copy_begin(&c, a, g)) return NULL;
    for (uint32_t k = 0; k < s->ncarried; k++) {
        const Node *n = node_at(g, s->carried[k]);
        c.map[s->carried[k]] = graph_input(c.g, n->dtype, node_shape(g, s->carried[k]), n->rank, 0);
    }
    for (uint32_t k = 0; k < s->nextents; k++) c.map[s->extents[k]] = graph_const(c.g, DT_int64, values[k]);
    for (Id id = 1; id < g->nodes.len; id++) {
        uint8_t w = s->where[id];
        if (!(w & LIVE) || c.map[id] || (w & FIRST && !made_again(g, id) && node_at(g, id)->op != OP_host)) continue;
        bool ready = true;                                   /* else it is of the first graph alone */
        for (int i = 0; i < node_values(node_at(g, id)); i++) ready = ready && c.map[node_in(g, id)[i]];
        if (!ready && w & FIRST) continue;
        if (node_at(g, id)->op == OP_host && w & FIRST) continue;
        if (!(c.map[id] = copy_node(&c, id))) return NULL;
    }
    for (uint32_t i = 0; i < g->outputs.len; i++) graph_output(c.g, c.map[g->outputs.at[i]]);
    return c.g->err->kind ? NULL : c.g;
}

Graph *graph_below(Arena *a, const Graph *g, Id root, int **inputs)
{
    uint8_t *where = arena_alloc(a, g->nodes.len);
    Copy c = { g, graph_new(a), arena_alloc(a, sizeof(Id) * g->nodes.len) };
    *inputs = arena_alloc(a, sizeof **inputs * (g->inputs.len + 1));
    if (!where || !c.g || !c.map || !*inputs) return NULL;
    c.g->limit = UINT32_MAX;
    where[root] = LIVE;
    mark_below(g, where);
    for (Id id = 1; id <= root; id++) {
        const Node *n = node_at(g, id);
        if (!where[id]) continue;
        if (n->op == OP_input) {
            (*inputs)[c.g->inputs.len] = (int)node_attr(g, id)[0];
            c.map[id] = graph_input(c.g, n->dtype, node_shape(g, id), n->rank, n->flags);
        } else
            c.map[id] = copy_node(&c, id);
        if (!c.map[id]) return NULL;
    }
    graph_output(c.g, c.map[root]);
    return c.g->err->kind ? NULL : c.g;
}
