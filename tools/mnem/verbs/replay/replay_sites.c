/* replay_sites.c: who holds the peak: a table of sites, in 80 columns or as many as the terminal
 * has; and what a snapshot says, put together. */
#include <string.h>
#include <unistd.h>

#include "verbs/replay/replay_snapshot.h"

enum { ROWS = 10, BEFORE_SITE = 47, SITE_LEAST = 24 };

/* ---- a site in few columns ---- */

/* The text behind the folders: "train.py:41 forward". */
static const char *behind_folders(const char *site) {
    const char *end = strchr(site, ' '), *base = site;
    for (const char *p = site; *p && p != end; p++)
        if (*p == '/') base = p + 1;
    return base;
}

char *replay_site_text(const char *site, int room, char text[TOOL_TEXT * 8]) {
    const size_t most = (size_t)(room < TOOL_TEXT * 8 ? room : TOOL_TEXT * 8 - 1);
    const char *base = behind_folders(site);
    if (!*site) return strcpy(text, "(not recorded)");
    if (strlen(site) <= most) return strcpy(text, site);
    if (strlen(base) > most) {
        snprintf(text, most + 1, "%.*s...", (int)most - 3, base);
        return text;
    }
    /* As many folders as there is room for. */
    const char *from = base;
    for (const char *p = base - 1; p > site; p--)
        if (p[-1] == '/' && strlen(p) + 4 <= most) from = p;
    snprintf(text, most + 1, "%s%s", from > site && strlen(from) + 4 <= most ? ".../" : "", from);
    return text;
}

static int site_room(void) {
    const int columns = tool_columns(stdout), room = (columns > 0 ? columns : 80) - BEFORE_SITE;
    return room < SITE_LEAST ? SITE_LEAST : room;
}

/* ---- the table ---- */

/* "1.2 s", "340 ms", "12 us"; operations where there are no times. */
static char *age_text(mnem_snapshot_age age, bool timed, const char *sign, char text[TOOL_TEXT]) {
    const double us = (double)age.us;
    char number[TOOL_TEXT];
    if (!timed)
        snprintf(text, TOOL_TEXT, "%s%s", sign, tool_exact(age.ops, number));
    else if (us < 999.5)
        snprintf(text, TOOL_TEXT, "%s%.0f us", sign, us);
    else if (us < 999.5e3)
        snprintf(text, TOOL_TEXT, "%s%.0f ms", sign, us / 1e3);
    else if (us < 120e6)
        snprintf(text, TOOL_TEXT, "%s%.1f s", sign, us / 1e6);
    else
        snprintf(text, TOOL_TEXT, "%s%.0f min", sign, us / 60e6);
    return text;
}

static bool is_timed(const mnem_snapshot_holders *h) {
    for (size_t i = 0; i < h->count; i++)
        if (h->of[i].oldest.us) return true;
    return false;
}

static void print_row(const mnem_snapshot_holders *all, uint64_t bytes, uint64_t blocks,
                      const char *oldest, const char *median, const char *site) {
    char size[TOOL_TEXT], count[TOOL_TEXT];
    tool_outf("  %9s %6.1f%% %7s %8s %8s  %s\n", tool_size(bytes, size),
              all->bytes ? 100 * (double)bytes / (double)all->bytes : 0, tool_exact(blocks, count),
              oldest, median, site);
}

static void print_holder(const mnem_snapshot_holders *all, size_t i, bool timed) {
    const mnem_snapshot_holder *h = &all->of[i];
    char oldest[TOOL_TEXT], median[TOOL_TEXT], site[TOOL_TEXT * 8];
    age_text(h->oldest, timed, h->blocks_before ? ">" : "", oldest);
    age_text(h->median, timed, 2 * h->blocks_before > h->blocks ? ">" : "", median);
    const bool before = !*h->site && h->blocks_before == h->blocks;
    print_row(all, h->bytes, h->blocks, oldest, median,
              before ? "(from before the record)" : replay_site_text(h->site, site_room(), site));
}

static void print_others(const mnem_snapshot_holders *all) {
    uint64_t bytes = 0, blocks = 0;
    char name[TOOL_TEXT];
    if (all->count <= ROWS) return;
    for (size_t i = ROWS; i < all->count; i++) {
        bytes += all->of[i].bytes;
        blocks += all->of[i].blocks;
    }
    snprintf(name, sizeof name, "%zu other%s", all->count - ROWS, tool_s(all->count - ROWS));
    print_row(all, bytes, blocks, "", "", name);
}

/* Stacks are an option of PyTorch's recorder. */
static void print_no_stacks(const mnem_snapshot_holders *all) {
    if (all->count != 1 || *all->of[0].site) return;
    tool_out_flush();
    tool_wrap(stdout, "  ",
              "the snapshot has no stacks: call "
              "torch.cuda.memory._record_memory_history(stacks=\"python\") before the steps to "
              "record them");
}

void replay_sites_print(const replay_snapshot *s, const replay_case *c) {
    const mnem_snapshot_holders *all = s->holders;
    char size[TOOL_TEXT], op[TOOL_TEXT], count[TOOL_TEXT];
    const bool timed = is_timed(all);
    tool_outf("\nwho holds the peak: %s after operation %s of %s\n", tool_size(all->bytes, size),
              tool_exact(all->ops, op), tool_exact(c->info.count, count));
    tool_outf("  %9s %7s %7s %8s %8s  %s\n", "bytes", "share", "blocks", "oldest", "median",
              timed ? "site" : "site (ages in operations)");
    for (size_t i = 0; i < all->count && i < ROWS; i++) print_holder(all, i, timed);
    print_others(all);
    print_row(all, all->bytes, all->blocks, "", "", "all");
    print_no_stacks(all);
}

json_t *replay_sites_json(const replay_snapshot *s) {
    const mnem_snapshot_holders *all = s->holders;
    const bool timed = is_timed(all);
    json_t *sites = json_array();
    for (size_t i = 0; i < all->count; i++) {
        const mnem_snapshot_holder *h = &all->of[i];
        json_array_append_new(sites, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "site",
                                               h->site, "bytes", (json_int_t)h->bytes, "blocks",
                                               (json_int_t)h->blocks, "blocks_before",
                                               (json_int_t)h->blocks_before, "oldest_operations",
                                               (json_int_t)h->oldest.ops, "median_operations",
                                               (json_int_t)h->median.ops, "oldest_us",
                                               tool_json_count(timed, h->oldest.us), "median_us",
                                               tool_json_count(timed, h->median.us)));
    }
    return sites;
}

/* ---- all that a snapshot says ---- */

mnem_status replay_snapshot_make(const replay_case *c, replay_snapshot *s) {
    *s = (replay_snapshot){.present = c->info.devices > 0};
    if (!s->present) return MNEM_OK;
    s->settings_known = mnem_snapshot_settings(c->workload, &s->settings, &s->settings_text);
    s->failures = mnem_snapshot_failures(c->workload);
    mnem_status status = mnem_snapshot_holders_create(c->workload, MNEM_SNAPSHOT_PEAK, &s->holders);
    if (status == MNEM_OK && s->failures)
        status = mnem_snapshot_failure_create(c->workload, s->failures - 1, &s->failure);
    s->capacity = c->asked->capacity;
    if (s->failure && !s->capacity)
        s->capacity = s->failure->bytes_reserved + s->failure->bytes_device_free;
    return status == MNEM_OK ? replay_settings_try(c, s) : status;
}

void replay_snapshot_fini(replay_snapshot *s) {
    mnem_snapshot_holders_destroy(s->holders);
    mnem_snapshot_failure_destroy(s->failure);
    *s = (replay_snapshot){0};
}

void replay_snapshot_json(const replay_snapshot *s, const replay_case *c, json_t *root) {
    json_object_set_new(root, "peak_operation",
                        tool_json_count(s->present, s->present ? s->holders->ops : 0));
    json_object_set_new(root, "sites", s->present ? replay_sites_json(s) : json_null());
    json_object_set_new(root, "failure", s->failure ? replay_failure_json(s) : json_null());
    json_object_set_new(root, "pytorch", s->present ? replay_settings_json(s, c) : json_null());
}
