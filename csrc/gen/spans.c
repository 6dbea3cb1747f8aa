/* Loops that add up floats: in spans of eight iterations, whose sums are added up apart. Schedules give such a loop some 64 iterations (SUM_TRIPS),
 * so that no chain of additions is longer than eight or so, and a sum is as accurate as pairwise summation. It costs one more addition per span; shorter
 * spans cost sums by columns 20 % where they are in the second cache (of eight: 5 %). */
#include "gen/val.h"

enum { SPAN = 8 };

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
        if (v->kind == VAL_LOAD) reads[i] = index_reads(&k->accesses.at[v->a], reads);
    }
    return reads;
}

/* Whether what a REDUCE takes in is a state itself: the sum of a block. */
static bool is_state(const Kernel *k, uint32_t val)
{
    const Val *v = &k->vals.at[val];
    return v->kind == VAL_STATE || (v->kind == VAL_OP && v->op == OP_cast && is_state(k, v->a));
}

bool state_in_spans(const Gen *g, uint32_t state)
{
    const Kernel *k = g->k;
    const Stmt *at = k->stmts.at;
    State m = k->states.at[state];
    if (m.monoid != MONOID_sum || (m.dtype != DT_float32 && m.dtype != DT_float64)) return false;
    const bool *reads = find_readers(g, state);
    uint32_t end = 0;                          /* of the FORs around its REDUCEs, INIT outside */
    for (uint32_t i = 0; reads && i < k->stmts.len; i++) {
        const Stmt *s = &at[i];
        if (s->kind == STMT_REDUCE && s->a == state && is_state(k, s->b)) return false;
        if (s->kind == STMT_FOR && for_contains(g, s, STMT_REDUCE, state) && !for_contains(g, s, STMT_INIT, state) && s->end > end) end = s->end;
        if (i >= end) continue;
        if (s->kind == STMT_STORE && (reads[s->b] || index_reads(&k->accesses.at[s->a], reads))) return false;
        if (s->kind == STMT_REDUCE && (reads[s->b] || reads[s->c] || reads[s->d])) return false;
        if (s->kind == STMT_CHECK && reads[s->a]) return false;
    }
    return reads != NULL;
}

void sums_restart(Gen *g, Restart *r, const Stmt *loop)
{
    for (uint32_t i = 0; i < g->k->states.len; i++) {
        StateCode *c = &g->state[i];
        if (!c->in_spans || !for_contains(g, loop, STMT_REDUCE, i) || for_contains(g, loop, STMT_INIT, i) || r->n == MAX_CARRIED) continue;
        LLVMValueRef *var = c->gathering ? c->lanes : c->v;
        if (LLVMIsNull(*var)) continue;
        r->var[r->n] = var;
        r->before[r->n++] = *var;
        *var = LLVMConstNull(LLVMTypeOf(*var));
    }
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
