/* Captured state: what the function's code can read besides its arguments becomes guards. pyxla/_capture.py finds it. */
#include "py/tracer.h"

bool trace_watch(Trace *t, PyObject *function, PyObject *const *leaves, int n)
{
    static PyObject *find;
    if (!find) {
        PyObject *module = PyImport_ImportModule("pyxla._capture");
        find = module ? PyObject_GetAttrString(module, "steps") : NULL;
        Py_XDECREF(module);
        if (!find)
            return false;
    }
    PyObject *tuple = PyTuple_New(n), *steps = NULL;
    for (int k = 0; tuple && k < n; k++)
        PyTuple_SET_ITEM(tuple, k, Py_NewRef(leaves[k] ? leaves[k] : Py_None));
    if (tuple)
        steps = PyObject_CallFunctionObjArgs(find, function, tuple, NULL);
    bool ok = steps && guard_steps(t->guards, steps);
    Py_XDECREF(tuple);
    Py_XDECREF(steps);
    return ok;
}
