"""INV-ID-2: messages of an older incarnation change nothing.

"Older" is judged by what the leader itself has let in; the same incarnation under another session counts as older.
"""

from leasehold.core.grantor import AcceptSurrender, SendGrant
from leasehold.testing.news import Heard
from leasehold.testing.oracle import Oracle


def check(oracle: Oracle) -> str | None:
    """What a leader knew and did about a node, before and after it heard an older incarnation."""
    for news in oracle.of(Heard):
        message, held = news.message, news.before
        if held is None or message.incarnation > held.incarnation:
            continue
        if message.incarnation == held.incarnation and news.same_session:
            continue
        what = f"a {type(message).__name__} of incarnation {message.incarnation} of node {message.node}"
        if news.after != held:
            return f"{what} changed what is known of incarnation {held.incarnation}"
        if any(isinstance(effect, SendGrant | AcceptSurrender) for effect in news.effects):
            return f"{what} was answered as if it were incarnation {held.incarnation}"
    return None
