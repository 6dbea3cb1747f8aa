/* Dimensions that are not numbers: affine forms over int64 scalar nodes, interned so that equal forms are one Dim, and the
 * bounds of those scalars. A form is a constant and terms (scalar, factor), sorted by scalar, factors not 0. */
#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "ir/ir.h"

enum { BUCKETS = 64, MAX_TERMS = 32, MAX_DEPTH = 16 };

typedef struct { int64_t constant; uint32_t n, term, next; } Form;   /* terms at .term; next: chain of the bucket */
typedef struct { Id scalar; Dim lo, hi; } Bound;

struct DimTable {
    VEC(Form) forms;                       /* forms.at[0] is none */
    VEC(Id) scalars;                       /* of terms */
    VEC(int64_t) factors;
    VEC(Bound) bounds;                     /* in the order they were given */
    VEC(uint32_t) bound_of;                /* scalar -> index into bounds plus 1 */
    uint32_t bucket[BUCKETS];
};

static struct DimTable *dim_table(Graph *g)
{
    if (!g->dims && (g->dims = arena_alloc(g->arena, sizeof *g->dims)) && !vec_push(g->arena, &g->dims->forms))
        g->dims = NULL;
    return g->dims;
}

static const Form *form_at(const Graph *g, Dim d) { return &g->dims->forms.at[-d]; }

int dim_terms(const Graph *g, Dim d, int64_t *constant, const Id **scalar, const int64_t **factor)
{
    if (d >= 0) {
        *constant = d;
        return 0;
    }
    const Form *f = form_at(g, d);
    *constant = f->constant;
    *scalar = g->dims->scalars.at + f->term;
    *factor = g->dims->factors.at + f->term;
    return (int)f->n;
}

bool dim_valid(const Graph *g, Dim d) { return d >= 0 || (g->dims && d > -(Dim)g->dims->forms.len); }

static Dim too_big(Graph *g)
{
    err_set(g->err, ERR_VALUE, "array is too big; an extent does not fit 64 bits");
    return 0;
}

/* Adds a term to a sorted list, or a constant scalar to the constant; false if something overflows. */
static bool add_term(const Graph *g, int64_t *constant, Id *scalar, int64_t *factor, int *n, Id s, int64_t f)
{
    int64_t value;
    if (node_const(g, s, &value))
        return !__builtin_mul_overflow(value, f, &value) && !__builtin_add_overflow(*constant, value, constant);
    int k = 0;
    while (k < *n && scalar[k] < s)
        k++;
    if (k < *n && scalar[k] == s) {
        if (__builtin_add_overflow(factor[k], f, &factor[k]))
            return false;
        if (factor[k])
            return true;
        (*n)--;
        memmove(scalar + k, scalar + k + 1, (size_t)(*n - k) * sizeof *scalar);
        memmove(factor + k, factor + k + 1, (size_t)(*n - k) * sizeof *factor);
        return true;
    }
    if (!f)
        return true;
    memmove(scalar + k + 1, scalar + k, (size_t)(*n - k) * sizeof *scalar);
    memmove(factor + k + 1, factor + k, (size_t)(*n - k) * sizeof *factor);
    scalar[k] = s;
    factor[k] = f;
    (*n)++;
    return true;
}

/* The Dim of a normalised form with n > 0 terms. */
static Dim form_intern(Graph *g, int64_t constant, const Id *scalar, const int64_t *factor, int n)
{
    struct DimTable *t = dim_table(g);
    if (!t)
        return 0;
    size_t ids = (size_t)n * sizeof *scalar, words = (size_t)n * sizeof *factor;
    uint64_t hash = hash_bytes(scalar, ids, hash_bytes(factor, words, (uint64_t)constant));
    uint32_t *head = &t->bucket[hash % BUCKETS];
    for (uint32_t k = *head; k; k = t->forms.at[k].next) {
        const Form *f = &t->forms.at[k];
        if (f->constant == constant && f->n == (uint32_t)n && !memcmp(t->scalars.at + f->term, scalar, ids)
            && !memcmp(t->factors.at + f->term, factor, words))
            return -(Dim)k;
    }
    if (!vec_reserve(g->arena, &t->scalars, n) || !vec_reserve(g->arena, &t->factors, n)
        || !vec_push(g->arena, &t->forms))
        return 0;
    uint32_t k = t->forms.len - 1;
    t->forms.at[k] = (Form){ constant, (uint32_t)n, t->scalars.len, *head };
    memcpy(t->scalars.at + t->scalars.len, scalar, ids);
    memcpy(t->factors.at + t->factors.len, factor, words);
    t->scalars.len += (uint32_t)n;
    t->factors.len += (uint32_t)n;
    *head = k;
    return -(Dim)k;
}

Dim dim_affine(Graph *g, int64_t constant, const Id *scalar, const int64_t *factor, int n)
{
    Id s[MAX_TERMS];
    int64_t f[MAX_TERMS];
    int count = 0;
    for (int i = 0; i < n; i++) {
        if (!scalar[i])
            return 0;
        const Node *node = node_at(g, scalar[i]);
        if (node->rank || node->dtype != DT_int64) {
            err_set(g->err, ERR_INTERNAL, "an extent over %%%u, which is no int64 scalar", scalar[i]);
            return 0;
        }
        if (count == MAX_TERMS) {
            err_set(g->err, ERR_LIMIT, "an extent depends on more than %d run-time numbers; join fewer arrays whose sizes depend on data at a time", MAX_TERMS);
            return 0;
        }
        if (!add_term(g, &constant, s, f, &count, scalar[i], factor[i]))
            return too_big(g);
    }
    if (count)
        return form_intern(g, constant, s, f, count);
    if (constant < 0) {
        err_set(g->err, ERR_VALUE, "negative dimensions are not allowed: an extent is %" PRId64, constant);
        g->err->src = g->src;
        return 0;
    }
    return constant;
}

/* p * a + q * b */
static Dim combine(Graph *g, Dim a, int64_t p, Dim b, int64_t q)
{
    Id s[2 * MAX_TERMS];
    int64_t f[2 * MAX_TERMS], ca, cb, sum;
    int n = 0;
    for (int side = 0; side < 2; side++) {
        const Id *scalar = NULL;
        const int64_t *factor = NULL;
        int64_t *c = side ? &cb : &ca, k = side ? q : p;
        int terms = dim_terms(g, side ? b : a, c, &scalar, &factor);
        if (__builtin_mul_overflow(*c, k, c))
            return too_big(g);
        for (int i = 0; i < terms; i++, n++) {
            s[n] = scalar[i];
            if (__builtin_mul_overflow(factor[i], k, &f[n]))
                return too_big(g);
        }
    }
    return __builtin_add_overflow(ca, cb, &sum) ? too_big(g) : dim_affine(g, sum, s, f, n);
}

Dim dim_add(Graph *g, Dim a, Dim b) { return combine(g, a, 1, b, 1); }
Dim dim_sub(Graph *g, Dim a, Dim b) { return combine(g, a, 1, b, -1); }
Dim dim_mul(Graph *g, Dim a, int64_t k) { return combine(g, a, k, 0, 0); }

bool dim_eq(const Graph *g, Dim a, Dim b)
{
    (void)g;
    return a == b;                         /* forms are normalised and interned */
}

bool dim_bounds(const Graph *g, Id scalar, Dim *lo, Dim *hi)
{
    const struct DimTable *t = g->dims;
    if (!t || scalar >= t->bound_of.len || !t->bound_of.at[scalar])
        return false;
    const Bound *b = &t->bounds.at[t->bound_of.at[scalar] - 1];
    *lo = b->lo;
    *hi = b->hi;
    return true;
}

/* The least (up: greatest) value of a dim; INT64_MIN (INT64_MAX) where it is unbounded. */
static int64_t extreme(const Graph *g, Dim d, bool up, int depth)
{
    int64_t unbounded = up ? INT64_MAX : INT64_MIN, sum, term;
    const Id *scalar = NULL;
    const int64_t *factor = NULL;
    int n = dim_terms(g, d, &sum, &scalar, &factor);
    for (int i = 0; i < n; i++) {
        bool high = factor[i] > 0 ? up : !up;
        Dim lo, hi;
        if (depth == MAX_DEPTH || !dim_bounds(g, scalar[i], &lo, &hi))
            return unbounded;
        int64_t edge = extreme(g, high ? hi : lo, high, depth + 1);
        if (edge == (high ? INT64_MAX : INT64_MIN) || __builtin_mul_overflow(edge, factor[i], &term)
            || __builtin_add_overflow(sum, term, &sum))
            return unbounded;
    }
    return sum;
}

int64_t dim_lo(const Graph *g, Dim a)
{
    int64_t lo = extreme(g, a, false, 0);
    return lo < 0 ? 0 : lo;                /* an extent is never negative */
}

int64_t dim_hi(const Graph *g, Dim a) { return extreme(g, a, true, 0); }

/* Whether a bound mentions only scalars older than the one it bounds, which keeps extreme() from going round. */
static bool bound_older(const Graph *g, Dim d, Id scalar)
{
    int64_t constant;
    const Id *s = NULL;
    const int64_t *factor;
    int n = dim_terms(g, d, &constant, &s, &factor);
    return n == 0 || s[n - 1] < scalar;
}

void dim_bound(Graph *g, Id scalar, Dim lo, Dim hi)
{
    if (g->err->kind != ERR_NONE || !scalar || node_at(g, scalar)->op == OP_const)
        return;
    const Node *n = node_at(g, scalar);
    struct DimTable *t = dim_table(g);
    if (n->rank || n->dtype != DT_int64 || !bound_older(g, lo, scalar) || !bound_older(g, hi, scalar))
        err_set(g->err, ERR_INTERNAL, "a bound of %%%u that is not over older int64 scalars", scalar);
    if (!t || g->err->kind != ERR_NONE)
        return;
    while (t->bound_of.len <= scalar)
        if (!vec_push(g->arena, &t->bound_of))
            return;
    if (!t->bound_of.at[scalar]) {
        if (!vec_push(g->arena, &t->bounds))
            return;
        t->bound_of.at[scalar] = t->bounds.len;
    }
    t->bounds.at[t->bound_of.at[scalar] - 1] = (Bound){ scalar, lo, hi };
}

void dim_rollback(Graph *g, uint32_t nodes)
{
    struct DimTable *t = g->dims;
    if (!t)
        return;
    /* Forms may stay: they mean what they say of whatever node gets the id. Bounds may not. */
    for (uint32_t i = nodes; i < t->bound_of.len; i++)
        t->bound_of.at[i] = 0;
}

bool shape_eq(const Graph *g, const Dim *a, int ra, const Dim *b, int rb)
{
    if (ra != rb)
        return false;
    for (int i = 0; i < ra; i++)
        if (!dim_eq(g, a[i], b[i]))
            return false;
    return true;
}

static int broadcast_fails(Graph *g, const Dim *a, int ra, const Dim *b, int rb, bool runtime)
{
    Text t = { 0 };
    text_put(&t, runtime ? "cannot tell while tracing whether the extents of these shapes are equal: "
                         : "operands could not be broadcast together with shapes ");
    shape_print(&t, g, a, ra);
    text_put(&t, " ");
    shape_print(&t, g, b, rb);
    err_set(g->err, runtime ? ERR_UNSUPPORTED : ERR_VALUE, "%s", t.failed ? "operands could not be broadcast together" : t.at);
    text_free(&t);
    return -1;
}

int shape_broadcast(Graph *g, const Dim *a, int ra, const Dim *b, int rb, Dim *out)
{
    int rank = ra > rb ? ra : rb;
    for (int k = 1; k <= rank; k++) {      /* from the last axis */
        Dim x = k <= ra ? a[ra - k] : 1, y = k <= rb ? b[rb - k] : 1;
        if (!dim_eq(g, x, y) && x != 1 && y != 1)
            return broadcast_fails(g, a, ra, b, rb, x < 0 || y < 0);
        out[rank - k] = x == 1 ? y : x;
    }
    return rank;
}

void dim_print(Text *t, const Graph *g, Dim d)
{
    int64_t constant;
    const Id *scalar = NULL;
    const int64_t *factor = NULL;
    int n = dim_terms(g, d, &constant, &scalar, &factor);
    for (int i = 0; i < n; i++) {
        text_put(t, i && factor[i] > 0 ? "+" : "");
        if (factor[i] != 1)
            text_put(t, "%" PRId64 "*", factor[i]);
        text_put(t, "%%%u", scalar[i]);
    }
    if (!n)
        text_put(t, "%" PRId64, constant);
    else if (constant)
        text_put(t, "%+" PRId64, constant);
}

void shape_print(Text *t, const Graph *g, const Dim *shape, int rank)
{
    text_put(t, "(");
    for (int i = 0; i < rank; i++) {
        text_put(t, i ? "," : "");
        dim_print(t, g, shape[i]);
    }
    text_put(t, rank == 1 ? ",)" : ")");
}

bool reshape_strides(int rank, const int64_t *shape, const int64_t *stride, int new_rank, const int64_t *new_shape, int64_t *new_stride)
{
    int64_t s[MAX_RANK], st[MAX_RANK];
    int n = 0;
    for (int k = 0; k < rank; k++)
        if (shape[k] != 1) {
            s[n] = shape[k];
            st[n++] = stride[k];
        }
    int i = 0, j = 0;
    while (i < n && j < new_rank) {
        int i1 = i + 1, j1 = j + 1;
        int64_t old = s[i], new = new_shape[j];
        while (old != new && (old < new ? i1 < n : j1 < new_rank))
            if (old < new)
                old *= s[i1++];
            else
                new *= new_shape[j1++];
        if (old != new)
            return false;
        for (int k = i; k < i1 - 1; k++)
            if (st[k] != s[k + 1] * st[k + 1])
                return false;
        new_stride[j1 - 1] = st[i1 - 1];
        for (int k = j1 - 1; k > j; k--)
            new_stride[k - 1] = new_stride[k] * new_shape[k];
        i = i1;
        j = j1;
    }
    for (; j < new_rank; j++)
        new_stride[j] = 1;
    return true;
}
