#include "opt/online.h"
#include <string.h>

/* ---- what the graph says ---- */

static Id base_of(const Graph *g, Id id)
{
    while (op_info[node_at(g, id)->op].kind == KIND_VIEW && node_at(g, id)->op != OP_gather && node_at(g, id)->op != OP_margin) id = node_in(g, id)[0];
    return id;
}

/* Whether the group's kernel evaluates id itself, and so looks at what it is made of. */
static bool is_inside(const Lower *l, Id id) { return l->gr->info[id].group == l->n || (!l->gr->info[id].group && node_at(l->gr->g, id)->op != OP_input); }

/* Whether id is known before any of the group's reductions is. */
static bool is_early(const Lower *l, Id id)
{
    const Graph *g = l->gr->g;
    if (l->gr->info[id].group == l->n) return !l->gr->info[id].phase;
    if (!is_inside(l, id)) return true;
    for (int i = 0; i < node_at(g, id)->nin; i++) if (!is_early(l, node_in(g, id)[i])) return false;
    return true;
}

/* The value of each row that id is a view of; 0: it is none, or known early. */
static Id row_value(const Lower *l, Id id)
{
    Id b = base_of(l->gr->g, id);
    return l->gr->info[b].group == l->n && l->gr->info[b].row && l->gr->info[b].phase ? id : 0;
}

static bool add_factor(Weight *w, Op op, Id value)
{
    if (!value || w->nfactors == ONLINE_FACTORS) return false;
    w->factor[w->nfactors++] = (RowFactor){ op, value };
    return true;
}

/* exp(x - r): with r = max a weight, with another value of the row one times exp(max - r). */
static bool is_exp(const Lower *l, const Online *o, Id id, Weight *w)
{
    const Graph *g = l->gr->g;
    Id difference = node_in(g, id)[0];
    if (node_at(g, difference)->op != OP_subtract || !is_inside(l, difference) || node_in(g, difference)[0] != o->x) return false;
    Id r = node_in(g, difference)[1];
    w->own = base_of(g, r) == o->max;
    return w->own || add_factor(w, OP_exp, row_value(l, r));
}

/* Whether id is a weight; what it is made of goes to w. */
static bool is_weight(const Lower *l, const Online *o, Id id, Weight *w)
{
    const Graph *g = l->gr->g;
    const Id *in = node_in(g, id);
    Op op = (Op)node_at(g, id)->op;
    if (!is_inside(l, id) || node_at(g, id)->dtype != o->dtype) return false;
    if (op == OP_exp) return is_exp(l, o, id, w);
    if (op != OP_multiply && op != OP_divide) return false;
    bool second = op == OP_multiply && (is_early(l, in[0]) || row_value(l, in[0]));
    Id other = in[!second];
    if (!is_weight(l, o, in[second], w)) return false;
    if (!is_early(l, other)) return add_factor(w, op, row_value(l, other));
    w->plain = false;
    return true;
}

static bool find_weight(const Lower *l, const Online *o, Id id, Weight *w)
{
    *w = (Weight){ .value = id, .plain = true };
    return is_weight(l, o, id, w);
}

static bool find_sum(const Lower *l, Online *o, Id id)
{
    const Graph *g = l->gr->g;
    if (node_at(g, id)->op != OP_reduce_sum || o->nsums == ONLINE_SUMS || node_at(g, id)->dtype != o->dtype) return false;
    Weight *w = &o->sum[o->nsums];
    if (!find_weight(l, o, node_in(g, id)[0], w)) return false;
    w->sum = id;
    if (w->plain && o->norm < 0) o->norm = o->nsums;
    o->nsums++;
    return true;
}

/* Whether the group stores rows of what the product after multiplies, or values that rows have one of. */
static bool find_roots(const Lower *l, Online *o)
{
    for (uint32_t i = 0; i < l->gp->roots.len; i++) {
        const Root *r = &l->gp->roots.at[i];
        if (r->then) {
            if (!find_weight(l, o, r->value, &o->then)) return false;
            continue;
        }
        if (r->check || r->carry || r->scatter || !root_is_row(l->gr, l->gp, r)) return false;
        for (int s = 0; s < o->nsums; s++) if (o->sum[s].nfactors) return false;     /* where the maximum is inf they are NaN, and may not be in NumPy */
    }
    return o->then.value != 0;
}

bool online_find(const Lower *l, Online *o)
{
    const Graph *g = l->gr->g;
    *o = (Online){ .norm = -1, .wide = DT_float64 };
    if (!l->gp->then || l->gp->sum) return false;
    o->dtype = node_at(g, l->gp->dot)->dtype;
    if (o->dtype != DT_float32 && o->dtype != DT_float64) return false;
    for (uint32_t i = 0; i < l->survey->reduces.len; i++) {
        Id id = l->survey->reduces.at[i];
        if (node_at(g, id)->op != OP_reduce_max) continue;
        if (o->max) return false;
        o->max = id;
        o->x = node_in(g, id)[0];
    }
    if (!o->max || !is_early(l, o->x) || l->gr->info[o->x].group != l->n || node_at(g, o->x)->dtype != o->dtype) return false;
    for (uint32_t i = 0; i < l->survey->reduces.len; i++)
        if (l->survey->reduces.at[i] != o->max && !find_sum(l, o, l->survey->reduces.at[i])) return false;
    return find_roots(l, o);
}

/* ---- the kernel ---- */

static uint32_t load(Lower *l, uint32_t access, Dtype dtype)
{
    return kernel_val(l->arena, l->k, (Val){ .kind = VAL_LOAD, .dtype = (uint8_t)dtype, .a = access });
}

static uint32_t number(Lower *l, Dtype dtype, double x)
{
    int64_t bits = 0;
    float f = (float)x;
    if (dtype == DT_float32) memcpy(&bits, &f, sizeof f);
    else memcpy(&bits, &x, sizeof x);
    return kernel_const(l->arena, l->k, dtype, bits);
}

static uint32_t cast(Lower *l, uint32_t v, Dtype from, Dtype to) { return from == to ? v : lower_op(l, OP_cast, to, v, 0); }
static void store(Lower *l, uint32_t access, uint32_t v) { lower_stmt(l, (Stmt){ .kind = STMT_STORE, .a = access, .b = v }); }

/* `then` where v equals x, else `other`. */
static uint32_t where_equal(Lower *l, Dtype dtype, uint32_t v, double x, uint32_t then, uint32_t other)
{
    uint32_t equal = lower_op(l, OP_equal, DT_bool_, v, number(l, dtype, x));
    return kernel_val(l->arena, l->k, (Val){ .kind = VAL_OP, .op = OP_where, .dtype = (uint8_t)dtype, .a = equal, .b = then, .c = other });
}

static Map columns_map(const Lower *l, Id id)
{
    Map m;
    map_select(&m, node_at(l->gr->g, id)->rank, l->gp->naxes, l->gr->info[id].axis);
    return m;
}

/* A number per row, read and changed in the same body. */
static uint32_t row_scratch(Lower *l, const Online *o, Dtype dtype, int64_t rows)
{
    int64_t step[MAX_DOMAIN + 1] = { 0 }, outer[MAX_DOMAIN + 1] = { 0 };
    uint32_t array = lower_scratch(l, dtype, rows * dtype_info[dtype].bytes);
    step[o->im] = rows > 1 ? dtype_info[dtype].bytes : 0;
    if (!l->err->kind) l->k->arrays.at[array].ordered = 1;
    return lower_strided(l, array, dtype, step, outer, 0);
}

void online_begin(Lower *l, Online *o, int64_t rows, int64_t columns)
{
    int64_t step[MAX_DOMAIN + 1] = { 0 }, outer[MAX_DOMAIN + 1] = { 0 }, item = dtype_info[o->dtype].bytes;
    o->maxima = row_scratch(l, o, o->dtype, rows);
    for (int i = 0; i < o->nsums; i++) o->sums[i] = row_scratch(l, o, o->wide, rows);
    step[o->in] = item;
    if (o->norm >= 0) o->row = lower_strided(l, lower_scratch(l, o->dtype, columns * item), o->dtype, step, outer, 0);
    uint32_t loop = open_loop(l, o->im, o->rows, 0, false);
    store(l, o->maxima, number(l, o->dtype, -__builtin_inf()));
    for (int i = 0; i < o->nsums; i++) store(l, o->sums[i], number(l, o->wide, 0));
    kernel_close(l->k, loop);
}

/* The weight id without its row's factors, e being exp(x - the maximum so far). */
static uint32_t weight_value(Lower *l, const Online *o, Id id, uint32_t e)
{
    const Node *n = node_at(l->gr->g, id);
    const Id *in = node_in(l->gr->g, id);
    uint32_t v[3] = { 0 };
    if (n->op == OP_exp) return e;
    Map m = columns_map(l, o->x);
    for (int i = 0; i < n->nin; i++) {
        bool early = is_early(l, in[i]);
        if (!early && row_value(l, in[i])) return weight_value(l, o, in[!i], e);
        v[i] = early ? lower_value(l, in[i], &m) : weight_value(l, o, in[i], e);
        if (!v[i]) return 0;
    }
    return kernel_val(l->arena, l->k, (Val){ .kind = VAL_OP, .op = n->op, .dtype = n->dtype, .mode = n->mode, .a = v[0], .b = v[1], .c = v[2] });
}

/* The row's values for a block: the maximum and the sums after it, the factor of what was before it. */
typedef struct { uint32_t max, reference, factor, sum[ONLINE_SUMS]; } Step;

static uint32_t new_state(Lower *l, Monoid m, Dtype dtype)
{
    uint32_t state = kernel_state(l->arena, l->k, m, dtype);
    lower_stmt(l, (Stmt){ .kind = STMT_INIT, .a = state });
    return state;
}

/* The maximum with the block. Where all so far is -inf (a mask's columns, as a rule) the reference is 0: these weigh exp(-inf - 0) = 0, and what follows counts. */
static void step_maximum(Lower *l, const Online *o, uint32_t x, Step *s)
{
    uint32_t state = new_state(l, MONOID_max, o->dtype), old = load(l, o->maxima, o->dtype);
    uint32_t loop = open_loop(l, o->in, PART_WITHIN, l->lanes, false);
    lower_stmt(l, (Stmt){ .kind = STMT_REDUCE, .a = state, .b = x });
    kernel_close(l->k, loop);
    s->max = lower_op(l, OP_maximum, o->dtype, old, state_val(l, state, o->dtype, 0));
    s->reference = where_equal(l, o->dtype, s->max, -__builtin_inf(), number(l, o->dtype, 0), s->max);
    s->factor = lower_op(l, OP_exp, o->dtype, lower_op(l, OP_subtract, o->dtype, old, s->reference), 0);
}

/* Weights and their sums. */
static void step_weights(Lower *l, const Online *o, uint32_t x, Step *s)
{
    uint32_t e = lower_op(l, OP_exp, o->dtype, lower_op(l, OP_subtract, o->dtype, x, s->reference), 0), state[ONLINE_SUMS];
    for (int i = 0; i < o->nsums; i++) state[i] = new_state(l, MONOID_sum, o->dtype);
    uint32_t loop = open_loop(l, o->in, PART_WITHIN, l->lanes, false);
    for (int i = 0; i < o->nsums; i++)
        lower_stmt(l, (Stmt){ .kind = STMT_REDUCE, .a = state[i], .b = weight_value(l, o, o->sum[i].value, e) });
    store(l, o->norm >= 0 ? o->row : o->tile, weight_value(l, o, o->then.value, e));
    kernel_close(l->k, loop);
    for (int i = 0; i < o->nsums; i++) {
        uint32_t before = lower_op(l, OP_multiply, o->wide, load(l, o->sums[i], o->wide), cast(l, s->factor, o->dtype, o->wide));
        s->sum[i] = lower_op(l, OP_add, o->wide, before, cast(l, state_val(l, state[i], o->dtype, 0), o->dtype, o->wide));
    }
}

/* What the weights so far are divided by: their sum; 1 as long as that is 0. */
static uint32_t divisor(Lower *l, const Online *o, uint32_t sum)
{
    uint32_t v = cast(l, sum, o->wide, o->dtype);
    return where_equal(l, o->dtype, v, 0, number(l, o->dtype, 1), v);
}

/* The result so far is a mean with the weights so far, so that it overflows only where the values do: weights are divided by the sum with the block. */
static uint32_t divide_weights(Lower *l, const Online *o, const Step *s)
{
    uint32_t before = divisor(l, o, load(l, o->sums[o->norm], o->wide));
    uint32_t times = lower_op(l, OP_divide, o->dtype, number(l, o->dtype, 1), divisor(l, o, s->sum[o->norm]));
    uint32_t loop = open_loop(l, o->in, PART_WITHIN, l->lanes, false);
    store(l, o->tile, lower_op(l, OP_multiply, o->dtype, load(l, o->row, o->dtype), times));
    kernel_close(l->k, loop);
    return lower_op(l, OP_multiply, o->dtype, lower_op(l, OP_multiply, o->dtype, s->factor, before), times);
}

static int result_lanes(const Lower *l, const Online *o)
{
    return native_lanes(l) * floor_pow2(l->loop[o->iv].extent / native_lanes(l), 4);
}

void online_block(Lower *l, Online *o)
{
    Map m = columns_map(l, o->x);
    Step s = { 0 };
    l->phase = 0;
    uint32_t rows = open_loop(l, o->im, o->rows, 0, false), x = lower_value(l, o->x, &m);
    if (!x) return;
    step_maximum(l, o, x, &s);
    step_weights(l, o, x, &s);
    uint32_t factor = o->norm >= 0 ? divide_weights(l, o, &s) : s.factor;
    uint32_t columns = open_loop(l, o->iv, PART_WHOLE, result_lanes(l, o), false);
    store(l, o->acc, lower_op(l, OP_multiply, o->dtype, load(l, o->acc, o->dtype), factor));
    kernel_close(l->k, columns);
    for (int i = 0; i < o->nsums; i++) store(l, o->sums[i], s.sum[i]);
    store(l, o->maxima, s.max);
    kernel_close(l->k, rows);
}

/* v with the row's factors of w. A row of -inf alone, whose weights are 0 so far, is NaN as exp(-inf - -inf) is. */
static uint32_t apply_factors(Lower *l, const Online *o, const Weight *w, uint32_t v)
{
    Map m = columns_map(l, o->x);
    uint32_t max = load(l, o->maxima, o->dtype);
    if (w->own) v = lower_op(l, OP_add, o->dtype, v, lower_op(l, OP_subtract, o->dtype, max, max));
    for (int i = 0; i < w->nfactors && v; i++) {
        uint32_t f = lower_value(l, w->factor[i].value, &m);
        Op op = w->factor[i].op;
        if (!f) return 0;
        if (op == OP_exp) f = lower_op(l, OP_exp, o->dtype, lower_op(l, OP_subtract, o->dtype, max, f), 0);
        v = lower_op(l, op == OP_exp ? OP_multiply : op, o->dtype, v, f);
    }
    return v;
}

static void set_result(Lower *l, Id id, uint32_t v)
{
    for (uint32_t i = 0; i < l->reductions.len; i++) if (l->reductions.at[i].id == id) l->reductions.at[i].final = v;
}

void online_end(Lower *l, Online *o, uint32_t to)
{
    uint32_t rows = open_loop(l, o->im, o->rows, 0, false), acc = load(l, o->acc, o->dtype);
    l->phase = (uint8_t)(l->survey->phases - 1);
    set_result(l, o->max, load(l, o->maxima, o->dtype));
    for (int i = 0; i < o->nsums; i++)
        set_result(l, o->sum[i].sum, apply_factors(l, o, &o->sum[i], cast(l, load(l, o->sums[i], o->wide), o->wide, o->dtype)));
    for (l->phase = 0; l->phase < l->survey->phases; l->phase++) store_roots(l, true);
    l->phase = (uint8_t)(l->survey->phases - 1);
    uint32_t times = o->norm >= 0 ? apply_factors(l, o, &o->then, divisor(l, o, load(l, o->sums[o->norm], o->wide))) : 0;
    uint32_t columns = open_loop(l, o->iv, PART_WHOLE, result_lanes(l, o), false);
    store(l, to, times ? lower_op(l, OP_multiply, o->dtype, acc, times) : apply_factors(l, o, &o->then, acc));
    kernel_close(l->k, columns);
    kernel_close(l->k, rows);
}
