/* verb_convert.c: `mnem convert`: a folder of Hugging Face's as one GGUF file.
 *
 * The library streams the rows and reports each tensor; here its line is shown, and what the whole
 * took is held against the budget, which watches every allocation from before the folder opens. */
#include <string.h>
#include <unistd.h>

#include "options.h"
#include "output_file.h"
#include "stage.h"

typedef struct convert_options {
    tool_args args;
    int32_t threads;
    const char *out, *type, *pre;
    uint64_t memory;
} convert_options;

typedef struct work {
    const tool_args *args;
    const convert_options *asked;
    tool_progress progress;
    uint64_t bytes_from, bytes_to, peak, needed, budget;
    uint32_t tensors;
} work;

static const char *type_name(mnem_type type) {
    return mnem_type_get(type)->name;
}

static void on_report(void *context, const mnem_quantize_report *r) {
    work *w = context;
    char from[TOOL_TEXT], to[TOOL_TEXT];
    w->bytes_from += r->bytes_from;
    w->bytes_to += r->bytes_to;
    w->tensors++;
    if (w->args->json || w->args->verbose) tool_progress_hide();
    if (w->args->json) {
        tool_out_json("tensor",
                      json_pack("{s:s, s:s, s:s, s:I, s:I}", "tensor", r->tensor, "from",
                                type_name(r->from), "to", type_name(r->to), "bytes_from",
                                (json_int_t)r->bytes_from, "bytes_to", (json_int_t)r->bytes_to));
        return;
    }
    if (!w->args->verbose) return;
    tool_outf("%4u/%-4u %-28s %4s %9s -> %-4s %9s\n", r->index + 1, r->count, r->tensor,
              type_name(r->from), tool_size(r->bytes_from, from), type_name(r->to),
              tool_size(r->bytes_to, to));
}

static void print_summary(const work *w) {
    char from[TOOL_TEXT], to[TOOL_TEXT], peak[TOOL_TEXT];
    if (w->args->json) {
        tool_out_json("convert",
                      json_pack("{s:s, s:i, s:I, s:I, s:I}", "out", w->asked->out, "tensors",
                                (int)w->tensors, "bytes_from", (json_int_t)w->bytes_from,
                                "bytes_to", (json_int_t)w->bytes_to, "peak_bytes",
                                (json_int_t)w->peak));
        return;
    }
    tool_outf("%s: %u tensor%s, %s -> %s; in %s of memory\n", w->asked->out, w->tensors,
              tool_s(w->tensors), tool_size(w->bytes_from, from), tool_size(w->bytes_to, to),
              tool_size(w->peak, peak));
}

/* Under a ledger of the process. */
static mnem_status convert(work *w) {
    const convert_options *o = w->asked;
    const mnem_ledger_options budget = {
        .budget_bytes = o->memory, .preparing = true, .own_process = true};
    mnem_ledger *ledger;
    mnem_status status = mnem_ledger_create_process(&budget, &ledger);
    if (status != MNEM_OK) return status;
    tool_progress_begin(&w->progress, "converting");
    const mnem_convert_options options = {.type = o->type,
                                          .pretokenizer = o->pre,
                                          .threads = o->threads,
                                          .progress = {tool_progress_tell, &w->progress},
                                          .on_report = on_report,
                                          .context = w,
                                          .ledger = ledger,
                                          .needed_bytes = &w->needed};
    tool_new_writes(o->out);
    status = mnem_convert_folder(w->args->operand[0], o->out, &options);
    tool_new_writes(NULL);
    tool_progress_end(&w->progress);
    mnem_ledger_info info;
    mnem_ledger_info_get(ledger, &info);
    w->peak = info.bytes_peak;
    w->budget = info.budget_bytes;
    mnem_ledger_destroy(ledger);
    return status;
}

/* What a new file's writer says then. */
static bool is_full_disk(const char *error) {
    return strstr(error, ": no space for ") || strstr(error, ": can't be written (");
}

static int verb_convert(const tool_args *args) {
    static work w;
    const convert_options *o = (const convert_options *)args;
    const char *folder = args->operand[0];
    const int code = access(folder, F_OK) == 0 ? TOOL_OK : tool_check_model("convert", folder);
    if (code != TOOL_OK) return code;
    if (!o->out)
        return tool_usage("convert", "the file to write is missing: give OUT after FOLDER");
    if (tool_pre_check(o->pre) != TOOL_OK) return TOOL_FAILED;
    w.args = args;
    w.asked = o;
    tool_progress_quiet(args->quiet);
    tool_progress_lines();
    tool_interrupt_watch(NULL);
    const mnem_status status = convert(&w);
    const uint64_t needed = w.needed > w.budget ? w.needed : 0;
    if (status == MNEM_OVER_BUDGET)
        return tool_fail_plan(status, needed, w.budget, (mnem_knob){.kind = MNEM_KNOB_NONE});
    if (status == MNEM_IO && is_full_disk(mnem_last_error()))
        return tool_fail_with(status, ": use an --out on another disk, or a smaller --type");
    if (status != MNEM_OK) return tool_fail(status);
    print_summary(&w);
    return tool_out_end();
}

/* ---- the command line ---- */

#define AT(field) offsetof(convert_options, field)
static const tool_option options[] = {
    {"out", 'o', "FILE", TOOL_VALUE_TEXT, AT(out), .also = "output outfile", .last = true,
     .path = TOOL_PATH_WRITE | TOOL_PATH_MODEL,
     .help = "the file to write; same as the operand OUT"},
    {"type", 0, "TYPE", TOOL_VALUE_NAME, AT(type), .also = "outtype", .choices = TOOL_TYPES,
     .help = "data type of the matrices: BF16, F16, F32, Q8_0, Q4_K_M, ... (default: the folder's, "
             "BF16 or F16; a folder in F32 gives F16)"},
    TOOL_GROUP(tool_memory_options, AT(memory)),
    TOOL_GROUP(tool_threads_options, AT(threads)),
    TOOL_GROUP(tool_pre_options, AT(pre)),
    TOOL_GROUP(tool_quiet_progress_options, 0),
    {"verbose", 'v', NULL, TOOL_VALUE_FLAG, offsetof(tool_args, verbose),
     .help = "print a line for each tensor: its types and bytes"},
    TOOL_JSON_OPTION("an object for each tensor, then one for the result"),
    {0},
};

static convert_options asked;
TOOL_VERB(
    convert, "FOLDER OUT", 1, 1, "write a Hugging Face folder as a GGUF file",
    "Writes the model in FOLDER (config.json, safetensors in one file or several, and\n"
    "tokenizer.json or tokenizer.model) as one GGUF file, in any data type (--type). The model\n"
    "is read row by row, so it may be larger than memory. OUT appears only when it is\n"
    "complete. An existing model OUT is then replaced; any other existing file is refused.\n"
    "Tensors and metadata have the names and values that llama.cpp's converter writes.\n"
    "Converting is optional: other verbs accept a FOLDER as a MODEL too.\n"
    "\n"
    "Not supported: pickled weights (.bin, .pt), which could run code, and weights quantized by\n"
    "other tools (GPTQ, AWQ, FP8).\n",
    "mnem convert SmolLM2-1.7B -o smollm2.gguf  # write it unquantized, about 2 bytes per weight\n"
    "mnem convert SmolLM2-1.7B -o smollm2-q4.gguf --type Q4_K_M  # quantize it directly\n");
