/* layer_schedule.c: which layers are of some kind. */
#include "model/architecture/layer_schedule.h"

bool mnem_layer_is(const mnem_layer_schedule *s, int32_t layer) {
    switch (s->kind) {
    case MNEM_LAYERS_NONE: return false;
    case MNEM_LAYERS_ALL: return true;
    case MNEM_LAYERS_FIRST: return layer < s->n;
    case MNEM_LAYERS_EVERY: return s->n > 0 && (layer + 1) % s->n == 0;
    case MNEM_LAYERS_BUT_EVERY: return s->n < 1 || (layer + 1) % s->n != 0;
    case MNEM_LAYERS_LIST:
        return layer >= 0 && layer < MNEM_LAYERS_MAX && s->list[layer / 8] >> layer % 8 & 1;
    }
    return false;
}

int32_t mnem_layers_count(const mnem_layer_schedule *s, int32_t layers) {
    int32_t count = 0;
    for (int32_t layer = 0; layer < layers; layer++) count += mnem_layer_is(s, layer);
    return count;
}

void mnem__layer_schedule_add(mnem_layer_schedule *s, int32_t layer) {
    s->kind = MNEM_LAYERS_LIST;
    s->list[layer / 8] |= (uint8_t)(1 << layer % 8);
}

static bool is_same(const mnem_layer_schedule *a, const mnem_layer_schedule *b, int32_t layers) {
    for (int32_t layer = 0; layer < layers; layer++)
        if (mnem_layer_is(a, layer) != mnem_layer_is(b, layer)) return false;
    return true;
}

mnem_layer_schedule mnem__layer_schedule_simple(const mnem_layer_schedule *s, int32_t layers) {
    int32_t first = 0; /* that isn't one of them */
    while (first < layers && mnem_layer_is(s, first)) first++;
    if (first == layers) return (mnem_layer_schedule){.kind = MNEM_LAYERS_ALL};
    const mnem_layer_schedule but = {.kind = MNEM_LAYERS_BUT_EVERY, .n = first + 1};
    return is_same(s, &but, layers) ? but : *s;
}
