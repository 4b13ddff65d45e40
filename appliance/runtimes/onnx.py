"""ONNX Runtime: the only file that imports it."""

from __future__ import annotations

import threading

import onnxruntime as ort

from appliance.runtimes.base import Floats, Ints, SessionSpec

MODEL_FILE = "model.onnx"


class _Crowd:
    """Counts the passes that run in this process at the moment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    def enter(self) -> bool:
        """Return whether the one that comes in is alone."""
        with self._lock:
            self._count += 1
            return self._count == 1

    def leave(self) -> None:
        with self._lock:
            self._count -= 1


class OnnxSession:
    """One model. `run` is safe from several threads at once.

    `shared` runs beside others, on its share of the cores; `alone` has all cores for a pass that has no company, which
    is what a single caller waits for. ONNX Runtime fixes a session's threads when it is made, hence two of them.
    """

    def __init__(self, shared: ort.InferenceSession, alone: ort.InferenceSession, crowd: _Crowd) -> None:
        self._shared = shared
        self._alone = alone
        self._crowd = crowd
        self._inputs = [i.name for i in shared.get_inputs()]
        self._outputs = [o.name for o in shared.get_outputs()]

    def run(self, ids: Ints, mask: Ints) -> dict[str, Floats]:
        """See Session.run."""
        feeds = {name: mask if name == "attention_mask" else ids for name in self._inputs}
        session = self._alone if self._crowd.enter() else self._shared
        try:
            values = session.run(self._outputs, feeds)
        except Exception as exc:  # ORT raises classes of its own that share no public base
            raise RuntimeError(f"ONNX Runtime: {str(exc)[:300]}") from exc
        finally:
            self._crowd.leave()
        return dict(zip(self._outputs, values, strict=True))


class OnnxRuntime:
    """Loads a folder's model.onnx on the CPU or on one CUDA device."""

    def __init__(self) -> None:
        self._crowd = _Crowd()

    def load(self, spec: SessionSpec) -> OnnxSession:
        """See Runtime.load. A GPU that ONNX Runtime does not take is an error, never the CPU instead."""
        shared = _session(spec, spec.threads, spins=False)
        alone = _session(spec, spec.threads_alone, spins=True) if spec.threads_alone != spec.threads else shared
        return OnnxSession(shared, alone, self._crowd)


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
