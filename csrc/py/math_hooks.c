/* The functions of Python's math module while a trace runs. math.sqrt(t) of a traced Python number would ask for its value, and each new value
 * would trace again; so calls with such a number from a tracing thread are recorded in the scalar program, as arithmetic is, and
 * done by Python on every call. Of numbers that are data (elements of arrays, sums, sizes) they are NumPy's functions, in the graph, whose results are
 * Python floats of the run. Exchanged in place like the functions in hooks.c; all other calls go straight on. */
#include "py/tracer.h"
#include "py/state.h"

/* Of one number, and of one or two. */
#define ONE(X) \
    X(sqrt) X(exp) X(exp2) X(expm1) X(log2) X(log10) X(log1p) X(cbrt) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(tanh) X(asinh) \
    X(acosh) X(atanh) X(erf) X(erfc) X(gamma) X(lgamma) X(fabs) X(floor) X(ceil) X(trunc) X(degrees) X(radians) X(isnan) X(isinf) X(isfinite)
#define TWO(X) X(log) X(pow) X(atan2) X(fmod) X(copysign) X(hypot) X(ldexp) X(remainder)

enum {
#define X(name) MATH_##name,
    ONE(X) TWO(X)
#undef X
    MATH_COUNT
};

typedef struct { const char *name, *full_name; PyCFunctionObject *function; PyMethodDef *original, ours; } MathHook;
static MathHook hooks[MATH_COUNT] = {
#define X(id) [MATH_##id] = {.name = #id, .full_name = "math." #id},
    ONE(X) TWO(X)
#undef X
};

/* Whether a number is data: an element of an array, a sum, a size. */
static bool is_data(PyObject *o) { return is_tracer(o) ? ((Tracer *)o)->kind != TRACER_PYTHON_SCALAR : is_extent(o); }

/* The function of NumPy's; Py_NotImplemented: there is none. */
static PyObject *compute(const MathHook *h, PyObject *const *args, Py_ssize_t n)
{
    Operation o;
    if (!op_begin())
        return NULL;
    operation_begin(&o, h->full_name, NULL, args, n);
    PyObject *f = state_import(&state.math_call, "pyxla._np.numbers", "call"), *name = f ? PyUnicode_FromString(h->name) : NULL;
    PyObject *r = name ? PyObject_CallFunctionObjArgs(f, name, args[0], n == 2 ? args[1] : NULL, NULL) : NULL;
    Py_XDECREF(name);
    return operation_end(&o, r);
}

static bool traced_number(PyObject *o) { return is_tracer(o) && ((Tracer *)o)->kind == TRACER_PYTHON_SCALAR; }

/* The recorded call, or Py_NotImplemented: it is none of ours. */
static PyObject *record(const MathHook *h, PyObject *const *args, Py_ssize_t n)
{
    if (n >= 1 && n <= 2 && (is_data(args[0]) || (n == 2 && is_data(args[1]))) && trace_current())
        return compute(h, args, n);
    bool traced = n >= 1 && n <= 2 && (traced_number(args[0]) || (n == 2 && traced_number(args[1])));
    if (!traced || !trace_current())
        Py_RETURN_NOTIMPLEMENTED;
    return scalar_operate(SCALAR_CALL, args[0], n == 2 ? args[1] : NULL, (PyObject *)h->function);
}

static PyObject *call_one(const MathHook *h, PyObject *self, PyObject *x)
{
    PyObject *r = record(h, &x, 1);
    if (r != Py_NotImplemented)
        return r;
    Py_DECREF(r);
    return h->original->ml_meth(self, x);
}

typedef PyObject *(*FastFunction)(PyObject *, PyObject *const *, Py_ssize_t);
static PyObject *call_fast(const MathHook *h, PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    PyObject *r = record(h, args, n);
    if (r != Py_NotImplemented)
        return r;
    Py_DECREF(r);
    return ((FastFunction)(void (*)(void))h->original->ml_meth)(self, args, n);
}

static PyObject *call_tuple(const MathHook *h, PyObject *self, PyObject *args)
{
    PyObject *r = record(h, &PyTuple_GET_ITEM(args, 0), PyTuple_GET_SIZE(args));
    if (r != Py_NotImplemented)
        return r;
    Py_DECREF(r);
    return h->original->ml_meth(self, args);
}

#define X(name) \
    static PyObject *one_##name(PyObject *self, PyObject *x) { return call_one(&hooks[MATH_##name], self, x); } \
    static PyObject *fast_##name(PyObject *self, PyObject *const *args, Py_ssize_t n) { return call_fast(&hooks[MATH_##name], self, args, n); } \
    static PyObject *tuple_##name(PyObject *self, PyObject *args) { return call_tuple(&hooks[MATH_##name], self, args); }
ONE(X) TWO(X)
#undef X

static const struct { PyCFunction one, fast, tuple; } trampolines[MATH_COUNT] = {
#define X(name) {one_##name, (PyCFunction)(void (*)(void))fast_##name, tuple_##name},
    ONE(X) TWO(X)
#undef X
};

/* A function that this Python has not, or of another calling convention, stays as it is. */
static void prepare(int k, PyObject *math)
{
    MathHook *h = &hooks[k];
    PyObject *f = PyObject_GetAttrString(math, h->name);
    if (f && PyCFunction_CheckExact(f)) {
        PyMethodDef *def = ((PyCFunctionObject *)f)->m_ml;
        PyCFunction ours = def->ml_flags == METH_O ? trampolines[k].one : def->ml_flags == METH_FASTCALL ? trampolines[k].fast
                         : def->ml_flags == METH_VARARGS ? trampolines[k].tuple : NULL;
        if (ours) {
            h->function = (PyCFunctionObject *)Py_NewRef(f);
            h->original = def;
            h->ours = *def;
            h->ours.ml_meth = ours;
        }
    }
    Py_XDECREF(f);
    PyErr_Clear();
}

bool math_hooks_init(void)
{
    PyObject *math = PyImport_ImportModule("math");
    for (int k = 0; math && k < MATH_COUNT; k++)
        prepare(k, math);
    Py_XDECREF(math);
    return math != NULL;
}

void math_hooks_exchange(bool ours)
{
    for (int k = 0; k < MATH_COUNT; k++)
        if (hooks[k].function)
            hooks[k].function->m_ml = ours ? &hooks[k].ours : hooks[k].original;
}
