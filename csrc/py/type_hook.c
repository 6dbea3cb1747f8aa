/* type(x) of a tracer while a trace runs: the class that the value has when the function is not traced, as x.__class__ says, so that
 * `type(n) is int` decides as it does then. Only where code of others asks: Python's own modules and pyxla look up what a tracer itself has.
 *
 * The slot by which `type` is called is exchanged, as in hooks.c. From 3.11 on Python replaces a call of `type` that ran a few times by an
 * instruction that calls nobody; it does so for immutable types alone, so `type` is none while a trace runs, and pyxla/_capture.py
 * gives functions in which it was done before their code anew. */
#include "py/error.h"
#include "py/tracer.h"

static vectorcallfunc original;           /* NULL: this Python's is not as expected */
static PyObject *own_modules;

/* Whether the code that calls is of another package than those in own_modules. */
static bool users_code(void)
{
    PyObject *globals = PyEval_GetGlobals(), *name = globals ? PyDict_GetItemString(globals, "__name__") : NULL;
    const char *s = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    if (!s) {
        error_drop();
        return true;
    }
    PyObject *top = PyUnicode_FromStringAndSize(s, (Py_ssize_t)strcspn(s, "."));
    int own = top ? PySet_Contains(own_modules, top) : -1;
    Py_XDECREF(top);
    if (own < 0)
        error_drop();
    return own == 0;
}

static PyObject *type_call(PyObject *type, PyObject *const *args, size_t nargs, PyObject *kwnames)
{
    bool asks = type == (PyObject *)&PyType_Type && PyVectorcall_NARGS(nargs) == 1 && !kwnames;
    if (asks && (is_tracer(args[0]) || is_extent(args[0])) && trace_current() && users_code())
        return PyObject_GetAttrString(args[0], "__class__");
    return original(type, args, nargs, kwnames);
}

bool type_hook_init(void)
{
    PyObject *names = PySys_GetObject("stdlib_module_names"), *pyxla = PyUnicode_FromString("pyxla");
    own_modules = names ? PySet_New(names) : NULL;
    bool ok = own_modules && pyxla && PySet_Add(own_modules, pyxla) == 0;
    original = ok ? PyType_Type.tp_vectorcall : NULL;
    Py_XDECREF(pyxla);
    return ok;
}

void type_hook_exchange(bool ours)
{
    if (!original)
        return;
    PyType_Type.tp_vectorcall = ours ? type_call : original;
    if (ours)
        PyType_Type.tp_flags &= ~Py_TPFLAGS_IMMUTABLETYPE;
    else
        PyType_Type.tp_flags |= Py_TPFLAGS_IMMUTABLETYPE;
}
