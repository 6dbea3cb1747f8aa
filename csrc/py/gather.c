/* Index arrays: the primitives that pyxla/_np/fancy.py makes NumPy's forms of indexing from. */
#include "py/tracer.h"
#include "py/error.h"

static Trace *begin(const char *name, Py_ssize_t n, Py_ssize_t need)
{
    if (n == need)
        return op_begin();
    PyErr_Format(PyExc_TypeError, "%s() takes %zd arguments, got %zd", name, need, n);
    return NULL;
}

/* The node of an array argument; 0 with an exception. *layout: raised to its layout. */
static Id laid_out(Trace *t, PyObject *o, Layout *layout)
{
    PyObject *x = as_tracer(t, o);
    Id node = 0;
    if (x && !is_tracer(x))
        PyErr_Format(PyExc_TypeError, "an object of type %s cannot be used as an array in a jitted function", Py_TYPE(o)->tp_name);
    else if (x)
        node = tracer_node((Tracer *)x);
    if (node && tracer_layout((Tracer *)x) > *layout)
        *layout = tracer_layout((Tracer *)x);
    Py_XDECREF(x);
    return node;
}

static Id array_node(Trace *t, PyObject *o) { return laid_out(t, o, &(Layout){LAYOUT_C}); }

/* The index arrays, broadcast to one shape; their number, -1 with an exception or the trace's error. */
static int read_indices(Trace *t, PyObject *tuple, Id *out, Layout *layout)
{
    Dim shape[MAX_RANK];
    Py_ssize_t n = PyTuple_Check(tuple) ? PyTuple_GET_SIZE(tuple) : 0;
    if (n < 1 || n > MAX_RANK) {
        PyErr_SetString(PyExc_TypeError, "a tuple of index arrays is needed");
        return -1;
    }
    for (Py_ssize_t k = 0; k < n; k++) {
        out[k] = laid_out(t, PyTuple_GET_ITEM(tuple, k), layout);
        if (!out[k])
            return -1;
    }
    return broadcast_together(t->graph, out, (int)n, shape, CHECK_INDICES) < 0 ? -1 : (int)n;
}

static PyObject *failed(Trace *t) { return PyErr_Occurred() ? NULL : trace_fail(t); }

static PyObject *tuple_of_arrays(Trace *t, const Id *id, int n, Layout layout)
{
    PyObject *all = PyTuple_New(n);
    for (int i = 0; all && i < n; i++) {
        PyObject *x = tracer_array(t, id[i], layout);
        if (!x)
            Py_CLEAR(all);
        else
            PyTuple_SET_ITEM(all, i, x);
    }
    return all;
}

PyObject *prim_aligned(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Trace *t = begin("aligned", n, 1);
    Id index[MAX_RANK];
    Layout layout = LAYOUT_C;
    int k = t ? read_indices(t, args[0], index, &layout) : -1;
    if (k < 0)
        return t ? failed(t) : NULL;
    return tuple_of_arrays(t, index, k, layout);
}

static int read_nodes(Trace *t, PyObject *tuple, Id *out)
{
    Py_ssize_t n = PyTuple_Check(tuple) ? PyTuple_GET_SIZE(tuple) : 0;
    if (n < 1 || n > MAX_RANK)
        return PyErr_Format(PyExc_TypeError, "a tuple of arrays is needed"), -1;
    for (Py_ssize_t k = 0; k < n; k++)
        if (!(out[k] = array_node(t, PyTuple_GET_ITEM(tuple, k))))
            return -1;
    return (int)n;
}

PyObject *prim_batched(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Trace *t = begin("batched", n, 4);
    Id rows[MAX_RANK], arrays[MAX_RANK], roots[MAX_RANK];
    Dim shape[MAX_RANK];
    int nrows = t ? read_nodes(t, args[1], rows) : -1, narrays = nrows < 0 ? -1 : read_nodes(t, args[2], arrays);
    int nroots = narrays < 0 ? -1 : read_nodes(t, args[0], roots), rank = nroots < 0 ? -1 : read_dims(t, args[3], shape);
    if (rank < 0 || narrays != nrows)
        return t ? failed(t) : NULL;
    if (!graph_batch(t->graph, rows, arrays, nrows, roots, nroots, shape, rank))
        return t->err.kind ? failed(t) : Py_NewRef(Py_None);
    return tuple_of_arrays(t, roots, nroots, LAYOUT_INPUTS);
}

PyObject *prim_gather(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Trace *t = begin("gather", n, 2);
    Layout layout = LAYOUT_C, own = LAYOUT_C;
    Id x = t ? laid_out(t, args[0], &own) : 0, index[MAX_RANK];
    int k = x ? read_indices(t, args[1], index, &layout) : -1;
    if (k < 0)
        return t ? failed(t) : NULL;
    int rest = node_at(t->graph, x)->rank - k;
    Id r = graph_gather(t->graph, x, index, k);
    if (rest > 1 && own > layout)
        layout = own;
    if (r && node_at(t->graph, r)->op != OP_gather) {     /* of constant indices, the slice that they are */
        if (layout == LAYOUT_C || rest)
            r = node_gathered(t->graph, r, x, k);
        else
            trace_unordered(t, r);
    }
    return tracer_array(t, r, layout);
}

PyObject *prim_spread(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Trace *t = begin("spread", n, 3);
    Id v = t ? array_node(t, args[0]) : 0, index = v ? array_node(t, args[1]) : 0;
    int64_t extent = index ? PyLong_AsLongLong(args[2]) : -1;
    if (!index || PyErr_Occurred())
        return NULL;
    Id r = graph_spread(t->graph, v, index, extent);
    if (r)
        return tracer_array(t, r, LAYOUT_C);
    if (t->graph->err->kind)
        return failed(t);
    Py_RETURN_NONE;
}

static bool read_op(PyObject *name, Op *op)
{
    *op = OP_none;
    if (name == Py_None)
        return true;
    const char *s = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    *op = s ? op_parse(s) : OP_none;
    if (*op == OP_none && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "scatter() needs the name of an op");
    return *op != OP_none;
}

PyObject *prim_scatter(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Trace *t = begin("scatter", n, 5);
    Id index[MAX_RANK];
    Op op;
    if (!t || !read_op(args[2], &op))
        return NULL;
    uint64_t axes = PyLong_AsUnsignedLongLong(args[3]);
    if (PyErr_Occurred() || !is_tracer(args[0]) || !tracer_writable((Tracer *)args[0]))
        return NULL;
    Tracer *x = (Tracer *)args[0];
    Id v = array_node(t, args[1]), old = v ? tracer_node(x) : 0;
    int k = old ? read_indices(t, args[4], index, &(Layout){LAYOUT_C}) : -1;
    Id new = k == __builtin_popcountll(axes) ? graph_scatter(t->graph, old, v, op, index, axes) : 0;
    if (!new)
        return failed(t);
    if (!tracer_store(x, new))
        return NULL;
    Py_RETURN_NONE;
}

/* Checks and clamps int64 indices by the extent, of their shape and at least 1. As unsigned numbers the negative ones are the greatest, so that
 * one comparison does. */
static Id checked_index(Graph *g, Id i, Id extent)
{
    Id above = graph_cast(g, i, DT_uint64), limit = graph_cast(g, extent, DT_uint64);
    if (!trace_check(g, graph_binary(g, OP_less, above, limit), CHECK_INDEX, NULL))
        return 0;
    Id one = broadcast_to(g, graph_const(g, DT_uint64, 1), node_shape(g, i), node_at(g, i)->rank);
    return graph_cast(g, graph_binary(g, OP_minimum, above, graph_binary(g, OP_subtract, limit, one)), DT_int64);
}

/* Wraps, checks and clamps indices of an axis of extent n, as far as the graph does not show that there is no need. A failed check stops
 * the run, but values may be read before. */
static Id index_in_range(Trace *t, Id i, int64_t n)
{
    Graph *g = t->graph;
    int64_t lo, hi;
    if (!node_range(g, i, &lo, &hi)) {                                 /* uint64: huge ones are out of bounds */
        Id limit = graph_const(g, DT_uint64, n);
        limit = broadcast_to(g, limit, node_shape(g, i), node_at(g, i)->rank);
        i = graph_binary(g, OP_minimum, i, limit);
        lo = 0;
        hi = n;
    }
    i = graph_cast(g, i, DT_int64);
    if (!i || (lo >= 0 && hi < n))
        return i;
    const Dim *shape = node_shape(g, i);
    int rank = node_at(g, i)->rank;
    Id zero = broadcast_to(g, graph_const(g, DT_int64, 0), shape, rank), extent = broadcast_to(g, graph_const(g, DT_int64, n), shape, rank);
    if (lo < 0)
        i = graph_where(g, graph_binary(g, OP_less, i, zero), graph_binary(g, OP_add, i, extent), i);
    return lo < -n || hi >= n ? checked_index(g, i, extent) : i;
}

/* As index_in_range(), of an axis whose extent is the int64 scalar n. */
static Id index_in_extent(Trace *t, Id i, Id n)
{
    Graph *g = t->graph;
    i = graph_cast(g, i, DT_int64);
    if (!i || !n)
        return 0;
    const Dim *shape = node_shape(g, i);
    int rank = node_at(g, i)->rank;
    Id zero = broadcast_to(g, graph_const(g, DT_int64, 0), shape, rank), extent = broadcast_to(g, n, shape, rank);
    i = graph_where(g, graph_binary(g, OP_less, i, zero), graph_binary(g, OP_add, i, extent), i);
    return checked_index(g, i, extent);
}

PyObject *prim_bounds(PyObject *m, PyObject *o)
{
    (void)m;
    Trace *t = op_begin();
    Id id = t ? array_node(t, o) : 0;
    int64_t lo, hi;
    if (!id)
        return NULL;
    if (dtype_info[node_at(t->graph, id)->dtype].kind > DKIND_UINT || !node_range(t->graph, id, &lo, &hi))
        Py_RETURN_NONE;
    return Py_BuildValue("LL", (long long)lo, (long long)hi);
}

PyObject *prim_freeze(PyObject *m, PyObject *o)
{
    (void)m;
    if (is_tracer(o))
        cell_freeze(((Tracer *)o)->cell);
    return Py_NewRef(o);
}

PyObject *prim_index(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Trace *t = begin("index", n, 2);
    Id i = t ? array_node(t, args[0]) : 0;
    if (i && is_extent(args[1])) {
        Tracer *n_tracer = extent_tracer(args[1]);
        Id of = n_tracer ? tracer_node(n_tracer) : 0;
        Py_XDECREF(n_tracer);
        return of ? tracer_array(t, index_in_extent(t, i, of), LAYOUT_C) : NULL;
    }
    int64_t extent = i ? PyLong_AsLongLong(args[1]) : -1;
    if (!i || PyErr_Occurred())
        return NULL;
    if (extent == 0 && node_size(t->graph, i)) {
        err_set(&t->err, ERR_INDEX, "index is out of bounds for an axis with size 0");
        t->err.src = t->graph->src;
        return trace_fail(t);
    }
    return tracer_array(t, extent ? index_in_range(t, i, extent) : graph_cast(t->graph, i, DT_int64), LAYOUT_C);
}
