/* train_report.c: the plan of a training run as a table and as JSON, and the ledger at its end.
 *
 * The peak of a run may lie before its steps, while text is read: then the plan has that as a line
 * of its own, so that the lines still sum to the peak. Time is that of a short test of the machine,
 * not of a model of it, and isn't shown where there was no room for the test. */
#include <math.h>
#include <string.h>

#include "stage.h"
#include "verbs/train/train_tool.h"

enum { TRAIN_STEPS = 96, TRAIN_PRECISION = 240 };

static const char *type_text(mnem_type type) {
    return type == MNEM_TYPE_BF16 ? "bf16" : type == MNEM_TYPE_F16 ? "f16" : "f32";
}

/* "layers 0-3 without norms and activations": what runs of equal layers don't keep. */
static void recomputed_text(const mnem_train_plan *p, char *text, size_t n) {
    static const struct {
        int bit;
        const char *name;
    } parts[] = {{MNEM_KEEP_NORMS, "norms and activations"},
                 {MNEM_KEEP_FF, "feed-forward"},
                 {MNEM_KEEP_QKV, "queries, keys and values"},
                 {MNEM_KEEP_ATTENTION, "attention"},
                 {MNEM_KEEP_MIDDLE, "the sum after it"}};
    size_t at = 0;
    text[0] = 0;
    for (int32_t i = 0, end; i < p->layers && at + 100 < n; i = end) {
        for (end = i + 1; end < p->layers && p->keep[end] == p->keep[i]; end++) continue;
        if (p->keep[i] == MNEM_KEEP_ALL) continue;
        at += (size_t)snprintf(text + at, n - at, "%slayer%s %d", at ? "; " : "",
                               tool_s((uint64_t)(end - i)), i);
        if (end - i > 1) at += (size_t)snprintf(text + at, n - at, "-%d", end - 1);
        const char *separator = ": ";
        for (size_t k = 0; k < sizeof parts / sizeof parts[0] && at + 60 < n; k++) {
            if (p->keep[i] & parts[k].bit) continue;
            at += (size_t)snprintf(text + at, n - at, "%s%s", separator, parts[k].name);
            separator = ", ";
        }
    }
}

/* "2000 steps", "2 of 2000 steps left" of a run that goes on, "2 of 9 steps (--stop-after 2)". */
static const char *steps_text(const train_run *run, char text[TRAIN_STEPS]) {
    const long long all = (long long)run->config.steps, left = (long long)train_steps_left(run);
    if (train_stops_before(run))
        snprintf(text, TRAIN_STEPS, "%lld of %lld steps (--stop-after %llu)", left, all,
                 (unsigned long long)run->asked->stop_after);
    else if (run->steps_before)
        snprintf(text, TRAIN_STEPS, "%lld of %lld step%s left", left, all, tool_s((uint64_t)all));
    else
        snprintf(text, TRAIN_STEPS, "%lld step%s", all, tool_s((uint64_t)all));
    return text;
}

/* "3.3 G multiply-adds a step, about 90 ms; 2000 steps: about 4 min (steps 3 min, ...)" */
static void print_time(FILE *file, const train_run *run) {
    char text[200 + TRAIN_TIMES], count[TOOL_TEXT], whole[TOOL_TEXT], phases[TRAIN_TIMES];
    char steps[TRAIN_STEPS];
    const double s = run->seconds;
    const train_times t = train_times_of(run);
    int n = snprintf(text, sizeof text, "%s multiply-adds a step",
                     tool_count(run->plan.macs_per_step, count));
    if (s > 0)
        n += snprintf(text + n, sizeof text - (size_t)n,
                      ", about %.*f %s (measured by a short test of this machine)",
                      s < 1 || s >= 10 ? 0 : 1, s < 1 ? 1e3 * s : s, s < 1 ? "ms" : "s");
    if (t.all > 0)
        snprintf(text + n, sizeof text - (size_t)n, "; %s: about %s (%s)", steps_text(run, steps),
                 tool_seconds(t.all, whole), train_times_text(&t, phases));
    tool_wrap(file, "  time     ", text);
}

static void print_choice(FILE *file, const train_run *run) {
    const mnem_train_plan *p = &run->plan;
    const train_config *c = &run->config;
    char text[256];
    snprintf(text, sizeof text,
             "%d micro-batch%s a step, of %d sequence%s of %d token%s, %s, moments in %s, "
             "%d thread%s",
             p->accumulation, p->accumulation == 1 ? "" : "es", p->micro_batch,
             tool_s((uint64_t)p->micro_batch), c->context, tool_s((uint64_t)c->context),
             type_text(run->options.compute), c->moments, p->threads, tool_s((uint64_t)p->threads));
    tool_wrap(file, "  chosen   ", text);
}

/* The one choice of a budget that changes results; "" where it wasn't made. With several ranks each
 * has a budget of its own. */
static const char *precision_text(const train_run *run, char text[TRAIN_PRECISION]) {
    char budget[TOOL_TEXT], least[TOOL_TEXT];
    *text = 0;
    if (!run->f32_bytes) return text;
    const int n = snprintf(text, TRAIN_PRECISION,
                           "activations are in bf16, because f32 does not fit in %s, and losses "
                           "differ from those of f32",
                           tool_size(run->plan.budget_bytes, budget));
    if (run->plan.ranks < 2)
        snprintf(text + n, TRAIN_PRECISION - (size_t)n, ": --precision f32 needs --memory %s",
                 tool_budget_of_other(run->f32_bytes, least));
    return text;
}

static void print_precision(FILE *file, const train_run *run) {
    char text[TRAIN_PRECISION];
    if (*precision_text(run, text)) tool_wrap(file, "  types    ", text);
}

static void print_redone(FILE *file, const mnem_train_plan *p, bool whole) {
    const double part = 100 * p->recomputed / (p->macs_per_step - p->recomputed);
    char text[1200];
    recomputed_text(p, text, sizeof text);
    if (!*text) return;
    if (whole) {
        tool_wrap(file, "  redone   ", text);
        snprintf(text, sizeof text,
                 "recomputing these is %.1f %% of a step's work, and changes no result", part);
        tool_wrap(file, "           ", text);
        return;
    }
    int32_t layers = 0;
    for (int32_t i = 0; i < p->layers; i++) layers += p->keep[i] != MNEM_KEEP_ALL;
    snprintf(text, sizeof text,
             "parts of %d of %d layers (%.1f %% of the work), which changes no result", layers,
             p->layers, part);
    tool_wrap(file, "  redone   ", text);
}

static void print_other(FILE *file, const char *lead, uint64_t bytes, const char *change) {
    char text[240], size[TOOL_TEXT];
    if (!bytes) return;
    snprintf(text, sizeof text, "%s: %s", tool_size(bytes, size), change);
    tool_wrap(file, lead, text);
}

/* What the process had before the steps (words of the vocabulary, text being tokenized), where
 * that was more than the steps take: lines sum to the peak of all. */
static uint64_t before_bytes(const train_run *run) {
    const uint64_t steps = run->plan.peak_bytes;
    return run->text_bytes > steps ? run->text_bytes - steps : 0;
}

uint64_t train_report_peak(const train_run *run) {
    return run->plan.peak_bytes + before_bytes(run);
}

static tool_bytes bytes_of(const train_run *run) {
    const mnem_train_plan *p = &run->plan;
    return (tool_bytes){.line = p->line,
                        .lines = p->lines,
                        .peak_bytes = train_report_peak(run),
                        .budget_bytes = p->budget_bytes,
                        .budget_chosen = run->budget_chosen,
                        .before_bytes = before_bytes(run)};
}

static void print_before(FILE *file, const train_run *run) {
    char text[160], all[TOOL_TEXT], steps[TOOL_TEXT];
    if (!before_bytes(run)) return;
    snprintf(text, sizeof text, "reading the text took %s, freed since; steps take %s",
             tool_size(run->text_bytes, all), tool_size(run->plan.peak_bytes, steps));
    tool_wrap(file, "  before   ", text);
}

static void print_teacher(FILE *file, const train_run *run) {
    const train_config *c = &run->config;
    char text[300], size[TOOL_TEXT];
    if (!*c->distill) return;
    int n = snprintf(text, sizeof text, "%.100s provides %g of the loss",
                     tool_file_name(c->distill), c->distill_weight);
    if (strcmp(c->distill_on, "states") != 0)
        n += snprintf(text + n, sizeof text - (size_t)n, ", at temperature %g",
                      c->distill_temperature);
    if (strcmp(c->distill_on, "logits") != 0)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s the states behind its layers",
                      strcmp(c->distill_on, "both") ? ", by" : ", and by");
    if (run->plan.teacher_streamed)
        snprintf(text + n, sizeof text - (size_t)n,
                 "; its layers are streamed: %s from the file for each micro-batch",
                 tool_size(run->plan.teacher_bytes_read, size));
    tool_wrap(file, "  teacher  ", text);
}

static void print_ranks(FILE *file, const mnem_train_plan *p, bool reason) {
    static const char *const cut[] = {"", "no sharding", "moments are sharded",
                                      "moments and gradients are sharded"};
    char text[400];
    if (p->ranks < 2) return;
    int n = snprintf(text, sizeof text, "%d sequence%s from number %d of the batch on, %s",
                     p->share, tool_s((uint64_t)p->share), p->first, cut[p->shard]);
    if (p->shard == MNEM_SHARD_GRADIENTS && p->accumulation > 1)
        n += snprintf(text + n, sizeof text - (size_t)n,
                      ", each micro-batch's sums (bits of their own)");
    if (reason && *p->sharding) snprintf(text + n, sizeof text - (size_t)n, "; %s", p->sharding);
    tool_wrap(file, "  ranks    ", text);
}

/* "plan: llama, adapters of rank 8 on q,v, 5.2 M parameters" */
static void print_title(FILE *file, const train_run *run) {
    const mnem_train_plan *p = &run->plan;
    const train_config *c = &run->config;
    char count[TOOL_TEXT], lora[96] = "";
    if (c->lora)
        snprintf(lora, sizeof lora, ", adapters of rank %d%s%s", c->lora,
                 *c->lora_targets ? " on " : "", c->lora_targets);
    fprintf(file, "plan: %s%s, %s parameters\n", c->architecture, lora,
            tool_count((double)p->parameters, count));
}

static void print_plan(FILE *file, const train_run *run) {
    const mnem_train_plan *p = &run->plan;
    const tool_bytes bytes = bytes_of(run);
    print_title(file, run);
    tool_bytes_plan(file, &bytes);
    print_before(file, run);
    print_choice(file, run);
    print_precision(file, run);
    print_redone(file, p, true);
    print_time(file, run);
    print_ranks(file, p, true);
    print_teacher(file, run);
    print_other(file, "  smaller  ", p->smaller_bytes, p->smaller);
    print_other(file, "  larger   ", p->larger_bytes, p->larger);
}

/* ---- the same on less than a screen, and in two lines ---- */

/* What --dry-run prints without --verbose: the table of ways below it tells of other budgets, the
 * line above it of all steps. */
static void print_plan_short(FILE *file, const train_run *run) {
    const tool_bytes bytes = bytes_of(run);
    const double s = run->seconds;
    char text[160];
    print_title(file, run);
    tool_bytes_plan_short(file, &bytes);
    print_before(file, run);
    print_choice(file, run);
    print_precision(file, run);
    print_redone(file, &run->plan, false);
    if (s > 0) {
        snprintf(text, sizeof text, "about %.*f %s a step (measured by a short test)",
                 s < 1 || s >= 10 ? 0 : 1, s < 1 ? 1e3 * s : s, s < 1 ? "ms" : "s");
        tool_wrap(file, "  time     ", text);
    }
    print_ranks(file, &run->plan, false);
    print_teacher(file, run);
}

static void print_ledger(FILE *file, const train_run *run) {
    tool_bytes_ledger(file, run->ledger, train_report_peak(run), 0);
}

/* "llama 5.2M f32 · 63 MiB of 512 MiB · 12 x 256 tokens a step · 2 threads" */
static void print_plan_line(FILE *file, const train_run *run) {
    const mnem_train_plan *p = &run->plan;
    const train_config *c = &run->config;
    char text[320], count[TOOL_TEXT], peak[TOOL_TEXT], budget[TOOL_TEXT], lora[48] = "";
    if (c->lora) snprintf(lora, sizeof lora, " adapters of rank %d,", c->lora);
    tool_count((double)p->parameters, count);
    char *gap = strchr(count, ' ');
    if (gap) memmove(gap, gap + 1, strlen(gap));
    snprintf(text, sizeof text, "%s%s %s %s · %s of %s · %d x %d tokens a step · %d thread%s",
             c->architecture, lora, count, type_text(run->options.compute),
             tool_size(train_report_peak(run), peak), tool_size(p->budget_bytes, budget), c->batch,
             c->context, p->threads, tool_s((uint64_t)p->threads));
    tool_wrap_dim(file, "", text);
}

/* ", about 12 min", with its phases where steps aren't nearly all. */
static size_t add_times(const train_run *run, char *text, size_t size) {
    char time[TOOL_TEXT], phases[TRAIN_TIMES];
    const train_times t = train_times_of(run);
    if (t.all <= 0) return 0;
    size_t n = (size_t)snprintf(text, size, ", about %s", tool_seconds(t.all, time));
    if (t.all >= 1 && t.steps < 0.9 * t.all)
        n += (size_t)snprintf(text + n, size - n, " (%s)", train_times_text(&t, phases));
    if (run->others > 0 && t.all >= 1)
        n += (size_t)snprintf(text + n, size - n,
                              ", or longer: other programs take %.0f %% of "
                              "the processors",
                              100 * run->others);
    return n;
}

/* Passes over the text that is not held out; 0: not known. */
static double epochs_of(const train_run *run) {
    const double windows = (double)run->training.count;
    return windows > 0 ? (double)run->config.steps * run->config.batch / windows : 0;
}

/* ", 36 epochs": a small text is learned by heart sooner than a run ends. They are those of all
 * steps, so that they aren't named beside the steps that are left. */
static size_t add_epochs(const train_run *run, char *text, size_t size) {
    const double epochs = epochs_of(run);
    if (epochs <= 0 || run->steps_before) return 0;
    const bool usual = train_config_length_usual(run->asked, &run->config);
    const double whole = train_config_epochs_asked(run->asked, &run->config);
    const double shown = whole > 0 ? whole : epochs < 10 ? round(10 * epochs) / 10 : round(epochs);
    return (size_t)snprintf(text, size, ", %s%.10g epoch%s%s", shown > 0 ? "" : "under ",
                            shown > 0 ? shown : 0.1, shown == 1 ? "" : "s",
                            usual ? " (default; see --epochs)" : "");
}

static void add_length(const train_run *run, char *text, size_t size) {
    char steps[TRAIN_STEPS];
    size_t n = 0;
    if (run->config.steps) n = (size_t)snprintf(text, size, " · %s", steps_text(run, steps));
    n += add_epochs(run, text + n, size - n);
    n += add_times(run, text + n, size - n);
    if (!run->asked->dry_run) snprintf(text + n, size - n, " · writes to %s", run->out);
}

/* "1.2 M tokens of text, 3 % held out · 2000 steps, 5.2 epochs, about 12 min" */
static void print_data_line(FILE *file, const train_run *run) {
    const mnem_corpus_info *i = &run->corpus_info;
    char text[600 + TRAIN_DATA_NAME + PATH_MAX], tokens[TOOL_TEXT], held[TOOL_TEXT];
    size_t n;
    char name[TRAIN_DATA_NAME];
    train_data_name(run, name);
    tool_exact(run->validation.tokens, held);
    if (i->rows)
        n = (size_t)snprintf(text, sizeof text,
                             "%llu conversation%s, %s held out%s%s · %.0f %% of %s tokens are "
                             "answers",
                             (unsigned long long)i->rows, tool_s(i->rows), held, *name ? " · " : "",
                             name, 100 * (double)run->chat_counted / (double)run->chat_tokens,
                             tool_exact(run->chat_tokens, tokens));
    else
        n = (size_t)snprintf(text, sizeof text, "%s tokens of text, %s held out%s%s",
                             tool_exact(i->tokens, tokens), held, *name ? " · " : "", name);
    if (!run->asked->export) add_length(run, text + n, sizeof text - n);
    tool_wrap_dim(file, "", text);
}

/* A built-in config doesn't know the text: a short one is read over and over. */
static void print_many_epochs(const train_run *run) {
    enum { EPOCHS_MANY = 20 };
    const train_config *c = &run->config;
    const double epochs = epochs_of(run);
    if (run->asked->export || !train_config_length_fixed(run->asked, c)) return;
    if (epochs <= EPOCHS_MANY) return;
    tool_message("the default length of --config %s, %lld steps, reads this text %.0f times; "
                 "--epochs N sets how often",
                 c->base, (long long)c->steps, epochs);
}

void train_report_start(FILE *file, const train_run *run) {
    char text[TRAIN_PRECISION];
    if (run->args->quiet) return;
    if (!run->args->verbose && !run->asked->dry_run) print_plan_line(file, run);
    print_data_line(file, run);
    if (run->args->verbose)
        print_plan(file, run);
    else if (run->asked->dry_run)
        print_plan_short(file, run);
    else if (*precision_text(run, text))
        tool_message("%s", text);
    print_many_epochs(run);
}

/* Tokens a second: without the first step, which warms up, where there are others. */
static double rate_of(const train_run *run) {
    const double each = (double)run->config.batch * run->config.context;
    return run->steps_done ? (double)run->steps_done * each / run->seconds_done
                           : each / run->seconds_all;
}

/* "2000 steps in 12 min, 4120 tokens/s · peak 61.2 MiB of 512 MiB" */
/* Only with a cause that was measured: a step's prediction alone is no measure of the machine. */
static void print_slowness(FILE *file, const train_run *run) {
    enum { LEAST_SECONDS = 1 };
    const double slow = 1.4, others = 0.15;
    char text[240], took[TOOL_TEXT], planned[TOOL_TEXT];
    tool_load_times now;
    if (run->seconds <= 0 || run->seconds_done < LEAST_SECONDS || train_ranks() > 1) return;
    const double each = run->seconds_done / (double)run->steps_done;
    if (each < slow * run->seconds || !tool_load_get(&now)) return;
    const double share = tool_load_share(&run->load, &now);
    if (share < others) return;
    snprintf(text, sizeof text,
             "slower than planned, %s a step where %s were expected: other programs took %.0f %% "
             "of this machine's processors",
             tool_seconds(each, took), tool_seconds(run->seconds, planned), 100 * share);
    tool_wrap_dim(file, "", text);
}

void train_report_end(FILE *file, const train_run *run) {
    char text[240], time[TOOL_TEXT], peak[TOOL_TEXT], budget[TOOL_TEXT];
    size_t n = 0;
    if (run->args->quiet) return;
    if (run->args->verbose) print_ledger(file, run);
    if (run->seconds_all > 0) {
        const int64_t steps = run->steps_done + 1;
        n = (size_t)snprintf(text, sizeof text, "%lld step%s in %s, %.0f tokens/s · ",
                             (long long)steps, tool_s((uint64_t)steps),
                             tool_seconds(run->seconds_all, time), rate_of(run));
    }
    snprintf(text + n, sizeof text - n, "peak %s of %s", tool_size(tool_peak_bytes(), peak),
             tool_size(run->plan.budget_bytes, budget));
    tool_wrap_dim(file, "", text);
    print_slowness(file, run);
}

static json_t *other_json(uint64_t bytes, double cost, const char *change) {
    if (!bytes) return json_null();
    return json_pack("{s:I, s:f, s:s}", "bytes", (json_int_t)bytes, "cost", cost, "change", change);
}

/* What the files were recognised as, and how much of it. */
static json_t *data_json(const train_run *run) {
    const mnem_corpus_info *i = &run->corpus_info;
    char name[TRAIN_DATA_NAME];
    train_data_name(run, name);
    return json_pack("{s:s, s:s, s:i, s:o, s:I}", "kind", run->config.data, "what",
                     *name ? name : "text", "files", run->config.files, "conversations",
                     i->rows ? json_integer((json_int_t)i->rows) : json_null(), "tokens",
                     (json_int_t)i->tokens);
}

/* Seconds of the phases of the steps that are left; null: not known. */
static json_t *times_json(const train_run *run) {
    const train_times t = train_times_of(run);
    if (t.all <= 0) return json_null();
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "all", t.all, "steps", t.steps, "held_out",
                     (double)t.looks * t.look, "samples", (double)t.samples * t.sample,
                     "checkpoints", (double)t.saves * t.save);
}

json_t *train_report_plan_json(const train_run *run) {
    const mnem_train_plan *p = &run->plan;
    const tool_bytes bytes = bytes_of(run);
    json_t *keep = json_array();
    static const char *const shards[] = {"", "none", "optimizer", "gradients"};
    for (int32_t i = 0; i < p->layers; i++) json_array_append_new(keep, json_integer(p->keep[i]));
    return json_pack(
        "{s:I, s:I, s:I, s:o, s:o, s:i, s:i, s:i, s:s, s:s, s:i, s:f, s:f, s:I, s:I, "
        "s:o, s:o, s:f, s:i, s:I, s:I, s:b, s:I, s:i, s:s, s:s, s:I, s:o, s:o, s:I, s:I, s:f}",
        "parameters", (json_int_t)p->parameters, "peak_bytes", (json_int_t)bytes.peak_bytes,
        "budget_bytes", (json_int_t)p->budget_bytes, "lines", tool_bytes_json(&bytes), "keep", keep,
        "micro_batch", p->micro_batch, "accumulation", p->accumulation, "sequence",
        run->config.context, "precision", type_text(run->options.compute), "moments",
        run->config.moments, "threads", p->threads, "macs_per_step", p->macs_per_step,
        "macs_recomputed", p->recomputed, "activation_bytes", (json_int_t)p->activation_bytes,
        "activation_bytes_all", (json_int_t)p->activation_bytes_all, "smaller",
        other_json(p->smaller_bytes, p->smaller_cost, p->smaller), "larger",
        other_json(p->larger_bytes, p->larger_cost, p->larger), "seconds_per_step", run->seconds,
        "lora_rank", run->config.lora, "frozen_bytes", (json_int_t)p->frozen_bytes,
        "steps_peak_bytes", (json_int_t)p->peak_bytes, "teacher_streamed", p->teacher_streamed,
        "teacher_bytes_read", (json_int_t)p->teacher_bytes_read, "ranks", p->ranks, "shard",
        shards[p->shard], "sharding", p->sharding, "gradient_bytes", (json_int_t)p->gradient_bytes,
        "data", data_json(run), "seconds", times_json(run), "steps", (json_int_t)run->config.steps,
        "steps_left", (json_int_t)train_steps_left(run), "epochs", epochs_of(run));
}
