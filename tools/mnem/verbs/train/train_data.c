/* train_data.c: what kind of data a run learns from, and the template that conversations want.
 *
 * Files whose first line is a JSON object of messages (or of a prompt and a completion) are
 * conversations, all of them or none; --any-bytes learns from them as from any text. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/train/train_tool.h"

enum { TEMPLATE_MOST = 1 << 20 };

bool train_is_chat(const train_run *run) {
    return !strcmp(run->config.data, "chat");
}

static const char blanks[] = " \t\r\n";

/* The object that the first line is; NULL, and why: none. Only whole lines are JSON lines; a text
 * may begin with a brace, too. */
static json_t *first_object(const char *path, json_error_t *why) {
    char *line = NULL;
    size_t room = 0;
    json_t *object = NULL;
    bool blank = true;
    FILE *file = fopen(path, "r");
    *why = (json_error_t){0};
    while (file && blank && getline(&line, &room, file) > 0) {
        const char *text = line + strspn(line, blanks);
        blank = !*text;
        object = *text == '{' ? json_loads(text, 0, why) : NULL;
    }
    free(line);
    if (file) fclose(file);
    return object;
}

static bool is_chat(const json_t *object) {
    return json_object_get(object, "messages") ||
           (json_object_get(object, "prompt") && json_object_get(object, "completion"));
}

static bool looks_like_chat(const char *path) {
    json_error_t why;
    json_t *object = first_object(path, &why);
    const bool found = is_chat(object);
    json_decref(object);
    return found;
}

/* JSON lines of something else would be learned with their braces, which nobody wants who has
 * them: {"text": ...}, {"instruction": ..., "output": ...}, and those that are cut off. */
static int check_lines(const char *path) {
    static const char end[] = ".jsonl";
    const size_t n = strlen(path);
    json_error_t why;
    json_t *object = first_object(path, &why);
    const bool named = n > strlen(end) && !strcmp(path + n - strlen(end), end);
    const char *key = json_object_iter_key(json_object_iter(object));
    int code = TOOL_OK;
    if (key)
        code = tool_failed("%s: JSON lines whose first has \"%.40s\": conversations have "
                           "\"messages\", or \"prompt\" and \"completion\"; text is learned from "
                           "plain files (jq -r .text), and --any-bytes takes the lines as they are",
                           path, key);
    else if (named && *why.text)
        code =
            tool_failed("%s: line 1: %s; --any-bytes takes the lines as they are", path, why.text);
    json_decref(object);
    return code;
}

static int check_chat(const train_run *run) {
    const train_config *c = &run->config;
    const char *file = tool_file_name(c->file[0]);
    if (!*c->init)
        return tool_failed("%s is chat data (JSON lines of messages): --init MODEL says whose "
                           "template and vocabulary it is for; --any-bytes learns from it as from "
                           "any text",
                           file);
    return TOOL_OK;
}

int train_data_kind(train_run *run) {
    train_config *c = &run->config;
    const bool said = train_config_given(c, "data") && *c->data;
    int32_t chats = 0;
    for (int32_t i = 0; i < c->files && !run->asked->any_bytes; i++)
        chats += looks_like_chat(c->file[i]);
    if (chats && chats < c->files)
        return tool_failed("%d of %d files are chat data (JSON lines of messages), the others "
                           "aren't: a run learns from one kind; --any-bytes takes all as text",
                           chats, c->files);
    if (said && train_is_chat(run) && !chats)
        return tool_failed("the config's \"data\" is \"chat\", but %s has no messages in its first "
                           "line",
                           c->file[0]);
    if (!said) snprintf(c->data, sizeof c->data, "%s", chats ? "chat" : "text");
    if (train_is_chat(run)) return check_chat(run);
    for (int32_t i = 0; i < c->files && !run->asked->any_bytes; i++) {
        const int code = check_lines(c->file[i]);
        if (code != TOOL_OK) return code;
    }
    if (run->asked->template.file || run->asked->template.arguments)
        return tool_usage("train", "--template is for chat data (JSON lines of messages), and this "
                                   "is text");
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
    if (bad) return tool_failed("%s: %s", path, strerror(why));
    if (n == 0 || n > TEMPLATE_MOST)
        return tool_failed("%s: %s", path,
                           n ? "more than a MiB isn't a template" : "an empty template");
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
    return tool_failed("%s has no chat template, and its tokens tell no format: --template FILE "
                       "gives one",
                       run->config.init);
}

int train_template_find(const train_run *run, char **text) {
    *text = NULL;
    if (run->asked->template.file) return train_template_read(run->asked->template.file, text);
    return has_template(run->base) ? TOOL_OK : our_template(run, text);
}
