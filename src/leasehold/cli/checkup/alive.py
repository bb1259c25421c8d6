"""What the node or coordinator that uses a directory answers of itself."""

from pathlib import Path
from typing import NamedTuple

import msgspec

from leasehold.client.trust import trusted_by
from leasehold.core.words.addresses import LOCALHOST, is_everywhere
from leasehold.core.words.messages import ClusterFacts, FlightCaller, NodeStatus, WhoAreYou
from leasehold.errors import BadDirectory, LeaseholdError, Unreachable
from leasehold.limits.processes import HEALTH_TIMEOUT_NS
from leasehold.limits.units import SECOND_NS
from leasehold.local.files import read_address
from leasehold.vault.format import FILE_NAME
from leasehold.wire.addresses import host_port, split
from leasehold.wire.blocking import BlockingConnection
from leasehold.wire.flight import ask_health
from leasehold.wire.tls import Tls, read_tls


class Health(NamedTuple):
    """What a process answers of itself. `state` is that of a node's lease, LEADER or FOLLOWER of a coordinator, or the
    code of the error with which it declines."""

    process: str
    address: str
    state: str
    text: str = ""


def health_of(directory: Path, bundle: Path | None) -> Health:
    """Asks the process of this machine that uses the directory. Raises `BadDirectory`, and `Unreachable` if it does not
    answer within HEALTH_TIMEOUT_NS."""
    listening = read_address(directory)
    if listening is None:
        raise BadDirectory(
            f"no process has listened for {directory}",
            hint="name the directory of a node or a coordinator; a process that starts listens in a moment",
        )
    address, trusted = _from_here(listening), trusted_by(directory, bundle)
    tls = None if trusted is None else read_tls(trusted)
    is_node = (directory / FILE_NAME).exists()
    return _node(address, tls) if is_node else _coordinator(address, tls)


def _from_here(listening: str) -> str:
    """The address of a process that listens there, for this machine."""
    if not is_everywhere(listening):
        return listening
    host, port = split(listening)
    return host_port("::1" if ":" in host else LOCALHOST, port)


def _node(address: str, tls: Tls | None) -> Health:
    said = ask_health(address, HEALTH_TIMEOUT_NS, FlightCaller(), tls)
    if not said:
        raise Unreachable(
            f"the node at {address} does not answer within {HEALTH_TIMEOUT_NS / SECOND_NS:g} s",
            hint="see its log; with TLS, give its own --tls",
        )
    status = msgspec.json.decode(said, type=NodeStatus)
    return Health("node", address, status.state, f"revision {status.applied_revision}")


def _coordinator(address: str, tls: Tls | None) -> Health:
    connection = BlockingConnection(address, tls)
    try:
        facts = connection.call(WhoAreYou(), HEALTH_TIMEOUT_NS)
    except Unreachable:
        raise
    except LeaseholdError as error:
        return Health("coordinator", address, str(error.code), error.text)
    finally:
        connection.close()
    leads = isinstance(facts, ClusterFacts) and facts.leader
    return Health("coordinator", address, "LEADER" if leads else "FOLLOWER")
