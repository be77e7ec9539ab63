/* profile_age.c: whether a machine profile is too low, and may be measured again. */
#include "sight/profile_age.h"

#include <mnem/probe.h>

static const double day_seconds = 24 * 60 * 60;
static const double load_most = 0.1; /* quiet machines have a few percent */
static const double cache_times = 4;
static const double cache_unknown = 64 << 20; /* where the system says nothing: few have more */

double tool_profile_cache(const tool_profile_age *age) {
    if (age->cache_bytes > 0) return age->cache_bytes;
    const double said = (double)mnem_probe_last_cache();
    return said > 0 ? said : cache_unknown;
}

bool tool_profile_is_beaten(double known, double reached, double bytes, double cache_bytes) {
    return known > 0 && reached > known && bytes > cache_times * cache_bytes;
}

bool tool_profile_is_loaded(const tool_profile_age *age) {
    return age->load > load_most;
}

bool tool_profile_is_due(const tool_profile_age *age, double now) {
    return now < age->again_at || now - age->again_at >= day_seconds;
}
