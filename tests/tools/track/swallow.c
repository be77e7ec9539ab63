/* swallow.c: a library for LD_PRELOAD that makes leaks, and knows them: of all frees it keeps every
 * SWALLOW_EVERY-th to itself. At the end it writes to SWALLOW_LOG each block that it kept
 * ("kept ADDRESS BYTES") and each that the program didn't free ("live ADDRESS BYTES").
 *
 * It has a table of its own, so that what it says is independent of whom it checks. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ENTRIES = 1 << 20 };

typedef struct entry {
    uintptr_t address; /* 0: never used */
    size_t bytes;
    char state; /* 0: freed */
} entry;

static entry entries[ENTRIES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long every, frees;
static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);
static void *(*next_memalign)(size_t, size_t);
static void (*next_free)(void *);

static void find(void) {
    if (next_free) return;
    const char *text = getenv("SWALLOW_EVERY");
    every = text ? strtoul(text, NULL, 10) : 0;
    *(void **)&next_malloc = dlsym(RTLD_NEXT, "malloc");
    *(void **)&next_calloc = dlsym(RTLD_NEXT, "calloc");
    *(void **)&next_realloc = dlsym(RTLD_NEXT, "realloc");
    *(void **)&next_memalign = dlsym(RTLD_NEXT, "memalign");
    *(void **)&next_free = dlsym(RTLD_NEXT, "free");
}

static entry *at(const void *p) {
    size_t i = ((uintptr_t)p >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 44;
    while (entries[i].address && entries[i].address != (uintptr_t)p) i = (i + 1) % ENTRIES;
    return &entries[i];
}

static void *note(void *p, size_t bytes) {
    if (!p) return p;
    pthread_mutex_lock(&lock);
    *at(p) = (entry){(uintptr_t)p, bytes, 'l'};
    pthread_mutex_unlock(&lock);
    return p;
}

void *malloc(size_t bytes) {
    find();
    return note(next_malloc(bytes), bytes);
}

void *calloc(size_t n, size_t bytes) {
    find();
    return note(next_calloc(n, bytes), n * bytes);
}

void *realloc(void *p, size_t bytes) {
    find();
    pthread_mutex_lock(&lock); /* all the while: the old address may be another thread's at once */
    void *moved = next_realloc(p, bytes);
    if (p && (moved || !bytes)) at(p)->state = 0;
    if (moved) *at(moved) = (entry){(uintptr_t)moved, bytes, 'l'};
    pthread_mutex_unlock(&lock);
    return moved;
}

void *reallocarray(void *p, size_t n, size_t bytes) {
    return realloc(p, n * bytes);
}

void *memalign(size_t alignment, size_t bytes) {
    find();
    return note(next_memalign(alignment, bytes), bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    return memalign(alignment, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes) {
    *out = memalign(alignment, bytes);
    return *out ? 0 : ENOMEM;
}

void free(void *p) {
    if (!p) return;
    find();
    pthread_mutex_lock(&lock);
    entry *e = at(p);
    const int keep = e->address && every && ++frees % every == 0;
    if (e->address) e->state = keep ? 'k' : 0;
    pthread_mutex_unlock(&lock);
    if (!keep) next_free(p);
}

/* Takes nothing from the heap, which is being looked at. */
static void write_log(void *path) {
    static char text[256 * 1024];
    size_t used = 0;
    const int log = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (size_t i = 0; i <= ENTRIES; i++) {
        if (i == ENTRIES || sizeof text - used < 100) {
            if (write(log, text, used) != (ssize_t)used) break;
            used = 0;
        }
        if (i == ENTRIES || !entries[i].state) continue;
        used += (size_t)snprintf(text + used, 100, "%s %#lx %zu\n",
                                 entries[i].state == 'k' ? "kept" : "live",
                                 (unsigned long)entries[i].address, entries[i].bytes);
    }
    close(log);
}

int __cxa_atexit(void (*function)(void *), void *context, void *library);

static __attribute__((constructor(102))) void start(void) {
    find();
    char *path = getenv("SWALLOW_LOG");
    if (path) __cxa_atexit(write_log, path, NULL);
}
