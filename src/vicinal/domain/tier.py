"""Where a copy of a block is kept: the endpoint's own tiers, nearest first, and stores that several endpoints read."""

from enum import StrEnum


class Tier(StrEnum):
    HBM = "hbm"
    HOST = "host"
    SSD = "ssd"
    REMOTE = "remote"
