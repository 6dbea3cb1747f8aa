/* A code generator that knows one kernel: its object is the file $PYXLA_TEST_OBJECT. What it does else is asked for by nargs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "gen/gen.h"

struct GenThread { CpuLevel level; };

static void (*fatal_error)(const char *);

static void set_fatal(void (*fatal)(const char *)) { fatal_error = fatal; }

static GenThread *thread_new(CpuLevel level, Err *err)
{
    (void)err;
    GenThread *t = malloc(sizeof *t);
    if (t) t->level = level;
    return t;
}

static void thread_free(GenThread *t) { free(t); }

static void fail(Err *err, ErrKind kind, const char *message)
{
    err->kind = kind;
    snprintf(err->msg, sizeof err->msg, "%s", message);
}

static bool read_object(GenResult *out)
{
    FILE *f = fopen(getenv("PYXLA_TEST_OBJECT"), "rb");
    if (!f) return false;
    out->object = malloc(1 << 20);
    out->object_len = fread(out->object, 1, 1 << 20, f);
    fclose(f);
    return true;
}

static bool compile(GenThread *t, const Kernel *k, const GenOptions *o, GenResult *out, Err *err)
{
    (void)t;
    if (k->nargs == 1000) return fail(err, ERR_UNSUPPORTED, "no such kernel"), false;
    if (k->nargs >= 2000 && k->nargs < 3000) fatal_error("Cannot select: nothing");
    if (k->nargs >= 3000 && k->nargs < 4000) usleep(300000);
    if (o->want_ir) out->ir = strdup("define void @kernel");
    if (o->want_asm) out->assembly = strdup("kernel: ret");
    return read_object(out) || (fail(err, ERR_INTERNAL, "no object"), false);
}

static void result_free(GenResult *r)
{
    free(r->object);
    free(r->ir);
    free(r->assembly);
}

const GenApi *pyxla_gen(void)
{
    static const GenApi api = {GEN_ABI, "fake 1.0", set_fatal, thread_new, thread_free, compile, result_free};
    return &api;
}
