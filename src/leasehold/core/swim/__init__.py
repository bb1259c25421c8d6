"""The physical topology: who seems to be there. A hint: it fences nobody and lets no barrier proceed.

Theory of operation (SWIM, Das et al. 2002; Lifeguard, Dadgar et al. 2018). In each **protocol period** a member pings
one other, in rounds that visit everybody once. Without an answer in time it asks three others to ping for it; without
one by the end of the period it **suspects**, and says so. Claims about members travel with pings and answers, and by
themselves while there is news; each goes out a bounded number of times. A suspect that hears of it **refutes**: it
raises its **incarnation**, which nobody else does. One that does not within the suspicion's time is **dead**. How
long that is grows with the logarithm of the number of members, and shrinks as others come to suspect on their own.

Of two claims about a member the one of the higher incarnation holds, then the one of the higher state (ALIVE,
SUSPECT, DEAD, LEFT). That is a total order, so lost, late, doubled and reordered datagrams lead all members to the same
end, and an old datagram that somebody sends again says nothing new: at most it makes a member of a cluster that was
started anew refute once more, or shows one that was forgotten until it is found dead again. Answers to pings count
only for the one ping that is open, whose number begins at random. A full answer is given to who asks for it, wherever
it asks from, so their number is bounded.

| state of a member | event                                                          | next      |
| unknown           | a claim: alive, suspect                                        | as said   |
| alive             | no answer to a ping, or a claim: suspect                       | suspect   |
| suspect           | another accuser                                                | suspect, for less time |
| suspect           | its time is over, or a claim: dead                             | dead      |
| any but unknown   | a claim of a higher incarnation                                | as said   |
| any but unknown   | a claim: left                                                  | left      |
| dead, left        | ten minutes                                                    | unknown   |

A slow member blames itself. Its **local health** gets worse by a ping that nobody answers while not even those who
were asked to help are heard of, by having to refute, and by running late; the worse it is, the longer it waits for
answers. A member that ran later than it meant to by a period was stopped, or is overloaded: all that it waits for gets
that much more time, so nobody is found dead by a process that was asleep.

What pings and gossip miss, **comparing** repairs: now and then a member sends a digest of all it knows to another, and
to one that is gone, be it dead or a seed. Who knows something else answers with all of it, in pages; a death told
there only makes suspect. So halves of a cluster that lost sight of each other join again. The first such question goes
to the seeds, until anybody answers. A process that starts anew begins with a low incarnation; the answer to its
question says what is known of its name, and it takes the incarnation above that: the same member, wherever it is now.
"""
