/* Bytes in records of three, as the colours of a pixel: where a kernel reads all three of each record, the records are loaded once, each into a word
 * of 32 bits, whose shifts the fields are. Each field by itself would be three loads and shuffles. */
#include "gen/target.h"
#include "gen/val.h"

enum { FIELDS = 3, RECORDS = 16 };                /* records that are taken apart at once: 48 bytes, in four pieces of 12 */

int field_of(const Gen *g, uint32_t access)
{
    const Access *all = g->k->accesses.at, *x = &all[access];
    const Array *array = &g->k->arrays.at[x->array];
    uint32_t leader = leader_of(g, access), found = 0;
    int64_t low = x->off_lit;
    if (dtype_info[array->dtype].bytes != 1 || array->written || array->kind != ARRAY_OPERAND || x->nindex || g->k->checked) return -1;
    if (g->e.level != CPU_AVX2 && g->e.level != CPU_AVX512) return -1;
    for (uint32_t i = 0; i < g->k->accesses.len; i++)
        if (!all[i].nindex && leader_of(g, i) == leader && all[i].off_lit < low) low = all[i].off_lit;
    for (uint32_t i = 0; i < g->k->accesses.len; i++) {
        if (leader_of(g, i) != leader) continue;
        if (all[i].nindex || all[i].off_lit >= low + FIELDS) return -1;
        found |= 1u << (all[i].off_lit - low);
    }
    return found == (1u << FIELDS) - 1 ? (int)(x->off_lit - low) : -1;
}

static LLVMValueRef shuffle(Gen *g, LLVMValueRef a, LLVMValueRef b, const int *from, unsigned n)
{
    LLVMValueRef take[256];
    for (unsigned i = 0; i < n; i++) take[i] = from[i] < 0 ? LLVMGetPoison(g->i32) : LLVMConstInt(g->i32, (unsigned)from[i], 0);
    return LLVMBuildShuffleVector(g->e.b, a, b, LLVMConstVector(take, n), "");
}

/* 16 records as words whose highest byte is 0: pieces of 12 bytes into pieces of 16, then bytes within these. */
static LLVMValueRef records(Gen *g, LLVMValueRef ptr)
{
    LLVMTypeRef half = LLVMVectorType(g->i32, 8), bytes = LLVMVectorType(g->i8, 4 * RECORDS);
    LLVMValueRef low = LLVMBuildLoad2(g->e.b, half, ptr, ""), high = LLVMBuildLoad2(g->e.b, half, byte_offset(g, ptr, int64_const(g, 16)), "");
    int words[RECORDS], spread[4 * RECORDS];
    LLVMSetAlignment(low, 1);
    LLVMSetAlignment(high, 1);
    for (int i = 0; i < RECORDS; i++) {
        int at = i / 4 * 3 + i % 4;                /* of the 12 words */
        words[i] = i % 4 == 3 ? -1 : at < 8 ? at : at + 4;
    }
    for (int i = 0; i < 4 * RECORDS; i++) spread[i] = i % 4 == 3 ? 4 * RECORDS : i / 16 * 16 + i % 16 / 4 * 3 + i % 4;
    LLVMValueRef pieces = LLVMBuildBitCast(g->e.b, shuffle(g, low, high, words, RECORDS), bytes, "");
    return LLVMBuildBitCast(g->e.b, shuffle(g, pieces, LLVMConstNull(bytes), spread, 4 * RECORDS), LLVMVectorType(g->i32, RECORDS), "");
}

LLVMValueRef field_load(Gen *g, uint32_t access, LLVMValueRef ptr, int field, int depth)
{
    Memo *memo = &g->scope[depth].records[leader_of(g, access)];
    LLVMValueRef first = byte_offset(g, ptr, int64_const(g, -field)), words = memo->v;
    if (memo->stamp != g->scope[depth].stamp) {
        words = records(g, first);
        for (unsigned have = RECORDS; have < g->e.lanes; have += RECORDS) {
            int side[256];
            for (unsigned i = 0; i < have + RECORDS; i++) side[i] = (int)i;
            LLVMValueRef next = records(g, byte_offset(g, first, int64_const(g, FIELDS * have)));
            if (have > RECORDS) {                  /* a shuffle wants two of one length */
                int wide[256];
                for (unsigned i = 0; i < have; i++) wide[i] = i < RECORDS ? (int)i : -1;
                next = shuffle(g, next, next, wide, have);
            }
            words = shuffle(g, words, next, side, have + RECORDS);
        }
        *memo = (Memo){g->scope[depth].stamp, words};
    }
    return LLVMBuildTrunc(g->e.b, v_lshr(&g->e, words, 8 * field), LLVMVectorType(g->i8, g->e.lanes), "");
}
