"""Run the rivals on every case, loss and setting that is not in the record yet."""

from collections.abc import Callable, Sequence

from benchmarks.quality.contract import Rival
from benchmarks.quality.data import LOSSES, SEEDS, Source, Task, cases
from benchmarks.quality.loss import progressive_loss
from benchmarks.quality.record import Record, Run, versions

__all__ = ["measure"]


def measure(
    record: Record,
    sources: Sequence[Source],
    rivals: Sequence[Rival],
    say: Callable[[str], None],
    seeds: int = len(SEEDS),
    again: bool = False,
) -> None:
    """Run what is missing in the record. With ``again``, first remove the runs of these rivals on these data sets."""
    if again:
        names = {source.name for source in sources}
        keys = {rival.key for rival in rivals}
        record.forget(run for run in record.runs if run.task.dataset in names and run.solver in keys)
        for rival in rivals:
            if not any(run.solver == rival.key for run in record.runs):
                record.versions.pop(rival.package, None)
    record.begin(versions(rival.package for rival in rivals))
    for source in sources:
        for case in cases(source, seeds=seeds):
            for rival in rivals:
                if not rival.covers(case):
                    continue
                wanted = [
                    Run(Task(source.name, loss, case.scaling), case.order, rival.key, setting)
                    for loss in LOSSES[source.kind]
                    for setting in rival.settings(loss)
                ]
                wanted = [run for run in wanted if run not in record.runs]
                if not wanted:
                    continue
                say(f"{rival.name}: {source.name} {case.scaling}, order {case.order}")
                with rival.prepared(case) as predict:
                    for run in wanted:
                        predictions = predict(run.task.loss, run.setting)
                        record.add(run, progressive_loss(predictions, case.y, run.task.loss))
