"""Breaks of what a certificate lets its holder ask."""

from tests.mutants.model import Mutant
from tests.mutants.patch import Edit

CALLERS = "tests/unit/core/access/test_callers.py"
CERTIFIED = "tests/scenarios/test_certified.py"
AUTHORISED = "tests/unit/node/serving/test_authorised.py"
TLS = "tests/unit/wire/test_tls.py"
REVOKED = "tests/scenarios/test_revoked.py"
NAMED = "tests/unit/client/test_named_nodes.py"
PEERS = "tests/unit/node/serving/test_named_peers.py"
STREAMS = "tests/unit/node/serving/test_revoked_streams.py"

MUTANTS = (
    Mutant(
        name="a node believed under the certificate of another",
        invariant="INV-ID-2",
        rule="what is asked with the token or session of a node is asked by the node that the certificate names",
        edits=(Edit("check_sender", "record is not None and not caller.is_node(record.name)", "False"),),
        hunters=(CALLERS, CERTIFIED),
        unseen="a random cluster has no certificates",
    ),
    Mutant(
        name="a name claimed with the certificate of another",
        invariant="INV-ID-1",
        rule="a node gets an id under the name that its certificate has",
        edits=(Edit("check_caller", "not caller.is_node(name)", "False"),),
        hunters=(CALLERS, CERTIFIED),
        unseen="a random cluster has no certificates",
    ),
    Mutant(
        name="a node taken over by the certificate of another and a copy of its directory",
        invariant="INV-ID-2",
        rule="the node that a token or a number is of has the name of the certificate",
        edits=(Edit("check_caller", "of_it is not None", "False"),),
        hunters=(CALLERS,),
        unseen="a random cluster has no certificates",
    ),
    Mutant(
        name="members' questions without a certificate of one",
        invariant="INV-ID-1",
        rule="only a caller with the certificate of a process asks what processes ask each other",
        edits=(Edit("_need_member", "not caller.is_member", "False"),),
        hunters=(CALLERS,),
        unseen="a random cluster has no certificates",
    ),
    Mutant(
        name="an open cluster that serves strangers",
        invariant="INV-ID-1",
        rule="without users a server answers other machines only with a certificate",
        edits=(Edit("check_person", "caller is not None and not catalog.users", "False"),),
        hunters=(CALLERS, CERTIFIED),
        unseen="a random cluster has no certificates",
    ),
    Mutant(
        name="a leader that does not look at certificates",
        invariant="INV-ID-2",
        rule="a leader looks at the caller before anything else of a request",
        edits=(Edit("Leader._admit", "check_caller(request, CALLER.get(), self._writer.catalog)", ""),),
        hunters=(CERTIFIED,),
        unseen="a random cluster has no certificates",
    ),
    Mutant(
        name="a session that does not look at certificates",
        invariant="INV-ID-2",
        rule="a session is opened by the node that its certificate names",
        edits=(Edit("Sessions.serve", "check_caller(opening, caller, self._catalog())", ""),),
        hunters=(CERTIFIED,),
        unseen="a random cluster has no certificates",
    ),
    Mutant(
        name="strangers among the known callers of a node",
        invariant="INV-ID-1",
        rule="a node reads first messages of callers who may ask nothing only in the places of strangers",
        edits=(Edit("NodeFlight.who_calls", "check_person(caller, view)", ""),),
        hunters=(AUTHORISED,),
        unseen="a random cluster has no certificates",
    ),
    Mutant(
        name="a certificate of another cluster",
        invariant="INV-ID-1",
        rule="a certificate counts only with the authority of this cluster in its name",
        edits=(Edit("_certified", "name.authority != authority", "False"),),
        hunters=(TLS,),
        unseen="a random cluster has no certificates",
    ),
    Mutant(
        name="a revoked certificate that counts",
        invariant="INV-ID-2",
        rule="a certificate whose serial number is revoked is refused whatever it asks",
        edits=(Edit("check_not_revoked", "caller.serial in catalog.revoked_certificates", "False"),),
        hunters=(CALLERS, REVOKED),
        unseen="a random cluster has no certificates",
    ),
    Mutant(
        name="a removed node that comes back by its old certificate",
        invariant="INV-ID-1",
        rule="the name of a removed node is free only for a certificate that is issued later",
        edits=(Edit("is_too_old", "begins_s < known.from_s", "False"),),
        hunters=(CALLERS, REVOKED),
        unseen="a random cluster has no certificates",
    ),
    Mutant(
        name="a removal that leaves the name to old certificates",
        invariant="INV-ID-1",
        rule="a removal notes since when certificates of the name count",
        edits=(Edit("Removal._remove", "certified_later(record.name, catalog, self._wall_us())", "*()"),),
        hunters=(REVOKED,),
        unseen="a random cluster has no certificates",
    ),
    Mutant(
        name="a name up to its zero byte",
        invariant="INV-ID-2",
        rule="a caller is whom the whole name in its certificate names",
        edits=(Edit("_certified", "uris_of(certificate) != [name.uri]", "False"),),
        hunters=(
            "tests/unit/wire/test_random_certificates.py::test_a_certificate_admits_whom_it_names_and_nobody_else",
        ),
        unseen="a random cluster has no certificates",
    ),
    Mutant(
        name="a session that outlives its certificate",
        invariant="INV-ID-2",
        rule="a leader ends the sessions of a certificate once it is revoked",
        edits=(Edit("Leader._committed", "self._sessions.committed(batch, catalog)", ""),),
        hunters=(REVOKED,),
        unseen="a random cluster has no certificates",
    ),
    Mutant(
        name="a stream that outlives its certificate",
        invariant="INV-ID-2",
        rule="a node looks at the certificate of a caller again with each message of a stream",
        edits=(Edit("NodeFlight.check_counts", "check_counts(caller, self._published.view)", "pass"),),
        hunters=(STREAMS,),
        unseen="a random cluster has no certificates",
    ),
    Mutant(
        name="a cluster id by the certificate of a node",
        invariant="INV-ID-1",
        rule="a new meta storage gets its cluster from a coordinator or a client",
        edits=(Edit("check_founder", "caller is not None and caller.role is CallerRole.NODE", "False"),),
        hunters=(CALLERS,),
        unseen="a random cluster has no certificates",
    ),
    Mutant(
        name="any node in the place of the one that is named",
        invariant="INV-SERVE-1",
        rule="a client reads from and writes to the node that its plan names",
        edits=(
            Edit(
                "_Clients._made", "tls.server_name(CertificateRole.NODE, name)", "tls.server_name(CertificateRole.NODE)"
            ),
        ),
        hunters=(NAMED,),
        unseen="a random cluster has no certificates",
    ),
    Mutant(
        name="any node in the place of a peer",
        invariant="INV-ID-2",
        rule="a node passes rows on to its peers, and fetches segments from them, by the names in the catalog",
        edits=(
            Edit(
                "FlightPeers.open",
                "writer_to(peer.address, self._tls, peer.name)",
                "writer_to(peer.address, self._tls)",
            ),
            Edit(
                "FlightPeers.is_answering",
                "is_answering(peer.address, timeout_ns, self._tls, peer.name)",
                "is_answering(peer.address, timeout_ns, self._tls)",
            ),
            Edit(
                "FlightPeers.probe",
                "ask_health(peer.address, timeout_ns, ticket, self._tls, peer.name)",
                "ask_health(peer.address, timeout_ns, ticket, self._tls)",
            ),
            Edit(
                "FlightCopies.chunks",
                "writer_to(peer.address, self._tls, peer.name)",
                "writer_to(peer.address, self._tls)",
            ),
        ),
        hunters=(PEERS,),
        unseen="a random cluster has no certificates",
    ),
)
