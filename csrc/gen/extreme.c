/* max, min, argmax and argmin along a vector FOR: a best element per lane, then the best of the lanes.
 *
 * A lane's best waits for one instruction per element, as it is always a number. NaN, which wins, is looked for apart, two vectors in a comparison: max and
 * min note that one was met, argmax and argmin the first one's place, in a branch that is rarely taken. */
#include "gen/val.h"

static bool is_most(State m) { return m.monoid == MONOID_argmax || m.monoid == MONOID_max; }
static bool is_arg(State m) { return m.monoid == MONOID_argmax || m.monoid == MONOID_argmin; }
static bool is_float(State m) { return dtype_info[m.dtype].kind == DKIND_FLOAT; }

/* ---- what an argmax counts ---- */

/* A lane notes where it met its best in the width of the values, for an index of 64 bits would need two to eight vectors for each of values: the FOR's
 * coordinate, or in narrow ones how many vectors came before. Lanes meet their elements in order, so that only a better one replaces the best. */
static Dtype count_dtype(const Gen *g, const Stmt *loop, State m)
{
    const Axis *x = &g->k->axes.at[loop->axis];
    bool few = loop->part == PART_WITHIN && x->block.arg < 0 && x->block.lit <= 128 * loop->lanes;
    switch (dtype_info[m.dtype].bytes) {
    case 1: return few ? DT_int8 : DT_int16;
    case 2: return DT_int16;
    case 8: return DT_int64;
    default: return DT_int32;
    }
}

static bool counts_vectors(Dtype count) { return dtype_info[count].bytes < 4; }

static unsigned log2_of(unsigned x)
{
    unsigned n = 0;
    while (x >>= 1) n++;
    return n;
}

/* Whether a value grows with the coordinate of an axis: the axis itself, times a positive constant, plus what does not vary. */
static bool grows(const Gen *g, uint32_t val, uint32_t axis, bool *varies)
{
    const Val *v = &g->k->vals.at[val];
    bool a = false, b = false;
    *varies = v->kind == VAL_AXIS && v->a == axis;
    if (v->kind == VAL_AXIS || v->kind == VAL_CONST) return true;
    if (v->kind != VAL_OP || v->dtype != DT_int64 || (v->op != OP_add && v->op != OP_multiply)) return false;
    if (!grows(g, v->a, axis, &a) || !grows(g, v->b, axis, &b)) return false;
    *varies = a || b;
    const Val *times = &g->k->vals.at[v->b];
    return v->op == OP_add ? !(a && b) : !*varies || (a && times->kind == VAL_CONST && !(times->b >> 31) && (times->a | times->b));
}

/* The index value of the state's only REDUCE in the FOR if it grows along it, else 0. */
static uint32_t counted_index(const Gen *g, const Stmt *loop, uint32_t state)
{
    uint32_t index = 0;
    bool varies;
    for (const Stmt *s = loop + 1; s < g->k->stmts.at + loop->end; s++) {
        if (s->kind == STMT_FOR) return 0;
        if (s->kind != STMT_REDUCE || s->a != state) continue;
        if (index || !s->c) return 0;
        index = s->c;
    }
    return index && grows(g, index, loop->axis, &varies) && varies ? index : 0;
}

/* The value at coordinate `at` of the axis that the FOR `loop` runs, which is a scalar in its own scope. */
static LLVMValueRef index_at(Gen *g, uint32_t val, uint32_t axis, LLVMValueRef at)
{
    const Val *v = &g->k->vals.at[val];
    if (v->kind == VAL_AXIS && v->a == axis) return at;
    if (v->kind != VAL_OP) return val_get(g, val);
    LLVMValueRef a = index_at(g, v->a, axis, at), b = index_at(g, v->b, axis, at);
    return v->op == OP_add ? LLVMBuildAdd(g->e.b, a, b, "") : LLVMBuildMul(g->e.b, a, b, "");
}

/* The coordinate of what a FOR counts. */
static LLVMValueRef coordinate_of(Gen *g, const Stmt *loop, LLVMValueRef count)
{
    const Axis *x = &g->k->axes.at[loop->axis];
    if (loop->part != PART_WITHIN) return count;
    for (int d = 2; d <= g->depth; d += 2)
        if (g->scope[d].loop->axis == loop->axis && g->scope[d].loop->part == PART_BLOCKS)
            count = LLVMBuildAdd(g->e.b, count, LLVMBuildMul(g->e.b, g->scope[d].var, size_word(g, x->block), ""), "");
    return count;
}

/* ---- NaN ---- */

/* Lanes of the mask that nan_in() gives for a vector of `lanes`. */
static unsigned pair_lanes(const Gen *g, State m, unsigned lanes)
{
    unsigned native = (unsigned)(cpu_level_vector_bytes(g->e.level) / dtype_info[m.dtype].bytes);
    return lanes > native ? lanes / 2 : lanes;
}

/* The lanes of NaN in x, or in either half of it; e.lanes becomes theirs. */
static LLVMValueRef nan_in(Gen *g, State m, LLVMValueRef x)
{
    unsigned lanes = g->e.lanes, half = pair_lanes(g, m, lanes);
    g->e.lanes = half;
    if (half == lanes) return v_isnan(&g->e, x);
    return v_fcmp(&g->e, LLVMRealUNO, lanes_part(g, x, 0, half), lanes_part(g, x, half, half));
}

/* Whether max and min keep a mask of NaN as such, for masks have registers of their own, or else as integers of the values' width. */
static bool keeps_masks(const Gen *g) { return g->e.level == CPU_AVX512; }

static void note_nan(Gen *g, State m, LLVMValueRef x, LLVMValueRef *noted)
{
    LLVMValueRef nan = nan_in(g, m, x);
    *noted = v_or(&g->e, *noted, keeps_masks(g) ? nan : v_sext(&g->e, nan, v_bits_dtype(m.dtype)));
}

/* The coordinate of the first NaN of x, whose first lane is at coordinate `count`, unless one was met before. */
static LLVMValueRef first_place(Emit *e, Dtype dt, LLVMValueRef noted, LLVMValueRef x, LLVMValueRef count)
{
    (void)dt;
    unsigned outer = e->lanes;
    e->lanes = LLVMGetVectorSize(LLVMTypeOf(x));
    LLVMValueRef place = LLVMBuildAdd(e->b, count, v_first(e, v_isnan(e, x)), "");
    LLVMValueRef none = LLVMBuildICmp(e->b, LLVMIntSLT, noted, LLVMConstNull(LLVMTypeOf(noted)), "");
    e->lanes = outer;
    return LLVMBuildSelect(e->b, none, place, noted, "");
}

/* ---- around and in the FOR ---- */

void extreme_spread(Gen *g, const Stmt *loop, uint32_t state)
{
    Emit *e = &g->e;
    StateCode *c = &g->state[state];
    State m = g->k->states.at[state];
    unsigned lanes = e->lanes;
    c->counted = is_arg(m) ? counted_index(g, loop, state) : 0;
    c->watched = is_float(m) && (c->counted || m.monoid == MONOID_max || m.monoid == MONOID_min);
    if (c->counted) {
        c->lanes[1] = v_i(e, count_dtype(g, loop, m), 0);       /* a lane that met nothing better has the identity from there on */
        c->lanes[2] = int64_const(g, -1);
    } else if (c->watched) {
        e->lanes = pair_lanes(g, m, lanes);
        c->lanes[1] = v_i(e, keeps_masks(g) ? DT_bool_ : v_bits_dtype(m.dtype), 0);
        e->lanes = lanes;
    }
}

/* Whether x is better than a lane's best. The comparison's form makes the choice of the better one a single instruction. */
static LLVMValueRef beats(Emit *e, State m, LLVMValueRef x, LLVMValueRef best)
{
    bool most = is_most(m);
    if (is_float(m)) return v_fcmp(e, most ? LLVMRealOGT : LLVMRealOLT, x, best);
    return emit_less(e, m.dtype, most ? best : x, most ? x : best, NULL);
}

/* What a lane notes with its best, in all lanes. */
static LLVMValueRef count_now(Gen *g, const Stmt *loop, State m)
{
    Dtype dt = count_dtype(g, loop, m);
    LLVMValueRef count = g->scope[g->vec].var;
    if (counts_vectors(dt)) count = v_lshr(&g->e, count, (int)log2_of(loop->lanes));
    if (dt != DT_int64) count = LLVMBuildTrunc(g->e.b, count, v_scalar_type(&g->e, dt), "");
    return v_splat(&g->e, count);
}

void extreme_reduce(Gen *g, const Stmt *s)
{
    Emit *e = &g->e;
    State m = g->k->states.at[s->a];
    StateCode *c = &g->state[s->a];
    LLVMValueRef x = val_lanes(g, s->b), *best = c->lanes;
    Moved moved = scope_enter(g, g->depth, g->lanes);
    if (g->mask) x = v_select(e, g->mask, x, best[0]);
    LLVMValueRef better = beats(e, m, x, best[0]);
    best[0] = v_select(e, better, x, best[0]);
    if (c->counted) best[1] = v_select(e, better, count_now(g, g->scope[g->vec].loop, m), best[1]);
    if (c->watched && c->counted) best[2] = v_mend(e, nan_in(g, m, x), best[2], first_place, m.dtype, x, g->scope[g->vec].var);
    else if (c->watched) note_nan(g, m, x, &best[1]);
    scope_leave(g, moved);
}

/* ---- after the FOR ---- */

/* The best of the lanes of x, halving. */
static LLVMValueRef best_of(Gen *g, State m, LLVMValueRef x, unsigned lanes)
{
    for (unsigned half = lanes / 2; half; half /= 2) {
        LLVMValueRef low = lanes_part(g, x, 0, half), high = lanes_part(g, x, half, half);
        g->e.lanes = half > 1 ? half : 0;
        x = v_select(&g->e, beats(&g->e, m, high, low), high, low);
    }
    return x;
}

/* The least coordinate, in the FOR, of a lane that holds the best. */
static LLVMValueRef first_of(Gen *g, const Stmt *loop, State m, const StateCode *c, LLVMValueRef best)
{
    Emit *e = &g->e;
    LLVMValueRef numbers[KERNEL_MAX_LANES], count = c->lanes[1];
    Dtype dt = count_dtype(g, loop, m), wide = dt == DT_int64 ? DT_int64 : DT_int32;
    e->lanes = loop->lanes;
    for (unsigned i = 0; i < e->lanes; i++) numbers[i] = LLVMConstInt(v_scalar_type(e, wide), i, 0);
    if (counts_vectors(dt)) count = v_shl(e, v_zext(e, count, wide), (int)log2_of(e->lanes));
    count = v_add(e, count, LLVMConstVector(numbers, e->lanes));
    count = v_select(e, emit_equal(e, m.dtype, c->lanes[0], v_splat(e, best), NULL), count, v_i(e, wide, INT32_MAX));
    count = best_of(g, (State){.monoid = MONOID_min, .dtype = (uint8_t)wide}, count, loop->lanes);
    return wide == DT_int64 ? count : LLVMBuildZExt(e->b, count, g->i64, "");
}

void extreme_gather(Gen *g, const Stmt *loop, uint32_t state)
{
    Emit *e = &g->e;
    StateCode *c = &g->state[state];
    State m = g->k->states.at[state];
    LLVMValueRef best = best_of(g, m, c->lanes[0], loop->lanes), nan = NULL, place = NULL;
    if (c->counted) place = first_of(g, loop, m, c, best);
    if (c->watched && c->counted) nan = v_icmp(e, LLVMIntSGE, c->lanes[2], int64_const(g, 0));
    else if (c->watched) {
        e->lanes = pair_lanes(g, m, loop->lanes);
        nan = v_any(e, keeps_masks(g) ? c->lanes[1] : v_icmp(e, LLVMIntSLT, c->lanes[1], v_i(e, v_bits_dtype(m.dtype), 0)));
    }
    e->lanes = 0;
    if (nan && place) place = v_select(e, nan, c->lanes[2], place);
    c->lanes[0] = nan ? v_select(e, nan, v_f(e, m.dtype, __builtin_nan("")), best) : best;
    if (place) c->lanes[1] = index_at(g, c->counted, loop->axis, coordinate_of(g, loop, place));
}
