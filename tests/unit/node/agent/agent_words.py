"""What tests of the agent ask of its ground, and how they make it leap."""


def leased(ground):
    return ground.published.lease.deadline_ns > ground.clock.now_ns()


def only_by_a_leap(ground):
    """What the node lacks is not kept."""
    ground.history.put(1, 2)
    ground.history.put(3)
    ground.leader.minimum = 3
