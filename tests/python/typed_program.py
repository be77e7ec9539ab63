"""A program that mypy --strict and pyright accept (test_types.py); it isn't run."""
from typing import Dict, List

import mnem


class Person:
    @classmethod
    def model_json_schema(cls) -> Dict[str, object]:
        return {"type": "object"}


def answers(llm: mnem.LLM) -> None:
    text: mnem.Text = llm.generate("In", stop=["a"], temperature=1, logit_bias={1: 2.0}, schema=Person)
    several: List[mnem.Text] = llm.generate(["In", "And"], 3, grammar="root ::= [a]")
    ids: mnem.Text = llm.generate([1, 2, 3], on_logits=lambda ids, logits: [-one for one in logits])
    of_ids: List[mnem.Text] = llm.generate([[1, 2], [3]], logprobs=2)
    for piece in llm.chat("In", stream=True, top_k=1):
        print(piece.finish, piece.tokens, text, several, ids)
    for at in of_ids[0].logprobs or []:
        print(at.token, at.logprob, [one[1] for one in at.top])
    one: List[float] = llm.embed("In")
    two: List[List[float]] = llm.embed(["In", "And"], pooling="mean")
    print(one, two, llm.logits("In")[0], llm.metadata["general.name"], llm.template("In"))
    llm.save("state")
    llm.load_state("state")


async def awaited(llm: mnem.LLM) -> None:
    text: mnem.Text = await llm.agenerate("In")
    async for piece in llm.achat([{"role": "user", "content": text}], stream=True):
        print(piece.finish)
    print((await llm.agenerate(["In", "And"]))[0].prompt_tokens)


def opened() -> None:
    budget = mnem.Budget("4G")
    try:
        with mnem.LLM("model.gguf", "1G", lora=[("adapter", 2), "other"], parallel=2, kv="auto") as llm:
            answers(llm)
            print(budget.used, budget.ledger.lines[0].kind, llm.plan.peak, llm.ledger.live)
    except mnem.OverBudget as refusal:
        print(refusal.needed, refusal.budget, refusal.least, refusal.knob and refusal.knob[0])
    print(mnem.plan("model.gguf", 1 << 30, ctx=512).context)
