//go:build embed_extensions

package extension

import (
	"embed"
	"io/fs"
)

//go:embed embedded/*.duckdb_extension.gz
var embedded embed.FS

func init() {
	sub, err := fs.Sub(embedded, "embedded")
	if err != nil {
		panic(err) // the directory is named in this file
	}
	carried = sub
}
