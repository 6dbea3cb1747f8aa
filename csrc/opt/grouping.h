/* What the files that make a Grouping share: scanning what a value's evaluation touches, and finding the group that may evaluate it. */
#pragma once
#include "opt/group.h"

enum {
    MOST_OPERANDS = 16,        /* remembered per group, to find companions */
    LONG_VALUE = 64,           /* elements from which on a value that an update stores is read there rather than evaluated again */
};

/* The non-unit axes of a node: its own loop domain. */
typedef struct { int n; int64_t extent[MAX_DOMAIN]; int8_t of[MAX_RANK]; } Own;

/* What evaluating a node inline touches: members of groups and stored buffers. */
typedef struct { Id id; bool select; int8_t sel[MAX_RANK]; } Leaf;
typedef struct {
    Grouping *gr;
    Own own;
    VEC(Leaf) leaves;
    uint32_t low;                /* the lowest group that may evaluate the node if it joins no leaf's group */
    uint32_t ready;              /* the lowest group that finds the copies of inputs made */
    uint32_t best;               /* the highest group among the leaves */
    uint32_t ops;
    Id of;                       /* the node */
    bool costly, dear, ok, walked;     /* dear: with an elementary function; walked: bytes per step of the first leaf that moves along all own axes are in `step` */
    int64_t step[MAX_DOMAIN];
} Scan;

/* What evaluating node id inline touches; false on error. */
bool scan_node(Scan *s, Grouping *gr, Id id);
/* Puts the own axes in the order of that leaf's memory, so that reductions of an array and of its transpose, over whatever axes, have one domain. */
void scan_in_order(Scan *s);
/* Whether an elementwise value with this scan may be evaluated in group n; sets axis. */
bool scan_may_join(const Scan *s, uint32_t n, int8_t *axis);
/* Counts what was scanned as part of group n, and remembers what its first members read. */
bool scan_joined(const Scan *s, uint32_t n);
/* The first loop of group n in which all that was scanned is known. */
uint8_t scan_phase(const Scan *s, uint32_t n);
/* A group for a value that no leaf's group takes: an open one of the same domain from `low` on, or a new one. Identity axes. */
uint32_t scan_group(const Scan *s, uint32_t low, uint32_t reduced, bool only_new);
static inline void identity_axes(int8_t *axis)
{
    for (int j = 0; j < MAX_DOMAIN; j++) axis[j] = (int8_t)j;
}

/* Whether large arrays that lie along different axes are read side by side, the rows of one a power of two apart (lies.c). */
bool scan_lies_across(const Scan *s);

/* Gives a floating elementwise node (or a view that must be copied) a group from `floor` on, of its own or beside others; 0 on error. */
uint32_t group_force(Grouping *gr, Id id, uint32_t floor);

/* Adds a store of `value` to group n; NULL on error. */
Root *group_root(Grouping *gr, uint32_t n, Id value, Id buffer, const int8_t *axis, uint8_t phase);

/* ---- nest.c: reductions inside reductions ---- */
/* Makes group n, whose reductions are known and short, the inner loop of a reduction of what was scanned for node `id`: it has these axes and is
 * reduced over `over`. False: it is none of that form, and nothing has changed. */
bool nest_begin(Grouping *gr, const Scan *s, uint32_t n, uint32_t axes, uint32_t over, Id id);
/* Whether a nested group n may evaluate what was scanned, at these axes. */
bool nest_takes(const Scan *s, uint32_t n, uint32_t axes);

/* ---- place.c ---- */
/* The groups of a concatenate, an update or a scatter, whose pieces are stored into one buffer. */
bool group_place(Grouping *gr, Id id);
/* Whether others read the long value v that a place stores: they find it there, for what it is computed from may have been written over by then. */
bool place_is_read(const Grouping *gr, Id v);

/* ---- after.c: what comes after a product, row by row ---- */
/* The group whose rows product `id` can take as they come: those of a product and of reductions along its rows, as in attention; or 0. */
uint32_t after_rows(const Grouping *gr, Id id);
/* Puts product `id` into the group of its left operand's rows, if it can read the right one there. */
bool after_join(Grouping *gr, Id id, bool *joined);
/* Whether what is reduced along the rows of product `dot` is a launch of its own. Few rows use its large right operand once: that is packed in the
 * product's launch, some columns at a time, and no row is there as a whole before the end. Or many small products are made in registers. */
bool after_is_apart(const Grouping *gr, Id dot);
