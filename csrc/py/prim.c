/* The primitives that pyxla/_np composes NumPy's functions from. */
#include "py/tracer.h"
#include "py/error.h"

PyObject *core_functions, *core_methods, *core_creators;

/* ---- arguments ---- */

static bool arity(const char *name, Py_ssize_t n, Py_ssize_t least, Py_ssize_t most)
{
    if (n >= least && n <= most)
        return true;
    PyErr_Format(PyExc_TypeError, "%s() takes %zd to %zd arguments, got %zd", name, least, most, n);
    return false;
}

/* A tuple or list of at most MAX_RANK integers; the length, -1 with an exception. */
static int read_ints(PyObject *o, int64_t *out)
{
    PyObject *fast = PySequence_Fast(o, "expected a sequence of integers");
    Py_ssize_t n = fast ? PySequence_Fast_GET_SIZE(fast) : -1;
    if (n > MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "maximum supported dimension for an array is currently %d, found %zd", MAX_RANK, n);
        n = -1;
    }
    for (Py_ssize_t k = 0; k < n; k++) {
        out[k] = PyNumber_AsSsize_t(PySequence_Fast_GET_ITEM(fast, k), PyExc_OverflowError);
        if (out[k] == -1 && PyErr_Occurred())
            n = -1;
    }
    Py_XDECREF(fast);
    return (int)n;
}

static Dtype read_dtype(PyObject *o)
{
    PyArray_Descr *d = NULL;
    if (!PyArray_DescrConverter(o, &d))
        return DT_COUNT;
    Dtype out = dtype_from_numpy((PyObject *)d, "dtype");
    Py_DECREF(d);
    return out;
}

static PyObject *number_tracer(Trace *t, PyObject *o)
{
    Operand x;
    if (!operand_read(t, o, &x, false))
        return NULL;
    if (x.code == CODE_OTHER) {
        PyErr_Format(PyExc_TypeError, "an object of type %s cannot be used as an array in a jitted function", Py_TYPE(o)->tp_name);
        return NULL;
    }
    Id id = operand_node(t, &x, operand_dtype(&x));
    return id || !PyErr_Occurred() ? tracer_result(t, id, LAYOUT_C) : NULL;
}

PyObject *as_tracer(Trace *t, PyObject *o)
{
    if (is_tracer(o) && ((Tracer *)o)->kind != TRACER_PYTHON_SCALAR)
        return tracer_trace((Tracer *)o) ? Py_NewRef(o) : NULL;
    if (PyArray_CheckExact(o)) {
        int input = trace_capture(t, o);
        return input < 0 ? NULL : tracer_input(t, input, OWNER_CAPTURED, TRACER_ARRAY);
    }
    if (PyList_Check(o) || PyTuple_Check(o)) {
        PyObject *make = PyDict_GetItemString(core_creators, "array");
        return make ? PyObject_CallOneArg(make, o) : NULL;
    }
    return number_tracer(t, o);
}

/* The array operand of a primitive as a tracer (new reference) and its node. */
static Tracer *operand(Trace *t, PyObject *o, Id *node)
{
    Tracer *x = t ? (Tracer *)as_tracer(t, o) : NULL;
    if (x && !is_tracer((PyObject *)x)) {
        PyErr_Format(PyExc_TypeError, "an object of type %s cannot be used as an array in a jitted function", Py_TYPE(o)->tp_name);
        Py_CLEAR(x);
    }
    *node = x ? tracer_node(x) : 0;
    if (x && !*node)
        Py_CLEAR(x);
    return x;
}

/* Whether some axes, not all, repeat the same memory: NumPy sorts the axes of a copy by strides, 0 too. */
static bool repeats(const Tracer *x)
{
    bool some = false;
    for (const Map *m = x->map; m && !m->reshape; m = m->parent) {
        bool all = true;
        for (int k = 0; k < m->rank; k++) {
            bool again = m->axis[k] < 0 || m->step[k] == 0;
            some |= again && m->shape[k] > 1;
            all &= again || m->shape[k] <= 1;
        }
        if (all)
            return false;
    }
    return some;
}

/* The result of an op on x: an array or scalar as x is. */
static PyObject *like(Trace *t, const Tracer *x, Id node)
{
    return x->kind == TRACER_NUMPY_SCALAR ? tracer_result(t, node, LAYOUT_C) : tracer_array(t, node, tracer_rank(x) > 1 && repeats(x) ? LAYOUT_UNKNOWN : tracer_layout(x));
}

/* ---- views ---- */

/* What a view may be taken of: x itself, or an array with the value of a NumPy scalar. New reference. */
static Tracer *view_base(Tracer *x)
{
    if (x->kind != TRACER_NUMPY_SCALAR)
        return (Tracer *)Py_NewRef(x);
    return (Tracer *)tracer_array(x->cell->trace, tracer_node(x), LAYOUT_C);
}

static PyObject *basic_view(Tracer *x, int rank, const int8_t *axis, const int64_t *shape, const int64_t *step, const int64_t *start)
{
    static const int64_t zeros[MAX_RANK], ones[MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    Tracer *base = view_base(x);
    if (!base)
        return NULL;
    Trace *t = base->cell->trace;
    Map *m = map_basic(t, base->map, rank, tracer_rank(base), axis, shape, step ? step : ones, start ? start : zeros, NULL);
    PyObject *view = tracer_view(base, m);
    Py_DECREF(base);
    return view;
}

PyObject *tracer_transpose(Tracer *x, const int *perm)
{
    if (tracer_dynamic(x)) {
        Id node = tracer_node(x);
        return node ? tracer_derived(x, graph_transpose(x->cell->trace->graph, node, perm)) : NULL;
    }
    int8_t axis[MAX_RANK];
    int64_t shape[MAX_RANK];
    int rank = tracer_rank(x);
    for (int k = 0; k < rank; k++) {
        axis[k] = (int8_t)perm[k];
        shape[k] = tracer_shape(x)[perm[k]];
    }
    return basic_view(x, rank, axis, shape, NULL, NULL);
}

/* Axes of a reshape that only adds and removes axes of extent 1. */
static bool same_but_units(const int64_t *from, int nfrom, const int64_t *to, int nto, int8_t *axis)
{
    int at = 0;
    for (int k = 0; k < nto; k++) {
        axis[k] = -1;
        if (to[k] == 1)
            continue;
        while (at < nfrom && from[at] == 1)
            at++;
        if (at == nfrom || from[at] != to[k])
            return false;
        axis[k] = (int8_t)at++;
    }
    while (at < nfrom && from[at] == 1)
        at++;
    return at == nfrom;
}

/* Whether NumPy's reshape is a view: for sure, if the inputs have the layout they have now, or not known; *copies: a copy in that case. */
static Layout reshape_layout(const Tracer *x, const int64_t *shape, int rank, bool *copies)
{
    const Node *base = node_at(x->cell->trace->graph, x->cell->node);
    int64_t stride[MAX_RANK], out[MAX_RANK], offset;
    Layout layout = (Layout)x->cell->layout;
    *copies = x->cell->origin && x->cell->origin_as == LAYOUT_UNKNOWN;    /* a window: never contiguous but for trivial ones */
    if (*copies)
        return LAYOUT_C;
    if (x->cell->owner == OWNER_LOCAL && layout == LAYOUT_INPUTS && !trace_ordered(x->cell->trace))
        layout = LAYOUT_UNKNOWN;
    if (!map_strides(x->map, base->rank, node_shape(x->cell->trace->graph, x->cell->node), x->cell->stride, stride, &offset))
        return LAYOUT_UNKNOWN;
    if (reshape_strides(tracer_rank(x), tracer_shape(x), stride, rank, shape, out))
        return layout;
    if (x->map && x->map->layout > layout)
        layout = (Layout)x->map->layout;
    *copies = layout != LAYOUT_UNKNOWN;
    return layout;
}

PyObject *tracer_reshape(Tracer *x, const int64_t *shape, int rank)
{
    Trace *t = x->cell->trace;
    int8_t axis[MAX_RANK];
    if (same_but_units(tracer_shape(x), tracer_rank(x), shape, rank, axis))
        return basic_view(x, rank, axis, shape, NULL, NULL);
    Id node = tracer_node(x);
    if (!node)
        return NULL;
    bool copies = x->kind == TRACER_NUMPY_SCALAR;
    Layout layout = LAYOUT_C;
    if (!copies && node_size(t->graph, node) > 1)
        layout = reshape_layout(x, shape, rank, &copies);
    if (copies) {
        Tracer *copy = (Tracer *)tracer_array(t, graph_reshape(t->graph, node, shape, rank), LAYOUT_C);
        if (copy && layout == LAYOUT_INPUTS)
            cell_copy_of(copy->cell, x->cell, LAYOUT_INPUTS);
        if (copy && rank > 1 && x->cell->origin && x->cell->origin_as == LAYOUT_UNKNOWN)
            cell_copy_of(copy->cell, x->cell->origin, LAYOUT_UNKNOWN);    /* an axis of a window that is split is a view in NumPy */
        return (PyObject *)copy;
    }
    return tracer_view(x, map_reshape(t, x->map, rank, shape, layout));
}

/* The same elements in C order: x as it is, or a copy where NumPy would make one. */
static PyObject *tracer_contiguous(Tracer *x)
{
    if (tracer_dynamic(x))
        return Py_NewRef(x);
    const Trace *t = x->cell->trace;
    if (x->cell->origin && x->cell->origin_as == LAYOUT_UNKNOWN)
        return tracer_copy(x);
    int64_t stride[MAX_RANK], n = 1, offset, unit = x->cell->stride ? dtype_info[tracer_dtype(x)].bytes : 1;
    int rank = tracer_rank(x);
    const int64_t *shape = tracer_shape(x);
    Layout layout = (Layout)x->cell->layout;
    if (x->map && x->map->layout > layout)
        layout = (Layout)x->map->layout;
    if (x->cell->owner == OWNER_LOCAL && layout == LAYOUT_INPUTS && !trace_ordered(t))
        layout = LAYOUT_UNKNOWN;
    bool known = map_strides(x->map, node_at(t->graph, x->cell->node)->rank, node_shape(t->graph, x->cell->node), x->cell->stride, stride, &offset);
    bool same = true;
    for (int k = rank; known && k-- > 0; n *= shape[k])
        same &= shape[k] <= 1 || stride[k] == n * unit;
    if (!known)
        layout = LAYOUT_UNKNOWN;
    if (same && layout == LAYOUT_C)
        return Py_NewRef(x);
    if (same || layout == LAYOUT_UNKNOWN)
        return tracer_view(x, map_reshape(x->cell->trace, x->map, rank, shape, layout));
    Tracer *copy = (Tracer *)tracer_copy(x);
    if (copy && layout == LAYOUT_INPUTS)
        cell_copy_of(copy->cell, x->cell, LAYOUT_INPUTS);
    if (copy)
        copy->cell->layout = LAYOUT_C;
    return (PyObject *)copy;
}

static PyObject *prim_contiguous(PyObject *m, PyObject *o)
{
    (void)m;
    Id node;
    Tracer *x = operand(op_begin(), o, &node);
    PyObject *r = x ? x->kind == TRACER_NUMPY_SCALAR ? Py_NewRef(x) : tracer_contiguous(x) : NULL;
    Py_XDECREF(x);
    return r;
}

static int64_t product(const int64_t *shape, int rank)
{
    int64_t n = 1;
    for (int k = 0; k < rank; k++)
        n *= shape[k];
    return n;
}

/* Replaces -1 by the extent it stands for. */
static bool complete_shape(const Tracer *x, int64_t *shape, int rank, PyObject *given)
{
    int64_t size = product(tracer_shape(x), tracer_rank(x)), known = 1;
    int unknown = -1, n = 0;
    for (int k = 0; k < rank; k++) {
        if (shape[k] < 0) {
            unknown = k;
            n++;
        } else
            known *= shape[k];
    }
    if (n == 1 && known && size % known == 0) {
        shape[unknown] = size / known;
        return true;
    }
    if (n == 0 && known == size)
        return true;
    if (n > 1)
        PyErr_SetString(PyExc_ValueError, "can only specify one unknown dimension");
    else
        PyErr_Format(PyExc_ValueError, "cannot reshape array of size %lld into shape %R", (long long)size, given);
    return false;
}

static bool names_extent(PyObject *shape)
{
    for (Py_ssize_t k = 0; PyTuple_Check(shape) && k < PyTuple_GET_SIZE(shape); k++)
        if (is_extent(PyTuple_GET_ITEM(shape, k)))
            return true;
    return false;
}

/* A reshape or broadcast where an extent is known only in the run; takes the reference to x over. */
static PyObject *derive_shape(Tracer *x, Id node, Op op, PyObject *shape)
{
    Trace *t = x->cell->trace;
    Dim dims[MAX_RANK];
    int rank = read_dims(t, shape, dims);
    PyObject *r = rank < 0 ? NULL : tracer_derived(x, graph_add(t->graph, op, &node, 1, dims, rank, DT_COUNT, NULL, 0));
    Py_DECREF(x);
    return r;
}

static PyObject *prim_reshape(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    int64_t shape[MAX_RANK];
    Id node;
    Tracer *x = arity("reshape", n, 2, 2) ? operand(op_begin(), args[0], &node) : NULL;
    if (x && (tracer_dynamic(x) || names_extent(args[1])))
        return derive_shape(x, node, OP_reshape, args[1]);
    int rank = x ? read_ints(args[1], shape) : -1;
    PyObject *r = rank >= 0 && complete_shape(x, shape, rank, args[1]) ? tracer_reshape(x, shape, rank) : NULL;
    Py_XDECREF(x);
    return r;
}

static bool permutation(const int64_t *axes, int n, int rank, int *perm)
{
    uint32_t seen = 0;
    for (int k = 0; k < n; k++) {
        perm[k] = (int)(axes[k] < 0 ? axes[k] + rank : axes[k]);
        if (perm[k] < 0 || perm[k] >= rank || seen >> perm[k] & 1)
            break;
        seen |= 1u << perm[k];
    }
    if (n == rank && seen == (1u << rank) - 1)
        return true;
    PyErr_SetString(PyExc_ValueError, "axes don't match array");
    return false;
}

static PyObject *prim_transpose(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    int64_t axes[MAX_RANK];
    int perm[MAX_RANK];
    Id node;
    Tracer *x = arity("transpose", n, 2, 2) ? operand(op_begin(), args[0], &node) : NULL;
    int rank = x ? read_ints(args[1], axes) : -1;
    PyObject *r = rank >= 0 && permutation(axes, rank, tracer_rank(x), perm) ? tracer_transpose(x, perm) : NULL;
    Py_XDECREF(x);
    return r;
}

static PyObject *broadcast_view(Tracer *x, const int64_t *shape, int rank, PyObject *given)
{
    int8_t axis[MAX_RANK];
    int own = tracer_rank(x);
    bool ok = own <= rank;
    for (int k = 0; ok && k < rank; k++) {
        int b = k - (rank - own);
        int64_t have = b < 0 ? 1 : tracer_shape(x)[b];
        axis[k] = (int8_t)(b >= 0 && have == shape[k] ? b : -1);
        ok = have == shape[k] || have == 1;
    }
    if (ok)
        return basic_view(x, rank, axis, shape, NULL, NULL);
    PyErr_Format(PyExc_ValueError, "operands could not be broadcast together with requested shape %R", given);
    return NULL;
}

static PyObject *prim_broadcast(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    int64_t shape[MAX_RANK];
    Id node;
    Tracer *x = arity("broadcast", n, 2, 2) ? operand(op_begin(), args[0], &node) : NULL;
    if (x && (tracer_dynamic(x) || names_extent(args[1])))
        return derive_shape(x, node, OP_broadcast, args[1]);
    int rank = x ? read_ints(args[1], shape) : -1;
    PyObject *r = rank >= 0 ? broadcast_view(x, shape, rank, args[1]) : NULL;
    Py_XDECREF(x);
    return r;
}

static bool inside(const Tracer *x, const int64_t *start, const int64_t *step, const int64_t *shape, int rank)
{
    for (int k = 0; k < rank; k++) {
        int64_t last = start[k] + (shape[k] - 1) * step[k], have = tracer_shape(x)[k];
        if (shape[k] < 0 || step[k] == 0 || (shape[k] && (start[k] < 0 || start[k] >= have || last < 0 || last >= have))) {
            PyErr_SetString(PyExc_ValueError, "slice() goes out of the array");
            return false;
        }
    }
    return true;
}

static PyObject *prim_slice(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    int64_t start[MAX_RANK], step[MAX_RANK], shape[MAX_RANK];
    int8_t axis[MAX_RANK];
    Id node;
    Tracer *x = arity("slice", n, 4, 4) ? operand(op_begin(), args[0], &node) : NULL;
    int rank = x ? tracer_rank(x) : -1;
    bool ok = x && read_ints(args[1], start) == rank && read_ints(args[2], step) == rank;
    if (ok && tracer_dynamic(x)) {
        PyObject *part = read_dims(x->cell->trace, args[3], shape) == rank
                       ? tracer_derived(x, graph_slice_const(x->cell->trace->graph, node, start, step, shape)) : NULL;
        Py_DECREF(x);
        return part;
    }
    ok = ok && read_ints(args[3], shape) == rank;
    if (x && !ok && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "slice() needs a start, a step and an extent per axis");
    for (int k = 0; k < rank; k++)
        axis[k] = (int8_t)k;
    PyObject *r = ok && inside(x, start, step, shape, rank) ? basic_view(x, rank, axis, shape, step, start) : NULL;
    Py_XDECREF(x);
    return r;
}

/* ---- new arrays ---- */

PyObject *tracer_copy(Tracer *x)
{
    Id node = tracer_node(x);
    return node ? like(x->cell->trace, x, node) : NULL;
}

static PyObject *prim_copy(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Id node;
    Tracer *x = arity("copy", n, 1, 2) ? operand(op_begin(), args[0], &node) : NULL;
    Tracer *r = x ? (Tracer *)tracer_copy(x) : NULL;
    if (r && n == 2 && args[1] == Py_True)
        r->cell->layout = LAYOUT_C;
    Py_XDECREF(x);
    return (PyObject *)r;
}

/* What NumPy shows as a view in a form that has no map: no writes to it, none to x while it lives. */
static PyObject *prim_snapshot(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Id node, part;
    Trace *t = arity("snapshot", n, 2, 2) ? op_begin() : NULL;
    Tracer *x = operand(t, args[0], &node), *of = x ? operand(t, args[1], &part) : NULL;
    Tracer *r = of ? (Tracer *)tracer_array(t, node, LAYOUT_C) : NULL;
    if (r) {
        r->cell->readonly = true;
        cell_copy_of(r->cell, of->cell, LAYOUT_UNKNOWN);
    }
    Py_XDECREF(x);
    Py_XDECREF(of);
    return (PyObject *)r;
}

PyObject *tracer_strides(PyObject *o)
{
    Trace *t = op_begin();
    Tracer *x = t && is_tracer(o) ? tracer_trace((Tracer *)o) ? (Tracer *)o : NULL : NULL;
    if (!x)
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    const Node *base = node_at(t->graph, x->cell->node);
    int64_t bytes = dtype_info[base->dtype].bytes, stride[MAX_RANK], offset, unit = x->cell->stride ? 1 : bytes;
    bool local = x->cell->owner == OWNER_LOCAL && x->cell->layout != LAYOUT_C;
    if (local || x->kind == TRACER_PYTHON_SCALAR || !map_strides(x->map, base->rank, node_shape(t->graph, x->cell->node), x->cell->stride, stride, &offset))
        Py_RETURN_NONE;
    trace_rely_layout(t);
    PyObject *r = PyTuple_New(tracer_rank(x));
    for (int k = 0; r && k < tracer_rank(x); k++) {
        PyObject *s = PyLong_FromLongLong(stride[k] * unit);
        if (!s)
            Py_CLEAR(r);
        else
            PyTuple_SET_ITEM(r, k, s);
    }
    return r;
}

static PyObject *prim_strides(PyObject *m, PyObject *o)
{
    (void)m;
    return tracer_strides(o);
}

static PyObject *prim_cast(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Trace *t = arity("cast", n, 2, 2) ? op_begin() : NULL;
    Dtype d = t ? read_dtype(args[1]) : DT_COUNT;
    Id node;
    Tracer *x = d == DT_COUNT ? NULL : operand(t, args[0], &node);
    PyObject *r = x ? like(t, x, graph_cast(t->graph, node, d)) : NULL;
    Py_XDECREF(x);
    return r;
}

static PyObject *prim_full(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    int64_t shape[MAX_RANK];
    Trace *t = arity("full", n, 3, 3) ? op_begin() : NULL;
    int rank = t ? read_dims(t, args[0], shape) : -1;
    Dtype d = rank < 0 ? DT_COUNT : read_dtype(args[1]);
    if (d == DT_COUNT)
        return NULL;
    Id id = value_for_store(t, args[2], d, shape, rank);
    return id ? tracer_array(t, id, LAYOUT_C) : NULL;
}

static PyObject *prim_iota(PyObject *m, PyObject *o)
{
    (void)m;
    Trace *t = op_begin();
    if (t && is_extent(o)) {
        Dim d;
        PyObject *one = PyTuple_Pack(1, o);
        int rank = one ? read_dims(t, one, &d) : -1;
        Py_XDECREF(one);
        return rank < 0 ? NULL : tracer_array(t, graph_iota(t->graph, d), LAYOUT_C);
    }
    Py_ssize_t n = t ? PyNumber_AsSsize_t(o, PyExc_OverflowError) : -1;
    if (n == -1 && PyErr_Occurred())
        return NULL;
    return tracer_array(t, graph_iota(t->graph, n > 0 ? n : 0), LAYOUT_C);
}

/* An array of our own that the function sees as made by it: its elements never change. */
static PyObject *prim_constant(PyObject *m, PyObject *o)
{
    (void)m;
    Trace *t = op_begin();
    if (!t)
        return NULL;
    if (!PyArray_CheckExact(o)) {
        PyErr_SetString(PyExc_TypeError, "constant() needs an ndarray");
        return NULL;
    }
    int input = trace_constant(t, o);
    return input < 0 ? NULL : tracer_input(t, input, OWNER_LOCAL, TRACER_ARRAY);
}

static PyObject *prim_concatenate(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Trace *t = arity("concatenate", n, 2, 2) ? op_begin() : NULL;
    PyObject *list = t ? PySequence_Fast(args[0], "concatenate() needs a sequence") : NULL;
    long axis = list ? PyLong_AsLong(args[1]) : -1;
    Py_ssize_t len = list ? PySequence_Fast_GET_SIZE(list) : 0;
    Id *in = list && !PyErr_Occurred() ? arena_alloc(t->arena, (len + 1) * sizeof *in) : NULL;
    bool ok = in != NULL;
    if (list && !in && !PyErr_Occurred())
        trace_fail(t);
    Layout layout = LAYOUT_C;    /* NumPy joins arrays in Fortran order to one in Fortran order */
    for (Py_ssize_t k = 0; ok && k < len; k++) {
        Tracer *x = operand(t, PySequence_Fast_GET_ITEM(list, k), &in[k]);
        ok = x != NULL;
        if (ok && tracer_layout(x) > layout)
            layout = tracer_layout(x);
        Py_XDECREF(x);
    }
    Py_XDECREF(list);
    return ok ? tracer_array(t, graph_concatenate(t->graph, in, (int)len, (int)axis), layout) : NULL;
}

static PyObject *prim_pad(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    int64_t before[MAX_RANK], after[MAX_RANK];
    Id node;
    Trace *t = arity("pad", n, 4, 4) ? op_begin() : NULL;
    Tracer *x = operand(t, args[0], &node);
    PyObject *r = NULL;
    if (x && read_ints(args[2], before) == tracer_rank(x) && read_ints(args[3], after) == tracer_rank(x)) {
        Id fill = value_for_store(t, args[1], tracer_dtype(x), NULL, 0);
        r = fill ? tracer_array(t, graph_pad(t->graph, node, fill, before, after), tracer_layout(x)) : NULL;
    } else if (x && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "pad() needs two margins per axis");
    Py_XDECREF(x);
    return r;
}

static PyObject *prim_window(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    int64_t attr[MAX_RANK];
    Id node;
    Trace *t = arity("window", n, 2, 2) ? op_begin() : NULL;
    Tracer *x = operand(t, args[0], &node);
    PyObject *r = NULL;
    if (x && read_ints(args[1], attr) == 4 && tracer_rank(x) < MAX_RANK)
        r = tracer_array(t, graph_window(t->graph, node, (int)attr[0], attr[1], attr[2], attr[3]), LAYOUT_C);
    else if (x && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "window() needs axis, size, stride and step, and room for an axis more");
    Py_XDECREF(x);
    return r;
}

/* Whether x is a view of windows, which no reshape that joins axes can address. */
static PyObject *prim_windowed(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Id node = 0;
    Trace *t = arity("windowed", n, 1, 1) ? op_begin() : NULL;
    Tracer *x = operand(t, args[0], &node);
    if (!x)
        return NULL;
    while (op_info[node_at(t->graph, node)->op].kind == KIND_VIEW && node_at(t->graph, node)->op != OP_window)
        node = node_in(t->graph, node)[0];
    bool found = node_at(t->graph, node)->op == OP_window;
    Py_DECREF(x);
    return PyBool_FromLong(found);
}

/* ---- computation ---- */

static uint64_t axis_mask(PyObject *axes, int rank, bool *ok)
{
    int64_t at[MAX_RANK];
    int n = read_ints(axes, at);
    uint64_t mask = 0;
    *ok = n >= 0;
    for (int k = 0; k < n; k++) {
        if (at[k] < 0 || at[k] >= rank) {
            PyErr_Format(PyExc_ValueError, "axis %lld is out of bounds for array of dimension %d", (long long)at[k], rank);
            *ok = false;
            return 0;
        }
        mask |= 1ull << at[k];
    }
    return mask;
}

static Op prefixed_op(const char *prefix, PyObject *name, OpKind kind)
{
    char full[64];
    const char *s = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    snprintf(full, sizeof full, "%s%s", prefix, s ? s : "");
    Op op = op_parse(full);
    if (op == OP_none || op_info[op].kind != kind) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "no op %s", full);
        return OP_none;
    }
    return op;
}

static PyObject *prim_reduce(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Trace *t = arity("reduce", n, 3, 4) ? op_begin() : NULL;
    Op op = t ? prefixed_op("reduce_", args[0], KIND_REDUCE) : OP_none;
    double ddof = op && n == 4 ? PyFloat_AsDouble(args[3]) : 0;
    if (!op || PyErr_Occurred())
        return NULL;
    Id node;
    Tracer *x = operand(t, args[1], &node);
    bool ok = x != NULL;
    uint64_t mask = x ? axis_mask(args[2], tracer_rank(x), &ok) : 0;
    Id out = ok ? graph_reduce(t->graph, op, node, mask, ddof) : 0;
    PyObject *r = ok && nan_check(t, out, &node, 1, false) ? tracer_result(t, out, tracer_layout(x)) : NULL;
    Py_XDECREF(x);
    return r;
}

static PyObject *prim_scan(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Trace *t = arity("scan", n, 3, 3) ? op_begin() : NULL;
    Op op = t ? prefixed_op("", args[0], KIND_SCAN) : OP_none;
    long axis = op ? PyLong_AsLong(args[2]) : -1;
    if (!op || PyErr_Occurred())
        return NULL;
    Id node;
    Tracer *x = operand(t, args[1], &node);
    Id out = x ? graph_scan(t->graph, op, node, (int)axis) : 0;
    PyObject *r = x && nan_check(t, out, &node, 1, false) ? tracer_array(t, out, tracer_layout(x)) : NULL;
    Py_XDECREF(x);
    return r;
}

static PyObject *prim_dot(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Trace *t = arity("dot", n, 2, 2) ? op_begin() : NULL;
    Id a, b;
    Tracer *x = operand(t, args[0], &a), *y = x ? operand(t, args[1], &b) : NULL;
    Id out = y ? graph_dot(t->graph, a, b) : 0;
    PyObject *r = y && nan_check(t, out, (Id[]){a, b}, 2, false) ? tracer_result(t, out, LAYOUT_C) : NULL;
    Py_XDECREF(x);
    Py_XDECREF(y);
    return r;
}

static Dtype promoted(const Operand *a, const Operand *b)
{
    Dtype da = operand_dtype(a), db = operand_dtype(b);
    bool weak_a = a->code >= DT_COUNT, weak_b = b->code >= DT_COUNT;
    if (da == db || (weak_b && !weak_a && dtype_info[da].kind >= dtype_info[db].kind))
        return da;
    if (weak_a && !weak_b && dtype_info[db].kind >= dtype_info[da].kind)
        return db;
    PyArray_Descr *x = (PyArray_Descr *)dtype_to_numpy(da), *y = (PyArray_Descr *)dtype_to_numpy(db);
    PyArray_Descr *both = x && y ? PyArray_PromoteTypes(x, y) : NULL;
    Dtype d = both ? dtype_from_numpy((PyObject *)both, "where") : DT_COUNT;
    Py_XDECREF(x);
    Py_XDECREF(y);
    Py_XDECREF(both);
    return d;
}

static Id where_node(Trace *t, const Operand *c, const Operand *a, const Operand *b)
{
    Graph *g = t->graph;
    Dtype d = promoted(a, b);
    if (d == DT_COUNT)
        return 0;
    Id in[3] = {operand_node(t, c, DT_bool_), operand_node(t, a, d), operand_node(t, b, d)};
    Dim shape[MAX_RANK];
    return broadcast_together(g, in, 3, shape, CHECK_EXTENT) < 0 ? 0 : graph_where(g, in[0], in[1], in[2]);
}

static PyObject *prim_where(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Trace *t = arity("where", n, 3, 3) ? op_begin() : NULL;
    Operand x[3];
    for (int k = 0; k < 3; k++) {
        if (!t || !operand_read(t, args[k], &x[k], true))
            return NULL;
        if (x[k].code == CODE_OTHER) {
            PyErr_Format(PyExc_TypeError, "where() of a %s", Py_TYPE(args[k])->tp_name);
            return NULL;
        }
    }
    Id id = where_node(t, &x[0], &x[1], &x[2]);
    Layout layout = (Layout)(x[0].layout | x[1].layout | x[2].layout ? LAYOUT_UNKNOWN : LAYOUT_C);
    if (layout && x[0].layout < 2 && x[1].layout < 2 && x[2].layout < 2)
        layout = LAYOUT_INPUTS;
    return id || !PyErr_Occurred() ? tracer_array(t, id, layout) : NULL;
}

/* Any elementwise op on operands of the dtypes it takes, broadcast to one shape. */
static PyObject *prim_op(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Trace *t = arity("op", n, 2, 4) ? op_begin() : NULL;
    Op op = t ? prefixed_op("", args[0], KIND_ELEMENTWISE) : OP_none;
    Tracer *x[3] = {NULL};
    Id in[3] = {0};
    Dim shape[MAX_RANK];
    Layout layout = LAYOUT_C;
    for (int k = 0; op && k < n - 1 && (k == 0 || x[k - 1]); k++)
        if ((x[k] = operand(t, args[k + 1], &in[k])))
            layout = tracer_layout(x[k]) > layout ? tracer_layout(x[k]) : layout;
    PyObject *r = NULL;
    if (op && x[n - 2]) {
        int rank = broadcast_together(t->graph, in, (int)n - 1, shape, CHECK_EXTENT);
        r = tracer_result(t, rank < 0 ? 0 : graph_add(t->graph, op, in, (int)n - 1, NULL, 0, DT_COUNT, NULL, 0), layout);
    }
    for (int k = 0; k < 3; k++)
        Py_XDECREF(x[k]);
    return r;
}

static bool check_code(PyObject *name, CheckCode *out)
{
    static const struct { const char *name; CheckCode code; } codes[] = {
        {"negative_power", CHECK_NEGATIVE_POWER}, {"index", CHECK_INDEX}, {"extent", CHECK_EXTENT}, {"zero_division", CHECK_ZERO_DIVISION},
        {"all_nan", CHECK_ALL_NAN}, {"weights", CHECK_WEIGHTS}, {"geometric", CHECK_GEOMETRIC}, {"singular", CHECK_SINGULAR}, {"not_positive", CHECK_NOT_POSITIVE}, {"value", CHECK_VALUE}};
    for (size_t k = 0; PyUnicode_Check(name) && k < sizeof codes / sizeof *codes; k++)
        if (!PyUnicode_CompareWithASCIIString(name, codes[k].name)) {
            *out = codes[k].code;
            return true;
        }
    PyErr_Format(PyExc_ValueError, "no check named %R", name);
    return false;
}

static PyObject *prim_check(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Trace *t = arity("check", n, 2, 2) ? op_begin() : NULL;
    CheckCode code;
    Operand x;
    if (!t || !check_code(args[1], &code) || !operand_read(t, args[0], &x, false))
        return NULL;
    if (x.code != DT_bool_) {
        PyErr_SetString(PyExc_TypeError, "check() needs a bool array");
        return NULL;
    }
    if (!graph_check(t->graph, operand_node(t, &x, DT_bool_), code))
        return PyErr_Occurred() ? NULL : trace_fail(t);
    Py_RETURN_NONE;
}

/* ---- tracers and values ---- */

static PyObject *prim_as_tracer(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Trace *t = arity("as_tracer", n, 1, 2) ? op_begin() : NULL;
    if (!t)
        return NULL;
    if (n == 1 || args[1] == Py_None)
        return as_tracer(t, args[0]);
    Dtype d = read_dtype(args[1]);
    Operand x;
    if (d == DT_COUNT)
        return NULL;
    if (is_number(args[0]) || (is_tracer(args[0]) && ((Tracer *)args[0])->kind == TRACER_PYTHON_SCALAR)) {
        Id id = operand_read(t, args[0], &x, false) ? operand_node(t, &x, d) : 0;
        return id || !PyErr_Occurred() ? tracer_result(t, id, LAYOUT_C) : NULL;
    }
    Id node;
    Tracer *a = operand(t, args[0], &node);
    PyObject *r = !a ? NULL : tracer_dtype(a) == d ? Py_NewRef(a) : like(t, a, graph_cast(t->graph, node, d));
    Py_XDECREF(a);
    return r;
}

static PyObject *prim_is_tracer(PyObject *m, PyObject *o)
{
    (void)m;
    return PyBool_FromLong(is_tracer(o));
}

static PyObject *prim_is_concrete(PyObject *m, PyObject *o)
{
    (void)m;
    if (!is_tracer(o) || ((Tracer *)o)->kind == TRACER_PYTHON_SCALAR)
        return PyBool_FromLong(!is_extent(o));
    Id node = tracer_node((Tracer *)o);
    return node ? PyBool_FromLong(!tracer_dynamic((Tracer *)o) && !(trace_depends(((Tracer *)o)->cell->trace, node) & DEPENDS_ARGUMENTS)) : NULL;
}

static PyObject *prim_is_extent(PyObject *m, PyObject *o)
{
    (void)m;
    return PyBool_FromLong(is_extent(o));
}

static PyObject *prim_is_scalar_tracer(PyObject *m, PyObject *o)
{
    (void)m;
    return PyBool_FromLong(is_tracer(o) && ((Tracer *)o)->kind == TRACER_PYTHON_SCALAR);
}

static PyObject *prim_is_numpy_scalar(PyObject *m, PyObject *o)
{
    (void)m;
    return PyBool_FromLong(is_tracer(o) && ((Tracer *)o)->kind == TRACER_NUMPY_SCALAR);
}

static PyObject *prim_concrete(PyObject *m, PyObject *o)
{
    (void)m;
    if (!is_tracer(o))
        return Py_NewRef(o);
    Tracer *x = (Tracer *)o;
    if (x->kind == TRACER_PYTHON_SCALAR)
        return scalar_concrete(x);
    return tracer_value(x, "this operation", "pass what decides it as a Python number, or compute it outside of the jitted function");
}

static PyObject *prim_tracing(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyBool_FromLong(trace_current() != NULL);
}

/* " (at file:line, in function)" of the user's code that runs now, for messages. */
static PyObject *prim_place(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    Trace *t = op_begin();
    PyObject *file, *function;
    int line;
    if (!t)
        return NULL;
    bool known = trace_source(t, t->graph->src, &file, &line, &function);
    PyObject *text = known ? PyUnicode_FromFormat(" (at %U:%d, in %U)", file, line, function) : PyUnicode_FromString("");
    Py_XDECREF(file);
    Py_XDECREF(function);
    return text;
}

/* ---- registration ---- */

static PyObject *register_function(PyObject *keys, PyObject *f)
{
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(keys); k++)
        if (PyDict_SetItem(core_functions, PyTuple_GET_ITEM(keys, k), f) < 0)
            return NULL;
    return Py_NewRef(f);
}

static PyObject *register_method(PyObject *name, PyObject *f)
{
    return PyDict_SetItem(core_methods, name, f) < 0 ? NULL : Py_NewRef(f);
}

static PyMethodDef register_function_def = {"implements", register_function, METH_O, "Registers the function."};
static PyMethodDef register_method_def = {"method", register_method, METH_O, "Registers the method."};

static PyObject *prim_implements(PyObject *m, PyObject *functions)
{
    (void)m;
    return PyCFunction_New(&register_function_def, functions);
}

static PyObject *prim_method(PyObject *m, PyObject *name)
{
    (void)m;
    return PyCFunction_New(&register_method_def, name);
}

#define FAST(name, doc) {#name, (PyCFunction)(void (*)(void))prim_##name, METH_FASTCALL, doc}
PyMethodDef prim_methods[] = {
    FAST(reshape, "reshape(x, shape): a view, or a copy where NumPy surely copies"),
    FAST(transpose, "transpose(x, perm): a view"),
    FAST(broadcast, "broadcast(x, shape): a read-only view"),
    FAST(slice, "slice(x, start, step, shape): a view"),
    FAST(snapshot, "snapshot(x, of): x read-only, a part of `of`, to which nothing may be written while it lives"),
    {"strides", prim_strides, METH_O, "strides(x): in bytes, part of the key from now on; None: not known"},
    FAST(cast, "cast(x, dtype): a new array"),
    FAST(full, "full(shape, dtype, value): a new array"),
    FAST(concatenate, "concatenate(list, axis): arrays of one dtype joined"),
    FAST(pad, "pad(x, fill, before, after): margins per axis"),
    FAST(windowed, "windowed(x): whether x is a view of windows"),
    FAST(window, "window(x, (axis, size, stride, step)): windows of an axis, in a last axis"),
    FAST(reduce, "reduce(op, x, axes, ddof=0.0): axes in 0 .. ndim - 1, which disappear"),
    FAST(scan, "scan(op, x, axis)"),
    FAST(dot, "dot(a, b): (..., m, k) x (..., k, n)"),
    {"_extent_type", prim_extent_type, METH_O, "_extent_type(cls): the class of extents that are known only in the run"},
    {"is_concrete", prim_is_concrete, METH_O, "whether the value of a tracer is known, or can be computed now"},
    {"is_extent", prim_is_extent, METH_O, "whether x is an extent that is known only in the run"},
    {"bounds", prim_bounds, METH_O, "bounds(x): integers that no element of x passes, as far as the graph shows them, or None"},
    {"freeze", prim_freeze, METH_O, "freeze(x): x, which may not be written to from here on"},
    FAST(aligned, "aligned((i, ...)): index arrays broadcast to one shape, in the run where extents are known only then"),
    FAST(gather, "gather(x, (i, ...)): x[i, ...] with int64 arrays in range for the leading axes"),
    FAST(scatter, "scatter(x, v, op, axes, (i, ...)): writes x[..., i, ...] = v, or op.at(x, (..., i, ...), v); axes: bit mask of those indexed; v: the index arrays' axes first"),
    FAST(index, "index(i, n): integers as int64 in 0 .. n - 1 (n >= 1), checked when the function runs"),
    FAST(where, "where(c, a, b): broadcast and promoted"),
    FAST(op, "op(name, *xs): an elementwise op of the table, on operands of the dtypes it takes"),
    FAST(check, "check(pred, code): must hold when the function runs"),
    FAST(as_tracer, "as_tracer(x, dtype=None): arrays are captured, numbers are constants"),
    FAST(copy, "copy(x, c_order=False): a new array, in the order of x's elements in memory or in C order"),
    {"contiguous", prim_contiguous, METH_O, "contiguous(x): x, or a copy where NumPy's ascontiguousarray makes one"},
    {"iota", prim_iota, METH_O, "iota(n): 0 .. n - 1 of int64"},
    {"constant", prim_constant, METH_O, "constant(a): an ndarray nobody else holds as an array made in the function"},
    {"is_tracer", prim_is_tracer, METH_O, "whether x is a tracer"},
    {"is_scalar_tracer", prim_is_scalar_tracer, METH_O, "whether x is a tracer of a Python number"},
    {"is_numpy_scalar", prim_is_numpy_scalar, METH_O, "whether x is a tracer of a NumPy scalar"},
    {"concrete", prim_concrete, METH_O, "the value of a number, guarded, or of what depends on no input"},
    {"place", prim_place, METH_NOARGS, "place(): the user's line, as messages end with it"},
    {"tracing", prim_tracing, METH_NOARGS, "whether this thread is tracing"},
    {"implements", prim_implements, METH_VARARGS, "implements(*functions): decorator that registers what they do on tracers"},
    {"method", prim_method, METH_O, "method(name): decorator that registers a method of tracers"},
    {NULL},
};
