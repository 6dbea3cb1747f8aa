/* The operation that the user asked for, with its operands, for messages: " in add(float64(3,4), 2)".
 *
 * What C carries out itself stands in Operations on the stack; what Python functions of ours or of NumPy's do is read off their frames by
 * pyxla/_errors.py. A check of the run has the text from its source, so that a failed one costs nothing before. */
#include "py/tracer.h"
#include "py/error.h"
#include "py/state.h"

enum { MOST_ITEMS = 4, MOST_DEPTH = 4 };

static void describe_array(Text *out, PyArrayObject *a)
{
    PyObject *name = PyObject_Str((PyObject *)PyArray_DESCR(a));
    const char *s = name ? PyUnicode_AsUTF8(name) : NULL;
    text_put(out, "%s(", s ? s : "array");
    Py_XDECREF(name);
    for (int k = 0; k < PyArray_NDIM(a); k++)
        text_put(out, "%s%lld", k ? "," : "", (long long)PyArray_DIM(a, k));
    text_put(out, "%s", PyArray_NDIM(a) == 1 ? ",)" : ")");
}

/* Those known only in the run are a question mark. */
static void describe_extent(Text *out, Dim n)
{
    if (n >= 0)
        text_put(out, "%lld", (long long)n);
    else
        text_put(out, "?");
}

static void describe_tracer(Text *out, Tracer *x)
{
    Trace *t = x->cell->trace;
    if (!t)
        text_put(out, "a tracer of an ended trace");
    else if (x->kind == TRACER_PYTHON_SCALAR)
        text_put(out, "a Python %s", Py_TYPE(scalars_value(t->scalars, x->reg))->tp_name);
    else {
        text_put(out, "%s(", dtype_info[tracer_dtype(x)].name);
        for (int k = 0; k < tracer_rank(x); k++) {
            text_put(out, "%s", k ? "," : "");
            describe_extent(out, tracer_shape(x)[k]);
        }
        text_put(out, "%s", tracer_rank(x) == 1 ? ",)" : ")");
    }
}

static void describe_type(Text *out, PyObject *o)
{
    const char *name = Py_TYPE(o)->tp_name, *dot = strrchr(name, '.');
    text_put(out, "%s%s", dot ? dot + 1 : name, PyArray_IsScalar(o, Generic) ? "()" : "");
}

static void describe_slice(Text *out, const PySliceObject *s, int depth)
{
    PyObject *part[3] = {s->start, s->stop, s->step};
    for (int k = 0; k < (s->step == Py_None ? 2 : 3); k++) {
        text_put(out, "%s", k ? ":" : "");
        if (part[k] != Py_None)
            describe_object(out, part[k], depth + 1);
    }
}

static void describe_items(Text *out, PyObject *o, int depth)
{
    bool list = PyList_Check(o);
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    text_put(out, "%s", list ? "[" : "(");
    for (Py_ssize_t k = 0; k < n && k < MOST_ITEMS; k++) {
        text_put(out, "%s", k ? ", " : "");
        describe_object(out, PySequence_Fast_GET_ITEM(o, k), depth + 1);
    }
    text_put(out, "%s%s", n > MOST_ITEMS ? ", ..." : n == 1 && !list ? "," : "", list ? "]" : ")");
}

/* Whether repr() of it is short and runs no code of the user's. */
static bool is_plain(PyObject *o)
{
    return o == Py_None || o == Py_Ellipsis || PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyComplex_CheckExact(o)
           || PyUnicode_CheckExact(o) || PyArray_DescrCheck(o);
}

static void describe_plain(Text *out, PyObject *o)
{
    PyObject *r = PyObject_Repr(o);
    const char *s = r ? PyUnicode_AsUTF8(r) : NULL;
    text_put(out, "%.40s", s ? s : "...");
    Py_XDECREF(r);
    error_later();
}

void describe_object(Text *out, PyObject *o, int depth)
{
    if (is_tracer(o))
        describe_tracer(out, (Tracer *)o);
    else if (PyArray_Check(o))
        describe_array(out, (PyArrayObject *)o);
    else if ((PyTuple_CheckExact(o) || PyList_CheckExact(o)) && depth < MOST_DEPTH)
        describe_items(out, o, depth);
    else if (PySlice_Check(o))
        describe_slice(out, (PySliceObject *)o, depth);
    else if (is_plain(o))
        describe_plain(out, o);
    else
        describe_type(out, o);
}

/* ---- of C ---- */

void operation_begin(Operation *o, const char *name, PyObject *function, PyObject *const *operands, Py_ssize_t n)
{
    Trace *t = trace_current();
    *o = (Operation){name, function, operands, n, t, t ? t->graph->src : 0, t ? t->priv->operation : NULL};
    if (t)
        t->priv->operation = o;
}

static void operation_name(Text *out, const Operation *o)
{
    PyObject *f = o->function ? state_import(&state.full_name, "pyxla._errors", "full_name") : NULL;
    PyObject *name = f ? PyObject_CallOneArg(f, o->function) : NULL;
    const char *s = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    text_put(out, "%s%s%s(", s ? s : "", s && o->name ? "." : "", o->name ? o->name : s ? "" : "a function");
    Py_XDECREF(name);
    error_later();
}

static PyObject *operation_text(const Operation *o)
{
    Text text = {0};
    operation_name(&text, o);
    for (Py_ssize_t k = 0; k < o->n; k++) {
        text_put(&text, "%s", k ? ", " : "");
        describe_object(&text, o->operands[k], 0);
    }
    text_put(&text, ")");
    PyObject *s = text.at ? PyUnicode_FromString(text.at) : NULL;
    text_free(&text);
    return s;
}

/* Leaves (source, text) on the pending exception for pyxla/_errors.py: of the outermost operation at the user's place. */
static void name_operation(const Operation *o)
{
    PyObject *type, *value, *where;
    PyErr_Fetch(&type, &value, &where);
    PyErr_NormalizeException(&type, &value, &where);
    PyObject *known = value ? PyObject_GetAttrString(value, "_operation") : NULL, *src = PyLong_FromUnsignedLong(o->src);
    error_drop();
    bool same = !known || (src && PyTuple_Check(known) && PyObject_RichCompareBool(PyTuple_GET_ITEM(known, 0), src, Py_EQ) == 1);
    PyObject *text = value && src && same ? operation_text(o) : NULL, *both = text ? PyTuple_Pack(2, src, text) : NULL;
    if (both)
        PyObject_SetAttrString(value, "_operation", both);
    Py_XDECREF(known);
    Py_XDECREF(src);
    Py_XDECREF(text);
    Py_XDECREF(both);
    error_drop();
    PyErr_Restore(type, value, where);
}

void *operation_end(Operation *o, void *result)
{
    if (!o->trace)
        return result;
    o->trace->priv->operation = o->outer;
    if (!result && PyErr_Occurred())
        name_operation(o);
    return result;
}

void operation_failed(const char *name, PyObject *x)
{
    Operation o;
    operation_begin(&o, name, NULL, &x, 1);
    operation_end(&o, NULL);
}

void operation_declined(const Operation *o)
{
    if (o->trace)
        Py_XSETREF(o->trace->priv->declined, operation_text(o));
    error_drop();
}

/* ---- of checks ---- */

/* The outermost operation of C at this place; NULL: none. */
static const Operation *outermost(const Trace *t)
{
    const Operation *found = NULL;
    for (const Operation *o = t->priv->operation; o; o = o->outer)
        if (o->src == t->graph->src)
            found = o;
    return found;
}

/* The text of the operation that runs: a new reference, NULL if there is none. */
static PyObject *running_operation(Trace *t)
{
    const Operation *o = outermost(t);
    PyObject *c = o ? operation_text(o) : NULL;
    if (o && source_is_user(t))
        return c;
    PyObject *f = state_import(&state.explain_here, "pyxla._errors", "here"), *s = f ? PyObject_CallFunctionObjArgs(f, c ? c : Py_None, NULL) : NULL;
    Py_XDECREF(c);
    return s;
}

/* The place where new nodes come from, with the operation that runs there. */
static uint32_t source_operation(Trace *t, const char *message)
{
    PyObject *type, *value, *where;
    PyErr_Fetch(&type, &value, &where);
    PyObject *text = running_operation(t);
    const char *s = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : NULL;
    uint32_t src = s || message ? source_named(t, t->graph->src, s, message) : 0;
    Py_XDECREF(text);
    error_later();       /* a check without its operation is one */
    PyErr_Restore(type, value, where);
    return src ? src : t->graph->src;
}

Id trace_check(Graph *g, Id pred, CheckCode code, const char *message)
{
    Trace *t = trace_current();
    int64_t bits;
    uint32_t src = g->src;
    if (t && t->graph == g && pred && !node_const(g, pred, &bits))
        g->src = source_operation(t, message);
    Id r = graph_check(g, pred, code);
    g->src = src;
    return r;
}

Id trace_host(Graph *g, const Id *in, int nin, const int64_t *attr, int nattr)
{
    Trace *t = trace_current();
    uint32_t src = g->src;
    if (t && t->graph == g)
        g->src = source_operation(t, NULL);
    Id r = graph_add(g, OP_host, in, nin, attr, nattr, DT_COUNT, NULL, 0);
    g->src = src;
    return r;
}

/* ---- for pyxla/_errors.py ---- */

PyObject *prim_describe(PyObject *m, PyObject *o)
{
    (void)m;
    Text text = {0};
    describe_object(&text, o, 0);
    PyObject *s = PyUnicode_FromString(text.at ? text.at : Py_TYPE(o)->tp_name);
    text_free(&text);
    return s;
}

PyObject *prim_declined(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    Trace *t = trace_current();
    return t && t->priv->declined ? Py_NewRef(t->priv->declined) : Py_NewRef(Py_None);
}
