#define _GNU_SOURCE
#include "run/caller.h"
#include <dlfcn.h>
#include <string.h>
#if __has_include(<execinfo.h>)
#include <execinfo.h>
#endif

enum { MOST_FRAMES = 16 };

static const void *object_of(const void *address, const char **symbol)
{
    Dl_info info;
    *symbol = NULL;
    if (!dladdr(address, &info)) return NULL;
    *symbol = info.dli_sname;
    return info.dli_fbase;
}

bool caller_is_foreign(const void *interpreter)
{
#if __has_include(<execinfo.h>)
    void *frame[MOST_FRAMES];
    const char *symbol;
    const void *ours = object_of((const void *)caller_is_foreign, &symbol), *python = object_of(interpreter, &symbol);
    int n = backtrace(frame, MOST_FRAMES), i = 0;
    while (i < n && object_of(frame[i], &symbol) != ours)    /* a sanitizer's own backtrace() stands in front */
        i++;
    for (; i < n; i++) {
        const void *object = object_of(frame[i], &symbol);
        if (object == ours) continue;
        if (object != python) return true;
        if (symbol && strstr(symbol, "EvalFrame")) return false;
    }
#else
    (void)interpreter;
#endif
    return false;
}
