/* info_transformer.c: the transformer that a file describes, as `mnem info` shows it. */
#include "verbs/info/info_transformer.h"

#include <stdio.h>
#include <string.h>

#include "options.h"
#include "verbs/info/info_features.h"

void info_line(const char *name, const char *text) {
    tool_outf("%-14s %s\n", name, text);
}

const char *info_rope_scaling(const mnem_transformer *t) {
    if (t->rope.yarn_ext > 0) return "yarn";
    if (t->rope_factors >= 0) return t->window_rope_base > 0 ? "proportional" : "llama3";
    if (t->rope.original_context > 0) return "longrope";
    return t->rope.scale == 1 ? "none" : "linear";
}

/* "64 of 1024, 8 for each token, and 2048 for all" */
static void print_experts(const mnem_transformer *t) {
    char text[128];
    if (t->experts == 0) return;
    snprintf(text, sizeof text, "%d of %d, %d for each token", t->experts, t->ff_expert,
             t->route.used);
    const size_t at = strlen(text);
    if (t->ff_shared > 0) snprintf(text + at, sizeof text - at, ", and %d for all", t->ff_shared);
    info_line("experts", text);
    if (t->latent == 0) return;
    snprintf(text, sizeof text, "%d for keys and values, heads of %d and %d", t->latent, t->key_dim,
             t->value_dim);
    info_line("latent", text);
}

/* Layers that convolve, and what an encoder is for. */
static void print_kind(const mnem_transformer *t) {
    static const char *const poolings[] = {"not specified", "mean", "first token", "last token"};
    char text[64];
    const int layers = mnem_layers_count(&t->convolving, t->layers);
    snprintf(text, sizeof text, "%d of %d layers, over %d positions", layers, t->layers,
             t->conv_length);
    if (layers) info_line("convolutions", text);
    if (t->encoder || t->pooling) info_line("pooling", poolings[t->pooling]);
}

static void print_window(const mnem_transformer *t) {
    char layers[64] = "", text[96];
    if (t->window == 0) return;
    if (t->windowed.kind == MNEM_LAYERS_BUT_EVERY)
        snprintf(layers, sizeof layers, ", but for one layer of %d", t->windowed.n);
    else if (t->windowed.kind != MNEM_LAYERS_ALL)
        snprintf(layers, sizeof layers, ", in %d of %d layers",
                 mnem_layers_count(&t->windowed, t->layers), t->layers);
    snprintf(text, sizeof text, "%d tokens%s", t->window, layers);
    info_line("window", text);
}

/* What layers with a window, the last layers and others have of their own. */
static void print_layers(const mnem_transformer *t) {
    char text[128];
    const int32_t dim = t->window_head_dim ? t->window_head_dim : t->head_dim,
                  heads = t->window_kv_heads ? t->window_kv_heads : t->kv_heads;
    if (t->window_heads)
        snprintf(text, sizeof text, "in layers with a window: %d heads of %d, %d KV head%s",
                 t->window_heads, dim, heads, tool_s((uint64_t)heads));
    else
        snprintf(text, sizeof text, "in layers with a window: heads of %d, %d KV head%s", dim,
                 heads, tool_s((uint64_t)heads));
    if (t->window_head_dim || t->window_kv_heads || t->window_heads) info_line("", text);
    snprintf(text, sizeof text, "the last %d layers use keys and values of layers before them",
             t->kv_shared_layers);
    if (t->kv_shared_layers) info_line("", text);
    snprintf(text, sizeof text, "feed-forward size %d in %d layers", t->ff_wide,
             mnem_layers_count(&t->wide, t->layers));
    if (t->ff_wide) info_line("", text);
    snprintf(text, sizeof text, "%d numbers of each token for each layer, read from the file",
             t->layer_embd);
    if (t->layer_embd) info_line("", text);
}

static void print_streams(const mnem_transformer *t) {
    char text[80];
    if (t->streams == 0) return;
    snprintf(text, sizeof text, "%d of residuals (AltUp), LAuReL of rank %d beside attention",
             t->streams, t->laurel);
    info_line("streams", text);
}

/* "24 of 24 layers, 80 heads of 128 x 64, 63.2 MiB for each sequence" */
static void print_states(const mnem_transformer *t) {
    char text[160], size[64];
    const int layers = mnem_layers_count(&t->recurrent, t->layers);
    if (layers == 0) return;
    snprintf(text, sizeof text, "%d of %d layers, %d head%s of %d x %d, %s for each sequence",
             layers, t->layers, t->state_heads, tool_s((uint64_t)t->state_heads), t->state_rows,
             t->state_columns, tool_size(mnem_transformer_state_bytes(t), size));
    info_line("states", text);
}

static void print_sizes(const mnem_transformer *t) {
    char text[128], ff[48] = "";
    if (t->ff) snprintf(ff, sizeof ff, ", feed-forward size %d", t->ff);
    snprintf(text, sizeof text, "%d layer%s, hidden size %d%s", t->layers,
             tool_s((uint64_t)t->layers), t->embd, ff);
    info_line("shape", text);
    snprintf(text, sizeof text, "%d head%s of %d, %d KV head%s", t->heads,
             tool_s((uint64_t)t->heads), t->head_dim, t->kv_heads, tool_s((uint64_t)t->kv_heads));
    if (t->heads) info_line("attention", text);
    print_layers(t);
    print_streams(t);
    print_states(t);
}

/* A folder's rows of Q and K are put in the order of GGUF files while they are read. */
static const char *pairs_text(const mnem_transformer *t, bool folder) {
    if (t->rope.neox) return "NeoX pairs";
    return folder ? "interleaved pairs (rows that the folder has in halves are reordered)"
                  : "interleaved pairs";
}

static void print_rope(const mnem_transformer *t, bool folder) {
    char text[160];
    if (t->rope.dims && t->rope.base > 0) {
        snprintf(text, sizeof text, "base %g, %d dimensions, %s, scaling %s", (double)t->rope.base,
                 t->rope.dims, pairs_text(t, folder), info_rope_scaling(t));
        info_line("rope", text);
    } else if (t->heads && t->recurrent.kind) {
        info_line("positions", "none: states carry the order");
    } else if (t->heads) {
        info_line("positions", "learned, one vector for each");
    }
}

void info_transformer_print(const mnem_transformer *t, bool folder) {
    char text[256];
    print_sizes(t);
    print_experts(t);
    print_kind(t);
    snprintf(text, sizeof text, "%d token%s", t->context, tool_s((uint64_t)t->context));
    info_line("context", text);
    print_window(t);
    print_rope(t, folder);
    if (t->encoder)
        snprintf(text, sizeof text, "an encoder, LayerNorm after each block");
    else if (t->rope.dims || t->recurrent.kind)
        snprintf(text, sizeof text, "%s%s%s%s",
                 t->tied ? "tied embeddings" : "separate output matrix",
                 t->qkv_bias ? ", biases of q, k, v" : "",
                 t->out_bias ? ", bias of the output" : "", t->qk_norm ? ", norms of q and k" : "");
    else
        snprintf(text, sizeof text, "%s, LayerNorm, GELU, biases everywhere",
                 t->tied ? "tied embeddings" : "separate output matrix");
    info_line("details", text);
    info_line("runs", t->encoder ? "embeddings only: mnem embed" : "yes");
    info_features_print(t);
}
