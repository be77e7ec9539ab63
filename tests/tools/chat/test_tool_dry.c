/* test_tool_dry.c: `mnem run` with the options of DRY and XTC, with --repeat-last-n, --logit-bias
 * and --ignore-eos, against their definition computed here from the logits. Breakers are single
 * characters here; test_dry.c has longer ones. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "kit/kit.h"
#include "mnem/session.h"
#include "tools/tool_run.h"

enum { TOKENS = 24, ROOM = 128, WORDS = 12 };

static const char prompt[] = "the son of Joseph, the son of Levi, the son of";

/* Options of one run, and what they say; 0 where they say nothing. */
typedef struct run_case {
    const char *option[WORDS];
    float multiplier, base;
    int32_t allowed, last;
    const char *breakers;
    float threshold; /* of XTC, with probability 1; 0: off */
    float repeat;
    int32_t repeat_last;
    int32_t biased; /* id of the token */
    float bias;
    bool endless;
} run_case;

static const run_case cases[] = {
    {.option = {NULL}},
    {.option = {"--dry-multiplier", "2"}, .multiplier = 2},
    {.option = {"--dry-multiplier", "0.5", "--dry-base", "1.1", "--dry-allowed-length", "1"},
     .multiplier = 0.5f,
     .base = 1.1f,
     .allowed = 1},
    {.option = {"--dry-multiplier", "2", "--dry-penalty-last-n", "6"}, .multiplier = 2, .last = 6},
    {.option = {"--dry-multiplier", "2", "--dry-sequence-breaker", "none", "--dry-sequence-breaker",
                ","},
     .multiplier = 2,
     .breakers = ","},
    {.option = {"--dry-multiplier", "5", "--dry-sequence-breaker", "\\n", "--dry-sequence-breaker",
                "f"},
     .multiplier = 5,
     .breakers = "\nf"},
    {.option = {"--xtc-probability", "1"}, .threshold = 0.1f},
    {.option = {"--xtc-probability", "1", "--xtc-threshold", "0.02"}, .threshold = 0.02f},
    {.option = {"--repeat-penalty", "1.5", "--repeat-last-n", "3"},
     .repeat = 1.5f,
     .repeat_last = 3},
    {.option = {"--repeat-penalty", "1.5", "--repeat-last-n", "0"}, .repeat = 1.5f},
    {.option = {"--logit-bias", "100+5.5"}, .biased = 100, .bias = 5.5f},
    {.option = {"--logit-bias", "100-5"}, .biased = 100, .bias = -5},
};
/* What holds without an option. */
static run_case with_usual(run_case c) {
    if (c.base == 0) c.base = 1.75f;
    if (c.allowed == 0) c.allowed = 2;
    if (c.last == 0) c.last = 64;
    if (!c.breakers) c.breakers = "\n:\"*";
    if (c.repeat == 0) c.repeat = 1;
    return c;
}
enum { CASES = sizeof cases / sizeof *cases };

typedef struct answer {
    const run_case *of;
    const mnem_tokenizer *tokenizer;
    int32_t vocab, next, count;
    int32_t ids[ROOM];
    float *value; /* [vocab] */
} answer;

static bool breaks(const answer *a, int32_t id) {
    const mnem_text piece = mnem_tokenizer_piece(a->tokenizer, id, true);
    for (size_t i = 0; i < piece.length; i++)
        if (piece.bytes[i] && strchr(a->of->breakers, piece.bytes[i])) return true;
    return false;
}

/* Each token loses what the longest repetition that it would continue costs. */
static void apply_dry(answer *a) {
    const run_case *c = a->of;
    const int32_t begin = a->count > c->last ? a->count - c->last : 0, n = a->count - begin;
    const int32_t *ids = a->ids + begin;
    int32_t most = 0;
    if (c->multiplier == 0 || n <= c->allowed) return;
    while (most < n && !breaks(a, ids[n - 1 - most])) most++;
    for (int32_t id = 0; id < a->vocab; id++) {
        int32_t longest = -1;
        for (int32_t at = 1; at < n; at++) {
            int32_t same = 0;
            while (ids[at] == id && same < at && ids[at - 1 - same] == ids[n - 1 - same]) same++;
            if (same > most) same = most;
            if (ids[at] == id && same >= c->allowed && same > longest) longest = same;
        }
        if (longest < 0 || breaks(a, id)) continue;
        a->value[id] -= (float)(c->multiplier * pow((double)c->base, longest - c->allowed));
    }
}

static void apply_penalty(answer *a) {
    const run_case *c = a->of;
    for (int32_t id = 0; id < a->vocab; id++) {
        bool seen = false;
        for (int32_t i = 0; i < c->repeat_last && i < a->count; i++)
            seen |= a->ids[a->count - 1 - i] == id;
        if (c->biased > 0 && id == c->biased) a->value[id] += c->bias;
        if (seen)
            a->value[id] = a->value[id] > 0 ? a->value[id] / c->repeat : a->value[id] * c->repeat;
    }
}

/* The best of those below the threshold and of the least likely at it, among the best 40 whose
 * probabilities sum to 0.95, down to 0.05 of the best one's: the usual cuts. */
static int32_t best_of(const answer *a) {
    enum { TOP_K = 40 };
    int32_t order[TOP_K], n = 0, first = 0;
    double total = 0, sum = 0;
    for (int32_t id = 0; id < a->vocab; id++) {
        int32_t at = n;
        while (at > 0 && a->value[id] > a->value[order[at - 1]]) at--;
        if (at == TOP_K) continue;
        if (n < TOP_K) n++;
        memmove(order + at + 1, order + at, (size_t)(n - 1 - at) * sizeof *order);
        order[at] = id;
    }
    if (a->of->threshold == 0) return order[0];
    const float best = a->value[order[0]];
    for (int32_t i = 0; i < n; i++) total += exp((double)a->value[order[i]] - best);
    for (int32_t i = 0; i < n; i++) {
        const double weight = exp((double)a->value[order[i]] - best);
        if (i > 0 && (sum >= 0.95f * total || weight < 0.05f))
            n = i;
        else
            sum += weight;
    }
    for (int32_t i = 0; i < n; i++)
        if (exp((double)a->value[order[i]] - best) / sum >= a->of->threshold) first = i;
    return order[first];
}

static bool on_logits(void *context, int32_t index, const float *logits) {
    answer *a = context;
    (void)index;
    memcpy(a->value, logits, (size_t)a->vocab * sizeof *logits);
    apply_penalty(a);
    apply_dry(a);
    a->next = best_of(a);
    return true;
}

/* What the definition gives: ids behind the prompt's, up to one that ends the text. */
static int32_t define(const mnem_opened *o, answer *a) {
    const int32_t *ids;
    size_t n;
    must(mnem_session_truncate(o->session, 0));
    must(mnem_tokenizer_encode(o->tokenizer, prompt, strlen(prompt), 0, &ids, &n));
    memcpy(a->ids, ids, n * sizeof *ids);
    a->count = (int32_t)n;
    must(mnem_session_eval(o->session, ids, (int32_t)n, (int32_t)n - 1, on_logits, a));
    while (a->count < (int32_t)n + TOKENS && !mnem_tokenizer_is_end(o->tokenizer, a->next)) {
        a->ids[a->count++] = a->next;
        must(mnem_session_eval(o->session, &a->ids[a->count - 1], 1, 0, on_logits, a));
    }
    return (int32_t)n;
}

/* Ids of the lines of --json that tell tokens. */
static int32_t told(const char *text, int32_t *ids) {
    int32_t n = 0;
    for (const char *line = text; *line && n < ROOM; line += strcspn(line, "\n") + 1) {
        json_t *object = json_loadb(line, strcspn(line, "\n"), 0, NULL);
        const json_t *token = json_object_get(object, "token");
        assert_non_null(object);
        if (json_is_integer(token)) ids[n++] = (int32_t)json_integer_value(token);
        json_decref(object);
    }
    return n;
}

static tool_result run_with(const run_case *c, const char *how) {
    const char *words[] = {"run", "--raw", "-p",  prompt, "-n", "24", "--temp",
                           "0",   "--ctx", "256", how,    NULL, NULL, NULL,
                           NULL,  NULL,    NULL,  NULL,   NULL, NULL, NULL};
    for (int i = 0; i < 8 && c->option[i]; i++) words[11 + i] = c->option[i];
    return tool_run(NULL, words);
}

static void texts_are_those_of_the_definition(void **state) {
    (void)state;
    int32_t got[ROOM], first[TOKENS], differ = 0;
    mnem_tokenizer_info info;
    mnem_opened o;
    must(mnem_open(tool_model, 0, &(mnem_engine_options){.context = 256}, &o));
    mnem_tokenizer_info_get(o.tokenizer, &info);
    answer a = {.tokenizer = o.tokenizer,
                .vocab = info.vocab,
                .value = malloc((size_t)info.vocab * sizeof *a.value)};
    for (int i = 0; i < CASES; i++) {
        const run_case c = with_usual(cases[i]);
        a.of = &c;
        const int32_t begin = define(&o, &a), made = a.count - begin;
        const tool_result r = run_with(&cases[i], "--json");
        assert_int_equal(r.code, 0);
        if (told(r.out, got) != made || memcmp(got, a.ids + begin, (size_t)made * sizeof *got) != 0)
            fail_msg("case %d is another text: %s", i, r.out);
        if (i == 0) memcpy(first, got, sizeof first);
        differ += i > 0 && memcmp(first, got, (size_t)made * sizeof *got) != 0;
    }
    if (differ < 6) fail_msg("only %d of the texts differ", (int)differ);
    free(a.value);
    mnem_close(&o);
}

/* A token that ends the text, made the likeliest by a bias. */
static void an_end_that_is_ignored_ends_nothing(void **state) {
    (void)state;
    char bias[32];
    mnem_tokenizer_info info;
    mnem_opened o;
    int32_t ids[ROOM];
    must(mnem_open(tool_model, 0, &(mnem_engine_options){.context = 64}, &o));
    mnem_tokenizer_info_get(o.tokenizer, &info);
    mnem_close(&o);
    snprintf(bias, sizeof bias, "%d+100", info.eos);
    const run_case ends = {.option = {"--logit-bias", bias}},
                   goes_on = {.option = {"--logit-bias", bias, "--ignore-eos"}};
    assert_int_equal(told(run_with(&ends, "--json").out, ids), 0);
    assert_int_equal(told(run_with(&goes_on, "--json").out, ids), TOKENS);
    for (int i = 0; i < TOKENS; i++) assert_int_equal(ids[i], info.eos);
}

static void bounds_are_said(void **state) {
    (void)state;
    static const char *const wrong[][3] = {
        {"--dry-multiplier", "-1", "from 0 to 100"},
        {"--dry-multiplier", "nan", "takes"},
        {"--dry-base", "0.9", "from 1 to 100"},
        {"--dry-allowed-length", "-1", "at least 0"},
        {"--dry-penalty-last-n", "65537", "at most 65536"},
        {"--dry-sequence-breaker", "01234567890123456789012345678901234567890", "at most 40 bytes"},
        {"--xtc-probability", "1.1", "from 0 to 1"},
        {"--xtc-threshold", "-0.1", "from 0 to 1"},
        {"--repeat-last-n", "65537", "at most 65536"},
        {"--logit-bias", "5", "ID+BIAS"},
        {"--logit-bias", "5+", "ID+BIAS"},
        {"--logit-bias", "5+101", "at most 100"},
        {"--logit-bias", "-5+1", "ID+BIAS"},
        {"--logit-bias", "99999999999+1", "ID+BIAS"},
        {"--logit-bias", "9999999+1", "9999999"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const tool_result r = RUN("run", "-p", "x", wrong[i][0], wrong[i][1]);
        if (r.code != 2 || !strstr(r.err, wrong[i][2]))
            fail_msg("%s %s: %d, %s", wrong[i][0], wrong[i][1], r.code, r.err);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_those_of_the_definition),
        cmocka_unit_test(an_end_that_is_ignored_ends_nothing),
        cmocka_unit_test(bounds_are_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
