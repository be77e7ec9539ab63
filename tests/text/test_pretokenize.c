/* test_pretokenize.c: the words of texts, and where texts can be cut without changing them. */
#include <stdio.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_random.h"
#include "text/pretokenize.h"
#include "text/text_reader.h"

static int group_setup(void **state) {
    (void)state;
    random_seed_chosen();
    return 0;
}

typedef struct words {
    const char *text;
    char *out;
} words;

static mnem_status on_word(void *context, size_t begin, size_t end) {
    words *w = context;
    w->out += sprintf(w->out, "[%.*s]", (int)(end - begin), w->text + begin);
    return MNEM_OK;
}

static void assert_words(const char *name, const char *text, const char *expected) {
    mnem__pretokenizer *p;
    char out[1024] = "";
    words w = {text, out};
    assert_int_equal(mnem__pretokenizer_create(mnem__pre_scheme_find(name), &p), MNEM_OK);
    assert_int_equal(mnem__pretokenize(p, text, strlen(text), on_word, &w), MNEM_OK);
    assert_string_equal(out, expected);
    mnem__pretokenizer_destroy(p);
}

static void patterns_cut_as_published(void **state) {
    (void)state;
    assert_words("gpt-2", "I'll  go 1234\n\nnow!?", "[I]['ll][ ][ go][ 1234][\n][\n][now][!?]");
    assert_words("llama-bpe", "I'LL  go 1234\n\nnow!?\n",
                 "[I]['LL][ ][ go][ ][123][4][\n\n][now][!?\n]");
    assert_words("qwen2", "it's 12 $x", "[it]['s][ ][1][2][ $][x]");
    assert_words("default", "a+b, 12345 = (x)", "[a][+][b][,][ ][123][45][ ][=][ ][(][x][)]");
    assert_words("smollm", "it's 123 ok", "[it]['s][ ][1][2][3][ ok]");
    assert_words("falcon", "a `b` 1234 <c>", "[a][ ][`][b][`][ ][123][4][ ][<][c][>]");
    assert_words("qwen35", "e\xCC\x81t\xC3\xA9 12", "[e\xCC\x81t\xC3\xA9][ ][1][2]");
    assert_words("tekken", "aBc DEFgh's //\n/", "[a][Bc][ DEFgh]['s][ //\n/]");
    assert_words("gpt-4o", "aBc'S 1234", "[a][Bc'S][ ][123][4]");
    assert_words("deepseek-llm", "ab  c!\n12  ", "[ab][ ][ c][!][\n][12][  ]");
    assert_words("deepseek-coder", "a\nb, 12", "[a][\n][b][,][ ][1][2]");
    assert_words("deepseek-v3", "x12345 !foo\n\n", "[x][123][45][ !][foo][\n\n]");
    assert_words("bloom", "a b, (c) d", "[a][ b][, (][c][)][ d]");
    assert_words("chameleon", "IMGIMGABZ<sentinel:1>a    b",
                 "[IMGIMGABZ][<][sentinel][:][1][>][a][    ][b]");
    assert_words("tiny_aya", "ab1234567 12\n345", "[ab][1][234][567][ ][12][\n][345]");
    assert_words("afmoe", "x  12345.", "[x][ ][ ][12][345][.]");
    assert_words("exaone-moe", "go to it's  a (b c) 12 d\n\n./x",
                 "[go to it]['s][ ][ a][ (][b c][)][ ][1][2][ d][\n\n][./][x]");
    assert_words("kimi-k2", "a\xE4\xB8\xAD\xE6\x96\x87word's 1234",
                 "[a][\xE4\xB8\xAD\xE6\x96\x87][word's][ ][123][4]");
    assert_words("jais-2", "a            b       \n  ", "[a][        ][  ][ ][ b][       \n][  ]");
    assert_words("youtu", "it's 12", "[it's][ ][1][2]");
    assert_words("spark2_5", "hi!\n\n12", "[hi][!][\n][\n][1][2]");
    assert_words("gpt-2", "\xC2\x85\xC2\xA0\xE2\x80\x8Bx", "[\xC2\x85][\xC2\xA0][\xE2\x80\x8B][x]");
}

typedef struct borders {
    size_t at[4096];
    size_t base, n;
} borders;

/* Calls with each name that is known. */
static void for_each_name(void (*check)(const char *name)) {
    const char *names;
    for (size_t i = 0; (names = mnem__pre_scheme_names(i)); i++)
        for (const char *at = names; *at;) {
            const size_t n = strcspn(at, " ");
            char name[64];
            snprintf(name, sizeof name, "%.*s", (int)n, at);
            check(name);
            at += n + (at[n] == ' ');
        }
}

static void check_name(const char *name) {
    const mnem__pre_scheme *scheme = mnem__pre_scheme_find(name);
    mnem__pretokenizer *p;
    assert_non_null(scheme);
    assert_true(strlen(name) < 32); /* what a tokenizer has room for */
    assert_int_equal(scheme->patterns[0] == NULL, scheme->marked);
    if (scheme->marked) return;
    assert_int_equal(mnem__pretokenizer_create(scheme, &p), MNEM_OK);
    mnem__pretokenizer_destroy(p);
}

static void every_name_has_patterns_that_compile(void **state) {
    (void)state;
    for_each_name(check_name);
}

static void only_whole_names_are_known(void **state) {
    (void)state;
    static const char *const unknown[] = {"",          " ",      "gpt",  "gpt-",
                                          "gpt-2 mpt", " gpt-2", "mpt ", "2"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_null(mnem__pre_scheme_find(unknown[i]));
    assert_ptr_equal(mnem__pre_scheme_find("olmo"), mnem__pre_scheme_find("gpt-2"));
}

static mnem_status on_border(void *context, size_t begin, size_t end) {
    borders *b = context;
    (void)begin;
    assert_true(b->n < 4096);
    b->at[b->n++] = b->base + end;
    return MNEM_OK;
}

static size_t random_text(char *out, size_t n) {
    static const char *const parts[] = {"a",
                                        "Word",
                                        "don't",
                                        "'s",
                                        "'LL",
                                        "7",
                                        "123456",
                                        " ",
                                        "  ",
                                        "\n",
                                        "\n\n",
                                        "\r\n",
                                        "\t",
                                        "!",
                                        "..",
                                        "\xC3\xA4",
                                        "\xCC\x81",
                                        "\xE3\x80\x80",
                                        "\xC2\xA0",
                                        "$",
                                        "\xE2\x80\xA8",
                                        "_",
                                        "\xE9\x81\x93",
                                        "\xE3\x80\x82",
                                        "\xF0\x9F\x98\x80",
                                        "\xC2\x85",
                                        "\v",
                                        "x\ny"};
    size_t at = 0;
    for (;;) {
        const char *part = parts[random_below(sizeof parts / sizeof *parts)];
        if (at + strlen(part) > n) return at;
        memcpy(out + at, part, strlen(part));
        at += strlen(part);
    }
}

/* Cutting at every place that mnem__text_cut finds from behind changes no word. */
static void check_cuts(const char *name) {
    mnem__pretokenizer *p;
    size_t cuts = 0;
    if (mnem__pre_scheme_find(name)->marked) return;
    assert_int_equal(mnem__pretokenizer_create(mnem__pre_scheme_find(name), &p), MNEM_OK);
    for (int round = 0; round < 100; round++) {
        char text[200];
        borders whole = {0}, parts = {0};
        const size_t n = random_text(text, sizeof text);
        const size_t seen = n / 2 + random_below((uint32_t)(n / 2)); /* what a buffer holds */
        const size_t cut = mnem__text_cut(text, seen);
        if (cut == 0) continue;
        assert_true(cut < seen);
        assert_int_equal(mnem__pretokenize(p, text, n, on_border, &whole), MNEM_OK);
        assert_int_equal(mnem__pretokenize(p, text, cut, on_border, &parts), MNEM_OK);
        parts.base = cut;
        assert_int_equal(mnem__pretokenize(p, text + cut, n - cut, on_border, &parts), MNEM_OK);
        if (whole.n != parts.n)
            print_message("%s: %.*s|%.*s\n", name, (int)cut, text, (int)(n - cut), text + cut);
        assert_int_equal(whole.n, parts.n);
        assert_memory_equal(whole.at, parts.at, whole.n * sizeof *whole.at);
        cuts++;
    }
    assert_true(cuts > 70);
    mnem__pretokenizer_destroy(p);
}

static void cuts_change_no_word(void **state) {
    (void)state;
    for_each_name(check_cuts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_cut_as_published),
        cmocka_unit_test(every_name_has_patterns_that_compile),
        cmocka_unit_test(only_whole_names_are_known),
        cmocka_unit_test(cuts_change_no_word),
    };
    return cmocka_run_group_tests(tests, group_setup, NULL);
}
