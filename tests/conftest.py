"""What all tests need."""

import signal

from tests.few import register_profiles

register_profiles()


def pytest_configure() -> None:
    """Ctrl-C is what many tests are about: also where the run began with it ignored, as `nohup make test &` does."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
