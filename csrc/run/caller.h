/* Who called: whether foreign machine code runs between Python code and one of our functions. */
#pragma once
#include <stdbool.h>

/* Notes the functions of the interpreter that lie between the caller and the next code that is not the interpreter's: without
 * `evaluating` its helpers for calls, with it also its evaluation loop, which so becomes known where it has no symbol. */
void caller_learn(const void *interpreter, bool evaluating);

/* Whether an extension module that is neither the interpreter (whose code holds the address `interpreter`) nor ours stands between the
 * interpreter's evaluation loop and the caller. Costs microseconds. */
bool caller_is_foreign(const void *interpreter);
/* Whether that module is the one that holds `address`. */
bool caller_lies_beside(const void *interpreter, const void *address);
