/* test_advice_replay.c: the same of recorded allocations: with real replays on both sides. */
#include <stdarg.h>

#include "kit/kit_random.h"
#include "sight/advice_case.h"

typedef struct recorded {
    char *text;
    size_t length, room;
} recorded;

__attribute__((format(printf, 2, 3))) static void put(recorded *r, const char *format, ...) {
    va_list args;
    if (r->room - r->length < 64) {
        r->room = 2 * r->room + 4096;
        r->text = realloc(r->text, r->room);
        assert_non_null(r->text);
    }
    va_start(args, format);
    r->length += (size_t)vsnprintf(r->text + r->length, r->room - r->length, format, args);
    va_end(args);
}

static mnem_facts facts_of(recorded *r, const char *policy, mnem_replay_settings settings) {
    mnem_facts facts = {.model = "a.trace"};
    mnem_workload *w;
    must(mnem_workload_read("a.trace", r->text, r->length, NULL, &w));
    must(mnem_facts_workload(w, policy, &settings, &facts));
    mnem_workload_close(w);
    return facts;
}

/* Blocks of many sizes, of which every other one is freed, and larger ones come. */
static recorded holes(void) {
    recorded r = {0};
    uint64_t state = 7;
    for (int i = 0; i < 400; i++)
        put(&r, "a %d %d\n", i, (int)(4096 * (1 + next_random(&state) % 60)));
    for (int i = 0; i < 400; i += 2) put(&r, "f %d\n", i);
    for (int i = 400; i < 600; i++)
        put(&r, "a %d %d\n", i, (int)(4096 * (20 + next_random(&state) % 60)));
    return r;
}

static void fragmentation_falls_after(void **state) {
    (void)state;
    recorded r = holes();
    mnem_advice a;
    char policy[16] = "";
    mnem_facts facts = facts_of(&r, "buddy", (mnem_replay_settings){0});
    advice_need(&facts, "fragmentation", &a);
    assert_int_equal(sscanf(strstr(a.command, "--policy "), "--policy %15s", policy), 1);
    facts = facts_of(&r, policy, (mnem_replay_settings){0});
    advice_silent(&facts, "fragmentation");
    advice_keeps(&a, facts.value[MNEM_FACT_CAPACITY]);
    free(r.text);
}

/* Every other of many sizes is freed, and all that comes is larger than any of the holes. */
static void holes_are_filled_by_granules(void **state) {
    (void)state;
    recorded r = {0};
    mnem_advice a;
    uint64_t roll = 3;
    for (int i = 0; i < 60; i++)
        put(&r, "a %d %d\n", i, (int)((2 << 20) * (1 + next_random(&roll) % 16)));
    for (int i = 0; i < 60; i += 2) put(&r, "f %d\n", i);
    for (int i = 60; i < 100; i++)
        put(&r, "a %d %d\n", i, (int)((2 << 20) * (17 + next_random(&roll) % 16)));
    mnem_facts facts = facts_of(&r, NULL, (mnem_replay_settings){0});
    advice_need(&facts, "holes-too-small", &a);
    assert_non_null(strstr(a.command, "--policy granules"));
    facts = facts_of(&r, "granules", (mnem_replay_settings){0});
    advice_silent(&facts, "holes-too-small");
    advice_keeps(&a, facts.value[MNEM_FACT_CAPACITY]);
    free(r.text);
}

static void rounding_falls_after(void **state) {
    (void)state;
    recorded r = {0};
    mnem_advice a;
    for (int i = 0; i < 3000; i++) put(&r, "a %d %d\n", i, 65 + i % 60);
    mnem_facts facts = facts_of(&r, NULL, (mnem_replay_settings){.alignment = 1024});
    advice_need(&facts, "rounding", &a);
    facts = facts_of(&r, NULL,
                     (mnem_replay_settings){.alignment = (uint64_t)advice_option(&a, "--align")});
    advice_silent(&facts, "rounding");
    advice_keeps(&a, facts.value[MNEM_FACT_CAPACITY]);
    free(r.text);
}

static void hit_rate_rises_after(void **state) {
    (void)state;
    recorded r = {0};
    mnem_advice a;
    for (int i = 0; i < 300; i++) put(&r, "a %d %d\n", i, 3 << 20);
    for (int i = 0; i < 300; i++) put(&r, "f %d\n", i);
    mnem_facts facts = facts_of(&r, NULL, (mnem_replay_settings){.segment_bytes = 4 << 20});
    advice_need(&facts, "hit-rate", &a);
    const double calls = facts.value[MNEM_FACT_UPSTREAM_CALLS];
    facts =
        facts_of(&r, NULL,
                 (mnem_replay_settings){.segment_bytes = (uint64_t)advice_option(&a, "--segment")});
    advice_silent(&facts, "hit-rate");
    advice_keeps(&a, facts.value[MNEM_FACT_UPSTREAM_CALLS]);
    assert_true(facts.value[MNEM_FACT_UPSTREAM_CALLS] < calls);
    free(r.text);
}

static void unaligned_blocks_are_aligned_after(void **state) {
    (void)state;
    recorded r = {0};
    mnem_advice a;
    for (int i = 0; i < 100; i++) put(&r, "a %d %d\n", i, 40);
    mnem_facts facts = facts_of(&r, NULL, (mnem_replay_settings){.alignment = 8});
    advice_need(&facts, "unaligned", &a);
    facts = facts_of(&r, NULL,
                     (mnem_replay_settings){.alignment = (uint64_t)advice_option(&a, "--align")});
    advice_silent(&facts, "unaligned");
    free(r.text);
}

static void leaks_are_seen_until_they_are_freed(void **state) {
    (void)state;
    recorded leaks = {0}, clean = {0};
    mnem_advice a;
    for (int i = 0; i < 3000; i++) {
        put(&leaks, "a %d 100\na %d 50\nf %d\n", 2 * i, 2 * i + 1, 2 * i + 1);
        put(&clean, "a %d 100\na %d 50\nf %d\nf %d\n", 2 * i, 2 * i + 1, 2 * i + 1, 2 * i);
    }
    mnem_facts facts = facts_of(&leaks, NULL, (mnem_replay_settings){0});
    advice_need(&facts, "live-blocks-grow", &a);
    const double promised = a.gain.before;
    advice_need(&facts, "live-at-the-end", &a);
    assert_true(promised > 50000 && a.gain.before == 300000);
    facts = facts_of(&clean, NULL, (mnem_replay_settings){0});
    advice_silent(&facts, "live-blocks-grow");
    advice_silent(&facts, "live-at-the-end");
    free(leaks.text);
    free(clean.text);
}

static void brief_blocks_are_gone_from_an_arena(void **state) {
    (void)state;
    recorded brief = {0}, arena = {0};
    mnem_advice a;
    for (int i = 0; i < 1000; i++) put(&brief, "a %d 100\nf %d\n", i, i);
    put(&arena, "a 0 100000\nf 0\n");
    mnem_facts facts = facts_of(&brief, NULL, (mnem_replay_settings){0});
    advice_need(&facts, "freed-at-once", &a);
    facts = facts_of(&arena, NULL, (mnem_replay_settings){0});
    advice_silent(&facts, "freed-at-once");
    advice_keeps(&a, facts.value[MNEM_FACT_BRIEF_BLOCKS]);
    free(brief.text);
    free(arena.text);
}

static void what_idles_at_the_peak_isnt_there_after(void **state) {
    (void)state;
    recorded idle = {0}, streamed = {0};
    mnem_advice a;
    put(&idle, "a 9000 4000000\n");
    for (int i = 0; i < 500; i++) {
        put(&idle, "a %d %d\n", i, 500000 * (1 + (i == 250)));
        put(&streamed, "a %d %d\n", i, 500000 * (1 + (i == 250)));
        if (i > 2) put(&idle, "f %d\n", i - 3);
        if (i > 2) put(&streamed, "f %d\n", i - 3);
    }
    mnem_facts facts = facts_of(&idle, NULL, (mnem_replay_settings){0});
    advice_need(&facts, "idle-at-the-peak", &a);
    facts = facts_of(&streamed, NULL, (mnem_replay_settings){0});
    advice_silent(&facts, "idle-at-the-peak");
    advice_keeps(&a, facts.value[MNEM_FACT_LIVE_PEAK]);
    free(idle.text);
    free(streamed.text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fragmentation_falls_after),
        cmocka_unit_test(holes_are_filled_by_granules),
        cmocka_unit_test(rounding_falls_after),
        cmocka_unit_test(hit_rate_rises_after),
        cmocka_unit_test(unaligned_blocks_are_aligned_after),
        cmocka_unit_test(leaks_are_seen_until_they_are_freed),
        cmocka_unit_test(brief_blocks_are_gone_from_an_arena),
        cmocka_unit_test(what_idles_at_the_peak_isnt_there_after),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
