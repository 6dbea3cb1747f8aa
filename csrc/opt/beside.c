/* Variances beside other reductions of the same arrays, in a form that a pass over memory can serve together with those (schedule_together.c): the blocks that a variance
 * of much goes by otherwise (variance.c) are a domain of their own.
 *
 *   x.var(1) beside x.sum(0)       goes by its rows. A row too long to be gone through twice in the first cache is cut into equal pieces: an axis more, for all reductions of x
 *   x.var() beside x.sum(0)        goes by rows of x, too, or pieces of them
 *   without equal pieces           one loop, with the moments of what elements differ by from the first one
 */
#include "opt/plan.h"

enum {
    PIECE_MOST = 8192,           /* bytes of a row that schedule_together.c goes through several times in the first cache */
    PIECE_LEAST = 1024,          /* ... that is worth what its own moments cost */
    LOOKED_AT = 32,              /* nodes of a computed value */
    SHARED = 16,                 /* second caches, that may lie in the shared one */
    L2 = 1 << 20,                /* where no target is known */
};

static uint64_t all_axes(const Graph *g, Id x) { return (1ull << node_at(g, x)->rank) - 1; }

/* What reduction `id` is of, below a transpose or a reshape that is reduced as a whole, and over which axes. */
static Id base_of(const Graph *g, Id id, uint64_t *axes)
{
    Id x = node_in(g, id)[0];
    *axes = (uint64_t)node_attr(g, id)[0];
    if (node_at(g, x)->op == OP_reshape && *axes == all_axes(g, x)) {
        x = node_in(g, x)[0];
        *axes = all_axes(g, x);
        return x;
    }
    if (node_at(g, x)->op != OP_transpose) return x;
    const int64_t *perm = node_attr(g, x);
    uint64_t below = 0;
    for (int d = 0; d < node_at(g, x)->rank; d++) if (*axes >> d & 1) below |= 1ull << perm[d];
    *axes = below;
    return node_in(g, x)[0];
}

/* Notes that value v, x or computed from x element by element, is reduced over these axes, at x and all that it is computed from. */
static void note(const Graph *g, Id x, Id v, uint64_t axes, bool varies, Beside *b, int *left)
{
    const Node *n = node_at(g, x);
    if (--*left < 0) return;
    b[x].mixed = b[x].mixed || (b[x].of && (b[x].axes != axes || b[x].of != v));
    b[x].of = v;
    b[x].axes = axes;
    b[x].varied = b[x].varied || varies;
    for (int i = 0; i < n->nin && op_info[n->op].kind == KIND_ELEMENTWISE; i++) note(g, node_in(g, x)[i], v, axes, varies, b, left);
}

void beside_note(const Graph *g, Id id, Beside *b)
{
    uint64_t axes;
    int left = LOOKED_AT;
    if (op_info[node_at(g, id)->op].kind != KIND_REDUCE) return;
    Id x = base_of(g, id, &axes), v = node_in(g, id)[0];
    int kept = 0;
    for (int d = 0; d < node_at(g, v)->rank; d++) kept += !(node_attr(g, id)[0] >> d & 1) && node_shape(g, v)[d] != 1;
    b[v].numbers += !kept;
    if (!node_at(g, x)->rank) return;
    Op op = node_at(g, id)->op;
    b[x].places = b[x].places || op == OP_reduce_argmax || op == OP_reduce_argmin;
    note(g, x, x, axes, node_at(g, id)->op == OP_reduce_var && axes >> (node_at(g, x)->rank - 1) & 1, b, &left);
}

/* Whether what x is computed from is reduced over several sets of axes, or as several values, or its greatest element is looked for, which blocks of a variance do
 * not give: from the shared cache two passes are quicker. */
static bool is_mixed(const Graph *g, Id x, const Beside *b, const Target *target, int *left)
{
    const Node *n = node_at(g, x);
    int64_t l2 = target && target->l2 ? (int64_t)target->l2 : L2;
    if (b[x].mixed || (b[x].places && node_size(g, x) * dtype_info[n->dtype].bytes > l2 * SHARED)) return true;
    if (--*left < 0) return false;
    for (int i = 0; i < n->nin && op_info[n->op].kind == KIND_ELEMENTWISE; i++) if (is_mixed(g, node_in(g, x)[i], b, target, left)) return true;
    return false;
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

bool beside_varies(const Beside *b, const Graph *old, Id id)
{
    uint64_t over;
    return b[base_of(old, id, &over)].varied;
}

VarianceForm beside_form(const Beside *b, const Graph *old, Id id, const Graph *g, Id x, const Target *target, const PlanInput *in)
{
    uint64_t over;
    int left = LOOKED_AT;
    if (op_info[node_at(old, id)->op].kind != KIND_REDUCE || !node_at(g, x)->rank) return VARIANCE_ALONE;
    Id base = base_of(old, id, &over);
    if (!b[base].varied || !is_mixed(old, base, b, target, &left)) return VARIANCE_ALONE;
    Dim row = node_shape(g, x)[node_at(g, x)->rank - 1];
    return row >= 0 && piece_of(g, x, target, in) == row ? VARIANCE_ROWS : VARIANCE_SHARED;
}

/* The value with variances that y is, or is computed from by operations that are for y alone; 0: there is none. */
static Id varied_below(const Beside *b, const Graph *old, const uint32_t *uses, Id y, int *left)
{
    const Node *n = node_at(old, y);
    Id x = b[y].varied ? y : 0;
    if (--*left < 0) return 0;
    for (int i = 0; i < n->nin && !x && op_info[n->op].kind == KIND_ELEMENTWISE && uses[y] == 1; i++) x = varied_below(b, old, uses, node_in(old, y)[i], left);
    return x;
}

bool beside_cut(const Beside *b, const Graph *old, Id id, const Id *map, const uint32_t *uses, Graph *g, const Target *target, const PlanInput *in, Id *x, int64_t *axes)
{
    uint64_t over;
    Id base = base_of(old, id, &over), v = *x;
    int r = node_at(g, v)->rank, left = LOOKED_AT, looked = LOOKED_AT;
    Dim shape[MAX_RANK];
    Id varied = v == map[base] && r ? varied_below(b, old, uses, base, &looked) : 0;
    if (!varied || node_at(g, map[varied])->rank != r || !is_mixed(old, varied, b, target, &left)) return false;
    Dim piece = piece_of(g, map[varied], target, in);
    if (!piece || piece == node_shape(g, v)[r - 1]) return false;
    for (int d = 0; d < r; d++) shape[d] = node_shape(g, v)[d];
    shape[r - 1] /= piece;
    shape[r] = piece;
    if (*axes >> (r - 1) & 1) *axes |= 1ll << r;
    *x = graph_reshape(g, v, shape, r + 1);
    return *x != 0;
}
