/* Files that people take for a model are told by what they are. */
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "model/gguf_forge.h"

static forge f;

static const struct {
    const char *begin;
    size_t n;
    const char *text;
} files[] = {
    {"version https://git-lfs.github.com/spec/v1\n", 43, "git lfs pull"},
    {"<!DOCTYPE html><html>", 21, "a web page"},
    {"<!doctype html>", 15, "a web page"},
    {"<html lang=en>", 14, "a web page"},
    {"PK\3\4\0\0\10\10", 8, "a zip archive"},
    {"tjgg\1\0\0\0", 8, "older than GGUF"},
    {"\110\0\0\0\0\0\0\0{\"__metadata__\":", 24, "safetensors"},
    {"\110\0\0\0\0\0\0\0[12]", 12, "begins with 0x00000048"},
    {"\110\0\0\0", 4, "begins with 0x00000048"},
};

static void what_people_take_for_a_model_is_named(void **state) {
    (void)state;
    const char *path = kit_path("mistaken.gguf");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        mnem_model *model;
        f.n = 0;
        forge_put(&f, files[i].begin, files[i].n);
        forge_write(&f, path);
        assert_int_equal(mnem_model_open(path, &model), MNEM_BAD_FILE);
        if (!strstr(mnem_last_error(), files[i].text))
            fail_msg("no \"%s\" in: %s", files[i].text, mnem_last_error());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_people_take_for_a_model_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
