/* What a call does: the hit path, which makes no Python object but the results, and the miss path, which is right alone. */
#include "py/assume.h"
#include "py/error.h"
#include "py/jit.h"
#include "py/log.h"
#include "py/state.h"

static _Thread_local int disabled;     /* disable_jit() blocks of this thread */

void dispatch_disable(int step) { disabled += step; }

/* ---- calls and their names ---- */

bool call_bind(Call *c)
{
    if (!c->bound) {
        c->bound = binding_init(&c->binding, &c->jit->signature, c->jit->text, c->args, c->nargs, c->kwnames);
        if (!c->bound)
            binding_clear(&c->binding);
    }
    return c->bound;
}

PyObject *call_name(Call *c, uint32_t leaf)
{
    if (call_bind(c))
        return call_leaf_name(&c->jit->signature, &c->binding, leaf);
    error_drop();
    return Py_NewRef(Py_None);
}

bool call_record(Call *c, Record *r)
{
    const Signature *s = &c->jit->signature;
    bool plain = s->plain && c->nargs == s->npos && !c->kwnames;
    if (plain ? record_args(r, s, c->args) : call_bind(c) && record_binding(r, s, &c->binding))
        return true;
    if (plain && !call_bind(c))
        return false;
    if (c->bound)
        record_raise(r, s, &c->binding, c->jit->text);
    return false;
}

bool call_lent(Call *c, Record *r)
{
    if (!record_lends(r))
        return true;
    bool abstract = r->abstract;
    record_clear(r);
    record_init(r);
    r->abstract = abstract;
    return call_record(c, r);
}

/* ---- entries that assumed what does not hold ---- */

/* After a run that failed: whether the call goes on with another entry, which assumes otherwise. The exception is gone then. */
static bool call_wrong(Call *c, Entry *e, const Record *r, const Registers *regs)
{
    Wrong *w = &c->wrong;
    if (w->n == MAX_WRONG || !assumption_broken(e, r, regs, &w->why))
        return false;
    Entry **at = PyMem_Realloc(w->at, (size_t)(w->n + 1) * sizeof *at);
    if (!at) {
        PyErr_NoMemory();
        return false;
    }
    w->at = at;
    w->at[w->n++] = e;
    e->refs++;
    w->flip += w->fresh == e;    /* rounding decides: computed amid the trace the value is another one than in the run */
    return true;
}

static void wrong_clear(Wrong *w)
{
    while (w->n)
        entry_unref(w->at[--w->n]);
    PyMem_Free(w->at);
    Py_XDECREF(w->why);
}

/* ---- misses ---- */

/* Whether the guards of a variant hold for a call whose number leaf k is what it was in the variant's trace. */
static bool holds_with(const Entry *variant, const Record *r, PyObject **values, uint32_t k)
{
    Record other = {.value = values, .leaf = r->leaf, .statics = r->statics, .nleaves = r->nleaves, .nstatics = r->nstatics};
    Registers regs = {.at = regs.buffer};
    PyObject *now = values[k];
    values[k] = variant->numbers[k];
    bool holds = entry_admits(variant, &other, &regs, NULL) == 1;
    values[k] = now;
    error_drop();
    registers_clear(&regs);
    return holds;
}

/* "n was 3, is 4", if one number alone breaks the guards of a variant; else NULL. */
static PyObject *broken_number(Call *c, const Entry *variant, const Record *r)
{
    for (uint32_t k = 0; variant->numbers && k < r->nleaves; k++) {
        PyObject *was = variant->numbers[k];
        if (!was || static_equal(was, r->value[k]) != 0 || !holds_with(variant, r, r->value, k))
            continue;
        PyObject *name = call_name(c, k), *why = PyUnicode_FromFormat("%S was %R, is %R", name, was, r->value[k]);
        Py_DECREF(name);
        return why;
    }
    return NULL;
}

/* What an earlier trace of the same words asked for that is different now, or NULL. */
static PyObject *broken_guard(Call *c, const Entry *variant, const Record *r)
{
    PyObject *why = NULL;
    if (!variant->nguards)
        return NULL;
    Registers regs = {.at = regs.buffer};
    entry_admits(variant, r, &regs, &why);
    error_drop();
    registers_clear(&regs);
    PyObject *number = why ? broken_number(c, variant, r) : NULL;
    error_drop();
    if (number)
        Py_SETREF(why, number);
    return why;
}

/* After many traces of one signature: says what the traces differ in, once. */
static bool warn_guards(Jit *jit, uint32_t variants, PyObject *why)
{
    if (variants < GUARD_WARNING || jit->warned || !why)
        return true;
    jit->warned = true;
    return PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "%s has been traced %u times for arguments of the same types and shapes, because the function asks "
                            "for a value while it is traced (%S). Each new value traces again: keep the value out of shapes, range() and if, or pass it as "
                            "one of a few values", jit->text, variants, why) == 0;
}

/* Traces a new entry and tells what is worth telling about it. */
static Entry *trace_entry(Call *c, const Record *r, const Entry *variant, uint32_t variants)
{
    Jit *jit = c->jit;
    PyObject *why = c->wrong.why ? Py_NewRef(c->wrong.why) : variant ? broken_guard(c, variant, r) : NULL;
    TraceOptions options = jit->options;
    options.watched = &jit->watched;
    options.flip = c->wrong.flip;
    Entry *e = warn_guards(jit, variants, why)
             ? entry_make(jit->fn, jit->text, &jit->signature, r, &c->binding, &options, &jit->costs) : NULL;
    if (e) {
        jit->traces++;
        c->wrong.fresh = e;
        const Entry *old = variant ? variant : jit->cache.last ? jit->cache.last->entry : NULL;
        log_recompile(jit->text, e, old, why);
    }
    Py_XDECREF(why);
    return e;
}

/* Makes what is missing: the bound of *e, and *e itself if it is NULL. Nothing is kept unless all of it could be made. */
static Bound *make_missing(Call *c, const Record *r, Entry **e, const Entry *variant, uint32_t variants)
{
    Jit *jit = c->jit;
    bool fresh = !*e;
    if (fresh && !state.interp)
        compile_prepare(cpu_host()->level);
    if (fresh && !(*e = trace_entry(c, r, variant, variants)))
        return NULL;
    Bound *b = check_layouts(*e, r, c) ? bound_make(*e, r, jit->threads, &jit->costs) : NULL;
    if (!b)
        return NULL;
    log_bound(jit->text, b);
    entry_keep(*e, b);
    if (fresh)
        cache_add(&jit->cache, *e);
    return b;
}

/* The registers of the call that was just traced. Its guards are not asked: where the function itself changed what it
 * depends on, the trace is right for this call and no other. */
static bool fill_fresh(Registers *regs, const Entry *e, const Record *r)
{
    int ok = e->nregs ? registers_fill(regs, e, r) : 1;
    if (ok == 0)
        PyErr_SetString(state.internal_error, "arithmetic of Python numbers failed where it had not failed before");
    return ok == 1;
}

/* A bound for the call (a reference), found or made, with the registers of a run. NULL with an exception, or *wait: another thread
 * is making it. */
static Bound *bound_for(Call *c, const Record *r, Registers *regs, Pending **wait)
{
    Jit *jit = c->jit;
    Entry *variant;
    uint32_t variants;
    Entry *e = cache_find(&jit->cache, r, &c->wrong, regs, &variant, &variants);
    Bound *b = e ? entry_bound(e, r) : NULL;
    if (b) {
        jit->hits++;
        bound_ref(b);
    }
    else if (!PyErr_Occurred() && !(*wait = pending_find(&jit->cache, r)) && call_bind(c)) {
        bool fresh = !e;
        Pending *mine = pending_begin(&jit->cache, r);
        jit->misses++;
        b = mine ? make_missing(c, r, &e, variant, variants) : NULL;
        if (mine)
            pending_end(&jit->cache, mine);
        if (b && fresh && !fill_fresh(regs, e, r)) {
            bound_unref(b);
            b = NULL;
        }
    }
    if (variant)
        entry_unref(variant);
    if (e)
        entry_unref(e);
    return b;
}

/* Lets pyxla/_tune.py measure schedules for the plan that was just made; false with an exception. */
static bool tune_first(Call *c)
{
    PyObject *tune = state_import(&state.tune_first, "pyxla._tune", "first_call");
    PyObject *args = tune ? PyTuple_New(c->nargs) : NULL, *kwargs = args ? PyDict_New() : NULL;
    for (Py_ssize_t k = 0; kwargs && k < c->nargs; k++)
        PyTuple_SET_ITEM(args, k, Py_NewRef(c->args[k]));
    for (Py_ssize_t k = 0; kwargs && c->kwnames && k < PyTuple_GET_SIZE(c->kwnames); k++)
        if (PyDict_SetItem(kwargs, PyTuple_GET_ITEM(c->kwnames, k), c->args[c->nargs + k]) < 0)
            Py_CLEAR(kwargs);
    c->jit->tuning = true;
    PyObject *done = kwargs ? PyObject_CallFunction(tune, "OOOd", (PyObject *)c->jit, args, kwargs, c->jit->tune) : NULL;
    c->jit->tuning = false;
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    Py_XDECREF(done);
    return done != NULL;
}

static PyObject *call_missed(Call *c, Record *r)
{
    if (!call_lent(c, r))
        return NULL;
    for (;;) {
        Registers regs = {.at = regs.buffer};
        Pending *wait = NULL;
        PyObject *result = NULL;
        bool again = false;
        uint64_t misses = c->jit->misses;
        Bound *b = bound_for(c, r, &regs, &wait);
        if (b && c->jit->tune > 0 && !c->jit->tuning && misses != c->jit->misses) {
            bound_unref(b);
            registers_clear(&regs);
            if (!tune_first(c))
                return NULL;
            regs = (Registers){.at = regs.buffer};
            b = bound_for(c, r, &regs, &wait);
        }
        if (b) {
            cache_last(&c->jit->cache, b);
            result = run_bound(b, r, &regs, c);
            again = !result && b->entry->assumes && call_wrong(c, b->entry, r, &regs);
            bound_unref(b);
        }
        registers_clear(&regs);
        if (again)
            continue;
        if (!wait)
            return result;
        if (!pending_wait(wait))
            return NULL;
    }
}

/* ---- hits ---- */

/* Whether the bound of the latest call is made for these words. */
static inline bool words_match(const Bound *b, const Record *r)
{
    const Entry *e = b->entry;
    return e->nsig == r->nsig && !memcmp(e->sig, r->sig, r->nsig * sizeof *r->sig) && (!e->ncaptured || entry_fits(e, r)) && bound_fits(b, r);
}

static PyObject *call_recorded(Call *c, Record *r)
{
    Bound *b = c->jit->cache.last;
    if (!b || !words_match(b, r))
        return call_missed(c, r);
    Registers regs = {.at = regs.buffer};
    bound_ref(b);
    int ok = entry_admits(b->entry, r, &regs, NULL);
    PyObject *result = NULL;
    if (ok == 1) {
        result = run_bound(b, r, &regs, c);
        ok = result || !b->entry->assumes || !call_wrong(c, b->entry, r, &regs);
        c->jit->hits += (uint64_t)ok;
    }
    registers_clear(&regs);
    bound_unref(b);
    return ok == 0 ? call_missed(c, r) : result;
}

/* Inside a trace a jitted function is its Python function, with its own numeric mode. */
static PyObject *call_inline(Jit *jit, PyObject *const *args, size_t nargsf, PyObject *kwnames, Trace *outer)
{
    uint8_t mode = outer->graph->mode;
    outer->graph->mode = jit->options.mode;
    PyObject *result = PyObject_Vectorcall(jit->fn, args, nargsf, kwnames);
    outer->graph->mode = mode;
    return result;
}

PyObject *jit_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Jit *jit = (Jit *)self;
    Trace *outer = trace_current();
    if (outer)
        return call_inline(jit, args, nargsf, kwnames, outer);
    if (disabled)
        return PyObject_Vectorcall(jit->fn, args, nargsf, kwnames);
    if (kwnames && !PyTuple_GET_SIZE(kwnames))
        kwnames = NULL;
    Call c;
    c.jit = jit;
    c.args = args;
    c.nargs = PyVectorcall_NARGS(nargsf);
    c.kwnames = kwnames;
    c.bound = false;
    c.wrong = (Wrong){0};
    Record r;
    record_init(&r);
    Py_INCREF(jit);    /* the call may be the last to know it */
    PyObject *result = call_record(&c, &r) ? call_recorded(&c, &r) : NULL;
    if (c.bound)
        binding_clear(&c.binding);
    if (c.wrong.why)
        wrong_clear(&c.wrong);
    record_clear(&r);
    Py_DECREF(jit);
    return result;
}
