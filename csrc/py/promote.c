/* NumPy's promotion: which loop a ufunc runs for given dtypes, asked of NumPy once and remembered. */
#include "py/promote.h"
#include "base/hash.h"

typedef struct { uint64_t key; Loop loop; } Known;
static Known *table;
static size_t cap, len;

static Known *slot_of(Known *at, size_t size, uint64_t key)
{
    size_t i = hash_mix(key, 1) & (size - 1);
    while (at[i].key && at[i].key != key)
        i = (i + 1) & (size - 1);
    return &at[i];
}

static bool grow(void)
{
    size_t size = cap ? 2 * cap : 256;
    Known *at = PyMem_Calloc(size, sizeof *at);
    if (!at) {
        PyErr_NoMemory();
        return false;
    }
    for (size_t k = 0; k < cap; k++)
        if (table[k].key)
            *slot_of(at, size, table[k].key) = table[k];
    PyMem_Free(table);
    table = at;
    cap = size;
    return true;
}

static PyObject *code_type(uint8_t code)
{
    switch (code) {
    case CODE_INT: return Py_NewRef((PyObject *)&PyLong_Type);
    case CODE_FLOAT: return Py_NewRef((PyObject *)&PyFloat_Type);
    case CODE_COMPLEX: return Py_NewRef((PyObject *)&PyComplex_Type);
    case CODE_OTHER: return Py_NewRef(Py_None);
    }
    return dtype_to_numpy((Dtype)code);
}

/* The dtypes of the loop that NumPy's ufunc would run, a new tuple. */
static PyObject *resolve(PyObject *ufunc, int n, const uint8_t *codes, PyObject *kwargs)
{
    PyObject *types = PyTuple_New(n), *method = NULL, *args = NULL, *result = NULL;
    bool ok = types != NULL;
    for (int k = 0; ok && k < n; k++) {
        PyObject *type = code_type(codes[k]);
        ok = type != NULL;
        if (ok)
            PyTuple_SET_ITEM(types, k, type);
    }
    if (ok && (method = PyObject_GetAttrString(ufunc, "resolve_dtypes")) && (args = PyTuple_Pack(1, types)))
        result = PyObject_Call(method, args, kwargs);
    Py_XDECREF(types);
    Py_XDECREF(method);
    Py_XDECREF(args);
    return result;
}

/* Whether NumPy would compare Python ints as objects, since they may be of any size. */
static bool as_objects(PyObject *result, int nin, const uint8_t *codes)
{
    bool ints = PyArray_DescrCheck(PyTuple_GET_ITEM(result, 0)) && ((PyArray_Descr *)PyTuple_GET_ITEM(result, 0))->type_num == NPY_OBJECT;
    for (int k = 0; k < nin; k++)
        ints &= codes[k] == CODE_INT;
    return ints;
}

/* Whether the ufunc is called with casting="no" or "equiv", by which a Python number is what it would be as an array (and NumPy's
 * resolve_dtypes() reads the number, which it does not have: it ends the process). */
static bool strict(PyObject *kwargs)
{
    PyObject *casting = kwargs ? PyDict_GetItemString(kwargs, "casting") : NULL;
    return casting && PyUnicode_Check(casting) && (!PyUnicode_CompareWithASCIIString(casting, "no") || !PyUnicode_CompareWithASCIIString(casting, "equiv"));
}

bool loop_resolve(PyObject *ufunc, int nin, int nout, const uint8_t *codes, PyObject *kwargs, Loop *out)
{
    uint8_t own[16];
    for (int k = 0; k < nin + nout && k < 16; k++)
        own[k] = !strict(kwargs) ? codes[k] : codes[k] == CODE_INT ? DT_int64 : codes[k] == CODE_FLOAT ? DT_float64 : codes[k] == CODE_COMPLEX ? DT_complex128 : codes[k];
    PyObject *result = resolve(ufunc, nin + nout, own, kwargs);
    if (result && as_objects(result, nin, codes)) {     /* those of a trace are int64 */
        uint8_t numbers[8] = { 0 };
        for (int k = 0; k < nin + nout; k++)
            numbers[k] = k < nin ? DT_int64 : codes[k];
        Py_SETREF(result, resolve(ufunc, nin + nout, numbers, kwargs));
    }
    bool ok = result != NULL;
    memset(out, 0, sizeof *out);
    for (int k = 0; ok && k < nin + nout && k < (int)sizeof out->dtype; k++) {    /* the table's ufuncs have no more */
        Dtype d = dtype_from_numpy(PyTuple_GET_ITEM(result, k), "result");
        ok = d != DT_COUNT;
        out->dtype[k] = (uint8_t)d;
    }
    Py_XDECREF(result);
    return ok;
}

bool loop_find(PyObject *ufunc, unsigned number, int nin, int nout, const uint8_t *codes, Loop *out)
{
    uint64_t key = number + 1;
    for (int k = 0; k < nin + nout; k++)
        key = key << 8 | codes[k];
    if (2 * len >= cap && !grow())
        return false;
    Known *known = slot_of(table, cap, key);
    if (!known->key) {
        Loop loop;
        if (!loop_resolve(ufunc, nin, nout, codes, NULL, &loop))
            return false;
        known = slot_of(table, cap, key);    /* the table may have grown while Python ran */
        len += !known->key;
        *known = (Known){key, loop};
    }
    *out = known->loop;
    return true;
}
