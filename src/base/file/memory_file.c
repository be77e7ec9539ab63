/* memory_file.c: memory apart from its addresses: files that only this process sees.
 *
 *     addresses   [ reserved | mapped | reserved | mapped ]      anonymous, no access
 *                               │                    │
 *     file        [ hole | committed | hole |  committed  ]      in memory, known to us only
 *
 * A place goes from reserved to mapped and back by mapping over it, so that no other mapping of the
 * process can get between. Maps of files are kept from forked children: memory of a file is shared
 * with them, so what they write would be in the parent. */
#include "base/file/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/heap_private.h"
#include "base/pages.h"
#include "base/process.h"

enum { HUGE_PAGE = 2 << 20 };

/* The kernel sends a signal when a file would become larger than the process may have. */
static bool file_size_set(int fd, uint64_t bytes) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit)) return false;
    if (bytes > limit.rlim_cur) bytes = limit.rlim_cur & ~(uint64_t)(HUGE_PAGE - 1);
    return bytes <= INT64_MAX && !ftruncate(fd, (off_t)bytes);
}

int mnem__memory_file_open(uint64_t bytes, bool huge) {
    enum { LOG2_HUGE_AT = 26 }; /* the bits of the flags that say log2(2 MiB) = 21 */
    unsigned flags = MFD_CLOEXEC | (huge ? MFD_HUGETLB | 21u << LOG2_HUGE_AT : 0);
    mnem__heap_count_call();
    int fd = !huge && mnem__heap_fails_now() ? -1 : memfd_create("mnem", flags);
    if (fd >= 0 && !file_size_set(fd, bytes)) {
        close(fd);
        fd = -1;
    }
    if (fd < 0) mnem__heap_refuse("memory file", bytes);
    return fd;
}

void mnem__memory_file_close(int fd) {
    if (fd >= 0) close(fd);
}

/* Whether one of these words is what the machine's owner chose for memory files. */
static bool shmem_setting_is(const char *const words[], int count) {
    char text[128];
    bool is = false;
    if (mnem__file_read_small("/sys/kernel/mm/transparent_hugepage/shmem_enabled", text,
                              sizeof text) != MNEM_OK)
        return false;
    for (int i = 0; i < count; i++) is = is || strstr(text, words[i]);
    return is;
}

const char *mnem__memory_file_pages(bool huge) {
    static const char *const allow[] = {"[always]", "[within_size]", "[advise]", "[force]"};
    if (huge) return "huge";
    return shmem_setting_is(allow, 4) ? "transparent" : "plain";
}

/* Makes the pages of a map of a file present, without changing them. Reading is enough: what is
 * read may be written, and the kernel maps many pages at once. */
static void file_pages_touch(char *p, uint64_t bytes) {
#ifdef MADV_POPULATE_READ
    if (!madvise(p, bytes, MADV_POPULATE_READ)) return;
#endif
    for (uint64_t i = 0; i < bytes; i += mnem__page_size()) (void)((volatile char *)p)[i];
}

/* Takes memory by writing zeros: half the time of touching a map of it, which faults for pages. */
static bool file_zero(int fd, uint64_t offset, uint64_t bytes) {
    enum { PARTS = 128, PART = 4096 };
    static const char zeros[PART];
    struct iovec parts[PARTS];
    for (int i = 0; i < PARTS; i++) parts[i] = (struct iovec){(void *)(uintptr_t)zeros, PART};
    for (uint64_t done = 0; done < bytes;) {
        uint64_t left = (bytes - done) / PART;
        ssize_t n = pwritev(fd, parts, left < PARTS ? (int)left : PARTS, (off_t)(offset + done));
        if (n > 0) done += (uint64_t)n;
        if (n == 0 || (n < 0 && errno != EINTR)) return false;
    }
    return true;
}

/* The same for a file of huge pages, which can't be written: the kernel clears them by itself. */
static bool file_zero_huge(int fd, uint64_t offset, uint64_t bytes) {
    int failed;
    do failed = fallocate(fd, 0, (off_t)offset, (off_t)bytes);
    while (failed && errno == EINTR);
    return !failed;
}

/* Where huge pages come only to maps that ask for them: through a map that is gone afterwards.
 * false when that can't be. The map's place is a wish: a fixed one would be lost to other threads
 * when the kernel refuses. */
static bool file_zero_advised(int fd, uint64_t offset, uint64_t bytes) {
#ifdef MADV_POPULATE_WRITE
    if (!shmem_setting_is((const char *const[]){"[advise]"}, 1)) return false;
    char *place = mnem__map_aligned(bytes, HUGE_PAGE, PROT_NONE, MAP_NORESERVE);
    if (place) munmap(place, bytes);
    char *p = mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
    if (p == MAP_FAILED) return false;
    madvise(p, bytes, MADV_DONTFORK);
    madvise(p, bytes, MADV_HUGEPAGE);
    bool done = !madvise(p, bytes, MADV_POPULATE_WRITE);
    munmap(p, bytes);
    return done;
#else
    (void)fd, (void)offset, (void)bytes;
    return false;
#endif
}

/* The kernel sends a signal when a file is written past the process's limit: looks before. */
static bool file_commit(int fd, uint64_t offset, uint64_t bytes, bool huge) {
    struct rlimit limit;
    off_t end = lseek(fd, 0, SEEK_END);
    if (end < 0 || offset > (uint64_t)end || bytes > (uint64_t)end - offset) return false;
    if (getrlimit(RLIMIT_FSIZE, &limit) || offset + bytes > limit.rlim_cur) return false;
    if (huge) return file_zero_huge(fd, offset, bytes);
    return file_zero_advised(fd, offset, bytes) || file_zero(fd, offset, bytes);
}

bool mnem__memory_file_commit(int fd, uint64_t offset, size_t bytes, bool huge) {
    mnem__heap_count_call();
    bool done = (huge || !mnem__heap_fails_now()) && file_commit(fd, offset, bytes, huge);
    if (done) return true;
    mnem__memory_file_drop(fd, offset, bytes); /* what was committed before it failed */
    mnem__heap_refuse("memory file", bytes);
    return false;
}

void mnem__memory_file_drop(int fd, uint64_t offset, size_t bytes) {
    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
}

/* Maps over pages. What was there stays when the machine refuses, but that some refusals leave a
 * gap for a file: it is closed, so that the place stays ours. */
static bool map_over(void *p, size_t bytes, int access, int flags, int fd, uint64_t offset) {
    mnem__heap_count_call();
    if (!mnem__heap_fails_now() &&
        mmap(p, bytes, access, flags | MAP_FIXED, fd, (off_t)offset) == p)
        return true;
    if (fd >= 0)
        (void)mmap(p, bytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    mnem__heap_refuse("mapping", bytes);
    return false;
}

/* Without access until it is kept from children: a thread may fork between the calls. */
bool mnem__pages_map_file(void *p, int fd, uint64_t offset, size_t bytes) {
    if (!map_over(p, bytes, PROT_NONE, MAP_SHARED, fd, offset)) return false;
    if (madvise(p, bytes, MADV_DONTFORK) || mprotect(p, bytes, PROT_READ | PROT_WRITE)) {
        (void)mmap(p, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
                   0);
        mnem__heap_refuse("mapping", bytes);
        return false;
    }
    madvise(p, bytes, MADV_HUGEPAGE); /* best effort */
    file_pages_touch(p, bytes);
    return true;
}

bool mnem__pages_map_nothing(void *p, size_t bytes) {
    return map_over(p, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}
