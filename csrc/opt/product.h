/* What a product's schedules share: schedule_dot.c has the forms of plain products, schedule_window.c the one for windows. */
#pragma once
#include "opt/online.h"

enum {
    CACHE_LINE = 64,
    PRODUCT_KNOWN = 32,          /* so few columns are known to the kernel */
    PRODUCT_ROWS = 32,           /* rows of a block where B is read in place */
    PRODUCT_PANEL = 3,           /* vectors of columns that the micro-kernel takes at once */
    PRODUCT_WORD = 4,            /* bytes that are multiplied at once */
};

typedef struct {
    Id id, buffer;               /* the node; the buffer it is read from, 0: it is computed while it is packed */
    Map map;                     /* of the node, over the domain and k */
    int64_t step[MAX_DOMAIN + 1], outer[MAX_DOMAIN + 1], off;     /* bytes by loop, between blocks (-1: in proportion), of element 0 */
    bool varies;                 /* it may be another matrix in each run */
    int row, line;               /* packed: the loops that its rows and lines run along; line < 0: it is read in place */
} Operand;

typedef struct {
    Grouping *gr;
    Id dot;
    Lower l;                     /* the main kernel's */
    int im, in, ik;              /* loops */
    int64_t m, n, k;
    int item;
    int32_t block[MAX_DOMAIN + 1];                                /* by loop, 0: not blocked */
    uint32_t bits;               /* of the statement's d */
    uint8_t rows;                /* of the micro-kernel's tile, 0: its own choice */
    uint32_t panels;             /* dot_panels() of the statement's d, 0: the generator's */
    bool small;                  /* the kernel knows all extents */
    bool inside;                 /* B is packed in the product's own launch, block by block, into scratch */
    const Root *direct;          /* the product goes there and nowhere else */
    Operand a, b;
    int iv;                      /* the product after (0: there is none): the loop of its columns; its right operand */
    Operand v;
    int64_t lead;                /* of the rows that it multiplies (mask_lead()), -1: all columns are needed */
    int irest;                   /* ... the loop over the columns that are not */
    bool fed;                    /* A's rows are computed here, into a tile (feed.c) */
    uint32_t a_tile;             /* ... its access */
    bool columns_inside;         /* ... once for all blocks of columns, which are then no grid */
    bool by_blocks;              /* the rows that it multiplies go by blocks of columns: `online` */
    Online online;
} Product;

static inline int64_t div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t round_up(int64_t a, int64_t b) { return div_up(a, b) * b; }
static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t greatest(int64_t a, int64_t b) { return a > b ? a : b; }

/* A block of at most `most`, a multiple of `unit`, that shares `extent` evenly; 0 where one block holds it all. */
static inline int32_t even_block(int64_t extent, int64_t most, int64_t unit)
{
    most = most > unit ? most / unit * unit : unit;
    if (extent <= most) return 0;
    return (int32_t)round_up(div_up(extent, div_up(extent, most)), unit);
}

/* The greatest power of two times low that is at most x and high; low at least. */
static inline int32_t power_between(int64_t x, int32_t low, int32_t high)
{
    int32_t p = low;
    while (p * 2 <= x && p * 2 <= high) p *= 2;
    return p;
}

/* Bytes between the rows of a packed operand: an odd number of cache lines, so that rows do not share sets. */
static inline int64_t row_bytes(int64_t line, int item) { return round_up(line * item, CACHE_LINE) | CACHE_LINE; }

/* Whether the product is added up over loop i. */
static inline bool is_summed(const Product *p, int i) { return p->l.loop[i].domain < MAX_DOMAIN && p->l.gp->summed >> p->l.loop[i].domain & 1; }

/* Whether the product is one of bytes by words of four bytes; A is then read by words. */
static inline bool product_is_bytes(const Product *p) { return p->bits & DOT_BYTES; }

/* Whether the operand, packed, would be larger than what it is read from, as windows of an image are. */
bool product_repeats(const Product *p, const Operand *o);
/* An access of the operand where it lies. */
uint32_t product_operand(Lower *l, const Operand *o);

/* ---- schedule_choice.c ---- */
/* Chooses what is packed, the blocks and the order of tiles. */
void product_choose(Product *p);
/* How many products of these two operands' matrices there are. */
int64_t product_batches(const Product *p);

/* ---- schedule_knobs.c ---- */
/* Takes over what a tuner found for the group, as far as it fits and changes no bit. */
void product_knobs(Product *p);
/* Whether the micro-kernel runs along k, which rounds in another order. */
bool product_along_k(const Product *p);

/* ---- schedule_panels.c ---- */
/* Chooses rows of a tile and vectors of its panels, where all columns of a run-time number are one block, and rows of blocks that fit them. */
void product_panels(Product *p);

/* ---- schedule_window.c ---- */
/* Whether the right operand is windows of an image that are worth packing, a block of pixels at a time, in the product's own launch. */
bool window_pays(const Product *p);
/* Appends that launch; false with an error. */
bool window_multiply(Product *p, Drafts *out);
/* Whether the left operand is windows of so few elements that whole ones are worth packing, a block of rows at a time; packs it where its loops run: the accesses
 * of both operands, and the axis that is k then. */
bool window_rows_pay(const Product *p);
uint32_t window_rows(Product *p, uint32_t *a, uint32_t *b);
/* Where the sum alone goes, NULL: it is not all that is stored. */
const Root *window_root(const Product *p);
