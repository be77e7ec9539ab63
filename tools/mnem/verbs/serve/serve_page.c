/* serve_page.c: the page at `/`, and the numbers that it shows.
 *
 * The page is one file in the command, which asks for nothing from elsewhere. Its policy lets it
 * talk to this server only, and lets no script run but its own, whose sum it names: what a model
 * writes can't become one. Its numbers are made by hand: jansson's memory is the requests'. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "verbs/serve/serve_tool.h"

extern const char serve_page_html[]; /* made by the build from serve_page.html and page/ */
extern const size_t serve_page_html_bytes;
extern const char serve_page_policy[]; /* "script-src 'sha256-...'; style-src 'sha256-...'; " */
extern const size_t serve_page_policy_bytes;

enum { NUMBERS = 15 << 10, SLOTS = 64 };

static const serve *shown;

typedef struct text {
    char bytes[NUMBERS];
    size_t n;
} text;

static __attribute__((format(printf, 2, 3))) void say(text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(t->bytes + t->n, sizeof t->bytes - t->n, format, args);
    va_end(args);
    t->n += (size_t)n;
    if (t->n >= sizeof t->bytes) t->n = sizeof t->bytes - 1; /* the page sees that it isn't JSON */
}

/* Within quotes. */
static void quote(text *t, const char *word) {
    say(t, "\"");
    for (; *word; word++) {
        if ((unsigned char)*word < 0x20 || *word == '"' || *word == '\\')
            say(t, "\\u%04x", (unsigned)(unsigned char)*word);
        else
            say(t, "%c", *word);
    }
    say(t, "\"");
}

/* ---- numbers ---- */

static void put_ledger(text *t, const mnem_ledger *ledger) {
    uint64_t live[MNEM_KIND_COUNT] = {0};
    mnem_ledger_info info;
    mnem_account_info account;
    mnem_ledger_info_get(ledger, &info);
    for (unsigned i = 0; mnem_ledger_account_get(ledger, i, &account); i++)
        live[account.kind] += account.bytes_live;
    say(t, "\"budget\":%" PRIu64 ",\"live\":%" PRIu64 ",\"peak\":%" PRIu64 ",\"kinds\":{",
        info.budget_bytes, info.bytes_live, info.bytes_peak);
    for (int i = 0; i < MNEM_KIND_COUNT; i++)
        say(t, "%s\"%s\":%" PRIu64, i ? "," : "", mnem_kind_text((mnem_kind)i), live[i]);
    say(t, "}");
}

static void put_scheduler(text *t, const mnem_scheduler_stats *s) {
    say(t, ",\"running\":%d,\"waiting\":%d,\"preempted\":%d,\"draining\":%s", s->running,
        s->waiting, s->preempted, s->draining ? "true" : "false");
    say(t,
        ",\"pages\":{\"all\":%" PRIu64 ",\"private\":%" PRIu64 ",\"shared\":%" PRIu64
        ",\"cached\":%" PRIu64 ",\"free\":%" PRIu64 ",\"bytes\":%" PRIu64 "}",
        s->pages, s->pages_private, s->pages_shared, s->pages_cached, s->pages_free, s->page_bytes);
    say(t,
        ",\"tokens\":%" PRIu64 ",\"prompt_tokens\":%" PRIu64 ",\"looked_for\":%" PRIu64
        ",\"found\":%" PRIu64 ",\"preemptions\":%" PRIu64 ",\"swap\":%" PRIu64,
        s->tokens, s->prompt_tokens, s->prefix_queries, s->prefix_hits, s->preemptions,
        s->swap_bytes_live);
    say(t, ",\"steps\":%" PRIu64 ",\"step_ms\":%.3f,\"step_most_ms\":%.3f,\"rate\":%.3f", s->steps,
        1e3 * s->step_seconds_last, 1e3 * s->step_seconds_longest, s->tokens_per_s);
}

static const char *state_text(mnem_slot_state state) {
    switch (state) {
    case MNEM_SLOT_FREE: return "free";
    case MNEM_SLOT_PROMPT: return "prompt";
    case MNEM_SLOT_GENERATING: return "generating";
    case MNEM_SLOT_CACHED: return "cached";
    default: return "swapping";
    }
}

static void put_slots(text *t, const mnem_scheduler *scheduler) {
    static mnem_scheduler_slot slot[SLOTS];
    const int32_t there = mnem_scheduler_slots_get(scheduler, slot, SLOTS);
    say(t, ",\"slots\":[");
    for (int32_t i = 0; i < there && i < SLOTS; i++)
        say(t, "%s[\"%s\",%d,%d,%d,%d]", i ? "," : "", state_text(slot[i].state), slot[i].length,
            slot[i].pages, slot[i].pages_private, slot[i].tokens);
    say(t, "]");
}

/* All of them, where there are several: the rest of the numbers is of one. */
static void put_models(text *t) {
    enum { MODELS_ROOM = 12 << 10 };
    api_model_view view;
    say(t, ",\"models\":[");
    for (int32_t i = 0; t->n < MODELS_ROOM && api_model_view_get(shown->api, i, &view); i++) {
        say(t, "%s{\"name\":", i ? "," : "");
        quote(t, view.name);
        say(t, ",\"state\":\"%s\",\"bytes\":%" PRIu64 ",\"pin\":%s,\"requests\":%d,\"waiting\":%d}",
            api_state_text(view.state), view.bytes, view.pin ? "true" : "false", view.requests,
            view.waiting);
    }
    say(t, "]");
}

static void on_numbers(void *context, http_exchange *exchange, const http_request *request) {
    static text t; /* one thread asks */
    const bool several = shown->o->models != NULL;
    const int32_t of = api_model_of_query(shown->api, request->query);
    api_model_view view;
    http_server_stats clients;
    (void)context;
    api_model_view_get(shown->api, of, &view);
    http_server_stats_get(shown->http, &clients);
    mnem_scheduler *scheduler = several ? view.scheduler : atomic_load(&shown->ready);
    mnem_scheduler_stats stats = {0};
    if (scheduler) mnem_scheduler_stats_get(scheduler, &stats);
    t.n = 0;
    say(&t, "{\"model\":");
    quote(&t, view.name);
    say(&t, ",\"version\":\"%s\",\"context\":%d,\"parallel\":%d,\"page_tokens\":%d,", MNEM_VERSION,
        several ? view.context : shown->model.stage.plan.context,
        several ? stats.running_most : shown->model.parallel,
        several ? 0 : shown->model.stage.plan.page_tokens);
    put_ledger(&t, shown->model.stage.ledger);
    say(&t, ",\"resident_peak\":%" PRIu64 ",\"connections\":%d,\"ready\":%s", tool_peak_bytes(),
        clients.connections, scheduler || several ? "true" : "false");
    if (scheduler) {
        put_scheduler(&t, &stats);
        put_slots(&t, scheduler);
    }
    if (several) put_models(&t);
    say(&t, "}\n");
    http_respond(exchange, 200, "application/json", "Cache-Control: no-store\r\n", t.bytes, t.n);
}

/* ---- the page ---- */

static char page_headers[600];

static void on_page(void *context, http_exchange *exchange, const http_request *request) {
    (void)context;
    (void)request;
    http_respond_borrowed(exchange, 200, "text/html; charset=utf-8", page_headers, serve_page_html,
                          serve_page_html_bytes);
}

size_t serve_page_routes(serve *s, size_t count) {
    shown = s;
    snprintf(page_headers, sizeof page_headers,
             "Content-Security-Policy: default-src 'none'; %sconnect-src 'self'; img-src data:; "
             "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
             "require-trusted-types-for 'script'; trusted-types 'none'\r\n"
             "Referrer-Policy: no-referrer\r\nCache-Control: no-cache\r\n",
             serve_page_policy);
    s->routes[count++] = (http_route){"GET", "/", on_page, true};
    s->routes[count++] = (http_route){"GET", "/page.json", on_numbers, false};
    s->routes[count] = (http_route){NULL, NULL, NULL, false};
    return count;
}
