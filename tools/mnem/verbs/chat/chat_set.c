/* chat_set.c: options of a run that a chat may change: how tokens are chosen, how many, and the
 * system text.
 *
 * The rows of the command line are used (option_groups.c), so that names, other spellings and
 * bounds are the same. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/chat/chat_parts.h"

static const char tokens_name[] = "tokens", system_name[] = "system", verbose_name[] = "verbose",
                  quiet_name[] = "quiet";

/* The row of an option, of those of a table that aren't in its groups; NULL: there is none of that
 * name. */
static const tool_option *find_row(const tool_option *row, const char *name, size_t n) {
    while ((row->name || row->group) && !(row->name && tool_option_named(row, name, n))) row++;
    return row->name ? row : NULL;
}

static bool is_word(const char *name, size_t n, const char *word) {
    return strlen(word) == n && memcmp(name, word, n) == 0;
}

/* ---- values ---- */

static void value_text(const tool_option *row, const void *field, char text[TOOL_TEXT]) {
    if (row->kind == TOOL_VALUE_FLOAT)
        snprintf(text, TOOL_TEXT, "%g", (double)*(const float *)field);
    else if (row->kind == TOOL_VALUE_COUNT)
        snprintf(text, TOOL_TEXT, "%d", *(const int32_t *)field);
    else
        snprintf(text, TOOL_TEXT, "%llu", (unsigned long long)*(const uint64_t *)field);
}

static void show_row(const chat *c, const tool_option *row) {
    char text[TOOL_TEXT];
    value_text(row, (const char *)&c->g->sampling + row->offset, text);
    fprintf(stderr, "  %-18s %s\n", row->name, text);
}

static void show_tokens(const chat *c) {
    if (c->tokens > 0)
        fprintf(stderr, "  %-18s %d\n", tokens_name, c->tokens);
    else
        fprintf(stderr, "  %-18s to the end\n", tokens_name);
}

static void show_verbose(const chat *c) {
    fprintf(stderr, "  %-18s %s\n", verbose_name, c->verbose ? "yes" : "no");
}

static void show(const chat *c) {
    for (const tool_option *row = tool_sampling_options; row->name; row++) show_row(c, row);
    show_tokens(c);
    show_verbose(c);
    if (c->has_system)
        tool_wrap(stderr, "  system             ", c->system);
    else
        fprintf(stderr, "  %-18s none\n", system_name);
}

void chat_set_help(const chat *c) {
    for (const tool_option *row = tool_sampling_options; row->name; row++) {
        char first[32];
        snprintf(first, sizeof first, "  %-18s ", row->name);
        tool_wrap(stderr, first, row->help);
    }
    fprintf(stderr,
            "  %-18s longest answer in tokens; -1: no limit\n  %-18s instructions, as /system\n"
            "  %-18s speed behind each answer; quiet turns it off\nThey are now:\n",
            tokens_name, system_name, verbose_name);
    show(c);
}

/* Within [least, most], and whole where the row counts; false: it has been told. */
static bool read_value(const tool_option *row, const char *text, double *value) {
    const bool whole = row->kind != TOOL_VALUE_FLOAT;
    char *end;
    *value = strtod(text, &end);
    const bool number = *text && !*end && isfinite(*value) && (!whole || *value == trunc(*value));
    if (number && *value >= row->least && *value <= row->most) return true;
    if (row->most >= INT32_MAX)
        tool_message("/set %s takes a whole number of at least %g, not \"%s\"", row->name,
                     row->least, text);
    else
        tool_message("/set %s takes a number from %g to %g, not \"%s\"", row->name, row->least,
                     row->most, text);
    return false;
}

/* A seed has 64 bits, which a double hasn't. */
static bool read_seed(const char *text, uint64_t *seed) {
    char *end;
    errno = 0;
    *seed = strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9' && !*end && !errno) return true;
    tool_message("/set seed takes a whole number from 0 to 2^64 - 1, not \"%s\"", text);
    return false;
}

/* ---- setting ---- */

/* The sampler begins anew, with the seed that it had: what follows is as though it had been set
 * from here on. */
static int set_sampling(chat *c, const tool_option *row, const char *text) {
    mnem_sampler_options sampling = c->g->sampling;
    void *field = (char *)&sampling + row->offset;
    double value = 0;
    if (row->kind == TOOL_VALUE_NUMBER) {
        if (!read_seed(text, field)) return TOOL_OK;
    } else if (!read_value(row, text, &value))
        return TOOL_OK;
    if (row->kind == TOOL_VALUE_FLOAT) *(float *)field = (float)value;
    if (row->kind == TOOL_VALUE_COUNT) *(int32_t *)field = (int32_t)value;
    const int code = tool_generator_resample(c->g, &sampling);
    if (c->g->sampler) show_row(c, row);
    return c->g->sampler ? TOOL_OK : code;
}

static int set_tokens(chat *c, const char *text) {
    const tool_option row = {
        .name = tokens_name, .kind = TOOL_VALUE_COUNT, .least = -1, .most = INT32_MAX};
    double value;
    if (!read_value(&row, text, &value)) return TOOL_OK;
    if (value == 0) {
        tool_message("/set tokens takes a whole number of at least 1, or -1 for no limit, not 0");
        return TOOL_OK;
    }
    c->tokens = (int32_t)value;
    show_tokens(c);
    return TOOL_OK;
}

/* What other tools set in a chat, and where it is here. */
static const struct {
    const char *name, *text;
} habits[] = {
    {"wordwrap", "lines are broken at words; start mnem run with --plain to turn this off"},
    {"nowordwrap", "start mnem run with --plain: lines are then printed as the model writes them"},
    {"history", "what is typed is kept for the next chat, unless mnem run has --no-history"},
    {"nohistory", "start mnem run with --no-history"},
    {"format", "start mnem run with --json-schema FILE ('{}': any JSON) or --grammar FILE"},
    {"noformat", "answers are free, unless mnem run has --json-schema or --grammar"},
    {"think", "the chat template decides: start mnem run with --template-args "
              "'{\"enable_thinking\": true}'"},
    {"nothink", "the chat template decides: start mnem run with --template-args "
                "'{\"enable_thinking\": false}'"},
    {"stop", "start mnem run with --stop TEXT"},
    {"threads", "threads are started with the model: start mnem run with --threads N"},
    {"num_thread", "threads are started with the model: start mnem run with --threads N"},
    {"num_gpu", "there is no GPU support"},
};

static bool tell_habit(const char *name, size_t n) {
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++) {
        if (!is_word(name, n, habits[i].name)) continue;
        tool_message("%s can't be set in a chat: %s", habits[i].name, habits[i].text);
        return true;
    }
    return false;
}

static void refuse(const char *name, size_t n) {
    char text[600];
    if (tell_habit(name, n)) return;
    size_t used = (size_t)snprintf(text, sizeof text, "No option %.*s; /set takes",
                                   (int)(n < 40 ? n : 40), name);
    for (const tool_option *row = tool_sampling_options; row->name; row++)
        used += (size_t)snprintf(text + used, sizeof text - used, " %s,", row->name);
    snprintf(text + used, sizeof text - used, " %s, %s, %s and %s.", tokens_name, system_name,
             verbose_name, quiet_name);
    tool_wrap(stderr, "", text);
}

/* The memory for a context is planned before the model is loaded. */
static void refuse_context(const chat *c, const char *value) {
    const bool number = *value && strspn(value, "0123456789") == strlen(value);
    tool_message("the context of %d tokens is fixed when the model is loaded; to change it, start "
                 "mnem run --ctx %s",
                 c->stage->plan.context, number ? value : "N");
}

int chat_set(chat *c, const char *words) {
    static const char habit[] = "parameter "; /* of another tool's /set */
    if (strncmp(words, habit, sizeof habit - 1) == 0) words += sizeof habit - 1;
    words += strspn(words, " -");
    const size_t n = strcspn(words, " =");
    const char *value = words + n;
    value += strspn(value, " =");
    const tool_option *row = find_row(tool_sampling_options, words, n);
    const tool_option *other = find_row(tool_run_options, words, n);
    if (n == 0) {
        show(c);
        return TOOL_OK;
    }
    if (is_word(words, n, system_name)) return chat_instruct(c, value);
    if (row) return set_sampling(c, row, value);
    if (other && strcmp(other->name, tokens_name) == 0) return set_tokens(c, value);
    const bool verbose = is_word(words, n, verbose_name);
    if (verbose || is_word(words, n, quiet_name)) {
        c->verbose = verbose;
        show_verbose(c);
    } else if (find_row(tool_shape_options, words, n) == tool_shape_options)
        refuse_context(c, value);
    else
        refuse(words, n);
    return TOOL_OK;
}

int chat_show(chat *c, const char *what) {
    const tool_stage *stage = c->stage;
    if (strcmp(what, "parameters") == 0)
        show(c);
    else if (strcmp(what, system_name) == 0)
        tool_wrap(stderr, "  ", c->has_system ? c->system : "none");
    else if (strcmp(what, "template") == 0)
        fputs("mnem template MODEL prints the model's template.\n", stderr);
    else if (*what && strcmp(what, "info") != 0)
        fputs("/show needs one of the words info, parameters or system.\n", stderr);
    else {
        tool_report_model(stderr, stage);
        fprintf(stderr,
                "  %-15s %s\n  %-15s %d layers, %d heads of %d, embeddings of %d\n"
                "  %-15s %d tokens here, %d at most\n  %-15s %s\n",
                "quantization", tool_main_type(stage->model), "transformer",
                stage->transformer.layers, stage->transformer.heads, stage->transformer.head_dim,
                stage->transformer.embd, "context", stage->plan.context, stage->transformer.context,
                "template", c->g->answers ? c->rendering.source : "none");
    }
    return TOOL_OK;
}

void chat_set_complete(const char *begun, size_t n, tool_words *words) {
    for (const tool_option *row = tool_sampling_options; row->name; row++)
        tool_words_add(words, begun, n, row->name);
    tool_words_add(words, begun, n, tokens_name);
    tool_words_add(words, begun, n, system_name);
    tool_words_add(words, begun, n, verbose_name);
    tool_words_add(words, begun, n, quiet_name);
}
