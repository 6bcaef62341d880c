"""Which store to take, and why."""

from storewise.analysis.verdict.decision import verdict as verdict
