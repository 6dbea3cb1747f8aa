/* Addresses, loads and stores. Every access has alignment 1.
 *
 * Along the vector axis an access stands still, has unit stride (one vector load; under a mask where it is the tail), is read
 * backwards or with a small literal stride (vector loads and shuffles that touch nothing beyond the last element), or goes lane by
 * lane. Lanes that are not active take the address of lane 0, which always is. Where a machine has no masked instruction for a
 * size, the active elements pass through a vector on the stack. */
#include <string.h>
#include "gen/target.h"
#include "gen/val.h"

enum {
    MAX_SHUFFLED_STRIDE = 4,
    BYTES_AHEAD = 8192,          /* of what streams from memory */
    ROWS_AHEAD = 8,
};

/* ---- strides and addresses ---- */

static int element_bytes(const Gen *g, const Access *x) { return dtype_info[g->k->arrays.at[x->array].dtype].bytes; }

/* Bytes per step of a coefficient; *arg is the word that holds it, or -1. */
static int64_t coef_bytes(const Gen *g, const Access *x, Coef c, int32_t *arg)
{
    *arg = c.kind == COEF_RUN ? c.arg : -1;
    return c.kind == COEF_UNIT ? element_bytes(g, x) : c.kind == COEF_LITERAL ? c.lit : 0;
}

bool access_moves(const Gen *g, const Access *x, const Stmt *loop)
{
    Coef c = loop->part == PART_BLOCKS ? x->outer[loop->axis] : x->coef[loop->axis];
    if (c.kind == COEF_SAME) c = x->coef[loop->axis];
    int32_t arg;
    return loop->part != PART_FULL && (coef_bytes(g, x, c, &arg) != 0 || arg >= 0);
}

LLVMValueRef access_stride(Gen *g, const Access *x, const Stmt *loop, bool *literal, int64_t *bytes)
{
    int32_t arg;
    Coef c = loop->part == PART_BLOCKS ? x->outer[loop->axis] : x->coef[loop->axis];
    Size times = SIZE(1);
    if (c.kind == COEF_SAME) {
        c = x->coef[loop->axis];
        times = g->k->axes.at[loop->axis].block;
    }
    *bytes = coef_bytes(g, x, c, &arg) * times.lit;
    *literal = arg < 0 && times.arg < 0;
    if (*literal) return int64_const(g, *bytes);
    LLVMValueRef word = arg < 0 ? int64_const(g, coef_bytes(g, x, c, &arg)) : arg_word(g, arg), by = size_word(g, times);
    if (times.lit == 1) return word;
    Moved m = scope_enter(g, 0, 0);
    LLVMValueRef r = LLVMBuildMul(g->e.b, word, by, "");
    scope_leave(g, m);
    return r;
}

LLVMValueRef byte_offset(Gen *g, LLVMValueRef ptr, LLVMValueRef bytes) { return LLVMBuildGEP2(g->e.b, g->i8, ptr, &bytes, 1, ""); }

static LLVMValueRef base_pointer(Gen *g, const Access *x)
{
    const Array *array = &g->k->arrays.at[x->array];
    LLVMValueRef word = arg_word(g, array->arg), offset = x->off_arg >= 0 ? arg_word(g, x->off_arg) : NULL;
    Moved m = scope_enter(g, 0, 0);
    LLVMValueRef p = array->kind == ARRAY_SCRATCH ? byte_offset(g, g->scratch, word) : LLVMBuildIntToPtr(g->e.b, word, g->ptr, "");
    if (offset) p = byte_offset(g, p, offset);
    scope_leave(g, m);
    return p;
}

/* The literal offset is left to the load or store: so the points of a stencil that lie in one row share a pointer. */
uint32_t leader_of(const Gen *g, uint32_t access)
{
    const Access *all = g->k->accesses.at, *x = &all[access];
    uint32_t i = 0;
    while (all[i].array != x->array || all[i].off_arg != x->off_arg || memcmp(all[i].coef, x->coef, sizeof x->coef) || memcmp(all[i].outer, x->outer, sizeof x->outer)) i++;
    return i;
}

/* The address with the steps of the FORs up to the body `depth`, without the literal offset; of a leader. */
static LLVMValueRef pointer_at(Gen *g, uint32_t access, int depth)
{
    const Access *x = &g->k->accesses.at[access];
    while (depth > 0 && !access_moves(g, x, g->scope[depth].loop)) depth -= 2;
    Scope *s = &g->scope[depth];
    if (s->ptr[access].stamp == s->stamp) return s->ptr[access].v;
    LLVMValueRef p;
    if (depth == 0) {
        p = base_pointer(g, x);
    } else {
        bool literal;
        int64_t bytes;
        LLVMValueRef outer = pointer_at(g, access, depth - 2), stride = access_stride(g, x, s->loop, &literal, &bytes);
        Moved m = scope_enter(g, depth, 0);
        p = byte_offset(g, outer, LLVMBuildMul(g->e.b, s->var, stride, ""));
        scope_leave(g, m);
    }
    s->ptr[access] = (Memo){s->stamp, p};
    return p;
}

/* ---- bounds ---- */

void bounds_check(Gen *g, uint32_t array, LLVMValueRef ptr, LLVMValueRef bytes)
{
    const Array *a = &g->k->arrays.at[array];
    if (!g->k->checked || a->kind != ARRAY_OPERAND) return;
    LLVMBuilderRef b = g->e.b;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(b);
    if (!g->trap) {
        g->trap = v_block(&g->e, "trap");
        LLVMPositionBuilderAtEnd(b, g->trap);
        LLVMValueRef trap = LLVMGetIntrinsicDeclaration(g->e.mod, LLVMLookupIntrinsicID("llvm.trap", 9), NULL, 0);
        LLVMBuildCall2(b, LLVMGlobalGetValueType(trap), trap, NULL, 0, "");
        LLVMBuildUnreachable(b);
        LLVMPositionBuilderAtEnd(b, here);
    }
    LLVMBasicBlockRef good = v_block(&g->e, "");
    LLVMValueRef at = LLVMBuildPtrToInt(b, ptr, g->i64, ""), end = LLVMBuildAdd(b, at, bytes, "");
    LLVMValueRef above = LLVMBuildICmp(b, LLVMIntUGE, at, g->arg[a->arg + 1], ""), below = LLVMBuildICmp(b, LLVMIntULE, end, g->arg[a->arg + 2], "");
    LLVMBuildCondBr(b, LLVMBuildAnd(b, above, below, ""), good, g->trap);
    LLVMPositionBuilderAtEnd(b, good);
}

/* ---- elements in memory ---- */

static bool is_complex(Dtype dt) { return dtype_info[dt].kind == DKIND_COMPLEX; }

/* The type of n elements as memory has them (0: of one): bool is i8, a complex number a vector of two. */
static LLVMTypeRef memory_type(Gen *g, Dtype dt, unsigned n)
{
    if (is_complex(dt)) return LLVMVectorType(v_scalar_type(&g->e, dt == DT_complex64 ? DT_float32 : DT_float64), n ? 2 * n : 2);
    LLVMTypeRef t = dtype_info[dt].kind == DKIND_BOOL ? g->i8 : v_scalar_type(&g->e, dt);
    return n ? LLVMVectorType(t, n) : t;
}

/* Lanes from + i * step of x and y side by side, n of them; one lane as a scalar if n is 0. */
static LLVMValueRef pick(Gen *g, LLVMValueRef x, unsigned from, unsigned step, unsigned n)
{
    LLVMValueRef take[512];
    if (!n) return LLVMBuildExtractElement(g->e.b, x, LLVMConstInt(g->i32, from, 0), "");
    for (unsigned i = 0; i < n && i < 512; i++) take[i] = LLVMConstInt(g->i32, from + i * step, 0);
    return LLVMBuildShuffleVector(g->e.b, x, LLVMGetPoison(LLVMTypeOf(x)), LLVMConstVector(take, n), "");
}

/* Two vectors (or scalars) as one with their lanes in turn. */
static LLVMValueRef interleave(Gen *g, LLVMValueRef re, LLVMValueRef im)
{
    LLVMValueRef take[512];
    LLVMTypeRef one = LLVMTypeOf(re);
    if (LLVMGetTypeKind(one) != LLVMVectorTypeKind) {
        LLVMValueRef r = LLVMBuildInsertElement(g->e.b, LLVMGetPoison(LLVMVectorType(one, 2)), re, LLVMConstInt(g->i32, 0, 0), "");
        return LLVMBuildInsertElement(g->e.b, r, im, LLVMConstInt(g->i32, 1, 0), "");
    }
    unsigned n = LLVMGetVectorSize(one);
    for (unsigned i = 0; i < 2 * n && i < 512; i++) take[i] = LLVMConstInt(g->i32, i / 2 + i % 2 * n, 0);
    return LLVMBuildShuffleVector(g->e.b, re, im, LLVMConstVector(take, 2 * n), "");
}

static LLVMValueRef from_memory(Gen *g, Dtype dt, LLVMValueRef x)
{
    if (is_complex(dt)) return v_pair(&g->e, pick(g, x, 0, 2, g->e.lanes), pick(g, x, 1, 2, g->e.lanes));
    return dtype_info[dt].kind == DKIND_BOOL ? LLVMBuildICmp(g->e.b, LLVMIntNE, x, LLVMConstNull(LLVMTypeOf(x)), "") : x;
}

static LLVMValueRef to_memory(Gen *g, Dtype dt, LLVMValueRef x)
{
    if (is_complex(dt)) return interleave(g, LLVMBuildExtractValue(g->e.b, x, 0, ""), LLVMBuildExtractValue(g->e.b, x, 1, ""));
    return dtype_info[dt].kind == DKIND_BOOL ? LLVMBuildZExt(g->e.b, x, memory_type(g, dt, g->e.lanes), "") : x;
}

/* A value as a swapped array has its elements, or back. */
static LLVMValueRef swap_bytes(Gen *g, Dtype dt, LLVMValueRef x)
{
    LLVMBuilderRef b = g->e.b;
    LLVMTypeRef type = LLVMTypeOf(x), word = LLVMIntTypeInContext(g->e.ctx, 8 * dtype_info[dt].bytes);
    if (LLVMGetTypeKind(type) == LLVMVectorTypeKind) word = LLVMVectorType(word, LLVMGetVectorSize(type));
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(g->e.mod, LLVMLookupIntrinsicID("llvm.bswap", 10), &word, 1), in = LLVMBuildBitCast(b, x, word, "");
    return LLVMBuildBitCast(b, LLVMBuildCall2(b, LLVMGlobalGetValueType(fn), fn, &in, 1, ""), type, "");
}

static LLVMValueRef in_order_of(Gen *g, const Access *x, LLVMValueRef v)
{
    const Array *a = &g->k->arrays.at[x->array];
    if (!a->swapped) return v;
    if (!is_complex(a->dtype)) return swap_bytes(g, a->dtype, v);
    Dtype part = a->dtype == DT_complex64 ? DT_float32 : DT_float64;
    LLVMValueRef re = LLVMBuildExtractValue(g->e.b, v, 0, ""), im = LLVMBuildExtractValue(g->e.b, v, 1, "");
    return v_pair(&g->e, swap_bytes(g, part, re), swap_bytes(g, part, im));
}

static LLVMValueRef raw_load(Gen *g, LLVMTypeRef type, LLVMValueRef ptr)
{
    LLVMValueRef load = LLVMBuildLoad2(g->e.b, type, ptr, "");
    LLVMSetAlignment(load, 1);
    return load;
}

static void raw_store(Gen *g, LLVMValueRef x, LLVMValueRef ptr) { LLVMSetAlignment(LLVMBuildStore(g->e.b, x, ptr), 1); }

LLVMValueRef memory_load(Gen *g, Dtype dt, LLVMValueRef ptr) { return from_memory(g, dt, raw_load(g, memory_type(g, dt, g->e.lanes), ptr)); }

void memory_store(Gen *g, Dtype dt, LLVMValueRef ptr, LLVMValueRef x) { raw_store(g, to_memory(g, dt, x), ptr); }

LLVMValueRef lane_numbers(Gen *g)
{
    LLVMValueRef all[256];
    unsigned n = g->e.lanes < 256 ? g->e.lanes : 256;
    for (unsigned i = 0; i < n; i++) all[i] = int64_const(g, i);
    return LLVMConstVector(all, n);
}

LLVMValueRef lane_mask(Gen *g, LLVMValueRef active)
{
    LLVMBuilderRef b = g->e.b;
    unsigned lanes = g->e.lanes;
    if (g->e.level == CPU_AVX512 && lanes <= 64) {
        LLVMTypeRef bits = LLVMIntTypeInContext(g->e.ctx, lanes);
        LLVMValueRef off = LLVMBuildSub(b, int64_const(g, lanes), active, "");
        LLVMValueRef ones = LLVMBuildLShr(b, LLVMConstAllOnes(bits), LLVMBuildIntCast2(b, off, bits, 0, ""), "");
        return LLVMBuildBitCast(b, ones, v_type(&g->e, DT_bool_), "");
    }
    LLVMValueRef all[256];
    for (unsigned i = 0; i < lanes && i < 256; i++) all[i] = LLVMConstInt(g->i32, i, 0);
    LLVMValueRef count = v_splat(&g->e, LLVMBuildTrunc(b, active, g->i32, ""));
    return LLVMBuildICmp(b, LLVMIntULT, LLVMConstVector(all, lanes), count, "");
}

/* ---- masks without instructions ---- */

static LLVMValueRef stack_vector(Gen *g)
{
    if (g->buffer) return g->buffer;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(g->e.b);
    LLVMPositionBuilderBefore(g->e.b, LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(g->e.fn)));
    g->buffer = LLVMBuildAlloca(g->e.b, LLVMArrayType2(g->i64, 2 * 256), "");
    LLVMSetAlignment(g->buffer, 64);
    LLVMPositionBuilderAtEnd(g->e.b, here);
    return g->buffer;
}

/* For i = 0 ... active - 1: *(to + to_step(i)) = *(from + i * bytes) or the other way round. `offsets`: stack vector of int64, or NULL. */
typedef struct { LLVMTypeRef type; LLVMValueRef from, to, from_stride, to_stride, to_offsets; } Copy;

static void copy_active(Gen *g, const Copy *c, LLVMValueRef active, uint32_t array, bool check)
{
    LLVMBuilderRef b = g->e.b;
    LLVMBasicBlockRef from = LLVMGetInsertBlock(b), loop = v_block(&g->e, ""), done = v_block(&g->e, "");
    LLVMBuildBr(b, loop);
    LLVMPositionBuilderAtEnd(b, loop);
    LLVMValueRef i = LLVMBuildPhi(b, g->i64, "");
    LLVMValueRef src = byte_offset(g, c->from, LLVMBuildMul(b, i, c->from_stride, ""));
    LLVMValueRef step = c->to_offsets ? LLVMBuildLoad2(b, g->i64, LLVMBuildGEP2(b, g->i64, c->to_offsets, &i, 1, ""), "") : LLVMBuildMul(b, i, c->to_stride, "");
    LLVMValueRef dst = byte_offset(g, c->to, step), x = raw_load(g, c->type, src);
    if (check) bounds_check(g, array, dst, LLVMConstTruncOrBitCast(LLVMSizeOf(c->type), g->i64));
    raw_store(g, x, dst);
    LLVMValueRef next = LLVMBuildAdd(b, i, int64_const(g, 1), "");
    LLVMAddIncoming(i, (LLVMValueRef[]){int64_const(g, 0), next}, (LLVMBasicBlockRef[]){from, LLVMGetInsertBlock(b)}, 2);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntULT, next, active, ""), loop, done);
    LLVMPositionBuilderAtEnd(b, done);
}

/* ---- consecutive lanes ---- */

/* llvm.masked.load, .gather and .store have an alignment operand, after the address, up to LLVM 21; without one, and without an attribute, it is 1. */
static LLVMValueRef masked(Gen *g, const char *name, LLVMTypeRef type, LLVMValueRef first, LLVMValueRef second, LLVMValueRef third, unsigned align_at)
{
    LLVMTypeRef overload[2] = {type, LLVMTypeOf(align_at == 2 ? second : first)};
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(g->e.mod, LLVMLookupIntrinsicID(name, strlen(name)), overload, 2);
    LLVMValueRef args[4] = {first, second, third}, one = LLVMConstInt(g->i32, 1, 0);
    unsigned n = LLVMCountParams(fn);
    if (n == 4) {
        for (unsigned i = 3; i > align_at; i--) args[i] = args[i - 1];
        args[align_at] = one;
    }
    return LLVMBuildCall2(g->e.b, LLVMGlobalGetValueType(fn), fn, args, n, "");
}

static LLVMValueRef bytes_const(Gen *g, Dtype dt) { return int64_const(g, dtype_info[dt].bytes); }

/* Element i of a vector as memory has it, and that vector with element i replaced. */
static LLVMValueRef element_of(Gen *g, Dtype dt, LLVMValueRef x, unsigned i)
{
    return is_complex(dt) ? pick(g, x, 2 * i, 1, 2) : pick(g, x, i, 1, 0);
}

static LLVMValueRef with_element(Gen *g, Dtype dt, LLVMValueRef all, LLVMValueRef x, unsigned i)
{
    if (!is_complex(dt)) return LLVMBuildInsertElement(g->e.b, all, x, LLVMConstInt(g->i32, i, 0), "");
    for (unsigned k = 0; k < 2; k++)
        all = LLVMBuildInsertElement(g->e.b, all, pick(g, x, k, 1, 0), LLVMConstInt(g->i32, 2 * i + k, 0), "");
    return all;
}

/* Bytes of what a mask covers lane by lane, and the mask for it. */
static int masked_bytes(Dtype dt) { return dtype_info[dt].bytes / (is_complex(dt) ? 2 : 1); }
static LLVMValueRef masked_lanes(Gen *g, Dtype dt, LLVMValueRef mask) { return is_complex(dt) ? interleave(g, mask, mask) : mask; }

LLVMValueRef memory_load_lanes(Gen *g, Dtype dt, LLVMValueRef ptr, LLVMValueRef mask, LLVMValueRef active)
{
    if (!mask) return memory_load(g, dt, ptr);
    LLVMTypeRef type = memory_type(g, dt, g->e.lanes);
    LLVMValueRef zero = LLVMConstNull(type);
    if (target_mask(g->e.level, masked_bytes(dt)))
        return from_memory(g, dt, masked(g, "llvm.masked.load", type, ptr, masked_lanes(g, dt, mask), zero, 1));
    LLVMValueRef buffer = stack_vector(g);
    raw_store(g, zero, buffer);
    copy_active(g, &(Copy){memory_type(g, dt, 0), ptr, buffer, bytes_const(g, dt), bytes_const(g, dt), NULL}, active, 0, false);
    return from_memory(g, dt, raw_load(g, type, buffer));
}

void memory_store_lanes(Gen *g, Dtype dt, LLVMValueRef ptr, LLVMValueRef x, LLVMValueRef mask, LLVMValueRef active)
{
    x = to_memory(g, dt, x);
    if (!mask) {
        raw_store(g, x, ptr);
    } else if (target_mask(g->e.level, masked_bytes(dt))) {
        masked(g, "llvm.masked.store", LLVMTypeOf(x), x, ptr, masked_lanes(g, dt, mask), 2);
    } else {
        LLVMValueRef buffer = stack_vector(g);
        raw_store(g, x, buffer);
        copy_active(g, &(Copy){memory_type(g, dt, 0), buffer, ptr, bytes_const(g, dt), bytes_const(g, dt), NULL}, active, 0, false);
    }
}

/* ---- an access along the vector axis ---- */

/* How lanes step: by a known number of bytes, by a word of args, or by a vector of byte offsets (gather). */
typedef struct {
    const Access *x;
    Dtype dt;
    LLVMValueRef ptr, stride, offsets;
    int64_t bytes;
    bool literal, moves;
    unsigned nscalar;
    LLVMValueRef scalar[KERNEL_MAX_INDEX], scalar_coef[KERNEL_MAX_INDEX];
    unsigned nvector;
    LLVMValueRef vector[KERNEL_MAX_INDEX], vector_coef[KERNEL_MAX_INDEX];
    LLVMValueRef ahead;            /* bytes from it to what is asked for ahead, NULL: nothing */
    LLVMValueRef only;             /* what is read at all (besides the active lanes), NULL: all */
} Place;

static LLVMValueRef index_coef(Gen *g, const Access *x, int i)
{
    int32_t arg;
    int64_t bytes = coef_bytes(g, x, x->index[i].coef, &arg);
    return arg >= 0 ? arg_word(g, arg) : int64_const(g, bytes);
}

static LLVMValueRef greater(Gen *g, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildSelect(g->e.b, LLVMBuildICmp(g->e.b, LLVMIntSGT, a, b, ""), a, b, "");
}

/* Bytes to rows ahead of the FOR around the vector FOR: of short pieces of rows that lie far apart. */
static LLVMValueRef rows_ahead(Gen *g, const Access *x)
{
    for (int d = (g->vec - 2) & ~1; d > 0; d -= 2) {
        bool literal;
        int64_t bytes;
        if (!access_moves(g, x, g->scope[d].loop)) continue;
        LLVMValueRef row = access_stride(g, x, g->scope[d].loop, &literal, &bytes);
        Moved m = scope_enter(g, 0, 0);
        LLVMValueRef far = LLVMBuildMul(g->e.b, row, int64_const(g, ROWS_AHEAD), "");
        scope_leave(g, m);
        return far;
    }
    return NULL;
}

/* Bytes from an access to what it asks for: rows ahead, more of short ones, where a FOR inside the vector FOR walks down the rows. */
static LLVMValueRef distance_ahead(Gen *g, const Access *x)
{
    bool literal;
    int64_t bytes, part = x->streams == STREAMS_ROWS ? 1 : x->streams;
    for (int d = g->depth & ~1; d > g->vec; d -= 2)
        if (access_moves(g, x, g->scope[d].loop)) {
            LLVMValueRef row = access_stride(g, x, g->scope[d].loop, &literal, &bytes);
            Moved m = scope_enter(g, 0, 0);
            LLVMValueRef rows = LLVMBuildUDiv(g->e.b, int64_const(g, BYTES_AHEAD), greater(g, row, int64_const(g, 1)), "");
            LLVMValueRef far = LLVMBuildMul(g->e.b, row, greater(g, rows, int64_const(g, ROWS_AHEAD / part)), "");
            scope_leave(g, m);
            return far;
        }
    if (x->streams == STREAMS_ROWS) return rows_ahead(g, x);
    return int64_const(g, BYTES_AHEAD / x->streams);
}

/* Makes all that an access needs from other scopes; place_finish adds it up where the access is made. */
static void place_begin(Gen *g, Place *p, uint32_t access, bool vector)
{
    const Access *x = &g->k->accesses.at[access];
    *p = (Place){.x = x, .dt = g->k->arrays.at[x->array].dtype, .ptr = pointer_at(g, leader_of(g, access), g->depth & ~1)};
    p->stride = int64_const(g, 0);
    p->literal = true;
    if (vector && g->vec && access_moves(g, x, g->scope[g->vec].loop)) {
        p->moves = true;
        p->stride = access_stride(g, x, g->scope[g->vec].loop, &p->literal, &p->bytes);
        if (x->streams) p->ahead = distance_ahead(g, x);
    }
    for (int i = 0; i < x->nindex; i++) {
        uint32_t val = x->index[i].val;
        bool lanes = vector && g->vec && val_level(g, val).vector;
        LLVMValueRef v = lanes ? val_lanes(g, val) : val_get(g, val), coef = index_coef(g, x, i);
        if (lanes) p->vector[p->nvector] = v, p->vector_coef[p->nvector++] = coef;
        else p->scalar[p->nscalar] = v, p->scalar_coef[p->nscalar++] = coef;
    }
    if (g->k->checked && g->k->arrays.at[x->array].kind == ARRAY_OPERAND) {
        arg_word(g, g->k->arrays.at[x->array].arg + 1);
        arg_word(g, g->k->arrays.at[x->array].arg + 2);
    }
}

static void place_finish(Gen *g, Place *p)
{
    LLVMBuilderRef b = g->e.b;
    if (p->x->off_lit) p->ptr = byte_offset(g, p->ptr, int64_const(g, p->x->off_lit));
    for (unsigned i = 0; i < p->nscalar; i++) p->ptr = byte_offset(g, p->ptr, LLVMBuildMul(b, p->scalar[i], p->scalar_coef[i], ""));
    for (unsigned i = 0; i < p->nvector; i++) {
        LLVMValueRef part = v_mul(&g->e, p->vector[i], v_splat(&g->e, p->vector_coef[i]));
        p->offsets = p->offsets ? v_add(&g->e, p->offsets, part) : part;
    }
    if (p->offsets && p->moves) p->offsets = v_add(&g->e, p->offsets, v_mul(&g->e, lane_numbers(g), v_splat(&g->e, p->stride)));
}

/* Addresses of the lanes, one after the other: few registers and short chains for run-time strides. */
typedef struct { LLVMValueRef group; unsigned at; } Walk;

static LLVMValueRef lane_pointer(Gen *g, const Place *p, Walk *w, unsigned lane)
{
    LLVMBuilderRef b = g->e.b;
    LLVMValueRef r;
    if (p->offsets) {
        r = byte_offset(g, p->ptr, LLVMBuildExtractElement(b, p->offsets, LLVMConstInt(g->i32, lane, 0), ""));
    } else if (p->literal) {
        r = byte_offset(g, p->ptr, int64_const(g, p->bytes * (int64_t)lane));
    } else {
        if (lane == 0) *w = (Walk){p->ptr, 0};
        if (lane - w->at == 4) *w = (Walk){byte_offset(g, w->group, LLVMBuildShl(b, p->stride, int64_const(g, 2), "")), lane};
        r = byte_offset(g, w->group, LLVMBuildMul(b, p->stride, int64_const(g, lane - w->at), ""));
    }
    return r;
}

/* Whether one instruction loads from the lanes' addresses. It is no faster than a load per lane, but 20 times as short where lanes are many. */
static bool gathers(const Gen *g, const Place *p)
{
    return p->offsets && g->e.level == CPU_AVX512 && g->e.lanes >= 8 && dtype_info[p->dt].bytes >= 4 && !is_complex(p->dt) && !g->k->checked;
}

static LLVMValueRef load_gathered(Gen *g, const Place *p)
{
    LLVMTypeRef type = memory_type(g, p->dt, g->e.lanes);
    LLVMValueRef at = LLVMBuildGEP2(g->e.b, g->i8, p->ptr, (LLVMValueRef[]){p->offsets}, 1, "");
    LLVMValueRef mask = g->mask ? g->mask : LLVMConstAllOnes(v_type(&g->e, DT_bool_));
    return from_memory(g, p->dt, masked(g, "llvm.masked.gather", type, at, mask, LLVMConstNull(type), 1));
}

static LLVMValueRef load_by_lane(Gen *g, Place *p)
{
    LLVMBuilderRef b = g->e.b;
    LLVMTypeRef type = memory_type(g, p->dt, 0);
    LLVMValueRef all = LLVMGetPoison(memory_type(g, p->dt, g->e.lanes)), first = NULL;
    Walk w;
    if (p->offsets && g->mask) {
        first = LLVMBuildExtractElement(b, p->offsets, LLVMConstInt(g->i32, 0, 0), "");
        p->offsets = v_select(&g->e, g->mask, p->offsets, v_splat(&g->e, first));
    }
    for (unsigned i = 0; i < g->e.lanes; i++) {
        LLVMValueRef at = lane_pointer(g, p, &w, i);
        if (i == 0) first = at;
        else if (g->mask && !p->offsets) at = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntUGT, g->active, int64_const(g, i), ""), at, first, "");
        bounds_check(g, p->x->array, at, bytes_const(g, p->dt));
        all = with_element(g, p->dt, all, raw_load(g, type, at), i);
    }
    return from_memory(g, p->dt, all);
}

static void bounds_check_if(Gen *g, const Place *p, LLVMValueRef read, LLVMValueRef at)
{
    const Array *a = &g->k->arrays.at[p->x->array];
    if (!g->k->checked || a->kind != ARRAY_OPERAND) return;
    LLVMValueRef lowest = LLVMBuildIntToPtr(g->e.b, arg_word(g, a->arg + 1), g->ptr, ""), none = int64_const(g, 0);
    bounds_check(g, p->x->array, LLVMBuildSelect(g->e.b, read, at, lowest, ""), LLVMBuildSelect(g->e.b, read, bytes_const(g, p->dt), none, ""));
}

/* Lanes that are read one by one: the others read what is on the stack, and are 0. Here masks have no instruction, or none is known for the stride. */
static LLVMValueRef load_if(Gen *g, Place *p, bool vector)
{
    LLVMBuilderRef b = g->e.b;
    LLVMTypeRef type = memory_type(g, p->dt, 0);
    LLVMValueRef none = stack_vector(g), all = LLVMConstNull(memory_type(g, p->dt, g->e.lanes)), only = p->only;
    Walk w;
    if (vector && g->mask) only = LLVMBuildAnd(b, only, g->mask, "");
    for (unsigned i = 0; i < (vector ? g->e.lanes : 1); i++) {
        LLVMValueRef at = vector ? lane_pointer(g, p, &w, i) : p->ptr, read = vector ? LLVMBuildExtractElement(b, only, LLVMConstInt(g->i32, i, 0), "") : only;
        bounds_check_if(g, p, read, at);
        LLVMValueRef x = raw_load(g, type, LLVMBuildSelect(b, read, at, none, ""));
        x = LLVMBuildSelect(b, read, x, LLVMConstNull(type), "");
        all = vector ? with_element(g, p->dt, all, x, i) : x;
    }
    return from_memory(g, p->dt, all);
}

/* What is read of `lanes` consecutive elements from `start` on, where lane i reads element i * span. */
static LLVMValueRef elements_read(Gen *g, LLVMValueRef only, int64_t start, int64_t span)
{
    LLVMValueRef take[256];
    if (g->mask) only = LLVMBuildAnd(g->e.b, only, g->mask, "");
    for (int64_t i = 0; i < g->e.lanes && i < 256; i++)
        take[i] = LLVMConstInt(g->i32, (start + i) % span || (start + i) / span >= g->e.lanes ? g->e.lanes : (uint64_t)((start + i) / span), 0);
    return LLVMBuildShuffleVector(g->e.b, only, LLVMConstNull(LLVMTypeOf(only)), LLVMConstVector(take, g->e.lanes), "");
}

static bool shuffles(const Gen *g, const Place *p)
{
    int64_t size = dtype_info[p->dt].bytes, step = p->bytes / size;
    bool masks = (!g->mask && !p->only) || (step > 0 && g->e.level == CPU_AVX512 && g->e.lanes <= 64 / (unsigned)size);
    return !is_complex(p->dt) && p->literal && !p->offsets && masks && !g->k->checked && p->bytes % size == 0 && g->e.lanes >= MAX_SHUFFLED_STRIDE
           && step >= -MAX_SHUFFLED_STRIDE && step <= MAX_SHUFFLED_STRIDE;
}

/* Consecutive elements from `start` on, of those that the active lanes step over. */
static LLVMValueRef load_part(Gen *g, const Place *p, LLVMValueRef ptr, int64_t start, int64_t span)
{
    LLVMBuilderRef b = g->e.b;
    LLVMTypeRef type = memory_type(g, p->dt, g->e.lanes);
    if (p->only) return masked(g, "llvm.masked.load", type, ptr, elements_read(g, p->only, start, span), LLVMConstNull(type), 1);
    if (!g->mask) return raw_load(g, type, ptr);
    LLVMValueRef last = LLVMBuildMul(b, LLVMBuildSub(b, g->active, int64_const(g, 1), ""), int64_const(g, span), "");
    LLVMValueRef inside = LLVMBuildICmp(b, LLVMIntSLE, lane_numbers(g), v_splat(&g->e, LLVMBuildSub(b, last, int64_const(g, start), "")), "");
    return masked(g, "llvm.masked.load", type, ptr, inside, LLVMConstNull(type), 1);
}

/* step vector loads cover the elements; the last one ends with the last element. A lane's element is taken from the last load that has it. */
static LLVMValueRef load_shuffled(Gen *g, const Place *p)
{
    LLVMBuilderRef b = g->e.b;
    int64_t size = dtype_info[p->dt].bytes, step = p->bytes / size, lanes = g->e.lanes, span = (step < 0 ? -step : step);
    LLVMValueRef low = step < 0 ? byte_offset(g, p->ptr, int64_const(g, p->bytes * (lanes - 1))) : p->ptr, all = NULL, take[256];
    for (int64_t c = 0; c < span; c++) {
        int64_t start = c < span - 1 || g->mask || p->only ? c * lanes : (lanes - 1) * span + 1 - lanes;
        LLVMValueRef part = load_part(g, p, byte_offset(g, low, int64_const(g, start * size)), start, span);
        for (int64_t i = 0; i < lanes; i++) {
            int64_t at = (step < 0 ? lanes - 1 - i : i) * span - start;
            take[i] = LLVMConstInt(g->i32, (uint64_t)(at >= 0 && at < lanes ? lanes + at : i), 0);
        }
        all = LLVMBuildShuffleVector(b, all ? all : part, part, LLVMConstVector(take, (unsigned)lanes), "");
    }
    return from_memory(g, p->dt, all);
}

void memory_prefetch(Gen *g, LLVMValueRef at, bool store)
{
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(g->e.mod, LLVMLookupIntrinsicID("llvm.prefetch", 13), &g->ptr, 1);
    LLVMValueRef args[] = {at, LLVMConstInt(g->i32, store, 0), LLVMConstInt(g->i32, 3, 0), LLVMConstInt(g->i32, 1, 0)};
    LLVMBuildCall2(g->e.b, LLVMGlobalGetValueType(fn), fn, args, 4, "");
}

/* Asks for lines that the loop will come to. */
static void prefetch(Gen *g, const Place *p, LLVMValueRef distance, bool store)
{
    if (!distance || g->once) return;
    int64_t bytes = dtype_info[p->dt].bytes * g->e.lanes;
    LLVMValueRef at = byte_offset(g, p->ptr, distance);
    for (int64_t i = 0; i < bytes; i += 64) memory_prefetch(g, byte_offset(g, at, int64_const(g, i)), store);
}

/* A vector of which p->only is read. */
static LLVMValueRef load_vector_if(Gen *g, Place *p)
{
    bool unit = p->literal && p->bytes == dtype_info[p->dt].bytes && !p->offsets && !g->k->checked && target_mask(g->e.level, dtype_info[p->dt].bytes);
    if (!unit) return shuffles(g, p) && p->bytes ? load_shuffled(g, p) : load_if(g, p, true);
    prefetch(g, p, p->ahead, false);
    return memory_load_lanes(g, p->dt, p->ptr, g->mask ? LLVMBuildAnd(g->e.b, p->only, g->mask, "") : p->only, NULL);
}

static LLVMValueRef load_vector(Gen *g, Place *p)
{
    int64_t size = dtype_info[p->dt].bytes;
    if (p->only) return load_vector_if(g, p);
    if (p->literal && p->bytes == size && !p->offsets) {
        bounds_check(g, p->x->array, p->ptr, g->mask ? LLVMBuildMul(g->e.b, g->active, bytes_const(g, p->dt), "") : int64_const(g, size * g->e.lanes));
        prefetch(g, p, p->ahead, false);
        return memory_load_lanes(g, p->dt, p->ptr, g->mask, g->active);
    }
    return shuffles(g, p) ? load_shuffled(g, p) : gathers(g, p) ? load_gathered(g, p) : load_by_lane(g, p);
}

LLVMValueRef access_load(Gen *g, uint32_t access, uint32_t only, bool vector, int depth)
{
    Place p;
    LLVMValueRef turned;
    if (vector && !only && squares_load(g, access, depth, &turned)) return turned;
    place_begin(g, &p, access, vector);
    if (only) p.only = vector ? val_lanes(g, only) : val_get(g, only);
    Moved m = scope_enter(g, depth, vector ? g->lanes : 0);
    place_finish(g, &p);
    LLVMValueRef r;
    int field = vector && p.literal && p.bytes == 3 && !p.offsets && !g->mask && !only && g->e.lanes % 16 == 0 ? field_of(g, access) : -1;
    if (field >= 0) {
        prefetch(g, &p, p.ahead, false);
        r = from_memory(g, p.dt, field_load(g, access, p.ptr, field, depth));
    } else if (vector) {
        r = load_vector(g, &p);
    } else if (only) {
        r = load_if(g, &p, false);
    } else {
        bounds_check(g, p.x->array, p.ptr, bytes_const(g, p.dt));
        r = memory_load(g, p.dt, p.ptr);
    }
    r = in_order_of(g, p.x, r);
    scope_leave(g, m);
    return r;
}

/* ---- stores ---- */

static void store_by_lane(Gen *g, const Place *p, LLVMValueRef x)
{
    Walk w;
    x = to_memory(g, p->dt, x);
    if (g->mask) {
        LLVMValueRef buffer = stack_vector(g), half = int64_const(g, 256 * 8), offsets = NULL;
        raw_store(g, x, buffer);
        if (p->offsets) raw_store(g, p->offsets, offsets = byte_offset(g, buffer, half));
        copy_active(g, &(Copy){memory_type(g, p->dt, 0), buffer, p->ptr, bytes_const(g, p->dt), p->stride, offsets}, g->active, p->x->array, true);
        return;
    }
    for (unsigned i = 0; i < g->e.lanes; i++) {
        LLVMValueRef at = lane_pointer(g, p, &w, i);
        bounds_check(g, p->x->array, at, bytes_const(g, p->dt));
        raw_store(g, element_of(g, p->dt, x, i), at);
    }
}

static void store_vector(Gen *g, const Place *p, LLVMValueRef x)
{
    int64_t size = dtype_info[p->dt].bytes;
    if (!p->literal || p->bytes != size || p->offsets) {
        store_by_lane(g, p, x);
        return;
    }
    bounds_check(g, p->x->array, p->ptr, g->mask ? LLVMBuildMul(g->e.b, g->active, bytes_const(g, p->dt), "") : int64_const(g, size * g->e.lanes));
    prefetch(g, p, p->ahead, true);
    memory_store_lanes(g, p->dt, p->ptr, x, g->mask, g->active);
}

/* Stores one element for all lanes: the last coordinate's. */
static void store_last(Gen *g, const Place *p, LLVMValueRef x, bool vector)
{
    if (vector) {
        LLVMValueRef last = g->active ? LLVMBuildSub(g->e.b, g->active, int64_const(g, 1), "") : int64_const(g, g->lanes - 1);
        x = is_complex(p->dt) ? v_pair(&g->e, LLVMBuildExtractElement(g->e.b, LLVMBuildExtractValue(g->e.b, x, 0, ""), last, ""),
                                       LLVMBuildExtractElement(g->e.b, LLVMBuildExtractValue(g->e.b, x, 1, ""), last, ""))
                              : LLVMBuildExtractElement(g->e.b, x, last, "");
    }
    g->e.lanes = 0;
    bounds_check(g, p->x->array, p->ptr, bytes_const(g, p->dt));
    memory_store(g, p->dt, p->ptr, in_order_of(g, p->x, x));
}

void access_store(Gen *g, uint32_t access, uint32_t val)
{
    Place p;
    if (squares_store(g, access, val)) return;
    place_begin(g, &p, access, g->vec != 0);
    bool moves = p.moves || p.nvector, vector = g->vec && val_level(g, val).vector;
    LLVMValueRef x = moves ? val_lanes(g, val) : val_get(g, val);
    Moved m = scope_enter(g, g->depth, moves ? g->lanes : 0);
    place_finish(g, &p);
    if (moves) store_vector(g, &p, in_order_of(g, p.x, x));
    else store_last(g, &p, x, vector);
    scope_leave(g, m);
}

/* ---- for dot.c ---- */

static Place place_by_stride(Gen *g, const Access *x, LLVMValueRef ptr, Stride stride)
{
    return (Place){.x = x, .dt = g->k->arrays.at[x->array].dtype, .ptr = ptr, .stride = stride.v, .bytes = stride.bytes,
                   .literal = stride.literal, .moves = true};
}

LLVMValueRef lanes_load(Gen *g, const Access *x, LLVMValueRef ptr, Stride stride)
{
    Place p = place_by_stride(g, x, ptr, stride);
    unsigned lanes = g->e.lanes;
    if (lanes && !(stride.literal && stride.bytes == 0)) return in_order_of(g, x, load_vector(g, &p));
    g->e.lanes = 0;
    bounds_check(g, x->array, ptr, bytes_const(g, p.dt));
    LLVMValueRef r = in_order_of(g, x, memory_load(g, p.dt, ptr));
    g->e.lanes = lanes;
    return v_splat(&g->e, r);
}

void lanes_store(Gen *g, const Access *x, LLVMValueRef ptr, Stride stride, LLVMValueRef v)
{
    Place p = place_by_stride(g, x, ptr, stride);
    v = in_order_of(g, x, v);
    if (g->e.lanes) {
        store_vector(g, &p, v);
        return;
    }
    bounds_check(g, x->array, ptr, bytes_const(g, p.dt));
    memory_store(g, p.dt, ptr, v);
}

LLVMValueRef access_base(Gen *g, uint32_t access)
{
    Place p;
    place_begin(g, &p, access, false);
    place_finish(g, &p);
    return p.ptr;
}
