/* train_tool.h: a training run of `mnem train`, shared by the files of that verb.
 *
 * A run lives in a folder:
 *     config.json      shape, text, steps; written once, read by --resume
 *     vocabulary.gguf  the tokenizer
 *     tokens           the text as tokens
 *     checkpoint       weights, moments and the position in the text
 *     log.jsonl        a line for each report
 *     loss.svg         the curve
 *     model.gguf       the result, written at the end (adapter.gguf with --lora)
 *     text             the text of standard input, if that was read
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
/* Steps are exact as doubles, and sums don't overflow int64_t; seeds and bytes fit a JSON
 * integer. */
#define TRAIN_STEPS_MAX  1e15
#define TRAIN_NUMBER_MAX 1e18
#define TRAIN_EPOCHS_MAX 1e6
/* Time between checkpoints, unless --save-every gives steps. */
#define TRAIN_SAVE_SECONDS 60
/* Defaults of options. */
#define TRAIN_DISTILL_WEIGHT      0.5
#define TRAIN_DISTILL_TEMPERATURE 2.0

typedef struct train_options {
    tool_args args;
    uint64_t memory; /* 0: not given, as for all numbers except rates */
    int32_t threads;
    tool_training_asked training;
    tool_template_asked template;
    const char *data, *config, *out, *init, *lora_targets, *distill, *sample;
    int32_t lora, context, vocab, distill_on, shard; /* the last two: index of a word */
    int32_t batch_each, accumulate;
    double lora_alpha, distill_weight, distill_temperature, seconds, epochs, rate, heldout;
    double weight_decay, clip;
    uint64_t steps, tokens, stop_after, save_every, seed, warmup;
    const char *trace, *export; /* export: the output file; NULL: a training */
    bool any_bytes, resume, dry_run, masked, no_history, adapt;
} train_options;

/* The contents of config.json, whose keys are the names of the fields. */
typedef struct train_config {
    char architecture[16];
    int32_t layers, embd, heads, kv_heads, ff, vocab, context;
    int32_t head_dim; /* 0: embd / heads, as in old files */
    double epsilon, rope_base;
    int32_t batch;
    int64_t steps;   /* 0: as many as fit the time, not known yet */
    double time;     /* seconds; 0: the steps decide */
    double epochs;   /* passes over the training text, from which steps follow; 0: not given */
    int64_t windows; /* windows of an epoch; 0: not known yet */
    double rate, rate_floor, weight_decay, dropout, clip, heldout;
    int64_t warmup;
    uint64_t seed;
    uint64_t memory;               /* the budget, for --resume; 0: none was given */
    char precision[8], moments[8]; /* "f32", "bf16", "f16"; "f32", "8bit" */
    char pre[16];                  /* the vocabulary's pre-tokenizer: "gpt-2" */
    char name[64], license[64];    /* for model.gguf; "": the folder's name, none */
    int32_t lora;                  /* rank of adapters; 0: all weights are trained */
    double lora_alpha;             /* 0: twice the rank, set by train_config_lora */
    char lora_targets[40];         /* "": all */
    int32_t masked;                /* 1: weights that are zero in the model of init stay zero */
    char distill[PATH_MAX];        /* the teacher; "": none */
    double distill_weight, distill_temperature; /* 0: the default */
    char distill_on[8];                         /* "logits", "states", "both"; "": logits */
    char data[8];                               /* "text", "chat", "texts"; "": not given, text */
    char template_args[400];                    /* JSON; "": none */
    char base[64];       /* the value of --config, a name or a file; "": unknown */
    int32_t vocab_asked; /* the requested size, if vocab differs from it; or 0 */
    char init[PATH_MAX]; /* the model to start from, or that adapters are for; "": none */
    int32_t files;
    char *file[TRAIN_FILES_MAX]; /* "-": standard input, until train_folder_spool */
    uint64_t given;              /* bit i: --config gave field i of the table */
} train_config;

/* Makes a config from --config (a name, or a JSON file with any of the keys), then from the other
 * options. Returns an exit code; prints the error. */
int train_config_make(const train_options *asked, train_config *config);
/* Overrides a config with the options, except for the length. */
int train_config_say(const train_options *asked, train_config *config);
/* Whether both have the same value of a key; if not, gets the values as text. */
bool train_config_same(const train_config *a, const train_config *b, const char *key,
                       char left[TRAIN_VALUE], char right[TRAIN_VALUE]);
/* The dimension of a head. */
int32_t train_config_head_dim(const train_config *config);
/* Sets the length from the options, once the context is known. A length in epochs, which is the
 * default with --init, needs config->windows: until then steps is 0. */
int train_config_length(const train_options *asked, train_config *config);
/* The steps of so many epochs; config->windows must be known. */
int64_t train_config_epochs(const train_config *config, double epochs);
/* The epochs from which the steps were computed; 0: the steps were given, or are at a bound of the
 * default. The run has slightly more epochs, because its last step is full. */
double train_config_epochs_asked(const train_options *asked, const train_config *config);
/* Whether the length is the default of runs with --init. */
bool train_config_length_usual(const train_options *asked, const train_config *config);
/* Whether it is that of a built-in config for new models, which doesn't depend on the text. */
bool train_config_length_fixed(const train_options *asked, const train_config *config);
/* Adds a file of text as an absolute path; "-" is kept. */
int train_config_add(const char *path, train_config *config);
int train_config_load(const char *path, train_config *config);
int train_config_save(const char *path, const train_config *config);
/* Whether a JSON file was saved by a run. */
bool train_config_is_run(const char *path);
/* Checks and completes the options of adapters, and sets the alpha in use. */
int train_config_lora(train_config *config);
/* Whether --config gave the key, by a name or in a file. */
bool train_config_given(const train_config *config, const char *key);
void train_config_fini(train_config *config);
/* "tiny, 5m, ..." */
const char *train_config_names(void);

typedef struct train_point {
    int64_t step;
    double loss;
} train_point;

/* Numbers about conversations, collected while the tokens are made. */
typedef struct train_chat {
    uint64_t conversations, unanswered;
    char first_unanswered[PATH_MAX + 64]; /* "FILE, line 3" */
    bool said;                            /* the error was printed */
} train_chat;

/* The picture's curve: at most TRAIN_CURVE points, thinned evenly as a run continues. */
typedef struct train_curve {
    train_point point[TRAIN_CURVE];
    int count, every, skipped;
} train_curve;

/* The first and the last losses of a run, the newest at (count - 1) % TRAIN_MEAN. */
enum { TRAIN_MEAN = 20 };
typedef struct train_losses {
    double first[TRAIN_MEAN], last[TRAIN_MEAN];
    int64_t count;
} train_losses;

/* State of --adapt. */
typedef struct train_adapting {
    mnem_adapt plan;
    double macs;         /* multiply-adds of a step for which run.seconds was computed */
    double seconds, cpu; /* of the timed steps */
    int steps;           /* number of timed steps; -1: the next one isn't timed */
    bool said;           /* the first decision was printed, even if nothing changes */
} train_adapting;

typedef struct train_run {
    const tool_args *args;
    const train_options *asked;
    train_config config;
    const char *out;
    char staging[PATH_MAX]; /* folder of a run's first files; "": the run has begun */
    bool made;              /* this run created the folder */
    int32_t spooled;        /* 1 + index of the file that holds standard input; 0: none */
    mnem_ledger *ledger;
    tool_recording recording;
    bool budget_chosen;
    mnem_device *device;
    mnem_model *vocabulary; /* vocabulary.gguf */
    mnem_model *base;       /* the model of --init, until its weights are read */
    mnem_model *teacher;    /* the model of --distill, likewise; to the end if it is streamed */
    mnem_tokenizer *tokenizer;
    mnem_corpus *corpus;
    mnem_corpus_info corpus_info;
    mnem_windows training, validation;
    bool context_open; /* no context was given: it may be fitted to the text */
    int64_t warmup;    /* the warm-up before the length was known */
    train_chat chat;
    uint64_t chat_tokens, chat_counted; /* tokens in sequences; those of them in answers */
    int32_t chat_sample[TRAIN_CHAT_SAMPLE], chat_sample_count; /* tokens that samples continue */
    mnem_train_options options;
    mnem_train_plan plan;
    uint64_t f32_bytes; /* need of f32 activations, if above the budget; 0: they fit, or a type was
                           * given */
    double seconds;     /* predicted time of a step; 0: unknown */
    int64_t steps_before; /* steps in the checkpoint of --resume */
    uint64_t text_bytes;  /* the process's peak before the plan: vocabulary and tokens */
    mnem_trainer *trainer;
    mnem_block memory; /* memory of feeds */
    mnem_feed *feed;
    mnem_sampler *sampler;
    float *logits;
    int32_t logits_count; /* logits of the model: at least the size of the tokenizer's vocabulary */
    train_curve training_curve, validation_curve;
    train_losses losses;
    FILE *log;
    bool log_gap;  /* a line couldn't be written, and the error was printed */
    bool undrawn;  /* the same for the picture */
    bool finished; /* all steps are done and the result is written */
    train_adapting adapt;
    int64_t steps_done; /* steps of this process after the first one, and their seconds */
    double seconds_done, cpu_done;
    tool_load_times load; /* at the command's start; later at the start of its steps */
    double others;        /* part of the processors' time that other programs used before the steps;
                           * 0: none, or unknown */
    double seconds_all;   /* of all steps of this process, including the first; 0: none yet */
    double loss_last;     /* of the last step with a loss; the curve may lack it */
    double loss_validation;
    int64_t validated; /* the last validated step; 0: none */
} train_run;

/* ---- train_folder.c. Exit codes. ---- */
/* out/name, or a path in the staging folder until the run has begun; static storage for eight
 * paths. */
const char *train_path(const train_run *run, const char *name);
/* Creates and locks the folder; with --dry-run a temporary one. */
int train_folder_open(train_run *run);
/* Copies standard input, the file "-" of the config, into the folder. */
int train_folder_spool(train_run *run);
/* Begins the run: moves config.json and its other files into the folder. */
int train_folder_keep(train_run *run);
/* Checks that the disk has space for the checkpoints and the result; before the weights are
 * read. */
int train_folder_room(const train_run *run);
/* Removes the files of a run that didn't begin. */
void train_folder_close(train_run *run);

/* ---- train_resume.c ---- */
/* Whether an operand of --resume is the run's folder, not a text. */
bool train_resume_is_folder(const char *path);
/* The folder given on the command line. */
const char *train_resume_folder(const train_options *asked);
/* Checks that the loaded run can continue with the options, and sets the length that they give. */
int train_resume_check(train_run *run);
/* Prints what to do with a folder that holds a run; returns an exit code. */
int train_resume_say(const train_run *run);

/* ---- data/train_data.c. Exit codes. ---- */
bool train_is_chat(const train_run *run);
bool train_is_documents(const train_run *run); /* train_documents.c */
enum { TRAIN_DATA_NAME = 240 };
/* The format of JSON files: "JSON lines of messages"; "": text. */
void train_data_name(const train_run *run, char text[TRAIN_DATA_NAME]);
/* Detects whether the files are conversations or documents, and sets config.data. */
int train_data_kind(train_run *run);
/* Reads a file; the caller frees the text. */
int train_template_read(const char *path, char **text);
/* The template for conversations; NULL: the model's own. The caller frees it. */
int train_template_find(const train_run *run, char **text);

/* ---- data/train_chat.c ---- */
/* Sets the tokens that samples continue; returns an exit code. */
int train_chat_sample(train_run *run);

/* ---- train_fit.c ---- */
/* Chooses the windows, and a context that fits the text if none was given; reports dropped text.
 * Returns an exit code. */
int train_fit(train_run *run);

/* ---- train_init.c ---- */
/* Sets the config's shape to that of the model of --init; returns an exit code. */
int train_init_shape(train_run *run);

/* ---- train_teacher.c. Exit codes. ---- */
int train_teacher_say(const train_options *asked, train_config *config);
int train_teacher_config(train_config *config);
int train_teacher_open(train_run *run); /* and checks that its vocabulary is that of --init */
void train_teacher_options(train_run *run);
mnem_status train_teacher_load(train_run *run); /* and closes it, unless it is streamed */
void train_teacher_close(train_run *run);

/* ---- train_sample.c ---- */
/* Neither --quiet nor an empty --sample was given. */
bool train_sample_wanted(const train_run *run);
/* Prints a sample on standard error, if wanted. */
mnem_status train_sample(train_run *run);
/* The time of a sample, as a number of tokens. */
uint64_t train_sample_tokens(const train_run *run);

/* ---- train_instead.c ---- */
/* After a refusal: prints which options would fit. text_bytes: of io, if the text wasn't read. */
void train_instead_say(train_run *run, uint64_t text_bytes);

/* ---- train_look.c ---- */
/* Progress of work of unknown length between steps: a line on a terminal, else lines at
 * intervals. */
typedef struct train_slow {
    tool_progress progress;
    const char *what;
    double said; /* time of the last line */
    bool quiet;
} train_slow;
void train_slow_begin(const train_run *run, train_slow *slow, const char *what);
void train_slow_step(train_slow *slow, uint64_t done, uint64_t all, const char *unit);
void train_slow_end(train_slow *slow);
/* Whether train_look is due after the step. The end of a run calls it, too; a stop doesn't. */
bool train_wants_look(const train_run *run, uint64_t step);
/* Computes the loss of held-out text and prints a sample, unless this step has them. */
mnem_status train_look(train_run *run);
/* Whether --stop-after ends the run before its last step. */
bool train_stops_before(const train_run *run);
/* The remaining steps of the run, or of this part of it; 0: unknown. */
int64_t train_steps_left(const train_run *run);
/* Predicted seconds; zeros: unknown. */
typedef struct train_times {
    int64_t looks, samples, saves; /* numbers of them */
    double look, sample, save;     /* seconds of each */
    double steps, all;             /* seconds of the steps, and of everything */
} train_times;
train_times train_times_of(const train_run *run);
enum { TRAIN_TIMES = 240 };
char *train_times_text(const train_times *times, char text[TRAIN_TIMES]); /* returns text */

/* ---- data/train_text.c: vocabulary, tokens, batches. Exit codes. ---- */
int train_vocabulary_make(train_run *run); /* writes vocabulary.gguf: learned, or of --init */
int train_text_open(train_run *run);       /* tokenizer, corpus, windows */
uint64_t train_feed_bytes(const train_run *run, int32_t rows);
/* Starts a feed; all feeds use the same memory. end 0: no windows. */
mnem_status train_feed_start(train_run *run, const mnem_windows *windows, uint64_t first,
                             uint64_t end);
mnem_status train_feed_next(void *context,
                            mnem_train_batch *batch); /* the `next` of a mnem_train_source */
void train_feed_stop(train_run *run);
/* take allocates the memory of feeds and a row of logits; give frees it for the result's writer. */
mnem_status train_feed_take(train_run *run);
void train_feed_give(train_run *run);
/* Identifies the text in a checkpoint, whose position is valid for the same tokens only. */
void train_text_note(const train_run *run, char note[TRAIN_NOTE]);
void train_text_close(train_run *run);

/* ---- train_budget.c ---- */
uint64_t train_budget(const train_run *run); /* 0: not given */
mnem_schedule train_schedule(const train_config *config);
uint64_t train_file_bytes(const train_run *run);
/* Sets options, from the config alone. */
void train_plan_options(train_run *run);
/* Plans before the text is read, and with it; return exit codes. */
int train_plan_early(train_run *run);
int train_plan(train_run *run);

/* ---- train_others.c ---- */
/* For --dry-run: prints the ways of other budgets, or the plan as JSON, on standard output;
 * returns an exit code. */
int train_plan_ways(train_run *run);

/* ---- train_diverged.c ---- */
typedef struct train_means {
    double first, last, bound;
    int steps; /* number of steps of each mean */
} train_means;
/* Whether the loss has risen far above its start. means may be NULL. */
bool train_diverged(const train_run *run, train_means *means);
/* Prints that, and which files remain; returns the exit code. */
int train_diverged_say(const train_run *run);
/* Checks that the held-out loss of a finished run is finite; returns an exit code. */
int train_finite_check(const train_run *run);

/* ---- train_loop.c ---- */
/* Runs the remaining steps, and writes the result; returns an exit code. */
int train_loop(train_run *run);

/* ---- train_result.c ---- */
const char *train_result_path(const train_run *run);
/* Writes the checkpoint and the result, each completely or not at all; a second signal, which
 * ends the process at once, leaves no partial file. */
mnem_status train_result_save(train_run *run);
mnem_status train_result_write(train_run *run);
/* The last object of a --json stream; what: the key of the path in it. */
json_t *train_result_json(const train_run *run, const char *what, const char *path, int64_t step);
void train_result_say(const train_run *run, int64_t step);
void train_result_say_use(const train_run *run); /* prints how to use the result */
/* For --resume: whether the run is complete; and prints that, returning an exit code. */
bool train_result_is_whole(const train_run *run);
int train_result_say_whole(train_run *run);
/* --export: checks for excluded options, and for a checkpoint; writes the result from the trainer's
 * weights. Return exit codes. */
int train_export_check(const train_run *run);
int train_export_find(const train_run *run);
int train_export(train_run *run);

/* ---- train_adapt.c ---- */
void train_adapt_begin(train_run *run);
/* Call it after each step, with its times. *changed: the trainer was replaced, and the feed
 * closed. */
mnem_status train_adapt_step(train_run *run, double seconds, double cpu_seconds, bool *changed);

/* ---- train_ranks.c ---- */
int32_t train_ranks(void); /* number of ranks; 1: a single process */
bool train_follows(void);  /* a rank other than 0: it writes no files and prints nothing */
/* Refuses what several ranks don't support, as wrong usage. */
int train_ranks_check(const train_run *run);
void train_ranks_options(train_run *run);
/* Broadcasts rank 0's data to all ranks. */
mnem_status train_ranks_say(void *data, size_t bytes);
/* Waits for all ranks; MNEM_OK: all have MNEM_OK. */
mnem_status train_ranks_all(mnem_status status);
int train_ranks_text(const train_run *run);
void train_ranks_planned(const train_run *run);

/* ---- train_keep.c ---- */
void train_keep(const train_run *run); /* adds a line to the history */

/* ---- train_log.c ---- */
int train_log_open(train_run *run, int64_t steps);  /* drops lines behind `steps` */
void train_log_read(train_run *run, int64_t steps); /* reads points only, writes nothing */
void train_log_step(train_run *run, const mnem_train_report *report, double tokens_per_s);
void train_log_validation(train_run *run, int64_t step, double loss, double bits_per_byte);
void train_log_adapt(train_run *run, const char *what, const mnem_load *load, int32_t before,
                     int32_t micro_batch);
void train_log_close(train_run *run);
int train_draw(const train_run *run);

/* ---- train_report.c ---- */
/* Print a line or two before the steps, and one after; the plan for --dry-run, tables with
 * --verbose. */
void train_report_start(FILE *file, const train_run *run);
void train_report_end(FILE *file, const train_run *run);
json_t *train_report_plan_json(const train_run *run);
/* The predicted peak of the whole run: that of its steps, or that of the work before them. */
uint64_t train_report_peak(const train_run *run);

#endif
