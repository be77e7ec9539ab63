/* test_serve_swap.c: the swap file: what disks do to it, and what is kept in it over a restart. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "serve/serve_bench.h"
#include "serve/serve_private.h"

/* Disks that never fail, so fast that nothing is computed again for its own sake. */
static void open_crowded(serve_bench *b, const char *swap) {
    serve_open(b, 3, SERVE_CONTEXT,
               (mnem_scheduler_options){.reserve = 1, .swap = swap, .swap_bytes_per_s = 1e12});
}

/* Three that grow until the pages of one context don't hold them; each says what it says alone. */
static mnem_scheduler_stats run_crowd(serve_bench *b, void (*between)(mnem_scheduler *)) {
    bool more = true;
    for (int i = 0; i < 3; i++) must(serve_submit(b, serve_request(b, i, i, 60, 150)));
    for (int steps = 0; more; steps++) {
        assert_in_range(steps, 0, 5000);
        if (between) between(b->scheduler);
        must(mnem_scheduler_step(b->scheduler, &more));
    }
    const mnem_scheduler_stats stats = serve_stats(b);
    serve_close(b);
    engine_case alone;
    engine_case_open(&alone, serve_model, 0,
                     &(mnem_engine_options){.context = SERVE_CONTEXT, .kv = MNEM_KV_F16});
    for (int i = 0; i < 3; i++) {
        serve_ask_alone(&b->ask[i], alone.engine, alone.vocab);
        serve_ask_check(&b->ask[i], "crowd");
    }
    engine_case_close(&alone);
    assert_true(stats.swapped_out > 0);
    assert_int_equal(stats.swap_bytes_live, 0);
    assert_int_equal(stats.ended[MNEM_END_ERROR], 0);
    return stats;
}

/* ---- what disks do ---- */

static void a_full_disk_stops_nobody(void **state) {
    serve_bench *b = *state;
    open_crowded(b, ".");
    const int full = open("/dev/full", O_RDWR);
    assert_true(full >= 0 && dup2(full, b->scheduler->swap.fd) >= 0);
    close(full);
    const mnem_scheduler_stats stats = run_crowd(b, NULL);
    assert_int_equal(stats.swapped_in, 0);
    assert_true(stats.tokens_recomputed > 0);
}

static void cut_file(mnem_scheduler *s) {
    assert_int_equal(ftruncate(s->swap.fd, 0), 0);
}

static void a_file_that_is_cut_stops_nobody(void **state) {
    serve_bench *b = *state;
    open_crowded(b, ".");
    const mnem_scheduler_stats stats = run_crowd(b, cut_file);
    assert_true(stats.swapped_in < stats.swapped_out && stats.tokens_recomputed > 0);
}

/* A byte of each save, in its header, its ids or its pages. */
static void damage_file(mnem_scheduler *s) {
    static uint64_t at;
    for (int32_t i = 0; i < s->lanes; i++) {
        const mnem__swap_job *job = &s->lane[i].swap;
        uint8_t byte = 0;
        if (job->state != MNEM__SWAP_OUT) continue;
        const off_t place = (off_t)(job->at + (at += 997) % job->bytes);
        if (pread(s->swap.fd, &byte, 1, place) != 1) continue;
        byte ^= 0x41;
        assert_int_equal(pwrite(s->swap.fd, &byte, 1, place), 1);
    }
}

static void what_a_disk_changes_is_computed_again(void **state) {
    serve_bench *b = *state;
    open_crowded(b, ".");
    const mnem_scheduler_stats stats = run_crowd(b, damage_file);
    assert_true(stats.tokens_recomputed > 0);
}

static void a_file_whose_name_is_gone_works_on(void **state) {
    serve_bench *b = *state;
    open_crowded(b, "gone.swap");
    assert_int_equal(unlink("gone.swap"), 0);
    const mnem_scheduler_stats stats = run_crowd(b, NULL);
    assert_true(stats.swapped_in > 0);
}

/* ---- whose it is ---- */

static void put_file(const char *path, const char *bytes) {
    FILE *f = fopen(path, "w");
    assert_true(f && fputs(bytes, f) >= 0 && fclose(f) == 0);
}

static void nobody_elses_file_is_taken(void **state) {
    serve_bench *b = *state;
    mnem_scheduler *second;
    char bytes[32] = "";
    serve_open(b, 2, 0, (mnem_scheduler_options){.swap = "ours.swap"});
    mnem_scheduler_options o = {.engine = b->c.engine, .swap = "ours.swap"};
    assert_int_equal(mnem_scheduler_create(&o, &second), MNEM_BUSY);
    put_file("letter.txt", "Dear all, eight");
    o.swap = "letter.txt";
    assert_int_equal(mnem_scheduler_create(&o, &second), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "letter.txt exists and is not a swap file"));
    FILE *f = fopen("letter.txt", "r");
    assert_true(f && fgets(bytes, sizeof bytes, f) && fclose(f) == 0);
    assert_string_equal(bytes, "Dear all, eight");
    o.swap = "link.swap";
    assert_int_equal(symlink("letter.txt", "link.swap"), 0);
    assert_int_equal(mnem_scheduler_create(&o, &second), MNEM_IO);
    o = (mnem_scheduler_options){.engine = b->c.engine, .swap = ".", .keep_cache = true};
    assert_int_equal(mnem_scheduler_create(&o, &second), MNEM_INVALID);
    unlink("link.swap");
    unlink("letter.txt");
    serve_close(b);
    unlink("ours.swap");
}

static void only_its_owner_reads_it(void **state) {
    serve_bench *b = *state;
    struct stat info;
    put_file("open.swap", "");
    assert_int_equal(chmod("open.swap", 0666), 0);
    serve_open(b, 2, 0, (mnem_scheduler_options){.swap = "open.swap"});
    assert_int_equal(stat("open.swap", &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    serve_close(b);
    assert_int_equal(stat("open.swap", &info), 0);
    assert_int_equal(info.st_size, 0);
    unlink("open.swap");
}

/* ---- kept over a restart ---- */

static const mnem_scheduler_options keeps = {.swap = "kept.swap", .keep_cache = true};

/* Two that begin alike; how many tokens of the second's prompt were there. */
static int32_t ask_again(serve_bench *b) {
    must(serve_submit(b, serve_request(b, 0, 1, 200, 5)));
    serve_run(b->scheduler, 100);
    return b->ask[0].result.cached_tokens;
}

static void a_drained_server_knows_its_prompts_again(void **state) {
    serve_bench *b = *state;
    int32_t got[5];
    serve_open(b, 4, 0, keeps);
    assert_int_equal(ask_again(b), 0);
    memcpy(got, b->ask[0].got, sizeof got);
    mnem_scheduler_stop(b->scheduler, true);
    serve_close(b);
    serve_open(b, 4, 0, keeps);
    assert_int_equal(ask_again(b), 199);
    assert_memory_equal(got, b->ask[0].got, sizeof got);
    must(serve_submit(b, serve_request(b, 1, 2, 50, 5)));
    mnem_scheduler_stop(b->scheduler, false); /* in a hurry: nothing is kept */
    serve_close(b);
    serve_open(b, 4, 0, keeps);
    assert_int_equal(ask_again(b), 0);
    serve_close(b);
    unlink("kept.swap");
}

static void a_killed_servers_file_is_discarded(void **state) {
    serve_bench *b = *state;
    serve_open(b, 4, 0, keeps);
    assert_int_equal(ask_again(b), 0);
    serve_close(b);
    const pid_t child = fork();
    if (child == 0) { /* takes what was kept, and is gone */
        serve_open(b, 4, 0, keeps);
        _exit(ask_again(b) == 199 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    serve_open(b, 4, 0, keeps);
    assert_int_equal(serve_stats(b).pages_cached, 0);
    assert_int_equal(ask_again(b), 0);
    serve_close(b);
    unlink("kept.swap");
}

static void no_more_is_kept_than_swap_may_take(void **state) {
    serve_bench *b = *state;
    struct stat info;
    mnem_scheduler_options few = keeps;
    serve_open(b, 6, 0, keeps);
    few.swap_bytes = 4096 + 5 * serve_stats(b).page_bytes; /* of two times four pages */
    serve_close(b);
    serve_open(b, 6, 0, few);
    for (int i = 0; i < 2; i++) {
        must(serve_submit(b, serve_request(b, i, i, 200, 5)));
        serve_run(b->scheduler, 100);
    }
    serve_close(b);
    assert_int_equal(stat("kept.swap", &info), 0);
    assert_in_range(info.st_size, 1, few.swap_bytes);
    serve_open(b, 6, 0, few);
    assert_int_equal(serve_stats(b).pages_cached, 4);
    serve_close(b);
    unlink("kept.swap");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_disk_stops_nobody),
        cmocka_unit_test(a_file_that_is_cut_stops_nobody),
        cmocka_unit_test(what_a_disk_changes_is_computed_again),
        cmocka_unit_test(a_file_whose_name_is_gone_works_on),
        cmocka_unit_test(nobody_elses_file_is_taken),
        cmocka_unit_test(only_its_owner_reads_it),
        cmocka_unit_test(a_drained_server_knows_its_prompts_again),
        cmocka_unit_test(a_killed_servers_file_is_discarded),
        cmocka_unit_test(no_more_is_kept_than_swap_may_take),
    };
    return cmocka_run_group_tests(tests, serve_set_up, serve_tear_down);
}
