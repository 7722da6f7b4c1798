"""The kinds of early rejection."""

from enum import StrEnum


class EarlyName(StrEnum):
    NONE = "none"
    CURRENT = "current"
    PREDICTED = "predicted"
