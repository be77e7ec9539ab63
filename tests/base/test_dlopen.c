/* test_dlopen.c: libmnem.so in a program that runs already: opened by dlopen, with threads that
 * were there before, and by Python's ctypes. */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "mnem/base.h"

typedef struct mnem_model mnem_model;
typedef struct library {
    const char *(*version)(void);
    const char *(*last_error)(void);
    int (*model_open)(const char *path, mnem_model **model);
    pthread_barrier_t *opened;
    const char *path;
} library;

static void *open_library(void) {
    void *handle = dlopen(MNEM_SHARED_FILE, RTLD_NOW | RTLD_LOCAL);
    if (!handle) fail_msg("%s", dlerror());
    return handle;
}

static void find(void *handle, const char *name, void *function) {
    void *found = dlsym(handle, name);
    if (!found) fail_msg("%s", dlerror());
    memcpy(function, &found, sizeof found);
}

/* A loader has place for such variables of programs and of what they are linked with; of what comes
 * later only for a few bytes. */
static void no_variable_of_a_thread_wants_a_place_from_the_start(void **state) {
    (void)state;
    void *handle = open_library();
    struct link_map *map;
    bool flags = false;
    assert_int_equal(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
    for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_FLAGS && d->d_un.d_val & DF_STATIC_TLS) flags = true;
    assert_false(flags);
    dlclose(handle);
}

/* Of a thread that was there before the library: its own last error. */
static void *fail_to_open(void *argument) {
    const library *l = argument;
    mnem_model *model;
    pthread_barrier_wait(l->opened);
    const bool fails = l->model_open(l->path, &model) != MNEM_OK;
    pthread_barrier_wait(l->opened);
    const bool own = strstr(l->last_error(), l->path) != NULL;
    return fails && own ? argument : NULL;
}

static void threads_have_their_own_errors(void **state) {
    (void)state;
    enum { THREADS = 3 };
    pthread_barrier_t opened;
    pthread_t thread[THREADS];
    library each[THREADS];
    static const char *const paths[THREADS] = {"/no/one", "/no/two", "/no/three"};
    pthread_barrier_init(&opened, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) {
        each[i] = (library){.opened = &opened, .path = paths[i]};
        assert_int_equal(pthread_create(&thread[i], NULL, fail_to_open, &each[i]), 0);
    }
    void *handle = open_library();
    for (int i = 0; i < THREADS; i++) {
        find(handle, "mnem_version", &each[i].version);
        find(handle, "mnem_last_error", &each[i].last_error);
        find(handle, "mnem_model_open", &each[i].model_open);
    }
    assert_string_equal(each[0].version(), MNEM_VERSION);
    pthread_barrier_wait(&opened);
    pthread_barrier_wait(&opened);
    for (int i = 0; i < THREADS; i++) {
        void *good;
        assert_int_equal(pthread_join(thread[i], &good), 0);
        if (!good) fail_msg("thread %d", i);
    }
    pthread_barrier_destroy(&opened);
    dlclose(handle);
}

static const char program[] =
    "import ctypes, sys, threading\n"
    "lib = ctypes.CDLL(sys.argv[1])\n"
    "lib.mnem_version.restype = lib.mnem_last_error.restype = ctypes.c_char_p\n"
    "assert lib.mnem_version().decode() == sys.argv[2], lib.mnem_version()\n"
    "def open(path):\n"
    "    model = ctypes.c_void_p()\n"
    "    status = lib.mnem_model_open(path, ctypes.byref(model))\n"
    "    found.append(status != 0 and path in lib.mnem_last_error())\n"
    "found = []\n"
    "threads = [threading.Thread(target=open, args=(b'/no/%d' % i,)) for i in range(3)]\n"
    "for t in threads: t.start()\n"
    "for t in threads: t.join()\n"
    "assert found == [True] * 3, found\n";

static void python_opens_it(void **state) {
    (void)state;
    char command[4096];
    if (MNEM_SANITIZED || system("python3 -c 'import ctypes' >/dev/null 2>&1") != 0) skip();
    snprintf(command, sizeof command, "python3 - '%s' '%s' <<'END'\n%sEND\n", MNEM_SHARED_FILE,
             MNEM_VERSION, program);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_variable_of_a_thread_wants_a_place_from_the_start),
        cmocka_unit_test(threads_have_their_own_errors),
        cmocka_unit_test(python_opens_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
