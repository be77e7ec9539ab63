/* options.c: the parser of command lines, and the table of environment variables.
 *
 * The idea: an option is its index among the verb's rows (options.h); the parser finds the index by
 * a name or a letter, and the row says how the value is read and where in the verb's struct it
 * goes. What isn't known is answered with the nearest name that is.
 * Cost: each look at a row walks the tables from their start; a command line is short. */
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define TOOL_VERB_ADDRESS(name) &tool_verb_##name,
const tool_verb *const tool_verbs[] = {TOOL_VERB_LIST(TOOL_VERB_ADDRESS) NULL};
#undef TOOL_VERB_ADDRESS

/* ---- the environment ---- */

const tool_variable tool_variables[] = {
    {"MNEM_MODEL", "the bundled model", "the model to use when none is named"},
    {"MNEM_MEMORY", "85 % of what is available", "the budget if --memory is not given"},
    {"MNEM_CPU", "the best that the processor has",
     "the most advanced instruction set that kernels may use: plain, avx2, avx512 or avx512_bf16"},
    {"XDG_CACHE_HOME", "$HOME/.cache",
     "folder of caches: the machine profile (mnem/profile.json), and under mpirun the parts of "
     "models that a rank without the file received (mnem/parts)"},
    {"MNEM_HISTORY", "on",
     "if \"off\": don't add finished runs to $XDG_STATE_HOME/mnem/history.jsonl"},
    {"XDG_STATE_HOME", "$HOME/.local/state",
     "folder of state: the lines typed in chats (mnem/history), figures of finished runs "
     "(mnem/history.jsonl) and the results of mnem probe"},
    {"XDG_RUNTIME_DIR", "/tmp/mnem-UID",
     "folder of status files: mnem/PID.status, or PID.status in the default folder"},
    {"MNEM_PROGRESS", "30",
     "seconds between the progress lines of perplexity, quantize, convert, merge and prune, and of "
     "serve while it loads, if standard error is not a terminal; 0: none"},
    {"MNEM_STATUS", "on",
     "if \"off\": run, train and serve write no status file, so mnem top can't show them"},
    {"HOME", "none", "parent of .cache and .local, used if the XDG folders are not set"},
    {"NO_COLOR", "none", "any value: no colours on a terminal"},
    {"TERM", "none", "if \"dumb\": no colours on a terminal"},
    {"PAGER", "less",
     "shows help and mnem plan -v on a terminal a screen at a time; \"cat\": all at once"},
    {"LISTEN_FDS", "none", "mnem serve: number of sockets passed by the service manager"},
    {"LISTEN_PID", "none", "mnem serve: the process that LISTEN_FDS is meant for"},
    {"OLLAMA_HOST", "none", "not used: mnem serve says so, and --host and --port set its address"},
    {"NOTIFY_SOCKET", "none",
     "mnem serve: socket on which it tells the service manager it is ready"},
};
const int tool_variables_count = sizeof tool_variables / sizeof tool_variables[0];

const char *tool_env(const char *name) {
    for (int i = 0; i < tool_variables_count; i++) {
        if (strcmp(tool_variables[i].name, name) != 0) continue;
        const char *value = getenv(name);
        return value && *value ? value : NULL;
    }
    return NULL;
}

/* ---- rows ---- */

/* The row that is *left rows on, groups opened; *left falls by the rows passed. */
static bool find_row(const tool_option *rows, size_t base, bool hidden, int *left,
                     tool_option *option) {
    for (; rows->name || rows->group; rows++) {
        const bool hide = hidden || rows->hidden;
        if (rows->group && find_row(rows->group, base + rows->offset, hide, left, option))
            return true;
        if (rows->group || (*left)-- > 0) continue;
        *option = *rows;
        option->offset += base;
        option->hidden = hide;
        return true;
    }
    return false;
}

bool tool_option_get(const tool_verb *verb, int index, tool_option *option) {
    return find_row(verb->options, 0, false, &index, option) ||
           find_row(tool_help_options, 0, false, &index, option);
}

/* The index of the option with this name; -1: there is none. */
static int find_long(const tool_verb *verb, const char *name, size_t length, tool_option *option) {
    for (int i = 0; tool_option_get(verb, i, option); i++)
        if (tool_option_named(option, name, length)) return i;
    return -1;
}

static int find_letter(const tool_verb *verb, char letter, tool_option *option) {
    for (int i = 0; tool_option_get(verb, i, option); i++)
        if (option->letter == letter) return i;
    return -1;
}

bool tool_given(const tool_args *args, const char *name) {
    tool_option option;
    const int index = find_long(args->verb, name, strlen(name), &option);
    return index >= 0 && args->given[index];
}

const char *tool_option_path(const tool_args *args, const tool_option *option) {
    return *(const char *const *)((const char *)args + option->offset);
}

/* ---- values ---- */

static int set_count(const char *verb, const tool_option *o, const char *text, int32_t *out) {
    char *end;
    const long long n = strtoll(text, &end, 10); /* what overflows is beyond any bound, too */
    if (!*text || *end)
        return tool_usage(verb, "--%s takes a whole number, not \"%s\"", o->name, text);
    if (n == 0 && o->least > 0 && strcmp(o->name, "ctx") == 0)
        return tool_usage(
            verb, "--ctx is %s; it must be at least %.0f; without --ctx the default applies", text,
            o->least);
    if ((double)n < o->least || (double)n > o->most)
        return tool_usage(verb, "--%s is %s; it must be %s %.0f", o->name, text,
                          (double)n < o->least ? "at least" : "at most",
                          (double)n < o->least ? o->least : o->most);
    *out = (int32_t)n;
    return TOOL_OK;
}

static int set_real(const char *verb, const tool_option *o, const char *text, double *out) {
    char *end;
    double x = strtod(text, &end);
    if (!*text || *end || !isfinite(x))
        return tool_usage(verb, "--%s takes a number, not \"%s\"", o->name, text);
    if (x < o->least || x > o->most)
        return tool_usage(verb, "--%s is %s; it must be from %g to %g", o->name, text, o->least,
                          o->most);
    *out = x;
    return TOOL_OK;
}

static int set_number(const char *verb, const tool_option *o, const char *text, uint64_t *out) {
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || (errno && o->most == 0))
        return tool_usage(verb,
                          o->most > 0 ? "--%s takes a whole number, not \"%s\""
                                      : "--%s takes a whole number from 0 to 2^64 - 1, not \"%s\"",
                          o->name, text);
    if (o->most > 0 && (errno || (double)n < o->least || (double)n > o->most))
        return tool_usage(verb, "--%s is %s; it must be from %.0f to %.0f", o->name, text, o->least,
                          o->most);
    *out = n;
    return TOOL_OK;
}

static int set_size(const char *verb, const tool_option *o, const char *text, uint64_t *out) {
    if (mnem_size_parse(text, out) == MNEM_OK) return TOOL_OK;
    return tool_usage(verb, "--%s takes a size such as 512M or 2G, not \"%s\"", o->name, text);
}

/* Which word of the choices it is; -1: none. */
static int find_choice(const tool_option *o, const char *text, bool any_case) {
    const size_t n = strlen(text);
    int index = 0;
    for (const char *c = o->choices; c; index++) {
        const char *end = strchr(c, ' ');
        const size_t length = end ? (size_t)(end - c) : strlen(c);
        if (length == n && (any_case ? strncasecmp : strncmp)(c, text, n) == 0) return index;
        c = end ? end + 1 : NULL;
    }
    return -1;
}

static int set_choice(const char *verb, const tool_option *o, const char *text, int32_t *out) {
    *out = find_choice(o, text, false);
    if (*out >= 0) return TOOL_OK;
    return tool_usage(verb, "--%s takes one of: %s; not \"%s\"", o->name, o->choices, text);
}

static int set_name(const char *verb, const tool_option *o, const char *text, const char **out) {
    *out = text;
    if (find_choice(o, text, true) >= 0) return TOOL_OK;
    return tool_usage(verb, "--%s takes one of: %s; not \"%s\"", o->name, o->choices, text);
}

int tool_option_check(const tool_verb *verb, const char *name, const char *text) {
    tool_option o;
    if (find_long(verb, name, strlen(name), &o) < 0) return TOOL_FAILED;
    return set_name(verb->name, &o, text, &text);
}

static int add_text(const char *verb, const tool_option *o, const char *text, tool_texts *list) {
    if (!*text && !o->empty)
        return tool_usage(verb, "--%s got an empty text; give at least one character", o->name);
    if (list->count == (int)o->most)
        return tool_usage(verb, "--%s may be given at most %d times", o->name, list->count);
    list->text[list->count++] = text;
    return TOOL_OK;
}

static int set_float(const char *verb, const tool_option *o, const char *text, float *out) {
    double x = 0;
    const int code = set_real(verb, o, text, &x);
    *out = (float)x;
    return code;
}

static int set_value(const char *verb, const tool_option *o, const char *text, void *field) {
    switch (o->kind) {
    case TOOL_VALUE_FLAG: *(bool *)field = true; return TOOL_OK;
    case TOOL_VALUE_TEXT: *(const char **)field = text; return TOOL_OK;
    case TOOL_VALUE_SIZE: return set_size(verb, o, text, field);
    case TOOL_VALUE_BUDGET: return tool_option_budget(verb, o, text, field);
    case TOOL_VALUE_COUNT: return set_count(verb, o, text, field);
    case TOOL_VALUE_NUMBER: return set_number(verb, o, text, field);
    case TOOL_VALUE_REAL: return set_real(verb, o, text, field);
    case TOOL_VALUE_FLOAT: return set_float(verb, o, text, field);
    case TOOL_VALUE_CHOICE: return set_choice(verb, o, text, field);
    case TOOL_VALUE_KV: return tool_option_kv(verb, o, text, field);
    case TOOL_VALUE_NAME: return set_name(verb, o, text, field);
    case TOOL_VALUE_LIST: return add_text(verb, o, text, field);
    }
    return TOOL_FAILED;
}

/* What each option of the command line was called, and set to. */
static struct {
    const char *name, *text;
    size_t length;
} spelling[TOOL_OPTIONS_MAX];

/* Two spellings of one option with different values are two wishes of which one can't be met. The
 * same spelling again is a change of mind. */
static int check_spelling(const tool_args *args, int index, const tool_option *o, const char *name,
                          const char *text) {
    const size_t length = strcspn(name, "=");
    const char *before = spelling[index].name;
    const size_t n = spelling[index].length;
    if (before && o->kind != TOOL_VALUE_LIST && strcmp(spelling[index].text, text) != 0 &&
        (n != length || memcmp(before, name, length) != 0))
        return tool_usage(args->verb->name,
                          "--%.*s %s and --%.*s %s both set --%s: give only one of them", (int)n,
                          before, spelling[index].text, (int)length, name, text, o->name);
    spelling[index].name = name;
    spelling[index].length = length;
    spelling[index].text = text;
    return TOOL_OK;
}

/* The option with this index, in words of the command line. */
static int take_option(tool_args *args, int index, const tool_option *o, const char *text) {
    const char *verb = args->verb->name;
    if (args->given[index] && o->once)
        return tool_usage(verb, "--%s is given twice, but may be given once only: %s", o->name,
                          o->once);
    const bool seed = o->kind == TOOL_VALUE_NUMBER && o->least == -1;
    args->given[index] = !(seed && text && strcmp(text, "-1") == 0); /* else it is the default */
    if (!args->given[index]) return TOOL_OK;
    return set_value(verb, o, text, (char *)args + o->offset);
}

/* ---- words ---- */

static char *const *command_line; /* up to a NULL */

/* The option that has the letter in another verb, and none in this. */
static const char *same_letter(const tool_verb *verb, char letter) {
    tool_option o, ours;
    for (int i = 0; tool_verbs[i]; i++)
        if (find_letter(tool_verbs[i], letter, &o) >= 0 &&
            find_long(verb, o.name, strlen(o.name), &ours) >= 0)
            return ours.name;
    return NULL;
}

static int unknown(const tool_args *args, const char *word, const char *name) {
    const char *near = tool_near_option(args->verb, name);
    if (!near && word[1] != '-') near = same_letter(args->verb, word[1]);
    if (near)
        return tool_usage(args->verb->name, "unknown option %s; did you mean --%s?", word, near);
    return tool_usage(args->verb->name, "unknown option %s", word);
}

/* --name, --name=value or --name value, also after one dash; *taken: how many words it took. */
static int parse_long(char **word, tool_args *args, int *taken) {
    const char *name = word[0] + 1 + (word[0][1] == '-'), *equals = strchr(name, '=');
    const size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const char *verb = args->verb->name;
    tool_option o;
    const int index = find_long(args->verb, name, length, &o);
    char shown[48];
    snprintf(shown, sizeof shown, "--%.*s", (int)(length < 40 ? length : 40), name);
    *taken = 1;
    if (index < 0) return unknown(args, shown, shown + 2);
    if (!o.value && equals)
        return tool_usage(verb, "--%s takes no value: leave out \"%s\"", o.name, equals);
    if (!o.value) return take_option(args, index, &o, NULL);
    const char *text = equals ? equals + 1 : word[1];
    if (!text) return tool_usage(verb, "--%s needs a value: %s", o.name, o.value);
    *taken = equals ? 1 : 2;
    const char *pair = tool_kv_pair(&o, spelling[index].name, spelling[index].text, name, text);
    const int code = pair ? TOOL_OK : check_spelling(args, index, &o, name, text);
    return code == TOOL_OK ? take_option(args, index, &o, pair ? pair : text) : code;
}

/* -n5, -n 5, or flags together: -qh. */
static int parse_letters(char **word, tool_args *args, int *taken) {
    *taken = 1;
    if (tool_near_slip(args->verb, word[0] + 1)) return unknown(args, word[0], word[0] + 1);
    for (const char *c = word[0] + 1; *c; c++) {
        tool_option o;
        const int index = find_letter(args->verb, *c, &o);
        const char shown[3] = {'-', *c, 0};
        if (index < 0) return unknown(args, c[1] ? word[0] : shown, word[0] + 1);
        if (o.value) {
            if (!c[1] && !word[1])
                return tool_usage(args->verb->name, "-%c (--%s) needs a value: %s", *c, o.name,
                                  o.value);
            *taken = c[1] ? 1 : 2;
            return take_option(args, index, &o, c[1] ? c + 1 : word[1]);
        }
        const int code = take_option(args, index, &o, NULL);
        if (code != TOOL_OK) return code;
    }
    return TOOL_OK;
}

/* A whole word after one dash is a long option, too: -temp, -ngl. */
static int parse_option(char **word, tool_args *args, int *taken) {
    const bool two = word[0][1] == '-';
    const char *name = word[0] + 1 + two;
    tool_option o;
    if ((two || name[1]) && find_long(args->verb, name, strcspn(name, "="), &o) >= 0)
        return parse_long(word, args, taken);
    if (!two && !name[1] && find_letter(args->verb, *name, &o) >= 0)
        return parse_letters(word, args, taken);
    const int code = tool_foreign_option(args->verb->name, word, command_line, taken);
    if (*taken) return code;
    return two ? parse_long(word, args, taken) : parse_letters(word, args, taken);
}

/* The option that an operand after the last stands for; -1: the verb has none. */
static int find_last(const tool_verb *verb, tool_option *option) {
    for (int i = 0; tool_option_get(verb, i, option); i++)
        if (option->last) return i;
    return -1;
}

static const char *last_operand; /* one more than the verb's own; NULL: none */

/* Such an operand as its option. It replaces no file: `prune MODEL text.txt` would lose a text. */
static int take_last(tool_args *args) {
    const char *verb = args->verb->name;
    tool_option o, type;
    struct stat about;
    const int index = find_last(args->verb, &o);
    if (!last_operand || index < 0) return TOOL_OK;
    if (args->given[index])
        return tool_usage(verb, "\"%s\" is one operand too many: --%s already names that file",
                          last_operand, o.name);
    if (find_long(args->verb, "type", strlen("type"), &type) >= 0 &&
        find_choice(&type, last_operand, true) >= 0)
        return tool_usage(
            verb,
            "\"%s\" is a type, not a file to write: use --type %s, and --%s FILE for the file",
            last_operand, last_operand, o.name);
    if (stat(last_operand, &about) == 0 && S_ISREG(about.st_mode))
        return tool_usage(verb, "the file %s already exists: to overwrite it, use --%s %s",
                          last_operand, o.name, last_operand);
    return take_option(args, index, &o, last_operand);
}

/* Is the last operand a text, which a shell cuts into words? */
static bool takes_words(const tool_verb *verb) {
    return strstr(verb->about.operands, "PROMPT") || strstr(verb->about.operands, "[TEXT");
}

static int add_operand(char *word, tool_args *args) {
    const tool_verb *verb = args->verb;
    tool_option o;
    if (args->operands == verb->about.most && !last_operand && find_last(verb, &o) >= 0) {
        last_operand = word;
        return TOOL_OK;
    }
    if (args->operands == verb->about.most && takes_words(verb))
        return tool_usage(verb->name,
                          "%s takes %s; \"%s\" is an unexpected operand: put quotes around a text "
                          "of several words, as in '%s %s ...'",
                          verb->name, verb->about.operands, word, args->operand[args->operands - 1],
                          word);
    if (args->operands == verb->about.most)
        return tool_usage(verb->name, "%s takes %s%s; \"%s\" is an unexpected operand", verb->name,
                          verb->about.most ? "" : "no operands", verb->about.operands, word);
    args->operand[args->operands++] = word;
    return TOOL_OK;
}

static int parse_words(int count, char **words, tool_args *args) {
    bool options = true;
    for (int i = 0, taken; i < count; i += taken) {
        int code;
        taken = 1;
        if (options && strcmp(words[i], "--") == 0) {
            options = false;
            continue;
        }
        if (!options || words[i][0] != '-' || !words[i][1])
            code = add_operand(words[i], args);
        else
            code = parse_option(words + i, args, &taken);
        if (code != TOOL_OK) return code;
    }
    return TOOL_OK;
}

static int find_verb(const char *word, const tool_verb **verb) {
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) word = "help";
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) word = "version";
    for (int i = 0; tool_verbs[i]; i++) {
        *verb = tool_verbs[i];
        if (strcmp(word, tool_verbs[i]->name) == 0) return TOOL_OK;
    }
    if (*word == '-')
        return tool_usage(NULL, "a verb is missing before %s; did you mean: mnem run %s ...", word,
                          word);
    const char *instead = tool_foreign_verb(word);
    if (instead) return tool_usage(NULL, "unknown verb \"%s\"; %s", word, instead);
    const char *near = tool_near_verb(word);
    if (near) return tool_usage(NULL, "unknown verb \"%s\"; did you mean %s?", word, near);
    FILE *file = fopen(word, "rb");
    if (!file) return tool_usage(NULL, "unknown verb \"%s\"; mnem help all lists the verbs", word);
    fclose(file);
    return tool_usage(NULL, "\"%s\" is a file, not a verb; did you mean: mnem run %s", word, word);
}

/* What was asked for without a word on the command line, where the verb takes it. */
static int read_environment(tool_args *args) {
    const char *memory = tool_env("MNEM_MEMORY");
    uint64_t bytes;
    tool_option o;
    if (!memory) return TOOL_OK;
    if (!strchr(memory, '%') && mnem_size_parse(memory, &bytes) != MNEM_OK)
        return tool_usage(
            NULL,
            "the environment variable MNEM_MEMORY is \"%s\"; set it to a size such as 512M or 2G",
            memory);
    if (find_long(args->verb, "memory", strlen("memory"), &o) < 0) return TOOL_OK;
    return set_value(args->verb->name, &o, memory, (char *)args + o.offset);
}

/* --model is the first operand, and what stands there must look like a model. */
static int take_model(tool_args *args) {
    const tool_verb *verb = args->verb;
    tool_option o;
    if (args->model && args->operands == verb->about.most && !last_operand &&
        find_last(verb, &o) >= 0)
        last_operand = args->operand[--args->operands];
    if (args->model && args->operands == verb->about.most)
        return tool_usage(verb->name,
                          "\"%s\" is one operand too many: --model %s already names the model",
                          args->operand[args->operands - 1], args->model);
    if (args->model) {
        memmove(args->operand + 1, args->operand, sizeof *args->operand * (size_t)args->operands++);
        args->operand[0] = args->model;
    }
    if (!args->operands || find_long(verb, "model", strlen("model"), &o) < 0) return TOOL_OK;
    if (o.offset != offsetof(tool_args, model)) return TOOL_OK; /* train's isn't an operand */
    return tool_check_model(verb->name, args->operand[0]);
}

static const tool_verb *parsed_verb = &tool_verb_help;

const char *tool_verb_name(void) {
    return parsed_verb->name;
}

int tool_parse(int argc, char **argv, const tool_args **out) {
    if (argc < 2) {
        tool_help_overview(stderr);
        return TOOL_USAGE;
    }
    int code = find_verb(argv[1], &parsed_verb);
    if (code != TOOL_OK) return code;
    const tool_verb *verb = parsed_verb;
    tool_args *args = verb->args;
    *out = args;
    args->verb = verb;
    if (verb->defaults) verb->defaults(args);
    command_line = argv + 2;
    code = read_environment(args);
    if (code == TOOL_OK) code = parse_words(argc - 2, argv + 2, args);
    if (code != TOOL_OK || args->help) return code;
    code = take_model(args);
    if (code == TOOL_OK) code = take_last(args);
    if (code == TOOL_OK && args->operands < verb->about.least)
        return tool_usage(verb->name, "%s needs %s", verb->name, verb->about.operands);
    return code;
}
