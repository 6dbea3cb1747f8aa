#include "py/host.h"
#include "py/error.h"
#include "py/native.h"
#include "py/state.h"

enum { MOST_ARRAYS = 24, MOST_NUMBERS = 24 };

/* ---- the call at run time ---- */

PyObject *host_array(const HostArray *a, void *address, bool writable)
{
    static _Alignas(64) char empty[64];          /* an array without elements may have no address */
    npy_intp shape[MAX_RANK], stride[MAX_RANK];
    for (int k = 0; k < a->rank; k++) {
        shape[k] = a->shape[k];
        stride[k] = a->stride[k];
    }
    PyArray_Descr *descr = (PyArray_Descr *)dtype_to_numpy((Dtype)a->dtype);
    if (descr && a->swapped) {
        PyArray_Descr *native = descr;
        descr = PyArray_DescrNewByteorder(native, NPY_SWAP);
        Py_DECREF(native);
    }
    return descr ? PyArray_NewFromDescr(&PyArray_Type, descr, a->rank, shape, stride, address ? address : empty,
                                        writable ? NPY_ARRAY_WRITEABLE : 0, NULL) : NULL;
}

static bool is_empty(const HostArray *a)
{
    for (int k = 0; k < a->rank; k++)
        if (a->shape[k] == 0)
            return true;
    return false;
}

/* results, inputs..., numbers... into args, new references; how many were made: fewer than wanted with an exception. */
static uint32_t fill_arguments(const HostCall *c, void *const *address, PyObject **args)
{
    uint32_t n = 0;
    PyObject *results = args[0] = PyTuple_New(c->nout);
    bool ok = results != NULL;
    n += ok;
    for (uint32_t k = 0; ok && k < c->nout; k++) {
        void *at = address[c->nin + k];
        PyObject *a = at || is_empty(&c->arrays[c->nin + k]) ? host_array(&c->arrays[c->nin + k], at, true) : Py_NewRef(Py_None);
        ok = a != NULL;
        if (ok)
            PyTuple_SET_ITEM(results, k, a);
    }
    for (uint32_t k = 0; ok && k < c->nin; k++, n += ok)
        ok = (args[n] = host_array(&c->arrays[k], address[k], false)) != NULL;
    for (uint32_t k = 0; ok && k < c->nparams; k++, n += ok)
        ok = (args[n] = PyLong_FromLongLong(c->params[k])) != NULL;
    return ok ? n : 0;
}

/* NumPy's floating-point state in which nothing warns, for this thread until quiet_end(); jitted functions give no such warnings. np.errstate
 * does the same ten times as slowly. NULL with an exception. */
static PyObject *quiet_begin(void)
{
    PyObject *variable = state_import(&state.fp_state, "numpy._core.umath", "_extobj_contextvar");
    if (variable && !state.fp_quiet) {
        PyObject *umath = PyImport_ImportModule("numpy._core.umath");
        PyObject *make = umath ? PyObject_GetAttrString(umath, "_make_extobj") : NULL;
        PyObject *none = PyTuple_New(0), *how = Py_BuildValue("{s:s}", "all", "ignore");
        state.fp_quiet = make && none && how ? PyObject_Call(make, none, how) : NULL;
        Py_XDECREF(umath);
        Py_XDECREF(make);
        Py_XDECREF(none);
        Py_XDECREF(how);
    }
    return state.fp_quiet ? PyContextVar_Set(variable, state.fp_quiet) : NULL;
}

static bool quiet_end(PyObject *token)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    bool ok = PyContextVar_Reset(state.fp_state, token) == 0;
    Py_DECREF(token);
    if (type)
        PyErr_Restore(type, value, traceback);
    return ok && !type;
}

static bool call_function(const HostCall *c, void *const *address)
{
    PyObject *args[1 + MOST_ARRAYS + MOST_NUMBERS] = {NULL};
    uint32_t wanted = 1 + c->nin + c->nparams;
    PyObject *f = c->function < PyList_GET_SIZE(state.host_functions) ? PyList_GET_ITEM(state.host_functions, c->function) : NULL;
    PyObject *r = NULL, *quiet = quiet_begin();
    if (!quiet)
        return false;
    if (!f || wanted > sizeof args / sizeof *args)
        PyErr_Format(state.internal_error, "host function %lld is not there", (long long)c->function);
    else if (fill_arguments(c, address, args) == wanted)
        r = PyObject_Vectorcall(f, args, wanted, NULL);
    for (uint32_t k = 0; k < wanted && k < sizeof args / sizeof *args; k++)
        Py_XDECREF(args[k]);
    Py_XDECREF(r);
    return quiet_end(quiet);
}

static bool call_native(const HostCall *c, void *const *address)
{
    native_run(c, address);
    return !PyErr_Occurred();
}

/* The exception without its traceback: the frames there hold arrays whose memory goes when the run ends. */
static PyObject *take_exception(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    if (value)
        PyException_SetTraceback(value, Py_None);
    return value;
}

/* HostFn. The caller may hold the GIL or not, and may be a thread that Python does not know; a trace that it interrupts sees nothing of it. */
static bool call_host(const HostCall *c, void *const *address, void **error)
{
    NativeKind native = native_kind(c, address);
    if (native == NATIVE_FREE) {
        native_run(c, address);
        return true;
    }
    PyGILState_STATE gil = PyGILState_Ensure();
    Trace *interrupted = trace_exchange(NULL);
    bool ok = PyErr_CheckSignals() == 0 && (native ? call_native(c, address) : call_function(c, address));
    if (!ok)
        *error = take_exception();
    trace_exchange(interrupted);
    PyGILState_Release(gil);
    return ok;
}

void host_forget(HostFailure *f)
{
    Py_XDECREF((PyObject *)f->error);
    f->error = NULL;
}

/* The exception with the operation and the user's place in its message; a new reference, NULL if there is no better one. */
static PyObject *explained(PyObject *error, const Trace *t, uint32_t src)
{
    PyObject *file = NULL, *function = NULL, *r = NULL;
    int line = 0;
    const char *operation = trace_operation(t, src);
    PyObject *f = state_import(&state.explain_run, "pyxla._errors", "of_run");
    if (f && t && src && trace_source(t, src, &file, &line, &function) && file && function)
        r = PyObject_CallFunction(f, "OzOiO", error, operation, file, line, function);
    Py_XDECREF(file);
    Py_XDECREF(function);
    error_drop();
    return r;
}

void host_raise(HostFailure *f, const Plan *plan, const Trace *t)
{
    PyObject *error = f->error;
    if (!error) {
        PyErr_SetString(state.internal_error, "a host function failed without an exception");
        return;
    }
    PyObject *better = explained(error, t, node_at(plan->graph, f->call->node)->src), *raised = better ? better : error;
    PyErr_SetObject((PyObject *)Py_TYPE(raised), raised);
    Py_XDECREF(better);
    host_forget(f);
}

/* ---- the op ---- */

static PyObject *core_host_function(PyObject *Py_UNUSED(module), PyObject *f)
{
    if (PyList_Append(state.host_functions, f) < 0)
        return NULL;
    return PyLong_FromSsize_t(PyList_GET_SIZE(state.host_functions) - 1);
}

typedef struct { int64_t *at; Py_ssize_t len, room; } Attrs;

static bool push(Attrs *a, int64_t v)
{
    if (a->len == a->room) {
        PyErr_SetString(PyExc_ValueError, "host() with too many results or numbers");
        return false;
    }
    a->at[a->len++] = v;
    return true;
}

static bool push_ints(Attrs *a, PyObject *tuple)
{
    if (!PyTuple_Check(tuple)) {
        PyErr_SetString(PyExc_TypeError, "host() needs tuples of integers");
        return false;
    }
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tuple); k++) {
        int64_t v = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, k));
        if ((v == -1 && PyErr_Occurred()) || !push(a, v))
            return false;
    }
    return true;
}

/* The (dtype, shape) pairs of the results. */
static bool push_results(Trace *t, Attrs *a, PyObject *results)
{
    if (!PyTuple_Check(results) || !push(a, PyTuple_GET_SIZE(results)))
        return false;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(results); k++) {
        PyObject *dtype, *shape;
        PyArray_Descr *d = NULL;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(results, k), "OO!", &dtype, &PyTuple_Type, &shape) || !PyArray_DescrConverter(dtype, &d))
            return false;
        Dtype type = dtype_from_numpy((PyObject *)d, "result of a host function");
        Py_DECREF(d);
        Dim dims[MAX_RANK];
        int rank = type == DT_COUNT ? -1 : read_dims(t, shape, dims);
        if (rank < 0 || !push(a, type) || !push(a, rank))
            return false;
        for (int d = 0; d < rank; d++)
            if (!push(a, dims[d]))
                return false;
    }
    return true;
}

/* *layout: the worst among them, as NumPy's functions give results the order of axes of their operands. */
static bool read_inputs(Trace *t, PyObject *inputs, Id *in, Layout *layout)
{
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(inputs); k++) {
        PyObject *x = as_tracer(t, PyTuple_GET_ITEM(inputs, k));
        in[k] = x && is_tracer(x) ? tracer_node((Tracer *)x) : 0;
        if (in[k] && tracer_kept_layout((Tracer *)x) > *layout)
            *layout = tracer_kept_layout((Tracer *)x);
        Py_XDECREF(x);
        if (!in[k])
            return false;
    }
    return true;
}

static PyObject *host_items(Trace *t, Id call, Py_ssize_t n, const Id *in, int nin, Layout layout)
{
    PyObject *out = call ? PyTuple_New(n) : trace_fail(t);
    for (Py_ssize_t k = 0; out && k < n; k++) {
        int64_t at = k;
        Id item = graph_add(t->graph, OP_item, &call, 1, &at, 1, DT_COUNT, NULL, 0);
        PyObject *x = nan_check(t, item, in, nin, false) ? tracer_array(t, item, layout) : NULL;
        if (!x)
            Py_CLEAR(out);
        else
            PyTuple_SET_ITEM(out, k, x);
    }
    return out;
}

static PyObject *core_host(PyObject *Py_UNUSED(module), PyObject *args)
{
    long function;
    int c_order = 0;
    PyObject *inputs, *results, *numbers;
    int64_t words[512];
    Id in[MOST_ARRAYS];
    Attrs a = {words, 0, sizeof words / sizeof *words};
    if (!PyArg_ParseTuple(args, "lO!O!O!|p", &function, &PyTuple_Type, &inputs, &PyTuple_Type, &results, &PyTuple_Type, &numbers, &c_order))
        return NULL;
    if (PyTuple_GET_SIZE(inputs) > MOST_ARRAYS || PyTuple_GET_SIZE(numbers) > MOST_NUMBERS) {
        PyErr_SetString(PyExc_ValueError, "host() with too many inputs or numbers");
        return NULL;
    }
    Layout layout = LAYOUT_C;
    Trace *t = op_begin();
    if (!t || !push(&a, function) || !push_results(t, &a, results) || !push_ints(&a, numbers) || !read_inputs(t, inputs, in, &layout))
        return NULL;
    int nin = (int)PyTuple_GET_SIZE(inputs);
    Id call = trace_host(t->graph, in, nin, words, (int)a.len);
    if (c_order)
        layout = LAYOUT_C;
    if (call && layout != LAYOUT_C && !host_is_loop(t->graph, call))
        trace_unordered(t, call);
    return host_items(t, call, PyTuple_GET_SIZE(results), in, nin, layout);
}

static PyMethodDef host_methods[] = {
    {"host_function", core_host_function, METH_O, "host_function(f): the number of f(results, *inputs, *numbers), a pure function that a plan calls"},
    {"host", core_host, METH_VARARGS, "host(function, inputs, results, numbers, c_order=False): a tuple of arrays of these (dtype, shape), which NumPy makes in C order or in its operands'"},
    {0},
};

bool host_module_init(PyObject *module)
{
    state.host_functions = PyList_New(0);
    exec_set_host(call_host);
    return state.host_functions && PyModule_AddFunctions(module, host_methods) == 0 && native_module_init(module);
}
