/* heap.c: the one file that calls malloc, free and mmap.
 *
 * The idea: each block carries a header of 16 bytes, its size and the number of its tag, so that a
 * free needs no lookup and the counts are exact. A tag is a row in a table of fixed size that only
 * grows: found by its address, then by its text, added with one compare-and-swap.
 *
 *     [ bytes 8 | tag 4 | guard 4 ][ n bytes, 16-byte aligned ]
 *
 * Invariant: the sum of the tags' live bytes is what was asked for and not freed; the watcher was
 * asked for each of them while it was set. Peaks are kept with a compare-and-swap each.
 * Cost: a few atomic additions for each call; nothing is locked. */
#include "base/heap.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail_point.h"
#include "base/process.h"

enum { GUARD_LIVE = 0x6d6e656d, HUGE_PAGE = 2 << 20 };

typedef struct block_header {
    uint64_t bytes;
    uint32_t tag;
    uint32_t guard;
} block_header;
_Static_assert(sizeof(block_header) == 16, "keeps the caller's bytes 16-byte aligned");

typedef struct tag_row {
    _Atomic(const char *) text;
    _Atomic uint64_t live, peak;
} tag_row;

static tag_row tags[MNEM__HEAP_TAGS_MAX];
static _Atomic uint64_t total_live, total_peak, total_calls;
static _Atomic(const mnem__heap_watcher *) watcher_now;
static mnem__fail_point fail_point;
static _Thread_local mnem_status last_status;
static _Thread_local int64_t thread_live[MNEM__HEAP_TAGS_MAX];

static void raise_peak(_Atomic uint64_t *peak, uint64_t live) {
    uint64_t seen = atomic_load_explicit(peak, memory_order_relaxed);
    while (seen < live && !atomic_compare_exchange_weak_explicit(
                              peak, &seen, live, memory_order_relaxed, memory_order_relaxed)) {
    }
}

/* The tag's row; the last row takes every tag that found no room. */
static uint32_t tag_index(const char *tag) {
    for (uint32_t i = 0; i < MNEM__HEAP_TAGS_MAX; i++) {
        const char *text = atomic_load_explicit(&tags[i].text, memory_order_acquire);
        if (!text && atomic_compare_exchange_strong(&tags[i].text, &text, tag)) return i;
        if (text == tag || !strcmp(text, tag)) return i;
    }
    return MNEM__HEAP_TAGS_MAX - 1;
}

static void count_add(uint32_t tag, uint64_t bytes) {
    raise_peak(&tags[tag].peak, atomic_fetch_add(&tags[tag].live, bytes) + bytes);
    raise_peak(&total_peak, atomic_fetch_add(&total_live, bytes) + bytes);
    thread_live[tag] += (int64_t)bytes;
}

static void count_sub(uint32_t tag, uint64_t bytes) {
    atomic_fetch_sub(&tags[tag].live, bytes);
    atomic_fetch_sub(&total_live, bytes);
    thread_live[tag] -= (int64_t)bytes;
}

/* true when a test wants this allocation to fail. */
static bool fails_now(void) {
    return mnem__fail_point_hit(&fail_point);
}

static void *refuse(const char *tag, uint64_t bytes) {
    last_status = mnem__fail(MNEM_NO_MEMORY, "%s: the machine refused %llu bytes", tag,
                             (unsigned long long)bytes);
    return NULL;
}

static bool watcher_charge(const char *tag, uint64_t bytes) {
    const mnem__heap_watcher *w = atomic_load_explicit(&watcher_now, memory_order_acquire);
    if (!w) return true;
    const mnem_status status = w->charge(w->context, tag, bytes);
    if (status != MNEM_OK) last_status = status; /* keeps why an earlier one failed */
    return status == MNEM_OK;
}

static void watcher_release(const char *tag, uint64_t bytes) {
    const mnem__heap_watcher *w = atomic_load_explicit(&watcher_now, memory_order_acquire);
    if (w) w->release(w->context, tag, bytes);
}

static void *block_take(const char *tag, size_t n, bool zero) {
    atomic_fetch_add_explicit(&total_calls, 1, memory_order_relaxed);
    uint64_t size;
    if (!mnem__add_u64(n, sizeof(block_header), &size) || size > PTRDIFF_MAX || fails_now())
        return refuse(tag, n);
    uint32_t row = tag_index(tag);
    const char *text = atomic_load(&tags[row].text); /* the tag's, or of the one that it shares */
    if (!watcher_charge(text, n)) return NULL;
    block_header *h = zero ? calloc(1, size) : malloc(size);
    if (!h) {
        watcher_release(text, n);
        return refuse(tag, n);
    }
    *h = (block_header){.bytes = n, .tag = row, .guard = GUARD_LIVE};
    count_add(row, n);
    return h + 1;
}

void *mnem__alloc(const char *tag, size_t n) {
    return block_take(tag, n, false);
}

void *mnem__calloc(const char *tag, size_t count, size_t size) {
    uint64_t n;
    if (!mnem__mul_u64(count, size, &n)) return refuse(tag, UINT64_MAX);
    return block_take(tag, n, true);
}

/* The header of a live block. A pointer that isn't one, or was freed, is our own bug. */
static block_header *header_of(void *p) {
    block_header *h = (block_header *)p - 1;
    if (h->guard != GUARD_LIVE) __builtin_trap();
    return h;
}

void *mnem__realloc(const char *tag, void *p, size_t n) {
    if (!p) return mnem__alloc(tag, n);
    atomic_fetch_add_explicit(&total_calls, 1, memory_order_relaxed);
    block_header *h = header_of(p);
    uint64_t old = h->bytes, size;
    const char *own = atomic_load(&tags[h->tag].text);
    if (!mnem__add_u64(n, sizeof *h, &size) || size > PTRDIFF_MAX || fails_now())
        return refuse(own, n);
    if (n > old && !watcher_charge(own, n - old)) return NULL;
    h = realloc(h, size);
    if (!h) {
        if (n > old) watcher_release(own, n - old);
        return refuse(own, n);
    }
    h->bytes = n;
    if (n > old) {
        count_add(h->tag, n - old);
    } else {
        count_sub(h->tag, old - n);
        watcher_release(own, old - n);
    }
    return h + 1;
}

void mnem__free(void *p) {
    if (!p) return;
    atomic_fetch_add_explicit(&total_calls, 1, memory_order_relaxed);
    block_header *h = header_of(p);
    count_sub(h->tag, h->bytes);
    watcher_release(atomic_load(&tags[h->tag].text), h->bytes);
    h->guard = 0;
    free(h);
}

char *mnem__strndup(const char *tag, const char *text, size_t n) {
    char *copy = mnem__alloc(tag, n + 1);
    if (!copy) return NULL;
    memcpy(copy, text, n);
    copy[n] = 0;
    return copy;
}

mnem_status mnem__heap_status(void) {
    return last_status;
}

bool mnem__heap_tag_get(unsigned index, mnem__heap_tag *out) {
    if (index >= MNEM__HEAP_TAGS_MAX || !atomic_load(&tags[index].text)) return false;
    *out = (mnem__heap_tag){.tag = atomic_load(&tags[index].text),
                            .bytes_live = atomic_load(&tags[index].live),
                            .bytes_peak = atomic_load(&tags[index].peak)};
    return true;
}

int64_t mnem__heap_thread_bytes(const char *tag) {
    return thread_live[tag_index(tag)];
}

void mnem_heap_usage_get(mnem_heap_usage *usage) {
    *usage = (mnem_heap_usage){.bytes_live = atomic_load(&total_live),
                               .bytes_peak = atomic_load(&total_peak),
                               .calls = atomic_load(&total_calls)};
}

void mnem__heap_watch(const mnem__heap_watcher *watcher) {
    atomic_store_explicit(&watcher_now, watcher, memory_order_release);
}

void mnem__heap_fail_at(uint64_t n, bool sticky) {
    mnem__fail_point_set(&fail_point, n, sticky);
}

/* Freed blocks go back to the machine: large ones at once, the top of the heap in small steps; and
 * threads don't open heaps of their own. */
void mnem__heap_settle(void) {
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 128 * 1024);
    mallopt(M_TRIM_THRESHOLD, 128 * 1024);
    mallopt(M_TOP_PAD, 64 * 1024);
}

size_t mnem__page_size(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

bool mnem__pages_touch(void *p, size_t bytes) {
#ifdef MADV_POPULATE_WRITE
    if (!madvise(p, bytes, MADV_POPULATE_WRITE)) return true;
    if (errno == ENOMEM || errno == EFAULT) return false;
#endif
    size_t page = mnem__page_size();
    for (size_t i = 0; i < bytes; i += page) ((volatile char *)p)[i] = 0;
    return true;
}

/* Pages at a multiple of alignment: maps more and gives back what lies before and behind. */
static char *map_aligned(uint64_t size, uint64_t alignment, int access, int flags) {
    uint64_t page = mnem__page_size(), slack = alignment > page ? alignment - page : 0, all;
    if (!mnem__add_u64(size, slack, &all)) return NULL;
    char *p = mmap(NULL, all, access, flags | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    uint64_t before = slack ? mnem__align_up((uintptr_t)p, alignment) - (uintptr_t)p : 0;
    if (before) munmap(p, before);
    if (slack > before) munmap(p + before + size, slack - before);
    return p + before;
}

/* Huge pages for the whole ones of a touched map: they make no page resident that isn't ours, since
 * every page is touched. Not for the rest, which a huge page would round up. Best effort. */
static void huge_advise(char *p, uint64_t size, bool touch) {
    uint64_t huge = touch ? size & ~(uint64_t)(HUGE_PAGE - 1) : 0;
    if (huge) madvise(p, huge, MADV_HUGEPAGE);
    if (size > huge) madvise(p + huge, size - huge, MADV_NOHUGEPAGE);
}

void *mnem__pages_map_aligned(size_t bytes, size_t alignment, bool touch) {
    uint64_t size;
    atomic_fetch_add_explicit(&total_calls, 1, memory_order_relaxed);
    if (!mnem__align_u64(bytes, mnem__page_size(), &size) || !size || fails_now())
        return refuse("pages", bytes);
    char *p = map_aligned(size, size >= HUGE_PAGE && alignment < HUGE_PAGE ? HUGE_PAGE : alignment,
                          PROT_READ | PROT_WRITE, 0);
    if (!p) return refuse("pages", bytes);
    huge_advise(p, size, touch);
    if (touch && !mnem__pages_touch(p, size)) {
        munmap(p, size);
        return refuse("pages", bytes);
    }
    return p;
}

void *mnem__pages_map(size_t bytes, bool touch) {
    return mnem__pages_map_aligned(bytes, 1, touch);
}

void mnem__pages_unmap(void *p, size_t bytes) {
    if (p) munmap(p, mnem__align_up(bytes, mnem__page_size()));
}

bool mnem__pages_lock(void *p, size_t bytes) {
    return !mlock(p, bytes);
}

/* ---- addresses apart from memory ----
 *
 *     addresses   [ reserved | mapped | reserved | mapped ]      anonymous, no access
 *                               │                    │
 *     file        [ hole | committed | hole |  committed  ]      in memory, known to us only
 *
 * A place goes from reserved to mapped and back by mapping over it, so that no other mapping of the
 * process can get between. */

void *mnem__pages_reserve(size_t bytes, size_t alignment) {
    uint64_t size;
    atomic_fetch_add_explicit(&total_calls, 1, memory_order_relaxed);
    if (!mnem__align_u64(bytes, mnem__page_size(), &size) || !size || fails_now())
        return refuse("addresses", bytes);
    char *p = map_aligned(size, alignment, PROT_NONE, MAP_NORESERVE);
    return p ? p : refuse("addresses", bytes);
}

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
    atomic_fetch_add_explicit(&total_calls, 1, memory_order_relaxed);
    int fd = !huge && fails_now() ? -1 : memfd_create("mnem", flags);
    if (fd >= 0 && !file_size_set(fd, bytes)) {
        close(fd);
        fd = -1;
    }
    if (fd < 0) refuse("memory file", bytes);
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
    char *place = map_aligned(bytes, HUGE_PAGE, PROT_NONE, MAP_NORESERVE);
    if (place) munmap(place, bytes);
    char *p = mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
    if (p == MAP_FAILED) return false;
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
    atomic_fetch_add_explicit(&total_calls, 1, memory_order_relaxed);
    bool done = (huge || !fails_now()) && file_commit(fd, offset, bytes, huge);
    if (done) return true;
    mnem__memory_file_drop(fd, offset, bytes); /* what was committed before it failed */
    refuse("memory file", bytes);
    return false;
}

void mnem__memory_file_drop(int fd, uint64_t offset, size_t bytes) {
    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
}

/* Maps over pages. What was there stays when the machine refuses, but that some refusals leave a
 * gap for a file: it is closed, so that the place stays ours. */
static bool map_over(void *p, size_t bytes, int access, int flags, int fd, uint64_t offset) {
    atomic_fetch_add_explicit(&total_calls, 1, memory_order_relaxed);
    if (!fails_now() && mmap(p, bytes, access, flags | MAP_FIXED, fd, (off_t)offset) == p)
        return true;
    if (fd >= 0)
        (void)mmap(p, bytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    refuse("mapping", bytes);
    return false;
}

bool mnem__pages_map_file(void *p, int fd, uint64_t offset, size_t bytes) {
    if (!map_over(p, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset)) return false;
    madvise(p, bytes, MADV_HUGEPAGE); /* best effort */
    file_pages_touch(p, bytes);
    return true;
}

bool mnem__pages_map_nothing(void *p, size_t bytes) {
    return map_over(p, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}
