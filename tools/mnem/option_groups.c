/* option_groups.c: the options that several verbs have, as tables that their own are made of.
 *
 * One meaning for a name in all verbs: what means the same stands here once. */
#include "options.h"

/* ---- one option each ---- */

const tool_option tool_memory_options[] = {
    {"memory", 0, "SIZE", TOOL_VALUE_BUDGET, 0, .also = "budget memory-limit",
     .help = "memory budget of the whole process, such as 512M or 2G (M and MiB are 2^20 bytes, MB "
             "is 10^6), or a percentage of the available memory, such as 50% (default: 85%)"},
    {0},
};

const tool_option tool_threads_options[] = {
    {"threads", 't', "N", TOOL_VALUE_COUNT, 0, .least = 1, .most = MNEM_TEAM_MAX,
     .also = "num-threads",
     .help =
         "number of worker threads (default: one for each processor that this process may use)"},
    {0},
};

#define AT(field) offsetof(tool_args, field)
const tool_option tool_model_options[] = {
    {"model", 'm', "FILE", TOOL_VALUE_TEXT, AT(model),
     .help = "the model: a GGUF file or a Hugging Face folder; same as the first operand"},
    {0},
};

const tool_option tool_quiet_options[] = {
    {"quiet", 'q', NULL, TOOL_VALUE_FLAG, AT(quiet),
     .help = "don't print the plan (the memory that the run needs), progress or the ledger (the "
             "account "
             "of all memory) to standard error; errors are still printed"},
    {0},
};

const tool_option tool_quiet_progress_options[] = {
    {"quiet", 'q', NULL, TOOL_VALUE_FLAG, AT(quiet),
     .help = "don't print progress and notes to standard error; errors are still printed"},
    {0},
};

const tool_option tool_verbose_options[] = {
    {"verbose", 'v', NULL, TOOL_VALUE_FLAG, AT(verbose),
     .help = "print the plan and the ledger as tables, which account for every byte; on a terminal "
             "print a summary"},
    {0},
};

const tool_option tool_help_options[] = {
    {"help", 'h', NULL, TOOL_VALUE_FLAG, AT(help), .help = "show this help"},
    {0},
};
#undef AT

#define AT(field) offsetof(tool_session_asked, field)
const tool_option tool_shape_options[] = {
    TOOL_CTX_OPTION(AT(context), "the largest that fits without slowing the run down, up to 4096 "
                                 "and the model's context length; longer if the prompt needs it"),
    TOOL_GROUP(tool_pass_options, 0),
    {"snapshot-tokens", 0, "N", TOOL_VALUE_COUNT, AT(snapshot_tokens), .least = 1,
     .most = INT32_MAX,
     .help = "in models with recurrent layers: keep a snapshot of their states at every N tokens; "
             "after an edit of a text up to N tokens are computed again (default: 512)"},
    {0},
};

const tool_option tool_pass_options[] = {
    TOOL_GROUP(tool_threads_options, AT(threads)),
    {"kv", 0, "TYPE", TOOL_VALUE_KV, AT(kv), .choices = "f16 q8_0 q4_0 auto f32 q4_0-unrotated",
     .also = "kv-type cache-type-k cache-type-v ctk ctv",
     .help =
         "data type of the KV cache: f16, q8_0 (half the bytes), q4_0 (a quarter; rows are rotated "
         "first, which costs less quality than q4_0-unrotated), f32, or auto: q8_0 if a longer "
         "context or a faster run then fits in the budget, else f16; or one for keys and one for "
         "values, such as q8_0:q4_0 (default: f16)"},
    {"chunk", 0, "N", TOOL_VALUE_COUNT, AT(chunk), .least = 1, .most = INT32_MAX,
     .also = "ubatch-size ub",
     .help = "number of prompt tokens per forward pass (default: chosen by the plan, at most 512)"},
    {0},
};

const tool_option tool_page_cache_options[] = {
    {"page-cache", 0, NULL, TOOL_VALUE_FLAG, AT(page_cache),
     .help =
         "read streamed weights through the page cache of the system, instead of past it (direct "
         "I/O); the page cache is not counted in the budget; may be faster if memory is plentiful"},
    {0},
};

const tool_option tool_lora_options[] = {
    {"lora", 0, "FILE[:SCALE]", TOOL_VALUE_LIST, AT(lora), .most = TOOL_ADAPTERS_MAX,
     .also = "adapter lora-path",
     .help = "apply a low-rank (LoRA) adapter at run time, multiplied by SCALE (default: 1); "
             "FILE is the adapter's file, the folder of a training run or one of PEFT; may be "
             "repeated up to 8 times"},
    {0},
};

const tool_option tool_pre_options[] = {
    {"pretokenizer", 0, "NAME", TOOL_VALUE_TEXT, 0,
     .help = "use the pre-tokenizer NAME (gpt-2, qwen2, tekken, ...) instead of the file's; an "
             "unknown name prints the list of names"},
    {0},
};

const tool_option tool_cut_options[] = {
    {"cut", 0, "HOW", TOOL_VALUE_CHOICE, AT(cut), .choices = "layers rows",
     .help =
         "under mpirun (MPI's launcher, which starts several processes, the ranks), with --memory "
         "SIZE[,SIZE...] for each rank: split the model over the ranks by layers (each holds "
         "consecutive layers) or rows (each holds rows of every matrix) (default: layers)"},
    {0},
};

const tool_option tool_link_options[] = {
    {"link", 0, "RATE,LATENCY", TOOL_VALUE_TEXT, AT(link),
     .help =
         "with --ranks: bandwidth and latency of the network between the ranks, such as "
         "1Gbit/s,0.1ms, or one of the two (default: as measured by mnem bench under mpirun; if "
         "it never ran, messages take no time)"},
    {0},
};

const tool_option tool_session_options[] = {
    TOOL_GROUP(tool_memory_options, AT(memory)),
    TOOL_GROUP(tool_shape_options, 0),
    TOOL_GROUP(tool_lora_options, 0),
    TOOL_GROUP(tool_page_cache_options, 0),
    {0},
};
#undef AT

#define AT(field) offsetof(tool_training_asked, field)
const tool_option tool_batch_options[] = {
    {"batch", 'b', "N", TOOL_VALUE_COUNT, AT(batch), .least = 1, .most = 1 << 20,
     .also = "batch-size",
     .help = "number of sequences per training step, of all ranks together (default: 12, or the "
             "config's; 8 with --lora)"},
    {"micro-batch", 0, "N", TOOL_VALUE_COUNT, AT(micro_batch), .least = 1, .most = 1 << 20,
     .help = "number of sequences per forward and backward pass; must divide the batch (default: "
             "chosen to fit the budget)"},
    {0},
};

const tool_option tool_types_options[] = {
    {"precision", 0, "TYPE", TOOL_VALUE_CHOICE, AT(precision), .choices = "auto f32 bf16 f16",
     .help = "data type of activations: f32, bf16 or f16 (half the bytes), or auto: f32 if it "
             "fits, else bf16 (default: auto)"},
    {"moments", 0, "TYPE", TOOL_VALUE_CHOICE, AT(moments), .choices = "f32 8bit",
     .help = "data type of the optimizer's moments (two running averages per weight): f32, or 8bit "
             "(a quarter of the bytes) (default: f32)"},
    {0},
};

const tool_option tool_dropout_options[] = {
    {"dropout", 0, "P", TOOL_VALUE_REAL, AT(dropout), .least = 0, .most = 0.99,
     .help = "dropout probability of activations during training (default: 0.1, or the config's; 0 "
             "with --lora, --masked or --distill)"},
    {0},
};
#undef AT

#define AT(field) offsetof(tool_template_asked, field)
const tool_option tool_template_options[] = {
    {"template", 0, "FILE", TOOL_VALUE_TEXT, AT(file), .path = TOOL_PATH_READ,
     .also = "chat-template-file", .help = "use this chat template (Jinja) instead of the model's"},
    {"template-args", 0, "JSON", TOOL_VALUE_TEXT, AT(arguments), .also = "chat-template-kwargs",
     .help = "extra variables for the chat template, such as '{\"enable_thinking\": false}'"},
    {0},
};
#undef AT

#define AT(field) offsetof(mnem_sampler_options, field)
const tool_option tool_sampling_options[] = {
    {"temp", 0, "X", TOOL_VALUE_FLOAT, AT(temperature), .least = 0, .most = 100,
     .also = "temperature",
     .help = "sampling temperature; 0 always takes the most likely token (default: 0.8)"},
    {"top-k", 0, "N", TOOL_VALUE_COUNT, AT(top_k), .least = 0, .most = INT32_MAX,
     .help = "sample from the N most likely tokens; 0 disables it (default: 40)"},
    {"top-p", 0, "X", TOOL_VALUE_FLOAT, AT(top_p), .least = 0, .most = 1,
     .help = "sample from the most likely tokens whose probabilities sum to X; 1 disables it "
             "(default: 0.95)"},
    {"min-p", 0, "X", TOOL_VALUE_FLOAT, AT(min_p), .least = 0, .most = 1,
     .help =
         "drop tokens less likely than X times the most likely one; 0 disables it (default: 0.05)"},
    {"repeat-penalty", 0, "X", TOOL_VALUE_FLOAT, AT(repeat_penalty), .least = 0.01, .most = 100,
     .help = "make recent tokens less likely by this factor; 1 disables it (default: 1)",
     .also = "repetition-penalty"},
    {"repeat-last-n", 0, "N", TOOL_VALUE_COUNT, AT(repeat_last), .least = 0, .most = 65536,
     .help = "number of last tokens that --repeat-penalty covers; 0 disables it (default: 64)"},
    {"presence-penalty", 0, "X", TOOL_VALUE_FLOAT, AT(presence_penalty), .least = -2, .most = 2,
     .help = "subtract X from the logit of each token that occurs in the answer; 0 disables it "
             "(default: 0)"},
    {"frequency-penalty", 0, "X", TOOL_VALUE_FLOAT, AT(frequency_penalty), .least = -2, .most = 2,
     .help = "subtract X from the logit of a token for each of its occurrences in the answer; 0 "
             "disables it (default: 0)"},
    {"dry-multiplier", 0, "X", TOOL_VALUE_FLOAT, AT(dry_multiplier), .least = 0, .most = 100,
     .help = "DRY: subtract X * B^(N - L) from the logit of a token that would extend a repetition "
             "of N tokens, with the B and L below; 0 disables it (default: 0)"},
    {"dry-base", 0, "B", TOOL_VALUE_FLOAT, AT(dry_base), .least = 1, .most = 100,
     .help = "DRY: base of the penalty, which grows with the repetition (default: 1.75)"},
    {"dry-allowed-length", 0, "L", TOOL_VALUE_COUNT, AT(dry_allowed_length), .least = 0,
     .most = INT32_MAX, .help = "DRY: shorter repetitions cost nothing (default: 2)"},
    {"dry-penalty-last-n", 0, "N", TOOL_VALUE_COUNT, AT(dry_penalty_last), .least = 0,
     .most = 65536,
     .help = "DRY: number of last tokens searched for repetitions; 0 disables it (default: 64)"},
    {"xtc-probability", 0, "P", TOOL_VALUE_FLOAT, AT(xtc_probability), .least = 0, .most = 1,
     .help = "XTC: with probability P, drop all tokens above --xtc-threshold but the least likely "
             "of them; 0 disables it (default: 0)"},
    {"xtc-threshold", 0, "P", TOOL_VALUE_FLOAT, AT(xtc_threshold), .least = 0, .most = 1,
     .help = "XTC: least probability of a token that is dropped; above 0.5 disables it (default: "
             "0.1)"},
    {"seed", 's', "N", TOOL_VALUE_NUMBER, AT(seed), .least = -1,
     .help = "seed of the sampler; the same seed gives the same text (default, or -1: random; run "
             "prints it, and in serve a request without a seed has this one)"},
    {0},
};
#undef AT

const tool_option tool_breaker_options[] = {
    {"dry-sequence-breaker", 0, "TEXT", TOOL_VALUE_LIST, 0, .most = MNEM_DRY_BREAKERS,
     .help =
         "DRY: no repetition extends beyond TEXT, in which \\n is a line feed; may be repeated, "
         "up to 16 times; none: no breakers (default: \\n, :, \" and *)"},
    {0},
};
