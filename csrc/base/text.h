/* A growable string: printers append, the caller frees. A failed allocation makes it empty and `failed`. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

typedef struct { char *at; size_t len, cap; bool failed; } Text;

void text_put(Text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void text_free(Text *t);
