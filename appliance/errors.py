"""One exception tree. Each class knows its stable code; only a boundary acts on it.

Clients read `code`; the gateway alone turns it into an HTTP status (gateway/render.py), the
command line alone turns it into an exit status. Messages never carry a payload or a key.
"""

from __future__ import annotations


class ApplianceError(Exception):
    """Base of every expected failure.

    `message` is a sentence for a person. `param` names the offending field, where there is one.
    """

    code = "internal"

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


# -- raised while starting: the administrator reads these ------------------------------------


class ConfigError(ApplianceError):
    """The configuration or the place that it names cannot be used. Exit status 78."""

    code = "bad_configuration"


class StartError(ApplianceError):
    """A process could not start; the message says why and what to do."""

    code = "start_failed"


# -- raised by models/: the administrator reads these ----------------------------------------


class ModelError(ApplianceError):
    """A model cannot be fetched, imported, verified or loaded."""

    code = "model_error"


class UnsupportedModel(ModelError):
    """The importer does not know this architecture; the message names it and what was found."""

    code = "unsupported_model"


class CorruptModel(ModelError):
    """A file's bytes are not what model.toml or the format says."""

    code = "corrupt_model"


# -- raised by the gateway about a request: the client reads these ---------------------------


class BadRequest(ApplianceError):
    """The request is not what the interface says."""

    code = "invalid_request"


class UnsupportedMedia(BadRequest):
    """The body's content type or encoding is not accepted."""

    code = "unsupported_media_type"


class BodyTooLarge(BadRequest):
    """The body is over the documented limit."""

    code = "body_too_large"


class InputTooLong(BadRequest):
    """An input has more tokens than the model takes and truncation was not asked for."""

    code = "input_too_long"


class OperationNotSupported(BadRequest):
    """The model exists and does something else."""

    code = "operation_not_supported"


class IdempotencyMismatch(ApplianceError):
    """The Idempotency-Key came with another body before."""

    code = "idempotency_mismatch"


class ModelNotFound(ApplianceError):
    """No model of that name is in the catalogue."""

    code = "model_not_found"


class JobNotFound(ApplianceError):
    """No job of that id is there, or it is another key's."""

    code = "job_not_found"


# -- raised along the queue: the client reads these ------------------------------------------


class Overloaded(ApplianceError):
    """The lane is full; try again after `retry_after_s` seconds."""

    code = "overloaded"

    def __init__(self, message: str, *, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class TooManyConnections(Overloaded):
    """The gateway holds as many connections as it may, in all or from one address."""

    code = "too_many_connections"


class TooSlow(BadRequest):
    """The request's body did not arrive in time."""

    code = "body_timeout"


class Unavailable(ApplianceError):
    """Nothing can take the work at the moment: starting, draining, or every device is out."""

    code = "unavailable"


class ModelReplaced(ApplianceError):
    """The model's content changed since a job was accepted; its vectors would not go with the others."""

    code = "model_replaced"


class DeadlineExceeded(ApplianceError):
    """No answer arrived before the request's deadline."""

    code = "deadline_exceeded"


class EngineFailed(ApplianceError):
    """The engine died or failed on this item, repeatedly."""

    code = "engine_failed"


class Quarantined(EngineFailed):
    """The item was set aside after it failed again and again; the message names it for the administrator."""

    code = "quarantined"


class NotFinite(EngineFailed):
    """The model's output for this item holds NaN or infinity."""

    code = "not_finite"


class Internal(ApplianceError):
    """A fault of ours; the traceback is in the log under the request id."""

    code = "internal"


def _tree(cls: type[ApplianceError]) -> dict[str, type[ApplianceError]]:
    """Return the classes under `cls` by their code."""
    found = {cls.code: cls}
    for sub in cls.__subclasses__():
        found.update(_tree(sub))
    return found


BY_CODE: dict[str, type[ApplianceError]] = {**_tree(ApplianceError), "internal": Internal}
