/* NumPy's own sorts by their C functions: along the last axis of arrays, by quicksort, the kind that needs no memory and so cannot fail. Bytes, of
 * which there are 256, are counted instead. */
#include "py/native.h"
#include "py/trace.h"

enum { QUICK = 0 };                     /* of the kinds in _np/sorting.py */
enum { COUNTED_FROM = 128, TALLIES = 4 };   /* elements of a row that pay for counters; sets of them, so that equal neighbours do not wait for each other */

/* Written under the GIL before a plan can name them. */
static struct { PyArray_SortFunc *sort; PyArray_ArgSortFunc *argsort; } table[DT_COUNT];

void native_sort_prepare(void)
{
    for (int d = 0; d < DT_COUNT; d++) {
        PyArray_Descr *descr = numpy_type(d) >= 0 ? PyArray_DescrFromType(numpy_type(d)) : NULL;
        if (descr) {
            table[d].sort = PyDataType_GetArrFuncs(descr)->sort[NPY_QUICKSORT];
            table[d].argsort = PyDataType_GetArrFuncs(descr)->argsort[NPY_QUICKSORT];
        }
        Py_XDECREF(descr);
    }
}

static bool is_byte(Dtype d) { return dtype_info[d].bytes == 1 && dtype_info[d].kind <= DKIND_UINT; }

bool native_sort_fits(const HostCall *c, bool places)
{
    const HostArray *x = &c->arrays[0];
    int64_t axis = c->params[0], item = dtype_info[x->dtype].bytes;
    if (axis != x->rank - 1 || (c->params[1] != QUICK && (places || !is_byte(x->dtype))))    /* (equal bytes have no order that a kind could keep) */
        return false;
    if (places)
        return table[x->dtype].argsort && (x->stride[axis] == item || x->shape[axis] == 1);
    return table[x->dtype].sort && c->arrays[1].dtype == x->dtype;
}

static void copy_row(char *to, const char *from, int64_t n, int64_t stride, size_t item)
{
    if (stride == (int64_t)item)
        memcpy(to, from, (size_t)n * item);
    else
        for (int64_t i = 0; i < n; i++, from += stride)
            memcpy(to + (size_t)i * item, from, item);
}

static void sort_bytes(uint8_t *row, npy_intp n, bool sign)
{
    uint64_t tally[TALLIES][256] = {{0}};
    npy_intp i = 0;
    for (; i + TALLIES <= n; i += TALLIES)
        for (int k = 0; k < TALLIES; k++)
            tally[k][row[i + k]]++;
    for (; i < n; i++)
        tally[0][row[i]]++;
    for (int k = 0; k < 256; k++) {
        int value = sign ? k ^ 128 : k;
        size_t times = 0;
        for (int t = 0; t < TALLIES; t++)
            times += tally[t][value];
        memset(row, value, times);
        row += times;
    }
}

static void sort_row(const HostCall *c, bool places, const char *from, char *to)
{
    const HostArray *x = &c->arrays[0];
    npy_intp n = x->shape[x->rank - 1];
    if (places) {
        npy_intp *at = (npy_intp *)to;
        for (npy_intp i = 0; i < n; i++)
            at[i] = i;
        table[x->dtype].argsort((void *)from, at, n, NULL);
    } else {
        copy_row(to, from, n, x->stride[x->rank - 1], dtype_info[x->dtype].bytes);
        if (is_byte(x->dtype) && n >= COUNTED_FROM)
            sort_bytes((uint8_t *)to, n, dtype_info[x->dtype].kind == DKIND_INT);
        else
            table[x->dtype].sort(to, n, NULL);
    }
}

void native_sort_run(const HostCall *c, bool places, void *const *address)
{
    const HostArray *x = &c->arrays[0];
    int64_t at[MAX_RANK] = {0}, row = x->shape[x->rank - 1] * dtype_info[c->arrays[1].dtype].bytes;
    const char *from = address[0];
    char *to = address[1];
    for (;;) {
        int d = x->rank - 2;
        sort_row(c, places, from, to);
        for (; d >= 0 && ++at[d] == x->shape[d]; d--) {
            from -= (x->shape[d] - 1) * x->stride[d];
            at[d] = 0;
        }
        if (d < 0)
            return;
        from += x->stride[d];
        to += row;
    }
}
