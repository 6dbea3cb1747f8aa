/* Where the user wrote an operation: (code object, instruction), interned per trace, decoded only for messages. */
#include "py/tracer.h"
#include "py/error.h"
#include "py/state.h"
#include "base/hash.h"
#include <frameobject.h>

static PyObject *frame_globals(PyFrameObject *f)
{
#if PY_VERSION_HEX >= 0x030B0000
    return PyFrame_GetGlobals(f);
#else
    return Py_NewRef(f->f_globals);
#endif
}

static int frame_lasti(PyFrameObject *f)
{
#if PY_VERSION_HEX >= 0x030B0000
    return PyFrame_GetLasti(f);
#else
    return f->f_lasti * 2;    /* 3.10 counts instructions, PyCode_Addr2Line() bytes */
#endif
}

static bool in_package(const char *name, const char *package, size_t n)
{
    return !strncmp(name, package, n) && (name[n] == 0 || name[n] == '.');
}

/* FRAME_XP: pyxla.xp and numpy.polynomial, plain Python over NumPy's functions, which they call for the user, as code of the user's would. */
enum { FRAME_USER, FRAME_NUMPY = 1, FRAME_PYXLA = 2, FRAME_XP = 3 };
static int frame_owner(PyFrameObject *f)
{
    PyObject *globals = frame_globals(f);
    PyObject *name = globals ? PyDict_GetItemWithError(globals, state.str_name) : NULL;
    const char *s = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    int owner = !s ? FRAME_USER : in_package(s, "numpy.polynomial", 16) ? FRAME_XP : in_package(s, "numpy", 5) ? FRAME_NUMPY : in_package(s, "pyxla.xp", 8) ? FRAME_XP : in_package(s, "pyxla", 5) ? FRAME_PYXLA : FRAME_USER;
    Py_XDECREF(globals);
    return owner;
}

bool caller_is_numpy(void)
{
    PyFrameObject *f = PyEval_GetFrame();
    int owner = f ? frame_owner(f) : FRAME_USER;
    return owner == FRAME_NUMPY || owner == FRAME_PYXLA;
}

bool package_asks(const char *package)
{
    PyFrameObject *f = PyEval_GetFrame();
    PyObject *globals = f ? frame_globals(f) : NULL, *name = globals ? PyDict_GetItemWithError(globals, state.str_name) : NULL;
    const char *s = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    bool asks = s && in_package(s, package, strlen(package));
    Py_XDECREF(globals);
    return asks;
}

bool numpy_asks(void) { return package_asks("numpy"); }

bool dispatcher_asks(void)
{
    PyFrameObject *f = PyEval_GetFrame();
    PyCodeObject *code = f ? PyFrame_GetCode(f) : NULL;
    const char *name = code ? PyUnicode_AsUTF8(code->co_name) : NULL;
    size_t n = name ? strlen(name) : 0;
    bool asks = name && (!strcmp(name, "iterable") || (n > 11 && !strcmp(name + n - 11, "_dispatcher")));
    Py_XDECREF(code);
    return asks && numpy_asks();
}

/* Whether a frame's code is ours or NumPy's, remembered by code object. */
static bool frame_internal(Trace *t, PyFrameObject *f, PyObject *code)
{
    __typeof__(t->priv->frames[0]) *seen = &t->priv->frames[(uintptr_t)code >> 5 & 63];
    if (seen->code != code) {
        Py_XSETREF(seen->code, Py_NewRef(code));
        seen->internal = frame_owner(f) != FRAME_USER;
    }
    return seen->internal;
}

static bool same_text(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

static uint64_t text_hash(const char *s, uint64_t seed) { return s ? hash_bytes(s, strlen(s), seed) : seed; }

static uint32_t *source_slot(struct TracePrivate *p, const Source *want)
{
    uint64_t texts = text_hash(want->message, text_hash(want->operation, (uint64_t)want->lasti));
    uint32_t mask = p->source_cap - 1, i = (uint32_t)hash_mix((uintptr_t)want->code, texts) & mask;
    while (p->source_table[i]) {
        Source *s = &p->sources.at[p->source_table[i] - 1];
        if (s->code == want->code && s->lasti == want->lasti && same_text(s->operation, want->operation) && same_text(s->message, want->message))
            break;
        i = (i + 1) & mask;
    }
    return &p->source_table[i];
}

static bool grow_table(struct TracePrivate *p)
{
    uint32_t cap = p->source_cap ? p->source_cap * 2 : 64, *table = PyMem_Calloc(cap, sizeof *table);
    if (!table)
        return false;
    PyMem_Free(p->source_table);
    p->source_table = table;
    p->source_cap = cap;
    for (uint32_t k = 0; k < p->sources.len; k++)
        *source_slot(p, &p->sources.at[k]) = k + 1;
    return true;
}

static const char *text_kept(Trace *t, const char *s) { return s ? arena_dup(t->arena, s, strlen(s) + 1) : NULL; }

static uint32_t source_intern(Trace *t, Source want)
{
    struct TracePrivate *p = t->priv;
    if (p->sources.len * 2 >= p->source_cap && !grow_table(p))
        return 0;
    uint32_t *slot = source_slot(p, &want);
    if (*slot)
        return *slot;
    Source *s = vec_push(t->arena, &p->sources);
    if (!s)
        return 0;
    *s = (Source){Py_NewRef(want.code), want.lasti, text_kept(t, want.operation), text_kept(t, want.message)};
    return *slot = p->sources.len;
}

uint32_t source_here(Trace *t)
{
    bool failed = PyErr_Occurred() != NULL;
    PyFrameObject *f = PyEval_GetFrame();
    Py_XINCREF(f);
    uint32_t id = 0;
    while (f) {
        PyObject *code = (PyObject *)PyFrame_GetCode(f);
        bool internal = frame_internal(t, f, code);
        if (!internal)
            id = source_intern(t, (Source){code, frame_lasti(f), NULL, NULL});
        Py_DECREF(code);
        PyFrameObject *back = internal ? PyFrame_GetBack(f) : NULL;
        Py_DECREF(f);
        f = back;
    }
    if (!failed && PyErr_Occurred())
        error_drop();    /* no memory to look at a frame: the place is unknown, which is no failure */
    return id;
}

bool source_is_user(Trace *t)
{
    PyFrameObject *f = PyEval_GetFrame();
    PyObject *code = f ? (PyObject *)PyFrame_GetCode(f) : NULL;
    bool user = code && !frame_internal(t, f, code);
    Py_XDECREF(code);
    return user;
}

uint32_t source_named(Trace *t, uint32_t src, const char *operation, const char *message)
{
    if (!src || src > t->priv->sources.len)
        return 0;
    Source s = t->priv->sources.at[src - 1];
    return source_intern(t, (Source){s.code, s.lasti, operation, message});
}

static const Source *source_at(const Trace *t, uint32_t src) { return t && src && src <= t->priv->sources.len ? &t->priv->sources.at[src - 1] : NULL; }

const char *trace_operation(const Trace *t, uint32_t src)
{
    const Source *s = source_at(t, src);
    return s ? s->operation : NULL;
}

const char *trace_message(const Trace *t, uint32_t src)
{
    const Source *s = source_at(t, src);
    return s ? s->message : NULL;
}

bool trace_source(const Trace *t, uint32_t src, PyObject **file, int *line, PyObject **function)
{
    *file = *function = NULL;
    *line = 0;
    if (!src || !t || src > t->priv->sources.len)
        return false;
    Source s = t->priv->sources.at[src - 1];
    PyCodeObject *code = (PyCodeObject *)s.code;
    *line = PyCode_Addr2Line(code, s.lasti);
    *file = Py_NewRef(code->co_filename);
    *function = Py_NewRef(code->co_name);
    return true;
}
