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

/* Only whole lines are JSON lines; a text may begin with a brace, too. */
static bool looks_like_chat(const char *path) {
    char *line = NULL;
    size_t room = 0;
    bool found = false, blank = true;
    FILE *file = fopen(path, "r");
    while (file && blank && getline(&line, &room, file) > 0) {
        blank = line[strspn(line, " \t\r\n")] == 0;
        json_t *object = line[strspn(line, " \t\r\n")] == '{' ? json_loads(line, 0, NULL) : NULL;
        found = json_object_get(object, "messages") ||
                (json_object_get(object, "prompt") && json_object_get(object, "completion"));
        json_decref(object);
    }
    free(line);
    if (file) fclose(file);
    return found;
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
