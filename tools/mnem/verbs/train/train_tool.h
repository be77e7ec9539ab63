/* train_tool.h: a training run of `mnem train`, shared by the files of that verb.
 *
 * A run lives in a folder:
 *     config.json      what it is: shape, text, steps; written once, read by --resume
 *     vocabulary.gguf  the tokenizer
 *     tokens           the text as tokens
 *     checkpoint       weights, moments and where it stands
 *     log.jsonl        a line for each report
 *     loss.svg         the curve
 *     model.gguf       the result, when it is done (adapter.gguf with --lora)
 *     text             what came from standard input, if anything did
 */
#ifndef MNEM_TOOLS_MNEM_VERBS_TRAIN_TRAIN_TOOL_H
#define MNEM_TOOLS_MNEM_VERBS_TRAIN_TRAIN_TOOL_H

#include <limits.h>

#include "options.h"
#include "sight/recording.h"
#include "verbs/measure/other_load.h"

enum {
    TRAIN_FILES_MAX = 256,
    TRAIN_CURVE = 2048,
    TRAIN_NOTE = 64,
    TRAIN_CHAT_SAMPLE = 256,
    TRAIN_VALUE = 200
};
#define TRAIN_SPOOL "text"
/* As doubles exact, and far from where sums of int64_t overflow; of seeds and bytes, what an
 * integer of JSON holds. */
#define TRAIN_STEPS_MAX  1e15
#define TRAIN_NUMBER_MAX 1e18
#define TRAIN_EPOCHS_MAX 1e6
/* Between checkpoints, unless --save-every says steps. */
#define TRAIN_SAVE_SECONDS 60
/* Unless an option says them. */
#define TRAIN_DISTILL_WEIGHT      0.5
#define TRAIN_DISTILL_TEMPERATURE 2.0

typedef struct train_options {
    tool_args args;
    uint64_t memory; /* 0: not given, as for all numbers but rates */
    int32_t threads;
    tool_training_asked training;
    tool_template_asked template;
    const char *data, *config, *out, *init, *lora_targets, *distill, *sample;
    int32_t lora, context, vocab, distill_on, shard; /* the last two: of their words */
    int32_t batch_each, accumulate;
    double lora_alpha, distill_weight, distill_temperature, seconds, epochs, rate, heldout;
    double weight_decay, clip;
    uint64_t steps, tokens, stop_after, save_every, seed, warmup;
    const char *trace, *export; /* export: the file; NULL: the run goes on */
    bool any_bytes, resume, dry_run, masked, no_history, adapt;
} train_options;

/* What config.json holds. Names of JSON keys are those of the fields. */
typedef struct train_config {
    char architecture[16];
    int32_t layers, embd, heads, kv_heads, ff, vocab, context;
    int32_t head_dim; /* 0: embd / heads, as when nothing else could be said */
    double epsilon, rope_base;
    int32_t batch;
    int64_t steps;   /* 0: not known yet, as many as fit the time */
    double time;     /* seconds; 0: the steps decide */
    double epochs;   /* passes over the training text, from which steps follow; 0: not given */
    int64_t windows; /* of an epoch; 0: not known yet */
    double rate, rate_floor, weight_decay, dropout, clip, heldout;
    int64_t warmup;
    uint64_t seed;
    uint64_t memory;               /* the budget, for --resume; 0: none was given */
    char precision[8], moments[8]; /* "f32", "bf16", "f16"; "f32", "8bit" */
    char pre[16];                  /* how the vocabulary cuts words: "gpt-2" */
    char name[64], license[64];    /* for model.gguf; "": the folder's name, none */
    int32_t lora;                  /* rank of adapters; 0: all weights are trained */
    double lora_alpha;             /* 0: twice the rank; train_config_lora makes it that */
    char lora_targets[40];         /* "": all */
    int32_t masked;                /* 1: what is zero in the model of init stays so */
    char distill[PATH_MAX];        /* the teacher; "": none */
    double distill_weight, distill_temperature; /* 0: the usual */
    char distill_on[8];                         /* "logits", "states", "both"; "": logits */
    char data[8];                               /* "text", "chat", "texts"; "": not given, text */
    char template_args[400];                    /* JSON; "": none */
    char base[64];                              /* --config, a name or a file's; "": not known */
    int32_t vocab_asked;                        /* 0: as it is */
    char init[PATH_MAX]; /* the model to start from, or that adapters are for; "": none */
    int32_t files;
    char *file[TRAIN_FILES_MAX]; /* "-": standard input, until train_folder_spool */
    uint64_t given;              /* bit i: --config said field i of the table */
} train_config;

/* From --config (a name, or a JSON file with any of the keys), then the other options. Prints what
 * is wrong; an exit code. */
int train_config_make(const train_options *asked, train_config *config);
/* What the options say, over what a config has; but for the length. */
int train_config_say(const train_options *asked, train_config *config);
/* Have both the same at a key? Their values as text, if not. */
bool train_config_same(const train_config *a, const train_config *b, const char *key,
                       char left[TRAIN_VALUE], char right[TRAIN_VALUE]);
/* The length of a head. */
int32_t train_config_head_dim(const train_config *config);
/* How long, from the options; after the context is known. A length in epochs, as runs with --init
 * have where no other is given, is known with config->windows only: until then steps are 0. */
int train_config_length(const train_options *asked, train_config *config);
/* Steps of so many epochs; config->windows is known. */
int64_t train_config_epochs(const train_config *config, double epochs);
/* The epochs that the steps are made of, if they are; 0: the steps were given, or are at a bound of
 * the default. The last step of the last epoch is filled up, so that the run has slightly more. */
double train_config_epochs_asked(const train_options *asked, const train_config *config);
/* Is the length the one that runs with --init have where none is given? */
bool train_config_length_usual(const train_options *asked, const train_config *config);
/* Is it that of a built-in config for new models, whatever the text is? */
bool train_config_length_fixed(const train_options *asked, const train_config *config);
/* One more file of text, by its whole path; "-" as it is. */
int train_config_add(const char *path, train_config *config);
int train_config_load(const char *path, train_config *config);
int train_config_save(const char *path, const train_config *config);
/* Is the file of JSON one that a run saved? */
bool train_config_is_run(const char *path);
/* What is said of adapters: whole, and with the alpha that is used. */
int train_config_lora(train_config *config);
/* Did --config say the key, by a name or in a file? */
bool train_config_given(const train_config *config, const char *key);
void train_config_fini(train_config *config);
/* "tiny, 5m, ..." */
const char *train_config_names(void);

typedef struct train_point {
    int64_t step;
    double loss;
} train_point;

/* Of conversations, while the tokens are made. */
typedef struct train_chat {
    uint64_t conversations, unanswered;
    char first_unanswered[PATH_MAX + 64]; /* "FILE, line 3" */
    bool said;                            /* why it failed */
} train_chat;

/* What the picture shows: at most TRAIN_CURVE points, thinned evenly as a run goes on. */
typedef struct train_curve {
    train_point point[TRAIN_CURVE];
    int count, every, skipped;
} train_curve;

/* The first losses of a run and the last ones, the newest at (count - 1) % TRAIN_MEAN. */
enum { TRAIN_MEAN = 20 };
typedef struct train_losses {
    double first[TRAIN_MEAN], last[TRAIN_MEAN];
    int64_t count;
} train_losses;

/* Of --adapt. */
typedef struct train_adapting {
    mnem_adapt plan;
    double macs;         /* of a step, when run.seconds was reckoned */
    double seconds, cpu; /* of the steps that are timed */
    int steps;           /* that were; -1: the first isn't */
    bool said;           /* the first answer is, also where nothing changes */
} train_adapting;

typedef struct train_run {
    const tool_args *args;
    const train_options *asked;
    train_config config;
    const char *out;
    char staging[PATH_MAX]; /* where what a run begins with is made; "": the run has begun */
    bool made;              /* the folder wasn't there before */
    int32_t spooled;        /* 1 + which file is what came from standard input; 0: none */
    mnem_ledger *ledger;
    tool_recording recording;
    bool budget_chosen;
    mnem_device *device;
    mnem_model *vocabulary; /* vocabulary.gguf */
    mnem_model *base;       /* of --init, until its weights are read */
    mnem_model *teacher;    /* of --distill, as long; or longer, if it is streamed */
    mnem_tokenizer *tokenizer;
    mnem_corpus *corpus;
    mnem_corpus_info corpus_info;
    mnem_windows training, validation;
    bool context_open; /* not given: it may become one that fits the text */
    int64_t warmup;    /* before the length was known */
    train_chat chat;
    uint64_t chat_tokens, chat_counted; /* that sequences hold; of them, of answers */
    int32_t chat_sample[TRAIN_CHAT_SAMPLE], chat_sample_count; /* what samples continue */
    mnem_train_options options;
    mnem_train_plan plan;
    uint64_t f32_bytes;   /* that f32 activations need, which the budget hasn't got; 0: they fit, or
                           * a type was said */
    double seconds;       /* expected of a step; 0: not known */
    int64_t steps_before; /* that the checkpoint of --resume has */
    uint64_t text_bytes;  /* the process's peak before the plan: vocabulary and tokens */
    mnem_trainer *trainer;
    mnem_block memory; /* of feeds */
    mnem_feed *feed;
    mnem_sampler *sampler;
    float *logits;
    int32_t logits_count; /* of the model: at least the tokenizer's vocabulary */
    train_curve training_curve, validation_curve;
    train_losses losses;
    FILE *log;
    bool log_gap;  /* a line couldn't be written, and that was said */
    bool undrawn;  /* the same of the picture */
    bool finished; /* all steps are done and the result is written */
    train_adapting adapt;
    int64_t steps_done; /* by this process after the first, and their seconds */
    double seconds_done, cpu_done;
    tool_load_times load; /* when the command began; then when its steps began */
    double others;        /* share of the processors that others had before the steps; 0: none, or
                           * not known */
    double seconds_all;   /* of all steps of this process, the first too; 0: there was none */
    double loss_last;     /* of the last step that had one; curves may not have it */
    double loss_validation;
    int64_t validated; /* the step of it; 0: none */
} train_run;

/* ---- train_folder.c. Exit codes. ---- */
/* out/name, or where it is made until the run has begun; static storage of eight paths in turn. */
const char *train_path(const train_run *run, const char *name);
/* Makes and locks the folder; of --dry-run a passing one. */
int train_folder_open(train_run *run);
/* "-" among the config's files is read into the folder. */
int train_folder_spool(train_run *run);
/* The run has begun: config.json and what it needs appear in the folder. */
int train_folder_keep(train_run *run);
/* Has the disk room for the checkpoints and the result? Asked before the weights are read. */
int train_folder_room(const train_run *run);
/* What a run made that didn't begin is taken away. */
void train_folder_close(train_run *run);

/* ---- train_resume.c ---- */
/* Is an operand of --resume the run's folder, and no text? */
bool train_resume_is_folder(const char *path);
/* The folder that the command line means. */
const char *train_resume_folder(const train_options *asked);
/* May the run that was loaded go on with what the options say? Its length becomes theirs. */
int train_resume_check(train_run *run);
/* Says what to do with a folder that holds a run; an exit code. */
int train_resume_say(const train_run *run);

/* ---- data/train_data.c. Exit codes. ---- */
bool train_is_chat(const train_run *run);
bool train_is_documents(const train_run *run); /* train_documents.c */
enum { TRAIN_DATA_NAME = 240 };
/* What files of JSON are: "JSON lines of messages"; "": text. */
void train_data_name(const train_run *run, char text[TRAIN_DATA_NAME]);
/* Looks whether the files are conversations or documents; config.data says it then. */
int train_data_kind(train_run *run);
/* A file's text, to free. */
int train_template_read(const char *path, char **text);
/* The template for conversations where it isn't the model's own (NULL then), to free. */
int train_template_find(const train_run *run, char **text);

/* ---- data/train_chat.c ---- */
/* What samples continue, in tokens; an exit code. */
int train_chat_sample(train_run *run);

/* ---- train_fit.c ---- */
/* Chooses the windows, with a context that fits the text where none was given; reports what is cut.
 * An exit code. */
int train_fit(train_run *run);

/* ---- train_init.c ---- */
/* The config's shape becomes that of the model of --init; an exit code. */
int train_init_shape(train_run *run);

/* ---- train_teacher.c. Exit codes. ---- */
int train_teacher_say(const train_options *asked, train_config *config);
int train_teacher_config(train_config *config);
int train_teacher_open(train_run *run); /* and sees that its vocabulary is that of --init */
void train_teacher_options(train_run *run);
mnem_status train_teacher_load(train_run *run); /* and closes it, unless it is streamed */
void train_teacher_close(train_run *run);

/* ---- train_sample.c ---- */
/* Neither --quiet nor an empty --sample was given. */
bool train_sample_wanted(const train_run *run);
/* A line on standard error, where it is wanted. */
mnem_status train_sample(train_run *run);
/* Tokens that run for one, or take as long. */
uint64_t train_sample_tokens(const train_run *run);

/* ---- train_instead.c ---- */
/* After a refusal: says which options would fit. text_bytes: of io, for a text that isn't read. */
void train_instead_say(train_run *run, uint64_t text_bytes);

/* ---- train_look.c ---- */
/* Work of unknown length between steps: a line on a terminal, elsewhere one now and then. */
typedef struct train_slow {
    tool_progress progress;
    const char *what;
    double said; /* clock */
    bool quiet;
} train_slow;
void train_slow_begin(const train_run *run, train_slow *slow, const char *what);
void train_slow_step(train_slow *slow, uint64_t done, uint64_t all, const char *unit);
void train_slow_end(train_slow *slow);
/* Does a look follow the step? The end looks for itself; a stop doesn't. */
bool train_wants_look(const train_run *run, uint64_t step);
/* The loss of held-out text and a sample, unless this step has them. */
mnem_status train_look(train_run *run);
/* Does --stop-after end the run before its last step? */
bool train_stops_before(const train_run *run);
/* Steps that the run, or this part of it, has still to do; 0 where their number isn't known. */
int64_t train_steps_left(const train_run *run);
/* Predicted seconds of these; zeros: not known. */
typedef struct train_times {
    int64_t looks, samples, saves; /* how many */
    double look, sample, save;     /* of each */
    double steps, all;             /* of the steps, and of all */
} train_times;
train_times train_times_of(const train_run *run);
enum { TRAIN_TIMES = 240 };
char *train_times_text(const train_times *times, char text[TRAIN_TIMES]); /* returns text */

/* ---- data/train_text.c: vocabulary, tokens, batches. Exit codes. ---- */
int train_vocabulary_make(train_run *run); /* writes vocabulary.gguf: learned, or of --init */
int train_text_open(train_run *run);       /* tokenizer, corpus, windows */
uint64_t train_feed_bytes(const train_run *run, int32_t rows);
/* Feeds use one memory in turn. end 0: none. */
mnem_status train_feed_start(train_run *run, const mnem_windows *windows, uint64_t first,
                             uint64_t end);
mnem_status train_feed_next(void *context, mnem_train_batch *batch); /* a mnem_train_source's */
void train_feed_stop(train_run *run);
/* The memory of feeds, behind it a row of logits; given back it is room for the result's writer. */
mnem_status train_feed_take(train_run *run);
void train_feed_give(train_run *run);
/* What a checkpoint says of the text: its position means the same only in the same tokens. */
void train_text_note(const train_run *run, char note[TRAIN_NOTE]);
void train_text_close(train_run *run);

/* ---- train_budget.c ---- */
uint64_t train_budget(const train_run *run); /* 0: none was given */
mnem_schedule train_schedule(const train_config *config);
uint64_t train_file_bytes(const train_run *run);
/* options, from the config alone. */
void train_plan_options(train_run *run);
/* Before the text is read, and with it; exit codes. */
int train_plan_early(train_run *run);
int train_plan(train_run *run);

/* ---- train_others.c ---- */
/* For --dry-run: what other budgets would buy, and as JSON the plan, on standard output; an exit
 * code. */
int train_plan_ways(train_run *run);

/* ---- train_diverged.c ---- */
typedef struct train_means {
    double first, last, bound;
    int steps; /* of each mean */
} train_means;
/* Has the loss risen far above its start? means may be NULL. */
bool train_diverged(const train_run *run, train_means *means);
/* Says so, and what is kept; the exit code. */
int train_diverged_say(const train_run *run);
/* Of a finished run: is the held-out loss a number? An exit code. */
int train_finite_check(const train_run *run);

/* ---- train_loop.c ---- */
/* All steps that are left, and the result; an exit code. */
int train_loop(train_run *run);

/* ---- train_result.c ---- */
const char *train_result_path(const train_run *run);
/* The checkpoint, and what the run leaves: whole or as it was, and a second signal, which ends the
 * process at once, leaves no part beside it. */
mnem_status train_result_save(train_run *run);
mnem_status train_result_write(train_run *run);
/* The object that ends a stream of --json; what: the name of the path in it. */
json_t *train_result_json(const train_run *run, const char *what, const char *path, int64_t step);
void train_result_say(const train_run *run, int64_t step);
void train_result_say_use(const train_run *run); /* what the result is for */
/* A run to resume that has nothing left to do: is it, and what is said then; an exit code. */
bool train_result_is_whole(const train_run *run);
int train_result_say_whole(train_run *run);
/* --export: what it excludes; whether there is a checkpoint; the result of the trainer's weights.
 * Exit codes. */
int train_export_check(const train_run *run);
int train_export_find(const train_run *run);
int train_export(train_run *run);

/* ---- train_adapt.c ---- */
void train_adapt_begin(train_run *run);
/* After a step of so long. *changed: the trainer is another one, and the feed is gone. */
mnem_status train_adapt_step(train_run *run, double seconds, double cpu_seconds, bool *changed);

/* ---- train_ranks.c ---- */
int32_t train_ranks(void); /* how many; 1: alone */
bool train_follows(void);  /* is this one that leaves folder and words to rank 0? */
/* What several ranks can't do; a usage. */
int train_ranks_check(const train_run *run);
void train_ranks_options(train_run *run);
/* What rank 0 has there, all have then. */
mnem_status train_ranks_say(void *data, size_t bytes);
/* All of them are here; MNEM_OK where it was for all of them. */
mnem_status train_ranks_all(mnem_status status);
int train_ranks_text(const train_run *run);
void train_ranks_planned(const train_run *run);

/* ---- train_keep.c ---- */
void train_keep(const train_run *run); /* a line in the history */

/* ---- train_log.c ---- */
int train_log_open(train_run *run, int64_t steps);  /* lines past steps are dropped */
void train_log_read(train_run *run, int64_t steps); /* their points only; nothing is written */
void train_log_step(train_run *run, const mnem_train_report *report, double tokens_per_s);
void train_log_validation(train_run *run, int64_t step, double loss, double bits_per_byte);
void train_log_adapt(train_run *run, const char *what, const mnem_load *load, int32_t before,
                     int32_t micro_batch);
void train_log_close(train_run *run);
int train_draw(const train_run *run);

/* ---- train_report.c ---- */
/* A line or two before the steps, and one after; the plan for --dry-run, tables with --verbose. */
void train_report_start(FILE *file, const train_run *run);
void train_report_end(FILE *file, const train_run *run);
json_t *train_report_plan_json(const train_run *run);
/* The predicted peak of the whole run: of its steps, or of what was before them. */
uint64_t train_report_peak(const train_run *run);

#endif
