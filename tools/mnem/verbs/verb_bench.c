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
#include "sight/roofline.h"
#include "verbs/measure/machine.h"
#include "verbs/measure/speed.h"

enum { PROMPT_TOKENS = 512, TOKENS = 128, REPEATS = 3, LENGTHS_MAX = 8 };

typedef struct bench_options {
    tool_args args;
    tool_session_asked session;
    const char *prompt_tokens, *tokens; /* lists */
    int32_t repeats;                    /* 0: not given */
    int32_t sequences;                  /* 0: one */
    bool refresh, no_history;
} bench_options;

/* What is measured at several lengths. */
typedef struct lengths {
    int32_t tokens[LENGTHS_MAX]; /* none is 0 */
    double rate[LENGTHS_MAX];    /* tokens per second, the best */
    int count;
} lengths;

typedef struct bench {
    const bench_options *asked;
    tool_stage *stage;
    lengths prompt, generated, together; /* together: of all sequences */
    mnem_comm_link link;                 /* between ranks, measured */
    int32_t repeats;
    double bytes_per_token;           /* weights that one token reads */
    double macs_per_token, head_macs; /* tool_token_work */
    bool sparse;                      /* some are 2:4, whose products take less time */
    bool measured; /* the machine, too: in more memory than is planned for the model */
    tool_profile_age age;
    double beaten;       /* what the run read a second when the profile was measured again; 0 */
    uint64_t peak_bytes; /* of the process, before that */
} bench;

/* ---- the machine ---- */

static double best_rate(const lengths *of) {
    double best = 0;
    for (int i = 0; i < of->count; i++)
        if (of->rate[i] > best) best = of->rate[i];
    return best;
}

/* The profile is of all processors: with fewer threads what of it is the machine's is measured,
 * neither used nor kept; what the model reached is kept with its threads. Of several ranks nothing
 * is kept, since what they reach together isn't one machine's. */
static bool of_machine(const tool_stage *stage) {
    return stage->asked->threads == 0;
}

static int measure_machine(bench *b) {
    tool_stage *stage = b->stage;
    mnem_machine_profile *p = &stage->profile;
    if (!of_machine(stage))
        *p = (mnem_machine_profile){0};
    else if (p->read_bytes_per_s > 0 && !b->asked->refresh)
        return TOOL_OK;
    b->measured = true;
    int code = tool_machine_loaded(stage, &p->read_bytes_per_s, &b->age);
    if (code == TOOL_OK) p->disk_bytes_per_s = tool_machine_disk(stage);
    return code;
}

/* Generation read so many bytes a second that the profile is too low, and caches are not why. */
static bool is_beaten(const bench *b) {
    return tool_profile_is_beaten(b->stage->profile.read_bytes_per_s,
                                  b->bytes_per_token * best_rate(&b->generated), b->bytes_per_token,
                                  tool_profile_cache(&b->age));
}

static int measure_again(bench *b) {
    const double reached = b->bytes_per_token * best_rate(&b->generated);
    b->peak_bytes = tool_peak_bytes();
    if (!of_machine(b->stage) || tool_ranks() || !is_beaten(b)) return TOOL_OK;
    if (!tool_profile_is_due(&b->age, (double)time(NULL))) return TOOL_OK;
    const int code = tool_machine_again(b->stage, &b->age);
    if (b->age.again_at > 0) b->beaten = reached;
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

static mnem_status run_lengths(bench *b, lengths *of, tool_speed *measure) {
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
    count_work(b);
    mnem_status status = run_lengths(b, &b->prompt, tool_speed_prompt);
    if (status == MNEM_OK) status = run_lengths(b, &b->generated, tool_speed_tokens);
    b->together = b->generated;
    if (b->asked->sequences < 2) b->together.count = 0;
    if (status == MNEM_OK) status = run_lengths(b, &b->together, tool_speed_together);
    if (status != MNEM_OK) return tool_fail(status);
    mnem_machine_profile *p = &b->stage->profile;
    const double macs = prompt_macs(b);
    if (b->sparse && p->macs_per_s > 0) return TOOL_OK; /* the profile is of dense ones */
    if (macs > 0 && (b->asked->refresh || macs > p->macs_per_s)) p->macs_per_s = macs;
    return TOOL_OK;
}

/* ---- the report ---- */

/* The part of the read bandwidth that generation at this rate reaches; 0: not known. */
static double fraction(const bench *b, double rate) {
    double read = b->stage->profile.read_bytes_per_s;
    return read > 0 && !tool_profile_is_loaded(&b->age) ? b->bytes_per_token * rate / read : 0;
}

static void print_generation(const bench *b, int32_t tokens, double rate) {
    char name[24], size[TOOL_TEXT];
    snprintf(name, sizeof name, "tg%d", tokens);
    tool_outf("%-16s %10.1f tokens/s   %s a token: %.1f GB/s", name, rate,
              tool_size((uint64_t)b->bytes_per_token, size), b->bytes_per_token * rate / 1e9);
    if (fraction(b, rate) > 0) tool_outf(", %.0f %% of read bandwidth", 100 * fraction(b, rate));
    if (tool_profile_is_loaded(&b->age) && !is_beaten(b))
        tool_outf("; read bandwidth was measured under load: --refresh measures it again");
    tool_outf("%s\n", is_beaten(b)            ? " (the profile is too low)"
                      : fraction(b, rate) > 1 ? " (caches help)"
                                              : "");
}

static void print_together(const bench *b) {
    for (int i = 0; i < b->together.count; i++) {
        char name[40];
        snprintf(name, sizeof name, "tg%d x %d", b->together.tokens[i], b->asked->sequences);
        tool_outf("%-16s %10.1f tokens/s   all sequences together\n", name, b->together.rate[i]);
    }
}

/* Between ranks, and what the plan said with it. */
static void print_ranks(const bench *b) {
    const mnem_engine_plan *p = &b->stage->plan;
    char link[TOOL_TEXT];
    if (!tool_ranks()) return;
    tool_outf("%-16s %s: the slowest of %d\n", "link of ranks", tool_link_text(&b->link, link),
              mnem_comm_size(tool_ranks()) - 1);
    if (p->predicted_generate > 0)
        tool_outf("%-16s %10.1f tokens/s, prompt %.1f tokens/s\n", "predicted",
                  p->predicted_generate, p->predicted_prompt);
}

/* When, and beside what: one measured beside others is too low. */
static void print_age(const tool_profile_age *age) {
    char when[24] = "";
    const time_t at = (time_t)age->measured_at;
    struct tm local;
    if (age->measured_at > 0 && localtime_r(&at, &local))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M", &local);
    tool_outf("        %s%s", *when ? "measured " : "measured at an unknown time", when);
    if (age->load < 0)
        tool_outf(", load not known\n");
    else
        tool_outf(", others took %.0f %% of the processors\n", 100 * age->load);
}

static void print_machine(const bench *b) {
    const mnem_machine_profile *p = &b->stage->profile;
    if (p->read_bytes_per_s > 0) {
        tool_outf("%-16s %10.1f GB/s", "read bandwidth", p->read_bytes_per_s / 1e9);
        print_age(&b->age);
    } else
        tool_outf("%-16s %10s            the budget is too small to measure it\n", "read bandwidth",
                  "-");
    if (p->disk_bytes_per_s > 0)
        tool_outf("%-16s %10.2f GB/s       past the page cache\n", "disk bandwidth",
                  p->disk_bytes_per_s / 1e9);
    tool_outf("%-16s %10.1f GMAC/s     in prompts\n", "arithmetic", p->macs_per_s / 1e9);
    if (b->beaten > 0)
        tool_outf("%-16s %10.1f GB/s       were read by this run, more than the profile had\n",
                  "measured again", b->beaten / 1e9);
}

/* How near it comes to what the kept probe allows, if there is one. */
static void print_most(const bench *b) {
    roofline_most most;
    if (!of_machine(b->stage) || !roofline_most_get(b->stage, &most)) return;
    const double prompt = best_rate(&b->prompt), generated = best_rate(&b->generated);
    tool_outf("%-16s", "of the roofline");
    if (prompt > 0 && most.prompt > 0)
        tool_outf(" %9.0f %% in prompts", 100 * prompt / most.prompt);
    if (generated > 0 && most.generate > 0)
        tool_outf(" %9.0f %% in generation", 100 * generated / most.generate);
    tool_outf("   %.1f GB/s from %s, %.0f GOP/s of int8: %s\n", most.level_rate / 1e9, most.level,
              most.int8_rate / 1e9, most.when);
}

static void print_table(const bench *b) {
    char name[24];
    for (int i = 0; i < b->prompt.count; i++) {
        snprintf(name, sizeof name, "pp%d", b->prompt.tokens[i]);
        tool_outf("%-16s %10.1f tokens/s\n", name, b->prompt.rate[i]);
    }
    for (int i = 0; i < b->generated.count; i++)
        print_generation(b, b->generated.tokens[i], b->generated.rate[i]);
    print_together(b);
    print_ranks(b);
    print_machine(b);
    print_most(b);
}

/* Of one prompt's length and one of generation; 0: not measured. */
static void print_object(const bench *b, int32_t prompt, double prompt_rate, int32_t tokens,
                         double rate, double together) {
    const mnem_machine_profile *p = &b->stage->profile;
    tool_out_json(
        "bench",
        json_pack("{s:o?, s:i, s:i, s:o, s:i, s:o, s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:i, s:o, "
                  "s:o, s:o, s:o, s:o, s:o, s:o, s:b}",
                  "model", json_string(tool_model_path(b->stage->args)), "threads",
                  b->stage->plan.threads, "prompt_tokens", prompt, "prompt_tokens_per_s",
                  tool_json_known(prompt_rate), "tokens", tokens, "tokens_per_s",
                  tool_json_known(rate), "bytes_per_token", (json_int_t)b->bytes_per_token,
                  "read_bytes_per_s", tool_json_known(p->read_bytes_per_s), "disk_bytes_per_s",
                  tool_json_known(p->disk_bytes_per_s), "macs_per_s",
                  tool_json_known(p->macs_per_s), "read_fraction",
                  tool_json_known(fraction(b, rate)), "vmhwm", (json_int_t)b->peak_bytes,
                  "predicted_peak", (json_int_t)b->stage->plan.peak_bytes, "sequences",
                  b->asked->sequences ? b->asked->sequences : 1, "together_tokens_per_s",
                  tool_json_known(together), "link_seconds", tool_json_known(b->link.seconds),
                  "link_bytes_per_s", tool_json_known(b->link.bytes_per_second),
                  "predicted_tokens_per_s", tool_json_known(b->stage->plan.predicted_generate),
                  "predicted_prompt_tokens_per_s", tool_json_known(b->stage->plan.predicted_prompt),
                  "profile_measured_at", tool_json_known(b->age.measured_at), "profile_load",
                  b->age.load < 0 ? json_null() : json_real(b->age.load), "profile_measured_again",
                  b->beaten > 0));
}

/* An object for each pair of lengths; one that isn't measured is 0, with no rate. */
static void print_json(const bench *b) {
    const lengths *p = &b->prompt, *g = &b->generated;
    for (int i = 0; i < p->count || i == 0; i++)
        for (int k = 0; k < g->count || k == 0; k++)
            print_object(b, p->tokens[i], p->rate[i], g->tokens[k], g->rate[k],
                         b->together.count ? b->together.rate[k] : 0);
}

/* ---- the way in ---- */

static int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

/* "64,128": numbers with commas between; 0 is none. */
static int read_lengths(const char *name, const char *text, lengths *of) {
    for (const char *at = text; at;) {
        char *end;
        const long long n = strtoll(at, &end, 10);
        if (end == at || (*end && *end != ','))
            return tool_usage("bench", "--%s takes whole numbers separated by commas, not \"%s\"",
                              name, text);
        if (n < 0 || n > TOOL_SPEED_MOST)
            return tool_usage("bench", "--%s is %lld; a length must be from 0 (not measured) to %d",
                              name, n, TOOL_SPEED_MOST);
        if (of->count == LENGTHS_MAX)
            return tool_usage("bench", "--%s takes at most %d lengths", name, LENGTHS_MAX);
        if (n) of->tokens[of->count++] = (int32_t)n;
        at = *end ? end + 1 : NULL;
    }
    return TOOL_OK;
}

static int32_t longest(const lengths *of) {
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
    b->prompt = (lengths){{least(PROMPT_TOKENS, most)}, {0}, 1};
    b->generated = (lengths){{least(TOKENS, most)}, {0}, 1};
    if (o->prompt_tokens) b->prompt = (lengths){{0}, {0}, 0};
    if (o->tokens) b->generated = (lengths){{0}, {0}, 0};
    int code = read_lengths("pp", o->prompt_tokens, &b->prompt);
    if (code == TOOL_OK) code = read_lengths("tg", o->tokens, &b->generated);
    if (code != TOOL_OK) return code;
    const int32_t p = longest(&b->prompt), g = longest(&b->generated), long_one = p > g ? p : g;
    if (!long_one) return tool_usage("bench", "with --pp 0 and --tg 0 there is nothing to measure");
    if (long_one > most)
        return tool_usage("bench", "the longest test has %d tokens, but the context has %d",
                          long_one, most);
    if (!asked_context) b->stage->options.context = long_one;
    return TOOL_OK;
}

/* The longest of each kind, at its best. */
static void keep(const bench *b) {
    const mnem_engine_plan *p = &b->stage->plan;
    const lengths *of[] = {&b->prompt, &b->generated};
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
 * they say nothing of others. */
static void keep_reached(const bench *b) {
    if (tool_ranks() || b->sparse) return;
    tool_reached_save(
        &(tool_reached){.threads = b->asked->session.threads,
                        .token_bytes = b->bytes_per_token,
                        .generate_bytes_per_s = b->bytes_per_token * best_rate(&b->generated),
                        .macs_per_s = prompt_macs(b)});
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
        return asked ? tool_usage("bench", "--link needs several ranks: mpirun -n N mnem bench")
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
                tool_kv_text(stage->plan.kv_type), stage->plan.context,
                stage->plan.streamed ? "streamed" : "resident", b->repeats);
    }
    code = measure_machine(b);
    if (code == TOOL_OK) code = tool_stage_create(stage);
    if (code == TOOL_OK) code = measure_model(b);
    if (code != TOOL_OK) return code;
    keep(b);
    code = measure_again(b);
    if (code != TOOL_OK) return code;
    if (of_machine(stage) && !tool_ranks() && tool_profile_save(&stage->profile))
        tool_profile_age_save(&b->age);
    keep_reached(b);
    keep_link(b);
    if (stage->args->json)
        print_json(b);
    else
        print_table(b);
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
    if (code == TOOL_OK && tool_ranks_follows()) {
        code = tool_stage_follow(&stage);
        tool_stage_close(&stage);
        return code;
    }
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
    TOOL_GROUP(tool_session_options, AT(session)),
    TOOL_GROUP(tool_cut_options, AT(session)),
    {"pp", 'p', "N,...", TOOL_VALUE_TEXT, AT(prompt_tokens), .also = "n-prompt prompt",
     .help = "prompt length to measure, or several; 0: none (default: 512)"},
    {"tg", 'n', "N,...", TOOL_VALUE_TEXT, AT(tokens), .also = "n-gen tokens n-predict",
     .help = "number of generated tokens to measure, or several; 0: none (default: 128)"},
    {"repeats", 'r', "N", TOOL_VALUE_COUNT, AT(repeats), .least = 1, .most = 1000,
     .also = "repetitions", .help = "measure N times and show the best (default: 3)"},
    {"sequences", 0, "N", TOOL_VALUE_COUNT, AT(sequences), .least = 1, .most = 256,
     .also = "n-parallel npl",
     .help = "also measure N sequences that are generated at once (default: 1, one sequence only)"},
    {"link", 0, "RATE,LATENCY", TOOL_VALUE_TEXT, AT(session.link),
     .help = "under mpirun: limit the links between ranks to this bandwidth and latency, such as "
             "1Gbit/s,0.1ms, to imitate a slower network"},
    {"refresh", 0, NULL, TOOL_VALUE_FLAG, AT(refresh),
     .help = "measure the machine again, even if its profile is stored"},
    TOOL_GROUP(tool_trace_options, AT(session.trace)),
    TOOL_GROUP(tool_history_options, AT(no_history)),
    TOOL_GROUP(tool_json_options, 0),
    TOOL_GROUP(tool_quiet_options, 0),
    {0},
};

static bench_options asked;
TOOL_VERB(
    bench, "[MODEL]", 0, 1, "measure the speed of a model and of this machine",
    "Measures the speed of a prompt (pp) and of generation (tg), and the share of this\n"
    "machine's read bandwidth that generation reaches. The machine is measured once, and its\n"
    "profile is stored in $XDG_CACHE_HOME/mnem/profile.json, which `mnem plan` reads. The\n"
    "profile also has the speed of this model with this number of threads: for plans of one\n"
    "thread, run bench with --threads 1. Under mpirun it also has the latency and bandwidth of\n"
    "the slowest link between two consecutive ranks, for mnem plan --ranks.\n"
    "The read bandwidth is shown with the share of the processors' time that other processes\n"
    "used while it was measured: a value measured under load is too low. If generation reads\n"
    "more bytes a second than the stored bandwidth, and a token needs more than four times the\n"
    "bytes of the last-level cache (so that the cache can't explain it), the bandwidth is\n"
    "measured again, at most once a day; the higher value is kept.\n",
    "mnem bench model.gguf  # pp512 and tg128\n"
    "mnem bench model.gguf --threads 1 --repeats 5  # one thread, best of five\n"
    "mnem bench model.gguf -p 64,512 -n 0  # two prompt lengths only\n"
    "mnem bench model.gguf --refresh  # measure the machine again\n");
