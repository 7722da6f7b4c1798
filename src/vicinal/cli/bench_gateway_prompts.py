"""The requests of `vicinal bench gateway`: chats of a known number of tokens, half of each shared within a group.

Routers see text, so prompts are text: words that are one token each of the packaged vocabulary, five and a half bytes
on average with their space, as of English with today's vocabularies. A request's own half starts with words that no
other request has, so nothing but the shared half is ever seen again.
"""

import numpy as np

MODEL = "bench"
_WORDS = (
    "the and one per has its for with what over cost that each from test same copy wait read only hand node cache "
    "token local block batch event state every model worker decode tenant policy prefix engine prompt request"
)
WORDS = tuple(_WORDS.split(" "))
TEMPLATE_TOKENS = 6
"""Of the packaged chat template: around two messages, and before the answer."""

PROMPT_TOKENS_MIN = 24

VARIANTS = 64
_NAME_WORDS = 5


def words_of(rng: np.random.Generator, count: int) -> str:
    """So many tokens."""
    return "".join(f" {WORDS[at]}" for at in rng.integers(len(WORDS), size=count))


def shared_tokens(prompt_tokens: int) -> int:
    """The tokens of a prompt before its own half."""
    return 2 + (prompt_tokens - TEMPLATE_TOKENS) // 2


class ChatRequests:
    """Whole HTTP requests, each another one. `groups` prompts share the first half with others."""

    def __init__(self, tokens: int, chunks: int, groups: int, *, streamed: bool, seed: int) -> None:
        rng = np.random.default_rng(seed)
        shared = shared_tokens(tokens) - 2  # two are the template's
        own = tokens - TEMPLATE_TOKENS - shared - _NAME_WORDS
        rest = '"stream":true,"stream_options":{"include_usage":true},' if streamed else ""
        start = f'{{"model":"{MODEL}",{rest}"max_tokens":{chunks},"messages":[{{"role":"system","content":"'
        self._openings = [
            (start + words_of(rng, shared) + '"},{"role":"user","content":"').encode() for _ in range(groups)
        ]
        self._endings = [(words_of(rng, own) + '"}]}').encode() for _ in range(VARIANTS)]
        self._rng = rng
        self._order: list[int] = []
        self._number = int(rng.integers(2**20))

    def body(self) -> bytes:
        """The next request's body."""
        if not self._order:
            self._order = self._rng.integers(len(self._openings), size=4096).tolist()
        self._number += 1
        number, name = self._number, b""
        for _ in range(_NAME_WORDS):
            number, at = divmod(number, len(WORDS))
            name += b" " + WORDS[at].encode()
        return self._openings[self._order.pop()] + name + self._endings[self._number % VARIANTS]

    def message(self) -> bytes:
        """The next request, head and body."""
        body = self.body()
        return (
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )
