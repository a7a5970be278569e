package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"
)

// ceilingFlag makes this program be the ceiling instead of measuring.
const ceilingFlag = "ceiling"

// ceilingPath is followed by the length of the answer.
const ceilingPath = "/ceiling/"

// maxCeilingAnswer is longer than the answer of any push that is measured.
const maxCeilingAnswer = 1 << 20

// ceiling is a process that reads bodies and answers 201 with as many bytes as it was
// asked for: what the HTTP server below the broker can do on this machine when the broker
// does nothing.
type ceiling struct {
	cmd     *exec.Cmd
	stdin   io.Closer // closing it ends the process
	address string
}

func startCeiling() (*ceiling, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "--"+ceilingFlag)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the ceiling: %w", err)
	}
	c := &ceiling{cmd: cmd, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the ceiling: %w", err), c.stop())
	}
	c.address = strings.TrimSpace(line)
	return c, nil
}

func (c *ceiling) stop() error {
	return errors.Join(c.stdin.Close(), c.cmd.Wait())
}

// ceilingMain is the process: it prints its address and serves until stdin ends.
func ceilingMain() error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // any end of it is the end
		os.Exit(0)
	}()
	return newCeilingServer().Serve(ln)
}

func newCeilingServer() *fasthttp.Server {
	answer := make([]byte, maxCeilingAnswer)
	for i := range answer {
		answer[i] = 'x'
	}
	return &fasthttp.Server{
		Handler: func(ctx *fasthttp.RequestCtx) {
			n, err := strconv.Atoi(strings.TrimPrefix(string(ctx.Path()), ceilingPath))
			if err != nil || n > len(answer) || len(ctx.PostBody()) == 0 {
				ctx.SetStatusCode(fasthttp.StatusBadRequest)
				return
			}
			ctx.SetStatusCode(fasthttp.StatusCreated)
			ctx.SetContentType("application/json")
			ctx.Response.SetBodyRaw(answer[:n])
		},
		MaxRequestBodySize:    64 << 20,
		NoDefaultServerHeader: true,
		NoDefaultDate:         true,
	}
}
