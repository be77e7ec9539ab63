/* option_budget.c: the value of --memory: a size, a share, or a list for ranks. */
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "ranks/ranks.h"

/* "50%" of what this process has and could still take. */
static int set_share(const char *verb, const tool_option *o, const char *text, uint64_t *out) {
    char *end;
    const double share = strtod(text, &end);
    mnem_process_usage usage = {0};
    uint64_t more = 0;
    if (end == text || end[0] != '%' || end[1] || !(share >= 1 && share <= 100))
        return tool_usage(
            verb, "--%s takes a percentage of the available memory, from 1%% to 100%%, not \"%s\"",
            o->name, text);
    mnem_status status = mnem_process_usage_get(&usage);
    if (status == MNEM_OK) status = mnem_process_available(&more);
    if (status != MNEM_OK) return tool_fail(status);
    *out = (uint64_t)(share / 100 * (double)(usage.bytes_resident + more));
    return TOOL_OK;
}

static const char *budget_list;

const char *tool_budget_list(void) {
    return budget_list;
}

static int set_word(const char *verb, const char *name, const char *word, uint64_t *out) {
    if (mnem_size_parse(word, out) == MNEM_OK) return TOOL_OK;
    return tool_usage(verb,
                      "--%s takes sizes separated by commas, such as 2G,1G; \"%s\" is not a size",
                      name, word);
}

/* The last one is that of all behind it. */
static void word_of(const char *list, int32_t rank, char word[32]) {
    for (; rank > 0 && strchr(list, ','); rank--) list = strchr(list, ',') + 1;
    snprintf(word, 32, "%.*s", (int)strcspn(list, ","), list);
}

int tool_budget_of(const char *verb, const char *list, int32_t rank, uint64_t *bytes) {
    char word[32];
    word_of(list, rank, word);
    return set_word(verb, "memory", word, bytes);
}

/* This rank's of a list with commas between. */
static int set_rank_budget(const char *verb, const tool_option *o, const char *text,
                           uint64_t *out) {
    char word[32];
    budget_list = text;
    if (!tool_ranks() && strcmp(verb, "plan") == 0) return tool_budget_of(verb, text, 0, out);
    if (!tool_ranks())
        return tool_usage(
            verb, "--%s takes a list of sizes (%s) only with several ranks: mpirun -n N mnem %s",
            o->name, text, verb);
    word_of(text, mnem_comm_rank(tool_ranks()), word);
    if (strchr(word, '%')) return set_share(verb, o, word, out);
    return set_word(verb, o->name, word, out);
}

int tool_option_budget(const char *verb, const tool_option *o, const char *text, uint64_t *out) {
    if (strchr(text, ',')) return set_rank_budget(verb, o, text, out);
    if (strchr(text, '%')) return set_share(verb, o, text, out);
    if (mnem_size_parse(text, out) != MNEM_OK)
        return tool_usage(
            verb, "--%s takes a size such as 512M or 2G, or a percentage such as 50%%, not \"%s\"",
            o->name, text);
    if (*out > 0 && *out < 4096 && text[strspn(text, "0123456789")] == 0)
        return tool_usage(verb, "--%s %s is %s bytes; did you mean %sM?", o->name, text, text,
                          text);
    return TOOL_OK;
}
