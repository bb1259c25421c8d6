"""The physical topology: who seems to be there. A hint: it fences nobody and lets no barrier proceed.

Theory of operation (SWIM, Das et al. 2002; Lifeguard, Dadgar et al. 2018). In each **protocol period** a member pings
one other, in rounds that visit everybody once. Without an answer in time it asks three others to ping for it. Without
one by the end of the period it **suspects** the target, and says so. Claims about members travel with pings and
answers, and by themselves while there is news; each is sent a bounded number of times. A suspect that hears of it
**refutes**: it raises its **incarnation**, which nobody else does. If a member still sends it the older claim, the
suspect repeats the refutation to that member. One that does not refute within the suspicion's time is **dead**. That
time grows with the logarithm of the number of members, and shrinks as others suspect on their own.

Of two claims about a member the one of the higher incarnation holds, then the one of the higher state (ALIVE, SUSPECT,
DEAD, LEFT). This order is total, so lost, late, doubled and reordered datagrams lead all members to the same end. A
replayed datagram at most makes a member refute once more or repeat its refutation, or shows a forgotten member until it
is found dead again. An answer counts only for the one ping that is open, whose number begins at random. Full answers go
to anybody who asks, so their number is bounded.

| state of a member | event                                                          | next      |
| unknown           | a claim: alive, suspect                                        | as said   |
| alive             | no answer to a ping, or a claim: suspect                       | suspect   |
| suspect           | another accuser                                                | suspect, for less time |
| suspect           | its time is over, or a claim: dead                             | dead      |
| any but unknown   | a claim of a higher incarnation                                | as said   |
| any but unknown   | a claim: left                                                  | left      |
| dead, left        | ten minutes                                                    | unknown   |

A member that names a loopback address is refused by all members that do not: at that address each of them would reach
another process.

A slow member blames itself. Its **local health** gets worse by a ping that neither the target nor a helper answers, by
having to refute, and by running late. The worse it is, the longer the member waits for answers. A member that is a
period late was stopped or is overloaded: all that it waits for gets that much more time.

**Comparing** repairs what pings and gossip miss: now and then a member sends a digest of all it knows to another one,
and to one that is dead or an absent seed. A member that knows something else answers with all of it, in pages; a death
in there only makes suspect. So two halves of a cluster that lost each other join again. The first question goes to the
seeds, until anybody answers. A process that starts anew begins with a low incarnation, learns from the answer what is
known of its name, and takes the incarnation above that.
"""
