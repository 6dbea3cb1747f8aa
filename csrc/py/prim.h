/* What the files of the primitives share: how they read their arguments and make their results. They are the functions of pyxla._core that
 * pyxla/_np composes NumPy's functions from; they do no promotion and little checking. */
#pragma once
#include "py/tracer.h"

#define FAST(name, doc) {#name, (PyCFunction)(void (*)(void))prim_##name, METH_FASTCALL, doc}

/* Whether n is a number of arguments that the primitive takes; else a TypeError. */
bool prim_arity(const char *name, Py_ssize_t n, Py_ssize_t least, Py_ssize_t most);
/* A dtype given in any of NumPy's forms; DT_COUNT: an exception. */
Dtype prim_dtype(PyObject *o);
/* A tuple or list of at most MAX_RANK integers; the length, -1 with an exception. */
int prim_ints(PyObject *o, int64_t *out);
/* The array operand of a primitive as a tracer (new reference) and its node. t may be NULL, with an exception. */
Tracer *prim_operand(Trace *t, PyObject *o, Id *node);
/* The result of an op on x: an array or scalar as x is. */
PyObject *prim_like(Trace *t, const Tracer *x, Id node);
