"""What became of a prediction of reuse: how many prompt tokens an engine reused, beside how many were expected."""

from enum import StrEnum


class Reuse(StrEnum):
    """Why an engine reused as many prompt tokens as it did. The first is no error; the last two say that nobody
    knows."""

    EXACT = "exact"
    EVICTED_MEANWHILE = "evicted_meanwhile"
    EXPECTED_NOT_MADE = "expected_not_made"
    NOT_LOADED = "not_loaded"
    STORED_MEANWHILE = "stored_meanwhile"
    LATE_EVENTS = "late_events"
    INFERRED = "inferred"
    UNEXPLAINED = "unexplained"
    NOT_ASKED = "not_asked"
    ENGINE_SILENT = "engine_silent"
