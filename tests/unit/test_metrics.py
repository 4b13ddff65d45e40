from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from appliance import metrics


def test_worker_counters_become_one_family_each_labelled_by_worker() -> None:
    registry = CollectorRegistry()
    beats = [("gpu0", {"batches": 3.0, "run_s": 1.5}, 2), ("cpu", {"batches": 1.0, "run_s": 0.5}, 0)]
    registry.register(metrics.WorkerCollector(lambda: beats))
    families = {f.name: f for f in text_string_to_metric_families(generate_latest(registry).decode())}
    batches = {s.labels["worker"]: s.value for s in families["appliance_worker_batches"].samples}
    held = {s.labels["worker"]: s.value for s in families["appliance_worker_held_items"].samples}
    assert batches == {"gpu0": 3.0, "cpu": 1.0}
    assert held == {"gpu0": 2.0, "cpu": 0.0}


def test_a_request_without_a_model_counts_no_inputs() -> None:
    metrics.request_done("/test/none", 404, 0.1, "", 5, 5)
    metrics.request_done("/test/one", 200, 0.1, "test-model", 2, 7)
    text = metrics.exposition().decode()
    assert 'appliance_inputs_total{model="test-model"} 2.0' in text
    assert 'appliance_tokens_total{model="test-model"} 7.0' in text
    assert 'model=""' not in text
