/* tell_private.h: what the files of this room share. */
#ifndef MNEM_SRC_SERVER_API_TELL_TELL_PRIVATE_H
#define MNEM_SRC_SERVER_API_TELL_TELL_PRIVATE_H

#include "server/api/tell/tell.h"

/* ---- tell_parts.c ---- */
/* Tells what the first n held bytes are; final: nothing follows them. How many it has told: the
 * others may yet be part of a mark. */
size_t tell_parts(tell_choice *choice, size_t n, bool final);

/* ---- tell_logs.c ---- */
/* first: of a prompt, without a logprob. */
void tell_log_add(tell_choice *choice, const mnem_request_token *token, bool first);
/* Writes the logs of all tokens so far, and forgets them: entries of a list as
 * /v1/chat/completions has them; ids: with the tokens' ids, as llama.cpp's /completion has them. */
void tell_logs_entries(tell_choice *choice, bool ids, api_text *out);
/* The members of logprobs of /v1/completions, into their lists. */
void tell_logs_text(tell_choice *choice, api_text lists[4]);
/* Those that begin at `from` or behind it are never told. */
void tell_logs_cut(tell_choice *choice, uint64_t from);

/* ---- forms: each in its file ---- */
extern const tell_form tell_form_chat, tell_form_text, tell_form_completion, tell_form_responses,
    tell_form_messages, tell_form_ollama;

/* "data: " and a line's end around what is put between. */
void tell_event_begin(tell *tell, const char *name); /* name NULL: without an "event:" line */
void tell_event_end(tell *tell);
/* The id of the call that begins, with a prefix, into call_id: no other call of a server has it. */
void tell_call_id(tell_choice *choice, const char *prefix);
/* Whether all arguments of the call that ends have come: its marks needn't have. */
bool tell_call_is_whole(const tell_choice *choice);
/* A member "mnem" behind a comma, where there is something to say: what of the schemas of tools
 * isn't held to. */
void tell_put_mnem(tell *tell);
/* A member "timings" behind a comma, as llama.cpp has it: of a choice so far. A prompt's time is up
 * to the first token, with any wait for its turn; that token is part of it, so that the others have
 * the time after it. */
void tell_put_timings(const tell_choice *choice);
/* Members behind a comma: "prompt_progress", and with it timings where they are in each event. */
void tell_put_progress(const tell_choice *choice);
/* A member "system_fingerprint" behind a comma: of the version. */
void tell_put_fingerprint(tell *tell);
/* {"prompt_tokens": ..} of all choices. */
void tell_put_usage(tell *tell);
int32_t tell_tokens(const tell *tell);

#endif
