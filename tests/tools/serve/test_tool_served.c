/* test_tool_served.c: what `mnem serve` serves beside conversations as the model has them: vectors,
 * another template, an encoder. */
#include <arpa/inet.h>
#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/kit/tool_memory.h"
#include "tools/serve/tool_server.h"

static const char *const bert = MNEM_SOURCE "/tests/data/architectures/bert.gguf";

/* The first component of a line, or of an answer. */
static double first_of(const char *text) {
    const char *list = strstr(text, "\"embedding\":[");
    return strtod(list ? list + 13 : text, NULL);
}

static void vectors_are_those_of_mnem_embed(void **state) {
    (void)state;
    const double want = first_of(RUN("embed", bert, "a cat", "-q").out);
    const tool_server s = SERVE(bert, "-q");
    const answer a = tool_post("/v1/embeddings", "{\"input\": [\"a dog\", \"a cat\"]}");
    assert_int_equal(a.status, 200);
    const char *second = strstr(a.body, "\"index\":1,");
    assert_non_null(second);
    assert_true(want != 0 && fabs(first_of(second) - want) < 1e-5);
    assert_int_equal(tool_post("/v1/completions", "{\"prompt\": \"a\"}").status, 400);
    assert_int_equal(tool_serve_end(&s), 0);
}

static void a_model_of_text_has_vectors_where_it_is_told_how(void **state) {
    (void)state;
    const double want =
        first_of(RUN("embed", tool_model, "In the beginning", "--pooling", "last", "-q").out);
    tool_server s = SERVE("-q", "--pooling", "last");
    const answer a = tool_post("/v1/embeddings", "{\"input\": \"In the beginning\"}");
    assert_int_equal(a.status, 200);
    assert_true(want != 0 && fabs(first_of(a.body) - want) < 1e-5);
    assert_int_equal(tool_serve_end(&s), 0);
    s = SERVE("-q");
    assert_int_equal(tool_post("/v1/embeddings", "{\"input\": \"a\"}").status, 400);
    assert_int_equal(tool_serve_end(&s), 0);
}

static void another_template_and_its_variables_are_used(void **state) {
    (void)state;
    static const char chat[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]%s}";
    char body[200];
    const char *file = tool_file("odd.jinja", "{{ word }}/{{ other }}:"
                                              "{% for m in messages %}{{ m.content }}{% endfor %}");
    const tool_server s =
        SERVE("-q", "--template", file, "--template-args", "{\"word\": \"And\", \"other\": 1}");
    snprintf(body, sizeof body, chat, "");
    assert_non_null(strstr(tool_post("/apply-template", body).body, "\"And/1:Hi\""));
    snprintf(body, sizeof body, chat, ", \"chat_template_kwargs\": {\"other\": 2}");
    assert_non_null(strstr(tool_post("/apply-template", body).body, "\"And/2:Hi\""));
    assert_int_equal(tool_serve_end(&s), 0);
    assert_int_equal(RUN("serve", "--template-args", "[1]").code, 2);
    assert_int_equal(RUN("serve", "--port", "0", "--template", "/nowhere.jinja").code, 1);
    assert_int_equal(
        RUN("serve", "--port", "0", "--template", tool_file("bad.jinja", "{% if %}")).code, 1);
}

/* Of what was asked all is answered, or the connection ends; nothing is read once it is freed. */
static void a_signal_while_texts_become_tokens_harms_nothing(void **state) {
    (void)state;
    enum { CLIENTS = 4, BYTES = 200 << 10 };
    char head[200], *body = malloc(BYTES + 1);
    int fd[CLIENTS];
    memset(body, 'a', BYTES);
    for (size_t i = 7; i < BYTES; i += 7) body[i] = ' ';
    memcpy(body, "{\"content\": \"", 13);
    memcpy(body + BYTES - 2, "\"}", 2);
    snprintf(head, sizeof head, "POST /tokenize HTTP/1.1\r\n" HOST "Content-Length: %d\r\n\r\n",
             (int)BYTES);
    const tool_server s = SERVE("-q");
    for (int i = 0; i < CLIENTS; i++) {
        fd[i] = client_open();
        client_send(fd[i], head);
        client_send_bytes(fd[i], body, BYTES);
    }
    kill(s.pid, SIGTERM);
    for (int i = 0; i < CLIENTS; i++) {
        const answer a = client_read(fd[i]);
        assert_true(a.status == 0 || a.status == 200 || a.status == 503);
        close(fd[i]);
    }
    assert_int_equal(tool_wait(s.pid), 0);
    close(s.out);
    close(s.err);
    free(body);
}

static int files_in(const char *folder) {
    int n = 0;
    DIR *list = opendir(folder);
    assert_non_null(list);
    for (const struct dirent *at; (at = readdir(list));) n += at->d_name[0] != '.';
    closedir(list);
    return n;
}

static void a_kill_leaves_no_swap_file_and_it_starts_again(void **state) {
    (void)state;
    char folder[200];
    snprintf(folder, sizeof folder, "%s/swap.d", tool_scratch());
    mkdir(folder, 0700);
    for (int i = 0; i < 2; i++) {
        const tool_server s = SERVE("-q", "--swap", folder, "--swap-max", "64M");
        assert_int_equal(
            tool_post("/v1/completions", "{\"prompt\": \"And\", \"max_tokens\": 4}").status, 200);
        assert_int_equal(files_in(folder), 0);
        kill(s.pid, SIGKILL);
        assert_int_equal(tool_wait(s.pid), 128 + SIGKILL);
        assert_int_equal(files_in(folder), 0);
        close(s.out);
        close(s.err);
    }
    rmdir(folder);
}

/* ---- systemd ---- */

#define ACTIVATE "/usr/bin/systemd-socket-activate"

/* A port that was free a moment ago, as systemd-socket-activate takes no 0. */
static int free_port(void) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, n), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    close(fd);
    return ntohs(a.sin_port);
}

/* Returns once it listens, and the server isn't there yet. */
static pid_t activate(int port, int *err) {
    char address[32], said[200] = "";
    int ends[2];
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl(ACTIVATE, "systemd-socket-activate", "-E", "MNEM_HISTORY=off", "-l", address,
              MNEM_COMMAND, "serve", "-q", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    for (size_t n = 0; n < sizeof said - 1 && !strchr(said, '\n'); n++)
        if (read(ends[0], said + n, 1) != 1) fail_msg("it doesn't listen: %s", said);
    assert_non_null(strstr(said, address));
    *err = ends[0];
    return pid;
}

static void systemd_starts_it_for_the_first_client(void **state) {
    (void)state;
    if (access(ACTIVATE, X_OK) != 0) {
        print_message("skipped: there is no " ACTIVATE "\n");
        skip();
    }
    int err;
    const int port = free_port();
    const pid_t pid = activate(port, &err);
    client_to(port);
    for (int status = 503; status != 200;) { /* it loads, or it is there */
        status = ask(GET("/health")).status;
        assert_true(status == 503 || status == 200);
    }
    assert_int_equal(
        tool_post("/v1/completions", "{\"prompt\": \"And\", \"max_tokens\": 4}").status, 200);
    kill(pid, SIGTERM);
    assert_int_equal(tool_wait(pid), 0);
    close(err);
}

static json_t *whole_line(answer a) {
    json_error_t error;
    json_t *root = json_loads(a.body, 0, &error);
    if (!root) fail_msg("%s: %s", error.text, a.body);
    assert_string_equal(a.body + a.bytes - 2, "}\n");
    return root;
}

/* An error that the connection finds, and one that the API finds. */
static void errors_have_one_form(void **state) {
    (void)state;
    const tool_server s = SERVE("-q");
    const answer of_connection = ask(GET("/embedding"));
    assert_int_equal(of_connection.status, 404);
    assert_non_null(strstr(of_connection.body, "use POST /v1/embeddings; GET / is a chat page"));
    json_t *a = whole_line(of_connection);
    const answer of_api = tool_post("/v1/completions", "{\"prompt\": 1}");
    assert_int_equal(of_api.status, 400);
    json_t *b = whole_line(of_api),
           *errors[] = {json_object_get(a, "error"), json_object_get(b, "error")};
    static const char *const types[] = {"not_found_error", "invalid_request_error"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(json_object_size(errors[i]), 4);
        assert_true(json_is_string(json_object_get(errors[i], "message")));
        assert_string_equal(json_string_value(json_object_get(errors[i], "type")), types[i]);
        assert_true(json_is_null(json_object_get(errors[i], "code")));
    }
    json_decref(a);
    json_decref(b);
    static const char *const paths[] = {GET("/health"), GET("/v1/models"), GET("/props")};
    for (int i = 0; i < 3; i++) json_decref(whole_line(ask(paths[i])));
    json_decref(whole_line(tool_post("/v1/completions", "{\"prompt\": \"a\", \"max_tokens\": 1}")));
    /* Ollama's have a text. */
    const answer of_ollama = ask(GET("/api/me"));
    assert_int_equal(of_ollama.status, 404);
    json_t *c = whole_line(of_ollama);
    assert_true(json_is_string(json_object_get(c, "error")));
    json_decref(c);
    assert_int_equal(tool_serve_end(&s), 0);
}

/* The page, the API and the line at the start name one number. */
static void all_name_one_number_of_conversations(void **state) {
    (void)state;
    const tool_server s = SERVE("-q", "--parallel", "3");
    assert_non_null(strstr(ask(GET("/props")).body, "\"total_slots\":3,"));
    assert_non_null(strstr(ask(GET("/page.json")).body, "\"parallel\":3,"));
    assert_int_equal(tool_serve_end(&s), 0);
}

static void states_and_snapshots_are_counted(void **state) {
    (void)state;
    char said[4000];
    static const char model[] = MNEM_SOURCE "/tests/data/architectures/qwen35.gguf";
    const tool_server s = SERVE(model, "--memory", tool_memory(256 * MIB), "--parallel", "2");
    kill(s.pid, SIGTERM);
    size_t n = 0;
    for (ssize_t got; (got = read(s.err, said + n, sizeof said - 1 - n)) > 0;) n += (size_t)got;
    said[n] = 0;
    assert_int_equal(tool_wait(s.pid), 0);
    assert_non_null(
        strstr(said, "the model's recurrent layers have 4 live states and up to 32 snapshots, "
                     "11 KiB each\n"));
}

/* Within the least all have a short context, and the scheduler's books are those of it. */
static void many_conversations_take_what_their_plan_says(void **state) {
    (void)state;
    char line[16384] = "";
    int out, err;
    if (!MNEM_RELEASE) skip(); /* sanitizers take bytes of their own */
    const char *args[] = {"serve",    "--port", "0",      "--parallel", "256", "--queue", "16",
                          "--memory", "1M",     "--json", "-t",         "1",   NULL};
    const tool_result refusal = tool_run(NULL, args);
    args[8] = tool_bytes(tool_least(&refusal));
    const pid_t pid = tool_start(args, &out, &err);
    for (ssize_t n = 0, got; !strchr(line, '\n'); n += got)
        if ((got = read(out, line + n, sizeof line - 1 - (size_t)n)) <= 0) fail_msg("no plan");
    const char *at = strstr(line, "\"peak_bytes\":"), *port = strstr(line, "\"port\":");
    assert_true(at && port);
    tool_ready(atoi(port + 7));
    const uint64_t peak = tool_peak_of(pid);
    kill(pid, SIGTERM);
    assert_int_equal(tool_wait(pid), 0);
    close(out);
    close(err);
    const uint64_t predicted = strtoull(at + 13, NULL, 10);
    if (peak > predicted || peak + MIB < predicted)
        fail_msg("%llu bytes were predicted, %llu are there", (unsigned long long)predicted,
                 (unsigned long long)peak);
}

/* ---- what a log has ---- */

/* Standard error of a server up to its end, which comes once it has started. */
static const char *log_of(const char *const *args) {
    static char text[1 << 16];
    char line[256];
    int out, err;
    size_t n = 0;
    const pid_t pid = tool_start(args, &out, &err);
    if (read(out, line, sizeof line) <= 0) fail_msg("no address");
    kill(pid, SIGTERM);
    for (ssize_t got; n < sizeof text - 1; n += (size_t)got)
        if ((got = read(err, text + n, sizeof text - 1 - n)) <= 0) break;
    text[n] = 0;
    assert_int_equal(tool_wait(pid), 0);
    close(out);
    close(err);
    return text;
}

/* A line every MNEM_PROGRESS seconds. */
static void a_start_without_a_terminal_says_how_far_it_is(void **state) {
    (void)state;
    const char *args[] = {"serve", tool_model, "--port", "0", "-t", "1", "--ctx", "64", NULL, NULL};
    setenv("MNEM_PROGRESS", "0.000001", 1);
    const char *text = log_of(args);
    if (!strstr(text, "loading ") || !strstr(text, " %")) fail_msg("%s", text);
    assert_null(strstr(text, "\033"));
    args[8] = "-q";
    assert_null(strstr(log_of(args), "loading "));
    args[8] = NULL;
    setenv("MNEM_PROGRESS", "0", 1);
    assert_null(strstr(log_of(args), "loading "));
    unsetenv("MNEM_PROGRESS");
}

/* ---- --dry-run ---- */

/* The object of the first line that a server with --json prints. */
static json_t *started(const char *const *args) {
    char line[16384] = "";
    int out, err;
    const pid_t pid = tool_start(args, &out, &err);
    for (ssize_t n = 0, got; !strchr(line, '\n'); n += got)
        if ((got = read(out, line + n, sizeof line - 1 - (size_t)n)) <= 0) fail_msg("no plan");
    kill(pid, SIGTERM);
    assert_int_equal(tool_wait(pid), 0);
    close(out);
    close(err);
    json_t *object = json_loads(line, 0, NULL);
    assert_non_null(object);
    return object;
}

/* Sanitizers take bytes of their own, which differ from run to run, and so do plans then. */
static bool varies(const json_t *value) {
    return !MNEM_RELEASE && !json_is_string(value);
}

static void assert_same_plan(const char *const *args, const char *const *dry_args) {
    json_t *real = started(args), *dry = tool_last_object(tool_run(NULL, dry_args)), *value;
    const char *key;
    json_object_foreach(json_object_get(real, "plan"), key, value) {
        assert_non_null(json_object_get(dry, key));
        if (!varies(value) && !json_equal(value, json_object_get(dry, key)))
            fail_msg("%s: a dry run says something else than the start", key);
    }
    if (MNEM_RELEASE)
        assert_true(
            json_equal(json_object_get(real, "parallel"), json_object_get(dry, "parallel")));
    assert_true(json_equal(json_object_get(real, "model"), json_object_get(dry, "model_name")));
    assert_int_equal(json_integer_value(json_object_get(dry, "kv_tokens")),
                     json_integer_value(json_object_get(dry, "pages")) *
                         json_integer_value(json_object_get(dry, "page_tokens")));
    json_decref(real);
    json_decref(dry);
}

static void a_dry_run_has_the_plan_of_the_start(void **state) {
    (void)state;
    static const uint64_t budgets[] = {20 * MIB, 33 * MIB, 64 * MIB};
    static const char *const models[] = {NULL, MNEM_SOURCE "/tests/data/architectures/qwen35.gguf",
                                         MNEM_SOURCE "/tests/data/architectures/bert.gguf"};
    for (int i = 0; i < 9; i++) {
        const char *model = models[i / 3] ? models[i / 3] : tool_model;
        const char *memory = tool_memory(budgets[i % 3]);
        const char *real[] = {"serve",  model,    "--memory", memory,       "-t",
                              "1",      "--ctx",  "64",       "--parallel", i % 2 ? "3" : "auto",
                              "--json", "--port", "0",        NULL};
        const char *dry[] = {"serve",  model,       "--memory", memory,       "-t",
                             "1",      "--ctx",     "64",       "--parallel", i % 2 ? "3" : "auto",
                             "--json", "--dry-run", NULL};
        assert_same_plan(real, dry);
    }
}

static int64_t planned(const char *memory, const char *context, const char *key) {
    const tool_result r = RUN("serve", "--memory", memory, "-t", "1", "--ctx", context,
                              "--parallel", "3", "--json", "--dry-run");
    assert_int_equal(r.code, 0);
    json_t *plan = tool_last_object(r);
    const int64_t value = json_integer_value(json_object_get(plan, key));
    json_decref(plan);
    return value;
}

/* Of streamed weights, too, which take of a larger budget first. */
static void the_budget_for_all_conversations_is_enough(void **state) {
    (void)state;
    if (!MNEM_RELEASE) skip(); /* sanitizers' own bytes differ from run to run */
    for (int mib = 18; mib < 44; mib += 5) {
        const int64_t all = planned(tool_memory((uint64_t)mib * MIB), "256", "memory_for_all");
        if (!all) continue;
        assert_true(planned(tool_bytes((uint64_t)all), "256", "kv_tokens") >= 3 * 256);
    }
}

/* One of the addresses for documentation (RFC 5737): no machine has it, and no port helps. */
static void an_address_of_another_machine_is_refused(void **state) {
    (void)state;
    const tool_result r = RUN("serve", "--host", "192.0.2.1", "--port", "0", "--no-auth", "-q");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "can't listen on 192.0.2.1:0: "));
    assert_non_null(strstr(r.err, "; choose a --host of this machine"));
}

/* A client of another server would look there. */
static void an_address_that_is_not_used_is_said(void **state) {
    (void)state;
    setenv("OLLAMA_HOST", "127.0.0.1:11434", 1);
    assert_non_null(strstr(RUN("serve", "--dry-run").err, "OLLAMA_HOST=127.0.0.1:11434 is not"));
    assert_null(strstr(RUN("serve", "--dry-run", "--port", "11434").err, "OLLAMA_HOST"));
    assert_null(strstr(RUN("serve", "--dry-run", "-q").err, "OLLAMA_HOST"));
    unsetenv("OLLAMA_HOST");
}

static void a_dry_run_is_refused_as_the_start_is(void **state) {
    (void)state;
    tool_result r = RUN("serve", "--memory", "1M", "--port", "0", "-t", "1");
    assert_int_equal(r.code, 3);
    const uint64_t least = tool_least(&r);
    r = RUN("serve", "--memory", "1M", "--dry-run", "-t", "1");
    assert_int_equal(r.code, 3);
    assert_int_equal(r.out_bytes, 0);
    if (MNEM_RELEASE) assert_int_equal(tool_least(&r), least);
    r = RUN("serve", "--host", "0.0.0.0", "--dry-run");
    assert_int_equal(r.code, 2);
    r = RUN("plan", "-np", "4");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "mnem serve MODEL --parallel N --dry-run"));
}

/* Another server may have the address. */
static void a_dry_run_shows_conversations_without_listening(void **state) {
    (void)state;
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof here;
    char port[16];
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&here, n), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&here, &n), 0);
    snprintf(port, sizeof port, "%d", ntohs(here.sin_port));
    const tool_result r = RUN("serve", "--port", port, "--parallel", "3", "--memory",
                              tool_memory(33 * MIB), "--dry-run");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "  peak     "));
    assert_non_null(strstr(r.out, "  pages    "));
    assert_non_null(strstr(r.out, "  server   runs up to 3 conversations at a time, of up to "));
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_are_those_of_mnem_embed),
        cmocka_unit_test(a_model_of_text_has_vectors_where_it_is_told_how),
        cmocka_unit_test(another_template_and_its_variables_are_used),
        cmocka_unit_test(a_signal_while_texts_become_tokens_harms_nothing),
        cmocka_unit_test(a_kill_leaves_no_swap_file_and_it_starts_again),
        cmocka_unit_test(errors_have_one_form),
        cmocka_unit_test(all_name_one_number_of_conversations),
        cmocka_unit_test(systemd_starts_it_for_the_first_client),
        cmocka_unit_test(states_and_snapshots_are_counted),
        cmocka_unit_test(many_conversations_take_what_their_plan_says),
        cmocka_unit_test(a_start_without_a_terminal_says_how_far_it_is),
        cmocka_unit_test(a_dry_run_has_the_plan_of_the_start),
        cmocka_unit_test(the_budget_for_all_conversations_is_enough),
        cmocka_unit_test(an_address_of_another_machine_is_refused),
        cmocka_unit_test(an_address_that_is_not_used_is_said),
        cmocka_unit_test(a_dry_run_is_refused_as_the_start_is),
        cmocka_unit_test(a_dry_run_shows_conversations_without_listening),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
