#define _GNU_SOURCE
#include "run/caller.h"
#include <dlfcn.h>
#include <string.h>
#if __has_include(<execinfo.h>)
#include <execinfo.h>
#include <unwind.h>
#endif

enum { MOST_FRAMES = 16, MOST_FUNCTIONS = 32 };

static const void *object_of(const void *address, const char **symbol)
{
    Dl_info info;
    *symbol = NULL;
    if (!dladdr(address, &info)) return NULL;
    *symbol = info.dli_sname;
    return info.dli_fbase;
}

#if __has_include(<execinfo.h>)
typedef struct { const void *at[MOST_FUNCTIONS]; int n; } Functions;
static Functions helpers, loops;  /* of the interpreter; loops: seen above a call from Python code */

static bool holds(const Functions *f, const void *function)
{
    for (int k = 0; k < f->n; k++)
        if (f->at[k] == function) return true;
    return false;
}

/* The function that a return address lies in; a part that the compiler moved away counts as one of its own. */
static const void *function_of(const void *address) { return _Unwind_FindEnclosingFunction((char *)address - 1); }

/* The stack's return addresses, their number; *first: the first one outside of our own code. */
static int frames_above(void *frame[MOST_FRAMES], const void *ours, int *first)
{
    const char *symbol;
    int n = backtrace(frame, MOST_FRAMES), i = 0;
    while (i < n && object_of(frame[i], &symbol) != ours)    /* a sanitizer's own backtrace() stands in front */
        i++;
    while (i < n && object_of(frame[i], &symbol) == ours)
        i++;
    *first = i;
    return n;
}

static bool is_loop(const void *address, const char *symbol)
{
    if (symbol && strstr(symbol, "EvalFrame")) return true;
    const void *function = function_of(address);
    return holds(&loops, function) && !holds(&helpers, function);
}
#endif

void caller_learn(const void *interpreter, bool evaluating)
{
#if __has_include(<execinfo.h>)
    void *frame[MOST_FRAMES];
    const char *symbol;
    const void *ours = object_of((const void *)caller_learn, &symbol), *python = object_of(interpreter, &symbol);
    Functions *to = evaluating ? &loops : &helpers;
    int i, n = frames_above(frame, ours, &i);
    for (; i < n && object_of(frame[i], &symbol) == python; i++) {
        const void *function = function_of(frame[i]);
        if (function && !holds(to, function) && to->n < MOST_FUNCTIONS)
            to->at[to->n++] = function;
    }
#else
    (void)interpreter;
    (void)evaluating;
#endif
}

/* The shared object, neither ours nor the interpreter's, that called into ours, if no Python code is between; NULL: none. */
static const void *foreign_caller(const void *interpreter)
{
#if __has_include(<execinfo.h>)
    void *frame[MOST_FRAMES];
    const char *symbol;
    const void *ours = object_of((const void *)caller_learn, &symbol), *python = object_of(interpreter, &symbol);
    int i, n = frames_above(frame, ours, &i);
    for (; i < n; i++) {
        const void *object = object_of(frame[i], &symbol);
        if (object == ours) return NULL;                    /* which calls Python code: a part of the interpreter that was not learned is between */
        if (object != python) return object ? object : frame[i];
        if (is_loop(frame[i], symbol)) return NULL;
    }
#else
    (void)interpreter;
#endif
    return NULL;
}

bool caller_is_foreign(const void *interpreter) { return foreign_caller(interpreter) != NULL; }

bool caller_lies_beside(const void *interpreter, const void *address)
{
    const char *symbol;
    const void *object = foreign_caller(interpreter);
    return object && object == object_of(address, &symbol);
}
