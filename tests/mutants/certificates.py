"""Breaks of what a certificate lets its holder ask."""

from tests.mutants.model import Mutant
from tests.mutants.patch import Edit

CALLERS = "tests/unit/core/access/test_callers.py"
CERTIFIED = "tests/scenarios/test_certified.py"
TLS = "tests/unit/wire/test_tls.py"

MUTANTS = (
    Mutant(
        name="a node believed under the certificate of another",
        invariant="INV-ID-2",
        rule="what is asked with the token or session of a node is asked by the node that the certificate names",
        edits=(Edit("check_sender", "record is not None and caller != Caller(CallerRole.NODE, record.name)", "False"),),
        hunters=(CALLERS, CERTIFIED),
        unseen="a random cluster has no certificates",
    ),
    Mutant(
        name="a name claimed with the certificate of another",
        invariant="INV-ID-1",
        rule="a node gets an id under the name that its certificate has",
        edits=(Edit("check_caller", "caller != Caller(CallerRole.NODE, name)", "False"),),
        hunters=(CALLERS, CERTIFIED),
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
        edits=(Edit("Sessions.serve", "check_caller(opening, CALLER.get(), self._catalog())", ""),),
        hunters=(CERTIFIED,),
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
)
