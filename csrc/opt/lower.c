#include "opt/lower.h"
#include <math.h>
#include <string.h>
#include "base/hash.h"

enum {
    MOST_BAKED = 512,             /* bytes of a stride that a kernel of known extents knows */
    NEIGHBOURS = 8,               /* elements between accesses that share the word of their offset, at most */
};

bool lower_begin(Lower *l)
{
    l->arena = l->gr->arena;
    l->err = l->gr->g->err;
    l->k = kernel_new(l->arena);
    l->tile = arena_alloc(l->arena, sizeof *l->tile * (l->survey ? l->survey->tiles.len + 1 : 1));
    return l->k && l->tile;
}

uint32_t lower_word(Lower *l, int64_t value)
{
    int64_t *w = vec_push(l->arena, &l->d->words);
    if (w) *w = value;
    return kernel_arg(l->k);
}

uint32_t lower_axis(Lower *l, int64_t extent, int32_t block)
{
    return kernel_axis(l->arena, l->k, (Size){ .arg = (int32_t)lower_word(l, extent) }, SIZE(block));
}

uint32_t lower_blocked(Lower *l, int64_t extent, int32_t block)
{
    Size size = { .arg = (int32_t)lower_word(l, extent) };
    return kernel_axis(l->arena, l->k, size, (Size){ .arg = (int32_t)lower_word(l, block) });
}

void lower_stmt(Lower *l, Stmt s) { kernel_stmt(l->arena, l->k, s); }

uint32_t lower_another_array(Lower *l, Id buffer, Dtype dtype, bool written)
{
    buffer = buffers_memory(l->buffers, buffer);
    if (l->err->kind) return 0;                               /* nor may an array be there */
    uint32_t word = lower_word(l, 0);
    if (l->gr->target->checked) lower_word(l, 0), lower_word(l, 0);
    DraftPatch *p = vec_push(l->arena, &l->d->patches);
    if (!p) return 0;
    *p = (DraftPatch){ word, buffer, written };
    return kernel_array(l->arena, l->k, (Array){ .kind = ARRAY_OPERAND, .dtype = (uint8_t)dtype, .written = written,
        .swapped = l->buffers->at.at[buffer].swapped, .arg = (int32_t)word });
}

uint32_t lower_array(Lower *l, Id buffer, Dtype dtype, bool written)
{
    buffer = buffers_memory(l->buffers, buffer);
    if (l->err->kind) return 0;
    for (uint32_t i = 0; i < l->arrays.len; i++) {
        if (l->arrays.at[i].buffer != buffer || l->k->arrays.at[l->arrays.at[i].array].dtype != dtype) continue;
        l->k->arrays.at[l->arrays.at[i].array].written |= written;
        for (uint32_t j = 0; written && j < l->d->patches.len; j++)
            if (l->d->patches.at[j].buffer == buffer) l->d->patches.at[j].written = true;
        return l->arrays.at[i].array;
    }
    ArrayOf *of = vec_push(l->arena, &l->arrays);
    uint32_t array = of ? lower_another_array(l, buffer, dtype, written) : 0;
    if (of) *of = (ArrayOf){ buffer, array };
    return array;
}

uint32_t lower_scratch(Lower *l, Dtype dtype, int64_t bytes)
{
    uint32_t word = lower_word(l, l->d->scratch);
    l->d->scratch += (bytes + 63) & ~(int64_t)63;
    return kernel_array(l->arena, l->k, (Array){ .kind = ARRAY_SCRATCH, .dtype = (uint8_t)dtype, .written = true, .arg = (int32_t)word });
}

/* A run-time stride: equal ones of one loop share a word. */
static int32_t stride_arg(Lower *l, int64_t bytes, int loop)
{
    for (uint32_t i = 0; i < l->strides.len; i++)
        if (l->strides.at[i].bytes == bytes && l->strides.at[i].loop == loop) return l->strides.at[i].arg;
    StrideArg *s = vec_push(l->arena, &l->strides);
    if (!s) return 0;
    *s = (StrideArg){ bytes, loop, (int32_t)lower_word(l, bytes) };
    return s->arg;
}

static Coef coef_of(Lower *l, int64_t bytes, int item, int loop)
{
    if (bytes == 0) return (Coef){ .kind = COEF_ZERO };
    if (bytes == item) return (Coef){ .kind = COEF_UNIT };
    int64_t times = bytes / item;
    if (loop >= 0 && l->baked >> loop & 1 && bytes > 0 && bytes <= MOST_BAKED) return (Coef){ .kind = COEF_LITERAL, .lit = (int32_t)bytes };
    if (loop == l->vec && bytes % item == 0 && times >= -1 && times <= 4) return (Coef){ .kind = COEF_LITERAL, .lit = (int32_t)bytes };
    return (Coef){ .kind = COEF_RUN, .arg = stride_arg(l, bytes, loop) };
}

/* Whether an access of the array has no word for its offset. */
static bool starts_at_base(const Lower *l, uint32_t array)
{
    for (uint32_t i = 0; i < l->k->accesses.len; i++)
        if (l->k->accesses.at[i].array == array && l->k->accesses.at[i].off_arg < 0) return true;
    return false;
}

/* The offset: none, or a literal if it is short and beside such a one, else a word, or that of another access and a few elements: neighbours are
 * addressed by one pointer, and the same loop elsewhere in an array is the same kernel. */
static void set_offset(Lower *l, Access *a, int64_t off, int item)
{
    a->off_arg = -1;
    if (off == 0 || (off >= -128 && off <= 128 && starts_at_base(l, a->array))) {
        a->off_lit = off;
        return;
    }
    for (uint32_t i = 0; i < l->k->accesses.len; i++) {
        const Access *x = &l->k->accesses.at[i];
        if (x->array != a->array || x->off_arg < 0 || memcmp(x->coef, a->coef, sizeof a->coef) || memcmp(x->outer, a->outer, sizeof a->outer)) continue;
        int64_t beside = off - l->d->words.at[x->off_arg];
        if (beside < -NEIGHBOURS * item || beside > NEIGHBOURS * item) continue;
        a->off_arg = x->off_arg;
        a->off_lit = beside;
        return;
    }
    a->off_arg = stride_arg(l, off, -1);
}

static uint32_t access_at(Lower *l, uint32_t array, Dtype dtype, const int64_t *step, const int64_t *outer, int64_t off, Access *a)
{
    int item = dtype_info[dtype].bytes;
    if (l->err->kind) return 0;                               /* a loop may have no axis */
    a->array = (uint16_t)array;
    for (int i = 0; i < l->nloops; i++) {
        a->coef[l->loop[i].axis] = coef_of(l, step[i], item, i);
        if (!axis_blocked(&l->k->axes.at[l->loop[i].axis])) continue;
        a->outer[l->loop[i].axis] = (Coef){ .kind = step[i] ? COEF_SAME : COEF_ZERO };
        if (outer && outer[i] >= 0) a->outer[l->loop[i].axis] = coef_of(l, outer[i], item, i);
    }
    set_offset(l, a, off, item);
    return kernel_access(l->arena, l->k, a);
}

uint32_t lower_strided(Lower *l, uint32_t array, Dtype dtype, const int64_t *step, const int64_t *outer, int64_t off)
{
    Access a;
    memset(&a, 0, sizeof a);
    return access_at(l, array, dtype, step, outer, off, &a);
}

void lower_steps(const Lower *l, Id buffer, const Map *m, int64_t *step, int64_t *off)
{
    const Buffer *b = &l->buffers->at.at[buffer];
    *off = 0;
    for (int k = 0; k < MAX_DOMAIN; k++) step[k] = 0;
    for (int d = 0; d < m->rank; d++) {
        int64_t stride = m->flat ? dtype_info[b->dtype].bytes : b->stride[d];
        *off += m->off[d] * stride;
        for (int k = 0; k < m->naxes; k++) step[k] += m->step[d][k] * stride;
    }
}

/* Whether a load through m keeps clear of all that the group stores in the same memory, and it does store there. */
static bool is_apart(const Lower *l, Id buffer, const Map *m)
{
    Id memory = buffers_memory(l->buffers, buffer);
    bool writes = false;
    for (uint32_t i = 0; l->survey && i < l->survey->terms.len; i++) {
        const Term *t = &l->survey->terms.at[i];
        if (t->kind != TERM_STORE || buffers_memory(l->buffers, t->buffer) != memory) continue;
        if (t->box || !map_apart(m, l->gp->extent, t->map, l->gp->extent)) return false;
        writes = true;
    }
    return writes;
}

uint32_t lower_access(Lower *l, Id buffer, Dtype dtype, const Map *m, bool written)
{
    int64_t step[MAX_DOMAIN + 1] = { 0 }, by_loop[MAX_DOMAIN + 1], off;
    const Buffer *b = &l->buffers->at.at[buffer];
    Access a;
    memset(&a, 0, sizeof a);
    lower_steps(l, buffer, m, step, &off);
    for (int i = 0; i < l->nloops; i++) {
        by_loop[i] = l->loop[i].domain < MAX_DOMAIN ? step[l->loop[i].domain] : 0;
        off += l->loop[i].first * by_loop[i];
    }
    for (int i = 0; i < m->nindex; i++) {
        Map at;
        map_index(m, i, &at);
        int64_t bytes = m->index[i].factor * (m->flat ? dtype_info[b->dtype].bytes : b->stride[(int)m->index[i].row]);
        a.index[i].val = lower_value(l, m->index[i].node, &at);
        if (!a.index[i].val) return 0;
        a.index[i].coef = bytes == dtype_info[b->dtype].bytes ? (Coef){ .kind = COEF_UNIT } : (Coef){ .kind = COEF_RUN, .arg = stride_arg(l, bytes, -2) };
    }
    a.nindex = m->nindex;
    uint32_t array = lower_array(l, buffer, dtype, written);
    a.apart = !written && is_apart(l, buffer, m);
    return access_at(l, array, dtype, by_loop, NULL, off, &a);
}

/* ---- values ---- */

static Memo *memo_at(Lower *l, Id id, const Map *m)
{
    if (l->memo_len * 2 >= l->memo_cap) {
        Memo *old = l->memo;
        uint32_t cap = l->memo_cap, more = cap ? cap * 2 : 64;
        Memo *new = arena_alloc(l->arena, sizeof(Memo) * more);
        if (!new) return NULL;
        l->memo = new;
        l->memo_cap = more;
        for (uint32_t i = 0; i < cap; i++) {
            if (!old[i].id) continue;
            uint32_t at = (uint32_t)hash_mix(map_hash(old[i].map) + old[i].phase, old[i].id) & (l->memo_cap - 1);
            while (l->memo[at].id) at = (at + 1) & (l->memo_cap - 1);
            l->memo[at] = old[i];
        }
    }
    uint32_t at = (uint32_t)hash_mix(map_hash(m) + l->phase, id) & (l->memo_cap - 1);
    for (; l->memo[at].id; at = (at + 1) & (l->memo_cap - 1))
        if (l->memo[at].id == id && l->memo[at].phase == l->phase && map_equal(l->memo[at].map, m)) break;
    return &l->memo[at];
}

void lower_forget(Lower *l)
{
    l->memo = NULL;
    l->memo_cap = l->memo_len = 0;
}

uint32_t lower_op(Lower *l, Op op, Dtype dtype, uint32_t a, uint32_t b)
{
    return a ? kernel_val(l->arena, l->k, (Val){ .kind = VAL_OP, .op = op, .dtype = (uint8_t)dtype, .a = a, .b = b }) : 0;
}

static uint32_t load_access(Lower *l, Dtype dtype, uint32_t access)
{
    return kernel_val(l->arena, l->k, (Val){ .kind = VAL_LOAD, .dtype = (uint8_t)dtype, .a = access });
}

uint32_t lower_tile_of(const Lower *l, Id buffer)
{
    for (uint32_t i = 0; i < l->turned.len; i++) if (l->turned.at[i].buffer == buffer) return l->turned.at[i].access + 1;
    return 0;
}

static uint32_t iota(Lower *l, const Map *m);

static uint32_t int64_word(Lower *l, int64_t x) { return kernel_val(l->arena, l->k, (Val){ .kind = VAL_WORD, .dtype = DT_int64, .a = (uint32_t)stride_arg(l, x, -3) }); }

/* Whether a map of one row stays within 0 ... extent - 1 here, where some rows of a block may be made together. */
static bool stays_inside(const Lower *l, const Map *row, int64_t extent)
{
    int64_t low = row->off[0], high = low;
    if (row->nindex) return false;
    for (int i = 0; i < l->nloops; i++) {
        const Loop *loop = &l->loop[i];
        int64_t step = loop->domain < MAX_DOMAIN ? row->step[0][loop->domain] : 0;
        int64_t last = loop->full ? (loop->extent / loop->rows - 1) * loop->rows : loop->extent - 1;
        low += step * (step > 0 ? loop->first : loop->first + last);
        high += step * (step > 0 ? loop->first + last : loop->first);
    }
    return low >= 0 && high < extent;
}

/* Whether m leads inside the buffer; 0: always. */
static uint32_t inside(Lower *l, Id buffer, const Map *m)
{
    const Dim *shape = node_shape(l->gr->g, buffer);
    uint32_t all = 0;
    for (int d = 0; d < m->rank; d++) {
        Map row;
        if (!(m->clip >> d & 1)) continue;
        map_row(m, d, &row);
        if (stays_inside(l, &row, shape[d])) continue;
        uint32_t at = lower_op(l, OP_cast, DT_uint64, iota(l, &row), 0);             /* one comparison for both ends */
        uint32_t in = lower_op(l, OP_less, DT_bool_, at, lower_op(l, OP_cast, DT_uint64, int64_word(l, shape[d]), 0));
        all = all ? lower_op(l, OP_logical_and, DT_bool_, all, in) : in;
    }
    return all;
}

/* A load through a map that may leave the buffer: what it holds, or the fill. */
__attribute__((noinline)) static uint32_t load_clipped(Lower *l, Id buffer, Dtype dtype, const Map *m)
{
    const Id *in = node_in(l->gr->g, m->margin);
    uint32_t only = inside(l, buffer, m), x = lower_access(l, buffer, dtype, m, false);
    int64_t fill = node_attr(l->gr->g, in[1])[0];
    if (buffer != in[0]) err_set(l->err, ERR_INTERNAL, "margins around an array that is not stored");
    if (l->err->kind) return 0;
    uint32_t v = kernel_val(l->arena, l->k, (Val){ .kind = VAL_LOAD, .dtype = (uint8_t)dtype, .a = x, .b = only });
    if (!fill || !only || !v) return v;
    return kernel_val(l->arena, l->k, (Val){ .kind = VAL_OP, .op = OP_where, .dtype = (uint8_t)dtype, .a = only, .b = v, .c = kernel_const(l->arena, l->k, dtype, fill) });
}

uint32_t lower_load(Lower *l, Id buffer, Dtype dtype, const Map *m)
{
    if (m->clip) return load_clipped(l, buffer, dtype, m);
    for (uint32_t i = 0; i < l->turned.len; i++)
        if (l->turned.at[i].buffer == buffer && map_equal(l->turned.at[i].map, m)) return load_access(l, dtype, l->turned.at[i].access);
    uint32_t x = lower_access(l, buffer, dtype, m, false);
    return l->err->kind ? 0 : load_access(l, dtype, x);
}

/* off + sum of step * coordinate. */
static uint32_t iota(Lower *l, const Map *m)
{
    int64_t off = m->off[0];
    for (int i = 0; i < l->nloops; i++) off += l->loop[i].domain < MAX_DOMAIN ? l->loop[i].first * m->step[0][l->loop[i].domain] : 0;
    uint32_t v = kernel_const(l->arena, l->k, DT_int64, off);
    for (int i = 0; i < l->nloops; i++) {
        int64_t step = l->loop[i].domain < MAX_DOMAIN ? m->step[0][l->loop[i].domain] : 0;
        if (!step) continue;
        uint32_t x = kernel_val(l->arena, l->k, (Val){ .kind = VAL_AXIS, .dtype = DT_int64, .a = l->loop[i].axis });
        uint32_t s = kernel_const(l->arena, l->k, DT_int64, step);
        if (step != 1) x = lower_op(l, OP_multiply, DT_int64, x, s);
        v = off || v != kernel_const(l->arena, l->k, DT_int64, 0) ? lower_op(l, OP_add, DT_int64, v, x) : x;
    }
    for (int i = 0; i < m->nindex; i++) {
        Map at;
        map_index(m, i, &at);
        uint32_t x = lower_value(l, m->index[i].node, &at);
        x = lower_op(l, OP_multiply, DT_int64, x, kernel_const(l->arena, l->k, DT_int64, m->index[i].factor));
        v = lower_op(l, OP_add, DT_int64, v, x);
    }
    return v;
}

uint32_t lower_number(Lower *l, Dtype dtype, double x)
{
    const int64_t bits = float_bits(dtype, x);
    Val v = { .kind = VAL_WORD, .dtype = (uint8_t)dtype };
    for (uint32_t i = 1; i < l->k->vals.len; i++) {
        const Val *have = &l->k->vals.at[i];
        if (have->kind == VAL_WORD && have->dtype == dtype && l->d->words.at[have->a] == bits) return i;
    }
    v.a = lower_word(l, bits);
    return kernel_val(l->arena, l->k, v);
}

static Id below_views(const Graph *g, Id id)
{
    while (op_info[node_at(g, id)->op].kind == KIND_VIEW && node_at(g, id)->nin == 1) id = node_in(g, id)[0];
    return id;
}

static bool is_sum(const Graph *g, Id id) { return op_info[node_at(g, below_views(g, id))->op].kind == KIND_REDUCE; }

/* Whether a kernel serves all numbers that something is divided by: a number of elements, but halves of what is no sum, or any that leaves a division one;
 * a sum may be multiplied by a power of two, too. */
static bool serves_all(double x, bool divides, bool sum)
{
    if (!(x > 0 && x < 0x1p1000)) return false;
    bool whole = x == rint(x);
    return whole ? x > (sum ? 1 : 2) && x < 0x1p53 : divides || sum;
}

/* The operand of a division (or of a multiplication by a power of two, which is one) that is no constant of the kernel. -1: there is none; *x is the divisor. */
static int find_count(const Graph *g, Id id, double *x)
{
    const Node *n = node_at(g, id);
    bool divides = n->op == OP_divide;
    int64_t bits;
    int exponent;
    if ((n->dtype != DT_float32 && n->dtype != DT_float64) || (!divides && n->op != OP_multiply)) return -1;
    for (int i = divides; i < 2; i++) {
        if (!node_const(g, below_views(g, node_in(g, id)[i]), &bits)) continue;
        *x = float_value(n->dtype, bits);
        if (!divides && frexp(*x, &exponent) != 0.5) continue;
        if (!divides) *x = 1 / *x;
        if (serves_all(*x, divides, is_sum(g, node_in(g, id)[1 - i]))) return i;
    }
    return -1;
}

/* A division by a number of elements; sums are divided whatever it is, other values are multiplied by powers of two. */
static uint32_t divide_count(Lower *l, Id id, const Map *m, int which, double count)
{
    const Graph *g = l->gr->g;
    const Node *n = node_at(g, id);
    Id of = node_in(g, id)[1 - which];
    Op op = is_sum(g, of) ? OP_divide : (Op)n->op;
    uint32_t v = lower_value(l, of, m), by = v ? lower_number(l, n->dtype, op == OP_multiply ? 1 / count : count) : 0;
    return by ? kernel_val(l->arena, l->k, (Val){ .kind = VAL_OP, .op = op, .dtype = n->dtype, .mode = n->mode, .a = v, .b = by }) : 0;
}

static uint32_t elementwise(Lower *l, Id id, const Map *m)
{
    const Node *n = node_at(l->gr->g, id);
    uint32_t in[3] = { 0 };
    double count;
    int which = find_count(l->gr->g, id, &count);
    if (which >= 0) return divide_count(l, id, m, which, count);
    for (int i = 0; i < n->nin; i++)
        if (!(in[i] = lower_value(l, node_in(l->gr->g, id)[i], m))) return 0;
    return kernel_val(l->arena, l->k, (Val){ .kind = VAL_OP, .op = n->op, .dtype = n->dtype, .mode = n->mode, .a = in[0], .b = in[1], .c = in[2] });
}

static uint32_t reduction_value(const Lower *l, Id id)
{
    for (uint32_t i = 0; i < l->reductions.len; i++)
        if (l->reductions.at[i].id == id) return l->reductions.at[i].final;
    err_set(l->err, ERR_INTERNAL, "a reduction is used before its loop");
    return 0;
}

static uint32_t own_value(Lower *l, Id id, const Map *m)
{
    const Graph *g = l->gr->g;
    const Node *n = node_at(g, id);
    const NodeInfo *info = &l->gr->info[id];
    OpKind kind = op_info[n->op].kind;
    if (kind == KIND_DOT || id == l->gp->sum) return l->dot_tile ? load_access(l, n->dtype, l->dot_tile - 1) : 0;
    if (kind == KIND_REDUCE || kind == KIND_SCAN) return reduction_value(l, id);
    for (uint32_t i = 0; info->phase < l->phase && i < l->survey->tiles.len; i++)
        if (l->survey->tiles.at[i] == id && l->tile[i]) return load_access(l, n->dtype, l->tile[i] - 1);
    return elementwise(l, id, m);
}

/* A value of another group's that is stored, in *v; false: it is not. Not inlined: a Map takes 2 KB of stack, and values nest 1,500 deep. */
__attribute__((noinline)) static bool stored_value(Lower *l, Id id, const Map *m, uint32_t *v)
{
    Map at;
    Id from = group_source(l->gr, l->n, id, m, &at);
    if (from) *v = lower_load(l, from, node_at(l->gr->g, id)->dtype, &at);
    return from != 0;
}

static uint32_t view_value(Lower *l, Id id, const Map *m)
{
    const Graph *g = l->gr->g;
    Op op = node_at(g, id)->op;
    int first;
    if (m->flat && op != OP_reshape) {                     /* the linear index holds for a buffer alone */
        err_set(l->err, ERR_INTERNAL, "%s is read by its linear index, which only a stored array has", op_info[op].name);
        return 0;
    }
    const Map *in = map_below(l->arena, g, id, l->gp->extent, m, &first);
    return in ? lower_value(l, node_in(g, id)[0], in) : 0;
}

static uint32_t value(Lower *l, Id id, const Map *m)
{
    const Graph *g = l->gr->g;
    const Node *n = node_at(g, id);
    OpKind kind = op_info[n->op].kind;
    uint32_t v;
    if (n->op == OP_const) return kernel_const(l->arena, l->k, n->dtype, node_attr(g, id)[0]);
    if (n->op == OP_iota) return iota(l, m);
    if (n->op == OP_input) return lower_load(l, group_input_buffer(l->gr, id, m), n->dtype, m);
    if (l->gr->info[id].group == l->n && kind != KIND_PLACE && kind != KIND_VIEW) return own_value(l, id, m);
    if (stored_value(l, id, m, &v)) return v;
    return kind == KIND_VIEW ? view_value(l, id, m) : elementwise(l, id, m);
}

uint32_t lower_value(Lower *l, Id id, const Map *m)
{
    if (l->err->kind) return 0;
    Memo *at = memo_at(l, id, m);
    if (!at) return 0;
    if (at->id) return at->val;
    uint32_t v = value(l, id, m);
    const Map *copy = map_copy(l->arena, m);
    if (!v || !copy || !(at = memo_at(l, id, m))) return 0;
    *at = (Memo){ id, l->phase, v, copy };
    l->memo_len++;
    return v;
}
