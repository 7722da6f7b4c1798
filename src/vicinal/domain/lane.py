"""Lanes: long prefills do not stand in the way of short ones."""

from enum import StrEnum


class Lane(StrEnum):
    """By predicted seconds of prefill, so a long prompt whose KV is there already is short."""

    SHORT = "short"
    LONG = "long"
