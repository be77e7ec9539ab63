/* tell_private.h: shared by the files of this folder. */
#ifndef MNEM_SRC_SERVER_API_TELL_TELL_PRIVATE_H
#define MNEM_SRC_SERVER_API_TELL_TELL_PRIVATE_H

#include "server/api/tell/tell.h"

/* ---- tell_parts.c ---- */
/* Processes the first n held bytes; final: nothing follows. Returns the number of processed
 * bytes: the others may be part of a mark. */
size_t tell_parts(tell_choice *choice, size_t n, bool final);

/* ---- tell_logs.c ---- */
/* first: the first token of a prompt, without a logprob. */
void tell_log_add(tell_choice *choice, const mnem_request_token *token, bool first);
/* Writes the logs of all tokens so far, and removes them: entries of a list in the form of
 * /v1/chat/completions; ids: with the tokens' ids, in the form of llama.cpp's /completion. */
void tell_logs_entries(tell_choice *choice, bool ids, api_text *out);
/* Writes the members of /v1/completions' logprobs into their lists. */
void tell_logs_text(tell_choice *choice, api_text lists[4]);
/* Drops the logs of tokens that begin at `from` or behind it. */
void tell_logs_cut(tell_choice *choice, uint64_t from);

/* ---- forms: each in its file ---- */
extern const tell_form tell_form_chat, tell_form_text, tell_form_completion, tell_form_responses,
    tell_form_messages, tell_form_ollama;

/* Write "data: " before an event's data, and the line ends behind it. */
void tell_event_begin(tell *tell, const char *name); /* name NULL: without an "event:" line */
void tell_event_end(tell *tell);
/* Sets call_id of the call that begins: a prefix and a number, unique in the server. */
void tell_call_id(tell_choice *choice, const char *prefix);
/* Whether all arguments of the ended call are complete; its marks may be missing. */
bool tell_call_is_whole(const tell_choice *choice);
/* Writes a comma and the member "mnem" with the parts of the tools' schemas that aren't
 * enforced, if any. */
void tell_put_mnem(tell *tell);
/* A member "timings" behind a comma, as llama.cpp has it: of a choice so far. A prompt's time is up
 * to the first token, with any wait for its turn; that token is part of it, so that the others have
 * the time after it. */
void tell_put_timings(const tell_choice *choice);
/* Members behind a comma: "prompt_progress", and with it timings where they are in each event. */
void tell_put_progress(const tell_choice *choice);
/* A member "system_fingerprint" behind a comma: of the version. */
void tell_put_fingerprint(tell *tell);
/* Writes {"prompt_tokens": ..}, summed over all choices. */
void tell_put_usage(tell *tell);
int32_t tell_tokens(const tell *tell);

#endif
