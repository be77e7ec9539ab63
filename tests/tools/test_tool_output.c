/* test_tool_output.c: files that verbs write, and files that they can't read: nothing is lost, and
 * what is wrong is said before the work. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"
#include "tools/kit/tool_moment.h"
#include "tools/tool_run.h"

static const char table[] = "id,lower,upper,size\na,0,3,4\nb,3,9,4\nc,0,9,4\n";

static void wrong(tool_result r, int code, const char *said) {
    if (r.code != code || !strstr(r.err, said))
        fail_msg("exit code %d: %s; expected %d, %s", r.code, r.err, code, said);
    assert_int_equal(r.out_bytes, 0); /* before any work */
}

static void assert_holds(const char *path, const char *text) {
    char found[256];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    found[fread(found, 1, sizeof found - 1, file)] = 0;
    fclose(file);
    assert_string_equal(found, text);
}

/* Renaming a file onto /dev/null would take its place; a FIFO stands for it here. */
static void a_device_is_not_replaced(void **state) {
    (void)state;
    struct stat about;
    assert_int_equal(mkfifo(at("fifo"), 0600), 0);
    wrong(RUN("quantize", tool_model, at("fifo"), "--type", "Q4_0"), 1, "is not a regular file");
    wrong(RUN("run", tool_model, "-p", "x", "-n", "1", "-q", "--trace", at("fifo")), 1, "fifo: ");
    assert_int_equal(lstat(at("fifo"), &about), 0);
    assert_true(S_ISFIFO(about.st_mode));
    assert_int_equal(remove(at("fifo")), 0);
}

static void what_is_read_is_not_drawn_over(void **state) {
    (void)state;
    const char *path = tool_file("drawn.csv", table);
    wrong(RUN("place", path, "--svg", path), 2, "would overwrite a file that this command reads");
    assert_holds(path, table);
    assert_int_equal(symlink("drawn.csv", at("link.csv")), 0);
    wrong(RUN("place", path, "--svg", at("link.csv")), 2, "would overwrite");
    assert_int_equal(RUN("place", path, "--out", path).code, 0); /* in place is fine */
}

static void two_outputs_are_two_files(void **state) {
    (void)state;
    const char *path = tool_file("both.csv", table), *other = tool_file("kept.csv", "kept");
    wrong(RUN("place", path, "--svg", at("new"), "--out", at("new")), 2,
          "--svg and --out both write to ");
    assert_int_equal(access(at("new"), F_OK), -1);
    assert_int_equal(link(other, at("name.csv")), 0);
    wrong(RUN("place", path, "--svg", other, "--out", at("name.csv")), 2, "both write to ");
    assert_holds(other, "kept");
    assert_int_equal(RUN("place", path, "--svg", "/dev/null", "--out", "/dev/null").code, 0);
}

/* Files are written beside, as PATH.mnem-tmp, and renamed. */
static void a_link_beside_is_not_written_through(void **state) {
    (void)state;
    const char *path = tool_file("linked.csv", table), *other = tool_file("other.txt", "kept");
    assert_int_equal(symlink("other.txt", at("placed.csv.mnem-tmp")), 0);
    assert_int_equal(RUN("place", path, "--out", at("placed.csv")).code, 0);
    assert_holds(other, "kept");
}

static void a_model_and_a_prompt_are_not_traced_over(void **state) {
    (void)state;
    const char *prompt = tool_file("prompt.txt", "In the beginning");
    const char *named = tool_file("named.gguf", "is read when no operand is there");
    wrong(RUN("run", tool_model, "-f", prompt, "-n", "1", "-q", "--trace", prompt), 2,
          "would overwrite a file that this command reads");
    assert_holds(prompt, "In the beginning");
    setenv("MNEM_MODEL", named, 1);
    wrong(RUN("run", "-p", "x", "-q", "--trace", named), 2, "would overwrite");
    wrong(RUN("graph", "--svg", named), 2, "would overwrite");
    unsetenv("MNEM_MODEL");
    assert_holds(named, "is read when no operand is there");
}

static void where_nothing_can_be_written_is_said_before_the_work(void **state) {
    (void)state;
    const char *path = tool_file("table.csv", table);
    const char *trace = tool_file("small.trace", "a 1 100 0\nf 1\n");
    const char *const places[] = {"/nonexistent/file", tool_scratch()};
    for (int i = 0; i < 2; i++) {
        wrong(RUN("place", path, "--svg", places[i]), 1, "can't write the file");
        wrong(RUN("place", path, "--out", places[i]), 1, "can't write the file");
        wrong(RUN("replay", trace, "--svg", places[i]), 1, "can't write the file");
        wrong(RUN("graph", tool_model, "--svg", places[i]), 1, "can't write the file");
        wrong(RUN("run", tool_model, "-p", "x", "--trace", places[i]), 1, "can't write the file");
        wrong(RUN("quantize", tool_model, places[i], "--type", "Q4_0"), 1, places[i]);
    }
}

/* A disk that is full: what was there stays, and nothing beside it. */
static void a_picture_that_fails_leaves_the_old_one(void **state) {
    (void)state;
    const char *path = tool_file("many.csv", table), *svg = tool_file("old.svg", "old");
    struct rlimit limit, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 700; /* the table of the report goes to a pipe */
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const tool_result r = RUN("place", path, "--svg", svg);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, SIG_DFL);
    if (r.code != 1 || !strstr(r.err, "old.svg: File too large"))
        fail_msg("exit code %d: %s", r.code, r.err);
    assert_holds(svg, "old");
    assert_int_equal(access(at("old.svg.mnem-tmp"), F_OK), -1);
}

/* ---- signals ---- */

/* While its report waits for a reader, OUT.mnem-tmp is there; after a signal nothing is. */
static void a_signal_leaves_no_half_model(void **state) {
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    char path[128], beside[140], text[4096];
    snprintf(path, sizeof path, "%s", at("half.gguf"));
    snprintf(beside, sizeof beside, "%s.mnem-tmp", path);
    for (int i = 0; i < 3; i++) {
        int out, err;
        const char *const args[] = {"quantize", tool_model, path, "--type", "Q4_0", "--json", NULL};
        const pid_t pid = tool_start(args, &out, &err);
        const int end = tool_stuff(out);
        for (int wait = 0; wait < 120000 && access(beside, F_OK) != 0; wait++) usleep(1000);
        assert_int_equal(access(beside, F_OK), 0);
        kill(pid, signals[i]);
        close(end);
        while (read(out, text, sizeof text) > 0) continue;
        assert_int_equal(tool_wait(pid), 128 + signals[i]);
        close(out);
        close(err);
        assert_int_equal(access(beside, F_OK), -1);
        assert_int_equal(access(path, F_OK), -1);
    }
}

/* Starts `embed` of more text than a pipe holds. */
static pid_t start_embedding(int *out, int *err) {
    enum { LINES = 60 }; /* of 256 numbers each */
    static char lines[LINES * 16 + 1];
    *lines = 0;
    for (int i = 0; i < LINES; i++) strcat(lines, "let there be\n");
    const char *const args[] = {"embed",     tool_model, "-f", tool_file("lines.txt", lines),
                                "--pooling", "mean",     "-q", NULL};
    return tool_start(args, out, err);
}

static void ends_without_a_word(pid_t pid, int out, int err) {
    char text[4096];
    assert_int_equal(tool_wait(pid), 130);
    text[read(err, text, sizeof text - 1)] = 0;
    assert_string_equal(text, "");
    close(out);
    close(err);
}

/* Of a text that waits for its reader, too; that isn't a failed write. */
static void an_interrupt_ends_a_text_that_nobody_takes(void **state) {
    (void)state;
    int out, err, waits = 0;
    const pid_t pid = start_embedding(&out, &err);
    for (int i = 0; i < 120000 && waits < 60000; i++) {
        usleep(1000);
        assert_int_equal(ioctl(out, FIONREAD, &waits), 0);
    }
    kill(pid, SIGINT);
    ends_without_a_word(pid, out, err);
}

/* Nor does a write wait that begins only after the signal, such as the last one of a buffer. */
static void a_write_after_an_interrupt_waits_for_nobody(void **state) {
    (void)state;
    for (int moment = 0; moment < 4; moment++) {
        int out, err;
        const pid_t pid = start_embedding(&out, &err);
        const int end = tool_stuff(out); /* nothing more fits */
        moment_handles(pid, SIGINT);
        usleep((useconds_t)moment * 4000); /* while it opens, loads, computes, or waits */
        kill(pid, SIGINT);
        ends_without_a_word(pid, out, err);
        close(end);
    }
}

static void a_limit_on_files_is_an_error_that_leaves_nothing(void **state) {
    (void)state;
    struct rlimit limit, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 100000;
    tool_scratch();
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const tool_result r = RUN("quantize", tool_model, at("limited.gguf"), "--type", "Q4_0");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    if (r.code != 1 || !strstr(r.err, "File too large"))
        fail_msg("exit code %d: %s", r.code, r.err);
    assert_int_equal(access(at("limited.gguf.mnem-tmp"), F_OK), -1);
    assert_int_equal(access(at("limited.gguf"), F_OK), -1);
}

/* ---- standard streams that are closed ---- */

/* `mnem words`, as a shell runs it; what it says on stderr is in scratch/said. */
static int shell(const char *words) {
    char command[1024];
    snprintf(command, sizeof command, "'%s' %s 2>'%s'", MNEM_COMMAND, words, at("said"));
    const int how = system(command);
    assert_true(WIFEXITED(how));
    return WEXITSTATUS(how);
}

static void said(const char *text) {
    char found[1024];
    FILE *file = fopen(at("said"), "rb");
    assert_non_null(file);
    found[fread(found, 1, sizeof found - 1, file)] = 0;
    fclose(file);
    if (!strstr(found, text)) fail_msg("%s; expected %s", found, text);
}

static void a_report_that_nobody_takes_does_not_go_into_the_model(void **state) {
    (void)state;
    char words[600], whole[128], model[128];
    snprintf(whole, sizeof whole, "%s", at("whole.gguf"));
    snprintf(model, sizeof model, "%s", at("small.gguf"));
    make_model(model, "--type F16");
    assert_int_equal(RUN("quantize", model, whole, "--type", "Q4_0").code, 0);
    const char *const closed[] = {"<&- >&-", ">&-", ">/dev/full"};
    for (int i = 0; i < 3; i++) {
        snprintf(words, sizeof words, "quantize '%s' '%s' --type Q4_0 --json %s", model,
                 at("told.gguf"), closed[i]);
        assert_int_equal(shell(words), 1);
        said("writing to standard output failed");
        snprintf(words, sizeof words, "cmp '%s' '%s'", whole, at("told.gguf"));
        assert_int_equal(system(words), 0);
    }
}

static void a_closed_input_is_no_prompt(void **state) {
    (void)state;
    char words[600];
    snprintf(words, sizeof words, "run '%s' -q -n 1 <&- >'%s'", tool_model, at("out"));
    assert_int_equal(shell(words), 1);
    said("can't read standard input");
    snprintf(words, sizeof words, "run '%s' -q -p x -n 1 <&- >'%s'", tool_model, at("out"));
    assert_int_equal(shell(words), 0);
}

/* Text that nobody could read is an error, also when there is no place to say so. */
static void a_closed_output_is_an_error(void **state) {
    (void)state;
    char words[600];
    assert_int_equal(shell("version >&-"), 1);
    said("writing to standard output failed: Bad file descriptor");
    snprintf(words, sizeof words, "info '%s' <&- >&- 2>&-; exit $?; :", tool_model);
    assert_int_equal(shell(words), 1);
}

/* ---- what can't be read ---- */

/* The memory's limit is there so that a command without one of its own does no harm. */
static void what_never_ends_is_refused(void **state) {
    (void)state;
    if (!MNEM_RELEASE) skip(); /* sanitizers take more addresses */
    struct rlimit limit, small;
    char endless[600];
    assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
    small = limit;
    small.rlim_cur = (rlim_t)5 << 30;
    assert_int_equal(setrlimit(RLIMIT_AS, &small), 0);
    assert_int_equal(shell("place /dev/zero"), 1);
    said("can't read /dev/zero: it has a zero byte");
    snprintf(endless, sizeof endless, "tokenize '%s' </dev/zero", tool_model);
    assert_int_equal(shell(endless), 1);
    said("standard input has more than 1 GiB of text");
    assert_int_equal(shell("run -q -n 1 -f /dev/zero"), 1);
    said("/dev/zero has more than 1 GiB of text");
    snprintf(endless, sizeof endless, "yes | '%s' place - 2>'%s'", MNEM_COMMAND, at("said"));
    assert_int_equal(WEXITSTATUS(system(endless)), 1);
    said("it is too long for a table");
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
}

static void a_model_that_is_none_is_described(void **state) {
    (void)state;
    static char part[4000];
    FILE *file = fopen(tool_model, "rb");
    assert_non_null(file);
    assert_int_equal(fread(part, 1, sizeof part, file), sizeof part);
    fclose(file);
    file = fopen(at("cut.gguf"), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(part, 1, sizeof part, file), sizeof part);
    assert_int_equal(fclose(file), 0);
    wrong(RUN("info", at("cut.gguf")), 1, ": the file is cut off");
    wrong(RUN("info", tool_file("nothing.gguf", "")), 1, "nothing.gguf: is empty");
    wrong(RUN("info", tool_scratch()), 1, "as it has no config.json; give the GGUF file in it: /");
    assert_int_equal(mkdir(folder("bare"), 0700), 0);
    wrong(RUN("info", at("bare")), 1, "is not the folder of a model");
}

static void info_says_how_many_experts_and_how_wide_a_latent(void **state) {
    (void)state;
    make_model(at("experts.gguf"), "--arch qwen2moe --ff-expert 32 --ff-shared 48");
    tool_result r = RUN("info", at("experts.gguf"));
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "experts        8 of 32, 2 for each token, and 48 for all\n"));
    make_model(at("experts.gguf"), "--arch deepseek2 --heads 4 --ff-expert 32");
    r = RUN("info", at("experts.gguf"));
    assert_non_null(strstr(r.out, "latent         16 for keys and values, heads of 24 and 16\n"));
}

static void a_text_too_short_for_a_window_gets_a_window(void **state) {
    (void)state;
    char command[24];
    const char *text = tool_file("short.txt", "In the beginning God created the heaven.");
    tool_result r = RUN("perplexity", tool_model, text, "-q");
    const char *hint = strstr(r.err, "--ctx ");
    if (r.code != 1 || !hint) fail_msg("exit code %d: %s", r.code, r.err);
    assert_int_equal(sscanf(hint, "--ctx %23s would do", command), 1);
    r = RUN("perplexity", tool_model, text, "-q", "--ctx", command);
    if (r.code != 0) fail_msg("--ctx %s: %s", command, r.err);
}

/* Windows of a text, the first of them. */
static long windows_of(const char *chunks) {
    const char *text = MNEM_SOURCE "/LICENSE";
    const tool_result r =
        chunks ? RUN("perplexity", tool_model, text, "--ctx", "64", "--json", "--chunks", chunks)
               : RUN("perplexity", tool_model, text, "--ctx", "64", "--json");
    const char *said = strstr(r.out, "\"windows\":");
    if (r.code != 0 || !said) fail_msg("exit code %d: %s", r.code, r.err);
    return strtol(said + strlen("\"windows\":"), NULL, 10);
}

static void chunks_are_the_first_windows(void **state) {
    (void)state;
    const long all = windows_of(NULL);
    assert_true(all > 3);
    assert_int_equal(windows_of("3"), 3);
    assert_int_equal(windows_of("1"), 1);
    assert_int_equal(windows_of("100000"), all);
}

/* As `install` puts it into ~/.local/bin: the model is looked for in ~/.local/share. */
static void a_copied_command_says_where_its_model_is_looked_for(void **state) {
    (void)state;
    size_t n;
    char command[128], model[160], *bytes = read_file(MNEM_COMMAND, &n);
    snprintf(command, sizeof command, "%s", at("local/bin/mnem"));
    snprintf(model, sizeof model, "%s", at("local/share/mnem/models/mnem-kjv-5m-q8_0.gguf"));
    static const char *const folders[] = {"local", "local/bin", "local/share", "local/share/mnem",
                                          "local/share/mnem/models"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        assert_int_equal(mkdir(at(folders[i]), 0700), 0);
    write_file(command, bytes, n);
    free(bytes);
    assert_int_equal(chmod(command, 0700), 0);
    tool_command = command;
    const tool_result without = RUN("info");
    const int code = without.code;
    const bool named = strstr(without.err, "../share/mnem/models") && strstr(without.err, "MODEL");
    assert_int_equal(symlink(tool_model, model), 0);
    const int with = RUN("info").code;
    tool_command = NULL;
    remove(command);
    assert_int_equal(code, 1);
    assert_true(named);
    assert_int_equal(with, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_is_not_replaced),
        cmocka_unit_test(what_is_read_is_not_drawn_over),
        cmocka_unit_test(two_outputs_are_two_files),
        cmocka_unit_test(a_link_beside_is_not_written_through),
        cmocka_unit_test(a_model_and_a_prompt_are_not_traced_over),
        cmocka_unit_test(where_nothing_can_be_written_is_said_before_the_work),
        cmocka_unit_test(a_picture_that_fails_leaves_the_old_one),
        cmocka_unit_test(a_signal_leaves_no_half_model),
        cmocka_unit_test(an_interrupt_ends_a_text_that_nobody_takes),
        cmocka_unit_test(a_write_after_an_interrupt_waits_for_nobody),
        cmocka_unit_test(a_limit_on_files_is_an_error_that_leaves_nothing),
        cmocka_unit_test(a_report_that_nobody_takes_does_not_go_into_the_model),
        cmocka_unit_test(a_closed_input_is_no_prompt),
        cmocka_unit_test(a_closed_output_is_an_error),
        cmocka_unit_test(a_model_that_is_none_is_described),
        cmocka_unit_test(info_says_how_many_experts_and_how_wide_a_latent),
        cmocka_unit_test(what_never_ends_is_refused),
        cmocka_unit_test(a_text_too_short_for_a_window_gets_a_window),
        cmocka_unit_test(chunks_are_the_first_windows),
        cmocka_unit_test(a_copied_command_says_where_its_model_is_looked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
