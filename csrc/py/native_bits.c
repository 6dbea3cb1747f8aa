/* np.packbits and np.unpackbits along the last axis of arrays of bytes that lie there side by side. */
#include "py/native.h"
#include "run/bits.h"

static bool side_by_side(const HostArray *a)
{
    int last = a->rank - 1;
    return dtype_info[a->dtype].bytes == 1 && (a->stride[last] == 1 || a->shape[last] <= 1);
}

bool native_bits_fits(const HostCall *c) { return c->params[0] == c->arrays[0].rank - 1 && side_by_side(&c->arrays[0]) && side_by_side(&c->arrays[1]); }

void native_bits_run(const HostCall *c, bool pack, void *const *address)
{
    const HostArray *x = &c->arrays[0], *y = &c->arrays[1];
    int last = x->rank - 1;
    int64_t at[MAX_RANK] = {0}, m = x->shape[last], n = y->shape[last];
    bool little = c->params[1] != 0;
    const uint8_t *from = address[0];
    uint8_t *to = address[1];
    for (int d = 0; d < x->rank; d++)
        if (y->shape[d] == 0)
            return;
    for (;;) {
        if (pack)
            bits_pack(from, m, little, to);
        else
            bits_unpack(from, m, little, to, n);
        int d = last - 1;
        for (; d >= 0 && ++at[d] == x->shape[d]; d--) {
            from -= (x->shape[d] - 1) * x->stride[d];
            to -= (x->shape[d] - 1) * y->stride[d];
            at[d] = 0;
        }
        if (d < 0)
            return;
        from += x->stride[d];
        to += y->stride[d];
    }
}
