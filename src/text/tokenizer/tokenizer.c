/* tokenizer.c: what the file says about its tokens, and text to ids.
 *
 * The idea: text is cut at special tokens (the leftmost first, the longest of those that start
 * there); what lies between goes to the file's model, byte-level BPE or SentencePiece-style.
 * Invariant: nothing here depends on the transformer, so vocabulary-only files and unknown
 * architectures work.
 * Cost: linear in the text but for the logarithm of its longest word; scratch of some size
 * is given back after each call, the ids' buffer before the next. */
#include "text/tokenizer/tokenizer_private.h"

#include <string.h>
#include <strings.h>

#include "base/heap.h"
#include "mnem/tokenizer.h"
#include "model/gguf/gguf.h"
#include "text/tokenizer/chat_format.h"

enum { TEXT_MAX = 1 << 30 };

/* ---- keys ---- */

static mnem_status read_text(const mnem_tokenizer *t, const char *key, mnem_text *text) {
    mnem_value value;
    *text = (mnem_text){"", 0};
    if (!mnem__token_source_find(&t->source, key, &value)) return MNEM_OK;
    if (value.type != MNEM_VALUE_STRING)
        return mnem__fail(MNEM_BAD_FILE,
                          "key %s is not a string; download or convert the file again", key);
    *text = value.text;
    return MNEM_OK;
}

static mnem_status read_bool(const mnem_tokenizer *t, const char *key, bool *flag) {
    mnem_value value;
    if (!mnem__token_source_find(&t->source, key, &value)) return MNEM_OK;
    if (value.type != MNEM_VALUE_BOOL)
        return mnem__fail(MNEM_BAD_FILE, "key %s is not a bool; download or convert the file again",
                          key);
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
    if (!is_integer(value.type))
        return mnem__fail(MNEM_BAD_FILE,
                          "key %s is not an integer; download or convert the file again", key);
    if (value.u < (uint64_t)t->info.vocab) {
        *id = (int32_t)value.u;
        return MNEM_OK;
    }
    *id = -1;
    if (lenient) return MNEM_OK;
    return mnem__fail(
        MNEM_BAD_FILE,
        "key %s is %lld, expected the id of a token, 0 to %d; download or convert the file again",
        key, (long long)value.i, t->info.vocab - 1);
}

static mnem_status read_tokens(mnem_tokenizer *t) {
    static const char key[] = "tokenizer.ggml.tokens";
    if (!mnem__token_source_find(&t->source, key, &t->vocab.tokens))
        return mnem__fail(MNEM_BAD_FILE, "key %s is missing; download or convert the file again",
                          key);
    if (t->vocab.tokens.type != MNEM_VALUE_ARRAY || t->vocab.tokens.element != MNEM_VALUE_STRING)
        return mnem__fail(MNEM_BAD_FILE,
                          "key %s is not an array of strings; download or convert the file again",
                          key);
    if (t->vocab.tokens.count == 0 || t->vocab.tokens.count >= INT32_MAX)
        return mnem__fail(
            MNEM_BAD_FILE,
            "key %s has %llu entries, expected 1 to 2^31 - 2; download or convert the file again",
            key, (unsigned long long)t->vocab.tokens.count);
    t->info.vocab = (int32_t)t->vocab.tokens.count;
    return MNEM_OK;
}

static mnem_status read_types(mnem_tokenizer *t) {
    static const char key[] = "tokenizer.ggml.token_type";
    if (!mnem__token_source_find(&t->source, key, &t->vocab.types)) return MNEM_OK;
    if (t->vocab.types.type != MNEM_VALUE_ARRAY || !is_integer(t->vocab.types.element))
        return mnem__fail(MNEM_BAD_FILE,
                          "key %s is not an array of integers; download or convert the file again",
                          key);
    if (t->vocab.types.count == t->vocab.tokens.count) return MNEM_OK;
    return mnem__fail(MNEM_BAD_FILE,
                      "key %s has %llu entries, expected %llu, one for each token; download or "
                      "convert the file again",
                      key, (unsigned long long)t->vocab.types.count,
                      (unsigned long long)t->vocab.tokens.count);
}

/* What files that don't name their special tokens mean by that. */
static void default_ids(mnem_tokenizer *t) {
    mnem_tokenizer_info *i = &t->info;
    i->bos = i->eos = i->eot = i->unk = i->pad = t->last = -1;
    if (t->model == MNEM__MODEL_SPM && i->vocab >= 3) { /* with these types */
        if (mnem__token_vocab_type(&t->vocab, 0) == MNEM__TOKEN_UNKNOWN) i->unk = 0;
        if (mnem__token_vocab_type(&t->vocab, 1) == MNEM__TOKEN_CONTROL) i->bos = 1;
        if (mnem__token_vocab_type(&t->vocab, 2) == MNEM__TOKEN_CONTROL) i->eos = 2;
    } else if (t->model == MNEM__MODEL_UNIGRAM && i->vocab >= 3) {
        i->pad = 0, i->eos = 1, i->unk = 2;
    } else if (t->model == MNEM__MODEL_WORDPIECE && i->vocab >= 103) {
        i->pad = 0, i->unk = 100, i->bos = 101, t->last = 102;
    }
}

static mnem_status read_ids(mnem_tokenizer *t, int32_t *eom) {
    const struct {
        const char *key;
        int32_t *id;
        bool lenient;
    } ids[] = {
        {"tokenizer.ggml.seperator_token_id", &t->last, true}, /* as files spell it */
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
        return mnem__fail(MNEM_UNSUPPORTED,
                          "key %s has %zu bytes, expected fewer than %zu and no zero byte", key,
                          text.length, n);
    memcpy(out, text.bytes, text.length);
    out[text.length] = 0;
    return MNEM_OK;
}

static const struct {
    const char *name;
    mnem__token_model model;
} token_models[] = {
    {"gpt2", MNEM__MODEL_BPE},   {"gemma4", MNEM__MODEL_BPE},     {"llama", MNEM__MODEL_SPM},
    {"t5", MNEM__MODEL_UNIGRAM}, {"bert", MNEM__MODEL_WORDPIECE},
};

static mnem_status find_model(mnem_tokenizer *t, mnem_text name) {
    for (size_t i = 0; i < sizeof token_models / sizeof *token_models; i++) {
        if (!text_is(name, token_models[i].name)) continue;
        t->info.model = token_models[i].name;
        t->model = token_models[i].model;
        return MNEM_OK;
    }
    return mnem__fail(MNEM_UNSUPPORTED,
                      "key tokenizer.ggml.model is '%.*s', which is not supported (gpt2, gemma4, "
                      "llama, t5 and bert are)",
                      (int)(name.length < 64 ? name.length : 64), name.bytes);
}

static mnem_status find_scheme(mnem_tokenizer *t) {
    t->info.pre = t->pre;
    if (t->model != MNEM__MODEL_BPE) {
        if (!t->source.pre) return MNEM_OK;
        return mnem__fail(MNEM_INVALID,
                          "a pre-tokenizer can be chosen only for the tokenizers gpt2 and gemma4, "
                          "but tokenizer.ggml.model is '%s': leave it out",
                          t->info.model);
    }
    t->scheme = mnem__pre_scheme_find(t->pre);
    t->vocab.spelled = t->scheme && !t->scheme->marked;
    if (t->scheme) return MNEM_OK;
    if (t->source.pre)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "the pre-tokenizer '%s' that was asked for does not exist; choose one "
                          "that does, or leave it out for that of the file",
                          t->pre);
    return mnem__fail(MNEM_UNSUPPORTED,
                      "key tokenizer.ggml.pre is '%s', a pre-tokenizer that is not supported; "
                      "choose an equivalent one of those that are, or use a newer mnem",
                      t->pre);
}

static mnem_status read_model(mnem_tokenizer *t) {
    mnem_text model, pre;
    mnem_status status = read_text(t, "tokenizer.ggml.model", &model);
    if (status == MNEM_OK) status = read_text(t, "tokenizer.ggml.pre", &pre);
    if (status != MNEM_OK) return status;
    if (model.length == 0)
        return mnem__fail(MNEM_BAD_FILE,
                          "the file has no tokenizer: key tokenizer.ggml.model is missing");
    status = find_model(t, model);
    if (pre.length == 0) pre = (mnem_text){"default", 7};
    if (text_is(model, "gemma4") && !t->source.pre) pre = model;
    if (status == MNEM_OK && !t->source.pre)
        status = copy_name(pre, "tokenizer.ggml.pre", t->pre, sizeof t->pre);
    return status == MNEM_OK ? find_scheme(t) : status;
}

static mnem_status read_around(mnem_tokenizer *t) {
    mnem_tokenizer_info *info = &t->info;
    info->add_bos = t->model == MNEM__MODEL_SPM || (t->scheme && t->scheme->bos);
    info->add_eos = t->model == MNEM__MODEL_UNIGRAM;
    mnem_status status = read_bool(t, "tokenizer.ggml.add_bos_token", &info->add_bos);
    if (status == MNEM_OK) status = read_bool(t, "tokenizer.ggml.add_eos_token", &info->add_eos);
    if (t->scheme && t->scheme->force_bos) info->add_bos = true;
    if (t->model == MNEM__MODEL_WORDPIECE) /* always between its own two */
        info->add_bos = info->add_eos = true;
    else
        t->last = info->add_eos ? info->eos : -1;
    return status;
}

static mnem_status read_flags(mnem_tokenizer *t) {
    mnem__wordpiece *wp = &t->wordpiece;
    mnem_status status = read_around(t);
    t->info.add_space_prefix = t->model == MNEM__MODEL_SPM;
    if (status == MNEM_OK)
        status = read_bool(t, "tokenizer.ggml.add_space_prefix", &t->info.add_space_prefix);
    if (t->model == MNEM__MODEL_UNIGRAM && status == MNEM_OK) {
        t->unigram.space_prefix = t->info.add_space_prefix;
        status = read_bool(t, "tokenizer.ggml.remove_extra_whitespaces", &t->unigram.merges_spaces);
    }
    if (t->model != MNEM__MODEL_WORDPIECE || status != MNEM_OK) return status;
    wp->lower = true;
    status = read_bool(t, "tokenizer.ggml.normalizer.lowercase", &wp->lower);
    wp->strips_accents = wp->lower;
    if (status == MNEM_OK)
        status = read_bool(t, "tokenizer.ggml.normalizer.strip_accents", &wp->strips_accents);
    return status;
}

/* What a file doesn't say of its special tokens, but its model's name does. */
static mnem_status read_strips(mnem_tokenizer *t) {
    mnem_text name;
    const mnem_status status = read_text(t, "general.name", &name);
    for (size_t i = 0; i + 4 <= name.length; i++) {
        const char *s = name.bytes + i;
        const size_t left = name.length - i;
        t->special.strips_after |=
            strncasecmp(s, "phi3", 4) == 0 || (left >= 5 && strncasecmp(s, "phi-3", 5) == 0);
    }
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
    if (t->model == MNEM__MODEL_SPM) return mnem__spm_init(&t->spm, &t->source, &t->work);
    if (t->model == MNEM__MODEL_UNIGRAM)
        return mnem__unigram_init(&t->unigram, &t->source, &t->work);
    if (t->model == MNEM__MODEL_WORDPIECE) return MNEM_OK;
    status = mnem__bpe_init(&t->bpe, &t->source, t->scheme, &t->work);
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
    if (status == MNEM_OK) status = read_strips(t);
    if (status == MNEM_OK) status = read_text(t, "tokenizer.chat_template", &chat_template);
    if (status != MNEM_OK) return status;
    status = make_tables(t, eom);
    if (status == MNEM_OK)
        t->chat = chat_template.length > 0 ? mnem__chat_recognise(chat_template)
                                           : mnem__chat_of_tokens(&t->special, &t->vocab);
    return status;
}

/* ---- life ---- */

mnem_status mnem__tokenizer_create_of(const mnem__token_source *source,
                                      mnem_tokenizer **tokenizer) {
    const mnem_model *model = source->model;
    if (model && mnem__gguf_check_model(model) != MNEM_OK) return MNEM_UNSUPPORTED;
    mnem_tokenizer *t = mnem__calloc(MNEM__TOKENIZER_TAG, 1, sizeof *t);
    if (!t) return mnem__heap_status();
    t->source = *source;
    mnem_status status = MNEM_OK;
    if (source->pre) { /* the caller's may go */
        const mnem_text pre = {source->pre, strlen(source->pre)};
        status = copy_name(pre, "pre-tokenizer", t->pre, sizeof t->pre);
        t->source.pre = t->pre;
    }
    if (status == MNEM_OK) status = read_all(t);
    if (status != MNEM_OK) {
        mnem_tokenizer_destroy(t);
        const bool of_file = status == MNEM_BAD_FILE || status == MNEM_UNSUPPORTED;
        if (!model || !of_file) return status;
        return mnem__model_refused(mnem__fail_in(status, "%s", model->path), model->source != NULL);
    }
    mnem__token_work_trim(&t->work);
    *tokenizer = t;
    return MNEM_OK;
}

mnem_status mnem_tokenizer_create(const mnem_model *model, mnem_tokenizer **tokenizer) {
    return mnem_tokenizer_create_with(model, &(mnem_tokenizer_options){0}, tokenizer);
}

mnem_status mnem_tokenizer_create_with(const mnem_model *model,
                                       const mnem_tokenizer_options *options,
                                       mnem_tokenizer **tokenizer) {
    const mnem__token_source source = {
        .model = model, .pre = options->pre, .chat_template = options->chat_template};
    return mnem__tokenizer_create_of(&source, tokenizer);
}

const char *mnem_tokenizer_pre_names(size_t index) {
    return mnem__pre_scheme_names(index);
}

mnem_status mnem__tokenizer_clone(const mnem_tokenizer *t, mnem_tokenizer **clone) {
    return mnem__tokenizer_create_of(&t->source, clone);
}

void mnem_tokenizer_destroy(mnem_tokenizer *t) {
    if (!t) return;
    if (t->model == MNEM__MODEL_BPE) mnem__bpe_fini(&t->bpe);
    if (t->model == MNEM__MODEL_UNIGRAM) mnem__unigram_fini(&t->unigram);
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

size_t mnem__tokenizer_control(const mnem_tokenizer *t, const char *text, size_t n) {
    size_t length = 0;
    const int32_t id =
        mnem__special_tokens_match(&t->special, &t->vocab, MNEM__SPECIAL_CONTROL, text, n, &length);
    return id < 0 ? 0 : length;
}

mnem_status mnem_tokenizer_write(const mnem_tokenizer *tokenizer, mnem_gguf_writer *writer) {
    return mnem__token_source_write(&tokenizer->source, writer);
}

uint64_t mnem_tokenizer_checksum(const mnem_tokenizer *tokenizer) {
    return mnem__token_source_checksum(&tokenizer->source);
}

/* ---- encoding ---- */

static mnem_status encode_piece(mnem_tokenizer *t, const char *text, size_t n) {
    mnem__token_work *w = &t->work;
    if (n == 0) return MNEM_OK;
    switch (t->model) {
    case MNEM__MODEL_BPE: return mnem__bpe_encode(&t->bpe, w, text, n);
    case MNEM__MODEL_UNIGRAM: return mnem__unigram_encode(&t->unigram, w, text, n);
    case MNEM__MODEL_WORDPIECE: return mnem__wordpiece_encode(&t->wordpiece, w, text, n);
    default: return mnem__spm_encode(&t->spm, w, text, n, t->info.add_space_prefix);
    }
}

/* plain: the texts of control tokens aren't looked for. */
static mnem_status encode_text(mnem_tokenizer *t, const char *text, size_t n, bool plain) {
    const mnem__special_kind kind = plain ? MNEM__SPECIAL_USER : MNEM__SPECIAL_ANY;
    mnem_status status = MNEM_OK;
    for (size_t at = 0; at < n && status == MNEM_OK;) {
        size_t begin = at, length = 0;
        int32_t id = -1;
        for (; begin < n && id < 0; begin += id < 0)
            id = mnem__special_tokens_match(&t->special, &t->vocab, kind, text + begin, n - begin,
                                            &length);
        status = encode_piece(t, text + at, begin - at);
        at = begin + length;
        if (id < 0) continue;
        if (status == MNEM_OK) status = mnem__token_work_add(&t->work, id);
        at += mnem__special_tokens_skip(&t->special, &t->vocab, id, text + at, n - at);
    }
    return status;
}

mnem_status mnem_tokenizer_encode(mnem_tokenizer *t, const char *text, size_t length,
                                  unsigned flags, const int32_t **ids, size_t *count) {
    if (length > TEXT_MAX)
        return mnem__fail(MNEM_INVALID, "tokenizer: the text has %zu bytes, expected at most %d",
                          length, TEXT_MAX);
    const bool around = !(flags & MNEM_ENCODE_NO_SPECIAL);
    mnem_status status = MNEM_OK;
    mnem__token_work_ids_trim(&t->work);
    if (around && t->info.add_bos && t->info.bos >= 0)
        status = mnem__token_work_add(&t->work, t->info.bos);
    if (status == MNEM_OK) status = encode_text(t, text, length, flags & MNEM_ENCODE_PLAIN);
    if (status == MNEM_OK && around && t->last >= 0)
        status = mnem__token_work_add(&t->work, t->last);
    mnem__token_work_trim(&t->work);
    if (status != MNEM_OK) return status;
    *ids = t->work.ids;
    *count = t->work.count;
    return MNEM_OK;
}
