/* The body of a group's kernel: one loop nest per phase, with its reductions, tiles and stores.
 *
 * The state of a sum is two-level where a loop runs in blocks: one of the input's dtype inside a block, a wider one around. */
#include <string.h>
#include "opt/schedule.h"

enum { MOST_ORDERED = 64 };           /* stores whose values are numbered together */

uint32_t open_loop(Lower *l, int i, Part part, int lanes, bool grid)
{
    return kernel_open(l->arena, l->k, l->loop[i].axis, part, lanes, grid);
}

static void select_map(const Lower *l, Id id, const int8_t *axis, Map *m) { map_select(m, node_at(l->gr->g, id)->rank, l->gp->naxes, axis); }

bool skips(const Lower *l, const Root *r) { return r->carry && l->buffers->at.at[r->buffer].shares; }

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
    uint32_t tile = r->then ? l->then_tile : lower_tile_of(l, r->buffer);
    uint32_t x = tile ? tile - 1 : l->feed_tile ? feed_access(l, r) : lower_access(l, r->buffer, dt, to, true);
    Op combine = r->scatter ? (Op)node_attr(l->gr->g, r->scatter)[0] : OP_none;
    if (combine) {
        uint32_t old = kernel_val(l->arena, l->k, (Val){ .kind = VAL_LOAD, .dtype = (uint8_t)dt, .a = x });
        v = lower_op(l, combine, dt, old, v);
    }
    lower_stmt(l, (Stmt){ .kind = STMT_STORE, .a = x, .b = v });
}

/* Whether the root is stored inside the loops over the inner axes of a nested group. */
static bool is_inner_root(const Lower *l, const Root *r)
{
    for (int d = 0; d < node_at(l->gr->g, r->value)->rank; d++)
        if (r->axis[d] >= 0 && l->gp->inner >> r->axis[d] & 1) return true;
    return false;
}

static bool same_place(const Lower *l, const Root *r, const Root *q)
{
    int rank = node_at(l->gr->g, r->value)->rank;
    return rank == node_at(l->gr->g, q->value)->rank && !memcmp(r->axis, q->axis, sizeof *r->axis * (size_t)rank);
}

/* The values of the roots that store at the same coordinates as the first one, in the program's order. */
static void values_in_order(Lower *l)
{
    const Root *first = NULL;
    Id values[MOST_ORDERED];
    int n = 0;
    Map m;
    for (uint32_t i = 0; i < l->gp->roots.len && n < MOST_ORDERED; i++) {
        const Root *r = &l->gp->roots.at[i];
        if (r->carry || (first && !same_place(l, r, first))) continue;
        first = first ? first : r;
        values[n++] = r->value;
    }
    if (!first) return;
    select_map(l, first->value, first->axis, &m);
    lower_in_order(l, values, n, &m);
}

void store_roots(Lower *l, bool row)
{
    if (!row) values_in_order(l);
    for (uint32_t i = 0; i < l->gp->roots.len; i++) {
        const Root *r = &l->gp->roots.at[i];
        if (r->phase == l->phase && root_is_row(l->gr, l->gp, r) == row && !is_inner_root(l, r)) store_root(l, r);
    }
}

Dtype input_dtype(const Lower *l, Id id) { return node_at(l->gr->g, node_in(l->gr->g, id)[0])->dtype; }

bool is_wide(const Lower *l, Id id)
{
    Monoid m = monoid_of(l, id);
    if (nest_is_inner(l->gr, id)) return false;
    if (is_arg(l, id)) return l->vec >= 0 && l->loop[l->vec].reduced;
    return (m == MONOID_sum && dtype_info[input_dtype(l, id)].kind == DKIND_FLOAT) || m == MONOID_moments;
}

static bool in_loop(const Lower *l, const Reduction *r)
{
    return group_loop_of(l->gr, r->id) == l->phase && !nest_is_inner(l->gr, r->id);
}

static Monoid outer_monoid(const Lower *l, Id id)
{
    return monoid_of(l, id) == MONOID_sum && is_wide(l, id) && input_dtype(l, id) == DT_float64 ? MONOID_sum2 : monoid_of(l, id);
}

Dtype outer_dtype(const Lower *l, Id id)
{
    return monoid_of(l, id) == MONOID_sum && input_dtype(l, id) == DT_float32 ? DT_float64 : input_dtype(l, id);
}

uint32_t state_val(Lower *l, uint32_t state, Dtype dtype, uint32_t component)
{
    return kernel_val(l->arena, l->k, (Val){ .kind = VAL_STATE, .dtype = (uint8_t)dtype, .a = state, .b = component });
}

static uint32_t cast_to(Lower *l, uint32_t v, Dtype from, Dtype to) { return from == to ? v : lower_op(l, OP_cast, to, v, 0); }

Dtype component_dtype(Monoid m, Dtype dtype, int component)
{
    return (m == MONOID_argmax || m == MONOID_argmin) && component ? DT_int64 : dtype;
}

static void init_state(Lower *l, uint32_t state) { lower_stmt(l, (Stmt){ .kind = STMT_INIT, .a = state }); }

void reduce_components(Lower *l, uint32_t to, Monoid m, Dtype from, Dtype outer, const uint32_t *v)
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
    return lower_op(l, OP_divide, dtype, state_val(l, state, dtype, 2), lower_number(l, dtype, n));
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

/* The reductions of a nested group over its inner axes, and the stores there. */
static void inner_loops(Lower *l)
{
    uint32_t at[MAX_DOMAIN];
    int n = 0;
    for (uint32_t i = 0; i < l->reductions.len; i++) {
        Reduction *r = &l->reductions.at[i];
        if (!nest_is_inner(l->gr, r->id)) continue;
        r->outer = kernel_state(l->arena, l->k, monoid_of(l, r->id), input_dtype(l, r->id)) + 1;
        init_state(l, r->outer - 1);
    }
    for (int i = 0; i < l->nloops; i++) if (l->loop[i].inner) at[n++] = open_loop(l, i, PART_WHOLE, 0, false);
    for (uint32_t i = 0; i < l->reductions.len; i++)
        if (nest_is_inner(l->gr, l->reductions.at[i].id)) reduce_element(l, &l->reductions.at[i], l->reductions.at[i].outer - 1);
    for (uint32_t i = 0; i < l->gp->roots.len; i++)
        if (is_inner_root(l, &l->gp->roots.at[i])) store_root(l, &l->gp->roots.at[i]);
    close_all(l, at, n);
    for (uint32_t i = 0; i < l->reductions.len; i++) {
        Reduction *r = &l->reductions.at[i];
        if (nest_is_inner(l->gr, r->id)) r->final = finish(l, r->id, r->outer - 1, monoid_of(l, r->id), input_dtype(l, r->id));
    }
}

/* The innermost body: tiles, reductions, stores. */
void phase_body(Lower *l)
{
    if (l->gp->inner && !l->phase) inner_loops(l);
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

void init_states(Lower *l, bool inner, bool two_level)
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

void finish_phase(Lower *l, bool two_level)
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
int open_reduced(Lower *l, int skip, uint32_t *at)
{
    int n = 0;
    for (int i = 0; i < l->nloops; i++)
        if (l->loop[i].reduced && !l->loop[i].inner && i != l->vec && i != skip) at[n++] = open_loop(l, i, PART_WHOLE, 0, false);
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

/* ---- around the phases ---- */

/* The root that the last statement of the last loop stores, if no other access of the group touches its memory and it has as many elements as the domain;
 * else NULL. */
static const Root *last_root(const Lower *l)
{
    const Root *last = NULL;
    int64_t bytes = 1;
    int touches = 0;
    for (uint32_t i = 0; i < l->gp->roots.len; i++) {
        const Root *r = &l->gp->roots.at[i];
        if (r->phase == l->survey->phases - 1 && !root_is_row(l->gr, l->gp, r) && !skips(l, r)) last = r;
    }
    if (!last || last->check || last->carry || last->scatter || last->then || l->buffers->at.at[last->buffer].shares) return NULL;
    for (uint32_t i = 0; i < l->survey->terms.len; i++)
        touches += buffers_place(l->buffers, l->survey->terms.at[i].buffer) == buffers_place(l->buffers, last->buffer);
    for (int k = 0; k < l->gp->naxes; k++) bytes *= l->gp->extent[k];
    return touches == 1 && bytes * dtype_info[node_at(l->gr->g, last->value)->dtype].bytes == l->buffers->at.at[last->buffer].bytes ? last : NULL;
}

/* An access for a long tile in the memory of a result that takes its place at the end: a scratch row besides those of the operand and of the
 * result would leave less of these in the second cache. False: there is none. */
static bool tile_in_result(Lower *l, const Root *r, Dtype dt, int64_t bytes, uint32_t *access)
{
    if (!r || bytes <= (int64_t)l->gr->target->l1 || l->gp->dot || l->feed_tile || l->gp->inner || l->vec < 0 || !l->loop[l->vec].reduced) return false;
    const Map *to = root_map(l->gr, l->gp, r);
    if (!to || to->nindex || node_at(l->gr->g, r->value)->dtype != dt || l->buffers->at.at[r->buffer].dtype != dt) return false;
    *access = lower_access(l, r->buffer, dt, to, true);
    if (!l->err->kind) l->k->arrays.at[l->k->accesses.at[*access].array].ordered = true;
    return true;
}

/* Tiles: the reduced axes contiguous, the vector loop innermost where it is kept. */
void make_tiles(Lower *l, int64_t columns)
{
    const Root *result = l->survey->tiles.len ? last_root(l) : NULL;
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
        uint32_t access;
        if (tile_in_result(l, result, dt, bytes, &access)) {
            l->tile[t] = access + 1;
            result = NULL;                                      /* taken */
            continue;
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
