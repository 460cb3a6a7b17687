"""Choose one patch of several for each instance, without the hidden tests."""

from pipeline.choice.chosen import Candidate, Choice, Shown, candidates, choose
from pipeline.choice.gain import Gain, gain
from pipeline.choice.patches import normalised, touched

__all__ = [
    "Candidate",
    "Choice",
    "Gain",
    "Shown",
    "candidates",
    "choose",
    "gain",
    "normalised",
    "touched",
]
