"""ONNX Runtime: the only file that imports it."""

from __future__ import annotations

from collections.abc import Sequence

import onnxruntime as ort

from appliance.runtimes.base import Floats, Ints, SessionSpec
from appliance.runtimes.layout import Layout

MODEL_FILE = "model.onnx"

_ROWS_PADDING_COST = 0.5
"""What padding costs where only attention has rows, in real tokens. Measured with MiniLM on the CPU: 0.3 with inputs of
6 to 18 tokens, 0.6 with 40 to 140."""


class OnnxSession:
    """One model. `run` is safe from several threads at once.

    It runs beside others, on its share of the cores; `alone` has all cores for a pass without company, which is what
    a single caller waits for. ONNX Runtime fixes a session's threads when it is made, hence two of them.
    """

    def __init__(self, session: ort.InferenceSession, alone: OnnxSession | None = None) -> None:
        self._session = session
        self.alone = alone or self
        is_flat = any(i.name == "slots" for i in session.get_inputs())
        self.padding_cost = _ROWS_PADDING_COST if is_flat else 1.0
        self._feeds = _flat_feeds if is_flat else _padded_feeds
        self._outputs = [o.name for o in session.get_outputs()]

    def run(self, lengths: Sequence[int], flat_ids: Ints) -> dict[str, Floats]:
        """See Session.run."""
        layout = Layout(lengths)
        try:
            values = self._session.run(self._outputs, self._feeds(layout, flat_ids))
        except Exception as exc:  # ORT raises classes of its own that share no public base
            raise RuntimeError(f"ONNX Runtime: {str(exc)[:300]}") from exc
        if self._feeds is _padded_feeds:
            values = [layout.flat(value) if value.ndim == 3 else value for value in values]
        return dict(zip(self._outputs, values, strict=True))


def _flat_feeds(layout: Layout, flat_ids: Ints) -> dict[str, Ints]:
    """For the graphs of models/importer: only their attention knows of rows."""
    return {
        "input_ids": flat_ids[None, :],
        "position_ids": layout.positions()[None, :],
        "slots": layout.slots(),
        "places": layout.places(),
        "lengths": layout.lengths,
    }


def _padded_feeds(layout: Layout, flat_ids: Ints) -> dict[str, Ints]:
    """For graphs as they are published, which compute the padding with the tokens."""
    return {"input_ids": layout.padded(flat_ids), "attention_mask": layout.mask()}


class OnnxRuntime:
    """Loads a folder's model.onnx on the CPU or on one CUDA device."""

    def load(self, spec: SessionSpec) -> OnnxSession:
        """See Runtime.load. A GPU that ONNX Runtime does not take is an error, never the CPU instead."""
        shared = _session(spec, spec.threads, spins=False)
        if spec.threads_alone == spec.threads:
            return OnnxSession(shared)
        return OnnxSession(shared, OnnxSession(_session(spec, spec.threads_alone, spins=True)))


def _session(spec: SessionSpec, threads: int, spins: bool) -> ort.InferenceSession:
    """Load the model. `spins` lets idle threads of its pool spin for work, between the operators of a pass only.

    That is a fifth of the time of a short pass, and needs cores that nobody else wants: not beside gateway, broker and
    other passes.
    """
    providers = _providers(spec.device)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spins else "0")
    options.add_session_config_entry("session.force_spinning_stop", "1")
    try:
        session = ort.InferenceSession(str(spec.folder / MODEL_FILE), options, providers=providers)
    except Exception as exc:
        raise RuntimeError(f"ONNX Runtime cannot load {MODEL_FILE}: {str(exc)[:300]}") from exc
    wanted = providers[0][0]
    if wanted not in session.get_providers():
        raise RuntimeError(f"ONNX Runtime has no {wanted} here: is onnxruntime-gpu installed, and CUDA with it?")
    return session


def _providers(device: str) -> list[tuple[str, dict[str, str]]]:
    if device.startswith("gpu"):
        return [("CUDAExecutionProvider", {"device_id": device[3:]}), ("CPUExecutionProvider", {})]
    return [("CPUExecutionProvider", {})]
