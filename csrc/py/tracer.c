/* The Python type Tracer: attributes, protocols, and how it shows itself. */
#include "py/tracer.h"
#include "py/error.h"
#include "run/caller.h"
#include <structmember.h>

PyTypeObject *tracer_type;

bool tracer_check(PyObject *o) { return is_tracer(o); }

static void tracer_dealloc(PyObject *self)
{
    Tracer *x = (Tracer *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (x->viewed >= 0)
        x->cell->views[x->viewed]--;
    cell_unref(x->cell);
    type->tp_free(self);
    Py_DECREF(type);
}

/* ---- showing ---- */

/* What Python shows of a number's value: text may become a key or a result, so the value is asked for. */
static PyObject *number_text(Tracer *x, PyObject *(*show)(PyObject *))
{
    PyObject *v = scalar_concrete(x), *s = v ? show(v) : NULL;
    Py_XDECREF(v);
    return s;
}

static PyObject *tracer_repr(PyObject *self)
{
    Tracer *x = (Tracer *)self;
    Trace *t = x->cell->trace;
    if (!t)
        return PyUnicode_FromString("Tracer(of an ended trace)");
    if (x->kind == TRACER_PYTHON_SCALAR && t == trace_current())
        return number_text(x, PyObject_Repr);
    if (x->kind == TRACER_PYTHON_SCALAR)
        return PyUnicode_FromFormat("Tracer(%s)", Py_TYPE(scalars_value(t->scalars, x->reg))->tp_name);
    Text text = {0};
    text_put(&text, "Tracer(%s", dtype_info[tracer_dtype(x)].name);
    for (int k = 0; k < tracer_rank(x); k++)
        text_put(&text, "%s%lld", k ? ", " : "[", (long long)tracer_shape(x)[k]);
    text_put(&text, "%s)", tracer_rank(x) ? "]" : x->kind == TRACER_ARRAY ? "[]" : "");
    PyObject *s = PyUnicode_FromString(text.at ? text.at : "Tracer");
    text_free(&text);
    return s;
}

static PyObject *tracer_format(PyObject *self, PyObject *spec)
{
    Tracer *x = (Tracer *)self;
    if (!PyUnicode_Check(spec) || PyUnicode_GET_LENGTH(spec) == 0)
        return tracer_repr(self);
    PyObject *v = x->kind == TRACER_PYTHON_SCALAR ? scalar_concrete(x)
                  : tracer_value(x, "a format with a specification", "print it without one, or return the value and format it outside");
    PyObject *item = v && PyArray_Check(v) && PyArray_NDIM((PyArrayObject *)v) == 0 ? PyObject_CallMethod(v, "item", NULL) : Py_XNewRef(v);
    PyObject *s = item ? PyObject_Format(item, spec) : NULL;
    Py_XDECREF(v);
    Py_XDECREF(item);
    return s;
}

static Py_hash_t tracer_hash(PyObject *self)
{
    Tracer *x = (Tracer *)self;
    if (x->kind == TRACER_ARRAY) {
        PyErr_SetString(PyExc_TypeError, "unhashable type: 'numpy.ndarray'");
        return -1;
    }
    PyObject *v = x->kind == TRACER_PYTHON_SCALAR ? scalar_concrete(x)
                  : tracer_value(x, "a hash (a dict key, a member of a set)", "use a Python number that is an argument");
    PyObject *item = v && PyArray_Check(v) ? PyObject_CallMethod(v, "item", NULL) : Py_XNewRef(v);
    Py_hash_t h = item ? PyObject_Hash(item) : -1;
    Py_XDECREF(v);
    Py_XDECREF(item);
    return h;
}

/* ---- attributes ---- */

/* x if it is an array of the current trace, else NULL with the error that Python or the tracer has for it. */
static Tracer *array_self(PyObject *self, const char *name)
{
    Tracer *x = (Tracer *)self;
    Trace *t = tracer_trace(x);
    if (t && x->kind == TRACER_PYTHON_SCALAR) {
        PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%s'", Py_TYPE(scalars_value(t->scalars, x->reg))->tp_name, name);
        return NULL;
    }
    return t ? x : NULL;
}

static int64_t tracer_size(const Tracer *x)
{
    int64_t n = 1;
    for (int k = 0; k < tracer_rank(x); k++)
        n *= tracer_shape(x)[k];
    return n;
}

/* The number of elements of an array with run-time extents, times a factor. */
static PyObject *dynamic_size(const Tracer *x, int64_t factor)
{
    PyObject *product = PyLong_FromLongLong(factor);
    for (int k = 0; product && k < tracer_rank(x); k++) {
        PyObject *n = extent_object(x->cell->trace, tracer_shape(x)[k]), *next = n ? PyNumber_Multiply(n, product) : NULL;
        Py_XDECREF(n);
        Py_SETREF(product, next);
    }
    return product;
}

static PyObject *get_shape(PyObject *self, void *closure)
{
    Tracer *x = array_self(self, closure);
    PyObject *shape = x ? PyTuple_New(tracer_rank(x)) : NULL;
    for (int k = 0; shape && k < tracer_rank(x); k++) {
        PyObject *n = extent_object(x->cell->trace, tracer_shape(x)[k]);
        if (!n)
            Py_CLEAR(shape);
        else
            PyTuple_SET_ITEM(shape, k, n);
    }
    return shape;
}

static PyObject *get_dtype(PyObject *self, void *closure)
{
    Tracer *x = array_self(self, closure);
    return x ? dtype_to_numpy(tracer_dtype(x)) : NULL;
}

static PyObject *get_ndim(PyObject *self, void *closure)
{
    Tracer *x = array_self(self, closure);
    return x ? PyLong_FromLong(tracer_rank(x)) : NULL;
}

static PyObject *get_size(PyObject *self, void *closure)
{
    Tracer *x = array_self(self, closure);
    return x ? tracer_dynamic(x) ? dynamic_size(x, 1) : PyLong_FromLongLong(tracer_size(x)) : NULL;
}

static PyObject *get_itemsize(PyObject *self, void *closure)
{
    Tracer *x = array_self(self, closure);
    return x ? PyLong_FromLong(dtype_info[tracer_dtype(x)].bytes) : NULL;
}

static PyObject *get_nbytes(PyObject *self, void *closure)
{
    Tracer *x = array_self(self, closure);
    int64_t bytes = x ? dtype_info[tracer_dtype(x)].bytes : 0;
    return x ? tracer_dynamic(x) ? dynamic_size(x, bytes) : PyLong_FromLongLong(tracer_size(x) * bytes) : NULL;
}

static PyObject *get_T(PyObject *self, void *closure)
{
    Tracer *x = array_self(self, closure);
    int perm[MAX_RANK], rank = x && op_begin() ? tracer_rank(x) : 0;
    for (int k = 0; k < rank; k++)
        perm[k] = rank - 1 - k;
    return !x || PyErr_Occurred() ? NULL : x->kind == TRACER_NUMPY_SCALAR ? Py_NewRef(x) : tracer_transpose(x, perm);
}

static PyObject *get_mT(PyObject *self, void *closure)
{
    Tracer *x = array_self(self, closure);
    int perm[MAX_RANK], rank = x && op_begin() ? tracer_rank(x) : 0;
    for (int k = 0; k < rank; k++)
        perm[k] = k < rank - 2 ? k : 2 * rank - 3 - k;
    if (x && rank < 2)
        PyErr_SetString(PyExc_ValueError, "matrix transpose with ndim < 2 is undefined");
    return !x || PyErr_Occurred() ? NULL : tracer_transpose(x, perm);
}

static PyObject *refuse_attribute(Tracer *x, const char *name, const char *cure)
{
    Trace *t = x ? op_begin() : NULL;
    if (!t)
        return NULL;
    err_set(&t->err, ERR_UNSUPPORTED, "ndarray.%s is not supported in a jitted function; %s", name, cure);
    t->err.src = t->graph->src;
    return trace_fail(t);
}

static PyObject *get_refused(PyObject *self, void *closure)
{
    return refuse_attribute(array_self(self, closure), closure, "the compiled function takes arrays of any memory layout; compute with shapes instead");
}

static int set_refused(PyObject *self, PyObject *value, void *closure)
{
    (void)value;
    bool shape = !strcmp(closure, "shape");
    refuse_attribute(array_self(self, closure), shape ? "shape = ..." : !strcmp(closure, "dtype") ? "dtype = ..." : "strides = ...", shape ? "write x = x.reshape(...)" : "make a new array: x.astype(dtype), x.copy()");
    return -1;
}

static PyObject *get_flat(PyObject *self, void *closure)
{
    Tracer *x = array_self(self, closure);
    PyObject *flat = x && op_begin() ? core_item(core_creators, "flat") : NULL;
    return flat ? PyObject_CallOneArg(flat, self) : NULL;
}

static int set_flat(PyObject *self, PyObject *value, void *closure)
{
    PyObject *flat = value ? get_flat(self, closure) : NULL;
    if (!value)
        PyErr_SetString(PyExc_AttributeError, "Cannot delete flat iterator");
    int r = flat ? PyObject_SetItem(flat, Py_Ellipsis, value) : -1;
    Py_XDECREF(flat);
    return r;
}

static PyObject *get_strides(PyObject *self, void *closure)
{
    Tracer *x = array_self(self, closure);
    PyObject *strides = x && op_begin() ? tracer_strides(self) : NULL;
    if (strides != Py_None)
        return strides;
    Py_DECREF(strides);
    return get_refused(self, closure);
}

static PyObject *get_priority(PyObject *self, void *closure)
{
    (void)self, (void)closure;
    return PyFloat_FromDouble(0);
}

static PyObject *get_device(PyObject *self, void *closure)
{
    return array_self(self, closure) ? PyUnicode_FromString("cpu") : NULL;
}

static PyObject *call_function(const char *name, PyObject *self)
{
    PyObject *np = PyImport_ImportModule("numpy"), *f = np ? PyObject_GetAttrString(np, name) : NULL;
    PyObject *r = f ? PyObject_CallOneArg(f, self) : NULL;
    Py_XDECREF(np);
    Py_XDECREF(f);
    return r;
}

/* The real or imaginary parts of a complex array: a view; of a NumPy scalar: a number. */
static PyObject *complex_part(Trace *t, Tracer *x, const char *name)
{
    ElementPart part = !strcmp(name, "real") ? PART_REAL : PART_IMAG;
    if (x->kind == TRACER_NUMPY_SCALAR)
        return tracer_result(t, graph_unary(t->graph, part == PART_REAL ? OP_real : OP_imag, tracer_node(x)), LAYOUT_C);
    Map *m = map_part(t, x->map, tracer_rank(x), tracer_shape(x), part);
    return tracer_view(x, m);
}

static PyObject *get_part(PyObject *self, void *closure)
{
    Tracer *x = (Tracer *)self;
    Trace *t = op_begin();
    if (!t || tracer_trace(x) != t)
        return NULL;
    if (x->kind != TRACER_PYTHON_SCALAR)
        return dtype_info[tracer_dtype(x)].kind == DKIND_COMPLEX ? complex_part(t, x, closure) : call_function(closure, self);
    PyObject *v = scalar_concrete(x), *r = v ? PyObject_GetAttrString(v, closure) : NULL;
    Py_XDECREF(v);
    return r;
}

/* What stands here when the function is not traced, so that isinstance() says what it says then. */
static PyObject *get_class(PyObject *self, void *closure)
{
    (void)closure;
    Tracer *x = (Tracer *)self;
    Trace *t = x->cell->trace;
    if (!t)
        return Py_NewRef(tracer_type);
    if (x->kind == TRACER_ARRAY)
        return Py_NewRef(&PyArray_Type);
    if (x->kind == TRACER_PYTHON_SCALAR)
        return Py_NewRef(Py_TYPE(scalars_value(t->scalars, x->reg)));
    PyArray_Descr *dtype = (PyArray_Descr *)dtype_to_numpy(tracer_dtype(x));
    PyObject *type = dtype ? Py_NewRef(dtype->typeobj) : NULL;
    Py_XDECREF(dtype);
    return type;
}

/* x.real = v, x.imag = v. */
static int set_part(PyObject *self, PyObject *value, void *closure)
{
    Tracer *x = array_self(self, closure);
    if (!x || !value) {
        if (x)
            PyErr_SetString(PyExc_AttributeError, "cannot delete a part of an array");
        return -1;
    }
    bool whole = dtype_info[tracer_dtype(x)].kind != DKIND_COMPLEX;
    if (whole && !strcmp(closure, "imag")) {
        PyErr_SetString(PyExc_TypeError, "array does not have imaginary part to set");
        return -1;
    }
    PyObject *part = whole ? Py_NewRef(self) : get_part(self, closure);
    int r = part ? tracer_setitem(part, Py_Ellipsis, value) : -1;
    Py_XDECREF(part);
    return r;
}

/* SciPy asks whether it may write into an array, or has to copy it: it may, as far as the trace knows (a read-only argument that is written is refused). */
static PyObject *get_flags(PyObject *self, void *closure)
{
    Tracer *x = (Tracer *)self;
    if (x->kind == TRACER_PYTHON_SCALAR || !package_asks("scipy"))
        return get_refused(self, closure);
    PyObject *flags = op_begin() ? core_item(core_creators, "flags") : NULL;
    return flags ? PyObject_CallOneArg(flags, x->kind == TRACER_ARRAY && !x->cell->frozen ? Py_True : Py_False) : NULL;
}

static PyGetSetDef getset[] = {
    {"__class__", get_class, NULL, "the class that the value has when the function is not traced", NULL},
    {"shape", get_shape, set_refused, "extents of the axes", "shape"},
    {"dtype", get_dtype, set_refused, "dtype of the elements", "dtype"},
    {"ndim", get_ndim, NULL, "number of axes", "ndim"},
    {"size", get_size, NULL, "number of elements", "size"},
    {"itemsize", get_itemsize, NULL, "bytes of an element", "itemsize"},
    {"nbytes", get_nbytes, NULL, "bytes of all elements", "nbytes"},
    {"T", get_T, NULL, "view with the axes reversed", "T"},
    {"mT", get_mT, NULL, "view with the last two axes exchanged", "mT"},
    {"flat", get_flat, set_flat, "iterator over the elements", "flat"},
    {"__array_priority__", get_priority, NULL, "as an ndarray's", NULL},
    {"device", get_device, NULL, "always cpu", "device"},
    {"real", get_part, set_part, "real part", "real"},
    {"imag", get_part, set_part, "imaginary part", "imag"},
    {"strides", get_strides, set_refused, "bytes from element to element, as now", "strides"},
    {"flags", get_flags, NULL, "not known while tracing", "flags"},
    {"data", get_refused, NULL, "not known while tracing", "data"},
    {"base", get_refused, NULL, "not known while tracing", "base"},
    {"ctypes", get_refused, NULL, "not known while tracing", "ctypes"},
    {NULL},
};

/* An attribute of the number itself; its value is asked for only if it has one of that name. */
static PyObject *number_attribute(Tracer *x, PyObject *name)
{
    Trace *t = tracer_trace(x);
    PyObject *value = t ? scalars_value(t->scalars, x->reg) : NULL;
    if (!value)
        return NULL;
    if (!PyObject_HasAttr((PyObject *)Py_TYPE(value), name)) {
        PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%U'", Py_TYPE(value)->tp_name, name);
        return NULL;
    }
    value = scalar_concrete(x);
    PyObject *r = value ? PyObject_GetAttr(value, name) : NULL;
    Py_XDECREF(value);
    return r;
}

static bool special_name(PyObject *name)
{
    const char *s = PyUnicode_AsUTF8(name);
    return s && !strncmp(s, "__", 2);
}

/* Whether arrays have an attribute: NumPy keeps names of some that it took from them (ptp, in NumPy 2.0 to 2.2), which no array has. */
static bool arrays_have(PyObject *name)
{
    npy_intp n = 0;
    PyObject *array = PyArray_EMPTY(1, &n, NPY_DOUBLE, 0);
    bool has = array && PyObject_HasAttr(array, name);
    Py_XDECREF(array);
    return has;
}

/* What NumPy has and pyxla has not is no AttributeError: hasattr() shall not say that there is none. */
static void no_attribute(Tracer *x, PyObject *name)
{
    PyObject *class = get_class((PyObject *)x, NULL);
    bool numpys = class && !special_name(name) && PyObject_HasAttr(class, name) && (class != (PyObject *)&PyArray_Type || arrays_have(name));
    Py_XDECREF(class);
    if (numpys) {
        refuse_attribute(x, PyUnicode_AsUTF8(name), "use a function of numpy, or compute this outside of the jitted function");
        return;
    }
    Text text = {0};
    describe_object(&text, (PyObject *)x, 0);
    PyErr_Format(PyExc_AttributeError, "'numpy.ndarray' object has no attribute '%U', or pyxla has none, in ndarray.%U(%s)", name, name, text.at ? text.at : "");
    text_free(&text);
}

/* Names that not all that a tracer stands for has, though each tracer has them: of arrays, NumPy's scalars and Python's numbers each its own.
 * hasattr() says of these what it says when the function is not traced. The first ones have slots, which is enough for Python: in the type's
 * dictionary isinstance(x, Iterable) and the like would see them, so they stand in slot_methods. */
static const char *const partial_names[] = {"__len__", "__iter__", "__contains__", "__setitem__", "__delitem__", "__index__", "__getitem__", "__complex__", "__round__", "__floor__", "__ceil__",
                                            "__trunc__", "__matmul__", "__rmatmul__", "__imatmul__", "__iadd__", "mT", "dot", "partition", "argpartition"};
enum { PARTIAL_COUNT = sizeof partial_names / sizeof *partial_names, PARTIAL_SLOTS = 6 };
static PyObject *slot_methods;

static bool is_partial(PyObject *name)
{
    for (size_t k = 0; k < PARTIAL_COUNT; k++)
        if (PyUnicode_CompareWithASCIIString(name, partial_names[k]) == 0)
            return true;
    return false;
}

/* Moves the methods of the first names from the type's dictionary; `__hash__`, which arrays do not have, is none there. */
static bool hide_slots(void)
{
    bool ok = (slot_methods = PyDict_New()) != NULL;
    for (size_t k = 0; ok && k < PARTIAL_SLOTS; k++) {
        PyObject *method = PyDict_GetItemString(tracer_type->tp_dict, partial_names[k]);
        ok = method && PyDict_SetItemString(slot_methods, partial_names[k], method) == 0 && PyDict_DelItemString(tracer_type->tp_dict, partial_names[k]) == 0;
    }
    ok = ok && PyDict_SetItemString(tracer_type->tp_dict, "__hash__", Py_None) == 0;
    PyType_Modified(tracer_type);
    return ok;
}

/* A partial name's attribute, or NULL: with an exception if what stands here when the function is not traced has none. */
static PyObject *partial_attribute(PyObject *self, PyObject *name)
{
    PyObject *class = get_class(self, NULL), *r = NULL;
    if (class && class != (PyObject *)tracer_type && !PyObject_HasAttr(class, name))
        PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%U'", ((PyTypeObject *)class)->tp_name, name);
    else if (class) {
        PyObject *method = PyDict_GetItemWithError(slot_methods, name);
        r = method ? PyObject_CallMethod(method, "__get__", "O", self) : NULL;
    }
    Py_XDECREF(class);
    return r;
}

static PyObject *tracer_getattro(PyObject *self, PyObject *name)
{
    PyObject *r = is_partial(name) ? partial_attribute(self, name) : NULL;
    if (r || PyErr_Occurred())
        return r;
    r = PyObject_GenericGetAttr(self, name);
    if (r || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return r;
    Tracer *x = (Tracer *)self;
    bool known = x->kind != TRACER_PYTHON_SCALAR;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *method = known ? PyDict_GetItemWithError(core_methods, name) : NULL;
    if (method)
        r = PyMethod_New(method, self);
    else if (!known && !special_name(name))
        r = number_attribute(x, name);
    if (!r && !PyErr_Occurred() && known && tracer_trace(x))
        no_attribute(x, name);
    if (!r && !PyErr_Occurred()) {
        PyErr_Restore(type, value, trace);
        return NULL;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return r;
}

/* ---- sequences ---- */

/* Whether this is one of Python's numbers, which is no container: the error is set then, as Python has it, with the number's type for %s. */
static bool no_container(PyObject *self, const char *error)
{
    Trace *t = ((Tracer *)self)->kind == TRACER_PYTHON_SCALAR ? tracer_trace((Tracer *)self) : NULL;
    if (t)
        PyErr_Format(PyExc_TypeError, error, Py_TYPE(scalars_value(t->scalars, ((Tracer *)self)->reg))->tp_name);
    return t != NULL;
}

/* The length of an array whose size depends on data, where NumPy's own code asks for it: today's, which the run checks. -1 with an exception. */
static Py_ssize_t assumed_len(Tracer *x)
{
    Trace *t = op_begin();
    PyObject *n = t ? tracer_result(t, extent_node(t->graph, tracer_shape(x)[0]), LAYOUT_C) : NULL;
    PyObject *value = n ? trace_assume((Tracer *)n, false, "the size of an array that NumPy's own code goes through is not what it was in the trace; call the jitted function again") : NULL;
    Py_ssize_t r = value ? PyLong_AsSsize_t(value) : -1;
    Py_XDECREF(n);
    Py_XDECREF(value);
    return r;
}

static Py_ssize_t tracer_len(PyObject *self)
{
    if (no_container(self, "object of type '%s' has no len()"))
        return -1;
    Tracer *x = array_self(self, "__len__");
    if (x && tracer_rank(x) == 0) {
        PyErr_SetString(PyExc_TypeError, "len() of unsized object");
        operation_failed("len", self);
        return -1;
    }
    if (x && tracer_shape(x)[0] < 0 && numpy_asks())
        return assumed_len(x);
    if (x && tracer_shape(x)[0] < 0) {
        Trace *t = tracer_trace(x);
        if (!t)
            return -1;
        err_set(&t->err, ERR_LIMIT, "len() of an array whose size depends on data: use x.shape[0], which computes like a number");
        t->err.src = t->graph->src;
        trace_fail(t);
        return -1;
    }
    return x ? tracer_shape(x)[0] : -1;
}

/* Whether NumPy looks for the arguments of a function that know an override: np.roots(x) and np.piecewise(x, x, f) name x by going through it. What x is
 * made of is what x is. */
static bool dispatched(void)
{
    return dispatcher_asks() || caller_lies_beside((const void *)PyEval_EvalCode, (const void *)&PyArray_Type);
}

static PyObject *assumed_items(PyObject *self)
{
    Py_ssize_t n = assumed_len((Tracer *)self);
    PyObject *items = n < 0 ? NULL : PyList_New(n), *iter = NULL;
    for (Py_ssize_t k = 0; items && k < n; k++) {
        PyObject *item = tracer_item(self, k);
        if (!item)
            Py_CLEAR(items);
        else
            PyList_SET_ITEM(items, k, item);
    }
    iter = items ? PyObject_GetIter(items) : NULL;
    Py_XDECREF(items);
    return iter;
}

static PyObject *tracer_iter(PyObject *self)
{
    Tracer *x = (Tracer *)self;
    Trace *t = tracer_trace(x);
    if (t && x->kind == TRACER_PYTHON_SCALAR) {
        PyErr_Format(PyExc_TypeError, "'%s' object is not iterable", Py_TYPE(scalars_value(t->scalars, x->reg))->tp_name);
        return NULL;
    }
    if (t && tracer_rank(x) == 0) {
        PyErr_SetString(PyExc_TypeError, "iteration over a 0-d array");
        operation_failed("iter", self);
        return NULL;
    }
    if (t && tracer_shape(x)[0] < 0 && dispatched()) {
        PyObject *self_alone = PyTuple_Pack(1, self), *iter = self_alone ? PyObject_GetIter(self_alone) : NULL;
        Py_XDECREF(self_alone);
        return iter;
    }
    if (t && tracer_shape(x)[0] < 0 && numpy_asks())
        return assumed_items(self);
    if (t && tracer_shape(x)[0] < 0) {
        op_begin();
        err_set(&t->err, ERR_LIMIT, "iteration over an array whose size depends on data: compute with the whole array");
        return trace_fail(t);
    }
    return t ? PySeqIter_New(self) : NULL;
}

static int tracer_contains(PyObject *self, PyObject *value)
{
    if (no_container(self, "argument of type '%s' is not iterable"))
        return -1;
    Tracer *x = array_self(self, "__contains__");
    PyObject *same = x ? tracer_compare(self, value, Py_EQ) : NULL, *any = NULL;
    if (same && is_tracer(same)) {
        PyObject *method = PyObject_GetAttrString(same, "any");
        any = method ? PyObject_CallNoArgs(method) : NULL;
        Py_XDECREF(method);
    }
    int r = any ? PyObject_IsTrue(any) : same && !is_tracer(same) ? 0 : -1;    /* what no number equals is in no array */
    Py_XDECREF(same);
    Py_XDECREF(any);
    return r;
}

/* ---- NumPy's protocols ---- */

static PyObject *call_numpy(PyObject *f, PyObject *fargs, PyObject *kwargs)
{
    PyObject *ours = Py_XNewRef(PyDict_GetItemWithError(core_functions, f));
    if (!ours && !PyErr_Occurred())
        ours = other_function(f);
    if (!ours)
        return NULL;
    PyObject *read = sequence_read(fargs), *named = read ? sequence_read_values(kwargs) : NULL;
    PyObject *r = named ? PyObject_Call(ours, read, named) : NULL;
    Py_DECREF(ours);
    Py_XDECREF(read);
    Py_XDECREF(named);
    return r;
}

static PyObject *array_function(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *f, *types, *fargs, *kwargs;
    Operation o;
    if (!PyArg_ParseTuple(args, "OOO!O!", &f, &types, &PyTuple_Type, &fargs, &PyDict_Type, &kwargs) || !op_begin())
        return NULL;
    operation_begin(&o, NULL, f, PySequence_Fast_ITEMS(fargs), PyTuple_GET_SIZE(fargs));
    return operation_end(&o, call_numpy(f, fargs, kwargs));
}

/* NumPy asks for the elements: known for concrete tracers and, guarded, for Python numbers. */
static PyObject *tracer_array_method(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"dtype", "copy", NULL};
    PyObject *dtype = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO", names, &dtype, &copy))
        return NULL;
    Tracer *x = (Tracer *)self;
    PyObject *v = x->kind == TRACER_PYTHON_SCALAR ? scalar_concrete(x)
                  : tracer_value(x, "NumPy (or a library) asking for the elements", "use a NumPy function or method that pyxla knows, or compute this outside of the jitted function");
    PyArray_Descr *d = NULL;
    PyObject *a = v && PyArray_DescrConverter2(dtype, &d) ? PyArray_FromAny(v, d, 0, 0, NPY_ARRAY_FORCECAST, NULL) : NULL;
    Py_XDECREF(v);
    return a;
}

/* ---- other protocols of Python ---- */

static PyObject *tracer_copy_method(PyObject *self, PyObject *unused)
{
    (void)unused;
    Tracer *x = (Tracer *)self;
    return x->kind == TRACER_PYTHON_SCALAR ? Py_NewRef(self) : op_begin() && tracer_trace(x) ? tracer_copy(x) : NULL;
}

static PyObject *tracer_reduce(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    PyErr_SetString(PyExc_TypeError, "a tracer cannot be pickled: its value is known only when the compiled function runs; return it, and pickle the result");
    return NULL;
}

static PyObject *tracer_complex(PyObject *self, PyObject *unused)
{
    (void)unused;
    Tracer *x = (Tracer *)self;
    PyObject *v = x->kind == TRACER_PYTHON_SCALAR ? scalar_concrete(x) : tracer_value(x, "complex()", "use x.astype(complex)");
    PyObject *r = v ? PyObject_CallOneArg((PyObject *)&PyComplex_Type, v) : NULL;
    Py_XDECREF(v);
    return r;
}

static PyObject *from_module(const char *module, const char *name)
{
    PyObject *m = PyImport_ImportModule(module), *f = m ? PyObject_GetAttrString(m, name) : NULL;
    Py_XDECREF(m);
    return f;
}

/* round(x), math.floor(x) and the like: recorded for Python numbers, an integer of the value for others. */
static PyObject *rounded(PyObject *self, const char *module, const char *name, PyObject *digits)
{
    PyObject *f = from_module(module, name), *r = NULL;
    Tracer *x = (Tracer *)self;
    if (f && x->kind == TRACER_PYTHON_SCALAR)
        r = scalar_operate(SCALAR_CALL, self, digits, f);
    else if (f && x->kind == TRACER_ARRAY && !strcmp(name, "round"))
        PyErr_SetString(PyExc_TypeError, "type numpy.ndarray doesn't define __round__ method");
    else if (f) {
        PyObject *v = tracer_value(x, name, "use the NumPy function of that name");
        PyObject *item = v ? PyObject_CallMethod(v, "item", NULL) : NULL;
        r = item ? PyObject_CallFunctionObjArgs(f, item, digits, NULL) : NULL;
        Py_XDECREF(v);
        Py_XDECREF(item);
    }
    Py_XDECREF(f);
    return r;
}

/* Whether NumPy's scalars of x's dtype can be rounded: complex ones could before NumPy 2.4. */
static bool rounds(const Tracer *x)
{
    PyArray_Descr *d = (PyArray_Descr *)dtype_to_numpy(tracer_dtype(x));
    bool r = d && PyObject_HasAttrString((PyObject *)d->typeobj, "__round__");
    Py_XDECREF(d);
    return r;
}

static PyObject *tracer_round(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    Tracer *x = (Tracer *)self;
    if (x->kind == TRACER_NUMPY_SCALAR && dtype_info[tracer_dtype(x)].kind == DKIND_COMPLEX && !rounds(x)) {
        PyErr_Format(PyExc_TypeError, "type numpy.%s doesn't define __round__ method", dtype_info[tracer_dtype(x)].name);
        return NULL;
    }
    if (n && args[0] != Py_None && x->kind == TRACER_NUMPY_SCALAR) {
        PyObject *method = PyObject_GetAttrString(self, "round"), *r = method ? PyObject_CallOneArg(method, args[0]) : NULL;
        Py_XDECREF(method);
        return r;
    }
    return rounded(self, "builtins", "round", n && args[0] != Py_None ? args[0] : NULL);
}

#define ROUNDED(name) \
    static PyObject *tracer_##name(PyObject *self, PyObject *unused) \
    { \
        (void)unused; \
        return rounded(self, "math", #name, NULL); \
    }
ROUNDED(floor)
ROUNDED(ceil)
ROUNDED(trunc)

static PyMethodDef methods[] = {
    {"__array_ufunc__", (PyCFunction)(void (*)(void))tracer_array_ufunc, METH_FASTCALL | METH_KEYWORDS, "NumPy's protocol for ufuncs"},
    {"__array_function__", array_function, METH_VARARGS, "NumPy's protocol for functions"},
    {"__array__", (PyCFunction)(void (*)(void))tracer_array_method, METH_VARARGS | METH_KEYWORDS, "NumPy's protocol for elements"},
    {"__copy__", tracer_copy_method, METH_NOARGS, "a copy"},
    {"__deepcopy__", tracer_copy_method, METH_O, "a copy"},
    {"__reduce__", tracer_reduce, METH_NOARGS, "refused"},
    {"__format__", tracer_format, METH_O, "format(x, spec)"},
    {"__complex__", tracer_complex, METH_NOARGS, "complex(x)"},
    {"__round__", (PyCFunction)(void (*)(void))tracer_round, METH_FASTCALL, "round(x)"},
    {"__floor__", tracer_floor, METH_NOARGS, "math.floor(x)"},
    {"__ceil__", tracer_ceil, METH_NOARGS, "math.ceil(x)"},
    {"__trunc__", tracer_trunc, METH_NOARGS, "math.trunc(x)"},
    {NULL},
};

/* ---- the module ---- */

static bool make_type(PyObject *module)
{
    static PyType_Slot own[] = {
        {Py_tp_dealloc, tracer_dealloc}, {Py_tp_repr, tracer_repr}, {Py_tp_str, tracer_repr}, {Py_tp_hash, tracer_hash},
        {Py_tp_richcompare, tracer_compare}, {Py_tp_getattro, tracer_getattro}, {Py_tp_getset, getset}, {Py_tp_methods, methods},
        {Py_tp_iter, tracer_iter}, {Py_mp_subscript, tracer_getitem}, {Py_mp_ass_subscript, tracer_setitem}, {Py_mp_length, tracer_len},
        {Py_sq_item, tracer_item}, {Py_sq_contains, tracer_contains}, {Py_sq_length, tracer_len},
        {Py_tp_doc, "An array, NumPy scalar or Python number while a function is traced."},
    };
    PyType_Slot slots[64];
    size_t n = sizeof own / sizeof *own, k = 0;
    memcpy(slots, own, sizeof own);
    do
        slots[n + k] = operator_slots[k];
    while (operator_slots[k++].slot);
    PyType_Spec spec = {"pyxla._core.Tracer", sizeof(Tracer), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE, slots};
    tracer_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return tracer_type && hide_slots() && PyModule_AddObjectRef(module, "Tracer", (PyObject *)tracer_type) == 0;
}

static bool add_dict(PyObject *module, const char *name, PyObject **dict)
{
    *dict = PyDict_New();
    return *dict && PyModule_AddObjectRef(module, name, *dict) == 0;
}

int tracer_module_init(PyObject *module)
{
    bool ok = make_type(module) && add_dict(module, "_functions", &core_functions) && add_dict(module, "_methods", &core_methods)
           && add_dict(module, "_creators", &core_creators) && PyModule_AddFunctions(module, prim_methods) == 0
           && PyModule_AddFunctions(module, view_methods) == 0 && ufunc_init(module) && hooks_init();
    return ok ? 0 : -1;
}
