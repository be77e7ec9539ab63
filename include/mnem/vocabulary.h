/* mnem/vocabulary.h: a byte-level BPE vocabulary learned from text files, for a model that is yet
 * to be trained.
 *
 * Not here: encoding (tokenizer.h), caches of tokens (corpus.h).
 * Threads: a vocabulary is constant; any thread may read it.
 *
 *     mnem_vocabulary *v;
 *     mnem_tokenizer *tok;
 *     mnem_vocabulary_learn(&(mnem_vocabulary_options){.tokens = 2048}, files, count, &v);
 *     mnem_tokenizer_create_from(v, &tok);
 *     mnem_tokenizer_write(tok, writer);         // keys of a GGUF file
 *     mnem_tokenizer_destroy(tok);
 *     mnem_vocabulary_destroy(v);
 */
#ifndef MNEM_VOCABULARY_H
#define MNEM_VOCABULARY_H

#include "mnem/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mnem_vocabulary mnem_vocabulary;

enum { MNEM_VOCABULARY_TOKENS_MAX = 1 << 20 };

/* Zero means default. */
typedef struct mnem_vocabulary_options {
    int32_t tokens;     /* 256: the bytes alone; 257 and more: bytes, merges, and the end-of-text
                           token as the last id (no default; at most MNEM_VOCABULARY_TOKENS_MAX) */
    const char *pre;    /* how text is cut into words: "gpt-2" (default) and others that
                           mnem_tokenizer_pre_names has, but not those without words (gemma4) */
    const char *end;    /* the end-of-text token's text (default "<|endoftext|>"; 1 to 256 bytes) */
    uint64_t bytes_max; /* memory while learning (default 256 MiB, at least 16 MiB) */
    mnem_progress progress; /* "counting words" (bytes), then "merging" (merges) */
} mnem_vocabulary_options;

/* Learns merges (Sennrich et al., 2016, over bytes as Radford et al., 2019): as often as wanted,
 * the pair of neighbouring tokens that is most frequent inside words becomes a token. Of equally
 * frequent pairs the one whose left, then right token comes first: bytes in the order of the
 * characters that stand for them in files (printable ones first, as in GPT-2's vocabulary), then
 * merged ones in the order of learning. The result depends on the words and their counts only. A
 * byte's id is its value.
 * Files are read in pieces of 1 MiB, never whole. When the distinct words of large texts get too
 * many for bytes_max, the rarest are forgotten (lossy counting; Manku and Motwani, 2002), in a way
 * that doesn't depend on the machine; at 256 MiB that begins at about five million bytes of
 * distinct words, which 100 MB of prose don't have. There are fewer tokens than asked for when no
 * pair is left. Files aren't read when no merges are wanted.
 * MNEM_INVALID (an option, or nothing to read), MNEM_IO (names the file), MNEM_UNSUPPORTED (pre),
 * MNEM_NO_MEMORY, MNEM_OVER_BUDGET (the watching ledger's, or bytes_max), MNEM_CANCELLED;
 * *vocabulary is NULL then. */
mnem_status mnem_vocabulary_learn(const mnem_vocabulary_options *options, const char *const *files,
                                  size_t count, mnem_vocabulary **vocabulary);
void mnem_vocabulary_destroy(mnem_vocabulary *vocabulary); /* NULL is fine */

typedef struct mnem_vocabulary_info {
    int32_t tokens, merges;
    int32_t end;            /* id of the end-of-text token; -1: none */
    uint64_t text_bytes;    /* read */
    uint64_t words;         /* of the text */
    uint64_t words_dropped; /* of those, forgotten for lack of memory */
    uint64_t distinct;      /* different words that were learned from */
    uint64_t bytes_peak;    /* memory while learning */
} mnem_vocabulary_info;
void mnem_vocabulary_info_get(const mnem_vocabulary *vocabulary, mnem_vocabulary_info *info);
/* Its keys as a GGUF file has them ("tokenizer.ggml.tokens", ...), borrowed until it is destroyed;
 * false past the last. */
bool mnem_vocabulary_key_get(const mnem_vocabulary *vocabulary, uint32_t index, const char **key,
                             mnem_value *value);

/* A tokenizer of a vocabulary, which must outlive it. As mnem_tokenizer_create. */
mnem_status mnem_tokenizer_create_from(const mnem_vocabulary *vocabulary,
                                       mnem_tokenizer **tokenizer);
/* Writes the keys "tokenizer.*" that the tokenizer was made of, whether a model's or a
 * vocabulary's. */
mnem_status mnem_tokenizer_write(const mnem_tokenizer *tokenizer, mnem_gguf_writer *writer);
/* A number that tells tokenizers apart: of those keys and their values, in their order. */
uint64_t mnem_tokenizer_checksum(const mnem_tokenizer *tokenizer);

#ifdef __cplusplus
}
#endif
#endif
