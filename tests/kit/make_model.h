/* make_model.h: what the parts of the program make_model know of each other. */
#ifndef MNEM_TESTS_KIT_MAKE_MODEL_H
#define MNEM_TESTS_KIT_MAKE_MODEL_H

#include "model/architecture/architecture.h"
#include "model/gguf/gguf_writer.h"

typedef struct options {
    const char *out, *arch, *type, *output_type, *router_type, *rope_scaling, *tokenizer,
        *chat_template;
    long embd, layers, heads, kv_heads, head_dim, ff, vocab, context, alignment, seed;
    long experts, experts_used, ff_expert, ff_shared;
    long window, window_head_dim, kv_shared, layer_embd;
    long latent, index_heads, index_dim, index_top_k;
    long state_groups, state_heads, state_dim, state_columns, attend_every; /* recurrent layers */
    bool tied, bias, hollow;
} options;

options parse_options(int argc, char **argv);

/* Says so and ends the program. */
void die(const char *what);
void must(mnem_status status);

/* The table of --arch, and its shape; which kinds of layers it has (make_model_shape.c). */
const mnem__architecture *architecture(const options *o);
bool is_conv(const options *o);
bool has_layer_heads(const options *o);
bool has_layer_ff(const options *o);
uint32_t ff_of(const options *o, long layer);
bool has_latent_experts(const options *o);
uint32_t kv_heads_of(const options *o, long layer);
bool is_interleaved(const options *o);
bool is_latent(const options *o);
int32_t rope_dims_of(const options *o);
bool has_states(const options *o);
bool has_kinds(const options *o);
mnem_transformer shape_of(const options *o);

/* The keys of a tokenizer with --vocab tokens. */
void put_tokenizer(mnem_gguf_writer *w, const options *o);

#endif
