"""Runs the scenarios of tests/scenarios: real targets, a real profd, and what both say."""
