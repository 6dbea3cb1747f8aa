/* Guards: what must hold for an entry to be used again. */
#include "py/tracer.h"
#include "py/error.h"

typedef struct { int reg; bool type_only; PyObject *value; } ValueGuard;
typedef struct { PyObject *array, *copy; } ElementsGuard;

/* A step from an object that is known to be the expected one to the next: where the code found a global, a closure variable, an attribute.
 * Kinds as in pyxla/_capture.py. */
typedef enum { STEP_OBJECT, STEP_GLOBAL, STEP_CELL, STEP_ATTRIBUTE, STEP_ITEM, STEP_ITEMS, STEP_LEAF } StepKind;
typedef struct {
    StepKind kind;
    int parent;                   /* an earlier step; LEAF: the leaf */
    PyObject *key, *expected;     /* ITEMS: key is a tuple of what the container holds */
} Step;

struct GuardList {
    ValueGuard *values;
    int nvalues, values_cap;
    ElementsGuard *elements;
    int nelements;
    Step *steps;
    int nsteps;
};

struct GuardList *guards_new(void) { return PyMem_Calloc(1, sizeof(struct GuardList)); }

void guards_free(struct GuardList *g)
{
    for (int k = 0; k < g->nvalues; k++)
        Py_DECREF(g->values[k].value);
    for (int k = 0; k < g->nsteps; k++) {
        Py_XDECREF(g->steps[k].key);
        Py_XDECREF(g->steps[k].expected);
    }
    for (int k = 0; k < g->nelements; k++) {
        Py_DECREF(g->elements[k].array);
        Py_DECREF(g->elements[k].copy);
    }
    PyMem_Free(g->values);
    PyMem_Free(g->elements);
    PyMem_Free(g->steps);
    PyMem_Free(g);
}

int guards_traverse(const struct GuardList *g, visitproc visit, void *arg)
{
    for (int k = 0; k < g->nelements; k++)
        Py_VISIT(g->elements[k].array);
    for (int k = 0; k < g->nsteps; k++) {
        Py_VISIT(g->steps[k].key);
        Py_VISIT(g->steps[k].expected);
    }
    return 0;
}

int guards_count(const struct GuardList *g) { return g->nvalues + g->nelements + g->nsteps; }

/* ---- making ---- */

static bool add_value(struct GuardList *g, int reg, PyObject *value, bool type_only)
{
    for (int k = 0; k < g->nvalues; k++)
        if (g->values[k].reg == reg) {
            g->values[k].type_only &= type_only;
            return true;
        }
    if (g->nvalues == g->values_cap) {
        int cap = g->values_cap ? 2 * g->values_cap : 8;
        ValueGuard *at = PyMem_Realloc(g->values, cap * sizeof *at);
        if (!at) {
            PyErr_NoMemory();
            return false;
        }
        g->values = at;
        g->values_cap = cap;
    }
    g->values[g->nvalues++] = (ValueGuard){reg, type_only, Py_NewRef(value)};
    return true;
}

bool guard_value(struct GuardList *g, int reg, PyObject *value) { return add_value(g, reg, value, false); }
bool guard_type(struct GuardList *g, int reg, PyObject *value) { return add_value(g, reg, value, true); }

bool guard_elements(struct GuardList *g, PyObject *array)
{
    for (int k = 0; k < g->nelements; k++)
        if (g->elements[k].array == array)
            return true;
    ElementsGuard *at = PyMem_Realloc(g->elements, (g->nelements + 1) * sizeof *at);
    if (!at) {
        PyErr_NoMemory();
        return false;
    }
    g->elements = at;
    PyObject *copy = PyArray_NewCopy((PyArrayObject *)array, NPY_CORDER);
    if (copy)
        g->elements[g->nelements++] = (ElementsGuard){Py_NewRef(array), copy};
    return copy != NULL;
}

static bool read_step(PyObject *tuple, int index, Step *out)
{
    int kind;
    if (!PyTuple_Check(tuple) || !PyArg_ParseTuple(tuple, "iiOO", &kind, &out->parent, &out->key, &out->expected))
        return false;
    out->kind = (StepKind)kind;
    if (kind < STEP_OBJECT || kind > STEP_LEAF || (kind != STEP_LEAF && kind != STEP_OBJECT && (out->parent < 0 || out->parent >= index))) {
        PyErr_SetString(error_class(ERR_INTERNAL), "a guard with a bad step");
        return false;
    }
    if (kind == STEP_LEAF)
        out->expected = Py_None;    /* each call brings its own; the cache keeps no argument alive */
    Py_INCREF(out->key);
    Py_INCREF(out->expected);
    return true;
}

bool guard_steps(struct GuardList *g, PyObject *steps)
{
    Py_ssize_t n = PyList_Check(steps) ? PyList_GET_SIZE(steps) : 0;
    g->steps = PyMem_Calloc(n ? n : 1, sizeof *g->steps);
    if (!g->steps) {
        PyErr_NoMemory();
        return false;
    }
    for (; g->nsteps < n; g->nsteps++)
        if (!read_step(PyList_GET_ITEM(steps, g->nsteps), g->nsteps, &g->steps[g->nsteps]))
            return false;
    return true;
}

/* ---- checking ---- */

/* The same immutable value: same type, equal, floats by their bits. Objects of other types only if identical. */
static int same_value(PyObject *a, PyObject *b)
{
    if (a == b)
        return 1;
    if (Py_TYPE(a) != Py_TYPE(b))
        return 0;
    if (PyFloat_CheckExact(a)) {
        double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
        return !memcmp(&x, &y, sizeof x);
    }
    if (PyComplex_CheckExact(a)) {
        Py_complex x = PyComplex_AsCComplex(a), y = PyComplex_AsCComplex(b);
        return !memcmp(&x, &y, sizeof x);
    }
    if (PyLong_CheckExact(a) || PyUnicode_CheckExact(a) || PyBytes_CheckExact(a) || PyArray_IsScalar(a, Generic))
        return PyObject_RichCompareBool(a, b, Py_EQ);
    return 0;
}

static int value_holds(const ValueGuard *v, PyObject *const *regs)
{
    return v->type_only ? Py_TYPE(v->value) == Py_TYPE(regs[v->reg]) : same_value(v->value, regs[v->reg]);
}

static int items_hold(PyObject *container, PyObject *items)
{
    Py_ssize_t n = PyTuple_GET_SIZE(items);
    if (PyDict_CheckExact(container)) {
        if (PyDict_GET_SIZE(container) * 2 != n)
            return 0;
        PyObject *key, *value;
        Py_ssize_t at = 0, k = 0;
        int same = 1;
        while (same > 0 && PyDict_Next(container, &at, &key, &value)) {
            same = same_value(PyTuple_GET_ITEM(items, k), key);
            if (same > 0)
                same = same_value(PyTuple_GET_ITEM(items, k + 1), value);
            k += 2;
        }
        return same;
    }
    if (!PyList_CheckExact(container) || PyList_GET_SIZE(container) != n)
        return 0;
    int same = 1;
    for (Py_ssize_t k = 0; k < n && same > 0; k++)
        same = same_value(PyTuple_GET_ITEM(items, k), PyList_GET_ITEM(container, k));
    return same;
}

/* What a step leads to now (new reference); NULL without an exception: nothing. */
static PyObject *step_value(const Step *s, PyObject *const *now)
{
    PyObject *from = now[s->parent], *value = NULL;
    switch (s->kind) {
    case STEP_OBJECT:
    case STEP_LEAF:
    case STEP_ITEMS: break;
    case STEP_GLOBAL: value = Py_XNewRef(PyDict_GetItemWithError(from, s->key)); break;
    case STEP_CELL: value = Py_XNewRef(PyCell_Check(from) ? PyCell_GET(from) : NULL); break;
    case STEP_ATTRIBUTE: value = PyObject_GetAttr(from, s->key); break;
    case STEP_ITEM: value = PyObject_GetItem(from, s->key); break;
    }
    if (!value && PyErr_Occurred()
        && (PyErr_ExceptionMatches(PyExc_AttributeError) || PyErr_ExceptionMatches(PyExc_LookupError) || PyErr_ExceptionMatches(PyExc_TypeError)))
        PyErr_Clear();
    return value;
}

static int step_holds(const Step *s, int k, PyObject *const *leaves, PyObject **now)
{
    if (s->kind == STEP_OBJECT || s->kind == STEP_LEAF) {
        now[k] = s->kind == STEP_LEAF ? leaves[s->parent] : s->expected;
        return 1;
    }
    if (s->kind == STEP_ITEMS) {
        now[k] = now[s->parent];
        return items_hold(now[k], s->key);
    }
    PyObject *value = step_value(s, now);
    if (!value)
        return PyErr_Occurred() ? -1 : 0;
    int same = same_value(s->expected, value);
    now[k] = s->expected;         /* kept alive by the guard; identical, or an equal immutable */
    Py_DECREF(value);
    return same;
}

/* Elements compared as bytes; dtype and shape are the entry's concern, but must agree for the comparison. */
static int elements_hold(const ElementsGuard *e)
{
    PyArrayObject *a = (PyArrayObject *)e->array, *b = (PyArrayObject *)e->copy;
    if (PyArray_NBYTES(a) != PyArray_NBYTES(b) || PyArray_TYPE(a) != PyArray_TYPE(b))
        return 0;
    PyArrayObject *now = (PyArrayObject *)(PyArray_IS_C_CONTIGUOUS(a) ? Py_NewRef(a) : PyArray_NewCopy(a, NPY_CORDER));
    int same = now ? !memcmp(PyArray_DATA(now), PyArray_DATA(b), PyArray_NBYTES(b)) : -1;
    Py_XDECREF(now);
    return same;
}

static PyObject *step_path(const struct GuardList *g, int k)
{
    const Step *s = &g->steps[k];
    if (s->kind == STEP_GLOBAL || s->kind == STEP_CELL)
        return PyObject_Str(s->key);
    if (s->kind == STEP_LEAF)
        return PyUnicode_FromFormat("argument %d", s->parent);
    if (s->kind == STEP_OBJECT)
        return PyObject_Repr(s->expected);
    PyObject *base = step_path(g, s->parent);
    PyObject *path = !base ? NULL : s->kind == STEP_ATTRIBUTE ? PyUnicode_FromFormat("%U.%S", base, s->key)
                     : s->kind == STEP_ITEM ? PyUnicode_FromFormat("%U[%R]", base, s->key) : PyUnicode_FromFormat("the items of %U", base);
    Py_XDECREF(base);
    return path;
}

static PyObject *describe_step(const struct GuardList *g, int k)
{
    PyObject *path = step_path(g, k);
    PyObject *why = path ? PyUnicode_FromFormat("%U changed", path) : NULL;
    Py_XDECREF(path);
    return why;
}

static int check_steps(const struct GuardList *g, PyObject *const *leaves, PyObject **now, PyObject **why)
{
    for (int k = 0; k < g->nsteps; k++) {
        int holds = step_holds(&g->steps[k], k, leaves, now);
        if (holds <= 0) {
            if (!holds && why && !(*why = describe_step(g, k)))
                return -1;
            return holds;
        }
    }
    return 1;
}

int guards_check(const struct GuardList *g, PyObject *const *leaves, PyObject *const *regs, PyObject **why)
{
    for (int k = 0; k < g->nvalues; k++) {
        const ValueGuard *v = &g->values[k];
        int holds = value_holds(v, regs);
        if (holds <= 0) {
            if (!holds && why && !(*why = PyUnicode_FromFormat("a Python number was %R, is %R", v->value, regs[v->reg])))
                return -1;
            return holds;
        }
    }
    for (int k = 0; k < g->nelements; k++) {
        int holds = elements_hold(&g->elements[k]);
        if (holds <= 0) {
            if (!holds && why && !(*why = PyUnicode_FromString("elements of a captured array, whose value the function asked for, changed")))
                return -1;
            return holds;
        }
    }
    PyObject *few[64], **now = g->nsteps <= 64 ? few : PyMem_Malloc(g->nsteps * sizeof *now);
    if (!now) {
        PyErr_NoMemory();
        return -1;
    }
    int holds = check_steps(g, leaves, now, why);
    if (now != few)
        PyMem_Free(now);
    return holds;
}
