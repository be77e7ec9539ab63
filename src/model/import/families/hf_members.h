/* hf_members.h: the members of config.json that a class of transformers uses.
 *
 * A row has the names of the class's members, their defaults, and the supported values. Members
 * of other classes are ignored, as the class does. A member that changes the computation is
 * either read (hf_keys.c, hf_rope.c, hf_windows.c) or has its supported values in `fixed`;
 * tests/data/config lists them all. */
#ifndef MNEM_SRC_MODEL_IMPORT_FAMILIES_HF_MEMBERS_H
#define MNEM_SRC_MODEL_IMPORT_FAMILIES_HF_MEMBERS_H

#include <stdint.h>

/* The default of a member that is missing in the file. null in the file is not missing. */
typedef struct mnem__hf_default {
    const char *name;
    double number;
} mnem__hf_default;

/* The supported values of a member, as words (numbers as %g, true, false, [] for an empty list).
 * They include the class's default, and null. */
typedef struct mnem__hf_fixed {
    const char *name, *values;
} mnem__hf_fixed;

/* The layers with a window, if there is no layer_types. */
typedef enum mnem__hf_windows {
    MNEM__HF_WINDOWS_NONE,
    MNEM__HF_WINDOWS_ALL,
    MNEM__HF_WINDOWS_PERIOD, /* all but the last of each window_period */
    MNEM__HF_WINDOWS_AFTER,  /* all but the first of each window_period */
    MNEM__HF_WINDOWS_BEHIND  /* those from max_window_layers on */
} mnem__hf_windows;

typedef struct mnem__hf_members {
    const char *classes;   /* a space between two: config.json's architectures */
    const char *text_type; /* model_type of text_config; NULL: any */
    const char *names;     /* each between spaces; of two names for one member, the first is used */
    const mnem__hf_default *defaults;
    const mnem__hf_fixed *fixed;
    mnem__hf_windows windows;
    int32_t window_period;
} mnem__hf_members;

/* NULL: none. text_type may be NULL. */
const mnem__hf_members *mnem__hf_members_find(const char *class_name, const char *text_type);

#endif
