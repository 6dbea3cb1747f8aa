/* Kernels in plain C: the judge of the code generator, and the way to run without one.
 *
 * A call first prepares: args are put into every access, and each statement gets the list of values that are first used at it, in
 * order, so that running is straight loops over lists. A value lives in one word (its bits, extended) that is valid for the
 * body instance in which it was made.
 *
 * Coordinates run one by one. Only reductions know of lanes: in a vector FOR coordinate i is combined into partial i mod lanes, and the
 * partials are merged by halving after the FOR. A kernel leaves open in which order a sum of floats is added up (code does it in spans, gen/spans.c); here
 * such a state is in two numbers, so that what is read of it is as accurate as that of any good order. */
#include <math.h>
#include <string.h>
#include "opt/kernel.h"

uint64_t interp_violations;

typedef struct { char *base; int64_t stride[KERNEL_MAX_AXES], outer[KERNEL_MAX_AXES], index[KERNEL_MAX_INDEX]; } Place;
typedef struct { int64_t w[3]; } Cell;                      /* components of a state, as bits */
typedef struct { uint32_t first, count, laned; } Work;      /* of a statement: its values in `list`; a FOR's first in `laned`; a REDUCE: is laned */
typedef struct { uint32_t state, next; } Laned;             /* a state that a vector FOR reduces in lanes; next + 1 */
typedef struct { uint32_t made, end; } Known;               /* while preparing: evaluated by which statement + 1, and the end of that body */

typedef struct {
    const Kernel *k;
    const int64_t *args;
    Arena *arena;
    char *scratch;
    Place *places;
    int64_t *vals, *imags;                                  /* imags: second words, of complex values */
    Cell *states, *lanes;                                   /* lanes: KERNEL_MAX_LANES per state that needs them */
    uint32_t *lanes_at;
    Work *work;
    VEC(uint32_t) list;
    VEC(Laned) laned;
    Known *known;                                           /* of values */
    uint32_t *init, *laned_in;                              /* of states: last INIT; the vector FOR that it was listed for, + 1 */
    uint32_t *running;                                      /* whether it is read in the FOR that reduces it: a scan, which rounds each time */
    int64_t within[KERNEL_MAX_AXES], block[KERNEL_MAX_AXES];  /* 0 where the axis does not run */
    bool in_block[KERNEL_MAX_AXES];
    uint32_t lane;
} Interp;

/* ---- elements and addresses ---- */

static int64_t axis_block(const Interp *r, uint32_t axis) { return size_value(r->k->axes.at[axis].block, r->args); }

static int64_t axis_size(const Interp *r, uint32_t axis)
{
    const Axis *x = &r->k->axes.at[axis];
    int64_t size = size_value(x->size, r->args);
    if (!x->follow)
        return size;
    int64_t to = (r->block[x->leader] + 1) * axis_block(r, x->leader) + x->lead;
    to = to < size ? to : size;
    return x->follow == FOLLOW_TO ? to : size - to;
}

static int64_t coef_bytes(const Interp *r, Coef c, int64_t unit, int64_t same)
{
    switch ((CoefKind)c.kind) {
    case COEF_ZERO: return 0;
    case COEF_UNIT: return unit;
    case COEF_LITERAL: return c.lit;
    case COEF_RUN: return r->args[c.arg];
    case COEF_SAME: return same;
    }
    return 0;
}

static void place_access(Interp *r, const Access *x, Place *p)
{
    const Array *array = &r->k->arrays.at[x->array];
    int64_t unit = dtype_info[array->dtype].bytes;
    p->base = array->kind == ARRAY_SCRATCH ? r->scratch + r->args[array->arg] : (char *)(intptr_t)r->args[array->arg];
    p->base += x->off_lit + (x->off_arg >= 0 ? r->args[x->off_arg] : 0);
    for (uint32_t i = 0; i < r->k->axes.len; i++) {
        p->stride[i] = coef_bytes(r, x->coef[i], unit, 0);
        p->outer[i] = coef_bytes(r, x->outer[i], unit, p->stride[i] * axis_block(r, i));
    }
    for (int i = 0; i < x->nindex; i++)
        p->index[i] = coef_bytes(r, x->index[i].coef, unit, 0);
}

static char *address(const Interp *r, uint32_t access)
{
    const Place *p = &r->places[access];
    const Access *x = &r->k->accesses.at[access];
    char *at = p->base;
    for (uint32_t i = 0; i < r->k->axes.len; i++)
        at += r->within[i] * p->stride[i] + r->block[i] * p->outer[i];
    for (int i = 0; i < x->nindex; i++)
        at += r->vals[x->index[i].val] * p->index[i];
    return at;
}

static const Array *array_of(const Interp *r, uint32_t access) { return &r->k->arrays.at[r->k->accesses.at[access].array]; }

/* Whether the element may be touched; in a checked kernel one outside its operand's memory may not, and is counted. */
static bool allowed(const Interp *r, uint32_t access, const char *at)
{
    const Array *array = array_of(r, access);
    if (!r->k->checked || array->kind != ARRAY_OPERAND)
        return true;
    intptr_t lo = r->args[array->arg + 1], hi = r->args[array->arg + 2], a = (intptr_t)at;
    if (a >= lo && a + dtype_info[array->dtype].bytes <= hi)
        return true;
    __atomic_fetch_add(&interp_violations, 1, __ATOMIC_RELAXED);
    return false;
}

static uint16_t order16(const Array *a, uint16_t x) { return a->swapped ? __builtin_bswap16(x) : x; }
static uint32_t order32(const Array *a, uint32_t x) { return a->swapped ? __builtin_bswap32(x) : x; }
static uint64_t order64(const Array *a, uint64_t x) { return a->swapped ? __builtin_bswap64(x) : x; }

static int64_t load(const Interp *r, uint32_t access, const char *at)
{
    const Array *array = array_of(r, access);
    Dtype t = array->dtype;
    bool sign = dtype_info[t].kind == DKIND_INT;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    int64_t i64;
    if (!allowed(r, access, at))
        return 0;
    switch (dtype_info[t].bytes) {
    case 1:
        memcpy(&u8, at, 1);
        return t == DT_bool_ ? u8 != 0 : sign ? (int8_t)u8 : u8;
    case 2:
        memcpy(&u16, at, 2);
        u16 = order16(array, u16);
        return sign ? (int16_t)u16 : u16;
    case 4:
        memcpy(&u32, at, 4);
        u32 = order32(array, u32);
        return sign ? (int32_t)u32 : (int64_t)u32;
    default:
        memcpy(&i64, at, 8);
        return (int64_t)order64(array, (uint64_t)i64);
    }
}

static void store(const Interp *r, uint32_t access, char *at, int64_t bits)
{
    const Array *array = array_of(r, access);
    uint8_t u8 = (uint8_t)bits;
    uint16_t u16 = order16(array, (uint16_t)bits);
    uint32_t u32 = order32(array, (uint32_t)bits);
    uint64_t u64 = order64(array, (uint64_t)bits);
    if (!allowed(r, access, at))
        return;
    switch (dtype_info[array->dtype].bytes) {
    case 1: memcpy(at, &u8, 1); break;
    case 2: memcpy(at, &u16, 2); break;
    case 4: memcpy(at, &u32, 4); break;
    default: memcpy(at, &u64, 8); break;
    }
}

static bool is_complex(Dtype t) { return dtype_info[t].kind == DKIND_COMPLEX; }

/* A part of a complex element as a word, and back. */
static int64_t part_in(const Array *a, const char *at)
{
    uint64_t wide;
    uint32_t narrow;
    memcpy(&wide, at, a->dtype == DT_complex64 ? 4 : 8);
    memcpy(&narrow, at, sizeof narrow);
    return a->dtype == DT_complex64 ? (int64_t)order32(a, narrow) : (int64_t)order64(a, wide);
}

static void part_out(const Array *a, char *at, int64_t bits)
{
    uint64_t wide = order64(a, (uint64_t)bits);
    uint32_t narrow = order32(a, (uint32_t)bits);
    memcpy(at, a->dtype == DT_complex64 ? (void *)&narrow : (void *)&wide, a->dtype == DT_complex64 ? 4 : 8);
}

/* A complex element is two words. */
static void load_complex(Interp *r, uint32_t id, uint32_t access, const char *at)
{
    const Array *a = array_of(r, access);
    bool good = allowed(r, access, at);
    r->vals[id] = good ? part_in(a, at) : 0;
    r->imags[id] = good ? part_in(a, at + dtype_info[a->dtype].bytes / 2) : 0;
}

static void store_complex(const Interp *r, uint32_t access, char *at, uint32_t id)
{
    const Array *a = array_of(r, access);
    if (!allowed(r, access, at))
        return;
    part_out(a, at, r->vals[id]);
    part_out(a, at + dtype_info[a->dtype].bytes / 2, r->imags[id]);
}

static void run_store(const Interp *r, const Stmt *s, char *at)
{
    if (is_complex(r->k->vals.at[s->b].dtype))
        store_complex(r, s->a, at, s->b);
    else
        store(r, s->a, at, r->vals[s->b]);
}

/* ---- monoids: the definition of every state; the generator's may differ in rounding only ---- */

static int64_t extreme(Dtype t, bool high)
{
    int size = 8 * dtype_info[t].bytes;
    switch (dtype_info[t].kind) {
    case DKIND_BOOL: return high;
    case DKIND_INT: return high ? INT64_MAX >> (64 - size) : INT64_MIN >> (64 - size);
    case DKIND_UINT: return high ? (int64_t)(UINT64_MAX >> (64 - size)) : 0;
    case DKIND_FLOAT: return float_bits(t, high ? INFINITY : -INFINITY);
    case DKIND_COMPLEX: break;
    }
    return 0;
}

static Cell state_identity(State s)
{
    Dtype t = s.dtype;
    switch (monoid_info[s.monoid].identity) {
    case MONOID_ID_ZERO: return (Cell){ { 0 } };
    case MONOID_ID_MINUS_ZERO: return (Cell){ { dtype_info[t].kind == DKIND_FLOAT ? float_bits(t, -0.0) : 0 } };
    case MONOID_ID_ONE: return (Cell){ { eval_elementwise(OP_cast, DT_int64, t, 1, 0, 0) } };
    case MONOID_ID_LOWEST: return (Cell){ { extreme(t, false) } };
    case MONOID_ID_HIGHEST: return (Cell){ { extreme(t, true) } };
    case MONOID_ID_OWN: break;
    }
    if (s.monoid == MONOID_argmax || s.monoid == MONOID_argmin)
        return (Cell){ { extreme(t, s.monoid == MONOID_argmin), INT64_MAX } };
    return (Cell){ { 0 } };
}

/* Knuth's TwoSum: hi + lo stays the exact sum. A sum that is not finite has no error to carry: inf - inf would make it NaN. */
static void merge_sum2(Dtype t, Cell *s, int64_t hi, int64_t lo)
{
    double a = float_value(t, s->w[0]), b = float_value(t, hi);
    int64_t sum = eval_elementwise(OP_add, t, t, s->w[0], hi, 0);
    double x = float_value(t, sum);
    double back = float_value(t, float_bits(t, x - a));
    double error = isfinite(x) ? float_value(t, float_bits(t, a - float_value(t, float_bits(t, x - back))))
                                     + float_value(t, float_bits(t, b - back)) : 0;
    s->w[0] = sum;
    lo = eval_elementwise(OP_add, t, t, float_bits(t, error), lo, 0);
    s->w[1] = eval_elementwise(OP_add, t, t, s->w[1], lo, 0);
}

static bool is_float_sum(State m) { return m.monoid == MONOID_sum && dtype_info[m.dtype].kind == DKIND_FLOAT; }

/* The greatest (least) value and its first index; the first NaN if there is one. */
static void merge_arg(State m, Cell *s, int64_t value, int64_t index)
{
    Dtype t = m.dtype;
    bool floats = dtype_info[t].kind == DKIND_FLOAT;
    bool nan = floats && isnan(float_value(t, value)), held = floats && isnan(float_value(t, s->w[0]));
    bool less = eval_elementwise(OP_less, t, DT_bool_, s->w[0], value, 0), greater = eval_elementwise(OP_less, t, DT_bool_, value, s->w[0], 0);
    bool better = m.monoid == MONOID_argmax ? less : greater, equal = nan || held ? nan && held : !less && !greater;
    if ((nan && !held) || better || (equal && index < s->w[1]))
        *s = (Cell){ { value, index } };
}

/* Chan's merge of count, mean and sum of squared deviations. */
static void merge_moments(Dtype t, Cell *s, double n2, double mean2, double m2)
{
    double n1 = float_value(t, s->w[0]), mean1 = float_value(t, s->w[1]), n = n1 + n2, d = mean2 - mean1;
    if (n2 == 0)
        return;
    double mean = n1 == 0 ? mean2 : mean1 + d * (n2 / n);
    double dev = n1 == 0 ? m2 : float_value(t, s->w[2]) + m2 + d * d * (n1 * n2 / n);
    *s = (Cell){ { float_bits(t, n), float_bits(t, mean), float_bits(t, dev) } };
}

static void state_merge(State m, Cell *s, const Cell *x)
{
    Dtype t = m.dtype;
    if (m.monoid == MONOID_sum2 || is_float_sum(m))
        merge_sum2(t, s, x->w[0], x->w[1]);
    else if (m.monoid == MONOID_argmax || m.monoid == MONOID_argmin)
        merge_arg(m, s, x->w[0], x->w[1]);
    else if (m.monoid == MONOID_moments)
        merge_moments(t, s, float_value(t, x->w[0]), float_value(t, x->w[1]), float_value(t, x->w[2]));
    else
        s->w[0] = eval_elementwise(monoid_info[m.monoid].combine, t, t, s->w[0], x->w[0], 0);
}

static void run_reduce(Interp *r, const Stmt *s, bool laned)
{
    State m = r->k->states.at[s->a];
    Cell *cell = laned ? &r->lanes[r->lanes_at[s->a] + r->lane] : &r->states[s->a];
    Cell x = { { r->vals[s->b], s->c ? r->vals[s->c] : 0, s->d ? r->vals[s->d] : 0 } };
    if (m.monoid == MONOID_moments && !s->c)
        x = (Cell){ { float_bits(m.dtype, 1), r->vals[s->b], isfinite(float_value(m.dtype, r->vals[s->b])) ? 0 : float_bits(m.dtype, NAN) } };
    if (r->running[s->a] && m.monoid == MONOID_sum)
        cell->w[0] = eval_elementwise(OP_add, m.dtype, m.dtype, cell->w[0], x.w[0], 0);
    else
        state_merge(m, cell, &x);
}

static void lanes_open(Interp *r, const Stmt *s, uint32_t first)
{
    for (uint32_t i = first; i; i = r->laned.at[i - 1].next) {
        uint32_t state = r->laned.at[i - 1].state;
        Cell none = state_identity(r->k->states.at[state]);
        for (uint32_t l = 0; l < s->lanes; l++)
            r->lanes[r->lanes_at[state] + l] = none;
    }
}

static void lanes_close(Interp *r, const Stmt *s, uint32_t first)
{
    for (uint32_t i = first; i; i = r->laned.at[i - 1].next) {
        uint32_t state = r->laned.at[i - 1].state;
        State m = r->k->states.at[state];
        Cell *lane = &r->lanes[r->lanes_at[state]];
        for (uint32_t half = s->lanes / 2; half; half /= 2)
            for (uint32_t l = 0; l < half; l++)
                state_merge(m, &lane[l], &lane[l + half]);
        state_merge(m, &r->states[state], &lane[0]);
    }
}

/* ---- DOT: three loops; floats accumulate in double and are rounded once ---- */

static int64_t dot_extent(const Interp *r, uint32_t axis)
{
    int64_t size = axis_size(r, axis), block = axis_block(r, axis);
    if (!r->in_block[axis])
        return size;
    int64_t left = size - r->block[axis] * block;
    return left < block ? left : block;
}

static int64_t dot_offset(const Interp *r, uint32_t access, uint32_t axis, int64_t i)
{
    const Place *p = &r->places[access];
    int64_t block = axis_block(r, axis);
    if (!block || r->in_block[axis])
        return i * p->stride[axis];
    return i / block * p->outer[axis] + i % block * p->stride[axis];
}

/* The sum of products of the four bytes of two words. */
static int64_t byte_products(const Stmt *s, int64_t x, int64_t y)
{
    int64_t sum = 0;
    for (int i = 0; i < 32; i += 8)
        sum += s->d & DOT_UNSIGNED_SIGNED ? (uint8_t)(x >> i) * (int8_t)(y >> i) : (int8_t)(x >> i) * (uint8_t)(y >> i);
    return sum;
}

typedef struct { bool floats; double sum; uint64_t wrapping; } DotSum;

/* Adds the products along k, and along the axes of `sums` that are not done yet. */
static void dot_add(const Interp *r, const Stmt *s, Dtype t, char *a, char *b, uint32_t axis, DotSum *to)
{
    while (axis < r->k->axes.len && !(s->sums >> axis & 1))
        axis++;
    if (axis < r->k->axes.len) {
        for (int64_t i = 0, n = axis_size(r, axis); i < n; i++)
            dot_add(r, s, t, a + dot_offset(r, s->b, axis, i), b + dot_offset(r, s->c, axis, i), axis + 1, to);
        return;
    }
    int64_t nk = dot_extent(r, s->axis_k);
    for (int64_t k = 0; k < nk; k++) {
        int64_t x = load(r, s->b, a + dot_offset(r, s->b, s->axis_k, k));
        int64_t y = load(r, s->c, b + dot_offset(r, s->c, s->axis_k, k));
        if (to->floats)
            to->sum += float_value(t, x) * float_value(t, y);
        else
            to->wrapping += s->d & DOT_BYTES ? (uint64_t)byte_products(s, x, y) : (uint64_t)x * (uint64_t)y;
    }
}

static int64_t dot_element(const Interp *r, const Stmt *s, Dtype t, char *a, char *b, int64_t start)
{
    DotSum sum = { .floats = dtype_info[t].kind == DKIND_FLOAT, .wrapping = (uint64_t)start };
    if (sum.floats)
        sum.sum = float_value(t, start);
    dot_add(r, s, t, a, b, 0, &sum);
    return sum.floats ? float_bits(t, sum.sum) : (int64_t)sum.wrapping;
}

static void run_dot(const Interp *r, const Stmt *s)
{
    Dtype t = r->k->arrays.at[r->k->accesses.at[s->a].array].dtype;
    char *c = address(r, s->a), *a = address(r, s->b), *b = address(r, s->c);
    int64_t nm = dot_extent(r, s->axis), nn = dot_extent(r, s->axis_n);
    interp_violations += !dot_panels_fit(s->d, nn, s->lanes ? s->lanes : 1);      /* compiled, it would leave the operands */
    for (int64_t m = 0; m < nm; m++)
        for (int64_t n = 0; n < nn; n++) {
            char *at = c + dot_offset(r, s->a, s->axis, m) + dot_offset(r, s->a, s->axis_n, n);
            int64_t start = s->add ? load(r, s->a, at) : 0;
            store(r, s->a, at, dot_element(r, s, t, a + dot_offset(r, s->b, s->axis, m), b + dot_offset(r, s->c, s->axis_n, n), start));
        }
}

static void run_transpose(const Interp *r, const Stmt *s)
{
    char *to = address(r, s->a), *from = address(r, s->b);
    int64_t nm = dot_extent(r, s->axis), nn = dot_extent(r, s->axis_n);
    for (int64_t m = 0; m < nm; m++)
        for (int64_t n = 0; n < nn; n++)
            store(r, s->a, to + dot_offset(r, s->a, s->axis, m) + dot_offset(r, s->a, s->axis_n, n),
                  load(r, s->b, from + dot_offset(r, s->b, s->axis, m) + dot_offset(r, s->b, s->axis_n, n)));
}

/* ---- running ---- */

/* Values that are complex or parts of one; false: none of them. */
static bool evaluate_parts(Interp *r, uint32_t id)
{
    const Val *v = &r->k->vals.at[id];
    if (v->kind == VAL_LOAD && is_complex(v->dtype)) {
        load_complex(r, id, v->a, address(r, v->a));
    } else if (v->kind == VAL_OP && v->op == OP_complex_) {
        r->vals[id] = r->vals[v->a];
        r->imags[id] = r->vals[v->b];
    } else if (v->kind == VAL_OP && (v->op == OP_real || v->op == OP_imag)) {
        r->vals[id] = v->op == OP_real ? r->vals[v->a] : r->imags[v->a];
    } else {
        return false;
    }
    return true;
}

static int64_t read_state(const Interp *r, const Val *v)
{
    State m = r->k->states.at[v->a];
    const Cell *x = &r->states[v->a];
    return is_float_sum(m) && x->w[1] ? eval_elementwise(OP_add, m.dtype, m.dtype, x->w[0], x->w[1], 0) : x->w[v->b];
}

static int64_t evaluate(const Interp *r, const Val *v)
{
    switch ((ValKind)v->kind) {
    case VAL_LOAD: return v->b && !r->vals[v->b] ? 0 : load(r, v->a, address(r, v->a));
    case VAL_AXIS: return r->block[v->a] * axis_block(r, v->a) + r->within[v->a];
    case VAL_STATE: return read_state(r, v);
    case VAL_OP: {
        Dtype in = r->k->vals.at[v->op == OP_where ? v->b : v->a].dtype;
        return eval_elementwise(v->op, in, v->dtype, r->vals[v->a], r->vals[v->b], r->vals[v->c]);
    }
    case VAL_NONE: case VAL_CONST: case VAL_WORD: break;
    }
    return 0;
}

static void run_check(const Interp *r, const Stmt *s)
{
    int64_t *status = (int64_t *)(intptr_t)r->args[s->c], none = 0;
    if (!r->vals[s->a])
        __atomic_compare_exchange_n(status, &none, (int64_t)s->b, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static void run(Interp *r, uint32_t first, uint32_t end);

static void run_for(Interp *r, uint32_t at)
{
    const Stmt *s = &r->k->stmts.at[at];
    int64_t block = axis_block(r, s->axis), n = axis_size(r, s->axis);
    if (s->part == PART_BLOCKS)
        n = (n + block - 1) / block;
    int64_t *coordinate = s->part == PART_BLOCKS ? &r->block[s->axis] : &r->within[s->axis];
    uint32_t laned = r->work[at].laned;
    if (s->part >= PART_WITHIN) {
        int64_t left = axis_size(r, s->axis) - r->block[s->axis] * block;
        n = left < block ? left : block;
        if (s->part == PART_FULL)
            n = n == block;
        else if (s->part == PART_REST && n == block)
            n = 0;
    }
    if (s->part == PART_BLOCKS)
        r->in_block[s->axis] = true;
    if (s->lanes)
        lanes_open(r, s, laned);
    for (int64_t i = 0; i < n; i++) {
        *coordinate = i;
        if (s->lanes)
            r->lane = (uint32_t)i & (s->lanes - 1u);
        run(r, at + 1, s->end);
    }
    *coordinate = 0;
    if (s->part == PART_BLOCKS)
        r->in_block[s->axis] = false;
    if (s->lanes)
        lanes_close(r, s, laned);
}

static void run(Interp *r, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i = r->k->stmts.at[i].end) {
        const Stmt *s = &r->k->stmts.at[i];
        const Work *w = &r->work[i];
        for (uint32_t j = 0; j < w->count; j++) {
            uint32_t id = r->list.at[w->first + j];
            if (!evaluate_parts(r, id))
                r->vals[id] = evaluate(r, &r->k->vals.at[id]);
        }
        switch ((StmtKind)s->kind) {
        case STMT_FOR: run_for(r, i); break;
        case STMT_INIT: r->states[s->a] = state_identity(r->k->states.at[s->a]); break;
        case STMT_REDUCE: run_reduce(r, s, w->laned); break;
        case STMT_STORE: run_store(r, s, address(r, s->a)); break;
        case STMT_DOT: run_dot(r, s); break;
        case STMT_TRANSPOSE: run_transpose(r, s); break;
        case STMT_CHECK: run_check(r, s); break;
        }
    }
}

/* Grid point p of the row-major index over the grid FORs. */
static void run_point(Interp *r, int64_t p)
{
    const Kernel *k = r->k;
    for (uint32_t i = k->ngrid; i-- > 0;) {
        const Stmt *s = &k->stmts.at[i];
        int64_t n = kernel_trips(k, s, r->args);
        *(s->part == PART_BLOCKS ? &r->block[s->axis] : &r->within[s->axis]) = p % n;
        r->in_block[s->axis] = s->part == PART_BLOCKS;
        p /= n;
    }
    run(r, k->ngrid, k->stmts.len);
}

/* ---- preparing ---- */

/* Puts the value, after what it reads, on the statement's list unless a body that is still open has it. */
static void need(Interp *r, uint32_t id, uint32_t at, uint32_t body_end)
{
    const Val *v = &r->k->vals.at[id];
    Known *known = &r->known[id];
    if (v->kind == VAL_NONE || v->kind == VAL_CONST || v->kind == VAL_WORD || (known->made && at < known->end))
        return;
    if (v->kind == VAL_OP) {
        need(r, v->a, at, body_end);
        need(r, v->b, at, body_end);
        need(r, v->c, at, body_end);
    }
    if (v->kind == VAL_LOAD) {
        const Access *x = &r->k->accesses.at[v->a];
        if (v->b) need(r, v->b, at, body_end);
        for (int i = 0; i < x->nindex; i++)
            need(r, x->index[i].val, at, body_end);
    }
    known->made = at + 1;
    known->end = body_end;
    uint32_t *item = vec_push(r->arena, &r->list);
    if (item)
        *item = id;
}

static void need_index(Interp *r, uint32_t access, uint32_t at, uint32_t body_end)
{
    const Access *x = &r->k->accesses.at[access];
    for (int i = 0; i < x->nindex; i++)
        need(r, x->index[i].val, at, body_end);
}

/* A REDUCE in a vector FOR of a state set outside of it goes into lanes. `vector` is that FOR + 1, 0: none. */
static void prepare_reduce(Interp *r, uint32_t at, uint32_t vector)
{
    uint32_t state = r->k->stmts.at[at].a;
    if (!vector || r->init[state] >= vector)
        return;
    r->work[at].laned = 1;
    if (r->laned_in[state] == vector)
        return;
    r->laned_in[state] = vector;
    Laned *item = vec_push(r->arena, &r->laned);
    if (!item)
        return;
    *item = (Laned){ state, r->work[vector - 1].laned };
    r->work[vector - 1].laned = r->laned.len;
}

static void prepare_stmt(Interp *r, uint32_t at, uint32_t body_end, uint32_t vector)
{
    const Stmt *s = &r->k->stmts.at[at];
    r->work[at].first = r->list.len;
    switch ((StmtKind)s->kind) {
    case STMT_FOR: break;
    case STMT_INIT: r->init[s->a] = at; break;
    case STMT_REDUCE:
        need(r, s->b, at, body_end);
        need(r, s->c, at, body_end);
        need(r, s->d, at, body_end);
        prepare_reduce(r, at, vector);
        break;
    case STMT_STORE:
        need(r, s->b, at, body_end);
        need_index(r, s->a, at, body_end);
        break;
    case STMT_DOT:
        need_index(r, s->a, at, body_end);
        need_index(r, s->b, at, body_end);
        need_index(r, s->c, at, body_end);
        break;
    case STMT_TRANSPOSE:
        need_index(r, s->a, at, body_end);
        need_index(r, s->b, at, body_end);
        break;
    case STMT_CHECK: need(r, s->a, at, body_end); break;
    }
    r->work[at].count = r->list.len - r->work[at].first;
}

static void prepare_body(Interp *r, uint32_t first, uint32_t end, uint32_t vector)
{
    for (uint32_t i = first; i < end; i = r->k->stmts.at[i].end) {
        const Stmt *s = &r->k->stmts.at[i];
        prepare_stmt(r, i, end, vector);
        if (s->kind == STMT_FOR)
            prepare_body(r, i + 1, s->end, s->lanes ? i + 1 : vector);
    }
}

static bool reads_state(const Interp *r, uint32_t first, uint32_t end, uint32_t state)
{
    for (uint32_t i = first; i < end; i++)
        for (uint32_t j = 0; j < r->work[i].count; j++) {
            const Val *v = &r->k->vals.at[r->list.at[r->work[i].first + j]];
            if (v->kind == VAL_STATE && v->a == state)
                return true;
        }
    return false;
}

static void find_running(Interp *r)
{
    const Kernel *k = r->k;
    for (uint32_t f = 0; f < k->stmts.len; f++)
        for (uint32_t i = f + 1; k->stmts.at[f].kind == STMT_FOR && i < k->stmts.at[f].end; i = k->stmts.at[i].end)
            if (k->stmts.at[i].kind == STMT_REDUCE && reads_state(r, f + 1, k->stmts.at[f].end, k->stmts.at[i].a))
                r->running[k->stmts.at[i].a] = 1;
}

/* Partials for each state that is ever reduced in lanes. */
static void prepare_lanes(Interp *r)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->k->states.len; i++)
        if (r->laned_in[i])
            r->lanes_at[i] = KERNEL_MAX_LANES * count++;
    if (count)
        r->lanes = arena_alloc(r->arena, count * KERNEL_MAX_LANES * sizeof *r->lanes);
}

static bool prepare(Interp *r)
{
    const Kernel *k = r->k;
    r->places = arena_alloc(r->arena, (k->accesses.len + 1) * sizeof *r->places);
    r->vals = arena_alloc(r->arena, k->vals.len * sizeof *r->vals);
    r->imags = arena_alloc(r->arena, k->vals.len * sizeof *r->imags);
    r->known = arena_alloc(r->arena, k->vals.len * sizeof *r->known);
    r->work = arena_alloc(r->arena, (k->stmts.len + 1) * sizeof *r->work);
    r->states = arena_alloc(r->arena, (k->states.len + 1) * sizeof *r->states);
    uint32_t *words = arena_alloc(r->arena, (k->states.len + 1) * 4 * sizeof *words);
    if (arena_err(r->arena)->kind != ERR_NONE)
        return false;
    r->init = words;
    r->laned_in = words + k->states.len;
    r->lanes_at = words + 2 * k->states.len;
    r->running = words + 3 * k->states.len;
    for (uint32_t i = 0; i < k->accesses.len; i++)
        place_access(r, &k->accesses.at[i], &r->places[i]);
    for (uint32_t i = 1; i < k->vals.len; i++)
        if (k->vals.at[i].kind == VAL_CONST)
            r->vals[i] = (int64_t)((uint64_t)k->vals.at[i].b << 32 | k->vals.at[i].a);
        else if (k->vals.at[i].kind == VAL_WORD)
            r->vals[i] = r->args[k->vals.at[i].a];
    prepare_body(r, 0, k->stmts.len, 0);
    if (arena_err(r->arena)->kind != ERR_NONE)
        return false;
    find_running(r);
    prepare_lanes(r);
    return arena_err(r->arena)->kind == ERR_NONE;
}

bool interp_kernel(const Kernel *k, const int64_t *args, int64_t begin, int64_t end, char *scratch)
{
    Err err = { 0 };
    Arena *arena = arena_new(&err);
    if (!arena)
        return false;
    Interp r = { .k = k, .args = args, .arena = arena, .scratch = scratch };
    bool ready = prepare(&r);
    int64_t points = kernel_grid(k, args);                  /* none where an extent is 0, whatever the caller says */
    for (int64_t p = begin; ready && p < end && p < points; p++)
        run_point(&r, p);
    arena_free(arena);
    return ready;
}
