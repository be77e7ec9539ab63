"""lm-evaluation-harness against `mnem serve`, unchanged: a task of 20 questions that is made here,
by the logprobs of echoed prompts (local-completions) and by answers (local-chat-completions)."""
import json
import math
import os
import urllib.request

import pytest

os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
os.environ.setdefault("OPENAI_API_KEY", "none")
import lm_eval  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

# A verse's beginning, its word and three that are none: right by heart, for a model of this text.
VERSES = [
    ("In the beginning God created the", "heaven", "oven", "paper", "train"),
    ("And the earth was without form, and", "void", "glass", "tea", "radio"),
    ("And God said, Let there be", "light", "soap", "trains", "maps"),
    ("And God called the light", "Day", "Oak", "Tin", "Pie"),
    ("and the darkness he called", "Night", "Glove", "Lamp", "Tram"),
    ("And the evening and the morning were the first", "day", "car", "tax", "pen"),
    ("The LORD is my shepherd; I shall not", "want", "vote", "type", "ski"),
    ("Thou shalt not", "kill", "phone", "surf", "golf"),
    ("Honour thy father and thy", "mother", "tractor", "camera", "agenda"),
    ("And the LORD spake unto", "Moses", "Kevin", "Tokyo", "robots"),
    ("Blessed are the poor in", "spirit", "budget", "plastic", "coffee"),
    ("For God so loved the", "world", "pizza", "modem", "tennis"),
    ("And it came to", "pass", "jazz", "golf", "film"),
    ("The children of", "Israel", "Norway", "Canada", "Brazil"),
    ("And Jesus answered and", "said", "drove", "typed", "skied"),
    ("Let not your heart be", "troubled", "printed", "parked", "mailed"),
    ("In the beginning was the", "Word", "Bank", "Soup", "Taxi"),
    ("Thy kingdom", "come", "code", "taxi", "golf"),
    ("Verily, verily, I say unto", "you", "cars", "fax", "gas"),
    ("The fear of the LORD is the beginning of", "wisdom", "football", "theatre", "physics"),
]

CHOICES = """task: mnem_choices
dataset_path: json
dataset_kwargs: {data_files: {test: %s}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{begin}}"
doc_to_choice: "{{words}}"
doc_to_target: 0
metric_list: [{metric: acc}]
"""
ANSWERS = """task: mnem_answers
dataset_path: json
dataset_kwargs: {data_files: {test: %s}}
test_split: test
output_type: generate_until
doc_to_text: "{{begin}}"
doc_to_target: "{{words[0]}}"
generation_kwargs: {until: ["\\n"], max_gen_toks: 8, temperature: 0}
metric_list: [{metric: exact_match}]
"""


@pytest.fixture(scope="module")
def evaluate(address, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks")
    data = folder / "verses.jsonl"
    data.write_text("".join(json.dumps({"begin": b, "words": w}) + "\n" for b, *w in VERSES))
    (folder / "choices.yaml").write_text(CHOICES % data)
    (folder / "answers.yaml").write_text(ANSWERS % data)
    manager = TaskManager(include_path=str(folder), include_defaults=False)

    def run(model, path, task, **args):
        return lm_eval.simple_evaluate(
            model=model, tasks=[task], task_manager=manager, log_samples=True, bootstrap_iters=0,
            apply_chat_template="chat" in model,
            model_args={"base_url": address + path, "model": "x", "num_concurrent": 1,
                        "max_retries": 1, "max_length": 1024} | args)

    return run


def logprob(address, begin, end):
    """Of a word behind a text, token by token, each from an answer's own likeliest tokens: without
    echo. None: a token is not among them."""
    def post(path, body):
        ask = urllib.request.Request(address + path, json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(ask))

    ids = [post("/tokenize", {"content": text})["tokens"] for text in (begin, begin + end)]
    assert ids[1][:len(ids[0])] == ids[0]
    total = 0
    for at in range(len(ids[0]), len(ids[1])):
        answer = post("/completion", {"prompt": ids[1][:at], "n_predict": 1, "n_probs": 20,
                                      "temperature": 0})
        word = post("/detokenize", {"tokens": [ids[1][at]]})["content"]
        likeliest = answer["completion_probabilities"][0]["top_logprobs"]
        found = [t["logprob"] for t in likeliest if t["token"] == word]
        if not found:
            return None
        total += found[0]
    return total


def test_choices_are_scored_by_logprobs_of_their_tokens(evaluate, address):
    result = evaluate("local-completions", "/v1/completions", "mnem_choices")
    samples = result["samples"]["mnem_choices"]
    assert len(samples) == 20
    compared = 0
    for sample in samples:
        scores = [float(r[0][0]) for r in sample["resps"]]
        assert len(scores) == 4 and all(math.isfinite(s) and s < 0 for s in scores)
        doc = sample["doc"]
        alone = logprob(address, doc["begin"], " " + doc["words"][0])
        if alone is not None:
            compared += 1
            assert abs(alone - scores[0]) < 0.02 * max(1, abs(alone)), doc
    assert compared >= 5
    assert result["results"]["mnem_choices"]["acc,none"] > 0.5  # by chance: 0.25


def test_choices_are_the_same_several_at_once(evaluate):
    one = evaluate("local-completions", "/v1/completions", "mnem_choices")
    more = evaluate("local-completions", "/v1/completions", "mnem_choices", num_concurrent=4,
                    batch_size=4)
    assert one["results"]["mnem_choices"] == more["results"]["mnem_choices"]


@pytest.mark.parametrize("model, path", [("local-chat-completions", "/v1/chat/completions"),
                                         ("local-completions", "/v1/completions")])
def test_answers_are_generated(evaluate, model, path):
    samples = evaluate(model, path, "mnem_answers")["samples"]["mnem_answers"]
    assert len(samples) == 20
    assert sum(bool(s["resps"][0][0].strip()) for s in samples) >= 15
    assert all("\n" not in s["resps"][0][0] for s in samples)
