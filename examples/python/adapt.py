"""An adapter (LoRA) for a model, from text or conversations: python adapt.py MODEL.gguf DATA [OUT] [MEMORY]

DATA is a text, or JSON lines of {"messages": [...]}. A callback shows each step, and ends the run early when the
loss has stopped to fall. Ctrl-C keeps the work: the same command again continues it."""
import os
import sys

import mnem


class Watch:
    """Ends a run when the mean loss of the last `patience` steps isn't below that of the ones before."""

    def __init__(self, patience=10):
        self.patience, self.losses = patience, []

    def __call__(self, step):
        self.losses.append(step.loss)
        print(f"step {step.step} of {step.of}: loss {step.loss:.4f}, {step.tokens / step.seconds:.0f} tokens/s")
        last, before = self.losses[-self.patience:], self.losses[-2 * self.patience:-self.patience]
        return len(before) < self.patience or sum(last) < sum(before)


def main(model, data, out="adapted", memory="1G"):
    resume = os.path.exists(os.path.join(out, "checkpoint"))
    given = {} if resume else {"init": model, "lora": 8, "steps": 40, "batch": 2, "ctx": 128}
    try:
        done = mnem.train(None if resume else data, out=out, memory=memory, resume=resume, on_step=Watch(),
                          **given)
    except mnem.OverBudget as refusal:
        sys.exit(f"{refusal}\nthe least: {refusal.least}; an option that helps: {refusal.knob}")
    except KeyboardInterrupt:
        sys.exit(f"stopped; the same command continues from {out}/checkpoint")
    print(done.plan)
    print(f"{done.path}: loss {done.loss:.4f}, of held-out text {done.heldout_loss}")
    with mnem.LLM(model, memory=memory, ctx=256, lora=done.path) as llm:
        print(llm.generate("And it came to pass", max_tokens=20, temperature=0))


if __name__ == "__main__":
    main(*sys.argv[1:])
