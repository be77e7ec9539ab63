/* test_advice.c: every check finds its seeded fault, and is silent on a clean twin that differs by
 * one fact, and wherever a fact that it needs isn't known. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "mnem/advice.h"

typedef struct fact {
    mnem_fact fact;
    double value;
} fact;

/* clean: the fact that is otherwise in the twin. */
typedef struct seeded {
    const char *check;
    fact clean;
    fact fault[12];
} seeded;

#define F(name) MNEM_FACT_##name
#define M       1048576.0
static const seeded rows[] = {
    {"budget-too-small", {F(BUDGET), 20 * M}, {{F(NEEDED), 10 * M}, {F(BUDGET), 5 * M}}},
    {"budget-option",
     {F(TRY_KNOB), MNEM_KNOB_NONE},
     {{F(NEEDED), 10 * M},
      {F(BUDGET), 5 * M},
      {F(TRY_KNOB), MNEM_KNOB_CONTEXT},
      {F(TRY_KNOB_VALUE), 64}}},
    {"budget-tight",
     {F(BUDGET), 30 * M},
     {{F(PEAK), 19 * M},
      {F(BUDGET), 20 * M},
      {F(BUDGET_GIVEN), 1},
      {F(STREAMED), 0},
      {F(AVAILABLE), 900 * M},
      {F(CONTEXT), 64},
      {F(CHUNK), 64},
      {F(TRAINING), 0}}},
    {"budget-beyond-machine",
     {F(AVAILABLE), 900 * M},
     {{F(PEAK), 90 * M}, {F(BUDGET), 100 * M}, {F(BUDGET_GIVEN), 1}, {F(AVAILABLE), 50 * M}}},
    {"weights-streamed",
     {F(STREAMED), 0},
     {{F(STREAMED), 1},
      {F(STREAMED_PASS), 4 * M},
      {F(BUDGET), 10 * M},
      {F(AVAILABLE), 900 * M},
      {F(TRY_LARGER), 14 * M},
      {F(TRY_LARGER_SECONDS), 0.1},
      {F(PLAN_SECONDS), 1}}},
    {"experts-missing",
     {F(EXPERT_HIT), 0.95},
     {{F(EXPERT_HIT), 0.6},
      {F(AVAILABLE), 900 * M},
      {F(TRY_LARGER), 90 * M},
      {F(TRY_LARGER_HIT), 0.97}}},
    {"page-cache",
     {F(PAGE_CACHE), 1},
     {{F(STREAMED), 1},
      {F(PAGE_CACHE), 0},
      {F(AVAILABLE), 900 * M},
      {F(BUDGET), 10 * M},
      {F(WEIGHTS), 100 * M},
      {F(STREAMED_PASS), 90 * M},
      {F(DISK_RATE), 1e9},
      {F(READ_RATE), 2e10}}},
    {"kv-type",
     {F(KV_SMALL), 1},
     {{F(KV), 40 * M},
      {F(KV_SMALL), 0},
      {F(PEAK), 100 * M},
      {F(TRY_KV_PEAK), 80 * M},
      {F(CONTEXT), 4096}}},
    {"context-unused",
     {F(CONTEXT_USED), 3000},
     {{F(CONTEXT), 4096},
      {F(CONTEXT_USED), 100},
      {F(TRY_CONTEXT), 128},
      {F(TRY_CONTEXT_PEAK), 60 * M},
      {F(PEAK), 100 * M}}},
    {"context-beyond-model",
     {F(CONTEXT), 256},
     {{F(CONTEXT), 4096},
      {F(CONTEXT_TRAINED), 256},
      {F(PEAK), 100 * M},
      {F(TRY_TRAINED_PEAK), 60 * M}}},
    {"context-short",
     {F(CONTEXT), 4096},
     {{F(CONTEXT), 512},
      {F(CONTEXT_WANTED), 4096},
      {F(TRY_WANTED), 90 * M},
      {F(AVAILABLE), 900 * M}}},
    {"chunk-small",
     {F(CHUNK), 512},
     {{F(CHUNK), 8},
      {F(CONTEXT), 4096},
      {F(TRY_CHUNK), 128},
      {F(TRY_CHUNK_PEAK), 90 * M},
      {F(TRY_CHUNK_SECONDS), 0.5},
      {F(PLAN_SECONDS), 1},
      {F(AVAILABLE), 900 * M}}},
    {"weights-wide",
     {F(WEIGHT_BITS), 4.5},
     {{F(WEIGHTS), 100 * M}, {F(WEIGHT_BITS), 16}, {F(TRAINING), 0}}},
    {"threads-too-many",
     {F(THREADS), 2},
     {{F(THREADS), 8}, {F(PROCESSORS), 2}, {F(SECONDS), 10}, {F(CPU_SECONDS), 12}}},
    {"threads-too-few",
     {F(THREADS), 8},
     {{F(THREADS), 1},
      {F(PROCESSORS), 8},
      {F(SECONDS), 10},
      {F(WAITING), 0},
      {F(READ_BYTES), 1e9},
      {F(READ_RATE), 2e10},
      {F(TOKENS), 90},
      {F(TOKENS_SECONDS), 9}}},
    {"others-run",
     {F(CPU_SECONDS), 19.8},
     {{F(THREADS), 2},
      {F(PROCESSORS), 2},
      {F(SECONDS), 10},
      {F(CPU_SECONDS), 10},
      {F(WAITING), 0}}},
    {"bandwidth-reached",
     {F(READ_BYTES), 1e10},
     {{F(READ_BYTES), 9e10},
      {F(TOKENS_SECONDS), 5},
      {F(READ_RATE), 2e10},
      {F(MACS), 4.5e10},
      {F(STREAMED), 0}}},
    {"roofs-far",
     {F(READ_BYTES), 8e10},
     {{F(READ_BYTES), 1e10},
      {F(READ_RATE), 2e10},
      {F(MACS), 1e10},
      {F(MAC_RATE), 1e11},
      {F(TOKENS_SECONDS), 5},
      {F(SECONDS), 6},
      {F(WAITING), 0},
      {F(THREADS), 2},
      {F(PROCESSORS), 2}}},
    {"disk-awaited", {F(WAITING), 0.1}, {{F(WAITING), 6}, {F(SECONDS), 10}, {F(DISK_BYTES), 1e9}}},
    {"disk-slow",
     {F(DISK_BYTES), 9e9},
     {{F(STREAMED), 1},
      {F(PAGE_CACHE), 0},
      {F(WAITING), 6},
      {F(SECONDS), 10},
      {F(DISK_BYTES), 2e9},
      {F(DISK_RATE), 1e9},
      {F(BUDGET), 100 * M}}},
    {"reader-idle",
     {F(THREADS), 8},
     {{F(STREAMED), 1},
      {F(DISK_BYTES), 2e9},
      {F(DISK_RATE), 1e9},
      {F(WAITING), 0},
      {F(SECONDS), 10},
      {F(CPU_SECONDS), 10},
      {F(THREADS), 1},
      {F(PROCESSORS), 8}}},
    {"pages-lost", {F(FAULTS), 3}, {{F(FAULTS), 50000}, {F(PAGE_CACHE), 0}, {F(SECONDS), 10}}},
    {"pages-small", {F(HUGE_PAGES), 1}, {{F(HUGE_PAGES), 0}, {F(WEIGHTS), 500 * M}}},
    {"prediction-off", {F(PREDICTED), 99 * M}, {{F(PREDICTED), 90 * M}, {F(COUNTED), 100 * M}}},
    {"bytes-unaccounted", {F(LEDGER), 99 * M}, {{F(COUNTED), 100 * M}, {F(LEDGER), 80 * M}}},
    {"time-off", {F(TOKENS_PREDICTED), 9}, {{F(TOKENS_SECONDS), 10}, {F(TOKENS_PREDICTED), 2}}},
    {"profile-missing", {F(PROFILE), 1}, {{F(PROFILE), 0}}},
    {"requests-refused", {F(REFUSALS), 0}, {{F(REFUSALS), 3}, {F(BUDGET), 100 * M}}},
    {"work-repeated",
     {F(SWAP), 1},
     {{F(PREEMPTIONS), 9}, {F(SWAP), 0}, {F(RECOMPUTED_TOKENS), 900}, {F(TOKENS), 5000}}},
    {"clients-refused", {F(REFUSED_FULL), 0}, {{F(REFUSED_FULL), 12}}},
    {"training-pressure",
     {F(BUDGET), 200 * M},
     {{F(TRAINING), 1},
      {F(PEAK), 90 * M},
      {F(BUDGET), 100 * M},
      {F(MICRO_BATCH), 8},
      {F(TRY_MICRO_PEAK), 60 * M}}},
    {"training-efficiency",
     {F(EFFICIENCY), 0.9},
     {{F(TRAINING), 1},
      {F(EFFICIENCY), 0.3},
      {F(STEP_SECONDS), 0.2},
      {F(BATCH), 2},
      {F(TRY_BATCH), 3},
      {F(TRY_BATCH_PEAK), 50 * M},
      {F(BUDGET), 100 * M}}},
    {"optimizer-moments",
     {F(MOMENTS_SMALL), 1},
     {{F(TRAINING), 1},
      {F(MOMENTS_SMALL), 0},
      {F(OPTIMIZER), 50 * M},
      {F(PEAK), 100 * M},
      {F(TRY_MOMENTS_PEAK), 63 * M}}},
    {"precision",
     {F(COMPUTE_F32), 0},
     {{F(TRAINING), 1},
      {F(COMPUTE_F32), 1},
      {F(BF16_GAIN), 1.8},
      {F(PEAK), 100 * M},
      {F(TRY_BF16_PEAK), 80 * M}}},
    {"adapters-suffice",
     {F(LORA), 8},
     {{F(TRAINING), 1},
      {F(FROM_MODEL), 1},
      {F(LORA), 0},
      {F(OPTIMIZER), 50 * M},
      {F(GRADIENTS), 25 * M},
      {F(PEAK), 100 * M},
      {F(TRY_LORA_PEAK), 40 * M}}},
    {"computed-again",
     {F(LAYERS_AGAIN), 0},
     {{F(TRAINING), 1},
      {F(LAYERS_AGAIN), 4},
      {F(BUDGET), 100 * M},
      {F(AVAILABLE), 900 * M},
      {F(TRY_LARGER), 150 * M},
      {F(TRY_LARGER_COST), 0.8}}},
    {"fragmentation",
     {F(CAPACITY), 101 * M},
     {{F(CAPACITY), 150 * M},
      {F(LIVE_PEAK), 100 * M},
      {F(POLICY_SET), 0},
      {F(TRY_POLICY_CAPACITY), 101 * M}}},
    {"rounding",
     {F(GRANTED_PEAK), 101 * M},
     {{F(GRANTED_PEAK), 150 * M},
      {F(LIVE_PEAK), 100 * M},
      {F(ALIGNMENT), 4096},
      {F(CAPACITY), 151 * M},
      {F(TRY_ALIGNMENT), 64},
      {F(TRY_ALIGNMENT_CAPACITY), 105 * M}}},
    {"holes-too-small",
     {F(CAPACITY), 101 * M},
     {{F(CAPACITY), 150 * M}, {F(LIVE_PEAK), 100 * M}, {F(TRY_GRANULES), 104 * M}}},
    {"hit-rate",
     {F(HIT_RATE), 0.99},
     {{F(HIT_RATE), 0.5},
      {F(SEGMENT), 2 * M},
      {F(UPSTREAM_CALLS), 900},
      {F(TRY_SEGMENT), 32 * M},
      {F(TRY_SEGMENT_CALLS), 30}}},
    {"zero-copy", {F(ZERO_COPY), 0.95}, {{F(ZERO_COPY), 0.3}, {F(HANDED_OVER), 100 * M}}},
    {"live-blocks-grow", {F(GROWING_BLOCKS), 0}, {{F(GROWING_BLOCKS), 90}, {F(GROWING_BYTES), M}}},
    {"live-at-the-end", {F(END_BLOCKS), 3}, {{F(END_BLOCKS), 5000}, {F(END_BYTES), M}}},
    {"freed-at-once", {F(BRIEF_PART), 0.1}, {{F(BRIEF_PART), 0.6}, {F(BRIEF_BLOCKS), 9000}}},
    {"idle-at-the-peak",
     {F(IDLE_BYTES), 3 * M},
     {{F(IDLE_BYTES), 50 * M}, {F(LIVE_PEAK), 100 * M}, {F(TRY_IDLE_PEAK), 50 * M}}},
    {"unaligned", {F(ALIGNMENT), 64}, {{F(UNALIGNED_BLOCKS), 90}, {F(ALIGNMENT), 16}}},
    {"workspace-large",
     {F(WORKSPACE_USED), 90 * M},
     {{F(WORKSPACE), 100 * M}, {F(WORKSPACE_USED), 10 * M}}},
    {"workspace-overrun",
     {F(WORKSPACE_USED), 9 * M},
     {{F(WORKSPACE), 10 * M}, {F(WORKSPACE_USED), 11 * M}}},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static const seeded *row_of(const char *check) {
    for (int i = 0; i < ROWS; i++)
        if (strcmp(rows[i].check, check) == 0) return &rows[i];
    fail_msg("the check %s has no seeded fault here", check);
    return NULL;
}

static void set_fault(const seeded *row, mnem_facts *facts) {
    *facts = (mnem_facts){.model = "a.gguf", .policy = "mnem", .policy_now = "first-fit"};
    mnem_facts_set(facts, MNEM_FACT_TRAINING, 0);
    for (int i = 0; i < 12 && (i == 0 || row->fault[i].fact || row->fault[i].value); i++)
        mnem_facts_set(facts, row->fault[i].fact, row->fault[i].value);
}

static bool finds(const mnem_facts *facts, const char *check, mnem_advice *found) {
    mnem_advice all[MNEM_ADVICE_MOST];
    const int n = mnem_advice_make(facts, all, MNEM_ADVICE_MOST);
    for (int i = 0; i < n; i++) {
        if (strcmp(all[i].check, check) != 0) continue;
        *found = all[i];
        return true;
    }
    return false;
}

/* " (40 %)" */
static size_t second_threshold(const char *s) {
    int n = 0, threshold;
    const bool may = s[0] == ' ' && s[1] == '(';
    return may && sscanf(s, " (%d %%)%n", &threshold, &n) == 1 ? (size_t)n : 0;
}

/* The page has the thresholds of severe findings in parentheses, and names of options in
 * backquotes, which the output of the command doesn't need. */
static void the_page_has_the_conditions_of_the_code(void **state) {
    (void)state;
    size_t n, kept = 0;
    char *page = read_file(MNEM_TEST_DATA "/../../docs/advice.md", &n), row[400];
    mnem_check check;
    for (size_t i = 0; i < n; i++) {
        const size_t more = second_threshold(page + i);
        if (more || page[i] == '`')
            i += more ? more - 1 : 0;
        else
            page[kept++] = page[i];
    }
    page[kept] = 0;
    for (int i = 0; mnem_check_get(i, &check); i++) {
        snprintf(row, sizeof row, "\n| %s | %s |", check.name, check.condition);
        if (!strstr(page, row)) fail_msg("docs/advice.md has no row %s", row + 1);
    }
    free(page);
}

static void every_check_finds_its_seeded_fault(void **state) {
    (void)state;
    mnem_check check;
    mnem_facts facts;
    mnem_advice a;
    int n = 0;
    for (; mnem_check_get(n, &check); n++) {
        set_fault(row_of(check.name), &facts);
        if (!finds(&facts, check.name, &a)) fail_msg("%s doesn't see its fault", check.name);
        assert_string_equal(a.condition, check.condition);
        assert_true(strlen(a.evidence) > 10 && strlen(a.command) > 5);
        assert_true(strlen(a.evidence) < sizeof a.evidence - 1);
        assert_null(strstr(a.evidence, "nan"));
        assert_null(strstr(a.command, "nan"));
    }
    assert_int_equal(n, ROWS);
    assert_true(n >= 30);
}

static void every_check_is_silent_on_its_clean_twin(void **state) {
    (void)state;
    mnem_facts facts;
    mnem_advice a;
    for (int i = 0; i < ROWS; i++) {
        set_fault(&rows[i], &facts);
        assert_true(facts.known[rows[i].clean.fact]);
        mnem_facts_set(&facts, rows[i].clean.fact, rows[i].clean.value);
        if (finds(&facts, rows[i].check, &a))
            fail_msg("%s speaks on its clean twin: %s", rows[i].check, a.evidence);
    }
}

static void a_check_without_a_fact_is_silent(void **state) {
    (void)state;
    mnem_check check;
    mnem_facts facts;
    mnem_advice a;
    for (int i = 0; mnem_check_get(i, &check); i++)
        for (int k = 0; k < check.need_count; k++) {
            set_fault(row_of(check.name), &facts);
            facts.known[check.needs[k]] = false;
            if (finds(&facts, check.name, &a))
                fail_msg("%s speaks without %s", check.name, mnem_fact_text(check.needs[k]));
        }
}

static void a_gain_is_a_gain(void **state) {
    (void)state;
    mnem_facts facts;
    mnem_advice a;
    for (int i = 0; i < ROWS; i++) {
        set_fault(&rows[i], &facts);
        assert_true(finds(&facts, rows[i].check, &a));
        if (!a.gain.unit) continue;
        const bool more = strcmp(a.gain.unit, "room") == 0 || strcmp(a.gain.unit, "hits") == 0 ||
                          strcmp(a.gain.unit, "tokens") == 0;
        if (more ? a.gain.after <= a.gain.before : a.gain.after >= a.gain.before)
            fail_msg("%s: %g %s instead of %g", a.check, a.gain.after, a.gain.unit, a.gain.before);
        assert_non_null(a.gain.by);
    }
}

/* Of a real run (docs/advice.md): twice the threads aren't half the time. */
static void what_the_reader_computes_itself_isnt_promised(void **state) {
    (void)state;
    static const seeded row = {"reader-idle",
                               {F(THREADS), 2},
                               {{F(STREAMED), 1},
                                {F(DISK_BYTES), 3.79e9},
                                {F(DISK_RATE), 1.78e9},
                                {F(WAITING), 0.135},
                                {F(SECONDS), 4.97},
                                {F(CPU_SECONDS), 5.615},
                                {F(THREADS), 1},
                                {F(PROCESSORS), 2},
                                {F(THREADS_GAIN), 1.98}}};
    mnem_facts facts;
    mnem_advice a;
    set_fault(&row, &facts);
    assert_true(finds(&facts, "reader-idle", &a));
    /* 4.835 s of arithmetic / 1.98, 0.78 of the reader's, 0.135 x 1.98 of waiting */
    assert_float_equal(a.gain.after, 3.489, 0.01);
    mnem_facts_set(&facts, MNEM_FACT_CPU_SECONDS, 7); /* the reader computes 2.2 of 5 s */
    assert_false(finds(&facts, "reader-idle", &a));
    set_fault(&row, &facts);
    mnem_facts_set(&facts, MNEM_FACT_THREADS_GAIN, 0.9); /* a neighbour has the other processor */
    assert_false(finds(&facts, "reader-idle", &a));
}

static void nothing_known_is_nothing_said(void **state) {
    (void)state;
    mnem_advice all[MNEM_ADVICE_MOST];
    assert_int_equal(mnem_advice_make(&(mnem_facts){0}, all, MNEM_ADVICE_MOST), 0);
}

static void what_is_severe_comes_first_and_room_is_kept_to(void **state) {
    (void)state;
    mnem_advice all[MNEM_ADVICE_MOST], few[3];
    mnem_facts facts = {0}, one;
    for (int i = 0; i < ROWS; i++) {
        set_fault(&rows[i], &one);
        for (int k = 0; k < MNEM_FACT_COUNT; k++)
            if (one.known[k] && !facts.known[k]) mnem_facts_set(&facts, (mnem_fact)k, one.value[k]);
    }
    const int n = mnem_advice_make(&facts, all, MNEM_ADVICE_MOST);
    assert_true(n > 10);
    for (int i = 1; i < n; i++) {
        assert_true(all[i - 1].severe >= all[i].severe);
        if (all[i - 1].severe == all[i].severe) assert_true(all[i - 1].sure <= all[i].sure);
    }
    assert_int_equal(mnem_advice_make(&facts, few, 3), 3);
    for (int i = 0; i < 3; i++) assert_string_equal(few[i].check, all[i].check);
    assert_int_equal(mnem_advice_make(&facts, few, 0), 0);
}

static void numbers_that_arent_finite_arent_known(void **state) {
    (void)state;
    mnem_facts facts = {0};
    mnem_facts_set(&facts, MNEM_FACT_PEAK, 0.0 / 0.0);
    assert_false(facts.known[MNEM_FACT_PEAK]);
    for (int i = 0; i < MNEM_FACT_COUNT; i++) assert_true(strlen(mnem_fact_text((mnem_fact)i)) > 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_has_the_conditions_of_the_code),
        cmocka_unit_test(every_check_finds_its_seeded_fault),
        cmocka_unit_test(every_check_is_silent_on_its_clean_twin),
        cmocka_unit_test(a_check_without_a_fact_is_silent),
        cmocka_unit_test(a_gain_is_a_gain),
        cmocka_unit_test(what_the_reader_computes_itself_isnt_promised),
        cmocka_unit_test(nothing_known_is_nothing_said),
        cmocka_unit_test(what_is_severe_comes_first_and_room_is_kept_to),
        cmocka_unit_test(numbers_that_arent_finite_arent_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
