"""Several data-parallel engines behind one address share one metrics page, with a label for each.

vicinal takes each of them for an endpoint of its own, because a prefix that one holds is no hit on another. So each
reads the series of its own rank, and those that no rank can claim.
"""

import re


def of_rank(page: str, label: str, rank: int) -> str:
    """The lines of a page in Prometheus text format whose `label` is `rank`, and those without that label."""
    other = re.compile(rf'[{{,]{label}="(?!{rank}")')
    return "\n".join(line for line in page.split("\n") if not other.search(line.partition("} ")[0]))
