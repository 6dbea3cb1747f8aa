/* Captured arrays used by plain NumPy. `x * W.sum()` never shows W to a tracer: NumPy would compute W.sum() once, while tracing, and the
 * compiled function would keep the number for ever. So while a trace runs, operators, methods, ufuncs and array functions that user code applies to an
 * array that existed before the trace see a tracer of it instead (an input that is read at every call).
 *
 * Arrays that NumPy makes during the trace are told apart by their memory handler: each trace sets one of its own, which allocates as the one before.
 * As in hooks.c everything is exchanged in place while traces run: slots of ndarray, the PyMethodDef behind its methods, the vectorcall
 * pointers of ufuncs and array functions. Calls from NumPy itself and from threads that do not trace go straight on. */
#include "py/tracer.h"
#include "py/error.h"
#include "py/capture.h"
#include "py/state.h"

/* ---- whose array it is ---- */

static void handler_free(PyObject *capsule) { PyMem_RawFree(PyCapsule_GetPointer(capsule, "mem_handler")); }

bool adopt_begin(Trace *t)
{
    PyObject *before = PyDataMem_GetHandler();
    PyDataMem_Handler *old = before ? PyCapsule_GetPointer(before, "mem_handler") : NULL;
    PyDataMem_Handler *own = old ? PyMem_RawMalloc(sizeof *own) : NULL;
    if (own) {
        *own = *old;
        snprintf(own->name, sizeof own->name, "pyxla_trace");
    }
    PyObject *capsule = own ? PyCapsule_New(own, "mem_handler", handler_free) : old ? PyErr_NoMemory() : NULL;
    if (own && !capsule)
        PyMem_RawFree(own);
    t->priv->handler = capsule;
    t->priv->handler_before = before;
    PyObject *replaced = capsule ? PyDataMem_SetHandler(capsule) : NULL;
    Py_XDECREF(replaced);
    return replaced != NULL;
}

void adopt_end(Trace *t)
{
    if (t->priv->handler && t->priv->handler_before) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        Py_XDECREF(PyDataMem_SetHandler(t->priv->handler_before));
        PyErr_Restore(type, value, traceback);
    }
    Py_CLEAR(t->priv->handler);
    Py_CLEAR(t->priv->handler_before);
}

bool adopt_made_here(const Trace *t, PyArrayObject *a)
{
    while (!PyArray_CHKFLAGS(a, NPY_ARRAY_OWNDATA)) {
        PyObject *base = PyArray_BASE(a);
        if (!base || !PyArray_Check(base))
            return false;
        a = (PyArrayObject *)base;
    }
    return PyArray_HANDLER(a) == t->priv->handler;
}

Trace *adopt_watching(void)
{
    Trace *t = trace_current();
    return t && t->priv->handler && !caller_is_numpy() ? t : NULL;
}

bool adopt_wants(const Trace *t, PyObject *o)
{
    if (!PyArray_CheckExact(o))
        return false;
    int type = PyArray_TYPE((PyArrayObject *)o);
    return (PyTypeNum_ISNUMBER(type) || type == NPY_BOOL) && type != NPY_LONGDOUBLE && type != NPY_CLONGDOUBLE
        && !adopt_made_here(t, (PyArrayObject *)o);
}

/* A tracer of an array that existed before the trace, of lists and tuples with such arrays too; any other object itself. New reference. */
static PyObject *adopted(Trace *t, PyObject *o)
{
    if (adopt_wants(t, o))
        return op_begin() ? as_tracer(t, o) : NULL;
    if (!PyList_CheckExact(o) && !PyTuple_CheckExact(o))
        return Py_NewRef(o);
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o), k = 0;
    while (k < n && !adopt_wants(t, PySequence_Fast_GET_ITEM(o, k)) && !PyList_CheckExact(PySequence_Fast_GET_ITEM(o, k)))
        k++;
    if (k == n)
        return Py_NewRef(o);
    PyObject *copy = PyList_CheckExact(o) ? PyList_New(n) : PyTuple_New(n);
    for (k = 0; copy && k < n; k++) {
        PyObject *item = adopted(t, PySequence_Fast_GET_ITEM(o, k));
        if (!item)
            Py_CLEAR(copy);
        else if (PyList_CheckExact(o))
            PyList_SET_ITEM(copy, k, item);
        else
            PyTuple_SET_ITEM(copy, k, item);
    }
    return copy;
}

/* Elements of a structure are read by NumPy alone, and a field is a captured array of its own: once single elements, or a copy, have been asked for,
 * the entry holds for these contents only. false with an exception. */
static bool guard_structure(Trace *t, PyObject *a)
{
    return !t || !PyArray_Check(a) || PyArray_TYPE((PyArrayObject *)a) != NPY_VOID || adopt_made_here(t, (PyArrayObject *)a) || guard_elements(t->guards, a);
}

/* ---- operators ---- */

#define BINARY(X) \
    X(add, PyNumber_Add) X(subtract, PyNumber_Subtract) X(multiply, PyNumber_Multiply) X(true_divide, PyNumber_TrueDivide) \
    X(floor_divide, PyNumber_FloorDivide) X(remainder, PyNumber_Remainder) X(divmod, PyNumber_Divmod) X(lshift, PyNumber_Lshift) \
    X(rshift, PyNumber_Rshift) X(and, PyNumber_And) X(or, PyNumber_Or) X(xor, PyNumber_Xor) X(matrix_multiply, PyNumber_MatrixMultiply) \
    X(inplace_add, PyNumber_InPlaceAdd) X(inplace_subtract, PyNumber_InPlaceSubtract) X(inplace_multiply, PyNumber_InPlaceMultiply) \
    X(inplace_true_divide, PyNumber_InPlaceTrueDivide) X(inplace_floor_divide, PyNumber_InPlaceFloorDivide) \
    X(inplace_remainder, PyNumber_InPlaceRemainder) X(inplace_lshift, PyNumber_InPlaceLshift) X(inplace_rshift, PyNumber_InPlaceRshift) \
    X(inplace_and, PyNumber_InPlaceAnd) X(inplace_or, PyNumber_InPlaceOr) X(inplace_xor, PyNumber_InPlaceXor) \
    X(inplace_matrix_multiply, PyNumber_InPlaceMatrixMultiply)
#define UNARY(X) \
    X(negative, PyNumber_Negative) X(positive, PyNumber_Positive) X(absolute, PyNumber_Absolute) X(invert, PyNumber_Invert) \
    X(int, PyNumber_Long) X(float, PyNumber_Float) X(index, PyNumber_Index)

static PyNumberMethods numbers;           /* ndarray's own slots */
static richcmpfunc compare;
static getiterfunc iter;
static reprfunc str, repr;
static binaryfunc getitem;
static ssizeargfunc item;
static objobjargproc setitem;
static objobjproc contains;

/* op on adopted operands, or NULL without an exception: nothing to adopt. */
static PyObject *adopt_pair(binaryfunc op, PyObject *a, PyObject *b)
{
    Trace *t = adopt_watching();
    if (!t || (!adopt_wants(t, a) && !adopt_wants(t, b)))
        return NULL;
    PyObject *x = adopted(t, a), *y = x ? adopted(t, b) : NULL;
    PyObject *r = y ? op(x, y) : NULL;
    Py_XDECREF(x);
    Py_XDECREF(y);
    return r;
}

#define X(slot, op) \
    static PyObject *nb_##slot(PyObject *a, PyObject *b) \
    { \
        PyObject *r = adopt_pair(op, a, b); \
        return r || PyErr_Occurred() ? r : numbers.nb_##slot(a, b); \
    }
BINARY(X)
#undef X

#define X(slot, op) \
    static PyObject *nb_##slot(PyObject *a) \
    { \
        Trace *t = adopt_watching(); \
        PyObject *x = t && adopt_wants(t, a) ? adopted(t, a) : NULL, *r = x ? op(x) : NULL; \
        Py_XDECREF(x); \
        return r || PyErr_Occurred() ? r : numbers.nb_##slot(a); \
    }
UNARY(X)
#undef X

static PyObject *square_of(PyObject *a, PyObject *b) { return PyNumber_Power(a, b, Py_None); }
static PyObject *inplace_square_of(PyObject *a, PyObject *b) { return PyNumber_InPlacePower(a, b, Py_None); }

static PyObject *nb_power(PyObject *a, PyObject *b, PyObject *m)
{
    PyObject *r = adopt_pair(square_of, a, b);
    return r || PyErr_Occurred() ? r : numbers.nb_power(a, b, m);
}

static PyObject *nb_inplace_power(PyObject *a, PyObject *b, PyObject *m)
{
    PyObject *r = adopt_pair(inplace_square_of, a, b);
    return r || PyErr_Occurred() ? r : numbers.nb_inplace_power(a, b, m);
}

static int nb_bool(PyObject *a)
{
    Trace *t = adopt_watching();
    PyObject *x = t && adopt_wants(t, a) ? adopted(t, a) : NULL;
    int r = x ? PyObject_IsTrue(x) : PyErr_Occurred() ? -1 : numbers.nb_bool(a);
    Py_XDECREF(x);
    return r;
}

static PyObject *tp_compare(PyObject *a, PyObject *b, int op)
{
    Trace *t = adopt_watching();
    if (!t || b == Py_None || (!adopt_wants(t, a) && !adopt_wants(t, b)))
        return compare(a, b, op);
    PyObject *x = adopted(t, a), *y = x ? adopted(t, b) : NULL, *r = y ? PyObject_RichCompare(x, y, op) : NULL;
    Py_XDECREF(x);
    Py_XDECREF(y);
    return r;
}

static PyObject *tp_iter(PyObject *a)
{
    Trace *t = adopt_watching();
    PyObject *x = t && adopt_wants(t, a) ? adopted(t, a) : NULL, *r = x ? PyObject_GetIter(x) : NULL;
    Py_XDECREF(x);
    return r || PyErr_Occurred() || !guard_structure(t, a) ? r : iter(a);
}

static bool has_tracer(PyObject *key)
{
    if (is_tracer(key))
        return true;
    for (Py_ssize_t k = 0; PyTuple_CheckExact(key) && k < PyTuple_GET_SIZE(key); k++)
        if (is_tracer(PyTuple_GET_ITEM(key, k)))
            return true;
    return false;
}

/* Subscripts also adopt arrays of this trace when a tracer meets them as index or value. */
static PyObject *subscripted(Trace *t, PyObject *a, PyObject *key, PyObject *value)
{
    return PyArray_CheckExact(a) && (adopt_wants(t, a) || has_tracer(key) || (value && is_tracer(value))) && op_begin() ? as_tracer(t, a) : NULL;
}

static PyObject *mp_getitem(PyObject *a, PyObject *key)
{
    Trace *t = adopt_watching();
    PyObject *x = t ? subscripted(t, a, key, NULL) : NULL, *r = x ? tracer_getitem(x, key) : NULL;
    Py_XDECREF(x);
    if (!r && !PyErr_Occurred())
        r = getitem(a, key);
    if (r && !PyArray_Check(r) && !guard_structure(t, a))
        Py_CLEAR(r);
    return r;
}

static PyObject *sq_item(PyObject *a, Py_ssize_t k)
{
    Trace *t = adopt_watching();
    PyObject *x = t && adopt_wants(t, a) ? adopted(t, a) : NULL, *key = x ? PyLong_FromSsize_t(k) : NULL, *r = key ? tracer_getitem(x, key) : NULL;
    Py_XDECREF(x);
    Py_XDECREF(key);
    return r || PyErr_Occurred() ? r : item(a, k);
}

static int mp_setitem(PyObject *a, PyObject *key, PyObject *value)
{
    Trace *t = value ? adopt_watching() : NULL;
    PyObject *x = t ? subscripted(t, a, key, value) : NULL;
    if (!x)
        return PyErr_Occurred() ? -1 : setitem(a, key, value);
    int r = tracer_setitem(x, key, value);    /* refuses, and says why */
    Py_DECREF(x);
    return r;
}

static int sq_contains(PyObject *a, PyObject *value)
{
    Trace *t = adopt_watching();
    PyObject *x = t && adopt_wants(t, a) ? adopted(t, a) : NULL;
    int r = x ? PySequence_Contains(x, value) : PyErr_Occurred() ? -1 : contains(a, value);
    Py_XDECREF(x);
    return r;
}

/* The text of a captured array has the array's elements, and what np.set_printoptions() says. */
static bool guard_shown(PyObject *a)
{
    Trace *t = adopt_watching();
    if (!t || !adopt_wants(t, a))
        return true;
    PyObject *f = state_import(&state.shown_guards, "pyxla._capture", "shown_guards"), *steps = f ? PyObject_CallNoArgs(f) : NULL;
    bool ok = steps && guard_elements(t->guards, a) && guard_steps(t->guards, steps);
    Py_XDECREF(steps);
    return ok;
}

static PyObject *tp_str(PyObject *a) { return guard_shown(a) ? str(a) : NULL; }
static PyObject *tp_repr(PyObject *a) { return guard_shown(a) ? repr(a) : NULL; }

static void exchange_slots(bool ours)
{
    PyNumberMethods *n = PyArray_Type.tp_as_number;
    if (ours) {
#define X(slot, op) if (n->nb_##slot) n->nb_##slot = nb_##slot;
        BINARY(X) UNARY(X)
#undef X
        n->nb_power = nb_power;
        n->nb_inplace_power = nb_inplace_power;
        n->nb_bool = nb_bool;
    } else
        *n = numbers;
    PyArray_Type.tp_richcompare = ours ? tp_compare : compare;
    PyArray_Type.tp_iter = ours ? tp_iter : iter;
    PyArray_Type.tp_str = ours ? tp_str : str;
    PyArray_Type.tp_repr = ours ? tp_repr : repr;
    PyArray_Type.tp_as_mapping->mp_subscript = ours ? mp_getitem : getitem;
    PyArray_Type.tp_as_mapping->mp_ass_subscript = ours ? mp_setitem : setitem;
    PyArray_Type.tp_as_sequence->sq_item = ours ? sq_item : item;
    PyArray_Type.tp_as_sequence->sq_contains = ours ? sq_contains : contains;
}

static void save_slots(void)
{
    numbers = *PyArray_Type.tp_as_number;
    compare = PyArray_Type.tp_richcompare;
    iter = PyArray_Type.tp_iter;
    str = PyArray_Type.tp_str;
    repr = PyArray_Type.tp_repr;
    getitem = PyArray_Type.tp_as_mapping->mp_subscript;
    setitem = PyArray_Type.tp_as_mapping->mp_ass_subscript;
    item = PyArray_Type.tp_as_sequence->sq_item;
    contains = PyArray_Type.tp_as_sequence->sq_contains;
}

/* ---- methods ---- */

/* Those that read or write elements; views (T, transpose, squeeze, ...) share the captured memory and need nothing. */
#define METHODS(X) \
    X(all) X(any) X(argmax) X(argmin) X(argpartition) X(argsort) X(astype) X(byteswap) X(choose) X(clip) X(compress) X(conj) X(conjugate) X(copy) \
    X(cumprod) X(cumsum) X(dot) X(dump) X(dumps) X(fill) X(flatten) X(item) X(max) X(mean) X(min) X(nonzero) X(partition) X(prod) X(put) X(ravel) X(repeat) X(reshape) \
    X(round) X(searchsorted) X(sort) X(std) X(sum) X(take) X(tobytes) X(tofile) X(tolist) X(trace) X(var) X(__copy__) X(__deepcopy__)

enum {
#define X(name) METHOD_##name,
    METHODS(X)
#undef X
    METHOD_COUNT
};

typedef PyObject *(*FastFunction)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
typedef struct { const char *name; PyMethodDescrObject *descr; PyMethodDef *original, ours; } Method;
static Method methods[METHOD_COUNT] = {
#define X(id) [METHOD_##id] = {.name = #id},
    METHODS(X)
#undef X
};

/* The method of that name of a tracer of self; NULL without an exception: nothing to adopt. */
static PyObject *adopted_method(const Method *m, PyObject *self)
{
    Trace *t = adopt_watching();
    if (!guard_structure(t, self))
        return NULL;
    PyObject *x = t && adopt_wants(t, self) ? adopted(t, self) : NULL, *f = x ? PyObject_GetAttrString(x, m->name) : NULL;
    Py_XDECREF(x);
    return f;
}

static PyObject *method_fast(const Method *m, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *f = adopted_method(m, self), *r = f ? PyObject_Vectorcall(f, args, (size_t)n, kwnames) : NULL;
    Py_XDECREF(f);
    return r || PyErr_Occurred() ? r : ((FastFunction)(void (*)(void))m->original->ml_meth)(self, args, n, kwnames);
}

static PyObject *method_tuple(const Method *m, PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *f = adopted_method(m, self), *r = f ? PyObject_Call(f, args, kwargs) : NULL;
    Py_XDECREF(f);
    return r || PyErr_Occurred() ? r : ((PyCFunctionWithKeywords)(void (*)(void))m->original->ml_meth)(self, args, kwargs);
}

static PyObject *method_plain(const Method *m, PyObject *self, PyObject *arg)
{
    int flags = m->original->ml_flags;
    PyObject *f = adopted_method(m, self), *r = NULL;
    if (f)
        r = flags == METH_NOARGS ? PyObject_CallNoArgs(f) : flags == METH_O ? PyObject_CallOneArg(f, arg) : PyObject_Call(f, arg, NULL);
    Py_XDECREF(f);
    return r || PyErr_Occurred() ? r : m->original->ml_meth(self, arg);
}

#define X(name) \
    static PyObject *fast_##name(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames) \
    { \
        return method_fast(&methods[METHOD_##name], self, args, n, kwnames); \
    } \
    static PyObject *tuple_##name(PyObject *self, PyObject *args, PyObject *kwargs) { return method_tuple(&methods[METHOD_##name], self, args, kwargs); } \
    static PyObject *plain_##name(PyObject *self, PyObject *arg) { return method_plain(&methods[METHOD_##name], self, arg); }
METHODS(X)
#undef X

static const struct { PyCFunction fast, tuple, plain; } trampolines[METHOD_COUNT] = {
#define X(name) {(PyCFunction)(void (*)(void))fast_##name, (PyCFunction)(void (*)(void))tuple_##name, plain_##name},
    METHODS(X)
#undef X
};

/* Prepares the exchange of a type's method by the one of ours that has its calling convention. */
static void save_method(Method *m, PyTypeObject *type, PyCFunction fast, PyCFunction tuple, PyCFunction plain)
{
    PyObject *descr = PyDict_GetItemString(type->tp_dict, m->name);
    if (!descr || !Py_IS_TYPE(descr, &PyMethodDescr_Type))
        return;
    PyMethodDef *def = ((PyMethodDescrObject *)descr)->d_method;
    int flags = def->ml_flags;
    PyCFunction ours = flags == (METH_FASTCALL | METH_KEYWORDS) ? fast : flags == (METH_VARARGS | METH_KEYWORDS) ? tuple
                       : flags == METH_NOARGS || flags == METH_O || flags == METH_VARARGS ? plain : NULL;
    if (!ours)
        return;
    m->descr = (PyMethodDescrObject *)descr;
    m->original = def;
    m->ours = *def;
    m->ours.ml_meth = ours;
}

/* ---- ufuncs and array functions ---- */

static struct { PyObject *callable; vectorcallfunc original; } *callables;
static int ncallables;

static vectorcallfunc *vectorcall_of(PyObject *f)
{
    return (vectorcallfunc *)((char *)f + Py_TYPE(f)->tp_vectorcall_offset);
}

/* The originals differ by type of the callable only. */
static vectorcallfunc ufunc_call, function_call;

/* Whether tracers are somewhere in nested lists and tuples. */
static bool tracer_inside(PyObject *o, int depth)
{
    if (!PyList_CheckExact(o) && !PyTuple_CheckExact(o))
        return false;
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(o); k++) {
        PyObject *item = PySequence_Fast_GET_ITEM(o, k);
        if (is_tracer(item) || is_extent(item) || (depth < 8 && tracer_inside(item, depth + 1)))
            return true;
    }
    return false;
}

/* The call with its arguments adopted. Of the first `lists` operands, lists with tracers inside become arrays, as NumPy makes arrays of lists. */
static PyObject *call_adopted(vectorcallfunc original, PyObject *f, PyObject *const *args, size_t nargsf, PyObject *kwnames, int lists)
{
    Trace *t = adopt_watching();
    Py_ssize_t given = PyVectorcall_NARGS(nargsf), n = given + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0), k = 0;
    PyObject *few[16], **copy = few;
    if (!t)
        return original(f, args, nargsf, kwnames);
    if (n > 16 && !(copy = PyMem_Malloc(n * sizeof *copy)))
        return PyErr_NoMemory();
    while (k < n && (copy[k] = k < lists && k < given && tracer_inside(args[k], 0) && op_begin() ? as_tracer(t, args[k]) : adopted(t, args[k])))
        k++;
    PyObject *r = k == n ? original(f, copy, given, kwnames) : NULL;
    while (k-- > 0)
        Py_DECREF(copy[k]);
    if (copy != few)
        PyMem_Free(copy);
    return r;
}

static PyObject *as_array(PyObject *o)
{
    bool scalar = is_tracer(o) && ((Tracer *)o)->kind == TRACER_NUMPY_SCALAR;
    PyObject *r = scalar ? PyObject_GetItem(o, Py_Ellipsis) : Py_NewRef(o);
    Py_DECREF(o);
    return r;
}

/* The results of a call with out=..., which asks for arrays where scalars are usual; NumPy's protocol does not hand it on. Takes r over. */
static PyObject *arrays_if_asked(PyObject *r, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    bool asked = false;
    for (Py_ssize_t k = 0; r && kwnames && k < PyTuple_GET_SIZE(kwnames); k++)
        asked |= args[PyVectorcall_NARGS(nargsf) + k] == Py_Ellipsis && !PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, k), "out");
    if (!asked)
        return r;
    if (!PyTuple_CheckExact(r))
        return as_array(r);
    PyObject *all = PyTuple_New(PyTuple_GET_SIZE(r));
    for (Py_ssize_t k = 0; all && k < PyTuple_GET_SIZE(r); k++) {
        PyObject *one = as_array(Py_NewRef(PyTuple_GET_ITEM(r, k)));
        if (!one)
            Py_CLEAR(all);
        else
            PyTuple_SET_ITEM(all, k, one);
    }
    Py_DECREF(r);
    return all;
}

static PyObject *ufunc_vectorcall(PyObject *f, PyObject *const *args, size_t n, PyObject *kwnames)
{
    return arrays_if_asked(call_adopted(ufunc_call, f, args, n, kwnames, ((PyUFuncObject *)f)->nin), args, n, kwnames);
}

/* NumPy looks for overrides in an array function's arguments, but seldom inside lists: np.sum([x, y]) of tracers comes here. */
static PyObject *function_call_within(PyObject *f, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Py_ssize_t n = PyVectorcall_NARGS(nargsf) + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    for (Py_ssize_t k = 0; k < n; k++)
        if (tracer_inside(args[k], 0)) {
            PyObject *ours = Py_XNewRef(PyDict_GetItemWithError(core_functions, f));
            if (!ours && !PyErr_Occurred() && op_begin())
                ours = other_function(f);
            PyObject *r = ours ? PyObject_Vectorcall(ours, args, nargsf, kwnames) : NULL;
            Py_XDECREF(ours);
            return r;
        }
    return function_call(f, args, nargsf, kwnames);
}

static PyObject *function_vectorcall(PyObject *f, PyObject *const *args, size_t n, PyObject *kwnames)
{
    PyObject *r = call_adopted(function_call_within, f, args, n, kwnames, 0);
    bool array = r && (PyArray_CheckExact(r) || PyTuple_CheckExact(r) || PyList_CheckExact(r));
    PyObject *makers = array && adopt_watching() ? core_item(core_creators, "makers") : NULL;
    PyObject *own = makers && PySet_Contains(makers, f) > 0 ? core_item(core_creators, "owned") : NULL;
    if (own)
        Py_SETREF(r, PyObject_CallOneArg(own, r));
    else if (r && PyErr_Occurred())
        Py_CLEAR(r);
    return r;
}

/* np.add.reduce(a) and the like: methods of the ufunc type, whose arguments are adopted. */
#define UFUNC_METHODS(X) X(reduce) X(accumulate) X(outer) X(reduceat) X(at)
enum {
#define X(name) UFUNC_##name,
    UFUNC_METHODS(X)
#undef X
    UFUNC_METHOD_COUNT
};
static Method ufunc_methods[UFUNC_METHOD_COUNT] = {
#define X(id) [UFUNC_##id] = {.name = #id},
    UFUNC_METHODS(X)
#undef X
};

#define X(name) \
    static PyObject *original_##name(PyObject *self, PyObject *const *args, size_t n, PyObject *kwnames) \
    { \
        return ((FastFunction)(void (*)(void))ufunc_methods[UFUNC_##name].original->ml_meth)(self, args, PyVectorcall_NARGS(n), kwnames); \
    } \
    static PyObject *ufunc_##name(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames) \
    { \
        PyObject *r = call_adopted(original_##name, self, args, (size_t)n, kwnames, UFUNC_##name == UFUNC_outer ? 2 : 1); \
        return arrays_if_asked(r, args, (size_t)n, kwnames); \
    }
UFUNC_METHODS(X)
#undef X

static void save_ufunc_methods(void)
{
    static const PyCFunction ours[] = {
#define X(name) (PyCFunction)(void (*)(void))ufunc_##name,
        UFUNC_METHODS(X)
#undef X
    };
    for (int k = 0; k < UFUNC_METHOD_COUNT; k++)
        save_method(&ufunc_methods[k], &PyUFunc_Type, ours[k], NULL, NULL);
}

static bool is_function(PyObject *f)
{
    return !strcmp(Py_TYPE(f)->tp_name, "numpy._ArrayFunctionDispatcher") && Py_TYPE(f)->tp_vectorcall_offset > 0;
}

static bool save_callable(PyObject *f)
{
    if (PyFunction_Check(f)) {         /* perhaps one that was put in the place of NumPy's by functools.wraps */
        PyObject *dict = ((PyFunctionObject *)f)->func_dict, *wrapped = dict ? PyDict_GetItemString(dict, "__wrapped__") : NULL;
        return !wrapped || save_callable(wrapped);
    }
    vectorcallfunc *original = PyObject_TypeCheck(f, &PyUFunc_Type) ? &ufunc_call : is_function(f) ? &function_call : NULL;
    if (!original)
        return true;
    vectorcallfunc now = *vectorcall_of(f);
    if (!*original)
        *original = now;
    if (!now || now != *original)
        return true;
    void *more = PyMem_Realloc(callables, (ncallables + 1) * sizeof *callables);
    if (!more) {
        PyErr_NoMemory();
        return false;
    }
    callables = more;
    callables[ncallables].callable = Py_NewRef(f);
    callables[ncallables++].original = now;
    return true;
}

static bool save_module(const char *name)
{
    PyObject *module = PyImport_ImportModule(name), *dict = module ? PyModule_GetDict(module) : NULL, *key, *value;
    Py_ssize_t at = 0;
    bool ok = dict != NULL;
    while (ok && PyDict_Next(dict, &at, &key, &value))
        ok = save_callable(value);
    Py_XDECREF(module);
    return ok;
}

/* ---- on and off ---- */

bool adopt_init(void)
{
    save_slots();
    for (int k = 0; k < METHOD_COUNT; k++)
        save_method(&methods[k], &PyArray_Type, trampolines[k].fast, trampolines[k].tuple, trampolines[k].plain);
    save_ufunc_methods();
    return save_module("numpy") && save_module("numpy.linalg") && save_module("numpy.fft");
}

static void exchange_methods(Method *m, int n, bool ours)
{
    for (int k = 0; k < n; k++)
        if (m[k].descr)
            m[k].descr->d_method = ours ? &m[k].ours : m[k].original;
}

void adopt_exchange(bool ours)
{
    exchange_slots(ours);
    exchange_methods(methods, METHOD_COUNT, ours);
    exchange_methods(ufunc_methods, UFUNC_METHOD_COUNT, ours);
    for (int k = 0; k < ncallables; k++) {
        vectorcallfunc original = callables[k].original;
        *vectorcall_of(callables[k].callable) = !ours ? original : original == ufunc_call ? ufunc_vectorcall : function_vectorcall;
    }
}
