/* make_model.h: what the parts of the program make_model know of each other. */
#ifndef MNEM_TESTS_KIT_MAKE_MODEL_H
#define MNEM_TESTS_KIT_MAKE_MODEL_H

#include "model/gguf/gguf_writer.h"

typedef struct options {
    const char *out, *arch, *type, *output_type, *router_type, *rope_scaling, *tokenizer,
        *chat_template;
    long embd, layers, heads, kv_heads, head_dim, ff, vocab, context, alignment, seed;
    long experts, experts_used, ff_expert, ff_shared;
    long state_groups, state_heads, state_dim, state_columns, attend_every; /* recurrent layers */
    bool tied, bias, hollow;
} options;

options parse_options(int argc, char **argv);

/* Says so and ends the program. */
void die(const char *what);
void must(mnem_status status);

/* About normal (the sum of four uniform numbers), of standard deviation 1. */
float normal(uint64_t *state);

/* n random weights of type, about of this deviation; whole blocks. */
void make_row(mnem_type type, int64_t n, uint64_t *state, float deviation, uint8_t *row);

/* The keys of a tokenizer with --vocab tokens. */
void put_tokenizer(mnem_gguf_writer *w, const options *o);

#endif
