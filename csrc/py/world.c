/* Clocks, files, the system's random numbers: what user code reads of the world while a trace runs would stay the same in every call, so it is
 * refused. Exchanged in place like the functions in math_hooks.c. pyxla/_effects.py tells the user's calls from those of logging, imports and
 * their like, which say nothing about results. */
#include "py/error.h"
#include "py/state.h"
#include "py/tracer.h"

/* module, name; class methods: module_class */
#define FUNCTIONS(X) \
    X(time, time) X(time, time_ns) X(time, perf_counter) X(time, perf_counter_ns) X(time, monotonic) X(time, monotonic_ns) X(time, process_time) \
    X(time, process_time_ns) X(time, thread_time) X(time, thread_time_ns) X(time, localtime) X(time, gmtime) X(time, ctime) X(time, strftime) \
    X(posix, urandom) X(posix, getrandom) X(posix, listdir) X(posix, scandir) X(posix, stat) X(posix, lstat) X(posix, open) X(posix, getcwd) X(_io, open) \
    X(posix, umask) X(posix, sched_getaffinity) X(posix, getloadavg) X(resource, getrlimit) X(resource, getrusage) X(_signal, getsignal) X(_locale, setlocale) \
    X(sys, getrecursionlimit) X(sys, getrefcount) X(gc, get_objects) X(gc, get_count) X(builtins, input) \
    X(datetime_datetime, now) X(datetime_datetime, utcnow)

enum {
#define X(module, name) WORLD_##module##_##name,
    FUNCTIONS(X)
#undef X
    WORLD_COUNT
};

typedef PyObject *(*Fast)(PyObject *, PyObject *const *, Py_ssize_t);
typedef PyObject *(*FastKeywords)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
typedef struct { const char *module, *name; PyMethodDef **at, *original, ours; } WorldHook;    /* at: where the function has its definition */
static WorldHook hooks[WORLD_COUNT] = {
#define X(module_, name_) [WORLD_##module_##_##name_] = {.module = #module_, .name = #name_},
    FUNCTIONS(X)
#undef X
};

/* Whether the call may be made; false with an exception. */
static bool allowed(const WorldHook *h)
{
    if (!trace_current())
        return true;
    PyObject *effects = trace_current()->priv->effects, *f = effects ? state_import(&state.world_read, "pyxla._effects", "world_read") : NULL;
    if (!effects)
        return true;
    PyObject *r = f ? PyObject_CallFunction(f, "Oss", effects, h->module, h->name) : NULL;
    Py_XDECREF(r);
    return r != NULL;
}

#define AS(type, h) ((type)(void (*)(void))(h).original->ml_meth)
#define X(m, n) \
    static PyObject *plain_##m##_##n(PyObject *self, PyObject *args) \
    { \
        const WorldHook *h = &hooks[WORLD_##m##_##n]; \
        return allowed(h) ? AS(PyCFunction, *h)(self, args) : NULL; \
    } \
    static PyObject *named_##m##_##n(PyObject *self, PyObject *args, PyObject *kwargs) \
    { \
        const WorldHook *h = &hooks[WORLD_##m##_##n]; \
        return allowed(h) ? AS(PyCFunctionWithKeywords, *h)(self, args, kwargs) : NULL; \
    } \
    static PyObject *fast_##m##_##n(PyObject *self, PyObject *const *args, Py_ssize_t k) \
    { \
        const WorldHook *h = &hooks[WORLD_##m##_##n]; \
        return allowed(h) ? AS(Fast, *h)(self, args, k) : NULL; \
    } \
    static PyObject *fast_named_##m##_##n(PyObject *self, PyObject *const *args, Py_ssize_t k, PyObject *names) \
    { \
        const WorldHook *h = &hooks[WORLD_##m##_##n]; \
        return allowed(h) ? AS(FastKeywords, *h)(self, args, k, names) : NULL; \
    }
FUNCTIONS(X)
#undef X

#define AS_FUNCTION(f) ((PyCFunction)(void (*)(void))f)
static const struct { PyCFunction plain, named, fast, fast_named; } trampolines[WORLD_COUNT] = {
#define X(m, n) {plain_##m##_##n, AS_FUNCTION(named_##m##_##n), AS_FUNCTION(fast_##m##_##n), AS_FUNCTION(fast_named_##m##_##n)},
    FUNCTIONS(X)
#undef X
};

static PyCFunction trampoline(int k, int flags)
{
    switch (flags & ~METH_CLASS) {
    case METH_NOARGS:
    case METH_O:
    case METH_VARARGS: return trampolines[k].plain;
    case METH_VARARGS | METH_KEYWORDS: return trampolines[k].named;
    case METH_FASTCALL: return trampolines[k].fast;
    case METH_FASTCALL | METH_KEYWORDS: return trampolines[k].fast_named;
    }
    return NULL;
}

/* The function, or what a class has under its name: a new reference, kept for ever if it is exchanged. */
static PyObject *find(const WorldHook *h)
{
    const char *bar = strchr(h->module + 1, '_');
    char module[32];
    snprintf(module, sizeof module, "%.*s", bar ? (int)(bar - h->module) : (int)strlen(h->module), h->module);
    PyObject *m = PyImport_ImportModule(module);
    if (!bar) {
        PyObject *f = m ? PyObject_GetAttrString(m, h->name) : NULL;
        Py_XDECREF(m);
        return f;
    }
    PyObject *cls = m ? PyObject_GetAttrString(m, bar + 1) : NULL, *dict = cls ? PyObject_GetAttrString(cls, "__dict__") : NULL;
    PyObject *f = dict ? PyMapping_GetItemString(dict, h->name) : NULL;
    Py_XDECREF(m);
    Py_XDECREF(cls);
    Py_XDECREF(dict);
    return f;
}

/* ---- id() ---- */

static PyMethodDef **id_at, *id_original, id_ours;

/* The number of an argument, another one in every call, would be a number of the code. (Those of arrays made in the function mean nothing outside.) */
static PyObject *own_id(PyObject *self, PyObject *x)
{
    Trace *t = is_tracer(x) ? trace_current() : NULL;
    if (t && t->priv->effects && ((Tracer *)x)->kind == TRACER_ARRAY && ((Tracer *)x)->cell->owner != OWNER_LOCAL) {
        PyObject *f = state_import(&state.identity_read, "pyxla._effects", "identity_read");
        PyObject *r = f ? PyObject_CallOneArg(f, t->priv->effects) : NULL;
        Py_XDECREF(r);
        if (!r)
            return NULL;
    }
    return id_original->ml_meth(self, x);
}

static PyMethodDef **definition(PyObject *f)
{
    if (PyCFunction_CheckExact(f))
        return &((PyCFunctionObject *)f)->m_ml;
    return Py_TYPE(f) == &PyClassMethodDescr_Type ? &((PyMethodDescrObject *)f)->d_method : NULL;
}

/* A function that this Python or system has not, or of another calling convention, stays as it is. */
static void prepare(int k)
{
    WorldHook *h = &hooks[k];
    PyObject *f = find(h);
    PyMethodDef **at = f ? definition(f) : NULL;
    PyCFunction ours = at ? trampoline(k, (*at)->ml_flags) : NULL;
    if (ours) {
        h->at = at;
        h->original = *at;
        h->ours = **at;
        h->ours.ml_meth = ours;
    } else
        Py_XDECREF(f);
    PyErr_Clear();
}

void world_hooks_init(void)
{
    for (int k = 0; k < WORLD_COUNT; k++)
        prepare(k);
    PyObject *f = PyDict_GetItemString(PyEval_GetBuiltins(), "id");
    if (f && PyCFunction_CheckExact(f) && ((PyCFunctionObject *)f)->m_ml->ml_flags == METH_O) {
        id_at = &((PyCFunctionObject *)Py_NewRef(f))->m_ml;
        id_original = *id_at;
        id_ours = **id_at;
        id_ours.ml_meth = own_id;
    }
}

void world_hooks_exchange(bool ours)
{
    for (int k = 0; k < WORLD_COUNT; k++)
        if (hooks[k].at)
            *hooks[k].at = ours ? &hooks[k].ours : hooks[k].original;
    if (id_at)
        *id_at = ours ? &id_ours : id_original;
}
