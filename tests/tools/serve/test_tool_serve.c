/* test_tool_serve.c: `mnem serve` as a user has it: the process, its budget, its end, its page, and
 * what a service manager gives it. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/kit/tool_memory.h"
#include "tools/kit/tool_moment.h"
#include "tools/serve/http_client.h"
#include "tools/serve/tool_server.h"

#define GET(path) "GET " path " HTTP/1.1\r\n" HOST "\r\n"

static void it_serves_what_run_says(void **state) {
    (void)state;
    char want[300];
    const tool_result r = RUN("run", "--raw", "-p", "And God said", "-n", "6", "--temp", "0", "-q");
    assert_int_equal(r.code, 0);
    snprintf(want, sizeof want, "\"text\":\"%.*s", 12, r.out);
    const tool_server s = SERVE("-q");
    assert_int_equal(ask(GET("/health")).status, 200);
    const answer a = tool_post(
        "/v1/completions", "{\"prompt\": \"And God said\", \"max_tokens\": 6, \"temperature\": 0}");
    assert_int_equal(a.status, 200);
    if (!strstr(a.body, want)) fail_msg("%s isn't in %s", want, a.body);
    assert_non_null(strstr(ask(GET("/v1/models")).body, "\"id\":\"mnem-kjv-5m-q8_0\""));
    assert_int_equal(tool_serve_end(&s), 0);
}

static void the_plan_comes_before_and_says_what_conversations_cost(void **state) {
    (void)state;
    char said[4000];
    const tool_server s = SERVE("--memory", tool_memory(33 * MIB), "--parallel", "3");
    kill(s.pid, SIGTERM);
    size_t n = 0;
    for (ssize_t got; (got = read(s.err, said + n, sizeof said - 1 - n)) > 0;) n += (size_t)got;
    said[n] = 0;
    assert_int_equal(tool_wait(s.pid), 0);
    assert_non_null(strstr(said, "all in memory"));
    assert_non_null(strstr(said, "this server runs up to 3 conversations at a time, of up to 256 "
                                 "tokens each; its KV cache has space for "));
}

static void the_page_asks_nobody_else(void **state) {
    (void)state;
    const tool_server s = SERVE("-q", "--alias", "a \"name\"");
    answer a = ask(GET("/"));
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.head, "Content-Type: text/html; charset=utf-8\r\n"));
    assert_non_null(strstr(a.head, "Content-Security-Policy: default-src 'none'; "));
    assert_non_null(strstr(a.body, "<!doctype html>"));
    assert_null(strstr(a.body, "http:"));
    assert_null(strstr(a.body, "https:"));
    assert_null(strstr(a.body, " src="));
    a = ask(GET("/page.json"));
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.body, "{\"model\":\"a \\u0022name\\u0022\","));
    assert_non_null(strstr(a.body, "\"slots\":[[\"free\",0,0,0,0],"));
    assert_string_equal(a.body + a.bytes - 2, "}\n");
    assert_int_equal(tool_serve_end(&s), 0);
}

/* ---- the budget ---- */

static int connect_and_send(int i) {
    char text[500], body[300];
    snprintf(body, sizeof body,
             "{\"prompt\": \"Chapter %d. And it came to pass\", \"max_tokens\": %d, "
             "\"temperature\": 0, \"ignore_eos\": true}",
             i, MNEM_RELEASE ? 150 : 30);
    snprintf(text, sizeof text,
             "POST /v1/completions HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n%s", strlen(body),
             body);
    const int fd = client_open();
    client_send(fd, text);
    return fd;
}

static void text_of(const answer *a, char text[2000]) {
    const char *begin = strstr(a->body, "\"text\":\""), *stop = strstr(a->body, "\",\"logprobs\"");
    if (a->status != 200 || !begin || !stop) fail_msg("%d %s", a->status, a->body);
    snprintf(text, 2000, "%.*s", (int)(stop - begin), begin);
}

static void eight_clients_fit_where_one_conversation_does(void **state) {
    (void)state;
    static char alone[8][2000], together[2000];
    int fd[8];
    const uint64_t budget = tool_program_bytes() + 21 * MIB;
    const tool_server s = SERVE("-q", "--memory", tool_memory(21 * MIB));
    for (int i = 0; i < 8; i++) {
        fd[0] = connect_and_send(i);
        const answer a = client_read(fd[0]);
        text_of(&a, alone[i]);
        close(fd[0]);
    }
    for (int i = 0; i < 8; i++) fd[i] = connect_and_send(i);
    for (int i = 0; i < 8; i++) {
        const answer a = client_read(fd[i]);
        text_of(&a, together);
        assert_string_equal(together, alone[i]);
        close(fd[i]);
    }
    const uint64_t peak = tool_peak_of(s.pid);
    if (MNEM_RELEASE && peak > budget)
        fail_msg("%llu bytes of %llu", (unsigned long long)peak, (unsigned long long)budget);
    assert_int_equal(tool_serve_end(&s), 0);
}

/* jansson's lexer read behind its buffer when that couldn't grow. */
static void a_string_of_1_mib_is_told_its_bytes(void **state) {
    (void)state;
    char head[200];
    const uint64_t budget = tool_program_bytes() + 33 * MIB; /* a request's JSON has 2 MiB */
    char *body = malloc(MIB);
    const tool_server s = SERVE("-q", "--memory", tool_memory(33 * MIB));
    memset(body, 'a', MIB);
    memcpy(body, "{\"prompt\": \"", 12);
    memcpy(body + MIB - 2, "\"}", 2);
    snprintf(head, sizeof head,
             "POST /v1/completions HTTP/1.1\r\n" HOST "Content-Length: %llu\r\n\r\n",
             (unsigned long long)MIB);
    for (int i = 0; i < 3; i++) {
        const int fd = client_open();
        client_send(fd, head);
        client_send_bytes(fd, body, MIB);
        const answer a = client_read(fd);
        /* With more memory it is a prompt beyond the context. */
        assert_true(a.status == (MNEM_RELEASE ? 413 : 400));
        if (MNEM_RELEASE)
            assert_non_null(strstr(a.body, "needs more than 2097152 bytes of memory"));
        close(fd);
    }
    assert_int_equal(ask(GET("/health")).status, 200);
    const uint64_t peak = tool_peak_of(s.pid);
    if (MNEM_RELEASE && peak > budget)
        fail_msg("%llu bytes of %llu", (unsigned long long)peak, (unsigned long long)budget);
    assert_int_equal(tool_serve_end(&s), 0);
    free(body);
}

static void what_does_not_fit_is_refused_before(void **state) {
    (void)state;
    tool_result r = RUN("serve", "--port", "0", "--memory", "1M");
    assert_int_equal(r.code, 3);
    assert_string_equal(r.out, "");
    if (!MNEM_RELEASE) return; /* what sanitizers take differs from run to run */
    const uint64_t least = tool_least(&r);
    const char *less = tool_bytes(least - MIB);
    r = RUN("serve", "--port", "0", "--memory", less);
    assert_int_equal(tool_least(&r), least);
    assert_non_null(strstr(r.err, less));
    assert_string_equal(r.out, "");
}

/* With 200 conversations the budget has parts for requests beyond their least, which grow with it:
 * the one that is named includes its own. */
static void the_least_that_a_refusal_names_is_enough(void **state) {
    (void)state;
    static const char *const queues[] = {"32", "1024"}; /* 1024: 65 MiB of connections */
    if (!MNEM_RELEASE) skip();
    for (size_t i = 0; i < sizeof queues / sizeof *queues; i++) {
        tool_result r = RUN("serve", "--port", "0", "-t", "2", "--parallel", "200", "--queue",
                            queues[i], "--memory", "8M");
        const uint64_t least = tool_least(&r);
        assert_int_equal(least % 4096, 0);
        r = RUN("serve", "--port", "0", "-t", "2", "--parallel", "200", "--queue", queues[i],
                "--memory", tool_bytes(least - 8192));
        assert_int_equal(tool_least(&r), least);
        const tool_server s = SERVE("-q", "-t", "2", "--parallel", "200", "--queue", queues[i],
                                    "--memory", tool_bytes(least));
        assert_int_equal(tool_serve_end(&s), 0);
        if (i) assert_true(least > 64 * MIB);
    }
}

/* The parts that requests have a limit of, and the heap's rounding. */
static bool is_a_limit(const char *line) {
    static const char *const tag[] = {"\"requests\"", "\"grammars\"", "\"renderings\"",
                                      "\"reserve\""};
    const size_t n = strcspn(line, "\n");
    for (size_t i = 0; i < sizeof tag / sizeof *tag; i++)
        if (memmem(line, n, tag[i], strlen(tag[i]))) return true;
    return false;
}

/* Before the first request: the stack of the connections' thread, and the queue, too. */
static void what_is_charged_is_there_from_the_start(void **state) {
    (void)state;
    static const char name[] = "\nmnem_ledger_bytes{";
    uint64_t charged = 0;
    if (!MNEM_RELEASE) skip();
    const tool_server s = SERVE("-q", "-t", "2", "--memory", tool_memory(64 * MIB));
    const answer a = ask(GET("/metrics"));
    assert_int_equal(a.status, 200);
    for (const char *p = a.body; (p = strstr(p, name)); p++)
        if (!is_a_limit(p + 1)) charged += strtoull(strchr(p, '}') + 1, NULL, 10);
    assert_true(charged > 16 * MIB);
    const uint64_t peak = tool_peak_of(s.pid);
    if (peak + MIB / 2 < charged)
        fail_msg("%llu bytes of %llu", (unsigned long long)peak, (unsigned long long)charged);
    assert_int_equal(tool_serve_end(&s), 0);
}

/* Starts it with --json, and reads the line that it prints when it is ready. */
static pid_t serve_json(const char *const *args, char line[16384]) {
    int out, err;
    size_t n = 0;
    const pid_t pid = tool_start(args, &out, &err);
    memset(line, 0, 16384);
    for (ssize_t got; !strchr(line, '\n') && (got = read(out, line + n, 16383 - n)) > 0;)
        n += (size_t)got;
    close(out);
    close(err);
    return pid;
}

static uint64_t number_behind(const char *line, const char *key) {
    const char *at = strstr(line, key);
    if (!at) fail_msg("no %s in %s", key, line);
    return strtoull(at + strlen(key), NULL, 10);
}

static void assert_predicted(uint64_t predicted, uint64_t peak) {
    if (peak > predicted || peak + MIB < predicted)
        fail_msg("%llu bytes were predicted, %llu are there", (unsigned long long)predicted,
                 (unsigned long long)peak);
}

/* The areas for requests are no memory until one needs them: they are beside the predicted peak. */
static void the_predicted_peak_is_what_it_has(void **state) {
    (void)state;
    static const uint64_t more[] = {18 * MIB, 60 * MIB, 600 * MIB};
    char line[16384];
    if (!MNEM_RELEASE) skip();
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        const uint64_t part = (tool_program_bytes() + more[i]) / 64;
        const uint64_t area = part < MIB ? MIB : part > 8 * MIB ? 8 * MIB : part;
        const pid_t pid =
            serve_json((const char *const[]){"serve", "--port", "0", "--json", "-t", "2",
                                             "--memory", tool_memory(more[i]), NULL},
                       line);
        const uint64_t predicted = number_behind(line, "\"peak_bytes\":");
        assert_int_equal(number_behind(line, "\"kept_bytes\":"), 5 * area + MIB);
        tool_ready((int)number_behind(line, "\"port\":"));
        assert_predicted(predicted, tool_peak_of(pid));
        for (int n = 0; n < 20; n++)
            assert_int_equal(
                tool_post("/v1/completions", "{\"prompt\":\"And\",\"max_tokens\":2}").status, 200);
        assert_predicted(predicted, tool_peak_of(pid));
        kill(pid, SIGTERM);
        assert_int_equal(tool_wait(pid), 0);
    }
}

/* ---- the end ---- */

static void a_signal_lets_it_finish_what_it_has_begun(void **state) {
    (void)state;
    static const char body[] = "{\"prompt\": \"And\", \"max_tokens\": 240, \"stream\": true, "
                               "\"ignore_eos\": true}";
    char text[400], first[600];
    const tool_server s = SERVE("-q");
    const int fd = client_open();
    snprintf(text, sizeof text,
             "POST /v1/completions HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n%s", strlen(body),
             body);
    client_send(fd, text);
    assert_true(recv(fd, first, sizeof first, MSG_PEEK) > 0);
    kill(s.pid, SIGTERM);
    const answer a = client_read(fd);
    assert_true(a.whole);
    assert_non_null(strstr(a.body, "\"finish_reason\":\"length\""));
    assert_non_null(strstr(a.body, "data: [DONE]\n\n"));
    assert_int_equal(tool_wait(s.pid), 0);
    close(fd);
    close(s.out);
    close(s.err);
}

static void a_second_signal_ends_it_at_once(void **state) {
    (void)state;
    const tool_server s = SERVE("-q");
    const int fd = client_open();
    client_send(fd, "GET /hea"); /* it would wait for this one */
    for (int i = 0; i < 2; i++) assert_int_equal(ask(GET("/health")).status, 200); /* it has it */
    kill(s.pid, SIGTERM);
    moment_delivered(s.pid, SIGTERM);
    kill(s.pid, SIGTERM);
    assert_int_equal(tool_wait(s.pid), 128 + SIGTERM);
    close(fd);
    close(s.out);
    close(s.err);
}

/* ---- who may come in ---- */

static void keys_of_a_file_are_needed(void **state) {
    (void)state;
    const char *file = tool_file("keys.txt", "# ours\n  first-key  # of ann\n\r\nsecond-key\n");
    const tool_server s = SERVE("-q", "--api-key-file", file);
    assert_int_equal(ask(GET("/health")).status, 200);
    assert_int_equal(ask(GET("/")).status, 200);
    assert_int_equal(ask(GET("/page.json")).status, 401);
    assert_int_equal(ask(GET("/v1/models")).status, 401);
    assert_int_equal(
        ask("GET /v1/models HTTP/1.1\r\n" HOST "Authorization: Bearer second-key\r\n\r\n").status,
        200);
    assert_int_equal(tool_serve_end(&s), 0);
    assert_non_null(
        strstr(RUN("serve", "--port", "0", "--api-key-file", tool_file("none.txt", "# none\n")).err,
               "contains no API key"));
}

static void what_was_not_meant_is_wrong_usage(void **state) {
    (void)state;
    tool_result r = RUN("serve", "--host", "0.0.0.0");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "--host lets other machines connect: add --api-key-file FILE"));
    r = RUN("serve", "--parallel", "many");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "--parallel takes auto, or 1 to 256"));
    r = RUN("serve", "--port", "0", "--swap", tool_file("swap", "Dear all, eight"));
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "exists and is not a swap file of mnem; it was left unchanged"));
    assert_int_equal(RUN("serve", "--swap-max", "1G").code, 2);
    assert_int_equal(RUN("serve", "--host", "not.an.address", "--no-auth").code, 1);
}

static void a_port_that_is_taken_is_named(void **state) {
    (void)state;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    char port[16];
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, n), 0);
    assert_int_equal(listen(fd, 1), 0);
    getsockname(fd, (struct sockaddr *)&a, &n);
    snprintf(port, sizeof port, "%d", ntohs(a.sin_port));
    const tool_result r = RUN("serve", "--port", port, "-q");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "already in use; choose another --port (0: any free one)"));
    close(fd);
}

/* ---- service managers ---- */

static void a_service_manager_is_told_when_it_is_ready(void **state) {
    (void)state;
    char text[64] = "";
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    const struct timeval most = {20, 0};
    strcpy(a.sun_path, at("notify"));
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    unlink(a.sun_path);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    setenv("NOTIFY_SOCKET", a.sun_path, 1);
    const tool_server s = SERVE("-q");
    unsetenv("NOTIFY_SOCKET");
    assert_int_equal(recv(fd, text, sizeof text - 1, 0), 7);
    assert_string_equal(text, "READY=1");
    assert_int_equal(tool_serve_end(&s), 0);
    memset(text, 0, sizeof text);
    assert_int_equal(recv(fd, text, sizeof text - 1, 0), 10);
    assert_string_equal(text, "STOPPING=1");
    close(fd);
}

/* As systemd-socket-activate does: the socket is descriptor 3, the variables name the process. */
static pid_t start_with_socket(uint32_t address, int *port, int *out) {
    int ends[2];
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
    socklen_t n = sizeof a;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, n), 0);
    assert_int_equal(listen(fd, 8), 0);
    getsockname(fd, (struct sockaddr *)&a, &n);
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        char number[16];
        snprintf(number, sizeof number, "%d", (int)getpid());
        setenv("LISTEN_PID", number, 1);
        setenv("LISTEN_FDS", "1", 1);
        dup2(ends[1], STDOUT_FILENO);
        if (fd == 3 ? fcntl(fd, F_SETFD, 0) != 0 : dup2(fd, 3) != 3) _exit(1);
        execl(MNEM_COMMAND, "mnem", "serve", "-q", (char *)NULL);
        _exit(1);
    }
    close(ends[1]);
    close(fd);
    *port = ntohs(a.sin_port);
    *out = ends[0];
    return pid;
}

static void a_socket_that_came_with_the_process_is_used(void **state) {
    (void)state;
    char line[100] = "", want[100];
    int port, out;
    const pid_t pid = start_with_socket(INADDR_LOOPBACK, &port, &out);
    snprintf(want, sizeof want, "http://127.0.0.1:%d\n", port);
    assert_int_equal(read(out, line, sizeof line - 1), (ssize_t)strlen(want));
    assert_string_equal(line, want);
    client_to(port);
    assert_int_equal(ask(GET("/health")).status, 200);
    kill(pid, SIGTERM);
    assert_int_equal(tool_wait(pid), 0);
    close(out);
}

static void a_socket_for_others_needs_keys_too(void **state) {
    (void)state;
    int port, out;
    assert_int_equal(tool_wait(start_with_socket(INADDR_ANY, &port, &out)), 2);
    close(out);
}

static void json_has_the_address_and_the_plan(void **state) {
    (void)state;
    char line[16384];
    const pid_t pid = serve_json(
        (const char *const[]){"serve", "--port", "0", "--json", "--parallel", "2", NULL}, line);
    assert_non_null(strstr(line, "\"address\":\"http://127.0.0.1:"));
    assert_non_null(strstr(line, "\"parallel\":2,\"plan\":{"));
    assert_non_null(strstr(line, "\"type\":\"serving\"}\n"));
    kill(pid, SIGTERM);
    assert_int_equal(tool_wait(pid), 0);
}

/* ---- over a restart ---- */

/* Cached tokens of the prompt, as usage says it. */
static int ask_cached(void) {
    const answer a =
        tool_post("/v1/completions",
                  "{\"prompt\": \"In the beginning God created the heaven and the earth. And "
                  "the earth was without form, and void\", \"max_tokens\": 4}");
    const char *at = strstr(a.body, "\"cached_tokens\":");
    if (a.status != 200 || !at) fail_msg("%d %s", a.status, a.body);
    return atoi(at + strlen("\"cached_tokens\":"));
}

static void what_prompts_began_with_is_kept_where_asked(void **state) {
    (void)state;
    int cached[4];
    for (int i = 0; i < 4; i++) {
        const tool_server s = SERVE("-q", "--swap", "kept.swap", "--keep-cache");
        cached[i] = ask_cached();
        if (i == 2) kill(s.pid, SIGKILL); /* the next one finds nothing */
        const int code = tool_serve_end(&s);
        assert_true(i == 2 || code == 0);
    }
    assert_int_equal(cached[0], 0);
    assert_true(cached[1] > 16 && cached[2] == cached[1]);
    assert_int_equal(cached[3], 0);
    unlink("kept.swap");
    const tool_result r = RUN("serve", "--swap", ".", "--keep-cache");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "--keep-cache needs a swap file with a name"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_serves_what_run_says),
        cmocka_unit_test(the_plan_comes_before_and_says_what_conversations_cost),
        cmocka_unit_test(the_page_asks_nobody_else),
        cmocka_unit_test(eight_clients_fit_where_one_conversation_does),
        cmocka_unit_test(a_string_of_1_mib_is_told_its_bytes),
        cmocka_unit_test(what_does_not_fit_is_refused_before),
        cmocka_unit_test(the_least_that_a_refusal_names_is_enough),
        cmocka_unit_test(what_is_charged_is_there_from_the_start),
        cmocka_unit_test(the_predicted_peak_is_what_it_has),
        cmocka_unit_test(a_signal_lets_it_finish_what_it_has_begun),
        cmocka_unit_test(a_second_signal_ends_it_at_once),
        cmocka_unit_test(keys_of_a_file_are_needed),
        cmocka_unit_test(what_was_not_meant_is_wrong_usage),
        cmocka_unit_test(a_port_that_is_taken_is_named),
        cmocka_unit_test(a_service_manager_is_told_when_it_is_ready),
        cmocka_unit_test(a_socket_that_came_with_the_process_is_used),
        cmocka_unit_test(a_socket_for_others_needs_keys_too),
        cmocka_unit_test(json_has_the_address_and_the_plan),
        cmocka_unit_test(what_prompts_began_with_is_kept_where_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
