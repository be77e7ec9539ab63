/* hf_config.h: config.json, as the classes of transformers interpret it.
 *
 * Models of text and images have the members of the text part in text_config; they take
 * precedence. RoPE's members are in rope_parameters, rope_scaling or at the top level, depending
 * on the file's age. */
#ifndef MNEM_SRC_MODEL_IMPORT_HF_CONFIG_H
#define MNEM_SRC_MODEL_IMPORT_HF_CONFIG_H

#include "model/import/families/hf_family.h"
#include "model/import/families/hf_members.h"
#include "model/import/folder_model.h"

typedef struct mnem__hf_config {
    const char *path; /* of config.json */
    const mnem__node *root, *text;
    const mnem__node *rope; /* of layers without a window; NULL: none */
    const mnem__node *rope_window;
    const mnem__hf_family *family;
    const mnem__hf_members *members;
    uint32_t layers; /* the length of a list of their kinds; else 0 */
} mnem__hf_config;

/* MNEM_UNSUPPORTED: an unknown class, or quantized weights. */
mnem_status mnem__hf_config_open(mnem__arena *arena, const char *folder, mnem__hf_config *config);

/* The first present member of these names (separated by spaces) that the class has, in the order
 * of its members; NULL: none. */
const mnem__node *mnem__hf_find(const mnem__hf_config *config, const char *names);
/* The same as a number. A missing member has the class's default; NAN: null, not a number, or
 * none. */
double mnem__hf_number(const mnem__hf_config *config, const char *names);
/* A number of RoPE, from its object or the top level. */
double mnem__hf_rope_number(const mnem__hf_config *config, const char *names);
const char *mnem__hf_rope_type(const mnem__hf_config *config);
/* MNEM_BAD_FILE: the number of that name (NAN: none) and the expected values ("1 to %d"). */
mnem_status mnem__hf_bad_number(const mnem__hf_config *config, const char *name, double number,
                                const char *expected, ...) __attribute__((format(printf, 4, 5)));
/* MNEM_UNSUPPORTED: node is the value of a layer in the list of that name; kinds: the supported
 * values. */
mnem_status mnem__hf_refuse_kind(const mnem__hf_config *config, const char *name, int64_t layer,
                                 const mnem__node *node, const char *kinds);
/* MNEM_BAD_FILE unless node, the member of that name, is a list with that number of items. of:
 * their meaning, such as "layers". */
mnem_status mnem__hf_check_list(const mnem__hf_config *config, const char *name,
                                const mnem__node *node, int64_t items, const char *of);
/* A required integer from 1 to most. */
mnem_status mnem__hf_size(const mnem__hf_config *config, const char *names, double most,
                          int64_t *size);
/* The same, or a list with equal values for all layers. */
mnem_status mnem__hf_size_alike(const mnem__hf_config *config, const char *names, double most,
                                int64_t *size);
/* The kind of a layer of one part, in the letters of published folders: M (a scan), *
 * (attention), - (a feed-forward), E (a mixture); 0: unknown. */
char mnem__hf_layer_letter(const mnem__hf_config *config, uint32_t layer);
/* The size of a head; 0: neither config.json nor the family's default gives one. */
int64_t mnem__hf_head_dim(const mnem__hf_config *config);
/* The number of heads of queries, or of keys and values. */
int64_t mnem__hf_heads(const mnem__hf_config *config, bool keys);

#endif
