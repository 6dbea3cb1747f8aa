/* What the fold rules of fold.c (elementwise ops) and fold_view.c (all others) share.
 *
 * A rule is given a node that infer() accepted and returns a simpler node that is exactly equal for all inputs under IEEE
 * arithmetic (up to the sign and payload of a NaN), or 0. It makes nodes only when it is sure to use them: printing and parsing
 * a graph gives the same ids because a rule that returned 0 once returns 0 again and leaves nothing behind.
 *
 * Tempting and wrong: x + 0.0 ==> x (x = -0.0), x * 0.0 ==> 0.0 (NaN, inf, -1), x - x ==> 0.0 (inf), x == x ==> True (NaN),
 * not (x < y) ==> y <= x (NaN), 0.0 - x ==> -x (x = 0.0), maximum(x, y) ==> maximum(y, x) (0.0 and -0.0),
 * sum over an axis of extent 1 ==> x (0 + -0.0), int8(float64(int32 x)) ==> int8(x) (out of range). */
#pragma once
#include "ir/ir.h"

typedef struct {
    Graph *g;
    Op op;
    const Id *in;
    int nin;
    const int64_t *attr;
    int nattr;
    const Type *type;
} Fold;

typedef Id FoldRule(const Fold *f);

Id fold_elementwise(const Fold *f);
extern FoldRule *const fold_rules[OP_COUNT];           /* of VIEW, PLACE, REDUCE, SCAN, DOT and CONTROL; NULL: none */

static inline const Node *fold_input(const Fold *f, int k) { return node_at(f->g, f->in[k]); }
static inline const Dim *fold_shape(const Fold *f, int k) { return node_shape(f->g, f->in[k]); }

/* The scalar (rank 0) node that an array repeats, or 0. */
static inline Id fold_scalar(const Graph *g, Id id)
{
    if (node_at(g, id)->op == OP_broadcast)
        id = node_in(g, id)[0];
    return node_at(g, id)->rank ? 0 : id;
}

/* Whether an array repeats one known number. */
static inline bool fold_known(const Graph *g, Id id, int64_t *bits)
{
    Id s = fold_scalar(g, id);
    return s && node_const(g, s, bits);
}

/* A scalar in the shape of the result. */
static inline Id fold_spread(const Fold *f, Id scalar) { return graph_broadcast(f->g, scalar, f->type->shape, f->type->rank); }
