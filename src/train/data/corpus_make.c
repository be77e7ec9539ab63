/* corpus_make.c: writes the cache of tokens, front to back.
 *
 * The idea: in each round the owner reads a piece of text for every member of the team, each member
 * encodes its piece with a tokenizer of its own, and the owner writes the ids in the order of the
 * text. The header is written at the end, into space left for it.
 * Invariant: pieces don't depend on the team (text_reader.c), so neither does the file; it gets its
 * name once it is complete.
 * Cost: each member needs a piece (1 MiB), its ids (at most 4 MiB) and a tokenizer. */
#include <stdio.h>
#include <string.h>

#include "base/carve.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/file/checksum.h"
#include "base/file/new_file.h"
#include "base/heap.h"
#include "base/progress.h"
#include "base/thread.h"
#include "mnem/base.h"
#include "mnem/tokenizer.h"
#include "text/tokenizer/tokenizer_private.h"
#include "train/data/corpus_private.h"

enum { THREADS_MAX = 8, OUT_TOKENS = 1 << 15 };

typedef struct member {
    mnem_tokenizer *tokenizer;
    char *buffer; /* one piece */
    mnem_text piece;
    const int32_t *ids;
    size_t count;
    mnem_status status;
    char error[256];
} member;

typedef struct maker {
    const mnem_corpus_options *options;
    mnem_team *team;
    member members[THREADS_MAX];
    int count, pieces; /* count: members; pieces: pieces of this round */
    mnem__new_file file;
    mnem__checksum sum;
    mnem__cache_head head;
    char *header;        /* head, then the sources */
    uint64_t header_at;  /* offset of the next source */
    uint64_t text_total; /* sum of the files' sizes */
    int32_t end;         /* token between files; -1: none */
    uint64_t *ends;      /* [rows]: the end of each row */
    uint64_t rows, room;
    uint32_t out[OUT_TOKENS];
} maker;

/* ---- writing ---- */

/* counted NULL: the ids are of plain text. */
static mnem_status put_ids(maker *m, const int32_t *ids, const bool *counted, size_t count) {
    const uint32_t mark = mnem__cache_mark(&m->head);
    mnem_status status = MNEM_OK;
    for (size_t at = 0, n; at < count && status == MNEM_OK; at += n) {
        n = count - at < OUT_TOKENS ? count - at : OUT_TOKENS;
        uint16_t *narrow = (void *)m->out;
        for (size_t i = 0; i < n; i++) {
            const uint32_t id = (uint32_t)ids[at + i] | (counted && counted[at + i] ? mark : 0);
            if (m->head.width == 2)
                narrow[i] = (uint16_t)id;
            else
                m->out[i] = id;
        }
        mnem__checksum_add(&m->sum, m->out, n * m->head.width);
        status = mnem__new_file_put(&m->file, m->out, n * m->head.width);
    }
    m->head.tokens += count;
    return status;
}

static void put_source(maker *m, const char *name, const mnem__text_stamp *stamp) {
    const mnem__cache_source source = {.stamp = *stamp, .name_bytes = strlen(name)};
    memcpy(m->header + m->header_at, &source, sizeof source);
    memcpy(m->header + m->header_at + sizeof source, name, source.name_bytes);
    m->header_at += sizeof source + mnem__align_up(source.name_bytes, 8);
}

static mnem_status put_header(maker *m) {
    m->head.data_checksum = mnem__checksum_get(&m->sum);
    memcpy(m->header, &m->head, sizeof m->head);
    m->head.header_checksum = mnem__cache_header_checksum(m->header, m->head.header_bytes);
    memcpy(m->header, &m->head, sizeof m->head);
    return mnem__new_file_put_at(&m->file, m->header, m->head.header_bytes, 0);
}

/* ---- a round ---- */

static void encode_piece(const mnem_worker *worker, void *context) {
    maker *m = context;
    member *own = &m->members[worker->index];
    if (worker->index >= m->pieces) return;
    own->status =
        mnem_tokenizer_encode(own->tokenizer, own->piece.bytes, own->piece.length,
                              MNEM_ENCODE_NO_SPECIAL | MNEM_ENCODE_PLAIN, &own->ids, &own->count);
    if (own->status != MNEM_OK) snprintf(own->error, sizeof own->error, "%s", mnem_last_error());
}

/* The tokenizer's ids are in the vocabulary, so they aren't checked. */
static mnem_status put_round(maker *m) {
    mnem_status status = MNEM_OK;
    for (int i = 0; i < m->pieces && status == MNEM_OK; i++) {
        const member *own = &m->members[i];
        if (own->status != MNEM_OK) return mnem__fail(own->status, "%s", own->error);
        status = put_ids(m, own->ids, NULL, own->count);
        m->head.text_bytes += own->piece.length;
    }
    return status;
}

static mnem_status run_round(maker *m, mnem__text_reader *reader) {
    const mnem_corpus_options *o = m->options;
    mnem_status status = MNEM_OK;
    for (m->pieces = 0; m->pieces < m->count; m->pieces++) {
        member *own = &m->members[m->pieces];
        status = mnem__text_next(reader, own->buffer, &own->piece);
        if (status != MNEM_OK) return status;
        if (own->piece.length == 0) break;
    }
    mnem_team_run(m->team, encode_piece, m);
    status = put_round(m);
    if (status == MNEM_OK &&
        !mnem__progress_tell(&o->progress, "tokenizing", m->head.text_bytes, m->text_total))
        status = mnem__fail(MNEM_CANCELLED, "%s: stopped by the caller", o->cache);
    return status;
}

static mnem_status add_file(maker *m, const char *path) {
    mnem__text_reader reader;
    mnem_status status = mnem__text_open(&reader, path, MNEM__TEXT_PIECE_BYTES);
    if (status != MNEM_OK) return status;
    put_source(m, path, &reader.stamp);
    if (m->head.tokens > 0 && reader.stamp.bytes > 0 && m->end >= 0)
        status = put_ids(m, &m->end, NULL, 1);
    do
        if (status == MNEM_OK) status = run_round(m, &reader);
    while (status == MNEM_OK && m->pieces == m->count);
    mnem__text_close(&reader);
    return status;
}

/* ---- rows ---- */

static mnem_status note_row(maker *m) {
    if (m->rows == m->room)
        MNEM__GROW(MNEM__CORPUS_TAG, m->ends, m->room, 256, mnem__heap_status());
    m->ends[m->rows++] = m->head.tokens;
    return MNEM_OK;
}

/* Adds a row to a text of joined rows. */
static mnem_status add_document(maker *m, const mnem_corpus_row *row) {
    if (m->head.tokens > 0 && row->count > 0 && m->end >= 0)
        MNEM__TRY(put_ids(m, &m->end, NULL, 1));
    m->head.text_bytes += row->text_bytes;
    return put_ids(m, row->ids, NULL, row->count);
}

static mnem_status add_row(maker *m, const mnem_corpus_row *row) {
    if (row->count < 2 && !m->options->rows.joined)
        return mnem__fail(MNEM_INVALID, "corpus: row %llu has %zu token%s, expected at least 2",
                          (unsigned long long)m->rows, row->count, row->count == 1 ? "" : "s");
    for (size_t i = 0; i < row->count; i++)
        if (row->ids[i] < 0 || (uint32_t)row->ids[i] >= m->head.vocab)
            return mnem__fail(
                MNEM_INVALID,
                "corpus: row %llu has token %d, but the tokenizer has tokens 0 to %u: "
                "make the rows with it, or give the one they were made with",
                (unsigned long long)m->rows, row->ids[i], m->head.vocab - 1);
    if (m->options->rows.joined) return add_document(m, row);
    MNEM__TRY(put_ids(m, row->ids, row->counted, row->count));
    return note_row(m);
}

static mnem_status put_index(maker *m) {
    const size_t bytes = m->rows * sizeof *m->ends;
    mnem__checksum_add(&m->sum, m->ends, bytes);
    return bytes ? mnem__new_file_put(&m->file, m->ends, bytes) : MNEM_OK;
}

/* The caller's callback reads the files; stamps before and after show whether they changed. */
static mnem_status add_rows(maker *m) {
    const mnem_corpus_options *o = m->options;
    mnem_corpus_row row;
    mnem__text_stamp stamp;
    mnem__cache_source before;
    mnem_status status = MNEM_OK;
    for (size_t i = 0; i < o->count; i++) {
        MNEM__TRY(mnem__text_stamp_get(o->files[i], &stamp));
        put_source(m, o->files[i], &stamp);
        if (!o->rows.joined) m->head.text_bytes += stamp.bytes;
    }
    while ((status = o->rows.next(o->rows.context, &row)) == MNEM_OK) MNEM__TRY(add_row(m, &row));
    if (status != MNEM_NOT_FOUND) return status;
    m->header_at = sizeof m->head;
    for (size_t i = 0; i < o->count; i++) {
        memcpy(&before, m->header + m->header_at, sizeof before);
        m->header_at += sizeof before + mnem__align_up(before.name_bytes, 8);
        MNEM__TRY(mnem__text_stamp_get(o->files[i], &stamp));
        if (memcmp(&stamp, &before.stamp, sizeof stamp) != 0)
            return mnem__fail(MNEM_IO, "%s: the file changed while it was read; start again",
                              o->files[i]);
    }
    return o->rows.joined ? MNEM_OK : put_index(m);
}

/* ---- the whole ---- */

/* Computes the header's size, and finds missing files before anything is written. */
static mnem_status look_at_files(maker *m) {
    const mnem_corpus_options *o = m->options;
    uint64_t bytes = sizeof m->head;
    for (size_t i = 0; i < o->count; i++) {
        mnem__text_stamp stamp;
        MNEM__TRY(mnem__text_stamp_get(o->files[i], &stamp));
        m->text_total += stamp.bytes;
        bytes += sizeof(mnem__cache_source) + mnem__align_up(strlen(o->files[i]), 8);
    }
    if (m->text_total == 0)
        return mnem__fail(MNEM_INVALID,
                          "corpus: %zu file%s given, with 0 bytes of text; give files with text",
                          o->count, o->count == 1 ? "" : "s");
    if (bytes > MNEM__CORPUS_HEADER_MAX || o->count > UINT32_MAX)
        return mnem__fail(MNEM_INVALID,
                          "corpus: the names of %zu files take more than %d bytes; use fewer files "
                          "or shorter paths",
                          o->count, MNEM__CORPUS_HEADER_MAX);
    m->header = mnem__calloc(MNEM__CORPUS_TAG, 1, bytes);
    m->head.header_bytes = bytes;
    m->header_at = sizeof m->head;
    return m->header ? MNEM_OK : mnem__heap_status();
}

static mnem_status start_team(maker *m) {
    const int wanted = m->options->threads > 0 ? m->options->threads : mnem__processors();
    const uint64_t pieces = mnem__div_up(m->text_total, MNEM__TEXT_PIECE_BYTES);
    m->count = wanted < THREADS_MAX ? wanted : THREADS_MAX;
    if ((uint64_t)m->count > pieces) m->count = (int)pieces;
    mnem_status status = mnem_team_create(m->count, &m->team);
    for (int i = 0; i < m->count && status == MNEM_OK; i++) {
        member *own = &m->members[i];
        own->buffer = mnem__alloc(MNEM__CORPUS_TAG, MNEM__TEXT_PIECE_BYTES);
        if (!own->buffer) return mnem__heap_status();
        own->tokenizer = m->options->tokenizer;
        if (i > 0) status = mnem__tokenizer_clone(m->options->tokenizer, &own->tokenizer);
    }
    return status;
}

static void start_head(maker *m) {
    mnem_tokenizer_info info;
    mnem_tokenizer_info_get(m->options->tokenizer, &info);
    m->end = info.eos;
    memcpy(m->head.magic, MNEM__CORPUS_MAGIC, sizeof m->head.magic);
    const bool rows = mnem__corpus_has_rows(m->options); /* tokens of rows have marks */
    m->head.version = rows ? MNEM__CORPUS_ROWS : MNEM__CORPUS_VERSION;
    m->head.width = info.vocab <= 1 << (rows ? 15 : 16) ? 2 : 4;
    m->head.vocab = (uint32_t)info.vocab;
    m->head.sources = (uint32_t)m->options->count;
    m->head.tokenizer = mnem__corpus_maker(m->options);
    mnem__checksum_init(&m->sum);
}

static mnem_status write_file(maker *m) {
    const mnem_corpus_options *o = m->options;
    mnem_status status = mnem__new_file_create(&m->file, o->cache);
    if (status == MNEM_OK) status = mnem__new_file_put(&m->file, m->header, m->head.header_bytes);
    if (status == MNEM_OK && o->rows.next) status = add_rows(m);
    for (size_t i = 0; i < o->count && status == MNEM_OK && !o->rows.next; i++)
        status = add_file(m, o->files[i]);
    if (status == MNEM_OK && m->head.tokens == 0)
        status = mnem__fail(MNEM_INVALID, "corpus: the text has no %s; give a longer text",
                            o->rows.next ? "rows" : "tokens");
    if (status == MNEM_OK) status = put_header(m);
    return mnem__new_file_end(&m->file, status);
}

static void maker_destroy(maker *m) {
    mnem_team_destroy(m->team);
    for (int i = 0; i < m->count; i++) {
        if (i > 0) mnem_tokenizer_destroy(m->members[i].tokenizer);
        mnem__free(m->members[i].buffer);
    }
    mnem__free(m->ends);
    mnem__free(m->header);
    mnem__free(m);
}

mnem_status mnem__corpus_make(const mnem_corpus_options *options) {
    maker *m = mnem__calloc(MNEM__CORPUS_TAG, 1, sizeof *m);
    if (!m) return mnem__heap_status();
    m->options = options;
    start_head(m);
    mnem_status status = look_at_files(m);
    if (status == MNEM_OK && !options->rows.next) status = start_team(m);
    if (status == MNEM_OK) status = write_file(m);
    maker_destroy(m);
    return status;
}
