/* compress_table.c: source, plain types and result over one text, as a table.
 *
 * The idea: each model is opened on its own (with the source beside it, for the divergences), so
 * that the budget holds two models and no more, whatever the number of rows; then once more alone,
 * for its speed. The plain types are files of their own beside the result, one at a time.
 *
 * Invariant: what is written beside the result is gone when this returns, or a signal ends it.
 * Cost: for each row the text through it and through the source. */
#include "verbs/compress/compress_table.h"

#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "output_file.h"
#include "verbs/measure/speed.h"
#include "verbs/measure/windows.h"

enum { PROMPT_TOKENS = 256, TOKENS = 64, REPEATS = 3 };

#define LEFT_TAG "left by the work"

/* Measured: 60 KiB behind malloc_trim with 1 and 4 threads, 290 to 390 without it. */
enum { LEFT_BYTES = 256 << 10 };

/* What a user would take without calibrating, and about how many bits a weight has then. */
static const struct {
    const char *type;
    double bits;
} plain[] = {{"Q8_0", 8.5}, {"Q4_K_M", 4.8}, {"Q4_0", 4.5}, {"Q3_K", 3.4}};
enum { PLAINS = sizeof plain / sizeof *plain };

/* ---- files beside the result ---- */

/* What a signal that leaves at once takes away: the untested result, and a plain type. */
enum { UNTESTED, PLAIN, BESIDE, BESIDE_BYTES = 32 };
static struct {
    char path[PATH_MAX], half[PATH_MAX]; /* the second is there while it is written */
} beside[BESIDE];

static void take_away(int which) {
    unlink(beside[which].path);
    unlink(beside[which].half);
}

static void leave(void) {
    for (int i = 0; i < BESIDE; i++)
        if (*beside[i].path) take_away(i);
}

/* The name of a file beside the result, which is gone after an interrupt. */
static const char *name_beside(const tool_compress *c, int which, const char *end) {
    snprintf(beside[which].half, PATH_MAX, "%s%s" TOOL_NEW_END TOOL_NEW_END, c->out, end);
    snprintf(beside[which].path, PATH_MAX, "%s%s" TOOL_NEW_END, c->out, end);
    tool_interrupt_leave(leave);
    return beside[which].path;
}

static void remove_beside(int which) {
    if (*beside[which].path) take_away(which);
    *beside[which].path = 0;
}

static bool may_refuse(const tool_compress *c) {
    return c->asked->test && tool_given(c->args, "max-loss");
}

const char *tool_compress_path(const tool_compress *c) {
    return may_refuse(c) ? name_beside(c, UNTESTED, "") : c->out;
}

/* ---- before the work ---- */

static bool ends_with(const char *path, const char *end) {
    const size_t n = strlen(path), m = strlen(end);
    return n > m && strcmp(path + n - m, end) == 0;
}

int tool_compress_begin(tool_compress *c, tool_compress_asked *asked, const tool_args *args,
                        const char *calibrated) {
    const bool wanted = asked->table || tool_given(args, "max-loss");
    *c = (tool_compress){.args = args, .asked = asked, .implied = !wanted && !asked->test};
    if (asked->test || !calibrated || (asked->no_table && !wanted)) return TOOL_OK;
    if (strcmp(calibrated, "-") != 0)
        asked->test = calibrated;
    else if (wanted)
        return tool_usage(args->verb->name,
                          "the text for calibration comes from standard input, which can't be read "
                          "a second time for the test: add --test FILE");
    return TOOL_OK;
}

int tool_compress_check(const tool_compress *c) {
    const char *verb = c->args->verb->name, *table = c->asked->table;
    if (c->asked->no_table && table)
        return tool_usage(verb, "give either --table or --no-table, not both");
    if (!c->asked->test && table)
        return tool_usage(
            verb, "--table needs a text to measure the models' perplexity on: add --test FILE");
    if (!c->asked->test && tool_given(c->args, "max-loss"))
        return tool_usage(verb, "--max-loss needs a text to measure the loss on: add --test FILE");
    if (table && !ends_with(table, ".json") && !ends_with(table, ".svg"))
        return tool_usage(verb, "--table %s: the file name must end in .json or .svg", table);
    if (strlen(c->out) + BESIDE_BYTES > PATH_MAX)
        return tool_failed("the output path has %zu bytes, expected at most %d: give a shorter one",
                           strlen(c->out), PATH_MAX - BESIDE_BYTES);
    return TOOL_OK;
}

/* ---- measuring one model ---- */

/* A command line for one model of the row's. */
static tool_args args_of(const tool_compress *c, const char *path) {
    return (tool_args){.verb = c->args->verb,
                       .operands = 1,
                       .operand = {path},
                       .json = true, /* nothing is said of a plan */
                       .quiet = c->args->quiet};
}

static tool_session_asked session_of(const tool_compress *c) {
    return (tool_session_asked){.memory = c->memory, .context = c->context, .threads = c->threads};
}

static void fill_model(tool_compress_row *row, const tool_stage *stage) {
    mnem_model_info info;
    mnem_model_info_get(stage->model, &info);
    row->bytes = info.file_bytes;
    row->bits = 8.0 * (double)info.tensor_bytes / (double)info.parameters;
    if (row->source) snprintf(row->name, sizeof row->name, "%s", tool_main_type(stage->model));
}

static void fill_quality(tool_compress *c, tool_compress_row *row, const tool_windows *w) {
    const tool_divergence *d = &w->result;
    row->perplexity = tool_mean_exp(&d->model);
    row->error = tool_mean_exp_error(&d->model);
    row->ratio = row->top1 = 1;
    c->tokens = d->model.count;
    c->window = w->stage->plan.context;
    if (row->source) return;
    row->ratio = tool_mean_exp(&d->difference);
    row->ratio_error = tool_mean_exp_error(&d->difference);
    row->kl = tool_mean_value(&d->kl);
    row->kl_error = tool_mean_error(&d->kl);
    row->top1 = tool_divergence_agreed(d);
}

/* A model, and beside it the source. */
typedef struct pair {
    tool_args args;
    tool_session_asked asked;
    tool_stage stage;
    tool_reference reference;
    tool_windows windows;
    uint64_t left_bytes; /* charged for what is left behind until the end */
} pair;

static int pair_open(const tool_compress *c, const char *path, bool alone, pair *p) {
    *p = (pair){.args = args_of(c, path), .asked = session_of(c)};
    malloc_trim(0); /* what the work and the last row left */
    int code = tool_stage_open(&p->args, &p->asked, &p->stage);
    if (code == TOOL_OK) code = tool_stage_needs_text(&p->stage);
    if (code == TOOL_OK && !alone) code = tool_reference_open(&p->reference, &p->stage, c->source);
    return code == TOOL_OK ? tool_stage_tokenizer(&p->stage) : code;
}

static void pair_close(pair *p) {
    tool_windows_close(&p->windows);
    tool_reference_close(&p->reference);
    tool_stage_close(&p->stage);
}

static tool_windows_text text_of(const tool_compress *c) {
    return (tool_windows_text){.path = c->asked->test, .skip = c->seen, .context = c->seen_context};
}

static int measure_quality(tool_compress *c, tool_compress_row *row, const char *path) {
    static pair p;
    const tool_windows_text text = text_of(c);
    int code = pair_open(c, path, row->source, &p);
    if (code == TOOL_OK) fill_model(row, &p.stage);
    if (code == TOOL_OK)
        code = tool_windows_open(&p.windows, &p.stage, row->source ? NULL : &p.reference, &text);
    if (code == TOOL_OK) code = tool_windows_run(&p.windows, row->name);
    if (code == TOOL_OK) fill_quality(c, row, &p.windows);
    pair_close(&p);
    return code;
}

/* What was wrong is said already. A test that nobody asked for isn't worth a refusal. */
static int call_off(tool_compress *c, int code) {
    if (!c->implied && tool_refusal_held()) return code;
    if (!c->implied) {
        tool_message("the test at the end, which --test, --table or --max-loss asks for, does not "
                     "fit in the budget (see the message above); no output file has been written");
        return code;
    }
    tool_message("the table at the end is left out, because it does not fit in the budget (see the "
                 "message above); --no-table leaves it out without these messages");
    c->asked->test = NULL;
    return TOOL_OK;
}

/* The work before the test leaves pages of the heap: with the bytes of this estimate the plans at
 * the end fit, too, whose processes are larger by that. */
static int take_left(pair *p) {
    const mnem_status status =
        mnem_ledger_charge_planned(p->stage.ledger, MNEM_KIND_HOST, LEFT_TAG, LEFT_BYTES);
    if (status != MNEM_OK) return tool_fail(status);
    p->left_bytes = LEFT_BYTES;
    return TOOL_OK;
}

static void give_left(pair *p) {
    if (p->left_bytes)
        mnem_ledger_release(p->stage.ledger, MNEM_KIND_HOST, LEFT_TAG, p->left_bytes);
    p->left_bytes = 0;
}

int tool_compress_try(tool_compress *c) {
    static pair p;
    if (!c->asked->test) return TOOL_OK;
    const tool_windows_text text = text_of(c);
    int code = pair_open(c, c->source, false, &p);
    if (code == TOOL_OK) code = take_left(&p);
    if (code == TOOL_OK) code = tool_windows_plan(&p.windows, &p.stage, &p.reference, &text);
    const bool too_short = p.windows.ids && p.windows.windows == 0;
    give_left(&p);
    pair_close(&p);
    malloc_trim(0); /* refused or not, the next plan begins with the same heap */
    return code == TOOL_OVER_BUDGET || too_short ? call_off(c, code) : code;
}

/* Alone, with all of the budget, as a run would be. */
static int measure_speed(const tool_compress *c, tool_compress_row *row, const char *path) {
    static tool_stage stage;
    const tool_args args = args_of(c, path);
    const tool_session_asked asked = session_of(c);
    int code = tool_stage_open(&args, &asked, &stage);
    if (code != TOOL_OK) goto close;
    const int32_t most = stage.transformer.context;
    const int32_t prompt = most < PROMPT_TOKENS ? most : PROMPT_TOKENS;
    const int32_t tokens = most < TOKENS ? most : TOKENS;
    stage.options.context = prompt;
    code = tool_stage_plan(&stage);
    if (code == TOOL_OK) code = tool_stage_create(&stage);
    if (code != TOOL_OK) goto close;
    mnem_status status = tool_speed_prompt(&stage, prompt, REPEATS, &row->prompt_rate);
    if (status == MNEM_OK) status = tool_speed_tokens(&stage, tokens, REPEATS, &row->rate);
    if (status != MNEM_OK) code = tool_fail(status);
close:
    tool_stage_close(&stage);
    return code;
}

/* A row that can't be measured isn't one. */
static int measure(tool_compress *c, tool_compress_row row, const char *path) {
    int code = measure_quality(c, &row, path);
    if (code == TOOL_OK && !c->asked->no_table) code = measure_speed(c, &row, path);
    if (code == TOOL_OK) c->row[c->rows++] = row;
    return code;
}

/* ---- the rows ---- */

/* As a file beside the result, which is gone behind it. */
static int measure_plain(tool_compress *c, const char *type) {
    const char *path = name_beside(c, PLAIN, ".plain");
    tool_compress_row row = {0};
    tool_progress progress;
    snprintf(row.name, sizeof row.name, "%s", type);
    tool_progress_begin(&progress, "quantizing");
    const mnem_quantize_options options = {
        .type = type, .threads = c->threads, .progress = {tool_progress_tell, &progress}};
    const mnem_status status = mnem_quantize_file(c->source, path, &options);
    tool_progress_end(&progress);
    const int code = status == MNEM_OK ? measure(c, row, path) : tool_fail(status);
    remove_beside(PLAIN);
    return code;
}

static int measure_all(tool_compress *c, const char *path) {
    tool_compress_row result = {.result = true};
    snprintf(result.name, sizeof result.name, "%s", c->name);
    int code = measure(c, (tool_compress_row){.source = true}, c->source);
    for (int i = 0; i < PLAINS && code == TOOL_OK && !c->asked->no_table; i++) {
        if (plain[i].bits >= c->row[0].bits || !strcmp(plain[i].type, c->row[0].name)) continue;
        if (c->plain && strcasecmp(c->plain, plain[i].type) == 0) continue;
        code = measure_plain(c, plain[i].type);
    }
    return code == TOOL_OK ? measure(c, result, path) : code;
}

/* ---- the table ---- */

/* "-" where there is none. */
static char *cell(bool known, char text[TOOL_TEXT], const char *format, double x) {
    const int n = snprintf(text, TOOL_TEXT, "-");
    if (known && isfinite(x)) snprintf(text, (size_t)(TOOL_TEXT - n), format, x);
    return text;
}

static void print_row(const tool_compress_row *r) {
    char size[TOOL_TEXT], loss[TOOL_TEXT], kl[TOOL_TEXT], top[TOOL_TEXT];
    char prompt[TOOL_TEXT], rate[TOOL_TEXT];
    const double percent = 100 * (r->ratio - 1);
    tool_outf("%c%-12.12s %8s %5.2f %10.*f %8s %7s %6s %8s %7s\n", r->result ? '*' : ' ', r->name,
              tool_size(r->bytes, size), r->bits, r->perplexity < 99999.9999 ? 4 : 1, r->perplexity,
              cell(!r->source, loss, fabs(percent) < 99 ? "%+.2f %%" : "%+.0f %%", percent),
              cell(!r->source, kl, r->kl < 1 ? "%.5f" : "%.3f", r->kl),
              cell(!r->source, top, r->top1 < 0.9995 ? "%.1f %%" : "%.0f %%", 100 * r->top1),
              cell(r->prompt_rate > 0, prompt, "%.0f", r->prompt_rate),
              cell(r->rate > 0, rate, r->rate < 9999.95 ? "%.1f" : "%.0f", r->rate));
}

static void print_table(const tool_compress *c) {
    tool_outf("%-13s %8s %5s %10s %8s %7s %6s %8s %7s\n", " model", "size", "bits", "perplexity",
              "loss", "KL", "top-1", "prompt/s", "token/s");
    for (int i = 0; i < c->rows; i++) print_row(&c->row[i]);
    tool_outf("  %llu tokens of %s that count, windows of %d; * was asked for\n",
              (unsigned long long)c->tokens, tool_file_name(c->asked->test), c->window);
}

static json_t *row_json(const tool_compress_row *r) {
    json_t *object =
        json_pack("{s:s, s:b, s:b, s:I, s:f, s:o, s:o}", "model", r->name, "source", r->source,
                  "result", r->result, "bytes", (json_int_t)r->bytes, "bits_per_weight", r->bits,
                  "perplexity", tool_json_real(r->perplexity), "error", tool_json_real(r->error));
    json_t *more =
        json_pack("{s:o, s:o, s:o, s:o, s:f, s:o, s:o}", "ratio", tool_json_real(r->ratio),
                  "ratio_error", tool_json_real(r->ratio_error), "kl_mean", tool_json_real(r->kl),
                  "kl_error", tool_json_real(r->kl_error), "top1", r->top1, "prompt_tokens_per_s",
                  tool_json_known(r->prompt_rate), "tokens_per_s", tool_json_known(r->rate));
    if (object && more) json_object_update(object, more);
    json_decref(more);
    return object;
}

static json_t *table_json(const tool_compress *c) {
    json_t *rows = json_array();
    for (int i = 0; i < c->rows; i++) json_array_append_new(rows, row_json(&c->row[i]));
    return json_pack("{s:o, s:o?, s:I, s:i}", "rows", rows, "test", json_string(c->asked->test),
                     "tokens", (json_int_t)c->tokens, "context", c->window);
}

/* The same object as --json prints, a row on a line. */
static int write_json(const tool_compress *c, const char *path) {
    tool_new file;
    const int code = tool_new_open(&file, path);
    if (code != TOOL_OK) return code;
    json_t *object = table_json(c);
    json_dumpf(object, file.file, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    fputc('\n', file.file);
    json_decref(object);
    return tool_new_end(&file);
}

static int show(const tool_compress *c) {
    const char *path = c->asked->table;
    if (c->args->json)
        tool_out_json("table", table_json(c));
    else
        print_table(c);
    if (!path) return TOOL_OK;
    return ends_with(path, ".svg") ? tool_compress_draw(c, path) : write_json(c, path);
}

/* ---- the end ---- */

/* Not above the limit: what isn't a number is. */
static int check_loss(const tool_compress *c) {
    const double percent = 100 * (c->row[c->rows - 1].ratio - 1);
    if (!may_refuse(c) || percent <= c->asked->max_loss) return TOOL_OK;
    const bool prunes = strcmp(c->args->verb->name, "prune") == 0;
    return tool_failed(prunes ? "the perplexity of the pruned model is %.2f %% worse than that of "
                                "%s, but --max-loss allows %g %%: %s "
                                "was not written; prune less, or use a larger --max-loss"
                              : "the perplexity of the quantized model is %.2f %% worse than that "
                                "of %s, but --max-loss allows %g %%: %s "
                                "was not written; use a larger type, or a larger --max-loss",
                       percent, tool_file_name(c->source), c->asked->max_loss, c->out);
}

static int give_name(const tool_compress *c) {
    if (rename(beside[UNTESTED].path, c->out) == 0) return TOOL_OK;
    return tool_failed("can't write %s: %s", c->out, strerror(errno));
}

int tool_compress_end(tool_compress *c) {
    if (!c->asked->test) return TOOL_OK;
    int code = measure_all(c, may_refuse(c) ? beside[UNTESTED].path : c->out);
    if (code == TOOL_OK) code = show(c);
    if (code == TOOL_OK) code = check_loss(c);
    if (code == TOOL_OK && may_refuse(c)) code = give_name(c);
    remove_beside(UNTESTED);
    tool_interrupt_leave(NULL);
    return code;
}

/* ---- the options ---- */

#define AT(field) offsetof(tool_compress_asked, field)
const tool_option tool_compress_options[] = {
    {"test", 0, "FILE", TOOL_VALUE_TEXT, AT(test), .path = TOOL_PATH_READ,
     .help = "test text: print a table of size, perplexity, divergence and speed of the original "
             "model, of plain types and of OUT"},
    {"table", 0, "FILE", TOOL_VALUE_TEXT, AT(table), .path = TOOL_PATH_WRITE,
     .help = "write the table to FILE as well: .json, or .svg (a plot of size against loss)"},
    {"no-table", 0, NULL, TOOL_VALUE_FLAG, AT(no_table),
     .help = "with --calibrate: print no table at the end; with --test: leave the plain types and "
             "the speeds out of the table"},
    {"max-loss", 0, "PERCENT", TOOL_VALUE_REAL, AT(max_loss), .least = 0, .most = 1e6,
     .help =
         "write no OUT if its perplexity on the test text is worse by more than this percentage"},
    {0},
};
