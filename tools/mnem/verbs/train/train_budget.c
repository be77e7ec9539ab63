/* train_budget.c: from a config and a text to the plan of a run, or its refusal.
 *
 * The plan is made twice: early, before a long text is read, for what can't fit whatever the text
 * is; then with the text's own bytes. `auto` precision is settled by it: f32 where it fits. */
#include <string.h>
#include <sys/stat.h>

#include "sight/profile_age.h"
#include "stage.h"
#include "verbs/train/train_tool.h"

enum { OPTION_WORDS = 120 };

/* ---- options ---- */

/* 0: none was given. */
uint64_t train_budget(const train_run *run) {
    return run->asked->memory ? run->asked->memory : run->config.memory;
}

static void set_lora(train_run *run) {
    const train_config *c = &run->config;
    mnem_lora *lora = &run->options.lora;
    if (!c->lora) return;
    *lora = (mnem_lora){.rank = c->lora, .alpha = (float)c->lora_alpha, .base = run->base};
    if (*c->lora_targets) mnem_lora_targets_parse(c->lora_targets, &lora->targets);
}

static void set_shape(const train_config *c, mnem_transformer *t) {
    snprintf(t->architecture, sizeof t->architecture, "%s", c->architecture);
    t->layers = c->layers;
    t->embd = c->embd;
    t->heads = c->heads;
    t->kv_heads = c->kv_heads;
    t->head_dim = train_config_head_dim(c);
    t->ff = c->ff;
    t->vocab = c->vocab;
    t->context = c->context;
    t->epsilon = (float)c->epsilon;
    t->rope = (mnem_rope){.dims = t->head_dim, .base = (float)c->rope_base};
    t->rope_factors = -1;
    t->tied = true;
}

mnem_schedule train_schedule(const train_config *c) {
    const int64_t steps = c->steps ? c->steps : INT64_C(1) << 40;
    return (mnem_schedule){.rate_peak = c->rate,
                           .rate_floor = c->rate_floor,
                           .warmup_steps = (uint64_t)(c->warmup < steps ? c->warmup : steps),
                           .total_steps = (uint64_t)steps};
}

static void set_options(train_run *run) {
    const train_config *c = &run->config;
    mnem_train_options *o = &run->options;
    *o = (mnem_train_options){.ledger = run->ledger,
                              .sequence = c->context,
                              .batch = c->batch,
                              .micro_batch = run->asked->training.micro_batch,
                              .threads = run->asked->threads,
                              .masked = c->masked != 0,
                              .dropout = (float)c->dropout,
                              .seed = c->seed,
                              .schedule = train_schedule(c),
                              .norm_max = c->clip};
    set_shape(c, &o->shape);
    set_lora(run);
    train_ranks_options(run);
    train_teacher_options(run);
    o->optimizer.weight_decay = c->weight_decay;
    o->optimizer.seed = c->seed;
    o->optimizer.moments = strcmp(c->moments, "8bit") ? MNEM_MOMENTS_F32 : MNEM_MOMENTS_8BIT;
    /* The tool's own bytes while steps run: a batch of one sequence and so much for each further
     * one, the stack of the thread that reads, and a row of logits for samples. */
    const uint64_t one = train_feed_bytes(run, 1), two = train_feed_bytes(run, 2);
    o->io_bytes_sequence = two - one + 64;
    const uint64_t logits = (uint64_t)(run->logits_count ? run->logits_count : c->vocab);
    o->io_bytes = one + MNEM_FEED_STACK_BYTES + 4096 + logits * sizeof(float);
}

static void set_compute(train_run *run) {
    const char *precision = run->config.precision;
    run->options.compute = !strcmp(precision, "bf16")  ? MNEM_TYPE_BF16
                           : !strcmp(precision, "f16") ? MNEM_TYPE_F16
                                                       : MNEM_TYPE_F32;
}

void train_plan_options(train_run *run) {
    set_options(run);
    set_compute(run);
}

/* ---- the plan ---- */

/* auto: f32 where it fits, else bf16; what was chosen stays for --resume. */
static mnem_status make_plan(train_run *run) {
    train_config *c = &run->config;
    const bool open = !strcmp(c->precision, "auto");
    set_compute(run);
    mnem_status status = mnem_train_plan_make(&run->options, &run->plan);
    if (open && status == MNEM_OVER_BUDGET) {
        run->f32_bytes = run->plan.needed_bytes;
        run->options.compute = MNEM_TYPE_BF16;
        status = mnem_train_plan_make(&run->options, &run->plan);
    }
    if (open && status == MNEM_OK)
        snprintf(c->precision, sizeof c->precision, "%s",
                 run->options.compute == MNEM_TYPE_BF16 ? "bf16" : "f32");
    return status;
}

static int make_sampler(train_run *run) {
    mnem_sampler_options options = mnem_sampler_usual();
    options.seed = run->config.seed;
    const mnem_status status = mnem_sampler_create(&options, run->config.vocab, &run->sampler);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

/* "--moments 8bit would fit; otherwise ": what the plan's option buys, planned with it, so that
 * following it isn't refused again; "": there is none of the run's. */
static const char *option_words(const train_run *run, mnem_knob knob, char text[OPTION_WORDS]) {
    mnem_train_options o = run->options;
    mnem_train_plan plan;
    char least[TOOL_TEXT];
    const bool moments = knob.kind == MNEM_KNOB_MOMENTS;
    *text = 0;
    if (!moments && knob.kind != MNEM_KNOB_COMPUTE) return text;
    if (moments)
        o.optimizer.moments = MNEM_MOMENTS_8BIT;
    else
        o.compute = MNEM_TYPE_BF16;
    const char *option = moments ? "--moments 8bit" : "--precision bf16";
    const mnem_status status = mnem_train_plan_make(&o, &plan);
    if (status == MNEM_OK)
        snprintf(text, OPTION_WORDS, "%s would fit; otherwise ", option);
    else if (status == MNEM_OVER_BUDGET && plan.needed_bytes)
        snprintf(text, OPTION_WORDS, "%s needs --memory %s; otherwise ", option,
                 tool_budget_of_other(plan.needed_bytes, least));
    return text;
}

static int fail_alone(const train_run *run, const mnem_train_plan *plan) {
    char why[512], words[OPTION_WORDS];
    snprintf(why, sizeof why, "%s", mnem_last_error());
    const uint64_t budget = tool_budget_bytes(run->ledger);
    const bool said = *option_words(run, plan->knob, words);
    return tool_fail_rank(why, 0, plan->needed_bytes, budget,
                          said ? (mnem_knob){.kind = MNEM_KNOB_NONE} : plan->knob, words);
}

/* text: bytes that the plan has for a text that isn't read yet. */
static int fail_plan(train_run *run, mnem_status status, const mnem_train_plan *plan,
                     uint64_t text) {
    if (status == MNEM_OVER_BUDGET && train_ranks() > 1)
        return tool_fail_rank(mnem_last_error(), plan->needed_rank, plan->needed_bytes,
                              plan->budget_bytes, plan->knob, "");
    if (status != MNEM_OVER_BUDGET || !plan->needed_bytes) return tool_fail_asked(status);
    const int code = fail_alone(run, plan);
    train_instead_say(run, text);
    return code;
}

static void find_steps_before(train_run *run) {
    uint64_t steps = 0;
    if (run->asked->resume &&
        mnem_trainer_steps_saved(train_path(run, "checkpoint"), &steps) == MNEM_OK)
        run->steps_before = (int64_t)steps;
}

/* Of the time since the command began, where that is long enough for the system's ticks. Other
 * ranks would be others. */
static double others_share(const train_run *run) {
    enum { OWN_TICKS = 20 }; /* of 10 ms */
    tool_load_times now;
    if (train_ranks() > 1 || run->load.all <= 0 || !tool_load_get(&now)) return 0;
    if (now.all - run->load.all < 1e-2 * OWN_TICKS) return 0;
    const double share = tool_load_share(&run->load, &now);
    return tool_load_is_high(share) ? share : 0;
}

int train_plan(train_run *run) {
    set_options(run);
    find_steps_before(run);
    const int code = make_sampler(run);
    if (code != TOOL_OK) return code;
    mnem_status status = make_plan(run);
    if (status == MNEM_OK) status = train_ranks_all(mnem_ledger_hold(run->ledger));
    if (status != MNEM_OK) return fail_plan(run, status, &run->plan, 0);
    /* Where there is no room for the test, the time isn't known before the first step. */
    if (!run->args->quiet || run->asked->dry_run || run->asked->adapt)
        (void)mnem_train_seconds(&run->options, &run->plan, &run->seconds);
    run->others = others_share(run);
    run->text_bytes = tool_peak_bytes();
    train_report_start(stderr, run);
    return TOOL_OK;
}

/* ---- before the text ---- */

/* What the tokenizer and the text will take, about, and rather more: pieces of text and their ids,
 * tables of the vocabulary. */
static uint64_t text_bytes(const train_run *run, uint64_t all) {
    enum { PIECE = 1 << 20, TABLES = 256 << 10, EACH = 96 };
    return (all < PIECE ? all : PIECE) * 3 + TABLES + (uint64_t)run->config.vocab * EACH;
}

uint64_t train_file_bytes(const train_run *run) {
    uint64_t all = 0;
    struct stat about;
    for (int32_t i = 0; i < run->config.files; i++)
        if (stat(run->config.file[i], &about) == 0) all += (uint64_t)about.st_size;
    return all;
}

/* What can't be, or can't fit whatever the text is, gets its answer before a long text is read; the
 * least that it names has room for the text. A short one is read, for the least to the byte. */
int train_plan_early(train_run *run) {
    enum { SHORT = 16 << 20 };
    mnem_train_plan plan;
    uint64_t all = train_file_bytes(run), text = 0;
    const mnem_status said = train_ranks_say(&all, sizeof all);
    if (said != MNEM_OK) return tool_fail(said);
    set_options(run);
    set_compute(run);
    if (strcmp(run->config.precision, "auto") == 0 && run->options.compute == MNEM_TYPE_F32)
        run->options.compute = MNEM_TYPE_BF16; /* the smaller of the two */
    mnem_status status = mnem_train_plan_make(&run->options, &plan);
    if (status == MNEM_OVER_BUDGET && (all < SHORT || (run->context_open && train_is_chat(run))))
        return TOOL_OK; /* of conversations the context may become much shorter */
    if (status == MNEM_OVER_BUDGET) {
        text = text_bytes(run, all);
        run->options.io_bytes += text;
        status = mnem_train_plan_make(&run->options, &plan);
    }
    if (status == MNEM_OK) return TOOL_OK;
    return fail_plan(run, status, &plan, text);
}
