/* test_engine_shares.c: several engines under one ledger, each with a share of it; with one team of
 * threads; and an engine in a forked child. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/session_case.h"
#include "kit/kit.h"
#include "mnem/mnem.h"

enum { CONTEXT = 64, TEAM = 3 };

typedef struct engine_of {
    mnem_model *model;
    mnem_engine_options options;
    mnem_engine_plan plan;
    mnem_session *session;
} engine_of;

static uint64_t live(const mnem_ledger *ledger) {
    mnem_ledger_info info;
    mnem_ledger_info_get(ledger, &info);
    return info.bytes_live;
}

static mnem_status plan_share(engine_of *e, mnem_ledger *ledger, uint64_t share) {
    e->options = (mnem_engine_options){
        .ledger = ledger, .context = CONTEXT, .threads = 2, .budget_bytes = share};
    return mnem_engine_plan_make(e->model, &e->options, &e->plan);
}

/* The least share that does. */
static uint64_t least_share(engine_of *e, mnem_ledger *ledger) {
    assert_int_equal(plan_share(e, ledger, 1), MNEM_OVER_BUDGET);
    assert_int_equal(e->plan.budget_bytes, live(ledger) + 1);
    return e->plan.needed_bytes - live(ledger);
}

static void engine_open(engine_of *e, mnem_ledger *ledger, uint64_t share) {
    must(mnem_model_open(MODEL_SHIPPED, &e->model));
    must(plan_share(e, ledger, share));
    must(mnem_session_create(e->model, &e->options, &e->plan, &e->session));
}

static void engine_close(engine_of *e) {
    mnem_session_destroy(e->session);
    mnem_model_close(e->model);
}

static mnem_ledger *ledger_of(uint64_t budget) {
    mnem_ledger *ledger;
    must(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = budget}, &ledger));
    return ledger;
}

static void a_plan_keeps_to_its_share(void **state) {
    (void)state;
    engine_of e;
    mnem_ledger *ledger = ledger_of(GIB);
    must(mnem_model_open(MODEL_SHIPPED, &e.model));
    must(mnem_ledger_charge(ledger, MNEM_KIND_HOST, "before", 3 * MIB));
    const uint64_t least = least_share(&e, ledger);
    must(plan_share(&e, ledger, least));
    assert_true(e.plan.peak_bytes <= live(ledger) + least);
    assert_int_equal(plan_share(&e, ledger, least - 1), MNEM_OVER_BUDGET);
    must(plan_share(&e, ledger, 0));
    assert_true(e.plan.peak_bytes > live(ledger) + least); /* all that the ledger has */
    mnem_ledger_release(ledger, MNEM_KIND_HOST, "before", 3 * MIB);
    mnem_model_close(e.model);
    must(mnem_ledger_destroy(ledger));
}

static void a_share_is_at_most_what_is_left(void **state) {
    (void)state;
    engine_of e;
    mnem_ledger *ledger = ledger_of(GIB);
    must(mnem_model_open(MODEL_SHIPPED, &e.model));
    const uint64_t least = least_share(&e, ledger);
    must(mnem_ledger_budget_set(ledger, least - 1));
    assert_int_equal(plan_share(&e, ledger, GIB), MNEM_OVER_BUDGET);
    assert_int_equal(e.plan.budget_bytes, least - 1);
    must(mnem_ledger_budget_set(ledger, least));
    must(plan_share(&e, ledger, UINT64_MAX));
    assert_true(e.plan.peak_bytes <= least);
    mnem_model_close(e.model);
    must(mnem_ledger_destroy(ledger));
}

typedef struct row {
    float *logits;
    size_t bytes;
} row;

static bool keep_row(void *context, int32_t index, const float *logits) {
    const row *r = context;
    (void)index;
    memcpy(r->logits, logits, r->bytes);
    return true;
}

static float *logits_of(engine_of *e) {
    mnem_transformer t;
    must(mnem_model_transformer(e->model, &t));
    row r = {.bytes = (size_t)t.vocab * sizeof(float)};
    must(mnem_session_truncate(e->session, 0));
    r.logits = malloc(r.bytes);
    assert_non_null(r.logits);
    must(mnem_session_eval(e->session, (int32_t[]){1, 2, 3}, 3, 2, keep_row, &r));
    return r.logits;
}

static void assert_same_logits(engine_of *a, engine_of *b) {
    mnem_transformer t;
    must(mnem_model_transformer(a->model, &t));
    float *one = logits_of(a), *two = logits_of(b);
    assert_memory_equal(one, two, (size_t)t.vocab * sizeof(float));
    free(one);
    free(two);
}

/* Two engines with a share each, opened, used and closed in an order of their own. */
static void two_engines(mnem_ledger *ledger, uint64_t share) {
    engine_of a, b;
    const uint64_t before = live(ledger);
    engine_open(&a, ledger, share);
    const uint64_t with_one = live(ledger);
    engine_open(&b, ledger, share);
    assert_same_logits(&a, &b);
    assert_true(live(ledger) <= before + 2 * share + MIB); /* and tables of models */
    engine_close(&a);
    assert_true(live(ledger) <= with_one + MIB / 10);
    engine_close(&b);
    assert_true(live(ledger) <= before + MIB / 10);
}

/* ---- one team for several engines ---- */

static int threads_now(void) {
    int n = 0;
    DIR *folder = opendir("/proc/self/task");
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder));) n += entry->d_name[0] != '.';
    closedir(folder);
    return n;
}

static void open_with_team(engine_of *e, mnem_ledger *ledger, mnem_team *team) {
    must(mnem_model_open(MODEL_SHIPPED, &e->model));
    e->options = (mnem_engine_options){.ledger = ledger, .context = CONTEXT, .team = team};
    if (!team) e->options.threads = TEAM;
    must(mnem_engine_plan_make(e->model, &e->options, &e->plan));
    must(mnem_session_create(e->model, &e->options, &e->plan, &e->session));
}

static uint64_t stacks_of(const mnem_engine_plan *plan) {
    for (unsigned i = 0; i < plan->lines; i++)
        if (strcmp(plan->line[i].tag, "team stacks") == 0) return plan->line[i].bytes;
    return 0;
}

/* The plan of an engine with a borrowed team is that of one with its own, without the stacks. */
static void a_shared_team_is_in_no_plan(void **state) {
    (void)state;
    engine_of own, shares;
    mnem_team *team;
    mnem_ledger *ledger = ledger_of(GIB);
    must(mnem_team_create(TEAM, &team));
    open_with_team(&own, ledger, NULL);
    const uint64_t whole = live(ledger);
    engine_close(&own);
    open_with_team(&shares, ledger, team);
    assert_int_equal(stacks_of(&own.plan), mnem_team_bytes(TEAM));
    assert_int_equal(stacks_of(&shares.plan), 0);
    assert_int_equal(shares.plan.threads, TEAM);
    assert_int_equal(shares.plan.peak_bytes + mnem_team_bytes(TEAM), own.plan.peak_bytes);
    assert_int_equal(live(ledger) + mnem_team_bytes(TEAM), whole);
    engine_close(&shares);
    mnem_team_destroy(team);
    must(mnem_ledger_destroy(ledger));
}

/* Steps of several engines by turns, while some are opened and closed: the logits are those of an
 * engine with a team of its own, and there are no more threads than those that read weights. */
static void engines_take_turns_on_a_team(void **state) {
    (void)state;
    enum { ENGINES = 3, TURNS = 4 };
    engine_of own, e[ENGINES];
    mnem_team *team;
    mnem_ledger *ledger = ledger_of(GIB);
    const int before = threads_now();
    open_with_team(&own, ledger, NULL);
    const int readers = threads_now() - before - (TEAM - 1);
    must(mnem_team_create(TEAM, &team));
    for (int i = 0; i < ENGINES; i++) {
        open_with_team(&e[i], ledger, team);
        for (int k = 0; k <= i; k++) assert_same_logits(&own, &e[k]);
    }
    assert_int_equal(threads_now(), before + 2 * (TEAM - 1) + (ENGINES + 1) * readers);
    for (int turn = 0; turn < TURNS * ENGINES; turn++) {
        engine_of *one = &e[turn % ENGINES];
        assert_same_logits(&own, one);
        engine_close(one);
        assert_same_logits(&own, &e[(turn + 1) % ENGINES]);
        open_with_team(one, ledger, team);
    }
    for (int i = 0; i < ENGINES; i++) engine_close(&e[i]);
    mnem_team_destroy(team);
    engine_close(&own);
    assert_int_equal(threads_now(), before);
    must(mnem_ledger_destroy(ledger));
}

static void a_team_of_another_size_is_refused(void **state) {
    (void)state;
    engine_of e;
    mnem_team *team, *larger;
    mnem_ledger *ledger = ledger_of(GIB);
    must(mnem_team_create(TEAM, &team));
    must(mnem_team_create(TEAM + 1, &larger));
    must(mnem_model_open(MODEL_SHIPPED, &e.model));
    e.options = (mnem_engine_options){.ledger = ledger, .threads = TEAM + 1, .team = team};
    assert_int_equal(mnem_engine_plan_make(e.model, &e.options, &e.plan), MNEM_INVALID);
    e.options.threads = 0;
    must(mnem_engine_plan_make(e.model, &e.options, &e.plan));
    e.options.team = larger;
    assert_int_equal(mnem_session_create(e.model, &e.options, &e.plan, &e.session), MNEM_INVALID);
    mnem_model_close(e.model);
    mnem_team_destroy(team);
    mnem_team_destroy(larger);
    must(mnem_ledger_destroy(ledger));
}

static uint64_t resident(void) {
    mnem_process_usage usage;
    must(mnem_process_usage_get(&usage));
    return usage.bytes_resident;
}

/* By the kernel's count, too, once the C heap has what it keeps. */
static void two_engines_give_back_what_they_took(void **state) {
    (void)state;
    mnem_ledger *ledger;
    const uint64_t share = 24 * MIB;
    must(mnem_ledger_create_process(
        &(mnem_ledger_options){.budget_bytes = resident() + GIB, .own_process = true}, &ledger));
    must(mnem_ledger_hold(ledger));
    two_engines(ledger, share);
    two_engines(ledger, share);
    const uint64_t before = resident();
    two_engines(ledger, share);
    const uint64_t after = resident();
    if (!MNEM_SANITIZED && after > before + MIB / 10)
        fail_msg("%llu bytes stayed resident", (unsigned long long)(after - before));
    must(mnem_ledger_destroy(ledger));
}

static int use_in_child(engine_of *e) {
    const mnem_status status =
        mnem_session_eval(e->session, (int32_t[]){1, 2, 3}, 3, 3, NULL, NULL);
    const bool says = strstr(mnem_last_error(), "forked child") != NULL;
    mnem_session_destroy(e->session); /* waits for no thread */
    return status == MNEM_INVALID && says ? 0 : 1;
}

static void an_engine_is_refused_in_a_child(void **state) {
    (void)state;
    int ended;
    engine_of e;
    mnem_ledger *ledger = ledger_of(GIB);
    engine_open(&e, ledger, 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(use_in_child(&e));
    assert_int_equal(waitpid(pid, &ended, 0), pid);
    assert_int_equal(ended, 0);
    free(logits_of(&e)); /* the parent's goes on */
    engine_close(&e);
    must(mnem_ledger_destroy(ledger));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_keeps_to_its_share),
        cmocka_unit_test(a_share_is_at_most_what_is_left),
        cmocka_unit_test(a_shared_team_is_in_no_plan),
        cmocka_unit_test(engines_take_turns_on_a_team),
        cmocka_unit_test(a_team_of_another_size_is_refused),
        cmocka_unit_test(an_engine_is_refused_in_a_child),
        cmocka_unit_test(two_engines_give_back_what_they_took),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
