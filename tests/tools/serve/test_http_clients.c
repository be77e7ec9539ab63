/* test_http_clients.c: clients that leave, read slowly, are too many or have a key; and the end of
 * a server. Each test has a server of its own. */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/serve/http_host.h"

#define GET(path) "GET " path " HTTP/1.1\r\n" HOST "\r\n"

static const http_server_options plain = {.connections = 8};

static bool one_waits(void) {
    return seen_waiting() == 1;
}

static bool none_waits(void) {
    return seen_waiting() == 0 && seen_requests() > 0;
}

/* What was sent before has arrived: it came before what this asks. */
static void let_arrive(void) {
    assert_string_equal(ask(GET("/hello")).body, "hello\n");
}

/* A client that waits for an answer. */
static int wait_for_later(void) {
    const int fd = client_open();
    client_send(fd, GET("/later"));
    assert_true(within(one_waits));
    return fd;
}

static void a_client_that_leaves_is_noticed_while_it_waits(void **state) {
    (void)state;
    server_start(&plain);
    close(wait_for_later());
    assert_true(within(none_waits));
    const int half = wait_for_later();
    shutdown(half, SHUT_WR);
    assert_true(within(none_waits));
    const int reset = wait_for_later();
    const struct linger hard = {1, 0};
    setsockopt(reset, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(reset);
    assert_true(within(none_waits));
    close(half);
    server_stop();
    assert_int_equal(last_stats().gone, 3);
    assert_int_equal(last_stats().exchanges, 0);
}

static void a_client_that_sent_more_is_noticed_too(void **state) {
    (void)state;
    server_start(&plain);
    const int fd = wait_for_later();
    client_send(fd, GET("/hello"));
    let_arrive();
    close(fd);
    assert_true(within(none_waits));
    assert_int_equal(seen_requests(), 2);
    server_stop();
}

static void what_is_answered_is_sent_to_a_client_that_has_shut_its_side(void **state) {
    (void)state;
    server_start(&plain);
    const int fd = client_open();
    client_send(fd, GET("/large"));
    shutdown(fd, SHUT_WR);
    assert_int_equal(client_read(fd).bytes, LARGE_BYTES);
    assert_true(client_ended(fd));
    close(fd);
    server_stop();
}

static void an_answer_may_come_from_another_thread_by_a_wake(void **state) {
    (void)state;
    server_start(&plain);
    const int fd = wait_for_later();
    answer_later();
    assert_string_equal(client_read(fd).body, "later");
    assert_true(seen_wakes() >= 1);
    close(fd);
    server_stop();
}

static void clients_vanish_at_any_byte(void **state) {
    (void)state;
    static const char text[] =
        "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    server_start(&plain);
    for (size_t n = 0; n < sizeof text; n++) {
        const int fd = client_open();
        client_send_bytes(fd, text, n);
        if (n % 2) shutdown(fd, SHUT_WR);
        close(fd);
    }
    assert_string_equal(ask(GET("/hello")).body, "hello\n");
    server_stop();
}

static void clients_vanish_within_streams(void **state) {
    (void)state;
    server_start(&plain);
    for (int i = 0; i < 40; i++) {
        char bytes[3000];
        const int fd = client_open();
        client_send(fd, GET("/stream?100000"));
        if (recv(fd, bytes, sizeof bytes, 0) <= 0) fail();
        close(fd);
    }
    assert_string_equal(ask(GET("/hello")).body, "hello\n");
    server_stop();
}

/* ---- slow ones ---- */

static void a_slow_reader_holds_up_nobody_and_is_left(void **state) {
    (void)state;
    server_start(&(http_server_options){.connections = 4, .write_seconds = 1});
    const int few = 4096, fd = client_open();
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &few, sizeof few);
    client_send(fd, GET("/stream?100000")); /* 70 MB, in 34 KiB of room */
    for (int i = 0; i < 30; i++) {
        char byte;
        if (recv(fd, &byte, 1, 0) != 1) break;
        assert_string_equal(ask(GET("/hello")).body, "hello\n");
        server_skip(50);
    }
    for (int i = 0; i < 60000 && seen_gone() < seen_requests(); i++) {
        server_skip(50);
        usleep(2000);
    }
    assert_int_equal(seen_gone(), seen_requests());
    close(fd);
    server_stop();
}

static void idle_clients_are_closed(void **state) {
    (void)state;
    server_start(&(http_server_options){.connections = 4, .idle_seconds = 1, .header_seconds = 1});
    const int silent = client_open(), fd = client_open();
    client_send(fd, GET("/hello"));
    assert_string_equal(client_read(fd).body, "hello\n");
    let_arrive();
    server_skip(1000);
    assert_true(client_ended(fd));
    assert_true(client_ended(silent));
    close(silent);
    close(fd);
    server_stop();
}

static void send_head(int fd, int bytes) {
    char head[128];
    snprintf(head, sizeof head, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: %d\r\n\r\n", bytes);
    client_send(fd, head);
}

static void a_slow_large_body_gives_its_buffer_to_who_waits(void **state) {
    (void)state;
    static char body[200000];
    memset(body, 'b', sizeof body);
    server_start(&(http_server_options){.connections = 8, .bodies = 1});
    const int slow = client_open(), small = client_open(), fast = client_open();
    send_head(slow, sizeof body);
    client_send(slow, "a few bytes");
    let_arrive();
    send_head(fast, sizeof body);
    let_arrive();
    send_head(small, 4); /* needs no buffer */
    client_send(small, "four");
    assert_string_equal(client_read(small).body, "four");
    server_skip(1000);
    client_send_bytes(fast, body, sizeof body);
    assert_int_equal(client_read(fast).bytes, sizeof body);
    assert_int_equal(client_read(slow).status, 408);
    close(slow);
    close(small);
    close(fast);
    server_stop();
}

static void who_waits_for_a_buffer_gets_it_or_is_told_to_come_again(void **state) {
    (void)state;
    static char body[1 << 20];
    server_start(&(http_server_options){.connections = 8, .bodies = 1, .body_seconds = 2});
    const int holder = client_open(), second = client_open(), third = client_open();
    send_head(holder, sizeof body);
    client_send_bytes(holder, body, 100000); /* not below the rate, but then over its time */
    let_arrive();
    server_skip(700);
    send_head(second, sizeof body);
    let_arrive();
    server_skip(100);
    send_head(third, sizeof body);
    let_arrive();
    server_skip(1200);
    assert_int_equal(client_read(holder).status, 408);
    let_arrive();
    server_skip(800);
    const answer a = client_read(third);
    assert_int_equal(a.status, 503);
    assert_non_null(strstr(a.head, "\r\nRetry-After: 1\r\n"));
    client_send_bytes(second, body, sizeof body);
    assert_int_equal(client_read(second).bytes, sizeof body);
    close(holder);
    close(second);
    close(third);
    server_stop();
}

/* ---- many ---- */

static void more_clients_than_slots_wait_their_turn(void **state) {
    (void)state;
    int fd[6];
    server_start(&(http_server_options){.connections = 2, .silent_seconds = 100});
    for (int i = 0; i < 6; i++) fd[i] = client_open();
    for (int i = 0; i < 6; i++) client_send(fd[i], GET("/hello"));
    for (int i = 0; i < 6; i++) {
        assert_string_equal(client_read(fd[i]).body, "hello\n");
        close(fd[i]);
    }
    server_stop();
}

enum { LONG = 1000000 };
static const http_server_options patient = {
    .connections = 3, .silent_seconds = 50, .header_seconds = LONG, .idle_seconds = LONG};

static void silent_clients_go_before_idle_ones(void **state) {
    (void)state;
    server_start(&patient);
    const int idle = client_open();
    client_send(idle, GET("/hello"));
    assert_int_equal(client_read(idle).status, 200);
    const int silent = client_open(), busy = wait_for_later(); /* in this order */
    server_skip(50000);
    const int late = client_open();
    client_send(late, GET("/hello"));
    assert_string_equal(client_read(late).body, "hello\n");
    assert_true(client_ended(silent));
    client_send(idle, GET("/hello"));
    assert_string_equal(client_read(idle).body, "hello\n");
    close(silent);
    close(busy);
    close(late);
    close(idle);
    server_stop();
}

static void silent_clients_shut_nobody_out(void **state) {
    (void)state;
    int silent[8];
    server_start(&patient);
    for (int i = 0; i < 8; i++) silent[i] = client_open();
    const int late = client_open();
    client_send(late, GET("/hello"));
    struct pollfd p = {late, POLLIN, 0};
    for (int i = 0; i < 200 && poll(&p, 1, 50) == 0; i++) server_skip(50000);
    assert_string_equal(client_read(late).body, "hello\n");
    for (int i = 0; i < 6; i++) assert_true(client_ended(silent[i])); /* the oldest */
    for (int i = 0; i < 8; i++) close(silent[i]);
    close(late);
    server_stop();
}

static void one_address_has_its_share_of_slots(void **state) {
    (void)state;
    server_start(&(http_server_options){.connections = 4, .connections_per_address = 2});
    const int a = wait_for_later(), b = client_open();
    client_send(b, GET("/hello"));
    assert_int_equal(client_read(b).status, 200);
    const int d = client_open(); /* takes the place of b, who is idle */
    assert_true(client_ended(b));
    client_send(d, "GET");
    const int c = client_open();
    assert_true(client_ended(c));
    close(c);
    close(a);
    for (int i = 0; i < 100; i++) {
        const int status = ask(GET("/hello")).status;
        if (status == 200) break;
        usleep(10000);
        if (i == 99) fail_msg("its slot isn't given back");
    }
    close(b);
    close(d);
    server_stop();
}

static void *ask_often(void *context) {
    int *good = context;
    for (int i = 0; i < 50; i++) {
        const int fd = client_open();
        char bytes[4096];
        client_send(fd, GET("/stream?3"));
        size_t n = 0;
        for (ssize_t got; n < 2100 && (got = recv(fd, bytes, sizeof bytes, 0)) > 0;)
            n += (size_t)got;
        *good += n >= 2100;
        close(fd);
    }
    return NULL;
}

static void many_clients_at_once_are_all_answered(void **state) {
    (void)state;
    pthread_t thread[16];
    int good[16] = {0};
    server_start(&(http_server_options){.connections = 5});
    for (int i = 0; i < 16; i++) pthread_create(&thread[i], NULL, ask_often, &good[i]);
    for (int i = 0; i < 16; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < 16; i++) assert_int_equal(good[i], 50);
    server_stop();
}

/* ---- keys, other pages ---- */

static const char *const keys[] = {"sk-first", "sk-second-and-longer"};

static int status_with(const char *header) {
    char text[700];
    snprintf(text, sizeof text, "GET /where HTTP/1.1\r\n" HOST "%s\r\n\r\n", header);
    return ask(text).status;
}

static void a_key_is_needed_where_there_are_keys(void **state) {
    (void)state;
    server_start(&(http_server_options){.connections = 4, .keys = keys, .key_count = 2});
    assert_int_equal(status_with("Authorization: Bearer sk-first"), 200);
    assert_int_equal(status_with("authorization: bearer   sk-second-and-longer"), 200);
    assert_non_null(
        strstr(ask("GET /where HTTP/1.1\r\n" HOST "X-Api-Key: sk-second-and-longer\r\n\r\n").body,
               " key 1 "));
    static const char *const bad[] = {"A: b",
                                      "Authorization: Bearer",
                                      "Authorization: Bearer ",
                                      "Authorization: Bearer sk-firs",
                                      "Authorization: Bearer sk-firstx",
                                      "Authorization: sk-first",
                                      "Authorization: Basic sk-first",
                                      "X-Api-Key:",
                                      "X-Api-Key: sk-First"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (status_with(bad[i]) != 401) fail_msg("%s", bad[i]);
    char huge[600] = "X-Api-Key: ";
    memset(huge + 11, 'k', 500);
    assert_int_equal(status_with(huge), 401);
    assert_int_equal(ask(GET("/hello")).status, 200); /* open */
    assert_non_null(strstr(ask(GET("/where")).head, "WWW-Authenticate: Bearer\r\n"));
    server_stop();
}

static void other_pages_may_ask_where_they_are_named(void **state) {
    (void)state;
    static const char flight[] = "OPTIONS /where HTTP/1.1\r\n" HOST "Origin: http://app.test\r\n"
                                 "Access-Control-Request-Method: GET\r\n\r\n";
    server_start(&(http_server_options){
        .connections = 4, .cors = "http://app.test", .keys = keys, .key_count = 2});
    answer a = ask(flight);
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.head, "\r\nAccess-Control-Allow-Origin: http://app.test\r\n"));
    /* Clients add headers of their own; "*" is all but Authorization. */
    assert_non_null(strstr(a.head, "\r\nAccess-Control-Allow-Headers: Authorization, Content-Type, "
                                   "X-Api-Key, *\r\n"));
    a = ask("GET /hello HTTP/1.1\r\n" HOST "Origin: http://app.test\r\n\r\n");
    assert_non_null(strstr(a.head, "\r\nAccess-Control-Allow-Origin: http://app.test\r\n"));
    assert_int_equal(ask("GET /hello HTTP/1.1\r\n" HOST "Origin: http://b.test\r\n\r\n").status,
                     403);
    server_stop();
}

static void pages_of_this_machine_may_ask(void **state) {
    (void)state;
    static const struct {
        const char *origin;
        int status;
    } rows[] = {{"http://localhost", 200},         {"http://localhost:3000", 200},
                {"http://127.0.0.1:3000", 200},    {"https://[::1]:8080", 200},
                {"http://notlocalhost", 403},      {"http://localhost.example.com", 403},
                {"http://127.0.0.1.test:80", 403}, {"http://localhost:80.test", 403}};
    char text[256];
    server_start(&(http_server_options){
        .connections = 4, .cors = "localhost", .keys = keys, .key_count = 2});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(text, sizeof text, "GET /hello HTTP/1.1\r\n" HOST "Origin: %s\r\n\r\n",
                 rows[i].origin);
        assert_int_equal(ask(text).status, rows[i].status);
    }
    server_stop();
}

/* ---- the end ---- */

static void a_drain_answers_what_was_asked(void **state) {
    (void)state;
    server_start(&plain);
    const int idle = client_open(), fd = client_open();
    client_send(idle, GET("/hello"));
    assert_int_equal(client_read(idle).status, 200);
    client_send(fd, GET("/later"));
    assert_true(within(one_waits));
    server_drain();
    assert_true(client_ended(idle));
    answer_later();
    assert_string_equal(client_read(fd).body, "later");
    assert_true(client_ended(fd));
    close(fd);
    close(idle);
    server_wait();
}

static void a_stop_leaves_everybody(void **state) {
    (void)state;
    server_start(&plain);
    const int fd = wait_for_later(), idle = client_open();
    client_send(idle, GET("/hello"));
    assert_int_equal(client_read(idle).status, 200);
    server_drain();
    assert_true(client_ended(idle)); /* it drains */
    close(idle);
    assert_int_equal(seen_waiting(), 1);
    server_stop();
    assert_int_equal(client_read(fd).status, 0);
    close(fd);
}

static void ticks_come_about_once_a_second(void **state) {
    (void)state;
    server_start(&plain);
    for (int i = 0; i < 12; i++) {
        let_arrive();
        server_skip(250);
    }
    let_arrive();
    assert_in_range(seen_ticks(), 3, 6);
    server_stop();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_that_leaves_is_noticed_while_it_waits),
        cmocka_unit_test(a_client_that_sent_more_is_noticed_too),
        cmocka_unit_test(what_is_answered_is_sent_to_a_client_that_has_shut_its_side),
        cmocka_unit_test(an_answer_may_come_from_another_thread_by_a_wake),
        cmocka_unit_test(clients_vanish_at_any_byte),
        cmocka_unit_test(clients_vanish_within_streams),
        cmocka_unit_test(a_slow_reader_holds_up_nobody_and_is_left),
        cmocka_unit_test(idle_clients_are_closed),
        cmocka_unit_test(a_slow_large_body_gives_its_buffer_to_who_waits),
        cmocka_unit_test(who_waits_for_a_buffer_gets_it_or_is_told_to_come_again),
        cmocka_unit_test(more_clients_than_slots_wait_their_turn),
        cmocka_unit_test(silent_clients_go_before_idle_ones),
        cmocka_unit_test(silent_clients_shut_nobody_out),
        cmocka_unit_test(one_address_has_its_share_of_slots),
        cmocka_unit_test(many_clients_at_once_are_all_answered),
        cmocka_unit_test(a_key_is_needed_where_there_are_keys),
        cmocka_unit_test(other_pages_may_ask_where_they_are_named),
        cmocka_unit_test(pages_of_this_machine_may_ask),
        cmocka_unit_test(a_drain_answers_what_was_asked),
        cmocka_unit_test(a_stop_leaves_everybody),
        cmocka_unit_test(ticks_come_about_once_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
