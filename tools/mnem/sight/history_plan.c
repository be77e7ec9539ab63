/* history_plan.c: see history_plan.h.
 *
 * Runs like this one: the same model's name, machine, and number of threads, and weights that are
 * streamed or not, as they are here. The history is read once, when the plan is made already. */
#include "sight/history_plan.h"

#include <limits.h>
#include <string.h>

#include "mnem/forecast.h"
#include "sight/history_file.h"

enum { RATES = 64, JOB_PROMPT = 512, JOB_TOKENS = 128 };

typedef struct past {
    const tool_stage *stage;
    mnem_forecaster *forecaster;
    char model[96];
    uint64_t runs, peak_bytes;            /* of runs like this one; the largest */
    double rate[MNEM_PHASE_COUNT][RATES]; /* tokens per second, of the newest, ascending at last */
    int rates[MNEM_PHASE_COUNT];
    double error_peak; /* the largest of counted over planned, less 1 */
    int64_t peak_more; /* the largest of counted less planned, of all models here */
    int32_t peaks;     /* runs that this is of */
} past;

/* A process isn't as large to the page each time that it starts. */
enum { PAGES_MORE = 32 << 10, PEAKS_LEAST = 3 };

static bool is_alike(const past *p, const mnem_history_run *run) {
    const mnem_engine_plan *plan = &p->stage->plan;
    return strcmp(run->model, p->model) == 0 && strcmp(run->machine, tool_history_machine()) == 0 &&
           run->threads == plan->threads && run->streamed == plan->streamed;
}

static void add_rate(past *p, int phase, double rate) {
    if (p->rates[phase] == RATES)
        memmove(p->rate[phase], p->rate[phase] + 1, (RATES - 1) * sizeof rate);
    else
        p->rates[phase]++;
    p->rate[phase][p->rates[phase] - 1] = rate;
}

/* Of any model: what a plan leaves for the machine is nearly the same for all. */
static void add_peak(past *p, const mnem_history_run *run) {
    const int64_t more = (int64_t)run->peak_bytes - (int64_t)run->predicted_bytes;
    if (strcmp(run->verb, "run") != 0 || !run->peak_bytes || !run->predicted_bytes) return;
    if (strcmp(run->machine, tool_history_machine()) != 0) return;
    if (!p->peaks++ || more > p->peak_more) p->peak_more = more;
}

/* What the kernel will count at the most; 0: too few runs to say. */
static uint64_t expected_peak(const past *p) {
    const int64_t planned = (int64_t)p->stage->plan.peak_bytes;
    if (p->peaks < PEAKS_LEAST || planned + p->peak_more <= 0) return 0;
    return (uint64_t)(planned + p->peak_more + PAGES_MORE);
}

/* Of those whose peak was planned: a bench that measures the machine, too, takes more for it. */
static void add_own_peak(past *p, const mnem_history_run *run) {
    if (!run->peak_bytes || !run->predicted_bytes) return;
    const double off = (double)run->peak_bytes / (double)run->predicted_bytes - 1;
    if (!p->peak_bytes || off > p->error_peak) p->error_peak = off;
    if (run->peak_bytes > p->peak_bytes) p->peak_bytes = run->peak_bytes;
}

static bool on_run(void *context, const mnem_history_run *run) {
    past *p = context;
    if (p->forecaster) mnem_forecaster_add(p->forecaster, run);
    add_peak(p, run);
    if (!is_alike(p, run)) return true;
    p->runs++;
    add_own_peak(p, run);
    for (int i = 0; i < MNEM_PHASE_COUNT; i++)
        if (run->phase[i].tokens && run->phase[i].seconds > 0)
            add_rate(p, i, (double)run->phase[i].tokens / run->phase[i].seconds);
    return true;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* false: there is nothing to tell. */
static bool look(const tool_stage *stage, past *p) {
    char path[PATH_MAX];
    mnem_model_info m;
    *p = (past){.stage = stage};
    if (!tool_history_path(path, sizeof path)) return false;
    mnem_model_info_get(stage->model, &m);
    snprintf(p->model, sizeof p->model, "%.95s", tool_file_name(m.path));
    if (mnem_forecaster_create(&stage->profile, tool_history_machine(), &p->forecaster) != MNEM_OK)
        return false;
    const bool read = mnem_history_read(path, on_run, p) == MNEM_OK;
    for (int i = 0; i < MNEM_PHASE_COUNT; i++)
        qsort(p->rate[i], (size_t)p->rates[i], sizeof p->rate[i][0], compare);
    if (read) mnem_forecaster_learn(p->forecaster);
    return read;
}

/* A phase's tokens, and the positions that each sees in the mean: of the prompt that was given and
 * what may follow it, else of a job of a usual length, within the context. */
static double job_of(const tool_stage *stage, mnem_phase phase, double *positions) {
    const mnem_engine_plan *plan = &stage->plan;
    const bool first = phase == MNEM_PHASE_PROMPT;
    const int32_t usual = first ? JOB_PROMPT : JOB_TOKENS;
    const int32_t prompt = stage->options.context_needed - 1; /* see tool_prompt_plan */
    const int32_t most = stage->options.context_wanted < plan->context
                             ? stage->options.context_wanted
                             : plan->context;
    int32_t tokens = plan->context < usual ? plan->context : usual;
    if (prompt > 0 && most > prompt) tokens = first ? prompt : most - prompt;
    *positions = 0.5 * tokens + (prompt > 0 && !first ? prompt : 0);
    return tokens;
}

/* In tokens per second: low and high changed over. */
static mnem_forecast rate_of(const past *p, mnem_phase phase) {
    const mnem_engine_plan *plan = &p->stage->plan;
    const double rate =
        phase == MNEM_PHASE_PROMPT ? plan->predicted_prompt : plan->predicted_generate;
    double positions;
    const double tokens = job_of(p->stage, phase, &positions);
    mnem_work work[MNEM_HISTORY_WORKS];
    const int32_t works =
        mnem_work_of_tokens(p->stage->model, plan, phase, tokens, positions, work);
    const mnem_forecast t = mnem_forecast_make(p->forecaster, phase, work, works, plan->threads,
                                               rate > 0 ? tokens / rate : 0);
    mnem_forecast out = t;
    if (t.band == MNEM_BAND_NONE) return out;
    out.seconds = tokens / t.seconds;
    out.low = tokens / t.high;
    out.high = tokens / t.low;
    return out;
}

/* ---- as text ---- */

static int say_rates(const past *p, int phase, const char *unit, char *text, int room) {
    const int n = p->rates[phase];
    const double *r = p->rate[phase];
    if (!n) return 0;
    int at = snprintf(text, (size_t)room, "; %s%.1f tokens/s", unit, r[n / 2]);
    if (n > 1) at += snprintf(text + at, (size_t)(room - at), " (%.1f to %.1f)", r[0], r[n - 1]);
    return at;
}

static void tell_did(FILE *file, const past *p) {
    char text[400], peak[TOOL_TEXT];
    if (!p->runs) return;
    int n = snprintf(text, sizeof text, "this machine has %llu run%s of this model in its history",
                     (unsigned long long)p->runs, tool_s(p->runs));
    n += say_rates(p, MNEM_PHASE_TOKENS, "", text + n, 100);
    n += say_rates(p, MNEM_PHASE_PROMPT, "prompt ", text + n, 100);
    if (p->peak_bytes)
        snprintf(text + n, sizeof text - (size_t)n, "; highest peak RSS %s, %.1f %% of the plan",
                 tool_size(p->peak_bytes, peak), 100 * (1 + p->error_peak));
    tool_wrap(file, "  did      ", text);
}

static void tell_expected(FILE *file, const past *p) {
    char text[300], peak[TOOL_TEXT];
    const mnem_forecast t = rate_of(p, MNEM_PHASE_TOKENS), q = rate_of(p, MNEM_PHASE_PROMPT);
    if (t.band < MNEM_BAND_STUDENT) return; /* the plan's own line says it */
    int n = snprintf(text, sizeof text, "%.1f tokens/s (95 of 100 runs: %.1f to %.1f)", t.seconds,
                     t.low, t.high);
    if (q.band >= MNEM_BAND_STUDENT)
        n += snprintf(text + n, sizeof text - (size_t)n, ", prompt %.1f (%.1f to %.1f)", q.seconds,
                      q.low, q.high);
    if (expected_peak(p))
        n += snprintf(text + n, sizeof text - (size_t)n, ", peak %s",
                      tool_size(expected_peak(p), peak));
    snprintf(text + n, sizeof text - (size_t)n, ", on a quiet machine; learned from %d run%s",
             t.runs, tool_s((uint64_t)t.runs));
    tool_wrap(file, "  expect   ", text);
}

void tool_history_tell(FILE *file, const tool_stage *stage) {
    static past p;
    if (look(stage, &p)) {
        tell_did(file, &p);
        tell_expected(file, &p);
    }
    mnem_forecaster_destroy(p.forecaster);
}

/* ---- as JSON ---- */

static json_t *rates_json(const past *p, int phase) {
    const int n = p->rates[phase];
    const double *r = p->rate[phase];
    if (!n) return json_null();
    return json_pack("{s:f, s:f, s:f}", "median", r[n / 2], "least", r[0], "most", r[n - 1]);
}

static json_t *forecast_json(const past *p, mnem_phase phase) {
    static const char *const bands[] = {"none", "plan", "student", "conformal"};
    const mnem_forecast t = rate_of(p, phase);
    if (t.band == MNEM_BAND_NONE) return json_null();
    return json_pack("{s:f, s:f, s:f, s:s, s:i, s:f}", "tokens_per_s", t.seconds, "low", t.low,
                     "high", t.high, "band", bands[t.band], "runs", t.runs, "error", t.error);
}

json_t *tool_history_json(const tool_stage *stage) {
    static past p;
    json_t *out = NULL;
    if (look(stage, &p))
        out = json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "runs", (json_int_t)p.runs,
                        "tokens_per_s", rates_json(&p, MNEM_PHASE_TOKENS), "prompt_tokens_per_s",
                        rates_json(&p, MNEM_PHASE_PROMPT), "peak_bytes",
                        tool_json_count(p.peak_bytes > 0, p.peak_bytes), "peak_over_planned",
                        p.peak_bytes ? tool_json_real(p.error_peak) : json_null(), "forecast",
                        forecast_json(&p, MNEM_PHASE_TOKENS), "forecast_prompt",
                        forecast_json(&p, MNEM_PHASE_PROMPT), "forecast_peak_bytes",
                        tool_json_count(expected_peak(&p) > 0, expected_peak(&p)));
    mnem_forecaster_destroy(p.forecaster);
    return out ? out : json_null();
}
