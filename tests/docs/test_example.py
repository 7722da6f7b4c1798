"""The worked example of docs/cost.md, and the picture of the README, have the figures that the code gives.

After a change of the cost model, this test's failure prints the table to paste.
"""

import re

import numpy as np

from tests.builders import BLOCK_TOKENS, racks, request, scheduler, tokens
from tests.docs.documents import read
from vicinal.domain.decision import TERMS, Decision, PricedPlan
from vicinal.domain.effects import Record
from vicinal.domain.events import BlocksStored, RequestArrived
from vicinal.domain.ids import EndpointId

HELD = 8192
LAYOUT = "| {plan} | {wait} | {compute} | {moved} | {ttft} | {decode} | {others} | {total} |"


def _decide() -> Decision:
    """Two racks; r1-p2 holds a document; two requests about it are under way; a third one arrives."""
    made = scheduler(racks())
    document = tokens(HELD, seed=1)
    names = tuple(range(1, HELD // BLOCK_TOKENS + 1))
    made.handle(BlocksStored(EndpointId("r1-p2"), 0, 0, None, names, document.tobytes(), BLOCK_TOKENS), 0.0)
    for number, more in enumerate((512, 1024, 808)):
        prompt = np.concatenate((document, tokens(more, seed=2 + number)))
        effects = made.handle(RequestArrived(request(f"question-{number}", prompt, output_tokens=200)), 1.0)
    return next(effect.decision for effect in effects if isinstance(effect, Record))


def _line(plan: str, row: PricedPlan) -> str:
    ms = {name: None if value is None else value * 1e3 for name, value in zip(TERMS, row.terms, strict=True)}
    prices = sum(ms[name] or 0.0 for name in ("prefill_price", "decode_price", "link_price"))
    return LAYOUT.format(
        plan=plan,
        wait=f"{ms['wait_prefill']:.0f}",
        compute=f"{ms['compute_prefill']:.0f}",
        moved="–" if ms["transfer_kv"] is None else f"{ms['transfer_kv']:.0f}",
        ttft=f"{ms['ttft']:.0f}",
        decode=f"{ms['tpot_cost']:,.0f}",
        others=f"{prices:.0f}",
        total=f"{row.total * 1e3:,.0f}",
    )


def _racks(row: PricedPlan) -> tuple[str, str]:
    return row.plan.prefill[:2], row.plan.decode[:2]


def test_the_example_is_what_the_code_gives() -> None:
    """Equal endpoints of a rack are drawn by chance, so the names within a rack stand for any of its equals."""
    decision = _decide()
    named = dict(decision.counterfactuals)
    taken, local, near, emptiest = decision.chosen, named["local"], named["best_recompute"], named["emptiest_gpu"]
    assert taken.plan.prefill == "r1-p2"
    assert emptiest.plan.prefill == "r1-p1"
    assert local.plan.local
    assert [_racks(row) for row in (taken, local, near, emptiest)] == [
        ("r1", "r1"),
        ("r2", "r2"),
        ("r2", "r2"),
        ("r1", "r2"),
    ]
    lines = [
        _line("r1-p2 → r1-d1", taken),
        _line("r2-d1 alone", local),
        _line("r2-p1 → r2-d1", near),
        _line("r1-p1 → r2-d1", emptiest),
    ]
    text = read("docs/cost.md")
    shown = text[text.index("<!-- example") :].split("\n\n")[0].splitlines()[3:]
    assert [line.replace("**", "") for line in shown] == lines, "\n".join(["docs/cost.md should have", *lines])


def test_the_picture_has_the_figures_of_the_example() -> None:
    picture = re.sub(r"<[^>]+>", " ", read("docs/pictures/decision.svg"))
    text = read("docs/cost.md")
    lines = text[text.index("<!-- example") :].split("\n\n")[0].splitlines()[3:]
    rows = [[cell.strip("*") for cell in line.strip("| ").split(" | ")] for line in lines]
    assert all(cell in picture for row in rows for cell in row)
    taken, emptiest = rows[0], rows[-1]
    wait, compute, moved, total = (abs(_int(emptiest[at]) - _int(taken[at])) for at in (1, 2, 3, 7))
    assert [f"{row[3]} ms " in picture for row in (taken, emptiest)] == [True, True]
    for words in (f"save {wait} ms of", f"(+{compute} ms)", f"(+{moved} ms)", f"{total} ms more in all"):
        assert words in picture
    assert f"by {total} ms" in read("README.md")


def _int(cell: str) -> int:
    return int(cell.replace(",", ""))
