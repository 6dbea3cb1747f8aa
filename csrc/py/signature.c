#include "py/signature.h"
#include "py/error.h"
#include "py/constant.h"
#include "py/state.h"
#include "py/trace.h"
#include "base/hash.h"

void record_init(Record *r)
{
    r->sig = r->sig_buf;
    r->lay = r->lay_buf;
    r->value = r->value_buf;
    r->leaf = r->leaf_buf;
    r->statics = r->statics_buf;
    r->nsig = r->nlay = r->nleaves = r->nstatics = 0;
    r->sig_cap = sizeof r->sig_buf / sizeof *r->sig_buf;
    r->lay_cap = sizeof r->lay_buf / sizeof *r->lay_buf;
    r->leaf_cap = sizeof r->leaf_buf / sizeof *r->leaf_buf;
    r->statics_cap = sizeof r->statics_buf / sizeof *r->statics_buf;
    r->abstract = r->shapes = false;
    r->why = NULL;
    r->refused = NULL;
    memset(r->seen, 0, sizeof r->seen);
}

void record_clear(Record *r)
{
    for (uint32_t k = 0; k < r->nleaves; k++) {
        Py_DECREF(r->value[k]);
        Py_DECREF(r->leaf[k].object);
    }
    for (uint32_t k = 0; k < r->nstatics; k++)
        Py_DECREF(r->statics[k]);
    Py_XDECREF(r->refused);
    if (r->sig != r->sig_buf)
        PyMem_Free(r->sig);
    if (r->lay != r->lay_buf)
        PyMem_Free(r->lay);
    if (r->value != r->value_buf)
        PyMem_Free(r->value);
    if (r->leaf != r->leaf_buf)
        PyMem_Free(r->leaf);
    if (r->statics != r->statics_buf)
        PyMem_Free(r->statics);
}

/* ---- growing: from the buffers in the record to the heap ---- */

static bool grow(void *at_, void *buf, size_t item, uint32_t cap)
{
    void **at = at_;
    void *bigger = *at == buf ? PyMem_Malloc(2 * cap * item) : PyMem_Realloc(*at, 2 * cap * item);
    if (!bigger) {
        PyErr_NoMemory();
        return false;
    }
    if (*at == buf)
        memcpy(bigger, buf, cap * item);
    *at = bigger;
    return true;
}

static bool grow_sig(Record *r)
{
    if (!grow(&r->sig, r->sig_buf, sizeof *r->sig, r->sig_cap))
        return false;
    r->sig_cap *= 2;
    return true;
}

static bool grow_lay(Record *r)
{
    if (!grow(&r->lay, r->lay_buf, sizeof *r->lay, r->lay_cap))
        return false;
    r->lay_cap *= 2;
    return true;
}

static bool grow_leaves(Record *r)
{
    if (!grow(&r->value, r->value_buf, sizeof *r->value, r->leaf_cap) || !grow(&r->leaf, r->leaf_buf, sizeof *r->leaf, r->leaf_cap))
        return false;
    r->leaf_cap *= 2;
    return true;
}

/* Room for n more words, n well below the first capacity. */
static inline bool room_sig(Record *r, uint32_t n) { return r->nsig + n <= r->sig_cap || grow_sig(r); }
static inline bool room_lay(Record *r, uint32_t n) { return r->nlay + n <= r->lay_cap || grow_lay(r); }
static inline bool room_leaf(Record *r) { return r->nleaves < r->leaf_cap || grow_leaves(r); }

/* Appends a leaf; takes its own reference to the object and takes over the one to the value. */
static inline Leaf *push_leaf(Record *r, PyObject *object, PyObject *value, int kind, int dtype)
{
    Leaf *l = &r->leaf[r->nleaves];
    *l = (Leaf){.object = Py_NewRef(object), .alias = -1, .kind = (uint8_t)kind, .dtype = (uint8_t)dtype};
    r->value[r->nleaves++] = value;
    return l;
}

static bool refuse(Record *r, PyObject *object, const char *why)
{
    r->why = why;
    Py_XSETREF(r->refused, Py_NewRef(object));
    return false;
}

/* ---- leaves ---- */

/* The earlier array leaf that is the same object, or -1. A small filter of addresses spares most of the searches. */
static inline int find_alias(Record *r, PyObject *object)
{
    uint64_t h = (uint64_t)(uintptr_t)object * 0x9E3779B97F4A7C15u >> 54, bit = (uint64_t)1 << (h & 63);
    uint64_t *word = &r->seen[h >> 6];
    if (!(*word & bit)) {
        *word |= bit;
        return -1;
    }
    for (uint32_t k = 0; k < r->nleaves; k++)
        if (r->leaf[k].object == object && r->leaf[k].kind == LEAF_ARRAY)
            return (int)k;
    return -1;
}

/* Writes down an array. object is what the caller passed, value the ndarray to read (its reference is taken over). */
static bool put_array(Record *r, PyObject *object, PyArrayObject *a, Dtype dtype, int alias, unsigned flags, bool donated)
{
    uint32_t rank = (uint32_t)PyArray_NDIM(a);
    if (donated && (PyObject *)a == object && PyArray_ISWRITEABLE(a))
        flags |= SIG_DONATED;
    if (!room_sig(r, rank + 1) || !room_lay(r, rank + 1) || !room_leaf(r)) {
        Py_DECREF(a);
        return false;
    }
    Leaf *l = push_leaf(r, object, (PyObject *)a, LEAF_ARRAY, dtype);
    l->rank = (uint8_t)rank;
    l->flags = (uint8_t)flags;
    l->alias = alias;
    l->lay = r->nlay;
    const npy_intp *shape = PyArray_DIMS(a), *stride = PyArray_STRIDES(a);
    uint64_t *sig = r->sig + r->nsig;
    int64_t *lay = r->lay + r->nlay;
    *sig++ = LEAF_ARRAY | (uint64_t)dtype << 8 | (uint64_t)rank << 16 | (uint64_t)flags << 24 | (uint64_t)(alias + 1) << 32;
    for (uint32_t k = 0; k < rank; k++) {
        *sig++ = (uint64_t)shape[k];
        *lay++ = shape[k] > 1 ? stride[k] : 0;
    }
    if (__builtin_expect(PyArray_BASE(a) != NULL, 0) && constant_is(a))
        *lay++ = LAY_CONSTANT;
    r->nsig = (uint32_t)(sig - r->sig);
    r->nlay = (uint32_t)(lay - r->lay);
    return true;
}

static const char *array_refusal(PyArrayObject *a)
{
    switch (PyArray_DESCR(a)->kind) {
    case 'O': return "object arrays are not supported: convert it to numbers";
    case 'S': case 'U': case 'T': return "string arrays are not supported";
    case 'V': return PyDataType_HASFIELDS(PyArray_DESCR(a)) ? "structured arrays are not supported: pass the fields as arrays of their own"
                                                            : "arrays of this dtype are not supported: convert it by .astype(dtype)";
    case 'M': case 'm': return "datetime and timedelta arrays are not supported: pass .view('int64')";
    case 'f': case 'c': return "arrays of extended precision are not supported: pass .astype(float) or .astype(complex)";
    default: return "arrays of this dtype are not supported: convert it by .astype(dtype)";
    }
}

/* A dtype outside the table: one that was registered with NumPy (bfloat16), or one we refuse. */
static bool foreign_dtype(Record *r, PyObject *object, PyArrayObject *a, Dtype *dtype)
{
    *dtype = PyArray_TYPE(a) < NPY_NTYPES_LEGACY || PyArray_TYPE(a) == NPY_VSTRING ? DT_COUNT
           : dtype_from_numpy((PyObject *)PyArray_DESCR(a), "an argument");
    if (*dtype != DT_COUNT)
        return true;
    error_drop();
    return refuse(r, object, array_refusal(a));
}

/* An array that lies in memory that `object` lends or is; a reference to a is taken over. */
static bool add_array(Record *r, PyObject *object, PyArrayObject *a, bool donated)
{
    Dtype dtype = array_dtype(a);
    bool ok = dtype != DT_COUNT || foreign_dtype(r, object, a, &dtype);
    if (ok && PyArray_NDIM(a) > MAX_RANK)
        ok = refuse(r, object, "arrays of more than 16 dimensions are not supported");
    if (!ok) {
        Py_DECREF(a);
        return false;
    }
    return put_array(r, object, a, dtype, find_alias(r, object), PyArray_ISNOTSWAPPED(a) ? 0 : SIG_SWAPPED, donated);
}

static bool add_simple(Record *r, PyObject *o, ObjectKind kind, Dtype dtype)
{
    if (!room_sig(r, 1) || !room_leaf(r))
        return false;
    push_leaf(r, o, Py_NewRef(o), kind, dtype);
    r->sig[r->nsig++] = kind | (uint64_t)dtype << 8 | (uint64_t)(kind == LEAF_INT ? integer_range(o) : RANGE_INT64) << 16;
    return true;
}

/* Remembers an object whose equality a hit has to prove; its hash and type go into the signature. why: said of one without a hash. */
static bool put_hashed(Record *r, PyObject *o, const char *why)
{
    Py_hash_t h = PyObject_Hash(o);
    if (h == -1) {
        if (PyErr_ExceptionMatches(PyExc_TypeError)) {
            error_drop();
            refuse(r, o, why);
        }
        return false;
    }
    if (!room_sig(r, 2))
        return false;
    if (r->nstatics == r->statics_cap) {
        if (!grow(&r->statics, r->statics_buf, sizeof *r->statics, r->statics_cap))
            return false;
        r->statics_cap *= 2;
    }
    r->statics[r->nstatics++] = Py_NewRef(o);
    r->sig[r->nsig++] = (uint64_t)(uintptr_t)Py_TYPE(o);
    r->sig[r->nsig++] = (uint64_t)h;
    return true;
}

static bool put_static(Record *r, PyObject *o)
{
    return put_hashed(r, o, "it is neither an array, a number or a tree of them, nor hashable: register its class by pyxla.register_tree");
}

static bool put_leaf(Record *r, PyObject *o, const char *why)
{
    if (!room_sig(r, 1) || !room_leaf(r))
        return false;
    r->sig[r->nsig++] = LEAF_STATIC;
    if (!put_hashed(r, o, why))
        return false;
    push_leaf(r, o, Py_NewRef(o), LEAF_STATIC, 0);
    return true;
}

static bool add_other(Record *r, PyObject *o)
{
    return put_leaf(r, o, "it is neither an array, a number or a tree of them, nor hashable: register its class by pyxla.register_tree");
}

/* An argument of static_argnums or static_argnames. */
static bool add_static(Record *r, PyObject *o)
{
    return put_leaf(r, o, "a static argument is part of the signature and has to be hashable: pass a tuple or a number, or do not make it static");
}

/* Memory lent by an object of another library, as an ndarray over it. */
static bool add_lent(Record *r, PyObject *o, ObjectKind kind)
{
    PyObject *read = kind == LEAF_DLPACK ? state_import(&state.from_dlpack, "numpy", "from_dlpack")
                                         : state_import(&state.asarray, "numpy", "asarray");
    int alias = find_alias(r, o);
    PyObject *a = alias >= 0 ? Py_NewRef(r->value[alias]) : read ? PyObject_CallOneArg(read, o) : NULL;
    if (!a)
        return refuse(r, o, NULL);    /* the exception says why */
    if (!PyArray_CheckExact(a)) {
        Py_DECREF(a);
        return refuse(r, o, "its memory cannot be read as an ndarray");
    }
    return add_array(r, o, (PyArrayObject *)a, false);
}

/* ShapeDtype(shape, dtype): zeros that nobody reads stand for it, so that the rest sees an array. */
static bool add_abstract(Record *r, PyObject *o)
{
    if (!r->abstract)
        return refuse(r, o, "a ShapeDtype stands for an array only in lower() and eval_shape()");
    r->shapes = true;
    PyObject *zeros = PyObject_CallMethod(o, "_zeros", NULL);
    if (!zeros || !PyArray_CheckExact(zeros)) {
        Py_XDECREF(zeros);
        return PyErr_Occurred() ? false : refuse(r, o, "not a ShapeDtype");
    }
    return add_array(r, zeros, (PyArrayObject *)zeros, false);    /* each one an array of its own, even where a ShapeDtype is used twice */
}

/* ---- containers ---- */

static bool add_object(Record *r, PyObject *o, bool donated);

static bool put_open(Record *r, ObjectKind kind, Py_ssize_t n)
{
    if (!room_sig(r, 1))
        return false;
    r->sig[r->nsig++] = kind | (uint64_t)n << 32;
    return true;
}

static bool add_tuple(Record *r, PyObject *o, bool donated)
{
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(o); k++)
        if (!add_object(r, PyTuple_GET_ITEM(o, k), donated))
            return false;
    return true;
}

/* The size is read again each time: adding an item may run Python code that changes the list. */
static bool add_list(Record *r, PyObject *o, bool donated)
{
    Py_ssize_t n = PyList_GET_SIZE(o), k = 0;
    if (!put_open(r, TREE_LIST, n))
        return false;
    for (bool ok = true; k < n && k < PyList_GET_SIZE(o); k++) {
        PyObject *item = Py_NewRef(PyList_GET_ITEM(o, k));
        ok = add_object(r, item, donated);
        Py_DECREF(item);
        if (!ok)
            return false;
    }
    return k == n || refuse(r, o, "it changed while it was read");
}

static bool add_dict(Record *r, PyObject *o, bool donated)
{
    Py_ssize_t pos = 0, n = PyDict_GET_SIZE(o);
    PyObject *key, *value;
    if (!put_open(r, TREE_DICT, n))
        return false;
    while (PyDict_Next(o, &pos, &key, &value)) {
        Py_INCREF(key);
        Py_INCREF(value);
        bool ok = put_static(r, key) && add_object(r, value, donated);
        Py_DECREF(key);
        Py_DECREF(value);
        if (!ok)
            return false;
        if (PyDict_GET_SIZE(o) != n)
            return refuse(r, o, "it changed while it was read");
    }
    return true;
}

/* An OrderedDict has an order of its own. */
static bool add_ordered(Record *r, PyObject *o, bool donated)
{
    PyObject *keys = PySequence_Tuple(o);
    bool ok = keys && put_open(r, TREE_ORDERED, PyTuple_GET_SIZE(keys));
    for (Py_ssize_t k = 0; ok && k < PyTuple_GET_SIZE(keys); k++) {
        PyObject *value = PyObject_GetItem(o, PyTuple_GET_ITEM(keys, k));
        ok = value && put_static(r, PyTuple_GET_ITEM(keys, k)) && add_object(r, value, donated);
        Py_XDECREF(value);
    }
    Py_XDECREF(keys);
    return ok;
}

static bool add_dataclass(Record *r, PyObject *o, PyObject *names, bool donated)
{
    Py_INCREF(names);
    bool ok = put_open(r, TREE_DATACLASS, PyTuple_GET_SIZE(names)) && put_static(r, (PyObject *)Py_TYPE(o));
    for (Py_ssize_t k = 0; ok && k < PyTuple_GET_SIZE(names); k++) {
        PyObject *value = PyObject_GetAttr(o, PyTuple_GET_ITEM(names, k));
        ok = value && add_object(r, value, donated);
        Py_XDECREF(value);
    }
    Py_DECREF(names);
    return ok;
}

static bool add_slice(Record *r, PyObject *o)
{
    PySliceObject *s = (PySliceObject *)o;
    return put_open(r, TREE_SLICE, 3) && add_object(r, s->start, false) && add_object(r, s->stop, false) && add_object(r, s->step, false);
}

static bool add_registered(Record *r, PyObject *o, const TypeInfo *info, bool donated)
{
    PyObject *children, *aux;
    if (!registered_flatten(info, o, &children, &aux))
        return false;
    bool ok = put_open(r, TREE_REGISTERED, PyTuple_GET_SIZE(children)) && put_static(r, (PyObject *)Py_TYPE(o))
           && put_hashed(r, aux, "aux, which flatten() gives for a class of pyxla.register_tree, has to be hashable")
           && add_tuple(r, children, donated);
    Py_DECREF(children);
    Py_DECREF(aux);
    return ok;
}

static bool add_node(Record *r, PyObject *o, const TypeInfo *info, bool donated)
{
    switch (info->kind) {
    case TREE_TUPLE: return put_open(r, TREE_TUPLE, PyTuple_GET_SIZE(o)) && add_tuple(r, o, donated);
    case TREE_LIST: return add_list(r, o, donated);
    case TREE_DICT: return add_dict(r, o, donated);
    case TREE_ORDERED: return add_ordered(r, o, donated);
    case TREE_NAMED:
        return put_open(r, TREE_NAMED, PyTuple_GET_SIZE(o)) && put_static(r, (PyObject *)Py_TYPE(o)) && add_tuple(r, o, donated);
    case TREE_DATACLASS: return add_dataclass(r, o, info->fields, donated);
    case TREE_SLICE: return add_slice(r, o);
    case TREE_REGISTERED: return add_registered(r, o, info, donated);
    case TREE_NONE: return put_open(r, TREE_NONE, 0);
    case LEAF_DLPACK: case LEAF_INTERFACE:
        return tracer_check(o) ? refuse(r, o, NULL) : info->own && !object_lends(o) ? add_other(r, o) : add_lent(r, o, info->kind);
    case LEAF_SHAPE: return add_abstract(r, o);
    case LEAF_STATIC: return tracer_check(o) ? refuse(r, o, NULL) : add_other(r, o);
    case LEAF_BAD: return refuse(r, o, tracer_check(o) ? NULL : info->why);
    case LEAF_ARRAY: case LEAF_SCALAR: case LEAF_BOOL: case LEAF_INT: case LEAF_FLOAT: case LEAF_COMPLEX:
        break;
    }
    return refuse(r, o, "it is not supported");
}

static bool add_object(Record *r, PyObject *o, bool donated)
{
    if (PyArray_CheckExact(o)) {
        PyArrayObject *a = (PyArrayObject *)o;
        Dtype dtype = array_dtype(a);
        if (dtype != DT_COUNT && PyArray_NDIM(a) <= MAX_RANK)
            return put_array(r, o, (PyArrayObject *)Py_NewRef(o), dtype, find_alias(r, o), PyArray_ISNOTSWAPPED(a) ? 0 : SIG_SWAPPED, donated);
    }
    const TypeInfo *info = type_info(Py_TYPE(o));
    if (!info)
        return false;
    if (info->kind == LEAF_ARRAY)
        return add_array(r, o, (PyArrayObject *)Py_NewRef(o), donated);
    if (info->kind < LEAF_STATIC)
        return add_simple(r, o, info->kind, info->dtype);
    if (Py_EnterRecursiveCall(" while pyxla reads an argument"))
        return false;
    bool ok = add_node(r, o, info, donated);
    Py_LeaveRecursiveCall();
    return ok;
}

/* ---- whole calls ---- */

static inline bool add_param(Record *r, const Param *p, PyObject *value)
{
    return p->is_static ? add_static(r, value) : add_object(r, value, p->donated);
}

bool record_args(Record *r, const Signature *s, PyObject *const *args)
{
    for (int k = 0; k < s->npos; k++)
        if (!add_param(r, &s->params[k], args[k]))
            return false;
    return true;
}

static bool add_var(Record *r, const Signature *s, const Binding *b)
{
    bool ok = put_open(r, TREE_TUPLE, b->nvar);
    for (Py_ssize_t k = 0; ok && k < b->nvar; k++) {
        uint64_t bit = k < 64 ? (uint64_t)1 << k : 0;
        ok = s->var_static & bit ? add_static(r, b->var[k]) : add_object(r, b->var[k], s->var_donated & bit);
    }
    return ok;
}

static bool add_varkw(Record *r, const Signature *s, const Binding *b)
{
    bool ok = put_open(r, TREE_DICT, b->nkw);
    for (Py_ssize_t k = 0; ok && k < b->nkw; k++) {
        int fixed = PySet_Contains(s->static_names, b->kw_name[k]), donated = PySet_Contains(s->donate_names, b->kw_name[k]);
        ok = fixed >= 0 && donated >= 0 && put_static(r, b->kw_name[k])
          && (fixed ? add_static(r, b->kw_value[k]) : add_object(r, b->kw_value[k], donated));
    }
    return ok;
}

bool record_binding(Record *r, const Signature *s, const Binding *b)
{
    for (int k = 0; k < s->nparams; k++)
        if (!add_param(r, &s->params[k], b->slot[k]))
            return false;
    return (!s->var || add_var(r, s, b)) && (!s->varkw || add_varkw(r, s, b));
}

bool record_lends(const Record *r)
{
    bool found = false;
    for (uint32_t k = 0; k < r->nleaves; k++) {
        PyObject *o = r->leaf[k].object;
        const TypeInfo *info = r->leaf[k].kind == LEAF_STATIC && object_lends(o) ? type_info(Py_TYPE(o)) : NULL;
        if (info && info->kind == LEAF_STATIC) {
            type_lends(Py_TYPE(o));
            found = true;
        }
    }
    return found;
}

uint64_t record_hash(const Record *r) { return hash_bytes(r->sig, r->nsig * sizeof *r->sig, 0); }

/* ---- messages ---- */

/* The name of the leaf that was refused: the record stops in front of it. */
static PyObject *refused_name(const Record *r, const Signature *s, const Binding *b)
{
    Tree t = {0};
    ObjectList leaves = {0};
    PyObject *name = binding_tree(b, s, &t, &leaves) ? leaf_name(s, &t, r->nleaves) : NULL;
    tree_free(&t);
    objects_free(&leaves);
    if (!name)
        error_drop();
    return name;
}

static void raise_from(PyObject *cls, const char *fn, PyObject *name, const char *type, PyObject *cause)
{
    PyErr_Format(cls, "%s: argument %S is a %s whose memory cannot be read: %S", fn, name, type, cause);
    PyObject *t, *v, *tb;
    PyErr_Fetch(&t, &v, &tb);
    PyErr_NormalizeException(&t, &v, &tb);
    if (v)
        PyException_SetCause(v, Py_NewRef(cause));
    PyErr_Restore(t, v, tb);
}

void record_raise(const Record *r, const Signature *s, const Binding *b, const char *fn)
{
    if (!r->refused || (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)))
        return;
    PyObject *t, *cause, *tb;
    PyErr_Fetch(&t, &cause, &tb);
    PyErr_NormalizeException(&t, &cause, &tb);
    PyObject *name = refused_name(r, s, b);
    PyObject *shown = name ? name : Py_None;
    const char *type = Py_TYPE(r->refused)->tp_name;
    if (cause)
        raise_from(PyExc_TypeError, fn, shown, type, cause);
    else if (r->why)
        PyErr_Format(PyExc_TypeError, "%s: argument %S is a %s: %s", fn, shown, type, r->why);
    else
        PyErr_Format(state.trace_error, "%s: argument %S is a tracer that outlived its trace: return values from a jitted function instead "
                     "of storing them elsewhere", fn, shown);
    Py_XDECREF(name);
    Py_XDECREF(t);
    Py_XDECREF(cause);
    Py_XDECREF(tb);
}

PyObject *leaf_describe(const Record *r, uint32_t leaf)
{
    const Leaf *l = &r->leaf[leaf];
    if (l->kind == LEAF_STATIC)
        return PyObject_Repr(l->object);
    if (l->kind >= LEAF_BOOL)
        return PyUnicode_FromString(Py_TYPE(l->object)->tp_name);
    Text t = {0};
    text_put(&t, "%s", dtype_info[l->dtype].name);
    if (l->kind == LEAF_ARRAY) {
        text_put(&t, "[");
        for (int k = 0; k < l->rank; k++)
            text_put(&t, "%s%lld", k ? "," : "", (long long)PyArray_DIM((PyArrayObject *)r->value[leaf], k));
        text_put(&t, "]%s", l->flags & SIG_SWAPPED ? " byte-swapped" : "");
    }
    if (l->alias >= 0)
        text_put(&t, " (the same object as leaf %d)", l->alias);
    PyObject *s = t.failed || !t.at ? PyErr_NoMemory() : PyUnicode_FromStringAndSize(t.at, (Py_ssize_t)t.len);
    text_free(&t);
    return s;
}

/* ---- equality of static leaves ---- */

static int tuple_equal(PyObject *a, PyObject *b)
{
    if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b))
        return 0;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(a); k++) {
        int r = static_equal(PyTuple_GET_ITEM(a, k), PyTuple_GET_ITEM(b, k));
        if (r <= 0)
            return r;
    }
    return 1;
}

/* Each element of a has a strictly equal one in b: {1} and {1.0} are equal for Python, not for a trace. */
static int frozenset_equal(PyObject *a, PyObject *b)
{
    if (PySet_GET_SIZE(a) != PySet_GET_SIZE(b))
        return 0;
    PyObject *xs = PySequence_Tuple(a), *ys = xs ? PySequence_Tuple(b) : NULL;
    int r = ys ? 1 : -1;
    for (Py_ssize_t i = 0; r == 1 && i < PyTuple_GET_SIZE(xs); i++) {
        r = 0;
        for (Py_ssize_t k = 0; r == 0 && k < PyTuple_GET_SIZE(ys); k++)
            r = static_equal(PyTuple_GET_ITEM(xs, i), PyTuple_GET_ITEM(ys, k));
    }
    Py_XDECREF(xs);
    Py_XDECREF(ys);
    return r;
}

/* By their bits: 0.0 is not -0.0, a NaN is itself. */
static int float_equal(double a, double b) { return !memcmp(&a, &b, sizeof a); }

int static_equal(PyObject *a, PyObject *b)
{
    if (a == b)
        return 1;
    if (Py_TYPE(a) != Py_TYPE(b))
        return 0;
    if (PyTuple_CheckExact(a))
        return tuple_equal(a, b);
    if (PyFrozenSet_CheckExact(a))
        return frozenset_equal(a, b);
    if (PyFloat_CheckExact(a))
        return float_equal(PyFloat_AS_DOUBLE(a), PyFloat_AS_DOUBLE(b));
    if (PyComplex_CheckExact(a)) {
        Py_complex x = PyComplex_AsCComplex(a), y = PyComplex_AsCComplex(b);
        return float_equal(x.real, y.real) && float_equal(x.imag, y.imag);
    }
    return PyObject_RichCompareBool(a, b, Py_EQ);
}
