/* Values of tracers while tracing: those that depend on no argument are computed on the spot (captured arrays
 * are guarded then), others are refused with the cure. */
#include "py/tracer.h"
#include "py/error.h"
#include "py/host.h"
#include "run/exec.h"

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
    for (Id id = root; id > 0; id--)
        for (int k = 0; live[id] && k < node_at(g, id)->nin; k++)
            live[node_in(g, id)[k]] = 1;
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
        } else
            map[id] = graph_add(out, (Op)n->op, ins, n->nin, node_attr(g, id), n->nattr, (Dtype)n->dtype, node_shape(g, id), n->rank);
    }
    graph_output(out, map[root]);
    return map[root] ? out : NULL;
}

static void input_layout(PyArrayObject *a, PlanInput *out, void **data)
{
    *data = PyArray_DATA(a);
    out->swapped = PyArray_ISBYTESWAPPED(a);
    for (int k = 0; k < PyArray_NDIM(a); k++)
        out->stride[k] = PyArray_DIM(a, k) > 1 ? PyArray_STRIDE(a, k) : 0;
}

/* Largest captured array whose elements a guard compares at every call. */
#define GUARDED_BYTES (1 << 16)

/* Elements of captured arrays that a value was computed from become guards; false with an exception. */
static bool guard_captured(Trace *t, const Graph *g, const int *inputs)
{
    for (uint32_t k = 0; k < g->inputs.len; k++) {
        PyObject *array = t->inputs.at[inputs[k]].object;
        if (t->priv->facts.at[inputs[k]].constant)
            continue;
        if (PyArray_NBYTES((PyArrayObject *)array) > GUARDED_BYTES) {
            error_raise_at(error_class(ERR_LIMIT), "the function asks for a value computed from a large captured array (a global, closure variable or "
                           "attribute) while it is traced; compute the value outside and keep it as a number", t, t->graph->src);
            return false;
        }
        if (!guard_elements(t->guards, array))
            return false;
    }
    return true;
}

static bool run(Arena *a, Err *err, const Trace *t, const Graph *g, const int *inputs, void *result)
{
    uint32_t n = g->inputs.len;
    PlanInput *layout = arena_alloc(a, (n + 1) * sizeof *layout);
    void **data = arena_alloc(a, (n + 1) * sizeof *data);
    const Cpu *cpu = cpu_host();
    Target target = {.level = cpu->level, .vector_bytes = cpu->vector_bytes, .l1 = cpu->l1, .l2 = cpu->l2, .vnni = cpu->vnni};
    PlanOutput to = {-1};
    if (!layout || !data)
        return false;
    for (uint32_t k = 0; k < n; k++)
        input_layout((PyArrayObject *)t->inputs.at[inputs[k]].object, &layout[k], &data[k]);
    Plan *plan = plan_make(a, g, layout, &to, &target);
    Code **code = plan ? arena_alloc(a, (plan->kernels.len + 1) * sizeof *code) : NULL;
    int64_t *words = code ? arena_alloc(a, (plan->words.len + 1) * sizeof *words) : NULL;    /* no words: a plan of empty arrays */
    if (!words)
        return false;
    if (plan->words.len)
        memcpy(words, plan->words.at, plan->words.len * sizeof *words);
    Exec e = {plan, code, 1};
    HostFailure failure = {0};
    Addresses at = {.in = data, .out = &result};
    int64_t status = exec_run(&e, words, &at, NULL, &failure);
    if (status == -4) {
        host_raise(&failure, plan, t);
        return false;
    }
    return status == 0 || err_set(err, status == -1 ? ERR_MEMORY : ERR_INTERNAL, "a value could not be computed while tracing");
}

static PyObject *compute(Trace *t, Id id)
{
    Err err = {0};
    int *inputs;
    Arena *a = arena_new(&err);
    Graph *g = a ? extract(a, t->graph, id, &inputs) : NULL;
    PyObject *array = g && guard_captured(t, g, inputs) ? array_new(t->graph, id) : NULL;
    if (array && !run(a, &err, t, g, inputs, PyArray_DATA((PyArrayObject *)array)))
        Py_CLEAR(array);
    if (!array && !PyErr_Occurred())
        error_raise(&err, t);
    arena_free(a);
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
