/* tokenizer.c: what the file says about its tokens, and text to ids.
 *
 * The idea: text is cut at special tokens (the leftmost first, the longest of those that start
 * there); what lies between goes to the file's model, byte-level BPE or SentencePiece-style.
 * Invariant: nothing here depends on the transformer, so vocabulary-only files and unknown
 * architectures work.
 * Cost: linear in the text but for the logarithm of its longest word; scratch of some size
 * is given back after each call, the ids' buffer before the next. */
#include "model/tokenizer/tokenizer_private.h"

#include <string.h>

#include "base/heap.h"
#include "mnem/vocabulary.h"
#include "model/gguf/gguf.h"
#include "model/tokenizer/chat_format.h"

enum { TEXT_MAX = 1 << 30 };

/* ---- keys ---- */

static mnem_status read_text(const mnem_tokenizer *t, const char *key, mnem_text *text) {
    mnem_value value;
    *text = (mnem_text){"", 0};
    if (!mnem__token_source_find(&t->source, key, &value)) return MNEM_OK;
    if (value.type != MNEM_VALUE_STRING)
        return mnem__fail(MNEM_BAD_FILE, "%s is not a string", key);
    *text = value.text;
    return MNEM_OK;
}

static mnem_status read_bool(const mnem_tokenizer *t, const char *key, bool *flag) {
    mnem_value value;
    if (!mnem__token_source_find(&t->source, key, &value)) return MNEM_OK;
    if (value.type != MNEM_VALUE_BOOL) return mnem__fail(MNEM_BAD_FILE, "%s is not a bool", key);
    *flag = value.u != 0;
    return MNEM_OK;
}

static bool is_integer(mnem_value_type type) {
    return type <= MNEM_VALUE_I32 || type == MNEM_VALUE_U64 || type == MNEM_VALUE_I64;
}

/* A token's id. lenient: out of range is none, since files in use say so of tokens that aren't
 * used. */
static mnem_status read_id(const mnem_tokenizer *t, const char *key, bool lenient, int32_t *id) {
    mnem_value value;
    if (!mnem__token_source_find(&t->source, key, &value)) return MNEM_OK;
    if (!is_integer(value.type)) return mnem__fail(MNEM_BAD_FILE, "%s is not an integer", key);
    if (value.u < (uint64_t)t->info.vocab) {
        *id = (int32_t)value.u;
        return MNEM_OK;
    }
    *id = -1;
    if (lenient) return MNEM_OK;
    return mnem__fail(MNEM_BAD_FILE, "%s is %lld, the vocabulary has %d tokens", key,
                      (long long)value.i, t->info.vocab);
}

static mnem_status read_tokens(mnem_tokenizer *t) {
    static const char key[] = "tokenizer.ggml.tokens";
    if (!mnem__token_source_find(&t->source, key, &t->vocab.tokens))
        return mnem__fail(MNEM_BAD_FILE, "%s is missing", key);
    if (t->vocab.tokens.type != MNEM_VALUE_ARRAY || t->vocab.tokens.element != MNEM_VALUE_STRING)
        return mnem__fail(MNEM_BAD_FILE, "%s is not an array of strings", key);
    if (t->vocab.tokens.count == 0 || t->vocab.tokens.count >= INT32_MAX)
        return mnem__fail(MNEM_BAD_FILE, "%s has %llu entries", key,
                          (unsigned long long)t->vocab.tokens.count);
    t->info.vocab = (int32_t)t->vocab.tokens.count;
    return MNEM_OK;
}

static mnem_status read_types(mnem_tokenizer *t) {
    static const char key[] = "tokenizer.ggml.token_type";
    if (!mnem__token_source_find(&t->source, key, &t->vocab.types)) return MNEM_OK;
    if (t->vocab.types.type != MNEM_VALUE_ARRAY || !is_integer(t->vocab.types.element))
        return mnem__fail(MNEM_BAD_FILE, "%s is not an array of integers", key);
    if (t->vocab.types.count == t->vocab.tokens.count) return MNEM_OK;
    return mnem__fail(MNEM_BAD_FILE, "%s has %llu entries for %llu tokens", key,
                      (unsigned long long)t->vocab.types.count,
                      (unsigned long long)t->vocab.tokens.count);
}

/* SentencePiece files that don't name these tokens have them at 0, 1 and 2, with these types. */
static void default_ids(mnem_tokenizer *t) {
    t->info.bos = t->info.eos = t->info.eot = t->info.unk = t->info.pad = -1;
    if (t->vocab.bpe || t->info.vocab < 3) return;
    if (mnem__token_vocab_type(&t->vocab, 0) == MNEM__TOKEN_UNKNOWN) t->info.unk = 0;
    if (mnem__token_vocab_type(&t->vocab, 1) == MNEM__TOKEN_CONTROL) t->info.bos = 1;
    if (mnem__token_vocab_type(&t->vocab, 2) == MNEM__TOKEN_CONTROL) t->info.eos = 2;
}

static mnem_status read_ids(mnem_tokenizer *t, int32_t *eom) {
    const struct {
        const char *key;
        int32_t *id;
        bool lenient;
    } ids[] = {
        {"tokenizer.ggml.bos_token_id", &t->info.bos, false},
        {"tokenizer.ggml.eos_token_id", &t->info.eos, false},
        {"tokenizer.ggml.eot_token_id", &t->info.eot, false},
        {"tokenizer.ggml.eom_token_id", eom, false},
        {"tokenizer.ggml.unknown_token_id", &t->info.unk, true},
        {"tokenizer.ggml.padding_token_id", &t->info.pad, true},
    };
    default_ids(t);
    mnem_status status = MNEM_OK;
    for (size_t i = 0; i < sizeof ids / sizeof *ids && status == MNEM_OK; i++)
        status = read_id(t, ids[i].key, ids[i].lenient, ids[i].id);
    return status;
}

static bool text_is(mnem_text text, const char *expected) {
    return text.length == strlen(expected) && memcmp(text.bytes, expected, text.length) == 0;
}

static mnem_status copy_name(mnem_text text, const char *key, char *out, size_t n) {
    if (text.length >= n || memchr(text.bytes, 0, text.length))
        return mnem__fail(MNEM_UNSUPPORTED, "%s of %zu bytes is not supported", key, text.length);
    memcpy(out, text.bytes, text.length);
    out[text.length] = 0;
    return MNEM_OK;
}

static mnem_status read_model(mnem_tokenizer *t) {
    mnem_text model, pre;
    mnem_status status = read_text(t, "tokenizer.ggml.model", &model);
    if (status == MNEM_OK) status = read_text(t, "tokenizer.ggml.pre", &pre);
    if (status != MNEM_OK) return status;
    if (model.length == 0)
        return mnem__fail(MNEM_BAD_FILE, "no tokenizer: key tokenizer.ggml.model is missing");
    t->vocab.bpe = text_is(model, "gpt2");
    if (!t->vocab.bpe && !text_is(model, "llama"))
        return mnem__fail(MNEM_UNSUPPORTED, "tokenizer.ggml.model '%.*s' is not supported",
                          (int)(model.length < 64 ? model.length : 64), model.bytes);
    if (pre.length == 0) pre = (mnem_text){"default", 7};
    t->info.model = t->vocab.bpe ? "gpt2" : "llama";
    t->info.pre = t->pre;
    return copy_name(pre, "tokenizer.ggml.pre", t->pre, sizeof t->pre);
}

static mnem_status read_flags(mnem_tokenizer *t) {
    const bool llama3 = t->vocab.bpe && mnem__pretokenizer_is_llama3(t->info.pre);
    t->info.add_bos = llama3 || !t->vocab.bpe;
    t->info.add_space_prefix = !t->vocab.bpe;
    mnem_status status = read_bool(t, "tokenizer.ggml.add_bos_token", &t->info.add_bos);
    if (status == MNEM_OK) status = read_bool(t, "tokenizer.ggml.add_eos_token", &t->info.add_eos);
    if (status == MNEM_OK)
        status = read_bool(t, "tokenizer.ggml.add_space_prefix", &t->info.add_space_prefix);
    return status;
}

static mnem_status make_tables(mnem_tokenizer *t, int32_t eom) {
    mnem__end_ids ids = {.eos = t->info.eos, .eot = t->info.eot, .eom = eom};
    mnem_status status = mnem__token_vocab_init(&t->vocab);
    if (status == MNEM_OK) status = mnem__special_tokens_init(&t->special, &t->vocab, &ids);
    if (status != MNEM_OK) return status;
    t->info.eot = ids.eot;
    t->work.vocab = &t->vocab;
    t->work.unknown = t->info.unk;
    if (!t->vocab.bpe) return mnem__spm_init(&t->spm, &t->source, &t->work);
    status = mnem__bpe_init(&t->bpe, &t->source, t->info.pre, &t->work);
    t->info.merges = t->bpe.merge_count;
    return status;
}

static mnem_status read_all(mnem_tokenizer *t) {
    mnem_text chat_template;
    int32_t eom = -1;
    mnem_status status = read_model(t);
    if (status == MNEM_OK) status = read_tokens(t);
    if (status == MNEM_OK) status = read_types(t);
    if (status == MNEM_OK) status = read_ids(t, &eom);
    if (status == MNEM_OK) status = read_flags(t);
    if (status == MNEM_OK) status = read_text(t, "tokenizer.chat_template", &chat_template);
    if (status != MNEM_OK) return status;
    t->chat = mnem__chat_recognise(chat_template);
    return make_tables(t, eom);
}

/* ---- life ---- */

mnem_status mnem__tokenizer_create_of(const mnem__token_source *source,
                                      mnem_tokenizer **tokenizer) {
    const mnem_model *model = source->model;
    if (model && mnem__gguf_check_model(model) != MNEM_OK) return MNEM_UNSUPPORTED;
    mnem_tokenizer *t = mnem__calloc(MNEM__TOKENIZER_TAG, 1, sizeof *t);
    if (!t) return mnem__heap_status();
    t->source = *source;
    const mnem_status status = read_all(t);
    if (status != MNEM_OK) {
        mnem_tokenizer_destroy(t);
        const bool of_file = status == MNEM_BAD_FILE || status == MNEM_UNSUPPORTED;
        return model && of_file ? mnem__fail_in(status, "%s", model->path) : status;
    }
    mnem__token_work_trim(&t->work);
    *tokenizer = t;
    return MNEM_OK;
}

mnem_status mnem_tokenizer_create(const mnem_model *model, mnem_tokenizer **tokenizer) {
    return mnem__tokenizer_create_of(&(mnem__token_source){.model = model}, tokenizer);
}

mnem_status mnem__tokenizer_clone(const mnem_tokenizer *t, mnem_tokenizer **clone) {
    return mnem__tokenizer_create_of(&t->source, clone);
}

void mnem_tokenizer_destroy(mnem_tokenizer *t) {
    if (!t) return;
    if (t->vocab.bpe) mnem__bpe_fini(&t->bpe);
    mnem__special_tokens_fini(&t->special);
    mnem__token_vocab_fini(&t->vocab);
    mnem__token_work_fini(&t->work);
    mnem__free(t);
}

void mnem_tokenizer_info_get(const mnem_tokenizer *tokenizer, mnem_tokenizer_info *info) {
    *info = tokenizer->info;
}

mnem_chat_format mnem_tokenizer_chat_format(const mnem_tokenizer *tokenizer) {
    return tokenizer->chat;
}

mnem_text mnem_tokenizer_piece(const mnem_tokenizer *t, int32_t id, bool special) {
    if (id < 0 || id >= t->info.vocab) return (mnem_text){"", 0};
    const mnem__token_type type = mnem__token_vocab_type(&t->vocab, id);
    const bool hidden =
        type == MNEM__TOKEN_CONTROL || type == MNEM__TOKEN_UNKNOWN || type == MNEM__TOKEN_UNUSED;
    return hidden && !special ? (mnem_text){"", 0} : mnem__token_vocab_piece(&t->vocab, id);
}

bool mnem_tokenizer_is_end(const mnem_tokenizer *t, int32_t id) {
    return mnem__special_tokens_is_end(&t->special, id);
}

mnem_status mnem_tokenizer_write(const mnem_tokenizer *tokenizer, mnem_gguf_writer *writer) {
    return mnem__token_source_write(&tokenizer->source, writer);
}

uint64_t mnem_tokenizer_checksum(const mnem_tokenizer *tokenizer) {
    return mnem__token_source_checksum(&tokenizer->source);
}

/* ---- encoding ---- */

/* Where the next special token starts; n if there is none. */
static size_t next_special(const mnem_tokenizer *t, const char *text, size_t n, size_t at,
                           int32_t *id, size_t *length) {
    for (*id = -1; at < n; at++) {
        *id = mnem__special_tokens_match(&t->special, &t->vocab, text + at, n - at, length);
        if (*id >= 0) break;
    }
    return at;
}

static mnem_status encode_plain(mnem_tokenizer *t, const char *text, size_t n, bool after_special) {
    if (n == 0) return MNEM_OK;
    if (t->vocab.bpe) return mnem__bpe_encode(&t->bpe, &t->work, text, n);
    return mnem__spm_encode(&t->spm, &t->work, text, n, after_special && t->info.add_space_prefix);
}

static mnem_status encode_parsed(mnem_tokenizer *t, const char *text, size_t n) {
    mnem_status status = MNEM_OK;
    for (size_t at = 0; at < n && status == MNEM_OK;) {
        int32_t id;
        size_t length = 0;
        const size_t special = next_special(t, text, n, at, &id, &length);
        status = encode_plain(t, text + at, special - at, true);
        if (status == MNEM_OK && id >= 0) status = mnem__token_work_add(&t->work, id);
        at = special + length;
    }
    return status;
}

mnem_status mnem_tokenizer_encode(mnem_tokenizer *t, const char *text, size_t length,
                                  unsigned flags, const int32_t **ids, size_t *count) {
    if (length > TEXT_MAX)
        return mnem__fail(MNEM_INVALID, "tokenizer: %zu bytes of text, at most %d", length,
                          TEXT_MAX);
    const bool around = !(flags & MNEM_ENCODE_NO_SPECIAL);
    mnem_status status = MNEM_OK;
    mnem__token_work_ids_trim(&t->work);
    if (around && t->info.add_bos && t->info.bos >= 0)
        status = mnem__token_work_add(&t->work, t->info.bos);
    if (status == MNEM_OK)
        status = flags & MNEM_ENCODE_PLAIN ? encode_plain(t, text, length, true)
                                           : encode_parsed(t, text, length);
    if (status == MNEM_OK && around && t->info.add_eos && t->info.eos >= 0)
        status = mnem__token_work_add(&t->work, t->info.eos);
    mnem__token_work_trim(&t->work);
    if (status != MNEM_OK) return status;
    *ids = t->work.ids;
    *count = t->work.count;
    return MNEM_OK;
}
