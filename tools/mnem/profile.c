/* profile.c: the machine profile that `mnem bench` measures and `mnem plan` reads: a JSON file; and
 * in it what is between its ranks. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output_file.h"
#include "ranks/link.h"
#include "stage.h"

bool tool_profile_path(char *path, size_t n) {
    const char *cache = tool_env("XDG_CACHE_HOME"), *home = tool_env("HOME");
    if (!cache && !home) return false;
    int length = cache ? snprintf(path, n, "%s/mnem/profile.json", cache)
                       : snprintf(path, n, "%s/.cache/mnem/profile.json", home);
    return length > 0 && (size_t)length < n;
}

static double number(const json_t *object, const char *key) {
    double value = json_number_value(json_object_get(object, key));
    return value > 0 ? value : 0; /* also for NaN, a missing key or another type */
}

bool tool_profile_load(mnem_machine_profile *profile) {
    char path[PATH_MAX];
    *profile = (mnem_machine_profile){0};
    if (!tool_profile_path(path, sizeof path)) return false;
    json_t *object = json_load_file(path, 0, NULL);
    profile->read_bytes_per_s = number(object, "read_bytes_per_s");
    profile->disk_bytes_per_s = number(object, "disk_bytes_per_s");
    profile->macs_per_s = number(object, "macs_per_s");
    json_decref(object);
    return profile->read_bytes_per_s > 0;
}

static bool write_whole(const char *path, json_t *object) {
    char part[PATH_MAX + 8];
    snprintf(part, sizeof part, "%s.XXXXXX", path);
    int fd = mkstemp(part);
    if (fd < 0) return false;
    bool ok = json_dumpfd(object, fd, JSON_INDENT(2)) == 0 && write(fd, "\n", 1) == 1;
    ok = close(fd) == 0 && ok;
    if (ok && rename(part, path) == 0) return true;
    unlink(part);
    return false;
}

/* Puts these beside what the file has of others. */
static bool save(json_t *more) {
    char path[PATH_MAX];
    if (!tool_profile_path(path, sizeof path)) {
        tool_message("the machine profile isn't kept: neither XDG_CACHE_HOME nor HOME is set");
        json_decref(more);
        return false;
    }
    json_t *object = json_load_file(path, 0, NULL);
    if (!json_is_object(object)) {
        json_decref(object);
        object = json_object();
    }
    tool_new_folders(path, 0777);
    bool ok = more && json_object_update(object, more) == 0 && write_whole(path, object);
    json_decref(object);
    json_decref(more);
    if (!ok)
        tool_message("the machine profile isn't kept: can't write %s: %s", path, strerror(errno));
    return ok;
}

bool tool_profile_save(const mnem_machine_profile *profile) {
    return save(json_pack("{s:f, s:f, s:f}", "read_bytes_per_s", profile->read_bytes_per_s,
                          "disk_bytes_per_s", profile->disk_bytes_per_s, "macs_per_s",
                          profile->macs_per_s));
}

bool tool_link_save(const tool_link_kept *kept) {
    return save(json_pack("{s:f, s:f, s:I}", "link_seconds", kept->link.seconds, "link_bytes_per_s",
                          kept->link.bytes_per_second, "rank_bytes", (json_int_t)kept->rank_bytes));
}

bool tool_link_load(tool_link_kept *kept) {
    char path[PATH_MAX];
    *kept = (tool_link_kept){0};
    if (!tool_profile_path(path, sizeof path)) return false;
    json_t *object = json_load_file(path, 0, NULL);
    kept->link.seconds = number(object, "link_seconds");
    kept->link.bytes_per_second = number(object, "link_bytes_per_s");
    kept->rank_bytes = (uint64_t)number(object, "rank_bytes");
    json_decref(object);
    return kept->rank_bytes > 0;
}
