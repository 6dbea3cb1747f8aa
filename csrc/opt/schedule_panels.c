/* The tiles of a product whose columns are one block of a number that the kernel does not know. The generator's own are 8 rows by 3 vectors, with the
 * vectors that are left over one by one, each with the traffic of three and additions that wait for each other; here a number of vectors that
 * is no multiple of three goes in fours, fives or threes and fours, and few rows in tiles that fit them. */
#include "opt/product.h"

enum {
    LATENCY = 4,                 /* cycles of an addition to a product */
    TILE_CYCLES = 20,            /* what a tile takes besides its additions */
    FOR_ALL_ROWS = 4,            /* the first tiles: few kernels for all numbers of rows, where more is computed than a product, whose kernels are shipped */
    LEAST_ROWS = 5,              /* of a tile, or all there are: each row of B is read once per tile */
    WIDE = 4,                    /* vectors of the wider panels beside others */
    WIDE_ROWS = 6,               /* and the rows of their tiles */
};

/* Half the cycles of all tiles of so many panels: two additions or loads a cycle, each addition LATENCY cycles after the last one to the same sum. */
static int64_t tile_cycles(const Product *p, int rows, int vectors, int64_t panels)
{
    int64_t step = greatest(greatest(rows * vectors, rows + vectors), 2 * LATENCY);
    return panels * div_up(p->m, rows) * (p->k * step + 2 * TILE_CYCLES);
}

void product_panels(Product *p)
{
    static const struct { int rows, vectors, last; } tiles[] = {
        { 8, 3, 3 }, { 6, 4, 4 }, { 5, 5, 5 }, { 8, 3, WIDE }, { 7, 3, 3 }, { 5, 4, 4 }, { 6, 3, WIDE }, { 4, 6, 6 }, { 3, 7, 7 }, { 2, 8, 8 },
    };
    size_t ntiles = p->direct ? sizeof tiles / sizeof *tiles : FOR_ALL_ROWS;
    int64_t lanes = p->gr->target->vector_bytes / p->item, n = lanes ? div_up(p->n, lanes) : 0, best = INT64_MAX;
    int unit = 1;
    if (p->gr->target->level != CPU_AVX512 || p->rows || p->m == 1 || p->n <= PRODUCT_KNOWN || p->block[p->in] || p->lead >= 0 || product_along_k(p)) return;
    for (size_t i = 0; i < ntiles; i++) {
        int rows = tiles[i].rows, vectors = tiles[i].vectors, last = tiles[i].last;
        uint32_t panels = dot_panels(vectors, last > vectors || p->n % lanes ? last : 0);
        if ((rows < LEAST_ROWS && rows < p->m) || !dot_panels_fit(panels, p->n, lanes)) continue;
        int64_t wide = last > vectors ? n % vectors : 0;
        int64_t cycles = tile_cycles(p, rows, vectors, (n - wide * last) / vectors) + tile_cycles(p, (int)least(rows, WIDE_ROWS), WIDE, wide);
        if (cycles >= best) continue;
        best = cycles;
        unit = wide && rows > WIDE_ROWS ? rows * WIDE_ROWS / 2 : rows;
        p->rows = (uint8_t)rows;
        p->panels = panels;
    }
    if (p->block[p->im] && p->panels) p->block[p->im] = even_block(p->m, greatest(p->block[p->im], PRODUCT_ROWS + PRODUCT_ROWS / 2), unit);
}
