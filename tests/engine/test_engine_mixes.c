/* test_engine_mixes.c: whatever shares a step with a sequence, its logits are those it gets alone.
 *
 * test_engine_mixes [MIXES]     50 by default, 1000 under the label slow
 *
 * Streams are fixed texts of ids, in a tree: each follows an earlier one for a while and then goes
 * its own way. What a stream's logits are is computed once for each model and KV type, alone, all
 * resident, by one thread. A mix opens an engine at random (sequences, chunk, threads, budget, rows
 * of logits, pages) and lets its sequences follow streams, in steps of random parts: prompts,
 * single tokens, forks of what others began with, cuts, saves that are loaded again, new
 * beginnings, and steps that are stopped in the middle; every row of logits is compared to the bit.
 * A step is refused exactly where it counts more pages than are free. Every third mix runs on a
 * device whose memory faults when the host touches it (kit_apart.h). The seed of a failing mix is
 * in its message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/engine_case.h"
#include "kit/kit_device.h"

enum { STREAMS = 8, LENGTH = 150, CONTEXT = 160, SEQUENCES = 16, STEPS = 12 };

static struct {
    const char *arguments; /* of make_model; NULL: path is there */
    char path[256];
} models[] = {
    {"--arch llama --heads 4 --kv-heads 2 --type Q8_0", ""},
    {"--arch llama --heads 4 --kv-heads 1 --type BF16 --tied", ""},
    {"--arch gpt2 --heads 4 --kv-heads 4 --type F16", ""},
    {"--arch qwen3 --heads 4 --kv-heads 2 --head-dim 32 --type Q4_0", ""},
    {"--arch qwen2 --heads 4 --kv-heads 2 --type F32", ""},
    {"--arch lfm2 --heads 4 --kv-heads 2 --type Q8_0", ""},
    {"--arch olmoe --heads 4 --kv-heads 2 --type Q4_0 --experts-used 3 --ff-expert 32", ""},
    {"--arch qwen2moe --heads 4 --kv-heads 2 --type BF16 --ff-expert 32", ""},
    {"--arch gpt-oss --heads 4 --kv-heads 2 --type Q8_0 --ff-expert 64", ""},
    {"--arch deepseek2 --heads 4 --head-dim 64 --type Q4_0 --ff-expert 32", ""},
    {NULL, MNEM_TEST_DATA "/model/kjv-5m-q4_k_m.gguf"},
    /* experts behind dense layers, with convolutions or heads that are turned in part */
    {NULL, MNEM_TEST_DATA "/architectures/lfm2moe.gguf"},
    {NULL, MNEM_TEST_DATA "/architectures/glm4moe_norms.gguf"},
    /* delta nets: a state of the whole text before a token */
    {NULL, MNEM_TEST_DATA "/architectures/qwen35.gguf"},
    {NULL, MNEM_TEST_DATA "/architectures/qwen35_ends.gguf"},
    {NULL, MNEM_TEST_DATA "/architectures/qwen3next.gguf"},
    /* selective scans, and no attention at all */
    {NULL, MNEM_TEST_DATA "/architectures/mamba.gguf"},
    {NULL, MNEM_TEST_DATA "/architectures/mamba2.gguf"},
    {NULL, MNEM_TEST_DATA "/architectures/granitehybrid_moe.gguf"},
    {NULL, MNEM_TEST_DATA "/architectures/falcon_h1.gguf"},
    /* layers of one part each */
    {NULL, MNEM_TEST_DATA "/architectures/nemotron_h.gguf"},
    {NULL, MNEM_TEST_DATA "/architectures/jamba.gguf"},
    {NULL, MNEM_TEST_DATA "/architectures/kimi_linear.gguf"},
    {NULL, MNEM_TEST_DATA "/architectures/nemotron_h_latent.gguf"},
    /* experts whose gates and ups are one matrix */
    {NULL, MNEM_TEST_DATA "/architectures/mistral4.gguf"},
    /* positions that an indexer chooses, in each layer or for those behind it, too */
    {NULL, MNEM_TEST_DATA "/architectures/deepseek32_few.gguf"},
    {NULL, MNEM_TEST_DATA "/architectures/glm_dsa_shared.gguf"},
    /* windows of 24 tokens, in some layers or in all: their pages are forgotten on the way */
    {NULL, MNEM_TEST_DATA "/architectures/gemma2.gguf"},
    {NULL, MNEM_TEST_DATA "/architectures/gemma3.gguf"},
    {NULL, MNEM_TEST_DATA "/architectures/olmo3.gguf"},
    {NULL, MNEM_TEST_DATA "/architectures/phi3_window.gguf"},
    /* keys and values of other layers, rows of layers */
    {NULL, MNEM_TEST_DATA "/architectures/gemma4_wide.gguf"},
    {NULL, MNEM_TEST_DATA "/architectures/gemma4_moe.gguf"},
};
enum { MODELS = sizeof models / sizeof models[0], KINDS = 2, VOCAB_LEAST = 96 };

/* Heads of the families' small models aren't whole blocks of Q8_0 and Q4_0. */
static mnem_kv_choice kv_type(int model, int kind) {
    if (kind == 0) return MNEM_KV_F16;
    if (strstr(models[model].path, "/architectures/")) return MNEM_KV_F32;
    return model % 3 == 0   ? MNEM_KV_Q4_0
           : model % 3 == 1 ? MNEM_KV_Q8_0
                            : mnem_kv_pair(MNEM_KV_Q8_0, MNEM_KV_Q4_0);
}

typedef struct stream {
    int32_t parent, common; /* the first so many ids are the parent's */
    int32_t ids[LENGTH];
} stream;

static stream streams[STREAMS];
static float *alone[MODELS][KINDS]; /* [STREAMS][LENGTH][vocab] */
static int mixes = 50, cuts_refused, steps_refused, loads, loads_refused;
static uint64_t state_;

static uint64_t random_bits(void) { /* xorshift64* */
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1d;
}

/* From low to high. */
static int32_t pick(int32_t low, int32_t high) {
    return low + (int32_t)((random_bits() >> 33) % (uint64_t)(high - low + 1));
}

static void make_streams(void) {
    state_ = 7;
    for (int32_t s = 0; s < STREAMS; s++) {
        streams[s].parent = s ? pick(0, s - 1) : 0;
        streams[s].common = s ? pick(1, LENGTH - 10) : 0;
        memcpy(streams[s].ids, streams[streams[s].parent].ids, sizeof streams[s].ids);
        for (int32_t i = streams[s].common; i < LENGTH; i++)
            streams[s].ids[i] = pick(0, VOCAB_LEAST - 1);
    }
}

/* Ids that two streams begin with alike. */
static int32_t common(int32_t a, int32_t b) {
    int32_t n = 0;
    while (n < LENGTH && streams[a].ids[n] == streams[b].ids[n]) n++;
    return n;
}

static bool keep_logits(void *context, int32_t index, const float *logits) {
    const engine_case *c = ((void **)context)[0];
    float *out = ((void **)context)[1];
    memcpy(out + (int64_t)index * c->vocab, logits, (size_t)c->vocab * sizeof *out);
    return true;
}

static const float *alone_get(int model, int kv) {
    if (alone[model][kv]) return alone[model][kv];
    engine_case c = {0};
    engine_case_open(&c, models[model].path, 0,
                     &(mnem_engine_options){.context = CONTEXT,
                                            .kv = kv_type(model, kv),
                                            .threads = 1,
                                            .logits_rows = 16,
                                            .chunk = 64});
    mnem_engine_destroy(c.engine);
    c.engine = NULL;
    mnem_session *session;
    assert_int_equal(mnem_session_create(c.model, &c.options, &c.plan, &session), MNEM_OK);
    const size_t each = (size_t)LENGTH * (size_t)c.vocab;
    alone[model][kv] = malloc(STREAMS * each * sizeof(float));
    assert_non_null(alone[model][kv]);
    for (int32_t s = 0; s < STREAMS; s++) {
        void *to[] = {&c, alone[model][kv] + (size_t)s * each};
        assert_int_equal(mnem_session_truncate(session, 0), MNEM_OK);
        assert_int_equal(mnem_session_eval(session, streams[s].ids, LENGTH, 0, keep_logits, to),
                         MNEM_OK);
    }
    mnem_session_destroy(session);
    engine_case_close(&c);
    return alone[model][kv];
}

/* ---- a mix ---- */

typedef struct follower {
    mnem_sequence *sequence; /* NULL: not open */
    int32_t stream;
} follower;

typedef struct mix {
    uint64_t seed;
    engine_case c;
    const float *alone;
    follower follower[SEQUENCES];
    int32_t sequences;
    mnem_step_part parts[SEQUENCES];
    int32_t who[SEQUENCES];             /* of each part */
    int64_t rows, rows_wanted, stop_at; /* row; -1: the step runs to its end */
    int refused;                        /* cuts and forks */
} mix;

static bool compare(void *context, int32_t part, int32_t index, const float *logits) {
    mix *m = context;
    const follower *f = &m->follower[m->who[part]];
    const int32_t token = (int32_t)(m->parts[part].ids - streams[f->stream].ids) + index;
    const float *want = m->alone + ((int64_t)f->stream * LENGTH + token) * (int64_t)m->c.vocab;
    if (memcmp(want, logits, (size_t)m->c.vocab * sizeof *want))
        fail_msg("mix %llu: stream %d, token %d", (unsigned long long)m->seed, f->stream, token);
    return ++m->rows != m->stop_at;
}

/* Opens a follower: from nothing, or from what another one has in common with its stream. */
static void begin(mix *m, follower *f) {
    f->stream = pick(0, STREAMS - 1);
    const follower *of = &m->follower[pick(0, m->sequences - 1)];
    if (of != f && of->sequence && pick(0, 2) > 0) {
        int32_t n = common(of->stream, f->stream);
        const int32_t length = mnem_sequence_length(of->sequence);
        n = pick(0, n < length ? n : length);
        const mnem_status status = mnem_sequence_fork(of->sequence, n, &f->sequence);
        if (status == MNEM_OK) return;
        assert_int_equal(status, MNEM_UNSUPPORTED); /* its windows have gone by */
        m->refused++;
    }
    assert_int_equal(mnem_sequence_create(m->c.engine, &f->sequence), MNEM_OK);
}

/* Cut to a page's begin, and up to anywhere in what it was from a file; where that can't be
 * (windows have gone by, no state was there, no pages are free) the cut stays. */
static void save_and_load(mix *m, follower *f) {
    const int32_t length = mnem_sequence_length(f->sequence), page = m->c.plan.page_tokens;
    if (length == 0) return;
    const int32_t from = pick(0, (length - 1) / page) * page;
    const uint64_t offset = (uint64_t)pick(0, 999);
    const int32_t *ids = streams[f->stream].ids;
    const int fd = memfd_create("saved", MFD_CLOEXEC);
    mnem_saved saved;
    int32_t alike;
    const bool can = mnem_model_supports(m->c.model, MNEM_FEATURE_SAVED) == MNEM_OK;
    assert_int_equal(mnem_sequence_save(f->sequence, ids, from, fd, offset),
                     can ? MNEM_OK : MNEM_UNSUPPORTED);
    if (can && mnem_sequence_truncate(f->sequence, from) == MNEM_OK) {
        assert_int_equal(mnem_saved_open(m->c.engine, fd, offset, &saved), MNEM_OK);
        assert_int_equal(mnem_saved_common(&saved, ids, LENGTH, &alike), MNEM_OK);
        assert_int_equal(alike, length);
        const int32_t n = pick(0, 2) ? length : pick(from + 1, length);
        const mnem_status status = mnem_sequence_load(f->sequence, &saved, n);
        if (status != MNEM_OK && status != MNEM_OVER_BUDGET &&
            !(status == MNEM_UNSUPPORTED && (n < length || m->c.plan.states > 0)))
            fail_msg("mix %llu: %d of %d, from %d: %s", (unsigned long long)m->seed, n, length,
                     from, mnem_last_error());
        assert_int_equal(mnem_sequence_length(f->sequence), status == MNEM_OK ? n : from);
        ++*(status == MNEM_OK ? &loads : &loads_refused);
    }
    close(fd);
}

/* Ends, cuts or goes on. */
static void change(mix *m, follower *f) {
    const int32_t what = pick(0, 12);
    if (what == 12 && f->sequence) save_and_load(m, f);
    if (what == 0) {
        mnem_sequence_destroy(f->sequence);
        f->sequence = NULL;
    }
    if (!f->sequence) {
        begin(m, f);
    } else if (what == 1) {
        const int32_t n = pick(0, mnem_sequence_length(f->sequence));
        const mnem_status status = mnem_sequence_truncate(f->sequence, n);
        if (status != MNEM_OK) {
            assert_int_equal(status, MNEM_UNSUPPORTED);
            assert_int_equal(mnem_sequence_truncate(f->sequence, 0), MNEM_OK);
            m->refused++;
        }
    }
}

/* Whether there are pages for the parts. Where there aren't the step changes nothing, and some
 * followers end. */
static bool has_pages(mix *m, int32_t count) {
    mnem_engine_pages before, after;
    mnem_page_count wanted;
    mnem_engine_pages_get(m->c.engine, &before);
    assert_int_equal(mnem_engine_step_pages(m->c.engine, m->parts, count, &wanted), MNEM_OK);
    mnem_engine_pages_get(m->c.engine, &after);
    assert_memory_equal(&before.free, &after.free, sizeof before.free);
    if (wanted.full <= before.free.full && wanted.window <= before.free.window &&
        wanted.states <= before.free.states)
        return true;
    assert_int_equal(mnem_engine_step(m->c.engine, m->parts, count, compare, m), MNEM_OVER_BUDGET);
    mnem_engine_pages_get(m->c.engine, &after);
    assert_memory_equal(&before.free, &after.free, sizeof before.free);
    for (int32_t i = 0; i < m->sequences; i++) {
        if (pick(0, 1)) continue;
        mnem_sequence_destroy(m->follower[i].sequence);
        m->follower[i].sequence = NULL;
    }
    steps_refused++;
    return false;
}

/* Where no layer has windows, nothing is given back while a step runs. */
static void check_taken(const mix *m, const mnem_engine_pages *before, int32_t wanted) {
    mnem_engine_pages after;
    mnem_engine_pages_get(m->c.engine, &after);
    if (after.all.window == 0) assert_int_equal(before->free.full - after.free.full, wanted);
}

static void run_step(mix *m) {
    const int64_t rows_wanted = m->rows_wanted;
    mnem_engine_pages before;
    mnem_page_count wanted;
    int32_t count = 0;
    for (int32_t i = 0; i < m->sequences; i++) {
        follower *f = &m->follower[i];
        if (pick(0, 3) == 0) continue;
        change(m, f);
        const int32_t at = mnem_sequence_length(f->sequence), left = LENGTH - at;
        const int32_t most = pick(0, 2) ? 1 : 60;
        const int32_t n = pick(0, left < most ? left : most);
        const int32_t first = pick(0, 2) ? n - 1 : pick(0, n);
        m->who[count] = i;
        m->parts[count++] = (mnem_step_part){f->sequence, streams[f->stream].ids + at, n, first};
        m->rows_wanted += first < 0 ? n : n - first;
    }
    const bool stops = m->rows_wanted > m->rows && pick(0, 5) == 0;
    m->stop_at = stops ? m->rows + pick(1, (int)(m->rows_wanted - m->rows)) : -1;
    if (!has_pages(m, count)) {
        m->rows_wanted = rows_wanted;
        return;
    }
    mnem_engine_pages_get(m->c.engine, &before);
    mnem_engine_step_pages(m->c.engine, m->parts, count, &wanted);
    const mnem_status status = mnem_engine_step(m->c.engine, m->parts, count, compare, m);
    if (status == MNEM_OK) check_taken(m, &before, wanted.full);
    if (status != (stops ? MNEM_CANCELLED : MNEM_OK))
        fail_msg("mix %llu: %s", (unsigned long long)m->seed, mnem_last_error());
    m->rows_wanted = stops ? m->rows : m->rows_wanted;
}

/* Between the least and what holds all, or none. */
static uint64_t pick_budget(const char *path, const mnem_engine_options *options) {
    if (pick(0, 1)) return 0;
    return engine_case_least(path, options) + (uint64_t)pick(0, 400) * 1024;
}

static void run_mix(uint64_t seed) {
    static mix m;
    m = (mix){.seed = seed};
    state_ = 0x9e3779b97f4a7c15 * (seed + 1);
    random_bits();
    const int model = pick(0, MODELS - 1), kv = pick(0, KINDS - 1);
    m.alone = alone_get(model, kv);
    state_ = 0x9e3779b97f4a7c15 * (seed + 2);
    m.sequences = pick(1, SEQUENCES);
    mnem_device *device = seed % 3 == 1 ? device_open("apart", 0) : NULL;
    const mnem_engine_options options = {.context = CONTEXT,
                                         .device = device,
                                         .kv = kv_type(model, kv),
                                         .sequences = m.sequences,
                                         .pages_tokens = pick(0, 1) ? pick(1, 8 * CONTEXT) : 0,
                                         .pages_fill = pick(0, 3) == 0,
                                         .snapshots = (int32_t)(seed % 5) * 4,
                                         .snapshot_tokens = 5 + (int32_t)(seed % 43),
                                         .threads = pick(1, 2),
                                         .chunk = pick(0, 1) ? pick(1, 96) : 0,
                                         .logits_rows = pick(0, 1) ? pick(1, 20) : 0};
    engine_case_open(&m.c, models[model].path, pick_budget(models[model].path, &options), &options);
    mnem_ledger_info before, after;
    mnem_ledger_info_get(m.c.ledger, &before);
    for (int i = 0; i < STEPS; i++) run_step(&m);
    mnem_ledger_info_get(m.c.ledger, &after);
    assert_true(m.rows == m.rows_wanted);
    assert_true(after.bytes_peak == before.bytes_peak); /* a step takes nothing */
    mnem_engine_stats stats;
    for (int32_t i = 0; i < m.sequences; i++) mnem_sequence_destroy(m.follower[i].sequence);
    mnem_engine_stats_get(m.c.engine, &stats);
    assert_int_equal(stats.pages_used, 0);
    engine_case_close(&m.c);
    assert_int_equal(mnem_device_close(device), MNEM_OK);
    cuts_refused += m.refused;
}

static void every_sequence_gets_the_bits_that_it_gets_alone(void **state) {
    (void)state;
    for (int i = 0; i < mixes; i++) run_mix((uint64_t)i);
    print_message("%d mixes, %d cuts, %d steps and %d loads refused, %d loads\n", mixes,
                  cuts_refused, steps_refused, loads_refused, loads);
}

static int set_up(void **state) {
    (void)state;
    make_streams();
    for (int i = 0; i < MODELS; i++) {
        char command[1024];
        if (!models[i].arguments) continue;
        snprintf(models[i].path, sizeof models[i].path, "mixes-%d-%d.gguf", (int)getpid(), i);
        snprintf(command, sizeof command,
                 "%s %s --embd 128 --layers 3 --ff 160 --vocab 384 --context 256 %s", MAKE_MODEL,
                 models[i].path, models[i].arguments);
        if (system(command) != 0) return -1;
    }
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        if (models[i].arguments) remove(models[i].path);
        for (int k = 0; k < KINDS; k++) free(alone[i][k]);
    }
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sequence_gets_the_bits_that_it_gets_alone),
    };
    if (argc > 1) mixes = atoi(argv[1]);
    if (MNEM_SANITIZED && mixes > 6) mixes = 6;
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
