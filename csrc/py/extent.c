/* Extents that are known only in the run, as Python code sees them. */
#include "py/tracer.h"
#include "py/error.h"

static PyTypeObject *extent_type;

PyObject *prim_extent_type(PyObject *m, PyObject *cls)
{
    (void)m;
    if (!PyType_Check(cls))
        return PyErr_Format(PyExc_TypeError, "a class is needed");
    Py_XSETREF(extent_type, (PyTypeObject *)Py_NewRef(cls));
    Py_RETURN_NONE;
}

bool is_extent(PyObject *o) { return extent_type && Py_TYPE(o) == extent_type; }

Tracer *extent_tracer(PyObject *o)
{
    PyObject *x = PyObject_GetAttrString(o, "value");
    if (x && is_tracer(x) && ((Tracer *)x)->kind != TRACER_PYTHON_SCALAR)
        return (Tracer *)x;
    if (x)
        PyErr_SetString(PyExc_TypeError, "a Number without a tracer");
    Py_XDECREF(x);
    return NULL;
}

PyObject *extent_number(PyObject *x)
{
    return extent_type ? PyObject_CallOneArg((PyObject *)extent_type, x) : PyErr_Format(PyExc_RuntimeError, "no class of extents is registered");
}

Id extent_node(Graph *g, Dim d)
{
    int64_t constant;
    const Id *scalar = NULL;
    const int64_t *factor = NULL;
    int n = dim_terms(g, d, &constant, &scalar, &factor);
    Id sum = constant || !n ? graph_const(g, DT_int64, constant) : 0;
    Id terms[64];
    int64_t by[64];
    for (int k = 0; k < n && k < 64; k++)                    /* making nodes may move the table */
        terms[k] = scalar[k], by[k] = factor[k];
    for (int k = 0; k < n && k < 64; k++) {
        Id term = by[k] == 1 ? terms[k] : graph_binary(g, OP_multiply, terms[k], graph_const(g, DT_int64, by[k]));
        sum = sum ? graph_binary(g, OP_add, sum, term) : term;
    }
    return sum;
}

PyObject *extent_object(Trace *t, Dim d)
{
    if (d >= 0)
        return PyLong_FromLongLong(d);
    PyObject *x = tracer_result(t, extent_node(t->graph, d), LAYOUT_C);
    PyObject *o = x ? extent_number(x) : NULL;
    Py_XDECREF(x);
    return o;
}

enum { MAX_FORM = 32 };

/* A sum in the making: constant + factor * scalar + ... */
typedef struct { int64_t constant; int n; Id scalar[MAX_FORM]; int64_t factor[MAX_FORM]; } Form;

/* Adds `by` times an int64 scalar, taken apart where it is a sum or a multiple; false if the form would be too long or overflows. */
static bool form_add(Graph *g, Form *f, Id id, int64_t by, int depth)
{
    const Node *n = node_at(g, id);
    const Id *in = node_in(g, id);
    int64_t c, second;
    if (node_const(g, id, &c)) return !__builtin_mul_overflow(c, by, &c) && !__builtin_add_overflow(f->constant, c, &f->constant);
    bool sum = n->op == OP_add || n->op == OP_subtract;
    if (depth < 16 && sum && !n->rank)
        return !__builtin_mul_overflow(by, n->op == OP_add ? 1 : -1, &second) && form_add(g, f, in[0], by, depth + 1)
               && form_add(g, f, in[1], second, depth + 1);
    if (depth < 16 && n->op == OP_multiply && !n->rank && (node_const(g, in[0], &c) || node_const(g, in[1], &c)))
        return !__builtin_mul_overflow(c, by, &by) && form_add(g, f, in[node_const(g, in[0], &c) ? 1 : 0], by, depth + 1);
    if (f->n == MAX_FORM) return false;
    f->scalar[f->n] = id;
    f->factor[f->n++] = by;
    return true;
}

/* An int64 scalar as a form: sums of other scalars are taken apart, so that equal extents are equal dims. */
static Dim node_dim(Graph *g, Id id)
{
    Form f = { 0 };
    Dim lo, hi;
    if (!form_add(g, &f, id, 1, 0)) f = (Form){ .n = 1, .scalar = { id }, .factor = { 1 } };
    bool itself = f.n == 1 && f.scalar[0] == id;             /* an extent is not negative; the parts of one may be */
    if (itself && !dim_bounds(g, id, &lo, &hi)) dim_bound(g, id, 0, INT64_MAX >> 8);
    return dim_affine(g, f.constant, f.scalar, f.factor, f.n);
}

Dim extent_dim(Graph *g, Id id) { return id ? node_dim(g, id) : 0; }

static bool read_dim(Trace *t, PyObject *o, Dim *out)
{
    if (!is_extent(o)) {
        *out = PyNumber_AsSsize_t(o, PyExc_OverflowError);
        if (*out >= 0)
            return true;
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "negative dimensions are not allowed");
        return false;
    }
    Tracer *x = extent_tracer(o);
    Id node = x ? tracer_node(x) : 0;
    Py_XDECREF(x);
    if (!node)
        return false;
    if (node_at(t->graph, node)->dtype != DT_int64) {
        PyErr_SetString(PyExc_TypeError, "'float' object cannot be interpreted as an integer");
        return false;
    }
    *out = extent_dim(t->graph, node);
    if (t->err.kind)
        trace_fail(t);
    return !PyErr_Occurred();
}

int read_dims(Trace *t, PyObject *o, Dim *out)
{
    PyObject *fast = PySequence_Fast(o, "expected a sequence of integers");
    Py_ssize_t n = fast ? PySequence_Fast_GET_SIZE(fast) : -1;
    if (n > MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "maximum supported dimension for an array is currently %d, found %zd", MAX_RANK, n);
        n = -1;
    }
    for (Py_ssize_t k = 0; k < n; k++)
        if (!read_dim(t, PySequence_Fast_GET_ITEM(fast, k), &out[k]))
            n = -1;
    Py_XDECREF(fast);
    return (int)n;
}

bool tracer_dynamic(const Tracer *x)
{
    for (int k = 0; x->kind != TRACER_PYTHON_SCALAR && k < tracer_rank(x); k++)
        if (tracer_shape(x)[k] < 0)
            return true;
    return false;
}

void cell_freeze(Cell *c) { c->frozen = true; }

PyObject *tracer_derived(Tracer *x, Id node)
{
    Tracer *r = (Tracer *)tracer_array(x->cell->trace, node, LAYOUT_C);
    cell_freeze(x->cell);
    if (r)
        cell_freeze(r->cell);
    if (r && x->cell->origin)
        cell_copy_of(r->cell, x->cell, LAYOUT_UNKNOWN);
    return (PyObject *)r;
}
