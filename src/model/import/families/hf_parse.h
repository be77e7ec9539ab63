/* hf_parse.h: names of a folder's tensors, cut into what a family's table has. */
#ifndef MNEM_SRC_MODEL_IMPORT_FAMILIES_HF_PARSE_H
#define MNEM_SRC_MODEL_IMPORT_FAMILIES_HF_PARSE_H

#include "model/gguf/gguf.h"

/* What a name says: "model.layers.3.mlp.up_proj.weight" is layer 3, "mlp.up_proj", ".weight". */
typedef struct mnem__hf_parsed {
    char text[MNEM__GGUF_NAME_MAX + 1];
    const char *base, *suffix;
    size_t base_bytes;
    long layer;  /* -1: outside */
    long expert; /* whose number is '*' in base; -1 */
} mnem__hf_parsed;
void mnem__hf_parse(const char *name, mnem__hf_parsed *parsed);

#endif
