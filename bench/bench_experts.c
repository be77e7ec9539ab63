/* bench_experts.c: how often a mixture's experts are found in memory, by policy.
 *
 *     bench_experts MODEL [TOKENS [MEMORY_MIB [OUT]]]      records, then replays
 *     bench_experts --replay FILE                          replays what was recorded
 *
 * Tokens that don't repeat run through an engine, which tells what every layer wants; the recording
 * is replayed, for several parts of all experts in memory, through least recently used, least
 * frequently used, mnem's own tables (expert_cache.h) and Belady's optimum (1966), which knows the
 * future. What a layer wants at once stays for it. A line of a recording: mixture, then the numbers
 * of its experts. Exit code 1 where ours is below 0.97 of the better of the first two. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mnem/mnem.h"
#include "model/weights/expert_cache.h"

enum { TOKENS_USUAL = 128, LINE = 4096 };

typedef struct use {
    int32_t mixture, number;
    int32_t step; /* which want */
    int64_t next; /* the same expert's next use; INT64_MAX */
} use;

typedef struct trace {
    use *uses;
    int64_t count, room;
    int32_t steps, mixtures, experts;
} trace;

static void die(const char *what) {
    fprintf(stderr, "bench_experts: %s\n", what);
    exit(2);
}

static void must(mnem_status status) {
    if (status != MNEM_OK) die(mnem_last_error());
}

static void *zeroed(int64_t count, size_t size) {
    void *made = calloc((size_t)count, size);
    if (!made) die("no memory");
    return made;
}

/* ---- recording ---- */

static void add_use(trace *t, int32_t mixture, int32_t number) {
    if (t->count == t->room) {
        t->room = t->room ? 2 * t->room : 1 << 16;
        t->uses = realloc(t->uses, (size_t)t->room * sizeof *t->uses);
        if (!t->uses) die("no memory");
    }
    t->uses[t->count++] = (use){.mixture = mixture, .number = number, .step = t->steps};
    if (mixture >= t->mixtures) t->mixtures = mixture + 1;
    if (number >= t->experts) t->experts = number + 1;
}

static void on_experts(void *context, int32_t mixture, const int32_t *numbers, int32_t count) {
    trace *t = context;
    for (int32_t i = 0; i < count; i++) add_use(t, mixture, numbers[i]);
    t->steps++;
}

static bool ignore(void *context, int32_t part, int32_t index, const float *logits) {
    (void)context, (void)part, (void)index, (void)logits;
    return true;
}

/* Of the later half of the tokens, when places are full, beside what the plan assumed. */
static void say_what_was_read(const mnem_engine_plan *plan, const mnem_engine_stats *first,
                              const mnem_engine_stats *last, int32_t tokens) {
    const double guessed = (double)(last->expert_guessed - first->expert_guessed);
    const double hits = (double)(last->expert_hits - first->expert_hits) - guessed;
    const double uses = hits + guessed + (double)(last->expert_misses - first->expert_misses);
    const double bytes = (double)(last->bytes_streamed - first->bytes_streamed) / tokens;
    const double planned = (double)plan->bytes_streamed_per_pass;
    if (uses == 0) return;
    printf("engine: %d of %d experts in memory: %.3f of uses found there (planned %.3f), %.3f read "
           "ahead; %.1f MiB a token (planned %.1f, %+.0f %%)\n",
           plan->expert_slots, plan->experts, hits / uses, plan->expert_hit_rate, guessed / uses,
           bytes / (1 << 20), planned / (1 << 20), 100 * (planned / bytes - 1));
}

static void record(const char *path, int32_t tokens, uint64_t memory, trace *t) {
    mnem_model *model;
    mnem_engine_plan plan;
    mnem_engine_options options = {
        .context = tokens, .chunk = 1, .on_experts = on_experts, .on_experts_context = t};
    must(mnem_ledger_create_process(
        &(mnem_ledger_options){.budget_bytes = memory, .own_process = true}, &options.ledger));
    must(mnem_model_open(path, &model));
    must(mnem_engine_plan_make(model, &options, &plan));
    mnem_engine *engine;
    mnem_sequence *sequence;
    mnem_transformer shape;
    must(mnem_model_transformer(model, &shape));
    must(mnem_engine_create(model, &options, &plan, &engine));
    must(mnem_sequence_create(engine, &sequence));
    uint32_t state = 1;
    mnem_engine_stats first, stats;
    for (int32_t i = 0; i < tokens; i++) {
        if (i == tokens / 2) mnem_engine_stats_get(engine, &first);
        state = state * 1103515245u + 12345u;
        const int32_t id = (int32_t)((state >> 8) % (uint32_t)shape.vocab);
        must(mnem_engine_step(engine, &(mnem_step_part){sequence, &id, 1, 0}, 1, ignore, NULL));
    }
    mnem_engine_stats_get(engine, &stats);
    say_what_was_read(&plan, &first, &stats, tokens - tokens / 2);
    mnem_engine_destroy(engine);
    mnem_model_close(model);
    mnem_ledger_destroy(options.ledger);
}

static void save(const trace *t, const char *path) {
    FILE *file = fopen(path, "w");
    if (!file) die("the recording can't be written");
    for (int64_t i = 0; i < t->count; i++) {
        const bool first = i == 0 || t->uses[i].step != t->uses[i - 1].step;
        if (first) fprintf(file, "%s%d", i ? "\n" : "", t->uses[i].mixture);
        fprintf(file, " %d", t->uses[i].number);
    }
    fputc('\n', file);
    fclose(file);
}

static void load(trace *t, const char *path) {
    static char line[LINE];
    FILE *file = fopen(path, "r");
    if (!file) die("no such recording");
    while (fgets(line, sizeof line, file)) {
        char *at = line;
        const int32_t mixture = (int32_t)strtol(at, &at, 10);
        for (char *end; strtol(at, &end, 10), end != at; at = end)
            add_use(t, mixture, (int32_t)strtol(at, NULL, 10));
        t->steps++;
    }
    fclose(file);
}

/* ---- what the recording is like ---- */

static int by_count(const void *a, const void *b) {
    return *(const int32_t *)b - *(const int32_t *)a;
}

/* Means over the mixtures: the part of the uses that the busiest quarter gets, and of a step's
 * experts that were in the step before. */
static void describe(const trace *t) {
    const int64_t all = (int64_t)t->mixtures * t->experts;
    int32_t *counts = zeroed(all, sizeof *counts), *last = zeroed(all, sizeof *last);
    int32_t *turn = zeroed(t->mixtures, sizeof *turn);
    int64_t repeated = 0;
    double quarter = 0;
    for (int64_t i = 0; i < t->count; i++) {
        const use *u = &t->uses[i];
        const int64_t at = (int64_t)u->mixture * t->experts + u->number;
        if (i == 0 || u->step != t->uses[i - 1].step) turn[u->mixture]++;
        repeated += last[at] > 0 && last[at] == turn[u->mixture] - 1;
        last[at] = turn[u->mixture];
        counts[at]++;
    }
    for (int32_t m = 0; m < t->mixtures; m++) {
        int32_t *of = counts + (int64_t)m * t->experts;
        double sum = 0, most = 0;
        qsort(of, (size_t)t->experts, sizeof *of, by_count);
        for (int32_t i = 0; i < t->experts; i++) {
            sum += of[i];
            if (i < t->experts / 4) most += of[i];
        }
        quarter += most / sum / t->mixtures;
    }
    printf("%d mixtures of %d experts, %d steps: the busiest quarter gets %.3f of the uses, %.3f "
           "repeat\n",
           t->mixtures, t->experts, t->steps, quarter, (double)repeated / (double)t->count);
    free(counts);
    free(last);
    free(turn);
}

static void find_next_uses(trace *t) {
    const int64_t all = (int64_t)t->mixtures * t->experts;
    int64_t *next = zeroed(all, sizeof *next);
    for (int64_t i = 0; i < all; i++) next[i] = INT64_MAX;
    for (int64_t i = t->count - 1; i >= 0; i--) {
        const int64_t at = (int64_t)t->uses[i].mixture * t->experts + t->uses[i].number;
        t->uses[i].next = next[at];
        next[at] = i;
    }
    free(next);
}

/* ---- replaying ---- */

typedef enum policy { LRU, LFU, BELADY, OURS, POLICIES } policy;
static const char *const names[POLICIES] = {"LRU", "LFU", "Belady", "mnem"};

/* An expert that is in memory by one of the first three: the one of the lowest rank makes room. */
typedef struct held {
    int64_t expert, rank;
    int32_t step;
} held;

static int64_t rank_of(policy p, const trace *t, int64_t i, int64_t uses) {
    if (p == LRU) return i + 1;
    if (p == LFU) return (uses << 40) + i;
    return t->uses[i].next == INT64_MAX ? INT64_MIN : -t->uses[i].next;
}

static double replay_plain(const trace *t, int32_t slots, policy p) {
    const int64_t all = (int64_t)t->mixtures * t->experts;
    int32_t *place = zeroed(all, sizeof *place); /* slot + 1 */
    int64_t *uses = zeroed(all, sizeof *uses), hits = 0;
    held *slot = zeroed(slots, sizeof *slot);
    int32_t used = 0;
    for (int64_t i = 0; i < t->count; i++) { /* what this step wants stays for it */
        const int64_t e = (int64_t)t->uses[i].mixture * t->experts + t->uses[i].number;
        const bool first = i == 0 || t->uses[i].step != t->uses[i - 1].step;
        for (int64_t j = i; first && j < t->count && t->uses[j].step == t->uses[i].step; j++) {
            const int64_t w = (int64_t)t->uses[j].mixture * t->experts + t->uses[j].number;
            if (place[w]) slot[place[w] - 1].step = t->uses[i].step;
        }
        int32_t at = place[e] - 1;
        uses[e]++;
        hits += at >= 0;
        if (at < 0 && used < slots) at = used++;
        for (int32_t s = 0; place[e] == 0 && used == slots && s < slots; s++)
            if (slot[s].step != t->uses[i].step && (at < 0 || slot[s].rank < slot[at].rank)) at = s;
        if (at < 0) continue;
        if (place[e] == 0 && slot[at].rank) place[slot[at].expert] = 0;
        place[e] = at + 1;
        slot[at] = (held){e, rank_of(p, t, i, uses[e]), t->uses[i].step};
    }
    free(place);
    free(uses);
    free(slot);
    return (double)hits / (double)t->count;
}

static int64_t end_of_step(const trace *t, int64_t i) {
    const int32_t step = t->uses[i].step;
    while (i < t->count && t->uses[i].step == step) i++;
    return i;
}

static double replay_ours(const trace *t, int32_t slots) {
    mnem__expert_cache cache;
    void *base = zeroed(1, mnem__expert_cache_lay_out(NULL, t->mixtures, t->experts, slots, NULL));
    int32_t *numbers = zeroed(t->experts, sizeof *numbers);
    int64_t hits = 0;
    mnem__expert_cache_lay_out(&cache, t->mixtures, t->experts, slots, base);
    mnem__expert_cache_init(&cache);
    for (int64_t i = 0, end; i < t->count; i = end) {
        const int32_t mixture = t->uses[i].mixture;
        end = end_of_step(t, i);
        for (int64_t j = i; j < end; j++) numbers[j - i] = t->uses[j].number;
        mnem__expert_cache_use(&cache, mixture, numbers, (int32_t)(end - i));
        for (int64_t j = i; j < end; j++) {
            const int32_t at = mnem__expert_cache_find(&cache, mixture, t->uses[j].number);
            hits += at >= 0;
            if (at >= 0) cache.slot[at].kept = true;
        }
        for (int64_t j = i; j < end; j++)
            if (mnem__expert_cache_find(&cache, mixture, t->uses[j].number) < 0)
                mnem__expert_cache_take(&cache, mixture, t->uses[j].number);
        for (int64_t j = i; j < end; j++) {
            const int32_t at = mnem__expert_cache_find(&cache, mixture, t->uses[j].number);
            if (at >= 0) mnem__expert_cache_release(&cache, at);
        }
    }
    free(numbers);
    free(base);
    return (double)hits / (double)t->count;
}

static bool replay(trace *t) {
    static const double parts[] = {0.1, 0.2, 0.25, 0.5, 0.75};
    bool kept = true;
    find_next_uses(t);
    printf("%8s", "places");
    for (int p = 0; p < POLICIES; p++) printf("%9s", names[p]);
    printf("\n");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const int32_t slots = (int32_t)(parts[i] * t->mixtures * t->experts);
        double rate[POLICIES];
        printf("%8d", slots);
        for (int p = 0; p < POLICIES; p++) {
            rate[p] = p == OURS ? replay_ours(t, slots) : replay_plain(t, slots, (policy)p);
            printf("%9.3f", rate[p]);
        }
        const double best = rate[LRU] > rate[LFU] ? rate[LRU] : rate[LFU];
        kept = kept && rate[OURS] >= 0.97 * best;
        printf("   %.3f of the better of LRU and LFU\n", rate[OURS] / best);
    }
    return kept;
}

int main(int argc, char **argv) {
    trace t = {0};
    if (argc < 2) die("usage: bench_experts MODEL [TOKENS [MEMORY_MIB [OUT]]] | --replay FILE");
    if (strcmp(argv[1], "--replay") == 0 && argc == 3) {
        load(&t, argv[2]);
    } else {
        const long tokens = argc > 2 ? strtol(argv[2], NULL, 10) : TOKENS_USUAL;
        const long mib = argc > 3 ? strtol(argv[3], NULL, 10) : 0;
        record(argv[1], (int32_t)tokens, (uint64_t)mib << 20, &t);
        if (argc > 4) save(&t, argv[4]);
    }
    if (t.count == 0) die("nothing was recorded: all experts are resident, or there are none");
    describe(&t);
    const bool kept = replay(&t);
    free(t.uses);
    return kept ? 0 : 1;
}
