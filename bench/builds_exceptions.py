"""What may differ between the old build and this one, for compare_builds.py: told, and no failure.

A row: patterns of the group, of the case's label and of the field; what is allowed, as a function of
both values; and why. The rules for bytes, and for another way that is proven to be no worse, are in
two_builds.py. Rows go when the old build that they are about is no longer compared with.
"""
import json

SAMPLERS = {"dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n",
            "xtc_probability", "xtc_threshold"}
FEATURES = {"supports"}


def without(value, keys):
    """JSON without some keys, wherever they are."""
    if isinstance(value, dict):
        return {k: without(x, keys) for k, x in value.items() if k not in keys}
    return [without(x, keys) for x in value] if isinstance(value, (list, tuple)) else value


def more_keys(keys):
    """Only these keys are new."""
    return lambda old, new: json.dumps(without(new, keys)) == json.dumps(without(old, keys))


def more_words(*words):
    """Of the words with digits, only these are new."""
    return lambda old, new: old == [x for x in new if x not in words]


def both_404(old, new):
    return old[0] == new[0] == 404


EXCEPTIONS = [
    ("verbs", "info * --json", "JSON", more_keys(FEATURES),
     "info: `supports`, what the model supports, is a field more"),
    ("verbs", "info * --tensors --keys", "numbers", more_words("prune_2_4"),
     "info: a list of what the model supports, with prune_2_4 in it"),
    ("serve", "*", "/props *", more_keys(SAMPLERS),
     "/props: six parameters more, of the samplers DRY and XTC"),
    ("serve", "*", "/nowhere *", both_404,
     "an unknown path: OpenAI's `type` and `code` in its 404, and a longer text"),
    ("prune", "prune own-gpt2 --heads *", "JSON", more_keys({"error"}),
     "the text of this refusal names the architecture once, so gpt2's digit, too"),
]
