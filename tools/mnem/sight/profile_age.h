/* profile_age.h: how the machine profile was measured, and when that is done again.
 *
 * A profile that was measured while others used the machine is too low. A run shows that where it
 * reads more bytes a second than the profile has, and caches can't be the reason. */
#ifndef MNEM_TOOLS_MNEM_SIGHT_PROFILE_AGE_H
#define MNEM_TOOLS_MNEM_SIGHT_PROFILE_AGE_H

#include <stdbool.h>
#include <stdint.h>

/* Times are seconds since 1970. */
typedef struct tool_profile_age {
    double measured_at; /* 0: not known, as in a profile of before */
    double load;     /* part of the processors' time that others took meanwhile; < 0: not known */
    double again_at; /* when a run that beat it had it measured last; 0: never */
    double cache_bytes;      /* of the last level of cache, as its owner has put it there; 0: as the
                           system says */
    double read_bytes_per_s; /* 0: nothing was measured */
    int32_t threads;         /* with so many; 0: with all processors */
} tool_profile_age;

/* Of the kept profile; what it lacks is not known. */
void tool_profile_age_load(tool_profile_age *age);
/* All but cache_bytes and read_bytes_per_s. Written whole or not at all; prints why it can't. */
bool tool_profile_age_save(const tool_profile_age *age);

/* Bytes that the last level of cache is taken for. */
double tool_profile_cache(const tool_profile_age *age);
/* Does a run that read `bytes` again and again, at `reached` a second, show that `known` is too
 * low? More bytes than four times the cache were not read from it. */
bool tool_profile_is_beaten(double known, double reached, double bytes, double cache_bytes);
/* Others took so much meanwhile that what it has is no part or multiple of the machine's. */
bool tool_profile_is_loaded(const tool_profile_age *age);
/* The same of a load, which below 0 is not known. */
bool tool_load_is_high(double load);
/* A measurement under this load takes the place of one under that load: others only slow it down,
 * so that one under load never replaces one of a quiet machine, nor one under less load. */
bool tool_load_replaces(double load, double kept);
/* What a model reached; 0: not measured. load: part of the processors' time that others took
 * meanwhile; < 0: not known. */
typedef struct tool_rates {
    double generate_bytes_per_s, macs_per_s, load;
} tool_rates;
/* Completes what was measured now by what is kept, which stays, with its load, where the load
 * allows no other: then false. */
bool tool_rates_join(const tool_rates *kept, tool_rates *now);
/* A profile measured so takes the place of the kept one: of more threads, or of as many and no
 * such load. */
bool tool_profile_replaces(const tool_profile_age *age, const tool_profile_age *kept);
/* May it be measured again now? At most once in 24 hours; a clock that was set back since does not
 * forbid it. */
bool tool_profile_is_due(const tool_profile_age *age, double now);

#endif
