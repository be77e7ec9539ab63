/* train_config.c: what a training run is, from a name, a file and options; kept as JSON.
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
    TEXT(architecture, "llama gpt2 qwen2 qwen3"),
    COUNT(layers, 1, 1024),
    COUNT(embd, 1, 1 << 20),
    COUNT(heads, 1, 4096),
    COUNT(kv_heads, 1, 4096),
    COUNT(ff, 1, 1 << 22),
    COUNT(vocab, 256, 1 << 20),
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
    TEXT(init, NULL),
};
enum { FIELDS = sizeof fields / sizeof fields[0] };
_Static_assert(FIELDS <= 64, "train_config.given");

bool train_config_given(const train_config *config, const char *key) {
    for (int i = 0; i < FIELDS; i++)
        if (!strcmp(key, fields[i].name)) return config->given >> i & 1;
    return false;
}

/* ---- names ---- */

typedef struct named {
    const char *name;
    train_config config;
} named;

#define SHARED                                                                                     \
    .epsilon = 1e-5, .rope_base = 10000, .clip = 1, .heldout = 0.03, .seed = 1,                    \
    .precision = "auto", .moments = "f32", .pre = "gpt-2"
static const named names[] = {
    {"tiny",
     {"llama", 4, 128, 4, 2, 384, 512, 128, .batch = 16, .steps = 500, .rate = 3e-3,
      .rate_floor = 3e-4, .weight_decay = 0.1, .warmup = 50, SHARED}},
    {"5m",
     {"llama", 6, 256, 8, 4, 768, 2048, 256, .batch = 12, .steps = 2000, .rate = 2e-3,
      .rate_floor = 2e-4, .weight_decay = 0.2, .dropout = 0.1, .warmup = 100, SHARED}},
    {"gpt2-10m",
     {"gpt2", 6, 384, 6, 6, 1536, 256, 256, .batch = 8, .steps = 5000, .rate = 1e-3,
      .rate_floor = 1e-4, .weight_decay = 0.1, .dropout = 0.2, .warmup = 100, SHARED}},
    {"gpt2-124m",
     {"gpt2", 12, 768, 12, 12, 3072, 50257, 1024, .batch = 32, .steps = 20000, .rate = 6e-4,
      .rate_floor = 6e-5, .weight_decay = 0.1, .warmup = 700, SHARED}},
};
enum { NAMES = sizeof names / sizeof names[0], NAME_DEFAULT = 1 };

const char *train_config_names(void) {
    static char text[160];
    text[0] = 0;
    for (int i = 0; i < NAMES; i++) {
        if (i) strcat(text, ", ");
        strcat(text, names[i].name);
    }
    return text;
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
        tool_message("%s: \"%s\" must be a text of less than %zu bytes", path, f->name, f->room);
    else if (f->kind == FIELD_TEXT)
        tool_message("%s: \"%s\" is %.*s%s; it must be one of: %s", path, f->name, SHOWN, said,
                     more, f->choices);
    else
        tool_message("%s: \"%s\" is %.*s%s; it must be a %s from %.15g to %.15g", path, f->name,
                     SHOWN, said, more, f->kind == FIELD_REAL ? "number" : "whole number", f->least,
                     f->most);
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
static int add_data(const char *path, train_config *config) {
    char whole[PATH_MAX] = "-";
    for (int32_t i = 0; i < config->files; i++)
        if (!strcmp(path, "-") && !strcmp(config->file[i], "-"))
            return tool_failed("standard input (-) can be read once only");
    struct stat about;
    if (stat(path, &about) == 0 && S_ISFIFO(about.st_mode))
        return tool_failed("%s is a pipe, whose text would be gone for --resume: `... | mnem train "
                           "--data -` keeps it",
                           path);
    if (strcmp(path, "-") != 0 && !realpath(path, whole))
        return tool_failed("%s: %s", path, strerror(errno));
    if (add_file(config, whole)) return TOOL_OK;
    return tool_failed("at most %d files of text", TRAIN_FILES_MAX);
}

static int read_files(const char *from, json_t *list, train_config *config) {
    size_t i;
    json_t *path;
    bool ok = json_is_array(list);
    json_array_foreach(list, i, path) ok = ok && json_is_string(path);
    if (!ok) return tool_failed("%s: \"files\" must be a list of paths", from);
    json_array_foreach(list, i, path) {
        const int code = add_data(json_string_value(path), config);
        if (code != TOOL_OK) return code;
    }
    return TOOL_OK;
}

/* ---- a file of JSON ---- */

static int read_key(const char *path, const char *key, json_t *value, train_config *config) {
    if (!strcmp(key, "files")) return read_files(path, value, config);
    for (int i = 0; i < FIELDS; i++) {
        if (strcmp(key, fields[i].name) != 0) continue;
        config->given |= UINT64_C(1) << i;
        if (read_field(&fields[i], value, config)) return TOOL_OK;
        say_wrong(path, &fields[i], value);
        return TOOL_FAILED;
    }
    return tool_failed("%s: \"%s\" isn't known", path, key);
}

static json_t *load_object(const char *path) {
    json_error_t error;
    FILE *file = fopen(path, "r");
    errno = file ? 0 : errno;
    json_t *root = file ? json_loadf(file, JSON_REJECT_DUPLICATES, &error) : NULL;
    const bool unread = !file || ferror(file);
    if (unread)
        tool_message("%s: %s", path, strerror(errno ? errno : EIO));
    else if (!root)
        tool_message("%s: line %d: %s", path, error.line, error.text);
    else if (!json_is_object(root))
        tool_message("%s: not a JSON object", path);
    if (file) fclose(file);
    if (!unread && json_is_object(root)) return root;
    json_decref(root);
    return NULL;
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
static bool write_whole(const json_t *root, const char *path) {
    char beside[PATH_MAX + 80];
    snprintf(beside, sizeof beside, "%s.tmp", path);
    FILE *file = fopen(beside, "w");
    if (!file) return false;
    bool ok = json_dumpf(root, file, JSON_INDENT(4)) == 0 && fputc('\n', file) != EOF;
    ok = fflush(file) == 0 && fsync(fileno(file)) == 0 && ok;
    ok = fclose(file) == 0 && ok;
    ok = ok && rename(beside, path) == 0;
    const int why = errno;
    if (!ok) unlink(beside);
    errno = why;
    return ok;
}

int train_config_save(const char *path, const train_config *config) {
    json_t *root = json_object(), *list = json_array();
    bool ok = root && list;
    for (int i = 0; ok && i < FIELDS; i++)
        ok = json_object_set_new(root, fields[i].name, write_field(&fields[i], config)) == 0;
    for (int32_t i = 0; ok && i < config->files; i++)
        ok = json_array_append_new(list, json_string(config->file[i])) == 0;
    if (ok) ok = json_object_set(root, "files", list) == 0;
    errno = 0;
    if (ok) ok = write_whole(root, path);
    if (!ok) tool_message("%s: can't write it: %s", path, errno ? strerror(errno) : "no memory");
    json_decref(list);
    json_decref(root);
    return ok ? TOOL_OK : TOOL_FAILED;
}

void train_config_fini(train_config *config) {
    for (int32_t i = 0; i < config->files; i++) free(config->file[i]);
    config->files = 0;
}

/* ---- options ---- */

/* Adapters learn with little: what a run of them is when --config doesn't say. */
static const train_config for_adapters = {"llama",
                                          6,
                                          256,
                                          8,
                                          4,
                                          768,
                                          2048,
                                          256,
                                          .batch = 8,
                                          .steps = 500,
                                          .rate = 1e-3,
                                          .rate_floor = 1e-4,
                                          .warmup = 20,
                                          SHARED};

static int choose(const train_options *asked, train_config *config) {
    const char *name = asked->config;
    *config = asked->lora ? for_adapters : names[NAME_DEFAULT].config;
    if (!name) return TOOL_OK;
    for (int i = 0; i < NAMES; i++) {
        if (strcmp(name, names[i].name) != 0) continue;
        *config = names[i].config;
        config->given = UINT64_MAX;
        return TOOL_OK;
    }
    if (strchr(name, '.') || strchr(name, '/')) return train_config_load(name, config);
    return tool_usage("train", "--config %s: not a file, nor one of: %s", name,
                      train_config_names());
}

static void set_texts(const train_options *asked, train_config *c) {
    static const char *const precisions[] = {"auto", "f32", "bf16", "f16"};
    static const char *const moments[] = {"f32", "8bit"};
    if (tool_given(&asked->args, "precision"))
        snprintf(c->precision, sizeof c->precision, "%s", precisions[asked->training.precision]);
    if (tool_given(&asked->args, "moments"))
        snprintf(c->moments, sizeof c->moments, "%s", moments[asked->training.moments]);
}

/* What a config's file may say wrongly; options were checked before. */
int train_config_lora(train_config *c) {
    uint32_t targets;
    if (c->lora && c->lora_alpha == 0) c->lora_alpha = 2.0 * c->lora;
    if (c->lora && !*c->init)
        return tool_failed(
            "the config's \"lora\" wants \"init\": the model that the adapters are for");
    if (!*c->lora_targets || mnem_lora_targets_parse(c->lora_targets, &targets) == MNEM_OK)
        return TOOL_OK;
    return tool_failed("the config's \"lora_targets\": %s", mnem_last_error());
}

static int set_lora(const train_options *asked, train_config *c) {
    if (!asked->lora) {
        if (tool_given(&asked->args, "lora-alpha") || asked->lora_targets)
            return tool_usage("train", "--lora is missing: the rank of the adapters");
        return TOOL_OK;
    }
    if (!asked->init)
        return tool_usage("train", "--lora wants --init: the model that the adapters are for");
    c->lora = asked->lora;
    c->lora_alpha = asked->lora_alpha;
    const char *targets = asked->lora_targets ? asked->lora_targets : "";
    uint32_t set;
    if (*targets && mnem_lora_targets_parse(targets, &set) != MNEM_OK)
        return tool_usage("train", "--lora-targets: %s", mnem_last_error());
    if (strlen(targets) >= sizeof c->lora_targets)
        return tool_usage("train", "--lora-targets: some are there twice");
    snprintf(c->lora_targets, sizeof c->lora_targets, "%s", targets);
    return TOOL_OK;
}

/* The whole path, as for data. */
static int set_init(const train_options *asked, train_config *c) {
    if (!asked->init || realpath(asked->init, c->init)) return TOOL_OK;
    return tool_failed("%s: %s", asked->init, strerror(errno));
}

/* A length from the options has a warm-up to match, as has one that is shorter than the warm-up. */
static void set_length(const train_options *asked, train_config *c) {
    const bool given = tool_given(&asked->args, "steps") || tool_given(&asked->args, "tokens") ||
                       tool_given(&asked->args, "time");
    if (tool_given(&asked->args, "steps")) c->steps = (int64_t)asked->steps;
    if (tool_given(&asked->args, "tokens")) {
        const int64_t each = (int64_t)c->batch * c->context;
        c->steps = ((int64_t)asked->tokens + each - 1) / each;
    }
    if (tool_given(&asked->args, "time")) {
        c->steps = 0;
        c->time = asked->seconds;
    }
    if (c->steps && c->warmup > (given ? c->steps / 10 : c->steps)) c->warmup = c->steps / 10;
}

int train_config_make(const train_options *asked, train_config *c) {
    int code = choose(asked, c);
    if (code == TOOL_OK) code = set_lora(asked, c);
    if (code == TOOL_OK) code = set_init(asked, c);
    if (code != TOOL_OK) return code;
    if (tool_given(&asked->args, "vocab")) c->vocab = asked->vocab;
    if (tool_given(&asked->args, "ctx")) c->context = asked->context;
    if (tool_given(&asked->args, "batch")) c->batch = asked->training.batch;
    if (tool_given(&asked->args, "rate")) {
        c->rate_floor = asked->rate * (c->rate > 0 ? c->rate_floor / c->rate : 0.1);
        c->rate = asked->rate;
    }
    if (tool_given(&asked->args, "dropout")) c->dropout = asked->training.dropout;
    if (tool_given(&asked->args, "heldout")) c->heldout = asked->heldout;
    if (tool_given(&asked->args, "seed")) c->seed = asked->seed;
    c->memory =
        asked->memory < (uint64_t)TRAIN_NUMBER_MAX ? asked->memory : (uint64_t)TRAIN_NUMBER_MAX;
    set_texts(asked, c);
    if (asked->data) code = add_data(asked->data, c);
    for (int i = 0; i < asked->args.operands && code == TOOL_OK; i++)
        code = add_data(asked->args.operand[i], c);
    if (code == TOOL_OK && c->files == 0)
        return tool_usage("train", "--data is missing: the text files to learn from");
    return code;
}

int train_config_length(const train_options *asked, train_config *c) {
    set_length(asked, c);
    if (c->steps > 0 || c->time > 0) return TOOL_OK;
    return tool_usage("train", "how long? --steps, --tokens or --time");
}
