/* models_team.c: one team of threads, which the engines of all models share.
 *
 * The main thread steps the loaded models in turn, one step of each that has work (models_step), so
 * one step runs at a time, and a second team would only sleep. A model waits for at most one step
 * of each other loaded model, whatever these have to do; a request that is cancelled and a model
 * that leaves wait for no more than that.
 * The bytes of the team are charged once, before any model is planned; no plan has a line of it. */
#include "verbs/serve/models/models_serve.h"

static const char tag[] = "team stacks"; /* as in the plan of a single model */

static int32_t threads_of(const models_all *v) {
    const int32_t asked = v->s->o->session.threads, have = tool_processors();
    const int32_t threads = asked > 0 ? asked : have > 0 ? have : 1;
    return threads < MNEM_TEAM_MAX ? threads : MNEM_TEAM_MAX;
}

int models_team_create(models_all *v) {
    tool_stage *stage = &v->s->model.stage;
    const int32_t threads = threads_of(v);
    const uint64_t bytes = mnem_team_bytes(threads);
    mnem_status status = mnem_ledger_charge(stage->ledger, MNEM_KIND_RUNTIME, tag, bytes);
    if (status != MNEM_OK) return tool_fail(status);
    v->team_bytes = bytes;
    status = mnem_team_create(threads, &v->team);
    if (status != MNEM_OK) return tool_fail(status);
    stage->options.team = v->team;
    return TOOL_OK;
}

void models_team_destroy(models_all *v) {
    mnem_team_destroy(v->team);
    v->team = NULL;
    if (v->team_bytes)
        mnem_ledger_release(v->s->model.stage.ledger, MNEM_KIND_RUNTIME, tag, v->team_bytes);
    v->team_bytes = 0;
}
