"""The tail of a stream is enough, however it is cut."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal.replay.stream import TAIL_BYTES, End, Tail, read_end

usages = st.tuples(st.integers(0, 10**6), st.integers(0, 10**6), st.none() | st.integers(0, 10**6))


def event(value: object) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


@settings(deadline=None)
@given(usages, st.lists(st.text(max_size=40), max_size=6), st.booleans(), st.integers(1, 50), st.integers(0, 1200))
def test_the_usage_is_found_whatever_the_chunks(usage, texts, done, chunk_bytes, repeats) -> None:
    prompt_tokens, output_tokens, cached_tokens = usage
    details = None if cached_tokens is None else {"cached_tokens": cached_tokens}
    whole = b"".join(event({"choices": [{"text": text}], "usage": None}) for text in texts) * (1 + repeats // 100)
    counts = {"prompt_tokens": prompt_tokens, "completion_tokens": output_tokens, "prompt_tokens_details": details}
    whole += event({"choices": [], "usage": counts})
    whole += b"data: [DONE]\n\n" if done else b""
    tail = Tail()
    for at in range(0, len(whole), chunk_bytes):
        tail.feed(whole[at : at + chunk_bytes])
    assert tail.end() == End(done, None, prompt_tokens, output_tokens, cached_tokens)


@settings(deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=3 * TAIL_BYTES), max_size=9))
def test_the_tail_is_bounded_and_is_the_end(chunks) -> None:
    tail = Tail()
    for chunk in chunks:
        tail.feed(chunk)
    whole = b"".join(chunks)
    kept = tail.text()
    assert whole.endswith(kept)
    assert len(kept) >= min(len(whole), TAIL_BYTES)
    assert len(kept) <= 4 * TAIL_BYTES


def test_line_ends_comments_and_other_fields() -> None:
    text = b': ping\r\nevent: x\r\ndata:{"usage":{"completion_tokens":3}}\r\n\r\ndata:[DONE]\r\n\r\n'
    assert read_end(text) == End(True, None, None, 3, None)
    assert read_end(b"") == End(False)
    assert read_end(b'data: {"error":{"code":1}}\n\n') == End(False, error='{"code":1}')
    assert read_end(b'data: {"error":"plain"}\n\n') == End(False, error="plain")
