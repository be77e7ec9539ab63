/* mnem/corpus.h: text for training: tokenized once into a cache file, cut into windows, shuffled
 * without memory, and read ahead by a thread.
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

/* A sequence that stands for itself, such as a conversation: of each token whether it is one to be
 * learned (an answer's) or only read (a question's). */
typedef struct mnem_corpus_row {
    const int32_t *ids;
    const bool *counted;
    size_t count; /* at least 2 */
} mnem_corpus_row;

/* Where rows come from, one after another, while the cache is made. */
typedef struct mnem_corpus_rows {
    /* row is borrowed until the next call; MNEM_NOT_FOUND: there are no more. */
    mnem_status (*next)(void *context, mnem_corpus_row *row);
    void *context;
    uint64_t key; /* of how files become rows, such as a template's: another makes the cache anew */
} mnem_corpus_rows;

/* Zero means default. */
typedef struct mnem_corpus_options {
    const char *const *files; /* text; one file is one document. None: the cache as it is */
    size_t count;
    const char *cache;         /* path of the cache file (no default) */
    mnem_tokenizer *tokenizer; /* used during the call only; may be NULL where there are no files */
    int32_t threads;           /* that tokenize (default: the processors this process may use, at
                                  most 8); doesn't change a byte */
    mnem_progress progress;    /* "tokenizing" (bytes of text) or "verifying" (bytes of the
                                  cache) */
    mnem_corpus_rows rows;     /* next NULL: files are text; otherwise they are what rows are made
                                  of, and only looked at for changes */
} mnem_corpus_options;

/* Opens the cache when it is whole and was made of these files (names, sizes, times of change) by
 * this tokenizer; otherwise makes it. All of it is read once to check it. Between two files that
 * hold text stands the tokenizer's end token, where it has one. Special tokens in the text are
 * plain text. The cache appears when it is whole (written beside, flushed, renamed); a call that
 * fails leaves what was there. While it is made: a tokenizer, and about 6 MiB, for each thread, or
 * 8 bytes for each row; afterwards nothing grows with the text.
 * MNEM_IO and MNEM_INVALID name the file (missing, a directory, changed while it was read, disk
 * full; no text at all), MNEM_CANCELLED, MNEM_NO_MEMORY, MNEM_OVER_BUDGET. Without files:
 * MNEM_NOT_FOUND, MNEM_BAD_FILE (says what is wrong), MNEM_NOT_READY (another tokenizer's). */
mnem_status mnem_corpus_open(const mnem_corpus_options *options, mnem_corpus **corpus);
void mnem_corpus_close(mnem_corpus *corpus); /* NULL is fine */

typedef struct mnem_corpus_info {
    uint64_t tokens;     /* end tokens between files included */
    uint64_t text_bytes; /* of the files */
    uint64_t file_bytes; /* of the cache */
    uint64_t checksum;   /* of the tokens: a checkpoint's position means the same as long as this,
                            and the windows' numbers, are the same */
    uint32_t files;
    uint32_t width;     /* bytes of a token in the cache: 2 or 4 */
    uint64_t rows;      /* 0: it is text */
    uint64_t row_most;  /* tokens of the longest row */
    int32_t vocab;      /* every token is below */
    bool made;          /* this call made it */
    const char *reason; /* why: "out/tokens: ..."; "" if it wasn't. Borrowed until close */
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

/* What rows lose in sequences of one length. Reads all of them once. */
typedef struct mnem_corpus_fit {
    uint64_t tokens;  /* that are in a sequence */
    uint64_t counted; /* of them, those to be learned */
    uint64_t cut;     /* rows that are longer */
    uint64_t silent;  /* rows with nothing to be learned in what is left of them */
} mnem_corpus_fit;
mnem_status mnem_corpus_rows_fit(const mnem_corpus *corpus, uint32_t sequence,
                                 mnem_corpus_fit *fit);

/* ---- windows ---- */

/* The windows of a part of the corpus, by number. Plain numbers: copy it freely. Window `number` is
 * the tokens from mnem_windows_start on, `sequence` of them as inputs, and as targets those one
 * further. */
typedef struct mnem_windows {
    uint64_t begin, tokens; /* of the corpus */
    uint64_t count;         /* windows of an epoch */
    uint64_t seed;
    uint32_t sequence;
    bool shuffled;
    bool rows; /* a window is a row: begin and tokens count rows, and so does the start */
} mnem_windows;

/* The windows of tokens [begin, begin + tokens). In order: they lie one after another, and begin
 * again after the last. Shuffled: every epoch of `count` windows is another permutation and begins
 * at another token, so that borders move; a function of (seed, number) alone, the same on every
 * machine. The permutation is a Feistel network (Luby and Rackoff, 1988) over Philox with cycle
 * walking (Black and Rogaway, 2002). MNEM_INVALID when there are not sequence + 1 tokens. */
mnem_status mnem_windows_init(uint64_t begin, uint64_t tokens, uint32_t sequence, uint64_t seed,
                              bool shuffled, mnem_windows *windows);
/* Training (shuffled) from the first `tokens` of a corpus but for the last fraction `heldout` (0 to
 * less than 1, cut at a multiple of sequence), which is validation (in order). validation->count is
 * 0 when heldout is 0. MNEM_INVALID with the numbers when either part is shorter than a window. */
mnem_status mnem_windows_split(uint64_t tokens, uint32_t sequence, double heldout, uint64_t seed,
                               mnem_windows *training, mnem_windows *validation);
/* The same of rows, each a window: training is all but the last `heldout`, at least one of each
 * kind. MNEM_INVALID when there are too few. */
mnem_status mnem_windows_split_rows(uint64_t rows, uint32_t sequence, double heldout, uint64_t seed,
                                    mnem_windows *training, mnem_windows *validation);
/* The first token (of the corpus) of window number. */
uint64_t mnem_windows_start(const mnem_windows *windows, uint64_t number);

/* ---- reading ahead ---- */

typedef struct mnem_feed mnem_feed;

enum { MNEM_FEED_STACK_BYTES = 128 * 1024 };

/* Zero means default. */
typedef struct mnem_feed_options {
    const mnem_corpus *corpus; /* must outlive the feed */
    mnem_windows windows;
    uint32_t rows;  /* windows of a micro-batch (no default) */
    uint32_t depth; /* micro-batches that are read ahead of the one in use (default 2) */
    uint64_t first; /* the number of the first window: where a checkpoint goes on */
    uint64_t end;   /* one past the last window's number (default: it never ends) */
    uint32_t group; /* a micro-batch never reaches across a multiple of so many windows, counted
                       from 0: the batch of a step, which rows need not divide (default: none) */
    uint32_t share_first, share; /* of every group only so many windows, from the first on: what one
                                    of several ranks reads (default: all) */
} mnem_feed_options;

typedef struct mnem_batch {
    const int32_t *ids;     /* [rows, sequence] */
    const int32_t *targets; /* [rows, sequence]: the token after each; of rows, -1: not counted */
    uint64_t first;         /* window number of row 0; row r is window first + r */
    uint32_t rows;          /* 0: past the end */
} mnem_batch;

/* Bytes of memory that a feed works in; 0 when the numbers are absurd. The stack of its thread,
 * MNEM_FEED_STACK_BYTES, comes on top. */
uint64_t mnem_feed_bytes(uint32_t rows, uint32_t sequence, uint32_t depth);
/* Starts reading. memory: mnem_feed_bytes bytes, 64-byte aligned, the caller's until destroy.
 * Nothing else is allocated but the stack, then or later. MNEM_INVALID, MNEM_NO_MEMORY (no thread).
 */
mnem_status mnem_feed_create(const mnem_feed_options *options, void *memory, mnem_feed **feed);
/* The next micro-batch, borrowed until the next call. What couldn't be read fails here, in its
 * turn, with what mnem_corpus_read says; so does every later call. */
mnem_status mnem_feed_next(mnem_feed *feed, mnem_batch *batch);
/* Whether the next micro-batch is there, so that mnem_feed_next won't wait. */
bool mnem_feed_ready(mnem_feed *feed);
void mnem_feed_destroy(mnem_feed *feed); /* at any moment; NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
