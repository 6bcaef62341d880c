"""The decision: which store, how sure. `decide` is the rule; `compare` compares old and new.

The rule, point by point, and where it is:

1. A round is a repeat of all settings in random order; it may be good or bad for all (`model.fit`).
2. One number for each trial and criterion; their weighted logarithms are the score of a store and
   round (`standing.logarithms`, `decide.decide`).
3. Score = store + round + error, without rounds where too few degrees of freedom would be left; the
   error is pooled, or a store's own where that is larger (`model.fit`).
4. "Take X": better than each other by Student's t, and at least 1.2 times as good; else "A or B",
   without those that are 1.2 times worse and beyond Tukey's value (`decide.judge`).
5. Sure: the chance that no other is over 1.2 times as good as a named one (`decide.judge`), at most
   what short phases, other work and single runs allow (`decide._caps`).
6. One deployment for all criteria, at the largest common volume; a store that lacks a criterion is
   set aside (`standing.gather`, `standing.stand`).
7. Counts have no error (`standing.logarithms`); crash losses are a condition (`decide._losses`).
"""

from storewise.analysis.decision.compare import compare
from storewise.analysis.decision.decide import Conditions, Decision, decide
from storewise.analysis.decision.standing import Criterion

__all__ = ["Conditions", "Criterion", "Decision", "compare", "decide"]
