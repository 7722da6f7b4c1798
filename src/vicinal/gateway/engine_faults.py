"""What engines do wrong on the wire: every kind has its counter."""

from enum import StrEnum


class EngineFault(StrEnum):
    """Closed, and exposed by name (`vicinal_engine_faults_total`). docs/http.md says what each is."""

    UNREACHABLE = "unreachable"
    CONNECT_TOO_SLOW = "connect_too_slow"
    SILENT = "silent"
    CUT_SHORT = "cut_short"
    MALFORMED = "malformed"
    HEAD_TOO_LARGE = "head_too_large"
    FRAMING_TOO_LARGE = "framing_too_large"
    UNSUPPORTED_CODING = "unsupported_coding"
    UNASKED_BYTES = "unasked_bytes"


class EngineFaultError(Exception):
    """Why an answer ends here."""

    def __init__(self, kind: EngineFault, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
