"""The end of a process, as its supervisor reports it: why that closes an incarnation without a wait.

A lease is waited out because nobody can know from afar whether a silent process still serves. The kernel of its
machine knows. The parent of the process, its **supervisor** (`cli/supervisor.py`), learns from the kernel that the
process has ended only once every one of its threads is gone: the pidfd is readable, and `waitpid` returns, when that is
so for the whole thread group. From then on no guard of this process runs, so nothing more is released. What still lies
in the buffers of sockets was released under the lease before. It is as late as any batch that the network delays. A
node starts no process that serves.

So the supervisor's report says what a surrender says, and the leader closes the incarnation in the same way. Nothing
else may: a refused connection, or the silence of a process, proves nothing.

The **end proof** shows that a report is of this very process. It follows from the token and the session of the process,
so the node can make it, and the leader that lets the node in. Other nodes know the session but not the token. The
record of the node has only the hash of the proof, by which each later leader can check it. A proof is sent only after
the end that it proves, and opens no session: a stranger who overhears it gains nothing.
"""

import hashlib
import hmac
from typing import Final

from leasehold.ids import Session, Token

_PURPOSE: Final = b"leasehold/process-end/1:"


def end_proof(token: Token, session: Session) -> bytes:
    """What a report of the end of this process has to show."""
    return hmac.digest(token.encode(), _PURPOSE + session.encode(), "sha256")


def end_hash(proof: bytes) -> bytes:
    """What the record of a node holds of the end proof of its newest process."""
    return hashlib.sha256(proof).digest()


def proves_end(proof: bytes, known: bytes) -> bool:
    """Whether the proof is that of the process with this hash. A process of an older version has none: b""."""
    return bool(known) and hmac.compare_digest(end_hash(proof), known)
