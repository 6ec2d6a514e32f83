"""The tests of a suite, one by one: what lists them and what runs them go over the same."""

from __future__ import annotations

import unittest


def tests_of(suite: unittest.TestSuite) -> list[unittest.TestCase]:
    """All tests of a suite and of those within it, in order."""
    found = []
    for each in suite:
        found += tests_of(each) if isinstance(each, unittest.TestSuite) else [each]
    return found
