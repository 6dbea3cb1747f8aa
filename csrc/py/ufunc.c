/* Ufuncs on tracers: operands read, the loop that NumPy would run, the op. */
#include "py/promote.h"
#include "py/error.h"

typedef enum { RULE_OP, RULE_LOGICAL, RULE_COMPARE, RULE_ROUND, RULE_TEST, RULE_SAME, RULE_POWER, RULE_DIVMOD, RULE_MODF } Rule;
typedef struct { const char *name; uint8_t nin, nout, rule; uint16_t op; } Row;
static const Row rows[UF_COUNT] = {
#define UFUNC(name, nin, rule, op) {#name, nin, RULE_##rule == RULE_DIVMOD || RULE_##rule == RULE_MODF ? 2 : 1, RULE_##rule, OP_##op},
#include "py/ufuncs.def"
#undef UFUNC
};
static PyObject *objects[UF_COUNT];       /* NumPy's ufuncs */
static PyObject *numbers;                 /* dict: ufunc -> its number */

bool ufunc_init(PyObject *module)
{
    PyObject *np = PyImport_ImportModule("numpy");
    numbers = PyDict_New();
    bool ok = np && numbers;
    for (int u = 0; ok && u < UF_COUNT; u++) {
        objects[u] = PyObject_GetAttrString(np, rows[u].name);
        PyObject *n = PyLong_FromLong(u);
        ok = objects[u] && n && PyDict_SetItem(numbers, objects[u], n) == 0;
        Py_XDECREF(n);
    }
    Py_XDECREF(np);
    return ok && PyModule_AddObjectRef(module, "_ufuncs", numbers) == 0;
}

/* ---- comparisons between integers of different range ---- */

static Op swapped(Op op) { return op == OP_greater ? OP_less : op == OP_greater_equal ? OP_less_equal : op; }

/* Signed against unsigned 64-bit integers, exactly. */
static Id compare_mixed(Graph *g, Op op, Id a, Id b)
{
    bool signed_first = node_at(g, a)->dtype == DT_int64;
    Id s = signed_first ? a : b, zero = graph_const(g, DT_int64, 0);
    Id u = graph_cast(g, s, DT_uint64), value = signed_first ? graph_binary(g, op, u, b) : graph_binary(g, op, a, u);
    zero = broadcast_to(g, zero, node_shape(g, s), node_at(g, s)->rank);
    Id negative = graph_binary(g, OP_less, s, zero);
    bool holds_if_negative = op == OP_not_equal || (op != OP_equal && signed_first);
    if (holds_if_negative)
        return graph_binary(g, OP_logical_or, negative, value);
    return graph_binary(g, OP_logical_and, graph_unary(g, OP_logical_not, negative), value);
}

static Id compare(Graph *g, Op op, Id a, Id b)
{
    if (!a || !b)
        return 0;
    if (op != swapped(op)) {
        Id c = a;
        a = b;
        b = c;
        op = swapped(op);
    }
    return node_at(g, a)->dtype != node_at(g, b)->dtype ? compare_mixed(g, op, a, b) : graph_binary(g, op, a, b);
}

static bool is_integer(uint8_t code)
{
    return code < DT_COUNT && (dtype_info[code].kind == DKIND_INT || dtype_info[code].kind == DKIND_UINT);
}

/* -1, 0, 1: the Python integer is below, in, above the range of the dtype. */
static int beyond(PyObject *number, Dtype d)
{
    int64_t cell[2];
    if (scalar_store(number, d, cell))
        return 0;
    error_drop();
    PyObject *zero = PyLong_FromLong(0);
    int negative = zero ? PyObject_RichCompareBool(number, zero, Py_LT) : 0;
    Py_XDECREF(zero);
    return negative > 0 ? -1 : 1;
}

/* An integer array against a Python integer that its dtype does not hold: true or false everywhere. */
static Id compare_beyond(Trace *t, Op op, const Operand *array, bool number_first, int side)
{
    bool less = number_first ? side < 0 : side > 0;    /* first operand < second operand */
    bool holds = op == OP_not_equal || ((op == OP_less || op == OP_less_equal) && less) || ((op == OP_greater || op == OP_greater_equal) && !less);
    const Node *n = node_at(t->graph, array->node);
    return graph_broadcast(t->graph, graph_const(t->graph, DT_bool_, holds), node_shape(t->graph, array->node), n->rank);
}

/* A narrow integer array against an integer of the run: compared in the array's own dtype with the nearest number that this holds. Where that is another
 * number, all elements have one answer, which the comparison gives (x <= highest) or an alternative does (x < highest, or more than that is asked). */
static Id compare_clipped(Graph *g, Op op, Id x, Id s, bool number_first)
{
    Dtype d = (Dtype)node_at(g, x)->dtype;
    int bits = 8 * dtype_info[d].bytes;
    bool is_signed = dtype_info[d].kind == DKIND_INT, equality = op == OP_equal || op == OP_not_equal, strict = op == OP_less || op == OP_greater;
    bool below = (op == OP_less || op == OP_less_equal) != number_first;     /* it asks whether the array is below the number */
    Id low = graph_const(g, DT_int64, is_signed ? -(INT64_C(1) << (bits - 1)) : 0);
    Id high = graph_const(g, DT_int64, (INT64_C(1) << (bits - is_signed)) - 1);
    Id nearest = graph_binary(g, OP_minimum, graph_binary(g, OP_maximum, s, low), high), any;
    if (equality)
        any = graph_binary(g, op, s, nearest);
    else if (below)
        any = strict ? graph_binary(g, OP_less, high, s) : graph_binary(g, OP_less_equal, low, s);
    else
        any = strict ? graph_binary(g, OP_less, s, low) : graph_binary(g, OP_less_equal, s, high);
    const Dim *shape = node_shape(g, x);
    int rank = node_at(g, x)->rank;
    Id with = broadcast_to(g, graph_cast(g, nearest, d), shape, rank);
    Id value = number_first ? compare(g, op, with, x) : compare(g, op, x, with);
    bool or = op == OP_not_equal || (!equality && strict);
    return graph_binary(g, or ? OP_logical_or : OP_logical_and, broadcast_to(g, any, shape, rank), value);
}

/* Comparisons with Python integers, whose value counts; 0: an ordinary comparison, or an exception. */
static Id compare_number(Trace *t, Op op, const Operand *x, Loop *loop)
{
    int n = x[0].code == CODE_INT ? 0 : 1;
    const Operand *number = &x[n], *array = &x[1 - n];
    if (number->code != CODE_INT || !is_integer(array->code) || !array->node)
        return 0;
    bool wide = number->number && integer_range(number->number) != RANGE_INT64;     /* and stays so: guarded */
    bool in_run = (number->reg >= 0 && !wide) || number->node;
    if (in_run && dtype_info[array->code].bytes < 8) {
        Id s = operand_node(t, number, DT_int64);
        return s ? compare_clipped(t->graph, op, array->node, s, n == 0) : 0;
    }
    if (in_run) {
        loop->dtype[n] = DT_int64;
        loop->dtype[1 - n] = array->code == DT_uint64 ? DT_uint64 : DT_int64;
        return 0;
    }
    int side = beyond(number->number, (Dtype)array->code);
    return side ? compare_beyond(t, op, array, n == 0, side) : 0;
}

/* ---- other rules ---- */

static Id zero_like(Graph *g, Id a)
{
    return a ? broadcast_to(g, graph_const(g, (Dtype)node_at(g, a)->dtype, 0), node_shape(g, a), node_at(g, a)->rank) : 0;
}

static Id truth(Graph *g, Id a)
{
    return a && node_at(g, a)->dtype != DT_bool_ ? graph_binary(g, OP_not_equal, a, zero_like(g, a)) : a;
}

static bool is_float(Dtype d) { return dtype_info[d].kind == DKIND_FLOAT || dtype_info[d].kind == DKIND_COMPLEX; }

static Id test(Graph *g, Op op, Id a)
{
    if (!a || is_float((Dtype)node_at(g, a)->dtype))
        return graph_unary(g, op, a);
    return graph_broadcast(g, graph_const(g, DT_bool_, op == OP_isfinite), node_shape(g, a), node_at(g, a)->rank);
}

/* Integers to negative powers are an error: at once for a constant, else when the function runs. */
static Id power(Trace *t, Id a, Id b)
{
    Graph *g = t->graph;
    Id r = graph_binary(g, OP_power, a, b);
    if (!r || dtype_info[node_at(g, b)->dtype].kind != DKIND_INT)
        return r;
    Id ok = graph_binary(g, OP_less_equal, zero_like(g, b), b);
    int64_t bits;
    if (ok && node_const(g, ok, &bits) && bits & 1)
        return r;
    if (ok && node_const(g, ok, &bits) && node_size(g, r) > 0) {
        err_set(&t->err, ERR_VALUE, "Integers to negative integer powers are not allowed.");
        t->err.src = g->src;
        return 0;
    }
    return trace_check(g, ok, CHECK_NEGATIVE_POWER, NULL) ? r : 0;
}

static Id fraction(Graph *g, Id x, Id whole)
{
    Id rest = graph_where(g, graph_unary(g, OP_isinf, x), zero_like(g, x), graph_binary(g, OP_subtract, x, whole));
    return graph_binary(g, OP_copysign, rest, x);
}

static void build(Trace *t, const Row *r, const Id *in, Id *out)
{
    Graph *g = t->graph;
    switch ((Rule)r->rule) {
    case RULE_OP:
    case RULE_LOGICAL: out[0] = r->nin == 1 ? graph_unary(g, r->op, in[0]) : graph_binary(g, r->op, in[0], in[1]); break;
    case RULE_COMPARE: out[0] = compare(g, r->op, in[0], in[1]); break;
    case RULE_ROUND: out[0] = in[0] && is_float((Dtype)node_at(g, in[0])->dtype) ? graph_unary(g, r->op, in[0]) : in[0]; break;
    case RULE_TEST: out[0] = test(g, r->op, in[0]); break;
    case RULE_SAME: out[0] = in[0]; break;
    case RULE_POWER: out[0] = power(t, in[0], in[1]); break;
    case RULE_DIVMOD:
        out[0] = graph_binary(g, OP_floor_divide, in[0], in[1]);
        out[1] = graph_binary(g, OP_remainder, in[0], in[1]);
        break;
    case RULE_MODF:
        out[1] = graph_unary(g, OP_trunc, in[0]);
        out[0] = out[1] ? fraction(g, in[0], out[1]) : 0;
        break;
    }
}

static bool broadcast_pair(Graph *g, Id *in)
{
    if (!in[0] || !in[1])
        return false;
    const Node *a = node_at(g, in[0]), *b = node_at(g, in[1]);
    if (a->rank == b->rank && !memcmp(node_shape(g, in[0]), node_shape(g, in[1]), a->rank * sizeof(Dim)))
        return true;
    Dim shape[MAX_RANK];
    return broadcast_together(g, in, 2, shape, CHECK_EXTENT) >= 0;
}

static bool find_loop(Ufunc u, const uint8_t *codes, Loop *loop) { return loop_find(objects[u], u, rows[u].nin, rows[u].nout, codes, loop); }

/* The results' nodes in the loop's dtypes; false with an exception. */
static bool apply(Trace *t, const Row *r, const Operand *x, Loop loop, Id *out)
{
    Graph *g = t->graph;
    Id in[2] = {0, 0};
    out[0] = r->rule == RULE_COMPARE ? compare_number(t, r->op, x, &loop) : 0;
    if (out[0])
        return true;
    for (int k = 0; k < r->nin; k++) {
        in[k] = operand_node(t, &x[k], r->rule == RULE_LOGICAL ? operand_dtype(&x[k]) : (Dtype)loop.dtype[k]);
        if (r->rule == RULE_LOGICAL)
            in[k] = truth(g, in[k]);
    }
    if (!PyErr_Occurred() && (r->nin == 1 || broadcast_pair(g, in)))
        build(t, r, in, out);
    for (int k = 0; k < r->nout; k++) {
        if (out[k] && node_at(g, out[k])->dtype != loop.dtype[r->nin + k])
            out[k] = graph_cast(g, out[k], (Dtype)loop.dtype[r->nin + k]);
        if (!out[k]) {
            if (!PyErr_Occurred())
                trace_fail(t);
            return false;
        }
        if (!nan_check(t, out[k], in, r->nin, true))
            return false;
    }
    return true;
}

static Layout joined_layout(const Operand *x, int n)
{
    return (Layout)(n == 2 && x[1].layout > x[0].layout ? x[1].layout : x[0].layout);
}

/* ---- operators ---- */

static PyObject *unary(Trace *t, Ufunc u, PyObject *a)
{
    Operand x;
    Loop loop;
    Id out[2] = {0, 0};
    if (!operand_read(t, a, &x, true))
        return NULL;
    uint8_t codes[2] = {x.code, CODE_OTHER};
    if (!find_loop(u, codes, &loop) || !apply(t, &rows[u], &x, loop, out))
        return NULL;
    return tracer_result(t, out[0], x.layout);
}

PyObject *ufunc_unary(Ufunc u, PyObject *a)
{
    Trace *t = op_begin();
    Operation o;
    if (!t)
        return NULL;
    operation_begin(&o, rows[u].name, NULL, &a, 1);
    return operation_end(&o, unary(t, u, a));
}

static bool array_tracer(PyObject *o) { return is_tracer(o) && ((Tracer *)o)->kind != TRACER_PYTHON_SCALAR; }

static PyObject *pair(PyObject *a, PyObject *b)
{
    PyObject *both = a && b ? PyTuple_Pack(2, a, b) : NULL;
    Py_XDECREF(a);
    Py_XDECREF(b);
    return both;
}

static PyObject *results(Trace *t, const Row *r, const Id *out, Layout layout)
{
    PyObject *first = tracer_result(t, out[0], layout);
    return r->nout == 1 || !first ? first : pair(first, tracer_result(t, out[1], layout));
}

static PyObject *binary(Trace *t, Ufunc u, PyObject *a, PyObject *b)
{
    Operand x[2];
    Loop loop;
    Id out[2] = {0, 0};
    bool sequences = array_tracer(a) || array_tracer(b);
    if (!operand_read(t, a, &x[0], sequences) || !operand_read(t, b, &x[1], sequences))
        return NULL;
    if (x[0].code == CODE_OTHER || x[1].code == CODE_OTHER)
        Py_RETURN_NOTIMPLEMENTED;
    uint8_t codes[4] = {x[0].code, x[1].code, CODE_OTHER, CODE_OTHER};
    if (!find_loop(u, codes, &loop) || !apply(t, &rows[u], x, loop, out))
        return NULL;
    return results(t, &rows[u], out, joined_layout(x, 2));
}

PyObject *ufunc_binary(Ufunc u, PyObject *a, PyObject *b)
{
    Trace *t = op_begin();
    Operation o;
    if (!t)
        return NULL;
    operation_begin(&o, rows[u].name, NULL, (PyObject *[]){a, b}, 2);
    PyObject *r = operation_end(&o, binary(t, u, a, b));
    if (r == Py_NotImplemented)
        operation_declined(&o);
    return r;
}

/* ---- results that are written into an array ---- */

static bool output_mismatch(Trace *t, const Tracer *to, Id value)
{
    Text a = {0};
    shape_print(&a, t->graph, tracer_shape(to), tracer_rank(to));
    text_put(&a, " doesn't match the broadcast shape ");
    shape_print(&a, t->graph, node_shape(t->graph, value), node_at(t->graph, value)->rank);
    err_set(&t->err, ERR_VALUE, "non-broadcastable output operand with shape %s", a.at ? a.at : "");
    text_free(&a);
    t->err.src = t->graph->src;
    trace_fail(t);
    return false;
}

/* Stores a result into `to` where mask (0: everywhere) holds. */
static bool store_result(Trace *t, Tracer *to, Id value, Id mask)
{
    Graph *g = t->graph;
    Dtype d = tracer_dtype(to);
    int rank = tracer_rank(to);
    const int64_t *shape = tracer_shape(to);
    if (!broadcast_fits(g, value, shape, rank))
        return output_mismatch(t, to, value);
    value = broadcast_into(g, node_at(g, value)->dtype == d ? value : graph_cast(g, value, d), shape, rank);
    if (mask)
        value = graph_where(g, broadcast_into(g, mask, shape, rank), value, tracer_node(to));
    if (!value && !PyErr_Occurred())
        trace_fail(t);
    return value && tracer_store(to, value);
}

static PyObject *inplace(Trace *t, Ufunc u, Tracer *x, PyObject *b)
{
    Operand in[2];
    Loop loop;
    Id out[2] = {0, 0};
    if (!operand_read(t, (PyObject *)x, &in[0], true) || !operand_read(t, b, &in[1], true))
        return NULL;
    if (in[1].code == CODE_OTHER)
        Py_RETURN_NOTIMPLEMENTED;
    uint8_t codes[4] = {in[0].code, in[1].code, in[0].code, CODE_OTHER};
    return find_loop(u, codes, &loop) && apply(t, &rows[u], in, loop, out) && store_result(t, x, out[0], 0) ? Py_NewRef(x) : NULL;
}

PyObject *ufunc_inplace(Ufunc u, Tracer *x, PyObject *b)
{
    Trace *t = op_begin();
    Operation o;
    if (!t)
        return NULL;
    operation_begin(&o, rows[u].name, NULL, (PyObject *[]){(PyObject *)x, b}, 2);
    return operation_end(&o, inplace(t, u, x, b));
}

/* ---- np.<ufunc>(...) ---- */

typedef struct { PyObject *out, *where, *dtype, *casting, *signature, *order; } Options;

static bool unsupported(Trace *t, const char *what, const char *cure)
{
    err_set(&t->err, ERR_UNSUPPORTED, "%s is not supported in a jitted function; %s", what, cure);
    t->err.src = t->graph->src;
    trace_fail(t);
    return false;
}

static bool valid_option(const char *name, PyObject *value)
{
    if (*name == 's') {
        bool traced = is_tracer(value) && ((Tracer *)value)->kind == TRACER_PYTHON_SCALAR;
        PyObject *today = traced ? scalar_concrete((Tracer *)value) : Py_NewRef(value);
        bool ok = today && PyBool_Check(today);
        Py_XDECREF(today);
        if (!ok && !PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "'subok' must be a boolean");
        return ok;
    }
    NPY_ORDER order;
    return PyArray_OrderConverter(value, &order) != NPY_FAIL;
}

static bool read_option(Trace *t, const char *ufunc, PyObject *name, PyObject *value, Options *o)
{
    const char *s = PyUnicode_AsUTF8(name);
    if (!s)
        return false;
    if (!strcmp(s, "out"))
        o->out = value;
    else if (!strcmp(s, "where"))
        o->where = value == Py_True ? NULL : value;
    else if (!strcmp(s, "dtype"))
        o->dtype = value == Py_None ? NULL : value;
    else if (!strcmp(s, "casting"))
        o->casting = value;
    else if (!strcmp(s, "signature") || !strcmp(s, "sig"))
        o->signature = value;
    else if (!strcmp(s, "order") || !strcmp(s, "subok")) {
        o->order = *s == 'o' && value != Py_None ? value : o->order;
        return valid_option(s, value);
    }
    else {
        char what[128];
        snprintf(what, sizeof what, "np.%s(..., %s=...)", ufunc, s);
        return unsupported(t, what, "leave it out or cast the operands");
    }
    return true;
}

static PyObject *resolve_kwargs(const Row *r, const Options *o)
{
    PyObject *kw = PyDict_New();
    if (kw && o->casting && PyDict_SetItemString(kw, "casting", o->casting) < 0)
        Py_CLEAR(kw);
    if (kw && o->signature && PyDict_SetItemString(kw, "signature", o->signature) < 0)
        Py_CLEAR(kw);
    if (kw && o->dtype && o->signature) {
        PyErr_SetString(PyExc_TypeError, "cannot specify both 'signature' and 'dtype'");
        Py_CLEAR(kw);
    }
    if (kw && o->dtype) {
        PyArray_Descr *d = NULL;
        PyObject *sig = PyArray_DescrConverter(o->dtype, &d) ? PyTuple_New(r->nin + r->nout) : NULL;
        for (int k = 0; sig && k < r->nin + r->nout; k++)
            PyTuple_SET_ITEM(sig, k, Py_NewRef(k < r->nin ? Py_None : (PyObject *)d));
        if (!sig || PyDict_SetItemString(kw, "signature", sig) < 0)
            Py_CLEAR(kw);
        Py_XDECREF(sig);
        Py_XDECREF(d);
    }
    return kw;
}

/* The output tracer number k, NULL without an exception: none was given. */
static Tracer *output(Trace *t, const Options *o, int k)
{
    PyObject *out = !o->out ? NULL : PyTuple_Check(o->out) ? (k < PyTuple_GET_SIZE(o->out) ? PyTuple_GET_ITEM(o->out, k) : NULL) : o->out;
    if (!out || out == Py_None)
        return NULL;
    if (!is_tracer(out)) {
        bool here = PyArray_Check(out) && adopt_made_here(t, (PyArrayObject *)out);
        err_set(&t->err, ERR_LIMIT, "%s", here ? OF_NUMPY : "a store into a captured array (out= of a ufunc, or an in-place operator): pass the array "
                "as an argument, then it is written back");
        t->err.src = t->graph->src;
        trace_fail(t);
        return NULL;
    }
    return tracer_trace((Tracer *)out) == t && tracer_writable((Tracer *)out) ? (Tracer *)out : NULL;
}

static bool read_mask(Trace *t, const Options *o, Tracer *const *to, int nout, Id *mask)
{
    Operand m;
    *mask = 0;
    if (!o->where)
        return true;
    for (int k = 0; k < nout; k++)
        if (!to[k])
            return unsupported(t, "where= of a ufunc without out=", "the other elements would be undefined; use np.where(condition, a, b)");
    if (!operand_read(t, o->where, &m, true))
        return false;
    bool listed = PyList_Check(o->where) || PyTuple_Check(o->where);      /* read as bools */
    if (m.code != DT_bool_ && !listed) {
        PyErr_SetString(PyExc_TypeError, "Cannot cast array data of where= to dtype('bool') according to the rule 'safe'");
        return false;
    }
    *mask = m.code == DT_bool_ ? operand_node(t, &m, DT_bool_) : graph_cast(t->graph, operand_node(t, &m, operand_dtype(&m)), DT_bool_);
    return *mask != 0;
}

/* x in the memory order that was asked for: pyxla/_np/manip.py. */
static PyObject *in_order(PyObject *x, PyObject *order)
{
    PyObject *f = x && order ? core_item(core_functions, "in_order") : NULL;
    if (!f && x && PyErr_Occurred())
        Py_CLEAR(x);
    if (!f)
        return x;
    PyObject *r = PyObject_CallFunctionObjArgs(f, x, order, NULL);
    Py_DECREF(x);
    return r;
}

static PyObject *deliver(Trace *t, Id value, Tracer *to, Id mask, Layout layout, PyObject *order)
{
    if (!to)
        return in_order(tracer_result(t, value, layout), order);
    return store_result(t, to, value, mask) ? Py_NewRef(to) : NULL;
}

static bool resolve(const Row *r, int u, const Operand *x, Tracer *const *to, const Options *o, Loop *loop)
{
    uint8_t codes[4];
    for (int k = 0; k < r->nin; k++)
        codes[k] = x[k].code;
    for (int k = 0; k < r->nout; k++)
        codes[r->nin + k] = to[k] ? (uint8_t)tracer_dtype(to[k]) : CODE_OTHER;
    if (!o->dtype && !o->casting && !o->signature)
        return find_loop((Ufunc)u, codes, loop);
    PyObject *kw = resolve_kwargs(r, o);
    bool ok = kw && loop_resolve(objects[u], r->nin, r->nout, codes, kw, loop);
    Py_XDECREF(kw);
    return ok;
}

static PyObject *call(Trace *t, int u, PyObject *const *in, const Options *o)
{
    const Row *r = &rows[u];
    Operand x[2];
    Tracer *to[2] = {NULL, NULL};
    Loop loop;
    Id out[2] = {0, 0}, mask;
    for (int k = 0; k < r->nin; k++) {
        if (!operand_read(t, in[k], &x[k], true))
            return NULL;
        if (x[k].code == CODE_OTHER)
            Py_RETURN_NOTIMPLEMENTED;
    }
    for (int k = 0; k < r->nout; k++)
        if (!(to[k] = output(t, o, k)) && PyErr_Occurred())
            return NULL;
    if (!read_mask(t, o, to, r->nout, &mask) || !resolve(r, u, x, to, o, &loop) || !apply(t, r, x, loop, out))
        return NULL;
    Layout layout = joined_layout(x, r->nin);
    PyObject *first = deliver(t, out[0], to[0], mask, layout, o->order);
    return r->nout == 1 || !first ? first : pair(first, deliver(t, out[1], to[1], mask, layout, o->order));
}

PyObject *other_function(PyObject *function)
{
    PyObject *refuse = core_item(core_functions, "refused"), *f = refuse ? PyObject_CallOneArg(refuse, function) : NULL;
    if (!f && !PyErr_Occurred())
        PyErr_SetString(error_class(ERR_INTERNAL), "a NumPy function is neither implemented nor refused");
    return f;
}

/* Calls the Python function registered under key with (ufunc if `method`, inputs, keywords). NULL without an exception: there is none. */
static PyObject *call_registered(PyObject *key, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *f = PyDict_GetItemWithError(core_functions, key);
    return f ? PyObject_Vectorcall(f, args, (size_t)nargs, kwnames) : NULL;
}

#define MOST_ARGUMENTS 16
/* Arguments as functions take them (sequence.c), after a borrowed first one; false with an exception. */
static bool read_arguments(PyObject **copy, PyObject *first, PyObject *const *args, Py_ssize_t n)
{
    copy[0] = first;
    for (Py_ssize_t k = 0; k < n; k++) {
        copy[k + 1] = sequence_read(args[k]);
        if (copy[k + 1])
            continue;
        while (k)
            Py_DECREF(copy[k--]);
        return false;
    }
    return true;
}

static void release_arguments(PyObject **copy, Py_ssize_t n)
{
    for (Py_ssize_t k = 1; k <= n; k++)
        Py_DECREF(copy[k]);
}

static PyObject *call_method(Trace *t, PyObject *method, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *key = PyUnicode_FromFormat("ufunc.%U", method), *copy[MOST_ARGUMENTS];
    PyObject *r = NULL;
    Py_ssize_t n = nargs - 2 + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);       /* args[0] is the ufunc, args[1] the method's name */
    if (key && n < MOST_ARGUMENTS && read_arguments(copy, args[0], args + 2, n)) {
        r = call_registered(key, copy, nargs - 1, kwnames);
        release_arguments(copy, n);
    }
    Py_XDECREF(key);
    if (!r && !PyErr_Occurred()) {
        char what[64];
        snprintf(what, sizeof what, "the method %s of a ufunc", PyUnicode_AsUTF8(method));
        unsupported(t, what, "write it with array functions");
    }
    return r;
}

/* A ufunc without an op: the function registered for it, else the one for all others ("ufunc"), else the error of the table of refusals. */
static PyObject *call_without_op(PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *copy[MOST_ARGUMENTS], *r = NULL;
    Py_ssize_t n = nargs - 2 + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    if (n < MOST_ARGUMENTS && read_arguments(copy, args[0], args + 2, n)) {
        r = call_registered(args[0], copy + 1, nargs - 2, kwnames);
        PyObject *key = !r && !PyErr_Occurred() ? PyUnicode_FromString("ufunc") : NULL;
        r = key ? call_registered(key, copy, nargs - 1, kwnames) : r;
        Py_XDECREF(key);
        release_arguments(copy, n);
    }
    if (!r && !PyErr_Occurred())
        Py_XDECREF(other_function(args[0]));
    return r;
}

static PyObject *array_ufunc(Trace *t, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (PyUnicode_CompareWithASCIIString(args[1], "__call__"))
        return call_method(t, args[1], args, nargs, kwnames);
    PyObject *number = PyDict_GetItemWithError(numbers, args[0]);
    PyObject *name = PyObject_GetAttrString(args[0], "__name__"), *r = NULL;
    const char *s = name ? PyUnicode_AsUTF8(name) : NULL;
    if (!s || PyErr_Occurred())
        goto done;
    if (!number) {
        r = call_without_op(args, nargs, kwnames);
        goto done;
    }
    Options o = {0};
    long u = PyLong_AsLong(number);
    bool ok = nargs - 2 == rows[u].nin;
    if (!ok)
        PyErr_Format(PyExc_TypeError, "%s() takes %d operands", s, rows[u].nin);
    for (Py_ssize_t k = 0; ok && kwnames && k < PyTuple_GET_SIZE(kwnames); k++)
        ok = read_option(t, s, PyTuple_GET_ITEM(kwnames, k), args[nargs + k], &o);
    if (ok)
        r = call(t, (int)u, args + 2, &o);
done:
    Py_XDECREF(name);
    return r;
}

PyObject *tracer_array_ufunc(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)self;
    Trace *t = op_begin();
    Operation o;
    if (!t)
        return NULL;
    if (nargs < 3 || !PyUnicode_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "__array_ufunc__(ufunc, method, *inputs, **kwargs)");
        return NULL;
    }
    bool call = !PyUnicode_CompareWithASCIIString(args[1], "__call__");
    operation_begin(&o, call ? NULL : PyUnicode_AsUTF8(args[1]), args[0], args + 2, nargs - 2);
    return operation_end(&o, array_ufunc(t, args, nargs, kwnames));
}
