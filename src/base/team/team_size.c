/* team_size.c: how many members of a team should run.
 *
 * The idea: members meet every few microseconds, so one that has lost its processor to another
 * program holds all of them for the milliseconds until it is back; then fewer members do more.
 * What counts is measured: the processor time that went into work, per second. On a quiet machine
 * that is nearly the number of members, and no other number is ever tried. Where members are absent
 * (waiting for a processor), or do hardly what one would do alone, sizes between those that were
 * worse are tried, a middle first; each runs for a window:
 *
 *     0 | worse .. bottom | settled | top .. worse | limit + 1       tried: a middle of either side
 *
 * When no size is left to try, it rests; then what was worse may be tried again, since a machine's
 * load comes and goes. It rests longer each time, but not when the machine has become quiet.
 * Invariant: bottom < settled < top; the size decides how fast a result comes, never which. */
#include "base/team/team_size.h"

#include "base/minmax.h"

/* Some slices of the scheduler. The first is short, since all run whatever the machine does. */
static const double window_first = 0.005, window_tried = 0.02, window_settled = 0.04;
static const double used_least = 0.25, longest = 5; /* parts of a window; see is_too_short */
static const double is_absent = 0.85, is_present = 0.95;
static const double must_gain = 0.05; /* by which more members must be better, at most */
/* Fewer may lose so much of what those left out could add: in the short time that they are tried
 * they are still where the scheduler put them when they were more, beside other programs. */
static const double may_lose = 0.4;
static const double is_little = 0.5; /* of one processor: a lone member has it in the worst case */
static const double is_much = 0.7;   /* of each */
static const double rest_quiet = 0.1, rest_contended = 4, rest_most = 16;

static void forget_worse(mnem__team_size *s) {
    s->bottom = 0;
    s->top = s->limit + 1;
}

void mnem__team_size_init(mnem__team_size *s, int limit) {
    *s = (mnem__team_size){.limit = limit, .count = limit, .settled = limit, .presence = 1};
    s->patience = rest_quiet;
    forget_worse(s);
}

double mnem__team_size_window(const mnem__team_size *s) {
    if (s->rate == 0) return window_first;
    return s->count == s->settled ? window_settled : window_tried;
}

/* Several that sleep by turns, each waiting for one that has no processor, seem to be there. */
static bool does_little(const mnem__team_size *s) {
    return s->settled > 1 && s->rate < is_little;
}

/* Two thresholds, so that a window's luck changes nothing. What was worse on the other kind of
 * machine may be better on this. */
static void set_presence(mnem__team_size *s, double presence) {
    const bool was = s->contended;
    s->presence = presence;
    if (presence < is_absent || does_little(s))
        s->contended = true;
    else if (presence > is_present && s->rate > is_much * s->settled)
        s->contended = false;
    if (was == s->contended || s->count != s->settled) return;
    forget_worse(s);
    s->patience = rest_quiet;
    s->rest = s->contended ? 0 : rest_quiet;
}

/* Of the size that was tried: is it better? More members by half of what they could add. */
static bool accept(mnem__team_size *s, double rate) {
    const bool more = s->count > s->settled;
    const double added = (double)s->count / s->settled - 1; /* below 0: lost */
    if (rate <= s->rate * (1 + (more ? mnem__min_f64(0.5 * added, must_gain) : may_lose * added))) {
        *(more ? &s->top : &s->bottom) = s->count;
        s->count = s->settled;
        return false;
    }
    *(more ? &s->bottom : &s->top) = s->settled;
    s->settled = s->count;
    s->rate = rate;
    return true;
}

/* Fewer: one at once where all together do less than one processor does. */
static int fewer(const mnem__team_size *s) {
    return s->rate < 1 && s->bottom == 0 ? 1 : (s->settled + s->bottom) / 2;
}

static int more(const mnem__team_size *s) {
    return !s->contended && s->top > s->limit ? s->limit : (s->settled + s->top) / 2;
}

/* The next size to try: fewer where members are absent, else more; settled if there is none. */
static int candidate(const mnem__team_size *s) {
    return s->contended && s->settled - s->bottom > 1 ? fewer(s) : more(s);
}

static void try_next(mnem__team_size *s, double seconds) {
    if (s->rest > 0) {
        s->rest -= seconds;
        if (s->rest <= 0) forget_worse(s);
    } else if (candidate(s) != s->settled) {
        s->count = candidate(s);
    } else {
        s->patience = mnem__min_f64(2 * s->patience, rest_most);
        s->rest = s->contended ? mnem__max_f64(s->patience, rest_contended) : s->patience;
    }
}

/* On a machine with very much to do a window may hold hardly a slice of ours. Those that may cost
 * much, of more members than is good, end in time all the same. */
static bool is_too_short(const mnem__team_size *s, const mnem__team_window *w) {
    const double window = mnem__team_size_window(s);
    return (s->count < s->settled || s->count == 1) && w->used < used_least * window &&
           w->wall < longest * window;
}

bool mnem__team_size_judge(mnem__team_size *s, const mnem__team_window *w) {
    if (is_too_short(s, w)) return false;
    const double could = mnem__max_f64(w->wall - w->waited, 0.1 * w->wall);
    const double rate = (w->used - w->spun) / could;
    if (s->count == s->settled) {
        const bool first = s->rate == 0;
        s->rate = first ? rate : 0.5 * (s->rate + rate);
        set_presence(s, first ? w->presence : 0.5 * (s->presence + w->presence));
        if (does_little(s)) s->rest = mnem__min_f64(s->rest, rest_quiet);
    } else if (accept(s, rate)) {
        set_presence(s, w->presence);
    } else {
        return true; /* a window of the settled size before another is tried */
    }
    try_next(s, w->wall);
    return true;
}
