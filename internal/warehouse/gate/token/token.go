package token

// Kind is the kind of a token.
type Kind uint8

// The kinds.
const (
	Word   Kind = iota + 1 // an identifier or key word without quotes; Text is folded to lower case
	Quoted                 // "an identifier"; Text is decoded
	String                 // any string literal; Text is decoded
	Number
	Param // $1, $name, ?; Text is "1", "name" or ""
	Op    // a run of operator characters, or one of ( ) [ ] { } , . : ;
	Other // what no rule reads, also a string without an end
)

// Token is a piece of SQL text: sql[Pos:End].
type Token struct {
	Kind     Kind
	Text     string
	Pos, End int
	// Closed is false for a string, quoted identifier or comment without an end.
	Closed bool
}

// Is reports whether t is the key word or operator s (lower case).
func (t Token) Is(s string) bool {
	return (t.Kind == Word || t.Kind == Op) && t.Text == s
}

// Name reports whether t can name something.
func (t Token) Name() bool { return t.Kind == Word || t.Kind == Quoted }

// Statement is one statement of a string.
type Statement struct {
	Text   string // without the semicolon, comments at both ends cut off
	Offset int    // of Text in the string
	Tokens []Token
}

// Split cuts a string into its statements; empty ones are left out.
func Split(sql string) []Statement {
	var out []Statement
	var toks []Token
	flush := func() {
		if len(toks) == 0 {
			return
		}
		from, to := toks[0].Pos, toks[len(toks)-1].End
		for i := range toks {
			toks[i].Pos -= from
			toks[i].End -= from
		}
		out = append(out, Statement{Text: sql[from:to], Offset: from, Tokens: toks})
		toks = nil
	}
	s := scanner{src: sql}
	for {
		t, ok := s.next()
		if !ok {
			break
		}
		if t.Is(";") {
			flush()
			continue
		}
		toks = append(toks, t)
	}
	flush()
	return out
}

// Scan gives all tokens of a text.
func Scan(sql string) []Token {
	var out []Token
	s := scanner{src: sql}
	for {
		t, ok := s.next()
		if !ok {
			return out
		}
		out = append(out, t)
	}
}
