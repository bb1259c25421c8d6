"""What all tests need."""

import signal
from collections.abc import Generator

import pytest

from tests import overdue, shares
from tests.few import register_profiles

register_profiles()


def pytest_configure() -> None:
    """Ctrl-C is what many tests are about: also where the run began with it ignored, as `nohup make test &` does."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = set(shares.left_out(items))
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [one for one in items if one not in left_out]


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A part of the tests may be in other shares as a whole."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and shares.described():
        session.exitstatus = pytest.ExitCode.OK


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    watched = overdue.watched(item)
    try:
        return (yield)
    finally:
        watched.cancel()
