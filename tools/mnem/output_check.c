/* output_check.c: before any work, whether the files that options name can be written. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "options.h"
#include "output_file.h"

static int check_folder(const char *path) {
    char folder[PATH_MAX] = ".";
    struct stat about;
    const char *slash = strrchr(path, '/');
    if (slash) snprintf(folder, sizeof folder, "%.*s", (int)(slash - path) + 1, path);
    if (stat(folder, &about) != 0) return tool_new_failed(path, errno);
    return access(folder, W_OK) == 0 ? TOOL_OK : tool_new_failed(path, errno);
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
    if (!*path)
        return tool_usage(tool_verb_name(),
                          "--%s got an empty path; give the path of a file to write", o->name);
    if (stat(path, &about) != 0) return check_folder(path);
    if (S_ISDIR(about.st_mode)) return tool_new_failed(path, EISDIR);
    if (!(o->path & TOOL_PATH_IN_PLACE) && S_ISREG(about.st_mode) && is_read(args, &about))
        return tool_usage(
            tool_verb_name(),
            "--%s %s would overwrite a file that this command reads: give another path", o->name,
            path);
    if (tool_new_is_replaced(path)) return check_folder(path);
    if ((o->path & TOOL_PATH_PLAIN) && !S_ISREG(about.st_mode))
        return tool_new_failed(path, ENOTSUP);
    return access(path, W_OK) == 0 ? TOOL_OK : tool_new_failed(path, errno);
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
        return tool_usage(tool_verb_name(),
                          "--svg and --out both write to %s: give two different files", svg);
    return TOOL_OK;
}
