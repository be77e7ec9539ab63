/* plan_paper.h: a plan of ranks computed on one machine: shared by its computation and its
 * output. */
#ifndef MNEM_TOOLS_MNEM_VERBS_LAYOUT_PLAN_PAPER_H
#define MNEM_TOOLS_MNEM_VERBS_LAYOUT_PLAN_PAPER_H

#include <pthread.h>

#include "ranks/link.h"
#include "stage.h"

typedef struct plan_rank {
    pthread_t thread;
    mnem_comm *comm;
    mnem_ledger *ledger;
    const mnem_model *model;
    mnem_engine_options options;
    mnem_engine_plan plan;
    mnem_status status;
    uint64_t budget;
    char text[400];
} plan_rank;

typedef struct paper {
    tool_stage *stage;
    int32_t count;
    mnem_cut cut;
    mnem_status status;  /* of all ranks' plans; the error text is rank 0's */
    plan_rank *ranks;    /* [count] */
    uint64_t rank_bytes; /* code, libraries and MPI of each rank */
    bool measured;
    mnem_comm_link link;
} paper;

/* Prints a table, or an object; other: the cut that wasn't chosen; NULL: the user chose the cut.
 * Returns an exit code. */
int tool_paper_print(const paper *p, const paper *other);

#endif
