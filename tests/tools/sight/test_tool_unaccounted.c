/* test_tool_unaccounted.c: every byte has a name: at its peak no process has more than 2 % or 4 MiB
 * beyond what its ledger counts, whatever it does. In release builds: a sanitizer's bytes have no
 * name. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "kit/kit.h"
#include "tools/kit/tool_memory.h"
#include "tools/serve/http_client.h"
#include "tools/train/train_words.h"

static void check(const char *what, uint64_t beyond, uint64_t process_peak) {
    const uint64_t percent = process_peak / 50, most = percent > 4 * MIB ? percent : 4 * MIB;
    if (beyond > most)
        fail_msg("%s: %llu bytes of %llu have no name", what, (unsigned long long)beyond,
                 (unsigned long long)process_peak);
}

static uint64_t number(const json_t *object, const char *key) {
    const json_t *n = json_object_get(object, key);
    if (!json_is_integer(n)) fail_msg("no number %s", key);
    return (uint64_t)json_integer_value(n);
}

static void bytes_of_run_have_names(void **state) {
    (void)state;
    if (!MNEM_RELEASE) skip();
    const char *const rows[][2] = {{"--threads", "1"},
                                   {"--memory", tool_memory(6 * MIB)},
                                   {"--kv", "q8_0"},
                                   {"--kv", "q4_0"},
                                   {"--ctx", "64"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *o = tool_last_object(RUN("run", tool_model, "-p", "And God said", "-n", "24", "-q",
                                         "--json", rows[i][0], rows[i][1]));
        check(rows[i][0], number(json_object_get(o, "ledger"), "bytes_unaccounted"),
              number(json_object_get(o, "stats"), "vmhwm"));
        json_decref(o);
    }
}

static void bytes_of_train_have_names(void **state) {
    (void)state;
    if (!MNEM_RELEASE) skip();
    static const char *const rows[][2] = {{"--threads", "1"}, {"--threads", "3"}, {"--batch", "2"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *o = tool_last_object(RUN("train", "--memory", "64M", "-q", "--json", "--data",
                                         at("text.txt"), "--config", at("config.json"), "--out",
                                         folder("trained"), rows[i][0], rows[i][1]));
        check(rows[i][0], number(o, "bytes_unaccounted"), number(o, "bytes_peak"));
        json_decref(o);
    }
}

/* ---- serve ---- */

static uint64_t metric(const char *text, const char *name) {
    char line[80];
    snprintf(line, sizeof line, "\n%s ", name);
    const char *at_line = strstr(text, line);
    if (!at_line) fail_msg("no %s in\n%s", name, text);
    return strtoull(at_line + strlen(line), NULL, 10);
}

static void ask_some(void) {
    static const char body[] = "{\"prompt\": [\"And God said\", \"In the\"], \"max_tokens\": 24}";
    char text[600];
    snprintf(text, sizeof text,
             "POST /v1/completions HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n%s", strlen(body),
             body);
    for (int i = 0; i < 4; i++) assert_int_equal(ask(text).status, 200);
}

static void bytes_of_serve_have_names(void **state) {
    (void)state;
    if (!MNEM_RELEASE) skip();
    int out, err;
    char line[200] = "";
    const pid_t pid = tool_start((const char *const[]){"serve", "--port", "0", "-q", "--memory",
                                                       tool_memory(33 * MIB), NULL},
                                 &out, &err);
    for (size_t n = 0; n < sizeof line - 1 && !strchr(line, '\n'); n++)
        assert_int_equal(read(out, line + n, 1), 1);
    client_to(atoi(strrchr(line, ':') + 1));
    ask_some();
    const answer a = ask("GET /metrics HTTP/1.1\r\n" HOST "\r\n");
    assert_int_equal(a.status, 200);
    check("serve", metric(a.body, "mnem_unaccounted_bytes"),
          metric(a.body, "process_resident_memory_bytes"));
    kill(pid, SIGTERM);
    assert_int_equal(tool_wait(pid), 0);
    close(out);
    close(err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_run_have_names),
        cmocka_unit_test(bytes_of_train_have_names),
        cmocka_unit_test(bytes_of_serve_have_names),
    };
    return cmocka_run_group_tests(tests, make_files, NULL);
}
