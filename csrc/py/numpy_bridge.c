#include "py/error.h"
#include "py/tracer.h"

int numpy_type(Dtype d)
{
    switch (d) {
    case DT_bool_: return NPY_BOOL;
    case DT_int8: return NPY_INT8;
    case DT_int16: return NPY_INT16;
    case DT_int32: return NPY_INT32;
    case DT_int64: return NPY_INT64;
    case DT_uint8: return NPY_UINT8;
    case DT_uint16: return NPY_UINT16;
    case DT_uint32: return NPY_UINT32;
    case DT_uint64: return NPY_UINT64;
    case DT_float16: return NPY_FLOAT16;
    case DT_float32: return NPY_FLOAT32;
    case DT_float64: return NPY_FLOAT64;
    case DT_complex64: return NPY_COMPLEX64;
    case DT_complex128: return NPY_COMPLEX128;
    default: break;
    }
    return -1;
}

static Dtype from_kind(char kind, int size)
{
    for (int d = 0; d < DT_COUNT; d++) {
        static const char kinds[] = {[DKIND_BOOL] = 'b', [DKIND_INT] = 'i', [DKIND_UINT] = 'u', [DKIND_FLOAT] = 'f', [DKIND_COMPLEX] = 'c'};
        if (kinds[dtype_info[d].kind] == kind && dtype_info[d].bytes == size)
            return (Dtype)d;
    }
    return DT_COUNT;
}

/* NumPy's descriptors of dtypes that ml_dtypes registers, as they are met. */
static PyObject *registered[DT_COUNT];

Dtype dtype_registered(PyObject *descr)
{
    PyArray_Descr *d = (PyArray_Descr *)descr;
    const char *name = d->typeobj->tp_name, *dot = strrchr(name, '.');
    for (int k = 0; k < DT_COUNT; k++)
        if (registered[k] == (PyObject *)d)
            return (Dtype)k;
    Dtype out = dot && !strncmp(name, "ml_dtypes.", 10) ? dtype_parse(dot + 1) : DT_COUNT;
    if (out != DT_COUNT && numpy_type(out) >= 0)
        return DT_COUNT;
    if (out != DT_COUNT && PyArray_ISNBO(d->byteorder))
        Py_XSETREF(registered[out], Py_NewRef(d));
    return out;
}

Dtype scalar_type_registered(PyTypeObject *type)
{
    PyArray_Descr *d = PyArray_DescrFromTypeObject((PyObject *)type);
    Dtype out = d && d->type_num >= NPY_USERDEF && PyTypeNum_ISUSERDEF(d->type_num) ? dtype_registered((PyObject *)d) : DT_COUNT;
    if (!d)
        error_drop();
    Py_XDECREF(d);
    return out;
}

static PyObject *find_registered(Dtype d)
{
    if (d < DT_COUNT && !registered[d]) {
        PyObject *m = PyImport_ImportModule("ml_dtypes"), *type = m ? PyObject_GetAttrString(m, dtype_info[d].name) : NULL;
        registered[d] = type ? (PyObject *)PyArray_DescrFromTypeObject(type) : NULL;
        Py_XDECREF(m);
        Py_XDECREF(type);
    }
    return d < DT_COUNT ? Py_XNewRef(registered[d]) : NULL;
}

Dtype dtype_from_numpy(PyObject *descr, const char *what)
{
    PyArray_Descr *d = (PyArray_Descr *)descr;
    Dtype out = DT_COUNT;
    if (PyArray_DescrCheck(descr) && PyTypeNum_ISNUMBER(d->type_num) && PyArray_ISNBO(d->byteorder))
        out = from_kind(d->kind, (int)PyDataType_ELSIZE(d));
    else if (PyArray_DescrCheck(descr) && d->type_num == NPY_BOOL)
        out = DT_bool_;
    else if (PyArray_DescrCheck(descr) && PyTypeNum_ISUSERDEF(d->type_num) && PyArray_ISNBO(d->byteorder))
        out = dtype_registered((PyObject *)d);
    if (out == DT_COUNT)
        PyErr_Format(PyExc_TypeError, "%s: the dtype %S is not supported in a jitted function", what, descr);
    return out;
}

PyObject *dtype_to_numpy(Dtype d)
{
    int type = numpy_type(d);
    if (type < 0)
        return find_registered(d);
    return (PyObject *)PyArray_DescrFromType(type);
}

/* PyArray_ScalarAsCtype knows NumPy's own layouts only. */
void scalar_element(PyObject *scalar, void *cell)
{
    bool foreign = !strncmp(Py_TYPE(scalar)->tp_name, "ml_dtypes.", 10);
    PyObject *a = foreign ? PyArray_FromScalar(scalar, NULL) : NULL;
    if (foreign && !a)
        error_drop();
    if (a)
        memcpy(cell, PyArray_DATA((PyArrayObject *)a), (size_t)PyArray_ITEMSIZE((PyArrayObject *)a));
    else
        PyArray_ScalarAsCtype(scalar, cell);
    Py_XDECREF(a);
}
