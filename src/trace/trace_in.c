/* trace_in.c: moves the unread bytes to the front of the window, and fills it up from the file. */
#include "trace/trace_in.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file/file_bytes.h"
#include "base/heap.h"

mnem_status mnem__in_open(mnem__in *in, const char *path) {
    struct stat about;
    *in = (mnem__in){.fd = open(path, O_RDONLY | O_CLOEXEC)};
    if (in->fd < 0) return mnem__file_fail(path, "be opened");
    if (fstat(in->fd, &about) == 0 && S_ISDIR(about.st_mode)) {
        mnem__in_close(in);
        return mnem__fail(MNEM_IO, "%s: is a folder; give a trace file", path);
    }
    in->window = mnem__alloc("trace", MNEM__IN_WINDOW);
    in->path = in->window ? mnem__strndup("trace", path, strlen(path)) : NULL;
    if (in->path) return MNEM_OK;
    mnem__in_close(in);
    return mnem__heap_status();
}

void mnem__in_close(mnem__in *in) {
    if (in->fd >= 0) close(in->fd);
    mnem__free(in->window);
    mnem__free((char *)in->path);
    *in = (mnem__in){.fd = -1};
}

mnem_status mnem__in_rewind(mnem__in *in) {
    if (lseek(in->fd, 0, SEEK_SET) < 0) return mnem__file_fail(in->path, "be read twice");
    in->at = in->have = 0;
    in->before = 0;
    in->end = false;
    return MNEM_OK;
}

static void to_front(mnem__in *in) {
    memmove(in->window, in->window + in->at, in->have - in->at);
    in->before += in->at;
    in->have -= in->at;
    in->at = 0;
}

mnem_status mnem__in_need(mnem__in *in, size_t n, size_t *got) {
    if (in->have - in->at < n && !in->end) to_front(in);
    while (in->have - in->at < n && !in->end) {
        const ssize_t done = read(in->fd, in->window + in->have, MNEM__IN_WINDOW - in->have);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return mnem__file_fail(in->path, "be read");
        in->have += (size_t)done;
        in->end = done == 0;
    }
    *got = in->have - in->at < n ? in->have - in->at : n;
    return MNEM_OK;
}
