/* The kernel form: what the scheduler makes, the interpreter runs and the code generator compiles. One form for all devices.
 *
 * A Kernel is self-contained: flat arrays, no pointers into a graph, no addresses, so its bytes are its identity (hash, text,
 * key of the code caches). It is called as
 *
 *     void kernel(const int64_t *args, int64_t begin, int64_t end, char *scratch)
 *
 * args holds the pointers of its operands, then run-time sizes, strides and offsets, in the order its fields name them. Grid
 * points are independent of each other; begin..end is a range of the row-major index over the leading grid FORs (1 point if
 * there are none). scratch is private to the running worker.
 *
 * The body is a tree of statements in pre-order. A FOR runs over an axis (a whole one, its blocks, or the inside of the current
 * block); a vector FOR takes `lanes` consecutive coordinates at once, with a masked tail. Statements use values (Val), an SSA
 * DAG: a Val is evaluated where a statement first uses it in the body of a FOR and keeps its value for the rest of that body
 * instance; a value that does not depend on a FOR's axis (nor on a state or an array changed in it) may be hoisted out of it.
 * An operand array that a kernel writes is read in it only at the very Access that writes it, before the write, or at one that is
 * `apart` from all that do (opt/buffers.c sees to it), so loads may move up to the start of their body. Scratch arrays are read after they were
 * written in statement order, in another FOR; so are `ordered` arrays, which a body may also read before it writes them, or at an
 * Access that it is still to write.
 *
 * A state is a reduction in progress: INIT sets the identity, REDUCE combines values into it, VAL_STATE reads it. Where the vector
 * FOR is inside the INIT's body the state is one value (the generator keeps one per lane and combines them, halving, after
 * the FOR); where INIT is inside the vector FOR the state has a value per lane. Reading a state inside the FOR that reduces
 * it is a scan: that FOR must be sequential (lanes 0). A vector FOR that reduces an argmax runs over less than 2^31 coordinates,
 * and takes less than 2^16 vectors for them.
 *
 * Since a Val is evaluated once per body instance, one that reads a state (or a scratch array) is not used again in that body after
 * a REDUCE (a store) has changed it: kernel_verify refuses it. A blocked axis runs as BLOCKS and, inside, WITHIN or FULL and REST, an unblocked one
 * as WHOLE; an Access moves only along axes that run where it is used (but for the three of a DOT). */
#pragma once
#include "base/arena.h"
#include "base/text.h"
#include "ir/ir.h"

#define KERNEL_MAX_AXES 12
#define KERNEL_MAX_INDEX 8
#define KERNEL_MAX_LANES 256

typedef struct { int64_t lit; int32_t arg; } Size;          /* arg >= 0: args[arg], else lit */
#define SIZE(n) ((Size){ .lit = (n), .arg = -1 })
static inline int64_t size_value(Size s, const int64_t *args) { return s.arg >= 0 ? args[s.arg] : s.lit; }

/* An axis that follows runs only up to a coordinate that depends on the current block, number b, of the (blocked) axis `leader`: (b + 1) * its block +
 * lead, or its own size if that is less (FOLLOW_TO); or from there on to its size, its coordinate 0 being the first of these (FOLLOW_REST). lead >= 0. */
typedef enum { FOLLOW_NONE, FOLLOW_TO, FOLLOW_REST } Follow;
typedef struct {
    Size size;
    Size block;                                             /* coordinates per block; the literal 0: not blocked */
    uint8_t follow, leader;
    int32_t lead;
} Axis;
static inline bool axis_blocked(const Axis *x) { return x->block.arg >= 0 || x->block.lit; }

typedef enum { ARRAY_OPERAND, ARRAY_SCRATCH } ArrayKind;
typedef struct {
    uint8_t kind, dtype;
    uint8_t written;                                        /* an operand that is stored to */
    int32_t arg;       /* OPERAND: args[arg] is the address of its element 0; SCRATCH: args[arg] is its byte offset in scratch */
    uint8_t swapped;   /* its elements are stored in the other byte order: loads and stores swap them */
    uint8_t ordered;   /* read and written in the order of the statements, each FOR by itself: no load crosses a FOR that stores to it */
} Array;               /* in a `checked` kernel args[arg + 1], args[arg + 2] bound an operand's memory: lowest, one past highest byte address */

enum { STREAMS_ROWS = 255 };                               /* `streams`: some rows ahead, of pieces of rows that lie far apart */
typedef enum { COEF_ZERO, COEF_UNIT, COEF_LITERAL, COEF_RUN, COEF_SAME } CoefKind;
/* Bytes per step along an axis: 0; the element's size; lit; args[arg]. */
typedef struct { uint8_t kind; int32_t lit, arg; } Coef;

/* Address = base + off_lit + args[off_arg] + sum over axes + sum over index values.
 * An unblocked axis at coordinate i adds coef * i. A blocked one at block b, inside it at w (coordinate b * block + w) adds
 * coef * w + outer * b, where `outer` COEF_SAME means block * coef. */
typedef struct {
    uint16_t array;
    uint8_t nindex;
    uint8_t streams;                                        /* from memory beyond the caches: worth asking for it ahead, 1/streams of the usual distance (0: not) */
    uint8_t apart;                                          /* a load of elements that its body does not store, though it writes the array */
    int32_t off_arg;                                        /* -1: none */
    int64_t off_lit;
    Coef coef[KERNEL_MAX_AXES], outer[KERNEL_MAX_AXES];
    struct { uint32_t val; Coef coef; } index[KERNEL_MAX_INDEX];   /* int64 values: gather, slices at run-time offsets */
} Access;

typedef enum { VAL_NONE, VAL_CONST, VAL_LOAD, VAL_AXIS, VAL_STATE, VAL_OP, VAL_WORD } ValKind;
/* A complex value is loaded, stored, made by OP_complex_ and read by OP_real and OP_imag; nothing else. */
typedef struct {
    uint8_t kind, dtype, mode;
    uint16_t op;                                            /* VAL_OP: an ELEMENTWISE op of ops.def */
    uint32_t a, b, c;   /* CONST: low and high half of the bits; LOAD: access, a bool value (0: none) without which nothing is read, and it is 0; AXIS: axis (coordinate, int64); STATE: state, component; OP: inputs;
                                                               WORD: args[a] holds the bits of a number, float32, float64 or int64 */
} Val;                  /* vals.at[0] is none; inputs before users */

typedef struct { uint8_t monoid, dtype; } State;            /* dtype of the values; argmax's component 1 is int64 */

typedef enum { STMT_FOR, STMT_INIT, STMT_REDUCE, STMT_STORE, STMT_DOT, STMT_TRANSPOSE, STMT_CHECK } StmtKind;
/* FULL and REST stand for WITHIN: what is written out for all coordinates of a full block (the body runs once, at the block's first), and what is left
 * for the coordinates of a block that is not full. */
typedef enum { PART_WHOLE, PART_BLOCKS, PART_WITHIN, PART_FULL, PART_REST } Part;

typedef struct {
    uint8_t kind, part;     /* FOR: a Part; DOT: rows of a tile, 0: as the generator likes */
    uint8_t grid;           /* FOR: one of the leading grid FORs, which are nested without other statements between them */
    uint8_t add;            /* DOT: add to what is there */
    uint16_t axis;          /* FOR; DOT, TRANSPOSE: the m axis */
    uint16_t lanes;         /* FOR: 0 one coordinate after the other, else vector lanes (a power of two) */
    uint16_t axis_n, axis_k;/* DOT */
    uint16_t sums;          /* DOT: a bit per further axis that it adds up over; these run around k, in ascending order */
    uint32_t a, b, c, d;    /* FOR: see below. INIT: a state. REDUCE: a state, b c d values (one to lift, or one per component to merge; argmax: value and
                               index). STORE: a access, b value. DOT: accesses a of C, b of A, c of B, d its bits. TRANSPOSE: accesses a of the tile, b of
                               the source. CHECK: a value (bool, must be true),
                               b what is written to *(int64_t *)args[c] if it is not and 0 stands there */
    uint32_t end;           /* FOR: index one past its last statement; others: own index + 1 */
} Stmt;

/* A FOR with a != 0 runs over the inside of the blocks of an axis, in lanes, in any order; nothing in it combines lanes, and no scratch array moves along the axis. Code for it
 * may move all borders between blocks by less than a line of memory, so that access a - 1 begins at a line there. */

/* Bits of a DOT, d of its Stmt. The order of its tiles: all rows of a few columns, or all columns of a few rows. Elements of A and B that are
 * words (int32) of four bytes each, whose products are added: unsigned bytes in A and signed ones in B, or the other way around. FAR: B comes
 * from beyond the second cache, so rows of it are asked for ahead; of tiles by rows A and C do, and the next rows of both are asked for. Of
 * tiles by rows THIN: one tile has all rows (`part` of them), and where k has THIN_STEPS coordinates they are written out. */
enum {
    DOT_ROWS_FIRST = 1, DOT_UNSIGNED_SIGNED = 2, DOT_SIGNED_UNSIGNED = 4, DOT_FAR = 8, DOT_THIN = 0x1000,
    DOT_BYTES = DOT_UNSIGNED_SIGNED | DOT_SIGNED_UNSIGNED, DOT_ROWS = DOT_ROWS_FIRST | DOT_FAR | DOT_THIN,
    DOT_THIN_STEPS = 8,
};

/* Also in d: the columns are panels of so many vectors, and at the end panels of `last` ones, the last vector of which may be partly there. 0 0: as the
 * generator likes, for any number of columns; else ceil(columns / lanes) is a multiple of both: last is 0 (then lanes divides the columns) or equal to
 * the panel's vectors; or last is one more, and there are as many of these as vectors are left over by the others (and there are some). */
static inline uint32_t dot_panels(int vectors, int last) { return (uint32_t)(vectors << 4 | last << 8); }
static inline int dot_vectors(uint32_t d) { return d >> 4 & 15; }
static inline int dot_last(uint32_t d) { return d >> 8 & 15; }
/* Whether so many columns, of vectors of `lanes`, are such panels. */
static inline bool dot_panels_fit(uint32_t d, int64_t columns, int64_t lanes)
{
    int64_t vectors = dot_vectors(d), last = dot_last(d), n = (columns + lanes - 1) / lanes;
    if (!vectors) return true;
    if (last <= vectors) return n % vectors == 0 && (last || columns % lanes == 0);
    return n % vectors > 0 && n >= n % vectors * last;
}

/* DOT: for all coordinates m, n, k of the three axes in their current parts (a blocked axis runs within its current block; an
 * axis that an enclosing FOR does not run is whole): C[m, n] (+)= sum over k of A[m, k] B[k, n], in order of blocks of k. A and B may move along the
 * axes of `sums` too, which are not blocked: the sum is then over these (outside) and k, whose blocks are then run by a FOR or are none. */

/* TRANSPOSE: for all coordinates m (axis) and n (axis_n) of the current block of two axes: A[m, n] = B[m, n], where the tile A has unit
 * stride along n, the operand B is not written here and has unit stride along m. lanes: rows and columns that go through registers at once. */

typedef struct { uint32_t *slot, cap, len; } KernelTable;   /* finds equal items; slots hold index + 1 */

typedef struct {
    VEC(Axis) axes;
    VEC(Array) arrays;
    VEC(Access) accesses;
    VEC(Val) vals;
    VEC(State) states;
    VEC(Stmt) stmts;
    uint32_t nargs;         /* words of args */
    uint16_t ngrid;         /* leading grid FORs */
    uint8_t checked;        /* emit bounds checks (PYXLA_CHECK=1) */
    KernelTable val_table, access_table;                    /* of the builder; not part of the identity */
} Kernel;

/* ---- building (kernel.c); 0 or -1 after a failed allocation. Equal vals, accesses and arrays are found, not added ---- */
Kernel *kernel_new(Arena *a);
uint32_t kernel_axis(Arena *a, Kernel *k, Size size, Size block);
uint32_t kernel_arg(Kernel *k);                                              /* a new args word */
uint32_t kernel_array(Arena *a, Kernel *k, Array array);                     /* always a new one */
uint32_t kernel_access(Arena *a, Kernel *k, const Access *access);
uint32_t kernel_val(Arena *a, Kernel *k, Val val);
uint32_t kernel_const(Arena *a, Kernel *k, Dtype dtype, int64_t bits);
uint32_t kernel_state(Arena *a, Kernel *k, Monoid monoid, Dtype dtype);
Stmt *kernel_stmt(Arena *a, Kernel *k, Stmt stmt);                           /* appends; end is set to index + 1 */
uint32_t kernel_open(Arena *a, Kernel *k, uint32_t axis, Part part, int lanes, bool grid);   /* a FOR; its index for kernel_close */
void kernel_close(Kernel *k, uint32_t stmt);

/* A flat copy of all that identifies the kernel, in the arena; equal kernels have equal bytes (padding is zero). */
void *kernel_bytes(Arena *a, const Kernel *k, size_t *len);
Kernel *kernel_from_bytes(Arena *a, const void *bytes, size_t len);
uint64_t kernel_hash(const Kernel *k);
void kernel_print(Text *t, const Kernel *k);
Kernel *kernel_parse(Arena *a, const char *text);                            /* the text form round-trips */
/* The definition of a legal kernel; false with ERR_INTERNAL and the reason. */
bool kernel_verify(const Kernel *k, Err *err);
/* Number of grid points for these args. */
int64_t kernel_grid(const Kernel *k, const int64_t *args);
/* Coordinates a FOR takes: the axis' size, its blocks, or a full block (the last block may hold fewer). */
int64_t kernel_trips(const Kernel *k, const Stmt *stmt, const int64_t *args);

/* ---- the interpreter (interp.c): the same call in plain C, the judge of the code generator ---- */
/* False, and nothing was run: no memory. */
bool interp_kernel(const Kernel *k, const int64_t *args, int64_t begin, int64_t end, char *scratch);
extern uint64_t interp_violations;            /* accesses of checked kernels outside their operand: counted, and not done (a load gives 0) */
