/* DOT: C[m, n] (+)= sum over k of A[m, k] B[k, n], with run-time strides of everything. A blocked axis that no FOR runs is gone through
 * block by block here.
 *
 * Two micro-kernels. Across columns: a tile of C of a few rows by a few vectors is kept in registers while k runs; a row of B is a
 * vector load, an element of A is spread. Along k, where A and B have unit stride there and B has not along n: a tile of
 * sums, one vector each, which a halving tree makes into numbers. Rows (and columns, along k) beyond the end repeat the last one:
 * they compute and store the same numbers once more, which costs less than a branch or a second body. Columns beyond the end
 * are masked. */
#include <string.h>
#include "gen/dot.h"
#include "gen/target.h"

enum { MAX_ROWS = 8, MAX_VECTORS = 12, REGISTERS = 32, PREFETCH_STEPS = 16, PREFETCH_BYTES = 1024, THIN_VECTORS = 4, THIN_FEW = 5 };

/* ---- small things ---- */

static bool is_number(LLVMValueRef v) { return LLVMIsConstant(v); }
static int64_t number(LLVMValueRef v) { return LLVMConstIntGetSExtValue(v); }
static int least(int a, int b) { return a < b ? a : b; }

static LLVMValueRef advance(Dot *d, LLVMValueRef ptr, LLVMValueRef steps, Stride stride)
{
    return byte_offset(d->g, ptr, LLVMBuildMul(d->g->e.b, steps, stride.v, ""));
}

static LLVMValueRef zero(Dot *d)
{
    return LLVMConstNull(v_type(&d->g->e, d->dt));
}

/* c + the products of the bytes of x, unsigned, with those of y, signed: an instruction, or byte by byte. */
static LLVMValueRef add_byte_products(Dot *d, LLVMValueRef x, LLVMValueRef y, LLVMValueRef c)
{
    static const char name[] = "llvm.x86.avx512.vpdpbusd.512";
    Emit *e = &d->g->e;
    if (d->g->vnni && e->lanes == 16) {
        LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->mod, LLVMLookupIntrinsicID(name, sizeof name - 1), NULL, 0);
        LLVMTypeRef type = LLVMGlobalGetValueType(fn), params[3];                /* of words, from LLVM 22 on of bytes */
        LLVMGetParamTypes(type, params);
        LLVMValueRef args[] = {c, LLVMBuildBitCast(e->b, x, params[1], ""), LLVMBuildBitCast(e->b, y, params[2], "")};
        return LLVMBuildCall2(e->b, type, fn, args, 3, "");
    }
    for (int i = 0; i < 32; i += 8) {
        LLVMValueRef low = v_and(e, v_lshr(e, x, i), v_i(e, d->dt, 255)), high = v_ashr(e, v_shl(e, y, 24 - i), 24);
        c = v_add(e, v_mul(e, low, high), c);
    }
    return c;
}

LLVMValueRef dot_multiply_add(Dot *d, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    Emit *e = &d->g->e;
    if (d->bits & DOT_UNSIGNED_SIGNED) return add_byte_products(d, a, b, c);
    if (d->bits & DOT_SIGNED_UNSIGNED) return add_byte_products(d, b, a, c);
    return dtype_info[d->dt].kind == DKIND_FLOAT ? v_madd(e, a, b, c) : v_add(e, v_mul(e, a, b), c);
}

LLVMValueRef dot_start(Dot *d, LLVMValueRef ptr, Stride stride)
{
    if (is_number(d->add) && !number(d->add)) return zero(d);
    LLVMValueRef c = lanes_load(d->g, d->x[DOT_C], ptr, stride);
    return is_number(d->add) ? c : LLVMBuildSelect(d->g->e.b, d->add, c, zero(d), "");
}

/* Addresses of `count` lines from line i of `extent` on; those beyond the end are the last line's. */
static void line_pointers(Dot *d, LLVMValueRef ptr, LLVMValueRef i, LLVMValueRef extent, Stride stride, int count, LLVMValueRef *out)
{
    LLVMBuilderRef b = d->g->e.b;
    bool even = is_number(extent) && number(extent) % count == 0;
    out[0] = advance(d, ptr, i, stride);
    for (int r = 1; r < count; r++) {
        LLVMValueRef inside = LLVMBuildICmp(b, LLVMIntSLT, LLVMBuildAdd(b, i, int64_const(d->g, r), ""), extent, "");
        LLVMValueRef step = even ? stride.v : LLVMBuildSelect(b, inside, stride.v, int64_const(d->g, 0), "");
        out[r] = byte_offset(d->g, out[r - 1], step);
    }
}

/* A loop i = 0, step, ... below extent around `body`; extent > 0 is sure. */
typedef void Body(Dot *d, LLVMValueRef i, void *context);

static void loop_from(Dot *d, LLVMValueRef start, LLVMValueRef extent, int64_t step, Body *body, void *context, LLVMValueRef cond)
{
    Gen *g = d->g;
    Loop l = {0};
    loop_open(g, &l, start, cond);
    if (!scope_open(g, NULL, NULL)) return;
    body(d, l.i, context);
    scope_close(g);
    loop_close(g, &l, LLVMBuildAdd(g->e.b, l.i, int64_const(g, step), ""), extent);
}

static void loop_over(Dot *d, LLVMValueRef extent, int64_t step, Body *body, void *context)
{
    if (!is_number(extent) || number(extent) > step) {
        loop_from(d, int64_const(d->g, 0), extent, step, body, context, NULL);
        return;
    }
    scope_continue(d->g);
    if (!scope_open(d->g, NULL, NULL)) return;
    body(d, int64_const(d->g, 0), context);
    scope_close(d->g);
}

/* ---- across columns ---- */

typedef struct { LLVMValueRef j, active; int vectors; } Panel;      /* columns from j on; active: lanes of the last vector, NULL: all */

static void use_mask(Dot *d, const Panel *p, LLVMValueRef mask)
{
    d->g->mask = mask;
    d->g->active = mask ? p->active : NULL;
}

static void vector_pointers(Dot *d, LLVMValueRef ptr, Stride stride, int count, LLVMValueRef *out)
{
    for (int v = 0; v < count; v++) out[v] = advance(d, ptr, int64_const(d->g, (int64_t)v * d->lanes), stride);
}

typedef struct {
    LLVMValueRef a[MAX_ROWS], col[MAX_VECTORS], mask[MAX_VECTORS], out[MAX_ROWS][MAX_VECTORS], acc[MAX_ROWS][MAX_VECTORS];
    LLVMValueRef next;                         /* a row of A below the tile, NULL: it need not be asked for */
    const Panel *p;
} Tile;

/* Adds the products of element k of the tile's rows and row k of B. */
static void add_rank_one(Dot *d, Tile *t, LLVMValueRef k)
{
    Gen *g = d->g;
    LLVMBuilderRef b = g->e.b;
    LLVMValueRef row[MAX_VECTORS];
    LLVMValueRef step_a = LLVMBuildMul(b, k, d->by_k[DOT_A].v, ""), step_b = LLVMBuildMul(b, k, d->by_k[DOT_B].v, "");
    if (d->off[DOT_A]) step_a = LLVMBuildAdd(b, step_a, d->off[DOT_A], "");
    if (d->off[DOT_B]) step_b = LLVMBuildAdd(b, step_b, d->off[DOT_B], "");
    LLVMValueRef ahead = byte_offset(g, t->col[0], step_b);
    ahead = byte_offset(g, ahead, LLVMBuildMul(b, d->by_k[DOT_B].v, int64_const(g, PREFETCH_STEPS), ""));
    for (int v = 0; v < t->p->vectors; v++) {
        if (d->streams) memory_prefetch(d->g, byte_offset(g, ahead, int64_const(g, (int64_t)v * d->lanes * dtype_info[d->dt].bytes)), false);
        use_mask(d, t->p, t->mask[v]);
        row[v] = lanes_load(g, d->x[DOT_B], byte_offset(g, t->col[v], step_b), d->by_n[DOT_B]);
    }
    use_mask(d, t->p, NULL);
    if (t->next) memory_prefetch(g, byte_offset(g, t->next, step_a), false);
    for (int r = 0; r < d->rows; r++) {
        LLVMValueRef x = lanes_load(g, d->x[DOT_A], byte_offset(g, t->a[r], step_a), (Stride){int64_const(g, 0), 0, true});
        for (int v = 0; v < t->p->vectors; v++) t->acc[r][v] = dot_multiply_add(d, x, row[v], t->acc[r][v]);
    }
}

static void column_products(Dot *d, Tile *t)
{
    Gen *g = d->g;
    LLVMBuilderRef b = g->e.b;
    Loop l = {0};
    if (is_number(d->k) && number(d->k) <= (d->bits & DOT_THIN ? DOT_THIN_STEPS : 0)) {
        for (int64_t k = 0; k < number(d->k); k++) add_rank_one(d, t, int64_const(g, k));
        return;
    }
    for (int r = 0; r < d->rows; r++)
        for (int v = 0; v < t->p->vectors; v++) carried_add(g, &l.c, &t->acc[r][v]);
    loop_open(g, &l, int64_const(g, 0), is_number(d->k) ? NULL : LLVMBuildICmp(b, LLVMIntSGT, d->k, int64_const(g, 0), ""));
    add_rank_one(d, t, l.i);
    loop_close(g, &l, LLVMBuildAdd(b, l.i, int64_const(g, 1), ""), d->k);
}

/* The products of a tile, in loops over the axes of the sum from `which` on. */
static void column_sums(Dot *d, Tile *t, int which)
{
    Gen *g = d->g;
    LLVMBuilderRef b = g->e.b;
    LLVMValueRef off[3] = {NULL, d->off[DOT_A], d->off[DOT_B]}, n = d->sum[which];
    Loop l = {0};
    if (which == d->nsums) {
        column_products(d, t);
        return;
    }
    for (int r = 0; r < d->rows; r++)
        for (int v = 0; v < t->p->vectors; v++) carried_add(g, &l.c, &t->acc[r][v]);
    loop_open(g, &l, int64_const(g, 0), is_number(n) && number(n) > 0 ? NULL : LLVMBuildICmp(b, LLVMIntSGT, n, int64_const(g, 0), ""));
    unsigned lanes = g->e.lanes;
    if (!scope_open(g, NULL, NULL)) return;
    g->e.lanes = lanes;
    for (int i = DOT_A; i <= DOT_B; i++) {
        LLVMValueRef by = LLVMBuildMul(b, l.i, d->by_sum[which][i], "");
        d->off[i] = off[i] ? LLVMBuildAdd(b, off[i], by, "") : by;
    }
    column_sums(d, t, which + 1);
    memcpy(d->off, off, sizeof off);
    scope_close(g);
    loop_close(g, &l, LLVMBuildAdd(b, l.i, int64_const(g, 1), ""), n);
}

/* The rows of a tile: addresses in A and, at column 0, in C. */
typedef struct { LLVMValueRef a[MAX_ROWS], c[MAX_ROWS]; } Rows;

static void row_pointers(Dot *d, LLVMValueRef i, Rows *r)
{
    line_pointers(d, d->ptr[DOT_A], i, d->m, d->by_m[DOT_A], d->rows, r->a);
    line_pointers(d, d->ptr[DOT_C], i, d->m, d->by_m[DOT_C], d->rows, r->c);
}

/* Asks for what the tiles below read: this one's columns of C, and of A a row for each panel, while k runs. */
static void ask_below(Dot *d, Tile *t, const Rows *rows)
{
    LLVMBuilderRef b = d->g->e.b;
    LLVMValueRef below = int64_const(d->g, d->rows), panel = LLVMBuildUDiv(b, t->p->j, int64_const(d->g, (int64_t)t->p->vectors * d->lanes), "");
    t->next = advance(d, rows->a[0], LLVMBuildAdd(b, below, panel, ""), d->by_m[DOT_A]);
    for (int r = 0; r < d->rows; r++)
        for (int v = 0; v < t->p->vectors; v++) memory_prefetch(d->g, advance(d, t->out[r][v], below, d->by_m[DOT_C]), true);
}

static void column_tile(Dot *d, const Rows *rows, const Panel *p)
{
    Gen *g = d->g;
    Tile t = {.p = p};
    memcpy(t.a, rows->a, sizeof t.a);
    vector_pointers(d, advance(d, d->ptr[DOT_B], p->j, d->by_n[DOT_B]), d->by_n[DOT_B], p->vectors, t.col);
    g->e.lanes = d->lanes;
    if (p->active) t.mask[p->vectors - 1] = lane_mask(g, p->active);
    for (int r = 0; r < d->rows; r++) vector_pointers(d, advance(d, rows->c[r], p->j, d->by_n[DOT_C]), d->by_n[DOT_C], p->vectors, t.out[r]);
    if (d->bits & DOT_FAR && d->bits & DOT_ROWS_FIRST) ask_below(d, &t, rows);
    for (int v = 0; v < p->vectors; v++) {
        use_mask(d, p, t.mask[v]);
        for (int r = 0; r < d->rows; r++) t.acc[r][v] = dot_start(d, t.out[r][v], d->by_n[DOT_C]);
    }
    column_sums(d, &t, 0);
    for (int v = 0; v < p->vectors; v++) {
        use_mask(d, p, t.mask[v]);
        for (int r = 0; r < d->rows; r++) lanes_store(g, d->x[DOT_C], t.out[r][v], d->by_n[DOT_C], t.acc[r][v]);
    }
    use_mask(d, p, NULL);
    g->e.lanes = 0;
}

/* The two orders: all tiles of a panel of columns (`context`), or all tiles of some rows (`context`). */
static void tile_of_panel(Dot *d, LLVMValueRef i, void *context)
{
    Rows rows;
    row_pointers(d, i, &rows);
    column_tile(d, &rows, context);
}

static void panel(Dot *d, const Panel *p, const Rows *rows)
{
    if (rows) column_tile(d, rows, p);
    else loop_over(d, d->m, d->rows, tile_of_panel, (void *)p);
}

static void full_panel(Dot *d, LLVMValueRef j, void *rows) { panel(d, &(Panel){j, NULL, d->vectors}, rows); }

static void last_vector(Dot *d, LLVMValueRef j, void *rows)
{
    LLVMBuilderRef b = d->g->e.b;
    LLVMValueRef lanes = int64_const(d->g, d->lanes), left = LLVMBuildSub(b, d->n, j, "");
    LLVMValueRef active = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSLT, left, lanes, ""), left, lanes, "");
    panel(d, &(Panel){j, active, 1}, rows);
}

/* Panels as the schedule gives them. Those at the end are a copy of the body of their own, with fewer rows where they are wider. */
static int rows_beside(const Dot *d, int vectors) { return least(d->rows, (REGISTERS - 1 - vectors) / vectors); }

static void last_columns(Dot *d, LLVMValueRef j, void *rows)
{
    LLVMBuilderRef b = d->g->e.b;
    int last = dot_last(d->bits), own = d->rows;
    LLVMValueRef lanes = int64_const(d->g, d->lanes), from = LLVMBuildAdd(b, j, int64_const(d->g, (last - 1) * (int64_t)d->lanes), "");
    LLVMValueRef left = LLVMBuildSub(b, d->n, from, "");
    LLVMValueRef active = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSLT, left, lanes, ""), left, lanes, "");
    if (!rows) d->rows = rows_beside(d, last);
    panel(d, &(Panel){j, active, last}, rows);
    d->rows = own;
}

static void given_panels(Dot *d, Rows *rows)
{
    Gen *g = d->g;
    LLVMBuilderRef b = g->e.b;
    int vectors = dot_vectors(d->bits), last = dot_last(d->bits);
    int64_t lanes = d->lanes, width = vectors * lanes;
    LLVMValueRef end = int64_const(g, 0), n = d->n;
    if (last) {
        n = LLVMBuildUDiv(b, LLVMBuildAdd(b, n, int64_const(g, lanes - 1), ""), int64_const(g, lanes), "");
        end = last == vectors ? int64_const(g, vectors) : LLVMBuildMul(b, LLVMBuildURem(b, n, int64_const(g, vectors), ""), int64_const(g, last), "");
        n = LLVMBuildMul(b, LLVMBuildSub(b, n, end, ""), int64_const(g, lanes), "");
    }
    loop_from(d, int64_const(g, 0), n, width, full_panel, rows, last ? LLVMBuildICmp(b, LLVMIntSGT, n, int64_const(g, 0), "") : NULL);
    if (last == vectors) {
        scope_continue(g);
        if (!scope_open(g, NULL, NULL)) return;
        last_columns(d, n, rows);
        scope_close(g);
    } else if (last) {
        loop_from(d, n, d->n, last * lanes, last_columns, rows, NULL);
    }
}

/* The last columns of a known number: one panel whose last vector may be masked. */
static void last_panel(Dot *d, int64_t from, const Rows *rows)
{
    int64_t left = number(d->n) - from, lanes = d->lanes ? d->lanes : 1;
    if (left == 0) return;
    panel(d, &(Panel){int64_const(d->g, from), left % lanes ? int64_const(d->g, left % lanes) : NULL, (int)((left + lanes - 1) / lanes)}, rows);
}

static void all_panels(Dot *d, Rows *rows)
{
    Gen *g = d->g;
    LLVMBuilderRef b = g->e.b;
    int64_t width = (int64_t)d->vectors * (d->lanes ? d->lanes : 1);
    if (dot_vectors(d->bits)) {
        given_panels(d, rows);
        return;
    }
    if (is_number(d->n)) {
        int64_t full = number(d->n) / width * width;
        if (full) loop_over(d, int64_const(g, full), width, full_panel, rows);
        last_panel(d, full, rows);
        return;
    }
    LLVMValueRef full = LLVMBuildMul(b, LLVMBuildUDiv(b, d->n, int64_const(g, width), ""), int64_const(g, width), "");
    loop_from(d, int64_const(g, 0), full, width, full_panel, rows, LLVMBuildICmp(b, LLVMIntSGT, full, int64_const(g, 0), ""));
    loop_from(d, full, d->n, d->lanes, last_vector, rows, LLVMBuildICmp(b, LLVMIntSLT, full, d->n, ""));
}

static void panels_of_rows(Dot *d, LLVMValueRef i, void *context)
{
    Rows rows;
    (void)context;
    row_pointers(d, i, &rows);
    all_panels(d, &rows);
}

static void across_columns(Dot *d)
{
    if (d->bits & DOT_ROWS_FIRST) loop_over(d, d->m, d->rows, panels_of_rows, NULL);
    else all_panels(d, NULL);
}

/* ---- along k ---- */

typedef struct { LLVMValueRef i; int rows, cols; LLVMValueRef a[MAX_ROWS], c[MAX_ROWS], b[MAX_ROWS], acc[MAX_ROWS][MAX_ROWS]; } Sums;

static void add_products(Dot *d, Sums *t, LLVMValueRef k)
{
    Gen *g = d->g;
    LLVMValueRef step_a = LLVMBuildMul(g->e.b, k, d->by_k[DOT_A].v, ""), step_b = LLVMBuildMul(g->e.b, k, d->by_k[DOT_B].v, ""), col[MAX_ROWS];
    for (int v = 0; v < t->cols; v++) col[v] = lanes_load(g, d->x[DOT_B], byte_offset(g, t->b[v], step_b), d->by_k[DOT_B]);
    for (int r = 0; r < t->rows; r++) {
        LLVMValueRef at = byte_offset(g, t->a[r], step_a), x = lanes_load(g, d->x[DOT_A], at, d->by_k[DOT_A]);
        if (t->cols == 1) memory_prefetch(d->g, byte_offset(g, at, int64_const(g, PREFETCH_BYTES)), false);       /* A is the traffic */
        for (int v = 0; v < t->cols; v++) t->acc[r][v] = dot_multiply_add(d, x, col[v], t->acc[r][v]);
    }
}

static LLVMValueRef sum_lanes(Dot *d, LLVMValueRef x)
{
    Gen *g = d->g;
    for (unsigned half = d->lanes / 2; half; half /= 2) {
        LLVMValueRef low[64], high[64], lo, hi;
        for (unsigned i = 0; i < half; i++) {
            low[i] = LLVMConstInt(g->i32, i, 0);
            high[i] = LLVMConstInt(g->i32, half + i, 0);
        }
        lo = LLVMBuildShuffleVector(g->e.b, x, x, LLVMConstVector(low, half), "");
        hi = LLVMBuildShuffleVector(g->e.b, x, x, LLVMConstVector(high, half), "");
        x = dtype_info[d->dt].kind == DKIND_FLOAT ? v_fadd(&g->e, lo, hi) : v_add(&g->e, lo, hi);
    }
    return LLVMBuildExtractElement(g->e.b, x, LLVMConstInt(g->i32, 0, 0), "");
}

static void carry_sums(Dot *d, Carried *c, Sums *t)
{
    for (int r = 0; r < t->rows; r++)
        for (int v = 0; v < t->cols; v++) carried_add(d->g, c, &t->acc[r][v]);
}

/* Whole vectors of k, then the rest under a mask: lanes beyond the end are 0 in A and B. */
static void sum_products(Dot *d, Sums *t)
{
    Gen *g = d->g;
    LLVMBuilderRef b = g->e.b;
    LLVMValueRef full = LLVMBuildAnd(b, d->k, int64_const(g, -(int64_t)d->lanes), ""), left = LLVMBuildSub(b, d->k, full, "");
    Loop l = {0};
    Fork f = {0};
    if (!is_number(full) || number(full)) {
        carry_sums(d, &l.c, t);
        loop_open(g, &l, int64_const(g, 0), is_number(full) ? NULL : LLVMBuildICmp(b, LLVMIntSGT, full, int64_const(g, 0), ""));
        add_products(d, t, l.i);
        loop_close(g, &l, LLVMBuildAdd(b, l.i, int64_const(g, d->lanes), ""), full);
    }
    if (is_number(left) && !number(left)) return;
    carry_sums(d, &f.c, t);
    if (!is_number(left)) fork_open(g, &f, LLVMBuildICmp(b, LLVMIntSGT, left, int64_const(g, 0), ""));
    g->active = left;
    g->mask = lane_mask(g, left);
    add_products(d, t, full);
    g->mask = g->active = NULL;
    if (!is_number(left)) fork_close(g, &f);
}

static void sums_tile(Dot *d, LLVMValueRef j, void *context)
{
    Sums *t = context;
    Gen *g = d->g;
    LLVMValueRef out[MAX_ROWS], one;
    line_pointers(d, d->ptr[DOT_B], j, d->n, d->by_n[DOT_B], t->cols, t->b);
    g->e.lanes = d->lanes;
    for (int r = 0; r < t->rows; r++)
        for (int v = 0; v < t->cols; v++) t->acc[r][v] = zero(d);
    sum_products(d, t);
    Stride still = {int64_const(g, 0), 0, true};
    for (int r = 0; r < t->rows; r++)
        for (int v = 0; v < t->cols; v++) t->acc[r][v] = sum_lanes(d, t->acc[r][v]);
    g->e.lanes = 0;
    /* Lines beyond the end store what the last one does: with add, all must be read before. */
    for (int r = 0; r < t->rows; r++) {
        line_pointers(d, t->c[r], j, d->n, d->by_n[DOT_C], t->cols, out);
        for (int v = 0; v < t->cols; v++) {
            one = dot_start(d, out[v], still);
            t->acc[r][v] = dtype_info[d->dt].kind == DKIND_FLOAT ? v_fadd(&g->e, one, t->acc[r][v]) : v_add(&g->e, one, t->acc[r][v]);
        }
    }
    for (int r = 0; r < t->rows; r++) {
        line_pointers(d, t->c[r], j, d->n, d->by_n[DOT_C], t->cols, out);
        for (int v = 0; v < t->cols; v++) lanes_store(g, d->x[DOT_C], out[v], still, t->acc[r][v]);
    }
}

static void sums_row(Dot *d, LLVMValueRef i, void *context)
{
    Sums *t = context;
    line_pointers(d, d->ptr[DOT_A], i, d->m, d->by_m[DOT_A], t->rows, t->a);
    line_pointers(d, d->ptr[DOT_C], i, d->m, d->by_m[DOT_C], t->rows, t->c);
    loop_over(d, d->n, t->cols, sums_tile, t);
}

static int even_share(LLVMValueRef extent, int most)
{
    if (!is_number(extent)) return most;
    int64_t n = number(extent), blocks = (n + most - 1) / most;
    return (int)((n + blocks - 1) / blocks);
}

static void along_k(Dot *d)
{
    bool many = d->g->e.level == CPU_AVX512 || d->g->e.level == CPU_NEON;
    bool vector = is_number(d->n) && number(d->n) == 1;
    Sums t = {.rows = even_share(d->m, vector && many ? 8 : 4), .cols = even_share(d->n, many ? 4 : 2)};
    loop_over(d, d->m, t.rows, sums_row, &t);
}

/* ---- the statement ---- */

static bool unit(const Dot *d, Stride s) { return s.literal && s.bytes == dtype_info[d->dt].bytes; }

/* Rows and vectors of a tile: as many accumulators as leave registers for a row of B and an element of A; wide for few rows, so that
 * the chains of additions overlap. */
static void choose_tile(Dot *d)
{
    static const struct { int rows, vectors; } shapes[] = {[CPU_SSE2] = {4, 2}, [CPU_AVX2] = {6, 2}, [CPU_AVX512] = {8, 3}, [CPU_NEON] = {8, 3}};
    int most = shapes[d->g->e.level].rows, wide = shapes[d->g->e.level].vectors, sums = most * wide;
    if (d->bits & DOT_THIN) {
        d->rows = even_share(d->m, d->tile);
        d->vectors = least(d->rows <= THIN_FEW ? THIN_VECTORS : THIN_VECTORS - 1, sums / d->rows > 1 ? sums / d->rows : 1);
        return;
    }
    if (dot_vectors(d->bits)) {
        d->vectors = dot_vectors(d->bits);
        d->rows = even_share(d->m, least(d->tile ? d->tile : most, (REGISTERS - 1 - d->vectors) / d->vectors));
        if (d->bits & DOT_ROWS_FIRST && dot_last(d->bits)) d->rows = rows_beside(d, dot_last(d->bits));
        return;
    }
    int64_t lanes = d->lanes ? d->lanes : 1, n = is_number(d->n) ? (number(d->n) + lanes - 1) / lanes : 0;
    if (sums == 24 && n && n % 4 == 0 && (n == 4 || 4 * even_share(d->m, 6) > wide * even_share(d->m, most))) most = 6, wide = 4;
    d->rows = d->tile ? d->tile : even_share(d->m, most);
    d->vectors = wide;
    if ((is_number(d->m) || d->tile) && d->rows * wide < sums) d->vectors = least(sums / d->rows, n ? MAX_VECTORS : 2 * wide);
    if (n && n < d->vectors) d->vectors = (int)n;
}

static void across_if(Dot *d, LLVMValueRef cond)
{
    Fork f = {0};
    fork_open(d->g, &f, cond);
    if (!scope_open(d->g, NULL, NULL)) return;
    across_columns(d);
    scope_close(d->g);
    fork_close(d->g, &f);
}

/* Few rows, and B from beyond the first cache: rows of B are streams that the machine follows best where a visit to each takes few vectors. */
static void across_thin(Dot *d)
{
    LLVMBuilderRef b = d->g->e.b;
    LLVMValueRef steps = int64_const(d->g, DOT_THIN_STEPS), all = LLVMBuildICmp(b, LLVMIntEQ, d->k, steps, "");
    Dot known = *d;
    known.k = steps;
    across_if(&known, all);
    across_if(d, LLVMBuildNot(b, all, ""));
}

static void multiply(Dot *d)
{
    int bytes = cpu_level_vector_bytes(d->g->e.level);
    d->lanes = (unsigned)(bytes / dtype_info[d->dt].bytes);
    if (!d->nsums && !unit(d, d->by_n[DOT_B]) && unit(d, d->by_k[DOT_A]) && unit(d, d->by_k[DOT_B])) {
        along_k(d);
        return;
    }
    if (dot_small(d)) return;
    if (is_number(d->n) && number(d->n) == 1) d->lanes = 0, d->bits &= (uint32_t)(DOT_ROWS_FIRST | DOT_BYTES);
    choose_tile(d);
    if (d->bits & DOT_THIN) across_thin(d);
    else across_columns(d);
}

/* Runs `multiply` if m and n are not 0; k may be. */
static void multiply_some(Dot *d)
{
    LLVMBuilderRef b = d->g->e.b;
    LLVMValueRef none = int64_const(d->g, 0);
    LLVMValueRef some = LLVMBuildAnd(b, LLVMBuildICmp(b, LLVMIntSGT, d->m, none, ""), LLVMBuildICmp(b, LLVMIntSGT, d->n, none, ""), "");
    if (is_number(some)) {
        if (number(some)) multiply(d);
        return;
    }
    Fork f = {0};
    fork_open(d->g, &f, some);
    if (!scope_open(d->g, NULL, NULL)) return;
    multiply(d);
    scope_close(d->g);
    fork_close(d->g, &f);
}

static bool block_runs(const Gen *g, uint32_t axis)
{
    for (int d = 2; d <= g->depth; d += 2)
        if (g->scope[d].loop->axis == axis && g->scope[d].loop->part == PART_BLOCKS) return true;
    return false;
}

/* Strides along an axis, and whether its blocks run here. */
static void axis_strides(Dot *d, int which, uint32_t axis, Stride *out, LLVMValueRef *extent)
{
    Gen *g = d->g;
    const Axis *a = &g->k->axes.at[axis];
    bool runs = axis_blocked(a) && block_runs(g, axis), even = true;
    Stmt inside = {.kind = STMT_FOR, .part = PART_WITHIN, .axis = (uint16_t)axis}, outside = {.kind = STMT_FOR, .part = PART_BLOCKS, .axis = (uint16_t)axis};
    *extent = runs ? within_extent(g, axis) : size_of(g, a);
    for (int i = 0; i < 3; i++) {
        bool literal;
        int64_t bytes;
        Coef outer = d->x[i]->outer[axis];
        out[i].v = access_stride(g, d->x[i], &inside, &out[i].literal, &out[i].bytes);
        even &= outer.kind == COEF_SAME || (outer.kind == COEF_ZERO && !access_moves(g, d->x[i], &inside));
        d->outer[which][i] = access_stride(g, d->x[i], &outside, &literal, &bytes);
    }
    d->block[which] = a->block;
    d->apart[which] = axis_blocked(a) && !runs && (!even || which == 2);
}

/* The axes of the sum. */
static void sum_strides(Dot *d, uint32_t sums)
{
    for (uint32_t axis = 0; sums >> axis; axis++) {
        if (!(sums >> axis & 1)) continue;
        Stmt loop = {.kind = STMT_FOR, .part = PART_WHOLE, .axis = (uint16_t)axis};
        d->sum[d->nsums] = size_of(d->g, &d->g->k->axes.at[axis]);
        for (int i = DOT_A; i <= DOT_B; i++) {
            bool literal;
            int64_t bytes;
            d->by_sum[d->nsums][i] = access_stride(d->g, d->x[i], &loop, &literal, &bytes);
        }
        d->nsums++;
    }
}

static void multiply_blocks(Dot *d, int which);

static void multiply_block(Dot *d, LLVMValueRef i, void *context)
{
    LLVMBuilderRef b = d->g->e.b;
    int which = *(int *)context;
    Dot in = *d;
    LLVMValueRef *extents[3] = {&in.m, &in.n, &in.k}, block = size_word(d->g, d->block[which]);
    LLVMValueRef left = LLVMBuildSub(b, *extents[which], LLVMBuildMul(b, i, block, ""), "");
    *extents[which] = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSLT, left, block, ""), left, block, "");
    for (int j = 0; j < 3; j++) in.ptr[j] = byte_offset(d->g, d->ptr[j], LLVMBuildMul(b, i, d->outer[which][j], ""));
    if (which == 2) in.add = LLVMBuildOr(b, d->add, LLVMBuildICmp(b, LLVMIntNE, i, int64_const(d->g, 0), ""), "");
    multiply_blocks(&in, which + 1);
}

/* Axes from `which` on (m, n, k) run block by block where d->apart. No k at all still is one block, which sets C. */
static void multiply_blocks(Dot *d, int which)
{
    LLVMBuilderRef b = d->g->e.b;
    while (which < 3 && !d->apart[which]) which++;
    if (which == 3) {
        multiply_some(d);
        return;
    }
    LLVMValueRef extent = which == 0 ? d->m : which == 1 ? d->n : d->k, one = int64_const(d->g, 1);
    LLVMValueRef n = blocks_of(d->g, extent, size_word(d->g, d->block[which]));
    if (which == 2) n = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSLT, n, one, ""), one, n, "");
    loop_from(d, int64_const(d->g, 0), n, 1, multiply_block, &which, which < 2 ? LLVMBuildICmp(b, LLVMIntSGT, n, int64_const(d->g, 0), "") : NULL);
}

/* Whether rows of B come from beyond the first cache, each for the first time: not where k has few coordinates, of which B stays near. Of a single row and of thin
 * products the machine's own prefetching is better. */
static bool asks_ahead(const Dot *d, bool blocked)
{
    if (d->bits & DOT_FAR) return true;
    return blocked && d->bits & DOT_ROWS_FIRST && !(d->bits & DOT_THIN) && !(is_number(d->m) && number(d->m) == 1);
}

void dot_emit(Gen *g, const Stmt *s)
{
    const uint32_t access[3] = {s->a, s->b, s->c};
    Dot *d = arena_alloc(g->arena, sizeof *d);
    if (!d) return;
    d->g = g;
    d->add = LLVMConstInt(LLVMInt1TypeInContext(g->e.ctx), s->add, 0);
    for (int i = 0; i < 3; i++) d->x[i] = &g->k->accesses.at[access[i]];
    d->dt = g->k->arrays.at[d->x[DOT_C]->array].dtype;
    d->bits = s->d;
    d->tile = least(s->part, MAX_ROWS);
    axis_strides(d, 0, s->axis, d->by_m, &d->m);
    axis_strides(d, 1, s->axis_n, d->by_n, &d->n);
    axis_strides(d, 2, s->axis_k, d->by_k, &d->k);
    d->streams = asks_ahead(d, axis_blocked(&g->k->axes.at[s->axis_k]));
    sum_strides(d, s->sums);
    for (int i = 0; i < 3; i++) d->ptr[i] = access_base(g, access[i]);
    multiply_blocks(d, 0);
}
