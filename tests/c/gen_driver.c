/* Compiles kernels from their text, for tests/test_gen.py: built into one shared object with the layers it needs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "gen/gen.h"
#include "run/code.h"

typedef struct { Arena *arena; Kernel *kernel; Code *code; Err err; char *ir, *assembly; } Built;

static GenThread *thread_of(CpuLevel level, Err *err)
{
    static GenThread *threads[4];
    if (!threads[level]) threads[level] = pyxla_gen()->thread_new(level, err);
    return threads[level];
}

/* Always returns a Built; built_error() tells whether it is good. level < 0: no code, for the interpreter alone. */
__attribute__((visibility("default"))) Built *built_new(const char *text, int level, int want_text)
{
    Built *b = calloc(1, sizeof *b);
    GenResult r = {0};
    b->arena = arena_new(&b->err);
    b->kernel = kernel_parse(b->arena, text);
    if (!b->kernel || !kernel_verify(b->kernel, &b->err) || level < 0) return b;
    GenThread *t = thread_of(level, &b->err);
    GenOptions o = {level, true, want_text, want_text};
    if (t && pyxla_gen()->compile(t, b->kernel, &o, &r, &b->err)) b->code = code_load(r.object, r.object_len, "kernel", &b->err);
    b->ir = r.ir;
    b->assembly = r.assembly;
    free(r.object);
    return b;
}

/* Compiles while the n-th allocation from now on fails; whether it did and nothing worse than an error came of it. */
__attribute__((visibility("default"))) int built_fails(const Built *b, int level, long n)
{
    Err err = {0};
    GenResult r = {0};
    GenThread *t = thread_of(level, &err);
    GenOptions o = {level, false, false, false};
    arena_fail_at(n);
    bool good = pyxla_gen()->compile(t, b->kernel, &o, &r, &err);
    arena_fail_at(0);
    pyxla_gen()->result_free(&r);
    return !good && err.kind == ERR_MEMORY;
}

__attribute__((visibility("default"))) void built_free(Built *b)
{
    if (b->code) code_unref(b->code);
    free(b->ir);
    free(b->assembly);
    arena_free(b->arena);
    free(b);
}

__attribute__((visibility("default"))) const char *built_error(const Built *b) { return b->err.kind ? b->err.msg : NULL; }
__attribute__((visibility("default"))) const char *built_ir(const Built *b) { return b->ir; }
__attribute__((visibility("default"))) const char *built_assembly(const Built *b) { return b->assembly; }
__attribute__((visibility("default"))) int64_t built_grid(const Built *b, const int64_t *args) { return kernel_grid(b->kernel, args); }

__attribute__((visibility("default"))) void built_run(const Built *b, const int64_t *args, int64_t begin, int64_t end, char *scratch)
{
    code_entry(b->code)(args, begin, end, scratch);
}

__attribute__((visibility("default"))) int built_interp(const Built *b, const int64_t *args, int64_t begin, int64_t end, char *scratch)
{
    return interp_kernel(b->kernel, args, begin, end, scratch);
}
