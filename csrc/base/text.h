/* A growable string: printers append, the caller frees. A failed allocation makes it empty and `failed`. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

typedef struct { char *at; size_t len, cap; bool failed; } Text;

void text_put(Text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The shortest decimal that text_double() reads back as x (as (float)x if single), in any locale; `nan`, `inf`, `-inf`. */
void text_put_double(Text *t, double x, bool single);
/* strtod with a `.` in any locale; *end is s if there is no number. */
double text_double(const char *s, char **end);
void text_free(Text *t);
