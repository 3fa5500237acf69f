"""How much each update rule depends on beta, as a figure.

    python -m experiments.sensitivity docs/figures/sensitivity.svg

The breast-cancer data of :mod:`experiments.breast_cancer`, one pass for each rule and beta.
"""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

from experiments.breast_cancer import data, runs

__all__ = ["draw"]

BETAS = tuple(float(beta) for beta in np.logspace(-2, 3, 16))
CURVES = {
    "linear H'": ("linear (SGD-like)", "#c44e52"),
    "twostep H'": ("two-step, literal", "#8172b3"),
    "truncated H'": ("truncated", "#ccb974"),
    "iwa H'": ("importance-aware", "#64b5cd"),
    "proximal H'": ("proximal", "#4c72b0"),
    "curvature": ("proximal, curvature", "#55a868"),
}


def draw(path: Path) -> None:
    """Run the sweep and write the figure."""
    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "giftrl"  # the same figure gives the same file
    from matplotlib import pyplot as plt

    found = {(run.name, run.beta): run.progressive[-1] for run in runs(*data(), BETAS)}
    figure, axes = plt.subplots(figsize=(7.2, 4.0), layout="constrained")
    for name, (label, colour) in CURVES.items():
        losses = [found[name, beta] for beta in BETAS]
        axes.plot(BETAS, losses, "o-", label=label, color=colour, markersize=4, linewidth=1.8)
    axes.axhline(np.log(2), color="grey", linewidth=0.8, linestyle=":")
    axes.annotate("no learning: log 2", (BETAS[0], np.log(2)), textcoords="offset points", xytext=(0, 4), color="grey")
    axes.set(xscale="log", xlabel="beta, the one scale parameter", ylabel="progressive logistic loss", ylim=(0.05, 0.8))
    axes.set_title("One pass over breast cancer: implicit updates forgive a wrong beta", fontsize=11)
    axes.legend(frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=150)


if __name__ == "__main__":
    draw(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/figures/sensitivity.svg"))
