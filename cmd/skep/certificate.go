package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/cmd/skep/config"
	"github.com/skepmq/skep/server/auth"
)

// certificate is the certificate of the server and its key, read from two files, and again
// when the process is told to.
type certificate struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate]
}

var errHalfTLS = errors.New("--tls-cert and --tls-key belong together: SKEP_TLS_CERT, SKEP_TLS_KEY")

// loadCertificate returns nil if no files are named.
func loadCertificate(certFile, keyFile string) (*certificate, error) {
	if certFile == "" && keyFile == "" {
		return nil, nil
	}
	if certFile == "" || keyFile == "" {
		return nil, errHalfTLS
	}
	c := &certificate{certFile: certFile, keyFile: keyFile}
	return c, c.load()
}

func (c *certificate) load() error {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("load the certificate of --tls-cert and --tls-key: %w", err)
	}
	c.current.Store(&pair)
	return nil
}

// config is that of a server. Connections that are open keep the certificate they have.
func (c *certificate) config() *tls.Config {
	if c == nil {
		return nil
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}

// reload reads the files again at each signal, until ctx ends. What cannot be read changes
// nothing. Where there is no certificate, nil, it says so: unheard, the signal would end the
// process.
func (c *certificate) reload(ctx context.Context, signals <-chan os.Signal, logger *zerolog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
			if c == nil {
				logger.Info().Msg("SIGHUP has no effect without a certificate")
				continue
			}
			if err := c.load(); err != nil {
				logger.Error().Err(err).Msg("the old certificate stays in use")
				continue
			}
			logger.Info().Time("expires", c.current.Load().Leaf.NotAfter).Msg("certificate read again")
		}
	}
}

// secure loads what tokens and connections are checked with, and keeps it up to date until
// stop is called.
func secure(c *config.Config, logger *zerolog.Logger) (stop func(), err error) {
	if c.Server.Auth, err = verifier(c, logger); err != nil {
		return nil, err
	}
	cert, err := loadCertificate(c.TLSCert, c.TLSKey)
	if err != nil {
		return nil, err
	}
	c.Server.TLS = cert.config()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	wg.Go(func() { cert.reload(ctx, signals, logger) })
	if v := c.Server.Auth; v != nil {
		wg.Go(func() { v.Run(ctx) })
	}
	return func() {
		signal.Stop(signals)
		cancel()
		wg.Wait()
	}, nil
}

// verifier returns what verifies tokens, nil if none are asked for.
func verifier(c *config.Config, logger *zerolog.Logger) (*auth.Verifier, error) {
	if !c.AuthEnabled {
		return nil, nil
	}
	o := c.Auth
	o.Logger = *logger
	return auth.New(o)
}

// limitHosts lets a listener on the loopback answer to names of the loopback alone, and
// those that are allowed. On other addresses names are asked for if some are allowed. The
// one it was told to listen on leads here by no trick, and is what skep health asks for. But
// all addresses at once have none: a browser does not mark what goes to 0.0.0.0.
func limitHosts(c *config.Config, addr net.Addr) {
	allowed := c.AllowedHosts
	if allowed == nil && !onLoopback(addr) {
		return
	}
	if tcp, ok := addr.(*net.TCPAddr); ok && !tcp.IP.IsUnspecified() {
		host, _, _ := net.SplitHostPort(c.Listen)
		allowed = append(slices.Clone(allowed), host, tcp.IP.String())
	}
	c.Server.AllowedHosts = allowed
}

func onLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
