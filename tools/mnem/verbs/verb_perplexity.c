/* verb_perplexity.c: `mnem perplexity`: how well a model predicts a text, and with --kl how far its
 * predictions are from those of another (its F16 file, mostly).
 *
 * The method is in windows.h; what is compared of two predictions in divergence.h. */
#include "ranks/ranks.h"
#include "verbs/measure/windows.h"

typedef struct perplexity_options {
    tool_args args;
    tool_session_asked session;
    const char *file, *kl;
    int32_t kl_kv;  /* mnem_kv_choice */
    int32_t chunks; /* 0: all */
} perplexity_options;

/* ---- the result ---- */

/* What --kl adds, behind the members that there are without it. */
static void add_json(json_t *object, tool_divergence *d) {
    json_t *more =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:f, s:f}",
                  "reference_perplexity", tool_json_real(tool_mean_exp(&d->reference)),
                  "reference_error", tool_json_real(tool_mean_exp_error(&d->reference)), "ratio",
                  tool_json_real(tool_mean_exp(&d->difference)), "ratio_error",
                  tool_json_real(tool_mean_exp_error(&d->difference)), "kl_mean",
                  tool_json_real(tool_mean_value(&d->kl)), "kl_error",
                  tool_json_real(tool_mean_error(&d->kl)), "kl_median",
                  tool_json_real(tool_divergence_percentile(d, 0.5)), "kl_90",
                  tool_json_real(tool_divergence_percentile(d, 0.9)), "kl_99",
                  tool_json_real(tool_divergence_percentile(d, 0.99)), "kl_max",
                  tool_json_real(tool_divergence_percentile(d, 1)), "top1",
                  tool_divergence_agreed(d), "top1_error", tool_divergence_agreed_error(d));
    if (object && more) json_object_update(object, more);
    json_decref(more);
}

static void print_json(tool_windows *w) {
    const tool_mean *m = &w->result.model;
    json_t *object =
        json_pack("{s:o, s:o, s:I, s:I, s:i}", "perplexity", tool_json_real(tool_mean_exp(m)),
                  "error", tool_json_real(tool_mean_exp_error(m)), "tokens", (json_int_t)m->count,
                  "windows", (json_int_t)w->windows, "context", w->stage->plan.context);
    if (w->reference) add_json(object, &w->result);
    tool_out_json("perplexity", object);
}

static void print_reference(tool_divergence *d) {
    tool_outf("reference  %.4f +- %.4f, ratio %.5f +- %.5f\n", tool_mean_exp(&d->reference),
              tool_mean_exp_error(&d->reference), tool_mean_exp(&d->difference),
              tool_mean_exp_error(&d->difference));
    tool_outf("KL         mean %.6f +- %.6f, median %.6f, 90 %% below %.6f,\n"
              "           99 %% below %.6f, most %.6f\n",
              tool_mean_value(&d->kl), tool_mean_error(&d->kl), tool_divergence_percentile(d, 0.5),
              tool_divergence_percentile(d, 0.9), tool_divergence_percentile(d, 0.99),
              tool_divergence_percentile(d, 1));
    tool_outf("top-1      %.2f %% +- %.2f %% have the reference's likeliest token\n",
              100 * tool_divergence_agreed(d), 100 * tool_divergence_agreed_error(d));
}

static int print(tool_windows *w) {
    const tool_mean *m = &w->result.model;
    if (w->stage->args->json) {
        print_json(w);
        return tool_out_end();
    }
    tool_outf("perplexity %.4f +- %.4f (%llu token%s, %d window%s of %d)\n", tool_mean_exp(m),
              tool_mean_exp_error(m), (unsigned long long)m->count, tool_s(m->count), w->windows,
              tool_s((uint64_t)w->windows), w->stage->plan.context);
    if (w->reference) print_reference(&w->result);
    return tool_out_end();
}

/* ---- the way in ---- */

static int verb_perplexity(const tool_args *args) {
    static tool_stage stage;
    static tool_reference reference;
    tool_windows windows = {0};
    const perplexity_options *o = (const perplexity_options *)args;
    const char *path = o->file ? o->file : args->operand[1];
    if (!path) return tool_usage("perplexity", "the text is missing: give FILE after MODEL");
    if (o->file && args->operand[1])
        return tool_usage("perplexity",
                          "the operand \"%s\" and --file both name the text: leave one out",
                          args->operand[1]);
    if (tool_given(args, "kl-kv") && !o->kl)
        return tool_usage("perplexity", "--kl-kv is the type of the model of --kl: give --kl too");
    tool_interrupt_watch(NULL);
    tool_progress_lines();
    int code = tool_stage_open(args, &o->session, &stage);
    if (code == TOOL_OK && tool_ranks_follows()) return tool_stage_follow(&stage);
    if (code == TOOL_OK) code = tool_stage_needs_text(&stage);
    if (code == TOOL_OK && o->kl) code = tool_reference_open(&reference, &stage, o->kl);
    if (tool_given(args, "kl-kv")) reference.kv = o->kl_kv;
    if (code == TOOL_OK) code = tool_stage_tokenizer(&stage);
    if (code == TOOL_OK)
        code = tool_windows_open(&windows, &stage, o->kl ? &reference : NULL,
                                 &(tool_windows_text){.path = path, .windows = o->chunks});
    if (code == TOOL_OK) code = tool_windows_run(&windows, "perplexity");
    if (code == TOOL_OK) code = print(&windows);
    tool_windows_close(&windows);
    tool_reference_close(&reference);
    code = tool_stage_end_trace(&stage, code);
    tool_stage_close(&stage);
    return code;
}

/* ---- the command line ---- */

#define AT(field) offsetof(perplexity_options, field)
static const tool_option options[] = {
    TOOL_GROUP(tool_model_options, 0),
    {"file", 'f', "FILE", TOOL_VALUE_TEXT, AT(file), .path = TOOL_PATH_READ,
     .help = "read the text from FILE; same as the operand FILE (- is standard input)"},
    {"chunks", 0, "N", TOOL_VALUE_COUNT, AT(chunks), .least = 1, .most = INT32_MAX,
     .help = "measure only the first N windows of the text (default: all)"},
    {"kl", 0, "MODEL", TOOL_VALUE_TEXT, AT(kl), .path = TOOL_PATH_READ,
     .help =
         "compare with another model of the same vocabulary, usually the unquantized (F16) file "
         "of this one: the Kullback-Leibler divergence of this model's predictions from that "
         "model's (in nats), and how often both predict the same token as the likeliest"},
    {"kl-kv", 0, "TYPE", TOOL_VALUE_KV, AT(kl_kv),
     .choices = "f16 q8_0 q4_0 auto f32 q4_0-unrotated",
     .help = "data type of the KV cache of the model of --kl (default: that of --kv); with the "
             "same file for both models the divergence is what --kv costs"},
    TOOL_GROUP(tool_memory_options, AT(session.memory)),
    TOOL_CTX_OPTION(AT(session.context), "the model's, at most 4096"),
    TOOL_GROUP(tool_pass_options, AT(session)),
    TOOL_GROUP(tool_lora_options, AT(session)),
    TOOL_GROUP(tool_page_cache_options, AT(session)),
    TOOL_GROUP(tool_cut_options, AT(session)),
    TOOL_GROUP(tool_pre_options, AT(session.pre)),
    TOOL_GROUP(tool_trace_options, AT(session.trace)),
    TOOL_JSON_OPTION("one object"),
    TOOL_GROUP(tool_quiet_options, 0),
    TOOL_GROUP(tool_verbose_options, 0),
    {0},
};

static perplexity_options asked;
TOOL_VERB(
    perplexity, "MODEL FILE", 1, 2, "measure how well a model predicts a text",
    "Perplexity is the exponential of the mean negative log-likelihood per token of the text:\n"
    "lower is better, and a good 4-bit type raises it by about 0.5 %.\n"
    "\n"
    "The text is cut into windows as long as the context, which don't overlap; an incomplete\n"
    "last window is dropped. Only the predictions in the second half of each window count, so\n"
    "that each has at least half a window of text before it. --chunks N measures the first N\n"
    "windows only, to save time.\n"
    "\n"
    "For a quantized or pruned model, --kl is more sensitive: tokens that became more likely and\n"
    "tokens that became less likely cancel in perplexity, but not in KL divergence.\n",
    "mnem perplexity model.gguf heldout.txt  # use windows of the model's context, up to 4096\n"
    "mnem perplexity model.gguf heldout.txt --ctx 512 --json  # use windows of 512 tokens\n"
    "mnem perplexity q4.gguf heldout.txt --kl f16.gguf  # show what quantizing to 4 bits costs\n"
    "mnem perplexity a.gguf heldout.txt --kv q4_0 --kl a.gguf --kl-kv f32  # what a 4-bit KV cache "
    "costs\n");
