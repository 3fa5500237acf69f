"""Numbers and curves in words, for tables and for descriptions of figures."""

from giftrl.reports.summary import Summary


def number(value: float, digits: int = 4) -> str:
    """A number with a few digits, in scientific notation where it is very large or very small.

    >>> number(0.123456), number(1e7), number(float("inf"))
    ('0.1235', '1e+07', 'inf')
    """
    return f"{value:.{digits}f}" if 1e-3 <= abs(value) < 1e4 or value == 0.0 else f"{value:.{digits}g}"


def describe(summary: Summary) -> str:
    """A figure of loss against beta in words: the lowest point and the last point of each curve."""
    curves = [
        f"{name}: lowest {number(summary.best_loss(k))} at beta {summary.best_beta(k):.3g}, "
        f"{number(float(summary.mean[k, -1]))} at beta {summary.betas[-1]:.3g}"
        for k, name in enumerate(summary.names)
    ]
    return f"Average loss against beta. {'; '.join(curves)}."
