/* preload_hooks.c: malloc and its family, in front of those of the program.
 *
 * Idea: each call goes on to the next library's function, with a note before (a free, whose address
 * may be another thread's at once afterwards) or behind it (an allocation). A thread that is busy
 * with a note calls through, without another.
 * Invariant: what a program gets back, and errno, are the allocator's own. Calls that come before
 * that is found, which finding it may make, are served from a few KiB of our own, never freed.
 * Cost: docs/leaks.md. */
#define PRELOAD_HOOKS
#include "preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EARLY_BYTES = 16 * 1024 };

typedef struct real {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    void *(*memalign)(size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    int (*dlclose)(void *);
    void (*_exit)(int);
} real;

static real next;
static atomic_bool found;
static _Alignas(64) char early[EARLY_BYTES];
static atomic_size_t early_used;
static PRELOAD_TLS bool busy;
static PRELOAD_TLS bool finding;
static atomic_uint_fast64_t serial;
static atomic_bool mark_asked;

bool preload_busy(bool now) {
    const bool before = busy;
    busy = now;
    return before;
}

/* ---- the allocator behind ---- */

static void *early_take(size_t alignment, size_t bytes) {
    const size_t most = bytes < EARLY_BYTES ? bytes + alignment + 16 : EARLY_BYTES;
    const size_t at = atomic_fetch_add(&early_used, most);
    if (at + most > EARLY_BYTES) {
        errno = ENOMEM;
        return NULL;
    }
    const uintptr_t start = (uintptr_t)early + at;
    return early + ((start + alignment - 1) / alignment * alignment - (uintptr_t)early);
}

static bool is_early(const void *p) {
    return (const char *)p >= early && (const char *)p < early + EARLY_BYTES;
}

static void find_all(void) {
    static const struct {
        const char *name;
        size_t at;
    } names[] = {
        {"malloc", offsetof(real, malloc)},
        {"calloc", offsetof(real, calloc)},
        {"realloc", offsetof(real, realloc)},
        {"free", offsetof(real, free)},
        {"posix_memalign", offsetof(real, posix_memalign)},
        {"aligned_alloc", offsetof(real, aligned_alloc)},
        {"memalign", offsetof(real, memalign)},
        {"valloc", offsetof(real, valloc)},
        {"pvalloc", offsetof(real, pvalloc)},
        {"dlclose", offsetof(real, dlclose)},
        {"_exit", offsetof(real, _exit)},
    };
    finding = true;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *address = dlsym(RTLD_NEXT, names[i].name);
        memcpy((char *)&next + names[i].at, &address, sizeof address);
    }
    finding = false;
    atomic_store_explicit(&found, true, memory_order_release);
}

/* false: it isn't known yet, because this very thread is finding it. */
static inline bool ready(void) {
    if (PRELOAD_LIKELY(atomic_load_explicit(&found, memory_order_acquire))) return true;
    if (finding) return false;
    find_all();
    return true;
}

/* ---- notes ---- */

/* Where reports go; a file that can't be opened is told, once. */
static int open_report(void) {
    static atomic_bool told;
    const int fd = preload_report_open(preload_set.out);
    const int error = errno, stderr_fd = fd < 0 ? preload_report_open("") : -1;
    if (stderr_fd >= 0 && *preload_set.out && !atomic_exchange(&told, true))
        dprintf(stderr_fd, "mnem-track: %s: %s\n", preload_set.out, strerror(error));
    return fd;
}

static void mark_report(void) {
    char title[96];
    const uint32_t now = preload_generation();
    snprintf(title, sizeof title, "mark %u at %.2f s", now, (double)preload_mark_ns(now) / 1e9);
    const int fd = open_report();
    if (fd < 0) return;
    preload_report(fd, title, now - 1, now - 1);
    if (*preload_set.out) close(fd);
}

static __attribute__((noinline)) void note_alloc(void *p, size_t bytes, preload_frame from) {
    uintptr_t pcs[PRELOAD_DEPTH_MAX];
    const int error = errno;
    busy = true;
    preload_block block = {.address = (uintptr_t)p, .bytes = bytes};
    block.stack = preload_stack_number(pcs, preload_unwind(from, pcs, preload_set.depth));
    block.born_ms = (uint32_t)(preload_now_ns() / 1000000);
    block.generation = preload_generation();
    block.serial = atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed) + 1;
    preload_block_add(&block);
    if (atomic_load_explicit(&preload_traced, memory_order_relaxed)) preload_trace_alloc(&block);
    if (atomic_load_explicit(&mark_asked, memory_order_relaxed) &&
        atomic_exchange(&mark_asked, false))
        mark_report();
    busy = false;
    errno = error;
}

static void note_free(void *p) {
    preload_block block;
    if (!preload_block_take((uintptr_t)p, &block)) {
        if (!busy) atomic_fetch_add_explicit(&preload_unknown, 1, memory_order_relaxed);
        return;
    }
    if (atomic_load_explicit(&preload_traced, memory_order_relaxed)) preload_trace_free(&block);
}

/* Where the caller of the function that this stands in goes on. Frame pointers are kept here. */
#define CALLER                                                                                     \
    ((preload_frame){(uintptr_t)__builtin_return_address(0),                                       \
                     (uintptr_t)__builtin_frame_address(0) + 2 * sizeof(void *),                   \
                     *(uintptr_t *)__builtin_frame_address(0)})
#define NOTED(p, bytes)                                                                            \
    do {                                                                                           \
        if (PRELOAD_LIKELY((p) && !busy)) note_alloc(p, bytes, CALLER);                            \
    } while (0)

/* ---- the family ---- */

#define SHOWN __attribute__((visibility("default"), noinline))

SHOWN void *malloc(size_t bytes) {
    if (!ready()) return early_take(16, bytes);
    void *p = next.malloc(bytes);
    NOTED(p, bytes);
    return p;
}

SHOWN void *calloc(size_t n, size_t bytes) {
    if (!ready()) return n && bytes > SIZE_MAX / n ? NULL : early_take(16, n * bytes);
    void *p = next.calloc(n, bytes);
    NOTED(p, n * bytes);
    return p;
}

SHOWN void free(void *p) {
    if (!p || is_early(p) || !ready()) return;
    note_free(p);
    next.free(p);
}

static void *early_move(void *p, size_t bytes) {
    void *moved = ready() ? next.malloc(bytes) : early_take(16, bytes);
    const size_t left = (size_t)(early + EARLY_BYTES - (char *)p);
    if (moved) memcpy(moved, p, bytes < left ? bytes : left);
    return moved;
}

/* The block is nobody's while the allocator moves it: its address may be given to another thread
 * at once. One that stays is noted again as it was. */
static void *resize(void *p, size_t bytes, preload_frame from) {
    preload_block before;
    const bool known = p && preload_block_take((uintptr_t)p, &before);
    void *moved = next.realloc(p, bytes);
    if (!moved && known && bytes) { /* refused: the old one is still there */
        const int error = errno;
        preload_block_add(&before);
        errno = error;
        return NULL;
    }
    if (known && atomic_load_explicit(&preload_traced, memory_order_relaxed))
        preload_trace_free(&before);
    if (moved && !busy) note_alloc(moved, bytes, from);
    return moved;
}

SHOWN void *realloc(void *p, size_t bytes) {
    if (p && is_early(p)) return early_move(p, bytes);
    if (!ready()) return early_take(16, bytes);
    return resize(p, bytes, CALLER);
}

SHOWN void *reallocarray(void *p, size_t n, size_t bytes) {
    if (n && bytes > SIZE_MAX / n) {
        errno = ENOMEM;
        return NULL;
    }
    if (p && is_early(p)) return early_move(p, n * bytes);
    if (!ready()) return early_take(16, n * bytes);
    return resize(p, n * bytes, CALLER);
}

SHOWN int posix_memalign(void **out, size_t alignment, size_t bytes) {
    if (!ready()) return (*out = early_take(alignment, bytes)) ? 0 : ENOMEM;
    const int status = next.posix_memalign(out, alignment, bytes);
    if (status == 0) NOTED(*out, bytes);
    return status;
}

SHOWN void *aligned_alloc(size_t alignment, size_t bytes) {
    if (!ready()) return early_take(alignment, bytes);
    void *p = next.aligned_alloc(alignment, bytes);
    NOTED(p, bytes);
    return p;
}

SHOWN void *memalign(size_t alignment, size_t bytes) {
    if (!ready()) return early_take(alignment, bytes);
    void *p = next.memalign(alignment, bytes);
    NOTED(p, bytes);
    return p;
}

SHOWN void *valloc(size_t bytes) {
    if (!ready()) return early_take(4096, bytes);
    void *p = next.valloc(bytes);
    NOTED(p, bytes);
    return p;
}

SHOWN void *pvalloc(size_t bytes) {
    if (!ready()) return early_take(4096, bytes);
    void *p = next.pvalloc(bytes);
    NOTED(p, bytes);
    return p;
}

/* Other code may come to lie where this was. */
SHOWN int dlclose(void *handle) {
    ready();
    preload_modules_note();
    const int status = next.dlclose(handle);
    preload_unwind_forget();
    return status;
}

/* ---- start and end ---- */

static void on_signal(int number) {
    const int error = errno;
    (void)number;
    preload_mark();
    atomic_store(&mark_asked, true);
    errno = error;
}

/* Where the program has no use for it. */
static void catch_signal(void) {
    struct sigaction before, ours = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    if (sigaction(SIGUSR1, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
        sigaction(SIGUSR1, &ours, NULL);
}

static void before_fork(void) {
    preload_trace_lock(true);
    preload_stacks_lock(true);
    preload_blocks_lock(true);
}

static void after_fork(void) {
    preload_blocks_lock(false);
    preload_stacks_lock(false);
    preload_trace_lock(false);
}

static pid_t owner;

static void after_fork_child(void) {
    after_fork();
    preload_trace_close(false); /* the file is the parent's */
}

/* Takes our name out of LD_PRELOAD, in place: programs started from here run as they are. */
static void leave_children(void) {
    static const char name[] = "libmnem-track.so";
    char *list = getenv("LD_PRELOAD"), *at = list ? strstr(list, name) : NULL;
    if (!at) return;
    char *end = at + strcspn(at, ": ");
    while (at > list && at[-1] != ':' && at[-1] != ' ') at--;
    if (*end) end++;
    memmove(at, end, strlen(end) + 1);
}

static void at_end(void *unused) {
    static atomic_bool ended;
    (void)unused;
    if (getpid() != owner && !preload_set.children) return;
    if (atomic_exchange(&ended, true)) return;
    busy = true;
    preload_trace_close(getpid() == owner);
    const int fd = preload_set.quiet ? -1 : open_report();
    if (fd >= 0) preload_report(fd, "at the end", 0, UINT32_MAX);
    if (fd >= 0 && *preload_set.out) close(fd);
    busy = false;
}

/* Who leaves without an end: shells do. A child between vfork and exec has another number. */
SHOWN void _exit(int status) {
    if (ready() && getpid() == owner) at_end(NULL);
    for (;;) next._exit(status);
}

SHOWN void _Exit(int status) {
    _exit(status);
}

int __cxa_atexit(void (*function)(void *), void *context, void *library);

/* Comes before the program's own start, so what is registered here runs behind all that it and its
 * libraries registered. Without a library's handle, or it would run as soon as ours is ended. */
static __attribute__((constructor(101))) void start(void) {
    char why[128];
    busy = true;
    ready();
    owner = getpid();
    preload_now_ns();
    preload_report_start();
    const char *asked = getenv("MNEM_TRACK");
    if (asked && !preload_settings_read(asked, why))
        dprintf(STDERR_FILENO, "mnem-track: MNEM_TRACK: %s\n", why);
    if (*preload_set.trace && !preload_trace_open(preload_set.trace))
        dprintf(STDERR_FILENO, "mnem-track: %s: %s\n", preload_set.trace, strerror(errno));
    if (!preload_set.children) leave_children();
    pthread_atfork(before_fork, after_fork, after_fork_child);
    catch_signal();
    __cxa_atexit(at_end, NULL, NULL);
    busy = false;
}
