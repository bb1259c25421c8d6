"""Which bucket a row belongs to: a hash of the value in the table's `cluster_by` column.

The numbers are part of the stored format: every writer must give a row the same bucket, or equal keys end up apart.
Golden values in the tests pin them. The hash is of the value, not of its type's width, so widening a column moves no
row: INT 5 and BIGINT 5, FLOAT 1.5 and DOUBLE 1.5, 1.50 and 1.5 agree.

    bucket  = hash mod buckets, and 0 for null
    hash    = mix(n) of a boolean (0, 1), an integer, a DATE in days, a TIMESTAMP in microseconds: n in 64 bits
              mix(bits of the IEEE 754 double), with one zero and one NaN
              chain of a string's UTF-8 or of binary, and of a decimal's text: its integer without trailing zeros,
              `e`, and the power of ten
    mix     = the finaliser of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014)
    chain   = h = mix(length), then h = mix(h xor w) for each little-endian 64-bit word w, the last one filled up
              with zeros; above CHAIN_BYTES_MAX bytes it is BLAKE2b with a digest of 8 bytes, little-endian
"""

import hashlib
from decimal import Decimal
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import BucketNumber
from leasehold.limits.statements import BUCKETS_MAX

CHAIN_BYTES_MAX: Final = 256
"""Part of the format, as everything here."""

_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2: Final = np.uint64(0x94D049BB133111EB)
_MAGNITUDE: Final = np.uint64(0x7FFFFFFFFFFFFFFF)
_INFINITY_BITS: Final = np.uint64(0x7FF0000000000000)
_NAN_BITS: Final = np.uint64(0x7FF8000000000000)

Hashes = npt.NDArray[np.uint64]


def bucket_numbers(column: pa.Array, buckets: int) -> npt.NDArray[np.int32]:
    """The bucket of each row, from 0 to `buckets` - 1. Raises `Refused` with code BAD_TYPE for a type that no table
    has."""
    assert 1 <= buckets <= BUCKETS_MAX
    numbers = (_hashes(column) % np.uint64(buckets)).astype(np.int32)
    if column.null_count:
        numbers[column.is_null().to_numpy(zero_copy_only=False)] = 0
    return numbers


def split(batch: pa.RecordBatch, field_index: int, buckets: int) -> dict[BucketNumber, pa.RecordBatch]:
    """The rows of `batch` by bucket, in their order; only buckets that got rows. The parts share memory; if all rows
    fall into one bucket, its part is `batch` itself."""
    if batch.num_rows == 0:
        return {}
    if buckets == 1:
        return {BucketNumber(0): batch}
    numbers = bucket_numbers(batch.column(field_index), buckets)
    counts = np.bincount(numbers, minlength=buckets)
    present = np.flatnonzero(counts)
    if len(present) == 1:
        return {BucketNumber(int(present[0])): batch}
    # On 16 bits NumPy sorts by radix.
    order = np.argsort(numbers.astype(np.uint16), kind="stable")
    ordered = batch.take(pa.array(order))
    starts = np.cumsum(counts) - counts
    return {BucketNumber(int(one)): ordered.slice(int(starts[one]), int(counts[one])) for one in present}


def _hashes(column: pa.Array) -> Hashes:
    """One hash for each row; any number for a null."""
    is_a, kind = pa.types, column.type
    if is_a.is_boolean(kind) or is_a.is_signed_integer(kind):
        return _mix(_integers(column.cast(pa.int64())))
    if is_a.is_date32(kind):
        return _mix(_integers(column.view(pa.int32()).cast(pa.int64())))
    if is_a.is_timestamp(kind) and kind.unit == "us":
        return _mix(_integers(column.view(pa.int64())))
    if is_a.is_float32(kind) or is_a.is_float64(kind):
        return _mix(_one_of_each(column.cast(pa.float64()).fill_null(0.0).to_numpy().view(np.uint64)))
    if is_a.is_string(kind) or is_a.is_binary(kind):
        return _of_bytes(column.cast(pa.large_binary()))
    if is_a.is_decimal(kind):
        return _of_decimals(column)
    raise Refused(
        f"rows can't be put into buckets by a column of type {kind}",
        code=ErrorCode.BAD_TYPE,
        hint="choose CLUSTERED BY a column of another type",
    )


def _integers(column: pa.Array) -> Hashes:
    return column.fill_null(0).to_numpy().view(np.uint64)


def _one_of_each(bits: Hashes) -> Hashes:
    """The bits of doubles with one zero and one NaN. They are compared as bits, since a signalling NaN may raise."""
    magnitude = bits & _MAGNITUDE
    return np.where(magnitude > _INFINITY_BITS, _NAN_BITS, np.where(magnitude == 0, magnitude, bits))


def _mix(values: Hashes) -> Hashes:
    """The step and finaliser of splitmix64, modulo 2**64."""
    mixed = values + _GAMMA
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX_1
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX_2
    return mixed ^ (mixed >> np.uint64(31))


def _of_bytes(column: pa.LargeBinaryArray) -> Hashes:
    _, offset_buffer, content_buffer = column.buffers()
    if len(column) == 0 or offset_buffer is None:
        return np.zeros(len(column), dtype=np.uint64)
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)[column.offset : column.offset + len(column) + 1]
    starts, sizes = offsets[:-1] - offsets[0], np.diff(offsets)
    content = np.zeros(int(offsets[-1] - offsets[0]) + 8, dtype=np.uint8)
    if content_buffer is not None:
        content[:-8] = np.frombuffer(content_buffer, dtype=np.uint8)[offsets[0] : offsets[-1]]
    # The 64-bit word that starts at each byte; the 8 zeros keep the last of them inside.
    words = np.ndarray(shape=(len(content) - 7,), dtype="<u8", buffer=content.data, strides=(1,))
    hashes = _mix(sizes.astype(np.uint64))
    short = np.flatnonzero(sizes <= CHAIN_BYTES_MAX)
    for at in range(0, CHAIN_BYTES_MAX, 8):
        short = short[sizes[short] > at]
        if len(short) == 0:
            break
        left = np.minimum(sizes[short] - at, 8).astype(np.uint64)
        unused_bits = (np.uint64(8) - left) * np.uint64(8)
        word = (words[starts[short] + at] << unused_bits) >> unused_bits
        hashes[short] = _mix(hashes[short] ^ word)
    for row in np.flatnonzero(sizes > CHAIN_BYTES_MAX):
        value = content[starts[row] : starts[row] + sizes[row]]
        hashes[row] = int.from_bytes(hashlib.blake2b(value.tobytes(), digest_size=8).digest(), "little")
    return hashes


def _of_decimals(column: pa.Array) -> Hashes:
    encoded = column.dictionary_encode()
    texts = [_canonical(value.as_py()) for value in encoded.dictionary]
    known = _of_bytes(pa.array(texts, pa.large_binary()))
    if len(known) == 0:
        return np.zeros(len(column), dtype=np.uint64)
    return known[encoded.indices.fill_null(0).to_numpy()]


def _canonical(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "a stored decimal is a number"
    text = "".join(map(str, digits)).lstrip("0")
    kept = text.rstrip("0")
    if not kept:
        return b"0e0"
    return f"{'-' if sign else ''}{kept}e{exponent + len(text) - len(kept)}".encode()
