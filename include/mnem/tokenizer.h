/* mnem/tokenizer.h: converts text to tokens and back with a model's tokenizer; detects its chat
 * format; learns new vocabularies.
 *
 * Supports files whose tokenizer.ggml.model is gpt2 or gemma4 (BPE; mnem_tokenizer_pre_names),
 * llama (SentencePiece BPE), t5 (SentencePiece unigram) or bert (WordPiece). Ids equal those of
 * llama.cpp. BPE restores any bytes exactly, and so do the SentencePiece models that have byte
 * tokens, except for an added leading space and for U+2581, which becomes a space. WordPiece
 * normalizes the text. Threads: encode uses scratch memory of the tokenizer: one thread at a time
 * per tokenizer. mnem_tokenizer_piece and a vocabulary are constant.
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

/* Borrows the model's data: the model must outlive the tokenizer. */
mnem_status mnem_tokenizer_create(const mnem_model *model, mnem_tokenizer **tokenizer);
/* Zero means default. */
typedef struct mnem_tokenizer_options {
    const char *pre;           /* pre-tokenizer, in place of the file's tokenizer.ggml.pre; BPE only
                        (MNEM_INVALID for others) */
    const char *chat_template; /* in place of the file's tokenizer.chat_template;
                                  mnem_tokenizer_write writes it, too. Must outlive the tokenizer */
} mnem_tokenizer_options;
mnem_status mnem_tokenizer_create_with(const mnem_model *model,
                                       const mnem_tokenizer_options *options,
                                       mnem_tokenizer **tokenizer);
/* The supported values of tokenizer.ggml.pre: for each pre-tokenizer one text with all its names,
 * such as "qwen2 deepseek-r1-qwen ..."; NULL past the last. */
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
    MNEM_ENCODE_NO_SPECIAL = 1, /* add no BOS/EOS, even where the file asks for them */
    MNEM_ENCODE_PLAIN = 2,      /* treat the texts of special tokens as plain text */
};
/* *ids is the tokenizer's own buffer, borrowed until the next call. Accepts any bytes, up to 2^30;
 * a byte without a token becomes the unknown token, or is dropped where there is none. Where
 * special tokens overlap in the text, the leftmost wins, then the longest (at most 256 bytes).
 * Needs up to 16 bytes of scratch memory per byte of the longest word and one per byte of the
 * text, freed before it returns. */
mnem_status mnem_tokenizer_encode(mnem_tokenizer *tokenizer, const char *text, size_t length,
                                  unsigned flags, const int32_t **ids, size_t *count);
/* The bytes of a token, possibly none; those of a special token only if special is true. Borrowed
 * until the tokenizer is destroyed; empty for an id out of range. */
mnem_text mnem_tokenizer_piece(const mnem_tokenizer *tokenizer, int32_t id, bool special);
/* Does the token end generation (EOS, end of turn, end of message)? */
bool mnem_tokenizer_is_end(const mnem_tokenizer *tokenizer, int32_t id);

/* Joins pieces into whole UTF-8 characters; invalid bytes become U+FFFD. Caller's storage, zeroed
 * before the first piece. */
typedef struct mnem_utf8_joiner {
    unsigned char held[4];
    int count;
} mnem_utf8_joiner;
/* Writes to out, which needs 3 * (length + 4) bytes, and returns the number written. length 0
 * flushes. */
size_t mnem_utf8_join(mnem_utf8_joiner *joiner, const char *bytes, size_t length, char *out);

/* ---- chat formats: recognises a file's template (which template.h runs), and has templates for
 * files without one ---- */
typedef enum mnem_chat_format {
    MNEM_CHAT_PLAIN, /* none recognised */
    MNEM_CHAT_CHATML,
    MNEM_CHAT_LLAMA3,
    MNEM_CHAT_MISTRAL,
    MNEM_CHAT_ZEPHYR,
} mnem_chat_format;
/* Recognised by tokenizer.chat_template, or by the control tokens where the file has none. */
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
    int32_t tokens;     /* required; 256: bytes only; 257 and more: bytes, merges, and the
                           end-of-text token as the last id; at most MNEM_VOCABULARY_TOKENS_MAX */
    const char *pre;    /* pre-tokenizer: "gpt-2" (default) or another of
                           mnem_tokenizer_pre_names, except those that split no words (gemma4) */
    const char *end;    /* the end-of-text token's text (default "<|endoftext|>"; 1 to 256 bytes) */
    uint64_t bytes_max; /* memory while learning (default 256 MiB, at least 16 MiB) */
    mnem_progress progress; /* "counting words" (bytes), then "merging" (merges) */
} mnem_vocabulary_options;

/* Learns merges (Sennrich et al., 2016, over bytes as Radford et al., 2019): repeatedly, the most
 * frequent pair of neighbouring tokens inside words becomes a token. Ties are resolved by the order
 * of the left token, then of the right one: bytes in the order of the characters that represent
 * them in files (printable ones first, as in GPT-2's vocabulary), then merged tokens in the order
 * of learning. The result depends on the words and their counts only. The id of a byte is its
 * value. Files are read in pieces of 1 MiB, never whole. When bytes_max is too little for the
 * distinct words, the rarest are dropped (lossy counting; Manku and Motwani, 2002), in a way that
 * doesn't depend on the machine; with 256 MiB this happens above about five million bytes of
 * distinct words, more than 100 MB of prose have. The vocabulary has fewer tokens than requested
 * when no pair is left. Files aren't read when no merges are requested.
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
    uint64_t words;         /* in the text */
    uint64_t words_dropped; /* of these, dropped for lack of memory */
    uint64_t distinct;      /* different words that merges were learned from */
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
/* Writes the keys "tokenizer.*" from which the tokenizer was created (a model's or a vocabulary's).
 */
mnem_status mnem_tokenizer_write(const mnem_tokenizer *tokenizer, mnem_gguf_writer *writer);
/* A checksum of those keys and their values, in order: it differs between tokenizers. */
uint64_t mnem_tokenizer_checksum(const mnem_tokenizer *tokenizer);

#ifdef __cplusplus
}
#endif
#endif
