/* tell_settings.c: the settings of answers, in the form of llama.cpp's server. */
#include <string.h>

#include "server/api/tell/tell_private.h"

void tell_put_sampler(api_text *out, const mnem_sampler_options *s) {
    api_format(out,
               "\"temperature\":%g,\"top_k\":%d,\"top_p\":%g,\"min_p\":%g,\"repeat_penalty\":%g,"
               "\"repeat_last_n\":%d,\"presence_penalty\":%g,\"frequency_penalty\":%g,"
               "\"dry_multiplier\":%g,\"dry_base\":%g,\"dry_allowed_length\":%d,"
               "\"dry_penalty_last_n\":%d,\"xtc_probability\":%g,\"xtc_threshold\":%g",
               (double)s->temperature, s->top_k, (double)s->top_p, (double)s->min_p,
               (double)s->repeat_penalty, s->repeat_last, (double)s->presence_penalty,
               (double)s->frequency_penalty, (double)s->dry_multiplier, (double)s->dry_base,
               s->dry_allowed_length, s->dry_penalty_last, (double)s->xtc_probability,
               (double)s->xtc_threshold);
}

/* A ban is null: JSON has no infinity. */
static void put_bias(api_text *out, int32_t id, const float *bias, bool *any) {
    api_format(out, "%s{\"token\":%d,\"bias\":", *any ? "," : "", id);
    *any = true;
    if (bias)
        api_put_real(out, (double)*bias);
    else
        api_say(out, "null");
    api_say(out, "}");
}

static void put_biases(const tell *t, const ask_request *ask, api_text *out) {
    mnem_tokenizer_info info;
    bool any = false;
    mnem_tokenizer_info_get(t->tokenizer, &info);
    api_say(out, ",\"logit_bias\":[");
    for (int32_t i = 0; i < ask->sampler.bias_count; i++)
        put_bias(out, ask->bias[i].id, &ask->bias[i].bias, &any);
    for (int32_t id = 0; ask->ignore_end && id < info.vocab; id++)
        if (mnem_tokenizer_is_end(t->tokenizer, id)) put_bias(out, id, NULL, &any);
    api_say(out, "]");
}

void tell_set_settings(tell *t, const ask_request *ask) {
    api_text *out = &t->settings;
    const int limit = ask->no_answer ? 0 : ask->tokens ? ask->tokens : -1;
    api_format(out, "\"n_predict\":%d,\"max_tokens\":%d,\"seed\":", limit, limit);
    if (ask->seeded)
        api_format(out, "%llu,", (unsigned long long)ask->sampler.seed);
    else
        api_say(out, "-1,");
    tell_put_sampler(out, &ask->sampler);
    /* Samplers that llama.cpp has beside these are off. */
    api_format(out,
               ",\"typical_p\":1,\"top_n_sigma\":-1,\"dynatemp_range\":0,\"mirostat\":0,"
               "\"adaptive_target\":-1,\"adaptive_decay\":0,\"ignore_eos\":%s,\"stream\":%s,"
               "\"n_probs\":%d,\"stop\":[",
               ask->ignore_end ? "true" : "false", ask->stream ? "true" : "false", ask->top);
    for (int i = 0; i < ask->stops; i++) {
        if (i) api_say(out, ",");
        api_quote(out, ask->stop[i], strlen(ask->stop[i]));
    }
    api_say(out, "]");
    put_biases(t, ask, out);
}

void tell_set_prompt(tell_choice *c, const int32_t *ids, int32_t n) {
    mnem_utf8_joiner joiner = {0};
    char whole[3 * (256 + 4)];
    for (int32_t i = 0; i < n; i++) {
        const mnem_text piece = mnem_tokenizer_piece(c->tell->tokenizer, ids[i], true);
        for (size_t at = 0; at < piece.length; at += 256) {
            const size_t part = piece.length - at < 256 ? piece.length - at : 256;
            api_put(&c->prompt, whole, mnem_utf8_join(&joiner, piece.bytes + at, part, whole));
        }
    }
    api_put(&c->prompt, whole, mnem_utf8_join(&joiner, NULL, 0, whole));
}
