/* test_ranks.c: a model over several ranks gives the logits that one rank gives, to the bit.
 *
 * test_ranks [CASES]     40 by default (4 under ThreadSanitizer), 450 under the label slow
 *
 * Ranks are threads. What each stream of ids gives is computed once for each model and type of
 * keys, alone, all resident, by one thread. Cases take the models in turn, by rows and by layers,
 * with one type of keys and then the other; each takes ranks, budgets (of which some stream, and
 * some are too small), sequences, a chunk and threads at random, and lets sequences follow streams
 * on rank 0: steps of random parts, forks, cuts, steps that are stopped, steps that are under way
 * while others begin, or while texts are embedded. Some ranks run on a device whose memory
 * faults when the host touches it (kit_apart.h). A failing case names its seed. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/minmax.h"
#include "engine/engine_case.h"
#include "kit/kit.h"
#include "kit/kit_device.h"
#include "kit/kit_model.h"
#include "kit/kit_random.h"

enum { STREAMS = 4, LENGTH = 80, CONTEXT = 128, RANKS_MAX = 5, SEQUENCES = 6, STEPS = 10 };

static struct {
    const char *arguments; /* of make_model; NULL: path is there */
    char path[256];
    int32_t rows; /* ranks that rows can be cut over at most; 0: they can't */
    int32_t layers;
} models[] = {
    {"--arch llama --heads 4 --kv-heads 2 --head-dim 32 --type Q8_0 --layers 5 --ff 2048", "", 4,
     5},
    {"--arch llama --heads 2 --kv-heads 1 --type BF16 --tied --layers 3 --ff 1024", "", 2, 3},
    /* queries, keys and values in one matrix, with one bias; gate and up in one */
    {"--arch gpt2 --heads 4 --kv-heads 4 --head-dim 32 --type F16 --layers 4 --ff 1024", "", 4, 4},
    {"--arch phi3 --embd 192 --heads 6 --kv-heads 3 --head-dim 32 --type Q4_0 --layers 4 "
     "--ff 1056 --vocab 390",
     "", 6, 4},
    {"--arch glm4 --bias --heads 4 --kv-heads 2 --head-dim 32 --type Q8_0 --layers 3 --ff 2048", "",
     4, 3},
    {"--arch qwen3 --heads 4 --kv-heads 2 --head-dim 32 --type Q4_0 --layers 5 --tied --ff 2048",
     "", 4, 5},
    {"--arch mixtral --heads 4 --kv-heads 2 --head-dim 32 --type Q8_0 --experts 12 "
     "--experts-used 2 --ff 2048 --ff-expert 2048 --layers 3",
     "", 4, 3},
    {"--arch qwen3moe --heads 8 --kv-heads 4 --head-dim 32 --type Q4_0 --experts 16 "
     "--experts-used 5 --ff 1056 --ff-expert 1056 --embd 160 --layers 3",
     "", 8, 3},
    {NULL, MNEM_TEST_DATA "/architectures/qwen2moe.gguf", 2, 0}, /* and one for all */
    {NULL, MNEM_TEST_DATA "/architectures/granitemoe_shared.gguf", 2, 0},
    {NULL, MNEM_TEST_DATA "/architectures/gpt_oss.gguf", 2, 0}, /* sinks, biases, windows */
    {"--arch olmoe --heads 2 --kv-heads 2 --type Q4_0 --experts-used 3 --ff-expert 32 --layers 3",
     "", 2, 3},
    /* a norm over all heads, of which ranks have copies of keys, too */
    {"--arch olmo2 --heads 6 --kv-heads 2 --head-dim 32 --type Q8_0 --layers 4 --ff 2048 --embd 96",
     "", 6, 4},
    {NULL, MNEM_TEST_DATA "/architectures/olmo3.gguf", 2, 0},
    {"--arch deepseek2 --heads 4 --head-dim 64 --type Q4_0 --ff-expert 32 --layers 3", "", 0, 3},
    {NULL, MNEM_TEST_DATA "/architectures/deepseek32_few.gguf", 0, 0},
    {NULL, MNEM_TEST_DATA "/model/kjv-5m-q4_k_m.gguf", 8, 0},
    /* windows of 24 tokens, in some layers or in all */
    {NULL, MNEM_TEST_DATA "/architectures/gemma3.gguf", 2, 0},
    {NULL, MNEM_TEST_DATA "/architectures/phi3_window.gguf", 2, 0},
    /* rows that no number of ranks divides, and biases of them */
    {"--arch qwen2 --bias --embd 160 --heads 14 --kv-heads 7 --head-dim 32 --type Q4_0 --layers 3 "
     "--ff 1056 --vocab 390",
     "", 14, 3},
    {NULL, MNEM_TEST_DATA "/architectures/gemma2.gguf", 2, 0},
    {NULL, MNEM_TEST_DATA "/architectures/granite.gguf", 2, 0},
};
enum { MODELS = sizeof models / sizeof models[0], KINDS = 2, VOCAB_LEAST = 96 };

static mnem_kv_choice kv_type(int model, int kind) {
    if (kind == 0) return MNEM_KV_F16;
    return strstr(models[model].path, "/architectures/") ? MNEM_KV_F32 : MNEM_KV_Q8_0;
}

static int32_t streams[STREAMS][LENGTH];
/* Streams' beginnings that are embedded, alone and all together. */
static const mnem_embed_text texts[] = {
    {streams[0], 1}, {streams[1], 64}, {streams[2], 65}, {streams[3], LENGTH}, {streams[0], 7}};
enum { TEXTS = sizeof texts / sizeof texts[0], EMBD_MOST = 512 };
/* [STREAMS][LENGTH][vocab], [TEXTS][embd] */
static float *alone[MODELS][KINDS], *embedded[MODELS][KINDS];
/* Each 20 seeds change the cut: fewer cases than CASES_BOTH take seeds apart. */
#ifdef __SANITIZE_THREAD__ /* each takes seconds */
enum { CASES_BOTH = 40, CASES = 4, LEAST = 1 };
#else
enum { CASES_BOTH = 40, CASES = 40, LEAST = 5 };
#endif
static int cases = CASES, refused, streamed, flown, beside, cut, cut_streamed, on_apart;

/* ---- alone ---- */

typedef struct kept {
    float *logits;
    int32_t vocab;
} kept;

static bool keep(void *context, int32_t part, int32_t index, const float *logits) {
    const kept *k = context;
    (void)part;
    memcpy(k->logits + (int64_t)index * k->vocab, logits, (size_t)k->vocab * sizeof *logits);
    return true;
}

static const mnem_embed_options mean = {.pooling = MNEM_POOLING_MEAN};

static void compute_alone(int model, int kind) {
    engine_case c = {0};
    const mnem_engine_options o = {.context = CONTEXT,
                                   .kv = kv_type(model, kind),
                                   .threads = 1,
                                   .logits_rows = 16,
                                   .chunk = 64};
    if (alone[model][kind]) return;
    engine_case_open(&c, models[model].path, 0, &o);
    const size_t each = (size_t)LENGTH * (size_t)c.vocab;
    alone[model][kind] = malloc(STREAMS * each * sizeof(float));
    assert_non_null(alone[model][kind]);
    mnem_sequence *s;
    must(mnem_sequence_create(c.engine, &s));
    for (int i = 0; i < STREAMS; i++) {
        kept k = {alone[model][kind] + (size_t)i * each, c.vocab};
        const mnem_step_part part = {s, streams[i], LENGTH, 0};
        must(mnem_sequence_truncate(s, 0));
        must(mnem_engine_step(c.engine, &part, 1, keep, &k));
    }
    mnem_sequence_destroy(s);
    embedded[model][kind] = malloc(TEXTS * EMBD_MOST * sizeof(float));
    assert_non_null(embedded[model][kind]);
    must(mnem_engine_embed(c.engine, texts, TEXTS, &mean, embedded[model][kind]));
    engine_case_close(&c);
}

/* ---- a rank ---- */

typedef struct rank {
    pthread_t id;
    mnem_comm *comm;
    int model, kind;
    uint64_t budget, seed;
    bool apart; /* its device */
    mnem_engine_options options;
    mnem_engine_plan plan;
    mnem_status status; /* of the plan */
    int wrong;
    char text[400];
} rank;

/* A sequence of rank 0, and the stream that it follows. */
typedef struct runner {
    mnem_sequence *sequence; /* NULL: not open */
    int32_t stream;
} runner;

/* A step, and what its rows are to be. */
typedef struct flight {
    struct walk *walk;
    int32_t stream[SEQUENCES], base[SEQUENCES]; /* of its parts */
    int32_t rows;                               /* still to come */
} flight;

typedef struct walk {
    rank *rank;
    uint64_t random, texts; /* texts: of what is embedded */
    mnem_engine *engine;
    int32_t vocab, embd;
    runner runners[SEQUENCES];
    mnem_step_part parts[SEQUENCES];
    int32_t stop_after; /* rows of logits; below 0: never */
    flight flights[RANKS_MAX + 1];
    int32_t first, under_way; /* of the flights, a ring; the one behind them is a step of its own */
} walk;

static void say_wrong(rank *r, const char *what) {
    if (r->wrong++ == 0) snprintf(r->text, sizeof r->text, "%s: %s", what, mnem_last_error());
}

static bool compare(void *context, int32_t part, int32_t index, const float *logits) {
    flight *f = context;
    walk *w = f->walk;
    const size_t row = (size_t)f->stream[part] * LENGTH + (size_t)(f->base[part] + index);
    const float *right = alone[w->rank->model][w->rank->kind] + row * (size_t)w->vocab;
    f->rows--;
    if (memcmp(right, logits, (size_t)w->vocab * sizeof *logits) != 0) {
        if (w->rank->wrong++ == 0)
            snprintf(w->rank->text, sizeof w->rank->text, "stream %d, token %d", f->stream[part],
                     f->base[part] + index);
    }
    return w->stop_after < 0 || w->stop_after-- > 0;
}

/* The oldest one's rows come, all of them. */
static void land(walk *w) {
    const flight *f = &w->flights[w->first];
    w->stop_after = -1;
    if (mnem_engine_step_end(w->engine) != MNEM_OK) say_wrong(w->rank, "end of a step");
    if (f->rows != 0) say_wrong(w->rank, "rows that didn't come");
    w->first = (w->first + 1) % (RANKS_MAX + 1);
    w->under_way--;
}

static int32_t fill_parts(walk *w, flight *f) {
    int32_t count = 0;
    *f = (flight){.walk = w};
    for (int32_t i = 0; i < w->rank->options.sequences; i++) {
        const runner *r = &w->runners[i];
        if (!r->sequence || next_below(&w->random, 4) == 0) continue;
        const int32_t at = mnem_sequence_length(r->sequence);
        const int32_t n = mnem__min_i32(
            next_between(&w->random, 0, next_below(&w->random, 2) ? 1 : 60), LENGTH - at);
        f->stream[count] = r->stream;
        f->base[count] = at;
        const int32_t first = next_between(&w->random, 0, n);
        f->rows += n - first;
        w->parts[count++] = (mnem_step_part){r->sequence, streams[r->stream] + at, n, first};
    }
    return count;
}

static void begin_step(walk *w, flight *f, int32_t count) {
    bool ended;
    mnem_status status;
    w->stop_after = -1;
    while ((status = mnem_engine_step_begin(w->engine, w->parts, count, compare, f, &ended)) ==
               MNEM_BUSY &&
           w->under_way > 0)
        land(w);
    if (status != MNEM_OK) say_wrong(w->rank, "begin of a step");
    if (ended && f->rows != 0) say_wrong(w->rank, "rows that weren't told");
    if (status == MNEM_OK && !ended) {
        w->under_way++;
        flown++;
    }
}

static void step(walk *w) {
    flight *f = &w->flights[(w->first + w->under_way) % (RANKS_MAX + 1)];
    const int32_t count = fill_parts(w, f);
    if (next_below(&w->random, 2)) {
        begin_step(w, f, count);
        return;
    }
    if (w->under_way && mnem_engine_step(w->engine, w->parts, count, compare, f) != MNEM_BUSY)
        say_wrong(w->rank, "a step beside others");
    while (w->under_way) land(w);
    w->stop_after = next_below(&w->random, 6) == 0 ? next_between(&w->random, 0, 3) : -1;
    const mnem_status status = mnem_engine_step(w->engine, w->parts, count, compare, f);
    if (status != MNEM_OK && status != MNEM_CANCELLED) say_wrong(w->rank, "step");
}

static void change(walk *w) {
    const int32_t open = w->rank->options.sequences;
    runner *f = &w->runners[next_between(&w->random, 0, open - 1)];
    const runner *of = &w->runners[next_between(&w->random, 0, open - 1)];
    if (!f->sequence && of->sequence && next_below(&w->random, 2) == 0) {
        const int32_t n = next_between(&w->random, 0, mnem_sequence_length(of->sequence));
        const mnem_status status = mnem_sequence_fork(of->sequence, n, &f->sequence);
        if (status != MNEM_OK && status != MNEM_UNSUPPORTED) say_wrong(w->rank, "fork");
        f->stream = of->stream;
    } else if (!f->sequence) {
        if (mnem_sequence_create(w->engine, &f->sequence) != MNEM_OK) say_wrong(w->rank, "create");
        f->stream = next_between(&w->random, 0, STREAMS - 1);
    } else if (next_below(&w->random, 3) == 0) {
        mnem_sequence_destroy(f->sequence);
        f->sequence = NULL;
    } else {
        const int32_t n = next_between(&w->random, 0, mnem_sequence_length(f->sequence));
        const mnem_status status = mnem_sequence_truncate(f->sequence, n);
        if (status != MNEM_OK && status != MNEM_UNSUPPORTED) say_wrong(w->rank, "truncate");
    }
}

/* Some of the texts, with what sequences and pages are left; steps stay under way. */
static void embed(walk *w) {
    float out[TEXTS * EMBD_MOST];
    const int32_t first = next_between(&w->texts, 0, TEXTS - 1),
                  n = next_between(&w->texts, 1, TEXTS - first);
    bool room = false;
    for (int32_t i = 0; i < w->rank->options.sequences; i++) room |= !w->runners[i].sequence;
    const mnem_status status = mnem_engine_embed(w->engine, texts + first, n, &mean, out);
    if (status != (room ? MNEM_OK : MNEM_OVER_BUDGET)) say_wrong(w->rank, "embedding");
    if (status != MNEM_OK) return;
    const float *right = embedded[w->rank->model][w->rank->kind] + (ptrdiff_t)first * w->embd;
    if (memcmp(right, out, (size_t)(n * w->embd) * sizeof *out) != 0)
        say_wrong(w->rank, "an embedding that differs");
    beside += w->under_way > 0;
}

static void lead(rank *r, mnem_engine *engine, const mnem_transformer *t) {
    walk w = {.rank = r, .random = r->seed, .texts = 31 * r->seed, .engine = engine};
    w.vocab = t->vocab;
    w.embd = t->embd;
    for (int i = 0; i < STEPS && !r->wrong; i++) {
        for (int k = 0; k < 3 && !r->wrong; k++) change(&w);
        if (!r->wrong) step(&w);
        if (!r->wrong && (w.under_way || next_below(&w.texts, 4) == 0)) embed(&w);
    }
}

static void run_engine(rank *r, const mnem_model *model) {
    mnem_engine *engine;
    mnem_transformer t;
    if (mnem_model_transformer(model, &t) != MNEM_OK ||
        mnem_engine_create(model, &r->options, &r->plan, &engine) != MNEM_OK) {
        say_wrong(r, "create");
        return;
    }
    if (mnem_comm_rank(r->comm) == 0)
        lead(r, engine, &t);
    else if (mnem_engine_follow(engine) != MNEM_OK)
        say_wrong(r, "follow");
    mnem_ledger_info info;
    mnem_ledger_info_get(r->options.ledger, &info);
    if (info.bytes_peak > r->plan.peak_bytes) say_wrong(r, "more than planned");
    mnem_engine_destroy(engine);
}

static void *run_rank(void *context) {
    rank *r = context;
    mnem_ledger *ledger = NULL;
    mnem_model *model = NULL;
    if (mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = r->budget}, &ledger) != MNEM_OK ||
        mnem_model_open(models[r->model].path, &model) != MNEM_OK)
        say_wrong(r, "open");
    r->options.ledger = ledger;
    r->options.comm = r->comm;
    r->options.device = r->apart ? device_open("apart", 0) : NULL;
    r->status = mnem_engine_plan_ranks(model, &r->options, &r->plan);
    if (r->status == MNEM_OK)
        run_engine(r, model);
    else if (r->status != MNEM_OVER_BUDGET)
        say_wrong(r, "plan");
    if (mnem_comm_barrier(r->comm) != MNEM_OK && !r->wrong) say_wrong(r, "barrier");
    mnem_comm_destroy(r->comm);
    if (mnem_device_close(r->options.device) != MNEM_OK) say_wrong(r, "device");
    mnem_model_close(model);
    mnem_ledger_destroy(ledger);
    return NULL;
}

static void run_ranks(rank *ranks, int32_t size, const mnem_comm_link *link) {
    mnem_comm *comms[RANKS_MAX];
    must(mnem_comm_thread_create(size, comms));
    for (int32_t i = 0; i < size; i++) {
        if (link) must(mnem_comm_slow_create(comms[i], link, &comms[i]));
        ranks[i].comm = comms[i];
        ranks[i].wrong = 0;
    }
    for (int32_t i = 0; i < size; i++)
        assert_int_equal(pthread_create(&ranks[i].id, NULL, run_rank, &ranks[i]), 0);
    for (int32_t i = 0; i < size; i++) pthread_join(ranks[i].id, NULL);
}

static int32_t layers_of(int model) {
    mnem_model *file;
    mnem_transformer t;
    must(mnem_model_open(models[model].path, &file));
    must(mnem_model_transformer(file, &t));
    mnem_model_close(file);
    return t.layers;
}

static void check_ranks(const rank *ranks, int32_t size, uint64_t seed) {
    for (int32_t i = 0; i < size; i++) {
        if (ranks[i].wrong)
            fail_msg("case %llu: %s: %s: rank %d of %d: %d wrong: %s", (unsigned long long)seed,
                     models[ranks[i].model].path,
                     ranks[i].options.cut == MNEM_CUT_ROWS ? "rows" : "layers", i, size,
                     ranks[i].wrong, ranks[i].text);
        assert_int_equal(ranks[i].status, ranks[0].status); /* all refuse, or none */
    }
}

static void run_case(uint64_t seed) {
    uint64_t random = 1000003 * seed;
    rank ranks[RANKS_MAX] = {0};
    const int model = (int)(seed % MODELS);
    const int kind = (int)((seed / (2 * MODELS) + (uint64_t)model) % KINDS);
    const bool rows = models[model].rows && (seed / MODELS % 2 == 0 || models[model].layers < 2);
    (void)next_random(&random); /* after which more budgets stream */
    const int32_t most = mnem__min_i32(rows ? models[model].rows : models[model].layers, RANKS_MAX);
    const int32_t size = next_between(&random, 2, most);
    const mnem_comm_link link = {.seconds = 5e-5, .bytes_per_second = 1e9};
    const mnem_engine_options o = {.context = CONTEXT,
                                   .chunk = (int32_t[]){0, 1, 7, 32, 64}[next_below(&random, 5)],
                                   .kv = kv_type(model, kind),
                                   .sequences = next_between(&random, 1, SEQUENCES),
                                   .logits_rows = next_between(&random, 0, 5),
                                   .cut = rows ? MNEM_CUT_ROWS : MNEM_CUT_LAYERS,
                                   .page_cache = seed % 4 > 0};
    compute_alone(model, kind);
    for (int32_t i = 0; i < size; i++) {
        ranks[i] = (rank){.model = model, .kind = kind, .options = o, .seed = seed};
        ranks[i].options.threads = next_between(&random, 1, 2);
        ranks[i].apart = (seed + (uint64_t)i) % 2;
    }
    const bool slow = next_below(&random, 4) == 0;
    run_ranks(ranks, size, slow ? &link : NULL);
    check_ranks(ranks, size, seed);
    for (int32_t i = 0; i < size; i++) { /* less than that, on some */
        const mnem_engine_plan *had = &ranks[i].plan;
        const uint64_t less = had->weight_bytes_resident * next_below(&random, 80) / 100;
        ranks[i].budget = had->peak_bytes + next_below(&random, 2) * (16 << 10) - less;
        ranks[i].plan = (mnem_engine_plan){0};
    }
    run_ranks(ranks, size, NULL);
    check_ranks(ranks, size, seed);
    for (int32_t i = 0; i < size; i++) {
        refused += ranks[i].status != MNEM_OK;
        streamed += ranks[i].plan.streamed;
        cut += ranks[i].plan.rows.vocab.end > 0;
        on_apart += ranks[i].apart && ranks[i].status == MNEM_OK;
        cut_streamed += ranks[i].plan.rows.vocab.end > 0 && ranks[i].plan.streamed;
        assert_true(ranks[i].status != MNEM_OK || ranks[i].plan.peak_bytes <= ranks[i].budget);
    }
}

static void ranks_give_the_bits_of_one(void **state) {
    (void)state;
    const int stride = cases < CASES_BOTH ? 11 : 1;
    for (int i = 1; i <= cases; i++) run_case((uint64_t)(i * stride));
    print_message("%d ranks refused, %d streamed, %d steps under way, %d texts beside; %d had "
                  "rows, %d streamed; %d on a device apart\n",
                  refused, streamed, flown, beside, cut, cut_streamed, on_apart);
    assert_true(flown > cases / 4);
    assert_true(beside > 0 || cases < 40);
    assert_true(streamed > cases / 20); /* else budgets don't mean what they meant */
    assert_true(cut > cases / 20);
    assert_true(on_apart > cases / 20);
}

/* Halves what is between budgets that are refused and those that aren't: the least one streams what
 * it can, experts among it. */
static void least_budgets(int model, int32_t size, uint64_t seed) {
    rank ranks[RANKS_MAX] = {0};
    uint64_t low = 0, high = 0, stream = 0, slots = 0;
    for (int round = 0; round < 8; round++) {
        for (int32_t i = 0; i < size; i++) {
            ranks[i] = (rank){.model = model, .seed = seed + (uint64_t)round};
            ranks[i].options = (mnem_engine_options){.context = CONTEXT,
                                                     .kv = MNEM_KV_F16,
                                                     .sequences = 2,
                                                     .chunk = 32,
                                                     .threads = 1 + i % 2,
                                                     .cut = MNEM_CUT_ROWS};
            ranks[i].budget = round ? low + (high - low) / 2 : 0;
        }
        run_ranks(ranks, size, NULL);
        check_ranks(ranks, size, seed);
        const uint64_t peak = ranks[0].plan.peak_bytes;
        if (round == 0) high = peak;
        if (round > 0) *(ranks[0].status == MNEM_OK ? &high : &low) = ranks[0].budget;
        for (int32_t i = 0; i < size; i++) {
            stream += ranks[i].plan.streamed;
            slots += (uint64_t)ranks[i].plan.expert_slots;
        }
    }
    if (stream == 0 || !slots != !strstr(models[model].arguments, "--experts"))
        fail_msg("%s: %d ranks: %llu streamed, %llu slots for experts", models[model].path, size,
                 (unsigned long long)stream, (unsigned long long)slots);
}

static void the_least_budgets_give_the_bits_of_one(void **state) {
    (void)state;
    static const char *const which[] = {"phi3", "mixtral", "gpt2", "qwen3moe", "olmo2"};
    for (size_t k = 0; k < LEAST; k++)
        for (int m = 0; m < MODELS; m++)
            if (models[m].arguments && strstr(models[m].arguments, which[k])) {
                compute_alone(m, 0);
                least_budgets(m, 2 + (int32_t)(k % 2), 7);
            }
}

int main(int argc, char **argv) {
    uint64_t random = 11;
    if (argc > 1) cases = atoi(argv[1]);
    for (int i = 0; i < STREAMS; i++)
        for (int k = 0; k < LENGTH; k++) streams[i][k] = next_between(&random, 0, VOCAB_LEAST - 1);
    for (int m = 0; m < MODELS; m++) {
        if (models[m].arguments) {
            snprintf(models[m].path, sizeof models[m].path, "ranks_%d.gguf", m);
            make_model(models[m].path, models[m].arguments);
        }
        models[m].layers = layers_of(m);
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_give_the_bits_of_one),
                                       cmocka_unit_test(the_least_budgets_give_the_bits_of_one)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int m = 0; m < MODELS; m++) {
        if (models[m].arguments) remove(models[m].path);
        for (int k = 0; k < KINDS; k++) {
            free(alone[m][k]);
            free(embedded[m][k]);
        }
    }
    return failed;
}
