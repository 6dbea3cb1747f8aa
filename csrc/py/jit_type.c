/* The type of jitted functions. */
#include "py/jit.h"
#include "py/error.h"
#include <stdlib.h>
#include <structmember.h>
#include "py/state.h"

/* Most nodes of a trace: a loop that unrolls without end stops here. */
static Py_ssize_t op_limit(void)
{
    const char *s = getenv("PYXLA_OP_LIMIT");
    long n = s ? strtol(s, NULL, 10) : 0;
    return n > 0 ? n : 100000;
}

static bool check_callable(PyObject *fn)
{
    if (!PyCallable_Check(fn)) {
        PyErr_Format(PyExc_TypeError, "jit() wants a callable, not a %s", Py_TYPE(fn)->tp_name);
        return false;
    }
    int flags = PyFunction_Check(fn) ? ((PyCodeObject *)PyFunction_GET_CODE(fn))->co_flags : 0;
    if (flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) {
        PyErr_SetString(PyExc_TypeError, "jit() cannot compile generators and coroutines: their calls do not return values; return the arrays, or a list of them, instead of yielding them");
        return false;
    }
    return true;
}

/* The name for messages: of the function, or of what a partial wraps, or of the type. */
static PyObject *function_name(PyObject *fn)
{
    PyObject *name = PyObject_GetAttrString(fn, "__name__");
    if (!name) {
        error_drop();
        PyObject *inner = PyObject_GetAttrString(fn, "func");
        name = inner ? PyObject_GetAttrString(inner, "__name__") : NULL;
        Py_XDECREF(inner);
    }
    if (name && PyUnicode_Check(name))
        return name;
    error_drop();
    Py_XDECREF(name);
    return PyUnicode_FromString(Py_TYPE(fn)->tp_name);
}

/* functools.update_wrapper: __wrapped__, __name__, __qualname__, __doc__, __module__, __annotations__, __dict__. */
static bool copy_attributes(PyObject *self, PyObject *fn)
{
    PyObject *functools = PyImport_ImportModule("functools");
    PyObject *r = functools ? PyObject_CallMethod(functools, "update_wrapper", "OO", self, fn) : NULL;
    Py_XDECREF(functools);
    Py_XDECREF(r);
    return r != NULL;
}

static PyObject *jit_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fn", "static_argnums", "static_argnames", "donate_argnums", "donate_argnames", "threads", "fma", "fastmath", "check_nan", "tune", NULL};
    PyObject *fn, *nums, *argnames, *donums, *donames;
    int threads, fma, fastmath, nan;
    double tune;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!O!O!O!ipppd:Jit", names, &fn, &PyTuple_Type, &nums, &PyTuple_Type, &argnames, &PyTuple_Type,
                                     &donums, &PyTuple_Type, &donames, &threads, &fma, &fastmath, &nan, &tune) || !check_callable(fn))
        return NULL;
    if (threads < 0) {
        PyErr_SetString(PyExc_ValueError, "threads: a positive number, or None for the default");
        return NULL;
    }
    Jit *jit = (Jit *)type->tp_alloc(type, 0);
    if (!jit)
        return NULL;
    jit->vectorcall = jit_vectorcall;
    jit->fn = Py_NewRef(fn);
    jit->threads = threads;
    jit->tune = tune;
    jit->options = (TraceOptions){(uint8_t)((fastmath ? MODE_FMA | MODE_FAST : fma ? MODE_FMA : 0) | (nan ? MODE_CHECK_NAN : 0)), op_limit()};
    if (!(jit->name = function_name(fn)) || !(jit->text = PyUnicode_AsUTF8(jit->name))
        || !signature_init(&jit->signature, fn, nums, argnames, donums, donames) || !copy_attributes((PyObject *)jit, fn))
        Py_CLEAR(jit);
    return (PyObject *)jit;
}

static int jit_traverse(PyObject *self, visitproc visit, void *arg)
{
    Jit *jit = (Jit *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(jit->fn);
    Py_VISIT(jit->dict);
    int r = signature_traverse(&jit->signature, visit, arg);
    if (!r)
        r = watched_traverse(&jit->watched, visit, arg);
    return r ? r : cache_traverse(&jit->cache, visit, arg);
}

static int jit_clear(PyObject *self)
{
    Jit *jit = (Jit *)self;
    cache_clear(&jit->cache);
    watched_clear(&jit->watched);
    Py_CLEAR(jit->dict);
    return 0;
}

static void jit_dealloc(PyObject *self)
{
    Jit *jit = (Jit *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (jit->weak)
        PyObject_ClearWeakRefs(self);
    jit_clear(self);
    Py_CLEAR(jit->fn);
    Py_CLEAR(jit->name);
    signature_clear(&jit->signature);
    type->tp_free(self);
    Py_DECREF(type);
}

/* Binds to an object where the function would: functions do, ufuncs do not, partials do from Python 3.14 on. */
static PyObject *jit_get(PyObject *self, PyObject *object, PyObject *type)
{
    PyObject *fn = ((Jit *)self)->fn;
    descrgetfunc get = Py_TYPE(fn)->tp_descr_get;
    if (!object || !get)
        return Py_NewRef(self);
    PyObject *bound = PyFunction_Check(fn) ? Py_NewRef(object) : get(fn, object, type);
    if (!bound)
        return NULL;
    PyObject *method = bound == fn ? Py_NewRef(self) : PyMethod_New(self, object);
    Py_DECREF(bound);
    return method;
}

static PyObject *jit_repr(PyObject *self) { return PyUnicode_FromFormat("<pyxla.jit %R>", ((Jit *)self)->fn); }

/* Pickled by its name, as functions are; copies are itself. */
static PyObject *jit_reduce(PyObject *self, PyObject *Py_UNUSED(unused)) { return PyObject_GetAttrString(self, "__qualname__"); }
static PyObject *jit_copy(PyObject *self, PyObject *Py_UNUSED(unused)) { return Py_NewRef(self); }

/* ---- cache_info ---- */

static PyStructSequence_Field info_fields[] = {
    {"hits", "calls that found their code"},
    {"misses", "calls that traced or planned"},
    {"traces", "runs of the Python function on tracers"},
    {"guards", "conditions of the entries beyond types and shapes"},
    {"compiled", "kernels that were compiled"},
    {"reused", "kernels whose code was there already"},
    {"seconds", "dict: time spent in trace, plan and compile"},
    {"code_bytes", "machine code in use"},
    {"entries", "traced signatures in the cache"},
    {"bounds", "plans in the cache: an entry has one per set of strides"},
    {NULL, NULL},
};
static PyStructSequence_Desc info_desc = {"pyxla.CacheInfo", "What the cache of a jitted function holds and what it cost.", info_fields, 10};

typedef struct { uint64_t guards, bounds, bytes; PyObject *seen; } Sums;

/* Adds the code of a bound, kernels that several bounds share once. */
static bool sum_code(Sums *s, const Bound *b)
{
    for (uint32_t k = 0; b->code && k < b->plan->kernels.len; k++) {
        PyObject *key = PyLong_FromVoidPtr(b->code[k]);
        int seen = key ? PySet_Contains(s->seen, key) : -1;
        if (seen == 0 && PySet_Add(s->seen, key) == 0)
            s->bytes += code_bytes(b->code[k]);
        Py_XDECREF(key);
        if (seen < 0)
            return false;
    }
    return true;
}

static bool sum_cache(Sums *s, const Cache *c)
{
    if (!(s->seen = PySet_New(NULL)))
        return false;
    for (int k = 0; k < CACHE_BUCKETS; k++)
        for (const Entry *e = c->chain[k]; e; e = e->next) {
            s->guards += e->nguards;
            s->bounds += e->nbounds;
            for (const Bound *b = e->bounds; b; b = b->next)
                if (!sum_code(s, b))
                    return false;
        }
    return true;
}

static PyObject *jit_cache_info(PyObject *self, PyObject *Py_UNUSED(unused))
{
    const Jit *jit = (Jit *)self;
    Sums s = {0};
    bool ok = sum_cache(&s, &jit->cache);
    Py_XDECREF(s.seen);
    PyObject *info = ok ? PyStructSequence_New((PyTypeObject *)state.cache_info_type) : NULL;
    if (!info)
        return NULL;
    const uint64_t number[] = {jit->hits, jit->misses, jit->traces, s.guards, jit->costs.compiled, jit->costs.reused, 0, s.bytes, jit->cache.entries, s.bounds};
    for (int k = 0; k < 10; k++) {
        PyObject *v = k == 6 ? Py_BuildValue("{s:d,s:d,s:d}", "trace", jit->costs.trace, "plan", jit->costs.plan, "compile", jit->costs.compile)
                             : PyLong_FromUnsignedLongLong(number[k]);
        if (!v) {
            Py_DECREF(info);
            return NULL;
        }
        PyStructSequence_SetItem(info, k, v);
    }
    return info;
}

static PyObject *jit_cache_clear(PyObject *self, PyObject *Py_UNUSED(unused))
{
    Jit *jit = (Jit *)self;
    cache_clear(&jit->cache);
    watched_clear(&jit->watched);
    jit->hits = jit->misses = jit->traces = 0;
    jit->costs = (Costs){0};
    jit->warned = false;
    Py_RETURN_NONE;
}

/* Drops all plans, not the traces. */
static PyObject *jit_replan(PyObject *self, PyObject *Py_UNUSED(unused))
{
    cache_replan(&((Jit *)self)->cache);
    Py_RETURN_NONE;
}

/* ---- the type ---- */

static PyMethodDef methods[] = {
    {"cache_info", jit_cache_info, METH_NOARGS, "cache_info()\n--\n\nHits, misses, traces, guards, kernels, seconds and bytes as a named tuple."},
    {"cache_clear", jit_cache_clear, METH_NOARGS, "cache_clear()\n--\n\nForgets all traces and plans and sets the counters to 0."},
    {"lower", (PyCFunction)(void (*)(void))jit_lower, METH_FASTCALL | METH_KEYWORDS,
     "lower(*args, **kwargs)\n--\n\nTraces for these arguments (arrays or ShapeDtype) without calling: the graph, to be read or compiled."},
    {"_replan", jit_replan, METH_NOARGS, NULL},
    {"__reduce__", jit_reduce, METH_NOARGS, NULL},
    {"__copy__", jit_copy, METH_NOARGS, NULL},
    {"__deepcopy__", jit_copy, METH_O, NULL},
    {"_eval_shape", (PyCFunction)(void (*)(void))jit_eval_shape, METH_FASTCALL | METH_KEYWORDS, NULL},
    {0},
};

static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Jit, vectorcall), READONLY},
    {"__dictoffset__", T_PYSSIZET, offsetof(Jit, dict), READONLY},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Jit, weak), READONLY},
    {0},
};

static PyGetSetDef getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "A function that is compiled for the types and shapes of its arguments; made by pyxla.jit."},
    {Py_tp_new, jit_new},
    {Py_tp_dealloc, jit_dealloc},
    {Py_tp_traverse, jit_traverse},
    {Py_tp_clear, jit_clear},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_descr_get, jit_get},
    {Py_tp_repr, jit_repr},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, getset},
    {0},
};

static PyType_Spec spec = {
    "pyxla._core.Jit", sizeof(Jit), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_IMMUTABLETYPE, slots,
};

bool jit_module_init(PyObject *module)
{
    state.cache_info_type = (PyObject *)PyStructSequence_NewType(&info_desc);
    state.jit_type = PyType_FromSpec(&spec);
    return state.cache_info_type && state.jit_type && PyModule_AddObjectRef(module, "Jit", state.jit_type) == 0
        && PyModule_AddObjectRef(module, "CacheInfo", state.cache_info_type) == 0;
}
