/* Arguments bound to a Python signature. */
#include "py/signature.h"
#include "py/error.h"
#include "py/state.h"

/* ---- the signature of a callable ---- */

static bool params_alloc(Signature *s, int n)
{
    s->params = PyMem_Calloc(n ? n : 1, sizeof *s->params);
    if (s->params)
        return true;
    s->nparams = 0;
    PyErr_NoMemory();
    return false;
}

/* A plain Python function: read off its code object, without importing inspect. */
static bool from_function(Signature *s, PyObject *fn)
{
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(fn);
    PyObject *names = PyObject_GetAttrString((PyObject *)code, "co_varnames");
    if (!names)
        return false;
    s->npos = code->co_argcount;
    s->nposonly = code->co_posonlyargcount;
    s->nparams = code->co_argcount + code->co_kwonlyargcount;
    bool ok = params_alloc(s, s->nparams);
    for (int k = 0; ok && k < s->nparams; k++)
        s->params[k].name = Py_NewRef(PyTuple_GET_ITEM(names, k));
    int next = s->nparams;
    if (ok && code->co_flags & CO_VARARGS)
        s->var = Py_NewRef(PyTuple_GET_ITEM(names, next++));
    if (ok && code->co_flags & CO_VARKEYWORDS)
        s->varkw = Py_NewRef(PyTuple_GET_ITEM(names, next));
    s->function = fn;
    Py_DECREF(names);
    return ok && !PyErr_Occurred();
}

/* Enters one inspect.Parameter; the signature's order is positional, *args, keyword-only, **kwargs. */
static bool add_parameter(Signature *s, PyObject *p)
{
    PyObject *name = PyObject_GetAttrString(p, "name"), *kind = PyObject_GetAttrString(p, "kind");
    PyObject *value = PyObject_GetAttrString(p, "default"), *empty = PyObject_GetAttrString(p, "empty");
    bool ok = name && kind && value && empty;
    long code = ok ? PyLong_AsLong(kind) : -1;    /* inspect's kinds are an IntEnum in signature order */
    if (ok && code == 2)
        s->var = Py_NewRef(name);
    else if (ok && code == 4)
        s->varkw = Py_NewRef(name);
    else if (ok) {
        s->params[s->nparams++] = (Param){.name = Py_NewRef(name), .value = value == empty ? NULL : Py_NewRef(value)};
        s->nposonly += code == 0;
        s->npos += code <= 1;
    }
    Py_XDECREF(name);
    Py_XDECREF(kind);
    Py_XDECREF(value);
    Py_XDECREF(empty);
    return ok && !PyErr_Occurred();
}

/* A callable without a signature that Python knows takes anything. */
static bool from_nothing(Signature *s)
{
    s->var = PyUnicode_InternFromString("args");
    s->varkw = PyUnicode_InternFromString("kwargs");
    return s->var && s->varkw && params_alloc(s, 0);
}

/* What a partial, bound method or jitted function calls (a reference), or NULL: it is none of them. */
static PyObject *inner_callable(PyObject *fn)
{
    PyObject *inner = NULL;
    if (PyMethod_Check(fn))
        return Py_NewRef(PyMethod_GET_FUNCTION(fn));
    if (Py_TYPE(fn) == (PyTypeObject *)state.jit_type)
        inner = PyObject_GetAttrString(fn, "__wrapped__");
    else if (!strcmp(Py_TYPE(fn)->tp_name, "functools.partial"))
        inner = PyObject_GetAttrString(fn, "func");
    if (!inner)
        error_drop();
    return inner;
}

/* Whether a call ends in a Python function, so that the signature is what it is called by: a builtin's or a ufunc's has
 * placeholders for defaults, which must not be passed on. */
static bool calls_python(PyObject *fn)
{
    PyObject *inner = inner_callable(fn);
    bool python = PyFunction_Check(fn) || (PyType_Check(fn) && PyType_HasFeature((PyTypeObject *)fn, Py_TPFLAGS_HEAPTYPE));
    if (inner)
        python = inner != fn && calls_python(inner);
    else if (!python && (inner = PyObject_GetAttrString((PyObject *)Py_TYPE(fn), "__call__")))
        python = PyFunction_Check(inner);
    error_drop();
    Py_XDECREF(inner);
    return python;
}

static bool from_inspect(Signature *s, PyObject *fn)
{
    if (!calls_python(fn))
        return from_nothing(s);
    if (!state_import(&state.inspect_signature, "inspect", "signature"))
        return false;
    PyObject *args = PyTuple_Pack(1, fn), *kw = Py_BuildValue("{s:O}", "follow_wrapped", Py_False);
    PyObject *sig = args && kw ? PyObject_Call(state.inspect_signature, args, kw) : NULL;
    Py_XDECREF(args);
    Py_XDECREF(kw);
    if (!sig) {
        if (!PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_TypeError))
            return false;
        error_drop();
        return from_nothing(s);
    }
    PyObject *map = PyObject_GetAttrString(sig, "parameters"), *list = map ? PyMapping_Values(map) : NULL;
    bool ok = list && params_alloc(s, (int)PyList_GET_SIZE(list));
    for (Py_ssize_t k = 0; ok && k < PyList_GET_SIZE(list); k++)
        ok = add_parameter(s, PyList_GET_ITEM(list, k));
    Py_XDECREF(list);
    Py_XDECREF(map);
    Py_DECREF(sig);
    return ok;
}

/* ---- static and donated arguments ---- */

static bool mark_number(Signature *s, PyObject *number, bool donate)
{
    Py_ssize_t k = PyNumber_AsSsize_t(number, PyExc_ValueError);
    if (k == -1 && PyErr_Occurred())
        return false;
    Py_ssize_t at = k < 0 ? k + s->npos : k;
    if (at >= 0 && at < s->npos) {
        *(donate ? &s->params[at].donated : &s->params[at].is_static) = true;
        return true;
    }
    if (at >= s->npos && s->var && at - s->npos < 64) {
        *(donate ? &s->var_donated : &s->var_static) |= (uint64_t)1 << (at - s->npos);
        return true;
    }
    PyErr_Format(PyExc_ValueError, "%s: there is no positional argument number %zd", donate ? "donate_argnums" : "static_argnums", k);
    return false;
}

static bool mark_name(Signature *s, PyObject *name, bool donate)
{
    for (int k = 0; k < s->nparams; k++)
        if (PyObject_RichCompareBool(s->params[k].name, name, Py_EQ) > 0) {
            *(donate ? &s->params[k].donated : &s->params[k].is_static) = true;
            return true;
        }
    if (PyErr_Occurred())
        return false;
    if (s->varkw && PyUnicode_Check(name))
        return PySet_Add(donate ? s->donate_names : s->static_names, name) == 0;
    PyErr_Format(PyExc_ValueError, "%s: there is no argument named %R", donate ? "donate_argnames" : "static_argnames", name);
    return false;
}

static bool mark_all(Signature *s, PyObject *items, bool (*mark)(Signature *, PyObject *, bool), bool donate)
{
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(items); k++)
        if (!mark(s, PyTuple_GET_ITEM(items, k), donate))
            return false;
    return true;
}

static bool check_marks(const Signature *s)
{
    bool clash = (s->var_static & s->var_donated) != 0;
    for (int k = 0; k < s->nparams; k++)
        clash |= s->params[k].is_static && s->params[k].donated;
    if (clash)
        PyErr_SetString(PyExc_ValueError, "an argument cannot be both static and donated; name it in one of the two");
    return !clash;
}

bool signature_init(Signature *s, PyObject *fn, PyObject *static_nums, PyObject *static_names, PyObject *donate_nums, PyObject *donate_names)
{
    *s = (Signature){.static_names = PySet_New(NULL), .donate_names = PySet_New(NULL)};
    bool ok = s->static_names && s->donate_names && (PyFunction_Check(fn) ? from_function(s, fn) : from_inspect(s, fn))
           && mark_all(s, static_nums, mark_number, false) && mark_all(s, static_names, mark_name, false)
           && mark_all(s, donate_nums, mark_number, true) && mark_all(s, donate_names, mark_name, true) && check_marks(s);
    s->plain = ok && s->nparams == s->npos && !s->var && !s->varkw;
    return ok;
}

void signature_clear(Signature *s)
{
    for (int k = 0; k < s->nparams; k++) {
        Py_XDECREF(s->params[k].name);
        Py_XDECREF(s->params[k].value);
    }
    PyMem_Free(s->params);
    Py_XDECREF(s->var);
    Py_XDECREF(s->varkw);
    Py_XDECREF(s->static_names);
    Py_XDECREF(s->donate_names);
    *s = (Signature){0};
}

int signature_traverse(const Signature *s, visitproc visit, void *arg)
{
    for (int k = 0; k < s->nparams; k++)
        Py_VISIT(s->params[k].value);
    return 0;
}

/* ---- binding ---- */

static bool binding_alloc(Binding *b, const Signature *s, Py_ssize_t nkw)
{
    size_t need = 2 * s->nparams + 2 * nkw;
    PyObject **at = b->buffer;
    if (need > sizeof b->buffer / sizeof *b->buffer && !(at = b->heap = PyMem_Malloc(need * sizeof *at))) {
        PyErr_NoMemory();
        return false;
    }
    memset(at, 0, need * sizeof *at);
    b->slot = at;
    b->kw_name = at + s->nparams;
    b->kw_value = b->kw_name + nkw;
    b->kept = b->kw_value + nkw;
    return true;
}

/* The parameter that a keyword names, or -1; identity first, names are nearly always interned. */
static int find_parameter(const Signature *s, PyObject *name)
{
    for (int k = s->nposonly; k < s->nparams; k++)
        if (s->params[k].name == name)
            return k;
    for (int k = s->nposonly; k < s->nparams; k++)
        if (PyUnicode_Compare(s->params[k].name, name) == 0)
            return k;
    return -1;
}

static bool bind_keyword(Binding *b, const Signature *s, const char *fn, PyObject *name, PyObject *value)
{
    int k = find_parameter(s, name);
    if (k < 0 && s->varkw) {
        b->kw_name[b->nkw] = name;
        b->kw_value[b->nkw++] = value;
        return true;
    }
    if (k < 0) {
        PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", fn, name);
        return false;
    }
    if (b->slot[k]) {
        PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%U'", fn, name);
        return false;
    }
    b->slot[k] = value;
    return true;
}

/* The default of parameter k as it is now (new reference), or NULL without an exception. */
static PyObject *parameter_default(const Signature *s, int k)
{
    if (!s->function)
        return Py_XNewRef(s->params[k].value);
    if (k >= s->npos) {
        PyObject *all = PyFunction_GET_KW_DEFAULTS(s->function);
        return Py_XNewRef(all ? PyDict_GetItem(all, s->params[k].name) : NULL);
    }
    PyObject *all = PyFunction_GET_DEFAULTS(s->function);
    Py_ssize_t at = all ? k - s->npos + PyTuple_GET_SIZE(all) : -1;
    return at < 0 ? NULL : Py_NewRef(PyTuple_GET_ITEM(all, at));
}

static bool bind_defaults(Binding *b, const Signature *s, const char *fn)
{
    for (int k = 0; k < s->nparams; k++)
        if (!b->slot[k] && (b->slot[k] = parameter_default(s, k)))
            b->kept[b->nkept++] = b->slot[k];
        else if (!b->slot[k]) {
            PyErr_Format(PyExc_TypeError, "%s() missing a required%s argument: '%U'", fn, k < s->npos ? "" : " keyword-only", s->params[k].name);
            return false;
        }
    return true;
}

bool binding_init(Binding *b, const Signature *s, const char *fn, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    b->heap = NULL;
    b->nvar = b->nkw = b->nkept = 0;
    Py_ssize_t nkw = kwnames ? PyTuple_GET_SIZE(kwnames) : 0, npos = nargs < s->npos ? nargs : s->npos;
    if (!binding_alloc(b, s, nkw))
        return false;
    if (nargs > npos && !s->var) {
        PyErr_Format(PyExc_TypeError, "%s() takes %d positional argument%s but %zd were given", fn, s->npos, s->npos == 1 ? "" : "s", nargs);
        return false;
    }
    if (npos)
        memcpy(b->slot, args, npos * sizeof *args);
    b->var = args + npos;
    b->nvar = nargs - npos;
    for (Py_ssize_t k = 0; k < nkw; k++)
        if (!bind_keyword(b, s, fn, PyTuple_GET_ITEM(kwnames, k), args[nargs + k]))
            return false;
    return bind_defaults(b, s, fn);
}

void binding_clear(Binding *b)
{
    while (b->nkept)
        Py_DECREF(b->kept[--b->nkept]);
    PyMem_Free(b->heap);
    b->heap = NULL;
}

/* ---- as a tree, and back into a call ---- */

static bool add_argument(Tree *t, PyObject *value, bool is_static, ObjectList *leaves)
{
    return is_static ? tree_leaf(t, value, leaves) : tree_flatten(t, value, leaves);
}

static bool add_keywords(const Binding *b, const Signature *s, Tree *t, ObjectList *leaves)
{
    PyObject *keys = PyTuple_New(b->nkw);
    for (Py_ssize_t k = 0; keys && k < b->nkw; k++)
        PyTuple_SET_ITEM(keys, k, Py_NewRef(b->kw_name[k]));
    bool ok = keys && tree_open(t, TREE_DICT, (uint32_t)b->nkw, keys);
    Py_XDECREF(keys);
    for (Py_ssize_t k = 0; ok && k < b->nkw; k++) {
        int is_static = PySet_Contains(s->static_names, b->kw_name[k]);
        ok = is_static >= 0 && add_argument(t, b->kw_value[k], is_static, leaves);
    }
    return ok;
}

bool binding_tree(const Binding *b, const Signature *s, Tree *t, ObjectList *leaves)
{
    bool ok = tree_open(t, TREE_TUPLE, s->nparams + (s->var != NULL) + (s->varkw != NULL), NULL);
    for (int k = 0; ok && k < s->nparams; k++)
        ok = add_argument(t, b->slot[k], s->params[k].is_static, leaves);
    if (ok && s->var)
        ok = tree_open(t, TREE_TUPLE, (uint32_t)b->nvar, NULL);
    for (Py_ssize_t k = 0; ok && s->var && k < b->nvar; k++)
        ok = add_argument(t, b->var[k], k < 64 && s->var_static >> k & 1, leaves);
    return ok && (!s->varkw || add_keywords(b, s, t, leaves));
}

PyObject *leaf_name(const Signature *s, const Tree *t, uint32_t leaf)
{
    uint32_t child;
    PyObject *path = tree_path(t, leaf, &child);
    if (!path)
        return NULL;
    PyObject *root = child < (uint32_t)s->nparams ? s->params[child].name : child == (uint32_t)s->nparams && s->var ? s->var : s->varkw;
    PyObject *name = PyUnicode_Concat(root, path);
    Py_DECREF(path);
    return name;
}

PyObject *call_bound(PyObject *fn, const Signature *s, PyObject *values)
{
    PyObject *var = s->var ? PyTuple_GET_ITEM(values, s->nparams) : NULL;
    PyObject *kw = s->varkw ? PyDict_Copy(PyTuple_GET_ITEM(values, s->nparams + (var != NULL))) : PyDict_New();
    PyObject *head = kw ? PyTuple_GetSlice(values, 0, s->npos) : NULL;
    PyObject *args = head && var ? PySequence_Concat(head, var) : Py_XNewRef(head);
    bool ok = args != NULL;
    for (int k = s->npos; ok && k < s->nparams; k++)
        ok = PyDict_SetItem(kw, s->params[k].name, PyTuple_GET_ITEM(values, k)) == 0;
    PyObject *result = ok ? PyObject_Call(fn, args, kw) : NULL;
    Py_XDECREF(args);
    Py_XDECREF(head);
    Py_XDECREF(kw);
    return result;
}
