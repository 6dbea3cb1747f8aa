/* Who called: whether foreign machine code runs between Python code and one of our functions. */
#pragma once
#include <stdbool.h>

/* Whether an extension module that is neither the interpreter (whose code holds the address `interpreter`) nor ours stands between the
 * interpreter's evaluation loop and the caller. Costs microseconds. */
bool caller_is_foreign(const void *interpreter);
