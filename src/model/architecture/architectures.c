/* architectures.c: the list of architectures. A new one is a file arch_NAME.c in families, its
 * line here and its name among the sources. */
#include <string.h>

#include "model/architecture/architecture.h"

#define ARCHITECTURES(X)                                                                           \
    X(llama)                                                                                       \
    X(mistral3)                                                                                    \
    X(granite)                                                                                     \
    X(smollm3)                                                                                     \
    X(qwen2)                                                                                       \
    X(qwen3)                                                                                       \
    X(qwen2vl)                                                                                     \
    X(qwen3vl)                                                                                     \
    X(gemma2)                                                                                      \
    X(gemma3)                                                                                      \
    X(phi3)                                                                                        \
    X(glm4)                                                                                        \
    X(qwen35)                                                                                      \
    X(mamba)                                                                                       \
    X(mamba2)                                                                                      \
    X(granitehybrid)                                                                               \
    X(granitehybrid_moe)                                                                           \
    X(bamba)                                                                                       \
    X(falcon_h1)                                                                                   \
    X(jamba)                                                                                       \
    X(kimi_linear)                                                                                 \
    X(lfm2)                                                                                        \
    X(olmo2)                                                                                       \
    X(ernie4_5)                                                                                    \
    X(seed_oss)                                                                                    \
    X(gemma)                                                                                       \
    X(hunyuan_dense)                                                                               \
    X(exaone4)                                                                                     \
    X(command_r)                                                                                   \
    X(cohere2)                                                                                     \
    X(arcee)                                                                                       \
    X(nemotron)                                                                                    \
    X(gemma4)                                                                                      \
    X(gemma3n)                                                                                     \
    X(gemma4_moe)                                                                                  \
    X(nemotron_h)                                                                                  \
    X(nemotron_h_moe)                                                                              \
    X(nemotron_h_latent)                                                                           \
    X(apertus)                                                                                     \
    X(granite_swa)                                                                                 \
    X(granite_swa_moe)                                                                             \
    X(granite_swa_shared)                                                                          \
    X(olmoe)                                                                                       \
    X(mixtral)                                                                                     \
    X(qwen2moe)                                                                                    \
    X(qwen3moe)                                                                                    \
    X(qwen3vlmoe)                                                                                  \
    X(granitemoe)                                                                                  \
    X(granitemoe_shared)                                                                           \
    X(qwen35moe)                                                                                   \
    X(qwen3next)                                                                                   \
    X(qwen3next_qkvz)                                                                              \
    X(lfm2moe)                                                                                     \
    X(glm4moe)                                                                                     \
    X(minimax_m2)                                                                                  \
    X(dots1)                                                                                       \
    X(ernie4_5_moe)                                                                                \
    X(ernie4_5_shared)                                                                             \
    X(hunyuan_moe)                                                                                 \
    X(bailingmoe)                                                                                  \
    X(bailingmoe2)                                                                                 \
    X(exaone_moe)                                                                                  \
    X(afmoe)                                                                                       \
    X(mimo2)                                                                                       \
    X(mimo2_qkv)                                                                                   \
    X(step35)                                                                                      \
    X(laguna)                                                                                      \
    X(hy_v3)                                                                                       \
    X(cohere2moe)                                                                                  \
    X(cohere2moe_shared)                                                                           \
    X(llama4)                                                                                      \
    X(phimoe)                                                                                      \
    X(smallthinker)                                                                                \
    X(deepseek32)                                                                                  \
    X(glm_dsa)                                                                                     \
    X(mistral4)                                                                                    \
    X(gpt_oss)                                                                                     \
    X(deepseek2)                                                                                   \
    X(deepseek2_large)                                                                             \
    X(starcoder2)                                                                                  \
    X(gpt2)                                                                                        \
    X(bert)                                                                                        \
    X(nomic_bert)

#define DECLARE(name) extern const mnem__architecture mnem__architecture_##name;
ARCHITECTURES(DECLARE)
static const mnem__architecture *const all[] = {
#define ADDRESS(name) &mnem__architecture_##name,
    ARCHITECTURES(ADDRESS)};
enum { COUNT = sizeof all / sizeof all[0] };

const mnem__architecture *mnem__architecture_get(int index) {
    return index < COUNT ? all[index] : NULL;
}

const mnem__architecture *mnem__architecture_find(const char *name) {
    for (int i = 0; i < COUNT; i++)
        for (int n = 0; n < MNEM__NAMES_MAX && all[i]->names[n]; n++)
            if (strcmp(name, all[i]->names[n]) == 0) return all[i];
    return NULL;
}

bool mnem__layer_is(const mnem_transformer *t, int32_t layer, mnem__layers layers) {
    switch (layers) {
    case MNEM__LAYERS_ALL: return true;
    case MNEM__LAYERS_LEADING: return mnem_layer_is(&t->leading, layer);
    case MNEM__LAYERS_LATER: return !mnem_layer_is(&t->leading, layer);
    case MNEM__LAYERS_ATTENTION:
        return !mnem_layer_is(&t->convolving, layer) && !mnem_layer_is(&t->feeding, layer) &&
               (t->state_beside || !mnem_layer_is(&t->recurrent, layer));
    case MNEM__LAYERS_CONV: return mnem_layer_is(&t->convolving, layer);
    case MNEM__LAYERS_WINDOWED: return mnem__layer_has_window(t, layer);
    case MNEM__LAYERS_RECURRENT: return mnem_layer_is(&t->recurrent, layer);
    case MNEM__LAYERS_KEYED: return mnem__layer_keys(t, layer) == layer;
    case MNEM__LAYERS_VALUED:
        return mnem__layer_keys(t, layer) == layer &&
               (!t->values_are_keys || mnem__layer_has_window(t, layer));
    case MNEM__LAYERS_EMBEDDED: return t->layer_embd > 0;
    case MNEM__LAYERS_FEEDING: return mnem_layer_is(&t->feeding, layer);
    case MNEM__LAYERS_INDEXED: return mnem_layer_is(&t->indexed, layer);
    }
    return false;
}

int32_t mnem__layer_keys(const mnem_transformer *t, int32_t layer) {
    const int32_t own = t->layers - t->kv_shared_layers;
    if (t->kv_shared_layers == 0 || layer < own) return layer;
    int32_t of = own - 1;
    while (of > 0 && mnem__layer_has_window(t, of) != mnem__layer_has_window(t, layer)) of--;
    return of;
}

int32_t mnem__layer_runs(const mnem_transformer *t) {
    return t->index_heads ? mnem_layers_count(&t->indexed, t->layers) : t->layers;
}

int32_t mnem__layer_run_begin(const mnem_transformer *t, int32_t run) {
    int32_t layer = 0;
    if (!t->index_heads) return run;
    for (; layer < t->layers; layer++)
        if (mnem_layer_is(&t->indexed, layer) && run-- == 0) break;
    return layer;
}

int32_t mnem__layer_heads(const mnem_transformer *t, int32_t layer) {
    return t->window_heads && mnem__layer_has_window(t, layer) ? t->window_heads : t->heads;
}

int32_t mnem__layer_kv_heads(const mnem_transformer *t, int32_t layer) {
    return t->window_kv_heads && mnem__layer_has_window(t, layer) ? t->window_kv_heads
                                                                  : t->kv_heads;
}

int32_t mnem__layer_head_dim(const mnem_transformer *t, int32_t layer) {
    return t->window_head_dim && mnem__layer_has_window(t, layer) ? t->window_head_dim
                                                                  : t->head_dim;
}

mnem_transformer mnem__transformer_as_layer(const mnem_transformer *t, int32_t layer) {
    mnem_transformer as = *t;
    if (layer < 0) return as;
    as.heads = mnem__layer_heads(t, layer);
    as.kv_heads = mnem__layer_kv_heads(t, layer);
    as.head_dim = mnem__layer_head_dim(t, layer);
    if (t->window_rope_dims && mnem__layer_has_window(t, layer)) as.rope.dims = t->window_rope_dims;
    if (t->ff_wide && mnem_layer_is(&t->wide, layer)) as.ff = t->ff_wide;
    if (t->state_channels && mnem_layer_is(&t->recurrent, layer)) { /* heads of the state */
        as.latent = as.value_dim = 0;
        as.heads = as.kv_heads = t->state_heads;
        as.head_dim = t->state_rows;
    }
    return as;
}

bool mnem__layer_has_window(const mnem_transformer *t, int32_t layer) {
    return t->window > 0 && mnem_layer_is(&t->windowed, layer);
}

uint64_t mnem__state_conv_bytes(const mnem_transformer *t) {
    const int64_t width = mnem__state_width(t);
    return t->state_channels ? 3 * mnem_conv_page_bytes(width / 3, t->conv_length)
                             : mnem_conv_page_bytes(width, t->conv_length);
}

uint64_t mnem__layer_state_bytes(const mnem_transformer *t, int32_t layer) {
    if (!mnem_layer_is(&t->recurrent, layer)) return 0;
    return mnem__state_conv_bytes(t) +
           mnem_state_bytes(t->state_heads, t->state_rows, t->state_columns);
}

static bool is_state(mnem_op_kind core) {
    return core == MNEM_OP_DELTA || core == MNEM_OP_SCAN;
}

const mnem__layer_part *mnem__architecture_attends(const mnem__architecture *a) {
    for (const mnem__layer_part *part = a->parts; part->out; part++)
        if (part->core == MNEM_OP_ATTENTION) return part;
    return NULL;
}

const mnem__layer_part *mnem__architecture_feeds(const mnem__architecture *a) {
    for (const mnem__layer_part *part = a->parts; part->out; part++)
        if (part->core != MNEM_OP_ATTENTION && part->core != MNEM_OP_SHORT_CONV &&
            part->core != MNEM_OP_ADD && !is_state(part->core) && !part->of_layer)
            return part;
    return NULL;
}

const mnem__layer_part *mnem__architecture_recurs(const mnem__architecture *a) {
    for (const mnem__layer_part *part = a->parts; part->out; part++)
        if (is_state(part->core)) return part;
    return NULL;
}

bool mnem__architecture_has(const mnem__architecture *a, mnem__role role) {
    for (const mnem__tensor_use *use = a->tensors; use->role; use++)
        if (use->role == role) return true;
    return false;
}
