"""The same rows in every format and compression that there is, and an example of every command."""

import bz2
import gzip
import json
import lzma

import numpy as np

from giftrl.cli.commands import COMMANDS
from giftrl.streams.source import CODECS, FORMATS, zstd

N, D = 40, 5


def table():
    """Labels -1 and +1, and numbers."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, D)).round(3)
    return np.where(x @ np.arange(1.0, D + 1) > 0.0, 1, -1), x


def libsvm(path, bad=b""):
    y, x = table()
    lines = [f"{label} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(row)) for label, row in zip(y, x, strict=True)]
    path.write_bytes("\n".join(lines).encode() + b"\n" + bad)


def vw(path):
    y, x = table()
    lines = [f"{label} |a " + " ".join(f"f{j}:{v}" for j, v in enumerate(row)) for label, row in zip(y, x, strict=True)]
    path.write_text("\n".join(lines) + "\n")


def csv(path):
    y, x = table()
    lines = [",".join(map(str, (label, *row))) for label, row in zip(y, x, strict=True)]
    path.write_text("\n".join([",".join(["label", *"abcde"]), *lines]) + "\n")


def json_lines(path):
    y, x = table()
    lines = [json.dumps({"label": int(a)} | dict(zip("abcde", row, strict=True))) for a, row in zip(y, x, strict=True)]
    path.write_text("\n".join(lines) + "\n")


def _arrow():
    import pyarrow as pa

    y, x = table()
    return pa.table({"label": y.astype(float)} | {name: x[:, j] for j, name in enumerate("abcde")})


def parquet(path):
    from pyarrow.parquet import write_table

    write_table(_arrow(), path, row_group_size=16)


def arrow(path):
    import pyarrow as pa

    whole = _arrow()
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, whole.schema) as writer:
        writer.write_table(whole, max_chunksize=16)


def npz(path):
    y, x = table()
    np.savez(path, X=x, y=y.astype(float))


WRITERS = {
    "libsvm": libsvm, "vw": vw, "csv": csv, "json": json_lines, "parquet": parquet, "arrow": arrow, "npz": npz,
}  # fmt: skip
#: Outputs that say how long something took, or when.
TIMED = ("s", "page.html", "plot.svg")
#: The ending and the function of each compression.
PACKERS = {
    "gzip": (".gz", gzip.compress), "zstd": (".zst", zstd.compress), "xz": (".xz", lzma.compress),
    "bz2": (".bz2", bz2.compress),
}  # fmt: skip


def write_all(folder):
    """A file of each format, and a compressed one for each compression; their names."""
    missing = set(FORMATS) - set(WRITERS)
    assert not missing, f"the campaign needs a file of each format; write one of {missing} in tests/campaign/data.py"
    names = []
    for format_, write in WRITERS.items():
        names.append(f"rows{FORMATS[format_][0]}")
        write(folder / names[-1])
    missing = {codec.name for codec in CODECS} - set(PACKERS)
    assert not missing, (
        f"the campaign needs a file of each compression; write one of {missing} in tests/campaign/data.py"
    )
    for ending, pack in PACKERS.values():
        names.append(f"rows.svm{ending}")
        (folder / names[-1]).write_bytes(pack((folder / "rows.svm").read_bytes()))
    return names


QUICK = ("--beta", "1", "--bits", "5", "--quiet")
#: For each command: its arguments, and what it writes. "m" is a model.
EXAMPLES = {
    "train": [
        (
            ("train", "DATA", *QUICK, "--model", "new", "--summary", "s", "-p", "p", "--report", "page.html"),
            ("new", "s", "p", "page.html"),
        ),
        (("train", "DATA", "--from", "m", "--quiet", "--model", "m"), ("m",)),
    ],
    "predict": [(("predict", "m", "DATA", "-o", "p", "--quiet"), ("p",))],
    "certify": [(("certify", "m", "DATA", "--witness-nonzeros", "20", "--time-limit", "1", "--quiet"), ())],
    "inspect": [(("inspect", "m", "--plot", "plot.svg", "--json"), ("plot.svg",))],
    "sweep": [
        (
            ("sweep", "DATA", "--betas", "1,2", "--repetitions", "2", "--workers", "1", "--out", "sweep", "-q"),
            ("sweep",),
        )
    ],
    "reproduce": [
        (
            ("reproduce", "--data", "paper", "--repetitions", "1", "--no-beyond", "--workers", "1", "--out", "out"),
            ("out",),
        )
    ],
    "datasets": [(("datasets", "get", "a9a", "--to", "paper", "--from", "http://127.0.0.1:9"), ())],
    "convert": [(("convert", "DATA", "c.arrow", "--bits", "5", "--quiet"), ("c.arrow",))],
    "demo": [(("demo", "churn", "--out", "demo"), ("demo",))],
    "serve": [(("serve", "models", "--port", "0", "--end-after", "0.2", "-q"), ("models",))],
    "warmup": [(("warmup", "--loss", "squared", "--regularizer", "squared_norm", "-q"), ())],
}


def examples():
    """Every example, as (name, arguments, outputs)."""
    missing = set(COMMANDS) - set(EXAMPLES)
    assert not missing, (
        f"the campaign needs an example of each command; give one of {missing} in tests/campaign/data.py"
    )
    return [(f"{name}{k or ''}", *each) for name, several in EXAMPLES.items() for k, each in enumerate(several)]
