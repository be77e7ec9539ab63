/* states_case.h: a scheduler of a model with recurrent layers, and eight conversations of three
 * turns each, whose answers are those that each gets alone. */
#ifndef MNEM_TESTS_SERVE_STATES_CASE_H
#define MNEM_TESTS_SERVE_STATES_CASE_H

#include "serve/serve_case.h"
#include "serve/serve_private.h"

enum { CLIENTS = 8, SEQUENCES = 16, END = 7, EVERY = 100 };
enum { FIRST = 60, NEW = 25, ASKS = 3, ANSWER = 8, TURNS = 3 };

extern const char states_model[];
extern engine_case c, alone;
extern mnem_scheduler *scheduler;
extern bool keeps; /* the prefix cache, in the swap file */
/* With budget_of_three, three live states and no snapshot in memory. */
extern const mnem_engine_options few;
extern serve_ask talk[TURNS][CLIENTS];

/* Of the group. */
int set_up(void **state);
int tear_down(void **state);
/* swap: a file so fast that nothing is computed again for its own sake; NULL: none. */
void open_swap(const mnem_engine_options *options, uint64_t budget, const char *swap,
               uint64_t swap_bytes);
void close_all(void);
/* Words of a text of its own, none of which ends a turn. */
void say(serve_ask *a, int32_t from, int32_t n, uint32_t text);
/* A request of so many tokens, with the answer that it gets alone. */
void set(serve_ask *a, int32_t prompt, int32_t tokens);
void submit(serve_ask *a);
uint64_t tokens_run(void);
mnem_scheduler_stats stats_now(void);
/* The smallest budget whose plan has three states, and pages for all conversations. */
uint64_t budget_of_three(const mnem_engine_options *o);
void make_talk(void);
/* A turn of some conversations at a time; returns the tokens that ran again. */
uint64_t run_turn(int turn, int together);

#endif
