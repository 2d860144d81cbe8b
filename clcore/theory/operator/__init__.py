"""The covariance operator of dual deep networks (ddn Secs. 3 to 5)."""

from clcore._front import attach

_HOMES = {"": ("connection", "covariance_operator", "descent", "translation")}
__all__, __getattr__, __dir__ = attach(__name__, _HOMES)
