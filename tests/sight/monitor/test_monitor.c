/* test_monitor.c: status files: what is written is read, whole; what isn't one is refused. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "mnem/monitor.h"

static mnem_monitor monitor;
static mnem_monitor_view view;

static mnem_ledger *ledger_make(void) {
    mnem_ledger *ledger;
    must(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = GIB}, &ledger));
    return ledger;
}

static void open_monitor(const char *name) {
    must(mnem_monitor_init(&monitor, kit_path(name), "a test", "model.gguf"));
}

static void what_is_told_is_read(void **state) {
    (void)state;
    mnem_ledger *ledger = ledger_make();
    must(mnem_ledger_charge(ledger, MNEM_KIND_KV, "pages", 12345));
    must(mnem_ledger_charge(ledger, MNEM_KIND_WEIGHTS, "matrices", 777));
    mnem_ledger_release(ledger, MNEM_KIND_KV, "pages", 345);
    open_monitor("told");
    mnem_monitor_watch(&monitor, ledger);
    const mnem_monitor_numbers told = {.phase = "working",
                                       .steps = 3,
                                       .steps_planned = 9,
                                       .tokens = 41,
                                       .tokens_per_s = 2.5,
                                       .step_seconds = 0.125,
                                       .loss = 1.5,
                                       .pages_used = 4,
                                       .pages_total = 8,
                                       .requests_running = 1,
                                       .requests_waiting = 2,
                                       .requests_preempted = 3,
                                       .requests_done = 5,
                                       .requests_refused = 6};
    mnem_monitor_tell(&monitor, &told, true);
    must(mnem_monitor_read(kit_path("told"), &view));
    assert_memory_equal(&view.numbers, &told, sizeof told);
    assert_string_equal(view.program, "a test");
    assert_string_equal(view.model, "model.gguf");
    assert_int_equal(view.pid, getpid());
    assert_int_equal(view.budget_bytes, GIB);
    assert_int_equal(view.bytes_live, 12777);
    assert_int_equal(view.bytes_peak, 13122);
    assert_true(view.bytes_resident > 0 && view.bytes_resident <= view.bytes_resident_peak);
    assert_int_equal(view.accounts, 2); /* by kind: weights come first */
    assert_string_equal(view.account[0].kind, "weights");
    assert_string_equal(view.account[0].tag, "matrices");
    assert_string_equal(view.account[1].kind, "kv");
    assert_int_equal(view.account[1].bytes_live, 12000);
    assert_int_equal(view.account[1].bytes_peak, 12345);
    assert_true(mnem_monitor_alive(&view));
    mnem_monitor_fini(&monitor);
    assert_int_equal(mnem_monitor_read(kit_path("told"), &view), MNEM_NOT_FOUND);
    mnem_ledger_release(ledger, MNEM_KIND_KV, "pages", 12000);
    mnem_ledger_release(ledger, MNEM_KIND_WEIGHTS, "matrices", 777);
    must(mnem_ledger_destroy(ledger));
}

/* Other languages read it by offsets. */
static void the_layout_is_as_documented(void **state) {
    (void)state;
    assert_int_equal(sizeof(mnem_monitor_file), 5872);
    assert_int_equal(offsetof(mnem_monitor_file, sequence), 16);
    assert_int_equal(offsetof(mnem_monitor_file, view), 24);
    assert_int_equal(offsetof(mnem_monitor_view, program), 32);
    assert_int_equal(offsetof(mnem_monitor_view, model), 64);
    assert_int_equal(offsetof(mnem_monitor_view, budget_bytes), 160);
    assert_int_equal(offsetof(mnem_monitor_view, numbers), 208);
    assert_int_equal(offsetof(mnem_monitor_numbers, tokens), 40);
    assert_int_equal(offsetof(mnem_monitor_view, account), 336);
    assert_int_equal(sizeof(mnem_monitor_account), 72);
    assert_int_equal(offsetof(mnem_monitor_view, served), 4952);
    assert_int_equal(sizeof(mnem_monitor_model), 56);
}

static void models_are_published_with_the_next_numbers(void **state) {
    (void)state;
    mnem_monitor_model models[MNEM_MONITOR_MODELS + 2] = {
        {.name = "one", .state = "loaded", .requests = 3, .bytes = 100}};
    open_monitor("models");
    mnem_monitor_serve(&monitor, models, MNEM_MONITOR_MODELS + 2);
    must(mnem_monitor_read(kit_path("models"), &view));
    assert_int_equal(view.models, 0);
    mnem_monitor_tell(&monitor, NULL, true);
    must(mnem_monitor_read(kit_path("models"), &view));
    assert_int_equal(view.models, MNEM_MONITOR_MODELS);
    assert_int_equal(view.models_more, 2);
    assert_string_equal(view.served[0].name, "one");
    assert_string_equal(view.served[0].state, "loaded");
    assert_int_equal(view.served[0].requests, 3);
    assert_int_equal(view.served[0].bytes, 100);
    mnem_monitor_serve(&monitor, NULL, 0);
    mnem_monitor_tell(&monitor, NULL, true);
    must(mnem_monitor_read(kit_path("models"), &view));
    assert_int_equal(view.models, 0);
    assert_int_equal(view.served[0].bytes, 0);
    mnem_monitor_fini(&monitor);
}

static void accounts_beyond_the_table_are_its_last_row(void **state) {
    (void)state;
    mnem_ledger *ledger = ledger_make();
    char tag[32];
    uint64_t sum = 0;
    for (unsigned i = 0; i < 100; i++) {
        snprintf(tag, sizeof tag, "tag %u", i);
        must(mnem_ledger_charge(ledger, MNEM_KIND_HOST, tag, 1 + i));
    }
    open_monitor("many");
    mnem_monitor_watch(&monitor, ledger);
    mnem_monitor_tell(&monitor, NULL, true);
    mnem_monitor_tell(&monitor, NULL, true);
    must(mnem_monitor_read(kit_path("many"), &view));
    assert_int_equal(view.accounts, MNEM_MONITOR_ACCOUNTS);
    for (uint32_t i = 0; i < view.accounts; i++) sum += view.account[i].bytes_live;
    assert_int_equal(sum, 5050);
    assert_string_equal(view.account[MNEM_MONITOR_ACCOUNTS - 1].kind, "others");
    mnem_monitor_fini(&monitor);
    for (unsigned i = 0; i < 100; i++) {
        snprintf(tag, sizeof tag, "tag %u", i);
        mnem_ledger_release(ledger, MNEM_KIND_HOST, tag, 1 + i);
    }
    must(mnem_ledger_destroy(ledger));
}

/* ---- whole views ---- */

static atomic_bool over;

static void *tell_much(void *context) {
    for (uint64_t i = 1; i <= 3000; i++) {
        const mnem_monitor_numbers n = {
            .steps = i, .tokens = i, .pages_used = i, .requests_done = i, .requests_refused = i};
        mnem_monitor_tell(context, &n, true);
    }
    atomic_store(&over, true);
    return NULL;
}

static void a_reader_never_sees_half_of_a_change(void **state) {
    (void)state;
    pthread_t id;
    int read = 0;
    open_monitor("busy");
    atomic_store(&over, false);
    assert_int_equal(pthread_create(&id, NULL, tell_much, &monitor), 0);
    while (!atomic_load(&over) || !read) {
        const mnem_status status = mnem_monitor_read(kit_path("busy"), &view);
        if (status == MNEM_BUSY) continue; /* always in the middle, when it looked */
        must(status);
        const mnem_monitor_numbers *n = &view.numbers;
        assert_int_equal(n->steps, n->tokens);
        assert_int_equal(n->steps, n->pages_used);
        assert_int_equal(n->steps, n->requests_done);
        assert_int_equal(n->steps, n->requests_refused);
        read++;
    }
    pthread_join(id, NULL);
    mnem_monitor_fini(&monitor);
}

static void many_threads_may_tell(void **state) {
    (void)state;
    pthread_t id[3];
    open_monitor("threads");
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&id[i], NULL, tell_much, &monitor), 0);
    for (int i = 0; i < 3; i++) pthread_join(id[i], NULL);
    must(mnem_monitor_read(kit_path("threads"), &view));
    assert_int_equal(view.numbers.steps, 3000);
    mnem_monitor_fini(&monitor);
}

/* ---- what is refused ---- */

static void refused(const char *name, const void *bytes, size_t n, mnem_status status,
                    const char *why) {
    write_file(kit_path(name), bytes, n);
    assert_int_equal(mnem_monitor_read(kit_path(name), &view), status);
    if (!strstr(mnem_last_error(), why)) fail_msg("\"%s\" isn't in: %s", why, mnem_last_error());
    assert_int_equal(view.pid, 0);
}

static void what_is_no_status_file_is_refused(void **state) {
    (void)state;
    static char file[sizeof(mnem_monitor_file) + 1];
    mnem_monitor_file *f = (mnem_monitor_file *)(void *)file;
    open_monitor("good");
    mnem_monitor_tell(&monitor, NULL, true);
    memcpy(file, &monitor.file, sizeof monitor.file);
    mnem_monitor_fini(&monitor);
    refused("foreign", "GGUF and more than twenty-four bytes of something", 49, MNEM_BAD_FILE,
            "not a status file");
    refused("empty", "", 0, MNEM_BAD_FILE, "not a status file");
    refused("short", file, 1000, MNEM_BAD_FILE, "cut off: it has 1000 bytes, expected 5872");
    refused("long", file, sizeof file, MNEM_BAD_FILE, "too long");
    assert_int_equal(mnem_monitor_read("/dev/null", &view), MNEM_BAD_FILE);
    assert_int_equal(mnem_monitor_read(kit_folder(), &view), MNEM_BAD_FILE);
    f->sequence++;
    refused("odd", file, sizeof *f, MNEM_BUSY, "stopped in the middle");
    f->sequence++;
    f->version = 9;
    refused("newer", file, sizeof *f, MNEM_UNSUPPORTED, "version 9, but this mnem reads version 2");
    f->version = MNEM_MONITOR_VERSION;
    f->view.accounts = 65;
    refused("accounts", file, sizeof *f, MNEM_BAD_FILE, "65 accounts, but the table has 64");
}

static void texts_are_cleaned(void **state) {
    (void)state;
    open_monitor("texts");
    mnem_monitor_file f = monitor.file;
    mnem_monitor_fini(&monitor);
    memset(f.view.program, 27, sizeof f.view.program); /* escapes, and no end */
    memset(f.view.numbers.phase, 'x', sizeof f.view.numbers.phase);
    f.view.accounts = 1;
    memset(f.view.account[0].tag, '\n', sizeof f.view.account[0].tag);
    f.view.numbers.tokens_per_s = -1.0 / 0.0;
    must(mnem_monitor_read_bytes("texts", &f, sizeof f, &view));
    assert_int_equal(strlen(view.program), sizeof view.program - 1);
    assert_int_equal(view.program[0], '?');
    assert_int_equal(strlen(view.numbers.phase), sizeof view.numbers.phase - 1);
    assert_int_equal(view.account[0].tag[0], '?');
    assert_true(view.numbers.tokens_per_s == 0);
}

static void a_process_that_ended_is_not_alive(void **state) {
    (void)state;
    const pid_t child = fork();
    if (!child) {
        static mnem_monitor own;
        _exit(mnem_monitor_init(&own, kit_path("dead"), "child", NULL) == MNEM_OK ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    must(mnem_monitor_read(kit_path("dead"), &view));
    assert_false(mnem_monitor_alive(&view));
    view.pid = (uint32_t)getpid(); /* another one that has the number later */
    assert_false(mnem_monitor_alive(&view));
}

static void without_a_place_nothing_is_written(void **state) {
    (void)state;
    const mnem_monitor_numbers n = {.steps = 1};
    assert_int_equal(mnem_monitor_init(&monitor, "/nowhere/at/all", "x", NULL), MNEM_IO);
    assert_non_null(strstr(mnem_last_error(), "/nowhere/at/all"));
    mnem_monitor_watch(&monitor, NULL);
    mnem_monitor_tell(&monitor, &n, true);
    mnem_monitor_fini(&monitor);
    mnem_monitor_fini(&monitor);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_told_is_read),
        cmocka_unit_test(the_layout_is_as_documented),
        cmocka_unit_test(models_are_published_with_the_next_numbers),
        cmocka_unit_test(accounts_beyond_the_table_are_its_last_row),
        cmocka_unit_test(a_reader_never_sees_half_of_a_change),
        cmocka_unit_test(many_threads_may_tell),
        cmocka_unit_test(what_is_no_status_file_is_refused),
        cmocka_unit_test(texts_are_cleaned),
        cmocka_unit_test(a_process_that_ended_is_not_alive),
        cmocka_unit_test(without_a_place_nothing_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
