/* hf_parse.h: parses the names of a folder's tensors for the families' tables. */
#ifndef MNEM_SRC_MODEL_IMPORT_FAMILIES_HF_PARSE_H
#define MNEM_SRC_MODEL_IMPORT_FAMILIES_HF_PARSE_H

#include "model/gguf/gguf.h"

/* A parsed name: "model.layers.3.mlp.up_proj.weight" is layer 3, "mlp.up_proj", ".weight". */
typedef struct mnem__hf_parsed {
    char text[MNEM__GGUF_NAME_MAX + 1];
    const char *base, *suffix;
    size_t base_bytes;
    long layer;  /* -1: outside layers */
    long expert; /* its number is '*' in base; -1: none */
} mnem__hf_parsed;
void mnem__hf_parse(const char *name, mnem__hf_parsed *parsed);

#endif
