/* The result type of every op: the only place where ranks, extents, dtypes and attributes are checked. */
#include <inttypes.h>
#include <string.h>

#include "ir/ir.h"

typedef struct {
    Graph *g;
    Op op;
    const Id *in;
    int nin;
    const int64_t *attr;
    int nattr;
    Type *out;
} Infer;

static const Node *input(const Infer *f, int k) { return node_at(f->g, f->in[k]); }
static const Dim *input_shape(const Infer *f, int k) { return node_shape(f->g, f->in[k]); }

/* ---- errors ---- */

static void print_operands(Text *t, const Infer *f)
{
    enum { SHOWN = 4 };
    text_put(t, " (`%s`", op_info[f->op].name);
    for (int i = 0; i < f->nin && i < SHOWN; i++) {
        text_put(t, "%s%s", i ? ", " : " of ", dtype_info[input(f, i)->dtype].name);
        shape_print(t, f->g, input_shape(f, i), input(f, i)->rank);
    }
    text_put(t, f->nin > SHOWN ? ", ...)" : ")");
}

/* The message, in NumPy's words where NumPy has some, then the op and its operands. Always false. */
#define refuse(f, kind, ...) ({ Text text_ = { 0 }; text_put(&text_, __VA_ARGS__); refuse_text(f, kind, &text_); })

static bool refuse_text(const Infer *f, ErrKind kind, Text *t)
{
    print_operands(t, f);
    err_set(f->g->err, kind, "%s", t->failed ? "operands do not fit (and no memory is left to say how)" : t->at);
    text_free(t);
    return false;
}

static bool broken(const Infer *f, const char *what) { return refuse(f, ERR_INTERNAL, "malformed node: %s", what); }

/* ---- dtypes ---- */

static bool takes(const Infer *f, Dtype d)
{
    const char *name = dtype_info[d].name, *op = op_info[f->op].name;
    if (strchr(op_info[f->op].dtypes, "biufc"[dtype_info[d].kind]))
        return true;
    if (d == DT_bool_ && f->op == OP_negative)
        return refuse(f, ERR_TYPE, "The numpy boolean negative, the `-` operator, is not supported, use the `~` operator or the logical_not function instead.");
    if (d == DT_bool_ && f->op == OP_subtract)
        return refuse(f, ERR_TYPE, "numpy boolean subtract, the `-` operator, is not supported, use the bitwise_xor, the `^` operator, or the logical_xor function instead.");
    return refuse(f, ERR_TYPE, "%s is not accepted by `%s`", name, op);
}

static Dtype component(Dtype d) { return d == DT_complex64 ? DT_float32 : d == DT_complex128 ? DT_float64 : d; }

static Dtype result_dtype(const Infer *f, Dtype t)
{
    if (f->op == OP_absolute)
        return component(t);
    switch (op_info[f->op].result) {
    case RESULT_T: return t;
    case RESULT_BOOL: return DT_bool_;
    case RESULT_I64: return DT_int64;
    case RESULT_REAL: return component(t);
    case RESULT_COMPLEX: return t == DT_float32 ? DT_complex64 : DT_complex128;
    case RESULT_ATTR: return f->out->dtype;
    }
    return t;
}

/* ---- shapes ---- */

static bool result(Infer *f, Dtype dtype, const Dim *shape, int rank)
{
    f->out->dtype = dtype;
    f->out->rank = rank;
    memcpy(f->out->shape, shape, (size_t)rank * sizeof *shape);
    return true;
}

/* NumPy's limit: what does not fit an address is no array, even as a view. Empty axes do not make it smaller. */
static bool fits(const Infer *f)
{
    int64_t bytes = dtype_info[f->out->dtype].bytes;
    for (int i = 0; i < f->out->rank; i++) {
        Dim d = f->out->shape[i];
        if (!dim_valid(f->g, d))
            return broken(f, "an extent that is neither a number nor a form");
        if (d > 0 && __builtin_mul_overflow(bytes, d, &bytes))
            return refuse(f, ERR_VALUE, "array is too big; `arr.size * arr.dtype.itemsize` is larger than the maximum possible size.");
    }
    return true;
}

static bool same_shape(const Infer *f, int a, int b)
{
    return shape_eq(f->g, input_shape(f, a), input(f, a)->rank, input_shape(f, b), input(f, b)->rank);
}

static bool equal_operands(const Infer *f, int first)
{
    for (int i = 1; i < f->nin; i++) {
        if (!same_shape(f, 0, i))
            return refuse(f, ERR_VALUE, "operands could not be broadcast together: their shapes differ");
        if (i > first && input(f, i)->dtype != input(f, first)->dtype)
            return refuse(f, ERR_TYPE, "operands of two dtypes: cast them to one");
    }
    return true;
}

static bool infer_elementwise(Infer *f)
{
    int first = f->op == OP_where;
    Dtype t = (Dtype)input(f, first)->dtype;
    if (first && input(f, 0)->dtype != DT_bool_)
        return refuse(f, ERR_TYPE, "the condition must be bool");
    if ((f->op == OP_cast || f->op == OP_bitcast) && f->out->dtype >= DT_COUNT)
        return broken(f, "a cast to no dtype");
    DtypeKind kind = f->op == OP_bitcast ? dtype_info[f->out->dtype].kind : DKIND_INT;
    if (f->op == OP_bitcast && (dtype_info[f->out->dtype].bytes != dtype_info[t].bytes || kind == DKIND_BOOL || kind == DKIND_COMPLEX))
        return broken(f, "bits of another size");
    if (!takes(f, t) || !equal_operands(f, first))
        return false;
    Dtype d = result_dtype(f, t);
    return result(f, d, input_shape(f, 0), input(f, 0)->rank) && (dtype_info[d].bytes <= dtype_info[t].bytes || fits(f));
}

/* ---- sources ---- */

static bool infer_input(Infer *f)
{
    return f->nattr == 1 && f->out->dtype < DT_COUNT ? fits(f) : broken(f, "input");
}

static bool infer_const(Infer *f)
{
    bool ok = f->out->dtype < DT_COUNT && f->out->rank == 0 && f->nattr == 1 + (f->out->dtype == DT_complex128);
    return ok || broken(f, "const");
}

static bool infer_iota(Infer *f)
{
    bool ok = f->out->dtype == DT_int64 && f->out->rank == 1 && f->nattr == 0;
    return ok ? fits(f) : broken(f, "iota");
}

/* ---- views ---- */

static bool infer_broadcast(Infer *f)
{
    int rank = f->nattr, own = input(f, 0)->rank;
    bool ok = own <= rank;
    for (int i = 0; i < own && ok; i++) {
        Dim from = input_shape(f, 0)[i], to = f->attr[rank - own + i];
        ok = from == 1 || dim_eq(f->g, from, to);
    }
    result(f, (Dtype)input(f, 0)->dtype, f->attr, rank);
    if (ok)
        return fits(f);
    Text t = { 0 };
    text_put(&t, "operands could not be broadcast together: the requested shape is ");
    shape_print(&t, f->g, f->attr, rank);
    return refuse_text(f, ERR_VALUE, &t);
}

static bool infer_transpose(Infer *f)
{
    int rank = input(f, 0)->rank;
    uint32_t seen = 0;
    if (f->nattr != rank)
        return refuse(f, ERR_VALUE, "axes don't match array");
    f->out->dtype = (Dtype)input(f, 0)->dtype;
    f->out->rank = rank;
    for (int i = 0; i < rank; i++) {
        int64_t axis = f->attr[i];
        if (axis < 0 || axis >= rank)
            return refuse(f, ERR_VALUE, "axis %" PRId64 " is out of bounds for array of dimension %d", axis, rank);
        if (seen >> axis & 1)
            return refuse(f, ERR_VALUE, "repeated axis in transpose");
        seen |= 1u << axis;
        f->out->shape[i] = input_shape(f, 0)[axis];
    }
    return true;
}

static bool infer_window(Infer *f)
{
    int rank = input(f, 0)->rank;
    if (f->nattr != 4 || f->attr[0] < 0 || f->attr[0] >= rank || f->attr[1] < 1 || f->attr[2] < 1 || f->attr[3] < 1 || rank == MAX_RANK)
        return broken(f, "a window");
    Dim shape[MAX_RANK];
    memcpy(shape, input_shape(f, 0), (size_t)rank * sizeof *shape);
    Dim n = shape[f->attr[0]];
    int64_t reach;
    if (n < 0)
        return refuse(f, ERR_UNSUPPORTED, "windows of an axis whose size depends on data: add up slices of it instead");
    if (__builtin_mul_overflow(f->attr[1] - 1, f->attr[3], &reach) || reach >= n)
        return refuse(f, ERR_VALUE, "window shape cannot be larger than input array shape");
    shape[f->attr[0]] = (n - 1 - reach) / f->attr[2] + 1;
    shape[rank] = f->attr[1];
    return result(f, (Dtype)input(f, 0)->dtype, shape, rank + 1) && fits(f);
}

static bool infer_like(Infer *f)
{
    for (int i = 1; i < f->nin; i++)
        if (input(f, i)->rank != input(f, 0)->rank)
            return broken(f, "an order of other axes");
    return result(f, (Dtype)input(f, 0)->dtype, input_shape(f, 0), input(f, 0)->rank);
}

/* Takes the extents that both shapes have out of both, so that run-time extents need not be multiplied. */
static void cancel(Dim *a, int *na, Dim *b, int *nb)
{
    for (int i = 0; i < *na; i++)
        for (int j = 0; j < *nb; j++)
            if (a[i] == b[j]) {
                a[i--] = a[--*na];
                b[j] = b[--*nb];
                break;
            }
}

/* The number of elements as one dim; false if it is a product of several run-time extents. */
static bool product(Graph *g, const Dim *shape, int rank, Dim *size)
{
    int64_t numbers = 1;
    Dim form = 0;
    for (int i = 0; i < rank; i++) {
        if (shape[i] < 0 && form)
            return false;
        if (shape[i] < 0)
            form = shape[i];
        else if (__builtin_mul_overflow(numbers, shape[i], &numbers))
            return false;
    }
    *size = form ? dim_mul(g, form, numbers) : numbers;
    return g->err->kind == ERR_NONE;
}

static bool infer_reshape(Infer *f)
{
    Dim a[MAX_RANK], b[MAX_RANK], size_a = 0, size_b = 1;
    int na = input(f, 0)->rank, nb = f->nattr;
    memcpy(a, input_shape(f, 0), (size_t)na * sizeof *a);
    memcpy(b, f->attr, (size_t)nb * sizeof *b);
    if (!result(f, (Dtype)input(f, 0)->dtype, f->attr, nb) || !fits(f))
        return false;
    bool empty_a = node_size(f->g, f->in[0]) == 0, empty_b = false;
    for (int i = 0; i < nb; i++)
        empty_b |= b[i] == 0;
    if (empty_a && empty_b)
        return true;
    cancel(a, &na, b, &nb);
    if (!empty_a && !empty_b && (!product(f->g, a, na, &size_a) || !product(f->g, b, nb, &size_b)))
        return refuse(f, ERR_UNSUPPORTED, "cannot tell while tracing whether a reshape of run-time extents fits; let one extent be -1, or reshape before elements are selected");
    if (!empty_a && !empty_b && dim_eq(f->g, size_a, size_b))
        return true;
    Text t = { 0 };
    text_put(&t, "cannot reshape array of size %" PRId64 " into shape ", node_size(f->g, f->in[0]));
    shape_print(&t, f->g, f->attr, f->nattr);
    return refuse_text(f, ERR_VALUE, &t);
}

/* Whether the k-th element of a box that starts at `at` lies in 0 .. n - 1. */
static bool inside(int64_t at, int64_t k, int64_t step, int64_t n)
{
    int64_t last;
    return !__builtin_mul_overflow(k, step, &last) && !__builtin_add_overflow(last, at, &last) && last >= 0 && last < n;
}

/* A box of x: offsets are inputs from `first` on. Offsets and extents known only in the run are the maker's to check. */
static bool check_box(const Infer *f, int first, const int64_t *step, const Dim *count)
{
    for (int d = 0; d < input(f, 0)->rank; d++) {
        const Node *offset = input(f, first + d);
        int64_t n = dim_hi(f->g, input_shape(f, 0)[d]), k = dim_lo(f->g, count[d]), at;
        if (offset->rank || offset->dtype != DT_int64 || !step[d] || step[d] == INT64_MIN)
            return broken(f, "an offset that is no int64 scalar, or a step of 0");
        if (!dim_valid(f->g, count[d]))
            return broken(f, "an extent that is neither a number nor a form");
        if (!node_const(f->g, f->in[first + d], &at)) {
            if (k > 0 && !inside(step[d] > 0 ? 0 : n - 1, k - 1, step[d], n))
                return refuse(f, ERR_INDEX, "a slice of %" PRId64 " elements in steps of %" PRId64 " does not fit axis %d with size %" PRId64, k, step[d], d, n);
            continue;
        }
        if (k > 0 ? at < 0 || at >= n : at < 0 || at > n)
            return refuse(f, ERR_INDEX, "index %" PRId64 " is out of bounds for axis %d with size %" PRId64, at, d, n);
        if (k > 0 && !inside(at, k - 1, step[d], n))
            return refuse(f, ERR_INDEX, "a slice of %" PRId64 " elements in steps of %" PRId64 " from %" PRId64 " leaves axis %d with size %" PRId64, k, step[d], at, d, n);
    }
    return true;
}

static bool infer_slice(Infer *f)
{
    int rank = input(f, 0)->rank;
    if (f->nin != 1 + rank || f->nattr != 2 * rank)
        return broken(f, "slice");
    return check_box(f, 1, f->attr, f->attr + rank) && result(f, (Dtype)input(f, 0)->dtype, f->attr + rank, rank);
}

/* Index arrays for the axes of x in the mask, from input `first` on. */
static bool check_index(const Infer *f, int first, uint64_t axes)
{
    int n = f->nin - first, d = -1;
    if (n < 1 || n != __builtin_popcountll(axes) || axes >> input(f, 0)->rank)
        return broken(f, "gather or scatter: the number of index arrays");
    for (int k = 0; k < n; k++) {
        while (!(axes >> ++d & 1)) { }
        if (input(f, first + k)->dtype != DT_int64
            || !shape_eq(f->g, input_shape(f, first), input(f, first)->rank, input_shape(f, first + k), input(f, first + k)->rank))
            return broken(f, "index arrays that are no int64 or differ in shape");
        bool some = true;                                 /* surely: an extent of the run may be 0 */
        for (int i = 0; i < input(f, first)->rank; i++)
            some = some && dim_lo(f->g, input_shape(f, first)[i]) > 0;
        if (some && dim_hi(f->g, input_shape(f, 0)[d]) == 0)
            return refuse(f, ERR_INDEX, "index 0 is out of bounds for axis %d with size 0", d);
    }
    return true;
}

/* The shape of x[...] with index arrays (from input `first` on) for the axes in the mask: theirs, then x's other axes; false with an error. */
static bool gathered_shape(const Infer *f, int first, uint64_t axes, Dim *shape, int *rank)
{
    if (!check_index(f, first, axes))
        return false;
    int rx = input(f, 0)->rank;
    *rank = input(f, first)->rank;
    if (*rank + rx - (f->nin - first) > MAX_RANK)
        return refuse(f, ERR_UNSUPPORTED, "an array of %d dimensions; pyxla supports %d at most", *rank + rx - (f->nin - first), MAX_RANK);
    memcpy(shape, input_shape(f, first), (size_t)*rank * sizeof *shape);
    for (int d = 0; d < rx; d++)
        if (!(axes >> d & 1))
            shape[(*rank)++] = input_shape(f, 0)[d];
    return true;
}

static bool infer_gather(Infer *f)
{
    Dim shape[MAX_RANK];
    int rank;
    return gathered_shape(f, 1, (1ull << (f->nin - 1)) - 1, shape, &rank) && result(f, (Dtype)input(f, 0)->dtype, shape, rank) && fits(f);
}

/* ---- placing ---- */

static bool infer_update(Infer *f)
{
    int rank = input(f, 0)->rank;
    if (f->nin != 2 + rank || f->nattr != rank || input(f, 1)->rank != rank)
        return broken(f, "update");
    if (input(f, 1)->dtype != input(f, 0)->dtype)
        return refuse(f, ERR_TYPE, "a value of another dtype is written: cast it first");
    return check_box(f, 2, f->attr, input_shape(f, 1)) && result(f, (Dtype)input(f, 0)->dtype, input_shape(f, 0), rank);
}

static bool infer_scatter(Infer *f)
{
    Dim shape[MAX_RANK];
    int rank;
    if (f->nin < 3 || f->nattr != 2)
        return broken(f, "scatter");
    if (f->attr[0] && (f->attr[0] < 0 || f->attr[0] >= OP_COUNT || op_info[f->attr[0]].kind != KIND_ELEMENTWISE || op_info[f->attr[0]].nin != 2
                       || op_info[f->attr[0]].result != RESULT_T || !strchr(op_info[f->attr[0]].dtypes, "biufc"[dtype_info[input(f, 0)->dtype].kind])))
        return broken(f, "scatter with an op that does not combine elements");
    if (input(f, 1)->dtype != input(f, 0)->dtype)
        return refuse(f, ERR_TYPE, "a value of another dtype is written: cast it first");
    if (!gathered_shape(f, 2, (uint64_t)f->attr[1], shape, &rank))
        return false;
    if (!shape_eq(f->g, shape, rank, input_shape(f, 1), input(f, 1)->rank))
        return broken(f, "scatter of a value of another shape");
    return result(f, (Dtype)input(f, 0)->dtype, input_shape(f, 0), input(f, 0)->rank);
}

static bool check_piece(const Infer *f, int k, int64_t axis)
{
    if (input(f, k)->rank != f->out->rank)
        return refuse(f, ERR_VALUE, "all the input array dimensions except for the concatenation axis must match exactly, but the array at index 0 has %d dimension(s) and the array at index %d has %d dimension(s)",
                      f->out->rank, k, input(f, k)->rank);
    if (input(f, k)->dtype != f->out->dtype)
        return refuse(f, ERR_TYPE, "pieces of two dtypes: cast them to one");
    for (int d = 0; d < f->out->rank; d++) {
        Dim a = f->out->shape[d], b = input_shape(f, k)[d];
        if (d == axis || dim_eq(f->g, a, b))
            continue;
        return refuse(f, ERR_VALUE, "all the input array dimensions except for the concatenation axis must match exactly, but along dimension %d, the array at index 0 has size %" PRId64 " and the array at index %d has size %" PRId64,
                      d, dim_hi(f->g, a), k, dim_hi(f->g, b));
    }
    return true;
}

static bool infer_concatenate(Infer *f)
{
    if (f->nin < 1)
        return err_set(f->g->err, ERR_VALUE, "need at least one array to concatenate");
    if (!input(f, 0)->rank)
        return refuse(f, ERR_VALUE, "zero-dimensional arrays cannot be concatenated");
    if (f->nattr != 1 || f->attr[0] < 0 || f->attr[0] >= input(f, 0)->rank)
        return broken(f, "concatenate");
    int64_t axis = f->attr[0];
    result(f, (Dtype)input(f, 0)->dtype, input_shape(f, 0), input(f, 0)->rank);
    for (int k = 1; k < f->nin; k++) {
        if (!check_piece(f, k, axis))
            return false;
        f->out->shape[axis] = dim_add(f->g, f->out->shape[axis], input_shape(f, k)[axis]);
    }
    return f->g->err->kind == ERR_NONE && fits(f);
}

static bool infer_pad(Infer *f)
{
    int rank = input(f, 0)->rank;
    if (f->nin != 2 || input(f, 1)->rank || f->nattr != 2 * rank)
        return broken(f, "pad");
    if (input(f, 1)->dtype != input(f, 0)->dtype)
        return refuse(f, ERR_TYPE, "a fill of another dtype: cast it first");
    f->out->dtype = (Dtype)input(f, 0)->dtype;
    f->out->rank = rank;
    for (int d = 0; d < rank; d++) {
        if (f->attr[d] < 0 || f->attr[rank + d] < 0)
            return refuse(f, ERR_VALUE, "index can't contain negative values");
        f->out->shape[d] = dim_add(f->g, dim_add(f->g, input_shape(f, 0)[d], f->attr[d]), f->attr[rank + d]);
    }
    return f->g->err->kind == ERR_NONE && fits(f);
}

/* ---- reductions, scans, products ---- */

static bool any_empty(const Graph *g, const Dim *shape, int rank, uint64_t axes)
{
    for (int d = 0; d < rank; d++)
        if (axes >> d & 1 && dim_hi(g, shape[d]) == 0)
            return true;
    return false;
}

/* As in NumPy an empty reduced axis is no error where the result is empty too. */
static bool check_nonempty(const Infer *f, uint64_t axes)
{
    if (!any_empty(f->g, input_shape(f, 0), input(f, 0)->rank, axes) || any_empty(f->g, f->out->shape, f->out->rank, ~0ull))
        return true;
    switch ((int)f->op) {
    case OP_reduce_max:
        return refuse(f, ERR_VALUE, "zero-size array to reduction operation maximum which has no identity; give initial=, or test x.size first");
    case OP_reduce_min:
        return refuse(f, ERR_VALUE, "zero-size array to reduction operation minimum which has no identity; give initial=, or test x.size first");
    case OP_reduce_argmax:
        return refuse(f, ERR_VALUE, "attempt to get argmax of an empty sequence; select at least one element");
    case OP_reduce_argmin:
        return refuse(f, ERR_VALUE, "attempt to get argmin of an empty sequence; select at least one element");
    }
    return true;
}

static bool infer_reduce(Infer *f)
{
    int rank = input(f, 0)->rank, n = 0;
    Dim shape[MAX_RANK];
    if (f->nattr != 1 + (f->op == OP_reduce_var))
        return broken(f, "reduce");
    uint64_t axes = (uint64_t)f->attr[0];
    if (axes >> rank)
        return refuse(f, ERR_VALUE, "axis %d is out of bounds for array of dimension %d", 63 - __builtin_clzll(axes), rank);
    if (!takes(f, (Dtype)input(f, 0)->dtype))
        return false;
    for (int d = 0; d < rank; d++)
        if (!(axes >> d & 1))
            shape[n++] = input_shape(f, 0)[d];
    return result(f, result_dtype(f, (Dtype)input(f, 0)->dtype), shape, n) && fits(f) && check_nonempty(f, axes);
}

static bool infer_scan(Infer *f)
{
    int rank = input(f, 0)->rank;
    if (f->nattr != 1)
        return broken(f, "scan");
    if (f->attr[0] < 0 || f->attr[0] >= rank)
        return refuse(f, ERR_VALUE, "axis %" PRId64 " is out of bounds for array of dimension %d", f->attr[0], rank);
    return takes(f, (Dtype)input(f, 0)->dtype) && result(f, (Dtype)input(f, 0)->dtype, input_shape(f, 0), rank);
}

static bool infer_dot(Infer *f)
{
    int rank = input(f, 0)->rank;
    const Dim *a = input_shape(f, 0), *b = input_shape(f, 1);
    if (rank < 2 || input(f, 1)->rank != rank || !shape_eq(f->g, a, rank - 2, b, rank - 2))
        return refuse(f, ERR_VALUE, "matmul: operands need at least two axes and equal batch axes");
    if (input(f, 0)->dtype != input(f, 1)->dtype)
        return refuse(f, ERR_TYPE, "operands of two dtypes: cast them to one");
    if (!takes(f, (Dtype)input(f, 0)->dtype))
        return false;
    if (!dim_eq(f->g, a[rank - 1], b[rank - 2]))
        return refuse(f, ERR_VALUE, "matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature (n?,k),(k,m?)->(n?,m?) (size %" PRId64 " is different from %" PRId64 ")",
                      dim_hi(f->g, b[rank - 2]), dim_hi(f->g, a[rank - 1]));
    result(f, (Dtype)input(f, 0)->dtype, a, rank);
    f->out->shape[rank - 1] = b[rank - 1];
    return fits(f);
}

static bool infer_dot_bytes(Infer *f)
{
    int rank = input(f, 0)->rank;
    const Dim *a = input_shape(f, 0), *b = input_shape(f, 1);
    if (rank < 2 || input(f, 1)->rank != rank || !shape_eq(f->g, a, rank - 2, b, rank - 2))
        return broken(f, "batch axes");
    if ((input(f, 0)->dtype != DT_int8 && input(f, 0)->dtype != DT_uint8) || input(f, 1)->dtype != DT_int32)
        return broken(f, "dtypes");
    if (a[rank - 1] < 0 || b[rank - 2] != (a[rank - 1] + 3) / 4)
        return broken(f, "bytes and words along k");
    result(f, DT_int32, a, rank);
    f->out->shape[rank - 1] = b[rank - 1];
    return fits(f);
}

/* ---- control ---- */

static Graph *child_at(const Infer *f, int k)
{
    bool ok = k < f->nattr && f->attr[k] >= 0 && f->attr[k] < f->g->children.len;
    if (!ok)
        broken(f, "no such child graph");
    return ok ? f->g->children.at[f->attr[k]] : NULL;
}

/* Whether the node of the child has the type of the node of this graph. A closed child cannot name this graph's run-time extents. */
static bool same_type(const Infer *f, const Graph *child, Id inner, Id outer)
{
    const Node *a = node_at(child, inner), *b = node_at(f->g, outer);
    if (a->dtype != b->dtype || a->rank != b->rank)
        return refuse(f, ERR_TYPE, "a child graph's %%%u has another type than the value outside", inner);
    for (int d = 0; d < a->rank; d++) {
        Dim x = node_shape(child, inner)[d], y = node_shape(f->g, outer)[d];
        if (x < 0 || y < 0)
            return refuse(f, ERR_UNSUPPORTED, "run-time extents in a loop, cond or call are not supported yet");
        if (x != y)
            return refuse(f, ERR_VALUE, "a child graph's %%%u has another shape than the value outside", inner);
    }
    return true;
}

static bool child_inputs(const Infer *f, const Graph *child, int own, int from)
{
    if (child->inputs.len != (uint32_t)(own + f->nin - from) || !child->outputs.len)
        return broken(f, "the number of a child's inputs or outputs");
    for (int k = from; k < f->nin; k++)
        if (!same_type(f, child, child->inputs.at[own + k - from], f->in[k]))
            return false;
    return true;
}

static bool first_result(Infer *f, const Graph *child)
{
    Id id = child->outputs.at[0];
    return result(f, (Dtype)node_at(child, id)->dtype, node_shape(child, id), node_at(child, id)->rank) && fits(f);
}

static bool int64_scalar(const Node *n) { return n->dtype == DT_int64 && !n->rank; }

static bool infer_loop(Infer *f)
{
    const Graph *child = child_at(f, 0);
    if (!child)
        return false;
    if (f->nattr != 2 || f->nin < 1 || !int64_scalar(input(f, 0)) || f->attr[1] != child->outputs.len || f->attr[1] >= f->nin)
        return broken(f, "loop");
    if (!child_inputs(f, child, 1, 1))
        return false;
    if (!int64_scalar(node_at(child, child->inputs.at[0])))
        return broken(f, "a loop's first parameter is its index");
    for (uint32_t k = 0; k < child->outputs.len; k++)
        if (!same_type(f, child, child->outputs.at[k], f->in[1 + k]))
            return false;
    return first_result(f, child);
}

static bool same_results(const Infer *f, const Graph *a, const Graph *b)
{
    bool same = a->outputs.len == b->outputs.len;
    for (uint32_t k = 0; k < a->outputs.len && same; k++) {
        const Node *x = node_at(a, a->outputs.at[k]), *y = node_at(b, b->outputs.at[k]);
        same = x->dtype == y->dtype && x->rank == y->rank
               && !memcmp(node_shape(a, a->outputs.at[k]), node_shape(b, b->outputs.at[k]), x->rank * sizeof(Dim));
    }
    return same || refuse(f, ERR_TYPE, "the branches give results of different types");
}

static bool infer_cond(Infer *f)
{
    const Graph *yes = child_at(f, 0), *no = yes ? child_at(f, 1) : NULL;
    if (!no)
        return false;
    if (f->nattr != 2 || f->nin < 1 || input(f, 0)->rank || input(f, 0)->dtype != DT_bool_)
        return broken(f, "cond");
    return child_inputs(f, yes, 0, 1) && child_inputs(f, no, 0, 1) && same_results(f, yes, no) && first_result(f, yes);
}

static bool infer_call(Infer *f)
{
    const Graph *child = child_at(f, 0);
    return child && (f->nattr == 1 || broken(f, "call")) && child_inputs(f, child, 0, 0) && first_result(f, child);
}

static bool infer_host(Infer *f)
{
    const int64_t *params;
    if (host_params(f->attr, f->nattr, &params) < 0 || f->attr[0] < 0)
        return broken(f, "host");
    for (int64_t k = f->attr[1]; k-- > 0;)                /* the first one last: it is the node's own type */
        if (!host_result(f->attr, f->nattr, k, f->out) || !fits(f))
            return broken(f, "a result of a host function");
    return true;
}

static bool infer_host_item(Infer *f)
{
    const Node *n = input(f, 0);
    return host_result(node_attr(f->g, f->in[0]), n->nattr, f->attr[0], f->out) || broken(f, "item of a result that is not there");
}

static bool infer_item(Infer *f)
{
    Op of = f->nin == 1 ? (Op)input(f, 0)->op : OP_none;
    if (f->nattr == 1 && of == OP_host)
        return infer_host_item(f);
    if (f->nattr != 1 || (of != OP_loop && of != OP_cond && of != OP_call))
        return broken(f, "item");
    const Graph *child = f->g->children.at[node_attr(f->g, f->in[0])[0]];
    if (f->attr[0] < 0 || f->attr[0] >= child->outputs.len)
        return broken(f, "item of a result that is not there");
    Id id = child->outputs.at[f->attr[0]];
    return result(f, (Dtype)node_at(child, id)->dtype, node_shape(child, id), node_at(child, id)->rank) && fits(f);
}

static bool infer_check(Infer *f)
{
    if (f->nin != 1 || f->nattr != 1 || input(f, 0)->dtype != DT_bool_)
        return broken(f, "check");
    f->out->dtype = DT_bool_;
    f->out->rank = 0;
    return true;
}

static bool (*const rules[OP_COUNT])(Infer *) = {
    [OP_input] = infer_input, [OP_const] = infer_const, [OP_iota] = infer_iota,
    [OP_broadcast] = infer_broadcast, [OP_transpose] = infer_transpose, [OP_reshape] = infer_reshape, [OP_slice] = infer_slice,
    [OP_gather] = infer_gather, [OP_window] = infer_window, [OP_like] = infer_like,
    [OP_update] = infer_update, [OP_concatenate] = infer_concatenate, [OP_pad] = infer_pad, [OP_margin] = infer_pad, [OP_scatter] = infer_scatter,
    [OP_dot] = infer_dot, [OP_dot_bytes] = infer_dot_bytes,
    [OP_loop] = infer_loop, [OP_cond] = infer_cond, [OP_call] = infer_call, [OP_host] = infer_host,
    [OP_item] = infer_item, [OP_check] = infer_check,
};

static bool infer_kind(Infer *f)
{
    switch (op_info[f->op].kind) {
    case KIND_ELEMENTWISE: case KIND_COMPOSITE: return infer_elementwise(f);
    case KIND_REDUCE: return infer_reduce(f);
    case KIND_SCAN: return infer_scan(f);
    case KIND_SOURCE: case KIND_VIEW: case KIND_PLACE: case KIND_DOT: case KIND_CONTROL: break;
    }
    return rules[f->op] ? rules[f->op](f) : broken(f, "an op without a rule");
}

/* Whether the op takes that many inputs: the rules need not ask. */
static bool arity_ok(Op op, int nin)
{
    if (op == OP_broadcast || op == OP_transpose || op == OP_reshape || op == OP_window)
        return nin == 1;
    if (op == OP_like)
        return nin >= 2;
    if (op == OP_slice || op == OP_pad || op == OP_margin || op == OP_update || op == OP_gather || op == OP_scatter)
        return nin >= 1;
    return op_info[op].nin == VARIADIC || nin == op_info[op].nin;
}

/* Whether the attributes of an op that gives a shape are one. */
static bool shape_ok(const Infer *f)
{
    if (f->op != OP_broadcast && f->op != OP_reshape)
        return true;
    if (f->nattr > MAX_RANK)
        return refuse(f, ERR_UNSUPPORTED, "an array of %d dimensions; pyxla supports %d at most", f->nattr, MAX_RANK);
    for (int i = 0; i < f->nattr; i++)
        if (!dim_valid(f->g, f->attr[i]))
            return broken(f, "an extent that is neither a number nor a form");
    return true;
}

bool infer(Graph *g, Op op, const Id *in, int nin, const int64_t *attr, int nattr, Type *out)
{
    for (int i = 0; i < nin; i++)
        if (!in[i] || in[i] >= g->nodes.len)
            return err_set(g->err, ERR_INTERNAL, "`%s` of a value that is not there", op < OP_COUNT ? op_info[op].name : "?");
    for (int i = 0; i < nin && op != OP_item; i++)
        if (node_at(g, in[i])->op == OP_host)
            return err_set(g->err, ERR_INTERNAL, "`%s` of a host call itself, not of an item of it", op < OP_COUNT ? op_info[op].name : "?");
    Infer f = { g, op, in, nin, attr, nattr, out };
    if (op <= OP_none || op >= OP_COUNT || !arity_ok(op, nin))
        return err_set(g->err, ERR_INTERNAL, "`%s` with %d operands", op < OP_COUNT ? op_info[op].name : "?", nin);
    return shape_ok(&f) && infer_kind(&f);
}
