package bulk_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/warehouse/bulk"
)

// read gives all rows as one text: fields by |, rows by ;, NULL as ø.
func read(opt bulk.Options, columns, step int, data string) (string, error) {
	r := bulk.NewReader(opt, []string{"a", "b", "c", "d"}[:columns], 1000)
	var out []string
	take := func() error {
		for {
			row, ok, err := r.Next()
			if err != nil || !ok {
				return err
			}
			var fields []string
			for _, f := range row {
				if f.Null {
					fields = append(fields, "ø")
				} else {
					fields = append(fields, string(f.Bytes))
				}
			}
			out = append(out, strings.Join(fields, "|"))
		}
	}
	for i := 0; i < len(data); i += step {
		r.Feed([]byte(data[i:min(i+step, len(data))]))
		if err := take(); err != nil {
			return "", fmt.Errorf("line %d: %w", r.Line(), err)
		}
	}
	r.Close()
	if err := take(); err != nil {
		return "", fmt.Errorf("line %d: %w", r.Line(), err)
	}
	return strings.Join(out, ";"), nil
}

func TestRead(t *testing.T) {
	t.Parallel()
	csv := func(change func(*bulk.Options)) bulk.Options {
		o := bulk.Defaults(bulk.CSV)
		if change != nil {
			change(&o)
		}
		return o
	}
	text := bulk.Defaults(bulk.Text)
	for _, c := range []struct {
		name    string
		opt     bulk.Options
		columns int
		in      string
		want    string // or "!" and a part of the error
	}{
		{"text", text, 2, "1\tx\n2\t\\N\n", "1|x;2|ø"},
		{"no end of line at the end", text, 2, "1\tx\n2\ty", "1|x;2|y"},
		{"CR LF", text, 2, "1\tx\r\n2\ty\r\n", "1|x;2|y"},
		{"escapes", text, 2, "a\\tb\\\\\tc\\nd\\x41\\101\\q\n", "a\tb\\|c\ndAAq"},
		{"escaped delimiter and newline", text, 2, "a\\\tb\tc\\\nd\n", "a\tb|c\nd"},
		{"end mark", text, 1, "1\n\\.\n2\n", "1"},
		{"empty line is an empty text", text, 1, "\n", ""},
		{"missing column", text, 2, "1\tx\n2\n", `!line 2: missing data for column "b"`},
		{"extra column", text, 1, "1\tx\n", "!line 1: extra data after last expected column"},
		{"csv", csv(nil), 3, "1,x,\n2,\"y, \"\"z\"\"\",\"\"\n", `1|x|ø;2|y, "z"|`},
		{"newline in quotes", csv(nil), 2, "\"a\nb\",1\r\nc,2\n", "a\nb|1;c|2"},
		{"header", csv(func(o *bulk.Options) { o.Header = true }), 1, "a\n1\n", "1"},
		{"header must match", csv(func(o *bulk.Options) { o.Header, o.Match = true, true }), 2, "a,x\n1,2\n", `!line 1: column name mismatch in header line field 2: got "x", expected "b"`},
		{"header matches", csv(func(o *bulk.Options) { o.Header, o.Match = true, true }), 2, "a,b\n1,2\n", "1|2"},
		{"other signs", csv(func(o *bulk.Options) { o.Delimiter, o.Quote, o.Escape, o.Null = ';', '\'', '\\', "-" }), 3, "1;'a\\'b;\\\\';-\n", `1|a'b;\|ø`},
		{"force null", csv(func(o *bulk.Options) { o.ForceNull.Names = []string{"a"}; o.ForceNotNull.Names = []string{"b"} }), 2, "\"\",\n", "ø|"},
		{"unterminated", csv(nil), 2, "1,\"x\n", "!line 1: unterminated CSV quoted field"},
		{"too long", csv(nil), 1, strings.Repeat("x", 1001), "!line 1: a row is too long"},
		{"binary", bulk.Defaults(bulk.Binary), 2, "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x01z\x00\x02\x00\x00\x00\x01A\xff\xff\xff\xff\xff\xffrest", "A|ø"},
		{"binary without its end", bulk.Defaults(bulk.Binary), 1, "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x05A", "!unexpected EOF"},
		{"binary of other columns", bulk.Defaults(bulk.Binary), 1, "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x05A", "!row field count is 2, expected 1"},
		{"no signature", bulk.Defaults(bulk.Binary), 1, "1,2,3,4,5,6,7,8,9,10", "!signature not recognized"},
	} {
		for _, step := range []int{1, 2, 3, 1000} {
			got, err := read(c.opt, c.columns, step, c.in)
			if want, fails := strings.CutPrefix(c.want, "!"); fails {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s by %d: %q, %v", c.name, step, got, err)
				}
			} else if err != nil || got != c.want {
				t.Errorf("%s by %d: %q, %v", c.name, step, got, err)
			}
		}
	}
}

// What is written is read again as it was, in each format, however it is cut.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	field := rapid.OneOf(rapid.SampledFrom([]string{"", "a", `\N`, `\.`, `"`, `""`, "a,b", "a\tb", "x\ny", "\r\n", `\`, `\\`, "ø", "'", "NULL"}), rapid.StringMatching(`[a-c"',\\\n\r\t;]{0,6}`))
	rapid.Check(t, func(t *rapid.T) {
		opt := bulk.Defaults(bulk.Format(rapid.IntRange(0, 2).Draw(t, "format")))
		if opt.Format != bulk.Binary {
			opt.Header = rapid.Bool().Draw(t, "header")
		}
		if opt.Format == bulk.CSV {
			opt.ForceQuote.All = rapid.Bool().Draw(t, "force")
			opt.Escape = rapid.SampledFrom([]byte{'"', '\\'}).Draw(t, "escape")
			opt.Null = rapid.SampledFrom([]string{"", "NULL"}).Draw(t, "null")
		}
		columns := rapid.IntRange(1, 3).Draw(t, "columns")
		w := bulk.NewWriter(opt, []string{"a", "b", "c"}[:columns])
		data := w.Begin(nil)
		var want []string
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			data = w.Row(data)
			var fields []string
			for range columns {
				if rapid.Bool().Draw(t, "is null") {
					data, fields = w.Null(data), append(fields, "ø")
				} else {
					f := field.Draw(t, "field")
					data, fields = w.Field(data, []byte(f)), append(fields, f)
				}
			}
			data, want = w.EndRow(data), append(want, strings.Join(fields, "|"))
		}
		data = w.End(data)
		got, err := read(opt, columns, rapid.IntRange(1, 9).Draw(t, "step"), string(data))
		if err != nil || got != strings.Join(want, ";") {
			t.Fatalf("%q: got %q, want %q (%v)", data, got, strings.Join(want, ";"), err)
		}
	})
}

// FuzzReader checks that no data makes the reader panic, loop or hold more than it was given.
func FuzzReader(f *testing.F) {
	f.Add(uint8(0), uint8(3), []byte("1\tx\\\n\n\\.\n"))
	f.Add(uint8(1), uint8(2), []byte("\"a\"\"\n\",b\r\n"))
	f.Add(uint8(2), uint8(7), []byte("PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x01A\xff\xff"))
	f.Fuzz(func(t *testing.T, format, step uint8, data []byte) {
		opt := bulk.Defaults(bulk.Format(format % 3))
		r := bulk.NewReader(opt, []string{"a", "b"}[:1+int(step)%2], 1<<16)
		rows := 0
		for chunk := range chunks(data, int(step)%7+1) {
			r.Feed(chunk)
			for {
				_, ok, err := r.Next()
				if err != nil {
					return
				}
				if !ok {
					break
				}
				if rows++; rows > len(data)+1 {
					t.Fatal("more rows than bytes")
				}
			}
		}
		r.Close()
		for range len(data) + 2 {
			if _, ok, err := r.Next(); !ok || err != nil {
				return
			}
		}
		t.Fatal("no end")
	})
}

func chunks(b []byte, n int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			k := min(n, len(b))
			if !yield(bytes.Clone(b[:k])) {
				return
			}
			b = b[k:]
		}
	}
}
