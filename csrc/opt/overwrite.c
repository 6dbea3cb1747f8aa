/* Values written where a temporary was that nobody reads after them: the exponentials of a softmax lie in its result's memory and are scaled there,
 * `p /= n` of a computed p takes no second array. A group that reads each element of the temporary just before it stores the one in its place is the last to read it.
 *
 * For arrays past the first cache: of smaller ones a merged kernel makes scratch. */
#include <string.h>
#include "opt/group.h"

/* Of each memory: the group that stores to it first, the last one that touches it, in the order in which they run, and the last product whose rows are made of it. */
typedef struct {
    Grouping *gr;
    Buffers *b;
    uint32_t *first, *last, *fed;
    bool *fixed;                 /* it is no temporary, or read at the end */
    bool *varies;                /* per node: computed from arguments that are no constants; what is not may be kept (keep.c) */
} Overwrite;

/* When group n runs: rows that a product takes as they come are made in its kernel. */
static uint32_t runs_at(const Grouping *gr, uint32_t n) { return gr->groups.at[n].feeds ? gr->groups.at[n].feeds : n; }

static bool is_dropped(const Overwrite *o, const Term *t) { return t->carry && o->b->at.at[t->buffer].shares && t->kind == TERM_STORE; }

static bool find_lives(Overwrite *o)
{
    const Graph *g = o->gr->g;
    uint32_t n = o->b->at.len;
    Arena *a = o->gr->arena;
    o->first = arena_alloc(a, sizeof *o->first * n);
    o->last = arena_alloc(a, sizeof *o->last * n);
    o->fed = arena_alloc(a, sizeof *o->fed * n);
    o->fixed = arena_alloc(a, n);
    o->varies = arena_alloc(a, o->gr->nnodes);
    if (!o->first || !o->last || !o->fed || !o->fixed || !o->varies) return false;
    for (Id id = 1; id < o->gr->nnodes; id++) {
        o->varies[id] = node_at(g, id)->op == OP_input && !o->gr->in[node_attr(g, id)[0]].constant;
        for (int i = 0; i < node_at(g, id)->nin; i++) o->varies[id] = o->varies[id] || o->varies[node_in(g, id)[i]];
    }
    for (uint32_t i = 0; i < g->inputs.len; i++) o->fixed[g->inputs.at[i]] = true;
    for (uint32_t i = 0; i < g->outputs.len; i++) o->fixed[buffers_memory(o->b, o->b->output[i])] = true;
    for (uint32_t i = 0; i < o->b->copies.len; i++)
        o->fixed[buffers_memory(o->b, o->b->copies.at[i].from)] = o->fixed[buffers_memory(o->b, o->b->copies.at[i].to)] = true;
    for (uint32_t q = 1; q < o->gr->groups.len; q++)
        for (uint32_t i = 0; i < o->gr->surveys[q].terms.len; i++) {
            const Term *t = &o->gr->surveys[q].terms.at[i];
            Id memory = buffers_memory(o->b, t->buffer);
            if (t->kind == TERM_STORE && !is_dropped(o, t) && !o->first[memory]) o->first[memory] = q;
            if (runs_at(o->gr, q) > o->last[memory]) o->last[memory] = runs_at(o->gr, q);
            if (o->gr->groups.at[q].feeds > o->fed[memory]) o->fed[memory] = o->gr->groups.at[q].feeds;
        }
    return true;
}

/* Whether the buffers of two nodes have their elements at the same places. */
static bool lie_alike(const Overwrite *o, Id c, Id x)
{
    const Graph *g = o->gr->g;
    const Buffer *b = o->b->at.at;
    if (x >= o->gr->nnodes || b[c].dtype != b[x].dtype || b[c].bytes != b[x].bytes || node_at(g, c)->rank != node_at(g, x)->rank) return false;
    for (int d = 0; d < node_at(g, c)->rank; d++) {
        if (node_shape(g, c)[d] != node_shape(g, x)[d]) return false;
        if (node_shape(g, c)[d] > 1 && b[c].stride[d] != b[x].stride[d]) return false;
    }
    return true;
}

/* Whether group n reads memory x at nothing but the elements that it then stores in memory c, in the same body or later. */
static bool reads_what_it_stores(const Overwrite *o, uint32_t n, Id x, Id c)
{
    const Survey *s = &o->gr->surveys[n];
    for (uint32_t i = 0; i < s->terms.len; i++) {
        const Term *load = &s->terms.at[i];
        Id memory = buffers_memory(o->b, load->buffer);
        if (memory == c && load->kind == TERM_LOAD) return false;
        if (memory != x) continue;
        if (load->kind != TERM_LOAD || load->box || !lie_alike(o, c, load->buffer)) return false;
        for (uint32_t j = 0; j < s->terms.len; j++) {
            const Term *store = &s->terms.at[j];
            if (store->kind != TERM_STORE || is_dropped(o, store) || buffers_memory(o->b, store->buffer) != c) continue;
            if (store->box || store->dtype != load->dtype || !map_equal(store->map, load->map) || !term_precedes(load, store)) return false;
        }
    }
    return true;
}

/* Whether what group n reads at a point is read before it stores there. A product goes to a tile of its own, if it is not the value that is stored. */
static bool stores_in_order(const Group *gp)
{
    if (gp->host || gp->scan || gp->inner || gp->feeds || gp->together) return false;
    return !gp->dot || (!gp->then && !gp->reduced && !gp->sum && gp->roots.len == 1 && gp->roots.at[0].value != gp->dot);
}

/* The temporary that value c may be written over, 0: there is none. */
static Id find_dead(const Overwrite *o, Id c)
{
    uint32_t n = o->first[c];
    const Group *gp = &o->gr->groups.at[n];
    if (!n || !stores_in_order(gp)) return 0;
    const Survey *s = &o->gr->surveys[n];
    for (uint32_t i = 0; i < s->terms.len; i++) {
        const Term *t = &s->terms.at[i];
        Id x = buffers_memory(o->b, t->buffer);
        if (t->kind != TERM_LOAD || x == c || o->fixed[x] || o->last[x] != n || o->fed[x] == n || x >= o->gr->nnodes || !lie_alike(o, c, t->buffer)) continue;
        if (o->b->at.at[x].bytes == o->b->at.at[c].bytes && o->varies[t->buffer] && o->varies[x] && reads_what_it_stores(o, n, x, c)) return x;
    }
    return 0;
}

Id buffers_place(const Buffers *b, Id id)
{
    for (id = buffers_memory(b, id); b->at.at[id].over; id = buffers_memory(b, b->at.at[id].over)) continue;
    return id;
}

bool overwrite_dead(Grouping *gr, Buffers *b)
{
    Overwrite o = { .gr = gr, .b = b };
    if (!find_lives(&o)) return false;
    for (Id c = 1; c < gr->nnodes; c++) {
        if (!gr->info[c].stored || b->at.at[c].shares || node_at(gr->g, c)->op == OP_input || b->at.at[c].bytes < REGION_BYTES) continue;
        Id x = find_dead(&o, c);
        if (!x) continue;
        b->at.at[c].over = buffers_place(b, x);
        o.fixed[x] = o.fixed[c];
        o.last[x] = o.last[c];
        o.fed[x] = o.fed[c];
    }
    return true;
}
