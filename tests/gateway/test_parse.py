"""Bodies to requests: exact counts and hashes, and errors that name the field."""

from array import array
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.cluster.output_lengths import PRIOR_TOKENS, OutputLengths
from vicinal.domain.request import BATCH, INTERACTIVE
from vicinal.engines.kv_fields import extra_key_bytes
from vicinal.gateway.caller import ANYBODY, Caller
from vicinal.gateway.counters import GatewayCounters
from vicinal.gateway.errors import ApiError
from vicinal.gateway.matching import Matching
from vicinal.gateway.parse import RequestParser
from vicinal.gateway.prompt_reader import ServedModel
from vicinal.gateway.prompts import pack
from vicinal.kvindex.hashing import chain
from vicinal.tokenizer.errors import ChatError
from vicinal.tokenizer.kinds import PromptKind


class Letters:
    """A tokenizer with one token per character; a chat is its contents, each after its role's first letter."""

    def packed(self, text: str, *, add_special_tokens=True) -> bytes:
        return pack([ord(c) for c in text if add_special_tokens or c != "^"])

    def render_chat(self, messages, tools=None, add_generation_prompt=True, arguments=None) -> str:
        if messages[0]["role"] == "odd":
            raise ChatError("roles must alternate", "messages[0].role")
        text = "".join(m["role"][0] + str(m["content"]) for m in messages)
        return text + ("t" * len(tools or [])) + str(arguments or "") + (">" if add_generation_prompt else "")


class Bench:
    def __init__(self, tokenizer: Any = None) -> None:
        self.counters = GatewayCounters()
        self.lengths = OutputLengths()
        models = [ServedModel("m", 4, 20, tokenizer)]
        self.matching = Matching()
        self.parser = RequestParser(models, self.lengths, self.counters, self.matching)

    def completion(self, body: Any, caller: Caller = ANYBODY):
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return self.parser.completion("r", raw, caller)

    def chat(self, body: Any):
        return self.parser.chat("r", body if isinstance(body, bytes) else msgspec.json.encode(body), ANYBODY)


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
    assert (request.prompt_tokens, request.exact, request.inferred_only) == (4, False, True)
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
def test_what_only_the_engine_can_render_is_matched_by_its_text(special) -> None:
    bench = Bench(Letters())
    chat = {"model": "m", "messages": [{"role": "user", "content": "abcdefgh"}]} | special
    parsed = bench.chat(chat)
    assert (parsed.request.exact, parsed.request.inferred_only, parsed.tokenised) == (False, True, None)
    assert bench.counters.estimated_prompts == 1
    if special != {"continue_final_message": True}:
        assert set(split(parsed.request.block_hashes)).isdisjoint(split(bench.chat(BY_TEXT).request.block_hashes))


BY_TEXT = {"model": "m", "messages": [{"role": "user", "content": "abcdefgh"}], "continue_final_message": True}


def split(packed: bytes) -> list[bytes]:
    return [packed[at : at + 8] for at in range(0, len(packed), 8)]


TURNS = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["user", "assistant", "tool"]),
            "content": st.none()
            | st.text(max_size=40)
            | st.lists(
                st.text(max_size=10).map(lambda text: {"type": "text", "text": text})
                | st.text(max_size=10).map(lambda url: {"type": "image_url", "image_url": {"url": url}}),
                max_size=3,
            ),
        },
        optional={"tool_call_id": st.text(max_size=5)},
    ),
    min_size=1,
    max_size=5,
)


@given(turns=TURNS, more=TURNS)
def test_a_longer_conversation_continues_the_hashes_of_a_shorter_one(turns: list, more: list) -> None:
    bench = Bench()
    shorter, longer = ({"model": "m", "messages": messages} for messages in (turns, turns + more))
    start, whole = (bench.chat(chat).request.block_hashes for chat in (shorter, longer))
    assert whole.startswith(start)
    swapped = [{**turns[0], "role": "other"}, *turns[1:], *more]
    changed = bench.chat({"model": "m", "messages": swapped}).request.block_hashes
    assert changed[-8:] != whole[-8:]


@given(words=st.text(min_size=8, max_size=60))
def test_hashes_of_text_are_no_hashes_of_tokens(words: str) -> None:
    """Even where the text's bytes are exactly the bytes of some token ids."""
    raw = words.encode("utf-8", "surrogatepass")
    as_ids = list(array("I", raw[: len(raw) // 4 * 4]))
    by_text = Bench().completion({"model": "m", "prompt": words}).request
    assert by_text.blocks == len(raw) // 16
    assert set(split(by_text.block_hashes)).isdisjoint(split(hashes(as_ids)))
    assert by_text.prompt_tokens >= by_text.blocks * by_text.block_tokens


def test_what_is_no_text_counts_by_its_content_not_by_its_length() -> None:
    def chat(url: str) -> Any:
        parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "what is this? " * 5}]
        return Bench().chat({"model": "m", "messages": [{"role": "user", "content": parts}]}).request

    small, large, other = (chat("data:" + data) for data in ("x", "x" * 100_000, "y"))
    assert small.prompt_tokens == large.prompt_tokens
    assert chat("data:x").block_hashes == small.block_hashes
    assert len({small.block_hashes, large.block_hashes, other.block_hashes}) == 3


def test_a_kind_that_engines_tokenise_differently_is_matched_by_text_until_they_agree() -> None:
    bench = Bench(Letters())
    chat = {"model": "m", "messages": [{"role": "user", "content": "abcdef"}]}
    with_tools = chat | {"tools": [{}]}
    by_tokens = bench.chat(chat).request.block_hashes
    assert bench.matching.use_text("m", PromptKind.CHAT, "another template")
    assert not bench.matching.use_text("m", PromptKind.CHAT, "another template")
    request = bench.chat(chat).request
    assert request.inferred_only
    assert set(split(request.block_hashes)).isdisjoint(split(by_tokens))
    assert not bench.chat(with_tools).request.inferred_only
    assert not bench.completion({"model": "m", "prompt": "abcdef"}).request.inferred_only
    assert not bench.completion({"model": "m", "prompt": [1, 2, 3, 4]}).request.inferred_only
    assert bench.matching.state("m")["chat"] == "text: another template"
    assert bench.matching.use_tokens("m", PromptKind.CHAT)
    assert bench.chat(chat).request.block_hashes == by_tokens
    assert bench.matching.state("m") == {"plain": "tokens", "chat": "tokens", "chat_with_tools": "tokens"}


def test_special_tokens_follow_the_clients_wish() -> None:
    bench = Bench(Letters())
    count = {
        wish: bench.completion({"model": "m", "prompt": "^abc"} | wish_body).request.prompt_tokens
        for wish, wish_body in (("default", {}), ("no", {"add_special_tokens": False}))
    }
    assert count == {"default": 4, "no": 3}


def test_a_prompt_that_the_engine_truncates_is_not_known() -> None:
    bench = Bench(Letters())
    request = bench.completion({"model": "m", "prompt": "abcdefgh", "truncate_prompt_tokens": 4}).request
    assert (request.exact, request.block_hashes) == (False, b"")
    assert not bench.chat(CHAT | {"truncate_prompt_tokens": 4}).request.exact


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"messages": [{"role": "user", "content": "x"}]}, PromptKind.CHAT),
        ({"messages": [{"role": "user", "content": "x"}], "tools": [{}]}, PromptKind.TOOLS),
        ({"prompt": "x"}, PromptKind.PLAIN),
        ({"prompt": ["x"]}, PromptKind.PLAIN),
        ({"prompt": ["x", "y"]}, None),
        ({"prompt": [1]}, None),
    ],
)
def test_the_kind_of_what_was_tokenised_here_is_told(body: dict, kind: PromptKind | None) -> None:
    bench = Bench(Letters())
    parsed = (bench.chat if "messages" in body else bench.completion)({"model": "m"} | body)
    assert parsed.tokenised is kind


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


def test_a_request_is_its_callers() -> None:
    request = Bench().completion(OK, Caller("acme", service=BATCH)).request
    assert (request.tenant, request.service) == ("acme", BATCH)
    request = Bench().completion(OK).request
    assert (request.tenant, request.service) == ("default", INTERACTIVE)


def test_a_caller_may_use_the_models_that_are_his() -> None:
    assert Bench().completion(OK, Caller("acme", frozenset(["other", "m"]))).request.tenant == "acme"
    with pytest.raises(ApiError, match="may not use the model `m`") as refused:
        Bench().completion(OK, Caller("acme", frozenset(["other"])))
    assert (refused.value.status, refused.value.code) == (403, "model_forbidden")
    with pytest.raises(ApiError, match=r"`x` does not exist\. Served: \.") as refused:
        Bench().completion(OK | {"model": "x"}, Caller("acme", frozenset(["other"])))
    assert refused.value.status == 404


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
        (OK | {"bootstrap_room": 7}, 400, "bootstrap_room"),
        (OK | {"bootstrap_host": "10.0.0.1"}, 400, "bootstrap_host"),
        (OK | {"disagg_prefill_dp_rank": 1}, 400, "disagg_prefill_dp_rank"),
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


@given(st.lists(st.integers(0, 2**32 - 1), max_size=60), st.sampled_from(["", " ", "\n  "]))
def test_too_many_ids_are_counted_without_reading_them(ids, gap) -> None:
    text = f"{gap},".join(f"{gap}{each}" for each in ids)
    raw = f'{{"model": "m", "prompt": [{text}{gap}]}}'.encode()
    if len(ids) < 20:  # the model takes 20 tokens, one of them the answer's
        if ids:
            assert Bench().completion(raw).request.prompt_tokens == len(ids)
        return
    with pytest.raises(ApiError) as refused:
        Bench().completion(raw)
    assert refused.value.code == "context_length_exceeded"
    assert f"has {len(ids)} and" in refused.value.message


def test_ids_that_the_engine_cuts_are_not_refused_for_their_number() -> None:
    body = {"model": "m", "prompt": list(range(50)), "truncate_prompt_tokens": 10}
    assert not Bench().completion(body).request.exact


@pytest.mark.parametrize(
    "prompt", ['[1,2,"a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y,z,0,1,2,3,4,5"]', "[1,2,,,,"]
)
def test_a_list_that_is_not_of_ids_is_refused_however_its_commas_are_counted(prompt) -> None:
    with pytest.raises(ApiError) as refused:
        Bench().completion(f'{{"model": "m", "prompt": {prompt}}}'.encode())
    assert refused.value.status == 400
