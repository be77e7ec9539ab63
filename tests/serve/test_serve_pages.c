/* test_serve_pages.c: what requests share of pages, what stays for others, and who is set aside
 * when pages run short. */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "serve/serve_bench.h"
#include "serve/serve_private.h"

/* ---- sharing ---- */

static void a_prompt_that_comes_again_is_taken_from_the_cache(void **state) {
    serve_bench *b = *state;
    serve_open(b, 2, 0, (mnem_scheduler_options){0});
    must(serve_submit(b, serve_request(b, 0, 1, 200, 5)));
    serve_run(b->scheduler, 100);
    must(serve_submit(b, serve_request(b, 1, 1, 200, 5)));
    serve_run(b->scheduler, 100);
    assert_int_equal(b->ask[0].result.cached_tokens, 0);
    assert_int_equal(b->ask[1].result.cached_tokens, 199); /* the last one runs */
    assert_memory_equal(b->ask[0].got, b->ask[1].got, 5 * sizeof(int32_t));
    assert_int_equal(serve_stats(b).prefix_hits, 199);
    serve_close(b);
}

static void an_answer_is_a_beginning_of_the_next_turn(void **state) {
    serve_bench *b = *state;
    serve_open(b, 2, 0, (mnem_scheduler_options){0});
    serve_ask *first = serve_request(b, 0, 1, 50, 20), *next = serve_request(b, 1, 1, 90, 5);
    must(serve_submit(b, first));
    serve_run(b->scheduler, 100);
    memcpy(next->prompt + 50, first->got, 20 * sizeof(int32_t));
    must(serve_submit(b, next));
    serve_run(b->scheduler, 100);
    assert_int_equal(next->result.cached_tokens, 69); /* what was chosen last never ran */
    serve_close(b);
}

static void eight_answers_to_one_prompt_compute_it_once(void **state) {
    serve_bench *b = *state;
    mnem_engine_stats stats;
    serve_open(b, 8, 0, (mnem_scheduler_options){0});
    for (int i = 0; i < 8; i++) {
        serve_ask *a = serve_request(b, i, 1, 130, 4);
        a->request.sampler = (mnem_sampler_options){.temperature = 1, .top_p = 1};
        a->request.sampler.seed = (uint64_t)i;
        must(serve_submit(b, a));
    }
    serve_run(b->scheduler, 1000);
    for (int i = 0; i < 8; i++) assert_int_equal(b->ask[i].result.cached_tokens, i ? 129 : 0);
    mnem_engine_stats_get(b->c.engine, &stats);
    assert_int_equal(stats.tokens, 130 + 7 + 8 * 3);
    serve_close(b);
}

/* Each layer forgets, so no page is of the kind that a sequence has for each of its positions. */
static void a_model_of_windows_alone_is_served(void **state) {
    serve_bench *b = *state;
    mnem_engine_pages pages;
    const char *made = serve_model;
    serve_model = MNEM_TEST_DATA "/architectures/phi3_window.gguf";
    serve_open(b, 2, 0, (mnem_scheduler_options){0});
    serve_model = made;
    mnem_engine_pages_get(b->c.engine, &pages);
    assert_int_equal(pages.all.full, 0);
    for (int i = 0; i < 3; i++) {
        serve_ask *a = serve_request(b, i, 1, i < 2 ? 200 : SERVE_CONTEXT, 20);
        for (int k = 0; k < SERVE_CONTEXT; k++) a->prompt[k] %= b->c.vocab;
        assert_int_equal(serve_submit(b, a), i < 2 ? MNEM_OK : MNEM_OVER_BUDGET);
        serve_run(b->scheduler, 100);
        assert_int_equal(a->result.tokens, i < 2 ? 20 : 0);
    }
    assert_memory_equal(b->ask[0].got, b->ask[1].got, 20 * sizeof(int32_t));
    serve_close(b);
}

static void trees_and_those_that_want_it_share_nothing(void **state) {
    serve_bench *b = *state;
    serve_open(b, 4, 0, (mnem_scheduler_options){0});
    for (int i = 0; i < 4; i++) {
        serve_ask *a = serve_request(b, i, 1, 100, 3);
        a->request.tree = i == 1;
        a->request.no_sharing = i == 2;
        must(serve_submit(b, a));
        serve_run(b->scheduler, 100);
    }
    for (int i = 0; i < 3; i++) assert_int_equal(b->ask[i].result.cached_tokens, 0);
    assert_int_equal(b->ask[3].result.cached_tokens, 99);
    serve_close(b);
}

static void a_sweep_of_prompts_leaves_what_was_needed_again(void **state) {
    serve_bench *b = *state;
    serve_open(b, 8, 3 * SERVE_CONTEXT, (mnem_scheduler_options){0});
    for (int i = 0; i < 2; i++) { /* 100 tokens that begin alike, needed again once */
        must(serve_submit(b, serve_request(b, i, 1, i ? 120 : 100, 3)));
        serve_run(b->scheduler, 100);
    }
    for (int i = 0; i < 40; i++) {
        must(serve_submit(b, serve_request(b, 2, 100 + i, 150, 3)));
        serve_run(b->scheduler, 100);
    }
    must(serve_submit(b, serve_request(b, 3, 1, 110, 3)));
    serve_run(b->scheduler, 100);
    assert_in_range(b->ask[3].result.cached_tokens, 99, 109);
    serve_close(b);
}

/* ---- set aside ---- */

/* Three that grow until the pages of one context don't hold them. */
static void crowd_pages(serve_bench *b) {
    for (int i = 0; i < 3; i++) must(serve_submit(b, serve_request(b, i, i, 60, 150)));
    serve_run(b->scheduler, 5000);
}

static void check_crowd(serve_bench *b, uint64_t *set_aside) {
    engine_case alone;
    engine_case_open(&alone, serve_model, 0,
                     &(mnem_engine_options){.context = SERVE_CONTEXT, .kv = MNEM_KV_F16});
    *set_aside = 0;
    for (int i = 0; i < 3; i++) {
        serve_ask_alone(&b->ask[i], alone.engine, alone.vocab);
        serve_ask_check(&b->ask[i], "crowd");
        *set_aside += (uint64_t)b->ask[i].preempted;
    }
    engine_case_close(&alone);
}

static void what_is_set_aside_says_the_same(void **state) {
    serve_bench *b = *state;
    for (int swap = 0; swap < 2; swap++) {
        uint64_t set_aside;
        serve_open(b, 3, SERVE_CONTEXT,
                   (mnem_scheduler_options){
                       .reserve = 1, .swap = swap ? "." : NULL, .swap_bytes_per_s = 1e12});
        crowd_pages(b);
        const mnem_scheduler_stats stats = serve_stats(b);
        assert_int_equal(stats.swapped_in > 0, swap);
        assert_int_equal(stats.tokens_recomputed > 0, !swap);
        serve_close(b);
        check_crowd(b, &set_aside);
        assert_in_range(set_aside, 1, 9);
        assert_int_equal(set_aside, stats.preemptions);
    }
}

static void where_pages_went_is_counted_with_its_reason(void **state) {
    serve_bench *b = *state;
    static const struct {
        const char *swap;
        uint64_t bytes;
        double bytes_per_s;
        mnem_aside way;
    } rows[] = {{NULL, 0, 0, MNEM_ASIDE_NO_FILE},
                {".", 1, 0, MNEM_ASIDE_NO_ROOM},
                {".", 0, 1e12, MNEM_ASIDE_SWAPPED},
                {".", 0, 1e-3, MNEM_ASIDE_RECOMPUTED}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        serve_open(b, 3, SERVE_CONTEXT,
                   (mnem_scheduler_options){.reserve = 1,
                                            .swap = rows[i].swap,
                                            .swap_bytes = rows[i].bytes,
                                            .swap_bytes_per_s = rows[i].bytes_per_s});
        crowd_pages(b);
        const mnem_scheduler_stats stats = serve_stats(b);
        const bool choice = rows[i].way < MNEM_ASIDE_NO_FILE;
        assert_true(stats.preemptions > 0);
        for (int w = 0; w < MNEM_ASIDE_COUNT; w++)
            assert_int_equal(stats.aside[w], w == (int)rows[i].way ? stats.preemptions : 0);
        assert_int_equal(stats.swapped_out, stats.aside[MNEM_ASIDE_SWAPPED]);
        assert_int_equal(stats.aside_swap_seconds > 0, choice);
        assert_int_equal(stats.aside_recompute_seconds > 0, choice);
        if (choice)
            assert_int_equal(stats.aside_swap_seconds < stats.aside_recompute_seconds,
                             rows[i].way == MNEM_ASIDE_SWAPPED);
        serve_close(b);
    }
}

static void without_a_swap_file_that_works_tokens_are_computed_again(void **state) {
    serve_bench *b = *state;
    uint64_t set_aside;
    serve_open(b, 3, SERVE_CONTEXT,
               (mnem_scheduler_options){.reserve = 1, .swap = ".", .swap_bytes_per_s = 1e12});
    close(b->scheduler->swap.fd);
    b->scheduler->swap.fd = 1000;
    crowd_pages(b);
    const mnem_scheduler_stats stats = serve_stats(b);
    assert_true(stats.swapped_out > 0 && stats.tokens_recomputed > 0);
    assert_int_equal(stats.swapped_in + stats.swap_bytes_live, 0);
    assert_true(stats.swap_failures > 0);
    serve_close(b);
    check_crowd(b, &set_aside);
    assert_true(set_aside > 0);
}

/* /dev/full takes no byte, as a disk that is full. */
static void a_full_disk_is_said_and_nothing_is_lost(void **state) {
    serve_bench *b = *state;
    uint64_t set_aside;
    serve_open(b, 3, SERVE_CONTEXT,
               (mnem_scheduler_options){.reserve = 1, .swap = ".", .swap_bytes_per_s = 1e12});
    const int full = open("/dev/full", O_RDWR | O_CLOEXEC);
    assert_true(full >= 0 && dup2(full, b->scheduler->swap.fd) >= 0);
    crowd_pages(b);
    const mnem_scheduler_stats stats = serve_stats(b);
    assert_true(stats.swap_failures > 0 && stats.tokens_recomputed > 0);
    assert_string_equal(stats.swap_failure,
                        "swap file: the file can't be written (No space left on device)");
    serve_close(b);
    close(full);
    check_crowd(b, &set_aside);
    assert_true(set_aside > 0);
}

/* Something is in the file, and nobody writes or reads. */
static bool swap_is_quiet(const serve_bench *b) {
    bool any = false;
    for (int32_t i = 0; i < b->scheduler->lanes; i++) {
        const mnem__swap_state state = b->scheduler->lane[i].swap.state;
        if (state == MNEM__SWAP_WRITING || state == MNEM__SWAP_READING) return false;
        any = any || state == MNEM__SWAP_OUT;
    }
    return any;
}

/* /dev/null reads as a file that was cut does. */
static void a_file_that_is_gone_is_said_and_nothing_is_lost(void **state) {
    serve_bench *b = *state;
    uint64_t set_aside;
    bool more = true, cut = false;
    serve_open(b, 3, SERVE_CONTEXT,
               (mnem_scheduler_options){.reserve = 1, .swap = ".", .swap_bytes_per_s = 1e12});
    const int empty = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < 3; i++) must(serve_submit(b, serve_request(b, i, i, 60, 150)));
    while (more) {
        must(mnem_scheduler_step(b->scheduler, &more));
        if (cut || !swap_is_quiet(b)) continue;
        cut = true;
        assert_true(empty >= 0 && dup2(empty, b->scheduler->swap.fd) >= 0);
    }
    const mnem_scheduler_stats stats = serve_stats(b);
    assert_true(stats.swapped_out > 0);
    assert_int_equal(cut, stats.swap_failures > 0);
    if (cut) assert_non_null(strstr(stats.swap_failure, "swap file: "));
    serve_close(b);
    close(empty);
    check_crowd(b, &set_aside);
    assert_true(set_aside > 0);
}

/* ---- kept in a file ---- */

static int open_file(void) {
    const int fd = open(".", O_TMPFILE | O_RDWR, 0600);
    assert_true(fd >= 0);
    return fd;
}

/* Two that begin alike and one of another tree; what they say. */
static void fill_cache(serve_bench *b, int32_t got[3][5]) {
    for (int i = 0; i < 3; i++) {
        serve_ask *a = serve_request(b, i, 1, i ? 200 : 150, 5);
        if (i == 1) a->prompt[140] = 3;
        a->request.tree = i == 2;
        must(serve_submit(b, a));
        serve_run(b->scheduler, 100);
        memcpy(got[i], a->got, sizeof got[i]);
    }
}

static void cached_beginnings_are_there_the_next_time(void **state) {
    serve_bench *b = *state;
    const int fd = open_file();
    int32_t got[3][5], again[3][5];
    serve_open(b, 6, 0, (mnem_scheduler_options){0});
    fill_cache(b, got);
    const uint64_t pages = serve_stats(b).pages_cached;
    must(mnem_scheduler_cache_save(b->scheduler, fd));
    /* What is shared is in it once. */
    assert_in_range(lseek(fd, 0, SEEK_END), pages * serve_stats(b).page_bytes,
                    pages * (serve_stats(b).page_bytes + 64) + 5 * 4096);
    serve_close(b);
    serve_open(b, 6, 0, (mnem_scheduler_options){0});
    must(mnem_scheduler_cache_load(b->scheduler, fd));
    assert_int_equal(serve_stats(b).pages_cached, pages);
    fill_cache(b, again);
    for (int i = 0; i < 3; i++) assert_int_equal(b->ask[i].result.cached_tokens, i ? 199 : 149);
    assert_memory_equal(got, again, sizeof got);
    serve_close(b);
    close(fd);
}

/* One conversation goes into a file, out of the cache, and comes back, also into another tree. */
static void a_conversation_goes_and_comes_back(void **state) {
    serve_bench *b = *state;
    const int fd = open_file(), empty = open_file();
    int32_t got[3][5], again[3][5], ids[SERVE_CONTEXT], saved, back, gone;
    serve_open(b, 6, 0, (mnem_scheduler_options){0});
    fill_cache(b, got);
    const int32_t *prompt = b->ask[2].request.prompt, n = b->ask[2].request.prompt_tokens;
    must(mnem_scheduler_prefix_save(b->scheduler, 1, prompt, n, fd, &saved));
    assert_true(saved >= n);
    must(mnem_scheduler_prefix_drop(b->scheduler, 1, prompt, n, &gone));
    assert_int_equal(gone, saved);
    for (int i = 0; i < 2; i++) { /* the second time it is there already */
        must(mnem_scheduler_prefix_load(b->scheduler, 1, fd, ids, SERVE_CONTEXT, &back));
        assert_int_equal(back, saved);
        assert_memory_equal(ids, prompt, (size_t)n * sizeof *ids);
    }
    fill_cache(b, again);
    assert_memory_equal(got, again, sizeof got);
    assert_int_equal(b->ask[2].result.cached_tokens, 199);
    must(mnem_scheduler_prefix_load(b->scheduler, 7, fd, ids, SERVE_CONTEXT, &back));
    must(mnem_scheduler_prefix_drop(b->scheduler, 7, ids, back, &gone));
    assert_int_equal(mnem_scheduler_prefix_drop(b->scheduler, 7, ids, back, &gone), MNEM_NOT_READY);
    assert_int_equal(mnem_scheduler_prefix_save(b->scheduler, 7, ids, back, fd, &saved),
                     MNEM_NOT_READY);
    assert_int_equal(mnem_scheduler_prefix_load(b->scheduler, 0, fd, ids, 20, &back),
                     MNEM_OVER_BUDGET);
    assert_int_equal(mnem_scheduler_prefix_load(b->scheduler, 0, empty, ids, 20, &back),
                     MNEM_BAD_FILE);
    must(mnem_scheduler_cache_save(b->scheduler, fd)); /* several */
    assert_int_equal(mnem_scheduler_prefix_load(b->scheduler, 0, fd, ids, 20, &back),
                     MNEM_BAD_FILE);
    serve_close(b);
    close(fd);
    close(empty);
}

/* A conversation that isn't cached any more is not another one that begins alike. */
static void a_common_beginning_is_another_conversation(void **state) {
    serve_bench *b = *state;
    const int fd = open_file();
    int32_t got[3][5], n;
    serve_open(b, 6, 0, (mnem_scheduler_options){0});
    fill_cache(b, got); /* 0 and 1 are alike up to token 140 */
    const int32_t *first = b->ask[0].request.prompt, *second = b->ask[1].request.prompt;
    must(mnem_scheduler_prefix_drop(b->scheduler, 0, second, 200, &n));
    assert_true(n >= 200);
    assert_int_equal(mnem_scheduler_prefix_drop(b->scheduler, 0, second, 200, &n), MNEM_NOT_READY);
    assert_int_equal(mnem_scheduler_prefix_save(b->scheduler, 0, second, 200, fd, &n),
                     MNEM_NOT_READY);
    must(mnem_scheduler_prefix_save(b->scheduler, 0, first, 100, fd, &n)); /* its beginning */
    assert_in_range(n, 150, 160);
    must(mnem_scheduler_prefix_drop(b->scheduler, 0, first, 150, &n));
    serve_close(b);
    close(fd);
}

static void a_damaged_file_gives_nothing_wrong(void **state) {
    serve_bench *b = *state;
    const int fd = open_file();
    int32_t got[3][5], again[3][5];
    serve_open(b, 6, 0, (mnem_scheduler_options){0});
    fill_cache(b, got);
    must(mnem_scheduler_cache_save(b->scheduler, fd));
    serve_close(b);
    const off_t end = lseek(fd, 0, SEEK_END);
    for (off_t at = 5; at < end; at += end / 40) {
        uint8_t byte;
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= 0x41;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        serve_open(b, 6, 0, (mnem_scheduler_options){0});
        mnem_scheduler_cache_load(b->scheduler, fd);
        fill_cache(b, again);
        assert_memory_equal(got, again, sizeof got);
        serve_close(b);
        byte ^= 0x41;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    assert_int_equal(ftruncate(fd, 10), 0);
    serve_open(b, 6, 0, (mnem_scheduler_options){0});
    assert_int_equal(mnem_scheduler_cache_load(b->scheduler, fd), MNEM_BAD_FILE);
    serve_close(b);
    close(fd);
}

static void what_has_no_room_is_left_out(void **state) {
    serve_bench *b = *state;
    const int fd = open_file();
    int32_t got[3][5];
    serve_open(b, 6, 0, (mnem_scheduler_options){0});
    fill_cache(b, got);
    must(mnem_scheduler_cache_save(b->scheduler, fd));
    serve_close(b);
    serve_open(b, 2, SERVE_CONTEXT, (mnem_scheduler_options){0});
    must(mnem_scheduler_cache_load(b->scheduler, fd));
    assert_in_range(serve_stats(b).pages_cached, 1, 4);
    fill_cache(b, got);
    serve_close(b);
    close(fd);
}

/* Swap files with names; other tests have files here, too. */
static int files_here(void) {
    DIR *folder = opendir(".");
    int count = 0;
    for (const struct dirent *d; (d = readdir(folder)) != NULL;)
        count += strncmp(d->d_name, "mnem-swap", 9) == 0;
    closedir(folder);
    return count;
}

static void the_swap_file_has_no_name(void **state) {
    serve_bench *b = *state;
    mnem_scheduler *s;
    const int before = files_here();
    serve_open(b, 2, 0, (mnem_scheduler_options){.swap = "."});
    assert_int_equal(files_here(), before);
    const mnem_scheduler_options o = {.engine = b->c.engine, .swap = "no/such/folder"};
    assert_int_equal(mnem_scheduler_create(&o, &s), MNEM_IO);
    assert_non_null(strstr(mnem_last_error(), "no/such/folder"));
    serve_close(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_that_comes_again_is_taken_from_the_cache),
        cmocka_unit_test(an_answer_is_a_beginning_of_the_next_turn),
        cmocka_unit_test(eight_answers_to_one_prompt_compute_it_once),
        cmocka_unit_test(a_model_of_windows_alone_is_served),
        cmocka_unit_test(trees_and_those_that_want_it_share_nothing),
        cmocka_unit_test(a_sweep_of_prompts_leaves_what_was_needed_again),
        cmocka_unit_test(what_is_set_aside_says_the_same),
        cmocka_unit_test(where_pages_went_is_counted_with_its_reason),
        cmocka_unit_test(without_a_swap_file_that_works_tokens_are_computed_again),
        cmocka_unit_test(a_full_disk_is_said_and_nothing_is_lost),
        cmocka_unit_test(a_file_that_is_gone_is_said_and_nothing_is_lost),
        cmocka_unit_test(the_swap_file_has_no_name),
        cmocka_unit_test(cached_beginnings_are_there_the_next_time),
        cmocka_unit_test(a_conversation_goes_and_comes_back),
        cmocka_unit_test(a_common_beginning_is_another_conversation),
        cmocka_unit_test(a_damaged_file_gives_nothing_wrong),
        cmocka_unit_test(what_has_no_room_is_left_out),
    };
    return cmocka_run_group_tests(tests, serve_set_up, serve_tear_down);
}
