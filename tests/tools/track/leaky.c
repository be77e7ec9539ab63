/* leaky.c: a program whose leaks are known; its words say which. Tests look for the lines below. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mnem/leaks.h"

static void *volatile kept;

__attribute__((noinline)) static void *leak_here(size_t bytes) {
    void *p = malloc(bytes); /* a test looks for this line */
    memset(p, 1, bytes);
    return p;
}

__attribute__((noinline)) static void leak_by(int n) {
    for (int i = 0; i < n; i++) kept = leak_here(1000);
}

static void family(void) {
    void *p;
    kept = calloc(10, 101);
    kept = realloc(malloc(7), 1020);
    kept = reallocarray(NULL, 10, 103);
    if (posix_memalign(&p, 256, 1040) == 0) kept = p;
    kept = aligned_alloc(64, 1088);
    kept = memalign(32, 1060);
    kept = valloc(1070);
    kept = pvalloc(1080);
    kept = strdup("fifteen letters");
    free(NULL);
    kept = malloc(0);
    p = malloc(5000);
    kept = realloc(p, SIZE_MAX / 2) ? NULL : p; /* refused: the old one stays */
    free(malloc(9));
}

/* Each thread leaks 100 blocks of 16 bytes, and frees what another allocated. */
static void *blocks[4][4000];
static pthread_barrier_t barrier;

static void *work(void *context) {
    const size_t me = (size_t)(uintptr_t)context;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 4000; i++) blocks[me][i] = malloc((size_t)(i % 300) + 1);
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < 4000; i++) free(blocks[(me + 1) % 4][i]);
        pthread_barrier_wait(&barrier);
    }
    for (int i = 0; i < 100; i++) kept = malloc(16);
    return NULL;
}

static void threads(void) {
    pthread_t id[4];
    pthread_barrier_init(&barrier, NULL, 4);
    for (size_t i = 0; i < 4; i++) pthread_create(&id[i], NULL, work, (void *)(uintptr_t)i);
    for (int i = 0; i < 4; i++) pthread_join(id[i], NULL);
}

static void *churn(void *context) {
    while (!*(volatile int *)context) free(malloc(64));
    return NULL;
}

/* Children of a program with a busy thread: they allocate, and end both ways. */
static void forks(void) {
    volatile int end = 0;
    pthread_t id;
    pthread_create(&id, NULL, churn, (void *)&end);
    for (int i = 0; i < 20; i++) {
        const pid_t child = fork();
        if (!child) {
            kept = malloc(123);
            free(malloc(456));
            if (i % 2) _exit(0);
            exit(0);
        }
        int status;
        if (waitpid(child, &status, 0) != child || status != 0) exit(9);
    }
    end = 1;
    pthread_join(id, NULL);
}

static void open_library(const char *path) {
    void *handle = dlopen(path, RTLD_NOW);
    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        exit(8);
    }
    void *(*take)(size_t);
    *(void **)&take = dlsym(handle, "library_take");
    kept = take(2222);
    dlclose(handle);
}

static void marks(void) {
    leak_by(1);
    raise(SIGUSR1);
    leak_by(2);
    if (mnem_track_mark() == 2) leak_by(3);
    if (!mnem_track_report(NULL, 2)) exit(7);
    mnem_track_info info;
    mnem_track_info_get(&info);
    if (info.generation != 2 || info.blocks_live < 6) exit(6);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "lines")) leak_by(3);
    if (!strcmp(what, "family")) family();
    if (!strcmp(what, "threads")) threads();
    if (!strcmp(what, "forks")) forks();
    if (!strcmp(what, "library") && argc > 2) open_library(argv[2]);
    if (!strcmp(what, "marks")) marks();
    if (!strcmp(what, "closed")) {
        leak_by(1);
        close(1);
        close(2);
    }
    return 0;
}
