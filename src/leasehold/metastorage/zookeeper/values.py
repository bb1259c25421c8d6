"""The values of several nodes in one request: `multiRead` of ZooKeeper 3.6, which kazoo has no words for.

kazoo takes about half a millisecond of a processor for each request, mostly since two threads hand it over. A log is
read in hundreds of thousands of values.
"""

from collections.abc import Sequence
from typing import Any, Final

from kazoo.exceptions import EXCEPTIONS, NoNodeError
from kazoo.protocol.serialization import GetData, MultiHeader, int_struct, read_buffer, stat_struct
from kazoo.protocol.states import ZnodeStat

Found = tuple[bytes, ZnodeStat]
_ERROR: Final = -1


class ReadValues:
    """A request as kazoo sends it."""

    type: Final = 22

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = tuple(paths)

    def serialize(self) -> bytes:
        """kazoo puts the header before it."""
        words = [
            MultiHeader(GetData.type, False, -1).serialize() + GetData(path, None).serialize() for path in self._paths
        ]
        return b"".join((*words, MultiHeader(-1, True, -1).serialize()))

    def deserialize(self, answer: bytes, offset: int) -> list[Found | None]:
        """What each node holds, None where there is none. Raises what a member answers about a node that it does not
        read, and `ValueError` for what is no answer."""
        found: list[Found | None] = []
        header, offset = _header(answer, offset)
        while not header.done:
            if header.type == GetData.type:
                value, offset = read_buffer(answer, offset)
                found.append((value or b"", ZnodeStat(*stat_struct.unpack_from(answer, offset))))
                offset += stat_struct.size
            elif header.type == _ERROR:
                (code,) = int_struct.unpack_from(answer, offset)
                offset += int_struct.size
                error: Any = EXCEPTIONS[code]()
                if not isinstance(error, NoNodeError):
                    raise error
                found.append(None)
            else:
                raise ValueError(f"an answer of kind {header.type}")
            header, offset = _header(answer, offset)
        if len(found) != len(self._paths):
            raise ValueError(f"{len(found)} answers to {len(self._paths)} questions")
        return found


def _header(answer: bytes, offset: int) -> tuple[Any, int]:
    return MultiHeader.deserialize(answer, offset)
