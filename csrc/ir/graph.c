/* The only maker of nodes: expand -> infer -> fold -> intern -> append, and rollback. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "ir/fold.h"

enum { FIRST_TABLE = 64, DEFAULT_LIMIT = 100000 };

Graph *graph_new(Arena *arena)
{
    Graph *g = arena_alloc(arena, sizeof *g);
    if (!g)
        return NULL;
    g->arena = arena;
    g->err = arena_err(arena);
    g->limit = DEFAULT_LIMIT;
    g->table_cap = FIRST_TABLE;
    g->table = arena_alloc(arena, FIRST_TABLE * sizeof *g->table);
    /* ids and ints too, so that an offset into them is always into something. */
    return g->table && vec_push(arena, &g->nodes) && vec_reserve(arena, &g->ids, 1) && vec_reserve(arena, &g->ints, 1) ? g : NULL;
}

/* ---- interning: an open-addressing table of ids ---- */

/* What a node is before it has an id. */
typedef struct {
    Op op;
    uint8_t flags, mode;
    const Id *in;
    int nin;
    const int64_t *attr;
    int nattr;
    const Type *type;
} Draft;

static uint64_t hash_draft(const Draft *d)
{
    uint64_t h = hash_mix(d->op | d->type->dtype << 16 | (uint64_t)d->mode << 24, (uint64_t)d->nin << 32 | (uint32_t)d->nattr);
    for (int i = 0; i < d->nin; i++)
        h = hash_mix(h, d->in[i]);
    for (int i = 0; i < d->nattr; i++)
        h = hash_mix(h, (uint64_t)d->attr[i]);
    /* The inputs and attributes of all other kinds give the shape. */
    if (op_info[d->op].kind == KIND_SOURCE)
        for (int i = 0; i < d->type->rank; i++)
            h = hash_mix(h, (uint64_t)d->type->shape[i]);
    return h;
}

static uint64_t hash_node(const Graph *g, Id id)
{
    const Node *n = node_at(g, id);
    Type type = { .dtype = n->dtype, .rank = n->rank };
    if (op_info[n->op].kind == KIND_SOURCE)
        memcpy(type.shape, node_shape(g, id), n->rank * sizeof(Dim));
    return hash_draft(&(Draft){ n->op, n->flags, n->mode, node_in(g, id), n->nin, node_attr(g, id), n->nattr, &type });
}

static bool same_node(const Graph *g, Id id, const Draft *d)
{
    const Node *n = node_at(g, id);
    return n->op == d->op && n->dtype == d->type->dtype && n->mode == d->mode && n->flags == d->flags && n->nin == d->nin
           && n->nattr == d->nattr && !memcmp(node_in(g, id), d->in, n->nin * sizeof(Id))
           && !memcmp(node_attr(g, id), d->attr, n->nattr * sizeof(int64_t))
           && (op_info[d->op].kind != KIND_SOURCE || shape_eq(g, node_shape(g, id), n->rank, d->type->shape, d->type->rank));
}

static bool table_grow(Graph *g)
{
    uint32_t cap = 2 * g->table_cap;
    uint32_t *table = arena_alloc(g->arena, cap * sizeof *table);
    if (!table)
        return false;
    /* In the order of the ids: graph_rollback relies on it. */
    for (Id id = 1; id < g->nodes.len; id++) {
        if (node_at(g, id)->op == OP_input)
            continue;
        uint32_t k = (uint32_t)hash_node(g, id) & (cap - 1);
        while (table[k])
            k = (k + 1) & (cap - 1);
        table[k] = id;
    }
    g->table = table;
    g->table_cap = cap;
    return true;
}

/* ---- appending ---- */

static uint32_t put_ids(Graph *g, const Id *ids, int n)
{
    uint32_t at = g->ids.len;
    for (int i = 0; i < n; i++)
        g->ids.at[at + (uint32_t)i] = ids[i];
    g->ids.len += (uint32_t)n;
    return at;
}

static uint32_t put_ints(Graph *g, const int64_t *ints, int n)
{
    uint32_t at = g->ints.len;
    for (int i = 0; i < n; i++)
        g->ints.at[at + (uint32_t)i] = ints[i];
    g->ints.len += (uint32_t)n;
    return at;
}

/* Where the shape is stored: with an input that has the same one, at the end of the attributes, or on its own. */
static uint32_t put_shape(Graph *g, const Draft *d, uint32_t attr)
{
    const Type *t = d->type;
    for (int i = 0; i < d->nin && i < 3; i++) {
        const Node *n = node_at(g, d->in[i]);
        if (shape_eq(g, g->ints.at + n->shape, n->rank, t->shape, t->rank))
            return n->shape;
    }
    int before = d->nattr - t->rank;
    if (before >= 0 && shape_eq(g, g->ints.at + attr + before, t->rank, t->shape, t->rank))
        return attr + (uint32_t)before;
    return put_ints(g, t->shape, t->rank);
}

static bool over_limit(Graph *g)
{
    return !err_set(g->err, ERR_LIMIT,
                    "the trace has more than %u operations; a Python loop that runs long inside the function is traced step by step: "
                    "call the jitted function once per step, or use NumPy operations on whole arrays",
                    g->limit);
}

static Id append(Graph *g, const Draft *d)
{
    if (g->nodes.len > g->limit && over_limit(g))
        return 0;
    if (d->nin > UINT16_MAX || d->nattr > UINT16_MAX) {
        err_set(g->err, ERR_LIMIT, "`%s` of more than %d operands; split it into several", op_info[d->op].name, UINT16_MAX);
        return 0;
    }
    if (!vec_reserve(g->arena, &g->ids, d->nin) || !vec_reserve(g->arena, &g->ints, d->nattr + d->type->rank)
        || !vec_push(g->arena, &g->nodes))
        return 0;
    Id id = g->nodes.len - 1;
    uint32_t in = put_ids(g, d->in, d->nin), attr = put_ints(g, d->attr, d->nattr);
    g->nodes.at[id] = (Node){ .op = (uint16_t)d->op, .dtype = (uint8_t)d->type->dtype, .rank = (uint8_t)d->type->rank,
                              .flags = d->flags, .mode = d->mode, .nin = (uint16_t)d->nin, .nattr = (uint16_t)d->nattr,
                              .in = in, .attr = attr, .shape = put_shape(g, d, attr), .src = g->src };
    return id;
}

static Id intern(Graph *g, const Draft *d)
{
    if (4 * (uint64_t)g->table_len >= 3 * (uint64_t)g->table_cap && !table_grow(g))
        return 0;
    uint32_t mask = g->table_cap - 1, k = (uint32_t)hash_draft(d) & mask;
    for (; g->table[k]; k = (k + 1) & mask)
        if (same_node(g, g->table[k], d))
            return g->table[k];
    if (d->op == OP_check && !vec_reserve(g->arena, &g->checks, 1))
        return 0;
    Id id = append(g, d);
    if (!id)
        return 0;
    g->table[k] = id;
    g->table_len++;
    if (d->op == OP_check)
        *vec_push(g->arena, &g->checks) = id;
    return id;
}

GraphMark graph_mark(const Graph *g)
{
    return (GraphMark){ g->nodes.len, g->ids.len, g->ints.len, g->inputs.len, g->outputs.len, g->checks.len, g->children.len };
}

/* Entries leave the table in the reverse of the order in which they came, so that clearing a slot breaks no probe sequence. */
static void table_remove(Graph *g, Id id)
{
    uint32_t mask = g->table_cap - 1, k = (uint32_t)hash_node(g, id) & mask;
    while (g->table[k] && g->table[k] != id)
        k = (k + 1) & mask;
    ASSERT(g->table[k] == id);
    g->table[k] = 0;
    g->table_len--;
}

void graph_rollback(Graph *g, GraphMark mark)
{
    for (Id id = g->nodes.len - 1; id >= mark.nodes && id > 0; id--)
        if (node_at(g, id)->op != OP_input)
            table_remove(g, id);
    g->nodes.len = mark.nodes;
    g->ids.len = mark.ids;
    g->ints.len = mark.ints;
    g->inputs.len = mark.inputs;
    g->outputs.len = mark.outputs;
    g->checks.len = mark.checks;
    g->children.len = mark.children;
    dim_rollback(g, mark.nodes);
}

/* ---- the one way in ---- */

static bool type_given(Graph *g, Dtype dtype, const Dim *shape, int rank, Type *type)
{
    if (rank < 0 || rank > MAX_RANK)
        return err_set(g->err, ERR_UNSUPPORTED, "an array of %d dimensions; pyxla supports %d at most", rank, MAX_RANK);
    type->dtype = dtype;
    type->rank = rank;
    for (int i = 0; i < rank; i++)
        type->shape[i] = shape[i];
    return true;
}

static Id input_at(Graph *g, Dtype dtype, const Dim *shape, int rank, int64_t k)
{
    if (k == g->inputs.len)
        return graph_input(g, dtype, shape, rank, 0);
    Id id = k >= 0 && k < g->inputs.len ? g->inputs.at[k] : 0;
    if (!id || node_at(g, id)->dtype != dtype || !shape_eq(g, node_shape(g, id), node_at(g, id)->rank, shape, rank))
        err_set(g->err, ERR_INTERNAL, "input %" PRId64 " is not there or has another type", k);
    return id;
}

/* The bits of an element as node_const() promises them, so that equal constants are one node. */
static int64_t canonical_bits(Dtype dtype, int64_t bits)
{
    int shift = 64 - 8 * dtype_info[dtype].bytes;
    if (dtype == DT_bool_)
        return (bits & 255) != 0;
    if (shift <= 0)
        return bits;
    if (dtype_info[dtype].kind == DKIND_INT)
        return (int64_t)((uint64_t)bits << shift) >> shift;
    return (int64_t)((uint64_t)bits << shift >> shift);
}

/* x op y == y op x for all values. Not maximum and minimum: of 0.0 and -0.0 the second wins. */
static bool commutes(Op op)
{
    switch ((int)op) {
    case OP_add: case OP_multiply: case OP_equal: case OP_not_equal: case OP_logical_and: case OP_logical_or:
    case OP_logical_xor: case OP_bitwise_and: case OP_bitwise_or: case OP_bitwise_xor:
        return true;
    }
    return false;
}

/* The order of the operands of an op that commutes: numbers last, so that steps of a loop are alike whenever their numbers were first met. */
static bool in_order(const Graph *g, Id a, Id b)
{
    int64_t bits;
    bool first = fold_known(g, a, &bits), second = fold_known(g, b, &bits);
    return first == second ? a <= b : second;
}

/* The numeric mode matters where floats are computed; elsewhere one node serves all modes. */
static uint8_t mode_of(const Graph *g, Op op, Dtype dtype)
{
    OpKind kind = op_info[op].kind;
    bool computes = kind == KIND_ELEMENTWISE || kind == KIND_REDUCE || kind == KIND_SCAN || kind == KIND_DOT;
    return computes && dtype_info[dtype].kind >= DKIND_FLOAT ? g->mode & ~MODE_CHECK_NAN : 0;
}

static Id add(Graph *g, Op op, const Id *in, int nin, const int64_t *attr, int nattr, Type *type)
{
    if (!infer(g, op, in, nin, attr, nattr, type))
        return 0;
    if (nin && expands_complex(op, (Dtype)node_at(g, in[nin - 1])->dtype, type->dtype))
        return expand_complex(g, op, in, nin, attr, type);
    if (nin && expands_small(op, (Dtype)node_at(g, in[0])->dtype))
        return expand_small(g, op, in, nin, attr, nattr, (Dtype)node_at(g, in[0])->dtype);
    if (op_info[op].kind == KIND_COMPOSITE)
        return expand(g, op, in, nin);
    Id simpler = fold(g, op, in, nin, attr, nattr, type);
    if (simpler || g->err->kind != ERR_NONE)
        return simpler;
    return intern(g, &(Draft){ op, 0, mode_of(g, op, type->dtype), in, nin, attr, nattr, type });
}

/* complex64: one word, the real part in its low half; complex128: two words. */
static Id complex_const(Graph *g, Dtype dtype, const int64_t *words, int n)
{
    if (dtype == DT_complex64)
        return graph_binary(g, OP_complex_, graph_const(g, DT_float32, words[0]), graph_const(g, DT_float32, words[0] >> 32));
    return graph_binary(g, OP_complex_, graph_const(g, DT_float64, words[0]), graph_const(g, DT_float64, n > 1 ? words[1] : 0));
}

Id *graph_mapped(Graph *g, const Graph *old, Id id, const Id *map, Id few[4])
{
    const Node *n = node_at(old, id);
    Id *in = n->nin <= 4 ? few : arena_alloc(g->arena, sizeof *in * n->nin);
    for (int i = 0; in && i < n->nin; i++)
        if (!(in[i] = map[node_in(old, id)[i]])) return NULL;
    g->src = n->src;
    g->mode = n->mode;
    return in;
}

Id graph_add(Graph *g, Op op, const Id *in, int nin, const int64_t *attr, int nattr, Dtype dtype, const Dim *shape, int rank)
{
    if (g->err->kind != ERR_NONE)
        return 0;
    for (int i = 0; i < nin; i++)
        if (!in[i])
            return 0;
    static const int64_t nothing[1];       /* memcmp and memcpy want a pointer even for no bytes */
    in = in ? in : (const Id *)nothing;
    attr = attr ? attr : nothing;
    bool source = op_info[op].kind == KIND_SOURCE;
    Type type = { .dtype = dtype };
    Id id = 0, swapped[2];
    int64_t bits;
    if (op == OP_const && nattr == 1 && dtype < DT_COUNT) {
        bits = canonical_bits(dtype, attr[0]);
        attr = &bits;
    }
    if (nin == 2 && commutes(op) && !in_order(g, in[0], in[1])) {
        swapped[0] = in[1];
        swapped[1] = in[0];
        in = swapped;
    }
    if (op == OP_const && dtype < DT_COUNT && dtype_info[dtype].kind == DKIND_COMPLEX && nattr >= 1)
        id = complex_const(g, dtype, attr, nattr);
    else if (op == OP_input && nattr == 1)
        id = input_at(g, dtype, shape, rank, attr[0]);
    else if (!source || type_given(g, dtype, shape, rank, &type))
        id = add(g, op, in, nin, attr, nattr, &type);
    if (!id && !g->err->src)
        g->err->src = g->src;
    return id;
}

Id graph_input(Graph *g, Dtype dtype, const Dim *shape, int rank, int flags)
{
    Type type;
    Id none = 0;
    int64_t k = g->inputs.len;
    if (g->err->kind != ERR_NONE || !type_given(g, dtype, shape, rank, &type) || !infer(g, OP_input, &none, 0, &k, 1, &type)
        || !vec_reserve(g->arena, &g->inputs, 1))
        return 0;
    Id id = append(g, &(Draft){ OP_input, (uint8_t)flags, 0, &none, 0, &k, 1, &type });
    if (id)
        *vec_push(g->arena, &g->inputs) = id;
    return id;
}

void graph_mapped_inputs(Graph *g, const Graph *old, Id *map)
{
    for (uint32_t i = 0; i < old->inputs.len; i++) {
        Id id = old->inputs.at[i];
        const Node *n = node_at(old, id);
        map[id] = graph_input(g, n->dtype, node_shape(old, id), n->rank, n->flags);
    }
}

/* ---- short forms ---- */

static Id plain(Graph *g, Op op, const Id *in, int nin, const int64_t *attr, int nattr)
{
    return graph_add(g, op, in, nin, attr, nattr, DT_COUNT, NULL, 0);
}

Id graph_const(Graph *g, Dtype dtype, int64_t bits)
{
    int64_t words[2] = { bits, 0 };
    bool pair = dtype == DT_complex128;
    return graph_add(g, OP_const, NULL, 0, words, pair ? 2 : 1, dtype, NULL, 0);
}

Id graph_number(Graph *g, Dtype dtype, double value)
{
    if (dtype_info[dtype].kind == DKIND_FLOAT)
        return graph_const(g, dtype, float_bits(dtype, value));
    if (dtype_info[dtype].kind == DKIND_COMPLEX)
        return graph_const(g, dtype, float_bits(dtype == DT_complex64 ? DT_float32 : DT_float64, value));
    return graph_const(g, dtype, eval_elementwise(OP_cast, DT_float64, dtype, float_bits(DT_float64, value), 0, 0));
}

Id graph_iota(Graph *g, Dim n) { return graph_add(g, OP_iota, NULL, 0, NULL, 0, DT_int64, &n, 1); }
Id graph_unary(Graph *g, Op op, Id a) { return plain(g, op, &a, 1, NULL, 0); }
Id graph_binary(Graph *g, Op op, Id a, Id b) { return plain(g, op, (Id[]){ a, b }, 2, NULL, 0); }
Id graph_where(Graph *g, Id c, Id a, Id b) { return plain(g, OP_where, (Id[]){ c, a, b }, 3, NULL, 0); }
Id graph_cast(Graph *g, Id a, Dtype dtype) { return graph_add(g, OP_cast, &a, 1, NULL, 0, dtype, NULL, 0); }
Id graph_broadcast(Graph *g, Id a, const Dim *shape, int rank) { return plain(g, OP_broadcast, &a, 1, shape, rank); }
Id graph_reshape(Graph *g, Id a, const Dim *shape, int rank) { return plain(g, OP_reshape, &a, 1, shape, rank); }

Id graph_transpose(Graph *g, Id a, const int *perm)
{
    int64_t attr[MAX_RANK];
    int rank = node_at(g, a)->rank;
    for (int i = 0; i < rank; i++)
        attr[i] = perm[i];
    return plain(g, OP_transpose, &a, 1, attr, rank);
}

/* Whether arrays of this many axes and elements have an order of axes that is known now. */
static bool has_order(const Graph *g, Id id, int rank)
{
    if (node_at(g, id)->rank != rank || rank < 2)
        return false;
    for (int i = 0; i < rank; i++)
        if (node_shape(g, id)[i] < 0)
            return false;
    return true;
}

Id graph_like_all(Graph *g, Id x, const Id *y, int n)
{
    Id in[1 + MAX_RANK] = { x };
    if (!x || n > MAX_RANK || !has_order(g, x, node_at(g, x)->rank) || node_size(g, x) <= 1)
        return x;
    if (node_at(g, x)->op == OP_like)
        in[0] = node_in(g, x)[0];
    for (int i = 0; i < n; i++) {
        if (!y[i] || !has_order(g, y[i], node_at(g, x)->rank))
            return x;
        bool again = node_at(g, y[i])->op == OP_like && node_at(g, y[i])->nin == 2;
        in[1 + i] = again ? node_in(g, y[i])[1] : y[i];
    }
    return plain(g, OP_like, in, 1 + n, NULL, 0);
}

Id graph_like(Graph *g, Id x, Id y) { return graph_like_all(g, x, &y, 1); }

Id graph_window(Graph *g, Id a, int axis, int64_t size, int64_t stride, int64_t step)
{
    return plain(g, OP_window, &a, 1, (int64_t[]){ axis, size, stride, step }, 4);
}

Id graph_slice(Graph *g, Id a, const Id *start, const int64_t *step, const Dim *shape)
{
    Id in[1 + MAX_RANK] = { a };
    int64_t attr[2 * MAX_RANK];
    int rank = node_at(g, a)->rank;
    for (int i = 0; i < rank; i++) {
        in[1 + i] = start[i];
        attr[i] = step[i];
        attr[rank + i] = shape[i];
    }
    return plain(g, OP_slice, in, 1 + rank, attr, 2 * rank);
}

Id graph_gather(Graph *g, Id x, const Id *index, int n)
{
    Id in[1 + MAX_RANK] = { x };
    if (n > MAX_RANK)
        return err_set(g->err, ERR_INDEX, "more than %d index arrays; index in two steps", MAX_RANK);
    memcpy(in + 1, index, (size_t)n * sizeof *index);
    return plain(g, OP_gather, in, 1 + n, NULL, 0);
}

static void const_offsets(Graph *g, int rank, const int64_t *start, Id *out)
{
    for (int i = 0; i < rank; i++)
        out[i] = graph_const(g, DT_int64, start[i]);
}

Id graph_slice_const(Graph *g, Id a, const int64_t *start, const int64_t *step, const Dim *shape)
{
    Id offset[MAX_RANK];
    const_offsets(g, node_at(g, a)->rank, start, offset);
    return graph_slice(g, a, offset, step, shape);
}

Id graph_update(Graph *g, Id a, Id v, const Id *start, const int64_t *step)
{
    Id in[2 + MAX_RANK] = { a, v };
    int rank = node_at(g, a)->rank;
    memcpy(in + 2, start, (size_t)rank * sizeof *start);
    return plain(g, OP_update, in, 2 + rank, step, rank);
}

Id graph_update_const(Graph *g, Id a, Id v, const int64_t *start, const int64_t *step)
{
    Id offset[MAX_RANK];
    const_offsets(g, node_at(g, a)->rank, start, offset);
    return graph_update(g, a, v, offset, step);
}

/* Sums of complex numbers are sums of their parts; what mixes parts has no such form. */
static Id scatter_parts(Graph *g, Id x, Id v, Op combine, const Id *index, uint64_t axes)
{
    if (combine != OP_add && combine != OP_subtract) {
        err_set(g->err, ERR_UNSUPPORTED, "np.%s.at of complex numbers is not supported; combine the values first, or work on .real and .imag", op_info[combine].name);
        return 0;
    }
    Id re = graph_scatter(g, graph_unary(g, OP_real, x), graph_unary(g, OP_real, v), combine, index, axes);
    Id im = graph_scatter(g, graph_unary(g, OP_imag, x), graph_unary(g, OP_imag, v), combine, index, axes);
    return graph_binary(g, OP_complex_, re, im);
}

Id graph_scatter(Graph *g, Id x, Id v, Op combine, const Id *index, uint64_t axes)
{
    if (x && v && combine && dtype_info[node_at(g, x)->dtype].kind == DKIND_COMPLEX)
        return scatter_parts(g, x, v, combine, index, axes);
    Id in[2 + MAX_RANK] = { x, v };
    int n = __builtin_popcountll(axes & ((1ull << MAX_RANK) - 1));
    memcpy(in + 2, index, (size_t)n * sizeof *index);
    return plain(g, OP_scatter, in, 2 + n, (int64_t[]){ combine, (int64_t)axes }, 2);
}

Id graph_concatenate(Graph *g, const Id *in, int nin, int axis)
{
    int64_t attr = axis;
    return plain(g, OP_concatenate, in, nin, &attr, 1);
}

Id graph_pad(Graph *g, Id a, Id fill, const int64_t *before, const int64_t *after)
{
    int64_t attr[2 * MAX_RANK];
    int rank = node_at(g, a)->rank;
    for (int i = 0; i < rank; i++) {
        attr[i] = before[i];
        attr[rank + i] = after[i];
    }
    return plain(g, OP_pad, (Id[]){ a, fill }, 2, attr, 2 * rank);
}

Id graph_reduce(Graph *g, Op op, Id a, uint64_t axes, double ddof)
{
    int64_t attr[2] = { (int64_t)axes, (int64_t)float_bits(DT_float64, ddof) };
    return plain(g, op, &a, 1, attr, op == OP_reduce_var ? 2 : 1);
}

Id graph_scan(Graph *g, Op op, Id a, int axis)
{
    int64_t attr = axis;
    return plain(g, op, &a, 1, &attr, 1);
}

Id graph_dot(Graph *g, Id a, Id b) { return plain(g, OP_dot, (Id[]){ a, b }, 2, NULL, 0); }

Id graph_check(Graph *g, Id pred, CheckCode code)
{
    int64_t attr = code;
    return plain(g, OP_check, &pred, 1, &attr, 1);
}

void graph_output(Graph *g, Id id)
{
    Id *out = g->err->kind == ERR_NONE ? vec_push(g->arena, &g->outputs) : NULL;
    if (out)
        *out = id;
}

/* Equal text is equal content: the text form round-trips. */
int64_t graph_child(Graph *g, Graph *child)
{
    Text mine = { 0 }, other = { 0 };
    uint32_t k = 0;
    if (!child || g->err->kind != ERR_NONE)
        return 0;
    graph_print(&mine, child);
    if (mine.failed)
        return err_set(g->err, ERR_MEMORY, "out of memory: no room for the text of a graph");
    for (; k < g->children.len; k++) {
        graph_print(&other, g->children.at[k]);
        bool same = !other.failed && !strcmp(mine.at, other.at);
        text_free(&other);
        if (same)
            break;
    }
    text_free(&mine);
    if (k == g->children.len) {
        Graph **slot = vec_push(g->arena, &g->children);
        if (slot)
            *slot = child;
    }
    return k;
}

/* ---- reading ---- */

bool node_const(const Graph *g, Id id, int64_t *bits)
{
    const Node *n = node_at(g, id);
    if (n->op != OP_const || n->nattr != 1)
        return false;
    *bits = node_attr(g, id)[0];
    return true;
}

int64_t node_size(const Graph *g, Id id)
{
    int64_t size = 1;
    const Dim *shape = node_shape(g, id);
    bool over = false;
    for (int i = 0; i < node_at(g, id)->rank; i++) {
        int64_t n = dim_hi(g, shape[i]);
        if (!n)
            return 0;
        over |= __builtin_mul_overflow(size, n, &size);
    }
    return over ? INT64_MAX : size;
}
