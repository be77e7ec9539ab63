/* replay_snapshot.h: what `mnem replay` prints about a PyTorch snapshot, apart from the
 * policies. */
#ifndef MNEM_TOOLS_MNEM_VERBS_REPLAY_REPLAY_SNAPSHOT_H
#define MNEM_TOOLS_MNEM_VERBS_REPLAY_REPLAY_SNAPSHOT_H

#include "verbs/replay/replay_tool.h"

enum { REPLAY_TRIALS_MAX = 12, REPLAY_CONF = 640 };

typedef struct replay_trial {
    const char *key;        /* the setting that differs from the recorded ones; NULL: none */
    char setting[40];       /* "max_split_size_mb:128" */
    char conf[REPLAY_CONF]; /* the whole value of PYTORCH_CUDA_ALLOC_CONF */
    mnem_pytorch_trial result;
} replay_trial;

typedef struct replay_snapshot {
    bool present;                   /* the trace is a snapshot */
    mnem_snapshot_holders *holders; /* at the peak */
    mnem_snapshot_failure *failure; /* the last; NULL: none */
    size_t failures;
    mnem_pytorch_settings settings;
    const char *settings_text;
    bool settings_known;
    uint64_t capacity;                     /* given, or derived from the failure; 0: unknown */
    replay_trial trial[REPLAY_TRIALS_MAX]; /* the first one has the recorded settings */
    int trials, best; /* best: index of the recommended one; 0: none is better than the first */
} replay_snapshot;

mnem_status replay_snapshot_make(const replay_case *c, replay_snapshot *s);
void replay_snapshot_fini(replay_snapshot *s);
/* Adds "sites", "failure" and "pytorch"; null for absent ones. */
void replay_snapshot_json(const replay_snapshot *s, const replay_case *c, json_t *root);

/* replay_sites.c: who holds the peak. */
void replay_sites_print(const replay_snapshot *s, const replay_case *c);
json_t *replay_sites_json(const replay_snapshot *s);
/* A site in at most `room` columns: folders are dropped first, then the end of the function's
 * name. */
char *replay_site_text(const char *site, int room, char text[TOOL_TEXT * 8]);

/* replay_failure.c: prints the failed request, and the blocks that prevented it. */
void replay_failure_print(const replay_snapshot *s, const replay_case *c);
json_t *replay_failure_json(const replay_snapshot *s);

/* replay_settings.c: replays with other settings of PyTorch. */
mnem_status replay_settings_try(const replay_case *c, replay_snapshot *s);
void replay_settings_print(const replay_snapshot *s, const replay_case *c);
json_t *replay_settings_json(const replay_snapshot *s, const replay_case *c);

#endif
