/* The one static state of the extension: the Python objects that C code keeps, declared, visited and cleared from one table.
 *
 * There is one interpreter (subinterpreters are refused, as NumPy refuses them), so a static struct is enough. Objects are set while the
 * module is executed and never replaced, but for those marked lazy, which are NULL until first used. */
#pragma once
#include <stdbool.h>
#include "py/np.h"

#define STATE_OBJECTS(X) \
    X(error)              /* pyxla.Error and its family (error.c) */ \
    X(trace_error) \
    X(unsupported_error) \
    X(compile_error) \
    X(internal_error) \
    X(assumption_error)   /* of a run; dispatch.c catches it */ \
    X(jit_type)           /* jit_type.c */ \
    X(lowered_type)       /* inspect.c */ \
    X(compiled_type) \
    X(cache_info_type) \
    X(memory_info_type) \
    X(constant_type)      /* constant.c */ \
    X(mem_handler)        /* capsule of the allocator that frees result arrays (result.c) */ \
    X(shape_dtype)        /* pyxla.ShapeDtype; set by pyxla/__init__.py */ \
    X(host_functions)     /* list: functions that plans call, by number (host.c) */ \
    X(np_module)          /* lazy: pyxla._np, imported at the first trace */ \
    X(from_dlpack)        /* lazy: numpy.from_dlpack */ \
    X(asarray)            /* lazy: numpy.asarray */ \
    X(fp_state)           /* lazy: NumPy's context variable of floating-point errors, and the state that ignores them */ \
    X(fp_quiet) \
    X(linalg_error)       /* lazy: numpy.linalg.LinAlgError */ \
    X(tune_first)         /* lazy: pyxla._tune.first_call */ \
    X(explain)            /* lazy: pyxla._errors.explain, .here, .of_run, .of_function, .full_name */ \
    X(explain_here) \
    X(explain_run) \
    X(explain_function) \
    X(full_name) \
    X(cached_call)        /* lazy: pyxla._capture.cached_call, .cached_guards */ \
    X(cached_guards) \
    X(shown_guards)       /* lazy: pyxla._capture.shown_guards */ \
    X(identity_read)      /* lazy: pyxla._effects.identity_read */ \
    X(steps)              /* lazy: pyxla._capture.steps */ \
    X(steps_again)        /* lazy: pyxla._capture.steps_again */ \
    X(math_call)          /* lazy: pyxla._np.numbers.call */ \
    X(world_read)         /* lazy: pyxla._effects.world_read, .frame_read */ \
    X(frame_read) \
    X(result_check)       /* lazy: pyxla._results.check, .key */ \
    X(result_key) \
    X(shares_memory)      /* lazy: numpy.shares_memory */ \
    X(inspect_signature)  /* lazy: inspect.signature */ \
    X(str_name)           /* interned names */ \
    X(str_code) \
    X(str_dlpack) \
    X(str_array_interface) \
    X(str_array_struct) \
    X(str_array) \
    X(str_fields) \
    X(str_dataclass_fields)

/* What PYXLA_LOG, PYXLA_BACKEND and PYXLA_CHECK said when the module was loaded. */
enum { LOG_RECOMPILES = 1, LOG_PASSES = 2, LOG_PLAN = 4, LOG_LLVM = 8, LOG_ASM = 16 };

typedef struct {
#define X(name) PyObject *name;
    STATE_OBJECTS(X)
#undef X
    unsigned log;
    bool interp;          /* run plans on the interpreter */
    bool checked;         /* bounds checks in kernels */
    bool ready;
} ModuleState;

extern ModuleState state;

/* The attribute of a module, kept in *slot after the first time. Borrowed; NULL with an exception. */
PyObject *state_import(PyObject **slot, const char *module, const char *attribute);
/* Whether this is the main thread, which alone runs the handlers of signals. */
bool sees_signals(void);
