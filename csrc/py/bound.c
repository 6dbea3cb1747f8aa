#include "py/entry.h"
#include "py/constant.h"
#include "py/error.h"
#include "py/staged.h"
#include "py/state.h"
#include "py/tuning.h"

enum { MAX_BOUNDS = 16 };

/* ---- layouts ---- */

static void plan_input(const Entry *e, uint32_t k, const Record *r, PlanInput *p)
{
    const TraceInput *in = &e->trace->inputs.at[k];
    PyArrayObject *a = input_array(e, k, r);
    *p = (PlanInput){0};
    if (!a)
        return;
    for (int axis = 0; axis < PyArray_NDIM(a); axis++)
        p->stride[axis] = PyArray_DIM(a, axis) > 1 ? PyArray_STRIDE(a, axis) : 0;
    p->swapped = PyArray_ISBYTESWAPPED(a);
    p->constant = constant_is(a) && in->writeback < 0;
    p->writable = PyArray_ISWRITEABLE(a);
    p->donated = PyArray_NDIM(a) > 0 && in->kind == INPUT_LEAF && in->writeback < 0 && r->leaf[in->leaf].flags & SIG_DONATED;
}

/* An argument that is handed back, whole or in part, keeps its memory. */
static void keep_returned(const Entry *e, PlanInput *p)
{
    for (uint32_t k = 0; k < e->nresults; k++)
        if (e->results[k].kind == RESULT_INPUT || e->results[k].kind == RESULT_INPUT_VIEW)
            p[e->results[k].input].donated = false;
}

/* Whether two elements may share memory: an axis steps over less than the axes below it span. */
static bool overlaps_itself(PyArrayObject *a)
{
    npy_intp extent[MAX_RANK], stride[MAX_RANK];
    int n = 0;
    for (int k = 0; k < PyArray_NDIM(a); k++) {
        if (PyArray_DIM(a, k) == 0)
            return false;
        if (PyArray_DIM(a, k) == 1)
            continue;
        npy_intp step = PyArray_STRIDE(a, k) < 0 ? -PyArray_STRIDE(a, k) : PyArray_STRIDE(a, k);
        int at = n++;
        for (; at > 0 && stride[at - 1] > step; at--) {
            stride[at] = stride[at - 1];
            extent[at] = extent[at - 1];
        }
        stride[at] = step;
        extent[at] = PyArray_DIM(a, k);
    }
    npy_intp span = PyArray_ITEMSIZE(a);    /* of the axes with smaller strides */
    for (int k = 0; k < n; k++) {
        if (stride[k] < span)
            return true;
        span += stride[k] * (extent[k] - 1);
    }
    return false;
}

int32_t entry_overlapping(const Entry *e, const Record *r)
{
    for (uint32_t k = 0; k < e->nwritten; k++) {
        PyArrayObject *a = input_array(e, (uint32_t)e->written[k], r);
        if (a && overlaps_itself(a))
            return e->written[k];
    }
    return -1;
}

static uint32_t captured_words(const Entry *e)
{
    uint32_t n = 0;
    for (uint32_t k = 0; e->ncaptured && k < e->ninputs; k++) {
        const TraceInput *in = &e->trace->inputs.at[k];
        if (in->kind == INPUT_CAPTURED)
            n += node_at(e->trace->graph, e->trace->graph->inputs.at[k])->rank + 1;
    }
    return n;
}

/* Strides of the captured arrays now; entry_fits() holds. */
static void captured_lay(const Entry *e, int64_t *lay)
{
    for (uint32_t k = 0; e->ncaptured && k < e->ninputs; k++) {
        const TraceInput *in = &e->trace->inputs.at[k];
        PyArrayObject *a = (PyArrayObject *)in->object;
        if (in->kind != INPUT_CAPTURED)
            continue;
        for (int axis = 0; axis < PyArray_NDIM(a); axis++)
            *lay++ = PyArray_DIM(a, axis) > 1 ? PyArray_STRIDE(a, axis) : 0;
        *lay++ = constant_is(a);
    }
}

static bool captured_lay_is(const Entry *e, const int64_t *lay)
{
    for (uint32_t k = 0; k < e->ninputs; k++) {
        const TraceInput *in = &e->trace->inputs.at[k];
        PyArrayObject *a = (PyArrayObject *)in->object;
        if (in->kind != INPUT_CAPTURED)
            continue;
        for (int axis = 0; axis < PyArray_NDIM(a); axis++)
            if (*lay++ != (PyArray_DIM(a, axis) > 1 ? PyArray_STRIDE(a, axis) : 0))
                return false;
        if (*lay++ != constant_is(a))
            return false;
    }
    return true;
}

bool bound_fits(const Bound *b, const Record *r)
{
    return b->nlay == r->nlay && !memcmp(b->lay, r->lay, r->nlay * sizeof *r->lay)
        && (!b->entry->ncaptured || captured_lay_is(b->entry, b->lay + b->nlay));
}

/* ---- planning ---- */

static bool fill_lay(Bound *b, const Record *r)
{
    b->nlay = r->nlay;
    b->nlay_captured = captured_words(b->entry);
    b->lay = PyMem_Malloc((b->nlay + b->nlay_captured + 1) * sizeof *b->lay);
    b->took = PyMem_Malloc((b->entry->noutputs + 1) * sizeof *b->took);
    if (!b->lay || !b->took) {
        PyErr_NoMemory();
        return false;
    }
    memcpy(b->lay, r->lay, r->nlay * sizeof *b->lay);
    captured_lay(b->entry, b->lay + b->nlay);
    return true;
}

static bool make_plan(Bound *b, const Record *r, PlanInput *in, PlanOutput *out)
{
    const Entry *e = b->entry;
    const Graph *g = e->trace->graph;
    for (uint32_t k = 0; k < e->ninputs; k++)
        plan_input(e, k, r, &in[k]);
    keep_returned(e, in);
    for (uint32_t k = 0; k < e->ninputs; k++)
        b->any_donated |= in[k].donated;
    for (uint32_t k = 0; k < e->noutputs; k++)
        out[k] = (PlanOutput){.into = e->outputs[k].into, .ordered = e->outputs[k].ordered};
    const Cpu *cpu = cpu_host();
    Target target = {cpu->level, cpu->vector_bytes, cpu->l1, cpu->l2, state.checked, cpu->vnni, tuning_table()};
    b->plan = plan_make(b->arena, g, in, out, &target);
    if (!b->plan)
        error_raise(&b->err, e->trace);
    return b->plan != NULL;
}

/* Which outputs live in the memory of a donated input. */
static void fill_took(Bound *b)
{
    for (uint32_t k = 0; k < b->entry->noutputs; k++) {
        const Slot *slot = &b->plan->slots.at[b->plan->output_slot[k]];
        b->took[k] = slot->kind == SLOT_INPUT && b->entry->outputs[k].into < 0 ? (int32_t)slot->index : -1;
    }
    for (uint32_t k = 0; k < b->plan->launches.len; k++)
        b->ns += b->plan->launches.at[k].once ? 0 : b->plan->launches.at[k].ns;
}

/* The first stage; the others are planned when their extents are met. */
static bool plan_stages(Bound *b, const Record *r, int threads, Costs *costs)
{
    const Entry *e = b->entry;
    b->layout = PyMem_Calloc(e->ninputs + 1, sizeof *b->layout);
    if (!b->layout) {
        PyErr_NoMemory();
        return false;
    }
    for (uint32_t k = 0; k < e->noutputs; k++)
        b->took[k] = -1;
    for (uint32_t k = 0; k < e->ninputs; k++) {
        plan_input(e, k, r, &b->layout[k]);
        b->layout[k].donated = b->layout[k].constant = false;
    }
    b->stages = stage_root(e, b->layout, threads, costs);
    if (b->stages)
        b->plan = b->stages->plan;
    return b->stages != NULL;
}

static bool plan_bound(Bound *b, const Record *r)
{
    const Entry *e = b->entry;
    for (uint32_t k = 0; k < e->noutputs; k++)
        b->took[k] = -1;
    if (!e->noutputs && !e->trace->graph->checks.len)
        return true;
    PlanInput *in = PyMem_Calloc(e->ninputs + 1, sizeof *in);
    PlanOutput *out = PyMem_Calloc(e->noutputs + 1, sizeof *out);
    bool ok = in && out && (b->arena = arena_new(&b->err));
    if (!ok)
        PyErr_NoMemory();
    ok = ok && make_plan(b, r, in, out);
    if (ok)
        fill_took(b);
    PyMem_Free(in);
    PyMem_Free(out);
    return ok;
}

/* ---- compiling ---- */

/* Called while the compiler works: takes the GIL to see whether the user pressed ^C. */
static bool interrupted(void *ctx)
{
    PyThreadState **ts = ctx;
    PyEval_RestoreThread(*ts);
    bool stop = PyErr_CheckSignals() < 0;
    *ts = PyEval_SaveThread();
    return stop;
}

bool entry_compile(const Entry *e, const Plan *plan, Code ***out, Costs *costs)
{
    uint32_t n = plan->kernels.len;
    if (!n || state.interp)
        return true;
    Code **code = PyMem_Calloc(n, sizeof *code);
    if (!code) {
        PyErr_NoMemory();
        return false;
    }
    Err err = {0};
    CompileStats stats = {0};
    PyThreadState *ts = PyEval_SaveThread();
    bool ok = compile_kernels(plan->kernels.at, (int)n, cpu_host()->level, code, &stats, interrupted, &ts, &err);
    PyEval_RestoreThread(ts);
    costs->compile += stats.seconds;
    costs->compiled += stats.compiled;
    costs->reused += stats.reused;
    if (ok) {
        *out = code;
        return true;
    }
    PyMem_Free(code);
    error_raise(&err, e->trace);
    return false;
}

Bound *bound_make(Entry *e, const Record *r, int threads, Costs *costs)
{
    double start = now_seconds();
    Bound *b = PyMem_Calloc(1, sizeof *b);
    if (!b) {
        PyErr_NoMemory();
        return NULL;
    }
    b->refs = 1;
    b->entry = e;
    e->refs++;
    bool ok = fill_lay(b, r) && (e->staged ? plan_stages(b, r, threads, costs) : plan_bound(b, r));
    costs->plan += now_seconds() - start;
    ok = ok && (e->staged || !b->plan || entry_compile(e, b->plan, &b->code, costs));
    b->exec = (Exec){b->plan, b->code, threads};
    if (ok)
        return b;
    bound_unref(b);
    return NULL;
}

static void bound_free(Bound *b)
{
    for (uint32_t k = 0; b->code && k < b->plan->kernels.len; k++)
        code_unref(b->code[k]);
    PyMem_Free(b->code);
    PyMem_Free(b->layout);
    stage_unref(b->stages);
    constant_found_free(b->found);
    arena_free(b->arena);
    PyMem_Free(b->lay);
    PyMem_Free(b->took);
    PyMem_Free(b);
}

void bound_unref(Bound *b)
{
    Entry *e = b->entry;
    if (--b->refs == 0)
        bound_free(b);
    entry_unref(e);
}

/* ---- the list of an entry ---- */

/* Gives up the list's reference, which is none of the entry. */
static void list_unref(Bound *b)
{
    if (--b->refs == 0)
        bound_free(b);
}

/* Drops all bounds but the first n. */
static void trim(Entry *e, int n)
{
    Bound **at = &e->bounds;
    for (int k = 0; *at && k < n; k++)
        at = &(*at)->next;
    while (*at) {
        Bound *last = *at;
        *at = last->next;
        e->nbounds--;
        list_unref(last);
    }
}

void entry_keep(Entry *e, Bound *b)
{
    b->refs++;
    b->next = e->bounds;
    e->bounds = b;
    e->nbounds++;
    trim(e, MAX_BOUNDS);
}

void entry_clear_bounds(Entry *e) { trim(e, 0); }

Bound *entry_bound(Entry *e, const Record *r)
{
    for (Bound **at = &e->bounds; *at; at = &(*at)->next) {
        Bound *b = *at;
        if (!bound_fits(b, r))
            continue;
        *at = b->next;
        b->next = e->bounds;
        e->bounds = b;
        return b;
    }
    return NULL;
}
