/* verb_bench.c: `mnem bench`: the speed of a model, and what this machine could give.
 *
 * pp: a prompt of N tokens from an empty context. tg: N tokens one by one from an empty context
 * (verbs/measure/speed.h).
 *
 * The machine: bandwidths of memory and disk (verbs/measure/machine.h); multiply-accumulates per
 * second are what the prompt reached. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ranks/link.h"
#include "ranks/ranks.h"
#include "sight/history_file.h"
#include "verbs/measure/bench.h"
#include "verbs/measure/machine.h"
#include "verbs/measure/other_load.h"
#include "verbs/measure/speed.h"

enum { PROMPT_TOKENS = 512, TOKENS = 128, REPEATS = 3 };

/* ---- the machine ---- */

/* The profile is of all processors: with fewer threads what of it is the machine's is measured,
 * and kept as long as there is none of more (profile_age.h); what the model reached is kept with
 * its threads. Of several ranks nothing is kept, since what they reach together isn't one
 * machine's. */
static int32_t threads_measured(const bench *b) {
    const int32_t threads = b->stage->asked->threads;
    return threads == tool_processors() ? 0 : threads;
}

static int measure_machine(bench *b) {
    tool_stage *stage = b->stage;
    mnem_machine_profile *p = &stage->profile;
    const int32_t threads = threads_measured(b);
    if (threads == b->age.threads && p->read_bytes_per_s > 0 && !b->asked->refresh) return TOOL_OK;
    if (threads != b->age.threads) *p = (mnem_machine_profile){0};
    b->measured = true;
    b->age.threads = threads;
    int code = tool_machine_loaded(stage, &p->read_bytes_per_s, &b->age);
    if (code == TOOL_OK) p->disk_bytes_per_s = tool_machine_disk(stage);
    b->age.read_bytes_per_s = p->read_bytes_per_s;
    return code;
}

static int measure_again(bench *b) {
    const double reached = b->bytes_per_token * bench_best(&b->generated);
    b->peak_bytes = tool_peak_bytes();
    if (threads_measured(b) > 0 || tool_ranks() || !bench_is_beaten(b)) return TOOL_OK;
    if (!tool_profile_is_due(&b->age, (double)time(NULL))) return TOOL_OK;
    const int code = tool_machine_again(b->stage, &b->age);
    if (b->age.again_at > 0) b->beaten = reached;
    b->age.read_bytes_per_s = b->stage->profile.read_bytes_per_s;
    return code;
}

/* ---- the model ---- */

static void count_work(bench *b) {
    const tool_token_work work = tool_token_work_of(b->stage->model, &b->stage->transformer);
    b->bytes_per_token = work.bytes;
    b->macs_per_token = work.macs;
    b->head_macs = work.head_macs;
    b->sparse = work.sparse;
}

static mnem_status run_lengths(bench *b, bench_lengths *of, tool_speed *measure) {
    mnem_status status = MNEM_OK;
    for (int i = 0; i < of->count && status == MNEM_OK; i++)
        status = measure(b->stage, of->tokens[i], b->repeats, &of->rate[i]);
    return status;
}

/* Multiply-adds a second in the prompts; the output matrix is the last token's only. */
static double prompt_macs(const bench *b) {
    double best = 0;
    for (int i = 0; i < b->prompt.count; i++) {
        const double of_token =
            b->macs_per_token - b->head_macs + b->head_macs / b->prompt.tokens[i];
        best = fmax(best, b->prompt.rate[i] * of_token);
    }
    return best;
}

static int measure_model(bench *b) {
    tool_load_times before, after;
    const bool known = tool_load_get(&before);
    count_work(b);
    mnem_status status = run_lengths(b, &b->prompt, tool_speed_prompt);
    if (status == MNEM_OK) status = run_lengths(b, &b->generated, tool_speed_tokens);
    b->together = b->generated;
    if (b->asked->sequences < 2) b->together.count = 0;
    if (status == MNEM_OK) status = run_lengths(b, &b->together, tool_speed_together);
    if (status != MNEM_OK) return tool_fail(status);
    b->model_load = known && tool_load_get(&after) ? tool_load_share(&before, &after) : -1;
    mnem_machine_profile *p = &b->stage->profile;
    const double macs = prompt_macs(b);
    if (b->sparse && p->macs_per_s > 0) return TOOL_OK; /* the profile is of dense ones */
    if (macs > 0 && (b->asked->refresh || macs > p->macs_per_s)) p->macs_per_s = macs;
    return TOOL_OK;
}

/* The prompt tokens a second that products of the model's weights allow on these threads: each type
 * at its limit (mnem_probe_product_limit), nothing beside products, no output matrix. 0: unknown,
 * since a type has no limit or products leave out zeros. */
static double prompt_limit(const bench *b) {
    enum { PASSES_MS = 60 };
    const tool_token_work work = tool_token_work_of(b->stage->model, &b->stage->transformer);
    double seconds = 0;
    if (tool_ranks() || work.sparse || !b->prompt.count) return 0;
    for (int type = 0; type < TOOL_WORK_TYPES; type++) {
        if (!(work.macs_of[type] > 0)) continue;
        const double limit =
            mnem_probe_product_limit((mnem_type)type, b->stage->plan.threads, 1e-3 * PASSES_MS);
        if (!(limit > 0)) return 0;
        seconds += work.macs_of[type] / limit;
    }
    return seconds > 0 ? 1 / seconds : 0;
}

/* ---- the way in ---- */

static int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

/* "64,128": numbers with commas between; 0 is none. */
static int read_lengths(const char *name, const char *text, bench_lengths *of) {
    for (const char *at = text; at;) {
        char *end;
        const long long n = strtoll(at, &end, 10);
        if (end == at || (*end && *end != ','))
            return tool_usage("bench", "--%s takes whole numbers separated by commas, not \"%s\"",
                              name, text);
        if (n < 0 || n > TOOL_SPEED_MOST)
            return tool_usage(
                "bench", "--%s has the length %lld; it must be from 0 (not measured) to %d tokens",
                name, n, TOOL_SPEED_MOST);
        if (of->count == BENCH_LENGTHS)
            return tool_usage("bench", "--%s has too many lengths; it takes at most %d", name,
                              BENCH_LENGTHS);
        if (n) of->tokens[of->count++] = (int32_t)n;
        at = *end ? end + 1 : NULL;
    }
    return TOOL_OK;
}

static int32_t longest(const bench_lengths *of) {
    int32_t most = 0;
    for (int i = 0; i < of->count; i++)
        if (of->tokens[i] > most) most = of->tokens[i];
    return most;
}

/* The lengths asked for, within the context; without --ctx just as much context as they need. */
static int choose_lengths(bench *b) {
    const bench_options *o = b->asked;
    const int32_t asked_context = o->session.context;
    const int32_t most = asked_context ? asked_context : b->stage->transformer.context;
    b->repeats = o->repeats ? o->repeats : REPEATS;
    b->prompt = (bench_lengths){{least(PROMPT_TOKENS, most)}, {0}, 1};
    b->generated = (bench_lengths){{least(TOKENS, most)}, {0}, 1};
    if (o->prompt_tokens) b->prompt = (bench_lengths){{0}, {0}, 0};
    if (o->tokens) b->generated = (bench_lengths){{0}, {0}, 0};
    int code = read_lengths("pp", o->prompt_tokens, &b->prompt);
    if (code == TOOL_OK) code = read_lengths("tg", o->tokens, &b->generated);
    if (code != TOOL_OK) return code;
    const int32_t p = longest(&b->prompt), g = longest(&b->generated), long_one = p > g ? p : g;
    if (!long_one)
        return tool_usage(
            "bench", "--pp 0 and --tg 0 leave nothing to measure: set one of them to at least 1");
    if (long_one > most)
        return tool_usage("bench",
                          "the longest test of --pp and --tg has %d tokens, but the context has "
                          "%d: use shorter lengths or a larger --ctx",
                          long_one, most);
    if (!asked_context) b->stage->options.context = long_one;
    return TOOL_OK;
}

/* The longest of each kind, at its best. */
static void keep(const bench *b) {
    const mnem_engine_plan *p = &b->stage->plan;
    const bench_lengths *of[] = {&b->prompt, &b->generated};
    mnem_history_run run = {.context_used = p->context};
    mnem_engine_stats s;
    mnem_session_stats_get(b->stage->session, &s);
    tool_history_stage(b->stage, &s, &run);
    if (b->measured) run.predicted_bytes = 0;
    for (int i = 0; i < 2; i++) {
        if (!of[i]->count) continue;
        const int last = of[i]->count - 1;
        const double seconds = of[i]->tokens[last] / of[i]->rate[last];
        tool_history_phase(&run, (mnem_phase)i, (uint64_t)of[i]->tokens[last], seconds, 0,
                           i ? p->predicted_generate : p->predicted_prompt);
        tool_history_work(b->stage, (mnem_phase)i, 0.5 * of[i]->tokens[last], &run);
        run.seconds += seconds;
    }
    tool_history_add(b->stage->args, &run);
}

/* What a rank takes beside what its plan places. */
static uint64_t rank_bytes(const mnem_engine_plan *plan) {
    uint64_t bytes = 0;
    for (unsigned i = 0; i < plan->lines; i++)
        if (strcmp(plan->line[i].tag, "code and libraries") == 0 ||
            strcmp(plan->line[i].tag, "MPI") == 0)
            bytes += plan->line[i].bytes;
    return bytes;
}

/* What ranks reach is predicted by what one process does. Products of 2:4 take less time, so that
 * they say nothing of others. true: what is kept was measured under less load, and stays. */
static bool keep_reached(const bench *b) {
    bool kept_old = false;
    if (tool_ranks() || b->sparse) return false;
    const double generated = b->bytes_per_token * bench_best(&b->generated);
    const tool_reached reached = {.threads = b->asked->session.threads,
                                  .token_bytes = b->bytes_per_token,
                                  .rates = {generated, prompt_macs(b), b->model_load}};
    (void)tool_reached_save(&reached, &kept_old);
    return kept_old;
}

/* true: what is kept was measured under less load, and stays. What a run has beaten is too low in
 * any case. */
static bool keep_machine(const bench *b) {
    tool_profile_age kept;
    tool_profile_age_load(&kept);
    if (tool_ranks()) return false;
    if (b->beaten > 0 || tool_profile_replaces(&b->age, &kept)) {
        if (tool_profile_save(&b->stage->profile)) tool_profile_age_save(&b->age);
        return false;
    }
    if (b->age.read_bytes_per_s <= 0 && kept.read_bytes_per_s <= 0)
        tool_message("the machine profile is not stored, because the budget is too small to "
                     "measure the bandwidth of reads; mnem bench without --memory measures it");
    return b->age.read_bytes_per_s > 0 && b->age.threads == kept.threads;
}

static void keep_all(const bench *b) {
    const bool machine = keep_machine(b), reached = keep_reached(b);
    if (!machine && !reached) return;
    tool_message("this measurement (%s) is not stored, because other programs used %.0f %% of the "
                 "processors, and the stored measurement was made under less load",
                 machine && reached ? "profile and speed"
                 : machine          ? "machine profile"
                                    : "model's speed",
                 100 * (machine ? b->age.load : b->model_load));
}

/* One that was made slow says nothing of the machine. */
static void keep_link(const bench *b) {
    const tool_link_kept kept = {b->link, rank_bytes(&b->stage->plan)};
    if (tool_ranks() && !b->asked->session.link) tool_link_save(&kept);
}

/* On all ranks. */
static int measure_link(bench *b) {
    const char *asked = b->asked->session.link;
    mnem_comm_link slow;
    if (!tool_ranks())
        return asked ? tool_usage("bench", "--link needs several ranks: start mpirun -n N mnem "
                                           "bench, or leave out --link")
                     : TOOL_OK;
    const int code = asked ? tool_link_parse("bench", asked, &slow) : TOOL_OK;
    if (code != TOOL_OK) return code;
    mnem_status status = asked ? tool_ranks_slow(&slow) : MNEM_OK;
    if (status == MNEM_OK) status = tool_link_measure(tool_ranks(), &b->link);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

static int run_bench(bench *b) {
    tool_stage *stage = b->stage;
    int code = choose_lengths(b);
    if (b->asked->sequences) stage->options.sequences = b->asked->sequences;
    if (tool_ranks()) stage->options.link = b->link;
    if (code == TOOL_OK) code = tool_stage_plan(stage);
    if (code != TOOL_OK) return code;
    if (!stage->args->quiet && !stage->args->json) {
        tool_report_model(stderr, stage);
        fprintf(stderr, "%d thread%s, KV %s, context %d, weights %s; best of %d\n",
                stage->plan.threads, tool_s((uint64_t)stage->plan.threads),
                mnem_kv_text(stage->plan.kv), stage->plan.context,
                stage->plan.streamed ? "streamed" : "resident", b->repeats);
    }
    code = measure_machine(b);
    if (code == TOOL_OK) code = tool_stage_create(stage);
    if (code == TOOL_OK) code = measure_model(b);
    if (code != TOOL_OK) return code;
    keep(b);
    code = measure_again(b);
    if (code != TOOL_OK) return code;
    b->prompt_limit = prompt_limit(b);
    keep_all(b);
    keep_link(b);
    bench_print(b);
    return tool_out_end();
}

static int verb_bench(const tool_args *args) {
    static tool_stage stage;
    bench b = {.asked = (const bench_options *)args, .stage = &stage};
    tool_profile_age_load(&b.age);
    tool_interrupt_watch(NULL);
    int code = measure_link(&b);
    if (code != TOOL_OK) return code;
    code = tool_stage_open(args, &b.asked->session, &stage);
    if (code == TOOL_OK && tool_ranks_follows()) return tool_stage_follow(&stage);
    if (code == TOOL_OK) code = tool_stage_needs_text(&stage);
    if (code == TOOL_OK) code = run_bench(&b);
    code = tool_stage_end_trace(&stage, code);
    tool_stage_close(&stage);
    return code;
}

/* ---- the command line ---- */

#define AT(field) offsetof(bench_options, field)
static const tool_option options[] = {
    TOOL_GROUP(tool_model_options, 0),
    TOOL_GROUP(tool_memory_options, AT(session.memory)),
    TOOL_CTX_OPTION(AT(session.context), "as many as the longest test of --pp and --tg has"),
    TOOL_GROUP(tool_pass_options, AT(session)),
    TOOL_GROUP(tool_lora_options, AT(session)),
    TOOL_GROUP(tool_page_cache_options, AT(session)),
    TOOL_GROUP(tool_cut_options, AT(session)),
    {"pp", 'p', "N,...", TOOL_VALUE_TEXT, AT(prompt_tokens), .also = "n-prompt prompt",
     .help = "prompt lengths to measure, separated by commas; 0: none (default: 512)"},
    {"tg", 'n', "N,...", TOOL_VALUE_TEXT, AT(tokens), .also = "n-gen tokens n-predict",
     .help = "numbers of generated tokens to measure, separated by commas; 0: none (default: 128)"},
    {"repeats", 'r', "N", TOOL_VALUE_COUNT, AT(repeats), .least = 1, .most = 1000,
     .also = "repetitions", .help = "measure N times and show the fastest (default: 3)"},
    {"sequences", 0, "N", TOOL_VALUE_COUNT, AT(sequences), .least = 1, .most = 256,
     .also = "n-parallel npl",
     .help = "also measure N sequences that are generated at once (default: 1, one sequence only)"},
    {"link", 0, "RATE,LATENCY", TOOL_VALUE_TEXT, AT(session.link),
     .help = "under mpirun: delay every message between ranks as a network of this bandwidth and "
             "latency would, such as 1Gbit/s,0.1ms, or one of the two, to measure the speed on a "
             "slower network (default: no delay)"},
    {"refresh", 0, NULL, TOOL_VALUE_FLAG, AT(refresh),
     .help = "measure the machine again, even if its profile is stored"},
    TOOL_GROUP(tool_trace_options, AT(session.trace)),
    TOOL_GROUP(tool_history_options, AT(no_history)),
    TOOL_JSON_OPTION("one object"),
    TOOL_GROUP(tool_quiet_options, 0),
    {0},
};

static bench_options asked;
TOOL_VERB(
    bench, "[MODEL]", 0, 1, "measure the speed of a model and of this machine",
    "Measures, in tokens per second, the speed of processing a prompt (pp512: a prompt of 512\n"
    "tokens) and of generation (tg128: 128 generated tokens), the share of this machine's memory\n"
    "bandwidth that generation reaches, and the share of the limit of the products that the "
    "prompt\n"
    "reaches: a loop over blocks of weights in the L1 cache, of the model's types.\n"
    "\n"
    "The machine is measured once. The results are stored in its profile\n"
    "($XDG_CACHE_HOME/mnem/profile.json, by default in ~/.cache), from which mnem plan predicts\n"
    "speeds. The profile also stores the speed of this model for this number of threads: to plan\n"
    "runs with one thread, run bench with --threads 1 first. Under mpirun (MPI's launcher, which\n"
    "starts several processes, the ranks, each with a share of the model) it also stores the\n"
    "latency and bandwidth of the slowest link between two consecutive ranks, for mnem plan\n"
    "--ranks.\n"
    "\n"
    "A bandwidth that is measured while other processes use the processors is too low. bench\n"
    "shows their share of the processors' time beside it, mnem plan mentions it too, and such a\n"
    "measurement never replaces one of a quiet machine. If generation reads more bytes per\n"
    "second than the stored bandwidth, the bandwidth is measured again, at most once a day, and\n"
    "the higher value is kept. This applies to models that read more than four times the size\n"
    "of the last-level cache per token, because smaller ones are partly read from the cache.\n",
    "mnem bench model.gguf  # measure 512 prompt tokens, and 128 generated ones\n"
    "mnem bench model.gguf --threads 1 --repeats 5  # one thread, best of five\n"
    "mnem bench model.gguf -p 64,512 -n 0  # two prompt lengths only\n"
    "mnem bench model.gguf --refresh  # measure the machine again\n");
