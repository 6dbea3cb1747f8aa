/* A scan along rows that lie side by side in a vector: its elements are as far apart as rows are, so that each would be a load and a store of its own. As many steps
 * as there are rows go at once instead: squares of the rows, turned in registers on the way in and on the way out. The steps themselves stay as they are, one after the other. */
#include "gen/val.h"

enum { LEAST_SQUARE = 4, MOST_SQUARE = 16, MOST_TURNED = 4 };

/* What one access has in the current square: by step. */
typedef struct { uint32_t access; LLVMValueRef at, by_row, v[MOST_SQUARE]; } Turned;

struct Squares {
    const Stmt *loop;
    Turned turned[MOST_TURNED];
    int n, step, lanes;
};

/* Whether elements that follow each other in the scan do so in memory, and rows lie apart. */
static bool is_turned(Gen *g, uint32_t access, const Stmt *scan)
{
    const Access *x = &g->k->accesses.at[access];
    const Array *a = &g->k->arrays.at[x->array];
    const Stmt *rows = g->scope[g->vec].loop;
    int64_t bytes, size = dtype_info[a->dtype].bytes;
    bool literal, plain = dtype_info[a->dtype].kind == DKIND_FLOAT || dtype_info[a->dtype].kind == DKIND_INT || dtype_info[a->dtype].kind == DKIND_UINT;
    if (a->kind != ARRAY_OPERAND || a->swapped || a->ordered || x->nindex || !plain || (size != 4 && size != 8)) return false;
    if (!access_moves(g, x, scan) || !access_moves(g, x, rows)) return false;
    access_stride(g, x, scan, &literal, &bytes);
    if (!literal || bytes != size) return false;
    access_stride(g, x, rows, &literal, &bytes);
    return !literal || bytes != size;
}

/* Whether all that the FOR does is to reduce, and to store at turned places of arrays that it does not read. Sums in spans are spans.c's: rows that a mask leaves are to
 * have the same. */
static bool fits(Gen *g, const Stmt *loop)
{
    const Kernel *k = g->k;
    bool stores = false, reduces = false;
    for (const Stmt *s = loop + 1; s < k->stmts.at + loop->end; s++) {
        reduces |= s->kind == STMT_REDUCE;
        if (s->kind == STMT_REDUCE && g->state[s->a].in_spans) return false;
        if (s->kind == STMT_REDUCE) continue;
        if (s->kind != STMT_STORE || !is_turned(g, s->a, loop)) return false;
        for (uint32_t i = 0; i < k->vals.len; i++)
            if (k->vals.at[i].kind == VAL_LOAD && k->accesses.at[k->vals.at[i].a].array == k->accesses.at[s->a].array) return false;
        stores = true;
    }
    return stores && reduces;
}

static Turned *find(Squares *q, uint32_t access)
{
    for (int i = 0; i < q->n; i++) if (q->turned[i].access == access) return &q->turned[i];
    return NULL;
}

static Turned *begin(Gen *g, Squares *q, uint32_t access)
{
    bool literal;
    int64_t bytes;
    if (q->n == MOST_TURNED) return NULL;
    Turned *t = &q->turned[q->n++];
    *t = (Turned){.access = access, .at = access_base(g, access)};
    t->by_row = access_stride(g, &g->k->accesses.at[access], g->scope[g->vec].loop, &literal, &bytes);
    return t;
}

bool squares_load(Gen *g, uint32_t access, int depth, LLVMValueRef *out)
{
    Squares *q = g->squares;
    if (!q || depth != g->depth || g->scope[depth].loop != q->loop || !is_turned(g, access, q->loop)) return false;
    Turned *t = find(q, access);
    if (!t) {
        if (q->step || !(t = begin(g, q, access))) return false;
        unsigned lanes = g->e.lanes;
        LLVMValueRef at = t->at;
        g->e.lanes = (unsigned)q->lanes;
        for (int r = 0; r < q->lanes; r++, at = byte_offset(g, at, t->by_row)) t->v[r] = memory_load(g, g->k->arrays.at[g->k->accesses.at[access].array].dtype, at);
        g->e.lanes = lanes;
        square_turn(g, t->v, q->lanes);
    }
    *out = t->v[q->step];
    return true;
}

bool squares_store(Gen *g, uint32_t access, uint32_t val)
{
    Squares *q = g->squares;
    Turned *t = q ? find(q, access) : NULL;
    if (!q) return false;
    if (!t && !(t = begin(g, q, access))) return false;
    t->v[q->step] = val_lanes(g, val);
    if (q->step < q->lanes - 1) return true;
    LLVMValueRef at = t->at;
    square_turn(g, t->v, q->lanes);
    g->e.lanes = (unsigned)q->lanes;
    for (int r = 0; r < q->lanes; r++, at = byte_offset(g, at, t->by_row)) memory_store(g, g->k->arrays.at[g->k->accesses.at[access].array].dtype, at, t->v[r]);
    g->e.lanes = 0;
    return true;
}

bool squares_loop(Gen *g, const Stmt *loop, LLVMValueRef n, LoopBody body)
{
    LLVMBuilderRef b = g->e.b;
    Squares q = {.loop = loop, .lanes = (int)g->lanes};
    bool size = q.lanes >= LEAST_SQUARE && q.lanes <= MOST_SQUARE && !(q.lanes & (q.lanes - 1));
    if (!g->vec || g->mask || g->k->checked || !size || loop->lanes || g->squares || !fits(g, loop)) return false;
    LLVMValueRef zero = int64_const(g, 0), step = int64_const(g, q.lanes), full = LLVMBuildAnd(b, n, int64_const(g, -q.lanes), "");
    Loop many = {.start = NULL}, rest = {.start = NULL};
    carry_states(g, &many.c, loop);
    loop_open(g, &many, zero, LLVMBuildICmp(b, LLVMIntSGT, full, zero, ""));
    g->squares = &q;
    for (; q.step < q.lanes; q.step++) body(g, loop, LLVMBuildAdd(b, many.i, int64_const(g, q.step), ""));
    g->squares = NULL;
    loop_close(g, &many, LLVMBuildAdd(b, many.i, step, ""), full);
    carry_states(g, &rest.c, loop);
    loop_open(g, &rest, full, LLVMBuildICmp(b, LLVMIntSLT, full, n, ""));
    body(g, loop, rest.i);
    loop_close(g, &rest, LLVMBuildAdd(b, rest.i, int64_const(g, 1), ""), n);
    return true;
}
