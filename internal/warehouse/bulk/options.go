package bulk

import "slices"

// Format is a format of COPY.
type Format uint8

// The formats.
const (
	Text Format = iota
	CSV
	Binary
)

// Options are what WITH (…) says. Defaults gives those of a format.
type Options struct {
	Format    Format
	Delimiter byte
	Null      string
	Header    bool
	Match     bool // the header must name the columns
	Quote     byte
	Escape    byte

	ForceQuote   Columns
	ForceNotNull Columns
	ForceNull    Columns
}

// Columns names some columns, or all.
type Columns struct {
	All   bool
	Names []string
}

// Has reports whether a column is among them.
func (c Columns) Has(name string) bool { return c.All || slices.Contains(c.Names, name) }

// Defaults are the options of a format when nothing else is said.
func Defaults(f Format) Options {
	if f == CSV {
		return Options{Format: CSV, Delimiter: ',', Quote: '"', Escape: '"'}
	}
	return Options{Format: f, Delimiter: '\t', Null: `\N`}
}
