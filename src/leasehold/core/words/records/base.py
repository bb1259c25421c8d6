"""The root of all records."""

import msgspec


class Record(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="t",
    forbid_unknown_fields=True,
    omit_defaults=True,
    gc=False,  # no record can hold itself: the collector need not walk through a million of them
):
    """Base of everything stored. A field that came later has a default, which is not written."""
