/* verb_replay.c: `mnem replay`: what each policy would have cost on a real trace.
 *
 * For each trace: read it, run every policy through mnem/replay.h, print what a snapshot says
 * beside (replay_snapshot.h), a table, verdicts and advice; a map (--svg) and a timeline are made
 * by one more replay of the first policy. */
#include <string.h>

#include "sight/recording.h"
#include "verbs/replay/replay_snapshot.h"

/* ---- which policies ---- */

static int add_policy(replay_case *c, const char *name) {
    for (int i = 0; i < c->policies; i++)
        if (strcmp(c->names[i], name) == 0) return TOOL_OK;
    if (c->policies == REPLAY_POLICIES_MAX)
        return tool_usage("replay",
                          "--policy has more than %d names, the most that it takes: leave some out",
                          REPLAY_POLICIES_MAX);
    c->names[c->policies++] = name;
    return TOOL_OK;
}

static int add_all(replay_case *c) {
    const char *name;
    int code = TOOL_OK;
    for (unsigned i = 0; code == TOOL_OK && (name = mnem_replay_target_name(i)); i++)
        code = add_policy(c, name);
    return code;
}

/* The name as the library spells it, which lives on; NULL: there is none. */
static const char *known_name(const char *word, size_t length) {
    const char *name;
    for (unsigned i = 0; (name = mnem_replay_target_name(i)); i++)
        if (strlen(name) == length && strncmp(name, word, length) == 0) return name;
    return NULL;
}

static int wrong_policy(const char *word, size_t length) {
    char names[256] = "";
    const char *name;
    for (unsigned i = 0; (name = mnem_replay_target_name(i)); i++) {
        const size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, " %s", name);
    }
    return tool_usage(
        "replay",
        "--policy does not know \"%.*s\"; it takes all, or a list, separated by commas, of%s",
        (int)(length < 40 ? length : 40), word, names);
}

/* "a,b"; "all". Without: ours, and what is around. */
static int choose_policies(replay_case *c) {
    const char *text = c->asked->policy ? c->asked->policy : "mnem,tlsf,best-fit,pytorch";
    for (;;) {
        const size_t n = strcspn(text, ",");
        const char *name = known_name(text, n);
        int code = TOOL_OK;
        if (n == 3 && strncmp(text, "all", 3) == 0)
            code = add_all(c);
        else if (name)
            code = add_policy(c, name);
        else
            code = wrong_policy(text, n);
        if (code != TOOL_OK || !text[n]) return code;
        text += n + 1;
    }
}

/* ---- running ---- */

typedef struct running {
    tool_progress progress;
    int done, all;
    const char *name;
} running;

static bool on_progress(void *context, const char *what, uint64_t done, uint64_t total) {
    running *r = context;
    (void)what;
    tool_progress_step(&r->progress, (uint64_t)r->done * total + done, (uint64_t)r->all * total,
                       r->name);
    return !tool_interrupted();
}

/* The first policy once more, now telling where everything lay; the results are there already. A
 * policy that can't grow is given its whole capacity at the start. Not all fitting is no failure:
 * what did fit is shown. */
mnem_status replay_again(const replay_case *c,
                         void (*on_box)(void *context, const mnem_replay_box *box),
                         void (*on_moment)(void *context, const mnem_replay_moment *moment),
                         void *context) {
    mnem_replay_target *target;
    const uint64_t needed = c->results[0].bytes_capacity_needed, given = c->asked->capacity;
    mnem_status status = mnem_replay_target_create(c->names[0], &c->settings, &target);
    if (status != MNEM_OK) return status;
    status = mnem_replay_map(c->workload, target, 0, given, on_box, on_moment, context);
    const uint64_t fixed = given ? given : needed;
    if (status == MNEM_UNSUPPORTED && target->place)
        status = mnem_replay_map(c->workload, target, fixed, fixed, on_box, on_moment, context);
    mnem_replay_target_destroy(target);
    return status == MNEM_OVER_BUDGET ? MNEM_OK : status;
}

static int run_policies(replay_case *c) {
    running r = {.all = c->policies};
    mnem_status status = MNEM_OK;
    tool_progress_begin(&r.progress, "replaying");
    for (; r.done < c->policies && status == MNEM_OK; r.done++) {
        r.name = c->names[r.done];
        mnem_replay_target *target;
        status = mnem_replay_target_create(r.name, &c->settings, &target);
        if (status != MNEM_OK) break;
        mnem_trace_begin(r.name);
        status = mnem_replay_run(
            c->workload, target,
            &(mnem_replay_options){.capacity = c->asked->capacity, .progress = {on_progress, &r}},
            &c->results[r.done]);
        mnem_trace_end(r.name);
        mnem_replay_target_destroy(target);
    }
    tool_progress_end(&r.progress);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

/* ---- as text ---- */

static void print_trace(const replay_case *c) {
    const mnem_workload_info *i = &c->info;
    char a[TOOL_TEXT], b[TOOL_TEXT];
    tool_outf("%s\n  %s, %s operation%s (%s allocation%s) on %u stream%s", c->path, i->format,
              tool_exact(i->count, a), tool_s(i->count), tool_exact(i->allocations, b),
              tool_s(i->allocations), i->streams, tool_s(i->streams));
    if (i->devices > 1) tool_outf("\n  device %u of %u (--device)", i->device, i->devices);
    tool_outf("\n  peak %s live; at most %s block%s at once", tool_size(i->bytes_peak, a),
              tool_exact(i->blocks_peak, b), tool_s(i->blocks_peak));
    if (i->prelude)
        tool_outf("\n  %s %s live before the record began", tool_exact(i->prelude, a),
                  i->prelude == 1 ? "was" : "were");
    if (i->bytes_reserved_peak)
        tool_outf("\n  PyTorch reserved %s", tool_size(i->bytes_reserved_peak, a));
    if (i->dropped)
        tool_outf("\n  %s event%s others", tool_exact(i->dropped, a),
                  i->dropped == 1 ? " contradicts" : "s contradict");
    tool_outf("\n");
}

/* "23 ns", "4.1 us" */
static char *time_text(double ns, char text[TOOL_TEXT]) {
    if (ns < 999.5)
        snprintf(text, TOOL_TEXT, "%.0f ns", ns);
    else if (ns < 999.5e3)
        snprintf(text, TOOL_TEXT, "%.*f us", ns < 99.95e3, ns / 1e3);
    else
        snprintf(text, TOOL_TEXT, "%.*f ms", ns < 99.95e6, ns / 1e6);
    return text;
}

static char *ratio_text(bool known, double ratio, char text[TOOL_TEXT]) {
    snprintf(text, TOOL_TEXT, known ? "%.3f" : "-", ratio);
    return text;
}

static void print_row(const mnem_replay_result *r) {
    char t[4][TOOL_TEXT], x[2][TOOL_TEXT], hit[TOOL_TEXT] = "-", calls[TOOL_TEXT] = "-";
    const bool timed = r->measured & MNEM_REPLAY_TIME, grown = r->measured & MNEM_REPLAY_GROWTH;
    const double times[] = {r->ns_mean, r->ns_p50, r->ns_p99, r->ns_worst};
    for (int i = 0; i < 4; i++)
        if (timed)
            time_text(times[i], t[i]);
        else
            strcpy(t[i], "-");
    if (grown) {
        snprintf(hit, sizeof hit, "%.2f %%", 100 * r->hit_rate);
        tool_exact(r->upstream_calls, calls);
    }
    tool_outf("  %-10s %7s %7s %7s %7s %8s %8s %8s %8s\n", r->name, t[0], t[1], t[2], t[3],
              ratio_text(r->measured & MNEM_REPLAY_FIT, r->capacity_over_live, x[0]),
              ratio_text(grown, r->reserved_over_live, x[1]), hit, calls);
}

uint64_t replay_unserved(const mnem_workload_info *info, size_t from) {
    uint64_t n = 0;
    for (size_t i = from; i < info->count; i++) n += info->ops[i].bytes > 0;
    return n;
}

static void print_refusal(const replay_case *c, const mnem_replay_result *r) {
    char a[TOOL_TEXT], b[TOOL_TEXT], d[TOOL_TEXT], e[TOOL_TEXT];
    if (!r->refused) return;
    tool_outf("  %s: refused at operation %s: %s more with %s live of %s; ", r->name,
              tool_exact(r->refused_op, a), tool_size(r->refused_bytes, b),
              tool_size(r->refused_live, d), tool_size(c->asked->capacity, e));
    const uint64_t unserved = replay_unserved(&c->info, r->refused_op);
    tool_outf("%s of %s allocations not served\n", tool_exact(unserved, a),
              tool_exact(c->info.allocations, b));
}

static void print_table(const replay_case *c) {
    char a[TOOL_TEXT];
    tool_outf("\n  %-10s %31s %8s %8s %8s %8s\n", "", "time per operation", "needed", "reserved",
              "hit", "upstream");
    tool_outf("  %-10s %7s %7s %7s %7s %8s %8s %8s %8s\n", "policy", "mean", "p50", "p99", "worst",
              "/ peak", "/ peak", "rate", "calls");
    for (int i = 0; i < c->policies; i++) print_row(&c->results[i]);
    for (int i = 0; i < c->policies; i++) print_refusal(c, &c->results[i]);
    const uint64_t segment = c->results[0].segment_bytes;
    if (segment) tool_outf("  reserved in steps of %s\n", tool_size(segment, a));
}

/* All of them in 80 columns. */
static int verdict_width(int indicator) {
    return indicator == MNEM_REPLAY_LATENCY ? 18 : 15;
}

static void print_verdicts(const replay_case *c) {
    tool_outf("\n  %-10s", "verdicts");
    for (int k = 0; k < MNEM_REPLAY_INDICATORS; k++)
        tool_outf(" %-*s", verdict_width(k),
                  mnem_replay_judge(&c->results[0], (mnem_replay_indicator)k).text);
    tool_outf("\n");
    for (int i = 0; i < c->policies; i++) {
        tool_outf("  %-10s", c->results[i].name);
        for (int k = 0; k < MNEM_REPLAY_INDICATORS; k++) {
            char text[TOOL_TEXT];
            const mnem_replay_verdict v =
                mnem_replay_judge(&c->results[i], (mnem_replay_indicator)k);
            if (strcmp(v.verdict, "no data") == 0)
                snprintf(text, sizeof text, "no data");
            else
                snprintf(text, sizeof text, "%s (%.*f %s)", v.verdict,
                         v.value < 10 || v.value > 99 ? 2 : 1, v.value, v.unit);
            tool_outf(" %-*s", verdict_width(k), text);
        }
        tool_outf("\n");
    }
}

/* ---- as JSON ---- */

/* null where nothing was measured. */
static json_t *json_known(bool known, double value) {
    return known ? tool_json_real(value) : json_null();
}

static json_t *json_verdicts(const mnem_replay_result *r) {
    json_t *all = json_object();
    for (int k = 0; k < MNEM_REPLAY_INDICATORS; k++) {
        const mnem_replay_verdict v = mnem_replay_judge(r, (mnem_replay_indicator)k);
        const bool known = strcmp(v.verdict, "no data") != 0;
        json_object_set_new(all, v.key,
                            json_pack("{s:s, s:o, s:s}", "verdict", v.verdict, "value",
                                      json_known(known, v.value), "unit", v.unit));
    }
    return all;
}

static json_t *json_policy(const replay_case *c, const mnem_replay_result *r) {
    const bool timed = r->measured & MNEM_REPLAY_TIME, grown = r->measured & MNEM_REPLAY_GROWTH;
    const bool fit = r->measured & MNEM_REPLAY_FIT;
    json_t *p = json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name", r->name,
        "ns_mean", json_known(timed, r->ns_mean), "ns_p50", json_known(timed, r->ns_p50), "ns_p99",
        json_known(timed, r->ns_p99), "ns_worst", json_known(timed, r->ns_worst),
        "capacity_over_live", json_known(fit, r->capacity_over_live), "reserved_over_live",
        json_known(grown, r->reserved_over_live), "hit_rate", json_known(grown, r->hit_rate),
        "upstream_calls", tool_json_count(grown, r->upstream_calls), "fragmentation",
        json_known(grown, r->fragmentation), "capacity_bytes",
        tool_json_count(fit, r->bytes_capacity_needed), "reserved_bytes",
        tool_json_count(grown, r->bytes_reserved_peak), "verdicts", json_verdicts(r));
    json_object_set_new(
        p, "refused",
        r->refused
            ? json_pack("{s:I, s:I, s:I, s:I}", "operation", (json_int_t)r->refused_op, "bytes",
                        (json_int_t)r->refused_bytes, "live_bytes", (json_int_t)r->refused_live,
                        "unserved", (json_int_t)replay_unserved(&c->info, r->refused_op))
            : json_null());
    return p;
}

/* A path may be any bytes; JSON takes UTF-8 only. */
static json_t *json_path(const char *path) {
    json_t *value = json_string(path);
    return value ? value : json_string("?");
}

static void print_json(const replay_case *c, const replay_advice *advice,
                       const replay_snapshot *snapshot) {
    const mnem_workload_info *i = &c->info;
    json_t *policies = json_array();
    for (int k = 0; k < c->policies; k++)
        json_array_append_new(policies, json_policy(c, &c->results[k]));
    json_t *root = json_pack(
        "{s:o, s:s, s:I, s:I, s:I, s:i, s:I, s:I, s:I, s:I}", "trace", json_path(c->path), "format",
        i->format, "operations", (json_int_t)i->count, "allocations", (json_int_t)i->allocations,
        "live_before", (json_int_t)i->prelude, "streams", (int)i->streams, "peak_bytes",
        (json_int_t)i->bytes_peak, "peak_blocks", (json_int_t)i->blocks_peak, "end_bytes",
        (json_int_t)i->bytes_end, "total_bytes", (json_int_t)i->bytes_total);
    const bool recorded = i->bytes_reserved_peak > 0;
    json_object_set_new(root, "device", tool_json_count(i->devices > 0, i->device));
    json_object_set_new(root, "recorded_reserved_bytes",
                        tool_json_count(recorded, i->bytes_reserved_peak));
    json_object_set_new(root, "capacity_bytes",
                        tool_json_count(c->asked->capacity, c->asked->capacity));
    json_object_set_new(root, "policies", policies);
    json_object_set_new(root, "advice", replay_advice_json(advice));
    replay_snapshot_json(snapshot, c, root);
    tool_out_json("replay", root);
}

/* ---- one trace ---- */

static int print_all(replay_case *c, const replay_snapshot *snapshot) {
    replay_advice advice;
    const mnem_status status = replay_advice_make(c, &advice);
    if (status != MNEM_OK) return tool_fail(status);
    if (tool_interrupted()) return TOOL_INTERRUPTED;
    if (c->args->json) {
        print_json(c, &advice, snapshot);
        return TOOL_OK;
    }
    print_trace(c);
    if (snapshot->present) replay_sites_print(snapshot, c);
    replay_failure_print(snapshot, c);
    print_table(c);
    print_verdicts(c);
    replay_advice_print(c, &advice);
    replay_settings_print(snapshot, c);
    return c->asked->timeline ? replay_timeline(c) : TOOL_OK;
}

static int look_at(replay_case *c) {
    replay_snapshot snapshot;
    const mnem_status status = replay_snapshot_make(c, &snapshot);
    const int code = status == MNEM_OK ? print_all(c, &snapshot) : tool_fail(status);
    replay_snapshot_fini(&snapshot);
    return code;
}

/* Over budget when nobody came through with the capacity that was given. */
static int refusals(const replay_case *c) {
    int refused = 0;
    for (int i = 0; i < c->policies; i++) refused += c->results[i].refused;
    return refused == c->policies ? TOOL_OVER_BUDGET : TOOL_OK;
}

static int replay_one(replay_case *c, const char *path) {
    c->path = strcmp(path, "-") == 0 ? "standard input" : path;
    int code = replay_input_open(c->asked, path, &c->workload);
    if (code != TOOL_OK) return code;
    mnem_workload_info_get(c->workload, &c->info);
    if (c->asked->trace) code = replay_record(c);
    if (code == TOOL_OK) code = run_policies(c);
    if (code == TOOL_OK) code = look_at(c);
    if (code == TOOL_OK && c->asked->svg) code = replay_draw(c, c->asked->svg);
    if (code == TOOL_OK) code = refusals(c);
    mnem_workload_close(c->workload);
    return code;
}

static int check_alignment(uint64_t n) {
    if (n & (n - 1))
        return tool_usage("replay", "--align is %llu; it must be a power of two, such as 256",
                          (unsigned long long)n);
    return TOOL_OK;
}

static int verb_replay(const tool_args *args) {
    static replay_case c;
    const replay_options *o = (const replay_options *)args;
    c.args = args;
    c.asked = o;
    c.settings = (mnem_replay_settings){o->align, o->segment};
    if (o->svg && args->operands > 1)
        return tool_usage("replay", "--svg draws one trace, but %d are given: name one",
                          args->operands);
    if (args->json && o->timeline)
        return tool_usage("replay", "--timeline and --json can't be combined: leave one out");
    int code = check_alignment(o->align);
    if (code == TOOL_OK) code = tool_recording_check(args, o->trace);
    if (code == TOOL_OK) code = choose_policies(&c);
    tool_recording recording;
    if (code == TOOL_OK) code = tool_recording_begin(args, o->trace, NULL, NULL, &recording);
    if (code != TOOL_OK) return code;
    tool_interrupt_watch(NULL);
    for (int i = 0; i < args->operands && (code == TOOL_OK || code == TOOL_OVER_BUDGET); i++) {
        if (i && !args->json) tool_outf("\n");
        const int one = replay_one(&c, args->operand[i]);
        if (one != TOOL_OK) code = one;
    }
    code = tool_recording_end(&recording, code);
    const int end = tool_out_end();
    return code == TOOL_OK ? end : code;
}

/* ---- the command line ---- */

#define AT(field) offsetof(replay_options, field)
static const tool_option options[] = {
    {"policy", 0, "NAMES", TOOL_VALUE_TEXT, AT(policy),
     .choices =
         "all mnem tlsf bucket buddy first-fit best-fit worst-fit bump pool granules pytorch",
     .help =
         "policies to compare, separated by commas, or all; --svg and --timeline show the first "
         "(default: mnem,tlsf,best-fit,pytorch)"},
    {"capacity", 0, "SIZE", TOOL_VALUE_SIZE, AT(capacity),
     .help = "replay within this much memory (default: as much as it takes)"},
    {"device", 0, "N", TOOL_VALUE_COUNT, AT(device), .least = 0, .most = 4095,
     .help = "the device to replay in a snapshot of several devices (default: the one with most "
             "events)"},
    {"align", 0, "SIZE", TOOL_VALUE_SIZE, AT(align),
     .help = "alignment of every block, a power of two (default: 256)"},
    {"segment", 0, "SIZE", TOOL_VALUE_SIZE, AT(segment),
     .help = "size by which the pool grows (default: a 64th of the peak, as a power of two, at "
             "least 2 MiB)"},
    {"svg", 0, "FILE", TOOL_VALUE_TEXT, AT(svg), .path = TOOL_PATH_WRITE,
     .help = "draw the memory map over time to FILE"},
    {"timeline", 0, NULL, TOOL_VALUE_FLAG, AT(timeline),
     .help = "show reserved and live bytes over time"},
    TOOL_GROUP(tool_trace_options, AT(trace)),
    TOOL_JSON_OPTION("one object for all traces"),
    {0},
};

static replay_options asked;
TOOL_VERB(
    replay, "TRACE...", 1, TOOL_OPERANDS_MAX,
    "compare what pool policies would cost on a recorded trace",
    "Replays allocation traces with several pool policies (ways in which a memory pool chooses\n"
    "the place of a block), without allocating the memory. For each policy it shows the time per\n"
    "operation, the smallest capacity that is enough, how much a growing pool would reserve, how\n"
    "often it would request memory from the device, and verdicts (good, fair or bad). The advice\n"
    "at the end names the policy and settings that suit this trace, and what they save.\n"
    "\n"
    "For a PyTorch snapshot it also shows which lines of your code hold the memory at the peak\n"
    "(with bytes, blocks and ages), why a request failed, and which PYTORCH_CUDA_ALLOC_CONF would\n"
    "have needed less memory, as found by replaying the snapshot with it.\n"
    "\n"
    "A trace is a PyTorch memory snapshot (the file of torch.cuda.memory._dump_snapshot; it\n"
    "is read without running any code in it) or text with one event on each line:\n"
    "\n"
    "  a ID BYTES [STREAM]   allocates the block ID (STREAM: default 0)\n"
    "  f ID [STREAM]         frees the block ID\n"
    "\n"
    "An ID names one block in the whole trace: it is never used again.\n"
    "\n"
    "Files whose names end in .xz are decompressed with xz; - is standard input.\n"
    "\n"
    "With --capacity, the exit code is 3 when no policy completes the trace.\n",
    "mnem replay snapshot.pickle  # which code holds the peak?\n"
    "mnem replay snapshot.pickle --policy all --capacity 16G  # which policies fit in 16 GiB?\n"
    "mnem replay serve.trace.xz --svg map.svg --timeline  # draw memory over time\n"
    "mnem replay *.trace --json | jq -r '.advice.policy'  # print the best policy\n");
