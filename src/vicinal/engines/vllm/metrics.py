"""A vLLM metrics page becomes an `EndpointReport`.

An engine process with several data-parallel engines has one series per engine (`engine="0"`, ...), and each is a part
of the endpoint, so counts and block numbers are summed. `kv_usage` is the mean over engines, weighted by their blocks:
then `kv_usage * kv_blocks` is the number of blocks in use, which is what headroom is computed from (a maximum would
overstate it). A metric that is not on the page, or not a finite number, is None.

Only lines that start with a needed name are looked at: a page has hundreds of histogram buckets that the scheduler
does not read.
"""

import math
import re
from collections.abc import Iterable, Mapping

from vicinal.domain.ids import EndpointId
from vicinal.domain.report import EndpointReport

# Each figure may have older names; the first one that the page has counts, because some builds expose both.
_WAITING = ("vllm:num_requests_waiting",)
_RUNNING = ("vllm:num_requests_running",)
_USAGE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
_CONFIG = ("vllm:cache_config_info",)
_QUERIES = ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total")
_HITS = ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total")
_PREEMPTIONS = ("vllm:num_preemptions_total",)
_BY_SOURCE = ("vllm:prompt_tokens_by_source_total",)

# A literal newline in front is six times faster to search for than `^` with MULTILINE.
_LINE = re.compile(
    r"\n("
    + "|".join(map(re.escape, _WAITING + _RUNNING + _USAGE + _CONFIG + _QUERIES + _HITS + _PREEMPTIONS + _BY_SOURCE))
    + r")(?:\{(.*)\})?[ \t]+(\S+)"
)
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')

_Series = list[tuple[dict[str, str], float]]


def parse_report(page: str, endpoint: EndpointId, scraped_s: float) -> EndpointReport:
    """Read a page in Prometheus text format, scraped at `scraped_s` on the driver's clock. Raises nothing."""
    found: dict[str, _Series] = {}
    for name, labels, value in _LINE.findall("\n" + page):
        found.setdefault(name, []).append((dict(_LABEL.findall(labels)), _number(value)))
    config = [labels for labels, _ in _series(found, _CONFIG)]
    blocks = {labels.get("engine"): _whole(labels.get("num_gpu_blocks")) for labels in config}
    sources = _series(found, _BY_SOURCE)
    sizes = {_whole(labels.get("block_size")) for labels in config}
    return EndpointReport(
        endpoint=endpoint,
        scraped_s=scraped_s,
        waiting=_count(_total(_series(found, _WAITING))),
        running=_count(_total(_series(found, _RUNNING))),
        kv_usage=_weighted_mean(_series(found, _USAGE), blocks),
        kv_blocks=_sum_known(blocks.values()),
        block_tokens=sizes.pop() if len(sizes) == 1 else None,
        prefix_queries_tokens=_total(_series(found, _QUERIES)),
        prefix_hits_tokens=_total(_series(found, _HITS)),
        preemptions=_total(_series(found, _PREEMPTIONS)),
        prompt_computed_tokens=_total(_of_source(sources, "local_compute")),
        prompt_reused_tokens=_total(_of_source(sources, "local_cache_hit")),
        prompt_pulled_tokens=_total(_of_source(sources, "external_kv_transfer")),
    )


def _series(found: Mapping[str, _Series], names: Iterable[str]) -> _Series:
    return next((found[name] for name in names if name in found), [])


def _of_source(series: _Series, source: str) -> _Series:
    return [(labels, value) for labels, value in series if labels.get("source") == source]


def _total(series: _Series) -> float | None:
    """The sum over engines; unknown as a whole when one of them is."""
    total = sum(value for _, value in series)
    return total if series and math.isfinite(total) else None


def _count(value: float | None) -> int | None:
    return None if value is None else round(value)


def _weighted_mean(series: _Series, blocks: Mapping[str | None, int | None]) -> float | None:
    """Engines whose size is not on the page weigh alike, as they do in practice."""
    sizes = [blocks.get(labels.get("engine")) for labels, _ in series]
    known = [float(size) for size in sizes if size]
    weights = known if len(known) == len(series) else [1.0] * len(series)
    mean = sum(w * value for w, (_, value) in zip(weights, series, strict=True)) / (sum(weights) or 1.0)
    return mean if series and math.isfinite(mean) else None


def _sum_known(values: Iterable[int | None]) -> int | None:
    known = list(values)
    numbers = [value for value in known if value is not None]
    return sum(numbers) if known and len(numbers) == len(known) else None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
