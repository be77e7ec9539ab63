/* preload_api.c: what mnem/leaks.h calls. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "mnem/leaks.h"

#include "preload.h"

#define SHOWN __attribute__((visibility("default")))

SHOWN bool mnem_track_library_set(const char *settings) {
    char why[128];
    if (!settings || preload_settings_read(settings, why)) return true;
    errno = EINVAL;
    return false;
}

SHOWN uint32_t mnem_track_library_mark(void) {
    return preload_mark();
}

SHOWN bool mnem_track_library_report(const char *path, uint32_t since) {
    char title[64] = "as asked";
    const char *out = path ? path : preload_set.out;
    const int fd = preload_report_open(out);
    if (fd < 0) {
        if (!*out) errno = EBADF;
        return false;
    }
    if (since) snprintf(title, sizeof title, "since mark %u", since);
    const bool busy = preload_busy(true);
    const bool written = preload_report(fd, title, since, UINT32_MAX);
    preload_busy(busy);
    if (*out) close(fd);
    return written;
}

SHOWN void mnem_track_library_info(mnem_track_info *info) {
    preload_totals t;
    preload_totals_get(&t);
    *info = (mnem_track_info){.blocks_live = t.blocks_live,
                              .bytes_live = t.bytes_live,
                              .bytes_peak = t.bytes_peak,
                              .allocations = t.allocations,
                              .frees = t.frees,
                              .frees_unknown = t.unknown,
                              .allocations_lost = t.lost,
                              .bytes_own = preload_mapped_bytes(),
                              .stacks = preload_stack_count() - 1,
                              .generation = preload_generation()};
}
