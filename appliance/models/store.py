"""The models folder: installs a staged model at once or not at all, verifies it, removes it."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from appliance.errors import ModelError
from appliance.models import exchange
from appliance.models.catalog import Catalog
from appliance.models.integrity import problems
from appliance.models.model import Model, folder_name

_STAGING = ".staging-"
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Store:
    """Writes the models folder `root`. Folders with a dotted name are work in progress and no scan sees them."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """Give an empty dotted folder in `root` to build a model in; it is gone afterwards, whatever happens.

        Raises ModelError where the disk is full or `root` cannot be written.
        """
        folder, held = self._create()
        try:
            yield folder
        except OSError as error:
            if error.errno not in _FULL:
                raise
            raise ModelError(
                f"the disk of {self.root} is full; nothing was installed: free space, try again"
            ) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            if held is not None:
                os.close(held)

    def _create(self) -> tuple[Path, int | None]:
        """Return a new folder and a descriptor with its lock.

        The lock says that its owner lives: a sweep takes away only folders that nobody holds.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with _locked(self.root):
                folder = Path(tempfile.mkdtemp(prefix=_STAGING, dir=self.root))
                return folder, _try_lock(folder)
        except OSError as error:
            raise ModelError(f"{self.root} cannot be written: {error.strerror}") from error

    def install(self, staged: Path, model: Model) -> Model:
        """Move `staged`, a folder of `staging`, to the place of `model`, replacing an older version of that name.

        Raises ModelError where a name is taken by another model or the files are not what the manifest says.
        """
        wrong = problems(replace(model, folder=staged))
        if wrong:
            raise ModelError(f"{model.name} is not installed: {'; '.join(wrong)}")
        target = self.root / folder_name(model.name)
        _sync(staged)
        with _locked(self.root) as root:
            self._sweep(staged)
            self.check_names(*model.names)
            if target.exists():
                exchange.swap(staged, target)
            else:
                staged.rename(target)
            os.fsync(root)
        return replace(model, folder=target)

    def check_names(self, *names: str) -> None:
        """Raise ModelError where one of `names`, a model's name and then its aliases, belongs to another model."""
        catalog = Catalog(self.root)
        catalog.scan()
        own = names[0].lower()
        neighbours = (model for model in catalog.models if model.folder.name == folder_name(own))
        for owner in (*filter(None, map(catalog.resolve, names)), *neighbours):
            if owner.name.lower() != own:
                raise ModelError(
                    f"a name of {names[0]!r} already belongs to the model {owner.name!r} "
                    f"(also known as {', '.join(owner.aliases) or 'nothing else'}); "
                    f"remove that one, or install this one under another name"
                )

    def verify(self, model: Model) -> list[str]:
        """Return what is wrong with the installed files of `model`, a sentence each; empty if nothing is."""
        return problems(model)

    def remove(self, model: Model) -> None:
        """Take `model` out of the store at once, then delete its files."""
        self.remove_folder(model.folder.name)

    def remove_folder(self, name: str) -> None:
        """Remove a model by the name of its folder, as is needed where its manifest is broken."""
        with _locked(self.root) as root:
            trash = Path(tempfile.mkdtemp(prefix=_STAGING, dir=self.root))
            try:
                (self.root / name).rename(trash / "model")
                os.fsync(root)
            finally:
                shutil.rmtree(trash, ignore_errors=True)

    def _sweep(self, staged: Path) -> None:
        """Delete what a crash left behind: dotted folders whose owner no longer lives."""
        for folder in self.root.glob(f"{_STAGING}*"):
            # another process may finish and delete its own folder meanwhile
            with suppress(FileNotFoundError):
                held = _try_lock(folder) if folder != staged else None
                if held is not None:
                    shutil.rmtree(folder, ignore_errors=True)
                    os.close(held)


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Hold the exclusive lock of `folder` among processes; gives its descriptor."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _try_lock(folder: Path) -> int | None:
    """Return a descriptor that holds the lock of `folder`, or None where another one does."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor
    os.close(descriptor)
    return None


def _sync(folder: Path) -> None:
    """Make every file readable for the daemon's user and force it to the disk, folders last."""
    for parent, _, files in os.walk(folder, topdown=False):
        for name in files:
            _sync_one(Path(parent, name), 0o644)
        _sync_one(Path(parent), 0o755)


def _sync_one(path: Path, mode: int) -> None:
    path.chmod(mode)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
