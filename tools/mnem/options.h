/* options.h: options as rows of tables: each verb has its own, made of rows and of shared
 * groups.
 *
 * A verb has a struct that begins with tool_args, and a table of its options in the order of the
 * help. A row has an option's names, its kind of value, the field that it sets, and its help; a
 * group is another table, whose fields are in a struct inside the verb's. Parsing, help, the man
 * page and completion read the same rows.
 *
 *     typedef struct cut_options {
 *         tool_args args;
 *         int32_t threads;
 *         const char *out;
 *     } cut_options;
 *     static const tool_option options[] = {
 *         TOOL_GROUP(tool_threads_options, offsetof(cut_options, threads)),
 *         {"out", 'o', "FILE", TOOL_VALUE_TEXT, offsetof(cut_options, out), .help = "where to"},
 *         {0},
 *     };
 *     static cut_options asked;
 *     TOOL_VERB(cut, "FILE...", 1, 9, "cut files", "All about it.\n", "mnem cut a b  # both\n");
 * */
#ifndef MNEM_TOOLS_MNEM_OPTIONS_H
#define MNEM_TOOLS_MNEM_OPTIONS_H

#include <limits.h>

#include "tool.h"

typedef enum tool_value {
    TOOL_VALUE_FLAG,   /* bool */
    TOOL_VALUE_TEXT,   /* const char * */
    TOOL_VALUE_SIZE,   /* uint64_t bytes */
    TOOL_VALUE_BUDGET, /* uint64_t bytes; N%: of the available memory */
    TOOL_VALUE_COUNT,  /* int32_t within [least, most] */
    TOOL_VALUE_NUMBER, /* uint64_t, within [least, most] unless most is 0; with a least of -1,
                          the value -1 means "not given" */
    TOOL_VALUE_REAL,   /* double within [least, most] */
    TOOL_VALUE_FLOAT,  /* float within [least, most] */
    TOOL_VALUE_CHOICE, /* int32_t: the index of a word of choices */
    TOOL_VALUE_KV,     /* int32_t: a mnem_kv_choice */
    TOOL_VALUE_NAME,   /* const char *: a word of choices, in any case */
    TOOL_VALUE_LIST,   /* tool_texts: the option may be given up to `most` times */
} tool_value;

/* The use of the file that a text names; it is checked before the work (output_file.c). */
enum {
    TOOL_PATH_READ = 1,
    TOOL_PATH_WRITE = 2,
    TOOL_PATH_IN_PLACE = 4, /* it may be an input file; - is standard output */
    TOOL_PATH_PLAIN = 8,    /* devices are refused */
    TOOL_PATH_MODEL = 16,   /* a model: it may replace a model, but no other file */
};

struct tool_option {
    const char *name;
    char letter;       /* 0: none; a letter has one meaning in all verbs */
    const char *value; /* its placeholder in help; NULL: a flag */
    tool_value kind;
    size_t offset; /* offset of the field in the verb's or the group's struct */
    const char *help;
    const char
        *also; /* other tools' spellings, separated by spaces; also accepted after one dash */
    double least, most;
    const char *choices; /* words separated by spaces; for TEXT used by completion only */
    const char *once;    /* the reason why it can't be given twice; NULL: the last one counts */
    unsigned path;       /* TOOL_PATH_*; 0: not a file */
    const tool_option *group; /* the row stands for this table */
    bool hidden;              /* accepted, but not shown in the verb's help */
    bool empty;               /* a text of a LIST may be "" */
    bool last;                /* an operand behind the verb's last one is its value, too */
};
#define TOOL_GROUP(table, at)                                                                      \
    { .group = (table), .offset = (at) }
#define TOOL_GROUP_TAKEN(table, at)                                                                \
    { .group = (table), .offset = (at), .hidden = true }

/* Defines the verb of a file: verb_NAME with its `options`, the struct `asked` that they set, and
 * its texts (tool_verb.about). `set` sets defaults that aren't constants. */
#define TOOL_VERB_WITH(verb, set, ...)                                                             \
    const tool_verb tool_verb_##verb = {                                                           \
        #verb, {__VA_ARGS__}, options, (tool_args *)&asked, verb_##verb, set}
#define TOOL_VERB(verb, ...) TOOL_VERB_WITH(verb, NULL, __VA_ARGS__)

/* Gets option `index` of a verb, with groups expanded and offsets relative to its struct; --help is
 * the last one. false: there are fewer. */
bool tool_option_get(const tool_verb *verb, int index, tool_option *option);
/* Checks a text as the value of the verb's option of this name (a NAME); prints the error. */
int tool_option_check(const tool_verb *verb, const char *name, const char *text);
/* The path given on the command line for an option that names a file; NULL: none was given. */
const char *tool_option_path(const tool_args *args, const tool_option *option);

/* ---- shared groups (option_groups.c) ---- */

/* Options of a session; 0 and NULL: not given. */
typedef struct tool_session_asked {
    uint64_t memory;
    int32_t context, threads, chunk;
    int32_t snapshot_tokens;
    int32_t kv; /* mnem_kv_choice */
    bool page_cache;
    tool_texts lora; /* FILE[:SCALE] */
    const char *trace;
    const char *pre;    /* the pre-tokenizer's name */
    const char *device; /* "host", "null" */
    uint64_t capacity;  /* of the null device */
    int32_t cut;        /* how ranks divide a model: 0: layers, 1: rows */
    const char *link;   /* between ranks: RATE,LATENCY */
} tool_session_asked;
extern const tool_option
    tool_session_options[]; /* all except trace, pre, device, capacity, which are: */
extern const tool_option tool_memory_options[]; /* a uint64_t */
extern const tool_option tool_model_options[];  /* tool_args.model */
extern const tool_option tool_shape_options[];  /* context, snapshots, and tool_pass_options */
extern const tool_option tool_pass_options[];   /* threads, KV and chunk */
/* A session's --ctx, with the verb's default. */
#define TOOL_CTX_OPTION(at, fallback)                                                              \
    {                                                                                              \
        "ctx", 'c', "N", TOOL_VALUE_COUNT, (at),                                                   \
            .least = 1, .most = INT32_MAX, .also = "ctx-size context n-ctx num-ctx max-model-len", \
            .help = "context length in tokens (default: " fallback ")"                             \
    }
extern const tool_option tool_page_cache_options[], tool_lora_options[];
extern const tool_option tool_pre_options[];                      /* a const char * */
extern const tool_option tool_cut_options[], tool_link_options[]; /* cut; link */
/* The list of budgets for ranks that --memory gave; NULL: it wasn't a list. */
const char *tool_budget_list(void);
/* Parses a size, a share of the available memory ("50%"), or a list for ranks. Returns an exit
 * code; prints the error. */
int tool_option_budget(const char *verb, const tool_option *option, const char *text,
                       uint64_t *bytes);
/* The same for a type of keys and values (option_words.c). */
int tool_option_kv(const char *verb, const tool_option *option, const char *text, int32_t *out);
/* The pair of types that an option of keys (-ctk) and one of values (-ctv), both other words for
 * this option, make together; NULL: they are no such two. before: NULL, or the first one's word. */
const char *tool_kv_pair(const tool_option *option, const char *before, const char *before_text,
                         const char *name, const char *text);
/* The budget of a rank in such a list: its own entry, or the last one. Returns an exit code. */
int tool_budget_of(const char *verb, const char *list, int32_t rank, uint64_t *bytes);

/* Options of a chat template; NULL: not given. */
typedef struct tool_template_asked {
    const char *file, *arguments; /* the second is JSON */
} tool_template_asked;
extern const tool_option tool_template_options[];

/* Words that quantize and merge accept for a type. */
#define TOOL_TYPES                                                                                 \
    "Q8_0 Q4_0 Q4_K_M F16 F32 BF16 Q4_1 Q5_0 Q5_1 Q4_K Q5_K Q6_K Q2_K Q3_K Q3_K_S Q3_K_M Q3_K_L "  \
    "IQ4_NL IQ4_XS MXFP4"
extern const tool_option tool_threads_options[];  /* an int32_t */
extern const tool_option tool_sampling_options[]; /* mnem_sampler_options */
extern const tool_option tool_breaker_options[];  /* tool_texts: tool_stage_breakers */

/* Options of training; 0: not given. */
typedef struct tool_training_asked {
    int32_t batch, micro_batch;
    int32_t precision, moments; /* auto f32 bf16 f16; f32 8bit */
    double dropout;
} tool_training_asked;
extern const tool_option tool_batch_options[], tool_types_options[], tool_dropout_options[];

extern const tool_option tool_quiet_options[], tool_verbose_options[], tool_help_options[];
extern const tool_option tool_quiet_progress_options[]; /* for verbs without a plan */
/* A verb's --json; `what`: the objects that it writes. */
#define TOOL_JSON_OPTION(what)                                                                     \
    {                                                                                              \
        "json", 0, NULL, TOOL_VALUE_FLAG, offsetof(tool_args, json),                               \
            .help = "write JSON to standard output: " what                                         \
    }

/* ---- words of other tools (option_words.c) ---- */

/* Whether the word of n bytes is one of `words`, separated by spaces (NULL: no words). */
bool tool_has_word(const char *words, const char *word, size_t n);
/* Whether the word of so many bytes is the option's name or one of its other spellings. '_'
 * counts as '-'. */
bool tool_option_named(const tool_option *option, const char *word, size_t length);
/* Whether it is one of the other spellings. */
bool tool_option_also(const tool_option *option, const char *word, size_t length);
/* The verb's option (or another spelling of it) that is most similar to a wrong word; NULL: none is
 * similar. Static storage. */
const char *tool_near_option(const tool_verb *verb, const char *wrong);
/* Whether the whole word is one typing error away from an option: -memry isn't -m emry. */
bool tool_near_slip(const tool_verb *verb, const char *word);
const char *tool_near_verb(const char *wrong);
/* Handles an option of another tool that has no meaning here: prints why it is ignored, or, if
 * ignoring it would change the result, returns wrong usage. all: the whole command line. *taken:
 * the number of words consumed; 0: the option is unknown. */
int tool_foreign_option(const char *verb, char *const *words, char *const *all, int *taken);
/* The equivalent of another tool's verb: a verb, or advice; NULL: unknown. */
const char *tool_foreign_verb(const char *word);

/* ---- names of models and adapters (model_name.c) ---- */

/* The path of an adapter: adapter.gguf if the name is the folder of a training run, else the name.
 * A training run without an adapter is wrong usage. */
int tool_adapter_path(const char *verb, const char *name, char path[PATH_MAX]);
/* TOOL_OK if the name may be a path of a model (opening reports a missing file). A name that
 * can't be a path of one (llama3.2, hf.co/..., 2G) is wrong usage; the message says what to do. */
int tool_check_model(const char *verb, const char *name);

/* ---- the environment ---- */

typedef struct tool_variable {
    const char *name, *fallback, *help;
} tool_variable;
extern const tool_variable tool_variables[];
extern const int tool_variables_count;

void tool_help_overview(FILE *file);
void tool_help_verb(FILE *file, const tool_verb *verb);

#endif
