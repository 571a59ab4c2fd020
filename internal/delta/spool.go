package delta

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"sluice/internal/objstore"
)

// inMemory is up to which size a checkpoint's file is held in memory while it is read.
const inMemory = 16 << 20

// spooled is a file of the log at hand: Parquet is read from here and there in it, and a store is best read in one go.
type spooled struct {
	io.ReaderAt
	size int64
	file *os.File
}

func (s *spooled) Close() {
	if s.file != nil {
		s.file.Close()
	}
}

// spool fetches a file, as it was when it was listed, into memory or into a temporary file that has no name any more.
func (t *Table) spool(ctx context.Context, key, etag string) (*spooled, error) {
	r, o, err := t.store.Get(ctx, key, objstore.Whole, etag)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if o.Size <= inMemory {
		b := make([]byte, o.Size)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, shorter(err, key)
		}
		return &spooled{ReaderAt: bytes.NewReader(b), size: o.Size}, nil
	}
	f, err := os.CreateTemp("", "sluice-delta-*")
	if err != nil {
		return nil, fmt.Errorf("make a temporary file: %w", err)
	}
	err = os.Remove(f.Name())
	if err == nil {
		_, err = io.CopyN(f, r, o.Size)
		err = shorter(err, key)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &spooled{ReaderAt: f, size: o.Size, file: f}, nil
}

// shorter says that the store sent less than it announced.
func shorter(err error, key string) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("get %s: the store sent less than it said: %w", key, objstore.ErrUnavailable)
	}
	return err
}
