"""Golden digests of models, predictions and certificates.

``python -m tests.golden`` compares this checkout with ``tests/data/golden.json`` and prints the losses of the cases
that differ. ``--record`` writes the file anew. Digests depend on the processor's instructions, so cases that differ on
another machine are judged by their losses and bounds, which must agree to nine digits.

The cases: every loss with the default learner, ``light`` and five learners with a fixed beta; estimators with dense and
CSR matrices; files of every format; one and three passes; one and two workers; the log of a service.
"""

import argparse
import hashlib
import json
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from scipy.sparse import csr_array

from giftrl import FTRLClassifier, FTRLRegressor, losses
from giftrl.errors import GiftrlError
from giftrl.training import LinearModel, Settings, Trainer

RECORD = Path(__file__).parent / "data" / "golden.json"
LOG = Path(__file__).parent / "data" / "golden_service.tar.gz"
CLASSIFIERS = ("logistic", "hinge", "squared_hinge", *losses.MULTICLASS)
#: With two workers a first round begins behind 8,192 rows.
FEW_ROWS, MANY_ROWS = 400, 9_600
FEATURES = 7

SETTINGS: dict[str, dict[str, Any]] = {
    "auto": {},
    "light": {"preset": "light"},
    "proximal": {"beta": 1.0},
    "linear adagrad": {"beta": 0.5, "update": "linear", "regularizer": "adagrad", "schedule": "constant"},
    "twostep curvature": {"beta": 2.0, "update": "twostep", "regularizer": "curvature", "schedule": "sqrt"},
    "iwa elastic_net": {"beta": 1.0, "update": "iwa", "regularizer": "elastic_net", "schedule": "adagrad_norm"},
    "proximal centred": {"beta": 1.0, "regularizer": "centred", "schedule": "ada_implicit", "lookahead": False},
}


def rows(count: int) -> tuple[Any, Any]:
    """Rows of features of several scales, a third of them zero, and a score of each."""
    random = np.random.default_rng(7)
    X = random.normal(size=(count, FEATURES)) * 10.0 ** (np.arange(FEATURES) / 2 - 1)
    X[random.random(X.shape) < 0.35] = 0.0
    score = X @ (random.normal(size=FEATURES) / 10.0 ** (np.arange(FEATURES) / 2 - 1)) + 0.5 * random.normal(size=count)
    return X.round(4), score.round(4)


def labels_of(loss: str, score: Any) -> Any:
    """Labels that a loss takes."""
    if loss in losses.MULTICLASS:
        return np.digitize(score, [-1.0, 1.0])
    if loss in CLASSIFIERS:
        return np.where(score > 0.0, 1, -1)
    return np.abs(score).round() if loss == "poisson" else score


def digest(*parts: Any) -> str:
    """Of bytes, text or arrays."""
    made = hashlib.sha256()
    for part in parts:
        made.update(
            part
            if isinstance(part, bytes)
            else str(part).encode()
            if isinstance(part, str)
            else np.ascontiguousarray(part).tobytes()
        )
    return made.hexdigest()[:16]


def bounds(certificate: Any) -> list[float]:
    """The regret bound of a certificate, and its lower bound on losses in a ball if it knows one."""
    best = certificate.best_loss(1.0) if hasattr(certificate, "best_loss") else None
    bound = certificate.regret_bound_ball(radius=1.0)
    return [certificate.loss_sum, bound, *([] if best is None else [float(best.lower_bound)])]


def write_rows(path: Path, X: Any, y: Any) -> Path:
    """Rows in the format of LIBSVM."""
    with path.open("w", encoding="utf-8") as file:
        for s, label in zip(X, y, strict=True):
            file.write(f"{label} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(s.tolist()) if v) + "\n")
    return path


def of_file(path: Path, loss: str, setting: dict[str, Any], passes: int = 1, workers: int = 1) -> dict[str, Any]:
    """Train from a file: the model, its predictions in the course of learning, what it proves."""
    given = {"label_values": (0.0, 1.0, 2.0)} if loss in losses.MULTICLASS else {}
    model = LinearModel(Settings(loss=loss, **setting, **given))
    predictions = path.with_name("p.txt")
    Trainer(model, path, passes=passes, workers=workers, predictions=predictions).run()
    model.save(path.with_name("m.giftrl"))
    written = path.with_name("m.giftrl").read_bytes(), predictions.read_bytes()
    predictions.unlink()
    return {
        "model": digest(written[0]),
        "predictions": digest(written[1]),
        "loss": model.average_loss,
        "bounds": bounds(model.certificate),
    }


def of_fit(X: Any, loss: str, setting: dict[str, Any], score: Any, passes: int = 1) -> dict[str, Any]:
    """Fit an estimator: its weights, its predictions, what it proves."""
    kind: Any = FTRLClassifier if loss in CLASSIFIERS else FTRLRegressor
    model = kind(loss=loss, **setting, passes=passes, random_state=0).fit(X, labels_of(loss, score))
    said = model.decision_function(X) if kind is FTRLClassifier else model.predict(X)
    return {
        "model": digest(model.coef_, np.atleast_1d(model.intercept_)), "predictions": digest(said),
        "loss": float(model.average_loss_), "bounds": bounds(model.certificate_),
    }  # fmt: skip


def formats(folder: Path) -> Iterator[Path]:
    """The same rows in every format."""
    import pyarrow as pa
    from pyarrow import feather, parquet

    X, score = rows(FEW_ROWS)
    y = labels_of("logistic", score)
    named = [
        {"label": int(label), **{f"x{j}": v for j, v in enumerate(s)}} for s, label in zip(X.tolist(), y, strict=True)
    ]
    for k, row in enumerate(named):
        row |= {"colour": ("blue", "green", "red", "")[k % 4], "day": f"2024-0{1 + k % 9}-{10 + k % 19}"}
    yield write_rows(folder / "a.svm", X, y)
    lines = [
        f"{r['label']} |a " + " ".join(f"x{j}:{r[f'x{j}']}" for j in range(FEATURES)) + f" |b {r['colour']}"
        for r in named
    ]
    (folder / "a.vw").write_text("\n".join(lines) + "\n", encoding="utf-8")
    yield folder / "a.vw"
    (folder / "a.csv").write_text(
        "\n".join([",".join(named[0]), *(",".join(map(str, r.values())) for r in named)]) + "\n", encoding="utf-8"
    )
    yield folder / "a.csv"
    (folder / "a.jsonl").write_text("".join(json.dumps(r) + "\n" for r in named), encoding="utf-8")
    yield folder / "a.jsonl"
    table = pa.table({key: [r[key] for r in named] for key in named[0]})
    parquet.write_table(table, folder / "a.parquet")
    yield folder / "a.parquet"
    feather.write_feather(table, folder / "a.arrow", compression="uncompressed")
    yield folder / "a.arrow"
    np.savez(folder / "a.npz", X=X, y=y)
    yield folder / "a.npz"


def of_log() -> dict[str, Any]:
    """Start the service on a recorded folder, whose model it replays from its log."""
    from tests.serving import process

    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(LOG) as packed:
            packed.extractall(folder, filter="data")
        with process(folder) as (_, address):
            content = httpx.get(f"{address}/models/m/file", timeout=60.0).raise_for_status().content
        path = Path(folder, "m.giftrl")
        path.write_bytes(content)
        model = LinearModel.load(path)[0]
        return {"model": digest(content), "loss": model.average_loss, "bounds": bounds(model.certificate)}


def record_log() -> None:
    """Write down a service's folder whose log holds rows that no model file holds."""
    from tests.serving import process

    random = np.random.default_rng(3)
    with tempfile.TemporaryDirectory() as folder:
        with process(folder) as (running, address), httpx.Client(base_url=address, timeout=60.0) as client:
            client.put("/models/m", json={"loss": "logistic", "labels": [0, 1]}).raise_for_status()
            for _ in range(12):
                x = random.normal(size=(25, 3)).round(3)
                lines = [
                    {"label": int(s[0] + s[1] > 0), "a": s[0], "b": s[1], "c": s[2], "city": ("Rome", "Oslo")[k % 2]}
                    for k, s in enumerate(x.tolist())
                ]
                body = "".join(json.dumps(line) + "\n" for line in lines)
                headers = {"Content-Type": "application/x-ndjson"}
                client.post("/models/m/learn", content=body, headers=headers).raise_for_status()
            running.kill()
            running.wait()
        with tarfile.open(LOG, "w:gz") as packed:
            for path in sorted(Path(folder).rglob("*")):
                if path.is_file() and path.name != "lock":
                    packed.add(path, path.relative_to(folder))


def cases(wanted: tuple[str, ...] = ()) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Names of all cases, and how each is run."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        few, many = rows(FEW_ROWS), rows(MANY_ROWS)
        for loss in wanted or losses.EVERY:
            short = write_rows(folder / "few.svm", few[0], labels_of(loss, few[1]))
            long = write_rows(folder / "many.svm", many[0], labels_of(loss, many[1]))
            for name, setting in SETTINGS.items():
                if loss in losses.MULTICLASS and setting.get("regularizer") == "centred":
                    continue
                for passes in (1, 3):
                    for kind, X in (("dense", few[0]), ("csr", csr_array(few[0]))):
                        yield (
                            f"{loss}/{name}/{kind}/{passes}",
                            lambda X=X, loss=loss, setting=setting, passes=passes: of_fit(
                                X, loss, setting, few[1], passes
                            ),
                        )
                    for workers, path in ((1, short), (2, long)):
                        if workers == 1 or "beta" not in setting:
                            yield (
                                f"{loss}/{name}/file/{passes}/{workers}",
                                lambda path=path, loss=loss, setting=setting, passes=passes, workers=workers: of_file(
                                    path, loss, setting, passes, workers
                                ),
                            )
        if not wanted:
            for path in formats(folder):
                yield f"format/{path.suffix[1:]}", lambda path=path: of_file(path, "logistic", {})
            if LOG.exists():
                yield "service", of_log


def measure(run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return run()
    except GiftrlError as error:
        return {"refused": type(error).__name__}


def close(a: list[float], b: list[float]) -> bool:
    """Equality to nine digits; a lower bound, which comes last and from a solver, may differ in the sixth."""
    if len(a) != len(b):
        return False
    tolerance = np.full(len(a), 1e-9)
    tolerance[3:] = 1e-5
    return bool(np.all((np.abs(np.subtract(a, b)) <= tolerance * np.abs(b) + 1e-12) | np.equal(a, b)))


def write(path: Path, found: dict[str, dict[str, Any]]) -> None:
    """Write cases as JSON, a line for each."""
    lines = [f"{json.dumps(name)}: {json.dumps(case, sort_keys=True)}" for name, case in sorted(found.items())]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def compare(found: dict[str, dict[str, Any]], golden: dict[str, dict[str, Any]]) -> tuple[list[str], list[str]]:
    """The cases whose digests differ, and those whose losses or bounds do."""
    bits, numbers = [], []
    for name, now in found.items():
        then = golden.get(name, {})
        if any(now.get(key) != then.get(key) for key in ("model", "predictions", "refused")):
            bits.append(name)
        if not close([now.get("loss", 0.0), *now.get("bounds", [])], [then.get("loss", 0.0), *then.get("bounds", [])]):
            numbers.append(name)
    return bits, numbers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("losses", nargs="*", help="only these losses, and no formats")
    parser.add_argument("--record", action="store_true", help="write the digests down instead of comparing")
    parser.add_argument("--record-log", action="store_true", help="make the service's log anew first")
    parser.add_argument("--to", type=Path, default=RECORD)
    options = parser.parse_args()
    if options.record_log:
        record_log()
    found = {}
    for name, run in cases(tuple(options.losses)):
        found[name] = measure(run)
        if sys.stderr.isatty():
            print(name, end="\x1b[K\r", file=sys.stderr)
    if options.record:
        before = json.loads(options.to.read_text(encoding="utf-8")) if options.to.exists() and options.losses else {}
        write(options.to, before | found)
        print(f"{len(found)} cases recorded")
        return 0
    golden = json.loads(options.to.read_text(encoding="utf-8"))
    bits, numbers = compare(found, golden)
    for name in sorted({*bits, *numbers}):
        then, now = golden.get(name, {}), found[name]
        what = [key for key in ("model", "predictions", "refused", "loss", "bounds") if now.get(key) != then.get(key)]
        losses_said = f"loss {then.get('loss', 'none')} -> {now.get('loss', 'none')}"
        print(f"{name}: {', '.join(what)}: {losses_said}, bounds {then.get('bounds')} -> {now.get('bounds')}")
    print(f"{len(found)} cases: {len(bits)} with other bits, {len(numbers)} with other numbers")
    return bool(bits or numbers)


if __name__ == "__main__":
    sys.exit(main())
