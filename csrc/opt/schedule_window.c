/* Products with windows of an image as right operand, added up over the axes of the window: a convolution, however it was written.
 *
 * The windows of some lines of the image's pixels, side by side as columns, are packed into scratch and multiplied at once: all of k and of
 * the window as rows, so that the micro-kernel runs along one long axis and the lines fill its vectors. A grid point packs what it
 * needs; for each of the many rows of the product (outputs) a packed element is used once, so that packing is a small part. The left
 * operand (weights) is read where it lies.
 *
 * Where the windows are the left operand (channels last), pixels are rows and read where they lie, if k is long: some channels and an axis of the window. Of a few
 * channels all elements of the windows of a block of pixels are packed, side by side, so that a product of one long k takes the place of a sum of short ones. */
#include <string.h>
#include "opt/product.h"

enum {
    LEAST_ROWS = 8,              /* that use a packed element */
    BLOCK_ROWS = 256,            /* rows of a grid point */
    COLUMNS = 512,               /* of a block */
    DEPTH = 160,                 /* rows of a packed block */
    LEAST_DEPTH = 32,
    SHORT_DEPTH = 32,            /* columns are so short that the result is the larger part of the traffic */
    KNOWN = 512,                 /* columns of a line or a block are known to the kernel up to so many */
    LINE_VECTORS = 4,            /* of a line that are copied at once */
    SHORT_PIECE = 16,            /* elements of a window that follow each other: up to so many, and a window of up to WHOLE_WINDOW, */
    WHOLE_WINDOW = 64,           /* are packed beside the others, */
    LEAST_COLUMNS = 32,          /* if so many columns use each */
};

typedef struct {
    Product *p;
    int line;                    /* the loop whose coordinates are the lines that are packed together, -1: there is none */
    int64_t lines, depth;        /* of them, of k: in a block */
    int sum[MAX_DOMAIN], nsum;   /* the loops of the sum and k, by growing steps of the left operand */
    bool merges;                 /* ... which that goes on evenly through */
    bool direct;                 /* the product goes to the result's own memory */
    int iq, ikk;                 /* the loops over the columns and rows of the packed block */
} Window;

static int64_t divisor(int64_t n, int64_t most)
{
    int64_t d = n < most ? n : most;
    while (d > 1 && n % d) d--;
    return d > 1 ? d : 1;
}

static bool is_kept(const Product *p, int i) { return i != p->im && i != p->in && i != p->ik && !is_summed(p, i); }

/* The loops that are added up over, in the order in which the left operand's steps grow. */
static void sort_sums(Window *w)
{
    const Product *p = w->p;
    const int64_t *step = p->a.step;
    for (int i = 0; i < p->l.nloops; i++) {
        if (!is_summed(p, i) && (i != p->ik || p->k == 1)) continue;
        int at = w->nsum++;
        while (at > 0 && step[w->sum[at - 1]] > step[i]) w->sum[at] = w->sum[at - 1], at--;
        w->sum[at] = i;
    }
    w->merges = step[w->sum[0]] > 0;
    for (int i = 1; i < w->nsum; i++) w->merges &= step[w->sum[i]] == step[w->sum[i - 1]] * p->l.loop[w->sum[i - 1]].extent;
}

static void choose(Window *w, Product *p)
{
    int64_t taps = 1;
    *w = (Window){ .p = p, .line = -1, .lines = 1 };
    for (int i = 0; i < p->l.nloops; i++) {
        if (is_summed(p, i)) taps *= p->l.loop[i].extent;
        if (!is_kept(p, i) || p->a.step[i] || p->b.step[i] <= 0) continue;
        if (w->line < 0 || p->b.step[i] < p->b.step[w->line]) w->line = i;
    }
    if (w->line >= 0) w->lines = divisor(p->l.loop[w->line].extent, COLUMNS / p->n);
    sort_sums(w);
    w->depth = p->k;
    if (!w->merges || w->sum[w->nsum - 1] == p->ik) w->depth = divisor(p->k, w->merges ? DEPTH / taps : DEPTH);
}

bool window_pays(const Product *p)
{
    const Group *gp = p->l.gp;
    Operand b = p->b;
    Window w;
    if (!gp->sum || gp->reduced || gp->then || (p->bits & DOT_BYTES) || !b.buffer || p->m < LEAST_ROWS || p->l.nloops + 2 > KERNEL_MAX_AXES) return false;
    b.row = p->ik, b.line = p->in;
    if (!product_repeats(p, &b)) return false;
    choose(&w, (Product *)p);
    int64_t taps = 1;
    for (int i = 0; i < w.nsum; i++) taps *= w.sum[i] == p->ik ? 1 : p->l.loop[w.sum[i]].extent;
    return w.merges ? w.depth == p->k || w.depth * taps >= LEAST_DEPTH : w.depth >= LEAST_DEPTH;
}

static void add_loop(Lower *l, int *i, int64_t extent)
{
    *i = l->nloops++;
    l->loop[*i] = (Loop){ .extent = extent, .domain = MAX_DOMAIN };
}

/* An axis of a number that the kernel knows, if it is not large. */
static uint32_t known_axis(Lower *l, int64_t extent)
{
    return extent <= KNOWN ? kernel_axis(l->arena, l->k, (Size){ .arg = -1, .lit = extent }, SIZE(0)) : lower_axis(l, extent, 0);
}

static void make_axes(Window *w, Lower *l)
{
    Product *p = w->p;
    int64_t extent[MAX_DOMAIN + 1] = { 0 };
    if (p->m > BLOCK_ROWS) extent[p->im] = round_up(div_up(p->m, div_up(p->m, BLOCK_ROWS)), 8);
    if (w->line >= 0 && w->lines < l->loop[w->line].extent) extent[w->line] = w->lines;
    if (w->depth < p->k) extent[p->ik] = w->depth;
    for (int i = 0; i < l->nloops; i++) {
        p->block[i] = (int32_t)extent[i];
        l->loop[i].axis = i == p->in ? known_axis(l, p->n) : lower_axis(l, l->loop[i].extent, p->block[i]);
    }
    int64_t depth = w->depth;
    for (int i = 0; i < w->nsum; i++) if (w->sum[i] != p->ik) depth *= l->loop[w->sum[i]].extent;
    add_loop(l, &w->iq, w->lines * p->n);
    l->loop[w->iq].axis = known_axis(l, w->lines * p->n);
    w->ikk = p->ik;
    if (!w->merges) return;
    add_loop(l, &w->ikk, depth);
    l->loop[w->ikk].axis = lower_axis(l, depth, 0);
}

static Part inside(const Product *p, int i) { return p->block[i] ? PART_WITHIN : PART_WHOLE; }

/* Packs the block; the access that the product reads it through. */
static uint32_t pack_block(Window *w, Lower *l)
{
    Product *p = w->p;
    Dtype dt = node_at(p->gr->g, p->dot)->dtype;
    int64_t step[MAX_DOMAIN + 1] = { 0 }, outer[MAX_DOMAIN + 1] = { 0 }, row = row_bytes(w->lines * p->n, p->item), bytes = row;
    uint32_t at[MAX_DOMAIN + 1];
    int n = 0;
    for (int i = 0; i < w->nsum; i++) {
        step[w->sum[i]] = bytes;
        bytes *= w->sum[i] == p->ik ? w->depth : l->loop[w->sum[i]].extent;
    }
    step[p->in] = p->item;
    if (w->line >= 0) step[w->line] = p->n * p->item;
    uint32_t array = lower_scratch(l, dt, bytes), to = lower_strided(l, array, dt, step, outer, 0);
    for (int i = w->nsum; i-- > 0;) at[n++] = open_loop(l, w->sum[i], inside(p, w->sum[i]), 0, false);
    if (w->line >= 0) at[n++] = open_loop(l, w->line, inside(p, w->line), 0, false);
    at[n++] = open_loop(l, p->in, PART_WHOLE, l->lanes, false);
    lower_stmt(l, (Stmt){ .kind = STMT_STORE, .a = to, .b = lower_value(l, p->b.id, &p->b.map) });
    close_all(l, at, n);
    step[p->in] = 0;
    if (w->line >= 0) step[w->line] = 0;
    step[w->iq] = p->item;
    if (w->merges) {
        for (int i = 0; i < w->nsum; i++) step[w->sum[i]] = 0;
        step[w->ikk] = row;
    }
    return lower_strided(l, array, dt, step, outer, 0);
}

/* The left operand as the product reads it. */
static uint32_t read_weights(Window *w, Lower *l)
{
    Operand a = w->p->a;
    int ik = w->p->ik;
    a.step[w->iq] = 0;
    if (w->merges) {
        a.step[w->ikk] = a.step[w->sum[0]];
        if (w->p->block[ik]) a.outer[ik] = a.step[ik] * w->depth;
        for (int i = 0; i < w->nsum; i++) a.step[w->sum[i]] = 0;
    }
    return product_operand(l, &a);
}

static void open_lines(Window *w, Lower *l, int lanes, uint32_t *at, int *n)
{
    Product *p = w->p;
    at[(*n)++] = open_loop(l, p->im, inside(p, p->im), 0, false);
    if (w->line >= 0) at[(*n)++] = open_loop(l, w->line, inside(p, w->line), 0, false);
    at[(*n)++] = open_loop(l, p->in, PART_WHOLE, lanes, false);
}

/* Packing, block of k by block of k, and the product of the block, added to the tile c unless it is the only one; tile: the same by lines. */
static void multiply_blocks(Window *w, Lower *l, uint32_t c, uint32_t tile)
{
    Product *p = w->p;
    uint32_t at[MAX_DOMAIN + 2];
    int n = 0;
    bool add = p->block[p->ik] || !w->merges;
    if (add) {
        open_lines(w, l, l->lanes, at, &n);
        lower_stmt(l, (Stmt){ .kind = STMT_STORE, .a = tile, .b = kernel_const(l->arena, l->k, node_at(p->gr->g, p->dot)->dtype, 0) });
        close_all(l, at, n);
        n = 0;
    }
    if (p->block[p->ik]) at[n++] = open_loop(l, p->ik, PART_BLOCKS, 0, false);
    uint32_t b = pack_block(w, l), a = read_weights(w, l);
    for (int i = 0; i < w->nsum && !w->merges; i++)
        if (w->sum[i] != p->ik) at[n++] = open_loop(l, w->sum[i], PART_WHOLE, 0, false);
    lower_stmt(l, (Stmt){ .kind = STMT_DOT, .add = add, .axis = (uint16_t)l->loop[p->im].axis, .axis_n = (uint16_t)l->loop[w->iq].axis,
        .axis_k = (uint16_t)l->loop[w->ikk].axis, .d = l->loop[w->ikk].extent <= SHORT_DEPTH ? DOT_ROWS_FIRST : 0, .lanes = (uint16_t)native_lanes(l), .a = c, .b = a, .c = b });
    close_all(l, at, n);
}

/* Lanes of a loop over a line: all of a short one at once. */
static int line_lanes(const Lower *l, int64_t n)
{
    int lanes = native_lanes(l);
    while (lanes < n && lanes < LINE_VECTORS * native_lanes(l)) lanes *= 2;
    return lanes;
}

/* Whether a node is the sum in another shape. */
static bool is_sum(const Lower *l, Id id)
{
    const Graph *g = l->gr->g;
    while (node_at(g, id)->op == OP_reshape || node_at(g, id)->op == OP_transpose) id = node_in(g, id)[0];
    return id == l->gp->sum;
}

/* The tile that the product goes to: the result's own memory where it is all that is stored and its lines follow each other, else scratch. Sets
 * l->dot_tile if it is scratch; the access by columns in *c, by lines as the result. */
static uint32_t target(Window *w, Lower *l, uint32_t *c)
{
    Product *p = w->p;
    const Root *r = l->gp->roots.len == 1 ? &l->gp->roots.at[0] : NULL;
    Dtype dt = node_at(p->gr->g, p->dot)->dtype;
    int64_t by_domain[MAX_DOMAIN], step[MAX_DOMAIN + 1] = { 0 }, outer[MAX_DOMAIN + 1], off = 0;
    uint32_t array, tile;
    const Map *to = r && is_sum(l, r->value) && !r->check && !r->scatter ? root_map(p->gr, l->gp, r) : NULL;
    for (int i = 0; i < l->nloops; i++) outer[i] = to ? -1 : 0;
    if (to) {
        lower_steps(l, r->buffer, to, by_domain, &off);
        for (int i = 0; i < l->nloops; i++) step[i] = l->loop[i].domain < MAX_DOMAIN ? by_domain[l->loop[i].domain] : 0;
    }
    w->direct = to && !to->nindex && step[p->in] == p->item && (w->lines == 1 || step[w->line] == p->n * p->item);
    if (w->direct) {
        array = lower_array(l, r->buffer, dt, true);
    } else {
        memset(step, 0, sizeof step);
        memset(outer, 0, sizeof outer);
        off = 0;
        step[p->im] = row_bytes(w->lines * p->n, p->item);
        step[p->in] = p->n == 1 ? 0 : p->item;
        if (w->line >= 0) step[w->line] = p->n * p->item;
        array = lower_scratch(l, dt, (p->block[p->im] ? p->block[p->im] : p->m) * step[p->im]);
    }
    tile = lower_strided(l, array, dt, step, outer, off);
    if (!w->direct) l->dot_tile = tile + 1;
    step[w->iq] = p->item;
    step[p->in] = 0;
    if (w->line >= 0) {
        if (w->direct && p->block[w->line]) outer[w->line] = step[w->line] * p->block[w->line];
        if (!w->direct || p->block[w->line] || w->lines > 1) step[w->line] = 0;
    }
    *c = lower_strided(l, array, dt, step, outer, off);
    return tile;
}

bool window_multiply(Product *p, Drafts *out)
{
    Lower *l = &p->l, loops = *l;
    uint32_t at[MAX_DOMAIN + 3], in[3];
    int n = 0, nin = 0;
    Window w;
    choose(&w, p);
    if (!draft_begin(l, out, p->gr, loops.n, loops.survey, loops.buffers)) return false;
    l->nloops = loops.nloops;
    memcpy(l->loop, loops.loop, sizeof l->loop);
    list_reductions(l);
    l->vec = p->in;
    l->lanes = line_lanes(l, p->n);
    int grid = l->nloops;
    make_axes(&w, l);
    for (int i = 0; i < grid; i++)
        if (is_kept(p, i) && i != w.line) at[n++] = open_loop(l, i, PART_WHOLE, 0, true);
    if (p->block[p->im]) at[n++] = open_loop(l, p->im, PART_BLOCKS, 0, true);
    if (w.line >= 0 && p->block[w.line]) at[n++] = open_loop(l, w.line, PART_BLOCKS, 0, true);
    uint32_t c, tile = target(&w, l, &c);
    multiply_blocks(&w, l, c, tile);
    if (!w.direct) {
        open_lines(&w, l, l->lanes, in, &nin);
        l->phase = 0;
        phase_body(l);
        close_all(l, in, nin);
    }
    close_all(l, at, n);
    return draft_end(l);
}

/* ---- windows as left operand ---- */

/* The loops of the sum by growing steps of b, from k on, and the terms of all; 0: b does not go on evenly through them. */
static int64_t whole_window(const Product *p, int *sum, int *nsum)
{
    const int64_t *step = p->b.step;
    int64_t terms = p->k;
    *nsum = 0;
    for (int64_t at = step[p->ik] * p->k; *nsum < MAX_DOMAIN;) {
        int next = -1;
        for (int i = 0; i < p->l.nloops; i++) if (is_summed(p, i) && p->l.loop[i].extent > 1 && step[i] == at) next = i;
        if (next < 0) break;
        sum[(*nsum)++] = next;
        terms *= p->l.loop[next].extent;
        at = step[next] * p->l.loop[next].extent;
    }
    for (int i = 0; i < p->l.nloops; i++) {
        bool found = !is_summed(p, i) || p->l.loop[i].extent == 1;
        for (int k = 0; k < *nsum; k++) found |= sum[k] == i;
        if (!found) return 0;
    }
    return terms;
}

bool window_rows_pay(const Product *p)
{
    const Group *gp = p->l.gp;
    int sum[MAX_DOMAIN], nsum;
    if (!gp->sum || gp->reduced || gp->then || (p->bits & DOT_BYTES) || !p->a.buffer || p->a.line >= 0 || p->b.line >= 0 || p->inside || p->fed || p->block[p->ik]) return false;
    if (p->k < 2 || p->k > SHORT_PIECE || p->n < LEAST_COLUMNS || p->m < LEAST_ROWS || p->b.step[p->in] != p->item || p->l.nloops + 1 > KERNEL_MAX_AXES) return false;
    int64_t terms = whole_window(p, sum, &nsum);
    return nsum && terms > p->k && terms <= WHOLE_WINDOW;
}

const Root *window_root(const Product *p)
{
    const Root *r = p->l.gp->roots.len == 1 ? &p->l.gp->roots.at[0] : NULL;
    return r && is_sum(&p->l, r->value) && !r->check && !r->scatter && !r->then ? r : NULL;
}

uint32_t window_rows(Product *p, uint32_t *a, uint32_t *b)
{
    Lower *l = &p->l;
    Dtype dt = node_at(p->gr->g, p->dot)->dtype;
    int sum[MAX_DOMAIN], nsum, whole, n = 0;
    int64_t terms = whole_window(p, sum, &nsum), at = p->k * p->item, row = round_up(terms * p->item, CACHE_LINE);
    int64_t step[MAX_DOMAIN + 1] = { 0 }, outer[MAX_DOMAIN + 1] = { 0 };
    uint32_t open[MAX_DOMAIN + 2];
    Operand right = p->b;
    step[p->im] = row;
    step[p->ik] = p->item;
    l->loop[p->ik].axis = known_axis(l, p->k);
    for (int i = 0; i < nsum; i++) {
        step[sum[i]] = at;
        at *= l->loop[sum[i]].extent;
        l->loop[sum[i]].axis = known_axis(l, l->loop[sum[i]].extent);
    }
    uint32_t tile = lower_scratch(l, dt, (p->block[p->im] ? p->block[p->im] : p->m) * row), to = lower_strided(l, tile, dt, step, outer, 0);
    open[n++] = open_loop(l, p->im, p->block[p->im] ? PART_WITHIN : PART_WHOLE, 0, false);
    for (int i = nsum; i-- > 0;) open[n++] = open_loop(l, sum[i], PART_WHOLE, 0, false);
    open[n++] = open_loop(l, p->ik, PART_WHOLE, native_lanes(l), false);
    lower_stmt(l, (Stmt){ .kind = STMT_STORE, .a = to, .b = lower_value(l, p->a.id, &p->a.map) });
    close_all(l, open, n);
    add_loop(l, &whole, terms);
    l->loop[whole].axis = lower_axis(l, terms, 0);
    step[whole] = p->item;
    step[p->ik] = 0;
    right.step[whole] = right.step[p->ik];
    right.step[p->ik] = right.outer[whole] = 0;
    for (int i = 0; i < nsum; i++) step[sum[i]] = right.step[sum[i]] = 0;
    *a = lower_strided(l, tile, dt, step, outer, 0);
    *b = product_operand(l, &right);
    return l->loop[whole].axis;
}
