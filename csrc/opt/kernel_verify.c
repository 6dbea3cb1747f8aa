/* The definition of a legal kernel.
 *
 * First the tables: every id in range, inputs before users, dtypes as the op table has them. Then one walk over the body, which
 * follows the axes that run, the states in scope and where each value is evaluated. */
#include <stdarg.h>
#include <stdio.h>
#include "opt/kernel.h"

#define MAX_DEPTH (2 * KERNEL_MAX_AXES)

typedef struct { uint32_t init, end, changed; } StateInfo;   /* INIT and its scope's end, last change; statements + 1, 0: none */
typedef struct { uint32_t made, end, seen; } ValInfo;        /* evaluated by which statement + 1; the end of the body it holds in; looked at by */
typedef struct { uint32_t stored, body; } ArrayInfo;         /* last statement that wrote it + 1, and that one's body */

typedef struct {
    const Kernel *k;
    Err *err;
    uint32_t at;                                            /* the statement looked at */
    uint32_t open[MAX_DEPTH], depth;                        /* the FORs it is in */
    uint8_t running[KERNEL_MAX_AXES];                       /* 1 << Part */
    StateInfo *states;
    ValInfo *vals;
    ArrayInfo *arrays;
    uint32_t *stores, *stored;                              /* per access: it is stored through anywhere; last such statement so far + 1 */
    uint32_t *elsewhere;                                    /* per access: such a statement in the FULL block that the REST we are in stands for, or 0 */
} Verify;

static bool __attribute__((format(printf, 2, 3))) illegal(Verify *v, const char *fmt, ...)
{
    char why[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return err_set(v->err, ERR_INTERNAL, "illegal kernel, statement %u: %s", v->at, why);
}

#define REQUIRE(v, cond, ...)                \
    do {                                     \
        if (!(cond))                         \
            return illegal(v, __VA_ARGS__);  \
    } while (0)

/* ---- tables ---- */

static bool check_coef(Verify *v, Coef c, const char *what, uint32_t id)
{
    REQUIRE(v, c.kind <= COEF_SAME, "%s %u: no such coefficient", what, id);
    REQUIRE(v, c.kind != COEF_RUN || (uint32_t)c.arg < v->k->nargs, "%s %u: arg%d is past args", what, id, c.arg);
    return true;
}

static bool size_fits(const Kernel *k, Size s) { return s.arg < 0 ? s.lit >= 0 : (uint32_t)s.arg < k->nargs; }

static bool check_axes(Verify *v)
{
    const Kernel *k = v->k;
    REQUIRE(v, k->axes.len <= KERNEL_MAX_AXES, "%u axes", k->axes.len);
    for (uint32_t i = 0; i < k->axes.len; i++) {
        const Axis *x = &k->axes.at[i];
        REQUIRE(v, size_fits(k, x->size), "axis a%u: its size", i);
        REQUIRE(v, size_fits(k, x->block) && x->block.lit <= INT32_MAX, "axis a%u: its block", i);
        REQUIRE(v, x->follow <= FOLLOW_REST && x->lead >= 0, "axis a%u: how it follows", i);
        REQUIRE(v, !x->follow || (x->leader < k->axes.len && axis_blocked(&k->axes.at[x->leader]) && !k->axes.at[x->leader].follow), "axis a%u: its leader", i);
    }
    return true;
}

static bool check_arrays(Verify *v)
{
    const Kernel *k = v->k;
    for (uint32_t i = 0; i < k->arrays.len; i++) {
        const Array *x = &k->arrays.at[i];
        uint32_t words = k->checked && x->kind == ARRAY_OPERAND ? 3 : 1;
        REQUIRE(v, x->kind <= ARRAY_SCRATCH && x->dtype < DT_COUNT, "array A%u: kind or dtype", i);
        REQUIRE(v, !x->swapped || (x->kind == ARRAY_OPERAND && dtype_info[x->dtype].bytes > 1), "array A%u: only operands are swapped", i);
        REQUIRE(v, x->arg >= 0 && (uint64_t)x->arg + words <= k->nargs, "array A%u: arg%d is past args", i, x->arg);
    }
    for (uint32_t i = 0; i < k->states.len; i++) {
        const State *s = &k->states.at[i];
        REQUIRE(v, s->monoid < MONOID_COUNT && s->dtype < DT_COUNT, "state s%u: monoid or dtype", i);
        bool floats = s->monoid == MONOID_moments || s->monoid == MONOID_sum2;
        REQUIRE(v, !floats || dtype_info[s->dtype].kind == DKIND_FLOAT, "state s%u: %s is of floats", i, monoid_info[s->monoid].name);
    }
    return true;
}

static bool check_access(Verify *v, uint32_t id)
{
    const Kernel *k = v->k;
    const Access *x = &k->accesses.at[id];
    REQUIRE(v, x->array < k->arrays.len, "access x%u: A%u", id, x->array);
    REQUIRE(v, x->off_arg < 0 || (uint32_t)x->off_arg < k->nargs, "access x%u: arg%d is past args", id, x->off_arg);
    REQUIRE(v, x->nindex <= KERNEL_MAX_INDEX, "access x%u: %u index values", id, x->nindex);
    for (uint32_t i = 0; i < KERNEL_MAX_AXES; i++) {
        if (!check_coef(v, x->coef[i], "access", id) || !check_coef(v, x->outer[i], "access", id))
            return false;
        REQUIRE(v, i < k->axes.len || (x->coef[i].kind == COEF_ZERO && x->outer[i].kind == COEF_ZERO), "access x%u: no axis a%u", id, i);
        REQUIRE(v, x->coef[i].kind != COEF_SAME, "access x%u: the coefficient of a%u is `same`", id, i);
        REQUIRE(v, x->outer[i].kind == COEF_ZERO || axis_blocked(&k->axes.at[i]), "access x%u: a%u has no blocks", id, i);
    }
    for (uint32_t i = 0; i < x->nindex; i++) {
        uint32_t val = x->index[i].val;
        if (!check_coef(v, x->index[i].coef, "access", id))
            return false;
        REQUIRE(v, x->index[i].coef.kind != COEF_SAME, "access x%u: the coefficient of an index is `same`", id);
        REQUIRE(v, val && val < k->vals.len && k->vals.at[val].dtype == DT_int64, "access x%u: index %%%u is not an int64 value", id, val);
    }
    return true;
}

static bool dtype_in(Dtype t, const char *letters)
{
    for (; *letters; letters++)
        if (*letters == "biufc"[dtype_info[t].kind])
            return true;
    return false;
}

/* dtype of the inputs of an op that has one for all: what the result rule and the table's letters speak of. */
static bool check_op(Verify *v, uint32_t id)
{
    const Val *x = &v->k->vals.at[id];
    REQUIRE(v, x->op < OP_COUNT && op_info[x->op].kind == KIND_ELEMENTWISE, "%%%u: op %u is not elementwise", id, x->op);
    const OpInfo *op = &op_info[x->op];
    const uint32_t in[] = { x->a, x->b, x->c };
    Dtype t[3] = { 0 };
    for (int i = 0; i < op->nin; i++) {
        REQUIRE(v, in[i] && in[i] < id, "%%%u: input %%%u is not before it", id, in[i]);
        t[i] = v->k->vals.at[in[i]].dtype;
    }
    if (x->op == OP_where) {
        REQUIRE(v, t[0] == DT_bool_ && t[1] == x->dtype && t[2] == x->dtype, "%%%u: dtypes of where", id);
        return true;
    }
    for (int i = 0; i < op->nin; i++)
        REQUIRE(v, t[i] == t[0] && dtype_in(t[i], op->dtypes), "%%%u: %s of %s", id, op->name, dtype_info[t[i]].name);
    bool part = x->op == OP_real || x->op == OP_imag;
    REQUIRE(v, part || (dtype_info[t[0]].kind != DKIND_COMPLEX && (x->op == OP_complex_ || dtype_info[x->dtype].kind != DKIND_COMPLEX)),
            "%%%u: %s of %s is not for kernels", id, op->name, dtype_info[t[0]].name);
    Dtype result = op->result == RESULT_BOOL ? DT_bool_ : op->result == RESULT_I64 ? DT_int64 : op->result == RESULT_T ? t[0] : x->dtype;
    if (part)
        result = t[0] == DT_complex64 ? DT_float32 : DT_float64;
    if (x->op == OP_complex_)
        result = t[0] == DT_float32 ? DT_complex64 : DT_complex128;
    REQUIRE(v, x->dtype == result, "%%%u: %s of %s gives %s", id, op->name, dtype_info[t[0]].name, dtype_info[x->dtype].name);
    return true;
}

static bool check_load(Verify *v, uint32_t id)
{
    const Kernel *k = v->k;
    const Val *x = &k->vals.at[id];
    REQUIRE(v, x->a < k->accesses.len, "%%%u: no access x%u", id, x->a);
    const Access *access = &k->accesses.at[x->a];
    REQUIRE(v, x->dtype == k->arrays.at[access->array].dtype, "%%%u: dtype of x%u", id, x->a);
    REQUIRE(v, x->b < id && (!x->b || k->vals.at[x->b].dtype == DT_bool_), "%%%u: %%%u does not say whether it is read", id, x->b);
    REQUIRE(v, !x->b || dtype_info[x->dtype].kind != DKIND_COMPLEX, "%%%u: a complex number that may not be read", id);
    for (uint32_t i = 0; i < access->nindex; i++)
        REQUIRE(v, access->index[i].val < id, "%%%u: index %%%u is not before it", id, access->index[i].val);
    return true;
}

static bool check_state_val(Verify *v, uint32_t id)
{
    const Val *x = &v->k->vals.at[id];
    REQUIRE(v, x->a < v->k->states.len, "%%%u: no state s%u", id, x->a);
    const State *s = &v->k->states.at[x->a];
    REQUIRE(v, x->b < monoid_info[s->monoid].width, "%%%u: s%u has no component %u", id, x->a, x->b);
    bool index = x->b == 1 && (s->monoid == MONOID_argmax || s->monoid == MONOID_argmin);
    REQUIRE(v, x->dtype == (index ? DT_int64 : s->dtype), "%%%u: dtype of s%u.%u", id, x->a, x->b);
    return true;
}

static bool check_val(Verify *v, uint32_t id)
{
    const Val *x = &v->k->vals.at[id];
    REQUIRE(v, x->dtype < DT_COUNT, "%%%u: no dtype %u", id, x->dtype);
    switch ((ValKind)x->kind) {
    case VAL_CONST: return true;
    case VAL_WORD:
        REQUIRE(v, x->a < v->k->nargs && (x->dtype == DT_float32 || x->dtype == DT_float64 || x->dtype == DT_int64), "%%%u: arg%u as a number", id, x->a);
        return true;
    case VAL_LOAD: return check_load(v, id);
    case VAL_AXIS:
        REQUIRE(v, x->a < v->k->axes.len && x->dtype == DT_int64, "%%%u: axis a%u as int64", id, x->a);
        return true;
    case VAL_STATE: return check_state_val(v, id);
    case VAL_OP: return check_op(v, id);
    case VAL_NONE: break;
    }
    return illegal(v, "%%%u: no such kind of value", id);
}

/* Ids in statements that the walk reads before it looks at them one by one. */
static bool check_stmt_ids(Verify *v)
{
    const Kernel *k = v->k;
    for (v->at = 0; v->at < k->stmts.len; v->at++) {
        const Stmt *s = &k->stmts.at[v->at];
        if (s->kind == STMT_STORE || s->kind == STMT_DOT || s->kind == STMT_TRANSPOSE) {
            REQUIRE(v, s->a < k->accesses.len, "no access x%u", s->a);
            v->stores[s->a] = 1;
        }
        if (s->kind == STMT_INIT || s->kind == STMT_REDUCE)
            REQUIRE(v, s->a < k->states.len, "no state s%u", s->a);
        if (s->kind == STMT_FOR)
            REQUIRE(v, s->axis < k->axes.len, "no axis a%u", s->axis);
        REQUIRE(v, s->kind == STMT_FOR ? s->end > v->at && s->end <= k->stmts.len : s->end == v->at + 1, "its end is %u", s->end);
    }
    v->at = 0;
    return true;
}

static bool check_tables(Verify *v)
{
    const Kernel *k = v->k;
    if (!check_axes(v) || !check_arrays(v))
        return false;
    for (uint32_t i = 0; i < k->accesses.len; i++)
        if (!check_access(v, i))
            return false;
    if (!check_stmt_ids(v))
        return false;
    REQUIRE(v, k->vals.len && k->vals.at[0].kind == VAL_NONE, "value 0 is not none");
    for (uint32_t i = 1; i < k->vals.len; i++)
        if (!check_val(v, i))
            return false;
    return true;
}

/* ---- the walk ---- */

/* The body that the statement stands in: its FOR's statement + 1, 0: the top. */
static uint32_t body(const Verify *v)
{
    return v->depth ? v->open[v->depth - 1] + 1 : 0;
}

static uint32_t body_end(const Verify *v)
{
    return v->depth ? v->k->stmts.at[v->open[v->depth - 1]].end : v->k->stmts.len;
}

/* Whether a statement of kind `kind` with a == id stands in the FOR. */
static bool contains(const Kernel *k, uint32_t stmt, StmtKind kind, uint32_t id)
{
    for (uint32_t i = stmt + 1; i < k->stmts.at[stmt].end; i++)
        if (k->stmts.at[i].kind == kind && k->stmts.at[i].a == id)
            return true;
    return false;
}

/* Whether statement s (or NULL) runs through the axis itself. */
static bool runs_itself(const Stmt *s, uint32_t axis)
{
    return s && (axis == s->axis || axis == s->axis_n || (s->kind == STMT_DOT && (axis == s->axis_k || s->sums >> axis & 1)));
}

/* The axes that an access moves along run in the parts it needs; a DOT runs three of them itself, a TRANSPOSE two. */
static bool check_running(Verify *v, uint32_t id, const Stmt *own)
{
    const Access *x = &v->k->accesses.at[id];
    for (uint32_t i = 0; i < v->k->axes.len; i++) {
        if (runs_itself(own, i))
            continue;
        bool inside = v->running[i] & (uint8_t)~(1 << PART_BLOCKS);
        REQUIRE(v, x->coef[i].kind == COEF_ZERO || inside, "access x%u moves along a%u, which does not run here", id, i);
        REQUIRE(v, x->outer[i].kind == COEF_ZERO || v->running[i] & 1 << PART_BLOCKS, "access x%u: the blocks of a%u do not run here", id, i);
    }
    return true;
}

static bool check_state_read(Verify *v, uint32_t id, uint32_t state)
{
    const StateInfo *s = &v->states[state];
    REQUIRE(v, s->init && v->at < s->end, "%%%u reads s%u, which no INIT in scope sets", id, state);
    for (uint32_t d = 0; d < v->depth; d++) {
        uint32_t f = v->open[d];
        bool outside = s->init <= f;
        REQUIRE(v, !outside || !v->k->stmts.at[f].lanes || !contains(v->k, f, STMT_REDUCE, state),
                "%%%u reads s%u inside the vector FOR that reduces it", id, state);
    }
    return true;
}

static bool check_load_here(Verify *v, uint32_t id, uint32_t access)
{
    uint32_t array = v->k->accesses.at[access].array;
    bool apart = v->k->accesses.at[access].apart;
    if (v->k->arrays.at[array].ordered) {
        bool own = v->stores[access] && !v->stored[access];
        REQUIRE(v, apart || own || v->arrays[array].body != body(v) || !v->arrays[array].stored, "%%%u reads A%u in the body that has written it", id, array);
        return check_running(v, access, NULL);
    }
    if (v->k->arrays.at[array].kind == ARRAY_OPERAND) {
        REQUIRE(v, !v->k->arrays.at[array].written || apart || v->stores[access], "%%%u: A%u is written, but not through x%u", id, array, access);
        REQUIRE(v, !v->stored[access], "%%%u reads x%u after it was stored", id, access);
        return check_running(v, access, NULL);
    }
    const ArrayInfo *a = &v->arrays[array];
    REQUIRE(v, a->stored, "%%%u reads scratch A%u before it is written", id, array);
    REQUIRE(v, a->body != body(v), "%%%u reads scratch A%u in the body that writes it", id, array);
    return check_running(v, access, NULL);
}

static bool use(Verify *v, uint32_t id);

static bool use_index(Verify *v, uint32_t access)
{
    const Access *x = &v->k->accesses.at[access];
    for (uint32_t i = 0; i < x->nindex; i++)
        if (!use(v, x->index[i].val))
            return false;
    return true;
}

/* A value that is evaluated here, or was in a body still open: then nothing it reads may have changed since. */
static bool use(Verify *v, uint32_t id)
{
    const Val *x = &v->k->vals.at[id];
    ValInfo *info = &v->vals[id];
    bool again = info->made && v->at < info->end;
    if (info->seen == v->at + 1)
        return true;
    info->seen = v->at + 1;
    if (x->kind == VAL_OP) {
        const uint32_t in[] = { x->a, x->b, x->c };
        for (int i = 0; i < op_info[x->op].nin; i++)
            if (!use(v, in[i]))
                return false;
    }
    if (x->kind == VAL_LOAD) {
        uint32_t array = v->k->accesses.at[x->a].array;
        if ((x->b && !use(v, x->b)) || !use_index(v, x->a) || (!again && !check_load_here(v, id, x->a)))
            return false;
        bool scratch = v->k->arrays.at[array].kind == ARRAY_SCRATCH && !v->k->arrays.at[array].ordered;
        REQUIRE(v, !again || !scratch || v->arrays[array].stored < info->made, "%%%u was read before A%u was written again", id, array);
    }
    if (x->kind == VAL_STATE) {
        if (!again && !check_state_read(v, id, x->a))
            return false;
        REQUIRE(v, !again || v->states[x->a].changed < info->made, "%%%u was read before s%u changed", id, x->a);
    }
    if (x->kind == VAL_AXIS)
        REQUIRE(v, v->running[x->a], "%%%u: axis a%u does not run here", id, x->a);
    if (!again) {
        info->made = v->at + 1;
        info->end = body_end(v);
    }
    return true;
}

static bool use_val(Verify *v, uint32_t id, Dtype dtype)
{
    REQUIRE(v, id && id < v->k->vals.len, "no value %%%u", id);
    REQUIRE(v, v->k->vals.at[id].dtype == dtype, "%%%u is not %s", id, dtype_info[dtype].name);
    return use(v, id);
}

/* A block is FULL or it is a REST: what the one stores the other has not stored. (Leaving a REST, it may have been either.) */
static void enter_rest(Verify *v, const Stmt *s)
{
    uint32_t full = v->at;
    while (full-- && !(v->k->stmts.at[full].kind == STMT_FOR && v->k->stmts.at[full].part == PART_FULL && v->k->stmts.at[full].axis == s->axis)) {}
    for (uint32_t i = 0; full != UINT32_MAX && i < v->k->accesses.len; i++)
        if (v->stored[i] > full) {
            v->elsewhere[i] = v->stored[i];
            v->stored[i] = 0;
        }
}

static void leave_rest(Verify *v)
{
    for (uint32_t i = 0; i < v->k->accesses.len; i++) {
        v->stored[i] = v->stored[i] ? v->stored[i] : v->elsewhere[i];
        v->elsewhere[i] = 0;
    }
}

/* A FOR whose blocks may have other borders. */
static bool check_lines(Verify *v, const Stmt *s)
{
    const Kernel *k = v->k;
    REQUIRE(v, s->part == PART_WITHIN && s->lanes && s->a <= k->accesses.len && k->arrays.at[k->accesses.at[s->a - 1].array].kind == ARRAY_OPERAND, "no lines of x%u", s->a - 1);
    for (uint32_t i = v->at + 1; i < s->end; i++) {
        const Stmt *in = &k->stmts.at[i];
        REQUIRE(v, in->kind != STMT_REDUCE || contains(k, v->at, STMT_INIT, in->a), "lanes of s%u are combined in blocks without borders", in->a);
    }
    for (uint32_t i = 0; i < k->accesses.len; i++) {
        const Access *x = &k->accesses.at[i];
        REQUIRE(v, k->arrays.at[x->array].kind != ARRAY_SCRATCH || x->coef[s->axis].kind == COEF_ZERO, "scratch x%u along blocks without borders", i);
    }
    return true;
}

static bool walk_for(Verify *v, const Stmt *s)
{
    const Kernel *k = v->k;
    const Axis *axis = &k->axes.at[s->axis];
    uint8_t running = v->running[s->axis];
    REQUIRE(v, !axis->follow || (!s->grid && v->running[axis->leader] & 1 << PART_BLOCKS), "a%u follows a%u, whose blocks do not run here", s->axis, axis->leader);
    REQUIRE(v, s->part <= PART_REST && (axis_blocked(axis) ? s->part != PART_WHOLE : s->part == PART_WHOLE),
            "a%u is %sblocked", s->axis, axis_blocked(axis) ? "" : "not ");
    REQUIRE(v, !(running & 1 << s->part), "a%u runs already", s->axis);
    REQUIRE(v, s->part != PART_BLOCKS || !running, "the blocks of a%u inside one", s->axis);
    REQUIRE(v, s->part < PART_WITHIN || running == 1 << PART_BLOCKS, "the inside of a%u outside its blocks, or in itself", s->axis);
    REQUIRE(v, s->part != PART_FULL || !s->lanes, "lanes of a FOR that runs once");
    if (s->a && !check_lines(v, s))
        return false;
    REQUIRE(v, s->end <= body_end(v), "it ends after the FOR around it");
    REQUIRE(v, s->lanes <= KERNEL_MAX_LANES && (s->lanes & (s->lanes - 1)) == 0, "%u lanes", s->lanes);
    for (uint32_t d = 0; d < v->depth && s->lanes; d++)
        REQUIRE(v, !k->stmts.at[v->open[d]].lanes, "a vector FOR in a vector FOR");
    REQUIRE(v, s->grid == (v->at < k->ngrid), "grid FORs are the %u leading ones", k->ngrid);
    REQUIRE(v, !s->grid || (s->end == k->stmts.len && !s->lanes && s->part <= PART_BLOCKS), "a grid FOR has lanes, or does not span the kernel");
    v->open[v->depth++] = v->at;                            /* at most two per axis, so it fits */
    v->running[s->axis] |= (uint8_t)(1 << s->part);
    if (s->part == PART_REST)
        enter_rest(v, s);
    return true;
}

static bool walk_init(Verify *v, const Stmt *s)
{
    v->states[s->a] = (StateInfo){ v->at + 1, body_end(v), v->at + 1 };
    return true;
}

static bool walk_reduce(Verify *v, const Stmt *s)
{
    const State *state = &v->k->states.at[s->a];
    StateInfo *info = &v->states[s->a];
    Dtype t = state->dtype;
    bool arg = state->monoid == MONOID_argmax || state->monoid == MONOID_argmin;
    REQUIRE(v, info->init && v->at < info->end, "REDUCE of s%u without an INIT in scope", s->a);
    int values = 1 + (s->c != 0) + (s->d != 0), width = monoid_info[state->monoid].width;
    REQUIRE(v, arg ? values == 2 : values == 1 || values == width, "%d values for s%u", values, s->a);
    if (!use_val(v, s->b, t) || (s->c && !use_val(v, s->c, arg ? DT_int64 : t)) || (s->d && !use_val(v, s->d, t)))
        return false;
    info->changed = v->at + 1;
    return true;
}

/* A store through `access`, by this statement. */
static bool walk_write(Verify *v, uint32_t access, uint32_t body_of_it)
{
    uint32_t array = v->k->accesses.at[access].array;
    const Array *x = &v->k->arrays.at[array];
    REQUIRE(v, x->kind == ARRAY_SCRATCH || x->written, "A%u is not marked as written", array);
    v->stored[access] = v->at + 1;
    v->arrays[array] = (ArrayInfo){ v->at + 1, body_of_it };
    return true;
}

static bool walk_store(Verify *v, const Stmt *s)
{
    return use_val(v, s->b, v->k->arrays.at[v->k->accesses.at[s->a].array].dtype) && use_index(v, s->a) && check_running(v, s->a, NULL)
           && walk_write(v, s->a, body(v));
}

static bool walk_dot(Verify *v, const Stmt *s)
{
    const Kernel *k = v->k;
    const uint32_t access[] = { s->a, s->b, s->c }, axes[] = { s->axis, s->axis_n, s->axis_k };
    REQUIRE(v, s->b < k->accesses.len && s->c < k->accesses.len, "no access x%u or x%u", s->b, s->c);
    REQUIRE(v, s->axis != s->axis_n && s->axis != s->axis_k && s->axis_n != s->axis_k, "the axes of DOT are not three");
    Dtype t = k->arrays.at[k->accesses.at[s->a].array].dtype;
    for (int i = 0; i < 3; i++)
        REQUIRE(v, axes[i] < k->axes.len, "no axis a%u", axes[i]);
    for (int i = 0; i < 3; i++) {
        const Axis *axis = &k->axes.at[axes[i]];
        REQUIRE(v, !axis->follow || v->running[axis->leader] & 1 << PART_BLOCKS, "a%u follows a%u, whose blocks do not run here", axes[i], axis->leader);
        REQUIRE(v, !(v->running[axes[i]] & ~(1 << PART_BLOCKS)), "a%u of DOT runs already", axes[i]);
        /* C does not move along k, A along n, B along m */
        uint32_t absent = i == 0 ? s->axis_k : i == 1 ? s->axis_n : s->axis;
        REQUIRE(v, k->accesses.at[access[i]].coef[absent].kind == COEF_ZERO, "x%u of DOT moves along a%u", access[i], absent);
        REQUIRE(v, k->arrays.at[k->accesses.at[access[i]].array].dtype == t, "dtypes of DOT");
    }
    for (uint32_t i = 0; i < 16; i++) {
        if (!(s->sums >> i & 1))
            continue;
        REQUIRE(v, i < k->axes.len && i != s->axis && i != s->axis_n && i != s->axis_k && !v->running[i] && !axis_blocked(&k->axes.at[i]), "a%u of the sum of DOT", i);
        REQUIRE(v, k->accesses.at[s->a].coef[i].kind == COEF_ZERO, "x%u of DOT moves along a%u", s->a, i);
        REQUIRE(v, !k->axes.at[i].follow, "a%u of the sum of DOT follows", i);
    }
    REQUIRE(v, !s->sums || !axis_blocked(&k->axes.at[s->axis_k]) || v->running[s->axis_k], "the blocks of a%u of a sum run in DOT", s->axis_k);
    REQUIRE(v, dtype_in(t, op_info[OP_dot].dtypes), "DOT of %s", dtype_info[t].name);
    REQUIRE(v, s->d <= 0x1FFF && (s->d & DOT_BYTES) != DOT_BYTES && (!(s->d & DOT_BYTES) || t == DT_int32), "bits %u of DOT of %s", s->d, dtype_info[t].name);
    REQUIRE(v, !(s->d & DOT_THIN) || (s->part && s->d & DOT_ROWS_FIRST), "thin DOT without a tile, or not by rows");
    int vectors = dot_vectors(s->d), last = dot_last(s->d);
    REQUIRE(v, !last || (vectors && last >= vectors && last <= vectors + 1), "panels %d %d of DOT", vectors, last);
    for (uint32_t d = 0; d < v->depth; d++)
        REQUIRE(v, !k->stmts.at[v->open[d]].lanes, "DOT in a vector FOR");
    for (int i = 0; i < 3; i++)
        if (!use_index(v, access[i]) || !check_running(v, access[i], s))
            return false;
    return walk_write(v, s->a, v->at + 1);
}

static bool walk_transpose(Verify *v, const Stmt *s)
{
    const Kernel *k = v->k;
    REQUIRE(v, s->b < k->accesses.len, "no access x%u", s->b);
    REQUIRE(v, s->axis < k->axes.len && s->axis_n < k->axes.len && s->axis != s->axis_n, "the axes of TRANSPOSE are not two");
    const Access *to = &k->accesses.at[s->a], *from = &k->accesses.at[s->b];
    const Array *tile = &k->arrays.at[to->array], *source = &k->arrays.at[from->array];
    const uint16_t axes[] = { s->axis, s->axis_n };
    for (int i = 0; i < 2; i++)
        REQUIRE(v, v->running[axes[i]] == (axis_blocked(&k->axes.at[axes[i]]) ? 1 << PART_BLOCKS : 0), "a%u of TRANSPOSE runs, or its blocks do not", axes[i]);
    REQUIRE(v, (tile->kind == ARRAY_SCRATCH || tile->written) && source->kind == ARRAY_OPERAND && !source->written && !source->swapped, "TRANSPOSE of x%u to x%u", s->b, s->a);
    REQUIRE(v, tile->dtype == source->dtype && dtype_info[tile->dtype].bytes <= 8, "dtypes of TRANSPOSE");
    REQUIRE(v, to->coef[s->axis_n].kind == COEF_UNIT && from->coef[s->axis].kind == COEF_UNIT, "strides of TRANSPOSE");
    REQUIRE(v, s->lanes >= 2 && s->lanes <= 16 && !(s->lanes & (s->lanes - 1)), "TRANSPOSE by %u lanes", s->lanes);
    for (uint32_t d = 0; d < v->depth; d++)
        REQUIRE(v, !k->stmts.at[v->open[d]].lanes, "TRANSPOSE in a vector FOR");
    return use_index(v, s->b) && check_running(v, s->a, s) && check_running(v, s->b, s) && walk_write(v, s->a, v->at + 1);
}

static bool walk_check(Verify *v, const Stmt *s)
{
    REQUIRE(v, s->c < v->k->nargs && s->b > 0, "a CHECK without a code or a status word");
    return use_val(v, s->a, DT_bool_);
}

static bool walk_stmt(Verify *v, const Stmt *s)
{
    REQUIRE(v, v->at >= v->k->ngrid || s->kind == STMT_FOR, "not a FOR among the %u grid FORs", v->k->ngrid);
    switch ((StmtKind)s->kind) {
    case STMT_FOR: return walk_for(v, s);
    case STMT_INIT: return walk_init(v, s);
    case STMT_REDUCE: return walk_reduce(v, s);
    case STMT_STORE: return walk_store(v, s);
    case STMT_DOT: return walk_dot(v, s);
    case STMT_TRANSPOSE: return walk_transpose(v, s);
    case STMT_CHECK: return walk_check(v, s);
    }
    return illegal(v, "no such kind of statement");
}

static bool walk(Verify *v)
{
    const Kernel *k = v->k;
    REQUIRE(v, k->ngrid <= k->stmts.len, "%u grid FORs", k->ngrid);
    for (v->at = 0; v->at < k->stmts.len; v->at++) {
        while (v->depth && k->stmts.at[v->open[v->depth - 1]].end <= v->at) {
            const Stmt *f = &k->stmts.at[v->open[--v->depth]];
            v->running[f->axis] &= (uint8_t)~(1 << f->part);
            if (f->part == PART_REST)
                leave_rest(v);
        }
        if (!walk_stmt(v, &k->stmts.at[v->at]))
            return false;
    }
    return true;
}

bool kernel_verify(const Kernel *k, Err *err)
{
    if (err->kind != ERR_NONE)
        return false;
    Arena *a = arena_new(err);
    if (!a)
        return false;
    Verify v = { .k = k, .err = err };
    v.states = arena_alloc(a, (k->states.len + 1) * sizeof *v.states);
    v.vals = arena_alloc(a, (k->vals.len + 1) * sizeof *v.vals);
    v.arrays = arena_alloc(a, (k->arrays.len + 1) * sizeof *v.arrays);
    v.stores = arena_alloc(a, (k->accesses.len + 1) * sizeof *v.stores);
    v.stored = arena_alloc(a, (k->accesses.len + 1) * sizeof *v.stored);
    v.elsewhere = arena_alloc(a, (k->accesses.len + 1) * sizeof *v.elsewhere);
    bool legal = v.states && v.vals && v.arrays && v.stores && v.stored && v.elsewhere && check_tables(&v) && walk(&v);
    arena_free(a);
    return legal;
}
