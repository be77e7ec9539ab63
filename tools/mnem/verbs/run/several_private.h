/* several_private.h: texts that run together: their slots, and who prints. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_SEVERAL_PRIVATE_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_SEVERAL_PRIVATE_H

#include "verbs/run/several.h"

typedef struct slot {
    tool_generator g;
    int32_t prompt;          /* which; its tokens begin the sequence */
    int32_t lane;            /* of those that run; -1: it has ended, or never began */
    int32_t made, last;      /* tokens; the one behind the sequence's, -1: none */
    mnem_sequence *sequence; /* while it runs */
    tool_end end;
    bool flies; /* in a step under way */
    bool cut;   /* a grammar would have gone on */
} slot;

enum { FLIGHTS = 8 };
typedef struct flight {
    mnem_step_part part[TOOL_TOGETHER];
    slot *slot[TOOL_TOGETHER];
    int32_t parts;
    bool ended;
} flight;

struct tool_several {
    tool_stage *stage;
    const run_options *asked;
    tool_prompt_list list;
    int32_t together, limit;
    int32_t slots; /* together * TOOL_WAITING at the most */
    slot *slot;    /* [slots]; prompt i has slot i % slots */
    /* [together]: what runs (NULL: none), and how its tokens are chosen. */
    slot *running[TOOL_TOGETHER];
    mnem_sampler *sampler[TOOL_TOGETHER];
    tool_constraint constraint; /* a grammar for all, and where each lane is in it */
    mnem_match *match[TOOL_TOGETHER];
    mnem_sampler_options sampling;
    /* Steps under way, of lanes that take turns where ranks run the model: a ring. */
    flight flight[FLIGHTS];
    int32_t flight_first, flights;
    uint64_t taken;
    mnem_engine *engine;
    int32_t begun, printed; /* prompts */
    uint64_t prompt_tokens, tokens;
    double seconds, cpu_seconds;
};

slot *tool_slot_of(const tool_several *several, int32_t prompt);
/* Those that have ended, in order, and of the next one what there is. */
void tool_print_turns(tool_several *several);

#endif
