/* verb_perplexity.c: `mnem perplexity`: how well a model predicts a text.
 *
 * The method: the text's tokens are cut into windows of the context that don't overlap, the rest
 * is dropped. Each window is evaluated from an empty context; the predictions of its tokens from
 * context / 2 + 1 on count (numbered from 0). Perplexity is exp of the mean of their negative log
 * probabilities. If the file wants a begin token, it takes the place of each window's first token.
 */
#include <math.h>
#include <string.h>

#include "stage.h"

typedef struct perplexity_options {
    tool_args args;
    tool_session_asked session;
} perplexity_options;

enum { DEFAULT_CONTEXT = 4096, LOGITS_BYTES = 4 << 20 };

typedef struct measure {
    tool_stage *stage;
    const int32_t *next; /* the token that the next logits predict */
    int32_t vocab;
    uint64_t count;
    double sum, sum_squares;
} measure;

static double negative_log_probability(const float *logits, int32_t vocab, int32_t id) {
    float most = logits[0];
    for (int32_t i = 1; i < vocab; i++)
        if (logits[i] > most) most = logits[i];
    double sum = 0;
    for (int32_t i = 0; i < vocab; i++) sum += (double)expf(logits[i] - most);
    return log(sum) + (double)most - (double)logits[id];
}

static double perplexity(const measure *m) {
    return exp(m->sum / (double)m->count);
}

/* The standard error of the perplexity: that of the mean, carried through exp. */
static double uncertainty(const measure *m) {
    double n = (double)m->count, mean = m->sum / n;
    double variance = m->sum_squares / n - mean * mean;
    return n > 1 && variance > 0 ? perplexity(m) * sqrt(variance / (n - 1)) : 0;
}

static bool on_logits(void *context, int32_t index, const float *logits) {
    (void)index; /* counts from the start of a chunk; the calls come in order */
    measure *m = context;
    double x = negative_log_probability(logits, m->vocab, *m->next++);
    m->sum += x;
    m->sum_squares += x * x;
    m->count++;
    return true;
}

static mnem_status run_window(measure *m, const int32_t *ids, int32_t context, int32_t bos) {
    int32_t first = context / 2, skip = bos >= 0;
    m->next = ids + first + 1;
    mnem_status status = mnem_session_truncate(m->stage->session, 0);
    if (status == MNEM_OK && skip)
        status = tool_stage_eval(m->stage, &bos, 1, 1, on_logits, m, NULL);
    if (status == MNEM_OK)
        status = tool_stage_eval(m->stage, ids + skip, context - 1 - skip, first - skip, on_logits,
                                 m, NULL);
    return status;
}

static int run_windows(measure *m, const int32_t *ids, int32_t windows, int32_t bos) {
    int32_t context = m->stage->plan.context;
    tool_progress progress;
    tool_progress_begin(&progress, "perplexity");
    mnem_status status = MNEM_OK;
    for (int32_t i = 0; i < windows && status == MNEM_OK; i++) {
        status = run_window(m, ids + (int64_t)i * context, context, bos);
        char note[48];
        snprintf(note, sizeof note, "%.4f so far", perplexity(m));
        tool_progress_step(&progress, (uint64_t)i + 1, (uint64_t)windows, note);
    }
    tool_progress_end(&progress);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

static int print(const measure *m, int32_t windows) {
    if (m->stage->args->json)
        tool_out_json(json_pack("{s:o, s:o, s:I, s:I, s:i}", "perplexity",
                                tool_json_real(perplexity(m)), "error",
                                tool_json_real(uncertainty(m)), "tokens", (json_int_t)m->count,
                                "windows", (json_int_t)windows, "context", m->stage->plan.context));
    else
        tool_outf("perplexity %.4f +- %.4f (%llu token%s, %d window%s of %d)\n", perplexity(m),
                  uncertainty(m), (unsigned long long)m->count, tool_s((uint64_t)m->count), windows,
                  tool_s((uint64_t)windows), m->stage->plan.context);
    return tool_out_end();
}

/* The options of the session: the model's context, and rows of logits that are computed together.
 */
static void set_options(tool_stage *stage) {
    const mnem_transformer *t = &stage->transformer;
    if (!stage->options.context)
        stage->options.context = t->context < DEFAULT_CONTEXT ? t->context : DEFAULT_CONTEXT;
    int32_t rows = LOGITS_BYTES / (int32_t)sizeof(float) / t->vocab;
    stage->options.logits_rows = rows < 1 ? 1 : rows > 64 ? 64 : rows;
}

static int encode(tool_stage *stage, const char *path, const int32_t **ids, size_t *count) {
    int code = tool_stage_read(stage, path);
    if (code != TOOL_OK) return code;
    mnem_status status = mnem_tokenizer_encode(stage->tokenizer, stage->prompt.text,
                                               stage->prompt.bytes, 0, ids, count);
    if (status != MNEM_OK) return tool_fail(status);
    int32_t context = stage->options.context;
    if (context < 4) return tool_usage("perplexity", "--ctx must be at least 4");
    if (*count >= (size_t)context) return TOOL_OK;
    char less[48] = "take more text";
    if (*count >= 4) snprintf(less, sizeof less, "--ctx %zu would do", *count);
    return tool_failed("%s has %zu token%s; one window needs %d: %s", path, *count, tool_s(*count),
                       context, less);
}

static int measure_text(tool_stage *stage, const char *path) {
    const int32_t *ids;
    size_t count;
    set_options(stage);
    int code = encode(stage, path, &ids, &count);
    if (code == TOOL_OK) code = tool_stage_plan(stage);
    if (code == TOOL_OK) tool_report_start(stage);
    if (code == TOOL_OK) code = tool_stage_create(stage);
    if (code != TOOL_OK) return code;
    mnem_tokenizer_info info;
    mnem_tokenizer_info_get(stage->tokenizer, &info);
    measure m = {.stage = stage, .vocab = stage->transformer.vocab};
    int32_t windows = (int32_t)(count / (size_t)stage->plan.context);
    code = run_windows(&m, ids, windows, info.add_bos ? info.bos : -1);
    return code == TOOL_OK ? print(&m, windows) : code;
}

static int verb_perplexity(const tool_args *args) {
    static tool_stage stage;
    const perplexity_options *o = (const perplexity_options *)args;
    tool_interrupt_watch(NULL);
    int code = tool_stage_open(args, &o->session, &stage);
    if (code == TOOL_OK) code = tool_stage_needs_text(&stage);
    if (code == TOOL_OK) code = tool_stage_tokenizer(&stage);
    if (code == TOOL_OK) code = measure_text(&stage, args->operand[1]);
    tool_stage_close(&stage);
    return code;
}

/* ---- the command line ---- */

#define AT(field) offsetof(perplexity_options, field)
static const tool_option options[] = {
    TOOL_GROUP(tool_session_options, AT(session)),
    TOOL_GROUP(tool_pre_options, AT(session.pre)),
    TOOL_GROUP(tool_json_options, 0),
    TOOL_GROUP(tool_quiet_options, 0),
    {0},
};

static perplexity_options asked;
TOOL_VERB(perplexity, "MODEL FILE", 2, 2, "how well a model predicts a text",
          "The text is cut into windows of the context that don't overlap (the rest is dropped).\n"
          "In each window the predictions of the second half count. Lower is better; a change\n"
          "of 0.5 % is what a good 4-bit type costs.\n",
          "mnem perplexity model.gguf heldout.txt  # the model's context, at most 4096\n"
          "mnem perplexity model.gguf heldout.txt --ctx 512 --json  # shorter windows, for a "
          "script\n");
