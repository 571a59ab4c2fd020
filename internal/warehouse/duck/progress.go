package duck

import bindings "github.com/duckdb/duckdb-go-bindings"

// Progress is how much of the statement that the connection runs is done, between 0 and 1; less than 0 if that is not
// known. Unlike everything else of a connection it may be asked while a statement runs.
func (c *Conn) Progress() float64 {
	p := bindings.QueryProgress(c.raw)
	percentage, _, _ := bindings.QueryProgressTypeMembers(&p)
	if percentage < 0 {
		return -1
	}
	return min(percentage/100, 1)
}
