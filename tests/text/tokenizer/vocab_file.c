/* vocab_file.c: a growing run of bytes, opened through a file that has no name. */
#include "text/tokenizer/vocab_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void put(vocab_file *f, const void *bytes, size_t n) {
    if (f->n + n > f->room) {
        f->room = 2 * (f->n + n);
        f->bytes = realloc(f->bytes, f->room);
        if (!f->bytes) abort();
    }
    if (n) memcpy(f->bytes + f->n, bytes, n);
    f->n += n;
}

static void put_u32(vocab_file *f, uint32_t number) {
    put(f, &number, sizeof number);
}

static void put_text(vocab_file *f, const char *text, uint64_t n) {
    put(f, &n, sizeof n);
    put(f, text, n);
}

static void put_key(vocab_file *f, const char *key, mnem_value_type type) {
    f->keys++;
    put_text(f, key, strlen(key));
    put_u32(f, type);
}

void vocab_key_text(vocab_file *f, const char *key, const char *text) {
    put_key(f, key, MNEM_VALUE_STRING);
    put_text(f, text, strlen(text));
}

void vocab_key_u32(vocab_file *f, const char *key, uint32_t number) {
    put_key(f, key, MNEM_VALUE_U32);
    put_u32(f, number);
}

void vocab_key_bool(vocab_file *f, const char *key, bool flag) {
    const unsigned char byte = flag;
    put_key(f, key, MNEM_VALUE_BOOL);
    put(f, &byte, 1);
}

static void put_array(vocab_file *f, const char *key, mnem_value_type element, uint64_t count) {
    put_key(f, key, MNEM_VALUE_ARRAY);
    put_u32(f, element);
    put(f, &count, sizeof count);
}

void vocab_key_numbers(vocab_file *f, const char *key, mnem_value_type type, const void *numbers,
                       uint64_t count) {
    put_array(f, key, type, count);
    put(f, numbers, count * 4);
}

void vocab_key_bytes(vocab_file *f, const char *key, const unsigned char *bytes, uint64_t count) {
    put_array(f, key, MNEM_VALUE_U8, count);
    put(f, bytes, count);
}

void vocab_key_texts(vocab_file *f, const char *key, const char *const *texts, uint64_t count) {
    put_array(f, key, MNEM_VALUE_STRING, count);
    for (uint64_t i = 0; i < count; i++) put_text(f, texts[i], strlen(texts[i]));
}

void vocab_key_pieces(vocab_file *f, const char *key, const mnem_text *texts, uint64_t count) {
    put_array(f, key, MNEM_VALUE_STRING, count);
    for (uint64_t i = 0; i < count; i++) put_text(f, texts[i].bytes, texts[i].length);
}

mnem_status vocab_open(vocab_file *f, mnem_model **model) {
    struct {
        char magic[4];
        uint32_t version;
        uint64_t tensors, keys;
    } header = {{'G', 'G', 'U', 'F'}, 3, 0, f->keys};
    const int fd = memfd_create("vocabulary", MFD_CLOEXEC);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (write(fd, &header, sizeof header) != (ssize_t)sizeof header ||
        write(fd, f->bytes, f->n) != (ssize_t)f->n)
        abort();
    const mnem_status status = mnem_model_open(path, model);
    close(fd);
    free(f->bytes);
    *f = (vocab_file){0};
    return status;
}

size_t vocab_byte_texts(const char *const *extra, const char *texts[VOCAB_MAX]) {
    static char written[VOCAB_BYTES][3];
    unsigned next = 0x100;
    for (unsigned byte = 0; byte < VOCAB_BYTES; byte++) {
        const bool same = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
        const unsigned code = same ? byte : next++;
        if (code < 0x80)
            snprintf(written[byte], 3, "%c", (char)code);
        else
            snprintf(written[byte], 3, "%c%c", (char)(0xC0 | code >> 6),
                     (char)(0x80 | (code & 63)));
        texts[byte] = written[byte];
    }
    size_t n = VOCAB_BYTES;
    for (; extra && *extra && n < VOCAB_MAX; extra++) texts[n++] = *extra;
    return n;
}
