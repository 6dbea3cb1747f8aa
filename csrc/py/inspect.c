/* Looking at what a function becomes: lower() gives the graph, compile() the plan and its code, eval_shape() the shapes of the results. */
#include "py/error.h"
#include "py/jit.h"
#include "py/result.h"
#include "py/state.h"

static PyObject *text_object(Text *t)
{
    PyObject *s = t->failed ? PyErr_NoMemory() : PyUnicode_FromStringAndSize(t->at ? t->at : "", (Py_ssize_t)t->len);
    text_free(t);
    return s;
}

/* ---- Compiled ---- */

typedef struct {
    PyObject_HEAD
    Bound *bound;
} Compiled;

static void compiled_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    if (((Compiled *)self)->bound)
        bound_unref(((Compiled *)self)->bound);
    type->tp_free(self);
    Py_DECREF(type);
}

static const Plan *plan_of(PyObject *self) { return ((Compiled *)self)->bound->plan; }

static PyObject *compiled_as_text(PyObject *self, PyObject *Py_UNUSED(unused))
{
    if (!plan_of(self))
        return PyUnicode_FromString("nothing to compute\n");
    Text t = {0};
    plan_print(&t, plan_of(self));
    return text_object(&t);
}

static PyObject *compiled_plan(PyObject *self, void *Py_UNUSED(closure)) { return compiled_as_text(self, NULL); }

/* A list of one text per distinct kernel. */
static PyObject *per_kernel(PyObject *self, PyObject *(*text)(const Kernel *))
{
    const Plan *p = plan_of(self);
    PyObject *list = PyList_New(0);
    for (uint32_t k = 0; list && p && k < p->kernels.len; k++) {
        PyObject *s = text(p->kernels.at[k]);
        if (!s || PyList_Append(list, s) < 0)
            Py_CLEAR(list);
        Py_XDECREF(s);
    }
    return list;
}

static PyObject *kernel_text(const Kernel *k)
{
    Text t = {0};
    kernel_print(&t, k);
    return text_object(&t);
}

static PyObject *code_text(const Kernel *k, bool want_ir)
{
    Text ir = {0}, assembly = {0};
    Err err = {0};
    bool ok;
    Py_BEGIN_ALLOW_THREADS
    ok = compile_text(k, cpu_host()->level, &ir, &assembly, &err);
    Py_END_ALLOW_THREADS
    PyObject *s = ok ? text_object(want_ir ? &ir : &assembly) : error_raise(&err, NULL);
    text_free(&ir);
    text_free(&assembly);
    return s;
}

static PyObject *kernel_ir(const Kernel *k) { return code_text(k, true); }
static PyObject *kernel_assembly(const Kernel *k) { return code_text(k, false); }

static PyObject *joined(PyObject *list)
{
    PyObject *newline = list ? PyUnicode_FromString("\n") : NULL, *s = newline ? PyUnicode_Join(newline, list) : NULL;
    Py_XDECREF(newline);
    Py_XDECREF(list);
    return s;
}

static PyObject *compiled_kernels(PyObject *self, void *Py_UNUSED(closure)) { return per_kernel(self, kernel_text); }
static PyObject *compiled_llvm_ir(PyObject *self, void *Py_UNUSED(closure)) { return joined(per_kernel(self, kernel_ir)); }
static PyObject *compiled_assembly(PyObject *self, void *Py_UNUSED(closure)) { return joined(per_kernel(self, kernel_assembly)); }

static PyObject *compiled_buffers(PyObject *self, void *Py_UNUSED(closure))
{
    static const char *const kinds[] = {[SLOT_INPUT] = "input", [SLOT_OUTPUT] = "output", [SLOT_TEMP] = "temporary", [SLOT_STATUS] = "status", [SLOT_KEPT] = "kept"};
    const Plan *p = plan_of(self);
    PyObject *list = PyList_New(0);
    for (uint32_t k = 0; list && p && k < p->slots.len; k++) {
        const Slot *s = &p->slots.at[k];
        PyObject *row = Py_BuildValue("(ssL)", kinds[s->kind], s->dtype < DT_COUNT ? dtype_info[s->dtype].name : "", (long long)s->bytes);
        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* What a tuner can choose for: (key, m, n, k, estimated ns) of each launch that has a key; k 0: m points of a loop. */
static PyObject *compiled_tunable(PyObject *self, void *Py_UNUSED(closure))
{
    const Plan *p = plan_of(self);
    PyObject *list = PyList_New(0);
    for (uint32_t k = 0; list && p && k < p->launches.len; k++) {
        const Launch *l = &p->launches.at[k];
        PyObject *row = l->key && !l->once ? Py_BuildValue("(KLLLd)", (unsigned long long)l->key, (long long)l->m, (long long)l->n, (long long)l->k, (double)l->ns) : NULL;
        if (row && PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
        if (PyErr_Occurred())
            Py_CLEAR(list);
    }
    return list;
}

/* Whether a call changes its arguments. */
static PyObject *compiled_writes(PyObject *self, void *Py_UNUSED(closure))
{
    const Bound *b = ((Compiled *)self)->bound;
    return PyBool_FromLong(b->entry->nwritten || b->any_donated);
}

static PyObject *compiled_peak(PyObject *self, void *Py_UNUSED(closure)) { return PyLong_FromLongLong(plan_of(self) ? plan_of(self)->peak : 0); }
static PyObject *compiled_workspace(PyObject *self, void *Py_UNUSED(closure)) { return PyLong_FromLongLong(plan_of(self) ? plan_of(self)->workspace : 0); }
static PyObject *compiled_launches(PyObject *self, void *Py_UNUSED(closure)) { return PyLong_FromUnsignedLong(plan_of(self) ? plan_of(self)->launches.len : 0); }

/* Has the kernels compiled, without a call. */
static PyObject *compiled_prepare(PyObject *self, PyObject *Py_UNUSED(unused))
{
    const Plan *p = plan_of(self);
    Err err = {0};
    uint32_t n = p ? p->kernels.len : 0;
    Code **code = PyMem_Calloc(n + 1, sizeof *code);
    if (!code)
        return PyErr_NoMemory();
    bool ok;
    Py_BEGIN_ALLOW_THREADS
    ok = !n || compile_kernels(p->kernels.at, (int)n, cpu_host()->level, code, NULL, NULL, NULL, &err);
    for (uint32_t k = 0; k < n; k++)
        code_unref(code[k]);
    Py_END_ALLOW_THREADS
    PyMem_Free(code);
    return ok ? Py_NewRef(Py_None) : error_raise(&err, NULL);
}

static PyMethodDef compiled_methods[] = {
    {"_prepare", compiled_prepare, METH_NOARGS, NULL},
    {"as_text", compiled_as_text, METH_NOARGS, "as_text()\n--\n\nThe plan: launches, kernels and buffers."},
    {0},
};
static PyGetSetDef compiled_getset[] = {
    {"plan", compiled_plan, NULL, "the plan as text", NULL},
    {"kernels", compiled_kernels, NULL, "texts of the distinct kernels", NULL},
    {"launches", compiled_launches, NULL, "number of kernel launches of one call", NULL},
    {"buffers", compiled_buffers, NULL, "(kind, dtype, bytes) of each buffer", NULL},
    {"_tunable", compiled_tunable, NULL, NULL, NULL},
    {"_writes", compiled_writes, NULL, NULL, NULL},
    {"peak_bytes", compiled_peak, NULL, "most bytes of temporaries and results at one time", NULL},
    {"workspace_bytes", compiled_workspace, NULL, "bytes of temporaries", NULL},
    {"llvm_ir", compiled_llvm_ir, NULL, "LLVM IR of the kernels", NULL},
    {"assembly", compiled_assembly, NULL, "assembly of the kernels", NULL},
    {0},
};
static PyType_Slot compiled_slots[] = {
    {Py_tp_doc, "A plan with its code, made by Lowered.compile()."},
    {Py_tp_dealloc, compiled_dealloc},
    {Py_tp_methods, compiled_methods},
    {Py_tp_getset, compiled_getset},
    {0},
};
static PyType_Spec compiled_spec = {
    "pyxla._core.Compiled", sizeof(Compiled), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE, compiled_slots,
};

/* ---- Lowered ---- */

/* Keeps the arguments, so that compile() can read their strides again. */
typedef struct {
    PyObject_HEAD
    Jit *jit;
    PyObject *args, *kwnames;
    Entry *entry;
} Lowered;

static int lowered_traverse(PyObject *self, visitproc visit, void *arg)
{
    Lowered *l = (Lowered *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(l->jit);
    Py_VISIT(l->args);
    return l->entry && l->entry->refs == 1 ? entry_traverse(l->entry, visit, arg) : 0;
}

static int lowered_clear(PyObject *self)
{
    Lowered *l = (Lowered *)self;
    Entry *e = l->entry;
    l->entry = NULL;
    if (e)
        entry_unref(e);
    Py_CLEAR(l->args);
    Py_CLEAR(l->kwnames);
    Py_CLEAR(l->jit);
    return 0;
}

static void lowered_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    lowered_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *lowered_as_text(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"simplified", NULL};
    int simplified = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$p:as_text", names, &simplified))
        return NULL;
    const Entry *e = ((Lowered *)self)->entry;
    const Trace *t = e->trace;
    Err err = {0};
    if (simplified && e->staged) {
        PyErr_SetString(error_class(ERR_UNSUPPORTED), "shapes of this graph depend on data: its stages are simplified in the run, when their sizes are known; as_text() shows it as traced");
        return NULL;
    }
    Arena *a = simplified ? arena_new(&err) : NULL;
    const Graph *g = !simplified ? t->graph : a ? simplify(a, t->graph, NULL, NULL) : NULL;
    Text text = {0};
    if (g)
        graph_print(&text, g);
    PyObject *result = g ? text_object(&text) : error_raise(&err, t);
    arena_free(a);
    return result;
}

static Bound *lowered_bound(Lowered *l)
{
    Call c = {.jit = l->jit, .args = &PyTuple_GET_ITEM(l->args, 0), .kwnames = l->kwnames};
    c.nargs = PyTuple_GET_SIZE(l->args) - (l->kwnames ? PyTuple_GET_SIZE(l->kwnames) : 0);
    Record r;
    record_init(&r);
    r.abstract = true;
    Bound *b = NULL;
    if (call_record(&c, &r)) {
        if (r.nsig == l->entry->nsig && !memcmp(r.sig, l->entry->sig, r.nsig * sizeof *r.sig) && entry_fits(l->entry, &r))
            b = bound_make(l->entry, &r, l->jit->threads, &l->jit->costs);
        else
            PyErr_Format(PyExc_RuntimeError, "%s: the arguments have changed since lower(); call lower() again", l->jit->text);
    }
    if (c.bound)
        binding_clear(&c.binding);
    record_clear(&r);
    return b;
}

static PyObject *lowered_compile(PyObject *self, PyObject *Py_UNUSED(unused))
{
    PyTypeObject *type = (PyTypeObject *)state.compiled_type;
    Compiled *compiled = (Compiled *)type->tp_alloc(type, 0);
    if (compiled && !(compiled->bound = lowered_bound((Lowered *)self)))
        Py_CLEAR(compiled);
    return (PyObject *)compiled;
}

static PyMethodDef lowered_methods[] = {
    {"as_text", (PyCFunction)(void (*)(void))lowered_as_text, METH_VARARGS | METH_KEYWORDS,
     "as_text(*, simplified=False)\n--\n\nThe graph as text, as traced or after the simplifying passes (UnsupportedError if shapes depend on data)."},
    {"compile", lowered_compile, METH_NOARGS, "compile()\n--\n\nPlans and compiles for the layouts of the arguments."},
    {0},
};
static PyType_Slot lowered_slots[] = {
    {Py_tp_doc, "A traced function, made by lower()."},
    {Py_tp_dealloc, lowered_dealloc},
    {Py_tp_traverse, lowered_traverse},
    {Py_tp_clear, lowered_clear},
    {Py_tp_methods, lowered_methods},
    {0},
};
static PyType_Spec lowered_spec = {
    "pyxla._core.Lowered", sizeof(Lowered), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE, lowered_slots,
};

/* ---- tracing without calling ---- */

/* What lower() and eval_shape() do alike: writes down the call and traces it. use() makes their result. */
static PyObject *trace_only(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                            PyObject *(*use)(Entry *e, const Record *r, const Call *c))
{
    Jit *jit = (Jit *)self;
    if (trace_current()) {
        PyErr_Format(state.trace_error, "%s: lower() and eval_shape() cannot be called while a function is traced; call the function itself, which becomes part of the trace", jit->text);
        return NULL;
    }
    Call c = {.jit = jit, .args = args, .nargs = nargs, .kwnames = kwnames && PyTuple_GET_SIZE(kwnames) ? kwnames : NULL};
    PyObject *result = NULL;
    Record r;
    record_init(&r);
    r.abstract = true;
    if (call_record(&c, &r) && call_lent(&c, &r) && call_bind(&c)) {
        TraceOptions options = jit->options;
        options.watched = &jit->watched;
        options.abstract = r.shapes;
        Entry *e = entry_make(jit->fn, jit->text, &jit->signature, &r, &c.binding, &options, &jit->costs);
        if (e) {
            result = use(e, &r, &c);
            entry_unref(e);
        }
    }
    if (c.bound)
        binding_clear(&c.binding);
    record_clear(&r);
    return result;
}

static PyObject *make_lowered(Entry *e, const Record *Py_UNUSED(r), const Call *c)
{
    PyTypeObject *type = (PyTypeObject *)state.lowered_type;
    Lowered *l = (Lowered *)type->tp_alloc(type, 0);
    if (!l)
        return NULL;
    e->refs++;
    l->entry = e;
    l->jit = (Jit *)Py_NewRef(c->jit);
    l->kwnames = Py_XNewRef(c->kwnames);
    Py_ssize_t n = c->nargs + (c->kwnames ? PyTuple_GET_SIZE(c->kwnames) : 0);
    l->args = PyTuple_New(n);
    for (Py_ssize_t k = 0; l->args && k < n; k++)
        PyTuple_SET_ITEM(l->args, k, Py_NewRef(c->args[k]));
    if (!l->args)
        Py_CLEAR(l);
    return (PyObject *)l;
}

PyObject *jit_lower(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return trace_only(self, args, nargs, kwnames, make_lowered);
}

/* ---- eval_shape ---- */

static PyObject *shape_object(int rank, const int64_t *shape, PyArray_Descr *descr)
{
    PyObject *t = PyTuple_New(rank);
    for (int k = 0; t && k < rank; k++) {
        PyObject *n = PyLong_FromLongLong(shape[k]);
        if (!n)
            Py_CLEAR(t);
        else
            PyTuple_SET_ITEM(t, k, n);
    }
    PyObject *s = t && descr ? PyObject_CallFunctionObjArgs(state.shape_dtype, t, (PyObject *)descr, NULL) : NULL;
    Py_XDECREF(t);
    return s;
}

/* The shape of a graph input, or of a view of one. */
static PyObject *input_shape(const Entry *e, uint32_t k, const View *v)
{
    const Graph *g = e->trace->graph;
    Id id = g->inputs.at[k];
    PyObject *descr = dtype_to_numpy(node_at(g, id)->dtype);
    PyObject *s = v ? shape_object(v->rank, v->shape, (PyArray_Descr *)descr)
                    : shape_object(node_at(g, id)->rank, node_shape(g, id), (PyArray_Descr *)descr);
    Py_XDECREF(descr);
    return s;
}

static PyObject *result_shape(const Entry *e, const TraceResult *res, const Record *r, const Registers *regs)
{
    const Output *o = &e->outputs[res->output >= 0 && (uint32_t)res->output < e->noutputs ? res->output : 0];
    switch (res->kind) {
    case RESULT_NEW: return shape_object(o->rank, (const int64_t *)o->shape, o->descr);
    case RESULT_NEW_VIEW: return shape_object(res->view->rank, res->view->shape, o->descr);
    case RESULT_NEW_STEPS: return shape_object(res->steps[res->nsteps - 1].view.rank, res->steps[res->nsteps - 1].view.shape, o->descr);
    case RESULT_INPUT: return input_shape(e, (uint32_t)res->input, NULL);
    case RESULT_INPUT_VIEW: return input_shape(e, (uint32_t)res->input, res->view);
    case RESULT_REGISTER: return Py_NewRef(regs->at[res->input]);
    case RESULT_OBJECT: return Py_NewRef(res->object);
    case RESULT_LEAF: return Py_NewRef(r->leaf[res->input].object);
    case RESULT_AGAIN: return result_shape(e, &e->results[res->input], r, regs);
    }
    return NULL;
}

static PyObject *shapes(Entry *e, const Record *r, const Call *Py_UNUSED(c))
{
    Registers regs = {.at = regs.buffer};
    PyObject *tree = NULL, **leaves = PyMem_Calloc(e->nresults + 1, sizeof *leaves);
    uint32_t n = 0;
    if (!leaves)
        PyErr_NoMemory();
    else if (!e->nregs || registers_fill(&regs, e, r) == 1)
        while (n < e->nresults && (leaves[n] = result_shape(e, &e->results[n], r, &regs)))
            n++;
    if (leaves && n == e->nresults && !PyErr_Occurred())
        tree = tree_unflatten(&e->tree, leaves);
    while (n)
        Py_DECREF(leaves[--n]);
    PyMem_Free(leaves);
    registers_clear(&regs);
    return tree;
}

PyObject *jit_eval_shape(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return trace_only(self, args, nargs, kwnames, shapes);
}

bool inspect_module_init(PyObject *module)
{
    state.lowered_type = PyType_FromSpec(&lowered_spec);
    state.compiled_type = PyType_FromSpec(&compiled_spec);
    return state.lowered_type && state.compiled_type && PyModule_AddObjectRef(module, "Lowered", state.lowered_type) == 0
        && PyModule_AddObjectRef(module, "Compiled", state.compiled_type) == 0;
}
