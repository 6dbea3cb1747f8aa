/* Attributes of `host` nodes: function, number of results, (dtype, rank, extents) of each, numbers that the function is given. */
#include <string.h>

#include "ir/ir.h"

enum { FUNCTION, RESULTS, FIRST };

/* Where the attributes of the result that begins at `at` end; -1: nowhere. */
static int result_end(const int64_t *attr, int nattr, int at)
{
    if (at < 0 || nattr - at < 2 || attr[at] < 0 || attr[at] >= DT_COUNT || attr[at + 1] < 0 || attr[at + 1] > MAX_RANK)
        return -1;
    int end = at + 2 + (int)attr[at + 1];
    return end <= nattr ? end : -1;
}

/* Where the attributes of result k (or, past the last one, the numbers) begin; -1: nowhere. */
static int result_begin(const int64_t *attr, int nattr, int64_t k)
{
    int at = nattr < FIRST || k < 0 || attr[RESULTS] < 1 || k > attr[RESULTS] ? -1 : FIRST;
    for (int64_t i = 0; i < k && at >= 0; i++)
        at = result_end(attr, nattr, at);
    return at;
}

bool host_result(const int64_t *attr, int nattr, int64_t k, Type *out)
{
    int at = result_begin(attr, nattr, k);
    if (at < 0 || k == attr[RESULTS] || result_end(attr, nattr, at) < 0)
        return false;
    out->dtype = (Dtype)attr[at];
    out->rank = (int)attr[at + 1];
    memcpy(out->shape, attr + at + 2, (size_t)out->rank * sizeof(Dim));
    return true;
}

int host_params(const int64_t *attr, int nattr, const int64_t **params)
{
    int at = nattr < FIRST ? -1 : result_begin(attr, nattr, attr[RESULTS]);
    *params = at < 0 ? NULL : attr + at;
    return at < 0 ? -1 : nattr - at;
}
