/* Folding of views and placements against doing them: random programs over small int64 arrays are carried out array by array and,
 * at the same time, built as a graph, whose folded nodes must then read the same elements. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"

enum { MAX_ELEMENTS = 600, MAX_AXES = 4, ARRAYS = 12, PROGRAMS = 20000 };

typedef struct { Id id; int rank; int64_t shape[MAX_AXES], data[MAX_ELEMENTS]; } Array;

static Err err;
static Arena *arena;
static Graph *g;
static Array arrays[ARRAYS];
static int narrays, folds;
static uint64_t seed = 1;

static int64_t below(int64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return n > 0 ? (int64_t)((seed >> 33) % (uint64_t)n) : 0;
}

static int64_t size_of(const int64_t *shape, int rank)
{
    int64_t n = 1;
    for (int d = 0; d < rank; d++)
        n *= shape[d];
    return n;
}

static void index_of(int64_t flat, const int64_t *shape, int rank, int64_t *index)
{
    for (int d = rank - 1; d >= 0; d--, flat /= shape[d + 1] ? shape[d + 1] : 1)
        index[d] = flat % shape[d];
}

static int64_t flat_of(const int64_t *index, const int64_t *shape, int rank)
{
    int64_t flat = 0;
    for (int d = 0; d < rank; d++)
        flat = flat * shape[d] + index[d];
    return flat;
}

/* ---- a graph's element, by the meaning of the ops in ops.def ---- */

static int64_t element(Id id, const int64_t *index);

static int64_t offset_of(Id id)
{
    int64_t at = 0;
    if (!node_const(g, id, &at))
        abort();
    return at;
}

/* Whether the element lies in the box of an update, and where in it. */
static bool in_box(Id id, const int64_t *index, int64_t *inner)
{
    const Dim *count = node_shape(g, node_in(g, id)[1]);
    for (int d = 0; d < node_at(g, id)->rank; d++) {
        int64_t away = index[d] - offset_of(node_in(g, id)[2 + d]), step = node_attr(g, id)[d];
        if (away % step || away / step < 0 || away / step >= count[d])
            return false;
        inner[d] = away / step;
    }
    return true;
}

static int64_t element_of_concatenate(Id id, const int64_t *index)
{
    int64_t inner[MAX_AXES], axis = node_attr(g, id)[0];
    memcpy(inner, index, sizeof inner);
    for (int k = 0;; k++) {
        int64_t n = node_shape(g, node_in(g, id)[k])[axis];
        if (inner[axis] < n)
            return element(node_in(g, id)[k], inner);
        inner[axis] -= n;
    }
}

static int64_t element(Id id, const int64_t *index)
{
    const Node *n = node_at(g, id);
    const int64_t *attr = node_attr(g, id);
    const Id *in = node_in(g, id);
    int64_t inner[MAX_AXES] = { 0 };
    int rank = n->nin ? node_at(g, in[0])->rank : 0;
    const Dim *from = n->nin ? node_shape(g, in[0]) : NULL;
    switch (n->op) {
    case OP_input:
        for (int k = 0; k < narrays; k++)
            if (arrays[k].id == id)
                return arrays[k].data[flat_of(index, arrays[k].shape, n->rank)];
        abort();
    case OP_const:
        return attr[0];
    case OP_broadcast:
        for (int d = 0; d < rank; d++)
            inner[d] = from[d] == 1 ? 0 : index[n->rank - rank + d];
        return element(in[0], inner);
    case OP_transpose:
        for (int d = 0; d < rank; d++)
            inner[attr[d]] = index[d];
        return element(in[0], inner);
    case OP_reshape:
        index_of(flat_of(index, node_shape(g, id), n->rank), from, rank, inner);
        return element(in[0], inner);
    case OP_slice:
        for (int d = 0; d < rank; d++)
            inner[d] = offset_of(in[1 + d]) + attr[d] * index[d];
        return element(in[0], inner);
    case OP_update:
        return in_box(id, index, inner) ? element(in[1], inner) : element(in[0], index);
    case OP_concatenate:
        return element_of_concatenate(id, index);
    case OP_pad:
        for (int d = 0; d < rank; d++) {
            inner[d] = index[d] - attr[d];
            if (inner[d] < 0 || inner[d] >= from[d])
                return element(in[1], NULL);
        }
        return element(in[0], inner);
    }
    printf("no rule for %s\n", op_info[n->op].name);
    abort();
}

/* ---- steps of a program: the array, and the node ---- */

static Array *pick(void) { return &arrays[below(narrays)]; }

static bool input(void)
{
    Array *r = &arrays[narrays];
    r->rank = (int)below(MAX_AXES);
    for (int d = 0; d < r->rank; d++)
        r->shape[d] = below(8) ? 1 + below(5) : below(2);
    for (int64_t i = 0; i < size_of(r->shape, r->rank); i++)
        r->data[i] = 1000 * narrays + i;
    r->id = graph_input(g, DT_int64, r->shape, r->rank, 0);
    return true;
}

/* A box in x: offsets, steps and extents. */
static void box(const Array *x, int64_t *start, int64_t *step, int64_t *count)
{
    for (int d = 0; d < x->rank; d++) {
        int64_t n = x->shape[d], how = below(4);
        start[d] = 0;
        step[d] = 1;
        count[d] = n;
        if (how == 0 || !n)
            continue;
        start[d] = below(n);
        step[d] = below(2) ? 1 : 1 + below(3);
        if (below(3) == 0)
            step[d] = -step[d];
        int64_t room = step[d] > 0 ? (n - 1 - start[d]) / step[d] + 1 : start[d] / -step[d] + 1;
        count[d] = how == 1 ? 1 : room - below(room + 1 - !below(5));
        count[d] = count[d] < 0 ? 0 : count[d];
    }
}

static bool slice(Array *r, const Array *x)
{
    int64_t start[MAX_AXES], step[MAX_AXES], index[MAX_AXES];
    box(x, start, step, r->shape);
    r->rank = x->rank;
    for (int64_t i = 0; i < size_of(r->shape, r->rank); i++) {
        index_of(i, r->shape, r->rank, index);
        for (int d = 0; d < r->rank; d++)
            index[d] = start[d] + index[d] * step[d];
        r->data[i] = x->data[flat_of(index, x->shape, x->rank)];
    }
    r->id = graph_slice_const(g, x->id, start, step, r->shape);
    return true;
}

/* Writes a piece of some other array that happens to have the right rank and to be large enough, else the box itself. */
static bool update(Array *r, const Array *x)
{
    int64_t start[MAX_AXES], step[MAX_AXES], count[MAX_AXES], index[MAX_AXES];
    Array v;
    const Array *other = pick();
    box(x, start, step, count);
    bool fits = other->rank == x->rank;
    for (int d = 0; d < x->rank && fits; d++)
        fits = other->shape[d] >= count[d];
    int64_t zero[MAX_AXES] = { 0 }, one[MAX_AXES] = { 1, 1, 1, 1 };
    v.id = fits ? graph_slice_const(g, other->id, zero, one, count) : graph_slice_const(g, x->id, start, step, count);
    *r = (Array){ .rank = x->rank };
    memcpy(r->shape, x->shape, sizeof r->shape);
    memcpy(r->data, x->data, sizeof r->data);
    for (int64_t i = 0; i < size_of(count, x->rank); i++) {
        int64_t to[MAX_AXES];
        index_of(i, count, x->rank, index);
        for (int d = 0; d < x->rank; d++)
            to[d] = start[d] + index[d] * step[d];
        if (fits)
            r->data[flat_of(to, x->shape, x->rank)] = other->data[flat_of(index, other->shape, other->rank)];
    }
    r->id = graph_update_const(g, x->id, v.id, start, step);
    return true;
}

static bool transpose(Array *r, const Array *x)
{
    int perm[MAX_AXES] = { 0, 1, 2, 3 };
    int64_t index[MAX_AXES], inner[MAX_AXES];
    r->rank = x->rank;
    for (int d = x->rank - 1; d > 0; d--) {
        int64_t k = below(d + 1);
        int t = perm[d];
        perm[d] = perm[k];
        perm[k] = t;
    }
    for (int d = 0; d < r->rank; d++)
        r->shape[d] = x->shape[perm[d]];
    for (int64_t i = 0; i < size_of(r->shape, r->rank); i++) {
        index_of(i, r->shape, r->rank, index);
        for (int d = 0; d < r->rank; d++)
            inner[perm[d]] = index[d];
        r->data[i] = x->data[flat_of(inner, x->shape, x->rank)];
    }
    r->id = graph_transpose(g, x->id, perm);
    return true;
}

/* Adds or takes axes of extent 1, or flattens, or splits. */
static bool reshape(Array *r, const Array *x)
{
    int64_t n = size_of(x->shape, x->rank), how = below(4);
    r->rank = 0;
    if (how == 0) {
        r->shape[r->rank++] = n;
    } else if (how == 1 && n % 2 == 0) {
        r->shape[r->rank++] = n / 2;
        r->shape[r->rank++] = 2;
    } else {
        if (how == 2 && x->rank < MAX_AXES)
            r->shape[r->rank++] = 1;
        for (int d = 0; d < x->rank; d++)
            if (x->shape[d] != 1 || how == 2)
                r->shape[r->rank++] = x->shape[d];
    }
    memcpy(r->data, x->data, sizeof r->data);
    r->id = graph_reshape(g, x->id, r->shape, r->rank);
    return true;
}

static bool broadcast(Array *r, const Array *x)
{
    int64_t index[MAX_AXES], lead = below(MAX_AXES - x->rank + 1);
    r->rank = x->rank + (int)lead;
    for (int d = 0; d < r->rank; d++) {
        int64_t n = d < lead ? 1 : x->shape[d - lead];
        r->shape[d] = n == 1 ? 1 + below(4) : n;
    }
    if (size_of(r->shape, r->rank) > MAX_ELEMENTS)
        return false;
    for (int64_t i = 0; i < size_of(r->shape, r->rank); i++) {
        index_of(i, r->shape, r->rank, index);
        for (int d = 0; d < x->rank; d++)
            index[d] = x->shape[d] == 1 ? 0 : index[d + lead];
        r->data[i] = x->data[flat_of(index, x->shape, x->rank)];
    }
    r->id = graph_broadcast(g, x->id, r->shape, r->rank);
    return true;
}

static bool concatenate(Array *r, const Array *x)
{
    const Array *y = pick();
    int64_t index[MAX_AXES], axis = below(x->rank);
    if (!x->rank || y->rank != x->rank)
        return false;
    for (int d = 0; d < x->rank; d++) {
        if (d != axis && x->shape[d] != y->shape[d])
            return false;
        r->shape[d] = x->shape[d] + (d == axis ? y->shape[d] : 0);
    }
    r->rank = x->rank;
    if (size_of(r->shape, r->rank) > MAX_ELEMENTS)
        return false;
    for (int64_t i = 0; i < size_of(r->shape, r->rank); i++) {
        index_of(i, r->shape, r->rank, index);
        bool first = index[axis] < x->shape[axis];
        index[axis] -= first ? 0 : x->shape[axis];
        r->data[i] = first ? x->data[flat_of(index, x->shape, x->rank)] : y->data[flat_of(index, y->shape, y->rank)];
    }
    r->id = graph_concatenate(g, (Id[]){ x->id, y->id }, 2, (int)axis);
    return true;
}

static bool pad(Array *r, const Array *x)
{
    int64_t before[MAX_AXES], after[MAX_AXES], index[MAX_AXES];
    r->rank = x->rank;
    for (int d = 0; d < x->rank; d++) {
        before[d] = below(3);
        after[d] = below(2);
        r->shape[d] = before[d] + x->shape[d] + after[d];
    }
    if (size_of(r->shape, r->rank) > MAX_ELEMENTS)
        return false;
    for (int64_t i = 0; i < size_of(r->shape, r->rank); i++) {
        bool inside = true;
        index_of(i, r->shape, r->rank, index);
        for (int d = 0; d < x->rank; d++) {
            index[d] -= before[d];
            inside &= index[d] >= 0 && index[d] < x->shape[d];
        }
        r->data[i] = inside ? x->data[flat_of(index, x->shape, x->rank)] : -7;
    }
    r->id = graph_pad(g, x->id, graph_const(g, DT_int64, -7), before, after);
    return true;
}

static bool step(void)
{
    static bool (*const steps[])(Array *, const Array *) = { slice, slice, slice, update, update, transpose, reshape, broadcast, concatenate, pad };
    return steps[below(sizeof steps / sizeof *steps)](&arrays[narrays], pick());
}

static bool agrees(const Array *r)
{
    int64_t index[MAX_AXES];
    if (!shape_eq(g, node_shape(g, r->id), node_at(g, r->id)->rank, r->shape, r->rank))
        return false;
    for (int64_t i = 0; i < size_of(r->shape, r->rank); i++) {
        index_of(i, r->shape, r->rank, index);
        if (element(r->id, index) != r->data[i])
            return false;
    }
    return true;
}

/* Printed, parsed and printed again a graph is the same, whatever was folded on the way. */
static bool round_trips(void)
{
    Text a = { 0 }, b = { 0 };
    Err e = { 0 };
    graph_print(&a, g);
    Graph *again = graph_parse(arena, a.at);
    if (again)
        graph_print(&b, again);
    bool same = again && !strcmp(a.at, b.at) && graph_verify(g, &e);
    text_free(&a);
    text_free(&b);
    return same;
}

static bool program(void)
{
    arena_free(arena);
    err = (Err){ 0 };
    arena = arena_new(&err);
    g = graph_new(arena);
    for (narrays = 0; narrays < 2; narrays++)
        input();
    for (int tries = 0; tries < 20 && narrays < ARRAYS; tries++) {
        uint32_t before = g->nodes.len;
        if (!step())
            continue;
        folds += g->nodes.len == before;
        if (err.kind || !agrees(&arrays[narrays]))
            return false;
        narrays++;
    }
    return round_trips();
}

int main(void)
{
    int failures = 0;
    for (int k = 0; k < PROGRAMS && failures < 3; k++) {
        if (program())
            continue;
        failures++;
        Text t = { 0 };
        graph_print(&t, g);
        printf("program %d, array %d is %%%u: %s\n%s", k, narrays, arrays[narrays].id, err.msg, t.at);
        text_free(&t);
    }
    arena_free(arena);
    printf("%d programs, %d steps that needed no node, %d failures\n", PROGRAMS, folds, failures);
    return failures != 0;
}
