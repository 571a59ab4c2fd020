package config

import (
	"fmt"
	"math"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Duration is a time span, written like 30s, 15m, 24h or 7d.
type Duration time.Duration

// D is the span as the standard type.
func (d Duration) D() time.Duration { return time.Duration(d) }

func (d Duration) String() string {
	t := time.Duration(d)
	const day = 24 * time.Hour
	switch {
	case t != 0 && t%day == 0:
		return fmt.Sprintf("%dd", t/day)
	case t != 0 && t%time.Hour == 0:
		return fmt.Sprintf("%dh", t/time.Hour)
	case t != 0 && t%time.Minute == 0:
		return fmt.Sprintf("%dm", t/time.Minute)
	}
	return t.String()
}

var days = regexp.MustCompile(`^(\d+)d(.*)$`)

// ParseDuration reads 30s, 1h30m, 7d or 1d12h.
func ParseDuration(s string) (Duration, error) {
	bad := fmt.Errorf("%q is not a duration: write it like 30s, 15m, 24h or 7d", s)
	var sum time.Duration
	rest := s
	if m := days.FindStringSubmatch(s); m != nil {
		n, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil || n > 36500 {
			return 0, bad
		}
		sum, rest = time.Duration(n)*24*time.Hour, m[2]
		if rest == "" {
			return Duration(sum), nil
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || sum > math.MaxInt64-d {
		return 0, bad
	}
	return Duration(sum + d), nil
}

// Size is a number of bytes, written like 512MiB or 1GiB.
type Size int64

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && int64(s)%u.bytes == 0 {
			return fmt.Sprintf("%d%s", int64(s)/u.bytes, u.name)
		}
	}
	return "0"
}

// ParseSize reads 1GiB, 512MiB, 64KiB, 100B or a plain number of bytes.
func ParseSize(s string) (Size, error) {
	text, factor := s, int64(1)
	for _, u := range sizeUnits {
		if t, ok := strings.CutSuffix(s, u.name); ok {
			text, factor = t, u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/factor {
		return 0, fmt.Errorf("%q is not a size: write it like 512MiB or 1GiB", s)
	}
	return Size(n * factor), nil
}

// Memory is a size, or a share of the memory that this process may use.
type Memory struct {
	Bytes   Size
	Percent int // if not 0, it counts instead of Bytes
}

func (m Memory) String() string {
	if m.Percent > 0 {
		return fmt.Sprintf("%d%%", m.Percent)
	}
	return m.Bytes.String()
}

// ParseMemory reads a size or a percentage.
func ParseMemory(s string) (Memory, error) {
	if t, ok := strings.CutSuffix(s, "%"); ok {
		n, err := strconv.Atoi(t)
		if err != nil || n < 1 || n > 100 {
			return Memory{}, fmt.Errorf("%q is not a share of memory: write it like 75%%", s)
		}
		return Memory{Percent: n}, nil
	}
	size, err := ParseSize(s)
	if err != nil {
		return Memory{}, fmt.Errorf("%q is neither a size like 8GiB nor a share like 75%%", s)
	}
	return Memory{Bytes: size}, nil
}

// Resolve gives the limit in bytes; a share is one of the container's memory, or of the machine's outside of one.
func (m Memory) Resolve() int64 {
	if m.Percent == 0 {
		return int64(m.Bytes)
	}
	return available() / 100 * int64(m.Percent)
}

// available is the memory of the container, or of the machine.
func available() int64 {
	machine := int64(8 << 30)
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kib int64
		if _, err := fmt.Sscanf(string(b), "MemTotal: %d kB", &kib); err == nil {
			machine = kib << 10
		}
	}
	for _, f := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 {
			return min(n, machine)
		}
	}
	return machine
}

// Secret is a reference to a secret: an environment variable or a file. It is read on use, so that a rotated secret needs
// no restart, and has no method that shows the value. A key whose `literal` tag is dsn also takes a literal as long as
// there is no password in it.
type Secret struct {
	Env     string
	File    string
	Literal string // no secret: a DSN without a password
}

// IsSet reports whether there is a reference.
func (s Secret) IsSet() bool { return s != Secret{} }

// Read gets the secret; a trailing newline is cut. An error names the reference, never a value.
func (s Secret) Read() (string, error) {
	switch {
	case s.Env != "":
		v, ok := os.LookupEnv(s.Env)
		if !ok || v == "" {
			return "", fmt.Errorf("read secret: the environment variable %s is not set", s.Env)
		}
		return v, nil
	case s.File != "":
		b, err := os.ReadFile(s.File)
		if err != nil {
			return "", fmt.Errorf("read secret: %w", err)
		}
		v := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
		if v == "" {
			return "", fmt.Errorf("read secret: %s is empty", s.File)
		}
		return v, nil
	}
	return s.Literal, nil
}

// String shows the reference: nothing that leaves this package shows a secret.
func (s Secret) String() string {
	switch {
	case s.Env != "":
		return "*** (env " + s.Env + ")"
	case s.File != "":
		return "*** (file " + s.File + ")"
	}
	return s.Literal
}

// parseSecretText reads the form that flags and literals in a file have: env:NAME, file:PATH or, for a DSN, a text
// without a password.
func parseSecretText(s string, dsn bool) (Secret, error) {
	if name, ok := strings.CutPrefix(s, "env:"); ok && name != "" {
		return Secret{Env: name}, nil
	}
	if !dsn {
		if path, ok := strings.CutPrefix(s, "file:"); ok && path != "" {
			return Secret{File: path}, nil
		}
		return Secret{}, fmt.Errorf("a secret must be a reference: {env: NAME} or {file: PATH} in a file, env:NAME or file:PATH as a flag")
	}
	if path, ok := strings.CutPrefix(s, "file:"); ok && path != "" && !strings.HasPrefix(path, "//") {
		return Secret{File: path}, nil
	}
	if hasPassword(s) {
		return Secret{}, fmt.Errorf("there is a password in it: write {env: NAME} or {file: PATH} in a file, env:NAME or file:PATH as a flag")
	}
	return Secret{Literal: s}, nil
}

var passwordKeyword = regexp.MustCompile(`(?i)(^|[\s?&])(password|passfile|sslpassword)\s*=`)

// hasPassword reports whether a DSN, as a URL or as keywords, holds a password. What cannot be read counts as one.
func hasPassword(dsn string) bool {
	if strings.Contains(dsn, "://") {
		u, err := url.Parse(dsn)
		if err != nil {
			return true
		}
		if _, has := u.User.Password(); has {
			return true
		}
	}
	return passwordKeyword.MatchString(dsn)
}
