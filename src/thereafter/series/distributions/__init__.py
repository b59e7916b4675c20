"""Distributions over numbers, element by element: what a head over numbers expects.

base                the contract, and what all share
normal              Normal and Laplace: also what a point forecast with a spread stands for
student             Student's t, with heavy tails
counts              the negative binomial, for counts
quantiles           from values at fixed levels: piecewise linear, with exponential tails
incomplete_beta     the function that the last but one and Student's t are integrals of
"""

from thereafter.series.distributions.base import Distribution
from thereafter.series.distributions.counts import NegativeBinomial
from thereafter.series.distributions.normal import Laplace, Normal
from thereafter.series.distributions.quantiles import Quantiles
from thereafter.series.distributions.student import StudentT

__all__ = ["Distribution", "Laplace", "NegativeBinomial", "Normal", "Quantiles", "StudentT"]
