/* Exceptions: the classes of pyxla.Error's family, and errors of the lower layers turned into exceptions. */
#pragma once
#include "py/trace.h"
#include "opt/plan.h"

/* Clears the pending exception, if there is one; what is no Exception (a KeyboardInterrupt, SystemExit) is raised again later. */
void error_drop(void);
/* Clears the pending exception, if there is one, which is raised again by the next Python instructions of this thread: where only code of
 * our own ran it is a signal handler's (a timeout). A MemoryError, or the SystemError that some Pythons make of it, is dropped. */
void error_later(void);
/* Makes the classes and adds them to the module; false with an exception. */
bool error_module_init(PyObject *module);
/* The exception class of an error kind; borrowed. */
PyObject *error_class(ErrKind kind);
/* Raises an exception of class `cls` whose message ends with the user's place of source id `src` in t (0 or NULL: no place). */
void error_raise_at(PyObject *cls, const char *message, const Trace *t, uint32_t src);
/* Raises what a failed check of a run means: status > 0 as exec_run() returns it. */
void error_raise_check(const Plan *plan, int64_t status, const Trace *t);
