/* generate.h: tokens in, text out: a sequence, its sampler, and the stop texts.
 *
 * The sequence is kept as ids; what the session hasn't evaluated yet is its tail, so that a caller
 * may append (a prompt, a turn) and drop (old turns) freely, and tool_generate catches up. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_GENERATE_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_GENERATE_H

#include "verbs/run/constraint.h"

enum {
    TOOL_STOP_BYTES = 256,     /* longest --stop */
    TOOL_USUAL_CONTEXT = 4096, /* most that a plan chooses by itself */
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
} run_options;
/* run's own: plan takes them too. */
extern const tool_option tool_run_options[];

typedef enum tool_end {
    TOOL_END_LIMIT,       /* as many tokens as asked for */
    TOOL_END_TOKEN,       /* the model ended */
    TOOL_END_STOP,        /* a --stop text */
    TOOL_END_CONTEXT,     /* the context is full */
    TOOL_END_INTERRUPTED, /* Ctrl-C */
    TOOL_END_CLOSED,      /* nobody reads stdout */
    TOOL_END_FAILED,      /* the last error says why */
    TOOL_END_GRAMMAR,     /* the text is whole, and nothing can follow */
} tool_end;
const char *tool_end_text(tool_end end);

/* --prompt-cache: what a text began with, for the next run (prompt_cache.h). */
typedef struct tool_prompt_cache {
    bool looked;    /* whether something is there: once */
    bool saved;     /* or there is nothing new to save */
    bool at_end;    /* saved by the caller, at the end of all; else behind the first prompt */
    int32_t tokens; /* that came from it */
} tool_prompt_cache;

typedef struct tool_generator {
    tool_stage *stage;
    const run_options *asked;
    mnem_sampler *sampler;
    tool_constraint constraint; /* opened and closed apart from the sequence */
    tool_prompt_cache cache;
    mnem_sampler_options sampling; /* the sampler's, with its seed */
    int32_t *ids;                  /* [room], charged to host "sequence" */
    int32_t count, room;
    int32_t next; /* the token chosen from the last logits; -1: none */
    int32_t end;  /* one more token that ends a text; -1: only the tokenizer's */
    bool chosen;  /* the last of ids, by this answer; the sampler hasn't been told it */
    bool answers; /* the text is an answer, which ends by itself */
    /* Called when the context is full: makes room by dropping from ids and truncating the session;
     * false: there is none to make. NULL: stop. */
    bool (*on_full)(void *context);
    /* Gets the text that is printed; NULL: nobody wants it. */
    void (*on_text)(void *context, const char *text, size_t length);
    void *context;
    /* text */
    mnem_utf8_joiner joiner;
    char held[4096]; /* what may be the beginning of a stop text */
    size_t held_bytes;
    bool newline; /* the last character written was one */
    bool mute;    /* text is looked through for stops, and not printed */
    uint64_t text_bytes;
    /* what was done */
    mnem_status status; /* of TOOL_END_FAILED */
    uint64_t prompt_tokens, tokens, decoded;
    double seconds_prompt, seconds_decode;
    double cpu_prompt, cpu_decode; /* of all threads */
} tool_generator;

/* room: the most tokens that will ever be in the sequence. Exit code, with its message printed.
 * Before the plan, so that its bytes are in it. */
int tool_generator_open(tool_stage *stage, const run_options *asked, int32_t room,
                        tool_generator *g);
/* The same without a sampler, which the caller has. */
int tool_generator_prepare(tool_stage *stage, const run_options *asked, int32_t room,
                           tool_generator *g);
void tool_generator_close(tool_generator *g);
/* Reads --logit-bias; exit code, with the message printed. */
int tool_biases_read(const char *verb, const run_options *asked);
/* What was asked for, with the biases that were read; the seed is a random one where none was. */
mnem_sampler_options tool_generator_sampling(const tool_stage *stage, const run_options *asked);
/* Another sampler from here on; on a failure, with its message printed, the one before goes on. */
int tool_generator_resample(tool_generator *g, const mnem_sampler_options *sampling);
/* Appends to the sequence; false when there is no room in it. */
bool tool_generator_add(tool_generator *g, const int32_t *ids, size_t n);
/* Puts other ids in place of the first `until`, and keeps what the session has of them, up to where
 * they differ. false when there is no room. */
bool tool_generator_replace(tool_generator *g, int32_t until, const int32_t *ids, size_t n);
/* Tells the sampler the tokens from `from` on, and which one the answer chose. */
void tool_generator_accept(tool_generator *g, int32_t from);
/* Takes the token that was chosen: prints it and appends it. false: that was the end. */
bool tool_generator_take(tool_generator *g, tool_end *end);
/* Makes text again, as though none had been looked at, of tokens from `from` on, and of one more
 * that was taken last and isn't among them (last; -1: none). What is held of it stays held. */
void tool_generator_say(tool_generator *g, int32_t from, int32_t last);
/* The end of a text: what was held is text after all, unless a stop ended it. */
void tool_generator_flush(tool_generator *g, tool_end end);
/* Evaluates what isn't yet, then generates and prints up to limit tokens. */
tool_end tool_generate(tool_generator *g, int32_t limit);
/* Messages where a grammar's text was cut, or an end came before any text. before: text_bytes when
 * it began. */
void tool_generator_say_empty(const tool_generator *g, tool_end end, uint64_t before);
/* Tokens per second of decoding, and of prompts; 0: none yet. */
double tool_generator_rate(const tool_generator *g);
double tool_generator_prompt_rate(const tool_generator *g);
void tool_generator_report(FILE *file, const tool_generator *g);
/* Adds the run to the history, unless nothing was done. */
void tool_generator_keep(const tool_generator *g);
/* What a run did, in a line (--verbose: ledger and speed as tables), but with --quiet or --json. */
void tool_generator_end(FILE *file, const tool_generator *g);

#endif
