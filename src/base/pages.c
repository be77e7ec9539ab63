/* pages.c: pages of the machine, and addresses without any.
 *
 * The idea: what is planned is touched when it is mapped, so that it is resident from then on and
 * no later moment can run out of it.
 * Cost: the kernel's, which clears each page: seconds for some GiB, minutes on a slow machine. So
 * who waits may be told of it, every TELL_BYTES. */
#include "base/pages.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/heap_private.h"
#include "base/minmax.h"
#include "base/progress.h"

enum { HUGE_PAGE = 2 << 20, TELL_BYTES = 16 << 20 };

/* Who is told of what this thread touches; progress NULL: nobody. */
static _Thread_local struct {
    const mnem_progress *progress;
    uint64_t done, total;
} listener;

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

void mnem__pages_tell(const mnem_progress *progress, uint64_t total) {
    listener.progress = progress;
    listener.done = 0;
    listener.total = total;
}

/* *go_on false: who is told wants it to end. */
static bool touch_all(char *p, uint64_t size, bool *go_on) {
    const uint64_t step = listener.progress ? TELL_BYTES : size;
    for (uint64_t at = 0; at < size && *go_on; at += step) {
        const uint64_t n = mnem__min_u64(step, size - at);
        if (!mnem__pages_touch(p + at, n)) return false;
        listener.done += n;
        if (listener.progress)
            *go_on = mnem__progress_tell(listener.progress, "taking memory", listener.done,
                                         listener.total);
    }
    return *go_on;
}

/* Maps more and gives back what lies before and behind. */
char *mnem__map_aligned(uint64_t size, uint64_t alignment, int access, int flags) {
    uint64_t page = mnem__page_size(), slack = alignment > page ? alignment - page : 0, all;
    if (!mnem__add_u64(size, slack, &all)) return NULL;
    char *p = mmap(NULL, all, access, flags | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    uint64_t before = slack ? mnem__align_up((uintptr_t)p, alignment) - (uintptr_t)p : 0;
    if (before) munmap(p, before);
    if (slack > before) munmap(p + before + size, slack - before);
    return p + before;
}

void *mnem__map(uint64_t bytes) {
    const uint64_t page = mnem__page_size();
    return mnem__map_aligned(mnem__align_up(bytes, page), page, PROT_READ | PROT_WRITE, 0);
}

void *mnem__map_resize(void *p, uint64_t old, uint64_t bytes) {
    const uint64_t page = mnem__page_size();
    void *q = mremap(p, mnem__align_up(old, page), mnem__align_up(bytes, page), MREMAP_MAYMOVE);
    return q == MAP_FAILED ? NULL : q;
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
    mnem__heap_count_call();
    if (!mnem__align_u64(bytes, mnem__page_size(), &size) || !size || mnem__heap_fails_now())
        return mnem__heap_refuse("pages", bytes);
    char *p =
        mnem__map_aligned(size, size >= HUGE_PAGE && alignment < HUGE_PAGE ? HUGE_PAGE : alignment,
                          PROT_READ | PROT_WRITE, 0);
    if (!p) return mnem__heap_refuse("pages", bytes);
    huge_advise(p, size, touch);
    bool go_on = true;
    if (touch && !touch_all(p, size, &go_on)) {
        munmap(p, size);
        return go_on ? mnem__heap_refuse("pages", bytes) : mnem__heap_cancel("pages");
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

void *mnem__pages_reserve(size_t bytes, size_t alignment) {
    uint64_t size;
    mnem__heap_count_call();
    if (!mnem__align_u64(bytes, mnem__page_size(), &size) || !size || mnem__heap_fails_now())
        return mnem__heap_refuse("addresses", bytes);
    char *p = mnem__map_aligned(size, alignment, PROT_NONE, MAP_NORESERVE);
    return p ? p : mnem__heap_refuse("addresses", bytes);
}
