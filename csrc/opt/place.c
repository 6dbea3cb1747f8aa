/* Places: values put side by side into one buffer, by a concatenate, an update or a scatter, and what they leave of an older array. */
#include <string.h>
#include "opt/grouping.h"

enum { MOST_PIECES = 64 };       /* in one kernel: what it takes to compile grows with their square, and kernels of so many are alike */

typedef struct {
    Grouping *gr;
    Id buffer;
    uint32_t last, floor;        /* the highest group of a piece so far; the lowest that the next ones may join */
    int below;                   /* updates and scatters that will write over the next pieces */
} Place;

static bool constant_box(const Box *box, int rank)
{
    for (int d = 0; d < rank; d++) if (box->node[d]) return false;
    return true;
}

/* Adds the root of one piece in a group >= floor. */
static bool place_value(Place *p, Id v, const Box *box)
{
    Grouping *gr = p->gr;
    const Graph *g = gr->g;
    int8_t axis[MAX_RANK], own_axis[MAX_DOMAIN];
    uint32_t n = gr->info[v].group;
    uint8_t phase = gr->info[v].phase;
    bool before = gr->before && gr->before[v];
    Scan s;
    if (!node_size(g, v)) return true;
    if (n && !before && n >= p->floor && op_info[node_at(g, v)->op].kind != KIND_PLACE && !gr->groups.at[n].host && gr->groups.at[n].then != v) {
        memcpy(axis, gr->info[v].axis, sizeof axis);
    } else {
        if (!scan_node(&s, gr, v)) return false;
        uint32_t low = s.low > p->floor ? s.low : p->floor;
        n = s.best >= p->floor && !before ? s.best : 0;
        if (!n || !scan_may_join(&s, n, own_axis)) {
            bool full = p->last >= low && gr->groups.at[p->last].roots.len >= MOST_PIECES;
            n = scan_group(&s, low, 0, gr->info[v].group != 0 || full);
            identity_axes(own_axis);
        }
        if (!n) return false;
        for (int d = 0; d < node_at(g, v)->rank; d++) axis[d] = s.own.of[d] < 0 ? -1 : own_axis[s.own.of[d]];
        if (!scan_joined(&s, n)) return false;
        phase = scan_phase(&s, n);
    }
    Root *r = group_root(gr, n, v, p->buffer, axis, phase);
    if (!r) return false;
    r->box = box;
    if (n > p->last) p->last = n;
    return true;
}

/* Carries a box (NULL: all) of x, an array of the buffer's shape, over to the same box: a group of its own, which buffers.c may drop. */
static bool carry_box(Place *p, Id x, const Box *box, const int64_t *shape)
{
    Grouping *gr = p->gr;
    int64_t extent[MAX_DOMAIN];
    int8_t axis[MAX_RANK];
    int naxes = 0;
    for (int d = 0; d < node_at(gr->g, x)->rank; d++) {
        axis[d] = -1;
        if (shape[d] == 0) return true;
        if (shape[d] == 1) continue;
        if (naxes == MAX_DOMAIN) return err_set(gr->g->err, ERR_UNSUPPORTED, "an array with more than %d axes longer than 1; reshape some of them to one axis", MAX_DOMAIN);
        axis[d] = (int8_t)naxes;
        extent[naxes++] = shape[d];
    }
    uint32_t n = group_new(gr, naxes, extent);
    Root *r = n ? group_root(gr, n, x, p->buffer, axis, 0) : NULL;
    if (!r) return false;
    gr->groups.at[n].carry = r->carry = true;
    r->box = box;
    p->last = n;
    return true;
}

/* Carries what a later store of the box (extents: of the value) leaves: up to two slabs per axis; all if the box is not known now. */
static bool carry_rest(Place *p, Id x, const Box *hole, const Dim *extent)
{
    const uint32_t floor = p->floor;
    const Graph *g = p->gr->g;
    int rank = node_at(g, x)->rank;
    int64_t low[MAX_RANK], high[MAX_RANK], shape[MAX_RANK];
    bool known = true;
    for (int d = 0; d < rank; d++) {
        known = known && !hole->node[d] && (hole->step[d] == 1 || hole->step[d] == -1 || extent[d] == 1);
        low[d] = hole->step[d] < 0 && extent[d] > 1 ? hole->off[d] - extent[d] + 1 : hole->off[d];
        high[d] = low[d] + extent[d];
    }
    if (!known) {
        if (!carry_box(p, x, NULL, node_shape(g, x))) return false;
        p->floor = p->last + 1;
        return true;
    }
    for (int d = 0; d < rank; d++) {
        int64_t after = node_shape(g, x)[d] - high[d];
        bool both = low[d] == 1 && after == 1;                 /* first and last: one box with a long step */
        for (int side = 0; side < (both ? 1 : 2); side++) {
            Box *box = arena_alloc(p->gr->arena, sizeof *box);
            if (!box) return false;
            for (int e = 0; e < rank; e++) {
                box->step[e] = e == d && both ? high[e] : 1;
                box->off[e] = e < d ? low[e] : e == d && side ? high[e] : 0;
                shape[e] = e < d ? extent[e] : e > d ? node_shape(g, x)[e] : both ? 2 : side ? after : low[e];
            }
            if (!carry_box(p, x, box, shape)) return false;
        }
    }
    p->floor = floor;            /* the boxes are disjoint: their order does not matter */
    return true;
}

static bool place_node(Place *p, Id id, const Box *outer);

bool place_is_read(const Grouping *gr, Id v)
{
    return gr->info[v].uses > 1 && op_info[node_at(gr->g, v)->op].kind == KIND_ELEMENTWISE && node_size(gr->g, v) >= LONG_VALUE;
}

/* One piece: a place that nobody else reads writes straight into our buffer. */
static bool place_piece(Place *p, Id v, const Box *box)
{
    NodeInfo *info = &p->gr->info[v];
    if (info->inner) return place_node(p, v, box);
    bool for_good = !p->below && constant_box(box, node_at(p->gr->g, v)->rank);
    if (for_good && !info->group && place_is_read(p->gr, v) && !group_force(p->gr, v, p->floor)) return false;
    if (for_good && info->group && !info->placed) {
        info->placed = p->buffer;
        info->placed_box = box;
    }
    return place_value(p, v, box);
}

/* The box `inner` of the box `outer` (NULL: the whole), in place. At most one of them has run-time offsets along an axis (mark_inner). */
static void box_compose(Box *inner, const Box *outer, int rank)
{
    for (int d = 0; outer && d < rank; d++) {
        inner->off[d] = outer->off[d] + outer->step[d] * inner->off[d];
        inner->factor[d] *= outer->step[d];
        inner->step[d] *= outer->step[d];
        if (!outer->node[d]) continue;
        ASSERT(!inner->node[d]);
        inner->node[d] = outer->node[d];
        inner->factor[d] = outer->factor[d];
    }
}

static bool place_update(Place *p, Id id, const Box *outer)
{
    const Graph *g = p->gr->g;
    const Id *in = node_in(g, id);
    Id x = in[0];
    int rank = node_at(g, id)->rank;
    bool inner = p->gr->info[x].inner;
    bool carry = !inner && !outer && (node_at(g, x)->op == OP_input || p->gr->info[x].group);
    Box *box = arena_alloc(p->gr->arena, sizeof *box);
    if (!box) return false;
    for (int d = 0; d < rank; d++) {
        box->step[d] = node_attr(g, id)[d];
        if (node_const(g, in[2 + d], &box->off[d])) continue;
        box->node[d] = in[2 + d];
        box->factor[d] = 1;
    }
    if (carry) {
        if (!carry_rest(p, x, box, node_shape(g, in[1]))) return false;
    } else {
        p->below++;
        if (inner ? !place_node(p, x, outer) : !place_value(p, x, outer)) return false;
        p->below--;
        p->floor = p->last + 1;
    }
    box_compose(box, outer, rank);
    return place_piece(p, in[1], box);
}

/* Whether the scanned node reads the array that chain `x` of places changes, or a version of it. */
static bool reads_chain(const Scan *s, Id x)
{
    enum { MAX_CHAIN = 64 };
    const Graph *g = s->gr->g;
    for (int steps = 0; x; steps++) {
        if (steps == MAX_CHAIN) return true;
        for (uint32_t i = 0; i < s->leaves.len; i++) if (s->leaves.at[i].id == x) return true;
        OpKind kind = op_info[node_at(g, x)->op].kind;
        x = kind == KIND_PLACE || kind == KIND_VIEW ? node_in(g, x)[0] : 0;
    }
    return false;
}

/* What a scatter needs of an operand is stored before, if it reads the array that the scatter changes: all of it is read before the first
 * element is written. */
static bool store_before(Grouping *gr, Id id, Id x)
{
    Scan s;
    if (op_info[node_at(gr->g, id)->op].kind == KIND_SOURCE) return true;      /* an argument itself: then the change is made in a copy */
    if (!scan_node(&s, gr, id)) return false;
    return !reads_chain(&s, x) || group_store(gr, id);
}

/* x is written first, then v's elements in order: a group of its own, which runs through the axes of the index arrays one by one. */
static bool place_scatter(Place *p, Id id)
{
    Grouping *gr = p->gr;
    const Graph *g = gr->g;
    const Id *in = node_in(g, id);
    Id x = in[0];
    Scan s;
    int8_t axis[MAX_RANK];
    for (int i = 1; i < node_at(g, id)->nin; i++)
        if (!store_before(gr, in[i], x)) return false;
    if (!gr->info[x].inner && (node_at(g, x)->op == OP_input || gr->info[x].group)) {
        if (!carry_box(p, x, NULL, node_shape(g, x))) return false;
    } else {
        p->below++;
        if (gr->info[x].inner ? !place_node(p, x, NULL) : !place_value(p, x, NULL)) return false;
        p->below--;
    }
    p->floor = p->last + 1;
    if (!scan_node(&s, gr, in[1])) return false;
    uint32_t n = group_new(gr, s.own.n, s.own.extent);     /* above all others */
    if (!n) return false;
    for (int d = 0; d < node_at(g, in[1])->rank; d++) axis[d] = s.own.of[d];
    Root *r = group_root(gr, n, in[1], p->buffer, axis, 0);
    if (!r) return false;
    r->scatter = id;
    gr->groups.at[n].scan = true;
    for (int d = 0; d < node_at(g, in[2])->rank; d++)
        if (axis[d] >= 0) gr->groups.at[n].reduced |= 1u << axis[d];
    p->last = n;
    return scan_joined(&s, n);
}

static bool place_concatenate(Place *p, Id id, const Box *outer)
{
    const Graph *g = p->gr->g;
    int rank = node_at(g, id)->rank, axis = (int)node_attr(g, id)[0];
    int64_t at = 0;
    for (int i = 0; i < node_at(g, id)->nin; i++) {
        Id v = node_in(g, id)[i];
        Box *box = arena_alloc(p->gr->arena, sizeof *box);
        if (!box) return false;
        for (int d = 0; d < rank; d++) box->step[d] = 1;
        box->off[axis] = at;
        box_compose(box, outer, rank);
        at += node_shape(g, v)[axis];
        if (!place_piece(p, v, box)) return false;
    }
    return true;
}

static bool place_node(Place *p, Id id, const Box *outer)
{
    switch (node_at(p->gr->g, id)->op) {
    case OP_update: return place_update(p, id, outer);
    case OP_concatenate: return place_concatenate(p, id, outer);
    case OP_scatter:
        ASSERT(!outer);
        return place_scatter(p, id);
    }
    return err_set(p->gr->g->err, ERR_INTERNAL, "no place rule for %s", op_info[node_at(p->gr->g, id)->op].name);
}

bool group_place(Grouping *gr, Id id)
{
    if (gr->info[id].inner) return true;
    Place p = { .gr = gr, .buffer = id };
    if (!place_node(&p, id, NULL)) return false;
    gr->info[id].group = p.last ? p.last : gr->groups.len - 1;
    gr->info[id].stored = true;
    return true;
}
