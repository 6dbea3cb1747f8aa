#include "py/tracer.h"

static int numpy_type(Dtype d)
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
    case DT_bfloat16:
    case DT_COUNT:
        break;
    }
    return -1;
}

static Dtype from_kind(char kind, int size)
{
    for (int d = 0; d < DT_COUNT; d++) {
        static const char kinds[] = {[DKIND_BOOL] = 'b', [DKIND_INT] = 'i', [DKIND_UINT] = 'u', [DKIND_FLOAT] = 'f', [DKIND_COMPLEX] = 'c'};
        if (kinds[dtype_info[d].kind] == kind && dtype_info[d].bytes == size && d != DT_bfloat16)
            return (Dtype)d;
    }
    return DT_COUNT;
}

Dtype dtype_from_numpy(PyObject *descr, const char *what)
{
    PyArray_Descr *d = (PyArray_Descr *)descr;
    Dtype out = DT_COUNT;
    if (PyArray_DescrCheck(descr) && PyTypeNum_ISNUMBER(d->type_num) && PyArray_ISNBO(d->byteorder))
        out = from_kind(d->kind, (int)PyDataType_ELSIZE(d));
    else if (PyArray_DescrCheck(descr) && d->type_num == NPY_BOOL)
        out = DT_bool_;
    if (out == DT_COUNT)
        PyErr_Format(PyExc_TypeError, "%s: the dtype %S is not supported in a jitted function", what, descr);
    return out;
}

PyObject *dtype_to_numpy(Dtype d)
{
    int type = numpy_type(d);
    if (type < 0) {
        PyErr_Format(PyExc_TypeError, "NumPy has no dtype %s", d < DT_COUNT ? dtype_info[d].name : "?");
        return NULL;
    }
    return (PyObject *)PyArray_DescrFromType(type);
}
