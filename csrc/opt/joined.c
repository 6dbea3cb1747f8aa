/* Graph -> Graph: what is joined of joined arrays and of slices of them is joined of the slices at their bottom, however long the chain: so each element is
 * written once, straight to its place, and no step of the chain is in memory. Slices that follow each other become one. From the last node to the first, so
 * that a step which only other steps read is never looked at by itself: the work is in proportion to the nodes and to the slices that they end in. */
#include <string.h>
#include "opt/plan.h"

enum {
    FEW = 64,                    /* slices of one node that are always looked for */
    SLICES = 16,                 /* ... per node of the graph, in all */
};

typedef struct { Id x; uint32_t at; int64_t extent; } Stretch;      /* elements of x from starts.at[at ...] on, `extent` of them along the axis */
typedef struct { Id id; uint32_t first, count; } Join;           /* its parts */

typedef struct {
    const Graph *old;
    Graph *g;
    Arena *work;
    Id *map;
    bool *wanted, *used;         /* by id in old: somebody else than a chain reads it; it is in the new graph */
    uint32_t *join;              /* ... its Join + 1, 0: it stays as it is */
    VEC(Join) joins;
    VEC(Stretch) parts, open;       /* open: still to be looked at, the first one last */
    VEC(int64_t) starts;
    uint32_t left;               /* slices that may still be looked for */
} Pass;

/* Whether it is a slice of neighbouring elements at numbers. */
static bool is_plain_slice(const Graph *g, Id id)
{
    const Node *n = node_at(g, id);
    int64_t at;
    if (n->op != OP_slice) return false;
    for (int d = 0; d < n->rank; d++) if (node_attr(g, id)[d] != 1 || !node_const(g, node_in(g, id)[1 + d], &at)) return false;
    return true;
}

/* The concatenate that the node is, or is slices of; 0: it is none. */
static Id joined_below(const Graph *g, Id id)
{
    while (is_plain_slice(g, id)) id = node_in(g, id)[0];
    return node_at(g, id)->op == OP_concatenate ? id : 0;
}

static void find_wanted(Pass *p)
{
    const Graph *o = p->old;
    for (uint32_t i = 0; i < o->outputs.len; i++) p->wanted[o->outputs.at[i]] = p->used[o->outputs.at[i]] = true;
    for (uint32_t i = 0; i < o->checks.len; i++) p->used[o->checks.at[i]] = true;
    for (Id id = o->nodes.len - 1; id > 0; id--) {
        bool chain = node_at(o, id)->op == OP_concatenate || is_plain_slice(o, id);
        for (int i = 0; p->used[id] && i < node_at(o, id)->nin; i++) p->used[node_in(o, id)[i]] = true, p->wanted[node_in(o, id)[i]] |= !chain;
    }
    memset(p->used, 0, o->nodes.len);
}

/* ---- one node ---- */

static bool open_part(Pass *p, Id x, const int64_t *start, int64_t extent)
{
    int rank = node_at(p->old, x)->rank;
    Stretch *part = vec_push(p->work, &p->open);
    if (!part || !vec_reserve(p->work, &p->starts, (size_t)rank)) return false;
    *part = (Stretch){ x, p->starts.len, extent };
    memcpy(p->starts.at + p->starts.len, start, sizeof(int64_t) * (size_t)rank);
    p->starts.len += (uint32_t)rank;
    return true;
}

/* A part of a concatenate along the axis as parts of its pieces. */
static bool open_pieces(Pass *p, Stretch of, int axis)
{
    const Graph *o = p->old;
    const Node *n = node_at(o, of.x);
    int64_t start[MAX_RANK], from = p->starts.at[of.at + (uint32_t)axis], to = from + of.extent, end = node_shape(o, of.x)[axis];
    for (int i = n->nin; i-- > 0;) {
        Id x = node_in(o, of.x)[i];
        int64_t begin = end - node_shape(o, x)[axis], low = from > begin ? from : begin, high = to < end ? to : end;
        memcpy(start, p->starts.at + of.at, sizeof(int64_t) * n->rank);
        start[axis] = low - begin;
        if (low < high && !open_part(p, x, start, high - low)) return false;
        end = begin;
    }
    return true;
}

/* A part of a slice as one of what it is a slice of. */
static bool open_slice(Pass *p, Stretch of)
{
    int64_t start[MAX_RANK], at;
    const Graph *o = p->old;
    for (int d = 0; d < node_at(o, of.x)->rank; d++) start[d] = p->starts.at[of.at + (uint32_t)d] + (node_const(o, node_in(o, of.x)[1 + d], &at) ? at : 0);
    return open_part(p, node_in(o, of.x)[0], start, of.extent);
}

/* Adds a part at the bottom, or lengthens the one before it in the same join. */
static bool close_part(Pass *p, Stretch of, Join *j, int axis)
{
    int rank = node_at(p->old, of.x)->rank;
    Stretch *last = j->count ? &p->parts.at[p->parts.len - 1] : NULL;
    const int64_t *start = p->starts.at + of.at;
    bool follows = last && last->x == of.x;
    for (int d = 0; follows && d < rank; d++) follows = start[d] == p->starts.at[last->at + (uint32_t)d] + (d == axis ? last->extent : 0);
    if (follows) {
        last->extent += of.extent;
        return true;
    }
    if (!(last = vec_push(p->work, &p->parts))) return false;
    *last = of;
    j->count++;
    return true;
}

/* Finds the parts of a node that joins; *found: whether they are not too many. */
static bool find_parts(Pass *p, Id id, bool *found)
{
    const Graph *o = p->old;
    const int axis = (int)node_attr(o, joined_below(o, id))[0];
    const int64_t zero[MAX_RANK] = { 0 };
    Join j = { .id = id, .first = p->parts.len };
    uint32_t looked = 0, most = p->left < o->nodes.len * 2 ? p->left : o->nodes.len * 2;
    if (most < FEW) most = FEW;
    p->open.len = 0;
    if (!open_part(p, id, zero, node_shape(o, id)[axis])) return false;
    while (p->open.len && looked++ <= most) {
        const Stretch of = p->open.at[--p->open.len];
        Id c = joined_below(o, of.x);
        bool goes = !c || ((of.x == id || !p->wanted[of.x]) && (int)node_attr(o, c)[0] == axis), slice = is_plain_slice(o, of.x);
        if (!goes || (!c && !slice) ? !close_part(p, of, &j, axis) : slice ? !open_slice(p, of) : !open_pieces(p, of, axis)) return false;
    }
    *found = !p->open.len;
    p->left -= looked < p->left ? looked : p->left;
    if (!*found) p->parts.len = j.first;
    Join *at = *found ? vec_push(p->work, &p->joins) : NULL;
    if (at) *at = j, p->join[id] = p->joins.len;
    return at || !*found;
}

/* ---- the pass ---- */

static bool find_joins(Pass *p)
{
    const Graph *o = p->old;
    for (uint32_t i = 0; i < o->outputs.len; i++) p->used[o->outputs.at[i]] = true;
    for (uint32_t i = 0; i < o->checks.len; i++) p->used[o->checks.at[i]] = true;
    for (Id id = o->nodes.len - 1; id > 0; id--) {
        bool found = false;
        if (!p->used[id]) continue;
        if (joined_below(o, id) && !find_parts(p, id, &found)) return false;
        for (int i = 0; !found && i < node_at(o, id)->nin; i++) p->used[node_in(o, id)[i]] = true;
        if (!found) continue;
        const Join *j = &p->joins.at[p->join[id] - 1];
        for (uint32_t i = 0; i < j->count; i++) p->used[p->parts.at[j->first + i].x] = true;
    }
    return true;
}

static Id rebuild_join(Pass *p, const Join *j)
{
    const int axis = (int)node_attr(p->old, joined_below(p->old, j->id))[0];
    Id *piece = arena_alloc(p->work, sizeof *piece * (j->count + 1));
    int64_t step[MAX_RANK];
    Dim shape[MAX_RANK];
    memcpy(shape, node_shape(p->old, j->id), sizeof(Dim) * node_at(p->old, j->id)->rank);
    for (int d = 0; d < MAX_RANK; d++) step[d] = 1;
    for (uint32_t i = 0; piece && i < j->count; i++) {
        const Stretch *part = &p->parts.at[j->first + i];
        shape[axis] = part->extent;
        if (!(piece[i] = graph_slice_const(p->g, p->map[part->x], p->starts.at + part->at, step, shape))) return 0;
    }
    return !piece ? 0 : j->count == 1 ? piece[0] : graph_concatenate(p->g, piece, (int)j->count, axis);
}

static Id rebuild(Pass *p, Id id)
{
    const Node *n = node_at(p->old, id);
    Id few[4];
    p->g->src = n->src;
    p->g->mode = n->mode;
    if (p->join[id]) return rebuild_join(p, &p->joins.at[p->join[id] - 1]);
    Id *in = graph_mapped(p->g, p->old, id, p->map, few);
    return in ? graph_add(p->g, n->op, in, n->nin, node_attr(p->old, id), n->nattr, n->dtype, node_shape(p->old, id), n->rank) : 0;
}

/* Whether something is joined of joined arrays, or of slices, and all shapes are numbers. */
static bool is_wanted(const Graph *g)
{
    bool any = false;
    for (Id id = 1; id < g->nodes.len; id++) {
        for (int i = 0; node_at(g, id)->op == OP_concatenate && !any && i < node_at(g, id)->nin; i++) any = is_plain_slice(g, node_in(g, id)[i]) || joined_below(g, node_in(g, id)[i]);
        for (int d = 0; d < node_at(g, id)->rank; d++) if (node_shape(g, id)[d] < 0) return false;
    }
    return any;
}

static bool run(Pass *p)
{
    const Graph *o = p->old;
    size_t n = o->nodes.len;
    p->map = arena_alloc(p->work, sizeof(Id) * n);
    p->join = arena_alloc(p->work, sizeof *p->join * n);
    p->wanted = arena_alloc(p->work, n);
    p->used = arena_alloc(p->work, n);
    if (!p->map || !p->join || !p->wanted || !p->used) return false;
    find_wanted(p);
    if (!find_joins(p)) return false;
    graph_mapped_inputs(p->g, o, p->map);
    for (Id id = 1; id < n; id++)
        if (p->used[id] && node_at(o, id)->op != OP_input && !(p->map[id] = rebuild(p, id))) return false;
    for (uint32_t i = 0; i < o->outputs.len; i++) graph_output(p->g, p->map[o->outputs.at[i]]);
    return !p->g->err->kind;
}

const Graph *join_once(Arena *a, const Graph *old)
{
    if (!is_wanted(old)) return old;
    Pass p = { .old = old, .g = graph_new(a), .work = arena_new(arena_err(a)), .left = SLICES * old->nodes.len };
    if (p.g) p.g->limit = UINT32_MAX;
    bool ok = p.g && p.work && run(&p);
    arena_free(p.work);
    return ok ? p.g : NULL;
}
