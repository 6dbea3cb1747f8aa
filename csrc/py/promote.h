/* NumPy's promotion for ufuncs. */
#pragma once
#include "py/tracer.h"

/* dtypes of a ufunc's loop: inputs, then outputs. */
typedef struct { uint8_t dtype[4]; } Loop;

/* The loop for operands of these codes (CODE_INT ...: weak; CODE_OTHER for outputs: not given); NumPy's exception if there is none.
 * `number` names the ufunc in the table of answers. */
bool loop_find(PyObject *ufunc, unsigned number, int nin, int nout, const uint8_t *codes, Loop *out);
/* The same with keyword arguments of resolve_dtypes (signature, casting), not remembered. */
bool loop_resolve(PyObject *ufunc, int nin, int nout, const uint8_t *codes, PyObject *kwargs, Loop *out);
