from __future__ import annotations

from collections.abc import Iterator

from appliance import errors
from appliance.errors import BY_CODE, ApplianceError, Internal


def classes(cls: type[ApplianceError] = ApplianceError) -> Iterator[type[ApplianceError]]:
    yield cls
    for sub in cls.__subclasses__():
        yield from classes(sub)


OURS = [cls for cls in classes() if cls.__module__ == "appliance.errors"]


def test_every_class_is_found_by_its_code() -> None:
    for cls in OURS:
        assert BY_CODE[cls.code] is (Internal if cls is ApplianceError else cls)


def test_no_two_classes_share_a_code_by_accident() -> None:
    codes = [cls.code for cls in OURS if cls is not ApplianceError]
    assert sorted(set(codes)) == sorted(codes)


def test_codes_stay_as_clients_know_them() -> None:
    assert set(BY_CODE) == {
        "bad_configuration",
        "start_failed",
        "model_error",
        "unsupported_model",
        "corrupt_model",
        "invalid_request",
        "unsupported_media_type",
        "body_too_large",
        "input_too_long",
        "idempotency_mismatch",
        "operation_not_supported",
        "model_not_found",
        "model_replaced",
        "job_not_found",
        "overloaded",
        "too_many_connections",
        "body_timeout",
        "unavailable",
        "deadline_exceeded",
        "engine_failed",
        "quarantined",
        "not_finite",
        "internal",
    }


def test_every_class_can_be_made_from_a_sentence_alone() -> None:
    for cls in BY_CODE.values():
        error = cls("A sentence.")
        assert (str(error), error.message, error.param) == ("A sentence.", "A sentence.", None)


def test_an_error_knows_the_field_it_is_about() -> None:
    assert errors.BadRequest("Wrong.", param="input[3]").param == "input[3]"
