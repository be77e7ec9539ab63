/* train_text.c: from text files to batches: vocabulary, tokens, windows, feeds.
 *
 *     text files -> vocabulary.gguf   learned, or the base model's; once for a run
 *                -> tokens            a cache, made again when files or tokenizer changed
 *                -> windows           of the context's length, a share held out for validation
 *                -> feed              batches, read ahead by a thread of its own
 *
 * The first two are files in the run's folder, so that a resumed run sees the same tokens. The feed
 * lives in a block of the ledger, whose size the plan knows before (train_feed_bytes). */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verbs/train/data/train_chat.h"
#include "verbs/train/data/train_documents.h"

/* ---- vocabulary ---- */

enum { VOCABULARY_LEAST = 16 << 20, VOCABULARY_MOST = 64 << 20 };

static mnem_status write_vocabulary(const mnem_tokenizer *tokenizer, const char *path) {
    mnem_gguf_writer *writer;
    mnem_status status = mnem_gguf_create(path, &writer);
    if (status != MNEM_OK) return status;
    status = mnem_gguf_key_text(writer, "general.architecture", "vocabulary");
    if (status == MNEM_OK) status = mnem_tokenizer_write(tokenizer, writer);
    if (status == MNEM_OK) return mnem_gguf_finish(writer);
    mnem_gguf_abort(writer);
    return status;
}

/* The tokenizer of the model to start from, and for conversations the template that there is
 * instead of its own; an exit code. */
static int copy_vocabulary(const train_run *run, const char *path) {
    mnem_tokenizer *tokenizer = NULL;
    char *template = NULL;
    const int code = train_is_chat(run) ? train_template_find(run, &template) : TOOL_OK;
    if (code != TOOL_OK) return code;
    const mnem_tokenizer_options options = {.chat_template = template};
    mnem_status status = mnem_tokenizer_create_with(run->base, &options, &tokenizer);
    if (status == MNEM_OK) status = write_vocabulary(tokenizer, path);
    mnem_tokenizer_destroy(tokenizer);
    free(template);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

static void say_learned(const mnem_vocabulary *vocabulary, uint64_t room, double seconds,
                        bool verbose) {
    mnem_vocabulary_info info;
    char size[TOOL_TEXT], time[TOOL_TEXT], text[160];
    mnem_vocabulary_info_get(vocabulary, &info);
    if (verbose)
        snprintf(text, sizeof text,
                 "%d tokens learned from %s of text, %llu different word%s, in %s", info.tokens,
                 tool_size(info.text_bytes, size), (unsigned long long)info.distinct,
                 tool_s(info.distinct), tool_seconds(seconds, time));
    if (verbose) tool_wrap(stderr, "vocabulary: ", text);
    if (info.words_dropped)
        tool_message("the vocabulary was learned without %llu rare word%s of the text, because the "
                     "budget left only %s to count words; a larger --memory counts them too",
                     (unsigned long long)info.words_dropped, tool_s(info.words_dropped),
                     tool_size(room, size));
}

/* Counting words wants room before the trainer has its own: three quarters of what is free now, but
 * no less than can count a small text and no more than a large one needs. */
static mnem_status learn_vocabulary(train_run *run, const char *const *files, size_t count,
                                    const char *path) {
    tool_progress progress;
    mnem_vocabulary *vocabulary;
    mnem_tokenizer *tokenizer;
    mnem_ledger_info ledger;
    const double start = tool_clock();
    mnem_ledger_info_get(run->ledger, &ledger);
    tool_progress_begin(&progress, "learning the vocabulary");
    const uint64_t budget = ledger.budget_bytes;
    uint64_t room = budget > ledger.bytes_live ? (budget - ledger.bytes_live) / 4 * 3 : 0;
    if (room < VOCABULARY_LEAST) room = VOCABULARY_LEAST; /* the ledger has the last word */
    if (room > VOCABULARY_MOST) room = VOCABULARY_MOST;
    mnem_vocabulary_options options = {.tokens = run->config.vocab,
                                       .pre = run->config.pre,
                                       .bytes_max = room,
                                       .progress = {tool_progress_tell, &progress}};
    mnem_status status = mnem_vocabulary_learn(&options, files, count, &vocabulary);
    tool_progress_end(&progress);
    if (status != MNEM_OK) return status;
    status = mnem_tokenizer_create_from(vocabulary, &tokenizer);
    if (status == MNEM_OK) {
        status = write_vocabulary(tokenizer, path);
        mnem_tokenizer_destroy(tokenizer);
    }
    if (status == MNEM_OK && !run->args->quiet && run->config.vocab > 256)
        say_learned(vocabulary, room, tool_clock() - start,
                    run->args->verbose || run->asked->dry_run);
    mnem_vocabulary_destroy(vocabulary);
    return status;
}

/* From a passing file of the texts. */
static int learn_documents(train_run *run, const char *path) {
    const char *texts = train_path(run, "documents");
    const int code = train_documents_copy(run, texts);
    const mnem_status status = code == TOOL_OK ? learn_vocabulary(run, &texts, 1, path) : MNEM_OK;
    unlink(texts);
    return status == MNEM_OK ? code : tool_fail(status);
}

int train_vocabulary_make(train_run *run) {
    const char *path = train_path(run, "vocabulary.gguf");
    if (run->base) return copy_vocabulary(run, path);
    if (train_is_documents(run)) return learn_documents(run, path);
    const mnem_status status = learn_vocabulary(run, (const char *const *)run->config.file,
                                                (size_t)run->config.files, path);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

/* ---- tokens ---- */

static mnem_status open_with(train_run *run, const mnem_corpus_rows *rows) {
    tool_progress progress;
    tool_progress_begin(&progress, "tokenizing");
    const bool as_it_is = train_follows();
    const mnem_status status =
        mnem_corpus_open(&(mnem_corpus_options){.files = (const char *const *)run->config.file,
                                                .count = as_it_is ? 0 : (size_t)run->config.files,
                                                .cache = train_path(run, "tokens"),
                                                .tokenizer = run->tokenizer,
                                                .threads = run->asked->threads,
                                                .progress = {tool_progress_tell, &progress},
                                                .rows = *rows},
                         &run->corpus);
    tool_progress_end(&progress);
    if (status == MNEM_OK) mnem_corpus_info_get(run->corpus, &run->corpus_info);
    return status;
}

static int open_chats(train_run *run) {
    chat_reader reader;
    mnem_corpus_rows rows;
    int code = train_chat_begin(run, &reader, &rows);
    if (code == TOOL_OK) {
        const mnem_status status = open_with(run, &rows);
        const train_chat *chat = &run->chat;
        const bool silent = chat->conversations && chat->unanswered == chat->conversations;
        if (status == MNEM_INVALID && !chat->said && silent)
            code = tool_failed("no conversation (of %llu) has an answer to train on, which is a "
                               "message with the role \"assistant\"; the first one: %s",
                               (unsigned long long)chat->conversations, chat->first_unanswered);
        else if (status != MNEM_OK)
            code = train_chat_fail(&reader, status);
    }
    train_chat_end(&reader);
    return code;
}

static int open_documents(train_run *run) {
    document_reader reader;
    mnem_corpus_rows rows;
    train_documents_begin(run, &reader, &rows);
    const mnem_status status = open_with(run, &rows);
    train_documents_end(&reader);
    return status == MNEM_OK ? TOOL_OK : reader.said ? TOOL_FAILED : tool_fail(status);
}

static int open_corpus(train_run *run) {
    if (train_is_chat(run) && !train_follows()) return open_chats(run);
    if (train_is_documents(run) && !train_follows()) return open_documents(run);
    const mnem_status status = open_with(run, &(mnem_corpus_rows){.next = NULL});
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

/* A base may have rows for more tokens than its tokenizer knows, never for fewer. */
static int check_base(train_run *run) {
    mnem_transformer t;
    if (!run->config.lora) return TOOL_OK;
    const mnem_status status = mnem_model_transformer(run->base, &t);
    if (status != MNEM_OK) return tool_fail(status);
    run->logits_count = t.vocab;
    if (run->config.vocab <= t.vocab) return TOOL_OK;
    return tool_failed(
        "%s, the vocabulary of this run, has %d tokens, but the model %s of --init has only %d: "
        "one of the two files was replaced; restore it, or start a new run in another --out",
        train_path(run, "vocabulary.gguf"), run->config.vocab, run->config.init, t.vocab);
}

int train_text_open(train_run *run) {
    mnem_tokenizer_info info;
    if (train_follows()) { /* when rank 0 has made both */
        const mnem_status made = train_ranks_all(MNEM_OK);
        if (made != MNEM_OK) return tool_fail(made);
    }
    mnem_status status = mnem_model_open(train_path(run, "vocabulary.gguf"), &run->vocabulary);
    if (status == MNEM_OK) status = mnem_tokenizer_create(run->vocabulary, &run->tokenizer);
    if (status != MNEM_OK) return tool_fail(status);
    int code = open_corpus(run);
    if (code == TOOL_OK && train_ranks() > 1 && !train_follows()) {
        status = train_ranks_all(MNEM_OK);
        if (status != MNEM_OK) return tool_fail(status);
    }
    if (code == TOOL_OK) code = train_ranks_text(run);
    if (code == TOOL_OK) code = train_fit(run);
    if (code != TOOL_OK) return code;
    mnem_tokenizer_info_get(run->tokenizer, &info);
    if (run->config.vocab != info.vocab) run->config.vocab_asked = run->config.vocab;
    run->config.vocab = run->logits_count = info.vocab;
    if (train_is_chat(run) && !train_follows()) code = train_chat_sample(run);
    return code == TOOL_OK ? check_base(run) : code;
}

/* ---- batches ---- */

uint64_t train_feed_bytes(const train_run *run, int32_t rows) {
    return mnem_feed_bytes((uint32_t)rows, (uint32_t)run->config.context, 0);
}

mnem_status train_feed_start(train_run *run, const mnem_windows *windows, uint64_t first,
                             uint64_t end) {
    train_feed_stop(run);
    mnem_feed_options options = {.corpus = run->corpus,
                                 .windows = *windows,
                                 .rows = (uint32_t)run->plan.micro_batch,
                                 .first = first,
                                 .end = end};
    if (!end && run->plan.ranks > 1) { /* of every batch this rank's share */
        options.group = (uint32_t)run->config.batch;
        options.share_first = (uint32_t)run->plan.first;
        options.share = (uint32_t)run->plan.share;
    }
    return mnem_feed_create(&options, mnem_block_host(&run->memory), &run->feed);
}

mnem_status train_feed_next(void *context, mnem_train_batch *out) {
    train_run *run = context;
    mnem_batch batch;
    if (!run->feed) return MNEM_NOT_FOUND; /* of what is looked at, nothing is this rank's */
    const mnem_status status = mnem_feed_next(run->feed, &batch);
    if (status != MNEM_OK) return status;
    *out = (mnem_train_batch){batch.ids, batch.targets, (int32_t)batch.rows};
    return batch.rows ? MNEM_OK : MNEM_NOT_FOUND;
}

void train_feed_stop(train_run *run) {
    mnem_feed_destroy(run->feed);
    run->feed = NULL;
}

mnem_status train_feed_take(train_run *run) {
    const uint64_t bytes =
        train_feed_bytes(run, run->plan.micro_batch) + (uint64_t)run->logits_count * sizeof(float);
    mnem_status status =
        mnem_ledger_charge_planned(run->ledger, MNEM_KIND_IO, "feed stack", MNEM_FEED_STACK_BYTES);
    if (status != MNEM_OK) return status;
    status = mnem_ledger_alloc(run->ledger, run->device, MNEM_KIND_IO, "batches", bytes, 4096,
                               &run->memory);
    if (status == MNEM_OK)
        run->logits = (void *)((uint8_t *)mnem_block_host(&run->memory) +
                               train_feed_bytes(run, run->plan.micro_batch));
    return status;
}

void train_feed_give(train_run *run) {
    train_feed_stop(run);
    if (run->memory.bytes == 0) return;
    mnem_ledger_free(run->ledger, MNEM_KIND_IO, "batches", &run->memory);
    run->logits = NULL;
    mnem_ledger_release(run->ledger, MNEM_KIND_IO, "feed stack", MNEM_FEED_STACK_BYTES);
}

void train_text_note(const train_run *run, char note[TRAIN_NOTE]) {
    snprintf(note, TRAIN_NOTE, "mnem train, text %016llx",
             (unsigned long long)run->corpus_info.checksum);
}

void train_text_close(train_run *run) {
    train_feed_stop(run);
    mnem_corpus_close(run->corpus);
    mnem_tokenizer_destroy(run->tokenizer);
    mnem_model_close(run->vocabulary);
}
