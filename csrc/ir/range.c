/* Bounds of integer values, as far as the graph shows them: they save checks of indices that cannot leave their axis. */
#include <string.h>
#include "ir/ir.h"

typedef struct { int64_t lo, hi; } Range;

static Range dtype_range(Dtype d)
{
    int bits = 8 * dtype_info[d].bytes;
    if (d == DT_bool_) return (Range){ 0, 1 };
    if (dtype_info[d].kind == DKIND_UINT) return (Range){ 0, bits == 64 ? INT64_MAX : ((int64_t)1 << bits) - 1 };
    return (Range){ INT64_MIN >> (64 - bits), INT64_MAX >> (64 - bits) };
}

static bool range_of(const Graph *g, Id id, int depth, Range *r);

/* a op b at the four corners; false where one overflows. */
static bool corners(Op op, Range a, Range b, Range *r)
{
    *r = (Range){ INT64_MAX, INT64_MIN };
    for (int k = 0; k < 4; k++) {
        int64_t x = k & 1 ? a.hi : a.lo, y = k & 2 ? b.hi : b.lo, z;
        bool over = op == OP_add ? __builtin_add_overflow(x, y, &z) : op == OP_subtract ? __builtin_sub_overflow(x, y, &z) : __builtin_mul_overflow(x, y, &z);
        if (over) return false;
        if (z < r->lo) r->lo = z;
        if (z > r->hi) r->hi = z;
    }
    return true;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static bool elementwise(const Graph *g, Id id, int depth, Range *r)
{
    const Node *n = node_at(g, id);
    const Id *in = node_in(g, id);
    Range a, b;
    int first = n->op == OP_where;
    if (n->op == OP_cast) return range_of(g, in[0], depth, r);
    if (n->op == OP_minimum && n->dtype == DT_uint64) {                /* either bound does: nothing is below 0 */
        bool low = range_of(g, in[0], depth, &a), high = range_of(g, in[1], depth, &b);
        *r = (Range){ 0, low && high ? least(a.hi, b.hi) : low ? a.hi : b.hi };
        return low || high;
    }
    if (n->nin - first != 2 || !range_of(g, in[first], depth, &a) || !range_of(g, in[first + 1], depth, &b)) return false;
    switch ((int)n->op) {
    case OP_where: *r = (Range){ least(a.lo, b.lo), most(a.hi, b.hi) }; return true;
    case OP_minimum: *r = (Range){ least(a.lo, b.lo), least(a.hi, b.hi) }; return true;
    case OP_maximum: *r = (Range){ most(a.lo, b.lo), most(a.hi, b.hi) }; return true;
    case OP_add: case OP_subtract: case OP_multiply: return corners(n->op, a, b, r);
    case OP_remainder:
        if (b.lo < 0) return false;
        *r = (Range){ 0, b.hi > 0 ? b.hi - 1 : 0 };
        return true;
    case OP_bitwise_and:
        if (a.lo < 0 && b.lo < 0) return false;
        *r = (Range){ 0, a.lo < 0 ? b.hi : b.lo < 0 ? a.hi : least(a.hi, b.hi) };
        return true;
    case OP_floor_divide:
        if (b.lo < 1) return false;
        *r = (Range){ a.lo < 0 ? a.lo : 0, a.hi < 0 ? -1 : a.hi / b.lo };
        return true;
    case OP_right_shift:
        if (b.lo < 0) return false;
        *r = (Range){ least(a.lo, 0), most(a.hi, 0) };
        return true;
    }
    return false;
}

/* A range that need not fit the dtype. */
static bool unbounded(const Graph *g, Id id, int depth, Range *r)
{
    const Node *n = node_at(g, id);
    int64_t bits;
    if (node_const(g, id, &bits)) {
        *r = (Range){ bits, bits };
        return n->dtype != DT_uint64 || bits >= 0;
    }
    if (n->op == OP_iota) {
        *r = (Range){ 0, most(dim_hi(g, node_shape(g, id)[0]) - 1, 0) };
        return true;
    }
    if (n->op == OP_reduce_argmax || n->op == OP_reduce_argmin) {
        *r = (Range){ 0, most(node_size(g, node_in(g, id)[0]) - 1, 0) };
        return true;
    }
    if (n->op == OP_reduce_sum) {                         /* a number of elements that are not negative: a count */
        Id a = node_in(g, id)[0];
        int64_t most_terms = 1;
        for (int d = 0; d < node_at(g, a)->rank; d++)
            if (__builtin_mul_overflow(most_terms, dim_hi(g, node_shape(g, a)[d]), &most_terms)) return false;
        return range_of(g, a, depth, r) && r->lo >= 0 && !__builtin_mul_overflow(r->hi, most_terms, &r->hi) && ((r->lo = 0), true);
    }
    switch (op_info[n->op].kind) {
    case KIND_VIEW: return n->op != OP_margin && range_of(g, node_in(g, id)[0], depth, r);
    case KIND_ELEMENTWISE: return elementwise(g, id, depth, r);
    default: return false;
    }
}

static bool range_of(const Graph *g, Id id, int depth, Range *r)
{
    Dtype d = (Dtype)node_at(g, id)->dtype;
    if (dtype_info[d].kind > DKIND_UINT) return false;
    *r = dtype_range(d);
    Range found;
    if (depth < 12 && unbounded(g, id, depth + 1, &found) && found.lo >= r->lo && found.hi <= r->hi) *r = found;
    return d != DT_uint64 || r->hi < INT64_MAX;
}

bool node_range(const Graph *g, Id id, int64_t *lo, int64_t *hi)
{
    Range r;
    bool known = id && range_of(g, id, 0, &r);
    if (known) *lo = r.lo, *hi = r.hi;
    return known;
}
