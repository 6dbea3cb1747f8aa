#include "py/constant.h"
#include "py/state.h"
#include "run/frozen.h"
#include "run/memory.h"

/* A value that was computed once. */
typedef struct {
    struct Memory **of;                /* the constants it depends on, and where the inputs lie in them */
    void **at;
    uint32_t n;
    void *recipe;
    size_t recipe_bytes, bytes;
    void *value;                       /* mem_alloc'ed */
} Value;

typedef struct Memory {
    PyObject_HEAD
    void *data;                        /* frozen: ufunc.at of NumPy 2.4, for one, writes to read-only arrays */
    size_t bytes;
    uint64_t serial;                   /* never used again, unlike addresses */
    Value **values;
    uint32_t nvalues;
} Memory;

struct ConstantFound {
    uint32_t n;
    uint32_t *input;
    uint64_t *serial;                  /* 0: nothing was found yet */
    void **at, **kept;
};

static uint64_t serials;
static size_t kept_bytes;

size_t constant_kept_bytes(void) { return kept_bytes; }

/* ---- values ---- */

static void value_free(Value *v)
{
    if (v->value)
        kept_bytes -= v->bytes;
    mem_free(v->value);
    PyMem_Free(v->of);
    PyMem_Free(v->at);
    PyMem_Free(v->recipe);
    PyMem_Free(v);
}

static bool list_add(Memory *m, Value *v)
{
    Value **more = PyMem_Realloc(m->values, (m->nvalues + 1) * sizeof *more);
    if (!more)
        return false;
    m->values = more;
    m->values[m->nvalues++] = v;
    return true;
}

static void list_remove(Memory *m, const Value *v)
{
    for (uint32_t k = 0; k < m->nvalues; k++)
        if (m->values[k] == v) {
            m->values[k--] = m->values[--m->nvalues];
        }
}

static void value_drop(Value *v)
{
    for (uint32_t k = 0; k < v->n; k++)
        list_remove(v->of[k], v);
    value_free(v);
}

static bool value_is(const Value *v, const Kept *k, Memory *const *of, void *const *at)
{
    if (v->n != k->ninputs || v->recipe_bytes != k->recipe_bytes)
        return false;
    for (uint32_t i = 0; i < v->n; i++)
        if (v->of[i] != of[k->inputs[i]] || v->at[i] != at[k->inputs[i]])
            return false;
    return !memcmp(v->recipe, k->recipe, v->recipe_bytes);
}

static Value *value_find(const Kept *k, Memory *const *of, void *const *at)
{
    const Memory *m = of[k->inputs[0]];
    for (uint32_t i = 0; i < m->nvalues; i++)
        if (value_is(m->values[i], k, of, at))
            return m->values[i];
    return NULL;
}

/* A value with memory that is not filled yet, and known to nobody. */
static Value *value_new(const Kept *k, size_t bytes, Memory *const *of, void *const *at)
{
    Value *v = PyMem_Calloc(1, sizeof *v);
    if (!v)
        return NULL;
    v->n = k->ninputs;
    v->recipe_bytes = k->recipe_bytes;
    v->bytes = bytes;
    v->of = PyMem_Malloc((v->n + 1) * sizeof *v->of);
    v->at = PyMem_Malloc((v->n + 1) * sizeof *v->at);
    v->recipe = PyMem_Malloc(v->recipe_bytes + 1);
    v->value = mem_alloc(bytes + !bytes);
    kept_bytes += v->value ? bytes : 0;
    if (!v->of || !v->at || !v->recipe || !v->value) {
        value_free(v);
        return NULL;
    }
    memcpy(v->recipe, k->recipe, v->recipe_bytes);
    for (uint32_t i = 0; i < v->n; i++) {
        v->of[i] = of[k->inputs[i]];
        v->at[i] = at[k->inputs[i]];
    }
    return v;
}

/* Whether all its constants know it; else it is gone. */
static bool value_publish(Value *v)
{
    for (uint32_t k = 0; k < v->n; k++)
        if (!list_add(v->of[k], v)) {
            value_drop(v);
            return false;
        }
    return true;
}

/* ---- the memory ---- */

static void memory_dealloc(PyObject *self)
{
    Memory *m = (Memory *)self;
    PyTypeObject *type = Py_TYPE(self);
    while (m->nvalues)
        value_drop(m->values[0]);
    PyMem_Free(m->values);
    frozen_free(m->data, m->bytes);
    type->tp_free(self);
    Py_DECREF(type);
}

/* NumPy asks whether a base can be written to by asking for a writable buffer. */
static int memory_buffer(PyObject *self, Py_buffer *view, int flags)
{
    Memory *m = (Memory *)self;
    return PyBuffer_FillInfo(view, self, m->data, (Py_ssize_t)m->bytes, 1, flags);
}

static PyType_Slot memory_slots[] = {
    {Py_tp_doc, "The memory of constant arrays."},
    {Py_tp_dealloc, memory_dealloc},
    {Py_bf_getbuffer, memory_buffer},
    {0},
};
static PyType_Spec memory_spec = {
    "pyxla._core.ConstantMemory", sizeof(Memory), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE, memory_slots,
};

bool constant_module_init(void) { return (state.constant_type = PyType_FromSpec(&memory_spec)) != NULL; }

static Memory *memory_of(PyArrayObject *a)
{
    PyObject *base = PyArray_BASE(a);
    while (base && PyArray_CheckExact(base))
        base = PyArray_BASE((PyArrayObject *)base);
    return base && Py_TYPE(base) == (PyTypeObject *)state.constant_type && !PyArray_ISWRITEABLE(a) ? (Memory *)base : NULL;
}

bool constant_is(PyArrayObject *a) { return PyArray_BASE(a) && memory_of(a); }

/* A writable array over new memory with the elements of a; NULL with an exception. */
static PyArrayObject *copy_over(Memory *m, PyArrayObject *a)
{
    PyArrayObject *like = (PyArrayObject *)PyArray_NewLikeArray(a, NPY_KEEPORDER, NULL, 0), *over = NULL;     /* for its strides; it is not touched */
    if (!like)
        return NULL;
    m->bytes = (size_t)PyArray_NBYTES(like);
    m->data = frozen_alloc(m->bytes);
    if (!m->data)
        PyErr_NoMemory();
    else
        over = (PyArrayObject *)PyArray_NewFromDescr(&PyArray_Type, (PyArray_Descr *)Py_NewRef((PyObject *)PyArray_DESCR(like)), PyArray_NDIM(like),
                                                     PyArray_DIMS(like), PyArray_STRIDES(like), m->data, NPY_ARRAY_CARRAY, NULL);
    Py_DECREF(like);
    if (over && PyArray_CopyInto(over, a) < 0)
        Py_CLEAR(over);
    return over;
}

PyObject *constant_new(PyArrayObject *a)
{
    if (constant_is(a))
        return Py_NewRef((PyObject *)a);
    PyTypeObject *type = (PyTypeObject *)state.constant_type;
    Memory *m = (Memory *)type->tp_alloc(type, 0);
    PyArrayObject *over = m ? copy_over(m, a) : NULL;
    if (over && !frozen_seal(m->data, m->bytes)) {
        PyErr_SetFromErrno(PyExc_OSError);
        Py_CLEAR(over);
    }
    if (!over) {
        Py_XDECREF(m);
        return NULL;
    }
    m->serial = ++serials;
    PyArray_CLEARFLAGS(over, NPY_ARRAY_WRITEABLE);
    if (PyArray_SetBaseObject(over, (PyObject *)m) < 0)      /* takes the reference in any case */
        Py_CLEAR(over);
    return (PyObject *)over;
}

/* ---- what a bound needs ---- */

void constant_found_free(ConstantFound *f)
{
    if (!f)
        return;
    PyMem_Free(f->input);
    PyMem_Free(f->serial);
    PyMem_Free(f->at);
    PyMem_Free(f->kept);
    PyMem_Free(f);
}

static bool reads(const Plan *p, uint32_t input)
{
    for (uint32_t k = 0; k < p->kept.len; k++)
        for (uint32_t i = 0; i < p->kept.at[k].ninputs; i++)
            if (p->kept.at[k].inputs[i] == input)
                return true;
    return false;
}

static ConstantFound *found_new(const Plan *p)
{
    ConstantFound *f = PyMem_Calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->input = PyMem_Calloc(p->ninputs + 1, sizeof *f->input);
    f->serial = PyMem_Calloc(p->ninputs + 1, sizeof *f->serial);
    f->at = PyMem_Calloc(p->ninputs + 1, sizeof *f->at);
    f->kept = PyMem_Calloc(p->kept.len + 1, sizeof *f->kept);
    if (!f->input || !f->serial || !f->at || !f->kept) {
        constant_found_free(f);
        return NULL;
    }
    for (uint32_t k = 0; k < p->ninputs; k++)
        if (reads(p, k))
            f->input[f->n++] = k;
    return f;
}

/* Computes the kept values of the plan into fresh memory; those that were known are computed again and dropped. */
static int64_t compute(const Bound *b, const Addresses *at, Memory *const *of, void **kept)
{
    const Plan *p = b->plan;
    Value **fresh = PyMem_Calloc(p->kept.len + 1, sizeof *fresh);
    int64_t *words = PyMem_Malloc((p->words.len + 1) * sizeof *words), status = fresh && words ? 0 : -1;
    for (uint32_t k = 0; k < p->kept.len && !status; k++) {
        fresh[k] = value_new(&p->kept.at[k], (size_t)p->slots.at[p->kept.at[k].slot].bytes, of, at->in);
        if (fresh[k])
            kept[k] = fresh[k]->value;
        else
            status = -1;
    }
    if (!status) {
        memcpy(words, p->words.at, p->words.len * sizeof *words);
        status = exec_once(&b->exec, words, at);
    }
    for (uint32_t k = 0; fresh && k < p->kept.len; k++) {
        Value *known = fresh[k] && !status ? value_find(&p->kept.at[k], of, at->in) : NULL;
        if (!fresh[k])
            continue;
        if (known)
            kept[k] = known->value;
        if (known || status)
            value_free(fresh[k]);
        else if (!value_publish(fresh[k]))
            status = -1;
    }
    PyMem_Free(fresh);
    PyMem_Free(words);
    return status;
}

/* The values for these constants, found or computed; false with an exception. */
static bool look_up(const Bound *b, const Addresses *at, Memory *const *of, void **kept)
{
    const Plan *p = b->plan;
    uint32_t k = 0;
    for (; k < p->kept.len; k++) {
        const Value *v = value_find(&p->kept.at[k], of, at->in);
        if (!v)
            break;
        kept[k] = v->value;
    }
    if (k == p->kept.len || compute(b, at, of, kept) == 0)
        return true;
    PyErr_NoMemory();
    return false;
}

static bool still(const ConstantFound *f, Memory *const *of, void *const *in)
{
    for (uint32_t k = 0; k < f->n; k++)
        if (f->serial[k] != of[f->input[k]]->serial || f->at[k] != in[f->input[k]])
            return false;
    return true;
}

bool constant_fetch(Bound *b, const Record *r, const Addresses *at, void **kept)
{
    const Plan *p = b->plan;
    Memory *few[64], **of = p->ninputs <= 64 ? few : PyMem_Calloc(p->ninputs, sizeof *of);
    ConstantFound *f = b->found ? b->found : (b->found = found_new(p));
    if (!of || !f) {
        if (of != few)
            PyMem_Free(of);
        PyErr_NoMemory();
        return false;
    }
    for (uint32_t k = 0; k < f->n; k++)
        of[f->input[k]] = memory_of(input_array(b->entry, f->input[k], r));
    bool ok = still(f, of, at->in);
    if (!ok && (ok = look_up(b, at, of, kept))) {
        for (uint32_t k = 0; k < f->n; k++) {
            f->serial[k] = of[f->input[k]]->serial;
            f->at[k] = at->in[f->input[k]];
        }
        memcpy(f->kept, kept, p->kept.len * sizeof *kept);
    }
    if (ok)
        memcpy(kept, f->kept, p->kept.len * sizeof *kept);
    if (of != few)
        PyMem_Free(of);
    return ok;
}
