/* mnem/corpus.h: text for training: tokenized once into a cache file, split into windows, shuffled
 * without extra memory, and prefetched by a thread.
 *
 * Not here: making a tokenizer (tokenizer.h).
 * Threads: an open corpus and its windows are constant, any thread may read them; a feed belongs to
 * one thread at a time.
 *
 *     mnem_corpus *corpus;
 *     mnem_corpus_open(&(mnem_corpus_options){.files = files, .count = n, .cache = "out/tokens",
 *                                             .tokenizer = tok}, &corpus);
 *     mnem_corpus_info info;
 *     mnem_corpus_info_get(corpus, &info);
 *     mnem_windows training, validation;
 *     mnem_windows_split(info.tokens, 256, 0.03, seed, &training, &validation);
 *     mnem_feed *feed; // memory: mnem_feed_bytes of it, such as a block of io
 *     mnem_feed_create(&(mnem_feed_options){.corpus = corpus, .windows = training, .rows = 8,
 *                                           .first = position}, memory, &feed);
 *     mnem_batch batch;
 *     while (mnem_feed_next(feed, &batch) == MNEM_OK) use(batch.ids, batch.targets);
 *     mnem_feed_destroy(feed);
 *     mnem_corpus_close(corpus);
 */
#ifndef MNEM_CORPUS_H
#define MNEM_CORPUS_H

#include "mnem/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the cache ---- */

typedef struct mnem_corpus mnem_corpus;

/* A self-contained sequence, such as a conversation. counted tells for each token whether it is
 * learned (of an answer) or only read (of a question). */
typedef struct mnem_corpus_row {
    const int32_t *ids;
    const bool *counted;
    size_t count;        /* at least 2 */
    uint64_t text_bytes; /* of a document (joined); unused otherwise */
} mnem_corpus_row;

/* The source of rows, one after another, while the cache is created. */
typedef struct mnem_corpus_rows {
    /* row is borrowed until the next call; MNEM_NOT_FOUND: there are no more. */
    mnem_status (*next)(void *context, mnem_corpus_row *row);
    void *context;
    uint64_t key; /* of the way files become rows, such as a template's: a change recreates the
                     cache */
    bool joined;  /* rows are documents of one text, of any length: all of their tokens count, and
                     the tokenizer's end token, if it has one, stands between two of them */
} mnem_corpus_rows;

/* Zero means default. */
typedef struct mnem_corpus_options {
    const char *const *files; /* text; one file is one document. None: use the cache as it is */
    size_t count;
    const char *cache;         /* path of the cache file (no default) */
    mnem_tokenizer *tokenizer; /* used during the call only; may be NULL where there are no files */
    int32_t threads;           /* that tokenize (default: the processors this process may use, at
                                  most 8); doesn't change a byte */
    mnem_progress progress;    /* "tokenizing" (bytes of text) or "verifying" (bytes of the
                                  cache) */
    mnem_corpus_rows rows;     /* next NULL: files are text; otherwise rows are made from the files,
                                  which are only checked for changes */
} mnem_corpus_options;

/* Opens the cache if it is complete and was made from these files (names, sizes, modification
 * times) by this tokenizer; otherwise creates it. The whole cache is read once to verify it.
 * Between two files that hold text stands the tokenizer's end token, if it has one. Special tokens
 * in the text are treated as plain text. The cache appears only when it is complete (written to
 * another file, flushed, renamed); a call that fails leaves the old cache. Creating it takes a
 * tokenizer and about 6 MiB for each thread, or 8 bytes for each row; afterwards memory doesn't
 * grow with the text. MNEM_IO and MNEM_INVALID name the file (missing, a directory, changed while
 * it was read, disk full; no text at all), MNEM_CANCELLED, MNEM_NO_MEMORY, MNEM_OVER_BUDGET.
 * Without files: MNEM_NOT_FOUND, MNEM_BAD_FILE (the text states the reason), MNEM_NOT_READY (made
 * by another tokenizer). */
mnem_status mnem_corpus_open(const mnem_corpus_options *options, mnem_corpus **corpus);
void mnem_corpus_close(mnem_corpus *corpus); /* NULL is fine */

typedef struct mnem_corpus_info {
    uint64_t tokens;     /* end tokens between files included */
    uint64_t text_bytes; /* of the files */
    uint64_t file_bytes; /* of the cache */
    uint64_t checksum;   /* of the tokens: the position in a checkpoint is valid as long as this
                            checksum and the windows' numbers are the same */
    uint32_t files;
    uint32_t width;     /* bytes of a token in the cache: 2 or 4 */
    uint64_t rows;      /* 0: it is text */
    uint64_t row_most;  /* tokens of the longest row */
    int32_t vocab;      /* every token id is below */
    bool made;          /* this call created the cache */
    const char *reason; /* why it was created: "out/tokens: ..."; else "". Borrowed */
} mnem_corpus_info;
void mnem_corpus_info_get(const mnem_corpus *corpus, mnem_corpus_info *info);

/* Reads tokens [first, first + count). MNEM_INVALID past the end; MNEM_IO names the file and the
 * byte, also when the cache is shorter than it was; MNEM_BAD_FILE for an id outside of the
 * vocabulary. */
mnem_status mnem_corpus_read(const mnem_corpus *corpus, uint64_t first, uint64_t count,
                             int32_t *ids);

/* Row number `row` as a sequence of a batch, [sequence] each: its tokens but the last (or as many
 * as there is room for), and the token after each where that is counted, else -1. Behind them are
 * zeros that predict nothing. scratch: [sequence + 1]. Statuses of mnem_corpus_read. */
mnem_status mnem_corpus_row_read(const mnem_corpus *corpus, uint64_t row, uint32_t sequence,
                                 int32_t *ids, int32_t *targets, int32_t *scratch);

/* What is lost when rows are cut to sequences of one length. Reads all rows once. */
typedef struct mnem_corpus_fit {
    uint64_t tokens;  /* within the sequences */
    uint64_t counted; /* of these, tokens that are learned */
    uint64_t cut;     /* rows that are longer */
    uint64_t silent;  /* rows without a learned token after the cut */
} mnem_corpus_fit;
mnem_status mnem_corpus_rows_fit(const mnem_corpus *corpus, uint32_t sequence,
                                 mnem_corpus_fit *fit);

/* ---- windows ---- */

/* The windows of a part of the corpus, by number. Plain values: may be copied freely. The inputs of
 * window `number` are `sequence` tokens from mnem_windows_start on; the targets are the tokens one
 * position further. */
typedef struct mnem_windows {
    uint64_t begin, tokens; /* of the corpus */
    uint64_t count;         /* windows of an epoch */
    uint64_t seed;
    uint32_t sequence;
    bool shuffled;
    bool rows; /* a window is a row: begin and tokens count rows, and so does the start */
} mnem_windows;

/* Initializes the windows of tokens [begin, begin + tokens). Not shuffled: they follow one another,
 * and start again after the last. Shuffled: every epoch of `count` windows is another permutation
 * and starts at another token, so that the borders of windows move; a window depends on (seed,
 * number) alone, and is the same on every machine. The permutation is a Feistel network (Luby and
 * Rackoff, 1988) over Philox with cycle walking (Black and Rogaway, 2002). MNEM_INVALID when there
 * are fewer than sequence + 1 tokens. */
mnem_status mnem_windows_init(uint64_t begin, uint64_t tokens, uint32_t sequence, uint64_t seed,
                              bool shuffled, mnem_windows *windows);
/* Splits the first `tokens` tokens of a corpus into training (shuffled) and validation (in order):
 * validation is the last fraction `heldout` (0 to less than 1, cut at a multiple of sequence).
 * validation->count is 0 when heldout is 0. MNEM_INVALID, with the numbers, when either part is
 * shorter than a window. */
mnem_status mnem_windows_split(uint64_t tokens, uint32_t sequence, double heldout, uint64_t seed,
                               mnem_windows *training, mnem_windows *validation);
/* Splits rows, each of them a window: validation is the last fraction `heldout`, at least one row
 * if heldout is not 0; training has the others. MNEM_INVALID when no row is left for training. */
mnem_status mnem_windows_split_rows(uint64_t rows, uint32_t sequence, double heldout, uint64_t seed,
                                    mnem_windows *training, mnem_windows *validation);
/* The first token (in the corpus) of window `number`. */
uint64_t mnem_windows_start(const mnem_windows *windows, uint64_t number);

/* ---- prefetching ---- */

typedef struct mnem_feed mnem_feed;

enum { MNEM_FEED_STACK_BYTES = 128 * 1024 };

/* Zero means default. */
typedef struct mnem_feed_options {
    const mnem_corpus *corpus; /* must outlive the feed */
    mnem_windows windows;
    uint32_t rows;  /* windows of a micro-batch (no default) */
    uint32_t depth; /* micro-batches prefetched beyond the one in use (default 2) */
    uint64_t first; /* number of the first window: where a checkpoint continues */
    uint64_t end;   /* one past the last window's number (default: it never ends) */
    uint32_t group; /* no micro-batch crosses a multiple of so many windows, counted from 0: the
                       batch of a step, of which rows need not be a divisor (default: none) */
    uint32_t share_first, share; /* of every group only `share` windows are read, from share_first
                                    on: the part of one of several ranks (default: all) */
} mnem_feed_options;

typedef struct mnem_batch {
    const int32_t *ids;     /* [rows, sequence] */
    const int32_t *targets; /* [rows, sequence]: the token after each; of rows, -1: not counted */
    uint64_t first;         /* window number of row 0; row r is window first + r */
    uint32_t rows;          /* 0: past the end */
} mnem_batch;

/* Bytes of memory that a feed needs; 0 when the arguments are out of range. The stack of its
 * thread, MNEM_FEED_STACK_BYTES, is not included. */
uint64_t mnem_feed_bytes(uint32_t rows, uint32_t sequence, uint32_t depth);
/* Starts the thread. memory: mnem_feed_bytes bytes, 64-byte aligned, owned by the caller and in use
 * until mnem_feed_destroy. Nothing else is allocated except the stack, then or later. MNEM_INVALID,
 * MNEM_NO_MEMORY (no thread). */
mnem_status mnem_feed_create(const mnem_feed_options *options, void *memory, mnem_feed **feed);
/* Gets the next micro-batch, borrowed until the next call. A failed read is reported here when its
 * batch is due, with the status of mnem_corpus_read; every later call fails too. */
mnem_status mnem_feed_next(mnem_feed *feed, mnem_batch *batch);
/* Whether the next micro-batch is ready, so that mnem_feed_next doesn't wait. */
bool mnem_feed_ready(mnem_feed *feed);
void mnem_feed_destroy(mnem_feed *feed); /* at any moment; NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
