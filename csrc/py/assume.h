/* Assumptions of a trace about values of the run (assume.c). */
#pragma once
#include "py/jit.h"

/* After a run of an entry that assumes something ended with an exception: whether it is that, or may be since, an assumption does not hold for this
 * call. No argument was written then; the exception is gone, *why (may be NULL before) is it. */
bool assumption_broken(const Entry *e, const Record *r, const Registers *regs, PyObject **why);
