/* output_file.c: files that verbs write beside their output.
 *
 * The idea: PATH.tmp is written and renamed, so that PATH is what it was or whole. What isn't a
 * plain file (a link, a pipe, a device) is written as it is, since renaming would replace it. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "options.h"
#include "output_file.h"

static int fail(const char *path, int error) {
    return tool_failed("%s: can't write it: %s", path, strerror(error));
}

static bool is_replaced(const char *path) {
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
    if (is_replaced(path)) {
        const int n = snprintf(file->beside, sizeof file->beside, "%s.tmp", path);
        if (n < 0 || (size_t)n >= sizeof file->beside) return fail(path, ENAMETOOLONG);
    }
    hold_signals(file);
    /* What was left there by a killed run, or a link of that name, isn't written through. */
    if (*file->beside) unlink(file->beside);
    file->file = *file->beside ? fopen(file->beside, "wx") : fopen(path, "w");
    if (file->file) return TOOL_OK;
    const int error = errno;
    let_signals(file);
    return fail(path, error);
}

int tool_new_end(tool_new *file) {
    bool good = !ferror(file->file);
    if (fclose(file->file) != 0) good = false;
    if (good && *file->beside) good = rename(file->beside, file->path) == 0;
    const int error = errno;
    if (!good && *file->beside) unlink(file->beside);
    let_signals(file);
    return good ? TOOL_OK : fail(file->path, error);
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

/* ---- before the work ---- */

static int check_folder(const char *path) {
    char folder[PATH_MAX] = ".";
    struct stat about;
    const char *slash = strrchr(path, '/');
    if (slash) snprintf(folder, sizeof folder, "%.*s", (int)(slash - path) + 1, path);
    if (stat(folder, &about) != 0) return fail(path, errno);
    return access(folder, W_OK) == 0 ? TOOL_OK : fail(path, errno);
}

static bool is_same_file(const char *path, const struct stat *about) {
    struct stat other;
    return path && stat(path, &other) == 0 && other.st_dev == about->st_dev &&
           other.st_ino == about->st_ino;
}

/* Is it one of the files that are read, by any name? */
static bool is_read(const tool_args *args, const struct stat *about) {
    tool_option o;
    for (int i = 0; i < args->operands; i++)
        if (is_same_file(args->operand[i], about)) return true;
    for (int i = 0; tool_option_get(args->verb, i, &o); i++)
        if ((o.path & TOOL_PATH_READ) && is_same_file(tool_option_path(args, &o), about))
            return true;
    return args->operands == 0 && is_same_file(tool_model_default(), about);
}

/* OPTION-ro says that OPTION's file is only read. */
static bool is_written(const tool_args *args, const tool_option *o) {
    char name[64];
    snprintf(name, sizeof name, "%s-ro", o->name);
    return (o->path & TOOL_PATH_WRITE) && !tool_given(args, name);
}

static int check(const tool_args *args, const tool_option *o) {
    const char *path = tool_option_path(args, o);
    struct stat about;
    if (!path || ((o->path & TOOL_PATH_IN_PLACE) && strcmp(path, "-") == 0)) return TOOL_OK;
    if (!*path) return tool_usage(tool_verb_name(), "--%s takes the path of a file", o->name);
    if (stat(path, &about) != 0) return check_folder(path);
    if (S_ISDIR(about.st_mode)) return fail(path, EISDIR);
    if (!(o->path & TOOL_PATH_IN_PLACE) && S_ISREG(about.st_mode) && is_read(args, &about))
        return tool_usage(tool_verb_name(), "--%s %s would overwrite the file that is read",
                          o->name, path);
    if (is_replaced(path)) return check_folder(path);
    if ((o->path & TOOL_PATH_PLAIN) && !S_ISREG(about.st_mode)) return fail(path, ENOTSUP);
    return access(path, W_OK) == 0 ? TOOL_OK : fail(path, errno);
}

int tool_new_check(const tool_args *args) {
    int code = TOOL_OK;
    tool_option o;
    for (int i = 0; code == TOOL_OK && tool_option_get(args->verb, i, &o); i++)
        if (is_written(args, &o)) code = check(args, &o);
    return code;
}

int tool_new_check_apart(const char *svg, const char *out) {
    struct stat about;
    if (!svg || !out || strcmp(out, "-") == 0) return TOOL_OK;
    const bool there = stat(svg, &about) == 0;
    if (there && !S_ISREG(about.st_mode)) return TOOL_OK; /* a device takes both */
    if (!strcmp(svg, out) || (there && is_same_file(out, &about)))
        return tool_usage(tool_verb_name(), "--svg and --out are one file, %s", svg);
    return TOOL_OK;
}
