/* test_history.c: the file of finished runs. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "mnem/history.h"

static const mnem_history_run whole = {
    .time = 1700000000,
    .verb = "run",
    .version = "9.9",
    .model = "a \"b\" \\ \x01\xff.gguf",
    .machine = "0123",
    .threads = 2,
    .context = 512,
    .budget_bytes = UINT64_C(1) << 40,
    .peak_bytes = 12345678901,
    .seconds = 1.25,
    .phase = {[MNEM_PHASE_TOKENS] = {.tokens = 7,
                                     .seconds = 0.5,
                                     .cpu_seconds = 0.9,
                                     .predicted_seconds = 0.4,
                                     .works = 2,
                                     .work = {{"matmul", "Q8_0", "memory", 1e9, 2e9},
                                              {"attention", "F16", "L2", 3, 0.25}}}}};

static const char *fresh(const char *name) {
    kit_remove(kit_path(name));
    return kit_path(name);
}

static void a_run_comes_back_as_it_was(void **state) {
    (void)state;
    const char *path = fresh("one");
    mnem_history_run run = whole, back;
    must(mnem_history_append(path, &run));
    assert_int_equal(run.run, 1);
    must(mnem_history_get(path, 0, &back));
    assert_string_equal(back.model, "a \"b\" \\ ??.gguf");
    memcpy(back.model, run.model, sizeof back.model);
    assert_memory_equal(back.phase[1].work, run.phase[1].work, sizeof run.phase[1].work);
    assert_memory_equal(&back, &run, sizeof run);
}

static void numbers_grow_and_each_can_be_had(void **state) {
    (void)state;
    const char *path = fresh("numbers");
    mnem_history_run run, back;
    for (uint64_t i = 1; i <= 20; i++) {
        run = (mnem_history_run){.verb = "run", .threads = (int32_t)i};
        must(mnem_history_append(path, &run));
        assert_int_equal(run.run, i);
        assert_true(run.time > 0);
    }
    must(mnem_history_get(path, 13, &back));
    assert_int_equal(back.threads, 13);
    must(mnem_history_get(path, 0, &back));
    assert_int_equal(back.run, 20);
    assert_int_equal(mnem_history_get(path, 21, &back), MNEM_NOT_FOUND);
    assert_non_null(strstr(mnem_last_error(), "1 to 20"));
    assert_int_equal(mnem_history_get(fresh("nothing"), 0, &back), MNEM_NOT_FOUND);
    assert_non_null(strstr(mnem_last_error(), "no run yet"));
}

static void it_is_its_owners_only(void **state) {
    (void)state;
    const char *path = fresh("mode");
    const mode_t before = umask(0);
    mnem_history_run run = whole;
    struct stat info;
    must(mnem_history_append(path, &run));
    umask(before);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
}

static void what_is_broken_is_passed_over(void **state) {
    (void)state;
    static const char text[] =
        "not JSON\n{\"run\":3,\"verb\":\"run\"}\n{\"run\":\"x\"}\n[]\n\n{}\n"
        "{\"run\":4,\"threads\":-5,\"tokens\":{\"tokens\":1e99}}\n{\"run\":9";
    const char *path = fresh("broken");
    mnem_history_run run = whole, back;
    write_file(path, text, sizeof text - 1);
    must(mnem_history_get(path, 0, &back) == MNEM_NOT_FOUND ? MNEM_INVALID : MNEM_OK);
    must(mnem_history_get(path, 3, &back));
    must(mnem_history_get(path, 4, &back));
    assert_int_equal(back.threads, 0);
    must(mnem_history_append(path, &run)); /* behind the half line, which is ended */
    assert_int_equal(run.run, 10);
    must(mnem_history_get(path, 10, &back));
    assert_string_equal(back.verb, "run");
}

static void a_line_that_is_too_long_is_passed_over(void **state) {
    (void)state;
    static char text[5 * MNEM_HISTORY_LINE];
    const char *path = fresh("long");
    mnem_history_run run = whole, back;
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\n';
    write_file(path, text, sizeof text);
    must(mnem_history_append(path, &run));
    assert_int_equal(run.run, 1);
    must(mnem_history_get(path, 1, &back));
}

static void it_stays_bounded_and_keeps_the_newest(void **state) {
    (void)state;
    const char *path = fresh("bounded");
    struct stat info;
    mnem_history_run run, back;
    uint64_t last = 0;
    for (int i = 0; i < 5000; i++) {
        run = whole;
        must(mnem_history_append(path, &run));
        assert_int_equal(run.run, last + 1);
        last = run.run;
        assert_int_equal(stat(path, &info), 0);
        assert_true(info.st_size <= MNEM_HISTORY_BYTES);
    }
    must(mnem_history_get(path, last, &back));
    must(mnem_history_get(path, last - 1000, &back));
    assert_int_equal(mnem_history_get(path, 1, &back), MNEM_NOT_FOUND);
    assert_int_equal(info.st_mode & 0777, 0600);
}

/* Many processes, each with many runs: no line is lost or torn. */
static void programs_that_end_together_keep_theirs(void **state) {
    (void)state;
    enum { PROGRAMS = 4, RUNS = 25 };
    const char *path = fresh("together");
    pid_t pid[PROGRAMS];
    mnem_history_run back;
    for (int p = 0; p < PROGRAMS; p++) {
        pid[p] = fork();
        assert_true(pid[p] >= 0);
        if (pid[p] > 0) continue;
        mnem_status status = MNEM_OK;
        for (int i = 0; i < RUNS && status == MNEM_OK; i++) {
            mnem_history_run run = whole;
            do status = mnem_history_append(path, &run);
            while (status == MNEM_IO); /* a machine so slow that the lock isn't had */
        }
        _exit(status != MNEM_OK);
    }
    for (int p = 0; p < PROGRAMS; p++) {
        int code;
        assert_int_equal(waitpid(pid[p], &code, 0), pid[p]);
        assert_int_equal(code, 0);
    }
    for (uint64_t i = 1; i <= PROGRAMS * RUNS; i++) must(mnem_history_get(path, i, &back));
    assert_int_equal(mnem_history_get(path, PROGRAMS * RUNS + 1, &back), MNEM_NOT_FOUND);
}

static void what_cant_be_written_names_the_file(void **state) {
    (void)state;
    mnem_history_run run = whole;
    const char *path = fresh("folder");
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(mnem_history_append(path, &run), MNEM_IO);
    assert_non_null(strstr(mnem_last_error(), path));
    const char *link = fresh("link");
    assert_int_equal(symlink(kit_path("elsewhere"), link), 0);
    assert_int_equal(mnem_history_append(link, &run), MNEM_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_comes_back_as_it_was),
        cmocka_unit_test(numbers_grow_and_each_can_be_had),
        cmocka_unit_test(it_is_its_owners_only),
        cmocka_unit_test(what_is_broken_is_passed_over),
        cmocka_unit_test(a_line_that_is_too_long_is_passed_over),
        cmocka_unit_test(it_stays_bounded_and_keeps_the_newest),
        cmocka_unit_test(programs_that_end_together_keep_theirs),
        cmocka_unit_test(what_cant_be_written_names_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
