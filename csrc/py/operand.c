/* Operands: anything that can stand beside a tracer in an operation, as a node of the dtype that NumPy's promotion asks for. */
#include "py/tracer.h"
#include "py/error.h"

static uint8_t number_code(PyObject *o)
{
    return PyBool_Check(o) ? DT_bool_ : PyLong_CheckExact(o) ? CODE_INT : PyFloat_CheckExact(o) ? CODE_FLOAT : CODE_COMPLEX;
}

static bool read_tracer(Trace *t, Tracer *x, Operand *out)
{
    if (tracer_trace(x) != t)
        return false;
    if (x->kind == TRACER_PYTHON_SCALAR) {
        out->reg = x->reg;
        out->number = scalars_value(t->scalars, x->reg);
        out->code = number_code(out->number);
        /* its range decides dtypes; that of a number within int64 is not guarded: one past it is an error in the run */
        return integer_range(out->number) == RANGE_INT64 || guard_type(t->guards, x->reg, out->number);
    }
    out->node = tracer_node(x);
    out->code = node_at(t->graph, out->node)->dtype;
    out->layout = (uint8_t)tracer_layout(x);
    return out->node != 0;
}

static bool read_array(Trace *t, PyObject *o, Operand *out)
{
    int input = trace_capture(t, o);
    if (input < 0)
        return false;
    out->node = t->graph->inputs.at[input];
    out->code = t->inputs.at[input].dtype;
    out->layout = LAYOUT_INPUTS;
    return true;
}

static Id const_node(Trace *t, Dtype d, const void *cell)
{
    int64_t bits[2];
    memcpy(bits, cell, sizeof bits);
    return d == DT_complex128 ? graph_add(t->graph, OP_const, NULL, 0, bits, 2, d, NULL, 0) : graph_const(t->graph, d, bits[0]);
}

static bool read_generic(Trace *t, PyObject *o, Operand *out)
{
    PyArray_Descr *descr = PyArray_DescrFromScalar(o);
    Dtype d = descr ? dtype_from_numpy((PyObject *)descr, "operand") : DT_COUNT;
    Py_XDECREF(descr);
    if (d == DT_COUNT)
        return false;
    int64_t cell[2] = {0, 0};
    scalar_element(o, cell);
    out->code = d;
    out->node = const_node(t, d, cell);
    if (!out->node)
        trace_fail(t);
    return out->node != 0;
}

/* An enum's member or another subclass of int, float or complex: to NumPy an array of int64, float64 or complex128, not a weak number. */
static bool read_subclass(Trace *t, PyObject *o, Operand *out)
{
    Dtype d = PyLong_Check(o) ? DT_int64 : PyFloat_Check(o) ? DT_float64 : DT_complex128;
    out->code = d;
    out->node = number_node(t, o, d);
    if (!out->node && !PyErr_Occurred())
        trace_fail(t);
    return out->node != 0;
}

static bool read_sequence(Trace *t, PyObject *o, Operand *out)
{
    PyObject *x = as_tracer(t, o);
    bool ok = x && is_tracer(x) && read_tracer(t, (Tracer *)x, out);
    if (x && !is_tracer(x))
        PyErr_Format(PyExc_TypeError, "a %s with elements that are no numbers cannot be used as an array in a jitted function", Py_TYPE(o)->tp_name);
    Py_XDECREF(x);
    return ok;
}

/* An object that NumPy reads as an array (sequence.c); CODE_OTHER for any other. */
static bool read_other(Trace *t, PyObject *o, Operand *out, bool sequences)
{
    out->code = CODE_OTHER;
    PyObject *read = sequences && !PyList_Check(o) && !PyTuple_Check(o) ? sequence_read(o) : Py_NewRef(o);
    bool ok = read && (read == o || operand_read(t, read, out, true));
    Py_XDECREF(read);
    return ok;
}

bool operand_read(Trace *t, PyObject *o, Operand *out, bool sequences)
{
    *out = (Operand){.reg = -1, .layout = LAYOUT_C};
    if (is_tracer(o))
        return read_tracer(t, (Tracer *)o, out);
    if (is_number(o)) {
        out->number = o;
        out->code = number_code(o);
        return true;
    }
    if (PyArray_CheckExact(o))
        return read_array(t, o, out);
    if (is_extent(o)) {
        Tracer *x = extent_tracer(o);
        bool ok = x && read_tracer(t, x, out);
        out->code = out->code == DT_int64 ? CODE_INT : out->code == DT_float64 ? CODE_FLOAT : CODE_COMPLEX;
        Py_XDECREF(x);
        return ok;
    }
    if (PyArray_IsScalar(o, Generic))
        return read_generic(t, o, out);
    if (PyArray_Check(o)) {
        PyErr_Format(PyExc_TypeError, "an array of type %s cannot be used in a jitted function; convert it by np.asarray first", Py_TYPE(o)->tp_name);
        return false;
    }
    if (PyLong_Check(o) || PyFloat_Check(o) || PyComplex_Check(o))
        return read_subclass(t, o, out);
    if (sequences && (PyList_Check(o) || PyTuple_Check(o)))
        return read_sequence(t, o, out);
    return read_other(t, o, out, sequences);
}

Dtype operand_dtype(const Operand *x)
{
    return x->number && integer_range(x->number) == RANGE_UINT64 ? DT_uint64 : operand_weak_dtype(x);
}

Dtype operand_weak_dtype(const Operand *x)
{
    switch (x->code) {
    case CODE_INT: return DT_int64;
    case CODE_FLOAT: return DT_float64;
    case CODE_COMPLEX: return DT_complex128;
    }
    return (Dtype)x->code;
}

Id number_node(Trace *t, PyObject *number, Dtype dtype)
{
    int64_t cell[2] = {0, 0};
    if (!scalar_store(number, dtype, cell))
        return 0;
    return const_node(t, dtype, cell);
}

/* A Python integer known only in the run is checked as NumPy checks one: its value has to be one of dtype. */
static void check_range(Trace *t, Id v, Dtype dtype)
{
    Graph *g = t->graph;
    const DtypeInfo *info = &dtype_info[dtype];
    if ((info->kind != DKIND_INT && info->kind != DKIND_UINT) || dtype == DT_int64)
        return;
    Id back = info->bytes == 8 ? 0 : graph_cast(g, graph_cast(g, v, dtype), DT_int64);
    trace_check(g, back ? graph_binary(g, OP_equal, back, v) : graph_binary(g, OP_less_equal, graph_const(g, DT_int64, 0), v), CHECK_RANGE, NULL);
}

Id operand_node(Trace *t, const Operand *x, Dtype dtype)
{
    if (x->node && x->code == CODE_INT)
        check_range(t, x->node, dtype);
    if (x->node)
        return node_at(t->graph, x->node)->dtype == dtype ? x->node : graph_cast(t->graph, x->node, dtype);
    if (x->reg >= 0)
        return trace_register(t, x->reg, dtype);
    return number_node(t, x->number, dtype);
}

Id broadcast_to(Graph *g, Id a, const int64_t *shape, int rank)
{
    if (a && node_at(g, a)->rank == rank && (!rank || !memcmp(node_shape(g, a), shape, rank * sizeof *shape)))
        return a;
    return graph_broadcast(g, a, shape, rank);
}

/* ---- values to be stored ---- */

static void shape_text(char *out, size_t size, const int64_t *shape, int rank)
{
    size_t n = (size_t)snprintf(out, size, "(");
    for (int k = 0; k < rank && n < size; k++)
        n += (size_t)snprintf(out + n, size - n, "%s%lld%s", k ? "," : "", (long long)shape[k], rank == 1 ? "," : "");
    if (n < size)
        snprintf(out + n, size - n, ")");
}

static Id no_broadcast(Trace *t, Id v, const int64_t *shape, int rank)
{
    char from[200], to[200];
    shape_text(from, sizeof from, node_shape(t->graph, v), node_at(t->graph, v)->rank);
    shape_text(to, sizeof to, shape, rank);
    err_set(&t->err, ERR_VALUE, "could not broadcast input array from shape %s into shape %s", from, to);
    t->err.src = t->graph->src;
    return 0;
}

/* NumPy drops leading axes of extent 1 of what is assigned; where an extent is known only in the run, the run checks it. */
static Id fit(Trace *t, Id v, const int64_t *shape, int rank)
{
    Graph *g = t->graph;
    const Node *n = node_at(g, v);
    const int64_t *have = node_shape(g, v);
    int extra = 0;
    Dim whole[MAX_RANK];
    memcpy(whole, have, n->rank * sizeof *whole);
    for (; n->rank - extra > rank && (have[extra] == 1 || have[extra] < 0); extra++)
        whole[extra] = 1;
    int left = n->rank - extra;
    if (left > rank)
        return no_broadcast(t, v, shape, rank);
    Id single = extra ? broadcast_into(g, v, whole, left + extra) : v, cut = extra ? graph_reshape(g, single, whole + extra, left) : v;
    if (cut && !broadcast_fits(g, cut, shape, rank))
        return no_broadcast(t, v, shape, rank);
    return broadcast_into(g, cut, shape, rank);
}

Id value_for_store(Trace *t, PyObject *value, Dtype dtype, const int64_t *shape, int rank)
{
    Operand x;
    if (!operand_read(t, value, &x, true))
        return 0;
    if (x.code == CODE_OTHER) {
        PyErr_Format(PyExc_TypeError, "a value of type %s cannot be stored into an array", Py_TYPE(value)->tp_name);
        return 0;
    }
    /* a traced float into an integer array: converted in the graph, as NumPy converts it from its own dtype */
    bool narrow = x.reg >= 0 && x.code != DT_bool_ && dtype_info[dtype].kind <= DKIND_UINT && (x.code != CODE_INT || dtype == DT_bool_);
    Id v = narrow ? graph_cast(t->graph, operand_node(t, &x, operand_dtype(&x)), dtype) : operand_node(t, &x, dtype);
    v = v ? fit(t, v, shape, rank) : 0;
    if (!v && !PyErr_Occurred())
        trace_fail(t);
    return v;
}
