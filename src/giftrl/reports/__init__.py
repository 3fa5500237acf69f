"""Pages, figures and the report of a run.

A :class:`~giftrl.reports.record.Record` keeps the predictions of a run. A :class:`~giftrl.reports.run_page.Run`
computes their diagnostics, and its page shows them beside certificate, weights and settings. A :class:`Summary` has the
losses of repeated runs, and a :class:`Panel` draws it against beta. A :class:`Page` is one HTML file.

>>> page = Page("A title", "An introduction.")
>>> page.section("Numbers", "<p>1</p>")
>>> page.html().count("<section")
1
"""

from giftrl.reports.charts import AXES, Panel, new_figure, save, side_by_side, style, svg
from giftrl.reports.loss_summary import Range, Summary, describe
from giftrl.reports.page import INK, Page, inline
from giftrl.reports.wording import number

__all__ = [
    "AXES", "INK", "Page", "Panel", "Range", "Summary", "describe", "inline", "new_figure", "number",
    "save", "side_by_side", "style", "svg",
]  # fmt: skip
