"""What all tests need."""

import signal
from collections.abc import Generator

import pytest

from tests import overdue
from tests.few import register_profiles

register_profiles()


def pytest_configure() -> None:
    """Ctrl-C is what many tests are about: also where the run began with it ignored, as `nohup make test &` does."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    watched = overdue.watched(item)
    try:
        return (yield)
    finally:
        watched.cancel()
