/* test_tool_train_names.c: options of other trainers (Hugging Face's, mlx-lm) on the command line
 * of `mnem train`: what means the same is taken, anything else is answered. */
#include <string.h>

#include "kit/kit.h"
#include "tools/tool_run.h"

static void options_of_other_trainers_are_taken_or_answered(void **state) {
    (void)state;
    tool_result r;
    assert_non_null(strstr(RUN("run", "x.txt", "--epochs", "3").err, "mnem train has --epochs"));
    r = RUN("train", "x.txt", "--logging-steps", "5", "--do-train", "--lora_dropout=0.1");
    assert_true(strstr(r.err, "--logging-steps is ignored") &&
                strstr(r.err, "no dropout of their"));
    r = RUN("train", tool_model, "--model_name_or_path", "some/model", "--iters=2");
    assert_non_null(strstr(r.err, "hf download some/model --local-dir model does"));
    r = RUN("train", "x.txt", "--warmup-ratio", "0.1", "--bf16", "--lr-scheduler-type", "linear");
    assert_true(strstr(r.err, "--warmup N (in steps)") && strstr(r.err, "--precision bf16") &&
                strstr(r.err, "along a cosine"));
    r = RUN("train", "no.txt", "--lora-r", "8", "--target-modules", "all-linear", "--init",
            tool_model, "--optim", "adamw_torch", "--lr-scheduler-type", "cosine");
    assert_non_null(strstr(r.err, "can't read no.txt"));
    r = RUN("train", "no.txt", "--lora-r", "8", "--use_peft", "True", "--lora_dropout", "0.0",
            "--init", tool_model);
    assert_non_null(strstr(r.err, "can't read no.txt"));
    assert_non_null(strstr(RUN("train", "x.txt", "--use_peft").err, "--lora R trains adapters"));
    r = RUN("train", "--lora_r", "8", "--init", tool_model, "--target-modules", "q_proj", "v_proj");
    assert_non_null(strstr(r.err, "--lora-targets q_proj,v_proj"));
    r = RUN("train", "x.txt", "--load_in_4bit", "True", "--val-batches", "25", "--packing");
    assert_true(strstr(r.err, "--load_in_4bit is ignored: mnem train --lora R takes a quantized") &&
                strstr(r.err, "--val-batches is ignored: ") && strstr(r.err, "--packing is not"));
    r = RUN("train", "--train_file", "no.txt", "--per_device_train_batch_size=4",
            "--max-seq-length", "64", "--steps", "1");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "no.txt: No such file"));
    r = RUN("train", "no.txt", "--batch", "4", "--per-device-train-batch-size", "8");
    assert_non_null(strstr(r.err, "--batch and --batch-per-rank"));
    r = RUN("train", "no.txt", "--max_length", "0");
    assert_non_null(strstr(r.err, "--ctx is 0"));
    r = RUN("run", "x.gguf", "--gradient-accumulation-steps=4", "--save-steps", "1");
    assert_true(strstr(r.err, "--accumulate N") && strstr(r.err, "--save-every"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_of_other_trainers_are_taken_or_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
