/* test_drafts.c: with drafts a text has the tokens and the logits that it has without.
 *
 * test_drafts [RUNS]     50 by default, 5000 under the label slow
 *
 * A run has a model, a type of keys and values, a sampler, a prompt, a grammar or none, tokens that
 * end it, and a second prompt behind a cut. Its text is made once token by token, all resident, by
 * one thread; then in an engine of a random budget, chunk, number of threads and length of drafts,
 * with drafts of a random kind: looked up in the text, the right tokens, right ones with a wrong
 * one among them, rubbish, or of all kinds by turns. Every row of logits that is chosen from is
 * compared to the bit. The seed of a failing run is in its message. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/engine_case.h"
#include "kit/kit.h"
#include "kit/kit_device.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"
#include "kit/kit_random.h"

enum { CONTEXT = 200, PROMPT_MOST = 90, TOKENS_MOST = 50, VOCAB_LEAST = 96, PHASES = 2 };

/* Of every kind of pages and layers that drafts support, and one with a tokenizer. */
static const char *const files[] = {
    "model/kjv-5m-q4_0.gguf",
    "model/kjv-5m-q4_k_m.gguf",
    "architectures/llama.gguf",
    "architectures/qwen2.gguf",
    "architectures/gemma2.gguf",
    "architectures/gemma3.gguf",
    "architectures/olmo3.gguf",
    "architectures/phi3_window.gguf",
    "architectures/gemma3n.gguf",
    "architectures/gemma4_wide.gguf",
    "architectures/gemma4_rows.gguf",
    "architectures/gemma4_moe.gguf",
    "architectures/gpt_oss.gguf",
    "architectures/qwen3moe.gguf",
    "architectures/deepseek2.gguf",
    "architectures/mistral4.gguf",
    "architectures/deepseek32_few.gguf",
    "architectures/glm_dsa_shared.gguf",
};
/* Made ones, whose rows are blocks of other types. */
static const char *const made[] = {
    "--arch llama --heads 4 --kv-heads 2 --type Q8_0 --embd 128 --layers 3 --ff 160",
    "--arch gpt2 --heads 4 --kv-heads 4 --type F16 --embd 128 --layers 3 --ff 160 --context 256",
    "--arch qwen3 --heads 4 --kv-heads 2 --head-dim 32 --type BF16 --embd 128 --layers 3 --ff 160",
};
enum {
    FILES = sizeof files / sizeof *files,
    MADE = sizeof made / sizeof *made,
    MODELS = FILES + MADE,
    WITH_TEXT = 2 /* the first so many have a tokenizer of a text */
};
static char paths[MODELS][256];

typedef enum kind { LOOKED_UP, RIGHT, NEARLY, RUBBISH, MIXED, KINDS } kind;

typedef struct spec {
    uint64_t seed;
    int model;
    mnem_kv_choice kv;
    mnem_sampler_options sampler;
    int32_t prompt[PHASES][PROMPT_MOST], prompt_n[PHASES], tokens[PHASES];
    int32_t cut;  /* of the first text, where the second begins; in hundredths */
    int32_t ends; /* a token ends the text if it is such a multiple; 0: none does */
    bool grammar;
} spec;

/* A choice, and what it was made from. */
typedef struct choice {
    int32_t id;
    float logprob;
    uint64_t logits; /* a hash of all */
} choice;

typedef struct record {
    int32_t ids[PHASES][CONTEXT + 1], count[PHASES]; /* the whole text of a phase */
    int32_t length[PHASES];                          /* of the sequence behind it */
    choice choices[PHASES][TOKENS_MOST];
    int32_t chosen[PHASES];
    uint64_t drafted, accepted, passes, dropped;
} record;

typedef struct text {
    const spec *s;
    engine_case c;
    mnem_tokenizer *tokenizer;
    mnem_token_set *set;
    mnem_grammar *grammar;
    mnem_match *match; /* NULL: no grammar */
    mnem_sampler *sampler;
    mnem_draft *draft; /* NULL: token by token */
    mnem_sequence *sequence;
    const record *want; /* of the text without drafts */
    kind kind;
    record *out;
    int phase;
    bool ended;
    uint64_t random;
} text;

static uint64_t hash_of(const float *logits, int32_t n) {
    uint64_t hash = 14695981039346656037u, word;
    for (int32_t i = 0; i + 1 < n; i += 2) {
        memcpy(&word, logits + i, sizeof word);
        hash = (hash ^ word) * 1099511628211u;
        hash ^= hash >> 29;
    }
    return hash;
}

/* ---- the text ---- */

static void accept(text *t, int32_t id, bool chosen) {
    if (chosen)
        mnem_sampler_accept_chosen(t->sampler, id);
    else
        mnem_sampler_accept(t->sampler, id);
    if (t->draft) mnem_draft_accept(t->draft, id);
}

static int32_t choose(void *context, const float *logits) {
    text *t = context;
    record *r = t->out;
    const int32_t n = r->chosen[t->phase]++;
    int32_t id = -1;
    assert_true(n < t->s->tokens[t->phase] && !t->ended);
    if (t->match)
        must(mnem_match_choose(t->match, t->sampler, logits, &id));
    else
        id = mnem_sampler_choose(t->sampler, logits);
    const float logprob = id < 0 ? 0 : mnem_logprobs_get(logits, t->c.vocab, id, NULL, 0);
    const choice made_here = {id, logprob, hash_of(logits, t->c.vocab)};
    r->choices[t->phase][n] = made_here;
    if (t->want && memcmp(&t->want->choices[t->phase][n], &made_here, sizeof made_here) != 0)
        fail_msg("run %llu: token %d of text %d is %d, expected %d", (unsigned long long)t->s->seed,
                 n, t->phase, id, t->want->choices[t->phase][n].id);
    t->ended = id < 0 || n + 1 == t->s->tokens[t->phase] || (t->s->ends && id % t->s->ends == 0);
    if (!t->ended && t->match) {
        must(mnem_match_accept(t->match, id));
        t->ended = mnem_match_is_done(t->match);
    }
    if (t->ended) return -1;
    accept(t, id, true);
    r->ids[t->phase][r->count[t->phase]++] = id;
    return id;
}

static bool choose_behind_prompt(void *context, int32_t part, int32_t index, const float *logits) {
    (void)part, (void)index;
    choose(context, logits);
    return true;
}

/* ---- drafts ---- */

static int32_t pick(text *t, int32_t low, int32_t high) {
    return next_between(&t->random, low, high);
}

/* What the text without drafts goes on with, and rubbish behind its end. */
static void draft_right(text *t, int32_t *ids, int32_t n) {
    const int32_t at = t->out->count[t->phase];
    for (int32_t i = 0; i < n; i++)
        ids[i] = at + i < t->want->count[t->phase] ? t->want->ids[t->phase][at + i]
                                                   : pick(t, 0, t->c.vocab - 1);
}

static int32_t draft_of(text *t, kind k, int32_t most, int32_t *ids) {
    const int32_t n = pick(t, 0, most);
    switch (k) {
    case LOOKED_UP: return mnem_draft_propose(t->draft, most, ids);
    case RIGHT: draft_right(t, ids, most); return most;
    case NEARLY:
        draft_right(t, ids, n);
        if (n > 0) ids[pick(t, 0, n - 1)] = pick(t, 0, t->c.vocab - 1);
        return n;
    case RUBBISH:
        for (int32_t i = 0; i < n; i++) ids[i] = pick(t, 0, t->c.vocab - 1);
        return n;
    default: return draft_of(t, (kind)pick(t, 0, MIXED - 1), most, ids);
    }
}

/* A draft may be longer than the context has room for: nothing is chosen then. */
static void run_pass(text *t) {
    int32_t ids[1 + MNEM_DRAFT_MOST], accepted;
    record *r = t->out;
    const int32_t last = r->ids[t->phase][r->count[t->phase] - 1];
    const int32_t length = mnem_sequence_length(t->sequence), chosen = r->chosen[t->phase];
    ids[0] = last;
    int32_t n = draft_of(t, t->kind, t->c.plan.draft, ids + 1);
    if (length + 1 + n > CONTEXT) {
        assert_int_equal(mnem_sequence_verify(t->sequence, ids, 1 + n, choose, t, &accepted),
                         MNEM_OVER_BUDGET);
        assert_int_equal(mnem_sequence_length(t->sequence), length);
        assert_int_equal(r->chosen[t->phase], chosen);
        r->dropped++;
        n = 0;
    }
    must(mnem_sequence_verify(t->sequence, ids, 1 + n, choose, t, &accepted));
    mnem_draft_tell(t->draft, n, accepted, 1);
    assert_in_range(accepted, 0, n);
    assert_int_equal(mnem_sequence_length(t->sequence), length + 1 + accepted);
    assert_int_equal(r->chosen[t->phase], chosen + 1 + accepted);
    r->passes++;
    r->drafted += (uint64_t)n;
    r->accepted += (uint64_t)accepted;
}

static void run_token(text *t) {
    const record *r = t->out;
    const mnem_step_part part = {t->sequence, &r->ids[t->phase][r->count[t->phase] - 1], 1, 0};
    must(mnem_engine_step(t->c.engine, &part, 1, choose_behind_prompt, t));
}

/* The prompt behind what is kept of the first text. Windows may have gone by, sooner or later. */
static void begin_phase(text *t) {
    const spec *s = t->s;
    record *r = t->out;
    int32_t *ids = r->ids[t->phase], keep = 0;
    if (t->phase == 1) {
        keep = r->count[0] * s->cut / 100;
        if (keep > CONTEXT - s->prompt_n[1] - 1) keep = CONTEXT - s->prompt_n[1] - 1;
        memcpy(ids, r->ids[0], (size_t)keep * sizeof *ids);
    }
    memcpy(ids + keep, s->prompt[t->phase], (size_t)s->prompt_n[t->phase] * sizeof *ids);
    r->count[t->phase] = keep + s->prompt_n[t->phase];
    if (keep > mnem_sequence_length(t->sequence)) keep = mnem_sequence_length(t->sequence);
    if (mnem_sequence_truncate(t->sequence, keep) != MNEM_OK) {
        keep = 0;
        must(mnem_sequence_truncate(t->sequence, 0));
    }
    for (int32_t i = 0; i < s->prompt_n[t->phase]; i++) accept(t, s->prompt[t->phase][i], false);
    if (t->match) mnem_match_reset(t->match);
    mnem_sampler_reset_chosen(t->sampler);
    const mnem_step_part part = {t->sequence, ids + keep, r->count[t->phase] - keep,
                                 r->count[t->phase] - keep - 1};
    must(mnem_engine_step(t->c.engine, &part, 1, choose_behind_prompt, t));
}

static void run_phase(text *t) {
    t->ended = false;
    begin_phase(t);
    while (!t->ended && mnem_sequence_length(t->sequence) < CONTEXT)
        if (t->draft)
            run_pass(t);
        else
            run_token(t);
    t->out->length[t->phase] = mnem_sequence_length(t->sequence);
}

static void open_grammar(text *t) {
    static const char letters[] = "root ::= ([a-z ,;] [a-z ]*)+ \".\"";
    must(mnem_token_set_create(t->tokenizer, -1, &t->set));
    must(mnem_grammar_create(t->set, letters, strlen(letters), NULL, &t->grammar));
    must(mnem_match_create(t->grammar, &t->match));
}

/* A drafter is in the plan, and has room in the least budget. */
static void run_text(text *t, uint64_t budget, const mnem_engine_options *options, bool drafts) {
    mnem_ledger_info before, after;
    engine_case_open(&t->c, paths[t->s->model], budget, options);
    if (drafts) must(mnem_draft_create(t->c.plan.context, &t->draft));
    mnem_ledger_info_get(t->c.ledger, &before);
    if (drafts && t->c.plan.draft > 0) assert_int_equal(before.bytes_live, t->c.plan.peak_bytes);
    if (budget && before.bytes_live > budget) fail_msg("run %llu", (unsigned long long)t->s->seed);
    if (budget) must(mnem_ledger_budget_set(t->c.ledger, 0)); /* for what is the test's alone */
    if (t->s->grammar) {
        must(mnem_tokenizer_create(t->c.model, &t->tokenizer));
        open_grammar(t);
    }
    must(mnem_sampler_create(&t->s->sampler, t->c.vocab, &t->sampler));
    must(mnem_sequence_create(t->c.engine, &t->sequence));
    mnem_ledger_info_get(t->c.ledger, &before);
    for (t->phase = 0; t->phase < PHASES; t->phase++) run_phase(t);
    mnem_ledger_info_get(t->c.ledger, &after);
    assert_int_equal(after.bytes_live, before.bytes_live); /* a pass takes nothing */
    mnem_match_destroy(t->match);
    mnem_grammar_destroy(t->grammar);
    mnem_token_set_destroy(t->set);
    mnem_tokenizer_destroy(t->tokenizer);
    mnem_sampler_destroy(t->sampler);
    mnem_draft_destroy(t->draft);
    engine_case_close(&t->c);
}

/* ---- runs ---- */

static int32_t draw(uint64_t *random, int32_t low, int32_t high) {
    return next_between(random, low, high);
}

static float draw_of(uint64_t *random, const float *values, int32_t n) {
    return values[draw(random, 0, n - 1)];
}

static mnem_sampler_options draw_sampler(uint64_t *random) {
    static const float temperatures[] = {0, 0, 0.3f, 0.8f, 1.5f}, cuts[] = {1, 0.95f, 0.5f},
                       penalties[] = {1, 1, 1.1f, 1.5f}, chosen[] = {0, 0, 0.5f, -0.5f};
    mnem_sampler_options o = mnem_sampler_usual();
    o.temperature = draw_of(random, temperatures, 5);
    o.top_k = draw(random, 0, 2) * 20;
    o.top_p = draw_of(random, cuts, 3);
    o.repeat_penalty = draw_of(random, penalties, 4);
    o.repeat_last = draw(random, 1, 80);
    o.presence_penalty = draw_of(random, chosen, 4);
    o.frequency_penalty = draw_of(random, chosen, 4);
    o.dry_multiplier = draw(random, 0, 3) == 0 ? 0.8f : 0;
    o.xtc_probability = draw(random, 0, 3) == 0 ? 0.5f : 0;
    o.seed = next_random(random);
    return o;
}

/* Half of the prompts repeat themselves, so that there is something to look up. */
static void draw_prompt(uint64_t *random, int32_t *ids, int32_t n) {
    const int32_t period = draw(random, 0, 1) ? draw(random, 1, 12) : n;
    for (int32_t i = 0; i < n; i++)
        ids[i] = i < period ? draw(random, 1, VOCAB_LEAST - 1) : ids[i - period];
}

static spec draw_spec(uint64_t seed, uint64_t *random) {
    spec s = {.seed = seed, .model = draw(random, 0, MODELS - 1)};
    const mnem_kv_choice wide[] = {MNEM_KV_F16, MNEM_KV_Q8_0, MNEM_KV_F32};
    const bool whole = s.model < WITH_TEXT || s.model >= FILES; /* heads of blocks of Q8_0 */
    s.kv = whole ? wide[draw(random, 0, 2)] : draw(random, 0, 1) ? MNEM_KV_F16 : MNEM_KV_F32;
    s.sampler = draw_sampler(random);
    for (int p = 0; p < PHASES; p++) {
        s.prompt_n[p] = draw(random, 1, PROMPT_MOST);
        s.tokens[p] = draw(random, 1, TOKENS_MOST);
        draw_prompt(random, s.prompt[p], s.prompt_n[p]);
    }
    s.cut = draw(random, 0, 100);
    s.ends = draw(random, 0, 2) ? 0 : draw(random, 20, 60);
    s.grammar = s.model < WITH_TEXT && draw(random, 0, 1);
    return s;
}

static record total;

static void run_one(uint64_t seed) {
    static record alone, drafted;
    uint64_t random = seed * 0x9e3779b97f4a7c15 + 1;
    const spec s = draw_spec(seed, &random);
    const mnem_engine_options plain = {.context = CONTEXT, .kv = s.kv, .threads = 1};
    alone = drafted = (record){0};
    text reference = {.s = &s, .out = &alone};
    run_text(&reference, 0, &plain, false);

    mnem_engine_options o = plain;
    mnem_device *device = seed % 3 == 1 ? device_open("apart", 0) : NULL;
    o.device = device;
    o.threads = draw(&random, 1, 3);
    o.draft = draw(&random, 1, MNEM_DRAFT_MOST);
    o.chunk = draw(&random, 0, 1) ? draw(&random, o.draft + 1, 60) : 0;
    text with = {.s = &s,
                 .out = &drafted,
                 .want = &alone,
                 .kind = (kind)draw(&random, 0, KINDS - 1),
                 .random = next_random(&random)};
    uint64_t budget = 0;
    if (draw(&random, 0, 2) > 0)
        budget = engine_case_least(paths[s.model], &o) + (uint64_t)draw(&random, 0, 400) * 1024;
    run_text(&with, budget, &o, true);
    assert_int_equal(mnem_device_close(device), MNEM_OK);

    for (int p = 0; p < PHASES; p++) {
        if (alone.chosen[p] != drafted.chosen[p] || alone.length[p] != drafted.length[p] ||
            alone.count[p] != drafted.count[p] ||
            memcmp(alone.ids[p], drafted.ids[p], (size_t)alone.count[p] * sizeof(int32_t)) != 0)
            fail_msg("run %llu: text %d has %d tokens, expected %d", (unsigned long long)seed, p,
                     drafted.chosen[p], alone.chosen[p]);
        total.chosen[p] += drafted.chosen[p];
    }
    total.passes += drafted.passes;
    total.drafted += drafted.drafted;
    total.accepted += drafted.accepted;
    total.dropped += drafted.dropped;
}

static int runs = 50;

static void every_text_has_the_tokens_that_it_has_without_drafts(void **state) {
    (void)state;
    for (int i = 0; i < runs; i++) run_one((uint64_t)i);
    print_message("%d runs: %d tokens, %llu passes, %llu of %llu drafted tokens right, %llu drafts "
                  "without room\n",
                  runs, total.chosen[0] + total.chosen[1], (unsigned long long)total.passes,
                  (unsigned long long)total.accepted, (unsigned long long)total.drafted,
                  (unsigned long long)total.dropped);
    if (runs < 50) return;
    assert_true(total.accepted > total.drafted / 10);     /* drafts that go on */
    assert_true(total.accepted < total.drafted * 9 / 10); /* and those that are taken back */
}

/* ---- what is refused ---- */

static int32_t first_of_all(void *context, const float *logits) {
    (void)context, (void)logits;
    return 0;
}

static void a_draft_beyond_the_plan_is_refused(void **state) {
    static const int32_t ids[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    engine_case c;
    mnem_sequence *s;
    int32_t accepted;
    (void)state;
    engine_case_open(&c, paths[2], 0,
                     &(mnem_engine_options){.context = 64, .threads = 1, .draft = 4});
    assert_int_equal(c.plan.draft, 4);
    assert_int_equal(mnem_engine_draft_most(c.engine), 4);
    must(mnem_sequence_create(c.engine, &s));
    assert_int_equal(mnem_sequence_verify(s, ids, 6, first_of_all, NULL, &accepted), MNEM_INVALID);
    assert_int_equal(mnem_sequence_verify(s, ids, 0, first_of_all, NULL, &accepted), MNEM_INVALID);
    assert_int_equal(mnem_sequence_length(s), 0);
    const int32_t wrong[] = {1, 1 << 20};
    assert_int_equal(mnem_sequence_verify(s, wrong, 2, first_of_all, NULL, &accepted),
                     MNEM_INVALID);
    must(mnem_sequence_verify(s, ids, 5, first_of_all, NULL, &accepted));
    assert_int_equal(accepted, 0);
    assert_int_equal(mnem_sequence_length(s), 1);
    engine_case_close(&c);
}

static void a_stopped_pass_leaves_the_text_as_it_was(void **state) {
    static const int32_t ids[3] = {1, 2, 3};
    engine_case c;
    mnem_sequence *s;
    int32_t accepted;
    (void)state;
    engine_case_open(&c, paths[0], 0,
                     &(mnem_engine_options){.context = 64, .threads = 1, .draft = 2});
    must(mnem_sequence_create(c.engine, &s));
    must(mnem_sequence_verify(s, ids, 1, first_of_all, NULL, &accepted));
    mnem_engine_cancel(c.engine);
    assert_int_equal(mnem_sequence_verify(s, ids, 3, first_of_all, NULL, &accepted),
                     MNEM_CANCELLED);
    assert_int_equal(mnem_sequence_length(s), 1);
    must(mnem_sequence_verify(s, ids, 3, first_of_all, NULL, &accepted));
    assert_int_equal(mnem_sequence_length(s), 2);
    engine_case_close(&c);
}

static int set_up(void **state) {
    (void)state;
    for (int i = 0; i < FILES; i++)
        snprintf(paths[i], sizeof paths[i], "%s/%s", MNEM_TEST_DATA, files[i]);
    for (int i = 0; i < MADE; i++) {
        char name[32];
        snprintf(name, sizeof name, "made-%d.gguf", i);
        snprintf(paths[FILES + i], sizeof paths[i], "%s", kit_path(name));
        make_model(paths[FILES + i], made[i]);
    }
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_text_has_the_tokens_that_it_has_without_drafts),
        cmocka_unit_test(a_draft_beyond_the_plan_is_refused),
        cmocka_unit_test(a_stopped_pass_leaves_the_text_as_it_was),
    };
    if (argc > 1) runs = atoi(argv[1]);
    if (MNEM_SANITIZED && runs > 10) runs = 10;
    return cmocka_run_group_tests(tests, set_up, NULL);
}
