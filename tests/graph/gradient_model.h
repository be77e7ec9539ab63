/* gradient_model.h: small models as training graphs, for tests of gradients.
 *
 * A model is built in three steps, so that tests can look in between: gm_build (forward pass),
 * gm_differentiate, gm_compile. Then gm_run, any number of times. Slots: weights, gradients,
 * losses, angles. */
#ifndef MNEM_TESTS_GRAPH_GRADIENT_MODEL_H
#define MNEM_TESTS_GRAPH_GRADIENT_MODEL_H

#include "mnem/graph.h"

typedef enum gm_kind {
    GM_LLAMA,       /* q, k, v, gate and up apart */
    GM_LLAMA_FUSED, /* q, k, v are columns of one value; gate and up too */
    GM_GPT2,
} gm_kind;

typedef struct gm_shape {
    gm_kind kind;
    mnem_type type; /* of values: F32, BF16, F16 (weights F32), F64 (all) */
    int32_t layers, heads, kv_heads, head_dim, sequence;
    int64_t tokens, embd, ff, vocab;
    float dropout;
    bool untied;
    uint64_t frozen; /* bits: parameters without gradient */
    int32_t workers; /* 0: 1 */
} gm_shape;

enum { GM_PARAMETERS = 1024, GM_LAYERS = 128 };

typedef struct gm_parameter {
    char name[24];
    int64_t at, n; /* elements of the flat block */
    int32_t weight, gradient;
} gm_parameter;

typedef struct gm {
    gm_shape shape;
    mnem_graph *graph;
    gm_parameter parameter[GM_PARAMETERS];
    int32_t parameters, tensors; /* tensors: of the forward pass */
    int32_t x[GM_LAYERS + 1];    /* the input of each layer, and what comes out of the last */
    int64_t elements;            /* of all parameters */
    mnem_graph_gradients info;
    mnem_graph_sizes sizes;
    mnem_status status; /* of the first step that failed */
    /* for running; rooms of the compiled sizes */
    void *block, *workspace, *angles, *losses;
    void *weights, *gradients;
    int32_t *ids, *positions, *targets;
} gm;

void gm_build(gm *m, const gm_shape *shape);
/* keep(id, context) says which values stay; NULL: all do. */
void gm_differentiate(gm *m, bool (*keep)(int32_t id, void *context), void *context);
void gm_compile(gm *m);
void gm_fini(gm *m);

/* Fills weights from a seed; gradients with zeros. */
void gm_fill(gm *m, uint64_t seed);
/* The loss: gradient_scale times the sum of losses. Gradients are added to. */
double gm_run(gm *m, mnem_team *team);
/* The same as a function of m. */
double gm_value(void *m);

/* For graphs of other shapes: a node with this kind, inputs and output. */
mnem_graph_node gm_node(mnem_op_kind kind, int32_t a, int32_t b, int32_t c, int32_t out);

/* Memory of a graph, aligned to 64 bytes; to free. All NaN, so that nothing unwritten is read. */
void *gm_room(uint64_t bytes);

enum { GM_WEIGHTS, GM_GRADIENTS, GM_LOSSES, GM_ANGLES };
extern const float gm_scale;

#endif
