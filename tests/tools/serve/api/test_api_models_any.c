/* test_api_models_any.c: several models, and events in any order: requests, clients that leave,
 * models that are loaded, refused, leaving, staying and unloaded. Every request ends once (the kit
 * checks heads and ends of answers), and all memory comes back. */
#include "kit/kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit_random.h"
#include "tools/serve/api/fake_models.h"

enum { CLIENTS = 12, TURNS = 1500, SEEDS = 12, WAITING = 4 };
typedef struct client {
    struct http_exchange exchange;
    fake_answer answer;
    bool there;
} client;

static fake_models fake;
static fake_serve *const serve = &fake.serve;
static client clients[CLIENTS];

#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":3"
static const char *const bodies[][2] = {
    {"/v1/chat/completions", "{\"model\":\"%s\",\"stream\":true," MESSAGES "}"},
    {"/v1/chat/completions", "{\"model\":\"%s\"," MESSAGES "}"},
    {"/v1/completions", "{\"model\":\"%s\",\"prompt\":\"a\",\"n\":2,\"max_tokens\":4}"},
    {"/v1/completions", "{\"model\":\"%s\",\"stream\":true,\"n\":0}"},
    {"/api/chat", "{\"model\":\"%s\"," MESSAGES ",\"keep_alive\":0}"},
    {"/api/generate", "{\"model\":\"%s\",\"keep_alive\":0}"},
    {"/api/generate", "{\"model\":\"%s\"}"},
    {"/v1/embeddings", "{\"model\":\"%s\",\"input\":[\"a\",\"b\"]}"},
    {"/tokenize", "{\"model\":\"%s\",\"content\":\"a\"}"},
    {"/v1/messages", "{\"model\":\"%s\",\"stream\":true," MESSAGES "}"},
    {"/models/load", "{\"model\":\"%s\"}"},
    {"/models/unload", "{\"model\":\"%s\"}"},
    {"/v1/chat/completions",
     "{\"model\":\"%s\"," MESSAGES ",\"response_format\":{\"type\":\"json_object\"}}"}};

static api_model_use use_of(int32_t index) {
    api_model_use use;
    api_model_use_get(serve->api, index, &use);
    return use;
}

static void leave(client *c) {
    if (!c->there) return;
    fake_part(serve, &c->exchange);
    c->there = false;
}

static void ask_something(client *c) {
    static const char *const names[] = {"first", "second", "third", "fourth"};
    char body[300];
    const size_t which = random_below(sizeof bodies / sizeof *bodies);
    leave(c);
    snprintf(body, sizeof body, bodies[which][1],
             names[random_below(16) ? random_below(FAKE_MODELS) : FAKE_MODELS]);
    c->there = true;
    fake_ask(serve, &c->exchange, &c->answer, "POST", bodies[which][0], body, strlen(body));
}

/* What the stepping thread may do with a model at any time. */
static void change(int32_t i) {
    fake_model *m = &fake.model[i];
    const uint64_t what = random_below(4);
    if (m->leaving) {
        if (what > 1 || fake_unload(&fake, i)) return;
        m->leaving = false;
        api_model_stay(serve->api, i);
    } else if (m->served)
        fake_unload(&fake, i);
    else if (m->want && what < 2) {
        m->want = false;
        api_model_refuse(serve->api, i, what ? 503 : 400, NULL, "it can't be loaded");
    } else if (m->want || what == 1)
        fake_load(&fake, i);
}

static void do_something(void) {
    client *c = &clients[random_below(CLIENTS)];
    switch (random_below(8)) {
    case 0:
    case 1:
    case 2: ask_something(c); break;
    case 3: leave(c); break;
    case 4: serve->handler.on_tick(serve->api); break;
    case 5: change((int32_t)random_below(FAKE_MODELS)); break;
    default: fake_step(serve);
    }
    assert_true(use_of(0).waiting + use_of(1).waiting + use_of(2).waiting <= WAITING);
}

static void end_all(void) {
    fake_run(&fake);
    for (int i = 0; i < CLIENTS; i++) {
        if (clients[i].there) assert_true(clients[i].answer.over);
        leave(&clients[i]);
        free(clients[i].answer.body);
    }
    memset(clients, 0, sizeof clients);
    fake_run(&fake);
    for (int32_t i = 0; i < FAKE_MODELS; i++) {
        assert_int_equal(use_of(i).requests, 0);
        assert_int_equal(use_of(i).waiting, 0);
        if (fake.model[i].served) assert_true(fake_unload(&fake, i));
    }
}

static uint64_t live_bytes(void) {
    mnem_ledger_info info;
    mnem_ledger_info_get(serve->ledger, &info);
    return info.bytes_live;
}

/* The heap is charged, too, so that what models keep of the reserve is seen. */
static void any_order_of_events_ends_every_request(void **state) {
    const int32_t *ids; /* the kit's tokenizer takes its buffer first */
    size_t n;
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        random_seed(seed);
        fake_models_open(&(api_options){.waiting_most = WAITING}, &fake);
        must(mnem_ledger_watch_heap(serve->ledger));
        serve->say = "God said";
        must(mnem_tokenizer_encode(serve->tokenizer, serve->say, strlen(serve->say), 0, &ids, &n));
        api_plan_begin(serve->api);
        const uint64_t before = live_bytes();
        api_plan_end(serve->api);
        for (int turn = 0; turn < TURNS; turn++) do_something();
        end_all();
        api_plan_begin(serve->api); /* which makes the reserve whole */
        const uint64_t after = live_bytes();
        api_plan_end(serve->api);
        if (after != before) print_message("seed %d\n", (int)seed);
        assert_int_equal(after, before);
        fake_models_close(&fake);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_order_of_events_ends_every_request)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
