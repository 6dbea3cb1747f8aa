/* A kernel while its code is made: the scopes that hold its values.
 *
 * Every FOR has two scopes: the block before it (run once, only if the FOR runs at all) and its body; scope 0 is the function's
 * entry, so bodies have even numbers and what stands before FOR d has the odd number below. A Val is made in the outermost scope that
 * has its inputs: the body of the innermost FOR it depends on if it reads no memory; if it does, in the scope before the next FOR
 * inside that, for a FOR of no trips must not read. It depends on a FOR by an axis, a stride, an index, or because the FOR
 * changes the state or array it reads. Each scope remembers what was made in it; stamps make forgetting free.
 *
 * Inside a vector FOR a Val is a vector if it depends on that FOR's axis, else a scalar that is spread where it meets vectors.
 *
 * A scope that is not the innermost one ends in a branch. Code for it is put before that branch, which may split its last block; so
 * phis learn their incoming blocks (scope->at) only when the loop is closed. */
#pragma once
#include "gen/emit.h"
#include "opt/kernel.h"

typedef struct { uint32_t stamp; LLVMValueRef v; } Memo;
/* need: the innermost body whose axes the value needs; dep: and whose stores and reductions it must not be moved above. */
typedef struct { uint32_t stamp; uint8_t need, dep; bool vector, reads; } Level;

typedef struct {
    const Stmt *loop;              /* its FOR; NULL in scope 0 */
    LLVMBasicBlockRef at;          /* its last block; not kept for the innermost scope, where the builder stands */
    LLVMValueRef var;              /* body: what the FOR counts, as i64; the first lane's in a vector FOR */
    uint8_t *changed;              /* body: per array, then per state: the FOR stores to it, or sets or reduces it */
    uint32_t stamp;
    Memo *val, *splat, *ptr, *records;       /* per value, value, access, access (fields.c) */
    Level *level;                  /* per value, as seen from here */
} Scope;

enum { MAX_SCOPES = 4 * KERNEL_MAX_AXES + 12 };

/* A reduction in progress: one SSA value per component. `lanes` holds what a vector FOR gathers for a state from outside of it.
 * counted: the index value of an argmax that keeps the vector FOR's own count where the best value of each lane was met (extreme.c);
 * watched: one more component than it has, lanes[1] or lanes[2], says whether, or where, NaN was met.
 * tallied: a sum of bools, whose lanes are one word: how many were true. in_spans: spans.c adds it up.
 * in_order: an argmax that meets its elements in the order of their indices. same_count: moments whose lanes all count the same elements; v[0] is a scalar. */
typedef struct { LLVMValueRef v[3], lanes[3]; bool vector, gathering, same_count, in_order, watched, tallied, in_spans; uint32_t counted; } StateCode;

typedef struct Squares Squares;

typedef struct {
    Emit e;
    const Kernel *k;
    Arena *arena;
    LLVMTypeRef i8, i32, i64, ptr;
    LLVMValueRef args, begin, end, scratch, *arg;      /* arg: words of args loaded in scope 0 */
    LLVMValueRef buffer;                               /* stack memory of one vector, for masks without instructions */
    LLVMBasicBlockRef trap;                            /* of failed bounds checks */
    Scope scope[MAX_SCOPES];
    int depth;                                         /* the innermost scope */
    int vec;                                           /* body of the vector FOR we are in; 0: none */
    unsigned lanes;                                    /* and its lanes */
    LLVMValueRef mask, active;                         /* its active lanes and their number (i64); NULL: all */
    uint32_t stamp;
    StateCode *state;
    Squares *squares;                                  /* of the scan that we are in; NULL: none */
    bool once;                                         /* what is made now runs once for many runs of a copy of it: it asks for nothing ahead */
    bool vnni;                                         /* the code may add products of bytes by an instruction */
} Gen;

/* ---- scopes (val.c) ---- */
/* Notes that the innermost scope ends here: to be called before its branch is made. */
void scope_seal(Gen *g);
/* Ends it with a branch to a new block, for another scope: were they to share one, code that is put into the outer scope later could
 * split a block that phis of the inner one name. */
void scope_continue(Gen *g);
/* Opens the scope before a FOR, or its body (var given); the builder already stands in it. */
bool scope_open(Gen *g, const Stmt *loop, LLVMValueRef var);
void scope_close(Gen *g);
/* Moves the builder to the end of a scope, before its branch; scope_leave moves it back. May not be nested. */
typedef struct { LLVMBasicBlockRef home; LLVMValueRef branch; int depth; unsigned lanes; } Moved;
Moved scope_enter(Gen *g, int depth, unsigned lanes);
void scope_leave(Gen *g, Moved m);

/* ---- values (val.c) ---- */
Level val_level(Gen *g, uint32_t val);
/* The value as it is (a vector where val_level says so), and as a vector in a vector FOR. */
LLVMValueRef val_get(Gen *g, uint32_t val);
LLVMValueRef val_lanes(Gen *g, uint32_t val);
LLVMValueRef arg_word(Gen *g, int32_t arg);                        /* args[arg] */
LLVMValueRef int64_const(const Gen *g, int64_t x);

/* ---- memory (access.c) ---- */
/* Bytes per step of what a FOR counts, as i64; *literal says whether it is a known number and *bytes which. */
LLVMValueRef access_stride(Gen *g, const Access *x, const Stmt *loop, bool *literal, int64_t *bytes);
bool access_moves(const Gen *g, const Access *x, const Stmt *loop);
/* A load for val_get: made in scope `depth`; only: a bool value (0: none) without which nothing is read, and the result is 0. */
LLVMValueRef access_load(Gen *g, uint32_t access, uint32_t only, bool vector, int depth);
void access_store(Gen *g, uint32_t access, uint32_t val);
/* Plain pieces that dot.c uses too. Elements of `dt` in memory; lanes consecutive ones, the first `active` of them if mask is given. */
LLVMValueRef memory_load(Gen *g, Dtype dt, LLVMValueRef ptr);
void memory_store(Gen *g, Dtype dt, LLVMValueRef ptr, LLVMValueRef x);
LLVMValueRef memory_load_lanes(Gen *g, Dtype dt, LLVMValueRef ptr, LLVMValueRef mask, LLVMValueRef active);
void memory_store_lanes(Gen *g, Dtype dt, LLVMValueRef ptr, LLVMValueRef x, LLVMValueRef mask, LLVMValueRef active);
/* Asks for the line that holds `at`, an address where nothing is does no harm; store: to write to it. */
void memory_prefetch(Gen *g, LLVMValueRef at, bool store);
/* A load and a store of e.lanes lanes (0: a scalar) through x that stand `stride` bytes apart, g->active of them; checked. */
typedef struct { LLVMValueRef v; int64_t bytes; bool literal; } Stride;
LLVMValueRef lanes_load(Gen *g, const Access *x, LLVMValueRef ptr, Stride stride);
void lanes_store(Gen *g, const Access *x, LLVMValueRef ptr, Stride stride, LLVMValueRef v);
/* Element 0 with scalar index values and all words that bounds checks need: afterwards lanes_load looks at no other scope. */
LLVMValueRef access_base(Gen *g, uint32_t access);
LLVMValueRef byte_offset(Gen *g, LLVMValueRef ptr, LLVMValueRef bytes);
/* In a checked kernel: traps unless bytes at ptr lie within the operand. */
void bounds_check(Gen *g, uint32_t array, LLVMValueRef ptr, LLVMValueRef bytes);
/* The mask of the first `active` (1 ... lanes) of e.lanes lanes. */
LLVMValueRef lane_mask(Gen *g, LLVMValueRef active);
/* 0, 1, ... lanes - 1 as a vector of int64. */
LLVMValueRef lane_numbers(Gen *g);

/* The first access that differs from this one by no more than its literal offset. */
uint32_t leader_of(const Gen *g, uint32_t access);

/* ---- fields.c ---- */
/* Which of the three bytes of a record an access reads, where the kernel reads all of them; -1: none. */
int field_of(const Gen *g, uint32_t access);
/* e.lanes (a multiple of 16) bytes, one of each record, the first at ptr, in scope `depth`. */
LLVMValueRef field_load(Gen *g, uint32_t access, LLVMValueRef ptr, int field, int depth);

/* ---- transpose.c ---- */
void transpose_emit(Gen *g, const Stmt *s);
/* Turns a square of `lanes` vectors (a power of two, at most 16): element j of vector i becomes element i of vector j. */
void square_turn(Gen *g, LLVMValueRef *row, int lanes);

/* ---- loops (loop.c) ---- */
/* Whether a statement of that kind with a == id stands in the FOR. */
bool for_contains(const Gen *g, const Stmt *loop, StmtKind kind, uint32_t id);
/* The word of a size; how many blocks hold `size`. */
LLVMValueRef size_word(Gen *g, Size s);
LLVMValueRef blocks_of(Gen *g, LLVMValueRef size, LLVMValueRef block);
/* An axis' extent, and that of its current block. */
LLVMValueRef size_of(Gen *g, const Axis *axis);
LLVMValueRef within_extent(Gen *g, uint32_t axis);
/* Values that vary along the FOR, and statements: what a copy of its body takes. */
int body_cost(Gen *g, const Stmt *loop);
/* Fills the kernel's function. */
void loop_kernel(Gen *g);

/* Variables that change in a loop or on one side of a branch: pointers to SSA values, which get phis. */
enum { MAX_CARRIED = 512 };
typedef struct { LLVMValueRef *var[MAX_CARRIED], before[MAX_CARRIED]; int n; } Carried;
void carried_add(Gen *g, Carried *c, LLVMValueRef *var);
/* The states that the FOR changes and that live outside of it. */
void carry_states(Gen *g, Carried *c, const Stmt *loop);
/* A bottom-tested loop: the builder is left in its body. cond: enter at all (NULL: always). The entry is the innermost scope, or, set before for a loop
 * right inside another one, the block that the builder stands in. */
typedef struct { LLVMBasicBlockRef entry, body, after; LLVMValueRef i, start, done, phi[MAX_CARRIED]; bool maybe; Carried c; } Loop;
void loop_open(Gen *g, Loop *l, LLVMValueRef start, LLVMValueRef cond);
/* Ends the loop that goes on with i = next while next < limit, and not `done` where that is set; body scopes are closed before. */
void loop_close(Gen *g, Loop *l, LLVMValueRef next, LLVMValueRef limit);
/* What is done only if cond holds. The branch is the innermost scope's. */
typedef struct { LLVMBasicBlockRef after; Carried c; int depth; } Fork;
void fork_open(Gen *g, Fork *f, LLVMValueRef cond);
void fork_close(Gen *g, Fork *f);

/* ---- order (order.c) ---- */
/* Makes the values of a vector FOR's body, which the builder stands in, in the kernel's order, where it is long and fewer values wait in registers so. */
void body_values(Gen *g, const Stmt *loop);

/* ---- spans (spans.c) ---- */
/* Whether the state is a sum of floats that nothing reads while it is added up. */
bool state_in_spans(const Gen *g, uint32_t state);
/* Whether a sum of floats has nothing in it yet: what is added to it is the sum. */
bool sum_is_nothing(LLVMValueRef sum);
/* The sums that the FOR runs over and that have begun start at nothing again, and are added to what they were. */
typedef struct { LLVMValueRef *var[MAX_CARRIED], before[MAX_CARRIED]; int n; } Restart;
void sums_restart(Gen *g, Restart *r, const Stmt *loop);
void sums_join(Gen *g, const Restart *r);
/* A loop as loop_open()'s from `start` on by `step`, in loops over spans where the FOR adds up floats; its counter. All zero before. */
enum { SPAN_LEVELS = 2 };
typedef struct { Loop loop[SPAN_LEVELS]; Restart sums[SPAN_LEVELS]; LLVMValueRef next[SPAN_LEVELS], limit[SPAN_LEVELS]; int levels; } Spans;
LLVMValueRef spans_open(Gen *g, Spans *s, const Stmt *loop, LLVMValueRef start, LLVMValueRef limit, int64_t step, LLVMValueRef cond);
void spans_close(Gen *g, Spans *s);
typedef void (*LoopBody)(Gen *g, const Stmt *loop, LLVMValueRef var);
/* Iterations from ... from + n - 1 of a sequential FOR, each by itself; sums of floats in pairs. */
void sums_in_pairs(Gen *g, const Stmt *loop, int64_t from, int64_t n, LoopBody body);
/* Iterations 0 ... n - 1 of a sequential FOR that adds up floats; body makes one. False, and nothing is made: it adds up none, or too many at once. */
bool sums_side_by_side(Gen *g, const Stmt *loop, LLVMValueRef n, LoopBody body);

/* ---- squares (squares.c) ---- */
/* Iterations 0 ... n - 1 of a scan over rows side by side, some at once; body makes one. False, and nothing is made: it is no such FOR. */
bool squares_loop(Gen *g, const Stmt *loop, LLVMValueRef n, LoopBody body);
/* What the current step loads in scope `depth`, and takes what it stores; false: it is no turned access of such a loop. */
bool squares_load(Gen *g, uint32_t access, int depth, LLVMValueRef *out);
bool squares_store(Gen *g, uint32_t access, uint32_t val);

/* ---- reductions (reduce.c) ---- */
void state_init(Gen *g, uint32_t state);
void state_reduce(Gen *g, const Stmt *s);
/* At the end of a body of a vector FOR: whether what it reduces, and nothing else is done in it, stays as it is whatever comes; NULL: it may always change. */
LLVMValueRef state_decided(Gen *g, const Stmt *loop);
LLVMValueRef state_read(Gen *g, uint32_t state, uint32_t component);
int state_width(const Gen *g, uint32_t state);
/* Around a vector FOR: states set outside of it and reduced in it get a value per lane, then take in all lanes, halving. */
void states_spread(Gen *g, const Stmt *loop);
void states_gather(Gen *g, const Stmt *loop);
/* Elements from ... from + n - 1 of a vector; one element as a scalar. */
LLVMValueRef lanes_part(Gen *g, LLVMValueRef x, unsigned from, unsigned n);

/* ---- max, min, argmax, argmin along a vector FOR (extreme.c) ---- */
/* Before it, e.lanes being its lanes: how the state is kept, if it is one of these; sets `counted` and `watched`. The other two are for such states. */
void extreme_spread(Gen *g, const Stmt *loop, uint32_t state);
void extreme_reduce(Gen *g, const Stmt *s);
/* After it: the components of the best lane, as scalars in `lanes`. */
void extreme_gather(Gen *g, const Stmt *loop, uint32_t state);

/* ---- products (dot.c) ---- */
void dot_emit(Gen *g, const Stmt *s);
