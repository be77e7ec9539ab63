/* graph_train.c: `mnem graph --phase train`: where the bytes of a training step lie.
 *
 * The step is planned as mnem train would plan it, with the model's shape and none of its weights:
 * a precision that isn't given is F32 where that fits, else BF16. */
#include <string.h>

#include "verbs/layout/graph_tool.h"

enum { PRECISION_AUTO, PRECISION_F32, PRECISION_BF16, PRECISION_F16 };

typedef struct training {
    mnem_train_options options;
    mnem_train_plan plan;
    graph_program step;
} training;

/* Options as mnem train takes them: what is chosen here is what it would choose. */
static void set_options(const tool_stage *stage, const graph_options *o, training *t) {
    const int32_t context = o->session.context;
    t->options = (mnem_train_options){.ledger = stage->ledger,
                                      .shape = stage->transformer,
                                      .sequence = context,
                                      .batch = o->training.batch,
                                      .micro_batch = o->training.micro_batch,
                                      .threads = o->session.threads,
                                      .dropout = (float)o->training.dropout};
    if (context > t->options.shape.context) t->options.shape.context = context;
    if (o->training.moments) t->options.optimizer.moments = MNEM_MOMENTS_8BIT;
    if (o->training.precision == PRECISION_BF16) t->options.compute = MNEM_TYPE_BF16;
    if (o->training.precision == PRECISION_F16) t->options.compute = MNEM_TYPE_F16;
}

static mnem_status plan(int32_t precision, training *t) {
    mnem_status status = mnem_train_plan_make(&t->options, &t->plan);
    if (status != MNEM_OVER_BUDGET || precision != PRECISION_AUTO) return status;
    t->options.compute = MNEM_TYPE_BF16;
    return mnem_train_plan_make(&t->options, &t->plan);
}

static int32_t sequence_of(const training *t) {
    return t->options.sequence ? t->options.sequence : t->options.shape.context;
}

static const char *precision_of(const training *t) {
    if (t->options.compute == MNEM_TYPE_BF16) return "bf16";
    return t->options.compute == MNEM_TYPE_F16 ? "f16" : "f32";
}

/* The node of the loss: the backward pass comes after it. */
static int32_t loss_node(const mnem_graph *graph) {
    mnem_graph_node_info n;
    int32_t i = 0;
    while (mnem_graph_node_get(graph, i, &n) && n.kind != MNEM_OP_LINEAR_LOSS) i++;
    return i;
}

static int print_text(const tool_stage *stage, const training *t) {
    tool_report_model(stdout, stage);
    tool_outf("step, %d x %d token%s through %d layer%s, forward and backward, %s: %d nodes, %d "
              "barrier%s between threads\n",
              t->plan.micro_batch, sequence_of(t), tool_s((uint64_t)sequence_of(t)), t->plan.layers,
              tool_s((uint64_t)t->plan.layers), precision_of(t), t->step.sizes.nodes,
              t->step.sizes.barriers, tool_s((uint64_t)t->step.sizes.barriers));
    tool_outf("  nodes after %d are the backward pass: gradients, named after their values, and "
              "recomputed values\n",
              loss_node(t->step.graph));
    if (t->plan.accumulation > 1)
        tool_outf("  %d such micro-batches make a step\n", t->plan.accumulation);
    if (t->plan.layers_recomputed)
        tool_outf("  parts of %d layer%s are recomputed so that the peak fits the budget\n",
                  t->plan.layers_recomputed, tool_s((uint64_t)t->plan.layers_recomputed));
    graph_print(&t->step);
    return tool_out_end();
}

static int print_json(const training *t) {
    tool_out_json("graph", json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:s, s:o}", "phase", "train",
                                     "sequence", sequence_of(t), "micro_batch", t->plan.micro_batch,
                                     "accumulation", t->plan.accumulation, "layers", t->plan.layers,
                                     "layers_recomputed", t->plan.layers_recomputed, "precision",
                                     precision_of(t), "step", graph_json(&t->step)));
    return tool_out_end();
}

int graph_train(tool_stage *stage, const graph_options *asked) {
    static training t;
    set_options(stage, asked, &t);
    mnem_status status = plan(asked->training.precision, &t);
    if (status != MNEM_OK)
        return tool_fail_plan(status, t.plan.needed_bytes, tool_budget_bytes(stage->ledger),
                              t.plan.knob);
    status = mnem_train_graph_create(&t.options, &t.plan, false, &t.step.graph, &t.step.sizes);
    if (status != MNEM_OK) return tool_fail(status);
    int code = TOOL_OK;
    if (asked->svg)
        code = graph_draw(stage, &t.step, asked->svg, "a training step, %d x %d token%s",
                          t.plan.micro_batch, sequence_of(&t), tool_s((uint64_t)sequence_of(&t)));
    if (code == TOOL_OK) code = stage->args->json ? print_json(&t) : print_text(stage, &t);
    mnem_graph_destroy(t.step.graph);
    return code;
}
