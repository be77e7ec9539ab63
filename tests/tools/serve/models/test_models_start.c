/* test_models_start.c: several models in one server until they answer: what clients see while the
 * models are planned, signals meanwhile, options of all models, models without a plan, and a
 * standard output that is closed.
 *
 * A plan is held at a known place: the refusal of a damaged model is a message, and the pipe of
 * standard error is full. */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/kit_model.h"
#include "tools/kit/tool_memory.h"
#include "tools/kit/tool_moment.h"
#include "tools/serve/models/models_kit.h"

static const char *models; /* a folder of three */
static const char prompt[] = "the light and the water of the day";

static int set_up(void **state) {
    (void)state;
    models = kit_models();
    return 0;
}

/* A list with a damaged model before one of the three, or with more keys of that one. */
static const char *list_with(bool damaged, const char *keys) {
    static char list[700];
    char bad[700] = "", text[2400];
    if (damaged)
        snprintf(bad, sizeof bad, "{\"path\": \"%s\", \"name\": \"bad\"}, ",
                 tool_file("bad.gguf", "GGUF, but no more of it"));
    snprintf(text, sizeof text, "{\"models\": [%s{\"path\": \"%s/%s.gguf\"%s}]}", bad, models,
             kit_model[0], keys);
    snprintf(list, sizeof list, "%s", tool_file("start.json", text));
    return list;
}

/* ---- a server that is held while it plans ---- */

typedef struct held {
    pid_t pid;
    int out, err, stuffed;
} held;

/* A port that is free now. */
static int free_port(void) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, n), 0);
    getsockname(fd, (struct sockaddr *)&a, &n);
    close(fd);
    return ntohs(a.sin_port);
}

static bool connects(int port) {
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool fine = connect(fd, (const struct sockaddr *)&to, sizeof to) == 0;
    close(fd);
    return fine;
}

/* Starts a server of the list, and waits until clients can connect. quiet: the only message is that
 * of the damaged model. */
static held hold(const char *list, bool quiet) {
    char port[16];
    const int number = free_port();
    snprintf(port, sizeof port, "%d", number);
    held h = {0};
    h.pid = tool_start((const char *const[]){"serve", "--models", list, "--port", port, "--memory",
                                             "2G", quiet ? "-q" : NULL, NULL},
                       &h.out, &h.err);
    h.stuffed = tool_stuff(h.err);
    for (int i = 0; !connects(number) && i < 6000; i++) usleep(10000);
    client_to(number);
    return h;
}

/* Lets it write: reads what it was to say, and what comes behind that. */
static void *read_all(void *context) {
    char some[4096];
    while (read(*(const int *)context, some, sizeof some) > 0) continue;
    return NULL;
}

static void let_go(held *h, pthread_t *reader) {
    close(h->stuffed);
    assert_int_equal(pthread_create(reader, NULL, read_all, &h->err), 0);
}

static int end(const held *h, pthread_t reader, char *said, size_t room) {
    const int code = tool_wait(h->pid);
    const ssize_t n = read(h->out, said, room - 1);
    said[n > 0 ? n : 0] = 0;
    pthread_join(reader, NULL);
    close(h->out);
    close(h->err);
    return code;
}

/* ---- clients meanwhile ---- */

static json_t *get_json(const char *path) {
    char text[200];
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\n" HOST "\r\n", path);
    const answer a = ask(text);
    if (a.status != 200) fail_msg("%s: %d %s", path, a.status, a.body);
    json_t *json = json_loads(a.body, 0, NULL);
    assert_non_null(json);
    return json;
}

/* The listing of the model behind the damaged one. */
static json_t *listing(void) {
    json_t *all = get_json("/v1/models");
    assert_int_equal(json_array_size(json_object_get(all, "data")), 2);
    json_t *one = json_incref(json_array_get(json_object_get(all, "data"), 1));
    json_decref(all);
    return one;
}

/* A completion whose client is told to wait; its connection. */
static int ask_and_wait(void) {
    char body[200], text[400], got[2000] = "";
    snprintf(body, sizeof body,
             "{\"model\": \"%s\", \"prompt\": \"%s\", \"max_tokens\": 4, \"temperature\": 0, "
             "\"stream\": true}",
             kit_model[0], prompt);
    snprintf(text, sizeof text,
             "POST /v1/completions HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n%s", strlen(body),
             body);
    const int fd = client_open();
    client_send(fd, text);
    while (!strstr(got, ": loading")) {
        const ssize_t n = recv(fd, got, sizeof got - 1, MSG_PEEK);
        if (n <= 0) fail_msg("the connection ended after %s", got);
        got[n] = 0;
        usleep(1000);
    }
    return fd;
}

static void listings_are_answered_and_requests_wait_while_it_plans(void **state) {
    (void)state;
    static const char *const paths[] = {"/health",  "/ready",    "/v1/models", "/models",
                                        "/props",   "/slots",    "/api/tags",  "/api/ps",
                                        "/version", "/page.json"};
    char said[200];
    pthread_t reader;
    held h = hold(list_with(true, ""), true);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) json_decref(get_json(paths[i]));
    json_t *one = listing();
    assert_string_equal(json_string_value(json_object_get(one, "id")), kit_model[0]);
    assert_true(json_is_null(json_object_get(one, "bytes")));
    assert_true(json_integer_value(json_object_get(one, "file_bytes")) > 0);
    json_decref(one);
    const int fd = ask_and_wait();
    one = listing();
    assert_true(json_is_null(json_object_get(one, "bytes"))); /* it still plans */
    assert_int_equal(json_integer_value(json_object_get(one, "waiting")), 1);
    json_decref(one);
    let_go(&h, &reader);
    const answer a = client_read(fd);
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.body, "\"finish_reason\":\"length\""));
    close(fd);
    one = listing();
    assert_true(json_integer_value(json_object_get(one, "bytes")) > 0);
    json_decref(one);
    kill(h.pid, SIGTERM);
    assert_int_equal(end(&h, reader, said, sizeof said), 0);
    assert_true(strncmp(said, "http://", 7) == 0);
}

/* ---- signals before the first answer ---- */

static int threads_of(pid_t pid) {
    char path[64];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *all = opendir(path);
    for (const struct dirent *at; all && (at = readdir(all));) count += at->d_name[0] != '.';
    if (all) closedir(all);
    return count;
}

/* It is held in the plan, or at the first message behind it, before the pinned model is loaded: the
 * thread of the connections ends, then the rest goes on. */
static void a_signal_before_the_pinned_model_is_loaded_loads_it_no_more(void **state) {
    (void)state;
    for (int plans = 0; plans < 2; plans++) {
        char said[200];
        pthread_t reader;
        held h = hold(list_with(plans, ", \"pin\": true"), plans);
        assert_int_equal(ask(GET("/health")).status, 200);
        const int threads = threads_of(h.pid);
        kill(h.pid, SIGTERM);
        moment_delivered(h.pid, SIGTERM);
        for (int i = 0; threads_of(h.pid) >= threads && i < 6000; i++) usleep(10000);
        assert_true(threads_of(h.pid) < threads);
        let_go(&h, &reader);
        assert_int_equal(end(&h, reader, said, sizeof said), 0);
        assert_string_equal(said, ""); /* it was never ready */
    }
}

/* Half a GiB of weights, so that the signal comes while they are read. */
static void a_signal_while_the_pinned_model_is_loaded_ends_it(void **state) {
    (void)state;
    char large[700], list[700], text[900], line[4096] = "";
    int out, err;
    pthread_t reader;
    snprintf(large, sizeof large, "%s", at("half.gguf"));
    make_model(large, "--arch llama --embd 1024 --layers 12 --ff 2560 --heads 8 --kv-heads 8 "
                      "--head-dim 128 --vocab 384 --context 128 --type F32 --output-type F32 "
                      "--hollow");
    snprintf(text, sizeof text, "{\"models\": [{\"path\": \"%s\", \"pin\": true}]}", large);
    snprintf(list, sizeof list, "%s", tool_file("pinned.json", text));
    const pid_t pid = tool_start(
        (const char *const[]){"serve", "--models", list, "--port", "0", NULL}, &out, &err);
    for (size_t n = 0; !strstr(line, "loading half") && n < sizeof line - 1; n++)
        assert_int_equal(read(err, line + n, 1), 1);
    kill(pid, SIGTERM);
    assert_int_equal(pthread_create(&reader, NULL, read_all, &err), 0);
    assert_int_equal(tool_wait(pid), 0);
    pthread_join(reader, NULL);
    close(out);
    close(err);
    unlink(large);
}

/* ---- options of all models ---- */

static const char round_and_round[] = "the son of Joseph, the son of Levi, the son of";

/* What the model says with these breakers, alone or as one of a list; NULL: without DRY. */
static void say_with(const char *list, const char *breaker, char said[KIT_TEXT]) {
    const char *const what = list ? "--models" : "-q", *const which = list ? list : tool_model;
    const tool_server s =
        breaker ? SERVE(what, which, "-q", "--memory", "1G", "--dry-multiplier", "4",
                        "--dry-allowed-length", "1", "--dry-sequence-breaker", breaker)
                : SERVE(what, which, "-q", "--memory", "1G");
    const kit_answer a = kit_ask("kjv", round_and_round, 30);
    if (a.status != 200) fail_msg("%d %s", a.status, a.text);
    snprintf(said, KIT_TEXT, "%s", a.text);
    assert_int_equal(tool_serve_end(&s), 0);
}

/* Each model has breakers of its own tokenizer: those of an earlier one of the list are others. */
static void breakers_of_dry_are_those_of_a_model_alone(void **state) {
    (void)state;
    static const char *const breakers[] = {NULL, "none", "f"};
    char list[700], text[1800], alone[3][KIT_TEXT], listed[KIT_TEXT];
    snprintf(text, sizeof text,
             "{\"models\": [{\"path\": \"%s/%s.gguf\"}, {\"path\": \"%s\", \"name\": \"kjv\"}]}",
             models, kit_model[1], tool_model);
    snprintf(list, sizeof list, "%s", tool_file("dry.json", text));
    for (int i = 0; i < 3; i++) {
        say_with(NULL, breakers[i], alone[i]);
        say_with(list, breakers[i], listed);
        assert_string_equal(listed, alone[i]);
        if (i) assert_string_not_equal(alone[i], alone[i - 1]);
    }
}

static void slots_need_a_folder_and_are_of_a_model(void **state) {
    (void)state;
    char slots[512];
    const tool_result r = RUN("serve", "--models", models, "--slot-save-path", folder("nowhere"));
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "--slot-save-path"));
    snprintf(slots, sizeof slots, "%s", folder("slots"));
    mkdir(slots, 0700);
    const tool_server s =
        SERVE("--models", models, "-q", "--memory", "2G", "--slot-save-path", slots);
    const kit_answer first = kit_ask(kit_model[0], prompt, 12);
    assert_int_equal(first.status, 200);
    answer a = tool_post("/slots/0?action=save", "{\"model\": \"llama\", \"filename\": \"a\"}");
    assert_int_equal(a.status, 200);
    a = tool_post("/slots/0?action=save", "{\"model\": \"qwen3\", \"filename\": \"b\"}");
    assert_int_equal(a.status, 400); /* nobody has talked to that one */
    a = tool_post("/slots/0?action=restore", "{\"model\": \"qwen3\", \"filename\": \"a\"}");
    assert_int_equal(a.status, 400); /* nor does it have this one's pages */
    assert_int_equal(tool_post("/models/unload", "{\"model\": \"llama\"}").status, 200);
    a = tool_post("/slots/1?action=restore", "{\"model\": \"llama\", \"filename\": \"a\"}");
    if (a.status != 200) fail_msg("%d %s", a.status, a.body);
    const kit_answer again = kit_ask(kit_model[0], prompt, 12);
    assert_string_equal(again.text, first.text);
    assert_int_equal(again.cached_tokens, again.prompt_tokens - 1);
    assert_int_equal(tool_serve_end(&s), 0);
}

/* ---- models without a plan ---- */

static const char *list_of_large(bool alone) {
    static char list[700];
    char large[700], text[2000];
    snprintf(large, sizeof large, "%s", at("large.gguf"));
    make_model(large, "--arch llama --embd 2048 --layers 24 --ff 8192 --heads 16 --kv-heads 16 "
                      "--head-dim 128 --vocab 384 --context 64 --type F32 --output-type F32 "
                      "--hollow");
    snprintf(text, sizeof text, "{\"models\": [{\"path\": \"%s\"}%s", large, alone ? "]}" : ", ");
    if (!alone)
        snprintf(text + strlen(text), sizeof text - strlen(text), "{\"path\": \"%s/%s.gguf\"}]}",
                 models, kit_model[0]);
    snprintf(list, sizeof list, "%s", tool_file("large.json", text));
    return list;
}

/* A budget in which the large one, the first of the list, has its least bytes and few more. */
static uint64_t memory_of_large(const char *list) {
    uint64_t bytes = GIB;
    for (int i = 0; i < 3; i++) { /* what the server takes depends on the budget */
        json_t *plan = tool_last_object(
            RUN("serve", "--models", list, "--memory", tool_bytes(bytes), "--dry-run", "--json"));
        const json_t *one = json_array_get(json_object_get(plan, "models"), 0);
        const json_int_t least = json_integer_value(json_object_get(one, "least_bytes"));
        assert_true(least > 0);
        bytes += (uint64_t)(least - json_integer_value(json_object_get(plan, "room_bytes")));
        bytes += 64 * KIB; /* it fits, until the last turn */
        json_decref(plan);
    }
    return bytes;
}

static void check_refused(const json_t *status) {
    assert_string_equal(json_string_value(json_object_get(status, "value")), "unloaded");
    assert_true(json_is_true(json_object_get(status, "failed")));
    assert_non_null(strstr(json_string_value(json_object_get(status, "message")), "needs"));
}

/* In the first budget it can be planned, but not beside what the server takes; in the second one
 * it has no plan at all. */
static void a_model_that_never_fits_is_listed_with_the_reason(void **state) {
    (void)state;
    static const uint64_t less[] = {MIB / 2, 12 * MIB};
    if (!MNEM_RELEASE) skip(); /* what sanitizers take is more */
    const uint64_t enough = memory_of_large(list_of_large(false));
    for (int i = 0; i < 2; i++) {
        const char *list = list_of_large(false), *memory = tool_bytes(enough - less[i]);
        json_t *plan = tool_last_object(
            RUN("serve", "--models", list, "--memory", memory, "--dry-run", "--json"));
        const json_t *one = json_array_get(json_object_get(plan, "models"), 0);
        const char *why = json_string_value(json_object_get(one, "error"));
        assert_true(why && strstr(why, i ? "plan: needs" : "the model needs at least"));
        assert_null(json_object_get(one, "bytes"));
        json_decref(plan);
        const tool_server s = SERVE("--models", list, "-q", "--memory", memory);
        json_t *all = get_json("/v1/models");
        one = json_array_get(json_object_get(all, "data"), 0);
        assert_true(json_is_null(json_object_get(one, "bytes")));
        check_refused(json_object_get(one, "status"));
        json_decref(all);
        const kit_answer refused = kit_ask("large", prompt, 4);
        assert_int_equal(refused.status, 413);
        assert_non_null(strstr(refused.text, "needs"));
        assert_int_equal(kit_ask(kit_model[0], prompt, 4).status, 200);
        assert_int_equal(tool_serve_end(&s), 0);
        /* A server of no other model isn't started. */
        const tool_result r =
            RUN("serve", "--models", list_of_large(true), "--port", "0", "--memory", memory);
        assert_int_equal(r.code, 3);
        assert_string_equal(r.out, "");
        assert_non_null(strstr(r.err, "needs"));
    }
}

/* ---- a closed standard output ---- */

/* Its exit code after SIGTERM, when it has served; err: a file of its messages. args NULL-ended. */
static int serve_closed(const char *const *args, int port, const char *err) {
    const int fd = open(err, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    const pid_t pid = fork();
    if (pid == 0) {
        close(STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
        execv(MNEM_COMMAND, (char *const *)(uintptr_t)args);
        _exit(99);
    }
    close(fd);
    for (int i = 0; !connects(port) && i < 6000; i++) usleep(10000);
    client_to(port);
    assert_true(moment_file_has(pid, err, "writing to standard output failed")); /* at once */
    const answer a = tool_post("/v1/completions",
                               "{\"model\": \"llama\", \"prompt\": \"the\", \"max_tokens\": 2}");
    assert_int_equal(a.status, 200);
    kill(pid, SIGTERM);
    return tool_wait(pid);
}

/* Clients may know the address that can't be written: it serves, says so, and ends with an error.
 */
static void a_closed_output_is_the_same_for_one_model_and_for_several(void **state) {
    (void)state;
    char port[16], file[700], err[700];
    snprintf(err, sizeof err, "%s", at("err.txt"));
    snprintf(file, sizeof file, "%s/%s.gguf", models, kit_model[0]);
    for (int several = 0; several < 2; several++) {
        const int number = free_port();
        snprintf(port, sizeof port, "%d", number);
        const char *const args[] = {"mnem",
                                    "serve",
                                    several ? "--models" : "-q",
                                    several ? models : file,
                                    "-q",
                                    "--port",
                                    port,
                                    "--memory",
                                    "2G",
                                    NULL};
        assert_int_equal(serve_closed(args, number, err), 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listings_are_answered_and_requests_wait_while_it_plans),
        cmocka_unit_test(a_signal_before_the_pinned_model_is_loaded_loads_it_no_more),
        cmocka_unit_test(a_signal_while_the_pinned_model_is_loaded_ends_it),
        cmocka_unit_test(breakers_of_dry_are_those_of_a_model_alone),
        cmocka_unit_test(slots_need_a_folder_and_are_of_a_model),
        cmocka_unit_test(a_model_that_never_fits_is_listed_with_the_reason),
        cmocka_unit_test(a_closed_output_is_the_same_for_one_model_and_for_several),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
