package config

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// complete makes paths absolute, fills in what depends on other keys, and checks everything.
func (r *reader) complete() {
	c := &r.loaded.Config
	r.directory("data", &c.Data)
	if c.Instance == "" {
		c.Instance = instanceName()
	}
	r.roles(c)
	r.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	r.oneOf("log.format", c.Log.Format, "auto", "text", "json")
	r.oneOf("catalog.kind", c.Catalog.Kind, CatalogDuckDB, CatalogPostgres)
	if c.Catalog.Kind == CatalogPostgres {
		r.needed("catalog.dsn", c.Catalog.DSN)
		r.needed("catalog.role_key", c.Catalog.RoleKey)
	}
	r.store(c)
	r.objects(c)
	r.delta(c)
	if c.Server != "" {
		if u, err := url.Parse(c.Server); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			r.wrong("server", "it must be a URL like http://127.0.0.1:8090")
		}
	}
	r.auth(c)
	c.HTTP.Asked = r.loaded.origin["http.listen"] != "default"
	r.listen("warehouse.listen", c.Warehouse.Listen)
	if c.Warehouse.Extensions != "" {
		r.directory("warehouse.extensions", &c.Warehouse.Extensions)
	}
	if c.Loader.Warehouse == "" {
		c.Loader.Warehouse = c.Warehouse.Listen
	} else if _, err := hostOf(c.Loader.Warehouse); err != nil {
		r.wrong("loader.warehouse", err.Error())
	}
	for i := range c.Loader.ExtractPrefixes {
		r.directory("loader.extract_prefixes", &c.Loader.ExtractPrefixes[i])
	}
	r.numbers(c)
	r.kafka(c)
	if c.Loader.Lease.Heartbeat*2 > c.Loader.Lease.TTL {
		r.wrong("loader.lease.heartbeat", fmt.Sprintf("it must be at most half of loader.lease.ttl, which is %s", c.Loader.Lease.TTL))
	}
	if c.Loader.DrainTimeout > drainMost {
		r.wrong("loader.drain_timeout", fmt.Sprintf("it must be at most %s", drainMost))
	}
}

// drainMost keeps the whole shutdown below 45 s.
const drainMost = Duration(40_000_000_000)

func (r *reader) numbers(c *Config) {
	for _, n := range []struct {
		path             string
		value, least, to int
	}{
		{"warehouse.threads", c.Warehouse.Threads, 0, 1024},
		{"warehouse.max_instances", c.Warehouse.MaxInstances, 0, 100_000},
		{"warehouse.max_connections", c.Warehouse.MaxConnections, 1, 100_000},
		{"catalog.pool_per_org", c.Catalog.PoolPerOrg, 1, 1000},
		{"loader.concurrency", c.Loader.Concurrency, 1, 1000},
		{"loader.max_attempts", c.Loader.MaxAttempts, 1, 1000},
		{"http.rate", c.HTTP.Rate, 0, 1_000_000},
		{"changelog.flush_rows", c.Changelog.FlushRows, 1, 100_000_000},
		{"backfill.per_org", c.Backfill.PerOrg, 0, 1000},
		{"backfill.global", c.Backfill.Global, 0, 10_000},
		{"fanout.flush_rows", c.Fanout.FlushRows, 1, 100_000_000},
		{"fanout.concurrency", c.Fanout.Concurrency, 1, 1000},
		{"fanout.seeds", c.Fanout.Seeds, 1, 100},
	} {
		if n.value < n.least || n.value > n.to {
			r.wrong(n.path, fmt.Sprintf("it must be between %d and %d", n.least, n.to))
		}
	}
	for _, d := range []struct {
		path  string
		value Duration
	}{
		{"loader.poll", c.Loader.Poll},
		{"loader.batch_timeout", c.Loader.BatchTimeout},
		{"loader.chunk_timeout", c.Loader.ChunkTimeout},
		{"backfill.interval", c.Backfill.Interval},
		{"backfill.look_again", c.Backfill.LookAgain},
		{"backfill.empty_apart", c.Backfill.EmptyApart},
		{"loader.drain_timeout", c.Loader.DrainTimeout},
		{"loader.retry_base", c.Loader.RetryBase},
		{"loader.second_look", c.Loader.SecondLook},
		{"loader.lease.ttl", c.Loader.Lease.TTL},
		{"loader.lease.heartbeat", c.Loader.Lease.Heartbeat},
		{"loader.session.idle", c.Loader.Session.Idle},
		{"loader.session.max_age", c.Loader.Session.MaxAge},
		{"sweep.interval", c.Sweep.Interval},
		{"changelog.flush_interval", c.Changelog.FlushInterval},
		{"changelog.check", c.Changelog.Check},
		{"fanout.flush_interval", c.Fanout.FlushInterval},
		{"fanout.poll", c.Fanout.Poll},
		{"fanout.discovery", c.Fanout.Discovery},
		{"fanout.lease_ttl", c.Fanout.LeaseTTL},
		{"changelog.poll", c.Changelog.Poll},
		{"changelog.lease.ttl", c.Changelog.Lease.TTL},
		{"changelog.lease.heartbeat", c.Changelog.Lease.Heartbeat},
	} {
		if d.value <= 0 {
			r.wrong(d.path, "it must be more than 0")
		}
	}
	if c.Backfill.ChunkBytes <= 0 {
		r.wrong("backfill.chunk_bytes", "it must be more than 0")
	}
	if m := c.Warehouse.MemoryLimit; m.Percent == 0 && m.Bytes < 256<<20 {
		r.wrong("warehouse.memory_limit", "it must be at least 256MiB")
	}
}

// wrong reports a value that can be read but not used.
func (r *reader) wrong(path, reason string) {
	if slices.ContainsFunc(r.problems, func(p Problem) bool { return p.Path == path }) {
		return // what it holds is the default, because what was given could not be read
	}
	r.problem(path, r.find(path).text(), r.loaded.origin[path], reason)
}

func (r *reader) oneOf(path, value string, allowed ...string) {
	if slices.Contains(allowed, value) {
		return
	}
	r.wrong(path, "it must be one of "+strings.Join(allowed, ", ")+suggestion(nearest(value, allowed)))
}

func (r *reader) roles(c *Config) {
	if len(c.Roles) == 0 {
		r.wrong("roles", "at least one role is needed")
	}
	for _, role := range c.Roles {
		if role != "all" && !slices.Contains(AllRoles, role) {
			r.wrong("roles", fmt.Sprintf("there is no role %q: use all, or some of %s", role, strings.Join(AllRoles, ", "))+suggestion(nearest(role, AllRoles)))
		}
	}
}

func (r *reader) needed(path string, s Secret) {
	if !s.IsSet() {
		r.problem(path, "", r.loaded.origin[path], "it is needed with catalog.kind = postgres: write {env: NAME} or {file: PATH}")
	}
}

// directory makes a path absolute.
func (r *reader) directory(path string, dir *string) {
	if *dir == "" {
		r.wrong(path, "it must name a directory")
		return
	}
	abs, err := filepath.Abs(*dir)
	if err != nil {
		r.wrong(path, err.Error())
		return
	}
	*dir = abs
}

// store turns store.url into an absolute directory.
func (r *reader) store(c *Config) {
	switch u := c.Store.URL; {
	case u == "":
		c.Store.URL = c.Path("lake")
	case strings.HasPrefix(u, "file://"):
		parsed, err := url.Parse(u)
		if err != nil || parsed.Host != "" || !filepath.IsAbs(parsed.Path) {
			r.wrong("store.url", "a file URL has an absolute path: file:///srv/lake")
			return
		}
		c.Store.URL = filepath.Clean(parsed.Path)
	case strings.Contains(u, "://"):
		r.wrong("store.url", "only local directories can be used: a path or a file:// URL")
	default:
		r.directory("store.url", &c.Store.URL)
	}
}

// auth checks who may use the API from where: beyond loopback there must be logins and encryption.
func (r *reader) auth(c *Config) {
	h := &c.HTTP
	r.oneOf("http.auth.mode", h.Auth.Mode, AuthLocal, AuthToken)
	if (h.TLS.Cert == "") != (h.TLS.Key == "") {
		r.wrong("http.tls.key", "certificate and key go together")
	}
	for path, file := range map[string]*string{"http.tls.cert": &h.TLS.Cert, "http.tls.key": &h.TLS.Key} {
		if *file != "" {
			r.directory(path, file)
		}
	}
	if h.Auth.Mode == AuthLocal {
		for path, s := range map[string]Secret{"http.auth.admin_secret": h.Auth.AdminSecret, "http.auth.discovery_secret": h.Auth.DiscoverySecret} {
			if s.IsSet() {
				r.wrong(path, "it is used with http.auth.mode = token only")
			}
		}
	}
	if h.Auth.Mode != AuthToken || !h.TLS.On() {
		r.listen("http.listen", h.Listen)
		return
	}
	if _, err := hostOf(h.Listen); err != nil {
		r.wrong("http.listen", err.Error())
	}
}

// listen checks an address and refuses one that other machines can reach: there is neither login nor encryption.
func (r *reader) listen(path, addr string) {
	host, err := hostOf(addr)
	if err != nil {
		r.wrong(path, err.Error())
		return
	}
	if !Loopback(host) {
		r.wrong(path, "only loopback addresses can be used, like 127.0.0.1: there is neither login nor encryption for others")
	}
}

// Loopback reports whether a host can be reached from this machine only.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// hostOf gives the host of an address, whose port must be a number.
func hostOf(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return "", fmt.Errorf("it must be an address with a port, like 127.0.0.1:8090")
	}
	return host, nil
}

// instanceName is the host's name with a random part.
func instanceName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "sluice"
	}
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return host + "-" + hex.EncodeToString(b[:])
}
