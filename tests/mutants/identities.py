"""Breaks of identity: ids, tokens, joins, incarnations, sessions."""

from tests.mutants.model import Mutant
from tests.mutants.patch import Edit

SHORTCUTS = "tests/scenarios/test_lease_shortcuts.py"
JOINS = "tests/unit/core/membership/test_admission.py"
PROOFS = "tests/unit/core/membership/test_proofs.py"
GIVEN_UP = "tests/scenarios/test_given_up.py"
STRANGERS = "tests/scenarios/test_strangers.py"
SCENARIOS = "tests/scenarios/test_identity.py"
IMPOSTORS = "tests/scenarios/test_impostors.py"

MUTANTS = (
    Mutant(
        name="a node that joined given up",
        invariant="INV-ID-3",
        rule="only an id whose node has never joined is given up",
        edits=(
            Edit("has_never_joined", "node.incarnation == 0", "True"),
            Edit("Registration.committed", "self._unjoined.pop(node.id, None)", "None"),
        ),
        hunters=(f"{GIVEN_UP}::test_a_node_that_comes_in_time_joins_and_is_never_given_up", JOINS),
        unseen="random clusters run for less than ten minutes",
    ),
    Mutant(
        name="a given up id forgotten",
        invariant="INV-ID-1",
        rule="an id that is given up stays as a tombstone: its token gets no other id",
        edits=(
            Edit(
                "Registration.give_up.decide",
                "tombstone(node, catalog)",
                "tombstone(type(node)(id=node.id, name=f'{node.id}x', address='', token_hash=b'', removed=True,"
                " incarnation=node.incarnation, nonce=None, session_hash=None), catalog)",
            ),
        ),
        hunters=(f"{GIVEN_UP}::test_a_node_that_comes_too_late_is_refused_and_keeps_its_token",),
        unseen="random clusters run for less than ten minutes",
    ),
    Mutant(
        name="tombstones counted as nodes",
        invariant="INV-ID-1",
        rule="removed nodes leave room for others",
        edits=(Edit("decide_allocate", "sum(not node.removed for node in known)", "len(known)"),),
        hunters=(JOINS,),
        unseen="a random cluster has few nodes",
    ),
    Mutant(
        name="a stranger let in as a node",
        invariant="INV-ID-1",
        rule="a leader with the cluster key believes nothing of a request to take part that does not prove it",
        edits=(Edit("reject_stranger", "keys is None or is_of_member(request, keys)", "True"),),
        hunters=(PROOFS, f"{STRANGERS}::test_a_process_without_the_cluster_key_changes_nothing"),
        unseen="no process of a random cluster lacks the key",
    ),
    Mutant(
        name="a join without a look at its proof",
        invariant="INV-ID-2",
        rule="Join proves the cluster key as Allocate does",
        edits=(Edit("Registration.join", "self._membership.check(request)", ""),),
        hunters=(f"{STRANGERS}::test_a_process_without_the_cluster_key_changes_nothing",),
        unseen="no process of a random cluster lacks the key",
    ),
    Mutant(
        name="one key for two kinds of proof",
        invariant="INV-ID-1",
        rule="what a coordinator answers to a challenge is made with another key than proofs of members",
        edits=(Edit("_COORDINATOR", 'b"leasehold coordinator proof/1"', 'b"leasehold member proof/1"'),),
        hunters=(PROOFS,),
        unseen="nobody forges a proof in a random cluster",
    ),
    Mutant(
        name="a join sent without a proof",
        invariant="INV-ID-2",
        rule="a node with the cluster key sends its token and session only to a coordinator that proves itself",
        edits=(Edit("ProvenCoordinator.call", "self._keys is not None and isinstance(request, SECRET)", "False"),),
        hunters=(f"{IMPOSTORS}::test_a_node_that_starts_sends_no_join_to_who_took_the_port",),
        unseen="a random cluster has no impostor",
    ),
    Mutant(
        name="a session opened without a proof",
        invariant="INV-ID-2",
        rule="a node with the cluster key opens a session only on a stream on which the coordinator has proven itself",
        edits=(Edit("ProvenCoordinator.session", "self._keys is None", "True"),),
        hunters=(f"{IMPOSTORS}::test_a_node_that_runs_sends_no_session_to_who_took_the_port",),
        unseen="a random cluster has no impostor",
    ),
    Mutant(
        name="a proof of another challenge taken",
        invariant="INV-ID-2",
        rule="a proof is compared with that of the very challenge that was sent",
        edits=(
            Edit(
                "Challenge.check",
                "hmac.compare_digest(answer.proof, coordinator_proof(self.request, keys))",
                "answer.proof",
            ),
        ),
        hunters=(f"{IMPOSTORS}::test_a_node_that_runs_sends_no_session_to_who_took_the_port",),
        unseen="a random cluster has no impostor",
    ),
    Mutant(
        name="a proof from before a pause taken",
        invariant="INV-ID-2",
        rule="a proof counts for a call for a second: a process that was paused asks for another one",
        edits=(Edit("ProvenCoordinator._prove", "self._clock.now_ns() - asked_ns <= COORDINATOR_PROOF_NS", "True"),),
        hunters=(f"{IMPOSTORS}::test_a_proof_of_before_a_pause_counts_for_no_join",),
        unseen="a random cluster has no impostor",
    ),
    Mutant(
        name="an id given twice",
        invariant="INV-ID-1",
        rule="the counter that ids are drawn from moves on with each of them",
        edits=(Edit("decide_allocate", "NodeId(counters.next_node + 1)", "counters.next_node"),),
        hunters=(
            "tests/unit/core/membership/test_admission.py",
            f"{SCENARIOS}::test_I2_nodes_that_start_at_once_get_an_id_each",
        ),
    ),
    Mutant(
        name="a token given two ids",
        invariant="INV-ID-1",
        rule="a known token gets its id back",
        edits=(
            Edit("decide_allocate", "node.token_hash == token_hash", "False"),
            Edit("decide_allocate", "_bad_attributes(request, None, known)", "None"),
        ),
        hunters=(f"{SCENARIOS}::test_I1_a_lost_answer_does_not_cost_the_id",),
    ),
    Mutant(
        name="a token thrown away on a failure",
        invariant="INV-ID-1",
        rule="only an explicit rejection discards a token; every other failure asks again with the same one",
        edits=(
            Edit(
                "Joiner._carry_out",
                "allocated = await self._coordinators.ask(with_proof(request, self._keys), AllocateAnswer)",
                "cluster_id, name, address = request.cluster_id, request.name, request.address\n"
                "token = f'{self._clock.now_ns():032x}'\n"
                "request = type(request)(cluster_id=cluster_id, token=token, name=name, address=address)\n"
                "...",
            ),
        ),
        hunters=(f"{SCENARIOS}::test_I1_a_lost_answer_does_not_cost_the_id",),
    ),
    Mutant(
        name="asked for an id before the claim is durable",
        invariant="INV-ID-3",
        rule="CLAIMING and its token are durable before the id is asked for",
        edits=(
            Edit(
                "Candidate._next",
                "return self._write(Claiming(token=start.token))",
                "self._record = Claiming(token=start.token); return self._next()",
            ),
        ),
        hunters=(
            "tests/unit/core/membership/test_identity.py",
            f"{SCENARIOS}::test_I1_killed_anywhere_on_its_way_in_a_node_gets_the_same_id",
        ),
    ),
    Mutant(
        name="incarnation used before it is durable",
        invariant="INV-ID-3",
        rule="an incarnation is durable before anything is sent under it",
        fact="incarnation used before it is durable",
        edits=(
            Edit(
                "Candidate.step",
                "self._admitted = event; return effect",
                "return Joined(node=record.node, incarnation=incarnation, token=record.token)",
            ),
        ),
        hunters=("tests/unit/core/membership/test_identity.py",),
    ),
    Mutant(
        name="a join that doesn't wait",
        invariant="INV-LEASE-1",
        rule="a join waits until the lease of the incarnation before it has ended",
        fact="a join that doesn't wait",
        edits=(
            Edit("decide_join", "held is not None and held.closed is None and now_ns < held.bound_ns", "False"),
            Edit("Grantor._on_closed", "held.closed is not None or now_ns >= held.bound_ns", "True"),
        ),
        hunters=(
            "tests/scenarios/test_identity_clusters.py::test_a_join_waits_for_the_lease_before_it_and_no_longer",
            "tests/sim/test_cluster.py::test_I4_a_copy_of_a_live_node_is_refused",
        ),
    ),
    Mutant(
        name="same nonce, same answer for two sessions",
        invariant="INV-ID-2",
        rule="the same nonce from another session raises the incarnation once more",
        fact="same nonce, same answer for two sessions",
        edits=(Edit("decide_join", "node.session_hash == session_hash", "True"),),
        hunters=(
            f"{SCENARIOS}::test_I4_two_processes_of_one_attempt_in_one_transaction_leave_the_newer_one",
            "tests/unit/core/membership/test_admission.py",
        ),
        unseen="two processes of a random cluster never share a nonce: its copies have one of their own",
    ),
    Mutant(
        name="a stale copy let in",
        invariant="INV-ID-2",
        rule="a previous incarnation that is not the newest one means a copy: refused",
        edits=(Edit("decide_join", "not own_attempt and node.incarnation != request.previous", "False"),),
        hunters=(f"{SCENARIOS}::test_I4_a_copy_that_the_original_has_left_behind_is_refused",),
    ),
    Mutant(
        name="a closed connection as proof of death",
        invariant="INV-LEASE-1",
        rule="a connection that closes, or any other hint, says nothing about a lease",
        fact="a closed connection as proof of death",
        edits=(
            Edit(
                "Sessions.serve",
                "if self._open.get(opening.node) is one: ...",
                "surrender = messages.Surrender(\n"
                "    node=opening.node, incarnation=opening.incarnation, session=opening.session\n"
                ")\n"
                "self._leasing.step(SurrenderReceived(surrender=surrender))\n"
                "if self._open.get(opening.node) is one: ...",
            ),
        ),
        hunters=(f"{SHORTCUTS}::test_a_connection_that_closes_is_no_proof_of_death",),
    ),
    Mutant(
        name="reports of an older incarnation taken",
        invariant="INV-ID-2",
        rule="what a superseded incarnation had reported changes nothing, however long it waited",
        edits=(
            Edit("NodeReports.acknowledge.decide", "live.get(message.node) != message.incarnation", "False"),
            Edit(
                "Sessions._take",
                "self._leasing.live_incarnations([message.node]).get(message.node) == message.incarnation",
                "True",
            ),
        ),
        hunters=(f"{SHORTCUTS}::test_a_report_whose_sender_was_superseded_while_it_waited_changes_nothing",),
        unseen="what it reported was true when it was sent, and a random cluster loses no disk",
    ),
    Mutant(
        name="a copy from before a start was finished",
        invariant="INV-ID-2",
        rule="once a process has entered the topology, naming its attempt with an older incarnation shows a copy",
        edits=(Edit("decide_join", "not has_entered", "True"),),
        hunters=(f"{JOINS}::test_a_copy_of_an_unfinished_attempt_is_a_stale_one_once_the_attempt_has_led_in",),
    ),
    Mutant(
        name="a stream of an older term kept",
        invariant="INV-DDL-1",
        rule="a node leaves the stream of a leader whose term is over (liveness): each side sees to it",
        edits=(
            Edit("Coordinator._lead", "self._answering.end()", ""),
            Edit("Agent._opened", "opened.term < self._holder.term", "False"),
            Edit("raise_unless_temporary", "refused.code == ErrorCode.NOT_LEADER", "False"),
        ),
        hunters=(f"{SHORTCUTS}::test_a_leader_that_has_handed_over_grants_nothing_while_its_process_lives_on",),
    ),
)
