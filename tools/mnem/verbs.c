/* verbs.c: the table of verbs: what help, the man page and completion say about each. */
#include "tool.h"

const tool_verb tool_verbs[TOOL_VERBS] = {
    [TOOL_VERB_run] =
        {"run", "[MODEL]", 0, 1, "generate text, or chat, inside a memory budget",
         "Generates text from a GGUF model inside a hard memory budget. The plan is shown before\n"
         "the first weight is read and the ledger (every byte, by kind and tag) at the end. "
         "Standard\n"
         "output carries the generated text only; all else goes to standard error.\n"
         "\n"
         "The prompt comes from --prompt, --file or standard input; without any of them, on a\n"
         "terminal, a chat begins (/help there lists its commands). Without MODEL the one that\n"
         "ships with mnem runs. Weights that don't fit the budget are streamed from disk, layer "
         "by\n"
         "layer, for every token: the same text, more slowly. Without --ctx the context holds the\n"
         "prompt and -n tokens; where the budget has no room for them, a warning says what would.\n"
         "\n"
         "Ctrl-C ends the text and still prints the ledger (exit code 130); a second one exits\n"
         "at once.\n",
         "mnem run -p 'In the beginning'  # the model that ships\n"
         "mnem run model.gguf --memory 512M  # chat inside 512 MiB\n"
         "mnem run model.gguf -f essay.txt -n 100 --temp 0  # always the likeliest token\n"
         "echo 'Once upon a time' | mnem run model.gguf -q  # the text, nothing else\n",
         verb_run},
    [TOOL_VERB_plan] =
        {"plan", "[MODEL]", 0, 1, "show what a run would take, without loading",
         "Shows the plan of a run with the same options: bytes by kind and tag, what was chosen\n"
         "and why, what the next smaller and larger budget would change, and the predicted peak\n"
         "and speed. Reads the file's header only, so it takes no time for any size of model.\n"
         "Exit code 3 when the budget is too small. The other options of run are taken too, so "
         "that\n"
         "the command line of a run can be planned; with its prompt (-p, -f) to the byte.\n"
         "\n"
         "--device null plans for a machine that isn't here; --capacity says how much it has.\n"
         "--devices cuts the model over several such devices, so that the fullest has the most\n"
         "room left. --explain shows what every budget would buy.\n",
         "mnem plan model.gguf --memory 2G  # would it run in 2 GiB, and how?\n"
         "mnem plan model.gguf --memory 2G --ctx 8192  # with a longer context?\n"
         "mnem plan model.gguf --device null --capacity 80G  # on a machine of 80 GiB?\n"
         "mnem plan model.gguf --devices 24G,24G,16G  # which layers go where?\n"
         "mnem plan model.gguf --explain --svg ways.svg  # bytes against speed\n"
         "mnem plan model.gguf --memory 2G --json | jq .peak_bytes  # for a script\n",
         verb_plan},
    [TOOL_VERB_graph] =
        {"graph", "[MODEL]", 0, 1, "the tensors of a model's graphs: when they live, and where",
         "Shows the programs that a run would execute: their tensors with bytes, lifetime (the "
         "first\n"
         "and last node that touches them) and offset in the block that they share; what cleaning\n"
         "up and sharing save; and the lower bound, which no placement can pass. The body turns\n"
         "tokens into hidden rows through all layers; the head turns those into logits. The "
         "options\n"
         "that a plan takes choose the plan whose graphs are shown.\n",
         "mnem graph model.gguf  # one token\n"
         "mnem graph model.gguf --phase prefill --svg graph.svg  # a chunk of a prompt, drawn\n"
         "mnem graph model.gguf --phase train --batch 8 -c 256 --svg step.svg  # of training\n"
         "mnem graph model.gguf --json | jq '.body.tensors | length'  # for a script\n",
         verb_graph},
    [TOOL_VERB_place] =
        {"place", "FILE.csv", 1, 1, "offsets for buffers whose lifetimes are known",
         "Places the buffers of a table so that no two that are alive at one time overlap, and\n"
         "says how good that is: the bound that nothing can be below, the peak, and whether it is\n"
         "the best there is. Shows who is alive when most is.\n"
         "\n"
         "The table is MiniMalloc's CSV: columns id, lower, upper (the life, without its end),\n"
         "size; and if wanted alignment, hint, gaps (5-9, or 5-9@0:64 where bytes 0 to 63 are "
         "still\n"
         "used) and offset (fixed where one stands). - is standard input.\n"
         "\n"
         "With --capacity, exit code 3 when nothing within it was found. Ctrl-C (and SIGTERM) "
         "ends\n"
         "the search: what was found so far is shown and written (exit code 130, or 143).\n"
         "\n"
         "With --space, once for each, buffers are spread over several spaces so that accesses x\n"
         "bytes x cost is least. Columns for that: accesses (default: 1), spaces (names of those\n"
         "that a buffer may be in, with spaces between) and space (the one that it is in).\n",
         "mnem place buffers.csv  # how low can it be?\n"
         "mnem place buffers.csv --capacity 1M -o placed.csv  # does it fit 1 MiB?\n"
         "mnem place buffers.csv --time 60 --svg map.svg  # look longer, and look at it\n"
         "mnem place buffers.csv --space chip=1M --space main:20 -o -  # two spaces\n"
         "mnem place buffers.csv --json | jq .peak_bytes  # for a script\n",
         verb_place},
    [TOOL_VERB_info] =
        {"info", "[MODEL]", 0, 1, "what a model file holds",
         "Shows a model file's architecture, tensors, types, tokenizer and bytes. Files without\n"
         "tensors (vocabularies) and any architecture are fine.\n",
         "mnem info model.gguf  # the summary\n"
         "mnem info model.gguf --tensors  # every tensor\n"
         "mnem info model.gguf --json | jq .architecture  # for a script\n",
         verb_info},
    [TOOL_VERB_bench] =
        {"bench", "[MODEL]", 0, 1, "measure the speed of a model and of this machine",
         "Measures the speed of a prompt (pp) and of generation (tg), and how much of this\n"
         "machine's read bandwidth generation reaches. The machine's numbers are measured once "
         "and\n"
         "kept in $XDG_CACHE_HOME/mnem/profile.json, where `mnem plan` finds them.\n",
         "mnem bench model.gguf  # pp512 and tg128\n"
         "mnem bench model.gguf --threads 1 --repeats 5  # one thread, best of five\n"
         "mnem bench model.gguf --refresh  # measure the machine again\n",
         verb_bench},
    [TOOL_VERB_quantize] =
        {"quantize", "IN OUT", 2, 2, "write a model in a smaller type",
         "Writes the model IN to OUT in another type, row by row, so that a model larger than\n"
         "memory is no problem, and shows each tensor's error. OUT appears when it is whole.\n",
         "mnem quantize model-f16.gguf model-q4.gguf --type Q4_K_M  # about 4.8 bits a weight\n"
         "mnem quantize model-f16.gguf model-q8.gguf --type Q8_0  # 8.5 bits, hardly any loss\n",
         verb_quantize},
    [TOOL_VERB_merge] =
        {"merge", "MODEL ADAPTER", 2, 2, "write a model with a low-rank adapter added to it",
         "Writes MODEL with the adapter added to its weights, as one file that needs no adapter. "
         "The\n"
         "adapter is what `mnem train --lora` writes, or any that llama.cpp opens. Streams row by "
         "row,\n"
         "so that a model larger than memory is no problem; OUT appears when it is whole.\n"
         "\n"
         "Merged tensors of quantized models become F16: what was learned is mostly smaller than\n"
         "what a quantized type rounds away. `mnem quantize` makes the result small again, and\n"
         "--type same keeps the types at once.\n",
         "mnem merge model.gguf mnem-train/adapter.gguf -o tuned.gguf  # matrices in F16\n"
         "mnem merge model.gguf adapter.gguf -o tuned.gguf --type same  # as small as before\n",
         verb_merge},
    [TOOL_VERB_train] =
        {"train", "[FILE...]", 0, TOOL_OPERANDS_MAX,
         "train a model on text, inside a memory budget",
         "Trains a transformer on text files inside a hard memory budget, from random weights or\n"
         "from a model (--init). Shows the plan before the first step: bytes by kind, how many\n"
         "sequences run together, what is computed again to save memory, and what another budget\n"
         "would buy. A smaller budget changes the speed, not the result, but for rounding.\n"
         "\n"
         "The vocabulary is learned from the text. The run lives in a folder (--out): its\n"
         "checkpoint, log.jsonl (a line for each step), loss.svg, and at the end model.gguf, "
         "which\n"
         "`mnem run` opens. Ctrl-C stops with a checkpoint (exit code 130); --resume goes on as\n"
         "though nothing had happened, also after a crash.\n"
         "\n"
         "Files should be text in UTF-8; what is clearly no text is refused. --json streams the\n"
         "lines of log.jsonl to standard output, and an object about the end as the last line.\n"
         "\n"
         "--lora trains low-rank adapters on a model that stays as it is, quantized or not: "
         "gradients\n"
         "and moments are of the adapters only. The result is adapter.gguf, for that model.\n",
         "mnem train --data book.txt --memory 512M  # a model of 5 M parameters\n"
         "mnem train --data book.txt --memory 64M --dry-run  # what would other budgets buy?\n"
         "mnem train --resume  # go on after Ctrl-C\n"
         "mnem train --init model.gguf --lora 8 -d book.txt -o tuned  # adapters of rank 8\n"
         "mnem train -d a.txt b.txt --config gpt2-10m --steps 300 -o small  # GPT-2's shape\n",
         verb_train},
    [TOOL_VERB_perplexity] =
        {"perplexity", "MODEL FILE", 2, 2, "how well a model predicts a text",
         "The text is cut into windows of the context that don't overlap (the rest is dropped).\n"
         "In each window the predictions of the second half count. Lower is better; a change\n"
         "of 0.5 % is what a good 4-bit type costs.\n",
         "mnem perplexity model.gguf heldout.txt  # the model's context, at most 4096\n"
         "mnem perplexity model.gguf heldout.txt --ctx 512 --json  # shorter windows, for a "
         "script\n",
         verb_perplexity},
    [TOOL_VERB_tokenize] =
        {"tokenize", "MODEL [TEXT|-]", 1, 2, "text to token ids and pieces",
         "Shows how the model's tokenizer cuts a text: ids and pieces. The text comes from the\n"
         "command line or standard input (-, or nothing). Special tokens are recognised in it\n"
         "unless --plain is given.\n",
         "mnem tokenize model.gguf 'In the beginning'  # ids and pieces\n"
         "mnem tokenize model.gguf - --json < text.txt | jq '.ids | length'  # count the tokens\n",
         verb_tokenize},
    [TOOL_VERB_template] =
        {"template", "[MODEL]", 0, 1, "a model's chat template, and what it makes of a chat",
         "Shows the chat template of a model (Jinja, from its file) and the text that it makes of "
         "a\n"
         "small conversation, or of yours. Templates run in an interpreter of mnem's own, with\n"
         "bounds on memory and time; results are those of Python's jinja2. What a template "
         "refuses\n"
         "itself (raise_exception), and mistakes in it, are errors with its line.\n",
         "mnem template model.gguf  # the template, and a small conversation\n"
         "mnem template model.gguf --messages chat.json --tools tools.json  # just your text\n"
         "mnem template model.gguf --template-args '{\"enable_thinking\": false}'  # a variable\n"
         "mnem template --template new.jinja --json | jq -r .text  # a template of your own\n",
         verb_template},
    [TOOL_VERB_replay] =
        {"replay", "TRACE...", 1, TOOL_OPERANDS_MAX,
         "what each pool policy would have cost on a real trace",
         "Replays allocation traces through pool policies, without allocating what they ask for:\n"
         "time per operation, the smallest capacity that completes, what a growing pool would\n"
         "reserve, how often it would ask the device, a verdict for each, and advice: the policy\n"
         "and settings that this trace wants, and what they save.\n"
         "\n"
         "A trace is a PyTorch memory snapshot (the file of torch.cuda.memory._dump_snapshot; it\n"
         "is read without running any code in it) or text: \"a ID BYTES STREAM\" and \"f ID\", a "
         "line\n"
         "each. Names that end in .xz are unpacked by xz; - is standard input.\n"
         "\n"
         "With --capacity, exit code 3 when no policy comes through.\n",
         "mnem replay snapshot.pickle  # how would mnem's pool do on this?\n"
         "mnem replay snapshot.pickle --policy all --capacity 16G  # which policies fit 16 GiB?\n"
         "mnem replay serve.trace.xz --svg map.svg --timeline  # see where memory goes\n"
         "mnem replay *.trace --json | jq -r '.advice.policy'  # for a script\n",
         verb_replay},
    [TOOL_VERB_help] = {"help", "[VERB]", 0, 1, "this, or all about one verb",
                        "Shows what a verb does, its options and examples. `mnem VERB --help` does "
                        "the same.\n",
                        "mnem help run  # all about run\n", verb_help},
    [TOOL_VERB_version] = {"version", "", 0, 0, "the version", "Prints the version, one line.\n",
                           "mnem version\n", verb_version},
};
