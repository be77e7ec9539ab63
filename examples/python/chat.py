"""A chat in the terminal, inside a budget: python chat.py MODEL.gguf [MEMORY]

The plan is printed before a weight is read, and what memory was used at the end. Ctrl-C ends an answer, Ctrl-D
the chat. When the context is full, the oldest question and answer go."""
import sys

import mnem


def answer(llm, messages):
    """Prints the answer as it comes; what was said of it."""
    said = ""
    try:
        for piece in llm.chat(messages, stream=True, max_tokens=400):
            print(piece, end="", flush=True)
            said += piece
    except KeyboardInterrupt:
        print(" ...", end="")
    print()
    return said


def chat(llm):
    messages = []
    while True:
        try:
            messages.append({"role": "user", "content": input("> ")})
        except EOFError:
            return
        while True:
            try:
                said = answer(llm, messages)
                break
            except mnem.OverBudget:  # of the context
                if len(messages) < 3:
                    raise
                del messages[:2]
        messages.append({"role": "assistant", "content": said})


def main(path, memory="1G"):
    try:
        llm = mnem.LLM(path, memory=memory)
    except mnem.OverBudget as refusal:
        sys.exit(f"{refusal}\ntry: python {sys.argv[0]} {path} {refusal.least}")
    with llm:
        print(llm.plan)
        chat(llm)
        print(llm.ledger)


if __name__ == "__main__":
    main(*sys.argv[1:])
