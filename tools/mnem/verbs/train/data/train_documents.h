/* train_documents.h: {"text": ...} records as one text. */
#ifndef MNEM_TOOLS_MNEM_VERBS_TRAIN_DATA_TRAIN_DOCUMENTS_H
#define MNEM_TOOLS_MNEM_VERBS_TRAIN_DATA_TRAIN_DOCUMENTS_H

#include "dataset/dataset.h"
#include "verbs/train/train_tool.h"

typedef struct document_reader {
    train_run *run;
    int32_t file_number;
    dataset data; /* of the file; .file NULL: none is open */
    json_t *text; /* of the record; NULL: none */
    bool said;    /* why it failed */
} document_reader;

/* Rows for mnem_corpus_open. End it in any case. */
void train_documents_begin(train_run *run, document_reader *reader, mnem_corpus_rows *rows);
void train_documents_end(document_reader *reader);
/* A mnem_corpus_rows'; context: the reader. */
mnem_status train_documents_next(void *context, mnem_corpus_row *row);
/* Writes all texts to a file, a line break behind each; an exit code. */
int train_documents_copy(train_run *run, const char *path);

#endif
