/* mnem/tokenizer.h: text to tokens and back, as the model file says; its chat format; and
 * vocabularies that are learned.
 *
 * Of files whose tokenizer.ggml.model is gpt2 or gemma4 (BPE; mnem_tokenizer_pre_names), llama
 * (SentencePiece's BPE), t5 (its unigram model) or bert (WordPiece). Ids are those of llama.cpp.
 * Any bytes come back as they were from BPE's pieces, and from those of others that have tokens
 * for bytes, but for spaces put before and marks (U+2581), which are spaces; WordPiece normalizes.
 * Threads: encode keeps scratch inside; one thread at a time per tokenizer. piece is constant, and
 * so is a vocabulary.
 *
 *     mnem_tokenizer *tok;
 *     mnem_tokenizer_create(model, &tok);
 *     const int32_t *ids; size_t n;               // borrowed until the next encode
 *     mnem_tokenizer_encode(tok, "In the beginning", 16, 0, &ids, &n);
 */
#ifndef MNEM_TOKENIZER_H
#define MNEM_TOKENIZER_H

#include "mnem/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mnem_tokenizer mnem_tokenizer;

/* Copies nothing that the model already holds: the model must outlive the tokenizer. */
mnem_status mnem_tokenizer_create(const mnem_model *model, mnem_tokenizer **tokenizer);
/* Zero means default. */
typedef struct mnem_tokenizer_options {
    const char *pre; /* how text is cut into words, instead of what the file's tokenizer.ggml.pre
                        says; for BPE only (MNEM_INVALID) */
    const char *chat_template; /* instead of the file's tokenizer.chat_template, as to
                                  mnem_tokenizer_write; outlives the tokenizer */
} mnem_tokenizer_options;
mnem_status mnem_tokenizer_create_with(const mnem_model *model,
                                       const mnem_tokenizer_options *options,
                                       mnem_tokenizer **tokenizer);
/* Names that tokenizer.ggml.pre may have, those of one way to cut in one text ("qwen2
 * deepseek-r1-qwen ..."); NULL past the last. */
const char *mnem_tokenizer_pre_names(size_t index);
void mnem_tokenizer_destroy(mnem_tokenizer *tokenizer);

typedef struct mnem_tokenizer_info {
    const char *model, *pre; /* as in the file; "llama-bpe", ... */
    int32_t vocab;
    int32_t bos, eos, eot, unk, pad; /* -1: none */
    bool add_bos, add_eos, add_space_prefix;
    uint32_t merges;
} mnem_tokenizer_info;
void mnem_tokenizer_info_get(const mnem_tokenizer *tokenizer, mnem_tokenizer_info *info);

enum {
    MNEM_ENCODE_NO_SPECIAL = 1, /* no BOS/EOS, whatever the file says */
    MNEM_ENCODE_PLAIN = 2,      /* the texts of special tokens are plain text */
};
/* *ids is the tokenizer's own buffer, borrowed until the next call. Any bytes are accepted, up to
 * 2^30; one that no token stands for becomes the unknown token, or nothing if there is none. Of
 * special tokens in the text the leftmost counts, then the longest (at most 256 bytes). Takes up to
 * 16 bytes of scratch for each byte of the longest word and one for each of the text, given
 * back. */
mnem_status mnem_tokenizer_encode(mnem_tokenizer *tokenizer, const char *text, size_t length,
                                  unsigned flags, const int32_t **ids, size_t *count);
/* The bytes that a token prints (0 to n; special tokens print their text only if special is set).
 * Borrowed until the tokenizer is destroyed; empty for an id out of range. */
mnem_text mnem_tokenizer_piece(const mnem_tokenizer *tokenizer, int32_t id, bool special);
/* End of generation: EOS, end-of-turn and end-of-message tokens. */
bool mnem_tokenizer_is_end(const mnem_tokenizer *tokenizer, int32_t id);

/* Joins pieces so that only whole UTF-8 characters come out; what can't become one comes out as
 * U+FFFD. Caller's storage, zero to start. */
typedef struct mnem_utf8_joiner {
    unsigned char held[4];
    int count;
} mnem_utf8_joiner;
/* Appends to out (room for 3 * (length + 4) bytes); returns the bytes written. length 0 flushes. */
size_t mnem_utf8_join(mnem_utf8_joiner *joiner, const char *bytes, size_t length, char *out);

/* ---- chat formats: the name of a file's template (which template.h runs), and templates for files
 * that have none ---- */
typedef enum mnem_chat_format {
    MNEM_CHAT_PLAIN, /* none recognised */
    MNEM_CHAT_CHATML,
    MNEM_CHAT_LLAMA3,
    MNEM_CHAT_MISTRAL,
    MNEM_CHAT_ZEPHYR,
} mnem_chat_format;
/* What tokenizer.chat_template looks like, or without one the control tokens. */
mnem_chat_format mnem_tokenizer_chat_format(const mnem_tokenizer *tokenizer);
const char *mnem_chat_format_text(mnem_chat_format format);
/* A template that writes the format; NULL for MNEM_CHAT_PLAIN. */
const char *mnem_chat_format_template(mnem_chat_format format);

/* ---- a byte-level BPE vocabulary learned from text files, for a model that is yet to
 * be trained ----
 *
 *     mnem_vocabulary *v;
 *     mnem_tokenizer *tok;
 *     mnem_vocabulary_learn(&(mnem_vocabulary_options){.tokens = 2048}, files, count, &v);
 *     mnem_tokenizer_create_from(v, &tok);
 *     mnem_tokenizer_write(tok, writer);         // keys of a GGUF file
 *     mnem_tokenizer_destroy(tok);
 *     mnem_vocabulary_destroy(v);
 */

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
