"""A forked child of a process that has used Flight is told so instead of waiting for ever."""

import os

import pytest

from leasehold.errors import Definite
from leasehold.wire.flight import reader_to, writer_to


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_refused() -> None:
    reader_to("127.0.0.1:1")
    child = os.fork()
    if child == 0:
        told = 0
        for connect in (reader_to, writer_to):
            try:
                connect("127.0.0.1:1")
            except Definite as error:
                told += error.code == "FORKED"
        os._exit(0 if told == 2 else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
