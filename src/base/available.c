/* available.c: the bytes that this process could still take.
 *
 * The idea: the least of what the machine has (MemAvailable) and what each control group above the
 * process has left: its limit minus its usage, where files that weren't used lately don't count as
 * usage, since the kernel drops them first. Both versions of control groups, also mixed.
 *
 *     /proc/self/cgroup      N:memory:PATH (version 1), 0::PATH (version 2)
 *     /proc/self/mountinfo   where that tree is mounted, and which part of it
 *
 * Invariant: what can't be read limits nothing; only MemAvailable is required. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/process.h"

enum { TEXT_MAX = 16384, PATH_MAX_HERE = 1024 };

typedef struct cgroup_files {
    const char *limit, *usage, *reclaimable; /* the last: a key of memory.stat */
} cgroup_files;

static const cgroup_files version_1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                       "total_inactive_file "};
static const cgroup_files version_2 = {"memory.max", "memory.current", "inactive_file "};

typedef struct cgroup_tree {
    char mount[PATH_MAX_HERE]; /* where its files are, root included */
    char part[PATH_MAX_HERE];  /* which part of the tree is mounted there */
} cgroup_tree;

/* The text after key at the start of a line, or NULL. */
static const char *line_after(const char *text, const char *key) {
    for (const char *p = text; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
        if (!strncmp(p, key, strlen(key))) return p + strlen(key);
    return NULL;
}

/* Copies up to any of the delimiters or the end. false when it doesn't fit. */
static bool word_copy(const char *from, const char *delimiters, char *out, size_t n) {
    size_t length = strcspn(from, delimiters);
    if (length >= n) return false;
    memcpy(out, from, length);
    out[length] = 0;
    return true;
}

/* Reads folder/file; false when it can't be. */
static bool group_read(const char *folder, const char *file, char *text, size_t n) {
    char path[2 * PATH_MAX_HERE];
    int length = snprintf(path, sizeof path, "%s/%s", folder, file);
    return length > 0 && (size_t)length < sizeof path &&
           mnem__file_read_small(path, text, n) == MNEM_OK;
}

static bool number_read(const char *folder, const char *file, uint64_t *number) {
    char text[64], *end;
    if (!group_read(folder, file, text, sizeof text)) return false;
    *number = strtoull(text, &end, 10); /* "max" isn't a number: no limit */
    return end != text;
}

static uint64_t reclaimable_read(const char *folder, const char *key) {
    char text[TEXT_MAX / 2];
    if (!group_read(folder, "memory.stat", text, sizeof text)) return 0;
    const char *number = line_after(text, key);
    return number ? strtoull(number, NULL, 10) : 0;
}

/* Lowers *bytes to what the group in folder has left. */
static void group_apply(const char *folder, const cgroup_files *files, uint64_t *bytes) {
    uint64_t limit, usage;
    if (!number_read(folder, files->limit, &limit) || !number_read(folder, files->usage, &usage))
        return;
    uint64_t idle = reclaimable_read(folder, files->reclaimable);
    usage = usage > idle ? usage - idle : 0;
    uint64_t left = limit > usage ? limit - usage : 0;
    if (left < *bytes) *bytes = left;
}

/* Finds the mount of a control group tree: type "cgroup2", or "cgroup" with the memory option. A
 * line: "31 23 0:28 /part /mount options - type source options". */
static bool tree_find(const char *root, const char *mountinfo, bool second, cgroup_tree *tree) {
    for (const char *p = mountinfo; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
        const char *dash = strstr(p, " - "), *end = strchr(p, '\n');
        if (!dash || (end && dash > end)) continue;
        char options[256] = "";
        bool two = !strncmp(dash + 3, "cgroup2 ", 8), one = !strncmp(dash + 3, "cgroup ", 7);
        if (one) {
            const char *source = strchr(dash + 10, ' ');
            if (source && (!end || source < end)) word_copy(source, "\n", options, sizeof options);
        }
        if (second ? !two : !one || !strstr(options, "memory")) continue;
        const char *field = p;
        for (int i = 0; i < 3 && field; i++)
            field = strchr(field, ' '), field = field ? field + 1 : 0;
        const char *mount = field ? strchr(field, ' ') : NULL;
        if (!mount || !word_copy(field, " ", tree->part, sizeof tree->part)) continue;
        size_t n = (size_t)snprintf(tree->mount, sizeof tree->mount, "%s", root);
        if (n < sizeof tree->mount &&
            word_copy(mount + 1, " ", tree->mount + n, sizeof tree->mount - n))
            return true;
    }
    return false;
}

/* Every group from the process's own up to the mount. */
static void tree_apply(const cgroup_tree *tree, const char *group, const cgroup_files *files,
                       uint64_t *bytes) {
    size_t part = strcmp(tree->part, "/") ? strlen(tree->part) : 0;
    if (!strncmp(group, tree->part, part)) group += part;
    char folder[2 * PATH_MAX_HERE];
    size_t base = strlen(tree->mount);
    snprintf(folder, sizeof folder, "%s%s", tree->mount, group);
    for (;;) {
        group_apply(folder, files, bytes);
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < base) return;
        *slash = 0;
    }
}

/* The process's group: the path in the line "N:list:path" whose list has the memory controller
 * (version 1) or is empty (version 2). */
static bool group_find(const char *groups, bool second, char *out, size_t n) {
    for (const char *p = groups; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
        char list[256];
        const char *colon = strchr(p, ':');
        if (!colon || !word_copy(colon + 1, ":\n", list, sizeof list)) continue;
        if (second ? *list != 0 : !strstr(list, "memory")) continue;
        return word_copy(colon + 1 + strlen(list) + 1, "\n", out, n);
    }
    return false;
}

static void groups_apply(const char *root, uint64_t *bytes) {
    char path[PATH_MAX_HERE], groups[TEXT_MAX / 4], mounts[TEXT_MAX], group[PATH_MAX_HERE];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (mnem__file_read_small(path, groups, sizeof groups) != MNEM_OK) return;
    snprintf(path, sizeof path, "%s/proc/self/mountinfo", root);
    if (mnem__file_read_small(path, mounts, sizeof mounts) != MNEM_OK) return;
    for (int second = 0; second < 2; second++) {
        cgroup_tree tree;
        if (group_find(groups, second, group, sizeof group) &&
            tree_find(root, mounts, second, &tree))
            tree_apply(&tree, group, second ? &version_2 : &version_1, bytes);
    }
}

mnem_status mnem__process_available_at(const char *root, uint64_t *bytes) {
    char path[PATH_MAX_HERE], text[4096];
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    MNEM__TRY(mnem__file_read_small(path, text, sizeof text));
    const char *number = line_after(text, "MemAvailable:");
    if (!number)
        return mnem__fail(MNEM_IO,
                          "%s: the line MemAvailable is missing, so the available memory is "
                          "unknown; give the budget in bytes",
                          path);
    *bytes = strtoull(number, NULL, 10) * 1024;
    groups_apply(root, bytes);
    return MNEM_OK;
}

mnem_status mnem_process_available(uint64_t *bytes) {
    return mnem__process_available_at("", bytes);
}
