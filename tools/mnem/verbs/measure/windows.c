/* windows.c: a text through a model, window by window, and beside it through a reference.
 *
 * With a reference both go through a window's first half; then, as many tokens at a time as logits
 * may wait, the reference first. A sequence's bits don't depend on how its tokens are cut, so the
 * results are those of any budget, and the perplexity is the one without a reference. */
#include "verbs/measure/windows.h"

#include <stdlib.h>
#include <string.h>

#include "dataset/dataset.h"

#define EACH_TAG "divergences"

enum { DEFAULT_CONTEXT = 4096, SHORT_CONTEXT = 512, LOGITS_BYTES = 4 << 20 };

/* ---- the text ---- */

/* The options of the session: the model's context, and rows of logits that are computed together.
 */
static void set_options(tool_stage *stage) {
    const mnem_transformer *t = &stage->transformer;
    if (!stage->options.context)
        stage->options.context = t->context < DEFAULT_CONTEXT ? t->context : DEFAULT_CONTEXT;
    int32_t rows = LOGITS_BYTES / (int32_t)sizeof(float) / t->vocab;
    stage->options.logits_rows = rows < 1 ? 1 : rows > 64 ? 64 : rows;
}

static int encode(tool_windows *w, const tool_windows_text *text) {
    tool_stage *stage = w->stage;
    size_t count;
    int code = tool_stage_read(stage, text->path);
    if (code == TOOL_OK && !stage->args->quiet) dataset_note(text->path);
    if (code != TOOL_OK) return code;
    mnem_status status = mnem_tokenizer_encode(stage->tokenizer, stage->prompt.text,
                                               stage->prompt.bytes, 0, &w->ids, &count);
    if (status != MNEM_OK) return tool_fail(status);
    const size_t seen = text->skip ? (size_t)text->skip(text->context, (int64_t)count) : 0;
    const size_t skip = seen < count ? seen : count;
    w->ids += skip;
    count -= skip;
    int32_t context = stage->options.context;
    if (context < 4)
        return tool_usage(tool_verb_name(),
                          "--ctx is %d, too small to measure a perplexity; it must be at least 4",
                          context);
    w->windows = (int32_t)(count / (size_t)context);
    if (text->windows > 0 && w->windows > text->windows) w->windows = text->windows;
    if (w->windows > 0) return TOOL_OK;
    char less[48] = "use a longer text";
    if (count >= 4) snprintf(less, sizeof less, "use --ctx %zu", count);
    if (skip)
        return tool_failed(
            "the held-out part of %s has only %zu token%s, but one window (--ctx) needs %d: %s",
            text->path, count, tool_s(count), context, less);
    return tool_failed("%s has only %zu token%s, but one window (--ctx) needs %d: %s", text->path,
                       count, tool_s(count), context, less);
}

/* ---- opening ---- */

/* Of a window. */
static int32_t predictions(int32_t context) {
    return context - 1 - context / 2;
}

static int take_each(tool_windows *w) {
    const uint64_t count = (uint64_t)w->windows * (uint64_t)predictions(w->stage->options.context);
    const uint64_t bytes = count * sizeof(float);
    const mnem_status status =
        mnem_ledger_charge_planned(w->stage->ledger, MNEM_KIND_HOST, EACH_TAG, bytes);
    if (status != MNEM_OK) return tool_fail(status);
    w->each_bytes = bytes;
    w->result.each = malloc(bytes);
    if (w->result.each) return TOOL_OK;
    return tool_failed("out of memory for %llu divergences (one for each token): end other "
                       "programs, or use a shorter text",
                       (unsigned long long)count);
}

static int plan_both(tool_windows *w) {
    const int code = take_each(w);
    if (code != TOOL_OK) return code;
    return tool_reference_plan(w->reference, w->stage, predictions(w->stage->options.context));
}

/* What windows of SHORT_CONTEXT would need, where nobody asked for the long ones that are refused.
 */
static void shorter_words(const tool_stage *stage, char *text, size_t n) {
    char least[TOOL_TEXT];
    mnem_engine_options options = stage->options;
    mnem_engine_plan plan = {0};
    const int32_t context = SHORT_CONTEXT;
    *text = 0;
    if (stage->asked->context || options.comm || options.context <= context) return;
    options.context = context;
    if (mnem_engine_plan_make(stage->model, &options, &plan) == MNEM_OK)
        snprintf(text, n, "--ctx %d would fit; otherwise ", context);
    else if (plan.needed_bytes && plan.needed_bytes < stage->plan.needed_bytes)
        snprintf(text, n, "--ctx %d works with --memory %s; with %d tokens ", context,
                 mnem_size_budget(plan.needed_bytes, least, sizeof least), stage->options.context);
}

static int plan_alone(tool_stage *stage) {
    char why[512], shorter[128];
    const mnem_status status = tool_stage_choose(stage);
    snprintf(why, sizeof why, "%s", mnem_last_error());
    *shorter = 0;
    if (status == MNEM_OVER_BUDGET && stage->plan.knob.kind == MNEM_KNOB_NONE)
        shorter_words(stage, shorter, sizeof shorter);
    if (!*shorter) return tool_stage_chosen(stage, status);
    return tool_fail_rank(why, 0, stage->plan.needed_bytes, tool_budget_bytes(stage->ledger),
                          stage->plan.knob, shorter);
}

int tool_windows_plan(tool_windows *w, tool_stage *stage, tool_reference *reference,
                      const tool_windows_text *text) {
    *w = (tool_windows){.stage = stage, .reference = reference, .bos = -1};
    set_options(stage);
    const int code = encode(w, text);
    if (code != TOOL_OK) return code;
    return reference ? plan_both(w) : plan_alone(stage);
}

int tool_windows_open(tool_windows *w, tool_stage *stage, tool_reference *reference,
                      const tool_windows_text *text) {
    const int code = tool_windows_plan(w, stage, reference, text);
    if (code != TOOL_OK) return code;
    tool_report_start(stage);
    mnem_tokenizer_info info;
    mnem_tokenizer_info_get(stage->tokenizer, &info);
    if (info.add_bos) w->bos = info.bos;
    return reference ? tool_reference_create(reference, stage) : tool_stage_create(stage);
}

void tool_windows_close(tool_windows *w) {
    free(w->result.each);
    if (w->each_bytes)
        mnem_ledger_release(w->stage->ledger, MNEM_KIND_HOST, EACH_TAG, w->each_bytes);
    *w = (tool_windows){0};
}

/* ---- one window ---- */

static bool on_logits(void *context, int32_t index, const float *logits) {
    (void)index; /* counts from the start of a chunk; the calls come in order */
    tool_windows *w = context;
    tool_mean_add(&w->result.model,
                  tool_negative_log_probability(logits, w->stage->transformer.vocab, *w->next++));
    return true;
}

/* The window's tokens from the begin token on; the logits of those at or after first count. */
static mnem_status run_alone(tool_windows *w, const int32_t *ids, int32_t first, int32_t n) {
    const int32_t skip = w->bos >= 0;
    mnem_status status = mnem_session_truncate(w->stage->session, 0);
    if (status == MNEM_OK && skip)
        status = tool_stage_eval(w->stage, &w->bos, 1, 1, on_logits, w, NULL);
    if (status == MNEM_OK)
        status = tool_stage_eval(w->stage, ids + skip, n - skip, first - skip, on_logits, w, NULL);
    return status;
}

/* ---- beside a reference ---- */

/* Of the row that the reference's logits go to next, or the model's are compared with. */
typedef struct turn {
    tool_windows *windows;
    float *row; /* [vocab] */
} turn;

static bool keep_logits(void *context, int32_t index, const float *logits) {
    (void)index;
    turn *t = context;
    const size_t vocab = (size_t)t->windows->stage->transformer.vocab;
    memcpy(t->row, logits, vocab * sizeof *logits);
    t->row += vocab;
    return true;
}

static bool compare_logits(void *context, int32_t index, const float *logits) {
    (void)index;
    turn *t = context;
    const int32_t vocab = t->windows->stage->transformer.vocab;
    tool_divergence_add(&t->windows->result, t->row, logits, vocab, *t->windows->next++);
    t->row += vocab;
    return true;
}

/* What comes before the tokens whose logits count. */
static mnem_status begin_window(const tool_windows *w, tool_stage *stage, const int32_t *ids,
                                int32_t first) {
    const int32_t skip = w->bos >= 0;
    mnem_status status = mnem_session_truncate(stage->session, 0);
    if (status == MNEM_OK && skip) status = tool_stage_eval(stage, &w->bos, 1, 1, NULL, NULL, NULL);
    if (status == MNEM_OK)
        status = tool_stage_eval(stage, ids + skip, first - skip, first, NULL, NULL, NULL);
    return status;
}

static mnem_status compare_part(tool_windows *w, const int32_t *ids, int32_t n) {
    turn t = {w, w->reference->logits};
    mnem_status status = tool_stage_eval(&w->reference->stage, ids, n, 0, keep_logits, &t, NULL);
    t.row = w->reference->logits;
    if (status == MNEM_OK) status = tool_stage_eval(w->stage, ids, n, 0, compare_logits, &t, NULL);
    return status;
}

static mnem_status run_beside(tool_windows *w, const int32_t *ids, int32_t first, int32_t n) {
    mnem_status status = begin_window(w, &w->reference->stage, ids, first);
    if (status == MNEM_OK) status = begin_window(w, w->stage, ids, first);
    for (int32_t at = first, part; at < n && status == MNEM_OK; at += part) {
        part = n - at < w->reference->rows ? n - at : w->reference->rows;
        status = compare_part(w, ids + at, part);
    }
    return status;
}

/* ---- all windows ---- */

static void say_so_far(const tool_windows *w, char *note, size_t n) {
    const int used = snprintf(note, n, "%.4f so far", tool_mean_exp(&w->result.model));
    if (w->reference)
        snprintf(note + used, n - (size_t)used, ", KL %.5f", tool_mean_value(&w->result.kl));
}

int tool_windows_run(tool_windows *w, const char *what) {
    const int32_t context = w->stage->plan.context, first = context / 2;
    tool_progress progress;
    tool_progress_begin(&progress, what);
    mnem_status status = MNEM_OK;
    for (int32_t i = 0; i < w->windows && status == MNEM_OK; i++) {
        const int32_t *ids = w->ids + (int64_t)i * context;
        char note[64];
        w->next = ids + first + 1;
        status = (w->reference ? run_beside : run_alone)(w, ids, first, context - 1);
        say_so_far(w, note, sizeof note);
        tool_progress_step(&progress, (uint64_t)i + 1, (uint64_t)w->windows, note);
    }
    tool_progress_end(&progress);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}
