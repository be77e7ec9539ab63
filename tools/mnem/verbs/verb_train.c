/* verb_train.c: `mnem train`: a model from text, inside a budget.
 *
 * The order is fixed, because each step's bytes are part of the plan: ledger, vocabulary, tokens,
 * plan, trainer, feeds. Invariant: whatever ends a run, the folder's last checkpoint is whole, and
 * --resume continues with the same numbers. */
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "verbs/train/train_tool.h"

enum { VALIDATIONS = 10, TIMED_STEPS = 6, NOTE = 64 };
static const double save_seconds = 60, line_seconds = 10;

/* ---- before the plan ---- */

/* What a run is can't change when it is resumed. */
static int check_resume(const tool_args *args) {
    static const char *const fixed[] = {
        "data",      "config",  "init",    "steps", "tokens",     "time",
        "batch",     "ctx",     "vocab",   "rate",  "dropout",    "seed",
        "precision", "moments", "heldout", "lora",  "lora-alpha", "lora-targets"};
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        if (tool_given(args, fixed[i]))
            return tool_usage("train", "--resume goes on with what the run is; --%s can't change",
                              fixed[i]);
    return args->operands ? tool_usage("train", "--resume knows its text") : TOOL_OK;
}

static int make_config(train_run *run) {
    const train_options *asked = run->asked;
    int code;
    if (asked->resume) {
        code = check_resume(run->args);
        if (code == TOOL_OK) code = train_config_load(train_path(run, "config.json"), &run->config);
    } else {
        code = train_config_make(asked, &run->config);
    }
    const train_config *c = &run->config;
    if (code == TOOL_OK && !asked->resume && *c->init) code = train_init_shape(run);
    if (code == TOOL_OK && !asked->resume) code = train_config_length(asked, &run->config);
    if (code == TOOL_OK) code = train_config_lora(&run->config);
    if (code != TOOL_OK || c->lora || c->embd % c->heads == 0) return code;
    tool_message("the config's \"embd\" is %d: it must be a multiple of its \"heads\", %d",
                 run->config.embd, run->config.heads);
    return TOOL_FAILED;
}

/* 0: nobody gave one. */
static uint64_t budget_of(const train_run *run) {
    return run->asked->memory ? run->asked->memory : run->config.memory;
}

static int open_ledger(train_run *run) {
    run->budget_chosen = budget_of(run) == 0;
    const mnem_ledger_options budget = {.budget_bytes = budget_of(run), .preparing = true};
    mnem_status status = mnem_ledger_create_process(&budget, &run->ledger);
    if (status == MNEM_OK) status = mnem_device_open("host", NULL, &run->device);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

/* The model to start from, whose tables are a part of the plan. A checkpoint has its weights, but
 * none that are frozen. */
static int open_base(train_run *run) {
    const bool saved = run->asked->resume && access(train_path(run, "checkpoint"), F_OK) == 0;
    if (!*run->config.init || (saved && !run->config.lora)) return TOOL_OK;
    const mnem_status status = mnem_model_open(run->config.init, &run->base);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

static void close_base(train_run *run) {
    mnem_model_close(run->base);
    run->base = NULL;
}

/* ---- the plan ---- */

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
    t->head_dim = c->embd / c->heads;
    t->ff = c->ff;
    t->vocab = c->vocab;
    t->context = c->context;
    t->epsilon = (float)c->epsilon;
    t->rope = (mnem_rope){.dims = t->head_dim, .base = (float)c->rope_base};
    t->rope_factors = -1;
    t->tied = true;
}

static mnem_schedule schedule_of(const train_config *c) {
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
                              .dropout = (float)c->dropout,
                              .seed = c->seed,
                              .schedule = schedule_of(c),
                              .norm_max = c->clip};
    set_shape(c, &o->shape);
    set_lora(run);
    o->optimizer.weight_decay = c->weight_decay;
    o->optimizer.seed = c->seed;
    o->optimizer.moments = strcmp(c->moments, "8bit") ? MNEM_MOMENTS_F32 : MNEM_MOMENTS_8BIT;
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

/* auto: f32 where it fits, else bf16; what was chosen stays for --resume. */
static mnem_status make_plan(train_run *run) {
    train_config *c = &run->config;
    const bool open = !strcmp(c->precision, "auto");
    set_compute(run);
    mnem_status status = mnem_train_plan_make(&run->options, &run->plan);
    if (open && status == MNEM_OVER_BUDGET) {
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

static bool print_way(void *context, const mnem_train_way *way) {
    const train_run *run = context;
    char size[TOOL_TEXT];
    if (run->args->json) {
        tool_out_json(json_pack("{s:I, s:f, s:i, s:i, s:b}", "peak_bytes",
                                (json_int_t)way->peak_bytes, "cost", way->cost, "micro_batch",
                                way->micro_batch, "layers_recomputed", way->layers_recomputed,
                                "chosen", way->chosen));
        return !tool_out_closed();
    }
    return tool_outf("%c %12s %10.0f %% %12d %18d\n", way->chosen ? '*' : ' ',
                     tool_size(way->peak_bytes, size), 100 * way->cost, way->micro_batch,
                     way->layers_recomputed);
}

static int show_ways(train_run *run) {
    if (run->args->json)
        tool_out_json(train_report_plan_json(run));
    else
        tool_outf("         memory    step time  micro-batch  layers recomputed\n");
    const mnem_status status = mnem_train_frontier(&run->options, &run->plan, print_way, run);
    return status == MNEM_OK ? tool_out_end() : tool_fail(status);
}

static int fail_plan(const train_run *run, mnem_status status, const mnem_train_plan *plan) {
    return tool_fail_plan(status, plan->needed_bytes, tool_budget_bytes(run->ledger), plan->knob);
}

static int plan(train_run *run) {
    set_options(run);
    const int code = make_sampler(run);
    if (code != TOOL_OK) return code;
    mnem_status status = make_plan(run);
    if (status == MNEM_OK) status = mnem_ledger_hold(run->ledger);
    if (status != MNEM_OK) return fail_plan(run, status, &run->plan);
    /* Where there is no room for the test, the time isn't known before the first step. */
    if (!run->args->quiet || run->asked->dry_run)
        (void)mnem_train_seconds(&run->options, &run->plan, &run->seconds);
    mnem_process_usage usage = {0};
    mnem_process_usage_get(&usage);
    run->text_bytes = usage.bytes_peak;
    if (!run->args->quiet) train_report_plan(stderr, run);
    return TOOL_OK;
}

/* ---- weights ---- */

static mnem_status take_feed_memory(train_run *run) {
    const uint64_t bytes =
        train_feed_bytes(run, run->plan.micro_batch) + (uint64_t)run->logits_count * sizeof(float);
    const mnem_status status =
        mnem_ledger_charge_planned(run->ledger, MNEM_KIND_IO, "feed stack", MNEM_FEED_STACK_BYTES);
    if (status != MNEM_OK) return status;
    return mnem_ledger_alloc(run->ledger, run->device, MNEM_KIND_IO, "batches", bytes, 4096,
                             &run->memory);
}

/* What a checkpoint says of the text: its position means the same only in the same tokens. */
static void text_note(const train_run *run, char note[NOTE]) {
    snprintf(note, NOTE, "mnem train, text %016llx", (unsigned long long)run->corpus_info.checksum);
}

/* Frozen weights aren't in a checkpoint: they come from the base again. */
static mnem_status begin_weights(train_run *run, bool *same_text) {
    char note[NOTE], text[NOTE];
    const char *path = train_path(run, "checkpoint");
    const bool saved = run->asked->resume && access(path, F_OK) == 0;
    mnem_status status = MNEM_OK;
    if (run->asked->resume && !saved)
        tool_message("%s has no checkpoint yet: it begins anew", run->out);
    if (!saved) mnem_trainer_init(run->trainer, run->config.seed);
    if (run->base) status = mnem_trainer_load(run->trainer, run->base);
    close_base(run);
    if (!saved || status != MNEM_OK) return status;
    status = mnem_trainer_resume(run->trainer, path, note, sizeof note);
    text_note(run, text);
    *same_text = status != MNEM_OK || !strcmp(note, text);
    return status;
}

static int create(train_run *run) {
    mnem_status status = mnem_trainer_create(&run->options, &run->plan, &run->trainer);
    if (status == MNEM_OK) status = take_feed_memory(run);
    if (status != MNEM_OK) return tool_fail(status);
    run->logits = (void *)((uint8_t *)mnem_block_host(&run->memory) +
                           train_feed_bytes(run, run->plan.micro_batch));
    bool same_text = true;
    status = begin_weights(run, &same_text);
    if (status != MNEM_OK) return tool_fail(status);
    if (!same_text) {
        tool_message("%s: the text isn't the one that this run learns from (%s): put that back, or "
                     "begin a run in another --out",
                     run->out, *run->corpus_info.reason ? run->corpus_info.reason : "other tokens");
        return TOOL_FAILED;
    }
    return TOOL_OK;
}

static void say_resumed(const train_run *run) {
    const uint64_t steps = mnem_trainer_steps(run->trainer);
    if (run->args->quiet || steps == 0) return;
    fprintf(stderr, "going on after step %llu", (unsigned long long)steps);
    if (run->config.steps) fprintf(stderr, " of %lld", (long long)run->config.steps);
    fputc('\n', stderr);
}

/* From here on there is a run to go on with. */
static int begin(train_run *run) {
    say_resumed(run);
    int code = train_config_save(train_path(run, "config.json"), &run->config);
    if (code == TOOL_OK) code = train_folder_keep(run);
    return code == TOOL_OK ? train_log_open(run, (int64_t)mnem_trainer_steps(run->trainer)) : code;
}

/* ---- now and then ---- */

/* What is left after a failure, if anything is. */
static int fail_run(const train_run *run, mnem_status status) {
    const int code = tool_fail(status);
    const char *path = train_path(run, "checkpoint");
    if (access(path, F_OK) == 0)
        tool_message("%s is whole: `mnem train --out %s --resume` goes on from it", path, run->out);
    return code;
}

static int save(train_run *run) {
    char note[NOTE];
    text_note(run, note);
    const mnem_status status = mnem_trainer_save(run->trainer, train_path(run, "checkpoint"), note);
    return status == MNEM_OK ? TOOL_OK : fail_run(run, status);
}

static mnem_status feed_training(train_run *run) {
    const uint64_t first = mnem_trainer_steps(run->trainer) * (uint64_t)run->config.batch;
    return train_feed_start(run, &run->training, first, 0);
}

static mnem_status sample_and_log(train_run *run, int64_t step, double loss) {
    const double bytes_per_token =
        (double)run->corpus_info.text_bytes / (double)run->corpus_info.tokens;
    const double bits = loss / log(2) / bytes_per_token;
    tool_progress_hide();
    if (!run->args->quiet)
        fprintf(stderr, "step %lld: held-out loss %.4f, perplexity %.4g, %.4f bits per byte\n",
                (long long)step, loss, exp(loss), bits);
    const mnem_status status = train_sample(run);
    if (status == MNEM_OK) train_log_validation(run, step, loss, bits);
    return status;
}

/* What was learned: the loss of held-out text, and a sample. The record comes last, so that a step
 * that has one has had both; one that a signal cut off is looked at again when the run goes on. */
static mnem_status look(train_run *run) {
    double loss;
    int64_t tokens;
    const int64_t step = (int64_t)mnem_trainer_steps(run->trainer);
    if (run->validated == step) return MNEM_OK;
    if (run->validation.count == 0) return train_sample(run);
    mnem_status status = train_feed_start(run, &run->validation, 0, run->validation.count);
    if (status == MNEM_OK)
        status = mnem_trainer_evaluate(run->trainer, &(mnem_train_source){train_feed_next, run},
                                       &loss, &tokens);
    return status == MNEM_OK ? sample_and_log(run, step, loss) : status;
}

/* ---- what a run says at its end ---- */

static const char *result_path(const train_run *run) {
    return train_path(run, run->config.lora ? "adapter.gguf" : "model.gguf");
}

/* The object that ends a stream of --json. */
static json_t *result_json(const train_run *run, const char *what, const char *path, int64_t step) {
    mnem_process_usage usage = {0};
    mnem_process_usage_get(&usage);
    json_t *object =
        json_pack("{s:b, s:o?, s:I, s:f, s:o}", "finished", run->finished, what, json_string(path),
                  "step", (json_int_t)step, "loss", run->loss_last, "validation_loss",
                  run->validated ? tool_json_real(run->loss_validation) : json_null());
    json_t *bytes = json_pack("{s:I, s:I, s:I}", "bytes_peak", (json_int_t)usage.bytes_peak,
                              "predicted_bytes", (json_int_t)train_report_peak(run), "budget_bytes",
                              (json_int_t)run->plan.budget_bytes);
    if (object && bytes && run->trainer) json_object_update(object, bytes); /* else nothing ran */
    json_decref(bytes);
    return object;
}

static void say_result(const train_run *run, int64_t step) {
    const char *path = result_path(run);
    if (run->args->json) {
        const char *what = run->config.lora ? "adapter" : "model";
        tool_out_json(result_json(run, what, path, step));
        return;
    }
    tool_outf("%s: %lld step%s, loss %.4f", path, (long long)step, tool_s((uint64_t)step),
              run->loss_last);
    if (run->validation_curve.count)
        tool_outf(", held-out perplexity %.4g", exp(run->loss_validation));
    tool_outf("\n");
}

/* What the result is for. */
static void say_use(const train_run *run) {
    const char *path = result_path(run);
    if (run->args->quiet || run->args->json) return;
    tool_out_flush(); /* in the order in which they are said */
    if (run->config.lora)
        fprintf(stderr, "`mnem merge %s %s -o OUT` makes a model that runs\n", run->config.init,
                path);
    else
        fprintf(stderr, "`mnem run %s -p TEXT` lets it write\n", path);
}

/* ---- the loop ---- */

typedef struct loop {
    tool_progress progress;
    char what[32];             /* "step 12" */
    double begun, saved, said; /* clock */
    double started;            /* clock, after the first step, which is slower */
    int64_t steps;             /* of this process after the first */
    double seconds_per_step;
} loop;

static void say_step(train_run *run, loop *l, const mnem_train_report *r, double tokens_per_s) {
    char note[100], peak[TOOL_TEXT], budget[TOOL_TEXT];
    mnem_process_usage usage = {0};
    mnem_process_usage_get(&usage);
    snprintf(note, sizeof note, "loss %.4f, %.0f tokens/s, %s of %s", r->loss, tokens_per_s,
             tool_size(usage.bytes_peak, peak), tool_size(run->plan.budget_bytes, budget));
    snprintf(l->what, sizeof l->what, "step %llu", (unsigned long long)r->step);
    tool_progress_step(&l->progress, r->step, (uint64_t)run->config.steps, note);
    const double now = tool_clock();
    if (run->args->quiet || l->progress.terminal || now - l->said < line_seconds) return;
    l->said = now;
    fprintf(stderr, "%s, %s\n", l->what, note);
}

/* The length of a run of --time, once steps were timed; kept, so that --resume has it. */
static int set_length(train_run *run, loop *l) {
    if (run->config.steps || l->steps < TIMED_STEPS) return TOOL_OK;
    const double limit = run->config.time;
    run->config.steps = (int64_t)(limit / l->seconds_per_step);
    const int64_t least = (int64_t)mnem_trainer_steps(run->trainer) + 1;
    if (run->config.steps < least) run->config.steps = least;
    if (run->config.warmup > run->config.steps / 10) run->config.warmup = run->config.steps / 10;
    const mnem_schedule schedule = schedule_of(&run->config);
    const mnem_status status = mnem_trainer_schedule_set(run->trainer, &schedule);
    if (status != MNEM_OK) return tool_fail(status);
    if (!run->args->quiet)
        fprintf(stderr, "%lld step%s fit%s %.0f s\n", (long long)run->config.steps,
                tool_s((uint64_t)run->config.steps), run->config.steps == 1 ? "s" : "", limit);
    return train_config_save(train_path(run, "config.json"), &run->config);
}

static bool is_last(const train_run *run, uint64_t step) {
    return (run->config.steps && step >= (uint64_t)run->config.steps) ||
           (run->asked->stop_after && step >= run->asked->stop_after);
}

/* The end validates for itself; a stop doesn't. */
static bool wants_look(const train_run *run, uint64_t step) {
    const int64_t every = run->config.steps / VALIDATIONS;
    return every > 0 && step % (uint64_t)every == 0 && step < (uint64_t)run->config.steps;
}

static bool wants_save(const train_run *run, const loop *l, uint64_t step) {
    if (run->asked->save_every) return step % run->asked->save_every == 0;
    return tool_clock() - l->saved > save_seconds;
}

/* A signal isn't a failure: the loop stops at it, and the next run looks at this step. */
static int look_between(train_run *run) {
    mnem_status status = look(run);
    if (status == MNEM_OK && !run->undrawn) run->undrawn = train_draw(run) != TOOL_OK;
    if (status == MNEM_OK) status = feed_training(run);
    return status == MNEM_OK || status == MNEM_CANCELLED ? TOOL_OK : tool_fail(status);
}

/* What follows a step; an exit code. */
static int after_step(train_run *run, loop *l, const mnem_train_report *r) {
    const double now = tool_clock();
    if (l->started == 0)
        l->started = now;
    else
        l->seconds_per_step = (now - l->started) / (double)++l->steps;
    const double each = l->steps ? l->seconds_per_step : now - l->begun;
    const double tokens_per_s = (double)run->config.batch * run->config.context / each;
    train_log_step(run, r, tokens_per_s);
    say_step(run, l, r, tokens_per_s);
    if (!r->applied && !run->args->quiet)
        tool_message("step %llu: f16 overflowed; the step is left out and the loss scale is halved",
                     (unsigned long long)r->step);
    int code = set_length(run, l);
    if (code == TOOL_OK && wants_look(run, r->step)) {
        code = look_between(run);
        l->started += tool_clock() - now; /* that wasn't a step's time */
    }
    if (code == TOOL_OK && wants_save(run, l, r->step)) {
        const double begin = tool_clock();
        code = save(run);
        l->saved = tool_clock();
        l->started += l->saved - begin;
    }
    return code;
}

/* Ctrl-C and --stop-after: the work is kept. */
static int stop(train_run *run, int exit_code) {
    const int64_t step = (int64_t)mnem_trainer_steps(run->trainer);
    tool_progress_hide();
    const int code = save(run);
    if (code != TOOL_OK) return code;
    if (!run->undrawn) train_draw(run);
    if (!run->args->quiet) {
        train_report_ledger(stderr, run);
        fprintf(stderr, "stopped after step %lld; `mnem train --out %s --resume` goes on\n",
                (long long)step, run->out);
    }
    if (run->args->json)
        tool_out_json(result_json(run, "checkpoint", train_path(run, "checkpoint"), step));
    const int said = tool_out_end();
    return exit_code == TOOL_OK ? said : exit_code;
}

static int fail_step(train_run *run, mnem_status status) {
    if (status == MNEM_CANCELLED && tool_interrupted()) return stop(run, TOOL_INTERRUPTED);
    return fail_run(run, status);
}

/* At the place where the checkpoint stands, whose look a signal may have cut off. */
static int begin_loop(train_run *run) {
    const uint64_t step = mnem_trainer_steps(run->trainer);
    if (step > 0 && wants_look(run, step)) return look_between(run);
    const mnem_status status = feed_training(run);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

static int train(train_run *run) {
    const int code = begin_loop(run);
    if (code != TOOL_OK) return code;
    loop l = {.saved = tool_clock(), .begun = tool_clock()};
    mnem_train_report report;
    const mnem_train_source source = {train_feed_next, run};
    mnem_status status;
    tool_progress_begin(&l.progress, l.what);
    if (run->config.steps)
        l.progress.before = (double)mnem_trainer_steps(run->trainer) / (double)run->config.steps;
    while (!is_last(run, mnem_trainer_steps(run->trainer))) {
        if (tool_interrupted()) return stop(run, TOOL_INTERRUPTED);
        status = mnem_trainer_step(run->trainer, &source, &report);
        if (status != MNEM_OK) return fail_step(run, status);
        const int after = after_step(run, &l, &report);
        if (after != TOOL_OK) return after;
    }
    tool_progress_end(&l.progress);
    return TOOL_OK;
}

/* ---- the end ---- */

/* general.name and general.license. */
static mnem_status write_names(const train_run *run, mnem_gguf_writer *writer) {
    const train_config *c = &run->config;
    char whole[PATH_MAX];
    const char *name = c->name;
    if (!*name) name = realpath(run->out, whole) ? strrchr(whole, '/') + 1 : run->out;
    const mnem_status status = mnem_gguf_key_text(writer, "general.name", name);
    if (status != MNEM_OK || !*c->license) return status;
    return mnem_gguf_key_text(writer, "general.license", c->license);
}

static mnem_status write_model(train_run *run, const char *path) {
    mnem_gguf_writer *writer;
    mnem_status status = mnem_gguf_create(path, &writer);
    if (status != MNEM_OK) return status;
    status = write_names(run, writer);
    const bool lora = run->config.lora != 0;
    if (status == MNEM_OK && !lora) status = mnem_tokenizer_write(run->tokenizer, writer);
    if (status == MNEM_OK)
        status = mnem_trainer_write(run->trainer, lora ? MNEM_TYPE_F32 : MNEM_TYPE_F16, writer);
    if (status == MNEM_OK) return mnem_gguf_finish(writer);
    mnem_gguf_abort(writer);
    return status;
}

/* What batches took is room for the writer. */
static void give_feed_memory(train_run *run) {
    train_feed_stop(run);
    if (run->memory.bytes == 0) return;
    mnem_ledger_free(run->ledger, MNEM_KIND_IO, "batches", &run->memory);
    mnem_ledger_release(run->ledger, MNEM_KIND_IO, "feed stack", MNEM_FEED_STACK_BYTES);
}

static int finish(train_run *run) {
    const uint64_t steps = mnem_trainer_steps(run->trainer);
    if (!run->config.steps || steps < (uint64_t)run->config.steps)
        return stop(run, tool_interrupted() ? TOOL_INTERRUPTED : TOOL_OK);
    int code = save(run);
    if (code != TOOL_OK) return code;
    mnem_status status = look(run);
    give_feed_memory(run);
    if (status == MNEM_OK) status = write_model(run, result_path(run));
    if (status != MNEM_OK) return fail_step(run, status);
    run->finished = true;
    code = train_draw(run);
    if (!run->args->quiet) train_report_ledger(stderr, run);
    say_result(run, (int64_t)steps);
    say_use(run);
    const int said = tool_out_end();
    return code == TOOL_OK ? said : code;
}

static void close_run(train_run *run) {
    tool_interrupt_call(NULL, NULL);
    train_log_close(run);
    give_feed_memory(run);
    mnem_trainer_destroy(run->trainer);
    mnem_sampler_destroy(run->sampler);
    train_text_close(run);
    close_base(run);
    mnem_device_close(run->device);
    mnem_ledger_destroy(run->ledger);
    train_folder_close(run);
    train_config_fini(&run->config);
}

static void cancel(void *context) {
    mnem_trainer_cancel(context);
}

/* What the tokenizer and the text will take, about, and rather more: pieces of text and their ids,
 * tables of the vocabulary. */
static uint64_t text_bytes(const train_run *run, uint64_t all) {
    enum { PIECE = 1 << 20, TABLES = 256 << 10, EACH = 96 };
    return (all < PIECE ? all : PIECE) * 3 + TABLES + (uint64_t)run->config.vocab * EACH;
}

static uint64_t file_bytes(const train_run *run) {
    uint64_t all = 0;
    struct stat about;
    for (int32_t i = 0; i < run->config.files; i++)
        if (stat(run->config.file[i], &about) == 0) all += (uint64_t)about.st_size;
    return all;
}

/* What can't be, or can't fit whatever the text is, gets its answer before a long text is read; the
 * least that it names has room for the text. A short one is read, for the least to the byte. */
static int plan_early(train_run *run) {
    enum { SHORT = 16 << 20 };
    mnem_train_plan plan;
    const uint64_t all = file_bytes(run);
    if (strcmp(run->config.precision, "auto") == 0 && run->options.compute == MNEM_TYPE_F32)
        run->options.compute = MNEM_TYPE_BF16; /* the smaller of the two */
    mnem_status status = mnem_train_plan_make(&run->options, &plan);
    if (status == MNEM_OVER_BUDGET && all < SHORT) return TOOL_OK;
    if (status == MNEM_OVER_BUDGET) {
        run->options.io_bytes += text_bytes(run, all);
        status = mnem_train_plan_make(&run->options, &plan);
    }
    if (status == MNEM_OK) return TOOL_OK;
    return fail_plan(run, status, &plan);
}

/* The checkpoint has all steps, and the result was written after it. */
static bool is_finished(const train_run *run) {
    uint64_t steps = 0;
    if (!run->asked->resume || !run->config.steps || access(result_path(run), F_OK) != 0)
        return false;
    return mnem_trainer_steps_saved(train_path(run, "checkpoint"), &steps) == MNEM_OK &&
           steps >= (uint64_t)run->config.steps;
}

static int say_finished(train_run *run) {
    const bool lora = run->config.lora != 0;
    run->finished = true;
    train_log_read(run);
    tool_message("%s is finished: all %lld steps are done. To learn more, begin a run from %s:\n"
                 "      mnem train --init %s --data FILE --out NEW",
                 run->out, (long long)run->config.steps,
                 lora ? "a model that has the adapter (mnem merge)" : "its model",
                 lora ? "MERGED" : result_path(run));
    say_result(run, run->config.steps);
    return tool_out_end();
}

static int read_text(train_run *run) {
    int code = run->asked->resume ? TOOL_OK : train_folder_spool(run);
    if (code == TOOL_OK && !run->asked->resume) code = train_text_check(run);
    return code;
}

static int prepare(train_run *run) {
    int code = run->asked->resume ? train_folder_open(run) : TOOL_OK; /* the config is in it */
    if (code == TOOL_OK) code = make_config(run);
    if (code == TOOL_OK && !run->asked->resume) code = train_folder_open(run);
    if (code == TOOL_OK && is_finished(run)) return say_finished(run);
    if (code == TOOL_OK) code = read_text(run);
    if (code == TOOL_OK) code = open_ledger(run);
    if (code == TOOL_OK) code = open_base(run);
    if (code == TOOL_OK) {
        set_options(run);
        set_compute(run);
        code = plan_early(run);
    }
    if (code == TOOL_OK && !run->asked->resume) code = train_vocabulary_make(run);
    if (code == TOOL_OK) code = train_text_open(run);
    return code == TOOL_OK ? plan(run) : code;
}

static int verb_train(const tool_args *args) {
    static train_run run;
    run = (train_run){.args = args, .asked = (const train_options *)args};
    tool_progress_quiet(args->quiet);
    tool_interrupt_watch(NULL);
    int code = prepare(&run);
    if (code == TOOL_OK && run.asked->dry_run)
        code = show_ways(&run);
    else if (code == TOOL_OK && !run.finished) {
        code = create(&run);
        if (code == TOOL_OK) code = begin(&run);
        if (code == TOOL_OK) tool_interrupt_call(cancel, run.trainer);
        if (code == TOOL_OK) code = train(&run);
        if (code == TOOL_OK) code = finish(&run);
    }
    close_run(&run);
    return code;
}

/* ---- the command line ---- */

#define AT(field) offsetof(train_options, field)
static const tool_option options[] = {
    TOOL_GROUP(tool_memory_options, AT(memory)),
    TOOL_GROUP(tool_threads_options, AT(threads)),
    {"data", 'd', "FILE", TOOL_VALUE_TEXT, AT(data), .once = "further files are operands",
     .help =
         "a text file to learn from, in UTF-8 (- is standard input); operands are further ones"},
    {"any-bytes", 0, NULL, TOOL_VALUE_FLAG, AT(any_bytes),
     .help = "learn from files as they are, also where they don't look like text"},
    {"config", 'c', "NAME|FILE", TOOL_VALUE_TEXT, AT(config),
     .choices = "tiny 5m gpt2-10m gpt2-124m",
     .help = "the model and how it is trained: tiny, 5m, gpt2-10m, gpt2-124m, or a JSON file "
             "(default: 5m)"},
    {"out", 'o', "DIR", TOOL_VALUE_TEXT, AT(out), .help = "the run's folder (default: mnem-train)"},
    {"resume", 0, NULL, TOOL_VALUE_FLAG, AT(resume),
     .help = "go on with the run in the folder, from its last checkpoint"},
    {"init", 0, "MODEL", TOOL_VALUE_TEXT, AT(init),
     .help = "start from this model's weights and vocabulary instead of random ones"},
    {"lora", 0, "R", TOOL_VALUE_COUNT, AT(lora), .least = 1, .most = 65536,
     .help = "train low-rank adapters of this rank on the model of --init, which may be quantized "
             "and stays as it is"},
    {"lora-alpha", 0, "X", TOOL_VALUE_REAL, AT(lora_alpha), .least = 0.001, .most = 1e6,
     .help = "weight of what adapters add: X / R (default: twice the rank)"},
    {"lora-targets", 0, "NAMES", TOOL_VALUE_TEXT, AT(lora_targets),
     .choices = "q k v qkv o gate up down",
     .help = "which matrices of a layer get an adapter, with commas between, such as q,v (default: "
             "all)"},
    {"steps", 0, "N", TOOL_VALUE_NUMBER, AT(steps), .least = 1, .most = TRAIN_STEPS_MAX,
     .help = "length of the run in steps; the learning rate falls to its floor at the end"},
    {"tokens", 'n', "N", TOOL_VALUE_NUMBER, AT(tokens), .least = 1, .most = TRAIN_STEPS_MAX,
     .help = "length of the run in tokens"},
    {"time", 0, "S", TOOL_VALUE_REAL, AT(seconds), .least = 1, .most = 1e8,
     .help =
         "length of the run in seconds: the number of steps is set when the first ones were timed"},
    {"stop-after", 0, "N", TOOL_VALUE_NUMBER, AT(stop_after), .least = 1, .most = TRAIN_STEPS_MAX,
     .help = "stop after step N with a checkpoint, as Ctrl-C does; --resume goes on"},
    {"save-every", 0, "N", TOOL_VALUE_NUMBER, AT(save_every), .least = 1, .most = TRAIN_STEPS_MAX,
     .help = "steps between checkpoints (default: about a minute's)"},
    TOOL_GROUP(tool_batch_options, AT(training)),
    {"ctx", 0, "N", TOOL_VALUE_COUNT, AT(context), .least = 1, .most = 1 << 20,
     .help = "tokens of a sequence, and the model's context"},
    {"vocab", 0, "N", TOOL_VALUE_COUNT, AT(vocab), .least = 256, .most = 1 << 20,
     .help = "tokens of the vocabulary that is learned from the text; 256: bytes"},
    TOOL_GROUP(tool_types_options, AT(training)),
    {"rate", 0, "X", TOOL_VALUE_REAL, AT(rate), .least = 0, .most = 10,
     .help = "highest learning rate"},
    TOOL_GROUP(tool_dropout_options, AT(training)),
    {"heldout", 0, "X", TOOL_VALUE_REAL, AT(heldout), .least = 0, .most = 0.9,
     .help = "the last part of the text that is not learned from, but measured on (default: 0.03)"},
    {"seed", 's', "N", TOOL_VALUE_NUMBER, AT(seed), .least = 0, .most = 1e18,
     .help = "seed of weights, order of text and dropout (default: 1)"},
    {"sample", 0, "TEXT", TOOL_VALUE_TEXT, AT(sample),
     .help = "what samples continue (default: the beginning of the held-out text)"},
    {"dry-run", 0, NULL, TOOL_VALUE_FLAG, AT(dry_run),
     .help = "show the plan and what other budgets would buy, and stop"},
    TOOL_GROUP(tool_json_options, 0),
    TOOL_GROUP(tool_quiet_options, 0),
    {0},
};

static train_options asked;
const tool_verb tool_verb_train = {
    .name = "train",
    .about =
        {"[FILE...]", 0, TOOL_OPERANDS_MAX, "train a model on text, inside a memory budget",
         "Trains a transformer on text files inside a hard memory budget, from random weights or\n"
         "from a model (--init). Shows the plan before the first step: bytes by kind, how many\n"
         "sequences run together, what is computed again to save memory, and what another budget\n"
         "would buy. A smaller budget changes the speed, not the result, but for rounding.\n"
         "\n"
         "The vocabulary is learned from the text. The run lives in a folder (--out): its\n"
         "checkpoint, log.jsonl (a line for each step), loss.svg, and at the end model.gguf, "
         "which\n"
         "`mnem run` opens. Ctrl-C stops with a checkpoint (exit code 130); --resume goes on as\n"
         "though nothing had happened, also after a crash.\n"
         "\n"
         "Files should be text in UTF-8; what is clearly no text is refused. --json streams the\n"
         "lines of log.jsonl to standard output, and an object about the end as the last line.\n"
         "\n"
         "--lora trains low-rank adapters on a model that stays as it is, quantized or not: "
         "gradients\n"
         "and moments are of the adapters only. The result is adapter.gguf, for that model.\n",
         "mnem train --data book.txt --memory 512M  # a model of 5 M parameters\n"
         "mnem train --data book.txt --memory 64M --dry-run  # what would other budgets buy?\n"
         "mnem train --resume  # go on after Ctrl-C\n"
         "mnem train --init model.gguf --lora 8 -d book.txt -o tuned  # adapters of rank 8\n"
         "mnem train -d a.txt b.txt --config gpt2-10m --steps 300 -o small  # GPT-2's shape\n"},
    .options = options,
    .args = &asked.args,
    .entry = verb_train};
