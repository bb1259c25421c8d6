"""Suites that every backend of a contract is held to, unchanged."""

import pytest

pytest.register_assert_rewrite(
    "tests.conformance.metastorage_suite",
    "tests.conformance.metastorage_watch_suite",
    "tests.conformance.metastorage_life_suite",
)
