/* The scalar program: arithmetic among Python numbers, recorded while tracing and done by Python on every call. */
#include "py/tracer.h"
#include "py/error.h"
#include "base/hash.h"
#include <math.h>

typedef struct {
    uint8_t op;
    int a, b;                     /* LEAF: a is the leaf */
    PyObject *object;             /* CONST: the number; CALL: the callable */
    PyObject *value;              /* today's */
} Register;

struct ScalarProgram {
    Register *at;
    int len, cap, computed;       /* computed: registers that are not leaves */
    int *table, table_cap;        /* interning of registers: index + 1 */
};

struct ScalarProgram *scalars_new(void) { return PyMem_Calloc(1, sizeof(struct ScalarProgram)); }

void scalars_free(struct ScalarProgram *p)
{
    for (int k = 0; k < p->len; k++) {
        Py_XDECREF(p->at[k].object);
        Py_XDECREF(p->at[k].value);
    }
    PyMem_Free(p->at);
    PyMem_Free(p->table);
    PyMem_Free(p);
}

int scalars_count(const struct ScalarProgram *p) { return p->len; }
bool scalars_plain(const struct ScalarProgram *p) { return p->computed == 0; }
int scalars_leaf(const struct ScalarProgram *p, int reg) { return p->at[reg].op == SCALAR_LEAF ? p->at[reg].a : -1; }
PyObject *scalars_value(const struct ScalarProgram *p, int reg) { return p->at[reg].value; }

bool is_number(PyObject *o)
{
    return PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o) || PyComplex_CheckExact(o);
}

IntegerRange integer_range(PyObject *number)
{
    int overflow;
    if (!PyLong_CheckExact(number))
        return RANGE_INT64;
    PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow <= 0)
        return overflow ? RANGE_BELOW : RANGE_INT64;
    if (PyLong_AsUnsignedLongLong(number) != (unsigned long long)-1 || !PyErr_Occurred())
        return RANGE_UINT64;
    error_drop();
    return RANGE_ABOVE;
}

/* ---- recording ---- */

static int *slot_of(struct ScalarProgram *p, const Register *r)
{
    uint64_t h = hash_mix(hash_mix(r->op, (uint64_t)(uint32_t)r->a << 32 | (uint32_t)r->b), (uintptr_t)r->object);
    int i = (int)(h & (uint64_t)(p->table_cap - 1));
    for (; p->table[i]; i = (i + 1) & (p->table_cap - 1)) {
        const Register *o = &p->at[p->table[i] - 1];
        if (o->op == r->op && o->a == r->a && o->b == r->b && o->object == r->object)
            break;
    }
    return &p->table[i];
}

static bool grow(struct ScalarProgram *p)
{
    if (p->len < p->cap)
        return true;
    int cap = p->cap ? 2 * p->cap : 16;
    Register *at = PyMem_Realloc(p->at, cap * sizeof *at);
    int *table = at ? PyMem_Calloc(2 * cap, sizeof *table) : NULL;
    if (at) {
        p->at = at;
        p->cap = table ? cap : p->cap;
    }
    if (!table) {
        PyErr_NoMemory();
        return false;
    }
    PyMem_Free(p->table);
    p->table = table;
    p->table_cap = 2 * cap;
    for (int k = 0; k < p->len; k++)
        *slot_of(p, &p->at[k]) = k + 1;
    return true;
}

/* Appends or finds a register; takes `value` over. */
static int intern(struct ScalarProgram *p, Register r)
{
    if (!r.value || !grow(p)) {
        Py_XDECREF(r.value);
        return -1;
    }
    int *slot = slot_of(p, &r);
    if (*slot) {
        Py_DECREF(r.value);
        return *slot - 1;
    }
    Py_XINCREF(r.object);
    p->at[p->len] = r;
    p->computed += r.op != SCALAR_LEAF;
    return *slot = p->len + 1, p->len++;
}

int scalars_add_leaf(struct ScalarProgram *p, int leaf, PyObject *value)
{
    return intern(p, (Register){SCALAR_LEAF, leaf, -1, NULL, Py_NewRef(value)});
}

int scalars_add_const(struct ScalarProgram *p, PyObject *value)
{
    return intern(p, (Register){SCALAR_CONST, -1, -1, value, Py_NewRef(value)});
}

static PyObject *operate(ScalarOp op, PyObject *a, PyObject *b, PyObject *callable)
{
    switch (op) {
    case SCALAR_LEAF:
    case SCALAR_CONST: break;
    case SCALAR_ADD: return PyNumber_Add(a, b);
    case SCALAR_SUB: return PyNumber_Subtract(a, b);
    case SCALAR_MUL: return PyNumber_Multiply(a, b);
    case SCALAR_TRUEDIV: return PyNumber_TrueDivide(a, b);
    case SCALAR_FLOORDIV: return PyNumber_FloorDivide(a, b);
    case SCALAR_MOD: return PyNumber_Remainder(a, b);
    case SCALAR_POW: return PyNumber_Power(a, b, Py_None);
    case SCALAR_LSHIFT: return PyNumber_Lshift(a, b);
    case SCALAR_RSHIFT: return PyNumber_Rshift(a, b);
    case SCALAR_AND: return PyNumber_And(a, b);
    case SCALAR_OR: return PyNumber_Or(a, b);
    case SCALAR_XOR: return PyNumber_Xor(a, b);
    case SCALAR_NEG: return PyNumber_Negative(a);
    case SCALAR_POS: return PyNumber_Positive(a);
    case SCALAR_ABS: return PyNumber_Absolute(a);
    case SCALAR_INVERT: return PyNumber_Invert(a);
    case SCALAR_LT:
    case SCALAR_LE:
    case SCALAR_EQ:
    case SCALAR_NE:
    case SCALAR_GT:
    case SCALAR_GE: return PyObject_RichCompare(a, b, (int)(op - SCALAR_LT));
    case SCALAR_CALL: return b ? PyObject_CallFunctionObjArgs(callable, a, b, NULL) : PyObject_CallOneArg(callable, a);
    }
    PyErr_SetString(error_class(ERR_INTERNAL), "not an operation of the scalar program");
    return NULL;
}

int scalars_add(struct ScalarProgram *p, ScalarOp op, int a, int b, PyObject *callable)
{
    PyObject *value = operate(op, p->at[a].value, b < 0 ? NULL : p->at[b].value, callable);
    if (value && !is_number(value)) {
        PyErr_Format(error_class(ERR_UNSUPPORTED), "an operation of Python numbers gave a %s, which cannot be traced", Py_TYPE(value)->tp_name);
        Py_CLEAR(value);
    }
    return intern(p, (Register){(uint8_t)op, a, b, callable, value});
}

/* ---- running ---- */

static PyObject *run_one(const Register *r, PyObject *const *leaves, PyObject **regs)
{
    if (r->op == SCALAR_LEAF)
        return Py_NewRef(leaves[r->a]);
    if (r->op == SCALAR_CONST)
        return Py_NewRef(r->object);
    return operate((ScalarOp)r->op, regs[r->a], r->b < 0 ? NULL : regs[r->b], r->object);
}

bool scalars_run(const struct ScalarProgram *p, PyObject *const *leaves, PyObject **regs)
{
    for (int k = 0; k < p->len; k++) {
        regs[k] = run_one(&p->at[k], leaves, regs);
        if (!regs[k]) {
            while (k-- > 0)
                Py_CLEAR(regs[k]);
            return false;
        }
    }
    return true;
}

/* ---- tracers of Python numbers ---- */

/* Register of an operand, -2: not a Python number, -1: an exception. */
static int register_of(Trace *t, PyObject *o)
{
    if (is_tracer(o)) {
        Tracer *x = (Tracer *)o;
        if (x->kind != TRACER_PYTHON_SCALAR)
            return -2;
        return tracer_trace(x) == t ? x->reg : -1;
    }
    return is_number(o) ? scalars_add_const(t->scalars, o) : -2;
}

/* NULL: an operation raised for these operands, which the function may catch, so other values are another trace's. */
static PyObject *raised_for(Trace *t, int ra, int rb)
{
    PyObject *type, *value, *where;
    PyErr_Fetch(&type, &value, &where);
    if (guard_value(t->guards, ra, scalars_value(t->scalars, ra)) && (rb < 0 || guard_value(t->guards, rb, scalars_value(t->scalars, rb))))
        PyErr_Restore(type, value, where);
    else {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(where);
    }
    return NULL;
}

PyObject *scalar_operate(ScalarOp op, PyObject *a, PyObject *b, PyObject *callable)
{
    Trace *t = op_begin();
    if (!t)
        return NULL;
    int ra = register_of(t, a), rb = b && ra >= 0 ? register_of(t, b) : -3;
    if (ra == -1 || rb == -1)
        return NULL;
    if (ra == -2 || rb == -2)
        Py_RETURN_NOTIMPLEMENTED;
    int reg = scalars_add(t->scalars, op, ra, rb < 0 ? -1 : rb, callable);
    if (reg < 0)
        return raised_for(t, ra, rb);
    /* the type of a power depends on values: 2 ** -1 is a float, (-8.) ** .5 is complex */
    if ((op == SCALAR_POW || op == SCALAR_CALL) && !guard_type(t->guards, reg, scalars_value(t->scalars, reg)))
        return NULL;
    return scalar_shown(t, reg);
}

PyObject *scalar_shown(Trace *t, int reg)
{
    PyObject *x = tracer_scalar(t, reg);
    if (!x || !t->priv->bools || !PyBool_Check(scalars_value(t->scalars, reg)))
        return x;
    PyObject *value = scalar_concrete((Tracer *)x);
    Py_DECREF(x);
    return value;
}

PyObject *scalar_concrete(Tracer *x)
{
    Trace *t = tracer_trace(x);
    if (!t)
        return NULL;
    PyObject *value = scalars_value(t->scalars, x->reg);
    return guard_value(t->guards, x->reg, value) ? Py_NewRef(value) : NULL;
}

/* ---- numbers as elements ---- */

static bool out_of_bounds(PyObject *number, Dtype d)
{
    PyErr_Format(PyExc_OverflowError, "Python integer %S out of bounds for %s", number, dtype_info[d].name);
    return false;
}

static bool store_signed(PyObject *number, Dtype d, void *cell)
{
    int overflow, bits = 8 * dtype_info[d].bytes;
    long long v = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (v == -1 && PyErr_Occurred())
        return false;
    int64_t limit = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;
    if (overflow || v > limit || v < -limit - 1)
        return out_of_bounds(number, d);
    *(int64_t *)cell = v;
    return true;
}

static bool store_unsigned(PyObject *number, Dtype d, void *cell)
{
    unsigned long long v = PyLong_AsUnsignedLongLong(number);
    if (v == (unsigned long long)-1 && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError))
            return false;
        error_drop();
        return out_of_bounds(number, d);
    }
    int bits = 8 * dtype_info[d].bytes;
    if (bits < 64 && v >> bits)
        return out_of_bounds(number, d);
    *(uint64_t *)cell = v;
    return true;
}

static bool store_integer(PyObject *number, Dtype d, void *cell)
{
    PyObject *i = PyLong_Check(number) ? Py_NewRef(number) : PyNumber_Long(number);    /* NumPy's assignment of a float: int(x) */
    bool ok = i && (dtype_info[d].kind == DKIND_INT ? store_signed(i, d, cell) : store_unsigned(i, d, cell));
    Py_XDECREF(i);
    return ok;
}

static bool store_float(PyObject *number, Dtype d, void *cell)
{
    double v = PyFloat_AsDouble(number);
    if (v == -1.0 && PyErr_Occurred())
        return false;
    *(int64_t *)cell = float_bits(d, v);
    return true;
}

static bool store_complex(PyObject *number, Dtype d, void *cell)
{
    Py_complex v = PyComplex_AsCComplex(number);
    if (v.real == -1.0 && PyErr_Occurred())
        return false;
    if (d == DT_complex128)
        memcpy(cell, (double[]){v.real, v.imag}, 16);
    else
        memcpy(cell, (float[]){(float)v.real, (float)v.imag}, 8);
    return true;
}

bool scalar_store(PyObject *number, Dtype dtype, void *cell)
{
    memset(cell, 0, dtype == DT_complex128 ? 16 : 8);
    switch (dtype_info[dtype].kind) {
    case DKIND_BOOL: {
        int truth = PyObject_IsTrue(number);
        *(uint8_t *)cell = truth > 0;
        return truth >= 0;
    }
    case DKIND_INT:
    case DKIND_UINT: return store_integer(number, dtype, cell);
    case DKIND_FLOAT: return store_float(number, dtype, cell);
    case DKIND_COMPLEX: return store_complex(number, dtype, cell);
    }
    return false;
}
