/* test_expert_places.c: a mixture of experts that memory holds in part: the same tokens from the
 * least budget to all resident, books that add up, and what a cancel or a failure leaves. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/fail_point.h"
#include "engine/engine_case.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"

enum { VOCAB = 512, PROMPT = 40, MORE = 12, COMPANY = 3, CONTEXT = 64 };

static const char *model_path(void) {
    return kit_path("experts.gguf");
}

/* 4 layers of 16 experts of 110 kB, of which a token uses 4. */
static int make(void **state) {
    char command[1024];
    (void)state;
    snprintf(command, sizeof command,
             "%s %s --arch olmoe --embd 256 --layers 4 --heads 4 --experts 16 --experts-used 4 "
             "--ff 256 --ff-expert 256 --vocab %d --type Q4_0",
             MAKE_MODEL, model_path(), VOCAB);
    return system(command);
}

static bool choose(void *context, int32_t part, int32_t index, const float *logits) {
    int32_t *best = (int32_t *)context + part;
    (void)index;
    *best = 0;
    for (int32_t i = 1; i < VOCAB; i++)
        if (logits[i] > logits[*best]) *best = i;
    return true;
}

/* A prompt of every sequence, then greedy tokens; those of the first sequence. */
static mnem_status generate(engine_case *c, int32_t sequences, int32_t tokens[MORE]) {
    int32_t ids[COMPANY][PROMPT + COMPANY], best[COMPANY] = {0};
    mnem_step_part parts[COMPANY];
    mnem_status status = MNEM_OK;
    for (int32_t s = 0; s < sequences; s++) {
        for (int32_t i = 0; i < PROMPT + s; i++) ids[s][i] = (7 * i * i + 13 * i + 5 * s) % VOCAB;
        parts[s] = (mnem_step_part){.ids = ids[s], .n = PROMPT + s, .first_logits = PROMPT + s - 1};
        must(mnem_sequence_create(c->engine, &parts[s].sequence));
    }
    for (int32_t i = 0; i < MORE && status == MNEM_OK; i++) {
        status = mnem_engine_step(c->engine, parts, sequences, choose, best);
        tokens[i] = best[0];
        for (int32_t s = 0; s < sequences; s++) {
            ids[s][0] = best[s];
            parts[s] = (mnem_step_part){parts[s].sequence, ids[s], 1, 0};
        }
    }
    for (int32_t s = 0; s < sequences; s++) mnem_sequence_destroy(parts[s].sequence);
    return status;
}

static mnem_engine_options options_of(int32_t threads, int32_t chunk, int32_t sequences) {
    return (mnem_engine_options){
        .context = CONTEXT, .threads = threads, .chunk = chunk, .sequences = sequences};
}

static void first_tokens(int32_t tokens[MORE]) {
    engine_case c;
    const mnem_engine_options o = options_of(1, 16, 1);
    engine_case_open(&c, model_path(), 0, &o);
    assert_int_equal(c.plan.expert_slots, 0);
    must(generate(&c, 1, tokens));
    engine_case_close(&c);
}

static void check_books(const engine_case *c) {
    mnem_ledger_info info;
    mnem_engine_stats stats;
    mnem_ledger_info_get(c->ledger, &info);
    mnem_engine_stats_get(c->engine, &stats);
    assert_int_equal(info.bytes_live, c->plan.peak_bytes);
    assert_int_equal(stats.expert_hits + stats.expert_misses > 0, c->plan.expert_slots > 0);
}

static void tokens_are_the_same_in_every_budget(void **state) {
    static const mnem_engine_options ways[] = {
        {.context = CONTEXT, .threads = 1, .chunk = 32},
        {.context = CONTEXT, .threads = 2, .chunk = 7},
        {.context = CONTEXT, .threads = 2, .chunk = 33, .sequences = COMPANY},
    };
    int32_t expected[MORE], tokens[MORE];
    (void)state;
    first_tokens(expected);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        const mnem_engine_options *o = &ways[w];
        const uint64_t least = engine_case_least(model_path(), o);
        engine_case c;
        engine_case_open(&c, model_path(), 0, o);
        const uint64_t most = c.plan.peak_bytes;
        engine_case_close(&c);
        int32_t before = 0, kinds = 0;
        for (int i = 0; i <= 6; i++) {
            engine_case_open(&c, model_path(), least + (most - least) * (uint64_t)i / 6, o);
            must(generate(&c, o->sequences ? o->sequences : 1, tokens));
            assert_memory_equal(tokens, expected, sizeof tokens);
            check_books(&c);
            kinds += c.plan.expert_slots != before;
            before = c.plan.expert_slots;
            engine_case_close(&c);
        }
        assert_int_equal(before, 0); /* the last holds all */
        assert_in_range(kinds, 3, 7);
    }
}

/* Nobody but the gate of what all tokens use reads the norm in f32. */
static void a_router_that_reads_quantized_rows_does_beside_a_gated_expert(void **state) {
    (void)state;
    char arguments[200];
    const char *path = kit_path("gated.gguf");
    const mnem_engine_options o = options_of(2, 16, 1);
    int32_t expected[MORE], tokens[MORE];
    engine_case c;
    snprintf(arguments, sizeof arguments,
             "--arch qwen2moe --heads 4 --experts 8 --experts-used 3 --ff-expert 32 "
             "--ff-shared 32 --vocab %d --type Q8_0 --router-type Q8_0",
             VOCAB);
    make_model(path, arguments);
    for (int least = 0; least < 2; least++) {
        engine_case_open(&c, path, least ? engine_case_least(path, &o) : 0, &o);
        must(generate(&c, 1, least ? tokens : expected));
        engine_case_close(&c);
    }
    assert_memory_equal(tokens, expected, sizeof tokens);
}

/* ---- what is read ---- */

typedef struct told {
    uint64_t wanted;
    int32_t calls, cancel_at; /* 0: never */
    mnem_engine *engine;
} told;

static void on_experts(void *context, int32_t mixture, const int32_t *numbers, int32_t count) {
    told *t = context;
    assert_true(mixture >= 0);
    for (int32_t i = 1; i < count; i++) assert_true(numbers[i - 1] < numbers[i]);
    t->wanted += (uint64_t)count;
    if (++t->calls == t->cancel_at) mnem_engine_cancel(t->engine);
}

static void open_with_places(engine_case *c, told *t, const char *path) {
    mnem_engine_options o = options_of(2, 16, 1);
    o.on_experts = on_experts;
    o.on_experts_context = t;
    const uint64_t least = engine_case_least(path, &o);
    engine_case_open(c, path, 0, &o);
    const uint64_t most = c->plan.peak_bytes;
    engine_case_close(c);
    for (int i = 10; i > 0; i--) { /* all but experts in memory, and a part of them */
        engine_case_open(c, path, least + (most - least) * (uint64_t)i / 12, &o);
        t->engine = c->engine;
        if (c->plan.expert_slots > 8) return;
        engine_case_close(c);
    }
    fail_msg("no budget gives experts places");
}

static void what_is_found_and_read_adds_up(void **state) {
    told t = {0};
    engine_case c;
    int32_t tokens[MORE];
    mnem_engine_stats stats;
    mnem_tensor_info info;
    (void)state;
    open_with_places(&c, &t, model_path());
    must(generate(&c, 1, tokens));
    mnem_engine_stats_get(c.engine, &stats);
    assert_int_equal(stats.expert_hits + stats.expert_misses, t.wanted);
    uint64_t expert = 0;
    for (uint32_t i = 0; mnem_model_tensor_get(c.model, i, &info); i++)
        if (info.dims == 3 && strstr(info.name, "blk.0."))
            expert += info.bytes / (uint64_t)info.shape[0];
    /* Guesses may be on their way still, or were given up after one or two of three matrices. */
    assert_int_equal(stats.bytes_streamed % (expert / 3), 0);
    assert_in_range(stats.bytes_streamed, stats.expert_misses * expert,
                    (stats.expert_misses + stats.expert_guesses) * expert);
    assert_true(stats.expert_hits > stats.expert_guessed);
    assert_true(stats.expert_guessed <= stats.expert_guesses);
    engine_case_close(&c);
}

static void a_cancelled_step_leaves_a_cache_that_works(void **state) {
    int32_t expected[MORE], tokens[MORE];
    (void)state;
    first_tokens(expected);
    told t = {0};
    engine_case c;
    open_with_places(&c, &t, model_path());
    for (int32_t at = 1; at < 9; at++) {
        t.calls = 0;
        t.cancel_at = at;
        assert_int_equal(generate(&c, 1, tokens), MNEM_CANCELLED);
    }
    t.cancel_at = 0;
    must(generate(&c, 1, tokens));
    assert_memory_equal(tokens, expected, sizeof tokens);
    engine_case_close(&c);
}

static char *copy_model(void) {
    static char path[256];
    size_t bytes;
    char *all = read_file(model_path(), &bytes);
    snprintf(path, sizeof path, "%s", kit_path("changed.gguf"));
    write_file(path, all, bytes);
    free(all);
    /* Of long ago: what is written to it now has another time, however coarse the clock is. */
    static const struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    return path;
}

/* Experts are in the middle of the file. */
static void write_over(const char *path, bool cut) {
    struct stat st;
    static char other[64 << 10];
    const int fd = open(path, O_WRONLY);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    memset(other, 0x5a, sizeof other);
    if (cut)
        assert_int_equal(ftruncate(fd, st.st_size / 4), 0);
    else
        assert_int_equal(pwrite(fd, other, sizeof other, st.st_size / 4), sizeof other);
    assert_int_equal(close(fd), 0);
}

static void a_file_that_changes_under_the_cache_is_noticed(void **state) {
    (void)state;
    for (int cut = 0; cut < 2; cut++) {
        told t = {0};
        engine_case c;
        int32_t tokens[MORE];
        const char *path = copy_model();
        open_with_places(&c, &t, path);
        must(generate(&c, 1, tokens));
        write_over(path, cut);
        assert_int_equal(generate(&c, 1, tokens), MNEM_BAD_FILE);
        assert_non_null(strstr(mnem_last_error(), path));
        assert_int_equal(generate(&c, 1, tokens), MNEM_BAD_FILE);
        engine_case_close(&c);
        kit_remove(path);
    }
}

/* ---- a disk that fails: pread is wrapped by the linker ---- */

static mnem__fail_point preads;

ssize_t __real_pread(int fd, void *out, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *out, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *out, size_t n, off_t at) {
    if (!mnem__fail_point_hit(&preads)) return __real_pread(fd, out, n, at);
    errno = EIO;
    return -1;
}

/* Wherever it happens the step says so, the books stay right, and closing finds all given back. */
static void a_read_that_fails_ends_the_step(void **state) {
    (void)state;
    for (uint64_t n = 1; n < 200; n += 1 + n / 2) {
        told t = {0};
        engine_case c;
        int32_t tokens[MORE];
        open_with_places(&c, &t, model_path());
        mnem__fail_point_set(&preads, n, n % 2);
        assert_int_equal(generate(&c, 1, tokens), MNEM_IO);
        assert_non_null(strstr(mnem_last_error(), "Input/output error"));
        mnem__fail_point_set(&preads, 0, false);
        mnem_ledger_info info;
        mnem_ledger_info_get(c.ledger, &info);
        assert_int_equal(info.bytes_live, c.plan.peak_bytes);
        const mnem_status after = generate(&c, 1, tokens); /* one row may be read again */
        assert_true(after == MNEM_IO || after == MNEM_OK);
        engine_case_close(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_the_same_in_every_budget),
        cmocka_unit_test(a_router_that_reads_quantized_rows_does_beside_a_gated_expert),
        cmocka_unit_test(what_is_found_and_read_adds_up),
        cmocka_unit_test(a_cancelled_step_leaves_a_cache_that_works),
        cmocka_unit_test(a_file_that_changes_under_the_cache_is_noticed),
        cmocka_unit_test(a_read_that_fails_ends_the_step),
    };
    return cmocka_run_group_tests(tests, make, NULL);
}
