/* Reductions of one value beside each other, in the form in which a pass can serve all of them (schedule_together.c), which asks for one domain:
 *
 *   x.T.sum(0) beside x.sum(0)     is x.sum(1)
 *   x.argmax() beside x.sum(0)     is of x and not of x.ravel(), if all that is made of x.ravel() is such numbers
 *   x.var() beside x.sum(0)        goes by rows (variance.c), which are blocks of it. A row too long to be gone through twice in the first cache is cut into
 *                                  equal pieces: an axis more, for all reductions of x
 */
#include "opt/plan.h"

enum {
    PIECE_MOST = 8192,           /* bytes of a row that schedule_together.c goes through several times */
    PIECE_LEAST = 1024,          /* ... that is worth what its own moments cost */
    LOOKED_AT = 32,              /* nodes of a computed value */
    L2 = 1 << 20,                /* where no target is known */
};

/* The axis mask of a reduction as one of what a transpose shows, in *x; false: the result would have to be transposed, or positions would count in another order. */
static bool below_transpose(const Graph *g, Op op, Id *x, uint64_t *axes)
{
    const int64_t *perm = node_attr(g, *x);
    bool places = op == OP_reduce_argmax || op == OP_reduce_argmin;
    int64_t kept = -1, over = -1;
    uint64_t below = 0;
    for (int d = 0; d < node_at(g, *x)->rank; d++) {
        bool reduced = *axes >> d & 1;
        int64_t *last = reduced ? &over : &kept;
        if (perm[d] < *last && (!reduced || places)) return false;
        *last = perm[d];
        if (reduced) below |= 1ull << perm[d];
    }
    *x = node_in(g, *x)[0];
    *axes = below;
    return true;
}

static uint64_t all_axes(const Graph *g, Id x) { return (1ull << node_at(g, x)->rank) - 1; }

/* What reduction `id` is of, seen as above, and over which axes; whether that is its own input. */
static bool base_of(const Graph *g, Id id, const Beside *b, const uint32_t *uses, Id *x, uint64_t *axes)
{
    Op op = node_at(g, id)->op;
    *x = node_in(g, id)[0];
    *axes = (uint64_t)node_attr(g, id)[0];
    if (node_at(g, *x)->op == OP_reshape && *axes == all_axes(g, *x) && b[*x].numbers == uses[*x] && node_at(g, node_in(g, *x)[0])->rank) {
        *x = node_in(g, *x)[0];
        *axes = all_axes(g, *x);
        return false;
    }
    return node_at(g, *x)->op != OP_transpose || !below_transpose(g, op, x, axes);
}

static void note(Beside *b, uint64_t axes, bool own)
{
    b->mixed = b->mixed || (b->axes && (b->axes != axes || b->own != own));
    b->axes = axes;
    b->own = b->own || own;
}

void beside_note(const Graph *g, Id id, const uint32_t *uses, Beside *b)
{
    const Node *n = node_at(g, id);
    Id x = n->nin ? node_in(g, id)[0] : 0;
    uint64_t axes;
    if (n->op == OP_reshape && b[id].numbers && b[id].numbers == uses[id]) note(&b[x], all_axes(g, x), false);
    if (op_info[n->op].kind != KIND_REDUCE) return;
    if (node_at(g, x)->op == OP_reshape && (uint64_t)node_attr(g, id)[0] == all_axes(g, x)) {
        b[x].numbers++;
        return;
    }
    bool own = base_of(g, id, b, uses, &x, &axes);
    note(&b[x], axes, own);
    if (n->op == OP_reduce_var && axes >> (node_at(g, x)->rank - 1) & 1) b[x].varied = true;
}

/* Whether the value is read along its last axis in order. */
static bool lies_along_last(const Graph *g, const PlanInput *in, Id x, int *left)
{
    const Node *n = node_at(g, x);
    OpKind kind = op_info[n->op].kind;
    if (--*left < 0 || n->op == OP_transpose || n->op == OP_gather || n->op == OP_window) return false;
    if (n->op == OP_input) return !in || !n->rank || in[node_attr(g, x)[0]].stride[n->rank - 1] == dtype_info[n->dtype].bytes;
    for (int i = 0; i < n->nin && (kind == KIND_ELEMENTWISE || (kind == KIND_VIEW && !i)); i++)
        if (!lies_along_last(g, in, node_in(g, x)[i], left)) return false;
    return true;
}

/* The length of the pieces that rows of x, together past the second cache, are gone through in: all of a row, or an equal part; 0: not by rows. */
static Dim piece_of(const Graph *g, Id x, const Target *target, const PlanInput *in)
{
    const Node *n = node_at(g, x);
    int left = LOOKED_AT;
    int64_t l2 = target && target->l2 ? (int64_t)target->l2 : L2, bytes = dtype_info[n->dtype].bytes;
    for (int d = 0; d < n->rank; d++) if (node_shape(g, x)[d] < 0) return 0;
    if (n->rank < 2 || node_size(g, x) * bytes <= l2 || !lies_along_last(g, in, x, &left)) return 0;
    Dim row = node_shape(g, x)[n->rank - 1];
    for (Dim most = PIECE_MOST / bytes, piece = row < most ? row : most; piece * bytes >= PIECE_LEAST; piece--)
        if (row % piece == 0) return piece == row || (op_info[n->op].kind != KIND_ELEMENTWISE && n->rank < MAX_RANK) ? piece : 0;
    return 0;
}

bool beside_rows(const Beside *b, const Graph *old, Id id, const uint32_t *uses, const Graph *g, Id x, const Target *target, const PlanInput *in)
{
    Id base;
    uint64_t over;
    if (op_info[node_at(old, id)->op].kind != KIND_REDUCE) return false;
    base_of(old, id, b, uses, &base, &over);
    return b[base].mixed && b[base].varied && node_at(g, x)->rank && piece_of(g, x, target, in) == node_shape(g, x)[node_at(g, x)->rank - 1];
}

bool beside_place(const Beside *b, const Graph *old, Id id, const uint32_t *uses, const Id *map, Graph *g, const Target *target, const PlanInput *in, Id *x, int64_t *axes)
{
    Id base;
    uint64_t over;
    bool own = base_of(old, id, b, uses, &base, &over);
    if (!b[base].mixed || !b[base].own) return false;
    Id v = own ? *x : map[base];
    int r = node_at(g, v)->rank;
    Dim shape[MAX_RANK], piece = b[base].varied ? piece_of(g, v, target, in) : 0;
    bool cut = piece && piece != node_shape(g, v)[r - 1];
    if (own && !cut) return false;
    if (cut) {
        for (int d = 0; d < r; d++) shape[d] = node_shape(g, v)[d];
        shape[r - 1] /= piece;
        shape[r] = piece;
        v = graph_reshape(g, v, shape, r + 1);
        if (over >> (r - 1) & 1) over |= 1ull << r;
    }
    *x = v;
    *axes = (int64_t)over;
    return v != 0;
}
