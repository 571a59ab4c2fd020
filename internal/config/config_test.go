package config

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"sluice/internal/sluice"
)

// sample gives each key a value that is not its default, as text and as config show shows it.
var sample = map[string][2]string{
	"data":                          {"/srv/sluice", "/srv/sluice"},
	"roles":                         {"api,loader", "api,loader"},
	"instance":                      {"one", "one"},
	"server":                        {"http://127.0.0.1:9", "http://127.0.0.1:9"},
	"token":                         {"env:KEY_OF_TEST", "*** (env KEY_OF_TEST)"},
	"http.auth.mode":                {"token", "token"},
	"http.auth.admin_secret":        {"env:KEY_OF_TEST", "*** (env KEY_OF_TEST)"},
	"http.auth.discovery_secret":    {"file:/srv/discovery", "*** (file /srv/discovery)"},
	"http.tls.cert":                 {"/srv/cert.pem", "/srv/cert.pem"},
	"http.tls.key":                  {"/srv/key.pem", "/srv/key.pem"},
	"http.rate":                     {"7", "7"},
	"loader.session.idle":           {"30s", "30s"},
	"loader.session.max_age":        {"5m", "5m"},
	"log.level":                     {"debug", "debug"},
	"log.format":                    {"text", "text"},
	"state.dsn":                     {"postgres://me@127.0.0.1/x", "postgres://me@127.0.0.1/x"},
	"http.listen":                   {"127.0.0.1:1", "127.0.0.1:1"},
	"warehouse.listen":              {"[::1]:2", "[::1]:2"},
	"warehouse.extensions":          {"/srv/ext", "/srv/ext"},
	"warehouse.memory_limit":        {"4GiB", "4GiB"},
	"warehouse.threads":             {"3", "3"},
	"warehouse.max_instances":       {"5", "5"},
	"warehouse.instance_max_age":    {"2d", "2d"},
	"warehouse.max_connections":     {"7", "7"},
	"warehouse.spill_limit":         {"10GiB", "10GiB"},
	"catalog.kind":                  {"postgres", "postgres"},
	"catalog.dsn":                   {"postgres://me@127.0.0.1/y", "postgres://me@127.0.0.1/y"},
	"catalog.role_key":              {"env:KEY_OF_TEST", "*** (env KEY_OF_TEST)"},
	"catalog.pool_per_org":          {"9", "9"},
	"store.url":                     {"file:///srv/lake", "/srv/lake"},
	"store.endpoint":                {"https://s3.example.com", "https://s3.example.com"},
	"store.region":                  {"eu-west-1", "eu-west-1"},
	"store.path_style":              {"true", "true"},
	"store.credentials.mode":        {"anonymous", "anonymous"},
	"store.credentials.key_id":      {"id", "id"},
	"store.credentials.secret":      {"env:KEY_OF_TEST", "*** (env KEY_OF_TEST)"},
	"store.credentials.role":        {"arn:aws:iam::1:role/r", "arn:aws:iam::1:role/r"},
	"store.credentials.session":     {"2h", "2h"},
	"delta.commit_keys.run_id":      {"job", "job"},
	"delta.commit_keys.batch_index": {"part", "part"},
	"delta.partition_timezone":      {"Europe/Berlin", "Europe/Berlin"},
	"delta.allowed_roots":           {"/srv/a,s3://b/c profile=d", "/srv/a,s3://b/c profile=d"},
	"delta.strict":                  {"false", "false"},
	"loader.concurrency":            {"2", "2"},
	"loader.poll":                   {"1s", "1s"},
	"loader.batch_timeout":          {"1h", "1h"},
	"loader.chunk_timeout":          {"3h", "3h"},
	"loader.max_attempts":           {"3", "3"},
	"backfill.per_org":              {"2", "2"},
	"backfill.global":               {"9", "9"},
	"backfill.interval":             {"1s", "1s"},
	"backfill.chunk_bytes":          {"64MiB", "64MiB"},
	"backfill.look_again":           {"30s", "30s"},
	"backfill.empty_apart":          {"2m", "2m"},
	"loader.drain_timeout":          {"20s", "20s"},
	"loader.retry_base":             {"1s", "1s"},
	"loader.second_look":            {"1s", "1s"},
	"loader.lease.ttl":              {"2m", "2m"},
	"loader.lease.heartbeat":        {"10s", "10s"},
	"loader.warehouse":              {"127.0.0.1:3", "127.0.0.1:3"},
	"loader.extract_prefixes":       {"/srv/a,/srv/b", "/srv/a,/srv/b"},
	"sweep.interval":                {"1m", "1m"},
	"kafka.brokers":                 {"127.0.0.1:9092,b:9093", "127.0.0.1:9092,b:9093"},
	"kafka.tls.mode":                {"on", "on"},
	"kafka.tls.ca_file":             {"/srv/ca.pem", "/srv/ca.pem"},
	"kafka.tls.cert_file":           {"/srv/c.pem", "/srv/c.pem"},
	"kafka.tls.key_file":            {"/srv/k.pem", "/srv/k.pem"},
	"kafka.tls.server_name":         {"broker", "broker"},
	"kafka.sasl.mechanism":          {"SCRAM-SHA-512", "SCRAM-SHA-512"},
	"kafka.sasl.user":               {"alice", "alice"},
	"kafka.sasl.password":           {"env:KEY_OF_TEST", "*** (env KEY_OF_TEST)"},
	"fanout.flush_rows":             {"5", "5"},
	"fanout.flush_interval":         {"2s", "2s"},
	"fanout.concurrency":            {"3", "3"},
	"fanout.seeds":                  {"3", "3"},
	"fanout.poll":                   {"2s", "2s"},
	"fanout.discovery":              {"2s", "2s"},
	"fanout.spool_limit":            {"2GiB", "2GiB"},
	"fanout.lease_ttl":              {"2m", "2m"},
	"changelog.flush_bytes":         {"1MiB", "1MiB"},
	"changelog.flush_rows":          {"5", "5"},
	"changelog.flush_interval":      {"2s", "2s"},
	"changelog.max_flush_interval":  {"3s", "3s"},
	"changelog.memory_limit":        {"32MiB", "32MiB"},
	"changelog.fetch_max_bytes":     {"2MiB", "2MiB"},
	"changelog.check":               {"4s", "4s"},
	"changelog.poll":                {"5s", "5s"},
	"changelog.slots":               {"0,2", "0,2"},
	"changelog.lease.ttl":           {"2m", "2m"},
	"changelog.lease.heartbeat":     {"3s", "3s"},
}

// needs are the keys without which others are refused.
var needs = map[string]map[string]string{
	"catalog.kind":               {"catalog.dsn": "postgres://me@127.0.0.1/y", "catalog.role_key": "env:KEY_OF_TEST"},
	"store.credentials.key_id":   {"store.credentials.mode": "static", "store.credentials.secret": "env:KEY_OF_TEST"},
	"store.credentials.secret":   {"store.credentials.mode": "static", "store.credentials.key_id": "id"},
	"store.credentials.role":     {"store.credentials.mode": "assume_role"},
	"http.auth.admin_secret":     {"http.auth.mode": "token"},
	"http.auth.discovery_secret": {"http.auth.mode": "token"},
	"http.tls.cert":              {"http.tls.key": "/srv/key.pem"},
	"http.tls.key":               {"http.tls.cert": "/srv/cert.pem"},
	"kafka.tls.cert_file":        {"kafka.tls.key_file": "/srv/k.pem"},
	"kafka.tls.key_file":         {"kafka.tls.cert_file": "/srv/c.pem"},
}

func yamlOf(values map[string]string) string {
	var b strings.Builder
	for path, v := range values {
		// One-line mappings: {a: {b: v}}. The lines are documents of their own only to the reader of this test.
		parts := strings.Split(path, ".")
		for i, p := range parts {
			b.WriteString(strings.Repeat("  ", i) + p + ":")
			if i < len(parts)-1 {
				b.WriteString("\n")
			}
		}
		b.WriteString(" \"" + v + "\"\n")
	}
	return b.String()
}

func setting(t *testing.T, l *Loaded, path string) Setting {
	t.Helper()
	for _, s := range l.Settings() {
		if s.Key == path {
			return s
		}
	}
	t.Fatalf("no key %s", path)
	return Setting{}
}

// Each key is read from the file, the environment and a flag.
func TestEveryKeyFromEverySource(t *testing.T) {
	t.Parallel()
	for _, k := range keys(new(Config)) {
		text, ok := sample[k.path]
		if !ok {
			t.Errorf("key %s has no sample", k.path)
			continue
		}
		set := needs[k.path]
		sources := map[string]Sources{}
		file := filepath.Join(t.TempDir(), "sluice.yaml")
		if err := os.WriteFile(file, []byte(yamlOf(map[string]string{k.path: text[0]})), 0o600); err != nil {
			t.Fatal(err)
		}
		sources["file "+file] = Sources{Environ: []string{}, File: file, Set: set}
		fset := pflag.NewFlagSet("test", pflag.ContinueOnError)
		AddFlags(fset)
		if err := fset.Parse([]string{"--" + k.path, text[0]}); err != nil {
			t.Fatal(err)
		}
		sources["flag --"+k.path] = Sources{Environ: []string{}, NoFile: true, Flags: fset, Set: set}
		names := []string{k.env}
		if k.alias != "" {
			names = append(names, k.alias)
		}
		for _, name := range names {
			sources["environment "+name] = Sources{Environ: []string{name + "=" + text[0]}, NoFile: true, Set: set}
		}
		for source, src := range sources {
			l, err := Load(src)
			if err != nil {
				t.Errorf("%s from %s: %v", k.path, source, err)
				continue
			}
			want := text[1]
			if k.isPlace && strings.HasPrefix(source, "environment") {
				want = "*** (env " + strings.TrimPrefix(source, "environment ") + ")" // the value stays where it is
			}
			if s := setting(t, l, k.path); s.Value != want || !strings.HasPrefix(s.Source, source) {
				t.Errorf("%s from %s: %q from %s, want %q", k.path, source, s.Value, s.Source, want)
			}
		}
	}
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	if err := os.WriteFile(file, []byte("loader: {concurrency: 1, poll: 1s, max_attempts: 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fset := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(fset)
	if err := fset.Parse([]string{"--config", file, "--loader.concurrency", "3"}); err != nil {
		t.Fatal(err)
	}
	l, err := Load(Sources{Flags: fset, Environ: []string{"SLUICE_LOADER__CONCURRENCY=2", "SLUICE_LOADER__POLL=2s"}})
	if err != nil {
		t.Fatal(err)
	}
	if c := l.Loader; c.Concurrency != 3 || c.Poll.D() != 2*time.Second || c.MaxAttempts != 1 || c.BatchTimeout.D() != 30*time.Minute {
		t.Errorf("%+v", c)
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"30s": 30 * time.Second, "7d": 168 * time.Hour, "1d12h": 36 * time.Hour, "250ms": 250 * time.Millisecond, "-1s": -1, "1": -1, "": -1, "d": -1, "9999999d": -1,
	} {
		d, err := ParseDuration(text)
		if want < 0 != (err != nil) || err == nil && d.D() != want {
			t.Errorf("duration %q: %v, %v", text, d, err)
		}
	}
	for text, want := range map[string]int64{
		"1GiB": 1 << 30, "512MiB": 512 << 20, "100": 100, "7B": 7, "0": 0, "1GB": -1, "-1": -1, "99999999TiB": -1, "": -1,
	} {
		s, err := ParseSize(text)
		if want < 0 != (err != nil) || err == nil && int64(s) != want {
			t.Errorf("size %q: %v, %v", text, s, err)
		}
	}
}

// What a secret refers to is shown nowhere; a literal one is refused, and not repeated in the refusal.
func TestSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "key")
	if err := os.WriteFile(file, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := parseSecretText("file:"+file, false)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := s.Read(); v != "hunter2" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	if strings.Contains(s.String(), "hunter2") {
		t.Error("the secret is shown")
	}
	for path, text := range map[string]string{
		"catalog.role_key": "hunter2", "state.dsn": "postgres://me:hunter2@h/x", "catalog.dsn": "host=h password=hunter2",
	} {
		_, err := Load(Sources{Environ: []string{}, NoFile: true, Set: map[string]string{path: text}})
		if sluice.CodeOf(err) != "SLUICE-CONFIG" || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestOnlyLoopback(t *testing.T) {
	t.Parallel()
	for addr, ok := range map[string]bool{
		"127.0.0.1:1": true, "localhost:1": true, "[::1]:1": true, "127.9.9.9:0": true, ":1": false, "0.0.0.0:1": false, "10.0.0.1:1": false, "example.org:1": false, "127.0.0.1": false,
	} {
		for _, path := range []string{"http.listen", "warehouse.listen"} {
			if _, err := Load(Sources{Environ: []string{}, NoFile: true, Set: map[string]string{path: addr}}); (err == nil) != ok {
				t.Errorf("%s = %s: %v", path, addr, err)
			}
		}
	}
}

// Beyond loopback there must be logins and encryption.
func TestListeningForOthers(t *testing.T) {
	t.Parallel()
	load := func(set map[string]string) error {
		_, err := Load(Sources{Environ: []string{}, NoFile: true, Set: set})
		return err
	}
	all := map[string]string{"http.listen": "0.0.0.0:8090", "http.auth.mode": "token", "http.tls.cert": "/c.pem", "http.tls.key": "/k.pem"}
	if err := load(all); err != nil {
		t.Error(err)
	}
	for _, leave := range []string{"http.auth.mode", "http.tls.cert", "http.tls.key"} {
		set := maps.Clone(all)
		delete(set, leave)
		if err := load(set); err == nil {
			t.Errorf("without %s others can reach it", leave)
		}
	}
	if err := load(map[string]string{"http.auth.admin_secret": "env:X"}); err == nil {
		t.Error("a secret that is not used goes unnoticed")
	}
}
