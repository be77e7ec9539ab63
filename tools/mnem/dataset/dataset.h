/* dataset.h: recognizes the usual files of conversations, and reads them as lists of {"role",
 * "content"}, one conversation at a time.
 *
 * One element at a time is in memory. Files may begin with a byte order mark. */
#ifndef MNEM_TOOLS_MNEM_DATASET_DATASET_H
#define MNEM_TOOLS_MNEM_DATASET_DATASET_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The form of an element. */
typedef enum dataset_shape {
    DATASET_NONE,     /* the file isn't JSON */
    DATASET_MESSAGES, /* {"messages": [{"role", "content"}]}, perhaps with "tools" */
    DATASET_LISTS,    /* [{"role", "content"}], as the chat's /save writes */
    DATASET_SHAREGPT, /* {"conversations": [{"from", "value"}]} */
    DATASET_ALPACA,   /* {"instruction", "input", "output"}, or Dolly's names */
    DATASET_PROMPTS,  /* {"prompt", "completion"}, or other names of such a pair */
    DATASET_TEXTS,    /* {"text"}: a document, not a conversation */
    DATASET_OTHER
} dataset_shape;

typedef enum dataset_form {
    DATASET_LINES, /* a value on each line */
    DATASET_ARRAY, /* the values of one JSON array */
    DATASET_VALUES /* values in sequence, on any number of lines */
} dataset_form;

typedef struct dataset_look {
    dataset_shape shape;
    dataset_form form;
    char keys[160];   /* the names of the first element's members: "a", "b" and "c"; or "" */
    char list[48];    /* the name of a member that is a list of objects; or "" */
    bool preferences; /* it has a chosen and a rejected answer */
    char why[240];    /* why the first element can't be read; "": it can, or isn't JSON */
} dataset_look;

/* Looks at the first element only; a file that can't be read is DATASET_NONE. */
void dataset_look_at(const char *path, dataset_look *look);
static inline bool dataset_is_chat(const dataset_look *look) {
    return look->shape > DATASET_NONE && look->shape < DATASET_TEXTS;
}
/* "JSON lines of messages", "a JSON array of ShareGPT conversations". */
void dataset_name(const dataset_look *look, char text[80]);

/* dataset_table.c: whether a regular file is a table (CSV, TSV). *separator: between its
 * columns. */
bool dataset_is_table(const char *path, char *separator);

/* Prints a warning if a file that is read as plain text is a data set or a table. */
void dataset_note(const char *path);

typedef struct dataset {
    dataset_form form;
    FILE *file;
    uint64_t line, index; /* position of the element, both from 1 */
    uint64_t lines;       /* number of lines read so far */
    char *text;           /* the element's text */
    size_t used, room;
    bool begun;
    char why[500];
} dataset;

/* false: errno has the reason. Call close in any case. */
bool dataset_open(dataset *set, const char *path);
/* Reads the next conversation; tools NULL: it has none. Returns 1; 0: the end; -1: `why` has the
 * error of the element at dataset_where. The caller frees both. */
int dataset_next(dataset *set, json_t **messages, json_t **tools);
/* Reads the next record's "text"; returns as dataset_next. */
int dataset_next_text(dataset *set, json_t **text);
/* The element's position as text: "line 3"; "element 5 (line 12)". */
void dataset_where(const dataset *set, char text[64]);
void dataset_close(dataset *set);

#endif
