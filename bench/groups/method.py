"""How groups are measured, as their page tells it."""

from __future__ import annotations

METHOD = """\
Both brokers run in the same run, with the same settings of groups
(`group.initial.rebalance.delay.ms=0`), the other one idle while one is measured; who comes first
changes with the run. Ratios are taken within each run, then the median over the runs; in brackets
the least and the greatest.

- **Assignments**: members are librdkafka consumers, each a process of its own, with session
  time-outs of 6 s (the least that Kafka's defaults allow a classic member) and a heartbeat per
  second, set at the members for the classic protocol and at the brokers for the consumer protocol;
  everything else is librdkafka's default (classic: range, eager). The topic has 12 partitions and
  no records. Time ends with the callback that tells the last member its final share; it must be an
  equal one, every partition must be had once, and nothing may change afterwards.
  - *First assignment*: a new consumer in a new group, from its creation, connecting included. The
    brokers take turns; what counts is the median of many. librdkafka asks for metadata and for the
    coordinator at once, and if the metadata comes first it drops the connection and looks for the
    coordinator again 50 ms later. That is most of the time, and a broker that answers both
    together escapes it. *Without the client's time* is the same sequence of requests by the load
    generator below: connect, FindCoordinator, then JoinGroup twice and SyncGroup, or one
    ConsumerGroupHeartbeat.
  - *Third member's join*: from the creation of the third consumer until all three have their
    share. *After a close*: from the third's `close()` until the other two have theirs. *After a
    death*: from `kill -9` of the second member's process until the first has everything; the
    bound is the session time-out and half a second.
  - Members hear of a change by their next heartbeat, so most of these times is waiting for it.
    Several groups live at the same time; what happens to each comes at another moment between two
    heartbeats, spread evenly, the same moments on both brokers. The median of the groups counts.
- **Commits**: 64 members, each with a connection of its own, commit one partition's offset over
  and over (OffsetCommit v9), the next one when the last one is answered. The load generator is one
  Python process that encodes each request once and compares answers byte by byte; its CPU time and
  the broker's are in `groups.json`. Both brokers have done the same for some seconds before. Our
  commits are synced to the disk before they are answered, Kafka's are left to the kernel.
- **Heartbeats**: the same with 64 members in 8 groups, which send heartbeats.
- **Idle members**: 1,000 members in 10 groups with a connection each, a heartbeat every 3 s
  (classic, the clients' default) or 5 s (consumer protocol, as both brokers tell them), and nothing
  else; CPU time of the broker's processes. Both brokers are measured at the same time.
"""
