/* train_data.c: detects the kind of data that a run trains on, and finds the template for
 * conversations.
 *
 * Files that begin as a data set of conversations or of documents does (dataset.h) are such, all of
 * them or none; --any-bytes learns from them as from any text. A model is always refused: it was
 * meant for --init. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dataset/dataset.h"
#include "verbs/train/train_tool.h"

enum { TEMPLATE_MOST = 1 << 20 };

bool train_is_chat(const train_run *run) {
    return !strcmp(run->config.data, "chat");
}

/* Refuses other JSON, such as {"chosen": ...} or a truncated file: a run would train on its braces.
 */
static int check_look(const char *path, const dataset_look *look) {
    char name[80];
    const char *each = look->form == DATASET_ARRAY ? ".[] | " : "";
    dataset_name(look, name);
    if (look->shape == DATASET_NONE) return TOOL_OK;
    if (*look->why)
        return tool_failed(
            "%s begins as JSON, but is not valid: %s; correct it, or use --any-bytes "
            "to train on its text unchanged",
            path, look->why);
    if (look->preferences)
        return tool_failed(
            "%s has \"chosen\" and \"rejected\" answers, but learning from preferences is not "
            "supported. To learn the chosen answers, make \"messages\" or \"prompt\" and "
            "\"completion\" of them, as jq -c '%s{prompt, completion: .chosen}' does",
            path, each);
    if (*look->list && look->form != DATASET_ARRAY)
        return tool_failed("%s is one object, whose member \"%s\" has the records: take them out "
                           "with jq -c '.%s[]' %s > data.jsonl",
                           path, look->list, look->list, path);
    return tool_failed(
        "%s is %s that have %s, which are none of the known forms: \"messages\"; \"prompt\" and "
        "\"completion\" (or \"response\"); \"question\" and \"answer\"; \"instruction\" and "
        "\"output\" (or \"response\"); \"conversations\"; \"text\". Rename the fields, as jq -c "
        "'%s{prompt: .A, completion: .B}' does; --any-bytes trains on the file unchanged",
        path, name, *look->keys ? look->keys : "no members", each);
}

/* "JSON lines of messages", of all files, each kind once. */
void train_data_name(const train_run *run, char text[TRAIN_DATA_NAME]) {
    const train_config *c = &run->config;
    *text = 0;
    for (int32_t i = 0; i < c->files && (train_is_chat(run) || train_is_documents(run)); i++) {
        char name[80];
        dataset_look look;
        dataset_look_at(c->file[i], &look);
        dataset_name(&look, name);
        const size_t n = strlen(text);
        if (look.shape != DATASET_NONE && !strstr(text, name))
            snprintf(text + n, TRAIN_DATA_NAME - n, "%s%s", n ? ", " : "", name);
    }
}

static int check_chat(const train_run *run) {
    const train_config *c = &run->config;
    const char *file = tool_file_name(c->file[0]);
    char name[TRAIN_DATA_NAME];
    train_data_name(run, name);
    if (!*c->init)
        return tool_failed("%s is chat data (%s), which needs --init MODEL for its chat template "
                           "and vocabulary; --any-bytes trains on it as plain text",
                           file, name);
    return TOOL_OK;
}

/* How many files are of a kind, and one that isn't. */
static int32_t count_files(const train_run *run, bool (*is)(const dataset_look *look),
                           int32_t *other) {
    int32_t n = 0;
    dataset_look look;
    for (int32_t i = 0; i < run->config.files && !run->asked->any_bytes; i++) {
        dataset_look_at(run->config.file[i], &look);
        n += is(&look);
        if (!is(&look)) *other = i;
    }
    return n;
}

static bool is_chat(const dataset_look *look) {
    return dataset_is_chat(look);
}

static bool is_texts(const dataset_look *look) {
    return look->shape == DATASET_TEXTS;
}

static int check_alike(const train_config *c, int32_t found, int32_t other, const char *what) {
    if (!found || found == c->files) return TOOL_OK;
    return tool_failed(
        "%d of %d files are %s and the others are not (%s), but a run trains on one kind: leave "
        "some out, or treat all as plain text with --any-bytes",
        found, c->files, what, c->file[other]);
}

/* By its first bytes; what isn't a plain file has none that may be read twice. */
static bool is_model(const char *path) {
    char bytes[4];
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const bool is = fd >= 0 && pread(fd, bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes &&
                    memcmp(bytes, "GGUF", sizeof bytes) == 0;
    if (fd >= 0) close(fd);
    return is;
}

static int check_models(const train_run *run) {
    const train_config *c = &run->config;
    for (int32_t i = 0; i < c->files; i++) {
        const char *path = c->file[i];
        if (!is_model(path)) continue;
        if (run->spooled == i + 1)
            return tool_failed("standard input is a GGUF model, but a run trains on text: save the "
                               "model as a file and start from it with --init FILE");
        if (*c->init)
            return tool_failed("%s is a GGUF model, but a run trains on text: leave it out (the "
                               "run starts from the model of --init, %s)",
                               path, c->init);
        return tool_failed("%s is a GGUF model, but a run trains on text: give the model with "
                           "--init %s to start from it",
                           path, path);
    }
    return TOOL_OK;
}

/* What was said of the data before, by a config, must be so. */
static int check_said(const train_run *run, int32_t chats, int32_t texts) {
    const train_config *c = &run->config;
    if ((!train_is_chat(run) || chats) && (!train_is_documents(run) || texts)) return TOOL_OK;
    return tool_failed("the config's \"data\" is \"%s\", but %s has no %s: name a file that "
                       "has some with --data, or start a run in another --out",
                       c->data, c->file[0], train_is_chat(run) ? "conversations" : "texts");
}

/* A run would learn its separators, and one row behind another as if they were one text. */
static int check_table(const train_run *run, int32_t i) {
    const char *path = run->config.file[i];
    const bool spooled = run->spooled == i + 1;
    const char *name = spooled ? "standard input" : path;
    char separator;
    if (!dataset_is_table(path, &separator)) return TOOL_OK;
    return tool_failed(
        "%s is a table (CSV), which would be read as plain text: convert it to JSON lines with "
        "python3 -c 'import csv, json, sys; [print(json.dumps(r)) for r in "
        "csv.DictReader(sys.stdin%s)]' < %s > data.jsonl, whose columns are then fields such as "
        "\"prompt\" and \"completion\", or \"text\"; --any-bytes trains on the file unchanged",
        name,
        separator == '\t'  ? ", delimiter=\"\\t\""
        : separator == ';' ? ", delimiter=\";\""
                           : "",
        spooled ? "FILE" : path);
}

static int check_texts(const train_run *run) {
    dataset_look look;
    for (int32_t i = 0; i < run->config.files && !run->asked->any_bytes; i++) {
        dataset_look_at(run->config.file[i], &look);
        if (is_texts(&look) && train_is_documents(run)) continue;
        int code = check_look(run->config.file[i], &look);
        if (code == TOOL_OK && look.shape == DATASET_NONE) code = check_table(run, i);
        if (code != TOOL_OK) return code;
    }
    const char *name = run->asked->template.file ? "template" : "template-args";
    if (run->asked->template.file || run->asked->template.arguments)
        return tool_usage("train",
                          "--%s applies to chat data only, and the files of --data are "
                          "plain text: leave out --%s",
                          name, name);
    return TOOL_OK;
}

int train_data_kind(train_run *run) {
    train_config *c = &run->config;
    int32_t other = 0;
    int code = check_models(run);
    if (code != TOOL_OK) return code;
    const int32_t chats = count_files(run, is_chat, &other);
    code = check_alike(c, chats, other, "chat data");
    const int32_t texts = count_files(run, is_texts, &other);
    if (code == TOOL_OK) code = check_alike(c, texts, other, "JSON records of texts");
    const bool said = train_config_given(c, "data") && *c->data && strcmp(c->data, "text") != 0;
    if (code == TOOL_OK && said) code = check_said(run, chats, texts);
    if (code != TOOL_OK) return code;
    if (!said) snprintf(c->data, sizeof c->data, "%s", chats ? "chat" : texts ? "texts" : "text");
    return train_is_chat(run) ? check_chat(run) : check_texts(run);
}

/* ---- the template ---- */

int train_template_read(const char *path, char **text) {
    FILE *file = fopen(path, "r");
    *text = file ? malloc(TEMPLATE_MOST + 1) : NULL;
    const size_t n = *text ? fread(*text, 1, TEMPLATE_MOST + 1, file) : 0;
    const bool bad = !*text || ferror(file);
    const int why = errno;
    if (file) fclose(file);
    if (bad) return tool_failed("can't use the template %s: %s", path, strerror(why));
    if (n == 0 || n > TEMPLATE_MOST)
        return tool_failed(
            n ? "can't use the template %s: it is too long; it must have less than 1 MiB"
              : "can't use the template %s: it is empty; give a file with a template",
            path);
    (*text)[n] = 0;
    return TOOL_OK;
}

static bool has_template(const mnem_model *model) {
    mnem_value value;
    return mnem_model_key_find(model, "tokenizer.chat_template", &value) &&
           value.type == MNEM_VALUE_STRING && value.text.length > 0;
}

/* Ours for the format that the model's tokens tell. */
static int our_template(const train_run *run, char **text) {
    mnem_tokenizer *tokenizer;
    const mnem_status status = mnem_tokenizer_create(run->base, &tokenizer);
    if (status != MNEM_OK) return tool_fail(status);
    const char *ours = mnem_chat_format_template(mnem_tokenizer_chat_format(tokenizer));
    *text = ours ? strdup(ours) : NULL;
    mnem_tokenizer_destroy(tokenizer);
    if (*text) return TOOL_OK;
    return tool_failed("%s has no chat template, and its tokens match no known chat format: give a "
                       "template with --template FILE, or take a model that has one "
                       "(models/get_model smollm2-135m FOLDER)",
                       run->config.init);
}

int train_template_find(const train_run *run, char **text) {
    *text = NULL;
    if (run->asked->template.file) return train_template_read(run->asked->template.file, text);
    return has_template(run->base) ? TOOL_OK : our_template(run, text);
}
