/* train_ranks.c: a training run of several ranks.
 *
 * All ranks do the same at the same time; what differs is here. Rank 0 has the folder: it makes
 * vocabulary and tokens, which the others open, decides by its clock when to save, looks and
 * samples, writes checkpoints and the result. So the folder is one that all of them see.
 * Invariant: whatever all ranks do together follows from what all know: options, plans that all
 * agree on, how a step ended, and what rank 0 says (train_ranks_say). */
#include <string.h>

#include "ranks/ranks.h"
#include "verbs/train/train_tool.h"

int32_t train_ranks(void) {
    return tool_ranks() ? mnem_comm_size(tool_ranks()) : 1;
}

bool train_follows(void) {
    return tool_ranks_follows();
}

/* Not on a stack: a rank that fails leaves receives open. */
mnem_status train_ranks_say(void *data, size_t bytes) {
    static uint8_t room[PATH_MAX + 64];
    static size_t begin[MNEM_COMM_RANKS_MAX + 1];
    mnem_comm *comm = tool_ranks();
    if (!comm) return MNEM_OK;
    for (int32_t i = 1; i <= mnem_comm_size(comm); i++) begin[i] = bytes;
    memcpy(room, data, bytes);
    const mnem_status status = mnem_comm_gather(comm, room, begin);
    memcpy(data, room, bytes);
    return status;
}

mnem_status train_ranks_all(mnem_status status) {
    static int32_t all[MNEM_COMM_RANKS_MAX];
    static size_t begin[MNEM_COMM_RANKS_MAX + 1];
    char text[MNEM_COMM_TEXT_MAX] = "";
    mnem_comm *comm = tool_ranks();
    if (!comm) return status;
    const int32_t size = mnem_comm_size(comm), me = mnem_comm_rank(comm);
    for (int32_t i = 0; i <= size; i++) begin[i] = (size_t)i * sizeof *all;
    if (status != MNEM_OK && status != MNEM_CANCELLED) { /* the others get the reason as a number */
        snprintf(text, sizeof text, "%s", mnem_last_error());
        mnem_comm_abort(comm, text);
        return status;
    }
    all[me] = (int32_t)status;
    const mnem_status gathered = mnem_comm_gather(comm, all, begin);
    if (gathered != MNEM_OK) return gathered;
    for (int32_t i = 0; i < size; i++)
        if (all[i] != MNEM_OK && status == MNEM_OK) status = (mnem_status)all[i];
    return status;
}

int train_ranks_check(const train_run *run) {
    const train_options *o = run->asked;
    const char *const shards[] = {"none", "optimizer", "gradients", "weights"};
    const bool given = tool_given(run->args, "shard");
    if (!tool_ranks()) {
        if (given)
            return tool_usage(
                "train",
                "--shard needs several ranks: start mpirun -n N mnem train, or leave out --shard");
        return TOOL_OK;
    }
    if (given && o->shard > 2)
        return tool_usage("train", "--shard %s is not supported; use gradients, optimizer or none",
                          shards[o->shard]);
    if (given && o->shard == 2 && o->masked)
        return tool_usage("train", "--shard gradients does not support --masked, which needs whole "
                                   "gradients; use --shard optimizer");
    if (!o->memory)
        return tool_usage("train", "--memory is missing: set the budget of each rank with it, "
                                   "because several ranks may share a machine");
    if (o->adapt)
        return tool_usage("train", "--adapt is not supported with several ranks: leave it out");
    if (o->data && !strcmp(o->data, "-"))
        return tool_usage("train", "--data - is not supported with several ranks, because only "
                                   "rank 0 has standard input: name files instead");
    return TOOL_OK;
}

/* Of the options that the command line has. */
void train_ranks_options(train_run *run) {
    mnem_train_options *o = &run->options;
    o->comm = tool_ranks();
    o->shard = !tool_given(run->args, "shard") ? MNEM_SHARD_CHOSEN
                                               : (mnem_shard)(MNEM_SHARD_NONE + run->asked->shard);
}

/* Rank 0 has made it; the tokens tell whether all have the same. */
int train_ranks_text(const train_run *run) {
    char note[TRAIN_NOTE];
    if (!tool_ranks()) return TOOL_OK;
    train_text_note(run, note);
    const mnem_status status = mnem_comm_agree(tool_ranks(), "the text", note);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

/* For the table of all ranks at the end. */
void train_ranks_planned(const train_run *run) {
    tool_ranks_trains(&run->plan, train_report_peak(run), run->args->quiet || run->args->json);
}
