/* pre_definitions.c: the names of pre-tokenizers, by what tokenizer.json defines.
 *
 * The idea: a definition is written down in one line a step, and that text is looked for in a
 * table. What isn't there is refused: a name that nearly fits would cut some words differently, and
 * nobody would see it. What stands in one row is cut alike; which of its names a family's files
 * have says hf_families.c.
 *
 *     /REGEX/        Split: its matches are words (carriage return and line feed as \r and \n)
 *     digits         Digits; digits1: each by itself
 *     punctuation    Punctuation, in runs
 *     gpt2           ByteLevel with its own pattern; without one it is no step */
#include <stdio.h>

#include "model/import/hf_vocab.h"

enum { DEFINITION_MAX = 2048 };

#define SUFFIX "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define OTHER  " ?[^\\s\\p{L}\\p{N}]+"
#define SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CL100K(digits)                                                                             \
    "/" SUFFIX "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "|" OTHER "[\\r\\n]*|" SPACES "/\n"
#define HIGH      "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOW       "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define NO_LETTER "[^\\r\\n\\p{L}\\p{N}]?"
#define O200K(tail, digits)                                                                        \
    "/" NO_LETTER HIGH "*" LOW "+" tail "|" NO_LETTER HIGH "+" LOW "*" tail "|" digits "|" OTHER   \
    "[\\r\\n/]*|" SPACES "/\n"
#define DEEPSEEK3                                                                                  \
    "/\\p{N}{1,3}/\n/[一-龥぀-ゟ゠-ヿ]+/\n/[!\"#$%&'()*+,\\-./"                              \
    ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"                                                          \
    "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES "/\n"
#define DEEPSEEK_CODER                                                                             \
    "/[\\r\\n]/\n/\\s?\\p{L}+/\n/\\s?\\p{P}+/\n/[一-龥ࠀ-一가-퟿]+/\ndigits1\n"
/* deepseek-llm, and V2 of it. */
/* clang-format off */
#define DEEPSEEK_LETTERS \
    "/\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-" \
    "ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-" \
    "ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌ" \
    "ῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-" \
    "ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯ" \
    "ꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻" \
    "𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+/\n"
/* clang-format on */
#define DEEPSEEK_LLM                                                                               \
    "/[\\r\\n]/\n" DEEPSEEK_LETTERS                                                                \
    "/\\s?[!-/:-~！-／：-～‘-‟　-。]+/\n/\\s+$/\n/[一-龥ࠀ-一가-퟿]+/\ndigits1\n"

typedef enum whole {
    ANY,
    WHOLE,
    JOINED
} whole; /* words that are tokens aren't joined from bytes */

static const struct {
    const char *definition, *names;
    whole whole;
} rows[] = {
    {"gpt2\n", "gpt-2 exaone4", ANY},
    {"digits1\ngpt2\n", "starcoder smollm refact command-r", ANY},
    {"punctuation\ngpt2\ndigits\n/[0-9][0-9][0-9]/\n", "falcon", ANY},
    {CL100K("\\p{N}{1,3}"), "llama-bpe glm4 lfm2", WHOLE},
    {CL100K("\\p{N}{1,3}"), "dbrx chatglm-bpe smaug-bpe", JOINED},
    {CL100K("\\p{N}"), "qwen2 hunyuan", ANY},
    {"/" SUFFIX
     "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES
     "/\n",
     "qwen35", ANY},
    {"/" SUFFIX "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" SPACES
     "/\n",
     "seed-coder", ANY},
    {"/'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|"
     "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+/\n",
     "bailingmoe bailingmoe2", ANY},
    {"/" SUFFIX "|" NO_LETTER "(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}|" OTHER
     "[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+/\n",
     "exaone-moe", ANY},
    {O200K("", "\\p{N}"), "tekken", ANY},
    {O200K(SUFFIX "?", "\\p{N}{1,3}"), "gpt-4o minimax-m2", ANY},
    {"/\\d{1,3}(?=(?:\\d{3})*\\b)/\n" O200K(SUFFIX "?", "\\p{N}{1,3}"), "tiny_aya cohere2moe", ANY},
    {DEEPSEEK3, "deepseek-v3 hunyuan-dense", ANY},
    {DEEPSEEK_CODER, "deepseek-coder", ANY},
    {DEEPSEEK_LLM, "deepseek-llm", ANY},
};

/* ---- a definition in lines ---- */

typedef struct lines {
    char text[DEFINITION_MAX];
    size_t used;
    char unknown[64]; /* the step that no line is for */
} lines;

static void add(lines *l, const char *text) {
    for (; *text && l->used + 3 < sizeof l->text; text++) {
        if (*text == '\r' || *text == '\n') l->text[l->used++] = '\\';
        l->text[l->used++] = *text;
        if (*text == '\r') l->text[l->used - 1] = 'r';
        if (*text == '\n') l->text[l->used - 1] = 'n';
    }
    l->text[l->used] = 0;
}

static void end_line(lines *l) {
    if (l->used + 1 < sizeof l->text) l->text[l->used++] = '\n';
    l->text[l->used] = 0;
}

static void add_line(lines *l, const char *text) {
    add(l, text);
    end_line(l);
}

static void not_known(lines *l, const char *what) {
    if (!*l->unknown) snprintf(l->unknown, sizeof l->unknown, "%s", what);
}

/* Matches are words, or (Removed, inverted) what isn't a match goes, where all is matched. */
static void add_split(lines *l, const mnem__node *step) {
    const char *regex =
        mnem__node_text(mnem__node_get(mnem__node_get(step, "pattern"), "Regex"), "");
    const char *behavior = mnem__node_text(mnem__node_get(step, "behavior"), "");
    const bool inverted = mnem__node_true(mnem__node_get(step, "invert"));
    const bool isolated = strcmp(behavior, "Isolated") == 0 && !inverted;
    if (!*regex || (!isolated && !(strcmp(behavior, "Removed") == 0 && inverted))) {
        not_known(l, "Split");
        return;
    }
    add(l, "/");
    add(l, regex);
    add_line(l, "/");
}

static void add_step(lines *l, const mnem__node *step) {
    const char *type = mnem__node_text(mnem__node_get(step, "type"), "?");
    const mnem__node *own = mnem__node_get(step, "use_regex");
    if (strcmp(type, "Split") == 0) {
        add_split(l, step);
    } else if (strcmp(type, "Digits") == 0) {
        add_line(l,
                 mnem__node_true(mnem__node_get(step, "individual_digits")) ? "digits1" : "digits");
    } else if (strcmp(type, "Punctuation") == 0 &&
               mnem__node_is(mnem__node_get(step, "behavior"), "Contiguous")) {
        add_line(l, "punctuation");
    } else if (strcmp(type, "ByteLevel") == 0) {
        if (mnem__node_true(mnem__node_get(step, "add_prefix_space")))
            not_known(l, "ByteLevel with add_prefix_space");
        if (!own || mnem__node_true(own)) add_line(l, "gpt2");
    } else {
        not_known(l, type);
    }
}

static void add_definition(lines *l, const mnem__node *definition) {
    const mnem__node *list = mnem__node_get(definition, "pretokenizers");
    if (!definition) not_known(l, "none");
    if (!mnem__node_is(mnem__node_get(definition, "type"), "Sequence")) {
        add_step(l, definition);
        return;
    }
    for (const mnem__node *n = list ? list->first : NULL; n; n = n->next) add_step(l, n);
}

/* ---- its name ---- */

/* Of a row's names the one that the family's files have. */
static void choose(const char *names, const mnem__hf_family *family, char name[MNEM__PRE_NAME]) {
    for (const char *at = family->pre; at && *at; at += *at == ' ') {
        const size_t n = strcspn(at, " ");
        snprintf(name, MNEM__PRE_NAME, "%.*s", (int)n, at);
        if (mnem__hf_has_word(names, name)) return;
        at += n;
    }
    snprintf(name, MNEM__PRE_NAME, "%.*s", (int)strcspn(names, " "), names);
}

static mnem_status refuse(const char *folder, const char *what, const char *which) {
    char text[96];
    return mnem__fail(MNEM_UNSUPPORTED,
                      "%s/tokenizer.json: %s: \"%s\" is unknown to mnem; name an equivalent "
                      "pre-tokenizer with --pretokenizer NAME, such as gpt-2, qwen2 or llama-bpe",
                      folder, what, mnem__gguf_printable(which, strlen(which), text, sizeof text));
}

/* None, or a list of none. */
static bool is_plain(const mnem__node *normalizer) {
    const mnem__node *list = mnem__node_get(normalizer, "normalizers");
    return !normalizer || (mnem__node_is(mnem__node_get(normalizer, "type"), "Sequence") && list &&
                           list->count == 0);
}

mnem_status mnem__pre_words_check(const char *folder, const mnem__hf_vocab *v,
                                  char name[MNEM__PRE_NAME]) {
    const mnem__node *ideographs = mnem__node_get(v->normalizer, "handle_chinese_chars");
    const char *normalizer = mnem__node_text(mnem__node_get(v->normalizer, "type"), "none");
    const char *pre = mnem__node_text(mnem__node_get(v->pre_tokenizer, "type"), "none");
    if (strcmp(v->continuing, "##") != 0)
        return refuse(folder, "continuing_subword_prefix", v->continuing);
    if (strcmp(normalizer, "BertNormalizer") != 0) return refuse(folder, "normalizer", normalizer);
    if (ideographs && !mnem__node_true(ideographs))
        return refuse(folder, "normalizer", "without handle_chinese_chars");
    if (strcmp(pre, "BertPreTokenizer") != 0) return refuse(folder, "pre_tokenizer", pre);
    snprintf(name, MNEM__PRE_NAME, "bert-bge");
    return MNEM_OK;
}

mnem_status mnem__pre_definition_find(const char *folder, const mnem__hf_vocab *v,
                                      const mnem__hf_family *family, char name[MNEM__PRE_NAME]) {
    lines l = {.used = 0};
    const char *normalizer = mnem__node_text(mnem__node_get(v->normalizer, "type"), "none");
    if (!is_plain(v->normalizer) && strcmp(normalizer, "NFC") != 0)
        return refuse(folder, "normalizer", normalizer);
    add_definition(&l, v->pre_tokenizer);
    if (*l.unknown) return refuse(folder, "pre_tokenizer", l.unknown);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].definition, l.text) != 0) continue;
        if (rows[i].whole != ANY && (rows[i].whole == WHOLE) != v->ignore_merges) continue;
        choose(rows[i].names, family, name);
        return MNEM_OK;
    }
    return refuse(folder, "pre_tokenizer", l.text);
}
