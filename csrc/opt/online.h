/* Softmax by blocks of a row (online softmax): what multiplies a product's right operand is made of exp(x - max(x)), and nothing needs the whole row at once.
 *
 * With a maximum M so far, weights exp(x - M) of the columns so far, their sums and what they multiply are all right but for one factor of the row: when a
 * later block raises M to M', each is multiplied by exp(M - M'). So a row runs block by block, and no more of it than a block is ever in memory.
 * Whatever else divides or multiplies a whole row (the sum of its weights, as a rule) does so at the end. */
#pragma once
#include "opt/schedule.h"

enum { ONLINE_SUMS = 4, ONLINE_FACTORS = 4 };

/* A value of the row that all its weights are multiplied by (OP_multiply), divided by (OP_divide), or multiplied by exp(M - value) (OP_exp). */
typedef struct { Op op; Id value; } RowFactor;

/* exp(x - M) times what is known before any reduction, and the row's factors in order; of `sum`, a reduction, or of the product after (0). */
typedef struct {
    Id value, sum;
    RowFactor factor[ONLINE_FACTORS];
    int nfactors;
    bool plain;                             /* exp(x - M), and nothing else but the row's factors */
    bool own;                               /* M is the maximum itself: a row of -inf gives NaN */
} Weight;

typedef struct {
    Id x, max;                              /* the rows, and the reduction that is their maximum */
    Weight then, sum[ONLINE_SUMS];          /* the left operand of the product after; what the sums are of */
    int nsums, norm;                        /* norm: a sum of plain weights, -1: there is none */
    Dtype dtype, wide;                      /* of the weights, and of their sums over blocks */
    int im, in, iv;                         /* loops: rows, columns, columns of the result */
    Part rows;                              /* the part of the rows that a grid point has */
    uint32_t maxima, sums[ONLINE_SUMS];     /* accesses of scratch: per row the maximum and the sums so far */
    uint32_t acc, tile, row;                /* ... of the result so far, of a block of weights, of a row of it before it is divided */
} Online;

/* Whether group l->gp is such a softmax before its product `then`; fills in what is read off the graph. */
bool online_find(const Lower *l, Online *o);
/* Makes the scratch for `rows` rows and `columns` columns at once of the loops im, in, iv, and the loop that sets maxima and sums. acc and tile are set after it. */
void online_begin(Lower *l, Online *o, int64_t rows, int64_t columns);
/* The loop over the rows of the current block of columns: from the scores to weights in `tile`; the result so far becomes that of the new maxima. */
void online_block(Lower *l, Online *o);
/* The loop over the rows after the last block: stores of the group once per row, and the result, into access `to`. */
void online_end(Lower *l, Online *o, uint32_t to);
