/* The FOR tree: sequential and vector loops, tails, and the range of grid points.
 *
 * A vector FOR of few values is a loop of full vectors and a second copy of the body under a mask for the rest, of single registers where no
 * state is gathered; one of many values is made once, with the mask in every iteration, for compiling twice costs more than the mask does. */
#include <limits.h>
#include <string.h>
#include "base/cpu.h"
#include "gen/target.h"
#include "gen/val.h"

bool for_contains(const Gen *g, const Stmt *loop, StmtKind kind, uint32_t id)
{
    for (const Stmt *s = loop + 1; s < g->k->stmts.at + loop->end; s++)
        if (s->kind == kind && s->a == id) return true;
    return false;
}

/* ---- branches and loops with phis ---- */

void carried_add(Gen *g, Carried *c, LLVMValueRef *var)
{
    if (c->n == MAX_CARRIED) {
        err_set(g->e.err, ERR_LIMIT, "a loop with more than %d reductions: split the function", MAX_CARRIED);
        return;
    }
    c->var[c->n] = var;
    c->before[c->n++] = *var;
}

void carry_states(Gen *g, Carried *c, const Stmt *loop)
{
    for (uint32_t i = 0; i < g->k->states.len; i++) {
        if (!for_contains(g, loop, STMT_REDUCE, i) || for_contains(g, loop, STMT_INIT, i)) continue;
        LLVMValueRef *v = g->state[i].gathering ? g->state[i].lanes : g->state[i].v;
        int width = state_width(g, i) + (g->state[i].gathering && g->state[i].watched);
        for (int j = 0; j < width; j++) carried_add(g, c, &v[j]);
    }
}

/* At the start of `after`: a phi for each variable, its old value from the innermost scope's end, its new one from `changed`. */
static void merge(Gen *g, Carried *c, LLVMBasicBlockRef changed)
{
    for (int i = 0; i < c->n; i++) {
        if (*c->var[i] == c->before[i]) continue;
        LLVMValueRef phi = LLVMBuildPhi(g->e.b, LLVMTypeOf(c->before[i]), "");
        LLVMAddIncoming(phi, (LLVMValueRef[]){c->before[i], *c->var[i]}, (LLVMBasicBlockRef[]){g->scope[g->depth].at, changed}, 2);
        *c->var[i] = phi;
    }
}

void fork_open(Gen *g, Fork *f, LLVMValueRef cond)
{
    LLVMBasicBlockRef then = v_block(&g->e, "");
    f->after = v_block(&g->e, "");
    scope_seal(g);
    LLVMBuildCondBr(g->e.b, cond, then, f->after);
    LLVMPositionBuilderAtEnd(g->e.b, then);
}

void fork_close(Gen *g, Fork *f)
{
    LLVMBasicBlockRef last = LLVMGetInsertBlock(g->e.b);
    LLVMBuildBr(g->e.b, f->after);
    LLVMPositionBuilderAtEnd(g->e.b, f->after);
    merge(g, &f->c, last);
}

void loop_open(Gen *g, Loop *l, LLVMValueRef start, LLVMValueRef cond)
{
    LLVMBuilderRef b = g->e.b;
    l->body = v_block(&g->e, "");
    l->after = v_block(&g->e, "");
    l->start = start;
    l->maybe = cond != NULL;
    if (!l->entry) scope_seal(g);
    if (cond) LLVMBuildCondBr(b, cond, l->body, l->after);
    else LLVMBuildBr(b, l->body);
    LLVMPositionBuilderAtEnd(b, l->body);
    l->i = LLVMBuildPhi(b, g->i64, "");
    for (int i = 0; i < l->c.n; i++) *l->c.var[i] = l->phi[i] = LLVMBuildPhi(b, LLVMTypeOf(l->c.before[i]), "");
}

void loop_close(Gen *g, Loop *l, LLVMValueRef next, LLVMValueRef limit)
{
    LLVMBuilderRef b = g->e.b;
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(b), edges[2] = {l->entry ? l->entry : g->scope[g->depth].at, latch};
    LLVMValueRef on = LLVMBuildICmp(b, LLVMIntSLT, next, limit, "");
    if (l->done) on = LLVMBuildAnd(b, on, LLVMBuildNot(b, l->done, ""), "");
    LLVMBuildCondBr(b, on, l->body, l->after);
    LLVMAddIncoming(l->i, (LLVMValueRef[]){l->start, next}, edges, 2);
    for (int i = 0; i < l->c.n; i++) LLVMAddIncoming(l->phi[i], (LLVMValueRef[]){l->c.before[i], *l->c.var[i]}, edges, 2);
    LLVMPositionBuilderAtEnd(b, l->after);
    if (l->maybe) merge(g, &l->c, latch);
}

/* ---- extents ---- */

static LLVMValueRef block_of(const Gen *g, uint32_t axis)
{
    for (int d = 2; d <= g->depth; d += 2)
        if (g->scope[d].loop->axis == axis && g->scope[d].loop->part == PART_BLOCKS) return g->scope[d].var;
    return NULL;
}

static LLVMValueRef least(Gen *g, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildSelect(g->e.b, LLVMBuildICmp(g->e.b, LLVMIntSLT, a, b, ""), a, b, "");
}

LLVMValueRef size_word(Gen *g, Size s) { return s.arg >= 0 ? arg_word(g, s.arg) : int64_const(g, s.lit); }

LLVMValueRef size_of(Gen *g, const Axis *axis)
{
    LLVMValueRef size = size_word(g, axis->size);
    if (!axis->follow) return size;
    LLVMValueRef block = size_word(g, g->k->axes.at[axis->leader].block), to = LLVMBuildAdd(g->e.b, block_of(g, axis->leader), int64_const(g, 1), "");
    to = LLVMBuildMul(g->e.b, to, block, "");
    to = least(g, LLVMBuildAdd(g->e.b, to, int64_const(g, axis->lead), ""), size);
    return axis->follow == FOLLOW_TO ? to : LLVMBuildSub(g->e.b, size, to, "");
}

/* The current block's extent: all but the last are full. */
LLVMValueRef within_extent(Gen *g, uint32_t axis)
{
    const Axis *x = &g->k->axes.at[axis];
    LLVMValueRef block = size_word(g, x->block), at = block_of(g, axis);
    if (x->size.arg < 0 && x->block.arg < 0 && x->size.lit % x->block.lit == 0 && !x->follow) return block;
    LLVMValueRef left = size_of(g, x);
    if (at) left = LLVMBuildSub(g->e.b, left, LLVMBuildMul(g->e.b, at, block, ""), "");
    return least(g, left, block);
}

LLVMValueRef blocks_of(Gen *g, LLVMValueRef size, LLVMValueRef block)
{
    LLVMValueRef up = LLVMBuildSub(g->e.b, block, int64_const(g, 1), "");
    return LLVMBuildUDiv(g->e.b, LLVMBuildAdd(g->e.b, size, up, ""), block, "");
}

/* How often a FOR runs. */
static LLVMValueRef trips(Gen *g, const Stmt *s)
{
    const Axis *x = &g->k->axes.at[s->axis];
    if (s->part == PART_WITHIN) return within_extent(g, s->axis);
    if (s->part > PART_WITHIN) {
        LLVMValueRef some = within_extent(g, s->axis), full = LLVMBuildICmp(g->e.b, LLVMIntEQ, some, size_word(g, x->block), "");
        bool once = s->part == PART_FULL;
        return LLVMBuildSelect(g->e.b, full, int64_const(g, once), once ? int64_const(g, 0) : some, "");
    }
    LLVMValueRef n = size_of(g, x);
    if (s->part == PART_WHOLE) return n;
    LLVMValueRef block = size_word(g, x->block);
    Moved m = x->follow ? (Moved){0} : scope_enter(g, 0, 0);
    n = blocks_of(g, n, block);
    if (!x->follow) scope_leave(g, m);
    return n;
}

static bool is_number(LLVMValueRef v) { return LLVMIsConstant(v); }
static int64_t number(LLVMValueRef v) { return LLVMConstIntGetSExtValue(v); }

/* ---- sequential FORs ---- */

static void emit_body(Gen *g, const Stmt *s);

static void inner_body(Gen *g, const Stmt *s, LLVMValueRef var)
{
    if (!scope_open(g, s, var)) return;
    emit_body(g, s);
    scope_close(g);
}

/* The body with a known coordinate. */
static void straight_body(Gen *g, const Stmt *s, LLVMValueRef var)
{
    scope_continue(g);
    inner_body(g, s, var);
}

enum { UNROLLED = 7, UNROLLED_BODIES = 49, COPIED_FROM = 16 << 10, COPIED_MOST = 64 << 10 };

/* Whether a FOR of a known few trips holds so little that a copy for each is worth it: some reductions, or such FORs. */
static bool is_short(const Gen *g, const Stmt *loop)
{
    int64_t bodies = 1;
    const Stmt *end = g->k->stmts.at + loop->end;
    for (const Stmt *s = loop; s < end; s++) {
        if (s->kind != STMT_FOR) continue;
        Size size = g->k->axes.at[s->axis].size;
        if (size.arg >= 0 || size.lit > UNROLLED || s->lanes || s->part != PART_WHOLE) return false;
        bodies *= size.lit;
    }
    for (const Stmt *s = loop; s < end; s++) if (s->kind != STMT_FOR && s->kind != STMT_REDUCE) return false;
    return bodies * (end - loop) <= 2 * UNROLLED_BODIES;
}

static void sequential_loop(Gen *g, const Stmt *s, LLVMValueRef n)
{
    if (s->part == PART_FULL || (is_number(n) && number(n) == 1)) {
        straight_body(g, s, int64_const(g, 0));
        return;
    }
    bool few = is_number(n) && number(n) <= UNROLLED && is_short(g, s);
    if (!few && squares_loop(g, s, n, inner_body)) return;
    if (!few && sums_side_by_side(g, s, n, inner_body)) return;
    Restart sums = {.n = 0};
    sums_restart(g, &sums, s);
    if (few) {
        sums_in_pairs(g, s, 0, number(n), straight_body);
    } else {
        Spans l = {.levels = 0};
        inner_body(g, s, spans_open(g, &l, s, int64_const(g, 0), n, 1, NULL));
        spans_close(g, &l);
    }
    sums_join(g, &sums);
}

/* ---- vector FORs ---- */

/* The vector body at coordinate var, of as many lanes, `active` of them (NULL: all). */
static void vector_body(Gen *g, const Stmt *s, unsigned lanes, LLVMValueRef var, LLVMValueRef active)
{
    if (!scope_open(g, s, var)) return;
    g->vec = g->depth;
    g->lanes = lanes;
    g->active = active;
    g->e.lanes = lanes;
    g->mask = active ? lane_mask(g, active) : NULL;
    g->e.lanes = 0;
    body_values(g, s);
    emit_body(g, s);
    g->vec = 0;
    g->active = g->mask = NULL;
    scope_close(g);
}

/* From `start` on; some: whether there is anything to do (NULL: yes). */
static void masked_loop(Gen *g, const Stmt *s, unsigned step, LLVMValueRef start, LLVMValueRef n, LLVMValueRef some)
{
    LLVMBuilderRef b = g->e.b;
    LLVMValueRef lanes = int64_const(g, step);
    Spans l = {.levels = 0};
    LLVMValueRef i = spans_open(g, &l, s, start, n, step, some);
    LLVMValueRef left = LLVMBuildSub(b, n, i, ""), full = LLVMBuildICmp(b, LLVMIntSGE, left, lanes, "");
    vector_body(g, s, step, i, LLVMBuildSelect(b, full, lanes, left, ""));
    l.loop[0].done = state_decided(g, s);
    spans_close(g, &l);
}

static void full_vectors(Gen *g, const Stmt *s, LLVMValueRef start, LLVMValueRef limit)
{
    if (is_number(limit) && number(limit) == 0) return;
    if (is_number(limit) && number(limit) == s->lanes) {
        scope_continue(g);
        vector_body(g, s, s->lanes, int64_const(g, 0), NULL);
        return;
    }
    Spans l = {.levels = 0};
    LLVMValueRef some = is_number(limit) ? NULL : LLVMBuildICmp(g->e.b, LLVMIntNE, limit, start, "");
    vector_body(g, s, s->lanes, spans_open(g, &l, s, start, limit, s->lanes, some), NULL);
    l.loop[0].done = state_decided(g, s);
    spans_close(g, &l);
}

/* Lanes of the body that does the rest: those of one register, for it is compiled once more; all where the FOR gathers states, which have a value
 * per lane. */
static unsigned tail_lanes(const Gen *g, const Stmt *s)
{
    const Kernel *k = g->k;
    int widest = 1;
    for (uint32_t i = 0; i < k->states.len; i++) if (for_contains(g, s, STMT_REDUCE, i) && !for_contains(g, s, STMT_INIT, i)) return s->lanes;
    for (uint32_t i = 1; i < k->vals.len; i++) {
        const Val *v = &k->vals.at[i];
        if ((v->kind == VAL_OP || v->kind == VAL_LOAD) && dtype_info[v->dtype].bytes > widest) widest = dtype_info[v->dtype].bytes;
    }
    unsigned native = (unsigned)(cpu_level_vector_bytes(g->e.level) / widest);
    return native < 2 || native > s->lanes ? s->lanes : native;
}

/* Whether the body is a single store of what is loaded: short enough to be repeated for each register of a known rest. */
static bool is_copy(const Gen *g, const Stmt *loop)
{
    const Kernel *k = g->k;
    return loop->end == (uint32_t)(loop - k->stmts.at) + 2 && loop[1].kind == STMT_STORE && k->vals.at[loop[1].b].kind != VAL_OP;
}

/* Bytes of a full block that the FOR copies from one array to another as they lie there, if these are many; else 0. */
static int64_t copied_bytes(const Gen *g, const Stmt *s)
{
    const Kernel *k = g->k;
    Size block = k->axes.at[s->axis].block;
    if (!cpu_host()->rep_movs || k->checked || s->part != PART_WITHIN || !s->lanes || block.arg >= 0 || !is_copy(g, s) || k->vals.at[s[1].b].kind != VAL_LOAD) return 0;
    const Access *to = &k->accesses.at[s[1].a], *from = &k->accesses.at[k->vals.at[s[1].b].a];
    const Array *a = &k->arrays.at[to->array], *b = &k->arrays.at[from->array];
    if (to->array == from->array || a->kind != ARRAY_OPERAND || b->kind != ARRAY_OPERAND || a->dtype != b->dtype || dtype_info[a->dtype].kind == DKIND_BOOL) return 0;
    if (a->swapped || b->swapped || to->nindex || from->nindex) return 0;
    if (to->coef[s->axis].kind != COEF_UNIT || from->coef[s->axis].kind != COEF_UNIT) return 0;
    int64_t bytes = block.lit * dtype_info[a->dtype].bytes;
    return bytes >= COPIED_FROM && bytes <= COPIED_MOST ? bytes : 0;
}

/* Copies a full block by one instruction; the coordinates that are left then: all of another block, or none. */
static LLVMValueRef copy_block(Gen *g, const Stmt *s, int64_t bytes, LLVMValueRef n)
{
    LLVMValueRef to = access_base(g, s[1].a), from = access_base(g, g->k->vals.at[s[1].b].a);
    LLVMValueRef full = LLVMBuildICmp(g->e.b, LLVMIntEQ, n, size_word(g, g->k->axes.at[s->axis].block), "");
    LLVMTypeRef overload[3] = {g->ptr, g->ptr, g->i64};
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(g->e.mod, LLVMLookupIntrinsicID("llvm.memcpy.inline", strlen("llvm.memcpy.inline")), overload, 3);
    LLVMValueRef args[4] = {to, from, int64_const(g, bytes), LLVMConstNull(LLVMInt1TypeInContext(g->e.ctx))};
    Fork f = {0};
    fork_open(g, &f, full);
    LLVMBuildCall2(g->e.b, LLVMGlobalGetValueType(fn), fn, args, 4, "");
    fork_close(g, &f);
    return LLVMBuildSelect(g->e.b, full, int64_const(g, 0), n, "");
}

/* Whether the body of a vector FOR that keeps its lanes walks along another axis: registers that do so one by one would go through memory as often. */
static bool walks(const Gen *g, const Stmt *loop)
{
    for (const Stmt *s = loop + 1; s < g->k->stmts.at + loop->end; s++) if (s->kind == STMT_FOR && !s->lanes) return true;
    return false;
}

/* Coordinates that full vectors leave over: from ... to - 1, and head ... head + count - 1 (count NULL: none). */
typedef struct { LLVMValueRef from, to, head, count; } Rest;

static LLVMValueRef whole_steps(Gen *g, LLVMValueRef n, unsigned step)
{
    return LLVMBuildAnd(g->e.b, LLVMBuildAdd(g->e.b, n, int64_const(g, step - 1), ""), int64_const(g, -(int64_t)step), "");
}

/* Walks down the rest under a mask, some lanes at a time, in one loop: one body for the end of a row and its beginning. */
static void walk_rest(Gen *g, const Stmt *s, unsigned step, Rest r)
{
    LLVMBuilderRef b = g->e.b;
    LLVMValueRef zero = int64_const(g, 0), lanes = int64_const(g, step), tail = whole_steps(g, LLVMBuildSub(b, r.to, r.from, ""), step), all = tail;
    if (r.count) all = LLVMBuildAdd(b, tail, whole_steps(g, r.count, step), "");
    Loop l = {.start = NULL};
    loop_open(g, &l, zero, LLVMBuildICmp(b, LLVMIntSGT, all, zero, ""));
    LLVMValueRef at = LLVMBuildAdd(b, r.from, l.i, ""), to = r.to;
    if (r.count) {
        LLVMValueRef behind = LLVMBuildICmp(b, LLVMIntSLT, l.i, tail, ""), ahead = LLVMBuildSub(b, l.i, tail, "");
        at = LLVMBuildSelect(b, behind, at, LLVMBuildAdd(b, r.head, ahead, ""), "");
        to = LLVMBuildSelect(b, behind, to, LLVMBuildAdd(b, r.head, r.count, ""), "");
    }
    vector_body(g, s, step, at, least(g, LLVMBuildSub(b, to, at, ""), lanes));
    loop_close(g, &l, LLVMBuildAdd(b, l.i, lanes, ""), all);
}

enum {
    FEW_REGISTERS = 4,           /* a rest of so few at most walks register by register: their lines alone are read, and asked for */
    MANY_REGISTERS = 8,          /* a body of more is compiled again at half its width */
};

/* What full vectors leave over, where the body walks along another axis. maskable: some registers at a time. */
static void walk_rests(Gen *g, const Stmt *s, Rest r, bool maskable)
{
    unsigned one = tail_lanes(g, s), some = s->lanes > MANY_REGISTERS * one ? s->lanes / 2 : s->lanes;
    if (maskable && FEW_REGISTERS * one < s->lanes) {
        LLVMValueRef many = LLVMBuildICmp(g->e.b, LLVMIntSGT, LLVMBuildSub(g->e.b, r.to, r.from, ""), int64_const(g, FEW_REGISTERS * one), "");
        LLVMValueRef to = LLVMBuildSelect(g->e.b, many, r.to, r.from, "");
        walk_rest(g, s, some, (Rest){r.from, to, NULL, NULL});
        r.from = to;
    }
    walk_rest(g, s, one, r);
}

static void tail(Gen *g, const Stmt *s, LLVMValueRef from, LLVMValueRef n, bool maskable)
{
    unsigned lanes = tail_lanes(g, s);
    LLVMValueRef left = LLVMBuildSub(g->e.b, n, from, "");
    if (is_number(left) && !number(left)) return;
    if (lanes < s->lanes && is_number(left) && number(left) % s->lanes < 4 * lanes && is_copy(g, s)) {
        for (int64_t i = number(from), end = i + number(left); i < end; i += lanes) {
            scope_continue(g);
            vector_body(g, s, lanes, int64_const(g, i), end - i < lanes ? int64_const(g, end - i) : NULL);
        }
        return;
    }
    if (lanes < s->lanes && walks(g, s) && !is_number(left)) {
        walk_rests(g, s, (Rest){from, n, NULL, NULL}, maskable);
        return;
    }
    if (lanes < s->lanes) {
        masked_loop(g, s, lanes, from, n, is_number(left) ? NULL : LLVMBuildICmp(g->e.b, LLVMIntNE, left, int64_const(g, 0), ""));
        return;
    }
    if (is_number(left)) {
        scope_continue(g);
        vector_body(g, s, lanes, from, left);
        return;
    }
    Fork f = {0};
    carry_states(g, &f.c, s);
    fork_open(g, &f, LLVMBuildICmp(g->e.b, LLVMIntNE, left, int64_const(g, 0), ""));
    vector_body(g, s, lanes, from, left);
    fork_close(g, &f);
}

/* ---- what a vector body costs, and whether it may run under a mask throughout ---- */

typedef struct { Gen *g; const Stmt *loop; uint8_t *seen; int cost; bool maskable; } Survey;
enum { UNSEEN, FIXED, VARIES };
enum { MASKED_FROM = 40 };

static bool varies(Survey *v, uint32_t val);

static bool access_varies(Survey *v, uint32_t access, bool is_store)
{
    const Kernel *k = v->g->k;
    const Access *x = &k->accesses.at[access];
    bool moves = access_moves(v->g, x, v->loop), index = false, literal = false;
    int64_t bytes = 0, size = dtype_info[k->arrays.at[x->array].dtype].bytes;
    for (int i = 0; i < x->nindex; i++) index |= varies(v, x->index[i].val);
    if (moves) access_stride(v->g, x, v->loop, &literal, &bytes);
    bool unit = moves && !index && literal && bytes == size;
    if (unit ? !target_mask(v->g->e.level, (int)size) : is_store && (moves || index)) v->maskable = false;
    return moves || index;
}

static int op_cost(const Gen *g, const Val *v)
{
    switch (op_info[v->op].cost) {
    case COST_FREE:
    case COST_CHEAP: return 1;
    case COST_DIV: return dtype_info[v->dtype].kind == DKIND_FLOAT && v->op != OP_sqrt && v->op != OP_divide ? 12 : 2;
    case COST_MATH: return g->e.uses[v->op] > 10 ? 3 : 25;
    }
    return 1;
}

/* Whether a value differs between lanes; adds up the cost of those that do. */
static bool varies(Survey *v, uint32_t val)
{
    const Val *x = &v->g->k->vals.at[val];
    if (v->seen[val]) return v->seen[val] == VARIES;
    const uint32_t in[] = {x->a, x->b, x->c};
    bool r = false;
    switch ((ValKind)x->kind) {
    case VAL_NONE:
    case VAL_CONST:
    case VAL_WORD: break;
    case VAL_LOAD:
        r = access_varies(v, x->a, false);
        r |= x->b && varies(v, x->b);
        break;
    case VAL_AXIS: r = v->loop->axis == x->a; break;
    case VAL_STATE: r = for_contains(v->g, v->loop, STMT_INIT, x->a); break;
    case VAL_OP:
        for (int i = 0; i < op_info[x->op].nin; i++) r |= varies(v, in[i]);
        break;
    }
    if (r) v->cost += x->kind == VAL_OP ? op_cost(v->g, x) : 1;
    v->seen[val] = r ? VARIES : FIXED;
    return r;
}

/* What the body of a vector FOR does; cost 0 without memory. */
static Survey survey_body(Gen *g, const Stmt *loop)
{
    const Kernel *k = g->k;
    Survey v = {.g = g, .loop = loop, .seen = arena_alloc(g->arena, k->vals.len), .maskable = true};
    if (!v.seen) return v;
    for (const Stmt *s = loop + 1; s < k->stmts.at + loop->end; s++) {
        const uint32_t in[] = {s->b, s->c, s->d};
        if (s->kind == STMT_STORE) access_varies(&v, s->a, true);
        if (s->kind == STMT_STORE) varies(&v, s->b);
        if (s->kind == STMT_CHECK) varies(&v, s->a);
        for (int i = 0; i < 3 && s->kind == STMT_REDUCE; i++)
            if (in[i]) varies(&v, in[i]);
        v.cost++;
    }
    return v;
}

/* Whether the access is one load in the vector FOR that we are in. (Of a rest under a mask the same is said: sums are split alike in both.) */
static bool is_plain_load(Gen *g, const Access *x)
{
    bool literal;
    int64_t bytes, size = dtype_info[g->k->arrays.at[x->array].dtype].bytes;
    if (x->nindex) return false;
    if (!g->vec || !access_moves(g, x, g->scope[g->vec].loop)) return true;
    access_stride(g, x, g->scope[g->vec].loop, &literal, &bytes);
    return literal && bytes == size;
}

int body_cost(Gen *g, const Stmt *loop)
{
    enum { DEAR_LOAD = 8 };
    Survey v = survey_body(g, loop);
    if (!v.cost) return INT_MAX;
    for (uint32_t i = 0; i < g->k->vals.len; i++) {
        const Val *x = &g->k->vals.at[i];
        if (v.seen[i] == VARIES && x->kind == VAL_LOAD && !is_plain_load(g, &g->k->accesses.at[x->a])) v.cost += DEAR_LOAD;
    }
    return v.cost;
}

/* ---- blocks that begin at lines of memory ---- */

enum { LINE = 64 };

/* Coordinates start ... end - 1 of a vector FOR; of the last block also head ... head + count - 1, which come before the first line: what is at the end of a row has just
 * brought these lines of the next one into a cache. */
typedef struct { LLVMValueRef start, end, head, count; } Range;

/* Elements before the first line of what the access reads. */
static LLVMValueRef before_line(Gen *g, uint32_t access)
{
    const Access *x = &g->k->accesses.at[access];
    LLVMValueRef at = arg_word(g, g->k->arrays.at[x->array].arg), offset = x->off_arg >= 0 ? arg_word(g, x->off_arg) : NULL;
    Moved m = scope_enter(g, 0, 0);
    at = LLVMBuildAdd(g->e.b, at, int64_const(g, x->off_lit), "");
    if (offset) at = LLVMBuildAdd(g->e.b, at, offset, "");
    at = LLVMBuildAnd(g->e.b, LLVMBuildSub(g->e.b, int64_const(g, 0), at, ""), int64_const(g, LINE - 1), "");
    at = LLVMBuildUDiv(g->e.b, at, int64_const(g, dtype_info[g->k->arrays.at[x->array].dtype].bytes), "");
    scope_leave(g, m);
    return at;
}

/* The borders of the current block, each but the first and the last one moved to the next line. */
static Range range_by_lines(Gen *g, const Stmt *s)
{
    LLVMBuilderRef b = g->e.b;
    const Axis *x = &g->k->axes.at[s->axis];
    LLVMValueRef moved = before_line(g, s->a - 1), block = size_word(g, x->block), size = size_of(g, x), before = LLVMBuildMul(b, block_of(g, s->axis), block, "");
    LLVMValueRef left = LLVMBuildSub(b, size, before, ""), last = LLVMBuildICmp(b, LLVMIntSLE, left, block, "");
    LLVMValueRef count = LLVMBuildSelect(b, last, least(g, moved, size), int64_const(g, 0), "");
    LLVMValueRef end = least(g, left, LLVMBuildAdd(b, block, moved, ""));
    return (Range){least(g, moved, end), end, LLVMBuildNeg(b, before, ""), count};
}

/* The full vectors of first ... n - 1; what is left begins where it says. */
static LLVMValueRef full_part(Gen *g, const Stmt *s, LLVMValueRef first, LLVMValueRef n)
{
    LLVMValueRef full = LLVMBuildAnd(g->e.b, first ? LLVMBuildSub(g->e.b, n, first, "") : n, int64_const(g, -(int64_t)s->lanes), "");
    if (first) full = LLVMBuildAdd(g->e.b, first, full, "");
    full_vectors(g, s, first ? first : int64_const(g, 0), full);
    return full;
}

static void vector_loops(Gen *g, const Stmt *s, LLVMValueRef n)
{
    bool small = is_number(n) && (number(n) < s->lanes || number(n) % s->lanes == 0);
    Survey v = survey_body(g, s);
    if (!small && v.maskable && v.cost > MASKED_FROM && tail_lanes(g, s) * 4 > s->lanes) {
        masked_loop(g, s, s->lanes, int64_const(g, 0), n, NULL);
        return;
    }
    LLVMValueRef full = full_part(g, s, NULL, n);
    tail(g, s, full, n, v.maskable);
}

/* A vector FOR whose blocks begin at lines. There is always something to do. */
static void loops_by_lines(Gen *g, const Stmt *s, Range r)
{
    if (!scope_open(g, s, NULL)) return;
    bool maskable = survey_body(g, s).maskable;
    LLVMValueRef full = full_part(g, s, r.start, r.end);
    walk_rests(g, s, (Rest){full, r.end, r.head, r.count}, maskable);
    scope_close(g);
}

/* ---- statements ---- */

static void emit_for(Gen *g, const Stmt *s)
{
    if (s->a && block_of(g, s->axis)) {
        scope_continue(g);
        loops_by_lines(g, s, range_by_lines(g, s));
        return;
    }
    LLVMValueRef n = trips(g, s);
    int64_t bytes = copied_bytes(g, s);
    if (bytes) n = copy_block(g, s, bytes, n);
    bool sure = is_number(n);
    if (sure && number(n) <= 0) return;
    Fork f = {0};
    carry_states(g, &f.c, s);
    if (sure) scope_continue(g);
    else fork_open(g, &f, LLVMBuildICmp(g->e.b, LLVMIntSGT, n, int64_const(g, 0), ""));
    if (s->lanes > 1) states_spread(g, s);
    if (!scope_open(g, s, NULL)) return;
    if (s->lanes > 1) vector_loops(g, s, n);
    else sequential_loop(g, s, n);
    scope_close(g);
    if (s->lanes > 1) states_gather(g, s);
    if (!sure) fork_close(g, &f);
}

static void emit_check(Gen *g, const Stmt *s)
{
    LLVMBuilderRef b = g->e.b;
    LLVMValueRef status = arg_word(g, (int32_t)s->c);
    bool vector = g->vec && val_level(g, s->a).vector;
    LLVMValueRef good = val_get(g, s->a);
    g->e.lanes = vector ? g->lanes : 0;
    LLVMValueRef bad = v_not(&g->e, good);
    if (vector && g->mask) bad = v_and(&g->e, bad, g->mask);
    bad = v_any(&g->e, bad);
    g->e.lanes = 0;
    LLVMBasicBlockRef fail = v_block(&g->e, ""), on = v_block(&g->e, "");
    LLVMBuildCondBr(b, bad, fail, on);
    LLVMPositionBuilderAtEnd(b, fail);
    LLVMBuildAtomicCmpXchg(b, LLVMBuildIntToPtr(b, status, g->ptr, ""), int64_const(g, 0), int64_const(g, s->b),
                           LLVMAtomicOrderingMonotonic, LLVMAtomicOrderingMonotonic, 0);
    LLVMBuildBr(b, on);
    LLVMPositionBuilderAtEnd(b, on);
}

static void emit_stmt(Gen *g, const Stmt *s)
{
    switch ((StmtKind)s->kind) {
    case STMT_FOR: emit_for(g, s); break;
    case STMT_INIT: state_init(g, s->a); break;
    case STMT_REDUCE: state_reduce(g, s); break;
    case STMT_STORE: access_store(g, s->a, s->b); break;
    case STMT_DOT: dot_emit(g, s); break;
    case STMT_TRANSPOSE: transpose_emit(g, s); break;
    case STMT_CHECK: emit_check(g, s); break;
    }
}

static void emit_stmts(Gen *g, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end && g->e.err->kind == ERR_NONE; i = g->k->stmts.at[i].end) emit_stmt(g, &g->k->stmts.at[i]);
}

static void emit_body(Gen *g, const Stmt *s) { emit_stmts(g, (uint32_t)(s - g->k->stmts.at) + 1, s->end); }

/* ---- the grid ---- */

/* Points begin ... end - 1 along the last grid FOR, whose coordinate starts at `start`. */
static void grid_row(Gen *g, const Stmt *s, LLVMValueRef start, LLVMValueRef limit)
{
    Loop l = {0};
    loop_open(g, &l, start, NULL);
    if (!scope_open(g, s, l.i)) return;
    emit_body(g, s);
    scope_close(g);
    loop_close(g, &l, LLVMBuildAdd(g->e.b, l.i, int64_const(g, 1), ""), limit);
}

/* Coordinates of point p: the last FOR runs fastest. */
static void decompose(Gen *g, LLVMValueRef p, const LLVMValueRef *n, LLVMValueRef *c, int ngrid)
{
    for (int i = ngrid - 1; i > 0; i--) {
        c[i] = LLVMBuildURem(g->e.b, p, n[i], "");
        p = LLVMBuildUDiv(g->e.b, p, n[i], "");
    }
    c[0] = p;
}

/* The next row: a counter of mixed radix. */
static void next_row(Gen *g, const LLVMValueRef *n, LLVMValueRef *c, int ngrid)
{
    LLVMBuilderRef b = g->e.b;
    LLVMValueRef carry = int64_const(g, 1);
    c[ngrid - 1] = int64_const(g, 0);
    for (int i = ngrid - 2; i >= 0; i--) {
        LLVMValueRef up = LLVMBuildAdd(b, c[i], carry, ""), wraps = LLVMBuildICmp(b, LLVMIntEQ, up, n[i], "");
        c[i] = LLVMBuildSelect(b, wraps, int64_const(g, 0), up, "");
        carry = LLVMBuildZExt(b, wraps, g->i64, "");
    }
}

/* Rows of the last grid FOR inside a loop over all others. Their scopes share one block, which ends with the inner loop's branch. */
static void grid_rows(Gen *g, const LLVMValueRef *n, LLVMValueRef end, int ngrid)
{
    LLVMBuilderRef b = g->e.b;
    const Stmt *s = g->k->stmts.at;
    LLVMValueRef c[KERNEL_MAX_AXES * 2];
    Loop l = {0};
    decompose(g, g->begin, n, c, ngrid);
    for (int i = 0; i < ngrid; i++) carried_add(g, &l.c, &c[i]);
    loop_open(g, &l, g->begin, NULL);
    for (int i = 0; i < ngrid - 1; i++) {
        if (!scope_open(g, &s[i], c[i])) return;
        scope_seal(g);
        if (!scope_open(g, &s[i + 1], NULL)) return;
        scope_seal(g);
    }
    LLVMValueRef left = LLVMBuildSub(b, end, l.i, ""), row = LLVMBuildSub(b, n[ngrid - 1], c[ngrid - 1], "");
    LLVMValueRef run = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSLT, left, row, ""), left, row, "");
    grid_row(g, &s[ngrid - 1], c[ngrid - 1], LLVMBuildAdd(b, c[ngrid - 1], run, ""));
    for (int i = 0; i < ngrid - 1; i++) {
        scope_close(g);
        scope_close(g);
    }
    next_row(g, n, c, ngrid);
    loop_close(g, &l, LLVMBuildAdd(b, l.i, run, ""), end);
}

void loop_kernel(Gen *g)
{
    LLVMBuilderRef b = g->e.b;
    int ngrid = g->k->ngrid;
    const Stmt *s = g->k->stmts.at;
    LLVMValueRef n[KERNEL_MAX_AXES * 2], points = int64_const(g, 1), end = g->end;
    if (!scope_open(g, NULL, NULL)) return;
    for (int i = 0; i < ngrid; i++) {
        n[i] = trips(g, &s[i]);
        points = LLVMBuildMul(b, points, n[i], "");
    }
    end = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSLT, points, end, ""), points, end, "");
    Fork f = {0};
    fork_open(g, &f, LLVMBuildICmp(b, LLVMIntSLT, g->begin, end, ""));
    if (ngrid == 0) {
        emit_stmts(g, 0, g->k->stmts.len);
    } else if (scope_open(g, s, NULL)) {
        if (ngrid == 1) grid_row(g, s, g->begin, end);
        else grid_rows(g, n, end, ngrid);
        scope_close(g);
    }
    fork_close(g, &f);
    LLVMBuildRetVoid(b);
}
