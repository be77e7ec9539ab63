/* test_place_csv.c: the table of buffers: columns, gaps, errors that say where, and back to
 * text. */
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_heap.h"
#include "mnem/place.h"

static mnem_place_csv *read_text(const char *text) {
    mnem_place_csv *csv;
    if (mnem_place_csv_read(text, strlen(text), &csv) != MNEM_OK) fail_msg("%s", mnem_last_error());
    return csv;
}

static void assert_writes(const char *text, const char *expected) {
    mnem_place_csv *csv = read_text(text);
    char out[512];
    const size_t length = mnem_place_csv_write(csv, out, sizeof out);
    assert_in_range(length, 1, sizeof out - 1);
    out[length] = 0;
    assert_string_equal(out, expected);
    char part[10];
    assert_int_equal(mnem_place_csv_write(csv, part, sizeof part), length);
    assert_memory_equal(part, out, sizeof part);
    assert_int_equal(mnem_place_csv_write(csv, NULL, 0), length);
    mnem_place_csv_destroy(csv);
}

static void columns_come_in_any_order(void **state) {
    (void)state;
    mnem_place_csv *csv = read_text("size,upper,id,lower\r\n5,3,weights of b,-1\r\n\r\n6,9,,2");
    mnem_place_csv_info t;
    mnem_place_csv_info_get(csv, &t);
    assert_int_equal(t.n, 2);
    assert_int_equal(t.buffers[0].lower, -1);
    assert_int_equal(t.buffers[0].upper, 3);
    assert_int_equal(t.buffers[0].bytes, 5);
    assert_int_equal(t.buffers[0].alignment, 1);
    assert_string_equal(mnem_place_csv_id(csv, 0), "weights of b");
    assert_string_equal(mnem_place_csv_id(csv, 1), "");
    mnem_place_csv_destroy(csv);
}

/* As spreadsheets and people write it. */
static void a_mark_before_and_spaces_around_mean_nothing(void **state) {
    (void)state;
    mnem_place_csv *csv =
        read_text("\xef\xbb\xbfid, lower,upper ,\tsize\n a b , -1,3 , 5\r\nc,0, 2,6 \r\n");
    mnem_place_csv_info t;
    mnem_place_csv_info_get(csv, &t);
    assert_int_equal(t.n, 2);
    assert_int_equal(t.buffers[0].lower, -1);
    assert_int_equal(t.buffers[0].upper, 3);
    assert_int_equal(t.buffers[1].bytes, 6);
    assert_string_equal(mnem_place_csv_id(csv, 0), "a b");
    mnem_place_csv_destroy(csv);
}

static void an_end_is_the_last_moment(void **state) {
    (void)state;
    mnem_place_csv *csv = read_text("buffer_id,start,end,size,gaps\nx,0,9,5,2-3");
    mnem_place_csv_info t;
    mnem_place_csv_info_get(csv, &t);
    assert_int_equal(t.buffers[0].upper, 10);
    assert_int_equal(t.constraints[0].gaps[0].upper, 4);
    mnem_place_csv_destroy(csv);
}

static void optional_cells_become_wishes(void **state) {
    (void)state;
    mnem_place_csv *csv = read_text("id,lower,upper,size,hint,offset,alignment,gaps\n"
                                    "a,0,20,100,32,,32,10-12@8:16 3-5\n"
                                    "b,0,20,100,-1,64,,\n"
                                    "c,0,20,100,7,-1,8, 1-2 \n");
    mnem_place_csv_info t;
    mnem_place_csv_info_get(csv, &t);
    assert_true(t.constraints[0].hinted && !t.constraints[0].fixed);
    assert_int_equal(t.buffers[0].offset, 32);
    assert_int_equal(t.buffers[0].alignment, 32);
    assert_int_equal(t.constraints[0].gap_count, 2);
    assert_int_equal(t.constraints[0].gaps[0].lower, 3);
    assert_int_equal(t.constraints[0].gaps[1].window_lower, 8);
    assert_int_equal(t.constraints[0].gaps[1].window_upper, 16);
    assert_true(t.constraints[1].fixed && !t.constraints[1].hinted);
    assert_int_equal(t.buffers[1].offset, 64);
    assert_int_equal(t.buffers[1].alignment, 1);
    assert_true(t.constraints[2].hinted && !t.constraints[2].fixed);
    assert_int_equal(t.constraints[2].gap_count, 1);
    assert_int_equal(t.constraints[2].gaps[0].lower, 1);
    mnem_place_csv_destroy(csv);
}

static void what_is_written_can_be_read_again(void **state) {
    (void)state;
    assert_writes("begin,id,end,size\n0,a,4,10\n", "id,lower,upper,size,offset\na,0,5,10,0\n");
    assert_writes("id,lower,upper,size,gaps,alignment,offset\na,-5,9,10,7-8 1-2@3:4,2,6\n",
                  "id,lower,upper,size,alignment,gaps,offset\na,-5,9,10,2,1-2@3:4 7-8,6\n");
    assert_writes("id,lower,upper,size,alignment,gaps,offset\na,-5,9,10,2,1-2@3:4 7-8,6\n",
                  "id,lower,upper,size,alignment,gaps,offset\na,-5,9,10,2,1-2@3:4 7-8,6\n");
}

static void mistakes_are_named_by_line_and_column(void **state) {
    (void)state;
    static const char *const wrong[][2] = {
        {"", "with the names of the columns, is missing"},
        {"id,lower,size\n", "line 1: the header has no column \"upper\"; add it"},
        {"id,lower,upper,end,size\n", "line 1: column upper appears twice"},
        {"\nid,lower,upper,size,colour\n", "line 2: unknown column \"colour\""},
        {"id,lower,upper,size\na,1,2\n", "line 2 has 3 columns, but the first line has 4"},
        {"id,lower,upper,size\na,1,2,3\nb,1,2,3,4\n", "line 3 has more than 4 columns"},
        {"id,lower,upper,size\na,1,2,3\nb,x,2,3\n", "line 3, column lower: \"x\""},
        {"id,lower,upper,size\nb,1,99999999999999999999,3\n", "line 2, column upper"},
        {"id,lower,end,size\nb,1,9223372036854775807,3\n", "line 2, column upper"},
        {"id,lower,upper,size\na,1,2,3\nb,5,2,3\n", "line 3: the lifetime from 5 to 2"},
        {"id,lower,upper,size\nb,1,2,-3\n", "line 2, column size: \"-3\""},
        {"id,lower,upper,size,alignment\nb,1,2,3,0\n", "line 2, column alignment"},
        {"id,lower,upper,size,gaps\nb,1,2,3,1-\n", "line 2, column gaps"},
        {"id,lower,upper,size,gaps\nb,1,2,3,1-2@3\n", "line 2, column gaps"},
        {"id,lower,upper,size,offset\nb,1,2,3,1.5\n", "line 2, column offset"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        mnem_place_csv *csv;
        assert_int_equal(mnem_place_csv_read(wrong[i][0], strlen(wrong[i][0]), &csv), MNEM_INVALID);
        assert_null(csv);
        if (!strstr(mnem_last_error(), wrong[i][1]))
            fail_msg("\"%s\" doesn't say \"%s\"", mnem_last_error(), wrong[i][1]);
    }
    mnem_place_csv *csv;
    assert_int_equal(mnem_place_csv_read("id\0", 3, &csv), MNEM_INVALID);
}

static void failing_heap_is_reported_at_every_call(void **state) {
    (void)state;
    char text[8000] = "id,lower,upper,size,gaps\n";
    for (int i = 0; i < 200; i++) strcat(text, "a,1,9,2,2-3 5-6\n");
    heap_sweep sweep = {.most = 100};
    mnem_status status;
    do {
        mnem_place_csv *csv;
        heap_sweep_begin(&sweep, true);
        status = mnem_place_csv_read(text, strlen(text), &csv);
        mnem_place_csv_destroy(csv);
    } while (heap_sweep_next(&sweep, status));
}

static void names_of_spaces_become_bits(void **state) {
    (void)state;
    static const char *const names[2] = {"chip", "main"};
    mnem_place_csv *csv = read_text("id,lower,upper,size,spaces,accesses,space\n"
                                    "a,0,1,5,main chip,7,\nb,0,1,5,,,main\nc,0,1,5,main,0,\n");
    mnem_place_use *uses;
    assert_int_equal(mnem_place_csv_uses(csv, names, 2, &uses), MNEM_OK);
    assert_int_equal(uses[0].allowed, 3);
    assert_int_equal(uses[0].accesses, 7);
    assert_int_equal(uses[1].allowed, 2);
    assert_int_equal(uses[1].accesses, 1);
    assert_int_equal(uses[2].allowed, 2);
    assert_int_equal(uses[2].accesses, 0);
    uses[1].space = uses[2].space = 1;
    char out[512];
    out[mnem_place_csv_write(csv, out, sizeof out - 1)] = 0;
    assert_string_equal(out, "id,lower,upper,size,accesses,spaces,space,offset\n"
                             "a,0,1,5,7,main chip,chip,0\nb,0,1,5,1,,main,0\n"
                             "c,0,1,5,0,main,main,0\n");
    assert_int_equal(mnem_place_csv_uses(csv, names, 1, &uses), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "line 2, column spaces"));
    assert_int_equal(mnem_place_csv_uses(csv, names, 0, &uses), MNEM_INVALID);
    assert_int_equal(mnem_place_csv_uses(csv, names, 33, &uses), MNEM_INVALID);
    mnem_place_csv_destroy(csv);
    csv = read_text("id,lower,upper,size,spaces,space\na,0,1,5,main,chip\n");
    assert_int_equal(mnem_place_csv_uses(csv, names, 2, &uses), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "line 2, column space: \"chip\""));
    mnem_place_csv_destroy(csv);
    csv = read_text("id,lower,upper,size\na,0,1,5\n");
    assert_int_equal(mnem_place_csv_uses(csv, names, 2, &uses), MNEM_OK);
    assert_int_equal(uses[0].accesses, 1);
    assert_int_equal(uses[0].allowed, 0);
    mnem_place_csv_destroy(csv);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_come_in_any_order),
        cmocka_unit_test(a_mark_before_and_spaces_around_mean_nothing),
        cmocka_unit_test(an_end_is_the_last_moment),
        cmocka_unit_test(optional_cells_become_wishes),
        cmocka_unit_test(what_is_written_can_be_read_again),
        cmocka_unit_test(mistakes_are_named_by_line_and_column),
        cmocka_unit_test(names_of_spaces_become_bits),
        cmocka_unit_test(failing_heap_is_reported_at_every_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
