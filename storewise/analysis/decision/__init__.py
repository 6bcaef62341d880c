"""The decision: which store, how sure. `decide` is the rule; `compare` tells old from new."""

from storewise.analysis.decision.compare import compare
from storewise.analysis.decision.decide import Conditions, Decision, decide
from storewise.analysis.decision.standing import Criterion

__all__ = ["Conditions", "Criterion", "Decision", "compare", "decide"]
