/* What the forms of a DOT share: dot.c has tiles and sums along k, dot_small.c products of a few known rows and columns. */
#pragma once
#include "gen/val.h"

enum { DOT_C, DOT_A, DOT_B };
typedef struct {
    Gen *g;
    Dtype dt;
    const Access *x[3];
    LLVMValueRef ptr[3], m, n, k, add;         /* extents; add: i1 */
    Stride by_m[3], by_n[3], by_k[3];
    unsigned lanes;
    int rows, vectors;
    uint32_t bits;                             /* of the statement's d */
    int tile;                                  /* rows of a tile, 0: our choice */
    bool streams;                              /* B and C come from beyond the first cache: they are asked for ahead */
    LLVMValueRef outer[3][3];                  /* per axis m, n, k and array: bytes between blocks */
    Size block[3];
    int nsums;                                 /* axes that it adds up over besides k: extents, and steps in A and B */
    LLVMValueRef sum[KERNEL_MAX_AXES], by_sum[KERNEL_MAX_AXES][3];
    LLVMValueRef off[3];                       /* bytes that these axes have moved A and B, NULL: none */
    bool apart[3];                             /* the axis runs here, block by block: those of k, and any not evenly apart */
} Dot;

/* c + a b, fused where it can be (docs/numerics.md). */
LLVMValueRef dot_multiply_add(Dot *d, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);
/* What the sum of the products begins with: zero, or the e.lanes elements of C at ptr. */
LLVMValueRef dot_start(Dot *d, LLVMValueRef ptr, Stride stride);

/* ---- dot_small.c ---- */
/* The product, if all its extents are known and few: B whole in registers; false: it is not. */
bool dot_small(Dot *d);
