"""Learning without parameters: experts, AdaHedge, a Newton stack, and features and labels on a common scale."""

from giftrl.mixtures.ada_hedge import AdaHedge
from giftrl.mixtures.extension import Extended
from giftrl.mixtures.features import FeatureScaler
from giftrl.mixtures.labels import LabelUnits
from giftrl.mixtures.learner import MixtureLearner
from giftrl.mixtures.newton_stack import NewtonStack
from giftrl.mixtures.presets import PRESETS

__all__ = ["PRESETS", "AdaHedge", "Extended", "FeatureScaler", "LabelUnits", "MixtureLearner", "NewtonStack"]
