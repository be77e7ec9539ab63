/* verb_merge.c: `mnem merge`: a model with an adapter added to its weights.
 *
 * The library streams the rows and reports each merged tensor; here its line is shown and the
 * largest change kept, by which one sees whether the adapter does anything. */
#include <string.h>
#include <sys/stat.h>

#include "options.h"
#include "output_file.h"

typedef struct merge_options {
    tool_args args;
    int32_t threads;
    const char *out, *type;
    double scale;
    bool dense;
} merge_options;

typedef struct work {
    const tool_args *args;
    const merge_options *asked;
    tool_progress progress;
    uint32_t merged, kept; /* kept: of those, that are 2:4 and stay so */
    bool widened;          /* some were quantized and are now of the type `wide` */
    mnem_type wide;
    double most;
    char where[64];
} work;

static const char *type_name(mnem_type type) {
    return mnem_type_get(type)->name;
}

static void print_tensor(const work *w, const mnem_merge_report *r) {
    if (w->args->json) {
        tool_out_json("tensor", json_pack("{s:s, s:s, s:s, s:i, s:f, s:b}", "tensor", r->tensor,
                                          "from", type_name(r->from), "to", type_name(r->to),
                                          "rank", (int)r->rank, "relative_change",
                                          r->relative_change, "zeros_kept", r->zeros_kept));
        return;
    }
    tool_outf("%4u/%-4u %-28s %4s -> %-4s  rank %d, changed by %.3f %%%s\n", r->index + 1, r->count,
              r->tensor, type_name(r->from), type_name(r->to), r->rank, 100 * r->relative_change,
              r->zeros_kept ? ", 2:4 kept" : "");
}

static void on_report(void *context, const mnem_merge_report *r) {
    work *w = context;
    w->merged++;
    w->kept += r->zeros_kept;
    if (r->from != r->to && !w->asked->type) {
        w->widened = true;
        w->wide = r->to;
    }
    if (r->relative_change >= w->most) {
        w->most = r->relative_change;
        snprintf(w->where, sizeof w->where, "%s", r->tensor);
    }
    if (!w->args->json && !w->args->verbose) return;
    tool_progress_hide();
    print_tensor(w, r);
}

static void print_summary(const work *w) {
    if (w->args->json) {
        tool_out_json("merge", json_pack("{s:s, s:i, s:f, s:s}", "out", w->asked->out, "merged",
                                         (int)w->merged, "relative_change_most", w->most,
                                         "tensor_most", w->where));
        return;
    }
    char text[320], size[TOOL_TEXT];
    int n = 0;
    struct stat file;
    if (stat(w->asked->out, &file) == 0)
        n = snprintf(text, sizeof text, "%s, ", tool_size((uint64_t)file.st_size, size));
    n += snprintf(text + n, sizeof text - (size_t)n, "%u tensor%s merged", w->merged,
                  tool_s(w->merged));
    if (w->widened)
        n += snprintf(text + n, sizeof text - (size_t)n, ", now in %s (--type same keeps %s)",
                      type_name(w->wide), w->merged == 1 ? "its type" : "their types");
    if (w->kept)
        n += snprintf(text + n, sizeof text - (size_t)n, "; %u %s 2:4 and %s zeros", w->kept,
                      w->kept == 1 ? "is" : "are", w->kept == 1 ? "keeps its" : "keep their");
    if (*w->where)
        snprintf(text + n, sizeof text - (size_t)n, "; the largest change %.3f %% in %s",
                 100 * w->most, w->where);
    tool_out_result(w->asked->out, text);
}

static int verb_merge(const tool_args *args) {
    static work w;
    const merge_options *o = (const merge_options *)args;
    if (!o->out) return tool_usage("merge", "the file to write is missing: give OUT after ADAPTER");
    if (tool_given(args, "scale") && (float)o->scale == 0)
        return tool_usage("merge", "--scale 0 would leave the model unchanged: use another scale");
    char adapter[PATH_MAX];
    const int code = tool_adapter_path("merge", args->operand[1], adapter);
    if (code != TOOL_OK) return code;
    w.args = args;
    w.asked = o;
    tool_interrupt_watch(NULL);
    tool_progress_quiet(args->quiet);
    tool_progress_lines();
    tool_progress_begin(&w.progress, "merging");
    const mnem_merge_options options = {.type = o->type,
                                        .scale = (float)o->scale,
                                        .dense = o->dense,
                                        .threads = o->threads,
                                        .progress = {tool_progress_tell, &w.progress},
                                        .on_report = on_report,
                                        .context = &w};
    tool_new_writes(o->out);
    const mnem_status status = mnem_merge_file(args->operand[0], adapter, o->out, &options);
    tool_new_writes(NULL);
    tool_progress_end(&w.progress);
    if (status != MNEM_OK) return tool_fail(status);
    print_summary(&w);
    return tool_out_end();
}

/* ---- the command line ---- */

#define AT(field) offsetof(merge_options, field)
static const tool_option options[] = {
    TOOL_GROUP(tool_model_options, 0),
    TOOL_GROUP(tool_threads_options, AT(threads)),
    {"out", 'o', "FILE", TOOL_VALUE_TEXT, AT(out), .also = "output outfile", .last = true,
     .path = TOOL_PATH_WRITE | TOOL_PATH_MODEL,
     .help = "the model to write; same as the operand OUT"},
    {"type", 0, "TYPE", TOOL_VALUE_NAME, AT(type), .choices = "same " TOOL_TYPES,
     .help = "type of merged tensors: F16, Q8_0, Q4_K_M, ..., or same: that of the model (default: "
             "F32 and BF16 stay, others become F16)"},
    {"scale", 0, "X", TOOL_VALUE_REAL, AT(scale), .least = -1000, .most = 1000,
     .help = "multiply the adapter by X before adding it (default: 1)"},
    {"dense", 0, NULL, TOOL_VALUE_FLAG, AT(dense),
     .help = "also change the zeros of 2:4 matrices, which otherwise stay zero"},
    TOOL_JSON_OPTION("an object for each merged tensor, then one for the result"),
    TOOL_GROUP(tool_quiet_progress_options, 0),
    {"verbose", 'v', NULL, TOOL_VALUE_FLAG, AT(args.verbose),
     .help =
         "print a line for each tensor: its types, the adapter's rank and the size of the change"},
    {0},
};

static merge_options asked;
TOOL_VERB(
    merge, "MODEL ADAPTER OUT", 2, 2, "merge a low-rank adapter into a model",
    "Writes MODEL with the adapter added to its weights, as one file that needs no adapter.\n"
    "ADAPTER is what `mnem train --lora` writes, a folder of PEFT, or any adapter that llama.cpp\n"
    "opens. MODEL is\n"
    "read row by row, so that it may be larger than memory. OUT appears only when it is\n"
    "complete. An existing model OUT is then replaced; any other existing file is refused.\n"
    "\n"
    "Merged tensors of quantized models become F16: most changes of an adapter are smaller\n"
    "than the rounding error of a quantized type. `mnem quantize` makes the result small again;\n"
    "--type same keeps the types of MODEL instead. The zeros of a matrix with two zeros in every\n"
    "four weights (2:4) stay zero, unless --dense is given.\n",
    "mnem merge model.gguf mnem-train/adapter.gguf -o tuned.gguf  # merged matrices become F16\n"
    "mnem merge model.gguf adapter.gguf -o tuned.gguf --type same  # keep the types of MODEL\n");
