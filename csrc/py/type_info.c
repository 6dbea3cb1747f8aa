/* What objects of a type are: a hash table from types to TypeInfo, filled on first sight. Heap types are held weakly. */
#include "py/state.h"
#include "py/error.h"
#include "py/trace.h"
#include "py/tree.h"

typedef struct { PyTypeObject *type; PyObject *weak; TypeInfo info; } Row;

static Row **rows;
static uint32_t rows_cap, rows_len;
static uint8_t dtype_of_num[NPY_NTYPES_LEGACY];

static bool row_alive(const Row *r)
{
    if (!r->weak)
        return true;
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *o = NULL;
    if (PyWeakref_GetRef(r->weak, &o) <= 0)
        return false;
    Py_DECREF(o);
    return o == (PyObject *)r->type;
#else
    return PyWeakref_GetObject(r->weak) == (PyObject *)r->type;
#endif
}

static void info_clear(TypeInfo *info)
{
    Py_CLEAR(info->fields);
    Py_CLEAR(info->flatten);
    Py_CLEAR(info->unflatten);
}

static void row_free(Row *r)
{
    info_clear(&r->info);
    Py_XDECREF(r->weak);
    PyMem_Free(r);
}

/* The place of a type: its row, or the empty one where it belongs. */
static Row **row_find(PyTypeObject *type)
{
    for (uint32_t k = (uint32_t)((uintptr_t)type >> 4); ; k++) {
        Row **r = &rows[k & (rows_cap - 1)];
        if (!*r || (*r)->type == type)
            return r;
    }
}

/* Makes room, without the rows of types that are gone: the table doubles if they are few. */
static bool rows_grow(void)
{
    uint32_t old_cap = rows_cap, alive = 0;
    for (uint32_t k = 0; k < old_cap; k++)
        alive += rows[k] && row_alive(rows[k]);
    uint32_t cap = !old_cap ? 64 : alive * 4 > old_cap ? old_cap * 2 : old_cap;
    Row **old = rows, **bigger = PyMem_Calloc(cap, sizeof *rows);
    if (!bigger) {
        PyErr_NoMemory();
        return false;
    }
    rows = bigger;
    rows_cap = cap;
    rows_len = 0;
    for (uint32_t k = 0; k < old_cap; k++) {
        if (!old[k])
            continue;
        if (!row_alive(old[k])) {
            row_free(old[k]);
            continue;
        }
        *row_find(old[k]->type) = old[k];
        rows_len++;
    }
    PyMem_Free(old);
    return true;
}

/* Enters what a type is; takes over the references in info. */
static Row *row_set(PyTypeObject *type, const TypeInfo *info)
{
    PyObject *weak = NULL;
    if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && !(weak = PyWeakref_NewRef((PyObject *)type, NULL)))
        return NULL;
    if (rows_len * 2 >= rows_cap && !rows_grow()) {
        Py_XDECREF(weak);
        return NULL;
    }
    Row **slot = row_find(type);
    if (!*slot && !(*slot = PyMem_Calloc(1, sizeof **slot))) {
        Py_XDECREF(weak);
        PyErr_NoMemory();
        return NULL;
    }
    Row *r = *slot;
    rows_len += r->type == NULL;
    r->type = type;
    TypeInfo old = r->info;
    PyObject *old_weak = r->weak;
    r->info = *info;
    r->weak = weak;
    info_clear(&old);
    Py_XDECREF(old_weak);
    return r;
}

/* ---- classifying ---- */

static bool has_attribute(PyTypeObject *type, PyObject *name)
{
    PyObject *o = PyObject_GetAttr((PyObject *)type, name);
    if (!o)
        error_drop();
    Py_XDECREF(o);
    return o != NULL;
}

/* Names of a dataclass's fields (ClassVar and InitVar pseudo-fields left out), or NULL with an exception. */
static PyObject *dataclass_fields(PyTypeObject *type)
{
    PyObject *module = PyImport_ImportModule("dataclasses");
    if (!module)
        return NULL;
    PyObject *fields = PyObject_CallMethod(module, "fields", "O", type);
    Py_DECREF(module);
    if (!fields)
        return NULL;
    Py_ssize_t n = PyTuple_GET_SIZE(fields);
    PyObject *names = PyTuple_New(n);
    for (Py_ssize_t k = 0; names && k < n; k++) {
        PyObject *name = PyObject_GetAttrString(PyTuple_GET_ITEM(fields, k), "name");
        if (!name)
            Py_CLEAR(names);
        else
            PyTuple_SET_ITEM(names, k, name);
    }
    Py_DECREF(fields);
    return names;
}

static Dtype scalar_dtype(PyTypeObject *type)
{
    for (int num = 0; num < NPY_NTYPES_LEGACY; num++) {
        if (dtype_of_num[num] == DT_COUNT)
            continue;
        PyArray_Descr *d = PyArray_DescrFromType(num);
        bool same = d && d->typeobj == type;
        Py_XDECREF(d);
        if (same)
            return dtype_of_num[num];
    }
    return PyType_IsSubtype(type, &PyGenericArrType_Type) ? scalar_type_registered(type) : DT_COUNT;
}

static TypeInfo bad(const char *why) { return (TypeInfo){.kind = LEAF_BAD, .why = why}; }

/* Types with a fixed meaning; false if this is none of them. */
static bool classify_exact(PyTypeObject *type, TypeInfo *out)
{
    const struct { PyTypeObject *type; ObjectKind kind; } exact[] = {
        {&PyArray_Type, LEAF_ARRAY}, {&PyBool_Type, LEAF_BOOL}, {&PyLong_Type, LEAF_INT}, {&PyFloat_Type, LEAF_FLOAT},
        {&PyComplex_Type, LEAF_COMPLEX}, {&PyUnicode_Type, LEAF_STATIC}, {Py_TYPE(Py_None), TREE_NONE}, {&PyTuple_Type, TREE_TUPLE},
        {&PyList_Type, TREE_LIST}, {&PyDict_Type, TREE_DICT}, {&PyODict_Type, TREE_ORDERED}, {&PySlice_Type, TREE_SLICE},
        {(PyTypeObject *)state.shape_dtype, LEAF_SHAPE},
    };
    for (size_t k = 0; k < sizeof exact / sizeof *exact; k++)
        if (exact[k].type == type) {
            *out = (TypeInfo){.kind = exact[k].kind};
            return true;
        }
    return false;
}

static TypeInfo classify_numpy_scalar(PyTypeObject *type)
{
    Dtype d = scalar_dtype(type);
    if (d != DT_COUNT)
        return (TypeInfo){.kind = LEAF_SCALAR, .dtype = d};
    if (PyType_IsSubtype(type, &PyUnicode_Type) || PyType_IsSubtype(type, &PyBytes_Type))
        return (TypeInfo){.kind = LEAF_STATIC};
    return bad("NumPy scalars of this type are not supported");
}

static bool classify(PyTypeObject *type, TypeInfo *out)
{
    *out = (TypeInfo){.kind = LEAF_STATIC};
    if (classify_exact(type, out))
        return true;
    if (PyType_IsSubtype(type, &PyArray_Type))
        *out = bad("subclasses of ndarray have their own meaning of operations: pass numpy.asarray(it)");
    else if (PyType_IsSubtype(type, &PyGenericArrType_Type))
        *out = classify_numpy_scalar(type);
    else if (PyType_IsSubtype(type, &PyTuple_Type) && has_attribute(type, state.str_fields))
        *out = (TypeInfo){.kind = TREE_NAMED};
    else if (PyType_IsSubtype(type, &PyType_Type))
        return true;    /* classes are static, whatever their instances offer */
    else if (has_attribute(type, state.str_dataclass_fields)) {
        *out = (TypeInfo){.kind = TREE_DATACLASS, .fields = dataclass_fields(type)};
        return out->fields != NULL;
    }
    else if (has_attribute(type, state.str_dlpack))
        *out = (TypeInfo){.kind = LEAF_DLPACK};
    else if (has_attribute(type, state.str_array_interface) || has_attribute(type, state.str_array_struct))
        *out = (TypeInfo){.kind = LEAF_INTERFACE};
    else if (has_attribute(type, state.str_array))
        *out = bad("pass numpy.asarray(it), so that it is clear whose memory is read");
    else if (type->tp_iternext && PyObject_HasAttrString((PyObject *)type, "__next__"))
        *out = bad("an iterator is used up by being read: pass a list or a tuple");
    else if (!strncmp(type->tp_name, "numpy.random.", 13))
        *out = bad("a random generator changes as it is used: draw outside and pass the numbers");
    return true;
}

const TypeInfo *type_info(PyTypeObject *type)
{
    Row **slot = row_find(type);
    if (*slot && row_alive(*slot))
        return &(*slot)->info;
    TypeInfo info;
    if (!classify(type, &info))
        return NULL;
    Row *r = row_set(type, &info);
    if (!r) {
        info_clear(&info);
        return NULL;
    }
    return &r->info;
}

bool object_lends(PyObject *o)
{
    PyObject *dict = PyType_HasFeature(Py_TYPE(o), Py_TPFLAGS_HEAPTYPE) && !PyType_Check(o) ? PyObject_GenericGetDict(o, NULL) : NULL;
    bool lends = dict && PyDict_GetItemWithError(dict, state.str_array_interface);
    Py_XDECREF(dict);
    error_drop();
    return lends;
}

void type_lends(PyTypeObject *type)
{
    Row *r = *row_find(type);
    if (r && r->info.kind == LEAF_STATIC) {
        r->info.kind = LEAF_INTERFACE;
        r->info.own = true;
    }
}

Dtype array_dtype(PyArrayObject *a)
{
    int num = PyArray_TYPE(a);
    return num < NPY_NTYPES_LEGACY ? dtype_of_num[num] : PyTypeNum_ISUSERDEF(num) ? dtype_registered((PyObject *)PyArray_DESCR(a)) : DT_COUNT;
}

/* ---- registered classes ---- */

PyObject *tree_register(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 3 || !PyType_Check(args[0]) || !PyCallable_Check(args[1]) || !PyCallable_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "register_tree(cls, flatten, unflatten): a class and two functions");
        return NULL;
    }
    PyTypeObject *type = (PyTypeObject *)args[0];
    const TypeInfo *old = type_info(type);
    if (!old)
        return NULL;
    if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || old->kind == LEAF_SHAPE || PyType_IsSubtype(type, &PyArray_Type)) {
        PyErr_Format(PyExc_ValueError, "register_tree: pyxla knows %s already", type->tp_name);
        return NULL;
    }
    TypeInfo info = {.kind = TREE_REGISTERED, .flatten = Py_NewRef(args[1]), .unflatten = Py_NewRef(args[2])};
    if (!row_set(type, &info)) {
        info_clear(&info);
        return NULL;
    }
    return Py_NewRef(args[0]);
}

bool registered_flatten(const TypeInfo *info, PyObject *object, PyObject **children, PyObject **aux)
{
    PyObject *flatten = Py_NewRef(info->flatten);    /* it may register the class anew */
    PyObject *pair = PyObject_CallOneArg(flatten, object);
    Py_DECREF(flatten);
    if (!pair)
        return false;
    *children = *aux = NULL;
    if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2)
        PyErr_Format(PyExc_TypeError, "the flatten function of %s must return a pair (children, aux)", Py_TYPE(object)->tp_name);
    else if ((*children = PySequence_Tuple(PyTuple_GET_ITEM(pair, 0))))
        *aux = Py_NewRef(PyTuple_GET_ITEM(pair, 1));
    Py_DECREF(pair);
    return *children != NULL;
}

/* The dtype with this kind letter and size; float16 before bfloat16, which NumPy does not know. */
static Dtype dtype_like(char kind, npy_intp bytes)
{
    static const char letters[] = {[DKIND_BOOL] = 'b', [DKIND_INT] = 'i', [DKIND_UINT] = 'u', [DKIND_FLOAT] = 'f', [DKIND_COMPLEX] = 'c'};
    for (Dtype d = 0; d < DT_COUNT; d++)
        if (letters[dtype_info[d].kind] == kind && dtype_info[d].bytes == bytes)
            return d;
    return DT_COUNT;
}

bool tree_module_init(void)
{
    for (int num = 0; num < NPY_NTYPES_LEGACY; num++) {
        PyArray_Descr *d = PyArray_DescrFromType(num);
        if (!d)
            error_drop();
        dtype_of_num[num] = d ? dtype_like(d->kind, PyDataType_ELSIZE(d)) : DT_COUNT;
        Py_XDECREF(d);
    }
    return rows_grow();
}
