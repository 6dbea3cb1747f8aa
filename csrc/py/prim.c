/* The primitives that pyxla/_np composes NumPy's functions from; those that are views are in prim_view.c. */
#include "py/capture.h"
#include "py/prim.h"
#include "py/error.h"

PyObject *core_functions, *core_methods, *core_creators;

/* ---- arguments ---- */

bool prim_arity(const char *name, Py_ssize_t n, Py_ssize_t least, Py_ssize_t most)
{
    if (n >= least && n <= most)
        return true;
    PyErr_Format(PyExc_TypeError, "%s() takes %zd to %zd arguments, got %zd", name, least, most, n);
    return false;
}

int prim_ints(PyObject *o, int64_t *out)
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

Dtype prim_dtype(PyObject *o)
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

PyObject *core_item(PyObject *dict, const char *name)
{
    PyObject *key = PyUnicode_InternFromString(name), *item = key ? PyDict_GetItemWithError(dict, key) : NULL;
    Py_XDECREF(key);
    return item;
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
        PyObject *make = core_item(core_creators, "array");
        return make ? PyObject_CallOneArg(make, o) : NULL;
    }
    PyObject *read = sequence_read(o), *x = !read ? NULL : read == o ? number_tracer(t, o) : as_tracer(t, read);
    Py_XDECREF(read);
    return x;
}

Tracer *prim_operand(Trace *t, PyObject *o, Id *node)
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

PyObject *prim_like(Trace *t, const Tracer *x, Id node)
{
    return x->kind == TRACER_NUMPY_SCALAR ? tracer_result(t, node, LAYOUT_C) : tracer_array(t, node, tracer_kept_layout(x));
}

/* ---- new arrays ---- */

PyObject *tracer_copy(Tracer *x)
{
    Id node = tracer_node(x);
    return node ? prim_like(x->cell->trace, x, node) : NULL;
}

static PyObject *prim_copy(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Id node;
    Tracer *x = prim_arity("copy", n, 1, 2) ? prim_operand(op_begin(), args[0], &node) : NULL;
    Tracer *r = x ? (Tracer *)tracer_copy(x) : NULL;
    bool c_order = r && n == 2 && args[1] == Py_True;
    if (c_order && tracer_like(r, node_in_c_order(r->cell->trace->graph, r->node)))
        r->cell->layout = LAYOUT_C;
    else if (c_order)
        Py_CLEAR(r);
    Py_XDECREF(x);
    return (PyObject *)r;
}

static PyObject *prim_cast(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Trace *t = prim_arity("cast", n, 2, 3) ? op_begin() : NULL;
    Dtype d = t ? prim_dtype(args[1]) : DT_COUNT;
    Id node;
    Tracer *x = d == DT_COUNT ? NULL : prim_operand(t, args[0], &node);
    PyObject *r = x ? prim_like(t, x, graph_add(t->graph, n == 3 ? OP_bitcast : OP_cast, &node, 1, NULL, 0, d, NULL, 0)) : NULL;
    Py_XDECREF(x);
    return r;
}

static PyObject *prim_full(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    int64_t shape[MAX_RANK];
    Trace *t = prim_arity("full", n, 3, 3) ? op_begin() : NULL;
    int rank = t ? read_dims(t, args[0], shape) : -1;
    Dtype d = rank < 0 ? DT_COUNT : prim_dtype(args[1]);
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
    Trace *t = prim_arity("concatenate", n, 2, 2) ? op_begin() : NULL;
    PyObject *list = t ? PySequence_Fast(args[0], "concatenate() needs a sequence") : NULL;
    long axis = list ? PyLong_AsLong(args[1]) : -1;
    Py_ssize_t len = list ? PySequence_Fast_GET_SIZE(list) : 0;
    Id *in = list && !PyErr_Occurred() ? arena_alloc(t->arena, (len + 1) * sizeof *in) : NULL;
    bool ok = in != NULL;
    if (list && !in && !PyErr_Occurred())
        trace_fail(t);
    Layout layout = LAYOUT_C;    /* NumPy joins arrays in Fortran order to one in Fortran order */
    for (Py_ssize_t k = 0; ok && k < len; k++) {
        Tracer *x = prim_operand(t, PySequence_Fast_GET_ITEM(list, k), &in[k]);
        ok = x != NULL;
        if (ok && tracer_kept_layout(x) > layout)
            layout = tracer_kept_layout(x);
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
    Trace *t = prim_arity("pad", n, 4, 4) ? op_begin() : NULL;
    Tracer *x = prim_operand(t, args[0], &node);
    PyObject *r = NULL;
    if (x && prim_ints(args[2], before) == tracer_rank(x) && prim_ints(args[3], after) == tracer_rank(x)) {
        Id fill = value_for_store(t, args[1], tracer_dtype(x), NULL, 0);
        r = fill ? tracer_array(t, graph_pad(t->graph, node, fill, before, after), node_size(t->graph, node) ? tracer_layout(x) : LAYOUT_C) : NULL;
    } else if (x && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "pad() needs two margins per axis");
    Py_XDECREF(x);
    return r;
}

/* ---- computation ---- */

static uint64_t axis_mask(PyObject *axes, int rank, bool *ok)
{
    int64_t at[MAX_RANK];
    int n = prim_ints(axes, at);
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
    Trace *t = prim_arity("reduce", n, 3, 4) ? op_begin() : NULL;
    Op op = t ? prefixed_op("reduce_", args[0], KIND_REDUCE) : OP_none;
    double ddof = op && n == 4 ? PyFloat_AsDouble(args[3]) : 0;
    if (!op || PyErr_Occurred())
        return NULL;
    Id node;
    Tracer *x = prim_operand(t, args[1], &node);
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
    Trace *t = prim_arity("scan", n, 3, 3) ? op_begin() : NULL;
    Op op = t ? prefixed_op("", args[0], KIND_SCAN) : OP_none;
    long axis = op ? PyLong_AsLong(args[2]) : -1;
    if (!op || PyErr_Occurred())
        return NULL;
    Id node;
    Tracer *x = prim_operand(t, args[1], &node);
    Id out = x ? graph_scan(t->graph, op, node, (int)axis) : 0;
    PyObject *r = x && nan_check(t, out, &node, 1, false) ? tracer_array(t, out, tracer_layout(x)) : NULL;
    Py_XDECREF(x);
    return r;
}

static PyObject *prim_dot(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Trace *t = prim_arity("dot", n, 2, 2) ? op_begin() : NULL;
    Id a, b;
    Tracer *x = prim_operand(t, args[0], &a), *y = x ? prim_operand(t, args[1], &b) : NULL;
    Id out = y ? graph_dot(t->graph, a, b) : 0;
    Layout layout = LAYOUT_C;    /* the axes of a stack are in the order of the operands', the matrices in C order */
    if (out && node_at(t->graph, out)->rank > 3)
        out = node_stacked(t->graph, out, node_at(t->graph, out)->rank - 2, (Id[]){a, b}, (int[]){2, 2}, 2);
    if (y && (tracer_rank(x) > 3 || tracer_rank(y) > 3))
        layout = tracer_layout(x) > tracer_layout(y) ? tracer_layout(x) : tracer_layout(y);
    PyObject *r = y && nan_check(t, out, (Id[]){a, b}, 2, false) ? tracer_result(t, out, layout) : NULL;
    Py_XDECREF(x);
    Py_XDECREF(y);
    return r;
}

static Dtype promoted(const Operand *a, const Operand *b)
{
    Dtype da = operand_weak_dtype(a), db = operand_weak_dtype(b);
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
    Trace *t = prim_arity("where", n, 3, 3) ? op_begin() : NULL;
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
    Trace *t = prim_arity("op", n, 2, 4) ? op_begin() : NULL;
    Op op = t ? prefixed_op("", args[0], KIND_ELEMENTWISE) : OP_none;
    Tracer *x[3] = {NULL};
    Id in[3] = {0};
    Dim shape[MAX_RANK];
    Layout layout = LAYOUT_C;
    for (int k = 0; op && k < n - 1 && (k == 0 || x[k - 1]); k++)
        if ((x[k] = prim_operand(t, args[k + 1], &in[k])))
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
        {"negative_power", CHECK_NEGATIVE_POWER}, {"index", CHECK_INDEX}, {"extent", CHECK_EXTENT}, {"zero_division", CHECK_ZERO_DIVISION}, {"range", CHECK_RANGE},
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
    Trace *t = prim_arity("check", n, 2, 3) ? op_begin() : NULL;
    const char *message = t && n == 3 ? PyUnicode_AsUTF8(args[2]) : NULL;
    CheckCode code;
    Operand x;
    if (!t || (n == 3 && !message) || !check_code(args[1], &code) || !operand_read(t, args[0], &x, false))
        return NULL;
    if (x.code != DT_bool_) {
        PyErr_SetString(PyExc_TypeError, "check() needs a bool array");
        return NULL;
    }
    if (!trace_check(t->graph, operand_node(t, &x, DT_bool_), code, message))
        return PyErr_Occurred() ? NULL : trace_fail(t);
    Py_RETURN_NONE;
}

static PyObject *prim_element(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Trace *t = prim_arity("element", n, 2, 2) ? op_begin() : NULL;
    Dtype d = t ? prim_dtype(args[1]) : DT_COUNT;
    if (d == DT_COUNT || !element_check(t, args[0], d))
        return NULL;
    Py_RETURN_NONE;
}

/* ---- tracers and values ---- */

static PyObject *prim_read(PyObject *m, PyObject *o)
{
    (void)m;
    return sequence_read(o);
}

static PyObject *prim_as_tracer(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    Trace *t = prim_arity("as_tracer", n, 1, 2) ? op_begin() : NULL;
    if (!t)
        return NULL;
    if (n == 1 || args[1] == Py_None)
        return as_tracer(t, args[0]);
    Dtype d = prim_dtype(args[1]);
    Operand x;
    if (d == DT_COUNT)
        return NULL;
    if (is_number(args[0]) || (is_tracer(args[0]) && ((Tracer *)args[0])->kind == TRACER_PYTHON_SCALAR)) {
        Id id = operand_read(t, args[0], &x, false) ? operand_node(t, &x, d) : 0;
        return id || !PyErr_Occurred() ? tracer_result(t, id, LAYOUT_C) : NULL;
    }
    Id node;
    Tracer *a = prim_operand(t, args[0], &node);
    PyObject *r = !a ? NULL : tracer_dtype(a) == d ? Py_NewRef(a) : prim_like(t, a, graph_cast(t->graph, node, d));
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

static PyObject *prim_assume(PyObject *m, PyObject *const *args, Py_ssize_t n)
{
    (void)m;
    const char *message = prim_arity("assume", n, 2, 2) ? PyUnicode_AsUTF8(args[1]) : NULL;
    if (!message)
        return NULL;
    if (!is_tracer(args[0]))
        return PyBool_Check(args[0]) || PyLong_Check(args[0]) ? Py_NewRef(args[0]) : PyObject_CallMethod(args[0], "item", NULL);
    return trace_assume((Tracer *)args[0], true, message);
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

static PyObject *prim_array_header(PyObject *m, PyObject *o)
{
    (void)m;
    return array_header(o);
}

static PyObject *prim_elements_hash(PyObject *m, PyObject *o)
{
    (void)m;
    if (!PyArray_Check(o))
        return PyErr_Format(PyExc_TypeError, "elements_hash() of a %s", Py_TYPE(o)->tp_name);
    uint64_t h = array_hash((PyArrayObject *)o);
    return h ? PyLong_FromUnsignedLongLong(h) : NULL;
}

PyMethodDef prim_methods[] = {
    {"outside", core_outside, METH_VARARGS, "outside(f, *args): f(*args) as if no function were traced"},
    FAST(cast, "cast(x, dtype[, True]): astype, or (True) the same bits as another dtype of the size"),
    FAST(full, "full(shape, dtype, value): a new array"),
    FAST(concatenate, "concatenate(list, axis): arrays of one dtype joined"),
    FAST(pad, "pad(x, fill, before, after): margins per axis"),
    FAST(reduce, "reduce(op, x, axes, ddof=0.0): axes in 0 .. ndim - 1, which disappear"),
    FAST(scan, "scan(op, x, axis)"),
    FAST(dot, "dot(a, b): (..., m, k) x (..., k, n)"),
    FAST(assume, "assume(x, message): today's value of one bool or int64, which every run checks"),
    {"_extent_type", prim_extent_type, METH_O, "_extent_type(cls): the class of extents that are known only in the run"},
    {"array_header", prim_array_header, METH_O, "array_header(array): flags, dtype, shape and strides, as bytes"},
    {"elements_hash", prim_elements_hash, METH_O, "elements_hash(array): a number that another array with these elements in this order has too"},
    {"is_concrete", prim_is_concrete, METH_O, "whether the value of a tracer is known, or can be computed now"},
    {"is_extent", prim_is_extent, METH_O, "whether x is an extent that is known only in the run"},
    {"bounds", prim_bounds, METH_O, "bounds(x): integers that no element of x passes, as far as the graph shows them, or None"},
    {"freeze", prim_freeze, METH_O, "freeze(x): x, which may not be written to from here on"},
    FAST(batched, "batched((value, ...), (row, ...), (array, ...), shape): values of one row, for the arrays of rows with these axes in front; None: no rule"),
    FAST(spread, "spread(v, i, n): what is computed from x[i] alone, computed for all of x, of leading extent n; None where that is not possible"),
    FAST(aligned, "aligned((i, ...)): index arrays broadcast to one shape, in the run where extents are known only then"),
    FAST(gather, "gather(x, (i, ...)): x[i, ...] with int64 arrays in range for the leading axes"),
    FAST(scatter, "scatter(x, v, op, axes, (i, ...)): writes x[..., i, ...] = v, or op.at(x, (..., i, ...), v); axes: bit mask of those indexed; v: the index arrays' axes first"),
    FAST(index, "index(i, n): integers as int64 in 0 .. n - 1 (n >= 1), checked when the function runs"),
    FAST(where, "where(c, a, b): broadcast and promoted"),
    FAST(op, "op(name, *xs): an elementwise op of the table, on operands of the dtypes it takes"),
    FAST(check, "check(pred, code, message=None): must hold when the function runs; message: \"what is wrong; the cure\""),
    FAST(element, "element(x, dtype): checks that a number, or a list of them, is what an element of an integer dtype can be"),
    {"read", prim_read, METH_O, "read(x): x, with ranges, deques, buffers ... in it as lists and arrays"},
    FAST(as_tracer, "as_tracer(x, dtype=None): arrays are captured, numbers are constants"),
    FAST(copy, "copy(x, c_order=False): a new array, in the order of x's elements in memory or in C order"),
    {"iota", prim_iota, METH_O, "iota(n): 0 .. n - 1 of int64"},
    {"constant", prim_constant, METH_O, "constant(a): an ndarray nobody else holds as an array made in the function"},
    {"describe", prim_describe, METH_O, "describe(x): a value as messages show it: float64(3,4)"},
    {"declined", prim_declined, METH_NOARGS, "declined(): text of the last operator that an array left to its other operand, or None"},
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
