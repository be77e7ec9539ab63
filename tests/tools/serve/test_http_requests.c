/* test_http_requests.c: requests as clients send them, whole or in pieces, and what they get. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/serve/http_host.h"

static char text[3 << 20];

static int start(void **state) {
    (void)state;
    server_start(&(http_server_options){.connections = 8});
    return 0;
}

static int stop(void **state) {
    (void)state;
    server_stop();
    return 0;
}

static void a_request_is_answered_and_the_connection_stays(void **state) {
    (void)state;
    const int fd = client_open();
    for (int i = 0; i < 3; i++) {
        client_send(fd, "GET /hello HTTP/1.1\r\n" HOST "\r\n");
        const answer a = client_read(fd);
        assert_int_equal(a.status, 200);
        assert_string_equal(a.body, "hello\n");
        assert_non_null(strstr(a.head, "\r\nX-More: yes\r\n"));
        assert_non_null(strstr(a.head, "\r\nX-Content-Type-Options: nosniff\r\n"));
        assert_non_null(strstr(a.head, "\r\nDate: "));
        assert_non_null(strstr(a.head, " GMT\r\n"));
        assert_null(strstr(a.head, "Connection: close"));
        assert_null(strstr(a.head, "Access-Control"));
    }
    close(fd);
}

static void bytes_one_at_a_time_are_the_same_request(void **state) {
    (void)state;
    const int fd = client_open();
    client_dribble(fd, "GET /hello HTTP/1.1\r\n" HOST "\r\n");
    assert_string_equal(client_read(fd).body, "hello\n");
    client_dribble(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nabcde");
    assert_string_equal(client_read(fd).body, "abcde");
    client_dribble(fd, "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                       "3;why=not\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n");
    assert_string_equal(client_read(fd).body, "abcde");
    client_dribble(fd, "\r\n\r\nGET /hello HTTP/1.1\r\n" HOST "\r\n");
    assert_string_equal(client_read(fd).body, "hello\n");
    close(fd);
}

static void requests_sent_behind_one_another_are_answered_in_order(void **state) {
    (void)state;
    const int fd = client_open();
    client_send(fd, "POST /echo HTTP/1.1\r\n" HOST
                    "Content-Length: 3\r\n\r\noneGET /hello HTTP/1.1\r\n" HOST
                    "\r\nPOST /echo HTTP/1.1\r\n" HOST
                    "Transfer-Encoding: chunked\r\n\r\n3\r\ntwo\r\n0\r\n\r\n"
                    "GET /stream?9 HTTP/1.1\r\n" HOST "\r\nHEAD /hello HTTP/1.1\r\n" HOST
                    "\r\nGET /where HTTP/1.1\r\n" HOST "\r\n");
    assert_string_equal(client_read(fd).body, "one");
    assert_string_equal(client_read(fd).body, "hello\n");
    assert_string_equal(client_read(fd).body, "two");
    assert_int_equal(client_read(fd).bytes, 9 * CHUNK_BYTES);
    assert_non_null(strstr(client_read_head(fd).head, "Content-Length: 6\r\n"));
    assert_int_equal(strncmp(client_read(fd).body, "GET /where?", 11), 0);
    close(fd);
}

static void head_and_options_are_answered_from_the_table(void **state) {
    (void)state;
    const int fd = client_open();
    client_send(fd, "HEAD /hello HTTP/1.1\r\n" HOST "\r\nHEAD /stream?5 HTTP/1.1\r\n" HOST
                    "\r\nOPTIONS /echo HTTP/1.1\r\n" HOST "\r\nOPTIONS * HTTP/1.1\r\n" HOST
                    "\r\nGET /hello HTTP/1.1\r\n" HOST "\r\n");
    answer a = client_read_head(fd);
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.head, "Content-Length: 6\r\n"));
    assert_int_equal(client_read_head(fd).status, 200);
    a = client_read(fd);
    assert_int_equal(a.status, 204);
    assert_non_null(strstr(a.head, "\r\nAllow: POST, OPTIONS\r\n"));
    assert_int_equal(client_read(fd).status, 204);
    assert_string_equal(client_read(fd).body, "hello\n");
    close(fd);
}

static void headers_path_and_query_reach_the_handler(void **state) {
    (void)state;
    answer a = ask("GET /where/is%20it?a=b&c HTTP/1.1\r\n" HOST "user-agent: \t me too \t\r\n\r\n");
    assert_string_equal(a.body, "GET /where/is%20it?a=b&c key -1 agent me too");
    a = ask("GET http://localhost/where?x HTTP/1.1\r\n" HOST "User-Agent:\r\n\r\n");
    assert_string_equal(a.body, "GET /where?x key -1 agent ");
}

/* A body of n bytes that aren't all alike. */
static const char *make_body(size_t n) {
    for (size_t i = 0; i < n; i++) text[i] = (char)('a' + (i * 7 + i / 251) % 26);
    text[n] = 0;
    return text;
}

static void bodies_of_every_size_come_whole(void **state) {
    (void)state;
    static const size_t size[] = {0, 1, 15000, 16300, 16384, 17000, 32768, 33000, 900000, 1 << 20};
    const int fd = client_open();
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        char head[128];
        snprintf(head, sizeof head, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n",
                 size[i]);
        client_send(fd, head);
        client_send(fd, make_body(size[i]));
        const answer a = client_read(fd);
        assert_int_equal(a.status, 200);
        assert_int_equal(a.bytes, size[i]);
        assert_memory_equal(a.body, text, size[i]);
    }
    close(fd);
}

static void chunks_of_every_size_are_put_together(void **state) {
    (void)state;
    static const size_t size[] = {1, 7, 300, 5000, 16384, 40000, 300000};
    const size_t total = 600000;
    const int fd = client_open();
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        const size_t all = size[i] < 100 ? 50000 * size[i] : total;
        make_body(all);
        client_send(fd, "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: Chunked\r\n\r\n");
        for (size_t at = 0; at < all;) {
            char line[32];
            const size_t n = all - at < size[i] ? all - at : size[i];
            client_send_bytes(fd, line, (size_t)snprintf(line, sizeof line, "%zX\r\n", n));
            client_send_bytes(fd, text + at, n);
            client_send(fd, "\r\n");
            at += n;
        }
        client_send(fd, "0\r\n\r\n");
        const answer a = client_read(fd);
        assert_int_equal(a.bytes, all);
        assert_memory_equal(a.body, text, all);
    }
    close(fd);
}

static void a_client_that_asks_first_is_told_to_go_on(void **state) {
    (void)state;
    const int fd = client_open();
    client_send(fd,
                "POST /echo HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    assert_int_equal(client_read(fd).status, 100);
    client_send(fd, "abc");
    assert_string_equal(client_read(fd).body, "abc");
    client_send(fd, "POST /echo HTTP/1.1\r\n" HOST
                    "Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n");
    assert_int_equal(client_read(fd).status, 413);
    assert_true(client_ended(fd));
    close(fd);
}

static void old_clients_and_those_that_say_so_are_closed(void **state) {
    (void)state;
    static const char *const asks[] = {"GET /hello HTTP/1.0\r\n\r\n",
                                       "GET /hello HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n"};
    for (int i = 0; i < 2; i++) {
        const int fd = client_open();
        client_send(fd, asks[i]);
        const answer a = client_read(fd);
        assert_string_equal(a.body, "hello\n");
        assert_non_null(strstr(a.head, "Connection: close"));
        assert_true(client_ended(fd));
        close(fd);
    }
    const answer a = ask("GET /stream?3 HTTP/1.0\r\n\r\n");
    assert_false(a.chunked);
    assert_int_equal(a.bytes, 3 * CHUNK_BYTES);
}

static void an_answer_larger_than_the_buffers_arrives(void **state) {
    (void)state;
    answer a = ask("GET /large HTTP/1.1\r\n" HOST "\r\n");
    assert_int_equal(a.bytes, LARGE_BYTES);
    assert_int_equal(a.body[LARGE_BYTES - 1], 'l');
    a = ask("GET /stream?3000 HTTP/1.1\r\n" HOST "\r\n");
    assert_true(a.whole);
    assert_int_equal(a.bytes, 3000 * CHUNK_BYTES);
    for (int i = 0; i < 3000; i++) assert_int_equal(a.body[i * CHUNK_BYTES], 'a' + i % 26);
}

static void what_a_server_cannot_be_is_said(void **state) {
    (void)state;
    static const http_route none[] = {{0}};
    static const char *const empty[] = {""};
    const http_server_options bad[] = {
        {.host = "example.com", .handler.routes = none},
        {.port = 70000, .handler.routes = none},
        {.connections = -1, .handler.routes = none},
        {.header_bytes = 9, .handler.routes = none},
        {.bodies = 65, .handler.routes = none},
        {.inherited = true, .handler.routes = none},
        {.keys = empty, .key_count = 1, .handler.routes = none},
        {.port = 0},
    };
    http_server *server;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *why = NULL;
        assert_int_equal(http_server_create(&bad[i], &server, &why), MNEM_INVALID);
        assert_non_null(why);
        assert_null(server);
    }
    const char *why = NULL;
    const http_server_options taken = {.port = server_port(), .handler.routes = none};
    assert_int_equal(http_server_create(&taken, &server, &why), MNEM_IO);
    assert_non_null(strstr(why, "already in use"));
}

static void a_server_over_the_budget_is_not_made(void **state) {
    (void)state;
    static const http_route none[] = {{0}};
    mnem_ledger *ledger;
    http_server *server;
    const char *why = NULL;
    must(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = MIB}, &ledger));
    const http_server_options o = {.ledger = ledger, .handler.routes = none};
    assert_true(http_server_bytes(&o) > MIB);
    assert_int_equal(http_server_create(&o, &server, &why), MNEM_OVER_BUDGET);
    assert_non_null(strstr(why, "connections"));
    must(mnem_ledger_destroy(ledger));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_answered_and_the_connection_stays),
        cmocka_unit_test(bytes_one_at_a_time_are_the_same_request),
        cmocka_unit_test(requests_sent_behind_one_another_are_answered_in_order),
        cmocka_unit_test(head_and_options_are_answered_from_the_table),
        cmocka_unit_test(headers_path_and_query_reach_the_handler),
        cmocka_unit_test(bodies_of_every_size_come_whole),
        cmocka_unit_test(chunks_of_every_size_are_put_together),
        cmocka_unit_test(a_client_that_asks_first_is_told_to_go_on),
        cmocka_unit_test(old_clients_and_those_that_say_so_are_closed),
        cmocka_unit_test(an_answer_larger_than_the_buffers_arrives),
        cmocka_unit_test(what_a_server_cannot_be_is_said),
        cmocka_unit_test(a_server_over_the_budget_is_not_made),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
