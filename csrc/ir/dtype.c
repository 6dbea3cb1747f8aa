#include <string.h>

#include "ir/ir.h"

const DtypeInfo dtype_info[DT_COUNT] = {
#define DTYPE(id, name, kind, bytes, ch, ctype) [DT_##id] = { name, ch, DKIND_##kind, bytes },
#include "ir/dtypes.def"
#undef DTYPE
};

#define DTYPE(id, name, kind, bytes, ch, ctype) _Static_assert(sizeof(ctype) == bytes, "dtypes.def: " name);
#include "ir/dtypes.def"
#undef DTYPE

Dtype dtype_parse(const char *name)
{
    for (int d = 0; d < DT_COUNT; d++)
        if (!strcmp(name, dtype_info[d].name) || !strcmp(name, dtype_info[d].code))
            return (Dtype)d;
    return DT_COUNT;
}
