package main

import (
	"strings"
	"testing"
	"time"
)

func TestPushes(t *testing.T) {
	runRows(t, []row{
		{"clean", func(s *script) { s.stored(3); s.stored(2) }, ""},
		{"duplicate with the original's id", func(s *script) {
			s.stored(2)
			s.push(s.messages, 0, func(rs []pushResult) { rs[0].Status, rs[1].Status = "duplicate", "duplicate" })
		}, ""},
		{"twice in one request", func(s *script) {
			items := s.add(2)
			s.push(append(items, items[0]), 0, func(rs []pushResult) {
				rs[2].Status, rs[2].Offset = "duplicate", rs[0].Offset
			})
		}, ""},
		{"retry stores what was lost", func(s *script) {
			s.pushLost(s.add(2))
			s.kill()
			s.push(s.messages, 0, nil)
			s.drainGroups(2)
		}, ""},
		{"retry finds what was lost", func(s *script) {
			s.pushLost(s.add(2))
			s.kill()
			s.pop("g", 0, 1, nil)
			s.push(s.messages, 0, func(rs []pushResult) { rs[0].Status, rs[1].Status = "duplicate", "duplicate" })
		}, ""},
		{"stored twice across a restart", func(s *script) {
			s.stored(1)
			s.kill()
			s.push(s.messages, 0, nil)
		}, "stored twice"},
		{"queued again after delivery", func(s *script) {
			s.pushLost(s.add(1))
			s.pop("g", 0, 0, nil)
			s.push(s.messages, 1, nil)
		}, "stored twice"},
		{"duplicate with another id", func(s *script) {
			s.stored(1)
			s.push(s.messages, 0, func(rs []pushResult) { rs[0].Status, rs[0].MessageID = "duplicate", "other" })
		}, "duplicate id"},
		{"duplicate of a minted id", func(s *script) {
			m := s.addMessage(s.q, "a", "", false)
			s.push([]*message{m}, 0, func(rs []pushResult) { rs[0].Status = "duplicate" })
		}, "push answer"},
		{"minted id is another", func(s *script) {
			m := s.addMessage(s.q, "a", "", false)
			s.push([]*message{m}, 0, func(rs []pushResult) { rs[0].TransactionID = "other" })
		}, "push answer"},
		{"own id changed", func(s *script) {
			s.push(s.add(1), 0, func(rs []pushResult) { rs[0].TransactionID = "other" })
		}, "push answer"},
		{"failed", func(s *script) { s.push(s.add(1), 0, func(rs []pushResult) { rs[0].Status = "failed" }) }, "push answer"},
		{"wrong index", func(s *script) { s.push(s.add(1), 0, func(rs []pushResult) { rs[0].Index = 1 }) }, "push answer"},
		{"too few results", func(s *script) {
			p := &push{request: s.request(), items: s.add(2)}
			s.startPush(p)
			s.answer(&p.request)
			s.endPush(p, nil)
		}, "push answer"},
		{"offset reused after a restart", func(s *script) {
			s.stored(1)
			s.drainGroups(1)
			s.kill()
			s.push(s.add(1), 0, nil)
		}, "offset"},
		{"offset moved", func(s *script) {
			s.stored(1)
			five := int64(5)
			s.push(s.messages, 0, func(rs []pushResult) { rs[0].Status, rs[0].Offset = "duplicate", &five })
		}, "offset"},
		{"offset is not the position", func(s *script) {
			p := &push{request: s.request(), items: s.add(1)}
			s.startPush(p)
			s.pop("g", 0, 0, nil) // before the answer
			s.answer(&p.request)
			s.endPush(p, results(p.items, 3))
		}, "offset"},
		{"gap in the offsets of an answer", func(s *script) {
			s.push(s.add(2), 0, func(rs []pushResult) { *rs[1].Offset = 7 })
		}, "offset"},
		{"answers that come after the power was cut do not count", func(s *script) {
			p := &push{request: s.request(), items: s.add(1)}
			s.startPush(p)
			s.cut(s.life)
			s.answer(&p.request)
			s.endPush(p, results(p.items, 0))
			s.kill()
			s.push(s.messages, 0, nil)
		}, ""},
	})
}

func TestDeliveries(t *testing.T) {
	runRows(t, []row{
		{"clean", func(s *script) {
			s.stored(4)
			s.ack(s.pop("g", 0, 1, nil), "completed completed", nil)
			s.ack(s.pop("g", 2, 3, nil), "completed completed", nil)
			s.ack(s.pop("h", 0, 3, nil), "- - - completed", nil)
			if _, _, done := s.drained(); !done {
				s.t.Error("not drained")
			}
		}, ""},
		{"partial ack, the rest comes again", func(s *script) {
			s.stored(3)
			s.ack(s.pop("g", 0, 2, nil), "completed", nil)
			s.sleep(time.Second)
			s.ack(s.pop("g", 1, 2, nil), "- completed", nil)
		}, ""},
		{"lost ack happened", func(s *script) {
			s.stored(3)
			s.ackLost(s.pop("g", 0, 1, nil), "completed completed")
			s.kill()
			s.pop("g", 2, 2, nil)
		}, ""},
		{"lost ack did not happen", func(s *script) {
			s.stored(3)
			s.ackLost(s.pop("g", 0, 1, nil), "completed completed")
			s.kill()
			s.sleep(time.Second)
			s.pop("g", 0, 2, nil)
		}, ""},
		{"lost ack happened after all", func(s *script) {
			s.stored(3)
			s.ackLost(s.pop("g", 0, 1, nil), "completed completed")
			s.kill()
			s.sleep(time.Second)
			s.pop("g", 0, 1, nil)
			s.sleep(2 * time.Second)
			s.pop("g", 2, 2, nil)
		}, "skipped"},
		{"pushed without an answer, delivered", func(s *script) {
			s.pushLost(s.add(2))
			s.drainGroups(2)
			s.checkWhole()
		}, ""},
		{"never sent", func(s *script) { s.add(1); s.pop("g", 0, 0, nil) }, "phantom"},
		{"no payload of ours", func(s *script) {
			s.stored(1)
			s.pop("g", 0, 0, func(ds []delivered) { ds[0].Data = []byte(`null`) })
		}, "phantom"},
		{"of an earlier epoch", func(s *script) {
			s.stored(1)
			old := s.deliveries("g", "lease", 0, 0)
			s.forget()
			s.q = s.addQueue("q", 2, 1, "g", "h")
			s.messages = nil
			s.stored(1)
			s.pop("g", 0, 0, func(ds []delivered) { copy(ds, old) })
		}, "phantom"},
		{"of a deleted queue", func(s *script) {
			s.stored(1)
			s.deleteQueue(s.q)
			s.q = s.addQueue("q", 2, 1, "g", "h")
			s.pop("g", 0, 0, nil)
		}, "misplaced"},
		{"payload changed", func(s *script) {
			s.stored(1)
			s.pop("g", 0, 0, func(ds []delivered) { ds[0].Data[len(ds[0].Data)-3] ^= 1 })
		}, "payload changed"},
		{"payload encoded again", func(s *script) {
			s.stored(1)
			s.pop("g", 0, 0, func(ds []delivered) { ds[0].Data = []byte(strings.Replace(string(ds[0].Data), ", ", ",", 1)) })
		}, "payload changed"},
		{"message id changed", func(s *script) {
			s.stored(1)
			s.pop("g", 0, 0, func(ds []delivered) { ds[0].ID = "other" })
		}, "ids changed"},
		{"transaction id changed", func(s *script) {
			s.stored(1)
			s.pop("g", 0, 0, func(ds []delivered) { ds[0].TransactionID = "other" })
		}, "ids changed"},
		{"partition changed", func(s *script) {
			s.stored(1)
			s.pop("g", 0, 0, func(ds []delivered) { ds[0].Partition = "b" })
		}, "misplaced"},
		{"partition id changed", func(s *script) {
			s.stored(1)
			s.pop("g", 0, 0, nil)
			s.sleep(time.Second)
			s.pop("g", 0, 0, func(ds []delivered) { ds[0].PartitionID = "other" })
		}, "partition id"},
		{"group's first message is not the first", func(s *script) { s.stored(2); s.pop("g", 1, 1, nil) }, "offset"},
		{"skipped within a batch", func(s *script) {
			s.stored(3)
			s.drainGroups(3)
			s.stored(1)
			s.pop("g", 2, 3, nil)
		}, "redelivered after ack"},
		{"order differs between groups", func(s *script) {
			s.stored(3)
			s.pop("g", 0, 2, nil)
			s.pop("h", 0, 2, func(ds []delivered) { ds[1], ds[2] = ds[2], ds[1] })
		}, "order"},
		{"order differs from that of the pushes", func(s *script) {
			s.push(s.add(1), 0, func(rs []pushResult) { rs[0].Offset = nil })
			s.push(s.add(1), 1, func(rs []pushResult) { rs[0].Offset = nil })
			s.pop("g", 0, 1, func(ds []delivered) { ds[0], ds[1] = ds[1], ds[0] })
		}, "push order"},
		{"one message at two positions", func(s *script) {
			s.pushLost(s.add(1))
			s.ack(s.pop("g", 0, 0, nil), "completed", nil)
			s.sleep(time.Second)
			s.pop("g", 0, 0, nil)
		}, "redelivered after ack"},
		{"one message twice in a batch", func(s *script) {
			s.stored(2)
			s.pop("g", 0, 1, func(ds []delivered) { ds[1] = ds[0] })
		}, "order"},
		{"redelivered after an ack", func(s *script) {
			s.stored(2)
			s.ack(s.pop("g", 0, 0, nil), "completed", nil)
			s.pop("g", 0, 1, nil)
		}, "redelivered after ack"},
		{"redelivered after an ack and a restart", func(s *script) {
			s.stored(2)
			s.ack(s.pop("g", 0, 1, nil), "- completed", nil)
			s.kill()
			s.pop("g", 0, 1, nil)
		}, "redelivered after ack"},
		{"an answer on its way is no redelivery", func(s *script) {
			s.stored(1)
			late := &pop{request: s.request(), queue: s.q, group: "g", batch: 1, partitions: 1, leaseSeconds: 1}
			s.sleep(2 * time.Second) // its answer is read when another has the lease and is done
			s.ack(s.pop("g", 0, 0, nil), "completed", nil)
			s.answer(&late.request)
			s.endPop(late, s.deliveries("g", "late", 0, 0))
		}, ""},
		{"cursor ahead after a restart", func(s *script) {
			s.stored(4)
			s.ack(s.pop("g", 0, 3, nil), "completed", nil)
			s.kill()
			s.sleep(time.Second)
			s.pop("g", 2, 3, nil)
		}, "skipped"},
		{"cursor ahead of all acks", func(s *script) {
			s.stored(2)
			s.pop("h", 0, 1, nil)
			s.pop("g", 1, 1, nil)
		}, "skipped"},
		{"never delivered", func(s *script) {
			s.stored(2)
			s.ack(s.pop("g", 0, 0, nil), "completed", nil)
			s.ack(s.pop("h", 0, 0, nil), "completed", nil)
			s.checkDrained()
		}, "lost"},
		{"never delivered to one group", func(s *script) {
			s.stored(1)
			s.ack(s.pop("g", 0, 0, nil), "completed", nil)
			s.checkDrained()
		}, "lost"},
		{"lost ack of the last message happened", func(s *script) {
			s.stored(1)
			s.ack(s.pop("h", 0, 0, nil), "completed", nil)
			s.ackLost(s.pop("g", 0, 0, nil), "completed")
			s.kill()
			if !s.checkDrained() || !s.uncertain(s.q, "g") || s.uncertain(s.q, "h") {
				s.t.Error("want drained, and only g uncertain")
			}
			s.emptied(s.q, "g", s.clock)
			if s.uncertain(s.q, "g") {
				s.t.Error("still uncertain")
			}
		}, ""},
		{"nothing comes, but something must", func(s *script) {
			s.stored(2)
			s.ackLost(s.pop("g", 0, 1, nil), "completed")
			s.kill()
			s.emptied(s.q, "g", s.clock)
		}, "lost"},
		{"push stored in part", func(s *script) {
			s.pushLost(s.add(2))
			s.ack(s.pop("g", 0, 0, nil), "completed", nil)
			s.checkWhole()
		}, "torn push"},
		{"push stored with another in between", func(s *script) {
			s.pushLost(s.add(2))
			s.pushLost(s.add(1))
			s.pop("g", 0, 2, func(ds []delivered) { ds[1], ds[2] = ds[2], ds[1] })
			s.checkWhole()
		}, "torn push"},
		{"more than the batch", func(s *script) {
			s.stored(101)
			s.pop("g", 0, 100, nil)
		}, "pop answer"},
		{"more than the partitions", func(s *script) { s.both("a", "b") }, "pop answer"},
		{"a partition in two pieces", func(s *script) {
			s.both("a", "b", "a")
		}, "skipped"},
		{"messages of two partitions under one id", func(s *script) {
			s.stored(1)
			other := s.addMessage(s.q, "b", "x", false)
			s.push([]*message{other}, 0, nil)
			s.messages = append(s.messages, other)
			s.pop("g", 0, 1, func(ds []delivered) { ds[1].PartitionID = ds[0].PartitionID })
		}, "misplaced"},
		{"to another group", func(s *script) {
			s.stored(1)
			s.pop("g", 0, 0, func(ds []delivered) { ds[0].Group = "h" })
		}, "pop answer"},
		{"a stored message in the place of another", func(s *script) {
			s.stored(2)
			s.pop("g", 0, 1, nil)
			s.sleep(time.Second)
			s.pop("g", 0, 1, func(ds []delivered) { ds[0], ds[1] = ds[1], ds[0] })
		}, "skipped"},
	})
}

func TestComplaints(t *testing.T) {
	runRows(t, []row{
		{"of the run", func(s *script) { s.complain("start", "not ready") }, "start"},
		{"unexpected answer", func(s *script) {
			r := s.request()
			s.unexpected(&r, "GET /x", 500, []byte("{}"))
		}, "unexpected answer"},
		{"unexpected answer after the power was cut", func(s *script) {
			r := s.request()
			s.cut(s.life)
			s.unexpected(&r, "GET /x", 500, []byte("{}"))
		}, ""},
		{"no more than the report holds", func(s *script) {
			for range 3 * maxViolations {
				s.complain("start", "not ready")
			}
			if len(s.violations) != maxViolations {
				s.t.Errorf("got %d violations want %d", len(s.violations), maxViolations)
			}
		}, "start"},
	})
}
