/* verb_train.c: `mnem train`: a model from text, inside a budget.
 *
 * The order is fixed, because each step's bytes are part of the plan: ledger, vocabulary, tokens,
 * plan, trainer, feeds. Invariant: whatever ends a run, the folder's last checkpoint is whole, and
 * --resume continues with the same numbers. */
#include <string.h>
#include <unistd.h>

#include "ranks/ranks.h"
#include "sight/history_file.h"
#include "sight/monitor_file.h"
#include "verbs/train/train_tool.h"

/* ---- before the plan ---- */

static int make_config(train_run *run) {
    const train_options *asked = run->asked;
    int code;
    if (asked->resume) {
        code = train_config_load(train_path(run, "config.json"), &run->config);
        if (code == TOOL_OK) code = train_resume_check(run);
    } else {
        code = train_config_make(asked, &run->config);
    }
    const train_config *c = &run->config;
    if (code == TOOL_OK && !asked->resume && *c->init) code = train_init_shape(run);
    run->context_open = !asked->resume && !tool_given(run->args, "ctx") &&
                        (c->given == UINT64_MAX || !train_config_given(c, "context"));
    run->warmup = c->warmup;
    if (code == TOOL_OK && !asked->resume) code = train_config_length(asked, &run->config);
    if (code == TOOL_OK) code = train_config_lora(&run->config);
    if (code == TOOL_OK) code = train_teacher_config(&run->config);
    if (code != TOOL_OK || c->lora || c->head_dim || c->embd % c->heads == 0) return code;
    return tool_failed("the config's \"embd\" is %d: set it to its \"heads\" (%d) times an even "
                       "number, or give an "
                       "even \"head_dim\"; \"heads\" must be a multiple of \"kv_heads\" (%d)",
                       c->embd, c->heads, c->kv_heads);
}

static int open_ledger(train_run *run) {
    run->budget_chosen = train_budget(run) == 0;
    const mnem_ledger_options budget = {.budget_bytes = train_budget(run),
                                        .preparing = true,
                                        .own_process = true,
                                        .other_bytes = tool_ranks_bytes(),
                                        .other_tag = "MPI"};
    if (!train_follows()) tool_monitor_begin(run->args, run->out);
    mnem_status status = mnem_ledger_create_process(&budget, &run->ledger);
    if (status == MNEM_OK) tool_monitor_watch(run->ledger);
    tool_monitor_tell(true);
    if (status == MNEM_OK) status = mnem_device_open("host", NULL, &run->device);
    if (status != MNEM_OK) return tool_fail(status);
    return tool_recording_begin(run->args, run->asked->trace, NULL, run->ledger, &run->recording);
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

/* ---- weights ---- */

/* Frozen weights aren't in a checkpoint: they come from the base again. */
static mnem_status begin_weights(train_run *run, bool *same_text) {
    char note[TRAIN_NOTE], text[TRAIN_NOTE];
    const char *path = train_path(run, "checkpoint");
    bool saved = run->asked->resume && access(path, F_OK) == 0;
    mnem_status status = train_ranks_say(&saved, sizeof saved);
    if (status != MNEM_OK) return status;
    if (run->asked->resume && !saved)
        tool_message("the run in %s has no checkpoint yet, so it starts from step 0", run->out);
    if (!saved) mnem_trainer_init(run->trainer, run->config.seed);
    if (run->base) status = mnem_trainer_load(run->trainer, run->base);
    close_base(run);
    if (status == MNEM_OK) status = train_teacher_load(run);
    status = train_ranks_all(status);
    if (!saved || status != MNEM_OK) return status;
    status = mnem_trainer_resume(run->trainer, path, note, sizeof note);
    train_text_note(run, text);
    *same_text = status != MNEM_OK || !strcmp(note, text);
    return status;
}

static int create(train_run *run) {
    mnem_status status = mnem_trainer_create(&run->options, &run->plan, &run->trainer);
    if (status == MNEM_OK) status = train_feed_take(run);
    status = train_ranks_all(status);
    if (status != MNEM_OK) return tool_fail(status);
    bool same_text = true;
    status = begin_weights(run, &same_text);
    if (status != MNEM_OK) return tool_fail(status);
    if (!same_text)
        return tool_failed(
            "the run in %s was trained on other tokens (%s): restore the same text "
            "(its file time doesn't matter) and tokenizer, or start a new run without "
            "--resume in another --out",
            run->out,
            *run->corpus_info.reason ? run->corpus_info.reason
                                     : "its text or tokenizer has changed");
    return TOOL_OK;
}

static void say_resumed(const train_run *run) {
    const uint64_t steps = mnem_trainer_steps(run->trainer);
    if (run->args->quiet || steps == 0) return;
    fprintf(stderr, "continuing after step %llu", (unsigned long long)steps);
    if (run->config.steps) fprintf(stderr, " of %lld", (long long)run->config.steps);
    fputc('\n', stderr);
}

/* A dense model has no zeros, or the few of its rounding: holding those keeps nothing sparse, and
 * is hardly what was meant. */
static int check_masked(const train_run *run) {
    const mnem_train_masked m = mnem_trainer_masked(run->trainer);
    const char *name = tool_file_name(run->config.init);
    const double part = m.weights ? (double)m.zeros / (double)m.weights : 0;
    if (!run->config.masked || part >= 0.1 || m.matrices_2_4) return TOOL_OK;
    if (part < 0.001)
        return tool_failed("--masked keeps the zeros of a pruned model, but %s has almost none: "
                           "prune it with mnem prune first, or leave out --masked",
                           name);
    tool_message("warning: only %.1f %% of the weights of %s are zero; --masked is meant for a "
                 "pruned model (mnem prune)",
                 100 * part, name);
    return TOOL_OK;
}

/* "50.0 % of 4.7M weights stay zero, 42 of 42 matrices 2:4" */
static void say_masked(const train_run *run) {
    const mnem_train_masked m = mnem_trainer_masked(run->trainer);
    char count[TOOL_TEXT], text[160];
    if (run->args->quiet || !m.zeros) return;
    snprintf(text, sizeof text,
             "masked: %.1f %% of %s weights stay zero; %d of %d matrices are 2:4",
             100 * (double)m.zeros / (double)m.weights, tool_count((double)m.weights, count),
             m.matrices_2_4, m.matrices);
    tool_wrap_dim(stderr, "", text);
}

/* From here on there is a run to go on with. */
static int begin(train_run *run) {
    int code = check_masked(run);
    if (code != TOOL_OK) return code;
    say_resumed(run);
    say_masked(run);
    train_ranks_planned(run);
    if (train_follows()) {
        run->staging[0] = 0;
        return TOOL_OK;
    }
    code = train_config_save(train_path(run, "config.json"), &run->config);
    if (code == TOOL_OK) code = train_folder_keep(run);
    return code == TOOL_OK ? train_log_open(run, (int64_t)mnem_trainer_steps(run->trainer)) : code;
}

static int close_run(train_run *run, int code) {
    tool_interrupt_call(NULL, NULL);
    train_log_close(run);
    train_feed_give(run);
    mnem_trainer_destroy(run->trainer);
    mnem_sampler_destroy(run->sampler);
    train_text_close(run);
    close_base(run);
    train_teacher_close(run);
    mnem_device_close(run->device);
    tool_monitor_end();
    if (run->plan.peak_bytes) tool_recording_predicted(&run->recording, train_report_peak(run));
    code = tool_recording_end(&run->recording, code);
    mnem_ledger_destroy(run->ledger);
    train_folder_close(run);
    train_config_fini(&run->config);
    return code;
}

static void cancel(void *context) {
    mnem_trainer_cancel(context);
}

/* Refuses files that don't look like text, unless --any-bytes. */
static int check_text(const train_run *run) {
    int code = TOOL_OK;
    if (run->asked->any_bytes) return code;
    for (int32_t i = 0; i < run->config.files && code == TOOL_OK; i++)
        code = tool_text_check(&(tool_text){
            .path = run->config.file[i],
            .name = run->spooled == i + 1 ? "standard input" : run->config.file[i],
            .way_out = "--init starts from a model, --any-bytes trains on the bytes as they are",
            .alone = run->config.files == 1,
            .quiet = run->args->quiet});
    return code;
}

static int read_text(train_run *run) {
    if (run->asked->resume || train_follows()) return TOOL_OK;
    int code = train_folder_spool(run);
    if (code == TOOL_OK) code = train_data_kind(run);
    return code == TOOL_OK ? check_text(run) : code;
}

/* A change of the trainer goes by its checkpoint, which doesn't have what is frozen. */
static int check_adapt(const train_run *run) {
    const train_config *c = &run->config;
    if (!run->asked->adapt || !(c->lora || c->masked || *c->distill)) return TOOL_OK;
    return tool_usage("train",
                      "--adapt supports neither --lora nor --masked nor --distill, but --%s is "
                      "given: leave one out",
                      c->lora     ? "lora"
                      : c->masked ? "masked"
                                  : "distill");
}

/* What rank 0 has found the files to be. */
static int say_kind(train_run *run) {
    const mnem_status status = train_ranks_say(run->config.data, sizeof run->config.data);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

static int prepare(train_run *run) {
    int code = train_export_check(run);
    if (code == TOOL_OK) code = train_ranks_check(run);
    if (code == TOOL_OK && run->asked->resume)
        code = train_folder_open(run); /* the config is in it */
    if (code == TOOL_OK) code = train_export_find(run);
    if (code == TOOL_OK) code = make_config(run);
    if (code == TOOL_OK) code = check_adapt(run);
    if (code == TOOL_OK && !run->asked->resume) code = train_folder_open(run);
    if (code == TOOL_OK && train_result_is_whole(run)) return train_result_say_whole(run);
    if (code == TOOL_OK) code = read_text(run);
    if (code == TOOL_OK && tool_ranks()) code = say_kind(run);
    if (code == TOOL_OK) code = open_ledger(run);
    if (code == TOOL_OK) code = open_base(run);
    if (code == TOOL_OK) code = train_teacher_open(run);
    if (code == TOOL_OK) code = train_plan_early(run);
    if (code == TOOL_OK && !run->asked->resume && !train_follows())
        code = train_vocabulary_make(run);
    if (code == TOOL_OK) code = train_text_open(run);
    return code == TOOL_OK ? train_plan(run) : code;
}

/* All steps that are left. */
static int train_on(train_run *run) {
    int code = begin(run);
    if (code == TOOL_OK) tool_interrupt_call(cancel, run->trainer);
    if (code == TOOL_OK && tool_ranks() && tool_interrupted()) cancel(run->trainer); /* before */
    if (code == TOOL_OK) code = train_loop(run);
    if ((code == TOOL_OK || code == TOOL_INTERRUPTED) && !train_follows()) train_keep(run);
    return code;
}

static int verb_train(const tool_args *args) {
    static train_run run;
    run = (train_run){.args = args, .asked = (const train_options *)args};
    tool_load_get(&run.load);
    tool_progress_quiet(args->quiet);
    tool_interrupt_watch(NULL);
    int code = tool_recording_check(args, run.asked->trace);
    if (code == TOOL_OK) code = prepare(&run);
    if (code == TOOL_OK && run.asked->dry_run)
        code = train_plan_ways(&run);
    else if (code == TOOL_OK && !run.finished) {
        if (!run.asked->export) code = train_folder_room(&run);
        if (code == TOOL_OK) code = create(&run);
        if (code == TOOL_OK) code = run.asked->export ? train_export(&run) : train_on(&run);
    }
    return close_run(&run, code);
}

/* ---- the command line ---- */

#define AT(field) offsetof(train_options, field)
static const tool_option options[] = {
    TOOL_GROUP(tool_memory_options, AT(memory)),
    TOOL_GROUP(tool_threads_options, AT(threads)),
    {"data", 'd', "FILE", TOOL_VALUE_TEXT, AT(data), .also = "train-file",
     .once = "further files are operands",
     .help = "text file to train on, in UTF-8 (- is standard input); operands are further files"},
    {"any-bytes", 0, NULL, TOOL_VALUE_FLAG, AT(any_bytes),
     .help = "accept files that don't look like text, and train on their bytes as they are"},
    TOOL_GROUP(tool_template_options, AT(template)),
    {"config", 0, "NAME|FILE", TOOL_VALUE_TEXT, AT(config), .choices = "tiny 5m gpt2-10m gpt2-124m",
     .help = "model shape and training settings: tiny, 5m, gpt2-10m, gpt2-124m, or a JSON file "
             "(default: 5m)"},
    {"out", 'o', "DIR", TOOL_VALUE_TEXT, AT(out), .also = "output output-dir",
     .help = "folder of the run (default: mnem-train)"},
    {"resume", 0, NULL, TOOL_VALUE_FLAG, AT(resume),
     .help =
         "continue the run in the folder --out, or in the folder given as operand, from its last "
         "checkpoint"},
    {"export", 0, "FILE", TOOL_VALUE_TEXT, AT(export), .path = TOOL_PATH_WRITE,
     .help = "with --resume: train nothing, and write the model (with --lora the adapter) of the "
             "last checkpoint to FILE"},
    {"init", 'm', "MODEL", TOOL_VALUE_TEXT, AT(init), .also = "model model-name-or-path",
     .help = "start from this model's weights and vocabulary instead of random ones"},
    {"lora", 0, "R", TOOL_VALUE_COUNT, AT(lora), .least = 1, .most = 65536,
     .also = "lora-r lora-rank r",
     .help = "train low-rank adapters of rank R on the model of --init, which may be quantized and "
             "stays frozen"},
    {"lora-alpha", 0, "X", TOOL_VALUE_REAL, AT(lora_alpha), .least = 0.001, .most = 1e6,
     .help =
         "scale of the adapters: their output is multiplied by X / R (default: twice the rank)"},
    {"lora-targets", 0, "NAMES", TOOL_VALUE_TEXT, AT(lora_targets),
     .choices = "q k v qkv o gate up down", .also = "target-modules lora-target-modules",
     .help = "matrices of each layer that get an adapter, of q, k, v, qkv, o, gate, up and down "
             "(PEFT: q_proj ..., all-linear), separated by commas (default: all)"},
    {"masked", 0, NULL, TOOL_VALUE_FLAG, AT(masked),
     .help = "keep the zeros in the matrices of --init: a pruned model stays pruned, a 2:4 model "
             "stays 2:4"},
    {"distill", 0, "TEACHER", TOOL_VALUE_TEXT, AT(distill),
     .help =
         "also learn from the outputs of this model, the teacher; it must have the vocabulary of "
         "--init and may be quantized; its layers are streamed if it doesn't fit in the budget"},
    {"distill-on", 0, "PART", TOOL_VALUE_CHOICE, AT(distill_on), .choices = "logits states both",
     .help = "what is learned from the teacher: its logits, the hidden states after its layers "
             "(needs a model of the same width), or both (default: logits)"},
    {"distill-weight", 0, "X", TOOL_VALUE_REAL, AT(distill_weight), .least = 0.001, .most = 1,
     .help = "weight X of the teacher in the loss; the text has the weight 1 - X (default: 0.5)"},
    {"distill-temperature", 0, "X", TOOL_VALUE_REAL, AT(distill_temperature), .least = 0.1,
     .most = 100,
     .help = "distillation temperature, which divides the logits of both models (default: 2)"},
    {"steps", 0, "N", TOOL_VALUE_NUMBER, AT(steps), .least = 1, .most = TRAIN_STEPS_MAX,
     .also = "max-steps iters",
     .help =
         "length of the run in steps; the learning rate decays to its minimum at the end (default: "
         "the config's: 2000 for 5m; with --init 3 epochs, at least 50 and at most 500 steps)"},
    {"epochs", 0, "N", TOOL_VALUE_REAL, AT(epochs), .least = 0.001, .most = TRAIN_EPOCHS_MAX,
     .also = "num-train-epochs num-epochs",
     .help = "length of the run in passes over the text that is not held out, instead of --steps"},
    {"tokens", 0, "N", TOOL_VALUE_NUMBER, AT(tokens), .least = 1, .most = TRAIN_STEPS_MAX,
     .help = "length of the run in tokens, instead of --steps"},
    {"time", 0, "S", TOOL_VALUE_REAL, AT(seconds), .least = 1, .most = 1e8,
     .help =
         "length of the run in seconds, instead of --steps; the number of steps is set once the "
         "first steps are timed"},
    {"stop-after", 0, "N", TOOL_VALUE_NUMBER, AT(stop_after), .least = 1, .most = TRAIN_STEPS_MAX,
     .help = "stop after step N with a checkpoint, as Ctrl-C does; --resume continues"},
    {"save-every", 0, "N", TOOL_VALUE_NUMBER, AT(save_every), .least = 1, .most = TRAIN_STEPS_MAX,
     .also = "save-steps",
     .help = "number of steps between checkpoints (default: as many as take about a minute)"},
    TOOL_GROUP(tool_batch_options, AT(training)),
    {"batch-per-rank", 0, "N", TOOL_VALUE_COUNT, AT(batch_each), .least = 1, .most = 1 << 20,
     .also = "per-device-train-batch-size",
     .help = "instead of --batch: N sequences per training step for each rank (without mpirun "
             "there is one)"},
    {"accumulate", 0, "N", TOOL_VALUE_COUNT, AT(accumulate), .least = 1, .most = 1 << 20,
     .also = "gradient-accumulation-steps grad-accumulation-steps",
     .help = "multiply --batch, or --batch-per-rank, by N; how many of these sequences run "
             "together is still chosen to fit the budget, or --micro-batch (default: 1)"},
    {"shard", 0, "WHAT", TOOL_VALUE_CHOICE, AT(shard),
     .choices = "none optimizer gradients weights",
     .help =
         "under mpirun, with --memory SIZE[,SIZE...] per rank: what is divided among the ranks in "
         "addition to the batch: none, optimizer (its moments) or gradients (and the moments; not "
         "with --masked) (default: optimizer; gradients if faster or if nothing else fits)"},
    {"ctx", 'c', "N", TOOL_VALUE_COUNT, AT(context), .least = 1, .most = 1 << 20,
     .also = "ctx-size context n-ctx max-seq-length max-length",
     .help = "sequence length in tokens, and the model's context length (default: the config's or "
             "the model's, less if the data is shorter)"},
    {"vocab", 0, "N", TOOL_VALUE_COUNT, AT(vocab), .least = 256, .most = 1 << 20,
     .help = "size in tokens of the vocabulary that is learned from the text; 256: each byte is a "
             "token (default: the config's: 2048 for 5m)"},
    {"adapt", 0, NULL, TOOL_VALUE_FLAG, AT(adapt),
     .help = "adjust the number of sequences per pass during the run: a smaller one above 80% of "
             "the budget, a larger one if a step runs below 60% of the machine's attainable speed; "
             "log.jsonl records every change"},
    TOOL_GROUP(tool_types_options, AT(training)),
    {"rate", 0, "X", TOOL_VALUE_REAL, AT(rate), .least = 0, .most = 10, .also = "learning-rate lr",
     .help = "peak learning rate (default: the config's: 0.002 for 5m; 0.001 with --lora)"},
    {"warmup", 0, "N", TOOL_VALUE_NUMBER, AT(warmup), .least = 0, .most = TRAIN_STEPS_MAX,
     .also = "warmup-steps",
     .help = "number of steps in which the learning rate rises to its peak; afterwards it falls "
             "along a cosine (default: the config's: 100 for 5m; 20 with --lora; at most a tenth "
             "of the steps)"},
    {"weight-decay", 0, "X", TOOL_VALUE_REAL, AT(weight_decay), .least = 0, .most = 10,
     .help = "weight decay of AdamW (default: the config's: 0.2 for 5m; 0 with --lora)"},
    {"clip", 0, "X", TOOL_VALUE_REAL, AT(clip), .least = 0, .most = 1e9, .also = "max-grad-norm",
     .help = "largest norm of the gradient; 0 does not limit it (default: 1)"},
    TOOL_GROUP(tool_dropout_options, AT(training)),
    {"heldout", 0, "X", TOOL_VALUE_REAL, AT(heldout), .least = 0, .most = 0.9,
     .help = "fraction at the end of the text that is held out for validation (default: 0.03)"},
    {"seed", 's', "N", TOOL_VALUE_NUMBER, AT(seed), .least = 0, .most = 1e18,
     .help = "seed of the initial weights, the order of the text and dropout (default: 1)"},
    {"sample", 0, "TEXT", TOOL_VALUE_TEXT, AT(sample),
     .help =
         "prompt of the sample texts that are printed during the run; an empty TEXT (\"\") prints "
         "none (default: the beginning of the held-out text)"},
    {"dry-run", 0, NULL, TOOL_VALUE_FLAG, AT(dry_run),
     .help =
         "print the plan and what other budgets would allow (with -v every part in bytes, and all "
         "budgets), then exit; a budget that is too small is refused (exit code 3)"},
    TOOL_GROUP(tool_trace_options, AT(trace)),
    TOOL_GROUP(tool_history_options, AT(no_history)),
    TOOL_JSON_OPTION("the lines of log.jsonl, then an object with the result; with --dry-run an "
                     "object for the plan, then one for each budget"),
    TOOL_GROUP(tool_quiet_options, 0),
    TOOL_GROUP(tool_verbose_options, 0),
    {0},
};

static train_options asked;
TOOL_VERB(
    train, "[FILE...]", 0, TOOL_OPERANDS_MAX, "train a model on text, inside a memory budget",
    "Trains a transformer on text files inside a hard memory budget, from random weights or\n"
    "from a model (--init). A summary of the plan is printed before the first step. --dry-run\n"
    "prints the plan: bytes by kind, the number of sequences per pass, what is recomputed to\n"
    "save memory, and what other budgets would allow; -v prints every part.\n"
    "A smaller budget changes the speed, and the result only in two cases: losses may differ by\n"
    "rounding, and activations are in bf16 if f32 doesn't fit (--precision f32 prevents that).\n"
    "\n"
    "The vocabulary is learned from the text; with --init it is that of the model. The folder of "
    "the "
    "run (--out) holds its\n"
    "checkpoint, log.jsonl (one line per step), loss.svg, and at the end model.gguf, which\n"
    "`mnem run` opens. Ctrl-C ends the run with a checkpoint (exit code 130); --resume continues "
    "from\n"
    "the last checkpoint, also after a crash, and the result is that of an uninterrupted run.\n"
    "\n"
    "Files should be text in UTF-8; files that are clearly not text are refused. --json streams\n"
    "the lines of log.jsonl to standard output; the last line is an object with the result.\n"
    "\n"
    "A file of JSON (usually one record on each line, .jsonl) may hold documents or "
    "conversations;\n"
    "other fields of a record are ignored. One line of such a file, in each form (wrapped here):\n"
    "\n"
    "  {\"text\": \"A document.\"}\n"
    "  {\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"},\n"
    "                {\"role\": \"assistant\", \"content\": \"Hello!\"}]}\n"
    "  {\"prompt\": \"Hi\", \"completion\": \"Hello!\"}\n"
    "  {\"instruction\": \"Greet.\", \"input\": \"\", \"output\": \"Hello!\"}\n"
    "  {\"conversations\": [{\"from\": \"human\", \"value\": \"Hi\"},\n"
    "                     {\"from\": \"gpt\", \"value\": \"Hello!\"}]}\n"
    "\n"
    "Other names of the third and fourth form are prompt and response, question and answer, input\n"
    "and output, and instruction, context and response.\n"
    "\n"
    "Conversations (all forms but the first) need --init: the chat template of that model, or\n"
    "--template, renders them as text, and only the assistant's messages count in the loss.\n"
    "\n"
    "--lora trains low-rank adapters (small matrices whose product is added to a matrix of the\n"
    "model) for the model of --init, quantized or not, which stays unchanged: only the adapters\n"
    "have gradients and moments. The result is adapter.gguf, which is used with that model.\n"
    "\n"
    "Under mpirun several processes (ranks) train one model: each processes its share of a batch,\n"
    "inside a budget of its own, and holds its part of the optimizer's state (docs/mpi.md).\n"
    "\n"
    "--masked trains a pruned model and keeps its zeros, so a 2:4 sparse model (two of\n"
    "every four consecutive weights are zero) stays 2:4. --distill also trains on the outputs of a "
    "second\n"
    "model, the teacher, such as the model before pruning; the teacher stays unchanged. Both\n"
    "train without dropout, unless --dropout or --config is given.\n",
    "mnem train --data book.txt --memory 512M  # train a model of 5 M parameters\n"
    "mnem train --data book.txt --memory 256M --dry-run  # what do other budgets allow?\n"
    "mnem train --resume  # continue after Ctrl-C\n"
    "mnem train --init model.gguf --lora 8 -d book.txt -o tuned  # train adapters of rank 8\n"
    "mnem train --resume tuned --export so_far.gguf  # write the adapter of its last checkpoint\n"
    "mnem train --init 2of4.gguf --masked --distill model.gguf -d book.txt  # recover from "
    "pruning\n"
    "mnem train -d a.txt b.txt --config gpt2-10m --steps 300 -o small  # train a small GPT-2\n"
    "mpirun -n 4 mnem train -d book.txt --memory 512M -t 2  # train on four ranks\n");
