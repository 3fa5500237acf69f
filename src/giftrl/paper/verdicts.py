"""The page of the verdicts on the paper's claims: what is asked, in which readings, and what the answers are."""

from pathlib import Path

from giftrl.paper import tables
from giftrl.paper.claims import ALMOST
from giftrl.paper.reproduce import Reproduction
from giftrl.paper.settings import READINGS
from giftrl.reports import page as html

FILE = "claims.html"


def write_verdicts(result: Reproduction, folder: Path) -> Path:
    """Write the page into a folder, and return its path."""
    page = html.Page(
        "The paper's claims, measured",
        "The paper Generalized Implicit Follow-The-Regularized-Leader (Chen and Orabona, ICML 2023) says what its "
        "figures show. Here each of these claims is measured on the figures as they were run again.",
        "Made by giftrl.",
    )
    page.section(
        "How the paper is read",
        html.paragraph(
            "The paper leaves some settings of its experiments open, and its figures cannot be had with all of them as "
            "printed. So every claim is measured three times, with three readings of the paper:"
        ),
        html.definitions([(name, reading.text) for name, reading in READINGS.items()]),
        html.paragraph(
            "A floor is a lower bound on the strength of the regularizer in the first round. It keeps the first steps "
            "short, however large beta is. Linear, truncated, two-step and proximal are the rules that the paper "
            "compares; beta acts as the learning rate."
        ),
    )
    page.section(
        "What a verdict means",
        html.definitions(
            [
                ("holds", "true in every panel of the figures, or at nearly every beta, as the claim says"),
                ("mostly", f"true in at least {ALMOST:.0%} of what was counted"),
                ("partly", "true in some of what was counted"),
                (
                    "fails",
                    "false on these data; it is a statement about the paper's rules, not about giftrl with nothing set",
                ),
            ]
        ),
    )
    other = (
        "These are not the paper's data sets: a claim that fails here may hold on the paper's data. For those, run "
        "giftrl datasets get all --to data, and then giftrl reproduce --data data."
    )
    page.section(
        "Claims and verdicts",
        *([] if result.distances else [html.paragraph(other)]),
        html.table("Each claim in each reading", *tables.claims(result), text=(1, 3), verdict=2, stacked=True),
    )
    page.section(
        "The same floor for every rule",
        html.paragraph(
            "The published two-step curves need lambda_1 >= 1, where 1 is the largest squared norm of a row. With the "
            "same floor every rule has a flat curve: the flatness comes from the floor, not from the rule."
        ),
        html.table("Loss without and with the floor", *tables.fair(result)),
    )
    path = folder / FILE
    page.save(path)
    return path
