#include "py/error.h"
#include "py/state.h"

#define ERROR_DOC "Base class of pyxla's own errors."
#define TRACE_DOC "The function cannot be traced: it asks for a value that is known only when the compiled code runs, or breaks a limit."
#define UNSUPPORTED_DOC "NumPy can do this, pyxla cannot (yet)."
#define COMPILE_DOC "The code generator failed."
#define INTERNAL_DOC "A broken invariant of pyxla that was caught: please report it."

static PyObject *error_new(PyObject *module, const char *name, const char *doc, PyObject *base, PyObject *base2)
{
    char full[64];
    snprintf(full, sizeof full, "pyxla.%s", name);
    PyObject *bases = base2 ? PyTuple_Pack(2, base, base2) : PyTuple_Pack(1, base);
    if (!bases)
        return NULL;
    PyObject *cls = PyErr_NewExceptionWithDoc(full, doc, bases, NULL);
    Py_DECREF(bases);
    if (cls && PyModule_AddObjectRef(module, name, cls) < 0)
        Py_CLEAR(cls);
    return cls;
}

bool error_module_init(PyObject *module)
{
    return (state.error = error_new(module, "Error", ERROR_DOC, PyExc_Exception, NULL))
        && (state.trace_error = error_new(module, "TraceError", TRACE_DOC, state.error, NULL))
        && (state.unsupported_error = error_new(module, "UnsupportedError", UNSUPPORTED_DOC, state.trace_error, PyExc_NotImplementedError))
        && (state.compile_error = error_new(module, "CompileError", COMPILE_DOC, state.error, NULL))
        && (state.internal_error = error_new(module, "InternalError", INTERNAL_DOC, state.error, NULL));
}

PyObject *error_class(ErrKind kind)
{
    switch (kind) {
    case ERR_NONE: return state.internal_error;
    case ERR_TYPE: return PyExc_TypeError;
    case ERR_VALUE: return PyExc_ValueError;
    case ERR_INDEX: return PyExc_IndexError;
    case ERR_OVERFLOW: return PyExc_OverflowError;
    case ERR_ZERO_DIVISION: return PyExc_ZeroDivisionError;
    case ERR_FLOATING_POINT: return PyExc_FloatingPointError;
    case ERR_MEMORY: return PyExc_MemoryError;
    case ERR_UNSUPPORTED: return state.unsupported_error;
    case ERR_LIMIT: return state.trace_error;
    case ERR_COMPILE: return state.compile_error;
    case ERR_INTERNAL: return state.internal_error;
    }
    return state.internal_error;
}

void error_raise_at(PyObject *cls, const char *message, const Trace *t, uint32_t src)
{
    PyObject *file = NULL, *function = NULL;
    int line = 0;
    bool place = t && src && trace_source(t, src, &file, &line, &function) && file;
    if (PyErr_Occurred())
        PyErr_Clear();    /* the error to report matters more than a lost place */
    if (place && function)
        PyErr_Format(cls, "%s (at %U:%d, in %U)", message, file, line, function);
    else if (place)
        PyErr_Format(cls, "%s (at %U:%d)", message, file, line);
    else
        PyErr_SetString(cls, message);
    Py_XDECREF(file);
    Py_XDECREF(function);
}

PyObject *error_raise(const Err *err, const Trace *t)
{
    if (PyErr_Occurred())
        return NULL;
    if (err->kind == ERR_NONE)
        PyErr_SetString(state.internal_error, "an operation failed without saying why");
    else
        error_raise_at(error_class(err->kind), err->msg[0] ? err->msg : "out of memory", t, err->src);
    return NULL;
}

static void raise_linalg(const char *message, const Trace *t, uint32_t src)
{
    PyObject *cls = state_import(&state.linalg_error, "numpy.linalg", "LinAlgError");
    if (cls)
        error_raise_at(cls, message, t, src);
}

/* What a failed check raises; LinAlgError (cls NULL) is looked up when it is needed. */
static const struct { PyObject **cls; const char *message; } check_errors[] = {
    [CHECK_NEGATIVE_POWER] = {&PyExc_ValueError, "Integers to negative integer powers are not allowed."},
    [CHECK_INDEX] = {&PyExc_IndexError, "an index is out of bounds for its axis"},
    [CHECK_EXTENT] = {&PyExc_ValueError, "operands could not be broadcast together: extents known only in the run differ"},
    [CHECK_ZERO_DIVISION] = {&PyExc_ZeroDivisionError, "division by zero"},
    [CHECK_VALUE] = {&PyExc_ValueError, "an argument has a value that the function does not take"},
    [CHECK_ALL_NAN] = {&PyExc_ValueError, "All-NaN slice encountered"},
    [CHECK_WEIGHTS] = {&PyExc_ValueError, "weights cannot be negative"},
    [CHECK_GEOMETRIC] = {&PyExc_ValueError, "Geometric sequence cannot include zero"},
    [CHECK_SINGULAR] = {NULL, "Singular matrix"},
    [CHECK_NOT_POSITIVE] = {NULL, "Matrix is not positive definite"},
    [CHECK_NAN] = {&PyExc_FloatingPointError, NAN_MESSAGE},
    [CHECK_RANGE] = {&PyExc_OverflowError, "a Python integer known only in the run is out of bounds for the integer dtype that it meets"},
    [CHECK_INDICES] = {&PyExc_IndexError, "shape mismatch: indexing arrays could not be broadcast together: extents known only in the run differ"},
};

void error_raise_check(const Plan *plan, int64_t status, const Trace *t)
{
    if (status < 1 || status > plan->checks.len) {
        PyErr_Format(state.internal_error, "a kernel returned the unknown status %lld", (long long)status);
        return;
    }
    Id id = plan->checks.at[status - 1];
    size_t code = (size_t)node_attr(plan->graph, id)[0];
    const char *message = code < sizeof check_errors / sizeof *check_errors ? check_errors[code].message : NULL;
    if (!message)
        PyErr_Format(state.internal_error, "check node %u has no known code", id);
    else if (check_errors[code].cls)
        error_raise_at(*check_errors[code].cls, message, t, node_at(plan->graph, id)->src);
    else
        raise_linalg(message, t, node_at(plan->graph, id)->src);
}
