/* Loops that add up floats, as accurately as pairwise summation does: in spans of iterations, whose sums are added up apart. Schedules give such a loop
 * some 64 iterations (SUM_TRIPS).
 *
 *   vector FORs       spans of eight, one after the other: the lanes are added up in halves after them, the last four more precisely (reduce.c)
 *   sequential FORs   have nothing but their iterations. The sums of up to eight spans are kept on the stack, to be added up in pairs at the end: loops
 *                     inside each other would hold more sums than there are registers. Short bodies go by two, of which the sum is made first */
#include "gen/val.h"

enum {
    SPAN = 8,
    SPANS = 8, MANY = 16,
    SHORT_BODY = 8,              /* values and statements that are worth a copy */
    STACK_BYTES = 2048 * SPANS,  /* sums of 16 vectors: loops over more have spans one after the other */
};

static bool index_reads(const Access *x, const bool *reads)
{
    for (int i = 0; i < x->nindex; i++) if (reads[x->index[i].val]) return true;
    return false;
}

/* Marks the values that a state is part of. */
static bool *find_readers(const Gen *g, uint32_t state)
{
    const Kernel *k = g->k;
    bool *reads = arena_alloc(g->arena, k->vals.len * sizeof *reads);
    for (uint32_t i = 0; reads && i < k->vals.len; i++) {
        const Val *v = &k->vals.at[i];
        const uint32_t in[] = {v->a, v->b, v->c};
        reads[i] = v->kind == VAL_STATE && v->a == state;
        for (int j = 0; v->kind == VAL_OP && j < op_info[v->op].nin; j++) reads[i] |= reads[in[j]];
        if (v->kind == VAL_LOAD) reads[i] = index_reads(&k->accesses.at[v->a], reads) || reads[v->b];
    }
    return reads;
}

/* Whether what a REDUCE takes in is a state itself: the sum of a block. */
static bool is_state(const Kernel *k, uint32_t val)
{
    const Val *v = &k->vals.at[val];
    return v->kind == VAL_STATE || (v->kind == VAL_OP && v->op == OP_cast && is_state(k, v->a));
}

/* Whether a FOR has no more iterations than a span. */
static bool is_span(const Kernel *k, const Stmt *loop)
{
    Size block = k->axes.at[loop->axis].block;
    return loop->part == PART_WITHIN && !loop->lanes && block.arg < 0 && block.lit <= SPAN;
}

bool state_in_spans(const Gen *g, uint32_t state)
{
    const Kernel *k = g->k;
    const Stmt *at = k->stmts.at;
    State m = k->states.at[state];
    if (m.monoid != MONOID_sum || (m.dtype != DT_float32 && m.dtype != DT_float64)) return false;
    const bool *reads = find_readers(g, state);
    uint32_t end = 0;                          /* of the FORs around its REDUCEs, INIT outside */
    bool longer = false;
    for (uint32_t i = 0; reads && i < k->stmts.len; i++) {
        const Stmt *s = &at[i];
        if (s->kind == STMT_REDUCE && s->a == state && is_state(k, s->b)) return false;
        if (s->kind == STMT_FOR && for_contains(g, s, STMT_REDUCE, state) && !for_contains(g, s, STMT_INIT, state)) {
            longer |= !is_span(k, s);
            end = s->end > end ? s->end : end;
        }
        if (i >= end) continue;
        if (s->kind == STMT_STORE && (reads[s->b] || index_reads(&k->accesses.at[s->a], reads))) return false;
        if (s->kind == STMT_REDUCE && (reads[s->b] || reads[s->c] || reads[s->d])) return false;
        if (s->kind == STMT_CHECK && reads[s->a]) return false;
    }
    return reads && longer;
}

/* What a sum starts from: x + -0.0 is x, which costs nothing. */
static LLVMValueRef nothing(LLVMTypeRef type)
{
    LLVMValueRef lane[KERNEL_MAX_LANES];
    if (LLVMGetTypeKind(type) != LLVMVectorTypeKind) return LLVMConstReal(type, -0.0);
    unsigned n = LLVMGetVectorSize(type);
    for (unsigned i = 0; i < n && i < KERNEL_MAX_LANES; i++) lane[i] = LLVMConstReal(LLVMGetElementType(type), -0.0);
    return LLVMConstVector(lane, n);
}

bool sum_is_nothing(LLVMValueRef sum) { return LLVMIsConstant(sum) && sum == nothing(LLVMTypeOf(sum)); }

/* The sums that the FOR runs over, which start at nothing from here on; even those that have not begun yet. */
static void restart_all(Gen *g, Restart *r, const Stmt *loop)
{
    for (uint32_t i = 0; i < g->k->states.len; i++) {
        StateCode *c = &g->state[i];
        if (!c->in_spans || !for_contains(g, loop, STMT_REDUCE, i) || for_contains(g, loop, STMT_INIT, i) || r->n == MAX_CARRIED) continue;
        LLVMValueRef *var = c->gathering ? c->lanes : c->v;
        r->var[r->n] = var;
        r->before[r->n++] = *var;
        *var = nothing(LLVMTypeOf(*var));
    }
}

void sums_restart(Gen *g, Restart *r, const Stmt *loop)
{
    int n = 0;
    restart_all(g, r, loop);
    for (int i = 0; i < r->n; i++) {
        r->var[n] = r->var[i];
        r->before[n] = r->before[i];
        if (LLVMIsConstant(r->before[i])) *r->var[i] = r->before[i];
        else n++;
    }
    r->n = n;
}

void sums_join(Gen *g, const Restart *r)
{
    for (int i = 0; i < r->n; i++) *r->var[i] = LLVMBuildFAdd(g->e.b, r->before[i], *r->var[i], "");
}

/* Whether the FOR runs over sums that are taken in spans. */
static bool runs_sums(const Gen *g, const Stmt *loop)
{
    for (uint32_t i = 0; i < g->k->states.len; i++)
        if (g->state[i].in_spans && for_contains(g, loop, STMT_REDUCE, i) && !for_contains(g, loop, STMT_INIT, i)) return true;
    return false;
}

/* Loops that the iterations are worth: one, or one over spans and one inside. */
static int count_levels(const Gen *g, const Stmt *loop, LLVMValueRef start, LLVMValueRef limit, int64_t step)
{
    if (!runs_sums(g, loop)) return 1;
    if (!LLVMIsConstant(limit) || !LLVMIsConstant(start)) return SPAN_LEVELS;
    return (LLVMConstIntGetSExtValue(limit) - LLVMConstIntGetSExtValue(start)) / step <= SPAN ? 1 : SPAN_LEVELS;
}

LLVMValueRef spans_open(Gen *g, Spans *s, const Stmt *loop, LLVMValueRef start, LLVMValueRef limit, int64_t step, LLVMValueRef cond)
{
    LLVMBuilderRef b = g->e.b;
    s->levels = count_levels(g, loop, start, limit, step);
    for (int i = 1; i < s->levels; i++) step *= SPAN;
    for (int i = 0; i < s->levels; i++, step /= SPAN) {
        Loop *l = &s->loop[i];
        if (i) l->entry = LLVMGetInsertBlock(b);
        if (i) sums_restart(g, &s->sums[i], loop);
        carry_states(g, &l->c, loop);
        loop_open(g, l, start, i ? NULL : cond);
        s->limit[i] = limit;
        s->next[i] = LLVMBuildAdd(b, l->i, int64_const(g, step), "");
        start = l->i;
        if (i + 1 < s->levels) limit = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSLT, s->next[i], limit, ""), s->next[i], limit, "");
    }
    return start;
}

void spans_close(Gen *g, Spans *s)
{
    for (int i = s->levels - 1; i >= 0; i--) {
        loop_close(g, &s->loop[i], s->next[i], s->limit[i]);
        if (i) sums_join(g, &s->sums[i]);
    }
}

void sums_in_pairs(Gen *g, const Stmt *loop, int64_t from, int64_t n, LoopBody body)
{
    Restart r = {.n = 0};
    if (n == 1) {
        body(g, loop, int64_const(g, from));
        return;
    }
    sums_in_pairs(g, loop, from, n / 2, body);
    sums_restart(g, &r, loop);
    sums_in_pairs(g, loop, from + n / 2, n - n / 2, body);
    sums_join(g, &r);
}

/* ---- sequential FORs: spans side by side ---- */

/* Of each sum a heap: what two nodes hold, 2 i and 2 i + 1, is added up in node i. The spans are the last nodes, all is node 1. */
typedef struct { Restart sums; LLVMValueRef heap[MAX_CARRIED]; } Stack;

static int64_t bytes_of(LLVMTypeRef type)
{
    bool vector = LLVMGetTypeKind(type) == LLVMVectorTypeKind;
    return (LLVMGetTypeKind(vector ? LLVMGetElementType(type) : type) == LLVMDoubleTypeKind ? 8 : 4) * (vector ? LLVMGetVectorSize(type) : 1);
}

static LLVMTypeRef sum_type(const Stack *s, int i) { return LLVMTypeOf(s->sums.before[i]); }

static int64_t stack_bytes(const Stack *s)
{
    int64_t bytes = 0;
    for (int i = 0; i < s->sums.n; i++) bytes += bytes_of(sum_type(s, i)) * 2 * SPANS;
    return bytes;
}

/* Memory of the function, aligned as its vectors are. */
static void make_heaps(Gen *g, Stack *s)
{
    LLVMBasicBlockRef here = LLVMGetInsertBlock(g->e.b);
    LLVMPositionBuilderBefore(g->e.b, LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(g->e.fn)));
    for (int i = 0; i < s->sums.n; i++) {
        s->heap[i] = LLVMBuildAlloca(g->e.b, LLVMArrayType2(sum_type(s, i), 2 * SPANS), "");
        LLVMSetAlignment(s->heap[i], 64);
    }
    LLVMPositionBuilderAtEnd(g->e.b, here);
}

static LLVMValueRef heap_at(Gen *g, const Stack *s, int i, LLVMValueRef node) { return LLVMBuildGEP2(g->e.b, sum_type(s, i), s->heap[i], &node, 1, ""); }

static unsigned alignment(const Stack *s, int i) { return bytes_of(sum_type(s, i)) < 64 ? (unsigned)bytes_of(sum_type(s, i)) : 64; }

static LLVMValueRef heap_load(Gen *g, const Stack *s, int i, LLVMValueRef node)
{
    LLVMValueRef x = LLVMBuildLoad2(g->e.b, sum_type(s, i), heap_at(g, s, i, node), "");
    LLVMSetAlignment(x, alignment(s, i));
    return x;
}

static void heap_store(Gen *g, const Stack *s, int i, LLVMValueRef node, LLVMValueRef x)
{
    LLVMSetAlignment(LLVMBuildStore(g->e.b, x, heap_at(g, s, i, node)), alignment(s, i));
}

static void store_sums(Gen *g, const Stack *s, LLVMValueRef node)
{
    for (int i = 0; i < s->sums.n; i++) heap_store(g, s, i, node, *s->sums.var[i]);
}

/* All is nothing where there are no iterations. */
static void store_nothing(Gen *g, const Stack *s, LLVMValueRef n)
{
    LLVMBasicBlockRef none = v_block(&g->e, ""), on = v_block(&g->e, "");
    LLVMBuildCondBr(g->e.b, LLVMBuildICmp(g->e.b, LLVMIntSGT, n, int64_const(g, 0), ""), on, none);
    LLVMPositionBuilderAtEnd(g->e.b, none);
    store_sums(g, s, int64_const(g, 1));
    LLVMBuildBr(g->e.b, on);
    LLVMPositionBuilderAtEnd(g->e.b, on);
}

/* Nodes count - 1 ... 1. */
static void add_heap(Gen *g, const Stack *s, LLVMValueRef count)
{
    LLVMBuilderRef b = g->e.b;
    LLVMValueRef one = int64_const(g, 1), start = LLVMBuildSub(b, count, one, "");
    LLVMBasicBlockRef from = LLVMGetInsertBlock(b), body = v_block(&g->e, ""), after = v_block(&g->e, "");
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSGT, start, int64_const(g, 0), ""), body, after);
    LLVMPositionBuilderAtEnd(b, body);
    LLVMValueRef node = LLVMBuildPhi(b, g->i64, ""), left = LLVMBuildAdd(b, node, node, ""), right = LLVMBuildAdd(b, left, one, ""), next = LLVMBuildSub(b, node, one, "");
    for (int i = 0; i < s->sums.n; i++) heap_store(g, s, i, node, LLVMBuildFAdd(b, heap_load(g, s, i, left), heap_load(g, s, i, right), ""));
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSGT, next, int64_const(g, 0), ""), body, after);
    LLVMAddIncoming(node, (LLVMValueRef[]){start, next}, (LLVMBasicBlockRef[]){from, body}, 2);
    LLVMPositionBuilderAtEnd(b, after);
}

/* Number of spans, a power of two: of two units or three, of four to seven where there are many. */
static LLVMValueRef choose_count(Gen *g, LLVMValueRef units, LLVMValueRef *log)
{
    LLVMBuilderRef b = g->e.b;
    LLVMValueRef few = LLVMBuildICmp(b, LLVMIntSLE, units, int64_const(g, MANY), ""), most = int64_const(g, SPANS);
    LLVMValueRef spans = LLVMBuildLShr(b, units, LLVMBuildSelect(b, few, int64_const(g, 1), int64_const(g, 2), ""), "");
    spans = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSLT, spans, most, ""), spans, most, "");
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(g->e.mod, LLVMLookupIntrinsicID("llvm.ctlz", 9), &g->i64, 1);
    LLVMValueRef in[] = {LLVMBuildOr(b, spans, int64_const(g, 1), ""), LLVMConstInt(LLVMInt1TypeInContext(g->e.ctx), 1, 0)};
    *log = LLVMBuildSub(b, int64_const(g, 63), LLVMBuildCall2(b, LLVMGlobalGetValueType(fn), fn, in, 2, ""), "");
    return LLVMBuildShl(b, int64_const(g, 1), *log, "");
}

/* The first iteration of a span, in units. */
static LLVMValueRef span_start(Gen *g, LLVMValueRef span, LLVMValueRef units, LLVMValueRef log)
{
    return LLVMBuildLShr(g->e.b, LLVMBuildMul(g->e.b, span, units, ""), log, "");
}

static void one_unit(Gen *g, const Stmt *loop, LLVMValueRef i, int step, LoopBody body)
{
    Restart r = {.n = 0}, second = {.n = 0};
    if (step == 1) {
        body(g, loop, i);
        return;
    }
    sums_restart(g, &r, loop);
    body(g, loop, i);
    sums_restart(g, &second, loop);
    body(g, loop, LLVMBuildAdd(g->e.b, i, int64_const(g, 1), ""));
    sums_join(g, &second);
    sums_join(g, &r);
}

/* Iterations 0 ... n - 1, `step` at a time. */
static void add_spans(Gen *g, Stack *s, const Stmt *loop, LLVMValueRef n, int step, LoopBody body)
{
    LLVMBuilderRef b = g->e.b;
    LLVMValueRef by = int64_const(g, step), one = int64_const(g, 1), zero = int64_const(g, 0), units = LLVMBuildUDiv(b, n, by, ""), log;
    LLVMValueRef count = choose_count(g, units, &log);
    Loop outer = {.start = NULL}, inner = {.start = NULL};
    if (step > 1) store_nothing(g, s, n);
    carry_states(g, &outer.c, loop);
    loop_open(g, &outer, zero, step > 1 ? LLVMBuildICmp(b, LLVMIntSGT, n, zero, "") : NULL);
    for (int i = 0; i < s->sums.n; i++) *s->sums.var[i] = nothing(sum_type(s, i));
    LLVMValueRef next = LLVMBuildAdd(b, outer.i, one, ""), to = LLVMBuildMul(b, span_start(g, next, units, log), by, "");
    LLVMValueRef from = LLVMBuildMul(b, span_start(g, outer.i, units, log), by, "");
    inner.entry = LLVMGetInsertBlock(b);
    carry_states(g, &inner.c, loop);
    loop_open(g, &inner, from, NULL);
    one_unit(g, loop, inner.i, step, body);
    loop_close(g, &inner, LLVMBuildAdd(b, inner.i, by, ""), to);
    store_sums(g, s, LLVMBuildAdd(b, outer.i, count, ""));
    for (int i = 0; i < s->sums.n; i++) *s->sums.var[i] = nothing(sum_type(s, i));
    loop_close(g, &outer, next, count);
    add_heap(g, s, count);
    for (int i = 0; i < s->sums.n; i++) *s->sums.var[i] = heap_load(g, s, i, one);
}

static bool is_short_body(Gen *g, const Stmt *loop)
{
    for (const Stmt *s = loop + 1; s < g->k->stmts.at + loop->end; s++) if (s->kind != STMT_REDUCE) return false;
    return body_cost(g, loop) <= SHORT_BODY;
}

bool sums_side_by_side(Gen *g, const Stmt *loop, LLVMValueRef n, LoopBody body)
{
    LLVMBuilderRef b = g->e.b;
    Stack s = {.sums = {.n = 0}};
    if (!runs_sums(g, loop)) return false;
    restart_all(g, &s.sums, loop);
    if (stack_bytes(&s) > STACK_BYTES) {
        for (int i = 0; i < s.sums.n; i++) *s.sums.var[i] = s.sums.before[i];
        return false;
    }
    make_heaps(g, &s);
    if (is_short_body(g, loop)) {
        LLVMValueRef even = LLVMBuildAnd(b, n, int64_const(g, -2), "");
        Restart last = {.n = 0};
        Loop l = {.start = NULL};
        add_spans(g, &s, loop, even, 2, body);
        sums_restart(g, &last, loop);
        carry_states(g, &l.c, loop);
        loop_open(g, &l, even, LLVMBuildICmp(b, LLVMIntSLT, even, n, ""));
        g->once = true;
        body(g, loop, l.i);
        g->once = false;
        loop_close(g, &l, LLVMBuildAdd(b, l.i, int64_const(g, 1), ""), n);
        sums_join(g, &last);
    } else {
        add_spans(g, &s, loop, n, 1, body);
    }
    sums_join(g, &s.sums);
    return true;
}
