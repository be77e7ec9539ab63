/* verb_prune.c: `mnem prune`: a model with fewer heads, channels or layers, or with two of every
 * four weights.
 *
 *     MODEL ─► can it be? ─► what a text uses ─► a file ─► what it lost ─► OUT, or nothing
 *
 * The library chooses and writes; here parts are read from the command line, the plan is shown, and
 * a line for each tensor. With --max-loss the result has its name only when it lost no more. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "output_file.h"
#include "verbs/compress/compress_table.h"
#include "verbs/quantize/calibration.h"

enum { METHOD_AUTO, METHOD_MAGNITUDE, METHOD_WANDA, METHOD_SPARSEGPT };

typedef struct prune_options {
    tool_args args;
    int32_t threads, method;
    const char *out, *type, *pattern, *heads, *ffn, *layers, *imatrix;
    bool dry_run, compact;
    calibration_asked calibration;
    tool_compress_asked compress;
} prune_options;

typedef struct work {
    const prune_options *asked;
    tool_progress progress;
    mnem_prune_options options;
    mnem_prune_plan plan;
    calibration calibration;
    mnem_imatrix *imatrix; /* of a file */
    double influence[MNEM_LAYERS_MAX];
    tool_compress compress;
    char name[32]; /* of the result in the table */
} work;

static const char *type_name(mnem_type type) {
    return mnem_type_get(type)->name;
}

/* ---- what is asked for ---- */

/* "25%", above 0 and below 100. */
static int take_part(const char *name, const char *text, double *part) {
    char *end = NULL;
    const double number = text ? strtod(text, &end) : 0;
    if (!text) return TOOL_OK;
    *part = number / 100;
    if (end != text && strcmp(end, "%") == 0 && number > 0 && number < 100) return TOOL_OK;
    return tool_usage("prune", "--%s takes a percentage, such as 25%%, not \"%s\"", name, text);
}

/* What is of a text needs one. */
static int check_text(const prune_options *o) {
    const char *const names[] = {"max-loss", "table", "no-table", "ctx", "memory", "pretokenizer"};
    const bool text = o->calibration.text || o->compress.test;
    for (size_t i = 0; !text && i < sizeof names / sizeof *names; i++)
        if (tool_given(&o->args, names[i]))
            return tool_usage("prune", "--%s needs a text: add --calibrate FILE or --test FILE",
                              names[i]);
    return TOOL_OK;
}

static int check_method(const prune_options *o) {
    const bool uses = o->calibration.text || o->imatrix;
    if (o->imatrix && o->calibration.text)
        return tool_usage("prune", "--imatrix and --calibrate can't be combined: leave one out");
    if (o->method == METHOD_SPARSEGPT && !o->calibration.text)
        return tool_usage("prune", "--method sparsegpt needs --calibrate FILE");
    if (o->method == METHOD_SPARSEGPT && !o->pattern)
        return tool_usage("prune", "--method sparsegpt works with --pattern 2:4 only; for --heads, "
                                   "--ffn and --layers use magnitude or wanda");
    if (o->method == METHOD_WANDA && !uses)
        return tool_usage("prune", "--method wanda needs --calibrate FILE or --imatrix FILE");
    return TOOL_OK;
}

static int take_options(work *w) {
    const prune_options *o = w->asked;
    mnem_prune_options *options = &w->options;
    if (!o->out && !o->dry_run)
        return tool_usage("prune", "the file to write is missing: give OUT after MODEL");
    const bool less = o->heads || o->ffn || o->layers;
    if (!less && !o->pattern)
        return tool_usage("prune",
                          "the option that says what to remove is missing: add --pattern 2:4, or "
                          "--heads, --ffn or --layers with a percentage such as 25%%");
    if (less && o->pattern)
        return tool_usage("prune", "--pattern can't be combined with --heads, --ffn or --layers: "
                                   "run mnem prune once for each");
    if (o->compact && !o->pattern) return tool_usage("prune", "--compact needs --pattern 2:4");
    options->pattern = o->pattern ? MNEM_PRUNE_2_4 : MNEM_PRUNE_DENSE;
    options->compact = o->compact;
    int code = take_part("heads", o->heads, &options->heads);
    if (code == TOOL_OK) code = take_part("ffn", o->ffn, &options->ffn);
    if (code == TOOL_OK) code = take_part("layers", o->layers, &options->layers);
    if (code == TOOL_OK) code = check_text(o);
    return code == TOOL_OK ? check_method(o) : code;
}

/* ---- the plan ---- */

static void list_layers(const mnem_prune_plan *p, char *text, size_t n) {
    size_t used = 0;
    for (int32_t i = 0; i < p->from.layers && used < n; i++)
        if (p->layers_removed[i / 8] >> i % 8 & 1)
            used += (size_t)snprintf(text + used, n - used, "%s%d", used ? ", " : "", i);
}

static json_t *removed_json(const mnem_prune_plan *p) {
    json_t *list = json_array();
    for (int32_t i = 0; i < p->from.layers; i++)
        if (p->layers_removed[i / 8] >> i % 8 & 1) json_array_append_new(list, json_integer(i));
    return list;
}

static void print_plan_json(const work *w) {
    const mnem_prune_plan *p = &w->plan;
    const mnem_transformer *a = &p->from, *b = &p->to;
    tool_out_json("plan", json_pack("{s:I, s:I, s:[i,i], s:[i,i], s:[i,i], s:[i,i], s:o, s:i}",
                                    "bytes_from", (json_int_t)p->bytes_from, "bytes_to",
                                    (json_int_t)p->bytes_to, "heads", a->heads, b->heads,
                                    "kv_heads", a->kv_heads, b->kv_heads, "ffn", a->ff, b->ff,
                                    "layers", a->layers, b->layers, "layers_removed",
                                    removed_json(p), "requantized", (int)p->requantized));
}

/* "heads 8 -> 6 (KV 4 -> 3), channels 768 -> 576: tensors 9.9 MiB -> 8.1 MiB" */
static void print_plan(const work *w) {
    const mnem_prune_plan *p = &w->plan;
    const mnem_transformer *a = &p->from, *b = &p->to;
    char from[TOOL_TEXT], to[TOOL_TEXT], list[200] = "";
    const char *between = "";
    if (w->asked->args.json) {
        print_plan_json(w);
        return;
    }
    if (a->heads != b->heads) {
        tool_outf("heads %d -> %d (KV %d -> %d)", a->heads, b->heads, a->kv_heads, b->kv_heads);
        between = ", ";
    }
    if (a->ff != b->ff) {
        tool_outf("%schannels %d -> %d", between, a->ff, b->ff);
        between = ", ";
    }
    list_layers(p, list, sizeof list);
    if (*list) tool_outf("%slayers %d -> %d (without %s)", between, a->layers, b->layers, list);
    if (w->asked->pattern) tool_outf("two of four weights");
    tool_outf(": tensors %s -> %s\n", tool_size(p->bytes_from, from), tool_size(p->bytes_to, to));
}

static void warn(const work *w) {
    const uint32_t n = w->plan.requantized;
    if (n)
        tool_message("warning: %u tensor%s already quantized, so precision is lost a second time; "
                     "an F16 or F32 file gives a better result",
                     n, n == 1 ? " is" : "s are");
}

/* ---- tensors ---- */

static void print_tensor(const work *w, const mnem_prune_report *r) {
    if (w->asked->args.json) {
        tool_out_json("tensor",
                      json_pack("{s:s, s:s, s:s, s:I, s:I, s:f}", "tensor", r->tensor, "from",
                                type_name(r->from), "to", type_name(r->to), "bytes_from",
                                (json_int_t)r->bytes_from, "bytes_to", (json_int_t)r->bytes_to,
                                "relative_removed", r->relative_removed));
        return;
    }
    char from[TOOL_TEXT], to[TOOL_TEXT], row[200], removed[40] = "";
    snprintf(row, sizeof row, "%*u/%u %-25s %4s %8s -> %-4s %8s", r->count < 100 ? 2 : 3,
             r->index + 1, r->count, r->tensor, type_name(r->from), tool_size(r->bytes_from, from),
             type_name(r->to), tool_size(r->bytes_to, to));
    if (r->relative_removed > 0)
        snprintf(removed, sizeof removed, "removed %.1f %%", 100 * r->relative_removed);
    tool_out_row(row, removed);
}

static void on_plan(void *context, const mnem_prune_plan *plan) {
    work *w = context;
    w->plan = *plan;
    tool_progress_hide();
    print_plan(w);
    warn(w);
}

static void on_report(void *context, const mnem_prune_report *r) {
    work *w = context;
    if (!w->asked->args.json && !w->asked->args.verbose) return;
    tool_progress_hide();
    print_tensor(w, r);
}

static void print_summary(const work *w) {
    char from[TOOL_TEXT], to[TOOL_TEXT];
    const mnem_prune_plan *p = &w->plan;
    if (w->asked->args.json)
        tool_out_json("prune",
                      json_pack("{s:s, s:I, s:I}", "out", w->asked->out, "bytes_from",
                                (json_int_t)p->bytes_from, "bytes_to", (json_int_t)p->bytes_to));
    else
        tool_outf("%s: %s -> %s\n", w->asked->out, tool_size(p->bytes_from, from),
                  tool_size(p->bytes_to, to));
}

/* ---- what a text says ---- */

/* What can't be done is said before a text is run. Reads the header only. */
static int check_plan(work *w) {
    mnem_prune_options options = w->options;
    options.influence = w->influence;
    const mnem_status status = mnem_prune_measure(w->asked->args.operand[0], &options, &w->plan);
    return status == MNEM_OK ? TOOL_OK : tool_fail_asked(status);
}

/* Of the test and of the calibration, as quantize does it (verb_quantize.c). */
static int plan_uses(work *w) {
    const prune_options *o = w->asked;
    calibration *c = &w->calibration;
    calibration_asked asked = o->calibration;
    if (!w->compress.implied) tool_refusal_hold();
    int code = tool_compress_try(&w->compress);
    tool_refusal_hold();
    if ((code == TOOL_OK || tool_refusal_held()) && asked.text) {
        if (o->layers) c->influence = w->influence;
        if (o->method == METHOD_SPARSEGPT) {
            asked.method = "sparsegpt"; /* which counts while it prunes */
            c->solve = (calibration_solve){o->args.operand[0], tool_compress_path(&w->compress),
                                           NULL, &w->options};
        }
        c->writes = true;
        code = calibration_plan(c, &o->args, &asked, o->threads, o->out);
    }
    return tool_refusal_end(code);
}

static int take_uses(work *w) {
    const prune_options *o = w->asked;
    if (o->imatrix) {
        const mnem_status status = mnem_imatrix_open(o->imatrix, &w->imatrix);
        if (status != MNEM_OK) return tool_fail(status);
        if (o->method != METHOD_MAGNITUDE) w->options.imatrix = w->imatrix;
    }
    if (!o->calibration.text) return TOOL_OK;
    const int code = calibration_run(&w->calibration);
    if (code != TOOL_OK) return code;
    if (o->method != METHOD_MAGNITUDE) w->options.imatrix = w->calibration.imatrix;
    w->options.influence = w->calibration.influence;
    return TOOL_OK;
}

/* ---- what was lost ---- */

/* What was asked for, in a word or two. */
static void name_row(const prune_options *o, char *name, size_t n) {
    const char *const part[] = {o->heads, o->ffn, o->layers};
    const char *const what[] = {"heads", "ffn", "layers"};
    size_t used = 0;
    if (o->pattern) used = (size_t)snprintf(name, n, "2:4 %s", o->type ? o->type : "");
    for (int i = 0; i < 3 && used < n; i++)
        if (part[i])
            used += (size_t)snprintf(name + used, n - used, "%s%s -%s", used ? " " : "", what[i],
                                     part[i]);
}

static int set_test(work *w, prune_options *o) {
    tool_compress *c = &w->compress;
    const int code = tool_compress_begin(c, &o->compress, &o->args, o->calibration.text);
    if (code != TOOL_OK) return code;
    name_row(o, w->name, sizeof w->name);
    c->source = o->args.operand[0];
    c->out = o->out;
    c->name = w->name;
    c->memory = o->calibration.session.memory;
    c->context = o->calibration.session.context;
    c->threads = o->threads;
    c->seen = o->compress.test == o->calibration.text ? calibration_sees : NULL;
    c->seen_context = &o->calibration;
    return tool_compress_check(c);
}

/* ---- writing ---- */

/* A part of the source would be replaced by the result. */
static int check_target(const work *w) {
    mnem_model *model;
    struct stat out, in;
    int code = TOOL_OK;
    if (stat(w->asked->out, &out) != 0) return TOOL_OK;
    const mnem_status status = mnem_model_open(w->asked->args.operand[0], &model);
    if (status != MNEM_OK) return tool_fail(status);
    for (uint32_t i = 0; code == TOOL_OK && mnem_model_file_path(model, i); i++)
        if (stat(mnem_model_file_path(model, i), &in) == 0 && in.st_dev == out.st_dev &&
            in.st_ino == out.st_ino)
            code = tool_failed(
                "--out %s is the model to prune, which would be overwritten: choose another --out",
                w->asked->out);
    mnem_model_close(model);
    return code;
}

static int write_model(work *w) {
    tool_progress_begin(&w->progress, "pruning");
    w->options.progress = (mnem_progress){tool_progress_tell, &w->progress};
    w->options.on_plan = on_plan;
    w->options.on_report = on_report;
    w->options.context = w;
    const char *source = w->asked->args.operand[0], *target = tool_compress_path(&w->compress);
    tool_new_writes(target);
    const mnem_status status = w->asked->method == METHOD_SPARSEGPT
                                   ? calibration_prune(&w->calibration, source, target, &w->options)
                                   : mnem_prune_file(source, target, &w->options);
    tool_new_writes(NULL);
    tool_progress_end(&w->progress);
    const int code = status == MNEM_OK      ? TOOL_OK
                     : w->calibration.asked ? calibration_fail(&w->calibration, status)
                                            : tool_fail_asked(status);
    calibration_close(&w->calibration); /* its bytes are for what comes next */
    return code;
}

static int write_and_measure(work *w) {
    int code = tool_given(&w->asked->args, "max-loss") ? check_target(w) : TOOL_OK;
    if (code == TOOL_OK) code = plan_uses(w);
    if (code == TOOL_OK) code = take_uses(w);
    if (code == TOOL_OK) code = write_model(w);
    if (code == TOOL_OK) code = tool_compress_end(&w->compress);
    if (code == TOOL_OK) print_summary(w);
    return code == TOOL_OK ? tool_out_end() : code;
}

static int show_plan(work *w) {
    const mnem_status status = mnem_prune_measure(w->asked->args.operand[0], &w->options, &w->plan);
    if (status != MNEM_OK) return tool_fail_asked(status);
    print_plan(w);
    warn(w);
    return tool_out_end();
}

/* ---- the way in ---- */

/* The windows that a text is calibrated on are those that its loss is measured on, but for which.
 */
static void take_context(work *w, prune_options *o) {
    const int32_t most = w->plan.from.context;
    if (!o->calibration.session.context)
        o->calibration.session.context = most < CALIBRATION_CONTEXT ? most : CALIBRATION_CONTEXT;
}

static int verb_prune(const tool_args *args) {
    static work w;
    static prune_options o; /* with what follows from the model */
    memcpy(&o, args, sizeof o);
    w.asked = &o;
    w.options = (mnem_prune_options){.type = o.type, .threads = o.threads};
    int code = take_options(&w);
    if (code != TOOL_OK) return code;
    tool_progress_quiet(args->quiet);
    tool_progress_lines();
    tool_interrupt_watch(NULL);
    if (o.dry_run) return show_plan(&w);
    code = check_plan(&w);
    if (code != TOOL_OK) return code;
    take_context(&w, &o);
    code = set_test(&w, &o);
    if (code == TOOL_OK) code = write_and_measure(&w);
    calibration_close(&w.calibration);
    mnem_imatrix_destroy(w.imatrix);
    return code;
}

/* ---- the command line ---- */

#define AT(field) offsetof(prune_options, field)
static const tool_option options[] = {
    TOOL_GROUP(tool_model_options, 0),
    {"out", 'o', "FILE", TOOL_VALUE_TEXT, AT(out), .also = "output outfile", .last = true,
     .path = TOOL_PATH_WRITE | TOOL_PATH_MODEL,
     .help = "the model to write; same as the operand OUT; not needed with --dry-run"},
    {"pattern", 0, "2:4", TOOL_VALUE_NAME, AT(pattern), .choices = "2:4",
     .help = "keep two of every four adjacent weights and set the others to zero; the file keeps "
             "its size, unless --compact is given"},
    {"compact", 0, NULL, TOOL_VALUE_FLAG, AT(compact),
     .help = "with 2:4 in Q4_0, Q8_0 or F16: leave the zeros out of the file, which streams "
             "faster; only mnem opens it, and `mnem prune OUT -o ORDINARY --pattern 2:4` restores "
             "the ordinary file"},
    {"heads", 0, "N%", TOOL_VALUE_TEXT, AT(heads),
     .help = "percentage of each layer's attention heads to remove, with the keys and values that "
             "they share"},
    {"ffn", 0, "N%", TOOL_VALUE_TEXT, AT(ffn),
     .help = "percentage of each layer's feed-forward channels to remove"},
    {"layers", 0, "N%", TOOL_VALUE_TEXT, AT(layers), .help = "percentage of the layers to remove"},
    {"type", 0, "TYPE", TOOL_VALUE_NAME, AT(type), .choices = "same " TOOL_TYPES,
     .help = "type of the result: F16, Q8_0, Q4_0, Q4_K_M, ..., or same: that of the model "
             "(default: same)"},
    {"method", 0, "NAME", TOOL_VALUE_CHOICE, AT(method),
     .choices = "auto magnitude wanda sparsegpt",
     .help =
         "what is removed. magnitude: the smallest weights. wanda: the smallest products of "
         "weights and activations (needs --calibrate or --imatrix). sparsegpt: the weights whose "
         "removal changes the outputs least after the remaining ones are adjusted (needs --pattern "
         "2:4 and --calibrate). auto (default): wanda with --calibrate or --imatrix, else "
         "magnitude"},
    {"calibrate", 0, "FILE", TOOL_VALUE_TEXT, AT(calibration.text), .path = TOOL_PATH_READ,
     .help = "run the model over this text first, to remove what matters least for it; the last "
             "fifth is held out to measure the loss"},
    {"imatrix", 0, "FILE", TOOL_VALUE_TEXT, AT(imatrix), .path = TOOL_PATH_READ,
     .help = "importance matrix of a text, in llama.cpp's imatrix format, instead of --calibrate"},
    TOOL_GROUP(tool_compress_options, AT(compress)),
    {"ctx", 'c', "N", TOOL_VALUE_COUNT, AT(calibration.session.context), .least = 16,
     .most = 1 << 20, .also = "ctx-size context n-ctx num-ctx",
     .help = "tokens per sequence of the text (default: the model's context, at most 512)"},
    TOOL_GROUP(tool_memory_options, AT(calibration.session.memory)),
    TOOL_GROUP(tool_pre_options, AT(calibration.session.pre)),
    {"dry-run", 0, NULL, TOOL_VALUE_FLAG, AT(dry_run),
     .help = "print what the pruned model would be, and write nothing"},
    TOOL_GROUP(tool_threads_options, AT(threads)),
    TOOL_JSON_OPTION(
        "an object for the plan, one for each tensor, one for the result, and one for the table"),
    TOOL_GROUP(tool_quiet_options, 0),
    {"verbose", 'v', NULL, TOOL_VALUE_FLAG, offsetof(tool_args, verbose),
     .help = "print a line for each tensor: its types and bytes, and how much was removed"},
    {0},
};

static prune_options asked;
TOOL_VERB(
    prune, "MODEL OUT", 1, 1, "remove parts of a model, or make it 2:4 sparse",
    "Writes a pruned copy of MODEL to OUT. With --heads, --ffn or --layers, the attention heads,\n"
    "feed-forward channels or layers that matter least are left out, so the file is smaller.\n"
    "With --pattern 2:4, two of every four weights are set to zero. OUT is an ordinary GGUF file\n"
    "(except with --compact), written row by row, so that the model may be larger than memory.\n"
    "It appears only when it is complete. An existing model OUT is then replaced; any other\n"
    "existing file is refused.\n"
    "\n"
    "Every pruned model loses quality: `mnem perplexity` measures how much, and training what\n"
    "is left (`mnem train --init OUT`, or --lora where only adapters can be trained) recovers\n"
    "much of it. With a text (--calibrate, --test) a table at the end compares the loss with that\n"
    "of MODEL in plain types (Q8_0, Q4_K_M, Q4_0 and Q3_K).\n",
    "mnem prune model-f16.gguf -o less.gguf --ffn 25% --calibrate book.txt  # remove what matters "
    "least for book.txt\n"
    "mnem prune model-f16.gguf -o less.gguf --ffn 25% --test book.txt --max-loss 20\n"
    "mnem prune model-f16.gguf -o less.gguf --heads 25% --layers 10%  # remove heads and layers\n"
    "mnem prune model-f16.gguf -o zeros.gguf --pattern 2:4 --type Q8_0  # 2:4, then quantize to "
    "Q8_0\n"
    "mnem prune zeros.gguf -o small.gguf --pattern 2:4 --compact  # store no zeros: a smaller file "
    "that only mnem opens\n"
    "mnem prune small.gguf -o zeros.gguf --pattern 2:4  # store the zeros again: an ordinary "
    "file\n");
