/* verb_quantize.c: `mnem quantize`: a model in a smaller type, and each tensor's error.
 *
 * The library streams the rows and reports each tensor when it is written; here its line is shown
 * and the summary counted. The error is relative to the source, so one that was quantized before
 * says less than it lost in all: that is warned of. */
#include <stdlib.h>
#include <string.h>

#include "output_file.h"
#include "verbs/compress/compress_table.h"
#include "verbs/quantize/calibration.h"

typedef struct quantize_options {
    tool_args args;
    int32_t threads;
    const char *out, *type, *imatrix, *target;
    tool_texts rules; /* PATTERN=TYPE */
    calibration_asked calibration;
    tool_compress_asked compress;
} quantize_options;

enum { RULE_BYTES = 256, LARGE_BLOCK = 256 /* numbers, of K types */ };

/* How many tensors a type was chosen for, and what they take. */
enum { TYPES_MAX = 64 };
typedef struct type_sum {
    uint32_t tensors;
    uint64_t bytes;
} type_sum;

typedef struct work {
    const tool_args *args;
    const char *out, *type;
    char name[32]; /* of the result in the test's table */
    tool_compress compress;
    tool_progress progress;
    uint64_t bytes_from, bytes_to;
    double relative_worst;
    char worst[64];
    uint32_t changed, lossy_sources, lossy_again; /* again: became a quantized type */
    uint32_t small_blocks; /* of what was changed: those of blocks of 32 numbers */
    uint32_t unweighted;   /* of what was changed and quantized: those without importance */
    type_sum sums[TYPES_MAX];
    uint64_t weights; /* of all tensors */
} work;

static const char *type_name(mnem_type type) {
    return mnem_type_get(type)->name;
}

/* What lost something already: to quantize it again loses more than to quantize its origin. */
static bool is_quantized(mnem_type type) {
    return mnem_type_get(type)->block_elements > 1;
}

/* Weights that make up for each other's errors are far from what they were, and what they give is
 * near: that is what counts where it is known. */
static void error_text(const mnem_quantize_report *r, char *text, size_t room) {
    size_t n = 0;
    *text = 0;
    if (r->from == r->to) return;
    if (r->solved)
        n = (size_t)snprintf(text, room, "of outputs %6.3f %%", 100 * r->output_error);
    else
        n = (size_t)snprintf(text, room, "error %.3f %%", 100 * r->relative_error);
    if (!r->solved) n += (size_t)snprintf(text + n, room - n, "  max %.2g", r->max_error);
    if (r->weighted && !r->solved)
        n += (size_t)snprintf(text + n, room - n, "  weighted %.3f %%", 100 * r->weighted_error);
    if (r->exponent > 0) n += (size_t)snprintf(text + n, room - n, "  scales ^%.2f", r->exponent);
    if (r->exponent < 0) snprintf(text + n, room - n, "  can't be scaled");
}

static void print_tensor(const work *w, const mnem_quantize_report *r) {
    if (w->args->json) {
        json_t *line =
            json_pack("{s:s, s:s, s:s, s:I, s:I, s:f, s:f, s:f}", "tensor", r->tensor, "from",
                      type_name(r->from), "to", type_name(r->to), "bytes_from",
                      (json_int_t)r->bytes_from, "bytes_to", (json_int_t)r->bytes_to, "rms_error",
                      r->rms_error, "relative_error", r->relative_error, "max_error", r->max_error);
        if (line && r->weighted)
            json_object_set_new(line, "weighted_error", tool_json_real(r->weighted_error));
        if (line && r->solved) {
            json_object_set_new(line, "output_error", tool_json_real(r->output_error));
            json_object_set_new(line, "exponent", tool_json_real(r->exponent));
        }
        tool_out_json("tensor", line);
        return;
    }
    char from[TOOL_TEXT], to[TOOL_TEXT], row[200], error[120];
    snprintf(row, sizeof row, "%*u/%u %-25s %4s %8s -> %-4s %8s", r->count < 100 ? 2 : 3,
             r->index + 1, r->count, r->tensor, type_name(r->from), tool_size(r->bytes_from, from),
             type_name(r->to), tool_size(r->bytes_to, to));
    error_text(r, error, sizeof error);
    tool_out_row(row, error);
}

static uint64_t weights_of(const mnem_quantize_report *r) {
    const mnem_type_info *type = mnem_type_get(r->from);
    return r->bytes_from / type->block_bytes * type->block_elements;
}

static void note(work *w, const mnem_quantize_report *r) {
    w->bytes_from += r->bytes_from;
    w->bytes_to += r->bytes_to;
    w->weights += weights_of(r);
    if ((unsigned)r->to < TYPES_MAX) {
        w->sums[r->to].tensors++;
        w->sums[r->to].bytes += r->bytes_to;
    }
    if (r->from == r->to) return;
    w->changed++;
    w->lossy_sources += is_quantized(r->from);
    w->lossy_again += is_quantized(r->from) && is_quantized(r->to);
    w->unweighted += is_quantized(r->to) && !r->weighted;
    w->small_blocks += is_quantized(r->to) && mnem_type_get(r->to)->block_elements < LARGE_BLOCK;
    const double error = r->solved ? r->output_error : r->relative_error;
    if (error <= w->relative_worst) return;
    w->relative_worst = error;
    snprintf(w->worst, sizeof w->worst, "%s", r->tensor);
}

static void on_report(void *context, const mnem_quantize_report *r) {
    work *w = context;
    note(w, r);
    if (!w->args->json && !w->args->verbose) return;
    tool_progress_hide();
    print_tensor(w, r);
}

static double bits_of(const work *w) {
    return w->weights ? 8 * (double)w->bytes_to / (double)w->weights : 0;
}

static json_t *types_json(const work *w) {
    json_t *types = json_object();
    for (int t = 0; types && t < TYPES_MAX; t++)
        if (w->sums[t].tensors)
            json_object_set_new(types, type_name((mnem_type)t),
                                json_pack("{s:I, s:I}", "tensors", (json_int_t)w->sums[t].tensors,
                                          "bytes", (json_int_t)w->sums[t].bytes));
    return types;
}

/* What was chosen where more than a name said it. */
static void print_types(const work *w) {
    char bytes[TOOL_TEXT];
    for (int t = 0; t < TYPES_MAX; t++)
        if (w->sums[t].tensors)
            tool_outf("  %-7s %4u tensor%s %10s\n", type_name((mnem_type)t), w->sums[t].tensors,
                      w->sums[t].tensors == 1 ? " " : "s", tool_size(w->sums[t].bytes, bytes));
}

/* Q4_K_M and its like are of large blocks only, where rows are made of whole ones. */
static void warn_rows(const work *w, const quantize_options *o) {
    if (!w->type || o->rules.count || !w->small_blocks || !strcasestr(w->type, "_K")) return;
    tool_message(
        "note: %u tensor%s rows whose length is not a multiple of %d, which %s needs, so %s "
        "stored in another type of about that size",
        w->small_blocks, w->small_blocks == 1 ? " has" : "s have", LARGE_BLOCK, w->type,
        w->small_blocks == 1 ? "it is" : "they are");
}

/* What to do comes first. */
static void warn_source(const work *w) {
    const bool larger = w->changed && w->bytes_to > w->bytes_from;
    const unsigned n = w->lossy_again;
    if (n)
        tool_message("warning: quantize an F16 or F32 file of this model instead: %u tensor%s "
                     "already quantized, so precision is lost a second time",
                     n, n == 1 ? " was" : "s were");
    if (larger)
        tool_message(
            "note: %s is larger than %s, because the new types are larger than the old ones%s",
            w->out, w->args->operand[0], n ? "; it is not more precise" : "");
}

static void warn(const work *w, const quantize_options *o) {
    warn_source(w);
    warn_rows(w, o);
    if (o->imatrix && w->unweighted)
        tool_message("%u of the quantized tensors %s in the importance matrix %s, so their columns "
                     "were weighted equally (usual for token_embd and output)",
                     w->unweighted, w->unweighted == 1 ? "isn't" : "aren't", o->imatrix);
}

static void print_summary(const work *w, const quantize_options *o) {
    warn(w, o);
    if (w->args->json) {
        tool_out_json("quantize",
                      json_pack("{s:s, s:s?, s:I, s:I, s:f, s:s, s:i, s:f, s:o}", "out", w->out,
                                "type", w->type, "bytes_from", (json_int_t)w->bytes_from,
                                "bytes_to", (json_int_t)w->bytes_to, "relative_error_worst",
                                w->relative_worst, "tensor_worst", w->worst, "requantized",
                                (int)w->lossy_sources, "bits", bits_of(w), "types", types_json(w)));
        return;
    }
    char from[TOOL_TEXT], to[TOOL_TEXT], text[240];
    print_types(w);
    size_t n = (size_t)snprintf(text, sizeof text, "%s -> %s, %u tensor%s changed",
                                tool_size(w->bytes_from, from), tool_size(w->bytes_to, to),
                                w->changed, tool_s(w->changed));
    if (o->target || o->rules.count)
        n += (size_t)snprintf(text + n, sizeof text - n, ", %.2f bits a weight", bits_of(w));
    if (*w->worst)
        snprintf(text + n, sizeof text - n, "; largest error %.3f %% in %s",
                 100 * w->relative_worst, w->worst);
    tool_out_result(w->out, text);
}

static bool is_type(const char *word) {
    char among[32];
    snprintf(among, sizeof among, " %.24s ", word);
    return strcasestr(" " TOOL_TYPES " ", among) != NULL;
}

/* A calibration without a model to write: only what it counts is wanted. */
static bool counts_only(const quantize_options *o, const work *w) {
    return o->calibration.text && o->calibration.imatrix_out && !w->out && !w->type && !o->target;
}

/* llama-quantize takes its threads as the last operand. */
static bool take_threads(quantize_options *o, const char *word) {
    enum { MOST = 4 };
    const size_t n = strlen(word);
    if (o->threads || n > MOST || strspn(word, "0123456789") != n || *word == '0') return false;
    o->threads = atoi(word);
    return true;
}

/* OUT and TYPE are operands, or options. */
static int choose(quantize_options *o, work *w) {
    const tool_args *args = &o->args;
    int next = 1;
    w->out = o->out ? o->out : args->operand[next++];
    w->type = o->type ? o->type : args->operand[next++];
    if (counts_only(o, w)) return TOOL_OK;
    if (!w->out) return tool_usage("quantize", "the file to write is missing: give OUT after IN");
    if (!w->type && !o->out && is_type(w->out))
        return tool_usage("quantize", "the file to write is missing: give OUT between IN and %s",
                          w->out);
    if (o->target && w->type)
        return tool_usage("quantize", "--type %s and --target can't be combined: leave one out",
                          w->type);
    if (!w->type && !o->target)
        return tool_usage("quantize",
                          "--type is missing: add one, such as Q8_0, Q4_0, Q4_K_M or F16");
    if (next + 1 == args->operands && take_threads(o, args->operand[next])) next++;
    if (next < args->operands)
        return tool_usage("quantize",
                          "\"%s\" is one operand too many: mnem quantize takes IN, OUT and a type",
                          args->operand[next]);
    const int code = o->type || !w->type ? TOOL_OK : tool_option_check(args->verb, "type", w->type);
    return code == TOOL_OK && w->out ? tool_new_check_model(args, w->out) : code;
}

/* A plain number of at most 32 is bits of a weight; everything else is a size. */
static int read_target(const char *text, mnem_quantize_options *options) {
    char *end;
    const double bits = text ? strtod(text, &end) : 0;
    if (!text) return TOOL_OK;
    if (end != text && !*end && bits > 0 && bits <= 32)
        options->target_bits = bits;
    else if (mnem_size_parse(text, &options->target_bytes) != MNEM_OK || !options->target_bytes)
        return tool_usage(
            "quantize",
            "--target takes a size such as 60M, or bits per weight such as 4.5, not \"%s\"", text);
    return TOOL_OK;
}

/* PATTERN=TYPE; a pattern may hold more of =. The texts are those of the command line. */
static int read_rules(const quantize_options *o, char (*pattern)[RULE_BYTES],
                      mnem_tensor_rule *rule) {
    for (int i = 0; i < o->rules.count; i++) {
        const char *text = o->rules.text[i], *type = strrchr(text, '=');
        if (type && (size_t)(type - text) >= RULE_BYTES)
            return tool_usage("quantize",
                              "--tensor-type: the pattern has %zu bytes, expected at most %d",
                              (size_t)(type - text), RULE_BYTES - 1);
        if (!type || type == text)
            return tool_usage("quantize",
                              "--tensor-type takes PATTERN=TYPE, such as "
                              "attn_v=Q6_K, not \"%s\"",
                              text);
        snprintf(pattern[i], RULE_BYTES, "%.*s", (int)(type - text), text);
        rule[i] = (mnem_tensor_rule){pattern[i], type + 1};
    }
    return TOOL_OK;
}

/* A method has what it takes, and what is of a calibration has one. */
static int check_method(const quantize_options *o) {
    const char *const names[] = {"imatrix-out", "chunks", "spill", "pretokenizer"};
    const char *const both[] = {"ctx", "memory"};
    const char *method = o->calibration.method ? o->calibration.method : "auto";
    const char *text = o->calibration.text;
    for (size_t i = 0; !text && i < sizeof names / sizeof *names; i++)
        if (tool_given(&o->args, names[i]))
            return tool_usage("quantize", "--%s needs --calibrate FILE", names[i]);
    for (size_t i = 0; !text && !o->compress.test && i < sizeof both / sizeof *both; i++)
        if (tool_given(&o->args, both[i]))
            return tool_usage("quantize", "--%s needs --calibrate FILE or --test FILE", both[i]);
    if (text && o->imatrix)
        return tool_usage("quantize", "--imatrix and --calibrate can't be combined: leave one out");
    if (strcasecmp(method, "nearest") == 0 && (o->imatrix || text))
        return tool_usage("quantize",
                          "--method nearest does not use --%s: leave out one of the two",
                          text ? "calibrate" : "imatrix");
    if (strcasecmp(method, "imatrix") == 0 && !o->imatrix && !text)
        return tool_usage("quantize", "--method imatrix needs --imatrix FILE, or --calibrate FILE");
    const bool solves = strcasecmp(method, "gptq") == 0 || strcasecmp(method, "awq") == 0;
    if (solves && !text)
        return tool_usage("quantize", "--method %s needs --calibrate FILE", method);
    return TOOL_OK;
}

/* Without a calibration there is no budget. */
static int fail(const calibration *c, mnem_status status) {
    return c->asked ? calibration_fail(c, status) : tool_fail(status);
}

/* Of the test and of the calibration: what is refused names a budget that is enough for both. */
static int plan_both(const quantize_options *o, work *w, calibration *c,
                     const mnem_quantize_options *options) {
    int code = TOOL_OK;
    if (!w->compress.implied) tool_refusal_hold();
    if (w->out) code = tool_compress_try(&w->compress);
    tool_refusal_hold();
    if ((code == TOOL_OK || tool_refusal_held()) && o->calibration.text) {
        const char *target = w->out ? tool_compress_path(&w->compress) : NULL;
        c->writes = w->out != NULL;
        if (target) c->solve = (calibration_solve){o->args.operand[0], target, options, NULL};
        code = calibration_plan(c, &o->args, &o->calibration, o->threads,
                                w->out ? w->out : o->calibration.imatrix_out);
    }
    return tool_refusal_end(code);
}

static int quantize_file(const quantize_options *o, work *w, calibration *c,
                         mnem_quantize_options *options) {
    if (o->imatrix) {
        const mnem_status status = mnem_imatrix_open(o->imatrix, &c->imatrix);
        if (status != MNEM_OK) return tool_fail(status);
    }
    tool_progress_begin(&w->progress, "quantizing");
    const char *target = tool_compress_path(&w->compress);
    tool_new_writes(target);
    const mnem_status status = calibration_quantize(c, o->args.operand[0], target, options);
    tool_new_writes(NULL);
    tool_progress_end(&w->progress);
    return status == MNEM_OK ? TOOL_OK : fail(c, status);
}

/* ---- the test ---- */

static int set_test(const quantize_options *o, work *w, tool_compress_asked *asked) {
    const char *method = o->calibration.method ? o->calibration.method : "auto";
    tool_compress *c = &w->compress;
    const int code = tool_compress_begin(c, asked, &o->args, o->calibration.text);
    if (code != TOOL_OK) return code;
    const bool fitted = o->calibration.text || o->imatrix;
    snprintf(w->name, sizeof w->name, "%s%s%s", w->type ? w->type : o->target, fitted ? " " : "",
             fitted ? method : "");
    c->source = w->args->operand[0];
    c->out = w->out;
    c->name = w->name;
    c->plain = fitted || o->rules.count ? NULL : w->type;
    c->memory = o->calibration.session.memory;
    c->context = o->calibration.session.context;
    c->threads = o->threads;
    c->seen = asked->test == o->calibration.text ? calibration_sees : NULL;
    if (c->seen && !c->context) c->context = o->calibration.context;
    c->seen_context = &o->calibration;
    return tool_compress_check(c);
}

static int end_test(const quantize_options *o, work *w) {
    const int code = tool_compress_end(&w->compress);
    if (code != TOOL_OK) return code;
    print_summary(w, o);
    return tool_out_end();
}

static int verb_quantize(const tool_args *args) {
    static quantize_options asked; /* with what follows from the model */
    static work w;
    static char pattern[TOOL_SPACES_MAX][RULE_BYTES];
    static calibration c;
    mnem_tensor_rule rule[TOOL_SPACES_MAX];
    memcpy(&asked, args, sizeof asked);
    const quantize_options *o = &asked;
    w.args = &asked.args;
    tool_compress_asked test = o->compress;
    int code = choose(&asked, &w);
    mnem_quantize_options options = {.type = w.type,
                                     .threads = o->threads,
                                     .rules = rule,
                                     .rules_count = o->rules.count,
                                     .progress = {tool_progress_tell, &w.progress},
                                     .on_report = on_report,
                                     .context = &w};
    if (code == TOOL_OK) code = check_method(o);
    if (code == TOOL_OK) code = read_target(o->target, &options);
    if (code == TOOL_OK) code = read_rules(o, pattern, rule);
    if (o->calibration.text) asked.calibration.context = calibration_context(args->operand[0]);
    if (code == TOOL_OK && w.out) code = set_test(o, &w, &test);
    if (code != TOOL_OK) return code;
    tool_progress_quiet(args->quiet);
    tool_progress_lines();
    tool_interrupt_watch(NULL);
    code = plan_both(o, &w, &c, &options);
    if (code == TOOL_OK && o->calibration.text) code = calibration_run(&c);
    if (code == TOOL_OK && w.out) code = quantize_file(o, &w, &c, &options);
    calibration_close(&c); /* its ledger, too: the test has its own */
    if (code != TOOL_OK) return code;
    return w.out ? end_test(o, &w) : tool_out_end();
}

/* ---- the command line ---- */

#define AT(field) offsetof(quantize_options, field)
static const tool_option options[] = {
    TOOL_GROUP(tool_model_options, 0),
    {"out", 'o', "FILE", TOOL_VALUE_TEXT, AT(out), .also = "output outfile",
     .help = "the model to write; same as the operand OUT"},
    TOOL_GROUP(tool_threads_options, AT(threads)),
    {"type", 0, "TYPE", TOOL_VALUE_NAME, AT(type), .also = "outtype", .choices = TOOL_TYPES,
     .help =
         "type to write: a mix such as Q4_K_M, or one type for all matrices, such as Q8_0, Q4_0, "
         "Q6_K or F16; same as the operand TYPE"},
    {"target", 0, "SIZE|BITS", TOOL_VALUE_TEXT, AT(target),
     .help = "instead of TYPE: choose a type for each matrix with the least loss, so that the file "
             "has at most this size (60M) or this many bits per weight (4.5); the loss is measured "
             "on a sample of rows"},
    {"tensor-type", 0, "PATTERN=TYPE", TOOL_VALUE_LIST, AT(rules), .most = TOOL_SPACES_MAX,
     .help = "type of the matrices whose name contains a match of PATTERN, a regular expression: "
             "attn_v=Q6_K, 'blk\\.[01]\\.=Q8_0'; may be repeated, the first match applies"},
    {"imatrix", 0, "FILE", TOOL_VALUE_TEXT, AT(imatrix), .path = TOOL_PATH_READ,
     .help = "importance matrix that weights the error of each column, as written by llama.cpp's "
             "llama-imatrix or by --imatrix-out"},
    TOOL_GROUP(calibration_options, AT(calibration)),
    TOOL_GROUP(tool_compress_options, AT(compress)),
    TOOL_JSON_OPTION("an object for each tensor, then one for the result, and one for the table"),
    TOOL_GROUP(tool_quiet_options, 0),
    {"verbose", 'v', NULL, TOOL_VALUE_FLAG, offsetof(tool_args, verbose),
     .help = "print a line for each tensor: its types, its bytes and its error"},
    {0},
};

static quantize_options asked;
TOOL_VERB(
    quantize, "IN OUT TYPE", 1, 4, "write a model in a smaller data type",
    "Writes the model IN to OUT in another type, row by row, so that the model may be larger\n"
    "than memory. OUT appears only when it is complete. An existing model OUT is then replaced;\n"
    "any other existing file is refused. At the end the bytes and the largest error are printed,\n"
    "and with -v those of each tensor.\n"
    "\n"
    "With --calibrate the model is first run over a text, one layer at a time; here, too, it may\n"
    "be larger than memory. Errors in columns that matter more for the text then count more,\n"
    "and columns can compensate for each other's errors (--method). With --imatrix-out and\n"
    "neither OUT nor TYPE, only the importance matrix is written.\n"
    "\n"
    "With --test or --calibrate, a table at the end compares IN, OUT and plain types (IN as\n"
    "Q8_0, Q4_K_M, Q4_0 and Q3_K, without calibration, if smaller than IN) on\n"
    "the text of --test, or else on the held-out part of the text of --calibrate: size,\n"
    "perplexity, KL divergence from IN (mnem perplexity --kl) and speed. The plain types need\n"
    "temporary disk space, which is checked first.\n",
    "mnem quantize model-f16.gguf model-q4.gguf --type Q4_K_M  # about 4.8 bits per weight\n"
    "mnem quantize model-f16.gguf model-q8.gguf Q8_0  # 8.5 bits per weight, almost no loss\n"
    "mnem quantize model-f16.gguf small.gguf --imatrix imatrix.gguf --target 3.5\n"
    "mnem quantize model-f16.gguf model-q4.gguf Q4_0 --calibrate text.txt  # calibrate on "
    "text.txt\n"
    "mnem quantize f16.gguf q4.gguf Q4_0 --test heldout.txt --max-loss 1  # refuse a loss above 1 "
    "%\n");
