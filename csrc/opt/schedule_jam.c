/* Elementwise kernels that read an array at neighbouring rows, as stencils do: a grid point makes a few rows, so that what they read in common is loaded once,
 * and what they compute of it in common is computed once. The rows that are left over are made one by one. */
#include "opt/schedule.h"

enum {
    MOST_ROWS = 4,
    MOST_LOADS = 48,             /* of a row: the count below is quadratic */
    MOST_SHARED = 40,            /* of a grid point: they wait in registers for all rows that want them. 27 points: 2 rows (36 loads) are faster than 4 (54) */
    FEW_LOADS = 24,              /* of a grid point: more leave no registers for vectors side by side */
    MOST_OPS = 120,              /* of all rows of a grid point: code takes time to compile */
    JAM_SIZE = 8192,            /* points from which it is worth that time */
};

typedef struct { Id memory; int64_t off, step[MAX_DOMAIN]; } Read;

static bool same_read(const Lower *l, const Read *x, const Read *y)
{
    if (x->memory != y->memory || x->off != y->off) return false;
    for (int i = 0; i < l->nloops; i++) if (x->step[l->loop[i].domain] != y->step[l->loop[i].domain]) return false;
    return true;
}

/* Whether what the term loads of an array that the group stores to is the very element that its point stores, or none that the group stores. */
static bool reads_own(const Lower *l, const Term *load)
{
    for (uint32_t t = 0; t < l->survey->terms.len; t++) {
        const Term *store = &l->survey->terms.at[t];
        if (store->kind != TERM_STORE || buffers_memory(l->buffers, store->buffer) != buffers_memory(l->buffers, load->buffer)) continue;
        if (store->box || store->map->flat || store->map->nindex) return false;
        if (!map_equal(load->map, store->map) && !map_apart(load->map, l->gp->extent, store->map, l->gp->extent)) return false;
    }
    return true;
}

/* Different loads of `rows` neighbouring rows along loop i; 0: it is not known how many. */
static int loads_of(const Lower *l, int i, int rows)
{
    Read read[MOST_LOADS * MOST_ROWS];
    int n = 0;
    for (uint32_t t = 0; t < l->survey->terms.len; t++) {
        const Term *term = &l->survey->terms.at[t];
        if (term->kind != TERM_LOAD) continue;
        if (term->box || term->map->nindex || term->map->flat || (is_written(l, term->buffer) && !reads_own(l, term))) return 0;
        for (int r = 0; r < rows; r++) {
            Read *at = &read[n];
            int seen = 0;
            at->memory = buffers_memory(l->buffers, term->buffer);
            lower_steps(l, term->buffer, term->map, at->step, &at->off);
            at->off += r * at->step[l->loop[i].domain];
            while (!same_read(l, &read[seen], at)) seen++;
            n += seen == n;
            if (n == MOST_LOADS * MOST_ROWS) return 0;
        }
    }
    return n;
}

static bool may_jam(const Lower *l)
{
    const Group *gp = l->gp;
    if (l->vec < 0 || gp->reduced || gp->scan || gp->dot || gp->inner || l->survey->phases != 1 || l->survey->tiles.len) return false;
    for (uint32_t i = 0; i < gp->roots.len; i++) {
        const Root *r = &gp->roots.at[i];
        if (r->check || r->scatter || r->then || skips(l, r)) return false;
    }
    return extents(l, false) >= JAM_SIZE && l->loop[l->vec].extent >= 2 * native_lanes(l);
}

int choose_jam(const Lower *l, int *rows)
{
    int best = -1, best_loads = 0;
    if (!may_jam(l)) return -1;
    for (int i = l->nloops - 1; i >= 0; i--) {
        int one = i == l->vec ? 0 : loads_of(l, i, 1);
        if (one < 4 || one > MOST_LOADS) continue;
        for (int r = MOST_ROWS; r > 1; r /= 2) {
            int shared = loads_of(l, i, r), loads = shared * (MOST_ROWS / r);      /* of MOST_ROWS rows */
            if (l->survey->ops * r > MOST_OPS || l->loop[i].extent < 4 * r || !shared || shared > MOST_SHARED || loads * 5 > one * MOST_ROWS * 4) continue;
            if (best < 0 || loads < best_loads) best = i, best_loads = loads, *rows = r;
        }
    }
    return best;
}

/* A loop along the rows around their stores: those of `rows` rows together, or of one. */
static void store_rows(Lower *l, int loop, Part part, bool blocked, int rows)
{
    uint32_t at[2] = { open_loop(l, loop, part, 0, false), open_loop(l, l->vec, blocked ? PART_WITHIN : PART_WHOLE, l->lanes, false) };
    l->loop[loop].full = part == PART_FULL;
    for (int r = 0; r < rows; r++) {
        lower_forget(l);
        l->loop[loop].first = r;
        store_roots(l, true);
        store_roots(l, false);
    }
    l->loop[loop].first = 0;
    l->loop[loop].full = false;
    close_all(l, at, 2);
}

void form_jammed(Lower *l, int loop, int rows)
{
    uint32_t at[MAX_DOMAIN + 2];
    int n = 0;
    int32_t block = l->loop[l->vec].extent > LONG_LOOP ? BLOCK : 0;
    if (loads_of(l, loop, rows) > FEW_LOADS) l->lanes = native_lanes(l);
    l->loop[loop].rows = rows;
    for (int i = 0; i < l->nloops; i++) l->loop[i].axis = lower_axis(l, l->loop[i].extent, i == loop ? rows : i == l->vec ? block : 0);
    for (int i = 0; i < l->nloops; i++) if (i != l->vec) at[n++] = open_loop(l, i, i == loop ? PART_BLOCKS : PART_WHOLE, 0, true);
    if (block) at[n++] = open_loop(l, l->vec, PART_BLOCKS, 0, true);
    store_rows(l, loop, PART_FULL, block > 0, rows);
    if (l->loop[loop].extent % rows) store_rows(l, loop, PART_REST, block > 0, 1);
    close_all(l, at, n);
}
