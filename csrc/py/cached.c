/* Functions behind functools.lru_cache, called while a trace runs. What they return stays what it is until someone clears the cache, which
 * nothing that the walk of captured state finds would show, and tracers must not be put into a cache that others read. So a call from user code
 * is made as if there were no trace, and becomes a guard: the cached function is called again before the entry is used, as the function
 * that is not compiled does (a hit), and has to return the same.
 *
 * The slot of the type is exchanged while traces run, as in hooks.c. pyxla/_capture.py says which calls these are. */
#include "py/capture.h"
#include "py/error.h"
#include "py/state.h"
#include "py/tracer.h"

static PyTypeObject *wrapper_type;        /* NULL: this Python's is not as expected */
static ternaryfunc original;

/* The call as if no trace were running: other threads' traces are no concern, NumPy's arrays are nobody's. */
static PyObject *call_outside(Trace *t, ternaryfunc call, PyObject *self, PyObject *args, PyObject *kwargs)
{
    bool handled = t->priv->handler && t->priv->handler_before;
    Trace *was = trace_exchange(NULL);
    if (handled)
        Py_XDECREF(PyDataMem_SetHandler(t->priv->handler_before));
    PyObject *r = call(self, args, kwargs), *type, *value, *where;
    PyErr_Fetch(&type, &value, &where);
    if (handled)
        Py_XDECREF(PyDataMem_SetHandler(t->priv->handler));
    PyErr_Restore(type, value, where);
    trace_exchange(was);
    return r;
}

PyObject *core_outside(PyObject *Py_UNUSED(module), PyObject *args)
{
    Trace *t = trace_current();
    if (PyTuple_GET_SIZE(args) < 1)
        return PyErr_Format(PyExc_TypeError, "outside() needs a function");
    PyObject *f = PyTuple_GET_ITEM(args, 0), *rest = PyTuple_GetSlice(args, 1, PyTuple_GET_SIZE(args));
    PyObject *r = !rest ? NULL : t ? call_outside(t, PyObject_Call, f, rest, NULL) : PyObject_Call(f, rest, NULL);
    Py_XDECREF(rest);
    return r;
}

/* Adds the call's guards, if this is the first such call. */
static bool guard_call(Trace *t, PyObject *self, PyObject *args, PyObject *kwargs, PyObject *result)
{
    PyObject *f = state_import(&state.cached_guards, "pyxla._capture", "cached_guards");
    PyObject *steps = f ? PyObject_CallFunctionObjArgs(f, t->priv->effects, self, args, kwargs ? kwargs : Py_None, result, NULL) : NULL;
    bool ok = steps && guard_steps(t->guards, steps);
    Py_XDECREF(steps);
    return ok;
}

/* The arguments to call with (new references): traced Python numbers by their values; 1, or 0: no such call, -1: an exception. */
static int read_call(Trace *t, PyObject *self, PyObject *args, PyObject *kwargs, PyObject **values, PyObject **named)
{
    PyObject *f = t->priv->effects ? state_import(&state.cached_call, "pyxla._capture", "cached_call") : NULL;
    PyObject *r = f ? PyObject_CallFunctionObjArgs(f, self, args, kwargs ? kwargs : Py_None, NULL) : NULL;
    if (!r || r == Py_None) {
        Py_XDECREF(r);
        return PyErr_Occurred() ? -1 : 0;
    }
    bool ok = PyArg_ParseTuple(r, "O!O", &PyTuple_Type, values, named);
    if (ok) {
        Py_INCREF(*values);
        *named = *named == Py_None ? NULL : Py_NewRef(*named);
    }
    Py_DECREF(r);
    return ok ? 1 : -1;
}

static PyObject *cached_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    Trace *t = trace_current();
    PyObject *values = NULL, *named = NULL;
    int ours = !t || caller_is_numpy() ? 0 : read_call(t, self, args, kwargs, &values, &named);
    if (ours <= 0)
        return ours < 0 ? NULL : original(self, args, kwargs);
    PyObject *r = call_outside(t, original, self, values, named);
    if (r && !guard_call(t, self, values, named, r))
        Py_CLEAR(r);
    Py_DECREF(values);
    Py_XDECREF(named);
    return r;
}

void cached_hooks_init(void)
{
    PyObject *module = PyImport_ImportModule("functools");
    PyObject *type = module ? PyObject_GetAttrString(module, "_lru_cache_wrapper") : NULL;
    if (type && PyType_Check(type) && ((PyTypeObject *)type)->tp_call && !PyType_HasFeature((PyTypeObject *)type, Py_TPFLAGS_HAVE_VECTORCALL)) {
        wrapper_type = (PyTypeObject *)Py_NewRef(type);
        original = wrapper_type->tp_call;
    }
    Py_XDECREF(module);
    Py_XDECREF(type);
    error_drop();
}

void cached_hooks_exchange(bool ours)
{
    if (wrapper_type)
        wrapper_type->tp_call = ours ? cached_call : original;
}
