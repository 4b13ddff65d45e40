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
    metrics.REQUESTS.done("/test/none", 404, 0.1, "", 5, 5)
    metrics.REQUESTS.done("/test/one", 200, 0.1, "test-model", 2, 7)
    text = metrics.exposition().decode()
    assert 'appliance_inputs_total{model="test-model"} 2.0' in text
    assert 'appliance_tokens_total{model="test-model"} 7.0' in text
    assert 'model=""' not in text


def test_times_fall_into_cumulative_buckets() -> None:
    for seconds in (0.0005, 0.02, 0.03, 100.0):
        metrics.REQUESTS.done("/test/times", 200, seconds, "", 0, 0)
    families = {f.name: f for f in text_string_to_metric_families(metrics.exposition().decode())}
    samples = [s for s in families["appliance_request_seconds"].samples if s.labels["route"] == "/test/times"]
    buckets = {s.labels["le"]: s.value for s in samples if s.name.endswith("_bucket")}
    assert (buckets["0.001"], buckets["0.02"], buckets["0.05"], buckets["60.0"], buckets["+Inf"]) == (1, 2, 3, 3, 4)
    assert next(s.value for s in samples if s.name.endswith("_sum")) == 100.0505
    assert next(s.value for s in samples if s.name.endswith("_count")) == 4


def test_each_promise_has_a_counter_by_lane_whoever_counts_it() -> None:
    lanes = metrics.Lanes()
    lanes.count("admitted", "m", "bulk", 3)
    lanes.elsewhere = lambda: {("rerun", "m", "interactive"): 2}
    registry = CollectorRegistry()
    registry.register(lanes)
    families = {f.name: f for f in text_string_to_metric_families(generate_latest(registry).decode())}
    assert set(families) == {f"appliance_lane_{what}" for what in metrics.Lanes.MEANINGS}
    (admitted,) = families["appliance_lane_admitted"].samples
    assert (admitted.labels, admitted.value) == ({"model": "m", "class": "bulk"}, 3)
    (rerun,) = families["appliance_lane_rerun"].samples
    assert (rerun.labels, rerun.value) == ({"model": "m", "class": "interactive"}, 2)
