/* test_api_load.c: the whole server under load: several clients at once, some of which vanish, read
 * slowly, ask nonsense or look at what is going on.
 *
 * test_api_load [REQUESTS]     160 by default
 *
 * Pages are for one long conversation, so that others are set aside to a swap file. What comes back
 * is well formed; at the end nothing is left of anybody. Each client is a thread with numbers of
 * its own; what they say in which order is up to the machine, so only what always holds is
 * checked. */
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/serve/kit/live_serve.h"

enum { CLIENTS = 6, BODY = 600, PATIENCE = 20000 /* milliseconds */ };

typedef struct client {
    pthread_t thread;
    uint32_t state;
    char answer[LIVE_ANSWER];
} client;

static client clients[CLIENTS];
static int requests = 160;
static atomic_int left, wrong;
static char first_wrong[2000];

static uint32_t draw(client *c, uint32_t below) {
    c->state = c->state * 1664525u + 1013904223u;
    return (c->state >> 8) % below;
}

/* The first is told by the test's own thread. */
static void complain(const char *what, const char *answer) {
    if (atomic_fetch_add(&wrong, 1) == 0)
        snprintf(first_wrong, sizeof first_wrong, "%s: %.1500s", what, answer);
}

static void make_body(client *c, bool stream, char body[BODY]) {
    static const char *const texts[] = {"In the beginning", "And the LORD said unto Moses, Say",
                                        "Now these are the names of the children of Israel, which",
                                        "The words of the Preacher, the son of David"};
    snprintf(body, BODY,
             "{\"prompt\":\"%s %u\",\"max_tokens\":%u,\"temperature\":%u,\"seed\":%u,"
             "\"ignore_eos\":true,\"stream\":%s}",
             texts[draw(c, 4)], draw(c, 3), draw(c, 5) ? 1 + draw(c, 24) : 150, draw(c, 2),
             draw(c, 9), stream ? "true" : "false");
}

/* ---- what they do ---- */

static int read_some(int fd, char *out, size_t most) {
    const ssize_t got = recv(fd, out, most, 0);
    return got > 0 ? (int)got : 0;
}

/* All of it, a few bytes at a time. */
static void read_slowly(client *c, int fd) {
    size_t n = 0;
    for (int got; (got = read_some(fd, c->answer + n, 1 + draw(c, 200))) > 0;) {
        n += (size_t)got;
        if (draw(c, 4) == 0) usleep(500);
        if (n > sizeof c->answer - 300) break;
    }
    c->answer[n] = 0;
    close(fd);
}

static void stream(client *c) {
    char body[BODY];
    make_body(c, true, body);
    read_slowly(c, live_send("POST", "/v1/completions", body));
    if (!strstr(c->answer, " 200 ") || !strstr(c->answer, "data: [DONE]\n\n"))
        complain("a stream", c->answer);
}

static void vanish(client *c) {
    char body[BODY];
    make_body(c, draw(c, 2) == 0, body);
    const int fd = live_send("POST", "/v1/completions", body);
    if (draw(c, 2)) read_some(fd, c->answer, 1 + draw(c, 400));
    if (draw(c, 2)) usleep(draw(c, 3000));
    const struct linger now = {.l_onoff = 1}; /* a reset, not an end */
    if (draw(c, 2)) setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

static void be_answered(client *c, int status, int wanted) {
    json_t *json = json_loads(c->answer, 0, NULL);
    if (status != wanted || !json) complain("an answer", c->answer);
    json_decref(json);
}

static int ask(client *c, const char *method, const char *path, const char *body) {
    return live_ask(method, path, body, c->answer);
}

static void whole(client *c) {
    char body[BODY];
    make_body(c, false, body);
    be_answered(c, ask(c, "POST", "/v1/completions", body), 200);
    if (!strstr(c->answer, "\"finish_reason\":\"length\"")) complain("its end", c->answer);
}

static void nonsense(client *c) {
    static const char *const bodies[] = {"{", "{\"prompt\":7}", "[]", "{\"prompt\":\"a\",\"n\":-3}",
                                         "{\"prompt\":\"a\",\"max_tokens\":\"many\"}"};
    be_answered(c, ask(c, "POST", "/v1/completions", bodies[draw(c, 5)]), 400);
}

static void look_around(client *c) {
    static const char *const paths[] = {"/health", "/slots", "/props", "/v1/models"};
    be_answered(c, ask(c, "GET", paths[draw(c, 4)], ""), 200);
    if (ask(c, "GET", "/metrics", "") != 200) complain("metrics", c->answer);
    be_answered(c, ask(c, "POST", "/tokenize", "{\"content\":\"In the beginning\"}"), 200);
}

static void *be_client(void *context) {
    client *c = context;
    while (atomic_fetch_sub(&left, 1) > 0) {
        switch (draw(c, 8)) {
        case 0: nonsense(c); break;
        case 1: look_around(c); break;
        case 2:
        case 3: vanish(c); break;
        case 4:
        case 5: stream(c); break;
        default: whole(c); break;
        }
    }
    return NULL;
}

/* ---- the end ---- */

/* Those that vanished are found out soon. */
static void wait_for_quiet(uint64_t bytes) {
    mnem_scheduler_stats s;
    for (int i = 0; i < PATIENCE; i++, usleep(1000)) {
        s = live_stats();
        if (s.running + s.waiting == 0 && s.pages_private + s.pages_shared == 0 &&
            live_bytes() == bytes)
            return;
    }
    fail_msg("%d run, %d wait, %llu pages are theirs, %lld bytes more than at the start", s.running,
             s.waiting, (unsigned long long)(s.pages_private + s.pages_shared),
             (long long)(live_bytes() - bytes));
}

static void a_crowd_leaves_nothing_behind(void **state) {
    (void)state;
    live_open_with(&(api_options){0},
                   &(live_room){.sequences = 8, .pages_tokens = 256, .swap = "."});
    clients[0].state = 1;
    whole(&clients[0]); /* what is taken once is there */
    const uint64_t bytes = live_bytes();
    atomic_store(&left, requests);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i].state = (uint32_t)(i + 1) * 2654435769u;
        assert_int_equal(pthread_create(&clients[i].thread, NULL, be_client, &clients[i]), 0);
    }
    for (int i = 0; i < CLIENTS; i++) pthread_join(clients[i].thread, NULL);
    if (atomic_load(&wrong)) fail_msg("%d wrong; %s", atomic_load(&wrong), first_wrong);
    wait_for_quiet(bytes);
    const mnem_scheduler_stats s = live_stats();
    assert_int_equal(s.ended[MNEM_END_ERROR], 0);
    print_message("%d requests: %llu whole, %llu cancelled, set aside %llu times\n", requests,
                  (unsigned long long)s.ended[MNEM_END_LENGTH],
                  (unsigned long long)s.ended[MNEM_END_CANCELLED],
                  (unsigned long long)s.preemptions);
    live_close();
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_crowd_leaves_nothing_behind)};
    if (MNEM_SANITIZED) requests = 40;
    if (argc > 1) requests = atoi(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
