"""Errors as a test's own Flight server raises them, so that they reach a client as a node's do."""

from pyarrow import flight

from leasehold.core.words.codec import encode
from leasehold.errors import LeaseholdError
from leasehold.wire.flight_failures import told


def as_flight(error: LeaseholdError) -> flight.FlightServerError:
    """The error that carries `error`."""
    failure = told(error)
    return flight.FlightServerError(failure.code, encode(failure))
