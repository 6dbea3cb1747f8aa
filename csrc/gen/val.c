#include "gen/val.h"
#include "gen/divisor.h"

LLVMValueRef int64_const(const Gen *g, int64_t x) { return LLVMConstInt(g->i64, (uint64_t)x, 1); }

/* ---- scopes ---- */

static bool scope_memory(Gen *g, Scope *s)
{
    const Kernel *k = g->k;
    if (s->val) return true;
    s->val = arena_alloc(g->arena, k->vals.len * sizeof *s->val);
    s->splat = arena_alloc(g->arena, k->vals.len * sizeof *s->splat);
    s->level = arena_alloc(g->arena, k->vals.len * sizeof *s->level);
    s->ptr = arena_alloc(g->arena, (k->accesses.len + 1) * sizeof *s->ptr);
    s->records = arena_alloc(g->arena, (k->accesses.len + 1) * sizeof *s->records);
    s->changed = arena_alloc(g->arena, k->arrays.len + k->states.len + 1);
    return s->val && s->splat && s->level && s->ptr && s->records && s->changed;
}

static void find_changes(const Gen *g, Scope *s)
{
    const Kernel *k = g->k;
    for (uint32_t i = 0; i < k->arrays.len + k->states.len; i++) s->changed[i] = 0;
    for (const Stmt *at = s->loop + 1; at < k->stmts.at + s->loop->end; at++) {
        if (at->kind == STMT_STORE || at->kind == STMT_DOT || at->kind == STMT_TRANSPOSE) s->changed[k->accesses.at[at->a].array] = 1;
        if (at->kind == STMT_INIT || at->kind == STMT_REDUCE) s->changed[k->arrays.len + at->a] = 1;
    }
}

void scope_seal(Gen *g) { g->scope[g->depth].at = LLVMGetInsertBlock(g->e.b); }

void scope_continue(Gen *g)
{
    LLVMBasicBlockRef next = v_block(&g->e, "");
    scope_seal(g);
    LLVMBuildBr(g->e.b, next);
    LLVMPositionBuilderAtEnd(g->e.b, next);
}

bool scope_open(Gen *g, const Stmt *loop, LLVMValueRef var)
{
    if (g->e.err->kind != ERR_NONE) return false;
    if (g->depth + 1 >= MAX_SCOPES) return err_set(g->e.err, ERR_INTERNAL, "FORs nested %d deep", g->depth / 2);
    Scope *s = &g->scope[++g->depth];
    s->loop = loop;
    s->var = var;
    s->at = LLVMGetInsertBlock(g->e.b);
    s->stamp = ++g->stamp;
    if (!scope_memory(g, s)) {
        g->depth--;
        return false;
    }
    if (var) find_changes(g, s);
    return true;
}

void scope_close(Gen *g) { g->depth--; }

Moved scope_enter(Gen *g, int depth, unsigned lanes)
{
    Moved m = {LLVMGetInsertBlock(g->e.b), NULL, depth, g->e.lanes};
    g->e.lanes = lanes;
    if (depth == g->depth) return m;
    m.branch = LLVMGetBasicBlockTerminator(g->scope[depth].at);
    if (m.branch) LLVMInstructionRemoveFromParent(m.branch);
    LLVMPositionBuilderAtEnd(g->e.b, g->scope[depth].at);
    return m;
}

void scope_leave(Gen *g, Moved m)
{
    g->e.lanes = m.lanes;
    if (m.depth == g->depth) return;
    LLVMBasicBlockRef last = LLVMGetInsertBlock(g->e.b);
    if (m.branch) LLVMInsertIntoBuilder(g->e.b, m.branch);
    /* Scopes may share a block: outer grid FORs do. */
    LLVMBasicBlockRef was = g->scope[m.depth].at;
    for (int d = 0; d < g->depth; d++)
        if (g->scope[d].at == was) g->scope[d].at = last;
    LLVMPositionBuilderAtEnd(g->e.b, m.home == was ? last : m.home);
}

/* ---- where a value belongs ---- */

static int max(int a, int b) { return a > b ? a : b; }

/* Takes in that the value needs what another one needs. */
static void level_join(Level *l, Level other)
{
    l->need = (uint8_t)max(l->need, other.need);
    l->dep = (uint8_t)max(l->dep, other.dep);
    l->vector |= other.vector;
    l->reads |= other.reads;
}

static void level_body(const Gen *g, Level *l, int depth)
{
    l->need = (uint8_t)max(l->need, depth);
    l->vector |= g->vec && depth == g->vec;
}

/* The value reads what `changed` counts as number `what`. */
static void level_reads(const Gen *g, Level *l, uint32_t what)
{
    l->reads = true;
    for (int d = g->depth & ~1; d > 0; d -= 2)
        if (g->scope[d].changed[what]) {
            l->dep = (uint8_t)max(l->dep, d);
            return;
        }
}

static void level_load(Gen *g, Level *l, uint32_t access)
{
    const Access *x = &g->k->accesses.at[access];
    for (int d = 2; d <= g->depth; d += 2)
        if (access_moves(g, x, g->scope[d].loop)) level_body(g, l, d);
    for (int i = 0; i < x->nindex; i++) level_join(l, val_level(g, x->index[i].val));
    level_reads(g, l, x->array);
}

Level val_level(Gen *g, uint32_t val)
{
    Scope *s = &g->scope[g->depth];
    if (s->level[val].stamp == s->stamp) return s->level[val];
    const Val *v = &g->k->vals.at[val];
    Level l = {.stamp = s->stamp};
    switch ((ValKind)v->kind) {
    case VAL_NONE:
    case VAL_CONST:
    case VAL_WORD: break;
    case VAL_LOAD:
        level_load(g, &l, v->a);
        if (v->b) level_join(&l, val_level(g, v->b));
        break;
    case VAL_AXIS:
        for (int d = 2; d <= g->depth; d += 2)
            if (g->scope[d].loop->axis == v->a) level_body(g, &l, d);
        break;
    case VAL_STATE:
        level_reads(g, &l, g->k->arrays.len + v->a);
        l.vector = g->state[v->a].vector;
        if (l.vector) l.need = (uint8_t)max(l.need, g->vec);
        break;
    case VAL_OP: {
        const uint32_t in[] = {v->a, v->b, v->c};
        for (int i = 0; i < op_info[v->op].nin; i++) level_join(&l, val_level(g, in[i]));
        break;
    }
    }
    l.dep = (uint8_t)max(l.dep, l.need);
    return s->level[val] = l;
}

static LLVMValueRef get(Gen *g, uint32_t val, int *depth);
static int place_of(const Gen *g, Level l) { return l.reads && l.dep < g->depth ? l.dep + 1 : l.dep; }

/* ---- making values ---- */

LLVMValueRef arg_word(Gen *g, int32_t arg)
{
    if (g->arg[arg]) return g->arg[arg];
    Moved m = scope_enter(g, 0, 0);
    LLVMValueRef index = int64_const(g, arg), at = LLVMBuildGEP2(g->e.b, g->i64, g->args, &index, 1, "");
    g->arg[arg] = LLVMBuildLoad2(g->e.b, g->i64, at, "");
    scope_leave(g, m);
    return g->arg[arg];
}

static LLVMValueRef constant(Gen *g, const Val *v, unsigned lanes)
{
    unsigned outer = g->e.lanes;
    int64_t bits = (int64_t)((uint64_t)v->b << 32 | v->a);
    g->e.lanes = lanes;
    LLVMValueRef r = dtype_info[v->dtype].kind == DKIND_FLOAT ? v_fbits(&g->e, v->dtype, (uint64_t)bits)
                   : v_i(&g->e, v->dtype, dtype_info[v->dtype].kind == DKIND_BOOL ? (bits & 255) != 0 : bits);
    g->e.lanes = outer;
    return r;
}

/* The number whose bits a word of args holds. */
static LLVMValueRef number_word(Gen *g, const Val *v)
{
    LLVMValueRef word = arg_word(g, (int32_t)v->a);
    Moved m = scope_enter(g, 0, 0);
    LLVMValueRef bits = v->dtype == DT_float32 ? LLVMBuildTrunc(g->e.b, word, g->i32, "") : word;
    LLVMValueRef r = v->dtype == DT_int64 ? word : LLVMBuildBitCast(g->e.b, bits, v_scalar_type(&g->e, v->dtype), "");
    scope_leave(g, m);
    return r;
}

/* b * block + w of the FORs that run the axis; a vector where one of them is the vector FOR. */
static LLVMValueRef coordinate(Gen *g, uint32_t axis, Level l)
{
    LLVMValueRef block = size_word(g, g->k->axes.at[axis].block);
    Moved m = scope_enter(g, place_of(g, l), l.vector ? g->lanes : 0);
    LLVMValueRef sum = NULL;
    for (int d = 2; d <= g->depth; d += 2) {
        const Scope *s = &g->scope[d];
        if (s->loop->axis != axis) continue;
        LLVMValueRef x = v_splat(&g->e, s->var);
        if (g->vec == d && l.vector) x = v_add(&g->e, x, lane_numbers(g));
        if (s->loop->part == PART_BLOCKS) x = v_mul(&g->e, x, v_splat(&g->e, block));
        sum = sum ? v_add(&g->e, sum, x) : x;
    }
    if (!sum) sum = v_i(&g->e, DT_int64, 0);
    scope_leave(g, m);
    return sum;
}

/* Whether it divides a vector of integers by one that is the same for all of the kernel, and no constant. */
static bool divides_by_one(Gen *g, const Val *v, Level l)
{
    DtypeKind kind = dtype_info[v->dtype].kind;
    if ((v->op != OP_floor_divide && v->op != OP_remainder) || !l.vector || (kind != DKIND_INT && kind != DKIND_UINT)) return false;
    Level d = val_level(g, v->b);
    return g->k->vals.at[v->b].kind != VAL_CONST && !d.vector && place_of(g, d) < 2;
}

static LLVMValueRef division(Gen *g, const Val *v, Level l)
{
    int depth;
    LLVMValueRef a = val_lanes(g, v->a), d = get(g, v->b, &depth);
    Moved m = scope_enter(g, depth, 0);
    Divisor by = divisor_find(&g->e, v->dtype, d);
    scope_leave(g, m);
    m = scope_enter(g, place_of(g, l), g->lanes);
    LLVMValueRef r = v->op == OP_floor_divide ? divisor_floor(&g->e, v->dtype, &by, a) : divisor_remainder(&g->e, v->dtype, &by, a, d);
    scope_leave(g, m);
    return r;
}

static LLVMValueRef operation(Gen *g, const Val *v, Level l)
{
    if (divides_by_one(g, v, l)) return division(g, v, l);
    const uint32_t in[] = {v->a, v->b, v->c};
    LLVMValueRef x[3] = {NULL, NULL, NULL};
    for (int i = 0; i < op_info[v->op].nin; i++) x[i] = l.vector ? val_lanes(g, in[i]) : val_get(g, in[i]);
    Dtype dt = g->k->vals.at[v->op == OP_where ? v->b : v->a].dtype;
    Moved m = scope_enter(g, place_of(g, l), l.vector ? g->lanes : 0);
    LLVMValueRef r = emit_op(&g->e, v->op, dt, v->dtype, x[0], x[1], x[2]);
    scope_leave(g, m);
    return r;
}

/* The scope that already has the value, or -1. */
static int found_in(const Gen *g, uint32_t val, Level l)
{
    for (int d = g->depth; d >= l.need; d--)
        if (g->scope[d].val[val].stamp == g->scope[d].stamp) return d;
    return -1;
}

static LLVMValueRef make(Gen *g, const Val *v, Level l)
{
    switch ((ValKind)v->kind) {
    case VAL_NONE: break;
    case VAL_CONST: return constant(g, v, 0);
    case VAL_WORD: return number_word(g, v);
    case VAL_LOAD: return access_load(g, v->a, v->b, l.vector, place_of(g, l));
    case VAL_AXIS: return coordinate(g, v->a, l);
    case VAL_STATE: return state_read(g, v->a, v->b);
    case VAL_OP: return operation(g, v, l);
    }
    return int64_const(g, 0);
}

/* The value and, in *depth, the scope that holds it. */
static LLVMValueRef get(Gen *g, uint32_t val, int *depth)
{
    Level l = val_level(g, val);
    *depth = found_in(g, val, l);
    if (*depth >= 0) return g->scope[*depth].val[val].v;
    *depth = place_of(g, l);
    LLVMValueRef r = make(g, &g->k->vals.at[val], l);
    g->scope[*depth].val[val] = (Memo){g->scope[*depth].stamp, r};
    return r;
}

LLVMValueRef val_get(Gen *g, uint32_t val)
{
    int depth;
    return get(g, val, &depth);
}

static unsigned lanes_of(LLVMValueRef v)
{
    LLVMTypeRef type = LLVMTypeOf(v);
    if (LLVMGetTypeKind(type) == LLVMStructTypeKind) type = LLVMStructGetTypeAtIndex(type, 0);
    return LLVMGetVectorSize(type);
}

LLVMValueRef val_lanes(Gen *g, uint32_t val)
{
    int depth;
    const Val *v = &g->k->vals.at[val];
    if (v->kind == VAL_CONST) return constant(g, v, g->lanes);
    LLVMValueRef r = get(g, val, &depth);
    if (!g->vec || val_level(g, val).vector) return r;
    if (depth < g->vec - 1) depth = g->vec - 1;
    Memo *memo = &g->scope[depth].splat[val];
    if (memo->stamp == g->scope[depth].stamp && lanes_of(memo->v) == g->lanes) return memo->v;        /* the tail has fewer */
    Moved m = scope_enter(g, depth, g->lanes);
    *memo = (Memo){g->scope[depth].stamp, v_splat(&g->e, r)};
    scope_leave(g, m);
    return memo->v;
}
