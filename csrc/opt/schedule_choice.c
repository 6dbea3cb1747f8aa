/* How a product is blocked: which operands are packed, which loops are cut and where, from its extents, the caches and where its operands lie. */
#include "opt/product.h"

enum {
    FEW_ROWS = 16,               /* B is not packed for fewer */
    CAUSAL_ROWS = 48,            /* rows of a block where columns past the last row's need not be computed */
    THIN_ROWS = 64,              /* so few rows take B a few of its rows at a time */
    SOME_ROWS = 24,              /* ... of a matrix of twice the second cache; more use it often enough to pack it */
    IN_PLACE_ROWS = 400,         /* fewer rows do not make up for packing a matrix larger than the second cache that is used once */
    NEAR_CACHES = 10,            /* second caches: a matrix that is read from a shared cache at a good part of its speed */
    ONCE_COLUMNS = 768,          /* of a block of a matrix that all rows use at once */
    ONCE_DEPTH = 2048,           /* and terms; of more a quarter of these at a time */
    ACROSS = 256,                /* rows and terms of a block of an A that lies across its lines */
    SUMS_ROWS = 4,               /* of a tile that runs along k: B is read once for so many */
    APART_DEPTH = 256,           /* ... of rows that share their sets */
    PAGE = 4096,
    THIN_BYTES = 16384,          /* and as many columns as so much of C has */
    TILE_BYTES = 256 * 1024,     /* of the product in scratch, if not packed */
    WHOLE_ROWS = 64,             /* so many rows of a softmax fit in a quarter of the second cache, or it goes by blocks of columns */
    ONLINE_COLUMNS = 512,        /* ... of so many at most */
    SHORT_K = 32,                /* columns are so short that C is the larger part of the traffic */
    ROW_BYTES = 4096,            /* of B or C, whichever it is, at a time: streams follow each other in such pieces */
    MOST_DEPTH = 384,            /* columns of A in a block */
};

/* Blocks for a packed B: KC rows of A's few rows in half the first cache, KC x NC of B in most of the second. */
static void choose_packed(Product *p)
{
    const Target *t = p->gr->target;
    int64_t l1 = t->l1 ? (int64_t)t->l1 : 32768, l2 = t->l2 ? (int64_t)t->l2 : 1 << 20;
    int64_t lanes = t->vector_bytes / p->item, kc = least(l1 / 2 / (8 * p->item), MOST_DEPTH);
    p->block[p->ik] = p->k <= kc * 4 / 3 ? 0 : even_block(p->k, kc, 32);
    int64_t nc = l2 * 7 / 10 / ((p->block[p->ik] ? p->block[p->ik] : p->k) * p->item);
    p->block[p->in] = even_block(p->n, least(nc, 2048), PRODUCT_PANEL * (lanes ? lanes : 1));
    p->block[p->im] = power_between(p->m / 4, PRODUCT_ROWS, 512);
    if ((p->block[p->ik] ? p->block[p->ik] : p->k) * PRODUCT_PANEL * t->vector_bytes > l1) p->bits |= DOT_ROWS_FIRST;     /* else a panel stays in L1 */
    if (p->k <= SHORT_K && p->m * p->n * p->item > 2 * l2) {                         /* C is the traffic: in order */
        p->bits |= DOT_ROWS_FIRST;
        p->block[p->in] = p->n > ROW_BYTES / p->item ? ROW_BYTES / p->item : 0;
    }
    p->b.row = p->ik;
    p->b.line = p->in;
}

/* Rows of a tile: 6 where that wastes fewer of a few rows than the generator's 8; 0: its choice. */
static uint8_t few_rows(const Product *p)
{
    return p->gr->target->level == CPU_AVX512 && p->m > 8 && p->m < THIN_ROWS && round_up(p->m, 6) < round_up(p->m, 8) ? 6 : 0;
}

/* Few rows: B is the traffic. A few of its rows at a time, as streams, over a width that keeps C in the first cache. */
static void choose_thin(Product *p)
{
    bool thin = p->gr->target->level == CPU_AVX512 && p->m <= DOT_THIN_STEPS;
    int32_t steps = thin || p->m == 1 ? DOT_THIN_STEPS : 16, wide = power_between(THIN_BYTES / (p->m * p->item), thin ? ROW_BYTES / p->item : 128, 4096);
    p->block[p->in] = p->n > wide ? wide : 0;
    if (p->m > FEW_ROWS) p->block[p->in] = even_block(p->n, ROW_BYTES / p->item, CACHE_LINE);
    p->block[p->ik] = p->k > 2 * steps ? steps : 0;
    p->bits |= thin ? DOT_ROWS_FIRST | DOT_THIN : DOT_ROWS_FIRST;
    p->rows = thin || p->m <= 2 ? (uint8_t)p->m : p->m <= 4 ? 4 : few_rows(p);
}

static void choose_in_place(Product *p)
{
    int64_t wide = p->k <= SHORT_K ? ROW_BYTES / p->item : TILE_BYTES / (PRODUCT_ROWS * p->item);
    if (p->m > PRODUCT_ROWS) p->block[p->im] = PRODUCT_ROWS;
    if (!p->l.gp->reduced && p->n > wide) p->block[p->in] = (int32_t)wide;
    if (p->k <= SHORT_K) p->bits |= DOT_ROWS_FIRST;
    if (p->l.gp->sum && p->m <= PRODUCT_ROWS) p->rows = (uint8_t)div_up(p->m, div_up(p->m, 8));
}

/* Rows of a tile that reductions run along; those of a softmax that are too long to be many in the cache go by blocks of columns. */
static void choose_rows(Product *p)
{
    bool then = p->l.gp->then != 0;
    int32_t rows = power_between(TILE_BYTES * 2 / ((then ? 2 : 1) * p->n * p->item), then ? 8 : PRODUCT_ROWS, then ? 128 : 512);
    int64_t l2 = p->gr->target->l2 ? (int64_t)p->gr->target->l2 : 1 << 20, wide = least(ONLINE_COLUMNS, l2 / 8 / (WHOLE_ROWS * p->item));
    int32_t columns = even_block(p->n, wide, PRODUCT_PANEL * CACHE_LINE / p->item);
    p->by_blocks = then && columns && least(p->m, WHOLE_ROWS) * p->n * p->item > l2 / 4 && online_find(&p->l, &p->online);
    if (p->by_blocks) {
        rows = WHOLE_ROWS;
        p->block[p->in] = columns;
    } else if (p->lead >= 0 && rows > CAUSAL_ROWS) {
        rows = CAUSAL_ROWS;
    }
    if (then || p->block[p->im] > rows) p->block[p->im] = p->m > rows ? rows : 0;
}

int64_t product_batches(const Product *p)
{
    int64_t n = 1;
    for (int i = 0; i < p->l.nloops; i++)
        if (i != p->im && i != p->in && i != p->ik && (!p->iv || i != p->iv)) n *= p->l.loop[i].extent;
    return n;
}

/* Whether the kernel may know all extents. */
static bool is_small(const Product *p)
{
    if (greatest(p->m, greatest(p->n, p->k)) > DOT_SMALL || product_is_bytes(p) || p->l.gp->reduced || p->l.gp->then || p->l.gp->sum) return false;
    return p->n > 1 && p->b.line < 0 && p->a.line < 0 && (product_batches(p) >= DOT_MANY || p->m * p->n * p->k > DOT_SUM);
}

/* Whether rows of B lie a multiple of a page apart, more of them than a set of the first cache holds. */
static bool shares_sets(const Product *p)
{
    int64_t l1 = p->gr->target->l1 ? (int64_t)p->gr->target->l1 : 32768;
    return p->b.step[p->ik] % PAGE == 0 && p->k >= l1 / PAGE;
}

/* Whether so few rows use a B larger than the second cache that packing it costs more than it gives. It is read where it lies, once: not one that another product reads, too,
 * or a constant, whose packed form is kept, nor one whose rows share their sets of the caches. Fewer than SOME_ROWS wait for memory at each piece of a row. */
static bool few_use_it(const Product *p, int64_t b_bytes, int64_t l2)
{
    const Group *gp = p->l.gp;
    bool cached = !comes_from_memory(&p->l), widest = p->gr->target->level == CPU_AVX512;
    if (gp->reduced || gp->then || gp->sum || p->b.step[p->in] != p->item || p->m <= DOT_THIN_STEPS) return false;
    if (p->m < SOME_ROWS) return cached && widest && b_bytes <= NEAR_CACHES * l2;
    if (!p->b.varies || p->gr->info[p->b.id].uses > 1) return false;
    if (shares_sets(p)) return cached && widest && p->m < THIN_ROWS && b_bytes <= NEAR_CACHES / 2 * l2;
    if (!cached || !widest) return p->m >= THIN_ROWS && p->m < IN_PLACE_ROWS / (widest ? 1 : 2) && b_bytes <= 2 * l2;
    return p->m < IN_PLACE_ROWS;
}

/* Rows of a tile of which the last one repeats few; only plain products, whose kernels are shipped, have a kernel for each. */
static uint8_t once_rows(const Product *p)
{
    int best = 8;
    if (p->gr->target->level != CPU_AVX512) return 0;
    for (int rows = 7; p->m < THIN_ROWS && rows >= 5; rows--)
        if ((p->direct || rows == 6) && round_up(p->m, rows) < round_up(p->m, best)) best = rows;
    return (uint8_t)best;
}

/* All rows at once, down the panels of a block of columns. */
static void choose_once(Product *p)
{
    int64_t lanes = p->gr->target->vector_bytes / p->item, unit = PRODUCT_PANEL * (lanes ? lanes : 1);
    p->block[p->in] = even_block(p->n, least(greatest(TILE_BYTES / (p->m * p->item), 2 * unit), ONCE_COLUMNS), unit);
    if (shares_sets(p)) p->block[p->ik] = even_block(p->k, APART_DEPTH, 32);
    else p->block[p->ik] = p->k > ONCE_DEPTH ? even_block(p->k, ONCE_DEPTH / 4, 32) : 0;
    if (!p->block[p->in] && !p->block[p->ik]) return;                /* the panels' own tiles are better, and asking ahead gains less */
    if (!shares_sets(p)) p->bits |= DOT_FAR;
    p->rows = once_rows(p);
}

/* A lies across its lines and is read in place, for few columns: a block of k at a time, of which all its lines' rows are used before they leave the caches. */
static void across_lines(Product *p)
{
    if (p->l.gp->reduced || p->l.gp->sum || !p->a.buffer || p->a.line >= 0) return;
    p->block[p->im] = even_block(p->m, ACROSS, PRODUCT_ROWS);
    p->block[p->ik] = even_block(p->k, ACROSS, 32);
    p->bits &= ~(uint32_t)DOT_ROWS;
}

void product_choose(Product *p)
{
    const Target *t = p->gr->target;
    int64_t l2 = t->l2 ? (int64_t)t->l2 : 1 << 20, lanes = t->vector_bytes / p->item;
    bool b_unit = p->b.step[p->in] == p->item;
    int64_t b_bytes = p->k * p->n * p->item;
    bool large = b_bytes > l2 * 3 / 4 && p->k > SHORT_K, in_place = large && few_use_it(p, b_bytes, l2);
    bool packs = large && !in_place && p->m >= (b_bytes > 2 * l2 ? SOME_ROWS : THIN_ROWS);
    bool apart = b_unit && p->k <= SHORT_K && p->m >= THIN_ROWS && shares_sets(p);
    bool sums = p->n <= lanes / 2 && p->a.step[p->ik] == p->item && p->k >= 64;       /* dot products of rows and columns */
    if (sums && p->b.step[p->ik] != p->item && p->n > 1 && p->m >= FEW_ROWS) {
        choose_in_place(p);
        p->b.row = p->in;
        p->b.line = p->ik;
    } else if (p->m < THIN_ROWS && !packs && !in_place && b_unit && b_bytes > (p->m == 1 ? l2 / 8 : l2)) {
        choose_thin(p);
    } else if (p->m >= FEW_ROWS && (b_unit ? packs : p->n >= lanes)) {
        choose_packed(p);
        if (large && p->bits & DOT_ROWS_FIRST) p->bits |= DOT_FAR;
    } else if (in_place && (p->m < PRODUCT_ROWS || b_bytes > l2 * 3 / 2)) {
        choose_once(p);
    } else {
        choose_in_place(p);
        if (apart) p->b.row = p->ik, p->b.line = p->in;
    }
    bool a_far = p->a.step[p->ik] != p->item && p->m * p->k * p->item > l2 / 2 && p->k > 256;
    if (product_is_bytes(p)) a_far = p->a.step[p->ik] != PRODUCT_WORD || node_shape(p->gr->g, p->a.id)[node_at(p->gr->g, p->a.id)->rank - 1] % PRODUCT_WORD;
    if (a_far && (product_is_bytes(p) || p->n >= 64)) p->a.row = p->im, p->a.line = p->ik;
    else if (a_far && p->a.step[p->im] == p->item && p->m * p->k * p->item > 4 * l2 && p->m >= THIN_ROWS && p->n > 1) across_lines(p);
    if (p->m > SUMS_ROWS && p->m < FEW_ROWS && b_bytes > l2 && product_along_k(p) && !p->l.gp->reduced)
        p->block[p->in] = even_block(p->n, l2 / 2 / (p->k * p->item), CACHE_LINE / p->item);
    if (!p->a.buffer && p->a.line < 0) p->a.row = p->im, p->a.line = p->ik;
    if (!p->b.buffer && p->b.line < 0) p->b.row = p->ik, p->b.line = p->in;
    if (p->l.gp->reduced) choose_rows(p);
    p->small = is_small(p);
    if (p->small) p->bits &= ~(uint32_t)DOT_ROWS;
}
