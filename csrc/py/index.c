/* Basic indexing: integers, slices, newaxis and Ellipsis, read as views and written through them. Keys with arrays go to pyxla/_np/fancy.py. */
#include "py/tracer.h"
#include "py/error.h"

/* The map that a key describes, while it is read. */
typedef struct {
    Trace *t;
    Tracer *x;
    const int64_t *shape;
    int base_rank, at, rank;      /* at: next axis of the base */
    bool scalar;                  /* integers only: the result is a NumPy scalar */
    bool copied;                  /* an integer is a 0-d array: what is read is a copy */
    int8_t axis[MAX_RANK];
    int64_t extent[MAX_RANK], step[MAX_RANK], start[MAX_RANK];
    Id offset[MAX_RANK];
} Key;

static bool fail(Key *k, ErrKind kind, const char *message)
{
    err_set(&k->t->err, kind, "%s", message);
    k->t->err.src = k->t->graph->src;
    trace_fail(k->t);
    return false;
}

static bool add_axis(Key *k, int axis, int64_t extent, int64_t step)
{
    if (k->rank == MAX_RANK)
        return fail(k, ERR_INDEX, "too many axes in an index");
    k->axis[k->rank] = (int8_t)axis;
    k->extent[k->rank] = extent;
    k->step[k->rank++] = step;
    return true;
}

static bool out_of_bounds(Key *k, int64_t i)
{
    char message[128];
    snprintf(message, sizeof message, "index %lld is out of bounds for axis %d with size %lld", (long long)i, k->at, (long long)k->shape[k->at]);
    return fail(k, ERR_INDEX, message);
}

static bool add_integer(Key *k, int64_t i)
{
    int64_t n = k->shape[k->at];
    if (i < -n || i >= n)
        return out_of_bounds(k, i);
    k->start[k->at++] = i < 0 ? i + n : i;
    return true;
}

static Id clamp(Graph *g, Id i, int64_t n)
{
    i = graph_binary(g, OP_maximum, i, graph_const(g, DT_int64, 0));
    return graph_binary(g, OP_minimum, i, graph_const(g, DT_int64, n - 1));
}

/* An index known only in the run: checked, wrapped, and clamped so that a failed check reads nothing outside. */
static bool add_dynamic(Key *k, Id i)
{
    Graph *g = k->t->graph;
    int64_t n = k->shape[k->at];
    if (n == 0)
        return out_of_bounds(k, 0);
    i = i ? graph_cast(g, i, DT_int64) : 0;
    Id low = graph_binary(g, OP_less_equal, graph_const(g, DT_int64, -n), i), high = graph_binary(g, OP_less, i, graph_const(g, DT_int64, n));
    Id ok = trace_check(g, graph_binary(g, OP_logical_and, low, high), CHECK_INDEX, NULL);
    Id wrapped = graph_binary(g, OP_add, i, graph_const(g, DT_int64, n));
    i = graph_where(g, graph_binary(g, OP_less, i, graph_const(g, DT_int64, 0)), wrapped, i);
    k->offset[k->at] = clamp(g, i, n);
    if (!ok || !k->offset[k->at]) {
        trace_fail(k->t);
        return false;
    }
    k->at++;
    return true;
}

static bool add_slice(Key *k, PyObject *slice)
{
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(slice, &start, &stop, &step) < 0)
        return false;
    Py_ssize_t n = PySlice_AdjustIndices(k->shape[k->at], &start, &stop, step);
    k->scalar = false;
    if (!add_axis(k, k->at, n, n ? step : 1))
        return false;
    k->start[k->at++] = n ? start : 0;
    return true;
}

static bool add_tracer(Key *k, Tracer *i)
{
    if (tracer_trace(i) != k->t)
        return false;
    if (i->kind == TRACER_PYTHON_SCALAR) {
        PyObject *value = scalars_value(k->t->scalars, i->reg);
        if (PyLong_CheckExact(value))
            return add_dynamic(k, trace_register(k->t, i->reg, DT_int64));
        return fail(k, ERR_INDEX, "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid indices");
    }
    DtypeKind kind = dtype_info[tracer_dtype(i)].kind;
    if (kind != DKIND_INT && kind != DKIND_UINT)
        return fail(k, ERR_INDEX, "arrays used as indices must be of integer (or boolean) type");
    k->copied |= i->kind == TRACER_ARRAY;
    Id node = tracer_node(i);
    int64_t bits;
    return node && node_const(k->t->graph, node, &bits) ? add_integer(k, eval_elementwise(OP_cast, tracer_dtype(i), DT_int64, bits, 0, 0))
                                                        : node && add_dynamic(k, node);
}

static bool add_item(Key *k, PyObject *item, int consumed)
{
    if (item == Py_None) {
        k->scalar = false;
        return add_axis(k, -1, 1, 1);
    }
    if (item == Py_Ellipsis) {
        k->scalar = false;
        for (int n = k->base_rank - consumed; n > 0; n--, k->at++)
            if (!add_axis(k, k->at, k->shape[k->at], 1))
                return false;
        return true;
    }
    if (PySlice_Check(item))
        return add_slice(k, item);
    if (is_tracer(item))
        return add_tracer(k, (Tracer *)item);
    if (!PyIndex_Check(item))
        return fail(k, ERR_INDEX, "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid indices");
    Py_ssize_t i = PyNumber_AsSsize_t(item, PyExc_IndexError);
    return (i != -1 || !PyErr_Occurred()) && add_integer(k, i);
}

/* Axes of the base that the items use, -1: an exception. */
static int count_axes(Key *k, PyObject *const *items, Py_ssize_t n)
{
    int used = 0, ellipses = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        ellipses += items[i] == Py_Ellipsis;
        used += items[i] != Py_None && items[i] != Py_Ellipsis;
    }
    char message[128];
    snprintf(message, sizeof message, "too many indices for array: array is %d-dimensional, but %d were indexed", k->base_rank, used);
    if (ellipses > 1)
        return fail(k, ERR_INDEX, "an index can only have a single ellipsis ('...')") - 1;
    if (used > k->base_rank)
        return fail(k, ERR_INDEX, message) - 1;
    return used;
}

/* Whether a bound of a slice is known only in the run. */
static bool is_run_integer(PyObject *o)
{
    if (!is_tracer(o))
        return is_extent(o);
    Tracer *x = (Tracer *)o;
    DtypeKind kind = dtype_info[tracer_dtype(x)].kind;
    if (x->kind == TRACER_PYTHON_SCALAR || tracer_rank(x) || (kind != DKIND_INT && kind != DKIND_UINT))
        return false;
    Id node = tracer_node(x);
    return node && trace_depends(x->cell->trace, node) & DEPENDS_ARGUMENTS;
}

/* Whether an item is an array of indices, or a mask: pyxla/_np/fancy.py reads those. */
static bool is_advanced(PyObject *item)
{
    if (is_tracer(item)) {
        Tracer *x = (Tracer *)item;
        return x->kind != TRACER_PYTHON_SCALAR && (tracer_rank(x) || tracer_dtype(x) == DT_bool_);
    }
    if (PySlice_Check(item)) {
        PySliceObject *s = (PySliceObject *)item;
        return is_run_integer(s->start) || is_run_integer(s->stop);
    }
    return is_extent(item) || PyArray_Check(item) || PyList_Check(item) || PyTuple_Check(item) || PyBool_Check(item) || PyArray_IsScalar(item, Bool)
           || !(PyIndex_Check(item) || item == Py_None || item == Py_Ellipsis);     /* what NumPy reads as an array, or refuses */
}

static bool key_advanced(PyObject *key)
{
    if (!PyTuple_Check(key))
        return is_advanced(key);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); i++)
        if (is_advanced(PyTuple_GET_ITEM(key, i)))
            return true;
    return false;
}

/* Calls a function of fancy.py that is registered as a method. */
static PyObject *call_advanced(const char *name, PyObject *self, PyObject *key, PyObject *value)
{
    PyObject *f = core_item(core_methods, name), *read = f ? sequence_read(key) : NULL, *r = NULL;
    if (!f && !PyErr_Occurred())
        PyErr_Format(PyExc_RuntimeError, "%s is not registered", name);
    else if (read)
        r = PyObject_CallFunctionObjArgs(f, self, read, value, NULL);
    Py_XDECREF(read);
    return r;
}

static bool key_read(Key *k, Trace *t, Tracer *x, PyObject *key)
{
    *k = (Key){.t = t, .x = x, .shape = tracer_shape(x), .base_rank = tracer_rank(x), .scalar = true};
    bool tuple = PyTuple_Check(key);
    PyObject *const *items = tuple ? &PyTuple_GET_ITEM(key, 0) : &key;
    Py_ssize_t n = tuple ? PyTuple_GET_SIZE(key) : 1;
    int used = count_axes(k, items, n);
    for (Py_ssize_t i = 0; used >= 0 && i < n; i++)
        if (!add_item(k, items[i], used))
            return false;
    if (used < 0)
        return false;
    k->scalar &= k->at == k->base_rank;
    while (k->at < k->base_rank) {
        if (!add_axis(k, k->at, k->shape[k->at], 1))
            return false;
        k->at++;
    }
    return true;
}

/* The view that a key describes; of a NumPy scalar, which cannot change, of an array of its own. */
static PyObject *key_view(const Key *k)
{
    if (k->x->kind == TRACER_NUMPY_SCALAR) {
        Id node = tracer_node(k->x);
        PyObject *base = node ? tracer_array(k->t, node, LAYOUT_C) : NULL;
        PyObject *view = base ? tracer_view((Tracer *)base, map_basic(k->t, NULL, k->rank, 0, k->axis, k->extent, k->step, k->start, NULL)) : NULL;
        Py_XDECREF(base);
        return view;
    }
    return tracer_view(k->x, map_basic(k->t, k->x->map, k->rank, k->base_rank, k->axis, k->extent, k->step, k->start, k->offset));
}

static Trace *subscript_trace(PyObject *self, const char *verb)
{
    Tracer *x = (Tracer *)self;
    Trace *t = tracer_trace(x) ? op_begin() : NULL;
    if (t && x->kind == TRACER_PYTHON_SCALAR) {
        PyErr_Format(PyExc_TypeError, "'%s' object %s", Py_TYPE(scalars_value(t->scalars, x->reg))->tp_name, verb);
        return NULL;
    }
    return t;
}

/* Whether an item is a Python bool that is an argument: it decides the shape, so its value is asked for. */
static bool is_flag(Trace *t, PyObject *item)
{
    return is_tracer(item) && ((Tracer *)item)->kind == TRACER_PYTHON_SCALAR && tracer_trace((Tracer *)item) == t
           && PyBool_Check(scalars_value(t->scalars, ((Tracer *)item)->reg));
}

/* The key with the values of its flags, a new reference. */
static PyObject *without_flags(Trace *t, PyObject *key)
{
    Py_ssize_t n = PyTuple_Check(key) ? PyTuple_GET_SIZE(key) : 0, k = 0;
    if (is_flag(t, key))
        return scalar_concrete((Tracer *)key);
    while (k < n && !is_flag(t, PyTuple_GET_ITEM(key, k)))
        k++;
    PyObject *plain = k < n ? PyTuple_New(n) : Py_NewRef(key);
    for (k = 0; plain && plain != key && k < n; k++) {
        PyObject *item = PyTuple_GET_ITEM(key, k), *value = is_flag(t, item) ? scalar_concrete((Tracer *)item) : Py_NewRef(item);
        if (value)
            PyTuple_SET_ITEM(plain, k, value);
        else
            Py_CLEAR(plain);
    }
    return plain;
}

static PyObject *get_item(Trace *t, PyObject *self, PyObject *key)
{
    Key k;
    if (key_advanced(key) || tracer_dynamic((Tracer *)self))
        return call_advanced("__getitem__", self, key, NULL);
    if (!key_read(&k, t, (Tracer *)self, key))
        return NULL;
    PyObject *view = key_view(&k);
    if (!view || (!k.scalar && !k.copied))
        return view;
    PyObject *r = k.scalar ? tracer_result(t, ((Tracer *)view)->node, LAYOUT_C) : tracer_copy((Tracer *)view);
    Py_DECREF(view);
    return r;
}

PyObject *tracer_getitem(PyObject *self, PyObject *key)
{
    Trace *t = subscript_trace(self, "is not subscriptable");
    Operation o;
    if (!t)
        return NULL;
    operation_begin(&o, "ndarray.__getitem__", NULL, (PyObject *[]){self, key}, 2);
    PyObject *plain = without_flags(t, key), *item = plain ? get_item(t, self, plain) : NULL;
    Py_XDECREF(plain);
    return operation_end(&o, item);
}

/* For iteration, whose end is the IndexError. */
PyObject *tracer_item(PyObject *self, Py_ssize_t i)
{
    Trace *t = subscript_trace(self, "is not subscriptable");
    PyObject *key = t ? PyLong_FromSsize_t(i) : NULL, *item = key ? get_item(t, self, key) : NULL;
    Py_XDECREF(key);
    return item;
}

/* ---- writes ---- */

/* Whether a key is `...` or `:`. */
static bool is_whole(PyObject *key)
{
    PySliceObject *s = (PySliceObject *)key;
    return key == Py_Ellipsis || (PySlice_Check(key) && s->start == Py_None && s->stop == Py_None && s->step == Py_None);
}

static int set_item(Trace *t, PyObject *self, PyObject *key, PyObject *value)
{
    Tracer *x = (Tracer *)self;
    if (!value) {
        PyErr_SetString(PyExc_ValueError, "cannot delete array elements");
        return -1;
    }
    bool back = is_tracer(value) && ((Tracer *)value)->cell->through && ((Tracer *)value)->cell->origin == x->cell;   /* x[i:j] += v */
    if (!back && !tracer_writable(x))
        return -1;
    if (tracer_dynamic(x) && is_whole(key)) {
        Id all = element_check(t, value, tracer_dtype(x)) ? value_for_store(t, value, tracer_dtype(x), tracer_shape(x), tracer_rank(x)) : 0;
        return all && tracer_store(x, all) ? 0 : -1;
    }
    if (back || key_advanced(key) || tracer_dynamic(x)) {
        PyObject *done = call_advanced("__setitem__", self, key, value);
        Py_XDECREF(done);
        return done ? 0 : -1;
    }
    Key k;
    if (!key_read(&k, t, x, key))
        return -1;
    if (k.scalar && (PyList_Check(value) || PyTuple_Check(value))) {
        PyErr_SetString(PyExc_ValueError, "setting an array element with a sequence.");
        return -1;
    }
    Id v = element_check(t, value, tracer_dtype(x)) ? value_for_store(t, value, tracer_dtype(x), k.extent, k.rank) : 0;
    PyObject *view = v ? key_view(&k) : NULL;
    bool ok = view && tracer_store((Tracer *)view, v);
    Py_XDECREF(view);
    return ok ? 0 : -1;
}

int tracer_setitem(PyObject *self, PyObject *key, PyObject *value)
{
    Trace *t = subscript_trace(self, value ? "does not support item assignment" : "does not support item deletion");
    Operation o;
    if (!t)
        return -1;
    operation_begin(&o, value ? "ndarray.__setitem__" : "ndarray.__delitem__", NULL, (PyObject *[]){self, key, value}, value ? 3 : 2);
    PyObject *plain = without_flags(t, key);
    bool done = plain && set_item(t, self, plain, value) == 0;
    Py_XDECREF(plain);
    return operation_end(&o, done ? self : NULL) ? 0 : -1;
}
