"""Curves beyond the paper, on its axes: other choices of z, and other schedules and regularizers."""

from giftrl.paper.settings import READINGS
from giftrl.regularizers import AdaGrad, Curvature
from giftrl.schedules import AdaGradNorm, Constant, TemporalVariability
from giftrl.sweeps import Curve
from giftrl.updates import ImportanceAware, Proximal, Truncated, TwoStep


def choices(loss: str) -> tuple[Curve, ...]:
    """Choices of z that the paper's figures leave out, with the paper's schedule and regularizer.

    >>> [curve.name for curve in choices("logistic")][:2]
    ['proximal', "proximal H'"]
    """
    scale = _scale(loss)
    updates = {
        "proximal": Proximal(lookahead=True),
        "proximal H'": Proximal(lookahead=False),
        "truncated": Truncated(lookahead=False),
        "truncated H": Truncated(lookahead=True),
        "iwa": ImportanceAware(lookahead=False),
        "iwa H": ImportanceAware(lookahead=True),
        "two-step safe": TwoStep(lookahead=True, safeguard=True),
    }
    return tuple(Curve(name, update, TemporalVariability(), scale=scale) for name, update in updates.items())


def parts(loss: str) -> tuple[Curve, ...]:
    """The proximal update with other schedules and regularizers.

    The hinge and absolute losses have no curvature: on them, ``Curvature`` is mirror descent with a constant step.

    >>> [curve.name for curve in parts("hinge")]
    ['proximal', 'constant', 'AdaGrad norm', 'AdaGrad', 'curvature']
    """
    scale, update = _scale(loss), Proximal()
    return (
        Curve("proximal", Proximal(lookahead=True), TemporalVariability(), scale=scale),
        Curve("constant", update, Constant(), scale=scale),
        Curve("AdaGrad norm", update, AdaGradNorm(), scale=scale),
        Curve("AdaGrad", update, Constant(), AdaGrad(), scale=scale),
        Curve("curvature", update, Constant(), Curvature(), scale=scale),
    )


GROUPS = {
    "choices of z": (choices, "The paper's schedule with choices of z that its figures leave out"),
    "schedules and regularizers": (parts, "The proximal update with other schedules and regularizers"),
}


def _scale(loss: str) -> float:
    return READINGS["found"].logistic_scale if loss == "logistic" else 1.0
