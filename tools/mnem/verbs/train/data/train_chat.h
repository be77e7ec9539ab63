/* train_chat.h: reading conversations: what train_chat.c keeps from row to row. */
#ifndef MNEM_TOOLS_MNEM_VERBS_TRAIN_DATA_TRAIN_CHAT_H
#define MNEM_TOOLS_MNEM_VERBS_TRAIN_DATA_TRAIN_CHAT_H

#include "dataset/dataset.h"
#include "verbs/train/train_tool.h"

typedef struct chat_reader {
    train_run *run;
    mnem_template *template;
    tool_progress progress;
    uint64_t bytes, done; /* of all files; of those that are read */
    int32_t file_number;
    dataset data;             /* of the file; .file NULL: none is open */
    json_t *messages, *tools; /* of the conversation; NULL: none is begun */
    size_t next;              /* message that is looked at next */
    int32_t *ids, *open;      /* the row; text up to an answer */
    bool *counted;            /* of the row */
    size_t count, open_count, room;
    bool any; /* something in the row is counted */
} chat_reader;

/* The template of vocabulary.gguf, and rows for mnem_corpus_open; an exit code. End it in any case.
 */
int train_chat_begin(train_run *run, chat_reader *reader, mnem_corpus_rows *rows);
/* Says what mnem_corpus_open failed with, and at which line, unless that was said; an exit code. */
int train_chat_fail(const chat_reader *reader, mnem_status status);
void train_chat_end(chat_reader *reader);

#endif
