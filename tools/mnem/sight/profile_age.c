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

bool tool_load_is_high(double load) {
    return load > load_most;
}

bool tool_profile_is_loaded(const tool_profile_age *age) {
    return tool_load_is_high(age->load);
}

bool tool_load_replaces(double load, double kept) {
    return !tool_load_is_high(load) || load <= kept;
}

bool tool_rates_join(const tool_rates *kept, tool_rates *now) {
    const bool replaces = tool_load_replaces(now->load, kept->load);
    if (kept->generate_bytes_per_s > 0 && (!replaces || now->generate_bytes_per_s == 0))
        now->generate_bytes_per_s = kept->generate_bytes_per_s;
    if (kept->macs_per_s > 0 && (!replaces || now->macs_per_s == 0))
        now->macs_per_s = kept->macs_per_s;
    if (!replaces) now->load = kept->load;
    return replaces;
}

bool tool_profile_replaces(const tool_profile_age *age, const tool_profile_age *kept) {
    if (age->read_bytes_per_s <= 0) return false;
    if (kept->read_bytes_per_s <= 0) return true;
    if (age->threads != kept->threads)
        return age->threads == 0 || (kept->threads > 0 && age->threads > kept->threads);
    return tool_load_replaces(age->load, kept->load);
}

bool tool_profile_is_due(const tool_profile_age *age, double now) {
    return now < age->again_at || now - age->again_at >= day_seconds;
}
