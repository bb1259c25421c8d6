"""`leasehold node remove` and `leasehold node adopt`."""

import asyncio
from pathlib import Path

from leasehold.certificates.names import CertificateRole
from leasehold.cli.config import coordinator_addresses
from leasehold.cli.login import connected
from leasehold.cli.output import Countdown, Line, Output, note, say, show_json
from leasehold.client.coordinators import Coordinators
from leasehold.client.locate import KEY_FILE
from leasehold.core.membership.proofs import derive_keys
from leasehold.core.words.messages import NodeRemoved
from leasehold.errors import typed
from leasehold.limits.units import SECOND_NS
from leasehold.node.directory.adoption import Adopted, adopt_directory
from leasehold.wire import cluster_key
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.rpc_client import GrpcTransport
from leasehold.wire.tls import own_tls


def remove(directory: Path, user: str | None, name: str, *, force: bool, output: Output, timeout: str | None) -> None:
    """Raises the leader's errors."""
    with connected(Coordinators, directory, user, timeout=timeout) as cluster, Countdown() as countdown:
        removed = cluster.remove_node(name, force=force, on_wait=countdown.update)
    if output is Output.JSON:
        show_json(
            {
                "node": removed.name,
                "id": removed.node,
                "revision": removed.revision,
                "buckets": removed.buckets,
                "lost_segments": removed.lost,
                "already": removed.already,
            }
        )
    else:
        _tell_removed(removed)


def _tell_removed(removed: NodeRemoved) -> None:
    who = f"{removed.name} (id {removed.node})"
    if removed.already:
        say(f"{who} was already removed")
        return
    say(f"{who} was removed at revision {removed.revision}")
    if removed.buckets:
        note(f"{removed.buckets} buckets get another replica if there are enough nodes")
    if removed.lost:
        note(f"the rows of {removed.lost} segments are lost: scans of their tables end with SEGMENTS_LOST")
        note("`leasehold forget-lost TABLE` gives up the lost rows of a table, so that its other rows can be read")
    note(f"the name {removed.name} is free for a new node; its old directory can't join any more")


def adopt(
    directory: Path, coordinators: tuple[str, ...], key_file: Path | None, tls: Path | None, output: Output
) -> None:
    """Without a `key_file`, it uses the key beside the directory, where `leasehold up` puts it.

    Raises what is wrong with the directory or the key, and the leader's errors.
    """
    coordinators = coordinator_addresses(coordinators)
    beside = directory.absolute().parent / KEY_FILE
    file = key_file or (beside if beside.exists() else None)
    keys = None if file is None else derive_keys(*cluster_key.read(file))

    with Line() as line:

        def waiting(at_most_ns: int) -> None:
            seconds = at_most_ns / SECOND_NS
            line.show(f"waiting for the lease of its newest process to end, {seconds:.1f} s", "waiting")

        async def run() -> Adopted:
            return await adopt_directory(
                directory,
                coordinators,
                transport=GrpcTransport(None if tls is None else own_tls(tls, CertificateRole.NODE)),
                clock=BoottimeClock(),
                entropy=SystemEntropy(),
                on_wait=waiting,
                keys=keys,
            )

        adopted = asyncio.run(run())
    if output is Output.JSON:
        show_json(
            {
                "node": adopted.name,
                "id": adopted.node,
                "incarnation": adopted.incarnation,
                "before": adopted.before,
                "changed": adopted.changed,
                "kept": None if adopted.kept is None else str(adopted.kept),
            }
        )
        return
    if not adopted.changed:
        say(f"{directory} is the newest directory of {adopted.name} (id {adopted.node}): nothing to adopt")
        return
    say(
        f"{directory} continues as {adopted.name} (id {adopted.node}): it was at incarnation {adopted.before},"
        f" the newest is {adopted.incarnation}"
    )
    note(
        f"`leasehold node start --dir {typed(directory)} ..` joins with the next incarnation, verifies each segment"
        " and fetches what it lacks; after that start no other copy of this node can join; do not start another copy"
        " before"
    )
    if adopted.kept is not None:
        say(f"the old files are kept in {adopted.kept}")
        note(
            "when the node serves, it deletes what the cluster does not know; that folder keeps it:"
            f" `leasehold node start --standalone --dir {typed(adopted.kept)}` shows it, and --export gets its rows;"
            " delete the folder when it is not needed any more"
        )
