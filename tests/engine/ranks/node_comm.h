/* node_comm.h: a rank's handle around another, which tells each node of what the rank does: a
 * receive is posted, a send begins, one of either is done. A program that does the same does them
 * in the same order, whatever the machine's speed: a node is known by its number. */
#ifndef MNEM_TESTS_ENGINE_RANKS_NODE_COMM_H
#define MNEM_TESTS_ENGINE_RANKS_NODE_COMM_H

#include "mnem/comm.h"

typedef enum node_kind { NODE_POSTS, NODE_SENDS, NODE_RECEIVED, NODE_SENT, NODE_KINDS } node_kind;

/* Called on the rank's thread, before it posts or sends, and after something is done. What it
 * returns is what the operation ends with, unless that is MNEM_OK. */
typedef mnem_status node_hook(void *context, node_kind kind, int32_t peer, int32_t channel);

/* Owns inner from then on; fails the test where memory is short. */
mnem_comm *node_comm_create(mnem_comm *inner, node_hook *hook, void *context);
/* As if the rank's process were killed: peers see that it has ended, and hear nothing of it any
 * more. From its hook. Returns what the operation ends with. */
mnem_status node_comm_kill(mnem_comm *comm);

#endif
