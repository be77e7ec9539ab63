/* output_file.c: files that verbs write beside their output.
 *
 * The idea: PATH.mnem-tmp is written and renamed, so that PATH is what it was or whole. What isn't
 * a plain file (a link, a pipe, a device) is written as it is, since renaming would replace it. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output_file.h"

int tool_new_failed(const char *path, int error) {
    return tool_failed("can't write the file %s: %s", path, strerror(error));
}

bool tool_new_is_replaced(const char *path) {
    struct stat about;
    return lstat(path, &about) != 0 || S_ISREG(about.st_mode);
}

static void hold_signals(tool_new *file) {
    sigset_t ends;
    sigemptyset(&ends);
    if (*file->beside) {
        sigaddset(&ends, SIGINT);
        sigaddset(&ends, SIGTERM);
        sigaddset(&ends, SIGHUP);
    }
    sigprocmask(SIG_BLOCK, &ends, &file->signals);
}

static void let_signals(const tool_new *file) {
    sigprocmask(SIG_SETMASK, &file->signals, NULL);
}

int tool_new_open(tool_new *file, const char *path) {
    *file = (tool_new){.path = path};
    if (tool_new_is_replaced(path)) {
        const int n = snprintf(file->beside, sizeof file->beside, "%s" TOOL_NEW_END, path);
        if (n < 0 || (size_t)n >= sizeof file->beside) return tool_new_failed(path, ENAMETOOLONG);
    }
    hold_signals(file);
    /* What was left there by a killed run, or a link of that name, isn't written through. */
    if (*file->beside) unlink(file->beside);
    file->file = *file->beside ? fopen(file->beside, "wx") : fopen(path, "w");
    if (file->file) return TOOL_OK;
    const int error = errno;
    let_signals(file);
    return tool_new_failed(path, error);
}

int tool_new_end(tool_new *file) {
    bool good = !ferror(file->file);
    if (fclose(file->file) != 0) good = false;
    if (good && *file->beside) good = rename(file->beside, file->path) == 0;
    const int error = errno;
    if (!good && *file->beside) unlink(file->beside);
    let_signals(file);
    return good ? TOOL_OK : tool_new_failed(file->path, error);
}

void tool_new_drop(tool_new *file) {
    fclose(file->file);
    if (*file->beside) unlink(file->beside);
    let_signals(file);
}

bool tool_new_write(int fd, const char *text, size_t n) {
    while (n > 0) {
        const ssize_t done = write(fd, text, n);
        if (done < 0 && errno != EINTR) return false;
        if (done > 0) text += done, n -= (size_t)done;
    }
    return true;
}

void tool_new_folders(char *path, mode_t mode) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, mode); /* one that is there is fine */
        *slash = '/';
    }
}
