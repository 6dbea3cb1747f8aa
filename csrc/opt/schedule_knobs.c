/* What a tuner may set of a product's schedule, in place of what was chosen. Blocks of columns stay where reductions run over them: these round by
 * blocks. */
#include "opt/product.h"

enum { KNOB_SCRATCH = 4 << 20 };         /* most bytes of a tile that knobs may ask for */

static bool is_packed(const Product *p, const Operand *o) { return o->line >= 0 && !product_repeats(p, o); }

bool product_along_k(const Product *p)
{
    const Operand *a = &p->a, *b = &p->b;
    bool pa = is_packed(p, a), pb = is_packed(p, b);
    bool along_n = pb ? b->line == p->in : b->step[p->in] == p->item;
    return !along_n && (pa || a->step[p->ik] == p->item) && (pb ? b->line == p->ik : b->step[p->ik] == p->item);
}

static void knob_pack(Product *p)
{
    const int32_t *knob = p->gr->knobs.at;
    Operand a = p->a, b = p->b;
    bool along = product_along_k(p);
    if (product_is_bytes(p)) return;
    if (knob[KNOB_pack_a] == 1 && p->a.buffer) p->a.line = -1;
    if (knob[KNOB_pack_a] == 2 && p->a.line < 0 && p->k > 1 && p->m > 1) p->a.row = p->im, p->a.line = p->ik;
    if (knob[KNOB_pack_b] == 1 && p->b.buffer) p->b.line = -1;
    if (knob[KNOB_pack_b] == 2 && p->b.line < 0 && p->k > 1 && p->n > 1) p->b.row = p->ik, p->b.line = p->in;
    if (product_along_k(p) != along) p->a = a, p->b = b;
}

/* A block that a knob asks for: 0 (all) where it holds the extent. */
static int32_t knob_block(int32_t knob, int64_t extent, int64_t unit, int32_t now)
{
    if (!knob) return now;
    return knob < 0 || extent <= knob ? 0 : (int32_t)round_up(knob, unit);
}

void product_knobs(Product *p)
{
    const int32_t *knob = p->gr->knobs.at;
    int64_t lanes = p->gr->target->vector_bytes / p->item;
    int32_t rows = knob_block(knob[KNOB_rows], p->m, 1, p->block[p->im]), columns = p->block[p->in];
    knob_pack(p);
    if (!p->l.gp->reduced) columns = knob_block(knob[KNOB_columns], p->n, lanes ? lanes : 1, columns);
    int64_t tile = (rows ? rows : p->m) * (columns && (!p->l.gp->reduced || p->by_blocks) ? columns : p->n) * p->item;
    if (tile <= KNOB_SCRATCH || p->direct) p->block[p->im] = rows, p->block[p->in] = columns;
    if (!product_is_bytes(p) && !product_along_k(p)) p->block[p->ik] = knob_block(knob[KNOB_depth], p->k, 32, p->block[p->ik]);
    if (knob[KNOB_order] == 1) p->bits &= ~(uint32_t)DOT_ROWS;
    if (knob[KNOB_order] == 2) p->bits |= DOT_ROWS_FIRST;
    if (knob[KNOB_tile] > 0) p->rows = (uint8_t)least(knob[KNOB_tile], 8);
}
