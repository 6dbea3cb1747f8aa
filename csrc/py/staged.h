/* Runs of graphs whose shapes depend on data (opt/stage.h): a tree of plans, one level per stage, one branch per extents that were met. */
#pragma once
#include "opt/stage.h"
#include "py/entry.h"
#include "py/host.h"

/* A graph on the way: the whole one at the root, then the rest for the extents that were read. Counted: a run holds the nodes it uses. */
typedef struct StageNode StageNode;
struct StageNode {
    int refs;
    StageNode *next, *children;   /* children: most recently used first */
    int64_t *values;              /* of the parent's extents */
    Arena *arena;
    Err err;
    const Graph *graph;
    Stage *stage;                 /* NULL: the graph is static, this is the last stage */
    const Plan *plan;
    Code **code;
    Exec exec;
    double ns;
    Output *outputs;              /* of the last stage: of the entry, with the shapes of these extents */
};

/* The root for an entry planned for inputs of these layouts; NULL with an exception. */
StageNode *stage_root(const Entry *e, const PlanInput *in, int threads, Costs *costs);
void stage_unref(StageNode *n);

/* A run: addresses of the inputs, the entry's first, then what the stages carry. */
typedef struct {
    StageNode *last;              /* reached; a reference */
    void **in;
    const char **lo, **hi;
    PlanInput *layout;
    void **blocks;                /* memory of carried values */
    uint32_t nin, nblocks;
} StagedRun;

/* Runs one plan of a stage: provided by run.c, with its ways of keeping the GIL and seeing to signals. */
typedef bool (*StageExec)(const StageNode *n, void **in, void **out, const char **lo, const char **hi, const Entry *e);

/* Runs all stages but the last one; false with an exception. staged_end() in any case. */
bool staged_begin(StagedRun *s, StageNode *root, const Entry *e, void **in, const char **lo, const char **hi, const PlanInput *layout, int threads,
                  Costs *costs, StageExec exec);
void staged_end(StagedRun *s);
