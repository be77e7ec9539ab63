/* session_frontier.c: the ways to run that nothing beats, from the smallest to the fastest.
 *
 * Idea: every way of the search is offered to a list that is sorted by bytes; one that is slower
 * than a smaller one is refused, and one that is let in removes the larger ones that it beats.
 *
 *     seconds |.                       bytes grow, seconds fall
 *             |   .  .
 *             |          .    .        a budget buys the last one that it covers
 *             +------------------ bytes
 *
 * Invariant: along the list bytes grow and seconds fall, both strictly.
 * Cost: each way is measured once; a binary search for each, and a move of the list's end for each
 * that is let in. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "engine/session_search.h"
#include "engine/session_text.h"

typedef struct frontier {
    mnem__way *way;
    int32_t count, room;
} frontier;

/* How many ways take at most so many bytes. */
static int32_t count_to(const frontier *f, uint64_t bytes) {
    int32_t low = 0, high = f->count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (f->way[middle].peak_bytes <= bytes)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static mnem_status reserve(frontier *f) {
    if (f->count < f->room) return MNEM_OK;
    const int32_t room = f->room ? 2 * f->room : 64;
    mnem__way *more = mnem__calloc("plan", (size_t)room, sizeof *more);
    if (!more) return mnem__heap_status();
    if (f->count) memcpy(more, f->way, (size_t)f->count * sizeof *more);
    mnem__free(f->way);
    f->way = more;
    f->room = room;
    return MNEM_OK;
}

static mnem_status offer(frontier *f, const mnem__way *way) {
    int32_t at = count_to(f, way->peak_bytes);
    if (at > 0 && f->way[at - 1].seconds <= way->seconds) return MNEM_OK;
    const mnem_status status = reserve(f);
    if (status != MNEM_OK) return status;
    if (at > 0 && f->way[at - 1].peak_bytes == way->peak_bytes) at--;
    int32_t beaten = at;
    while (beaten < f->count && f->way[beaten].seconds >= way->seconds) beaten++;
    memmove(&f->way[at + 1], &f->way[beaten], (size_t)(f->count - beaten) * sizeof *f->way);
    f->count += 1 - (beaten - at);
    f->way[at] = *way;
    return MNEM_OK;
}

static mnem_status offer_all(const mnem__search *search, int32_t context, frontier *f) {
    mnem_status status = MNEM_OK;
    mnem__way way = {0};
    for (int32_t i = 0; i < search->graph_count; i++) {
        way.graphs = &search->graphs[i];
        if (way.graphs->context != context) continue;
        for (int32_t j = 0; j < search->ring_count * search->residency_count; j++) {
            way.ring = &search->rings[j / search->residency_count];
            way.residency = &search->residency[j % search->residency_count];
            if (mnem__way_complete(search, &way)) status = offer(f, &way);
            if (status != MNEM_OK) return status;
        }
    }
    return MNEM_OK;
}

static mnem_session_way describe(const mnem__search *search, const mnem__way *way,
                                 const mnem__way *fastest, const mnem_session_plan *plan) {
    const mnem__choice choice = mnem__way_choice(way);
    mnem_session_way out = {
        .peak_bytes = way->peak_bytes,
        .seconds = way->seconds,
        .tokens_per_s = 1 / mnem__way_pass_seconds(search, way, 1, true),
        .prompt_tokens_per_s =
            choice.chunk / mnem__way_pass_seconds(search, way, choice.chunk, false),
        .context = choice.context,
        .chunk = choice.chunk,
        .kv_type = choice.kv_type,
        .matrices_resident = choice.resident,
        .bytes_streamed_per_pass =
            way->residency->streamed_bytes_body + way->residency->streamed_bytes_head,
        .chosen = way->peak_bytes == plan->peak_bytes && way->seconds == plan->predicted_seconds};
    char text[192];
    if (way == fastest) return out;
    mnem__plan_change(fastest, way, text, sizeof text);
    const char *change = strstr(text, ": ");
    snprintf(out.gave_up, sizeof out.gave_up, "%s", change ? change + 2 : "");
    return out;
}

/* What is charged now, as when the plan was made. */
static uint64_t bytes_live(const mnem_session_options *options) {
    mnem_ledger_info info = {0};
    if (options->ledger) mnem_ledger_info_get(options->ledger, &info);
    return info.bytes_live;
}

/* What planning measures first, or anything with the same reference job. */
static int32_t first_context(const mnem__setup *setup) {
    if (setup->options->context) return setup->options->context;
    return setup->map->shape.context < 1 ? INT32_MAX : setup->map->shape.context;
}

mnem_status mnem_session_frontier(const mnem_model *model, const mnem_session_options *options,
                                  const mnem_session_plan *plan, mnem_on_way *on_way,
                                  void *context) {
    mnem__setup setup;
    mnem__search search;
    frontier f = {0};
    const uint64_t live = bytes_live(options);
    mnem_status status = mnem__setup_init(&setup, model, options);
    if (status != MNEM_OK) return status;
    status = mnem__search_init(&search, &setup, live);
    if (status == MNEM_OK) {
        mnem__search_reference(&search, first_context(&setup));
        status = mnem__search_context(&search, plan->context, options->kv, options->chunk);
        if (status == MNEM_OK) status = offer_all(&search, plan->context, &f);
        for (int32_t i = 0; i < f.count && status == MNEM_OK; i++) {
            const mnem_session_way way = describe(&search, &f.way[i], &f.way[f.count - 1], plan);
            if (!on_way(context, &way)) break;
        }
        mnem__search_fini(&search);
    }
    mnem__free(f.way);
    mnem__setup_fini(&setup);
    return status;
}
