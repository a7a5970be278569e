package config

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/skepmq/skep/log/journal"
)

// flagsOf parses a command line with the flags of table.
func flagsOf(t *testing.T, table []setting, args ...string) *pflag.FlagSet {
	t.Helper()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	addFlags(table, flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return flags
}

// value returns what is in force for name, as "value source from".
func (c *Config) value(name string) string {
	for _, v := range c.Values {
		if v.Name == name {
			return strings.TrimSpace(v.Value + " " + v.Source + " " + v.From)
		}
	}
	return "no such setting"
}

func TestG960Values(t *testing.T) {
	for name, row := range map[string]struct {
		env  []string
		args []string
		of   string // the setting that want is about
		want string
		bad  string // all of the error
	}{
		"default":              {of: "PORT", want: "6632 default"},
		"no default":           {of: "SKEP_MAX_HEAP_BYTES", want: "default"},
		"environment":          {env: []string{"PORT=80"}, of: "PORT", want: "80 environment PORT"},
		"blank":                {env: []string{"PORT= "}, of: "PORT", want: "6632 default"},
		"first counts":         {env: []string{"PORT=80", "PORT=81"}, of: "PORT", want: "80 environment PORT"},
		"blanks around":        {env: []string{"PORT= 80 "}, of: "PORT", want: "80 environment PORT"},
		"flag wins":            {env: []string{"SKEP_DATA_DIR=/a"}, args: []string{"--data-dir=/b"}, of: "SKEP_DATA_DIR", want: "/b flag --data-dir"},
		"listen is the port":   {env: []string{"PORT=80"}, args: []string{"--listen=:70"}, of: "PORT", want: "70 flag --listen"},
		"and the address":      {args: []string{"--listen=[::1]:70"}, of: "QUEEN_BIND_ADDR", want: "::1 flag --listen"},
		"alias":                {env: []string{"LOG_LEVEL=warn"}, of: "RUST_LOG", want: "warn environment LOG_LEVEL"},
		"alias loses":          {env: []string{"LOG_LEVEL=warn", "RUST_LOG=error"}, of: "RUST_LOG", want: "error environment RUST_LOG"},
		"filters pass":         {env: []string{"RUST_LOG=off,queen=debug"}, of: "RUST_LOG", want: "disabled environment RUST_LOG"},
		"true":                 {env: []string{"QUEEN_LOG_JSON=Yes"}, of: "QUEEN_LOG_JSON", want: "true environment QUEEN_LOG_JSON"},
		"one":                  {env: []string{"QUEEN_LOG_JSON=1"}, of: "QUEEN_LOG_JSON", want: "true environment QUEEN_LOG_JSON"},
		"on":                   {env: []string{"QUEEN_LOG_JSON= ON "}, of: "QUEEN_LOG_JSON", want: "true environment QUEEN_LOG_JSON"},
		"false":                {env: []string{"SKEP_DELIVERY_DETAILS=FALSE"}, of: "SKEP_DELIVERY_DETAILS", want: "false environment SKEP_DELIVERY_DETAILS"},
		"off":                  {env: []string{"SKEP_DELIVERY_DETAILS=off"}, of: "SKEP_DELIVERY_DETAILS", want: "false environment SKEP_DELIVERY_DETAILS"},
		"floor":                {env: []string{"PARTITION_CLEANUP_DAYS=-3"}, of: "PARTITION_CLEANUP_DAYS", want: "1 environment PARTITION_CLEANUP_DAYS"},
		"interval":             {env: []string{"SKEP_FSYNC=interval:5"}, of: "SKEP_FSYNC", want: "interval:5 environment SKEP_FSYNC"},
		"a bad truth value":    {env: []string{"QUEEN_LOG_JSON=tru"}, bad: "QUEEN_LOG_JSON=\"tru\": not a truth value; allowed: `true`, `1`, `yes`, `on`, `false`, `0`, `no`, `off`"},
		"no number":            {env: []string{"SKEP_SEGMENT_BYTES=64MB"}, bad: `SKEP_SEGMENT_BYTES="64MB": not a whole number; allowed: 1048576 to 2147483648 (bytes)`},
		"too small":            {env: []string{"SKEP_SEGMENT_BYTES=1"}, bad: `SKEP_SEGMENT_BYTES="1": out of range; allowed: 1048576 to 2147483648 (bytes)`},
		"beyond all numbers":   {env: []string{"PORT=99999999999999999999"}, bad: `PORT="99999999999999999999": out of range; allowed: 0 to 65535`},
		"no interval":          {env: []string{"RETENTION_INTERVAL=0"}, bad: `RETENTION_INTERVAL="0": out of range; allowed: 1 to 2147483648 (milliseconds)`},
		"a wrong alias":        {env: []string{"POP_DEFAULT_TIMEOUT_MS=x", "DEFAULT_TIMEOUT=5"}, bad: `POP_DEFAULT_TIMEOUT_MS="x": not a whole number; allowed: 1 to 600000 (milliseconds)`},
		"a wrong flag":         {args: []string{"--listen=localhost"}, bad: `--listen="localhost": not an address with a port; allowed: HOST:PORT`},
		"a wrong port":         {args: []string{"--listen=localhost:65536"}, bad: `--listen="localhost:65536": not a port, 0 to 65535; allowed: HOST:PORT`},
		"address with a port":  {env: []string{"QUEEN_BIND_ADDR=0.0.0.0:80"}, bad: `QUEEN_BIND_ADDR="0.0.0.0:80": PORT or --listen set the port; allowed: an address without a port`},
		"no sync like that":    {env: []string{"SKEP_FSYNC=always"}, bad: "SKEP_FSYNC=\"always\": not known; allowed: `group`, `interval:<ms>` with at least 1, `never`"},
		"no interval of sync":  {env: []string{"SKEP_FSYNC=interval:0"}, bad: "SKEP_FSYNC=\"interval:0\": not a whole number of milliseconds; allowed: `group`, `interval:<ms>` with at least 1, `never`"},
		"no mode like that":    {env: []string{"DEFAULT_SUBSCRIPTION_MODE=newest"}, bad: "DEFAULT_SUBSCRIPTION_MODE=\"newest\": not known; allowed: `all`, `new`"},
		"no level like that":   {env: []string{"LOG_LEVEL=loud"}, bad: "LOG_LEVEL=\"loud\": not a log level; allowed: `trace`, `debug`, `info`, `warn`, `error`, `fatal`, `panic`, `off`; with commas `target=level`"},
		"no level of a target": {env: []string{"LOG_LEVEL=info,pop=loud"}, bad: "LOG_LEVEL=\"info,pop=loud\": not a log level; allowed: `trace`, `debug`, `info`, `warn`, `error`, `fatal`, `panic`, `off`; with commas `target=level`"},
		"a target":             {env: []string{"LOG_LEVEL=warn, Journal = debug ,pop=off"}, of: "RUST_LOG", want: "warn,journal=debug,pop=disabled environment LOG_LEVEL"},
		"targets lose":         {env: []string{"LOG_LEVEL=warn,pop=debug", "RUST_LOG=journal=debug"}, of: "RUST_LOG", want: "info,journal=debug environment RUST_LOG"},
		"pprof without port":   {args: []string{"--pprof=6060"}, bad: `--pprof="6060": address 6060: missing port in address; allowed: HOST:PORT`},
		"no key":               {env: []string{"QUEEN_ENCRYPTION_KEY=" + strings.Repeat("0g", 32)}, bad: `QUEEN_ENCRYPTION_KEY="<set:64 chars>": not 64 hexadecimal digits; allowed: 64 hexadecimal digits`},
		"half a key":           {env: []string{"QUEEN_ENCRYPTION_KEY=0f"}, bad: `QUEEN_ENCRYPTION_KEY="<set:2 chars>": not 64 hexadecimal digits; allowed: 64 hexadecimal digits`},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Load(flagsOf(t, settings(), row.args...), row.env)
			if row.bad != "" {
				if err == nil || err.Error() != row.bad {
					t.Fatalf("got error  %v\nwant error %s", err, row.bad)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := c.value(row.of); got != row.want {
				t.Errorf("got %q want %q", got, row.want)
			}
		})
	}
}

// TestSettersReachTheirField gives every setting a value that is not its default, and looks
// for it where it belongs.
func TestSettersReachTheirField(t *testing.T) {
	var c *Config
	rows := []struct {
		name, value string
		arrived     func() bool
	}{
		{"SKEP_DATA_DIR", "/x", func() bool { return c.DataDir == "/x" }},
		{"QUEEN_BIND_ADDR", "[::]", func() bool { return c.Listen == "[::]:6632" }},
		{"PORT", "7", func() bool { return c.Listen == "127.0.0.1:7" }},
		{"QUEEN_SERVER_ID", "here", func() bool { return c.Server.ServerID == "here" }},
		{"SKEP_FSYNC", "never", func() bool { return c.Fsync == "never" && c.Broker.Sync == journal.SyncNever }},
		{"SKEP_SEGMENT_BYTES", "1048577", func() bool { return c.Broker.SegmentBytes == 1048577 }},
		{"SKEP_CHECKPOINT_BYTES", "1048577", func() bool { return c.Broker.CheckpointBytes == 1048577 }},
		{"SKEP_MAX_UNFILED_BYTES", "1048577", func() bool { return c.Broker.MaxUnfiledBytes == 1048577 }},
		{"SKEP_DISK_HIGH_PCT", "77", func() bool { return c.Broker.DiskHighPercent == 77 }},
		{"SKEP_MAX_HEAP_BYTES", "1048577", func() bool { return c.Broker.MaxHeapBytes == 1048577 }},
		{"SKEP_MAX_PARKED", "77", func() bool { return c.Broker.MaxParked == 77 }},
		{"SKEP_DELIVERY_DETAILS", "on", func() bool { return c.Server.DeliveryDetails }},
		{"RETENTION_INTERVAL", "77", func() bool { return c.Broker.RetentionInterval == 77*time.Millisecond }},
		{"PARTITION_CLEANUP_DAYS", "77", func() bool { return c.Broker.CleanupAge == 77*day }},
		{"QUEEN_PARTITION_CLEANUP_ENABLED", "off", func() bool { return c.Broker.CleanupAge == -1 }},
		{"QUEEN_DEDUP_CACHE_MB", "3", func() bool { return c.Broker.DedupCacheBytes == 3<<20 }},
		{"QUEEN_MAX_BODY_BYTES", "77", func() bool { return c.Server.MaxBodyBytes == 77 }},
		{"SKEP_IN_FLIGHT_BYTES", "1048577", func() bool { return c.Server.InFlightBytes == 1048577 }},
		{"SKEP_ANSWER_BYTES", "1048577", func() bool { return c.Server.AnswerBytes == 1048577 }},
		{"SKEP_METRICS_MAX_QUEUES", "78", func() bool { return c.Server.MetricsQueues == 78 }},
		{"SKEP_METRICS_MAX_GROUPS", "78", func() bool { return c.Server.MetricsGroups == 78 }},
		{"METRICS_RETENTION_DAYS", "9", func() bool { return c.Server.MetricsRetention == 9*day }},
		{"TRACE_RETENTION_DAYS", "9", func() bool { return c.Server.TraceRetention == 9*day }},
		{"SKEP_METRICS_MAX_BYTES", "1048577", func() bool { return c.Server.MetricsBytes == 1048577 }},
		{"METRICS_FLUSH_MS", "1001", func() bool { return c.Server.MetricsEvery == 1001*time.Millisecond }},
		{"SKEP_MAX_CONNS", "77", func() bool { return c.Server.MaxConns == 77 }},
		{"QUEEN_TENANCY_HEADER", "yes", func() bool { return c.Server.TenancyHeader }},
		{"DEFAULT_TIMEOUT", "77", func() bool { return c.Server.PopTimeout == 77*time.Millisecond }},
		{"DEFAULT_SUBSCRIPTION_MODE", "new", func() bool { return c.Server.DefaultSubscriptionMode == "new" }},
		{"QUEEN_LOG_RATES_MS", "77", func() bool { return c.Server.LogRatesEvery == 77*time.Millisecond }},
		{"QUEEN_LOG_TOPN_QUEUES", "0", func() bool { return c.Server.LogTopQueues == 0 }},
		{"QUEEN_LOG_JSON", "on", func() bool { return c.LogJSON }},
		{"RUST_LOG", "error", func() bool { return c.LogLevel == zerolog.ErrorLevel }},
		{"QUEEN_ENCRYPTION_KEY", strings.Repeat("0f", 32), func() bool { return c.EncryptionKey != nil && c.EncryptionKey[31] == 15 }},
		{"SKEP_ENCRYPTION_KEY_FILE", "/k", func() bool { return c.EncryptionKeyFile == "/k" }},
		{"SKEP_ENCRYPTION_REQUIRED", "on", func() bool { return c.Broker.EncryptionRequired }},
		{"SKEP_TLS_CERT", "/c", func() bool { return c.TLSCert == "/c" }},
		{"SKEP_TLS_KEY", "/k", func() bool { return c.TLSKey == "/k" }},
		{"SKEP_ALLOWED_HOSTS", "a,b", func() bool { return slices.Equal(c.AllowedHosts, []string{"a", "b"}) }},
		{"JWT_ENABLED", "1", func() bool { return c.AuthEnabled }},
		{"JWT_ALGORITHM", "EdDSA", func() bool { return c.Auth.Algorithm == "EdDSA" }},
		{"JWT_SECRET", " s", func() bool { return string(c.Auth.Secret) == " s" }},
		{"JWT_PUBLIC_KEY", "p", func() bool { return string(c.Auth.PublicKey) == "p" }},
		{"JWT_JWKS_URL", "https://a", func() bool { return c.Auth.JWKSURL == "https://a" }},
		{"JWT_JWKS_REFRESH_INTERVAL", "77", func() bool { return c.Auth.JWKSRefresh == 77*time.Second }},
		{"JWT_JWKS_TIMEOUT_MS", "77", func() bool { return c.Auth.JWKSTimeout == 77*time.Millisecond }},
		{"JWT_ISSUER", "x", func() bool { return c.Auth.Issuer == "x" }},
		{"JWT_AUDIENCE", "x", func() bool { return c.Auth.Audience == "x" }},
		{"JWT_CLOCK_SKEW", "0", func() bool { return c.Auth.Skew == 0 }},
		{"JWT_SKIP_PATHS", "/x", func() bool { return slices.Equal(c.Auth.SkipPaths, []string{"/x"}) }},
		{"JWT_ROLES_CLAIM", "x", func() bool { return c.Auth.RolesClaim == "x" }},
		{"JWT_ROLES_ARRAY_CLAIM", "x", func() bool { return c.Auth.RolesArrayClaim == "x" }},
		{"JWT_ROLE_ADMIN", "x", func() bool { return c.Auth.AdminRole == "x" }},
		{"JWT_ROLE_READ_WRITE", "x", func() bool { return c.Auth.ReadWriteRole == "x" }},
		{"JWT_ROLE_READ_ONLY", "x", func() bool { return c.Auth.ReadOnlyRole == "x" }},
		{"JWT_ROLE_WRITE_ONLY", "x", func() bool { return c.Auth.WriteOnlyRole == "x" }},
		{"SKEP_PPROF", ":1", func() bool { return c.Pprof == ":1" }},
	}
	tried := map[string]bool{}
	for _, row := range rows {
		tried[row.name] = true
		var err error
		if c, err = Load(nil, nil); err != nil || row.arrived() {
			t.Errorf("%s: %v, or it is %s by default", row.name, err, row.value)
		}
		if c, err = Load(nil, []string{row.name + "=" + row.value}); err != nil || !row.arrived() {
			t.Errorf("%s=%s has not arrived, %v", row.name, row.value, err)
		}
	}
	for _, s := range settings() {
		if s.name != "" && !tried[s.name] {
			t.Errorf("%s is not tried", s.name)
		}
	}
}

// TestG421Secrets keeps secrets out of what is printed, errors included.
func TestG421Secrets(t *testing.T) {
	var got string
	table := []setting{{name: "KEY", secret: true, kind: words("eight letters", func(_ *Config, v string) error {
		got = v
		if len(v) < 8 {
			return strings.NewReader("").UnreadByte() // any error
		}
		return nil
	})}}
	for _, row := range []struct{ env, shown string }{
		{"", "<unset>"},
		{"KEY=hunter2hunter2", "<set:14 chars>"},
		{"KEY=passwört", "<set:8 chars>"},
	} {
		c, err := load(table, nil, []string{row.env})
		if err != nil || c.Values[0].Value != row.shown {
			t.Errorf("%q: got %+v, %v want %s", row.env, c, err, row.shown)
		}
	}
	if got != "passwört" {
		t.Errorf("the setting got %q", got)
	}
	_, err := load(table, nil, []string{"KEY=short"})
	if err == nil || strings.Contains(err.Error(), "short") || !strings.HasPrefix(err.Error(), `KEY="<set:5 chars>": `) {
		t.Errorf("got error %v", err)
	}
}

// TestEmptyIsAValue is for lists whose default is not empty.
func TestEmptyIsAValue(t *testing.T) {
	for _, row := range []struct {
		keep bool
		env  []string
		want string
	}{
		{true, nil, "/health"},
		{true, []string{"PATHS="}, ""},
		{true, []string{"PATHS=/a"}, "/a"},
		{false, []string{"PATHS="}, "/health"},
	} {
		var got string
		table := []setting{{name: "PATHS", value: "/health", keepEmpty: row.keep, kind: words("paths", func(_ *Config, v string) error { got = v; return nil })}}
		if _, err := load(table, nil, row.env); err != nil || got != row.want {
			t.Errorf("keep %v, %v: got %q, %v want %q", row.keep, row.env, got, err, row.want)
		}
	}
}

func TestG960Remarks(t *testing.T) {
	for name, row := range map[string]struct {
		env      string // words
		unknown  string
		ignored  string
		warnings int
	}{
		"nothing":          {env: "HOME=/ PORT=1 SKEP_URL=x SKEP_ATTEMPT=1 LOG_LEVEL=info"},
		"changed places":   {env: "SKEP_FSYCN=group", unknown: "SKEP_FSYCN (SKEP_FSYNC?)"},
		"another prefix":   {env: "SKEP_PORT=1 SKEP_MAX_BODY_BYTES=1", unknown: "SKEP_MAX_BODY_BYTES (QUEEN_MAX_BODY_BYTES?) SKEP_PORT (PORT?)"},
		"nothing near":     {env: "SKEP_COLOUR=1", unknown: "SKEP_COLOUR"},
		"of tokens":        {env: "JWT_SECRTE=1", unknown: "JWT_SECRTE (JWT_SECRET?)"},
		"not ours":         {env: "POST=1 DATA_DIR=x"},
		"blank is absent":  {env: "SKEP_FSYCN= QUEEN_MESH_PEERS= PG_HOST="},
		"of other brokers": {env: "PG_HOST=a DB_NAME=b QUEEN_SEG_X=1 POP_WAIT_MAX_INTERVAL_MS=1 STATS_INTERVAL_MS=1", ignored: "DB_NAME PG_HOST POP_WAIT_MAX_INTERVAL_MS QUEEN_SEG_X STATS_INTERVAL_MS"},
		"peers":            {env: "QUEEN_MESH_PEERS=a,b", ignored: "QUEEN_MESH_PEERS", warnings: 1},
		"encryption key":   {env: "QUEEN_ENCRYPTION_KEY=" + strings.Repeat("0f", 32)},
		"log targets":      {env: "LOG_LEVEL=info,pop=debug,dedup=warn"},
		"no log targets":   {env: "LOG_LEVEL=info,queen=debug,tokio::net=warn", warnings: 1},
		"overruled":        {env: "LOG_LEVEL=info,queen=debug RUST_LOG=warn"},
	} {
		c, err := Load(nil, strings.Fields(row.env))
		if err != nil {
			t.Fatal(err)
		}
		var unknown []string
		for _, u := range c.Remarks.Unknown {
			unknown = append(unknown, u.String())
		}
		if got := strings.Join(unknown, " "); got != row.unknown {
			t.Errorf("%s: unknown %q want %q", name, got, row.unknown)
		}
		if got := strings.Join(c.Remarks.Ignored, " "); got != row.ignored {
			t.Errorf("%s: ignored %q want %q", name, got, row.ignored)
		}
		if got := len(c.Remarks.Warnings); got != row.warnings {
			t.Errorf("%s: warnings %q want %d", name, c.Remarks.Warnings, row.warnings)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, row := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "abd", 1}, {"abc", "bc", 1}, {"FSYCN", "FSYNC", 1}, {"kitten", "sitting", 3}} {
		if got, back := distance(row.a, row.b), distance(row.b, row.a); got != row.want || back != row.want {
			t.Errorf("%q %q: got %d and %d want %d", row.a, row.b, got, back, row.want)
		}
	}
}

func TestUsage(t *testing.T) {
	s := setting{name: "A_B", value: "x", meaning: "speaks [TLS](security.md#tls) at `/path`"}
	if got, want := s.usage(), "speaks TLS at /path (default x); A_B"; got != want {
		t.Errorf("got %q want %q", got, want)
	}
}

// TestTable looks after what the compiler does not: a name stands for one setting.
func TestTable(t *testing.T) {
	var flags []string
	for _, s := range settings() {
		if s.meaning == "" || s.values == "" || s.value == "" && s.absent == "" && !s.secret {
			t.Errorf("%s%s is not described", s.name, s.flag)
		}
		if s.flag != "" {
			flags = append(flags, s.flag)
		}
	}
	for _, names := range [][]string{Names(), flags} {
		slices.Sort(names)
		if len(slices.Compact(slices.Clone(names))) != len(names) {
			t.Errorf("a name stands twice in %v", names)
		}
	}
}
