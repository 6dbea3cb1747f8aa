/* Values of tracers while tracing: those that depend on no argument are computed on the spot (captured arrays
 * are guarded then), others are refused with the cure. */
#include "py/concrete.h"
#include "py/error.h"
#include "py/host.h"
#include "py/state.h"
#include "run/compile.h"

static PyObject *array_new(const Graph *g, Id id)
{
    npy_intp dims[MAX_RANK];
    const Node *n = node_at(g, id);
    for (int k = 0; k < n->rank; k++)
        dims[k] = node_shape(g, id)[k];
    PyObject *descr = dtype_to_numpy((Dtype)n->dtype);
    return descr ? PyArray_NewFromDescr(&PyArray_Type, (PyArray_Descr *)descr, n->rank, dims, NULL, NULL, 0, NULL) : NULL;
}

/* The part of the graph below root as a graph of its own; *inputs: the trace's number of each of its inputs. */
static Graph *extract(Arena *a, const Graph *g, Id root, int **inputs)
{
    Graph *out = graph_new(a);
    Id *map = arena_alloc(a, (root + 1) * sizeof *map), in[64];
    uint8_t *live = arena_alloc(a, root + 1);
    *inputs = arena_alloc(a, (g->inputs.len + 1) * sizeof **inputs);
    if (!out || !map || !live || !*inputs)
        return NULL;
    live[root] = 1;
    for (Id id = root; id > 0; id--) {
        for (int k = 0; live[id] && k < node_at(g, id)->rank; k++)
            if (node_shape(g, id)[k] < 0) {
                err_set(out->err, ERR_UNSUPPORTED, "NumPy's result depends on values of an array whose size depends on data; cast to complex first, or pass the array as an argument");
                return NULL;
            }
        for (int k = 0; live[id] && k < node_values(node_at(g, id)); k++)
            live[node_in(g, id)[k]] = 1;
    }
    for (Id id = 1; id <= root; id++) {
        const Node *n = node_at(g, id);
        if (!live[id])
            continue;
        out->mode = n->mode;
        Id *ins = n->nin <= 64 ? in : arena_alloc(a, n->nin * sizeof *ins);
        for (int k = 0; ins && k < n->nin; k++)
            ins[k] = map[node_in(g, id)[k]];
        if (n->op == OP_input) {
            (*inputs)[out->inputs.len] = (int)node_attr(g, id)[0];
            map[id] = graph_input(out, (Dtype)n->dtype, node_shape(g, id), n->rank, n->flags);
        } else if (n->op == OP_like)
            map[id] = map[node_in(g, id)[0]];
        else
            map[id] = graph_add(out, (Op)n->op, ins, n->nin, node_attr(g, id), n->nattr, (Dtype)n->dtype, node_shape(g, id), n->rank);
    }
    graph_output(out, map[root]);
    return map[root] ? out : NULL;
}

/* Largest captured array whose elements a guard compares at every call. */
#define GUARDED_BYTES (1 << 16)
#define INTERPRETED_NS 20e3     /* what is estimated to take longer as machine code is compiled */

/* Reads a captured array, whose elements become a guard; ctx: the trace. */
static bool read_captured(void *ctx, int input, Reading *r)
{
    Trace *t = ctx;
    PyArrayObject *a = (PyArrayObject *)t->inputs.at[input].object;
    bool constant = t->priv->facts.at[input].constant;
    if (!constant && PyArray_NBYTES(a) > GUARDED_BYTES) {
        error_raise_at(error_class(ERR_LIMIT), "the function asks for a value computed from a large captured array (a global, closure variable or "
                       "attribute) while it is traced; compute the value outside and keep it as a number", t, t->graph->src);
        return false;
    }
    reading_of(a, r);
    return constant || guard_elements(t->guards, (PyObject *)a);
}

void reading_of(PyArrayObject *a, Reading *r)
{
    r->data = PyArray_DATA(a);
    r->layout.swapped = PyArray_ISBYTESWAPPED(a);
    for (int k = 0; k < PyArray_NDIM(a); k++)
        r->layout.stride[k] = PyArray_DIM(a, k) > 1 ? PyArray_STRIDE(a, k) : 0;
}

/* The inputs of the extracted graph; false with an exception. */
static bool read_all(Arena *a, const Graph *g, const int *inputs, InputReader read, void *ctx, PlanInput *layout, void **data)
{
    for (uint32_t k = 0; k < g->inputs.len; k++) {
        Reading *r = arena_alloc(a, sizeof *r);
        if (!r || !read(ctx, inputs[k], r))
            return false;
        layout[k] = r->layout;
        data[k] = r->data ? r->data : r->cell;
    }
    return true;
}

/* Code for the kernels of what would take the interpreter long; NULL members: it is interpreted. */
static Code **plan_code(Arena *a, const Plan *plan, Err *err)
{
    Code **code = arena_alloc(a, (plan->kernels.len + 1) * sizeof *code);
    double ns = 0;
    for (uint32_t k = 0; k < plan->launches.len; k++)
        ns += plan->launches.at[k].host ? 0 : plan->launches.at[k].ns;
    if (!code || state.interp || ns < INTERPRETED_NS)
        return code;
    bool ok;
    Py_BEGIN_ALLOW_THREADS
    ok = compile_kernels(plan->kernels.at, (int)plan->kernels.len, cpu_host()->level, code, NULL, NULL, NULL, err);
    Py_END_ALLOW_THREADS
    return ok ? code : NULL;
}

static bool run_once(Plan *plan, Code **code, void **data, void *result, const Trace *t, Err *err)
{
    int64_t *words = PyMem_Malloc((plan->words.len + 1) * sizeof *words);    /* no words: a plan of empty arrays */
    if (!words)
        return err_set(err, ERR_MEMORY, "out of memory");
    if (plan->words.len)
        memcpy(words, plan->words.at, plan->words.len * sizeof *words);
    Exec e = {plan, code, 1};
    HostFailure failure = {0};
    Addresses at = {.in = data, .out = &result};
    int64_t status = exec_run(&e, words, &at, NULL, &failure);
    PyMem_Free(words);
    if (status == -4)
        host_raise(&failure, plan, t);
    else if (status)
        err_set(err, status == -1 ? ERR_MEMORY : ERR_INTERNAL, "a value could not be computed while tracing");
    return status == 0;
}

static bool run(Arena *a, Err *err, const Trace *t, const Graph *g, const int *inputs, InputReader read, void *ctx, void *result)
{
    uint32_t n = g->inputs.len;
    PlanInput *layout = arena_alloc(a, (n + 1) * sizeof *layout);
    void **data = arena_alloc(a, (n + 1) * sizeof *data);
    const Cpu *cpu = cpu_host();
    Target target = {.level = cpu->level, .vector_bytes = cpu->vector_bytes, .l1 = cpu->l1, .l2 = cpu->l2, .vnni = cpu->vnni};
    PlanOutput to = {-1};
    if (!layout || !data || !read_all(a, g, inputs, read, ctx, layout, data))
        return false;
    Plan *plan = plan_make(a, g, layout, &to, &target);
    Code **code = plan ? plan_code(a, plan, err) : NULL;
    bool ok = code && run_once(plan, code, data, result, t, err);
    for (uint32_t k = 0; code && k < plan->kernels.len; k++)
        if (code[k])
            code_unref(code[k]);
    return ok;
}

bool node_compute(const Trace *t, Id id, InputReader read, void *ctx, void *result)
{
    Err err = {0};
    int *inputs;
    Arena *a = arena_new(&err);
    Graph *g = a ? extract(a, t->graph, id, &inputs) : NULL;
    bool ok = g && run(a, &err, t, g, inputs, read, ctx, result);
    if (!ok && !PyErr_Occurred())
        error_raise(&err, t);
    arena_free(a);
    return ok;
}

static PyObject *compute(Trace *t, Id id)
{
    PyObject *array = array_new(t->graph, id);
    if (array && !node_compute(t, id, read_captured, t, PyArray_DATA((PyArrayObject *)array)))
        Py_CLEAR(array);
    return array;
}

void describe_node(Text *out, const Graph *g, Id id)
{
    const Node *n = node_at(g, id);
    text_put(out, "%s", dtype_info[n->dtype].name);
    shape_print(out, g, node_shape(g, id), n->rank);
}

/* "bool() needs the value of bool(3,), the result of less(float64(3,), float64(3,)), ..." */
static void raise_unknown(Trace *t, Id id, const char *what, const char *cure)
{
    const Graph *g = t->graph;
    const Node *n = node_at(g, id);
    Text text = {0};
    text_put(&text, "%s needs a value that is known only when the compiled function runs: ", what);
    describe_node(&text, g, id);
    if (n->op == OP_input)
        text_put(&text, ", an argument");
    else {
        text_put(&text, ", the result of %s(", op_info[n->op].name);
        for (int k = 0; k < n->nin && k < 4; k++) {
            text_put(&text, "%s", k ? ", " : "");
            describe_node(&text, g, node_in(g, id)[k]);
        }
        text_put(&text, ")");
    }
    text_put(&text, "; %s", cure);
    error_raise_at(error_class(ERR_LIMIT), text.at ? text.at : what, t, g->src);
    text_free(&text);
}

PyObject *tracer_value(Tracer *x, const char *what, const char *cure)
{
    Trace *t = tracer_trace(x) ? op_begin() : NULL;
    Id id = t ? tracer_node(x) : 0;
    int64_t bits;
    if (!id)
        return NULL;
    if (node_const(t->graph, id, &bits) && dtype_info[node_at(t->graph, id)->dtype].bytes <= 8) {
        PyObject *array = array_new(t->graph, id);
        if (array)
            memcpy(PyArray_DATA((PyArrayObject *)array), &bits, dtype_info[node_at(t->graph, id)->dtype].bytes);
        return array;
    }
    if (!(trace_depends(t, id) & DEPENDS_ARGUMENTS))
        return compute(t, id);
    raise_unknown(t, id, what, cure);
    return NULL;
}
