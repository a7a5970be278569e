// Command demo shows in half a minute what a broker is for, and checks it.
//
//	go build -o /tmp/skep ./cmd/skep && go run ./bench/demo --skep /tmp/skep
//
// It starts a broker in a temporary directory and pushes the events of GitHub's webhooks, the
// repository of each being its partition. Two groups consume them: "audit" in this
// process, and "billing" as a `skep consume` of its own. On the way the billing process
// is killed and replaced, and the broker is killed and started again, both with SIGKILL
// and both in the middle of the work.
//
// In the end, for each group, every event that was pushed must have been delivered, its
// bytes unchanged, the first deliveries of each partition in the order of the pushes;
// nothing may have come again after its acknowledgement was answered; and nothing may be
// left. Any violation is printed and makes the exit status 1.
package main
