"""The report as tables in Markdown."""

from collections.abc import Callable, Iterable, Sequence

from vicinal.sim.fidelity.errors import Errors, errors_of
from vicinal.sim.fidelity.halves import Prediction
from vicinal.sim.fidelity.report import FidelityReport
from vicinal.sim.fidelity.servers import Compared


def as_markdown(report: FidelityReport) -> str:
    """All tables, each under a heading."""
    parts = (
        ("Half of a run predicts the other", _predictions(report.predictions)),
        ("TPOT by batch", _batches(report.predictions)),
        ("Fitted figures", _figures(report.predictions)),
        ("Without async scheduling", _predictions(report.without_async_scheduling)),
        ("Servers by lengths", _servers(report.servers, lambda c: (_lengths(c),), ("input/output",))),
        ("Servers by clients", _servers(report.servers, lambda c: (f"{c.row.clients:4d}",), ("clients",))),
        ("Rows without a model", _table(("model", "mode", "why", "rows"), report.unusable)),
    )
    return "\n\n".join(f"### {heading}\n\n{table}" for heading, table in parts) + "\n"


def _predictions(predictions: Sequence[Prediction]) -> str:
    head = ("run", "split", *_three("scheduled to first token"), *_three("TPOT"), "mean TTFT s", "predicted s", "error")
    return _table(
        head,
        (
            (
                p.run,
                p.split.value,
                *_errors(p.prefill),
                *_errors(p.tpot),
                f"{p.ttft_measured_s:.2f}",
                f"{p.ttft_predicted_s:.2f}",
                _signed(p.ttft_error),
            )
            for p in predictions
        ),
    )


def _batches(predictions: Sequence[Prediction]) -> str:
    return _table(
        ("run", "split", "mean batch", "requests", "measured ms", "predicted ms", "error"),
        (
            (
                p.run,
                p.split.value,
                f"{row.batch_min} to {row.batch_max}",
                row.requests,
                f"{row.measured_s * 1e3:.1f}",
                f"{row.predicted_s * 1e3:.1f}",
                _signed(row.predicted_s / row.measured_s - 1),
            )
            for p in predictions
            for row in p.by_batch
        ),
    )


def _figures(predictions: Sequence[Prediction]) -> str:
    return _table(
        ("run", "split", "a ms", "b µs", "c ns", "a′ ms", "b′ µs", "c′ ns", "warm-up ms", "error of the known half"),
        (
            (
                p.run,
                p.split.value,
                f"{p.fitted.fit.prefill_base_s * 1e3:.1f}",
                f"{p.fitted.fit.prefill_s_per_token * 1e6:.1f}",
                f"{p.fitted.fit.prefill_s_per_pair * 1e9:.2f}",
                f"{p.fitted.fit.step_base_s * 1e3:.1f}",
                f"{p.fitted.fit.step_s_per_sequence * 1e6:.0f}",
                f"{p.fitted.fit.step_s_per_context_token * 1e9:.0f}",
                f"{p.fitted.warm_up_s * 1e3:.0f}",
                f"{p.fitted.error:.1%}",
            )
            for p in predictions
        ),
    )


def _servers(servers: Sequence[Compared], key: Callable[[Compared], tuple[str, ...]], names: Sequence[str]) -> str:
    groups: dict[tuple[str, ...], list[Compared]] = {}
    for c in servers:
        groups.setdefault((c.profile, c.row.precision, c.row.mode, *key(c)), []).append(c)
    head = ("profile", "measured in", "mode", *names, "rows", *_three("TTFT"), "bias, first round", *_three("TPOT"))
    return _table(
        head,
        (
            (
                *group,
                len(rows),
                *_errors(errors_of([c.ttft_error for c in rows])),
                _signed(errors_of([c.first_ttft_error for c in rows]).bias),
                *_errors(errors_of([c.tpot_error for c in rows])),
            )
            for group, rows in sorted(groups.items())
        ),
    )


def _lengths(compared: Compared) -> str:
    return f"{compared.row.input_tokens}/{compared.row.output_tokens}"


def _three(what: str) -> tuple[str, str, str]:
    return f"{what}: median", "p90", "bias"


def _errors(errors: Errors) -> tuple[str, str, str]:
    return f"{errors.median:.1%}", f"{errors.p90:.1%}", _signed(errors.bias)


def _signed(share: float) -> str:
    return f"{share:+.1%}"


def _table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)
