package gate

import (
	"strings"

	"sluice/internal/warehouse/gate/token"
)

// Verb is what a transaction-control statement does.
type Verb uint8

// The verbs.
const (
	Begin Verb = iota + 1
	Commit
	Rollback
	Savepoint
	Release
	RollbackTo
	TwoPhase // PREPARE TRANSACTION and its ends: not supported
)

// Control is a transaction-control statement.
type Control struct {
	Verb     Verb
	Tag      string // the command tag of BEGIN
	Chain    bool
	ReadOnly *bool
	Name     string // of the savepoint
}

// ReadControl reads BEGIN, COMMIT, ROLLBACK and their spellings; nil for any other statement.
func ReadControl(t []token.Token) *Control {
	if len(t) == 0 || t[0].Kind != token.Word {
		return nil
	}
	c := &Control{Chain: has(t, "and", "chain")}
	switch t[0].Text {
	case "begin":
		c.Verb, c.Tag = Begin, "BEGIN"
	case "start":
		if !is(t, 1, "transaction") {
			return nil
		}
		c.Verb, c.Tag = Begin, "START TRANSACTION"
	case "commit", "end":
		c.Verb = Commit
		if is(t, 1, "prepared") {
			c.Verb = TwoPhase
		}
	case "rollback", "abort":
		c.Verb = Rollback
		for _, k := range t[1:] {
			switch {
			case k.Is("to"):
				c.Verb = RollbackTo
			case k.Is("prepared"):
				c.Verb = TwoPhase
			}
		}
	case "savepoint":
		c.Verb = Savepoint
	case "release":
		c.Verb = Release
	case "prepare":
		if !is(t, 1, "transaction") {
			return nil
		}
		c.Verb = TwoPhase
	default:
		return nil
	}
	switch c.Verb {
	case Begin:
		c.ReadOnly = accessMode(t)
	case Savepoint, Release, RollbackTo:
		if last := t[len(t)-1]; len(t) > 1 && last.Name() && !last.Is("to") {
			c.Name = last.Text
		}
	case Commit, Rollback, TwoPhase:
	}
	return c
}

func accessMode(t []token.Token) *bool {
	for i := range t {
		if t[i].Is("read") && (is(t, i+1, "only") || is(t, i+1, "write")) {
			only := t[i+1].Is("only")
			return &only
		}
	}
	return nil
}

func is(t []token.Token, i int, word string) bool { return i >= 0 && i < len(t) && t[i].Is(word) }

// has reports whether the words follow each other somewhere.
func has(t []token.Token, words ...string) bool {
	for i := range t {
		n := 0
		for n < len(words) && is(t, i+n, words[n]) {
			n++
		}
		if n == len(words) {
			return true
		}
	}
	return false
}

// LocalVerb is what a statement that the server answers itself does.
type LocalVerb uint8

// The local verbs.
const (
	Set LocalVerb = iota + 1
	Reset
	Show
	Discard
	Deallocate
	Declare
	Fetch
	Move
	CloseCursor
	Ignore // accepted without effect: UNLISTEN, SET ROLE NONE …
)

// Local is a statement that the server answers itself.
type Local struct {
	Verb   LocalVerb
	Tag    string
	Name   string // of the setting, lower case; of the prepared statement as it is; "all"
	Values []string
	Local  bool // SET LOCAL
	Cursor *Cursor
}

// ReadLocal reads SET, RESET, SHOW of a setting, DISCARD, DEALLOCATE; nil for any other statement.
func ReadLocal(t []token.Token) *Local {
	if len(t) == 0 || t[0].Kind != token.Word {
		return nil
	}
	switch t[0].Text {
	case "set":
		return readSet(t)
	case "reset":
		l := &Local{Verb: Reset, Tag: "RESET", Name: name(t[1:])}
		if is(t, 1, "session") || is(t, 1, "role") {
			l.Verb = Ignore
		}
		return l
	case "show":
		if len(t) < 2 || is(t, 1, "tables") || is(t, 1, "databases") || is(t, 1, "schemas") || is(t, 2, "tables") || is(t, 1, "columns") {
			return nil
		}
		return &Local{Verb: Show, Tag: "SHOW", Name: name(t[1:])}
	case "discard":
		return &Local{Verb: Discard, Tag: "DISCARD " + strings.ToUpper(text(t, 1)), Name: text(t, 1)}
	case "deallocate":
		i := 1
		if is(t, 1, "prepare") && len(t) > 2 {
			i = 2
		}
		l := &Local{Verb: Deallocate, Tag: "DEALLOCATE", Name: text(t, i)}
		if is(t, i, "all") {
			l.Tag = "DEALLOCATE ALL"
		}
		return l
	case "unlisten":
		return &Local{Verb: Ignore, Tag: "UNLISTEN"}
	}
	return readCursor(t)
}

func text(t []token.Token, i int) string {
	if i < len(t) {
		return t[i].Text
	}
	return ""
}

// name reads the name of a setting, in any of its spellings.
func name(t []token.Token) string {
	switch {
	case len(t) == 0:
		return ""
	case t[0].Is("time") && is(t, 1, "zone"):
		return "timezone"
	case t[0].Is("transaction") && is(t, 1, "isolation"):
		return "transaction_isolation"
	case t[0].Is("names"):
		return "client_encoding"
	}
	n := strings.ToLower(t[0].Text)
	for i := 1; i+1 < len(t) && t[i].Is("."); i += 2 {
		n += "." + strings.ToLower(t[i+1].Text)
	}
	return n
}

func readSet(t []token.Token) *Local {
	l := &Local{Verb: Set, Tag: "SET"}
	rest := t[1:]
	switch {
	case is(rest, 0, "session") && is(rest, 1, "characteristics"):
		l.Name = "default_transaction_read_only"
		if ro := accessMode(rest); ro != nil {
			l.Values = []string{onOff(*ro)}
			return l
		}
		l.Verb = Ignore
		return l
	case is(rest, 0, "session") && is(rest, 1, "authorization"), is(rest, 0, "role"), is(rest, 0, "constraints"):
		l.Verb = Ignore
		if v := rest[len(rest)-1]; !v.Is("default") && !v.Is("none") && !is(rest, 0, "constraints") {
			l.Verb, l.Name, l.Values = Set, "role", []string{v.Text}
		}
		return l
	case is(rest, 0, "local"), is(rest, 0, "session"), is(rest, 0, "global"):
		l.Local = rest[0].Is("local")
		if rest[0].Is("global") {
			l.Name = "global " // no such setting: refused
		}
		rest = rest[1:]
	case is(rest, 0, "transaction"):
		l.Verb = Ignore
		if ro := accessMode(rest); ro != nil {
			l.Verb, l.Name, l.Values, l.Local = Set, "transaction_read_only", []string{onOff(*ro)}, true
		}
		return l
	}
	l.Name += name(rest)
	i := 1
	switch {
	case is(rest, 0, "time") && is(rest, 1, "zone"):
		i = 2
	case is(rest, 0, "names"):
	default:
		for i < len(rest) && !rest[i].Is("=") && !rest[i].Is("to") {
			i++
		}
		i++
	}
	l.Values = values(rest, i)
	return l
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

// values reads a list of values; DEFAULT is an empty list.
func values(t []token.Token, i int) []string {
	var out []string
	sign := ""
	for ; i < len(t); i++ {
		switch {
		case t[i].Is(","):
		case t[i].Is("-") || t[i].Is("+"):
			sign = t[i].Text
		case t[i].Is("default") && len(out) == 0, t[i].Is("local") && len(out) == 0:
			return nil
		case t[i].Is("interval"): // SET TIME ZONE INTERVAL '+02:00' HOUR TO MINUTE
			return []string{text(t, i+1)}
		default:
			out = append(out, strings.TrimPrefix(sign, "+")+t[i].Text)
			sign = ""
		}
	}
	return out
}
