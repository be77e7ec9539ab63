/* tensor_rules.c: types by patterns of names: regular expressions (PCRE2) that may fit anywhere.
 *
 * Other tools' patterns are those of ECMAScript, of which PCRE has all that names need. A pattern
 * is the user's own; matching stops at PCRE2's limits all the same. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "model/convert/tensor_rules.h"

#include <pcre2.h>

#include "base/heap.h"
#include "model/convert/quantize.h"

static const char TAG[] = "quantize";

typedef struct compiled {
    const char *pattern;
    pcre2_code *code;
    mnem_type type;
    bool used;
} compiled;

struct mnem__tensor_rules {
    pcre2_general_context *memory;
    pcre2_match_data *match;
    int32_t count;
    compiled rule[];
};

static void *pcre_alloc(size_t n, void *context) {
    (void)context;
    return mnem__alloc(TAG, n);
}

static void pcre_free(void *p, void *context) {
    (void)context;
    mnem__free(p);
}

static mnem_status compile(mnem__tensor_rules *rules, const mnem_tensor_rule *from, compiled *to) {
    const mnem__recipe *recipe;
    const char *type = from->type ? from->type : "";
    to->pattern = from->pattern ? from->pattern : "";
    MNEM__TRY(mnem__recipe_find("tensor type", type, &recipe));
    if (mnem__recipe_is_mix(recipe))
        return mnem__fail(MNEM_INVALID, "tensor type: %s is a mix of types, expected a single type",
                          recipe->name);
    to->type = recipe->matrices;
    int error;
    PCRE2_SIZE at;
    pcre2_compile_context *context = pcre2_compile_context_create(rules->memory);
    if (!context) return mnem__heap_status();
    to->code =
        pcre2_compile((PCRE2_SPTR)to->pattern, PCRE2_ZERO_TERMINATED, 0, &error, &at, context);
    pcre2_compile_context_free(context);
    if (to->code) return MNEM_OK;
    if (error == PCRE2_ERROR_HEAP_FAILED) return mnem__heap_status();
    char text[128] = "";
    pcre2_get_error_message(error, (PCRE2_UCHAR *)text, sizeof text);
    return mnem__fail(MNEM_INVALID, "tensor type: pattern \"%.64s\", character %zu: %s",
                      to->pattern, at + 1, text);
}

static mnem_status init(mnem__tensor_rules *rules, const mnem_tensor_rule *rule, int32_t count) {
    rules->memory = pcre2_general_context_create(pcre_alloc, pcre_free, NULL);
    if (rules->memory) rules->match = pcre2_match_data_create(1, rules->memory);
    if (!rules->match) return mnem__heap_status();
    for (; rules->count < count; rules->count++)
        MNEM__TRY(compile(rules, &rule[rules->count], &rules->rule[rules->count]));
    return MNEM_OK;
}

mnem_status mnem__tensor_rules_create(const mnem_tensor_rule *rule, int32_t count,
                                      mnem__tensor_rules **out) {
    *out = NULL;
    mnem__tensor_rules *rules =
        mnem__calloc(TAG, 1, sizeof *rules + (size_t)count * sizeof *rules->rule);
    if (!rules) return mnem__heap_status();
    const mnem_status status = init(rules, rule, count);
    if (status == MNEM_OK)
        *out = rules;
    else
        mnem__tensor_rules_destroy(rules);
    return status;
}

void mnem__tensor_rules_destroy(mnem__tensor_rules *rules) {
    if (!rules) return;
    for (int32_t i = 0; i < rules->count; i++) pcre2_code_free(rules->rule[i].code);
    pcre2_match_data_free(rules->match);
    pcre2_general_context_free(rules->memory);
    mnem__free(rules);
}

mnem_status mnem__tensor_rules_find(mnem__tensor_rules *rules, const char *name, bool *found,
                                    mnem_type *type) {
    *found = false;
    for (int32_t i = 0; i < rules->count && !*found; i++) {
        compiled *rule = &rules->rule[i];
        const int match = pcre2_match(rule->code, (PCRE2_SPTR)name, PCRE2_ZERO_TERMINATED, 0, 0,
                                      rules->match, NULL);
        if (match == PCRE2_ERROR_NOMEMORY) return mnem__heap_status();
        if (match < 0 && match != PCRE2_ERROR_NOMATCH)
            return mnem__fail(
                MNEM_INVALID,
                "tensor type: pattern \"%.64s\" takes too many steps to match; write a simpler one",
                rule->pattern);
        if (match < 0) continue;
        *found = rule->used = true;
        *type = rule->type;
    }
    return MNEM_OK;
}

mnem_status mnem__tensor_rules_check(const mnem__tensor_rules *rules) {
    for (int32_t i = 0; i < rules->count; i++)
        if (!rules->rule[i].used)
            return mnem__fail(MNEM_INVALID,
                              "tensor type: pattern \"%.64s\" matches no matrix, or only those "
                              "that an earlier pattern matches; correct or remove it",
                              rules->rule[i].pattern);
    return MNEM_OK;
}
