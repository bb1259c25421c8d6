"""The cases of recovery: how a node's projection gets from its vault's revision to the cluster's (docs/recovery.md).

The node subscribes at LV+1 and only then hears LM, so that nothing falls in between (R5). Four numbers and one hash
decide:

| case | when                                                      | what                                          |
| a    | LM = LV                                                   | the vault alone                               |
| b    | LM > LV, MM <= LV+1                                       | replay LV+1 .. LM in order                    |
| c    | MM > LV+1, or more revisions to replay than keys are live | a snapshot at S as one leap, then the stream  |
| c    | the hash at LV is not kept any more                       | the same, and every segment is verified       |
| d    | LM < LV, or another hash at LV                            | refuse, explain, offer a reset                |

Revisions are weighed against keys once: a node that has leapt replays the rest as long as it is kept. Where few keys
change fast, one snapshot would follow another without end.

The leader checks for case d before it lets a process in (`core/membership/admission.py`); the node checks again.
"""

from typing import TypeAlias

import msgspec

from leasehold.ids import Revision


class FromVault(msgspec.Struct, frozen=True, kw_only=True):
    """Case a: nothing has changed."""


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """Case b: the watch brings what is missing."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Case c: take a snapshot."""

    why: str


class Ahead(msgspec.Struct, frozen=True, kw_only=True):
    """Case d: this directory has applied what the cluster never had."""


Case: TypeAlias = FromVault | Replay | Snapshot | Ahead


def decide(
    *, applied: Revision, latest: Revision, minimum: Revision, live_keys: int, history_known: bool, leapt: bool
) -> Case:
    """Which case it is: `applied` is LV, `latest` LM, `minimum` MM; `live_keys` what a snapshot would have; `leapt`
    whether this recovery has taken one."""
    if latest < applied:
        return Ahead()
    if not history_known and applied > 0:
        return Snapshot(why=f"the history at revision {applied} is not kept any more")
    if latest == applied:
        return FromVault()
    if minimum > applied + 1:
        return Snapshot(why=f"revision {applied + 1} is compacted, the oldest kept is {minimum}")
    if not leapt and latest - applied > live_keys:
        return Snapshot(why=f"{latest - applied} revisions are more than {live_keys} keys")
    return Replay()
