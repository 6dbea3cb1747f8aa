/* Tables of 16 numbers in registers, and AVX-512's operations on exponents. */
#include "gen/math.h"
#include <stdio.h>
#include <string.h>

const double inverse_table[16] = {0x1p0, 0x1.d4p-1, 0x1.bbp-1, 0x1.a4p-1, 0x1.9p-1, 0x1.7dp-1, 0x1.6cp-1, 0x1.5dp-1, 0x1.4ep-1, 0x1.41p-1,
        0x1.35p-1, 0x1.2ap-1, 0x1.1fp-1, 0x1.16p-1, 0x1.0dp-1, 0x1p-1};
const Table log_table[2] = {
    {{0, 0x1.7p-4, 0x1.287p-3, 0x1.95ap-3, 0x1.f99p-3, 0x1.2eap-2, 0x1.5d58p-2, 0x1.887p-2, 0x1.b57p-2,
        0x1.de18p-2, 0x1.028cp-1, 0x1.151cp-1, 0x1.286p-1, 0x1.38bp-1, 0x1.4988p-1, 0x1.62e4p-1},
     {0, 0x1.a615d6p-17, 0x1.4ef046p-17, 0x1.6b73dcp-17, 0x1.c6cb3cp-19, -0x1.d431eep-18, 0x1.eefacap-17,
        0x1.b2c194p-17, -0x1.7eee76p-20, -0x1.4a9106p-18, 0x1.2d6a96p-17, 0x1.fb794cp-20, -0x1.f7bd36p-17,
        -0x1.de8e68p-17, -0x1.4c7c96p-19, 0x1.7f7d1cp-20}},
    {{0, 0x1.700d30aeacp-4, 0x1.28753bc11ap-3, 0x1.95a5adcf7p-3, 0x1.f991c6cb3cp-3, 0x1.2e9e2bce12p-2,
        0x1.5d5bddf596p-2, 0x1.8873658328p-2, 0x1.b56fa04463p-2, 0x1.de16b56ef9p-2, 0x1.028d2d6a96p-1,
        0x1.151c3f6f298p-1, 0x1.285e0842cap-1, 0x1.38ae2171978p-1, 0x1.4987ace0da8p-1, 0x1.62e42fefa38p-1},
     {0, 0x1.c1e8da99ded32p-49, 0x1.7494e359302e6p-44, 0x1.7f22858a0ff6fp-47, -0x1.90d04cd7cc834p-44,
        0x1.4300c128d1dc2p-45, -0x1.a0b2a08a465dcp-47, -0x1.988e21f7fc497p-45, -0x1.bdab6b49ef99bp-44,
        0x1.e08cfe6fe4752p-47, 0x1.fa3fec303d08p-44, -0x1.edd97a293ae49p-45, 0x1.c1c4d866d5f22p-44,
        -0x1.18b7abb5569a4p-45, 0x1.d83ed15c6b2f4p-44, 0x1.ef35793c7673p-45}},
};
const Table log2_table[2] = {
    {{0, 0x1.098p-3, 0x1.abbp-3, 0x1.24ap-2, 0x1.6cbp-2, 0x1.b498p-2, 0x1.f808p-2, 0x1.1b18p-1, 0x1.3b8cp-1,
        0x1.58ep-1, 0x1.7504p-1, 0x1.8fc8p-1, 0x1.ab9p-1, 0x1.c31cp-1, 0x1.db68p-1, 0x1p0},
     {0, -0x1.c731ap-19, 0x1.654f64p-18, -0x1.96a762p-17, 0x1.ed0cbap-19, -0x1.158b74p-17, -0x1.a8b97ap-17,
        -0x1.7b6524p-21, -0x1.c72e0cp-18, -0x1.c40748p-17, -0x1.33b5d8p-17, 0x1.24c89ap-17, 0x1.51be16p-17,
        -0x1.d823p-17, 0x1.4903dap-17, 0}},
    {{0, 0x1.097e38ce6p-3, 0x1.abb2ca9ec8p-3, 0x1.249cd2b13dp-2, 0x1.6cb0f6865dp-2, 0x1.b495d4e918p-2,
        0x1.f804ae8d0dp-2, 0x1.1b17e849aep-1, 0x1.3b8b1c68fa8p-1, 0x1.58de3bf8b8p-1, 0x1.7502cc4a278p-1,
        0x1.8fc924c89bp-1, 0x1.ab9151be168p-1, 0x1.c31a27dd008p-1, 0x1.db694903d98p-1, 0x1p0},
     {0, 0x1.924ae921f7ecap-45, -0x1.71b3a63cddadfp-44, -0x1.49d97df07e357p-45, -0x1.c57f2495fb7fap-44,
        0x1.7dd4bcb97f73cp-44, -0x1.7f33943464056p-45, -0x1.ecf4dff1e8ea2p-44, -0x1.12d25b3252647p-45,
        0x1.258110a38f4e9p-44, 0x1.c029a071eeb1p-44, -0x1.bdc81c4db3134p-44, 0x1.badba7fbb3d2p-46,
        0x1.a4de3424a2624p-44, -0x1.a3c89a2cf3516p-44, 0}},
};
const Table log10_table[2] = {
    {{0, 0x1.3fcp-5, 0x1.018p-4, 0x1.606p-4, 0x1.b72p-4, 0x1.06ep-3, 0x1.2f7p-3, 0x1.54ep-3, 0x1.7bfp-3,
        0x1.9f4p-3, 0x1.c12p-3, 0x1.e16p-3, 0x1.0168p-2, 0x1.0f98p-2, 0x1.1e38p-2, 0x1.344p-2},
     {0, -0x1.08399cp-17, 0x1.9924ap-26, -0x1.19422cp-17, 0x1.cd1716p-20, -0x1.90eb1p-17, 0x1.80e7a8p-18,
        0x1.be6332p-20, 0x1.def04cp-18, 0x1.9c03f4p-18, 0x1.9831ccp-17, 0x1.ea93f4p-18, 0x1.efb50cp-17,
        -0x1.a0f002p-19, 0x1.e209bep-18, 0x1.3509f8p-18}},
    {{0, 0x1.3faf7c663p-5, 0x1.0180066494p-4, 0x1.605735ee98p-4, 0x1.b721cd1714p-4, 0x1.06d9bc53c2p-3,
        0x1.2f7301cf4ep-3, 0x1.54e0df3198p-3, 0x1.7bf3bde09ap-3, 0x1.9f433807e8p-3, 0x1.c12660c73p-3,
        0x1.e163d527e6p-3, 0x1.016bdf6a18p-2, 0x1.0f972f87ffp-2, 0x1.1e39e209bdp-2, 0x1.34413509f8p-2},
     {0, 0x1.83662f181f53fp-47, -0x1.7e8c80c5d00f2p-44, 0x1.7c3cf23a17d9fp-46, 0x1.7e295f660b9dap-44,
        0x1.2818deee1fa45p-44, 0x1.0f5c70d1a6341p-44, 0x1.0ca922cd70acap-44, -0x1.9fc01708d86e7p-48,
        -0x1.f2832955d7d26p-45, 0x1.a1825c1fa039ep-44, 0x1.19d69f22e93e4p-44, 0x1.77bf652b01c58p-50,
        0x1.eac1871dbdbbfp-45, 0x1.5ffaaed015cf1p-47, -0x1.80433b83b532ap-44}},
};
const Table exp_table[2] = {
    {{0x1p0, 0x1.0b5586p0, 0x1.172b84p0, 0x1.2387a6p0, 0x1.306fep0, 0x1.3dea64p0, 0x1.4bfdaep0, 0x1.5ab07ep0,
        0x1.6a09e6p0, 0x1.7a1148p0, 0x1.8ace54p0, 0x1.9c4918p0, 0x1.ae89fap0, 0x1.c199bep0, 0x1.d5818ep0, 0x1.ea4afap0},
     {0, 0x1.9f3122p-25, -0x1.c15742p-27, 0x1.ceac48p-25, 0x1.4636e2p-25, 0x1.824684p-25, -0x1.593abcp-25,
        -0x1.5bd5ecp-27, 0x1.9fcef4p-26, -0x1.829fdp-25, 0x1.15506ep-27, 0x1.51f848p-27, -0x1.a94b14p-26,
        -0x1.3d56b2p-27, -0x1.822dbcp-27, 0x1.52486cp-27}},
    {{0x1p0, 0x1.0b5586cf9890fp0, 0x1.172b83c7d517bp0, 0x1.2387a6e756238p0, 0x1.306fe0a31b715p0,
        0x1.3dea64c123422p0, 0x1.4bfdad5362a27p0, 0x1.5ab07dd485429p0, 0x1.6a09e667f3bcdp0, 0x1.7a11473eb0187p0,
        0x1.8ace5422aa0dbp0, 0x1.9c49182a3f09p0, 0x1.ae89f995ad3adp0, 0x1.c199bdd85529cp0, 0x1.d5818dcfba487p0,
        0x1.ea4afa2a490dap0},
     {0, 0x1.8a62e4adc610bp-54, -0x1.19041b9d78a76p-55, 0x1.9b07eb6c70573p-54, 0x1.6f46ad23182e4p-55,
        0x1.ada0911f09ebcp-55, 0x1.d4397afec42e2p-56, 0x1.6324c054647adp-54, -0x1.bdd3413b26456p-54,
        -0x1.41577ee04992fp-55, 0x1.6e9f156864b27p-54, 0x1.c7c46b071f2bep-56, 0x1.7a1cd345dcc81p-54,
        0x1.11065895048ddp-55, 0x1.2ed02d75b3707p-55, -0x1.e9c23179c2893p-54}},
};

const double fine_inverse[32] = {0x1p0, 0x1.e8p-1, 0x1.d8p-1, 0x1.dp-1, 0x1.cp-1, 0x1.b8p-1, 0x1.a8p-1, 0x1.ap-1, 0x1.98p-1, 0x1.88p-1, 0x1.8p-1, 0x1.78p-1, 0x1.7p-1, 0x1.68p-1,
    0x1.6p-1, 0x1.58p-1, 0x1.5p-1, 0x1.48p-1, 0x1.48p-1, 0x1.4p-1, 0x1.38p-1, 0x1.3p-1, 0x1.3p-1, 0x1.28p-1, 0x1.2p-1, 0x1.2p-1, 0x1.18p-1, 0x1.1p-1,
    0x1.1p-1, 0x1.08p-1, 0x1.08p-1, 0x1p-1};
const double fine_log2_hi[32] = {0, 0x1.1bcp-4, 0x1.e0cp-4, 0x1.22ep-3, 0x1.8a9p-3, 0x1.bfcp-3, 0x1.16ap-2, 0x1.32cp-2, 0x1.4f7p-2, 0x1.8a88p-2, 0x1.a9p-2, 0x1.c818p-2,
    0x1.e7ep-2, 0x1.042cp-1, 0x1.14c4p-1, 0x1.25cp-1, 0x1.3724p-1, 0x1.48fp-1, 0x1.48fp-1, 0x1.5b2cp-1, 0x1.6dep-1, 0x1.811p-1, 0x1.811p-1,
    0x1.94c4p-1, 0x1.a9p-1, 0x1.a9p-1, 0x1.bddp-1, 0x1.d338p-1, 0x1.d338p-1, 0x1.e944p-1, 0x1.e944p-1, 0x1p0};
const double fine_log2_lo[32] = {0, -0x1.9ab4p-17, -0x1.ca2e1ap-17, -0x1.48f554p-17, -0x1.9fd502p-17, 0x1.9eap-17, -0x1.fd64ep-17, -0x1.1c8f12p-22, -0x1.134c4ep-20,
    0x1.80abfcp-18, -0x1.a39fbep-20, 0x1.dc2d46p-18, -0x1.40358ep-19, -0x1.5a32c2p-20, 0x1.60fe68p-17, 0x1.408c78p-18, -0x1.d448f8p-17,
    -0x1.0e6ce8p-17, -0x1.0e6ce8p-17, 0x1.ed0cbap-20, -0x1.eac382p-20, -0x1.6b9026p-19, -0x1.6b9026p-19, -0x1.78b6d4p-17, -0x1.a39fbep-19,
    -0x1.a39fbep-19, -0x1.62336ap-17, 0x1.20a6dep-21, 0x1.20a6dep-21, 0x1.2c8a72p-17, 0x1.2c8a72p-17, 0};

bool has_tables(const Emit *e) { return e->level == CPU_AVX512; }

/* ---- pieces of 512 bits ---- */
static unsigned register_lanes(Dtype dt) { return 64u / dtype_info[dt].bytes; }

/* Lanes `from` and on of a vector (poison past its end), as `n` lanes. */
static Value take(Emit *e, Value a, unsigned from, unsigned n)
{
    LLVMTypeRef i32 = LLVMInt32TypeInContext(e->ctx);
    LLVMValueRef lane[256];
    unsigned have = LLVMGetVectorSize(LLVMTypeOf(a));
    if (from == 0 && have == n)
        return a;
    for (unsigned i = 0; i < n; i++)
        lane[i] = from + i < have ? LLVMConstInt(i32, from + i, 0) : LLVMGetPoison(i32);
    return LLVMBuildShuffleVector(e->b, a, LLVMGetPoison(LLVMTypeOf(a)), LLVMConstVector(lane, n), "");
}

static Value join(Emit *e, Value a, Value b)
{
    LLVMTypeRef i32 = LLVMInt32TypeInContext(e->ctx);
    LLVMValueRef lane[256];
    unsigned n = 2 * LLVMGetVectorSize(LLVMTypeOf(a));
    for (unsigned i = 0; i < n; i++)
        lane[i] = LLVMConstInt(i32, i, 0);
    return LLVMBuildShuffleVector(e->b, a, b, LLVMConstVector(lane, n), "");
}

/* An operation on whole registers: `args` are theirs. */
typedef Value RegisterFn(Emit *e, Dtype dt, Value *args, const void *how);

static Value halves(Emit *e, Dtype dt, RegisterFn *fn, Value *args, int n, const void *how, unsigned from, unsigned lanes)
{
    unsigned width = register_lanes(dt);
    if (lanes > width)
        return join(e, halves(e, dt, fn, args, n, how, from, lanes / 2), halves(e, dt, fn, args, n, how, from + lanes / 2, lanes / 2));
    Value piece[3];
    for (int i = 0; i < n; i++)
        piece[i] = take(e, args[i], from, width);
    return take(e, fn(e, dt, piece, how), 0, lanes);
}

/* fn on values of e->lanes lanes: in pieces, or with idle lanes; a scalar is lane 0, so it has a vector's bits. */
static Value by_registers(Emit *e, Dtype dt, RegisterFn *fn, Value *args, int n, const void *how)
{
    if (e->lanes)
        return halves(e, dt, fn, args, n, how, 0, e->lanes);
    LLVMValueRef zero = LLVMConstInt(LLVMInt32TypeInContext(e->ctx), 0, 0);
    Value one[3];
    for (int i = 0; i < n; i++) {
        LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(args[i]), register_lanes(dt));
        one[i] = LLVMBuildInsertElement(e->b, LLVMConstNull(type), args[i], zero, "");
    }
    return LLVMBuildExtractElement(e->b, fn(e, dt, one, how), zero, "");
}

/* ---- intrinsics ---- */
static Value call(Emit *e, Dtype dt, const char *name, const char *suffix32, const char *suffix64, Value *args, unsigned n)
{
    char full[64];
    snprintf(full, sizeof full, "llvm.x86.avx512.%s.%s.512", name, row_of(dt) ? suffix64 : suffix32);
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->mod, LLVMLookupIntrinsicID(full, strlen(full)), NULL, 0);
    return LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, args, n, "");
}

static Value integer(Emit *e, unsigned bits, uint64_t x) { return LLVMConstInt(LLVMIntTypeInContext(e->ctx, bits), x, 0); }
/* All lanes; rounding as the thread's. */
static Value whole(Emit *e, Dtype dt) { return integer(e, register_lanes(dt), UINT64_MAX); }
static Value current(Emit *e) { return integer(e, 32, 4); }

static Value constant_register(Emit *e, Dtype dt, const double *c)
{
    LLVMValueRef lane[16];
    unsigned lanes = e->lanes;
    e->lanes = 0;
    for (unsigned i = 0; i < register_lanes(dt); i++)
        lane[i] = v_f(e, dt, c[i]);
    e->lanes = lanes;
    return LLVMConstVector(lane, register_lanes(dt));
}

static Value lookup_pair(Emit *e, Dtype dt, Value *args, const void *how)
{
    const double *table = how;
    return call(e, dt, "vpermi2var", "ps", "pd", (Value[]){constant_register(e, dt, table), args[0], constant_register(e, dt, table + register_lanes(dt))}, 3);
}

static Value lookup_register(Emit *e, Dtype dt, Value *args, const void *how)
{
    return call(e, dt, "permvar", "sf", "df", (Value[]){constant_register(e, dt, how), args[0]}, 2);
}

static Value scalef_register(Emit *e, Dtype dt, Value *args, const void *how)
{
    (void)how;
    return call(e, dt, "mask.scalef", "ps", "pd", (Value[]){args[0], args[1], args[0], whole(e, dt), current(e)}, 5);
}

static Value getexp_register(Emit *e, Dtype dt, Value *args, const void *how)
{
    (void)how;
    return call(e, dt, "mask.getexp", "ps", "pd", (Value[]){args[0], args[0], whole(e, dt), current(e)}, 4);
}

/* Mantissa in [1, 2). */
enum { NO_NEGATIVES = 8, NO_SIGN = 4 };
static Value getmant_register(Emit *e, Dtype dt, Value *args, const void *how)
{
    return call(e, dt, "mask.getmant", "ps", "pd", (Value[]){args[0], integer(e, 32, *(const unsigned *)how), args[0], whole(e, dt), current(e)}, 5);
}

static Value inverse_register(Emit *e, Dtype dt, Value *args, const void *how)
{
    (void)how;
    return call(e, dt, "rcp14", "ps", "pd", (Value[]){args[0], args[0], whole(e, dt)}, 3);
}

static Value convert_register(Emit *e, Dtype dt, Value *args, const void *how)
{
    Dtype out = *(const Dtype *)how;
    LLVMTypeRef type = LLVMVectorType(LLVMIntTypeInContext(e->ctx, 8u * dtype_info[out].bytes), register_lanes(dt));
    Value all[] = {args[0], LLVMConstNull(type), whole(e, dt), current(e)};
    return call(e, dt, "mask", "cvttps2dq", out == DT_int64 ? "cvttpd2qq" : "cvttpd2dq", all, 4);
}

static Value fixup_register(Emit *e, Dtype dt, Value *args, const void *how)
{
    LLVMValueRef lane[16];
    for (unsigned i = 0; i < register_lanes(dt); i++)
        lane[i] = integer(e, 8u * dtype_info[dt].bytes, *(const Answers *)how);
    Value table = LLVMConstVector(lane, register_lanes(dt));
    return call(e, dt, "mask.fixupimm", "ps", "pd", (Value[]){args[0], args[1], table, integer(e, 32, 0), whole(e, dt), current(e)}, 6);
}

Value table_lookup(Emit *e, Dtype dt, const double *table, Value index)
{
    return by_registers(e, dt, row_of(dt) ? lookup_pair : lookup_register, &index, 1, table);
}

Value table_lookup32(Emit *e, const double *table, Value index) { return by_registers(e, DT_float32, lookup_pair, &index, 1, table); }

Value x86_scalef(Emit *e, Dtype dt, Value y, Value n) { return by_registers(e, dt, scalef_register, (Value[]){y, n}, 2, NULL); }
Value x86_getexp(Emit *e, Dtype dt, Value x) { return by_registers(e, dt, getexp_register, &x, 1, NULL); }
Value x86_getmant(Emit *e, Dtype dt, Value x) { return by_registers(e, dt, getmant_register, &x, 1, &(unsigned){NO_NEGATIVES}); }
Value x86_getmant_abs(Emit *e, Dtype dt, Value x) { return by_registers(e, dt, getmant_register, &x, 1, &(unsigned){NO_SIGN}); }
Value x86_convert(Emit *e, Dtype dt, Value x, Dtype out) { return by_registers(e, dt, convert_register, &x, 1, &out); }
Value x86_fixup(Emit *e, Dtype dt, Value y, Value x, Answers answers) { return by_registers(e, dt, fixup_register, (Value[]){y, x}, 2, &answers); }

Value x86_inverse(Emit *e, Dtype dt, Value x) { return by_registers(e, dt, inverse_register, &x, 1, NULL); }

Value x86_quotient(Emit *e, Value a, Value b)
{
    Value inverse = x86_inverse(e, DT_float32, b), q = v_fmul(e, a, inverse);
    return v_madd(e, v_madd(e, v_fneg(e, q), b, a), inverse, q);
}
