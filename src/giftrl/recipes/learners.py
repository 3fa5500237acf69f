"""From a recipe to the learner that it describes."""

from dataclasses import replace
from typing import Any

from giftrl.errors import Incompatible
from giftrl.kernels import LinearLearner, LinearLearners, MulticlassLearner
from giftrl.mixtures import MixtureLearner
from giftrl.mixtures.multiclass import MulticlassMixture
from giftrl.recipes.recipe import Recipe

OneScore = LinearLearner | MixtureLearner
Mixture = MixtureLearner | MulticlassMixture
Learner = LinearLearner | MulticlassLearner | Mixture
#: Name, share of the prediction and progressive loss of each expert of a mixture.
Experts = list[tuple[str, float, float]]


def make(
    recipe: Recipe, dimension: int, classes: int | None = None, *, constant: int | None = None, compiled: bool = True
) -> Any:
    """A learner that has learnt nothing yet, one of :data:`Learner`.

    Args:
        recipe: its settings.
        dimension: the number of features.
        classes: the number of classes; needed by losses that take a score for each, not used by others.
        constant: the feature that is always 1, or None.
        compiled: False to run its loops as plain Python.

    >>> make(Recipe("squared"), 3, constant=2)
    MixtureLearner(3, Squared(), preset='default', dtype='float32')
    >>> make(Recipe("softmax", beta=1.0), 3, 4).x.shape
    (3, 4)
    """
    size = (dimension, classes) if recipe.many and classes is not None else (dimension,)
    kind: Any
    if recipe.auto:
        kind = MixtureLearner if len(size) == 1 else MulticlassMixture
        own = {"constant": constant, "preset": recipe.preset}
        made = kind(*size, *recipe.parts[:1], dtype=recipe.dtype, compiled=compiled, **own)
    else:
        kind = LinearLearner if len(size) == 1 else MulticlassLearner
        made = kind(*size, *recipe.parts, dtype=recipe.dtype, compiled=compiled)
    made.keep_witnesses(recipe.witness_nonzeros, constant)
    return made


def make_each(
    recipe: Recipe, dimension: int, models: int, *, constant: int | None = None, compiled: bool = True
) -> list[OneScore] | list[LinearLearners]:
    """Learners of that many models of one score each: a single one that learns them in one pass, or one for each.

    A mixture, an L1 term with one strength for all coordinates, and parts of your own cannot share a pass. All
    models share one budget of witnesses.

    >>> make_each(Recipe("squared", beta=1.0), 2, 3)[0].x.shape
    (2, 3)
    >>> len(make_each(Recipe("squared"), 2, 3))
    3
    """
    if not recipe.auto:
        loss, regularizer, update, schedule = recipe.parts
        settings = [(update, schedule)] * models
        try:
            together = LinearLearners(dimension, settings, loss, regularizer, dtype=recipe.dtype, compiled=compiled)
        except Incompatible:
            pass
        else:
            together.keep_witnesses(recipe.witness_nonzeros, constant)
            return [together]
    if recipe.witness_nonzeros is not None:
        recipe = replace(recipe, witness_nonzeros=recipe.witness_nonzeros // models)
    return [make(recipe, dimension, constant=constant, compiled=compiled) for _ in range(models)]


def experts_of(learner: Any) -> Experts:
    """The experts of a mixture; a single learner has none, which is an AttributeError."""
    if isinstance(learner, Mixture):
        return learner.experts
    raise AttributeError("experts_ is the table of a mixture, and beta is a number here; use beta='auto'")
