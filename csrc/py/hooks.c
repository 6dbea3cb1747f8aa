/* Creation functions have no override protocol in NumPy, so while a trace runs the C functions themselves are redirected, in place: every
 * reference to them, however it was obtained, then makes tracers in user code of a tracing thread. Everybody else gets the original.
 *
 * Uses two things that are no documented protocol: PyCFunctionObject.m_ml is exchanged, and slots of NumPy's types. Flags are checked first;
 * a function that is not as expected stays as it is. PYXLA_HOOKS=0 leaves all as it is. */
#include "py/tracer.h"
#include "py/error.h"
#include "py/state.h"
#include "run/caller.h"

#define CREATORS(X) X(empty) X(zeros) X(array) X(asarray) X(asanyarray) X(ascontiguousarray) X(asfortranarray) X(arange)

enum {
#define X(name) HOOK_##name,
    CREATORS(X)
#undef X
    HOOK_COUNT
};

typedef PyObject *(*FastFunction)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
typedef struct {
    const char *name;
    PyCFunctionObject *function;  /* NumPy's; NULL: not hooked */
    PyMethodDef *original, ours;
    PyObject *creator;
} Hook;
static Hook hooks[HOOK_COUNT] = {
#define X(id) [HOOK_##id] = {.name = #id},
    CREATORS(X)
#undef X
};
static int active;                /* running traces of the process */
static bool disabled;
static PyObject *shims;           /* of _creation.py: (function, its code, ours) */

/* The interpreter's code is known by a function that no version defines in a header, as 3.10 does PyObject_Vectorcall. */
static const void *const interpreter = (const void *)PyEval_EvalCode;

/* Compiled extensions have no Python frame: what they make for themselves is not the user's array. */
static bool redirected(const Hook *h)
{
    return trace_current() && h->creator && !caller_is_numpy() && !caller_is_foreign(interpreter);
}

static PyObject *call_fast(const Hook *h, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    if (redirected(h))
        return PyObject_Vectorcall(h->creator, args, (size_t)n, kwnames);
    return ((FastFunction)(void (*)(void))h->original->ml_meth)(self, args, n, kwnames);
}

static PyObject *call_tuple(const Hook *h, PyObject *self, PyObject *args, PyObject *kwargs)
{
    if (redirected(h))
        return PyObject_Call(h->creator, args, kwargs);
    return ((PyCFunctionWithKeywords)(void (*)(void))h->original->ml_meth)(self, args, kwargs);
}

#define X(name) \
    static PyObject *fast_##name(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames) \
    { \
        return call_fast(&hooks[HOOK_##name], self, args, n, kwnames); \
    } \
    static PyObject *tuple_##name(PyObject *self, PyObject *args, PyObject *kwargs) \
    { \
        return call_tuple(&hooks[HOOK_##name], self, args, kwargs); \
    }
CREATORS(X)
#undef X

static const struct { PyCFunction fast, tuple; } trampolines[HOOK_COUNT] = {
#define X(name) {(PyCFunction)(void (*)(void))fast_##name, (PyCFunction)(void (*)(void))tuple_##name},
    CREATORS(X)
#undef X
};

static void hook_prepare(Hook *h, int k, PyObject *np)
{
    PyObject *f = PyObject_GetAttrString(np, h->name);
    if (f && PyCFunction_CheckExact(f)) {
        PyMethodDef *def = ((PyCFunctionObject *)f)->m_ml;
        bool fast = def->ml_flags == (METH_FASTCALL | METH_KEYWORDS), tuple = def->ml_flags == (METH_VARARGS | METH_KEYWORDS);
        if (fast || tuple) {
            h->function = (PyCFunctionObject *)Py_NewRef(f);
            h->original = def;
            h->ours = *def;
            h->ours.ml_meth = fast ? trampolines[k].fast : trampolines[k].tuple;
        }
    }
    Py_XDECREF(f);
    error_drop();
}

/* ---- NumPy's scalar types called with a tracer ---- */

#define NTYPES 16
static struct { PyTypeObject *type; newfunc original; } types[NTYPES];

static newfunc original_new(PyTypeObject *type)
{
    for (PyTypeObject *base = type; base; base = base->tp_base)
        for (int k = 0; k < NTYPES; k++)
            if (types[k].type == base)
                return types[k].original;
    return NULL;
}

static PyObject *scalar_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *x = PyTuple_GET_SIZE(args) == 1 ? PyTuple_GET_ITEM(args, 0) : NULL;
    if (!x || !(is_tracer(x) || is_extent(x)) || !trace_current()) {
        newfunc original = original_new(type);
        return original ? original(type, args, kwargs) : PyErr_Format(PyExc_TypeError, "cannot create a %s", type->tp_name);
    }
    PyObject *cast = core_item(core_creators, "scalar"), *value = is_extent(x) ? (PyObject *)extent_tracer(x) : Py_NewRef(x);
    PyObject *r = cast && value ? PyObject_CallFunctionObjArgs(cast, type, value, NULL) : NULL;
    Py_XDECREF(value);
    return r;
}

static void save_types(void)
{
    PyTypeObject *const all[NTYPES] = {
        &PyBoolArrType_Type, &PyByteArrType_Type, &PyShortArrType_Type, &PyIntArrType_Type, &PyLongArrType_Type, &PyLongLongArrType_Type,
        &PyUByteArrType_Type, &PyUShortArrType_Type, &PyUIntArrType_Type, &PyULongArrType_Type, &PyULongLongArrType_Type,
        &PyHalfArrType_Type, &PyFloatArrType_Type, &PyDoubleArrType_Type, &PyCFloatArrType_Type, &PyCDoubleArrType_Type,
    };
    for (int k = 0; k < NTYPES; k++) {
        types[k].type = all[k];
        types[k].original = all[k]->tp_new;
    }
}

static void exchange_types(bool ours)
{
    for (int k = 0; k < NTYPES; k++)
        types[k].type->tp_new = ours ? scalar_new : types[k].original;
}

/* ---- on and off ---- */

bool hooks_init(void)
{
    const char *off = getenv("PYXLA_HOOKS");
    disabled = off && !strcmp(off, "0");
    PyObject *np = PyImport_ImportModule("numpy._core._multiarray_umath");    /* NumPy's own, whatever np.zeros is now */
    for (int k = 0; np && k < HOOK_COUNT; k++)
        hook_prepare(&hooks[k], k, np);
    save_types();
    Py_XDECREF(np);
    if (!np)
        return false;
    cached_hooks_init();
    world_hooks_init();
    frames_init();
    lent_init();
    return adopt_init() && math_hooks_init() && type_hook_init();
}

static bool evaluating;

static PyObject *probe(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    (void)self, (void)args, (void)n, (void)kwnames;
    caller_learn(interpreter, evaluating);
    Py_RETURN_NONE;
}
static PyMethodDef probe_method = {"probe", (PyCFunction)(void (*)(void))probe, METH_FASTCALL | METH_KEYWORDS, NULL};

static bool dropped(PyObject *o)
{
    Py_XDECREF(o);
    return o != NULL;
}

/* Shows caller.c a call as extensions make it and, from `calls`, as Python code does. */
static bool learn_caller(PyObject *calls)
{
    PyObject *f = PyCFunction_New(&probe_method, NULL), *none = f ? PyTuple_New(0) : NULL;
    evaluating = false;
    bool ok = none && dropped(PyObject_CallOneArg(f, Py_None)) && dropped(PyObject_Call(f, none, NULL)) && dropped(PyObject_CallNoArgs(f))
        && dropped(PyObject_CallFunction(f, "i", 1)) && dropped(PyObject_CallFunctionObjArgs(f, Py_None, NULL))
        && dropped(PyObject_CallObject(f, none)) && dropped(PyObject_Vectorcall(f, &none, 1, NULL));
    evaluating = true;
    ok = ok && dropped(PyObject_CallOneArg(calls, f));
    Py_XDECREF(f);
    Py_XDECREF(none);
    return ok;
}

static bool find_creators(void)
{
    PyObject *found[HOOK_COUNT];
    for (int k = 0; k < HOOK_COUNT; k++)
        if (!(found[k] = core_item(core_creators, hooks[k].name)) && PyErr_Occurred())
            return false;
    for (int k = 0; k < HOOK_COUNT; k++)
        hooks[k].creator = found[k];
    return true;
}

/* pyxla/_creation.py, imported at the first trace, which registers what the hooks call. */
static bool load_creators(void)
{
    if (shims)
        return true;
    PyObject *module = PyImport_ImportModule("pyxla._creation");
    PyObject *calls = module ? PyObject_GetAttrString(module, "calls") : NULL, *f = calls ? PyObject_GetAttrString(module, "shims") : NULL;
    PyObject *made = f && learn_caller(calls) && find_creators() ? PyObject_CallNoArgs(f) : NULL;
    if (!shims && made)
        shims = Py_NewRef(made);
    Py_XDECREF(made);
    Py_XDECREF(module);
    Py_XDECREF(calls);
    Py_XDECREF(f);
    return shims != NULL;
}

/* NumPy's functions in Python, by their code. In C, so that no signal's handler runs, and raises, half way. */
static void exchange_code(bool ours)
{
    PyObject *type, *value, *where;
    PyErr_Fetch(&type, &value, &where);
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(shims); k++) {
        PyObject *shim = PyTuple_GET_ITEM(shims, k);
        if (PyObject_SetAttr(PyTuple_GET_ITEM(shim, 0), state.str_code, PyTuple_GET_ITEM(shim, ours ? 2 : 1)) < 0)
            PyErr_WriteUnraisable(PyTuple_GET_ITEM(shim, 0));
    }
    PyErr_Restore(type, value, where);
}

bool hooks_enabled(void) { return !disabled; }

bool hooks_enter(void)
{
    if (!load_creators())
        return false;
    if (active++ || disabled)
        return true;
    for (int k = 0; k < HOOK_COUNT; k++)
        if (hooks[k].function)
            hooks[k].function->m_ml = &hooks[k].ours;
    exchange_types(true);
    adopt_exchange(true);
    lent_exchange(true);
    math_hooks_exchange(true);
    type_hook_exchange(true);
    cached_hooks_exchange(true);
    world_hooks_exchange(true);
    frames_exchange(true);
    exchange_code(true);
    return true;
}

void hooks_leave(void)
{
    if (--active || disabled)
        return;
    for (int k = 0; k < HOOK_COUNT; k++)
        if (hooks[k].function)
            hooks[k].function->m_ml = hooks[k].original;
    exchange_types(false);
    adopt_exchange(false);
    lent_exchange(false);
    math_hooks_exchange(false);
    type_hook_exchange(false);
    cached_hooks_exchange(false);
    world_hooks_exchange(false);
    frames_exchange(false);
    exchange_code(false);
}
