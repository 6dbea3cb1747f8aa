#include "py/staged.h"
#include "py/error.h"
#include "py/state.h"
#include "py/tuning.h"
#include "run/memory.h"

enum { MAX_CHILDREN = 64 };

/* ---- nodes ---- */

void stage_unref(StageNode *n)
{
    if (!n || --n->refs)
        return;
    while (n->children) {
        StageNode *child = n->children;
        n->children = child->next;
        stage_unref(child);
    }
    for (uint32_t k = 0; n->code && k < n->plan->kernels.len; k++)
        code_unref(n->code[k]);
    PyMem_Free(n->code);
    PyMem_Free(n->outputs);
    PyMem_Free(n->values);
    arena_free(n->arena);
    PyMem_Free(n);
}

static StageNode *node_new(void)
{
    StageNode *n = PyMem_Calloc(1, sizeof *n);
    if (!n || !(n->refs = 1) || !(n->arena = arena_new(&n->err))) {
        PyMem_Free(n);
        PyErr_NoMemory();
        return NULL;
    }
    return n;
}

/* The shapes of the entry's outputs, now that they are numbers. */
static bool fill_outputs(StageNode *n, const Entry *e)
{
    n->outputs = PyMem_Malloc((e->noutputs + 1) * sizeof *n->outputs);
    if (!n->outputs) {
        PyErr_NoMemory();
        return false;
    }
    for (uint32_t k = 0; k < e->noutputs; k++) {
        Output *o = &n->outputs[k];
        *o = e->outputs[k];
        o->bytes = dtype_info[o->dtype].bytes;
        for (int d = 0; d < o->rank; d++) {
            o->shape[d] = node_shape(n->graph, n->graph->outputs.at[k])[d];
            if (__builtin_mul_overflow(o->bytes, (size_t)o->shape[d], &o->bytes)) {
                PyErr_SetString(PyExc_MemoryError, "a result is larger than the address space");
                return false;
            }
        }
    }
    return true;
}

/* Plans and compiles what runs at this node: the first graph of its stage, or, at the last one, its graph. */
static bool plan_node(StageNode *n, const Entry *e, const PlanInput *in, int threads, Costs *costs)
{
    const Graph *g = n->graph;
    if (stage_needed(n->graph)) {
        n->stage = stage_split(n->arena, n->graph);
        g = n->stage ? n->stage->first : NULL;
    }
    PlanOutput *out = g ? PyMem_Calloc(g->outputs.len + 1, sizeof *out) : NULL;
    if (g && !out)
        PyErr_NoMemory();
    for (uint32_t k = 0; out && k < g->outputs.len; k++)
        out[k] = n->stage ? (PlanOutput){.into = -1} : (PlanOutput){.into = e->outputs[k].into, .ordered = e->outputs[k].ordered};
    const Cpu *cpu = cpu_host();
    Target target = {cpu->level, cpu->vector_bytes, cpu->l1, cpu->l2, state.checked, cpu->vnni, tuning_table()};
    n->plan = out ? plan_make(n->arena, g, in, out, &target) : NULL;
    PyMem_Free(out);
    if (!n->plan) {
        error_raise(&n->err, e->trace);
        return false;
    }
    for (uint32_t k = 0; k < n->plan->launches.len; k++)
        n->ns += n->plan->launches.at[k].ns;
    bool ok = (n->stage || fill_outputs(n, e)) && entry_compile(e, n->plan, &n->code, costs);
    n->exec = (Exec){n->plan, n->code, threads};
    return ok;
}

static StageNode *node_make(const Graph *graph, StageNode *parent, const int64_t *values, const Entry *e, const PlanInput *in, int threads, Costs *costs)
{
    StageNode *n = node_new();
    size_t size = parent ? parent->stage->nextents * sizeof *values : 0;
    if (!n)
        return NULL;
    n->values = PyMem_Malloc(size + 1);
    if (n->values && size)
        memcpy(n->values, values, size);
    n->graph = parent ? stage_rest(n->arena, parent->stage, values) : graph;
    if (n->graph && parent && !parent->stage->nextents && stage_needed(n->graph)) {     /* without extents a stage only drops dead nodes */
        err_set(&n->err, ERR_INTERNAL, "a run-time extent that no stage can compute");
        n->graph = NULL;
    }
    if (!n->graph)
        error_raise(&n->err, e->trace);
    if (n->values && n->graph && plan_node(n, e, in, threads, costs))
        return n;
    if (!PyErr_Occurred())
        PyErr_NoMemory();
    stage_unref(n);
    return NULL;
}

StageNode *stage_root(const Entry *e, const PlanInput *in, int threads, Costs *costs)
{
    return node_make(e->trace->graph, NULL, NULL, e, in, threads, costs);
}

/* The child for these extents, made or found; a reference. The least recently used one goes past the limit. */
static StageNode *child_for(StageNode *n, const int64_t *values, const Entry *e, const PlanInput *in, int threads, Costs *costs)
{
    size_t size = n->stage->nextents * sizeof *values;
    int count = 0;
    for (StageNode **at = &n->children; *at; at = &(*at)->next, count++) {
        StageNode *child = *at;
        if (memcmp(child->values, values, size))
            continue;
        *at = child->next;
        child->next = n->children;
        n->children = child;
        child->refs++;
        return child;
    }
    double start = now_seconds(), compiling = costs->compile;
    StageNode *child = node_make(NULL, n, values, e, in, threads, costs);
    costs->plan += now_seconds() - start - (costs->compile - compiling);
    if (!child)
        return NULL;
    child->next = n->children;
    n->children = child;
    child->refs++;
    StageNode **at = &n->children;
    for (int k = 0; *at && k < MAX_CHILDREN; k++)
        at = &(*at)->next;
    while (*at) {
        StageNode *last = *at;
        *at = last->next;
        stage_unref(last);
    }
    return child;
}

/* ---- runs ---- */

static bool grow(StagedRun *s, uint32_t more)
{
    uint32_t n = s->nin + more + 1;
    void **in = PyMem_Realloc(s->in, n * sizeof *in), **blocks = PyMem_Realloc(s->blocks, (s->nblocks + more + 1) * sizeof *blocks);
    s->in = in ? in : s->in;
    s->blocks = blocks ? blocks : s->blocks;
    const char **lo = PyMem_Realloc(s->lo, n * sizeof *lo), **hi = PyMem_Realloc(s->hi, n * sizeof *hi);
    s->lo = lo ? lo : s->lo;
    s->hi = hi ? hi : s->hi;
    PlanInput *layout = PyMem_Realloc(s->layout, n * sizeof *layout);
    s->layout = layout ? layout : s->layout;
    if (in && blocks && lo && hi && layout)
        return true;
    PyErr_NoMemory();
    return false;
}

/* Memory for the values that the stage hands on; they become inputs. */
static bool add_carried(StagedRun *s, const Stage *stage, void **out)
{
    if (!grow(s, stage->ncarried))
        return false;
    for (uint32_t k = 0; k < stage->ncarried; k++) {
        Id id = stage->carried[k];
        const Node *n = node_at(stage->whole, id);
        int64_t step = dtype_info[n->dtype].bytes, bytes = node_size(stage->whole, id) * step;
        char *block = mem_alloc((size_t)bytes + !bytes);
        if (!block) {
            PyErr_NoMemory();
            return false;
        }
        s->blocks[s->nblocks++] = out[stage->nextents + k] = s->in[s->nin] = block;
        s->lo[s->nin] = block;
        s->hi[s->nin] = block + bytes;
        s->layout[s->nin] = (PlanInput){0};
        for (int d = n->rank - 1; d >= 0; d--) {
            s->layout[s->nin].stride[d] = node_shape(stage->whole, id)[d] > 1 ? step : 0;
            step *= node_shape(stage->whole, id)[d];
        }
        s->nin++;
    }
    return true;
}

/* Runs the first graph of the node reached, and goes on to the child for the extents that it found. */
static bool next_stage(StagedRun *s, const Entry *e, int threads, Costs *costs, StageExec exec)
{
    StageNode *n = s->last;
    const Stage *stage = n->stage;
    int64_t *values = PyMem_Calloc(stage->nextents + 1, sizeof *values);
    void **out = PyMem_Calloc(stage->nextents + stage->ncarried + 1, sizeof *out);
    if (!values || !out)
        PyErr_NoMemory();
    for (uint32_t k = 0; values && out && k < stage->nextents; k++)
        out[k] = &values[k];
    uint32_t nin = s->nin;
    bool ok = values && out && add_carried(s, stage, out);
    (void)nin;
    ok = ok && exec(n, s->in, out, s->lo, s->hi, e);
    StageNode *child = ok ? child_for(n, values, e, s->layout, threads, costs) : NULL;
    PyMem_Free(values);
    PyMem_Free(out);
    if (!child)
        return false;
    stage_unref(n);
    s->last = child;
    return true;
}

bool staged_begin(StagedRun *s, StageNode *root, const Entry *e, void **in, const char **lo, const char **hi, const PlanInput *layout, int threads,
                  Costs *costs, StageExec exec)
{
    *s = (StagedRun){.last = root};
    root->refs++;
    if (!grow(s, e->ninputs))
        return false;
    s->nin = e->ninputs;
    memcpy(s->in, in, e->ninputs * sizeof *in);
    memcpy(s->layout, layout, e->ninputs * sizeof *layout);
    if (state.checked) {
        memcpy(s->lo, lo, e->ninputs * sizeof *lo);
        memcpy(s->hi, hi, e->ninputs * sizeof *hi);
    }
    while (s->last->stage)
        if (!next_stage(s, e, threads, costs, exec))
            return false;
    return true;
}

void staged_end(StagedRun *s)
{
    stage_unref(s->last);
    for (uint32_t k = 0; k < s->nblocks; k++)
        mem_free(s->blocks[k]);
    PyMem_Free(s->in);
    PyMem_Free(s->lo);
    PyMem_Free(s->hi);
    PyMem_Free(s->layout);
    PyMem_Free(s->blocks);
}
