/* generate.h: generates text from tokens: a sequence, its sampler, and the stop texts.
 *
 * The sequence is a list of ids, whose tail the session may not have evaluated yet. A caller may
 * append (a prompt, a turn) and drop (old turns) freely; tool_generate evaluates the missing
 * ones. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_GENERATE_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_GENERATE_H

#include "verbs/run/constraint.h"

enum {
    TOOL_STOP_BYTES = 256,     /* longest --stop */
    TOOL_USUAL_CONTEXT = 4096, /* the largest context that a plan chooses by default */
};

typedef struct run_options {
    tool_args args;
    tool_session_asked session;
    mnem_sampler_options sampling;
    tool_texts breakers; /* of DRY */
    tool_texts biases;   /* ID+BIAS, ID-BIAS */
    bool ignore_end;
    tool_texts prompt;
    const char *file, *prompts, *system; /* prompts: a file of them */
    const char *prompt_cache;
    bool prompt_cache_ro;
    bool no_history, plain;
    tool_template_asked template;
    bool raw;
    int32_t tokens; /* 0: not given */
    tool_texts stop;
    tool_constraint_asked constraint;
    const char *draft;  /* "ngram", "off"; NULL: off */
    int32_t draft_most; /* tokens; 0: not given */
} run_options;
/* Options of run; plan accepts them, too. */
extern const tool_option tool_run_options[];

typedef enum tool_end {
    TOOL_END_LIMIT,       /* the token limit */
    TOOL_END_TOKEN,       /* an end token of the model */
    TOOL_END_STOP,        /* a --stop text */
    TOOL_END_CONTEXT,     /* the context is full */
    TOOL_END_INTERRUPTED, /* Ctrl-C */
    TOOL_END_CLOSED,      /* stdout was closed */
    TOOL_END_FAILED,      /* mnem_last_error has the reason */
    TOOL_END_GRAMMAR,     /* the text is complete, and nothing can follow */
} tool_end;
const char *tool_end_text(tool_end end);

/* --prompt-cache: the evaluated beginning of a text, for the next run (prompt_cache.h). */
typedef struct tool_prompt_cache {
    bool looked;    /* the file was looked for, which happens once */
    bool saved;     /* saved, or there is nothing new to save */
    bool at_end;    /* the caller saves at the end; false: saved behind the first prompt */
    int32_t tokens; /* number of tokens loaded from it */
} tool_prompt_cache;

/* A pass with a draft (drafting.h). */
typedef struct tool_round {
    int32_t ids[1 + MNEM_DRAFT_MOST]; /* the last token, and the draft */
    int32_t n, row;                   /* of ids; the next row to choose from */
    int32_t taken;                    /* tokens of the draft */
    bool ended;                       /* the text has, inside of the draft: end */
    tool_end end;
} tool_round;

typedef struct tool_generator {
    tool_stage *stage;
    const run_options *asked;
    mnem_sampler *sampler;
    tool_constraint constraint; /* opened and closed by the caller */
    mnem_draft *draft;          /* NULL: none; created when the first text is generated */
    bool draft_missed;          /* none was planned, which was said */
    tool_round round;           /* of the last pass with a draft */
    tool_prompt_cache cache;
    mnem_sampler_options sampling; /* the sampler's, with its seed */
    int32_t *ids;                  /* [room], charged to host "sequence" */
    int32_t count, room;
    int32_t next; /* the token chosen from the last logits; -1: none */
    int32_t end;  /* a further token that ends a text, beside the tokenizer's; -1: none */
    bool chosen;  /* the last id was chosen in this answer; the sampler hasn't seen it yet */
    bool answers; /* the text is an answer, which the model ends */
    /* Called when the context is full: frees space by dropping ids and truncating the session;
     * false: impossible. NULL: stop. */
    bool (*on_full)(void *context);
    /* Receives the printed text; NULL: no callback. */
    void (*on_text)(void *context, const char *text, size_t length);
    void *context;
    /* text */
    mnem_utf8_joiner joiner;
    char held[4096]; /* text that may be the beginning of a stop text */
    size_t held_bytes;
    bool newline; /* the last written character was a line end */
    bool mute;    /* search text for stop texts without printing it */
    uint64_t text_bytes;
    /* results */
    mnem_status status; /* of TOOL_END_FAILED */
    uint64_t prompt_tokens, tokens, decoded;
    double seconds_prompt, seconds_decode;
    double cpu_prompt, cpu_decode; /* processor time of all threads */
} tool_generator;

/* room: largest length of the sequence, in tokens. Call it before the plan, which includes its
 * bytes. Returns an exit code; prints the error. */
int tool_generator_open(tool_stage *stage, const run_options *asked, int32_t room,
                        tool_generator *g);
/* The same without a sampler, which the caller provides. */
int tool_generator_prepare(tool_stage *stage, const run_options *asked, int32_t room,
                           tool_generator *g);
void tool_generator_close(tool_generator *g);
/* Reads --logit-bias; returns an exit code, prints the error. */
int tool_biases_read(const char *verb, const run_options *asked);
/* The requested sampling, with the biases that were read; without --seed the seed is random. */
mnem_sampler_options tool_generator_sampling(const tool_stage *stage, const run_options *asked);
/* Replaces the sampler; on failure prints the error and keeps the old one. */
int tool_generator_resample(tool_generator *g, const mnem_sampler_options *sampling);
/* Appends to the sequence; false: it is full. */
bool tool_generator_add(tool_generator *g, const int32_t *ids, size_t n);
/* Replaces the first `until` ids; the session keeps those up to the first difference. false: the
 * sequence is full. */
bool tool_generator_replace(tool_generator *g, int32_t until, const int32_t *ids, size_t n);
/* Passes the tokens from `from` on to the sampler, and which of them the answer chose, and to the
 * drafter. */
void tool_generator_accept(tool_generator *g, int32_t from);
/* Prints and appends the chosen token. false: the text has ended. */
bool tool_generator_take(tool_generator *g, tool_end *end);
/* Repeats the conversion to text, from the start, of the tokens from `from` on and of `last`,
 * which isn't among them (-1: none). Held text stays held. */
void tool_generator_say(tool_generator *g, int32_t from, int32_t last);
/* Ends a text: prints held text, unless a stop text ended it. */
void tool_generator_flush(tool_generator *g, tool_end end);
/* Evaluates the missing tokens, then generates and prints up to limit tokens. */
tool_end tool_generate(tool_generator *g, int32_t limit);
/* Prints a message if a grammar's text was cut, or the text is empty. before: text_bytes at the
 * beginning. */
void tool_generator_say_empty(const tool_generator *g, tool_end end, uint64_t before);
/* Tokens per second of decoding, and of prompts; 0: unknown. */
double tool_generator_rate(const tool_generator *g);
double tool_generator_prompt_rate(const tool_generator *g);
void tool_generator_report(FILE *file, const tool_generator *g);
/* Adds the run to the history, unless it evaluated nothing. */
void tool_generator_keep(const tool_generator *g);
/* Prints a summary of the run (--verbose: ledger and speed as tables); nothing with --quiet or
 * --json. */
void tool_generator_end(FILE *file, const tool_generator *g);

#endif
