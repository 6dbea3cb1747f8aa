/* Guards: what must hold for an entry to be used again. */
#include "py/capture.h"
#include "py/tracer.h"

typedef struct { int reg; bool type_only; PyObject *value; } ValueGuard;
typedef struct { PyObject *array, *copy; } ElementsGuard;

struct GuardList {
    ValueGuard *values;
    int nvalues, values_cap;
    ElementsGuard *elements;
    int nelements;
    Steps steps;                  /* captured state */
};

struct GuardList *guards_new(void) { return PyMem_Calloc(1, sizeof(struct GuardList)); }

void guards_free(struct GuardList *g)
{
    for (int k = 0; k < g->nvalues; k++)
        Py_DECREF(g->values[k].value);
    steps_clear(&g->steps);
    for (int k = 0; k < g->nelements; k++) {
        Py_DECREF(g->elements[k].array);
        Py_DECREF(g->elements[k].copy);
    }
    PyMem_Free(g->values);
    PyMem_Free(g->elements);
    PyMem_Free(g);
}

int guards_traverse(const struct GuardList *g, visitproc visit, void *arg)
{
    for (int k = 0; k < g->nelements; k++)
        Py_VISIT(g->elements[k].array);
    return steps_traverse(&g->steps, visit, arg);
}

int guards_count(const struct GuardList *g) { return g->nvalues + g->nelements + g->steps.n; }

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

bool guard_steps(struct GuardList *g, PyObject *steps) { return steps_add(&g->steps, steps); }

/* ---- checking ---- */

static int value_holds(const ValueGuard *v, PyObject *const *regs)
{
    PyObject *now = regs[v->reg];
    return !v->type_only ? same_value(v->value, now) : Py_TYPE(v->value) == Py_TYPE(now) && integer_range(v->value) == integer_range(now);
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

int guards_check(struct GuardList *g, PyObject *const *leaves, PyObject *const *regs, PyObject **why)
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
    return steps_check(&g->steps, leaves, why);
}
