/* calibration.c: from a text to an importance for each column of a model's matrices.
 *
 * The text's tokens are cut into sequences of the context that don't overlap, the rest is dropped,
 * and each begins with the file's begin token, as llama-imatrix does it. The last fifth of them is
 * kept apart: what is measured on it later wasn't fitted to it. */
#include "verbs/quantize/calibration.h"

#include <stdlib.h>
#include <string.h>

#include "dataset/dataset.h"

enum { APART = 5 };

typedef calibration_cut cut;

static void cut_free(const tool_stage *stage, cut *c) {
    if (c->ids) mnem_ledger_release(stage->ledger, MNEM_KIND_HOST, "text", c->bytes);
    free(c->ids);
    c->ids = NULL;
}

static int copy_ids(const tool_stage *stage, const int32_t *ids, cut *c) {
    mnem_tokenizer_info info;
    const int64_t n = c->sequences * c->context;
    c->bytes = (uint64_t)n * sizeof *ids;
    const mnem_status status = mnem_ledger_charge(stage->ledger, MNEM_KIND_HOST, "text", c->bytes);
    if (status != MNEM_OK) return tool_fail(status);
    c->ids = malloc(c->bytes);
    if (!c->ids) {
        mnem_ledger_release(stage->ledger, MNEM_KIND_HOST, "text", c->bytes);
        return tool_failed("out of memory for the %lld tokens of the calibration text: end other "
                           "programs, or use a shorter text",
                           (long long)n);
    }
    memcpy(c->ids, ids, c->bytes);
    mnem_tokenizer_info_get(stage->tokenizer, &info);
    for (int64_t i = 0; info.add_bos && i < n; i += c->context) c->ids[i] = info.bos;
    return TOOL_OK;
}

/* What was only needed to make ids. */
static void forget_text(tool_stage *stage) {
    mnem_tokenizer_destroy(stage->tokenizer);
    stage->tokenizer = NULL;
    mnem_ledger_release(stage->ledger, MNEM_KIND_HOST, "prompt", stage->prompt.room);
    free(stage->prompt.text);
    memset(&stage->prompt, 0, sizeof stage->prompt);
}

int32_t calibration_context(const char *path) {
    mnem_model *model;
    mnem_transformer t;
    int32_t context = CALIBRATION_CONTEXT;
    if (mnem_model_open(path, &model) != MNEM_OK) return context; /* said when it is needed */
    if (mnem_model_transformer(model, &t) == MNEM_OK && t.context > 0 && t.context < context)
        context = t.context;
    mnem_model_close(model);
    return context;
}

/* Whole sequences, of which the last fifth is kept apart. */
static void cut_sizes(const calibration_asked *asked, int64_t tokens, cut *c) {
    c->context = asked->session.context ? asked->session.context
                 : asked->context       ? asked->context
                                        : CALIBRATION_CONTEXT;
    const int64_t all = tokens / c->context;
    c->apart = all > 1 ? (all + APART - 1) / APART : 0;
    c->sequences = all - c->apart;
    if (asked->chunks && c->sequences > asked->chunks) c->sequences = asked->chunks;
}

int64_t calibration_sees(const void *asked, int64_t tokens) {
    cut c = {0};
    cut_sizes(asked, tokens, &c);
    return c.sequences * c.context;
}

static int make_cut(tool_stage *stage, const calibration_asked *asked, cut *c) {
    const int32_t *ids;
    size_t count;
    int code = tool_text_check(&(tool_text){
        .path = asked->text, .name = asked->text, .alone = true, .quiet = stage->args->quiet});
    if (code == TOOL_OK) code = tool_stage_read(stage, asked->text);
    if (code == TOOL_OK && !stage->args->quiet) dataset_note(asked->text);
    if (code != TOOL_OK) return code;
    const mnem_status status = mnem_tokenizer_encode(
        stage->tokenizer, stage->prompt.text, stage->prompt.bytes, MNEM_ENCODE_PLAIN, &ids, &count);
    if (status != MNEM_OK) return tool_fail(status);
    cut_sizes(asked, (int64_t)count, c);
    if (c->sequences == 0)
        return tool_failed(
            "%s has %zu token%s, but one sequence needs %d: use a longer text or a smaller --ctx",
            asked->text, count, tool_s(count), c->context);
    code = copy_ids(stage, ids, c);
    if (code == TOOL_OK) forget_text(stage);
    return code;
}

static void say(const calibration *c, const mnem_walk_report *r, const cut *text) {
    char states[TOOL_TEXT], spilled[TOOL_TEXT], more[2 * TOOL_TEXT] = "";
    const tool_args *args = c->stage.args;
    if (args->json) {
        tool_out_json("calibration",
                      json_pack("{s:I, s:i, s:I, s:I, s:I, s:i, s:b, s:I}", "sequences",
                                (json_int_t)r->sequences, "context", text->context, "kept_apart",
                                (json_int_t)text->apart, "bytes_states",
                                (json_int_t)r->bytes_states, "bytes_spilled",
                                (json_int_t)r->bytes_spilled, "pass", r->pass, "streamed",
                                r->streamed, "peak_bytes", (json_int_t)r->peak_bytes));
        return;
    }
    if (args->quiet) return;
    if (r->bytes_spilled)
        snprintf(more, sizeof more, ", %s of them in a file", tool_size(r->bytes_spilled, spilled));
    tool_message("calibrated on %lld sequence%s of %d tokens (the last %lld held out for the "
                 "test); the hidden states took %s%s",
                 (long long)r->sequences, tool_s((uint64_t)r->sequences), text->context,
                 (long long)text->apart, tool_size(r->bytes_states, states), more);
}

/* An upper bound of what writing takes beside an open model: rows of the largest tensor as they
 * were, as they become, and packed; two rows of floats for each thread; threads and writer. */
static uint64_t write_bytes(const mnem_model *model, int32_t asked) {
    enum { BATCH = 2 << 20, ROW = 64, TENSOR = 64, WRITER = 256 << 10 };
    mnem_tensor_info t;
    const int32_t have = tool_processors(), threads = asked > 0 ? asked : have ? have : 1;
    uint64_t rows_bytes = 0, floats = 0, tensors = 0;
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &t); i++, tensors++) {
        const uint64_t k = (uint64_t)t.shape[t.dims - 1], row = k * sizeof(float);
        const uint64_t from = mnem_type_row_bytes(t.type, (int64_t)k);
        uint64_t rows = BATCH / row ? BATCH / row : 1;
        if (rows > t.bytes / from) rows = t.bytes / from;
        const uint64_t to = 2 * k > from ? 2 * k : from; /* F16 at the most, or as it was */
        const uint64_t bytes = rows * (from + 2 * to + ROW);
        if (bytes > rows_bytes) rows_bytes = bytes;
        if (2 * row + ROW > floats) floats = 2 * row + ROW;
    }
    return rows_bytes + (uint64_t)threads * floats + mnem_team_bytes(threads) + tensors * TENSOR +
           WRITER;
}

static mnem_walk_options walk_options(const calibration *c, mnem_progress progress) {
    return (mnem_walk_options){.ledger = c->stage.ledger,
                               .threads = c->asked->session.threads,
                               .chunk = c->cut.context,
                               .spill = c->asked->spill ? c->asked->spill : c->spill,
                               .later_bytes = c->write_bytes,
                               .progress = progress};
}

int calibration_fail(const calibration *c, mnem_status status) {
    return tool_fail_plan(status, c->needed_bytes, tool_budget_bytes(c->stage.ledger),
                          (mnem_knob){.kind = MNEM_KNOB_NONE});
}

static bool method_is(const calibration *c, const char *method) {
    return strcasecmp(c->asked->method ? c->asked->method : "auto", method) == 0;
}

/* Whether what columns weigh isn't asked for beside what is solved. */
static bool solves_only(const calibration *c) {
    return method_is(c, "gptq") || method_is(c, "awq") || method_is(c, "sparsegpt");
}

static mnem_solve_options solve_options(const calibration *c, mnem_progress progress,
                                        mnem_walk_report *report) {
    return (mnem_solve_options){.walk = walk_options(c, progress),
                                .ids = c->cut.ids,
                                .sequences = c->cut.sequences,
                                .report = report,
                                .method = method_is(c, "gptq")  ? MNEM_SOLVE_GPTQ
                                          : method_is(c, "awq") ? MNEM_SOLVE_AWQ
                                                                : MNEM_SOLVE_AUTO};
}

typedef mnem_status walk(calibration *c, const mnem_walk_options *o, mnem_walk_report *report);

static mnem_status count_inputs(calibration *c, const mnem_walk_options *o,
                                mnem_walk_report *report) {
    return mnem_calibrate(c->stage.model, o, c->cut.ids, c->cut.sequences, c->imatrix, report);
}

static mnem_status measure_influence(calibration *c, const mnem_walk_options *o,
                                     mnem_walk_report *report) {
    if (!c->influence) return MNEM_OK;
    return mnem_influence(c->stage.model, o, c->cut.ids, c->cut.sequences, c->influence, report);
}

/* Is what columns weigh counted, beside what is solved? */
static bool counts(const calibration *c) {
    return c->asked->imatrix_out || !solves_only(c);
}

/* ---- the plan ---- */

/* One that doesn't fit, or fails. */
static int plan_walk(calibration *c, walk *run) {
    mnem_walk_report report = {0};
    mnem_walk_options o = walk_options(c, (mnem_progress){0});
    o.plan_only = true;
    const mnem_status status = run(c, &o, &report);
    c->needed_bytes = report.needed_bytes;
    return status == MNEM_OK ? TOOL_OK : calibration_fail(c, status);
}

/* A refusal may wait for one that needs more. */
static bool goes_on(int code) {
    return code == TOOL_OK || (code == TOOL_OVER_BUDGET && tool_refusal_held());
}

static int plan_count(calibration *c) {
    const mnem_status status = mnem_imatrix_create(&c->imatrix);
    if (status != MNEM_OK) return tool_fail(status);
    const int code = plan_walk(c, measure_influence);
    return goes_on(code) ? plan_walk(c, count_inputs) : code;
}

/* An upper bound of what a file's tensors take in an imatrix. */
static uint64_t imatrix_bytes(const mnem_model *model) {
    enum { ENTRY = 256 };
    mnem_tensor_info t;
    uint64_t bytes = 0;
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &t); i++)
        bytes += (uint64_t)t.shape[t.dims - 1] * sizeof(float) + ENTRY;
    return bytes;
}

static mnem_status solve_walk(calibration *c, const mnem_walk_options *o,
                              mnem_walk_report *report) {
    mnem_solve_options options = solve_options(c, (mnem_progress){0}, report);
    options.walk = *o;
    return c->solve.prune
               ? mnem_prune_solved(c->solve.from, c->solve.to, c->solve.prune, &options)
               : mnem_quantize_solved(c->solve.from, c->solve.to, c->solve.quantize, &options);
}

/* As it will be: the model is closed, and what was counted before is kept. */
static int plan_solve(calibration *c) {
    const uint64_t kept = counts(c) ? imatrix_bytes(c->stage.model) : 0;
    mnem_status status = mnem_ledger_charge(c->stage.ledger, MNEM_KIND_HOST, "imatrix", kept);
    if (status != MNEM_OK) return tool_fail(status);
    mnem_model_close(c->stage.model);
    c->stage.model = NULL;
    const int code = plan_walk(c, solve_walk);
    mnem_ledger_release(c->stage.ledger, MNEM_KIND_HOST, "imatrix", kept);
    if (!goes_on(code)) return code;
    status = mnem_model_open(c->solve.from, &c->stage.model);
    return status == MNEM_OK ? code : tool_fail(status);
}

int calibration_plan(calibration *c, const tool_args *args, const calibration_asked *asked,
                     int32_t threads, const char *out) {
    static calibration_asked mine; /* borrowed by the stage */
    mine = *asked;
    mine.session.threads = threads;
    c->asked = &mine;
    snprintf(c->spill, sizeof c->spill, "%.*s.states", PATH_MAX - 16, out);
    int code = tool_stage_open(args, &mine.session, &c->stage);
    if (code == TOOL_OK) code = tool_stage_needs_text(&c->stage);
    if (code == TOOL_OK) code = tool_stage_tokenizer(&c->stage);
    if (code == TOOL_OK) code = make_cut(&c->stage, asked, &c->cut);
    if (code == TOOL_OK && c->writes) c->write_bytes = write_bytes(c->stage.model, threads);
    /* Otherwise it is the only walk, and plans itself. */
    const bool solves = c->solve.from && solves_only(c) && (counts(c) || tool_refusal_held());
    if (code == TOOL_OK && solves) code = plan_solve(c);
    if (goes_on(code) && c->stage.model && counts(c)) code = plan_count(c);
    return code;
}

/* ---- the run ---- */

static int count(calibration *c) {
    tool_progress progress;
    mnem_walk_report turned = {0}, counted = {0};
    const cut *text = &c->cut;
    const mnem_walk_options o = walk_options(c, (mnem_progress){tool_progress_tell, &progress});
    tool_progress_begin(&progress, "calibrating");
    mnem_status status = measure_influence(c, &o, &turned);
    if (status == MNEM_OK) status = count_inputs(c, &o, &counted);
    tool_progress_end(&progress);
    if (status == MNEM_OK)
        status = mnem_imatrix_note(c->imatrix, tool_file_name(c->asked->text),
                                   (uint32_t)text->sequences, (uint32_t)text->context);
    if (status == MNEM_OK && c->asked->imatrix_out)
        status = mnem_imatrix_write(c->imatrix, c->asked->imatrix_out);
    c->needed_bytes = turned.needed_bytes + counted.needed_bytes; /* one was refused at the most */
    if (status != MNEM_OK) return calibration_fail(c, status);
    say(c, &counted, text);
    return TOOL_OK;
}

static bool is_2_4(const mnem_model *model) {
    mnem_tensor_info t;
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &t); i++)
        if (t.sparse) return true;
    return false;
}

int calibration_run(calibration *c) {
    const int code = counts(c) ? count(c) : TOOL_OK;
    c->zeros = is_2_4(c->stage.model);
    mnem_model_close(c->stage.model);
    c->stage.model = NULL;
    return code;
}

/* ---- writing ---- */

static mnem_status solve(calibration *c, const char *in, const char *out,
                         const mnem_quantize_options *options) {
    mnem_walk_report report = {0};
    const mnem_solve_options o = solve_options(c, options->progress, &report);
    const mnem_status status = mnem_quantize_solved(in, out, options, &o);
    c->needed_bytes = report.needed_bytes;
    if (status == MNEM_OK && !c->imatrix) say(c, &report, &c->cut);
    return status;
}

mnem_status calibration_quantize(calibration *c, const char *in, const char *out,
                                 mnem_quantize_options *options) {
    options->imatrix = c->imatrix;
    if (!c->asked || method_is(c, "imatrix")) return mnem_quantize_file(in, out, options);
    if (c->zeros && method_is(c, "auto")) {
        tool_message("%s is 2:4 sparse: --method imatrix is used instead of gptq, which would "
                     "overwrite its zeros",
                     in);
        return mnem_quantize_file(in, out, options);
    }
    const mnem_status status = solve(c, in, out, options);
    if (status != MNEM_OVER_BUDGET) return status;
    if (!method_is(c, "auto")) {
        tool_message("use --method imatrix, which needs less memory because it stores no Hessians");
        return status;
    }
    tool_message("the budget is too small for the Hessians of gptq (%s), so --method imatrix is "
                 "used instead; a larger --memory allows gptq",
                 mnem_last_error());
    return mnem_quantize_file(in, out, options);
}

mnem_status calibration_prune(calibration *c, const char *in, const char *out,
                              const mnem_prune_options *options) {
    mnem_walk_report report = {0};
    const mnem_solve_options o = solve_options(c, options->progress, &report);
    const mnem_status status = mnem_prune_solved(in, out, options, &o);
    c->needed_bytes = report.needed_bytes;
    if (status == MNEM_OK) say(c, &report, &c->cut);
    if (status == MNEM_OVER_BUDGET)
        tool_message("use --method wanda, which needs less memory because it stores no Hessians");
    return status;
}

void calibration_close(calibration *c) {
    cut_free(&c->stage, &c->cut);
    mnem_imatrix_destroy(c->imatrix);
    tool_stage_close(&c->stage);
    c->imatrix = NULL;
}

/* ---- the command line ---- */

#define AT(field) offsetof(calibration_asked, field)
const tool_option calibration_options[] = {
    {"calibrate", 0, "FILE", TOOL_VALUE_TEXT, AT(text), .path = TOOL_PATH_READ,
     .help =
         "run the model over this text first (- is standard input), so that columns that matter "
         "most are rounded more precisely; the last fifth is held out for the test"},
    {"method", 0, "METHOD", TOOL_VALUE_NAME, AT(method), .choices = "auto nearest imatrix awq gptq",
     .help = "how columns are rounded. nearest: each weight to the nearest value. imatrix: errors "
             "count by the column's importance (needs --imatrix or --calibrate). awq: columns are "
             "scaled before rounding, and the preceding operator undoes the scales. gptq: each "
             "column compensates for the errors of the columns before it. awq and gptq need "
             "--calibrate, and memory for a Hessian of each matrix's input. auto (default): with "
             "--calibrate gptq, with the scales of awq where they lower the loss; imatrix if the "
             "budget is too small for that, for a 2:4 sparse model, and with --imatrix; else "
             "nearest"},
    {"imatrix-out", 0, "FILE", TOOL_VALUE_TEXT, AT(imatrix_out), .path = TOOL_PATH_WRITE,
     .help =
         "with --calibrate: write the importance matrix to FILE, in llama.cpp's imatrix format"},
    {"ctx", 'c', "N", TOOL_VALUE_COUNT, AT(session.context), .least = 16, .most = 1 << 20,
     .also = "ctx-size context n-ctx num-ctx",
     .help =
         "tokens per sequence of --calibrate and of its held-out part (default: the model's "
         "context, at most 512), and per window of another --test text (default: at most 4096)"},
    {"chunks", 0, "N", TOOL_VALUE_COUNT, AT(chunks), .least = 1, .most = INT32_MAX,
     .help = "with --calibrate: maximum number of sequences (default: the whole text except its "
             "held-out part)"},
    {"spill", 0, "FILE", TOOL_VALUE_TEXT, AT(spill), .path = TOOL_PATH_WRITE,
     .help = "with --calibrate: temporary file for hidden states that don't fit in memory; removed "
             "at the end (default: OUT.states)"},
    TOOL_GROUP(tool_memory_options, AT(session.memory)),
    TOOL_GROUP(tool_pre_options, AT(session.pre)),
    {0},
};
