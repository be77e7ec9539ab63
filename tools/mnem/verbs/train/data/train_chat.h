/* train_chat.h: reads conversations: the state of train_chat.c between rows. */
#ifndef MNEM_TOOLS_MNEM_VERBS_TRAIN_DATA_TRAIN_CHAT_H
#define MNEM_TOOLS_MNEM_VERBS_TRAIN_DATA_TRAIN_CHAT_H

#include "dataset/dataset.h"
#include "verbs/train/train_tool.h"

typedef struct chat_reader {
    train_run *run;
    mnem_template *template;
    tool_progress progress;
    uint64_t bytes, done; /* of all files; of the part that was read */
    int32_t file_number;
    dataset data;             /* the open file; .file NULL: none */
    json_t *messages, *tools; /* of the current conversation; NULL: none */
    size_t next;              /* index of the next message */
    int32_t *ids, *open;      /* the row; the tokens up to an answer */
    bool *counted;            /* [row]: tokens that count in the loss */
    size_t count, open_count, room;
    bool any; /* the row has counted tokens */
} chat_reader;

/* Opens the template of vocabulary.gguf, and provides rows for mnem_corpus_open; returns an exit
 * code. Call end in any case. */
int train_chat_begin(train_run *run, chat_reader *reader, mnem_corpus_rows *rows);
/* Prints the error of mnem_corpus_open with its line, unless it was printed; returns an exit
 * code. */
int train_chat_fail(const chat_reader *reader, mnem_status status);
void train_chat_end(chat_reader *reader);

#endif
