package gate

import (
	"strconv"

	"sluice/internal/warehouse/gate/token"
)

// Cursor is DECLARE, FETCH, MOVE or CLOSE.
type Cursor struct {
	Query   []token.Token // of DECLARE; places are those of the whole statement
	Binary  bool
	Refused string // what it asks for and this server has not: "scroll", "hold"
	Rows    int    // of FETCH and MOVE; 0: all
	None    bool   // FETCH 0
}

// readCursor reads the statements about cursors; nil if t is none, or one that the grammar has not.
func readCursor(t []token.Token) *Local {
	switch t[0].Text {
	case "declare":
		return readDeclare(t)
	case "fetch":
		return readFetch(t, Fetch)
	case "move":
		return readFetch(t, Move)
	case "close":
		if len(t) == 2 && t[1].Name() {
			return &Local{Verb: CloseCursor, Tag: "CLOSE CURSOR", Name: t[1].Text}
		}
	}
	return nil
}

func readDeclare(t []token.Token) *Local {
	if len(t) < 5 || !t[1].Name() {
		return nil
	}
	l := &Local{Verb: Declare, Tag: "DECLARE CURSOR", Name: t[1].Text, Cursor: &Cursor{}}
	for i := 2; i < len(t); i++ {
		switch {
		case t[i].Is("binary"):
			l.Cursor.Binary = true
		case t[i].Is("scroll") && !is(t, i-1, "no"):
			l.Cursor.Refused = "scroll"
		case t[i].Is("with") && is(t, i+1, "hold"):
			l.Cursor.Refused = "hold"
		case t[i].Is("for") && i+1 < len(t):
			l.Cursor.Query = t[i+1:]
			return l
		case t[i].Kind != token.Word:
			return nil
		}
	}
	return nil
}

// readFetch reads FETCH [NEXT | FORWARD [n | ALL] | n | ALL] [FROM | IN] name.
func readFetch(t []token.Token, verb LocalVerb) *Local {
	l := &Local{Verb: verb, Cursor: &Cursor{Rows: 1}}
	l.Tag = map[LocalVerb]string{Fetch: "FETCH", Move: "MOVE"}[verb]
	for i := 1; i < len(t); i++ {
		last := i == len(t)-1
		switch {
		case last && t[i].Name():
			l.Name = t[i].Text
			return l
		case t[i].Is("next"), t[i].Is("forward"), t[i].Is("from"), t[i].Is("in"):
		case t[i].Is("all"):
			l.Cursor.Rows = 0
		case t[i].Kind == token.Number:
			n, err := strconv.Atoi(t[i].Text)
			if err != nil {
				return nil
			}
			l.Cursor.Rows, l.Cursor.None = n, n == 0
		default: // PRIOR, BACKWARD, ABSOLUTE, a negative number
			l.Cursor.Refused = "scroll"
		}
	}
	return nil
}
