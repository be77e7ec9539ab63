/* tokenizer_json.c: tokenizer.json, of which tens of megabytes are vocabulary and merges.
 *
 * The idea: these two go by as events into tables; what describes the pipeline (normalizer,
 * pre-tokenizer, ...) is small and becomes trees.
 * Cost: linear; the bytes of the tokens and merges, not of the file. */
#include <stdio.h>
#include <unistd.h>

#include "base/heap.h"
#include "model/import/hf_vocab.h"

/* Room for one more behind count, by doubling. */
static mnem_status grow(void **table, uint32_t count, uint32_t *room, size_t size) {
    if (count < *room) return MNEM_OK;
    const uint32_t more = *room ? *room + *room / 2 : 1024;
    void *larger = mnem__realloc(MNEM__IMPORT_TAG, *table, more * size);
    if (!larger) return mnem__heap_status();
    *table = larger;
    *room = more;
    return MNEM_OK;
}

/* ---- tables ---- */

mnem_status mnem__texts_add(mnem__texts *t, const char *text, size_t n, uint32_t *at) {
    if (n >= UINT32_MAX - t->used)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "the texts of all tokens have more than 4 GiB, the limit");
    if (t->room - t->used < n + 1) {
        const size_t room = t->used + n + 1 + t->room / 2 + 4096;
        char *more = mnem__realloc(MNEM__IMPORT_TAG, t->bytes, room);
        if (!more) return mnem__heap_status();
        t->bytes = more;
        t->room = room;
    }
    *at = (uint32_t)t->used;
    if (n) memcpy(t->bytes + t->used, text, n);
    t->used += n;
    t->bytes[t->used++] = 0;
    return MNEM_OK;
}

/* The token of this id, whose text is in texts. */
static mnem_status place(mnem__hf_vocab *v, int64_t id, const mnem__hf_token *token) {
    if (id < 0 || id >= v->most)
        return mnem__fail(
            MNEM_BAD_FILE,
            "a token has the id %lld, expected at least 0 and less than vocab_size, %lld",
            (long long)id, (long long)v->most);
    while (v->tokens <= id) {
        MNEM__TRY(grow((void **)&v->token, v->tokens, &v->token_room, sizeof *v->token));
        v->token[v->tokens++] = (mnem__hf_token){0};
    }
    v->token[id] = *token;
    return MNEM_OK;
}

mnem_status mnem__hf_vocab_set(mnem__hf_vocab *v, int64_t id, const char *text, size_t bytes,
                               uint8_t type, float score) {
    mnem__hf_token token = {.bytes = (uint32_t)bytes, .score = score, .type = type};
    MNEM__TRY(mnem__texts_add(&v->texts, text, bytes, &token.at));
    return place(v, id, &token);
}

int64_t mnem__hf_vocab_added(const mnem__hf_vocab *v, const char *text) {
    for (uint32_t i = 0; i < v->addeds; i++)
        if (strcmp(v->texts.bytes + v->added[i].at, text) == 0) return v->added[i].id;
    return -1;
}

void mnem__hf_vocab_free(mnem__hf_vocab *v) {
    mnem__free(v->texts.bytes);
    mnem__free(v->merge_texts.bytes);
    mnem__free(v->token);
    mnem__free(v->merge);
    mnem__free(v->added);
    mnem__arena_free(&v->arena);
}

/* ---- what goes by ---- */

static mnem_status bad(const mnem__json *j, const char *text) {
    return mnem__json_fail(j, MNEM_BAD_FILE, text);
}

/* {"text": id, ...} */
static mnem_status take_vocab(mnem__json *j, mnem__hf_vocab *v) {
    mnem__json_event event;
    MNEM__TRY(mnem__json_next(j, &event));
    if (event != MNEM__JSON_OBJECT) /* Unigram's; the model's type is refused later, by its name */
        return mnem__json_leave(j, event);
    for (;;) {
        MNEM__TRY(mnem__json_next(j, &event));
        if (event == MNEM__JSON_OBJECT_END) return MNEM_OK;
        mnem__hf_token token = {.bytes = (uint32_t)j->text_bytes, .type = MNEM__HF_NORMAL};
        MNEM__TRY(mnem__texts_add(&v->texts, j->text, j->text_bytes, &token.at));
        MNEM__TRY(mnem__json_next(j, &event));
        if (event != MNEM__JSON_NUMBER || !j->is_integer)
            return bad(j, "model.vocab must have a number for each token: the file is damaged; "
                          "download it again");
        const mnem_status status = place(v, j->integer, &token);
        if (status != MNEM_OK) return mnem__fail_in(status, "%s", j->file.path);
    }
}

static mnem_status put_merge(mnem__json *j, mnem__hf_vocab *v, const char *text, size_t n,
                             bool end) {
    uint32_t at;
    MNEM__TRY(mnem__texts_add(&v->merge_texts, text, n, &at));
    if (!end) v->merge_texts.used--;
    return v->merge_texts.used < UINT32_MAX ? MNEM_OK
                                            : bad(j, "the texts of all merges have more than 4 GiB "
                                                     "together, the most that is supported");
}

/* Half of a merge as a text of its own: in files a space stands between halves, so that one inside
 * of them is written as U+0120. */
static mnem_status put_half(mnem__json *j, mnem__hf_vocab *v, bool end) {
    const char *at = j->text;
    size_t left = j->text_bytes;
    for (const char *space; (space = memchr(at, ' ', left)); at = space + 1) {
        const size_t n = (size_t)(space - at);
        MNEM__TRY(put_merge(j, v, at, n, false));
        MNEM__TRY(put_merge(j, v, "\xc4\xa0", 2, false));
        left -= n + 1;
    }
    MNEM__TRY(put_merge(j, v, at, left, end));
    return end ? MNEM_OK : put_merge(j, v, " ", 1, false);
}

static mnem_status take_pair(mnem__json *j, mnem__hf_vocab *v) {
    mnem__json_event event;
    for (int i = 0; i < 2; i++) {
        MNEM__TRY(mnem__json_next(j, &event));
        if (event != MNEM__JSON_TEXT)
            return bad(j, "model.merges: an item is not a list of two texts");
        MNEM__TRY(put_half(j, v, i == 1));
    }
    MNEM__TRY(mnem__json_next(j, &event));
    return event == MNEM__JSON_LIST_END
               ? MNEM_OK
               : bad(j, "model.merges: an item is not a list of two texts");
}

/* ["a b", ...] or [["a", "b"], ...] */
static mnem_status take_merges(mnem__json *j, mnem__hf_vocab *v) {
    mnem__json_event event;
    MNEM__TRY(mnem__json_next(j, &event));
    if (event != MNEM__JSON_LIST)
        return bad(j, "model.merges must be a list: the file is damaged; download it again");
    for (;;) {
        MNEM__TRY(mnem__json_next(j, &event));
        if (event == MNEM__JSON_LIST_END) return MNEM_OK;
        MNEM__TRY(grow((void **)&v->merge, v->merges, &v->merge_room, sizeof *v->merge));
        v->merge[v->merges++] = (uint32_t)v->merge_texts.used;
        if (event == MNEM__JSON_TEXT)
            MNEM__TRY(put_merge(j, v, j->text, j->text_bytes, true));
        else if (event == MNEM__JSON_LIST)
            MNEM__TRY(take_pair(j, v));
        else
            return bad(j, "each item of model.merges must be a text, or a list of two: the file is "
                          "damaged; download it again");
    }
}

static mnem_status take_flag(mnem__json *j, bool *flag) {
    mnem__json_event event;
    MNEM__TRY(mnem__json_next(j, &event));
    *flag = event == MNEM__JSON_TRUE;
    return mnem__json_leave(j, event);
}

/* As much of it as fits. */
static mnem_status take_text(mnem__json *j, char *text, size_t size) {
    mnem__json_event event;
    MNEM__TRY(mnem__json_next(j, &event));
    if (event == MNEM__JSON_TEXT) snprintf(text, size, "%.*s", (int)size - 1, j->text);
    return mnem__json_leave(j, event);
}

static mnem_status take_model(mnem__json *j, mnem__hf_vocab *v) {
    mnem__json_event event;
    MNEM__TRY(mnem__json_next(j, &event));
    if (event != MNEM__JSON_OBJECT)
        return bad(j, "model must be an object: the file is damaged; download it again");
    snprintf(v->model_type, sizeof v->model_type, "BPE"); /* old files don't say it */
    for (;;) {
        MNEM__TRY(mnem__json_next(j, &event));
        if (event == MNEM__JSON_OBJECT_END) return MNEM_OK;
        if (mnem__json_is(j, "vocab"))
            MNEM__TRY(take_vocab(j, v));
        else if (mnem__json_is(j, "merges"))
            MNEM__TRY(take_merges(j, v));
        else if (mnem__json_is(j, "type"))
            MNEM__TRY(take_text(j, v->model_type, sizeof v->model_type));
        else if (mnem__json_is(j, "byte_fallback"))
            MNEM__TRY(take_flag(j, &v->byte_fallback));
        else if (mnem__json_is(j, "continuing_subword_prefix"))
            MNEM__TRY(take_text(j, v->continuing, sizeof v->continuing));
        else if (mnem__json_is(j, "ignore_merges"))
            MNEM__TRY(take_flag(j, &v->ignore_merges));
        else
            MNEM__TRY(mnem__json_skip(j));
    }
}

/* ---- added tokens ---- */

/* {"id": ..., "content": ..., "special": ...} */
static mnem_status take_added(mnem__json *j, mnem__hf_vocab *v) {
    mnem__json_event event = MNEM__JSON_OBJECT;
    mnem__hf_added added = {.id = UINT32_MAX};
    bool has_text = false;
    for (;;) {
        MNEM__TRY(mnem__json_next(j, &event));
        if (event == MNEM__JSON_OBJECT_END) break;
        const bool id = mnem__json_is(j, "id"), text = mnem__json_is(j, "content");
        if (mnem__json_is(j, "special")) {
            MNEM__TRY(take_flag(j, &added.special));
            continue;
        }
        MNEM__TRY(mnem__json_next(j, &event));
        if (id && event == MNEM__JSON_NUMBER && j->is_integer && j->integer >= 0 &&
            j->integer < MNEM__HF_TOKENS_MAX)
            added.id = (uint32_t)j->integer;
        if (text && event == MNEM__JSON_TEXT) {
            added.bytes = (uint32_t)j->text_bytes;
            has_text = true;
            MNEM__TRY(mnem__texts_add(&v->texts, j->text, j->text_bytes, &added.at));
        }
        MNEM__TRY(mnem__json_leave(j, event));
    }
    if (added.id == UINT32_MAX)
        return bad(j, "a token in added_tokens has no id: the file is damaged; download it again");
    if (!has_text)
        return bad(
            j, "a token in added_tokens has no content: the file is damaged; download it again");
    MNEM__TRY(grow((void **)&v->added, v->addeds, &v->added_room, sizeof *v->added));
    v->added[v->addeds++] = added;
    return MNEM_OK;
}

static mnem_status take_addeds(mnem__json *j, mnem__hf_vocab *v) {
    mnem__json_event event;
    MNEM__TRY(mnem__json_next(j, &event));
    if (event != MNEM__JSON_LIST) return mnem__json_leave(j, event);
    for (;;) {
        MNEM__TRY(mnem__json_next(j, &event));
        if (event == MNEM__JSON_LIST_END) return MNEM_OK;
        if (event != MNEM__JSON_OBJECT)
            return bad(
                j, "an element of added_tokens is not an object: the file is damaged; download it "
                   "again");
        MNEM__TRY(take_added(j, v));
    }
}

/* ---- the file ---- */

/* What is null is as if it weren't there. */
static mnem_status take_tree(mnem__json *j, mnem__hf_vocab *v, const mnem__node **tree) {
    mnem__node *node;
    MNEM__TRY(mnem__tree_read(&v->arena, j, &node));
    *tree = node->kind == MNEM__JSON_OBJECT ? node : NULL;
    return MNEM_OK;
}

static mnem_status take_member(mnem__json *j, mnem__hf_vocab *v) {
    if (mnem__json_is(j, "model")) return take_model(j, v);
    if (mnem__json_is(j, "added_tokens")) return take_addeds(j, v);
    if (mnem__json_is(j, "normalizer")) return take_tree(j, v, &v->normalizer);
    if (mnem__json_is(j, "pre_tokenizer")) return take_tree(j, v, &v->pre_tokenizer);
    if (mnem__json_is(j, "post_processor")) return take_tree(j, v, &v->post_processor);
    if (mnem__json_is(j, "decoder")) return take_tree(j, v, &v->decoder);
    return mnem__json_skip(j);
}

static mnem_status take_file(mnem__json *j, mnem__hf_vocab *v) {
    mnem__json_event event;
    MNEM__TRY(mnem__json_next(j, &event));
    if (event != MNEM__JSON_OBJECT) return bad(j, "expected a JSON object");
    for (;;) {
        MNEM__TRY(mnem__json_next(j, &event));
        if (event == MNEM__JSON_OBJECT_END) return mnem__json_next(j, &event);
        MNEM__TRY(take_member(j, v));
    }
}

mnem_status mnem__tokenizer_json_read(const char *folder, mnem__hf_vocab *v) {
    char path[PATH_MAX];
    mnem__json json;
    MNEM__TRY(mnem__folder_path(folder, "tokenizer.json", path));
    if (access(path, F_OK) != 0) return MNEM_OK;
    MNEM__TRY(mnem__json_open(&json, path));
    const mnem_status status = take_file(&json, v);
    mnem__json_close(&json);
    return status;
}
