/* test_http_local.c: requests of the process itself through a handler, without a socket. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "kit/kit.h"
#include "server/http/http_local.h"

enum { MOST = 4 };

static struct {
    http_server *server;
    http_exchange *late[MOST]; /* without an answer */
    int lates, gone, ticks;
    int status[16]; /* of sender i */
    char body[16][200];
    int64_t now;
} host;

static void on_echo(void *context, http_exchange *e, const http_request *request) {
    assert_ptr_equal(context, &host);
    assert_null(http_header(e, "Host"));
    assert_string_equal(request->method, "POST");
    assert_int_equal(request->body[request->body_bytes], 0);
    http_set(e, &host);
    assert_true(http_respond(e, 200, "text/plain", NULL, request->body, request->body_bytes));
    http_respond(e, 500, "text/plain", NULL, "twice", 5); /* is nothing */
}

static void on_late(void *context, http_exchange *e, const http_request *request) {
    (void)context;
    (void)request;
    http_set(e, &host);
    host.late[host.lates++] = e;
}

static void on_stream(void *context, http_exchange *e, const http_request *request) {
    (void)context;
    (void)request;
    http_stream_begin(e, 200, "text/event-stream", NULL);
    assert_true(http_stream_write(e, "data", 4)); /* goes nowhere */
    http_stream_end(e);
}

static void on_gone(void *context, http_exchange *e) {
    (void)context;
    host.gone++;
    for (int i = 0; i < host.lates; i++)
        if (host.late[i] == e) host.late[i] = NULL;
}

static void on_wake(void *context) {
    (void)context;
    for (int i = 0; i < host.lates; i++)
        if (host.late[i]) http_respond_borrowed(host.late[i], 201, NULL, NULL, "late", 4);
    host.lates = 0;
}

static void on_tick(void *context) {
    (void)context;
    host.ticks++;
}

static void on_answer(void *sender, int status, const void *body, size_t bytes) {
    const size_t i = (size_t)((int *)sender - host.status);
    assert_int_equal(host.status[i], 0);
    host.status[i] = status;
    snprintf(host.body[i], sizeof host.body[i], "%.*s", (int)bytes, (const char *)body);
}

static int64_t clock_ms(void) {
    return host.now;
}

static int begin(void **state) {
    static const http_route routes[] = {{"GET", "/get", on_echo, false},
                                        {"POST", "/echo", on_echo, false},
                                        {"POST", "/late", on_late, false},
                                        {"POST", "/stream", on_stream, false},
                                        {0}};
    const http_server_options options = {.connections = MOST,
                                         .clock_ms = clock_ms,
                                         .handler = {.context = &host,
                                                     .routes = routes,
                                                     .on_gone = on_gone,
                                                     .on_wake = on_wake,
                                                     .on_tick = on_tick}};
    const char *why;
    (void)state;
    memset(&host, 0, sizeof host);
    must(http_local_create(&options, on_answer, &host.server, &why));
    assert_true(http_local_bytes(&options) < http_server_bytes(&options) / 8);
    return 0;
}

static int end(void **state) {
    (void)state;
    http_server_destroy(host.server);
    return 0;
}

static bool send(const char *path, const char *body, int sender) {
    return http_local_send(host.server, path, body, strlen(body), &host.status[sender]);
}

static void an_answer_comes_during_the_call_or_after_a_wake(void **state) {
    (void)state;
    assert_true(send("/echo", "hi", 0));
    assert_int_equal(host.status[0], 200);
    assert_string_equal(host.body[0], "hi");
    assert_int_equal(host.gone, 1);
    assert_true(send("/late", "x", 1));
    assert_int_equal(host.status[1], 0);
    assert_true(http_local_turn(host.server, 0));
    assert_int_equal(host.status[1], 0);
    http_server_wake(host.server);
    assert_true(http_local_turn(host.server, 1000));
    assert_int_equal(host.status[1], 201);
    assert_string_equal(host.body[1], "late");
    assert_int_equal(host.gone, 2);
}

static void a_stream_is_refused(void **state) {
    (void)state;
    assert_true(send("/stream", "x", 0));
    assert_int_equal(host.status[0], 400);
    assert_non_null(strstr(host.body[0], "a batch has no streams"));
    assert_int_equal(host.gone, 1);
}

static void paths_that_are_none_and_too_many_requests_are_not_sent(void **state) {
    (void)state;
    assert_false(send("/get", "x", 0));
    assert_false(send("/ech", "x", 0));
    for (int i = 0; i < MOST; i++) assert_true(send("/late", "x", i));
    assert_false(send("/echo", "x", 9));
    http_server_wake(host.server);
    http_local_turn(host.server, 1000);
    for (int i = 0; i < MOST; i++) assert_int_equal(host.status[i], 201);
    assert_true(send("/echo", "x", 9));
}

static void ticks_are_a_second_apart(void **state) {
    (void)state;
    for (int i = 0; i < 50; i++) {
        host.now += 100;
        http_local_turn(host.server, 0);
    }
    assert_int_equal(host.ticks, 5);
}

static void *stop_later(void *server) {
    http_server_wake(server);
    http_server_stop(server, false);
    return NULL;
}

static void another_thread_wakes_and_stops_it(void **state) {
    (void)state;
    pthread_t thread;
    assert_true(send("/late", "x", 0));
    assert_int_equal(pthread_create(&thread, NULL, stop_later, host.server), 0);
    while (http_local_turn(host.server, 1000)) continue;
    pthread_join(thread, NULL);
    http_local_turn(host.server, 0); /* both may have come behind its look at wakes */
    assert_int_equal(host.status[0], 201);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_answer_comes_during_the_call_or_after_a_wake, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_stream_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(paths_that_are_none_and_too_many_requests_are_not_sent,
                                        begin, end),
        cmocka_unit_test_setup_teardown(ticks_are_a_second_apart, begin, end),
        cmocka_unit_test_setup_teardown(another_thread_wakes_and_stops_it, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
