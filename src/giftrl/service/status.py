"""What there is to know about a model."""

import tempfile
import time
from pathlib import Path
from typing import Any

from giftrl.config.recipe import Mixture
from giftrl.service.watch import Watch
from giftrl.service.writer import SAVE, Job, Writer
from giftrl.training.model import LinearModel
from giftrl.training.summary import best_losses, summary_of

#: The most seconds that a request may have a certificate looked for.
LONGEST = 10.0


def brief(writer: Writer) -> dict[str, Any]:
    """Counts, the loss and the experts of a model; takes a moment, and is what the page is sent every second."""
    live, watch = writer.live, writer.watch
    said: dict[str, Any] = {
        "examples": live.examples,
        "waiting": live.waiting,
        "queue": writer.waiting,
        "rows": watch.rows,
        "time": time.time(),
        "loss": None,
        "average_loss": None,
        "labels": None,
        "experts": [],
        "curve": list(watch.curve),
        "rejected": list(watch.rejected),
        "left_out": live.left_out,
        "latencies": latencies(watch),
    }
    if live.core is None:
        return said
    model = live.core.model
    with live.core.lock:
        said["average_loss"] = model.average_loss
        if isinstance(model.learner, Mixture):
            weight = model.weight if model.weight > 0.0 else 1.0
            said["experts"] = [
                {"name": name, "share": share, "average_loss": total / weight}
                for name, share, total in model.learner.experts
            ]
    return said | {"loss": model.settings.loss, "labels": list(model.settings.class_names) or None}


def latencies(watch: Watch) -> dict[str, dict[str, float]]:
    """The median and the slowest hundredth of the last requests, in seconds, by what they asked for."""
    said = {}
    for what, times in watch.latencies.items():
        ordered = sorted(times)
        if ordered:
            said[what] = {
                "count": len(ordered), "p50": ordered[len(ordered) // 2], "p99": ordered[len(ordered) * 99 // 100]
            }  # fmt: skip
    return said


def whole(writer: Writer, seconds: float = 0.0) -> dict[str, Any]:
    """All of :func:`brief`, and what ``giftrl train --summary`` says: settings, certificate, columns.

    Args:
        writer: of the model.
        seconds: how long to look for a bound on the loss of other models; it is looked for in a copy of the model.
    """
    said: dict[str, Any] = brief(writer) | {"settings": writer.live.wanted.given, "young": writer.live.young}
    core = writer.live.core
    if core is None:
        return said
    if seconds <= 0.0:
        with core.lock:
            summary = summary_of(core.model)
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "copy.giftrl")
            writer.submit(Job(SAVE, path=path)).answer.result()
            model, _ = LinearModel.load(path)
        summary = summary_of(model, best=best_losses(model.certificate, min(seconds, LONGEST)))
    # Of names that both have, "rejected" and "settings", what is said here is meant.
    return said | summary | {"chosen": summary["settings"]} | {name: said[name] for name in ("rejected", "settings")}
