#include "py/result.h"
#include "py/error.h"
#include "py/state.h"
#include "run/memory.h"

/* ---- the allocator as NumPy sees it ---- */

static void *handler_malloc(void *Py_UNUSED(ctx), size_t n) { return mem_alloc(n ? n : 1); }
static void *handler_realloc(void *Py_UNUSED(ctx), void *p, size_t n) { return mem_realloc(p, n ? n : 1); }
static void handler_free(void *Py_UNUSED(ctx), void *p, size_t Py_UNUSED(n)) { mem_free(p); }

static void *handler_calloc(void *Py_UNUSED(ctx), size_t n, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(n, size, &bytes) ? NULL : mem_calloc(bytes ? bytes : 1);
}

static PyDataMem_Handler handler = {
    "pyxla", 1, {NULL, handler_malloc, handler_calloc, handler_realloc, handler_free},
};

bool result_module_init(void)
{
    state.mem_handler = PyCapsule_New(&handler, "mem_handler", NULL);
    return state.mem_handler != NULL;
}

/* ---- arrays ---- */

/* PyArray_NewFromDescr with memory of ours and the handler set by hand: the public way to name a handler is a context variable, which
 * costs eight times as much as the array. */
PyObject *result_array(const Output *o, const int64_t *stride)
{
    void *data = mem_alloc(o->bytes ? o->bytes : 1);
    if (!data)
        return PyErr_NoMemory();
    Py_INCREF(o->descr);
    PyObject *a = PyArray_NewFromDescr(&PyArray_Type, o->descr, o->rank, (npy_intp *)o->shape, (npy_intp *)stride, data, NPY_ARRAY_CARRAY, NULL);
    if (!a) {
        mem_free(data);
        return NULL;
    }
    ((PyArrayObject_fields *)a)->mem_handler = Py_NewRef(state.mem_handler);
    PyArray_ENABLEFLAGS((PyArrayObject *)a, NPY_ARRAY_OWNDATA);
    return a;
}

/* An array over memory that `base` keeps alive. strides NULL: C order. */
static PyObject *array_over(PyArray_Descr *descr, int rank, const npy_intp *shape, const npy_intp *strides, char *data, int flags, PyArrayObject *base)
{
    Py_INCREF(descr);
    PyObject *a = PyArray_NewFromDescr(&PyArray_Type, descr, rank, (npy_intp *)shape, (npy_intp *)strides, data, flags, NULL);
    if (!a)
        return NULL;
    Py_INCREF(base);
    if (PyArray_SetBaseObject((PyArrayObject *)a, (PyObject *)base) < 0)
        Py_CLEAR(a);
    return a;
}

PyObject *result_over(const Output *o, const int64_t *stride, PyArrayObject *base)
{
    return array_over(o->descr, o->rank, o->shape, stride, PyArray_BYTES(base), NPY_ARRAY_CARRAY, base);
}

/* The dtype of a complex array's parts. New reference. */
static PyArray_Descr *part_descr(PyArrayObject *a)
{
    PyArray_Descr *d = PyArray_DescrFromType(PyArray_ITEMSIZE(a) == 8 ? NPY_FLOAT32 : NPY_FLOAT64);
    if (!d || !PyArray_ISBYTESWAPPED(a))
        return d;
    PyArray_Descr *other = PyArray_DescrNewByteorder(d, NPY_SWAP);
    Py_DECREF(d);
    return other;
}

PyObject *result_view(const View *v, PyArrayObject *base)
{
    npy_intp strides[MAX_RANK];
    char *data = PyArray_BYTES(base);
    for (int k = 0; k < v->base_rank; k++)
        data += v->start[k] * (v->flat ? 1 : PyArray_STRIDE(base, k));
    for (int k = 0; k < v->rank; k++)
        strides[k] = v->axis[k] < 0 ? 0 : v->step[k] * (v->flat ? 1 : PyArray_STRIDE(base, v->axis[k]));
    int flags = PyArray_ISWRITEABLE(base) && !v->readonly ? NPY_ARRAY_WRITEABLE : 0;
    PyArray_Descr *part = v->part ? part_descr(base) : NULL;
    if (v->part && !part)
        return NULL;
    if (v->part == 2)
        data += PyArray_ITEMSIZE(base) / 2;
    PyObject *r = array_over(part ? part : PyArray_DESCR(base), v->rank, v->shape, strides, data, flags, base);
    Py_XDECREF(part);
    return r;
}

PyObject *result_permuted(const View *v, PyArrayObject *base)
{
    PyObject *r = result_view(v, base);
    if (!r || !PyArray_CHKFLAGS(base, NPY_ARRAY_OWNDATA))
        return r;
    PyArrayObject_fields *own = (PyArrayObject_fields *)r, *from = (PyArrayObject_fields *)base;
    Py_CLEAR(own->base);
    own->mem_handler = from->mem_handler;
    from->mem_handler = NULL;
    PyArray_ENABLEFLAGS((PyArrayObject *)r, NPY_ARRAY_OWNDATA);
    PyArray_CLEARFLAGS(base, NPY_ARRAY_OWNDATA);
    if (PyArray_SetBaseObject(base, Py_NewRef(r)) < 0)    /* so that further views of base have r for their base */
        Py_CLEAR(r);
    return r;
}

void array_bounds(PyArrayObject *a, const char **lo, const char **hi)
{
    *lo = *hi = PyArray_BYTES(a);
    if (PyArray_SIZE(a) == 0)
        return;
    for (int k = 0; k < PyArray_NDIM(a); k++) {
        npy_intp span = (PyArray_DIM(a, k) - 1) * PyArray_STRIDE(a, k);
        *(span < 0 ? lo : hi) += span;
    }
    *hi += PyArray_ITEMSIZE(a);
}

bool arrays_share(PyArrayObject *a, PyArrayObject *b)
{
    const char *alo, *ahi, *blo, *bhi;
    array_bounds(a, &alo, &ahi);
    array_bounds(b, &blo, &bhi);
    if (alo >= bhi || blo >= ahi)
        return false;
    PyObject *f = state_import(&state.shares_memory, "numpy", "shares_memory");
    PyObject *args = f ? Py_BuildValue("(OOi)", a, b, 100000) : NULL;
    PyObject *answer = args ? PyObject_Call(f, args, NULL) : NULL;
    bool share = answer != Py_False;
    Py_XDECREF(args);
    Py_XDECREF(answer);
    error_drop();
    return share;
}
