/* test_http_refused.c: what is no request, or isn't allowed, gets the status that says so; and the
 * server goes on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/serve/http_host.h"

typedef struct wrong {
    int status;
    const char *text;
} wrong;

#define POST       "POST /echo HTTP/1.1\r\n" HOST
#define CHUNKED    POST "Transfer-Encoding: chunked\r\n\r\n"
#define GET(lines) "GET /hello HTTP/1.1\r\n" HOST lines "\r\n"

static const wrong heads[] = {
    {400, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc"}, /* TLS */
    {400, "\x01"},
    {505, "GET /hello\r\n\r\n"},
    {400, "GET  /hello HTTP/1.1\r\n" HOST "\r\n"},
    {505, "GET /hello HTTP/1.1 \r\n" HOST "\r\n"},
    {400, " GET /hello HTTP/1.1\r\n" HOST "\r\n"},
    {400, "GET /he\tllo HTTP/1.1\r\n" HOST "\r\n"},
    {400, "GET /h\xc3\xa4llo HTTP/1.1\r\n" HOST "\r\n"},
    {400, "GET hello HTTP/1.1\r\n" HOST "\r\n"},
    {400, "GET ftp://localhost/hello HTTP/1.1\r\n" HOST "\r\n"},
    {400, "GET /hello HTTP/1.1\n" HOST "\r\n"},
    {400, "GET /hello HTTP/1.1\rX\n" HOST "\r\n"},
    {400, "GET /hello HTTP/1.1\r\n\r\n"}, /* no Host */
    {400, GET("Host: localhost\r\n")},
    {400, GET("A : b\r\n")},
    {400, GET("A b: c\r\n")},
    {400, GET(": c\r\n")},
    {400, GET("no colon\r\n")},
    {400, GET("A: b\r\n c\r\n")}, /* goes on in the next line */
    {400, GET(" A: b\r\n")},
    {400, GET("A: b\x01\r\n")},
    {400, GET("A: b\x7f\r\n")},
    {400, GET("A: b\rC: d\r\n")},
    {400, GET("A: b\nC: d\r\n")},
    {501, "BREW /pot HTTP/1.1\r\n" HOST "\r\n"},
    {501, "CONNECT localhost:1 HTTP/1.1\r\n" HOST "\r\n"},
    {505, "GET /hello HTTP/2.0\r\n" HOST "\r\n"},
    {505, "GET /hello HTTP/0.9\r\n" HOST "\r\n"},
    {505, "GET /hello HTTP/11.1\r\n" HOST "\r\n"},
    {417, GET("Expect: a miracle\r\n")},
    {415, POST "Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx"},
    {404, "GET /nothing HTTP/1.1\r\n" HOST "\r\n"},
    {404, "GET /hello/ HTTP/1.1\r\n" HOST "\r\n"},
    {404, "POST /nothing HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nabcde"},
    {404, "GET /../hello HTTP/1.1\r\n" HOST "\r\n"},
    {405, "POST /hello HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n"},
    {405, "DELETE /hello HTTP/1.1\r\n" HOST "\r\n"},
    {405, "HEAD /echo HTTP/1.0\r\n" HOST "\r\n"},
};

static const wrong lengths[] = {
    {400, POST "Content-Length: -1\r\n\r\n"},
    {400, POST "Content-Length: +1\r\n\r\nx"},
    {400, POST "Content-Length: 0x1\r\n\r\nx"},
    {400, POST "Content-Length: 1 1\r\n\r\nx"},
    {400, POST "Content-Length: 1, 1\r\n\r\nx"},
    {400, POST "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx"},
    {400, POST "Content-Length: 99999999999999999999999999\r\n\r\nx"},
    {400, POST "Content-Length: 18446744073709551616\r\n\r\nx"},
    {413, POST "Content-Length: 1800000000000000000\r\n\r\nx"},
    {413, POST "Content-Length: 1048577\r\n\r\n"},
    {400, POST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"},
    {400, POST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n"},
    {501, POST "Transfer-Encoding: gzip\r\n\r\n"},
    {501, POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
    {501, POST "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"},
    {501, POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"},
    {400, POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
    {400, "POST /echo HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
    {400, CHUNKED "-3\r\nabc\r\n"},
    {400, CHUNKED " 3\r\nabc\r\n"},
    {400, CHUNKED "3 \r\nabc\r\n"},
    {400, CHUNKED "0x3\r\nabc\r\n"},
    {400, CHUNKED "\r\nabc\r\n"},
    {400, CHUNKED "3\nabc\r\n"},
    {400, CHUNKED "3\rXabc\r\n"},
    {400, CHUNKED "3\r\nabcd\r\n"},
    {400, CHUNKED "3\r\nabc\rX0\r\n\r\n"},
    {400, CHUNKED "3\r\nabc0\r\n\r\n"},
    {400, CHUNKED "fffffffff\r\n"},
    {400, CHUNKED "3;\x01\r\nabc\r\n"},
    {400, CHUNKED "0\r\nA\x01: b\r\n\r\n"},
    {413, CHUNKED "ffffffff\r\n x"},
};

static void each_is(const wrong *list, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const int fd = client_open();
        client_send(fd, list[i].text);
        const bool head = strncmp(list[i].text, "HEAD", 4) == 0;
        const answer a = head ? client_read_head(fd) : client_read(fd);
        if (a.status != list[i].status)
            fail_msg("%d, not %d, for %s: %s", a.status, list[i].status, list[i].text, a.body);
        if (!head && !strstr(a.body, "{\"error\":{\"message\":\"")) fail_msg("%s", a.body);
        close(fd);
        assert_string_equal(ask(GET("")).body, "hello\n");
    }
}

static int start(void **state) {
    (void)state;
    server_start(&(http_server_options){.connections = 8, .header_seconds = 1, .body_seconds = 1});
    return 0;
}

static int stop(void **state) {
    (void)state;
    server_stop();
    return 0;
}

static void what_is_no_request_is_refused(void **state) {
    (void)state;
    each_is(heads, sizeof heads / sizeof *heads);
}

static void lengths_that_can_be_read_in_two_ways_are_refused(void **state) {
    (void)state;
    each_is(lengths, sizeof lengths / sizeof *lengths);
}

static void headers_have_an_end(void **state) {
    (void)state;
    static char text[200000];
    strcpy(text, "GET /hello HTTP/1.1\r\n" HOST "A: ");
    memset(text + strlen(text), 'a', 16000 - strlen(text));
    strcpy(text + 16000, "\r\n\r\n");
    assert_int_equal(ask(text).status, 200);
    memset(text + 16000, 'a', sizeof text - 16000 - 5);
    strcpy(text + sizeof text - 5, "\r\n\r\n");
    assert_int_equal(ask(text).status, 431);
    memset(text + 5, 'a', 20000); /* a path of these */
    assert_int_equal(ask(text).status, 431);
    char *at = text + sprintf(text, "GET /hello HTTP/1.1\r\n" HOST);
    for (int i = 0; i < 63; i++) at += sprintf(at, "A%d: b\r\n", i);
    strcpy(at, "\r\n");
    assert_int_equal(ask(text).status, 200);
    strcpy(at, "And: one\r\n\r\n");
    assert_int_equal(ask(text).status, 431);
}

static void a_body_in_chunks_has_an_end(void **state) {
    (void)state;
    static char chunk[0x8000];
    memset(chunk, 'c', sizeof chunk);
    const int fd = client_open();
    client_send(fd, CHUNKED);
    for (int i = 0; i < 33; i++) {
        client_send(fd, "8000\r\n");
        client_send_bytes(fd, chunk, sizeof chunk);
        client_send(fd, "\r\n");
    }
    assert_int_equal(client_read(fd).status, 413);
    close(fd);
    char line[400] = CHUNKED "1;";
    memset(line + strlen(line), 'e', 200);
    assert_int_equal(ask(line).status, 400);
}

/* As most clients do, it sends all of the body before it reads. */
static void a_body_that_is_much_too_large_is_answered(void **state) {
    (void)state;
    static char bytes[1 << 20];
    const int fd = client_open();
    client_send(fd, POST "Content-Length: 16777216\r\n\r\n");
    for (int i = 0; i < 16; i++) {
        for (size_t n = 0; n < sizeof bytes;) {
            const ssize_t sent = send(fd, bytes + n, sizeof bytes - n, MSG_NOSIGNAL);
            assert_true(sent > 0);
            n += (size_t)sent;
        }
        assert_int_equal(ask(GET("")).status, 200); /* it has read them */
    }
    assert_int_equal(client_read(fd).status, 413);
    close(fd);
}

static void a_refused_body_is_not_the_next_request(void **state) {
    (void)state;
    const int fd = client_open();
    client_send(fd, "POST /nothing HTTP/1.1\r\n" HOST "Content-Length: 60\r\n\r\n" GET(""));
    assert_int_equal(client_read(fd).status, 404);
    assert_true(client_ended(fd));
    close(fd);
}

static void a_refusal_without_a_body_keeps_the_connection(void **state) {
    (void)state;
    const int fd = client_open();
    client_send(fd, "GET /nothing HTTP/1.1\r\n" HOST "\r\n");
    assert_int_equal(client_read(fd).status, 404);
    client_send(fd, "PUT /echo HTTP/1.1\r\n" HOST "\r\n");
    const answer a = client_read(fd);
    assert_int_equal(a.status, 405);
    assert_non_null(strstr(a.head, "\r\nAllow: POST, OPTIONS\r\n"));
    client_send(fd, GET(""));
    assert_string_equal(client_read(fd).body, "hello\n");
    close(fd);
}

static void slow_headers_and_slow_bodies_end_in_time(void **state) {
    (void)state;
    static const char *const begun[] = {"GET /hel", "\r\n", POST "Content-Length: 9\r\n\r\nabc",
                                        CHUNKED "3\r\nab"};
    enum { BEGUN = sizeof begun / sizeof *begun };
    int fd[BEGUN];
    for (int i = 0; i < BEGUN; i++) client_send(fd[i] = client_open(), begun[i]);
    for (int k = 0; k < 13; k++) { /* a byte now and then doesn't help */
        server_skip(100);
        assert_int_equal(ask(GET("")).status, 200); /* it has seen the time */
        client_send(fd[0], "l");
    }
    for (int i = 0; i < BEGUN; i++) {
        assert_int_equal(client_read(fd[i]).status, 408);
        assert_true(client_ended(fd[i]));
        close(fd[i]);
    }
}

static void only_names_of_this_machine_are_answered(void **state) {
    (void)state;
    static const char *const good[] = {"localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:8080",
                                       "127.1.2.3", "[::1]",        "[::1]:1"};
    static const char *const bad[] = {"example.com",      "localhost.example.com",
                                      "localhost:80x",    "127.0.0.1.example.com",
                                      "128.0.0.1",        "",
                                      "127.0.0.1@b",      "evil.localhost",
                                      "[::1].example.com"};
    char text[200];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(text, sizeof text, "GET /hello HTTP/1.1\r\nHost: %s\r\n\r\n", good[i]);
        assert_int_equal(ask(text).status, 200);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(text, sizeof text, "GET /hello HTTP/1.1\r\nHost: %s\r\n\r\n", bad[i]);
        if (ask(text).status != 403) fail_msg("%s", bad[i]);
    }
}

static void pages_of_another_origin_are_not_answered(void **state) {
    (void)state;
    assert_int_equal(ask(GET("Origin: http://example.com\r\n")).status, 403);
    assert_int_equal(ask(GET("Origin: null\r\n")).status, 403);
    const answer a = ask(GET("Origin: http://localhost\r\n"));
    assert_int_equal(a.status, 200);
    assert_null(strstr(a.head, "Access-Control"));
}

/* No page of the web has their schemes. */
static void programs_of_the_desktop_are_answered(void **state) {
    (void)state;
    static const char *const good[] = {"app://obsidian.md", "tauri://localhost",
                                       "vscode-webview://0123", "vscode-file://vscode-app"};
    static const char *const bad[] = {"file://", "http://app", "https://tauri.localhost",
                                      "xapp://a"};
    char text[200];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(text, sizeof text, "GET /hello HTTP/1.1\r\n" HOST "Origin: %s\r\n\r\n", good[i]);
        const answer a = ask(text);
        snprintf(text, sizeof text, "\r\nAccess-Control-Allow-Origin: %s\r\n", good[i]);
        if (a.status != 200 || !strstr(a.head, text)) fail_msg("%s", good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(text, sizeof text, "GET /hello HTTP/1.1\r\n" HOST "Origin: %s\r\n\r\n", bad[i]);
        if (ask(text).status != 403) fail_msg("%s", bad[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_request_is_refused),
        cmocka_unit_test(lengths_that_can_be_read_in_two_ways_are_refused),
        cmocka_unit_test(headers_have_an_end),
        cmocka_unit_test(a_body_in_chunks_has_an_end),
        cmocka_unit_test(a_body_that_is_much_too_large_is_answered),
        cmocka_unit_test(a_refused_body_is_not_the_next_request),
        cmocka_unit_test(a_refusal_without_a_body_keeps_the_connection),
        cmocka_unit_test(slow_headers_and_slow_bodies_end_in_time),
        cmocka_unit_test(only_names_of_this_machine_are_answered),
        cmocka_unit_test(pages_of_another_origin_are_not_answered),
        cmocka_unit_test(programs_of_the_desktop_are_answered),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
