#include <string.h>
#include "opt/grouping.h"

enum {
    CHEAP_OPS = 4,               /* evaluated again rather than stored */
    FLOAT_OPS = 200,             /* most ops evaluated inline without a group */
    GROUP_VALS = 1536,           /* most values of one loop */
    OWN_REDUCTIONS = 8,          /* most reductions of one loop, which carries some registers for each, of an array each, */
    GROUP_REDUCTIONS = 16,       /* and of the same few arrays */
    SPLIT_SIZE = 65536,          /* reductions of more elements than this are split over grid points */
    SPLIT_KEPT = 64,
    SPLIT_ROWS = 1024,
    MANY_ROWS = 64,              /* whose values are computed together, after the loops over each */
    FIRST_CACHE = 32768,         /* bytes, where none is known */
    PACK_SIZE = 4096,            /* elements of a product's operand from which on it may be computed while it is packed */
};

static bool own_axes(const Grouping *gr, Id id, Own *own)
{
    own->n = 0;
    for (int d = 0; d < node_at(gr->g, id)->rank; d++) {
        own->of[d] = -1;
        if (node_shape(gr->g, id)[d] == 1) continue;
        if (own->n == MAX_DOMAIN)
            return err_set(gr->g->err, ERR_UNSUPPORTED, "an array with more than %d axes longer than 1; reshape it first", MAX_DOMAIN);
        own->of[d] = (int8_t)own->n;
        own->extent[own->n++] = node_shape(gr->g, id)[d];
    }
    return true;
}

bool group_contiguous_input(const Grouping *gr, Id id) { return input_in_order(gr->g, gr->in, id); }

Id group_input_buffer(const Grouping *gr, Id id, const Map *m)
{
    return m->flat && !group_contiguous_input(gr, id) ? gr->nnodes + (Id)node_attr(gr->g, id)[0] : id;
}

/* The first group that can read input `id` through m. */
static uint32_t readable_from(const Grouping *gr, Id id, const Map *m)
{
    return node_at(gr->g, id)->op == OP_input && group_input_buffer(gr, id, m) != id ? gr->copy_group[node_attr(gr->g, id)[0]] + 1 : 0;
}

/* Bytes per step of node `id` along its axis d: of an input; else as if it lay in the order of its group's domain, or in C order. */
static int64_t step_of(const Grouping *gr, Id id, int d)
{
    const Node *n = node_at(gr->g, id);
    int64_t bytes = dtype_info[n->dtype].bytes;
    if (n->op == OP_input) return gr->in[node_attr(gr->g, id)[0]].stride[d];
    if (gr->info[id].group && gr->info[id].axis[d] >= 0) {
        const Group *gp = &gr->groups.at[gr->info[id].group];
        for (int k = gp->naxes - 1; k > gr->info[id].axis[d]; k--) bytes *= gp->extent[k];
        return bytes;
    }
    for (int k = n->rank - 1; k > d; k--) bytes *= node_shape(gr->g, id)[k];
    return bytes;
}

/* Notes how the leaf moves, if it is the first one that does along all own axes. */
static void note_walk(Scan *s, Id id, const Map *m)
{
    if (s->walked || m->flat || m->nindex) return;
    memset(s->step, 0, sizeof s->step);
    for (int d = 0; d < m->rank; d++) {
        int64_t bytes = step_of(s->gr, id, d);
        for (int k = 0; k < s->own.n; k++) s->step[k] += bytes * m->step[d][k];
    }
    s->walked = true;
    for (int k = 0; k < s->own.n; k++) {
        s->step[k] = s->step[k] < 0 ? -s->step[k] : s->step[k];
        s->walked = s->walked && s->step[k];
    }
}

void scan_in_order(Scan *s)
{
    int order[MAX_DOMAIN];
    int8_t place[MAX_DOMAIN];
    Own own = s->own;
    if (!s->walked) return;
    for (int k = 0; k < own.n; k++) {
        int at = k;
        for (; at > 0 && s->step[order[at - 1]] < s->step[k]; at--) order[at] = order[at - 1];
        order[at] = k;
    }
    for (int k = 0; k < own.n; k++) {
        place[order[k]] = (int8_t)k;
        s->own.extent[k] = own.extent[order[k]];
    }
    for (int d = 0; d < MAX_RANK; d++) if (own.of[d] >= 0 && own.of[d] < own.n) s->own.of[d] = place[own.of[d]];
    for (uint32_t i = 0; i < s->leaves.len; i++) {
        Leaf *leaf = &s->leaves.at[i];
        for (int d = 0; leaf->select && d < node_at(s->gr->g, leaf->id)->rank; d++)
            if (leaf->sel[d] >= 0) leaf->sel[d] = place[leaf->sel[d]];
    }
    s->walked = false;                       /* done */
}

static void scan_leaf(Scan *s, Id id, const Map *m)
{
    const NodeInfo *info = &s->gr->info[id];
    Leaf *leaf = vec_push(s->gr->arena, &s->leaves);
    if (!leaf) { s->ok = false; return; }
    leaf->id = id;
    note_walk(s, id, m);
    leaf->select = !m->flat && !m->nindex && !m->clip;
    for (int d = 0; leaf->select && d < m->rank; d++) {
        leaf->sel[d] = -1;
        if (m->off[d]) leaf->select = false;
        for (int k = 0; k < m->naxes; k++)
            if (m->step[d][k] && m->step[d][k] != 1) leaf->select = false;
            else if (m->step[d][k]) {
                if (leaf->sel[d] >= 0) leaf->select = false;
                leaf->sel[d] = (int8_t)k;
            }
    }
    if (readable_from(s->gr, id, m) > s->ready) s->ready = readable_from(s->gr, id, m);
    if (s->ready > s->low) s->low = s->ready;
    if (info->group + (info->group != 0) > s->low) s->low = info->group + (info->group != 0);
    if (info->group > s->best) s->best = info->group;
}

static void scan(Scan *s, Id id, const Map *m)
{
    const Graph *g = s->gr->g;
    const Node *n = node_at(g, id);
    if (s->gr->info[id].group || n->op == OP_input) {
        scan_leaf(s, id, m);
    } else if (op_info[n->op].kind == KIND_VIEW) {
        int first;
        const Map *in = map_below(s->gr->arena, g, id, s->own.extent, m, &first), *at = in;
        for (int i = first; in && at && i < in->nindex; i++) {
            s->ops++;
            if ((at = map_of_index(s->gr->arena, in, i))) scan(s, in->index[i].node, at);
        }
        if (in && at) scan(s, node_in(g, id)[0], in);
        else s->ok = false;
    } else if (op_info[n->op].kind == KIND_ELEMENTWISE) {
        if (op_info[n->op].cost >= COST_DIV) s->costly = true;
        if (op_info[n->op].cost == COST_MATH) s->dear = true;
        if (s->ops++ > FLOAT_OPS * 4u) return;
        for (int i = 0; i < n->nin; i++) scan(s, node_in(g, id)[i], m);
    }
}

bool scan_node(Scan *s, Grouping *gr, Id id)
{
    memset(s, 0, sizeof *s);
    s->gr = gr;
    s->of = id;
    s->ok = true;
    if (!own_axes(gr, id, &s->own)) return false;
    Map m;
    map_select(&m, node_at(gr->g, id)->rank, s->own.n, s->own.of);
    if (op_info[node_at(gr->g, id)->op].kind == KIND_ELEMENTWISE) {
        for (int i = 0; i < node_at(gr->g, id)->nin; i++) scan(s, node_in(gr->g, id)[i], &m);
        s->ops++;
        s->costly = s->costly || op_info[node_at(gr->g, id)->op].cost >= COST_DIV;
        s->dear = s->dear || op_info[node_at(gr->g, id)->op].cost == COST_MATH;
    } else {
        scan(s, id, &m);
    }
    return s->ok;
}

/* ---- joining ---- */

/* Aligns the node's own axes with the domain of group `n`: through the leaves that are its members, then by equal extents in order. */
static bool align(const Scan *s, uint32_t n, int8_t *axis)
{
    const Group *gp = &s->gr->groups.at[n];
    uint32_t used = gp->summed;
    if (gp->host || n < s->ready) return false;
    for (int j = 0; j < s->own.n; j++) axis[j] = -1;
    for (uint32_t i = 0; i < s->leaves.len; i++) {
        const Leaf *leaf = &s->leaves.at[i];
        const NodeInfo *info = &s->gr->info[leaf->id];
        if (info->group != n) continue;
        if (!leaf->select || leaf->id == gp->then || op_info[node_at(s->gr->g, leaf->id)->op].kind == KIND_PLACE) return false;
        for (int d = 0; d < node_at(s->gr->g, leaf->id)->rank; d++) {
            int j = leaf->sel[d], a = info->axis[d];
            if ((j < 0) != (a < 0)) return false;
            if (j < 0) continue;
            if (axis[j] >= 0 ? axis[j] != a : used >> a & 1) return false;          /* x[:, None] and x[None, :] are two walks */
            if (s->own.extent[j] != gp->extent[a]) return false;
            axis[j] = (int8_t)a;
            used |= 1u << a;
        }
    }
    for (int j = 0, a = 0; j < s->own.n; j++) {
        if (axis[j] >= 0) continue;
        while (a < gp->naxes && (used >> a & 1 || gp->extent[a] != s->own.extent[j])) a++;
        if (a == gp->naxes) return false;
        axis[j] = (int8_t)a;
        used |= 1u << a;
    }
    return true;
}

static uint32_t mask_of(const int8_t *axis, int n)
{
    uint32_t m = 0;
    for (int j = 0; j < n; j++) if (axis[j] >= 0) m |= 1u << axis[j];
    return m;
}

uint8_t scan_phase(const Scan *s, uint32_t n)
{
    uint8_t p = 0;
    for (uint32_t i = 0; i < s->leaves.len; i++) {
        const NodeInfo *info = &s->gr->info[s->leaves.at[i].id];
        if (info->group == n && info->phase > p) p = info->phase;
    }
    return p;
}

/* Whether a value of a row of group n is better computed for many rows at once, in a loop of its own: an elementary function that no loop over the row waits for. */
static bool waits(const Scan *s, const Group *gp)
{
    return s->dear && !gp->dot && !s->gr->info[s->of].grows && node_size(s->gr->g, s->of) >= MANY_ROWS;
}

bool scan_may_join(const Scan *s, uint32_t n, int8_t *axis)
{
    const Group *gp = &s->gr->groups.at[n];
    if (gp->nvals + s->ops > GROUP_VALS || !align(s, n, axis)) return false;
    uint32_t all = ((1u << gp->naxes) - 1) & ~gp->summed, mask = mask_of(axis, s->own.n);
    if (gp->inner) return nest_takes(s, n, mask);
    bool full = mask == all, row = gp->reduced && !gp->scan && mask == (all & ~gp->reduced);
    if (full && gp->reduced && !gp->scan && gp->closed && scan_phase(s, n)) return false;
    return full || (row && !waits(s, gp));
}

/* Whether the group is known to read a buffer. */
static bool reads(const Group *gp, Id id)
{
    for (uint32_t i = 0; i < gp->operands.len; i++) if (gp->operands.at[i] == id) return true;
    return false;
}

/* Whether one pass over memory serves both: they read a common array, or all of it is small. */
static bool shares_operand(const Scan *s, const Group *gp)
{
    int64_t size = 1;
    for (int k = 0; k < gp->naxes; k++) size *= gp->extent[k];
    if (size <= 4096) return true;
    for (uint32_t k = 0; k < s->leaves.len; k++) if (reads(gp, s->leaves.at[k].id)) return true;
    return false;
}

/* Whether a loop has registers for one more reduction, of what was scanned. */
static bool carries_more(const Scan *s, const Group *gp)
{
    if (gp->reductions < OWN_REDUCTIONS) return true;
    for (uint32_t k = 0; k < s->leaves.len; k++) if (!reads(gp, s->leaves.at[k].id)) return false;
    return gp->operands.len < OWN_REDUCTIONS && gp->reductions < GROUP_REDUCTIONS;
}

bool scan_joined(const Scan *s, uint32_t n)
{
    Group *gp = &s->gr->groups.at[n];
    gp->nvals += s->ops;
    for (uint32_t k = 0; k < s->leaves.len && gp->operands.len < MOST_OPERANDS; k++) {
        if (reads(gp, s->leaves.at[k].id)) continue;
        Id *at = vec_push(s->gr->arena, &gp->operands);
        if (!at) return false;
        *at = s->leaves.at[k].id;
    }
    return true;
}

uint32_t group_new(Grouping *gr, int naxes, const int64_t *extent)
{
    Group *gp = vec_push(gr->arena, &gr->groups);
    if (!gp) return 0;
    gp->naxes = naxes;
    memcpy(gp->extent, extent, sizeof(int64_t) * (size_t)naxes);
    return gr->groups.len - 1;
}

static bool same_domain(const Group *gp, const Own *own)
{
    return gp->naxes == own->n && !memcmp(gp->extent, own->extent, sizeof(int64_t) * (size_t)own->n);
}

uint32_t scan_group(const Scan *s, uint32_t low, uint32_t reduced, bool only_new)
{
    Grouping *gr = s->gr;
    uint32_t last = gr->groups.len - 1, tries = 0;
    if (low == 0) low = 1;
    for (uint32_t n = last; !only_new && n >= low && n > 0 && tries < 8; n--, tries++) {
        Group *gp = &gr->groups.at[n];
        if (!same_domain(gp, &s->own) || gp->dot || gp->host || gp->scan || gp->carry || gp->inner || gp->nvals + s->ops > GROUP_VALS) continue;
        if (reduced && ((gp->reduced && gp->reduced != reduced) || gp->tiles || !carries_more(s, gp))) continue;
        if (shares_operand(s, gp)) return n;
    }
    ASSERT(low <= last + 1);
    return group_new(gr, s->own.n, s->own.extent);
}

/* ---- members ---- */

static void member(Grouping *gr, Id id, uint32_t n, const Own *own, const int8_t *axis, uint8_t phase)
{
    NodeInfo *info = &gr->info[id];
    Group *gp = &gr->groups.at[n];
    info->group = n;
    info->phase = phase;
    for (int d = 0; d < node_at(gr->g, id)->rank; d++) info->axis[d] = own->of[d] < 0 ? -1 : axis[own->of[d]];
    info->row = gp->reduced && !gp->scan && !(mask_of(axis, own->n) & gp->reduced);
    gp->nvals += 1;
}

uint32_t group_force(Grouping *gr, Id id, uint32_t floor)
{
    if (gr->info[id].group) return gr->info[id].group;
    Scan s;
    int8_t axis[MAX_DOMAIN];
    if (!scan_node(&s, gr, id)) return 0;
    uint32_t low = s.low > floor ? s.low : floor, n = s.best >= floor ? s.best : 0;
    scan_in_order(&s);
    if (!n || !scan_may_join(&s, n, axis)) {
        n = scan_group(&s, low, 0, false);
        identity_axes(axis);
    }
    if (!n) return 0;
    member(gr, id, n, &s.own, axis, scan_phase(&s, n));
    return scan_joined(&s, n) ? n : 0;
}

Root *group_root(Grouping *gr, uint32_t n, Id value, Id buffer, const int8_t *axis, uint8_t phase)
{
    Root *r = vec_push(gr->arena, &gr->groups.at[n].roots);
    if (!r) return NULL;
    r->value = value;
    r->buffer = buffer;
    r->phase = phase;
    memcpy(r->axis, axis, MAX_RANK);
    return r;
}

/* Makes sure that node id has a buffer of its own. */
bool group_store(Grouping *gr, Id id)
{
    NodeInfo *info = &gr->info[id];
    if (info->stored) return true;
    uint32_t n = group_force(gr, id, 0);
    if (!n) return false;
    info->stored = true;
    return group_root(gr, n, id, id, info->axis, info->phase) != NULL;
}

/* Whether the value of id is (or can be made, by storing it) a C-contiguous buffer without a copy of stored data. */
static bool has_buffer(const Grouping *gr, Id id)
{
    const Node *n = node_at(gr->g, id);
    if (n->op == OP_input) return group_contiguous_input(gr, id);
    if (gr->info[id].stored) return true;
    return op_info[n->op].kind != KIND_VIEW && op_info[n->op].kind != KIND_SOURCE;
}

Id group_base(const Grouping *gr, Id id)
{
    Id b = id;
    while (node_at(gr->g, b)->op == OP_reshape && !gr->info[b].stored) b = node_in(gr->g, b)[0];
    return has_buffer(gr, b) && node_at(gr->g, b)->op != OP_input ? b : id;
}

/* Makes a C-contiguous copy of an input for those who read it by linear index. */
static bool copy_input(Grouping *gr, Id id)
{
    uint32_t *group = &gr->copy_group[node_attr(gr->g, id)[0]];
    Scan s;
    int8_t axis[MAX_RANK];
    if (*group || group_contiguous_input(gr, id)) return true;
    if (!scan_node(&s, gr, id) || !(*group = scan_group(&s, 0, 0, false))) return false;
    for (int d = 0; d < node_at(gr->g, id)->rank; d++) axis[d] = s.own.of[d];
    return group_root(gr, *group, id, gr->nnodes + (Id)node_attr(gr->g, id)[0], axis, 0) != NULL;
}

/* A reshape that joins axes: readers may need the linear index, so what it reshapes gets a contiguous buffer. */
static bool visit_reshape(Grouping *gr, Id id)
{
    const Graph *g = gr->g;
    Own own;
    if (!own_axes(gr, id, &own)) return false;
    Map m;
    map_select(&m, node_at(g, id)->rank, own.n, own.of);
    Id base = id;
    while (op_info[node_at(g, base)->op].kind == KIND_VIEW && !gr->info[base].stored) {
        if (!map_through(g, base, own.extent, &m)) break;
        base = node_in(g, base)[0];
    }
    if (op_info[node_at(g, base)->op].kind != KIND_VIEW || gr->info[base].stored) return true;
    Id a = node_in(g, base)[0];
    while (node_at(g, a)->op == OP_reshape && !gr->info[a].stored) a = node_in(g, a)[0];
    if (node_at(g, a)->op == OP_const) return true;
    return node_at(g, a)->op == OP_input ? copy_input(gr, a) : group_store(gr, a);
}

/* A broadcast that repeats elements: what costs more than a few ops must not be evaluated once per repetition. */
static bool visit_broadcast(Grouping *gr, Id id)
{
    const Graph *g = gr->g;
    Id a = node_in(g, id)[0], b = a;
    if (node_size(g, id) == node_size(g, a)) return true;
    while (op_info[node_at(g, b)->op].kind == KIND_VIEW && node_at(g, b)->op != OP_gather && !gr->info[b].group) b = node_in(g, b)[0];
    const NodeInfo *info = &gr->info[b];
    if (node_at(g, b)->op == OP_gather && !info->group) return group_store(gr, b);
    if (op_info[node_at(g, b)->op].kind != KIND_ELEMENTWISE || info->group) return true;
    if (!info->costly && info->ops <= CHEAP_OPS) return true;
    return group_force(gr, b, 0) != 0;
}

/* Array `id`, which a gather reads, is evaluated once: it is not cheap, or more is read than there is. */
static bool visit_gathered(Grouping *gr, Id id, int64_t reads)
{
    const Graph *g = gr->g;
    Id b = id;
    while (op_info[node_at(g, b)->op].kind == KIND_VIEW && node_at(g, b)->op != OP_gather && !gr->info[b].group) b = node_in(g, b)[0];
    const NodeInfo *info = &gr->info[b];
    if (node_at(g, b)->op == OP_gather && !info->group) return group_store(gr, b);
    if (op_info[node_at(g, b)->op].kind != KIND_ELEMENTWISE || info->group) return true;
    if (!info->costly && info->ops <= CHEAP_OPS && reads <= node_size(g, b)) return true;
    return group_store(gr, b);
}

/* A gather floats as the other views do; the values of its index arrays are used once per element of x's other axes. */
static bool visit_gather(Grouping *gr, Id id)
{
    const Graph *g = gr->g;
    const Id *in = node_in(g, id);
    int64_t size = node_size(g, id);
    if (!visit_gathered(gr, in[0], size)) return false;
    for (int k = 1; k < node_at(g, id)->nin; k++)
        if (size != node_size(g, in[k]) && gr->info[in[k]].costly && !visit_gathered(gr, in[k], INT64_MAX)) return false;
    return true;
}

static bool visit_elementwise(Grouping *gr, Id id)
{
    Scan s;
    int8_t axis[MAX_DOMAIN];
    NodeInfo *info = &gr->info[id];
    if (!scan_node(&s, gr, id)) return false;
    info->ops = (uint16_t)(s.ops < 60000 ? s.ops : 60000);
    info->costly = s.costly;
    bool joins = false, small = node_size(gr->g, id) * dtype_info[node_at(gr->g, id)->dtype].bytes <= (gr->target->l1 ? (int64_t)gr->target->l1 : FIRST_CACHE);
    uint32_t members = 0;
    for (uint32_t i = 0; i < s.leaves.len; i++) {
        joins = joins || gr->info[s.leaves.at[i].id].group == s.best;
        members += gr->info[s.leaves.at[i].id].group != 0 && (small || node_size(gr->g, s.leaves.at[i].id) >= node_size(gr->g, id));
    }
    info->members = (uint8_t)(members < 255 ? members : 255);
    if (s.best && joins && scan_may_join(&s, s.best, axis)) {
        member(gr, id, s.best, &s.own, axis, scan_phase(&s, s.best));
        return true;
    }
    if ((info->uses > 1 && (s.costly || s.ops > CHEAP_OPS)) || s.ops > FLOAT_OPS) return group_force(gr, id, 0) != 0;
    return true;
}

/* Whether a reduction of elements of `bytes` over these extents is split over grid points, so that what follows it is another kernel. A row
 * that fits in the second cache is not: what follows finds it there. last: the last axis is reduced. */
static bool is_split(const Grouping *gr, const Group *gp, int64_t bytes, bool last)
{
    int64_t kept = 1, red = 1, l2 = gr->target->l2 ? (int64_t)gr->target->l2 : 1 << 20;
    for (int k = 0; k < gp->naxes; k++) {
        if (gp->reduced >> k & 1) red *= gp->extent[k];
        else kept *= gp->extent[k];
    }
    return kept * red > SPLIT_SIZE && (last ? kept <= SPLIT_KEPT && red * bytes > l2 : red > SPLIT_ROWS);
}

/* Remembers which domain axes the input v of a reduction or scan runs over. */
static bool note_input_axes(Grouping *gr, Id id, const Scan *s, Id v, const int8_t *axis)
{
    int8_t *of = arena_alloc(gr->arena, MAX_RANK);
    if (!of) return false;
    for (int d = 0; d < node_at(gr->g, v)->rank; d++) of[d] = s->own.of[d] < 0 ? -1 : axis[s->own.of[d]];
    gr->info[id].in_axis = of;
    return true;
}

/* Whether the last axis of the product's domain is its columns: a product with a vector has none. */
static bool is_columns(const Grouping *gr, const Group *gp)
{
    return gr->info[gp->dot].axis[node_at(gr->g, gp->dot)->rank - 1] == gp->naxes - 1;
}

/* A sum of products over batch axes, all that the products are used for: one product that adds up. */
static bool sum_of_products(Grouping *gr, Id id)
{
    const Graph *g = gr->g;
    Id v = node_in(g, id)[0];
    uint32_t n = gr->info[v].group, summed = 0;
    int rank = node_at(g, v)->rank;
    if (node_at(g, id)->op != OP_reduce_sum || node_at(g, v)->op != OP_dot || node_at(g, id)->dtype != node_at(g, v)->dtype) return false;
    if (!n || gr->groups.at[n].dot != v || gr->groups.at[n].sum || gr->info[v].uses != 1 || gr->info[v].stored) return false;
    if (node_attr(g, id)[0] >> (rank - 2) || !node_size(g, v)) return false;
    for (int d = 0; d < rank - 2; d++)
        if ((node_attr(g, id)[0] >> d & 1) && gr->info[v].axis[d] >= 0) summed |= 1u << gr->info[v].axis[d];
    if (!summed) return false;
    NodeInfo *info = &gr->info[id];
    info->group = n;
    for (int d = 0, k = 0; d < rank; d++)
        if (!(node_attr(g, id)[0] >> d & 1)) info->axis[k++] = gr->info[v].axis[d];
    gr->groups.at[n].sum = id;
    gr->groups.at[n].summed = summed;
    gr->groups.at[n].nvals++;
    return true;
}

/* Whether a reduction of what was scanned, over its own axes `over`, can run in the best of the leaves' groups, which may become nested. */
static bool reduces_in(Grouping *gr, const Scan *s, uint32_t over, const int8_t *axis, Id id)
{
    const Group *gp = &gr->groups.at[s->best];
    uint32_t red = 0, all = ((1u << gp->naxes) - 1) & ~gp->summed, mask = mask_of(axis, s->own.n);
    for (int j = 0; j < s->own.n; j++) if (over >> j & 1) red |= 1u << axis[j];
    if (gp->nvals + s->ops > GROUP_VALS || gp->tiles || !carries_more(s, gp)) return false;
    if (gp->inner) return red == (mask == all ? gp->inner : gp->reduced & ~gp->inner) && mask != (all & ~gp->reduced) && nest_takes(s, s->best, mask);
    if (mask != all) return nest_begin(gr, s, s->best, mask, red, id);
    return !gp->scan && (!gp->reduced || gp->reduced == red) && (!gp->dot || (red == 1u << (gp->naxes - 1) && is_columns(gr, gp) && !after_is_apart(gr, gp->dot)))
        && !(gp->closed && scan_phase(s, s->best));
}

/* Stores a floating value that reads arrays which lie along different axes, in a group of its own: what reduces it then reads it in order. */
static bool store_across(Grouping *gr, Id v)
{
    Scan s;
    int8_t axis[MAX_DOMAIN];
    NodeInfo *info = &gr->info[v];
    if (op_info[node_at(gr->g, v)->op].kind != KIND_ELEMENTWISE || info->group) return true;
    if (!scan_node(&s, gr, v)) return false;
    if (!scan_lies_across(&s)) return true;
    uint32_t n = scan_group(&s, s.low, 0, true);
    if (!n) return false;
    identity_axes(axis);
    member(gr, v, n, &s.own, axis, 0);
    gr->groups.at[n].tiles = true;
    info->stored = true;
    return scan_joined(&s, n) && group_root(gr, n, v, v, info->axis, 0);
}

static bool visit_reduce(Grouping *gr, Id id)
{
    if (sum_of_products(gr, id)) return true;
    if (!store_across(gr, node_in(gr->g, id)[0])) return false;
    const Graph *g = gr->g;
    Id v = node_in(g, id)[0];
    Scan s;
    Own own;
    int8_t axis[MAX_DOMAIN];
    if (!scan_node(&s, gr, v) || !own_axes(gr, id, &own)) return false;
    scan_in_order(&s);
    uint32_t over = 0, n = 0;                              /* own axes of v that are reduced */
    for (int d = 0; d < node_at(g, v)->rank; d++)
        if (s.own.of[d] >= 0 && (node_attr(g, id)[0] >> d & 1)) over |= 1u << s.own.of[d];
    if (s.best && align(&s, s.best, axis) && reduces_in(gr, &s, over, axis, id)) n = s.best;
    if (!n) {
        n = scan_group(&s, s.low, over, false);
        identity_axes(axis);
    }
    if (!n) return false;
    Group *gp = &gr->groups.at[n];
    uint32_t red = 0;
    for (int j = 0; j < s.own.n; j++) if (over >> j & 1) red |= 1u << axis[j];
    gp->reduced |= red;
    gp->reductions++;
    int last = node_at(g, v)->rank - 1;
    while (last >= 0 && s.own.of[last] < 0) last--;
    gp->closed = is_split(gr, gp, dtype_info[node_at(g, v)->dtype].bytes, last >= 0 && gp->reduced >> axis[s.own.of[last]] & 1);
    int8_t kept[MAX_DOMAIN];
    for (int d = 0, k = 0; d < node_at(g, v)->rank; d++)
        if (!(node_attr(g, id)[0] >> d & 1) && s.own.of[d] >= 0) kept[k++] = axis[s.own.of[d]];
    bool inner = gp->inner && mask_of(axis, s.own.n) == (1u << gp->naxes) - 1;
    member(gr, id, n, &own, kept, (uint8_t)(scan_phase(&s, n) + !inner));
    gr->info[id].row = !inner;
    return scan_joined(&s, n) && note_input_axes(gr, id, &s, v, axis);
}

static bool visit_scan(Grouping *gr, Id id)
{
    Scan s;
    int8_t axis[MAX_DOMAIN];
    Id v = node_in(gr->g, id)[0];
    if (!scan_node(&s, gr, v)) return false;
    uint32_t n = scan_group(&s, s.low, 0, true);
    if (!n) return false;
    identity_axes(axis);
    int d = (int)node_attr(gr->g, id)[0];
    gr->groups.at[n].scan = true;
    if (s.own.of[d] >= 0) gr->groups.at[n].reduced = 1u << s.own.of[d];
    member(gr, id, n, &s.own, axis, 0);
    return scan_joined(&s, n) && note_input_axes(gr, id, &s, v, axis);
}

/* A product's operand: a stored array seen through views that the product can address, else a copy. */
static bool store_operand(Grouping *gr, Id id)
{
    const Graph *g = gr->g;
    Own own;
    if (!own_axes(gr, id, &own)) return false;
    Map m;
    map_select(&m, node_at(g, id)->rank, own.n, own.of);
    Id b = id;
    while (op_info[node_at(g, b)->op].kind == KIND_VIEW && !gr->info[b].stored) {
        if (node_at(g, b)->op == OP_margin) return group_store(gr, b);
        if (!map_through(g, b, own.extent, &m) && !has_buffer(gr, group_base(gr, node_in(g, b)[0]))) return group_store(gr, id);
        b = node_in(g, b)[0];
    }
    if (m.nindex) return group_store(gr, id);
    if (node_at(g, b)->op == OP_input) return !m.flat || group_contiguous_input(gr, b) || group_store(gr, id);
    if (op_info[node_at(g, b)->op].kind == KIND_SOURCE) return group_store(gr, id);
    return group_store(gr, b);
}

/* Whether the operand, a floating value that nobody else reads, is computed while it is packed: seen through views that repeat nothing but whole
 * matrices, and large enough for a launch of its own. */
static bool pack_computes(Grouping *gr, Id id)
{
    const Graph *g = gr->g;
    int rank = node_at(g, id)->rank;
    Own own;
    Map m;
    if (!own_axes(gr, id, &own) || own.of[rank - 1] < 0 || own.of[rank - 2] < 0 || node_size(g, id) < PACK_SIZE) return false;
    map_select(&m, rank, own.n, own.of);
    for (; op_info[node_at(g, id)->op].kind == KIND_VIEW && !gr->info[id].stored; id = node_in(g, id)[0])
        if (node_at(g, id)->op == OP_window || node_at(g, id)->op == OP_gather || node_at(g, id)->op == OP_margin || !map_through(g, id, own.extent, &m) || m.nindex) return false;
    const NodeInfo *info = &gr->info[id];
    return op_info[node_at(g, id)->op].kind == KIND_ELEMENTWISE && !info->group && !info->stored && info->uses == 1;
}

/* Whether the left operand's rows are better made in the product's kernel (feed.c) than packed: computed element by element of arrays that lie along them. */
static bool rows_are_fed(Grouping *gr, Id id)
{
    const Node *n = node_at(gr->g, id);
    Scan s;
    if (op_info[n->op].kind != KIND_ELEMENTWISE || node_shape(gr->g, id)[n->rank - 1] * dtype_info[n->dtype].bytes > FED_ROW_BYTES || !scan_node(&s, gr, id)) return false;
    for (uint32_t i = 0; i < s.leaves.len; i++) {
        const Leaf *leaf = &s.leaves.at[i];
        const Node *of = node_at(gr->g, leaf->id);
        if (!leaf->select) return false;
        for (int d = 0; d < of->rank; d++)
            if (leaf->sel[d] >= 0 && leaf->sel[d] == s.own.of[n->rank - 1] && step_of(gr, leaf->id, d) != dtype_info[of->dtype].bytes) return false;
    }
    return true;
}

static bool visit_dot(Grouping *gr, Id id)
{
    const Graph *g = gr->g;
    const Id *in = node_in(g, id);
    bool joined = false, rows = after_rows(gr, id) != 0;
    if ((rows || !pack_computes(gr, in[1])) && !store_operand(gr, in[1])) return false;
    if (rows && (!after_join(gr, id, &joined) || joined)) return joined;
    if ((rows_are_fed(gr, in[0]) || !pack_computes(gr, in[0])) && !store_operand(gr, in[0])) return false;
    int8_t axis[MAX_DOMAIN];
    Own own;
    if (!own_axes(gr, id, &own)) return false;
    if (own.n > MAX_DOMAIN - 4) return err_set(g->err, ERR_UNSUPPORTED, "a product over more than %d axes; reshape some of them to one axis", MAX_DOMAIN - 4);
    uint32_t n = group_new(gr, own.n, own.extent);         /* above all others, so it may read what they compute */
    if (!n) return false;
    identity_axes(axis);
    gr->groups.at[n].dot = id;
    gr->groups.at[n].extent[own.n] = node_shape(g, in[1])[node_at(g, id)->rank - 2];      /* k */
    member(gr, id, n, &own, axis, 0);
    return true;
}

/* ---- reading from other groups ---- */

/* The map over the axes of a buffer of what m reads of a value that lies in a box of it. */
static void map_into_box(Map *m, const Box *box)
{
    for (int d = 0; d < m->rank; d++) {
        m->off[d] = box->off[d] + box->step[d] * m->off[d];
        for (int k = 0; k < m->naxes; k++) m->step[d][k] *= box->step[d];
    }
    for (int i = 0; i < m->nindex; i++) m->index[i].factor *= box->step[m->index[i].row];
}

Id group_source(const Grouping *gr, uint32_t n, Id id, const Map *m, Map *at)
{
    const NodeInfo *info = &gr->info[id];
    OpKind kind = op_info[node_at(gr->g, id)->op].kind;
    if (!info->group || (kind != KIND_PLACE && info->group >= n)) return 0;
    map_unpack(at, m);
    if (info->placed && !m->flat && !info->pinned && gr->info[info->placed].group < n) {
        map_into_box(at, info->placed_box);
        return info->placed;
    }
    bool finished = gr->groups.at[info->group].dot != 0;       /* else the product itself would be stored, and read again with all that finishes it */
    bool cheap = kind == KIND_ELEMENTWISE && !finished && !info->costly && info->ops <= CHEAP_OPS && info->members <= 1;
    return cheap && !info->pinned && !m->flat ? 0 : id;
}

/* ---- the pass ---- */

/* Uses count through views: an array seen through two views is used twice. Also finds what is broadcast. */
static void count_uses(Grouping *gr)
{
    const Graph *g = gr->g;
    for (uint32_t i = 0; i < g->outputs.len; i++) gr->info[g->outputs.at[i]].uses++;
    for (Id id = g->nodes.len - 1; id > 0; id--) {
        const Node *n = node_at(g, id);
        if (!gr->info[id].uses && n->op != OP_check) continue;                  /* dead */
        bool view = op_info[n->op].kind == KIND_VIEW;
        uint32_t add = view && gr->info[id].uses > 1 ? gr->info[id].uses : 1;
        for (int i = 0; i < n->nin; i++) {
            NodeInfo *in = &gr->info[node_in(g, id)[i]];
            in->uses += add;
            in->grows |= node_size(g, id) > node_size(g, node_in(g, id)[i]) || ((view || op_info[n->op].kind == KIND_ELEMENTWISE) && gr->info[id].grows);
        }
    }
}

static bool has_dynamic_offset(const Graph *g, Id id)
{
    int64_t bits;
    for (int i = 2; i < node_at(g, id)->nin; i++)
        if (node_at(g, id)->op == OP_update && !node_const(g, node_in(g, id)[i], &bits)) return true;
    return false;
}

/* Whether a scatter is among the places that would be written straight into the buffer of another place with v. */
static bool holds_scatter(const Grouping *gr, Id v)
{
    while (node_at(gr->g, v)->op == OP_update && gr->info[node_in(gr->g, v)[0]].inner) v = node_in(gr->g, v)[0];
    return node_at(gr->g, v)->op == OP_scatter;
}

static void mark_inner(Grouping *gr)
{
    const Graph *g = gr->g;
    for (Id id = 1; id < g->nodes.len; id++) {
        const Node *n = node_at(g, id);
        if (op_info[n->op].kind != KIND_PLACE || !gr->info[id].uses) continue;
        for (int i = 0; i < n->nin; i++) {
            Id v = node_in(g, id)[i];
            if (op_info[node_at(g, v)->op].kind != KIND_PLACE || gr->info[v].uses != 1) continue;
            bool below = n->op != OP_concatenate && i == 0;
            if (i > 1 && n->op != OP_concatenate) continue;
            if (n->op == OP_scatter ? !below : !below && holds_scatter(gr, v)) continue;
            if (below && node_at(g, v)->op == OP_update && place_is_read(gr, node_in(g, v)[1])) continue;
            gr->info[v].inner = below || (!has_dynamic_offset(g, v) && !has_dynamic_offset(g, id));
        }
    }
}

/* A check of what a host call gave: a root of a later group. */
static bool add_item_check(Grouping *gr, Id id, Id pred)
{
    Scan s;
    int8_t axis[MAX_RANK];
    if (!scan_node(&s, gr, pred)) return false;
    for (int d = 0; d < node_at(gr->g, pred)->rank; d++) axis[d] = s.own.of[d];
    uint32_t n = scan_group(&s, s.low, 0, false);
    Root *r = n && scan_joined(&s, n) ? group_root(gr, n, pred, 0, axis, 0) : NULL;
    if (r) r->check = id;
    return r != NULL;
}

/* A check is a root of the group of its predicate. */
static bool add_check(Grouping *gr, Id id)
{
    Id pred = node_in(gr->g, id)[0];
    if (!node_size(gr->g, pred)) return true;
    if (gr->info[pred].group && gr->groups.at[gr->info[pred].group].host) return add_item_check(gr, id, pred);
    uint32_t n = group_force(gr, pred, 0);
    Root *r = n ? group_root(gr, n, pred, 0, gr->info[pred].axis, gr->info[pred].phase) : NULL;
    if (r) r->check = id;
    return r != NULL;
}

static bool visit(Grouping *gr, Id id)
{
    const Node *n = node_at(gr->g, id);
    switch ((OpKind)op_info[n->op].kind) {
    case KIND_SOURCE: return true;
    case KIND_ELEMENTWISE: return visit_elementwise(gr, id);
    case KIND_VIEW:
        if (n->op == OP_broadcast || n->op == OP_window) return visit_broadcast(gr, id);
        if (n->op == OP_gather) return visit_gather(gr, id);
        if (n->op == OP_margin) return node_at(gr->g, node_in(gr->g, id)[0])->op == OP_input || group_store(gr, node_in(gr->g, id)[0]);
        return n->op != OP_reshape || visit_reshape(gr, id);
    case KIND_PLACE: return group_place(gr, id);
    case KIND_REDUCE: return visit_reduce(gr, id);
    case KIND_SCAN: return visit_scan(gr, id);
    case KIND_DOT: return visit_dot(gr, id);
    case KIND_CONTROL:
        if (n->op == OP_check) return add_check(gr, id);
        if (n->op == OP_host) return host_visit(gr, id);
        if (n->op != OP_item || node_at(gr->g, node_in(gr->g, id)[0])->op != OP_host) break;
        host_visit_item(gr, id);
        return true;
    case KIND_COMPOSITE: break;
    }
    return err_set(gr->g->err, ERR_UNSUPPORTED, "%s cannot be compiled yet", op_info[n->op].name);
}

/* Whether output i, which shows the buffer of `base`, is to have strides that only a buffer of its own can have. */
static bool lies_otherwise(const Grouping *gr, const PlanOutput *out, const int64_t *wanted, uint32_t i, Id base)
{
    Id o = gr->g->outputs.at[i];
    const Node *n = node_at(gr->g, o);
    int64_t plain[MAX_RANK], moved[MAX_RANK];
    if (base == o || out[i].into >= 0 || node_size(gr->g, o) <= 1) return false;
    order_contiguous(dtype_info[n->dtype].bytes, n->rank, node_shape(gr->g, o), NULL, plain);
    wanted += (size_t)i * MAX_RANK;
    for (int d = 0; d < n->rank; d++)
        if (node_shape(gr->g, o)[d] > 1 && plain[d] != wanted[d]) return !order_moved(gr->g, o, wanted, base, moved);
    return false;
}

static bool add_output(Grouping *gr, const PlanOutput *out, const int64_t *wanted, uint32_t i)
{
    Id *base = vec_push(gr->arena, &gr->out_base);
    if (!base) return false;
    Id o = gr->g->outputs.at[i];
    *base = node_at(gr->g, o)->op == OP_input ? o : group_base(gr, o);
    if (lies_otherwise(gr, out, wanted, i, *base)) *base = o;
    return *base == o && node_at(gr->g, o)->op == OP_input ? true : group_store(gr, *base);
}

/* Checks of values that are computed from arguments alone, element by element, come before all else: what is written later may then lie in the
 * memory of an argument. Marks them and what they need. */
static bool mark_early(const Grouping *gr, bool *early)
{
    const Graph *g = gr->g;
    bool *plain = arena_alloc(gr->arena, g->nodes.len);
    if (!plain) return false;
    for (Id id = 1; id < g->nodes.len; id++) {
        OpKind kind = op_info[node_at(g, id)->op].kind;
        plain[id] = kind == KIND_SOURCE || kind == KIND_VIEW || kind == KIND_ELEMENTWISE || node_at(g, id)->op == OP_check;
        for (int i = 0; i < node_at(g, id)->nin; i++) plain[id] = plain[id] && plain[node_in(g, id)[i]];
    }
    for (Id id = g->nodes.len - 1; id > 0; id--) {
        early[id] = early[id] || (plain[id] && node_at(g, id)->op == OP_check);
        for (int i = 0; early[id] && i < node_at(g, id)->nin; i++) early[node_in(g, id)[i]] = true;
    }
    return true;
}

/* Values that are stored before an update, and what they need, come before what needs it not: the update would otherwise change what they read. */
static bool *mark_before(const Grouping *gr)
{
    const Graph *g = gr->g;
    bool *first = arena_alloc(gr->arena, g->nodes.len);
    for (Id id = g->nodes.len - 1; first && gr->before && id > 0; id--) {
        first[id] = first[id] || gr->before[id];
        for (int i = 0; first[id] && i < node_at(g, id)->nin; i++) first[node_in(g, id)[i]] = true;
    }
    return first;
}

static bool visit_all(Grouping *gr)
{
    const Graph *g = gr->g;
    bool *early = arena_alloc(gr->arena, g->nodes.len), *first = mark_before(gr);
    if (!early || !first || !mark_early(gr, early)) return false;
    for (int turn = 0; turn < 3; turn++)
        for (Id id = 1; id < g->nodes.len; id++)
            if ((early[id] ? 0 : first[id] ? 1 : 2) == turn && (gr->info[id].uses || node_at(g, id)->op == OP_check))
                if (!visit(gr, id) || (gr->before && gr->before[id] && !group_store(gr, id))) return false;
    return true;
}

Grouping *group_make(Arena *a, const Graph *g, const PlanInput *in, const Target *target, const bool *before, const PlanOutput *out, const int64_t *wanted)
{
    Grouping *gr = arena_alloc(a, sizeof *gr);
    if (!gr) return NULL;
    *gr = (Grouping){ .g = g, .arena = a, .in = in, .target = target, .before = before, .nnodes = g->nodes.len };
    gr->info = arena_alloc(a, sizeof(NodeInfo) * g->nodes.len);
    gr->copy_group = arena_alloc(a, sizeof *gr->copy_group * (g->inputs.len + 1));
    if (!gr->info || !gr->copy_group || !vec_push(a, &gr->groups)) return NULL;
    count_uses(gr);
    mark_inner(gr);
    if (!visit_all(gr)) return NULL;
    for (uint32_t i = 0; i < g->outputs.len; i++)
        if (!add_output(gr, out, wanted, i)) return NULL;
    for (Id id = 1; id < g->nodes.len; id++) gr->info[id].pinned = gr->info[id].stored;
    return g->err->kind ? NULL : gr;
}
