"""Questions about statements of others, by strangers and by a user without rights: nothing is told."""

from collections import Counter

import pytest

from leasehold.core.words.messages import AskOutcome, AskReceipts, Execute, Message, Receipt
from leasehold.errors import LeaseholdError
from leasehold.ids import LoginToken, StatementId
from leasehold.limits.clients import CALL_TIMEOUT_NS
from leasehold.limits.statements import RECEIPTS_PAGE_MAX
from leasehold.wire.blocking import BlockingConnection
from leasehold.wire.entropy import SystemEntropy
from tests.attacks.ground import NOBODY, ROOT, Ground

pytestmark = pytest.mark.processes

TRIES = 30
drawn = SystemEntropy().hex_128


def test_outcomes_and_receipts_of_statements_of_others(ground: Ground, scale: int) -> None:
    connection = BlockingConnection(ground.coordinator)

    def asked(request: Message) -> str:
        try:
            answer = connection.call(request, CALL_TIMEOUT_NS)
        except LeaseholdError as error:
            return error.code
        return type(answer).__name__

    with ground.connect(ROOT) as root, ground.connect(NOBODY) as nobody:
        root.sql("SHOW DATABASES")
        nobody.sql("SHOW DATABASES")
        known = StatementId(drawn())
        text = f"CREATE DATABASE IF NOT EXISTS d_{known}"
        done = connection.call(Execute(cluster_id=None, statement=known, text=text, login=root.token), CALL_TIMEOUT_NS)
        assert isinstance(done, Receipt)
        logins = {"nobody has logged in": None, "made up": LoginToken(drawn()), "without rights": nobody.token}
        ended = {name: Counter[str]() for name in logins}
        with ground.attacked():
            for _ in range(TRIES * scale):
                for name, login in logins.items():
                    for request in (
                        AskOutcome(cluster_id=None, statement=known, login=login),
                        AskOutcome(cluster_id=None, statement=StatementId(drawn()), login=login),
                        AskReceipts(after=0, limit=RECEIPTS_PAGE_MAX, login=login),
                    ):
                        ended[name][asked(request)] += 1
    tries = TRIES * scale
    assert ended["nobody has logged in"] == ended["made up"] == {"UNAUTHENTICATED": 3 * tries}
    assert ended["without rights"] == {"FORBIDDEN": 2 * tries, "NO_STATEMENT": tries}
