/* train_chat.c: conversations (dataset.h) to rows of tokens in which the answers count.
 *
 * The idea: an answer is what the template writes between the text up to where an answer begins
 * (the messages before it, and the opening of an answer) and the text with the answer at its end.
 * Both are rendered and compared as tokens, as `mnem run` will see them. Text that grows so is one
 * row for the whole conversation. A template that writes earlier messages anew, such as one that
 * drops their reasoning, gives a row for each answer: what the model will see when it answers.
 * Invariant: a row's tokens are a rendering; only those of answers count, with the control token
 * that ends them, and without white space behind that.
 * Cost: two renderings for each answer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/train/data/train_chat.h"

/* ---- files ---- */

static int open_file(chat_reader *r) {
    const char *path = r->run->config.file[r->file_number];
    if (dataset_open(&r->data, path)) return TOOL_OK;
    r->run->chat.said = true;
    return tool_failed("%s: %s", path, strerror(errno));
}

static mnem_status refuse_element(const chat_reader *r) {
    char where[64];
    dataset_where(&r->data, where);
    r->run->chat.said = true;
    tool_failed("%s: %s: %s", r->run->config.file[r->file_number], where, r->data.why);
    return MNEM_INVALID;
}

/* MNEM_NOT_FOUND: there are no more. */
static mnem_status next_conversation(chat_reader *r) {
    for (;;) {
        if (r->file_number == r->run->config.files) return MNEM_NOT_FOUND;
        if (!r->data.file && open_file(r) != TOOL_OK) return MNEM_IO;
        const int found = dataset_next(&r->data, &r->messages, &r->tools);
        r->run->chat.conversations += found != 0;
        r->next = 0;
        if (found) return found > 0 ? MNEM_OK : refuse_element(r);
        r->done += (uint64_t)ftello(r->data.file);
        dataset_close(&r->data);
        r->file_number++;
    }
}

static void end_conversation(chat_reader *r) {
    json_decref(r->messages);
    json_decref(r->tools);
    r->messages = r->tools = NULL;
}

/* ---- rendering ---- */

static bool is_answer(const json_t *message) {
    return !strcmp(json_string_value(json_object_get(message, "role")), "assistant");
}

/* The first count messages as tokens, borrowed until the next call. */
static mnem_status render(chat_reader *r, size_t count, bool opening, const int32_t **ids,
                          size_t *n) {
    json_t *part = json_array();
    for (size_t i = 0; i < count; i++) json_array_append(part, json_array_get(r->messages, i));
    char *text = json_dumps(part, JSON_COMPACT);
    char *tools = r->tools ? json_dumps(r->tools, JSON_COMPACT) : NULL;
    json_decref(part);
    const mnem_template_input input = {
        .messages = text,
        .tools = tools,
        .arguments = *r->run->config.template_args ? r->run->config.template_args : NULL,
        .add_generation_prompt = opening};
    const mnem_status status =
        text ? mnem_template_encode(r->template, r->run->tokenizer, &input, ids, n)
             : MNEM_NO_MEMORY;
    free(text);
    free(tools);
    return status;
}

static bool make_room(chat_reader *r, size_t n) {
    if (n <= r->room) return true;
    int32_t *ids = realloc(r->ids, 2 * n * sizeof *ids);
    if (ids) r->ids = ids;
    bool *counted = realloc(r->counted, 2 * n * sizeof *counted);
    if (counted) r->counted = counted;
    int32_t *open = realloc(r->open, 2 * n * sizeof *open);
    if (open) r->open = open;
    if (ids && counted && open) r->room = 2 * n;
    return ids && counted && open;
}

static size_t common(const int32_t *a, size_t n, const int32_t *b, size_t m) {
    size_t i = 0;
    while (i < n && i < m && a[i] == b[i]) i++;
    return i;
}

/* Up to where an answer begins, into r->open. */
static mnem_status render_opening(chat_reader *r, bool opening) {
    const int32_t *ids = NULL;
    size_t n = 0;
    mnem_status status = render(r, r->next, opening, &ids, &n);
    if (status == MNEM_OK && !make_room(r, n)) status = MNEM_NO_MEMORY;
    if (status == MNEM_OK && n) memcpy(r->open, ids, n * sizeof *ids);
    r->open_count = n;
    return status;
}

/* White space that the template writes behind the control token that ends an answer isn't the
 * model's to say. Where no such token stands, all of it is the answer. */
static size_t answer_end(const chat_reader *r, const int32_t *ids, size_t begin, size_t end) {
    for (size_t i = end; i > begin; i--) {
        const mnem_text text = mnem_tokenizer_piece(r->run->tokenizer, ids[i - 1], false);
        if (text.length == 0) return i;
        for (size_t k = 0; k < text.length; k++)
            if (!strchr(" \t\r\n", text.bytes[k])) return end;
    }
    return end;
}

/* Where the answer begins in ids. The opening for an answer may say more than the template does
 * before one that is there (an empty block of reasoning); then what both have before it holds. */
static mnem_status find_answer(chat_reader *r, size_t *begin) {
    const int32_t *ids = NULL;
    size_t n = 0;
    mnem_status status = render_opening(r, true);
    if (status == MNEM_OK) status = render(r, r->next + 1, false, &ids, &n);
    if (status != MNEM_OK) return status;
    *begin = common(r->open, r->open_count, ids, n);
    if (*begin == r->open_count) return MNEM_OK;
    status = render_opening(r, false);
    if (status == MNEM_OK) status = render(r, r->next + 1, false, &ids, &n);
    if (status != MNEM_OK) return status;
    const size_t before = common(r->open, r->open_count, ids, n);
    if (before > *begin) *begin = before;
    return MNEM_OK;
}

/* The row becomes ids, which begins with it. */
static mnem_status extend(chat_reader *r, const int32_t *ids, size_t n, size_t begin) {
    if (!make_room(r, n)) return MNEM_NO_MEMORY;
    const size_t end = answer_end(r, ids, begin, n);
    for (size_t i = r->count; i < n; i++) {
        r->ids[i] = ids[i];
        r->counted[i] = i >= begin && i < end;
        r->any = r->any || (i > 0 && r->counted[i]);
    }
    r->count = n;
    return MNEM_OK;
}

/* The next answer into the row; *full: it belongs into another. */
static mnem_status add_answer(chat_reader *r, bool *full) {
    const int32_t *ids = NULL;
    size_t n = 0, begin = 0;
    mnem_status status = find_answer(r, &begin);
    if (status == MNEM_OK) status = render(r, r->next + 1, false, &ids, &n);
    if (status != MNEM_OK) return status;
    *full = common(r->ids, r->count, ids, n) < r->count;
    return *full ? MNEM_OK : extend(r, ids, n, begin);
}

static mnem_status fill_row(chat_reader *r) {
    const size_t messages = json_array_size(r->messages);
    bool full = false;
    r->count = 0;
    r->any = false;
    while (r->next < messages && !full) {
        if (is_answer(json_array_get(r->messages, r->next))) {
            const mnem_status status = add_answer(r, &full);
            if (status != MNEM_OK) return status;
        }
        r->next += !full;
    }
    return MNEM_OK;
}

/* ---- as rows of a corpus ---- */

static void count_unanswered(const chat_reader *r) {
    train_chat *chat = &r->run->chat;
    char where[64];
    if (chat->unanswered++) return;
    dataset_where(&r->data, where);
    snprintf(chat->first_unanswered, sizeof chat->first_unanswered, "%s, %s",
             r->run->config.file[r->file_number], where);
}

static mnem_status next_row(void *context, mnem_corpus_row *row) {
    chat_reader *r = context;
    mnem_status status = MNEM_OK;
    for (r->any = false; !r->any && status == MNEM_OK;) {
        if (tool_interrupted()) return MNEM_CANCELLED;
        const bool begins = !r->messages;
        if (begins) status = next_conversation(r);
        if (status != MNEM_OK) return status;
        status = fill_row(r);
        if (status == MNEM_OK && begins && !r->any) count_unanswered(r);
        if (r->next == json_array_size(r->messages)) end_conversation(r);
    }
    if (r->data.file)
        tool_progress_step(&r->progress, r->done + (uint64_t)ftello(r->data.file), r->bytes, NULL);
    *row = (mnem_corpus_row){.ids = r->ids, .counted = r->counted, .count = r->count};
    return status;
}

/* FNV-1a of the template and its arguments. */
static uint64_t key_of(mnem_text text, const char *arguments) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < text.length; i++)
        hash = (hash ^ (unsigned char)text.bytes[i]) * UINT64_C(0x100000001b3);
    for (; *arguments; arguments++)
        hash = (hash ^ (unsigned char)*arguments) * UINT64_C(0x100000001b3);
    return hash;
}

static bool own_template(const train_run *run, mnem_text *text) {
    mnem_value value;
    if (!mnem_model_key_find(run->vocabulary, "tokenizer.chat_template", &value) ||
        value.type != MNEM_VALUE_STRING || value.text.length == 0)
        return false;
    *text = value.text;
    return true;
}

/* A template that says today's date says the same one on every day of a run. */
static mnem_status open_template(mnem_text text, mnem_template **template) {
    enum { DAY = 1721952000 }; /* 26 July 2024, which templates say where there is no clock */
    return mnem_template_open(text.bytes, text.length, &(mnem_template_options){.clock = DAY},
                              template);
}

int train_chat_begin(train_run *run, chat_reader *r, mnem_corpus_rows *rows) {
    mnem_text text;
    *r = (chat_reader){.run = run, .bytes = train_file_bytes(run)};
    run->chat = (train_chat){0};
    tool_progress_begin(&r->progress, "rendering");
    if (!own_template(run, &text))
        return tool_failed("%s has no chat template, so this run of chat data can't continue: the "
                           "file is damaged or was replaced",
                           train_path(run, "vocabulary.gguf"));
    const mnem_status status = open_template(text, &r->template);
    *rows = (mnem_corpus_rows){
        .next = next_row, .context = r, .key = key_of(text, run->config.template_args)};
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

/* What the template or the corpus says is about an element. */
int train_chat_fail(const chat_reader *r, mnem_status status) {
    char at[64], where[PATH_MAX + 120];
    if (r->run->chat.said) return TOOL_FAILED;
    if (!r->data.file) return tool_fail(status);
    dataset_where(&r->data, at);
    snprintf(where, sizeof where, " (%s, %s)", r->run->config.file[r->file_number], at);
    return tool_fail_with(status, where);
}

void train_chat_end(chat_reader *r) {
    tool_progress_end(&r->progress);
    end_conversation(r);
    mnem_template_close(r->template);
    dataset_close(&r->data);
    free(r->ids);
    free(r->counted);
    free(r->open);
}

/* ---- what a sample continues ---- */

/* --sample is a user's first message. */
static int sample_asked(train_run *run) {
    const int32_t *ids = NULL;
    size_t n = 0;
    chat_reader r;
    mnem_corpus_rows rows;
    int code = train_chat_begin(run, &r, &rows);
    if (code == TOOL_OK) {
        r.messages = json_pack("[{s:s, s:s}]", "role", "user", "content", run->asked->sample);
        const mnem_status status = render(&r, 1, true, &ids, &n);
        if (status != MNEM_OK) code = tool_fail(status);
    }
    if (n > TRAIN_CHAT_SAMPLE) n = TRAIN_CHAT_SAMPLE;
    if (code == TOOL_OK) memcpy(run->chat_sample, ids, n * sizeof *ids);
    run->chat_sample_count = (int32_t)n;
    train_chat_end(&r);
    return code;
}

/* Otherwise the first conversation that is held out (else of all), up to its first answer. */
int train_chat_sample(train_run *run) {
    int32_t targets[TRAIN_CHAT_SAMPLE], scratch[TRAIN_CHAT_SAMPLE + 1], n = 0;
    const train_chat kept = run->chat;
    if (run->asked->sample) {
        const int code = sample_asked(run);
        run->chat = kept;
        return code;
    }
    const mnem_status status =
        mnem_corpus_row_read(run->corpus, run->validation.begin % run->corpus_info.rows,
                             TRAIN_CHAT_SAMPLE, run->chat_sample, targets, scratch);
    if (status != MNEM_OK) return tool_fail(status);
    while (n < TRAIN_CHAT_SAMPLE && targets[n] < 0) n++;
    run->chat_sample_count = n < TRAIN_CHAT_SAMPLE ? n + 1 : 1;
    return TOOL_OK;
}
