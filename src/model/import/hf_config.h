/* hf_config.h: config.json, as the classes of transformers understand it.
 *
 * A model of texts and images has its text's members in text_config: they stand before the others.
 * RoPE's are in rope_parameters, rope_scaling or beside everything else, by age. */
#ifndef MNEM_SRC_MODEL_IMPORT_HF_CONFIG_H
#define MNEM_SRC_MODEL_IMPORT_HF_CONFIG_H

#include "model/import/families/hf_family.h"
#include "model/import/families/hf_members.h"
#include "model/import/folder_model.h"

typedef struct mnem__hf_config {
    const char *path; /* of config.json */
    const mnem__node *root, *text;
    const mnem__node *rope; /* of layers that see all; NULL: none */
    const mnem__node *rope_window;
    const mnem__hf_family *family;
    const mnem__hf_members *members;
    uint32_t layers; /* where a list of their kinds says how many; else 0 */
} mnem__hf_config;

/* MNEM_UNSUPPORTED: a class that isn't known, or weights that are quantized already. */
mnem_status mnem__hf_config_open(mnem__arena *arena, const char *folder, mnem__hf_config *config);

/* The first that is there of those names (a space between two) that the class has, in the order of
 * its members; NULL. */
const mnem__node *mnem__hf_find(const mnem__hf_config *config, const char *names);
/* So as a number. Where the file is silent the class's default; NAN: null, no number, or none. */
double mnem__hf_number(const mnem__hf_config *config, const char *names);
/* Of RoPE, here or beside everything else. */
double mnem__hf_rope_number(const mnem__hf_config *config, const char *names);
const char *mnem__hf_rope_type(const mnem__hf_config *config);
/* MNEM_UNSUPPORTED: node, what the list of that name says of a layer; kinds: what it may say. */
mnem_status mnem__hf_refuse_kind(const mnem__hf_config *config, const char *name, int64_t layer,
                                 const mnem__node *node, const char *kinds);
/* MNEM_BAD_FILE unless node, the member of that name, is a list with that number of items. of: what
 * they are, such as "layers". */
mnem_status mnem__hf_check_list(const mnem__hf_config *config, const char *name,
                                const mnem__node *node, int64_t items, const char *of);
/* Required, a whole number from 1 to most. */
mnem_status mnem__hf_size(const mnem__hf_config *config, const char *names, double most,
                          int64_t *size);
/* So, or a list of one for each layer that are all the same. */
mnem_status mnem__hf_size_alike(const mnem__hf_config *config, const char *names, double most,
                                int64_t *size);
/* What a layer is where each has one part, as the published folders write it: M (a scan), *
 * (attention), - (a feed-forward), E (a mixture); 0: unknown. */
char mnem__hf_layer_letter(const mnem__hf_config *config, uint32_t layer);
/* The numbers of a head; 0 when config.json doesn't say so and the family doesn't make one. */
int64_t mnem__hf_head_dim(const mnem__hf_config *config);
/* Heads of queries, or of keys and values. */
int64_t mnem__hf_heads(const mnem__hf_config *config, bool keys);

#endif
