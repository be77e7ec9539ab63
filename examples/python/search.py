"""The lines of a file that mean what is asked for: python search.py MODEL.gguf FILE QUESTION

Each line becomes a vector, the question too, and the lines with the nearest vectors are printed. Any model does;
one that was made for embeddings (such as a BERT) does it better."""
import math
import sys

import mnem


def unit(vector):
    length = math.sqrt(sum(x * x for x in vector)) or 1.0
    return [x / length for x in vector]


def vectors(llm, texts, at_once=16):
    """Vectors of length 1; of a model that names no pooling, the mean over the tokens."""
    own = any(key.endswith(".pooling_type") for key in llm.metadata)
    found = []
    for begin in range(0, len(texts), at_once):
        found += llm.embed(texts[begin:begin + at_once], None if own else "mean")
    return [unit(vector) for vector in found]


def search(llm, lines, question, most=3):
    """The nearest lines, with the cosine of the angle to the question's vector, best first."""
    asked = vectors(llm, [question])[0]
    scores = [sum(a * b for a, b in zip(asked, vector)) for vector in vectors(llm, lines)]
    return sorted(zip(scores, lines), reverse=True)[:most]


if __name__ == "__main__":
    path, file, question = sys.argv[1:]
    with open(file, encoding="utf-8") as text:
        lines = [line.strip() for line in text if line.strip()]
    with mnem.LLM(path, memory="1G", ctx=512) as llm:
        for score, line in search(llm, lines, question):
            print(f"{score:.3f}  {line}")
