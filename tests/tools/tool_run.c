/* tool_run.c: spawning the command, collecting its output, and golden texts. */
#include "tools/tool_run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_file.h"

enum { ARGS_MAX = 48, SECONDS_MAX = 600 }; /* a busy machine needs minutes */

const char *const tool_model = MNEM_SOURCE "/models/mnem-kjv-5m-q8_0.gguf";

const char *tool_command;

static char out_text[TOOL_RUN_BYTES], err_text[TOOL_RUN_BYTES];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

const char *tool_scratch(void) {
    static bool done;
    if (!done) {
        setenv("XDG_CACHE_HOME", kit_folder(), 1);
        setenv("XDG_STATE_HOME", kit_folder(), 1);
        setenv("MNEM_HISTORY", "off", 1); /* but for tests of it */
        setenv("MNEM_STATUS", "off", 0);
        unsetenv("MNEM_MODEL");
        unsetenv("MNEM_MEMORY");
    }
    done = true;
    return kit_folder();
}

const char *at(const char *name) {
    tool_scratch();
    return kit_path(name);
}

const char *tool_file(const char *name, const char *text) {
    write_file(at(name), text, strlen(text));
    return at(name);
}

const char *folder(const char *name) {
    kit_remove(at(name));
    return at(name);
}

static pid_t spawn(const char *const *args, int in, int out, int err) {
    const char *argv[ARGS_MAX + 2] = {"mnem"};
    for (int i = 0; args[i]; i++) {
        assert_true(i < ARGS_MAX);
        argv[i + 1] = args[i];
    }
    tool_scratch();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(in, STDIN_FILENO);
        dup2(out, STDOUT_FILENO);
        dup2(err, STDERR_FILENO);
        signal(SIGHUP, SIG_DFL); /* the tests may run under nohup */
        for (int fd = 3; fd < 64; fd++) close(fd);
        execv(tool_command ? tool_command : MNEM_COMMAND, (char *const *)argv);
        _exit(127);
    }
    return pid;
}

pid_t tool_start(const char *const *args, int *out, int *err) {
    int out_pipe[2], err_pipe[2], in = open("/dev/null", O_RDONLY);
    assert_int_equal(pipe(out_pipe), 0);
    assert_int_equal(pipe(err_pipe), 0);
    pid_t pid = spawn(args, in, out_pipe[1], err_pipe[1]);
    close(in);
    close(out_pipe[1]);
    close(err_pipe[1]);
    *out = out_pipe[0];
    *err = err_pipe[0];
    return pid;
}

int tool_wait(pid_t pid) {
    int status;
    double end = now() + SECONDS_MAX;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (now() > end) kill(pid, SIGKILL);
        usleep(2000);
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int tool_stuff(int fd) {
    char path[32], full[4096];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int end = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(end >= 0);
    memset(full, '.', sizeof full);
    while (write(end, full, sizeof full) > 0) continue;
    while (write(end, full, 1) > 0) continue;
    return end;
}

/* Reads both until their ends; false when that takes too long. */
static bool collect(int out, int err, tool_result *r) {
    struct pollfd fds[2] = {{.fd = out, .events = POLLIN}, {.fd = err, .events = POLLIN}};
    char *const texts[2] = {out_text, err_text};
    size_t used[2] = {0, 0};
    double end = now() + SECONDS_MAX;
    for (int open_ends = 2; open_ends > 0 && now() < end;) {
        if (poll(fds, 2, 1000) < 0 && errno != EINTR) break;
        for (int i = 0; i < 2; i++) {
            if (fds[i].fd < 0 || !fds[i].revents) continue;
            ssize_t n = read(fds[i].fd, texts[i] + used[i], TOOL_RUN_BYTES - 1 - used[i]);
            if (n > 0)
                used[i] += (size_t)n;
            else
                fds[i].fd = -1, open_ends--;
        }
    }
    for (int i = 0; i < 2; i++) texts[i][used[i]] = 0;
    *r =
        (tool_result){.out = out_text, .err = err_text, .out_bytes = used[0], .err_bytes = used[1]};
    return fds[0].fd < 0 && fds[1].fd < 0;
}

static int open_input(const char *text) {
    if (!text) return open("/dev/null", O_RDONLY);
    int in = open(tool_file("input", text), O_RDONLY);
    return in;
}

tool_result tool_run(const char *input, const char *const *args) {
    tool_result r;
    int out[2], err[2], in = open_input(input);
    assert_true(in >= 0);
    assert_int_equal(pipe(out), 0);
    assert_int_equal(pipe(err), 0);
    pid_t pid = spawn(args, in, out[1], err[1]);
    close(in);
    close(out[1]);
    close(err[1]);
    if (!collect(out[0], err[0], &r)) kill(pid, SIGKILL);
    close(out[0]);
    close(err[0]);
    r.code = tool_wait(pid);
    return r;
}

void tool_golden(const char *name, const char *text) {
    static char golden[TOOL_RUN_BYTES];
    char path[512];
    snprintf(path, sizeof path, "%s", name[0] == '/' ? name : MNEM_SOURCE "/tests/tools/golden/");
    if (name[0] != '/') strncat(path, name, sizeof path - strlen(path) - 1);
    if (getenv("MNEM_GOLDEN_UPDATE")) {
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        fputs(text, file);
        fclose(file);
        return;
    }
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("no golden text %s; set MNEM_GOLDEN_UPDATE to write it", path);
    golden[fread(golden, 1, sizeof golden - 1, file)] = 0;
    fclose(file);
    if (strcmp(golden, text) != 0)
        fail_msg("%s differs (MNEM_GOLDEN_UPDATE=1 writes it anew); got:\n%s", name, text);
}

json_t *tool_last_object(tool_result r) {
    if (r.code) fail_msg("exit code %d: %s", r.code, r.err);
    char *end = r.out + r.out_bytes;
    while (end > r.out && end[-1] == '\n') *--end = 0;
    const char *line = strrchr(r.out, '\n');
    json_t *object = json_loads(line ? line + 1 : r.out, 0, NULL);
    if (!object) fail_msg("%s", r.out);
    return object;
}
