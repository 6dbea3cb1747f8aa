/* NumPy's sorts of all kinds and axes, and its partitions, by its C interface: what native_sort.c leaves, without a Python function around it. */
#include "py/host.h"
#include "py/native.h"

static const NPY_SORTKIND kinds[] = {NPY_QUICKSORT, NPY_HEAPSORT, NPY_MERGESORT, NPY_STABLESORT};      /* as _np/sorting.py numbers them */

/* The numbers after the axis. */
static PyArrayObject *places_of(const HostCall *c)
{
    npy_intp n = c->nparams - 1;
    PyArrayObject *kth = (PyArrayObject *)PyArray_SimpleNew(1, &n, NPY_INTP);
    for (npy_intp k = 0; kth && k < n; k++)
        *(npy_intp *)PyArray_GETPTR1(kth, k) = c->params[k + 1];
    return kth;
}

static bool order_in_place(const HostCall *c, bool partition, PyArrayObject *a)
{
    int axis = (int)c->params[0];
    if (!partition)
        return PyArray_Sort(a, axis, kinds[c->params[1]]) == 0;
    PyArrayObject *kth = places_of(c);
    bool ok = kth && PyArray_Partition(a, kth, axis, NPY_INTROSELECT) == 0;
    Py_XDECREF(kth);
    return ok;
}

static PyArrayObject *indices(const HostCall *c, bool partition, PyArrayObject *x)
{
    int axis = (int)c->params[0];
    if (!partition)
        return (PyArrayObject *)PyArray_ArgSort(x, axis, kinds[c->params[1]]);
    PyArrayObject *kth = places_of(c), *r = kth ? (PyArrayObject *)PyArray_ArgPartition(x, kth, axis, NPY_INTROSELECT) : NULL;
    Py_XDECREF(kth);
    return r;
}

/* NumPy's own stable sort of each row of a C-contiguous x into out, which PyArray_ArgSort would make anew; false: not done. */
static bool places_of_rows(const HostCall *c, PyArrayObject *x, PyArrayObject *out)
{
    int last = PyArray_NDIM(x) - 1;
    PyArray_ArgSortFunc *sort = PyDataType_GetArrFuncs(PyArray_DESCR(x))->argsort[kinds[c->params[1]]];
    if (!sort || kinds[c->params[1]] != NPY_STABLESORT || c->params[0] != last || !PyArray_IS_C_CONTIGUOUS(x) || !PyArray_IS_C_CONTIGUOUS(out))
        return false;
    npy_intp n = PyArray_DIM(x, last), rows = n ? PyArray_SIZE(x) / n : 0;
    for (npy_intp i = 0; i < rows; i++) {
        npy_intp *at = (npy_intp *)PyArray_DATA(out) + i * n;
        for (npy_intp k = 0; k < n; k++)
            at[k] = k;
        if (sort(PyArray_BYTES(x) + i * n * PyArray_ITEMSIZE(x), at, n, x) < 0) {
            PyErr_NoMemory();
            break;
        }
    }
    return true;
}

void native_order_run(const HostCall *c, bool partition, bool places, void *const *address)
{
    PyArrayObject *x = (PyArrayObject *)host_array(&c->arrays[0], address[0], false);
    PyArrayObject *out = (PyArrayObject *)host_array(&c->arrays[1], address[1], true), *at = NULL;
    if (x && out && places && !partition && places_of_rows(c, x, out)) {
        /* done */
    } else if (x && out && places) {
        at = indices(c, partition, x);
        if (at)
            PyArray_CopyInto(out, at);
    } else if (x && out && PyArray_CopyInto(out, x) == 0) {
        order_in_place(c, partition, out);
    }
    Py_XDECREF(at);
    Py_XDECREF(x);
    Py_XDECREF(out);
}
