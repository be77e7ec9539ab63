/* replay_snapshot.h: what `mnem replay` says of a PyTorch snapshot beside the policies. */
#ifndef MNEM_TOOLS_MNEM_VERBS_REPLAY_REPLAY_SNAPSHOT_H
#define MNEM_TOOLS_MNEM_VERBS_REPLAY_REPLAY_SNAPSHOT_H

#include "verbs/replay/replay_tool.h"

enum { REPLAY_TRIALS_MAX = 12, REPLAY_CONF = 640 };

typedef struct replay_trial {
    const char *key;        /* the option that differs from the record; NULL: none does */
    char setting[40];       /* "max_split_size_mb:128" */
    char conf[REPLAY_CONF]; /* the whole value of PYTORCH_CUDA_ALLOC_CONF */
    mnem_pytorch_trial result;
} replay_trial;

typedef struct replay_snapshot {
    bool present;                   /* the trace is one */
    mnem_snapshot_holders *holders; /* at the peak */
    mnem_snapshot_failure *failure; /* the last; NULL: none */
    size_t failures;
    mnem_pytorch_settings settings;
    const char *settings_text;
    bool settings_known;
    uint64_t capacity;                     /* that was given, or that the failure shows; 0: none */
    replay_trial trial[REPLAY_TRIALS_MAX]; /* the first: as recorded */
    int trials, best;                      /* best: what to set; 0: nothing is better */
} replay_snapshot;

mnem_status replay_snapshot_make(const replay_case *c, replay_snapshot *s);
void replay_snapshot_fini(replay_snapshot *s);
/* Adds "sites", "failure" and "pytorch", null where there is none. */
void replay_snapshot_json(const replay_snapshot *s, const replay_case *c, json_t *root);

/* replay_sites.c: who holds the peak. */
void replay_sites_print(const replay_snapshot *s, const replay_case *c);
json_t *replay_sites_json(const replay_snapshot *s);
/* A site in at most `room` columns: folders go first, then the end of the function's name. */
char *replay_site_text(const char *site, int room, char text[TOOL_TEXT * 8]);

/* replay_failure.c: the request that failed, and what stood in its way. */
void replay_failure_print(const replay_snapshot *s, const replay_case *c);
json_t *replay_failure_json(const replay_snapshot *s);

/* replay_settings.c: PyTorch's own settings, tried. */
mnem_status replay_settings_try(const replay_case *c, replay_snapshot *s);
void replay_settings_print(const replay_snapshot *s, const replay_case *c);
json_t *replay_settings_json(const replay_snapshot *s, const replay_case *c);

#endif
