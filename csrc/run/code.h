/* Machine code in memory: an ELF relocatable object placed into executable slabs. Code is reference-counted. */
#pragma once
#include <stddef.h>
#include "base/err.h"

typedef void (*KernelFn)(const int64_t *args, int64_t begin, int64_t end, char *scratch);
typedef struct Code Code;

Code *code_load(const void *object, size_t len, const char *name, Err *err);   /* one reference; NULL with an error */
void code_ref(Code *c);
void code_unref(Code *c);
KernelFn code_entry(const Code *c);
size_t code_bytes(const Code *c);
size_t code_total(void);                 /* bytes of code alive in the process */
