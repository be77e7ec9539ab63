/* top_find.c: which status file is meant. Files of programs that are gone are removed when they are
 * met: a kill leaves them. */
#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sight/monitor_file.h"
#include "verbs/top/top.h"

typedef struct found {
    int count;
    char path[PATH_MAX + 300], list[400]; /* the last one; "4121 (mnem serve), ..." */
} found;

static void add(found *f, const char *path, const mnem_monitor_view *view) {
    const size_t used = strlen(f->list);
    snprintf(f->list + used, sizeof f->list - used, "%s%u (%s)", f->count ? ", " : "", view->pid,
             view->program);
    snprintf(f->path, sizeof f->path, "%s", path);
    f->count++;
}

static void look(found *f, const char *folder) {
    DIR *dir = opendir(folder);
    if (!dir) return;
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        char path[PATH_MAX + 300];
        mnem_monitor_view view;
        const size_t n = strlen(e->d_name), suffix = sizeof ".status" - 1;
        if (n <= suffix || strcmp(e->d_name + n - suffix, ".status") != 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (mnem_monitor_read(path, &view) != MNEM_OK) continue;
        if (mnem_monitor_alive(&view))
            add(f, path, &view);
        else
            unlink(path);
    }
    closedir(dir);
}

static int find_running(char *path, size_t n) {
    char folder[PATH_MAX];
    found f = {0};
    if (tool_monitor_folder(folder, sizeof folder)) look(&f, folder);
    if (f.count > 1)
        return tool_usage("top",
                          "several mnem processes with a status file are running (%s): name one of "
                          "them, as in mnem top PID",
                          f.list);
    if (!f.count)
        return tool_failed("no running mnem process was found: %s has no status file (mnem run, "
                           "train and serve write one while they run)",
                           folder);
    snprintf(path, n, "%s", f.path);
    return TOOL_OK;
}

static bool is_number(const char *text) {
    return *text && strspn(text, "0123456789") == strlen(text);
}

int top_find(const char *operand, char *path, size_t n) {
    char folder[PATH_MAX];
    if (!operand) return find_running(path, n);
    if (!is_number(operand) || access(operand, F_OK) == 0) {
        snprintf(path, n, "%s", operand);
        return TOOL_OK;
    }
    if (!tool_monitor_folder(folder, sizeof folder))
        return tool_failed("the path of the status file is too long, because XDG_RUNTIME_DIR is: "
                           "set it to a shorter path");
    snprintf(path, n, "%s/%s.status", folder, operand);
    if (access(path, F_OK) == 0) return TOOL_OK;
    return tool_failed("process %s has no status file (%s does not exist): only mnem run, train "
                       "and serve, and programs that use mnem/monitor.h, write one",
                       operand, path);
}
