/* Numbers stored as elements of integer arrays: NumPy takes them by Python's int(), so NaN, infinities and what the dtype does not hold are exceptions.
 * (Arrays are cast: what is out of bounds wraps; so are NumPy's scalars stored into unsigned integers.) */
#include "py/tracer.h"
#include <math.h>

#define NO_INTEGER "cannot convert float NaN to integer; store x.astype(dtype), or mask such numbers by np.where first"
#define OUT_OF_BOUNDS "a number is out of bounds for the integer dtype of the array it is stored into; bound it by np.clip, or store x.astype(dtype), which wraps"

static bool holds(Trace *t, Id ok, CheckCode code, const char *message)
{
    if (ok && trace_check(t->graph, ok, code, message))
        return true;
    trace_fail(t);
    return false;
}

static Id float_const(Graph *g, double x)
{
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return graph_const(g, DT_float64, bits);
}

static bool check_float(Trace *t, Id v, const DtypeInfo *to)
{
    Graph *g = t->graph;
    int bits = 8 * to->bytes - (to->kind == DKIND_INT);
    double high = ldexp(1, bits), low = to->kind == DKIND_INT ? -high : 0;
    Id x = graph_cast(g, v, DT_float64), whole = graph_unary(g, OP_trunc, x);
    Id inside = graph_binary(g, OP_logical_and, graph_binary(g, OP_greater_equal, whole, float_const(g, low)), graph_binary(g, OP_less, whole, float_const(g, high)));
    return holds(t, graph_binary(g, OP_equal, x, x), CHECK_VALUE, NO_INTEGER) && holds(t, inside, CHECK_RANGE, OUT_OF_BOUNDS);
}

static bool check_integer(Trace *t, Id v, Dtype from, Dtype dtype)
{
    Graph *g = t->graph;
    const DtypeInfo *to = &dtype_info[dtype];
    bool sign = to->kind == DKIND_INT;
    int bits = 8 * to->bytes - sign;
    int64_t lo, hi;
    if (node_range(g, v, &lo, &hi) && lo >= (sign ? bits == 63 ? INT64_MIN : -((int64_t)1 << bits) : 0) && (bits >= 63 || hi < (int64_t)1 << bits))
        return true;
    Id there = graph_cast(g, v, dtype), same = graph_binary(g, OP_equal, graph_cast(g, there, from), v);
    if (dtype_info[from].kind != to->kind) {        /* the same bits would be another number below 0 */
        Id judged = sign ? there : v;
        same = graph_binary(g, OP_logical_and, same, graph_binary(g, OP_greater_equal, judged, graph_const(g, sign ? dtype : from, 0)));
    }
    return holds(t, same, CHECK_RANGE, OUT_OF_BOUNDS);
}

static bool made(Trace *t, Id id)
{
    if (!id && !PyErr_Occurred())
        trace_fail(t);
    return id != 0;
}

static bool check_one(Trace *t, PyObject *value, Dtype dtype)
{
    Operand x;
    bool number = is_tracer(value) ? ((Tracer *)value)->kind != TRACER_ARRAY : PyArray_IsScalar(value, Generic);
    if (PyLong_CheckExact(value) || PyFloat_CheckExact(value))
        return made(t, number_node(t, value, dtype));
    if (!number || (dtype_info[dtype].kind == DKIND_UINT && !(is_tracer(value) && ((Tracer *)value)->kind == TRACER_PYTHON_SCALAR)))
        return true;
    if (!operand_read(t, value, &x, false))
        return false;
    Dtype from = operand_dtype(&x);
    DtypeKind kind = x.code == CODE_OTHER ? DKIND_BOOL : dtype_info[from].kind;
    if (kind == DKIND_BOOL || kind == DKIND_COMPLEX || from == dtype)
        return true;
    if (x.code == CODE_INT && x.reg >= 0)
        return made(t, trace_register(t, x.reg, dtype));        /* looked at where it is converted */
    Id v = operand_node(t, &x, from);
    if (!made(t, v))
        return false;
    return kind == DKIND_FLOAT ? check_float(t, v, &dtype_info[dtype]) : check_integer(t, v, from, dtype);
}

bool element_check(Trace *t, PyObject *value, Dtype dtype)
{
    DtypeKind kind = dtype_info[dtype].kind;
    if (kind != DKIND_INT && kind != DKIND_UINT)
        return true;
    if (!PyList_Check(value) && !PyTuple_Check(value))
        return check_one(t, value, dtype);
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(value); k++)
        if (!element_check(t, PySequence_Fast_GET_ITEM(value, k), dtype))
            return false;
    return true;
}
