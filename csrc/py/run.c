/* One run of a Bound: addresses of the arguments, new results, the kernels, the result tree. */
#include <fenv.h>
#include <stdatomic.h>
#include "py/constant.h"
#include "py/error.h"
#include "py/host.h"
#include "py/jit.h"
#include "py/result.h"
#include "py/staged.h"
#include "py/state.h"

#define GIL_NS 10e3             /* shorter runs keep the GIL: giving it up and taking it back costs 70 ns, and more when contended */
#define INTERRUPT_NS 100e6      /* longer ones can be interrupted */

enum { CELL = 16 };             /* bytes of a number handed to or taken from a kernel; the largest dtype */

/* The memory of one run, in one block. */
typedef struct {
    void **in, **out, **kept;   /* per graph input, output, kept value: what exec_run() takes */
    const char **lo, **hi;      /* per graph input, only in checked plans */
    PyObject **array;           /* per graph output: the new array, or NULL */
    int64_t *words;
    char *cells;                /* one per input, then one per output */
} Frame;

static size_t frame_size(const Bound *b)
{
    const Entry *e = b->entry;
    return (4 * e->ninputs + 2 * e->noutputs + (b->plan ? b->plan->words.len + b->plan->kept.len : 0)) * sizeof(void *) + (e->ninputs + e->noutputs + 1) * CELL;
}

static void frame_init(Frame *f, const Bound *b, char *block)
{
    const Entry *e = b->entry;
    f->cells = block;
    f->in = (void **)(block + (e->ninputs + e->noutputs) * CELL);
    f->out = f->in + e->ninputs;
    f->array = (PyObject **)(f->out + e->noutputs);
    f->lo = (const char **)(f->array + e->noutputs);
    f->hi = f->lo + e->ninputs;
    f->kept = (void **)(f->hi + e->ninputs);
    f->words = (int64_t *)(f->kept + (b->plan ? b->plan->kept.len : 0));
    memset(f->out, 0, e->noutputs * sizeof *f->out);
    memset(f->array, 0, e->noutputs * sizeof *f->array);
}

/* ---- arguments ---- */

static bool read_inputs(Frame *f, const Entry *e, const Record *r, const Registers *regs)
{
    for (uint32_t k = 0; k < e->ninputs; k++) {
        const TraceInput *in = &e->trace->inputs.at[k];
        char *cell = f->cells + k * CELL;
        f->in[k] = cell;
        switch (in->kind) {
        case INPUT_LEAF:
            if (r->leaf[in->leaf].kind == LEAF_ARRAY)
                f->in[k] = PyArray_DATA((PyArrayObject *)r->value[in->leaf]);
            else
                scalar_element(r->value[in->leaf], cell);
            break;
        case INPUT_CAPTURED:
            f->in[k] = PyArray_DATA((PyArrayObject *)in->object);
            break;
        case INPUT_REGISTER:
            if (!scalar_store(regs->at[in->reg], in->dtype, cell))
                return false;
            break;
        }
    }
    return true;
}

static void read_bounds(Frame *f, const Entry *e, const Record *r)
{
    for (uint32_t k = 0; k < e->ninputs; k++) {
        PyArrayObject *a = input_array(e, k, r);
        f->lo[k] = f->in[k];
        f->hi[k] = f->lo[k] + CELL;
        if (a)
            array_bounds(a, &f->lo[k], &f->hi[k]);
    }
}

/* ---- arguments that are written to ---- */

static PyObject *input_name(const Entry *e, uint32_t k, Call *c)
{
    const TraceInput *in = &e->trace->inputs.at[k];
    return in->kind == INPUT_LEAF ? call_name(c, (uint32_t)in->leaf) : PyUnicode_FromString("an array that the function captures");
}

/* Takes the references to the names over. */
static bool raise_overlap(PyObject *a, const char *what, PyObject *b, Call *c)
{
    PyErr_Format(PyExc_ValueError, "%s: argument %S, which %s, shares memory with %S: pass a copy of one of them", c->jit->text, a, what, b);
    Py_XDECREF(a);
    Py_XDECREF(b);
    return false;
}

/* No other array input may lie in the memory of input k: the kernels read and write in an order of their own. */
static bool check_overlap(const Entry *e, uint32_t k, const Record *r, const char *what, Call *c)
{
    PyArrayObject *a = input_array(e, k, r);
    for (uint32_t other = 0; a && other < e->ninputs; other++) {
        PyArrayObject *b = other == k ? NULL : input_array(e, other, r);
        if (b && arrays_share(a, b))
            return raise_overlap(input_name(e, k, c), what, input_name(e, other, c), c);
    }
    return true;
}

bool check_layouts(const Entry *e, const Record *r, Call *c)
{
    int32_t k = entry_overlapping(e, r);
    PyObject *name = k < 0 ? NULL : input_name(e, (uint32_t)k, c);
    if (name)
        PyErr_Format(PyExc_ValueError, "%s: the function writes to argument %S, whose elements share memory (a broadcast or windowed view): pass a copy of it",
                     c->jit->text, name);
    Py_XDECREF(name);
    return k < 0;
}

static bool check_written(const Entry *e, const Record *r, Call *c)
{
    for (uint32_t k = 0; k < e->nwritten; k++) {
        uint32_t input = (uint32_t)e->written[k];
        PyArrayObject *a = input_array(e, input, r);
        if (a && !PyArray_ISWRITEABLE(a)) {
            PyObject *name = input_name(e, input, c);
            PyErr_Format(PyExc_ValueError, "%s: argument %S is read-only and the function writes to it; pass a copy of it, x.copy()", c->jit->text, name);
            Py_XDECREF(name);
            return false;
        }
        if (e->trace->inputs.at[input].writeback >= 0 && !check_overlap(e, input, r, "the function writes to", c))
            return false;
    }
    return true;
}

/* Nor may a donated array be passed twice. */
static bool check_donated_once(uint32_t leaf, const Record *r, Call *c)
{
    for (uint32_t k = 0; k < r->nleaves; k++)
        if (r->leaf[k].alias == (int32_t)leaf)
            return raise_overlap(call_name(c, leaf), "is donated", call_name(c, k), c);
    return true;
}

static bool check_donated(const Entry *e, const Record *r, Call *c)
{
    for (uint32_t k = 0; k < e->ninputs; k++) {
        const TraceInput *in = &e->trace->inputs.at[k];
        bool donated = in->kind == INPUT_LEAF && r->leaf[in->leaf].flags & SIG_DONATED;
        if (donated && (!check_donated_once((uint32_t)in->leaf, r, c) || !check_overlap(e, k, r, "is donated", c)))
            return false;
    }
    return true;
}

/* ---- results ---- */

static bool make_outputs(Frame *f, const Bound *b, const Record *r)
{
    const Entry *e = b->entry;
    for (uint32_t k = 0; k < e->noutputs; k++) {
        const Output *o = &e->outputs[k];
        if (o->into >= 0)
            continue;
        if (o->scalar) {
            f->out[k] = f->cells + (e->ninputs + k) * CELL;
            continue;
        }
        const int64_t *stride = b->plan->output_stride[k];
        f->array[k] = b->took[k] >= 0 ? result_over(o, stride, input_array(e, (uint32_t)b->took[k], r)) : result_array(o, stride);
        if (!f->array[k])
            return false;
        if (b->took[k] < 0)
            f->out[k] = PyArray_DATA((PyArrayObject *)f->array[k]);
    }
    return true;
}

/* An argument as the user knows it: the object that was passed. */
static PyObject *returned_input(const Entry *e, uint32_t k, const Record *r)
{
    const TraceInput *in = &e->trace->inputs.at[k];
    return in->kind == INPUT_LEAF ? r->leaf[in->leaf].object : in->object;
}

/* What a view of an argument is a view of: the array that was passed, or the one over the memory that an object lends. */
static PyArrayObject *viewed_input(const Entry *e, uint32_t k, const Record *r)
{
    PyObject *o = returned_input(e, k, r);
    return PyArray_CheckExact(o) ? (PyArrayObject *)o : input_array(e, k, r);
}

static PyObject *make_new(const TraceResult *res, const Entry *e, const Frame *f)
{
    const Output *o = &e->outputs[res->output];
    if (res->python_number && o->scalar) {
        const double *parts = f->out[res->output];
        return o->dtype == DT_int64 ? PyLong_FromLongLong(*(int64_t *)f->out[res->output])
               : o->dtype == DT_float64 ? PyFloat_FromDouble(parts[0]) : PyComplex_FromDoubles(parts[0], parts[1]);
    }
    if (o->scalar)
        return PyArray_Scalar(f->out[res->output], o->descr, NULL);
    PyObject *a = f->array[res->output];
    return res->numpy_scalar ? PyArray_Scalar(PyArray_DATA((PyArrayObject *)a), o->descr, NULL) : Py_NewRef(a);
}

static PyObject *step(const ViewStep *s, PyArrayObject *a)
{
    npy_intp shape[MAX_RANK];
    for (int k = 0; k < s->view.rank; k++)
        shape[k] = s->view.shape[k];
    if (!s->reshape)
        return result_view(&s->view, a);
    if (s->contiguous)
        return PyArray_IS_C_CONTIGUOUS(a) ? Py_NewRef(a) : PyArray_NewCopy(a, NPY_CORDER);
    return PyArray_Newshape(a, &(PyArray_Dims){shape, s->view.rank}, NPY_CORDER);
}

/* The end of a result's steps; `made`: the reshapes that are there. */
static PyObject *make_steps(const TraceResult *res, const Frame *f, PyObject **made)
{
    PyObject *a = Py_NewRef(f->array[res->output]);
    for (uint32_t i = 0; a && i < res->nsteps; i++) {
        const ViewStep *s = &res->steps[i];
        bool known = s->reshape && made[s->made];
        PyObject *next = known ? Py_NewRef(made[s->made]) : step(s, (PyArrayObject *)a);
        if (s->reshape && !known && next)
            made[s->made] = Py_NewRef(next);
        Py_SETREF(a, next);
    }
    return a;
}

/* leaves: the results before this one. */
static PyObject *make_result(const TraceResult *res, const Entry *e, const Record *r, const Registers *regs, const Frame *f, PyObject **made, PyObject *const *leaves)
{
    switch (res->kind) {
    case RESULT_NEW: return make_new(res, e, f);
    case RESULT_INPUT: return Py_NewRef(returned_input(e, (uint32_t)res->input, r));
    case RESULT_INPUT_VIEW: return result_view(res->view, viewed_input(e, (uint32_t)res->input, r));
    case RESULT_NEW_VIEW: return (res->owner ? result_permuted : result_view)(res->view, (PyArrayObject *)f->array[res->output]);
    case RESULT_NEW_STEPS: return make_steps(res, f, made);
    case RESULT_REGISTER: return Py_NewRef(regs->at[res->input]);
    case RESULT_OBJECT: return Py_NewRef(res->object);
    case RESULT_LEAF: return Py_NewRef(r->leaf[res->input].object);
    case RESULT_AGAIN: return Py_NewRef(leaves[res->input]);
    }
    PyErr_SetString(state.internal_error, "a result of an unknown kind");
    return NULL;
}

static PyObject *make_tree(const Entry *e, const Record *r, const Registers *regs, const Frame *f)
{
    if (e->tree.len == 1 && e->nresults == 1)
        return make_result(&e->results[0], e, r, regs, f, NULL, NULL);
    uint32_t n = 0, reshapes = e->trace->reshapes;
    PyObject *buffer[32], **leaves = buffer, **made = NULL, *tree = NULL;
    if ((e->nresults > 32 && !(leaves = PyMem_Malloc(e->nresults * sizeof *leaves))) || (reshapes && !(made = PyMem_Calloc(reshapes, sizeof *made)))) {
        if (leaves && leaves != buffer)
            PyMem_Free(leaves);
        return PyErr_NoMemory();
    }
    while (n < e->nresults && (leaves[n] = make_result(&e->results[n], e, r, regs, f, made, leaves)))
        n++;
    for (uint32_t k = 0; k < reshapes; k++)
        Py_XDECREF(made[k]);
    PyMem_Free(made);
    if (n == e->nresults)
        tree = tree_unflatten(&e->tree, leaves);
    while (n)
        Py_DECREF(leaves[--n]);
    if (leaves != buffer)
        PyMem_Free(leaves);
    return tree;
}

/* ---- running ---- */

typedef struct {
    const Exec *exec;
    int64_t *words;
    Addresses at;
    atomic_int stop;
    _Atomic int64_t status;
    fenv_t mode;
    PyThread_type_lock done;
    HostFailure failure;
} Job;

static int64_t job_exec(Job *j, const atomic_int *stop)
{
    return exec_run(j->exec, j->words, &j->at, stop, &j->failure);
}

static void job_thread(void *arg)
{
    Job *j = arg;
    PyThread_type_lock done = j->done;
    fesetenv(&j->mode);
    j->status = job_exec(j, &j->stop);    /* the last touch of the job: it lives on the waiter's stack */
    PyThread_release_lock(done);
}

/* Waits for a job's thread, looking for signals 20 times a second; the first exception stops the job. */
static void job_wait(Job *j)
{
    bool signalled = false;
    PyLockStatus got = PY_LOCK_FAILURE;
    while (got != PY_LOCK_ACQUIRED) {
        Py_BEGIN_ALLOW_THREADS
        got = PyThread_acquire_lock_timed(j->done, 50000, !signalled);
        Py_END_ALLOW_THREADS
        if (got != PY_LOCK_ACQUIRED && !signalled && PyErr_CheckSignals() < 0) {
            signalled = true;
            j->stop = 1;
        }
    }
}

/* A long run goes to a thread of its own, so that this one can see to signals: only the main thread can raise
 * KeyboardInterrupt, and only while it is in the interpreter. Besides, another one may be a daemon, which ends at the interpreter's
 * exit whatever it waits for. */
static bool job_long(Job *j)
{
    fegetenv(&j->mode);
    j->done = PyThread_allocate_lock();
    if (!j->done)
        return false;
    PyThread_acquire_lock(j->done, WAIT_LOCK);
    bool started = PyThread_start_new_thread(job_thread, j) != PYTHREAD_INVALID_THREAD_ID;
    if (started)
        job_wait(j);
    PyThread_release_lock(j->done);
    PyThread_free_lock(j->done);
    return started;
}

/* The run's status; `ns`: what it is estimated to take. */
static int64_t run_job(Job *j, double ns)
{
    bool done = ns < GIL_NS;
    if (done)
        j->status = job_exec(j, NULL);
    else
        done = ns > INTERRUPT_NS && sees_signals() && job_long(j);
    if (!done) {
        Py_BEGIN_ALLOW_THREADS
        j->status = job_exec(j, NULL);
        Py_END_ALLOW_THREADS
    }
    return j->status;
}

static bool check_status(int64_t status, const Plan *plan, const Entry *e, HostFailure *failure)
{
    if (PyErr_Occurred())
        host_forget(failure);
    if (status == 0)
        return !PyErr_Occurred();    /* a signal that came with the end of the run */
    if (PyErr_Occurred())
        return false;
    if (status == -1)
        PyErr_NoMemory();
    else if (status == -2)
        PyErr_SetNone(PyExc_KeyboardInterrupt);
    else if (status == -4)
        host_raise(failure, plan, e->trace);
    else
        error_raise_check(plan, status, e->trace);
    return false;
}

static Addresses addresses(const Frame *f)
{
    bool checked = state.checked;
    return (Addresses){.in = f->in, .out = f->out, .kept = f->kept, .lo = checked ? f->lo : NULL, .hi = checked ? f->hi : NULL};
}

static bool run_plan(const Exec *exec, double ns, const Frame *f, const Entry *e)
{
    Job j = {.exec = exec, .words = f->words, .at = addresses(f)};
    int64_t status = run_job(&j, ns);
    return check_status(status, exec->plan, e, &j.failure);
}

/* ---- in stages ---- */

/* A plan of a stage, on words of its own (StageExec). */
static bool run_stage(const StageNode *n, void **in, void **out, const char **lo, const char **hi, const Entry *e)
{
    Frame f = {.in = in, .out = out, .lo = lo, .hi = hi};
    size_t size = n->plan->words.len * sizeof *f.words;
    if (!n->plan->launches.len)
        return true;
    f.words = PyMem_Malloc(size + 1);
    if (!f.words) {
        PyErr_NoMemory();
        return false;
    }
    memcpy(f.words, n->plan->words.at, size);
    bool ok = run_plan(&n->exec, n->ns, &f, e);
    PyMem_Free(f.words);
    return ok;
}

static bool make_last_outputs(Frame *f, const Entry *e, const StageNode *last)
{
    for (uint32_t k = 0; k < e->noutputs; k++) {
        const Output *o = &last->outputs[k];
        if (o->into >= 0)
            continue;
        if (o->scalar) {
            f->out[k] = f->cells + (e->ninputs + k) * CELL;
            continue;
        }
        if (!(f->array[k] = result_array(o, last->plan->output_stride[k])))
            return false;
        f->out[k] = PyArray_DATA((PyArrayObject *)f->array[k]);
    }
    return true;
}

static PyObject *run_staged(Bound *b, const Record *r, const Registers *regs, Call *c, Frame *f)
{
    const Entry *e = b->entry;
    StagedRun s = {0};
    bool ok = (!e->nwritten || check_written(e, r, c)) && read_inputs(f, e, r, regs);
    if (ok && state.checked)
        read_bounds(f, e, r);
    ok = ok && staged_begin(&s, b->stages, e, f->in, f->lo, f->hi, b->layout, b->stages->exec.threads, &c->jit->costs, run_stage)
      && make_last_outputs(f, e, s.last) && run_stage(s.last, s.in, f->out, s.lo, s.hi, e);
    PyObject *result = ok ? make_tree(e, r, regs, f) : NULL;
    staged_end(&s);
    return result;
}

static PyObject *run_frame(Bound *b, const Record *r, const Registers *regs, Call *c, char *block)
{
    const Entry *e = b->entry;
    PyObject *result = NULL;
    Frame f;
    frame_init(&f, b, block);
    if (b->stages) {
        result = run_staged(b, r, regs, c, &f);
        for (uint32_t k = 0; k < e->noutputs; k++)
            Py_XDECREF(f.array[k]);
        return result;
    }
    bool ok = (!e->nwritten || check_written(e, r, c)) && (!b->any_donated || check_donated(e, r, c)) && read_inputs(&f, e, r, regs)
           && make_outputs(&f, b, r);
    if (ok && b->plan && b->plan->launches.len) {
        memcpy(f.words, b->plan->words.at, b->plan->words.len * sizeof *f.words);
        if (state.checked)
            read_bounds(&f, e, r);
        if (b->plan->kept.len) {
            Addresses at = addresses(&f);
            ok = constant_fetch(b, r, &at, f.kept);
        }
        ok = ok && run_plan(&b->exec, b->ns, &f, e);
    }
    if (ok)
        result = make_tree(e, r, regs, &f);
    for (uint32_t k = 0; k < e->noutputs; k++)
        Py_XDECREF(f.array[k]);
    return result;
}

PyObject *run_bound(Bound *b, const Record *r, const Registers *regs, Call *c)
{
    _Alignas(16) char block[2048];
    size_t size = frame_size(b);
    if (size <= sizeof block)
        return run_frame(b, r, regs, c, block);
    char *heap = PyMem_Malloc(size);
    if (!heap)
        return PyErr_NoMemory();
    PyObject *result = run_frame(b, r, regs, c, heap);
    PyMem_Free(heap);
    return result;
}
