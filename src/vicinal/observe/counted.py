"""Counters and histograms of a hot path: plain numbers, made into samples when a page is asked for.

The client library's own look up labels by text and lock every number, which takes several microseconds a time; a
decision and its outcome bump some twenty. One thread counts here, the one that exposes.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


class Counted(Collector):
    """A counter. Without label names it is there from the start, as 0."""

    def __init__(self, name: str, text: str, labels: Sequence[str], registry: CollectorRegistry) -> None:
        self._name = name
        self._text = text
        self._labels = labels
        self._values: dict[tuple[str, ...], float] = {} if labels else {(): 0.0}
        registry.register(self)

    def inc(self, *labels: str, by: float = 1.0) -> None:
        """`labels` are values, in the order of their names."""
        self._values[labels] = self._values.get(labels, 0.0) + by

    def forget(self, value: str) -> None:
        """Every series whose first label has this value ends."""
        self._values = {labels: count for labels, count in self._values.items() if labels[0] != value}

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for labels, count in self._values.items():
            family.add_metric(labels, count)
        yield family


class Spread(Collector):
    """A histogram. `bounds` are the upper ends of its buckets, ascending, without the infinite one."""

    def __init__(
        self, name: str, text: str, bounds: Sequence[float], labels: Sequence[str], registry: CollectorRegistry
    ) -> None:
        self._name = name
        self._text = text
        self._bounds = bounds
        self._labels = labels
        self._cells: dict[tuple[str, ...], _Cells] = {} if labels else {(): _Cells(len(bounds))}
        registry.register(self)

    def observe(self, value: float, *labels: str) -> None:
        cells = self._cells.get(labels)
        if cells is None:
            cells = self._cells[labels] = _Cells(len(self._bounds))
        cells.counts[bisect_left(self._bounds, value)] += 1
        cells.total += value

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        ends = [*map(floatToGoString, self._bounds), "+Inf"]
        for labels, cells in self._cells.items():
            family.add_metric(labels, list(zip(ends, accumulate(cells.counts), strict=True)), cells.total)
        yield family


class _Cells:
    __slots__ = ("counts", "total")

    def __init__(self, bounds: int) -> None:
        self.counts = [0] * (bounds + 1)
        self.total = 0.0
