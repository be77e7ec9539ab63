/* several_private.h: texts that run together: their slots and their output. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_SEVERAL_PRIVATE_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_SEVERAL_PRIVATE_H

#include "verbs/run/several.h"

typedef struct slot {
    tool_generator g;
    int32_t prompt; /* index of the prompt; its tokens begin the sequence */
    int32_t lane;   /* its index in running; -1: it has ended, or hasn't begun */
    int32_t made,
        last; /* made: number of tokens; last: chosen, but not in the sequence yet, -1: none */
    mnem_sequence *sequence; /* while it runs */
    tool_end end;
    bool flies; /* part of a step under way */
    bool cut;   /* cut before the grammar's text was complete */
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
    int32_t slots; /* at most together * TOOL_WAITING */
    slot *slot;    /* [slots]; prompt i has slot i % slots */
    /* [together]: the running slots (NULL: none), and the samplers of their tokens. */
    slot *running[TOOL_TOGETHER];
    mnem_sampler *sampler[TOOL_TOGETHER];
    tool_constraint constraint; /* a grammar for all, and each lane's position in it */
    mnem_match *match[TOOL_TOGETHER];
    mnem_sampler_options sampling;
    /* Steps under way, a ring: with ranks, groups of lanes take turns. */
    flight flight[FLIGHTS];
    int32_t flight_first, flights;
    uint64_t taken;
    mnem_engine *engine;
    int32_t begun, printed; /* numbers of prompts */
    uint64_t prompt_tokens, tokens;
    double seconds, cpu_seconds;
};

slot *tool_slot_of(const tool_several *several, int32_t prompt);
/* Prints finished texts in order, and the present part of the next one. */
void tool_print_turns(tool_several *several);

#endif
