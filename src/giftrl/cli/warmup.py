"""``giftrl warmup``: compile the common loops ahead of time."""

import time
from itertools import product

import click

__all__ = ["command"]


@click.command()
@click.option("--loss", "losses", multiple=True, help="A loss to compile for; may be repeated.")
@click.option("--regularizer", "regularizers", multiple=True, help="Likewise. Default: squared_norm and curvature.")
@click.option("--dtype", type=click.Choice(["float32", "float64"]), default="float32", show_default=True)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing.")
def command(losses: tuple[str, ...], regularizers: tuple[str, ...], dtype: str, quiet: bool) -> None:
    """Compile the common loops ahead of time, so that later commands start at once.

    Compiled code is kept on disk between processes. What is there already is loaded in a moment.

    \b
    Examples:
      giftrl warmup
      giftrl warmup --loss quantile --regularizer adagrad
    """
    import numpy as np
    from scipy.sparse import csr_array

    from giftrl.kernels import LinearLearner

    losses = losses or ("logistic", "hinge", "squared", "absolute")
    regularizers = regularizers or ("squared_norm", "curvature")
    begun = time.perf_counter()
    for loss, regularizer in product(losses, regularizers):
        start = time.perf_counter()
        learner = LinearLearner(2, loss, regularizer, update="proximal", dtype=dtype)
        learner.learn(csr_array(np.ones((1, 2))), [1.0])  # a label of every built-in loss
        if not quiet:
            click.echo(f"{loss:>20} {regularizer:<14} {time.perf_counter() - start:6.1f} s")
    if not quiet:
        click.echo(f"ready in {time.perf_counter() - begun:.1f} s")
