"""Ids are those that a real vLLM made, and those of the reference tokenizer."""

import json
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

import vicinal
from vicinal.tokenizer.backend import open_backend
from vicinal.tokenizer.errors import TokenizerError
from vicinal.tokenizer.tokenizer import Tokenizer

TINY = Path(vicinal.__file__).parent / "data" / "tiny-model"
RECORDED = Path(__file__).parents[1] / "fixtures" / "vllm-0.32-cpu" / "handoff_and_errors.json"
TOKENIZER = Tokenizer.load(TINY)
ORACLE = tokenizers.Tokenizer.from_file(str(TINY / "tokenizer.json"))

chinese = st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF), max_size=20)
WORDS = ("the", "cache", "block", "prefill", "Decode", "isn't", "42", "->", "\n")
english = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
special = st.sampled_from(["<|bos|>", "<|user|>", "<|eos|", "<|", "  ", "\t\n", "🙂", "é"])
mixed = st.lists(st.one_of(chinese, english, special, st.text(st.characters(exclude_categories=["Cs"])))).map("".join)


def test_a_chat_becomes_the_ids_that_vllm_made_of_it() -> None:
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))["tokenize"]["response"]["tokens"]
    messages = [{"role": "user", "content": "Where is the cache?"}]
    assert TOKENIZER.encode_chat(messages) == recorded
    assert TOKENIZER.render_chat(messages) == "<|bos|><|user|>Where is the cache?<|eos|><|assistant|>"
    assert TOKENIZER.decode(recorded) == TOKENIZER.render_chat(messages)
    assert TOKENIZER.decode(recorded, skip_special_tokens=True) == "Where is the cache?"


@settings(deadline=None)
@given(mixed, st.booleans())
def test_fastokens_makes_the_ids_of_the_reference(text: str, add_special_tokens: bool) -> None:
    ids = TOKENIZER.encode(text, add_special_tokens=add_special_tokens)
    assert ids == ORACLE.encode(text, add_special_tokens=add_special_tokens).ids
    assert TOKENIZER.decode(ids) == ORACLE.decode(ids, skip_special_tokens=False) == text


def test_the_packaged_tokenizer_is_read_by_fastokens_and_adds_nothing_to_a_completion() -> None:
    assert (TOKENIZER.backend, TOKENIZER.vocab_size, TOKENIZER.special_ids) == ("fastokens", 1024, frozenset(range(5)))
    assert TOKENIZER.encode("hi") == TOKENIZER.encode("hi", add_special_tokens=False)


@pytest.fixture
def with_bos(tmp_path: Path) -> Tokenizer:
    """The packaged tokenizer with a post-processor that puts a BOS before a prompt, as Llama's has."""
    described = json.loads((TINY / "tokenizer.json").read_text(encoding="utf-8"))
    described["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<|bos|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|bos|>": {"id": "<|bos|>", "ids": [0], "tokens": ["<|bos|>"]}},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(described), encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_bytes((TINY / "tokenizer_config.json").read_bytes())
    return Tokenizer.load(tmp_path)


def test_a_bos_comes_in_once_for_a_completion_and_once_for_a_chat(with_bos: Tokenizer) -> None:
    assert with_bos.encode("hi") == [0, *TOKENIZER.encode("hi")]
    chat = with_bos.encode_chat([{"role": "user", "content": "hi"}])
    assert chat == [0, 3, *TOKENIZER.encode("hi"), 1, 4]


def test_what_fastokens_does_not_know_falls_back_and_says_so(tmp_path: Path) -> None:
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({"near": 0, "far": 1, "?": 2}, unk_token="?"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    inner.save(str(tmp_path / "tokenizer.json"))
    fallen = Tokenizer.load(tmp_path)
    assert (fallen.backend, fallen.vocab_size) == ("tokenizers", 3)
    assert fallen.encode("far near nowhere") == [1, 0, 2]
    assert fallen.decode([1, 0]) == "far near"


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"tokenizer\.json"):
        Tokenizer.load(tmp_path)
    path = tmp_path / "tokenizer.json"
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(TokenizerError, match=r"tokenizer\.json: tokenizers: .*; fastokens: "):
        open_backend(path)
    path.write_bytes((TINY / "tokenizer.json").read_bytes())
    (tmp_path / "tokenizer_config.json").write_text("[", encoding="utf-8")
    with pytest.raises(TokenizerError, match=r"tokenizer_config\.json"):
        Tokenizer.load(tmp_path)
