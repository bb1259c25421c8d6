"""The rule that a store never answers one client with less than it had told it before.

An engine such as etcd counts its changes, and says with each answer how many the member that answers has applied. Reads
of some releases may be old: a member that lags answers from its own state. So an answer that is below what the client
had seen when it sent the request is not believed, and another member is asked. An election is a change that its winner
has seen. So the winner never begins with a head from before its election.

Another client may have seen more. Where reads may be old, a client first asks the member for a change of nothing.
Members order it as a change, so its answer is at or above each answer that any client had before.
"""

from leasehold.metastorage.tries import TryFailed


class SeenRevision:
    """The greatest revision of a store in any answer to one client."""

    def __init__(self) -> None:
        self.newest = 0

    def take(self, revision: int, *, asked_at: int) -> None:
        """Takes the revision of an answer to a request that was sent when `newest` was `asked_at`. Raises `TryFailed`
        for an old answer. An answer without a revision is not judged."""
        if 0 < revision < asked_at:
            why = f"its answer is of revision {revision}, below {asked_at}: it lags, or was set back"
            raise TryFailed(why, may_happen=True)
        self.newest = max(self.newest, revision)
