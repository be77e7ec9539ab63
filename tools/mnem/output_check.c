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
    const int n = slash && slash > path ? (int)(slash - path) : slash ? 1 : 0;
    if (slash) snprintf(folder, sizeof folder, "%.*s", n, path);
    if (stat(folder, &about) != 0 && errno == ENOENT)
        return tool_failed("can't write the file %s: the folder %s doesn't exist; make it first, "
                           "or choose another path",
                           path, folder);
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

/* ---- models ---- */

/* What a GGUF file says of itself, where it isn't a model; NULL: it is one, or doesn't say. */
static const char *other_kind(const char *head, size_t n) {
    static const char *const kinds[] = {"adapter", "imatrix", "mmproj"};
    static const char key[] = "general.type";
    const char *at = memmem(head, n, key, sizeof key - 1);
    if (!at) return NULL;
    at += sizeof key - 1 + 12; /* the value's type and its length */
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const size_t length = strlen(kinds[i]);
        if (at + length <= head + n && memcmp(at, kinds[i], length) == 0) return kinds[i];
    }
    return NULL;
}

/* A new model takes the place of an old one, and of nothing else that holds bytes: that would be
 * lost. */
static int check_old(const tool_args *args, const char *path) {
    char head[4096];
    FILE *file = fopen(path, "rb");
    if (!file) return TOOL_OK; /* what can't be read, the writing itself refuses or replaces */
    const size_t n = fread(head, 1, sizeof head, file);
    fclose(file);
    const bool gguf = n >= 4 && memcmp(head, "GGUF", 4) == 0;
    const char *kind = gguf ? other_kind(head, n) : NULL;
    if (n > 0 && (!gguf || kind))
        return tool_usage(tool_verb_name(),
                          "%s exists and isn't a model%s%s%s; it would be lost: choose another "
                          "path, or delete it first",
                          path, kind ? " (general.type is " : "", kind ? kind : "",
                          kind ? ")" : "");
    if (n > 0 && !args->quiet && !args->json && !tool_given(args, "dry-run"))
        tool_message("note: %s exists; the new model replaces it", path);
    return TOOL_OK;
}

int tool_new_check_model(const tool_args *args, const char *path) {
    struct stat about;
    if (stat(path, &about) != 0) return check_folder(path);
    if (S_ISDIR(about.st_mode))
        return tool_failed("can't write the file %s: it is a folder; give the path of a file in it",
                           path);
    if (!S_ISREG(about.st_mode)) return TOOL_OK; /* the library refuses it */
    if (args->operands > 0 && is_same_file(args->operand[0], &about))
        return tool_usage(tool_verb_name(),
                          "this command reads %s and would overwrite it: choose another path",
                          path);
    return check_old(args, path);
}

static int check(const tool_args *args, const tool_option *o) {
    const char *path = tool_option_path(args, o);
    struct stat about;
    if (!path || ((o->path & TOOL_PATH_IN_PLACE) && strcmp(path, "-") == 0)) return TOOL_OK;
    if (!*path)
        return tool_usage(tool_verb_name(),
                          "--%s got an empty path; give the path of a file to write", o->name);
    if (stat(path, &about) != 0) return check_folder(path);
    if (S_ISDIR(about.st_mode) && !(o->path & TOOL_PATH_MODEL))
        return tool_new_failed(path, EISDIR);
    if (!(o->path & TOOL_PATH_IN_PLACE) && S_ISREG(about.st_mode) && is_read(args, &about))
        return tool_usage(
            tool_verb_name(),
            "--%s %s would overwrite a file that this command reads: give another path", o->name,
            path);
    if (o->path & TOOL_PATH_MODEL) return tool_new_check_model(args, path);
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
