/* hf_members.h: what a class of transformers takes from config.json.
 *
 * A row says which members the class has, by what names, what it takes where one is missing, and
 * which values are computed here. Members of other classes mean nothing to it, and are as if they
 * were not there. A member that changes what is computed is either read (hf_keys.c, hf_rope.c,
 * hf_windows.c) or has its supported values in `fixed`; tests/data/config lists them all. */
#ifndef MNEM_SRC_MODEL_IMPORT_FAMILIES_HF_MEMBERS_H
#define MNEM_SRC_MODEL_IMPORT_FAMILIES_HF_MEMBERS_H

#include <stdint.h>

/* A member that the class has where the file hasn't. null in the file is none. */
typedef struct mnem__hf_default {
    const char *name;
    double number;
} mnem__hf_default;

/* The values of a member for which mnem computes what the class does: a word each (numbers as %g,
 * true, false, [] for an empty list). What the class takes where the file is silent is among them,
 * as null is. */
typedef struct mnem__hf_fixed {
    const char *name, *values;
} mnem__hf_fixed;

/* Which layers have a window where layer_types does not say it. */
typedef enum mnem__hf_windows {
    MNEM__HF_WINDOWS_NONE,
    MNEM__HF_WINDOWS_ALL,
    MNEM__HF_WINDOWS_PERIOD, /* all but the last of each window_period */
    MNEM__HF_WINDOWS_AFTER,  /* all but the first of each */
    MNEM__HF_WINDOWS_BEHIND  /* those from max_window_layers on */
} mnem__hf_windows;

typedef struct mnem__hf_members {
    const char *classes;   /* a space between two: config.json's architectures */
    const char *text_type; /* model_type of text_config; NULL: any */
    const char *names;     /* a space before and behind each; of two for one, the first counts */
    const mnem__hf_default *defaults;
    const mnem__hf_fixed *fixed;
    mnem__hf_windows windows;
    int32_t window_period;
} mnem__hf_members;

/* NULL: none. text_type may be NULL. */
const mnem__hf_members *mnem__hf_members_find(const char *class_name, const char *text_type);

#endif
