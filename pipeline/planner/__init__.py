"""How many instances and attempts a question needs, what they cost, and what a budget allows."""

from pipeline.planner.basis import Basis, Outcomes, Spread, of_facts, of_run
from pipeline.planner.choices import USUAL, VERIFIED, Budget, Choice, Cost, cost_of, offers, pick
from pipeline.planner.question import Question, apart, paired, within
from pipeline.planner.words import notes, recommendation, rests_on

__all__ = [
    "USUAL",
    "VERIFIED",
    "Basis",
    "Budget",
    "Choice",
    "Cost",
    "Outcomes",
    "Question",
    "Spread",
    "apart",
    "cost_of",
    "notes",
    "of_facts",
    "of_run",
    "offers",
    "paired",
    "pick",
    "recommendation",
    "rests_on",
    "within",
]
