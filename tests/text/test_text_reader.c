/* test_text_reader.c: text files in pieces. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text/utf8.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "text/text_reader.h"

#define MIXED MNEM_TEST_DATA "/vocabulary/mixed.txt"

static const char *path;

static int group_setup(void **state) {
    (void)state;
    path = kit_path("text");
    return 0;
}

static int group_teardown(void **state) {
    (void)state;
    unlink(path);
    return kit_folder_remove();
}

static void pieces_join_to_the_file(void **state) {
    (void)state;
    size_t n;
    char *text = read_file(MIXED, &n), buffers[2][256];
    for (size_t room = 16; room <= sizeof buffers[0]; room += 24) {
        mnem__text_reader reader;
        mnem_text piece;
        size_t at = 0;
        assert_int_equal(mnem__text_open(&reader, MIXED, room), MNEM_OK);
        for (int turn = 0;; turn = !turn) { /* the rest of one buffer goes on in the other */
            assert_int_equal(mnem__text_next(&reader, buffers[turn], &piece), MNEM_OK);
            if (piece.length == 0) break;
            assert_true(piece.length <= n - at);
            assert_memory_equal(piece.bytes, text + at, piece.length);
            /* no character is cut: the text is valid UTF-8, and so is every piece */
            assert_int_equal(mnem__utf8_invalid(piece.bytes, piece.length), piece.length);
            at += piece.length;
        }
        assert_int_equal(at, n);
        mnem__text_close(&reader);
    }
    free(text);
}

static void file_that_changes_while_it_is_read_is_noticed(void **state) {
    (void)state;
    for (int grow = 0; grow < 2; grow++) {
        char text[400], buffer[64];
        mnem__text_reader reader;
        mnem_text piece;
        mnem_status status = MNEM_OK;
        memset(text, 'x', sizeof text);
        for (size_t i = 9; i < sizeof text; i += 10) text[i] = ' ';
        write_file(path, text, sizeof text);
        assert_int_equal(mnem__text_open(&reader, path, sizeof buffer), MNEM_OK);
        assert_int_equal(mnem__text_next(&reader, buffer, &piece), MNEM_OK);
        assert_int_equal(truncate(path, grow ? 100000 : 300), 0);
        while (status == MNEM_OK && reader.bytes_done < 90000)
            status = mnem__text_next(&reader, buffer, &piece);
        assert_int_equal(status, MNEM_IO);
        assert_true(reader.bytes_done < 500);
        assert_non_null(strstr(mnem_last_error(), " changed while it was read"));
        mnem__text_close(&reader);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_join_to_the_file),
        cmocka_unit_test(file_that_changes_while_it_is_read_is_noticed),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
