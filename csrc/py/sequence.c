/* Objects that NumPy takes for arrays though they are none: ranges, deques, buffers, objects with __array__. An argument that is one, or a
 * list or tuple with one inside, is replaced by the list or array that NumPy reads of it (pyxla/_creation.py: read). */
#include "py/tracer.h"

/* What is no such object is known by its type; of the others Python asks. */
static bool is_plain(PyObject *o)
{
    return is_tracer(o) || o == Py_None || o == Py_Ellipsis || PyLong_Check(o) || PyFloat_Check(o) || PyComplex_Check(o) || PyUnicode_Check(o) || PyBytes_Check(o)
           || PyArray_Check(o) || PyArray_IsScalar(o, Generic) || PyType_Check(o) || PySlice_Check(o) || PyDict_Check(o) || PyArray_DescrCheck(o)
           || PyFunction_Check(o) || is_extent(o);
}

static PyObject *read_object(PyObject *o)
{
    PyObject *read = core_item(core_creators, "read");
    return read ? PyObject_CallOneArg(read, o) : PyErr_Occurred() ? NULL : Py_NewRef(o);
}

/* Items k and on of a new list or tuple; false with an exception. */
static bool read_items(PyObject *new, PyObject *o, Py_ssize_t k, PyObject *first)
{
    bool list = PyList_CheckExact(o);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); i++) {
        PyObject *old = PySequence_Fast_GET_ITEM(o, i), *item = i < k ? Py_NewRef(old) : i == k ? Py_NewRef(first) : sequence_read(old);
        if (!item)
            return false;
        if (list)
            PyList_SET_ITEM(new, i, item);
        else
            PyTuple_SET_ITEM(new, i, item);
    }
    return true;
}

/* A list or tuple, made anew from the first item on that is replaced. */
static PyObject *read_nested(PyObject *o)
{
    if (Py_EnterRecursiveCall(" in a nested sequence"))
        return NULL;
    PyObject *r = Py_NewRef(o), *item = NULL;
    for (Py_ssize_t k = 0; r == o && k < PySequence_Fast_GET_SIZE(o); k++) {
        item = sequence_read(PySequence_Fast_GET_ITEM(o, k));
        if (item && item == PySequence_Fast_GET_ITEM(o, k)) {
            Py_CLEAR(item);
            continue;
        }
        Py_SETREF(r, !item ? NULL : PyList_CheckExact(o) ? PyList_New(PyList_GET_SIZE(o)) : PyTuple_New(PyTuple_GET_SIZE(o)));
        if (r && !read_items(r, o, k, item))
            Py_CLEAR(r);
    }
    Py_XDECREF(item);
    Py_LeaveRecursiveCall();
    return r;
}

PyObject *sequence_read(PyObject *o)
{
    if (is_plain(o))
        return Py_NewRef(o);
    return PyList_CheckExact(o) || PyTuple_CheckExact(o) ? read_nested(o) : read_object(o);
}

PyObject *sequence_read_values(PyObject *kwargs)
{
    PyObject *new = PyDict_New(), *key, *value;
    Py_ssize_t at = 0;
    while (new && PyDict_Next(kwargs, &at, &key, &value)) {
        PyObject *v = sequence_read(value);
        if (!v || PyDict_SetItem(new, key, v) < 0)
            Py_CLEAR(new);
        Py_XDECREF(v);
    }
    return new;
}
