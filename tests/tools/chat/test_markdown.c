/* test_markdown.c: an answer drawn on a terminal: what is seen of it, and that nothing depends on
 * how the text comes in parts. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_random.h"
#include "verbs/chat/markdown.h"

#define ACCENT "\xcc\x81"     /* U+0301, no column */
#define WIDE   "\xe4\xb8\xad" /* U+4E2D, two columns */

/* ---- drawing ---- */

enum { OUT_BYTES = 1 << 16 };
typedef struct drawing {
    char text[OUT_BYTES];
    size_t n;
} drawing;

static void on_out(void *context, const char *text, size_t length) {
    drawing *d = context;
    assert_true(d->n + length < OUT_BYTES);
    memcpy(d->text + d->n, text, length);
    d->n += length;
    d->text[d->n] = 0;
}

/* In parts of `part` bytes; 0: of random ones. */
static void draw_text(const char *text, int columns, bool markup, size_t part, drawing *d) {
    markdown m = {.wrap = {.out = on_out, .context = d, .columns = columns}, .markup = markup};
    const size_t n = strlen(text);
    *d->text = 0;
    d->n = 0;
    for (size_t at = 0, length; at < n; at += length) {
        length = part ? part : 1 + (size_t)random_below(7);
        if (length > n - at) length = n - at;
        markdown_write(&m, text + at, length);
    }
    markdown_end(&m);
}

/* Without escape sequences, of which only those for style may be there. */
static void see(const drawing *d, char *seen) {
    for (const char *at = d->text; *at; at++) {
        if (*at != '\033') {
            assert_true((unsigned char)*at >= ' ' || *at == '\n' || *at == '\t');
            *seen++ = *at;
            continue;
        }
        assert_int_equal(at[1], '[');
        at += 2 + strspn(at + 2, "0123456789;");
        assert_int_equal(*at, 'm');
    }
    *seen = 0;
}

/* Each run of spaces and line ends as one space; of the text's ends none. */
static void fold(char *text) {
    char *out = text;
    for (const char *at = text; *at;) {
        const size_t blanks = strspn(at, " \n\t"), word = strcspn(at + blanks, " \n\t");
        if (blanks && word && out > text) *out++ = ' ';
        memmove(out, at + blanks, word);
        out += word;
        at += blanks + word;
    }
    *out = 0;
}

static void assert_seen(const char *text, const char *expected) {
    static drawing d;
    char seen[4096];
    draw_text(text, 0, true, 1, &d);
    see(&d, seen);
    if (strcmp(seen, expected) != 0) fail_msg("%s\nis seen as\n%s\nnot\n%s", text, seen, expected);
}

/* ---- examples ---- */

static void marks_become_styles(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"a **b** c", "a \033[0;1mb \033[0mc"},
        {"a *b* c", "a \033[0;3mb \033[0mc"},
        {"a _b_ c", "a \033[0;3mb \033[0mc"},
        {"***b***", "\033[0;1;3mb\033[0m"},
        {"a `b*c*` d", "a \033[0;36mb*c* \033[0md"},
        {"**a `b` c**", "\033[0;1ma \033[0;1;36mb \033[0;1mc\033[0m"},
        {"**a *b***", "\033[0;1ma \033[0;1;3mb\033[0m"},
        {"# A *b*\nc", "\033[0;1;4mA \033[0;1;3;4mb\n\033[0mc"},
        {"## A\nc", "\033[0;1mA\n\033[0mc"},
        {"```c\nint x;\n```\nd", "\033[0;36mint x;\n\033[0md"},
    };
    static drawing d;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        draw_text(cases[i][0], 0, true, 1, &d);
        assert_string_equal(d.text, cases[i][1]);
        if (i == 9) continue; /* fences aren't seen */
        draw_text(cases[i][0], 0, false, 1, &d);
        assert_string_equal(d.text, cases[i][0]);
    }
}

static void what_is_no_mark_stays(void **state) {
    (void)state;
    static const char *const same[] = {
        "2 * 3 * 4",
        "2**10 is 1024, 2**3",
        "*args and **kwargs",
        "snake_case_name",
        "__init__",
        "a ` b",
        "**open",
        "`open",
        "char *p, *q;",
        "*.c and *.h",
        "***",
        "---",
        "#hashtag",
        "#include <x>",
        "1.5 litres",
        "-1 and +1",
        "a | b\n--|--",
        "> a quote",
        "[a](b) <b>c</b>",
        "~~struck~~",
        "\\(x\\) \\[y\\]",
        "####### seven",
        "``` a `` b",
        "**a\nb**",
        "1. one\n2. two",
        "10) ten",
        "C:\\dir",
        "a\\",
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) assert_seen(same[i], same[i]);
}

static void what_is_seen_has_no_marks(void **state) {
    (void)state;
    assert_seen("- one\n  * two\n+ three",
                "\xe2\x80\xa2 one\n  \xe2\x80\xa2 two\n\xe2\x80\xa2 three");
    assert_seen(WIDE "**" WIDE "**" WIDE, WIDE WIDE WIDE);
    assert_seen("\\*a\\* \\_b\\_ \\`c\\` \\# d", "*a* _b_ `c` # d");
    assert_seen("``a ` b``", "a ` b");
    assert_seen("~~~\n```\n**a**\n~~~\n**b**", "```\n**a**\nb");
    assert_seen("````\n```\na\n````\nb", "```\na\nb");
    assert_seen("```\n\n  a\n\tb\n``", "\n  a\n\tb\n``");
    assert_seen("1. ```sh\n", "1. ```sh\n");
    assert_seen("  ```\n  a\n  ```\n", "  a\n");
}

static void what_could_control_the_terminal_is_left_out(void **state) {
    (void)state;
    assert_seen("a\033[2Jb\x07"
                "c\rd\b\x7f"
                "e",
                "a[2Jbcde");
    assert_seen("\xc2\x9b"
                "31m",
                "31m"); /* U+009B: CSI */
    assert_seen("\xc2\x9d"
                "0;x\xc2\x9c",
                "0;x"); /* OSC, ST */
    assert_seen("a\xe2\x80\xae"
                "b\xe2\x81\xa6"
                "c",
                "abc"); /* order of writing */
    assert_seen("```\n\033]0;x\x07\n\xc2\x9b"
                "1m\n```\n",
                "]0;x\n1m\n");
    assert_seen("```\033[1m\nx\n```", "x\n");
    assert_seen("a\xff"
                "b\xe4\xb8"
                "c\xf8",
                "a\xef\xbf\xbd"
                "b\xef\xbf\xbd"
                "c\xef\xbf\xbd");
    assert_seen("a\xe4", "a\xef\xbf\xbd");
}

/* ---- lines ---- */

static void assert_lines(const char *text, int columns, const char *expected) {
    static drawing d;
    draw_text(text, columns, false, 3, &d);
    assert_string_equal(d.text, expected);
}

static void words_that_cross_the_edge_begin_a_line(void **state) {
    (void)state;
    assert_lines("aaa bbb ccc", 11, "aaa bbb ccc");
    assert_lines("aaa bbb ccc", 10, "aaa bbb\nccc");
    assert_lines("aaa bbb   ccc", 7, "aaa bbb\nccc");
    assert_lines("aaa bbbbbbbbbbbb", 5, "aaa\nbbbbb\nbbbbb\nbb");
    assert_lines("- aaa bbb\nccc ddd", 6, "- aaa\n  bbb\nccc\nddd");
    assert_lines("   aaa bbb", 8, "   aaa\n   bbb");
    assert_lines("e" ACCENT "e" ACCENT " e" ACCENT, 4, "e" ACCENT "e" ACCENT " e" ACCENT);
    assert_lines(WIDE WIDE WIDE, 5, WIDE WIDE "\n" WIDE);
    assert_lines("a" WIDE WIDE, 4, "a" WIDE "\n" WIDE);
    assert_lines(WIDE WIDE "\xe3\x80\x82", 4, WIDE "\n" WIDE "\xe3\x80\x82"); /* a full stop */
    assert_lines("```\naaa bbb ccc\n```\naaa bbb", 5, "```\naaa bbb ccc\n```\naaa\nbbb");
}

/* Columns of a text of ASCII, WIDE and ACCENT. */
static int columns_of(const char *text, size_t n) {
    int columns = 0;
    for (size_t i = 0; i < n; i++) {
        const unsigned char byte = (unsigned char)text[i];
        columns += byte < 0x80 ? 1 : byte == 0xe4 || byte == 0xe2 ? 2 - (byte == 0xe2) : 0;
    }
    return columns;
}

/* ---- random texts ---- */

/* A text of n pieces. */
static void random_text(const char *const *pieces, size_t count, int n, char *text) {
    *text = 0;
    for (int i = 0; i < n; i++) strcat(text, pieces[random_below((uint64_t)count)]);
}
#define RANDOM_TEXT(pieces, n, text) random_text(pieces, sizeof(pieces) / sizeof *(pieces), n, text)

static const char *const hostile[] = {
    "a",    "bc",      " ",   " ",        "\n", "*",    "**",   "_",    "`",     "``",       "```",
    "~~~",  "\n```\n", "#",   "# ",       "- ", "1.",   "> ",   "\\",   "\033",  "\033[1m",  WIDE,
    ACCENT, "\t",      "   ", "longword", "\r", "\xff", "\xe4", "\n- ", "\n## ", "\xc2\x9b",
};

static void parts_make_no_difference(void **state) {
    (void)state;
    static const int columns[] = {0, 12, 40};
    static drawing whole, parts;
    char text[4096], seen[OUT_BYTES];
    for (int i = 0; i < 600; i++) {
        const int wide = columns[i % 3];
        RANDOM_TEXT(hostile, 1 + (int)random_below(60), text);
        draw_text(text, wide, i % 2, strlen(text) + 1, &whole);
        see(&whole, seen);
        for (size_t part = 0; part < 4; part++) {
            draw_text(text, wide, i % 2, part, &parts);
            assert_string_equal(parts.text, whole.text);
        }
    }
}

static void every_split_makes_no_difference(void **state) {
    (void)state;
    static const char text[] =
        "# Title\n\nSome **bold `code` text** and *it*, 2 * 3.\n\n- one\n- two words\n\n```c\n"
        "int main(void) {\n\treturn 0;\n}\n```\n" WIDE WIDE " e" ACCENT " `x` **open";
    static drawing whole, parts;
    const size_t n = sizeof text - 1;
    draw_text(text, 20, true, n, &whole);
    for (size_t at = 1; at < n; at++) {
        markdown m = {.wrap = {.out = on_out, .context = &parts, .columns = 20}, .markup = true};
        parts.n = 0;
        markdown_write(&m, text, at);
        markdown_write(&m, text + at, n - at);
        markdown_end(&m);
        assert_string_equal(parts.text, whole.text);
    }
}

static void text_without_marks_is_seen_whole(void **state) {
    (void)state;
    static const char *const pieces[] = {"a",  "bc",        " ",        " ", "\n",  ".",   ",",
                                         WIDE, "x\xcc\x81", "longword", "(", "1 2", "\n\n"};
    static drawing d;
    char text[4096], seen[OUT_BYTES];
    for (int i = 0; i < 300; i++) {
        RANDOM_TEXT(pieces, 1 + (int)random_below(200), text);
        draw_text(text, 40, true, 0, &d);
        see(&d, seen);
        for (const char *line = seen; *line; line += line[0] != 0) {
            const size_t n = strcspn(line, "\n");
            assert_in_range(columns_of(line, n), 0, 40);
            line += n;
            if (!*line) break;
        }
        draw_text(text, 0, true, 0, &d);
        see(&d, seen);
        fold(seen);
        fold(text);
        assert_string_equal(seen, text);
    }
}

/* Whatever the text is, where markup isn't drawn. */
static void text_as_written_is_seen_whole(void **state) {
    (void)state;
    static const char *const pieces[] = {"a",  " ",   "\n",      "*",   "**", "_",
                                         "`",  "```", "\n```\n", "# ",  "- ", "1. ",
                                         "> ", "\\",  WIDE,      "~~~", "\t"};
    static drawing d;
    char text[4096], seen[OUT_BYTES];
    for (int i = 0; i < 300; i++) {
        RANDOM_TEXT(pieces, 1 + (int)random_below(100), text);
        draw_text(text, 0, false, 0, &d);
        see(&d, seen);
        fold(seen);
        fold(text);
        assert_string_equal(seen, text);
    }
}

/* Documents whose visible text is known because they are made of it. */
static void marks_are_all_that_is_missing(void **state) {
    (void)state;
    static const char *const around[][2] = {{"", ""},       {"**", "**"}, {"*", "*"},  {"`", "`"},
                                            {"***", "***"}, {"_", "_"},   {"``", "``"}};
    static const char *const begin[] = {"", "# ", "### ", "1. ", "", "> "};
    static drawing d;
    char text[8192], expected[8192], seen[OUT_BYTES];
    for (int i = 0; i < 200; i++) {
        size_t n = 0, m = 0;
        for (int line = 0; line < 8; line++) {
            const char *first = begin[random_below(6)];
            const bool heading = *first == '#';
            n += (size_t)sprintf(text + n, "%s", first);
            m += (size_t)sprintf(expected + m, "%s", heading ? "" : first);
            for (int k = 0; k < 4; k++) {
                const char *const *mark = around[random_below(7)];
                const int word = (int)random_below(1000);
                n += (size_t)sprintf(text + n, "%sw%d and%s ", mark[0], word, mark[1]);
                m += (size_t)sprintf(expected + m, "w%d and ", word);
            }
            n += (size_t)sprintf(text + n, "\n");
            m += (size_t)sprintf(expected + m, "\n");
        }
        draw_text(text, 0, true, 0, &d);
        see(&d, seen);
        fold(seen);
        fold(expected);
        assert_string_equal(seen, expected);
    }
}

/* A mark whose end doesn't come is held, but not for ever. */
static void a_long_open_mark_is_written(void **state) {
    (void)state;
    static drawing d;
    markdown m = {.wrap = {.out = on_out, .context = &d}, .markup = true};
    d.n = 0;
    markdown_write(&m, "**", 2);
    for (int i = 0; i < 1000; i++) markdown_write(&m, "a ", 2);
    assert_true(d.n > 2000 - MARKDOWN_HELD - 4);
    markdown_end(&m);
    assert_memory_equal(d.text, "**a a a ", 8);
}

static void a_pause_ends_the_style(void **state) {
    (void)state;
    static drawing d;
    markdown m = {.wrap = {.out = on_out, .context = &d}, .markup = true};
    d.n = 0;
    markdown_write(&m, "```\nab", 6);
    markdown_pause(&m);
    assert_string_equal(d.text, "\033[0;36mab\033[0m");
    markdown_write(&m, "c", 1);
    markdown_end(&m);
    assert_string_equal(d.text, "\033[0;36mab\033[0m\033[0;36mc\033[0m");
}

static int use_utf8(void **state) {
    (void)state;
    random_seed_chosen();
    return setlocale(LC_CTYPE, "C.UTF-8") ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_become_styles),
        cmocka_unit_test(what_is_no_mark_stays),
        cmocka_unit_test(what_is_seen_has_no_marks),
        cmocka_unit_test(what_could_control_the_terminal_is_left_out),
        cmocka_unit_test(words_that_cross_the_edge_begin_a_line),
        cmocka_unit_test(parts_make_no_difference),
        cmocka_unit_test(every_split_makes_no_difference),
        cmocka_unit_test(text_without_marks_is_seen_whole),
        cmocka_unit_test(text_as_written_is_seen_whole),
        cmocka_unit_test(marks_are_all_that_is_missing),
        cmocka_unit_test(a_long_open_mark_is_written),
        cmocka_unit_test(a_pause_ends_the_style),
    };
    return cmocka_run_group_tests(tests, use_utf8, NULL);
}
