"""A report as a section of docs/results.md."""

from vicinal.scenarios.report import Report

_SHOWN = {
    "vs_cost": ("vs cost", 100.0, "+.1f", " %"),
    "services": ("services", 1.0, ".2f", ""),
    "paper_ttft_s": ("paper TTFT s", 1.0, ".2f", ""),
    "others_p99_s": ("others' TTFT p99 s", 1.0, ".3f", ""),
    "others_p99_half_width_s": ("±", 1.0, ".3f", ""),
    "others_served": ("others served", 100.0, ".1f", " %"),
    "service_gap": ("service difference, tokens", 1.0, ",.0f", ""),
    "service_bound": ("bound, tokens", 1.0, ",.0f", ""),
    "given_gap": ("difference as given, tokens", 1.0, ",.0f", ""),
    "difference_mean": ("behind, mean tokens/s", 1.0, ".0f", ""),
    "difference_max": ("behind, most tokens/s", 1.0, ".0f", ""),
    "tokens_per_s": ("tokens/s", 1.0, ",.0f", ""),
    "answered_per_s": ("answered/s", 1.0, ".2f", ""),
    "batch_served": ("batch served", 100.0, ".1f", " %"),
    "batch_wait_p99_s": ("batch wait p99 s", 1.0, ".1f", ""),
    "interactive_answered": ("interactive answered", 1.0, ",.0f", ""),
    "interactive_p99_s": ("interactive TTFT p99 s", 1.0, ".2f", ""),
    "goodput_kept": ("goodput kept", 100.0, ".1f", " %"),
    "goodput_kept_half_width": ("±", 100.0, ".1f", " %"),
    "recovered_s": ("recovered after s", 1.0, ".0f", ""),
    "held_most": ("most held", 1, ",.0f", ""),
    "kept_most": ("most known", 1, ",.0f", ""),
    "requests_per_errand": ("requests per errand", 1.0, ".2f", ""),
    "given_up": ("given up", 1.0, ",.0f", ""),
    "short_p99_s": ("short TTFT p99 s", 1.0, ".3f", ""),
    "short_p99_half_width_s": ("±", 1.0, ".3f", ""),
    "long_p99_s": ("long TTFT p99 s", 1.0, ".2f", ""),
    "prefill_swing": ("prefill swing", 1.0, ".2f", ""),
    "decode_swing": ("decode swing", 1.0, ".2f", ""),
    "phase": ("P-D correlation", 1.0, ".2f", ""),
    "clock_debt": ("clock debt", 100.0, ".1f", " %"),
    "ttft_mean_s": ("TTFT mean s", 1.0, ".3f", ""),
    "ttft_half_width_s": ("±", 1.0, ".3f", ""),
    "ttft_p99_s": ("TTFT p99 s", 1.0, ".2f", ""),
    "tpot_p99_s": ("TPOT p99 ms", 1e3, ".1f", ""),
    "attainment": ("met", 100.0, ".1f", " %"),
    "prefix_hit_rate": ("hits", 100.0, ".1f", " %"),
    "far_gbytes": ("far GB", 1.0, ",.0f", ""),
}
"""Figure -> heading, factor, format, unit."""


def markdown(report: Report) -> str:
    """Verdicts first, then the figures of every arm. An arm whose runs were ended as unstable has no TTFT."""
    seeds = "1 seed" if report.seeds == 1 else f"{report.seeds} seeds"
    lines = [f"## {report.name}", "", f"{report.about[0].upper()}{report.about[1:]}; {seeds}.", ""]
    lines += ["| Claim | Value | Limit | Holds |", "|---|---|---|---|"]
    lines += [
        f"| {verdict.claim} | {verdict.value:.3g} | {verdict.limit} | {'yes' if verdict.holds else '**no**'} |"
        for verdict in report.verdicts
    ]
    for note in report.notes:
        lines += ["", note]
    shown = [name for name in _SHOWN if any(name in figures for figures in report.arms.values())]
    lines += ["", f"| Arm | {' | '.join(_SHOWN[name][0] for name in shown)} |", f"|---|{'---|' * len(shown)}"]
    for arm, figures in report.arms.items():
        lines.append(f"| {arm} | {' | '.join(_cell(name, figures.get(name)) for name in shown)} |")
    return "\n".join(lines) + "\n"


def _cell(name: str, value: float | int | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or "–"
    _, factor, form, unit = _SHOWN[name]
    return f"{value * factor:{form}}{unit}"
