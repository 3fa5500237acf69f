"""Hypothesis profiles: the default is quick and the same every time; ``--hypothesis-profile=long`` searches further."""

from hypothesis import HealthCheck, settings

common = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
}
settings.register_profile("default", max_examples=100, derandomize=True, **common)
settings.register_profile("long", max_examples=5000, **common)
settings.load_profile("default")
