"""Bodies to requests: exact counts and hashes, and errors that name the field."""

from array import array
from typing import Any

import msgspec
import pytest

from vicinal.cluster.output_lengths import PRIOR_TOKENS, OutputLengths
from vicinal.domain.request import BATCH, INTERACTIVE
from vicinal.engines.kv_events import extra_key_bytes
from vicinal.gateway.counters import GatewayCounters
from vicinal.gateway.errors import ApiError
from vicinal.gateway.parse import RequestParser, ServedModel, TrustedHeaders
from vicinal.kvindex.hashing import chain
from vicinal.tokenizer.errors import ChatError


class Letters:
    """A tokenizer with one token per character; a chat is its contents, each after its role's first letter."""

    def encode(self, text: str) -> list[int]:
        return [ord(c) for c in text]

    def encode_chat(self, messages, tools=None, add_generation_prompt=True, arguments=None) -> list[int]:
        if messages[0]["role"] == "odd":
            raise ChatError("roles must alternate", "messages[0].role")
        text = "".join(m["role"][0] + str(m["content"]) for m in messages)
        return self.encode(
            text + ("t" * len(tools or [])) + str(arguments or "") + (">" if add_generation_prompt else "")
        )


class Bench:
    def __init__(self, tokenizer: Any = None, trusted: TrustedHeaders | None = None) -> None:
        self.counters = GatewayCounters()
        self.lengths = OutputLengths()
        models = [ServedModel("m", 4, 20, tokenizer)]
        self.parser = RequestParser(models, self.lengths, self.counters, trusted)

    def completion(self, body: Any, headers: Any = None):
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return self.parser.completion("r", raw, headers or {})

    def chat(self, body: Any):
        return self.parser.chat("r", body if isinstance(body, bytes) else msgspec.json.encode(body), {})


def hashes(ids: list[int], salt: str | None = None) -> bytes:
    extra = (extra_key_bytes([salt]),) if salt else ()
    return chain(array("I", ids).tobytes(), 4, extra_keys=extra)


def ids(text: str) -> list[int]:
    return [ord(c) for c in text]


def test_token_ids_are_counted_and_hashed() -> None:
    parsed = Bench().completion({"model": "m", "prompt": [1, 2, 3, 4, 5, 6, 7, 8, 9], "max_tokens": 3, "stream": True})
    request = parsed.request
    assert (request.prompt_tokens, request.blocks, request.block_tokens) == (9, 2, 4)
    assert request.block_hashes == hashes([1, 2, 3, 4, 5, 6, 7, 8])
    assert (request.max_output_tokens, request.streamed, request.splittable) == (3, True, True)
    assert (request.tenant, request.service) == ("default", INTERACTIVE)


@pytest.mark.parametrize("prompt", [[[1, 2, 3, 4]], [1, 2, 3, 4]])
def test_a_list_of_one_prompt_is_that_prompt(prompt) -> None:
    request = Bench().completion({"model": "m", "prompt": prompt}).request
    assert (request.block_hashes, request.splittable) == (hashes([1, 2, 3, 4]), True)


@pytest.mark.parametrize("prompt", ["abcd", ["abcd"]])
def test_text_goes_through_the_tokenizer(prompt) -> None:
    request = Bench(Letters()).completion({"model": "m", "prompt": prompt}).request
    assert (request.prompt_tokens, request.block_hashes) == (4, hashes(ids("abcd")))


def test_several_prompts_stay_in_one_piece_and_unhashed() -> None:
    bench = Bench(Letters())
    request = bench.completion({"model": "m", "prompt": ["abcd", "abcdef"]}).request
    assert (request.prompt_tokens, request.block_hashes, request.splittable) == (10, b"", False)
    request = bench.completion({"model": "m", "prompt": [[1, 2, 3, 4], [5]]}).request
    assert (request.prompt_tokens, request.block_hashes, request.splittable) == (5, b"", False)
    assert bench.counters.estimated_prompts == 0


def test_a_cache_salt_names_other_blocks() -> None:
    bench = Bench()
    salted = bench.completion({"model": "m", "prompt": [1, 2, 3, 4], "cache_salt": "a"}).request.block_hashes
    assert salted == hashes([1, 2, 3, 4], "a")
    assert salted != hashes([1, 2, 3, 4])


def test_without_a_tokenizer_text_is_estimated_and_that_is_counted() -> None:
    bench = Bench()
    request = bench.completion({"model": "m", "prompt": "äbc" * 4}).request
    assert (request.prompt_tokens, request.block_hashes) == (4, b"")
    chat = {"model": "m", "messages": [{"role": "user", "content": "x" * 200}]}
    assert bench.chat(chat).request.prompt_tokens > 20  # an estimate refuses nobody
    assert bench.counters.estimated_prompts == 2


def test_chats_are_rendered_with_all_that_shapes_them() -> None:
    chat = {"model": "m", "messages": [{"role": "user", "content": "abc"}]}
    bench = Bench(Letters())
    assert bench.chat(chat).request.block_hashes == hashes(ids("uabc>"))
    assert bench.chat(chat | {"tools": [{}]}).request.prompt_tokens == 6
    assert bench.chat(chat | {"add_generation_prompt": False}).request.prompt_tokens == 4
    assert bench.chat(chat | {"chat_template_kwargs": {"a": 1}}).request.prompt_tokens == 13
    assert bench.counters.estimated_prompts == 0


@pytest.mark.parametrize(
    "special",
    [
        {"chat_template": "x"},
        {"documents": [{}]},
        {"reasoning_effort": "low"},
        {"continue_final_message": True},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
    ],
)
def test_what_only_the_engine_can_render_gets_no_hashes(special) -> None:
    bench = Bench(Letters())
    chat = {"model": "m", "messages": [{"role": "user", "content": "abcdefgh"}]} | special
    assert bench.chat(chat).request.block_hashes == b""
    assert bench.counters.estimated_prompts == 1


@pytest.mark.parametrize(
    ("extra", "splittable"),
    [
        ({}, True),
        ({"n": 1, "best_of": 1, "prompt_logprobs": None, "use_beam_search": False}, True),
        ({"n": 2}, False),
        ({"best_of": 2}, False),
        ({"use_beam_search": True}, False),
        ({"prompt_logprobs": 1}, False),
    ],
)
def test_only_one_answer_of_one_run_can_be_split(extra, splittable) -> None:
    assert Bench().completion({"model": "m", "prompt": [1]} | extra).request.splittable is splittable


def test_expected_output_follows_what_the_model_gave() -> None:
    bench = Bench()
    lengths = bench.lengths
    assert lengths.predict("m", 10_000) == PRIOR_TOKENS
    assert lengths.predict("m", 10) == 10
    assert lengths.predict("m", 10_000, ignore_eos=True) == 10_000
    for tokens in (10, 20, 30):
        lengths.observe("m", tokens)
    assert lengths.predict("m", 10_000) == 20
    for _ in range(5000):
        lengths.observe("m", 3)
    body = {"model": "m", "prompt": [1]}
    assert bench.completion(body).request.expected_output_tokens == 3
    assert bench.completion(body | {"max_tokens": 7, "ignore_eos": True}).request.expected_output_tokens == 7
    assert bench.completion(body).request.max_output_tokens == 16
    assert bench.completion(body | {"max_tokens": 500}).request.max_output_tokens == 19


def test_headers_count_only_where_they_are_trusted() -> None:
    headers = {b"x-tenant": b"acme", b"x-vicinal-class": b"batch"}
    body = {"model": "m", "prompt": [1]}
    request = Bench().completion(body, headers).request
    assert (request.tenant, request.service) == ("default", INTERACTIVE)
    bench = Bench(trusted=TrustedHeaders("x-tenant", "x-vicinal-class"))
    request = bench.completion(body, headers).request
    assert (request.tenant, request.service) == ("acme", BATCH)
    assert bench.completion(body).request.tenant == "default"
    with pytest.raises(ApiError, match="known: interactive, batch") as refused:
        bench.completion(body, {b"x-vicinal-class": b"best"})
    assert (refused.value.status, refused.value.param) == (400, "x-vicinal-class")


OK = {"model": "m", "prompt": [1]}
CHAT = {"model": "m", "messages": [{"role": "user", "content": "x"}]}


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        (b"", 400, None),
        (b"{", 400, None),
        (b'{"model":"m","prompt":[1],}', 400, None),
        (b"[]", 400, None),
        (b"[" * 100_000, 400, None),
        ({}, 400, "model"),
        ({"model": "m"}, 400, "prompt"),
        (OK | {"model": 3}, 400, "model"),
        (OK | {"model": "nope"}, 404, "model"),
        (OK | {"prompt": 3}, 400, "prompt"),
        (OK | {"prompt": None}, 400, "prompt"),
        (OK | {"prompt": []}, 400, "prompt"),
        (OK | {"prompt": [[]]}, 400, "prompt"),
        (OK | {"prompt": [1, "a"]}, 400, "prompt[1]"),
        (OK | {"prompt": ["a", 1]}, 400, "prompt[1]"),
        (OK | {"prompt": [1, -1]}, 400, "prompt[1]"),
        (OK | {"prompt": [1, 2**32]}, 400, "prompt[1]"),
        (OK | {"prompt": [[1], [1.5]]}, 400, "prompt[1][0]"),
        (OK | {"prompt": [1] * 20}, 400, "prompt"),
        (OK | {"max_tokens": 0}, 400, "max_tokens"),
        (OK | {"max_tokens": -1}, 400, "max_tokens"),
        (OK | {"max_tokens": "5"}, 400, "max_tokens"),
        (OK | {"n": 0}, 400, "n"),
        (OK | {"stream": "yes"}, 400, "stream"),
        (OK | {"stream_options": {"include_usage": 1}}, 400, "stream_options.include_usage"),
        (OK | {"kv_transfer_params": {"do_remote_prefill": True}}, 400, "kv_transfer_params"),
        (b'{"model":"m","prompt":[1],"kv\\u005ftransfer_params":{}}', 400, "kv_transfer_params"),
    ],
)
def test_bad_completions_name_the_field(body, status, param) -> None:
    with pytest.raises(ApiError) as refused:
        Bench().completion(body)
    error = msgspec.json.decode(refused.value.body())["error"]
    assert (refused.value.status, error["param"]) == (status, param)
    assert set(error) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"model": "m"}, 400, "messages"),
        (CHAT | {"messages": "hi"}, 400, "messages"),
        (CHAT | {"messages": []}, 400, "messages"),
        (CHAT | {"messages": ["hi"]}, 400, "messages[0]"),
        (CHAT | {"messages": [{"content": "x"}]}, 400, "messages[0].role"),
        (CHAT | {"messages": [{"role": "user", "content": 3}]}, 400, "messages[0].content"),
        (CHAT | {"messages": [{"role": "odd", "content": "x"}]}, 400, "messages[0].role"),
        (CHAT | {"messages": [{"role": "user", "content": "x" * 30}]}, 400, "messages"),
        (CHAT | {"max_completion_tokens": 0}, 400, "max_completion_tokens"),
        (CHAT | {"tools": 3}, 400, "tools"),
    ],
)
def test_bad_chats_name_the_field(body, status, param) -> None:
    with pytest.raises(ApiError) as refused:
        Bench(Letters()).chat(body)
    assert (refused.value.status, refused.value.param) == (status, param)


def test_too_long_names_the_counts() -> None:
    with pytest.raises(ApiError, match=r"20 tokens.*has 20 .*at least 1 more") as refused:
        Bench().completion({"model": "m", "prompt": [1] * 20})
    assert refused.value.code == "context_length_exceeded"
    assert Bench().completion({"model": "m", "prompt": [1] * 19}).request.max_output_tokens == 1
