/* Host functions: Python callables that a plan calls on its buffers at run time (NumPy's own sort, LAPACK and FFT routines).
 *
 * They live in a process-wide table by number, which the attributes of a `host` node name. A callable gets the tuple of results to fill (arrays,
 * None for one that nobody reads), the inputs (read-only arrays) and its own numbers, and returns None. It must be pure: equal calls are made
 * once, unread ones never. The arrays are valid during the call only. */
#pragma once
#include "py/tracer.h"
#include "run/exec.h"

bool host_module_init(PyObject *module);
/* An array of a call as NumPy sees it, without memory of its own. */
PyObject *host_array(const HostArray *a, void *address, bool writable);
/* Raises what a failed host call raised (and lets go of it), with a note of the user's line. */
void host_raise(HostFailure *f, const Plan *plan, const Trace *t);
/* Lets go of it. */
void host_forget(HostFailure *f);
