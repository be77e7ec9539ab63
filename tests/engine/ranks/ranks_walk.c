/* ranks_walk.c: see ranks_walk.h. */
#include "engine/ranks/ranks_walk.h"

#include <stdio.h>
#include <string.h>

#include "base/minmax.h"
#include "engine/engine_private.h"
#include "kit/kit_device.h"
#include "kit/kit_random.h"

enum { STEPS = 10 };

int32_t streams[STREAMS][LENGTH];
const mnem_embed_text texts[TEXTS] = {
    {streams[0], 1}, {streams[1], 64}, {streams[2], 65}, {streams[3], LENGTH}, {streams[0], 7}};
const mnem_embed_options mean = {.pooling = MNEM_POOLING_MEAN};

/* A sequence of rank 0, and the stream that it follows. */
typedef struct runner {
    mnem_sequence *sequence; /* NULL: not open */
    int32_t stream;
    bool away; /* its state may be a snapshot alone: a cut comes before its next step */
} runner;

/* A step, and what its rows are to be. */
typedef struct flight {
    struct walk *walk;
    int32_t stream[SEQUENCES], base[SEQUENCES]; /* of its parts */
    int32_t rows;                               /* still to come */
} flight;

typedef struct walk {
    rank *rank;
    uint64_t random, texts, marks; /* texts: of what is embedded */
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
    const float *right = w->rank->alone + row * (size_t)w->vocab;
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

/* Where snapshots of states are to be taken, of some sequences. */
static void mark(walk *w, mnem_sequence *s) {
    int32_t at[3];
    if (w->rank->options.snapshots == 0 || next_below(&w->marks, 2) == 0) return;
    at[0] = next_between(&w->marks, 0, LENGTH);
    for (int i = 1; i < 3; i++) at[i] = mnem__min_i32(LENGTH, at[i - 1] + 1 + 7 * i);
    mnem_sequence_snapshots_at(s, at, next_between(&w->marks, 0, 3));
}

static int32_t fill_parts(walk *w, flight *f) {
    int32_t count = 0;
    *f = (flight){.walk = w};
    for (int32_t i = 0; i < w->rank->options.sequences; i++) {
        runner *r = &w->runners[i];
        if (!r->sequence || next_below(&w->random, 4) == 0) continue;
        if (r->away && next_below(&w->marks, 4) > 0) continue;
        const int32_t at = mnem_sequence_length(r->sequence);
        if (r->away && mnem_sequence_truncate(r->sequence, at) != MNEM_OK)
            say_wrong(w->rank, "cut");
        r->away = false;
        mark(w, r->sequence);
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
        w->rank->flown++;
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
        *f = (runner){0};
    } else {
        const int32_t n = next_between(&w->random, 0, mnem_sequence_length(f->sequence));
        f->away = w->rank->options.snapshots > 0 && next_below(&w->marks, 2) == 0;
        const mnem_status status = f->away ? mnem__sequence_truncate_away(f->sequence, n)
                                           : mnem_sequence_truncate(f->sequence, n);
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
    const float *right = w->rank->embedded + (ptrdiff_t)first * w->embd;
    if (memcmp(right, out, (size_t)(n * w->embd) * sizeof *out) != 0)
        say_wrong(w->rank, "an embedding that differs");
    w->rank->beside += w->under_way > 0;
}

static void lead(rank *r, mnem_engine *engine, const mnem_transformer *t) {
    walk w = {.rank = r,
              .random = r->seed,
              .texts = 31 * r->seed,
              .marks = 37 * r->seed,
              .engine = engine};
    w.vocab = t->vocab;
    w.embd = t->embd;
    for (int i = 0; i < STEPS && !r->wrong; i++) {
        for (int k = 0; k < 3 && !r->wrong; k++) change(&w);
        if (!r->wrong) step(&w);
        if (!r->wrong && (w.under_way || next_below(&w.texts, 4) == 0)) embed(&w);
    }
}

static uint64_t add(uint64_t sum, int32_t value) {
    return (sum ^ (uint32_t)value) * 0x100000001b3;
}

/* Which sequences have a state in a table, and of which positions lists have snapshots. */
static uint64_t books_of(const mnem_engine *e) {
    uint64_t sum = 0;
    for (int32_t i = 0; i < e->sequences && e->snapshots.lists; i++) {
        const mnem__snapshot_list *list = &e->snapshots.lists[i];
        sum = add(add(sum, e->tables.sequences[i].table[MNEM__KV_STATES].used), list->count);
        for (int32_t k = 0; k < list->count; k++) sum = add(sum, list->at[k].position);
    }
    return sum;
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
    mnem_engine_pages_get(engine, &r->pages);
    r->books = books_of(engine);
    mnem_ledger_info_get(r->options.ledger, &info);
    if (info.bytes_peak > r->plan.peak_bytes) say_wrong(r, "more than planned");
    mnem_engine_destroy(engine);
}

static void *run_rank(void *context) {
    rank *r = context;
    mnem_ledger *ledger = NULL;
    mnem_model *model = NULL;
    if (mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = r->budget}, &ledger) != MNEM_OK ||
        mnem_model_open(r->path, &model) != MNEM_OK)
        say_wrong(r, "open");
    r->options.ledger = ledger;
    r->options.comm = r->comm;
    r->options.device = r->apart ? device_open("apart", 0) : NULL;
    r->status = mnem_engine_plan_ranks(model, &r->options, &r->plan);
    if (r->status == MNEM_OK && !r->plans_only)
        run_engine(r, model);
    else if (r->status != MNEM_OK && r->status != MNEM_OVER_BUDGET)
        say_wrong(r, "plan");
    if (mnem_comm_barrier(r->comm) != MNEM_OK && !r->wrong) say_wrong(r, "barrier");
    mnem_comm_destroy(r->comm);
    if (mnem_device_close(r->options.device) != MNEM_OK) say_wrong(r, "device");
    mnem_model_close(model);
    mnem_ledger_destroy(ledger);
    return NULL;
}

void run_ranks(rank *ranks, int32_t size, const mnem_comm_link *link) {
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

void check_ranks(const rank *ranks, int32_t size, uint64_t seed) {
    for (int32_t i = 0; i < size; i++) {
        if (ranks[i].wrong)
            fail_msg("case %llu: %s: %s: rank %d of %d: %d wrong: %s", (unsigned long long)seed,
                     ranks[i].path, ranks[i].options.cut == MNEM_CUT_ROWS ? "rows" : "layers", i,
                     size, ranks[i].wrong, ranks[i].text);
        assert_int_equal(ranks[i].status, ranks[0].status); /* all refuse, or none */
        if (ranks[i].status != MNEM_OK) continue;
        assert_int_equal(ranks[i].plan.states, ranks[0].plan.states);
        assert_int_equal(ranks[i].plan.snapshots, ranks[0].plan.snapshots);
        assert_memory_equal(&ranks[i].pages.free, &ranks[0].pages.free, sizeof(mnem_page_count));
        assert_int_equal(ranks[i].pages.snapshots_used, ranks[0].pages.snapshots_used);
        assert_int_equal(ranks[i].books, ranks[0].books);
    }
}
