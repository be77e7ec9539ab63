/* train_config.c: what a training run is, kept as JSON.
 *
 * One table of fields reads and writes the JSON, so that a file that was written can be read.
 * Invariant: every field that was read is one of its choices or within its bounds; what isn't is
 * refused by name, and never replaced by a default. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output_file.h"
#include "verbs/train/train_tool.h"

typedef enum field_kind {
    FIELD_TEXT,
    FIELD_COUNT,
    FIELD_LONG,
    FIELD_NUMBER,
    FIELD_REAL
} field_kind;

typedef struct field {
    const char *name;
    field_kind kind;
    size_t offset, room; /* room: of texts */
    double least, most;
    const char *choices; /* of texts: words with spaces between; NULL: any short text */
} field;

#define AT(name) offsetof(train_config, name)
#define TEXT(name, choices)                                                                        \
    { #name, FIELD_TEXT, AT(name), sizeof((train_config *)0)->name, 0, 0, choices }
#define COUNT(name, least, most)                                                                   \
    { #name, FIELD_COUNT, AT(name), 0, least, most, NULL }
#define LONG(name)                                                                                 \
    { #name, FIELD_LONG, AT(name), 0, 0, TRAIN_STEPS_MAX, NULL }
#define NUMBER(name)                                                                               \
    { #name, FIELD_NUMBER, AT(name), 0, 0, TRAIN_NUMBER_MAX, NULL }
#define REAL(name, least, most)                                                                    \
    { #name, FIELD_REAL, AT(name), 0, least, most, NULL }
static const field fields[] = {
    TEXT(architecture, NULL), /* that of --init, or of a new model */
    COUNT(layers, 1, 1024),
    COUNT(embd, 1, 1 << 20),
    COUNT(heads, 1, 4096),
    COUNT(kv_heads, 1, 4096),
    COUNT(head_dim, 0, 256),
    COUNT(ff, 1, 1 << 22),
    COUNT(vocab, 1, 1 << 20), /* of --init; one that is learned has each byte */
    COUNT(context, 1, 1 << 20),
    REAL(epsilon, 1e-12, 0.1),
    REAL(rope_base, 1, 1e12),
    COUNT(batch, 1, 1 << 20),
    LONG(steps),
    REAL(rate, 0, 10),
    REAL(rate_floor, 0, 10),
    REAL(weight_decay, 0, 10),
    REAL(dropout, 0, 0.99),
    REAL(clip, 0, 1e9),
    REAL(heldout, 0, 0.9),
    LONG(warmup),
    REAL(time, 0, 1e9),
    REAL(epochs, 0, TRAIN_EPOCHS_MAX),
    LONG(windows),
    NUMBER(seed),
    NUMBER(memory),
    TEXT(precision, "auto f32 bf16 f16"),
    TEXT(moments, "f32 8bit"),
    TEXT(pre, "gpt-2 llama-bpe qwen2 default"),
    TEXT(name, NULL),
    TEXT(license, NULL),
    COUNT(lora, 0, 65536),
    REAL(lora_alpha, 0, 1e6),
    TEXT(lora_targets, NULL),
    COUNT(masked, 0, 1),
    TEXT(distill, NULL),
    REAL(distill_weight, 0, 1),
    REAL(distill_temperature, 0, 100),
    TEXT(distill_on, "logits states both"),
    TEXT(init, NULL),
    TEXT(data, "text chat texts"),
    TEXT(template_args, NULL),
    TEXT(base, NULL),
    COUNT(vocab_asked, 0, 1 << 20),
};
enum { FIELDS = sizeof fields / sizeof fields[0] };
_Static_assert(FIELDS <= 64, "train_config.given");

bool train_config_given(const train_config *config, const char *key) {
    for (int i = 0; i < FIELDS; i++)
        if (!strcmp(key, fields[i].name)) return config->given >> i & 1;
    return false;
}

/* ---- JSON ---- */

/* A number within the field's bounds; a NaN isn't. */
static bool read_number(const field *f, json_t *value, void *at) {
    const double x = json_number_value(value);
    const json_int_t n = json_integer_value(value);
    if (f->kind == FIELD_REAL ? !json_is_number(value) : !json_is_integer(value)) return false;
    if (!(x >= f->least && x <= f->most)) return false;
    if (f->kind == FIELD_REAL)
        *(double *)at = x;
    else if (f->kind == FIELD_COUNT)
        *(int32_t *)at = (int32_t)n;
    else if (f->kind == FIELD_LONG)
        *(int64_t *)at = n;
    else
        *(uint64_t *)at = (uint64_t)n;
    return true;
}

static bool read_text(const field *f, json_t *value, char *at) {
    const char *text = json_string_value(value);
    const size_t length = json_string_length(value);
    if (text && !f->choices && length < f->room) {
        snprintf(at, f->room, "%s", text);
        return true;
    }
    for (const char *word = f->choices; text && word;) {
        const char *end = strchr(word, ' ');
        const size_t n = end ? (size_t)(end - word) : strlen(word);
        if (n == length && !memcmp(word, text, n)) {
            snprintf(at, f->room, "%.*s", (int)n, word);
            return true;
        }
        word = end ? end + 1 : NULL;
    }
    return false;
}

static bool read_field(const field *f, json_t *value, train_config *config) {
    void *at = (char *)config + f->offset;
    return f->kind == FIELD_TEXT ? read_text(f, value, at) : read_number(f, value, at);
}

/* What a field may be: "one of: f32 8bit", "a whole number from 1 to 1024". */
static void say_wrong(const char *path, const field *f, const json_t *value) {
    enum { SHOWN = 60 };
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    const char *said = text ? text : "?";
    const char *more = strlen(said) > SHOWN ? "..." : "";
    if (f->kind == FIELD_TEXT && !f->choices)
        tool_message("the config %s: \"%s\" must be a string of less than %zu bytes", path, f->name,
                     f->room);
    else if (f->kind == FIELD_TEXT)
        tool_message("the config %s: \"%s\" is %.*s%s; it must be one of: %s", path, f->name, SHOWN,
                     said, more, f->choices);
    else
        tool_message("the config %s: \"%s\" is %.*s%s; it must be a %s from %.15g to %.15g", path,
                     f->name, SHOWN, said, more, f->kind == FIELD_REAL ? "number" : "whole number",
                     f->least, f->most);
    free(text);
}

/* ---- files of text ---- */

static bool add_file(train_config *config, const char *path) {
    if (config->files == TRAIN_FILES_MAX) return false;
    char *copy = strdup(path);
    if (copy) config->file[config->files++] = copy;
    return copy != NULL;
}

/* The whole path, so that --resume works from another folder. "-" is read later, into one file. */
int train_config_add(const char *path, train_config *config) {
    char whole[PATH_MAX] = "-";
    for (int32_t i = 0; i < config->files; i++)
        if (!strcmp(path, "-") && !strcmp(config->file[i], "-"))
            return tool_failed("--data names standard input (-) twice, but it can be read once "
                               "only: leave one out");
    struct stat about;
    if (stat(path, &about) == 0 && S_ISFIFO(about.st_mode))
        return tool_failed("%s is a pipe, which --resume could not read again: pipe the text into "
                           "mnem train --data -, which keeps a copy",
                           path);
    if (strcmp(path, "-") != 0 && !realpath(path, whole))
        return tool_failed("can't read %s: %s", path, strerror(errno));
    if (add_file(config, whole)) return TOOL_OK;
    return tool_failed("--data has more than %d files, the most that it takes: join some of them",
                       TRAIN_FILES_MAX);
}

static int read_files(const char *from, json_t *list, train_config *config) {
    size_t i;
    json_t *path;
    bool ok = json_is_array(list);
    json_array_foreach(list, i, path) ok = ok && json_is_string(path);
    if (!ok) return tool_failed("the config %s: \"files\" must be a list of paths", from);
    json_array_foreach(list, i, path) {
        const int code = train_config_add(json_string_value(path), config);
        if (code != TOOL_OK) return code;
    }
    return TOOL_OK;
}

/* ---- a file of JSON ---- */

bool train_config_is_run(const char *path) {
    static const char *const keys[] = {"files", "steps", "heldout", "warmup"};
    json_t *root = json_load_file(path, 0, NULL);
    bool is = json_is_object(root);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        is = is && json_object_get(root, keys[i]);
    json_decref(root);
    return is;
}

static int read_key(const char *path, const char *key, json_t *value, train_config *config) {
    if (!strcmp(key, "files")) return read_files(path, value, config);
    for (int i = 0; i < FIELDS; i++) {
        if (strcmp(key, fields[i].name) != 0) continue;
        config->given |= UINT64_C(1) << i;
        if (read_field(&fields[i], value, config)) return TOOL_OK;
        say_wrong(path, &fields[i], value);
        return TOOL_FAILED;
    }
    char known[1024] = " files";
    for (int i = 0; i < FIELDS; i++) {
        const size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, " %s", fields[i].name);
    }
    return tool_failed("the config %s has the unknown key \"%s\": remove or correct it; the known "
                       "keys are:%s",
                       path, key, known);
}

static json_t *load_object(const char *path) {
    json_error_t error;
    FILE *file = fopen(path, "r");
    errno = file ? 0 : errno;
    json_t *root = file ? json_loadf(file, JSON_REJECT_DUPLICATES, &error) : NULL;
    const bool unread = !file || ferror(file);
    if (unread)
        tool_message("can't read %s: %s", path, strerror(errno ? errno : EIO));
    else if (!root)
        tool_message("the config %s is not valid JSON: line %d: %s", path, error.line, error.text);
    else if (!json_is_object(root))
        tool_message("the config %s is not a JSON object", path);
    if (file) fclose(file);
    if (!unread && json_is_object(root)) return root;
    json_decref(root);
    return NULL;
}

/* What a new model may be; --init decides for itself. */
static int check_new(const char *path, const train_config *c) {
    enum { BYTES = 256 };
    if (strcmp(c->architecture, "llama") != 0 && strcmp(c->architecture, "gpt2") != 0)
        return tool_failed("the config %s: \"architecture\" is \"%s\"; it must be one of: llama "
                           "gpt2",
                           path, c->architecture);
    if (c->vocab >= BYTES) return TOOL_OK;
    return tool_failed("the config %s: \"vocab\" is %d; it must be a whole number from %d to %d",
                       path, c->vocab, BYTES, 1 << 20);
}

int train_config_load(const char *path, train_config *config) {
    json_t *root = load_object(path);
    const char *key;
    json_t *value;
    int code = TOOL_OK;
    if (!root) return TOOL_FAILED;
    json_object_foreach(root, key, value) {
        if (code == TOOL_OK) code = read_key(path, key, value, config);
    }
    json_decref(root);
    if (code == TOOL_OK && !*config->init) code = check_new(path, config);
    return code;
}

static json_t *write_field(const field *f, const train_config *config) {
    const void *at = (const char *)config + f->offset;
    switch (f->kind) {
    case FIELD_TEXT: return json_string(at);
    case FIELD_COUNT: return json_integer(*(const int32_t *)at);
    case FIELD_LONG: return json_integer(*(const int64_t *)at);
    case FIELD_NUMBER: return json_integer((json_int_t) * (const uint64_t *)at);
    case FIELD_REAL: return json_real(*(const double *)at);
    }
    return NULL;
}

/* Whole or not at all: a run that is killed here can be begun or resumed. */
static int write_whole(const json_t *root, const char *path) {
    tool_new to;
    const int code = tool_new_open(&to, path);
    if (code != TOOL_OK) return code;
    bool ok = json_dumpf(root, to.file, JSON_INDENT(4)) == 0 && fputc('\n', to.file) != EOF;
    ok = fflush(to.file) == 0 && fsync(fileno(to.file)) == 0 && ok;
    if (ok) return tool_new_end(&to);
    const int why = errno;
    tool_new_drop(&to);
    return tool_failed("can't write the file %s: %s", path, strerror(why));
}

int train_config_save(const char *path, const train_config *config) {
    json_t *root = json_object(), *list = json_array();
    bool ok = root && list;
    for (int i = 0; ok && i < FIELDS; i++)
        ok = json_object_set_new(root, fields[i].name, write_field(&fields[i], config)) == 0;
    for (int32_t i = 0; ok && i < config->files; i++)
        ok = json_array_append_new(list, json_string(config->file[i])) == 0;
    if (ok) ok = json_object_set(root, "files", list) == 0;
    const int code =
        ok ? write_whole(root, path) : tool_failed("can't write the file %s: out of memory", path);
    json_decref(list);
    json_decref(root);
    return code;
}

static void field_text(const field *f, const train_config *config, char text[TRAIN_VALUE]) {
    json_t *value = write_field(f, config);
    char *dumped = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));
    const char *words = json_string_value(value);
    if (words && !*words) words = "none";
    snprintf(text, TRAIN_VALUE, "%.*s", TRAIN_VALUE - 1, words ? words : dumped ? dumped : "?");
    free(dumped);
    json_decref(value);
}

bool train_config_same(const train_config *a, const train_config *b, const char *key,
                       char left[TRAIN_VALUE], char right[TRAIN_VALUE]) {
    for (int i = 0; i < FIELDS; i++) {
        if (strcmp(key, fields[i].name) != 0) continue;
        json_t *one = write_field(&fields[i], a), *other = write_field(&fields[i], b);
        const bool equal = json_equal(one, other);
        json_decref(one);
        json_decref(other);
        field_text(&fields[i], a, left);
        field_text(&fields[i], b, right);
        return equal;
    }
    return false;
}

int32_t train_config_head_dim(const train_config *c) {
    return c->head_dim ? c->head_dim : c->embd / c->heads;
}

void train_config_fini(train_config *config) {
    for (int32_t i = 0; i < config->files; i++) free(config->file[i]);
    config->files = 0;
}
