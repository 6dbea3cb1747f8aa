/* Result arrays: over blocks of run/memory.h, which they own like any array of NumPy's, and views. */
#pragma once
#include "py/entry.h"

bool result_module_init(void);
/* A new array for an output, its elements not set; stride NULL: C-contiguous. NULL with an exception. */
PyObject *result_array(const Output *o, const int64_t *stride);
/* An array for an output over the memory of a donated argument, which it keeps alive. */
PyObject *result_over(const Output *o, const int64_t *stride, PyArrayObject *base);
/* NumPy's view of a base. */
PyObject *result_view(const View *v, PyArrayObject *base);
/* The same where the view is all of a new array with its axes permuted: it takes the memory over, and is the base of base. */
PyObject *result_permuted(const View *v, PyArrayObject *base);
/* Whether two arrays share an element; a pair of which that is too hard to tell counts as sharing. */
bool arrays_share(PyArrayObject *a, PyArrayObject *b);
/* The lowest byte of an array's memory and one past its highest. */
void array_bounds(PyArrayObject *a, const char **lo, const char **hi);
