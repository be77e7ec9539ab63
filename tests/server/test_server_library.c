/* test_server_library.c: libmnem-serve as a user has it: linked with the two shared libraries
 * alone, through mnem/server.h. What it answers is what a session generates. */
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "mnem/mnem.h"
#include "mnem/server.h"

enum { CONTEXT = 64, TOKENS = 8, ANSWER = 16 << 10 };
#define PROMPT "In the beginning God created"
static const char path[] = MODEL;

static struct {
    mnem_ledger *ledger;
    mnem_model *model;
    mnem_tokenizer *tokenizer;
    mnem_engine *engine;
    mnem_scheduler *scheduler;
    mnem_server *server;
    int32_t context;
} all;

static void must(mnem_status status) {
    if (status != MNEM_OK) fail_msg("%s", mnem_last_error());
}

/* ---- what a session generates ---- */

static char expected[256]; /* as JSON writes it */
static size_t expected_bytes;

static bool keep(void *context, const char *text, size_t n) {
    (void)context;
    for (size_t i = 0; i < n && expected_bytes + 3 < sizeof expected; i++) {
        const bool line = text[i] == '\n';
        if (line) expected[expected_bytes++] = '\\';
        expected[expected_bytes++] = line ? 'n' : text[i];
    }
    return true;
}

static int generate(void **state) {
    mnem_opened o;
    (void)state;
    must(mnem_open(path, 1 << 30, &(mnem_engine_options){.context = CONTEXT}, &o));
    must(mnem_continue(&o, PROMPT, TOKENS, NULL, keep, NULL));
    mnem_close(&o);
    return *expected ? 0 : 1;
}

/* ---- a server ---- */

static void open_model(uint64_t budget) {
    must(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = budget}, &all.ledger));
    must(mnem_model_open(path, &all.model));
    must(mnem_tokenizer_create(all.model, &all.tokenizer));
}

static mnem_server_options usual(void) {
    return (mnem_server_options){.ledger = all.ledger,
                                 .model = all.model,
                                 .tokenizer = all.tokenizer,
                                 .name = "kjv",
                                 .connections = 4,
                                 .request_bytes = 1 << 20};
}

static void open_all(int listener) {
    mnem_server_options options;
    mnem_engine_options o = {.context = CONTEXT, .sequences = 2, .threads = 1};
    mnem_engine_plan plan;
    open_model(512 << 20);
    options = usual();
    options.listener = listener;
    must(mnem_server_create(&options, &all.server));
    o.ledger = all.ledger;
    must(mnem_engine_plan_make(all.model, &o, &plan));
    must(mnem_engine_create(all.model, &o, &plan, &all.engine));
    const int32_t end = mnem_server_end_token(all.server);
    must(mnem_scheduler_create(
        &(mnem_scheduler_options){
            .engine = all.engine, .tokenizer = all.tokenizer, .ends = &end, .end_count = end >= 0},
        &all.scheduler));
    all.context = plan.context;
}

/* The ledger's destroy fails where bytes are charged still. */
static void close_all(void) {
    mnem_scheduler_destroy(all.scheduler);
    mnem_engine_destroy(all.engine);
    mnem_server_destroy(all.server);
    mnem_tokenizer_destroy(all.tokenizer);
    mnem_model_close(all.model);
    must(mnem_ledger_destroy(all.ledger));
    memset(&all, 0, sizeof all);
}

/* ---- a client: false instead of an assertion, since it may be on a thread of its own ---- */

static bool ask(const char *line, const char *body, char answer[ANSWER]) {
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)mnem_server_port(all.server)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char request[1024];
    size_t n = 0;
    ssize_t got;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int bytes = snprintf(request, sizeof request,
                               "%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                               "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                               line, strlen(body), body);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0 &&
        send(fd, request, (size_t)bytes, MSG_NOSIGNAL) == bytes)
        while ((got = recv(fd, answer + n, ANSWER - 1 - n, 0)) > 0) n += (size_t)got;
    answer[n] = 0;
    close(fd);
    return n > 0;
}

static bool complete(char answer[ANSWER]) {
    return ask("POST /v1/completions",
               "{\"model\": \"kjv\", \"prompt\": \"" PROMPT "\", \"max_tokens\": 8, "
               "\"temperature\": 0}",
               answer);
}

static void check_completion(const char *answer) {
    char text[300];
    snprintf(text, sizeof text, "\"text\":\"%s\"", expected);
    assert_int_equal(strncmp(answer, "HTTP/1.1 200 ", 13), 0);
    if (!strstr(answer, text)) fail_msg("no %s in %s", text, answer);
}

/* ---- the tests ---- */

static mnem_status ended;

static void *run(void *unused) {
    (void)unused;
    ended = mnem_server_run(all.server, all.scheduler, all.context);
    return NULL;
}

static void test_two_requests(void **state) {
    static char answer[ANSWER], models[ANSWER], after[ANSWER];
    pthread_t thread;
    (void)state;
    open_all(0);
    must(mnem_server_start(all.server));
    assert_int_equal(mnem_server_start(all.server), MNEM_INVALID);
    bool more;
    assert_int_equal(mnem_server_step(all.server, all.scheduler, all.context, 0, &more),
                     MNEM_INVALID);
    assert_true(ask("GET /ready", "", answer)); /* no scheduler yet */
    assert_int_equal(strncmp(answer, "HTTP/1.1 503 ", 13), 0);
    ended = MNEM_BUSY;
    pthread_create(&thread, NULL, run, NULL);
    while (ask("GET /ready", "", answer) && strncmp(answer, "HTTP/1.1 200 ", 13) != 0) usleep(1000);
    assert_true(complete(answer));
    assert_true(ask("GET /v1/models", "", models));
    mnem_server_stop(all.server, true);
    pthread_join(thread, NULL);
    assert_int_equal(ended, MNEM_OK);
    check_completion(answer);
    assert_non_null(strstr(models, "kjv"));
    assert_false(ask("GET /v1/models", "", after)); /* nobody listens */
    assert_int_equal(mnem_server_run(all.server, all.scheduler, all.context), MNEM_INVALID);
    close_all();
}

static char stepped[ANSWER];

static void *ask_and_stop(void *unused) {
    (void)unused;
    complete(stepped);
    mnem_server_stop(all.server, true);
    return NULL;
}

static int listen_anywhere(void) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 4), 0);
    return fd;
}

/* Step by step, on a socket of the caller's. */
static void test_steps(void **state) {
    pthread_t thread;
    bool more = true;
    (void)state;
    open_all(listen_anywhere());
    pthread_create(&thread, NULL, ask_and_stop, NULL);
    while (more) must(mnem_server_step(all.server, all.scheduler, all.context, 50, &more));
    pthread_join(thread, NULL);
    check_completion(stepped);
    assert_int_equal(mnem_server_start(all.server), MNEM_INVALID);
    close_all();
}

static void refuse(const mnem_server_options *options, mnem_status status, const char *text) {
    mnem_server *server = (mnem_server *)&all;
    assert_int_equal(mnem_server_create(options, &server), status);
    assert_null(server);
    if (!strstr(mnem_last_error(), text)) fail_msg("no \"%s\" in %s", text, mnem_last_error());
}

static void test_refused(void **state) {
    static const char *const empty[] = {""};
    (void)state;
    open_model(64 << 20);
    mnem_server_options o = usual();
    o.ledger = NULL;
    refuse(&o, MNEM_INVALID, "options.ledger");
    o = usual();
    o.host = "nowhere";
    refuse(&o, MNEM_INVALID, "not a valid IPv4");
    o.host = "0.0.0.0";
    refuse(&o, MNEM_INVALID, "other machines can reach this address");
    o = usual();
    o.port = 65536;
    refuse(&o, MNEM_INVALID, "65535");
    o = usual();
    o.keys = empty;
    o.key_count = 1;
    refuse(&o, MNEM_INVALID, "1 to 255 bytes");
    o = usual();
    o.listener = STDERR_FILENO;
    refuse(&o, MNEM_INVALID, "not a listening socket");
    o = usual();
    o.request_bytes = 32 << 20;
    refuse(&o, MNEM_OVER_BUDGET, "needs 100663296 bytes");
    mnem_server *first;
    o = usual();
    must(mnem_server_create(&o, &first));
    o.port = mnem_server_port(first);
    refuse(&o, MNEM_IO, "can't listen");
    mnem_server_destroy(first); /* which never ran */
    close_all();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_requests),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, generate, NULL);
}
