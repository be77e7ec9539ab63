/* kept_part.c: see kept_part.h. The list is of lines "BEGIN END", each written when its bytes are
 * on the disk, so that a run that ends half-way leaves nothing wrong. It is locked while a run uses
 * the file. */
#include "ranks/kept_part.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output_file.h"

/* ---- ranges ---- */

bool tool_ranges_add(tool_ranges *x, uint64_t begin, uint64_t end) {
    tool_range *last = x->count ? &x->range[x->count - 1] : NULL;
    if (begin >= end) return true;
    if (last && begin >= last->begin && begin <= last->end) {
        if (end > last->end) last->end = end;
        return true;
    }
    if (x->count == x->room) tool_ranges_sort(x);
    if (x->count == x->room) return false;
    x->range[x->count++] = (tool_range){begin, end};
    return true;
}

static int compare(const void *a, const void *b) {
    const tool_range *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

void tool_ranges_sort(tool_ranges *x) {
    int32_t n = 0;
    qsort(x->range, (size_t)x->count, sizeof *x->range, compare);
    for (int32_t i = 0; i < x->count; i++) {
        tool_range *last = n ? &x->range[n - 1] : NULL;
        if (!last || x->range[i].begin > last->end)
            x->range[n++] = x->range[i];
        else if (x->range[i].end > last->end)
            last->end = x->range[i].end;
    }
    x->count = n;
}

tool_range tool_ranges_missing(const tool_ranges *x, uint64_t begin, uint64_t end) {
    for (int32_t i = 0; i < x->count && begin < end; i++) {
        const tool_range *r = &x->range[i];
        if (r->end <= begin) continue;
        if (r->begin > begin) return (tool_range){begin, r->begin < end ? r->begin : end};
        begin = r->end;
    }
    return (tool_range){begin, begin < end ? end : begin};
}

/* ---- the file and its list ---- */

static int fail(const tool_kept_part *kept, const char *what) {
    return tool_failed("stored part of the model %s: %s: %s", kept->path, what, strerror(errno));
}

static bool path_of(tool_kept_part *kept, const char *name, uint64_t sum, int32_t number) {
    const char *cache = tool_env("XDG_CACHE_HOME"), *home = tool_env("HOME");
    if (!cache && !home) return false;
    const int n = snprintf(kept->path, sizeof kept->path, "%s%s/mnem/parts/%s.%016" PRIx64 ".%d",
                           cache ? cache : home, cache ? "" : "/.cache", name, sum, number);
    return n > 0 && (size_t)n < sizeof kept->path - 8;
}

/* Opens and locks the list; *taken: another run has it. */
static int open_list(tool_kept_part *kept, bool *taken) {
    char path[PATH_MAX + 8];
    snprintf(path, sizeof path, "%s.list", kept->path);
    tool_new_folders(path, 0777);
    *taken = false;
    kept->list = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (kept->list < 0) return fail(kept, "its index file (.list) can't be opened for writing");
    if (flock(kept->list, LOCK_EX | LOCK_NB) == 0) return TOOL_OK;
    *taken = errno == EWOULDBLOCK;
    if (!*taken) return fail(kept, "its index file (.list) can't be locked");
    close(kept->list);
    return TOOL_OK;
}

/* A line that was cut off says nothing. */
static int read_list(tool_kept_part *kept, uint64_t bytes) {
    FILE *file = fdopen(dup(kept->list), "r");
    char line[64];
    uint64_t begin, end;
    if (!file) return fail(kept, "its index file (.list) can't be read");
    rewind(file);
    while (fgets(line, sizeof line, file)) {
        if (!strchr(line, '\n') || sscanf(line, "%" SCNu64 " %" SCNu64, &begin, &end) != 2) break;
        if (end > bytes || !tool_ranges_add(&kept->have, begin, end)) break;
    }
    fclose(file);
    tool_ranges_sort(&kept->have);
    return TOOL_OK;
}

static int set_time(const tool_kept_part *kept) {
    enum { SECOND = 1000000000 };
    const struct timespec time = {kept->written / SECOND, kept->written % SECOND};
    return futimens(kept->fd, (struct timespec[]){time, time}) == 0
               ? TOOL_OK
               : fail(kept, "the file's modification time can't be set");
}

/* With a list of something else, or without its file, it begins anew. */
static int open_file(tool_kept_part *kept, uint64_t bytes) {
    struct stat info;
    kept->fd = open(kept->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (kept->fd < 0 || fstat(kept->fd, &info) != 0)
        return fail(kept, "the file can't be opened for writing");
    if ((uint64_t)info.st_size != bytes) {
        kept->have.count = 0;
        if (ftruncate(kept->list, 0) != 0 || ftruncate(kept->fd, 0) != 0 ||
            ftruncate(kept->fd, (off_t)bytes) != 0)
            return fail(kept, "the file can't be extended to the model's size");
    }
    return set_time(kept);
}

int tool_kept_open(tool_kept_part *kept, const char *name, uint64_t sum, uint64_t bytes,
                   int32_t number) {
    bool taken = true;
    int code = TOOL_OK;
    for (int32_t i = number; taken && i < number + MNEM_COMM_RANKS_MAX; i++) {
        if (!path_of(kept, name, sum, i))
            return tool_failed("can't store this rank's part of the model %s: neither "
                               "XDG_CACHE_HOME nor HOME is set; set one of them",
                               name);
        if ((code = open_list(kept, &taken)) != TOOL_OK) return code;
    }
    if (taken)
        return tool_failed("all %d files that can store a part of this model are in use by other "
                           "runs (the last is %s): wait until one of these runs ends",
                           MNEM_COMM_RANKS_MAX, kept->path);
    code = read_list(kept, bytes);
    return code == TOOL_OK ? open_file(kept, bytes) : code;
}

int tool_kept_write(tool_kept_part *kept, uint64_t at, const void *data, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        const ssize_t n =
            pwrite(kept->fd, (const char *)data + done, bytes - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail(kept, "the bytes that rank 0 sent can't be written to the file");
        done += (size_t)n;
    }
    if (!tool_ranges_add(&kept->more, at, at + bytes))
        return tool_failed(
            "can't add to %s: this rank's part of the model has more than %d separate "
            "byte ranges: copy the model file to this machine instead",
            kept->path, kept->more.room);
    return TOOL_OK;
}

int tool_kept_flush(tool_kept_part *kept) {
    if (kept->more.count && fdatasync(kept->fd) != 0)
        return fail(kept, "the file can't be flushed to the disk");
    for (int32_t i = 0; i < kept->more.count; i++) {
        const tool_range *r = &kept->more.range[i];
        if (dprintf(kept->list, "%" PRIu64 " %" PRIu64 "\n", r->begin, r->end) < 0)
            return fail(kept, "its index file (.list) can't be written");
        if (!tool_ranges_add(&kept->have, r->begin, r->end))
            return tool_failed("can't add to %s: this rank's part of the model has more than %d "
                               "separate byte ranges: "
                               "copy the model file to this machine instead",
                               kept->path, kept->have.room);
    }
    kept->more.count = 0;
    tool_ranges_sort(&kept->have);
    return set_time(kept);
}
