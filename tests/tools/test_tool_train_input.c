/* test_tool_train_input.c: `mnem train` as somebody meets it for the first time: what it takes and
 * refuses, what it says on both outputs, and what it leaves on the disk. */
#include <dirent.h>
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
#include "tools/tool_run.h"

static const char config[] =
    "{\"architecture\": \"llama\", \"layers\": 2, \"embd\": 32, \"heads\": 4, \"kv_heads\": 2, "
    "\"ff\": 64, \"vocab\": 300, \"context\": 32, \"batch\": 4, \"steps\": 8, \"rate\": 0.005, "
    "\"warmup\": 5, \"heldout\": 0.03}";

#define MEMORY     (MNEM_RELEASE ? "64M" : "2G")
#define TRAIN(...) RUN("train", "--memory", MEMORY, "--threads", "1", __VA_ARGS__)

enum { TEXT = 40000 };

static char *words(void) {
    static char text[TEXT + 16];
    static const char *const some[] = {"and ", "the ",   "lord ", "said ",    "unto ", "him, ",
                                       "let ", "there ", "be ",   "light.\n", "then ", "went "};
    size_t n = 0;
    while (n < TEXT) n += (size_t)sprintf(text + n, "%s", some[random_below(12)]);
    return text;
}

static int make_files(void **state) {
    (void)state;
    random_seed(20261122);
    write_file(at("text.txt"), words(), TEXT);
    write_file(at("config.json"), config, strlen(config));
    return 0;
}

static void succeed(tool_result r) {
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
}

static void refused(tool_result r, const char *const *said) {
    if (r.code != 1 && r.code != 3) fail_msg("exit code %d: %s", r.code, r.err);
    for (int i = 0; said[i]; i++)
        if (!strstr(r.err, said[i])) fail_msg("no \"%s\" in: %s", said[i], r.err);
}
#define REFUSED(result, ...) refused(result, (const char *const[]){__VA_ARGS__, NULL})

/* Without steps: only what comes before. */
#define LOOK(data, ...)                                                                            \
    TRAIN("--data", data, "--config", at("config.json"), "--out", at("looked"), "--dry-run",       \
          __VA_ARGS__)

/* ---- what is text ---- */

static void a_binary_file_is_refused_with_its_place(void **state) {
    (void)state;
    char *text = words();
    text[1000] = 0;
    write_file(at("zero"), text, TEXT);
    REFUSED(LOOK(at("zero"), "-q"), "/zero: at byte 1000 it looks like binary data", "--any-bytes");
    succeed(LOOK(at("zero"), "-q", "--any-bytes"));
    REFUSED(LOOK(tool_model, "-q"), "q8_0.gguf: at byte 0 it looks like a GGUF model", "--init",
            "--any-bytes");
    write_file(at("tensors"), "\x40\0\0\0\0\0\0\0{\"__metadata__\":{}}", 27);
    REFUSED(LOOK(at("tensors"), "-q"), "a safetensors file");
    for (size_t i = 0; i < TEXT; i++) text[i] = (char)(i % 2 ? 0 : 'a');
    write_file(at("wide"), text, TEXT);
    REFUSED(LOOK(at("wide"), "-q"), "at byte 1 it looks like text in UTF-16", "iconv");
    for (size_t i = 0; i < TEXT; i++) text[i] = (char)(1 + random_below(255));
    write_file(at("noise"), text, TEXT);
    REFUSED(LOOK(at("noise"), "-q"), "binary data: control characters");
    for (size_t i = 0; i < TEXT; i++) text[i] = (char)(i % 6 ? 0xc0 + random_below(64) : ' ');
    write_file(at("cyrillic"), text, TEXT);
    REFUSED(LOOK(at("cyrillic"), "-q"), "at byte 1", "another encoding", "iconv");
}

/* Of a file that isn't the first, behind the first piece, too. */
static void every_file_is_looked_at(void **state) {
    (void)state;
    char *text = words();
    text[TEXT - 1] = 0;
    write_file(at("late"), text, TEXT);
    REFUSED(LOOK(at("text.txt"), "-q", at("late")), "/late: at byte 39999");
}

static void text_in_latin_1_is_learned_with_a_word(void **state) {
    (void)state;
    char *text = words();
    text[777] = (char)0xe9;
    write_file(at("latin"), text, TEXT);
    tool_result r = LOOK(at("latin"), "--json");
    succeed(r);
    assert_non_null(strstr(r.err, "/latin: byte 777 isn't UTF-8"));
    assert_int_equal(LOOK(at("latin"), "-q").err_bytes, 0);
}

/* Characters of two, three and four bytes over the borders of the pieces that are looked at. */
static void text_in_utf_8_is_text(void **state) {
    (void)state;
    static const char *const some[] = {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\x1b[1m\t"};
    for (int shift = 0; shift < 4; shift++) {
        static char text[3 * TEXT];
        size_t n = (size_t)shift;
        memset(text, 'x', n);
        while (n < 2 * TEXT) n += (size_t)sprintf(text + n, "%s", some[random_below(4)]);
        write_file(at("utf8"), text, n);
        tool_result r = LOOK(at("utf8"), "--json");
        succeed(r);
        assert_null(strstr(r.err, "UTF-8"));
    }
}

/* Whole characters of UTF-8, no orders for a terminal. */
static void assert_printable(const char *text) {
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        const int more = *s < 0x80 ? 0 : *s < 0xc2 ? -1 : *s < 0xe0 ? 1 : *s < 0xf0 ? 2 : 3;
        if (more < 0 || (*s < 32 && *s != '\n') || *s == 127 || (*s == 0xc2 && s[1] < 0xa0))
            fail_msg("byte %02x: %.200s", *s, (const char *)s);
        for (int i = 1; i <= more; i++) assert_int_equal(s[i] & 0xc0, 0x80);
        s += more + 1;
    }
}

static void samples_are_printable_whatever_was_learned(void **state) {
    (void)state;
    char *text = words();
    for (size_t i = 0; i < TEXT; i++) text[i] = (char)random_below(256);
    write_file(at("bytes"), text, TEXT);
    tool_result r = TRAIN("--data", at("bytes"), "--any-bytes", "--config", at("config.json"),
                          "--out", at("sampled"), "--steps", "3");
    succeed(r);
    assert_non_null(strstr(r.err, "sample: "));
    assert_non_null(strstr(r.err, "\\x"));
    assert_printable(r.err);
}

/* ---- what contradicts ---- */

#define FROM(model, ...)                                                                           \
    TRAIN("-q", "--data", at("text.txt"), "--init", model, "--out", at("from"), "--dry-run",       \
          __VA_ARGS__)

static void a_shape_other_than_the_models_is_refused_with_both(void **state) {
    (void)state;
    succeed(TRAIN("-q", "--data", at("text.txt"), "--config", at("config.json"), "--steps", "2",
                  "--vocab", "280", "--out", at("shaped")));
    const char *model = at("shaped/model.gguf");
    REFUSED(FROM(model, "--config", "tiny"), "layers is 4", "shaped/model.gguf has 2");
    REFUSED(FROM(model, "--vocab", "512"), "--vocab is 512", "shaped/model.gguf has 280");
    succeed(FROM(model, "--vocab", "280"));
    REFUSED(FROM(model, "--config", at("config.json")), "vocab is 300", "has 280");
    succeed(FROM(model, "--config", at("shaped/config.json")));
    write_file(at("ff.json"), "{\"ff\": 65, \"steps\": 3}", 22);
    REFUSED(FROM(model, "--config", at("ff.json")), "ff is 65", "has 64");
    write_file(at("steps.json"), "{\"steps\": 3, \"batch\": 2}", 24);
    succeed(FROM(model, "--config", at("steps.json")));
    write_file(at("gpt2.json"), "{\"architecture\": \"gpt2\"}", 24);
    REFUSED(FROM(model, "--config", at("gpt2.json")), "architecture is gpt2", "has llama");
}

/* ---- what is left ---- */

/* Names of a folder, as "a b "; the order is the system's. "": there is none. */
static const char *names(const char *path) {
    static char text[2000];
    text[0] = 0;
    DIR *folder = opendir(path);
    if (!folder) return text;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        strcat(text, entry->d_name);
        strcat(text, " ");
    }
    closedir(folder);
    return text;
}

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

static char *content(const char *path) {
    static char text[2][1 << 16];
    static int next;
    char *to = text[next++ % 2];
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("no %s", path);
    const size_t n = fread(to, 1, sizeof text[0] - 1, file);
    assert_true(n < sizeof text[0] - 1);
    to[n] = 0;
    fclose(file);
    return to;
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
    tool_result r = TRAIN("--data", at("text.txt"), "--config", at("config.json"), "--out",
                          at("stopped"), "--stop-after", "3");
    succeed(r);
    assert_non_null(strstr(r.err, "the process's peak (VmHWM) was "));
    assert_non_null(strstr(r.err, "stopped after step 3"));
    const char *const args[] = {"train",
                                "--memory",
                                MEMORY,
                                "--threads",
                                "1",
                                "--data",
                                at("text.txt"),
                                "--config",
                                at("config.json"),
                                "--out",
                                at("interrupted"),
                                "--steps",
                                "100000",
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
    assert_non_null(strstr(text, "--resume` goes on"));
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

/* What other budgets would change is worth its line, or says that it is the same. */
static void other_budgets_never_change_nothing_in_percent(void **state) {
    (void)state;
    static const char *const memory[] = {"60M", "80M", "120M", "200M", "400M"};
    if (!MNEM_RELEASE) skip(); /* sanitizers take more */
    bool same = false;
    for (size_t i = 0; i < 2 * sizeof memory / sizeof memory[0]; i++) {
        tool_result r = RUN("train", "--data", at("text.txt"), "--memory", memory[i / 2], "-t", "1",
                            "--config", i % 2 ? "5m" : "tiny", "--out", at("hints"), "--dry-run");
        if (r.code == 3) continue;
        succeed(r);
        if (strstr(r.err, "+0 %") || strstr(r.err, "-0 %"))
            fail_msg("%s: %s", memory[i / 2], r.err);
        same = same || strstr(r.err, "the same speed");
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
    REFUSED(LOOK(at("empty"), "-q"), " 1 file with 0 bytes of text");
    r = TRAIN("--data", at("text.txt"), "--config", at("config.json"), "--out", at("plural/"),
              "--steps", "1", "--batch", "1", "--threads", "1");
    succeed(r);
    assert_non_null(strstr(r.err, "1 x 1 sequence of 32 tokens a step"));
    assert_null(strstr(r.err, " 1 steps"));
    assert_null(strstr(r.err, "1 x 1 sequences"));
    assert_non_null(strstr(r.out, "plural/model.gguf: 1 step, loss"));
    r = RUN_INPUT("id,lower,upper,size\na,0,1,64\n", "place", "-");
    succeed(r);
    assert_non_null(strstr(r.out, ": 1 buffer, "));
    r = RUN("graph", at("singular/model.gguf"), "-m", MEMORY);
    succeed(r);
    assert_non_null(strstr(r.out, "barriers between threads"));
}

/* ---- standard input ---- */

static void text_from_standard_input_is_kept_for_resuming(void **state) {
    (void)state;
    static char text[TEXT + 1];
    memcpy(text, content(at("text.txt")), TEXT);
    succeed(TRAIN("-q", "--data", at("text.txt"), "--config", at("config.json"), "--out",
                  at("by_name")));
    tool_result r =
        RUN_INPUT(text, "train", "-q", "--memory", MEMORY, "--threads", "1", "--config",
                  at("config.json"), "--out", at("by_pipe"), "--data", "-", "--stop-after", "5");
    succeed(r);
    assert_string_equal(content(at("by_pipe/text")), text);
    r = TRAIN("--resume", "--out", at("by_pipe"));
    succeed(r);
    assert_non_null(strstr(r.err, "going on after step 5 of 8\n"));
    const char *model = content(at("by_name/model.gguf")),
               *other = content(at("by_pipe/model.gguf"));
    assert_memory_equal(model + 4096, other + 4096, 20000); /* behind the names, as long */
    /* A run without a checkpoint may be replaced, but not by one that is refused, nor by one that
     * is killed before it begins. */
    assert_int_equal(unlink(at("by_pipe/checkpoint")), 0);
    r = RUN_INPUT("a text", "train", "-q", "--config", at("config.json"), "--out", at("by_pipe"),
                  "--data", "-");
    assert_true(r.code > 0);
    assert_string_equal(content(at("by_pipe/text")), text);
    assert_int_equal(mkdir(at("by_pipe/.new"), 0777), 0);
    assert_int_equal(rename(at("by_pipe/text"), at("by_pipe/.new/text")), 0);
    succeed(TRAIN("-q", "--resume", "--out", at("by_pipe")));
    assert_string_equal(content(at("by_pipe/text")), text);
    assert_int_equal(unlink(at("by_pipe/checkpoint")), 0);
    r = RUN_INPUT(text + 1, "train", "-q", "--memory", MEMORY, "--threads", "1", "--config",
                  at("config.json"), "--out", at("by_pipe"), "--data", "-", "--stop-after", "1");
    succeed(r);
    assert_string_equal(content(at("by_pipe/text")), text + 1);
    assert_int_not_equal(access(at("by_pipe/.new"), F_OK), 0);
    /* What stands where the text is kept is neither read and replaced nor moved away. */
    assert_int_equal(unlink(at("by_pipe/checkpoint")), 0);
#define PIPE(out, ...)                                                                             \
    RUN_INPUT("a text", "train", "-q", "--config", at("config.json"), "--out", out, "--data", "-", \
              __VA_ARGS__)
    r = PIPE(at("by_pipe"), at("by_pipe/text"));
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "give it another name"));
    assert_string_equal(content(at("by_pipe/text")), text + 1);
    assert_int_equal(mkdir(at("taken"), 0777), 0);
    assert_int_equal(mkdir(at("taken/text"), 0777), 0);
    r = PIPE(at("taken"), "--steps", "1");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "isn't a file"));
    assert_string_equal(names(at("taken")), "text ");
    REFUSED(LOOK("-", "-q", "-"), "can be read once only");
    assert_int_equal(mkfifo(at("pipe"), 0600), 0);
    REFUSED(LOOK(at("pipe"), "-q"), "/pipe is a pipe", "--data -");
    REFUSED(LOOK("-", "-q"), "standard input has no text");
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
    tool_result r = TRAIN("--data", at("many"), "--config", at("config.json"), "--steps", "3",
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
    const char *end = strrchr(r.out, '{');
    json_t *last = json_loads(end, 0, NULL);
    assert_non_null(last);
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
        cmocka_unit_test(a_binary_file_is_refused_with_its_place),
        cmocka_unit_test(every_file_is_looked_at),
        cmocka_unit_test(text_in_latin_1_is_learned_with_a_word),
        cmocka_unit_test(text_in_utf_8_is_text),
        cmocka_unit_test(samples_are_printable_whatever_was_learned),
        cmocka_unit_test(a_shape_other_than_the_models_is_refused_with_both),
        cmocka_unit_test(refused_and_dry_runs_leave_nothing),
        cmocka_unit_test(a_finished_run_says_so_and_writes_nothing),
        cmocka_unit_test(a_run_of_one_step_draws_its_point),
        cmocka_unit_test(a_stopped_run_has_the_account_of_a_finished_one),
        cmocka_unit_test(json_streams_the_log_and_ends_with_the_result),
        cmocka_unit_test(other_budgets_never_change_nothing_in_percent),
        cmocka_unit_test(one_is_no_plural),
        cmocka_unit_test(text_from_standard_input_is_kept_for_resuming),
        cmocka_unit_test(the_predicted_peak_counts_learning_the_vocabulary),
        cmocka_unit_test(the_loss_at_the_end_is_of_the_last_step),
        cmocka_unit_test(a_step_without_a_loss_says_null),
    };
    return cmocka_run_group_tests(tests, make_files, NULL);
}
