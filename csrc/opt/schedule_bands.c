/* Sums down the columns of a matrix that comes from memory and whose rows are read in short pieces: of narrow elements, or where each vector body computes much. Walking
 * down a strip of columns reads such a piece of each row, and no machine expects the next one (12 to 14 GB/s of 28 where a piece is 128 to 512 bytes). Here a grid point goes through a band of eight rows
 * at a time over a wide block of columns: eight streams. The sums of a band's columns are added to a row of wider sums in scratch, which stays in the first cache. */
#include "opt/schedule.h"

enum {
    BAND = 8,                    /* rows: a span, as gen/spans.c has them */
    SHORT_PIECE = 1024,          /* bytes of a row that one vector body reads, below which it pays */
    VECTORS = 4,                 /* side by side in a band */
    LEAST_COLUMNS = 1024,        /* of a block */
    MOST_COLUMNS = 2048,         /* ... so that its wide sums stay in the first cache */
    BLOCKS = 2,                  /* of columns, for threads, where they are not too short */
    MOST_SUMS = 2,
    FEW_COLUMNS = 512,           /* fewer are left to strips, which are then most of a row */
    FROM_MEMORY = 16,            /* second caches: arguments of so many bytes in all do not wait in a cache until the next call */
};

/* Whether the group is one loop of float32 sums, and what depends on them alone. */
static bool only_sums(const Lower *l)
{
    if (l->gp->inner || l->gp->scan || l->gp->dot || l->survey->tiles.len || !l->survey->reduces.len || l->survey->reduces.len > MOST_SUMS) return false;
    for (uint32_t i = 0; i < l->survey->reduces.len; i++) {
        Id id = l->survey->reduces.at[i];
        if (l->gr->info[id].phase != 1 || monoid_of(l, id) != MONOID_sum || input_dtype(l, id) != DT_float32) return false;
    }
    for (uint32_t i = 0; i < l->gp->roots.len; i++) {
        const Root *r = &l->gp->roots.at[i];
        if (!r->phase || !root_is_row(l->gr, l->gp, r)) return false;
    }
    return true;
}

static int64_t second_cache(const Lower *l) { return l->gr->target->l2 ? (int64_t)l->gr->target->l2 : 1 << 20; }

bool comes_from_memory(const Lower *l)
{
    const Graph *g = l->gr->g;
    int64_t bytes = 0;
    for (uint32_t i = 0; i < g->inputs.len; i++) bytes += node_size(g, g->inputs.at[i]) * dtype_info[node_at(g, g->inputs.at[i])->dtype].bytes;
    return bytes > FROM_MEMORY * second_cache(l);
}

/* Whether a large matrix is read along the vector loop, in short pieces of rows. */
static bool reads_short_pieces(const Lower *l, int rows)
{
    int64_t size = l->loop[rows].extent * l->loop[l->vec].extent;
    for (uint32_t t = 0; t < l->survey->terms.len; t++) {
        const Term *term = &l->survey->terms.at[t];
        int64_t step[MAX_DOMAIN], off, item = dtype_info[term->dtype].bytes;
        if (term->kind != TERM_LOAD || term->box) continue;
        lower_steps(l, term->buffer, term->map, step, &off);
        if (step[l->loop[l->vec].domain] == item && step[l->loop[rows].domain] && size * item > second_cache(l) && item * l->lanes < SHORT_PIECE) return true;
    }
    return false;
}

int choose_bands(const Lower *l)
{
    if (l->vec < 0 || l->loop[l->vec].reduced || l->nloops != 2 || !l->loop[1 - l->vec].reduced || !only_sums(l)) return -1;
    if (l->loop[l->vec].extent < FEW_COLUMNS || l->loop[1 - l->vec].extent < 4 * BAND) return -1;
    return comes_from_memory(l) && reads_short_pieces(l, 1 - l->vec) ? 1 - l->vec : -1;       /* from a shared cache strips are faster by 10 to 30 % */
}

/* Columns of a block: a share of them, whole vector bodies; 0: all. */
static int32_t columns_of(const Lower *l)
{
    int64_t n = l->loop[l->vec].extent, most = n / BLOCKS;
    most = most < LEAST_COLUMNS ? LEAST_COLUMNS : most > MOST_COLUMNS ? MOST_COLUMNS : most;
    int64_t blocks = (n + most - 1) / most, share = (n + blocks - 1) / blocks;
    return blocks == 1 ? 0 : (int32_t)((share + l->lanes - 1) / l->lanes * l->lanes);
}

/* A row of wide sums for each reduction; accesses in acc. */
static void make_sums(Lower *l, int64_t columns, uint32_t *acc)
{
    int64_t step[MAX_DOMAIN + 1] = { 0 }, outer[MAX_DOMAIN + 1], item = dtype_info[DT_float64].bytes;
    for (int i = 0; i < l->nloops; i++) outer[i] = -1;
    step[l->vec] = item;
    outer[l->vec] = 0;
    for (uint32_t i = 0; i < l->reductions.len; i++) {
        uint32_t array = lower_scratch(l, DT_float64, columns * item);
        if (!l->err->kind) l->k->arrays.at[array].ordered = 1;
        acc[i] = lower_strided(l, array, DT_float64, step, outer, 0);
    }
}

static uint32_t load_sum(Lower *l, uint32_t acc)
{
    return kernel_val(l->arena, l->k, (Val){ .kind = VAL_LOAD, .dtype = DT_float64, .a = acc });
}

/* Marks what moves along both: eight rows ahead is the same piece of the next band. Nearer rows are in this band, and of half of the next one nobody would ask in time. */
static void mark_band(Lower *l, int rows)
{
    for (uint32_t i = 0; i < l->k->accesses.len; i++) {
        Access *x = &l->k->accesses.at[i];
        bool down = x->coef[l->loop[rows].axis].kind != COEF_ZERO;
        if (down && x->coef[l->loop[l->vec].axis].kind != COEF_ZERO) x->streams = 1;
    }
}

/* The columns' sums over a band, added to the wide ones. */
static void add_band(Lower *l, int rows, Part part, const uint32_t *acc)
{
    uint32_t columns = open_loop(l, l->vec, part, l->lanes, false);
    init_states(l, true, true);
    uint32_t band = open_loop(l, rows, PART_WITHIN, 0, false);
    phase_body(l);
    kernel_close(l->k, band);
    for (uint32_t i = 0; i < l->reductions.len; i++) {
        uint32_t sum = lower_op(l, OP_cast, DT_float64, state_val(l, l->reductions.at[i].inner - 1, DT_float32, 0), 0);
        lower_stmt(l, (Stmt){ .kind = STMT_STORE, .a = acc[i], .b = lower_op(l, OP_add, DT_float64, load_sum(l, acc[i]), sum) });
    }
    kernel_close(l->k, columns);
}

void form_bands(Lower *l, int rows)
{
    uint32_t at[2], acc[MOST_SUMS] = { 0 };
    int n = 0, most = native_lanes(l) * VECTORS;
    if (l->lanes > most) l->lanes = most;
    int32_t block = columns_of(l);
    Part part = block ? PART_WITHIN : PART_WHOLE;
    for (int i = 0; i < l->nloops; i++) l->loop[i].axis = lower_axis(l, l->loop[i].extent, i == rows ? BAND : block);
    if (block) at[n++] = open_loop(l, l->vec, PART_BLOCKS, 0, true);
    make_sums(l, block ? block : l->loop[l->vec].extent, acc);
    uint32_t columns = open_loop(l, l->vec, part, l->lanes, false);
    for (uint32_t i = 0; i < l->reductions.len; i++)
        lower_stmt(l, (Stmt){ .kind = STMT_STORE, .a = acc[i], .b = kernel_const(l->arena, l->k, DT_float64, 0) });
    kernel_close(l->k, columns);
    l->phase = 0;
    uint32_t bands = open_loop(l, rows, PART_BLOCKS, 0, false);
    add_band(l, rows, part, acc);
    if (l->gr->knobs.at[KNOB_ahead] != 1) mark_band(l, rows);
    kernel_close(l->k, bands);
    columns = open_loop(l, l->vec, part, l->lanes, false);
    for (uint32_t i = 0; i < l->reductions.len; i++)
        l->reductions.at[i].final = lower_op(l, OP_cast, node_at(l->gr->g, l->reductions.at[i].id)->dtype, load_sum(l, acc[i]), 0);
    for (l->phase = 1; l->phase < l->survey->phases; l->phase++) store_roots(l, true);
    kernel_close(l->k, columns);
    close_all(l, at, n);
}
