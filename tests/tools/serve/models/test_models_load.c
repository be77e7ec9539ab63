/* test_models_load.c: 16 clients of three models of which the budget holds two.
 *
 * `test_models_load N` asks N times each client (12 without a number); `test_models_load N s` asks
 * for N seconds. Waiting times are printed, not judged: they are the machine's. */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kit/kit_random.h"
#include "mnem/base.h"
#include "tools/kit/tool_memory.h"
#include "tools/serve/models/models_kit.h"

enum { CLIENTS = 16, PROMPTS = 6, TIMES = 100000 };

static int asks = 12;
static double seconds;
static char prompt[PROMPTS][200], wanted[KIT_MODELS][PROMPTS][KIT_TEXT];

static int tokens_of(int p) {
    return 4 + 3 * p;
}

static void make_prompts(void) {
    static const char *const words[] = {"light", "water", "earth", "heaven", "day", "night",
                                        "and",   "the",   "of",    "was",    "good"};
    uint64_t state = 7;
    for (int p = 0; p < PROMPTS; p++) {
        prompt[p][0] = 0;
        for (int i = 0; i < 5 + 2 * p; i++) {
            strcat(prompt[p], words[next_below(&state, sizeof words / sizeof *words)]);
            strcat(prompt[p], " ");
        }
    }
}

/* Each alone, in a server of its own. */
static void ask_alone(const char *models) {
    char path[600];
    make_prompts();
    for (int m = 0; m < KIT_MODELS; m++) {
        snprintf(path, sizeof path, "%s/%s.gguf", models, kit_model[m]);
        const tool_server s = SERVE(path, "-q", "--memory", "2G");
        for (int p = 0; p < PROMPTS; p++) {
            const kit_answer a = kit_ask(kit_model[m], prompt[p], tokens_of(p));
            assert_int_equal(a.status, 200);
            assert_true(a.text[0] != 0);
            snprintf(wanted[m][p], KIT_TEXT, "%s", a.text);
        }
        assert_int_equal(tool_serve_end(&s), 0);
    }
}

/* ---- the load ---- */

typedef struct client {
    pthread_t thread;
    uint64_t state;
    int asked, wrong, failed, told, prompt_tokens, cached_tokens;
    char why[300];
} client;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static double first[TIMES];
static int times;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void note_time(double t) {
    pthread_mutex_lock(&lock);
    if (times < TIMES) first[times++] = t;
    pthread_mutex_unlock(&lock);
}

static void *run_client(void *context) {
    client *c = context;
    const double end = now() + seconds;
    for (int i = 0; seconds > 0 ? now() < end : i < asks; i++) {
        const int m = (int)next_below(&c->state, KIT_MODELS);
        const int p = (int)next_below(&c->state, PROMPTS);
        const kit_answer a = kit_ask(kit_model[m], prompt[p], tokens_of(p));
        c->asked++;
        c->told += a.loading;
        c->failed += a.status != 200;
        c->prompt_tokens += a.prompt_tokens;
        c->cached_tokens += a.cached_tokens;
        note_time(a.first_seconds);
        if (a.status == 200 && strcmp(a.text, wanted[m][p]) == 0) continue;
        c->wrong++;
        snprintf(c->why, sizeof c->why, "%s, prompt %d: %d \"%.100s\", wanted \"%.100s\"",
                 kit_model[m], p, a.status, a.text, wanted[m][p]);
    }
    return NULL;
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void run_load(void) {
    static client c[CLIENTS];
    client sum = {0};
    memset(c, 0, sizeof c);
    times = 0;
    random_seed_chosen();
    for (int i = 0; i < CLIENTS; i++) {
        c[i].state = random_bits();
        assert_int_equal(pthread_create(&c[i].thread, NULL, run_client, &c[i]), 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(c[i].thread, NULL);
        sum.asked += c[i].asked;
        sum.wrong += c[i].wrong;
        sum.failed += c[i].failed;
        sum.told += c[i].told;
        sum.prompt_tokens += c[i].prompt_tokens;
        sum.cached_tokens += c[i].cached_tokens;
        if (c[i].wrong) print_message("%s\n", c[i].why);
    }
    qsort(first, (size_t)times, sizeof *first, by_size);
    print_message("%d requests, %d failed, %d wrong; %d were told to wait; %d of %d prompt tokens "
                  "cached; until the first token: p50 %.3f s, p99 %.3f s, longest %.3f s\n",
                  sum.asked, sum.failed, sum.wrong, sum.told, sum.cached_tokens, sum.prompt_tokens,
                  first[times / 2], first[times * 99 / 100], first[times - 1]);
    assert_int_equal(sum.failed, 0);
    assert_int_equal(sum.wrong, 0);
}

/* ---- the tests ---- */

static char swap[512];
static const char *models;

static int set_up(void **state) {
    (void)state;
    models = kit_models();
    ask_alone(models);
    snprintf(swap, sizeof swap, "%s", folder("swap"));
    mkdir(swap, 0700);
    return 0;
}

/* The page's numbers count what the clients' thread has lent, too: they are asked for in peace. */
static int64_t live_when(int64_t most) {
    int64_t live = kit_live_bytes();
    for (int i = 0; live > most && i < 600; i++) {
        usleep(100000);
        live = kit_live_bytes();
    }
    return live;
}

static void random_turns_stay_in_the_budget_and_get_what_they_get_alone(void **state) {
    (void)state;
    char list[512], path[700];
    json_t *all = json_array();
    for (int m = 0; m < KIT_MODELS; m++) {
        snprintf(path, sizeof path, "%s/%s.gguf", models, kit_model[m]);
        json_array_append_new(all, json_pack("{s:s, s:i}", "path", path, "idle", 2));
    }
    json_t *root = json_pack("{s:o}", "models", all);
    char *text = json_dumps(root, 0);
    snprintf(list, sizeof list, "%s", tool_file("models.json", text));
    free(text);
    json_decref(root);
    const char *memory = kit_budget(list, 2);
    const tool_server s = SERVE("--models", list, "-q", "--memory", memory, "--swap", swap,
                                "--swap-max", "64M", "--wait", "1");
    const int64_t before = kit_live_bytes();
    run_load();
    /* Idle models leave; then there is what there was. */
    assert_int_equal(live_when(before), before);
    const uint64_t peak = tool_peak_of(s.pid);
    print_message("peak %llu of a budget of %llu bytes\n", (unsigned long long)peak,
                  (unsigned long long)kit_budget_bytes());
    if (MNEM_RELEASE) assert_true(peak <= kit_budget_bytes());
    assert_int_equal(tool_serve_end(&s), 0);
}

/* Asks for an answer that is known; again: its prompt was computed before. */
static void ask_known(int m, int p, bool again) {
    const kit_answer a = kit_ask(kit_model[m], prompt[p], tokens_of(p));
    assert_int_equal(a.status, 200);
    assert_string_equal(a.text, wanted[m][p]);
    if (again && a.cached_tokens != a.prompt_tokens - 1)
        fail_msg("%s has %d of %d tokens of a prompt that it had before", kit_model[m],
                 a.cached_tokens, a.prompt_tokens);
}

static void a_reloaded_model_computes_no_prompt_again(void **state) {
    (void)state;
    kit_needs_exact_budget();
    const tool_server s =
        SERVE("--models", models, "-q", "--memory", kit_budget(models, 1), "--swap", swap);
    for (int turn = 0; turn < 3; turn++) {
        for (int m = 0; m < KIT_MODELS; m++)
            for (int p = 2; p < 5; p++) ask_known(m, p, turn > 0);
    }
    /* The one that is loaded now is named in the ledger, and no other. */
    const char *metrics = ask(GET("/metrics")).body;
    assert_non_null(strstr(metrics, "tag=\"pages hybrid\""));
    const char *gone = strstr(metrics, "mnem_ledger_bytes{kind=\"kv\",tag=\"pages llama\"}");
    assert_true(!gone || strtol(strchr(gone, '}') + 1, NULL, 10) == 0);
    assert_int_equal(tool_serve_end(&s), 0);
}

/* Threads of the server now. */
static int threads_of(pid_t pid) {
    char path[64];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    assert_non_null(tasks);
    for (const struct dirent *entry; (entry = readdir(tasks));) n += entry->d_name[0] != '.';
    closedir(tasks);
    return n;
}

/* Each loaded model adds only the threads that read its weights; the team is there from the start,
 * and the ledger has it once. */
static void models_share_one_team(void **state) {
    (void)state;
    enum { READERS = 2, TEAM = 7 };
    const tool_server s = SERVE("--models", models, "-q", "--memory", "2G", "-t", "7");
    (void)kit_live_bytes(); /* the thread of the connections has begun */
    const int before = threads_of(s.pid);
    for (int m = 0; m < KIT_MODELS; m++) {
        ask_known(m, 0, false);
        assert_int_equal(threads_of(s.pid), before + (m + 1) * READERS);
    }
    const char *metrics = ask(GET("/metrics")).body;
    const char *stacks = strstr(metrics, "mnem_ledger_bytes{kind=\"runtime\",tag=\"team stacks\"}");
    assert_non_null(stacks);
    assert_int_equal(strtoull(strchr(stacks, '}') + 1, NULL, 10), mnem_team_bytes(TEAM));
    assert_int_equal(tool_serve_end(&s), 0);
}

/* ---- states of recurrent layers ---- */

/* What a dry run of that budget says about the only model of a list, and *room: about the bytes for
 * all models. */
static json_t *plan_of(const char *list, uint64_t bytes, json_int_t *room) {
    json_t *plan =
        tool_last_object(RUN("serve", "--models", list, "--parallel", "2", "--swap", swap,
                             "--memory", tool_bytes(bytes), "--dry-run", "--json"));
    json_t *one = json_incref(json_array_get(json_object_get(plan, "models"), 0));
    *room = json_integer_value(json_object_get(plan, "room_bytes"));
    json_decref(plan);
    return one;
}

/* A budget in which it has little more than its least bytes: pages for three conversations, but
 * only states for two that run. */
static uint64_t small_budget(const char *list) {
    enum { TOKENS = 400, STEP = 128 * KIB };
    uint64_t bytes = GIB;
    json_int_t room, tokens = 0;
    for (int i = 0; i < 3; i++) {
        json_t *one = plan_of(list, bytes, &room);
        bytes += (uint64_t)(json_integer_value(json_object_get(one, "least_bytes")) - room);
        json_decref(one);
    }
    while (tokens < TOKENS) {
        bytes += STEP;
        json_t *one = plan_of(list, bytes, &room);
        tokens = json_integer_value(json_object_get(one, "kv_tokens"));
        json_decref(one);
    }
    return bytes;
}

static int64_t swapped_bytes(void) {
    json_t *page = json_loads(ask(GET("/page.json?model=hybrid")).body, 0, NULL);
    const int64_t bytes = json_integer_value(json_object_get(page, "swap"));
    json_decref(page);
    return bytes;
}

static void states_of_the_swap_file_are_kept_when_a_model_is_unloaded(void **state) {
    (void)state;
    kit_needs_exact_budget();
    enum { FIRST = 2, LAST = 5 };
    char text[900], list[700], cache[700];
    snprintf(cache, sizeof cache, "%s", at("mnem"));
    mkdir(cache, 0700);
    tool_file("mnem/profile.json", "{\"swap_bytes_per_s\": 1e15}"); /* no speed decides */
    snprintf(text, sizeof text, "{\"models\": [{\"path\": \"%s/hybrid.gguf\"}]}", models);
    snprintf(list, sizeof list, "%s", tool_file("hybrid.json", text));
    const tool_server s = SERVE("--models", list, "-q", "--parallel", "2", "--memory",
                                tool_bytes(small_budget(list)), "--swap", swap);
    for (int turn = 0; turn < 3; turn++) {
        for (int p = FIRST; p < LAST; p++) ask_known(2, p, turn > 0);
        for (int p = FIRST; p < LAST; p++) ask_known(2, p, true); /* it has all of them */
        assert_true(swapped_bytes() > 0);
        assert_int_equal(tool_post("/models/unload", "{\"model\": \"hybrid\"}").status, 200);
        for (int i = 0; swapped_bytes() > 0 && i < 3000; i++) usleep(10000);
        assert_int_equal(swapped_bytes(), 0);
    }
    assert_int_equal(tool_serve_end(&s), 0);
    tool_file("mnem/profile.json", "{}");
}

int main(int argc, char **argv) {
    if (argc > 1) asks = atoi(argv[1]);
    if (argc > 2) seconds = asks;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_share_one_team),
        cmocka_unit_test(a_reloaded_model_computes_no_prompt_again),
        cmocka_unit_test(states_of_the_swap_file_are_kept_when_a_model_is_unloaded),
        cmocka_unit_test(random_turns_stay_in_the_budget_and_get_what_they_get_alone),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
