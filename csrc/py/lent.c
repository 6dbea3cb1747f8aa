/* Captured arrays whose memory is read by other ways than operators, methods and functions (adopt.c): by attributes, by the buffer protocol, by
 * methods that write files, by slots that are called by their names (`a.__getitem__(0)`, `np.ndarray.__add__`). While a trace runs, what can be a
 * tracer's is one; of the rest the entry holds for these elements only. */
#include "py/tracer.h"

/* false with an exception. */
static bool guard_memory(PyObject *a)
{
    Trace *t = adopt_watching();
    return !t || !adopt_wants(t, a) || guard_elements(t->guards, a);
}

/* ---- attributes ---- */

typedef struct { const char *name; bool adopted; PyGetSetDescrObject *descr; PyGetSetDef *original, ours; } Attribute;
static Attribute attributes[] = {{"flat", true}, {"data", false}, {"ctypes", false}};
enum { ATTRIBUTES = sizeof attributes / sizeof *attributes };

static PyObject *read_attribute(PyObject *a, void *closure)
{
    Attribute *at = closure;
    Trace *t = at->adopted ? adopt_watching() : NULL;
    PyObject *x = t && adopt_wants(t, a) && op_begin() ? as_tracer(t, a) : NULL, *r = x ? PyObject_GetAttrString(x, at->name) : NULL;
    Py_XDECREF(x);
    if (r || PyErr_Occurred() || (!at->adopted && !guard_memory(a)))
        return r;
    return at->original->get(a, at->original->closure);
}

/* Getters and setters share a closure. */
static int write_attribute(PyObject *a, PyObject *value, void *closure)
{
    PyGetSetDef *original = ((Attribute *)closure)->original;
    return original->set(a, value, original->closure);
}

static void save_attribute(Attribute *at)
{
    PyObject *descr = PyDict_GetItemString(PyArray_Type.tp_dict, at->name);
    if (!descr || !Py_IS_TYPE(descr, &PyGetSetDescr_Type))
        return;
    at->descr = (PyGetSetDescrObject *)descr;
    at->original = at->descr->d_getset;
    at->ours = *at->original;
    at->ours.get = read_attribute;
    at->ours.set = at->original->set ? write_attribute : NULL;
    at->ours.closure = at;
}

/* ---- buffers ---- */

static getbufferproc getbuffer;

static int guarded_buffer(PyObject *a, Py_buffer *view, int flags)
{
    if (guard_memory(a))
        return getbuffer(a, view, flags);
    view->obj = NULL;
    return -1;
}

/* ---- pickling ---- */

typedef struct { const char *name; PyMethodDescrObject *descr; PyMethodDef *original, ours; } Reduce;
static Reduce reduces[] = {{"__reduce__"}, {"__reduce_ex__"}};
enum { REDUCES = sizeof reduces / sizeof *reduces };

static PyObject *reduce(PyObject *a, PyObject *args) { return guard_memory(a) ? reduces[0].original->ml_meth(a, args) : NULL; }
static PyObject *reduce_ex(PyObject *a, PyObject *args) { return guard_memory(a) ? reduces[1].original->ml_meth(a, args) : NULL; }

static void save_reduce(Reduce *r, PyCFunction ours)
{
    PyObject *descr = PyDict_GetItemString(PyArray_Type.tp_dict, r->name);
    if (!descr || !Py_IS_TYPE(descr, &PyMethodDescr_Type) || ((PyMethodDescrObject *)descr)->d_method->ml_flags != METH_VARARGS)
        return;
    r->descr = (PyMethodDescrObject *)descr;
    r->original = r->descr->d_method;
    r->ours = *r->original;
    r->ours.ml_meth = ours;
}

/* ---- slots by their names ---- */

enum { NUMBERS = sizeof(PyNumberMethods) / sizeof(void *), SLOTS = NUMBERS + 8, MOST_WRAPPERS = 128 };
static void *original_slots[SLOTS];
static struct { PyWrapperDescrObject *descr; void *original; int slot; } wrappers[MOST_WRAPPERS];
static int nwrappers;

static void read_slots(void *out[SLOTS])
{
    const PyTypeObject *t = &PyArray_Type;
    void *others[8] = {(void *)t->tp_richcompare, (void *)t->tp_iter, (void *)t->tp_str, (void *)t->tp_repr, (void *)t->tp_as_mapping->mp_subscript,
                       (void *)t->tp_as_mapping->mp_ass_subscript, (void *)t->tp_as_sequence->sq_contains, (void *)t->tp_as_sequence->sq_item};
    memcpy(out, t->tp_as_number, sizeof *t->tp_as_number);
    memcpy(out + NUMBERS, others, sizeof others);
}

static void save_wrappers(void)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    read_slots(original_slots);
    while (PyDict_Next(PyArray_Type.tp_dict, &at, &name, &value)) {
        void *wrapped = Py_IS_TYPE(value, &PyWrapperDescr_Type) ? ((PyWrapperDescrObject *)value)->d_wrapped : NULL;
        int k = 0;
        while (wrapped && k < SLOTS && original_slots[k] != wrapped)
            k++;
        if (!wrapped || k == SLOTS || nwrappers == MOST_WRAPPERS)
            continue;
        wrappers[nwrappers].descr = (PyWrapperDescrObject *)value;
        wrappers[nwrappers].original = wrapped;
        wrappers[nwrappers++].slot = k;
    }
}

static void exchange_wrappers(bool ours)
{
    void *now[SLOTS];
    read_slots(now);
    for (int k = 0; k < nwrappers; k++)
        wrappers[k].descr->d_wrapped = ours ? now[wrappers[k].slot] : wrappers[k].original;
}

/* ---- on and off ---- */

void lent_init(void)
{
    for (int k = 0; k < ATTRIBUTES; k++)
        save_attribute(&attributes[k]);
    save_reduce(&reduces[0], reduce);
    save_reduce(&reduces[1], reduce_ex);
    getbuffer = PyArray_Type.tp_as_buffer->bf_getbuffer;
    save_wrappers();
}

void lent_exchange(bool ours)
{
    for (int k = 0; k < ATTRIBUTES; k++)
        if (attributes[k].descr)
            attributes[k].descr->d_getset = ours ? &attributes[k].ours : attributes[k].original;
    for (int k = 0; k < REDUCES; k++)
        if (reduces[k].descr)
            reduces[k].descr->d_method = ours ? &reduces[k].ours : reduces[k].original;
    PyArray_Type.tp_as_buffer->bf_getbuffer = ours ? guarded_buffer : getbuffer;
    exchange_wrappers(ours);
}
