/* option_words.c: words that people bring from other tools, and what each is here.
 *
 * The idea: what means the same is taken (an option's `also`, with '_' for '-'); what means nothing
 * here is passed over with one line that says why; what can't be done is refused with the way that
 * there is. So a command line from llama.cpp or ollama either works or says what to change. */
#include "options.h"

#include <limits.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* ---- spellings ---- */

static bool is_same(const char *name, const char *word, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (name[i] != (word[i] == '_' ? '-' : word[i])) return false;
    return !name[length] || name[length] == ' ';
}

static bool is_among(const char *names, const char *word, size_t length) {
    if (!length) return false;
    for (const char *name = names; name; name = strchr(name, ' ')) {
        name += *name == ' ';
        if (is_same(name, word, length)) return true;
    }
    return false;
}

bool tool_option_also(const tool_option *option, const char *word, size_t length) {
    return option->also && is_among(option->also, word, length);
}

bool tool_option_named(const tool_option *option, const char *word, size_t length) {
    return is_among(option->name, word, length) || tool_option_also(option, word, length);
}

/* ---- options that mean nothing here, or can't be had ---- */

typedef enum foreign_kind {
    NO_VALUE,
    A_VALUE,
    MAYBE_A_SWITCH,
    REFUSED, /* passed over, the run would be another than the one that is asked for */
} foreign_kind;

static const struct {
    const char *names;
    foreign_kind kind;
    const char *text;
} foreign_options[] = {
    {"ngl gpu-layers n-gpu-layers mg main-gpu sm split-mode ts tensor-split dev", A_VALUE,
     "there are no layers on a GPU; --memory says how much memory everything may take"},
    {"nkvo no-kv-offload cmoe cpu-moe", NO_VALUE, "everything is on the processor"},
    {"ncmoe n-cpu-moe ot override-tensor", A_VALUE, "everything is on the processor"},
    {"mlock", NO_VALUE, "weights inside --memory are read once and stay"},
    {"mmap no-mmap mmp", MAYBE_A_SWITCH,
     "weights are read into memory that is counted, never mapped"},
    {"fa flash-attn", MAYBE_A_SWITCH, "there is one attention, and its bytes are in the plan"},
    {"b batch-size", A_VALUE, "--chunk says how many tokens of a prompt run together"},
    {"tb threads-batch", A_VALUE, "--threads is for prompts, too"},
    {"cnv conversation i interactive", NO_VALUE, "without a prompt, run is a chat on a terminal"},
    {"st single-turn", NO_VALUE, "a prompt gets one answer"},
    {"jinja", NO_VALUE, "the model's own template always runs (--raw: none)"},
    {"e escape no-escape", NO_VALUE, "a prompt is taken as it is ($'a\\nb' is two lines to bash)"},
    {"color co", MAYBE_A_SWITCH, "NO_COLOR=1 in the environment turns colours off"},
    {"no-warmup no-display-prompt simple-io allow-requantize", NO_VALUE, "it is so anyway"},
    {"log-disable no-perf", NO_VALUE, "--quiet leaves the text alone"},
    {"verbose-prompt no-context-shift context-shift", NO_VALUE,
     "text and context are as they are: mnem tokenize shows a prompt's tokens"},
    {"numa prio prio-batch poll poll-batch keepalive", A_VALUE,
     "memory and threads are the plan's"},
    {"gpu-memory-utilization", A_VALUE,
     "there is no GPU; --memory 85% is a share of the memory that is available"},
    {"device", A_VALUE, "everything is on the processor"},
    {"dtype torch-dtype", A_VALUE,
     "weights keep the types of the file; mnem quantize writes others"},
    {"ignore-eos", REFUSED,
     "text ends at the model's end token; a request to mnem serve may have \"ignore_eos\": true"},
    {"logit-bias l", REFUSED, "a request to mnem serve may have \"logit_bias\": {\"ID\": BIAS}"},
    {"samplers sampler-seq sampling-seq", REFUSED,
     "the order is fixed: penalties, --top-k, --top-p, --min-p, --temp (--top-k 0, --top-p 1 and "
     "--min-p 0 turn one off)"},
    {"reasoning-budget think hidethinking", REFUSED,
     "thinking is the template's: --template-args '{\"enable_thinking\": false}' turns it off "
     "where the template has that variable"},
    {"override-kv", REFUSED,
     "the keys of the file are read as they are; --pretokenizer and --template replace two"},
    {"rope-freq-base rope-freq-scale rope-scale rope-scaling", REFUSED,
     "the file says how positions are encoded"},
    {"lora", REFUSED,
     "the adapter is the second operand of mnem merge MODEL ADAPTER --out FILE; mnem run and mnem "
     "serve take --lora"},
    {"hf hf-repo hfr hff hf-file mu model-url dr docker-repo", REFUSED,
     "mnem fetches nothing: hf download OWNER/NAME FILE.gguf --local-dir . does, and "
     "models/get_model NAME FOLDER a small model; then -m FILE.gguf"},
    {"o output", REFUSED, "results go to standard output; --json makes them JSON"},
    {"pg", REFUSED, "prompts and generation are measured apart: -p 512 -n 128"},
    {"chunks", REFUSED, "all of the text is measured; a shorter one takes less time"},
    {"imatrix", REFUSED, "mnem quantize and mnem prune take one"},
    {"mirostat mirostat-lr mirostat-ent typical tfs xtc-probability xtc-threshold dry-multiplier "
     "dynatemp-range",
     REFUSED, "what narrows the choice is --temp, --top-k, --top-p and --min-p"},
    {"presence-penalty frequency-penalty", REFUSED,
     "--repeat-penalty makes recent tokens less likely"},
    {"repeat-last-n", REFUSED, "--repeat-penalty looks at the last 64 tokens"},
    {"keep", REFUSED, "--system text stays when old turns are dropped"},
    {"chat-template", REFUSED,
     "the model's own template runs; --template FILE takes another, --raw none"},
    {"in-prefix in-suffix", REFUSED,
     "what stands around a turn is the template's: --template FILE"},
    {"format", REFUSED,
     "--json-schema FILE holds an answer to a schema, and --grammar to a grammar"},
    {"epochs num-train-epochs", REFUSED,
     "--steps or --tokens says how long; an epoch is the "
     "text's tokens"},
};

static bool is_switch(const char *word) {
    static const char *const words[] = {"on", "off", "auto", "0", "1"};
    for (size_t i = 0; word && i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i]) == 0) return true;
    return false;
}

int tool_foreign_option(const char *verb, char *const *words, int *taken) {
    const char *word = words[0] + strspn(words[0], "-");
    const size_t length = strcspn(word, "=");
    const int shown = (int)(word - words[0]) + (int)length;
    *taken = 0;
    for (size_t i = 0; i < sizeof foreign_options / sizeof *foreign_options; i++) {
        if (!is_among(foreign_options[i].names, word, length)) continue;
        const foreign_kind kind = foreign_options[i].kind;
        const char *text = foreign_options[i].text;
        *taken = 1;
        if (kind == REFUSED) return tool_usage(verb, "no option %.*s: %s", shown, words[0], text);
        tool_message("%.*s does nothing here: %s", shown, words[0], text);
        if (word[length]) return TOOL_OK;
        *taken += (kind == A_VALUE && words[1]) || (kind == MAYBE_A_SWITCH && is_switch(words[1]));
        return TOOL_OK;
    }
    return TOOL_OK;
}

/* ---- verbs ---- */

const char *tool_foreign_verb(const char *word) {
    static const struct {
        const char *words, *text;
    } verbs[] = {
        {"chat cli generate completion prompt main llama-cli llama-completion llama-simple",
         "did you mean: mnem run"},
        {"show inspect gguf llama-gguf", "did you mean: mnem info"},
        {"llama-bench", "did you mean: mnem bench"},
        {"llama-perplexity", "did you mean: mnem perplexity"},
        {"llama-quantize", "did you mean: mnem quantize"},
        {"llama-tokenize", "did you mean: mnem tokenize"},
        {"llama-embedding", "did you mean: mnem embed"},
        {"server llama-server", "did you mean: mnem serve"},
        {"embedding embeddings", "did you mean: mnem embed"},
        {"finetune fine-tune", "did you mean: mnem train --init MODEL"},
        {"ps", "did you mean: mnem top"},
        {"pull push list ls rm cp create stop",
         "models are files here, and none is fetched; mnem run FILE.gguf runs one"},
    };
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (is_among(verbs[i].words, word, strlen(word))) return verbs[i].text;
    return NULL;
}

/* ---- models ---- */

/* "OWNER/NAME" of hf.co/OWNER/NAME:TYPE, for the command that fetches it; an empty text: none. */
static void repository(const char *name, char *out, size_t n) {
    static const char *const before[] = {"https://", "hf.co/", "huggingface.co/"};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        if (strncasecmp(name, before[i], strlen(before[i])) == 0) name += strlen(before[i]);
    const char *slash = strchr(name, '/');
    const int length = (int)strcspn(name, ":");
    snprintf(out, n, "%.*s", slash ? length : 0, name);
}

static bool is_there(const char *folder, const char *name) {
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n < (int)sizeof path && access(path, F_OK) == 0;
}

/* A folder that `mnem train` made: the model is in it, or isn't there yet. */
static int check_run_folder(const char *verb, const char *name) {
    if (!is_there(name, "log.jsonl")) return TOOL_OK;
    if (is_there(name, "model.gguf"))
        return tool_usage(verb, "%s is the folder of a training; its model is %s/model.gguf", name,
                          name);
    if (is_there(name, "adapter.gguf"))
        return tool_usage(verb,
                          "%s is the folder of a training; its adapter is %s/adapter.gguf, for the "
                          "model that it was trained on: --lora",
                          name, name);
    return tool_usage(verb, "%s is a training that isn't finished: mnem train --resume %s", name,
                      name);
}

int tool_adapter_path(const char *verb, const char *name, char path[PATH_MAX]) {
    const bool folder = is_there(name, "adapter.gguf");
    snprintf(path, PATH_MAX, folder ? "%s/adapter.gguf" : "%s", name);
    if (folder || !is_there(name, "log.jsonl")) return TOOL_OK;
    if (is_there(name, "model.gguf"))
        return tool_usage(verb,
                          "%s is the folder of a training without --lora: it has no adapter, its "
                          "model is %s/model.gguf",
                          name, name);
    return tool_usage(verb,
                      "%s is a training that isn't finished, and has no adapter yet: mnem train "
                      "--resume %s",
                      name, name);
}

int tool_check_model(const char *verb, const char *name) {
    uint64_t bytes;
    char from[128];
    const int code = check_run_folder(verb, name);
    if (code != TOOL_OK) return code;
    if (access(name, F_OK) == 0 || strstr(name, ".gguf")) return TOOL_OK;
    if (*name && strchr("/.~", *name)) return TOOL_OK; /* a path: opening it says what is wrong */
    if (mnem_size_parse(name, &bytes) == MNEM_OK)
        return tool_usage(verb, "no model \"%s\": -m names the model; the budget is --memory %s",
                          name, name);
    if (!*name || strpbrk(name, " \t\n"))
        return tool_usage(verb, "no file \"%s\"; if it is a prompt, put -p before it", name);
    repository(name, from, sizeof from);
    return tool_usage(verb,
                      "no file \"%s\", and mnem fetches none: a model is a GGUF file or a Hugging "
                      "Face folder that is here, such as what hf download %s writes; "
                      "models/get_model NAME FOLDER fetches a small one",
                      name, *from ? from : "OWNER/NAME FILE.gguf --local-dir .");
}
