/* test_tool_train.c: `mnem train`: a run from text to a model, stopped, killed and resumed;
 * budgets, bad input and exit codes. MNEM_KILLS says how often the crash test kills (default 6; 2
 * under sanitizers). */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "kit/kit.h"
#include "kit/kit_random.h"
#include "tools/tool_run.h"

enum { STEPS = 60, LINES_MAX = 4 * STEPS };

/* A model that takes a millisecond a step, and 60 steps of it. */
static const char config[] =
    "{\"architecture\": \"llama\", \"layers\": 2, \"embd\": 32, \"heads\": 4, \"kv_heads\": 2, "
    "\"ff\": 64, \"vocab\": 300, \"context\": 32, \"batch\": 4, \"steps\": 60, \"rate\": 0.005, "
    "\"rate_floor\": 0.0005, \"warmup\": 5, \"dropout\": 0.1, \"heldout\": 0.1}";

/* Some thousand words with a little order in them. */
static const char *text_file(void) {
    static char path[512], text[40000];
    static const char *const words[] = {"and ", "the ",   "lord ", "said ",    "unto ", "him, ",
                                        "let ", "there ", "be ",   "light.\n", "then ", "went "};
    size_t at = 0;
    uint32_t state = 1;
    while (at + 16 < sizeof text) {
        state = state * 1664525u + 1013904223u;
        at += (size_t)sprintf(text + at, "%s", words[(state >> 24) % 12]);
    }
    snprintf(path, sizeof path, "%s", tool_file("text.txt", text));
    return path;
}

static const char *config_file(void) {
    static char path[512];
    snprintf(path, sizeof path, "%s", tool_file("config.json", config));
    return path;
}

/* ---- what a run left ---- */

typedef struct logged {
    double loss[STEPS + 1]; /* by step */
    double validation;      /* the last */
    int steps;
    int validations;
} logged;

static logged read_log(const char *out) {
    char path[600];
    logged l = {.steps = 0};
    snprintf(path, sizeof path, "%s/log.jsonl", out);
    FILE *file = fopen(path, "r");
    if (!file) fail_msg("no %s", path);
    json_t *line;
    while ((line = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL))) {
        const json_int_t step = json_integer_value(json_object_get(line, "step"));
        const json_t *loss = json_object_get(line, "loss");
        assert_in_range(step, 1, STEPS);
        if (loss) {
            assert_int_equal(step, l.steps + 1);
            assert_true(json_is_number(json_object_get(line, "tokens_per_s")));
            assert_true(json_integer_value(json_object_get(line, "bytes_peak")) > 0);
            l.loss[step] = json_real_value(loss);
            l.steps = (int)step;
        } else {
            l.validations++;
            l.validation = json_real_value(json_object_get(line, "validation_loss"));
        }
        json_decref(line);
    }
    fclose(file);
    return l;
}

static void same(const logged *a, const logged *b) {
    assert_int_equal(a->steps, b->steps);
    assert_int_equal(a->validations, b->validations);
    for (int i = 1; i <= a->steps; i++)
        if (a->loss[i] != b->loss[i])
            fail_msg("step %d: loss %.17g, and %.17g", i, a->loss[i], b->loss[i]);
    assert_true(a->validation == b->validation);
}

#define MEMORY     (MNEM_RELEASE ? "64M" : "2G")
#define TRAIN(...) RUN("train", "-q", "--memory", MEMORY, "--threads", "1", __VA_ARGS__)

static logged whole_run(const char *out) {
    tool_result r = TRAIN("--data", text_file(), "--config", config_file(), "--out", out);
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
    return read_log(out);
}

/* ---- tests ---- */

static void a_model_comes_out_of_text(void **state) {
    (void)state;
    const char *out = folder("whole");
    const logged l = whole_run(out);
    assert_int_equal(l.steps, STEPS);
    assert_true(l.loss[1] > 5.0 && l.loss[STEPS] < 3.0);
    assert_true(l.validation < l.loss[1]);
    char path[600];
    snprintf(path, sizeof path, "%s/model.gguf", out);
    tool_result r = RUN("run", path, "-q", "-p", "and the lord", "-n", "8", "--temp", "0");
    assert_int_equal(r.code, 0);
    assert_true(r.out_bytes > 8);
    snprintf(path, sizeof path, "%s/loss.svg", out);
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_true(about.st_size > 1000);
}

static void stopping_and_resuming_changes_no_bit(void **state) {
    (void)state;
    const logged whole = whole_run(folder("unbroken"));
    const char *out = folder("broken");
    tool_result r =
        TRAIN("--data", text_file(), "--config", config_file(), "--out", out, "--stop-after", "12");
    assert_int_equal(r.code, 0);
    assert_int_equal(read_log(out).steps, 12);
    assert_int_equal(TRAIN("--out", out, "--resume", "--stop-after", "33").code, 0);
    assert_int_equal(TRAIN("--out", out, "--resume").code, 0);
    const logged broken = read_log(out);
    same(&whole, &broken);
}

/* The least budget: what a refusal names. */
static void a_budget_holds_and_changes_nothing(void **state) {
    (void)state;
    if (!MNEM_RELEASE) skip(); /* sanitizers take more than any such budget */
    const logged whole = whole_run(folder("large"));
    const char *out = folder("small");
    tool_result r = RUN("train", "-q", "--memory", "6M", "--threads", "1", "--data", text_file(),
                        "--config", config_file(), "--out", out);
    assert_int_equal(r.code, 3);
    assert_true(r.seconds < 5);
    char memory[16];
    const char *least = strstr(r.err, "the least is --memory ");
    assert_non_null(least);
    assert_int_equal(sscanf(least, "the least is --memory %15s", memory), 1);
    r = RUN("train", "-q", "--json", "--memory", memory, "--threads", "1", "--data", text_file(),
            "--config", config_file(), "--out", out);
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
    json_t *result = json_loads(strrchr(r.out, '{'), 0, NULL);
    assert_non_null(result);
    const json_int_t peak = json_integer_value(json_object_get(result, "bytes_peak"));
    assert_true(peak <= json_integer_value(json_object_get(result, "budget_bytes")));
    json_decref(result);
    const logged small = read_log(out);
    assert_int_equal(small.steps, STEPS);
    for (int i = 1; i <= STEPS; i++) /* sequences one by one: sums are rounded elsewhere */
        assert_true(small.loss[i] > whole.loss[i] - 0.02 && small.loss[i] < whole.loss[i] + 0.02);
}

static void ends_whole(const logged *whole, const char *out, int signal) {
    const char *const args[] = {"train",     "--memory", MEMORY,        "--threads", "1", "--data",
                                text_file(), "--config", config_file(), "--out",     out, NULL};
    char path[600];
    int out_fd, err_fd;
    const pid_t pid = tool_start(args, &out_fd, &err_fd);
    snprintf(path, sizeof path, "%s/log.jsonl", out);
    for (int i = 0; i < 2000 && access(path, F_OK) != 0; i++) usleep(2000);
    kill(pid, signal);
    const int code = tool_wait(pid);
    close(out_fd);
    close(err_fd);
    assert_int_equal(code, 128 + signal);
    assert_int_equal(TRAIN("--out", out, "--resume").code, 0);
    const logged interrupted = read_log(out);
    same(whole, &interrupted);
}

static void signals_keep_the_work(void **state) {
    (void)state;
    const logged whole = whole_run(folder("uninterrupted"));
    ends_whole(&whole, folder("interrupted"), SIGINT);
    ends_whole(&whole, folder("terminated"), SIGTERM);
    ends_whole(&whole, folder("hung-up"), SIGHUP);
}

/* ---- a signal while held-out text is measured ---- */

static bool log_has(const char *path, const char *what) {
    char text[8192];
    FILE *file = fopen(path, "r");
    if (!file) return false;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return strstr(text, what) != NULL;
}

static int count(const char *text, const char *what) {
    int n = 0;
    for (; (text = strstr(text, what)); text++) n++;
    return n;
}

/* Samples of a run that gets the signal in the look that follows step 3. */
static int samples_until(int signal, const char *out, const char *data, const char *looks) {
    const char *const args[] = {"train", "--memory", MEMORY, "--threads", "1", "--data",
                                data,    "--config", looks,  "--out",     out, NULL};
    static char said[64 * 1024];
    char path[600];
    int out_fd, err_fd;
    const pid_t pid = tool_start(args, &out_fd, &err_fd);
    snprintf(path, sizeof path, "%s/log.jsonl", out);
    for (int i = 0; i < 20000 && !log_has(path, "\"step\":3,"); i++) usleep(200);
    kill(pid, signal);
    assert_int_equal(tool_wait(pid), 128 + signal);
    const ssize_t n = read(err_fd, said, sizeof said - 1);
    said[n < 0 ? 0 : n] = 0;
    close(out_fd);
    close(err_fd);
    return count(said, "sample: ");
}

static void a_signal_while_held_out_text_is_measured_loses_nothing(void **state) {
    (void)state;
    enum { LOOKS = 10 };
    char json[600], data[512], looks[512];
    const char *shape = strstr(config, "\"layers\"");
    snprintf(json, sizeof json, "{\"architecture\": \"llama\", %s", shape);
    memcpy(strstr(json, "\"steps\": 60"), "\"steps\": 10", strlen("\"steps\": 10"));
    memcpy(strstr(json, "\"heldout\": 0.1"), "\"heldout\": 0.9", strlen("\"heldout\": 0.9"));
    snprintf(data, sizeof data, "%s", text_file());
    snprintf(looks, sizeof looks, "%s", tool_file("looks.json", json));
    const char *whole = folder("looked");
    assert_int_equal(TRAIN("--data", data, "--config", looks, "--out", whole).code, 0);
    const logged expected = read_log(whole);
    assert_int_equal(expected.validations, LOOKS);
    for (int i = 0; i < 2; i++) {
        const char *out = folder("cut-off");
        const int before = samples_until(i ? SIGTERM : SIGINT, out, data, looks);
        tool_result r =
            RUN("train", "--memory", MEMORY, "--threads", "1", "--out", out, "--resume");
        if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
        const logged l = read_log(out);
        same(&expected, &l);
        assert_int_equal(before + count(r.err, "sample: "), LOOKS);
    }
}

static void a_folder_has_one_run_at_a_time(void **state) {
    (void)state;
    const char *out = folder("shared");
    assert_int_equal(mkdir(out, 0777), 0);
    const int fd = open(out, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(fd, LOCK_EX), 0); /* as a run has it */
    tool_result r = TRAIN("--data", text_file(), "--config", config_file(), "--out", out);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "another mnem train works in it"));
    close(fd);
}

/* Starts or resumes a run and kills it after a random time; true when it came to its end before. */
static bool run_and_kill(const char *out, uint32_t most_us) {
    char path[640];
    int out_fd, err_fd;
    snprintf(path, sizeof path, "%s/config.json", out);
    const bool begun = access(path, F_OK) == 0;
    const char *const fresh[] = {"train",    "-q",           "--memory", MEMORY,   "--threads",
                                 "1",        "--save-every", "3",        "--data", text_file(),
                                 "--config", config_file(),  "--out",    out,      NULL};
    const char *const again[] = {"train",        "-q", "--memory", MEMORY, "--threads", "1",
                                 "--save-every", "3",  "--out",    out,    "--resume",  NULL};
    const pid_t pid = tool_start(begun ? again : fresh, &out_fd, &err_fd);
    usleep((useconds_t)random_below(most_us));
    kill(pid, SIGKILL);
    const int code = tool_wait(pid);
    close(out_fd);
    close(err_fd);
    if (code != 0 && code != 128 + SIGKILL) fail_msg("exit code %d", code);
    return code == 0;
}

/* To the end; from the beginning where a run was killed before it was one. */
static void finish(const char *out) {
    char path[640];
    snprintf(path, sizeof path, "%s/config.json", out);
    tool_result r = access(path, F_OK) == 0
                        ? TRAIN("--out", out, "--resume")
                        : TRAIN("--data", text_file(), "--config", config_file(), "--out", out);
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
}

static void a_run_that_is_killed_always_resumes(void **state) {
    (void)state;
    const char *said = getenv("MNEM_KILLS");
    const int kills = said ? atoi(said) : MNEM_RELEASE ? 6 : 2;
    tool_result r = TRAIN("--data", text_file(), "--config", config_file(), "--out",
                          folder("timed"), "--save-every", "3");
    assert_int_equal(r.code, 0);
    const uint32_t most_us = (uint32_t)(r.seconds * 0.9e6);
    char timed[600];
    snprintf(timed, sizeof timed, "%s/timed", tool_scratch());
    const logged whole = read_log(timed);
    char out[600];
    snprintf(out, sizeof out, "%s", folder("killed"));
    int killed = 0, runs = 0;
    while (killed < kills) {
        const bool done = run_and_kill(out, most_us);
        killed += !done;
        if (!done && killed < kills) continue;
        if (!done) finish(out);
        const logged broken = read_log(out);
        same(&whole, &broken);
        snprintf(out, sizeof out, "%s", folder("killed"));
        runs++;
    }
    printf("killed %d times over %d runs\n", killed, runs);
}

static void wrong_input_is_named(void **state) {
    (void)state;
    const char *out = folder("wrong");
    tool_result r = TRAIN("--data", "/nowhere.txt", "--out", out);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "/nowhere.txt"));
    r = TRAIN("--data", text_file(), "--data", text_file(), "--out", out);
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "--data is given twice"));
    r = TRAIN("--out", out);
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "--data"));
    r = TRAIN("--out", out, "--resume");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "no run to resume"));
    r = TRAIN("--data", tool_file("short.txt", "short"), "--config", config_file(), "--out", out);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "token"));
    r = TRAIN("--data", text_file(), "--config", "enormous", "--out", out);
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "tiny"));
}

/* The file, the field, the value and what it may be. */
static void a_wrong_config_is_named(void **state) {
    (void)state;
    static const struct {
        const char *text, *said;
    } wrong[] = {
        {"{\"layer\": 3}", "\"layer\" isn't known"},
        {"{\"layers\": -3}", "\"layers\" is -3; it must be a whole number from 1 to 1024"},
        {"{\"layers\": 2.5}", "\"layers\" is 2.5; it must be a whole number"},
        {"{\"layers\": \"2\"}", "\"layers\" is \"2\""},
        {"{\"embd\": 1e300}", "\"embd\" is 1e300; it must be"},
        {"{\"batch\": 9223372036854775807}", "\"batch\" is 9223372036854775807"},
        {"{\"steps\": 2000000000000000}", "\"steps\" is 2000000000000000"},
        {"{\"warmup\": -1}", "\"warmup\" is -1"},
        {"{\"seed\": -1}", "\"seed\" is -1"},
        {"{\"memory\": true}", "\"memory\" is true"},
        {"{\"rate\": null}", "\"rate\" is null"},
        {"{\"rate\": -0.1}", "\"rate\" is -0.1"},
        {"{\"clip\": 1e300}", "\"clip\" is 1e300"},
        {"{\"rate\": NaN}", "line 1"},
        {"{\"rate\": 1e999}", "line 1"},
        {"{\"precision\": \"f33\"}",
         "\"precision\" is \"f33\"; it must be one of: auto f32 bf16 f16"},
        {"{\"precision\": \"f3\"}", "\"precision\" is \"f3\""},
        {"{\"precision\": \"f32\\u0000\"}", "line 1"},
        {"{\"moments\": \"9bit\"}", "\"moments\" is \"9bit\"; it must be one of: f32 8bit"},
        {"{\"moments\": 8}", "\"moments\" is 8"},
        {"{\"architecture\": \"gpt3\"}", "must be one of: llama gpt2"},
        {"{\"pre\": \"gpt2\"}", "\"pre\" is \"gpt2\"; it must be one of: gpt-2"},
        {"{\"name\": 3}", "\"name\" must be a text of less than 64 bytes"},
        {"{\"files\": \"text\"}", "\"files\" must be a list of paths"},
        {"{\"files\": [1]}", "\"files\" must be a list of paths"},
        {"{\"files\": [\"/nowhere.txt\"]}", "/nowhere.txt: No such file"},
        {"{\"embd\": 100, \"heads\": 7, \"kv_heads\": 7}", "a multiple of its \"heads\", 7"},
        {"{\"layers\": 1, \"layers\": 2}", "line 1"},
        {"[3]", "not a JSON object"},
        {"layers: 3", "line 1"},
        {"", "line 1"},
    };
    const char *out = folder("wrong");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *path = tool_file("bad.json", wrong[i].text);
        tool_result r = TRAIN("--data", text_file(), "--config", path, "--out", out);
        if (r.code != 1 || !strstr(r.err, wrong[i].said))
            fail_msg("%s: exit code %d: %s", wrong[i].text, r.code, r.err);
        if (!strstr(wrong[i].said, "multiple") && !strstr(wrong[i].said, "nowhere"))
            assert_non_null(strstr(r.err, "bad.json"));
    }
    tool_result r = TRAIN("--data", text_file(), "--config", "/nowhere/config.json", "--out", out);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "/nowhere/config.json: No such file"));
    r = TRAIN("--data", text_file(), "--config", "/", "--out", out);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "/: Is a directory"));
}

static void a_length_near_the_end_of_the_numbers_is_refused(void **state) {
    (void)state;
    static const char *const wrong[][2] = {
        {"--steps", "18446744073709551615"},
        {"--steps", "0"},
        {"--steps", "99999999999999999999999"},
        {"--steps", "2000000000000000"},
        {"--steps", "-1"},
        {"--tokens", "18446744073709551615"},
        {"--tokens", "0"},
        {"--stop-after", "18446744073709551615"},
        {"--save-every", "0"},
        {"--batch", "18446744073709551616"},
        {"--batch", "0"},
        {"--ctx", "4294967297"},
        {"--vocab", "9223372036854775807"},
        {"--vocab", "255"},
        {"--micro-batch", "-4"},
        {"--seed", "18446744073709551615"},
        {"--time", "nan"},
        {"--rate", "1e300"},
    };
    const char *out = folder("wrong");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        tool_result r = TRAIN("--data", text_file(), "--config", config_file(), "--out", out,
                              wrong[i][0], wrong[i][1]);
        if (r.code != 2 || !strstr(r.err, wrong[i][0]) || !strstr(r.err, wrong[i][1]))
            fail_msg("%s %s: exit code %d: %s", wrong[i][0], wrong[i][1], r.code, r.err);
    }
    assert_int_equal(access(out, F_OK), -1);
    const char *longest = folder("longest");
    tool_result r = TRAIN("--data", text_file(), "--config", config_file(), "--out", longest,
                          "--steps", "1000000000000000", "--stop-after", "2");
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
    assert_int_equal(TRAIN("--out", longest, "--resume", "--stop-after", "3").code, 0);
    assert_int_equal(read_log(longest).steps, 3);
}

static void a_run_is_not_overwritten(void **state) {
    (void)state;
    const char *out = folder("kept");
    assert_int_equal(
        TRAIN("--data", text_file(), "--config", config_file(), "--out", out, "--stop-after", "2")
            .code,
        0);
    tool_result r = TRAIN("--data", text_file(), "--config", config_file(), "--out", out);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "--resume"));
    r = TRAIN("--out", out, "--resume", "--rate", "0.1");
    assert_int_equal(r.code, 2);
    char path[600];
    snprintf(path, sizeof path, "%s/checkpoint", out);
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    fseek(file, 5000, SEEK_SET);
    fputs("damage", file);
    fclose(file);
    r = TRAIN("--out", out, "--resume");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "checkpoint"));
}

/* A line of text more: other tokens, so other numbers. */
static void a_run_resumes_only_with_its_text(void **state) {
    (void)state;
    char text[600];
    snprintf(text, sizeof text, "%s", text_file());
    const char *out = folder("retold");
    assert_int_equal(
        TRAIN("--data", text, "--config", config_file(), "--out", out, "--stop-after", "2").code,
        0);
    FILE *file = fopen(text, "a");
    assert_non_null(file);
    const long end = ftell(file);
    fputs("and more\n", file);
    fclose(file);
    tool_result r = TRAIN("--out", out, "--resume");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "text isn't the one"));
    assert_non_null(strstr(r.err, "text.txt has changed"));
    assert_int_equal(truncate(text, end), 0);
    r = TRAIN("--out", out, "--resume", "--stop-after", "3");
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
    assert_int_equal(read_log(out).steps, 3);
}

/* A log and a picture that can't be written: said once each; the model is whole. */
static void a_full_disk_for_the_log_does_not_end_a_run(void **state) {
    (void)state;
    char path[600];
    const char *out = folder("full");
    assert_int_equal(mkdir(out, 0777), 0);
    snprintf(path, sizeof path, "%s/log.jsonl", out);
    assert_int_equal(symlink("/dev/full", path), 0);
    snprintf(path, sizeof path, "%s/loss.svg", out);
    assert_int_equal(symlink("/dev/full", path), 0);
    tool_result r =
        TRAIN("--data", text_file(), "--config", config_file(), "--steps", "10", "--out", out);
    assert_int_equal(r.code, 1);
    const char *log = strstr(r.err, "log.jsonl: can't write it: No space");
    const char *picture = strstr(r.err, "loss.svg: can't write it: No space");
    assert_non_null(log);
    assert_null(strstr(log + 1, "log.jsonl"));
    assert_non_null(picture);
    assert_non_null(strstr(r.out, "10 steps"));
    snprintf(path, sizeof path, "%s/model.gguf", out);
    assert_int_equal(RUN("info", path).code, 0);
}

static void a_folder_that_is_a_file_is_named(void **state) {
    (void)state;
    const char *out = tool_file("no_folder", "text");
    tool_result r = TRAIN("--data", text_file(), "--config", config_file(), "--out", out);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "no_folder: can't make the folder: Not a directory"));
}

static void a_gpt2_model_is_trained_further_and_resumed(void **state) {
    (void)state;
    const char *first = folder("gpt2");
    char json[600], model[600];
    snprintf(json, sizeof json, "{\"architecture\": \"gpt2\", \"kv_heads\": 4, %s",
             strstr(config, "\"layers\""));
    char *kv = strstr(json, "\"kv_heads\": 2, ");
    assert_non_null(kv);
    memset(kv, ' ', strlen("\"kv_heads\": 2, "));
    tool_result r = TRAIN("--data", text_file(), "--config", tool_file("gpt2.json", json), "--out",
                          first, "--steps", "5");
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
    snprintf(model, sizeof model, "%s/model.gguf", first);
    const char *out = folder("gpt2-further");
    r = TRAIN("--data", text_file(), "--init", model, "--batch", "4", "--steps", "5", "--out", out,
              "--stop-after", "2");
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
    r = TRAIN("--out", out, "--resume");
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
    assert_int_equal(read_log(out).steps, 5);
}

static void a_model_can_be_trained_further(void **state) {
    (void)state;
    const char *first = folder("first");
    whole_run(first);
    char model[600];
    snprintf(model, sizeof model, "%s/model.gguf", first);
    const char *out = folder("further");
    tool_result r = TRAIN("--data", text_file(), "--init", model, "--batch", "4", "--steps", "5",
                          "--rate", "0.0005", "--out", out);
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
    assert_true(read_log(out).loss[1] < 3.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_comes_out_of_text),
        cmocka_unit_test(stopping_and_resuming_changes_no_bit),
        cmocka_unit_test(a_budget_holds_and_changes_nothing),
        cmocka_unit_test(signals_keep_the_work),
        cmocka_unit_test(a_signal_while_held_out_text_is_measured_loses_nothing),
        cmocka_unit_test(a_folder_has_one_run_at_a_time),
        cmocka_unit_test(a_run_that_is_killed_always_resumes),
        cmocka_unit_test(wrong_input_is_named),
        cmocka_unit_test(a_wrong_config_is_named),
        cmocka_unit_test(a_length_near_the_end_of_the_numbers_is_refused),
        cmocka_unit_test(a_run_is_not_overwritten),
        cmocka_unit_test(a_run_resumes_only_with_its_text),
        cmocka_unit_test(a_full_disk_for_the_log_does_not_end_a_run),
        cmocka_unit_test(a_folder_that_is_a_file_is_named),
        cmocka_unit_test(a_model_can_be_trained_further),
        cmocka_unit_test(a_gpt2_model_is_trained_further_and_resumed),
    };
    random_seed(20261121);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
