package server

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/skepmq/skep/broker"
)

// serverTLS returns the configuration of a server with a certificate of its own making.
func serverTLS(t testing.TB) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	}
}

// dialTLS connects; raw is what lies below.
func dialTLS(t testing.TB, addr string, version uint16) (c *tls.Conn, raw *net.TCPConn) {
	t.Helper()
	w := dial(t, addr)
	return tls.Client(w.TCPConn, &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version}), w.TCPConn
}

// R9: a parked client that hangs up is noticed under TLS as well, however it does it.
func TestAliveTLS(t *testing.T) {
	f := newFake()
	parked := make(chan *broker.PopRequest, 1)
	f.popFn = f.park(parked)
	addr, _ := startTCP(t, f, Options{ReadTimeout: time.Second, TLS: serverTLS(t)})
	for version, versionName := range map[uint16]string{tls.VersionTLS12: "1.2", tls.VersionTLS13: "1.3"} {
		for name, tt := range map[string]struct {
			then  func(*tls.Conn, *net.TCPConn) error
			alive bool
		}{
			"waiting":   {func(*tls.Conn, *net.TCPConn) error { return nil }, true},
			"pipelined": {func(c *tls.Conn, _ *net.TCPConn) error { _, err := io.WriteString(c, get("/health")); return err }, true},
			"a byte":    {func(c *tls.Conn, _ *net.TCPConn) error { _, err := io.WriteString(c, "G"); return err }, true},
			"closed":    {func(c *tls.Conn, _ *net.TCPConn) error { return c.Close() }, false},
			"said so":   {func(c *tls.Conn, _ *net.TCPConn) error { return c.CloseWrite() }, false},
			"no words":  {func(_ *tls.Conn, raw *net.TCPConn) error { return raw.Close() }, false},
			"reset":     {func(_ *tls.Conn, raw *net.TCPConn) error { return errors.Join(raw.SetLinger(0), raw.Close()) }, false},
			"closed behind a request": {func(c *tls.Conn, _ *net.TCPConn) error {
				_, err := io.WriteString(c, get("/health"))
				return errors.Join(err, c.Close())
			}, runtime.GOOS != "linux"},
		} {
			c, raw := dialTLS(t, addr, version)
			if _, err := io.WriteString(c, get("/api/v1/pop/queue/q?wait=true")); err != nil {
				t.Fatal(err)
			}
			req := <-parked
			if !req.Alive() {
				t.Errorf("%s, %s: gone before", versionName, name)
			}
			if err := tt.then(c, raw); err != nil {
				t.Fatalf("%s, %s: %v", versionName, name, err)
			}
			// What does not change cannot be waited for, but what arrives is peeked at.
			got := req.Alive()
			for give := time.Now().Add(5 * time.Second); got != tt.alive && time.Now().Before(give); {
				runtime.Gosched()
				got = req.Alive()
			}
			if got != tt.alive {
				t.Errorf("%s, %s: alive %t, want %t", versionName, name, got, tt.alive)
			}
		}
	}
}

func TestCloseNotify(t *testing.T) {
	for name, tt := range map[string]struct {
		b    []byte
		want bool
	}{
		"nothing": {nil, false}, "part of a head": {[]byte{recordAlert, 3, 3, 0}, false},
		"TLS 1.2": {[]byte{recordAlert, 3, 3, 0, 26}, true}, "TLS 1.3": {[]byte{recordData, 3, 3, 0, 19}, true},
		"key update": {[]byte{recordData, 3, 3, 0, 22}, false}, "request": {[]byte{recordData, 3, 3, 1, 19}, false}, "handshake": {[]byte{22, 3, 3, 0, 19}, false},
	} {
		if got := closeNotify(tt.b); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// Large bodies and answers, refusals that linger, and leases of lost answers.
func TestServeTLS(t *testing.T) {
	f := newFake()
	long := bytes.Repeat([]byte("1"), 4<<20)
	f.messages[testID(2)] = []broker.Message{{ID: testID(3), Payload: long}}
	f.popFn = func(*broker.PopRequest) (*broker.PopResult, error) {
		return &broker.PopResult{LeaseID: testID(9), Parts: []broker.PopPart{{PartitionID: testID(2)}}}, nil
	}
	config := serverTLS(t)
	addr, s := startTCP(t, f, Options{TLS: config, MaxBodyBytes: 1 << 20})
	leaf, err := x509.ParseCertificate(config.Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer client.CloseIdleConnections()
	for range 2 {
		res, err := client.Get("https://" + addr + "/api/v1/pop/queue/q")
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		if res.Body.Close(); err != nil || !bytes.Contains(b, long) {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		res, err = client.Post("https://"+addr+"/api/v1/push", "", strings.NewReader(strings.Repeat("x", 2<<20)))
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); res.StatusCode != http.StatusRequestEntityTooLarge {
			t.Fatalf("a body too large: %d", res.StatusCode)
		}
	}
	select {
	case lease := <-f.released:
		t.Errorf("released %s", lease)
	default:
	}
	c, raw := dialTLS(t, addr, tls.VersionTLS13)
	if _, err := io.WriteString(c, get("/api/v1/pop/queue/q")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 100)); err != nil { // the answer has begun
		t.Fatal(err)
	}
	if err := errors.Join(raw.SetLinger(0), raw.Close()); err != nil {
		t.Fatal(err)
	}
	select {
	case lease := <-f.released:
		if lease != testID(9) {
			t.Errorf("released %s", lease)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the lease of a lost answer was not released")
	}
	shutDown(t, s)
}

// Old versions and clients that do not speak TLS get nothing, and hold nobody up.
func TestTLSRefuses(t *testing.T) {
	addr, _ := startTCP(t, newFake(), Options{TLS: serverTLS(t), ReadTimeout: 20 * time.Millisecond})
	old, _ := dialTLS(t, addr, tls.VersionTLS11)
	if err := old.Handshake(); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	plain := dial(t, addr)
	plain.send(get("/health"))
	if b, _ := io.ReadAll(plain); bytes.Contains(b, []byte("HTTP")) {
		t.Errorf("got %q", b)
	}
	silent := dial(t, addr)
	silent.closed()

	full, _ := startTCP(t, newFake(), Options{TLS: serverTLS(t), MaxConns: 1})
	first, _ := dialTLS(t, full, tls.VersionTLS13)
	if err := first.Handshake(); err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(dial(t, full)); len(b) > 0 { // no HTTP in the clear
		t.Errorf("got %q", b)
	}
}
