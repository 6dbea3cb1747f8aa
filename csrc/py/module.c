/* The extension module: one state, made once per process. */
#define PYXLA_IMPORT_ARRAY
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "py/state.h"
#include "py/constant.h"
#include "py/error.h"
#include "py/host.h"
#include "py/jit.h"
#include "py/log.h"
#include "py/result.h"
#include "py/tracer.h"
#include "py/tuning.h"
#include "run/memory.h"
#include "run/pool.h"
#include "run/shipped.h"

ModuleState state;

bool sees_signals(void) { return syscall(SYS_gettid) == getpid(); }

PyObject *state_import(PyObject **slot, const char *module, const char *attribute)
{
    if (*slot)
        return *slot;
    PyObject *m = PyImport_ImportModule(module);
    PyObject *o = m && attribute ? PyObject_GetAttrString(m, attribute) : Py_XNewRef(m);
    Py_XDECREF(m);
    if (*slot)         /* importing ran Python code that came here too */
        Py_XDECREF(o);
    else
        *slot = o;
    return *slot;
}

/* ---- functions ---- */

static PyObject *core_disable(PyObject *Py_UNUSED(module), PyObject *step)
{
    long n = PyLong_AsLong(step);
    if (n == -1 && PyErr_Occurred())
        return NULL;
    dispatch_disable((int)n);
    Py_RETURN_NONE;
}

static PyObject *core_set_num_threads(PyObject *Py_UNUSED(module), PyObject *n)
{
    long threads = PyLong_AsLong(n);
    if (threads == -1 && PyErr_Occurred())
        return NULL;
    if (threads < 0 || threads > 4096) {
        PyErr_SetString(PyExc_ValueError, "set_num_threads: a number from 1 to 4096, or None for the default");
        return NULL;
    }
    pool_set_threads((int)threads);
    Py_RETURN_NONE;
}

static PyObject *core_get_num_threads(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused)) { return PyLong_FromLong(pool_threads()); }

static PyStructSequence_Field memory_fields[] = {
    {"in_use", "bytes of results that live and of temporaries"},
    {"cached", "bytes kept to be used again"},
    {"peak", "most bytes in use so far"},
    {"limit", "most bytes kept"},
    {"allocations", "blocks handed out so far"},
    {"reused", "how many of them had been kept"},
    {"constants", "bytes of what was computed once from constants, part of in_use"},
    {NULL, NULL},
};
static PyStructSequence_Desc memory_desc = {"pyxla.MemoryInfo", "State of the allocator of results and temporaries.", memory_fields, 7};

static PyObject *core_memory_info(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    MemInfo m = mem_info();
    const size_t number[] = {m.in_use, m.cached, m.peak, m.limit, m.allocations, m.reused, constant_kept_bytes()};
    PyObject *info = PyStructSequence_New((PyTypeObject *)state.memory_info_type);
    for (int k = 0; info && k < 7; k++) {
        PyObject *v = PyLong_FromSize_t(number[k]);
        if (!v)
            Py_CLEAR(info);
        else
            PyStructSequence_SetItem(info, k, v);
    }
    return info;
}

static PyObject *core_constant(PyObject *Py_UNUSED(module), PyObject *a)
{
    if (!PyArray_CheckExact(a))
        return PyErr_Format(PyExc_TypeError, "_constant: an ndarray, not %R", Py_TYPE(a));
    if (PyDataType_FLAGCHK(PyArray_DESCR((PyArrayObject *)a), NPY_ITEM_HASOBJECT))
        return PyErr_Format(PyExc_TypeError, "constant: an array of numbers, not of dtype %R", PyArray_DESCR((PyArrayObject *)a));
    return constant_new((PyArrayObject *)a);
}

static PyObject *core_trim_memory(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused)) { return PyLong_FromSize_t(mem_trim()); }

static PyObject *core_clear_kernels(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    compile_clear();
    Py_RETURN_NONE;
}

/* Without an argument: from now on keep the objects of kernels that are compiled. With one: write them to that file. */
static PyObject *core_ship(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *path = NULL;
    Err err = {0};
    if (!PyArg_ParseTuple(args, "|O&", PyUnicode_FSConverter, &path))
        return NULL;
    if (!path)
        shipped_record();
    else if (!shipped_write(PyBytes_AS_STRING(path), &err))
        error_raise(&err, NULL);
    Py_XDECREF(path);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* For tests: the n-th allocation from now on fails, of an arena and of a result (0: none does). */
static PyObject *core_fail_at(PyObject *Py_UNUSED(module), PyObject *args)
{
    long arena, memory;
    if (!PyArg_ParseTuple(args, "ll", &arena, &memory))
        return NULL;
    arena_fail_at(arena);
    mem_fail_at(memory);
    Py_RETURN_NONE;
}

static PyObject *core_llvm_version(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    Err err = {0};
    const char *version = compile_llvm_version(&err);
    return version ? PyUnicode_FromString(version) : error_raise(&err, NULL);
}

static PyObject *core_system_info(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    const Cpu *cpu = cpu_host();
    return Py_BuildValue("{s:s,s:s,s:i,s:(nnn),s:i,s:i,s:n,s:I,s:s,s:O}", "cpu", cpu->name, "level", cpu_level_name(cpu->level),
                         "vector_bytes", cpu->vector_bytes, "caches", (Py_ssize_t)cpu->l1, (Py_ssize_t)cpu->l2, (Py_ssize_t)cpu->l3,
                         "threads", pool_threads(), "default_threads", pool_default_threads(), "code_bytes", (Py_ssize_t)code_total(),
                         "kernels", compile_count(), "backend", state.interp ? "interp" : "llvm", "checked", state.checked ? Py_True : Py_False);
}

static PyObject *core_set_shape_dtype(PyObject *Py_UNUSED(module), PyObject *cls)
{
    if (!PyType_Check(cls) || state.shape_dtype) {
        PyErr_SetString(PyExc_TypeError, "_set_shape_dtype: a class, once");
        return NULL;
    }
    state.shape_dtype = Py_NewRef(cls);
    Py_RETURN_NONE;
}

static PyObject *core_shutdown(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    Py_BEGIN_ALLOW_THREADS
    pool_shutdown();
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"register_tree", (PyCFunction)(void (*)(void))tree_register, METH_FASTCALL, "register_tree(cls, flatten, unflatten, /)\n--\n\n"
     "Makes instances of cls trees: flatten(obj) -> (children, aux), unflatten(aux, children) -> obj; aux is hashable."},
    {"set_num_threads", core_set_num_threads, METH_O, "set_num_threads(n, /)\n--\n\nThreads of the pool; 0: the default."},
    {"get_num_threads", core_get_num_threads, METH_NOARGS, "get_num_threads()\n--\n\nThreads that a large kernel uses."},
    {"memory_info", core_memory_info, METH_NOARGS, "memory_info()\n--\n\nState of the allocator of results and temporaries."},
    {"trim_memory", core_trim_memory, METH_NOARGS, "trim_memory()\n--\n\nGives the kept blocks back to the system; their bytes."},
    {"llvm_version", core_llvm_version, METH_NOARGS, "llvm_version()\n--\n\nVersion of LLVM; loads the code generator."},
    {"system_info", core_system_info, METH_NOARGS, "system_info()\n--\n\nCPU, threads and code of this process as a dict."},
    {"_ship", core_ship, METH_VARARGS, NULL},
    {"clear_kernels", core_clear_kernels, METH_NOARGS, "clear_kernels()\n--\n\nForgets the code of all kernels that no plan uses."},
    {"_constant", core_constant, METH_O, NULL},
    {"_disable", core_disable, METH_O, NULL},
    {"_fail_at", core_fail_at, METH_VARARGS, NULL},
    {"_set_shape_dtype", core_set_shape_dtype, METH_O, NULL},
    {"_shutdown", core_shutdown, METH_NOARGS, NULL},
    {0},
};

/* ---- making the module ---- */

static bool intern_names(void)
{
    return (state.str_name = PyUnicode_InternFromString("__name__")) && (state.str_code = PyUnicode_InternFromString("__code__"))
        && (state.str_dlpack = PyUnicode_InternFromString("__dlpack__")) && (state.str_array = PyUnicode_InternFromString("__array__"))
        && (state.str_array_interface = PyUnicode_InternFromString("__array_interface__"))
        && (state.str_array_struct = PyUnicode_InternFromString("__array_struct__"))
        && (state.str_fields = PyUnicode_InternFromString("_fields"))
        && (state.str_dataclass_fields = PyUnicode_InternFromString("__dataclass_fields__"));
}

static bool read_environment(void)
{
    const char *backend = getenv("PYXLA_BACKEND"), *check = getenv("PYXLA_CHECK");
    state.interp = backend && !strcmp(backend, "interp");
    state.checked = check && !strcmp(check, "1");
    if (backend && *backend && !state.interp && strcmp(backend, "llvm")) {
        PyErr_Format(PyExc_ImportError, "PYXLA_BACKEND=%s: it is llvm or interp", backend);
        return false;
    }
    return log_init();
}

/* The code generator lies beside this file; it is opened at the first compile. */
static bool find_generator(PyObject *module)
{
    PyObject *file = PyModule_GetFilenameObject(module), *bytes = NULL;
    if (!file || !PyUnicode_FSConverter(file, &bytes)) {
        Py_XDECREF(file);
        return false;
    }
    const char *path = PyBytes_AS_STRING(bytes), *slash = strrchr(path, '/');
    PyObject *generator = PyBytes_FromStringAndSize(path, slash ? slash + 1 - path : 0);
    if (generator)
        shipped_folder(PyBytes_AS_STRING(generator));
    PyBytes_ConcatAndDel(&generator, PyBytes_FromString("_gen.so"));
    if (generator)
        compile_set_generator(PyBytes_AS_STRING(generator));
    Py_XDECREF(generator);
    Py_DECREF(bytes);
    Py_DECREF(file);
    return generator != NULL;
}

static int add_types(PyObject *module)
{
    state.memory_info_type = (PyObject *)PyStructSequence_NewType(&memory_desc);
    return state.memory_info_type && PyModule_AddObjectRef(module, "MemoryInfo", state.memory_info_type) == 0;
}

/* A free-threaded interpreter takes the lock when it loads us, unless its user forbids that. */
static bool have_gil(void)
{
#ifdef Py_GIL_DISABLED
    PyObject *enabled = PySys_GetObject("_is_gil_enabled"), *r = enabled ? PyObject_CallNoArgs(enabled) : NULL;
    bool off = r == Py_False;
    Py_XDECREF(r);
    if (off)
        PyErr_SetString(PyExc_ImportError, "pyxla needs Python's global lock: run without PYTHON_GIL=0 and -X gil=0");
    return r && !off;
#else
    return true;
#endif
}

static int module_exec(PyObject *module)
{
    if (!have_gil())
        return -1;
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError, "pyxla cannot be used in a subinterpreter, and neither can NumPy");
        return -1;
    }
    if (state.ready) {
        PyErr_SetString(PyExc_ImportError, "pyxla._core cannot be loaded twice in one process");
        return -1;
    }
    import_array1(-1);
    import_umath1(-1);
    if (!intern_names() || !read_environment() || !error_module_init(module) || !tree_module_init() || !result_module_init() || !add_types(module)
        || !constant_module_init() || !jit_module_init(module) || !inspect_module_init(module) || !find_generator(module) || tracer_module_init(module) < 0
        || !host_module_init(module) || !tuning_module_init(module))
        return -1;
    if (Py_AtExit(compile_shutdown) < 0)        /* after all of Python's own handlers, which may still compile */
        return PyErr_SetString(PyExc_ImportError, "too many exit functions are registered in this process"), -1;
    state.ready = true;
    return 0;
}

static int module_traverse(PyObject *Py_UNUSED(module), visitproc visit, void *arg)
{
#define X(name) Py_VISIT(state.name);
    STATE_OBJECTS(X)
#undef X
    return 0;
}

/* Only what can be found again: jitted functions may outlive the module and be called by finalizers. */
static int module_clear(PyObject *Py_UNUSED(module))
{
    Py_CLEAR(state.np_module);
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, module_exec},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030D0000
    {Py_mod_gil, Py_MOD_GIL_USED},
#endif
    {0},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "pyxla._core", .m_doc = "The C core of pyxla: tracing, caching and calling.", .m_methods = methods,
    .m_slots = slots, .m_traverse = module_traverse, .m_clear = module_clear,
};

__attribute__((visibility("default"))) PyObject *PyInit__core(void) { return PyModuleDef_Init(&definition); }
