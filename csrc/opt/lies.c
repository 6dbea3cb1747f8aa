/* Whether what a value reads lies along different axes: elementwise kernels go through such arrays by tiles (schedule_turn.c), other loops read one of them a line of memory
 * per element. The lines serve the next rows, too, if they are still in a cache then; where rows lie a power of two apart they evict each other: 2048 x 2048 float32, summed, 86 ms
 * instead of 3 with the value stored by tiles first. Elsewhere that is no gain (1700 x 1700), and from memory a loss (2000 x 2000 float64, 3.3 and 7 ms). */
#include "opt/grouping.h"

enum {
    TURNED_SIZE = 16384,         /* elements from which a launch for the value is worth it */
    TURNED_EXTENT = 32,          /* of either axis: squares in registers are up to 16 wide */
    CONFLICT = 1024,             /* bytes: rows apart by multiples share four sets of a first cache at most */
};

/* Bytes per step of a leaf along an own axis of what was scanned; stored values are taken to be in C order. */
static int64_t step_along(const Scan *s, const Leaf *leaf, int axis)
{
    const Graph *g = s->gr->g;
    const Node *n = node_at(g, leaf->id);
    int64_t bytes = dtype_info[n->dtype].bytes;
    for (int d = n->rank - 1; d >= 0; d--) {
        if (leaf->sel[d] == axis) return n->op == OP_input ? s->gr->in[node_attr(g, leaf->id)[0]].stride[d] : bytes;
        bytes *= node_shape(g, leaf->id)[d];
    }
    return 0;
}

/* The own axis that a leaf lies along, -1: none. */
static int lies_along(const Scan *s, const Leaf *leaf)
{
    int64_t item = dtype_info[node_at(s->gr->g, leaf->id)->dtype].bytes;
    for (int j = 0; j < s->own.n && leaf->select && item <= 8; j++)
        if (s->own.extent[j] >= TURNED_EXTENT && step_along(s, leaf, j) == item) return j;
    return -1;
}

static bool conflicts(int64_t step) { return step && step % CONFLICT == 0; }

bool scan_lies_across(const Scan *s)
{
    int64_t size = 1;
    for (int j = 0; j < s->own.n; j++) size *= s->own.extent[j];
    for (uint32_t i = 0; i < s->leaves.len && size >= TURNED_SIZE; i++) {
        int p = lies_along(s, &s->leaves.at[i]);
        for (uint32_t k = i + 1; k < s->leaves.len && p >= 0; k++) {
            int q = lies_along(s, &s->leaves.at[k]);
            int64_t far = q < 0 || q == p ? 0 : step_along(s, &s->leaves.at[i], q), near = far ? step_along(s, &s->leaves.at[k], p) : 0;
            if (near && (conflicts(far) || conflicts(near))) return true;          /* one of them a vector: the loops go along the other */
        }
    }
    return false;
}
