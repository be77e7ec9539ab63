/* tool_moment.c: proc(5) of a process, asked again and again. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* F_NOTIFY, F_SETSIG */
#endif
#include "tools/kit/tool_moment.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "tools/tool_run.h"

enum { TRIES = 1000000, TRY_US = 300, NO_NOTICES = 77, ARGS = 48 };

/* Where the process is gone, the file has no such line. */
static bool status_line(pid_t pid, const char *form, void *value) {
    char path[32], line[128];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) found = sscanf(line, form, value) == 1;
    if (file) fclose(file);
    return found;
}

char moment_state(pid_t pid) {
    char state;
    if (!status_line(pid, "State: %c", &state) || state == 'X') return 'Z';
    return state;
}

static void try_again(int *tries, const char *what) {
    if (++*tries == TRIES) fail_msg("%s: not within minutes", what);
    usleep(TRY_US);
}

static bool has_bit(pid_t pid, const char *form, int number, bool when_gone) {
    unsigned long long mask;
    if (moment_state(pid) == 'Z' || !status_line(pid, form, &mask)) return when_gone;
    return mask >> (number - 1) & 1;
}

void moment_handles(pid_t pid, int number) {
    for (int i = 0; !has_bit(pid, "SigCgt: %llx", number, true);) try_again(&i, "a handler");
}

void moment_delivered(pid_t pid, int number) {
    for (int i = 0; has_bit(pid, "ShdPnd: %llx", number, false);) try_again(&i, "a signal");
}

void moment_sleeps(pid_t pid) {
    for (int i = 0; !strchr("SZ", moment_state(pid));) try_again(&i, "sleep");
}

void moment_stopped(pid_t pid) {
    for (int i = 0; !strchr("TZ", moment_state(pid));) try_again(&i, "a stop");
}

void moment_taken(int fd) {
    int waits = 1;
    for (int i = 0; waits > 0;) {
        assert_int_equal(ioctl(fd, FIONREAD, &waits), 0);
        if (waits > 0) try_again(&i, "a reader");
    }
}

static bool file_has(const char *path, const char *text) {
    if (access(path, R_OK) != 0) return false;
    char *all = read_file(path, NULL);
    const bool has = strstr(all, text) != NULL;
    free(all);
    return has;
}

bool moment_file_has(pid_t pid, const char *path, const char *text) {
    for (int i = 0; !file_has(path, text); try_again(&i, text))
        if (moment_state(pid) == 'Z') return file_has(path, text);
    return true;
}

/* ---- signals that the kernel sends ---- */

/* This process gets the signal when the next file of the folder is made, also after its exec. */
static void arm(const char *in, int number) {
    const int fd = open(in, O_RDONLY | O_DIRECTORY);
    if (fd < 0 || fcntl(fd, F_SETOWN, getpid()) != 0 || fcntl(fd, F_SETSIG, number) != 0 ||
        fcntl(fd, F_NOTIFY, DN_CREATE) != 0)
        _exit(NO_NOTICES);
}

static void become(const char *in, int number, int other, const char *const *args) {
    const char *argv[ARGS + 2] = {"mnem"};
    for (int i = 0; args[i] && i < ARGS; i++) argv[i + 1] = args[i];
    const int out = open("/dev/null", O_RDWR);
    const int err = open(at("err.txt"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(out, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    signal(SIGHUP, SIG_DFL);             /* the tests may run under nohup */
    setenv("MALLOC_PERTURB_", "165", 1); /* what was freed is no pointer (mallopt(3)) */
    arm(in, number);
    if (other) arm(in, other);
    execv(MNEM_COMMAND, (char *const *)argv);
    _exit(127);
}

int moment_created(const char *in, int number, int other, const char *const *args) {
    at("err.txt");
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) become(in, number, other, args);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status)) return -WTERMSIG(status);
    if (WEXITSTATUS(status) == NO_NOTICES) skip();
    return WEXITSTATUS(status);
}
