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
        && (state.internal_error = error_new(module, "InternalError", INTERNAL_DOC, state.error, NULL))
        && (state.assumption_error = PyErr_NewException("pyxla._core.AssumptionError", state.trace_error, NULL));
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
    bool place = t && src && trace_source(t, src, &file, &line, &function) && file && function;
    if (PyErr_Occurred())
        error_drop();     /* the error to report matters more than a lost place */
    if (place)
        PyErr_Format(cls, "%s (at %U:%d, in %U)", message, file, line, function);
    else
        PyErr_SetString(cls, message);
    Py_XDECREF(file);
    Py_XDECREF(function);
}

static int raise_again(void *exception)
{
    PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_DECREF(exception);
    return -1;
}

/* By the interpreter's main thread between two instructions; another thread is told the class alone. */
void error_later(void)
{
    PyObject *type, *value, *where;
    PyErr_Fetch(&type, &value, &where);
    PyErr_NormalizeException(&type, &value, &where);
    bool no_memory = PyErr_GivenExceptionMatches(type, PyExc_MemoryError) || PyErr_GivenExceptionMatches(type, PyExc_SystemError);
    bool again = type && !no_memory, main_thread = sees_signals();
    if (again && value && main_thread && Py_AddPendingCall(raise_again, value) == 0)
        value = NULL;
    else if (again)
        PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), type);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(where);
}

void error_drop(void)
{
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception))
        error_later();
    PyErr_Clear();
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

#define INDICES_CURE "indices of an axis of n elements go from -n to n - 1: np.clip bounds them, i % n wraps them"
#define SHAPES_CURE "make the sizes agree: select by one mask, or slice to the same length"
/* What a failed check raises, and the cure; LinAlgError (cls NULL) is looked up when it is needed. */
static const struct { PyObject **cls; const char *message, *cure; } check_errors[] = {
    [CHECK_NEGATIVE_POWER] = {&PyExc_ValueError, "Integers to negative integer powers are not allowed.", "cast the base to float"},
    [CHECK_INDEX] = {&PyExc_IndexError, "an index is out of bounds for its axis", INDICES_CURE},
    [CHECK_EXTENT] = {&PyExc_ValueError, "operands could not be broadcast together: extents known only in the run differ", SHAPES_CURE},
    [CHECK_ZERO_DIVISION] = {&PyExc_ZeroDivisionError, "division by zero", "use np.where to divide only where the divisor is not 0"},
    [CHECK_VALUE] = {&PyExc_ValueError, "an argument has a value that the function does not take", "change the argument"},
    [CHECK_ALL_NAN] = {&PyExc_ValueError, "All-NaN slice encountered", "fill such slices first, by np.where or np.nan_to_num"},
    [CHECK_WEIGHTS] = {&PyExc_ValueError, "weights cannot be negative", "clip them with np.maximum(w, 0)"},
    [CHECK_GEOMETRIC] = {&PyExc_ValueError, "Geometric sequence cannot include zero", "begin and end at numbers that are not 0"},
    [CHECK_SINGULAR] = {NULL, "Singular matrix", "use np.linalg.lstsq or pinv, or add a small multiple of np.eye"},
    [CHECK_NOT_POSITIVE] = {NULL, "Matrix is not positive definite", "add a small multiple of np.eye, or use np.linalg.eigh"},
    [CHECK_NAN] = {&PyExc_FloatingPointError, NAN_MESSAGE, "mask such operands by np.where first, or take check_nan=True away"},
    [CHECK_RANGE] = {&PyExc_OverflowError, "a Python integer known only in the run is out of bounds for the integer dtype that it meets", "cast the array to a wider dtype"},
    [CHECK_ASSUMED] = {&state.assumption_error, "what decides NumPy's result is not what it was in the trace", "call the jitted function again, with arguments that no other thread changes"},
    [CHECK_INDICES] = {&PyExc_IndexError, "shape mismatch: indexing arrays could not be broadcast together: extents known only in the run differ", SHAPES_CURE},
};

/* The message of a failed check with source src: what is wrong, in which operation, the cure. */
static void check_text(Text *out, size_t code, const Trace *t, uint32_t src)
{
    const char *own = trace_message(t, src), *operation = trace_operation(t, src), *what = own ? own : check_errors[code].message;
    const char *cure = own ? strstr(own, "; ") : NULL;
    text_put(out, "%.*s", (int)(cure ? (size_t)(cure - what) : strlen(what)), what);
    if (operation)
        text_put(out, " in %s", operation);
    text_put(out, "; %s", cure ? cure + 2 : check_errors[code].cure);
}

void error_raise_check(const Plan *plan, int64_t status, const Trace *t)
{
    if (status < 1 || status > plan->checks.len) {
        PyErr_Format(state.internal_error, "a kernel returned the unknown status %lld", (long long)status);
        return;
    }
    Id id = plan->checks.at[status - 1];
    size_t code = (size_t)node_attr(plan->graph, id)[0];
    uint32_t src = node_at(plan->graph, id)->src;
    if (code >= sizeof check_errors / sizeof *check_errors || !check_errors[code].message) {
        PyErr_Format(state.internal_error, "check node %u has no known code", id);
        return;
    }
    PyObject *cls = check_errors[code].cls ? *check_errors[code].cls : state_import(&state.linalg_error, "numpy.linalg", "LinAlgError");
    Text text = {0};
    check_text(&text, code, t, src);
    if (cls)
        error_raise_at(cls, text.at ? text.at : check_errors[code].message, t, src);
    text_free(&text);
}
