/* train_frozen.c: tensors that aren't trained: their layout, and reading them.
 *
 *     frozen block   [ outside of layers | layer 0 | layer 1 | ... ]
 *
 * Each layer is a separate stretch, so that one can be read while another is in use. */
#include "base/error.h"
#include "base/minmax.h"
#include "train/program/train_shape.h"

/* The index of a layer's first tensor; behind the last layer: the number of tensors. */
static int32_t first_of(const mnem__train_shape *s, int32_t layer) {
    return s->frozen_count - (s->t.layers - layer) * s->frozen_per_layer;
}

mnem__train_stretch mnem__train_stretch_get(const mnem__train_shape *s, int32_t layer) {
    mnem__train_stretch r = {.first = layer < 0 ? 0 : first_of(s, layer),
                             .end = first_of(s, layer + 1)};
    const uint64_t end = r.end < s->frozen_count ? s->frozen[r.end].offset : s->frozen_bytes;
    r.offset = r.first < s->frozen_count ? s->frozen[r.first].offset : end;
    r.bytes = end - r.offset;
    return r;
}

uint64_t mnem__train_layer_most(const mnem__train_shape *s) {
    uint64_t most = 0;
    for (int32_t i = 0; i < s->t.layers; i++)
        most = mnem__max_u64(most, mnem__train_stretch_get(s, i).bytes);
    return most;
}

mnem_status mnem__train_tensor_find(const mnem_model *model, const char *name, uint32_t *index,
                                    mnem_tensor_info *info) {
    const int32_t found = mnem_model_tensor_find(model, name);
    if (found < 0)
        return mnem__fail(MNEM_BAD_FILE,
                          "train: the model file has no tensor %s, which the plan's model has; use "
                          "the model file of the plan",
                          name);
    *index = (uint32_t)found;
    mnem_model_tensor_get(model, *index, info);
    return MNEM_OK;
}

mnem_status mnem__train_frozen_read(const mnem_model *model, const mnem__train_frozen *f,
                                    uint64_t at, uint64_t bytes, uint8_t *to) {
    uint32_t index;
    mnem_tensor_info info;
    MNEM__TRY(mnem__train_tensor_find(model, f->name, &index, &info));
    if (info.type != f->type || info.bytes != f->bytes)
        return mnem__fail(MNEM_INVALID,
                          "train: tensor %s of the model file differs from that of the plan's "
                          "model; use the model file of the plan",
                          f->name);
    return mnem_model_tensor_read(model, index, at, bytes, to);
}
