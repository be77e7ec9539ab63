/* test_process_host.c: the ledger of a process that is another program's changes nothing of it. */
#include <locale.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/heap.h"
#include "kit/kit.h"
#include "mnem/ledger.h"

static uint64_t resident(void) {
    mnem_process_usage usage;
    must(mnem_process_usage_get(&usage));
    return usage.bytes_resident;
}

static mnem_ledger *open_ledger(void) {
    mnem_ledger *ledger;
    must(mnem_ledger_create_process(&(mnem_ledger_options){.budget_bytes = 4 * GIB}, &ledger));
    return ledger;
}

/* Whether a thread's small block comes from the first arena, which is the heap of brk. */
static void *in_first_arena(void *context) {
    char *volatile block = malloc(1000);
    if (!block) return NULL;
    *(bool *)context = block < (char *)sbrk(0);
    free(block);
    return context;
}

static bool thread_shares_first_arena(void) {
    pthread_t thread;
    bool shares;
    void *done;
    assert_int_equal(pthread_create(&thread, NULL, in_first_arena, &shares), 0);
    assert_int_equal(pthread_join(thread, &done), 0);
    assert_non_null(done);
    return shares;
}

static void threads_keep_arenas_of_their_own(void **state) {
    (void)state;
    if (MNEM_SANITIZED || thread_shares_first_arena()) skip();
    mnem_ledger *ledger = open_ledger();
    assert_false(thread_shares_first_arena());
    must(mnem_ledger_destroy(ledger));
    assert_false(thread_shares_first_arena());
}

/* Whether a block of 1 MiB is a mapping of its own after one was freed. glibc raises its threshold
 * then, unless a program has set one. */
static bool large_block_is_mapped_again(void) {
    char *volatile block = malloc(MIB);
    if (!block) fail();
    free(block);
    const size_t before = mallinfo2().hblks;
    block = malloc(MIB);
    if (!block) fail();
    const bool mapped = mallinfo2().hblks != before;
    free(block);
    return mapped;
}

static void large_blocks_are_used_again(void **state) {
    (void)state;
    if (MNEM_SANITIZED || large_block_is_mapped_again()) skip();
    mnem_ledger *ledger = open_ledger();
    assert_false(large_block_is_mapped_again());
    must(mnem_ledger_destroy(ledger));
    assert_false(large_block_is_mapped_again());
}

/* The C heap keeps blocks as large as those that the program has freed; the library's go back. */
static void large_blocks_of_the_library_go_back(void **state) {
    (void)state;
    enum { LARGE = 8 * MIB };
    if (MNEM_SANITIZED) skip();
    char *volatile own = malloc(2 * LARGE);
    free(own);
    const uint64_t before = resident();
    char *block = mnem__alloc("large", LARGE), *small = mnem__alloc("small", 1000);
    assert_non_null(block);
    memset(block, 1, LARGE);
    assert_true(resident() >= before + LARGE);
    mnem__free(block);
    assert_true(resident() < before + LARGE / 2);
    mnem__free(small);
}

static void handlers_and_locale_stay(void **state) {
    (void)state;
    enum { SIGNALS = 65 }; /* Linux's */
    struct sigaction before[SIGNALS], after;
    char locale[512];
    memset(before, 0, sizeof before);
    strncpy(locale, setlocale(LC_ALL, NULL), sizeof locale - 1);
    for (int i = 1; i < SIGNALS; i++) (void)sigaction(i, NULL, &before[i]);
    mnem_ledger *ledger = open_ledger();
    for (int i = 1; i < SIGNALS; i++) {
        if (sigaction(i, NULL, &after)) continue;
        assert_ptr_equal(after.sa_handler, before[i].sa_handler);
        assert_int_equal(after.sa_flags, before[i].sa_flags);
    }
    assert_string_equal(setlocale(LC_ALL, NULL), locale);
    must(mnem_ledger_destroy(ledger));
}

static void what_was_given_back_is_not_charged(void **state) {
    (void)state;
    enum { ONCE = 192 * MIB, ROOM = 64 * MIB };
    mnem_ledger *ledger;
    char *once = mmap(NULL, ONCE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(once, MAP_FAILED);
    memset(once, 1, ONCE);
    munmap(once, ONCE);
    mnem_ledger_options options = {.budget_bytes = resident() + ROOM};
    must(mnem_ledger_create_process(&options, &ledger));
    must(mnem_ledger_destroy(ledger));
    options.own_process = true; /* its peak counts */
    assert_int_equal(mnem_ledger_create_process(&options, &ledger), MNEM_OVER_BUDGET);
}

static void *take_and_free(void *context) {
    const atomic_bool *stop = context;
    while (!atomic_load(stop)) {
        char *volatile block = malloc(200 * KIB);
        if (block) memset(block, 1, 200 * KIB);
        free(block);
    }
    return NULL;
}

/* Beside a thread that allocates: what is resident, without the library's blocks, which have
 * accounts of their own. */
static void what_is_resident_is_charged_beside_threads(void **state) {
    (void)state;
    enum { DRIFT = 8 * MIB }; /* of the thread; a sanitizer keeps what it frees */
    pthread_t thread;
    atomic_bool stop = false;
    mnem_ledger_info info;
    assert_int_equal(pthread_create(&thread, NULL, take_and_free, &stop), 0);
    void *block = mnem__alloc("early", MIB);
    mnem_ledger *ledger = open_ledger();
    const uint64_t now = resident();
    mnem_ledger_info_get(ledger, &info);
    atomic_store(&stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (!MNEM_SANITIZED && (info.bytes_live + DRIFT < now || info.bytes_live > now + DRIFT))
        fail_msg("%llu bytes are charged, %llu are resident", (unsigned long long)info.bytes_live,
                 (unsigned long long)now);
    mnem__free(block);
    must(mnem_ledger_destroy(ledger));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_keep_arenas_of_their_own),
        cmocka_unit_test(large_blocks_are_used_again),
        cmocka_unit_test(large_blocks_of_the_library_go_back),
        cmocka_unit_test(handlers_and_locale_stay),
        cmocka_unit_test(what_is_resident_is_charged_beside_threads),
        cmocka_unit_test(what_was_given_back_is_not_charged), /* sets the C heap: last */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
