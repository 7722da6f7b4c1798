"""Words for a made workload are read as they say, and one that is not understood is named with what would be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.workload.bounds import ParameterError
from vicinal.workload.conversation import Shape
from vicinal.workload.generators import GENERATORS, read_name
from vicinal.workload.lengths import Exponential, Fixed, Lognormal
from vicinal.workload.parameters import in_words, shaped

figures = st.floats(1e-3, 1e9).map(lambda x: float(f"{x:.9g}"))
distributions = st.one_of(
    st.builds(Fixed, figures), st.builds(Exponential, figures), st.builds(Lognormal, figures, figures, figures)
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "sessions_per_s": figures,
            "system_prompts_tokens": st.lists(st.integers(1, 9999), min_size=1, max_size=5).map(tuple),
            "opening_tokens": distributions,
            "pause_s": distributions,
            "tenants": st.integers(1, 100),
        },
    )
)
def test_what_is_written_is_read_back(values: dict) -> None:
    words = ",".join(f"{key}={in_words(value)}" for key, value in values.items())
    name, parameters = read_name(f"conversation:{words}" if words else "conversation")
    assert name == "conversation"
    assert shaped(Shape, name, parameters) == Shape(**values)


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_defaults_can_be_written(name: str) -> None:
    shape = GENERATORS[name].shape
    words = {key: in_words(getattr(shape(), key)) for key in shape.__dataclass_fields__}
    assert shaped(shape, name, words) == shape()


def test_a_number_is_a_fixed_length() -> None:
    assert shaped(Shape, "conversation", {"turn_tokens": "64"}).turn_tokens == Fixed(64.0)
    assert shaped(Shape, "conversation", {"turn_tokens": "fixed/64"}).turn_tokens == Fixed(64.0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("conversatoin", "unknown workload 'conversatoin'. Did you mean 'conversation'? Known: conversation, conv"),
        ("", "unknown workload ''. Known: conversation"),
        ("xyz:a=1", "unknown workload 'xyz'. Known: conversation"),
        ("hot_tenant:flod=3", "unknown parameter of hot_tenant 'flod'. Did you mean 'flood'? Known: tenants, zipf, cv"),
        (
            "independent:rate=3",
            "unknown parameter of independent 'rate'. Known: prompt_tokens, output_tokens, cv (seed",
        ),
        ("independent:cv", "'cv' is not of the form key=value"),
        ("independent:cv=", "'cv=' is not of the form key=value"),
        ("independent:cv=1,,", "'' is not of the form key=value"),
        ("independent:cv=1,cv=2", "parameter 'cv' is given twice"),
        ("independent:cv=fast", "independent: cv=fast: expected a number"),
        ("independent:cv=inf", "independent: cv=inf: expected a number"),
        ("independent:cv=-1", "independent: cv must be at least 0 and finite, not -1"),
        ("hot_tenant:tenants=2.5", "hot_tenant: tenants=2.5: expected a whole number"),
        ("hot_tenant:tenants=2", "hot_tenant: flooder must be one of the 2 tenants, not 3"),
        (
            "conversation:system_prompts_tokens=1/x",
            "expected whole numbers with slashes between them, such as 2048/1024",
        ),
        ("conversation:system_prompts_tokens=0/5", "system_prompts_tokens must be at least 1 and finite, not 0"),
        (
            "conversation:pause_s=lognorml/1/2/3",
            "unknown distribution 'lognorml'. Did you mean 'lognormal'? Known: fixed",
        ),
        ("conversation:pause_s=lognormal/1/2", "expected a number, exponential/MEAN or lognormal/MEDIAN/SIGMA/MOST"),
        ("conversation:pause_s=lognormal/0/2/3", "pause_s=lognormal/0/2/3: median must be positive and finite, not 0"),
        ("conversation:pause_s=slow", "expected a number, exponential/MEAN or lognormal/MEDIAN/SIGMA/MOST"),
        ("short_and_long:long_share=2", "long_share is a share and must be between 0 and 1, not 2"),
        ("two_models:first_model=a,second_model=a", "first_model and second_model are both 'a'"),
        ("tool_agent:calls_most=3", "calls_most must be at least 4 and finite, not 3"),
        ("tool_agent:prompt_tokens_max=6144", "prompt_tokens_max=6144 leaves no room beside a prompt of 6144 tokens"),
    ],
)
def test_what_is_not_understood_is_named(words: str, said: str) -> None:
    with pytest.raises(ParameterError) as refused:
        read_name(words)
    assert said in str(refused.value)
