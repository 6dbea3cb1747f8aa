/* Long reductions with few results: a kernel that stores the partial states of blocks, one grid point each, and one that combines them. */
#include "opt/schedule.h"

enum {
    SPLIT_SIZE = 65536,          /* elements from which a reduction is split */
    SPLIT_BLOCK = 8192,
    EARLY_BLOCKS = 64,           /* grid points at most of a reduction that may end early: all of them begin */
    SPLIT_ROWS = 2 * ROW_BLOCK,  /* rows of a grid point: there are many blocks, so their own sums may be a little less accurate */
};

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

void combine_partials(Lower *l, const Lower *first, int64_t nblocks)
{
    uint32_t at[MAX_DOMAIN + 2], v[3] = { 0 };
    int n = 0;
    l->nloops = 0;
    for (int i = 0; i < first->nloops; i++) if (!first->loop[i].reduced) l->loop[l->nloops++] = first->loop[i];
    int kept = l->nloops;
    l->loop[l->nloops++] = (Loop){ .extent = nblocks, .domain = MAX_DOMAIN, .reduced = true };
    l->vec = l->nloops > 1 ? kept - 1 : l->nloops - 1;
    l->lanes = native_lanes(l);
    bool cut = l->vec < kept && l->loop[l->vec].extent > LONG_LOOP;
    for (int i = 0; i < l->nloops; i++) l->loop[i].axis = lower_axis(l, l->loop[i].extent, cut && i == l->vec ? BLOCK : 0);
    for (uint32_t i = 0; i < first->reductions.len; i++) {
        Reduction *r = vec_push(l->arena, &l->reductions);
        if (r) *r = (Reduction){ .id = first->reductions.at[i].id, .partial = { first->reductions.at[i].partial[0],
            first->reductions.at[i].partial[1], first->reductions.at[i].partial[2] } };
    }
    for (int i = 0; i < kept - 1; i++) at[n++] = open_loop(l, i, PART_WHOLE, 0, true);
    if (cut) at[n++] = open_loop(l, l->vec, PART_BLOCKS, 0, true);
    if (kept) at[n++] = open_loop(l, l->vec, cut ? PART_WITHIN : PART_WHOLE, l->lanes, false);
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

/* Whether the only reduction may be decided by its first elements: any, all, and argmax of bools. */
static bool ends_early(const Lower *l)
{
    if (l->survey->reduces.len != 1) return false;
    Monoid m = monoid_of(l, l->survey->reduces.at[0]);
    return m == MONOID_any || m == MONOID_all || ((m == MONOID_argmax || m == MONOID_argmin) && input_dtype(l, l->survey->reduces.at[0]) == DT_bool_);
}

/* Elements of a grid point that goes along the reduced vector loop. */
static int32_t split_block(const Lower *l, int64_t extent)
{
    int64_t block = sum_block(l, SPLIT_BLOCK, 2 * SUM_TRIPS);
    while (ends_early(l) && block * EARLY_BLOCKS < extent && block < INT32_MAX / 4) block *= 2;
    return (int32_t)block;
}

int choose_split(const Lower *l, int32_t *block)
{
    bool rows = l->vec >= 0 && l->loop[l->vec].reduced;
    int64_t red = extents(l, true), kept = extents(l, false);
    if (!l->gp->reduced || l->gp->inner || l->gp->scan || l->vec < 0 || !l->survey->reduces.len || l->survey->tiles.len || red * kept <= SPLIT_SIZE) return -1;
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
    if (split == l->vec) *block = split_block(l, l->loop[split].extent);
    else *block = rows ? floor_pow2(SPLIT_BLOCK / inside, SPLIT_ROWS) : floor_pow2(SPLIT_ROWS / inside, SPLIT_ROWS);
    if (rows && split == l->vec && l->nloops - 1 > 0)
        for (int i = 0; i < l->nloops; i++) if (l->loop[i].reduced && i != l->vec && l->loop[i].extent > SPLIT_ROWS) return -1;
    return split;
}

bool schedule_split(Lower *l, int split, int32_t block, Drafts *out)
{
    Lower second;
    int64_t nblocks = (l->loop[split].extent + block - 1) / block;
    split_partials(l, split, block, nblocks);
    if (!draft_end(l)) return false;
    if (!draft_begin(&second, out, l->gr, l->n, l->survey, l->buffers)) return false;
    combine_partials(&second, l, nblocks);
    return draft_end(&second);
}
