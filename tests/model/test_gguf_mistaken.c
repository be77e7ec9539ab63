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
    {"\110\0\0\0\0\0\0\0[12]", 12, "isn't known (its first bytes are 48 00 00 00)"},
    {"\110\0\0\0", 4, "isn't known (its first bytes are 48 00 00 00)"},
    {"\xff\xfe\1\2\3", 5, "isn't known (its first bytes are ff fe 01 02)"},
    {"\n\n <!DOCTYPE html>", 18, "a web page"},
    {"<?xml version='1.0'?><Error>", 28, "a web page"},
    {"\x1f\x8b\10\0\0\0", 6, "gunzip"},
    {"\x28\xb5\x2f\xfd\4", 5, "zstd -d"},
    {"\xfd\x37zXZ", 5, "xz -d"},
    {"BZh91AY", 7, "bunzip2"},
    {"7z\xbc\xaf\x27\x1c", 6, "7z x"},
    {"\x80\2ccollections\n", 15, "a pickle"},
    {"\x80\4\x95\0", 4, "a pickle"},
    {"\x89HDF\r\n", 6, "HDF5"},
    {"\x7f\x45LF\2\1", 6, "a program"},
    {"\0\0\0\0\0\0\0\0", 8, "zeros, since the download isn't complete"},
    {"{\"error\":\"Repository not found\"}", 32, "JSON, such as an error message"},
    {"Entry not found", 15, "a text that begins with \"Entry not found\""},
    {"Access to model x is restricted.\nLog in", 39, "\"Access to model x is restricted.\""},
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
        assert_null(strstr(mnem_last_error(), "0x"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_people_take_for_a_model_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
