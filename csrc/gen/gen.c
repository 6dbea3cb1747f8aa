/* One compile: Kernel -> LLVM module -> object. A context per compile, so that nothing grows; a TargetMachine per thread, for making
 * one costs more than a small kernel. */
#include "gen/gen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <llvm-c/Analysis.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include "gen/target.h"
#include "gen/val.h"

enum { STRAIGHT_VALS = 100 };          /* values of a kernel from which on the time to compile it is asked about */

struct GenThread { LLVMTargetMachineRef machine, quick; CpuLevel level; };        /* quick: chooses code as it comes; made when first needed */

/* ---- a module ---- */

/* LLVM reports what it cannot select here; without a handler it would exit. */
static void diagnose(LLVMDiagnosticInfoRef info, void *context)
{
    Err *err = context;
    if (LLVMGetDiagInfoSeverity(info) != LLVMDSError) return;
    char *text = LLVMGetDiagInfoDescription(info);
    err_set(err, ERR_COMPILE, "LLVM: %s", text);
    LLVMDisposeMessage(text);
}

static bool multiplies_bytes(const Kernel *k)
{
    for (uint32_t i = 0; i < k->stmts.len; i++)
        if (k->stmts.at[i].kind == STMT_DOT && k->stmts.at[i].d & DOT_BYTES) return true;
    return false;
}

static void kernel_function(Gen *g)
{
    LLVMContextRef ctx = g->e.ctx;
    g->i8 = LLVMInt8TypeInContext(ctx);
    g->i32 = LLVMInt32TypeInContext(ctx);
    g->i64 = LLVMInt64TypeInContext(ctx);
    g->ptr = LLVMPointerTypeInContext(ctx, 0);
    LLVMTypeRef params[4] = {g->ptr, g->i64, g->i64, g->ptr};
    g->e.fn = LLVMAddFunction(g->e.mod, "kernel", LLVMFunctionType(LLVMVoidTypeInContext(ctx), params, 4, 0));
    target_attributes(&g->e, g->e.fn);
    g->vnni = multiplies_bytes(g->k) && g->e.level == CPU_AVX512 && cpu_host()->vnni;
    target_more(&g->e, g->e.fn, g->vnni, cpu_host()->rep_movs);
    g->args = LLVMGetParam(g->e.fn, 0);
    g->begin = LLVMGetParam(g->e.fn, 1);
    g->end = LLVMGetParam(g->e.fn, 2);
    g->scratch = LLVMGetParam(g->e.fn, 3);
    LLVMPositionBuilderAtEnd(g->e.b, v_block(&g->e, ""));
}

static bool build(Gen *g)
{
    const Kernel *k = g->k;
    g->depth = -1;
    g->arg = arena_alloc(g->arena, (k->nargs + 1) * sizeof *g->arg);
    g->state = arena_alloc(g->arena, (k->states.len + 1) * sizeof *g->state);
    if (!g->arg || !g->state) return false;
    for (uint32_t i = 1; i < k->vals.len; i++) {
        const Val *v = &k->vals.at[i];
        if (v->kind != VAL_OP) continue;
        if (!emit_knows(v->op)) return err_set(g->e.err, ERR_INTERNAL, "no machine code for operation %d", v->op);
        g->e.uses[v->op]++;
    }
    kernel_function(g);
    loop_kernel(g);
    return g->e.err->kind == ERR_NONE;
}

/* ---- results ---- */

static char *copy_text(const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = malloc(n);
    return copy ? memcpy(copy, text, n) : NULL;
}

static bool verify(LLVMModuleRef mod, Err *err)
{
    char *message = NULL;
    if (LLVMVerifyModule(mod, LLVMReturnStatusAction, &message)) err_set(err, ERR_INTERNAL, "the module is not legal: %s", message);
    LLVMDisposeMessage(message);
    return err->kind == ERR_NONE;
}

/* Whether nearly all statements of a long kernel are outside loops, as unrolled steps of a recurrence are. Each instruction then runs once in a call, and
 * LLVM would take a thousand times as long to choose it well: its scheduler and register allocator take more than linear time for many scalars that are
 * loaded and stored (for 500 steps 28 times that of code chosen as it comes, which is no slower to run). */
static bool is_straight(const Kernel *k)
{
    uint32_t once = 0, looped = 0, loop_end = 0;
    if (k->vals.len < STRAIGHT_VALS) return false;
    for (uint32_t i = 0; i < k->stmts.len; i++) {
        const Stmt *st = &k->stmts.at[i];
        if (st->kind == STMT_FOR) {
            const Size *size = &k->axes.at[st->axis].size;
            if ((size->arg >= 0 || size->lit != 1) && st->end > loop_end) loop_end = st->end;
        } else if (i < loop_end || st->kind == STMT_DOT || st->kind == STMT_TRANSPOSE) looped++;
        else once++;
    }
    return once >= 8 * looped;
}

static LLVMTargetMachineRef machine_for(GenThread *t, const Kernel *k, Err *err)
{
    if (!is_straight(k)) return t->machine;
    if (!t->quick) t->quick = target_machine(t->level, LLVMCodeGenLevelNone, err);
    return t->quick;
}

static char *emit(LLVMTargetMachineRef machine, LLVMModuleRef mod, LLVMCodeGenFileType type, size_t *len, Err *err)
{
    char *message = NULL, *copy = NULL;
    LLVMMemoryBufferRef buffer = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, mod, type, &message, &buffer)) {
        err_set(err, ERR_COMPILE, "LLVM: %s", message);
        LLVMDisposeMessage(message);
        return NULL;
    }
    *len = LLVMGetBufferSize(buffer);
    if (err->kind == ERR_NONE && !(copy = malloc(*len + 1))) err_set(err, ERR_MEMORY, "no memory for %zu bytes of code", *len);
    if (copy) {
        memcpy(copy, LLVMGetBufferStart(buffer), *len);
        copy[*len] = 0;
    }
    LLVMDisposeMemoryBuffer(buffer);
    return copy;
}

static void result_free(GenResult *r)
{
    free(r->object);
    free(r->ir);
    free(r->assembly);
    *r = (GenResult){0};
}

static void produce(GenThread *t, Gen *g, const GenOptions *o, GenResult *out, Err *err)
{
    size_t len;
    LLVMTargetMachineRef machine = machine_for(t, g->k, err);
    if (!machine) return;
#ifdef PYXLA_DEBUG
    bool check = true;
#else
    bool check = o->verify;
#endif
    if (o->want_ir) {
        char *text = LLVMPrintModuleToString(g->e.mod);
        out->ir = copy_text(text);
        LLVMDisposeMessage(text);
    }
    if (check && !verify(g->e.mod, err)) return;
    if (o->want_asm) {                                   /* code generation changes the module */
        LLVMModuleRef clone = LLVMCloneModule(g->e.mod);
        out->assembly = emit(machine, clone, LLVMAssemblyFile, &len, err);
        LLVMDisposeModule(clone);
    }
    out->object = emit(machine, g->e.mod, LLVMObjectFile, &out->object_len, err);
}

static bool compile(GenThread *t, const Kernel *k, const GenOptions *o, GenResult *out, Err *err)
{
    *out = (GenResult){0};
    Arena *arena = arena_new(err);
    if (!arena) return false;
    Gen *g = arena_alloc(arena, sizeof *g);
    if (g) {
        LLVMContextRef ctx = LLVMContextCreate();
        LLVMContextSetDiagnosticHandler(ctx, diagnose, err);
        g->k = k;
        g->arena = arena;
        g->e.ctx = ctx;
        g->e.err = err;
        g->e.level = t->level;
        g->e.mod = LLVMModuleCreateWithNameInContext("kernel", ctx);
        g->e.b = LLVMCreateBuilderInContext(ctx);
        char *triple = LLVMGetTargetMachineTriple(t->machine);
        LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(t->machine);
        LLVMSetTarget(g->e.mod, triple);
        LLVMSetModuleDataLayout(g->e.mod, layout);
        LLVMDisposeTargetData(layout);
        LLVMDisposeMessage(triple);
        if (build(g)) produce(t, g, o, out, err);
        LLVMDisposeBuilder(g->e.b);
        LLVMDisposeModule(g->e.mod);
        LLVMContextDispose(ctx);
    }
    arena_free(arena);
    if (err->kind == ERR_NONE && out->object) return true;
    result_free(out);
    return err_set(err, ERR_COMPILE, "no code was made");
}

/* ---- the interface ---- */

static void (*fatal_handler)(const char *message);

static void fatal(const char *message) { fatal_handler(message); }

static void set_fatal(void (*handler)(const char *message))
{
    fatal_handler = handler;
    LLVMResetFatalErrorHandler();
    LLVMInstallFatalErrorHandler(fatal);
}

static void thread_free(GenThread *t)
{
    if (!t) return;
    LLVMDisposeTargetMachine(t->machine);
    if (t->quick) LLVMDisposeTargetMachine(t->quick);
    free(t);
}

static GenThread *thread_new(CpuLevel level, Err *err)
{
    GenThread *t = calloc(1, sizeof *t);
    if (!t) {
        err_set(err, ERR_MEMORY, "no memory for a compiler thread");
        return NULL;
    }
    t->level = level;
    t->machine = target_machine(level, LLVMCodeGenLevelLess, err);
    if (t->machine) return t;
    free(t);
    return NULL;
}

static const char *version(void)
{
    static char text[32];
    unsigned major, minor, patch;
    LLVMGetVersion(&major, &minor, &patch);
    snprintf(text, sizeof text, "%u.%u.%u", major, minor, patch);
    return text;
}

/* The opener calls this once, before its threads do. */
__attribute__((visibility("default"))) const GenApi *pyxla_gen(void)
{
    static GenApi api = {GEN_ABI, NULL, set_fatal, thread_new, thread_free, compile, result_free};
    if (!api.llvm_version) {
        LLVMInitializeNativeTarget();
        LLVMInitializeNativeAsmPrinter();
        /* Loop strength reduction takes half of a product's compile time and makes nothing faster: addresses are made outside of loops. */
        const char *options[] = {"pyxla", "-disable-lsr"};
        LLVMParseCommandLineOptions(2, options, NULL);
        api.llvm_version = version();
    }
    return &api;
}
