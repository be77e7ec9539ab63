/* train_documents.c: {"text": ...} records (dataset.h) as one text: each record is a document.
 *
 * The tokens of each follow those of the one before, with the end token between; records without a
 * character are left out. A vocabulary is learned from a passing file of the texts, since only
 * that reads them twice.
 * Cost: one record in memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verbs/train/data/train_documents.h"

bool train_is_documents(const train_run *run) {
    return !strcmp(run->config.data, "texts");
}

void train_documents_begin(train_run *run, document_reader *r, mnem_corpus_rows *rows) {
    enum { KEY = 0x7465787473 }; /* "texts" */
    *r = (document_reader){.run = run};
    *rows =
        (mnem_corpus_rows){.next = train_documents_next, .context = r, .key = KEY, .joined = true};
}

void train_documents_end(document_reader *r) {
    json_decref(r->text);
    r->text = NULL;
    dataset_close(&r->data);
}

/* ---- records ---- */

static int refuse(document_reader *r, const char *why) {
    char where[64];
    const char *path = r->run->config.file[r->file_number];
    r->said = true;
    if (!r->data.file) return tool_failed("%s: %s", path, why);
    dataset_where(&r->data, where);
    return tool_failed("%s: %s: %s", path, where, why);
}

/* The next record's text into r->text. MNEM_NOT_FOUND: there are no more. */
static mnem_status next_text(document_reader *r) {
    json_decref(r->text);
    r->text = NULL;
    while (r->file_number < r->run->config.files) {
        if (!r->data.file && !dataset_open(&r->data, r->run->config.file[r->file_number])) {
            refuse(r, strerror(errno));
            return MNEM_IO;
        }
        const int found = dataset_next_text(&r->data, &r->text);
        if (found < 0) refuse(r, r->data.why);
        if (found < 0) return MNEM_INVALID;
        if (found > 0 && json_string_length(r->text) > 0) return MNEM_OK;
        json_decref(r->text);
        r->text = NULL;
        if (found > 0) continue;
        dataset_close(&r->data);
        r->file_number++;
    }
    return MNEM_NOT_FOUND;
}

mnem_status train_documents_next(void *context, mnem_corpus_row *row) {
    document_reader *r = context;
    const int32_t *ids;
    size_t count;
    if (tool_interrupted()) return MNEM_CANCELLED;
    mnem_status status = next_text(r);
    if (status != MNEM_OK) return status;
    const size_t bytes = json_string_length(r->text);
    status = mnem_tokenizer_encode(r->run->tokenizer, json_string_value(r->text), bytes,
                                   MNEM_ENCODE_NO_SPECIAL | MNEM_ENCODE_PLAIN, &ids, &count);
    *row = (mnem_corpus_row){.ids = ids, .count = count, .text_bytes = bytes};
    return status;
}

/* ---- as a file ---- */

static int cant_write(const char *path) {
    return tool_failed("can't write the file %s: %s", path, strerror(errno));
}

/* An exit code. */
static int copy_texts(document_reader *r, FILE *file, const char *path) {
    mnem_status status;
    while ((status = next_text(r)) == MNEM_OK) {
        if (tool_interrupted()) return TOOL_INTERRUPTED;
        fwrite(json_string_value(r->text), 1, json_string_length(r->text), file);
        if (fputc('\n', file) == EOF) return cant_write(path);
    }
    return status == MNEM_NOT_FOUND ? TOOL_OK : TOOL_FAILED;
}

int train_documents_copy(train_run *run, const char *path) {
    document_reader r;
    mnem_corpus_rows rows;
    FILE *file = fopen(path, "w");
    if (!file) return cant_write(path);
    train_documents_begin(run, &r, &rows);
    int code = copy_texts(&r, file, path);
    train_documents_end(&r);
    if (fclose(file) != 0 && code == TOOL_OK) code = cant_write(path);
    return code;
}
