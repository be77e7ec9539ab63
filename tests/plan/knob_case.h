/* knob_case.h: whether options change the parts that the list says, and no others. */
#ifndef MNEM_TESTS_PLAN_KNOB_CASE_H
#define MNEM_TESTS_PLAN_KNOB_CASE_H

#include "kit/kit.h"
#include "plan/plan_parts.h"

/* Of one knob, over all that it was tried on: parts that had bytes, and those that it changed. */
typedef struct knob_case {
    mnem_knob_kind knob;
    bool is[MNEM__PARTS], changed[MNEM__PARTS];
} knob_case;

static inline bool knob_case_says(const knob_case *k, int part) {
    return mnem__part_infos[part].knobs >> k->knob & 1;
}

/* The same way before and after its option was changed. */
static inline void knob_case_compare(knob_case *k, const mnem__parts *before,
                                     const mnem__parts *after, const char *where) {
    for (int i = 0; i < MNEM__PARTS; i++) {
        const bool changed = before->bytes[i] != after->bytes[i];
        if (changed && !knob_case_says(k, i))
            fail_msg("%s: knob %d changes %s %s", where, (int)k->knob,
                     mnem_kind_text(mnem__part_infos[i].kind), mnem__part_infos[i].tag);
        k->is[i] = k->is[i] || before->bytes[i] > 0;
        k->changed[i] = k->changed[i] || changed;
    }
}

/* What is said to change has done so at least once. */
static inline void knob_case_end(const knob_case *k) {
    for (int i = 0; i < MNEM__PARTS; i++)
        if (k->is[i] && knob_case_says(k, i) && !k->changed[i])
            fail_msg("knob %d never changed %s %s", (int)k->knob,
                     mnem_kind_text(mnem__part_infos[i].kind), mnem__part_infos[i].tag);
}

#endif
