package acceptance

import (
	"testing"
	"time"
)

// What an age rule drops before a group has done it is gone for the group: it goes on with
// the oldest message that is there, and is told how many it has lost. Its lag is what it can
// read.
func TestM556EvictedUnread(t *testing.T) {
	for name, row := range map[string]struct {
		option  func(*world)
		options string
	}{
		"retention, in memory":   {func(*world) {}, `{"retentionEnabled":true,"retentionSeconds":100}`},
		"retention, in segments": {eagerCheckpoints, `{"retentionEnabled":true,"retentionSeconds":100}`},
		"eviction":               {eagerCheckpoints, `{"maxWaitTimeSeconds":100}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, retaining, row.option)
			w.configure("q", row.options)
			w.nothing(w.pop("q", "consumerGroup=idle"))
			w.queued(numbered("q", "p", "old", 60)...)
			w.clock.advance(10 * time.Millisecond)
			w.nothing(w.pop("q", "consumerGroup=late", "subscriptionMode=new"))
			w.clock.advance(10 * time.Millisecond)
			w.queued(numbered("q", "p", "more", 40)...)
			w.ackAll("slow", w.popFrom("q", "p", "consumerGroup=slow", "batch=30"))
			w.ackAll("fast", w.popFrom("q", "p", "consumerGroup=fast", "batch=100"))
			leased := w.popFrom("q", "p", "consumerGroup=slow", "batch=5", "leaseSeconds=1")
			w.filedIf(w.broker.CheckpointBytes == 1)
			w.clock.advance(101 * time.Second)
			w.total("q", 0)
			w.queued(numbered("q", "p", "new", 10)...)
			for group, lost := range map[string]int64{"slow": 70, "fast": 0, "idle": 100, "late": 40} {
				if g := w.group(group, "q"); g.EvictedUnread != lost || g.Lag != 10 {
					t.Errorf("%s: %d lost, lag %d; want %d and 10", group, g.EvictedUnread, g.Lag, lost)
				}
				if d := w.groupDetail(group)["q"]; d.EvictedUnread != lost {
					t.Errorf("detail of %s: %d lost, want %d", group, d.EvictedUnread, lost)
				}
				p := w.popFrom("q", "p", "consumerGroup="+group, "batch=100")
				w.want(p, "new0", "new1", "new2", "new3", "new4", "new5", "new6", "new7", "new8", "new9")
				w.ackAll(group, p)
				if g := w.group(group, "q"); g.EvictedUnread != lost || g.Lag != 0 {
					t.Errorf("%s after its acks: %d lost, lag %d", group, g.EvictedUnread, g.Lag)
				}
			}
			w.refused(w.ack("slow", leased.Messages[0].as("completed")), "invalid or expired lease")
			w.seek("idle", "q", `{"toEnd":true}`)
			if g := w.group("idle", "q"); g.EvictedUnread != 100 {
				t.Errorf("after a seek %d lost", g.EvictedUnread)
			}
		})
	}
}

// completedRetentionSeconds alone takes nothing from a group, however long it stays away,
// and takes it when the last one has come.
func TestM553NothingUnreadGoes(t *testing.T) {
	retainingAgain(t, func(w *world, again func()) {
		w.configure("q", `{"retentionEnabled":true,"completedRetentionSeconds":2}`)
		w.nothing(w.pop("q", "consumerGroup=idle"))
		w.queued(numbered("q", "p", "m", 5)...)
		w.nothing(w.pop("q", "consumerGroup=new", "subscriptionMode=new"))
		w.ackAll("fast", w.popFrom("q", "p", "consumerGroup=fast"))
		w.after(30 * 24 * time.Hour)
		again()
		w.after(time.Hour)
		w.total("q", 5)
		p := w.pop("q", "consumerGroup=idle")
		w.want(p, "m0", "m1", "m2", "m3", "m4")
		w.ackAll("idle", p)
		w.total("q", 0)
		for _, group := range []string{"idle", "fast", "new"} {
			if g := w.group(group, "q"); g.EvictedUnread != 0 || g.Lag != 0 {
				w.t.Errorf("%s: %d lost, lag %d", group, g.EvictedUnread, g.Lag)
			}
		}
	})
}
