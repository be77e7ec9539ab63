/* dataset.h: data sets of conversations as people have them: what a file is, and its conversations
 * as lists of {"role", "content"}, one at a time.
 *
 * In memory there is one element. Files may begin with a byte order mark. */
#ifndef MNEM_TOOLS_MNEM_DATASET_DATASET_H
#define MNEM_TOOLS_MNEM_DATASET_DATASET_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* What an element is. */
typedef enum dataset_shape {
    DATASET_NONE,     /* the file is no JSON */
    DATASET_MESSAGES, /* {"messages": [{"role", "content"}]}, perhaps with "tools" */
    DATASET_LISTS,    /* [{"role", "content"}], as the chat's /save writes */
    DATASET_SHAREGPT, /* {"conversations": [{"from", "value"}]} */
    DATASET_ALPACA,   /* {"instruction", "input", "output"}, or Dolly's names of them */
    DATASET_PROMPTS,  /* {"prompt", "completion"}, and other names of such a pair */
    DATASET_TEXTS,    /* {"text"}: a document, no conversation */
    DATASET_OTHER
} dataset_shape;

typedef enum dataset_form {
    DATASET_LINES, /* a value on each line */
    DATASET_ARRAY, /* the values of one list */
    DATASET_VALUES /* one behind another, over any lines */
} dataset_form;

typedef struct dataset_look {
    dataset_shape shape;
    dataset_form form;
    char keys[160];   /* the first element's members: "a", "b" and "c"; "": it has none */
    char list[48];    /* one of them that is a list of objects; "": none is */
    bool preferences; /* it has an answer that was chosen, and one that was rejected */
    char why[240];    /* why the first element can't be read; "": it can, or is no JSON */
} dataset_look;

/* By the first element; a file that can't be read is DATASET_NONE. */
void dataset_look_at(const char *path, dataset_look *look);
static inline bool dataset_is_chat(const dataset_look *look) {
    return look->shape > DATASET_NONE && look->shape < DATASET_TEXTS;
}
/* "JSON lines of messages", "a JSON array of ShareGPT conversations". */
void dataset_name(const dataset_look *look, char text[80]);

/* dataset_table.c: is a regular file a table (CSV, TSV)? *separator: of its columns. */
bool dataset_is_table(const char *path, char *separator);

/* Tells of a file that is read as text that it is a data set. */
void dataset_note(const char *path);

typedef struct dataset {
    dataset_form form;
    FILE *file;
    uint64_t line, index; /* of the element, from 1 */
    uint64_t lines;       /* before what is read next */
    char *text;           /* of the element */
    size_t used, room;
    bool begun;
    char why[500];
} dataset;

/* false: errno says why. Close it in any case. */
bool dataset_open(dataset *set, const char *path);
/* The next conversation; tools NULL: it has none. 1, 0: there are no more, -1: why says what is
 * wrong with the element at dataset_where. The caller frees both. */
int dataset_next(dataset *set, json_t **messages, json_t **tools);
/* The next record's "text", of a data set of them; the results are those of dataset_next. */
int dataset_next_text(dataset *set, json_t **text);
/* "line 3"; "element 5 (line 12)". */
void dataset_where(const dataset *set, char text[64]);
void dataset_close(dataset *set);

#endif
