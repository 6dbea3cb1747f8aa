/* A group's kernels: which axes become the grid, which one the vectors run along, where reductions keep their state.
 *
 *   no reduction      grid over all loops but the vector loop, which is blocked when it is long
 *   transposed        elementwise where arrays lie along different axes: tiles (schedule_turn.c)
 *   by rows           vector loop reduced: one grid point per row, one loop over the row per phase, tiles between them
 *   by columns        vector loop kept: each vector of columns walks down the rows
 *   split             a long reduction with few results: partial states of blocks per grid point, and a kernel that combines them
 *   product           schedule_dot.c
 *
 * Choices depend on extents by class, on strides and on the target, never on the number of threads. */
#include <string.h>
#include "opt/schedule.h"

enum {
    BLOCK = 4096,                /* elements of a sum between roundings to the wider state; of a grid point */
    LONG_LOOP = 8192,            /* vector loops longer than this are blocked over the grid */
    ROW_BLOCK = 512,             /* rows between roundings, by columns */
    SPLIT_SIZE = 65536,
    SPLIT_BLOCK = 8192,
    COLUMN_STATES = 16,          /* vectors of states, by columns */
    SCAN_ROWS = 8,               /* rows scanned side by side: more lines of memory than this evict each other where rows lie a power of two apart */
};

/* ---- loops ---- */

static bool reduces_axis(const Group *gp, int k) { return gp->reduced >> k & 1; }

/* Bytes moved along a domain axis, all accesses together: axes with larger steps go outside. */
static int64_t axis_weight(const Lower *l, int k)
{
    int64_t w = 0;
    for (uint32_t t = 0; t < l->survey->terms.len; t++) {
        const Term *term = &l->survey->terms.at[t];
        int64_t step[MAX_DOMAIN], off;
        if (term->box || (term->carry && l->buffers->at.at[term->buffer].shares)) continue;
        lower_steps(l, term->buffer, term->map, step, &off);
        int64_t s = step[k] < 0 ? -step[k] : step[k];
        w += term->kind == TERM_STORE ? 2 * s : s;
    }
    return w;
}

static Monoid monoid_of(const Lower *l, Id id) { return op_info[node_at(l->gr->g, id)->op].monoid; }
static bool is_arg(const Lower *l, Id id) { return monoid_of(l, id) == MONOID_argmax || monoid_of(l, id) == MONOID_argmin; }

/* Whether the two axes are neighbours in the order in which an argmax numbers the elements. */
static bool arg_mergeable(const Lower *l, Id id, int outer, int inner)
{
    const Graph *g = l->gr->g;
    Id v = node_in(g, id)[0];
    int64_t scale = 1, of_inner = 0, of_outer = 0;
    for (int d = node_at(g, v)->rank - 1; d >= 0; d--) {
        if (!(node_attr(g, id)[0] >> d & 1)) continue;
        if (l->gr->info[id].in_axis[d] == inner) of_inner = scale;
        if (l->gr->info[id].in_axis[d] == outer) of_outer = scale;
        scale *= node_shape(g, v)[d];
    }
    return of_outer == of_inner * l->gp->extent[inner];
}

static bool has_arg(const Lower *l)
{
    for (uint32_t i = 0; i < l->survey->reduces.len; i++) if (is_arg(l, l->survey->reduces.at[i])) return true;
    return false;
}

static bool mergeable(const Lower *l, int outer, int inner)
{
    const Group *gp = l->gp;
    if (reduces_axis(gp, outer) != reduces_axis(gp, inner)) return false;
    if ((l->survey->no_merge >> outer | l->survey->no_merge >> inner) & 1) return false;
    for (uint32_t i = 0; i < l->survey->reduces.len && reduces_axis(gp, outer); i++) {
        Id id = l->survey->reduces.at[i];
        if (is_arg(l, id) && !arg_mergeable(l, id, outer, inner)) return false;
    }
    for (uint32_t t = 0; t < l->survey->terms.len; t++) {
        int64_t step[MAX_DOMAIN], off;
        lower_steps(l, l->survey->terms.at[t].buffer, l->survey->terms.at[t].map, step, &off);
        if (step[outer] != step[inner] * gp->extent[inner]) return false;
    }
    return true;
}


/* Domain axes in order of decreasing step (kept before reduced ones), neighbours merged where every access allows it. */
void choose_loops(Lower *l)
{
    const Group *gp = l->gp;
    int order[MAX_DOMAIN];
    int64_t weight[MAX_DOMAIN];
    for (int k = 0; k < gp->naxes; k++) {
        int at = k;
        weight[k] = axis_weight(l, k);
        bool fixed = gp->dot || gp->scan;
        for (; at > 0 && !fixed && reduces_axis(gp, order[at - 1]) == reduces_axis(gp, k) && weight[order[at - 1]] < weight[k]; at--)
            order[at] = order[at - 1];
        order[at] = k;
    }
    bool merge = !gp->dot;
    l->nloops = 0;
    for (int i = 0; i < gp->naxes; i++) {
        Loop *last = l->nloops ? &l->loop[l->nloops - 1] : NULL;
        int k = order[i];
        if (last && merge && mergeable(l, last->domain, k)) {
            last->extent *= gp->extent[k];
            last->domain = k;
            continue;
        }
        l->loop[l->nloops++] = (Loop){ .extent = gp->extent[k], .domain = k, .reduced = reduces_axis(gp, k) };
    }
}

int native_lanes(const Lower *l)
{
    int item = dtype_info[l->survey->widest].bytes, lanes = l->gr->target->vector_bytes / (item ? item : 1);
    return lanes > 64 ? 64 : lanes < 2 ? 2 : lanes;
}

/* The loop along which most bytes are contiguous; ties go to the innermost. -1 where no loop is worth vectors. */
static int choose_vector(const Lower *l)
{
    int best = -1;
    double best_score = 0;
    for (int i = 0; i < l->nloops; i++) {
        if (l->gp->scan && l->loop[i].reduced) continue;
        double score = 0.01;
        for (uint32_t t = 0; t < l->survey->terms.len; t++) {
            const Term *term = &l->survey->terms.at[t];
            int64_t step[MAX_DOMAIN], off;
            lower_steps(l, term->buffer, term->map, step, &off);
            int64_t s = step[l->loop[i].domain];
            int item = dtype_info[term->dtype].bytes;
            score += (term->kind == TERM_STORE ? 2 : 1) * (s == item ? 1 : s == 0 ? 0.7 : s == -item ? 0.8 : 0.1);
        }
        int64_t native = native_lanes(l);
        double filled = l->loop[i].extent >= native ? 1 : (double)l->loop[i].extent / (double)native;
        score *= filled;
        if (score >= best_score) best = i, best_score = score;
    }
    return best;
}

/* Whether some access takes larger steps than an element along the vector loop. */
static bool is_strided(const Lower *l)
{
    for (uint32_t t = 0; t < l->survey->terms.len; t++) {
        const Term *term = &l->survey->terms.at[t];
        int64_t step[MAX_DOMAIN], off, item = dtype_info[term->dtype].bytes;
        lower_steps(l, term->buffer, term->map, step, &off);
        int64_t s = step[l->loop[l->vec].domain];
        if (s > item || s < -item) return true;
    }
    return false;
}

/* The largest power of two <= x, within [1, most]. */
static int32_t floor_pow2(int64_t x, int32_t most)
{
    int32_t p = 1;
    while (p * 2 <= x && p * 2 <= most) p *= 2;
    return p;
}

/* Vectors of columns that walk down the rows side by side: the longer their piece of each row, the better memory streams, as
 * long as the states stay in registers. */
static int32_t column_vectors(const Lower *l)
{
    int width = 0;
    for (uint32_t i = 0; i < l->survey->reduces.len; i++) width += monoid_info[monoid_of(l, l->survey->reduces.at[i])].width > 1 ? 2 : 1;
    return width ? floor_pow2(COLUMN_STATES / width, COLUMN_STATES) : 1;
}

int choose_lanes(const Lower *l, bool rows)
{
    int native = native_lanes(l);
    int64_t extent = l->loop[l->vec].extent;
    if (extent <= 4) return native < 4 ? native : 4;
    if (l->gp->scan && is_strided(l)) return native < SCAN_ROWS ? native : SCAN_ROWS;
    if (extent < 4 * native) return native;
    int64_t most = extent / 4;
    if (l->gp->reduced && !rows && l->survey->ops <= 30 && most >= 4 * native) return floor_pow2(most < KERNEL_MAX_LANES ? most : KERNEL_MAX_LANES, native * column_vectors(l));
    int times = l->survey->ops > 60 ? 1 : 2;
    if (rows && l->survey->ops <= 30 && extent >= 1024) times = has_arg(l) ? 8 : 4;    /* a compare, a mask and a select one after the other */
    int lanes = native * times;
    return lanes > 128 ? 128 : lanes;
}

/* ---- statements ---- */

uint32_t open_loop(Lower *l, int i, Part part, int lanes, bool grid)
{
    return kernel_open(l->arena, l->k, l->loop[i].axis, part, lanes, grid);
}

static void select_map(const Lower *l, Id id, const int8_t *axis, Map *m) { map_select(m, node_at(l->gr->g, id)->rank, l->gp->naxes, axis); }

static bool skips(const Lower *l, const Root *r) { return r->carry && l->buffers->at.at[r->buffer].shares; }

static void store_root(Lower *l, const Root *r)
{
    Map m;
    if (skips(l, r)) return;
    const Map *to = root_map(l->gr, l->gp, r);
    select_map(l, r->value, r->axis, &m);
    uint32_t v = to ? lower_value(l, r->value, r->carry ? to : &m) : 0;
    if (!v) return;
    if (r->check) {
        uint32_t status = lower_word(l, 0), code = 0;
        DraftPatch *p = vec_push(l->arena, &l->d->patches);
        while (code < l->gr->g->checks.len && l->gr->g->checks.at[code] != r->check) code++;
        if (p) *p = (DraftPatch){ status, 0, true };
        lower_stmt(l, (Stmt){ .kind = STMT_CHECK, .a = v, .b = code + 1, .c = status });
        return;
    }
    Dtype dt = node_at(l->gr->g, r->value)->dtype;
    uint32_t x = lower_access(l, r->buffer, dt, to, true);
    Op combine = r->scatter ? (Op)node_attr(l->gr->g, r->scatter)[0] : OP_none;
    if (combine) {
        uint32_t old = kernel_val(l->arena, l->k, (Val){ .kind = VAL_LOAD, .dtype = (uint8_t)dt, .a = x });
        v = lower_op(l, combine, dt, old, v);
    }
    lower_stmt(l, (Stmt){ .kind = STMT_STORE, .a = x, .b = v });
}

static void store_roots(Lower *l, bool row)
{
    for (uint32_t i = 0; i < l->gp->roots.len; i++) {
        const Root *r = &l->gp->roots.at[i];
        if (r->phase == l->phase && root_is_row(l->gr, l->gp, r) == row) store_root(l, r);
    }
}

static Dtype input_dtype(const Lower *l, Id id) { return node_at(l->gr->g, node_in(l->gr->g, id)[0])->dtype; }

/* Sums of floats are rounded once per block and added up in a wider state; the lanes of an argmax count within a block. */
static bool is_wide(const Lower *l, Id id)
{
    Monoid m = monoid_of(l, id);
    if (is_arg(l, id)) return l->vec >= 0 && l->loop[l->vec].reduced;
    return (m == MONOID_sum && dtype_info[input_dtype(l, id)].kind == DKIND_FLOAT) || m == MONOID_moments;
}

static bool in_loop(const Lower *l, const Reduction *r)
{
    return l->gr->info[r->id].phase - !l->gp->scan == l->phase;
}

static Monoid outer_monoid(const Lower *l, Id id)
{
    return monoid_of(l, id) == MONOID_sum && is_wide(l, id) && input_dtype(l, id) == DT_float64 ? MONOID_sum2 : monoid_of(l, id);
}

static Dtype outer_dtype(const Lower *l, Id id)
{
    return monoid_of(l, id) == MONOID_sum && input_dtype(l, id) == DT_float32 ? DT_float64 : input_dtype(l, id);
}

static uint32_t state_val(Lower *l, uint32_t state, Dtype dtype, uint32_t component)
{
    return kernel_val(l->arena, l->k, (Val){ .kind = VAL_STATE, .dtype = (uint8_t)dtype, .a = state, .b = component });
}

static uint32_t cast_to(Lower *l, uint32_t v, Dtype from, Dtype to) { return from == to ? v : lower_op(l, OP_cast, to, v, 0); }

static Dtype component_dtype(Monoid m, Dtype dtype, int component)
{
    return (m == MONOID_argmax || m == MONOID_argmin) && component ? DT_int64 : dtype;
}

static void init_state(Lower *l, uint32_t state) { lower_stmt(l, (Stmt){ .kind = STMT_INIT, .a = state }); }

/* Combines `components` values (of the inner state's or a partial's dtype) into state `to` of dtype outer. */
static void reduce_components(Lower *l, uint32_t to, Monoid m, Dtype from, Dtype outer, const uint32_t *v)
{
    Stmt s = { .kind = STMT_REDUCE, .a = to, .b = cast_to(l, v[0], from, outer) };
    if (monoid_info[m].width > 1) s.c = v[1];
    if (monoid_info[m].width > 2) s.d = v[2];
    lower_stmt(l, s);
}

/* The value of a finished state as the reduction's result. */
static uint32_t finish(Lower *l, Id id, uint32_t state, Monoid m, Dtype dtype)
{
    const Graph *g = l->gr->g;
    Dtype result = node_at(g, id)->dtype;
    if (m == MONOID_argmax || m == MONOID_argmin) return state_val(l, state, DT_int64, 1);
    if (m == MONOID_sum2)
        return lower_op(l, OP_add, dtype, state_val(l, state, dtype, 0), state_val(l, state, dtype, 1));
    if (m != MONOID_moments) return cast_to(l, state_val(l, state, dtype, 0), dtype, result);
    double ddof, n = 1;
    memcpy(&ddof, &node_attr(g, id)[1], sizeof ddof);
    Id v = node_in(g, id)[0];
    for (int d = 0; d < node_at(g, v)->rank; d++)
        if (node_attr(g, id)[0] >> d & 1) n *= (double)node_shape(g, v)[d];
    n = n - ddof > 0 ? n - ddof : 0;
    int64_t bits = 0;
    if (dtype == DT_float32) { float f = (float)n; memcpy(&bits, &f, sizeof f); }
    else memcpy(&bits, &n, sizeof n);
    return lower_op(l, OP_divide, dtype, state_val(l, state, dtype, 2), kernel_const(l->arena, l->k, dtype, bits));
}

/* The REDUCE of one element of reduction r into `state`. */
static void reduce_element(Lower *l, const Reduction *r, uint32_t state)
{
    Map m;
    Id v = node_in(l->gr->g, r->id)[0];
    select_map(l, v, l->gr->info[r->id].in_axis, &m);
    Stmt s = { .kind = STMT_REDUCE, .a = state, .b = lower_value(l, v, &m) };
    Monoid mo = monoid_of(l, r->id);
    if (mo == MONOID_argmax || mo == MONOID_argmin) {
        int64_t scale = 1;
        for (int d = node_at(l->gr->g, v)->rank - 1; d >= 0; d--) {      /* C order over the reduced axes */
            if (!(node_attr(l->gr->g, r->id)[0] >> d & 1)) continue;
            for (int i = 0; i < l->nloops; i++) {
                if (l->loop[i].domain >= MAX_DOMAIN || m.step[d][l->loop[i].domain] == 0) continue;
                uint32_t x = kernel_val(l->arena, l->k, (Val){ .kind = VAL_AXIS, .dtype = DT_int64, .a = l->loop[i].axis });
                if (scale != 1) x = lower_op(l, OP_multiply, DT_int64, x, kernel_const(l->arena, l->k, DT_int64, scale));
                s.c = s.c ? lower_op(l, OP_add, DT_int64, s.c, x) : x;
            }
            scale *= node_shape(l->gr->g, v)[d];
        }
        if (!s.c) s.c = kernel_const(l->arena, l->k, DT_int64, 0);
    }
    if (s.b) lower_stmt(l, s);
}

/* ---- one phase: loops over the reduced axes around the phase's stores and reductions ---- */

static bool has_work(const Lower *l)
{
    for (uint32_t i = 0; i < l->gp->roots.len; i++) {
        const Root *r = &l->gp->roots.at[i];
        if (r->phase == l->phase && !skips(l, r) && !root_is_row(l->gr, l->gp, r)) return true;
    }
    for (uint32_t i = 0; i < l->reductions.len; i++) if (in_loop(l, &l->reductions.at[i])) return true;
    for (uint32_t i = 0; i < l->survey->tiles.len; i++) if (l->gr->info[l->survey->tiles.at[i]].phase == l->phase) return true;
    return false;
}

/* The innermost body: tiles, reductions, stores. */
void phase_body(Lower *l)
{
    for (uint32_t i = 0; i < l->reductions.len; i++) {
        Reduction *r = &l->reductions.at[i];
        if (!in_loop(l, r)) continue;
        reduce_element(l, r, (r->inner ? r->inner : r->outer) - 1);
        if (l->gp->scan) r->final = finish(l, r->id, r->outer - 1, monoid_of(l, r->id), input_dtype(l, r->id));
    }
    for (uint32_t i = 0; i < l->survey->tiles.len; i++) {
        Id id = l->survey->tiles.at[i];
        if (l->gr->info[id].phase != l->phase) continue;
        Map m;
        select_map(l, id, l->gr->info[id].axis, &m);
        uint32_t v = lower_value(l, id, &m);
        if (v) lower_stmt(l, (Stmt){ .kind = STMT_STORE, .a = l->tile[i] - 1, .b = v });
    }
    store_roots(l, false);
}

/* Starts the states that live around the loop of blocks (outer) or inside it (inner). */
static void init_states(Lower *l, bool inner, bool two_level)
{
    for (uint32_t i = 0; i < l->reductions.len; i++) {
        Reduction *r = &l->reductions.at[i];
        if (!in_loop(l, r)) continue;
        bool wide = two_level && is_wide(l, r->id);
        if (inner && wide) {
            r->inner = kernel_state(l->arena, l->k, monoid_of(l, r->id), input_dtype(l, r->id)) + 1;
            init_state(l, r->inner - 1);
        } else if (!inner) {
            r->outer = kernel_state(l->arena, l->k, wide ? outer_monoid(l, r->id) : monoid_of(l, r->id),
                                    wide ? outer_dtype(l, r->id) : input_dtype(l, r->id)) + 1;
            init_state(l, r->outer - 1);
        }
    }
}

static void merge_blocks(Lower *l)
{
    for (uint32_t i = 0; i < l->reductions.len; i++) {
        Reduction *r = &l->reductions.at[i];
        if (!in_loop(l, r) || !r->inner) continue;
        Monoid m = monoid_of(l, r->id);
        uint32_t v[3] = { 0 };
        for (int c = 0; c < monoid_info[m].width; c++) v[c] = state_val(l, r->inner - 1, component_dtype(m, input_dtype(l, r->id), c), (uint32_t)c);
        reduce_components(l, r->outer - 1, m, input_dtype(l, r->id), outer_dtype(l, r->id), v);
    }
}

static void finish_phase(Lower *l, bool two_level)
{
    for (uint32_t i = 0; i < l->reductions.len; i++) {
        Reduction *r = &l->reductions.at[i];
        if (!in_loop(l, r) || l->gp->scan) continue;
        bool wide = two_level && is_wide(l, r->id);
        r->final = finish(l, r->id, r->outer - 1, wide ? outer_monoid(l, r->id) : monoid_of(l, r->id),
                          wide ? outer_dtype(l, r->id) : input_dtype(l, r->id));
    }
}

/* Opens the reduced loops from `from` on (all but `skip`), the vector loop last; returns how many, their FORs in at. */
static int open_reduced(Lower *l, int skip, uint32_t *at)
{
    int n = 0;
    for (int i = 0; i < l->nloops; i++)
        if (l->loop[i].reduced && i != l->vec && i != skip) at[n++] = open_loop(l, i, PART_WHOLE, 0, false);
    if (l->vec >= 0 && l->loop[l->vec].reduced && l->vec != skip) at[n++] = open_loop(l, l->vec, PART_WHOLE, l->lanes, false);
    return n;
}

void close_all(Lower *l, const uint32_t *at, int n)
{
    while (n > 0) kernel_close(l->k, at[--n]);
}

/* One loop nest of the current phase; `blocked`: the reduced loop that runs in blocks, -1: none. */
static void phase_loops(Lower *l, int blocked)
{
    uint32_t at[MAX_DOMAIN + 2];
    init_states(l, false, blocked >= 0);
    if (blocked < 0) {
        int n = open_reduced(l, -1, at);
        phase_body(l);
        close_all(l, at, n);
    } else if (blocked == l->vec) {
        int n = open_reduced(l, blocked, at);
        at[n++] = open_loop(l, blocked, PART_BLOCKS, 0, false);
        init_states(l, true, true);
        uint32_t in = open_loop(l, blocked, PART_WITHIN, l->lanes, false);
        phase_body(l);
        kernel_close(l->k, in);
        merge_blocks(l);
        close_all(l, at, n);
    } else {
        uint32_t out = open_loop(l, blocked, PART_BLOCKS, 0, false);
        init_states(l, true, true);
        at[0] = open_loop(l, blocked, PART_WITHIN, 0, false);
        int n = 1 + open_reduced(l, blocked, at + 1);
        phase_body(l);
        close_all(l, at, n);
        merge_blocks(l);
        kernel_close(l->k, out);
    }
    finish_phase(l, blocked >= 0);
}

void all_phases(Lower *l, int blocked)
{
    for (l->phase = 0; l->phase < l->survey->phases; l->phase++) {
        store_roots(l, true);
        if (has_work(l)) phase_loops(l, blocked);
    }
}

/* ---- forms ---- */

static int64_t extents(const Lower *l, bool reduced)
{
    int64_t p = 1;
    for (int i = 0; i < l->nloops; i++) if (l->loop[i].reduced == reduced) p *= l->loop[i].extent;
    return p;
}

/* The reduced loop that a sum runs through in blocks, and the block; -1: none is needed. */
static int choose_blocks(const Lower *l, int32_t *block)
{
    bool wide = false, rows = l->vec >= 0 && l->loop[l->vec].reduced;
    for (uint32_t i = 0; i < l->survey->reduces.len; i++) wide = wide || is_wide(l, l->survey->reduces.at[i]);
    if (!wide || l->gp->scan || extents(l, true) <= (rows ? BLOCK : ROW_BLOCK)) return -1;
    if (rows && l->loop[l->vec].extent > BLOCK) {
        *block = BLOCK;
        return l->vec;
    }
    for (int i = 0; i < l->nloops; i++) {
        if (!l->loop[i].reduced) continue;
        int64_t inside = extents(l, true) / (l->loop[i].extent ? l->loop[i].extent : 1);
        *block = rows ? floor_pow2(BLOCK / (inside ? inside : 1), ROW_BLOCK) : floor_pow2(ROW_BLOCK / (inside ? inside : 1), ROW_BLOCK);
        return i;
    }
    return -1;
}

static void make_axes(Lower *l, int blocked, int32_t block)
{
    for (int i = 0; i < l->nloops; i++) l->loop[i].axis = lower_axis(l, l->loop[i].extent, i == blocked ? block : 0);
}

/* Tiles: the reduced axes contiguous, the vector loop innermost where it is kept. */
void make_tiles(Lower *l, int64_t columns)
{
    for (uint32_t t = 0; t < l->survey->tiles.len; t++) {
        Dtype dt = node_at(l->gr->g, l->survey->tiles.at[t])->dtype;
        int item = dtype_info[dt].bytes;
        int64_t step[MAX_DOMAIN + 1] = { 0 }, outer[MAX_DOMAIN + 1], bytes = item * columns;
        bool kept_vec = l->vec >= 0 && !l->loop[l->vec].reduced;
        for (int i = 0; i < l->nloops; i++) outer[i] = -1;
        if (kept_vec) step[l->vec] = item, outer[l->vec] = 0;
        for (int i = l->nloops - 1; i >= 0; i--) {
            if (!l->loop[i].reduced) continue;
            step[i] = bytes;
            bytes *= l->loop[i].extent;
        }
        uint32_t array = lower_scratch(l, dt, bytes);
        l->tile[t] = lower_strided(l, array, dt, step, outer, 0) + 1;
    }
}

void list_reductions(Lower *l)
{
    for (uint32_t i = 0; i < l->survey->reduces.len; i++) {
        Reduction *r = vec_push(l->arena, &l->reductions);
        if (r) r->id = l->survey->reduces.at[i];
    }
}

int open_grid(Lower *l, uint32_t *at)
{
    int n = 0;
    for (int i = 0; i < l->nloops; i++)
        if (!l->loop[i].reduced && i != l->vec) at[n++] = open_loop(l, i, PART_WHOLE, 0, true);
    return n;
}

/* Elementwise, and reductions and scans by columns: the vector loop is kept. */
static void form_columns(Lower *l, int blocked, int32_t block)
{
    uint32_t at[MAX_DOMAIN + 2];
    bool walks = l->gp->reduced != 0;
    int64_t extent = l->vec >= 0 ? l->loop[l->vec].extent : 0;
    int32_t vec_block = walks ? (extent > l->lanes ? l->lanes : 0) : extent > LONG_LOOP ? BLOCK : 0;
    for (int i = 0; i < l->nloops; i++)
        l->loop[i].axis = lower_axis(l, l->loop[i].extent, i == blocked ? block : i == l->vec ? vec_block : 0);
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

/* ---- split reductions ---- */

/* The partial states of one block of the reduced loop `split`, stored per block and kept coordinate. */
static bool store_partials(Lower *l, int split, int64_t nblocks)
{
    for (uint32_t i = 0; i < l->reductions.len; i++) {
        Reduction *r = &l->reductions.at[i];
        Monoid m = monoid_of(l, r->id);
        for (int c = 0; c < monoid_info[m].width; c++) {
            Dtype dt = component_dtype(m, input_dtype(l, r->id), c);
            int64_t step[MAX_DOMAIN + 1] = { 0 }, outer[MAX_DOMAIN + 1], bytes = dtype_info[dt].bytes;
            for (int j = 0; j < l->nloops; j++) outer[j] = -1;
            for (int j = l->nloops - 1; j >= 0; j--)
                if (!l->loop[j].reduced) step[j] = bytes, bytes *= l->loop[j].extent;
            outer[split] = bytes;
            r->partial[c] = buffers_add(l->gr, l->buffers, dt, bytes * nblocks);
            if (!r->partial[c]) return false;
            uint32_t x = lower_strided(l, lower_array(l, r->partial[c], dt, true), dt, step, outer, 0);
            lower_stmt(l, (Stmt){ .kind = STMT_STORE, .a = x, .b = state_val(l, r->outer - 1, dt, (uint32_t)c) });
        }
    }
    return true;
}

static void split_partials(Lower *l, int split, int32_t block, int64_t nblocks)
{
    uint32_t at[MAX_DOMAIN + 2], in[MAX_DOMAIN + 2];
    bool rows = l->vec >= 0 && l->loop[l->vec].reduced;
    int32_t vec_block = rows ? 0 : l->lanes;
    for (int i = 0; i < l->nloops; i++)
        l->loop[i].axis = lower_axis(l, l->loop[i].extent, i == split ? block : i == l->vec ? vec_block : 0);
    int n = 0, m = 0;
    at[n++] = open_loop(l, split, PART_BLOCKS, 0, true);
    n += open_grid(l, at + n);
    if (!rows && l->vec >= 0) {
        at[n++] = open_loop(l, l->vec, PART_BLOCKS, 0, true);
        at[n++] = open_loop(l, l->vec, PART_WITHIN, l->lanes, false);
    }
    l->phase = 0;
    init_states(l, false, false);
    if (split != l->vec) in[m++] = open_loop(l, split, PART_WITHIN, 0, false);
    m += open_reduced(l, split, in + m);
    if (split == l->vec) in[m++] = open_loop(l, split, PART_WITHIN, l->lanes, false);
    phase_body(l);
    close_all(l, in, m);
    store_partials(l, split, nblocks);
    close_all(l, at, n);
}

/* Reads component c of a partial at the loop over blocks (loop index l->nloops - 1) and the kept loops. */
static uint32_t load_partial(Lower *l, const Reduction *r, int c)
{
    Dtype dt = component_dtype(monoid_of(l, r->id), input_dtype(l, r->id), c);
    int64_t step[MAX_DOMAIN + 1] = { 0 }, bytes = dtype_info[dt].bytes;
    for (int j = l->nloops - 2; j >= 0; j--) step[j] = bytes, bytes *= l->loop[j].extent;
    step[l->nloops - 1] = bytes;
    uint32_t x = lower_strided(l, lower_array(l, r->partial[c], dt, false), dt, step, NULL, 0);
    return kernel_val(l->arena, l->k, (Val){ .kind = VAL_LOAD, .dtype = (uint8_t)dt, .a = x });
}

/* The second kernel: combines the partials of each kept coordinate and computes what depends on the results only. */
static void split_combine(Lower *l, const Lower *first, int64_t nblocks)
{
    uint32_t at[MAX_DOMAIN + 2], v[3] = { 0 };
    int n = 0;
    l->nloops = 0;
    for (int i = 0; i < first->nloops; i++) if (!first->loop[i].reduced) l->loop[l->nloops++] = first->loop[i];
    int kept = l->nloops;
    l->loop[l->nloops++] = (Loop){ .extent = nblocks, .domain = MAX_DOMAIN, .reduced = true };
    l->vec = l->nloops > 1 ? kept - 1 : l->nloops - 1;
    l->lanes = native_lanes(l);
    for (int i = 0; i < l->nloops; i++) l->loop[i].axis = lower_axis(l, l->loop[i].extent, 0);
    for (uint32_t i = 0; i < first->reductions.len; i++) {
        Reduction *r = vec_push(l->arena, &l->reductions);
        if (r) *r = (Reduction){ .id = first->reductions.at[i].id, .partial = { first->reductions.at[i].partial[0],
            first->reductions.at[i].partial[1], first->reductions.at[i].partial[2] } };
    }
    for (int i = 0; i < kept; i++)
        at[n++] = open_loop(l, i, PART_WHOLE, i == l->vec ? l->lanes : 0, i != l->vec);
    l->phase = 0;
    init_states(l, false, true);
    uint32_t loop = open_loop(l, kept, PART_WHOLE, l->vec == kept ? l->lanes : 0, false);
    for (uint32_t i = 0; i < l->reductions.len; i++) {
        Reduction *r = &l->reductions.at[i];
        Monoid m = monoid_of(l, r->id);
        for (int c = 0; c < monoid_info[m].width; c++) v[c] = load_partial(l, r, c);
        bool wide = is_wide(l, r->id);
        reduce_components(l, r->outer - 1, m, input_dtype(l, r->id), wide ? outer_dtype(l, r->id) : input_dtype(l, r->id), v);
    }
    kernel_close(l->k, loop);
    finish_phase(l, true);
    for (l->phase = 1; l->phase < l->survey->phases; l->phase++) store_roots(l, true);
    close_all(l, at, n);
}

/* Whether all of the group is one loop of reductions with little left to do, worth splitting over grid points; the loop and its block. */
static int choose_split(const Lower *l, int32_t *block)
{
    bool rows = l->vec >= 0 && l->loop[l->vec].reduced;
    int64_t red = extents(l, true), kept = extents(l, false);
    if (!l->gp->reduced || l->gp->scan || l->vec < 0 || !l->survey->reduces.len || l->survey->tiles.len || red * kept <= SPLIT_SIZE) return -1;
    if (rows ? kept > 64 : red <= 1024) return -1;
    for (uint32_t i = 0; i < l->survey->reduces.len; i++) if (l->gr->info[l->survey->reduces.at[i]].phase != 1) return -1;
    for (uint32_t i = 0; i < l->gp->roots.len; i++) {
        const Root *r = &l->gp->roots.at[i];
        if (r->phase > 0 && !root_is_row(l->gr, l->gp, r)) return -1;
        if (r->phase == 0 && root_is_row(l->gr, l->gp, r)) return -1;
    }
    int split = l->vec;
    for (int i = l->nloops - 1; i >= 0; i--) if (l->loop[i].reduced && i != l->vec) split = i;
    if (rows && l->loop[l->vec].extent >= SPLIT_BLOCK) split = l->vec;
    if (split == l->vec && !rows) return -1;
    int64_t inside = red / l->loop[split].extent;
    if (split == l->vec) *block = SPLIT_BLOCK;
    else *block = rows ? floor_pow2(SPLIT_BLOCK / inside, ROW_BLOCK) : floor_pow2(ROW_BLOCK / inside, ROW_BLOCK);
    if (rows && split == l->vec && l->nloops - 1 > 0)
        for (int i = 0; i < l->nloops; i++) if (l->loop[i].reduced && i != l->vec && l->loop[i].extent > ROW_BLOCK) return -1;
    return split;
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
#ifdef PYXLA_DEBUG
    if (!kernel_verify(l->k, l->err)) return false;
#endif
    return true;
}

static bool schedule_split(Lower *l, int split, int32_t block, Drafts *out)
{
    Lower second;
    int64_t nblocks = (l->loop[split].extent + block - 1) / block;
    split_partials(l, split, block, nblocks);
    if (!draft_end(l)) return false;
    if (!draft_begin(&second, out, l->gr, l->n, l->survey, l->buffers)) return false;
    split_combine(&second, l, nblocks);
    return draft_end(&second);
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
    if (is_idle(&l)) return true;
    if (l.gp->dot) return schedule_dot(gr, n, survey, buffers, out);
    if (!draft_begin(&l, out, gr, n, survey, buffers)) return false;
    choose_loops(&l);
    list_reductions(&l);
    l.vec = choose_vector(&l);
    bool rows = l.vec >= 0 && l.loop[l.vec].reduced;
    if (l.vec >= 0) l.lanes = choose_lanes(&l, rows);
    int split = choose_split(&l, &block);
    if (split >= 0) return schedule_split(&l, split, block, out);
    int blocked = choose_blocks(&l, &block);
    if (rows) form_rows(&l, blocked, block);
    else if (choose_turn(&l) >= 0) form_turned(&l);
    else form_columns(&l, blocked, block);
    return draft_end(&l);
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
        if (gp->naxes == MAX_DOMAIN) return err_set(g->err, ERR_UNSUPPORTED, "an array with more than %d axes longer than 1", MAX_DOMAIN);
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
