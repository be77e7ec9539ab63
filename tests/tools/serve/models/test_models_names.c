/* test_models_names.c: several names of one file in one server. Each gets the answers that it gets
 * alone, with its own context and adapters; the file is loaded once. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/adapters/adapter_case.h"
#include "kit/kit_model.h"
#include "tools/kit/tool_memory.h"
#include "tools/serve/models/models_kit.h"

enum { ADAPTERS = 2, TOKENS = 24 };
static const char prompt[] = "the light and the water of the day";
static const char *models;
static char file[700], adapter[ADAPTERS][700], swap[700];

static int set_up(void **state) {
    (void)state;
    models = kit_models();
    snprintf(file, sizeof file, "%s/%s.gguf", models, kit_model[0]);
    for (int i = 0; i < ADAPTERS; i++) {
        char name[20];
        snprintf(name, sizeof name, "poet%d.gguf", i);
        snprintf(adapter[i], sizeof adapter[i], "%s", at(name));
        adapter_make(file, adapter[i],
                     &(adapter_recipe){.rank = 4, .type = MNEM_TYPE_F32, .seed = 5 + (unsigned)i});
    }
    snprintf(swap, sizeof swap, "%s", folder("swap"));
    mkdir(swap, 0700);
    return 0;
}

/* A name of the list: a path, and more keys. */
typedef struct entry {
    const char *name, *path, *more;
} entry;

static const char *list_of(const char *name, const entry *e, int count) {
    static char text[8192], path[700];
    size_t n = (size_t)snprintf(text, sizeof text, "{\"models\": [");
    for (int i = 0; i < count; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s{\"name\": \"%s\", \"path\": \"%s\"%s}",
                              i ? ", " : "", e[i].name, e[i].path, e[i].more);
    snprintf(text + n, sizeof text - n, "]}");
    snprintf(path, sizeof path, "%s", tool_file(name, text));
    return path;
}

/* The answer of a server with this model alone. */
static kit_answer alone(const char *path, int tokens, const char *option, const char *value,
                        const char *more) {
    const tool_server s = more ? SERVE(path, "-q", "--memory", "2G", option, value, option, more)
                          : option ? SERVE(path, "-q", "--memory", "2G", option, value)
                                   : SERVE(path, "-q", "--memory", "2G");
    const kit_answer a = kit_ask("any", prompt, tokens);
    assert_int_equal(a.status, 200);
    assert_int_equal(tool_serve_end(&s), 0);
    return a;
}

static kit_answer ask_name(const char *name) {
    const kit_answer a = kit_ask(name, prompt, TOKENS);
    if (a.status != 200) fail_msg("%s: %d %s", name, a.status, a.text);
    return a;
}

static void assert_says(const char *name, const kit_answer *wanted) {
    assert_string_equal(ask_name(name).text, wanted->text);
}

static json_t *listed(const char *name) {
    json_t *all = json_loads(ask(GET("/v1/models")).body, 0, NULL);
    const json_t *one;
    json_t *found = NULL;
    size_t i;
    json_array_foreach(json_object_get(all, "data"), i, one) {
        if (strcmp(json_string_value(json_object_get(one, "id")), name) == 0)
            found = json_deep_copy(one);
    }
    json_decref(all);
    assert_non_null(found);
    return found;
}

static bool is_in_state(const char *name, const char *state) {
    json_t *one = listed(name);
    const json_t *status = json_object_get(json_object_get(one, "status"), "value");
    const bool is = strcmp(json_string_value(status), state) == 0;
    json_decref(one);
    return is;
}

static void wait_for(const char *name, const char *state) {
    for (int i = 0; !is_in_state(name, state) && i < 300; i++) usleep(100000);
    assert_true(is_in_state(name, state));
}

static void unload(const char *name) {
    char body[80];
    snprintf(body, sizeof body, "{\"model\": \"%s\"}", name);
    assert_int_equal(tool_post("/models/unload", body).status, 200);
}

/* The sum of a kind's accounts in the ledger. */
static uint64_t bytes_of(const char *kind) {
    char start[80];
    uint64_t sum = 0;
    snprintf(start, sizeof start, "\nmnem_ledger_bytes{kind=\"%s\"", kind);
    const char *at = ask(GET("/metrics")).body;
    while ((at = strstr(at, start))) {
        at = strchr(at + 1, '}');
        sum += strtoull(at + 1, NULL, 10);
    }
    return sum;
}

static uint64_t number_of(const char *counter, const char *name) {
    char sample[120];
    snprintf(sample, sizeof sample, "\nmnem_%s_total{model=\"%s\"}", counter, name);
    const char *at = strstr(ask(GET("/metrics")).body, sample);
    assert_non_null(at);
    return strtoull(strchr(at, '}') + 1, NULL, 10);
}

static uint64_t loads_of(const char *name) {
    return number_of("model_loads", name);
}

/* ---- once ---- */

static void weights_and_pages_are_there_once(void **state) {
    (void)state;
    char link_path[700];
    snprintf(link_path, sizeof link_path, "%s", at("again.gguf"));
    (void)unlink(link_path);
    assert_int_equal(symlink(file, link_path), 0);
    const entry e[] = {{"one", file, ""}, {"two", link_path, ", \"context\": 128"}};
    const kit_answer wanted = alone(file, TOKENS, NULL, NULL, NULL);
    const tool_server s = SERVE("--models", list_of("once.json", e, 2), "-q", "--memory", "2G");
    const int64_t before = kit_live_bytes();
    assert_says("one", &wanted);
    json_t *one = listed("one"), *two = listed("two");
    const uint64_t weights = bytes_of("weights"), kv = bytes_of("kv");
    const int64_t bytes = json_integer_value(json_object_get(one, "bytes"));
    assert_true(weights > 0 && kv > 0);
    /* As planned: opening takes some KiB less a second time. */
    const int64_t taken = kit_live_bytes() - before;
    assert_true(taken <= bytes && taken + 16 * (int64_t)KIB > bytes);
    assert_int_equal(json_integer_value(json_object_get(two, "bytes")), 0);
    assert_string_equal(json_string_value(json_object_get(two, "shares_with")), "one");
    assert_null(json_object_get(one, "shares_with"));
    const kit_answer a = ask_name("two"); /* it even finds the prompt of the other name */
    assert_string_equal(a.text, wanted.text);
    assert_int_equal(a.cached_tokens, a.prompt_tokens - 1);
    assert_int_equal(bytes_of("weights"), weights);
    assert_int_equal(bytes_of("kv"), kv);
    /* The numbers of the one scheduler are shown once. */
    for (int i = 0; number_of("generation_tokens", "one") < 2 * TOKENS && i < 300; i++)
        usleep(10000); /* a step's are shown behind its last token */
    assert_int_equal(number_of("generation_tokens", "one"), 2 * TOKENS);
    assert_null(strstr(ask(GET("/metrics")).body, "\nmnem_generation_tokens_total{model=\"two\"}"));
    json_t *slots = json_loads(ask(GET("/slots")).body, 0, NULL);
    json_t *own = json_loads(ask(GET("/slots?model=two")).body, 0, NULL);
    assert_int_equal(json_array_size(slots), json_array_size(own));
    json_decref(slots);
    json_decref(own);
    json_decref(one);
    json_decref(two);
    assert_int_equal(tool_serve_end(&s), 0);
}

/* The budget holds one model: two names of it stay, another file takes its place. */
static void names_need_the_budget_of_one(void **state) {
    (void)state;
    kit_needs_exact_budget();
    char other[700];
    snprintf(other, sizeof other, "%s/%s.gguf", models, kit_model[1]);
    const entry e[] = {{"one", file, ""}, {"other", other, ""}, {"two", file, ""}};
    const kit_answer wanted = alone(file, TOKENS, NULL, NULL, NULL);
    const char *memory = kit_budget(models, 1);
    const tool_server s =
        SERVE("--models", list_of("budget.json", e, 3), "-q", "--memory", memory, "--swap", swap);
    const int64_t empty = kit_live_bytes();
    for (int turn = 1; turn <= 3; turn++) {
        for (int i = 0; i < 4; i++) assert_says(i % 2 ? "one" : "two", &wanted);
        assert_int_equal(loads_of("one"), turn);
        ask_name("other");
        assert_true(is_in_state("one", "unloaded"));
        assert_true(is_in_state("two", "unloaded"));
        unload("other");
        wait_for("other", "unloaded");
        for (int i = 0; kit_live_bytes() != empty && i < 300; i++) usleep(100000);
        assert_int_equal(kit_live_bytes(), empty);
    }
    if (MNEM_RELEASE) assert_true(tool_peak_of(s.pid) <= kit_budget_bytes());
    assert_int_equal(tool_serve_end(&s), 0);
}

typedef struct client {
    pthread_t thread;
    int first, wrong;
    const char *const *name;
    const kit_answer *wanted;
} client;

static void *ask_in_turn(void *context) {
    enum { NAMES = 3, ASKS = 9 };
    client *c = context;
    for (int i = 0; i < ASKS; i++) {
        const int k = (c->first + i * (1 + c->first % 2)) % NAMES;
        const kit_answer a = kit_ask(c->name[k], prompt, TOKENS);
        c->wrong += a.status != 200 || strcmp(a.text, c->wanted[k == 1].text) != 0;
    }
    return NULL;
}

/* Clients of two names of one file and of another file take turns in the budget of one. */
static void names_come_and_go_together(void **state) {
    (void)state;
    enum { CLIENTS = 6 };
    static const char *const name[] = {"one", "other", "two"};
    char other[700];
    snprintf(other, sizeof other, "%s/%s.gguf", models, kit_model[1]);
    const entry e[] = {{"one", file, ", \"idle\": 1"}, {"other", other, ""}, {"two", file, ""}};
    const kit_answer wanted[2] = {alone(file, TOKENS, NULL, NULL, NULL),
                                  alone(other, TOKENS, NULL, NULL, NULL)};
    const char *memory = kit_budget(models, 1);
    const tool_server s = SERVE("--models", list_of("turns.json", e, 3), "-q", "--memory", memory,
                                "--swap", swap, "--wait", "1");
    client c[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        c[i] = (client){.first = i, .name = name, .wanted = wanted};
        assert_int_equal(pthread_create(&c[i].thread, NULL, ask_in_turn, &c[i]), 0);
    }
    int wrong = 0;
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(c[i].thread, NULL);
        wrong += c[i].wrong;
    }
    assert_int_equal(wrong, 0);
    if (MNEM_RELEASE) assert_true(tool_peak_of(s.pid) <= kit_budget_bytes());
    assert_int_equal(tool_serve_end(&s), 0);
}

static void a_name_that_is_unloaded_leaves_the_model_to_the_others(void **state) {
    (void)state;
    const entry e[] = {{"one", file, ""}, {"two", file, ""}, {"three", file, ""}};
    const tool_server s = SERVE("--models", list_of("unload.json", e, 3), "-q", "--memory", "2G");
    ask_name("one");
    ask_name("two");
    unload("two");
    usleep(500000);
    assert_true(ask_name("one").cached_tokens > 0);
    assert_int_equal(loads_of("one"), 1);
    ask_name("two"); /* which holds it again */
    unload("one");
    usleep(500000);
    assert_int_equal(loads_of("one"), 1);
    assert_true(is_in_state("two", "loaded"));
    unload("two"); /* nobody asked for the third */
    wait_for("one", "unloaded");
    wait_for("two", "unloaded");
    assert_int_equal(bytes_of("weights"), 0);
    assert_true(ask_name("three").cached_tokens == 0);
    assert_int_equal(tool_serve_end(&s), 0);
}

static void a_name_that_is_loaded_by_hand_holds_the_model(void **state) {
    (void)state;
    const entry e[] = {{"one", file, ""}, {"two", file, ""}};
    const tool_server s = SERVE("--models", list_of("hold.json", e, 2), "-q", "--memory", "2G");
    ask_name("one");
    assert_int_equal(tool_post("/models/load", "{\"model\": \"two\"}").status, 200);
    unload("one");
    usleep(500000);
    assert_true(is_in_state("one", "loaded"));
    unload("two");
    wait_for("one", "unloaded");
    assert_int_equal(tool_serve_end(&s), 0);
}

/* ---- what each name has of its own ---- */

static void a_name_keeps_to_its_context(void **state) {
    (void)state;
    enum { CONTEXT = 64 };
    const entry e[] = {{"long", file, ", \"context\": 512"}, {"short", file, ", \"context\": 64"}};
    const kit_answer wanted = alone(file, 2 * CONTEXT, "--ctx", "64", NULL);
    const kit_answer whole = alone(file, 2 * CONTEXT, "--ctx", "512", NULL);
    assert_string_not_equal(wanted.text, whole.text);
    const tool_server s = SERVE("--models", list_of("context.json", e, 2), "-q", "--memory", "2G");
    char text[600] = "";
    for (int i = 0; i < CONTEXT + 8; i++) strcat(text, "water ");
    for (int turn = 0; turn < 2; turn++) {
        assert_string_equal(kit_ask("short", prompt, 2 * CONTEXT).text, wanted.text);
        assert_string_equal(kit_ask("long", prompt, 2 * CONTEXT).text, whole.text);
        assert_int_equal(kit_ask("short", text, 4).status, 400);
        assert_int_equal(kit_ask("long", text, 4).status, 200);
    }
    assert_int_equal(loads_of("long"), 1);
    assert_int_equal(tool_serve_end(&s), 0);
}

typedef struct asking {
    pthread_t thread;
    const char *name, *wanted;
    int wrong;
} asking;

static void *ask_often(void *context) {
    asking *a = context;
    for (int i = 0; i < 4; i++) {
        const kit_answer got = kit_ask(a->name, prompt, TOKENS);
        a->wrong += got.status != 200 || strcmp(got.text, a->wanted) != 0;
    }
    return NULL;
}

/* Sequences of all names in the same steps. "turned" applies them in the other order, which has
 * other bits: it is a model of its own. */
static void a_name_has_its_own_adapters(void **state) {
    (void)state;
    enum { NAMES = 4 };
    char second[800], both[1600], turned[1600], half[720];
    snprintf(half, sizeof half, "%s:0.5", adapter[1]);
    snprintf(second, sizeof second, ", \"adapters\": [\"%s\"]", half);
    snprintf(both, sizeof both, ", \"adapters\": [\"%s\", \"%s\"]", adapter[0], adapter[1]);
    snprintf(turned, sizeof turned, ", \"adapters\": [\"%s\", \"%s\"]", adapter[1], adapter[0]);
    const entry e[NAMES] = {{"plain", file, ""},
                            {"both", file, both},
                            {"half", file, second},
                            {"turned", file, turned}};
    const kit_answer wanted[NAMES] = {alone(file, TOKENS, NULL, NULL, NULL),
                                      alone(file, TOKENS, "--lora", adapter[0], adapter[1]),
                                      alone(file, TOKENS, "--lora", half, NULL),
                                      alone(file, TOKENS, "--lora", adapter[1], adapter[0])};
    for (int i = 1; i < 3; i++) assert_string_not_equal(wanted[i].text, wanted[i - 1].text);
    const tool_server s =
        SERVE("--models", list_of("adapters.json", e, NAMES), "-q", "--memory", "2G");
    asking a[NAMES];
    for (int i = 0; i < NAMES; i++) {
        a[i] = (asking){.name = e[i].name, .wanted = wanted[i].text};
        assert_int_equal(pthread_create(&a[i].thread, NULL, ask_often, &a[i]), 0);
    }
    for (int i = 0; i < NAMES; i++) {
        pthread_join(a[i].thread, NULL);
        if (a[i].wrong) fail_msg("%s: %d answers differ", a[i].name, a[i].wrong);
        json_t *one = listed(e[i].name);
        const bool shares = json_object_get(one, "shares_with") != NULL;
        assert_int_equal(shares, i == 1 || i == 2);
        json_decref(one);
    }
    /* Requests see the adapters of their name only. */
    json_t *list = json_loads(ask(GET("/lora-adapters?model=half")).body, 0, NULL);
    assert_int_equal(json_array_size(list), 1);
    const json_t *only = json_array_get(list, 0);
    assert_string_equal(json_string_value(json_object_get(only, "name")), "poet1");
    assert_true(json_number_value(json_object_get(only, "scale")) == 0.5);
    json_decref(list);
    assert_int_equal(tool_post("/v1/completions",
                               "{\"model\": \"half\", \"prompt\": \"a\", \"max_tokens\": 1, "
                               "\"lora\": [{\"name\": \"poet0\"}]}")
                         .status,
                     400);
    /* Scale 0 is the plain model; scale 1 of the only adapter, by its number. */
    const answer zero = tool_post(
        "/v1/completions", "{\"model\": \"both\", \"prompt\": \"the light and the water of "
                           "the day\", \"max_tokens\": 24, \"temperature\": 0, \"lora\": []}");
    json_t *body = json_loads(zero.body, 0, NULL);
    const json_t *choice = json_array_get(json_object_get(body, "choices"), 0);
    assert_string_equal(json_string_value(json_object_get(choice, "text")), wanted[0].text);
    json_decref(body);
    assert_int_equal(tool_serve_end(&s), 0);
}

/* ---- files that change ---- */

/* Two paths of one file, of which one is replaced while the model is loaded. */
static void a_replaced_file_is_not_mixed_with_the_old_one(void **state) {
    (void)state;
    char first[700], second[700], next[720];
    snprintf(first, sizeof first, "%s", at("first.gguf"));
    snprintf(second, sizeof second, "%s", at("second.gguf"));
    snprintf(next, sizeof next, "%s", at("next.gguf"));
    (void)unlink(first);
    (void)unlink(second);
    make_model(first, "--layers 4 --context 512 --seed 11");
    assert_int_equal(link(first, second), 0);
    make_model(next, "--layers 4 --context 512 --seed 12");
    const kit_answer old = alone(first, TOKENS, NULL, NULL, NULL);
    const kit_answer new = alone(next, TOKENS, NULL, NULL, NULL);
    assert_string_not_equal(old.text, new.text);
    const entry e[] = {{"one", first, ""}, {"two", second, ""}};
    const tool_server s =
        SERVE("--models", list_of("replaced.json", e, 2), "-q", "--memory", "1G", "--swap", swap);
    assert_says("one", &old);
    assert_int_equal(rename(next, first), 0);
    assert_says("one", &old); /* as it was loaded */
    assert_says("two", &old);
    unload("one");
    unload("two");
    wait_for("one", "unloaded");
    for (int turn = 0; turn < 2; turn++) {
        const kit_answer a = ask_name("one");
        assert_string_equal(a.text, new.text);
        if (turn == 0) assert_int_equal(a.cached_tokens, 0);
        assert_says("two", &old);
    }
    json_t *two = listed("two");
    assert_null(json_object_get(two, "shares_with"));
    assert_true(json_integer_value(json_object_get(two, "bytes")) > 0);
    json_decref(two);
    assert_int_equal(tool_serve_end(&s), 0);
}

/* An adapter that doesn't fit the model costs the others nothing. */
static void a_name_that_fails_leaves_the_others(void **state) {
    (void)state;
    char wrong[800];
    snprintf(wrong, sizeof wrong, ", \"adapters\": [\"%s/%s.gguf\"]", models, kit_model[1]);
    const entry e[] = {{"one", file, ""}, {"wrong", file, wrong}, {"two", file, ""}};
    const kit_answer wanted = alone(file, TOKENS, NULL, NULL, NULL);
    const tool_server s = SERVE("--models", list_of("fails.json", e, 3), "-q", "--memory", "2G");
    for (int turn = 0; turn < 2; turn++) {
        assert_says("one", &wanted);
        assert_int_equal(kit_ask("wrong", prompt, 4).status, 500);
        assert_says("two", &wanted);
    }
    assert_int_equal(tool_serve_end(&s), 0);
}

/* An adapter that is damaged when the planned model is loaded. */
static void a_load_that_fails_is_refused_to_the_name_that_fails(void **state) {
    (void)state;
    char path[700], more[800];
    snprintf(path, sizeof path, "%s", at("damaged.gguf"));
    adapter_make(file, path, &(adapter_recipe){.rank = 4, .type = MNEM_TYPE_F32, .seed = 9});
    snprintf(more, sizeof more, ", \"adapters\": [\"%s\"]", path);
    const entry e[] = {{"one", file, ""}, {"wrong", file, more}, {"two", file, ""}};
    const kit_answer wanted = alone(file, TOKENS, NULL, NULL, NULL);
    const tool_server s = SERVE("--models", list_of("load.json", e, 3), "-q", "--memory", "2G");
    assert_string_equal(tool_file("damaged.gguf", "GGUF, but no more of it"), path);
    for (int turn = 0; turn < 2; turn++) {
        assert_says(turn ? "two" : "one", &wanted);
        assert_int_equal(kit_ask("wrong", prompt, 4).status, 500);
    }
    json_t *one = listed("wrong"), *two = listed("two");
    assert_true(json_is_null(json_object_get(one, "bytes")));
    assert_null(json_object_get(one, "shares_with"));
    assert_null(json_object_get(two, "shares_with"));
    assert_true(json_integer_value(json_object_get(two, "bytes")) > 0);
    json_decref(one);
    json_decref(two);
    assert_int_equal(tool_serve_end(&s), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_and_pages_are_there_once),
        cmocka_unit_test(names_need_the_budget_of_one),
        cmocka_unit_test(names_come_and_go_together),
        cmocka_unit_test(a_name_that_is_unloaded_leaves_the_model_to_the_others),
        cmocka_unit_test(a_name_keeps_to_its_context),
        cmocka_unit_test(a_name_has_its_own_adapters),
        cmocka_unit_test(a_replaced_file_is_not_mixed_with_the_old_one),
        cmocka_unit_test(a_name_that_fails_leaves_the_others),
        cmocka_unit_test(a_name_that_is_loaded_by_hand_holds_the_model),
        cmocka_unit_test(a_load_that_fails_is_refused_to_the_name_that_fails),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
