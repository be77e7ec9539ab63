"""What may differ between the old build and this one, for compare_builds.py: told, and no failure.

A row: patterns of the group, of the case's label and of the field; what is allowed, as a function of
both values; and why. The rules for bytes, and for another way that is proven to be no worse, are in
two_builds.py. Rows go when the old build that they are about is no longer compared with.
"""
import json

SAMPLERS = {"dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n",
            "xtc_probability", "xtc_threshold"}
FEATURES = {"supports", "streams", "laurel"}


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


def same_but(old, new, *keys):
    return all(old.get(k) == new.get(k) for k in old.keys() | new.keys() if k not in keys)


def smaller_ring(old, new):
    """A ring that is for loading alone, as nothing is streamed, is another, and no larger."""
    bytes_of = [x.get("ring_slots", 0) * x.get("ring_slot_bytes", 0) for x in (old, new)]
    return same_but(old, new, "ring_slots", "ring_slot_bytes") and bytes_of[1] <= bytes_of[0] and \
        old.get("bytes_streamed_per_pass") == 0


def near_share(old, new):
    """Another share of rows, by at most 1 %."""
    a, b = (x.get("weight_bytes_resident", 0) for x in (old, new))
    return same_but(old, new, "weight_bytes_resident") and abs(b - a) <= a * 0.01


def rows_read(old, new):
    """Rows of an embedding that another way reads from the file."""
    return 0 <= new - old <= 96 * 1024


def more_together(old, new):
    """More sequences at a time, with more computed again."""
    return same_but(old, new, "keep", "micro_batch") and new["micro_batch"] > old["micro_batch"]


EXCEPTIONS = [
    ("*", "*", "way", smaller_ring,
     "way: a ring that only loads is as large or smaller (a shorter context never takes more)"),
    ("ranks", "* ranks by rows *", "way", near_share,
     "way: rows are shared by each process's measured bytes, which differ by 12 KiB from run to run: "
     "1 % of a share at most"),
    ("verbs", "info * --json", "JSON", more_keys(FEATURES),
     "info: `supports`, `streams` and `laurel` are fields more"),
    ("verbs", "info * --tensors --keys", "numbers", more_words("prune_2_4"),
     "info: a list of what the model supports, with prune_2_4 in it"),
    ("errors", "train * -d *.gguf *", "error", lambda old, new: set(old) == set(new),
     "train: a model among the texts is refused with the way to give it, so its name stands twice"),
    ("serve", "*", "/props *", more_keys(SAMPLERS),
     "/props: six parameters more, of the samplers DRY and XTC"),
    ("serve", "*", "/nowhere *", both_404,
     "an unknown path: OpenAI's `type` and `code` in its 404, and a longer text"),
    ("prune", "prune own-gpt2 --heads *", "JSON", more_keys({"error"}),
     "the text of this refusal names the architecture once, so gpt2's digit, too"),
    ("plans", "*", "line io embedding rows", rows_read,
     "io embedding rows: up to 96 KiB where another way, no worse, keeps other matrices instead"),
    ("train-plans", "* train llama from a model, bf16, *", "way", more_together,
     "way: a larger micro-batch with more computed again: each run weighs them by its own speed"),
]
