/* Emits every elementary function of the code generator as a function on arrays, for tests/test_math.py:
 *
 *     math_functions LEVEL LANES FILE.o      LEVEL: sse2 avx2 avx512; LANES: of float32 vectors, half for float64; 0: scalars
 *
 * defines   void <id>_<f32|f64>(const T *x, const T *y, T *out, int64_t n)   for n a multiple of the lanes, and
 * power_<i8..u64>. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/Target.h>
#include "gen/emit.h"
#include "gen/target.h"

static const struct { const char *name; EmitFn *fn; int nin; } functions[] = {
    {"exp", emit_exp, 1}, {"exp2", emit_exp2, 1}, {"expm1", emit_expm1, 1}, {"log", emit_log, 1}, {"log2", emit_log2, 1},
    {"log10", emit_log10, 1}, {"log1p", emit_log1p, 1}, {"sin", emit_sin, 1}, {"cos", emit_cos, 1}, {"tan", emit_tan, 1},
    {"arcsin", emit_arcsin, 1}, {"arccos", emit_arccos, 1}, {"arctan", emit_arctan, 1}, {"arctan2", emit_arctan2, 2},
    {"sinh", emit_sinh, 1}, {"cosh", emit_cosh, 1}, {"tanh", emit_tanh, 1}, {"arcsinh", emit_arcsinh, 1},
    {"arccosh", emit_arccosh, 1}, {"arctanh", emit_arctanh, 1}, {"power", emit_power, 2}, {"cbrt", emit_cbrt, 1}, {"hypot", emit_hypot, 2},
};

static void check(const Err *err, const char *what)
{
    if (!err->kind) return;
    fprintf(stderr, "%s: %s\n", what, err->msg);
    exit(1);
}

static LLVMValueRef element(Emit *e, Dtype dt, LLVMValueRef array, LLVMValueRef i)
{
    return LLVMBuildGEP2(e->b, v_scalar_type(e, dt), array, &i, 1, "");
}

static LLVMValueRef load(Emit *e, Dtype dt, LLVMValueRef array, LLVMValueRef i)
{
    LLVMValueRef v = LLVMBuildLoad2(e->b, v_type(e, dt), element(e, dt, array, i), "");
    LLVMSetAlignment(v, 1);
    return v;
}

static void emit_loop(Emit *e, EmitFn *fn, int nin, Dtype dt, const char *name)
{
    LLVMTypeRef i64 = LLVMInt64TypeInContext(e->ctx), ptr = LLVMPointerTypeInContext(e->ctx, 0);
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->ctx), (LLVMTypeRef[]){ptr, ptr, ptr, i64}, 4, 0);
    e->fn = LLVMAddFunction(e->mod, name, type);
    target_attributes(e, e->fn);
    LLVMBasicBlockRef entry = v_block(e, "entry"), loop = v_block(e, "loop"), end = v_block(e, "end");
    LLVMPositionBuilderAtEnd(e->b, entry);
    LLVMBuildBr(e->b, loop);
    LLVMPositionBuilderAtEnd(e->b, loop);
    LLVMValueRef i = LLVMBuildPhi(e->b, i64, ""), zero = LLVMConstInt(i64, 0, 0), p[4];
    LLVMGetParams(e->fn, p);
    LLVMValueRef r = fn(e, dt, load(e, dt, p[0], i), nin > 1 ? load(e, dt, p[1], i) : NULL, NULL);
    LLVMSetAlignment(LLVMBuildStore(e->b, r, element(e, dt, p[2], i)), 1);
    LLVMValueRef next = LLVMBuildAdd(e->b, i, LLVMConstInt(i64, e->lanes ? e->lanes : 1, 0), "");
    LLVMBasicBlockRef last = LLVMGetInsertBlock(e->b);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, next, p[3], ""), loop, end);
    LLVMAddIncoming(i, (LLVMValueRef[]){zero, next}, (LLVMBasicBlockRef[]){entry, last}, 2);
    LLVMPositionBuilderAtEnd(e->b, end);
    LLVMBuildRetVoid(e->b);
}

static void emit_all(Emit *e, unsigned lanes)
{
    char name[64];
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
        for (Dtype dt = DT_float32; dt <= DT_float64; dt++) {
            e->lanes = dt == DT_float64 && lanes > 1 ? lanes / 2 : lanes;
            snprintf(name, sizeof name, "%s_%s", functions[f].name, dtype_info[dt].code);
            emit_loop(e, functions[f].fn, functions[f].nin, dt, name);
        }
    for (Dtype dt = DT_int8; dt <= DT_uint64; dt++) {
        e->lanes = lanes * 4 / dtype_info[dt].bytes;
        snprintf(name, sizeof name, "power_%s", dtype_info[dt].code);
        emit_loop(e, emit_power, 2, dt, name);
    }
}

int main(int argc, char **argv)
{
    if (argc < 4) return fprintf(stderr, "usage: math_functions LEVEL LANES FILE.o [FILE.ll]\n"), 2;
    CpuLevel level = !strcmp(argv[1], "sse2") ? CPU_SSE2 : !strcmp(argv[1], "avx2") ? CPU_AVX2 : CPU_AVX512;
    Err err = {0};
    char *message = NULL;
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMTargetMachineRef tm = target_machine(level, LLVMCodeGenLevelLess, &err);
    check(&err, "target");
    LLVMContextRef ctx = LLVMContextCreate();
    Emit e = {.ctx = ctx, .mod = LLVMModuleCreateWithNameInContext("math", ctx), .b = LLVMCreateBuilderInContext(ctx), .level = level, .err = &err};
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(tm);
    LLVMSetModuleDataLayout(e.mod, layout);
    emit_all(&e, (unsigned)atoi(argv[2]));
    check(&err, "emit");
    if (argc > 4) LLVMPrintModuleToFile(e.mod, argv[4], &message);
    if (LLVMVerifyModule(e.mod, LLVMReturnStatusAction, &message)) return fprintf(stderr, "%s\n", message), 1;
    LLVMDisposeMessage(message);
    message = NULL;
    if (LLVMTargetMachineEmitToFile(tm, e.mod, argv[3], LLVMObjectFile, &message)) return fprintf(stderr, "%s\n", message), 1;
    LLVMDisposeTargetData(layout);
    LLVMDisposeBuilder(e.b);
    LLVMDisposeModule(e.mod);
    LLVMContextDispose(ctx);
    LLVMDisposeTargetMachine(tm);
    return 0;
}
