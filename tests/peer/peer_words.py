"""A pytest plugin: lets pass what llama.cpp's server tests expect of the words and the token counts of
their own model, so that the rest of such a test is checked with another model; skips tests of large models. Texts that a grammar
or a schema determines are compared all the same."""
import os

import pytest

COUNTS = {"n_prompt", "n_token_output", "n_tokens"}
WORDS = {"re_content"}
# Their texts don't come from the model alone.
EXACT = ("test_completion_with_response_format", "test_completion_with_json_schema",
         "test_completion_with_grammar", "test_cors", "test_embedding")


class Anything(int):
    """Equals any value."""

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    __hash__ = int.__hash__


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="a large model that must be downloaded"))
    if not os.environ.get("PEER_WORDS"):
        return
    for item in items:
        if item.name.startswith(EXACT):
            continue
        for name, value in list(getattr(getattr(item, "callspec", None), "params", {}).items()):
            if name in COUNTS and isinstance(value, int):
                item.callspec.params[name] = Anything(value)


def pytest_runtest_setup(item):
    module = item.module
    if not hasattr(module, "match_regex"):
        return
    if not hasattr(module, "own_match_regex"):
        module.own_match_regex = module.match_regex
    let = os.environ.get("PEER_WORDS") and not item.name.startswith(EXACT)
    module.match_regex = (lambda regex, text: isinstance(text, str)) if let \
        else module.own_match_regex
