"""Statistics of models and requests: for the page, for ``GET /models/NAME`` and for Prometheus."""

import tempfile
import time
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from giftrl.config.recipe import Mixture
from giftrl.service.bodies import Answer, describe_rejected
from giftrl.training.model import LinearModel, best_losses, summary_of

if TYPE_CHECKING:
    from giftrl.service.folder import Folder
    from giftrl.service.writer import Writer

#: The maximum number of points of a learning curve; then every other point is dropped.
MAX_CURVE_POINTS = 400
#: Stored rejected rows, and stored durations of requests.
MAX_REJECTED, MAX_DURATIONS = 20, 1_000
#: The maximum search time for a certificate in a request, in seconds.
MAX_CERTIFY_SECONDS = 10.0
#: Upper ends of the bins of the histogram, in seconds.
BIN_ENDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class ModelStats:
    """Counts and recent events of one model, updated by its writer and read by anyone."""

    def __init__(self) -> None:
        self.rows = self.commits = 0
        self.syncs = self.learning = 0.0  # seconds
        self.curve: list[tuple[int, float]] = []  # examples, and the average loss of all so far
        self.rejected: deque[dict[str, Any]] = deque(maxlen=MAX_REJECTED)
        # Seconds of the last requests, by endpoint.
        self.durations: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=MAX_DURATIONS))

    def learned(self, answers: list[Answer]) -> None:
        """Count learned rows."""
        for answer in answers:
            self.rows += len(answer.predictions) - len(answer.rejected)
            if answer.rejected:
                self.reject(describe_rejected(answer.rejected))

    def reject(self, rows: list[dict[str, Any]]) -> None:
        """Count rejected rows."""
        self.rejected.extend({"time": time.time(), **row} for row in rows)

    def committed(self, model: LinearModel | None, learning: float, sync: float) -> None:
        """Count a commit, with the seconds of learning and of the sync."""
        self.commits += 1
        self.learning += learning
        self.syncs += sync
        if model is not None and (not self.curve or model.examples > self.curve[-1][0]):
            self.curve.append((model.examples, model.average_loss))
            if len(self.curve) > MAX_CURVE_POINTS:
                self.curve = self.curve[1::2]

    def resume(self, curve: str | None, examples: int) -> None:
        """Resume a stored learning curve, up to the examples that the model has."""
        self.curve = [(int(count), float(loss)) for count, loss in orjson.loads(curve or "[]") if count <= examples]

    def latencies(self) -> dict[str, dict[str, float]]:
        """The median and the 99th percentile of the last requests, in seconds, by endpoint."""
        ordered = {endpoint: sorted(times) for endpoint, times in list(self.durations.items())}
        return {
            endpoint: {"count": len(times), "p50": times[len(times) // 2], "p99": times[len(times) * 99 // 100]}
            for endpoint, times in ordered.items()
            if times
        }


#: Metrics of each open model, with their kinds, help texts and values; None if a model has no value yet.
MODEL_METRICS: dict[str, tuple[str, str, Callable[["Writer"], float | None]]] = {
    "giftrl_examples": ("gauge", "Examples that a model has learned.", lambda writer: writer.model.examples),
    "giftrl_average_loss": (
        "gauge", "Mean loss of predictions made before each label was used.",
        lambda writer: None if writer.model.linear is None else writer.model.linear.average_loss,
    ),
    "giftrl_queue": ("gauge", "Requests that wait for the writer of a model.", lambda writer: writer.waiting),
    "giftrl_rows_total": ("counter", "Rows learned since the model was opened.", lambda writer: writer.stats.rows),
    "giftrl_commits_total": (
        "counter", "Commits since the model was opened; requests may share one.", lambda writer: writer.stats.commits
    ),
    "giftrl_learning_seconds_total": ("counter", "Seconds spent learning.", lambda writer: writer.stats.learning),
    "giftrl_commit_seconds_total": (
        "counter", "Seconds spent waiting for the disk.", lambda writer: writer.stats.syncs
    ),
    "giftrl_memory_bytes": ("gauge", "Approximate memory of a model.", lambda writer: writer.model.nbytes),
}  # fmt: skip


class RequestStats:
    """Counts and durations of requests."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, int]] = Counter()
        self._bins: dict[str, list[int]] = defaultdict(lambda: [0] * (len(BIN_ENDS) + 1))
        self._sums: dict[str, float] = defaultdict(float)

    def add(self, endpoint: str, status: int, seconds: float) -> None:
        """Add a request that was answered."""
        self._counts[endpoint, status] += 1
        self._bins[endpoint][bisect_left(BIN_ENDS, seconds)] += 1
        self._sums[endpoint] += seconds

    def samples(self) -> tuple[list[str], list[str]]:
        """The lines of both metrics about requests."""
        counts = [
            f'giftrl_requests_total{{endpoint="{endpoint}",status="{status}"}} {count}'
            for (endpoint, status), count in sorted(self._counts.items())
        ]
        name, seconds = "giftrl_request_seconds", []
        for endpoint, bins in sorted(self._bins.items()):
            for end, total in zip([*map(str, BIN_ENDS), "+Inf"], accumulate(bins), strict=True):
                seconds.append(f'{name}_bucket{{endpoint="{endpoint}",le="{end}"}} {total}')
            seconds.append(f'{name}_sum{{endpoint="{endpoint}"}} {self._sums[endpoint]:.6f}')
            seconds.append(f'{name}_count{{endpoint="{endpoint}"}} {total}')
        return counts, seconds


def prometheus(folder: "Folder", requests: RequestStats) -> str:
    """All metrics of a service, in the text format of Prometheus."""
    text: list[str] = []

    def add(name: str, kind: str, words: str, lines: list[str]) -> None:
        if lines:
            text.extend([f"# HELP {name} {words}", f"# TYPE {name} {kind}", *lines])

    def add_each(name: str, kind: str, words: str, values: Mapping[str, float]) -> None:
        add(name, kind, words, [f'{name}{{model="{model}"}} {value:.9g}' for model, value in sorted(values.items())])

    counts, seconds = requests.samples()
    writers, followed = dict(folder.writers), dict(folder.followed)
    add("giftrl_requests_total", "counter", "Requests by endpoint and status.", counts)
    add("giftrl_request_seconds", "histogram", "Seconds from the head of a request to the end of its answer.", seconds)
    add("giftrl_models_open", "gauge", "Models in memory.", [f"giftrl_models_open {len(writers)}"])
    for name, (kind, words, value) in MODEL_METRICS.items():
        values = {model: value(writer) for model, writer in writers.items()}
        add_each(name, kind, words, {model: number for model, number in values.items() if number is not None})
    errors = {model: each.errors for model, each in followed.items()}
    add_each("giftrl_follow_errors_total", "counter", "Failures of learning from a followed source.", errors)
    failing = {model: each.problem is not None for model, each in followed.items()}
    add_each("giftrl_follow_failing", "gauge", "1 while learning from a followed source fails.", failing)
    return "\n".join(text) + "\n"


def brief(writer: "Writer") -> dict[str, Any]:
    """Counts, loss and base learners of a model, sent to the page every second."""
    model, stats, linear = writer.model, writer.stats, writer.model.linear
    parts: dict[str, Any] = {
        "examples": model.examples,
        "waiting": model.waiting,
        "queue": writer.waiting,
        "rows": stats.rows,
        "time": time.time(),
        "loss": None,
        "average_loss": None,
        "labels": None,
        "experts": [],
        "curve": list(stats.curve),
        "rejected": list(stats.rejected),
        "left_out": model.left_out,
        "latencies": stats.latencies(),
    }
    if linear is None:
        return parts
    with model.lock:
        parts["average_loss"] = linear.average_loss
        if isinstance(linear.learner, Mixture):
            weight = linear.weight if linear.weight > 0.0 else 1.0
            parts["experts"] = [
                {"name": name, "share": share, "average_loss": total / weight}
                for name, share, total in linear.learner.experts
            ]
    return parts | {"loss": linear.settings.loss, "labels": list(linear.settings.class_names) or None}


def details(writer: "Writer", seconds: float = 0.0) -> dict[str, Any]:
    """All of :func:`brief`, with the settings, certificate and columns of ``giftrl train --summary``.

    With some seconds to search for a better lower bound on the loss of other models, in a copy of the model.
    """
    parts, model = brief(writer), writer.model
    parts |= {"settings": model.requested.given, "young": model.is_provisional}
    if model.linear is None:
        return parts
    if seconds <= 0.0:
        with model.lock:
            summary = summary_of(model.linear)
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "copy.giftrl")
            writer.save(path).answer.result()
            copy, _ = LinearModel.load(path)
        summary = summary_of(copy, best=best_losses(copy.certificate, min(seconds, MAX_CERTIFY_SECONDS)))
    # The summary has other values under "rejected" and "settings".
    return parts | summary | {"chosen": summary["settings"]} | {name: parts[name] for name in ("rejected", "settings")}
