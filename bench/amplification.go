package main

// amplificationMessages is enough payload for several checkpoints.
const amplificationMessages = 1_000_000

func amplificationScenario() scenario {
	return scenario{name: "amplification/batch=100", run: runAmplification}
}

// runAmplification measures how many bytes reach the disk, and stay there, for a byte of
// payload. The broker is stopped first, so that nothing is left to be written.
func runAmplification(b *bench, name string) (r *row, err error) {
	broker, err := b.startBroker()
	if err != nil {
		return nil, err
	}
	defer broker.discard(&err)
	filled, err := b.fill(broker, amplificationMessages)
	if err != nil {
		return nil, err
	}
	running, err := writtenBy(broker.pid())
	if err != nil {
		return nil, err
	}
	cmd := broker.cmd
	if err := broker.terminate(); err != nil {
		return nil, err
	}
	whole, err := bytesWritten(cmd.ProcessState)
	if err != nil {
		return nil, err
	}
	files, size, err := broker.files()
	if err != nil {
		return nil, err
	}
	payload := float64(filled * payloadSize)
	r = &row{Name: name}
	r.fact("payload accepted", payload/1e6, "MB")
	r.fact("written for a byte, when the last was answered", float64(running)/payload, "B")
	r.fact("written for a byte, in the whole life", float64(whole)/payload, "B")
	r.fact("kept for a byte", float64(size)/payload, "B")
	r.fact("files", float64(files), "")
	return r, nil
}
