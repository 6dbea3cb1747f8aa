/* Python's operators on tracers: arrays go to the ufunc of the same name, numbers among themselves to the scalar program. */
#include "py/tracer.h"
#include "py/error.h"

static bool python_scalar(PyObject *o)
{
    return is_tracer(o) ? ((Tracer *)o)->kind == TRACER_PYTHON_SCALAR : is_number(o);
}

/* Whether a number meets an extent of the run, which is a number too and has the operators of one. */
static bool meets_extent(PyObject *a, PyObject *b)
{
    return python_scalar(a) && is_extent(b);
}

/* Whether a list or tuple meets a NumPy scalar: times one it is repeated, so Python asks for the number. */
static bool repeats(PyObject *a, PyObject *b)
{
    PyObject *list = is_tracer(a) ? b : a, *times = is_tracer(a) ? a : b;
    return (PyList_Check(list) || PyTuple_Check(list)) && ((Tracer *)times)->kind == TRACER_NUMPY_SCALAR;
}

/* Whether a Python complex number meets an np.float64, which is a float to it: the result is Python's, and its dtype yields. */
static bool complex_meets_float(PyObject *a, PyObject *b)
{
    if (!python_scalar(a) || !is_tracer(b) || ((Tracer *)b)->kind != TRACER_NUMPY_SCALAR || !tracer_trace((Tracer *)b) || tracer_dtype((Tracer *)b) != DT_float64)
        return false;
    return PyComplex_CheckExact(is_tracer(a) ? scalars_value(((Tracer *)b)->cell->trace->scalars, ((Tracer *)a)->reg) : a);
}

/* As a number of the run, which has the operators of one. New reference; NULL with an exception. */
static PyObject *as_complex_number(PyObject *a, PyObject *b)
{
    Trace *t = ((Tracer *)b)->cell->trace;
    PyObject *x = as_tracer(t, a), *n = x ? extent_number(x) : NULL;
    Py_XDECREF(x);
    return n;
}

static PyObject *complex_operate(binaryfunc operate, PyObject *a, PyObject *b)
{
    PyObject *n = as_complex_number(a, b), *r = n ? operate(n, b) : NULL;
    Py_XDECREF(n);
    return r;
}

static const binaryfunc of_complex[UF_COUNT] = {
    [UF_add] = PyNumber_Add, [UF_subtract] = PyNumber_Subtract, [UF_multiply] = PyNumber_Multiply, [UF_divide] = PyNumber_TrueDivide,
};

#define BINARY(name, scalar) \
    static PyObject *op_##name(PyObject *a, PyObject *b) \
    { \
        if (meets_extent(a, b) || (UF_##name == UF_multiply && repeats(a, b))) \
            Py_RETURN_NOTIMPLEMENTED; \
        if (of_complex[UF_##name] && complex_meets_float(a, b)) \
            return complex_operate(of_complex[UF_##name], a, b); \
        return python_scalar(a) && python_scalar(b) ? scalar_operate(scalar, a, b, NULL) : ufunc_binary(UF_##name, a, b); \
    } \
    static PyObject *inplace_##name(PyObject *a, PyObject *b) \
    { \
        if (((Tracer *)a)->kind != TRACER_ARRAY) \
            Py_RETURN_NOTIMPLEMENTED; \
        return ufunc_inplace(UF_##name, (Tracer *)a, b); \
    }
BINARY(add, SCALAR_ADD)
BINARY(subtract, SCALAR_SUB)
BINARY(multiply, SCALAR_MUL)
BINARY(divide, SCALAR_TRUEDIV)
BINARY(floor_divide, SCALAR_FLOORDIV)
BINARY(remainder, SCALAR_MOD)
BINARY(left_shift, SCALAR_LSHIFT)
BINARY(right_shift, SCALAR_RSHIFT)
BINARY(bitwise_and, SCALAR_AND)
BINARY(bitwise_or, SCALAR_OR)
BINARY(bitwise_xor, SCALAR_XOR)

#define UNARY(name, scalar) \
    static PyObject *op_##name(PyObject *a) \
    { \
        return python_scalar(a) ? scalar_operate(scalar, a, NULL, NULL) : ufunc_unary(UF_##name, a); \
    }
UNARY(negative, SCALAR_NEG)
UNARY(positive, SCALAR_POS)
UNARY(absolute, SCALAR_ABS)
UNARY(invert, SCALAR_INVERT)

static PyObject *op_divmod(PyObject *a, PyObject *b)
{
    if (meets_extent(a, b))
        Py_RETURN_NOTIMPLEMENTED;
    if (!python_scalar(a) || !python_scalar(b))
        return ufunc_binary(UF_divmod, a, b);
    PyObject *q = op_floor_divide(a, b), *r = q ? op_remainder(a, b) : NULL;
    PyObject *both = r ? PyTuple_Pack(2, q, r) : NULL;
    Py_XDECREF(q);
    Py_XDECREF(r);
    return both;
}

/* Whether an object is no operand of a ufunc, so that Python asks it what the operator means. */
static bool foreign(PyObject *o)
{
    return !is_tracer(o) && !is_number(o) && !PyArray_Check(o) && !PyArray_IsScalar(o, Generic) && !PyList_Check(o) && !PyTuple_Check(o);
}

static PyObject *op_matmul(PyObject *a, PyObject *b)
{
    static PyObject *matmul;
    if (!matmul) {
        PyObject *np = PyImport_ImportModule("numpy");
        matmul = np ? PyObject_GetAttrString(np, "matmul") : NULL;
        Py_XDECREF(np);
        if (!matmul)
            return NULL;
    }
    PyObject *x = sequence_read(a), *y = x ? sequence_read(b) : NULL, *r = NULL;
    if (y && (foreign(x) || foreign(y)))
        r = Py_NewRef(Py_NotImplemented);
    else if (y) {
        PyObject *args[] = {x, matmul, PyUnicode_InternFromString("__call__"), x, y};
        r = args[2] ? tracer_array_ufunc(x, args + 1, 4, NULL) : NULL;
        Py_XDECREF(args[2]);
    }
    Py_XDECREF(x);
    Py_XDECREF(y);
    return r;
}

/* Whether a @= b gives what a can hold as it is: nothing is broadcast. (The store looks at extents of the run.) */
static bool same_shape(Tracer *a, Tracer *r, Id b)
{
    const Graph *g = a->cell->trace->graph;
    bool fits = tracer_rank(r) == tracer_rank(a);
    for (int k = 0; fits && k < tracer_rank(a); k++)
        fits = tracer_shape(r)[k] < 0 || tracer_shape(a)[k] < 0 || dim_eq(g, tracer_shape(r)[k], tracer_shape(a)[k]);
    if (b && node_at(g, b)->rank < 2)
        PyErr_SetString(PyExc_ValueError, "inplace matrix multiplication requires the first operand to have at least one and the second at least two dimensions.");
    else if (!fits)
        PyErr_SetString(PyExc_ValueError, "matmul: Output operand 0 has a mismatch in its core dimensions: the product has another shape than the array it is stored into");
    return !PyErr_Occurred();
}

static PyObject *inplace_matmul(PyObject *a, PyObject *b)
{
    PyObject *r = op_matmul(a, b);
    if (!r || r == Py_NotImplemented || ((Tracer *)a)->kind != TRACER_ARRAY)
        return r;
    Operand other;
    if (!operand_read(((Tracer *)a)->cell->trace, b, &other, true) || !same_shape((Tracer *)a, (Tracer *)r, other.node)) {
        Py_DECREF(r);
        return NULL;
    }
    bool ok = tracer_setitem(a, Py_Ellipsis, r) == 0;
    Py_DECREF(r);
    return ok ? Py_NewRef(a) : NULL;
}

/* ---- power ---- */

/* Whether a number is the exponent `value`; a traced number is guarded by the answer. -1: an exception. */
static int exponent_is(PyObject *b, PyObject *value)
{
    if (!is_tracer(b))
        return PyObject_RichCompareBool(b, value, Py_EQ);
    PyObject *same = scalar_operate(SCALAR_EQ, b, value, NULL);
    PyObject *answer = same ? scalar_concrete((Tracer *)same) : NULL;
    int r = answer ? answer == Py_True : -1;
    Py_XDECREF(same);
    Py_XDECREF(answer);
    return r;
}

static int choose(PyObject *b, double value, bool integer, Ufunc ufunc, Ufunc *out)
{
    PyObject *v = integer ? PyLong_FromLong((long)value) : PyFloat_FromDouble(value);
    int same = v ? exponent_is(b, v) : -1;
    Py_XDECREF(v);
    if (same > 0)
        *out = ufunc;
    return same;
}

/* NumPy's array ** number: exactly 2 is square, and for NumPy's floats -1 and 0.5 are other ufuncs too. 1: *out is set, 0: power, -1: an exception. */
static int fast_power(PyObject *a, PyObject *b, Ufunc *out)
{
    if (!is_tracer(a) || ((Tracer *)a)->kind == TRACER_PYTHON_SCALAR || !python_scalar(b))
        return 0;
    if (!tracer_trace((Tracer *)a))
        return -1;
    Dtype dtype = tracer_dtype((Tracer *)a);
    DtypeKind kind = dtype_info[dtype].kind;
    bool is_float = (kind == DKIND_FLOAT && (dtype == DT_float16 || !dtype_is_small(dtype))) || kind == DKIND_COMPLEX;
    if (!is_float && is_tracer(b) && kind != DKIND_BOOL)
        return 0;                 /* the same value either way: no need to ask which number it is */
    PyObject *number = b;
    if (is_tracer(b)) {
        Trace *t = tracer_trace((Tracer *)b);
        if (!t)
            return -1;
        number = scalars_value(t->scalars, ((Tracer *)b)->reg);
    }
    if (PyFloat_CheckExact(number) && is_float)
        return choose(b, 0.5, false, UF_sqrt, out);
    if (!PyLong_CheckExact(number))
        return 0;
    int square = choose(b, 2, true, UF_square, out);
    return square || !is_float ? square : choose(b, -1, true, UF_reciprocal, out);
}

static PyObject *power(PyObject *a, PyObject *b) { return PyNumber_Power(a, b, Py_None); }

static PyObject *op_power(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (modulus != Py_None || meets_extent(a, b))
        Py_RETURN_NOTIMPLEMENTED;
    if (python_scalar(a) && python_scalar(b))
        return scalar_operate(SCALAR_POW, a, b, NULL);
    if (complex_meets_float(a, b))
        return complex_operate(power, a, b);
    Ufunc u;
    int fast = fast_power(a, b, &u);
    return fast < 0 ? NULL : fast ? ufunc_unary(u, a) : ufunc_binary(UF_power, a, b);
}

static PyObject *inplace_power(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (((Tracer *)a)->kind != TRACER_ARRAY || modulus != Py_None)
        Py_RETURN_NOTIMPLEMENTED;
    Ufunc u;
    int fast = fast_power(a, b, &u);
    if (fast > 0 && dtype_info[tracer_dtype((Tracer *)a)].kind == DKIND_BOOL)
        fast = 0;                 /* refused either way: small integers are no truth values */
    if (fast <= 0)
        return fast < 0 ? NULL : ufunc_inplace(UF_power, (Tracer *)a, b);
    PyObject *r = ufunc_unary(u, a);
    bool ok = r && tracer_setitem(a, Py_Ellipsis, r) == 0;
    Py_XDECREF(r);
    return ok ? Py_NewRef(a) : NULL;
}

/* ---- comparisons ---- */

/* An array (one without axes: a scalar, as ever) compared with None or text, which no number equals. */
static PyObject *equal_nowhere(Tracer *x, bool value)
{
    Trace *t = x->cell->trace;
    Py_DECREF(Py_NotImplemented);
    if (!tracer_rank(x))
        return tracer_result(t, graph_const(t->graph, DT_bool_, value), LAYOUT_C);
    return tracer_array(t, broadcast_to(t->graph, graph_const(t->graph, DT_bool_, value), tracer_shape(x), tracer_rank(x)), LAYOUT_C);
}

/* The code of a NumPy scalar or Python number; CODE_OTHER for anything else, -1 with an exception. */
static int scalar_code(Trace *t, PyObject *o)
{
    Operand x;
    bool scalar = is_tracer(o) ? ((Tracer *)o)->kind != TRACER_ARRAY : is_number(o) || PyArray_IsScalar(o, Generic);
    return !scalar ? CODE_OTHER : operand_read(t, o, &x, false) ? x.code : -1;
}

static bool is_complex(int code) { return code < DT_COUNT && dtype_info[code].kind == DKIND_COMPLEX; }

/* Whether a value of the dtype, or a Python number, is one of the complex dtype too, as NumPy's "safe" casts have it. */
static bool fits_complex(int code, int whole)
{
    size_t half = (size_t)dtype_info[whole].bytes / 2;
    if (code >= DT_COUNT || is_complex(code))
        return code != CODE_OTHER && (code >= DT_COUNT || dtype_info[code].bytes <= dtype_info[whole].bytes);
    bool integer = dtype_info[code].kind == DKIND_INT || dtype_info[code].kind == DKIND_UINT;
    return (size_t)dtype_info[code].bytes * (integer && half < 8 ? 2 : 1) <= half;
}

/* Whether NumPy compares a and b as scalars of a complex dtype that holds both: 1, 0, -1 with an exception. */
static int complex_scalars(PyObject *a, PyObject *b)
{
    Trace *t = tracer_trace((Tracer *)(is_tracer(a) ? a : b));
    int x = t ? scalar_code(t, a) : -1, y = x >= 0 ? scalar_code(t, b) : -1;
    if (x < 0 || y < 0)
        return -1;
    return (is_complex(x) && fits_complex(y, x)) || (is_complex(y) && x != DT_bool_ && fits_complex(x, y));    /* np.bool compares as an array */
}

/* r, or where the real part of x is less than that of y. */
static PyObject *or_less(PyObject *r, PyObject *x, PyObject *y)
{
    PyObject *left = PyObject_GetAttrString(x, "real"), *right = left ? PyObject_GetAttrString(y, "real") : NULL;
    PyObject *less = right ? ufunc_binary(UF_less, left, right) : NULL, *both = less ? ufunc_binary(UF_logical_or, r, less) : NULL;
    Py_XDECREF(left);
    Py_XDECREF(right);
    Py_XDECREF(less);
    Py_DECREF(r);
    return both;
}

/* The order of complex numbers, r by the ufunc, as NumPy's scalars have it: different real parts decide, also beside an imaginary NaN. */
static PyObject *ordered(PyObject *r, PyObject *a, PyObject *b, int op)
{
    int scalars = r && r != Py_NotImplemented && op != Py_EQ && op != Py_NE ? complex_scalars(a, b) : 0;
    if (scalars < 0)
        Py_CLEAR(r);
    return scalars <= 0 ? r : op == Py_LT || op == Py_LE ? or_less(r, a, b) : or_less(r, b, a);
}

PyObject *tracer_compare(PyObject *a, PyObject *b, int op)
{
    static const Ufunc ufunc[] = {[Py_LT] = UF_less, [Py_LE] = UF_less_equal, [Py_EQ] = UF_equal, [Py_NE] = UF_not_equal, [Py_GT] = UF_greater, [Py_GE] = UF_greater_equal};
    if (meets_extent(a, b))
        Py_RETURN_NOTIMPLEMENTED;
    if (python_scalar(a) && python_scalar(b))
        return scalar_operate((ScalarOp)(SCALAR_LT + op), a, b, NULL);
    PyObject *r = ordered(ufunc_binary(ufunc[op], a, b), a, b, op);
    bool never = r == Py_NotImplemented && (b == Py_None || PyUnicode_Check(b)) && (op == Py_EQ || op == Py_NE);
    Tracer *x = never && is_tracer(a) && ((Tracer *)a)->kind != TRACER_PYTHON_SCALAR ? (Tracer *)a : NULL;
    return x && (x->kind == TRACER_ARRAY || b != Py_None) ? equal_nowhere(x, op == Py_NE) : r;
}

/* ---- values ---- */

#define ASSUMED_BRANCH "what NumPy's own code decides by is not what it was in the trace; call the jitted function again"
static int op_bool(PyObject *a)
{
    Tracer *x = (Tracer *)a;
    PyObject *v;
    if (x->kind == TRACER_PYTHON_SCALAR)
        v = scalar_concrete(x);
    else if (x->cell->trace && tracer_dtype(x) == DT_bool_ && tracer_rank(x) == 0 && numpy_asks())
        v = trace_assume(x, false, ASSUMED_BRANCH);
    else
        v = tracer_value(x, "bool()", "use np.where(condition, a, b) instead of a branch; np.logical_and, np.logical_or and np.logical_not instead of "
                         "and, or and not; or make what decides an argument in static_argnums or a Python number");
    int truth = v ? PyObject_IsTrue(v) : -1;
    Py_XDECREF(v);
    return truth;
}

static PyObject *value_of(PyObject *a, const char *what, const char *cure)
{
    Tracer *x = (Tracer *)a;
    return x->kind == TRACER_PYTHON_SCALAR ? scalar_concrete(x) : tracer_value(x, what, cure);
}

static PyObject *op_int(PyObject *a)
{
    PyObject *v = value_of(a, "int()", "use x.astype(int), or pass the number as a Python int argument"), *r = v ? PyNumber_Long(v) : NULL;
    Py_XDECREF(v);
    return r;
}

static PyObject *op_float(PyObject *a)
{
    PyObject *v = value_of(a, "float()", "use x.astype(float) and np functions instead of math's, or return the array and convert it outside");
    PyObject *r = v ? PyNumber_Float(v) : NULL;
    Py_XDECREF(v);
    return r;
}

static PyObject *op_index(PyObject *a)
{
    PyObject *v = value_of(a, "an index, a range, a slice bound or a shape", "these need a number: pass it as a Python int argument");
    PyObject *r = v ? PyNumber_Index(v) : NULL;
    Py_XDECREF(v);
    return r;
}

#define PAIR(slot, name) {Py_nb_##slot, op_##name}, {Py_nb_inplace_##slot, inplace_##name}
PyType_Slot operator_slots[] = {
    PAIR(add, add), PAIR(subtract, subtract), PAIR(multiply, multiply), PAIR(true_divide, divide), PAIR(floor_divide, floor_divide),
    PAIR(remainder, remainder), PAIR(lshift, left_shift), PAIR(rshift, right_shift), PAIR(and, bitwise_and), PAIR(or, bitwise_or),
    PAIR(xor, bitwise_xor), PAIR(matrix_multiply, matmul), PAIR(power, power), {Py_nb_divmod, op_divmod}, {Py_nb_negative, op_negative},
    {Py_nb_positive, op_positive}, {Py_nb_absolute, op_absolute}, {Py_nb_invert, op_invert}, {Py_nb_bool, op_bool}, {Py_nb_int, op_int},
    {Py_nb_float, op_float}, {Py_nb_index, op_index}, {0, NULL},
};
