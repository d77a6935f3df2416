"""Checks of claims: accuracy, coverage, counts, damage, hostile input."""
