"""Metrics in the text format of Prometheus."""

from bisect import bisect_left
from collections import Counter

from giftrl.service.folder import Folder, size_of

#: The upper ends of the bins of the histogram, in seconds.
BINS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
HELP = {
    "giftrl_requests_total": ("counter", "Requests by what they asked for and the status of the answer."),
    "giftrl_request_seconds": ("histogram", "Seconds from the head of a request to the end of its answer."),
    "giftrl_models_open": ("gauge", "Models in memory."),
    "giftrl_examples": ("gauge", "Examples that a model has learnt."),
    "giftrl_average_loss": ("gauge", "The mean loss of predictions made before each label was used."),
    "giftrl_queue": ("gauge", "Requests that wait for the writer of a model."),
    "giftrl_rows_total": ("counter", "Rows learnt since the model was opened."),
    "giftrl_commits_total": ("counter", "Commits since the model was opened; requests may share one."),
    "giftrl_learning_seconds_total": ("counter", "Seconds spent learning."),
    "giftrl_commit_seconds_total": ("counter", "Seconds spent waiting for the disk."),
    "giftrl_follow_errors_total": ("counter", "How often learning from a followed source failed and was tried again."),
    "giftrl_follow_failing": ("gauge", "Whether learning from a followed source fails now."),
    "giftrl_memory_bytes": ("gauge", "About how much memory a model takes."),
}


class Requests:
    """Counts and times of requests.

    >>> requests = Requests()
    >>> requests.add("predict", 200, 0.004)
    >>> requests.lines()[0]
    'giftrl_requests_total{endpoint="predict",status="200"} 1'
    """

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, int]] = Counter()
        self._bins: dict[str, list[int]] = {}
        self._sums: Counter[str] = Counter()

    def add(self, endpoint: str, status: int, seconds: float) -> None:
        """Note a request that was answered."""
        self._counts[endpoint, status] += 1
        bins = self._bins.get(endpoint)
        if bins is None:
            bins = self._bins[endpoint] = [0] * (len(BINS) + 1)
        bins[bisect_left(BINS, seconds)] += 1
        self._sums[endpoint] += seconds  # type: ignore[assignment]

    def lines(self) -> list[str]:
        """The counts and histograms."""
        lines = [
            f'giftrl_requests_total{{endpoint="{endpoint}",status="{status}"}} {count}'
            for (endpoint, status), count in sorted(self._counts.items())
        ]
        for endpoint, bins in sorted(self._bins.items()):
            total = 0
            for end, count in zip([*map(str, BINS), "+Inf"], bins, strict=True):
                total += count
                lines.append(f'giftrl_request_seconds_bucket{{endpoint="{endpoint}",le="{end}"}} {total}')
            lines.append(f'giftrl_request_seconds_sum{{endpoint="{endpoint}"}} {self._sums[endpoint]:.6f}')
            lines.append(f'giftrl_request_seconds_count{{endpoint="{endpoint}"}} {total}')
        return lines


def metrics(folder: Folder, requests: Requests) -> str:
    """All metrics of a service."""
    writers = dict(folder.writers)
    lines = [*requests.lines(), f"giftrl_models_open {len(writers)}"]
    for name, writer in sorted(writers.items()):
        live, watch = writer.live, writer.watch
        values: dict[str, float] = {
            "examples": live.examples,
            "queue": writer.waiting,
            "rows_total": watch.rows,
            "commits_total": watch.commits,
            "learning_seconds_total": watch.learning,
            "commit_seconds_total": watch.syncs,
            "memory_bytes": size_of(live),
        }
        if live.core is not None:
            values["average_loss"] = live.core.model.average_loss
        lines += [f'giftrl_{key}{{model="{name}"}} {value:.9g}' for key, value in values.items()]
    for name, followed in sorted(folder.followed.items()):
        lines.append(f'giftrl_follow_errors_total{{model="{name}"}} {followed.errors}')
        lines.append(f'giftrl_follow_failing{{model="{name}"}} {int(followed.problem is not None)}')
    text = []
    for name, (kind, words) in HELP.items():
        mine = [line for line in lines if line.startswith((f"{name}{{", f"{name} ", f"{name}_bucket", f"{name}_sum",
                                                             f"{name}_count"))]  # fmt: skip
        if mine:
            text += [f"# HELP {name} {words}", f"# TYPE {name} {kind}", *mine]
    return "\n".join(text) + "\n"
