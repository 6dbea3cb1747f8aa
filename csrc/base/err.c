#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

bool err_set(Err *err, ErrKind kind, const char *fmt, ...)
{
    if (err->kind != ERR_NONE)
        return false;
    err->kind = kind;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    return false;
}

#ifdef PYXLA_DEBUG
void assert_failed(const char *expr, const char *file, int line)
{
    fprintf(stderr, "pyxla: %s:%d: broken invariant: %s\n", file, line, expr);
    abort();
}
#endif
