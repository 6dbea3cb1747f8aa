/* Division of vectors of integers by one number of the run: a factor and shifts are found once, outside of the loop, an element costs a product
 * (Granlund and Montgomery, Division by Invariant Integers using Multiplication, 1994).
 *
 * With D = |d| and 2^(l - 1) < D <= 2^l, floor(u / D) of u <= 2^N is floor(u F / 2^(N + l)) for F = 2^(N + l) / D, rounded up. Signed elements have
 * N = bits - 1: u is the quotient's absolute value times D, less one where it is negative, since floor(-u / D) = -1 - floor((u - 1) / D). F fits. Unsigned
 * ones have N = bits, and F one bit too many, which is added by hand; bytes take F = 2^16 / D, rounded up, of 16 bits, and D = 1 by itself.
 * A d of 0 gives 0, as in NumPy. */
#include "gen/divisor.h"

static LLVMValueRef leading_zeros(Emit *e, LLVMValueRef x)
{
    LLVMTypeRef type = LLVMTypeOf(x);
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->mod, LLVMLookupIntrinsicID("llvm.ctlz", 9), &type, 1);
    LLVMValueRef args[] = {x, LLVMConstInt(LLVMInt1TypeInContext(e->ctx), 0, 0)};
    return LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, args, 2, "");
}

/* ---- once: scalars of 64 bits ---- */

static LLVMValueRef word(Emit *e, int64_t x) { return v_i(e, DT_uint64, x); }

typedef struct { LLVMValueRef digit, rest; } Digit;

/* The upper 32 bits of (m 2^32) / d, for m < d with d's uppermost bit set, and what they leave: d's upper half finds the digit or one or two more
 * (Knuth, The Art of Computer Programming 4.3.1, D). */
static Digit next_digit(Emit *e, LLVMValueRef m, LLVMValueRef d)
{
    LLVMValueRef high = v_lshr(e, d, 32), low = v_and(e, d, word(e, UINT32_MAX)), zero = word(e, 0);
    LLVMValueRef q = LLVMBuildUDiv(e->b, m, high, ""), r = v_sub(e, m, v_mul(e, q, high));
    for (int k = 0; k < 2; k++) {
        LLVMValueRef large = v_or(e, v_icmp(e, LLVMIntNE, v_lshr(e, q, 32), zero), v_icmp(e, LLVMIntUGT, v_mul(e, q, low), v_shl(e, r, 32)));
        large = v_and(e, large, v_icmp(e, LLVMIntEQ, v_lshr(e, r, 32), zero));
        q = v_select(e, large, v_sub(e, q, word(e, 1)), q);
        r = v_select(e, large, v_add(e, r, high), r);
    }
    return (Digit){q, v_sub(e, v_shl(e, m, 32), v_mul(e, q, d))};
}

/* floor(m 2^64 / d) for m < d, one more if up is set and it is not exact. */
static LLVMValueRef divide_128(Emit *e, LLVMValueRef m, LLVMValueRef d, bool up)
{
    LLVMValueRef shift = leading_zeros(e, d), scaled = v_shl_v(e, d, shift);
    Digit first = next_digit(e, v_shl_v(e, m, shift), scaled), second = next_digit(e, first.rest, scaled);
    LLVMValueRef q = v_add(e, v_shl(e, first.digit, 32), second.digit);
    return up ? v_add(e, q, v_zext(e, v_icmp(e, LLVMIntNE, second.rest, word(e, 0)), DT_uint64)) : q;
}

static Divisor find_signed(Emit *e, Dtype dt, LLVMValueRef d)
{
    int bits = 8 * dtype_info[dt].bytes;
    LLVMValueRef s = v_sext(e, d, DT_int64), minus = v_ashr(e, s, 63), size = v_sub(e, v_xor(e, s, minus), minus), zero = word(e, 0), one = word(e, 1);
    size = v_select(e, v_icmp(e, LLVMIntEQ, size, zero), one, size);
    LLVMValueRef l = v_sub(e, word(e, 64), leading_zeros(e, v_sub(e, size, one)));
    Divisor by = {.minus = v_ashr(e, d, bits - 1), .some = v_select(e, v_icmp(e, LLVMIntEQ, d, v_i(e, dt, 0)), v_i(e, dt, 0), v_i(e, dt, -1))};
    if (bits < 64) {
        by.shift = v_add(e, l, word(e, bits - 1));
        by.factor = LLVMBuildUDiv(e->b, v_add(e, v_shl_v(e, one, by.shift), v_sub(e, size, one)), size, "");
        return by;
    }
    LLVMValueRef is_one = v_icmp(e, LLVMIntEQ, size, one);
    by.shift = v_select(e, is_one, zero, v_sub(e, l, one));
    by.factor = v_select(e, is_one, zero, divide_128(e, v_select(e, is_one, zero, v_shl_v(e, one, by.shift)), size, true));
    by.whole = v_select(e, is_one, word(e, -1), zero);
    return by;
}

static Divisor find_byte(Emit *e, LLVMValueRef d)
{
    LLVMValueRef size = v_zext(e, d, DT_uint64), zero = word(e, 0), one = word(e, 1), tiny = v_icmp(e, LLVMIntULE, size, one);
    LLVMValueRef factor = LLVMBuildUDiv(e->b, v_add(e, size, word(e, UINT16_MAX)), v_select(e, tiny, one, size), "");
    return (Divisor){.factor = v_select(e, tiny, zero, factor), .whole = v_select(e, v_icmp(e, LLVMIntEQ, size, one), word(e, -1), zero),
                     .some = v_select(e, v_icmp(e, LLVMIntEQ, size, zero), v_i(e, DT_uint8, 0), v_i(e, DT_uint8, -1))};
}

static Divisor find_unsigned(Emit *e, Dtype dt, LLVMValueRef d)
{
    if (dt == DT_uint8) return find_byte(e, d);
    int bits = 8 * dtype_info[dt].bytes;
    LLVMValueRef size = v_zext(e, d, DT_uint64), zero = word(e, 0), one = word(e, 1), none = v_icmp(e, LLVMIntEQ, size, zero);
    size = v_select(e, none, one, size);
    LLVMValueRef l = v_sub(e, word(e, 64), leading_zeros(e, v_sub(e, size, one))), is_one = v_icmp(e, LLVMIntEQ, l, zero);
    Divisor by = {.some = v_select(e, none, v_i(e, dt, 0), v_i(e, dt, -1))};
    by.first = v_select(e, is_one, zero, one);
    by.shift = v_select(e, is_one, zero, v_sub(e, l, one));
    LLVMValueRef above = v_sub(e, v_shl(e, v_shl_v(e, one, by.shift), 1), size);      /* 2^l - D, 0 where l is 64 and 2^l is */
    above = v_select(e, is_one, zero, above);
    by.factor = bits == 64 ? divide_128(e, above, size, false) : LLVMBuildUDiv(e->b, v_shl(e, above, bits & 63), size, "");
    by.factor = v_select(e, is_one, zero, v_add(e, by.factor, one));
    return by;
}

Divisor divisor_find(Emit *e, Dtype dt, LLVMValueRef d)
{
    return dtype_info[dt].kind == DKIND_INT ? find_signed(e, dt, d) : find_unsigned(e, dt, d);
}

/* ---- per element ---- */

/* Splats are made where they are used: there LLVM sees that all lanes shift alike, and it moves them out of the loop itself. */
static LLVMValueRef all_lanes(Emit *e, LLVMValueRef scalar, Dtype to)
{
    unsigned lanes = e->lanes;
    e->lanes = 0;
    scalar = v_sext(e, scalar, to);
    e->lanes = lanes;
    return v_splat(e, scalar);
}

/* The upper 64 bits of a product. */
static LLVMValueRef multiply_high(Emit *e, LLVMValueRef u, LLVMValueRef by)
{
    LLVMValueRef low = v_i(e, DT_uint64, UINT32_MAX), u0 = v_and(e, u, low), u1 = v_lshr(e, u, 32), m0 = v_and(e, by, low), m1 = v_lshr(e, by, 32);
    LLVMValueRef middle = v_add(e, v_mul(e, u1, m0), v_lshr(e, v_mul(e, u0, m0), 32));
    LLVMValueRef other = v_add(e, v_mul(e, u0, m1), v_and(e, middle, low));
    return v_add(e, v_add(e, v_mul(e, u1, m1), v_lshr(e, middle, 32)), v_lshr(e, other, 32));
}

/* floor(u F / 2^shift) of 32 bits, shift from 31 on (NULL: 32), as pairs of elements in words: products of the lower and of the upper ones, which need no
 * shuffles. */
static LLVMValueRef product_of_pairs(Emit *e, LLVMValueRef u, LLVMValueRef factor, LLVMValueRef shift)
{
    LLVMTypeRef type = LLVMTypeOf(u);
    e->lanes /= 2;
    LLVMValueRef pairs = LLVMBuildBitCast(e->b, u, v_type(e, DT_uint64), ""), low = v_i(e, DT_uint64, UINT32_MAX), f = all_lanes(e, factor, DT_uint64);
    LLVMValueRef p0 = v_mul(e, v_and(e, pairs, low), f), p1 = v_mul(e, v_lshr(e, pairs, 32), f), both;
    if (shift) {
        LLVMValueRef n = all_lanes(e, shift, DT_uint64);
        both = v_or(e, v_lshr_v(e, p0, n), v_shl(e, v_lshr_v(e, p1, n), 32));
    } else
        both = v_or(e, v_lshr(e, p0, 32), v_and(e, p1, v_not(e, low)));
    e->lanes *= 2;
    return LLVMBuildBitCast(e->b, both, type, "");
}

/* floor(u F / 2^shift) of less than 64 bits; shift NULL: as many as there are. */
static LLVMValueRef product(Emit *e, Dtype dt, LLVMValueRef u, LLVMValueRef factor, LLVMValueRef shift)
{
    int bytes = dtype_info[dt].bytes;
    if (bytes == 4 && e->lanes % 2 == 0) return product_of_pairs(e, u, factor, shift);
    Dtype wide = bytes == 1 ? DT_uint16 : bytes == 2 ? DT_uint32 : DT_uint64;
    LLVMValueRef p = v_mul(e, v_zext(e, u, wide), all_lanes(e, factor, wide));
    return v_sext(e, shift ? v_lshr_v(e, p, all_lanes(e, shift, wide)) : v_lshr(e, p, 8 * bytes), dt);
}

static LLVMValueRef floor_signed(Emit *e, Dtype dt, const Divisor *by, LLVMValueRef a)
{
    int bits = 8 * dtype_info[dt].bytes;
    LLVMValueRef minus = all_lanes(e, by->minus, dt), turned = v_sub(e, v_xor(e, a, minus), minus);
    LLVMValueRef sign = v_ashr(e, v_and(e, turned, v_not(e, v_and(e, a, minus))), bits - 1), u = v_xor(e, turned, sign), q;    /* the least number turned is 2^N, no negative one */
    if (bits < 64)
        q = product(e, dt, u, by->factor, by->shift);
    else {
        q = v_lshr_v(e, multiply_high(e, u, all_lanes(e, by->factor, dt)), all_lanes(e, by->shift, dt));
        q = v_or(e, q, v_and(e, u, all_lanes(e, by->whole, dt)));
    }
    return v_xor(e, q, sign);
}

/* The upper halves of products of 16 bits, by the instruction for that. */
static LLVMValueRef high_words(Emit *e, LLVMValueRef u, LLVMValueRef factor)
{
    return v_zext(e, v_lshr(e, v_mul(e, v_zext(e, u, DT_uint32), v_zext(e, factor, DT_uint32)), 16), DT_uint16);
}

/* Quotients of bytes as pairs of them in words, without shuffles. */
static LLVMValueRef floor_bytes(Emit *e, const Divisor *by, LLVMValueRef a)
{
    LLVMValueRef q, whole = v_and(e, a, all_lanes(e, by->whole, DT_uint8));
    if (e->lanes % 2 || !e->lanes)
        q = v_zext(e, high_words(e, v_zext(e, a, DT_uint16), all_lanes(e, by->factor, DT_uint16)), DT_uint8);
    else {
        LLVMTypeRef type = LLVMTypeOf(a);
        e->lanes /= 2;
        LLVMValueRef pairs = LLVMBuildBitCast(e->b, a, v_type(e, DT_uint16), ""), f = all_lanes(e, by->factor, DT_uint16);
        LLVMValueRef low = high_words(e, v_and(e, pairs, v_i(e, DT_uint16, UINT8_MAX)), f), high = high_words(e, v_lshr(e, pairs, 8), f);
        q = LLVMBuildBitCast(e->b, v_or(e, low, v_shl(e, high, 8)), type, "");
        e->lanes *= 2;
    }
    return v_or(e, q, whole);       /* one of them is 0 */
}

static LLVMValueRef floor_unsigned(Emit *e, Dtype dt, const Divisor *by, LLVMValueRef a)
{
    if (dt == DT_uint8) return floor_bytes(e, by, a);
    LLVMValueRef t = dtype_info[dt].bytes == 8 ? multiply_high(e, a, all_lanes(e, by->factor, dt)) : product(e, dt, a, by->factor, NULL);
    LLVMValueRef rest = v_lshr_v(e, v_sub(e, a, t), all_lanes(e, by->first, dt));
    return v_lshr_v(e, v_add(e, rest, t), all_lanes(e, by->shift, dt));
}

LLVMValueRef divisor_floor(Emit *e, Dtype dt, const Divisor *by, LLVMValueRef a)
{
    LLVMValueRef q = dtype_info[dt].kind == DKIND_INT ? floor_signed(e, dt, by, a) : floor_unsigned(e, dt, by, a);
    return dt == DT_uint8 ? q : v_and(e, q, all_lanes(e, by->some, dt));
}

LLVMValueRef divisor_remainder(Emit *e, Dtype dt, const Divisor *by, LLVMValueRef a, LLVMValueRef d)
{
    LLVMValueRef q = dtype_info[dt].kind == DKIND_INT ? floor_signed(e, dt, by, a) : floor_unsigned(e, dt, by, a);
    return v_and(e, v_sub(e, a, v_mul(e, q, v_splat(e, d))), all_lanes(e, by->some, dt));
}
