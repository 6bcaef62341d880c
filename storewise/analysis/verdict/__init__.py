"""The verdict: the store to take, and the reasons."""

from storewise.analysis.verdict.decision import verdict as verdict
