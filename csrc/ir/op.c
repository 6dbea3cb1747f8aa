#include <string.h>

#include "ir/ir.h"

/* For rows that name no monoid, no op. */
#define MONOID_NONE MONOID_COUNT
#define OP_NONE OP_none

#define ROW(id, kind, nin, result, dtypes, doc, cost, domain, monoid, ulp32, ulp64) \
    [OP_##id] = { #id, doc, dtypes, KIND_##kind, nin, RESULT_##result, COST_##cost, DOMAIN_##domain, MONOID_##monoid, ulp32, ulp64 },
#define OP(id, kind, nin, result, dtypes, doc) ROW(id, kind, nin, result, dtypes, doc, FREE, ANY, NONE, 0, 0)
#define ELEMENTWISE(id, nin, result, dtypes, cost, ulp32, ulp64, domain, doc) \
    ROW(id, ELEMENTWISE, nin, result, dtypes, doc, cost, domain, NONE, ulp32, ulp64)
#define REDUCE(id, monoid, result, dtypes, doc) ROW(id, REDUCE, 1, result, dtypes, doc, CHEAP, ANY, monoid, 0, 0)
#define SCAN(id, monoid, dtypes, doc) ROW(id, SCAN, 1, T, dtypes, doc, CHEAP, ANY, monoid, 0, 0)

const OpInfo op_info[OP_COUNT] = {
    [OP_none] = { "none", "no op", "", KIND_SOURCE, 0, RESULT_ATTR, COST_FREE, DOMAIN_ANY, MONOID_NONE, 0, 0 },
#include "ir/ops.def"
};

const MonoidInfo monoid_info[MONOID_COUNT] = {
#define MONOID(id, width, combine, identity, doc) [MONOID_##id] = { #id, doc, width, OP_##combine, MONOID_ID_##identity },
#include "ir/monoids.def"
#undef MONOID
};

Op op_parse(const char *name)
{
    for (int op = OP_none + 1; op < OP_COUNT; op++)
        if (!strcmp(name, op_info[op].name))
            return (Op)op;
    return OP_none;
}
