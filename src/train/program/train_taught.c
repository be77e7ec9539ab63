/* train_taught.c: the layout of a teacher's outputs for a micro-batch, until the student reads
 * them.
 *
 *     taught   [ output of its last norm | state for layer 0 | state for layer 1 | ... ]
 *     losses   [ text, and logits        | layer 0           | layer 1           | ... ]
 *
 * The first part exists if logits are learned, the others if states are. The S layers of a model
 * learn from T >= S layers of a teacher, evenly spaced: layer i from layer i T / S, counted from
 * 1 and rounded down, so that the last one learns from the last. */
#include "base/checked.h"
#include "train/program/train_graph.h"

uint64_t mnem__train_taught_at(const mnem__train_teaching *teach, mnem_type compute, int64_t tokens,
                               int64_t width, int32_t layer) {
    const uint64_t one = mnem__align_up((uint64_t)tokens * mnem_type_row_bytes(compute, width), 64);
    if (layer >= 0 && !teach->states) layer = 0; /* there is nothing behind the norm's */
    return one * (uint64_t)(layer < 0 ? 0 : layer + teach->logits);
}

static int32_t layer_of(const mnem__train_teaching *teach, int32_t layer, int32_t layers) {
    return (int32_t)((int64_t)(layer + 1) * layers / teach->layers) - 1;
}

int32_t mnem__train_taught_for(const mnem__train_teaching *teach, int32_t layer, int32_t layers) {
    for (int32_t i = 0; teach->states && i < teach->layers; i++)
        if (layer_of(teach, i, layers) == layer) return i;
    return -1;
}

int32_t mnem__train_losses(const mnem__train_teaching *teach) {
    return 1 + (teach->states ? teach->layers : 0);
}

uint64_t mnem__train_losses_bytes(int64_t tokens, mnem_type number) {
    return mnem__align_up((uint64_t)tokens * mnem_type_row_bytes(number, 1), 64);
}
