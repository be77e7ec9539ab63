/* test_tool_train.c: `mnem train`: a run from text to a model, stopped, killed and resumed;
 * budgets, a full disk, and training further. MNEM_KILLS says how often the crash test kills
 * (default 6; 2 under sanitizers). */
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
#include "tools/kit/tool_moment.h"
#include "tools/train/train_run.h"

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
    r = RUN("run", out, "-q", "-p", "and the lord");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "is the folder of a training run: give its model file, "));
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
    tool_result r = RUN("train", "-q", "--memory", "1M", "--threads", "1", "--data", text_file(),
                        "--config", config_file(), "--out", out);
    const char *memory = tool_bytes(tool_least(&r));
    r = RUN("train", "-q", "--json", "--memory", memory, "--threads", "1", "--data", text_file(),
            "--config", config_file(), "--out", out);
    json_t *result = tool_last_object(r);
    const json_int_t peak = json_integer_value(json_object_get(result, "bytes_peak"));
    assert_true(peak <= json_integer_value(json_object_get(result, "budget_bytes")));
    json_decref(result);
    const logged small = read_log(out);
    assert_int_equal(small.steps, STEPS);
    for (int i = 1; i <= STEPS; i++) /* sequences one by one: sums are rounded elsewhere */
        assert_true(small.loss[i] > whole.loss[i] - 0.02 && small.loss[i] < whole.loss[i] + 0.02);
}

/* The signal comes while a checkpoint is written. */
static void ends_whole(const logged *whole, const char *out, int signal) {
    const char *const args[] = {"train", "--memory", MEMORY,         "--threads", "1", "--out",
                                out,     "--resume", "--save-every", "3",         NULL};
    const tool_result r =
        TRAIN("--data", text_file(), "--config", config_file(), "--out", out, "--stop-after", "2");
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
    assert_int_equal(moment_created(out, signal, 0, args), 128 + signal);
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

static int count(const char *text, const char *what) {
    int n = 0;
    for (; (text = strstr(text, what)); text++) n++;
    return n;
}

/* Samples of a run that gets the signal in the look that follows step 3. */
static int samples_until(int signal, const char *out, const char *data, const char *looks) {
    const char *const args[] = {"train", "-v",     "--memory", MEMORY,     "--threads",
                                "1",     "--data", data,       "--config", looks,
                                "--out", out,      NULL};
    static char said[64 * 1024];
    char path[600];
    int out_fd, err_fd;
    const pid_t pid = tool_start(args, &out_fd, &err_fd);
    snprintf(path, sizeof path, "%s/log.jsonl", out);
    assert_true(moment_file_has(pid, path, "\"step\":3,"));
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
            RUN("train", "-v", "--memory", MEMORY, "--threads", "1", "--out", out, "--resume");
        if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
        const logged l = read_log(out);
        same(&expected, &l);
        assert_int_equal(before + count(r.err, "sample: "), LOOKS);
    }
}

/* ---- killed ---- */

/* Steps in the log of a run. */
static int steps_logged(const char *out) {
    char path[640];
    snprintf(path, sizeof path, "%s/log.jsonl", out);
    return access(path, F_OK) == 0 ? read_log(out).steps : 0;
}

/* Starts or resumes a run and kills it: while it writes its first file, or its first checkpoint
 * where it is resumed; or some steps on. True when it came to its end before. */
static bool run_and_kill(const char *out, bool writing) {
    char path[640], step[24];
    int out_fd, err_fd;
    snprintf(path, sizeof path, "%s/config.json", out);
    const bool begun = access(path, F_OK) == 0;
    const char *const fresh[] = {"train",    "-q",           "--memory", MEMORY,   "--threads",
                                 "1",        "--save-every", "3",        "--data", text_file(),
                                 "--config", config_file(),  "--out",    out,      NULL};
    const char *const again[] = {"train",        "-q", "--memory", MEMORY, "--threads", "1",
                                 "--save-every", "3",  "--out",    out,    "--resume",  NULL};
    if (writing) {
        mkdir(out, 0777);
        const int code = moment_created(out, SIGKILL, 0, begun ? again : fresh);
        if (code != 0 && code != -SIGKILL) fail_msg("exit code %d", code);
        return code == 0;
    }
    snprintf(step, sizeof step, "\"step\":%d,", steps_logged(out) + 1 + (int)random_below(15));
    const pid_t pid = tool_start(begun ? again : fresh, &out_fd, &err_fd);
    snprintf(path, sizeof path, "%s/log.jsonl", out);
    moment_file_has(pid, path, step);
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
    const logged whole = whole_run(folder("unkilled"));
    char out[600];
    snprintf(out, sizeof out, "%s", folder("killed"));
    int killed = 0, runs = 0;
    while (killed < kills) {
        const bool done = run_and_kill(out, killed % 2 == 0);
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

/* ---- a full disk, and models trained further ---- */

/* A log and a picture that can't be written: said once each; the model is whole. */
static void a_full_disk_for_the_log_does_not_end_a_run(void **state) {
    (void)state;
    static const char begun[] = "{\"files\": [], \"steps\": 1, \"heldout\": 0, \"warmup\": 0}";
    char path[600];
    const char *out = folder("full");
    assert_int_equal(mkdir(out, 0777), 0);
    snprintf(path, sizeof path, "%s/config.json", out); /* of a run without a checkpoint */
    write_file(path, begun, strlen(begun));
    snprintf(path, sizeof path, "%s/log.jsonl", out);
    assert_int_equal(symlink("/dev/full", path), 0);
    snprintf(path, sizeof path, "%s/loss.svg", out);
    assert_int_equal(symlink("/dev/full", path), 0);
    tool_result r =
        TRAIN("--data", text_file(), "--config", config_file(), "--steps", "10", "--out", out);
    assert_int_equal(r.code, 1);
    const char *log = strstr(r.err, "log.jsonl: No space");
    const char *picture = strstr(r.err, "loss.svg: No space");
    assert_non_null(log);
    assert_null(strstr(log + 1, "log.jsonl"));
    assert_non_null(picture);
    assert_non_null(strstr(r.out, "10 steps"));
    snprintf(path, sizeof path, "%s/model.gguf", out);
    assert_int_equal(RUN("info", path).code, 0);
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
        cmocka_unit_test(a_run_that_is_killed_always_resumes),
        cmocka_unit_test(a_full_disk_for_the_log_does_not_end_a_run),
        cmocka_unit_test(a_gpt2_model_is_trained_further_and_resumed),
        cmocka_unit_test(a_model_can_be_trained_further),
    };
    random_seed(20261121);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
