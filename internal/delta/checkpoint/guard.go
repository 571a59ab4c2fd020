package checkpoint

import (
	"io"

	"github.com/parquet-go/parquet-go"
)

func guardFooter(r io.ReaderAt, size int64) error { return nil }

func guardPages(r io.ReaderAt, f *parquet.File, group parquet.RowGroup, column int) error { return nil }
