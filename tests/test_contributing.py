"""The recipes of CONTRIBUTING.md, taken from the page and run."""

import doctest
import importlib.util
import itertools
import math
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import giftrl
from giftrl import Learner, domains, losses, mirror, regularizers, schedules, updates
from giftrl.errors import Incompatible, InvalidInput
from giftrl.kernels import LinearLearner, LinearLearners, MulticlassLearner
from giftrl.ops import loss as ops
from giftrl.ops.line import Affine, objective
from giftrl.regularizers import Centred, ElasticNet
from giftrl.regularizers.contract import start
from tests import oracles
from tests.members import DIMENSION, is_count, label_for, members
from tests.streams import play, stream, total_loss

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

#: The files that the page gives in full, by the name in their first line.
FILES = {
    match["path"]: match["code"]
    for match in re.finditer(r"^```python\n(?P<code># (?P<path>\S+)\n.*?)^```", PAGE, re.M | re.S)
}
LOSS = "src/giftrl/losses/expectile.py"
REGULARIZER = "src/giftrl/regularizers/largest_step.py"
UPDATE = "src/giftrl/updates/halfway.py"


@pytest.fixture(scope="module")
def recipes(tmp_path_factory) -> dict[str, Any]:
    """Each file, written out and imported."""
    modules = {}
    for i, (path, code) in enumerate(FILES.items()):
        file = tmp_path_factory.mktemp("recipes") / f"recipe_{i}.py"
        file.write_text(code, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(file.stem, file)
        modules[path] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(modules[path])
    return modules


def examples_for(loss: Any, rounds: int, seed: int) -> list[Any]:
    """Examples of a noisy linear model; small features for counts, whose loss grows like exp(p)."""
    return stream(loss, rounds, seed, 0.2 if is_count(loss) else 1.0)


def check_run(learner: Learner, loss: Any, seed: int, guaranteed: bool = True) -> None:
    """The certificate is never below the regret, Theorem 3.1 sums to it, and z is never worse than g."""
    examples = examples_for(loss, 15, seed)
    assert len(play(learner, loss, examples)) == 15
    certificate = learner.certificate
    size = max(1.0, *(abs(r.loss) + abs(r.conjugate) for r in certificate.trace.rounds))
    assert math.isfinite(certificate.bound_sum)
    for u in (np.zeros(DIMENSION), learner.x, *np.random.default_rng(seed).normal(size=(4, DIMENSION))):
        regret = certificate.loss_sum - total_loss(loss, examples, u)
        assert regret <= certificate.regret_bound(u) + 1e-9 * size
        assert sum(certificate.theorem_terms(u)) == pytest.approx(certificate.regret_bound(u), abs=1e-8 * size)
    assert not guaranteed or certificate.harmful_rounds == 0


def test_the_page_has_the_recipes_and_no_other_python():
    assert list(FILES) == ["idea.py", LOSS, REGULARIZER, UPDATE]
    assert PAGE.count("```python") == len(FILES)


def test_the_table_of_layers_is_the_order_of_imports():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    order = [set(layer.split(" | ")) for layer in settings["importlinter"]["contracts"][0]["layers"]]
    table = PAGE.split("| layer | packages |")[1].split("\n\n")[0]
    for row in re.findall(r"^\| [^`|]+ \| (.*) \|$", table, re.M):
        packages = set(re.findall(r"`(\w+)`", row))
        while packages:
            assert order[0] <= packages
            packages -= order.pop(0)
    assert order == []


@pytest.mark.parametrize("path", [LOSS, REGULARIZER, UPDATE])
def test_their_examples_run(recipes, path):
    result = doctest.testmod(recipes[path])
    assert result.attempted > 0
    assert result.failed == 0


def test_loss_closed_forms_agree_with_the_fallbacks(recipes):
    idea, loss = recipes["idea.py"].Expectile(0.9), recipes[LOSS].Expectile(0.9)
    rng = np.random.default_rng(1)
    for p, y, a in 3.0 * rng.normal(size=(100, 3)):
        e, g = 1e-6, loss.slope(p, y)
        assert g == pytest.approx((loss.value(p + e, y) - loss.value(p - e, y)) / (2 * e), abs=1e-5)
        assert loss.value(p, y) + loss.conjugate(g, y) == pytest.approx(g * p, abs=1e-9)  # Fenchel and Young
        assert loss.value(p, y) == pytest.approx(idea.value(p, y), rel=1e-14)
        assert loss.curvature(p, y) == pytest.approx(ops.curvature(idea, p, y), abs=1e-8)
        assert loss.curvature(p, y) <= loss.smoothness()
        assert loss.conjugate(a, y) == pytest.approx(ops.conjugate(idea, a, y), abs=1e-9)
        assert loss.value(p, y) >= loss.infimum(y) == loss.value(y, y)
    with pytest.raises(InvalidInput, match=r"tau=1\.0"):
        recipes[LOSS].Expectile(1.0)


@pytest.mark.parametrize("lookahead", [True, False])
@pytest.mark.parametrize("update", members("update"), ids=repr)
def test_loss_in_a_learner(recipes, update, lookahead):
    loss = recipes[LOSS].Expectile(0.8)
    literal = isinstance(update, updates.TwoStep) and not update.safeguard
    check_run(Learner(DIMENSION, update=update._replace(lookahead=lookahead)), loss, 0, guaranteed=not literal)
    learner = Learner(DIMENSION, "curvature", update=update, schedule="constant")
    check_run(learner, loss, 1, guaranteed=not literal)
    assert (learner.trace.psi.strength > 1.0).all()  # lambda is 1: the curvature of the loss has arrived


def test_loss_oracle(recipes, monkeypatch):
    loss = recipes[LOSS].Expectile(0.8)
    line = re.search(r"^    losses\.Expectile: (Formulas\(.*?^    \)),$", PAGE, re.M | re.S)[1]
    monkeypatch.setitem(oracles.FORMULAS, type(loss), eval(line, vars(oracles)))
    rng = np.random.default_rng(8)
    for p, y in 3.0 * rng.normal(size=(20, 2)):
        c = 10 ** rng.uniform(-2, 2)
        assert ops.prox(loss, p, y, c) == pytest.approx(float(oracles.exact_prox(loss, p, y, c)), rel=1e-12)
        assert ops.flow(loss, p, y, c) == pytest.approx(float(oracles.exact_flow(loss, p, y, c)), rel=1e-12)
        assert oracles.formulas(loss).convex(loss, p, y).value == pytest.approx(loss.value(p, y))


def test_two_methods_are_enough_for_a_loss(recipes):
    idea = recipes["idea.py"].Expectile()
    for update in ("linear", "proximal", "iwa"):
        check_run(Learner(DIMENSION, update=update), idea, 2)
    for update in (updates.Truncated(), updates.TwoStep(safeguard=True)):
        with pytest.raises(Incompatible, match="infimum"):
            Learner(DIMENSION, update=update).observe(idea, np.ones(DIMENSION), 1.0)


def test_regularizer_follows_its_formula(recipes):
    regularizer = recipes[REGULARIZER].LargestStep(0.5)
    learner = Learner(DIMENSION, regularizer, update="linear", schedule="sqrt")
    largest = last = np.zeros(DIMENSION)
    for t, (s, y, h) in enumerate(examples_for(losses.Squared(), 30, 3), 1):
        strength = learner.trace.psi.strength
        np.testing.assert_allclose(strength, math.sqrt(t) * np.maximum(0.5, largest))
        assert (strength >= last).all()
        np.testing.assert_allclose(learner.x, learner.theta / strength)
        last = strength
        largest = np.maximum(largest, np.abs(learner.observe("squared", s, y, weight=h).z))
    assert learner.certificate.theorem_terms(np.ones(DIMENSION)).growth <= 0.0
    with pytest.raises(InvalidInput, match="gradient_bound=0"):
        recipes[REGULARIZER].LargestStep(0.0)


def test_regularizer_in_a_learner(recipes):
    base = recipes[REGULARIZER].LargestStep()
    supported = mirror.supported_domains(start(base, DIMENSION, 1.0))
    assert len(supported) == len(domains.BY_NAME)
    every = (base, Centred(base), ElasticNet(l1=0.1, base=base))
    for regularizer, domain, update in itertools.product(every, domains.BY_NAME, ("proximal", "truncated")):
        learner = Learner(DIMENSION, regularizer, domain, update, "sqrt")
        check_run(learner, losses.Logistic(), 4)
        assert learner.domain.contains(learner.x)


@pytest.mark.parametrize("loss", members("loss"), ids=repr)
def test_update_is_between_linear_and_proximal(recipes, loss):
    halfway = recipes[UPDATE].Halfway()
    rng = np.random.default_rng(5)
    strictly = 0
    for _ in range(100):
        p, pb, target = 2.0 * rng.normal(size=3)
        y, line = label_for(loss, target), Affine(pb, 10 ** rng.uniform(-1, 1))
        picked = (update.pick(loss, y, p, line) for update in (updates.Linear(), halfway, updates.Proximal()))
        linear, half, proximal = (objective(line, loss, y, b) for b in picked)
        assert half <= 0.5 * (linear + proximal) + 1e-9 * max(1.0, abs(linear))
        strictly += half < linear - 1e-6
    assert strictly > 10


@pytest.mark.parametrize("lookahead", [True, False])
@pytest.mark.parametrize("loss", members("loss"), ids=repr)
def test_update_in_a_learner(recipes, loss, lookahead):
    halfway = recipes[UPDATE].Halfway(lookahead=lookahead)
    ran = 0
    # One domain on which the line is affine, and one on which it is not.
    for regularizer, domain in itertools.product(regularizers.BY_NAME, ("whole_space", "simplex")):
        try:
            learner = Learner(DIMENSION, regularizer, domain, halfway, "sqrt")
        except Incompatible:
            continue
        check_run(learner, loss, 6)
        ran += 1
    assert ran >= 5


def test_update_in_the_learners_of_batches(recipes):
    update = recipes[UPDATE].Halfway()
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(30, DIMENSION)), rng.integers(0, 2, 30)
    readable = Learner(DIMENSION, update=update, schedule="sqrt")
    predictions = [readable.observe("logistic", s, label).prediction for s, label in zip(x, 2.0 * y - 1.0, strict=True)]
    one = LinearLearner(DIMENSION, update=update, schedule="sqrt", dtype="float64", compiled=False)
    np.testing.assert_allclose(one.learn(x, 2.0 * y - 1.0), predictions, atol=1e-12)
    many = LinearLearners(DIMENSION, [(update, "sqrt"), ("linear", "sqrt")], dtype="float64", compiled=False)
    np.testing.assert_allclose(many.learn(x, 2.0 * y - 1.0)[:, 0], predictions, atol=1e-12)
    # Two classes of softmax are logistic regression of the difference, at half the strength of the regularizer.
    twice = schedules.SquareRoot(beta=0.5)
    scores = MulticlassLearner(DIMENSION, 2, update=update, schedule=twice, dtype="float64", compiled=False)
    np.testing.assert_allclose(scores.learn(x, y) @ [-1.0, 1.0], predictions, atol=1e-9)


def added_lines(kind: str) -> dict[str, str]:
    """What the page adds to the ``__init__.py`` of a kind: where, and the line."""
    block = re.search(rf"^```\n(from giftrl\.{kind}\..*?)^```", PAGE, re.M | re.S)[1]
    rows = (re.fullmatch(r"(.*?)\s{2,}(?:with|in) (the imports|BY_NAME|__all__)", line) for line in block.splitlines())
    return {row[2]: row[1] for row in rows}


def test_added_to_the_package_they_are_members_by_name(tmp_path):
    package = tmp_path / "giftrl"
    shutil.copytree(Path(giftrl.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for path, kind, last in (
        (LOSS, "losses", "squared_hinge=SquaredHinge"),
        (REGULARIZER, "regularizers", "p_norm=PNorm"),
        (UPDATE, "updates", "iwa=ImportanceAware"),
    ):
        (tmp_path / Path(path).relative_to("src")).write_text(FILES[path], encoding="utf-8")
        init = package / kind / "__init__.py"
        code, lines = init.read_text(encoding="utf-8"), added_lines(kind)
        code = code.replace("\nfrom giftrl", f"\n{lines['the imports']}\nfrom giftrl", 1)
        code = code.replace(f"    {last},\n", f"    {last},\n{lines['BY_NAME']}\n")
        code = code.replace('    "get",\n', f'    {lines["__all__"]}\n    "get",\n')
        init.write_text(code, encoding="utf-8")
    script = """
import giftrl
from giftrl.losses import Expectile
from giftrl.regularizers import LargestStep
from giftrl.updates import Halfway
learner = giftrl.Learner(2, "largest_step", update="halfway", schedule="sqrt")
learner.observe("expectile", [1.0, -1.0], 0.5)
assert (learner.regularizer, learner.update) == (LargestStep(), Halfway())
print(giftrl.__file__, learner.certificate.harmful_rounds)
"""
    environment = {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert done.stderr == ""
    assert done.stdout.split() == [str(package / "__init__.py"), "0"]
