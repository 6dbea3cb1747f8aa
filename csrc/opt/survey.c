/* Walks every group from its roots, last phase first, and notes its loads, stores, reductions and tiles. */
#include <string.h>
#include "base/hash.h"
#include "opt/group.h"

typedef struct { Id id; uint8_t phase; const Map *map; } Seen;

typedef struct {
    Grouping *gr;
    uint32_t n;
    Group *gp;
    Survey *s;
    Seen *table;
    uint32_t cap, len;
    int root;                    /* as in Term */
    uint16_t chain;              /* indices that the value walked is part of, each of the next one's */
    bool row, ok;
} Walk;

/* Whether (id, map, phase) was met before; remembers it. */
static bool seen(Walk *w, Id id, const Map *m, uint8_t phase)
{
    phase = (uint8_t)(phase * 2 + w->row);
    if (w->len * 2 >= w->cap) {
        Seen *old = w->table;
        uint32_t cap = w->cap;
        w->cap = cap ? cap * 2 : 64;
        w->table = arena_alloc(w->gr->arena, sizeof(Seen) * w->cap);
        if (!w->table) { w->ok = false; return true; }
        for (uint32_t i = 0; i < cap; i++) {
            if (!old[i].id) continue;
            uint32_t at = (uint32_t)hash_mix(map_hash(old[i].map) + old[i].phase, old[i].id) & (w->cap - 1);
            while (w->table[at].id) at = (at + 1) & (w->cap - 1);
            w->table[at] = old[i];
        }
    }
    uint32_t at = (uint32_t)hash_mix(map_hash(m) + phase, id) & (w->cap - 1);
    for (; w->table[at].id; at = (at + 1) & (w->cap - 1))
        if (w->table[at].id == id && w->table[at].phase == phase && map_equal(w->table[at].map, m)) return true;
    const Map *copy = map_copy(w->gr->arena, m);
    if (!copy) { w->ok = false; return true; }
    w->table[at] = (Seen){ .id = id, .phase = phase, .map = copy };
    w->len++;
    return false;
}

/* A value that is computed; what happens once per row, or once for all (rank 0), does not decide how many lanes the others get. Complex numbers come
 * as two vectors of their parts. */
static void widen(Walk *w, Dtype dtype, int rank)
{
    if (dtype_info[dtype].kind == DKIND_COMPLEX) dtype = dtype == DT_complex64 ? DT_float32 : DT_float64;
    if (!w->row && rank && dtype_info[dtype].bytes > dtype_info[w->s->widest].bytes) w->s->widest = dtype;
}

/* Whether what is read is one element for all of a row. */
static bool is_of_row(const Walk *w, const Map *m)
{
    uint32_t moves = 0;
    for (int d = 0; d < m->rank; d++)
        for (int k = 0; k < m->naxes; k++) if (m->step[d][k]) moves |= 1u << k;
    return w->gp->reduced && !w->gp->scan && !w->gp->inner && !m->nindex && !(moves & w->gp->reduced);
}

/* An index that may lie outside its array is looked at by itself: the loops that it moves along stay apart. */
static void note_clip(Survey *s, const Map *m)
{
    for (int d = 0; d < m->rank; d++)
        for (int k = 0; k < m->naxes && m->clip >> d & 1; k++)
            if (m->step[d][k]) s->no_merge |= 1u << k;
}

static void add_term(Walk *w, TermKind kind, Id buffer, Dtype dtype, const Map *m, uint8_t phase, bool carry)
{
    Term *t = vec_push(w->gr->arena, &w->s->terms);
    const Map *copy = map_copy(w->gr->arena, m);
    if (!t || !copy) { w->ok = false; return; }
    *t = (Term){ .buffer = buffer, .kind = kind, .dtype = (uint8_t)dtype, .phase = phase, .carry = carry, .row = w->row,
                .root = w->root, .map = copy };
    note_clip(w->s, m);
    if (kind == TERM_STORE || !is_of_row(w, m)) widen(w, dtype, m->rank + m->nindex);
}

static void add_once(Walk *w, Id id, bool tile)
{
    uint32_t len = tile ? w->s->tiles.len : w->s->reduces.len;
    const Id *at = tile ? w->s->tiles.at : w->s->reduces.at;
    for (uint32_t i = 0; i < len; i++) if (at[i] == id) return;
    Id *slot = tile ? vec_push(w->gr->arena, &w->s->tiles) : vec_push(w->gr->arena, &w->s->reduces);
    if (slot) *slot = id; else w->ok = false;
}

static void walk(Walk *w, Id id, const Map *m, uint8_t phase);

static void walk_inputs(Walk *w, Id id, const Map *m, uint8_t phase)
{
    const Node *n = node_at(w->gr->g, id);
    static const int price[] = { 0, 1, 8, 20 };
    w->s->ops += price[op_info[n->op].cost];
    if (op_info[n->op].cost == COST_MATH) w->s->math += price[COST_MATH];
    widen(w, n->dtype, n->rank);
    for (int i = 0; i < n->nin; i++) walk(w, node_in(w->gr->g, id)[i], m, phase);
}

static void walk_view(Walk *w, Id id, const Map *m, uint8_t phase)
{
    int first;
    const Map *in = map_below(w->gr->arena, w->gr->g, id, w->gp->extent, m, &first);
    w->ok = w->ok && in;
    for (int i = first; w->ok && i < in->nindex; i++) {
        w->chain++;
        if (w->chain > w->s->chain) w->s->chain = w->chain;
        const Map *at = map_of_index(w->gr->arena, in, i);
        if (at) walk(w, in->index[i].node, at, phase);
        w->ok = w->ok && at;
        w->chain--;
    }
    if (w->ok) walk(w, node_in(w->gr->g, id)[0], in, phase);
}

static void walk_own(Walk *w, Id id, const Map *m, uint8_t phase)
{
    const NodeInfo *info = &w->gr->info[id];
    const Node *n = node_at(w->gr->g, id);
    OpKind kind = op_info[n->op].kind;
    if (id == w->gp->sum) return;
    if (kind == KIND_REDUCE || kind == KIND_SCAN) {
        add_once(w, id, false);
    } else if (kind == KIND_VIEW) {
        walk_view(w, id, m, phase);
    } else if (kind == KIND_ELEMENTWISE) {
        if (info->phase < phase && info->costly && !info->row) add_once(w, id, true);
        else walk_inputs(w, id, m, phase);
    }
}

/* Notes the load of a value of another group's that is stored; false: it is not. Its Map is no part of walk()'s frame, for values nest deeply. */
__attribute__((noinline)) static bool walk_stored(Walk *w, Id id, const Map *m, uint8_t phase)
{
    Map at;
    Id from = group_source(w->gr, w->n, id, m, &at);
    if (!from) return false;
    w->ok = w->ok && group_store(w->gr, from);
    add_term(w, TERM_LOAD, from, node_at(w->gr->g, id)->dtype, &at, phase, false);
    return true;
}

static void walk(Walk *w, Id id, const Map *m, uint8_t phase)
{
    Grouping *gr = w->gr;
    const Node *n = node_at(gr->g, id);
    const NodeInfo *info = &gr->info[id];
    if (!w->ok || n->op == OP_const || seen(w, id, m, phase)) return;
    if (n->op == OP_iota) {
        for (int k = 0; k < m->naxes; k++)
            if (m->step[0][k]) w->s->no_merge |= 1u << k;
    } else if (n->op == OP_input) {
        add_term(w, TERM_LOAD, group_input_buffer(gr, id, m), n->dtype, m, phase, false);
    } else if (info->group == w->n && op_info[n->op].kind != KIND_PLACE) {
        walk_own(w, id, m, phase);
    } else if (!walk_stored(w, id, m, phase)) {
        if (op_info[n->op].kind == KIND_VIEW) walk_view(w, id, m, phase);
        else walk_inputs(w, id, m, phase);
    }
}

bool root_is_row(const Grouping *gr, const Group *gp, const Root *r)
{
    if (!gp->reduced || gp->scan) return false;
    for (int d = 0; d < node_at(gr->g, r->value)->rank; d++)
        if (r->axis[d] >= 0 && gp->reduced >> r->axis[d] & 1) return false;
    return true;
}

/* Where the elements of scatter node r->scatter's value go: its indexed axes by the index arrays, the others as they are. */
static const Map *scatter_map(Grouping *gr, const Group *gp, const Root *r)
{
    const Graph *g = gr->g;
    const Id *index = node_in(g, r->scatter) + 2;
    int rs = node_at(g, index[0])->rank, rest = rs, k = 0;
    Map m, at;
    memset(&m, 0, sizeof m);
    map_select(&at, rs, gp->naxes, r->axis);
    const Map *read = rs ? map_copy(gr->arena, &at) : NULL;
    m.rank = node_at(g, r->scatter)->rank;
    m.naxes = gp->naxes;
    for (int d = 0; d < m.rank; d++) {
        if (!(node_attr(g, r->scatter)[1] >> d & 1)) {
            if (r->axis[rest] >= 0) m.step[d][r->axis[rest]] = 1;
            rest++;
        } else if (k == KERNEL_MAX_INDEX) {
            err_set(g->err, ERR_UNSUPPORTED, "a store through more than %d index arrays; reshape the array first", KERNEL_MAX_INDEX);
            return NULL;
        } else {
            m.index[m.nindex].node = index[k++];
            m.index[m.nindex].row = (int8_t)d;
            m.index[m.nindex].at = read;
            m.index[m.nindex++].factor = 1;
        }
    }
    return map_copy(gr->arena, &m);
}

const Map *root_map(Grouping *gr, const Group *gp, const Root *r)
{
    if (r->scatter) return scatter_map(gr, gp, r);
    Map m;
    map_select(&m, node_at(gr->g, r->value)->rank, gp->naxes, r->axis);
    const Box *b = r->box;
    for (int d = 0; b && d < m.rank; d++) {
        m.off[d] = m.off[d] * b->step[d] + b->off[d];
        for (int k = 0; k < m.naxes; k++) m.step[d][k] *= b->step[d];
        if (!b->node[d]) continue;
        if (m.nindex == KERNEL_MAX_INDEX) {
            err_set(gr->g->err, ERR_UNSUPPORTED, "a store at more than %d run-time offsets; store in two steps, through a view", KERNEL_MAX_INDEX);
            return NULL;
        }
        m.index[m.nindex].node = b->node[d];
        m.index[m.nindex].row = (int8_t)d;
        m.index[m.nindex].at = NULL;
        m.index[m.nindex++].factor = b->factor[d];
    }
    return map_copy(gr->arena, &m);
}

/* All of a buffer, in an order that only the product knows. */
static void walk_box(Walk *w, Id id, TermKind kind)
{
    Map none;
    map_select(&none, 0, w->gp->naxes, NULL);
    add_term(w, kind, id, node_at(w->gr->g, id)->dtype, &none, 0, false);
    widen(w, node_at(w->gr->g, id)->dtype, 1);
    if (w->ok) w->s->terms.at[w->s->terms.len - 1].box = true;
}

static void walk_root(Walk *w, const Root *r)
{
    Map m;
    Grouping *gr = w->gr;
    const Map *to = root_map(gr, w->gp, r);
    if (!to) { w->ok = false; return; }
    map_select(&m, node_at(gr->g, r->value)->rank, w->gp->naxes, r->axis);
    walk(w, r->value, r->carry ? to : &m, r->phase);
    if (r->check) return;
    if (r->then) {
        walk_box(w, r->buffer, TERM_STORE);
        return;
    }
    for (int i = 0; i < to->nindex; i++) {
        Map at;
        map_index(to, i, &at);
        walk(w, to->index[i].node, &at, r->phase);
    }
    add_term(w, TERM_STORE, r->buffer, node_at(gr->g, r->value)->dtype, to, r->phase, r->carry);
}

/* What an operand of a product is read from: a buffer, or those of a value that is computed while it is packed. */
static void walk_operand(Walk *w, Id id, const Map *m)
{
    Grouping *gr = w->gr;
    const Node *n = node_at(gr->g, id);
    Map in;
    if (!w->ok || n->op == OP_const || n->op == OP_iota) return;
    Id from = n->op == OP_input ? group_input_buffer(gr, id, m) : group_reads(gr, w->n, id) ? id : group_source(gr, w->n, id, m, &in);
    if (from) {
        w->ok = n->op == OP_input || group_store(gr, from);
        walk_box(w, from, TERM_LOAD);
        return;
    }
    widen(w, n->dtype, n->rank);
    map_unpack(&in, m);
    if (op_info[n->op].kind == KIND_VIEW) map_through(gr->g, id, w->gp->extent, &in);
    for (int i = map_new_index(gr->g, id, m, &in); i < in.nindex; i++) {
        Map at;
        map_index(&in, i, &at);
        walk_operand(w, in.index[i].node, &at);
    }
    for (int i = 0; i < (op_info[n->op].kind == KIND_VIEW ? 1 : n->nin); i++) walk_operand(w, node_in(gr->g, id)[i], &in);
}

/* A product reads its operands through axes of its own: noted as boxes. */
static void walk_dot(Walk *w)
{
    const Graph *g = w->gr->g;
    const Id from[] = { node_in(g, w->gp->dot)[0], node_in(g, w->gp->dot)[1], w->gp->then ? node_in(g, w->gp->then)[1] : 0 };
    int rank = node_at(g, w->gp->dot)->rank;
    for (int i = 0; i < 3 && from[i]; i++) {
        int8_t axis[MAX_RANK];
        Map m;
        memcpy(axis, w->gr->info[i < 2 ? w->gp->dot : w->gp->then].axis, sizeof axis);
        axis[rank - 2 + (i == 0)] = (int8_t)(node_shape(g, from[i])[rank - 2 + (i == 0)] == 1 ? -1 : w->gp->naxes);
        map_select(&m, rank, w->gp->naxes + 2, axis);
        walk_operand(w, from[i], &m);
    }
}

/* A host call reads and writes whole buffers, in an order of its own. */
static void walk_host(Walk *w)
{
    Map none;
    map_select(&none, 0, 0, NULL);
    w->root = -1;
    uint32_t nout = (uint32_t)node_attr(w->gr->g, w->gp->host)[1];
    for (uint32_t i = 0; i < w->gp->operands.len + nout && w->ok; i++) {
        bool load = i < w->gp->operands.len;
        Id id = load ? w->gp->operands.at[i] : w->gp->items[i - w->gp->operands.len];
        if (!id) continue;
        add_term(w, load ? TERM_LOAD : TERM_STORE, id, node_at(w->gr->g, id)->dtype, &none, 0, false);
        if (w->ok) w->s->terms.at[w->s->terms.len - 1].box = true;
    }
}

static bool survey_group(Grouping *gr, uint32_t n, Survey *s)
{
    Walk w = { .gr = gr, .n = n, .gp = &gr->groups.at[n], .s = s, .ok = true };
    int last = 0;
    s->widest = DT_bool_;
    for (uint32_t i = 0; i < w.gp->roots.len; i++) if (w.gp->roots.at[i].phase > last) last = w.gp->roots.at[i].phase;
    s->phases = (uint8_t)(last + 1);
    for (int q = last; q >= 0; q--) {
        for (uint32_t i = 0; i < w.gp->roots.len; i++)
            if (w.gp->roots.at[i].phase == q) {
                w.root = (int)i;
                w.row = root_is_row(gr, w.gp, &w.gp->roots.at[i]);
                walk_root(&w, &w.gp->roots.at[i]);
            }
        w.root = -1;
        w.row = false;
        /* what these need of this loop; the lists grow while scans and tiles of the loop are walked */
        for (uint32_t i = 0; i < s->tiles.len; i++)
            if (gr->info[s->tiles.at[i]].phase == q) {
                Map m;
                map_select(&m, node_at(gr->g, s->tiles.at[i])->rank, w.gp->naxes, gr->info[s->tiles.at[i]].axis);
                walk_inputs(&w, s->tiles.at[i], &m, (uint8_t)q);
            }
        for (uint32_t i = 0; i < s->reduces.len; i++) {
            Id r = s->reduces.at[i], v = node_in(gr->g, r)[0];
            if (group_loop_of(gr, r) != q) continue;
            Map m;
            map_select(&m, node_at(gr->g, v)->rank, w.gp->naxes, gr->info[r].in_axis);
            walk(&w, v, &m, (uint8_t)q);
        }
    }
    if (w.gp->dot && w.gp->roots.len) walk_dot(&w);
    if (w.gp->host) walk_host(&w);
    return w.ok && !gr->g->err->kind;
}

Survey *survey_make(Grouping *gr)
{
    Survey *all = arena_alloc(gr->arena, sizeof(Survey) * gr->groups.len);
    if (!all) return NULL;
    for (uint32_t n = gr->groups.len - 1; n > 0; n--)
        if (!survey_group(gr, n, &all[n])) return NULL;
    return all;
}
