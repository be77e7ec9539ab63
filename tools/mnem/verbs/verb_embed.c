/* verb_embed.c: `mnem embed`: texts to vectors of numbers that are near where the texts are.
 *
 * All texts become tokens first, so that the plan knows the longest; then they run in groups, and
 * each group is written before the next one runs. What is kept (ids, a group's embeddings) is
 * charged before the plan. */
#include <stdlib.h>
#include <string.h>

#include "ranks/ranks.h"
#include "stage.h"

enum { TOGETHER = 8 }; /* texts of a pass of an encoder, whose pages are those of one layer */

typedef struct embed_options {
    tool_args args;
    tool_session_asked session;
    const char *file;
    tool_texts prompt;
    int32_t pooling; /* mnem_pooling */
    bool raw;
} embed_options;

typedef struct embed {
    tool_stage *stage;
    const embed_options *o;
    mnem_embed_text *text; /* ids NULL until all are there: they may move */
    int32_t count, operands;
    int32_t *ids;
    size_t ids_count, ids_room;
    uint64_t taken; /* bytes charged for these */
    int32_t group;  /* texts that run together */
    float *out;     /* [group][embd] */
    mnem_engine *engine;
} embed;

/* ---- texts ---- */

static const char *file_name(const embed *e) {
    return strcmp(e->o->file, "-") == 0 ? "standard input" : e->o->file;
}

/* "FILE:3", or "text 2" of the command line. */
static const char *name_of(const embed *e, int32_t index, char name[256]) {
    if (index < e->operands)
        snprintf(name, 256, "text %d", index + 1);
    else
        snprintf(name, 256, "%.200s:%d", file_name(e), index - e->operands + 1);
    return name;
}

/* Memory until the end, charged: it is part of the plan. NULL has said why. */
static void *grow_charged(embed *e, void *old, size_t old_bytes, size_t bytes) {
    const mnem_status status =
        mnem_ledger_charge(e->stage->ledger, MNEM_KIND_HOST, "texts", bytes - old_bytes);
    void *made = status == MNEM_OK ? realloc(old, bytes) : NULL;
    if (status != MNEM_OK)
        tool_fail(status);
    else if (!made)
        tool_failed("out of memory for the texts: end other programs, or give fewer texts");
    if (status == MNEM_OK) e->taken += bytes - old_bytes;
    return made;
}

static int add_text(embed *e, const char *bytes, size_t length) {
    const int32_t *ids;
    size_t n;
    char name[256];
    const mnem_status status =
        mnem_tokenizer_encode(e->stage->tokenizer, bytes, length, 0, &ids, &n);
    if (status != MNEM_OK) return tool_fail(status);
    if (n == 0 || n > INT32_MAX)
        return tool_failed("can't embed %s, because it has %s: leave this text out",
                           name_of(e, e->count, name), n ? "too many tokens" : "no tokens");
    if (e->ids_count + n > e->ids_room) {
        const size_t room = 2 * (e->ids_count + n), unit = sizeof *e->ids;
        int32_t *more = grow_charged(e, e->ids, e->ids_room * unit, room * unit);
        if (!more) return TOOL_FAILED;
        e->ids = more;
        e->ids_room = room;
    }
    memcpy(e->ids + e->ids_count, ids, n * sizeof *ids);
    e->ids_count += n;
    e->text[e->count++].n = (int32_t)n;
    return TOOL_OK;
}

/* Lines of a text; the last may lack its end. */
static int32_t count_lines(const char *text, size_t bytes) {
    int32_t lines = 0;
    for (size_t i = 0; i < bytes; i++) lines += text[i] == '\n';
    return lines + (bytes > 0 && text[bytes - 1] != '\n');
}

static int add_lines(embed *e) {
    const char *text = e->stage->prompt.text, *end = text + e->stage->prompt.bytes;
    int code = TOOL_OK;
    while (text < end && code == TOOL_OK) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        if (!stop) stop = end;
        const size_t length = (size_t)(stop - text) - (stop > text && stop[-1] == '\r');
        code = tool_interrupted() ? TOOL_INTERRUPTED : add_text(e, text, length);
        text = stop + 1;
    }
    return code;
}

static int read_texts(embed *e) {
    const tool_args *args = e->stage->args;
    int code = TOOL_OK;
    e->operands = args->operands - 1 + e->o->prompt.count;
    if (e->o->file) code = tool_stage_read(e->stage, e->o->file);
    if (code != TOOL_OK) return code;
    const int32_t all = e->operands + count_lines(e->stage->prompt.text, e->stage->prompt.bytes);
    if (all == 0)
        return tool_failed("%s has no text to embed; it needs one text on each line", file_name(e));
    e->text = grow_charged(e, NULL, 0, (size_t)all * sizeof *e->text);
    if (!e->text) return TOOL_FAILED;
    for (int32_t i = 0; i < e->operands && code == TOOL_OK; i++) {
        const int32_t more = i - (args->operands - 1);
        const char *text = more < 0 ? args->operand[i + 1] : e->o->prompt.text[more];
        code = add_text(e, text, strlen(text));
    }
    if (code == TOOL_OK) code = add_lines(e);
    const int32_t *ids = e->ids;
    for (int32_t i = 0; i < e->count; ids += e->text[i++].n) e->text[i].ids = ids;
    return code;
}

/* ---- plan ---- */

static int check_longest(const embed *e, int32_t index) {
    const mnem_transformer *t = &e->stage->transformer;
    const int32_t n = e->text[index].n, asked = e->o->session.context;
    char name[256];
    if (n > t->context)
        return tool_failed("%s has %d tokens, but %s takes at most %d: split it into shorter texts",
                           name_of(e, index, name), n, t->architecture, t->context);
    if (asked && n > asked)
        return tool_usage("embed",
                          "%s has %d tokens, more than the context that --ctx sets: use --ctx %d, "
                          "or leave out --ctx",
                          name_of(e, index, name), n, n);
    return TOOL_OK;
}

/* The context is the longest text's, and what comes out has its place. */
static int set_options(embed *e) {
    const mnem_transformer *t = &e->stage->transformer;
    int32_t longest = 0;
    for (int32_t i = 1; i < e->count; i++)
        if (e->text[i].n > e->text[longest].n) longest = i;
    const int code = check_longest(e, longest);
    if (code != TOOL_OK) return code;
    if (!e->o->session.context) e->stage->options.context = e->text[longest].n;
    e->group = !t->encoder ? 1 : e->count < TOGETHER ? e->count : TOGETHER;
    e->stage->options.sequences = e->group;
    e->stage->options.logits_rows = 1;
    e->out = grow_charged(e, NULL, 0, (size_t)e->group * (size_t)t->embd * sizeof *e->out);
    return e->out ? TOOL_OK : TOOL_FAILED;
}

static int check_pooling(const tool_stage *stage, const embed_options *o) {
    if (o->pooling || stage->transformer.pooling) return TOOL_OK;
    return tool_usage("embed",
                      "the model file does not say how to pool the embeddings of %s: add --pooling "
                      "last or --pooling mean",
                      stage->transformer.architecture);
}

/* As many texts together as the budget has pages for: a group's, or one's. */
static int plan(embed *e) {
    tool_stage *s = e->stage;
    if (e->group > 1 && mnem_engine_plan_make(s->model, &s->options, &s->plan) == MNEM_OVER_BUDGET)
        s->options.sequences = e->group = 1;
    return tool_stage_plan(s);
}

static void cancel(void *engine) {
    mnem_engine_cancel(engine);
}

static int create(embed *e) {
    tool_stage *s = e->stage;
    tool_progress progress;
    tool_progress_begin(&progress, "loading");
    s->options.progress = (mnem_progress){tool_progress_tell, &progress};
    const mnem_status status = mnem_engine_create(s->model, &s->options, &s->plan, &e->engine);
    tool_progress_end(&progress);
    if (status != MNEM_OK) return tool_fail(status);
    tool_interrupt_call(cancel, e->engine);
    tool_ranks_joined();
    return TOOL_OK;
}

/* ---- what comes out ---- */

static void print(const embed *e, int32_t index, const float *x) {
    const int32_t n = e->stage->transformer.embd;
    if (!e->stage->args->json) {
        for (int32_t i = 0; i < n; i++) tool_outf(i ? " %.6g" : "%.6g", (double)x[i]);
        tool_out("\n", 1);
        return;
    }
    json_t *numbers = json_array();
    for (int32_t i = 0; numbers && i < n; i++)
        json_array_append_new(numbers, tool_json_real((double)x[i]));
    tool_out_json("embedding", json_pack("{s:i, s:i, s:o}", "text", index + 1, "tokens",
                                         e->text[index].n, "embedding", numbers));
}

static int embed_all(embed *e) {
    const mnem_embed_options options = {.pooling = (mnem_pooling)e->o->pooling, .raw = e->o->raw};
    tool_progress progress;
    mnem_status status = MNEM_OK;
    tool_progress_begin(&progress, "embedding");
    for (int32_t at = 0; at < e->count && status == MNEM_OK && !tool_out_closed();) {
        const int32_t left = e->count - at, n = left < e->group ? left : e->group;
        status = tool_interrupted()
                     ? MNEM_CANCELLED
                     : mnem_engine_embed(e->engine, e->text + at, n, &options, e->out);
        for (int32_t i = 0; i < n && status == MNEM_OK; i++)
            print(e, at + i, e->out + (int64_t)i * e->stage->transformer.embd);
        at += n;
        tool_progress_step(&progress, (uint64_t)at, (uint64_t)e->count, NULL);
    }
    tool_progress_end(&progress);
    return status == MNEM_OK ? tool_out_end() : tool_fail(status);
}

static int embed_texts(embed *e) {
    int code = check_pooling(e->stage, e->o);
    if (code == TOOL_OK) code = tool_stage_tokenizer(e->stage);
    if (code == TOOL_OK) code = read_texts(e);
    if (code == TOOL_OK) code = set_options(e);
    if (code == TOOL_OK) code = plan(e);
    if (code == TOOL_OK) tool_report_start(e->stage);
    if (code == TOOL_OK) code = create(e);
    return code == TOOL_OK ? embed_all(e) : code;
}

static int verb_embed(const tool_args *args) {
    static tool_stage stage;
    embed e = {.stage = &stage, .o = (const embed_options *)args};
    tool_interrupt_call(NULL, NULL);
    if (args->operands == 1 && !e.o->file && !e.o->prompt.count)
        return tool_usage("embed", "the text is missing: give TEXT, or -f FILE with one text on "
                                   "each line (- is standard input)");
    int code = tool_stage_open(args, &e.o->session, &stage);
    if (code == TOOL_OK && tool_ranks_follows()) return tool_stage_follow(&stage);
    if (code == TOOL_OK) code = embed_texts(&e);
    tool_interrupt_call(NULL, NULL);
    mnem_engine_destroy(e.engine);
    free(e.text);
    free(e.ids);
    free(e.out);
    if (e.taken) mnem_ledger_release(stage.ledger, MNEM_KIND_HOST, "texts", e.taken);
    tool_stage_close(&stage);
    return code;
}

/* ---- the command line ---- */

#define AT(field) offsetof(embed_options, field)
static const tool_option options[] = {
    TOOL_GROUP(tool_model_options, 0),
    {"prompt", 'p', "TEXT", TOOL_VALUE_LIST, AT(prompt), .most = TOOL_SPACES_MAX,
     .help = "a text, as the operand TEXT; may be given up to 32 times"},
    {"file", 'f', "FILE", TOOL_VALUE_TEXT, AT(file), .path = TOOL_PATH_READ,
     .help = "read a text from each line of a file, after those of the command line (- is standard "
             "input)"},
    {"pooling", 0, "HOW", TOOL_VALUE_CHOICE, AT(pooling), .choices = "file mean cls last",
     .help = "how the hidden states of a text's tokens become its embedding: their mean, the first "
             "one (cls) or the last (default: file, the pooling that the model file names)"},
    {"raw", 0, NULL, TOOL_VALUE_FLAG, AT(raw), .help = "don't normalize embeddings to length 1"},
    TOOL_GROUP(tool_memory_options, AT(session.memory)),
    TOOL_CTX_OPTION(AT(session.context), "as many as the longest text has"),
    TOOL_GROUP(tool_pass_options, AT(session)),
    TOOL_GROUP(tool_lora_options, AT(session)),
    TOOL_GROUP(tool_page_cache_options, AT(session)),
    TOOL_GROUP(tool_cut_options, AT(session)),
    TOOL_GROUP(tool_pre_options, AT(session.pre)),
    TOOL_JSON_OPTION("an object for each text, one per line"),
    TOOL_GROUP(tool_quiet_options, 0),
    TOOL_GROUP(tool_verbose_options, 0),
    {0},
};

static embed_options asked;
TOOL_VERB(
    embed, "MODEL [TEXT...]", 1, TOOL_OPERANDS_MAX, "compute the embeddings of texts",
    "Writes the embedding of each text, in order, as a line of numbers. The dot product of two\n"
    "lines is the cosine similarity of the two texts, at most 1. Encoders (bert, nomic-bert)\n"
    "are made for this. Any other model computes embeddings too, with --pooling last or mean.\n"
    "Each text must fit the context; without --ctx the context is as long as the longest text.\n",
    "mnem embed minilm.gguf 'a cat' 'a dog'  # print two lines of numbers\n"
    "mnem embed minilm.gguf -f lines.txt --json  # print an object for each line\n"
    "mnem embed llama.gguf --pooling last -f - --memory 2G < lines.txt  # stay inside 2 GiB\n");
