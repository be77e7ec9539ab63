/* refusal.c: a plan's refusal in the command's words.
 *
 * The idea: the library says bytes and budget, and names the option that would help as data
 * (mnem/plan.h); only here are options called as on the command line. */
#include <string.h>

#include "options.h"
#include "ranks/ranks.h"
#include "stage.h"

enum { DEVICES_NAMED = 8, WORDS = 256 };

/* The same devices with so much more each, as --devices takes them. */
static void devices_words(uint64_t more, const mnem_engine_device *devices, int32_t count,
                          char text[WORDS]) {
    char size[TOOL_TEXT];
    if (count > DEVICES_NAMED) {
        snprintf(text, WORDS, "--devices with %s more each would fit", tool_size(more, size));
        return;
    }
    int used = snprintf(text, WORDS, "--devices ");
    for (int32_t i = 0; i < count; i++) {
        const uint64_t mib = (devices[i].capacity_bytes + more + (1 << 20) - 1) >> 20;
        used += snprintf(text + used, (size_t)(WORDS - used), "%s%lluM", i ? "," : "",
                         (unsigned long long)mib);
    }
    snprintf(text + used, (size_t)(WORDS - used), " would fit");
}

/* "" for none. */
static void knob_words(mnem_knob knob, char text[WORDS]) {
    const long long value = knob.value;
    *text = 0;
    switch (knob.kind) {
    case MNEM_KNOB_CHUNK: snprintf(text, WORDS, "--chunk %lld would fit", value); break;
    case MNEM_KNOB_KV:
        snprintf(text, WORDS, "--kv %s would fit", mnem_kv_text((mnem_kv_choice)value));
        break;
    case MNEM_KNOB_CONTEXT: snprintf(text, WORDS, "--ctx %lld would fit", value); break;
    case MNEM_KNOB_DRAFT:
        snprintf(text, WORDS, value ? "--draft-max %lld would fit" : "--draft off would fit",
                 value);
        break;
    case MNEM_KNOB_MODEL:
        snprintf(text, WORDS, "a file of a smaller type needs less (mnem quantize writes one)");
        break;
    case MNEM_KNOB_MOMENTS: snprintf(text, WORDS, "--moments 8bit needs less"); break;
    case MNEM_KNOB_MICRO_BATCH: snprintf(text, WORDS, "a smaller --micro-batch needs less"); break;
    case MNEM_KNOB_COMPUTE: snprintf(text, WORDS, "--precision bf16 needs less"); break;
    case MNEM_KNOB_DEVICES:
    case MNEM_KNOB_NONE: break;
    }
}

/* ---- refusals that wait for those of other work ---- */

static struct {
    bool on, is;
    uint64_t needed_bytes, budget_bytes;
    char text[3 * WORDS];
} held;

void tool_refusal_hold(void) {
    held.on = true;
}

bool tool_refusal_held(void) {
    return held.is;
}

/* What MPI takes isn't the same at every start: 1.45 MiB between the least and the most of 45. */
static uint64_t start_bytes(void) {
    enum { STARTS_DIFFER = 2 << 20 };
    return tool_ranks() ? STARTS_DIFFER : 0;
}

static void note_plan(uint64_t needed_bytes, uint64_t budget_bytes, char least[TOOL_TEXT]) {
    tool_failure_bytes("needed_bytes", needed_bytes);
    tool_failure_bytes("budget_bytes", budget_bytes);
    tool_failure_text("least", mnem_size_budget(needed_bytes + start_bytes(), least, TOOL_TEXT));
}

char *tool_budget_of_other(uint64_t bytes, char text[TOOL_TEXT]) {
    enum { SPARE = 32 << 10, EIGHTH = 128 << 10 }; /* whole eighths are named in MiB */
    const uint64_t up = bytes + SPARE + EIGHTH - 1;
    return mnem_size_budget(up - up % EIGHTH, text, TOOL_TEXT);
}

/* The list of budgets with this one in a rank's place; without a list just this one. */
static void list_words(int32_t rank, const char *least, char text[WORDS]) {
    const char *list = tool_budget_list(), *entry = list;
    if (!list) {
        snprintf(text, WORDS, "%s", least);
        return;
    }
    for (; rank > 0 && strchr(entry, ','); rank--) entry = strchr(entry, ',') + 1;
    snprintf(text, WORDS, "%.*s%s%s", (int)(entry - list), list, least,
             entry + strcspn(entry, ","));
}

static int refuse(const char *text, uint64_t needed_bytes, uint64_t budget_bytes) {
    char least[TOOL_TEXT];
    if (held.on) {
        if (held.is && held.needed_bytes >= needed_bytes) return TOOL_OVER_BUDGET;
        held.is = true;
        held.needed_bytes = needed_bytes;
        held.budget_bytes = budget_bytes;
        snprintf(held.text, sizeof held.text, "%s", text);
        return TOOL_OVER_BUDGET;
    }
    note_plan(needed_bytes, budget_bytes, least);
    return tool_over("%s", text);
}

int tool_refusal_end(int code) {
    const bool says = held.is && (code == TOOL_OK || code == TOOL_OVER_BUDGET);
    held.on = held.is = false;
    if (!says) return code;
    refuse(held.text, held.needed_bytes, held.budget_bytes);
    tool_message("no output file has been written");
    return TOOL_OVER_BUDGET;
}

int tool_fail_plan(mnem_status status, uint64_t needed_bytes, uint64_t budget_bytes,
                   mnem_knob knob) {
    if (status != MNEM_OVER_BUDGET || !needed_bytes) return tool_fail_asked(status);
    return tool_fail_rank(mnem_last_error(), 0, needed_bytes, budget_bytes, knob, "");
}

int tool_fail_needs(uint64_t needed_bytes, uint64_t budget_bytes, mnem_knob knob) {
    char text[WORDS], needed[TOOL_TEXT], have[TOOL_TEXT], over[TOOL_TEXT];
    const char *why = mnem_last_error(), *plan = strstr(why, "plan: needs ");
    const int rank = plan ? (int)(plan - why) : 0; /* "rank 0 of 2 (layers 0 to 2): " */
    snprintf(text, sizeof text, "%.*splan: needs %llu bytes (%s), budget is %llu (%s), %s over",
             rank, why, (unsigned long long)needed_bytes, tool_size(needed_bytes, needed),
             (unsigned long long)budget_bytes, tool_size(budget_bytes, have),
             tool_size(needed_bytes - budget_bytes, over));
    return tool_fail_rank(text, 0, needed_bytes, budget_bytes, knob, "");
}

int tool_fail_rank(const char *text, int32_t rank, uint64_t needed_bytes, uint64_t budget_bytes,
                   mnem_knob knob, const char *more) {
    char words[WORDS], list[WORDS], least[TOOL_TEXT], all[3 * WORDS];
    if (!needed_bytes) return tool_over("%s", text);
    mnem_size_budget(needed_bytes + start_bytes(), least, sizeof least);
    list_words(rank, least, list);
    knob_words(knob, words);
    const char *then = !*words ? "" : knob.kind < MNEM_KNOB_MODEL ? "; otherwise " : ", ";
    snprintf(all, sizeof all, "%s: %s%s%sthe smallest budget that works is --memory %s", text,
             words, then, more, list);
    return refuse(all, needed_bytes, budget_bytes);
}

int tool_fail_bytes(const char *who, uint64_t needed_bytes, uint64_t budget_bytes) {
    char needed[TOOL_TEXT], have[TOOL_TEXT], over[TOOL_TEXT], least[TOOL_TEXT], all[2 * WORDS];
    snprintf(all, sizeof all,
             "plan: %s need %llu bytes (%s), budget is %llu (%s), %s over: a shorter --ctx needs "
             "less; otherwise the smallest budget that works is --memory %s",
             who, (unsigned long long)needed_bytes, tool_size(needed_bytes, needed),
             (unsigned long long)budget_bytes, tool_size(budget_bytes, have),
             tool_size(needed_bytes - budget_bytes, over),
             mnem_size_budget(needed_bytes + start_bytes(), least, sizeof least));
    return refuse(all, needed_bytes, budget_bytes);
}

int tool_fail_capacity(uint64_t needed_bytes, uint64_t capacity_bytes) {
    char needed[TOOL_TEXT], have[TOOL_TEXT], least[TOOL_TEXT];
    note_plan(needed_bytes, capacity_bytes, least);
    return tool_over("plan: needs %llu bytes (%s), but the device holds %s: the smallest that "
                     "works is --capacity %s",
                     (unsigned long long)needed_bytes, tool_size(needed_bytes, needed),
                     tool_size(capacity_bytes, have), least);
}

int tool_fail_split(const mnem_engine_split *split, const mnem_engine_device *devices,
                    int32_t count) {
    char words[WORDS];
    tool_failure_bytes("short_bytes", split->short_bytes);
    knob_words(split->knob, words);
    if (split->knob.kind == MNEM_KNOB_DEVICES)
        devices_words((uint64_t)split->knob.value, devices, count, words);
    return tool_over("%s: %s", mnem_last_error(), words);
}
