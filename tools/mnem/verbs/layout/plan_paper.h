/* plan_paper.h: a plan of ranks on paper, between what makes it and what tells it. */
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
    mnem_status status;  /* of all ranks' plan; rank 0's text says why it isn't MNEM_OK */
    plan_rank *ranks;    /* [count] */
    uint64_t rank_bytes; /* of each: code, libraries, MPI */
    bool measured;
    mnem_comm_link link;
} paper;

/* A table, or an object; other: the cut that wasn't chosen, NULL: one was asked for. Exit code. */
int tool_paper_print(const paper *p, const paper *other);

#endif
