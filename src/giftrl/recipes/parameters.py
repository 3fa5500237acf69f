"""The parameters that estimators share, whichever library they are for."""

from dataclasses import dataclass, fields
from typing import Any

from giftrl.certificates.witnesses import BUDGET
from giftrl.errors import UnknownName
from giftrl.recipes.recipe import AUTO, Recipe


@dataclass(eq=False, repr=False)
class Parameters:
    """Which learner, and how its rows are prepared; :class:`giftrl.linear.FTRLClassifier` explains each."""

    loss: Any
    update: Any = None
    lookahead: bool | None = None
    regularizer: Any = None
    schedule: Any = None
    beta: float | str = AUTO
    preset: str = "default"
    gradient_bound: float | None = None
    normalize: str | None = None
    fit_intercept: bool = True
    dtype: Any = "float32"
    witness_nonzeros: int | None = BUDGET

    def _recipe(self, **chosen: Any) -> Recipe:
        """The learner that the parameters describe; ``chosen`` are parts that they leave open."""
        if self.normalize not in (None, "unit"):
            raise UnknownName("normalize", self.normalize, ["None", "unit"])
        bound = self.gradient_bound
        given = {each.name: getattr(self, each.name) for each in fields(Recipe) if each.name != "parameters"}
        return Recipe(**(given | chosen), parameters={} if bound is None else {"gradient_bound": bound})
