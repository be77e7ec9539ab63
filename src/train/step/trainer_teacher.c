/* trainer_teacher.c: loads a teacher's weights, and runs its pass over a micro-batch.
 *
 * A resident teacher's graph runs at once. A streamed one runs in parts of one layer each, whose
 * tensors share a slot: before each part the layer's bytes are in the slot. Operators and
 * numbers are the same, so the outputs have the same bits.
 *
 *     nodes    [ embedding, layer 0 | layer 1 | ... | last layer, norm ]
 *     part 0 ──^               1 ───^       2 ^ */
#include "base/error.h"
#include "base/file/checksum.h"
#include "train/step/trainer_private.h"

/* ---- parts ---- */

/* The layer of a node's weights; -1: it reads no layer's weights. */
static int32_t layer_of(const mnem_graph *graph, const mnem_graph_node_info *node) {
    for (int j = 0; j < MNEM_OP_INPUTS; j++) {
        mnem_graph_tensor_info t;
        if (node->in[j] && mnem_graph_tensor_get(graph, node->in[j], &t) &&
            t.slot == MNEM__TRAIN_SLOT_LAYER)
            return t.number;
    }
    return -1;
}

void mnem__trainer_teacher_cut(mnem_trainer *t) {
    const mnem_graph *graph = t->graphs.teacher.graph;
    int32_t *parts = t->tables.parts, layer = 0, i = 0;
    mnem_graph_node_info node;
    parts[0] = 0;
    for (; mnem_graph_node_get(graph, i, &node); i++)
        if (layer_of(graph, &node) > layer) parts[++layer] = i;
    parts[layer + 1] = i;
}

/* ---- weights ---- */

/* Reads the resident tensors, and all others once for the checksum, in the order of the list, so
 * that the sum is that of a resident teacher. */
static mnem_status read_streamed(mnem_trainer *t, const mnem_model *model, uint64_t *checksum) {
    const mnem__train_shape *s = t->setup.teacher;
    uint8_t *ring = mnem__trainer_host(t, MNEM__PART_TEACHER_RING);
    mnem__checksum sum;
    mnem__checksum_init(&sum);
    for (int32_t i = 0; i < s->frozen_count; i++) {
        const mnem__train_frozen *f = &s->frozen[i];
        if (f->layer < 0) {
            MNEM__TRY(mnem__trainer_frozen_read(t, model, f, MNEM__PART_TEACHER, &sum));
            continue;
        }
        MNEM__TRY(mnem__train_frozen_read(model, f, 0, f->bytes, ring));
        mnem__checksum_add(&sum, ring, f->bytes);
    }
    *checksum = mnem__checksum_get(&sum);
    return MNEM_OK;
}

mnem_status mnem_trainer_load_teacher(mnem_trainer *t, const mnem_model *teacher) {
    if (!t->teacher)
        return mnem__fail(
            MNEM_INVALID,
            "train: the plan has no teacher: set distill.teacher in the options of the plan");
    if (!t->setup.streams)
        return mnem__trainer_frozen_load(t, t->setup.teacher, teacher, MNEM__PART_TEACHER,
                                         &t->teacher_sum);
    uint64_t sum;
    mnem__teacher_stream_stop(&t->stream);
    t->teacher_sum = 0;
    MNEM__TRY(read_streamed(t, teacher, &sum));
    MNEM__TRY(mnem__teacher_stream_start(&t->stream, t->setup.teacher, teacher,
                                         mnem__trainer_host(t, MNEM__PART_TEACHER_RING)));
    t->teacher_sum = sum;
    return MNEM_OK;
}

/* ---- a run ---- */

/* After a run that ended early, the next one begins with layer 0. */
mnem_status mnem__trainer_teacher_run(mnem_trainer *t, const mnem_graph_args *args,
                                      void **external) {
    const int32_t *parts = t->tables.parts;
    mnem_status status = MNEM_OK;
    for (int32_t i = 0; i < t->setup.teacher->t.layers && status == MNEM_OK; i++) {
        uint8_t *layer;
        status = mnem__teacher_stream_take(&t->stream, &layer);
        if (status != MNEM_OK) break;
        external[MNEM__TRAIN_SLOT_LAYER] = layer;
        status =
            mnem_graph_run_part(t->graphs.teacher.graph, parts[i], parts[i + 1], t->team, args);
        mnem__teacher_stream_give(&t->stream);
    }
    if (status != MNEM_OK) mnem__teacher_stream_rewind(&t->stream);
    return status;
}
