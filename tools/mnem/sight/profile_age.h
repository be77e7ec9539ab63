/* profile_age.h: how the machine profile was measured, and when that is done again.
 *
 * A profile that was measured while others used the machine is too low. A run shows that where it
 * reads more bytes a second than the profile has, and caches can't be the reason. */
#ifndef MNEM_TOOLS_MNEM_SIGHT_PROFILE_AGE_H
#define MNEM_TOOLS_MNEM_SIGHT_PROFILE_AGE_H

#include <stdbool.h>

/* Times are seconds since 1970. */
typedef struct tool_profile_age {
    double measured_at; /* 0: not known, as in a profile of before */
    double load;     /* part of the processors' time that others took meanwhile; < 0: not known */
    double again_at; /* when a run that beat it had it measured last; 0: never */
    double cache_bytes; /* of the last level of cache, as its owner has put it there; 0: as the
                           system says */
} tool_profile_age;

/* Of the kept profile; what it lacks is not known. */
void tool_profile_age_load(tool_profile_age *age);
/* All but cache_bytes. Written whole or not at all; prints why it can't. */
bool tool_profile_age_save(const tool_profile_age *age);

/* Bytes that the last level of cache is taken for. */
double tool_profile_cache(const tool_profile_age *age);
/* Does a run that read `bytes` again and again, at `reached` a second, show that `known` is too
 * low? More bytes than four times the cache were not read from it. */
bool tool_profile_is_beaten(double known, double reached, double bytes, double cache_bytes);
/* Others took so much meanwhile that what it has is no part or multiple of the machine's. */
bool tool_profile_is_loaded(const tool_profile_age *age);
/* May it be measured again now? At most once in 24 hours; a clock that was set back since does not
 * forbid it. */
bool tool_profile_is_due(const tool_profile_age *age, double now);

#endif
