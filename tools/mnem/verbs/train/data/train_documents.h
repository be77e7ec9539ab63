/* train_documents.h: reads {"text": ...} records as one text. */
#ifndef MNEM_TOOLS_MNEM_VERBS_TRAIN_DATA_TRAIN_DOCUMENTS_H
#define MNEM_TOOLS_MNEM_VERBS_TRAIN_DATA_TRAIN_DOCUMENTS_H

#include "dataset/dataset.h"
#include "verbs/train/train_tool.h"

typedef struct document_reader {
    train_run *run;
    int32_t file_number;
    dataset data; /* the open file; .file NULL: none */
    json_t *text; /* text of the record; NULL: none */
    bool said;    /* the error was printed */
} document_reader;

/* Provides rows for mnem_corpus_open. Call end in any case. */
void train_documents_begin(train_run *run, document_reader *reader, mnem_corpus_rows *rows);
void train_documents_end(document_reader *reader);
/* The `next` of mnem_corpus_rows; context: the reader. */
mnem_status train_documents_next(void *context, mnem_corpus_row *row);
/* Writes all texts to a file, each followed by a line break; returns an exit code. */
int train_documents_copy(train_run *run, const char *path);

#endif
