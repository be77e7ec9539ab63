/* chat_file.c: a conversation as a file: a JSON list of {"role", "content"}, as others read it.
 *
 * Reading takes one message at a time, and twice: what is wrong with any of them is found before
 * what was said is forgotten. So it takes the bytes of a message, in the place of a rendering,
 * which isn't made meanwhile. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "output_file.h"
#include "server/messages.h"
#include "verbs/chat/chat_parts.h"

typedef struct message {
    const char *role, *content;
    size_t length;
    int index; /* from 0 */
} message;

/* false stops; it has told why. */
typedef bool on_message(chat *c, const message *m);

/* ---- reading ---- */

/* The next character that isn't white space. */
static int next(FILE *file) {
    int c = fgetc(file);
    while (c == ' ' || c == '\t' || c == '\n' || c == '\r') c = fgetc(file);
    return c;
}

static void refuse(void *context, const char *param, const char *text) {
    (void)context;
    (void)param;
    tool_message("%s", text);
}

static bool give(chat *c, const json_t *object, int index, on_message *take) {
    const message_reader reader = {.keep = true, .refuse = refuse};
    char param[40];
    snprintf(param, sizeof param, "messages[%d]", index);
    json_t *made = message_make(&reader, object, param);
    if (!made) return false;
    const json_t *content = json_object_get(made, "content");
    const message m = {json_string_value(json_object_get(made, "role")), json_string_value(content),
                       json_string_length(content), index};
    const bool calls = json_object_get(made, "tool_calls");
    if (calls)
        tool_message(
            "message %d of the file has tool calls, which the chat can't load: remove that message",
            index + 1);
    const bool good = !calls && take(c, &m);
    json_decref(made);
    return good;
}

/* Gives each message of a list; false: something is wrong, which has been told. */
static bool each(chat *c, FILE *file, on_message *take) {
    int character = next(file);
    bool good = character == '[';
    for (int i = 0; good && character != ']'; i++) {
        character = next(file);
        if (i == 0 && character == ']') break;
        json_error_t error;
        ungetc(character, file);
        json_t *object = json_loadf(file, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, &error);
        if (!object) {
            tool_message("message %d of the file is not valid JSON: %s", i + 1, error.text);
            return false;
        }
        good = give(c, object, i, take);
        json_decref(object);
        if (!good) return false;
        character = next(file);
        good = character == ',' || character == ']';
    }
    if (!good)
        tool_message("the file is not a conversation; /load needs a JSON list of objects with "
                     "\"role\" and \"content\"");
    return good;
}

static bool check(chat *c, const message *m) {
    (void)c;
    const bool system = strcmp(m->role, "system") == 0, answer = strcmp(m->role, "assistant") == 0;
    if (!system && !answer && strcmp(m->role, "user") != 0)
        tool_message(
            "message %d of the file has the role \"%s\"; it must be system, user or assistant",
            m->index + 1, m->role);
    else if (system && m->index > 0)
        tool_message(
            "message %d of the file has the role system, which only the first message may have",
            m->index + 1);
    else if (system && m->length >= TOOL_CHAT_BYTES)
        tool_message("the system message of the file has %zu bytes; at most %d are supported",
                     m->length, TOOL_CHAT_BYTES - 1);
    else if (answer && m->index == 0)
        tool_message("message 1 of the file is an answer (role assistant); it must be a message of "
                     "the user or the system text");
    else
        return true;
    return false;
}

/* The system text is there when a conversation begins. */
static bool take_system(chat *c, const message *m) {
    c->has_system = strcmp(m->role, "system") == 0;
    snprintf(c->system, sizeof c->system, "%s", c->has_system ? m->content : "");
    return false; /* it is the first */
}

/* The newest stay where there isn't room for all. */
static bool take_message(chat *c, const message *m) {
    tool_conversation *said = &c->said;
    if (strcmp(m->role, "system") == 0) return true;
    if (strcmp(m->role, "assistant") == 0) {
        if (said->turns == 0) return true; /* to what had no room */
        tool_conversation_answer(said, m->content, m->length);
        tool_conversation_end(said);
        return true;
    }
    while (!tool_conversation_user(said, m->content, m->length)) {
        if (said->turns == 0) break;
        tool_conversation_drop(said, 1);
        c->told_full = false;
    }
    return true;
}

static int load(chat *c, FILE *file) {
    char before[TOOL_CHAT_BYTES];
    const bool had_system = c->has_system;
    if (!each(c, file, check)) return TOOL_OK;
    memcpy(before, c->system, sizeof before);
    c->has_system = false;
    rewind(file);
    each(c, file, take_system);
    if (chat_begin(c) != TOOL_OK) {
        memcpy(c->system, before, sizeof before);
        c->has_system = had_system;
        return chat_begin(c);
    }
    rewind(file);
    each(c, file, take_message);
    fprintf(stderr, "%d turn%s%s.\n", c->said.turns, tool_s((uint64_t)c->said.turns),
            c->has_system ? " and a system text" : "");
    return TOOL_OK;
}

int chat_load(chat *c, const char *path) {
    struct stat about;
    if (!*path) {
        tool_message("/load needs the name of a file that /save has written");
        return TOOL_OK;
    }
    FILE *file = fopen(path, "re");
    if (!file || fstat(fileno(file), &about) != 0 || !S_ISREG(about.st_mode)) {
        tool_message("can't read %s: %s", path, strerror(file ? EINVAL : errno));
        if (file) fclose(file);
        return TOOL_OK;
    }
    const int code = load(c, file);
    fclose(file);
    return code;
}

/* ---- writing ---- */

static bool ignore(chat *c, const message *m) {
    (void)c;
    (void)m;
    return true;
}

/* What isn't a conversation isn't written over: the name may be a slip. */
static bool may_write(chat *c, const char *path) {
    struct stat about;
    if (stat(path, &about) != 0) return true;
    FILE *file = S_ISREG(about.st_mode) ? fopen(path, "re") : NULL;
    const bool good = file && (about.st_size == 0 || each(c, file, ignore));
    if (file) fclose(file);
    if (!good)
        tool_message("the file %s exists and is not a conversation, so /save did not overwrite it: "
                     "choose another name",
                     path);
    return good;
}

void chat_save(chat *c, const char *path) {
    tool_new file;
    if (!*path) {
        tool_message("/save needs the name of a file to write");
        return;
    }
    if (!may_write(c, path) || tool_new_open(&file, path) != TOOL_OK) return;
    tool_conversation_write(&c->said, file.file);
    if (tool_new_end(&file) != TOOL_OK) return;
    fprintf(stderr, "%d turn%s in %s; /load reads it.\n", c->said.turns,
            tool_s((uint64_t)c->said.turns), path);
}

/* ---- completion ---- */

/* Names of files that the path may become; a folder's ends with a slash. */
void chat_file_complete(const char *path, tool_words *words) {
    char folder[PATH_MAX] = ".", name[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const char *begun = slash ? slash + 1 : path;
    const size_t n = strlen(path), above = (size_t)(begun - path);
    if (slash) snprintf(folder, sizeof folder, "%.*s", (int)above, path);
    DIR *entries = opendir(folder);
    struct dirent *entry;
    while (entries && (entry = readdir(entries)) != NULL) {
        struct stat about;
        if (entry->d_name[0] == '.' && *begun != '.') continue;
        snprintf(name, sizeof name, "%.*s%s", (int)above, path, entry->d_name);
        const bool is_folder = stat(name, &about) == 0 && S_ISDIR(about.st_mode);
        if (is_folder && strlen(name) + 1 < sizeof name) strcat(name, "/");
        tool_words_add(words, path, n, name);
    }
    if (entries) closedir(entries);
}
