"""Tells the transport who asks, so that strangers who flood the coordinator do not keep that host out."""

from leasehold.core.words.records import PrincipalRecord
from leasehold.wire.ports import CALLER, WHO_ASKS


def tell_who_asks(user: PrincipalRecord | None) -> None:
    """A request of this user was found to be allowed; None in a cluster without users."""
    caller = CALLER.get()
    if user is not None:
        WHO_ASKS.get()(f"user {user.name}")
    elif caller is not None and caller.name:
        WHO_ASKS.get()(str(caller))
