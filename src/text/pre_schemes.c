/* pre_schemes.c: the patterns by which the tokenizers of known models cut text, by the names that
 * files give them (tokenizer.ggml.pre).
 *
 * The idea: nearly all are variants of two: GPT-2's and that of OpenAI's cl100k. They differ in how
 * many digits go together, in what of a contraction is a word, and in what is cut before.
 * White space is Unicode's White_Space. Where files and llama.cpp's reading of a published pattern
 * differ, its reading is followed, since files are made and used with it: letters other than a to z
 * count as upper and as lower case (tekken, gpt-4o), or all letters do (tiny_aya, youtu), and wide
 * spaces aren't punctuation (deepseek).
 * Cost: no pattern looks at more than it takes but for one character, and none steps back over more
 * than one run, so that cutting is linear (see pretokenize.c). */
#include "text/pre_schemes.h"

#include <string.h>

#define SPACE     "\\p{White_Space}"
#define NOT_SPACE "\\P{White_Space}"
#define OTHER     " ?[^" SPACE "\\p{L}\\p{N}]+"
#define LINES     SPACE "*[\\r\\n]+"
#define SPACES    SPACE "+(?!" NOT_SPACE ")|" SPACE "+"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|" OTHER "|" SPACES

/* Without regard to case, but not to that of U+017F. */
#define SUFFIX    "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"
#define NO_LETTER "[^\\r\\n\\p{L}\\p{N}]?"
#define CL100K_OF(word, digits, other)                                                             \
    SUFFIX "|" NO_LETTER word "|" digits "|" other "[\\r\\n]*|" LINES "|" SPACES
#define CL100K(digits) CL100K_OF("\\p{L}+", digits, OTHER)

/* Words begin anew where lower case goes over into upper case. */
#define UPPER                   "[^\\P{L}a-z]"
#define LOWER                   "[^\\P{L}A-Z]"
#define CASED(tail)             CASED_BY(UPPER "*" LOWER "+" tail, UPPER "+" LOWER "*" tail)
#define CASED_BY(low, high)     NO_LETTER low "|" NO_LETTER high
#define O200K(tail, digits)     O200K_OF(CASED(tail), digits)
#define O200K_OF(words, digits) words "|" digits "|" OTHER "[\\r\\n/]*|" LINES "|" SPACES
#define MAY_BE(part)            "(?:" part ")?"
/* With the marks of letters, but any case. */
#define MARKED_WORDS            NO_LETTER "[\\p{L}\\p{M}]+" MAY_BE(SUFFIX)
#define NEITHER_LETTER_NOR_MARK "\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}"
#define MARKED_UPPER            "[^a-z" NEITHER_LETTER_NOR_MARK "]"
#define MARKED_LOWER            "[^A-Z" NEITHER_LETTER_NOR_MARK "]"
#define MARKED_CASED                                                                               \
    CASED_BY(MARKED_UPPER "*" MARKED_LOWER "+" MAY_BE(SUFFIX),                                     \
             MARKED_UPPER "+" MARKED_LOWER "*" MAY_BE(SUFFIX))

/* Of Chinese, Japanese and Korean, but no white space. */
#define IDEOGRAPHS "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{30ff}]+"
#define EASTERN                                                                                    \
    "[\\x{800}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}"                 \
    "\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{9fa5}\\x{ac00}-\\x{d7ff}]+"
#define DEEPSEEK_WORDS                                                                             \
    "[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+"
#define DEEPSEEK DEEPSEEK_WORDS "[\\r\\n]*|" LINES "|" SPACES
#define SPARK    DEEPSEEK_WORDS "|[\\r\\n]|" SPACES
/* Cased letters of the scripts that had them when the pattern was written out. */
#define DEEPSEEK_LETTERS                                                                           \
    SPACE "?[^\\P{L&}\\x{560}-\\x{588}\\x{10c7}-\\x{10ff}\\x{1c80}-\\x{1c8f}\\x{2d00}-\\x{2d2d}"   \
          "\\x{a790}-\\x{a7fa}\\x{ab30}-\\x{ab68}\\x{10570}-\\x{105bc}\\x{10d40}-\\x{10d85}"       \
          "\\x{16e40}-\\x{16eff}\\x{1d400}-\\x{1d7cb}\\x{1df00}-\\x{1dfff}]+"
#define DEEPSEEK_SIGNS                                                                             \
    SPACE "?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3001}\\x{3002}]+"

#define BLOOM_SIGNS "(|.,!?)\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c}"
#define BLOOM       " ?[^" SPACE BLOOM_SIGNS "]+"

#define RUNS_OF_LINES "[^\\n]+|\\n+"
/* Most of Qwen 2's, with English suffixes left where they are. */
#define UFAKZEKA NO_LETTER "\\p{L}+|\\p{N}|" OTHER "[\\r\\n]*|" LINES "|" SPACES
#define SEED_CODER                                                                                 \
    SUFFIX "|" NO_LETTER "\\p{L}+|\\p{N}| ?[^" SPACE "\\p{L}\\p{N}\\r\\n]+|" LINES "|" SPACES
#define BAILING SUFFIX "|" NO_LETTER "\\p{L}+|\\p{N}|" OTHER "[\\r\\n]*|" SPACE "*[\\r\\n]|" SPACES
/* Words together with single spaces between them, and the marks of their letters. */
#define PHRASES "\\p{L}[\\p{L}\\p{M}]*+(?: \\p{L}[\\p{L}\\p{M}]*+)*+"
#define EXAONE_MOE                                                                                 \
    SUFFIX "|" NO_LETTER PHRASES "|\\p{N}|" OTHER "[\\r\\n/]?|" SPACE "*[\\r\\n]|" SPACES

/* Numbers by their thousands, the first digits left with what stands before them: up to the end of
 * a number, then what is whole groups of three behind its first digits, then these. */
#define THOUSANDS                                                                                  \
    "\\P{N}*+(*COMMIT)\\p{N}++", "(?<=\\p{N})(?:\\p{N}{3})++\\z", "(?<!\\P{N})\\p{N}{3}"

#define HAN_SIGNS                                                                                  \
    "\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{20000}-\\x{2a6df}\\x{2a700}-\\x{2ceaf}"             \
    "\\x{2ceb0}-\\x{2ebef}\\x{f900}-\\x{faff}\\x{2f800}-\\x{2fa1f}"
#define KIMI                                                                                       \
    "[" HAN_SIGNS "]+|" NO_LETTER "[^\\P{L}" HAN_SIGNS                                             \
    "]+" MAY_BE(SUFFIX) "|\\p{N}{1,3}|" OTHER "[\\r\\n]*|" LINES "|" SPACES
/* Scripts of Asia, and what lies between Han and its compatibility forms. */
#define ASIAN                                                                                      \
    "[\\x{3400}-\\x{4dbf}\\x{4e00}-\\x{faff}\\x{3040}-\\x{30ff}\\x{ff65}-\\x{ff9f}"                \
    "\\x{2f00}-\\x{2fdf}\\x{e40}-\\x{eff}\\x{1780}-\\x{17ff}\\x{1000}-\\x{109f}"                   \
    "\\x{aa60}-\\x{aa7f}\\x{a9e0}-\\x{a9ff}\\x{1100}-\\x{11ff}]+"
#define YOUTU_SCRIPTS                                                                              \
    "[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]+|[\\x{ff01}\\x{2026}\\x{201c}\\x{201d}\\x{2018}"     \
    "\\x{2019}\\x{2014}\\x{ff1a}\\x{ff1b}\\x{ff0c}\\x{3001}-\\x{303f}\\x{fe30}-\\x{fe4f}]+|"       \
    "[\\x{3105}-\\x{312f}]+|" IDEOGRAPHS
/* Runs of spaces by powers of two: of what cl100k's cut, the pieces that are nothing else. (In one
 * pattern, each power would look for a line's end in the whole run.) */
#define BLANK        "[^\\P{White_Space}\\r\\n]"
#define BLANKS_OF(n) "|" BLANK "{" n "}"
#define BLANKS_BY_POWERS                                                                           \
    "\\A" BLANK "*+(?!" BLANK ")(?s:.++)" BLANKS_OF("512") BLANKS_OF("256") BLANKS_OF("128")       \
        BLANKS_OF("64") BLANKS_OF("32") BLANKS_OF("16") BLANKS_OF("8") BLANKS_OF("4")              \
            BLANKS_OF("1,2")

static const mnem__pre_scheme schemes[] = {
    {.names = "default", .patterns = {"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {.names = "gpt-2 mpt olmo jais trillion granite-docling phi-2 gigachat a.x-4.0 mellum "
              "modern-bert exaone4 roberta-bpe jina-es jina-de jina-v1-en jina-v2-es jina-v2-de "
              "jina-v2-code",
     .patterns = {GPT2}},
    {.names = "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2",
     .patterns = {"\\p{N}", GPT2}},
    {.names = "falcon", .patterns = {"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {.names = "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     .patterns = {CL100K("\\p{N}{1,3}")},
     .whole_words = true,
     .bos = true},
    {.names = "dbrx smaug-bpe chatglm-bpe", .patterns = {CL100K("\\p{N}{1,3}")}},
    {.names = "glm4 glm5", .patterns = {CL100K("\\p{N}{1,3}")}, .whole_words = true},
    {.names = "minicpm5", .patterns = {"\\p{N}{1,3}", CL100K("\\p{N}+")}, .whole_words = true},
    {.names = "qwen2 deepseek-r1-qwen stablelm2 hunyuan solar-open megrez kormo f2llmv2 grok-2",
     .patterns = {CL100K("\\p{N}")}},
    {.names = "laguna", .patterns = {RUNS_OF_LINES, CL100K("\\p{N}")}},
    {.names = "qwen35",
     .patterns = {CL100K_OF("[\\p{L}\\p{M}]+", "\\p{N}", " ?[^" SPACE "\\p{L}\\p{M}\\p{N}]+")}},
    {.names = "ufakzeka", .patterns = {UFAKZEKA}},
    {.names = "seed-coder", .patterns = {SEED_CODER}},
    {.names = "bailingmoe bailingmoe2 llada-moe", .patterns = {BAILING}},
    {.names = "exaone-moe", .patterns = {EXAONE_MOE}},
    {.names = "tekken", .patterns = {O200K("", "\\p{N}")}, .whole_words = true, .bos = true},
    {.names = "gpt-4o llama4 kanana2 talkie minimax-m2",
     .patterns = {O200K(MAY_BE(SUFFIX), "\\p{N}{1,3}")}},
    {.names = "granite-embed-multi-97m",
     .patterns = {O200K_OF(MARKED_CASED, "\\p{N}{1,3}")},
     .whole_words = true},
    {.names = "tiny_aya cohere2moe",
     .patterns = {THOUSANDS, O200K_OF(MARKED_WORDS, "\\p{N}{1,3}")}},
    {.names = "youtu",
     .patterns = {YOUTU_SCRIPTS, O200K_OF(MARKED_WORDS, "\\p{N}")},
     .whole_words = true},
    {.names = "jais-2", .patterns = {CL100K("\\p{N}{1,3}"), BLANKS_BY_POWERS}},
    {.names = "kimi-k2", .patterns = {KIMI}},
    {.names = "afmoe", .patterns = {THOUSANDS, ASIAN, DEEPSEEK}},
    {.names = "spark2_5", .patterns = {"\\p{N}{1,3}", IDEOGRAPHS, SPARK, "\\p{N}"}},
    {.names = "deepseek-llm",
     .patterns = {"[\\r\\n]", DEEPSEEK_LETTERS, DEEPSEEK_SIGNS, "(?<!" SPACE ")" SPACE "+\\z",
                  EASTERN, "\\p{N}+"}},
    {.names = "deepseek-coder",
     .patterns = {"[\\r\\n]", SPACE "?\\p{L}+", SPACE "?\\p{P}+", EASTERN, "\\p{N}"}},
    {.names = "deepseek-v3 hunyuan-dense joyai-llm hy_v4",
     .patterns = {"\\p{N}{1,3}", IDEOGRAPHS, DEEPSEEK}},
    {.names = "bloom poro-chat gpt3-finnish", .patterns = {BLOOM}},
    {.names = "viking", .patterns = {BLOOM, "\\p{N}"}},
    {.names = "chameleon",
     .patterns = {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", "\\p{N}",
                  "[\\p{P}!-/:-@\\[-`{-~]", GPT2},
     .bos = true},
    {.names = "gemma4 granite-embed-multi-311m",
     .marked = true,
     .force_bos = true,
     .whole_words = true},
    {.names = "sarvam-moe", .marked = true},
};

/* Whether name is one of names. */
static bool has_name(const char *names, const char *name) {
    const size_t n = strlen(name);
    for (const char *at = names; at; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, name, n) == 0 && (at[n] == 0 || at[n] == ' ')) return true;
    }
    return false;
}

const mnem__pre_scheme *mnem__pre_scheme_find(const char *name) {
    if (*name == 0 || strchr(name, ' ')) return NULL;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (has_name(schemes[i].names, name)) return &schemes[i];
    return NULL;
}

const char *mnem__pre_scheme_names(size_t index) {
    return index < sizeof schemes / sizeof *schemes ? schemes[index].names : NULL;
}
