"""The words of the page of results."""

INTRODUCTION = """
# The paper's experiments, reproduced
"""

NOTES: dict[str, str] = {}

REASONS: dict[str, str] = {}
