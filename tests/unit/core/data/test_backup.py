"""How a client takes a backup, in virtual time: from whom, how often, and that no attempt is mixed with another."""

import asyncio

from leasehold.core.data.backup import take_backup
from leasehold.core.recovery.backup import BackupFacts
from leasehold.core.words.messages import AskBackup, ClusterFacts, Message, WhoAreYou
from leasehold.error_codes import ErrorCode
from leasehold.errors import Forbidden, Indefinite, NotLeader, Refused, Unreachable
from leasehold.ids import Generation, Term
from leasehold.limits.clients import ROLE_TIMEOUT_NS
from leasehold.limits.recovery import BACKUP_TRIES_MAX
from leasehold.testing.metastorage import MemoryMetaStorage, MemoryStore
from tests.backup_words import begin, file_of, messages_of
from tests.unit.core.data.coordinator_words import CLUSTER, SECONDS, Answer, Coordinators, ask


class Target:
    def __init__(self) -> None:
        self.blob = b""

    def clear(self) -> None:
        self.blob = b""

    def write(self, blob: bytes) -> None:
        self.blob += blob


async def told() -> list[Message]:
    storage = MemoryMetaStorage(MemoryStore())
    await begin(storage)
    return await messages_of(storage)


WHOLE = asyncio.run(told())
FACTS = ClusterFacts(cluster_id=CLUSTER, generation=Generation(1), term=Term(1), leader=True)
COMPACTED = Refused("compacted", code=ErrorCode.COMPACTED)


def take(*answers: list[Answer]) -> tuple[Coordinators, object, Target]:
    """Each attempt gets the next of these answers, the last ones all further ones."""
    left, target = list(answers), Target()

    def script(_address: str, request: Message) -> list[Answer]:
        if isinstance(request, WhoAreYou):
            return [FACTS]
        assert isinstance(request, AskBackup)
        return left.pop(0) if len(left) > 1 else left[0]

    port, end, _ = ask(script, lambda client: take_backup(client, SECONDS, target, lambda *_: None))
    port.asked = [one for one in port.asked if isinstance(one[1], AskBackup)]
    return port, end, target


def test_a_coordinator_that_hangs_is_left_before_its_pages_begin() -> None:
    target = Target()

    def script(address: str, request: Message) -> list[Answer] | None:
        if address == "a:1":
            return None
        return [FACTS] if isinstance(request, WhoAreYou) else [*WHOLE]

    _, end, took_ns = ask(script, lambda client: take_backup(client, SECONDS, target, lambda *_: None))
    assert isinstance(end, BackupFacts)
    assert took_ns < 2 * ROLE_TIMEOUT_NS


def test_it_writes_what_a_coordinator_sends() -> None:
    port, end, target = take([*WHOLE])
    assert isinstance(end, BackupFacts)
    assert end.end == WHOLE[-1]
    assert target.blob == file_of(WHOLE)
    assert len(port.asked) == 1


def test_an_answer_that_breaks_off_is_begun_anew_at_another_coordinator() -> None:
    for broken in (Unreachable("gone"), Indefinite("perhaps"), NotLeader("it stands by")):
        port, end, target = take([*WHOLE[:2], broken], [*WHOLE])
        assert isinstance(end, BackupFacts)
        assert target.blob == file_of(WHOLE)
        assert port.addresses[0] == "a:1"
        assert len(port.asked) == 2
    port, end, target = take([*WHOLE[:-1]], [*WHOLE])
    assert isinstance(end, BackupFacts)
    assert target.blob == file_of(WHOLE)


def test_one_that_compaction_overtakes_is_begun_anew_so_many_times() -> None:
    overtaken: list[Answer] = [*WHOLE[:2], COMPACTED]
    port, end, target = take(*[overtaken] * (BACKUP_TRIES_MAX - 1), [*WHOLE])
    assert isinstance(end, BackupFacts)
    assert target.blob == file_of(WHOLE)
    port, end, _ = take(overtaken)
    assert isinstance(end, Refused)
    assert (end.code, len(port.asked)) == (ErrorCode.COMPACTED, BACKUP_TRIES_MAX)
    assert "ALTER CLUSTER SET" in end.hint


def test_a_refusal_is_raised_at_once() -> None:
    port, end, _ = take([Forbidden("no")])
    assert isinstance(end, Forbidden)
    assert len(port.asked) == 1


def test_nobody_who_answers_is_unreachable() -> None:
    _, end, _ = take([Unreachable("gone")])
    assert isinstance(end, Unreachable)


def test_what_is_no_backup_is_refused() -> None:
    _, end, _ = take([WHOLE[0], WHOLE[-1]])
    assert isinstance(end, Exception)
    assert "cut or altered" in str(end)
