"""Segment files as nodes of other versions write them."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from leasehold.core.words.records import SegmentFormat
from leasehold.node.serving import streams
from leasehold.storage.segment_encoder import SegmentEncoder


@contextmanager
def writing(in_format: SegmentFormat) -> Iterator[None]:
    """Meanwhile all nodes of this process write segments of that format."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "SegmentEncoder", partial(SegmentEncoder, in_format=in_format))
        yield
