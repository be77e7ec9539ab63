/* teacher_stream.c: a thread that reads a teacher's layers ahead of their use (ahead.h). */
#include "train/teacher/teacher_stream.h"

#include "base/checked.h"
#include "model/gguf/gguf.h"

bool mnem__teacher_can_stream(const mnem__train_shape *s, const mnem_model *model) {
    for (int32_t i = 0; i < s->frozen_count; i++) {
        const int32_t index = mnem_model_tensor_find(model, s->frozen[i].name);
        if (index < 0 || !mnem__model_is_plain(model, (uint32_t)index)) return false;
    }
    return mnem__teacher_ring_bytes(s) + MNEM__TEACHER_STACK_BYTES < mnem__teacher_read_bytes(s);
}

uint64_t mnem__teacher_ring_bytes(const mnem__train_shape *s) {
    return MNEM__TEACHER_SLOTS * mnem__align_up(mnem__train_layer_most(s), 64);
}

uint64_t mnem__teacher_read_bytes(const mnem__train_shape *s) {
    return s->frozen_bytes - mnem__train_stretch_get(s, -1).bytes;
}

/* ---- the thread ---- */

static uint8_t *slot_of(const mnem__teacher_stream *s, uint64_t number) {
    return s->ring + number % MNEM__TEACHER_SLOTS * s->slot_bytes;
}

static mnem_status read_layer(void *context, uint64_t number, bool *ended) {
    const mnem__teacher_stream *s = context;
    const int32_t layer = (int32_t)(number % (uint64_t)s->shape->t.layers);
    const mnem__train_stretch part = mnem__train_stretch_get(s->shape, layer);
    for (int32_t i = part.first; i < part.end; i++) {
        const mnem__train_frozen *f = &s->shape->frozen[i];
        MNEM__TRY(mnem__train_frozen_read(s->model, f, 0, f->bytes,
                                          slot_of(s, number) + (f->offset - part.offset)));
    }
    *ended = false;
    return MNEM_OK;
}

/* ---- the owner ---- */

mnem_status mnem__teacher_stream_start(mnem__teacher_stream *s, const mnem__train_shape *shape,
                                       const mnem_model *model, uint8_t *ring) {
    *s = (mnem__teacher_stream){
        .shape = shape,
        .model = model,
        .ring = ring,
        .slot_bytes = mnem__teacher_ring_bytes(shape) / MNEM__TEACHER_SLOTS,
        .ahead = {.fill = read_layer, .context = s, .places = MNEM__TEACHER_SLOTS}};
    return mnem__ahead_start(&s->ahead, MNEM__TEACHER_STACK_BYTES);
}

void mnem__teacher_stream_stop(mnem__teacher_stream *s) {
    mnem__ahead_stop(&s->ahead);
    *s = (mnem__teacher_stream){.shape = NULL};
}

mnem_status mnem__teacher_stream_take(mnem__teacher_stream *s, uint8_t **layer) {
    int64_t number;
    MNEM__TRY(mnem__ahead_take(&s->ahead, &number));
    *layer = slot_of(s, (uint64_t)number);
    return MNEM_OK;
}

void mnem__teacher_stream_give(mnem__teacher_stream *s) {
    mnem__ahead_give(&s->ahead);
}

void mnem__teacher_stream_rewind(mnem__teacher_stream *s) {
    mnem__ahead_skip(&s->ahead, (uint64_t)s->shape->t.layers);
}
