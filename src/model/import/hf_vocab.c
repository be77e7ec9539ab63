/* hf_vocab.c: a tokenizer's keys.
 *
 * The idea: there are three kinds. BPE of bytes ("gpt2") is tokens and merges, as tokenizer.json
 * has them. WordPiece ("bert") is tokens, where files mark what begins a word (U+2581) and
 * tokenizer.json what doesn't ("##"). SentencePiece ("llama") is tokens with scores: those of
 * tokenizer.model, or, where a folder has tokenizer.json only, the order of its merges, which is
 * what the scores were.
 * Every id below the model's vocabulary gets a token: those that nothing stands for are unused. */
#include "model/import/hf_vocab.h"

#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "base/heap.h"
#include "base/minmax.h"
#include "base/text/id_table.h"

static const char *text_of(const mnem__hf_vocab *v, const mnem__hf_token *t) {
    return v->texts.bytes + t->at;
}

/* ---- types of tokens ---- */

static bool begins(const char *text, const char *beginning) {
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

static bool ends(const char *text, const char *end) {
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Some files don't mark as special what is. */
static bool looks_special(const char *text) {
    static const char *const texts[] = {"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(text, texts[i]) == 0) return true;
    return (begins(text, "<|") && ends(text, "|>")) ||
           (begins(text, "<\xef\xbd\x9c") && ends(text, "\xef\xbd\x9c>")) ||
           (begins(text, "<unused") && ends(text, ">"));
}

/* A token that was added: what isn't special is found in text, with spaces as they are there. */
static mnem_status set_added(mnem__hf_vocab *v, int64_t id, const char *text, bool special,
                             float score) {
    char plain[1024];
    size_t n = 0;
    if (special || looks_special(text))
        return mnem__hf_vocab_set(v, id, text, strlen(text), MNEM__HF_CONTROL, score);
    for (const char *at = text; *at && n < sizeof plain - 1;) {
        const bool mark = begins(at, "\xe2\x96\x81");
        plain[n++] = mark ? ' ' : *at;
        at += mark ? 3 : 1;
    }
    return mnem__hf_vocab_set(v, id, plain, n, MNEM__HF_USER, score);
}

/* Names of tokens in tokenizer_config.json; NULL past the last. */
static const char *named_token(const mnem__node *config, uint32_t i) {
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    enum { NAMES = sizeof names / sizeof *names };
    const mnem__node *list = mnem__node_get(config, "additional_special_tokens");
    const mnem__node *node =
        i < NAMES ? mnem__node_get(config, names[i]) : mnem__node_at(list, i - NAMES);
    if (i >= NAMES && !node) return NULL;
    return mnem__node_text(node, mnem__node_text(mnem__node_get(node, "content"), ""));
}

/* What tokenizer_config.json names is special, whether it was added or was there. */
static void mark_named(mnem__hf_vocab *v) {
    const char *name;
    for (uint32_t i = 0; (name = named_token(v->config, i)); i++)
        for (uint32_t id = 0; id < v->tokens && *name; id++)
            if (v->token[id].type == MNEM__HF_NORMAL &&
                strcmp(text_of(v, &v->token[id]), name) == 0)
                v->token[id].type = MNEM__HF_CONTROL;
}

static mnem_status set_all_added(mnem__hf_vocab *v, float score) {
    for (uint32_t i = 0; i < v->addeds; i++) {
        char text[1024]; /* the table of texts grows while it is put there once more */
        const mnem__hf_added *a = &v->added[i];
        snprintf(text, sizeof text, "%s", v->texts.bytes + a->at);
        MNEM__TRY(set_added(v, a->id, text, a->special, score));
    }
    return MNEM_OK;
}

/* ---- pieces ---- */

/* {"text": id}, and {"id": {"content": ..., "special": ...}}: beside tokenizer.model. */
static mnem_status add_to_pieces(const char *path, const mnem__hf_config *c, mnem__hf_vocab *v) {
    char file[PATH_MAX];
    mnem__node *list;
    MNEM__TRY(mnem__folder_path(path, "added_tokens.json", file));
    MNEM__TRY(mnem__tree_open(&v->arena, file, &list));
    for (const mnem__node *n = list && list->kind == MNEM__JSON_OBJECT ? list->first : NULL; n;
         n = n->next)
        if (n->is_integer && n->integer < v->most)
            MNEM__TRY(
                mnem__hf_vocab_set(v, n->integer, n->key, strlen(n->key), MNEM__HF_USER, -1000));
    const mnem__node *decoder = mnem__node_get(v->config, "added_tokens_decoder");
    for (const mnem__node *n = decoder ? decoder->first : NULL; n; n = n->next) {
        const char *text = mnem__node_text(mnem__node_get(n, "content"), NULL);
        double id;
        if (text && n->key && sscanf(n->key, "%lf", &id) == 1 && id >= 0 && id < (double)v->most)
            MNEM__TRY(set_added(v, (int64_t)id, text, mnem__node_true(mnem__node_get(n, "special")),
                                -1000));
    }
    return c->family->traits & MNEM__HF_LONG_FACTORS || !decoder ? set_all_added(v, -1000)
                                                                 : MNEM_OK;
}

static bool is_byte(const char *text) {
    unsigned value;
    char end;
    return strlen(text) == 6 && sscanf(text, "<0x%2x%c", &value, &end) == 2 && end == '>';
}

/* The score of each token that merges make, by the first that does. */
static mnem_status score_merges(mnem__hf_vocab *v) {
    mnem__id_table table;
    MNEM__TRY(mnem__id_table_init(&table, v->tokens));
    mnem_status status = MNEM_OK;
    for (uint32_t id = 0; id < v->tokens && status == MNEM_OK; id++) {
        const mnem__hf_token *t = &v->token[id];
        if (t->type)
            status = mnem__id_table_put(&table, mnem__hash_bytes(text_of(v, t), t->bytes), id);
    }
    for (uint32_t m = 0; m < v->merges && status == MNEM_OK; m++) {
        char joined[512];
        const char *text = v->merge_texts.bytes + v->merge[m], *space = strchr(text, ' ');
        if (!space || strlen(text) >= sizeof joined) continue;
        const int n =
            snprintf(joined, sizeof joined, "%.*s%s", (int)(space - text), text, space + 1);
        uint32_t id;
        mnem__id_probe probe = mnem__id_table_find(&table, mnem__hash_bytes(joined, (size_t)n));
        while (mnem__id_table_next(&table, &probe, &id)) {
            if (strcmp(text_of(v, &v->token[id]), joined) != 0) continue;
            if (v->token[id].score <= -(float)v->merges) v->token[id].score = -(float)m;
            break;
        }
    }
    mnem__free(table.slots);
    return status;
}

/* Gemma 4 writes these in answers, and who reads those needs their texts. */
static void show_marks(mnem__hf_vocab *v) {
    static const char *const marks[] = {"<|channel>",   "<channel|>",       "<|tool_call>",
                                        "<tool_call|>", "<|tool_response>", "<tool_response|>",
                                        "<|\"|>"};
    for (uint32_t id = 0; id < v->tokens; id++)
        for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
            if (v->token[id].type == MNEM__HF_CONTROL &&
                strcmp(text_of(v, &v->token[id]), marks[i]) == 0)
                v->token[id].type = MNEM__HF_USER;
}

/* tokenizer.json of SentencePiece's BPE. merged: readers have the merges, and need no scores. */
static mnem_status make_pieces(mnem__hf_vocab *v, bool merged) {
    for (uint32_t id = 0; id < v->tokens; id++) {
        mnem__hf_token *t = &v->token[id];
        t->score = merged ? -1000 : -(float)v->merges;
        if (t->type && is_byte(text_of(v, t))) t->type = MNEM__HF_BYTE;
    }
    if (!merged) MNEM__TRY(score_merges(v));
    for (uint32_t i = 0; i < v->addeds; i++) {
        const mnem__hf_added *a = &v->added[i];
        char text[1024];
        snprintf(text, sizeof text, "%s", v->texts.bytes + a->at);
        const bool is_there = a->id < v->tokens && v->token[a->id].type;
        if (is_there && !a->special && !looks_special(text)) continue;
        MNEM__TRY(set_added(v, a->id, text, a->special, -1000));
    }
    mark_named(v);
    if (merged) show_marks(v);
    return MNEM_OK;
}

/* Is a space put before a text? Normalizers and pre-tokenizers may do it. */
static bool puts_space(const mnem__hf_vocab *v) {
    const mnem__node *list = mnem__node_get(v->normalizer, "normalizers");
    const mnem__node *first = list ? list->first : v->normalizer;
    for (const mnem__node *n = first; n; n = list ? n->next : NULL)
        if (mnem__node_is(mnem__node_get(n, "type"), "Prepend")) return true;
    const mnem__node *pre = v->pre_tokenizer;
    const char *scheme = mnem__node_text(mnem__node_get(pre, "prepend_scheme"), "");
    return mnem__node_is(mnem__node_get(pre, "type"), "Metaspace") &&
           (strcmp(scheme, "always") == 0 || strcmp(scheme, "first") == 0 ||
            mnem__node_true(mnem__node_get(pre, "add_prefix_space")));
}

/* ---- reading ---- */

/* The name of a file of tiktoken's, bytes in base 64 with their ranks; "": there is none. */
static void find_tiktoken(const char *path, char name[NAME_MAX + 1]) {
    static const char end[] = ".tiktoken";
    *name = 0;
    DIR *dir = opendir(path);
    if (!dir) return;
    for (const struct dirent *e; !*name && (e = readdir(dir));) {
        const size_t n = strlen(e->d_name), tail = sizeof end - 1;
        const bool ends = n > tail && strcmp(e->d_name + n - tail, end) == 0;
        if (ends || strcmp(e->d_name, "tiktoken.model") == 0)
            snprintf(name, NAME_MAX + 1, "%s", e->d_name);
    }
    closedir(dir);
}

static mnem_status refuse(const char *path, const mnem__hf_vocab *v) {
    char tiktoken[NAME_MAX + 1];
    if (*v->model_type)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s/tokenizer.json: model.type: \"%s\" isn't supported (BPE and "
                          "WordPiece are); add tokenizer.model of SentencePiece, if the model has "
                          "one, or use a GGUF file of the model",
                          path, v->model_type);
    find_tiktoken(path, tiktoken);
    if (*tiktoken)
        return mnem__fail(
            MNEM_UNSUPPORTED,
            "%s: the tokenizer is a file of tiktoken (%s), which mnem can't read; add "
            "a tokenizer.json of this tokenizer, or convert the folder with "
            "llama.cpp's convert_hf_to_gguf.py",
            path, tiktoken);
    return mnem__fail(MNEM_UNSUPPORTED,
                      "%s: has neither tokenizer.json nor tokenizer.model; save the tokenizer "
                      "again with transformers, which writes tokenizer.json",
                      path);
}

static mnem_status read_vocab(const char *path, const mnem__hf_config *c, mnem__hf_vocab *v) {
    char file[PATH_MAX];
    mnem__node *config;
    bool found = false;
    MNEM__TRY(mnem__folder_path(path, "tokenizer_config.json", file));
    MNEM__TRY(mnem__tree_open(&v->arena, file, &config));
    v->config = config;
    MNEM__TRY(mnem__tokenizer_json_read(path, v));
    const bool bpe = strcmp(v->model_type, "BPE") == 0;
    v->words = strcmp(v->model_type, "WordPiece") == 0;
    if (v->words || (bpe && !v->byte_fallback)) {
        MNEM__TRY(set_all_added(v, 0));
        mark_named(v);
        return MNEM_OK;
    }
    const uint32_t tokens = v->tokens;
    v->tokens = 0;
    v->pieces = true;
    MNEM__TRY(mnem__sentencepiece_read(path, v, &found));
    v->space_prefix = true;
    if (found) return add_to_pieces(path, c, v);
    if (!bpe) return refuse(path, v);
    v->tokens = tokens;
    v->space_prefix = puts_space(v);
    return make_pieces(v, c->family->traits & MNEM__HF_MERGED);
}

/* ---- keys ---- */

/* Texts as mnem_value_text has them: where each begins, then their bytes. */
typedef struct text_list {
    uint32_t *offset;
    char *bytes;
    uint32_t at;
} text_list;

static bool list_make(mnem__folder *f, text_list *list, uint32_t count, uint64_t bytes) {
    const uint64_t head = ((uint64_t)count + 1) * sizeof *list->offset;
    list->offset = bytes < UINT32_MAX ? mnem__folder_alloc(f, head + bytes + 1) : NULL;
    list->bytes = (char *)list->offset + head;
    list->at = 0;
    return list->offset != NULL;
}

static void list_add(text_list *list, uint32_t i, const char *text, uint32_t n) {
    list->offset[i] = list->at;
    if (n) memcpy(list->bytes + list->at, text, n);
    list->at += n;
    list->offset[i + 1] = list->at;
}

#define BEGIN "\xe2\x96\x81"

/* Of WordPiece: "##x" is x, and what begins a word is marked. */
static void list_add_word(text_list *list, uint32_t i, const char *text, uint32_t n) {
    const bool inside = begins(text, "##");
    const uint32_t from = list->at;
    if (!inside) list_add(list, i, BEGIN, sizeof BEGIN - 1);
    list_add(list, i, inside ? text + 2 : text, inside ? n - 2 : n);
    list->offset[i] = from;
}

static int unused_text(uint32_t id, char text[24]) {
    return snprintf(text, 24, "[PAD%u]", id);
}

static void put_tokens(mnem__folder *f, const mnem__hf_vocab *v) {
    text_list list;
    uint64_t bytes = 0;
    char unused[24];
    for (uint32_t i = 0; i < v->tokens; i++) {
        bytes += v->token[i].type ? v->token[i].bytes : (uint64_t)unused_text(i, unused);
        if (v->words) bytes += sizeof BEGIN - 1;
    }
    int32_t *types = mnem__folder_alloc(f, v->tokens * sizeof *types);
    float *scores = mnem__folder_alloc(f, (v->pieces ? v->tokens : 1) * sizeof *scores);
    if (!types || !scores || !list_make(f, &list, v->tokens, bytes)) return;
    for (uint32_t i = 0; i < v->tokens; i++) {
        const mnem__hf_token *t = &v->token[i];
        types[i] = t->type ? t->type : MNEM__HF_UNUSED;
        if (v->pieces) scores[i] = t->type ? t->score : -10000;
        const char *text = t->type ? text_of(v, t) : unused;
        const uint32_t n = t->type ? t->bytes : (uint32_t)unused_text(i, unused);
        if (v->words && t->type != MNEM__HF_CONTROL)
            list_add_word(&list, i, text, n);
        else
            list_add(&list, i, text, n);
    }
    mnem__put_array(f, "tokenizer.ggml.tokens", MNEM_VALUE_STRING, list.offset, v->tokens);
    if (v->pieces) mnem__put_array(f, "tokenizer.ggml.scores", MNEM_VALUE_F32, scores, v->tokens);
    mnem__put_array(f, "tokenizer.ggml.token_type", MNEM_VALUE_I32, types, v->tokens);
}

static void put_merges(mnem__folder *f, const mnem__hf_vocab *v) {
    text_list list;
    if (v->merges == 0 || !list_make(f, &list, v->merges, v->merge_texts.used)) return;
    for (uint32_t i = 0; i < v->merges; i++) {
        const char *text = v->merge_texts.bytes + v->merge[i];
        list_add(&list, i, text, (uint32_t)strlen(text));
    }
    mnem__put_array(f, "tokenizer.ggml.merges", MNEM_VALUE_STRING, list.offset, v->merges);
}

static void put_space_prefix(mnem__folder *f, const mnem__hf_config *c, const mnem__hf_vocab *v) {
    const mnem__node *said = mnem__node_get(v->config, "add_prefix_space");
    const bool says = c->family->traits & MNEM__HF_SAYS_PREFIX && mnem__node_is_flag(said);
    if (says) mnem__put_bool(f, "tokenizer.ggml.add_space_prefix", mnem__node_true(said));
    if (v->pieces && (c->family->traits & MNEM__HF_NO_SPACE_PREFIX || !v->space_prefix))
        mnem__put_bool(f, "tokenizer.ggml.add_space_prefix", false);
}

/* As tokenizer.json says it; where strip_accents is null, lowercase says that too. */
static void put_normalizer(mnem__folder *f, const mnem__hf_vocab *v) {
    static const char *const rows[][2] = {
        {"tokenizer.ggml.normalizer.lowercase", "lowercase"},
        {"tokenizer.ggml.normalizer.strip_accents", "strip_accents"}};
    for (int i = 0; i < 2; i++) {
        const mnem__node *flag = mnem__node_get(v->normalizer, rows[i][1]);
        if (mnem__node_is_flag(flag)) mnem__put_bool(f, rows[i][0], mnem__node_true(flag));
    }
}

static mnem_status put_keys(mnem__folder *f, const char *path, const mnem__hf_config *c,
                            const mnem__hf_vocab *v, const char *pre) {
    char name[MNEM__PRE_NAME] = "default";
    if (v->words && !pre)
        MNEM__TRY(mnem__pre_words_check(path, v, name));
    else if (!v->pieces && !pre)
        MNEM__TRY(mnem__pre_definition_find(path, v, c->family, name));
    const bool merged = v->pieces && c->family->traits & MNEM__HF_MERGED;
    const char *model = merged      ? "gemma4"
                        : v->pieces ? "llama"
                        : v->words  ? "bert"
                                    : "gpt2",
               *said = pre ? pre : name;
    mnem__put_text(f, "tokenizer.ggml.model", model, strlen(model));
    if (!merged) mnem__put_text(f, "tokenizer.ggml.pre", said, strlen(said));
    put_tokens(f, v);
    if (!v->pieces || merged) put_merges(f, v);
    if (v->words) put_normalizer(f, v);
    put_space_prefix(f, c, v);
    MNEM__TRY(f->status);
    MNEM__TRY(mnem__hf_put_special(f, path, c, v));
    if (merged) mnem__put_bool(f, "tokenizer.ggml.add_bos_token", true);
    /* SmolLM and small Granites: their files say nothing, and were trained without. */
    if (c->family->traits & MNEM__HF_SAYS_PREFIX && v->tokens == 49152)
        mnem__put_bool(f, "tokenizer.ggml.add_bos_token", false);
    return f->status;
}

/* As many tokens as some matrix has rows: a number that lies is found before anything is made of
 * it. */
static mnem_status bound_tokens(const mnem__folder *f, const mnem__hf_config *c,
                                mnem__hf_vocab *v) {
    const double said = mnem__hf_number(c, "vocab_size");
    v->most = 0;
    for (uint32_t i = 0; i < f->st.tensors; i++)
        if (f->st.tensor[i].dims == 2) v->most = mnem__max_i64(v->most, f->st.tensor[i].shape[0]);
    if (v->most > MNEM__HF_TOKENS_MAX) v->most = MNEM__HF_TOKENS_MAX;
    if (isnan(said)) return MNEM_OK;
    if (!(said >= 1 && said <= (double)v->most))
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: vocab_size is %.0f, expected 1 to %lld, the most rows of a matrix",
                          c->path, said, (long long)v->most);
    v->most = v->vocab_size = (int64_t)said;
    return MNEM_OK;
}

/* Ids that nothing stands for, up to the model's last row. */
static mnem_status fill_unused_ids(const char *path, mnem__hf_vocab *v) {
    if (v->tokens == 0)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: the tokenizer has no tokens; download the folder again", path);
    if (v->vocab_size <= v->tokens) return MNEM_OK;
    return mnem__hf_vocab_set(v, v->vocab_size - 1, "", 0, 0, 0);
}

mnem_status mnem__hf_put_tokenizer(mnem__folder *folder, const char *path, const mnem__hf_config *c,
                                   const char *pre, int64_t *tokens) {
    mnem__hf_vocab *v = mnem__calloc(MNEM__IMPORT_TAG, 1, sizeof *v);
    if (!v) return mnem__heap_status();
    mnem_status status = bound_tokens(folder, c, v);
    if (status == MNEM_OK) status = read_vocab(path, c, v);
    if (status == MNEM_OK) status = fill_unused_ids(path, v);
    if (status == MNEM_OK) status = put_keys(folder, path, c, v, pre);
    *tokens = v->tokens;
    mnem__hf_vocab_free(v);
    mnem__free(v);
    return status;
}
