#include "gen/target.h"

#include <stdio.h>
#include <string.h>
#include <llvm-c/Target.h>

/* Explicit features: the CPU's name alone would also choose a scheduling model of the day's LLVM. */
static const struct { const char *cpu, *tune, *features, *width; } levels[] = {
    [CPU_SSE2] = {"x86-64", "generic", "+cx8,+fxsr,+mmx,+sse,+sse2,+x87", "128"},
    [CPU_AVX2] = {"x86-64-v3", "generic", "+avx,+avx2,+bmi,+bmi2,+cmov,+cx16,+cx8,+f16c,+fma,+fxsr,+lzcnt,+mmx,+movbe,+popcnt,+sahf,+sse,+sse2,+sse3,"
                  "+sse4.1,+sse4.2,+ssse3,+x87,+xsave", "256"},
    [CPU_AVX512] = {"x86-64-v4", "generic", "+avx,+avx2,+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl,+bmi,+bmi2,+cmov,+cx16,+cx8,+evex512,+f16c,+fma,"
                    "+fxsr,+lzcnt,+mmx,+movbe,+popcnt,+sahf,+sse,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3,+x87,+xsave", "512"},
    [CPU_NEON] = {"generic", "generic", "+neon,+fp-armv8", "128"},
};

/* evex512 exists from LLVM 18 to 21; naming an unknown feature makes LLVM print a warning. */
static const char *features_of(CpuLevel level, char *buffer, size_t size)
{
    unsigned major = 0;
    LLVMGetVersion(&major, NULL, NULL);
    const char *all = levels[level].features, *evex = strstr(all, "+evex512,");
    if (!evex || major < 22) return all;
    size_t head = (size_t)(evex - all);
    if (strlen(all) + 1 > size) return all;
    memcpy(buffer, all, head);
    strcpy(buffer + head, evex + strlen("+evex512,"));
    return buffer;
}

LLVMTargetMachineRef target_machine(CpuLevel level, LLVMCodeGenOptLevel effort, Err *err)
{
    char buffer[512], *message = NULL, *triple = LLVMGetDefaultTargetTriple();
    LLVMTargetRef target = NULL;
    LLVMTargetMachineRef tm = NULL;
    if (LLVMGetTargetFromTriple(triple, &target, &message))
        err_set(err, ERR_COMPILE, "LLVM has no target for %s: %s", triple, message);
    else if (!(tm = LLVMCreateTargetMachine(target, triple, levels[level].cpu, features_of(level, buffer, sizeof buffer),
                                            effort, LLVMRelocPIC, LLVMCodeModelSmall)))
        err_set(err, ERR_COMPILE, "LLVM makes no machine for %s", triple);
    if (message) LLVMDisposeMessage(message);
    LLVMDisposeMessage(triple);
    return tm;
}

static void text_attribute(Emit *e, LLVMValueRef fn, const char *key, const char *value)
{
    LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(e->ctx, key, (unsigned)strlen(key), value, (unsigned)strlen(value)));
}

static void enum_attribute(Emit *e, LLVMValueRef fn, const char *name)
{
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(e->ctx, kind, 0));
}

void target_attributes(Emit *e, LLVMValueRef fn)
{
    char buffer[512];
    text_attribute(e, fn, "target-cpu", levels[e->level].cpu);
    text_attribute(e, fn, "tune-cpu", levels[e->level].tune);
    text_attribute(e, fn, "target-features", features_of(e->level, buffer, sizeof buffer));
    text_attribute(e, fn, "prefer-vector-width", levels[e->level].width);
    text_attribute(e, fn, "min-legal-vector-width", levels[e->level].width);
    text_attribute(e, fn, "no-builtins", "");
    enum_attribute(e, fn, "nounwind");
}

void target_more(Emit *e, LLVMValueRef fn, bool vnni, bool rep_movs)
{
    char buffer[512], all[600];
    snprintf(all, sizeof all, "%s%s%s", features_of(e->level, buffer, sizeof buffer), vnni ? ",+avx512vnni" : "", rep_movs ? ",+ermsb" : "");
    text_attribute(e, fn, "target-features", all);
}

bool target_fma(CpuLevel level) { return level != CPU_SSE2; }

bool target_round(CpuLevel level) { return level != CPU_SSE2; }

bool target_mask(CpuLevel level, int bytes) { return level == CPU_AVX512 || (level == CPU_AVX2 && bytes >= 4); }
