package jsonscan_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"sluice/internal/delta/jsonscan"
)

func TestIntIsExact(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"0": 0, "-0": 0, "9007199254740993": 9007199254740993, "9223372036854775807": 1<<63 - 1, "-9223372036854775808": -1 << 63,
	} {
		s := jsonscan.Scanner{Buf: []byte(text)}
		if got, err := s.Int(); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"9223372036854775808", "-9223372036854775809", "1.0", "1e3", `"1"`, "01", "--1", "99999999999999999999"} {
		s := jsonscan.Scanner{Buf: []byte(text)}
		if got, err := s.Int(); err == nil && s.Done() == nil {
			t.Errorf("%s is taken for %d", text, got)
		}
	}
}

func TestTextIsUnescaped(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"a"`: "a", `""`: "", `"\"\\\/\b\f\n\r\t"`: "\"\\/\b\f\n\r\t", `"\u00e4\uD83D\uDE00\u0000"`: "ä😀\x00", `"a longer text without escapes"`: "a longer text without escapes",
	} {
		s := jsonscan.Scanner{Buf: []byte(text)}
		if got, err := s.Text(nil); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{`"\ud800"`, `"\ud800\u0041"`, `"\udc00"`, `"\x"`, `"\u12g4"`, "\"a\nb\"", "\"12345678\x1f\""} {
		s := jsonscan.Scanner{Buf: []byte(text)}
		if got, err := s.Text(nil); err == nil {
			t.Errorf("%s is taken for %q", text, got)
		}
	}
}

func TestDepthIsLimited(t *testing.T) {
	t.Parallel()
	for depth, ok := range map[int]bool{jsonscan.MaxDepth: true, jsonscan.MaxDepth + 1: false} {
		s := jsonscan.Scanner{Buf: []byte(strings.Repeat("[", depth) + strings.Repeat("]", depth))}
		if err := s.Skip(); (err == nil) != ok {
			t.Errorf("depth %d: %v", depth, err)
		}
	}
}

// Values come whole, however the stream is cut and laid out.
func TestValuesOfAnyLayout(t *testing.T) {
	t.Parallel()
	stream := "{\"a\":1}\n{\n  \"a\" : 2\n}{\"b\":{},\"a\":3}  \r\n {\"a\":4,\"x\":\"" + strings.Repeat("y", 1000) + "\"}"
	for name, r := range map[string]func() []int64{
		"whole":       func() []int64 { return numbers(t, strings.NewReader(stream)) },
		"byte wise":   func() []int64 { return numbers(t, iotest.OneByteReader(strings.NewReader(stream))) },
		"end in data": func() []int64 { return numbers(t, iotest.DataErrReader(strings.NewReader(stream))) },
	} {
		if got := r(); !slices.Equal(got, []int64{1, 2, 3, 4}) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func numbers(t *testing.T, r interface{ Read([]byte) (int, error) }) (got []int64) {
	t.Helper()
	var n int64
	err := jsonscan.Values(r, 1<<20, nil, func(s *jsonscan.Scanner) error {
		return jsonscan.Members(s, []string{"a"}, func(int) (err error) {
			n, err = s.Int()
			return err
		})
	}, func() error {
		got = append(got, n)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestValuesEndsWithItsLimits(t *testing.T) {
	t.Parallel()
	values := func(text string) error {
		return jsonscan.Values(strings.NewReader(text), 100, nil, (*jsonscan.Scanner).Skip, func() error { return nil })
	}
	var limit *jsonscan.LimitError
	if err := values(`"` + strings.Repeat("x", 99) + `"`); !errors.As(err, &limit) {
		t.Errorf("a value of 101 bytes: %v", err)
	}
	if err := values(`"` + strings.Repeat("x", 1<<20)); !errors.As(err, &limit) {
		t.Errorf("a value without an end: %v", err)
	}
	if err := values(`"` + strings.Repeat("x", 98) + `"`); err != nil {
		t.Errorf("a value of 100 bytes: %v", err)
	}
	if err := values(`{"a":`); !errors.Is(err, jsonscan.ErrShort) {
		t.Errorf("a cut value: %v", err)
	}
	if err := values("\"\xff\""); !errors.Is(err, jsonscan.ErrUTF8) {
		t.Errorf("invalid UTF-8: %v", err)
	}
}

func TestMembersComeOnceAndByExactCase(t *testing.T) {
	t.Parallel()
	read := func(text string) (n int64, err error) {
		s := jsonscan.Scanner{Buf: []byte(text)}
		err = jsonscan.Members(&s, []string{"size"}, func(int) (err error) {
			n, err = s.Int()
			return err
		})
		return n, err
	}
	if n, err := read(`{"Size":1,"SIZE":2,"size":3,"other":{"size":4}}`); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := read(`{"size":null}`); n != 0 || err != nil {
		t.Errorf("null: %d, %v", n, err)
	}
	if _, err := read(`{"size":3,"size":3}`); err == nil {
		t.Error("a member that comes twice is taken")
	}
	if _, err := read(`{"size":"3"}`); err == nil || err.Error() != "size: not a 64-bit integer" {
		t.Errorf("a text for a number: %v", err)
	}
}

// What the scanner takes for a value is what the standard library takes for one.
func FuzzSkip(f *testing.F) {
	for _, text := range []string{`{"a":[1,-2.5e+3,true,false,null,"\u00e4\\"],"b":{}}`, `01`, `[1,]`, `{"a" 1}`, `"\ud800"`, "\"\x01\"", `-`, `1.`, `[[[]]]`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s := jsonscan.Scanner{Buf: text}
		err := s.Skip()
		if err == nil {
			err = s.Done()
		}
		var syntax *jsonscan.SyntaxError
		if errors.As(err, &syntax) && syntax.What == "nested too deep" {
			return
		}
		if (err == nil) != json.Valid(text) {
			t.Fatalf("%q: %v, but valid is %t", text, err, json.Valid(text))
		}
	})
}
