/* np.repeat's places, np.interp, np.searchsorted and ufunc.reduceat on vectors. */
#include "py/native.h"
#include "run/linear.h"
#include "run/repeats.h"
#include "run/search.h"

void native_repeats_run(const HostCall *c, void *const *address)
{
    repeats_fill(address[0], c->arrays[0].shape[0], c->arrays[0].stride[0], address[1], c->arrays[1].shape[0]);
}

/* Bytes from one element to the next in C order; -1: there is no one number. */
static int64_t linear_stride(const HostArray *a)
{
    int64_t step = 0, n = 1;
    for (int d = a->rank - 1; d >= 0; d--) {
        if (a->shape[d] == 1)
            continue;
        if (n > 1 && a->stride[d] != step * n)
            return -1;
        if (n == 1)
            step = a->stride[d];
        n *= a->shape[d];
    }
    return n > 1 ? step : 0;
}

static int64_t elements(const HostArray *a)
{
    int64_t n = 1;
    for (int d = 0; d < a->rank; d++)
        n *= a->shape[d];
    return n;
}

/* The inputs x, xp, fp, left, right, period, the last three where a bit of the number says so. */
bool native_interp_fits(const HostCall *c)
{
    const HostArray *a = c->arrays;
    for (uint32_t k = 0; k < c->nin + 1; k++)
        if (a[k].dtype != DT_float64)
            return false;
    return !(c->params[0] & 4) && linear_stride(a) >= 0 && a[1].shape[0] > 0 && (a[1].shape[0] == 1 || (a[1].stride[0] == 8 && a[2].stride[0] == 8));
}

void native_interp_run(const HostCall *c, void *const *address)
{
    const HostArray *x = c->arrays;
    Points p = {address[1], address[2], c->arrays[1].shape[0], 0, 0};
    uint32_t next = 3;
    p.left = c->params[0] & 1 ? *(const double *)address[next++] : p.fp[0];
    p.right = c->params[0] & 2 ? *(const double *)address[next] : p.fp[p.m - 1];
    linear_fill(&p, address[0], linear_stride(x), elements(x), address[c->nin]);
}

static SearchKind search_kind(Dtype d)
{
    switch (d) {
    case DT_float32: return SEARCH_float;
    case DT_float64: return SEARCH_double;
    case DT_int32: return SEARCH_int32;
    case DT_int64: return SEARCH_int64;
    case DT_uint32: return SEARCH_uint32;
    case DT_uint64: return SEARCH_uint64;
    default: return SEARCH_KINDS;
    }
}

/* The inputs table, keys; whether equal elements precede. */
bool native_search_fits(const HostCall *c)
{
    const HostArray *table = &c->arrays[0], *keys = &c->arrays[1];
    int64_t item = dtype_info[table->dtype].bytes;
    return search_kind(table->dtype) != SEARCH_KINDS && table->dtype == keys->dtype && (item == 8 || table->shape[0] <= INT32_MAX)
        && (table->stride[0] == item || table->shape[0] <= 1);
}

/* The keys from axis d on; where the results of the next ones lie. */
static int64_t *search_from(const Search *s, const HostArray *keys, int d, const char *from, int64_t *out)
{
    HostArray rest = *keys;
    rest.rank -= d;
    memmove(rest.shape, keys->shape + d, sizeof *rest.shape * (size_t)rest.rank);
    memmove(rest.stride, keys->stride + d, sizeof *rest.stride * (size_t)rest.rank);
    int64_t n = elements(&rest), stride = linear_stride(&rest);
    if (stride != -1) {
        search_fill(s, from, stride, n, out);
        return out + n;
    }
    for (int64_t i = 0; i < keys->shape[d]; i++)
        out = search_from(s, keys, d + 1, from + i * keys->stride[d], out);
    return out;
}

void native_search_run(const HostCall *c, void *const *address)
{
    const HostArray *table = &c->arrays[0];
    Search s = {search_kind(table->dtype), address[0], table->shape[0], c->params[0] != 0};
    search_from(&s, &c->arrays[1], 0, address[1], address[2]);
}

static void copy_element(char *to, const char *from, size_t bytes)
{
    switch (bytes) {
    case 1: memcpy(to, from, 1); break;
    case 2: memcpy(to, from, 2); break;
    case 4: memcpy(to, from, 4); break;
    case 8: memcpy(to, from, 8); break;
    default: memcpy(to, from, 16); break;
    }
}

/* A vector and its indices, all of them in range. */
bool native_reduceat_fits(const HostCall *c, void *const *address)
{
    const HostArray *x = &c->arrays[0], *at = &c->arrays[1];
    if (x->rank != 1 || at->rank != 1)
        return false;
    for (int64_t i = 0; i < at->shape[0]; i++) {
        int64_t k = *(const int64_t *)((const char *)address[1] + i * at->stride[0]);
        if (k < 0 || k >= x->shape[0])
            return false;
    }
    return true;
}

/* As NumPy does: the first element of each piece, and then the loop over the others. */
void native_reduceat_run(const HostCall *c, PyUFuncGenericFunction loop, void *data, void *const *address)
{
    const HostArray *x = &c->arrays[0], *at = &c->arrays[1];
    size_t item = dtype_info[x->dtype].bytes;
    char *from = address[0], *out = address[2];
    const char *index = address[1];
    for (int64_t i = 0; i < at->shape[0]; i++, index += at->stride[0], out += item) {
        int64_t first = *(const int64_t *)index, end = i + 1 < at->shape[0] ? *(const int64_t *)(index + at->stride[0]) : x->shape[0];
        copy_element(out, from + first * x->stride[0], item);
        npy_intp n = end - first - 1, step[3] = {0, x->stride[0], 0};
        char *args[3] = {out, from + (first + 1) * x->stride[0], out};
        if (n > 0)
            loop(args, &n, step, data);
    }
}
