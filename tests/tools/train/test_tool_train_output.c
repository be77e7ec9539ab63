/* test_tool_train_output.c: what `mnem train` says on both outputs and leaves on the disk, as
 * somebody meets it for the first time. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_random.h"
#include "tools/kit/tool_memory.h"
#include "tools/train/train_words.h"

/* ---- what is left ---- */

static void refused_and_dry_runs_leave_nothing(void **state) {
    (void)state;
    char *text = words(), before[2000], began[200];
    const char *out = at("nothing");
    text[5] = 0;
    write_file(at("zero"), text, TEXT);
    write_file(at("short"), "short", 5);
    snprintf(before, sizeof before, "%s", names(tool_scratch()));
#define BEGIN(...) TRAIN("-q", "--config", at("config.json"), "--out", out, __VA_ARGS__)
    assert_int_equal(BEGIN("--data", at("text.txt"), "--dry-run").code, 0);
    assert_int_equal(BEGIN("--data", at("zero")).code, 1);
    assert_true(BEGIN("--data", at("short")).code > 0);
    assert_int_equal(BEGIN("--data", "/nowhere").code, 1);
    assert_int_equal(BEGIN("--data", at("text.txt"), "--init", at("text.txt")).code, 1);
    if (MNEM_RELEASE) assert_int_equal(BEGIN("--data", at("text.txt"), "--memory", "1M").code, 3);
    tool_result r = RUN_INPUT("a text", "train", "-q", "--config", at("config.json"), "--out", out,
                              "--data", "-");
    assert_true(r.code > 0);
    assert_int_equal(unlink(at("input")), 0); /* the test's own */
    assert_string_equal(names(tool_scratch()), before);
    /* A folder that was there, and one with a run. */
    assert_int_equal(mkdir(out, 0777), 0);
    assert_int_equal(BEGIN("--data", at("zero")).code, 1);
    assert_int_equal(BEGIN("--data", at("text.txt"), "--dry-run").code, 0);
    assert_string_equal(names(out), "");
    succeed(BEGIN("--data", at("text.txt"), "--stop-after", "2"));
    snprintf(began, sizeof began, "%s", names(out));
    assert_int_equal(BEGIN("--data", at("text.txt"), "--dry-run").code, 0);
    assert_int_equal(BEGIN("--data", at("text.txt")).code, 1);
    assert_string_equal(names(out), began);
    succeed(TRAIN("-q", "--resume", "--out", out));
}

/* Losses of a run, in words. */
static const char *losses_of(const char *out) {
    static char text[2][4000];
    static int next;
    char *to = text[next++ % 2], path[600];
    snprintf(path, sizeof path, "%s/log.jsonl", out);
    *to = 0;
    for (const char *at_loss = content(path); (at_loss = strstr(at_loss, "\"loss\":")); at_loss++)
        sprintf(to + strlen(to), "%.*s ", (int)strcspn(at_loss, ",}"), at_loss);
    return to;
}

/* Between what bf16 needs and what f32 needs a run has other losses, and says so; the budget that
 * it names, or f32 that was asked for, has those of any larger one. */
static void a_budget_that_changes_losses_says_so(void **state) {
    (void)state;
    static const char said[] = "because f32 does not fit in ", named[] = "needs --memory ";
    if (!MNEM_RELEASE) return;
#define LONG(out, ...)                                                                             \
    TRAIN("-d", at("text.txt"), "--config", at("config.json"), "--ctx", "1024", "--batch", "1",    \
          "--steps", "2", "--heldout", "0", "--sample", "", "-t", "1", "--out", out, __VA_ARGS__)
    tool_result r = LONG(at("no"), "--precision", "f32", "--memory", tool_memory(1 << 20));
    const uint64_t f32 = tool_least(&r);
    r = LONG(at("no"), "--precision", "bf16", "--memory", tool_memory(1 << 20));
    const uint64_t bf16 = tool_least(&r);
    assert_true(f32 > bf16 + (256 << 10));
    const char *between = tool_bytes((f32 + bf16) / 2);
    char budget[32];
    r = LONG(at("between"), "--memory", between);
    succeed(r);
    const char *at_said = strstr(r.err, said), *at_name = at_said ? strstr(at_said, named) : NULL;
    if (!at_name) fail_msg("%s", r.err);
    assert_int_equal(sscanf(at_name + strlen(named), "%31s", budget), 1);
    r = LONG(at("no"), "--memory", between, "--dry-run");
    succeed(r);
    assert_non_null(strstr(r.err, "activations are in bf16"));
    REFUSED(LONG(at("no"), "--memory", between, "--precision", "f32"), "budget that works");
    r = LONG(at("named"), "--memory", budget);
    succeed(r);
    assert_null(strstr(r.err, "bf16"));
    r = LONG(at("ample"), "--memory", "1G");
    succeed(r);
    assert_null(strstr(r.err, "bf16"));
    assert_string_equal(losses_of(at("named")), losses_of(at("ample")));
    assert_string_not_equal(losses_of(at("between")), losses_of(at("ample")));
    r = LONG(at("asked"), "--memory", between, "--precision", "bf16");
    succeed(r);
    assert_null(strstr(r.err, said));
    assert_string_equal(losses_of(at("between")), losses_of(at("asked")));
}

static void a_finished_run_says_so_and_writes_nothing(void **state) {
    (void)state;
    const char *out = at("finished");
    succeed(TRAIN("-q", "--data", at("text.txt"), "--config", at("config.json"), "--out", out));
    static char log[1 << 16];
    strcpy(log, content(at("finished/log.jsonl")));
    struct stat before, after;
    assert_int_equal(stat(at("finished/checkpoint"), &before), 0);
    tool_result r = TRAIN("--resume", "--out", out);
    succeed(r);
    assert_non_null(strstr(r.err, "is finished: all 8 steps are done"));
    assert_non_null(strstr(r.err, "a larger length (--steps N or --epochs N)"));
    assert_non_null(strstr(r.err, "mnem train --init"));
    assert_non_null(strstr(r.out, "model.gguf: 8 steps, loss"));
    assert_string_equal(content(at("finished/log.jsonl")), log);
    assert_int_equal(stat(at("finished/checkpoint"), &after), 0);
    assert_memory_equal(&before.st_mtim, &after.st_mtim, sizeof before.st_mtim);
    /* Killed before the model was written: that is done, and no line is there twice. */
    assert_int_equal(unlink(at("finished/model.gguf")), 0);
    succeed(TRAIN("-q", "--resume", "--out", out));
    assert_string_equal(content(at("finished/log.jsonl")), log);
    assert_int_equal(access(at("finished/model.gguf"), F_OK), 0);
}

static void a_run_of_one_step_draws_its_point(void **state) {
    (void)state;
    tool_result r = TRAIN("--data", at("text.txt"), "--config", at("config.json"), "--steps", "1",
                          "--out", at("one"));
    succeed(r);
    assert_non_null(strstr(content(at("one/loss.svg")), "<circle"));
    assert_null(strstr(content(at("one/loss.svg")), "nan"));
    int ticks = 0; /* of both axes, also where all losses are nearly the same */
    for (const char *tick = content(at("one/loss.svg")); (tick = strstr(tick, "v6\"")); tick++)
        ticks++;
    for (const char *tick = content(at("one/loss.svg")); (tick = strstr(tick, "h-6\"")); tick++)
        ticks++;
    assert_in_range(ticks, 6, 24);
    assert_non_null(strstr(r.out, ": 1 step, loss"));
    assert_null(strstr(r.err, " 1 steps"));
}

/* ---- what is said ---- */

static void a_stopped_run_has_the_account_of_a_finished_one(void **state) {
    (void)state;
    tool_result r = TRAIN("-v", "--data", at("text.txt"), "--config", at("config.json"), "--out",
                          at("stopped"), "--stop-after", "3");
    succeed(r);
    assert_non_null(strstr(r.err, "the process's peak (VmHWM) was "));
    assert_non_null(strstr(r.err, "stopped after step 3"));
    const char *const args[] = {"train",     "-v",
                                "--memory",  MEMORY,
                                "--threads", "1",
                                "--data",    at("text.txt"),
                                "--config",  at("config.json"),
                                "--out",     at("interrupted"),
                                "--steps",   "100000",
                                NULL};
    static char text[TOOL_RUN_BYTES];
    int out, err;
    const pid_t pid = tool_start(args, &out, &err);
    size_t used = 0;
    bool asked = false;
    for (ssize_t n; (n = read(err, text + used, sizeof text - 1 - used)) > 0;) {
        used += (size_t)n;
        text[used] = 0;
        if (!asked && strstr(text, "step 1, loss")) kill(pid, SIGINT), asked = true;
    }
    assert_int_equal(tool_wait(pid), 130);
    close(out);
    close(err);
    assert_non_null(strstr(text, "the process's peak (VmHWM) was "));
    assert_non_null(strstr(text, "--resume\n"));
}

/* What ends a stream; the lines before it must be those of the log. */
static json_t *last_object(const char *text, const char *log) {
    const size_t n = strlen(log);
    if (strncmp(text, log, n) != 0) fail_msg("%s\nisn't the log:\n%s", text, log);
    json_t *object = json_loads(text + n, 0, NULL); /* and nothing behind it */
    if (!object) fail_msg("%s", text + n);
    return object;
}

static void json_streams_the_log_and_ends_with_the_result(void **state) {
    (void)state;
    tool_result r = TRAIN("-q", "--json", "--data", at("text.txt"), "--config", at("config.json"),
                          "--out", at("streamed"), "--stop-after", "4");
    succeed(r);
    json_t *last = last_object(r.out, content(at("streamed/log.jsonl")));
    assert_true(json_is_false(json_object_get(last, "finished")));
    assert_int_equal(json_integer_value(json_object_get(last, "step")), 4);
    assert_non_null(json_object_get(last, "checkpoint"));
    assert_true(json_is_null(json_object_get(last, "validation_loss"))); /* none so far */
    json_decref(last);
    static char before[1 << 16];
    strcpy(before, content(at("streamed/log.jsonl")));
    r = TRAIN("-q", "--json", "--resume", "--out", at("streamed"));
    succeed(r);
    const char *log = content(at("streamed/log.jsonl"));
    assert_memory_equal(log, before, strlen(before));
    last = last_object(r.out, log + strlen(before));
    assert_true(json_is_true(json_object_get(last, "finished")));
    assert_string_equal(json_string_value(json_object_get(last, "model")),
                        at("streamed/model.gguf"));
    json_decref(last);
}

static int lines_of(const char *text) {
    int lines = 0;
    for (; *text; text++) lines += *text == '\n';
    return lines;
}

/* A terminal of 24 lines shows it whole, also where much is computed again. */
static void a_plan_is_one_screen_and_has_all_bytes_in_verbose(void **state) {
    (void)state;
    tool_result r = LOOK(at("text.txt"), "--memory", "1M");
    char memory[32];
    snprintf(memory, sizeof memory, "%s", tool_bytes(tool_least(&r) + MIB));
    for (int i = MNEM_RELEASE ? 0 : 1; i < 2; i++) { /* sanitizers take more than the least */
        const char *budget = i ? "2G" : memory;
        r = LOOK(at("text.txt"), "--memory", budget);
        succeed(r);
        if (lines_of(r.err) + lines_of(r.out) > 22) fail_msg("%s%s", r.err, r.out);
        assert_non_null(strstr(r.err, "\n  peak     "));
        assert_non_null(strstr(r.err, "\n  made of  weights "));
        assert_null(strstr(r.err, "tokenizer"));
        assert_non_null(strstr(r.out, "\n* "));
        assert_non_null(strstr(r.out, "-v prints"));
        const int few = lines_of(r.out);
        r = LOOK(at("text.txt"), "--memory", budget, "-v");
        succeed(r);
        assert_non_null(strstr(r.err, "\n  host       tokenizer "));
        assert_non_null(strstr(r.out, "\n* "));
        assert_null(strstr(r.out, "-v prints"));
        assert_true(lines_of(r.out) >= few - 1);
    }
}

static int chosen_in(const char *table, const char *mark) {
    int rows = 0;
    for (const char *at = table; (at = strstr(at, mark)); at++) rows++;
    return rows;
}

/* Also one that is hardly faster than a smaller one, which the list leaves out. */
static void what_was_chosen_is_among_the_ways(void **state) {
    (void)state;
    if (!MNEM_RELEASE) skip(); /* sanitizers take more */
    for (int i = 0; i < 8; i++) {
        const char *memory = tool_memory((uint64_t)(46 + 3 * i) * MIB);
        for (int kind = 0; kind < 3; kind++) {
            static const char *const how[] = {"-q", "-v", "--json"};
            const tool_result r =
                RUN("train", "--init", tool_model, "--lora", "8", "--data", at("text.txt"), "-t",
                    "1", "--out", at("ways"), "--dry-run", "--memory", memory, how[kind]);
            if (r.code == 3) continue;
            succeed(r);
            if (chosen_in(r.out, kind < 2 ? "\n* " : "\"chosen\":true") != 1) fail_msg("%s", r.out);
        }
    }
}

/* What other budgets would change is worth its line, or says that it is the same. */
static void other_budgets_never_change_nothing_in_percent(void **state) {
    (void)state;
    static const uint64_t beyond[] = {53, 73, 113, 193, 393}; /* MiB */
    if (!MNEM_RELEASE) skip();                                /* sanitizers take more */
    bool same = false;
    for (size_t i = 0; i < 2 * sizeof beyond / sizeof beyond[0]; i++) {
        tool_result r = RUN("train", "--data", at("text.txt"), "--memory",
                            tool_memory(beyond[i / 2] * MIB), "-t", "1", "--config",
                            i % 2 ? "5m" : "tiny", "--out", at("hints"), "--dry-run", "-v");
        if (r.code == 3) continue;
        succeed(r);
        if (strstr(r.err, "+0 %") || strstr(r.err, "-0 %"))
            fail_msg("%d MiB: %s", (int)beyond[i / 2], r.err);
        const char *text = strstr(r.err, "the same"); /* " speed", maybe on the next line */
        same = same || (text && strncmp(text + 8 + strspn(text + 8, " \n"), "speed", 5) == 0);
    }
    assert_true(same);
}

/* "1 tensor", wherever there is one. */
static void one_is_no_plural(void **state) {
    (void)state;
    succeed(TRAIN("-q", "--data", at("text.txt"), "--config", at("config.json"), "--out",
                  at("singular"), "--steps", "1", "--ctx", "32"));
    tool_result r = RUN("tokenize", at("singular/model.gguf"), "a");
    succeed(r);
    assert_non_null(strstr(r.err, "1 token, 1 byte\n"));
    write_file(at("empty"), "", 0);
    REFUSED(LOOK(at("empty"), "-q", "--any-bytes"), " 1 file given, with 0 bytes of text");
    r = TRAIN("-v", "--data", at("text.txt"), "--config", at("config.json"), "--out", at("plural/"),
              "--steps", "1", "--batch", "1", "--threads", "1");
    succeed(r);
    assert_non_null(strstr(r.err, "1 micro-batch a step, of 1 sequence of 32"));
    assert_null(strstr(r.err, " 1 steps"));
    assert_null(strstr(r.err, "1 sequences"));
    assert_non_null(strstr(r.out, "plural/model.gguf: 1 step, loss"));
    r = RUN_INPUT("id,lower,upper,size\na,0,1,64\n", "place", "-");
    succeed(r);
    assert_non_null(strstr(r.out, ": 1 buffer, "));
    r = RUN("graph", at("singular/model.gguf"), "--memory", MEMORY);
    succeed(r);
    assert_non_null(strstr(r.out, "barriers between threads"));
}

/* ---- the peak ---- */

static json_int_t number(const json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}

/* Words that are all different, so that learning takes more than the steps of a tiny model. */
static void the_predicted_peak_counts_learning_the_vocabulary(void **state) {
    (void)state;
    if (!MNEM_RELEASE) skip(); /* sanitizers take more */
    enum { MANY = 540000 };
    char *text = malloc(MANY);
    assert_non_null(text);
    for (size_t i = 0; i < MANY; i++) text[i] = (char)(i % 9 ? 'a' + random_below(26) : ' ');
    write_file(at("many"), text, MANY);
    free(text);
    tool_result r = TRAIN("-v", "--data", at("many"), "--config", at("config.json"), "--steps", "3",
                          "--out", at("learned"));
    succeed(r);
    char said[40] = "", unit[4] = "";
    const char *peak = strstr(r.err, "\n  peak ");
    assert_non_null(peak);
    assert_int_equal(sscanf(peak, " peak %*s %3s %39s", unit, said), 2);
    uint64_t predicted = 0;
    for (const char *c = said; *c; c++)
        if (*c != ',') predicted = 10 * predicted + (uint64_t)(*c - '0');
    assert_non_null(strstr(r.err, "before the steps"));
    r = TRAIN("-q", "--json", "--data", at("many"), "--config", at("config.json"), "--steps", "3",
              "--out", at("learned again"));
    succeed(r);
    json_t *last = tool_last_object(r);
    print_message("predicted %llu, with --json %lld, VmHWM %lld\n", (unsigned long long)predicted,
                  (long long)number(last, "predicted_bytes"),
                  (long long)number(last, "bytes_peak"));
    assert_true(number(last, "bytes_peak") <= number(last, "predicted_bytes"));
    assert_true(number(last, "bytes_peak") <= (json_int_t)predicted + (1 << 20));
    assert_true(number(last, "predicted_bytes") <= number(last, "budget_bytes"));
    json_decref(last);
}

/* ---- the loss at the end ---- */

/* The last two lines of a stream of --json. */
static void last_lines(const tool_result *r, json_t **line, json_t **end) {
    const char *at[2] = {r->out, r->out};
    for (const char *c = r->out; (c = strchr(c, '\n')) && c[1]; c++) at[0] = at[1], at[1] = c + 1;
    *line = json_loads(at[0], JSON_DISABLE_EOF_CHECK, NULL);
    *end = json_loads(at[1], 0, NULL);
    if (!*line || !*end) fail_msg("exit code %d: %s", r->code, r->err);
}

/* More steps than the curve has points, where it keeps every other one. */
static void the_loss_at_the_end_is_of_the_last_step(void **state) {
    (void)state;
    json_t *line, *end;
    const char *text = tool_file("long.txt", words());
    const char *small =
        tool_file("small.json", "{\"architecture\": \"llama\", \"layers\": 1, \"embd\": 8, "
                                "\"heads\": 1, \"kv_heads\": 1, \"ff\": 16, \"vocab\": 256, "
                                "\"context\": 4, \"batch\": 1, \"steps\": 2050, \"heldout\": 0}");
    const tool_result r =
        TRAIN("-q", "--json", "--data", text, "--config", small, "--out", at("long"));
    assert_int_equal(r.code, 0);
    last_lines(&r, &line, &end);
    assert_int_equal(json_integer_value(json_object_get(line, "step")), 2050);
    assert_true(json_equal(json_object_get(line, "loss"), json_object_get(end, "loss")));
    json_decref(line);
    json_decref(end);
}

/* A learning rate so high that weights overflow at once. */
static void a_step_without_a_loss_says_null(void **state) {
    (void)state;
    json_t *line, *end;
    const char *text = tool_file("high.txt", words());
    const char *high = tool_file(
        "high.json", "{\"architecture\": \"llama\", \"layers\": 1, \"embd\": 32, \"heads\": 1, "
                     "\"kv_heads\": 1, \"ff\": 64, \"vocab\": 256, \"context\": 16, \"batch\": 2, "
                     "\"precision\": \"f16\", \"rate\": 10, \"clip\": 0, \"warmup\": 1, "
                     "\"steps\": 60}");
    const tool_result r =
        TRAIN("-q", "--json", "--data", text, "--config", high, "--out", at("high"));
    assert_int_equal(r.code, 1);
    last_lines(&r, &line, &end);
    assert_true(json_is_null(json_object_get(line, "loss")));
    assert_true(json_is_false(json_object_get(line, "applied")));
    assert_non_null(strstr(r.err, "f16 can't recover"));
    assert_null(strstr(r.err, "no memory"));
    assert_null(strstr(r.err, "can't write"));
    json_decref(line);
    json_decref(end);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_and_dry_runs_leave_nothing),
        cmocka_unit_test(a_budget_that_changes_losses_says_so),
        cmocka_unit_test(a_finished_run_says_so_and_writes_nothing),
        cmocka_unit_test(a_run_of_one_step_draws_its_point),
        cmocka_unit_test(a_stopped_run_has_the_account_of_a_finished_one),
        cmocka_unit_test(json_streams_the_log_and_ends_with_the_result),
        cmocka_unit_test(a_plan_is_one_screen_and_has_all_bytes_in_verbose),
        cmocka_unit_test(what_was_chosen_is_among_the_ways),
        cmocka_unit_test(other_budgets_never_change_nothing_in_percent),
        cmocka_unit_test(one_is_no_plural),
        cmocka_unit_test(the_predicted_peak_counts_learning_the_vocabulary),
        cmocka_unit_test(the_loss_at_the_end_is_of_the_last_step),
        cmocka_unit_test(a_step_without_a_loss_says_null),
    };
    return cmocka_run_group_tests(tests, make_files, NULL);
}
