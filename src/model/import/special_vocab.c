/* special_vocab.c: which tokens are special, what is put around a text, and the chat's template.
 *
 * Where it stands: tokenizer_config.json names tokens by their texts, tokenizer.json's added_tokens
 * have their ids, its post_processor says what is put before and behind a text, config.json has ids
 * too. What is written follows llama.cpp's reading of these four, since files that were made by it
 * say so. */
#include <stdio.h>
#include <sys/stat.h>

#include "base/heap.h"
#include "model/import/hf_vocab.h"

enum { BOS, EOS, UNK, SEP, PAD, CLS, MASK, EOT, EOM, KINDS };

static const struct {
    const char *name, *id_key, *add_key;
} kinds[KINDS] = {
    [BOS] = {"bos", "tokenizer.ggml.bos_token_id", "tokenizer.ggml.add_bos_token"},
    [EOS] = {"eos", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.add_eos_token"},
    [UNK] = {"unk", "tokenizer.ggml.unknown_token_id", NULL},
    [SEP] = {"sep", "tokenizer.ggml.seperator_token_id", "tokenizer.ggml.add_sep_token"},
    [PAD] = {"pad", "tokenizer.ggml.padding_token_id", NULL},
    [CLS] = {"cls", NULL, NULL}, /* as the begin of a text, it is written */
    [MASK] = {"mask", "tokenizer.ggml.mask_token_id", NULL},
    [EOT] = {"eot", "tokenizer.ggml.eot_token_id", NULL},
    [EOM] = {"eom", "tokenizer.ggml.eom_token_id", NULL}};

typedef enum answer { UNSAID, NO, YES } answer;

typedef struct special {
    const mnem__hf_vocab *vocab;
    const char *text[KINDS]; /* NULL: none */
    int64_t id[KINDS];       /* -1: none */
    answer add[KINDS];
    bool wanted[KINDS];
} special;

/* A text, or an object with one. */
static const char *text_of(const mnem__node *node) {
    const char *content = mnem__node_text(mnem__node_get(node, "content"), NULL);
    return mnem__node_text(node, content);
}

static bool same(const char *a, const char *b) {
    return a && b && strcmp(a, b) == 0;
}

/* ---- the post-processor ---- */

static const char *special_at(const mnem__node *entry) {
    return mnem__node_text(mnem__node_get(mnem__node_get(entry, "SpecialToken"), "id"), NULL);
}

static void take_first(special *s, const char *first) {
    if (!same(first, s->text[BOS]) && !same(first, s->text[CLS])) {
        if (!s->text[BOS]) s->text[BOS] = first;
        if (!s->text[CLS]) s->text[CLS] = first;
    }
    s->add[BOS] = same(first, s->text[BOS]) || same(first, s->text[CLS]) ? YES : NO;
}

/* What ends a text ends everything; what was the end before ends a turn. */
static void take_last(special *s, const char *last) {
    if (!same(last, s->text[EOS])) {
        const int older = s->wanted[EOT] ? EOM : EOT;
        s->wanted[older] = true;
        s->text[older] = s->text[EOS];
        s->text[EOS] = last;
    }
    s->add[EOS] = YES;
}

static bool is_sequence(const mnem__node *entry, const char *name) {
    return mnem__node_is(mnem__node_get(mnem__node_get(entry, "Sequence"), "id"), name);
}

/* A pair of texts with something between: [first] A (sep) (sep) B [last]. */
static void take_pair(special *s, const mnem__node *pair, const char *first, const char *last) {
    uint32_t begin = 0, end = pair->count;
    if (first && same(special_at(mnem__node_at(pair, 0)), first)) begin++;
    if (last && end > begin && same(special_at(mnem__node_at(pair, end - 1)), last)) end--;
    if (end - begin < 3 || !is_sequence(mnem__node_at(pair, begin), "A") ||
        !is_sequence(mnem__node_at(pair, end - 1), "B"))
        return;
    const char *one = special_at(mnem__node_at(pair, begin + 1));
    const char *two = end - begin == 4 ? special_at(mnem__node_at(pair, begin + 2)) : NULL;
    const bool first_is = one && (same(one, s->text[SEP]) || same(one, s->text[EOS])) && !last;
    const bool second_is = two && (same(two, s->text[SEP]) || same(two, s->text[EOS]));
    s->add[SEP] = first_is || second_is ? YES : NO;
    if (s->add[SEP] == YES && !s->text[SEP]) s->text[SEP] = s->text[EOS];
}

static void take_template(special *s, const mnem__node *processor) {
    const mnem__node *single = mnem__node_get(processor, "single");
    const mnem__node *pair = mnem__node_get(processor, "pair");
    const char *first = NULL, *last = NULL;
    if (single && single->count > 1) {
        first = special_at(mnem__node_at(single, 0));
        last = special_at(mnem__node_at(single, single->count - 1));
        if (first) take_first(s, first);
        if (last) take_last(s, last);
    }
    if (pair && pair->count) take_pair(s, pair, first, last);
}

static void take_processor(special *s, const mnem__node *processor) {
    const mnem__node *type = mnem__node_get(processor, "type");
    if (mnem__node_is(type, "ByteLevel")) {
        if (s->add[BOS] == UNSAID) s->add[BOS] = NO;
        if (s->add[EOS] == UNSAID) s->add[EOS] = NO;
    } else if (mnem__node_is(type, "RobertaProcessing")) {
        s->add[BOS] = s->add[EOS] = s->add[SEP] = YES;
    } else if (mnem__node_is(type, "TemplateProcessing")) {
        take_template(s, processor);
    }
}

/* ---- ids ---- */

static void take_config_texts(special *s) {
    char name[32];
    const mnem__node *config = s->vocab->config;
    for (int k = 0; k < KINDS; k++) {
        snprintf(name, sizeof name, "%s_token", kinds[k].name);
        s->id[k] = -1;
        s->wanted[k] = k < EOT;
        s->text[k] = k < EOT ? text_of(mnem__node_get(config, name)) : NULL;
    }
    if (!s->text[BOS]) s->text[BOS] = s->text[CLS];
    if (!s->text[EOS]) s->text[EOS] = s->text[SEP];
}

static void take_config_flags(special *s) {
    char name[32];
    for (int k = 0; k < EOT; k++) {
        snprintf(name, sizeof name, "add_%s_token", kinds[k].name);
        const mnem__node *flag = mnem__node_get(s->vocab->config, name);
        if (mnem__node_is_flag(flag) && s->add[k] == UNSAID)
            s->add[k] = mnem__node_true(flag) ? YES : NO;
    }
}

/* config.json's, where no text led to one. */
static void take_ids(special *s, const mnem__hf_config *c) {
    char name[32];
    for (int k = 0; k < KINDS; k++) {
        if (s->wanted[k] && s->text[k]) s->id[k] = mnem__hf_vocab_added(s->vocab, s->text[k]);
        snprintf(name, sizeof name, "%s_token_id", kinds[k].name);
        const mnem__node *id = mnem__node_get(c->root, name);
        if (!id) id = mnem__node_get(c->text, name);
        if (s->wanted[k] && s->id[k] < 0 && id && id->is_integer) s->id[k] = id->integer;
        if (s->id[k] >= s->vocab->tokens) s->id[k] = -1;
    }
}

/* GLM's files say nothing of the tokens that end a turn. */
static void take_glm(special *s, unsigned trait) {
    static const struct {
        unsigned traits;
        int kind;
        const char *text;
    } rows[] = {{MNEM__HF_GLM_ENDS, EOS, "<|endoftext|>"},
                {MNEM__HF_GLM_ENDS | MNEM__HF_GLM_MASK_ENDS, EOT, "<|user|>"},
                {MNEM__HF_GLM_ENDS | MNEM__HF_GLM_MASK_ENDS, UNK, "<|endoftext|>"},
                {MNEM__HF_GLM_ENDS, BOS, "<|endoftext|>"},
                {MNEM__HF_GLM_MASK_ENDS, BOS, "[gMASK]"},
                {MNEM__HF_GLM_MASK_ENDS, EOM, "<|observation|>"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].traits & trait && s->id[rows[i].kind] < 0)
            s->id[rows[i].kind] = mnem__hf_vocab_added(s->vocab, rows[i].text);
}

/* ---- templates ---- */

/* A list of templates with names: the default one has none in files. */
static void put_templates(mnem__folder *f, const mnem__node *list) {
    for (const mnem__node *n = list->first; n; n = n->next) {
        const char *name = mnem__node_text(mnem__node_get(n, "name"), "");
        const mnem__node *text = mnem__node_get(n, "template");
        char key[128];
        snprintf(key, sizeof key, "tokenizer.chat_template.%.80s", name);
        if (!text || text->kind != MNEM__JSON_TEXT) continue;
        mnem__put_text(f, strcmp(name, "default") == 0 ? "tokenizer.chat_template" : key,
                       text->text, text->text_bytes);
    }
}

/* chat_template.jinja, whole. */
static mnem_status put_template_file(mnem__folder *f, const char *path) {
    mnem__cursor c;
    MNEM__TRY(mnem__cursor_open(&c, path));
    const uint64_t n = c.file_bytes;
    char *text = NULL;
    mnem_status status = MNEM_OK;
    if (n > MNEM__JSON_TEXT_MAX)
        status = mnem__fail(MNEM_UNSUPPORTED,
                            "%s: the chat template has more than 8 MiB, the limit", path);
    if (status == MNEM_OK && !(text = mnem__alloc(MNEM__IMPORT_TAG, n)))
        status = mnem__heap_status();
    if (status == MNEM_OK) status = mnem__cursor_read(&c, text, n);
    if (status == MNEM_OK) mnem__put_text(f, "tokenizer.chat_template", text, n);
    mnem__free(text);
    mnem__cursor_close(&c);
    return status == MNEM_OK ? f->status : status;
}

static mnem_status put_template(mnem__folder *f, const char *path, const mnem__hf_vocab *v) {
    char file[PATH_MAX];
    struct stat st;
    const mnem__node *own = mnem__node_get(v->config, "chat_template");
    if (own && own->kind == MNEM__JSON_LIST) {
        put_templates(f, own);
        return f->status;
    }
    if (own && own->kind == MNEM__JSON_TEXT) {
        mnem__put_text(f, "tokenizer.chat_template", own->text, own->text_bytes);
        return f->status;
    }
    MNEM__TRY(mnem__folder_path(path, "chat_template.jinja", file));
    /* An empty one is none. */
    return stat(file, &st) == 0 && st.st_size > 0 ? put_template_file(f, file) : MNEM_OK;
}

/* ---- all of it ---- */

mnem_status mnem__hf_put_special(mnem__folder *f, const char *path, const mnem__hf_config *c,
                                 const mnem__hf_vocab *v) {
    special s = {.vocab = v};
    take_config_texts(&s);
    const mnem__node *list = mnem__node_get(v->post_processor, "processors");
    if (!list && v->post_processor) take_processor(&s, v->post_processor);
    for (const mnem__node *n = list ? list->first : NULL; n; n = n->next) take_processor(&s, n);
    take_config_flags(&s);
    take_ids(&s, c);
    take_glm(&s, c->family->traits & (MNEM__HF_GLM_ENDS | MNEM__HF_GLM_MASK_ENDS));
    for (int k = 0; k < KINDS; k++) {
        if (s.id[k] >= 0 && kinds[k].id_key) mnem__put_u32(f, kinds[k].id_key, (uint32_t)s.id[k]);
        if (s.add[k] != UNSAID && kinds[k].add_key)
            mnem__put_bool(f, kinds[k].add_key, s.add[k] == YES);
    }
    return f->status == MNEM_OK ? put_template(f, path, v) : f->status;
}
