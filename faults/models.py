"""The models of a scene: fake ones from their lanes, the real one copied from a store."""

from __future__ import annotations

import shutil
from pathlib import Path

from faults.mix import MARKER, REAL, Lane

_MANIFEST = """\
schema = 1
name = "{name}"
operations = ["embed"]
runtime = "fake"
[limits]
max_tokens = 64
vocab_size = 30000
[embed]
dimensions = {dimensions}
pooling = "mean"
normalize = true
[fake]
a_ms = {a_ms}
fail_marker = "{marker}"
fail_mode = "{fail_mode}"
"""


def install(models: Path, lanes: tuple[Lane, ...], store: Path | None) -> None:
    """Put every lane's model into the folder, the real one from `store`."""
    for lane in lanes:
        if lane.dimensions:
            write_fake(models, lane)
        elif store is not None:
            shutil.copytree(store / real_folder(), models / real_folder())


def real_folder() -> str:
    return REAL.lower()


def write_fake(models: Path, lane: Lane) -> Path:
    """Install a fake model, whole or not at all, as the store does."""
    staged, folder = models / f".staging-{lane.name}", models / lane.name
    staged.mkdir(parents=True)
    manifest = _MANIFEST.format(
        name=lane.name,
        dimensions=lane.dimensions,
        a_ms=lane.a_ms,
        marker=MARKER if lane.fail_mode else "",
        fail_mode=lane.fail_mode or "error",
    )
    (staged / "model.toml").write_text(manifest, encoding="utf-8")
    staged.rename(folder)
    return folder
