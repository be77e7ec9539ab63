"""What the server tells dashboards, read by prometheus-client's own parser of OpenMetrics."""
import urllib.request

import pytest

parser = pytest.importorskip("prometheus_client.openmetrics.parser")


def families(address):
    with urllib.request.urlopen(address + "/metrics") as answer:
        kind = answer.headers["Content-Type"]
        assert kind == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        text = answer.read().decode()
    assert text.endswith("\n# EOF\n")
    return {family.name: family for family in parser.text_string_to_metric_families(text)}


def test_the_whole_text_parses(address):
    found = families(address)
    assert found["mnem_steps"].type == "counter"
    assert found["mnem_steps"].samples[0].name == "mnem_steps_total"
    assert found["mnem_step_seconds"].type == "histogram"


def test_accounts_sum_to_less_than_the_budget(address):
    found = families(address)
    live = sum(sample.value for sample in found["mnem_ledger_bytes"].samples)
    budget = found["mnem_budget_bytes"].samples[0].value
    assert 0 < live <= budget
    labels = [tuple(sorted(s.labels.items())) for s in found["mnem_ledger_bytes"].samples]
    assert len(labels) == len(set(labels))
