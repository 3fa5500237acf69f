"""The other rows of the paper's Table 1, each with the interface of :class:`giftrl.Learner`.

=============================== ==========================================================================
:class:`MirrorDescent`          argmin over V of B(x; x_t) + eta_t <g_t, x>
:class:`ImplicitMirrorDescent`  argmin over V of B(x; x_t) + eta_t l_t(x)
:class:`FullFTRL`               argmin over V of psi_{t+1}(x) + sum over i <= t of l_i(x)
:class:`ImplicitFTRL`           argmin over V of psi_{t+1}(x) + l_t(x) + the earlier linearizations
:class:`giftrl.Learner`         linearized FTRL with ``updates.Linear()``, and generalized implicit FTRL
=============================== ==========================================================================
"""

from giftrl.reference.baselines import FullFTRL, ImplicitFTRL, ImplicitMirrorDescent, MirrorDescent

__all__ = ["FullFTRL", "ImplicitFTRL", "ImplicitMirrorDescent", "MirrorDescent"]
