"""Facts of a text as an object whose form is certain: python extract.py MODEL.gguf TEXT

A JSON schema limits what the model can write: whatever the model is, what comes out is valid JSON of this form.
A class of Pydantic's does as well as the dict: schema=Person."""
import json
import sys

import mnem

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 30},
        "age": {"type": "integer", "minimum": 0, "maximum": 999},
        "trade": {"enum": ["shepherd", "king", "fisherman", "other"]},
    },
    "required": ["name", "age", "trade"],
    "additionalProperties": False,
}
PROMPT = "Text: {}\n\nThe person of this text as JSON with the members name, age and trade:\n"


def extract(llm, text):
    found = llm.generate(PROMPT.format(text), max_tokens=200, temperature=0, schema=SCHEMA)
    if found.finish != "stop":
        raise ValueError(f"the answer was cut off: {found}")
    return json.loads(found)


if __name__ == "__main__":
    with mnem.LLM(sys.argv[1], memory="1G", ctx=512) as model:
        person = extract(model, sys.argv[2])
        print(json.dumps(person, indent=2))
        print(f"{person['name']} ({person['age']}), {person['trade']}")
