/* replay_input.c: where a trace comes from: a file, standard input, or what xz makes of a file. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verbs/replay/replay_tool.h"

extern char **environ;

typedef struct reading {
    tool_progress progress;
    uint64_t bytes; /* of the file; 0: unknown */
} reading;

static bool on_progress(void *context, const char *what, uint64_t done, uint64_t total) {
    reading *r = context;
    char note[TOOL_TEXT];
    (void)what, (void)total;
    tool_progress_step(&r->progress, done, r->bytes ? r->bytes : UINT64_MAX, tool_size(done, note));
    return !tool_interrupted();
}

static mnem_status read_fd(const replay_options *asked, const char *name, int fd, uint64_t bytes,
                           mnem_workload **workload) {
    reading r = {.bytes = bytes};
    const mnem_workload_options options = {.device_given = tool_given(&asked->args, "device"),
                                           .device = (uint32_t)asked->device,
                                           .progress = {on_progress, &r}};
    tool_progress_begin(&r.progress, "reading");
    const mnem_status status = mnem_workload_open_fd(name, fd, &options, workload);
    tool_progress_end(&r.progress);
    return status;
}

/* Starts `xz -dc -- path` with its output in *out. Its signals are as they were for us at first, so
 * that it ends when nobody reads. Returns an errno. */
static int xz_start(const char *path, pid_t *pid, int *out) {
    char *const words[] = {(char *)"xz", (char *)"-dc", (char *)"--", (char *)path, NULL};
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return errno;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t restored;
    sigemptyset(&restored);
    sigaddset(&restored, SIGPIPE);
    sigaddset(&restored, SIGXFSZ);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &restored);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    const int error = posix_spawnp(pid, "xz", &actions, &attributes, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(ends[1]);
    if (error)
        close(ends[0]);
    else
        *out = ends[0];
    return error;
}

static int open_xz(const replay_options *asked, const char *path, mnem_workload **workload) {
    pid_t pid;
    int fd = -1, how = 0;
    const int error = xz_start(path, &pid, &fd);
    if (error == ENOENT)
        return tool_failed("can't read %s: the command xz that unpacks it is not installed; "
                           "install the package xz-utils, or unpack the file first",
                           path);
    if (error)
        return tool_failed("can't read %s: the command xz that unpacks it can't be started: %s",
                           path, strerror(error));
    const mnem_status status = read_fd(asked, path, fd, 0, workload);
    close(fd);
    while (waitpid(pid, &how, 0) < 0 && errno == EINTR) continue;
    if (status == MNEM_CANCELLED) return tool_fail(status);
    if (WIFEXITED(how) && WEXITSTATUS(how) != 0) { /* it has said why */
        mnem_workload_close(*workload);
        *workload = NULL;
        return tool_failed(
            "can't read %s: xz failed to unpack it, for the reason that it printed above", path);
    }
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

static bool ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

int replay_input_open(const replay_options *asked, const char *path, mnem_workload **workload) {
    struct stat st;
    *workload = NULL;
    if (strcmp(path, "-") == 0) {
        tool_say_waiting();
        const mnem_status status = read_fd(asked, "standard input", STDIN_FILENO, 0, workload);
        return status == MNEM_OK ? TOOL_OK : tool_fail(status);
    }
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return tool_failed("can't open the trace %s: %s", path, strerror(errno));
    if (ends_with(path, ".xz")) {
        close(fd);
        return open_xz(asked, path, workload);
    }
    const uint64_t bytes = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    const mnem_status status = read_fd(asked, path, fd, bytes, workload);
    close(fd);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}
