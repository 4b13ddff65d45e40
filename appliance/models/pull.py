"""Fetch, import, check and install: from a source to a model of the store, or to a sentence why not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from appliance.errors import CorruptModel, ModelError
from appliance.models.archive import is_kept
from appliance.models.catalog import Catalog
from appliance.models.golden import GOLDEN_FILE
from appliance.models.integrity import problems
from appliance.models.manifest import MANIFEST, read_manifest, write_manifest
from appliance.models.model import Model, valid_name
from appliance.models.progress import Progress
from appliance.models.sources import Fetched, Source, obtain, open_obtained, parse_source
from appliance.models.store import Store


def pull(
    source: str,
    name: str | None,
    root: Path,
    run_golden: Callable[[Model], None] | None,
    progress: Progress,
) -> Model:
    """Install the model of `source` in the store `root`, as `name` or as the source calls it; return it.

    `run_golden` loads the staged model in a real runtime and raises ModelError where its answers are wrong.
    What is installed already is returned at once: without network for a package, by its hash for a path.
    """
    wanted = parse_source(source)
    if name is not None and not valid_name(name):
        raise ModelError(f"{name!r} is not a valid name: letters, digits and . _ - with at most one /", param="name")
    installed = _installed(root, wanted, name)
    if installed is not None:
        return _unchanged(installed, progress)
    store = Store(root)
    with store.staging() as fetched_into, store.staging() as staged:
        obtained = obtain(wanted, fetched_into, progress)
        installed = _same_bytes(root, obtained.source_hash, name)
        if installed is not None:
            return _unchanged(installed, progress)
        fetched = open_obtained(obtained, fetched_into, progress)
        model = _stage(fetched, obtained.source, name, store, staged, progress)
        if run_golden is not None and GOLDEN_FILE in model.files:
            progress("check the answers", 0, None)
            run_golden(model)
        progress("install", 0, None)
        return store.install(staged, model)


def _stage(fetched: Fetched, source: Source, name: str | None, store: Store, staged: Path, progress: Progress) -> Model:
    if (fetched.folder / MANIFEST).exists():
        model = _take_ready(fetched, staged, name)
        store.check_names(*model.names)
        return model
    # Here, for the importer needs numpy and onnx, which nothing but a real import should load.
    from appliance.models.importer import import_model

    name = name or source.default_name
    if not valid_name(name):
        raise ModelError(f"{name!r}, taken from the source, is not a valid name; give one with --name", param="name")
    store.check_names(name)
    return import_model(
        fetched.folder, staged, name, fetched.source_resolved, progress, source_hash=fetched.source_hash
    )


def _take_ready(fetched: Fetched, staged: Path, name: str | None) -> Model:
    """Copy a model that has its model.toml, and nothing beside the files that this names."""
    model = read_manifest(fetched.folder)
    for file in model.files:
        if not is_kept(file):
            raise ModelError(f"{MANIFEST} names {file}, which is of no kind that a model consists of")
        if not (fetched.folder / file).is_file():
            raise CorruptModel(f"{MANIFEST} names {file}, which is missing; fetch the model again")
        (staged / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(fetched.folder / file, staged / file)
    model = replace(
        model,
        name=name or model.name,
        aliases=tuple(alias for alias in model.aliases if alias != name),
        folder=staged,
        source=model.source or fetched.source_resolved,
        source_hash=fetched.source_hash,
    )
    write_manifest(model, staged)
    wrong = problems(model)
    if wrong:
        raise CorruptModel(f"the model {model.name} in {fetched.folder} is not whole: {'; '.join(wrong)}")
    return model


def _installed(root: Path, wanted: Source, name: str | None) -> Model | None:
    """Return the model that an earlier pull of the same package installed."""
    return _first(root, name, lambda model: wanted.is_satisfied_by(model.source))


def _same_bytes(root: Path, source_hash: str, name: str | None) -> Model | None:
    return _first(root, name, lambda model: model.source_hash == source_hash)


def _first(root: Path, name: str | None, fits: Callable[[Model], bool]) -> Model | None:
    """Return the installed model that `fits`, by that name if one is given, with all its files there."""
    catalog = Catalog(root)
    catalog.scan()
    for model in catalog.models:
        is_named = name is None or model is catalog.resolve(name)
        if is_named and fits(model) and all((model.folder / file).is_file() for file in model.files):
            return model
    return None


def _unchanged(model: Model, progress: Progress) -> Model:
    progress(f"already installed as {model.name}", 1, 1)
    return model
