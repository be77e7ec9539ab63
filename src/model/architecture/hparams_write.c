/* hparams_write.c: the keys of a transformer that was trained. */
#include <stdio.h>

#include "model/architecture/hparams.h"
#include "model/gguf/gguf_writer.h"

typedef struct key_u32 {
    const char *name;
    int32_t value; /* 0: not written */
} key_u32;

mnem_status mnem__hparams_write(const mnem_transformer *t, mnem_gguf_writer *w) {
    const mnem__architecture *architecture = mnem__architecture_find(t->architecture);
    const bool turns = architecture->turn != MNEM__TURN_NONE;
    /* Readers take embedding / heads where nothing is said. */
    const int32_t length = t->heads * t->head_dim == t->embd ? 0 : t->head_dim;
    const key_u32 keys[] = {
        {MNEM__KEY_CONTEXT, t->context}, {MNEM__KEY_EMBD, t->embd},
        {MNEM__KEY_LAYERS, t->layers},   {MNEM__KEY_FF, t->ff},
        {MNEM__KEY_HEADS, t->heads},     {MNEM__KEY_KV_HEADS, t->kv_heads},
        {MNEM__KEY_KEY_LENGTH, length},  {MNEM__KEY_VALUE_LENGTH, length},
        {MNEM__KEY_VOCAB, t->vocab},     {MNEM__KEY_ROPE_DIMS, turns ? t->rope.dims : 0}};
    char name[80];
    mnem_status status = mnem_gguf_key_text(w, "general.architecture", t->architecture);
    for (size_t i = 0; i < sizeof keys / sizeof *keys && status == MNEM_OK; i++) {
        if (keys[i].value == 0) continue;
        snprintf(name, sizeof name, "%s.%s", t->architecture, keys[i].name);
        status = mnem__gguf_write_key_u32(w, name, (uint32_t)keys[i].value);
    }
    snprintf(name, sizeof name, "%s.%s", t->architecture, architecture->epsilon_key);
    if (status == MNEM_OK) status = mnem__gguf_write_key_f32(w, name, t->epsilon);
    if (!turns || status != MNEM_OK) return status;
    snprintf(name, sizeof name, "%s.%s", t->architecture, MNEM__KEY_ROPE_BASE);
    return mnem__gguf_write_key_f32(w, name, t->rope.base);
}
