/* test_models_faults.c: several models in one server when something is wrong: files that are
 * damaged, replaced or too large, a full disk, a kill; and the rules of pins, idle models and
 * clients that wait. `test_models_faults N`: N loads in a row (40). */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/kit_model.h"
#include "tools/kit/tool_memory.h"
#include "tools/serve/models/models_kit.h"

static const char *models; /* a folder of three */
static char swap[512];
static int loads = 40;
static const char prompt[] = "the light and the water of the day";

static int set_up(void **state) {
    (void)state;
    models = kit_models();
    snprintf(swap, sizeof swap, "%s", folder("swap"));
    mkdir(swap, 0700);
    return 0;
}

static const char *path_of(int m) {
    static char path[700];
    snprintf(path, sizeof path, "%s/%s.gguf", models, kit_model[m]);
    return path;
}

/* A list with more keys for each of the three. */
static const char *list_with(const char *const more[KIT_MODELS]) {
    char text[4096] = "{\"models\": [";
    for (int m = 0; m < KIT_MODELS; m++) {
        const size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s{\"path\": \"%s\"%s}", m ? ", " : "", path_of(m),
                 more[m]);
    }
    strcat(text, "]}");
    return tool_file("models.json", text);
}

static kit_answer ask_one(int m) {
    const kit_answer a = kit_ask(kit_model[m], prompt, 8);
    if (a.status != 200) fail_msg("%s: %d %s", kit_model[m], a.status, a.text);
    return a;
}

static void unload(int m) {
    char body[80], text[256];
    snprintf(body, sizeof body, "{\"model\": \"%s\"}", kit_model[m]);
    snprintf(text, sizeof text,
             "POST /models/unload HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n%s", strlen(body),
             body);
    assert_int_equal(ask(text).status, 200);
}

static void settle_live(int64_t wanted) {
    for (int i = 0; kit_live_bytes() != wanted && i < 300; i++) usleep(100000);
    assert_int_equal(kit_live_bytes(), wanted);
}

/* ---- disks and kills ---- */

static void a_kill_leaves_nothing_and_the_next_start_serves(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        const tool_server s =
            SERVE("--models", models, "-q", "--memory", kit_budget(models, 1), "--swap", swap);
        for (int m = 0; m < KIT_MODELS; m++) ask_one(m);
        kill(s.pid, SIGKILL);
        tool_wait(s.pid);
        close(s.out);
        close(s.err);
        assert_int_equal(rmdir(swap), 0); /* it is empty */
        mkdir(swap, 0700);
    }
}

static void a_full_disk_costs_prompts_and_nothing_else(void **state) {
    (void)state;
    kit_needs_exact_budget();
    struct rlimit before, little;
    kit_answer first[KIT_MODELS];
    const char *memory = kit_budget(models, 1);
    getrlimit(RLIMIT_FSIZE, &before);
    little = before;
    little.rlim_cur = 32 * KIB;
    setrlimit(RLIMIT_FSIZE, &little);
    const tool_server s = SERVE("--models", models, "-q", "--memory", memory, "--swap", swap);
    setrlimit(RLIMIT_FSIZE, &before);
    for (int turn = 0; turn < 2; turn++) {
        for (int m = 0; m < KIT_MODELS; m++) {
            const kit_answer a = ask_one(m);
            if (turn == 0) first[m] = a;
            assert_string_equal(a.text, first[m].text);
            assert_int_equal(a.cached_tokens, 0);
        }
    }
    assert_int_equal(tool_serve_end(&s), 0);
}

/* ---- files ---- */

static void a_damaged_model_is_refused_and_the_others_are_served(void **state) {
    (void)state;
    char list[700];
    char text[2000];
    const char *bad = tool_file("bad.gguf", "GGUF, but no more of it");
    char bad_path[700];
    snprintf(bad_path, sizeof bad_path, "%s", bad);
    snprintf(text, sizeof text,
             "{\"models\": [{\"path\": \"%s\"}, {\"path\": \"%s\", \"name\": \"bad\"},"
             " {\"path\": \"nowhere.gguf\"}]}",
             path_of(0), bad_path);
    snprintf(list, sizeof list, "%s", tool_file("bad.json", text));
    const tool_server s = SERVE("--models", list, "-q", "--memory", "2G");
    assert_int_equal(kit_ask("bad", prompt, 4).status, 500);
    assert_int_equal(kit_ask("nowhere", prompt, 4).status, 500);
    assert_int_equal(kit_ask("nobody", prompt, 4).status, 404);
    ask_one(0);
    /* Another file in its place is tried. */
    make_model(bad_path, "--arch llama --embd 256 --layers 16 --ff 1024 --heads 8 --kv-heads 4 "
                         "--head-dim 32 --context 512 --seed 1");
    const kit_answer a = kit_ask("bad", prompt, 8);
    assert_int_equal(a.status, 200);
    assert_string_equal(a.text, ask_one(0).text);
    assert_int_equal(tool_serve_end(&s), 0);
}

static void a_file_that_is_replaced_counts_from_the_next_load_on(void **state) {
    (void)state;
    kit_needs_exact_budget();
    char was[700], now[710];
    const tool_server s =
        SERVE("--models", models, "-q", "--memory", kit_budget(models, 1), "--swap", swap);
    const kit_answer old = ask_one(0);
    snprintf(was, sizeof was, "%s", path_of(0));
    snprintf(now, sizeof now, "%s.new", was);
    make_model(now, "--arch llama --embd 256 --layers 16 --ff 1024 --heads 8 --kv-heads 4 "
                    "--head-dim 32 --context 512 --seed 77");
    assert_int_equal(rename(now, was), 0);
    assert_string_equal(ask_one(0).text, old.text);
    ask_one(1);
    kit_answer a = ask_one(0);
    assert_string_not_equal(a.text, old.text);
    assert_int_equal(a.cached_tokens, 0); /* not what the old one kept */
    ask_one(1);
    assert_string_equal(ask_one(0).text, a.text);
    /* Nobody leaves for a file that is damaged, or gone. */
    ask_one(1);
    const int64_t live = kit_live_bytes();
    for (int gone = 0; gone < 2; gone++) {
        unlink(was);
        if (!gone)
            assert_int_equal(rename(tool_file("bad.gguf", "GGUF, but no more of it"), was), 0);
        a = kit_ask(kit_model[0], prompt, 8);
        assert_int_equal(a.status, 500);
        settle_live(live);
    }
    ask_one(1);
    assert_int_equal(tool_serve_end(&s), 0);
}

static void what_never_fits_is_refused_and_nothing_leaves_for_it(void **state) {
    (void)state;
    kit_needs_exact_budget();
    char large[700], text[2000], list[700];
    snprintf(large, sizeof large, "%s", at("large.gguf"));
    make_model(large, "--arch llama --embd 2048 --layers 24 --ff 8192 --heads 16 --kv-heads 16 "
                      "--head-dim 128 --vocab 384 --type F32 --output-type F32 --hollow");
    snprintf(text, sizeof text, "{\"models\": [{\"path\": \"%s\"}, {\"path\": \"%s\"}]}",
             path_of(0), large);
    snprintf(list, sizeof list, "%s", tool_file("large.json", text));
    const tool_server s = SERVE("--models", list, "-q", "--memory", kit_budget(models, 1));
    ask_one(0);
    const int64_t live = kit_live_bytes();
    const kit_answer a = kit_ask("large", prompt, 4);
    assert_int_equal(a.status, 413);
    assert_non_null(strstr(a.text, "MiB"));
    assert_int_equal(kit_live_bytes(), live);
    assert_true(ask_one(0).cached_tokens > 0);
    assert_int_equal(tool_serve_end(&s), 0);
}

static json_t *plan_of(const char *list, uint64_t memory) {
    return tool_last_object(
        RUN("serve", "--models", list, "--memory", tool_bytes(memory), "--dry-run", "--json"));
}

/* The memory in which all models of the list are as fast as in 1 GiB, and some MiB more. What the
 * server itself takes depends on it. */
static uint64_t memory_for(const char *list) {
    int64_t memory = GIB;
    for (int turn = 0; turn < 3; turn++) {
        json_t *plan = plan_of(list, (uint64_t)memory);
        const json_t *one;
        size_t i;
        memory += 4 * MIB - json_integer_value(json_object_get(plan, "room_bytes"));
        json_array_foreach(json_object_get(plan, "models"), i, one) {
            memory += json_integer_value(json_object_get(one, "whole_bytes"));
        }
        json_decref(plan);
    }
    return (uint64_t)memory;
}

/* None is joined, so each has its own pin only: all but the first, which has no bytes. */
static void check_all_alone(const json_t *models_of) {
    assert_int_equal(json_array_size(models_of), 3);
    for (size_t i = 0; i < 3; i++) {
        const json_t *one = json_array_get(models_of, i);
        assert_int_equal(json_is_true(json_object_get(one, "pin")), i > 0);
        assert_null(json_object_get(one, "shares_with"));
        assert_int_equal(json_integer_value(json_object_get(one, "bytes")) > 0, i > 0);
    }
}

/* Two names of one file, beside a pinned model of another file: there is room for one of them, and
 * not for its pages and those of the other. */
static void names_without_room_together_are_planned_one_by_one(void **state) {
    (void)state;
    kit_needs_exact_budget();
    char first[700], second[700], list[700], rest[2000], text[4000];
    snprintf(first, sizeof first, "%s", at("wide.gguf"));
    snprintf(second, sizeof second, "%s", at("wide2.gguf"));
    for (int i = 0; i < 2; i++)
        make_model(i ? second : first, i ? "--layers 8 --kv-heads 8 --context 8192 --seed 3"
                                         : "--layers 8 --kv-heads 8 --context 8192 --seed 4");
    snprintf(rest, sizeof rest,
             "{\"path\": \"%s\", \"name\": \"small\", \"context\": 64, \"pin\": true}, "
             "{\"path\": \"%s\", \"name\": \"other\", \"context\": 8192, \"pin\": true}]}",
             first, second);
    snprintf(text, sizeof text, "{\"models\": [%s", rest);
    const uint64_t memory = memory_for(tool_file("enough.json", text));
    snprintf(text, sizeof text,
             "{\"models\": [{\"path\": \"%s\", \"name\": \"large\", \"context\": 8192}, %s", first,
             rest);
    snprintf(list, sizeof list, "%s", tool_file("room.json", text));
    json_t *plan = plan_of(list, memory);
    check_all_alone(json_object_get(plan, "models"));
    json_decref(plan);
    const tool_server s = SERVE("--models", list, "-q", "--memory", tool_bytes(memory));
    assert_int_equal(kit_ask("small", prompt, 4).status, 200);
    assert_int_equal(kit_ask("large", prompt, 4).status, 413);
    json_t *all = json_loads(ask(GET("/v1/models")).body, 0, NULL);
    check_all_alone(json_object_get(all, "data"));
    json_decref(all);
    assert_int_equal(tool_serve_end(&s), 0);
}

static void a_list_that_is_wrong_says_what_and_where(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } lists[] = {
        {"{\"models\": [{\"path\": \"a.gguf\", \"contxt\": 5}]}", "unknown key \"contxt\""},
        {"{\"model\": []}", "unknown key \"model\""},
        {"{\"models\": []}", "at least one model"},
        {"{\"models\": [{\"name\": \"a\"}]}", "has no \"path\""},
        {"{\"models\": [{\"path\": \"a.gguf\"}, {\"path\": \"b/a.gguf\"}]}", "the name a"},
        {"{\"models\": [{\"path\": \"a.gguf\", \"pin\": 1}]}", "true or false"},
        {"{\"models\": [", "is not valid JSON"},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const tool_result r =
            RUN("serve", "--models", tool_file("wrong.json", lists[i].text), "--dry-run");
        assert_int_equal(r.code, 1);
        if (!strstr(r.err, lists[i].says) || !strstr(r.err, "wrong.json")) fail_msg("%s", r.err);
    }
    assert_int_equal(RUN("serve", "--models", folder("empty"), "--dry-run").code, 1);
    assert_int_equal(RUN("serve", tool_model, "--models", models).code, 2);
    assert_int_equal(RUN("serve", "--models", models, "--swap", tool_file("swap.file", "")).code,
                     2);
    assert_int_equal(RUN("serve", "--wait", "3").code, 2);
}

/* ---- rules ---- */

static void a_pinned_model_stays_and_an_idle_one_goes(void **state) {
    (void)state;
    kit_needs_exact_budget();
    char list[700];
    snprintf(list, sizeof list, "%s",
             list_with((const char *const[]){", \"pin\": true", ", \"idle\": 1", ""}));
    const tool_server s = SERVE("--models", list, "-q", "--memory", kit_budget(list, 2));
    const int64_t with_pinned = kit_live_bytes(); /* it is loaded before the address is said */
    ask_one(0);
    for (int turn = 0; turn < 3; turn++)
        for (int m = 1; m < KIT_MODELS; m++) ask_one(m);
    assert_true(ask_one(0).cached_tokens > 0);
    ask_one(1); /* alone beside the pinned one, and soon idle */
    settle_live(with_pinned);
    assert_true(ask_one(0).cached_tokens > 0);
    assert_int_equal(tool_serve_end(&s), 0);
}

static atomic_bool over;

static void *ask_for_ever(void *context) {
    const int m = *(const int *)context;
    int failed = 0;
    while (!atomic_load(&over)) failed += kit_ask(kit_model[m], prompt, 16).status != 200;
    assert_int_equal(failed, 0);
    return NULL;
}

/* Both loaded models always answer somebody. */
static void who_has_waited_long_enough_gets_its_turn(void **state) {
    (void)state;
    enum { EACH = 3 };
    static const int which[2] = {0, 1};
    pthread_t thread[2 * EACH];
    const tool_server s = SERVE("--models", models, "-q", "--memory", kit_budget(models, 2),
                                "--wait", "1", "--swap", swap);
    atomic_store(&over, false);
    for (int i = 0; i < 2 * EACH; i++)
        pthread_create(&thread[i], NULL, ask_for_ever, (void *)&which[i % 2]);
    for (int i = 0; i < 3; i++) ask_one(2);
    atomic_store(&over, true);
    for (int i = 0; i < 2 * EACH; i++) pthread_join(thread[i], NULL);
    assert_int_equal(tool_serve_end(&s), 0);
}

static void a_signal_ends_a_server_whose_clients_wait(void **state) {
    (void)state;
    static const int which[2] = {0, 1};
    pthread_t thread[2];
    const tool_server s =
        SERVE("--models", models, "-q", "--memory", kit_budget(models, 1), "--wait", "600");
    ask_one(0);
    atomic_store(&over, true); /* one request each */
    for (int i = 0; i < 2; i++) pthread_create(&thread[i], NULL, ask_for_ever, (void *)&which[i]);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    assert_int_equal(tool_serve_end(&s), 0);
}

static void many_loads_in_a_row_leave_nothing_behind(void **state) {
    (void)state;
    const tool_server s =
        SERVE("--models", models, "-q", "--memory", kit_budget(models, 1), "--swap", swap);
    for (int m = 0; m < KIT_MODELS; m++) ask_one(m);
    ask_one(0);
    const int64_t live = kit_live_bytes();
    for (int i = 1; i <= loads; i++) {
        ask_one(i % KIT_MODELS);
        if (i % 2) unload(i % KIT_MODELS);
    }
    ask_one(0);
    settle_live(live);
    if (MNEM_RELEASE) assert_true(tool_peak_of(s.pid) <= kit_budget_bytes());
    assert_int_equal(tool_serve_end(&s), 0);
}

int main(int argc, char **argv) {
    if (argc > 1) loads = atoi(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kill_leaves_nothing_and_the_next_start_serves),
        cmocka_unit_test(a_full_disk_costs_prompts_and_nothing_else),
        cmocka_unit_test(a_damaged_model_is_refused_and_the_others_are_served),
        cmocka_unit_test(what_never_fits_is_refused_and_nothing_leaves_for_it),
        cmocka_unit_test(names_without_room_together_are_planned_one_by_one),
        cmocka_unit_test(a_list_that_is_wrong_says_what_and_where),
        cmocka_unit_test(a_pinned_model_stays_and_an_idle_one_goes),
        cmocka_unit_test(who_has_waited_long_enough_gets_its_turn),
        cmocka_unit_test(a_signal_ends_a_server_whose_clients_wait),
        cmocka_unit_test(many_loads_in_a_row_leave_nothing_behind),
        cmocka_unit_test(a_file_that_is_replaced_counts_from_the_next_load_on),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
