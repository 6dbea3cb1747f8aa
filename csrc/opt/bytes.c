/* Products of bytes: int8 or uint8 matrices cast to int32 and multiplied. The instructions that multiply bytes take four at a time, unsigned ones by
 * signed ones, so B becomes words of four bytes along k, an elementwise value like any other, and A is read by words as it lies. Where both are
 * signed or both are not, B's bytes are moved by 128 and the product is mended by sums of A's rows:
 *
 *   A B = A (B + 128) - 128 rowsum(A)        both signed
 *   A B = A (B - 128) + 128 rowsum(A)        both unsigned
 *
 * Sums wrap, so the results are those of int32 products, bit for bit. */
#include <string.h>
#include "opt/plan.h"

enum { BYTE_TERMS = 16, BYTE_SIZE = 8192 };      /* least k, and least m n k, that are worth it */

static bool is_byte(Dtype dt) { return dt == DT_int8 || dt == DT_uint8; }

/* The bytes that int32 node id is a cast of, through views; 0: it is none. */
static Id bytes_of(Graph *g, Id id)
{
    Node n = *node_at(g, id);
    if (n.op == OP_cast) return is_byte((Dtype)node_at(g, node_in(g, id)[0])->dtype) ? node_in(g, id)[0] : 0;
    if (op_info[n.op].kind != KIND_VIEW || n.nin > MAX_RANK + 1) return 0;
    Id in[MAX_RANK + 1];
    Dim shape[MAX_RANK];
    int64_t attr[4 * MAX_RANK];
    if (n.nattr > 4 * MAX_RANK || !(in[0] = bytes_of(g, node_in(g, id)[0]))) return 0;
    for (int i = 1; i < n.nin; i++) in[i] = node_in(g, id)[i];
    memcpy(shape, node_shape(g, id), sizeof(Dim) * n.rank);
    memcpy(attr, node_attr(g, id), sizeof *attr * n.nattr);
    return graph_add(g, (Op)n.op, in, n.nin, attr, n.nattr, (Dtype)node_at(g, in[0])->dtype, shape, n.rank);
}

/* Bytes from, from + 4, ... along k of x, so many, each XOR flip, in the low byte of an int32. */
static Id every_fourth(Graph *g, Id x, Dim from, Dim count, int flip)
{
    int r = node_at(g, x)->rank, axis = r - 2;
    int64_t start[MAX_RANK] = { 0 }, step[MAX_RANK];
    Dim shape[MAX_RANK];
    memcpy(shape, node_shape(g, x), sizeof(Dim) * (size_t)r);
    for (int d = 0; d < r; d++) step[d] = d == axis ? 4 : 1;
    start[axis] = from;
    shape[axis] = count;
    Id v = graph_cast(g, graph_cast(g, graph_slice_const(g, x, start, step, shape), DT_uint8), DT_int32);
    return flip ? graph_binary(g, OP_bitwise_xor, v, graph_broadcast(g, graph_const(g, DT_int32, flip), shape, r)) : v;
}

/* `count` words from byte `from` along k on, of `bytes` bytes each. */
static Id words_between(Graph *g, Id x, Dim from, Dim count, int bytes, int flip)
{
    Id w = every_fourth(g, x, from, count, flip);
    for (int j = 1; j < bytes && w; j++) {
        Id v = every_fourth(g, x, from + j, count, flip), by = graph_const(g, DT_int32, 8 * j);
        by = graph_broadcast(g, by, node_shape(g, w), node_at(g, w)->rank);
        w = graph_binary(g, OP_bitwise_or, w, graph_binary(g, OP_left_shift, v, by));
    }
    return w;
}

/* (..., k, n) bytes -> (..., ceil(k/4), n) words. */
static Id words_of(Graph *g, Id x, int flip)
{
    int r = node_at(g, x)->rank;
    Dim k = node_shape(g, x)[r - 2];
    Id whole = words_between(g, x, 0, k / 4, 4, flip);
    if (k % 4 == 0) return whole;
    return graph_concatenate(g, (Id[]){ whole, words_between(g, x, k / 4 * 4, 1, (int)(k % 4), flip) }, 2, r - 2);
}

/* 128 times the sums of A's rows. */
static Id row_sums(Graph *g, Id a)
{
    int r = node_at(g, a)->rank;
    Id sum = graph_reduce(g, OP_reduce_sum, graph_cast(g, a, DT_int32), 1ull << (r - 1), 0);
    return sum ? graph_binary(g, OP_multiply, sum, graph_broadcast(g, graph_const(g, DT_int32, 128), node_shape(g, sum), r - 1)) : 0;
}

/* A value per row, for every column of the product. */
static Id by_rows(Graph *g, Id sums, Id product)
{
    int r = node_at(g, product)->rank;
    Dim shape[MAX_RANK], one[MAX_RANK];
    memcpy(shape, node_shape(g, product), sizeof(Dim) * (size_t)r);
    memcpy(one, shape, sizeof one);
    one[r - 1] = 1;
    return graph_broadcast(g, graph_reshape(g, sums, one, r), shape, r);
}

Id dot_of_bytes(Graph *g, Id a, Id b)
{
    int r = node_at(g, a)->rank;
    const Dim *sa = node_shape(g, a), *sb = node_shape(g, b);
    Dim m = sa[r - 2], k = sa[r - 1], n = sb[r - 1];
    if (node_at(g, a)->dtype != DT_int32 || m < 2 || n < 2 || k < BYTE_TERMS || m * n * k < BYTE_SIZE) return 0;
    Id x = bytes_of(g, a), y = x ? bytes_of(g, b) : 0;
    if (!y) return 0;
    bool same = node_at(g, x)->dtype == node_at(g, y)->dtype, is_signed = node_at(g, x)->dtype == DT_int8;
    Id words = words_of(g, y, same ? 128 : 0), sums = same ? row_sums(g, x) : 0;      /* before the product, so that it ends what they mend */
    Id product = graph_add(g, OP_dot_bytes, (Id[]){ x, words }, 2, NULL, 0, DT_int32, NULL, 0);
    if (!same || !product) return product;
    return graph_binary(g, is_signed ? OP_subtract : OP_add, product, by_rows(g, sums, product));
}
