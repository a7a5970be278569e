package docs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server"
	"github.com/skepmq/skep/server/testkit"
)

// address is where the documents say that the broker listens.
const address = "http://127.0.0.1:6632"

var tryBlock = regexp.MustCompile("(?ms)^```sh\n# try\n(.*?)^```$")

// TestTry sends the commands that readers are invited to try to a broker, page by page. It
// reads the command lines as a shell and curl would, and needs neither.
func TestTry(t *testing.T) {
	tried := 0
	for _, path := range pages(t) {
		blocks := tryBlock.FindAllStringSubmatch(read(t, path), -1)
		if len(blocks) == 0 {
			continue
		}
		tried += len(blocks)
		t.Run(path, func(t *testing.T) {
			r := &reader{t: t, base: serve(t), address: address, noted: map[string]string{}}
			for _, block := range blocks {
				for _, words := range r.commands(block[1]) {
					r.run(words)
				}
			}
		})
	}
	if tried < 2 {
		t.Errorf("%d blocks to try", tried)
	}
}

// serve opens a broker over an empty directory and returns its address.
func serve(t *testing.T) string {
	t.Helper()
	b, err := broker.Open(broker.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(server.Options{Broker: b, TraceDir: t.TempDir(), TenancyHeader: true})
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String()
}

// reader tries what a page says, and notes the ids that answers show.
type reader struct {
	t       *testing.T
	base    string            // of the broker
	address string            // what the text says instead
	noted   map[string]string // by the name of a variable
}

// commands splits a block into commands, and these into words. What it knows of a shell: both
// kinds of quotes, a backslash at the end of a line, and $NAME outside of single quotes. Names
// are looked up when the command runs, so they stay marked here.
func (r *reader) commands(text string) (all [][]string) {
	r.t.Helper()
	text = strings.ReplaceAll(text, "\\\n", " ")
	var words []string
	var word strings.Builder
	var quote rune
	begun := false
	end := func() {
		if begun {
			words = append(words, word.String())
			word.Reset()
			begun = false
		}
	}
	for _, c := range text {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == '\'':
			word.WriteRune(c)
		case quote == 0 && (c == '\'' || c == '"'):
			quote, begun = c, true
		case c == '$':
			word.WriteRune(mark)
			begun = true
		case quote == 0 && (c == ' ' || c == '\n'):
			if end(); c == '\n' && len(words) > 0 {
				all = append(all, words)
				words = nil
			}
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	if quote != 0 || begun {
		r.t.Fatalf("cannot read the block:\n%s", text)
	}
	return all
}

// mark stands for a $ that begins a name.
const mark = '\uE000'

var marked = regexp.MustCompile(string(mark) + `(\w+)`)

// run sends one command and wants it to succeed.
func (r *reader) run(words []string) {
	r.t.Helper()
	for i := range words {
		words[i] = marked.ReplaceAllStringFunc(words[i], func(name string) string {
			value, ok := r.noted[strings.TrimPrefix(name, string(mark))]
			if !ok {
				r.t.Fatalf("%s: no answer before has shown that", name)
			}
			return value
		})
	}
	method, url, body, header, err := parseCurl(words)
	if err != nil {
		r.t.Fatalf("%q: %v", words, err)
	}
	path, ok := strings.CutPrefix(url, r.address)
	if !ok {
		r.t.Fatalf("%s: want an address that begins with %s", url, r.address)
	}
	req, err := http.NewRequest(method, r.base+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	answer, err := io.ReadAll(resp.Body)
	if err := resp.Body.Close(); err != nil {
		r.t.Fatal(err)
	}
	if err != nil || resp.StatusCode < 200 || resp.StatusCode > 299 {
		r.t.Fatalf("%s %s %s: %d %s, %v", method, path, body, resp.StatusCode, answer, err)
	}
	contract, err := testkit.TheContract()
	if err == nil {
		err = contract.Check(method, path, body, testkit.Answer{Status: resp.StatusCode, Header: resp.Header, Body: answer})
	}
	if err != nil {
		r.t.Errorf("%s %s: %v", method, path, err)
	}
	r.judge(path, resp.StatusCode, answer)
}

// parseCurl reads the words of a command as curl does.
func parseCurl(words []string) (method, url, body string, header http.Header, err error) {
	if words[0] != "curl" {
		return "", "", "", nil, fmt.Errorf("not curl")
	}
	method, header = http.MethodGet, http.Header{}
	explicit := ""
	for i := 1; i < len(words); i++ {
		switch w := words[i]; {
		case (w == "-d" || w == "-X" || w == "-H") && i+1 == len(words):
			return "", "", "", nil, fmt.Errorf("%s without a value", w)
		case w == "-d":
			i++
			method, body = http.MethodPost, words[i]
		case w == "-H":
			i++
			name, value, _ := strings.Cut(words[i], ": ")
			header.Add(name, value)
		case w == "-X":
			i++
			explicit = words[i]
		case strings.HasPrefix(w, "-") || url != "":
			return "", "", "", nil, fmt.Errorf("unexpected %q", w)
		default:
			url = w
		}
	}
	if explicit != "" {
		method = explicit
	}
	if url == "" {
		err = fmt.Errorf("no address")
	}
	return method, url, body, header, err
}

// judge looks into an answer: a 2xx may still hold refusals, and has the ids to go on with.
func (r *reader) judge(path string, status int, answer []byte) {
	r.t.Helper()
	switch {
	case strings.Contains(path, "/ack"):
		var verdicts []struct {
			Success bool
			Error   *string
		}
		r.decode(answer, &verdicts)
		for _, v := range verdicts {
			if !v.Success {
				r.t.Errorf("%s: refused: %s", path, answer)
			}
		}
	case strings.Contains(path, "/extend"), strings.HasSuffix(path, "/transaction"):
		var verdict struct{ Success bool }
		if r.decode(answer, &verdict); !verdict.Success {
			r.t.Errorf("%s: refused: %s", path, answer)
		}
	case strings.HasPrefix(path, "/api/v1/pop") && status == http.StatusOK:
		var popped struct {
			PartitionID, LeaseID string
			Messages             []struct{ TransactionID string }
		}
		r.decode(answer, &popped)
		r.noted["PARTITION_ID"], r.noted["LEASE_ID"] = popped.PartitionID, popped.LeaseID
		r.noted["TRANSACTION_ID"] = popped.Messages[0].TransactionID
	case strings.HasPrefix(path, "/api/v1/dlq?queue="):
		var list struct{ Messages []struct{ ID string } }
		if r.decode(answer, &list); len(list.Messages) > 0 {
			r.noted["DEAD_LETTER_ID"] = list.Messages[0].ID
		}
	}
}

func (r *reader) decode(answer []byte, v any) {
	r.t.Helper()
	if err := json.Unmarshal(answer, v); err != nil {
		r.t.Fatalf("%v in %s", err, answer)
	}
}

func TestParseCurl(t *testing.T) {
	tests := []struct {
		name, line        string
		method, url, body string
		wrong             bool
	}{
		{name: "get", line: "curl 'u?a=1&b=2'", method: "GET", url: "u?a=1&b=2"},
		{name: "post", line: `curl -d '{"a":"'$X'"}' u`, method: "POST", url: "u", body: `{"a":"` + string(mark) + `X"}`},
		{name: "over two lines", line: "curl -d '{\n}' \\\n  u", method: "POST", url: "u", body: "{\n}"},
		{name: "double quotes", line: `curl "u/$X"`, method: "GET", url: "u/" + string(mark) + "X"},
		{name: "method", line: "curl -X DELETE u", method: "DELETE", url: "u"},
		{name: "no address", line: "curl -X DELETE", wrong: true},
		{name: "unknown flag", line: "curl -k u", wrong: true},
		{name: "no value", line: "curl u -d", wrong: true},
		{name: "another command", line: "wget u", wrong: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &reader{t: t}
			commands := r.commands(tt.line + "\n")
			if len(commands) != 1 {
				t.Fatalf("%d commands", len(commands))
			}
			method, url, body, _, err := parseCurl(commands[0])
			if (err != nil) != tt.wrong {
				t.Fatalf("error %v", err)
			}
			if err == nil && (method != tt.method || url != tt.url || body != tt.body) {
				t.Errorf("got %s %s %q", method, url, body)
			}
		})
	}
}

// TestFirstSteps runs the script that make run prints from, on a machine that has neither curl
// nor wget, and tries what it prints.
func TestFirstSteps(t *testing.T) {
	base := serve(t)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	script := exec.Command(shell, "first-steps.sh")
	script.Env = []string{"PATH=" + pathOf(t, "cat"), "PORT=" + port}
	out, err := script.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r := &reader{t: t, base: base, address: base, noted: map[string]string{}}
	commands := r.commands(strings.Join(firstsInOrder(string(out), `(?m)^   (curl .*)$`), "\n") + "\n")
	if len(commands) != 3 {
		t.Fatalf("%d commands in %s", len(commands), out)
	}
	push, pop, poll := commands[0], commands[1], commands[2]
	for _, words := range [][]string{push, pop, push, poll} { // the poll would wait
		r.run(words)
	}
}

// pathOf returns a directory that holds one program and no other.
func pathOf(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(path, filepath.Join(dir, program)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func firstsInOrder(text, pattern string) (found []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	return found
}
