/* probe_disk.c: a file's disk, past the page cache: pieces of 1 MiB in order, 4 KiB from anywhere.
 *
 * Where the file system can't read past the page cache there is no figure: the cache's would say
 * nothing. Each pass goes on where the last one ended, and round. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "sight/probe/probe_private.h"

enum { PIECE = 1 << 20, PAGE = 4096, PIECES = 32, PAGES = 64, MOST_NS = 60000000 };

/* Bytes of whole pages; 0: it can't be read so. */
static uint64_t file_bytes(int fd) {
    struct stat s;
    if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode)) return 0;
    return (uint64_t)s.st_size & ~(uint64_t)(PAGE - 1);
}

static void in_order(mnem__probe_run *run, int fd, uint64_t bytes) {
    const uint64_t pieces = bytes / PIECE;
    uint64_t at = pieces ? (uint64_t)run->disk.times % pieces : 0, read = 0;
    const uint64_t begun = mnem__nanoseconds();
    for (int i = 0; i < PIECES && (uint64_t)i < pieces; i++, at = (at + 1) % pieces) {
        if (mnem__nanoseconds() - begun > MOST_NS) break;
        const ssize_t n = pread(fd, run->huge.bytes, PIECE, (off_t)(at * PIECE));
        if (n <= 0) return;
        read += (uint64_t)n;
    }
    run->disk.times = (int64_t)at;
    const double seconds = 1e-9 * (double)(mnem__nanoseconds() - begun);
    if (read) mnem__probe_sample(&run->disk, (double)read / seconds, true);
}

static void anywhere(mnem__probe_run *run, int fd, uint64_t bytes) {
    const uint64_t begun = mnem__nanoseconds(), pages = bytes / PAGE;
    int i = 0;
    for (; i < PAGES && mnem__nanoseconds() - begun < MOST_NS; i++) {
        run->random = run->random * 6364136223846793005ull + 1442695040888963407ull;
        const uint64_t at = (run->random >> 33) % pages;
        if (pread(fd, run->huge.bytes, PAGE, (off_t)(at * PAGE)) != PAGE) return;
    }
    mnem__probe_sample(&run->disk_wait, (double)(mnem__nanoseconds() - begun) / i, false);
}

void mnem__probe_disk(mnem__probe_run *run) {
    if (!run->options->file) return;
    const int fd = open(run->options->file, O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (fd < 0) return;
    const uint64_t bytes = file_bytes(fd);
    if (bytes) {
        in_order(run, fd, bytes);
        anywhere(run, fd, bytes);
    }
    close(fd);
}
