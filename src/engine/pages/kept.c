/* kept.c: what each layer keeps of a sequence, and what that adds up to. */
#include "engine/pages/kept.h"

#include "base/checked.h"
#include "base/minmax.h"
#include "model/architecture/architecture.h"

int32_t mnem__kv_pages_for(const mnem_kv_layout *layout, int32_t n) {
    return (int32_t)mnem__div_up((uint64_t)n, (uint64_t)layout->page_tokens);
}

static int32_t layers_here(const mnem_transformer *t) {
    return mnem__layers_end(t) - t->part_begin;
}

int32_t mnem__kept_rows(const mnem_transformer *t) {
    return t->encoder ? 1 : t->state_beside ? 2 * layers_here(t) : layers_here(t);
}

int32_t mnem__kept_row(const mnem_transformer *t, int32_t index) {
    const int32_t layers = layers_here(t);
    return t->part_begin + (index < layers ? index : t->layers + index - layers);
}

/* The width of values in pages of this type; 0: that of keys. */
static int32_t kept_values(const mnem_transformer *t, mnem_type type) {
    const int32_t width = t->latent ? t->latent : t->value_dim;
    const int32_t block = mnem_type_get(type)->block_elements > 1 ? 32 : 8;
    return width < t->head_dim && width % block == 0 ? width : 0;
}

mnem_kv_layout mnem__kv_layout_for(const mnem_transformer *t, mnem_kv_choice kv) {
    const mnem_kv_choice keys = mnem_kv_keys(kv), values = mnem_kv_values(kv);
    mnem_kv_layout layout = {.type = mnem_kv_type(keys),
                             .kv_heads = t->kv_heads,
                             .head_dim = t->head_dim,
                             .page_tokens = MNEM__PAGE_TOKENS,
                             .value_dim = kept_values(t, mnem_kv_type(values)),
                             .apart = mnem_kv_type(values) != mnem_kv_type(keys),
                             .keys_rotated = keys == MNEM_KV_Q4_0,
                             .values_rotated = values == MNEM_KV_Q4_0};
    if (layout.apart) layout.value_type = mnem_kv_type(values);
    return layout;
}

mnem_kv_layout mnem__kv_layout_of_layer(const mnem_transformer *t, const mnem_kv_layout *layout,
                                        int32_t layer) {
    mnem_kv_layout of = *layout;
    if (t->window_kv_heads) of.kv_heads = mnem__layer_kv_heads(t, layer);
    if (t->window_head_dim) of.head_dim = mnem__layer_head_dim(t, layer);
    return of;
}

bool mnem__kv_layout_fits(const mnem_transformer *t, const mnem_kv_layout *layout) {
    bool fits = mnem_kv_page_bytes(layout) > 0;
    for (int32_t layer = 0; layer < t->layers && (t->window_kv_heads || t->window_head_dim);
         layer++) {
        const mnem_kv_layout of = mnem__kv_layout_of_layer(t, layout, layer);
        fits = fits && mnem_kv_page_bytes(&of) > 0;
    }
    return fits;
}

mnem__kept mnem__kept_of(const mnem_transformer *t, const mnem_kv_layout *layout, int32_t row) {
    const bool beside = row >= t->layers;
    const int32_t layer = beside ? row - t->layers : row;
    mnem__kept kept = {.row = t->encoder ? 0
                              : beside   ? row
                                         : mnem__layer_keys(t, layer),
                       .here = mnem__layer_here(t, layer)};
    const uint64_t state = mnem__layer_state_bytes(t, layer);
    if (state > 0 && beside == t->state_beside) {
        kept.pages = MNEM__KV_STATES;
        kept.unit = MNEM__KEPT_SEQUENCE;
        kept.page_bytes = state;
        return kept;
    }
    if (mnem_layer_is(&t->convolving, layer)) {
        kept.unit = MNEM__KEPT_PAGE;
        kept.page_bytes = mnem_conv_page_bytes(t->embd, t->conv_length);
        return kept;
    }
    if (mnem_layer_is(&t->feeding, layer)) return kept;
    const mnem_kv_layout of = mnem__kv_layout_of_layer(t, layout, layer);
    kept.page_bytes = mnem__layer_keys(t, layer) == layer ? mnem_kv_page_bytes(&of) : 0;
    if (mnem_layer_is(&t->indexed, layer))
        kept.page_bytes += mnem_index_page_bytes(&of, t->index_dim);
    if (!mnem__layer_has_window(t, layer)) return kept;
    kept.pages = MNEM__KV_WINDOW;
    kept.window = t->window;
    return kept;
}

/* Pages that so many positions in a row touch, wherever they begin. */
static int32_t pages_touched(const mnem_kv_layout *layout, int64_t positions) {
    return (int32_t)mnem__div_up((uint64_t)(positions - 1), (uint64_t)layout->page_tokens) + 1;
}

/* Of one layer, in one sequence. */
static int32_t pages_of(const mnem__kept *kept, const mnem_kv_layout *layout, int32_t context,
                        int32_t chunk) {
    if (kept->unit == MNEM__KEPT_SEQUENCE) return 1;
    const int32_t all = mnem__kv_pages_for(layout, context);
    const int64_t seen = (int64_t)kept->window + chunk - 1; /* by the tokens of a pass */
    return kept->window && seen < context ? mnem__min_i32(all, pages_touched(layout, seen)) : all;
}

mnem__kv_need mnem__kv_need_of(const mnem_transformer *t, const mnem_kv_layout *layout,
                               mnem__kv_kind kind, int32_t context, int32_t chunk) {
    mnem__kv_need need = {0};
    const int32_t rows = t->state_beside ? 2 * t->layers : t->layers;
    for (int32_t row = 0; row < rows; row++) {
        const mnem__kept kept = mnem__kept_of(t, layout, row);
        if (kept.pages != kind || kept.row != row || kept.page_bytes == 0) continue;
        need.ids |= kept.unit == MNEM__KEPT_PAGE;
        need.forgets |= kept.window > 0;
        need.one |= kept.unit == MNEM__KEPT_SEQUENCE;
        need.pages = mnem__max_i32(need.pages, pages_of(&kept, layout, context, chunk));
        if (kept.here) need.page_bytes += kept.page_bytes;
    }
    return need;
}
