/* train_data.c: detects the kind of data that a run trains on, and finds the template for
 * conversations.
 *
 * Files that begin as a data set of conversations does (dataset.h) are conversations, all of them
 * or none; --any-bytes learns from them as from any text. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/dataset.h"
#include "verbs/train/train_tool.h"

enum { TEMPLATE_MOST = 1 << 20 };

bool train_is_chat(const train_run *run) {
    return !strcmp(run->config.data, "chat");
}

/* Refuses other JSON, such as {"text": ...} or a truncated file: a run would train on its braces.
 */
static int check_look(const char *path, const dataset_look *look) {
    char name[80];
    const bool list = look->form == DATASET_ARRAY;
    dataset_name(look, name);
    if (look->shape == DATASET_NONE) return TOOL_OK;
    if (*look->why)
        return tool_failed(
            "%s begins as JSON, but is not valid: %s; correct it, or use --any-bytes "
            "to train on its text unchanged",
            path, look->why);
    if (look->shape == DATASET_TEXTS)
        return tool_failed("%s is %s whose records have \"text\", which is not supported: convert "
                           "the file to plain "
                           "text with jq -r %s FILE, or train on it unchanged with --any-bytes",
                           path, name, list ? "'.[].text'" : ".text");
    return tool_failed(
        "%s is %s, but its first record has %s%s%s instead of \"messages\", \"prompt\" and "
        "\"completion\", \"conversations\" (ShareGPT), or \"instruction\" and \"output\" (Alpaca); "
        "--any-bytes trains on the file unchanged",
        path, name, *look->key ? "\"" : "", *look->key ? look->key : "no members",
        *look->key ? "\"" : "");
}

/* "JSON lines of messages", of all files, each kind once. */
void train_data_name(const train_run *run, char text[TRAIN_DATA_NAME]) {
    const train_config *c = &run->config;
    *text = 0;
    for (int32_t i = 0; i < c->files && train_is_chat(run); i++) {
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

int train_data_kind(train_run *run) {
    train_config *c = &run->config;
    const bool said = train_config_given(c, "data") && *c->data;
    int32_t chats = 0, other = 0;
    dataset_look look;
    for (int32_t i = 0; i < c->files && !run->asked->any_bytes; i++) {
        dataset_look_at(c->file[i], &look);
        chats += dataset_is_chat(&look);
        if (!dataset_is_chat(&look)) other = i;
    }
    if (chats && chats < c->files)
        return tool_failed(
            "%d of %d files are chat data and the others are not (%s), but a run trains on one "
            "kind: leave some out, or treat all as plain text with --any-bytes",
            chats, c->files, c->file[other]);
    if (said && train_is_chat(run) && !chats)
        return tool_failed("the config's \"data\" is \"chat\", but %s has no conversations: name a "
                           "file of conversations with --data, or start a run in another --out",
                           c->file[0]);
    if (!said) snprintf(c->data, sizeof c->data, "%s", chats ? "chat" : "text");
    if (train_is_chat(run)) return check_chat(run);
    for (int32_t i = 0; i < c->files && !run->asked->any_bytes; i++) {
        dataset_look_at(c->file[i], &look);
        const int code = check_look(c->file[i], &look);
        if (code != TOOL_OK) return code;
    }
    if (run->asked->template.file || run->asked->template.arguments)
        return tool_usage("train", "--template applies to chat data only, and the files of --data "
                                   "are plain text: leave it out");
    return TOOL_OK;
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
        return tool_failed("can't use the template %s: %s", path,
                           n ? "the template is too long; it must have less than 1 MiB"
                             : "the template is empty");
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
