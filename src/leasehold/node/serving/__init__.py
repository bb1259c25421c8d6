"""What a node serves over Flight.

| question | module |
| --- | --- |
| dispatch of tickets | `flight_service` |
| what a client or peer sends | `streams` |
| passing segments on to peers | `peers` |
"""
