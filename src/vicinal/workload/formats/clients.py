"""CSV files that say which client sent what: VTC's real trace and ServeGen's samples. A client is a tenant.

Sources: VTC (Sheng et al., OSDI'24), github.com/Ying1123/VTC-artifact: the trace from the LMSYS arena, stamps in
seconds; ServeGen (Xiang et al., 2025), github.com/alibaba/ServeGen: workloads made of measured clients, stamps in
milliseconds. The other columns are the same: client_id, input_length, output_length. There are no hash ids.
"""

from collections.abc import Callable, Iterator

from vicinal.workload.formats.columns import csv_rows, number, whole_number
from vicinal.workload.formats.lines import Lines
from vicinal.workload.formats.mooncake import MS_PER_S
from vicinal.workload.formats.row import BadRow, Format, Kind, Row, Skipped, left_out, private

_REST = ("client_id", "input_length", "output_length")


def _reader(stamp_column: str, stamps_per_s: float) -> Callable[[Lines, int], Iterator[Row | Skipped]]:
    def read(lines: Lines, _: int) -> Iterator[Row | Skipped]:
        for stamp, client, prompt, output in csv_rows(lines, (stamp_column, *_REST)):
            prompt_tokens, output_tokens = whole_number(_REST[1], prompt), whole_number(_REST[2], output)
            if not client:
                raise BadRow("client_id is empty")
            yield left_out(_REST[1], prompt_tokens, _REST[2], output_tokens) or Row(
                number(stamp_column, stamp) / stamps_per_s,
                (private(lines, prompt_tokens),),
                output_tokens,
                tenant=client,
            )

    return read


VTC = Format("vtc", Kind.CSV, ("timestamp_s", *_REST), _reader("timestamp_s", 1.0))
SERVEGEN = Format("servegen", Kind.CSV, ("timestamp_ms", *_REST), _reader("timestamp_ms", MS_PER_S))
