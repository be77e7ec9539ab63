/* make_model_tokenizer.c: vocabularies that need no text: single bytes or characters, then words of
 * 1 to 4 letters, each with a merge that reaches it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/make_model.h"

enum { PIECE = 16, KIND_NORMAL = 1, KIND_UNKNOWN = 2, KIND_CONTROL = 3, KIND_BYTE = 6 };

typedef struct vocabulary {
    long count, room;
    char (*text)[PIECE];
    int32_t *kind;
    char (*merge)[2 * PIECE]; /* of the token with the same index; "" if none */
} vocabulary;

static bool add(vocabulary *v, int32_t kind, const char *left, const char *right) {
    if (v->count == v->room) return false;
    snprintf(v->text[v->count], PIECE, "%s%s", left, right);
    v->kind[v->count] = kind;
    if (*right) snprintf(v->merge[v->count], 2 * PIECE, "%s %s", left, right);
    v->count++;
    return true;
}

/* Words of 1 to 4 letters with and without the space's sign before them, shorter ones first; each
 * is the one before it and a letter, so that merging reaches all of them. */
static void add_words(vocabulary *v, const char *space) {
    for (int length = 1, words = 26; length <= 4; length++, words *= 26)
        for (int spaced = 1; spaced >= 0; spaced--)
            for (int word = 0; word < words; word++) {
                char left[PIECE], right[2] = {(char)('a' + word % 26), 0};
                int at = snprintf(left, sizeof left, "%s", spaced ? space : "");
                for (int i = 1, rest = word / 26, unit = words / 26 / 26;
                     i<length; i++, unit = unit> 1 ? unit / 26 : 1) {
                    left[at++] = (char)('a' + rest / unit % 26);
                    left[at] = 0;
                }
                if (at == 0) continue; /* a letter alone is there already */
                if (!add(v, KIND_NORMAL, left, right)) return;
            }
}

/* Pieces as SentencePiece makes them: control, bytes, characters, words. */
static void sentencepiece(vocabulary *v) {
    add(v, KIND_UNKNOWN, "<unk>", "");
    add(v, KIND_CONTROL, "<s>", "");
    add(v, KIND_CONTROL, "</s>", "");
    for (int i = 0; i < 256; i++) {
        char text[PIECE];
        snprintf(text, sizeof text, "<0x%02X>", i);
        add(v, KIND_BYTE, text, "");
    }
    add(v, KIND_NORMAL, "\xe2\x96\x81", "");
    for (int c = '!'; c < 127; c++) add(v, KIND_NORMAL, (char[]){(char)c, 0}, "");
    add_words(v, "\xe2\x96\x81");
}

/* GPT-2's letter for a byte, as UTF-8. */
static void byte_letter(int byte, char *out) {
    bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    int code = byte;
    if (!printable) {
        code = 256;
        for (int i = 0; i < byte; i++)
            code += !((i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174);
    }
    int n = 0;
    if (code >= 128) out[n++] = (char)(0xc0 | code >> 6);
    out[n++] = (char)(code < 128 ? code : 0x80 | (code & 63));
    out[n] = 0;
}

static void byte_level(vocabulary *v) {
    static const char *const special[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    v->room -= 3;
    for (int i = 0; i < 256; i++) {
        char text[PIECE];
        byte_letter(i, text);
        add(v, KIND_NORMAL, text, "");
    }
    add_words(v, "\xc4\xa0");
    v->room += 3;
    for (int i = 0; i < 3; i++) add(v, KIND_CONTROL, special[i], "");
}

static void put_array(mnem_gguf_writer *w, const char *key, mnem_value_type element, long count,
                      const void *elements) {
    mnem_value value = {.type = MNEM_VALUE_ARRAY,
                        .element = element,
                        .count = (uint64_t)count,
                        .elements = elements};
    must(mnem__gguf_write_key(w, key, &value));
}

static void put_bool(mnem_gguf_writer *w, const char *key, bool yes) {
    must(
        mnem__gguf_write_key(w, key, &(mnem_value){.type = MNEM_VALUE_BOOL, .count = 1, .u = yes}));
}

static void put_vocabulary(mnem_gguf_writer *w, const vocabulary *v, bool byte_pairs) {
    mnem_text *texts = calloc((size_t)v->count, sizeof *texts);
    float *scores = calloc((size_t)v->count, sizeof *scores);
    if (!texts || !scores) die("no memory");
    for (long i = 0; i < v->count; i++) {
        texts[i] = (mnem_text){v->text[i], strlen(v->text[i])};
        scores[i] = v->kind[i] == KIND_NORMAL ? -(float)i : 0;
    }
    must(mnem__gguf_write_key_texts(w, "tokenizer.ggml.tokens", texts, (uint64_t)v->count));
    put_array(w, "tokenizer.ggml.token_type", MNEM_VALUE_I32, v->count, v->kind);
    if (byte_pairs) {
        uint64_t merges = 0;
        for (long i = 0; i < v->count; i++)
            if (*v->merge[i]) texts[merges++] = (mnem_text){v->merge[i], strlen(v->merge[i])};
        must(mnem__gguf_write_key_texts(w, "tokenizer.ggml.merges", texts, merges));
    } else {
        put_array(w, "tokenizer.ggml.scores", MNEM_VALUE_F32, v->count, scores);
    }
    free(texts);
    free(scores);
}

void put_tokenizer(mnem_gguf_writer *w, const options *o) {
    bool byte_pairs = strcmp(o->tokenizer, "gpt2") == 0;
    vocabulary v = {.room = o->vocab};
    if (o->vocab < 384) die("--vocab: expected at least 384");
    v.text = calloc((size_t)o->vocab, sizeof *v.text);
    v.kind = calloc((size_t)o->vocab, sizeof *v.kind);
    v.merge = calloc((size_t)o->vocab, sizeof *v.merge);
    if (!v.text || !v.kind || !v.merge) die("no memory");
    if (byte_pairs)
        byte_level(&v);
    else
        sentencepiece(&v);
    if (v.count != o->vocab) die("--vocab: too large for the words there are");
    must(mnem_gguf_key_text(w, "tokenizer.ggml.model", o->tokenizer));
    must(mnem_gguf_key_text(w, "tokenizer.ggml.pre", byte_pairs ? "gpt-2" : "default"));
    put_vocabulary(w, &v, byte_pairs);
    uint32_t last = (uint32_t)o->vocab - 1;
    must(mnem__gguf_write_key_u32(w, "tokenizer.ggml.bos_token_id", byte_pairs ? last - 2 : 1));
    must(mnem__gguf_write_key_u32(w, "tokenizer.ggml.eos_token_id", byte_pairs ? last - 2 : 2));
    if (!byte_pairs) must(mnem__gguf_write_key_u32(w, "tokenizer.ggml.unknown_token_id", 0));
    put_bool(w, "tokenizer.ggml.add_bos_token", !byte_pairs);
    put_bool(w, "tokenizer.ggml.add_eos_token", false);
    if (!byte_pairs) put_bool(w, "tokenizer.ggml.add_space_prefix", true);
    if (o->chat_template) must(mnem_gguf_key_text(w, "tokenizer.chat_template", o->chat_template));
    free(v.text);
    free(v.kind);
    free(v.merge);
}
