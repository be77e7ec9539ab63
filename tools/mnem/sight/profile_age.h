/* profile_age.h: the conditions under which the machine profile was measured, and when it is
 * measured again.
 *
 * A profile that was measured while other programs used the machine is too low. A run detects
 * that if it reads more bytes/s than the profile has, and caches can't be the reason. */
#ifndef MNEM_TOOLS_MNEM_SIGHT_PROFILE_AGE_H
#define MNEM_TOOLS_MNEM_SIGHT_PROFILE_AGE_H

#include <stdbool.h>
#include <stdint.h>

/* Times are seconds since 1970. */
typedef struct tool_profile_age {
    double measured_at; /* 0: unknown, as in older profiles */
    double load;        /* part of the processors' time that other programs used; < 0: unknown */
    double again_at;    /* when a faster run last had it measured again; 0: never */
    double cache_bytes; /* bytes of the last-level cache, set in the file by the user; 0: as
                           the system reports */
    double read_bytes_per_s; /* 0: not measured */
    int32_t threads;         /* number of threads of the measurement; 0: all processors */
} tool_profile_age;

/* Loads that of the stored profile; missing values are unknown. */
void tool_profile_age_load(tool_profile_age *age);
/* Saves all except cache_bytes and read_bytes_per_s, completely or not at all; prints errors. */
bool tool_profile_age_save(const tool_profile_age *age);

/* The assumed bytes of the last-level cache. */
double tool_profile_cache(const tool_profile_age *age);
/* Whether a run that read the same `bytes` repeatedly at `reached` bytes/s proves `known` too
 * low. More than four times the cache's bytes can't come from the cache. */
bool tool_profile_is_beaten(double known, double reached, double bytes, double cache_bytes);
/* Whether other programs used so much time that the profile doesn't describe the machine. */
bool tool_profile_is_loaded(const tool_profile_age *age);
/* The same for a load; < 0: unknown. */
bool tool_load_is_high(double load);
/* Whether a measurement under `load` replaces one under `kept`: other programs only slow it down,
 * so one under high load doesn't replace one under less load. */
bool tool_load_replaces(double load, double kept);
/* The speeds that a model reached; 0: not measured. load: part of the processors' time that other
 * programs used; < 0: unknown. */
typedef struct tool_rates {
    double generate_bytes_per_s, macs_per_s, load;
} tool_rates;
/* Completes the new rates with stored ones. If the load forbids replacing stored rates, these stay
 * in *now with their load: false. */
bool tool_rates_join(const tool_rates *kept, tool_rates *now);
/* Whether a profile with `age` replaces the stored one: it has more threads, or as many and an
 * acceptable load. */
bool tool_profile_replaces(const tool_profile_age *age, const tool_profile_age *kept);
/* Whether it may be measured again now: at most once in 24 hours, also after the clock was set
 * back. */
bool tool_profile_is_due(const tool_profile_age *age, double now);

#endif
