/* test_serve_unload.c: the prefix cache of an engine that is unloaded and loaded again, in a file:
 * it has the states of recurrent layers that were only in the swap file. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/minmax.h"
#include "serve/states_case.h"

/* Saves the prefix cache in bytes_most, and loads it into a new engine with the same options, as
 * `mnem serve --models` does. Returns the bytes of the file. */
static uint64_t unload_and_load(uint64_t budget, uint64_t bytes_most) {
    uint64_t bytes;
    const int fd = memfd_create("cache", MFD_CLOEXEC);
    must(mnem_scheduler_cache_save_within(scheduler, fd, bytes_most, &bytes));
    assert_in_range(lseek(fd, 0, SEEK_END), 1, mnem__min_u64(bytes, bytes_most));
    close_all();
    open_swap(&few, budget, ".", 0);
    must(mnem_scheduler_cache_load(scheduler, fd));
    close(fd);
    return bytes;
}

/* Two turns of all conversations, whose states are mostly in the swap file then. */
static void begin_talk(uint64_t budget) {
    make_talk();
    open_swap(&few, budget, ".", 0);
    for (int turn = 0; turn < TURNS - 1; turn++) (void)run_turn(turn, 1);
    assert_true(stats_now().snapshots_out > CLIENTS);
}

/* The tokens of the last turn's prompts that were cached, of each conversation. */
static void end_talk(int32_t cached[CLIENTS]) {
    (void)run_turn(TURNS - 1, 1);
    for (int i = 0; i < CLIENTS; i++) cached[i] = talk[TURNS - 1][i].result.cached_tokens;
    assert_int_equal(stats_now().swap_failures, 0);
}

/* Three live states and no snapshot in memory, for eight conversations. */
static void an_unloaded_model_keeps_the_states_that_were_in_the_file(void **state) {
    (void)state;
    const uint64_t budget = budget_of_three(&few);
    int32_t never[CLIENTS], once[CLIENTS], twice[CLIENTS];
    begin_talk(budget);
    end_talk(never);
    close_all();
    begin_talk(budget);
    unload_and_load(budget, UINT64_MAX);
    end_talk(once);
    close_all();
    begin_talk(budget);
    for (int i = 0; i < 2; i++) unload_and_load(budget, UINT64_MAX);
    end_talk(twice);
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(never[i], FIRST + NEW * (TURNS - 2)); /* all that has come before */
        assert_int_equal(once[i], never[i]);
        assert_int_equal(twice[i], never[i]);
    }
    close_all();
}

/* In less and less room first snapshots are left out, of the conversations that were needed the
 * longest ago first; then these conversations. */
static void a_small_cache_has_conversations_before_snapshots(void **state) {
    (void)state;
    const uint64_t budget = budget_of_three(&few);
    mnem_engine_pages pages;
    mnem_engine_pages_get(alone.engine, &pages);
    begin_talk(budget);
    const uint64_t all = unload_and_load(budget, UINT64_MAX);
    close_all();
    int32_t last = INT32_MAX, most = 0;
    for (uint64_t less = 0, kept = 2; kept > 1; less += 16 * pages.state_bytes) {
        begin_talk(budget);
        unload_and_load(budget, all - less);
        int32_t snapshots = 0;
        kept = 0;
        for (int32_t i = 0; i < scheduler->lanes; i++) {
            const mnem__lane *lane = &scheduler->lane[i];
            if (lane->state != MNEM__LANE_CACHED) continue;
            kept++;
            snapshots += mnem__sequence_snapshots(lane->sequence)->count;
            assert_int_equal(mnem__sequence_ready(lane->sequence, lane->count), lane->count);
        }
        if (less == 0) most = (int32_t)kept;
        assert_true(snapshots <= last && most >= CLIENTS);
        if (snapshots > (int32_t)kept) assert_int_equal(kept, most); /* each has its own at least */
        last = snapshots;
        run_turn(TURNS - 1, 1);
        close_all();
    }
}

/* A state that is damaged in the swap file is left out; what it was for runs again. */
static void a_damaged_state_is_not_saved(void **state) {
    (void)state;
    const uint64_t budget = budget_of_three(&few);
    for (int damaged = 1; damaged < 8; damaged *= 2) {
        begin_talk(budget);
        for (int32_t i = 0; i < scheduler->state_slots; i++) {
            const uint64_t at = scheduler->slots_at + scheduler->slot_bytes * (uint64_t)i + 100;
            if (scheduler->state_slot[i].taken && i % 8 < damaged)
                assert_int_equal(pwrite(scheduler->swap.fd, "damage", 6, (off_t)at), 6);
        }
        unload_and_load(budget, UINT64_MAX);
        assert_true(run_turn(TURNS - 1, 1) > 0);
        close_all();
    }
}

/* Nothing of what is in memory or in the swap file changes. */
static void a_cache_that_can_not_be_written_costs_nothing(void **state) {
    (void)state;
    uint64_t bytes;
    int32_t cached[CLIENTS];
    begin_talk(budget_of_three(&few));
    const int full = open("/dev/full", O_RDWR);
    assert_int_equal(mnem_scheduler_cache_save_within(scheduler, full, UINT64_MAX, &bytes),
                     MNEM_IO);
    close(full);
    end_talk(cached);
    for (int i = 0; i < CLIENTS; i++) assert_int_equal(cached[i], FIRST + NEW * (TURNS - 2));
    close_all();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unloaded_model_keeps_the_states_that_were_in_the_file),
        cmocka_unit_test(a_small_cache_has_conversations_before_snapshots),
        cmocka_unit_test(a_damaged_state_is_not_saved),
        cmocka_unit_test(a_cache_that_can_not_be_written_costs_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
