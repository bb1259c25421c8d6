"""Hand-made histories: what a store, vaults, disks and clients would tell an oracle, one statement of it at a time."""

from collections import Counter

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.lease.holder import NO_LEASE, Lease, Pass
from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.lineage import GENESIS, next_lineage
from leasehold.core.words.messages import Cutoff
from leasehold.core.words.operations import Change, RevisionChanges
from leasehold.core.words.records import (
    BarrierReceipt,
    LeaderRecord,
    Step,
    TransactionState,
)
from leasehold.testing.leases.ground import SETTINGS
from leasehold.testing.news import (
    DiskImage,
    LeaderSeen,
    Leased,
    Proceeded,
    ProcessEnded,
    Reported,
    Spoke,
    VaultChanged,
    Viewed,
)
from leasehold.testing.oracle import Oracle
from leasehold.testing.vault import VaultStep
from leasehold.testing.write_news import Wrote
from tests.sim.record_words import (
    SECOND_NS,
    bucket,
    counters,
    hex_128,
    key_of,
    procedure,
    segment,
    segment_id,
    statement,
    table,
    transaction,
)


class TrueClock:
    """Reads real time."""

    def real_ns(self, local_ns):
        return local_ns


class Process:
    """A node's process as an oracle sees it."""

    def __init__(self, number=1, incarnation=1):
        self.name = f"n{number}"
        self.node = number
        self.incarnation = incarnation
        self.lease = NO_LEASE
        self.view = Catalog()

    def lease_ends_ns(self):
        return self.lease.deadline_ns


class Segments:
    """A segment disk that holds what it is told to."""

    def __init__(self):
        self.files = set()

    def holds(self, table, bucket, segment):
        return (table, bucket, segment) in self.files


class Vault:
    """A directory that holds what it is told to."""

    def __init__(self):
        self.image = self.durable = DiskImage()


class Told:
    """An oracle and its world, one second after the other; `n1` .. `n3` have vaults and segment disks."""

    def __init__(self, invariants):
        self.real_ns = 0
        self.oracle = Oracle(invariants, now_ns=lambda: self.real_ns, seed=1, command="again")
        self.revision = 0
        self.statements = 0
        self.lineage = GENESIS
        self.vaults = {f"n{number}": Vault() for number in (1, 2, 3)}
        self.disks = {f"n{number}": Segments() for number in (1, 2, 3)}
        self.oracle.vaults.update(self.vaults)
        self.oracle.disks.update(self.disks)
        self.oracle.nodes.update({"n1": 1, "n2": 2, "n3": 3})

    def step(self):
        """Everything told so far is looked at."""
        self.oracle.check()
        self.real_ns += SECOND_NS

    def commit(self, *records, gone=(), lineage=None):
        """One revision of the store; `gone` are records whose keys are deleted."""
        changes = [Change(key_of(one), encode(one)) for one in records] + [Change(key_of(one), None) for one in gone]
        self.lineage = next_lineage(self.lineage, changes) if lineage is None else lineage
        changes.append(Change(keys.LINEAGE, self.lineage))
        self.revision += 1
        self.oracle.committed(RevisionChanges(self.revision, tuple(sorted(changes, key=lambda one: one.key))))
        self.step()
        return self.revision

    def elect(self, term, holder="c1"):
        record = LeaderRecord(generation=1, term=term, holder=holder, beat=0, duration_ns=0)
        self.revision += 1
        self.oracle.committed(RevisionChanges(self.revision, (Change(keys.LEADER, encode(record)),)))
        self.step()

    def process(self, number=1, *, revision=0, leased_s=0.0, term=1):
        """A process with a view, and a lease for so long from now."""
        process = Process(number)
        process.view = self.catalog(revision)
        if leased_s:
            process.lease = Lease(term=term, sequence=1, deadline_ns=self.real_ns + round(leased_s * SECOND_NS))
        self.oracle.began(process)
        return process

    def catalog(self, revision):
        """What replay gives."""
        history = self.oracle.history
        items = [Change(key, value) for key, value in history.fold_at(revision).items()]
        return Catalog.restored(revision, history.lineage_at(revision), items)

    def publish(self, process, view):
        process.view = view
        self.oracle.saw(Viewed(process=process, view=view))
        self.step()

    def proceeded(self):
        """A barrier proceeds for all that there is."""
        receipt = BarrierReceipt(revision=self.revision, term=1, sequence=1, settled=())
        leader = LeaderSeen(name="c1", term=1, clock=TrueClock(), grantor=None, due_floor=0)
        self.oracle.saw(Proceeded(leader=leader, receipt=receipt))
        self.step()

    def said(self, text, *records, gone=(), hides=()):
        """A statement's first transaction: what it wrote, with its procedure; answers its number."""
        self.statements += 1
        number, step = self.statements, Step.PRE_STATE if hides else Step.PUBLISHED
        began = (procedure(step, hides, text, number), statement(text=text, number=number))
        self.commit(*records, *began, gone=gone)
        return number

    def shows(self):
        """A node publishes what replay of all that there is gives."""
        process = self.process(revision=self.revision)
        self.publish(process, process.view)

    def answers(self, revision, *tables, floor):
        """A coordinator answers as of a revision that there are these tables; `floor` is what anybody had been told."""
        self.oracle.catalog_read("c2", revision, floor, frozenset(tables))
        self.step()

    def release(self, login_hash=None, rows=(), through=(), segment=None):
        """A guard lets a batch of table 5, read through these views, pass on the newest view."""
        process = self.process(revision=self.revision, leased_s=1)
        passed = Pass(view=process.view, lease=process.lease, released_ns=self.real_ns)
        self.oracle.passed(process, passed, 5, login_hash, rows, through, segment=segment or segment_id(7))
        self.step()

    def lease(self, process, seconds=1.0):
        process.lease = Lease(term=1, sequence=1, deadline_ns=self.real_ns + round(seconds * SECOND_NS))
        self.oracle.saw(Leased(process=process, lease=process.lease, showing=process.view.revision))
        self.step()

    def identity(self, record, host="n1", directory=1, step=VaultStep.WRITTEN):
        """A vault's identity record becomes durable."""
        vault = self.vaults[host]
        self.hold(msgspec.structs.replace(vault.image, identity=record), host, directory, step)

    def hold(self, image, host="n1", directory=1, step=VaultStep.WRITTEN, durable=None):
        """A vault is as given after a step."""
        vault = self.vaults[host]
        vault.image, vault.durable = image, durable or image
        self.oracle.saw(
            VaultChanged(host=host, directory=directory, step=step, image=vault.image, durable=vault.durable)
        )
        self.step()

    def image(self, revision, host="n1", **changes):
        """What a vault should hold at a revision."""
        history = self.oracle.history
        items = dict(history.fold_at(revision).items())
        identity = self.vaults[host].image.identity
        image = DiskImage(identity=identity, applied=revision, lineage=history.lineage_at(revision), items=items)
        return msgspec.structs.replace(image, **changes)

    def go_on(self, incarnation, host="n1"):
        identity = self.vaults[host].durable.identity
        self.oracle.saw(Spoke(host=host, node=1, incarnation=incarnation, identity=identity))
        self.step()

    def keep(self, one, *hosts):
        """A segment file lies on these disks."""
        for host in hosts:
            self.disks[host].files.add((one.table, one.bucket, one.id))

    def remove(self, one, host="n1"):
        """A segment file leaves a disk."""
        self.disks[host].files.discard((one.table, one.bucket, one.id))
        self.oracle.removed(host, one.table, one.bucket, one.id)
        self.step()

    def ended(self, incarnation, session_hash, code="SUPERSEDED", number=1):
        """A node's process ends by itself."""
        record = self.oracle.history.records.get(keys.node(number))
        self.oracle.saw(
            ProcessEnded(
                host=f"n{number}",
                node=number,
                incarnation=incarnation,
                session_hash=session_hash,
                code=code,
                text="why",
                record=record,
            )
        )
        self.step()

    def report(self, one, number=1, incarnation=1):
        """A node tells of a segment that it holds; without one, that the table is gone from its disk."""
        bucket, segments = (None, ()) if one is None else (one.bucket, (one.id,))
        self.oracle.saw(Reported(node=number, incarnation=incarnation, table=5, bucket=bucket, segments=segments))
        self.step()

    def written(self, one=None, hosts=("n1", "n2"), settings=SETTINGS):
        """A table with one committed segment, which every vault knows of."""
        one = segment() if one is None else one
        self.commit(settings, counters(), table(), bucket(1, 2))
        self.commit(transaction(TransactionState.OPEN, rows=0))
        self.keep(one, *hosts)
        self.commit(transaction(), one)
        for host in self.vaults:
            self.hold(self.image(self.revision, host), host, directory=int(host[1:]))
        return one

    def answer(self, what):
        self.oracle.answered(hex_128(1), what)
        self.step()

    def scan(self, rows, revision=None, cutoff=None, deletes=1):
        gone = None if cutoff is None else Cutoff(revision=cutoff, deletes=deletes)
        self.oracle.scanned(5, self.revision if revision is None else revision, rows, gone)
        self.step()

    def wrote(self, **rows):
        """What a client has put into the segment of most histories."""
        self.writes(7, Counter(rows), {segment_id(7): Counter(rows)})

    def writes(self, number, rows, segments, **replaced):
        self.oracle.saw(Wrote(transaction=hex_128(number), table=5, rows=rows, segments=segments, **replaced))
        self.step()
