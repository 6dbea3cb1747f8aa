/* Rows that a product takes as they come: what fills its left operand, a temporary that nothing else reads, runs in the product's own kernel, a block of rows at
 * a time, into a tile in scratch. So the rows of a layer norm, rows gathered from a table and pieces put side by side ([x, h] of an LSTM) are in no other memory. */
#include <string.h>
#include "opt/schedule.h"

enum {
    LEAST_BYTES = 8192,          /* of the operand: a smaller one stays in the first cache */
    MOST_FEEDERS = 3,
};

/* ---- which groups ---- */

static Id left_operand(const Grouping *gr, uint32_t n) { return node_in(gr->g, gr->groups.at[n].dot)[0]; }

/* Whether the product reads the operand as a whole, and it is a temporary that lies by itself and that no other group reads. */
static bool is_private(const Grouping *gr, const Buffers *b, uint32_t n, Id a)
{
    const Graph *g = gr->g;
    uint32_t reads = 0;
    if (!gr->info[a].stored || gr->info[a].group >= n || gr->info[a].uses != 1 || b->at.at[a].shares) return false;
    for (uint32_t i = 0; i < g->outputs.len; i++) if (b->output[i] == a) return false;
    for (uint32_t i = 0; i < b->copies.len; i++) if (b->copies.at[i].from == a || b->copies.at[i].to == a) return false;
    for (Id i = 0; i < b->at.len; i++) if (i != a && b->at.at[i].shares == a) return false;
    for (uint32_t q = 1; q < gr->groups.len; q++)
        for (uint32_t i = 0; i < gr->surveys[q].terms.len; i++) {
            const Term *t = &gr->surveys[q].terms.at[i];
            if (t->kind != TERM_LOAD || t->buffer != a) continue;
            if (q != n) return false;
            reads++;
        }
    return reads == 1;
}

static bool writes_to(const Group *gp, Id a)
{
    for (uint32_t i = 0; i < gp->roots.len; i++) if (gp->roots.at[i].buffer == a && !gp->roots.at[i].check) return true;
    return false;
}

/* Whether root r fills all rows of buffer a, of the given rank, the reduced axes of its group along them, and puts them side by side with others at most. */
static bool is_rows(const Grouping *gr, const Group *gp, const Root *r, Id a, int rank)
{
    uint32_t along = r->axis[rank - 1] < 0 ? 0 : 1u << r->axis[rank - 1];
    int axes = 0;
    if (r->buffer != a || r->check || r->carry || r->scatter || r->then || r->axis[rank - 2] < 0) return false;
    if (gp->reduced & ~along || node_at(gr->g, r->value)->rank != rank) return false;
    for (int d = 0; d < rank; d++) {
        axes += r->axis[d] >= 0;
        if (d < rank - 1 && node_shape(gr->g, r->value)[d] != node_shape(gr->g, a)[d]) return false;
        if (r->box && (r->box->node[d] || r->box->step[d] != 1 || (d < rank - 1 && r->box->off[d]))) return false;
    }
    return axes == gp->naxes && node_at(gr->g, r->value)->dtype == node_at(gr->g, a)->dtype;
}

/* Whether all that the group reads lies along the operand's rows (axis `along`; -1: they are of one element) or is the same for all of one, and some of it
 * is no constant. */
static bool reads_along(const Grouping *gr, const Buffers *b, uint32_t q, int along)
{
    bool varies = false;
    Lower l = { .buffers = (Buffers *)b };
    for (uint32_t i = 0; i < gr->surveys[q].terms.len; i++) {
        const Term *t = &gr->surveys[q].terms.at[i];
        int64_t step[MAX_DOMAIN], off;
        if (t->kind != TERM_LOAD) continue;
        lower_steps(&l, t->buffer, t->map, step, &off);
        if (along >= 0 && step[along] && step[along] != dtype_info[t->dtype].bytes) return false;
        varies = varies || t->buffer >= gr->nnodes || node_at(gr->g, t->buffer)->op != OP_input || !gr->in[node_attr(gr->g, t->buffer)[0]].constant;
    }
    return varies;
}

/* Whether a group after q, up to n, stores into memory that q reads: q could not read it later. */
static bool is_overtaken(const Grouping *gr, const Buffers *b, uint32_t q, uint32_t n)
{
    for (uint32_t i = 0; i < gr->surveys[q].terms.len; i++) {
        if (gr->surveys[q].terms.at[i].kind != TERM_LOAD) continue;
        Id memory = buffers_memory(b, gr->surveys[q].terms.at[i].buffer);
        for (uint32_t r = q + 1; r <= n; r++)
            for (uint32_t j = 0; j < gr->surveys[r].terms.len; j++) {
                const Term *t = &gr->surveys[r].terms.at[j];
                if (t->kind == TERM_STORE && buffers_memory(b, t->buffer) == memory) return true;
            }
    }
    return false;
}

static bool may_feed(const Grouping *gr, const Buffers *b, uint32_t q, uint32_t n, Id a)
{
    const Group *gp = &gr->groups.at[q];
    int rank = node_at(gr->g, a)->rank;
    if (q >= n || gp->dot || gp->host || gp->scan || gp->inner || gp->closed || gp->feeds) return false;
    for (uint32_t i = 0; i < gp->roots.len; i++) {
        const Root *r = &gp->roots.at[i];
        if (!is_rows(gr, gp, r, a, rank) || memcmp(r->axis, gp->roots.at[0].axis, (size_t)rank)) return false;
    }
    return reads_along(gr, b, q, gp->roots.at[0].axis[rank - 1]) && !is_overtaken(gr, b, q, n);
}

/* The groups that would feed product n, in `of`; 0: some cannot, or there are too many. */
static int find_feeders(const Grouping *gr, const Buffers *b, uint32_t n, uint32_t *of)
{
    const Group *gp = &gr->groups.at[n];
    const Graph *g = gr->g;
    int count = 0;
    if (!gp->dot || gp->sum || node_at(g, gp->dot)->op != OP_dot) return 0;
    Id a = left_operand(gr, n);
    int rank = node_at(g, a)->rank, item = dtype_info[node_at(g, a)->dtype].bytes;
    if (!is_private(gr, b, n, a) || gr->info[gp->dot].axis[rank - 2] < 0) return 0;
    if (node_size(g, a) * item < LEAST_BYTES || node_shape(g, a)[rank - 1] * item > FED_ROW_BYTES) return 0;
    for (uint32_t q = 1; q < gr->groups.len; q++) {
        if (!writes_to(&gr->groups.at[q], a)) continue;
        if (count == MOST_FEEDERS || !may_feed(gr, b, q, n, a)) return 0;
        of[count++] = q;
    }
    return gp->naxes + 3 + count <= KERNEL_MAX_AXES ? count : 0;
}

bool feed_mark(Grouping *gr, Buffers *b)
{
    uint32_t of[MOST_FEEDERS];
    for (uint32_t n = 1; n < gr->groups.len; n++)
        for (int i = find_feeders(gr, b, n, of) - 1; i >= 0; i--) gr->groups.at[of[i]].feeds = n;
    return !gr->g->err->kind;
}

int64_t feed_cost(const Grouping *gr, uint32_t n)
{
    int64_t most = 0;
    for (uint32_t q = 1; q < n; q++)
        if (gr->groups.at[q].feeds == n && gr->surveys[q].ops + 2 > most) most = gr->surveys[q].ops + 2;
    return most;
}

/* ---- the kernel ---- */

uint32_t feed_access(Lower *l, const Root *r)
{
    int64_t step[MAX_DOMAIN + 1] = { 0 }, outer[MAX_DOMAIN + 1] = { 0 };
    int last = node_at(l->gr->g, r->value)->rank - 1, item = dtype_info[node_at(l->gr->g, r->value)->dtype].bytes;
    step[l->vec] = item;
    step[l->feed_rows] = l->feed_row;
    return lower_strided(l, l->feed_tile - 1, node_at(l->gr->g, r->value)->dtype, step, outer, r->box ? r->box->off[last] * item : 0);
}

/* The loops of group q by those of the product's kernel, and one of its own along the rows. */
static void take_loops(Lower *f, const Lower *l, int im)
{
    const Group *gp = f->gp;
    const Root *r = &gp->roots.at[0];
    const int8_t *axis = l->gr->info[l->gp->dot].axis;
    int last = node_at(l->gr->g, r->value)->rank - 1;
    for (int d = 0; d <= last; d++) {
        Loop *loop = &f->loop[f->nloops];
        if (d == last) f->vec = f->nloops;
        if (r->axis[d] >= 0) *loop = (Loop){ .extent = gp->extent[r->axis[d]], .domain = r->axis[d], .reduced = reduces_axis(gp, r->axis[d]) };
        else if (d == last) *loop = (Loop){ .extent = 1, .domain = MAX_DOMAIN };
        else continue;
        for (int i = 0; d < last && i < l->nloops; i++) {
            if (l->loop[i].domain != axis[d]) continue;
            loop->axis = l->loop[i].axis;
            if (i == im) f->feed_rows = f->nloops;
        }
        f->nloops++;
    }
    f->loop[f->vec].axis = lower_axis(f, f->loop[f->vec].extent, 0);
}

static bool feed_group(Lower *l, uint32_t q, uint32_t tile, int64_t row, int im, Part part)
{
    Lower *f = arena_alloc(l->arena, sizeof *f);
    if (!f) return false;
    *f = (Lower){ .gr = l->gr, .gp = &l->gr->groups.at[q], .n = q, .survey = &l->gr->surveys[q], .buffers = l->buffers, .arena = l->arena,
                  .err = l->err, .k = l->k, .d = l->d, .feed_tile = tile + 1, .feed_row = row };
    f->tile = arena_alloc(l->arena, sizeof *f->tile * (f->survey->tiles.len + 1));
    if (!f->tile) return false;
    take_loops(f, l, im);
    if (f->err->kind) return false;
    f->lanes = choose_lanes(f, f->gp->reduced != 0);
    list_reductions(f);
    make_tiles(f, 1);
    uint32_t rows = kernel_open(f->arena, f->k, l->loop[im].axis, part, 0, false);
    if (f->gp->reduced) {
        all_phases(f, -1);
    } else {
        uint32_t along = open_loop(f, f->vec, PART_WHOLE, f->lanes, false);
        phase_body(f);
        kernel_close(f->k, along);
    }
    kernel_close(f->k, rows);
    return !f->err->kind;
}

bool feed_rows(Lower *l, uint32_t tile, int64_t row, int im, Part part)
{
    for (uint32_t q = 1; q < l->n; q++)
        if (l->gr->groups.at[q].feeds == l->n && !feed_group(l, q, tile, row, im, part)) return false;
    return true;
}

bool feed_apart(Grouping *gr, uint32_t n, Buffers *buffers, Drafts *out)
{
    const Knobs knobs = gr->knobs;
    bool ok = true;
    gr->knobs = (Knobs){ 0 };
    for (uint32_t q = 1; q < n && ok; q++)
        if (gr->groups.at[q].feeds == n) ok = schedule_group(gr, q, &gr->surveys[q], buffers, out);
    gr->knobs = knobs;
    return ok;
}
