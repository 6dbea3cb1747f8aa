/* Reshapes of computed values. To split an axis is an index map, so that costs nothing; to join axes and cut the result elsewhere is none, and the value would
 * have to be stored for it. Two ways around that:
 *
 *   lifted    what is computed from arrays in C order, and numbers, alone is computed in the new shape: such arrays are read by their linear index
 *   refined   reductions and elementwise operations of other values go by the common refinement of the two shapes, where there is one: both are splits and
 *             joins of it. (2000, 1600) and (400000, 8) have (2000, 200, 8); (2000, 1500) and (375000, 8) have none. The result is reshaped after */
#include <string.h>
#include "opt/plan.h"

enum {
    MOST_NODES = 64,             /* looked at, of a value */
    MOST_AXES = 8,               /* of a refinement */
    CHEAP_OPS = 4,               /* made in both shapes rather than stored */
};

bool input_in_order(const Graph *g, const PlanInput *in, Id id)
{
    if (!in) return true;
    const PlanInput *at = &in[node_attr(g, id)[0]];
    int64_t expect = dtype_info[node_at(g, id)->dtype].bytes;
    for (int d = node_at(g, id)->rank - 1; d >= 0; d--) {
        int64_t n = node_shape(g, id)[d];
        if (n == 0) return true;
        if (n > 1 && at->stride[d] != expect) return false;
        expect *= n;
    }
    return true;
}

/* ---- shapes ---- */

/* The extents of which both shapes, of equal size, join neighbours, and the axis of the second that each is part of; how many, -1: there is no such
 * shape. Axes of extent 1 are in none. */
static int refine(const Dim *s, int ns, const Dim *t, int nt, Dim *r, int8_t *of)
{
    Dim a = 1, b = 1;
    int n = 0, i = 0, j = 0;
    for (;;) {
        while (a == 1 && i < ns) a = s[i++];
        while (b == 1 && j < nt) b = t[j++];
        if (a == 1 && b == 1) return n;
        Dim e = a < b ? a : b;
        if (e < 2 || a % e || b % e || n == MAX_RANK) return -1;
        of[n] = (int8_t)(j - 1);
        r[n++] = e;
        a /= e;
        b /= e;
    }
}

/* Whether reshape `id` joins axes and cuts the result elsewhere, or leaves them joined: where its input lies is no index map. r, of, n: the refinement. */
static bool joins(const Graph *g, Id id, Dim *r, int8_t *of, int *n)
{
    Id a = node_in(g, id)[0];
    int wide = 0;
    if (node_at(g, id)->op != OP_reshape || !node_size(g, id)) return false;
    for (int d = 0; d < node_at(g, id)->rank; d++) wide += node_shape(g, id)[d] != 1;
    *n = refine(node_shape(g, a), node_at(g, a)->rank, node_shape(g, id), node_at(g, id)->rank, r, of);
    return *n != wide;
}

/* ---- refined ---- */

static bool is_number(const Graph *g, Id id)
{
    while (node_at(g, id)->op == OP_broadcast) id = node_in(g, id)[0];
    return node_at(g, id)->rank == 0;
}

/* Whether the value is computed from arguments and numbers, element by element, some of it from arrays that are not in C order or that are seen through other
 * views than reshapes. */
typedef struct { int left; bool plain, views; } Source;

static void look(Source *s, const Graph *g, const PlanInput *in, Id id)
{
    const Node *n = node_at(g, id);
    OpKind kind = op_info[n->op].kind;
    if (is_number(g, id) || n->op == OP_const || !s->plain) return;
    s->plain = --s->left > 0 && n->op != OP_gather && (kind == KIND_ELEMENTWISE || kind == KIND_VIEW || n->op == OP_input);
    s->views = s->views || (kind == KIND_VIEW && n->op != OP_reshape) || (n->op == OP_input && !input_in_order(g, in, id));
    for (int i = 0; i < (kind == KIND_VIEW ? 1 : n->nin); i++) look(s, g, in, node_in(g, id)[i]);
}

/* Whether what follows reshape `id` had better go by the refinement. */
static bool wants_refinement(const Graph *g, const PlanInput *in, Id id, Dim *r, int8_t *of, int *n)
{
    Source s = { .left = MOST_NODES, .plain = true };
    if (!joins(g, id, r, of, n) || *n < 0 || *n > MOST_AXES) return false;
    look(&s, g, in, node_in(g, id)[0]);
    return s.plain && s.views;
}

bool reduce_refined(Graph *g, const PlanInput *in, Op op, Id *x, int64_t *axes)
{
    Dim r[MAX_RANK];
    int8_t of[MAX_RANK];
    int n;
    int64_t over = 0;
    if (!wants_refinement(g, in, *x, r, of, &n)) return false;
    for (int k = 0; k < n; k++) if (*axes >> of[k] & 1) over |= 1ll << k;
    bool places = op == OP_reduce_argmax || op == OP_reduce_argmin;        /* which count along one axis */
    if (!over || (places && over & (over - 1))) return false;
    *x = graph_reshape(g, node_in(g, *x)[0], r, n);
    *axes = over;
    return true;
}

Id elementwise_refined(Graph *g, const PlanInput *layout, Op op, const Id *in, int nin, Dtype dtype)
{
    Dim r[MAX_RANK], to[MAX_RANK];
    int8_t of[MAX_RANK];
    Id out[3];
    int n = 0, which = 0, rank = node_at(g, in[0])->rank;
    while (which < nin && !wants_refinement(g, layout, in[which], r, of, &n)) which++;
    if (which == nin) return 0;
    memcpy(to, node_shape(g, in[0]), sizeof(Dim) * (size_t)rank);
    for (int i = 0; i < nin; i++) out[i] = graph_reshape(g, in[i], r, n);
    return graph_reshape(g, graph_add(g, op, out, nin, NULL, 0, dtype, NULL, 0), to, rank);
}

/* ---- lifted ---- */

enum { NOBODY = 0, OTHERS = UINT32_MAX };

typedef struct {
    const Graph *old;
    Graph *g;
    Id *map, *lifted;            /* per old node: its image, and in the shape of the reshape that wants it */
    Id *wanted;                  /* per old node: the reshape that all its users are part of, or NOBODY, or OTHERS */
    bool *ordered, *root, *used; /* computed from arrays in C order alone; a reshape to be lifted; part of another node */
    uint8_t *ops;                /* operations of a value above arrays; 255: many, or dear ones */
} Lift;

static void note_source(Lift *p, const PlanInput *in, Id id)
{
    const Graph *g = p->old;
    const Node *n = node_at(g, id);
    OpKind kind = op_info[n->op].kind;
    int ops = kind == KIND_ELEMENTWISE, dear = kind == KIND_ELEMENTWISE && op_info[n->op].cost >= COST_DIV;
    for (int i = 0; i < n->nin; i++) p->used[node_in(g, id)[i]] = true;
    p->ordered[id] = is_number(g, id) || n->op == OP_const || (n->op == OP_input && input_in_order(g, in, id)) || n->op == OP_reshape || kind == KIND_ELEMENTWISE;
    for (int i = 0; i < n->nin && (n->op == OP_reshape || kind == KIND_ELEMENTWISE); i++) {
        Id v = node_in(g, id)[i];
        p->ordered[id] = p->ordered[id] && p->ordered[v];
        ops += p->ops[v];
    }
    p->ops[id] = (uint8_t)(dear || ops > 255 ? 255 : ops);
}

static void want(Lift *p, Id v, Id who)
{
    p->wanted[v] = p->wanted[v] == NOBODY || p->wanted[v] == who ? who : OTHERS;
}

/* Who wants each node, from the last one on; whether some reshape is to be lifted. */
static bool find_roots(Lift *p)
{
    const Graph *g = p->old;
    Dim r[MAX_RANK];
    int8_t of[MAX_RANK];
    bool any = false;
    int n;
    for (Id id = g->nodes.len - 1; id > 0; id--) {
        const Node *node = node_at(g, id);
        OpKind kind = op_info[node->op].kind;
        if (p->wanted[id] == NOBODY && node->op != OP_check) continue;         /* dead, or a result alone, which shares what it is a reshape of */
        Id v = node->nin ? node_in(g, id)[0] : 0, who = OTHERS;
        p->root[id] = node->op == OP_reshape && p->ordered[v] && op_info[node_at(g, v)->op].kind == KIND_ELEMENTWISE && joins(g, id, r, of, &n);
        if (p->root[id]) who = id, any = true;
        else if (kind == KIND_ELEMENTWISE || node->op == OP_reshape) who = p->wanted[id];
        for (int i = 0; i < node->nin; i++) want(p, node_in(g, id)[i], who);
    }
    return any;
}

/* Value v in the shape of reshape `who`. */
static Id in_shape_of(Lift *p, Id v, Id who)
{
    const Graph *o = p->old;
    const Node *n = node_at(o, v);
    Id in[3] = { 0 };
    if (p->wanted[v] == who && p->lifted[v]) return p->lifted[v];
    if (op_info[n->op].kind != KIND_ELEMENTWISE || p->ops[v] > CHEAP_OPS) return graph_reshape(p->g, p->map[v], node_shape(o, who), node_at(o, who)->rank);
    for (int i = 0; i < n->nin; i++) in[i] = in_shape_of(p, node_in(o, v)[i], who);
    uint8_t mode = p->g->mode;
    p->g->mode = n->mode;
    Id r = graph_add(p->g, n->op, in, n->nin, NULL, 0, n->dtype, NULL, 0);
    p->g->mode = mode;
    return r;
}

static Id lift_node(Lift *p, Id id)
{
    const Node *n = node_at(p->old, id);
    Id few[4], *in = graph_mapped(p->g, p->old, id, p->map, few), who = p->wanted[id];
    if (!in) return 0;
    if (who != NOBODY && who != OTHERS && !p->root[id]) {
        Id at[3] = { 0 };
        if (n->op == OP_reshape) p->lifted[id] = in_shape_of(p, node_in(p->old, id)[0], who);
        for (int i = 0; i < n->nin && op_info[n->op].kind == KIND_ELEMENTWISE; i++) at[i] = in_shape_of(p, node_in(p->old, id)[i], who);
        if (at[0]) p->lifted[id] = graph_add(p->g, n->op, at, n->nin, NULL, 0, n->dtype, NULL, 0);
    }
    if (p->root[id]) return in_shape_of(p, node_in(p->old, id)[0], id);
    return graph_add(p->g, n->op, in, n->nin, node_attr(p->old, id), n->nattr, n->dtype, node_shape(p->old, id), n->rank);
}

/* A result that is a reshape and nothing else shares the memory of what it is a reshape of. */
static void want_outputs(Lift *p)
{
    const Graph *g = p->old;
    for (uint32_t i = 0; i < g->outputs.len; i++) {
        Id o = g->outputs.at[i];
        want(p, node_at(g, o)->op == OP_reshape && !p->used[o] ? node_in(g, o)[0] : o, OTHERS);
    }
}

static bool all_known(const Graph *g)
{
    for (Id id = 1; id < g->nodes.len; id++)
        for (int d = 0; d < node_at(g, id)->rank; d++) if (node_shape(g, id)[d] < 0) return false;
    return true;
}

Graph *lift_reshapes(Arena *a, Graph *old, const PlanInput *in)
{
    uint32_t len = old->nodes.len;
    Id *ids = arena_alloc(a, sizeof *ids * len * 3);
    bool *flags = arena_alloc(a, sizeof *flags * len * 3);
    Lift p = { .old = old, .ops = arena_alloc(a, len) };
    if (!ids || !flags || !p.ops) return NULL;
    if (!all_known(old)) return old;
    p.map = ids, p.lifted = ids + len, p.wanted = ids + 2 * len;
    p.ordered = flags, p.root = flags + len, p.used = flags + 2 * len;
    for (Id id = 1; id < len; id++) note_source(&p, in, id);
    want_outputs(&p);
    if (!find_roots(&p)) return old;
    if (!(p.g = graph_new(a))) return NULL;
    p.g->limit = UINT32_MAX;
    graph_mapped_inputs(p.g, old, p.map);
    for (uint32_t i = 0; i < old->outputs.len; i++) want(&p, old->outputs.at[i], OTHERS);
    for (Id id = 1; id < len; id++)
        if ((p.wanted[id] != NOBODY || node_at(old, id)->op == OP_check) && node_at(old, id)->op != OP_input && !(p.map[id] = lift_node(&p, id))) return NULL;
    for (uint32_t i = 0; i < old->outputs.len; i++) graph_output(p.g, p.map[old->outputs.at[i]]);
    return p.g->err->kind ? NULL : p.g;
}
