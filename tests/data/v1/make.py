"""Wrote the models in this folder, once, with version 0.1.0 of giftrl, whose files are of version 1.

It is kept as a description of the files and runs only against that version, whose loops are in
``giftrl.kernels.compiler``::

    PYTHONPATH=<giftrl 0.1.0>/src python tests/data/v1/make.py

For each loss and for beta "auto" and 1.0 it writes a model that was trained in plain Python and one that was trained by
compiled loops, both compressed with gzip. ``expected.npz`` holds what each predicts for the rows that it was trained
on, and ``machine.json`` the processor and the compiler, on which the bits of compiled loops depend.
"""

import gzip
import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
#: The loss -> the file that it is trained on. The rows of a file have the same features and weights as those of others.
INPUTS = {
    "logistic": "signs.vw", "hinge": "signs.vw", "squared_hinge": "signs.vw",
    "squared": "reals.vw", "absolute": "reals.vw", "quantile": "reals.vw", "huber": "reals.vw",
    "epsilon_insensitive": "reals.vw", "poisson": "counts.vw",
    "softmax": "classes.vw", "multiclass_hinge": "classes.vw",
}  # fmt: skip
BETAS = ("auto", 1.0)


def name(loss, beta, way):
    """The file of a model; the way is "plain" or "compiled"."""
    return f"{loss}-{beta}-{way}.giftrl.gz"


def settings(loss, beta):
    """The arguments of ``giftrl.training.Settings``."""
    labels = (1.0, 2.0, 3.0) if INPUTS[loss] == "classes.vw" else None
    parameters = {"tau": 0.9} if loss == "quantile" else {}
    return {"loss": loss, "beta": beta, "bits": 8, "label_values": labels, "parameters": parameters}


def write_inputs(rows=48, features=7):
    """Features of different sizes, of which some are rare or far from 0; weights; and labels of four kinds."""
    rng = np.random.default_rng(12)
    x = rng.normal(size=(rows, features)) * 10.0 ** np.array([0, -3, 2, 0, 1, 0, 0])
    x[:, 3] = x[:, 3] * 0.1 + 5.0
    x[:, 4:6] *= rng.random((rows, 2)) < 0.3
    x = x.round(4)
    weights = rng.choice([0.0, 0.5, 1.0, 1.0, 1.0, 2.5], rows)
    score = (x / np.abs(x).max(axis=0)) @ rng.normal(size=features) + 0.2 * rng.normal(size=rows)
    other = (x / np.abs(x).max(axis=0)) @ rng.normal(size=features)
    labels = {
        "signs": np.where(score > 0.0, 1, -1),
        "reals": (30.0 + 10.0 * score).round(3),
        "counts": rng.poisson(np.exp(np.clip(score, -2.0, 2.0))),
        "classes": np.where(score > 0.3, 1, np.where(other > 0.0, 2, 3)),
    }
    for kind, values in labels.items():
        lines = [
            f"{label} {weight:g} |f " + " ".join(f"x{j}:{v:g}" for j, v in enumerate(row) if v != 0.0) + f" |c c{i % 5}"
            for i, (label, weight, row) in enumerate(zip(values, weights, x, strict=True))
        ]
        (HERE / f"{kind}.vw").write_text("\n".join(lines) + "\n")


def predictions(model, path):
    """What a model predicts for the rows of a file: scores, and classes where there is a score for each."""
    from giftrl.streams.reader import Reader

    predictor = model.freeze(clip=True)  # as version 1 predicted
    scores = np.concatenate([model.scores(batch, predictor) for batch in Reader([path], model.features)])
    return model.decide(scores) if model.settings.many else scores


def main():
    """Write everything."""
    import numba
    from llvmlite import binding

    from giftrl.kernels import compiler
    from giftrl.training import LinearModel, Settings, train

    write_inputs()
    kernel, install = compiler._kernel, compiler._install
    expected = {}
    for way in ("plain", "compiled"):
        if way == "plain":
            compiler._kernel, compiler._install = (lambda loop, *_: compiler._plain(loop)), (lambda: None)
        else:
            compiler._kernel, compiler._install = kernel, install
        for loss, source in INPUTS.items():
            for beta in BETAS:
                model = train(Settings(**settings(loss, beta)), [HERE / source])
                written = HERE / "model.giftrl"
                model.save(written)
                (HERE / name(loss, beta, way)).write_bytes(gzip.compress(written.read_bytes(), 9, mtime=0))
                loaded, _ = LinearModel.load(written)
                expected[f"{loss}-{beta}-{way}"] = predictions(loaded, HERE / source)
                written.unlink()
    np.savez_compressed(HERE / "expected.npz", **expected)
    machine = {"cpu": binding.get_host_cpu_name(), "numba": numba.__version__, "numpy": np.__version__}
    (HERE / "machine.json").write_text(json.dumps(machine, indent=2) + "\n")


if __name__ == "__main__":
    main()
