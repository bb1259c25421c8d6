"""INV-ID-2: messages of an older incarnation change nothing.

"Older" is judged by what the leader itself has let in; the same incarnation under another session counts as older.
"""

from leasehold.core.grantor import AcceptSurrender, SendGrant
from leasehold.testing.oracle import Heard, Oracle


def check(oracle: Oracle) -> str | None:
    """What a leader knew and did about a node, before and after it heard an older incarnation."""
    for news in oracle.news:
        if not isinstance(news, Heard) or news.before is None:
            continue
        message, held = news.message, news.before
        same = message.incarnation == held.incarnation and message.session.encode() == held.session_hash
        if same or message.incarnation > held.incarnation:
            continue
        what = f"a {type(message).__name__} of incarnation {message.incarnation} of node {message.node}"
        if news.after != held:
            return f"{what} changed what is known of incarnation {held.incarnation}"
        if any(isinstance(effect, SendGrant | AcceptSurrender) for effect in news.effects):
            return f"{what} was answered as if it were incarnation {held.incarnation}"
    return None
