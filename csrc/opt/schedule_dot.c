/* A product's launches: operands that are not read in place are packed, each by a launch of its own; then blocks of rows and columns of
 * the product, into the result's own memory or into a tile in scratch over which the group's loops run while it is warm.
 *
 * A packed operand lies in lines along one of its axes: [blocks of the line][the other axis][line], so that what the inner loops read
 * together lies together whatever the strides were, and what computes the operand's elements runs once. The blocks of k and of
 * columns are such that a block of B stays in the second cache and a few rows of A in the first. */
#include <string.h>
#include "opt/product.h"

enum {
    KNOWN = PRODUCT_KNOWN,       /* so few columns are known to the kernel */
    KNOWN_AFTER = 128,           /* ... of a product after: a head's */
    SUMS_K = 4,                  /* a sum over so few columns runs in the micro-kernel; with more the compiler spills what it carries through the loops */
    PACK_ROWS = 64,              /* rows of the packed operand per grid point */
    MOST_SQUARE = 16,            /* rows and columns that are turned in registers at once */
    FED_BYTES = 256 * 1024,      /* of rows computed by what feeds the product */
    FED_SHARE = 16,              /* ... again for each block of columns, if that is no more than this part of the work */
    FED_BLOCKS = 4,              /* else once for all of them, if so many blocks of rows are left for threads */
    INSIDE_VECTORS = 12,         /* columns of such a block */
};

/* ---- operands ---- */

/* Steps by loop of an operand that lies in a buffer. */
static void read_in_place(Product *p, Operand *o)
{
    int64_t by_domain[MAX_DOMAIN];
    lower_steps(&p->l, o->buffer, &o->map, by_domain, &o->off);
    for (int i = 0; i < p->l.nloops; i++) {
        o->step[i] = p->l.loop[i].domain < MAX_DOMAIN ? by_domain[p->l.loop[i].domain] : 0;
        o->outer[i] = -1;
    }
}

/* The steps of the arrays that value `id` is computed from, as if their elements were of the product's size: of the one that moves along most loops. */
static void read_leaves(Product *p, Id id, const Map *m, int *most, Operand *o)
{
    const Graph *g = p->gr->g;
    const Node *n = node_at(g, id);
    bool view = op_info[n->op].kind == KIND_VIEW;
    Map in;
    Id from = n->op == OP_input ? group_input_buffer(p->gr, id, m) : group_source(p->gr, p->l.n, id, m, &in);
    if (n->op == OP_const || n->op == OP_iota) return;
    if (!from) {
        map_unpack(&in, m);
        if (view) map_through(g, id, p->l.gp->extent, &in);
        for (int i = 0; i < (view ? 1 : n->nin); i++) read_leaves(p, node_in(g, id)[i], &in, most, o);
        return;
    }
    int64_t step[MAX_DOMAIN], off, moving = 0;
    o->varies |= n->op != OP_input || !p->gr->in[node_attr(g, id)[0]].constant;
    lower_steps(&p->l, from, n->op == OP_input ? m : &in, step, &off);
    for (int k = 0; k < MAX_DOMAIN; k++) moving += step[k] != 0;
    if (moving <= *most) return;
    *most = (int)moving;
    for (int i = 0; i < p->l.nloops; i++)
        o->step[i] = p->l.loop[i].domain < MAX_DOMAIN ? step[p->l.loop[i].domain] * p->item / dtype_info[p->l.buffers->at.at[from].dtype].bytes : 0;
}

/* An operand that is computed while it is packed: how its arrays lie, and the loops that it moves along (all that its value has). */
static void compute_operand(Product *p, Id id, const Map *m, Operand *o)
{
    int most = 0;
    read_leaves(p, id, m, &most, o);
    for (int i = 0; i < p->l.nloops; i++) {
        bool moves = false;
        for (int d = 0; d < m->rank && p->l.loop[i].domain < MAX_DOMAIN; d++) moves |= m->step[d][p->l.loop[i].domain] != 0;
        if (!moves) o->step[i] = 0;
        else if (!o->step[i]) o->step[i] = -1;
        o->outer[i] = -1;
    }
}

/* The operand `id` whose axes run along these axes of the domain (the two after its last are k's, and the columns' of the product after). */
static void find_operand(Product *p, Id id, const int8_t *axis, Operand *o)
{
    const Graph *g = p->gr->g;
    const Group *gp = p->l.gp;
    *o = (Operand){ .id = id, .line = -1 };
    map_select(&o->map, node_at(g, id)->rank, gp->naxes + 2, axis);
    Map m = o->map;
    while (op_info[node_at(g, id)->op].kind == KIND_VIEW && !group_reads(p->gr, p->l.n, id)) {
        map_through(g, id, gp->extent, &m);
        id = node_in(g, id)[0];
    }
    if (node_at(g, id)->op != OP_input && !group_reads(p->gr, p->l.n, id)) {
        compute_operand(p, id, &m, o);
        return;
    }
    o->buffer = id;
    o->varies = node_at(g, id)->op != OP_input || !p->gr->in[node_attr(g, id)[0]].constant;
    Map whole = o->map;
    o->map = m;
    read_in_place(p, o);
    o->map = whole;
}

/* Finds A (rows m and columns k), B (rows k and columns n), and the right operand of the product after. */
static void find_operands(Product *p)
{
    const Graph *g = p->gr->g;
    const Group *gp = p->l.gp;
    int rank = node_at(g, p->dot)->rank, k = p->k == 1 ? -1 : gp->naxes;
    int8_t axis[MAX_RANK];
    const int8_t *own = p->gr->info[p->dot].axis;
    memcpy(axis, own, sizeof axis);
    axis[rank - 1] = (int8_t)k;
    find_operand(p, node_in(g, p->dot)[0], axis, &p->a);
    if (product_is_bytes(p)) p->a.step[p->ik] *= PRODUCT_WORD;
    axis[rank - 1] = own[rank - 1];
    axis[rank - 2] = (int8_t)k;
    find_operand(p, node_in(g, p->dot)[1], axis, &p->b);
    if (!gp->then) return;
    rank = node_at(g, gp->then)->rank;
    memcpy(axis, p->gr->info[gp->then].axis, sizeof axis);
    axis[rank - 2] = axis[rank - 1];
    axis[rank - 1] = (int8_t)(gp->naxes + 1);
    find_operand(p, node_in(g, gp->then)[1], axis, &p->v);
}

/* Whether the operand is another one for each coordinate of loop i. */
static bool moves(const Operand *o, int i) { return o->step[i] != 0; }

/* The loops around a packed operand: the batches that it differs in, its rows, its lines. */
static int pack_loops(const Product *p, const Operand *o, int *of)
{
    int n = 0;
    for (int i = 0; i < p->l.nloops; i++)
        if (i != p->im && i != p->in && i != p->ik && (!p->iv || i != p->iv) && moves(o, i)) of[n++] = i;
    of[n++] = o->row;
    of[n++] = o->line;
    return n;
}

/* Whether the operand, packed, would be larger than what it is read from, as windows of an image are. */
bool product_repeats(const Product *p, const Operand *o)
{
    int of[MAX_DOMAIN + 1], n = pack_loops(p, o, of);
    int64_t size = 1;
    for (int i = 0; i < n; i++) size *= p->l.loop[of[i]].extent;
    return o->buffer && size > node_size(p->gr->g, o->buffer);
}

/* Whether the lines of a packed operand run along the columns of its matrix. */
static bool by_columns(const Product *p, const Operand *o) { return o->line == (o == &p->a ? p->ik : p->in); }

/* Reads o from now on where it was packed: rows of matrix elements `row` bytes apart, blocks of a line `outer` bytes. */
static void read_packed(const Product *p, Operand *o, Id buffer, int item, int64_t row, int64_t outer)
{
    o->buffer = buffer;
    o->off = 0;
    memset(o->step, 0, sizeof o->step);
    o->step[o->row] = row;
    o->step[o->line] = item == p->item ? item : PRODUCT_WORD;
    if (p->block[o->line]) o->outer[o->line] = outer;
}

/* Whether another product has packed the matrix so; o is then read there. */
static bool share_packed(const Product *p, Operand *o)
{
    int of[MAX_DOMAIN + 1];
    if (pack_loops(p, o, of) > 2) return false;
    for (uint32_t i = 0; i < p->gr->packs.len; i++) {
        const Packed *x = &p->gr->packs.at[i];
        if (x->id != o->id || x->by_columns != by_columns(p, o) || x->width != p->block[o->line]) continue;
        read_packed(p, o, x->buffer, dtype_info[node_at(p->gr->g, o->id)->dtype].bytes, x->row, x->outer);
        return true;
    }
    return false;
}

/* Rows of a block that is turned, of two sizes, lest a few be left that make no square. */
static int32_t turned_rows(int64_t extent) { return extent % PACK_ROWS && extent % PACK_ROWS < MOST_SQUARE ? PACK_ROWS - MOST_SQUARE : PACK_ROWS; }

/* Whether o is an array that lies across the lines of its packed form, so that squares of it can be turned in registers; its map. */
static bool is_turned(const Product *p, const Operand *o, Map *m)
{
    const Graph *g = p->gr->g;
    Id id = o->id;
    int square = turn_square(&p->l, p->item);
    if (!o->buffer || o->step[o->line] == p->item || o->step[o->row] != p->item || square < 4 || p->item > 8) return false;
    if (dtype_info[node_at(g, id)->dtype].bytes != p->item) return false;
    if (p->l.loop[o->row].extent < square || p->l.loop[o->line].extent < square) return false;
    map_unpack(m, &o->map);
    for (; id != o->buffer; id = node_in(g, id)[0]) {
        if (op_info[node_at(g, id)->op].kind != KIND_VIEW) return false;
        map_through(g, id, p->l.gp->extent, m);
    }
    return !m->flat && !m->nindex && !m->clip && !p->l.buffers->at.at[buffers_memory(p->l.buffers, id)].swapped;
}

/* The launch that packs o into a new buffer, of which it is read from then on. */
static bool pack(Product *p, Operand *o, Drafts *out)
{
    const Group *gp = p->l.gp;
    Group *domain = arena_alloc(p->gr->arena, sizeof *domain);
    Lower l;
    int of[MAX_DOMAIN + 1], n = pack_loops(p, o, of), row = n - 2, line = n - 1, ngrid = 0;
    uint32_t at[MAX_DOMAIN + 3];
    Dtype dt = node_at(p->gr->g, o->id)->dtype;
    int item = dtype_info[dt].bytes;
    if (!domain || !draft_begin(&l, out, p->gr, p->l.n, p->l.survey, p->l.buffers)) return false;
    *domain = (Group){ .naxes = gp->naxes + 2 };
    memcpy(domain->extent, gp->extent, sizeof domain->extent);
    l.gp = domain;
    l.nloops = n;
    for (int i = 0; i < n; i++) l.loop[i] = p->l.loop[of[i]];
    if (item != p->item) domain->extent[gp->naxes] = l.loop[line].extent = node_shape(p->gr->g, o->id)[node_at(p->gr->g, o->id)->rank - 1];
    Map m;
    bool turned = is_turned(p, o, &m);
    bool across = !turned && o->step[o->line] != p->item && o->step[o->row] == item;      /* whole vectors can be read along rows only */
    l.vec = across ? row : line;
    l.lanes = native_lanes(&l) * (across ? 1 : 2);
    int32_t width = p->block[o->line] * (p->item / item), rows = across ? l.lanes : turned ? turned_rows(l.loop[row].extent) : PACK_ROWS;
    int64_t bytes = row_bytes(width ? width : l.loop[line].extent, item), step[MAX_DOMAIN + 1] = { 0 }, outer[MAX_DOMAIN + 1];
    for (int i = 0; i < n; i++) outer[i] = -1;
    step[line] = item;
    step[row] = bytes;
    bytes *= l.loop[row].extent;
    outer[line] = bytes;
    if (width) bytes *= div_up(l.loop[line].extent, width);
    for (int i = row - 1; i >= 0; i--) step[i] = bytes, bytes *= l.loop[i].extent;
    for (int i = 0; i < n; i++)
        l.loop[i].axis = i == line && width ? lower_blocked(&l, l.loop[i].extent, width) : lower_axis(&l, l.loop[i].extent, i == row ? rows : 0);
    for (int i = 0; i < row; i++) at[ngrid++] = open_loop(&l, i, PART_WHOLE, 0, true);
    if (width) at[ngrid++] = open_loop(&l, line, PART_BLOCKS, 0, true);
    at[ngrid++] = open_loop(&l, row, PART_BLOCKS, 0, true);
    Part in_line = width ? PART_WITHIN : PART_WHOLE;
    if (!turned) at[ngrid++] = open_loop(&l, across ? line : row, across ? in_line : PART_WITHIN, 0, false);
    if (!turned) at[ngrid++] = open_loop(&l, across ? row : line, across ? PART_WITHIN : in_line, l.lanes, false);
    Id packed = buffers_add(p->gr, p->l.buffers, dt, bytes);
    if (!packed) return false;
    uint32_t v = turned ? 0 : lower_value(&l, o->id, &o->map);
    uint32_t x = lower_strided(&l, lower_array(&l, packed, dt, true), dt, step, outer, 0);
    if (turned) turn_emit(&l, &(Term){ .buffer = o->buffer, .dtype = dt, .map = &m }, row, x);
    else lower_stmt(&l, (Stmt){ .kind = STMT_STORE, .a = x, .b = v });
    close_all(&l, at, ngrid);
    if ((!v && !turned) || !draft_end(&l)) return false;
    l.d->ns = 0.4f * (float)(bytes / item);
    read_packed(p, o, packed, item, step[row], outer[line]);
    for (int i = 0; i < row; i++) o->step[of[i]] = step[i];
    Packed *made = n == 2 ? vec_push(p->gr->arena, &p->gr->packs) : NULL;
    if (made) *made = (Packed){ o->id, packed, by_columns(p, o), p->block[o->line], step[row], outer[line] };
    return made || n > 2;
}

/* ---- choices ---- */

/* Whether the product itself is all that is stored, so that it can be written in place. */
static const Root *sole_root(const Lower *l)
{
    const Root *r = l->gp->roots.len == 1 ? &l->gp->roots.at[0] : NULL;
    return r && r->value == l->gp->dot && !r->check && !r->then && !l->gp->sum && !l->survey->reduces.len ? r : NULL;
}

/* Removes loop i, which neither operand is packed along. */
static void drop_loop(Product *p, int i)
{
    int *of[] = {&p->im, &p->in, &p->ik};
    size_t after = (size_t)(--p->l.nloops - i);
    for (int k = 0; k < 3; k++) *of[k] -= *of[k] > i;
    memmove(&p->l.loop[i], &p->l.loop[i + 1], after * sizeof *p->l.loop);
    memmove(&p->block[i], &p->block[i + 1], after * sizeof *p->block);
    for (int k = 0; k < 2; k++) {
        Operand *o = k ? &p->b : &p->a;
        memmove(&o->step[i], &o->step[i + 1], after * sizeof *o->step);
        memmove(&o->outer[i], &o->outer[i + 1], after * sizeof *o->outer);
    }
}

/* Takes axes of the sum into k where both operands go on evenly from one to the next, as from the channels to the last axis of a window. */
static void merge_sums(Product *p)
{
    Operand *a = &p->a, *b = &p->b;
    if (!p->l.gp->sum || p->k == 1 || a->line >= 0 || b->line >= 0 || p->block[p->ik]) return;
    for (int i = p->l.nloops - 1; i >= 0; i--) {
        if (!is_summed(p, i)) continue;
        if (a->step[i] != a->step[p->ik] * p->k || b->step[i] != b->step[p->ik] * p->k) continue;
        p->k *= p->l.loop[i].extent;
        drop_loop(p, i);
        p->l.loop[p->ik].extent = p->k;
        i = p->l.nloops;
    }
}

/* Whether B goes through the caches once: a large matrix that few rows use, that is no constant (whose packed form is kept), that no other product
 * reads and whose rows are read as they lie. */
static bool packs_inside(const Product *p)
{
    const Target *t = p->gr->target;
    const Group *gp = p->l.gp;
    const int32_t *knob = p->gr->knobs.at;
    int of[MAX_DOMAIN + 1];
    if (p->b.line != p->in || p->m > PRODUCT_FEW_ROWS || gp->reduced || gp->then || gp->sum || !p->b.varies || p->gr->info[p->b.id].uses > 1) return false;
    if (knob[KNOB_pack_b] || knob[KNOB_rows] || knob[KNOB_columns] || knob[KNOB_depth]) return false;
    return p->b.step[p->in] == p->item && p->k * p->n * p->item > 2 * (int64_t)t->l2 && pack_loops(p, &p->b, of) == 2;
}

static void choose_inside(Product *p)
{
    int64_t lanes = p->gr->target->vector_bytes / p->item;
    p->inside = true;
    p->block[p->im] = 0;
    p->block[p->in] = even_block(p->n, INSIDE_VECTORS * (lanes ? lanes : 1), PRODUCT_PANEL * (lanes ? lanes : 1));
}

/* ---- rows that are computed here ---- */

/* Whether A's rows are computed here by the groups that feed the product: how, and by how many at once. */
static bool choose_fed(Product *p)
{
    int64_t cost = feed_cost(p->gr, p->l.n), most = FED_BYTES / row_bytes(p->k, p->item), rows = p->block[p->im] ? p->block[p->im] : p->m;
    bool grid = p->block[p->in] && !p->l.gp->reduced;
    if (!cost || p->a.line >= 0 || p->k == 1) return false;
    if (rows > most) {
        if (p->inside || most < PRODUCT_ROWS) return false;
        rows = power_between(most, PRODUCT_ROWS, 512);
    }
    if (grid && cost * 2 * FED_SHARE > p->block[p->in]) {
        if (div_up(p->m, rows) * product_batches(p) < FED_BLOCKS) return false;
        p->columns_inside = true;
    }
    p->block[p->im] = rows < p->m ? (int32_t)rows : 0;
    return true;
}

/* The tile of A's rows in the current block, computed; the operand is read there. */
static void feed(Product *p)
{
    Lower *l = &p->l;
    int64_t row = row_bytes(p->k, p->item), rows = p->block[p->im] ? p->block[p->im] : p->m;
    int64_t step[MAX_DOMAIN + 1] = { 0 }, outer[MAX_DOMAIN + 1];
    Dtype dt = node_at(p->gr->g, p->dot)->dtype;
    uint32_t tile = lower_scratch(l, dt, rows * row);
    for (int i = 0; i < l->nloops; i++) outer[i] = -1;
    step[p->ik] = p->item;
    step[p->im] = row;
    outer[p->im] = 0;
    if (l->err->kind || !feed_rows(l, tile, row, p->im, p->block[p->im] ? PART_WITHIN : PART_WHOLE)) return;
    p->a_tile = lower_strided(l, tile, dt, step, outer, 0);
}

/* ---- the kernel ---- */

uint32_t product_operand(Lower *l, const Operand *o)
{
    Dtype dt = node_at(l->gr->g, l->gp->dot)->dtype;           /* words, where the buffer is of bytes */
    return lower_strided(l, lower_array(l, o->buffer, dt, false), dt, o->step, o->outer, o->off);
}

/* The right operand, an array of its own where it lies in the memory of the left one. */
static uint32_t right_operand(Product *p)
{
    Lower *l = &p->l;
    const Operand *o = &p->b;
    Dtype dt = node_at(p->gr->g, p->dot)->dtype;
    if (p->fed || buffers_memory(l->buffers, o->buffer) != buffers_memory(l->buffers, p->a.buffer)) return product_operand(l, o);
    return lower_strided(l, lower_another_array(l, o->buffer, dt, false), dt, o->step, o->outer, o->off);
}

/* Columns of the product that a tile holds. */
static int64_t tile_columns(const Product *p)
{
    return p->block[p->in] && (!p->l.gp->reduced || p->by_blocks) ? p->block[p->in] : p->n;
}

/* Where the product goes: an access of the root's buffer, or of a tile of the current block. */
static uint32_t target(Product *p)
{
    Lower *l = &p->l;
    Dtype dt = node_at(p->gr->g, p->dot)->dtype;
    if (p->direct) {
        const Map *to = root_map(p->gr, l->gp, p->direct);
        return to ? lower_access(l, p->direct->buffer, dt, to, true) : 0;
    }
    int64_t step[MAX_DOMAIN + 1] = { 0 }, outer[MAX_DOMAIN + 1];
    int64_t rows = p->block[p->im] ? p->block[p->im] : p->m, columns = tile_columns(p);
    for (int i = 0; i < l->nloops; i++) outer[i] = -1;
    outer[p->im] = 0;
    if (!l->gp->reduced || p->by_blocks) outer[p->in] = 0;
    step[p->in] = p->n == 1 ? 0 : p->item;                   /* a single column is no loop */
    step[p->im] = row_bytes(columns, p->item);
    l->dot_tile = lower_strided(l, lower_scratch(l, dt, rows * step[p->im]), dt, step, outer, 0) + 1;
    return l->dot_tile - 1;
}

/* The group's loops over the tile. */
static void finish_tile(Product *p)
{
    Lower *l = &p->l;
    uint32_t rows = open_loop(l, p->im, p->block[p->im] ? PART_WITHIN : PART_WHOLE, l->vec == p->im ? l->lanes : 0, false);
    l->phase = 0;
    if (l->gp->reduced) {
        make_tiles(l, 1);
        all_phases(l, p->block[p->in] ? p->in : -1);
    } else if (l->vec == p->im) {
        phase_body(l);
    } else {
        uint32_t columns = open_loop(l, p->in, p->block[p->in] ? PART_WITHIN : PART_WHOLE, l->lanes, false);
        phase_body(l);
        kernel_close(l->k, columns);
    }
    kernel_close(l->k, rows);
}

/* Sets the tile, or the block of the result, to 0. */
static void clear(Product *p, uint32_t c)
{
    Lower *l = &p->l;
    uint32_t in[3];
    int k = 0;
    in[k++] = open_loop(l, p->im, p->block[p->im] ? PART_WITHIN : PART_WHOLE, 0, false);
    if (p->block[p->in] && l->gp->reduced) in[k++] = open_loop(l, p->in, PART_BLOCKS, 0, false);
    in[k++] = open_loop(l, p->in, p->block[p->in] ? PART_WITHIN : PART_WHOLE, l->vec == p->in ? l->lanes : 0, false);
    lower_stmt(l, (Stmt){ .kind = STMT_STORE, .a = c, .b = kernel_const(l->arena, l->k, node_at(p->gr->g, p->dot)->dtype, 0) });
    close_all(l, in, k);
}

/* Sets the tile of a sum of products to 0, and opens the loops around the product that adds; how many, their FORs in at. */
static int open_sum(Product *p, uint32_t c, uint32_t *at)
{
    Lower *l = &p->l;
    int n = 0;
    clear(p, c);
    for (int i = 0; i < l->nloops; i++)
        if (is_summed(p, i)) at[n++] = open_loop(l, i, PART_WHOLE, 0, false);
    return n;
}

/* The kernel axes that a sum of products adds up over, where the product itself runs through them: a tile of the result stays in registers meanwhile. */
static uint16_t summed_axes(const Product *p)
{
    uint32_t axes = 0;
    for (int i = 0; i < p->l.nloops; i++)
        if (is_summed(p, i)) axes |= 1u << p->l.loop[i].axis;
    return (uint16_t)axes;
}

/* The tile of rows for the product after. */
static void make_rows(Product *p)
{
    Lower *l = &p->l;
    Dtype dt = node_at(p->gr->g, p->dot)->dtype;
    int64_t step[MAX_DOMAIN + 1] = { 0 }, outer[MAX_DOMAIN + 1], rows = p->block[p->im] ? p->block[p->im] : p->m;
    for (int i = 0; i < l->nloops; i++) outer[i] = -1;
    outer[p->im] = 0;
    if (p->by_blocks) outer[p->in] = 0;
    step[p->in] = p->item;
    step[p->im] = row_bytes(tile_columns(p), p->item);
    l->then_tile = lower_strided(l, lower_scratch(l, dt, rows * step[p->im]), dt, step, outer, 0) + 1;
}

/* Columns past those that the rows of a block can see need not be computed. */
static void follow_rows(Product *p)
{
    Lower *l = &p->l;
    if (l->err->kind || p->lead < 0) return;
    Axis *columns = &l->k->axes.at[l->loop[p->in].axis];
    columns->follow = FOLLOW_TO;
    columns->leader = (uint8_t)l->loop[p->im].axis;
    columns->lead = (int32_t)p->lead;
    p->irest = l->nloops++;
    l->loop[p->irest] = (Loop){ .extent = p->n, .domain = MAX_DOMAIN };
    Axis rest = *columns;
    rest.block = SIZE(0);
    l->loop[p->irest].axis = kernel_axis(l->arena, l->k, rest.size, SIZE(0));
    if (l->err->kind) return;
    rest.follow = FOLLOW_REST;
    l->k->axes.at[l->loop[p->irest].axis] = rest;
}

/* Where columns are left out, their part of the product after is 0 times rows of its right operand: NaN where these are not finite, else 0. The
 * results of the block start with it. */
static void start_rows(Product *p, uint32_t c)
{
    Lower *l = &p->l;
    Dtype dt = node_at(p->gr->g, p->dot)->dtype;
    Operand rest = p->v;
    int64_t to = rest.step[p->in] * p->block[p->im];
    rest.step[p->irest] = rest.step[p->in];
    rest.step[p->in] = 0;
    rest.outer[p->irest] = -1;
    rest.outer[p->im] = to;
    rest.off += to + rest.step[p->irest] * p->lead;
    int lanes = native_lanes(l) * floor_pow2(l->loop[p->iv].extent / native_lanes(l), 4);
    uint32_t columns = open_loop(l, p->iv, PART_WHOLE, lanes, false), sum = kernel_state(l->arena, l->k, MONOID_sum, dt);
    lower_stmt(l, (Stmt){ .kind = STMT_INIT, .a = sum });
    uint32_t left = open_loop(l, p->irest, PART_WHOLE, 0, false);
    uint32_t v = kernel_val(l->arena, l->k, (Val){ .kind = VAL_LOAD, .dtype = (uint8_t)dt, .a = product_operand(l, &rest) });
    v = lower_op(l, OP_multiply, dt, v, kernel_const(l->arena, l->k, dt, 0));
    lower_stmt(l, (Stmt){ .kind = STMT_REDUCE, .a = sum, .b = v });
    kernel_close(l->k, left);
    uint32_t rows = open_loop(l, p->im, PART_WITHIN, 0, false);
    lower_stmt(l, (Stmt){ .kind = STMT_STORE, .a = c, .b = state_val(l, sum, dt, 0) });
    kernel_close(l->k, rows);
    kernel_close(l->k, columns);
}

/* The product after's own buffer. */
static uint32_t after_target(Product *p)
{
    Lower *l = &p->l;
    Id then = l->gp->then;
    const Buffer *b = &l->buffers->at.at[then];
    int rank = node_at(p->gr->g, then)->rank;
    int64_t step[MAX_DOMAIN + 1] = { 0 };
    for (int i = 0; i < l->nloops; i++)
        for (int d = 0; d < rank - 1; d++)
            if (p->gr->info[then].axis[d] == l->loop[i].domain && i != p->in) step[i] = b->stride[d];
    step[p->iv] = b->stride[rank - 1];
    return lower_strided(l, lower_array(l, then, b->dtype, true), b->dtype, step, NULL, 0);
}

/* The product after, of the current block of rows (and of columns, adding then), into c. */
static void multiply_rows(Product *p, uint32_t c, bool add)
{
    Lower *l = &p->l;
    lower_stmt(l, (Stmt){ .kind = STMT_DOT, .add = add, .axis = (uint16_t)l->loop[p->im].axis, .axis_n = (uint16_t)l->loop[p->iv].axis,
        .axis_k = (uint16_t)l->loop[p->in].axis, .lanes = (uint16_t)native_lanes(l), .a = c, .b = l->then_tile - 1, .c = product_operand(l, &p->v) });
}

/* A result of the current block of rows in scratch, which is added to and multiplied. */
static uint32_t make_accumulator(Product *p)
{
    Lower *l = &p->l;
    Dtype dt = node_at(p->gr->g, p->dot)->dtype;
    int64_t step[MAX_DOMAIN + 1] = { 0 }, outer[MAX_DOMAIN + 1] = { 0 }, rows = p->block[p->im] ? p->block[p->im] : p->m;
    step[p->iv] = p->item;
    step[p->im] = row_bytes(l->loop[p->iv].extent, p->item);
    uint32_t array = lower_scratch(l, dt, rows * step[p->im]);
    if (!l->err->kind) l->k->arrays.at[array].ordered = 1;
    return lower_strided(l, array, dt, step, outer, 0);
}

static void clear_accumulator(Product *p)
{
    Lower *l = &p->l;
    uint32_t in[2];
    in[0] = open_loop(l, p->im, p->online.rows, 0, false);
    in[1] = open_loop(l, p->iv, PART_WHOLE, native_lanes(l), false);
    lower_stmt(l, (Stmt){ .kind = STMT_STORE, .a = p->online.acc, .b = kernel_const(l->arena, l->k, p->online.dtype, 0) });
    close_all(l, in, 2);
}

/* Both products and the softmax between them, a block of columns after the other. */
static void multiply_by_blocks(Product *p, Stmt dot)
{
    Lower *l = &p->l;
    Online *o = &p->online;
    o->im = p->im, o->in = p->in, o->iv = p->iv;
    o->rows = p->block[p->im] ? PART_WITHIN : PART_WHOLE;
    make_rows(p);
    online_begin(l, o, p->block[p->im] ? p->block[p->im] : p->m, tile_columns(p));
    o->tile = l->then_tile - 1;
    o->acc = make_accumulator(p);
    if (p->lead >= 0) start_rows(p, o->acc);
    else clear_accumulator(p);
    uint32_t blocks = open_loop(l, p->in, PART_BLOCKS, 0, false);
    lower_stmt(l, dot);
    online_block(l, o);
    multiply_rows(p, o->acc, true);
    kernel_close(l->k, blocks);
    online_end(l, o, after_target(p));
}

/* The loops over a tile of whole rows, and the product of what they give. */
static void multiply_whole_rows(Product *p)
{
    make_rows(p);
    finish_tile(p);
    uint32_t c = after_target(p);
    if (p->lead >= 0) start_rows(p, c);
    multiply_rows(p, c, p->lead >= 0);
}

/* Packs a block of B into scratch, inside a loop over the blocks of k if there are any, around a product that then adds; its access. */
static uint32_t pack_inside(Product *p, uint32_t c, uint32_t *at, int *n)
{
    Lower *l = &p->l;
    Dtype dt = node_at(p->gr->g, p->dot)->dtype;
    int64_t step[MAX_DOMAIN + 1] = { 0 }, outer[MAX_DOMAIN + 1] = { 0 };
    int32_t depth = p->block[p->ik], columns = p->block[p->in];
    uint32_t in[2];
    step[p->in] = p->item;
    step[p->ik] = row_bytes(columns ? columns : p->n, p->item);
    if (depth) {
        clear(p, c);
        at[(*n)++] = open_loop(l, p->ik, PART_BLOCKS, 0, false);
    }
    uint32_t b = lower_strided(l, lower_scratch(l, dt, (depth ? depth : p->k) * step[p->ik]), dt, step, outer, 0);
    in[0] = open_loop(l, p->ik, depth ? PART_WITHIN : PART_WHOLE, 0, false);
    in[1] = open_loop(l, p->in, columns ? PART_WITHIN : PART_WHOLE, l->lanes, false);
    uint32_t first = l->k->accesses.len;
    lower_stmt(l, (Stmt){ .kind = STMT_STORE, .a = b, .b = lower_value(l, p->b.id, &p->b.map) });
    for (uint32_t i = first; i < l->k->accesses.len; i++) l->k->accesses.at[i].streams = STREAMS_ROWS;
    close_all(l, in, 2);
    return b;
}

static bool multiply(Product *p, Drafts *out)
{
    Lower *l = &p->l, loops = *l;
    uint32_t at[MAX_DOMAIN + 3], sum[MAX_DOMAIN];
    int n = 0, nsum = 0;
    if (!draft_begin(l, out, p->gr, loops.n, loops.survey, loops.buffers)) return false;
    l->nloops = loops.nloops;
    memcpy(l->loop, loops.loop, sizeof l->loop);
    list_reductions(l);
    l->vec = p->n == 1 ? p->im : p->in;
    l->lanes = choose_lanes(l, false);
    if (p->small) l->baked = 1u << p->im | 1u << p->in | 1u << p->ik;
    for (int i = 0; i < l->nloops; i++) {
        int64_t most = i == p->in || (p->small && (i == p->im || i == p->ik)) ? KNOWN : p->iv && i == p->iv ? KNOWN_AFTER : i == p->im;
        bool known = l->loop[i].extent <= most && !p->block[i];
        l->loop[i].axis = known ? kernel_axis(l->arena, l->k, (Size){ .arg = -1, .lit = l->loop[i].extent }, SIZE(0))
                                : p->block[i] ? lower_blocked(l, l->loop[i].extent, p->block[i]) : lower_axis(l, l->loop[i].extent, 0);
    }
    int grid = l->nloops;
    follow_rows(p);
    for (int i = 0; i < grid; i++)
        if (i != p->im && i != p->in && i != p->ik && (!p->iv || i != p->iv) && !is_summed(p, i)) at[n++] = open_loop(l, i, PART_WHOLE, 0, true);
    if (p->block[p->im]) at[n++] = open_loop(l, p->im, PART_BLOCKS, 0, true);
    if (p->block[p->in] && !l->gp->reduced && !p->columns_inside) at[n++] = open_loop(l, p->in, PART_BLOCKS, 0, true);
    if (p->fed) feed(p);
    if (p->columns_inside) at[n++] = open_loop(l, p->in, PART_BLOCKS, 0, false);
    bool windows = window_rows_pay(p);
    if (windows) p->direct = window_root(p);
    uint32_t c = target(p), a = p->fed ? p->a_tile : windows ? 0 : product_operand(l, &p->a), b = p->inside || windows ? 0 : right_operand(p);
    uint32_t axis_k = windows ? window_rows(p, &a, &b) : l->loop[p->ik].axis;
    uint16_t sums = l->gp->sum && !windows && !p->inside && p->k <= SUMS_K && !p->block[p->ik] && !product_along_k(p) ? summed_axes(p) : 0;
    if (l->gp->sum && !sums && !windows) nsum = open_sum(p, c, sum);
    if (p->inside) b = pack_inside(p, c, sum, &nsum);
    Stmt dot = { .kind = STMT_DOT, .add = nsum > 0, .sums = sums, .part = p->rows, .axis = (uint16_t)l->loop[p->im].axis, .axis_n = (uint16_t)l->loop[p->in].axis,
        .axis_k = (uint16_t)axis_k, .lanes = (uint16_t)native_lanes(l), .a = c, .b = a, .c = b, .d = p->bits | p->panels };
    if (p->by_blocks) {
        multiply_by_blocks(p, dot);
    } else {
        lower_stmt(l, dot);
        close_all(l, sum, nsum);
        if (l->gp->then) multiply_whole_rows(p);
        else if (!p->direct) finish_tile(p);
    }
    close_all(l, at, n);
    if (p->small) mark_streams(l);
    return draft_end(l);
}

/* Loop i of the domain, or one of a single trip for an axis that is not in it. */
static int loop_or_unit(Lower *l, int i)
{
    if (i >= 0) return i;
    l->loop[l->nloops] = (Loop){ .extent = 1, .domain = MAX_DOMAIN };
    return l->nloops++;
}

/* The loops of the domain, and one over k. */
static bool find_loops(Product *p)
{
    const Graph *g = p->gr->g;
    Lower *l = &p->l;
    int rank = node_at(g, p->dot)->rank;
    choose_loops(l);
    for (int i = 0; i < l->nloops; i++) {
        if (l->loop[i].domain == p->gr->info[p->dot].axis[rank - 2]) p->im = i;
        if (l->loop[i].domain == p->gr->info[p->dot].axis[rank - 1]) p->in = i;
    }
    p->im = loop_or_unit(l, p->im);
    p->in = loop_or_unit(l, p->in);
    p->ik = l->nloops;
    p->m = l->loop[p->im].extent;
    p->n = l->loop[p->in].extent;
    p->k = node_shape(g, node_in(g, p->dot)[1])[rank - 2];
    l->loop[l->nloops++] = (Loop){ .extent = p->k, .domain = l->gp->naxes };
    if (!l->gp->then) return true;
    p->iv = l->nloops;
    l->loop[l->nloops++] = (Loop){ .extent = node_shape(g, l->gp->then)[node_at(g, l->gp->then)->rank - 1], .domain = l->gp->naxes + 1 };
    return true;
}

bool schedule_dot(Grouping *gr, uint32_t n, const Survey *survey, Buffers *buffers, Drafts *out)
{
    Group *gp = &gr->groups.at[n];
    Product *p = arena_alloc(gr->arena, sizeof *p);
    if (!p) return false;
    *p = (Product){ .gr = gr, .dot = gp->dot, .im = -1, .in = -1, .item = dtype_info[node_at(gr->g, gp->dot)->dtype].bytes };
    p->l = (Lower){ .gr = gr, .gp = gp, .n = n, .survey = survey, .buffers = buffers, .arena = gr->arena, .err = gr->g->err, .vec = -1 };
    if (!find_loops(p)) return false;
    if (node_at(gr->g, p->dot)->op == OP_dot_bytes)
        p->bits = node_at(gr->g, node_in(gr->g, p->dot)[0])->dtype == DT_uint8 ? DOT_UNSIGNED_SIGNED : DOT_SIGNED_UNSIGNED;
    find_operands(p);
    p->direct = sole_root(&p->l);
    p->lead = mask_lead(gr, gp);
    product_choose(p);
    product_knobs(p);
    if (!p->block[p->im] || (p->block[p->in] && !p->by_blocks) || !p->v.buffer || p->v.step[p->in] <= 0) p->lead = -1;
    bool window = window_pays(p);
    if (window && p->a.buffer) p->a.line = -1;
    if (!window && packs_inside(p)) choose_inside(p);
    p->fed = !window && choose_fed(p);
    if (!p->fed && !feed_apart(gr, n, buffers, out)) return false;
    if (p->a.line >= 0 && (product_is_bytes(p) || !product_repeats(p, &p->a)) && !share_packed(p, &p->a) && !pack(p, &p->a, out)) return false;
    if (window) return window_multiply(p, out);
    merge_sums(p);
    product_panels(p);
    if (!p->inside && p->b.line >= 0 && !product_repeats(p, &p->b) && !share_packed(p, &p->b) && !pack(p, &p->b, out)) return false;
    return multiply(p, out);
}
