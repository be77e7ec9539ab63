/* options.c: the table of options, the table of environment variables, and the parser.
 *
 * The idea: a row says an option's names, its value, where it goes in tool_args, its bounds, the
 * verbs that take it and its help. Parsing, `mnem help`, the man page and completion read the same
 * rows. A letter may mean different things to different verbs, never to one. */
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define AT(field) offsetof(tool_args, field)
#define V(name)   (1u << TOOL_VERB_##name)
#define STEPS_MAX 1e15 /* far from where sums of int64_t overflow */
#define TYPES                                                                                      \
    "Q8_0 Q4_0 Q4_K_M F16 F32 BF16 Q4_1 Q5_0 Q5_1 Q4_K Q5_K Q6_K Q2_K Q3_K Q3_K_M IQ4_NL IQ4_XS "  \
    "MXFP4"
enum {
    SESSION =
        V(run) | V(plan) | V(graph) | V(bench) | V(perplexity), /* verbs that plan a session */
    TABLES =
        SESSION | V(info) | V(quantize) | V(merge) | V(train) | V(tokenize) | V(replay) | V(place),
};

const tool_option tool_options[] = {
    {"prompt", 'p', "TEXT", TOOL_VALUE_TEXT, AT(prompt), 0, 0, NULL, V(run),
     "the text to continue"},
    {"file", 'f', "FILE", TOOL_VALUE_TEXT, AT(file), 0, 0, NULL, V(run),
     "read the prompt from a file (- is standard input)"},
    {"system", 0, "TEXT", TOOL_VALUE_TEXT, AT(system), 0, 0, NULL, V(run),
     "chat: the instructions that stay when old turns are dropped"},
    {"memory", 'm', "SIZE", TOOL_VALUE_SIZE, AT(memory), 0, 0, NULL, SESSION | V(train),
     "the budget of the whole process, such as 512M or 2G (64M and 64MiB are 2^20 bytes each, 64MB "
     "is 10^6; default: 85 % of what is available)"},
    {"tokens", 'n', "N", TOOL_VALUE_COUNT, AT(tokens), 1, INT32_MAX, NULL, V(run),
     "generate at most N tokens (default: 256; a chat's answers end by themselves)"},
    {"ctx", 'c', "N", TOOL_VALUE_COUNT, AT(context), 1, INT32_MAX, NULL, SESSION,
     "context in tokens (default: the largest that fits, up to the model's and 4096)"},
    {"threads", 't', "N", TOOL_VALUE_COUNT, AT(threads), 1, MNEM_TEAM_MAX, NULL,
     SESSION | V(quantize) | V(merge) | V(train),
     "worker threads (default: the processors this process may use)"},
    {"kv", 0, "TYPE", TOOL_VALUE_CHOICE, AT(kv), 0, 0, "f16 q8_0 auto", SESSION,
     "type of the KV cache: f16, q8_0 (half the bytes) or auto (default: f16)"},
    {"chunk", 0, "N", TOOL_VALUE_COUNT, AT(chunk), 1, INT32_MAX, NULL, SESSION,
     "prompt tokens run together (default: the largest up to 512 that fits well)"},
    {"temp", 0, "X", TOOL_VALUE_REAL, AT(temperature), 0, 100, NULL, V(run),
     "temperature; 0 takes the likeliest token every time (default: 0.8)"},
    {"top-k", 0, "N", TOOL_VALUE_COUNT, AT(top_k), 0, INT32_MAX, NULL, V(run),
     "choose among the N likeliest tokens; 0 is off (default: 40)"},
    {"top-p", 0, "X", TOOL_VALUE_REAL, AT(top_p), 0, 1, NULL, V(run),
     "choose among the likeliest tokens that sum to X; 1 is off (default: 0.95)"},
    {"min-p", 0, "X", TOOL_VALUE_REAL, AT(min_p), 0, 1, NULL, V(run),
     "drop tokens less likely than X times the likeliest; 0 is off (default: 0.05)"},
    {"repeat-penalty", 0, "X", TOOL_VALUE_REAL, AT(repeat_penalty), 0.01, 100, NULL, V(run),
     "make recent tokens less likely by this factor; 1 is off (default: 1)"},
    {"seed", 's', "N", TOOL_VALUE_NUMBER, AT(seed), 0, 0, NULL, V(run),
     "seed of the sampler, for the same text again (default: random, and shown)"},
    {"stop", 0, "TEXT", TOOL_VALUE_LIST, AT(stop), 0, 0, NULL, V(run),
     "stop before this text; may be given up to 8 times"},
    {"page-cache", 0, NULL, TOOL_VALUE_FLAG, AT(page_cache), 0, 0, NULL, SESSION,
     "stream weights through the page cache: it may win where memory is plenty, and is outside the "
     "budget"},
    {"trace", 0, "FILE", TOOL_VALUE_TEXT, AT(trace), 0, 0, NULL, V(run),
     "write what was charged when, and the steps of the run, for Perfetto or chrome://tracing"},
    {"device", 0, "NAME", TOOL_VALUE_TEXT, AT(device), 0, 0, "host null", V(plan),
     "plan for another device: host, or null, which only pretends (default: host)"},
    {"capacity", 0, "SIZE", TOOL_VALUE_SIZE, AT(capacity), 0, 0, NULL, V(plan),
     "what the null device holds (default: 80G)"},
    {"devices", 0, "SIZES", TOOL_VALUE_TEXT, AT(devices), 0, 0, NULL, V(plan),
     "split the layers over devices that hold so much, such as 24G,24G,16G"},
    {"explain", 0, NULL, TOOL_VALUE_FLAG, AT(explain), 0, 0, NULL, V(plan),
     "show every way to run that no other beats in both bytes and speed, and what each gave up"},
    {"phase", 0, "NAME", TOOL_VALUE_CHOICE, AT(phase), 0, 0, "decode prefill train", V(graph),
     "the graph of one token (decode), of a chunk of a prompt (prefill) or of a step of training "
     "(train) (default: decode)"},
    {"svg", 0, "FILE", TOOL_VALUE_TEXT, AT(svg), 0, 0, NULL, V(plan),
     "draw the ways of --explain: bytes against speed"},
    {"svg", 0, "FILE", TOOL_VALUE_TEXT, AT(svg), 0, 0, NULL, V(graph),
     "draw it: the tensors over time"},
    {"capacity", 0, "SIZE", TOOL_VALUE_SIZE, AT(capacity), 0, 0, NULL, V(place),
     "what must be enough: stop at the first placement within it (default: as low as possible)"},
    {"space", 0, "SPACE", TOOL_VALUE_LIST, AT(space), 0, 0, NULL, V(place),
     "NAME, NAME=SIZE or NAME=SIZE:COST, up to 32 times: a space that buffers may be in, what it "
     "holds (default: no limit), and the cost of a byte and access there (default: 0 for the "
     "first, 1 more for each)"},
    {"time", 0, "S", TOOL_VALUE_REAL, AT(time_limit), 0.001, 1e6, NULL, V(place),
     "seconds to look for something better (default: 2)"},
    {"seed", 's', "N", TOOL_VALUE_NUMBER, AT(seed), 0, 0, NULL, V(place),
     "seed of the search (default: 0)"},
    {"out", 'o', "FILE", TOOL_VALUE_TEXT, AT(out), 0, 0, NULL, V(place),
     "write the table with offsets (- is standard output, without the report)"},
    {"svg", 0, "FILE", TOOL_VALUE_TEXT, AT(svg), 0, 0, NULL, V(place),
     "draw it: time to the right, offsets up"},
    {"pp", 'p', "N", TOOL_VALUE_COUNT, AT(prompt_tokens), 1, INT32_MAX, NULL, V(bench),
     "length of the prompt that is measured (default: 512)"},
    {"tg", 'n', "N", TOOL_VALUE_COUNT, AT(tokens), 1, INT32_MAX, NULL, V(bench),
     "number of generated tokens that is measured (default: 128)"},
    {"repeats", 'r', "N", TOOL_VALUE_COUNT, AT(repeats), 1, 1000, NULL, V(bench),
     "measure N times and show the best (default: 3)"},
    {"refresh", 0, NULL, TOOL_VALUE_FLAG, AT(refresh), 0, 0, NULL, V(bench),
     "measure the machine again, even if its profile is known"},
    {"type", 0, "TYPE", TOOL_VALUE_NAME, AT(type), 0, 0, TYPES, V(quantize),
     "what to write: Q8_0, Q4_0, Q4_K_M, F16, or one type for all matrices, such as Q6_K "
     "(required)"},
    {"out", 'o', "FILE", TOOL_VALUE_TEXT, AT(out), 0, 0, NULL, V(merge),
     "the model to write (required)"},
    {"type", 0, "TYPE", TOOL_VALUE_NAME, AT(type), 0, 0, "same " TYPES, V(merge),
     "type of merged tensors: F16, Q8_0, Q4_K_M, ..., or same: that of the model (default: F32 and "
     "BF16 stay, others become F16)"},
    {"scale", 0, "X", TOOL_VALUE_REAL, AT(scale), -1000, 1000, NULL, V(merge),
     "add X times what the adapter says (default: 1)"},
    {"tensors", 0, NULL, TOOL_VALUE_FLAG, AT(tensors), 0, 0, NULL, V(info),
     "list every tensor: type, shape and bytes"},
    {"keys", 0, NULL, TOOL_VALUE_FLAG, AT(keys), 0, 0, NULL, V(info), "list every key and value"},
    {"no-special", 0, NULL, TOOL_VALUE_FLAG, AT(no_special), 0, 0, NULL, V(tokenize),
     "add no begin or end token, whatever the file says"},
    {"plain", 0, NULL, TOOL_VALUE_FLAG, AT(plain), 0, 0, NULL, V(tokenize),
     "treat the texts of special tokens as plain text"},
    {"policy", 0, "NAMES", TOOL_VALUE_TEXT, AT(policy), 0, 0,
     "all mnem tlsf bucket buddy first-fit best-fit worst-fit bump pool granules pytorch",
     V(replay),
     "policies to compare, with commas between, or all; pictures show the first (default: "
     "mnem,tlsf,best-fit,pytorch)"},
    {"capacity", 0, "SIZE", TOOL_VALUE_SIZE, AT(capacity), 0, 0, NULL, V(replay),
     "replay within so much memory (default: as much as it takes)"},
    {"device", 0, "N", TOOL_VALUE_COUNT, AT(snapshot_device), 0, 4095, NULL, V(replay),
     "of a snapshot of several devices, the one to replay (default: with most events)"},
    {"align", 0, "SIZE", TOOL_VALUE_SIZE, AT(align), 0, 0, NULL, V(replay),
     "alignment of every block, a power of two (default: 256)"},
    {"segment", 0, "SIZE", TOOL_VALUE_SIZE, AT(segment), 0, 0, NULL, V(replay),
     "grow by so much (default: a 64th of the peak, as a power of two, at least 2 MiB)"},
    {"svg", 0, "FILE", TOOL_VALUE_TEXT, AT(svg), 0, 0, NULL, V(replay),
     "draw the memory map over time"},
    {"timeline", 0, NULL, TOOL_VALUE_FLAG, AT(timeline), 0, 0, NULL, V(replay),
     "show reserved and live bytes over time"},
    {"data", 'd', "FILE", TOOL_VALUE_TEXT, AT(data), 0, 0, NULL, V(train),
     "a text file to learn from, in UTF-8 (- is standard input); operands are further ones"},
    {"any-bytes", 0, NULL, TOOL_VALUE_FLAG, AT(any_bytes), 0, 0, NULL, V(train),
     "learn from files as they are, also where they don't look like text"},
    {"config", 'c', "NAME|FILE", TOOL_VALUE_TEXT, AT(config), 0, 0, "tiny 5m gpt2-10m gpt2-124m",
     V(train),
     "the model and how it is trained: tiny, 5m, gpt2-10m, gpt2-124m, or a JSON file (default: "
     "5m)"},
    {"out", 'o', "DIR", TOOL_VALUE_TEXT, AT(out), 0, 0, NULL, V(train),
     "the run's folder (default: mnem-train)"},
    {"resume", 0, NULL, TOOL_VALUE_FLAG, AT(resume), 0, 0, NULL, V(train),
     "go on with the run in the folder, from its last checkpoint"},
    {"init", 0, "MODEL", TOOL_VALUE_TEXT, AT(init), 0, 0, NULL, V(train),
     "start from this model's weights and vocabulary instead of random ones"},
    {"lora", 0, "R", TOOL_VALUE_COUNT, AT(lora), 1, 65536, NULL, V(train),
     "train low-rank adapters of this rank on the model of --init, which may be quantized and "
     "stays "
     "as it is"},
    {"lora-alpha", 0, "X", TOOL_VALUE_REAL, AT(lora_alpha), 0.001, 1e6, NULL, V(train),
     "weight of what adapters add: X / R (default: twice the rank)"},
    {"lora-targets", 0, "NAMES", TOOL_VALUE_TEXT, AT(lora_targets), 0, 0,
     "q k v qkv o gate up down", V(train),
     "which matrices of a layer get an adapter, with commas between, such as q,v (default: all)"},
    {"steps", 0, "N", TOOL_VALUE_NUMBER, AT(steps), 1, STEPS_MAX, NULL, V(train),
     "length of the run in steps; the learning rate falls to its floor at the end"},
    {"tokens", 'n', "N", TOOL_VALUE_NUMBER, AT(train_tokens), 1, STEPS_MAX, NULL, V(train),
     "length of the run in tokens"},
    {"time", 0, "S", TOOL_VALUE_REAL, AT(time_limit), 1, 1e8, NULL, V(train),
     "length of the run in seconds: the number of steps is set when the first ones were timed"},
    {"stop-after", 0, "N", TOOL_VALUE_NUMBER, AT(stop_after), 1, STEPS_MAX, NULL, V(train),
     "stop after step N with a checkpoint, as Ctrl-C does; --resume goes on"},
    {"save-every", 0, "N", TOOL_VALUE_NUMBER, AT(save_every), 1, STEPS_MAX, NULL, V(train),
     "steps between checkpoints (default: about a minute's)"},
    {"batch", 'b', "N", TOOL_VALUE_COUNT, AT(batch), 1, 1 << 20, NULL, V(train) | V(graph),
     "sequences of a step"},
    {"micro-batch", 0, "N", TOOL_VALUE_COUNT, AT(micro_batch), 1, 1 << 20, NULL,
     V(train) | V(graph),
     "of them run together; divides the batch (default: chosen under the budget)"},
    {"ctx", 0, "N", TOOL_VALUE_COUNT, AT(context), 1, 1 << 20, NULL, V(train),
     "tokens of a sequence, and the model's context"},
    {"vocab", 0, "N", TOOL_VALUE_COUNT, AT(vocab), 256, 1 << 20, NULL, V(train),
     "tokens of the vocabulary that is learned from the text; 256: bytes"},
    {"precision", 0, "TYPE", TOOL_VALUE_CHOICE, AT(precision), 0, 0, "auto f32 bf16 f16",
     V(train) | V(graph),
     "type of activations: f32, bf16 or f16 (half the bytes), or auto: f32 where it fits, else "
     "bf16 "
     "(default: auto)"},
    {"moments", 0, "TYPE", TOOL_VALUE_CHOICE, AT(moments), 0, 0, "f32 8bit", V(train) | V(graph),
     "type of the optimizer's moments: f32, or 8bit (a quarter of the bytes) (default: f32)"},
    {"rate", 0, "X", TOOL_VALUE_REAL, AT(rate), 0, 10, NULL, V(train), "highest learning rate"},
    {"dropout", 0, "P", TOOL_VALUE_REAL, AT(dropout), 0, 0.99, NULL, V(train) | V(graph),
     "leave out activations with this probability while training"},
    {"heldout", 0, "X", TOOL_VALUE_REAL, AT(heldout), 0, 0.9, NULL, V(train),
     "the last part of the text that is not learned from, but measured on (default: 0.03)"},
    {"seed", 's', "N", TOOL_VALUE_NUMBER, AT(seed), 0, 1e18, NULL, V(train),
     "seed of weights, order of text and dropout (default: 1)"},
    {"sample", 0, "TEXT", TOOL_VALUE_TEXT, AT(sample), 0, 0, NULL, V(train),
     "what samples continue (default: the beginning of the held-out text)"},
    {"dry-run", 0, NULL, TOOL_VALUE_FLAG, AT(dry_run), 0, 0, NULL, V(train),
     "show the plan and what other budgets would buy, and stop"},
    {"json", 0, NULL, TOOL_VALUE_FLAG, AT(json), 0, 0, NULL, TABLES,
     "JSON on standard output: one object, or one per line where it streams"},
    {"quiet", 'q', NULL, TOOL_VALUE_FLAG, AT(quiet), 0, 0, NULL,
     V(run) | V(bench) | V(perplexity) | V(train),
     "no plan, progress or ledger on standard error; errors are still shown"},
    {"help", 'h', NULL, TOOL_VALUE_FLAG, AT(help), 0, 0, NULL, ~0u, "show this help"},
};
const int tool_options_count = sizeof tool_options / sizeof tool_options[0];
_Static_assert(sizeof tool_options / sizeof tool_options[0] <= TOOL_OPTIONS_MAX, "tool_args.given");

const tool_variable tool_variables[] = {
    {"MNEM_MODEL", "the model that ships with mnem", "the model to use when none is named"},
    {"MNEM_MEMORY", "85 % of what is available", "the budget when --memory isn't given"},
    {"XDG_CACHE_HOME", "$HOME/.cache", "the machine profile is mnem/profile.json in it"},
    {"HOME", "none", "where .cache is, if XDG_CACHE_HOME isn't set"},
};
const int tool_variables_count = sizeof tool_variables / sizeof tool_variables[0];

const char *tool_env(const char *name) {
    for (int i = 0; i < tool_variables_count; i++) {
        if (strcmp(tool_variables[i].name, name) != 0) continue;
        const char *value = getenv(name);
        return value && *value ? value : NULL;
    }
    return NULL;
}

bool tool_given(const tool_args *args, const char *name) {
    for (int i = 0; i < tool_options_count; i++)
        if (args->given[i] && strcmp(tool_options[i].name, name) == 0) return true;
    return false;
}

/* The number of insertions, deletions and replacements between two short words. */
static int distance(const char *a, const char *b) {
    enum { LONGEST = 32 };
    size_t n = strlen(b);
    if (n >= LONGEST || strlen(a) >= LONGEST) return LONGEST;
    int row[LONGEST];
    for (size_t j = 0; j <= n; j++) row[j] = (int)j;
    for (size_t i = 0; a[i]; i++) {
        int diagonal = row[0];
        row[0] = (int)i + 1;
        for (size_t j = 0; j < n; j++) {
            int best = diagonal + (a[i] != b[j]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j + 1] + 1 < best) best = row[j + 1] + 1;
            diagonal = row[j + 1];
            row[j + 1] = best;
        }
    }
    return row[n];
}

/* A word that begins with the other is near, whatever its length ("mem", "memory"). */
static int unlikeness(const char *wrong, const char *right) {
    size_t n = strlen(wrong);
    if (n >= 3 && strncmp(wrong, right, n) == 0) return 0;
    return distance(wrong, right);
}

/* The unlikeness from which on a word isn't suggested: a short one would be like anything. */
static int farthest(const char *wrong) {
    return strlen(wrong) < 3 ? (int)strlen(wrong) : 3;
}

/* plan takes all of run's options, so that the command line of a run can be planned. */
static bool takes(tool_verb_id verb, const tool_option *o) {
    return (o->verbs >> verb & 1) || (verb == TOOL_VERB_plan && (o->verbs & V(run)));
}

static const char *nearest_option(tool_verb_id verb, const char *wrong) {
    const char *best = NULL;
    int least = farthest(wrong);
    for (int i = 0; i < tool_options_count; i++) {
        if (!takes(verb, &tool_options[i])) continue;
        int d = unlikeness(wrong, tool_options[i].name);
        if (d < least) least = d, best = tool_options[i].name;
    }
    return best;
}

static const char *nearest_verb(const char *wrong) {
    const char *best = NULL;
    int least = farthest(wrong);
    for (int i = 0; i < TOOL_VERBS; i++) {
        int d = unlikeness(wrong, tool_verbs[i].name);
        if (d < least) least = d, best = tool_verbs[i].name;
    }
    return best;
}

static const tool_option *find_long(tool_verb_id verb, const char *name, size_t length) {
    for (int i = 0; i < tool_options_count; i++) {
        const tool_option *o = &tool_options[i];
        if (takes(verb, o) && strncmp(o->name, name, length) == 0 && !o->name[length]) return o;
    }
    return NULL;
}

static const tool_option *find_letter(tool_verb_id verb, char letter) {
    for (int i = 0; i < tool_options_count; i++)
        if (takes(verb, &tool_options[i]) && tool_options[i].letter == letter)
            return &tool_options[i];
    return NULL;
}

static int set_count(const char *verb, const tool_option *o, const char *text, int32_t *out) {
    char *end;
    const long long n = strtoll(text, &end, 10); /* what overflows is beyond any bound, too */
    if (!*text || *end)
        return tool_usage(verb, "--%s takes a whole number, not \"%s\"", o->name, text);
    if ((double)n < o->least || (double)n > o->most)
        return tool_usage(verb, "--%s is %s; it must be %s %.0f", o->name, text,
                          (double)n < o->least ? "at least" : "at most",
                          (double)n < o->least ? o->least : o->most);
    *out = (int32_t)n;
    return TOOL_OK;
}

static int set_real(const char *verb, const tool_option *o, const char *text, double *out) {
    char *end;
    double x = strtod(text, &end);
    if (!*text || *end || !isfinite(x))
        return tool_usage(verb, "--%s takes a number, not \"%s\"", o->name, text);
    if (x < o->least || x > o->most)
        return tool_usage(verb, "--%s is %s; it must be from %g to %g", o->name, text, o->least,
                          o->most);
    *out = x;
    return TOOL_OK;
}

static int set_number(const char *verb, const tool_option *o, const char *text, uint64_t *out) {
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || (errno && o->most == 0))
        return tool_usage(verb, "--%s takes a whole number from 0 to 2^64 - 1, not \"%s\"", o->name,
                          text);
    if (o->most > 0 && (errno || (double)n < o->least || (double)n > o->most))
        return tool_usage(verb, "--%s is %s; it must be from %.0f to %.0f", o->name, text, o->least,
                          o->most);
    *out = n;
    return TOOL_OK;
}

static int set_size(const char *verb, const tool_option *o, const char *text, uint64_t *out) {
    if (mnem_size_parse(text, out) == MNEM_OK) return TOOL_OK;
    return tool_usage(verb, "--%s takes a size such as 512M or 2G, not \"%s\"", o->name, text);
}

/* Which word of the choices it is; -1: none. */
static int find_choice(const tool_option *o, const char *text, bool any_case) {
    const size_t n = strlen(text);
    int index = 0;
    for (const char *c = o->choices; c; index++) {
        const char *end = strchr(c, ' ');
        const size_t length = end ? (size_t)(end - c) : strlen(c);
        if (length == n && (any_case ? strncasecmp : strncmp)(c, text, n) == 0) return index;
        c = end ? end + 1 : NULL;
    }
    return -1;
}

static int set_choice(const char *verb, const tool_option *o, const char *text, int32_t *out) {
    *out = find_choice(o, text, false);
    if (*out >= 0) return TOOL_OK;
    return tool_usage(verb, "--%s takes one of: %s; not \"%s\"", o->name, o->choices, text);
}

static int set_name(const char *verb, const tool_option *o, const char *text, const char **out) {
    *out = text;
    if (find_choice(o, text, true) >= 0) return TOOL_OK;
    return tool_usage(verb, "--%s takes one of: %s; not \"%s\"", o->name, o->choices, text);
}

static int add_text(const char *verb, const tool_option *o, const char *text, tool_args *args) {
    const bool stop = o->offset == AT(stop);
    const char **list = stop ? args->stop : args->space;
    int *count = stop ? &args->stops : &args->spaces;
    const int most = stop ? TOOL_STOPS_MAX : TOOL_SPACES_MAX;
    if (!*text) return tool_usage(verb, "--%s takes a text that isn't empty", o->name);
    if (*count == most)
        return tool_usage(verb, "--%s may be given at most %d times", o->name, most);
    list[(*count)++] = text;
    return TOOL_OK;
}

static int set(const tool_option *o, const char *text, tool_args *args) {
    const char *verb = tool_verbs[args->verb].name;
    void *field = (char *)args + o->offset;
    if (args->given[o - tool_options] &&
        o->offset == AT(data)) /* the last would be learned alone */
        return tool_usage(verb, "--%s is given twice: further files are operands", o->name);
    args->given[o - tool_options] = true;
    switch (o->kind) {
    case TOOL_VALUE_FLAG: *(bool *)field = true; return TOOL_OK;
    case TOOL_VALUE_TEXT: *(const char **)field = text; return TOOL_OK;
    case TOOL_VALUE_SIZE: return set_size(verb, o, text, field);
    case TOOL_VALUE_COUNT: return set_count(verb, o, text, field);
    case TOOL_VALUE_NUMBER: return set_number(verb, o, text, field);
    case TOOL_VALUE_REAL: return set_real(verb, o, text, field);
    case TOOL_VALUE_CHOICE: return set_choice(verb, o, text, field);
    case TOOL_VALUE_NAME: return set_name(verb, o, text, field);
    case TOOL_VALUE_LIST: return add_text(verb, o, text, args);
    }
    return TOOL_FAILED;
}

static int unknown(const tool_args *args, const char *word, const char *name) {
    const char *verb = tool_verbs[args->verb].name, *near = nearest_option(args->verb, name);
    if (near) return tool_usage(verb, "no option %s; did you mean --%s?", word, near);
    return tool_usage(verb, "no option %s", word);
}

/* --name, --name=value or --name value; *taken: how many words it took. */
static int parse_long(char **word, tool_args *args, int *taken) {
    const char *name = word[0] + 2, *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const tool_option *o = find_long(args->verb, name, length);
    char shown[48];
    snprintf(shown, sizeof shown, "--%.*s", (int)(length < 40 ? length : 40), name);
    *taken = 1;
    if (!o) return unknown(args, shown, shown + 2);
    const char *verb = tool_verbs[args->verb].name;
    if (!o->value && equals) return tool_usage(verb, "--%s takes no value", o->name);
    if (!o->value || equals) return set(o, equals ? equals + 1 : NULL, args);
    if (!word[1]) return tool_usage(verb, "--%s needs a value: %s", o->name, o->value);
    *taken = 2;
    return set(o, word[1], args);
}

/* -n5, -n 5, or flags together: -qh. */
static int parse_letters(char **word, tool_args *args, int *taken) {
    *taken = 1;
    for (const char *c = word[0] + 1; *c; c++) {
        const tool_option *o = find_letter(args->verb, *c);
        const char shown[3] = {'-', *c, 0};
        /* A whole word after one dash is meant as a long option. */
        if (!o || (c == word[0] + 1 && c[1] && find_long(args->verb, c, strlen(c))))
            return unknown(args, c[1] ? word[0] : shown, word[0] + 1);
        if (o->value) {
            if (!c[1] && !word[1])
                return tool_usage(tool_verbs[args->verb].name, "-%c (--%s) needs a value: %s", *c,
                                  o->name, o->value);
            *taken = c[1] ? 1 : 2;
            return set(o, c[1] ? c + 1 : word[1], args);
        }
        int code = set(o, NULL, args);
        if (code != TOOL_OK) return code;
    }
    return TOOL_OK;
}

static int add_operand(char *word, tool_args *args) {
    const tool_verb *verb = &tool_verbs[args->verb];
    if (args->operands == verb->operands_max)
        return tool_usage(verb->name, "%s takes %s%s; \"%s\" is one too many", verb->name,
                          verb->operands_max ? "" : "no operands", verb->operands, word);
    args->operand[args->operands++] = word;
    return TOOL_OK;
}

static int parse_words(int count, char **words, tool_args *args) {
    bool options = true;
    for (int i = 0, taken; i < count; i += taken) {
        int code;
        taken = 1;
        if (options && strcmp(words[i], "--") == 0) {
            options = false;
            continue;
        }
        if (!options || words[i][0] != '-' || !words[i][1])
            code = add_operand(words[i], args);
        else if (words[i][1] == '-')
            code = parse_long(words + i, args, &taken);
        else
            code = parse_letters(words + i, args, &taken);
        if (code != TOOL_OK) return code;
    }
    return TOOL_OK;
}

static int find_verb(const char *word, tool_verb_id *verb) {
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) word = "help";
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) word = "version";
    for (int i = 0; i < TOOL_VERBS; i++) {
        *verb = (tool_verb_id)i;
        if (strcmp(word, tool_verbs[i].name) == 0) return TOOL_OK;
    }
    const char *near = nearest_verb(word);
    if (near) return tool_usage(NULL, "no verb \"%s\"; did you mean %s?", word, near);
    FILE *file = fopen(word, "rb");
    if (!file) return tool_usage(NULL, "no verb \"%s\"", word);
    fclose(file);
    return tool_usage(NULL, "\"%s\" is a file, not a verb; did you mean: mnem run %s", word, word);
}

static int defaults(tool_args *args) {
    mnem_sampler_options s = mnem_sampler_usual();
    args->temperature = (double)s.temperature;
    args->top_k = s.top_k;
    args->top_p = (double)s.top_p;
    args->min_p = (double)s.min_p;
    args->repeat_penalty = (double)s.repeat_penalty;
    args->device = "host";
    args->time_limit = 2;
    const char *memory = tool_env("MNEM_MEMORY");
    if (memory && mnem_size_parse(memory, &args->memory) != MNEM_OK)
        return tool_usage(NULL, "$MNEM_MEMORY is \"%s\", not a size such as 512M or 2G", memory);
    return TOOL_OK;
}

static tool_verb_id parsed_verb = TOOL_VERB_help;

const char *tool_verb_name(void) {
    return tool_verbs[parsed_verb].name;
}

int tool_parse(int argc, char **argv, tool_args *args) {
    *args = (tool_args){.verb = TOOL_VERB_help};
    if (argc < 2) {
        tool_help_overview(stderr);
        return TOOL_USAGE;
    }
    int code = find_verb(argv[1], &args->verb);
    parsed_verb = args->verb;
    if (code == TOOL_OK) code = defaults(args);
    if (code == TOOL_OK) code = parse_words(argc - 2, argv + 2, args);
    if (code != TOOL_OK || args->help) return code;
    const tool_verb *verb = &tool_verbs[args->verb];
    if (args->operands < verb->operands_min)
        return tool_usage(verb->name, "%s needs %s", verb->name, verb->operands);
    return TOOL_OK;
}
