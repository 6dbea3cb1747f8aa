#include "py/log.h"
#include "py/error.h"
#include <stdlib.h>
#include "py/state.h"

bool log_init(void)
{
    static const struct { const char *name; unsigned bit; } words[] = {
        {"recompiles", LOG_RECOMPILES}, {"passes", LOG_PASSES}, {"plan", LOG_PLAN}, {"llvm", LOG_LLVM}, {"asm", LOG_ASM},
    };
    const char *at = getenv("PYXLA_LOG");
    while (at && *at) {
        size_t n = strcspn(at, ", "), k = 0, count = sizeof words / sizeof *words;
        while (n && k < count && (strlen(words[k].name) != n || strncmp(at, words[k].name, n)))
            k++;
        if (n && k == count) {
            PyErr_Format(PyExc_ImportError, "PYXLA_LOG=%s: the words are recompiles, passes, plan, llvm, asm", getenv("PYXLA_LOG"));
            return false;
        }
        if (n)
            state.log |= words[k].bit;
        at += n + (at[n] != 0);
    }
    return true;
}

void log_text(const char *title, const Text *t)
{
    PySys_FormatStderr("pyxla: %s\n%s\n", title, t->failed || !t->at ? "(out of memory)" : t->at);
}

bool log_entry(Entry *e, const Signature *s, const Record *r, const Binding *b)
{
    if (!(state.log & LOG_RECOMPILES))
        return true;
    Tree t = {0};
    ObjectList leaves = {0};
    bool ok = binding_tree(b, s, &t, &leaves) && (e->leaf_text = PyList_New(0));
    for (uint32_t k = 0; ok && k < r->nleaves && k < t.leaves; k++) {
        PyObject *name = leaf_name(s, &t, k), *text = name ? leaf_describe(r, k) : NULL;
        ok = text && PyList_Append(e->leaf_text, name) == 0 && PyList_Append(e->leaf_text, text) == 0;
        Py_XDECREF(name);
        Py_XDECREF(text);
    }
    tree_free(&t);
    objects_free(&leaves);
    return ok;
}

/* "; x: float32[3] -> float32[4], n: int -> float": the leaves that differ, at most four. */
static PyObject *describe_change(PyObject *before, PyObject *now)
{
    PyObject *s = PyUnicode_FromString("");
    Py_ssize_t n = PyList_GET_SIZE(now), changes = 0;
    if (PyList_GET_SIZE(before) != n)
        PyUnicode_AppendAndDel(&s, PyUnicode_FromFormat(": %zd leaves -> %zd leaves", PyList_GET_SIZE(before) / 2, n / 2));
    for (Py_ssize_t k = 0; s && PyList_GET_SIZE(before) == n && k < n; k += 2) {
        PyObject *was = PyList_GET_ITEM(before, k + 1), *is = PyList_GET_ITEM(now, k + 1);
        PyObject *name_was = PyList_GET_ITEM(before, k), *name = PyList_GET_ITEM(now, k);
        if (PyUnicode_Compare(was, is) == 0 && PyUnicode_Compare(name_was, name) == 0)
            continue;
        if (changes++ < 4)
            PyUnicode_AppendAndDel(&s, PyUnicode_FromFormat("%s%U: %U -> %U", changes == 1 ? ": " : ", ", name, was, is));
    }
    if (s && changes > 4)
        PyUnicode_AppendAndDel(&s, PyUnicode_FromFormat(" and %zd more", changes - 4));
    return s;
}

void log_recompile(const char *name, const Entry *e, const Entry *old, PyObject *guard)
{
    if (!(state.log & LOG_RECOMPILES))
        return;
    PyObject *what = guard ? PyUnicode_FromFormat(": %S", guard) : old && old->leaf_text && e->leaf_text
                   ? describe_change(old->leaf_text, e->leaf_text) : PyUnicode_FromString("");
    if (what)
        PySys_FormatStderr("pyxla: %s traced %s%U (%u nodes)\n", name, old ? "again" : "for the first time", what, e->trace->graph->nodes.len);
    error_drop();
    Py_XDECREF(what);
}

static void log_passes(const Bound *b)
{
    Text t = {0};
    graph_print(&t, b->entry->trace->graph);
    log_text("graph as traced", &t);
    text_free(&t);
    if (b->plan) {
        graph_print(&t, b->plan->graph);
        log_text("graph simplified", &t);
        text_free(&t);
    }
}

static void log_plan(const Bound *b)
{
    Text t = {0};
    plan_print(&t, b->plan);
    log_text("plan", &t);
    text_free(&t);
}

static void log_code(const Bound *b)
{
    for (uint32_t k = 0; k < b->plan->kernels.len; k++) {
        Text ir = {0}, assembly = {0};
        Err err = {0};
        if (compile_text(b->plan->kernels.at[k], cpu_host()->level, &ir, &assembly, &err)) {
            if (state.log & LOG_LLVM)
                log_text("LLVM IR", &ir);
            if (state.log & LOG_ASM)
                log_text("assembly", &assembly);
        }
        else
            PySys_FormatStderr("pyxla: no text of kernel %u: %s\n", k, err.msg);
        text_free(&ir);
        text_free(&assembly);
    }
}

void log_bound(const char *name, const Bound *b)
{
    if (!(state.log & ~LOG_RECOMPILES))
        return;
    PySys_FormatStderr("pyxla: %s\n", name);
    if (state.log & LOG_PASSES)
        log_passes(b);
    if (b->plan && state.log & LOG_PLAN)
        log_plan(b);
    if (b->plan && state.log & (LOG_LLVM | LOG_ASM))
        log_code(b);
}
