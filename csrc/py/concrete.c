/* Values of tracers while tracing: those that depend on no argument are computed on the spot (captured arrays
 * are guarded then), others are refused with the cure. */
#include "py/concrete.h"
#include "opt/stage.h"
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

static bool run_once(Plan *plan, Code **code, void **data, void **out, const Trace *t, Err *err)
{
    int64_t *words = PyMem_Malloc((plan->words.len + 1) * sizeof *words);    /* no words: a plan of empty arrays */
    if (!words)
        return err_set(err, ERR_MEMORY, "out of memory");
    if (plan->words.len)
        memcpy(words, plan->words.at, plan->words.len * sizeof *words);
    Exec e = {plan, code, 1};
    HostFailure failure = {0};
    Addresses at = {.in = data, .out = out};
    int64_t status = exec_run(&e, words, &at, NULL, &failure);
    PyMem_Free(words);
    if (status == -4)
        host_raise(&failure, plan, t);
    else if (status)
        err_set(err, status == -1 ? ERR_MEMORY : ERR_INTERNAL, "a value could not be computed while tracing");
    return status == 0;
}

/* What is computed with: addresses and layouts of a graph's inputs. */
typedef struct { uint32_t n; PlanInput *layout; void **data; } Values;

/* The outputs of a graph whose shapes are numbers, at the addresses `out`. */
static bool run_static(Arena *a, const Trace *t, const Graph *g, const Values *v, void **out)
{
    const Cpu *cpu = cpu_host();
    Target target = {.level = cpu->level, .vector_bytes = cpu->vector_bytes, .l1 = cpu->l1, .l2 = cpu->l2, .vnni = cpu->vnni};
    PlanOutput *to = arena_alloc(a, (g->outputs.len + 1) * sizeof *to);
    for (uint32_t k = 0; to && k < g->outputs.len; k++)
        to[k].into = -1;
    Plan *plan = to ? plan_make(a, g, v->layout, to, &target) : NULL;
    Code **code = plan ? plan_code(a, plan, g->err) : NULL;
    bool ok = code && run_once(plan, code, v->data, out, t, g->err);
    for (uint32_t k = 0; code && k < plan->kernels.len; k++)
        if (code[k])
            code_unref(code[k]);
    return ok;
}

/* Memory for the values that a stage hands on, as further inputs. */
static bool add_carried(Arena *a, const Stage *s, Values *v, void **out)
{
    Values old = *v;
    v->layout = arena_alloc(a, (old.n + s->ncarried + 1) * sizeof *v->layout);
    v->data = arena_alloc(a, (old.n + s->ncarried + 1) * sizeof *v->data);
    if (!v->layout || !v->data)
        return false;
    memcpy(v->layout, old.layout, old.n * sizeof *v->layout);
    memcpy(v->data, old.data, old.n * sizeof *v->data);
    for (uint32_t k = 0; k < s->ncarried; k++, v->n++) {
        const Node *n = node_at(s->whole, s->carried[k]);
        const Dim *shape = node_shape(s->whole, s->carried[k]);
        int64_t step = dtype_info[n->dtype].bytes;
        for (int d = n->rank - 1; d >= 0; step *= shape[d--])
            v->layout[v->n].stride[d] = shape[d] > 1 ? step : 0;
        if (!(out[s->nextents + k] = v->data[v->n] = arena_alloc(a, (size_t)step + 1)))
            return false;
    }
    return true;
}

/* Runs what a graph's run-time extents are computed from; what is left then, with numbers for these. NULL with an error or exception. */
static const Graph *run_stage(Arena *a, const Trace *t, const Graph *g, Values *v)
{
    Stage *s = stage_split(a, g);
    int64_t *extents = s ? arena_alloc(a, (s->nextents + 1) * sizeof *extents) : NULL;
    void **out = s ? arena_alloc(a, (s->nextents + s->ncarried + 1) * sizeof *out) : NULL;
    Values before = *v;
    if (!extents || !out || !add_carried(a, s, v, out))
        return NULL;
    for (uint32_t k = 0; k < s->nextents; k++)
        out[k] = &extents[k];
    return run_static(a, t, s->first, &before, out) ? stage_rest(a, s, extents) : NULL;
}

static bool run(Arena *a, const Trace *t, const Graph *g, const int *inputs, InputReader read, void *ctx, void *result)
{
    Values v = {g->inputs.len, arena_alloc(a, (g->inputs.len + 1) * sizeof *v.layout), arena_alloc(a, (g->inputs.len + 1) * sizeof *v.data)};
    if (!v.layout || !v.data || !read_all(a, g, inputs, read, ctx, v.layout, v.data))
        return false;
    while (g && stage_needed(g))
        g = run_stage(a, t, g, &v);
    return g && run_static(a, t, g, &v, &result);
}

bool node_compute(const Trace *t, Id id, InputReader read, void *ctx, void *result)
{
    Err err = {0};
    int *inputs;
    Arena *a = arena_new(&err);
    Graph *g = a ? graph_below(a, t->graph, id, &inputs) : NULL;
    bool ok = g && run(a, t, g, inputs, read, ctx, result);
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
