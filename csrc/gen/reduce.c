/* Reductions in progress: identities, combining, and the halving tree over lanes (opt/interp.c defines each monoid; extreme.c has those of one element in
 * many). */
#include "gen/val.h"

int state_width(const Gen *g, uint32_t state) { return monoid_info[g->k->states.at[state].monoid].width; }

static bool is_arg(State s) { return s.monoid == MONOID_argmax || s.monoid == MONOID_argmin; }

/* The least or greatest value of a dtype. */
static LLVMValueRef extreme_value(Emit *e, Dtype dt, bool high)
{
    int size = 8 * dtype_info[dt].bytes;
    switch (dtype_info[dt].kind) {
    case DKIND_BOOL: return v_i(e, dt, high);
    case DKIND_INT: return v_i(e, dt, high ? INT64_MAX >> (64 - size) : INT64_MIN >> (64 - size));
    case DKIND_UINT: return v_i(e, dt, high ? (int64_t)(UINT64_MAX >> (64 - size)) : 0);
    default: return v_f(e, dt, high ? __builtin_inf() : -__builtin_inf());
    }
}

static LLVMValueRef number(Emit *e, Dtype dt, int n)
{
    return dtype_info[dt].kind == DKIND_FLOAT ? v_f(e, dt, n) : v_i(e, dt, n);
}

static void identity(Emit *e, State s, LLVMValueRef out[3])
{
    for (int i = 0; i < 3; i++) out[i] = number(e, s.dtype, 0);
    switch (monoid_info[s.monoid].identity) {
    case MONOID_ID_ZERO: break;
    case MONOID_ID_MINUS_ZERO: out[0] = dtype_info[s.dtype].kind == DKIND_FLOAT ? v_f(e, s.dtype, -0.0) : out[0]; break;
    case MONOID_ID_ONE: out[0] = number(e, s.dtype, 1); break;
    case MONOID_ID_LOWEST: out[0] = extreme_value(e, s.dtype, false); break;
    case MONOID_ID_HIGHEST: out[0] = extreme_value(e, s.dtype, true); break;
    case MONOID_ID_OWN:
        if (!is_arg(s)) break;
        out[0] = extreme_value(e, s.dtype, s.monoid == MONOID_argmin);
        out[1] = v_i(e, DT_int64, INT64_MAX);
        break;
    }
}

/* ---- combining: a and b into out, which may be a ---- */

/* A sum that is not finite has no error to carry: inf - inf would make it NaN. */
static void combine_sum2(Emit *e, Dtype dt, const LLVMValueRef a[3], const LLVMValueRef b[3], LLVMValueRef out[3])
{
    LLVMValueRef s = v_fadd(e, a[0], b[0]), back = v_fsub(e, s, a[0]);
    LLVMValueRef error = v_fadd(e, v_fsub(e, a[0], v_fsub(e, s, back)), v_fsub(e, b[0], back));
    LLVMValueRef finite = v_fcmp(e, LLVMRealOLT, v_fabs(e, s), v_f(e, dt, __builtin_inf()));
    error = v_select(e, finite, error, v_f(e, dt, 0));
    LLVMValueRef low = v_fadd(e, a[1], v_fadd(e, error, b[1]));
    out[0] = s;
    out[1] = low;
}

static void combine_arg(Emit *e, State s, const LLVMValueRef a[3], const LLVMValueRef b[3], LLVMValueRef out[3])
{
    Dtype dt = s.dtype;
    bool most = s.monoid == MONOID_argmax;
    LLVMValueRef better = emit_less(e, dt, most ? a[0] : b[0], most ? b[0] : a[0], NULL), equal = emit_equal(e, dt, a[0], b[0], NULL);
    LLVMValueRef earlier = v_icmp(e, LLVMIntSLT, b[1], a[1]);
    if (dtype_info[dt].kind == DKIND_FLOAT) {
        LLVMValueRef nan_a = v_isnan(e, a[0]), nan_b = v_isnan(e, b[0]);
        better = v_or(e, better, v_and(e, nan_b, v_not(e, nan_a)));
        equal = v_or(e, equal, v_and(e, nan_a, nan_b));
    }
    LLVMValueRef take = v_or(e, better, v_and(e, equal, earlier));
    out[0] = v_select(e, take, b[0], a[0]);
    out[1] = v_select(e, take, b[1], a[1]);
}

/* Chan's merge of count, mean and sum of squared deviations; an empty side leaves the other as it is. */
static void combine_moments(Emit *e, Dtype dt, const LLVMValueRef a[3], const LLVMValueRef b[3], LLVMValueRef out[3])
{
    LLVMValueRef zero = v_f(e, dt, 0), n = v_fadd(e, a[0], b[0]), d = v_fsub(e, b[1], a[1]);
    LLVMValueRef none_a = v_fcmp(e, LLVMRealOEQ, a[0], zero), none_b = v_fcmp(e, LLVMRealOEQ, b[0], zero);
    LLVMValueRef part = v_fdiv(e, b[0], n), mean = v_fadd(e, a[1], v_fmul(e, d, part));
    LLVMValueRef dev = v_fadd(e, v_fadd(e, a[2], b[2]), v_fmul(e, v_fmul(e, d, d), v_fmul(e, a[0], part)));
    mean = v_select(e, none_a, b[1], mean);
    dev = v_select(e, none_a, b[2], dev);
    out[0] = n;
    out[1] = v_select(e, none_b, a[1], mean);
    out[2] = v_select(e, none_b, a[2], dev);
}

static void combine(Emit *e, State s, const LLVMValueRef a[3], const LLVMValueRef b[3], LLVMValueRef out[3])
{
    if (s.monoid == MONOID_sum2) combine_sum2(e, s.dtype, a, b, out);
    else if (s.monoid == MONOID_moments) combine_moments(e, s.dtype, a, b, out);
    else if (is_arg(s)) combine_arg(e, s, a, b, out);
    else out[0] = emit_op(e, monoid_info[s.monoid].combine, s.dtype, s.dtype, a[0], b[0], NULL);
}

/* ---- argmax along a sequential FOR ---- */

/* Whether the state meets its elements in the order of their indices: its only REDUCE stands, after the INIT, in sequential FORs over one axis, whose
 * coordinate is the index. */
static bool meets_in_order(const Gen *g, uint32_t state)
{
    const Stmt *at = g->k->stmts.at, *init = NULL, *reduce = NULL;
    for (const Stmt *s = at; s < at + g->k->stmts.len; s++) {
        if (s->kind == STMT_REDUCE && s->a == state && reduce) return false;
        if (s->kind == STMT_INIT && s->a == state) init = s;
        if (s->kind == STMT_REDUCE && s->a == state) reduce = s;
    }
    if (!init || !reduce || !reduce->c || g->k->vals.at[reduce->c].kind != VAL_AXIS) return false;
    for (const Stmt *s = init; s < reduce; s++)
        if (s->kind == STMT_FOR && at + s->end > reduce && (s->lanes || s->axis != g->k->vals.at[reduce->c].a)) return false;
    return true;
}

/* Whether x, a later element, takes the place of the best one so far: it is better, or the first NaN. */
static LLVMValueRef replaces(Emit *e, State m, LLVMValueRef x, LLVMValueRef best)
{
    bool most = m.monoid == MONOID_argmax;
    if (dtype_info[m.dtype].kind != DKIND_FLOAT) return emit_less(e, m.dtype, most ? best : x, most ? x : best, NULL);
    return v_and(e, v_fcmp(e, most ? LLVMRealUGT : LLVMRealULT, x, best), v_fcmp(e, LLVMRealORD, best, best));
}

/* The FOR that alone runs between a state's INIT and its REDUCE: inside a block of so few coordinates that a narrow integer counts them; else NULL. */
static const Stmt *counting_loop(const Gen *g, uint32_t state, Dtype *count)
{
    const Stmt *at = g->k->stmts.at, *loop = NULL;
    int bytes = dtype_info[g->k->states.at[state].dtype].bytes;
    int fors = 0;
    for (uint32_t i = 0; i < g->k->stmts.len; i++)
        if (at[i].kind == STMT_FOR && for_contains(g, &at[i], STMT_REDUCE, state) && !for_contains(g, &at[i], STMT_INIT, state)) loop = &at[i], fors++;
    if (fors != 1 || loop->part != PART_WITHIN || bytes > 4) return NULL;
    Size block = g->k->axes.at[loop->axis].block;
    if (block.arg >= 0 || block.lit - 1 > INT64_MAX >> (64 - 8 * bytes)) return NULL;
    *count = bytes == 1 ? DT_int8 : bytes == 2 ? DT_int16 : DT_int32;
    return loop;
}

/* What a lane notes: the coordinate in the block where it is counted there, else the index. */
static LLVMValueRef place_now(Gen *g, const Stmt *s)
{
    Dtype count;
    const Stmt *loop = counting_loop(g, s->a, &count);
    for (int d = 2; loop && d <= g->depth; d += 2)
        if (g->scope[d].loop == loop) return LLVMBuildTrunc(g->e.b, g->scope[d].var, v_scalar_type(&g->e, count), "");
    return val_get(g, s->c);
}

/* The index of what lanes have noted. */
static LLVMValueRef index_of_place(Gen *g, uint32_t state, LLVMValueRef place)
{
    Dtype count;
    const Stmt *loop = counting_loop(g, state, &count);
    if (!loop) return place;
    LLVMValueRef before = int64_const(g, 0), block = size_word(g, g->k->axes.at[loop->axis].block);
    Moved m = scope_enter(g, g->depth, g->state[state].vector ? g->lanes : 0);
    for (int d = 2; d <= g->depth; d += 2)
        if (g->scope[d].loop->axis == loop->axis && g->scope[d].loop->part == PART_BLOCKS) before = LLVMBuildMul(g->e.b, g->scope[d].var, block, "");
    LLVMValueRef index = v_add(&g->e, v_sext(&g->e, place, DT_int64), v_splat(&g->e, before));
    scope_leave(g, m);
    return index;
}

static void reduce_in_order(Gen *g, const Stmt *s, State m, StateCode *c)
{
    LLVMValueRef x = c->vector ? val_lanes(g, s->b) : val_get(g, s->b), index = place_now(g, s);
    Moved moved = scope_enter(g, g->depth, c->vector ? g->lanes : 0);
    LLVMValueRef better = replaces(&g->e, m, x, c->v[0]);
    c->v[0] = v_select(&g->e, better, x, c->v[0]);
    c->v[1] = v_select(&g->e, better, v_splat(&g->e, index), c->v[1]);
    scope_leave(g, moved);
}

/* ---- counts: sums of bools, whose masks have registers that can be counted as words ---- */

/* The bool that a REDUCE adds up as an integer, or 0. */
static uint32_t counted_bool(const Gen *g, const Stmt *s)
{
    const Val *x = &g->k->vals.at[s->b];
    return x->kind == VAL_OP && x->op == OP_cast && g->k->vals.at[x->a].dtype == DT_bool_ ? x->a : 0;
}

static bool is_count(const Gen *g, const Stmt *loop, uint32_t state)
{
    State m = g->k->states.at[state];
    DtypeKind kind = dtype_info[m.dtype].kind;
    if (g->e.level != CPU_AVX512 || m.monoid != MONOID_sum || (kind != DKIND_INT && kind != DKIND_UINT)) return false;
    for (const Stmt *s = loop + 1; s < g->k->stmts.at + loop->end; s++)
        if (s->kind == STMT_REDUCE && s->a == state && !counted_bool(g, s)) return false;
    return true;
}

static void reduce_count(Gen *g, const Stmt *s, StateCode *c)
{
    LLVMValueRef x = val_lanes(g, counted_bool(g, s));
    Moved moved = scope_enter(g, g->depth, g->lanes);
    if (g->mask) x = v_and(&g->e, x, g->mask);
    c->lanes[0] = LLVMBuildAdd(g->e.b, c->lanes[0], v_count(&g->e, x), "");
    scope_leave(g, moved);
}

/* ---- statements ---- */

/* Whether each REDUCE of the state takes in an element, so that lanes which start together count together. */
static bool takes_elements(const Gen *g, uint32_t state)
{
    for (uint32_t i = 0; i < g->k->stmts.len; i++) {
        const Stmt *s = &g->k->stmts.at[i];
        if (s->kind == STMT_REDUCE && s->a == state && s->c) return false;
    }
    return true;
}

void state_init(Gen *g, uint32_t state)
{
    StateCode *c = &g->state[state];
    unsigned outer = g->e.lanes;
    g->e.lanes = g->vec ? g->lanes : 0;
    identity(&g->e, g->k->states.at[state], c->v);
    c->in_order = is_arg(g->k->states.at[state]) && meets_in_order(g, state);
    Dtype place = DT_int64;
    if (c->in_order) counting_loop(g, state, &place), c->v[1] = v_i(&g->e, place, 0);       /* what meets nothing better has the identity from the first element on */
    g->e.lanes = outer;
    c->vector = g->vec != 0;
    c->gathering = false;
    c->in_spans = state_in_spans(g, state);
    c->same_count = g->k->states.at[state].monoid == MONOID_moments && takes_elements(g, state);
    if (c->same_count) {
        g->e.lanes = 0;
        c->v[0] = v_f(&g->e, g->k->states.at[state].dtype, 0);
        g->e.lanes = outer;
    }
}

LLVMValueRef state_read(Gen *g, uint32_t state, uint32_t component)
{
    const StateCode *c = &g->state[state];
    if (component == 1 && c->in_order) return index_of_place(g, state, c->v[1]);
    if (component || !c->same_count || !c->vector) return c->v[component];
    Moved m = scope_enter(g, g->depth, g->lanes);
    LLVMValueRef count = v_splat(&g->e, c->v[0]);
    scope_leave(g, m);
    return count;
}

/* Welford's step: the count is a scalar and its reciprocal is shared by all lanes. */
static void reduce_moments(Gen *g, const Stmt *s, State m, StateCode *c)
{
    Emit *e = &g->e;
    LLVMValueRef x = c->vector ? val_lanes(g, s->b) : val_get(g, s->b);
    Moved moved = scope_enter(g, g->depth, 0);
    LLVMValueRef one = v_f(e, m.dtype, 1);
    c->v[0] = v_fadd(e, c->v[0], one);
    LLVMValueRef part = v_fdiv(e, one, c->v[0]);
    e->lanes = c->vector ? g->lanes : 0;
    LLVMValueRef d = v_fsub(e, x, c->v[1]);
    c->v[1] = v_madd(e, d, v_splat(e, part), c->v[1]);
    c->v[2] = v_madd(e, d, v_fsub(e, x, c->v[1]), c->v[2]);
    scope_leave(g, moved);
}

void state_reduce(Gen *g, const Stmt *s)
{
    State m = g->k->states.at[s->a];
    StateCode *c = &g->state[s->a];
    const uint32_t in[] = {s->b, s->c, s->d};
    bool lanes = c->gathering || c->vector;
    if (c->gathering && (c->counted || c->watched)) {
        extreme_reduce(g, s);
        return;
    }
    if (c->gathering && c->tallied) {
        reduce_count(g, s, c);
        return;
    }
    if (c->in_order && !c->gathering) {
        reduce_in_order(g, s, m, c);
        return;
    }
    if (c->same_count && !c->gathering) {
        reduce_moments(g, s, m, c);
        return;
    }
    LLVMValueRef x[3], r[3], *to = c->gathering ? c->lanes : c->v;
    Moved moved = scope_enter(g, g->depth, lanes ? g->lanes : 0);
    identity(&g->e, m, x);
    for (int i = 0; i < 3; i++)
        if (in[i]) x[i] = lanes ? val_lanes(g, in[i]) : val_get(g, in[i]);
    if (m.monoid == MONOID_moments && !s->c) {
        x[1] = x[0];
        x[0] = v_f(&g->e, m.dtype, 1);
        x[2] = v_fsub(&g->e, x[1], x[1]);               /* an infinity deviates by NaN */
    }
    for (int i = 0; i < 3; i++) r[i] = to[i];
    if (c->in_spans && sum_is_nothing(to[0])) r[0] = x[0];
    else combine(&g->e, m, to, x, r);
    for (int i = 0; i < state_width(g, s->a); i++)
        to[i] = c->gathering && g->mask ? v_select(&g->e, g->mask, r[i], to[i]) : r[i];
    scope_leave(g, moved);
}

/* Lanes of a bool state that no later element changes: true in an any or an argmax, false in an all or an argmin. */
static LLVMValueRef final_lanes(Gen *g, State m, LLVMValueRef lanes)
{
    return m.monoid == MONOID_any || m.monoid == MONOID_argmax ? lanes : v_not(&g->e, lanes);
}

LLVMValueRef state_decided(Gen *g, const Stmt *loop)
{
    const Stmt *s = loop + 1;
    if (loop->end != (uint32_t)(s - g->k->stmts.at) + 1 || s->kind != STMT_REDUCE) return NULL;
    State m = g->k->states.at[s->a];
    const StateCode *c = &g->state[s->a];
    bool logic = m.monoid == MONOID_any || m.monoid == MONOID_all, place = is_arg(m) && c->counted;
    if (m.dtype != DT_bool_ || !c->gathering || !(logic || place)) return NULL;
    unsigned outer = g->e.lanes;
    g->e.lanes = loop->lanes;
    LLVMValueRef decided = v_any(&g->e, final_lanes(g, m, c->lanes[0]));
    g->e.lanes = outer;
    return decided;
}

/* ---- around a vector FOR ---- */

static bool is_spread(const Gen *g, const Stmt *loop, uint32_t state)
{
    return for_contains(g, loop, STMT_REDUCE, state) && !for_contains(g, loop, STMT_INIT, state);
}

void states_spread(Gen *g, const Stmt *loop)
{
    for (uint32_t i = 0; i < g->k->states.len; i++) {
        if (!is_spread(g, loop, i)) continue;
        unsigned outer = g->e.lanes;
        g->e.lanes = loop->lanes;
        StateCode *c = &g->state[i];
        State m = g->k->states.at[i];
        identity(&g->e, m, c->lanes);
        extreme_spread(g, loop, i);
        c->tallied = is_count(g, loop, i);
        if (c->tallied) c->lanes[0] = int64_const(g, 0);
        g->e.lanes = outer;
        c->gathering = true;
    }
}

LLVMValueRef lanes_part(Gen *g, LLVMValueRef x, unsigned from, unsigned n)
{
    LLVMValueRef take[256];
    if (n == 1) return LLVMBuildExtractElement(g->e.b, x, LLVMConstInt(g->i32, from, 0), "");
    for (unsigned i = 0; i < n && i < 256; i++) take[i] = LLVMConstInt(g->i32, from + i, 0);
    return LLVMBuildShuffleVector(g->e.b, x, x, LLVMConstVector(take, n), "");
}

/* The last additions of a sum round most. Those of the last four lanes are made in float64 for float32, and with their rounding errors for float64 if rows are long,
 * which the schedule tells by the registers side by side. */
enum { LAST_LANES = 4, LONG_ROW = 4 };

static bool ends_wide(const Gen *g, const Stmt *loop, uint32_t state)
{
    return g->state[state].in_spans && g->k->states.at[state].dtype == DT_float32 && loop->lanes >= LAST_LANES;
}

static bool ends_exactly(const Gen *g, const Stmt *loop, uint32_t state)
{
    int64_t bytes = loop->lanes * (int64_t)dtype_info[DT_float64].bytes;
    return g->state[state].in_spans && g->k->states.at[state].dtype == DT_float64 && bytes >= LONG_ROW * (int64_t)cpu_level_vector_bytes(g->e.level) && loop->lanes >= LAST_LANES;
}

/* a + b, and what was rounded away (Knuth). */
static LLVMValueRef two_sum(Emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef *error)
{
    LLVMValueRef s = v_fadd(e, a, b), back = v_fsub(e, s, a);
    *error = v_fadd(e, v_fsub(e, a, v_fsub(e, s, back)), v_fsub(e, b, back));
    return s;
}

/* The sum of four lanes, rounded once; what is not finite has no error. */
static LLVMValueRef add_exactly(Gen *g, LLVMValueRef x)
{
    Emit *e = &g->e;
    LLVMValueRef low, last;
    e->lanes = LAST_LANES / 2;
    x = two_sum(e, lanes_part(g, x, 0, 2), lanes_part(g, x, 2, 2), &low);
    e->lanes = 0;
    x = two_sum(e, lanes_part(g, x, 0, 1), lanes_part(g, x, 1, 1), &last);
    LLVMValueRef sum = v_fadd(e, x, v_fadd(e, v_fadd(e, lanes_part(g, low, 0, 1), lanes_part(g, low, 1, 1)), last));
    return v_select(e, v_fcmp(e, LLVMRealORD, sum, sum), sum, x);
}

static void gather_lanes(Gen *g, const Stmt *loop, uint32_t state)
{
    StateCode *c = &g->state[state];
    State m = g->k->states.at[state];
    LLVMValueRef high[3];
    bool wide = ends_wide(g, loop, state), exact = ends_exactly(g, loop, state);
    for (unsigned half = loop->lanes / 2; half; half /= 2) {
        if (half == LAST_LANES / 2 && exact) {
            c->lanes[0] = add_exactly(g, c->lanes[0]);
            return;
        }
        if (half == LAST_LANES / 2 && wide) {
            g->e.lanes = LAST_LANES;
            m.dtype = DT_float64;
            c->lanes[0] = LLVMBuildFPExt(g->e.b, c->lanes[0], v_type(&g->e, DT_float64), "");
        }
        for (int i = 0; i < state_width(g, state); i++) {
            high[i] = lanes_part(g, c->lanes[i], half, half);
            c->lanes[i] = lanes_part(g, c->lanes[i], 0, half);
        }
        g->e.lanes = half > 1 ? half : 0;
        combine(&g->e, m, c->lanes, high, c->lanes);
    }
    if (wide) c->lanes[0] = LLVMBuildFPTrunc(g->e.b, c->lanes[0], v_scalar_type(&g->e, DT_float32), "");
}

static void gather_state(Gen *g, const Stmt *loop, uint32_t state)
{
    StateCode *c = &g->state[state];
    unsigned outer = g->e.lanes;
    LLVMValueRef r[3];
    if (c->counted || c->watched) extreme_gather(g, loop, state);
    else if (c->tallied) c->lanes[0] = LLVMBuildIntCast2(g->e.b, c->lanes[0], v_scalar_type(&g->e, g->k->states.at[state].dtype), 0, "");
    else gather_lanes(g, loop, state);
    g->e.lanes = 0;
    combine(&g->e, g->k->states.at[state], c->v, c->lanes, r);
    for (int i = 0; i < state_width(g, state); i++) c->v[i] = r[i];
    g->e.lanes = outer;
    c->gathering = false;
}

void states_gather(Gen *g, const Stmt *loop)
{
    for (uint32_t i = 0; i < g->k->states.len; i++)
        if (is_spread(g, loop, i)) gather_state(g, loop, i);
}
