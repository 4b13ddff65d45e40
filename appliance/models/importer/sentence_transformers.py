"""How sentence-transformers turns token states into a vector, read from the files that it saves beside a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appliance.errors import CorruptModel, UnsupportedModel
from appliance.models.importer.config import read_json

# The name of each pooling in 1_Pooling/config.json (sentence_transformers/models/Pooling.py).
_POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")


@dataclass(frozen=True)
class SentenceSettings:
    """`max_tokens` is None where the files do not say; pooling is mean or cls."""

    pooling: str = "mean"
    normalize: bool = True
    max_tokens: int | None = None
    lowercase: bool = False


def read_settings(folder: Path) -> SentenceSettings:
    """Read modules.json and what it names; without it, mean pooling of normalised vectors.

    Raises UnsupportedModel for a module, pooling or default prompt that would be left out of the answer.
    """
    root = folder
    if not (folder / "modules.json").exists():
        if not (folder.parent / "modules.json").exists():
            return SentenceSettings(max_tokens=_tokenizer_limit(folder))
        root = folder.parent  # older models keep the transformer in 0_Transformer/
    modules = _modules(root)
    _refuse_default_prompt(root)
    limit, lowercase = _transformer(folder)
    return SentenceSettings(
        pooling=_pooling(root / modules["Pooling"]) if "Pooling" in modules else "mean",
        normalize="Normalize" in modules,
        max_tokens=limit or _tokenizer_limit(folder),
        lowercase=lowercase,
    )


def _modules(root: Path) -> dict[str, str]:
    """Return the folder of each module by the last part of its class name."""
    try:
        modules = {
            str(entry["type"]).rsplit(".", 1)[-1]: str(entry["path"]) for entry in read_json(root / "modules.json")
        }
    except (TypeError, KeyError) as error:
        raise CorruptModel(f"modules.json: a list of modules with type and path is expected: {error}") from error
    for name, path in modules.items():
        if name not in _KNOWN_MODULES:
            raise UnsupportedModel(
                f"modules.json: the module {name} is not known; known are {', '.join(_KNOWN_MODULES)}"
            )
        if ".." in Path(path).parts or Path(path).is_absolute():
            raise CorruptModel(f"modules.json: the path {path!r} leads out of the model's folder")
    return modules


def _pooling(folder: Path) -> str:
    config = _object(folder / "config.json")
    mode = config.get("pooling_mode")
    chosen = [key for key, value in config.items() if key.startswith("pooling_mode_") and value is True]
    names = [_POOLINGS.get(key, key.removeprefix("pooling_mode_")) for key in chosen]
    names += [str(mode)] if mode else []
    if len(names) != 1 or names[0] not in _POOLINGS.values():
        raise UnsupportedModel(f"pooling {' + '.join(names) or 'of no kind'} is not known; known are mean and cls")
    return names[0]


def _transformer(folder: Path) -> tuple[int | None, bool]:
    """Return max_seq_length and do_lower_case."""
    path = folder / "sentence_bert_config.json"
    config = _object(path) if path.exists() else {}
    limit = config.get("max_seq_length")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise CorruptModel(f"{path.name}: max_seq_length is {limit!r}; a positive whole number is expected")
    return limit, config.get("do_lower_case") is True


def _tokenizer_limit(folder: Path) -> int | None:
    path = folder / "tokenizer_config.json"
    limit = _object(path).get("model_max_length") if path.exists() else None
    # 1e30 stands for "no limit" in these files
    return limit if isinstance(limit, int) and 0 < limit < 10**9 else None


def _refuse_default_prompt(root: Path) -> None:
    path = root / "config_sentence_transformers.json"
    config = _object(path) if path.exists() else {}
    name = config.get("default_prompt_name")
    if name:
        raise UnsupportedModel(
            f"{path.name}: every text would need the prompt {name!r}; default prompts are not known yet"
        )


def _object(path: Path) -> dict[str, Any]:
    value = read_json(path)
    if not isinstance(value, dict):
        raise CorruptModel(f"{path.name}: an object is expected")
    return value
