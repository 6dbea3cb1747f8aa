/* Captured state: what the function's code can read besides its arguments. pyxla/_capture.py finds it, an entry checks it. */
#include "py/capture.h"
#include "py/dict_version.h"
#include "py/error.h"
#include "py/state.h"
#include "py/tracer.h"
#include <structmember.h>

/* Whether a leaf has nothing to walk to: an array, or a number. */
static bool is_plain_leaf(PyObject *leaf)
{
    return !leaf || leaf == Py_None || PyArray_CheckExact(leaf) || PyFloat_CheckExact(leaf) || PyLong_CheckExact(leaf) || PyBool_Check(leaf);
}

/* The walk of an earlier trace, if its steps still hold (a new reference); NULL without an exception: there is none. It is out of `w` meanwhile, since what is asked
 * here may run others' code. */
static PyObject *walked_before(Watched *w, PyObject *const *leaves, int n)
{
    for (int k = 0; k < n; k++)
        if (!is_plain_leaf(leaves[k]))
            return NULL;
    if (!w->walk)
        return NULL;
    Watched mine = *w;
    *w = (Watched){0};
    int holds = steps_check(&mine.steps, NULL, NULL);
    error_drop();
    PyObject *walk = holds == 1 ? Py_NewRef(mine.walk) : NULL;
    if (walk && !w->walk)
        *w = mine;
    else
        watched_clear(&mine);
    return walk;
}

static void remember_walk(Watched *w, PyObject *walk, PyObject *steps)
{
    Watched mine = {.walk = walk == Py_None ? NULL : Py_NewRef(walk)};
    if (mine.walk && !steps_add(&mine.steps, steps)) {
        error_drop();
        watched_clear(&mine);
    }
    Watched old = *w;
    *w = mine;
    watched_clear(&old);
}

/* (steps, effects, walk) of the function, or of an earlier walk; a new reference. */
static PyObject *find_steps(PyObject *function, PyObject *walk, PyObject *const *leaves, int n)
{
    PyObject *find = walk ? state_import(&state.steps_again, "pyxla._capture", "steps_again") : state_import(&state.steps, "pyxla._capture", "steps");
    if (!find || walk)
        return find ? PyObject_CallOneArg(find, walk) : NULL;
    PyObject *tuple = PyTuple_New(n);
    for (int k = 0; tuple && k < n; k++)
        PyTuple_SET_ITEM(tuple, k, Py_NewRef(leaves[k] ? leaves[k] : Py_None));
    PyObject *found = tuple ? PyObject_CallFunctionObjArgs(find, function, tuple, NULL) : NULL;
    Py_XDECREF(tuple);
    return found;
}

bool trace_watch(Trace *t, PyObject *function, PyObject *const *leaves, int n)
{
    Watched *w = t->options.watched;
    t->options.watched = NULL;
    PyObject *before = w ? walked_before(w, leaves, n) : NULL, *found = find_steps(function, before, leaves, n), *steps, *effects, *walk;
    bool ok = found && PyArg_ParseTuple(found, "OOO", &steps, &effects, &walk) && guard_steps(t->guards, steps);
    if (ok) {
        t->priv->effects = Py_NewRef(effects);
        PyObject *bools = PyObject_GetAttrString(effects, "bools");
        ok = bools != NULL;
        t->priv->bools = bools == Py_True;
        Py_XDECREF(bools);
    }
    if (ok && w && !before)
        remember_walk(w, walk, steps);
    Py_XDECREF(before);
    Py_XDECREF(found);
    return ok;
}

void watched_clear(Watched *w)
{
    Watched old = *w;
    *w = (Watched){0};
    Py_XDECREF(old.walk);
    steps_clear(&old.steps);
}

int watched_traverse(const Watched *w, visitproc visit, void *arg)
{
    Py_VISIT(w->walk);
    return steps_traverse(&w->steps, visit, arg);
}

/* ---- the list ---- */

static bool read_step(PyObject *tuple, int index, int first, Step *out)
{
    int kind;
    if (!PyTuple_Check(tuple) || !PyArg_ParseTuple(tuple, "iiO|O", &kind, &out->parent, &out->key, &out->expected))
        return false;
    out->kind = (StepKind)kind;
    bool child = kind != STEP_LEAF && kind != STEP_OBJECT;
    if (kind < STEP_OBJECT || kind > STEP_NAMES || (child && (out->parent < 0 || out->parent >= index))) {
        PyErr_SetString(error_class(ERR_INTERNAL), "a guard with a bad step");
        return false;
    }
    if (child)
        out->parent += first;
    if (kind == STEP_LEAF)
        out->expected = NULL;     /* each call brings its own; the cache keeps no argument alive */
    Py_INCREF(out->key);
    Py_XINCREF(out->expected);
    return true;
}

bool steps_add(Steps *s, PyObject *list)
{
    Py_ssize_t n = PyList_Check(list) ? PyList_GET_SIZE(list) : 0;
    Step *at = PyMem_Realloc(s->at, (size_t)(s->n + n + 1) * sizeof *at);
    if (!at) {
        PyErr_NoMemory();
        return false;
    }
    s->at = at;
    memset(at + s->n, 0, (size_t)n * sizeof *at);
    for (int k = 0, first = s->n; k < n; k++, s->n++)
        if (!read_step(PyList_GET_ITEM(list, k), k, first, &s->at[s->n]))
            return false;
    return true;
}

void steps_clear(Steps *s)
{
    for (int k = 0; k < s->n; k++) {
        Py_XDECREF(s->at[k].key);
        Py_XDECREF(s->at[k].expected);
    }
    PyMem_Free(s->at);
    *s = (Steps){0};
}

int steps_traverse(const Steps *s, visitproc visit, void *arg)
{
    for (int k = 0; k < s->n; k++) {
        Py_VISIT(s->at[k].key);
        Py_VISIT(s->at[k].expected);
    }
    return 0;
}

/* ---- one step ---- */

int same_value(PyObject *a, PyObject *b)
{
    if (a == b)
        return 1;
    if (Py_TYPE(a) != Py_TYPE(b))
        return 0;
    if (PyFloat_CheckExact(a)) {
        double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
        return !memcmp(&x, &y, sizeof x);
    }
    if (PyComplex_CheckExact(a)) {
        Py_complex x = PyComplex_AsCComplex(a), y = PyComplex_AsCComplex(b);
        return !memcmp(&x, &y, sizeof x);
    }
    if (PyLong_CheckExact(a) || PyUnicode_CheckExact(a) || PyBytes_CheckExact(a) || PyArray_IsScalar(a, Generic))
        return PyObject_RichCompareBool(a, b, Py_EQ);
    return 0;
}

static int tuple_holds(PyObject *found, PyObject *expected)
{
    Py_ssize_t n = PyTuple_GET_SIZE(expected);
    int same = PyTuple_GET_SIZE(found) == n;
    for (Py_ssize_t k = 0; k < n && same > 0; k++)
        same = same_value(PyTuple_GET_ITEM(expected, k), PyTuple_GET_ITEM(found, k));
    return same;
}

static int items_hold(PyObject *container, PyObject *items)
{
    Py_ssize_t n = PyTuple_GET_SIZE(items);
    if (PyDict_CheckExact(container)) {
        if (PyDict_GET_SIZE(container) * 2 != n)
            return 0;
        PyObject *key, *value;
        Py_ssize_t at = 0, k = 0;
        int same = 1;
        while (same > 0 && PyDict_Next(container, &at, &key, &value)) {
            same = same_value(PyTuple_GET_ITEM(items, k), key);
            if (same > 0)
                same = same_value(PyTuple_GET_ITEM(items, k + 1), value);
            k += 2;
        }
        return same;
    }
    if (!PyList_CheckExact(container) || PyList_GET_SIZE(container) != n)
        return 0;
    int same = 1;
    for (Py_ssize_t k = 0; k < n && same > 0; k++)
        same = same_value(PyTuple_GET_ITEM(items, k), PyList_GET_ITEM(container, k));
    return same;
}

static int probe_holds(const Step *s, PyObject *object)
{
    PyObject *found = PyObject_CallOneArg(s->key, object);
    int same = !found ? -1 : PyTuple_Check(found) && tuple_holds(found, s->expected);
    Py_XDECREF(found);
    return same;
}

/* One that raises is traced again, and raises there. */
static int call_holds(const Step *s, PyObject *object)
{
    PyObject *kwargs = PyTuple_GET_ITEM(s->key, 1), *found = PyObject_Call(object, PyTuple_GET_ITEM(s->key, 0), kwargs == Py_None ? NULL : kwargs);
    int same = found ? same_value(s->expected, found) : PyErr_ExceptionMatches(PyExc_Exception) ? 0 : -1;
    if (!found && !same)
        error_drop();
    Py_XDECREF(found);
    return same;
}

/* ---- headers of arrays ---- */

enum { HEADER_FLAGS = NPY_ARRAY_WRITEABLE | NPY_ARRAY_ALIGNED | NPY_ARRAY_OWNDATA };

static int fill_header(PyArrayObject *a, int64_t *out)
{
    int n = 0;
    out[n++] = PyArray_FLAGS(a) & HEADER_FLAGS;
    out[n++] = (int64_t)(intptr_t)PyArray_DESCR(a);
    for (int k = 0; k < PyArray_NDIM(a); k++) {
        out[n++] = PyArray_DIM(a, k);
        out[n++] = PyArray_STRIDE(a, k);
    }
    return n;
}

PyObject *array_header(PyObject *array)
{
    int64_t words[2 + 2 * NPY_MAXDIMS];
    if (!PyArray_Check(array)) {
        PyErr_SetString(PyExc_TypeError, "array_header() needs an array");
        return NULL;
    }
    int n = fill_header((PyArrayObject *)array, words);
    return PyBytes_FromStringAndSize((const char *)words, n * (Py_ssize_t)sizeof *words);
}

static int array_holds(PyObject *array, PyObject *header)
{
    int64_t words[2 + 2 * NPY_MAXDIMS];
    int n = PyArray_Check(array) ? fill_header((PyArrayObject *)array, words) : 0;
    return PyBytes_GET_SIZE(header) == n * (Py_ssize_t)sizeof *words && !memcmp(PyBytes_AS_STRING(header), words, (size_t)n * sizeof *words);
}

static int function_holds(PyObject *f, PyObject *expected)
{
    if (!PyFunction_Check(f))
        return 0;
    PyObject *parts[3] = {PyFunction_GET_CODE(f), PyFunction_GET_DEFAULTS(f), PyFunction_GET_KW_DEFAULTS(f)};
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(expected) && k < 3; k++)
        if ((parts[k] ? parts[k] : Py_None) != PyTuple_GET_ITEM(expected, k))
            return 0;
    return 1;
}

/* ---- classes ---- */

/* A number that changes when the class or one of its bases does; 0: it has none now. */
static unsigned class_version(const PyTypeObject *t)
{
#if PY_VERSION_HEX < 0x030C0000
    if (!PyType_HasFeature((PyTypeObject *)t, Py_TPFLAGS_VALID_VERSION_TAG))
        return 0;
#endif
    return t->tp_version_tag;
}

/* What a class itself has under a name (new reference); NULL without an exception: nothing. */
static PyObject *class_item(PyObject *cls, PyObject *name)
{
#if PY_VERSION_HEX >= 0x030C0000
    PyObject *dict = PyType_GetDict((PyTypeObject *)cls);
#else
    PyObject *dict = Py_XNewRef(((PyTypeObject *)cls)->tp_dict);
#endif
    PyObject *item = dict ? Py_XNewRef(PyDict_GetItemWithError(dict, name)) : NULL;
    Py_XDECREF(dict);
    return item;
}

/* The names of `expected` after the __mro__, three items each: class, name, value. */
static int class_items_hold(PyObject *expected, PyObject *nothing)
{
    int same = 1;
    for (Py_ssize_t k = 1; k + 2 < PyTuple_GET_SIZE(expected) && same > 0; k += 3) {
        PyObject *found = class_item(PyTuple_GET_ITEM(expected, k), PyTuple_GET_ITEM(expected, k + 1));
        if (!found && PyErr_Occurred())
            return -1;
        same = same_value(PyTuple_GET_ITEM(expected, k + 2), found ? found : nothing);
        Py_XDECREF(found);
    }
    return same;
}

static int class_holds(Step *s, PyObject *cls)
{
    if (!PyType_Check(cls))
        return 0;
    PyTypeObject *t = (PyTypeObject *)cls;
    if (s->tag && class_version(t) == s->tag)
        return 1;
    int same = tuple_holds(t->tp_mro, PyTuple_GET_ITEM(s->expected, 0));
    if (same > 0)
        same = class_items_hold(s->expected, s->key);
    if (same > 0) {               /* looking up any attribute of the class gives it a version */
        Py_XDECREF(PyObject_GetAttrString(cls, "__init__"));
        error_drop();
        s->tag = class_version(t);
    }
    return same;
}

/* ---- names of modules ---- */

static int names_hold(Step *s, PyObject *dict)
{
    uint64_t version = dict_version(dict);
    if (s->tag && version == s->tag)
        return 1;
    int same = PyDict_Check(dict);
    for (Py_ssize_t k = 0; k + 1 < PyTuple_GET_SIZE(s->expected) && same > 0; k += 2) {
        PyObject *found = PyDict_GetItemWithError(dict, PyTuple_GET_ITEM(s->expected, k));
        if (!found && PyErr_Occurred())
            return -1;
        same = same_value(PyTuple_GET_ITEM(s->expected, k + 1), found ? found : s->key);
    }
    if (same > 0)
        s->tag = version;
    return same;
}

/* ---- checking ---- */

static PyObject *dict_item(PyObject *dict, PyObject *key) { return Py_XNewRef(dict ? PyDict_GetItemWithError(dict, key) : NULL); }

static PyObject *own_item(PyObject *object, PyObject *key)
{
    PyObject *dict = PyObject_GenericGetDict(object, NULL), *item = dict_item(dict, key);
    Py_XDECREF(dict);
    return item;
}

static PyObject *weak_target(PyObject *ref)
{
    PyObject *target = NULL;
#if PY_VERSION_HEX >= 0x030D0000
    if (PyWeakref_Check(ref))
        PyWeakref_GetRef(ref, &target);
#else
    if (PyWeakref_Check(ref) && (target = PyWeakref_GetObject(ref)) != Py_None)
        return Py_XNewRef(target);
    target = NULL;
#endif
    return target;
}

/* The place of an attribute in the object itself, + 2: a slot, or a member of an object of C; 1: it has none. */
static uint64_t member_offset(PyObject *from, PyObject *name)
{
    PyObject *descr = PyObject_GetAttr((PyObject *)Py_TYPE(from), name);
    const PyMemberDef *def = descr && Py_IS_TYPE(descr, &PyMemberDescr_Type) ? ((PyMemberDescrObject *)descr)->d_member : NULL;
    uint64_t tag = def && (def->type == T_OBJECT || def->type == T_OBJECT_EX) && def->offset > 0 ? (uint64_t)def->offset + 2 : 1;
    error_drop();
    Py_XDECREF(descr);
    return tag;
}

/* An object keeps its layout, whatever becomes of its class. */
static PyObject *attribute_now(Step *s, PyObject *from)
{
    if (!s->tag)
        s->tag = member_offset(from, s->key);
    PyObject *value = s->tag > 1 ? *(PyObject **)((char *)from + s->tag - 2) : NULL;
    return value ? Py_NewRef(value) : PyObject_GetAttr(from, s->key);
}

/* What a step leads to now (new reference); NULL without an exception: nothing. */
static PyObject *step_value(Step *s, PyObject *from)
{
    PyObject *value = NULL;
    switch (s->kind) {
    case STEP_GLOBAL: value = dict_item(from, s->key); break;
    case STEP_CELL: value = Py_XNewRef(PyCell_Check(from) ? PyCell_GET(from) : NULL); break;
    case STEP_OWN: value = own_item(from, s->key); break;
    case STEP_ATTRIBUTE: value = attribute_now(s, from); break;
    case STEP_WEAK: value = weak_target(from); break;
    case STEP_DICT: value = PyObject_GenericGetDict(from, NULL); break;
    case STEP_OBJECT:
    case STEP_LEAF:
    case STEP_TYPE:
    case STEP_CLASS:
    case STEP_FUNCTION:
    case STEP_ITEMS:
    case STEP_PROBE:
    case STEP_CALL:
    case STEP_ARRAY:
    case STEP_NAMES: break;
    }
    if (!value && PyErr_Occurred()
        && (PyErr_ExceptionMatches(PyExc_AttributeError) || PyErr_ExceptionMatches(PyExc_LookupError) || PyErr_ExceptionMatches(PyExc_TypeError)))
        error_drop();
    return value;
}

/* A step that says something about the object that its parent leads to, and leads nowhere else. */
static int object_holds(Step *s, PyObject *object)
{
    switch (s->kind) {
    case STEP_TYPE: return (PyObject *)Py_TYPE(object) == s->expected;
    case STEP_CLASS: return class_holds(s, object);
    case STEP_FUNCTION: return function_holds(object, s->expected);
    case STEP_ITEMS: return items_hold(object, s->key);
    case STEP_CALL: return call_holds(s, object);
    case STEP_ARRAY: return array_holds(object, s->key);
    case STEP_NAMES: return names_hold(s, object);
    default: return probe_holds(s, object);
    }
}

static int step_holds(Step *s, int k, PyObject *const *leaves, PyObject **now)
{
    if (s->kind == STEP_LEAF) {
        now[k] = leaves[s->parent];
        return 1;
    }
    if (s->kind >= STEP_TYPE) {
        now[k] = now[s->parent];
        return object_holds(s, now[k]);
    }
    if (s->kind == STEP_GLOBAL && s->expected && PyDict_GetItemWithError(now[s->parent], s->key) == s->expected) {
        now[k] = s->expected;     /* by far the commonest: no references taken */
        return 1;
    }
    PyObject *value = step_value(s, now[s->parent]);
    if (!value)
        return PyErr_Occurred() ? -1 : !s->expected && s->kind != STEP_WEAK;
    int leads = s->kind == STEP_WEAK || s->kind == STEP_DICT;       /* wherever that is: its owner keeps it alive */
    int same = leads ? 1 : s->expected ? same_value(s->expected, value) : 0;
    now[k] = leads ? value : s->expected;         /* kept alive by the guard; identical, or an equal immutable */
    Py_DECREF(value);
    return same;
}

static PyObject *step_path(const Steps *s, int k)
{
    const Step *at = &s->at[k];
    if (at->kind == STEP_GLOBAL || at->kind == STEP_CELL)
        return PyObject_Str(at->key);
    if (at->kind == STEP_LEAF)
        return PyUnicode_FromFormat("argument %d", at->parent);
    if (at->kind == STEP_OBJECT)
        return PyObject_Repr(at->expected);
    PyObject *base = step_path(s, at->parent);
    PyObject *path = !base ? NULL : at->kind == STEP_ATTRIBUTE || at->kind == STEP_OWN ? PyUnicode_FromFormat("%U.%S", base, at->key)
                     : at->kind == STEP_ITEMS || at->kind == STEP_PROBE ? PyUnicode_FromFormat("the items of %U", base)
                     : at->kind == STEP_CALL ? PyUnicode_FromFormat("the result of %U", base) : at->kind == STEP_ARRAY ? PyUnicode_FromFormat("the layout of %U", base)
                     : at->kind == STEP_TYPE ? PyUnicode_FromFormat("the class of %U", base) : Py_NewRef(base);
    Py_XDECREF(base);
    return path;
}

static PyObject *describe_step(const Steps *s, int k)
{
    PyObject *path = step_path(s, k);
    PyObject *why = path ? PyUnicode_FromFormat("%U changed", path) : NULL;
    Py_XDECREF(path);
    return why;
}

static int check_all(Steps *s, PyObject *const *leaves, PyObject **now, PyObject **why)
{
    for (int k = 0; k < s->n; k++) {
        Step *at = &s->at[k];
        if (at->kind == STEP_OBJECT) {
            now[k] = at->expected;
            continue;
        }
        int holds = step_holds(at, k, leaves, now);
        if (holds <= 0) {
            if (!holds && why && !(*why = describe_step(s, k)))
                return -1;
            return holds;
        }
    }
    return 1;
}

int steps_check(Steps *s, PyObject *const *leaves, PyObject **why)
{
    PyObject *few[64], **now = s->n <= 64 ? few : PyMem_Malloc(s->n * sizeof *now);
    if (!now) {
        PyErr_NoMemory();
        return -1;
    }
    int holds = check_all(s, leaves, now, why);
    if (now != few)
        PyMem_Free(now);
    return holds;
}
