"""An SGLang metrics page (`--enable-metrics`) becomes an `EndpointReport`.

Each scheduler process of an engine may have a series of its own. Those of tensor, pipeline and expert ranks speak of
the same requests, so rank 0 speaks for all; those of data-parallel ranks are parts of the endpoint and are summed.

`cache_hit_rate` is not read: it is set to zero at every decode report. Reuse is `cached_tokens_total` of
`prompt_tokens_total`. Usage is that of the full-attention pool where the page has it apart. The sizes of the pool are
gauges, and labels of `cache_config_info` in builds before 0.5.11. In a disaggregated engine a request also waits for
its partner: those queues count as waiting.
"""

import math
import re
from collections.abc import Mapping

from vicinal.domain.ids import EndpointId
from vicinal.domain.report import EndpointReport

_WAITING = ("num_queue_reqs", "num_prefill_prealloc_queue_reqs", "num_decode_prealloc_queue_reqs")
_RUNNING = ("num_running_reqs", "num_prefill_inflight_queue_reqs", "num_decode_transfer_queue_reqs")
_USAGE = ("full_token_usage", "token_usage")
_PAGE_SIZE, _PAGES, _TOKENS, _CONFIG = "page_size", "num_pages", "max_total_num_tokens", "cache_config_info"
_QUERIES, _HITS, _RETRACTED = "prompt_tokens_total", "cached_tokens_total", "num_retracted_requests_total"
_NAMES = (*_WAITING, *_RUNNING, *_USAGE, _PAGE_SIZE, _PAGES, _TOKENS, _CONFIG, _QUERIES, _HITS, _RETRACTED)

_LINE = re.compile(r"\nsglang:(" + "|".join(_NAMES) + r")(?:\{(.*)\})?[ \t]+(\S+)")
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')
_OF_THE_SAME = ("tp_rank", "pp_rank", "moe_ep_rank")

_Series = Mapping[str, list[tuple[dict[str, str], float]]]


def parse_report(page: str, endpoint: EndpointId, scraped_s: float) -> EndpointReport:
    """Read a page in Prometheus text format, scraped at `scraped_s` on the driver's clock. Raises nothing."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for name, text, value in _LINE.findall("\n" + page):
        labels = dict(_LABEL.findall(text))
        if all(labels.get(rank, "0") == "0" for rank in _OF_THE_SAME):
            found.setdefault(name, []).append((labels, _number(value)))
    page_size, pages = _pool(found)
    return EndpointReport(
        endpoint=endpoint,
        scraped_s=scraped_s,
        waiting=_queue(found, _WAITING),
        running=_queue(found, _RUNNING),
        kv_usage=_mean(found, next((name for name in _USAGE if name in found), "")),
        kv_blocks=pages,
        block_tokens=page_size,
        prefix_queries_tokens=_total(found, _QUERIES),
        prefix_hits_tokens=_total(found, _HITS),
        preemptions=_total(found, _RETRACTED),
    )


def _queue(found: _Series, names: tuple[str, ...]) -> int | None:
    """The first name must be there; the others are only on pages of disaggregated engines."""
    totals = [_total(found, name) for name in names if name == names[0] or name in found]
    known = [total for total in totals if total is not None]
    return round(sum(known)) if len(known) == len(totals) else None


def _pool(found: _Series) -> tuple[int | None, int | None]:
    """Tokens of a page, and pages over all data-parallel ranks. A size that ranks disagree on is Unknown."""
    config = [labels for labels, _ in found.get(_CONFIG, ())]
    sizes = {value for _, value in found.get(_PAGE_SIZE, ())} or {_number(c.get("page_size", "")) for c in config}
    size = sizes.pop() if len(sizes) == 1 else math.nan
    pages = _total(found, _PAGES)
    if pages is None and config:
        pages = sum(_number(labels.get("num_pages", "")) for labels in config)
    if pages is None and (tokens := _total(found, _TOKENS)) is not None and size > 0:
        pages = tokens // size
    return _whole(size), _whole(pages)


def _total(found: _Series, name: str) -> float | None:
    """The sum over series; unknown as a whole when one of them is."""
    series = found.get(name)
    total = sum(value for _, value in series) if series else math.nan
    return total if math.isfinite(total) else None


def _mean(found: _Series, name: str) -> float | None:
    """Data-parallel ranks of an engine are alike in size."""
    total = _total(found, name)
    return None if total is None else total / len(found[name])


def _whole(value: float | None) -> int | None:
    return int(value) if value is not None and math.isfinite(value) and value >= 1 else None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
