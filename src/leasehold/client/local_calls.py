"""Calls of a reader to a node on its own file system, and the proof that it is there (`core/local`)."""

import os
from pathlib import Path
from typing import TypeVar

import msgspec
from pyarrow import flight

from leasehold.core.words.codec import encode
from leasehold.core.words.messages import AskLocalProof, LocalProof, LocalRenewed, Message, OpenLocal, Place, RenewLocal
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused, Unreachable
from leasehold.ids import ClusterId, NodeLogin, Revision
from leasehold.limits.local import LOCAL_PROOF_CALL_NS
from leasehold.storage.local_links import FOLDER, PROOF, PROOF_BYTES
from leasehold.wire.flight import LOCAL, calling, expect, reader_to, within
from leasehold.wire.tls import TlsSource

M = TypeVar("M", bound=Message)


class LocalNode(msgspec.Struct, frozen=True, eq=True):
    """A node, and who asks it: one renewal covers all opens of these."""

    cluster_id: ClusterId
    address: str
    name: str
    tls: TlsSource | None
    login: NodeLogin | None

    @classmethod
    def at(cls, place: Place, cluster_id: ClusterId, tls: TlsSource | None, login: NodeLogin | None) -> "LocalNode":
        return cls(cluster_id, place.address, place.name, tls, login)

    def proof(self, revision: Revision) -> tuple[Path, bytes]:
        """The folder of the node's links, and what proves that it is seen from here; `revision` shows the login. Raises
        `Refused` with code NOT_LOCAL, and what the node says."""
        request = AskLocalProof(cluster_id=self.cluster_id, login=self.login, revision=revision)
        path = Path(self.ask(request, LocalProof, LOCAL_PROOF_CALL_NS).path)
        try:
            if (path.parent.name, path.name) != (FOLDER, PROOF):
                raise FileNotFoundError
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
                content = file.read(PROOF_BYTES + 1)
            int(content, 16)  # nothing but such a proof leaves this machine
        except (OSError, ValueError) as error:
            raise Refused(
                f"the files of node {self.name} at {self.address} can't be opened from here",
                code=ErrorCode.NOT_LOCAL,
                hint="the rows are read over Flight; to read its files, run on its machine and as its user",
            ) from error
        return path.parent, content

    def renew(self, requests: tuple[str, ...], *, releases: bool, timeout_ns: int) -> LocalRenewed:
        request = RenewLocal(cluster_id=self.cluster_id, requests=requests, releases=releases, login=self.login)
        return self.ask(request, LocalRenewed, timeout_ns)

    def ask(self, request: AskLocalProof | OpenLocal | RenewLocal, kind: type[M], timeout_ns: int) -> M:
        """Raises what the node says, and `Unreachable`. Of the answers it takes only the first: a node that never ends
        them fills no memory."""
        with calling(self.address):
            client = reader_to(self.address, self.tls, self.name)
            answers = client.do_action(flight.Action(LOCAL, encode(request)), within(timeout_ns, request))
            found = next(iter(answers), None)
        if found is None:
            raise Unreachable(f"{self.address}: no answer", code=ErrorCode.BROKEN_STREAM)
        return expect(kind, found.body)
