/* TRANSPOSE: a tile of an operand, copied to scratch or to another array with its two axes exchanged, so that vectors run along either. Squares of as many
 * rows as a vector has lanes are transposed in registers: each row is one load, log2(lanes) rounds of shuffles exchange one bit of the row's
 * number with that of the lane's, each column is one store. The last squares overlap the ones before; a tile smaller than a square
 * goes element by element. */
#include "gen/val.h"

enum {
    MAX_SQUARE = 16,
    SQUARES_AHEAD = 2,                         /* of a source that streams */
};

typedef struct {
    Gen *g;
    Dtype dt;                                  /* the unsigned integer of an element's size */
    const Access *from, *to;
    LLVMValueRef src, dst, by_n, by_m;         /* bytes between rows: of the source along n, of the tile along m */
    LLVMValueRef m, n;                         /* extents */
    LLVMValueRef ahead;                        /* bytes from a row to the one that is asked for */
    int lanes;
} Turn;

static Dtype word_of(Dtype dt)
{
    static const Dtype word[] = {[1] = DT_uint8, [2] = DT_uint16, [4] = DT_uint32, [8] = DT_uint64};
    return word[dtype_info[dt].bytes];
}

static LLVMValueRef bytes_of(const Turn *t, int64_t elements) { return int64_const(t->g, elements * dtype_info[t->dt].bytes); }

/* Where element m, n of the source lies, and of the tile. */
static LLVMValueRef at_source(const Turn *t, LLVMValueRef m, LLVMValueRef n)
{
    LLVMBuilderRef b = t->g->e.b;
    return byte_offset(t->g, byte_offset(t->g, t->src, LLVMBuildMul(b, n, t->by_n, "")), LLVMBuildMul(b, m, bytes_of(t, 1), ""));
}

static LLVMValueRef at_tile(const Turn *t, LLVMValueRef m, LLVMValueRef n)
{
    LLVMBuilderRef b = t->g->e.b;
    return byte_offset(t->g, byte_offset(t->g, t->dst, LLVMBuildMul(b, m, t->by_m, "")), LLVMBuildMul(b, n, bytes_of(t, 1), ""));
}

/* Rows r and r + bit: lanes with that bit of the first change places with lanes without it of the second. */
static void exchange(Gen *g, LLVMValueRef *row, int lanes, int r, int bit)
{
    LLVMValueRef low[MAX_SQUARE], high[MAX_SQUARE], a = row[r], c = row[r + bit];
    for (int k = 0; k < lanes; k++) {
        low[k] = LLVMConstInt(g->i32, (uint64_t)(k & bit ? lanes + k - bit : k), 0);
        high[k] = LLVMConstInt(g->i32, (uint64_t)(k & bit ? lanes + k : k + bit), 0);
    }
    row[r] = LLVMBuildShuffleVector(g->e.b, a, c, LLVMConstVector(low, (unsigned)lanes), "");
    row[r + bit] = LLVMBuildShuffleVector(g->e.b, a, c, LLVMConstVector(high, (unsigned)lanes), "");
}

void square_turn(Gen *g, LLVMValueRef *row, int lanes)
{
    for (int bit = 1; bit < lanes; bit *= 2)
        for (int r = 0; r < lanes; r++) if (!(r & bit)) exchange(g, row, lanes, r, bit);
}

static void square(const Turn *t, LLVMValueRef m, LLVMValueRef n)
{
    Gen *g = t->g;
    LLVMValueRef row[MAX_SQUARE], at = at_source(t, m, n);
    g->e.lanes = (unsigned)t->lanes;
    for (int r = 0; r < t->lanes; r++, at = byte_offset(g, at, t->by_n)) {
        bounds_check(g, t->from->array, at, bytes_of(t, t->lanes));
        if (t->from->streams) memory_prefetch(g, byte_offset(g, at, t->ahead), false);
        row[r] = memory_load(g, t->dt, at);
    }
    square_turn(g, row, t->lanes);
    at = at_tile(t, m, n);
    for (int r = 0; r < t->lanes; r++, at = byte_offset(g, at, t->by_m)) {
        bounds_check(g, t->to->array, at, bytes_of(t, t->lanes));
        memory_store(g, t->dt, at, row[r]);
    }
    g->e.lanes = 0;
}

static void element(const Turn *t, LLVMValueRef m, LLVMValueRef n)
{
    LLVMValueRef at = at_source(t, m, n), to = at_tile(t, m, n);
    bounds_check(t->g, t->from->array, at, bytes_of(t, 1));
    bounds_check(t->g, t->to->array, to, bytes_of(t, 1));
    memory_store(t->g, t->dt, to, memory_load(t->g, t->dt, at));
}

/* i, or where the last whole square begins. */
static LLVMValueRef clamp(const Turn *t, LLVMValueRef i, LLVMValueRef extent, int64_t step)
{
    LLVMBuilderRef b = t->g->e.b;
    LLVMValueRef last = LLVMBuildSub(b, extent, int64_const(t->g, step), "");
    return LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSLT, i, last, ""), i, last, "");
}

/* All of the tile in steps of `step`, if cond holds. */
static void tile(const Turn *t, int64_t step, void (*body)(const Turn *t, LLVMValueRef m, LLVMValueRef n), LLVMValueRef cond)
{
    Gen *g = t->g;
    Fork f = {0};
    Loop rows = {0}, columns = {0};
    fork_open(g, &f, cond);
    if (!scope_open(g, NULL, NULL)) return;
    loop_open(g, &rows, int64_const(g, 0), NULL);
    if (!scope_open(g, NULL, NULL)) return;
    LLVMValueRef n = clamp(t, rows.i, t->n, step);
    loop_open(g, &columns, int64_const(g, 0), NULL);
    if (!scope_open(g, NULL, NULL)) return;
    body(t, clamp(t, columns.i, t->m, step), n);
    scope_close(g);
    loop_close(g, &columns, LLVMBuildAdd(g->e.b, columns.i, int64_const(g, step), ""), t->m);
    scope_close(g);
    loop_close(g, &rows, LLVMBuildAdd(g->e.b, rows.i, int64_const(g, step), ""), t->n);
    scope_close(g);
    fork_close(g, &f);
}

static LLVMValueRef stride_along(Gen *g, const Access *x, uint16_t axis)
{
    const Stmt inside = {.kind = STMT_FOR, .part = PART_WITHIN, .axis = axis};
    bool literal;
    int64_t bytes;
    return access_stride(g, x, &inside, &literal, &bytes);
}

static LLVMValueRef extent_of(Gen *g, uint16_t axis) { return axis_blocked(&g->k->axes.at[axis]) ? within_extent(g, axis) : size_of(g, &g->k->axes.at[axis]); }

void transpose_emit(Gen *g, const Stmt *s)
{
    LLVMBuilderRef b = g->e.b;
    Turn t = {.g = g, .from = &g->k->accesses.at[s->b], .to = &g->k->accesses.at[s->a], .lanes = s->lanes};
    t.dt = word_of(g->k->arrays.at[t.from->array].dtype);
    t.by_n = stride_along(g, t.from, s->axis_n);
    t.by_m = stride_along(g, t.to, s->axis);
    t.m = extent_of(g, s->axis);
    t.n = extent_of(g, s->axis_n);
    t.src = access_base(g, s->b);
    t.dst = access_base(g, s->a);
    t.ahead = LLVMBuildMul(b, t.by_n, int64_const(g, SQUARES_AHEAD * t.lanes), "");
    LLVMValueRef lanes = int64_const(g, t.lanes), large = LLVMBuildAnd(b, LLVMBuildICmp(b, LLVMIntSGE, t.m, lanes, ""), LLVMBuildICmp(b, LLVMIntSGE, t.n, lanes, ""), "");
    tile(&t, t.lanes, square, large);
    tile(&t, 1, element, LLVMBuildNot(b, large, ""));
}
