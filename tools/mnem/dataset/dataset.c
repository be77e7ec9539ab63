/* dataset.c: see dataset.h. Elements are cut out by their brackets before they are parsed, so that
 * a list of any length takes the bytes of one; JSON lines are cut by line, so that what is wrong
 * with one stays in it. */
#include "dataset/dataset.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "dataset/dataset_turns.h"
#include "tool.h"

static const char blanks[] = " \t\r\n";

/* ---- characters ---- */

static int get(dataset *d) {
    const int c = getc(d->file);
    d->lines += c == '\n';
    return c;
}

static void unget(dataset *d, int c) {
    if (c == EOF) return;
    d->lines -= c == '\n';
    ungetc(c, d->file);
}

/* The next that isn't white space, left there. */
static int peek(dataset *d) {
    int c = get(d);
    while (c != EOF && strchr(blanks, c) && c) c = get(d);
    unget(d, c);
    return c;
}

static bool append(dataset *d, int c) {
    if (d->used + 1 >= d->room) {
        const size_t room = d->room ? 2 * d->room : 4096;
        char *text = realloc(d->text, room);
        if (!text) return false;
        d->text = text;
        d->room = room;
    }
    d->text[d->used++] = (char)c;
    d->text[d->used] = 0;
    return true;
}

static int say(dataset *d, const char *why) {
    snprintf(d->why, sizeof d->why, "%s", why);
    return -1;
}

/* ---- cutting ---- */

/* A string, from behind its opening quote. */
static int cut_string(dataset *d) {
    bool escaped = false;
    for (int c = get(d); c != EOF; c = get(d)) {
        if (!append(d, c)) return say(d, "out of memory for this record");
        if (c == '"' && !escaped) return 1;
        escaped = c == '\\' && !escaped;
    }
    return say(d, "the file ends inside this record: a closing quote or bracket is missing");
}

/* A value's text, by its brackets. 0: the file ends before one. */
static int cut_value(dataset *d) {
    int depth = 0, c = peek(d);
    d->used = 0;
    d->line = d->lines + 1;
    if (c == EOF) return 0;
    do {
        c = get(d);
        const bool bare = depth == 0 && d->used && strchr(",]}", c);
        if (c == EOF || bare || (depth == 0 && strchr(blanks, c))) {
            unget(d, c);
            return depth == 0 && d->used ? 1
                                         : say(d, "the file ends inside this record: a closing "
                                                  "quote or bracket is missing");
        }
        if (!append(d, c)) return say(d, "out of memory for this record");
        if (c == '"' && cut_string(d) < 0) return -1;
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
    } while (depth > 0 || (c != '}' && c != ']' && c != '"'));
    return 1;
}

/* A line that isn't empty. */
static int cut_line(dataset *d) {
    ssize_t n;
    do {
        n = getline(&d->text, &d->room, d->file);
        if (n <= 0) return 0;
        d->line = ++d->lines;
    } while (d->text[strspn(d->text, blanks)] == 0);
    d->used = (size_t)n;
    return 1;
}

/* Between the elements of a list: 1 there is one more, 0 it ends, and the file with it. */
static int step(dataset *d) {
    const bool first = !d->begun;
    d->begun = true;
    peek(d);
    d->line = d->lines + 1;
    int c = get(d); /* '[' or what is behind an element */
    if (first && peek(d) != ']') return 1;
    if (first) c = get(d);
    if (!first && c == ',')
        return peek(d) == EOF ? say(d, "the file ends inside the list: the closing ']' is missing")
                              : 1;
    if (c == EOF) return say(d, "the file ends inside the list: the closing ']' is missing");
    if (c != ']') return say(d, "expected ',' or ']' after an element of the list");
    return peek(d) == EOF ? 0 : say(d, "there is text after the ']' that ends the list; remove it");
}

static int cut(dataset *d) {
    if (d->form == DATASET_LINES) return cut_line(d);
    const int status = d->form == DATASET_ARRAY ? step(d) : 1;
    return status == 1 ? cut_value(d) : status;
}

/* The element that was cut; NULL: why says it. */
static json_t *parse(dataset *d) {
    json_error_t error;
    json_t *value = json_loadb(d->text, d->used,
                               JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (!value) {
        say(d, error.text);
        if (error.line > 1 && d->form != DATASET_LINES) d->line += (uint64_t)error.line - 1;
    }
    return value;
}

/* ---- what a file is ---- */

static dataset_shape shape_of(const json_t *value) {
    if (json_is_array(value))
        return dataset_is_messages(value) && json_array_size(value) ? DATASET_LISTS : DATASET_OTHER;
    if (json_object_get(value, "messages")) return DATASET_MESSAGES;
    if (json_object_get(value, "conversations")) return DATASET_SHAREGPT;
    const char *question, *answer;
    if (dataset_instruction(value)) return DATASET_ALPACA;
    if (dataset_pair(value, &question, &answer)) return DATASET_PROMPTS;
    return json_object_get(value, "text") ? DATASET_TEXTS : DATASET_OTHER;
}

static bool ends_with(const char *path, const char *end) {
    const size_t n = strlen(path), m = strlen(end);
    return n > m && strcmp(path + n - m, end) == 0;
}

/* Is it a list of objects? */
static bool is_list(const json_t *value) {
    return json_is_array(value) && json_is_object(json_array_get(value, 0));
}

static void take_keys(const json_t *value, dataset_look *look) {
    const char *key;
    json_t *member;
    size_t n = 0, left = json_object_size(value);
    json_object_foreach((json_t *)value, key, member) {
        const char *between = !n ? "" : left == 1 ? " and " : ", ";
        left--;
        if (n + strlen(key) + 16 > sizeof look->keys)
            n += (size_t)snprintf(look->keys + n, sizeof look->keys - n, ", ...");
        else
            n += (size_t)snprintf(look->keys + n, sizeof look->keys - n, "%s\"%.40s\"", between,
                                  key);
        if (n + 16 > sizeof look->keys) break;
        if (is_list(member)) snprintf(look->list, sizeof look->list, "%.40s", key);
    }
    look->preferences = json_object_get(value, "chosen") && json_object_get(value, "rejected");
}

/* A text may begin with a bracket, too; a file that says so by its name is JSON. */
static void take_why(dataset *d, const char *path, dataset_look *look) {
    char where[64];
    if (!ends_with(path, ".json") && !ends_with(path, ".jsonl")) return;
    dataset_where(d, where);
    snprintf(look->why, sizeof look->why, "%.60s: %.160s", where, d->why);
    look->shape = DATASET_OTHER;
}

/* The first element as a member of a list, or as the message of a conversation that the list is. */
static void look_at_list(dataset *d, const char *path, dataset_look *look) {
    json_t *value = NULL;
    look->form = DATASET_ARRAY;
    d->index = 1;
    int status = step(d);
    if (status == 1) status = cut_value(d);
    if (status == 1) value = parse(d);
    if (!value && status == 0) say(d, "the list is empty");
    if (dataset_is_message(value)) {
        look->form = DATASET_VALUES;
        look->shape = DATASET_LISTS;
    } else if (json_is_object(value) || json_is_array(value)) {
        look->shape = shape_of(value);
        take_keys(value, look);
    } else {
        if (value) say(d, "each element of the list must be an object or a list");
        take_why(d, path, look);
    }
    json_decref(value);
}

static void look_at_object(dataset *d, const char *path, dataset_look *look) {
    json_t *value = cut_value(d) == 1 ? parse(d) : NULL;
    look->form = d->text && memchr(d->text, '\n', d->used) ? DATASET_VALUES : DATASET_LINES;
    if (json_is_object(value)) {
        look->shape = shape_of(value);
        take_keys(value, look);
        if (look->shape == DATASET_OTHER && look->form == DATASET_VALUES && !*look->keys)
            look->shape = DATASET_NONE;
    } else {
        take_why(d, path, look);
    }
    json_decref(value);
}

/* A pipe would lose what is read. */
static bool is_file(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

static bool open_file(dataset *d, const char *path) {
    *d = (dataset){.form = DATASET_LINES, .file = fopen(path, "r")};
    if (!d->file) return false;
    char mark[3];
    const size_t n = fread(mark, 1, 3, d->file);
    if (n < 3 || memcmp(mark, "\xef\xbb\xbf", 3) != 0) rewind(d->file);
    return true;
}

void dataset_look_at(const char *path, dataset_look *look) {
    dataset d = {.file = NULL};
    *look = (dataset_look){.shape = DATASET_NONE};
    if (is_file(path) && open_file(&d, path)) {
        const int c = peek(&d);
        if (c == '[') look_at_list(&d, path, look);
        if (c == '{') look_at_object(&d, path, look);
    }
    dataset_close(&d);
}

void dataset_name(const dataset_look *look, char text[80]) {
    static const char *const forms[] = {"JSON lines", "a JSON array", "JSON values"};
    static const char *const shapes[] = {"",
                                         "messages",
                                         "lists of messages",
                                         "ShareGPT conversations",
                                         "Alpaca instructions",
                                         "prompts and completions",
                                         "texts",
                                         "objects"};
    const bool one = look->form == DATASET_VALUES && look->shape == DATASET_LISTS;
    snprintf(text, 80, "%s of %s", one ? "a JSON array" : forms[look->form],
             one ? "messages" : shapes[look->shape]);
}

void dataset_note(const char *path) {
    char name[80], separator;
    dataset_look look;
    dataset_look_at(path, &look);
    if (look.shape == DATASET_NONE && is_file(path) && dataset_is_table(path, &separator))
        tool_message("warning: %s is a table (CSV), but this verb reads it as plain text, column "
                     "names and separators included",
                     path);
    if (look.shape == DATASET_NONE || *look.why) return;
    dataset_name(&look, name);
    tool_message("warning: %s has the format %s, but this verb reads it as plain text, JSON syntax "
                 "included, and applies no chat template",
                 path, name);
}

/* ---- reading ---- */

bool dataset_open(dataset *d, const char *path) {
    dataset_look look;
    dataset_look_at(path, &look);
    if (!open_file(d, path)) return false;
    d->form = look.form;
    return true;
}

static int no_conversation(dataset *d, const json_t *value) {
    const char *key;
    json_t *member;
    if (*d->why) return -1;
    if (!json_is_object(value)) return say(d, "the record is not a JSON object");
    int n = snprintf(
        d->why, sizeof d->why,
        "the record needs \"messages\" (a list of objects with a \"role\"), or \"prompt\" and "
        "\"completion\", or \"conversations\", or \"instruction\" and \"output\"; it has");
    json_object_foreach((json_t *)value, key, member) {
        if ((size_t)n + 48 < sizeof d->why)
            n += snprintf(d->why + n, sizeof d->why - (size_t)n, " \"%.40s\"", key);
    }
    return -1;
}

int dataset_next(dataset *d, json_t **messages, json_t **tools) {
    *messages = *tools = NULL;
    d->why[0] = 0;
    d->index++;
    const int status = cut(d);
    if (status != 1) return status;
    json_t *value = parse(d);
    if (!value) return -1;
    *messages = dataset_turns(value, d->why, sizeof d->why);
    if (*messages && !dataset_tools(value, tools)) {
        say(d, "\"tools\" must be a list, or a string that contains one");
        json_decref(*messages);
        *messages = NULL;
    }
    const int found = *messages ? 1 : no_conversation(d, value);
    json_decref(value);
    return found;
}

static const char *type_of(const json_t *value) {
    static const char *const types[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list",  [JSON_STRING] = "a string",
        [JSON_INTEGER] = "a number", [JSON_REAL] = "a number", [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",      [JSON_NULL] = "null"};
    return types[json_typeof(value)];
}

static int no_text(dataset *d, const json_t *value) {
    const json_t *text = json_object_get(value, "text");
    const char *key = json_object_iter_key(json_object_iter((json_t *)value));
    if (!json_is_object(value)) return say(d, "the record is not a JSON object");
    if (text)
        snprintf(d->why, sizeof d->why, "\"text\" is %s, but must be a string", type_of(text));
    else
        snprintf(
            d->why, sizeof d->why,
            "the record has no \"text\", as the first record of the file has; it has %s%.40s%s",
            key ? "\"" : "", key ? key : "no fields", key ? "\"" : "");
    return -1;
}

int dataset_next_text(dataset *d, json_t **text) {
    *text = NULL;
    d->why[0] = 0;
    d->index++;
    const int status = cut(d);
    if (status != 1) return status;
    json_t *value = parse(d);
    if (!value) return -1;
    json_t *found = json_object_get(value, "text");
    if (json_is_string(found)) *text = json_incref(found);
    const int got = *text ? 1 : no_text(d, value);
    json_decref(value);
    return got;
}

void dataset_where(const dataset *d, char text[64]) {
    if (d->form == DATASET_LINES && !d->begun)
        snprintf(text, 64, "line %llu", (unsigned long long)d->line);
    else
        snprintf(text, 64, "element %llu (line %llu)", (unsigned long long)d->index,
                 (unsigned long long)d->line);
}

void dataset_close(dataset *d) {
    if (d->file) fclose(d->file);
    free(d->text);
    *d = (dataset){.file = NULL};
}
