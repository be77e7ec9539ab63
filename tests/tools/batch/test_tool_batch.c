/* test_tool_batch.c: `mnem batch`: a file of requests to a file of answers, which are those of
 * `mnem serve`; what a run that ended anywhere leaves, another one goes on with. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/adapters/adapter_case.h"
#include "kit/kit_file.h"
#include "tools/batch/batch_file.h"
#include "tools/kit/tool_memory.h"
#include "tools/kit/tool_moment.h"
#include "tools/serve/tool_server.h"

#define BATCH(in, out, ...)                                                                        \
    RUN("batch", tool_model, in, "-o", out, "--pooling", "last", "--ctx", "128", "--memory",       \
        tool_memory(96 * MIB), __VA_ARGS__)

static const char *const llama = MNEM_SOURCE "/tests/data/architectures/llama.gguf";

/* A path where nothing is. */
static const char *fresh(const char *name) {
    kit_remove(at(name));
    return at(name);
}

static void holds(const char *path, const char *want) {
    char *text = read_file(path, NULL);
    assert_string_equal(text, want);
    free(text);
}

static void equal_answers(json_t *got, json_t *want) {
    const char *id;
    json_t *wanted;
    assert_int_equal(json_object_size(got), json_object_size(want));
    json_object_foreach(want, id, wanted) {
        if (json_equal(json_object_get(got, id), wanted)) continue;
        char *text = json_dumps(json_object_get(got, id), 0), *other = json_dumps(wanted, 0);
        fail_msg("%s: %s\nis not\n%s", id, text ? text : "nothing", other);
    }
}

/* ---- answers ---- */

static void answers_are_those_of_a_server(void **state) {
    (void)state;
    enum { COUNT = 60 };
    const unsigned seed = 5;
    const char *in = batch_requests("many.jsonl", seed, COUNT), *out = fresh("served.jsonl");
    const tool_result r = BATCH(in, out, "--parallel", "4");
    if (r.code) fail_msg("exit code %d: %s", r.code, r.err);
    json_t *got = batch_answers(out), *want = json_object();
    const tool_server s =
        SERVE("-q", "--pooling", "last", "--ctx", "128", "--alias", "mnem-kjv-5m-q8_0");
    for (int i = 0; i < COUNT; i++) {
        const char *url, *body = batch_body(seed, i, &url);
        char id[16];
        snprintf(id, sizeof id, "r%d", i);
        const answer a = tool_post(url, body);
        json_t *answered = json_loadb(a.body, a.bytes, 0, NULL);
        batch_strip(answered);
        json_object_set_new(want, id,
                            json_pack("{s:i, s:o}", "status_code", a.status, "body", answered));
    }
    assert_int_equal(tool_serve_end(&s), 0);
    equal_answers(got, want);
    json_decref(got);
    json_decref(want);
}

static void lines_that_are_wrong_are_answered(void **state) {
    (void)state;
    static const char body[] = "\"body\": {\"prompt\": \"And\", \"max_tokens\": 1}";
    static const struct {
        const char *line, *id, *says;
        int status;
    } wrong[] = {
        {"no JSON", NULL, "line 1: this is not a JSON object", 400},
        {"{\"custom_id\": \"cut\", \"meth", "cut", "line 2: ", 400},
        {"{\"custom_id\": \"a\", \"url\": \"/v1/completions\", BODY}", "a", NULL, 200},
        {"{\"custom_id\": \"\\u0061\", \"url\": \"/v1/completions\", BODY}", "a",
         "line 4: an earlier line has the same 'custom_id'", 400},
        {"{\"custom_id\": \"b\", \"url\": \"/v1/models\", BODY}", "b", "line 5: 'url' must be",
         400},
        {"{\"custom_id\": \"c\", \"method\": \"GET\", \"url\": \"/v1/completions\", BODY}", "c",
         "line 6: 'method' must be POST", 400},
        {"{\"url\": \"/v1/completions\", BODY}", NULL, "line 7: 'custom_id' is missing", 400},
        {"{\"custom_id\": \"d\", \"url\": \"/v1/completions\"}", "d", "line 8: 'body' is missing",
         400},
        {"{\"custom_id\": \"e\", \"url\": \"/v1/completions\", \"body\": {\"prompt\": ]}}", "e",
         "JSON", 400},
        {"{\"custom_id\": \"f\", \"url\": \"/v1/completions\", \"body\": {\"prompt\": \"a\", "
         "\"stream\": true}}",
         "f", "a batch has no streams", 400},
        {"{\"custom_id\": \"g\", \"url\": \"/v1/completions\", \"body\": {\"prompt\": \"LONG\"}}",
         "g", "context size of 128", 400},
        {"{\"custom_id\": 7, \"url\": \"/v1/completions\", BODY}", NULL,
         "line 12: 'custom_id' must be a non-empty string", 400},
        {"{\"custom_id\": \"\xff\", \"url\": \"/v1/completions\", BODY}", NULL,
         "line 13: 'custom_id' has", 400},
        {"{\"custom_id\": \"h\", \"custom_id\": \"i\", BODY}", "h",
         "the object has 'custom_id' twice", 400},
        {"{\"custom_id\": \"j\", \"url\": \"/v1/completions\", \"body\": {\"prompt\": \"a\", "
         "\"lora\": [{\"id\": 0}]}}",
         "j", "no adapter is loaded: start with --lora FILE to load one", 400},
    };
    enum { WRONG = sizeof wrong / sizeof *wrong };
    const char *in = at("wrong.jsonl"), *out = fresh("refused.jsonl");
    char lengthy[4000] = "";
    for (int i = 0; i < 600; i++) strcat(lengthy, "And ");
    FILE *file = fopen(in, "w");
    for (int i = 0; i < WRONG; i++) {
        const char *line = wrong[i].line, *at_body = strstr(line, "BODY"),
                   *at_long = strstr(line, "LONG"), *gap = at_body ? at_body : at_long;
        if (gap)
            fprintf(file, "%.*s%s%s\r\n", (int)(gap - line), line, at_body ? body : lengthy,
                    gap + 4);
        else
            fprintf(file, "%s\n", line);
    }
    fclose(file);
    const tool_result r = BATCH(in, out, "--json");
    assert_int_equal(r.code, 0);
    json_t *end = tool_last_object(r);
    assert_int_equal(json_integer_value(json_object_get(end, "failed")), WRONG - 1);
    json_decref(end);
    char *before = read_file(out, NULL), *stop;
    int lines = 0;
    for (char *text = before; (stop = strchr(text, '\n')); text = stop + 1, lines++) {
        json_t *a = json_loadb(text, (size_t)(stop - text), 0, NULL);
        assert_non_null(a);
        const int i = atoi(strrchr(json_string_value(json_object_get(a, "id")), '_') + 1) - 1;
        const char *id = json_string_value(json_object_get(a, "custom_id"));
        assert_in_range(i, 0, WRONG - 1);
        assert_true(wrong[i].id ? id && strcmp(id, wrong[i].id) == 0 : !id);
        json_t *response = json_object_get(a, "response");
        assert_int_equal(json_integer_value(json_object_get(response, "status_code")),
                         wrong[i].status);
        const char *why = json_string_value(json_object_get(
            json_object_get(json_object_get(response, "body"), "error"), "message"));
        if (wrong[i].says && (!why || !strstr(why, wrong[i].says)))
            fail_msg("line %d: %s", i + 1, why);
        json_decref(a);
    }
    assert_int_equal(lines, WRONG);
    assert_int_equal(BATCH(in, out, "-q").code, 0); /* all of them are there */
    holds(out, before);
    free(before);
}

/* Eight answers each with logprobs, of which a few requests fill what all responses share. */
static void what_has_no_room_beside_others_is_answered_all_the_same(void **state) {
    (void)state;
    enum { COUNT = 16 };
    const char *in = at("large.jsonl"), *together = fresh("together.jsonl"),
               *alone = fresh("alone.jsonl");
    FILE *file = fopen(in, "w");
    for (int i = 0; i < COUNT; i++)
        fprintf(
            file,
            "{\"custom_id\": \"c%d\", \"url\": \"/v1/completions\", \"body\": {\"prompt\": \"In "
            "the\", \"n\": 8, \"seed\": %d, \"logprobs\": 5, \"max_tokens\": 60}}\n",
            i, i);
    fclose(file);
    assert_int_equal(BATCH(in, together, "-q").code, 0);
    assert_int_equal(BATCH(in, alone, "-q", "--parallel", "1").code, 0);
    json_t *got = batch_answers(together), *want = batch_answers(alone), *each;
    const char *id;
    equal_answers(got, want);
    json_object_foreach(got, id, each)
        assert_int_equal(json_integer_value(json_object_get(each, "status_code")), 200);
    json_decref(got);
    json_decref(want);
}

/* ---- going on ---- */

static void what_any_end_leaves_is_gone_on_with(void **state) {
    (void)state;
    enum { COUNT = 24, CUTS = 12 };
    const char *in = batch_requests("few.jsonl", 9, COUNT), *whole = fresh("whole.jsonl"),
               *part = at("part.jsonl");
    unsigned draws = 77;
    assert_int_equal(BATCH(in, whole, "-q").code, 0);
    json_t *want = batch_answers(whole);
    size_t bytes;
    char *text = read_file(whole, &bytes);
    for (int i = 0; i < CUTS; i++) {
        draws = draws * 1664525 + 1013904223;
        const size_t n = i ? (draws >> 8) % bytes : 5;
        FILE *file = fopen(part, "w");
        assert_int_equal(fwrite(text, 1, n, file), n);
        fclose(file);
        const tool_result r = BATCH(in, part, "--parallel", i % 2 ? "1" : "auto");
        if (r.code) fail_msg("cut at %zu: %s", n, r.err);
        json_t *got = batch_answers(part);
        equal_answers(got, want);
        json_decref(got);
    }
    free(text);
    json_decref(want);
}

static void a_run_that_is_killed_goes_on(void **state) {
    (void)state;
    enum { COUNT = 40, KILLS = 6 };
    const char *in = batch_requests("killed_in.jsonl", 11, COUNT), *whole = fresh("all.jsonl"),
               *part = fresh("killed.jsonl");
    assert_int_equal(BATCH(in, whole, "-q").code, 0);
    const char *const args[] = {"batch",
                                tool_model,
                                in,
                                "-o",
                                part,
                                "--pooling",
                                "last",
                                "--ctx",
                                "128",
                                "--memory",
                                tool_memory(96 * MIB),
                                "-q",
                                NULL};
    for (int i = 1; i <= KILLS; i++) {
        int out, err;
        char mark[32];
        snprintf(mark, sizeof mark, "\"r%d\"", i * COUNT / (KILLS + 1));
        const pid_t pid = tool_start(args, &out, &err);
        moment_file_has(pid, part, mark);
        kill(pid, SIGKILL);
        tool_wait(pid);
        close(out);
        close(err);
    }
    const tool_result r = tool_run(NULL, args);
    if (r.code) fail_msg("%s", r.err);
    json_t *got = batch_answers(part), *want = batch_answers(whole);
    equal_answers(got, want);
    json_decref(got);
    json_decref(want);
}

static void ctrl_c_says_how_to_go_on(void **state) {
    (void)state;
    enum { COUNT = 400 };
    const char *in = batch_requests("stopped_in.jsonl", 13, COUNT), *part = fresh("stopped.jsonl");
    char said[4000];
    int out, err;
    size_t n = 0;
    ssize_t got;
    const char *const args[] = {"batch", tool_model, in, "-o", part, "--pooling", "last", NULL};
    const pid_t pid = tool_start(args, &out, &err);
    moment_file_has(pid, part, "\"r3\"");
    kill(pid, SIGINT);
    while ((got = read(err, said + n, sizeof said - 1 - n)) > 0) n += (size_t)got;
    said[n] = 0;
    const int code = tool_wait(pid);
    if (code != 0) { /* it may have had all by then */
        assert_int_equal(code, 130);
        assert_non_null(strstr(said, "run the same command again to continue"));
    }
    close(out);
    close(err);
    json_decref(batch_answers(part)); /* whole lines */
    assert_int_equal(RUN("batch", tool_model, in, "-o", part, "--pooling", "last", "-q").code, 0);
    json_t *all = batch_answers(part);
    assert_int_equal(json_object_size(all), COUNT);
    json_decref(all);
}

/* The signal comes when the file of answers is made: nothing is loaded yet. */
static void a_signal_before_the_first_request_ends_it(void **state) {
    (void)state;
    char written[512], part[600];
    const char *in = batch_requests("early_in.jsonl", 17, 8);
    snprintf(written, sizeof written, "%s", folder("written"));
    assert_int_equal(mkdir(written, 0700), 0);
    snprintf(part, sizeof part, "%s/early.jsonl", written);
    const char *const args[] = {"batch",     tool_model, in,      "-o",  part,
                                "--pooling", "last",     "--ctx", "128", NULL};
    assert_int_equal(moment_created(written, SIGTERM, 0, args), 143);
    char *said = read_file(at("err.txt"), NULL);
    assert_non_null(strstr(said, "stopped after 0 of 8 requests"));
    free(said);
    holds(part, "");
    assert_int_equal(tool_run(NULL, args).code, 0);
    json_t *all = batch_answers(part);
    assert_int_equal(json_object_size(all), 8);
    json_decref(all);
}

/* ---- refusals ---- */

static void a_file_of_something_else_is_refused(void **state) {
    (void)state;
    const char *in = batch_requests("one.jsonl", 3, 4), *out = fresh("kept.jsonl");
    assert_int_equal(BATCH(in, out, "-q").code, 0);
    tool_result r = BATCH(in, out, "--temp", "0.1");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "has answers of this model with other options"));
    r = RUN("batch", llama, in, "-o", out);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "has answers of another model"));
    assert_int_equal(BATCH(in, out, "--parallel", "2").code, 0); /* which changes no text */
    char *before = read_file(in, NULL);
    r = BATCH(in, in, "-q");
    assert_int_equal(r.code, 2);
    holds(in, before);
    free(before);
    const char *notes = tool_file("notes.txt", "My notes.\nOf years.");
    r = BATCH(in, notes, "-q");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "line 1 of"));
    holds(notes, "My notes.\nOf years.");
    const int fd = open(out, O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    r = BATCH(in, out, "-q");
    close(fd);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "another mnem batch writes to"));
}

/* Another adapter at the same path, as after more training. */
static void answers_of_another_adapter_are_refused(void **state) {
    (void)state;
    char adapter[600], scaled[640];
    const char *in = batch_requests("adapted.jsonl", 3, 4), *out = fresh("adapted_out.jsonl");
    snprintf(adapter, sizeof adapter, "%s", at("tuned.gguf"));
    snprintf(scaled, sizeof scaled, "%s:0.5", adapter);
    adapter_make(tool_model, adapter, &(adapter_recipe){.rank = 4, .seed = 1});
    assert_int_equal(BATCH(in, out, "-q", "--lora", adapter).code, 0);
    assert_int_equal(BATCH(in, out, "-q", "--lora", adapter).code, 0);
    char *before = read_file(out, NULL);
    assert_int_equal(BATCH(in, out, "-q", "--lora", scaled).code, 1);
    adapter_make(tool_model, adapter, &(adapter_recipe){.rank = 4, .seed = 2});
    const tool_result r = BATCH(in, out, "-q", "--lora", adapter);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "has answers of another model"));
    holds(out, before);
    free(before);
}

static void a_refused_run_keeps_an_incomplete_line(void **state) {
    (void)state;
    const char *in = batch_requests("torn.jsonl", 3, 4), *out = fresh("torn_out.jsonl");
    static const char says[] = "is incomplete: its request is answered again";
    assert_int_equal(BATCH(in, out, "-q").code, 0);
    char *whole = read_file(out, NULL);
    json_t *want = batch_answers(out);
    whole[strlen(whole) - 9] = 0;
    tool_file("torn_out.jsonl", whole);
    tool_result r = BATCH(in, out, "--temp", "0.1");
    assert_int_equal(r.code, 1);
    assert_null(strstr(r.err, says));
    holds(out, whole);
    r = RUN("batch", tool_model, in, "-o", out, "--pooling", "last", "--memory", "1M");
    assert_int_equal(r.code, 3);
    assert_null(strstr(r.err, says));
    holds(out, whole);
    r = BATCH(in, out, "--parallel", "2");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, says));
    json_t *got = batch_answers(out);
    equal_answers(got, want);
    json_decref(got);
    json_decref(want);
    free(whole);
}

static void a_file_of_blank_lines_is_no_failure(void **state) {
    (void)state;
    const char *in = tool_file("blank.jsonl", "\n \t\r\n\n"), *out = fresh("blank_out.jsonl");
    const tool_result r = BATCH(in, out, "--parallel", "1");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, "blank.jsonl has only blank lines"));
    assert_int_equal(BATCH(in, out, "-q").code, 0);
    holds(out, "");
}

static void a_file_without_requests_is_refused(void **state) {
    (void)state;
    tool_result r = RUN("batch", tool_model, tool_file("empty.jsonl", ""));
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "has no requests"));
    assert_int_equal(RUN("batch", tool_model, "/nowhere.jsonl").code, 1);
    assert_int_equal(RUN("batch", tool_model, "/dev/null").code, 1);
    assert_int_equal(RUN("batch", tool_model).code, 2);
    const char *in = batch_requests("usage.jsonl", 3, 1);
    assert_int_equal(RUN("batch", tool_model, in, "--parallel", "none").code, 2);
    assert_int_equal(RUN("batch", tool_model, in, "--template-args", "[1]").code, 2);
    r = RUN("batch", tool_model, tool_file("bad.jsonl", "a,b\n1,2\n")); /* all failed */
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.out, "\"custom_id\":null"));
}

static void a_dry_run_writes_nothing(void **state) {
    (void)state;
    const char *in = batch_requests("dry_in.jsonl", 3, 40), *out = fresh("dry.jsonl");
    const tool_result r = BATCH(in, out, "--dry-run");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "requests at a time"));
    assert_int_equal(access(out, F_OK), -1);
    assert_int_equal(RUN("batch", tool_model, in, "-o", out, "--memory", "1M").code, 3);
}

/* ---- many lines ---- */

static void many_lines_take_a_few_bytes_each(void **state) {
    (void)state;
    enum { LINES = 30000 };
    const char *in = at("lines.jsonl"), *out = fresh("lines_out.jsonl");
    FILE *file = fopen(in, "w");
    for (int i = 0; i < LINES; i++)
        fprintf(file, "{\"custom_id\": \"r%d\", \"url\": \"/v1/nothing\", \"body\": {}}\n", i);
    fprintf(file, "{\"custom_id\": \"last\", \"url\": \"/v1/completions\", \"body\": "
                  "{\"prompt\": \"And\", \"max_tokens\": 2}}");
    fclose(file);
    const tool_result r = BATCH(in, out, "--json");
    assert_int_equal(r.code, 0);
    json_t *end = tool_last_object(r);
    assert_int_equal(json_integer_value(json_object_get(end, "answered")), LINES + 1);
    json_decref(end);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_of_a_server),
        cmocka_unit_test(lines_that_are_wrong_are_answered),
        cmocka_unit_test(what_has_no_room_beside_others_is_answered_all_the_same),
        cmocka_unit_test(what_any_end_leaves_is_gone_on_with),
        cmocka_unit_test(a_run_that_is_killed_goes_on),
        cmocka_unit_test(ctrl_c_says_how_to_go_on),
        cmocka_unit_test(a_signal_before_the_first_request_ends_it),
        cmocka_unit_test(a_file_of_something_else_is_refused),
        cmocka_unit_test(answers_of_another_adapter_are_refused),
        cmocka_unit_test(a_refused_run_keeps_an_incomplete_line),
        cmocka_unit_test(a_file_of_blank_lines_is_no_failure),
        cmocka_unit_test(a_file_without_requests_is_refused),
        cmocka_unit_test(a_dry_run_writes_nothing),
        cmocka_unit_test(many_lines_take_a_few_bytes_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
