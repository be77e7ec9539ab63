/* verb_quantize.c: `mnem quantize`: a model in a smaller type, and each tensor's error.
 *
 * The library streams the rows and reports each tensor when it is written; here its line is shown
 * and the summary counted. The error is relative to the source, so one that was quantized before
 * says less than it lost in all: that is warned of. */
#include <math.h>
#include <string.h>

#include "options.h"

typedef struct quantize_options {
    tool_args args;
    int32_t threads;
    const char *type;
} quantize_options;

typedef struct work {
    const tool_args *args;
    const char *type;
    tool_progress progress;
    uint64_t bytes_from, bytes_to;
    double relative_worst;
    char worst[64];
    uint32_t changed, lossy_sources;
} work;

static const char *type_name(mnem_type type) {
    return mnem_type_get(type)->name;
}

/* What lost something already: to quantize it again loses more than to quantize its origin. */
static bool is_quantized(mnem_type type) {
    return mnem_type_get(type)->block_elements > 1;
}

static void print_tensor(const work *w, const mnem_quantize_report *r) {
    if (w->args->json) {
        tool_out_json(json_pack("{s:s, s:s, s:s, s:I, s:I, s:f, s:f, s:f}", "tensor", r->tensor,
                                "from", type_name(r->from), "to", type_name(r->to), "bytes_from",
                                (json_int_t)r->bytes_from, "bytes_to", (json_int_t)r->bytes_to,
                                "rms_error", r->rms_error, "relative_error", r->relative_error,
                                "max_error", r->max_error));
        return;
    }
    char from[TOOL_TEXT], to[TOOL_TEXT];
    tool_outf("%4u/%-4u %-28s %4s %9s -> %-4s %9s", r->index + 1, r->count, r->tensor,
              type_name(r->from), tool_size(r->bytes_from, from), type_name(r->to),
              tool_size(r->bytes_to, to));
    if (r->from != r->to)
        tool_outf("  error %6.3f %%  max %.2g", 100 * r->relative_error, r->max_error);
    tool_outf("\n");
}

static void note(work *w, const mnem_quantize_report *r) {
    w->bytes_from += r->bytes_from;
    w->bytes_to += r->bytes_to;
    if (r->from == r->to) return;
    w->changed++;
    w->lossy_sources += is_quantized(r->from);
    if (r->relative_error <= w->relative_worst) return;
    w->relative_worst = r->relative_error;
    snprintf(w->worst, sizeof w->worst, "%s", r->tensor);
}

static void on_report(void *context, const mnem_quantize_report *r) {
    work *w = context;
    note(w, r);
    tool_progress_hide();
    print_tensor(w, r);
}

static void print_summary(const work *w) {
    if (w->lossy_sources)
        tool_message("warning: %u tensor%s quantized already; from an F16 or F32 file the "
                     "result would be better",
                     w->lossy_sources, w->lossy_sources == 1 ? " was" : "s were");
    if (w->args->json) {
        tool_out_json(json_pack("{s:s, s:s, s:I, s:I, s:f, s:s, s:i}", "out", w->args->operand[1],
                                "type", w->type, "bytes_from", (json_int_t)w->bytes_from,
                                "bytes_to", (json_int_t)w->bytes_to, "relative_error_worst",
                                w->relative_worst, "tensor_worst", w->worst, "requantized",
                                (int)w->lossy_sources));
        return;
    }
    char from[TOOL_TEXT], to[TOOL_TEXT];
    tool_outf("%s: %s -> %s, %u tensor%s changed", w->args->operand[1],
              tool_size(w->bytes_from, from), tool_size(w->bytes_to, to), w->changed,
              tool_s(w->changed));
    if (*w->worst) tool_outf("; largest error %.3f %% in %s", 100 * w->relative_worst, w->worst);
    tool_outf("\n");
}

static int verb_quantize(const tool_args *args) {
    const quantize_options *o = (const quantize_options *)args;
    if (!o->type) return tool_usage("quantize", "--type is missing: Q8_0, Q4_0, Q4_K_M or F16");
    static work w;
    w.args = args;
    w.type = o->type;
    tool_interrupt_watch(NULL);
    tool_progress_begin(&w.progress, "quantizing");
    const mnem_quantize_options options = {.type = o->type,
                                           .threads = o->threads,
                                           .progress = {tool_progress_tell, &w.progress},
                                           .on_report = on_report,
                                           .context = &w};
    mnem_status status = mnem_quantize_file(args->operand[0], args->operand[1], &options);
    tool_progress_end(&w.progress);
    if (status != MNEM_OK) return tool_fail(status);
    print_summary(&w);
    return tool_out_end();
}

/* ---- the command line ---- */

#define AT(field) offsetof(quantize_options, field)
static const tool_option options[] = {
    TOOL_GROUP(tool_threads_options, AT(threads)),
    {"type", 0, "TYPE", TOOL_VALUE_NAME, AT(type), .choices = TOOL_TYPES,
     .help = "what to write: Q8_0, Q4_0, Q4_K_M, F16, or one type for all matrices, such as Q6_K "
             "(required)"},
    TOOL_GROUP(tool_json_options, 0),
    {0},
};

static quantize_options asked;
TOOL_VERB(quantize, "IN OUT", 2, 2, "write a model in a smaller type",
          "Writes the model IN to OUT in another type, row by row, so that a model larger than\n"
          "memory is no problem, and shows each tensor's error. OUT appears when it is whole.\n",
          "mnem quantize model-f16.gguf model-q4.gguf --type Q4_K_M  # about 4.8 bits a weight\n"
          "mnem quantize model-f16.gguf model-q8.gguf --type Q8_0  # 8.5 bits, hardly any loss\n");
