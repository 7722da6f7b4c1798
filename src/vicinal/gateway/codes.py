"""Why a route refuses a request before any core has it: `error.code` of the answer."""

from enum import StrEnum

from vicinal.domain.outcome import Fault, Meaning


class ErrorCode(StrEnum):
    """Closed. What a core says has an `Ending` instead, and what never became a request a `RefusalKind`."""

    INVALID_JSON = "invalid_json"
    INVALID_REQUEST = "invalid_request"
    CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
    INVALID_API_KEY = "invalid_api_key"
    MODEL_FORBIDDEN = "model_forbidden"
    MODEL_NOT_FOUND = "model_not_found"
    UNKNOWN_PATH = "unknown_path"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    BODY_NOT_READ = "body_not_read"
    INTERNAL_ERROR = "internal_error"

    @property
    def meaning(self) -> Meaning:
        return _MEANINGS[self]


_MEANINGS = {
    ErrorCode.INVALID_JSON: Meaning(400, Fault.CLIENT, "the body is not JSON"),
    ErrorCode.INVALID_REQUEST: Meaning(
        400,
        Fault.CLIENT,
        "a field is missing, of a wrong type, out of its bounds, or one that only the gateway sets; `param` names it",
    ),
    ErrorCode.CONTEXT_LENGTH_EXCEEDED: Meaning(
        400, Fault.CLIENT, "the prompt leaves no room for one token of answer in the model"
    ),
    ErrorCode.INVALID_API_KEY: Meaning(401, Fault.CLIENT, "no key, an unknown one, or one that has expired"),
    ErrorCode.MODEL_FORBIDDEN: Meaning(403, Fault.CLIENT, "the key does not open the model"),
    ErrorCode.MODEL_NOT_FOUND: Meaning(404, Fault.CLIENT, "a model that is not served"),
    ErrorCode.UNKNOWN_PATH: Meaning(404, Fault.CLIENT, "no such route; the message lists those that there are"),
    ErrorCode.METHOD_NOT_ALLOWED: Meaning(405, Fault.CLIENT, "the route takes another method"),
    ErrorCode.BODY_NOT_READ: Meaning(
        503, Fault.GATEWAY, "a long body that was not read in time, or whose reader ended twice", again=True
    ),
    ErrorCode.INTERNAL_ERROR: Meaning(500, Fault.GATEWAY, "a defect of the gateway; its log has more"),
}
