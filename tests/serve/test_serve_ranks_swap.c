/* test_serve_ranks_swap.c: what is set aside over several ranks goes to a file of each, and comes
 * back: every request says what it says alone, whatever a disk of any rank does.
 *
 * Ranks are threads; rank 0 is the test's. Each rank has its file in a folder of its own, by which
 * a test finds the file that has no name. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/kit_model.h"
#include "serve/serve_private.h"
#include "serve/serve_ranks.h"

enum { ASKS = 4, MODELS = 3, STATEFUL = 2, CASES = MNEM_SANITIZED ? 4 : 15 };

static struct {
    char path[200];
    mnem_kv_choice kv;
    engine_case alone;
} models[MODELS];
static char folder[SERVE_RANKS_MAX][64], file[SERVE_RANKS_MAX][80];

/* ---- a crowd ---- */

/* Its pages are one context's, so that of several that grow most are set aside. */
typedef struct crowd {
    serve_rank rank[SERVE_RANKS_MAX];
    int32_t ranks;
    mnem_scheduler *scheduler;
    serve_ask ask[ASKS];
    mnem_scheduler_stats stats;
} crowd;

static mnem_engine_options options_of(int model, mnem_cut cut) {
    return (mnem_engine_options){.context = SERVE_CONTEXT,
                                 .kv = models[model].kv,
                                 .cut = cut,
                                 .sequences = ASKS,
                                 .snapshots = model == STATEFUL ? 6 : 0,
                                 .snapshot_tokens = 32,
                                 .pages_tokens = SERVE_CONTEXT,
                                 .threads = 1,
                                 .chunk = 64};
}

static void open_crowd(crowd *c, int32_t ranks, int model, mnem_cut cut) {
    const mnem_engine_options options = options_of(model, cut);
    *c = (crowd){.ranks = ranks};
    for (int32_t i = 0; i < ranks; i++) c->rank[i].swap = folder[i];
    serve_ranks_open(c->rank, ranks, models[model].path, &options);
}

/* Disks are taken to be so fast that nothing is computed again. */
static mnem_status make_scheduler(crowd *c, const char *swap) {
    return mnem_scheduler_create(
        &(mnem_scheduler_options){
            .engine = c->rank[0].engine, .reserve = 1, .swap = swap, .swap_bytes_per_s = 1e12},
        &c->scheduler);
}

static void make_asks(crowd *c, int model, int seed) {
    for (int32_t i = 0; i < ASKS; i++) {
        serve_ask *a = &c->ask[i];
        a->request = (mnem_request){.prompt_tokens = 40 + 20 * (i % 2), .tokens = 110 + 10 * i};
        a->request.sampler.seed = (uint64_t)seed;
        for (int32_t k = 0; k < a->request.prompt_tokens; k++)
            a->prompt[k] = (k * 7 + i * 31 + seed * 5 + k * k * i) % 90 + 1;
        serve_ask_set(a);
        serve_ask_alone(a, models[model].alone.engine, models[model].alone.vocab);
    }
}

/* Runs all to their ends. */
static void run_crowd(crowd *c, void (*between)(crowd *c)) {
    bool more = true;
    for (int32_t i = 0; i < ASKS; i++)
        must(mnem_scheduler_submit(c->scheduler, &c->ask[i].request, &c->ask[i].number, NULL));
    for (int steps = 0; more; steps++) {
        assert_in_range(steps, 0, 20000);
        if (between) between(c);
        must(mnem_scheduler_step(c->scheduler, &more));
    }
    mnem_scheduler_stats_get(c->scheduler, &c->stats);
    for (int32_t i = 0; i < ASKS; i++) serve_ask_check(&c->ask[i], "crowd");
    assert_int_equal(c->stats.swap_bytes_live, 0);
    assert_int_equal(c->stats.ended[MNEM_END_ERROR], 0);
}

static void close_crowd(crowd *c) {
    mnem_scheduler_destroy(c->scheduler);
    serve_ranks_close(c->rank, c->ranks, MNEM_OK);
}

static void what_was_set_aside_comes_back(void **state) {
    (void)state;
    static crowd c;
    for (int i = 0; i < CASES; i++) {
        const int model = i % MODELS;
        const bool rows = model != STATEFUL && i / MODELS % 2;
        open_crowd(&c, rows ? 2 : 2 + i / 2 % 2, model, rows ? MNEM_CUT_ROWS : MNEM_CUT_LAYERS);
        make_asks(&c, model, i);
        must(make_scheduler(&c, i % 4 ? file[0] : folder[0]));
        run_crowd(&c, NULL);
        assert_true(c.stats.swapped_out > 0 && c.stats.swapped_in > 0);
        assert_int_equal(c.stats.swap_failures, 0);
        close_crowd(&c);
    }
}

/* ---- what disks do ---- */

/* Of this process the descriptor of the file in a rank's folder, which has no name. */
static int find_file(int32_t rank) {
    DIR *all = opendir("/proc/self/fd");
    char inside[80];
    int found = -1;
    assert_non_null(all);
    snprintf(inside, sizeof inside, "/%s/", folder[rank]);
    for (struct dirent *d; (d = readdir(all));) {
        char name[300], to[400];
        snprintf(name, sizeof name, "/proc/self/fd/%s", d->d_name);
        const ssize_t n = readlink(name, to, sizeof to - 1);
        if (n > 0 && (to[n] = 0, strstr(to, inside))) found = atoi(d->d_name);
    }
    closedir(all);
    assert_true(found >= 0);
    return found;
}

static void a_full_disk_of_any_rank_stops_nobody(void **state) {
    (void)state;
    static crowd c;
    for (int32_t i = 0; i < 4; i++) {
        const int32_t rank = i % 3;
        const int model = i == 1 || i == 3 ? STATEFUL : 0;
        char text[96];
        open_crowd(&c, 3, model, MNEM_CUT_LAYERS);
        make_asks(&c, model, 9);
        must(make_scheduler(&c, folder[0]));
        const int full = open("/dev/full", O_RDWR | O_CLOEXEC);
        assert_true(full >= 0 && dup2(full, find_file(rank)) >= 0);
        close(full);
        run_crowd(&c, NULL);
        assert_true(c.stats.swapped_out > 0 && c.stats.swap_failures >= c.stats.swapped_out);
        assert_int_equal(c.stats.swapped_in, 0);
        assert_true(c.stats.tokens_recomputed > 0);
        snprintf(text, sizeof text,
                 "swap file%s%.0d: the file can't be written (No space left on device)",
                 rank ? " of rank " : "", rank);
        assert_string_equal(c.stats.swap_failure, text);
        close_crowd(&c);
    }
}

static void cut_others_file(crowd *c) {
    (void)c;
    assert_int_equal(ftruncate(find_file(1), 0), 0);
}

/* Pages of all ranks are given back, and computed again by all. */
static void a_file_that_is_cut_on_one_rank_stops_nobody(void **state) {
    (void)state;
    static crowd c;
    for (int i = 0; i < MODELS; i++) {
        open_crowd(&c, 2, i, i ? MNEM_CUT_LAYERS : MNEM_CUT_ROWS);
        make_asks(&c, i, 3);
        must(make_scheduler(&c, file[0]));
        run_crowd(&c, cut_others_file);
        assert_true(c.stats.swapped_in < c.stats.swapped_out && c.stats.tokens_recomputed > 0);
        assert_non_null(strstr(c.stats.swap_failure, "swap file of rank 1: "));
        close_crowd(&c);
    }
}

static void one_that_is_cancelled_while_it_is_out_leaves_nothing(void **state) {
    (void)state;
    static crowd c;
    for (int wait = 0; wait < 16; wait += MNEM_SANITIZED ? 6 : 2) {
        bool more = true;
        open_crowd(&c, 2, 0, MNEM_CUT_LAYERS);
        make_asks(&c, 0, 5);
        must(make_scheduler(&c, folder[0]));
        for (int32_t i = 0; i < ASKS; i++)
            must(mnem_scheduler_submit(c.scheduler, &c.ask[i].request, &c.ask[i].number, NULL));
        for (int steps = 0, after = 0; more; steps++) {
            assert_in_range(steps, 0, 20000);
            must(mnem_scheduler_step(c.scheduler, &more));
            mnem_scheduler_stats_get(c.scheduler, &c.stats);
            if (c.stats.swapped_out == 0 || after++ != wait) continue;
            for (int32_t i = 0; i < ASKS; i++)
                if (c.ask[i].preempted) mnem_scheduler_cancel(c.scheduler, c.ask[i].number);
        }
        for (int32_t i = 0; i < ASKS; i++)
            if (!c.ask[i].preempted) serve_ask_check(&c.ask[i], "not cancelled");
        assert_int_equal(c.stats.swap_bytes_live, 0);
        close_crowd(&c);
    }
}

static void a_rank_that_is_lost_while_some_are_out_ends_the_server(void **state) {
    (void)state;
    static crowd c;
    for (int wait = 0; wait < 16; wait += MNEM_SANITIZED ? 6 : 2) {
        mnem_status status = MNEM_OK;
        open_crowd(&c, 3, 0, MNEM_CUT_LAYERS);
        c.rank[2].keeps_comm = true; /* it may end before the call below returns */
        make_asks(&c, 0, 5);
        must(make_scheduler(&c, folder[0]));
        for (int32_t i = 0; i < ASKS; i++)
            must(mnem_scheduler_submit(c.scheduler, &c.ask[i].request, &c.ask[i].number, NULL));
        for (int steps = 0, after = 0; status == MNEM_OK; steps++) {
            bool more;
            assert_in_range(steps, 0, 20000);
            status = mnem_scheduler_step(c.scheduler, &more);
            mnem_scheduler_stats_get(c.scheduler, &c.stats);
            if (c.stats.swapped_out > 0 && after++ == wait)
                mnem_comm_abort(c.rank[2].comm, "that was all");
        }
        assert_int_equal(status, MNEM_IO);
        mnem_scheduler_destroy(c.scheduler);
        for (int32_t i = 0; i < ASKS; i++) assert_int_equal(c.ask[i].ends, 1);
        serve_ranks_close(c.rank, c.ranks, MNEM_IO);
    }
}

/* ---- the begin ---- */

static void a_rank_that_has_no_folder_is_named(void **state) {
    (void)state;
    static crowd c;
    c = (crowd){.ranks = 3};
    for (int32_t i = 0; i < 3; i++) c.rank[i].swap = i == 2 ? "nowhere/pages" : file[0];
    const mnem_engine_options options = options_of(0, MNEM_CUT_LAYERS);
    serve_ranks_open(c.rank, 3, models[0].path, &options);
    assert_int_equal(make_scheduler(&c, file[0]), MNEM_IO);
    assert_string_equal(
        mnem_last_error(),
        "rank 2: swap file: can't create a file in the folder nowhere (No such file or directory)");
    serve_ranks_close(c.rank, 3, MNEM_OK);
}

static void the_room_is_that_of_the_widest_part(void **state) {
    (void)state;
    static crowd c;
    open_crowd(&c, 2, 0, MNEM_CUT_LAYERS); /* 3 layers: 1 and 2, or 2 and 1 */
    must(make_scheduler(&c, folder[0]));
    const uint64_t own = c.rank[0].engine->pages[MNEM__KV_FULL].page_bytes;
    const int32_t layers = c.rank[0].plan.layer_end - c.rank[0].plan.layer_begin;
    assert_int_equal(c.scheduler->swap.page_bytes[MNEM__KV_FULL], own / (uint64_t)layers * 2);
    close_crowd(&c);
}

/* Of three layers only the one in the middle has them. */
static void so_is_that_of_states(void **state) {
    (void)state;
    static crowd c;
    const mnem_engine_options options = options_of(STATEFUL, MNEM_CUT_LAYERS);
    c = (crowd){.ranks = 3};
    for (int i = 0; i < 3; i++) c.rank[i].swap = folder[i];
    serve_ranks_open(c.rank, 3, MNEM_TEST_DATA "/architectures/qwen35_ends.gguf", &options);
    must(make_scheduler(&c, folder[0]));
    const uint64_t other = c.rank[1].engine->pages[MNEM__KV_STATES].page_bytes;
    assert_int_equal(c.rank[0].engine->pages[MNEM__KV_STATES].page_bytes, 0);
    assert_true(other > 0);
    assert_int_equal(c.scheduler->swap.page_bytes[MNEM__KV_STATES], other);
    close_crowd(&c);
}

static int set_up(void **state) {
    (void)state;
    for (int i = 0; i < SERVE_RANKS_MAX; i++) {
        snprintf(folder[i], sizeof folder[i], "serve-swap-%d-%d.d", (int)getpid(), i);
        snprintf(file[i], sizeof file[i], "%s/pages", folder[i]);
        assert_int_equal(mkdir(folder[i], 0700), 0);
    }
    snprintf(models[0].path, sizeof models[0].path, "serve-swap-%d.gguf", (int)getpid());
    make_model(models[0].path, "--arch llama --heads 4 --kv-heads 2 --layers 3 --type Q8_0");
    models[0].kv = MNEM_KV_F16;
    snprintf(models[1].path, sizeof models[1].path, "%s",
             MNEM_TEST_DATA "/architectures/gemma3.gguf"); /* windows in some layers */
    models[1].kv = MNEM_KV_F32;
    snprintf(models[STATEFUL].path, sizeof models[STATEFUL].path, "%s",
             MNEM_TEST_DATA "/architectures/qwen35.gguf");
    models[STATEFUL].kv = MNEM_KV_F32;
    for (int i = 0; i < MODELS; i++)
        engine_case_open(
            &models[i].alone, models[i].path, 0,
            &(mnem_engine_options){
                .context = SERVE_CONTEXT, .kv = models[i].kv, .threads = 1, .chunk = 64});
    return 0;
}

/* Nothing is left in the folders but rank 0's file. */
static int tear_down(void **state) {
    (void)state;
    for (int i = 0; i < MODELS; i++) engine_case_close(&models[i].alone);
    remove(models[0].path);
    remove(file[0]);
    for (int i = 0; i < SERVE_RANKS_MAX; i++) assert_int_equal(rmdir(folder[i]), 0);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_set_aside_comes_back),
        cmocka_unit_test(a_full_disk_of_any_rank_stops_nobody),
        cmocka_unit_test(a_file_that_is_cut_on_one_rank_stops_nobody),
        cmocka_unit_test(one_that_is_cancelled_while_it_is_out_leaves_nothing),
        cmocka_unit_test(a_rank_that_is_lost_while_some_are_out_ends_the_server),
        cmocka_unit_test(a_rank_that_has_no_folder_is_named),
        cmocka_unit_test(the_room_is_that_of_the_widest_part),
        cmocka_unit_test(so_is_that_of_states),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
