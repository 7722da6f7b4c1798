"""A gauge whose values somebody else keeps: they are read when a page is asked for."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

Labels = tuple[str, ...]


class ReadGauge(Collector):
    """`read` gives a value for each combination of `labels`, in their order."""

    def __init__(self, name: str, text: str, labels: Labels, read: Callable[[], Mapping[Labels, float]]) -> None:
        self._name = name
        self._text = text
        self._labels = labels
        self._read = read

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(self._name, self._text, labels=self._labels)
        for labels, value in sorted(self._read().items()):
            family.add_metric(labels, value)
        yield family
