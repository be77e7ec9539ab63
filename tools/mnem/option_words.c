/* option_words.c: words that people bring from other tools, and what each is here.
 *
 * The idea: what means the same is taken (an option's `also`, with '_' for '-'); what means nothing
 * here is passed over with one line that says why; what would change the result is refused with
 * what to use instead. So a command line from llama.cpp or Ollama either works or says what to
 * change. A misspelt word is answered with the nearest one (option_near.c). */
#include "options.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- spellings ---- */

bool tool_has_word(const char *words, const char *word, size_t n) {
    for (; words; words = strchr(words, ' ')) {
        words += *words == ' ';
        if (strcspn(words, " ") == n && strncmp(words, word, n) == 0) return true;
    }
    return false;
}

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
    REFUSED,         /* passed over, the run would be another than the one that is asked for */
    REFUSED_PLAN,    /* so, by mnem plan only */
    REFUSED_SERVE,   /* so, by mnem serve only */
    REFUSED_WISH,    /* so, unless the value leaves the choice open or is what there is */
    REFUSED_ESCAPES, /* so, where a word of the line has an escape */
    REFUSED_ALONE,   /* so, where no word of the line gives the rank of adapters */
    REFUSED_NOT_ZERO /* so, unless the value is 0 */
} foreign_kind;

static const struct {
    const char *names;
    foreign_kind kind;
    const char *text;
} foreign_options[] = {
    {"ngl gpu-layers n-gpu-layers mg main-gpu sm split-mode ts tensor-split", A_VALUE,
     "layers are not placed on a GPU; --memory limits the memory of everything"},
    {"nkvo no-kv-offload kvo kv-offload cmoe cpu-moe op-offload no-op-offload no-host", NO_VALUE,
     "everything runs on the CPU"},
    {"ncmoe n-cpu-moe ot override-tensor", A_VALUE, "everything runs on the CPU"},
    {"mlock", NO_VALUE, "weights that fit in --memory are read once and stay resident"},
    {"mmap no-mmap mmp", MAYBE_A_SWITCH,
     "weights are never mapped: they are read into memory that the budget counts"},
    {"fa flash-attn", MAYBE_A_SWITCH,
     "there is only one attention implementation, and the plan includes its bytes"},
    {"b batch-size", A_VALUE, "--chunk sets how many prompt tokens are processed at once"},
    {"tb threads-batch", A_VALUE, "--threads also applies to prompts"},
    {"cnv conversation i interactive if interactive-first", NO_VALUE,
     "without a prompt, mnem run starts a chat on a terminal"},
    {"st single-turn", NO_VALUE, "with a prompt, mnem run gives one answer and ends"},
    {"jinja no-jinja", NO_VALUE, "the model's own chat template is always applied (--raw: none)"},
    {"e escape", REFUSED_ESCAPES,
     "escapes in a prompt are not interpreted (in bash, $'a\\nb' is two lines)"},
    {"no-escape", NO_VALUE, "escapes in a prompt are not interpreted"},
    {"color co", MAYBE_A_SWITCH,
     "colours are on in a terminal; NO_COLOR=1 in the environment turns them off"},
    {"no-warmup", NO_VALUE,
     "mnem run and mnem serve make no warm-up run, and mnem bench always makes one"},
    {"no-display-prompt", NO_VALUE, "standard output has the generated text only"},
    {"simple-io", NO_VALUE,
     "a pipe or a file gets plain text; --plain prints it on a terminal too"},
    {"allow-requantize", NO_VALUE, "mnem quantize converts quantized files, too"},
    {"log-disable no-perf", NO_VALUE, "--quiet prints the text only"},
    {"verbose-prompt", NO_VALUE, "mnem tokenize shows the tokens of a prompt"},
    {"no-context-shift", NO_VALUE, "the context is never shifted"},
    {"context-shift", REFUSED,
     "the context is not shifted: generation stops when it is full; --ctx sets its length"},
    {"cb cont-batching nocb no-cont-batching", NO_VALUE,
     "mnem serve always batches requests continuously; the text does not depend on it"},
    {"numa prio prio-batch poll poll-batch", A_VALUE,
     "the plan sets memory and threads (--memory, --threads)"},
    {"keepalive keep-alive", A_VALUE, "the model stays loaded until the command ends"},
    {"gpu-memory-utilization", REFUSED,
     "mnem uses no GPU; --memory 85% uses 85 % of the available memory"},
    {"device dev", REFUSED_WISH, "everything runs on the CPU; there is no GPU support"},
    {"dtype torch-dtype", REFUSED_WISH,
     "weights keep the types of the file (mnem quantize converts them); mnem train has "
     "--precision"},
    {"ignore-eos", REFUSED, "mnem run has it; requests to mnem serve can set \"ignore_eos\": true"},
    {"logit-bias l", REFUSED,
     "mnem run has --logit-bias ID+BIAS; requests to mnem serve can set \"logit_bias\": {\"ID\": "
     "BIAS}"},
    {"samplers sampler-seq sampling-seq", REFUSED,
     "the order of the samplers is fixed: penalties, DRY, --top-k, --top-p, --min-p, XTC, --temp "
     "(--top-k 0, --top-p 1 and --min-p 0 turn one off)"},
    {"reasoning-budget rea reasoning think hidethinking", REFUSED,
     "the chat template controls thinking: --template-args '{\"enable_thinking\": false}' turns it "
     "off if the template has that variable"},
    {"override-kv", REFUSED,
     "metadata of the file can't be overridden, except by --pretokenizer and --template"},
    {"rope-freq-base rope-freq-scale rope-scale rope-scaling yarn-orig-ctx yarn-ext-factor "
     "yarn-attn-factor yarn-beta-fast yarn-beta-slow",
     REFUSED, "the position encoding (RoPE) is read from the file"},
    {"lora", REFUSED,
     "the adapter is the second operand of mnem merge MODEL ADAPTER --out FILE, whose file the "
     "other verbs take; mnem run and mnem serve take --lora"},
    {"hf hf-repo hfr hff hf-file hft hf-token mu model-url dr docker-repo", REFUSED,
     "mnem downloads nothing. Use hf download OWNER/NAME FILE.gguf --local-dir . (or "
     "models/get_model NAME FOLDER for a small model), then -m FILE.gguf"},
    {"o output", REFUSED,
     "results go to standard output; redirect them with > FILE (--json prints JSON)"},
    {"pg", REFUSED, "prompts and generation are measured separately: use -p 512 -n 128"},
    {"imatrix", REFUSED, "only mnem quantize and mnem prune accept an importance matrix"},
    {"mirostat mirostat-lr mirostat-ent typical typical-p tfs top-n-sigma top-nsigma "
     "dynatemp-range "
     "dynatemp-exp adaptive-target adaptive-decay",
     REFUSED, "use --temp, --top-k, --top-p, --min-p or --xtc-probability instead"},
    {"keep", REFUSED, "the --system text is kept when old turns are dropped"},
    {"chat-template", REFUSED,
     "the model's own chat template is applied; --template FILE uses another, --raw none"},
    {"in-prefix in-suffix", REFUSED,
     "the chat template sets the text around a turn: --template FILE"},
    {"format j", REFUSED,
     "use --json-schema FILE or --grammar to constrain the answer (--json-schema '{}': any JSON)"},
    {"r", REFUSED, "--stop TEXT ends an answer before a text"},
    {"sysf system-prompt-file", REFUSED, "use --system \"$(cat FILE)\""},
    {"md model-draft hfd draft draft-max draft-n draft-n-max draft-min draft-n-min draft-p-min "
     "ngld "
     "devd td threads-draft tbd ctkd ctvd lcs lcd spec-type spec-draft-model spec-draft-n-max "
     "spec-draft-n-min spec-draft-p-min spec-draft-hf",
     A_VALUE,
     "drafts are looked up in the text (mnem run --draft ngram), not made by a model; they don't "
     "change the text"},
    {"fit fitt fit-target fitc fit-ctx", MAYBE_A_SWITCH,
     "--memory decides what fits: mnem plan shows it"},
    {"C cpu-mask Cr cpu-range cpu-strict Cb cpu-mask-batch Crb cpu-range-batch", A_VALUE,
     "mnem runs on the processors that it may use: taskset chooses them"},
    {"lv verbosity log-verbosity log-file log-colors", A_VALUE,
     "messages go to standard error: -v prints more of them, --quiet fewer"},
    {"log-prefix log-timestamps", NO_VALUE, "messages have neither"},
    {"offline", NO_VALUE, "mnem never downloads a model"},
    {"mli multiline-input", NO_VALUE, "a pasted text of several lines is one message"},
    {"repack no-repack", NO_VALUE, "the plan decides whether weights are repacked"},
    {"swa-full", NO_VALUE, "the text is the same without"},
    {"dt defrag-thold", A_VALUE, "the KV cache has pages of one size, which do not fragment"},
    {"kvu kv-unified no-kv-unified", NO_VALUE, "all conversations share the KV cache"},
    {"list-devices", REFUSED, "there is only the CPU; mnem probe measures it"},
    {"rpc", REFUSED, "several machines run one model under mpirun (docs/mpi.md)"},
    {"embedding embeddings", NO_VALUE,
     "mnem serve always answers at /v1/embeddings (--pooling, if the file names no pooling)"},
    {"rerank reranking", REFUSED,
     "there is no reranking; /v1/embeddings gives vectors that can be compared"},
    {"api-key", REFUSED,
     "mnem serve has --api-key-file FILE: put the key in that file, one per line"},
    {"slots props ui webui no-slots no-ui no-webui", NO_VALUE,
     "mnem serve always has its page, /slots and /props"},
    {"sps slot-prompt-similarity cram cache-ram ctxcp ctx-checkpoints cache-reuse", A_VALUE,
     "the prefix cache uses the pages of the KV cache that no conversation needs"},
    {"cache-prompt", NO_VALUE, "prefixes are always cached"},
    {"no-cache-prompt", REFUSED, "requests can set \"cache_prompt\": false"},
    {"threads-http to timeout sleep-idle-seconds", A_VALUE,
     "one thread serves all connections, with fixed times (docs/serving.md)"},
    {"ssl-key-file ssl-cert-file", REFUSED, "mnem serve has no TLS: put a proxy in front of it"},
    {"path api-prefix", REFUSED, "mnem serve serves its own page and API, at /"},
    {"models-dir models-preset models-max", REFUSED,
     "mnem serve serves one model: start one server for each"},
    {"reasoning-format", REFUSED, "reasoning comes as \"reasoning_content\": leave it out"},
    {"n n-predict predict", REFUSED_SERVE,
     "requests set \"max_tokens\"; without it an answer may use all of the context"},
    {"pure", REFUSED,
     "a type such as Q4_K, instead of a mix such as Q4_K_M, is that of all matrices"},
    {"leave-output-tensor output-tensor-type token-embedding-type", REFUSED,
     "use --tensor-type output=TYPE or --tensor-type token_embd=TYPE"},
    {"dry-run", REFUSED, "mnem plan shows what a run needs; mnem serve and mnem train have it"},
    {"ppl-stride hellaswag winogrande multiple-choice", REFUSED,
     "mnem perplexity measures perplexity, and --kl MODEL the divergence from another model"},
    {"kl-divergence kl-divergence-base", REFUSED, "use --kl MODEL: no file of logits is needed"},
    {"np n-parallel parallel max-num-seqs", REFUSED_PLAN,
     "mnem serve MODEL --parallel N --dry-run prints the plan of a server; --sequences N plans N "
     "sequences"},
    {"np n-parallel parallel max-num-seqs", A_VALUE,
     "mnem serve has --parallel; mnem run --prompts FILE runs several prompts"},
    {"metrics", NO_VALUE, "mnem serve always answers at /metrics"},
    {"mmproj image audio", REFUSED,
     "images and audio are not supported: only the text part of a model runs"},
    {"bf16 fp16", REFUSED, "mnem train has --precision bf16 (or f16)"},
    {"max-seq-length max-length block-size", REFUSED, "--ctx sets the tokens of a sequence"},
    {"dataset dataset-name train-file", REFUSED, "--data FILE names the text"},
    {"target-modules lora-target-modules", REFUSED,
     "mnem train has --lora-targets, such as q,v or q_proj,v_proj"},
    {"lora-rank lora-r fine-tune-type", REFUSED, "mnem train --lora R trains adapters of rank R"},
    {"use-peft use-lora", REFUSED_ALONE, "mnem train --lora R trains adapters of rank R"},
    {"lora-dropout", REFUSED_NOT_ZERO,
     "adapters have no dropout of their own; mnem train --dropout P is that of the layers"},
    {"logging-steps steps-per-report report-to run-name logging-dir", A_VALUE,
     "log.jsonl in the folder of a training run has every step, loss.svg the curve"},
    {"save-total-limit", A_VALUE, "a training run keeps its last checkpoint only"},
    {"per-device-eval-batch-size", A_VALUE, "it changes no held-out loss"},
    {"do-train do-eval", MAYBE_A_SWITCH, "mnem train trains, and measures the held-out loss"},
    {"train-on-responses-only completion-only-loss assistant-only-loss mask-prompt", MAYBE_A_SWITCH,
     "of conversations only the answers are learned"},
    {"optim", REFUSED_WISH, "AdamW is the optimizer; --moments 8bit stores its moments in 8 bits"},
    {"overwrite-output-dir", REFUSED,
     "a folder with a run is never overwritten: choose another --out, or --resume"},
    {"per-device-train-batch-size train-batch-size", REFUSED,
     "mnem train has --batch, the sequences of a step, and --batch-per-rank"},
    {"gradient-accumulation-steps gradient-accumulation grad-accum", REFUSED,
     "mnem train has --accumulate N, which multiplies --batch"},
    {"validation-file eval-file eval-dataset valid-file", REFUSED,
     "mnem train holds out a share of the text itself: --heldout sets it; mnem perplexity MODEL "
     "FILE measures another file"},
    {"eval-steps steps-per-eval eval-strategy evaluation-strategy", A_VALUE,
     "the held-out loss is measured ten times in a run; --heldout sets the share of the text"},
    {"warmup-steps warmup-ratio weight-decay max-grad-norm", REFUSED,
     "mnem train has --warmup N (in steps), --weight-decay X and --clip X"},
    {"lr-scheduler-type lr-scheduler", REFUSED_WISH,
     "the learning rate rises during --warmup N and then falls along a cosine, to \"rate_floor\" "
     "of "
     "a JSON file for --config (default: a tenth)"},
    {"save-steps", REFUSED, "mnem train has --save-every"},
    {"save-strategy", A_VALUE, "a training run writes a checkpoint each minute, or --save-every"},
    {"deepspeed fsdp num-processes nproc-per-node", REFUSED,
     "mpirun -n N mnem train divides the batch and the optimizer's state (--shard)"},
    {"train training", REFUSED, "mnem train --dry-run prints the plan of a training run"},
    {"neftune-noise-alpha", REFUSED, "no noise is added to embeddings; leave it out"},
    {"gradient-checkpointing grad-checkpoint", MAYBE_A_SWITCH,
     "the plan recomputes activations where --memory needs it"},
    {"load-in-4bit load-in-8bit qlora", MAYBE_A_SWITCH,
     "mnem train --lora R takes a quantized --init MODEL as it is (mnem quantize makes one)"},
    {"quantization", REFUSED_WISH,
     "weights keep the types of the file (mnem quantize converts them); mnem train --lora R takes "
     "a quantized --init MODEL as it is"},
    {"enable-lora", MAYBE_A_SWITCH, "--lora FILE applies an adapter"},
    {"lora-modules", REFUSED, "mnem serve has --lora FILE[:SCALE], for all requests"},
    {"packing", REFUSED,
     "texts and {\"text\": ...} records always fill whole sequences, and each conversation is a "
     "sequence of its own: leave it out"},
    {"num-layers lora-layers", REFUSED,
     "adapters are for all layers; mnem train --lora-targets chooses the matrices in them"},
    {"val-batches", A_VALUE,
     "the held-out loss is that of all held-out text; mnem train --heldout sets its share"},
    {"adapter-path", REFUSED,
     "mnem train writes the adapter to the folder of --out; mnem run and mnem serve take it as "
     "--lora FOLDER"},
    {"resume-from-checkpoint resume-adapter-file", REFUSED,
     "mnem train has --resume, with --out DIR"},
    {"epochs num-train-epochs num-epochs", REFUSED, "mnem train has --epochs"},
};

static bool is_switch(const char *word) {
    static const char *const words[] = {"on", "off", "auto", "0", "1", "true", "false"};
    for (size_t i = 0; word && i < sizeof words / sizeof *words; i++)
        if (strcasecmp(word, words[i]) == 0) return true;
    return false;
}

static bool has_escape(char *const *words) {
    for (; *words; words++)
        if (strchr(*words, '\\')) return true;
    return false;
}

static bool has_rank(char *const *words) {
    for (; *words; words++)
        if (!strncmp(*words, "--", 2) &&
            is_among("lora lora-r lora-rank r", *words + 2, strcspn(*words + 2, "=")))
            return true;
    return false;
}

/* Values that leave the choice open, or ask for what is done anyway. */
static const char what_there_is[] = "cpu auto none cosine adamw adamw-torch adamw-torch-fused";

/* value: of the option, or the next word; NULL: there is none. */
static bool is_refused(size_t option, const char *value, char *const *all) {
    switch (foreign_options[option].kind) {
    case REFUSED:
    case REFUSED_PLAN:
    case REFUSED_SERVE: return true;
    case REFUSED_WISH: return !value || !is_among(what_there_is, value, strlen(value));
    case REFUSED_ESCAPES: return has_escape(all);
    case REFUSED_ALONE: return !has_rank(all);
    case REFUSED_NOT_ZERO: return !value || strspn(value, "0.") != strlen(value);
    default: return false;
    }
}

/* A word that may be an option, without its dashes. */
typedef struct foreign_word {
    const char *name, *value; /* value: behind '=', or the next word; NULL: there is none */
    size_t length;            /* of the name */
    int shown;                /* characters of the word, with its dashes */
} foreign_word;

static foreign_word read_word(char *const *words) {
    const char *name = words[0] + strspn(words[0], "-");
    const size_t length = strcspn(name, "=");
    return (foreign_word){name, name[length] ? name + length + 1 : words[1], length,
                          (int)(name - words[0]) + (int)length};
}

/* The row of a word; -1: there is none. */
static int find_foreign(const char *verb, const foreign_word *word) {
    for (size_t i = 0; i < sizeof foreign_options / sizeof *foreign_options; i++)
        if (is_among(foreign_options[i].names, word->name, word->length) &&
            (foreign_options[i].kind != REFUSED_PLAN || strcmp(verb, "plan") == 0) &&
            (foreign_options[i].kind != REFUSED_SERVE || strcmp(verb, "serve") == 0))
            return (int)i;
    return -1;
}

static bool is_own(const char *verb, const foreign_word *word) {
    tool_option option;
    for (int v = 0; tool_verbs[v]; v++)
        for (int i = 0; !strcmp(tool_verbs[v]->name, verb); i++) {
            if (!tool_option_get(tool_verbs[v], i, &option)) return false;
            if (tool_option_named(&option, word->name, word->length)) return true;
        }
    return false;
}

/* All that are refused are said at once: a line of another tool has several. */
static int refuse(const char *verb, char *const *words, char *const *all) {
    const foreign_word said = read_word(words);
    const char *text = foreign_options[find_foreign(verb, &said)].text;
    for (char *const *next = words + 1; *next && strcmp(*next, "--") != 0; next++) {
        const foreign_word word = read_word(next);
        const int row = strncmp(*next, "--", 2) == 0 ? find_foreign(verb, &word) : -1;
        if (row < 0 || is_own(verb, &word) || !is_refused((size_t)row, word.value, all)) continue;
        tool_message("option %.*s is not supported here: %s", said.shown, words[0], text);
        return refuse(verb, next, all);
    }
    return tool_usage(verb, "option %.*s is not supported here: %s", said.shown, words[0], text);
}

int tool_foreign_option(const char *verb, char *const *words, char *const *all, int *taken) {
    const foreign_word word = read_word(words);
    const int row = find_foreign(verb, &word);
    *taken = row >= 0;
    if (row < 0) return TOOL_OK;
    const foreign_kind kind = foreign_options[row].kind;
    if (is_refused((size_t)row, word.value, all)) return refuse(verb, words, all);
    tool_message("option %.*s is ignored: %s", word.shown, words[0], foreign_options[row].text);
    if (word.name[word.length]) return TOOL_OK;
    const bool has_value = kind == A_VALUE || kind == REFUSED_WISH || kind == REFUSED_NOT_ZERO;
    *taken += (has_value && word.value) ||
              ((kind == MAYBE_A_SWITCH || kind == REFUSED_ALONE) && is_switch(word.value));
    return TOOL_OK;
}

/* ---- verbs ---- */

const char *tool_foreign_verb(const char *word) {
    static const struct {
        const char *words, *text;
    } verbs[] = {
        {"chat cli generate inference completion prompt main llama-cli llama-completion "
         "llama-simple",
         "did you mean: mnem run"},
        {"show inspect gguf llama-gguf", "did you mean: mnem info"},
        {"llama-bench", "did you mean: mnem bench"},
        {"ppl llama-perplexity", "did you mean: mnem perplexity"},
        {"run-batch batches", "did you mean: mnem batch MODEL REQUESTS -o ANSWERS"},
        {"llama-quantize", "did you mean: mnem quantize"},
        {"llama-tokenize", "did you mean: mnem tokenize"},
        {"llama-embedding", "did you mean: mnem embed"},
        {"server llama-server", "did you mean: mnem serve"},
        {"embedding embeddings", "did you mean: mnem embed"},
        {"finetune fine-tune tune lora", "did you mean: mnem train --init MODEL"},
        {"ps status", "did you mean: mnem top"},
        {"export",
         "did you mean: mnem merge MODEL ADAPTER -o OUT, or mnem train --resume OUT --export FILE"},
        {"imatrix llama-imatrix",
         "did you mean: mnem quantize MODEL --calibrate TEXT --imatrix-out FILE"},
        {"eval evaluate", "did you mean: mnem perplexity MODEL TEXT"},
        {"pull push list ls rm cp create download get install search",
         "mnem keeps no store of models; models/get_model NAME FOLDER downloads a small one, mnem "
         "info FILE shows one, mnem run FILE runs one"},
        {"pool memory snapshot profile", "did you mean: mnem report TRACE, or mnem replay TRACE"},
        {"stop", "Ctrl-C or SIGTERM ends mnem serve"},
        {"signin signout login launch", "mnem has no account: it runs files of this machine"},
        {"convert-hf-to-gguf.py convert-hf-to-gguf", "did you mean: mnem convert"},
        {"export-lora llama-export-lora", "did you mean: mnem merge"},
        {"fit-params llama-fit-params", "did you mean: mnem plan"},
        {"gguf-split llama-gguf-split",
         "mnem reads a model in several files as it is: give the first one"},
    };
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (is_among(verbs[i].words, word, strlen(word))) return verbs[i].text;
    return NULL;
}

/* ---- --kv: a type of keys and values, or one for each ---- */

int tool_option_kv(const char *verb, const tool_option *option, const char *text, int32_t *out) {
    mnem_kv_choice kv;
    if (mnem_kv_parse(text, &kv) != MNEM_OK)
        return tool_usage(
            verb, "--%s takes one of: %s; or two of them, keys:values, but auto; not \"%s\"",
            option->name, option->choices, text);
    *out = (int32_t)kv;
    return TOOL_OK;
}

/* -ctk or --cache-type-k (side 'k'), -ctv or --cache-type-v ('v'): llama.cpp's, of one of both. */
static bool is_side(const char *name, char side) {
    const size_t length = strcspn(name, "=");
    return length > 2 && name[0] == 'c' && name[length - 1] == side;
}

const char *tool_kv_pair(const tool_option *option, const char *before, const char *before_text,
                         const char *name, const char *text) {
    static char pair[64];
    if (option->kind != TOOL_VALUE_KV || !before) return NULL;
    const bool keys = is_side(name, 'k') && is_side(before, 'v');
    if (!keys && !(is_side(name, 'v') && is_side(before, 'k'))) return NULL;
    snprintf(pair, sizeof pair, "%s:%s", keys ? text : before_text, keys ? before_text : text);
    return pair;
}
