/* json_pull.h: JSON from a file, one event after another.
 *
 * A reader of another's file: nothing is kept but the text at hand and how deep it stands, so that
 * a file of any size takes the bytes of its longest text. Strict (RFC 8259), but for what Python
 * writes too: NaN, Infinity and -Infinity.
 *
 *     mnem__json json;
 *     mnem__json_event event;
 *     mnem_status status = mnem__json_open(&json, path);
 *     while (status == MNEM_OK && (status = mnem__json_next(&json, &event)) == MNEM_OK) ...
 *     mnem__json_close(&json);
 */
#ifndef MNEM_SRC_MODEL_JSON_JSON_PULL_H
#define MNEM_SRC_MODEL_JSON_JSON_PULL_H

#include <string.h>

#include "model/gguf/gguf.h"

enum {
    MNEM__JSON_DEPTH_MAX = 48,
    MNEM__JSON_TEXT_MAX = 8 << 20 /* bytes of one text */
};
/* Of every block that opening a folder takes. */
#define MNEM__IMPORT_TAG "metadata"

typedef enum mnem__json_event {
    MNEM__JSON_END, /* of the file, after its one value */
    MNEM__JSON_OBJECT,
    MNEM__JSON_OBJECT_END,
    MNEM__JSON_LIST,
    MNEM__JSON_LIST_END,
    MNEM__JSON_KEY, /* text; its value is next */
    MNEM__JSON_TEXT,
    MNEM__JSON_NUMBER,
    MNEM__JSON_TRUE,
    MNEM__JSON_FALSE,
    MNEM__JSON_NULL
} mnem__json_event;

typedef struct mnem__json {
    char *text; /* of the last KEY or TEXT; a zero follows, which text_bytes doesn't count */
    size_t text_bytes, text_room;
    double number; /* of the last NUMBER */
    int64_t integer;
    bool is_integer; /* integer is what the file says */
    bool is_big;     /* a whole number of more than 64 bits, whose digits are in text */
    int depth;
    bool wants_value; /* behind a key, a comma, or at the very beginning */
    bool began;       /* something stands before in this object or list */
    bool own;         /* the file is closed with it */
    uint64_t in_list; /* a bit for each depth */
    uint64_t end;     /* of the part of the file that is read */
    mnem__cursor file;
} mnem__json;

/* MNEM_IO, MNEM_BAD_FILE (no regular file). */
mnem_status mnem__json_open(mnem__json *json, const char *path);
/* JSON in memory, which name stands for in errors; both stay until it is closed. */
void mnem__json_open_text(mnem__json *json, const char *name, const char *text, size_t n);
/* The bytes [from, from + bytes) of a file that stays open behind fd; they are there. */
void mnem__json_open_part(mnem__json *json, const mnem__gguf_part *part, uint64_t from,
                          uint64_t bytes);
/* The next event; MNEM_BAD_FILE says the byte. After a failure nothing may be asked but closing. */
mnem_status mnem__json_next(mnem__json *json, mnem__json_event *event);
/* What follows a key, or stands next in a list, is left out. */
mnem_status mnem__json_skip(mnem__json *json);
/* The same of the value that the last event began. */
mnem_status mnem__json_leave(mnem__json *json, mnem__json_event began);
/* Closes the file only if open opened it. */
void mnem__json_close(mnem__json *json);
/* "PATH: byte 12: text" */
mnem_status mnem__json_fail(const mnem__json *json, mnem_status status, const char *text);

static inline bool mnem__json_is(const mnem__json *json, const char *text) {
    return strcmp(json->text, text) == 0;
}

#endif
