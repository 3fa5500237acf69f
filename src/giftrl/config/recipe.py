"""Settings of a learner, validated before training, and class labels."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl import losses, regularizers, schedules, updates
from giftrl.certificates.reservoir import DEFAULT_BUDGET, as_budget
from giftrl.compiled.registry import Names
from giftrl.errors import Given, Incompatible, InvalidInput, Message, UnknownName, between, require
from giftrl.kernels import LinearLearner, LinearLearners, MulticlassLearner
from giftrl.kernels.base import check_parts, stored_type
from giftrl.mixtures import MixtureLearner
from giftrl.mixtures.experts import preset as known_preset
from giftrl.mixtures.mixture import MulticlassMixture
from giftrl.ops.loss import accepts
from giftrl.ops.vector_loss import multiclass

Array = NDArray[np.float64]
#: The beta of the mixture, which needs no learning rate.
AUTO = "auto"
#: The default parts of a single learner.
DEFAULTS = {"update": "proximal", "regularizer": "squared_norm", "schedule": "temporal"}
#: For each kind of part, its built-in components, and the required methods of custom ones.
KINDS: dict[str, tuple[Names, tuple[str, ...]]] = {
    "loss": (losses.EVERY, ("slope",)),
    "update": (updates.BY_NAME, ("pick",)),
    "regularizer": (regularizers.BY_NAME, ("strength", "start")),
    "schedule": (schedules.BY_NAME, ("lam",)),
}
#: Parameters of parts that are fields of a recipe.
FIELDS = {"beta", "lookahead"}


class Components(NamedTuple):
    """The components of a learner. A mixture has a loss only."""

    loss: Any
    regularizer: Any = None
    update: Any = None
    schedule: Any = None


@dataclass(frozen=True)
class Recipe:
    """The settings of a learner, validated on construction.

    Args:
        loss: a loss, by name or as an object.
        update, regularizer, schedule: the parts of a single learner, by name or as objects. None stands for
            :data:`DEFAULTS` if beta is a number; if beta is "auto" they must be None.
        lookahead: True for H, False for H', None for H if the next regularizer is known in time.
        beta: the scale of the schedule of a single learner; or "auto" for a mixture of learners.
        preset: the base learners of a mixture, "default" or "light".
        parameters: further parameters of parts that are given by name, such as ``{"tau": 0.9}`` for the quantile loss.
            A parameter goes to every part that has it.
        dtype: float32 or float64, the type of stored weights.
        witness_nonzeros: the maximum number of nonzeros to store for the lower bound on the best loss; 0 or None for no
        bound.

    >>> Recipe("quantile", parameters={"tau": 0.9}).parts
    Components(loss=Quantile(tau=0.9), regularizer=None, update=None, schedule=None)
    >>> Recipe("hinge", beta=2.0).parts.schedule
    TemporalVariability(beta=2.0, gradient_bound=1.0, floor=0.0)
    """

    loss: Any = "logistic"
    update: Any = None
    lookahead: bool | None = None
    regularizer: Any = None
    schedule: Any = None
    beta: float | str = AUTO
    preset: str = "default"
    parameters: Mapping[str, float] = field(default_factory=dict)
    dtype: Any = "float32"
    witness_nonzeros: int | None = None

    def __post_init__(self) -> None:
        if not self.auto:
            self._check_beta()
            for name, usual in DEFAULTS.items():
                if getattr(self, name) is None:
                    object.__setattr__(self, name, usual)
        parts = self.parts
        self._check_parameters()
        if self.auto:
            known_preset(self.preset)  # raises an error that suggests the nearest name
        else:
            check_parts(*parts)
        stored_type(self.dtype)
        if self.witness_nonzeros is not None:
            as_budget(self.witness_nonzeros)

    @property
    def auto(self) -> bool:
        """True if the learner is a mixture."""
        return isinstance(self.beta, str) and self.beta == AUTO

    @property
    def many(self) -> bool:
        """True if the loss has a score for each class."""
        return multiclass(self.parts.loss)

    @cached_property
    def parts(self) -> Components:
        """The components that the fields name, with their parameters."""
        loss = self._member("loss")
        if self.auto:
            return Components(loss)
        return Components(loss, self._member("regularizer"), self._update(), self._schedule())

    def _check_beta(self) -> None:
        beta, automatic = self.beta, Given("beta", AUTO)
        number = isinstance(beta, Real) and not isinstance(beta, bool) and 0.0 < beta < math.inf
        require(number, "beta", beta, f"must be positive and finite, or {AUTO!r}", [automatic, " needs no choice"])
        rule = ("is of ", automatic, f", and beta is {beta!r}")
        remedy: Message = ("leave one of them out, or use ", automatic)
        require(self.preset == "default", "preset", self.preset, rule, remedy)
        good, remedy = isinstance(self.lookahead, bool | None), "None uses H where it can be used"
        require(good, "lookahead", self.lookahead, "must be True, False or None", remedy)

    def _check_parameters(self) -> None:
        """Raise an error for a parameter that no named part has, or for a setting that "auto" chooses itself."""
        known = {each for name, (kind, _) in KINDS.items() for each in _fields(kind, getattr(self, name))} - FIELDS
        others = {each for name in DEFAULTS for part in KINDS[name][0] for each in _fields(KINDS[name][0], part)}
        others -= FIELDS | known
        refused = {name: getattr(self, name) for name in (*DEFAULTS, "lookahead")} if self.auto else {}
        automatic = Given("beta", AUTO)
        for name, value in self.parameters.items():
            if name in others:
                refused[name] = value
            elif name not in known:
                raise UnknownName("parameters", name, sorted(known | others if self.auto else known))
        for name, value in refused.items():
            if value is None:
                continue
            if self.auto:
                rule: Message = ("must be left out with ", automatic, ", which chooses the parts as it learns")
                remedy = ("give a beta, such as ", Given("beta", 1.0), ", to choose the parts yourself")
                raise InvalidInput(name, value, rule, remedy)
            named = between((Given(part, getattr(self, part)) for part in DEFAULTS), ", ")
            rule = ("must be left out, because no part that is given by name has it (", *named, ")")
            raise InvalidInput(name, value, rule, "name a part that has it, or set it on the object that you pass")

    def _member(self, name: str, **own: Any) -> Any:
        """The component of a field: created by name with its parameters, or the given object."""
        kind, methods = KINDS[name]
        given = getattr(self, name)
        if not isinstance(given, str):
            return kind.member(given, *methods)
        accepted = _fields(kind, given)
        return kind.make(given, **{key: value for key, value in {**self.parameters, **own}.items() if key in accepted})

    def _update(self) -> Any:
        made = self._member("update", lookahead=self.lookahead)
        rule = f"must not contradict the update, which is {made!r}"
        agrees = self.lookahead is None or getattr(made, "lookahead", None) == self.lookahead
        require(agrees, "lookahead", self.lookahead, rule, "set it on the update alone")
        return made

    def _schedule(self) -> Any:
        made = self._member("schedule", beta=float(self.beta))
        rule = f"must not contradict the schedule {made!r}, which has its own"
        own = isinstance(self.schedule, str) or self.beta == 1.0
        require(own, "beta", self.beta, rule, ["set it on the schedule, and give ", Given("beta", 1.0)])
        return made


def _fields(kind: Names, given: Any) -> tuple[str, ...]:
    """The parameters of the component with that name; none for an object."""
    return tuple(kind[given]._fields) if isinstance(given, str) and given in kind else ()


@dataclass(eq=False, repr=False)
class Parameters:
    """Settings of a learner and its data; documented in :class:`giftrl.linear.FTRLClassifier`."""

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
    witness_nonzeros: int | None = DEFAULT_BUDGET

    def _recipe(self, **chosen: Any) -> Recipe:
        """The recipe for these parameters; ``chosen`` has defaults for parts left open."""
        if self.normalize not in (None, "unit"):
            raise UnknownName("normalize", self.normalize, ["None", "unit"])
        bound = self.gradient_bound
        given = {each.name: getattr(self, each.name) for each in fields(Recipe) if each.name != "parameters"}
        return Recipe(**(given | chosen), parameters={} if bound is None else {"gradient_bound": bound})


OneScore = LinearLearner | MixtureLearner
Mixture = MixtureLearner | MulticlassMixture
Learner = LinearLearner | MulticlassLearner | Mixture
#: Name, share of the prediction and progressive loss of each base learner of a mixture.
Experts = list[tuple[str, float, float]]


def make(
    recipe: Recipe, dimension: int, classes: int | None = None, *, constant: int | None = None, compiled: bool = True
) -> Any:
    """Create an untrained learner, one of :data:`Learner`.

    Multiclass losses need the number of ``classes``. ``constant`` is the feature that is always
    1, or None; with ``compiled`` False, loops run as plain Python.

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
    """Create learners for several models of one score: a single one for all if possible, else one for each.

    Mixtures, L1 terms with one strength for all coordinates, and custom parts need separate learners. All models share
    one budget of stored examples.

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
    """The base learners of a mixture; AttributeError for a single learner."""
    if isinstance(learner, Mixture):
        return learner.experts
    raise AttributeError("experts_ is the table of a mixture, and beta is a number here; use beta='auto'")


class Labels(NamedTuple):
    """Class labels: label k is the name of class k.

    A loss of one score takes -1 and +1: in binary classification, class 1 is +1; multiclass is one-vs-rest. A
    multiclass loss takes the number of the class.

    Args:
        values: different labels, of any type that can be sorted.

    >>> fruit = Labels(np.array(["apple", "pear", "plum"]))
    >>> codes = fruit.codes(np.array(["plum", "apple", "fig"]))
    >>> codes, fruit.values[codes[:2]]
    (array([ 2,  0, -1]), array(['plum', 'apple'], dtype='<U5'))
    >>> fruit.one_against_rest(codes[:2])
    array([[-1., -1.,  1.],
           [ 1., -1., -1.]])
    """

    values: NDArray[Any]

    def codes(self, y: NDArray[Any]) -> NDArray[np.int64]:
        """The class number of each label; -1 for an unknown label."""
        order = np.argsort(self.values)
        places = np.searchsorted(self.values, y, sorter=order)
        codes: NDArray[np.int64] = order[np.minimum(places, len(self.values) - 1)]
        return np.where(self.values[codes] == y, codes, -1)

    def one_against_rest(self, codes: NDArray[np.int64]) -> Array:
        """One-vs-rest targets: a column per class, +1 for its rows, -1 for others."""
        return as_signs(codes[:, None] == np.arange(len(self.values)))

    def best(self, scores: Array) -> NDArray[Any]:
        """The predicted labels: the class with the largest score, or in binary classification the sign of the score."""
        codes = scores.argmax(axis=1) if scores.shape[1] > 1 else (scores[:, 0] > 0.0).astype(np.int64)
        labels: NDArray[Any] = self.values[codes]
        return labels


def as_signs(positive: Any) -> Array:
    """+1 for True, -1 for False."""
    return np.where(positive, 1.0, -1.0)


def takes_signs(loss: Any, only: bool = False) -> bool:
    """True if a loss takes the labels -1 and +1; with ``only``, no number in between.

    >>> from giftrl.losses import Absolute, Hinge
    >>> takes_signs(Hinge(), only=True), takes_signs(Absolute()), takes_signs(Absolute(), only=True)
    (True, True, False)
    """
    return accepts(loss, -1.0) and accepts(loss, 1.0) and not (only and accepts(loss, 0.5))
