/* test_tool_words.c: command lines in the words of other tools: taken, passed over with a reason,
 * or refused with the way that there is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "tools/tool_run.h"

static char said[TOOL_RUN_BYTES];

/* What the run of these options writes, of eight likeliest tokens. */
static const char *text_of(const char *const *args) {
    const tool_result r = tool_run(NULL, args);
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
    strcpy(said, r.out);
    return said;
}
#define TEXT_OF(...) text_of((const char *const[]){__VA_ARGS__, NULL})

static void spellings_of_other_tools_mean_the_same(void **state) {
    (void)state;
    char expected[512];
    strcpy(expected, TEXT_OF("run", tool_model, "-p", "In the", "-n", "8", "--temp", "0", "--ctx",
                             "64", "-t", "1", "--kv", "q8_0", "-q"));
    assert_string_equal(TEXT_OF("run", "-m", tool_model, "--prompt", "In the", "--n-predict", "8",
                                "--temperature", "0", "--ctx-size", "64", "--threads", "1",
                                "--cache-type-k", "q8_0", "-q"),
                        expected);
    assert_string_equal(TEXT_OF("run", "--model", tool_model, "In the", "--n_predict=8", "-temp",
                                "0", "-c", "64", "--num-threads=1", "-ctk", "q8_0", "--quiet"),
                        expected);
    assert_string_equal(TEXT_OF("run", tool_model, "In the", "--max_tokens", "8", "--temperature=0",
                                "--num_ctx", "64", "-t1", "-kv", "q8_0", "-q"),
                        expected);
}

static void model_may_be_an_option_of_every_verb_that_opens_one(void **state) {
    (void)state;
    char expected[TOOL_RUN_BYTES / 8];
    snprintf(expected, sizeof expected, "%s", TEXT_OF("tokenize", tool_model, "In the"));
    assert_string_equal(TEXT_OF("tokenize", "-m", tool_model, "In the"), expected);
    assert_string_equal(TEXT_OF("tokenize", "In the", "--model", tool_model), expected);
    assert_string_equal(TEXT_OF("tokenize", "-p", "In the", "--model", tool_model), expected);
    assert_string_equal(TEXT_OF("tokenize", "-m", tool_model, "-f", tool_file("in.txt", "In the")),
                        expected);
    const char *const verbs[] = {"plan", "graph", "info"};
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        assert_int_equal(RUN(verbs[i], "-m", tool_model).code, 0);
    const tool_result r = RUN("plan", "-m", tool_model, "x", "y");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "\"y\" is one operand too many: --model"));
}

/* A shell cuts a text without quotes into operands. */
static void a_text_of_several_words_needs_quotes(void **state) {
    (void)state;
    static const char *const verbs[] = {"run", "plan", "tokenize"};
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        const tool_result r = RUN(verbs[i], tool_model, "Say", "hi", "to", "me");
        assert_int_equal(r.code, 2);
        assert_non_null(strstr(r.err, "put quotes around a text of several words, as in 'Say hi"));
    }
    const tool_result r = RUN("run", "Say", "hi");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "for a prompt use -p 'Say ...', with quotes around all of it"));
}

/* A variable of a script that isn't set; a file; standard input. */
static void an_empty_prompt_is_said(void **state) {
    (void)state;
    static const char *const blank[] = {"", " ", "\n\t"};
    for (int i = 0; i < 3; i++) {
        tool_result r = RUN("run", "-p", blank[i], "-n", "2");
        assert_int_equal(r.code, 0);
        assert_non_null(strstr(r.err, "note: the prompt is empty, so the model writes a text"));
        r = RUN("run", "-f", tool_file("blank.txt", blank[i]), "-n", "2");
        assert_non_null(strstr(r.err, "blank.txt is empty, so "));
        r = RUN_INPUT(blank[i], "run", "-n", "2");
        assert_non_null(strstr(r.err, "note: the prompt on standard input is empty"));
        r = RUN("run", "-p", "", "-n", "2", "-q");
        assert_int_equal(r.err_bytes, 0);
    }
    assert_null(strstr(RUN("run", "-p", "a", "-n", "2").err, "is empty"));
}

/* Ollama puts a text in a pipe behind the prompt; here it isn't read, which is said. */
static void a_text_beside_a_prompt_is_not_dropped_silently(void **state) {
    (void)state;
    static const char note[] = "note: the text on standard input was not read";
    tool_result r = RUN_INPUT("a long text", "run", "-p", "Sum up", "-n", "2");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, note));
    assert_null(strstr(RUN_INPUT("a", "run", "-p", "Sum up", "-n", "2", "-q").err, "note"));
    assert_null(strstr(RUN_INPUT("", "run", "-p", "Sum up", "-n", "2").err, note));
    assert_null(strstr(RUN_INPUT("a", "run", "-n", "2").err, note));
    assert_null(strstr(RUN_INPUT("a", "run", "-p", "-", "-n", "2").err, note));
}

/* The one that ships, or that of the environment. */
static void an_adapter_without_a_model_says_which_it_takes(void **state) {
    (void)state;
    const char *file = tool_file("a.gguf", "GGUF");
    assert_non_null(strstr(RUN("run", "--lora", file, "-p", "x").err,
                           "note: no MODEL is named, so --lora is applied to /"));
    assert_null(strstr(RUN("run", tool_model, "--lora", file, "-p", "x").err, "no MODEL"));
    assert_null(strstr(RUN("run", "--lora", file, "-p", "x", "-q").err, "no MODEL"));
}

static void quantize_takes_its_type_and_its_file_either_way(void **state) {
    (void)state;
    static const char in[] = MNEM_TEST_DATA "/architectures/llama.gguf";
    const char *out = folder("q.gguf");
    assert_int_equal(RUN("quantize", in, out, "q4_0", "-q").code, 0);
    assert_int_equal(RUN("quantize", "-m", in, "-o", out, "--type", "Q4_0").code, 0);
    assert_int_equal(RUN("quantize", in, "--out", out, "Q4_0").code, 0);
    assert_int_equal(RUN("quantize", in, out, "Q9").code, 2);
    assert_int_equal(RUN("quantize", in, out, "Q4_0", "--type", "Q4_0").code, 2);
}

static void perplexity_takes_its_text_as_an_option(void **state) {
    (void)state;
    char text[4096];
    for (size_t i = 0; i < sizeof text; i++) text[i] = "and so on.\n"[i % 11];
    text[sizeof text - 1] = 0;
    const char *path = tool_file("text.txt", text);
    assert_int_equal(RUN("perplexity", "-m", tool_model, "-f", path, "-q").code, 0);
    assert_int_equal(RUN("perplexity", tool_model, path, "-f", path, "-q").code, 2);
    assert_int_equal(RUN("perplexity", tool_model).code, 2);
}

static void options_without_meaning_say_so_and_are_passed_over(void **state) {
    (void)state;
    const tool_result r =
        RUN("run", "-ngl", "99", "--mlock", "-fa", "on", "--no-mmap", "-m", tool_model, "-p", "In",
            "--n-gpu-layers=3", "-n", "2", "-q", "--color", "--no-warmup");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, "mnem: option -ngl is ignored: "));
    assert_non_null(strstr(r.err, "mnem: option --mlock is ignored: "));
    assert_non_null(strstr(r.err, "mnem: option -fa is ignored: "));
    assert_non_null(strstr(r.err, "mnem: option --n-gpu-layers is ignored: "));
    assert_non_null(strstr(r.err, "--color is ignored: colours are on in a terminal"));
    assert_non_null(strstr(r.err, "--no-warmup is ignored: mnem run and mnem serve make no"));
}

static void llama_cli_lines_run_with_what_means_nothing_named(void **state) {
    (void)state;
    const tool_result r =
        RUN("run", "-m", tool_model, "-p", "In", "-n", "2", "-st", "-b", "512", "-ub", "128", "-tb",
            "2", "-sm", "none", "-e", "-cb", "--log-disable", "-mmp", "0", "-s", "-1", "-q");
    assert_int_equal(r.code, 0);
    const char *const named[] = {"-st", "-b", "-tb", "-sm", "-e", "-cb", "--log-disable", "-mmp"};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        char line[64];
        snprintf(line, sizeof line, "mnem: option %s is ignored: ", named[i]);
        if (!strstr(r.err, line)) fail_msg("%s: %s", named[i], r.err);
    }
}

static void seed_minus_one_is_another_each_time(void **state) {
    (void)state;
    char first[64];
    const char *seed = strstr(RUN("run", "-p", "In", "-n", "2", "-s", "-1").err, " seed ");
    assert_non_null(seed);
    snprintf(first, sizeof first, "%s", seed);
    seed = strstr(RUN("run", "-p", "In", "-n", "2", "--seed=-1").err, " seed ");
    assert_non_null(seed);
    assert_string_not_equal(seed, first);
    assert_int_equal(RUN("run", "-p", "In", "-n", "2", "-s", "-2").code, 2);
}

static void what_cannot_be_had_is_refused_with_the_way_there_is(void **state) {
    (void)state;
    tool_result r = RUN("run", "-hf", "owner/name");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(
        r.err, "option -hf is not supported here: mnem downloads nothing. Use hf download "));
    assert_string_equal(r.out, "");
    r = RUN("bench", "-m", tool_model, "-o", "json");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "--json"));
    r = RUN("bench", "-m", tool_model, "-pg", "64,16");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "-p 512 -n 128"));
    static const char *const ways[][3] = {
        {"--mirostat", "2", "--top-k"},
        {"--keep", "4", "--system"},
        {"--chat-template", "chatml", "--template FILE"},
        {"--in-prefix", "x", "--template FILE"},
        {"--format", "json", "--json-schema"},
        {"--imatrix", "x", "mnem quantize"},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        r = RUN("run", "-m", tool_model, "-p", "x", ways[i][0], ways[i][1]);
        assert_int_equal(r.code, 2);
        if (!strstr(r.err, "mnem: option --") || !strstr(r.err, ways[i][2]))
            fail_msg("%s: %s", ways[i][0], r.err);
    }
    r = RUN("quantize", tool_model, "q4_k_m");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "the file to write is missing: give OUT between IN and q4_k_m"));
}

static void options_of_other_tools_take_their_value_along(void **state) {
    (void)state;
    char expected[512];
    strcpy(expected, TEXT_OF("run", tool_model, "In the", "-n", "4", "--temp", "0", "--ctx", "64"));
    assert_string_equal(TEXT_OF("run", tool_model, "In the", "--max-new-tokens", "4", "--temp", "0",
                                "--max_model_len", "64"),
                        expected);
    static const char *const passed[][2] = {
        {"--numa", "distribute"}, {"--keepalive", "5m"}, {"--dtype", "auto"}, {"--device", "cpu"},
        {"--prio", "2"},          {"-md", "draft.gguf"}, {"-fit", "on"},      {"-np", "4"},
    };
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        char line[80];
        tool_result r = RUN("run", "-m", tool_model, passed[i][0], passed[i][1], "In the", "-n",
                            "4", "--temp", "0", "--ctx", "64");
        snprintf(line, sizeof line, "mnem: option %s is ignored: ", passed[i][0]);
        if (r.code != 0 || !strstr(r.err, line)) fail_msg("%s: %s", passed[i][0], r.err);
        assert_string_equal(r.out, expected);
    }
}

static void what_changes_the_text_is_refused_with_the_way_there_is(void **state) {
    (void)state;
    static const char *const ways[][3] = {
        {"--top-n-sigma", "1", "--xtc-probability"},
        {"--samplers", "top_k;min_p", "the order of the samplers is fixed"},
        {"--reasoning-budget", "0", "--template-args"},
        {"--think=false", NULL, "--template-args"},
        {"--override-kv", "a=int:1", "--pretokenizer"},
        {"--image", "a.png", "not supported"},
        {"--bf16", NULL, "--precision"},
        {"--fp16", "True", "--precision"},
        {"--quantization", "bitsandbytes", "takes a quantized --init MODEL as it is"},
        {"--packing", NULL, "each conversation is a sequence of its own"},
        {"--num-layers", "8", "--lora-targets"},
        {"--adapter-path", "adapters", "--out"},
        {"--target-modules", "q", "--lora-targets"},
        {"--rope-freq-base", "10000", "position encoding (RoPE)"},
        {"--context-shift", NULL, "--ctx"},
        {"--gpu-memory-utilization", "0.5", "--memory"},
        {"--dtype", "float32", "mnem quantize"},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const tool_result r = RUN("run", "-m", tool_model, "-p", "x", ways[i][0], ways[i][1]);
        if (r.code != 2 || !strstr(r.err, "is not supported here: ") || !strstr(r.err, ways[i][2]))
            fail_msg("%s: %s", ways[i][0], r.err);
    }
    tool_result r = RUN("serve", tool_model, "--ignore-eos");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "\"ignore_eos\""));
    r = RUN("serve", tool_model, "--logit-bias", "15+1");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "\"logit_bias\""));
    r = RUN("merge", tool_model, "--lora", "adapter.gguf", "--out", "x.gguf");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(
        r.err, "option --lora is not supported here: the adapter is the second operand of mnem "
               "merge MODEL ADAPTER --out FILE"));
}

/* Hours on a processor are not what --device cuda asks for. */
static void a_gpu_is_refused_by_every_verb(void **state) {
    (void)state;
    static const char *const lines[][5] = {
        {"train", "text.txt", "--device", "cuda"},
        {"train", "text.txt", "--device=cuda:0"},
        {"train", "text.txt", "--device"},
        {"run", "x.gguf", "-dev", "CUDA0"},
        {"serve", "x.gguf", "--device", "mps"},
        {"bench", "x.gguf", "--device", "gpu"},
        {"perplexity", "x.gguf", "--device", "cuda"},
        {"embed", "x.gguf", "--device", "cuda"},
        {"quantize", "x.gguf", "--device", "cuda"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const tool_result r = tool_run(NULL, lines[i]);
        if (r.code != 2 || !strstr(r.err, "everything runs on the CPU"))
            fail_msg("%s %s: %d: %s", lines[i][0], lines[i][2], r.code, r.err);
    }
}

static void escapes_are_refused_where_there_are_some(void **state) {
    (void)state;
    tool_result r = RUN("run", "-m", tool_model, "-p", "a\\nb", "-e");
    assert_int_equal(r.code, 2);
    assert_non_null(
        strstr(r.err, "option -e is not supported here: escapes in a prompt are not interpreted"));
    r = RUN("run", "-e", "-m", tool_model, "-p", "a\nb", "-n", "1", "-q");
    assert_int_equal(r.code, 0);
}

static void two_spellings_must_agree(void **state) {
    (void)state;
    tool_result r = RUN("plan", tool_model, "--kv", "q8_0", "-ctv", "f16");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "--kv q8_0 and --ctv f16 both set --kv"));
    assert_int_equal(RUN("plan", tool_model, "-ctk", "q8_0", "-ctv=q8_0").code, 0);
    assert_int_equal(RUN("plan", tool_model, "--ctx", "64", "--ctx", "32").code, 0);
}

static void misspelt_options_of_other_tools_are_recognized(void **state) {
    (void)state;
    static const char *const slips[][3] = {
        {"run", "--temprature", "--temperature"},
        {"run", "--tempreature", "--temperature"},
        {"run", "--contex", "--context"},
        {"run", "-contex", "--context"},
        {"train", "--learning-rat", "--learning-rate"},
        {"train", "--batchsize", "--batch-size"},
        {"run", "--memry", "--memory"},
    };
    for (size_t i = 0; i < sizeof slips / sizeof *slips; i++) {
        char line[64];
        const tool_result r = RUN(slips[i][0], "x.gguf", slips[i][1], "1");
        snprintf(line, sizeof line, "; did you mean %s?", slips[i][2]);
        if (r.code != 2 || !strstr(r.err, line)) fail_msg("%s: %s", slips[i][1], r.err);
    }
    /* A short spelling is near anything. */
    assert_null(strstr(RUN("serve", "x.gguf", "--nx").err, "did you mean"));
}

static void names_that_are_no_files_say_how_to_get_one(void **state) {
    (void)state;
    const char *const names[] = {"absent3.2", "absent:7b", "hf.co/owner/name:Q4_K_M"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const tool_result r = RUN("run", names[i], "-p", "x");
        assert_int_equal(r.code, 2);
        assert_non_null(strstr(r.err, names[i]));
        assert_non_null(strstr(r.err, "hf download"));
    }
    assert_non_null(strstr(RUN("run", names[2]).err, "hf download owner/name "));
    assert_non_null(strstr(RUN("run", "-m", "512M", "-p", "x").err, "--memory 512M"));
}

static void verbs_of_other_tools_lead_to_ours(void **state) {
    (void)state;
    assert_non_null(strstr(RUN("chat").err, "did you mean: mnem run"));
    assert_non_null(strstr(RUN("show", "x").err, "did you mean: mnem info"));
    assert_non_null(strstr(RUN("pull", "x").err, "models/get_model NAME FOLDER downloads"));
    assert_non_null(strstr(RUN("download", "x").err, "models/get_model NAME FOLDER downloads"));
    assert_non_null(strstr(RUN("stop", "x").err, "Ctrl-C or SIGTERM ends mnem serve"));
    assert_non_null(strstr(RUN("imatrix").err, "--imatrix-out FILE"));
    assert_non_null(strstr(RUN("eval").err, "did you mean: mnem perplexity"));
    assert_non_null(strstr(RUN("ps").err, "did you mean: mnem top"));
    assert_non_null(strstr(RUN("run", "-c", "0").err, "without --ctx the default applies"));
    assert_non_null(strstr(RUN("tune").err, "did you mean: mnem train --init MODEL"));
    assert_non_null(strstr(RUN("export").err, "did you mean: mnem merge MODEL ADAPTER"));
    assert_non_null(strstr(RUN("-m", "x.gguf").err, "did you mean: mnem run -m"));
    assert_non_null(strstr(RUN("llama-cli", "-m", "x").err, "did you mean: mnem run"));
    assert_non_null(strstr(RUN("llama-bench", "x").err, "did you mean: mnem bench"));
    assert_non_null(strstr(RUN("llama-server").err, "did you mean: mnem serve"));
}

static void memory_may_be_a_share_of_what_is_available(void **state) {
    (void)state;
    assert_int_equal(RUN("plan", tool_model, "--memory", "50%").code, 0);
    const char *const bad[] = {"0%", "101%", "%", "x%", "50%%"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const tool_result r = RUN("plan", tool_model, "--memory", bad[i]);
        assert_int_equal(r.code, 2);
        assert_non_null(strstr(r.err, "percentage"));
    }
    setenv("MNEM_MEMORY", "50%", 1);
    const int code = RUN("plan", tool_model).code;
    unsetenv("MNEM_MEMORY");
    assert_int_equal(code, 0);
}

static void no_limit_goes_on_to_the_end_of_the_context(void **state) {
    (void)state;
    const tool_result r = RUN("run", tool_model, "-p", "In the", "-n", "-1", "--ctx", "48");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, "the context of 48 tokens is full"));
    assert_int_equal(RUN("run", tool_model, "-p", "x", "-n", "-2").code, 2);
}

static void context_beyond_the_models_is_warned_of(void **state) {
    (void)state;
    const tool_result r = RUN("plan", tool_model, "--ctx", "99999");
    assert_int_equal(r.code, 0);
    assert_non_null(
        strstr(r.err, "warning: the context is 99999 tokens, but the model was trained for "));
    assert_null(strstr(RUN("plan", tool_model).err, "warning"));
}

static void bench_takes_lists_of_lengths(void **state) {
    (void)state;
    tool_result r = RUN("bench", "-m", tool_model, "-p", "4,8", "-n", "2,3", "-r", "1", "--json");
    assert_int_equal(r.code, 0);
    int lines = 0;
    for (const char *c = r.out; *c; c++) lines += *c == '\n';
    assert_int_equal(lines, 4);
    assert_non_null(strstr(r.out, "\"prompt_tokens\":8"));
    assert_non_null(strstr(r.out, "\"tokens\":3"));
    r = RUN("bench", tool_model, "-p", "0", "-n", "2", "-r", "1");
    assert_int_equal(r.code, 0);
    assert_null(strstr(r.out, "pp"));
    assert_int_equal(RUN("bench", tool_model, "-p", "0", "-n", "0").code, 2);
    assert_int_equal(RUN("bench", tool_model, "-p", "4,x").code, 2);
    assert_int_equal(RUN("bench", tool_model, "-p", "1,2,3,4,5,6,7,8,9").code, 2);
}

static void training_has_one_length(void **state) {
    (void)state;
    tool_result r = RUN("train", "--tokens", "20000", "--steps", "20", "x.txt");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "--steps and --tokens both set the length of the run"));
    r = RUN("train", "-n", "20000", "x.txt");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "unknown option -n; did you mean --tokens?"));
}

/* Every line of --json says what it is. */
static void lines_of_json_have_a_type(void **state) {
    (void)state;
    const char *out = folder("t.gguf");
    const struct {
        const char *args[12], *types[3];
    } runs[] = {
        {{"run", tool_model, "-p", "In", "-n", "2", "--json"}, {"token", "end"}},
        {{"plan", tool_model, "--json"}, {"plan"}},
        {{"info", tool_model, "--json"}, {"model"}},
        {{"tokenize", tool_model, "In", "--json"}, {"tokens"}},
        {{"bench", tool_model, "-p", "2", "-n", "2", "-r", "1", "--json"}, {"bench"}},
        {{"merge", tool_model, "none.gguf", "-o", out, "--json"}, {"error"}},
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const char *line = tool_run(NULL, runs[i].args).out;
        for (size_t n; (n = strcspn(line, "\n")) > 0; line += n + 1) {
            bool known = false;
            for (int t = 0; t < 3 && runs[i].types[t]; t++) {
                char type[32];
                snprintf(type, sizeof type, "\"type\":\"%s\"", runs[i].types[t]);
                const char *found = strstr(line, type);
                known = known || (found && found < line + n);
            }
            if (!known) fail_msg("%s: %.*s", runs[i].args[0], (int)n, line);
        }
    }
}

/* Rows of `mnem help options` are "VERB -x VALUE" behind "VERB --name VALUE". */
static void a_letter_means_the_same_in_all_verbs(void **state) {
    (void)state;
    /* bench's -p and -n are how long a prompt and an answer are; train's -m starts from a model. */
    static const char *const same[][2] = {{"pp", "prompt"}, {"tg", "tokens"}, {"init", "model"}};
    char name[128][32] = {{0}}, last[32] = "";
    const char *line = RUN("help", "options").out;
    for (; *line; line += strcspn(line, "\n") + 1) {
        char verb[32], word[64];
        sscanf(line, "%31s %63s", verb, word);
        if (word[1] == '-') {
            snprintf(last, sizeof last, "%.31s", word + 2);
            continue;
        }
        const char *meaning = last;
        for (size_t i = 0; i < sizeof same / sizeof *same; i++)
            if (strcmp(last, same[i][0]) == 0) meaning = same[i][1];
        char *known = name[(int)word[1]];
        if (!*known) strcpy(known, meaning);
        if (strcmp(known, meaning) != 0) fail_msg("-%c: %s and %s", word[1], known, meaning);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_of_several_words_needs_quotes),
        cmocka_unit_test(a_text_beside_a_prompt_is_not_dropped_silently),
        cmocka_unit_test(an_empty_prompt_is_said),
        cmocka_unit_test(an_adapter_without_a_model_says_which_it_takes),
        cmocka_unit_test(spellings_of_other_tools_mean_the_same),
        cmocka_unit_test(model_may_be_an_option_of_every_verb_that_opens_one),
        cmocka_unit_test(quantize_takes_its_type_and_its_file_either_way),
        cmocka_unit_test(perplexity_takes_its_text_as_an_option),
        cmocka_unit_test(options_without_meaning_say_so_and_are_passed_over),
        cmocka_unit_test(llama_cli_lines_run_with_what_means_nothing_named),
        cmocka_unit_test(seed_minus_one_is_another_each_time),
        cmocka_unit_test(what_cannot_be_had_is_refused_with_the_way_there_is),
        cmocka_unit_test(options_of_other_tools_take_their_value_along),
        cmocka_unit_test(what_changes_the_text_is_refused_with_the_way_there_is),
        cmocka_unit_test(a_gpu_is_refused_by_every_verb),
        cmocka_unit_test(escapes_are_refused_where_there_are_some),
        cmocka_unit_test(two_spellings_must_agree),
        cmocka_unit_test(misspelt_options_of_other_tools_are_recognized),
        cmocka_unit_test(names_that_are_no_files_say_how_to_get_one),
        cmocka_unit_test(verbs_of_other_tools_lead_to_ours),
        cmocka_unit_test(memory_may_be_a_share_of_what_is_available),
        cmocka_unit_test(no_limit_goes_on_to_the_end_of_the_context),
        cmocka_unit_test(context_beyond_the_models_is_warned_of),
        cmocka_unit_test(bench_takes_lists_of_lengths),
        cmocka_unit_test(training_has_one_length),
        cmocka_unit_test(lines_of_json_have_a_type),
        cmocka_unit_test(a_letter_means_the_same_in_all_verbs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
