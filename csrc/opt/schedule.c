/* A group's kernels: which axes become the grid, which one the vectors run along, where reductions keep their state.
 *
 *   no reduction      grid over all loops but the vector loop, which is blocked when it is long
 *   nested            reductions inside reductions: schedule_nest.c
 *   jammed            elementwise where neighbouring rows share loads: some rows at once (schedule_jam.c)
 *   transposed        elementwise where arrays lie along different axes: tiles (schedule_turn.c)
 *   by rows           vector loop reduced: one grid point per row, one loop over the row per phase, tiles between them
 *   by columns        vector loop kept: each vector of columns walks down the rows
 *   bands             by columns, some rows at a time over many columns: schedule_bands.c
 *   split             a long reduction with few results: schedule_split.c
 *   together          reductions of the same arrays over different axes, block by block: schedule_together.c
 *   product           schedule_dot.c
 *
 * schedule_loops.c chooses the loops, schedule_phase.c fills them. Choices depend on extents by class, on strides and on the target, never
 * on the number of threads. */
#include <string.h>
#include "base/hash.h"
#include "opt/schedule.h"

enum {
    MOMENTS_BLOCK = 512,         /* rows between merges of moments, which divide */
    WINDOW = 7,                  /* reduced loops of a window are known to the kernel up to so many trips */
};

/* ---- forms ---- */

/* Terms of a block, `most` or a quarter of it (two sizes, lest every n have a kernel of its own), of a sum of n > most: so few that a block's sum is of
 * another size than the whole. The last additions in one block round where those of the whole do, and a pairwise sum has one of these. */
static int32_t part_of(int64_t n, int32_t most) { return n < 4 * (int64_t)most ? most / 4 : most; }

/* The reduced loop that a sum runs through in blocks, and the block; -1: none is needed. */
static int choose_blocks(const Lower *l, int32_t *block)
{
    bool wide = false, rows = l->vec >= 0 && l->loop[l->vec].reduced;
    for (uint32_t i = 0; i < l->survey->reduces.len; i++) wide = wide || is_wide(l, l->survey->reduces.at[i]);
    int32_t most = rows ? sum_block(l, BLOCK, SUM_TRIPS) : adds_floats(l) ? ROW_BLOCK : MOMENTS_BLOCK;
    if (!wide || l->gp->scan || extents(l, true) <= (!rows && adds_floats(l) ? 2 * most : most)) return -1;
    if (rows && l->loop[l->vec].extent > most) {
        *block = adds_floats(l) ? part_of(l->loop[l->vec].extent, most) : most;
        return l->vec;
    }
    for (int i = 0; i < l->nloops; i++) {
        if (!l->loop[i].reduced || l->loop[i].inner) continue;
        int64_t inside = extents(l, true) / (l->loop[i].extent ? l->loop[i].extent : 1);
        int64_t terms = adds_floats(l) && rows ? part_of(extents(l, true), most) : most;
        *block = floor_pow2(terms / (inside ? inside : 1), rows ? ROW_BLOCK : most);
        return i;
    }
    return -1;
}

static void make_axes(Lower *l, int blocked, int32_t block)
{
    for (int i = 0; i < l->nloops; i++) l->loop[i].axis = lower_axis(l, l->loop[i].extent, i == blocked ? block : 0);
}

/* Whether the reduced loops are those of a small window: known to the kernel, they are no loops in its code. */
static bool is_window(const Lower *l)
{
    int loops = 0;
    for (int i = 0; i < l->nloops; i++) {
        if (!l->loop[i].reduced) continue;
        if (l->loop[i].extent > WINDOW) return false;
        loops++;
    }
    return loops > 1 && !l->gp->scan && extents(l, true) <= WINDOW * WINDOW;
}

/* Elementwise, and reductions and scans by columns: the vector loop is kept. */
static void form_columns(Lower *l, int blocked, int32_t block)
{
    uint32_t at[MAX_DOMAIN + 2];
    bool walks = l->gp->reduced != 0;
    int64_t extent = l->vec >= 0 ? l->loop[l->vec].extent : 0;
    int32_t block_knob = l->gr->knobs.at[KNOB_block], longest = block_knob ? block_knob : LONG_LOOP;
    int32_t vec_block = walks ? (extent > l->lanes ? l->lanes : 0) : extent > longest ? block_knob ? block_knob : BLOCK : 0;
    bool known = is_window(l);
    for (int i = 0; i < l->nloops; i++)
        l->loop[i].axis = known && l->loop[i].reduced && i != blocked ? kernel_axis(l->arena, l->k, (Size){ .arg = -1, .lit = l->loop[i].extent }, SIZE(0))
                        : lower_axis(l, l->loop[i].extent, i == blocked ? block : i == l->vec ? vec_block : 0);
    make_tiles(l, l->lanes ? l->lanes : 1);
    int n = open_grid(l, at);
    if (l->vec >= 0) {
        if (vec_block) at[n++] = open_loop(l, l->vec, PART_BLOCKS, 0, true);
        at[n++] = open_loop(l, l->vec, vec_block ? PART_WITHIN : PART_WHOLE, l->lanes, false);
    }
    all_phases(l, blocked);
    close_all(l, at, n);
}

static void form_rows(Lower *l, int blocked, int32_t block)
{
    uint32_t at[MAX_DOMAIN + 2];
    make_axes(l, blocked, block);
    make_tiles(l, 1);
    int n = open_grid(l, at);
    all_phases(l, blocked);
    close_all(l, at, n);
}

/* Elementwise, in tiles: what lies along another axis than the vector loop is transposed first. */
static void form_turned(Lower *l)
{
    uint32_t at[MAX_DOMAIN + 2];
    int n = open_turned(l, at);
    all_phases(l, -1);
    close_all(l, at, n);
}

/* ---- a group ---- */

/* A rough time on one core, for the decision to use threads and to release the interpreter's lock. */
static float estimate(const Lower *l)
{
    double points = 1, bytes = 0;
    for (int k = 0; k < l->gp->naxes; k++) points *= (double)l->gp->extent[k];
    for (uint32_t t = 0; t < l->survey->terms.len; t++) bytes += dtype_info[l->survey->terms.at[t].dtype].bytes;
    double per = 0.05 * bytes + 0.6 * (double)l->survey->ops / native_lanes(l);
    if (l->gp->dot) {
        Id a = node_in(l->gr->g, l->gp->dot)[0];
        per += 0.02 * (double)node_shape(l->gr->g, a)[node_at(l->gr->g, a)->rank - 1];
        if (l->gp->then) per += 0.02 * (double)node_shape(l->gr->g, l->gp->then)[node_at(l->gr->g, l->gp->then)->rank - 1];
    }
    return (float)(points * per + 10);
}

bool draft_begin(Lower *l, Drafts *out, Grouping *gr, uint32_t n, const Survey *survey, Buffers *buffers)
{
    memset(l, 0, sizeof *l);
    *l = (Lower){ .gr = gr, .gp = &gr->groups.at[n], .n = n, .survey = survey, .buffers = buffers, .vec = -1 };
    l->d = vec_push(gr->arena, out);
    return l->d && lower_begin(l);
}

bool draft_end(Lower *l)
{
    if (l->err->kind) return false;
    l->k->checked = l->gr->target->checked;
    if (!l->gp->dot) mark_streams(l);
    l->d->kernel = l->k;
    l->d->grid = kernel_grid(l->k, l->d->words.at);
    l->d->ns = estimate(l);
    l->d->workers = (uint16_t)l->gr->knobs.at[KNOB_workers];
#ifdef PYXLA_DEBUG
    if (!kernel_verify(l->k, l->err)) return false;
#endif
    return true;
}

static bool is_idle(const Lower *l)
{
    bool work = false;
    int64_t kept = 1;
    for (uint32_t i = 0; i < l->gp->roots.len; i++) work = work || !skips(l, &l->gp->roots.at[i]);
    for (int k = 0; k < l->gp->naxes; k++) if (!reduces_axis(l->gp, k) || l->gp->scan) kept *= l->gp->extent[k];
    return !work || !kept;
}

bool schedule_group(Grouping *gr, uint32_t n, const Survey *survey, Buffers *buffers, Drafts *out)
{
    Lower l = { .gr = gr, .gp = &gr->groups.at[n], .buffers = buffers, .survey = survey };
    int32_t block = 0;
    if (l.gp->together && l.gp->together != n) return together_combine(gr, n, buffers, out);
    if (is_idle(&l)) return true;
    if (l.gp->dot) return schedule_dot(gr, n, survey, buffers, out);
    if (!draft_begin(&l, out, gr, n, survey, buffers)) return false;
    if (l.gp->together) return schedule_together(&l, out);
    choose_loops(&l);
    list_reductions(&l);
    l.vec = choose_vector(&l);
    bool rows = l.vec >= 0 && l.loop[l.vec].reduced;
    if (l.vec >= 0) l.lanes = choose_lanes(&l, rows);
    int bands = choose_bands(&l);
    if (bands >= 0) return form_bands(&l, bands), draft_end(&l);
    int split = choose_split(&l, &block), rows_at_once = 1;
    if (split >= 0) return schedule_split(&l, split, block, out);
    if (l.vec >= 0 && !rows) l.lanes = knob_lanes(&l);
    int turned = choose_turn(&l), jam = turned >= 0 ? -1 : choose_jam(&l, &rows_at_once);
    int blocked = choose_blocks(&l, &block);
    if (jam >= 0) form_jammed(&l, jam, rows_at_once);
    else if (l.gp->inner) form_nested(&l, blocked, block);
    else if (rows) form_rows(&l, blocked, block);
    else if (turned >= 0) form_turned(&l);
    else form_columns(&l, blocked, block);
    return draft_end(&l);
}

/* What the group's launches do, for their key and for those who choose knobs. */
static void note_key(Grouping *gr, uint32_t n, Drafts *out, uint32_t first)
{
    const Group *gp = &gr->groups.at[n];
    uint64_t key = 0;
    int64_t m = 1, k = 0, columns = 0;
    for (uint32_t i = first; i < out->len; i++) {
        const Draft *d = &out->at[i];
        key = hash_mix(key, hash_bytes(d->words.at, d->words.len * sizeof *d->words.at, kernel_hash(d->kernel)));
    }
    for (int i = 0; i < gp->naxes; i++) m *= gp->extent[i];
    if (gp->dot) {
        const Node *dot = node_at(gr->g, gp->dot);
        m = node_shape(gr->g, gp->dot)[dot->rank - 2];
        columns = node_shape(gr->g, gp->dot)[dot->rank - 1];
        k = gp->extent[gp->naxes];
    }
    for (uint32_t i = first; i < out->len; i++) {
        Draft *d = &out->at[i];
        d->key = key ? key : 1, d->m = m, d->n = columns, d->k = k;
    }
}

bool schedule_tuned(Grouping *gr, uint32_t n, const Survey *survey, Buffers *buffers, Drafts *out)
{
    const Tuning *t = gr->target->tuning;
    uint32_t first = out->len, nbuffers = buffers->at.len, npacks = gr->packs.len, last;
    if (!schedule_group(gr, n, survey, buffers, out)) return false;
    if (!t || (!t->len && !t->watch) || out->len == first) return true;
    note_key(gr, n, out, first);
    const Draft like = out->at[first];
    const Knobs *knobs = tuning_find(t, like.key);
    if (!knobs) return true;
    out->len = first;                                         /* as if nothing had been scheduled */
    buffers->at.len = nbuffers;
    gr->packs.len = npacks;
    gr->knobs = *knobs;
    bool ok = schedule_group(gr, n, survey, buffers, out);
    gr->knobs = (Knobs){ 0 };
    last = ok ? out->len : first;
    for (uint32_t i = first; i < last; i++) {
        Draft *d = &out->at[i];
        d->key = like.key, d->m = like.m, d->n = like.n, d->k = like.k;
    }
    return ok;
}

bool schedule_copy(Grouping *gr, Id shape, Id from, Id to, Buffers *buffers, Drafts *out)
{
    const Graph *g = gr->g;
    Survey survey = { .ops = 1, .widest = node_at(g, shape)->dtype, .phases = 1 };
    Group *gp = arena_alloc(gr->arena, sizeof *gp);
    Lower l;
    int8_t axis[MAX_RANK];
    if (!gp || !node_size(g, shape)) return gp != NULL;
    for (int d = 0; d < node_at(g, shape)->rank; d++) {
        axis[d] = -1;
        if (node_shape(g, shape)[d] == 1) continue;
        if (gp->naxes == MAX_DOMAIN) return err_set(g->err, ERR_UNSUPPORTED, "an array with more than %d axes longer than 1; reshape some of them to one axis", MAX_DOMAIN);
        axis[d] = (int8_t)gp->naxes;
        gp->extent[gp->naxes++] = node_shape(g, shape)[d];
    }
    if (!draft_begin(&l, out, gr, 0, &survey, buffers)) return false;
    l.gp = gp;
    Map m, read;
    map_select(&m, node_at(g, shape)->rank, gp->naxes, axis);
    read = m;
    if (from < gr->nnodes && from != shape) {                  /* a contiguous buffer of another shape */
        int64_t scale = 1;
        memset(&read, 0, sizeof read);
        read.rank = 1;
        read.naxes = gp->naxes;
        read.flat = true;
        for (int k = gp->naxes - 1; k >= 0; k--) read.step[0][k] = scale, scale *= gp->extent[k];
    }
    for (int i = 0; i < 2; i++) {
        Term *t = vec_push(gr->arena, &survey.terms);
        if (!t) return false;
        *t = (Term){ .buffer = i ? to : from, .kind = i ? TERM_STORE : TERM_LOAD, .dtype = node_at(g, shape)->dtype, .map = i ? &m : &read };
    }
    choose_loops(&l);
    l.vec = choose_vector(&l);
    if (l.vec >= 0) l.lanes = choose_lanes(&l, false);
    uint32_t at[MAX_DOMAIN + 2];
    int n;
    if (choose_turn(&l) >= 0) {
        n = open_turned(&l, at);
    } else {
        bool blocked = l.vec >= 0 && l.loop[l.vec].extent > LONG_LOOP;
        make_axes(&l, l.vec, blocked ? BLOCK : 0);
        n = open_grid(&l, at);
        if (blocked) at[n++] = open_loop(&l, l.vec, PART_BLOCKS, 0, true);
        if (l.vec >= 0) at[n++] = open_loop(&l, l.vec, blocked ? PART_WITHIN : PART_WHOLE, l.lanes, false);
    }
    Dtype dt = node_at(g, shape)->dtype;
    uint32_t v = lower_load(&l, from, dt, &read);
    lower_stmt(&l, (Stmt){ .kind = STMT_STORE, .a = lower_access(&l, to, dt, &m, true), .b = v });
    close_all(&l, at, n);
    return draft_end(&l);
}
